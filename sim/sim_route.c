/* sim_route.c -- a request's way to a rank: by the router, through the prefill pool where prompts
 * are computed apart, into the rank's queue; or to shelter, where every rank that could hold it is
 * down. */
#include "kvt/hash.h"
#include "sim_private.h"

/* What the router may know of a rank. */
static void view_rank(const struct kvt_sim *sim, uint32_t r, const struct kvt_live *live,
                      uint64_t slots, struct kvt_router_rank *view)
{
    const struct kvt_rank *rank = &sim->ranks[r];

    *view = (struct kvt_router_rank){
        .waiting = rank->waiting.count + sim->prefilling_for[r],
        .running = rank->running.count + rank->arrived.count + rank->importing.count,
        .slots = slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots,
        .free_bytes = kvt_rank_free_bytes(rank),
        .prefix_hit_tokens = kvt_rank_prefix_pages(rank, live) * KVT_PAGE_ROWS};
    /* Nobody holds payload of the store in HBM where pages are optional: it is in there. */
    if (rank->needs.optional_pages)
        view->free_bytes += rank->memory.used_by_class[KVT_MEM_PAYLOAD] -
                            rank->prefixes.holding.bytes[KVT_MEM_PAYLOAD];
}

/* The ranks on which the request could run to its end, were they empty; of those that are up, and
 * stand on `host` unless that is NULL, the router chooses one. None at all: it is not *servable.
 * Ranks of a pool are alike in that. */
static kvt_status list_choices(struct kvt_sim *sim, const struct kvt_live *live,
                               const struct kvt_host_pool *host, uint32_t *count, bool *servable,
                               struct kvt_error *err)
{
    uint64_t longest = (uint64_t)live->input_tokens + live->output_tokens, slots = 0;
    uint32_t known_pool = UINT32_MAX;
    bool fits = false;

    *count = 0;
    *servable = false;
    if (longest > sim->scenario->llm->max_position_tokens)
        return KVT_OK;
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        const struct kvt_rank *rank = &sim->ranks[r];
        uint32_t pool = sim->groups[sim->group_of[r]].pool;
        kvt_status status = KVT_OK;
        if (pool != known_pool)
            status = kvt_rank_can_ever_fit(rank, live->input_tokens, (uint32_t)longest - 1,
                                           live->max_tokens, &fits, err);
        if (status == KVT_OK && fits && pool != known_pool)
            status = kvt_rank_slots(rank, live->input_tokens, live->max_tokens, &slots, NULL, err);
        if (status != KVT_OK)
            return status;
        known_pool = pool;
        *servable = *servable || fits;
        if (!fits || sim_is_down(sim, r) || (host && rank->env.host != host))
            continue;
        sim->router_choices[*count] = r;
        view_rank(sim, r, live, slots, &sim->router_views[(*count)++]);
    }
    return KVT_OK;
}

/* What of it is left on host binds it to that node while a rank is up there; elsewhere it goes
 * without, and keeps it where it has to wait. */
static kvt_status list_places(struct kvt_sim *sim, struct kvt_live *live, uint32_t *count,
                              bool *servable, struct kvt_error *err)
{
    struct kvt_rank *last = NULL;
    kvt_status status = KVT_OK;

    *count = 0;
    if (live->aside_tokens > 0) {
        last = &sim->ranks[sim->records[live->id].rank];
        status = list_choices(sim, live, last->env.host, count, servable, err);
    }
    if (status != KVT_OK || *count > 0)
        return status;
    status = list_choices(sim, live, NULL, count, servable, err);
    if (status == KVT_OK && last && *count > 0)
        kvt_rank_forget_copy(last, live);
    return status;
}

kvt_status sim_route(struct kvt_sim *sim, struct kvt_live *live, bool *routed, bool *servable,
                     struct kvt_error *err)
{
    struct kvt_request_record *record = &sim->records[live->id];
    uint32_t count = 0;
    kvt_status status = list_places(sim, live, &count, servable, err);

    *routed = count > 0;
    if (status != KVT_OK || count == 0)
        return status;
    uint32_t choice = sim->router->route(sim->router_state, live->id, live->input_tokens,
                                         sim->router_views, count);
    if (choice >= count)
        return kvt_fail(err, KVT_ERR_POLICY, sim->router->info.name,
                        "it routes request %u to choice %u of %u", live->id, choice, count);
    record->rank = sim->router_choices[choice];
    sim->decisions = kvt_chain64(sim->decisions, (uint64_t)live->id << 32 | record->rank);
    return KVT_OK;
}

/* Into the queue of its rank; of another where that has failed meanwhile. */
static kvt_status hand_to_rank(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    struct kvt_request_record *record = &sim->records[live->id];
    bool routed = true, servable;
    kvt_status status = KVT_OK;

    record->status = KVT_REQUEST_WAITING;
    sim_wait(sim, live, KVT_WAIT_QUEUE);
    if (sim_is_down(sim, record->rank))
        status = sim_route(sim, live, &routed, &servable, err);
    if (status == KVT_OK && !routed)
        return sim_shelter(sim, live, err);
    if (status != KVT_OK)
        return status;
    struct kvt_rank *rank = &sim->ranks[record->rank];
    status = live->fault > 0 ? kvt_rank_enqueue_first(rank, live, err)
                             : kvt_rank_enqueue(rank, live, err);
    return status == KVT_OK ? sim_schedule_boundary(sim, sim->group_of[record->rank], err) : status;
}

kvt_status sim_send_off(struct kvt_sim *sim, struct kvt_live *live, bool routed,
                        struct kvt_error *err)
{
    if (!routed)
        return sim_shelter(sim, live, err);
    if (sim->scenario->prefill.mode == KVT_PREFILL_SEPARATE && !live->was_prefilled)
        return sim_queue_prefill(sim, live, err);
    return hand_to_rank(sim, live, err);
}

kvt_status sim_place(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    bool routed, servable;
    kvt_status status = sim_route(sim, live, &routed, &servable, err);

    return status == KVT_OK ? sim_send_off(sim, live, routed, err) : status;
}

kvt_status sim_on_prefill_done(struct kvt_sim *sim, uint64_t payload, struct kvt_error *err)
{
    struct kvt_live *live = sim_find_awaited(sim, payload);

    if (!live)
        return KVT_OK;
    sim_leave_prefill(sim, live);
    live->was_prefilled = true;
    kvt_status status = hand_to_rank(sim, live, err);
    return status == KVT_OK ? sim_begin_prefills(sim, err) : status;
}
