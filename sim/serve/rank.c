/* rank.c -- one decoding rank: what it is made of, and a request's way through it. */
#include "kvt/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "live_list.h"
#include "rank_private.h"

const char *kvt_request_status_name(enum kvt_request_status status)
{
    static const char *const names[KVT_REQUEST_STATUSES] = {"waiting", "prefilling", "importing",
                                                            "running", "completed",  "unservable"};
    return status < KVT_REQUEST_STATUSES ? names[status] : "unknown";
}

static kvt_status init_policies(struct kvt_rank *rank, struct kvt_error *err)
{
    const struct kvt_rank_env *env = &rank->env;
    struct kvt_residency_env residency_env = {
        .params = env->residency.params,
        .rank = env->index,
        .page_bytes = rank->page_bytes,
        .pool_bytes = env->rows_pool_bytes ? env->rows_pool_bytes : env->index_pool_bytes,
        .link_bytes_per_s = env->hardware->link_h2d_bytes_per_s,
        .run_seed = env->run_seed,
        .host = kvt_host()};
    struct kvt_scheduling_env scheduling_env = {
        .params = env->scheduling.params, .run_seed = env->run_seed, .host = kvt_host()};
    struct kvt_import_env import_env = {.params = env->import.params,
                                        .hardware = env->hardware,
                                        .residency = env->residency.info->name,
                                        .speculation = env->speculation,
                                        .run_seed = env->run_seed,
                                        .host = kvt_host()};
    kvt_status status;

    rank->residency_state = kvt_plugin_state_new(rank->residency->state_bytes(&residency_env));
    rank->scheduling_state = kvt_plugin_state_new(rank->scheduling->state_bytes(&scheduling_env));
    rank->import_state = kvt_plugin_state_new(rank->import->state_bytes(&import_env));
    if (!rank->residency_state || !rank->scheduling_state || !rank->import_state)
        return kvt_fail_nomem(err, "a rank's policies");
    status = rank->residency->init(rank->residency_state, &residency_env, err);
    if (status == KVT_OK)
        status = rank->scheduling->init(rank->scheduling_state, &scheduling_env, err);
    if (status == KVT_OK)
        status = rank->import->init(rank->import_state, &import_env, err);
    if (status == KVT_OK)
        rank->residency->needs(rank->residency_state, &rank->needs);
    return status;
}

kvt_status kvt_rank_init(struct kvt_rank *rank, const struct kvt_rank_env *env, uint64_t *decisions,
                         struct kvt_error *err)
{
    double row_bytes = kvt_llm_payload_bytes_per_token(env->llm);

    *rank = (struct kvt_rank){.env = *env, .decisions = decisions};
    rank->residency = (const struct kvt_residency_policy *)(const void *)env->residency.info;
    rank->scheduling = (const struct kvt_scheduling_policy *)(const void *)env->scheduling.info;
    rank->import = (const struct kvt_import_law *)(const void *)env->import.info;
    rank->page_bytes = (uint64_t)ceil(row_bytes * KVT_PAGE_ROWS);
    rank->row_bytes_per_token = (uint64_t)ceil(row_bytes);
    rank->h2d.bytes_per_s = env->hardware->link_h2d_bytes_per_s;
    rank->d2h.bytes_per_s = env->hardware->link_d2h_bytes_per_s;
    kvt_rank_memory_init(&rank->memory, env->index_pool_bytes, env->rows_pool_bytes,
                         env->growth_reserve_bytes, env->host, env->host_copies);
    rank->actions = malloc(RANK_ACTIONS * sizeof *rank->actions);
    kvt_status status =
        rank->actions ? init_policies(rank, err) : kvt_fail_nomem(err, "a rank's actions");
    if (status != KVT_OK)
        kvt_rank_fini(rank);
    return status;
}

void kvt_rank_fini(struct kvt_rank *rank)
{
    free(rank->residency_state);
    free(rank->scheduling_state);
    free(rank->import_state);
    free(rank->waiting.items);
    free(rank->importing.items);
    free(rank->arrived.items);
    free(rank->running.items);
    free(rank->fills);
    free(rank->views);
    free(rank->actions);
    free(rank->candidates);
    *rank = (struct kvt_rank){0};
}

kvt_status kvt_rank_required(const struct kvt_rank *rank, uint32_t tokens, uint32_t max_tokens,
                             struct kvt_session_bytes *out, struct kvt_error *err)
{
    struct kvt_session_spec spec = {.llm = rank->env.llm,
                                    .drafter = rank->env.drafter,
                                    .needs = rank->needs,
                                    .tokens = tokens,
                                    .max_tokens = max_tokens,
                                    .hot_tokens = rank->env.hot_tokens,
                                    .queries_max = rank->env.queries_max};
    return kvt_session_bytes(&spec, KVT_ENGINE_IDEAL, out, err);
}

kvt_status kvt_rank_can_ever_fit(const struct kvt_rank *rank, uint32_t input_tokens,
                                 uint32_t last_tokens, uint32_t max_tokens, bool *fits,
                                 struct kvt_error *err)
{
    struct kvt_session_bytes first, last;
    kvt_status status = kvt_rank_required(rank, input_tokens, max_tokens, &first, err);

    if (status == KVT_OK)
        status = kvt_rank_required(rank, last_tokens, max_tokens, &last, err);
    if (status != KVT_OK)
        return status;
    /* An empty copy of the rank tells: first what is admitted, then its growth, in one
     * piece. With two pools growth row by row may share the reserve otherwise, so that a
     * request near the limit can turn out to fit for less long than this says. */
    struct kvt_host_pool host = {.capacity_bytes = rank->env.host->capacity_bytes};
    struct kvt_rank_memory memory = rank->memory;
    struct kvt_holding holding = {0};
    kvt_rank_memory_init(&memory, memory.pool_bytes[0], memory.pool_bytes[1], memory.reserve_bytes,
                         &host, memory.host_copies);
    *fits = kvt_rank_memory_take(&memory, &holding, first.hbm_by_class, first.host_bytes, false);
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        last.hbm_by_class[c] -= first.hbm_by_class[c];
    if (*fits)
        *fits = kvt_rank_memory_take(&memory, &holding, last.hbm_by_class,
                                     last.host_bytes - first.host_bytes, true);
    return KVT_OK;
}

