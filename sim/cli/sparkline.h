/* sparkline.h -- the course of a run on one line a quantity. */
#ifndef KVT_CLI_SPARKLINE_H
#define KVT_CLI_SPARKLINE_H

#include <stdbool.h>
#include <stddef.h>

#include "kvt/error.h"
#include "kvt/report.h"

/* Whether stdout's reader can show block elements: by locale, and a terminal that is not dumb. */
bool sparklines_in_utf8(void);

enum {
    SPARKLINES = 6
};
struct sparklines {
    struct sparkline_interval {
        double from_s, to_s;
        double values[SPARKLINES]; /* NaN: none */
    } * intervals;                 /* [count] */
    size_t count, capacity;
    bool is_short_of_memory;
};

/* The next interval of a run; as kvt_sim_options.on_interval, with zeroed lines as its context. */
void sparklines_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count);
/* Every interval of a timeline.csv. */
KVT_CHECKED kvt_status sparklines_read(struct sparklines *lines, const char *path,
                                       struct kvt_error *err);
/* Prints who decodes and who waits, coverage, fetches, gaps and output, 80 columns wide; a quantity
 * that never had a value is left out. */
KVT_CHECKED kvt_status sparklines_put(const struct sparklines *lines, bool utf8,
                                      struct kvt_error *err);
void sparklines_free(struct sparklines *lines);

#endif
