/* corrupt.c -- a byte of a row is flipped on host, to prove that the check of attention finds it.
 *
 *     of the first call of a store that will miss a row: a query that selects it, and the store's
 *     last layer of it, are what the step's first check is of; the row's byte that says most is
 *     turned around where the link will read it */
#include "step.h"

#include <stdlib.h>

#include "kvt/layout.h"

/* What a call of the step misses: the query that selects it, of the item. */
struct victim {
    uint32_t item, selector, query, row;
};

static bool in_tail_or_page(const struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                            uint32_t s, uint32_t row)
{
    const struct lane *lane = rank->items[i];
    uint32_t page = row / rank->cuda->stores[s].page_rows;

    return row >= kvt_tail_first_row(&rank->cuda->llm->stores[s], item->context_tokens,
                                     item->round->query_count) ||
           (page < lane->frame_pages && lane->frames[page] != KVT_GPU_NONE);
}

/* Planned calls have decided already; on the device, what is in no slot before them is missed. */
static bool will_miss(const struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                      uint32_t selector, uint32_t row, const uint16_t *slot_of_row)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t call = call_at(rank, selector, 0, i);
    const struct kvt_gpu_counts *counts = &rank->counts_pinned[call];

    if (cuda->decider == DECIDE_ON_DEVICE)
        return slot_of_row[row] == UINT16_MAX &&
               !in_tail_or_page(rank, item, i, cuda->llm->selectors[selector].store, row);
    const uint32_t *missed = rank->plan_missed + call * cuda->pass_queries * cuda->llm->top_k;
    for (uint32_t m = 0; m < counts->filled_rows + counts->staged_rows; m++) {
        if (missed[m] == row)
            return true;
    }
    return false;
}

/* Of the item's first query, which is of the first pass in any case. */
static bool find_row(const struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                     uint32_t selector, const uint16_t *slot_of_row, struct victim *victim)
{
    const int32_t *list = rank->selections_pinned + list_at(rank, selector, i, 0);
    uint32_t count = list_count(list, rank->cuda->llm->top_k);

    for (uint32_t r = 0; r < count; r++) {
        if (!will_miss(rank, item, i, selector, (uint32_t)list[r], slot_of_row))
            continue;
        *victim =
            (struct victim){.item = i, .selector = selector, .query = 0, .row = (uint32_t)list[r]};
        return true;
    }
    return false;
}

static kvt_status find_victim(struct rank *rank, const struct kvt_rank_step *step, uint32_t s,
                              uint16_t *slot_of_row, bool *found, struct victim *victim,
                              struct kvt_error *err)
{
    const struct kvt_gpu_hot *hot = &rank->stores[s].hot;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < step->item_count && status == KVT_OK && !*found; i++) {
        const struct lane *lane = rank->items[i];
        if (lane->hot_tokens == 0)
            continue;
        status = rank_check(rank,
                            cudaMemcpyAsync(slot_of_row,
                                            hot->slot_of_row + (size_t)lane->index * hot->rows_max,
                                            hot->rows_max * sizeof *slot_of_row,
                                            cudaMemcpyDeviceToHost, rank->main),
                            "a table of slots", err);
        if (status == KVT_OK)
            status = rank_wait_stream(rank, rank->main, "a table of slots", err);
        if (status == KVT_OK)
            *found = find_row(rank, &step->items[i], i, rank->cuda->stores[s].first_selector,
                              slot_of_row, victim);
    }
    return status;
}

/* Turns a large value's sign around. */
static void flip(enum kvt_gpu_format format, uint8_t *row)
{
    uint32_t at = 0;

    switch (format) {
    case KVT_GPU_ROW_E4M3_576:
    case KVT_GPU_ROW_MIXED_656:
        while (at < KVT_GPU_LATENT - 1 && (row[at] & 0x7f) < 0x38) /* below 1 */
            at++;
        row[at] ^= 0x80;
        return;
    case KVT_GPU_ROW_BF16_1152:
        for (at = 1; at < 2 * KVT_GPU_LATENT - 2 && (row[at] & 0x7f) < 0x3f;) /* below 0.5 */
            at += 2;
        row[at] ^= 0x80;
        return;
    case KVT_GPU_ROW_FP4_288:
        while (at < KVT_GPU_LATENT / 2 - 1 && (row[at] & 7) < 6) /* below 4 */
            at++;
        row[at] ^= 0x08;
        return;
    }
}

static void corrupt(struct rank *rank, const struct victim *victim)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t s = cuda->llm->selectors[victim->selector].store;
    uint32_t layer = cuda->stores[s].layers - 1;
    const struct store_state *store = &rank->stores[s];
    const struct lane *lane = rank->items[victim->item];
    bool is_shared = victim->row < store->shared_rows[lane->index];
    uint64_t at = victim->row + (is_shared ? store->shared_at : store->own_at)[lane->index];

    rank->spoilt = (struct spoilt){.is_there = true,
                                   .context_id = is_shared ? SHARED_CONTEXT | lane->shared_context
                                                           : lane->request,
                                   .row = victim->row,
                                   .store = s,
                                   .layer = layer};
    rank->proof.corrupted_rows++;
    flip(cuda->format,
         store->host.base + at * store->host.row_stride + layer * store->host.layer_stride);
    proof_set(rank, 0,
              (struct check){.selector = victim->selector,
                             .query = rank->first_query[victim->item] + victim->query,
                             .layer = layer});
}

kvt_status corrupt_row(struct rank *rank, const struct kvt_rank_step *step, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t rows = kvt_env_rows_max(&cuda->env);
    uint16_t *slot_of_row = calloc(rows, sizeof *slot_of_row);
    struct victim victim = {0};
    bool found = false;
    kvt_status status = KVT_OK;

    if (!slot_of_row)
        return kvt_fail_nomem(err, "a table of slots");
    /* Where a row has several layers, followers are what is most easily forgotten. */
    for (uint32_t s = cuda->llm->store_count; s > 0 && status == KVT_OK && !found; s--)
        status = find_victim(rank, step, s - 1, slot_of_row, &found, &victim, err);
    free(slot_of_row);
    if (status != KVT_OK || !found)
        return status;
    corrupt(rank, &victim);
    return rank_upload_block(rank, err);
}
