/* prefix_pool.c -- the bytes of a rank's prefix store. */
#include "kvt/prefix_pool.h"

#include <string.h>

kvt_status kvt_prefix_pool_init(struct kvt_prefix_pool *pool, struct kvt_rank_memory *memory,
                                const uint64_t page_bytes[KVT_PREFIX_HOMES],
                                uint64_t index_host_capacity_bytes, struct kvt_error *err)
{
    *pool = (struct kvt_prefix_pool){.memory = memory,
                                     .index_host_capacity_bytes = index_host_capacity_bytes};
    memcpy(pool->page_bytes, page_bytes, sizeof pool->page_bytes);
    return kvt_prefix_new(page_bytes, &pool->store, err);
}

void kvt_prefix_pool_fini(struct kvt_prefix_pool *pool)
{
    if (pool->store != NULL)
        kvt_rank_memory_give_all(pool->memory, &pool->holding);
    kvt_prefix_free(pool->store);
    pool->store = NULL;
}

/* ---- Keeping -------------------------------------------------------------------------- */

static void give_back(struct kvt_prefix_pool *pool, const uint64_t freed_bytes[KVT_PREFIX_HOMES])
{
    kvt_rank_memory_give(pool->memory, &pool->holding, KVT_MEM_INDEX,
                         freed_bytes[KVT_PREFIX_INDEX_HBM]);
    kvt_rank_memory_give(pool->memory, &pool->holding, KVT_MEM_PAYLOAD,
                         freed_bytes[KVT_PREFIX_ROWS_HBM]);
    kvt_rank_memory_give_host(pool->memory, &pool->holding, freed_bytes[KVT_PREFIX_ROWS_HOST]);
}

static void reclaim(struct kvt_prefix_pool *pool, enum kvt_prefix_home home, uint64_t want_bytes)
{
    uint64_t freed_bytes[KVT_PREFIX_HOMES];
    kvt_prefix_reclaim(pool->store, home, want_bytes, freed_bytes);
    give_back(pool, freed_bytes);
}

/* Room for so many pages' index rows on host, as far as old ones can make it. */
static uint64_t index_host_room(struct kvt_prefix_pool *pool, uint64_t want_bytes)
{
    uint64_t used_bytes = kvt_prefix_bytes(pool->store, KVT_PREFIX_INDEX_HOST);
    uint64_t free_bytes = pool->index_host_capacity_bytes - used_bytes;
    if (free_bytes < want_bytes)
        reclaim(pool, KVT_PREFIX_INDEX_HOST, want_bytes - free_bytes);
    return pool->index_host_capacity_bytes - kvt_prefix_bytes(pool->store, KVT_PREFIX_INDEX_HOST);
}

static uint32_t count_in(const kvt_prefix_homes *homes, uint32_t count, enum kvt_prefix_home home)
{
    uint32_t pages = 0;
    for (uint32_t i = 0; i < count; i++)
        pages += homes[i] >> home & 1;
    return pages;
}

/* Leaves out copies past what there are bytes for, the first pages first. */
static void limit(kvt_prefix_homes *homes, uint32_t count,
                  const uint64_t page_bytes[KVT_PREFIX_HOMES],
                  const uint64_t budget_bytes[KVT_PREFIX_HOMES])
{
    uint64_t left_bytes[KVT_PREFIX_HOMES];
    memcpy(left_bytes, budget_bytes, sizeof left_bytes);
    for (uint32_t i = 0; i < count; i++) {
        for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
            if ((homes[i] >> h & 1) == 0)
                continue;
            if (left_bytes[h] < page_bytes[h])
                homes[i] &= (kvt_prefix_homes)~KVT_PREFIX_IN(h);
            else
                left_bytes[h] -= page_bytes[h];
        }
    }
}

