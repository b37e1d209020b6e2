/* reuse.c -- pages of finished requests, left to the rank's prefix store and found again.
 *
 *     admission: look up the prompt's keys; hold what is found, so that no room is made out of it
 *                payload in HBM: shared where requests stay whole; else it goes over to the
 *                request, as pages of its own
 *                does not fit: let go
 *     computed:  the prompt's whole pages go to the store, held; others find them from now on
 *     end:       further whole pages go to the store with their bytes; what was held is let go
 *
 * A page counts as found where its index rows and its payload are, in any home; a request that
 * keeps its rows on host finds only pages whose payload is there. */
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/rank.h"
#include "rank_private.h"

kvt_status kvt_shared_init(struct kvt_shared *shared, const uint64_t *keys, uint32_t key_count,
                           struct kvt_error *err)
{
    *shared = (struct kvt_shared){0};
    if (key_count == 0)
        return KVT_OK;
    shared->keys = malloc(key_count * sizeof *shared->keys);
    shared->homes = malloc(key_count * sizeof *shared->homes);
    if (!shared->keys || !shared->homes) {
        kvt_shared_fini(shared);
        return kvt_fail_nomem(err, "the page keys of a request");
    }
    memcpy(shared->keys, keys, key_count * sizeof *keys);
    shared->key_count = key_count;
    return KVT_OK;
}

void kvt_shared_fini(struct kvt_shared *shared)
{
    free(shared->keys);
    free(shared->homes);
    *shared = (struct kvt_shared){0};
}

/* ---- The store ------------------------------------------------------------------------ */

/* Index rows of a page that is offloaded whole lie beside its payload, unless they have room of
 * their own. */
kvt_status rank_open_prefixes(struct kvt_rank *rank, struct kvt_error *err)
{
    struct kvt_session_bytes page;
    uint64_t capacity_bytes = rank->env.index_offload_bytes;
    kvt_status status =
        kvt_rank_required(rank, KVT_PAGE_ROWS, KVT_PAGE_ROWS, rank->hot_tokens, &page, err);

    if (status != KVT_OK)
        return status;
    uint64_t index_bytes = page.hbm_by_class[KVT_MEM_INDEX];
    uint64_t page_bytes[KVT_PREFIX_HOMES] = {[KVT_PREFIX_INDEX_HBM] = index_bytes,
                                             [KVT_PREFIX_INDEX_HOST] = index_bytes,
                                             [KVT_PREFIX_ROWS_HBM] = rank->page_bytes,
                                             [KVT_PREFIX_ROWS_HOST] = rank->page_bytes};
    if (rank->needs.offloads_whole && capacity_bytes == 0) {
        page_bytes[KVT_PREFIX_INDEX_HOST] = 0;
        page_bytes[KVT_PREFIX_ROWS_HOST] += index_bytes;
    }
    return kvt_prefix_pool_init(&rank->prefixes, &rank->memory, page_bytes, capacity_bytes, err);
}

static bool has_copy(kvt_prefix_homes homes, enum kvt_prefix_home home)
{
    return (homes & KVT_PREFIX_IN(home)) != 0;
}

uint32_t rank_look_up(const struct kvt_rank *rank, const struct kvt_shared *shared,
                      uint32_t input_tokens, kvt_prefix_homes *homes)
{
    uint32_t count = kvt_prefix_pages_of(input_tokens), pages = 0;
    struct kvt_prefix_hit hit;

    count = count < shared->key_count ? count : shared->key_count;
    if (count == 0)
        return 0;
    kvt_prefix_lookup(rank->prefixes.store, shared->keys, count, homes, &hit);
    if (!rank->needs.host_backing || hit.in_home[KVT_PREFIX_ROWS_HOST] == hit.pages)
        return hit.pages;
    while (pages < hit.pages && has_copy(homes[pages], KVT_PREFIX_ROWS_HOST))
        pages++;
    return pages;
}

