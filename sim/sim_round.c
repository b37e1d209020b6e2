/* sim_round.c -- what each request of a step drafts and verifies: rounds from the
 * speculation method, checked, and the step's items made of them. */
#include <stdlib.h>

#include "sim_private.h"

static kvt_status make_room(struct kvt_sim *sim, uint32_t count, struct kvt_error *err)
{
    if (count <= sim->round_capacity)
        return KVT_OK;
    size_t capacity = 2 * (size_t)count;
    struct kvt_step_item *items = realloc(sim->items, capacity * sizeof *items);
    if (items)
        sim->items = items;
    struct kvt_round *rounds = realloc(sim->rounds, capacity * sizeof *rounds);
    if (rounds)
        sim->rounds = rounds;
    struct kvt_speculation_request *asks = realloc(sim->asks, capacity * sizeof *asks);
    if (asks)
        sim->asks = asks;
    uint64_t *item_order = realloc(sim->item_order, 2 * capacity * sizeof *item_order);
    if (item_order)
        sim->item_order = item_order;
    size_t scratch_bytes = 0;
    if (sim->speculation->plan_bytes)
        scratch_bytes = sim->speculation->plan_bytes(sim->speculation_data, (uint32_t)capacity);
    void *scratch = realloc(sim->plan_scratch, scratch_bytes + 1);
    if (scratch)
        sim->plan_scratch = scratch;
    if (!items || !rounds || !asks || !item_order || !scratch)
        return kvt_fail_nomem(err, "a step's batch");
    sim->round_capacity = (uint32_t)capacity;
    return KVT_OK;
}

static uint32_t count_running(const struct kvt_sim *sim, const struct group *group)
{
    uint32_t count = 0;

    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++)
        count += sim->ranks[r].running.count;
    return count;
}

/* listed: ranks before this one that decode something. */
static void list_rank(struct kvt_sim *sim, uint32_t r, uint32_t *listed, uint32_t *count)
{
    const struct kvt_rank *rank = &sim->ranks[r];
    struct kvt_rank_step *step = &sim->rank_steps[r];

    *step = (struct kvt_rank_step){
        .rank = r, .items = sim->items + *count, .outcome = {.measured_ns = KVT_NS_NEVER}};
    for (uint32_t i = 0; i < rank->running.count; i++) {
        struct kvt_live *live = rank->running.items[i];
        const struct kvt_pages *pages = &live->pages;
        if (live->blocked)
            continue;
        sim->asks[*count] = (struct kvt_speculation_request){
            .state = live->drafting,
            .id = live->id,
            .rank = *listed,
            .context_tokens = pages->committed_tokens,
            .generated_tokens = live->generated_tokens,
            .queries_max = kvt_queries_left(sim->scenario->llm, pages->committed_tokens,
                                            sim->scenario->queries_max)};
        sim->items[*count] =
            (struct kvt_step_item){.request = live->id,
                                   .context_tokens = pages->committed_tokens,
                                   .step = live->step,
                                   .round = &sim->rounds[*count],
                                   .ready_bits = pages->ready_bits,
                                   .ready_pages = kvt_pages_readable(pages),
                                   .watch = live->watch.page_count > 0 ? &live->watch : NULL};
        (*count)++;
        step->item_count++;
    }
    if (step->item_count > 0)
        (*listed)++;
}

/* ---- What a step would take --------------------------------------------------- */

/* Of one plan. The loads last asked about stay in sim->guesses, and what they would take here:
 * shares of drafts are rounded up, so that a budget often loads every rank as the one before did.
 */
struct estimate {
    struct kvt_sim *sim;
    const struct group *group;
    uint32_t request_count; /* of all ranks, as they lie now */
    uint32_t requests, draft_tokens;
    double ns; /* 0 before the first */
};

/* The newest load of a rank, as it would be with so many requests and queries: rows in proportion
 * to queries, contexts to requests. */
static void guess_load(const struct kvt_rank_load *newest, uint32_t requests, uint32_t draft_tokens,
                       uint32_t queries, struct kvt_rank_load *out)
{
    double by_requests = newest->requests > 0 ? (double)requests / newest->requests : 0;
    double by_queries = newest->queries > 0 ? (double)queries / newest->queries : 0;

    *out = *newest;
    out->requests = requests;
    out->queries = queries;
    out->draft_tokens = draft_tokens;
    out->context_rows = (uint64_t)((double)newest->context_rows * by_requests);
    out->selected_rows *= by_queries;
    out->attended_layer_rows *= by_queries;
    out->looked_up_rows *= by_queries;
    out->missed_rows *= by_queries;
    out->missed_layer_rows *= by_queries;
    out->leader_layer_rows *= by_queries;
    out->wire_bytes *= by_queries;
    out->granules *= by_queries;
    out->ahead.rows *= by_queries;
    out->ahead.layer_rows *= by_queries;
    out->ahead.wire_bytes *= by_queries;
    out->ahead.granules *= by_queries;
    out->extra_waves *= by_queries;
    out->extra_wave_layers *= by_queries;
}

