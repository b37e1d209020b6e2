/* summary.c -- mean, spread and quantiles of exact values, as numpy defines them. */
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

#include "kvt/metrics.h"

void kvt_summary_of(double *values, size_t count, struct kvt_summary *out)
{
    if (count == 0) {
        *out = (struct kvt_summary){NAN, NAN, NAN, NAN, NAN, NAN, NAN};
        return;
    }
    /* Sorted first: the sums below then do not depend on the order of arrival. */
    gsl_sort(values, 1, count);
    double mean = gsl_stats_mean(values, 1, count);
    double median = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.50);
    *out = (struct kvt_summary){
        .mean = mean,
        .median = median,
        /* With the mean given, GSL divides by count, as numpy's std does. */
        .std = gsl_stats_sd_with_fixed_mean(values, 1, count, mean),
        .p50 = median,
        .p90 = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.90),
        .p95 = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.95),
        .p99 = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.99),
    };
}
