/* rank.c -- one decoding rank: what it is made of, and a request's way through it. */
#include "kvt/rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "live_list.h"
#include "rank_private.h"
#include "wait_queue.h"

const char *kvt_request_status_name(enum kvt_request_status status)
{
    static const char *const names[KVT_REQUEST_STATUSES] = {"waiting", "prefilling", "importing",
                                                            "running", "completed",  "unservable"};
    return status < KVT_REQUEST_STATUSES ? names[status] : "unknown";
}

/* What a request holds must be one of the two kinds, and what is dropped must have a copy. */
static kvt_status check_needs(const struct kvt_rank *rank, struct kvt_error *err)
{
    const struct kvt_residency_needs *needs = &rank->needs;
    const char *policy = rank->residency->info.name;

    if (needs->history_in_hbm && (needs->starts_whole || needs->optional_pages))
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "its needs() says history_in_hbm, beside which there are neither "
                        "starts_whole nor optional_pages");
    if (!needs->host_backing && (!needs->history_in_hbm || needs->deferred_backup))
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "its needs() asks for no host_backing, which only history_in_hbm can be "
                        "without, and deferred_backup never");
    if (needs->offloads_whole && needs->host_backing)
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "its needs() says offloads_whole, which is for requests without "
                        "host_backing");
    if (needs->optional_pages && rank->residency->reclaim == NULL)
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "its needs() says optional_pages, and its table has no reclaim(): what is "
                        "optional must go when memory is short");
    if (needs->history_in_hbm &&
        (rank->residency->wants_page_hits || rank->residency->wants_page_scores))
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it wants page hits or scores, and its needs() says history_in_hbm: of "
                        "requests that are whole for ever nobody looks at selections");
    if (!needs->history_in_hbm && rank->env.llm->index_heads == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "residency.policy",
                        "%s has no indexer: every query attends to every row, and none can stay on "
                        "host; \"resident\" or \"prefix-offload\" is expected",
                        rank->env.llm->name);
    return KVT_OK;
}

/* 0: nobody is given one. Contexts are 32 bits wide; top_k rows are the least of any. */
static uint32_t largest_hot_cache(const struct kvt_rank_env *env,
                                  const struct kvt_residency_needs *needs)
{
    if (needs->history_in_hbm)
        return 0;
    if (env->hot_tokens > UINT32_MAX)
        return UINT32_MAX;
    return env->hot_tokens > 0 ? (uint32_t)env->hot_tokens : 1;
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
        .host = kvt_host(),
        .hot_tokens = largest_hot_cache(env, &(struct kvt_residency_needs){0})};
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
    status = KVT_PLUGIN_CALL(rank->residency, init, err, rank->residency_state, &residency_env);
    if (status == KVT_OK)
        status =
            KVT_PLUGIN_CALL(rank->scheduling, init, err, rank->scheduling_state, &scheduling_env);
    if (status == KVT_OK)
        status = rank->import->init(rank->import_state, &import_env, err);
    if (status != KVT_OK)
        return status;
    rank->residency->needs(rank->residency_state, &rank->needs);
    rank->hot_tokens = largest_hot_cache(env, &rank->needs);
    return check_needs(rank, err);
}

kvt_status rank_restart_policies(struct kvt_rank *rank, struct kvt_error *err)
{
    free(rank->residency_state);
    free(rank->scheduling_state);
    free(rank->import_state);
    return init_policies(rank, err);
}

/* What the widest call needs beyond a session's share of staging. Where the pool has less, all of
 * it: then nobody ever fits. */
static kvt_status keep_staging(struct kvt_rank *rank, struct kvt_error *err)
{
    uint64_t room_bytes = kvt_rank_memory_free(&rank->memory, KVT_MEM_STAGING);
    struct kvt_session_bytes any;
    kvt_status status = kvt_rank_required(rank, 1, 1, rank->hot_tokens, &any, err);

    if (status != KVT_OK)
        return status;
    uint64_t kept_bytes = any.rank_staging_bytes < room_bytes ? any.rank_staging_bytes : room_bytes;
    const uint64_t bytes[KVT_MEM_CLASSES] = {[KVT_MEM_STAGING] = kept_bytes};
    if (!kvt_rank_memory_take(&rank->memory, &rank->staging, bytes, 0, false))
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that is free cannot be taken");
    return KVT_OK;
}