uint32_t kvt_rank_prefix_pages(const struct kvt_rank *rank, const struct kvt_live *live)
{
    /* What is on host since it was put aside is looked up nowhere. */
    if (live->aside_tokens > 0)
        return rank_known_index_tokens(live) / KVT_PAGE_ROWS;
    /* Of a request that holds pages, homes[] says which. */
    if (live->shared.page_count > 0)
        return live->shared.page_count;
    return rank_look_up(rank, &live->shared, live->input_tokens, live->shared.homes);
}

/* ---- Finding --------------------------------------------------------------------------- */

static uint32_t count_in(const struct kvt_shared *shared, enum kvt_prefix_home home)
{
    uint32_t pages = 0;

    for (uint32_t i = 0; i < shared->page_count; i++)
        pages += has_copy(shared->homes[i], home);
    return pages;
}

static void count_bytes(const struct kvt_rank *rank, struct kvt_shared *shared)
{
    const uint64_t *page_bytes = rank->prefixes.page_bytes;

    shared->bytes[KVT_MEM_INDEX] =
        count_in(shared, KVT_PREFIX_INDEX_HBM) * page_bytes[KVT_PREFIX_INDEX_HBM];
    shared->bytes[KVT_MEM_PAYLOAD] =
        count_in(shared, KVT_PREFIX_ROWS_HBM) * page_bytes[KVT_PREFIX_ROWS_HBM];
    shared->host_bytes = count_in(shared, KVT_PREFIX_ROWS_HOST) * page_bytes[KVT_PREFIX_ROWS_HOST];
}

void rank_adopt_prefix(struct kvt_rank *rank, struct kvt_live *live)
{
    struct kvt_shared *shared = &live->shared;

    /* What was put aside has all its rows on host already, on its own account. */
    if (live->aside_tokens > 0)
        return;
    shared->page_count = rank_look_up(rank, shared, live->input_tokens, shared->homes);
    kvt_prefix_adopt(rank->prefixes.store, shared->keys, shared->homes, shared->page_count);
    count_bytes(rank, shared);
}

void rank_let_go(struct kvt_rank *rank, struct kvt_live *live)
{
    struct kvt_shared *shared = &live->shared;

    kvt_prefix_release(rank->prefixes.store, shared->keys, shared->homes, shared->page_count);
    shared->page_count = 0;
    shared->looked_up_at = 0;
    shared->host_bytes = 0;
    memset(shared->bytes, 0, sizeof shared->bytes);
}

/* Lets go of one home's copy of each page, from the tail to the head. */
static void let_go_of(struct kvt_rank *rank, struct kvt_shared *shared, enum kvt_prefix_home home)
{
    const kvt_prefix_homes alone = KVT_PREFIX_IN(home);

    for (uint32_t i = shared->page_count; i-- > 0;) {
        if (!has_copy(shared->homes[i], home))
            continue;
        kvt_prefix_release(rank->prefixes.store, &shared->keys[i], &alone, 1);
        shared->homes[i] &= (kvt_prefix_homes)~alone;
    }
    count_bytes(rank, shared);
}

void rank_keep_on_host(struct kvt_rank *rank, struct kvt_live *live)
{
    const kvt_prefix_homes on_host =
        KVT_PREFIX_IN(KVT_PREFIX_INDEX_HOST) | KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);
    struct kvt_shared *shared = &live->shared;
    uint32_t pages = 0;

    while (pages < shared->page_count && has_copy(shared->homes[pages], KVT_PREFIX_ROWS_HOST))
        pages++;
    for (uint32_t i = shared->page_count; i-- > 0;) {
        kvt_prefix_homes kept = i < pages ? shared->homes[i] & on_host : 0;
        kvt_prefix_homes gone = shared->homes[i] & (kvt_prefix_homes)~kept;
        if (gone != 0)
            kvt_prefix_release(rank->prefixes.store, &shared->keys[i], &gone, 1);
        shared->homes[i] = kept;
    }
    shared->page_count = pages;
    count_bytes(rank, shared);
}

