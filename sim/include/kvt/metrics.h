/* kvt/metrics.h -- counters and distributions that merge to the same bits. */
#ifndef KVT_METRICS_H
#define KVT_METRICS_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* A histogram of non-negative 64-bit values in logarithmic buckets of relative
 * width at most 0.1 % (values below 1,024 are exact): ITL in ns. Integer counts
 * only, so that merging in any order gives the same bits. */
struct kvt_histogram;
struct kvt_histogram *kvt_histogram_new(void); /* NULL when memory is short */
void kvt_histogram_free(struct kvt_histogram *histogram);
void kvt_histogram_add(struct kvt_histogram *histogram, uint64_t value, uint64_t times);
void kvt_histogram_merge(struct kvt_histogram *into, const struct kvt_histogram *from);
uint64_t kvt_histogram_count(const struct kvt_histogram *histogram);
double kvt_histogram_mean(const struct kvt_histogram *histogram); /* exact: from the sum */
double
kvt_histogram_std(const struct kvt_histogram *histogram); /* population; from bucket middles */
/* Linear between order statistics as numpy's default; values are bucket
 * middles. NaN when empty. fraction in [0, 1]. */
double kvt_histogram_quantile(const struct kvt_histogram *histogram, double fraction);

/* mean, std and quantiles of exact per-request values, as numpy computes them.
 * sorted: ascending. NaN when count is 0. Built on gsl_stats. */
struct kvt_summary {
    double mean, median, std, p50, p90, p95, p99;
};
void kvt_summary_of(double *values /* sorted in place */, size_t count, struct kvt_summary *out);

KVT_END_DECLS
#endif
