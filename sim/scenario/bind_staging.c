/* bind_staging.c -- rows of a call that find no hot slot: whether there are any, and what a rank
 * keeps for them. */
#include <string.h>

#include "bind.h"

/* Without staging every row of a call needs a hot slot. */
static kvt_status check_hot_tokens(struct kvt_load *load, const struct kvt_scenario *scenario,
                                   struct kvt_error *err)
{
    const struct kvt_llm *llm = scenario->llm;
    char place[KVT_PLACE_BYTES];
    uint64_t rows = (uint64_t)scenario->queries_max * llm->top_k;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint32_t ratio = llm->stores[i].compress_ratio;
        if (scenario->hot_tokens / ratio >= rows)
            continue;
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "residency.hot_tokens", place),
                        "%llu hot tokens; without staging (speculation.overflow \"none\") %u "
                        "queries of %u rows need at least %llu",
                        (unsigned long long)scenario->hot_tokens, scenario->queries_max, llm->top_k,
                        (unsigned long long)rows * ratio);
    }
    return KVT_OK;
}

kvt_status kvt_bind_staging(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *object = kvt_tree_at(load->tree, "speculation");

    if (out->resolve_each_query)
        return KVT_OK; /* a query's rows always find a slot */
    if (strcmp(kvt_text_at(object, "overflow"), "none") == 0)
        return check_hot_tokens(load, out, err);
    out->staging_fraction = kvt_real_at(object, "staging_fraction");
    return KVT_OK;
}
