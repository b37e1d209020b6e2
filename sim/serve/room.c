/* room.c -- room for what must be held: out of what nobody holds, then out of what is optional.
 *
 *     1  payload that nobody holds goes, in HBM and on host, the least recently used first;
 *     2  the residency policy releases optional pages and demotes;
 *     3  index rows that nobody holds go: without them a prefix is lost
 *
 * Nothing goes where all of it together would not do. Optional pages displace no index rows,
 * unless these are offloaded: then they have a copy on host. */
#include "kvt/rank.h"
#include "rank_private.h"

static const uint64_t nothing[KVT_MEM_CLASSES] = {0};

static bool has_one_pool(const struct kvt_rank *rank)
{
    return rank->memory.pool_of[KVT_MEM_INDEX] == rank->memory.pool_of[KVT_MEM_PAYLOAD];
}

static uint64_t idle_in(const struct kvt_rank *rank, enum kvt_prefix_home home)
{
    return kvt_prefix_reclaimable_bytes(rank->prefixes.store, home);
}

/* Homes whose idle copies give way to what is optional, too. */
static kvt_prefix_homes idle_homes(const struct kvt_rank *rank)
{
    kvt_prefix_homes homes =
        KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM) | KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);

    if (!has_one_pool(rank) || rank->env.index_offload_bytes > 0)
        homes |= KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);
    return homes;
}

uint64_t kvt_rank_free_bytes(const struct kvt_rank *rank)
{
    uint64_t free_bytes = kvt_rank_memory_free(&rank->memory, KVT_MEM_PAYLOAD);

    if (has_one_pool(rank) && rank->env.index_offload_bytes > 0)
        free_bytes += idle_in(rank, KVT_PREFIX_INDEX_HBM);
    return free_bytes + idle_in(rank, KVT_PREFIX_ROWS_HBM);
}

uint64_t kvt_rank_yield_host(struct kvt_rank *rank, uint64_t want_bytes)
{
    struct kvt_host_pool *host = rank->memory.host;
    uint64_t before = host->used_bytes, idle = idle_in(rank, KVT_PREFIX_ROWS_HOST);
    uint64_t free_bytes = (host->capacity_bytes - before) / rank->memory.host_copies;

    want_bytes = want_bytes < idle ? want_bytes : idle;
    if (want_bytes > 0)
        (void)kvt_prefix_pool_make_room(&rank->prefixes, KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST),
                                        nothing, free_bytes + want_bytes, false);
    return before - host->used_bytes;
}

static uint64_t reclaimable_bytes(const struct kvt_rank *rank)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < rank->running.count && rank->residency->reclaim; i++)
        bytes += rank_reclaimable_bytes(rank, rank->running.items[i]);
    return bytes;
}

/* Copies of requests put aside, which go for host DRAM too. */
static uint64_t aside_bytes(const struct kvt_rank *rank, const struct kvt_live *spare)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < rank->waiting.count; i++) {
        const struct kvt_live *live = rank->waiting.items[i];
        bytes += live != spare && live->aside_tokens > 0 ? live->holding.host_bytes : 0;
    }
    return bytes;
}

void rank_make_host_room(const struct boundary *boundary, uint64_t host_bytes,
                         const struct kvt_live *spare)
{
    struct kvt_rank *rank = boundary->rank;
    uint64_t idle = idle_in(rank, KVT_PREFIX_ROWS_HOST);
    struct kvt_shortage shortage;

    if (!kvt_rank_memory_host_is_short(&rank->memory, host_bytes))
        return;
    kvt_rank_memory_shortage(&rank->memory, nothing, host_bytes, false, &shortage);
    if (shortage.host_bytes > idle && boundary->hooks->make_host_room) {
        boundary->hooks->make_host_room(boundary->hooks->context, rank, shortage.host_bytes - idle);
        kvt_rank_memory_shortage(&rank->memory, nothing, host_bytes, false, &shortage);
    }
    if (shortage.host_bytes <= idle + aside_bytes(rank, spare))
        (void)kvt_prefix_pool_make_room(&rank->prefixes, KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST),
                                        nothing, host_bytes, false);
    rank_drop_copies(rank, host_bytes, spare);
}

/* Whether idle copies in these homes, and so many bytes of optional pages, would make the room. */
static bool would_do(const struct kvt_rank *rank, kvt_prefix_homes homes, uint64_t optional_bytes,
                     const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes, bool growth)
{
    static const struct {
        enum kvt_prefix_home home;
        enum kvt_mem_class mem_class;
    } places[] = {{KVT_PREFIX_ROWS_HBM, KVT_MEM_PAYLOAD}, {KVT_PREFIX_INDEX_HBM, KVT_MEM_INDEX}};
    const uint8_t *pool_of = rank->memory.pool_of;
    uint64_t can_go[2] = {0};
    struct kvt_shortage shortage;

    kvt_rank_memory_shortage(&rank->memory, bytes, host_bytes, growth, &shortage);
    can_go[pool_of[KVT_MEM_PAYLOAD]] = optional_bytes;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (homes & KVT_PREFIX_IN(places[i].home))
            can_go[pool_of[places[i].mem_class]] += idle_in(rank, places[i].home);
    }
    return shortage.pool_bytes[0] <= can_go[0] && shortage.pool_bytes[1] <= can_go[1] &&
           shortage.host_bytes <= idle_in(rank, KVT_PREFIX_ROWS_HOST);
}

