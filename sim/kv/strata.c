/* strata.c -- stores that are alike, and which of them a request follows. */
#include "kvt/strata.h"

#include "kvt/rng.h"

kvt_status kvt_strata_init(struct kvt_strata *strata, const struct kvt_llm *llm,
                           uint32_t sample_stores, struct kvt_error *err)
{
    *strata = (struct kvt_strata){0};
    for (uint32_t i = 0; i < llm->selector_count; i++)
        strata->selectors_of[llm->selectors[i].store]++;
    for (uint32_t store = 0; store < llm->store_count; store++) {
        uint32_t ratio = llm->stores[store].compress_ratio;
        uint32_t selectors = strata->selectors_of[store];
        uint32_t s = 0;
        while (s < strata->count && (strata->strata[s].compress_ratio != ratio ||
                                     strata->strata[s].selectors != selectors))
            s++;
        if (s == KVT_STRATA_MAX)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->path,
                            "stores of more than %d kinds (compress ratio and number of selectors)",
                            KVT_STRATA_MAX);
        if (s == strata->count) {
            strata->strata[s].compress_ratio = ratio;
            strata->strata[s].selectors = selectors;
            strata->count++;
        }
        strata->strata[s].stores++;
        strata->strata[s].layers += llm->stores[store].layers;
        strata->stratum_of[store] = s;
    }
    for (uint32_t s = 0; s < strata->count; s++) {
        uint32_t stores = strata->strata[s].stores;
        strata->strata[s].followed =
            sample_stores == 0 || sample_stores > stores ? stores : sample_stores;
    }
    return KVT_OK;
}

uint32_t kvt_strata_followed(const struct kvt_strata *strata)
{
    uint32_t followed = 0;

    for (uint32_t s = 0; s < strata->count; s++)
        followed += strata->strata[s].followed;
    return followed;
}

uint32_t kvt_strata_draw(const struct kvt_strata *strata, uint32_t store_count, uint64_t run_seed,
                         uint32_t request, uint32_t *stores)
{
    struct kvt_rng rng = kvt_rng_stream(run_seed, KVT_RNG_SAMPLE, request);
    uint32_t left[KVT_STRATA_MAX], want[KVT_STRATA_MAX], drawn = 0;

    for (uint32_t s = 0; s < strata->count; s++) {
        left[s] = strata->strata[s].stores;
        want[s] = strata->strata[s].followed;
    }
    /* Selection sampling (Knuth, TAOCP 3.4.2, algorithm S): ascending as it goes. */
    for (uint32_t store = 0; store < store_count; store++) {
        uint32_t s = strata->stratum_of[store];
        if (want[s] > 0 && kvt_rng_below(&rng, left[s]) < want[s]) {
            stores[drawn++] = store;
            want[s]--;
        }
        left[s]--;
    }
    return drawn;
}