kvt_status kvt_rank_init(struct kvt_rank *rank, const struct kvt_rank_env *env, uint64_t *decisions,
                         struct kvt_error *err)
{
    double row_bytes = kvt_llm_payload_bytes_per_token(env->llm);

    *rank = (struct kvt_rank){.env = *env, .decisions = decisions};
    rank->residency = (const struct kvt_residency_policy *)(const void *)env->residency.info;
    rank->scheduling = (const struct kvt_scheduling_policy *)(const void *)env->scheduling.info;
    rank->sees_future = kvt_choice_has(&env->residency, KVT_CLAIRVOYANT);
    rank->import = (const struct kvt_import_law *)(const void *)env->import.info;
    rank->page_bytes = (uint64_t)ceil(row_bytes * KVT_PAGE_ROWS);
    rank->row_bytes_per_token = (uint64_t)ceil(row_bytes);
    rank->h2d.bytes_per_s = env->hardware->link_h2d_bytes_per_s;
    rank->d2h.bytes_per_s = env->hardware->link_d2h_bytes_per_s;
    kvt_rank_memory_init(&rank->memory, env->index_pool_bytes, env->rows_pool_bytes,
                         env->growth_reserve_bytes, env->host, env->host_copies);
    rank->actions = malloc(RANK_ACTIONS * sizeof *rank->actions);
    if (rank->scheduling->wants_entries)
        rank->entries = malloc(KVT_SCHEDULING_ENTRIES * sizeof *rank->entries);
    bool has_room = rank->actions && (rank->entries || !rank->scheduling->wants_entries);
    kvt_status status =
        has_room ? init_policies(rank, err) : kvt_fail_nomem(err, "what a rank asks its policies");
    if (status == KVT_OK)
        status = keep_staging(rank, err);
    if (status == KVT_OK)
        status = rank_open_prefixes(rank, err);
    if (status != KVT_OK)
        kvt_rank_fini(rank);
    return status;
}

void kvt_rank_fini(struct kvt_rank *rank)
{
    free(rank->residency_state);
    free(rank->scheduling_state);
    free(rank->import_state);
    kvt_prefix_pool_fini(&rank->prefixes);
    free(rank->prefix_writes);
    free(rank->homes);
    wait_queue_fini(&rank->waiting);
    free(rank->prefilling.items);
    free(rank->importing.items);
    free(rank->arrived.items);
    free(rank->running.items);
    free(rank->fills);
    free(rank->views);
    free(rank->actions);
    free(rank->candidates);
    free(rank->entries);
    *rank = (struct kvt_rank){0};
}

kvt_status kvt_rank_required(const struct kvt_rank *rank, uint32_t tokens, uint32_t max_tokens,
                             uint32_t hot_tokens, struct kvt_session_bytes *out,
                             struct kvt_error *err)
{
    struct kvt_session_spec spec = {.llm = rank->env.llm,
                                    .drafter = rank->env.drafter,
                                    .needs = rank->needs,
                                    .tokens = tokens,
                                    .max_tokens = max_tokens,
                                    .hot_tokens = hot_tokens,
                                    .queries_max = rank->env.queries_max,
                                    .staging_fraction = rank->env.staging_fraction,
                                    .draft_budget_tokens = rank->env.draft_budget_tokens};

    spec.needs.history_in_hbm = hot_tokens == 0;
    return kvt_session_bytes(&spec, KVT_ENGINE_IDEAL, out, err);
}

/* Ways to hold a request under the policy in force: hot_tokens of each, 0 for whole. */
static uint32_t list_ways(const struct kvt_rank *rank, uint32_t ways[2])
{
    ways[0] = rank->hot_tokens;
    ways[1] = 0;
    return rank->needs.starts_whole && ways[0] > 0 ? 2 : 1;
}

