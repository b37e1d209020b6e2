/* view.c -- the running batch as a residency policy sees it. No page is looked at. */
#include <stdlib.h>

#include "kvt/rank.h"
#include "rank_private.h"

uint64_t rank_held_bytes(const struct kvt_live *live, enum kvt_mem_class mem_class)
{
    return live->holding.bytes[mem_class] + live->holding.reserve_bytes[mem_class];
}

uint64_t rank_reclaimable_bytes(const struct kvt_rank *rank, const struct kvt_live *live)
{
    const struct kvt_pages *pages = &live->pages;
    uint64_t from_pool = live->holding.bytes[KVT_MEM_PAYLOAD];

    if (!pages->whole) {
        uint64_t optional = pages->optional_pages * rank->page_bytes;
        return optional < from_pool ? optional : from_pool;
    }
    if (rank->needs.history_in_hbm)
        return 0;
    uint64_t held = rank_held_bytes(live, KVT_MEM_PAYLOAD);
    uint64_t kept = kvt_pages_kept_when_parted(pages) * rank->page_bytes;
    uint64_t freed = held > kept ? held - kept : 0;
    freed = freed < from_pool ? freed : from_pool;
    return freed > live->hot_cost_bytes ? freed - live->hot_cost_bytes : 0;
}

static struct kvt_residency_request view_of(const struct kvt_rank *rank,
                                            const struct kvt_live *live)
{
    const struct kvt_pages *pages = &live->pages;

    return (struct kvt_residency_request){
        .id = live->id,
        .context_tokens = pages->committed_tokens,
        .generated_tokens = live->generated_tokens,
        .page_count = (pages->committed_tokens + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS,
        .eligible_pages = pages->eligible_pages,
        .optional_pages = pages->optional_pages,
        .filling_pages = pages->filling_pages,
        .missed_rows = live->missed_rows,
        .selected_rows = live->selected_rows,
        .resident_bits = pages->resident_bits,
        .filling_bits = pages->filling_bits,
        .page_hits = live->watch.hits,
        .page_scores = live->watch.scores,
        .page_future = live->watch.future,
        .future_output_tokens =
            rank->sees_future ? live->output_tokens - live->generated_tokens : 0,
        .hot_tokens = live->hot_tokens,
        .next_hot_tokens = live->next_hot_tokens,
        .backed_tokens = pages->backed_tokens,
        .queued_tokens = pages->queued_tokens,
        .clean_pages = pages->clean_pages,
        .kept_pages = pages->kept_pages,
        .hot_cost_bytes = live->hot_cost_bytes,
        .reclaimable_bytes = rank_reclaimable_bytes(rank, live)};
}

kvt_status rank_view(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_residency_view *view,
                     struct kvt_error *err)
{
    uint32_t count = rank->running.count;

    if (count > rank->view_capacity) {
        size_t capacity = 2 * (size_t)count;
        struct kvt_residency_request *views = realloc(rank->views, capacity * sizeof *views);
        if (!views)
            return kvt_fail_nomem(err, "a rank's view for its residency policy");
        rank->views = views;
        rank->view_capacity = (uint32_t)capacity;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_live *live = rank->running.items[i];
        /* Insertion by id: the batch is in order of admission, nearly sorted. */
        uint32_t at = i;
        while (at > 0 && rank->views[at - 1].id > live->id) {
            rank->views[at] = rank->views[at - 1];
            at--;
        }
        rank->views[at] = view_of(rank, live);
    }
    *view =
        (struct kvt_residency_view){.now_ns = now_ns,
                                    .last_step_ns = rank->last_step_ns,
                                    .since_boundary_ns = now_ns - rank->last_boundary_ns,
                                    .queue_length = rank->waiting.count,
                                    .free_bytes = kvt_rank_free_bytes(rank),
                                    .h2d_backlog_bytes = kvt_link_backlog_bytes(&rank->h2d, now_ns),
                                    .d2h_backlog_bytes = kvt_link_backlog_bytes(&rank->d2h, now_ns),
                                    .requests = rank->views,
                                    .request_count = count};
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        view->used_bytes[c] = rank->memory.used_by_class[c];
    return KVT_OK;
}
