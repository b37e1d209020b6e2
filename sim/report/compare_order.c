/* compare_order.c -- which variant is ahead, and whether that hangs on the law's preset.
 *
 *     a is ahead of b:  the 95 % interval of a.m(seed) - b.m(seed) lies above 0;
 *                       with one seed, a.m is above b.m by more than TIE_SHARE of the larger
 *     reversed:         a ahead of b under one preset, b ahead of a under another
 *
 * A pair that is tied under one preset and told apart under another is no reversal. Being ahead
 * is not transitive where there are ties, so every pair is looked at, not neighbours alone. */
#include <math.h>
#include <stdlib.h>

#include "kvt/compare.h"

#define TIE_SHARE 0.005 /* what one seed leaves open between two runs of the shipped scenarios */

static double value_at(const struct kvt_comparison *comparison, size_t variant, size_t seed,
                       size_t metric)
{
    size_t metrics = 0;

    (void)kvt_metric_docs(&metrics);
    return comparison->variants[variant].metrics[seed * metrics + metric];
}

static int sign_of(double low, double high)
{
    if (low > 0)
        return 1;
    return high < 0 ? -1 : 0; /* NaN too */
}

kvt_status kvt_comparison_ahead(const struct kvt_comparison *comparison, size_t a, size_t b,
                                size_t metric, int *out, struct kvt_error *err)
{
    if (comparison->seed_count == 1) {
        double of_a = value_at(comparison, a, 0, metric);
        double of_b = value_at(comparison, b, 0, metric);
        double margin = TIE_SHARE * fmax(fabs(of_a), fabs(of_b));
        *out = sign_of(of_a - of_b - margin, of_a - of_b + margin);
        return KVT_OK;
    }
    double *differences = calloc(comparison->seed_count, sizeof *differences);
    if (differences == NULL)
        return kvt_fail_nomem(err, "an order");
    for (size_t s = 0; s < comparison->seed_count; s++)
        differences[s] = value_at(comparison, a, s, metric) - value_at(comparison, b, s, metric);
    struct kvt_estimate estimate;
    kvt_estimate_of(differences, comparison->seed_count, &estimate);
    free(differences);
    *out = sign_of(estimate.low, estimate.high);
    return KVT_OK;
}

/* ---- All variants by their means ------------------------------------------------------- */

/* NaN is below everything; equal means keep their places. */
static bool belongs_before(double mean, double other)
{
    return mean > other || (!isnan(mean) && isnan(other));
}

kvt_status kvt_comparison_order(const struct kvt_comparison *comparison, size_t metric,
                                size_t *order, struct kvt_error *err)
{
    double *means = calloc(comparison->variant_count, sizeof *means);

    if (means == NULL)
        return kvt_fail_nomem(err, "an order");
    kvt_status status = KVT_OK;
    for (size_t v = 0; status == KVT_OK && v < comparison->variant_count; v++) {
        struct kvt_estimate estimate;
        status = kvt_comparison_metric(comparison, v, metric, &estimate, err);
        if (status == KVT_OK)
            means[v] = estimate.mean;
    }
    if (status == KVT_OK) {
        for (size_t v = 0; v < comparison->variant_count; v++) {
            size_t place = v;
            for (; place > 0 && belongs_before(means[v], means[order[place - 1]]); place--)
                order[place] = order[place - 1];
            order[place] = v;
        }
    }
    free(means);
    return status;
}

/* ---- Between presets ------------------------------------------------------------------- */

/* Looks at one pair under every preset. */
static kvt_status check_pair(const struct kvt_presets *presets, size_t a, size_t b, size_t metric,
                             struct kvt_order_check *check, struct kvt_error *err)
{
    struct kvt_reversal found = {
        .a = a, .b = b, .a_ahead = presets->count, .b_ahead = presets->count};

    for (size_t p = 0; p < presets->count; p++) {
        int ahead = 0;
        kvt_status status =
            kvt_comparison_ahead(&presets->comparisons[p], a, b, metric, &ahead, err);
        if (status != KVT_OK)
            return status;
        if (ahead == 0)
            check->tie_count++;
        if (ahead > 0 && found.a_ahead == presets->count)
            found.a_ahead = p;
        if (ahead < 0 && found.b_ahead == presets->count)
            found.b_ahead = p;
    }
    if (found.a_ahead < presets->count && found.b_ahead < presets->count)
        check->reversals[check->reversal_count++] = found;
    return KVT_OK;
}

kvt_status kvt_presets_check_order(const struct kvt_presets *presets, size_t metric,
                                   struct kvt_order_check *out, struct kvt_error *err)
{
    size_t variants = presets->comparisons[0].variant_count;
    struct kvt_order_check check = {
        .reversals = calloc(variants * variants / 2 + 1, sizeof *check.reversals)};

    if (check.reversals == NULL)
        return kvt_fail_nomem(err, "an order between presets");
    kvt_status status = KVT_OK;
    for (size_t a = 0; status == KVT_OK && a < variants; a++) {
        for (size_t b = a + 1; status == KVT_OK && b < variants; b++)
            status = check_pair(presets, a, b, metric, &check, err);
    }
    if (status == KVT_OK)
        *out = check;
    else
        free(check.reversals);
    return status;
}
