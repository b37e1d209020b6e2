/* contract_choice.c -- schedulers and routers played: queues and ranks drawn afresh each time. */
#include "contract.h"
#include "kvt/policy.h"

enum {
    REQUESTS_MAX = 48,
    RANKS = 5,
    MOVE_EVERY = 7
};

static void free_states(struct contract_state states[CONTRACT_ROLES])
{
    for (int r = 0; r < CONTRACT_ROLES; r++)
        contract_state_free(&states[r]);
}

/* ---- Scheduling ------------------------------------------------------------------------- */

/* Preempted ones first, then by arrival, as a queue is. */
static uint32_t draw_requests(struct contract_draws *draws, uint32_t least,
                              struct kvt_scheduling_request *requests)
{
    uint32_t count = contract_draw_from(draws, least, REQUESTS_MAX), id = 0;
    kvt_ns now_ns = 0;

    for (uint32_t i = 0; i < count; i++) {
        id += 1 + contract_draw(draws, 3);
        now_ns += contract_draw(draws, 1000000);
        requests[i] =
            (struct kvt_scheduling_request){.arrival_ns = now_ns,
                                            .id = id,
                                            .input_tokens = contract_draw_from(draws, 1, 100000),
                                            .generated_tokens = contract_draw(draws, 2000),
                                            .priority = contract_draw(draws, 3)};
    }
    return count;
}

/* A rank, and what it takes to let the first of the waiting in. */
static void draw_view(struct contract_draws *draws, const struct kvt_scheduling_request *waiting,
                      uint32_t count, bool wants_entries, struct kvt_scheduling_entry *entries,
                      struct kvt_scheduling_view *view)
{
    *view = (struct kvt_scheduling_view){.now_ns = contract_draw(draws, 1 << 30),
                                         .last_step_ns = contract_draw(draws, 1 << 20),
                                         .last_step_requests = contract_draw(draws, 53),
                                         .running = contract_draw(draws, 53),
                                         .coming_in = contract_draw(draws, 9),
                                         .free_bytes = contract_draw(draws, 1 << 30),
                                         .h2d_backlog_bytes = contract_draw(draws, 1 << 30),
                                         .d2h_backlog_bytes = contract_draw(draws, 1 << 30)};
    view->last_fetch_ns = contract_draw(draws, (uint32_t)view->last_step_ns + 1);
    if (!wants_entries)
        return;
    view->entries = entries;
    view->entry_count = count;
    view->coming_load_tokens = contract_draw(draws, 100000);
    view->coming_new_tokens = contract_draw(draws, 1000);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t found = contract_draw(draws, waiting[i].input_tokens);
        entries[i] = (struct kvt_scheduling_entry){.found_tokens = found,
                                                   .load_tokens = contract_draw(draws, found + 1),
                                                   .new_tokens = waiting[i].input_tokens - found,
                                                   .in_flight_tokens = contract_draw(draws, 300),
                                                   .load_bytes = contract_draw(draws, 1 << 30),
                                                   .context_key = contract_draw(draws, 4),
                                                   .passed_by = contract_draw(draws, 70)};
    }
}

/* choose(), of a policy that has it. */
static kvt_status ask_in_view(struct contract_play *play, struct contract_state *states,
                              const struct kvt_scheduling_request *requests, uint32_t count,
                              struct kvt_error *err)
{
    const struct kvt_scheduling_policy *policy =
        (const struct kvt_scheduling_policy *)(const void *)play->info;
    struct kvt_scheduling_entry entries[REQUESTS_MAX];
    struct kvt_scheduling_view view;
    uint32_t first = 0;
    kvt_status status = KVT_OK;

    draw_view(&play->draws, requests, count, policy->wants_entries, entries, &view);
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, "choose");
        uint32_t answer =
            policy->choose(states[r].bytes, &view, count > 0 ? requests : NULL, count);
        status = contract_state_check(play, &states[r], err);
        if (status == KVT_OK && answer > count)
            status = contract_broken(play, err, "an index, or the count for nobody",
                                     "choose() returned %u of %u requests", answer, count);
        if (r == 0)
            first = answer;
        else if (status == KVT_OK && answer != first)
            status = contract_differs(play, (enum contract_role)r, "choose", err);
    }
    return status;
}

/* next() or preempt(), which one signature fits. */
typedef uint32_t choose(void *state, const struct kvt_scheduling_request *requests, uint32_t count);

static kvt_status ask_scheduler(struct contract_play *play, struct contract_state *states,
                                choose *function, const char *name,
                                const struct kvt_scheduling_request *requests, uint32_t count,
                                struct kvt_error *err)
{
    uint32_t first = 0;
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, name);
        uint32_t answer = function(states[r].bytes, count > 0 ? requests : NULL, count);
        status = contract_state_check(play, &states[r], err);
        if (status == KVT_OK && answer > count)
            status = contract_broken(play, err, "an index, or the count for nobody",
                                     "%s() returned %u of %u requests", name, answer, count);
        if (r == 0)
            first = answer;
        else if (status == KVT_OK && answer != first)
            status = contract_differs(play, (enum contract_role)r, name, err);
    }
    return status;
}

