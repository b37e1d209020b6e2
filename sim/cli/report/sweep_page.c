/* sweep_page.c -- the metrics that a sweep's page shows, and the best points by them. */
#include "sweep_page.h"

#include <math.h>
#include <stdlib.h>

const struct sweep_metric sweep_shown[SWEEP_SHOWN] = {
    {"output_throughput_per_gpu", "output", "Output per GPU", "output_tokens_per_s_per_gpu",
     "output, tokens/s a GPU", 1, true},
    {"mean_tpot_ms", "tpot", "Time per token", "mean_tpot_ms", "mean TPOT, ms", 1, true},
    {"mean_ttft_ms", "ttft", "Time to the first token", "mean_ttft_s", "mean TTFT, s", 1e-3, true},
    {"host_fetch_share", "host-fetch", "Rows fetched from the host", "host_fetch_percent",
     "host fetch, %", 100, true},
    {"coverage_mean", "coverage", "Coverage", "coverage_percent", "coverage, %", 100, false},
    {"slo_margin", "slo-margin", "Margin to the promises", "slo_margin", "SLO margin", 1, false},
    {"usd_per_million_output_tokens", "cost", "Cost of output", "usd_per_million_output_tokens",
     "USD a million output tokens", 1, true},
    {"active_mean", NULL, NULL, "decoding", "decoding at once", 1, true},
    {"hbm_kv_peak_bytes", NULL, NULL, "hbm_peak_gib", "HBM peak, GiB", 1 / 1073741824.0, true},
};

void sweep_find_ranges(struct sweep_page *source)
{
    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        struct sweep_range *range = &source->ranges[m];
        *range = (struct sweep_range){INFINITY, -INFINITY};
        for (size_t p = 0; p < source->swept.point_count; p++) {
            double value = swept_metric(&source->swept.points[p], sweep_shown[m].name);
            if (isfinite(value)) {
                range->least = fmin(range->least, value);
                range->most = fmax(range->most, value);
            }
        }
    }
}

bool sweep_is_known(const struct sweep_page *source, size_t metric)
{
    return isfinite(source->ranges[metric].least);
}

bool sweep_varies(const struct sweep_page *source, size_t metric)
{
    return source->ranges[metric].least < source->ranges[metric].most;
}

const struct swept_point *sweep_best(const struct swept *swept, const char *metric, bool most,
                                     bool keeps_promises)
{
    const struct swept_point *best = NULL;
    double value = NAN;

    for (size_t p = 0; p < swept->point_count; p++) {
        const struct swept_point *point = &swept->points[p];
        if (!point->is_ok || point->is_bound ||
            (keeps_promises && !(swept_metric(point, SWEEP_MARGIN) >= 0)))
            continue;
        double found = swept_metric(point, metric);
        if (isfinite(found) && (best == NULL || (most ? found > value : found < value))) {
            best = point;
            value = found;
        }
    }
    return best;
}

int sweep_compare_outputs(const void *a, const void *b)
{
    const struct swept_point *first = *(const struct swept_point *const *)a;
    const struct swept_point *second = *(const struct swept_point *const *)b;
    double one = swept_metric(first, SWEEP_OUTPUT), other = swept_metric(second, SWEEP_OUTPUT);

    if (isnan(one) != isnan(other))
        return isnan(one) ? 1 : -1;
    if (one != other && !isnan(one))
        return one > other ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}
static int compare_numbers(const void *a, const void *b)
{
    const struct swept_point *first = *(const struct swept_point *const *)a;
    const struct swept_point *second = *(const struct swept_point *const *)b;
    return first->number < second->number ? -1 : first->number > second->number;
}

const struct swept_point **sweep_best_points(const struct swept *swept, size_t most, size_t *count)
{
    const struct swept_point **list = calloc(swept->point_count, sizeof(struct swept_point *));

    if (list == NULL)
        return NULL;
    for (size_t p = 0; p < swept->point_count; p++)
        list[p] = &swept->points[p];
    *count = swept->point_count;
    if (*count > most) {
        qsort(list, *count, sizeof(struct swept_point *), sweep_compare_outputs);
        *count = most;
        qsort(list, *count, sizeof(struct swept_point *), compare_numbers);
    }
    return list;
}
