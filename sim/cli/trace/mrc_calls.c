/* mrc_calls.c -- hot caches of all policies and sizes, each told every call, as in a run. */
#include <stdlib.h>

#include "kvt/resolver.h"
#include "mrc.h"

struct mrc_calls {
    const struct mrc_plan *plan;
    struct kvt_resolver *resolver;
    uint32_t *next_use;             /* [the most slots] NULL: nobody sees the future */
    struct kvt_hot_cache *caches[]; /* [policy_count][size_count] */
};

static bool sees_future(const struct mrc_plan *plan)
{
    for (size_t p = 0; p < plan->policy_count; p++) {
        if (plan->policies[p].sees_future)
            return true;
    }
    return false;
}

static kvt_status open_caches(struct mrc_calls *calls, const struct mrc_store *store,
                              struct kvt_error *err)
{
    const struct mrc_plan *plan = calls->plan;
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < plan->policy_count * plan->size_count; i++) {
        const struct mrc_policy *policy = &plan->policies[i / plan->size_count];
        struct kvt_replacement_env env = {.params = policy->params,
                                          .slot_count = plan->slots[i % plan->size_count],
                                          .top_k = store->top_k,
                                          .entity = store->entity,
                                          .run_seed = 1,
                                          .host = kvt_host(),
                                          .rows_per_page = store->rows_per_page};
        status = kvt_hot_cache_new(policy->table, &env, store->rows_max, &calls->caches[i], err);
    }
    return status;
}

kvt_status mrc_calls_new(const struct mrc_plan *plan, const struct mrc_store *store,
                         struct mrc_calls **out, struct kvt_error *err)
{
    size_t cache_count = plan->policy_count * plan->size_count;
    uint32_t slots_max = plan->slots[plan->size_count - 1];
    struct mrc_calls *calls =
        calloc(1, sizeof *calls + cache_count * sizeof(struct kvt_hot_cache *));
    if (calls == NULL)
        return kvt_fail_nomem(err, "hot caches");
    calls->plan = plan;
    kvt_status status = KVT_OK;
    if (sees_future(plan)) {
        calls->next_use = malloc(slots_max * sizeof *calls->next_use);
        if (calls->next_use == NULL)
            status = kvt_fail_nomem(err, "hot caches");
    }
    if (status == KVT_OK)
        status = kvt_resolver_new(store->rows_max, slots_max, store->top_k, &calls->resolver, err);
    if (status == KVT_OK)
        status = open_caches(calls, store, err);
    if (status != KVT_OK) {
        mrc_calls_free(calls);
        return status;
    }
    *out = calls;
    return KVT_OK;
}

void mrc_calls_free(struct mrc_calls *calls)
{
    if (calls == NULL)
        return;
    for (size_t i = 0; i < calls->plan->policy_count * calls->plan->size_count; i++)
        kvt_hot_cache_free(calls->caches[i]);
    kvt_resolver_free(calls->resolver);
    free(calls->next_use);
    free(calls);
}

static void look_ahead(const struct mrc_calls *calls, const struct kvt_hot_cache *cache,
                       uint32_t call, const uint32_t *next_call)
{
    const uint32_t *rows = kvt_hot_cache_rows(cache);
    for (uint32_t slot = 0; slot < kvt_hot_cache_slot_count(cache); slot++) {
        uint32_t next = rows[slot] != KVT_ROW_NONE ? next_call[rows[slot]] : UINT32_MAX;
        calls->next_use[slot] = next == UINT32_MAX ? KVT_CALL_NEVER : next - call;
    }
}

kvt_status mrc_calls_take(struct mrc_calls *calls, const uint64_t *set, uint32_t visible_rows,
                          uint64_t step, uint32_t call, const uint32_t *next_call,
                          struct mrc_counts *counts, struct kvt_error *err)
{
    const struct mrc_plan *plan = calls->plan;
    struct kvt_resolve_call resolve = {.step = step,
                                       .visible_rows = visible_rows,
                                       .tail_first_row = visible_rows,
                                       .query_count = 1,
                                       .selections = &set};
    for (size_t i = 0; i < plan->policy_count * plan->size_count; i++) {
        size_t p = i / plan->size_count;
        struct kvt_resolve_result result;
        resolve.next_use = NULL;
        if (plan->policies[p].sees_future) {
            look_ahead(calls, calls->caches[i], call, next_call);
            resolve.next_use = calls->next_use;
        }
        kvt_status status = kvt_resolve(calls->resolver, calls->caches[i], &resolve, &result, err);
        if (status != KVT_OK)
            return status;
        counts->missed[p][i % plan->size_count] += result.missed_selected;
    }
    return KVT_OK;
}
