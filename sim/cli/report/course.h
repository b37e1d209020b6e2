/* course.h -- timeline.csv in at most COURSE_BINS_MAX bins, whatever the run's length. */
#ifndef KVT_CLI_REPORT_COURSE_H
#define KVT_CLI_REPORT_COURSE_H

#include "kvt/error.h"

enum {
    COURSE_BINS_MAX = 600
};

enum course_column {
    COURSE_FROM_S,
    COURSE_TO_S,
    COURSE_DECODING, /* means over time */
    COURSE_WAITING,
    COURSE_IMPORTING,
    COURSE_SLOTS_HELD,
    COURSE_COVERAGE,
    COURSE_HOST_FETCH_SHARE, /* of what is selected */
    COURSE_SELECTED_ROWS,    /* sums */
    COURSE_OUTPUT_TOKENS,
    COURSE_H2D_BYTES,
    COURSE_FILL_BYTES,
    COURSE_D2H_BYTES,
    COURSE_IMPORT_BYTES,
    COURSE_PREEMPTIONS,
    COURSE_STEPS,
    COURSE_STEP_MS,        /* of a step, mean */
    COURSE_HBM_PEAK_BYTES, /* most */
    COURSE_HOST_PEAK_BYTES,
    COURSE_COLUMNS
};

struct course {
    double bins[COURSE_BINS_MAX][COURSE_COLUMNS]; /* [bin_count] NaN: not defined */
    double weights[COURSE_BINS_MAX][COURSE_COLUMNS];
    size_t bin_count;
    size_t rows_per_bin; /* of the file; a power of two */
};

KVT_CHECKED kvt_status course_load(const char *path, struct course *out, struct kvt_error *err);

#endif
