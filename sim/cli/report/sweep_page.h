/* sweep_page.h -- what the parts of a sweep's page share.
 *
 *     report_sweep.c   the answer, what it rests on, the tables
 *     sweep_charts.c   metrics over what varied, and what is traded for what
 *     sweep_page.c     the metrics that are shown, and the best points by them */
#ifndef KVT_CLI_REPORT_SWEEP_PAGE_H
#define KVT_CLI_REPORT_SWEEP_PAGE_H

#include "report.h"
#include "swept.h"

enum {
    SWEEP_SHOWN = 9
};

#define SWEEP_OUTPUT "output_throughput_per_gpu"
#define SWEEP_TPOT "mean_tpot_ms"
#define SWEEP_MARGIN "slo_margin"
#define SWEEP_COST "usd_per_million_output_tokens"

/* The metrics that are drawn and tabled, of all that results.json holds. */
struct sweep_metric {
    const char *name;
    const char *id, *label; /* of a chart; NULL: it has none */
    const char *column, *title;
    double scale;
    bool is_from_zero;
};
extern const struct sweep_metric sweep_shown[SWEEP_SHOWN];

struct sweep_page {
    struct report_page *page;
    const cJSON *tree;
    struct kvt_arena *arena;
    struct swept swept;
    struct sweep_range {
        double least, most; /* infinite: no point has the metric */
    } ranges[SWEEP_SHOWN];
};

/* From the points that are read. */
void sweep_find_ranges(struct sweep_page *source);
/* Whether any point has the metric; whether points differ in it. */
bool sweep_is_known(const struct sweep_page *source, size_t metric);
bool sweep_varies(const struct sweep_page *source, size_t metric);

/* That has most of a metric, or least; of those that can be had, and keep all promises where that
 * is asked. NULL: none has any. */
const struct swept_point *sweep_best(const struct swept *swept, const char *metric, bool most,
                                     bool keeps_promises);
/* Those with most output, at most so many, by number; the caller's to free(). NULL: no memory. */
const struct swept_point **sweep_best_points(const struct swept *swept, size_t most, size_t *count);
/* Pointers to points, by output, the most first, those without any last; for qsort(). */
int sweep_compare_outputs(const void *a, const void *b);

/* sweep_charts.c. False: no memory. */
bool sweep_put_over_axis(const struct sweep_page *source); /* where there is an axis of numbers */
bool sweep_put_bars(const struct sweep_page *source);      /* where there is none */
bool sweep_put_trades(const struct sweep_page *source);

#endif
