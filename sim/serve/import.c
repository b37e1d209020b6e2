/* import.c -- a request's history coming in: from outside, or back from host.
 *
 *     what has been found or put aside is there; what of it must be in HBM comes up from host;
 *     the rest comes from outside, or is computed here afterwards;
 *     index rows, and every page of a whole request, land in HBM;
 *     other pages land on host, or in HBM as far as the policy wants and room allows;
 *     what has landed in HBM is copied to host from there, once it is all in;
 *     hot caches, tail and staging start empty. */
#include "kvt/rank.h"
#include "live_list.h"
#include "rank_private.h"

/* Bytes of one import. */
struct shipment {
    uint64_t hbm_bytes, host_bytes; /* from outside */
    uint64_t recalled_bytes;        /* from host to HBM */
};

static kvt_status in_hbm(const struct kvt_rank *rank, const struct kvt_live *live, uint32_t tokens,
                         uint64_t *hbm_bytes, uint64_t *host_bytes, struct kvt_error *err)
{
    struct kvt_session_bytes bytes;
    kvt_status status =
        kvt_rank_required(rank, tokens, live->max_tokens, live->hot_tokens, &bytes, err);

    *hbm_bytes = bytes.hbm_by_class[KVT_MEM_INDEX] + bytes.hbm_by_class[KVT_MEM_PAYLOAD];
    *host_bytes = bytes.host_bytes;
    return status;
}

/* As many pages as the policy wants, there are, and fit. */
static kvt_status choose_landing(struct kvt_rank *rank, const struct kvt_live *live, kvt_ns now_ns,
                                 struct kvt_residency_landing *landing, struct kvt_error *err)
{
    *landing = (struct kvt_residency_landing){0};
    if (live->pages.whole || live->aside_tokens > 0 || !rank->residency->landing ||
        !rank->needs.optional_pages)
        return KVT_OK;
    struct kvt_residency_view view;
    kvt_status status = rank_view(rank, now_ns, &view, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_residency_import import = {.id = live->id,
                                                .context_tokens = live->pages.committed_tokens,
                                                .page_count = live->pages.left_pages -
                                                              live->shared.page_count,
                                                .free_bytes = kvt_rank_free_bytes(rank)};
    rank->residency->landing(rank->residency_state, &view, &import, landing);
    uint64_t fit = import.free_bytes / rank->page_bytes;
    uint32_t most = fit < import.page_count ? (uint32_t)fit : import.page_count;
    landing->pages = landing->pages < most ? landing->pages : most;
    if (landing->pages > 0 && landing->write_later && !rank->needs.deferred_backup)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it lets request %u land without a copy on host, and its needs() asks for "
                        "no deferred_backup",
                        live->id);
    return KVT_OK;
}

/* Rows that come into HBM do not come to host beside that. */
static kvt_status land(struct kvt_rank *rank, struct kvt_live *live,
                       const struct kvt_residency_landing *landing, uint64_t known_host_bytes,
                       struct shipment *shipment, struct kvt_error *err)
{
    uint64_t bytes = landing->pages * rank->page_bytes;
    uint64_t by_class[KVT_MEM_CLASSES] = {[KVT_MEM_PAYLOAD] = bytes};

    live->writes_later = rank->needs.deferred_backup;
    if (live->pages.whole && rank_known_tokens(live) < live->pages.committed_tokens &&
        rank->needs.host_backing) {
        kvt_pages_land(&live->pages, 0);
        kvt_pages_found(&live->pages, rank_known_tokens(live));
        shipment->host_bytes = 0;
    }
    if (landing->pages == 0)
        return KVT_OK;
    if (!rank_take(rank, live, by_class, 0, false))
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
    kvt_pages_land(&live->pages, landing->pages);
    live->writes_later = landing->write_later;
    rank->counters.pages_landed += landing->pages;
    rank_decide(rank, DECIDE_LAND, live->id, landing->pages, landing->write_later);
    shipment->hbm_bytes += bytes;
    uint64_t ignored;
    kvt_status status =
        in_hbm(rank, live, live->pages.backed_tokens, &ignored, &shipment->host_bytes, err);
    shipment->host_bytes -= known_host_bytes;
    return status;
}

/* Index rows of what is on host are there too, or come from outside with the rest. */
static kvt_status lacking_index(const struct kvt_rank *rank, const struct kvt_live *live,
                                uint64_t *index_bytes, struct kvt_error *err)
{
    struct kvt_session_bytes bytes;

    *index_bytes = 0;
    if (!live->aside_lacks_index)
        return KVT_OK;
    kvt_status status = kvt_rank_required(rank, live->aside_tokens, live->max_tokens,
                                          live->hot_tokens, &bytes, err);
    *index_bytes = bytes.hbm_by_class[KVT_MEM_INDEX];
    return status;
}