uint32_t rank_index_pages_on_host(const struct kvt_rank *rank, const struct kvt_live *live)
{
    bool lies_whole = rank->prefixes.page_bytes[KVT_PREFIX_INDEX_HOST] == 0;

    return count_in(&live->shared, lies_whole ? KVT_PREFIX_ROWS_HOST : KVT_PREFIX_INDEX_HOST);
}

void rank_let_go_of_rows(struct kvt_rank *rank, struct kvt_live *live)
{
    let_go_of(rank, &live->shared, KVT_PREFIX_ROWS_HBM);
}

/* Pages in HBM become the request's own; a whole request's others, and index rows, will come up
 * from host. */
static uint32_t take_over(struct kvt_rank *rank, struct kvt_live *live)
{
    struct kvt_shared *shared = &live->shared;
    uint32_t taken = 0;

    if (!live->pages.whole && !rank->needs.optional_pages)
        return 0;
    let_go_of(rank, shared, KVT_PREFIX_ROWS_HBM);
    for (uint32_t i = 0; i < shared->page_count; i++) {
        kvt_prefix_homes home = KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM);
        if (kvt_prefix_pool_take_over(&rank->prefixes, &live->holding, &shared->keys[i], &home,
                                      1) == 0)
            continue;
        kvt_pages_take(&live->pages, i);
        taken++;
    }
    return taken;
}

void rank_use_prefix(struct kvt_rank *rank, struct kvt_live *live)
{
    struct kvt_shared *shared = &live->shared;
    uint64_t chain = 0;

    shared->recall_bytes = 0;
    if (shared->page_count == 0 || live->aside_tokens > 0)
        return;
    for (uint32_t i = 0; i < shared->page_count; i++)
        chain = kvt_chain64(chain, shared->homes[i]);
    rank_decide(rank, DECIDE_ADOPT, live->id, shared->page_count, (uint32_t)(chain >> 32));
    uint32_t in_hbm = count_in(shared, KVT_PREFIX_INDEX_HBM);
    shared->recall_bytes =
        (shared->page_count - in_hbm) * rank->prefixes.page_bytes[KVT_PREFIX_INDEX_HBM];
    if (rank->needs.history_in_hbm)
        in_hbm = count_in(shared, KVT_PREFIX_ROWS_HBM);
    else
        in_hbm = take_over(rank, live);
    if (live->pages.whole)
        shared->recall_bytes += (shared->page_count - in_hbm) * rank->page_bytes;
    if (!live->was_admitted)
        rank->counters.prefix_hit_tokens += (uint64_t)shared->page_count * KVT_PAGE_ROWS;
}

/* A prompt that begins otherwise has nothing of a write. */
kvt_ns rank_prefix_ready_ns(const struct kvt_rank *rank, const struct kvt_live *live, kvt_ns now_ns)
{
    kvt_ns ready_ns = now_ns;

    for (uint32_t i = 0; i < rank->prefix_write_count; i++) {
        const struct kvt_prefix_write *write = &rank->prefix_writes[i];
        if (write->first_key == live->shared.keys[0] && write->done_ns > ready_ns)
            ready_ns = write->done_ns;
    }
    return ready_ns;
}

/* ---- Sharing ------------------------------------------------------------------------------ */

/* Of what it holds of its own, how much is beyond what it must hold beside what it shares. */
static uint64_t surplus_bytes(uint64_t own, uint64_t shared, uint64_t wanted)
{
    if (shared == 0 || own + shared <= wanted)
        return 0;
    uint64_t more = own + shared - wanted;
    return more < own ? more : own;
}

