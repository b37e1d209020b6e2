/* prefill.c -- prompts that are computed on the decoding rank, a chunk a step.
 *
 *     step: queries first; of what is left of its budget each prompt takes what it wants, first
 *           come first served
 *     end:  the chunk's rows that belong on host are sent there; a prompt that is done leaves
 *
 * As Sarathi-Serve's chunked prefill (Agrawal et al., OSDI 2024) and vLLM's scheduler, which fill a
 * token budget with decodes before prompts. All memory of the request is held from its admission
 * on. */
#include "kvt/rank.h"
#include "live_list.h"
#include "rank_private.h"

kvt_status kvt_rank_queue_prefill(struct kvt_rank *rank, struct kvt_live *live,
                                  struct kvt_error *err)
{
    live->load_tokens = 0; /* who computes has loaded */
    return live_list_insert(&rank->prefilling, rank->prefilling.count, live, err);
}

void kvt_rank_share_prefill(struct kvt_rank *rank, uint32_t budget_tokens,
                            struct kvt_rank_load *load)
{
    for (uint32_t i = 0; i < rank->prefilling.count && budget_tokens > 0; i++) {
        struct kvt_live *live = rank->prefilling.items[i];
        uint32_t chunk = live->prefill_left < budget_tokens ? live->prefill_left : budget_tokens;
        double first = kvt_live_context(live) - live->prefill_left;
        live->prefill_chunk = chunk;
        budget_tokens -= chunk;
        load->prefill_tokens += chunk;
        /* Its first token has one row behind it more than there were, the last one chunk more. */
        load->prefill_context_tokens += chunk * (first + (chunk + 1) / 2.0);
        if (rank->env.prefill_cost)
            load->prefill_ns += kvt_prefill_beside_ns(rank->env.prefill_cost, first, first + chunk);
    }
}

/* Rows [first, first + count) have been computed: those that land on host are sent. */
static kvt_ns send_computed(struct kvt_rank *rank, const struct kvt_live *live, uint32_t first,
                            uint32_t count, kvt_ns now_ns)
{
    uint32_t end =
        first + count < live->pages.backed_tokens ? first + count : live->pages.backed_tokens;

    if (!rank->needs.host_backing || end <= first)
        return now_ns;
    uint64_t bytes = (uint64_t)(end - first) * rank->row_bytes_per_token;
    rank->counters.backup_bytes += bytes;
    return rank_send(rank, KVT_TRANSFER_BACKUP, live->id, now_ns, bytes);
}

struct kvt_live *kvt_rank_end_prefill(struct kvt_rank *rank, kvt_ns now_ns, kvt_ns *done_ns)
{
    while (rank->prefilling.count > 0 && rank->prefilling.items[0]->prefill_chunk > 0) {
        struct kvt_live *live = rank->prefilling.items[0];
        uint32_t chunk = live->prefill_chunk;
        *done_ns =
            send_computed(rank, live, kvt_live_context(live) - live->prefill_left, chunk, now_ns);
        live->prefill_left -= chunk;
        live->prefill_chunk = 0;
        if (live->prefill_left > 0)
            break;
        live_list_remove_at(&rank->prefilling, 0);
        return live;
    }
    return NULL;
}
