/* moves.c -- what a residency policy asks for, carried out and checked. */
#include <assert.h>
#include <stdlib.h>

#include "kvt/hash.h"
#include "kvt/rank.h"
#include "rank_private.h"

void rank_decide(struct kvt_rank *rank, enum rank_decision decision, uint32_t request,
                 uint32_t first, uint32_t count)
{
    uint64_t chain = kvt_chain64(*rank->decisions, (uint64_t)decision << 32 | request);
    *rank->decisions = kvt_chain64(chain, (uint64_t)first << 32 | count);
}

void rank_end_fills(struct kvt_rank *rank, kvt_ns now_ns)
{
    while (rank->fill_count > 0 && rank->fills[rank->fill_head].done_ns <= now_ns) {
        const struct kvt_fill *fill = &rank->fills[rank->fill_head];
        if (fill->live) {
            kvt_pages_end_fill(&fill->live->pages, fill->first, fill->count);
            rank->counters.pages_filled += fill->count;
        }
        rank->fill_head = (rank->fill_head + 1) % rank->fill_capacity;
        rank->fill_count--;
    }
}

static kvt_status make_room_for_fill(struct kvt_rank *rank, struct kvt_error *err)
{
    if (rank->fill_count < rank->fill_capacity)
        return KVT_OK;
    assert(rank->fill_count == 0 || rank->fill_capacity > 0); /* each has its place */
    uint32_t capacity = rank->fill_capacity ? rank->fill_capacity * 2 : 64;
    struct kvt_fill *fills = malloc(capacity * sizeof *fills);
    if (!fills)
        return kvt_fail_nomem(err, "transfers of optional pages");
    for (uint32_t i = 0; i < rank->fill_count; i++)
        fills[i] = rank->fills[(rank->fill_head + i) % rank->fill_capacity];
    free(rank->fills);
    rank->fills = fills;
    rank->fill_head = 0;
    rank->fill_capacity = capacity;
    return KVT_OK;
}

static uint32_t last_of(const struct kvt_residency_action *action)
{
    return action->first + action->count - 1;
}

/* The contract that a move of pages broke. */
static const char *page_contract(const struct kvt_pages *pages,
                                 const struct kvt_residency_action *action)
{
    if (action->count > 0 && !pages->whole &&
        (uint64_t)action->first + action->count > pages->eligible_pages)
        return "the tail is never lent, nor a page without a copy on host";
    return action->verb == KVT_RESIDENCY_RELEASE ? "only optional pages in HBM are released"
                                                 : "only pages that are on host only come up";
}

static kvt_status release(struct kvt_rank *rank, struct kvt_live *live,
                          const struct kvt_residency_action *action, struct kvt_error *err)
{
    if (!kvt_pages_can_release(&live->pages, action->first, action->count))
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it releases pages %u to %u of request %u, and not all of them are "
                        "optional pages in HBM; contract: %s",
                        action->first, last_of(action), action->request,
                        page_contract(&live->pages, action));
    kvt_pages_release(&live->pages, action->first, action->count);
    kvt_rank_memory_give(&rank->memory, &live->holding, KVT_MEM_PAYLOAD,
                         action->count * rank->page_bytes);
    rank->counters.pages_released += action->count;
    rank_decide(rank, DECIDE_RELEASE, live->id, action->first, action->count);
    return KVT_OK;
}

static kvt_status refill(struct kvt_rank *rank, struct kvt_live *live,
                         const struct kvt_residency_action *action, kvt_ns now_ns,
                         struct kvt_error *err)
{
    const char *policy = rank->residency->info.name;
    uint64_t bytes = action->count * rank->page_bytes;
    uint64_t by_class[KVT_MEM_CLASSES] = {[KVT_MEM_PAYLOAD] = bytes};

