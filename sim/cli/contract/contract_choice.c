/* contract_choice.c -- schedulers and routers played: queues and ranks drawn afresh each time. */
#include "contract.h"
#include "kvt/policy.h"

enum {
    CROWD = 48,
    REQUESTS_MAX = KVT_SCHEDULING_ENTRIES + 16,
    RANKS = 5,
    MOVE_EVERY = 7
};

static void free_states(struct contract_state states[CONTRACT_ROLES])
{
    for (int r = 0; r < CONTRACT_ROLES; r++)
        contract_state_free(&states[r]);
}

/* ---- Scheduling ------------------------------------------------------------------------- */

/* A rank, and who waits or runs there. */
struct scene {
    struct kvt_scheduling_request requests[REQUESTS_MAX];
    uint32_t count;
    struct kvt_scheduling_entry entries[KVT_SCHEDULING_ENTRIES];
    struct kvt_scheduling_view view;
};

/* Preempted ones first, then by arrival, as a queue is. Now and then more of them than are shown
 * with entries. */
static void draw_requests(struct contract_draws *draws, struct scene *scene)
{
    uint32_t id = 0;
    kvt_ns now_ns = 0;

    scene->count = contract_draw_from(draws, 0, contract_chance(draws, 5) ? REQUESTS_MAX : CROWD);
    for (uint32_t i = 0; i < scene->count; i++) {
        id += 1 + contract_draw(draws, 3);
        now_ns += contract_draw(draws, 1000000);
        scene->requests[i] =
            (struct kvt_scheduling_request){.arrival_ns = now_ns,
                                            .id = id,
                                            .input_tokens = contract_draw_from(draws, 1, 100000),
                                            .generated_tokens = contract_draw(draws, 2000),
                                            .priority = contract_draw(draws, 3)};
    }
}

static void draw_entry(struct contract_draws *draws, const struct kvt_scheduling_request *request,
                       bool is_idle, struct kvt_scheduling_entry *entry)
{
    uint32_t context = request->input_tokens + request->generated_tokens;
    uint32_t found = contract_chance(draws, 60) ? contract_draw(draws, context) : 0;
    uint32_t load = contract_draw(draws, (uint64_t)found + 1);

    *entry =
        (struct kvt_scheduling_entry){.found_tokens = found,
                                      .load_tokens = load,
                                      .new_tokens = context - found,
                                      .load_bytes = (uint64_t)load * 576,
                                      .context_key = found > 0 ? 1 + contract_draw(draws, 5) : 0,
                                      .passed_by = contract_draw(draws, 100)};
    if (!is_idle && contract_chance(draws, 50))
        entry->in_flight_tokens = contract_draw(draws, (uint64_t)load + entry->new_tokens + 1);
}

/* The rank about the requests that wait: idle now and then, or before its first step. */
static void draw_view(struct contract_draws *draws, struct scene *scene)
{
    struct kvt_scheduling_view *view = &scene->view;
    bool is_idle = contract_chance(draws, 20), has_stepped = contract_chance(draws, 90);
    uint32_t shown = scene->count < KVT_SCHEDULING_ENTRIES ? scene->count : KVT_SCHEDULING_ENTRIES;

    *view = (struct kvt_scheduling_view){.free_bytes = contract_draw(draws, 1 << 30),
                                         .h2d_backlog_bytes = contract_draw(draws, 1 << 24),
                                         .d2h_backlog_bytes = contract_draw(draws, 1 << 24),
                                         .entries = scene->entries,
                                         .entry_count = shown};
    if (has_stepped) {
        view->last_step_ns = contract_draw_from(draws, 1, 100000000);
        view->last_fetch_ns = contract_draw(draws, (uint64_t)view->last_step_ns + 1);
        view->last_step_requests = contract_draw(draws, 53);
    }
    view->now_ns = view->last_step_ns + contract_draw(draws, 1000000);
    if (scene->count > 0)
        view->now_ns += scene->requests[scene->count - 1].arrival_ns;
    if (!is_idle) {
        view->running = has_stepped ? contract_draw(draws, 53) : 0;
        view->coming_in = contract_draw(draws, 9);
    }
    if (view->coming_in > 0) {
        view->coming_load_tokens = contract_draw(draws, 500000);
        view->coming_new_tokens = contract_draw(draws, 500000);
    }
    for (uint32_t i = 0; i < shown; i++)
        draw_entry(draws, &scene->requests[i], view->coming_in == 0, &scene->entries[i]);
}