bool rank_could_make_room(const struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                          uint64_t host_bytes, bool growth)
{
    const kvt_prefix_homes all = KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM) |
                                 KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST) |
                                 KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);

    return would_do(rank, all, reclaimable_bytes(rank), bytes, host_bytes, growth);
}

uint64_t rank_available_bytes(const struct kvt_rank *rank, uint8_t pool)
{
    const struct kvt_rank_memory *memory = &rank->memory;
    uint64_t bytes = memory->pool_bytes[pool] - memory->pool_used[pool];

    if (memory->pool_of[KVT_MEM_PAYLOAD] == pool)
        bytes += idle_in(rank, KVT_PREFIX_ROWS_HBM) + reclaimable_bytes(rank);
    if (memory->pool_of[KVT_MEM_INDEX] == pool)
        bytes += idle_in(rank, KVT_PREFIX_INDEX_HBM);
    return bytes;
}

bool rank_displace_idle(struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                        uint64_t host_bytes, bool growth)
{
    kvt_prefix_homes homes = idle_homes(rank);

    return would_do(rank, homes, 0, bytes, host_bytes, growth) &&
           kvt_prefix_pool_make_room(&rank->prefixes, homes, bytes, host_bytes, growth);
}

bool rank_take(struct kvt_rank *rank, struct kvt_live *live, const uint64_t bytes[KVT_MEM_CLASSES],
               uint64_t host_bytes, bool growth)
{
    return rank_displace_idle(rank, bytes, host_bytes, growth) &&
           kvt_rank_memory_take(&rank->memory, &live->holding, bytes, host_bytes, growth);
}

/* The policy's releases and demotions; *acted: whether there were any. */
static kvt_status ask_policy(const struct boundary *boundary, uint64_t want_bytes, bool *acted,
                             struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    struct kvt_residency_view view;
    kvt_status status = rank_view(rank, boundary->now_ns, &view, err);

    if (status != KVT_OK)
        return status;
    uint32_t count = rank->residency->reclaim(rank->residency_state, &view, want_bytes,
                                              rank->actions, RANK_ACTIONS);
    *acted = count > 0;
    status = rank_check_action_count(rank, count, err);
    for (uint32_t i = 0; i < count && status == KVT_OK; i++) {
        if (rank->actions[i].verb != KVT_RESIDENCY_RELEASE &&
            rank->actions[i].verb != KVT_RESIDENCY_DEMOTE)
            return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                            "asked to reclaim memory, it wants something other than a release "
                            "or a demotion");
        status = rank_act(boundary, &rank->actions[i], err);
    }
    return status;
}

/* Whether memory is short where optional pages are: elsewhere their going would help nobody. */
static bool are_in_the_way(const struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                           uint64_t host_bytes, bool growth)
{
    struct kvt_shortage shortage;

    kvt_rank_memory_shortage(&rank->memory, bytes, host_bytes, growth, &shortage);
    return shortage.pool_bytes[rank->memory.pool_of[KVT_MEM_PAYLOAD]] > 0;
}

kvt_status rank_reclaim(const struct boundary *boundary, const uint64_t bytes[KVT_MEM_CLASSES],
                        uint64_t host_bytes, bool growth, bool *fits, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    const kvt_prefix_homes index = KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM);
    const kvt_prefix_homes rows =
        KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM) | KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST);
    uint64_t optional_bytes = reclaimable_bytes(rank);
    bool acted = true;

    *fits = false;
    if (!rank_could_make_room(rank, bytes, host_bytes, growth))
        return KVT_OK;
    *fits = kvt_prefix_pool_make_room(&rank->prefixes, has_one_pool(rank) ? rows : rows | index,
                                      bytes, host_bytes, growth);
    while (!*fits && acted && optional_bytes > 0) {
        uint64_t short_bytes = kvt_rank_memory_shortfall(&rank->memory, bytes, host_bytes, growth);
        uint64_t want_bytes = short_bytes < optional_bytes ? short_bytes : optional_bytes;
        bool in_the_way = are_in_the_way(rank, bytes, host_bytes, growth);
        kvt_status status = ask_policy(boundary, want_bytes, &acted, err);
        if (status == KVT_OK && !acted && in_the_way)
            status =
                kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                         "asked to reclaim %llu bytes while %llu bytes of optional pages could "
                         "go, it released nothing; contract: optional pages are released "
                         "under pressure",
                         (unsigned long long)want_bytes, (unsigned long long)optional_bytes);
        if (status != KVT_OK)
            return status;
        *fits = kvt_rank_memory_shortfall(&rank->memory, bytes, host_bytes, growth) == 0;
        optional_bytes = reclaimable_bytes(rank);
    }
    if (!*fits)
        *fits = kvt_prefix_pool_make_room(&rank->prefixes, index, bytes, host_bytes, growth);
    return KVT_OK;
}
