/* sampling.c -- what a sampled run leaves open: how far its counts may be from those of
 * every store.
 *
 *     e_ij  = count - ratio x per          of store j of request i, linearised
 *     two or more followed of S, n:  Var = S^2 (1 - n/S) / n  x  sum over i of s_i^2(e)
 *     one followed:                  Var = S^2 (1 - 1/S)  x  m/(m-1)  x  sum (e_i - mean)^2
 *     pooled:  e_i = count - expected, over all followed stores of request i
 *              Var = (1 - f) / f^2  x  a/(a-1)  x  sum e_i^2
 *     half-width = t(99.5 %) x sqrt(sum over strata of weight^2 Var) / estimate
 *
 * f: the share of all selections that is followed. What is expected comes from those that are
 * followed at the time, a of them on average, each of which draws it to itself. */
#include "kvt/sampling.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

#define QUANTILE 0.995 /* of a two-sided interval of 99 % */

static void add_products(struct kvt_spread *spread, const double of[KVT_SAMPLED_COUNTS])
{
    for (int a = 0; a < KVT_SAMPLED_COUNTS; a++) {
        for (int b = 0; b < KVT_SAMPLED_COUNTS; b++)
            spread->products[a][b] += of[a] * of[b];
    }
}

void kvt_sampling_add(struct kvt_sampling *sampling, uint32_t stratum,
                      const struct kvt_store_sample *samples, uint32_t count)
{
    struct kvt_spread *spread = &sampling->strata[stratum];
    double sums[KVT_SAMPLED_COUNTS] = {0}, beyond[KVT_SAMPLED_COUNTS] = {0};

    for (uint32_t j = 0; j < count; j++) {
        const struct kvt_store_sample *sample = &samples[j];
        for (int a = 0; a < KVT_SAMPLED_COUNTS; a++) {
            sums[a] += sample->counts[a];
            beyond[a] += sample->counts[a] - sample->expected[a];
        }
        spread->changes += sample->changes;
        spread->change_count += sample->change_count;
        sampling->store_base[sample->store] += sampling->pooled
                                                   ? sample->expected[KVT_SAMPLED_FETCHED]
                                                   : sample->counts[KVT_SAMPLED_SELECTED];
        sampling->store_fetched[sample->store] += sample->counts[KVT_SAMPLED_FETCHED];
    }
    if (sums[KVT_SAMPLED_SELECTED] == 0)
        return;
    spread->clusters++;
    for (int a = 0; a < KVT_SAMPLED_COUNTS; a++)
        spread->totals[a] += sums[a];
    if (sampling->pooled) {
        add_products(spread, beyond);
        spread->selected_squares += sums[KVT_SAMPLED_SELECTED] * sums[KVT_SAMPLED_SELECTED];
        return;
    }
    for (uint32_t j = 0; j < count; j++) {
        double of[KVT_SAMPLED_COUNTS];
        for (int a = 0; a < KVT_SAMPLED_COUNTS; a++)
            of[a] = samples[j].counts[a] - (count > 1 ? sums[a] / count : 0);
        add_products(spread, of);
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

/* The same where some requests stand for others. */
static double pooled_variance_of(const struct kvt_sampling *sampling,
                                 const struct kvt_spread *spread, enum kvt_sampled_count count,
                                 enum kvt_sampled_count per, double ratio)
{
    double at_once = sampling->followed_at_once / sampling->followed_rounds;
    double share = spread->totals[KVT_SAMPLED_SELECTED] / spread->whole[KVT_SAMPLED_SELECTED];
    double squares = spread->products[count][count] - 2 * ratio * spread->products[count][per] +
                     ratio * ratio * spread->products[per][per];

    if (share >= 1)
        return 0;
    return at_once > 1 ? (1 - share) / (share * share) * squares * at_once / (at_once - 1)
                       : INFINITY;
}

static double freedom_of(const struct kvt_sampling *sampling, const struct kvt_spread *spread,
                         const struct kvt_stratum *stratum)
{
    double requests = (double)spread->clusters;
    double selected = spread->totals[KVT_SAMPLED_SELECTED];

    if (sampling->pooled) /* as many as would say as much, were they equal: L. Kish, 1965 */
        return selected * selected / spread->selected_squares - 1;
    if (stratum->followed == 1)
        return requests - 1;
    return requests * (stratum->followed - 1);
}

static double total_of(const struct kvt_sampling *sampling, const struct kvt_stratum *stratum,
                       uint32_t s, enum kvt_sampled_count count)
{
    const struct kvt_spread *spread = &sampling->strata[s];
    return sampling->pooled ? spread->whole[count]
                            : kvt_stratum_scale(stratum) * spread->totals[count];
}

static bool is_open(const struct kvt_sampling *sampling, const struct kvt_stratum *stratum,
                    uint32_t s)
{
    return sampling->strata[s].clusters > 0 &&
           (sampling->pooled || stratum->followed < stratum->stores);
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
        estimate += weight_of(weights, s) * total_of(sampling, &strata[s], s, count);
        divisor += weight_of(weights, s) * total_of(sampling, &strata[s], s, per);
    }
    if (estimate <= 0 || divisor <= 0)
        return 0;
    for (uint32_t s = 0; s < stratum_count; s++) {
        const struct kvt_spread *spread = &sampling->strata[s];
        double weight = weight_of(weights, s), ratio = estimate / divisor, open = 0;
        if (!is_open(sampling, &strata[s], s))
            continue;
        double here = freedom_of(sampling, spread, &strata[s]);
        freedom = here < freedom ? here : freedom;
        if (per == KVT_SAMPLED_SELECTED)
            ratio = spread->totals[count] / spread->totals[per];
        if (here >= 1)
            open = sampling->pooled ? pooled_variance_of(sampling, spread, count, per, ratio)
                                    : variance_of(spread, &strata[s], count, per, ratio);
        variance += weight * weight * open;
    }
    if (freedom < 1)
        return INFINITY;
    if (variance <= 0)
        return 0;
    double quantile =
        isinf(freedom) ? gsl_cdf_ugaussian_Pinv(QUANTILE) : gsl_cdf_tdist_Pinv(QUANTILE, freedom);
    /* Rounded so coarsely that no libm's last bits show. */
    return rint(quantile * sqrt(variance) / estimate * 0x1p42) * 0x1p-42;
}