    if (!rank->needs.optional_pages ||
        !kvt_pages_can_fill(&live->pages, action->first, action->count))
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it refills pages %u to %u of request %u, and not all of them are "
                        "backed, out of the tail and on host only; contract: %s",
                        action->first, last_of(action), action->request,
                        page_contract(&live->pages, action));
    kvt_status status = make_room_for_fill(rank, err);
    if (status != KVT_OK)
        return status;
    if (!rank_take(rank, live, by_class, 0, false))
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it refills %u pages, and the pool of rank %u has not that much free",
                        action->count, rank->env.index);
    kvt_pages_begin_fill(&live->pages, action->first, action->count);
    rank->counters.fill_bytes += bytes;
    rank_decide(rank, DECIDE_REFILL, live->id, action->first, action->count);
    rank->fills[(rank->fill_head + rank->fill_count++) % rank->fill_capacity] =
        (struct kvt_fill){.live = live,
                          .first = action->first,
                          .count = action->count,
                          .done_ns = rank_send(rank, KVT_TRANSFER_FILL, live->id, now_ns, bytes)};
    return KVT_OK;
}

void rank_write_back(struct kvt_rank *rank, struct kvt_live *live, uint32_t tokens, kvt_ns now_ns)
{
    struct kvt_pages *pages = &live->pages;
    uint64_t bytes = (uint64_t)(tokens - pages->queued_tokens) * rank->row_bytes_per_token;

    rank->counters.backup_bytes += bytes;
    rank_decide(rank, DECIDE_BACKUP, live->id, pages->queued_tokens, tokens);
    kvt_pages_queue_backup(pages, tokens,
                           rank_send(rank, KVT_TRANSFER_BACKUP, live->id, now_ns, bytes));
}

static kvt_status back_up(struct kvt_rank *rank, struct kvt_live *live,
                          const struct kvt_residency_action *action, kvt_ns now_ns,
                          struct kvt_error *err)
{
    const struct kvt_pages *pages = &live->pages;

    if (!rank->needs.host_backing)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it backs up request %u, and its needs() asks for no host_backing",
                        action->request);
    if (action->count <= pages->queued_tokens || action->count > pages->committed_tokens)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it backs up %u rows of request %u, of which %u are committed and %u on "
                        "host or on their way: more than these and at most those can be",
                        action->count, action->request, pages->committed_tokens,
                        pages->queued_tokens);
    rank_write_back(rank, live, action->count, now_ns);
    return KVT_OK;
}

/* ---- Hot caches ----------------------------------------------------------------- */

/* What changes hands when a request gets another hot cache and its optional pages from some
 * page on go: classes that grow are taken, those that shrink given back. */
struct exchange {
    uint64_t take[KVT_MEM_CLASSES], give[KVT_MEM_CLASSES];
};

static uint32_t pages_that_stay(const struct kvt_pages *pages, uint32_t first)
{
    if (pages->whole)
        return kvt_pages_kept_when_parted(pages) +
               (first < pages->clean_pages ? first : pages->clean_pages);
    uint32_t stay = kvt_pages_held(pages);
    for (uint32_t page = first; page < pages->eligible_pages; page++)
        stay -= (uint32_t)(pages->ready_bits[page / 64] >> page % 64 & 1);
    return stay;
}

static kvt_status plan_exchange(const struct kvt_rank *rank, const struct kvt_live *live,
                                uint32_t hot_tokens, uint32_t first, struct exchange *exchange,
                                struct kvt_error *err)
{
    struct kvt_session_bytes required;
    kvt_status status = kvt_rank_required(rank, live->pages.committed_tokens, live->max_tokens,
                                          hot_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    *exchange = (struct exchange){0};
    required.hbm_by_class[KVT_MEM_PAYLOAD] =
        pages_that_stay(&live->pages, first) * rank->page_bytes;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        uint64_t held = rank_held_bytes(live, (enum kvt_mem_class)c);
        uint64_t wanted = required.hbm_by_class[c];
        if (c == KVT_MEM_INDEX) /* room for the coming round is there already */
            continue;
        exchange->take[c] = wanted > held ? wanted - held : 0;
        exchange->give[c] = held > wanted ? held - wanted : 0;
    }
    return KVT_OK;
}

/* Every class but the index lives in one pool. */
static bool has_room(const struct kvt_rank *rank, const struct kvt_live *live,
                     const struct exchange *exchange)
{
    uint64_t room = kvt_rank_free_bytes(rank), taken = 0;

    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        uint64_t from_pool = live->holding.bytes[c];
        room += exchange->give[c] < from_pool ? exchange->give[c] : from_pool;
        taken += exchange->take[c];
    }
    return taken <= room;
}

