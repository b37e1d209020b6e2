/* backend_step.c -- a step of the predicted backend.
 *
 *     for each rank, on any thread; for each request of the rank
 *         for each store it follows, for each selector of the store, by layer
 *             select K sets (law) -> what policies want to know of them (calls.c,
 *             look_ahead.c) -> resolve (hot cache) -> count
 *     and of each rank's calls, selector by selector, waves (backend_waves.c)
 *
 * Where some requests stand for the others, the step begins with the choice of those that
 * are followed and ends with what they say about the rest (backend_pooled.c).
 *
 * Ranks share nothing that a step writes but the thread's scratch, so that the result
 * is the same on any number of threads. */
#include "backend_sim_private.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/layout.h"

enum {
    SETTLING_CALLS = 16 /* of a cold cache, whose misses fall from call to call */
};

/* log2 of a compress ratio, which divides KVT_PAGE_ROWS. */
static uint32_t ratio_index(const struct kvt_store *store)
{
    return (uint32_t)__builtin_ctz(store->compress_ratio);
}

/* A call that stands for as many as its stratum's scale. */
static void count_call(const struct backend_sim *sim, uint32_t store, uint32_t visible_rows,
                       const struct kvt_resolve_result *result, const struct kvt_crossing *crossing,
                       struct kvt_step_outcome *outcome)
{
    const struct kvt_stratum *stratum = &sim->strata.strata[sim->strata.stratum_of[store]];

    kvt_calls_count_crossing(sim->env.llm, &sim->strata,
                             stratum->followed == stratum->stores && !sim->estimator, store,
                             visible_rows, result, crossing, outcome);
}

/* A call of a request that stands for others: pooled_estimate() sees to the load. */
static void see_call(const struct backend_sim *sim, struct lane *lane, uint32_t store,
                     uint32_t visible_rows, const struct kvt_resolve_result *result,
                     const struct kvt_crossing *crossing, struct kvt_step_outcome *outcome)
{
    uint32_t s = sim->strata.stratum_of[store];
    const struct kvt_stratum *stratum = &sim->strata.strata[s];
    double row_bytes =
        (double)stratum->layers / stratum->stores * sim->env.llm->payload.capacity_bytes;
    double fetched = result->filled_rows + result->staged_rows, *seen = lane->seen[s];

    kvt_calls_count_rows(&outcome->rows[s], result);
    seen[ESTIMATED_MISSED] += result->missed_selected;
    seen[ESTIMATED_LOOKED_UP] += result->hot_selected + result->missed_selected;
    seen[ESTIMATED_DISTINCT] += result->union_rows;
    seen[ESTIMATED_LOOKED_UP_ROWS] += result->hot_rows + fetched;
    seen[ESTIMATED_FETCHED] += fetched;
    seen[ESTIMATED_STAGED] += result->staged_rows;
    seen[ESTIMATED_GRANULES] += kvt_distinct_granules(
        visible_rows, row_bytes, crossing->demanded_pieces + crossing->ahead_pieces);
    seen[ESTIMATED_MISSING_CALLS] += crossing->demanded_pieces > 0;
    seen[ESTIMATED_DEMANDED] += crossing->demanded_rows;
    seen[ESTIMATED_AHEAD] += crossing->ahead_rows;
    seen[ESTIMATED_PREDICTED] += crossing->predicted_rows;
    seen[ESTIMATED_DEEPENED] += crossing->deepened_rows;
}

/* For what sampling leaves open: a lane is in one rank, so that threads never share one. */
static void count_sample(struct followed *followed, const struct kvt_resolve_result *result)
{
    double fetched = result->filled_rows + result->staged_rows;

    followed->counts[KVT_SAMPLED_SELECTED] += result->selected;
    followed->counts[KVT_SAMPLED_MISSED] += result->missed_selected;
    followed->counts[KVT_SAMPLED_LOOKED_UP] += result->hot_selected + result->missed_selected;
    followed->counts[KVT_SAMPLED_FETCHED] += fetched;
    if (followed->calls++ >= SETTLING_CALLS) {
        followed->changes +=
            (fetched - followed->last_fetched) * (fetched - followed->last_fetched);
        followed->change_count++;
    }
    followed->last_fetched = fetched;
}

/* The rows of the item's ready pages, in a store's own rows; made once for all stores of
 * its ratio. NULL: no page is ready. */
