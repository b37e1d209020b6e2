/* loss.c -- a rank's HBM is gone, and who was served there leaves.
 *
 *     HBM:   everything goes, the prefix store with it: on host its pages lie on, and nobody knows
 *            them any more
 *     host:  rows that were there by now can outlive the rank, as far as its fate says; what a
 *            request shared of them through the store is its own from here on
 *     who decoded:  rows up to the last one backed
 *     who came in:  what it had found there, or had been put aside with; not what was on its way
 *     who waited:   the copy that it had been put aside with
 *
 * Index rows are in HBM alone, but for those of requests put aside. Where prompts are computed,
 * payload without them is of no use: a token's index row comes out of the same forward pass. */
#include <string.h>

#include "kvt/rank.h"
#include "rank_private.h"
#include "wait_queue.h"

enum stage {
    WAITED,
    CAME_IN,
    DECODED
};

/* Rows of a request, from the first on, that are on host by now. */
static uint32_t tokens_on_host(const struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                               enum stage stage)
{
    if (live->aside_tokens > 0)
        return live->aside_ns <= now_ns ? live->aside_tokens : 0;
    if (!rank->needs.host_backing)
        return 0;
    if (stage == DECODED) {
        kvt_pages_settle(&live->pages, now_ns);
        return live->pages.backed_tokens;
    }
    if (live->shared.page_count == 0 || rank_prefix_ready_ns(rank, live, now_ns) > now_ns)
        return 0;
    return live->shared.page_count * KVT_PAGE_ROWS;
}

/* It holds nothing any more; what it may hold again on host is written down in aside_tokens. */
static void strip(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                  const struct kvt_rank_fate *fate, enum stage stage, struct kvt_rank_loss *loss)
{
    bool has_index = live->aside_tokens > 0 || fate->keeps_index;
    uint32_t kept = fate->keeps_host ? tokens_on_host(rank, live, now_ns, stage) : 0;

    if (!has_index && rank->env.prefill_computes)
        kept = 0;
    loss->host_bytes += live->holding.host_bytes;
    rank_let_go(rank, live);
    kvt_rank_memory_give_all(&rank->memory, &live->holding);
    kvt_pages_fini(&live->pages);
    live->aside_tokens = kept;
    live->aside_ns = now_ns;
    live->aside_lacks_index = kept > 0 && !has_index;
    live->blocked = false;
    live->round_tokens = 0;
    live->next_hot_tokens = 0;
    live->prefill_left = live->prefill_chunk = 0;
    live->load_tokens = 0;
    if (stage != WAITED) { /* else what was computed elsewhere is there still */
        live->counted_pages = 0;
        live->was_prefilled = false;
    }
}

/* What it keeps becomes its own, where the node has the room. */
static kvt_status keep(struct kvt_rank *rank, struct kvt_live *live, struct kvt_rank_loss *loss,
                       struct kvt_error *err)
{
    const uint64_t nothing[KVT_MEM_CLASSES] = {0};
    struct kvt_session_bytes whole;

    if (live->aside_tokens == 0)
        return KVT_OK;
    kvt_status status =
        kvt_rank_required(rank, live->aside_tokens, live->max_tokens, 0, &whole, err);
    if (status != KVT_OK)
        return status;
    uint64_t bytes = whole.hbm_by_class[KVT_MEM_PAYLOAD];
    bytes += live->aside_lacks_index ? 0 : whole.hbm_by_class[KVT_MEM_INDEX];
    if (whole.hbm_by_class[KVT_MEM_INDEX] == 0)
        live->aside_lacks_index = false;
    if (kvt_rank_memory_take(&rank->memory, &live->holding, nothing, bytes, false)) {
        loss->host_kept_bytes += bytes;
        rank_decide(rank, DECIDE_KEEP_COPY, live->id, live->aside_tokens, live->aside_lacks_index);
        return KVT_OK;
    }
    live->aside_tokens = 0;
    live->aside_lacks_index = false;
    return KVT_OK;
}

/* What finished requests left goes, in HBM and on host. */
static kvt_status drop_prefixes(struct kvt_rank *rank, struct kvt_rank_loss *loss,
                                struct kvt_error *err)
{
    loss->prefix_pages += kvt_prefix_page_count(rank->prefixes.store);
    loss->host_bytes += rank->prefixes.holding.host_bytes;
    kvt_prefix_pool_fini(&rank->prefixes);
    rank->prefix_write_count = 0;
    return rank_open_prefixes(rank, err);
}

/* Transfers, and what the rank knew of its batch. */
static void forget_batch(struct kvt_rank *rank)
{
    rank->fill_count = 0;
    rank->imports_under_way = 0;
    rank->import_bytes_per_s = 0;
    rank->h2d.free_ns = rank->d2h.free_ns = 0;
    rank->last_step_ns = rank->last_fetch_ns = 0;
    rank->last_step_requests = 0;
    rank->refused = (struct kvt_refused){0};
    rank->host_short = rank->admission_held = false;
    rank->ready_rows = rank->eligible_rows = 0;
}

kvt_status kvt_rank_lose(struct kvt_rank *rank, kvt_ns now_ns, const struct kvt_rank_fate *fate,
                         struct kvt_live *const *requests, uint32_t count,
                         struct kvt_rank_loss *loss, struct kvt_error *err)
{
    struct kvt_live_list *const lists[] = {&rank->running, &rank->arrived, &rank->importing};
    static const enum stage stages[] = {DECODED, DECODED, CAME_IN};
    uint64_t host_kept_before = loss->host_kept_bytes;

    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        loss->hbm_bytes[c] += rank->memory.used_by_class[c] - rank->staging.bytes[c];
    for (size_t l = 0; l < 3; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++)
            strip(rank, lists[l]->items[i], now_ns, fate, stages[l], loss);
        lists[l]->count = 0;
    }
    rank->prefilling.count = 0;
    while (rank->waiting.count > 0) {
        strip(rank, rank->waiting.items[0], now_ns, fate, WAITED, loss);
        wait_queue_remove_at(&rank->waiting, 0);
    }
    forget_batch(rank);
    kvt_status status = drop_prefixes(rank, loss, err);
    for (uint32_t i = 0; i < count && status == KVT_OK; i++)
        status = keep(rank, requests[i], loss, err);
    loss->host_bytes -= loss->host_kept_bytes - host_kept_before < loss->host_bytes
                            ? loss->host_kept_bytes - host_kept_before
                            : loss->host_bytes;
    return status == KVT_OK ? rank_restart_policies(rank, err) : status;
}

void kvt_rank_forget_copy(struct kvt_rank *rank, struct kvt_live *live)
{
    kvt_rank_memory_give_all(&rank->memory, &live->holding);
    live->aside_tokens = 0;
    live->aside_lacks_index = false;
}

kvt_status kvt_rank_enqueue_first(struct kvt_rank *rank, struct kvt_live *live,
                                  struct kvt_error *err)
{
    return wait_queue_push_first(&rank->waiting, live, err);
}

void kvt_rank_set_link(struct kvt_rank *rank, double factor)
{
    const struct kvt_hardware *hardware = rank->env.hardware;
    uint64_t up = (uint64_t)((double)hardware->link_h2d_bytes_per_s * factor);
    uint64_t down = (uint64_t)((double)hardware->link_d2h_bytes_per_s * factor);

    rank->h2d.bytes_per_s = up > 0 || hardware->link_h2d_bytes_per_s == 0 ? up : 1;
    rank->d2h.bytes_per_s = down > 0 || hardware->link_d2h_bytes_per_s == 0 ? down : 1;
}
