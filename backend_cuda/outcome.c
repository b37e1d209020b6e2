/* outcome.c -- from the counters of a step's calls to what it reports: the same sums, in the same
 * order, as the predicted backend's (sim/backend/backend_step.c). */
#include "step.h"

#include <assert.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/layout.h"

struct kvt_resolve_result outcome_of_call(const struct kvt_gpu_counts *counts)
{
    return (struct kvt_resolve_result){.union_rows = counts->union_rows,
                                       .tail_rows = counts->tail_rows,
                                       .page_rows = counts->page_rows,
                                       .hot_rows = counts->hot_rows,
                                       .filled_rows = counts->filled_rows,
                                       .staged_rows = counts->staged_rows,
                                       .selected = counts->selected,
                                       .tail_selected = counts->tail_selected,
                                       .page_selected = counts->page_selected,
                                       .hot_selected = counts->hot_selected,
                                       .missed_selected = counts->missed_selected,
                                       .promoted_rows = counts->promoted_rows,
                                       .placed_hash = counts->placed_hash,
                                       .skipped = counts->skipped != 0};
}

/* How a call of the item was decided, by whoever did. */
static struct kvt_resolve_result result_of(const struct rank *rank,
                                           const struct kvt_step_item *item, uint32_t i,
                                           uint32_t selector, uint32_t pass)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct kvt_resolve_result result = {0};
    struct kvt_error err;

    if (selector < cuda->llm->selector_count)
        return outcome_of_call(&rank->counts_pinned[call_at(rank, selector, pass, i)]);
    kvt_status status =
        cuda->others->ops->inspect_call(cuda->others, item->request, selector, pass, &result, &err);
    assert(status == KVT_OK); /* it is an exact run, and inspected */
    (void)status;
    return result;
}

/* With all history in HBM nothing is resolved: each query reads its rows. */
static void count_resident(const struct rank *rank, struct kvt_step_item *item, uint32_t store,
                           struct kvt_step_outcome *outcome)
{
    const struct backend_cuda *cuda = rank->cuda;

    for (uint32_t q = 0; q < item->round->query_count; q++) {
        uint32_t visible = kvt_store_rows(&cuda->env.llm->stores[store],
                                          item->context_tokens + item->round->queries[q].depth + 1);
        struct kvt_resolve_result result = kvt_calls_resident(cuda->env.llm, visible);
        kvt_calls_count(cuda->env.llm, &cuda->strata, true, store, visible, &result, outcome);
        item->selected_rows += result.selected;
    }
}

static void count_selector(struct rank *rank, struct kvt_step_item *item, uint32_t i,
                           uint32_t selector, uint64_t *chain, struct kvt_step_outcome *outcome)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->env.llm;
    uint32_t store = llm->selectors[selector].store, visible_rows[KVT_QUERIES_MAX], visible;
    uint32_t calls = cuda->passes > 1 ? item->round->query_count : 1;

    (void)kvt_round_of_store(item->round, &llm->stores[store], item->context_tokens, visible_rows,
                             &visible);
    for (uint32_t pass = 0; pass < calls; pass++) {
        struct kvt_resolve_result result = result_of(rank, item, i, selector, pass);
        kvt_calls_count(llm, &cuda->strata, true, store, visible, &result, outcome);
        item->selected_rows += result.selected;
        item->missed_rows += result.missed_selected;
        *chain = kvt_calls_chain(*chain, item, selector, &result);
    }
    if (selector >= cuda->llm->selector_count)
        return;
    rank->proof.calls += calls;
    if (cuda->decider == DECIDE_ON_HOST)
        rank->proof.planned_calls += calls;
}

static void count_item(struct rank *rank, struct kvt_step_item *item, uint32_t i,
                       struct kvt_step_outcome *outcome)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->env.llm;
    uint64_t chains[KVT_SELECTORS_MAX] = {0};

    kvt_calls_count_item(item, outcome);
    if (!cuda->env.hierarchy) {
        for (uint32_t s = 0; s < llm->selector_count; s++)
            count_resident(rank, item, llm->selectors[s].store, outcome);
        return;
    }
    for (uint32_t store = 0; store < llm->store_count; store++) {
        for (uint32_t s = 0; s < llm->selector_count; s++) {
            if (llm->selectors[s].store != store)
                continue;
            if (rank->items[i]->hot_tokens == 0)
                count_resident(rank, item, store, outcome);
            else
                count_selector(rank, item, i, s, &chains[s], outcome);
        }
    }
    for (uint32_t s = 0; s < llm->selector_count; s++)
        item->decisions = kvt_chain64(item->decisions, chains[s]);
}

/* Rows that the item's call of a selector stages; of all its calls where queries are resolved one
 * by one. */
static uint32_t staged_rows(const struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                            uint32_t selector)
{
    uint32_t calls = rank->cuda->passes > 1 ? item->round->query_count : 1, rows = 0;

    if (rank->items[i]->hot_tokens == 0)
        return 0;
    for (uint32_t pass = 0; pass < calls; pass++)
        rows += result_of(rank, item, i, selector, pass).staged_rows;
    return rows;
}

void outcome_count(struct rank *rank, struct kvt_rank_step *step)
{
    const struct backend_cuda *cuda = rank->cuda;

    for (uint32_t i = 0; i < step->item_count; i++)
        count_item(rank, &step->items[i], i, &step->outcome);
    if (!cuda->env.hierarchy || cuda->env.staging.call_bytes == 0)
        return;
    uint64_t arena_bytes = kvt_staging_arena_bytes(&cuda->env.staging, rank->key.hot_requests);
    for (uint32_t s = 0; s < cuda->env.llm->selector_count; s++) {
        for (uint32_t i = 0; i < step->item_count; i++)
            rank->staged_rows[i] = staged_rows(rank, &step->items[i], i, s);
        kvt_calls_count_waves(cuda->env.llm, s, arena_bytes, rank->staged_rows, step->item_count,
                              rank->wave_of, &step->outcome);
    }
}