static const uint64_t *page_rows_of(struct worker *worker, const struct kvt_step_item *item,
                                    const struct kvt_store *store, uint32_t visible_rows)
{
    uint32_t ratio = ratio_index(store);

    if (item->ready_pages == 0)
        return NULL;
    if (!worker->page_rows_made[ratio])
        kvt_row_set_of_pages(item->ready_bits, item->ready_pages,
                             KVT_PAGE_ROWS / store->compress_ratio, worker->page_rows[ratio],
                             kvt_row_words(visible_rows));
    worker->page_rows_made[ratio] = true;
    return worker->page_rows[ratio];
}

/* A selector's sets of a round. */
static void select_rows(const struct backend_sim *sim, struct worker *worker,
                        const struct kvt_step_item *item, const struct kvt_store *store,
                        void *stream, const struct kvt_law_round *round, uint32_t visible_rows)
{
    sim->law->select(sim->law_data, stream, round, worker->sets);
    if (item->watch)
        kvt_calls_watch(&sim->env, sim->law_data, item, (uint32_t)(store - sim->env.llm->stores),
                        stream, round, (const uint64_t *const *)worker->sets,
                        kvt_row_words(visible_rows), worker->page_scores);
}

/* When what the cache holds is selected next, behind this call; NULL where nobody asks. */
static const uint32_t *look_past(const struct backend_sim *sim, struct worker *worker,
                                 const struct followed *followed,
                                 const struct kvt_resolve_call *call)
{
    kvt_look_ahead_pass(followed->ahead, call->selections, call->query_count, call->visible_rows);
    if (!sim->env.shows_next_use)
        return NULL;
    kvt_look_ahead_next_use(followed->ahead, kvt_hot_cache_rows(followed->cache),
                            kvt_hot_cache_slot_count(followed->cache), worker->next_use);
    return worker->next_use;
}

/* What a law owes to the queries of a call, of which `first` is the first of the round. */
static kvt_status check_selected(const struct backend_sim *sim, const struct kvt_step_item *item,
                                 const struct kvt_resolve_call *call,
                                 const struct kvt_law_round *round, uint32_t first,
                                 const struct kvt_resolve_result *result, struct kvt_error *err)
{
    uint64_t expected = 0;

    for (uint32_t q = first; q < first + call->query_count; q++) {
        uint32_t visible = round->visible_rows[round->queries[q].depth];
        expected += visible < sim->env.llm->top_k ? visible : sim->env.llm->top_k;
    }
    if (result->selected == expected ||
        (sim->law->varies && result->selected < expected && result->selected >= call->query_count))
        return KVT_OK;
    return kvt_fail(
        err, KVT_ERR_POLICY, sim->law->info.name,
        "select() gave %llu rows to the %u queries of a call of request %u, %llu are "
        "expected; contract: min(top_k, visible_rows) rows of those that a query sees%s",
        (unsigned long long)result->selected, call->query_count, item->request,
        (unsigned long long)expected, sim->law->varies ? ", or fewer" : "");
}

/* What comes of the request's pages in one store. */
static void watch_future(const struct kvt_step_item *item, const struct followed *followed)
{
    if (followed->ahead && item->watch && item->watch->future)
        kvt_look_ahead_pages(followed->ahead, item->watch->future, item->watch->page_count);
}

/* All calls of one followed store: its selectors in layer order, each ages it. */
static kvt_status step_store(const struct backend_sim *sim, struct worker *worker,
                             struct lane *lane, struct followed *followed,
                             struct kvt_step_item *item, struct kvt_step_outcome *outcome,
                             struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    const struct kvt_store *store = &llm->stores[followed->store];
    uint32_t visible_rows[KVT_QUERIES_MAX], visible, stream = followed->first_stream;
    uint32_t queries = item->round->query_count;

    struct kvt_law_round round =
        kvt_round_of_store(item->round, store, item->context_tokens, visible_rows, &visible);
    struct kvt_resolve_call call = {.step = item->step,
                                    .visible_rows = visible,
                                    .tail_first_row =
                                        kvt_tail_first_row(store, item->context_tokens, queries),
                                    .page_rows = page_rows_of(worker, item, store, visible),
                                    .query_count = sim->env.resolve_each_query ? 1 : queries,
                                    .promotion = sim->env.promotion};
    if (followed->ahead)
        kvt_look_ahead_fill(followed->ahead, queries, worker->sets);
    for (uint32_t s = 0; s < llm->selector_count; s++) {
        if (llm->selectors[s].store != followed->store)
            continue;
        uint32_t *staged_rows = &lane->staged_rows[stream];
        *staged_rows = 0;
        select_rows(sim, worker, item, store, lane->streams[stream++], &round, visible);
        if (lane->kept)
            kept_add_selection(sim, worker, lane->kept, s, queries, visible);
        for (uint32_t q = 0; q < queries; q += call.query_count) {
            struct kvt_resolve_result result;
            struct kvt_crossing crossing;
            call.selections = (const uint64_t *const *)worker->sets + q;
            if (followed->ahead)
                call.next_use = look_past(sim, worker, followed, &call);
            kvt_status status = kvt_resolve(worker->resolver, followed->cache, &call, &result, err);
            if (status == KVT_OK)
                status = check_selected(sim, item, &call, &round, q, &result, err);
            if (status != KVT_OK)
                return status;
            const struct read_call read = {item, s, q, &call, &result};
            crossing_of(sim, worker, followed, &read, &crossing);
            if (sim->estimator)
                see_call(sim, lane, followed->store, visible, &result, &crossing, outcome);
            else
                count_call(sim, followed->store, visible, &result, &crossing, outcome);
            count_sample(followed, &result);
            *staged_rows += result.staged_rows;
            item->selected_rows += result.selected;
            item->missed_rows += result.missed_selected;
            worker->calls[s] = kvt_calls_chain(worker->calls[s], item, s, &result);
            if (lane->kept)
                kept_add_call(sim, lane->kept, s, q, &result);
        }
    }
    watch_future(item, followed);
    return KVT_OK;
}

