/* random_calls.c -- calls of one request as they come in turn, for the resolver and for its twin.
 */
#include "random_calls.h"

#include <string.h>

static uint32_t draw(struct random_calls *calls, uint32_t least, uint32_t most)
{
    return least + (uint32_t)kvt_rng_below(&calls->rng, (uint64_t)most - least + 1);
}

static bool chance(struct random_calls *calls, uint32_t percent)
{
    return draw(calls, 1, 100) <= percent;
}

void random_calls_init(struct random_calls *calls, uint64_t seed, uint32_t top_k,
                       uint32_t slot_count, uint32_t rows_max)
{
    memset(calls, 0, sizeof *calls);
    calls->rng = kvt_rng_stream(seed, KVT_RNG_TEST, 1);
    calls->top_k = top_k;
    calls->slot_count = slot_count;
    calls->rows_max = rows_max;
    calls->visible_rows = draw(calls, rows_max / 4, rows_max);
    calls->tail_rows = draw(calls, 0, 130);
    calls->change_percent = draw(calls, 0, 1) * draw(calls, 0, 100) / 2 + 2;
    calls->pages_percent = draw(calls, 0, 2) * draw(calls, 0, 50);
}

/* Some rows leave, others come, until min(k, visible) are selected; mostly near each other, so
 * that words hold several. */
static void select_rows(struct random_calls *calls, uint32_t query)
{
    uint32_t visible_rows = calls->visible_rows;
    uint32_t wanted = calls->top_k < visible_rows ? calls->top_k : visible_rows;
    uint32_t held = 0;
    struct twin_list *selection = &calls->twin_call.selections[query];

    for (uint32_t row = 0; row < visible_rows; row++) {
        if (calls->selected[row] && chance(calls, calls->change_percent))
            calls->selected[row] = false;
        held += calls->selected[row];
    }
    while (held < wanted) {
        uint32_t row = draw(calls, 0, visible_rows - 1);
        for (uint32_t i = draw(calls, 1, 4); i > 0 && row < visible_rows && held < wanted;
             i--, row++) {
            held += !calls->selected[row];
            calls->selected[row] = true;
        }
    }
    selection->items = calls->rows[query];
    selection->count = 0;
    memset(calls->sets[query], 0, sizeof calls->sets[query]);
    for (uint32_t row = 0; row < visible_rows; row++) {
        if (!calls->selected[row])
            continue;
        selection->items[selection->count++] = (int)row;
        calls->sets[query][row / 64] |= UINT64_C(1) << row % 64;
    }
    calls->selections[query] = calls->sets[query];
}

/* Most pages stay what they were; of one row or of 64, by what the request drew. */
static void change_pages(struct random_calls *calls)
{
    uint32_t page_rows = 1u << calls->top_k % 7;

    for (uint32_t first = 0; first < calls->rows_max; first += page_rows) {
        bool leaves = chance(calls, 20), comes = chance(calls, calls->pages_percent / 4);
        for (uint32_t row = first; row < first + page_rows && row < calls->rows_max; row++)
            calls->paged[row] = (calls->paged[row] && !leaves) || comes;
    }
    memset(calls->page_rows, 0, sizeof calls->page_rows);
    for (uint32_t row = 0; row < calls->rows_max; row++)
        calls->page_rows[row / 64] |= (uint64_t)calls->paged[row] << row % 64;
}

void random_calls_next(struct random_calls *calls)
{
    uint32_t grown_rows = calls->visible_rows + draw(calls, 0, 8);
    bool has_pages = calls->pages_percent > 0 && chance(calls, 90);

    calls->visible_rows = grown_rows < calls->rows_max ? grown_rows : calls->rows_max;
    uint32_t tail_first_row =
        calls->visible_rows > calls->tail_rows ? calls->visible_rows - calls->tail_rows : 0;
    uint32_t query_count = draw(calls, 1, TWIN_QUERIES_MAX);
    for (uint32_t query = 0; query < query_count; query++)
        select_rows(calls, query);
    change_pages(calls);
    if (chance(calls, 3)) /* everything is resident */
        tail_first_row = 0;
    calls->call = (struct kvt_resolve_call){
        .step = calls->step++,
        .visible_rows = calls->visible_rows,
        .tail_first_row = tail_first_row,
        .page_rows = has_pages ? calls->page_rows : NULL,
        .query_count = query_count,
        .selections = calls->selections,
        .promotion = chance(calls, 50) ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE,
    };
    calls->twin_call.query_count = (int)query_count;
    calls->twin_call.tail_first_row = (int)tail_first_row;
    calls->twin_call.paged = has_pages ? calls->paged : NULL;
    calls->twin_call.promote_by_count = calls->call.promotion == KVT_PROMOTE_BY_COUNT;
}