/* Queries of a rank. Requests lie on the ranks as they do now; drafts are shared as
 * kvt_rank_drafts() has it, so that a plan that keeps to it does not find one rank beyond a graph
 * that the mean would fit. */
static uint32_t share_queries(const struct estimate *estimate, uint32_t r, uint32_t requests,
                              uint32_t queries, uint32_t *of_rank)
{
    uint32_t here = estimate->sim->rank_steps[estimate->group->first_rank + r].item_count;
    uint32_t all = estimate->request_count;

    *of_rank = (uint32_t)((double)requests * here / all + 0.5);
    return *of_rank + kvt_rank_drafts(queries - requests, here, all);
}

static bool is_asked_again(const struct estimate *estimate, uint32_t requests,
                           uint32_t draft_tokens, uint32_t queries)
{
    uint32_t of_rank, r = 0;

    if (estimate->ns <= 0 || estimate->requests != requests ||
        estimate->draft_tokens != draft_tokens)
        return false;
    while (r < estimate->group->rank_count &&
           share_queries(estimate, r, requests, queries, &of_rank) ==
               estimate->sim->guesses[r].queries)
        r++;
    return r == estimate->group->rank_count;
}

static double step_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    struct estimate *estimate = context;
    const struct group *group = estimate->group;
    struct kvt_sim *sim = estimate->sim;
    double parts[KVT_PARTS], waited_ns;

    if (is_asked_again(estimate, requests, draft_tokens, queries))
        return estimate->ns;
    for (uint32_t r = 0; r < group->rank_count; r++) {
        uint32_t here = sim->rank_steps[group->first_rank + r].item_count, of_rank;
        uint32_t asked = share_queries(estimate, r, requests, queries, &of_rank);
        guess_load(&sim->loads[group->first_rank + r], of_rank,
                   (uint32_t)((double)draft_tokens * here / estimate->request_count + 0.5), asked,
                   &sim->guesses[r]);
    }
    estimate->requests = requests;
    estimate->draft_tokens = draft_tokens;
    estimate->ns = sim_predict(group, sim->guesses, parts, NULL, &waited_ns);
    return estimate->ns;
}

/* ---- Planning ------------------------------------------------------------------ */

/* Path 0 is asked for at each depth that it commits, in order, and other paths where they go
 * their own way: what a law relies on. */
static kvt_status check_queries(const struct kvt_sim *sim, uint32_t i, struct kvt_error *err)
{
    const struct kvt_round *round = &sim->rounds[i];
    uint32_t committed = 0;

    for (uint32_t q = 0; q < round->query_count; q++) {
        const struct kvt_law_query *query = &round->queries[q];
        bool fits = query->depth < round->query_count &&
                    (query->path == 0 ? query->depth == committed && query->fork == 0
                                      : query->fork >= 1 && query->fork <= query->depth &&
                                            query->fork <= round->committed_tokens);
        committed += query->path == 0;
        if (!fits)
            return kvt_fail(
                err, KVT_ERR_POLICY, sim->speculation->info.name,
                "query %u of the round of request %u has depth %u, path %u and fork %u; "
                "path 0 rises from depth 0 by one, and a rejected path parts from it "
                "at a depth from 1 to its own",
                q, sim->asks[i].id, query->depth, query->path, query->fork);
    }
    if (committed == round->committed_tokens)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_POLICY, sim->speculation->info.name,
                    "the round of request %u commits %u tokens and asks for %u of them",
                    sim->asks[i].id, round->committed_tokens, committed);
}

static kvt_status check_round(const struct kvt_sim *sim, uint32_t i, struct kvt_error *err)
{
    const struct kvt_round *round = &sim->rounds[i];

    if (round->query_count >= 1 && round->query_count <= sim->asks[i].queries_max &&
        round->committed_tokens >= 1 && round->committed_tokens <= round->query_count)
        return check_queries(sim, i, err);
    return kvt_fail(err, KVT_ERR_POLICY, sim->speculation->info.name,
                    "it plans a round of %u queries that commits %u tokens for request %u, which "
                    "may have 1 to %u queries and commits 1 to all of them",
                    round->query_count, round->committed_tokens, sim->asks[i].id,
                    sim->asks[i].queries_max);
}

kvt_status sim_plan_rounds(struct kvt_sim *sim, const struct group *group, uint32_t *count,
                           struct kvt_error *err)
{
    struct estimate estimate = {.sim = sim, .group = group};
    kvt_status status = make_room(sim, count_running(sim, group), err);

    if (status != KVT_OK)
        return status;
    uint32_t listed = 0;
    *count = 0;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++)
        list_rank(sim, r, &listed, count);
    estimate.request_count = *count;
    struct kvt_speculation_view view = {.requests = sim->asks,
                                        .request_count = *count,
                                        .step_ns = step_ns,
                                        .step_context = &estimate,
                                        .scratch = sim->plan_scratch};
    if (*count > 0)
        sim->speculation->plan(sim->speculation_data, &view, sim->rounds);
    for (uint32_t i = 0; i < *count && status == KVT_OK; i++) {
        status = check_round(sim, i, err);
        sim->live[sim->asks[i].id]->round_tokens = sim->rounds[i].committed_tokens;
    }
    return status;
}