/* With all history in HBM every selected row is in a page there, and nothing is resolved:
 * each query reads its rows. followed: NULL where every store is. */
static void step_resident(const struct backend_sim *sim, struct kvt_step_item *item, uint32_t store,
                          struct followed *followed, struct kvt_step_outcome *outcome)
{
    const struct kvt_crossing nothing = {0};

    if (followed && sim->law->varies) /* pass_over() counts what each query reads */
        return;
    for (uint32_t q = 0; q < item->round->query_count; q++) {
        uint32_t visible = kvt_store_rows(&sim->env.llm->stores[store],
                                          item->context_tokens + item->round->queries[q].depth + 1);
        struct kvt_resolve_result result = kvt_calls_resident(sim->env.llm, visible);
        count_call(sim, store, visible, &result, &nothing, outcome);
        if (followed)
            count_sample(followed, &result);
        item->selected_rows += result.selected;
    }
}

/* The same where only its set says how many rows a query reads. */
static void count_sets(const struct backend_sim *sim, const struct worker *worker,
                       struct followed *followed, struct kvt_step_item *item, uint32_t visible,
                       struct kvt_step_outcome *outcome)
{
    const struct kvt_crossing nothing = {0};

    for (uint32_t q = 0; q < item->round->query_count; q++) {
        struct kvt_resolve_result result =
            kvt_calls_resident_set(kvt_row_set_count(worker->sets[q], kvt_row_words(visible)));
        count_call(sim, followed->store, visible, &result, &nothing, outcome);
        count_sample(followed, &result);
        item->selected_rows += result.selected;
    }
}

/* The streams of a store whose rows are all in HBM: nobody looks at them but who watches pages,
 * will want to know what comes next once there is a hot cache, or must see how much is read. */
static void pass_over(const struct backend_sim *sim, struct worker *worker, const struct lane *lane,
                      struct followed *followed, struct kvt_step_item *item,
                      struct kvt_step_outcome *outcome)
{
    const struct kvt_store *store = &sim->env.llm->stores[followed->store];
    uint32_t visible_rows[KVT_QUERIES_MAX], visible, queries = item->round->query_count;
    uint32_t streams = sim->strata.selectors_of[followed->store];
    uint32_t of_call = sim->env.resolve_each_query ? 1 : queries;
    struct kvt_law_round round =
        kvt_round_of_store(item->round, store, item->context_tokens, visible_rows, &visible);

    if (followed->ahead)
        kvt_look_ahead_fill(followed->ahead, queries, worker->sets);
    for (uint32_t i = 0; i < streams; i++) {
        void *stream = lane->streams[followed->first_stream + i];
        if (!item->watch && !followed->ahead && !sim->law->varies) {
            sim->law->select(sim->law_data, stream, &round, NULL);
            continue;
        }
        select_rows(sim, worker, item, store, stream, &round, visible);
        if (sim->law->varies)
            count_sets(sim, worker, followed, item, visible, outcome);
        for (uint32_t q = 0; q < queries && followed->ahead; q += of_call)
            kvt_look_ahead_pass(followed->ahead, (const uint64_t *const *)worker->sets + q, of_call,
                                visible);
    }
    watch_future(item, followed);
}