/* The store had some of the pages already: those of its own go. */
static kvt_status give_duplicates(struct kvt_rank *rank, struct kvt_live *live,
                                  struct kvt_error *err)
{
    struct kvt_session_bytes required;
    const struct kvt_shared *shared = &live->shared;
    kvt_status status = kvt_rank_required(rank, live->pages.committed_tokens, live->max_tokens,
                                          live->hot_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        enum kvt_mem_class mem_class = (enum kvt_mem_class)c;
        uint64_t own = rank_held_bytes(live, mem_class);
        kvt_rank_memory_give(&rank->memory, &live->holding, mem_class,
                             surplus_bytes(own, shared->bytes[c], required.hbm_by_class[c]));
    }
    kvt_rank_memory_give_host(
        &rank->memory, &live->holding,
        surplus_bytes(live->holding.host_bytes, shared->host_bytes, required.host_bytes));
    return KVT_OK;
}

static kvt_status room_for_homes(struct kvt_rank *rank, uint32_t count, struct kvt_error *err)
{
    if (count <= rank->home_capacity)
        return KVT_OK;
    size_t capacity = 2 * (size_t)count;
    kvt_prefix_homes *homes = realloc(rank->homes, capacity * sizeof *homes);
    if (!homes)
        return kvt_fail_nomem(err, "the pages that a request shares");
    rank->homes = homes;
    rank->home_capacity = (uint32_t)capacity;
    return KVT_OK;
}

kvt_status rank_share_prompt(struct kvt_rank *rank, struct kvt_live *live, struct kvt_error *err)
{
    struct kvt_shared *shared = &live->shared;
    uint32_t found = shared->page_count, count = live->input_tokens / KVT_PAGE_ROWS;
    uint32_t backed_pages = live->pages.backed_tokens / KVT_PAGE_ROWS;

    count = count < shared->key_count ? count : shared->key_count;
    kvt_status status = room_for_homes(rank, count, err);
    if (status != KVT_OK || count == 0)
        return status;
    for (uint32_t i = 0; i < count; i++) {
        kvt_prefix_homes own = KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);
        if (rank->needs.history_in_hbm)
            own |= KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM);
        if (i < backed_pages)
            own |= KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);
        shared->homes[i] = i < found ? shared->homes[i] : 0;
        rank->homes[i] = own & (kvt_prefix_homes)~shared->homes[i];
    }
    status = kvt_prefix_pool_keep(&rank->prefixes, &live->holding, shared->keys, rank->homes, count,
                                  true, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        shared->homes[i] |= rank->homes[i];
    shared->page_count = count;
    count_bytes(rank, shared);
    return give_duplicates(rank, live, err);
}

/* ---- Leaving ----------------------------------------------------------------------------- */

/* What the request itself has of each page. */
static void list_own(const struct kvt_rank *rank, const struct kvt_live *live, uint32_t count)
{
    const struct kvt_shared *shared = &live->shared;
    const uint64_t *ready_bits = live->pages.ready_bits;

    for (uint32_t i = 0; i < count; i++) {
        kvt_prefix_homes held = i < shared->page_count ? shared->homes[i] : 0;
        kvt_prefix_homes own = KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);
        if (rank->env.index_offload_bytes > 0)
            own |= KVT_PREFIX_IN(KVT_PREFIX_INDEX_HOST);
        if (ready_bits[i / 64] >> i % 64 & 1)
            own |= KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM);
        if (rank->needs.host_backing)
            own |= KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);
        rank->homes[i] = own & (kvt_prefix_homes)~held;
    }
}

/* Pages that the store has not on host are written there whole, as far as the least recently used
 * make room, the first pages first. Returns the bytes to write. */
