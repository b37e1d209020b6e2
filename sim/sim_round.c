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
    size_t scratch_bytes = 0;
    if (sim->speculation->plan_bytes)
        scratch_bytes = sim->speculation->plan_bytes(sim->speculation_data, (uint32_t)capacity);
    void *scratch = realloc(sim->plan_scratch, scratch_bytes + 1);
    if (scratch)
        sim->plan_scratch = scratch;
    if (!items || !rounds || !asks || !scratch)
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

/* Queries that the longest context leaves room for, the anchor at least. */
static uint32_t queries_left(const struct kvt_sim *sim, uint32_t context_tokens)
{
    uint32_t left = sim->scenario->llm->max_position_tokens - context_tokens;
    uint32_t most = sim->scenario->queries_max;

    if (left > most)
        left = most;
    return left > 0 ? left : 1;
}

static void list_rank(struct kvt_sim *sim, uint32_t r, uint32_t *count)
{
    const struct kvt_rank *rank = &sim->ranks[r];
    struct kvt_rank_step *step = &sim->rank_steps[r];

    *step = (struct kvt_rank_step){.items = sim->items + *count,
                                   .outcome = {.measured_ns = KVT_NS_NEVER}};
    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_live *live = rank->running.items[i];
        const struct kvt_pages *pages = &live->pages;
        if (live->blocked)
            continue;
        sim->asks[*count] = (struct kvt_speculation_request){
            .state = live->drafting,
            .id = live->id,
            .context_tokens = pages->committed_tokens,
            .generated_tokens = live->generated_tokens,
            .queries_max = queries_left(sim, pages->committed_tokens)};
        sim->items[*count] = (struct kvt_step_item){.request = live->id,
                                                    .context_tokens = pages->committed_tokens,
                                                    .step = live->step,
                                                    .round = &sim->rounds[*count],
                                                    .ready_bits = pages->ready_bits,
                                                    .ready_pages = kvt_pages_readable(pages)};
        (*count)++;
        step->item_count++;
    }
}

/* ---- What a step would take --------------------------------------------------- */

struct estimate {
    const struct kvt_sim *sim;
    const struct group *group;
};

/* The newest loads of the group's ranks, as they would be with so many requests and
 * queries: rows in proportion to queries, contexts to requests. */
static double step_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    const struct estimate *estimate = context;
    const struct group *group = estimate->group;
    const struct kvt_rank_load *newest = &estimate->sim->loads[group->first_rank];
    struct kvt_rank_load *loads = estimate->sim->guesses;
    kvt_ns parts_ns[KVT_PARTS];
    double waited_ns;
    uint64_t all_requests = 0, all_queries = 0;

    for (uint32_t r = 0; r < group->rank_count; r++) {
        all_requests += newest[r].requests;
        all_queries += newest[r].queries;
    }
    double by_requests = all_requests > 0 ? (double)requests / (double)all_requests : 0;
    double by_queries = all_queries > 0 ? (double)queries / (double)all_queries : 0;
    double draft_share = requests > 0 ? (double)draft_tokens / requests : 0;
    for (uint32_t r = 0; r < group->rank_count; r++) {
        struct kvt_rank_load *load = &loads[r];
        *load = newest[r];
        load->requests = (uint32_t)(newest[r].requests * by_requests + 0.5);
        load->queries = (uint32_t)(newest[r].queries * by_queries + 0.5);
        load->draft_tokens = (uint32_t)(load->requests * draft_share + 0.5);
        load->context_rows = (uint64_t)((double)newest[r].context_rows * by_requests);
        load->selected_rows *= by_queries;
        load->attended_layer_rows *= by_queries;
        load->looked_up_rows *= by_queries;
        load->missed_rows *= by_queries;
        load->missed_layer_rows *= by_queries;
        load->leader_layer_rows *= by_queries;
        load->wire_bytes *= by_queries;
        load->granules *= by_queries;
    }
    return (double)sim_predict(group, loads, parts_ns, &waited_ns);
}

/* ---- Planning ------------------------------------------------------------------ */

static kvt_status check_round(const struct kvt_sim *sim, uint32_t i, struct kvt_error *err)
{
    const struct kvt_round *round = &sim->rounds[i];

    if (round->query_count >= 1 && round->query_count <= sim->asks[i].queries_max &&
        round->committed_tokens >= 1 && round->committed_tokens <= round->query_count)
        return KVT_OK;
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
    *count = 0;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++)
        list_rank(sim, r, count);
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