/* What of the view the table asks for; NULL: nothing. */
static const struct kvt_scheduling_view *show(const struct contract_play *play,
                                              const struct kvt_scheduling_policy *policy,
                                              struct scene *scene)
{
    if (!policy->wants_entries && (play->gifts & CONTRACT_GIFT_ENTRIES) == 0) {
        scene->view.entries = NULL;
        scene->view.entry_count = 0;
        scene->view.coming_load_tokens = scene->view.coming_new_tokens = 0;
    }
    bool is_shown = kvt_scheduling_sees_rank(policy) || (play->gifts & CONTRACT_GIFT_VIEW) != 0;
    return is_shown ? &scene->view : NULL;
}

/* Of an answer to next(): is somebody named where nothing else can happen? */
static kvt_status check_somebody(const struct contract_play *play, uint32_t answer, uint32_t count,
                                 const struct kvt_scheduling_view *view, struct kvt_error *err)
{
    if (answer < count || count == 0 || (view != NULL && view->running + view->coming_in > 0))
        return KVT_OK;
    return contract_broken(play, err, "an idle rank lets somebody in, or nothing will ever happen",
                           "next() names none of %u requests, %s", count,
                           view != NULL ? "and nobody runs or is coming in"
                                        : "and without a view it cannot know that the rank is "
                                          "not idle");
}

/* Asks every instance, next() where asks_next, else preempt(). */
static kvt_status ask_scheduler(struct contract_play *play, struct contract_state *states,
                                bool asks_next, struct scene *scene, struct kvt_error *err)
{
    const struct kvt_scheduling_policy *policy =
        (const struct kvt_scheduling_policy *)(const void *)play->info;
    const struct kvt_scheduling_request *requests = scene->count > 0 ? scene->requests : NULL;
    const struct kvt_scheduling_view *view = asks_next ? show(play, policy, scene) : NULL;
    const char *name = asks_next ? "next" : "preempt";
    uint32_t count = scene->count, first = 0;
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(play, name);
        uint32_t answer = asks_next ? policy->next(states[r].bytes, view, requests, count)
                                    : policy->preempt(states[r].bytes, requests, count);
        status = contract_state_check(play, &states[r], err);
        if (status == KVT_OK && answer > count)
            status = contract_broken(play, err, "an index, or the count for nobody",
                                     "%s() returned %u of %u requests", name, answer, count);
        if (r == 0)
            first = answer;
        else if (status == KVT_OK && answer != first)
            status = contract_differs(play, (enum contract_role)r, name, err);
    }
    return status == KVT_OK && asks_next ? check_somebody(play, first, count, view, err) : status;
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
        status = KVT_PLUGIN_CALL(policy, init, err, states[r].bytes, &env);
        if (status == KVT_OK)
            status = contract_state_check(play, &states[r], err);
    }
    return status;
}

kvt_status contract_play_scheduling(struct contract_play *play, struct kvt_error *err)
{
    struct contract_state states[CONTRACT_ROLES] = {{.bytes = NULL}};
    struct scene scene;
    uint64_t first_call = play->note->calls;
    kvt_status status = open_scheduler(play, states, err);

    for (uint32_t i = 0; status == KVT_OK && contract_goes_on(play, first_call); i++) {
        if (i % MOVE_EVERY == MOVE_EVERY - 1)
            status = contract_state_move(&states[CONTRACT_MOVED], err);
        draw_requests(&play->draws, &scene);
        /* Whatever is shown of it, so that a gift changes nothing else. */
        draw_view(&play->draws, &scene);
        if (status == KVT_OK)
            status = ask_scheduler(play, states, true, &scene, err);
        draw_requests(&play->draws, &scene);
        if (status == KVT_OK)
            status = ask_scheduler(play, states, false, &scene, err);
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
        status = KVT_PLUGIN_CALL(policy, init, err, states[r].bytes, &env);
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
