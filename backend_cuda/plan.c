/* plan.c -- calls that are decided on the CPU, for replacement policies that the device does not
 * know: kvt_resolve(), and what it takes to carry the decision out there.
 *
 *     resolve -> what is missed goes to its slot or to staging
 *             -> each selected row has a place: tail, else frame, else slot, else staging
 *             -> pairs of what is promoted, once every query is answered
 *
 * Staged row m of a call is at place -2 - m while the arena is shared in waves; kvt_gpu_waves()
 * gives it another. */
#include "step.h"

#include <string.h>

#include "kvt/layout.h"

enum {
    NO_SLOT = 0xffff
};

/* One call, with all that places depend on. */
struct planning {
    const struct rank *rank;
    const struct lane *lane;
    const struct store_shape *shape;
    const struct kvt_gpu_places *places;
    struct planned *planned;
    struct worker *worker;
    uint32_t tail_first_row, filled_rows;
    int32_t staging0; /* of the call; below 0: of waves */
};

void plan_begin(const struct rank *rank, struct worker *worker, const struct lane *lane,
                const struct kvt_step_item *item, uint32_t s, uint32_t visible_rows)
{
    if (lane->planned[s].ahead)
        kvt_look_ahead_fill(lane->planned[s].ahead, item->round->query_count, worker->sets);
    if (lane->hot_tokens > 0 && item->ready_pages > 0)
        kvt_row_set_of_pages(item->ready_bits, item->ready_pages, rank->cuda->stores[s].page_rows,
                             worker->page_rows, kvt_row_words(visible_rows));
}

static int32_t staged_place(const struct planning *planning, uint32_t m)
{
    return planning->staging0 >= 0 ? planning->staging0 + (int32_t)m : -2 - (int32_t)m;
}

static int32_t hot_place(const struct planning *planning, uint32_t slot)
{
    return planning->places->hot0 + (int32_t)planning->lane->index * planning->places->hot_stride +
           (int32_t)slot;
}

static int32_t place_of(const struct planning *planning, uint32_t row)
{
    const struct lane *lane = planning->lane;
    uint32_t page_rows = planning->shape->page_rows, page = row / page_rows;

    if (row >= planning->tail_first_row)
        return planning->places->tail0 + (int32_t)(lane->index * KVT_GPU_TAIL_ROWS) +
               (int32_t)(row % KVT_GPU_TAIL_ROWS);
    if (page < lane->frame_pages && lane->frames[page] != KVT_GPU_NONE)
        return planning->places->frame0 + lane->frames[page] * (int32_t)page_rows +
               (int32_t)(row % page_rows);
    uint32_t slot = planning->planned->slot_of_row[row];
    if (slot != NO_SLOT)
        return hot_place(planning, slot);
    return staged_place(planning, planning->worker->missed_at[row] - planning->filled_rows);
}

static void place_lists(const struct planning *planning, uint32_t i, uint32_t selector,
                        uint32_t first_query, uint32_t query_count)
{
    uint32_t top_k = planning->rank->cuda->llm->top_k;

    for (uint32_t q = first_query; q < first_query + query_count; q++) {
        size_t at = list_at(planning->rank, selector, i, q);
        const int32_t *rows = planning->rank->selections_pinned + at;
        int32_t *places = planning->rank->plan_places + at;
        uint32_t count = list_count(rows, top_k);
        for (uint32_t r = 0; r < count; r++)
            places[r] = place_of(planning, (uint32_t)rows[r]);
        memset(places + count, 0xff, (top_k - count) * sizeof *places);
    }
}

/* Slots as they are once the misses have come in. */
static void fill_slots(struct planning *planning, const struct kvt_resolve_result *result)
{
    struct planned *planned = planning->planned;

    for (uint32_t m = 0; m < result->filled_rows; m++) {
        if (result->evicted[m] != KVT_ROW_NONE)
            planned->slot_of_row[result->evicted[m]] = NO_SLOT;
        planned->slot_of_row[result->missed[m]] = (uint16_t)result->fills[m];
        planned->slot_rows[result->fills[m]] = result->missed[m];
    }
    for (uint32_t m = 0; m < result->filled_rows + result->staged_rows; m++)
        planning->worker->missed_at[result->missed[m]] = m;
}

static void promote(const struct planning *planning, const struct kvt_resolve_result *result,
                    uint32_t *pairs)
{
    struct planned *planned = planning->planned;

    for (uint32_t p = 0; p < result->promoted_rows; p++) {
        uint32_t row = result->promoted[p], slot = result->promoted_slots[p];
        uint32_t m = planning->worker->missed_at[row] - planning->filled_rows;
        *pairs++ = (uint32_t)staged_place(planning, m);
        *pairs++ = (uint32_t)hot_place(planning, slot);
        planned->slot_of_row[planned->slot_rows[slot]] = NO_SLOT;
        planned->slot_of_row[row] = (uint16_t)slot;
        planned->slot_rows[slot] = row;
    }
}

