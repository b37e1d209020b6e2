/* aside.c -- rows of requests that have been put aside, on host until they come back.
 *
 *     put aside:  rows that are not on host yet follow, index rows with them; pages that the
 *                 prefix store has there stay held, on its account
 *     back again: index rows, and pages where the request starts whole, come up from host;
 *                 nothing is computed again
 *     no host DRAM for somebody: copies go, last in the queue first; what they held is
 *                 computed again
 *
 * After vLLM's connector for offloaded blocks and SGLang's retraction with a host copy:
 * what is on host already is not prefilled a second time. */
#include "kvt/rank.h"
#include "rank_private.h"

/* Payload and index rows of all committed tokens but those that the store keeps for it. */
static kvt_status copy_bytes(const struct kvt_rank *rank, const struct kvt_live *live,
                             uint64_t *index_bytes, uint64_t *payload_bytes, struct kvt_error *err)
{
    struct kvt_session_bytes whole;
    kvt_status status =
        kvt_rank_required(rank, live->pages.committed_tokens, live->max_tokens, 0, &whole, err);

    if (status != KVT_OK)
        return status;
    uint64_t index_kept =
        rank_index_pages_on_host(rank, live) * rank->prefixes.page_bytes[KVT_PREFIX_INDEX_HBM];
    uint64_t payload_kept = live->shared.page_count * rank->page_bytes;
    *index_bytes = whole.hbm_by_class[KVT_MEM_INDEX];
    *index_bytes -= index_kept < *index_bytes ? index_kept : *index_bytes;
    *payload_bytes = whole.hbm_by_class[KVT_MEM_PAYLOAD];
    *payload_bytes -= payload_kept < *payload_bytes ? payload_kept : *payload_bytes;
    return KVT_OK;
}

kvt_status rank_set_aside(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                          struct kvt_error *err)
{
    uint32_t tokens = live->pages.committed_tokens, written_tokens = live->pages.queued_tokens;
    uint64_t nothing[KVT_MEM_CLASSES] = {0}, index_bytes = 0, payload_bytes = 0;

    if (!rank->needs.keeps_aside) {
        kvt_rank_release(rank, live);
        return KVT_OK;
    }
    rank_keep_on_host(rank, live);
    kvt_status status = copy_bytes(rank, live, &index_bytes, &payload_bytes, err);
    rank_give_up(rank, live);
    if (status != KVT_OK || !rank_take(rank, live, nothing, index_bytes + payload_bytes, false)) {
        rank_let_go(rank, live);
        return status;
    }
    if (written_tokens < live->shared.page_count * KVT_PAGE_ROWS)
        written_tokens = live->shared.page_count * KVT_PAGE_ROWS;
    uint64_t bytes = (tokens - written_tokens) * rank->row_bytes_per_token + index_bytes;
    rank->counters.backup_bytes += bytes;
    live->aside_tokens = tokens;
    live->aside_ns = rank_send(rank, KVT_TRANSFER_BACKUP, live->id, now_ns, bytes);
    return KVT_OK;
}

uint32_t rank_known_tokens(const struct kvt_live *live)
{
    return live->aside_tokens > 0 ? live->aside_tokens : live->shared.page_count * KVT_PAGE_ROWS;
}

uint32_t rank_known_index_tokens(const struct kvt_live *live)
{
    return live->aside_lacks_index ? 0 : rank_known_tokens(live);
}

void rank_drop_copy(struct kvt_rank *rank, struct kvt_live *live)
{
    rank_let_go(rank, live);
    kvt_rank_memory_give_all(&rank->memory, &live->holding);
    live->aside_tokens = 0;
    live->aside_lacks_index = false;
    rank->counters.copies_dropped++;
}

void rank_drop_copies(struct kvt_rank *rank, uint64_t host_bytes, const struct kvt_live *spare)
{
    const uint64_t nothing[KVT_MEM_CLASSES] = {0};

    for (uint32_t i = rank->waiting.count; i-- > 0;) {
        struct kvt_live *live = rank->waiting.items[i];
        if (!kvt_rank_memory_host_is_short(&rank->memory, host_bytes))
            return;
        if (live == spare || live->aside_tokens == 0)
            continue;
        rank_drop_copy(rank, live);
        (void)kvt_prefix_pool_make_room(&rank->prefixes, KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST),
                                        nothing, host_bytes, false);
    }
}