/* What has to come in from where. Rows that are on host are brought up, not sent again. */
static kvt_status pack(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                       struct shipment *shipment, struct kvt_error *err)
{
    struct kvt_residency_landing landing;
    uint64_t known_hbm_bytes = 0, known_host_bytes = 0, lacking_bytes = 0;
    kvt_status status = in_hbm(rank, live, kvt_live_context(live), &shipment->hbm_bytes,
                               &shipment->host_bytes, err);

    if (status == KVT_OK && rank_known_tokens(live) > 0)
        status =
            in_hbm(rank, live, rank_known_tokens(live), &known_hbm_bytes, &known_host_bytes, err);
    if (status == KVT_OK)
        status = lacking_index(rank, live, &lacking_bytes, err);
    if (status != KVT_OK)
        return status;
    known_hbm_bytes -= lacking_bytes;
    shipment->recalled_bytes = live->aside_tokens > 0 ? known_hbm_bytes : live->shared.recall_bytes;
    shipment->hbm_bytes -= known_hbm_bytes;
    shipment->host_bytes -= known_host_bytes;
    status = choose_landing(rank, live, now_ns, &landing, err);
    if (status == KVT_OK)
        status = land(rank, live, &landing, known_host_bytes, shipment, err);
    if (rank->env.prefills_here) {
        live->prefill_left = kvt_live_context(live) - rank_known_index_tokens(live);
        shipment->hbm_bytes = shipment->host_bytes = 0;
    }
    return status;
}

/* How long it takes, what comes from outside beside what comes up from host. */
static kvt_ns carry(struct kvt_rank *rank, const struct kvt_live *live, kvt_ns now_ns,
                    const struct shipment *shipment)
{
    kvt_ns outside_ns = 0, recall_ns = 0, from_ns = now_ns;

    if (shipment->hbm_bytes + shipment->host_bytes > 0)
        outside_ns = rank->import->duration_ns(rank->import_state, live->id, shipment->host_bytes,
                                               shipment->hbm_bytes);
    rank_tell(rank, KVT_TRANSFER_IMPORT, live->id, now_ns, now_ns + outside_ns,
              rank->env.gpus * shipment->hbm_bytes +
                  rank->memory.host_copies * shipment->host_bytes);
    /* What it knows may still be on its way to host. */
    if (live->aside_tokens > 0 && live->aside_ns > from_ns)
        from_ns = live->aside_ns;
    if (live->shared.page_count > 0 && (rank->needs.host_backing || shipment->recalled_bytes > 0))
        from_ns = rank_prefix_ready_ns(rank, live, from_ns);
    if (shipment->recalled_bytes > 0)
        from_ns = rank_send(rank, KVT_TRANSFER_RECALL, live->id, from_ns, shipment->recalled_bytes);
    recall_ns = from_ns - now_ns;
    return outside_ns > recall_ns ? outside_ns : recall_ns;
}

kvt_status kvt_rank_begin_import(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_live **live,
                                 kvt_ns *duration_ns, struct kvt_error *err)
{
    *live = NULL;
    if (rank->imports_under_way == rank->importing.count ||
        (!rank->env.prefills_here &&
         rank->imports_under_way >= rank->import->servers(rank->import_state)))
        return KVT_OK;
    struct kvt_live *next = rank->importing.items[rank->imports_under_way];
    struct shipment shipment = {0};
    kvt_status status = pack(rank, next, now_ns, &shipment, err);
    if (status != KVT_OK)
        return status;
    *duration_ns = carry(rank, next, now_ns, &shipment);
    next->import_bytes_per_s =
        *duration_ns > 0
            ? (uint64_t)((double)shipment.hbm_bytes / (double)*duration_ns * (double)KVT_NS_PER_S)
            : 0;
    rank->import_bytes_per_s += next->import_bytes_per_s;
    rank->counters.import_hbm_bytes += shipment.hbm_bytes;
    rank->counters.import_host_bytes += shipment.host_bytes;
    rank->counters.recalled_bytes += shipment.recalled_bytes;
    rank->imports_under_way++;
    *live = next;
    return KVT_OK;
}

/* Back in the batch, a request keeps on host what its policy keeps there of anybody. */
static kvt_status end_aside(struct kvt_rank *rank, struct kvt_live *live, struct kvt_error *err)
{
    uint64_t ignored, host_bytes;
    kvt_status status = in_hbm(rank, live, kvt_live_context(live), &ignored, &host_bytes, err);

    uint64_t own_bytes = live->holding.host_bytes;
    uint64_t held_bytes = own_bytes + live->shared.host_bytes;
    if (status == KVT_OK && held_bytes > host_bytes) {
        uint64_t surplus = held_bytes - host_bytes;
        kvt_rank_memory_give_host(&rank->memory, &live->holding,
                                  surplus < own_bytes ? surplus : own_bytes);
    }
    live->aside_tokens = 0;
    live->aside_lacks_index = false;
    return status;
}

kvt_status kvt_rank_end_import(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_live *live,
                               bool joins, struct kvt_error *err)
{
    uint32_t at = live_list_find(&rank->importing, live);

    if (at >= rank->imports_under_way)
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "request %u is not being imported",
                        live->id);
    kvt_status status = live->aside_tokens > 0 ? end_aside(rank, live, err) : KVT_OK;
    if (status != KVT_OK)
        return status;
    if (joins && rank->needs.host_backing && !live->writes_later &&
        live->pages.queued_tokens < live->pages.committed_tokens)
        rank_write_back(rank, live, live->pages.committed_tokens, now_ns);
    if (joins)
        status = rank_share_prompt(rank, live, err);
    if (status != KVT_OK)
        return status;
    live_list_remove_at(&rank->importing, at);
    rank->imports_under_way--;
    rank->import_bytes_per_s -= live->import_bytes_per_s;
    return joins ? live_list_insert(&rank->arrived, rank->arrived.count, live, err) : KVT_OK;
}