/* *done: false, and nothing has changed, where there is no room. */
static kvt_status give_hot_cache(const struct boundary *boundary, struct kvt_live *live,
                                 uint32_t hot_tokens, uint32_t first, bool *done,
                                 struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    struct exchange exchange;
    kvt_status status = plan_exchange(rank, live, hot_tokens, first, &exchange, err);

    *done = status == KVT_OK && has_room(rank, live, &exchange);
    if (!*done)
        return status;
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        kvt_rank_memory_give(&rank->memory, &live->holding, (enum kvt_mem_class)c,
                             exchange.give[c]);
    if (!rank_take(rank, live, exchange.take, 0, false))
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
    if (live->pages.whole)
        kvt_pages_part(&live->pages);
    rank->counters.pages_released += kvt_pages_release_from(&live->pages, first);
    rank->counters.resizes++;
    live->next_hot_tokens = 0;
    rank_decide(rank, DECIDE_RESIZE, live->id, first, hot_tokens);
    if (live->hot_tokens == hot_tokens)
        return KVT_OK;
    live->hot_tokens = hot_tokens;
    return boundary->hooks->resized(boundary->hooks->context, live, err);
}

kvt_status rank_resize_due(const struct boundary *boundary, struct kvt_error *err)
{
    const struct kvt_live_list *running = &boundary->rank->running;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < running->count && status == KVT_OK; i++) {
        struct kvt_live *live = running->items[i];
        bool done;
        if (live->next_hot_tokens > 0)
            status =
                give_hot_cache(boundary, live, live->next_hot_tokens, live->next_first, &done, err);
    }
    return status;
}

static kvt_status resize(struct kvt_rank *rank, struct kvt_live *live,
                         const struct kvt_residency_action *action, struct kvt_error *err)
{
    if (rank->needs.history_in_hbm)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it gives request %u a hot cache, and its needs() says history_in_hbm",
                        action->request);
    if (action->count == 0 || action->count > rank->hot_tokens)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it gives request %u a hot cache of %u tokens: 1 to %llu, which is "
                        "residency.hot_tokens, can be given",
                        action->request, action->count, (unsigned long long)rank->env.hot_tokens);
    live->next_hot_tokens = action->count;
    live->next_first = action->first;
    return KVT_OK;
}

static kvt_status demote(const struct boundary *boundary, struct kvt_live *live,
                         struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    uint32_t hot_tokens = live->pages.whole ? rank->hot_tokens : live->hot_tokens;
    bool done = false;

    if (rank_reclaimable_bytes(rank, live) == 0)
        return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                        "it demotes request %u, which frees nothing: reclaimable_bytes is 0",
                        live->id);
    kvt_status status = give_hot_cache(boundary, live, hot_tokens, 0, &done, err);
    if (status == KVT_OK && !done)
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "a demotion that frees bytes has no room");
    rank->counters.demotions++;
    return status;
}

/* ---- Any of them ------------------------------------------------------------------ */

static struct kvt_live *find_running(const struct kvt_rank *rank, uint32_t id)
{
    for (uint32_t i = 0; i < rank->running.count; i++) {
        if (rank->running.items[i]->id == id)
            return rank->running.items[i];
    }
    return NULL;
}

kvt_status rank_check_action_count(const struct kvt_rank *rank, uint32_t count,
                                   struct kvt_error *err)
{
    if (count <= RANK_ACTIONS)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                    "it says that it wrote %u actions; there was room for %d", count, RANK_ACTIONS);
}

kvt_status rank_act(const struct boundary *boundary, const struct kvt_residency_action *action,
                    struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    const char *policy = rank->residency->info.name;
    struct kvt_live *live = find_running(rank, action->request);

    if (!live)
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it moves pages of request %u, which is not running on rank %u",
                        action->request, rank->env.index);
    switch (action->verb) {
    case KVT_RESIDENCY_RELEASE:
        return release(rank, live, action, err);
    case KVT_RESIDENCY_REFILL:
        return refill(rank, live, action, boundary->now_ns, err);
    case KVT_RESIDENCY_BACKUP:
        return back_up(rank, live, action, boundary->now_ns, err);
    case KVT_RESIDENCY_RESIZE:
        return resize(rank, live, action, err);
    case KVT_RESIDENCY_DEMOTE:
        return demote(boundary, live, err);
    default:
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it asks for action %u; there are release, refill, backup, resize and "
                        "demote, 0 to 4",
                        action->verb);
    }
}