/* An empty copy of the rank tells: first what is admitted, then its growth, in one piece. With
 * two pools growth row by row may share the reserve otherwise, so that a request near the limit
 * can turn out to fit for less long than this says. */
static bool fit_one_after_other(const struct kvt_rank *rank, const struct kvt_session_bytes *first,
                                struct kvt_session_bytes last)
{
    struct kvt_host_pool host = {.capacity_bytes = rank->env.host->capacity_bytes};
    struct kvt_rank_memory memory = rank->memory;
    struct kvt_holding kept = {0}, holding = {0};

    kvt_rank_memory_init(&memory, memory.pool_bytes[0], memory.pool_bytes[1], memory.reserve_bytes,
                         &host, memory.host_copies);
    if (!kvt_rank_memory_take(&memory, &kept, rank->staging.bytes, 0, false) ||
        !kvt_rank_memory_take(&memory, &holding, first->hbm_by_class, first->host_bytes, false))
        return false;
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        last.hbm_by_class[c] -= first->hbm_by_class[c];
    return kvt_rank_memory_take(&memory, &holding, last.hbm_by_class,
                                last.host_bytes - first->host_bytes, true);
}

kvt_status kvt_rank_can_ever_fit(const struct kvt_rank *rank, uint32_t input_tokens,
                                 uint32_t last_tokens, uint32_t max_tokens, bool *fits,
                                 struct kvt_error *err)
{
    uint32_t ways[2], count = list_ways(rank, ways);

    *fits = false;
    for (uint32_t w = 0; w < count && !*fits; w++) {
        struct kvt_session_bytes first, last;
        kvt_status status = kvt_rank_required(rank, input_tokens, max_tokens, ways[w], &first, err);
        if (status == KVT_OK)
            status = kvt_rank_required(rank, last_tokens, max_tokens, ways[w], &last, err);
        if (status != KVT_OK)
            return status;
        *fits = fit_one_after_other(rank, &first, last);
    }
    return KVT_OK;
}

static void slots_in_pools(const struct kvt_rank *rank, const struct kvt_session_bytes *required,
                           uint64_t slots[2])
{
    uint64_t by_pool[2] = {0, 0}, kept[2] = {0, 0};

    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        by_pool[rank->memory.pool_of[c]] += required->hbm_by_class[c];
        kept[rank->memory.pool_of[c]] += rank->staging.bytes[c];
    }
    for (int p = 0; p < 2; p++) {
        uint64_t room_bytes = rank->memory.pool_bytes[p] - kept[p];
        slots[p] = by_pool[p] ? room_bytes / by_pool[p] : UINT64_MAX;
    }
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

kvt_status kvt_rank_slots_by_pool(const struct kvt_rank *rank, uint32_t input_tokens,
                                  uint32_t max_tokens, uint32_t hot_factor, uint64_t by_pool[2],
                                  uint64_t *by_host, struct kvt_error *err)
{
    uint32_t ways[2], count = list_ways(rank, ways);
    struct kvt_session_bytes required = {0};

    by_pool[0] = by_pool[1] = 0;
    for (uint32_t w = 0; w < count; w++) {
        uint64_t slots[2], hot_tokens = (uint64_t)ways[w] * hot_factor;
        kvt_status status =
            kvt_rank_required(rank, input_tokens, max_tokens,
                              (uint32_t)smaller(hot_tokens, UINT32_MAX), &required, err);
        if (status != KVT_OK)
            return status;
        slots_in_pools(rank, &required, slots);
        if (smaller(slots[0], slots[1]) > smaller(by_pool[0], by_pool[1]))
            memcpy(by_pool, slots, sizeof slots);
    }
    if (by_host)
        *by_host = required.host_bytes ? rank->env.host->capacity_bytes / rank->memory.host_copies /
                                             required.host_bytes
                                       : UINT64_MAX;
    return KVT_OK;
}

