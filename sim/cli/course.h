/* course.h -- the course of a run: its intervals, in bins, as columns of numbers. */
#ifndef KVT_CLI_COURSE_H
#define KVT_CLI_COURSE_H

#include <cjson/cJSON.h>

#include "kvt/report.h"

enum course_column {
    COURSE_FROM_S,
    COURSE_TO_S,
    COURSE_SLOTS,   /* requests that hold one, mean */
    COURSE_RUNNING, /* requests that decode, mean */
    COURSE_HOST_FETCH_SHARE,
    COURSE_COVERAGE,
    COURSE_MEAN_STEP_MS,
    COURSE_COLUMNS
};
/* As the columns are called in JSON, and in timeline.csv where it has them. */
const char *course_column_name(enum course_column column);

struct course {
    double bin_s;                   /* a bin closes once it is so long; 0: each interval is one */
    struct kvt_tally bin;           /* the one under way */
    cJSON *tree;                    /* the caller's, from course_open() on */
    cJSON *columns[COURSE_COLUMNS]; /* arrays of the tree */
    bool is_short_of_memory;
};

/* An object of empty columns. */
KVT_CHECKED kvt_status course_open(struct course *course, double bin_s, struct kvt_error *err);
/* The next interval; as kvt_sim_options.on_interval, with the course as its context. */
void course_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count);
/* Closes the last bin. *out is the caller's to delete. */
KVT_CHECKED kvt_status course_close(struct course *course, cJSON **out, struct kvt_error *err);
/* Of a course that is not closed; takes one that is zeroed. */
void course_discard(struct course *course);

#endif