static kvt_status open_scheduler(struct contract_play *play, struct contract_state *states,
                                 struct kvt_error *err)
{
    const struct kvt_scheduling_policy *policy =
        (const struct kvt_scheduling_policy *)(const void *)play->info;
    const struct kvt_scheduling_env env = {
        .params = play->params, .run_seed = 2385, .host = kvt_host()};
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, "state_bytes");
        status = contract_state_new(play, policy->state_bytes(&env), &states[r], err);
        if (status != KVT_OK)
            return status;
        contract_enter(play, "init");
        status = policy->init(states[r].bytes, &env, err);
        if (status == KVT_OK)
            status = contract_state_check(play, &states[r], err);
    }
    return status;
}

kvt_status contract_play_scheduling(struct contract_play *play, struct kvt_error *err)
{
    const struct kvt_scheduling_policy *policy =
        (const struct kvt_scheduling_policy *)(const void *)play->info;
    struct contract_state states[CONTRACT_ROLES] = {{.bytes = NULL}};
    struct kvt_scheduling_request requests[REQUESTS_MAX];
    uint64_t first_call = play->note->calls;
    kvt_status status = open_scheduler(play, states, err);

    for (uint32_t i = 0; status == KVT_OK && contract_goes_on(play, first_call); i++) {
        if (i % MOVE_EVERY == MOVE_EVERY - 1)
            status = contract_state_move(&states[CONTRACT_MOVED], err);
        uint32_t count = draw_requests(&play->draws, 0, requests);
        if (status == KVT_OK)
            status = ask_scheduler(play, states, policy->next, "next", requests, count, err);
        if (status == KVT_OK && policy->choose)
            status = ask_in_view(play, states, requests, count, err);
        count = draw_requests(&play->draws, 0, requests);
        if (status == KVT_OK)
            status = ask_scheduler(play, states, policy->preempt, "preempt", requests, count, err);
    }
    free_states(states);
    return status;
}

/* ---- Routers ----------------------------------------------------------------------------- */

static uint32_t draw_ranks(struct contract_draws *draws, struct kvt_router_rank *ranks)
{
    uint32_t count = contract_draw_from(draws, 1, RANKS);

    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (struct kvt_router_rank){.waiting = contract_draw(draws, 4),
                                            .running = contract_draw(draws, 53),
                                            .slots = contract_draw(draws, 53),
                                            .free_bytes = contract_draw(draws, 1 << 30),
                                            .prefix_hit_tokens = contract_draw(draws, 100032)};
    }
    return count;
}

static kvt_status open_router(struct contract_play *play, struct contract_state *states,
                              struct kvt_error *err)
{
    const struct kvt_router_policy *policy =
        (const struct kvt_router_policy *)(const void *)play->info;
    const struct kvt_router_env env = {
        .params = play->params, .rank_count = RANKS, .run_seed = 2385, .host = kvt_host()};
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, "state_bytes");
        status = contract_state_new(play, policy->state_bytes(&env), &states[r], err);
        if (status != KVT_OK)
            return status;
        contract_enter(play, "init");
        status = policy->init(states[r].bytes, &env, err);
        if (status == KVT_OK)
            status = contract_state_check(play, &states[r], err);
    }
    return status;
}

static kvt_status ask_router(struct contract_play *play, struct contract_state *states,
                             uint32_t request, struct kvt_error *err)
{
    const struct kvt_router_policy *policy =
        (const struct kvt_router_policy *)(const void *)play->info;
    struct kvt_router_rank ranks[RANKS];
    uint32_t count = draw_ranks(&play->draws, ranks), first = 0;
    uint32_t tokens = contract_draw_from(&play->draws, 1, 200000);
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, "route");
        uint32_t answer = policy->route(states[r].bytes, request, tokens, ranks, count);
        status = contract_state_check(play, &states[r], err);
        if (status == KVT_OK && answer >= count)
            status = contract_broken(play, err, "the index of a rank",
                                     "route() sends request %u to choice %u of %u", request, answer,
                                     count);
        if (r == 0)
            first = answer;
        else if (status == KVT_OK && answer != first)
            status = contract_differs(play, (enum contract_role)r, "route", err);
    }
    return status;
}

kvt_status contract_play_router(struct contract_play *play, struct kvt_error *err)
{
    struct contract_state states[CONTRACT_ROLES] = {{.bytes = NULL}};
    uint64_t first_call = play->note->calls;
    kvt_status status = open_router(play, states, err);

    for (uint32_t i = 0; status == KVT_OK && contract_goes_on(play, first_call); i++) {
        if (i % MOVE_EVERY == MOVE_EVERY - 1)
            status = contract_state_move(&states[CONTRACT_MOVED], err);
        if (status == KVT_OK)
            status = ask_router(play, states, i, err);
    }
    free_states(states);
    return status;
}
