/* timeline_columns.h -- the course of a run: its intervals, in bins, as columns of numbers. */
#ifndef KVT_CLI_TIMELINE_COLUMNS_H
#define KVT_CLI_TIMELINE_COLUMNS_H

#include <cjson/cJSON.h>

#include "kvt/report.h"

enum timeline_column {
    TIMELINE_FROM_S,
    TIMELINE_TO_S,
    TIMELINE_SLOTS,   /* requests that hold one, mean */
    TIMELINE_RUNNING, /* requests that decode, mean */
    TIMELINE_HOST_FETCH_SHARE,
    TIMELINE_COVERAGE,
    TIMELINE_MEAN_STEP_MS,
    TIMELINE_COLUMNS
};
/* As the columns are called in JSON, and in timeline.csv where it has them. */
const char *timeline_column_name(enum timeline_column column);

struct timeline_columns {
    double bin_s;                    /* a bin closes once it is so long; 0: each interval is one */
    struct kvt_tally bin;            /* the one under way */
    cJSON *tree;                     /* the caller's, from timeline_columns_open() on */
    cJSON *arrays[TIMELINE_COLUMNS]; /* arrays of the tree */
    bool is_short_of_memory;
};

/* An object of empty columns. */
KVT_CHECKED kvt_status timeline_columns_open(struct timeline_columns *columns, double bin_s,
                                             struct kvt_error *err);
/* The next interval; as kvt_sim_options.on_interval, with these as its context. */
void timeline_columns_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count);
/* Closes the last bin. *out is the caller's to delete. */
KVT_CHECKED kvt_status timeline_columns_close(struct timeline_columns *columns, cJSON **out,
                                              struct kvt_error *err);
/* Of columns that are not closed; takes one that is zeroed. */
void timeline_columns_discard(struct timeline_columns *columns);

#endif
