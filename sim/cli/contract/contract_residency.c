/* contract_residency.c -- a residency policy played: a rank with requests that come, grow and go.
 *
 *     for each step:
 *         requests grow and end, transfers end
 *         while memory is short: reclaim() is asked, until there is room or somebody goes
 *         a request comes in, where admit() lets it; landing() says where it lands
 *         boundary() moves what is optional
 *
 * Every instance is asked the same and must answer the same; of a policy without `clairvoyant`
 * one is shown the future, which must make no difference. */
#include <stdlib.h>
#include <string.h>

#include "contract_host.h"

enum {
    STEPS_OF_A_RANK = 60,
    MOVE_EVERY = 7,
    GUARD = 4
};

struct bench {
    struct contract_play *play;
    const struct kvt_residency_policy *policy;
    struct contract_state states[CONTRACT_ROLES];
    struct host host;
    struct host_view views[CONTRACT_ROLES];
    struct kvt_residency_action actions[CONTRACT_ROLES][HOST_ACTIONS + GUARD];
};

/* ---- needs() ------------------------------------------------------------------------------ */

static kvt_status check_needs(const struct bench *bench, struct kvt_error *err)
{
    const struct contract_play *play = bench->play;
    const struct kvt_residency_needs *needs = &bench->host.needs;

    if (needs->history_in_hbm && (needs->starts_whole || needs->optional_pages))
        return contract_broken(play, err, "needs() does not contradict itself",
                               "needs() says history_in_hbm, beside which there are neither "
                               "starts_whole nor optional_pages");
    if (!needs->host_backing && (!needs->history_in_hbm || needs->deferred_backup))
        return contract_broken(play, err, "needs() does not contradict itself",
                               "needs() asks for no host_backing, which only history_in_hbm can be "
                               "without, and deferred_backup never");
    if (needs->offloads_whole && needs->host_backing)
        return contract_broken(play, err, "needs() does not contradict itself",
                               "needs() says offloads_whole, which is for requests without "
                               "host_backing");
    if (needs->optional_pages && bench->policy->reclaim == NULL)
        return contract_broken(play, err, "what is optional goes when memory is short",
                               "needs() says optional_pages, and the table has no reclaim()");
    if (needs->history_in_hbm &&
        (bench->policy->wants_page_hits || bench->policy->wants_page_scores))
        return contract_broken(play, err,
                               "of requests that are whole for ever nobody looks at "
                               "selections",
                               "it wants page hits or scores, and needs() says history_in_hbm");
    return KVT_OK;
}

static kvt_status open_rank(struct bench *bench, struct contract_play *play, struct kvt_error *err)
{
    const struct kvt_residency_env env = {.params = play->params,
                                          .page_bytes = HOST_PAGE_BYTES,
                                          .pool_bytes = (uint64_t)HOST_POOL_PAGES * HOST_PAGE_BYTES,
                                          .link_bytes_per_s = 49400000000,
                                          .run_seed = 2385,
                                          .host = kvt_host(),
                                          .hot_tokens = HOST_HOT_TOKENS};
    kvt_status status = KVT_OK;

    memset(bench, 0, sizeof *bench);
    bench->play = play;
    bench->policy = (const struct kvt_residency_policy *)(const void *)play->info;
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        struct contract_state *state = &bench->states[r];
        struct kvt_residency_needs needs = {false};
        contract_enter(play, "state_bytes");
        status = contract_state_new(play, bench->policy->state_bytes(&env), state, err);
        if (status != KVT_OK)
            return status;
        contract_enter(play, "init");
        status = KVT_PLUGIN_CALL(bench->policy, init, err, state->bytes, &env);
        if (status != KVT_OK)
            return status;
        contract_enter(play, "needs");
        bench->policy->needs(state->bytes, &needs);
        status = contract_state_check(play, state, err);
        if (r == 0)
            bench->host.needs = needs;
        else if (status == KVT_OK && memcmp(&needs, &bench->host.needs, sizeof needs) != 0)
            status = contract_differs(play, CONTRACT_TWIN, "needs", err);
    }
    bench->host.play = play;
    bench->host.next_id = contract_draw(&play->draws, 4);
    bench->host.shows_hits =
        bench->policy->wants_page_hits || (play->gifts & CONTRACT_GIFT_PAGE_HITS) != 0;
    bench->host.shows_scores =
        bench->policy->wants_page_scores || (play->gifts & CONTRACT_GIFT_PAGE_SCORES) != 0;
    bench->host.shows_page_future =
        bench->policy->wants_page_future || (play->gifts & CONTRACT_GIFT_PAGE_FUTURE) != 0;
    return status == KVT_OK ? check_needs(bench, err) : status;
}

static void close_rank(struct bench *bench)
{
    for (int r = 0; r < CONTRACT_ROLES; r++)
        contract_state_free(&bench->states[r]);
}

