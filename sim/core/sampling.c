/* sampling.c -- what a sampled run leaves open: how far its counts may be from those of
 * every store.
 *
 *     e_ij  = count - ratio x per          of store j of request i, linearised
 *     two or more followed of S, n:  Var = S^2 (1 - n/S) / n  x  sum over i of s_i^2(e)
 *     one followed:                  Var = S^2 (1 - 1/S)  x  m/(m-1)  x  sum (e_i - mean)^2
 *     half-width = t(99.5 %) x sqrt(sum over strata of weight^2 Var) / estimate */
#include "kvt/sampling.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

#define QUANTILE 0.995 /* of a two-sided interval of 99 % */

void kvt_sampling_add(struct kvt_sampling *sampling, uint32_t stratum,
                      const struct kvt_store_sample *samples, uint32_t count)
{
    struct kvt_spread *spread = &sampling->strata[stratum];
    double sums[KVT_SAMPLED_COUNTS] = {0};

    for (uint32_t j = 0; j < count; j++) {
        for (int a = 0; a < KVT_SAMPLED_COUNTS; a++)
            sums[a] += samples[j].counts[a];
        spread->changes += samples[j].changes;
        spread->change_count += samples[j].change_count;
        sampling->store_selected[samples[j].store] += samples[j].counts[KVT_SAMPLED_SELECTED];
        sampling->store_fetched[samples[j].store] += samples[j].counts[KVT_SAMPLED_FETCHED];
    }
    if (sums[KVT_SAMPLED_SELECTED] == 0)
        return;
    spread->clusters++;
    for (int a = 0; a < KVT_SAMPLED_COUNTS; a++)
        spread->totals[a] += sums[a];
    for (uint32_t j = 0; j < count; j++) {
        for (int a = 0; a < KVT_SAMPLED_COUNTS; a++) {
            double of_a = samples[j].counts[a] - (count > 1 ? sums[a] / count : 0);
            for (int b = 0; b < KVT_SAMPLED_COUNTS; b++) {
                double of_b = samples[j].counts[b] - (count > 1 ? sums[b] / count : 0);
                spread->products[a][b] += of_a * of_b;
            }
        }
    }
}

/* Of the sum over all stores and requests of count - ratio x per, as the sample has it. */
static double variance_of(const struct kvt_spread *spread, const struct kvt_stratum *stratum,
                          enum kvt_sampled_count count, enum kvt_sampled_count per, double ratio)
{
    double stores = stratum->stores, followed = stratum->followed;
    double requests = (double)spread->clusters;
    double squares = spread->products[count][count] - 2 * ratio * spread->products[count][per] +
                     ratio * ratio * spread->products[per][per];
    double open = stores * stores * (1 - followed / stores);

    if (stratum->followed == 1) {
        double sum = spread->totals[count] - ratio * spread->totals[per];
        squares = (squares - sum * sum / requests) * requests / (requests - 1);
        return squares > 0 ? open * squares : 0;
    }
    return open / followed * squares / (followed - 1);
}

static double freedom_of(const struct kvt_spread *spread, const struct kvt_stratum *stratum)
{
    double requests = (double)spread->clusters;
    return stratum->followed == 1 ? requests - 1 : requests * (stratum->followed - 1);
}

static double weight_of(const double *weights, uint32_t stratum)
{
    return weights ? weights[stratum] : 1;
}

double kvt_sampling_half_width(const struct kvt_sampling *sampling,
                               const struct kvt_stratum *strata, uint32_t stratum_count,
                               enum kvt_sampled_count count, enum kvt_sampled_count per,
                               const double *weights)
{
    double variance = 0, freedom = INFINITY, estimate = 0, divisor = 0;

    for (uint32_t s = 0; s < stratum_count; s++) {
        double scale = weight_of(weights, s) * kvt_stratum_scale(&strata[s]);
        estimate += scale * sampling->strata[s].totals[count];
        divisor += scale * sampling->strata[s].totals[per];
    }
    if (estimate <= 0 || divisor <= 0)
        return 0;
    for (uint32_t s = 0; s < stratum_count; s++) {
        const struct kvt_spread *spread = &sampling->strata[s];
        double weight = weight_of(weights, s), ratio = estimate / divisor;
        if (strata[s].followed == strata[s].stores || spread->clusters == 0)
            continue;
        double here = freedom_of(spread, &strata[s]);
        freedom = here < freedom ? here : freedom;
        if (per == KVT_SAMPLED_SELECTED)
            ratio = spread->totals[count] / spread->totals[per];
        if (here >= 1)
            variance += weight * weight * variance_of(spread, &strata[s], count, per, ratio);
    }
    if (freedom < 1)
        return INFINITY;
    if (variance <= 0)
        return 0;
    double quantile =
        isinf(freedom) ? gsl_cdf_ugaussian_Pinv(QUANTILE) : gsl_cdf_tdist_Pinv(QUANTILE, freedom);
    return quantile * sqrt(variance) / estimate;
}
