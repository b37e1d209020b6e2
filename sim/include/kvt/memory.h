/* kvt/memory.h -- who holds how many bytes: pools of one GPU, host DRAM of one node.
 *
 * A rank's KV memory is one pool or two (index rows apart from the rest), and a
 * reserve beside them that only growth may draw on. Every byte is on somebody's
 * account, by class; nothing is ever taken that is not free. */
#ifndef KVT_MEMORY_H
#define KVT_MEMORY_H

#include "kvt/policy.h"

KVT_BEGIN_DECLS

/* Host DRAM of one node, shared by its ranks. */
struct kvt_host_pool {
    uint64_t capacity_bytes, used_bytes;
};

/* One rank's HBM. Bytes are per GPU: tensor-parallel peers hold the same. */
struct kvt_rank_memory {
    uint64_t pool_bytes[2]; /* 0: index rows (or everything), 1: the rest */
    uint64_t pool_used[2];
    uint64_t reserve_bytes, reserve_used;
    uint64_t used_by_class[KVT_MEM_CLASSES]; /* pools and reserve together */
    uint8_t pool_of[KVT_MEM_CLASSES];
    struct kvt_host_pool *host; /* borrowed */
    uint32_t host_copies;       /* copies of a row that the node keeps: tp where per rank, else 1 */
};

/* What one request holds. Zero-initialised: nothing. */
struct kvt_holding {
    uint64_t bytes[KVT_MEM_CLASSES];         /* from the pools */
    uint64_t reserve_bytes[KVT_MEM_CLASSES]; /* from the reserve */
    uint64_t host_bytes;
};

/* rows_pool_bytes 0: one pool for everything. */
void kvt_rank_memory_init(struct kvt_rank_memory *memory, uint64_t index_pool_bytes,
                          uint64_t rows_pool_bytes, uint64_t reserve_bytes,
                          struct kvt_host_pool *host, uint32_t host_copies);

uint64_t kvt_rank_memory_free(const struct kvt_rank_memory *memory, enum kvt_mem_class mem_class);
uint64_t kvt_rank_memory_used(const struct kvt_rank_memory *memory);

/* Takes all of bytes[] (by class) and host_bytes or nothing; false when a pool is
 * short. growth: the reserve first. */
bool kvt_rank_memory_take(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                          const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes, bool growth);

/* Whether the node has no DRAM for host_bytes in as many copies as it keeps. */
bool kvt_rank_memory_host_is_short(const struct kvt_rank_memory *memory, uint64_t host_bytes);

/* How many bytes of optional pages (class PAYLOAD) would have to go for
 * kvt_rank_memory_take() to succeed; UINT64_MAX when no release can help. */
uint64_t kvt_rank_memory_shortfall(const struct kvt_rank_memory *memory,
                                   const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                                   bool growth);

/* How many bytes each pool and the host are short of for kvt_rank_memory_take() to succeed;
 * host_bytes of one copy. */
struct kvt_shortage {
    uint64_t pool_bytes[2];
    uint64_t host_bytes;
};
void kvt_rank_memory_shortage(const struct kvt_rank_memory *memory,
                              const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                              bool growth, struct kvt_shortage *out);

/* Gives back part of one class, what the pools gave before what the reserve gave, or
 * everything. */
void kvt_rank_memory_give(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                          enum kvt_mem_class mem_class, uint64_t bytes);
void kvt_rank_memory_give_host(struct kvt_rank_memory *memory, struct kvt_holding *holding,
                               uint64_t host_bytes);
void kvt_rank_memory_give_all(struct kvt_rank_memory *memory, struct kvt_holding *holding);

/* Sums add up and nothing is past its pool. Checked at the end of every run, and by tests. */
bool kvt_rank_memory_is_sane(const struct kvt_rank_memory *memory);

KVT_END_DECLS
#endif