static const struct kvt_residency_view *view_for(struct bench *bench, int role)
{
    bool sees_future = contract_sees_future(bench->play) || role == CONTRACT_OTHER ||
                       (bench->play->gifts & CONTRACT_GIFT_FUTURE) != 0;

    host_view_make(&bench->host, sees_future, &bench->views[role]);
    return &bench->views[role].view;
}

/* ---- Actions ------------------------------------------------------------------------------- */

/* boundary(), or reclaim() where want_bytes is not 0; what it wrote is in actions[0]. */
static kvt_status ask(struct bench *bench, uint64_t want_bytes, uint32_t capacity, uint32_t *count,
                      struct kvt_error *err)
{
    static const struct kvt_residency_action untouched = {.verb = UINT16_MAX};
    const char *function = want_bytes > 0 ? "reclaim" : "boundary";
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        struct kvt_residency_action *actions = bench->actions[r];
        const struct kvt_residency_view *view = view_for(bench, r);
        unsigned char *state = bench->states[r].bytes;
        for (uint32_t i = 0; i < HOST_ACTIONS + GUARD; i++)
            actions[i] = untouched;
        contract_enter(bench->play, function);
        uint32_t wrote = want_bytes > 0
                             ? bench->policy->reclaim(state, view, want_bytes, actions, capacity)
                             : bench->policy->boundary(state, view, actions, capacity);
        status = contract_state_check(bench->play, &bench->states[r], err);
        if (status == KVT_OK && (wrote > capacity || actions[capacity].verb != UINT16_MAX))
            status = contract_broken(bench->play, err, "at most `capacity` actions",
                                     "%s() says that it wrote %u actions; there was room for %u",
                                     function, wrote, capacity);
        if (r == 0)
            *count = wrote;
        bool same = wrote == *count;
        for (uint32_t i = 0; i < wrote && same && status == KVT_OK; i++) {
            const struct kvt_residency_action *a = &actions[i], *b = &bench->actions[0][i];
            same = a->verb == b->verb && a->request == b->request && a->first == b->first &&
                   a->count == b->count;
        }
        if (status == KVT_OK && !same)
            status = contract_differs(bench->play, (enum contract_role)r, function, err);
    }
    return status;
}

static kvt_status act_all(struct bench *bench, uint32_t count, bool reclaims, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < count && status == KVT_OK; i++)
        status = host_act(&bench->host, &bench->actions[0][i], reclaims, err);
    return status;
}

/* Mostly room for everything, at times for a few. */
static uint32_t draw_capacity(struct bench *bench)
{
    return contract_chance(&bench->play->draws, 70) ? HOST_ACTIONS
                                                    : contract_draw_from(&bench->play->draws, 1, 4);
}

static kvt_status make_room(struct bench *bench, uint32_t want_pages, struct kvt_error *err)
{
    struct host *host = &bench->host;
    kvt_status status = KVT_OK;

    while (status == KVT_OK && host_free_pages(host) < want_pages) {
        uint32_t optional = host_reclaimable_pages(host), held = host_held_pages(host);
        uint32_t short_pages = want_pages + held - HOST_POOL_PAGES, count = 0;
        if (optional == 0 || bench->policy->reclaim == NULL)
            return KVT_OK;
        uint64_t want_bytes =
            (uint64_t)(short_pages < optional ? short_pages : optional) * HOST_PAGE_BYTES;
        status = ask(bench, want_bytes, draw_capacity(bench), &count, err);
        if (status == KVT_OK)
            status = act_all(bench, count, true, err);
        if (status == KVT_OK && host_held_pages(host) >= held)
            status = contract_broken(bench->play, err, "optional pages are released under pressure",
                                     "reclaim() was asked for %llu bytes while %llu bytes could "
                                     "go, and released nothing",
                                     (unsigned long long)want_bytes,
                                     (unsigned long long)optional * HOST_PAGE_BYTES);
    }
    return status;
}

/* ---- Who comes ------------------------------------------------------------------------------ */

static kvt_status ask_admit(struct bench *bench, uint32_t tokens, bool *admitted,
                            struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    *admitted = true;
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK && bench->policy->admit != NULL; r++) {
        const struct kvt_residency_view *view = view_for(bench, r);
        contract_enter(bench->play, "admit");
        bool yes = bench->policy->admit(bench->states[r].bytes, view, tokens);
        status = contract_state_check(bench->play, &bench->states[r], err);
        if (status == KVT_OK && r > 0 && yes != *admitted)
            status = contract_differs(bench->play, (enum contract_role)r, "admit", err);
        *admitted = yes;
    }
    return status;
}

static kvt_status ask_landing(struct bench *bench, uint32_t tokens,
                              struct kvt_residency_landing *out, struct kvt_error *err)
{
    uint32_t free_pages = host_free_pages(&bench->host);
    const struct kvt_residency_import import = {
        .id = bench->host.next_id,
        .context_tokens = tokens,
        .page_count = host_landing_pages(tokens),
        .free_bytes =
            (uint64_t)(free_pages > HOST_HOT_PAGES + 2 ? free_pages - HOST_HOT_PAGES - 2 : 0) *
            HOST_PAGE_BYTES};
    kvt_status status = KVT_OK;

