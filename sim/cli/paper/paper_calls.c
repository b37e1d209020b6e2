/* paper_calls.c -- the payload of verification calls of eight queries, over the requests of a
 * batch: selections that the queries share, and selections that have nothing in common, each
 * resolved from empty hot caches of one payload layer (the paper's Figure 8a). */
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/resolver.h"
#include "kvt/row_set.h"
#include "kvt/scenario.h"
#include "paper.h"

enum {
    QUERIES = 8,
    BATCH = 32,
    ROWS = 100032
};

struct bench {
    const struct kvt_scenario *scenario;
    struct kvt_resolver *resolver;
    uint64_t *sets[QUERIES]; /* [words] */
};

/* Row i of query q: spread over the context, another offset for each request. */
static uint32_t row_of(uint32_t top_k, uint32_t request, uint32_t query, uint32_t i)
{
    uint32_t spacing = (ROWS - KVT_TAIL_ROWS) / (QUERIES * top_k);

    return (i * QUERIES + query) * spacing + request % spacing;
}

static kvt_status call(struct bench *bench, uint32_t request, uint64_t *missed_rows,
                       struct kvt_error *err)
{
    const struct kvt_scenario *scenario = bench->scenario;
    const struct kvt_replacement_policy *policy =
        (const struct kvt_replacement_policy *)(const void *)scenario->replacement.info;
    const struct kvt_replacement_env env = {.params = scenario->replacement.params,
                                            .slot_count = (uint32_t)scenario->hot_tokens,
                                            .top_k = scenario->llm->top_k,
                                            .entity = request,
                                            .run_seed = scenario->seed,
                                            .host = kvt_host()};
    const struct kvt_resolve_call asked = {.visible_rows = ROWS,
                                           .tail_first_row = ROWS - KVT_TAIL_ROWS,
                                           .query_count = QUERIES,
                                           .selections = (const uint64_t *const *)bench->sets};
    struct kvt_hot_cache *cache = NULL;
    struct kvt_resolve_result result;
    kvt_status status = kvt_hot_cache_new(policy, &env, ROWS, &cache, err);

    if (status == KVT_OK)
        status = kvt_resolve(bench->resolver, cache, &asked, &result, err);
    if (status == KVT_OK)
        *missed_rows += (uint64_t)result.filled_rows + result.staged_rows;
    kvt_hot_cache_free(cache);
    return status;
}

/* Bytes that a call of each request of the batch has to bring in. */
static kvt_status measure(struct bench *bench, bool is_shared, double *bytes, struct kvt_error *err)
{
    uint32_t top_k = bench->scenario->llm->top_k;
    uint64_t missed_rows = 0;
    kvt_status status = KVT_OK;

    for (uint32_t r = 0; r < BATCH && status == KVT_OK; r++) {
        for (uint32_t q = 0; q < QUERIES; q++) {
            memset(bench->sets[q], 0, kvt_row_words(ROWS) * sizeof(uint64_t));
            for (uint32_t i = 0; i < top_k; i++) {
                uint32_t row = row_of(top_k, r, is_shared ? 0 : q, i);
                kvt_row_set_add(bench->sets[q], &row, 1);
            }
        }
        status = call(bench, r, &missed_rows, err);
    }
    *bytes = (double)missed_rows * bench->scenario->llm->payload.capacity_bytes;
    return status;
}

kvt_status paper_resolve_calls(const struct kvt_scenario *scenario, cJSON **out,
                               struct kvt_error *err)
{
    struct bench bench = {.scenario = scenario};
    double shared_bytes = 0, disjoint_bytes = 0;
    bool ok = true;

    for (int q = 0; q < QUERIES; q++) {
        bench.sets[q] = calloc(kvt_row_words(ROWS), sizeof(uint64_t));
        ok = ok && bench.sets[q] != NULL;
    }
    kvt_status status = ok ? kvt_resolver_new(ROWS, (uint32_t)scenario->hot_tokens,
                                              QUERIES * scenario->llm->top_k, &bench.resolver, err)
                           : kvt_fail_nomem(err, "calls of eight queries");
    if (status == KVT_OK)
        status = measure(&bench, true, &shared_bytes, err);
    if (status == KVT_OK)
        status = measure(&bench, false, &disjoint_bytes, err);
    if (status == KVT_OK) {
        *out = cJSON_CreateObject();
        if (*out == NULL || !kvt_json_add_number(*out, "shared_bytes", shared_bytes) ||
            !kvt_json_add_number(*out, "disjoint_bytes", disjoint_bytes))
            status = kvt_fail_nomem(err, "calls of eight queries");
    }
    kvt_resolver_free(bench.resolver);
    for (int q = 0; q < QUERIES; q++)
        free(bench.sets[q]);
    return status;
}
