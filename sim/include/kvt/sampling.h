/* kvt/sampling.h -- what a sampled run leaves open: how far its counts may be from
 * those of every store.
 *
 * A request is a cluster. Where every request is followed, some of its stores are drawn,
 * without replacement in each stratum, and stand for all. With two or more followed, the
 * spread between the stores of a request is what sampling leaves open. With one, the spread
 * between requests about the common ratio stands for it, which is rather too much: requests
 * differ of themselves. Where some requests stand for the others too (pooled), what is open
 * is the spread of followed requests about what the estimator expected of each.
 * W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, chapters 6 and 10. */
#ifndef KVT_SAMPLING_H
#define KVT_SAMPLING_H

#include "kvt/llm.h"
#include "kvt/row_counts.h"

KVT_BEGIN_DECLS

enum kvt_sampled_count {
    KVT_SAMPLED_SELECTED = 0, /* selections, with multiplicity */
    KVT_SAMPLED_MISSED,       /* of those, the ones whose row crossed the link */
    KVT_SAMPLED_LOOKED_UP,    /* of those, the ones that were neither in tail nor page */
    KVT_SAMPLED_FETCHED,      /* distinct rows that crossed the link */
    KVT_SAMPLED_COUNTS
};

/* Counts of one followed store of one request, over all its calls. */
struct kvt_store_sample {
    uint32_t store;
    double counts[KVT_SAMPLED_COUNTS];
    double expected[KVT_SAMPLED_COUNTS]; /* pooled: of the same rounds; else 0 */
    double changes; /* sum of (fetched - fetched by the call before)^2, once the cache is warm */
    uint64_t change_count;
};

/* Running sums of one stratum. */
struct kvt_spread {
    uint64_t clusters; /* requests */
    double totals[KVT_SAMPLED_COUNTS];
    double changes;
    uint64_t change_count;
    /* Products of deviations from the request's mean; of the counts themselves where one
     * store is followed; pooled, of a request's sums beyond what was expected. */
    double products[KVT_SAMPLED_COUNTS][KVT_SAMPLED_COUNTS];
    /* Pooled alone. */
    double whole[KVT_SAMPLED_COUNTS]; /* estimates for all requests and stores */
    double selected_squares;          /* over requests: how unequal their parts are */
    double rounds, call_squares; /* of followed rounds: squares of what a call fetched beyond what
                                  * was expected, the mean call of each round */
};

struct kvt_sampling {
    bool pooled; /* some requests stand for others */
    struct kvt_spread strata[KVT_STRATA_MAX];
    /* What each store fetched, and a base in proportion to which stores that do not differ would:
     * what they selected; pooled, what was expected. */
    double store_base[KVT_STORES_MAX], store_fetched[KVT_STORES_MAX];
    double followed_rounds, followed_at_once; /* pooled: and requests followed then, summed */
};

/* One request's followed stores of one stratum: samples[count]. A request that has not
 * made a call yet is none. */
void kvt_sampling_add(struct kvt_sampling *sampling, uint32_t stratum,
                      const struct kvt_store_sample *samples, uint32_t count);

/* Half the width of the 99 % interval of a sum over all stores and requests of `count`, over
 * what the same sum of `per` is, relative to that ratio: two-sided Student's t on linearised
 * ratios. With per SELECTED the ratio is each stratum's own, for how much is selected is known.
 * weights[stratum_count]: what a row counts for; NULL: 1. 0 where every store is followed or
 * nothing was counted; infinite where there are too few requests to tell. Pooled, one that is
 * followed alone can never tell. */
double kvt_sampling_half_width(const struct kvt_sampling *sampling,
                               const struct kvt_stratum *strata, uint32_t stratum_count,
                               enum kvt_sampled_count count, enum kvt_sampled_count per,
                               const double *weights);

KVT_END_DECLS
#endif
