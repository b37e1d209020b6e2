/* select.c -- what the CPU does for a step: selections as lists, and plans where it decides.
 *
 *     for each request of the batch, on any thread of the rank's crew
 *         for each store, for each selector of the store, by layer
 *             select K sets (law) -> lists, ascending, of top_k entries -> plan (plan.c)
 *
 * Where the device selects, its lists have come down before, and there is only to plan. */
#include "step.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/layout.h"

/* ---- Scratch -------------------------------------------------------------------------- */

kvt_status gpu_worker_open(const struct backend_cuda *cuda, struct worker *worker,
                           struct kvt_error *err)
{
    const struct kvt_backend_env *env = &cuda->env;
    uint32_t rows = kvt_env_rows_max(env);
    size_t words = kvt_row_words(rows);

    worker->block = calloc((cuda->queries_max + 1) * words, sizeof *worker->block);
    if (!worker->block)
        return kvt_fail_nomem(err, "the selections of a round");
    for (uint32_t q = 0; q < cuda->queries_max; q++)
        worker->sets[q] = worker->block + q * words;
    worker->page_rows = worker->block + cuda->queries_max * words;
    if (env->scores_pages)
        worker->page_scores = calloc((size_t)rows + 1, sizeof *worker->page_scores);
    if (env->looks_ahead_by)
        worker->next_use = calloc(kvt_env_slots_max(env), sizeof *worker->next_use);
    if ((env->scores_pages && !worker->page_scores) || (env->looks_ahead_by && !worker->next_use))
        return kvt_fail_nomem(err, "what policies ask of a round");
    if (cuda->decider == DECIDE_ON_DEVICE)
        return KVT_OK;
    worker->missed_at = calloc((size_t)rows + 1, sizeof *worker->missed_at);
    if (!worker->missed_at)
        return kvt_fail_nomem(err, "a plan");
    return kvt_resolver_new(rows, kvt_env_slots_max(env), cuda->queries_max * cuda->llm->top_k,
                            &worker->resolver, err);
}

void gpu_worker_close(struct worker *worker)
{
    kvt_resolver_free(worker->resolver);
    free(worker->block);
    free(worker->page_scores);
    free(worker->next_use);
    free(worker->missed_at);
}

/* ---- Lists ---------------------------------------------------------------------------- */

/* Entries of query q of item i of a selector, in any array of [selectors][queries][top_k]. */
size_t list_at(const struct rank *rank, uint32_t selector, uint32_t item, uint32_t query)
{
    const struct backend_cuda *cuda = rank->cuda;

    return ((size_t)selector * cuda->query_rows + rank->first_query[item] + query) *
           cuda->llm->top_k;
}

static void write_list(const struct rank *rank, const uint64_t *set, size_t words, int32_t *list)
{
    uint32_t top_k = rank->cuda->llm->top_k;
    uint32_t count = kvt_row_set_list(set, words, (uint32_t *)(void *)list);

    if (count < top_k)
        memset(list + count, 0xff, (top_k - count) * sizeof *list);
}

/* How many of a list's entries are rows: they come first. */
uint32_t list_count(const int32_t *list, uint32_t top_k)
{
    uint32_t low = 0, high = top_k;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list[middle] == KVT_GPU_NONE)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void read_lists(const struct rank *rank, struct worker *worker, uint32_t selector,
                       uint32_t item, uint32_t queries, size_t words)
{
    uint32_t top_k = rank->cuda->llm->top_k;

    for (uint32_t q = 0; q < queries; q++) {
        const int32_t *list = rank->selections_pinned + list_at(rank, selector, item, q);
        memset(worker->sets[q], 0, words * sizeof *worker->sets[q]);
        kvt_row_set_add(worker->sets[q], (const uint32_t *)(const void *)list,
                        list_count(list, top_k));
    }
}

/* ---- Items ---------------------------------------------------------------------------- */

struct selecting {
    struct rank *rank;
    struct kvt_rank_step *step;
};

/* A selector's sets of the item's round, from wherever they come. */
static void select_rows(const struct rank *rank, struct worker *worker,
                        const struct kvt_step_item *item, uint32_t i, uint32_t selector,
                        const struct kvt_law_round *round, size_t words)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct lane *lane = rank->items[i];
    void *stream = lane->streams ? lane->streams[selector] : NULL;

    if (!cuda->law) {
        read_lists(rank, worker, selector, i, round->query_count, words);
    } else {
        cuda->law->select(cuda->law_data, stream, round, worker->sets);
        for (uint32_t q = 0; q < round->query_count; q++)
            write_list(rank, worker->sets[q], words,
                       rank->selections_pinned + list_at(rank, selector, i, q));
    }
    if (item->watch && !cuda->others)
        kvt_calls_watch(&cuda->env, cuda->law_data, item, cuda->llm->selectors[selector].store,
                        stream, round, (const uint64_t *const *)worker->sets, words,
                        worker->page_scores);
}

static kvt_status select_store(const struct rank *rank, struct worker *worker,
                               const struct kvt_step_item *item, uint32_t i, uint32_t s,
                               struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    const struct lane *lane = rank->items[i];
    uint32_t visible_rows[KVT_QUERIES_MAX], visible;
    struct kvt_law_round round = kvt_round_of_store(item->round, &llm->stores[s],
                                                    item->context_tokens, visible_rows, &visible);
    kvt_status status = KVT_OK;

    if (lane->planned)
        plan_begin(rank, worker, lane, item, s, visible);
    for (uint32_t selector = 0; selector < llm->selector_count && status == KVT_OK; selector++) {
        if (llm->selectors[selector].store != s)
            continue;
        select_rows(rank, worker, item, i, selector, &round, kvt_row_words(visible));
        if (lane->planned)
            status = plan_selector(rank, worker, item, i, selector, visible, err);
    }
    return status;
}

static void select_item(void *context, uint32_t i, unsigned w)
{
    const struct selecting *work = context;
    struct rank *rank = work->rank;
    struct worker *worker = &rank->workers[w];
    const struct kvt_step_item *item = &work->step->items[i];
    struct kvt_error err;
    kvt_status status = KVT_OK;

    if (rank->cuda->chooser == CHOOSE_INDEXER && rank->cuda->decider == DECIDE_ON_DEVICE &&
        !(item->watch &&
          !rank->cuda->others)) /* selected and decided elsewhere, and nobody looks */
        return;
    if (item->watch && !rank->cuda->others)
        kvt_page_watch_begin(item->watch, item->step);
    for (uint32_t s = 0; s < rank->cuda->llm->store_count && status == KVT_OK; s++)
        status = select_store(rank, worker, item, i, s, &err);
    if (status != KVT_OK && (worker->status == KVT_OK || i < worker->failed_item)) {
        worker->status = status;
        worker->failed_item = i;
        worker->error = err;
    }
}

kvt_status select_step(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    struct selecting work = {.rank = rank, .step = step};
    const struct worker *first = NULL;

    kvt_crew_run(rank->crew, step->item_count, select_item, &work);
    for (unsigned w = 0; w < kvt_crew_size(rank->crew); w++) {
        const struct worker *worker = &rank->workers[w];
        if (worker->status != KVT_OK && (!first || worker->failed_item < first->failed_item))
            first = worker;
    }
    if (!first)
        return KVT_OK;
    if (err)
        *err = first->error;
    return first->status;
}