kvt_status kvt_prefix_pool_keep(struct kvt_prefix_pool *pool, struct kvt_holding *from,
                                const uint64_t *keys, kvt_prefix_homes *homes, uint32_t count,
                                bool held, struct kvt_error *err)
{
    uint64_t index_host_bytes = (uint64_t)count_in(homes, count, KVT_PREFIX_INDEX_HOST) *
                                pool->page_bytes[KVT_PREFIX_INDEX_HOST];
    const uint64_t budget_bytes[KVT_PREFIX_HOMES] = {
        [KVT_PREFIX_INDEX_HBM] = from->bytes[KVT_MEM_INDEX],
        [KVT_PREFIX_INDEX_HOST] = index_host_room(pool, index_host_bytes),
        [KVT_PREFIX_ROWS_HBM] = from->bytes[KVT_MEM_PAYLOAD],
        [KVT_PREFIX_ROWS_HOST] = from->host_bytes,
    };
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    limit(homes, count, pool->page_bytes, budget_bytes);
    kvt_status status = kvt_prefix_insert(pool->store, keys, homes, count, held, added_bytes, err);
    if (status != KVT_OK)
        return status;
    from->bytes[KVT_MEM_INDEX] -= added_bytes[KVT_PREFIX_INDEX_HBM];
    from->bytes[KVT_MEM_PAYLOAD] -= added_bytes[KVT_PREFIX_ROWS_HBM];
    from->host_bytes -= added_bytes[KVT_PREFIX_ROWS_HOST];
    pool->holding.bytes[KVT_MEM_INDEX] += added_bytes[KVT_PREFIX_INDEX_HBM];
    pool->holding.bytes[KVT_MEM_PAYLOAD] += added_bytes[KVT_PREFIX_ROWS_HBM];
    pool->holding.host_bytes += added_bytes[KVT_PREFIX_ROWS_HOST];
    return KVT_OK;
}

uint32_t kvt_prefix_pool_take_over(struct kvt_prefix_pool *pool, struct kvt_holding *to,
                                   const uint64_t *keys, kvt_prefix_homes *homes, uint32_t count)
{
    uint32_t pages = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((homes[i] & KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM)) == 0)
            continue;
        if (kvt_prefix_drop(pool->store, keys[i], KVT_PREFIX_ROWS_HBM))
            pages++;
        else
            homes[i] &= (kvt_prefix_homes)~KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM);
    }
    uint64_t bytes = pages * pool->page_bytes[KVT_PREFIX_ROWS_HBM];
    pool->holding.bytes[KVT_MEM_PAYLOAD] -= bytes;
    to->bytes[KVT_MEM_PAYLOAD] += bytes;
    return pages;
}

/* ---- Giving up -------------------------------------------------------------------------- */

bool kvt_prefix_pool_make_room(struct kvt_prefix_pool *pool, kvt_prefix_homes homes,
                               const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                               bool growth)
{
    /* Payload before index rows: without payload in HBM a hit is slower, without index rows
     * there is none. */
    static const struct {
        enum kvt_prefix_home home;
        enum kvt_mem_class mem_class;
    } order[] = {{KVT_PREFIX_ROWS_HBM, KVT_MEM_PAYLOAD}, {KVT_PREFIX_INDEX_HBM, KVT_MEM_INDEX}};
    struct kvt_shortage shortage;

    kvt_rank_memory_shortage(pool->memory, bytes, host_bytes, growth, &shortage);
    if ((homes & KVT_PREFIX_IN(KVT_PREFIX_ROWS_HOST)) != 0 && shortage.host_bytes > 0)
        reclaim(pool, KVT_PREFIX_ROWS_HOST, shortage.host_bytes);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        kvt_rank_memory_shortage(pool->memory, bytes, host_bytes, growth, &shortage);
        uint64_t want_bytes = shortage.pool_bytes[pool->memory->pool_of[order[i].mem_class]];
        if ((homes & KVT_PREFIX_IN(order[i].home)) != 0 && want_bytes > 0)
            reclaim(pool, order[i].home, want_bytes);
    }
    return kvt_rank_memory_shortfall(pool->memory, bytes, host_bytes, growth) == 0;
}

bool kvt_prefix_pool_is_sane(const struct kvt_prefix_pool *pool)
{
    const struct kvt_holding *holding = &pool->holding;
    uint64_t others = holding->bytes[KVT_MEM_HOT] + holding->bytes[KVT_MEM_TAIL] +
                      holding->bytes[KVT_MEM_RING] + holding->bytes[KVT_MEM_STAGING];
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        others += holding->reserve_bytes[c];
    return others == 0 && kvt_prefix_is_sane(pool->store) &&
           holding->bytes[KVT_MEM_INDEX] == kvt_prefix_bytes(pool->store, KVT_PREFIX_INDEX_HBM) &&
           holding->bytes[KVT_MEM_PAYLOAD] == kvt_prefix_bytes(pool->store, KVT_PREFIX_ROWS_HBM) &&
           holding->host_bytes == kvt_prefix_bytes(pool->store, KVT_PREFIX_ROWS_HOST) &&
           kvt_prefix_bytes(pool->store, KVT_PREFIX_INDEX_HOST) <= pool->index_host_capacity_bytes;
}