kvt_status kvt_rank_slots(const struct kvt_rank *rank, uint32_t input_tokens, uint32_t max_tokens,
                          uint64_t *by_pools, uint64_t *by_host, struct kvt_error *err)
{
    uint64_t by_pool[2];
    kvt_status status =
        kvt_rank_slots_by_pool(rank, input_tokens, max_tokens, 1, by_pool, by_host, err);

    *by_pools = status == KVT_OK ? smaller(by_pool[0], by_pool[1]) : 0;
    return status;
}

void rank_tell(const struct kvt_rank *rank, enum kvt_transfer_kind kind, uint32_t request,
               kvt_ns from_ns, kvt_ns to_ns, uint64_t bytes)
{
    const struct kvt_observer *observer = rank->env.observer;
    const struct kvt_transfer transfer = {.kind = kind,
                                          .rank = rank->env.index,
                                          .request = request,
                                          .from_ns = from_ns,
                                          .to_ns = to_ns,
                                          .bytes = bytes};

    if (observer && observer->on_transfer && bytes > 0)
        observer->on_transfer(observer->context, &transfer);
}

kvt_ns rank_send(struct kvt_rank *rank, enum kvt_transfer_kind kind, uint32_t request,
                 kvt_ns now_ns, uint64_t bytes)
{
    bool leaves = kind == KVT_TRANSFER_BACKUP;
    struct kvt_link *link = leaves ? &rank->d2h : &rank->h2d;
    kvt_ns from_ns = link->free_ns > now_ns ? link->free_ns : now_ns;
    kvt_ns done_ns = kvt_link_send(link, now_ns, bytes);

    rank_tell(rank, kind, request, from_ns, done_ns,
              bytes * (leaves ? rank->memory.host_copies : rank->env.gpus));
    return done_ns;
}

kvt_status kvt_rank_enqueue(struct kvt_rank *rank, struct kvt_live *live, struct kvt_error *err)
{
    return wait_queue_push_last(&rank->waiting, live, err);
}

kvt_ns kvt_rank_queue_backup(struct kvt_rank *rank, kvt_ns now_ns, uint64_t tokens)
{
    if (!rank->needs.host_backing || rank->needs.deferred_backup || tokens == 0)
        return now_ns;
    uint64_t bytes = tokens * rank->row_bytes_per_token;
    rank->counters.backup_bytes += bytes;
    return rank_send(rank, KVT_TRANSFER_BACKUP, KVT_TRANSFER_OF_MANY, now_ns, bytes);
}

void kvt_live_commit(struct kvt_live *live, kvt_ns done_ns)
{
    live->step++;
    kvt_pages_commit(&live->pages, live->round_tokens, done_ns);
}

void kvt_rank_release(struct kvt_rank *rank, struct kvt_live *live)
{
    rank_let_go(rank, live);
    rank_give_up(rank, live);
}

void rank_give_up(struct kvt_rank *rank, struct kvt_live *live)
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

/* Pages beside a hot cache are held to the byte; rows of a whole request are part of what it
 * must hold. */
static bool is_live_sane(const struct kvt_rank *rank, const struct kvt_live *live)
{
    if (!kvt_pages_is_sane(&live->pages) || live->pages.whole != (live->hot_tokens == 0))
        return false;
    return live->pages.whole || rank_held_bytes(live, KVT_MEM_PAYLOAD) ==
                                    kvt_pages_held(&live->pages) * rank->page_bytes;
}

bool kvt_rank_is_sane(const struct kvt_rank *rank, kvt_ns now_ns)
{
    uint64_t held = 0;

    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        held += rank->prefixes.holding.bytes[c] + rank->staging.bytes[c];
    const struct kvt_live_list *lists[] = {&rank->importing, &rank->arrived, &rank->running};

    for (size_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            const struct kvt_live *live = lists[l]->items[i];
            for (int c = 0; c < KVT_MEM_CLASSES; c++)
                held += rank_held_bytes(live, (enum kvt_mem_class)c);
            if (!is_live_sane(rank, live) || !kvt_pages_have_homes(&live->pages, now_ns))
                return false;
        }
    }
    return held == kvt_rank_memory_used(&rank->memory) &&
           kvt_prefix_pool_is_sane(&rank->prefixes) && kvt_rank_memory_is_sane(&rank->memory);
}