    *out = (struct kvt_residency_landing){0};
    if (bench->policy->landing == NULL || !bench->host.needs.optional_pages)
        return KVT_OK;
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        const struct kvt_residency_view *view = view_for(bench, r);
        struct kvt_residency_landing landing = {0};
        contract_enter(bench->play, "landing");
        bench->policy->landing(bench->states[r].bytes, view, &import, &landing);
        status = contract_state_check(bench->play, &bench->states[r], err);
        if (status == KVT_OK && landing.write_later && landing.pages > 0 &&
            !bench->host.needs.deferred_backup)
            status =
                contract_broken(bench->play, err, "write_later needs deferred_backup",
                                "landing() lets request %u land without a copy on host", import.id);
        if (r == 0)
            *out = landing;
        else if (status == KVT_OK &&
                 (landing.pages != out->pages || landing.write_later != out->write_later))
            status = contract_differs(bench->play, (enum contract_role)r, "landing", err);
    }
    uint32_t most = (uint32_t)(import.free_bytes / HOST_PAGE_BYTES);
    most = most < import.page_count ? most : import.page_count;
    out->pages = out->pages < most ? out->pages : most;
    return status;
}

/* Somebody asks to come in; for a request that is not whole a hot cache has to fit. */
static kvt_status admit(struct bench *bench, struct kvt_error *err)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t tokens = contract_draw_from(draws, 1, (HOST_PAGES_MAX - 8) * KVT_PAGE_ROWS);
    bool whole = bench->host.needs.history_in_hbm, admitted = false;
    uint32_t pages = (tokens + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
    struct kvt_residency_landing landing;
    kvt_status status = ask_admit(bench, tokens, &admitted, err);

    if (status != KVT_OK || !admitted || bench->host.count == HOST_REQUESTS_MAX)
        return status;
    status = make_room(bench, whole ? pages : HOST_HOT_PAGES + 2, err);
    if (status == KVT_OK)
        status = ask_landing(bench, tokens, &landing, err);
    if (status == KVT_OK)
        (void)host_admit(&bench->host, tokens, landing.pages,
                         landing.pages > 0 && landing.write_later);
    return status;
}

static kvt_status play_step(struct bench *bench, uint32_t number, struct kvt_error *err)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t count = 0;
    kvt_status status = KVT_OK;

    if (number % MOVE_EVERY == MOVE_EVERY - 1)
        status = contract_state_move(&bench->states[CONTRACT_MOVED], err);
    host_step(&bench->host);
    bench->host.queue_length = contract_chance(draws, 25) ? contract_draw(draws, 9) : 0;
    if (status == KVT_OK)
        status = make_room(bench, bench->host.count, err);
    while (bench->host.count > 1 && host_free_pages(&bench->host) < bench->host.count)
        host_drop(&bench->host, contract_draw(draws, bench->host.count));
    if (status == KVT_OK && contract_chance(draws, 40))
        status = admit(bench, err);
    if (status == KVT_OK && bench->policy->boundary != NULL)
        status = ask(bench, 0, draw_capacity(bench), &count, err);
    return status == KVT_OK ? act_all(bench, count, false, err) : status;
}

/* As a run does: the future of pages is for policies that say so, where they say so. */
static kvt_status check_future(const struct contract_play *play, struct kvt_error *err)
{
    const struct kvt_residency_policy *policy =
        (const struct kvt_residency_policy *)(const void *)play->info;
    bool can_say_so = false;

    if (!policy->wants_page_future || contract_sees_future(play))
        return KVT_OK;
    for (size_t i = 0; i < play->info->param_count; i++)
        can_say_so = can_say_so || strcmp(play->info->params[i].name, KVT_CLAIRVOYANT) == 0;
    if (!can_say_so)
        return contract_broken(play, err, "never the future without the parameter " KVT_CLAIRVOYANT,
                               "its table sets wants_page_future");
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, play->info->name,
                    "it wants to know what comes of pages; " KVT_CLAIRVOYANT " true is expected");
}

kvt_status contract_play_residency(struct contract_play *play, struct kvt_error *err)
{
    struct bench *bench = malloc(sizeof *bench);
    uint64_t first_call = play->note->calls;
    kvt_status status = check_future(play, err);

    if (bench == NULL)
        return kvt_fail_nomem(err, "a rank");
    while (status == KVT_OK && contract_goes_on(play, first_call)) {
        status = open_rank(bench, play, err);
        for (uint32_t i = 0; i < STEPS_OF_A_RANK && status == KVT_OK && !play->draws.ended; i++)
            status = play_step(bench, i, err);
        close_rank(bench);
    }
    free(bench);
    return status;
}
