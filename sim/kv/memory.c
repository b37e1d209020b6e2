/* memory.c -- pools of one GPU and host DRAM of one node, by account. */
#include "kvt/memory.h"

#include <string.h>

const char *kvt_mem_class_name(enum kvt_mem_class mem_class)
{
    static const char *const names[KVT_MEM_CLASSES] = {"index", "hot",     "tail",
                                                       "ring",  "staging", "payload"};
    return mem_class < KVT_MEM_CLASSES ? names[mem_class] : "unknown";
}

void kvt_rank_memory_init(struct kvt_rank_memory *memory, uint64_t index_pool_bytes,
                          uint64_t rows_pool_bytes, uint64_t reserve_bytes,
                          struct kvt_host_pool *host, uint32_t host_copies)
{
    *memory = (struct kvt_rank_memory){.pool_bytes = {index_pool_bytes, rows_pool_bytes},
                                       .reserve_bytes = reserve_bytes,
                                       .host = host,
                                       .host_copies = host_copies};
    if (rows_pool_bytes > 0) {
        memset(memory->pool_of, 1, sizeof memory->pool_of);
        memory->pool_of[KVT_MEM_INDEX] = 0;
    }
}

uint64_t kvt_rank_memory_free(const struct kvt_rank_memory *memory, enum kvt_mem_class mem_class)
{
    uint8_t pool = memory->pool_of[mem_class];
    return memory->pool_bytes[pool] - memory->pool_used[pool];
}

uint64_t kvt_rank_memory_used(const struct kvt_rank_memory *memory)
{
    return memory->pool_used[0] + memory->pool_used[1] + memory->reserve_used;
}

/* How a request for bytes[] falls on the reserve and the pools. */
struct split {
    uint64_t from_reserve[KVT_MEM_CLASSES];
    uint64_t from_pool[KVT_MEM_CLASSES];
    uint64_t pool_sum[2];
};

static struct split split_of(const struct kvt_rank_memory *memory,
                             const uint64_t bytes[KVT_MEM_CLASSES], bool growth)
{
    struct split split = {0};
    uint64_t reserve_free = growth ? memory->reserve_bytes - memory->reserve_used : 0;

    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        split.from_reserve[c] = bytes[c] < reserve_free ? bytes[c] : reserve_free;
        split.from_pool[c] = bytes[c] - split.from_reserve[c];
        reserve_free -= split.from_reserve[c];
        split.pool_sum[memory->pool_of[c]] += split.from_pool[c];
    }
    return split;
}

bool kvt_rank_memory_host_is_short(const struct kvt_rank_memory *memory, uint64_t host_bytes)
{
    uint64_t free_bytes = memory->host->capacity_bytes - memory->host->used_bytes;
    return host_bytes > free_bytes / memory->host_copies;
}

bool kvt_rank_memory_take(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                          const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes, bool growth)
{
    struct split split = split_of(memory, bytes, growth);

    for (int p = 0; p < 2; p++) {
        if (split.pool_sum[p] > memory->pool_bytes[p] - memory->pool_used[p])
            return false;
    }
    if (kvt_rank_memory_host_is_short(memory, host_bytes))
        return false;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        holding->bytes[c] += split.from_pool[c];
        holding->reserve_bytes[c] += split.from_reserve[c];
        memory->reserve_used += split.from_reserve[c];
        memory->used_by_class[c] += bytes[c];
    }
    memory->pool_used[0] += split.pool_sum[0];
    memory->pool_used[1] += split.pool_sum[1];
    holding->host_bytes += host_bytes;
    memory->host->used_bytes += host_bytes * memory->host_copies;
    return true;
}

void kvt_rank_memory_shortage(const struct kvt_rank_memory *memory,
                              const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                              bool growth, struct kvt_shortage *out)
{
    struct split split = split_of(memory, bytes, growth);
    uint64_t host_free =
        (memory->host->capacity_bytes - memory->host->used_bytes) / memory->host_copies;

    *out = (struct kvt_shortage){.host_bytes = host_bytes > host_free ? host_bytes - host_free : 0};
    for (int p = 0; p < 2; p++) {
        uint64_t free_bytes = memory->pool_bytes[p] - memory->pool_used[p];
        if (split.pool_sum[p] > free_bytes)
            out->pool_bytes[p] = split.pool_sum[p] - free_bytes;
    }
}

uint64_t kvt_rank_memory_shortfall(const struct kvt_rank_memory *memory,
                                   const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                                   bool growth)
{
    struct split split = split_of(memory, bytes, growth);
    uint8_t optional_pool = memory->pool_of[KVT_MEM_PAYLOAD];
    uint64_t shortfall = 0;

    if (kvt_rank_memory_host_is_short(memory, host_bytes))
        return UINT64_MAX;
    for (uint8_t p = 0; p < 2; p++) {
        uint64_t free_bytes = memory->pool_bytes[p] - memory->pool_used[p];
        if (split.pool_sum[p] <= free_bytes)
            continue;
        if (p != optional_pool)
            return UINT64_MAX;
        shortfall = split.pool_sum[p] - free_bytes;
    }
    return shortfall;
}

void kvt_rank_memory_give(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                          enum kvt_mem_class mem_class, uint64_t bytes)
{
    uint64_t from_pool = bytes < holding->bytes[mem_class] ? bytes : holding->bytes[mem_class];
    uint64_t from_reserve = bytes - from_pool;

    holding->bytes[mem_class] -= from_pool;
    holding->reserve_bytes[mem_class] -= from_reserve;
    memory->pool_used[memory->pool_of[mem_class]] -= from_pool;
    memory->reserve_used -= from_reserve;
    memory->used_by_class[mem_class] -= bytes;
}

void kvt_rank_memory_give_host(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                               uint64_t host_bytes)
{
    holding->host_bytes -= host_bytes;
    memory->host->used_bytes -= host_bytes * memory->host_copies;
}

void kvt_rank_memory_give_all(struct kvt_rank_memory *memory, struct kvt_holding *holding)
{
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        memory->pool_used[memory->pool_of[c]] -= holding->bytes[c];
        memory->reserve_used -= holding->reserve_bytes[c];
        memory->used_by_class[c] -= holding->bytes[c] + holding->reserve_bytes[c];
    }
    memory->host->used_bytes -= holding->host_bytes * memory->host_copies;
    *holding = (struct kvt_holding){0};
}

bool kvt_rank_memory_is_sane(const struct kvt_rank_memory *memory)
{
    uint64_t by_class = 0;

    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        by_class += memory->used_by_class[c];
    return by_class == kvt_rank_memory_used(memory) &&
           memory->pool_used[0] <= memory->pool_bytes[0] &&
           memory->pool_used[1] <= memory->pool_bytes[1] &&
           memory->reserve_used <= memory->reserve_bytes &&
           memory->host->used_bytes <= memory->host->capacity_bytes;
}