kvt_status kvt_rank_slots(const struct kvt_rank *rank, uint32_t input_tokens, uint32_t max_tokens,
                          uint64_t *by_pools, uint64_t *by_host, struct kvt_error *err)
{
    struct kvt_session_bytes required;
    kvt_status status = kvt_rank_required(rank, input_tokens, max_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    uint64_t by_pool[2] = {0, 0};
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        by_pool[rank->memory.pool_of[c]] += required.hbm_by_class[c];
    *by_pools = UINT64_MAX;
    for (int p = 0; p < 2; p++) {
        uint64_t fit = by_pool[p] ? rank->memory.pool_bytes[p] / by_pool[p] : UINT64_MAX;
        *by_pools = fit < *by_pools ? fit : *by_pools;
    }
    if (by_host)
        *by_host = required.host_bytes ? rank->env.host->capacity_bytes / rank->memory.host_copies /
                                             required.host_bytes
                                       : UINT64_MAX;
    return KVT_OK;
}

kvt_status kvt_rank_enqueue(struct kvt_rank *rank, struct kvt_live *live, struct kvt_error *err)
{
    return live_list_insert(&rank->waiting, rank->waiting.count, live, err);
}

kvt_status kvt_rank_begin_import(struct kvt_rank *rank, struct kvt_live **live, kvt_ns *duration_ns,
                                 struct kvt_error *err)
{
    *live = NULL;
    if (rank->imports_under_way == rank->importing.count ||
        rank->imports_under_way >= rank->import->servers(rank->import_state))
        return KVT_OK;
    struct kvt_live *next = rank->importing.items[rank->imports_under_way];
    struct kvt_session_bytes bytes;
    kvt_status status =
        kvt_rank_required(rank, kvt_live_context(next), next->max_tokens, &bytes, err);
    if (status != KVT_OK)
        return status;
    /* What comes in: index rows, and history to where this policy keeps it. Hot
     * caches, tail and staging start empty. */
    uint64_t hbm_bytes = bytes.hbm_by_class[KVT_MEM_INDEX] + bytes.hbm_by_class[KVT_MEM_PAYLOAD];
    *duration_ns =
        rank->import->duration_ns(rank->import_state, next->id, bytes.host_bytes, hbm_bytes);
    next->import_bytes_per_s =
        *duration_ns > 0
            ? (uint64_t)((double)hbm_bytes / (double)*duration_ns * (double)KVT_NS_PER_S)
            : 0;
    rank->import_bytes_per_s += next->import_bytes_per_s;
    rank->counters.import_hbm_bytes += hbm_bytes;
    rank->counters.import_host_bytes += bytes.host_bytes;
    rank->imports_under_way++;
    *live = next;
    return KVT_OK;
}

kvt_status kvt_rank_end_import(struct kvt_rank *rank, struct kvt_live *live, bool joins,
                               struct kvt_error *err)
{
    uint32_t at = live_list_find(&rank->importing, live);

    if (at >= rank->imports_under_way)
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "request %u is not being imported",
                        live->id);
    live_list_remove_at(&rank->importing, at);
    rank->imports_under_way--;
    rank->import_bytes_per_s -= live->import_bytes_per_s;
    return joins ? live_list_insert(&rank->arrived, rank->arrived.count, live, err) : KVT_OK;
}

kvt_ns kvt_rank_queue_backup(struct kvt_rank *rank, kvt_ns now_ns, uint64_t tokens)
{
    if (!rank->needs.host_backing)
        return now_ns;
    uint64_t bytes = tokens * rank->row_bytes_per_token;
    rank->counters.backup_bytes += bytes;
    return kvt_link_send(&rank->d2h, now_ns, bytes);
}

kvt_status kvt_live_commit(struct kvt_live *live, kvt_ns done_ns, struct kvt_error *err)
{
    live->step++;
    return kvt_pages_commit(&live->pages, live->round_tokens, done_ns, err);
}

void kvt_rank_release(struct kvt_rank *rank, struct kvt_live *live)
{
    uint32_t at = live_list_find(&rank->running, live);

    if (at < rank->running.count)
        live_list_remove_at(&rank->running, at);
    rank->admission_held = false;
    kvt_rank_memory_give_all(&rank->memory, &live->holding);
    kvt_pages_fini(&live->pages);
    /* Fills under way have lost their target. */
    for (uint32_t i = 0; i < rank->fill_count; i++) {
        struct kvt_fill *fill = &rank->fills[(rank->fill_head + i) % rank->fill_capacity];
        if (fill->live == live)
            fill->live = NULL;
    }
}

bool kvt_rank_is_sane(const struct kvt_rank *rank)
{
    uint64_t held = 0;
    const struct kvt_live_list *lists[] = {&rank->importing, &rank->arrived, &rank->running};

    for (size_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            const struct kvt_live *live = lists[l]->items[i];
            for (int c = 0; c < KVT_MEM_CLASSES; c++)
                held += live->holding.bytes[c] + live->holding.reserve_bytes[c];
            if (!kvt_pages_is_sane(&live->pages))
                return false;
        }
    }
    return held == kvt_rank_memory_used(&rank->memory) && kvt_rank_memory_is_sane(&rank->memory);
}