static void write_counts(const struct kvt_resolve_result *result, struct kvt_gpu_counts *counts)
{
    *counts = (struct kvt_gpu_counts){.union_rows = result->union_rows,
                                      .tail_rows = result->tail_rows,
                                      .page_rows = result->page_rows,
                                      .hot_rows = result->hot_rows,
                                      .filled_rows = result->filled_rows,
                                      .staged_rows = result->staged_rows,
                                      .selected = result->selected,
                                      .tail_selected = result->tail_selected,
                                      .page_selected = result->page_selected,
                                      .hot_selected = result->hot_selected,
                                      .missed_selected = result->missed_selected,
                                      .promoted_rows = result->promoted_rows,
                                      .placed_hash = result->placed_hash,
                                      .skipped = result->skipped};
}

/* The call's misses, and where they go. */
static void write_misses(const struct planning *planning, const struct kvt_resolve_result *result,
                         size_t at)
{
    uint32_t *missed = planning->rank->plan_missed + at;
    int32_t *places = planning->rank->plan_missed_places + at;
    uint32_t count = result->filled_rows + result->staged_rows;

    for (uint32_t m = 0; m < count; m++) {
        missed[m] = result->missed[m];
        places[m] = m < result->filled_rows ? hot_place(planning, result->fills[m])
                                            : staged_place(planning, m - result->filled_rows);
    }
}

/* When what the cache holds is selected next, behind this call. */
static const uint32_t *look_past(const struct planned *planned, struct worker *worker,
                                 const struct kvt_resolve_call *call)
{
    if (!planned->ahead)
        return NULL;
    kvt_look_ahead_pass(planned->ahead, call->selections, call->query_count, call->visible_rows);
    kvt_look_ahead_next_use(planned->ahead, kvt_hot_cache_rows(planned->cache),
                            kvt_hot_cache_slot_count(planned->cache), worker->next_use);
    return worker->next_use;
}

/* Every row is in a frame or in the tail; who sees the future must still pass the call. */
static void plan_whole(struct planning *planning, const struct kvt_step_item *item, uint32_t i,
                       uint32_t selector, uint32_t pass, uint32_t visible_rows)
{
    const struct rank *rank = planning->rank;
    uint32_t queries = rank->cuda->passes > 1 ? 1 : item->round->query_count;

    if (planning->planned->ahead)
        kvt_look_ahead_pass(planning->planned->ahead,
                            (const uint64_t *const *)planning->worker->sets + pass, queries,
                            visible_rows);
    rank->counts_pinned[call_at(rank, selector, pass, i)] = (struct kvt_gpu_counts){0};
    place_lists(planning, i, selector, pass, queries);
}

static kvt_status plan_call(struct planning *planning, const struct kvt_step_item *item, uint32_t i,
                            uint32_t selector, uint32_t pass, uint32_t visible_rows,
                            struct kvt_error *err)
{
    const struct rank *rank = planning->rank;
    const struct backend_cuda *cuda = rank->cuda;
    struct worker *worker = planning->worker;
    size_t call_index = call_at(rank, selector, pass, i);
    size_t rows_at = call_index * cuda->pass_queries * cuda->llm->top_k;
    struct kvt_resolve_call call = {.step = item->step,
                                    .visible_rows = visible_rows,
                                    .tail_first_row = planning->tail_first_row,
                                    .page_rows = item->ready_pages > 0 ? worker->page_rows : NULL,
                                    .query_count = cuda->passes > 1 ? 1 : item->round->query_count,
                                    .selections = (const uint64_t *const *)worker->sets + pass,
                                    .promotion = cuda->env.promotion};
    struct kvt_resolve_result result;

    call.next_use = look_past(planning->planned, worker, &call);
    kvt_status status =
        kvt_resolve(worker->resolver, planning->planned->cache, &call, &result, err);
    if (status != KVT_OK)
        return status;
    planning->filled_rows = result.filled_rows;
    if (rank->staging_share > 0)
        planning->staging0 =
            planning->places->staging0 + (int32_t)(pass_place(rank, pass, i) * rank->staging_share);
    else
        planning->staging0 = -1;
    fill_slots(planning, &result);
    place_lists(planning, i, selector, pass, call.query_count);
    write_misses(planning, &result, rows_at);
    promote(planning, &result, rank->plan_promoted + 2 * rows_at);
    write_counts(&result, &rank->counts_pinned[call_index]);
    return KVT_OK;
}

kvt_status plan_selector(const struct rank *rank, struct worker *worker,
                         const struct kvt_step_item *item, uint32_t i, uint32_t selector,
                         uint32_t visible_rows, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t s = cuda->llm->selectors[selector].store;
    uint32_t calls = cuda->passes > 1 ? item->round->query_count : 1;
    struct planning planning = {.rank = rank,
                                .lane = rank->items[i],
                                .shape = &cuda->stores[s],
                                .places = &rank->stores[s].places,
                                .planned = &rank->items[i]->planned[s],
                                .worker = worker,
                                .tail_first_row =
                                    kvt_tail_first_row(&cuda->llm->stores[s], item->context_tokens,
                                                       item->round->query_count)};
    kvt_status status = KVT_OK;

    for (uint32_t pass = 0; pass < calls && status == KVT_OK; pass++) {
        if (planning.planned->cache)
            status = plan_call(&planning, item, i, selector, pass, visible_rows, err);
        else
            plan_whole(&planning, item, i, selector, pass, visible_rows);
    }
    return status;
}
