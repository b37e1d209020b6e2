/* sim_course.c -- quantities over a run whose length is not known yet. */
#include "sim_course.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CELL_NS (KVT_NS_PER_S / 1000)

kvt_status sim_course_open(struct sim_course *course, struct kvt_error *err)
{
    *course = (struct sim_course){.cell_ns = FIRST_CELL_NS,
                                  .cells = calloc(COURSE_CELLS, sizeof *course->cells)};
    return course->cells ? KVT_OK : kvt_fail_nomem(err, "the course of a run");
}

void sim_course_close(struct sim_course *course)
{
    free(course->cells);
    course->cells = NULL;
}

static void widen(struct sim_course *course)
{
    for (size_t cell = 0; cell < COURSE_CELLS / 2; cell++) {
        for (int q = 0; q < COURSE_QUANTITIES; q++)
            course->cells[cell][q] = course->cells[2 * cell][q] + course->cells[2 * cell + 1][q];
    }
    memset(course->cells + COURSE_CELLS / 2, 0, COURSE_CELLS / 2 * sizeof *course->cells);
    course->cell_ns *= 2;
}

void sim_course_add(struct sim_course *course, kvt_ns from_ns, kvt_ns to_ns,
                    const double values[COURSE_QUANTITIES])
{
    while ((to_ns - 1) / course->cell_ns >= COURSE_CELLS)
        widen(course);
    while (from_ns < to_ns) {
        kvt_ns cell = from_ns / course->cell_ns;
        kvt_ns cell_end_ns = (cell + 1) * course->cell_ns;
        kvt_ns until_ns = to_ns < cell_end_ns ? to_ns : cell_end_ns;
        for (int q = 0; q < COURSE_QUANTITIES; q++)
            course->cells[cell][q] += values[q] * (double)(until_ns - from_ns);
        from_ns = until_ns;
    }
}

void sim_course_integrate(const struct sim_course *course, double from_ns, double to_ns,
                          double integrals[COURSE_QUANTITIES])
{
    double width = (double)course->cell_ns;

    memset(integrals, 0, COURSE_QUANTITIES * sizeof *integrals);
    for (double cell = floor(from_ns / width); cell < COURSE_CELLS && cell * width < to_ns;
         cell++) {
        double begin = fmax(from_ns, cell * width), end = fmin(to_ns, (cell + 1) * width);
        for (int q = 0; q < COURSE_QUANTITIES; q++)
            integrals[q] += course->cells[(size_t)cell][q] * ((end - begin) / width);
    }
}
