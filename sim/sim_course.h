/* sim_course.h -- quantities over a run whose length is not known yet.
 *
 * Integrals are kept in cells of equal width; when the cells run out, neighbours
 * are merged and cells are twice as wide. So means over any part of the run are
 * good to a ten-thousandth of the run, whatever its length, and do not depend on
 * how often it is reported on. */
#ifndef KVT_SIM_COURSE_H
#define KVT_SIM_COURSE_H

#include "kvt/error.h"

enum course_quantity {
    COURSE_RUNNING,  /* requests decoding */
    COURSE_COVERAGE, /* ready optional rows / eligible rows, while there are any */
    COURSE_COVERED,  /* 1 while there are eligible rows */
    COURSE_QUANTITIES
};

enum {
    COURSE_CELLS = 65536
};

struct sim_course {
    kvt_ns cell_ns;
    double (*cells)[COURSE_QUANTITIES]; /* [COURSE_CELLS] value x ns */
};

KVT_CHECKED kvt_status sim_course_open(struct sim_course *course, struct kvt_error *err);
void sim_course_close(struct sim_course *course);
/* The quantities had these values from from_ns to to_ns; from_ns never goes back. */
void sim_course_add(struct sim_course *course, kvt_ns from_ns, kvt_ns to_ns,
                    const double values[COURSE_QUANTITIES]);
/* Integrals over [from_ns, to_ns), cells on the edge by their overlap. */
void sim_course_integrate(const struct sim_course *course, double from_ns, double to_ns,
                          double integrals[COURSE_QUANTITIES]);

#endif