/* Nobody need be followed where all history is in HBM. */
static void step_whole(const struct backend_sim *sim, struct kvt_step_item *item,
                       struct kvt_step_outcome *outcome)
{
    for (uint32_t s = 0; s < sim->strata.count; s++) {
        const struct kvt_stratum *stratum = &sim->strata.strata[s];
        for (uint32_t c = 0; c < stratum->followed * stratum->selectors; c++)
            step_resident(sim, item, sim->store_of[s], NULL, outcome);
    }
}

static kvt_status step_item(const struct backend_sim *sim, struct worker *worker,
                            struct kvt_step_item *item, struct kvt_step_outcome *outcome,
                            struct kvt_error *err)
{
    kvt_calls_count_item(item, outcome);
    if (!sim->env.hierarchy) {
        for (uint32_t s = 0; s < sim->env.llm->selector_count; s++)
            step_resident(sim, item, sim->env.llm->selectors[s].store, NULL, outcome);
        return KVT_OK;
    }
    struct lane *lane = sim->lanes[item->request];
    if (sim->estimator && lane->hot_tokens == 0) {
        step_whole(sim, item, outcome);
        return KVT_OK;
    }
    if (lane->followed_count == 0) /* others stand for it */
        return KVT_OK;
    if (item->watch)
        kvt_page_watch_begin(item->watch, item->step);
    if (lane->kept)
        kept_begin(sim, lane->kept);
    memset(worker->page_rows_made, 0, sizeof worker->page_rows_made);
    memset(worker->calls, 0, sim->env.llm->selector_count * sizeof *worker->calls);
    for (uint32_t f = 0; f < lane->followed_count; f++) {
        struct followed *followed = &lane->followed[f];
        if (!followed->cache) {
            for (uint32_t s = 0; s < sim->strata.selectors_of[followed->store]; s++)
                step_resident(sim, item, followed->store, followed, outcome);
            pass_over(sim, worker, lane, followed, item, outcome);
            if (lane->kept)
                kept_add_whole(sim, lane->kept, followed->store, item->round->query_count);
            continue;
        }
        kvt_status status = step_store(sim, worker, lane, followed, item, outcome, err);
        if (status != KVT_OK)
            return status;
    }
    for (uint32_t s = 0; s < sim->env.llm->selector_count; s++)
        item->decisions = kvt_chain64(item->decisions, worker->calls[s]);
    return KVT_OK;
}

struct step_work {
    struct backend_sim *sim;
    struct kvt_rank_step *ranks;
};

static void step_rank(void *context, uint32_t r, unsigned w)
{
    const struct step_work *work = context;
    struct kvt_rank_step *rank = &work->ranks[r];
    struct worker *worker = work->sim->workers ? &work->sim->workers[w] : NULL;
    struct kvt_error err;

    kvt_status status = KVT_OK;

    rank->outcome = (struct kvt_step_outcome){.measured_ns = KVT_NS_NEVER};
    for (uint32_t i = 0; i < rank->item_count && status == KVT_OK; i++)
        status = step_item(work->sim, worker, &rank->items[i], &rank->outcome, &err);
    if (status == KVT_OK && worker && !work->sim->estimator)
        status = waves_count(work->sim, worker, rank, NULL, &err);
    if (status == KVT_OK)
        return;
    assert(worker != NULL); /* without a hierarchy nothing fails */
    if (worker->status == KVT_OK || r < worker->failed_rank) {
        worker->status = status;
        worker->failed_rank = r;
        worker->error = err;
    }
}

/* The failure of the first rank, as it would be met going through them in order. */
static kvt_status first_failure(struct backend_sim *sim, struct kvt_error *err)
{
    const struct worker *first = NULL;

    for (unsigned w = 0; w < kvt_crew_size(sim->crew); w++) {
        const struct worker *worker = &sim->workers[w];
        if (worker->status != KVT_OK && (!first || worker->failed_rank < first->failed_rank))
            first = worker;
    }
    if (!first)
        return KVT_OK;
    if (err)
        *err = first->error;
    return first->status;
}

kvt_status backend_sim_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    struct step_work work = {.sim = sim, .ranks = ranks};

    if (!sim->env.hierarchy) {
        for (uint32_t r = 0; r < rank_count; r++)
            step_rank(&work, r, 0);
        return KVT_OK;
    }
    kvt_status status = sim->estimator ? pooled_follow(sim, ranks, rank_count, err) : KVT_OK;
    if (status != KVT_OK)
        return status;
    kvt_crew_run(sim->crew, rank_count, step_rank, &work);
    status = first_failure(sim, err);
    if (status == KVT_OK)
        status = kvt_calls_end_step(&sim->env, sim->law_data, err);
    if (status == KVT_OK && sim->estimator)
        status = pooled_estimate(sim, ranks, rank_count, err);
    return status;
}