static uint64_t offload(struct kvt_rank *rank, struct kvt_live *live, uint32_t count)
{
    const uint64_t nothing[KVT_MEM_CLASSES] = {0};
    const kvt_prefix_homes whole =
        KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST) |
        (rank->env.index_offload_bytes > 0 ? KVT_PREFIX_IN(KVT_PREFIX_INDEX_HOST) : 0);
    uint64_t page_bytes = rank->prefixes.page_bytes[KVT_PREFIX_ROWS_HOST], bytes = 0;
    struct kvt_shortage shortage;

    for (uint32_t i = 0; i < count; i++) {
        if (!kvt_prefix_has(rank->prefixes.store, live->shared.keys[i], KVT_PREFIX_ROWS_HOST))
            bytes += page_bytes;
    }
    (void)kvt_prefix_pool_make_room(&rank->prefixes, KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST), nothing,
                                    bytes, false);
    kvt_rank_memory_shortage(&rank->memory, nothing, bytes, false, &shortage);
    bytes = (bytes - shortage.host_bytes) / page_bytes * page_bytes;
    if (!kvt_rank_memory_take(&rank->memory, &live->holding, nothing, bytes, false))
        return 0;
    uint64_t left_bytes = bytes;
    for (uint32_t i = 0; i < count && left_bytes > 0; i++) {
        if (kvt_prefix_has(rank->prefixes.store, live->shared.keys[i], KVT_PREFIX_ROWS_HOST))
            continue;
        rank->homes[i] |= whole;
        left_bytes -= page_bytes;
    }
    return bytes;
}

/* Those that have ended by now are forgotten. */
static kvt_status note_write(struct kvt_rank *rank, uint64_t first_key, kvt_ns now_ns,
                             kvt_ns done_ns, struct kvt_error *err)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rank->prefix_write_count; i++) {
        if (rank->prefix_writes[i].done_ns > now_ns)
            rank->prefix_writes[count++] = rank->prefix_writes[i];
    }
    rank->prefix_write_count = count;
    if (done_ns <= now_ns)
        return KVT_OK;
    if (count == rank->prefix_write_capacity) {
        size_t capacity = count > 0 ? 2 * (size_t)count : 16;
        struct kvt_prefix_write *writes = realloc(rank->prefix_writes, capacity * sizeof *writes);
        if (!writes)
            return kvt_fail_nomem(err, "pages on their way to host");
        rank->prefix_writes = writes;
        rank->prefix_write_capacity = (uint32_t)capacity;
    }
    rank->prefix_writes[rank->prefix_write_count++] =
        (struct kvt_prefix_write){.first_key = first_key, .done_ns = done_ns};
    return KVT_OK;
}

static kvt_status leave_pages(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                              struct kvt_error *err)
{
    const struct kvt_prefix_counters *store = kvt_prefix_counters_of(rank->prefixes.store);
    uint32_t count = live->pages.committed_tokens / KVT_PAGE_ROWS;
    uint64_t bytes = 0;

    count = count < live->shared.key_count ? count : live->shared.key_count;
    kvt_status status = room_for_homes(rank, count, err);
    if (status != KVT_OK || count == 0)
        return status;
    list_own(rank, live, count);
    if (rank->needs.host_backing && live->pages.queued_tokens < count * KVT_PAGE_ROWS)
        rank_write_back(rank, live, count * KVT_PAGE_ROWS, now_ns);
    if (rank->needs.offloads_whole)
        bytes = offload(rank, live, count);
    uint64_t before = store->inserted_pages[KVT_PREFIX_INDEX_HOST];
    status = kvt_prefix_pool_keep(&rank->prefixes, &live->holding, live->shared.keys, rank->homes,
                                  count, false, err);
    bytes += (store->inserted_pages[KVT_PREFIX_INDEX_HOST] - before) *
             rank->prefixes.page_bytes[KVT_PREFIX_INDEX_HOST];
    rank->counters.backup_bytes += bytes;
    kvt_ns done_ns = rank_send(rank, KVT_TRANSFER_BACKUP, live->id, now_ns, bytes);
    if (status == KVT_OK && (rank->needs.host_backing || bytes > 0))
        status = note_write(rank, live->shared.keys[0], now_ns, done_ns, err);
    return status;
}

kvt_status kvt_rank_finish(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                           struct kvt_error *err)
{
    kvt_status status = leave_pages(rank, live, now_ns, err);

    kvt_rank_release(rank, live);
    return status;
}
