/* memory.h -- what a rank holds, on the device and in pinned host memory: stores, blocks that are
 * uploaded, host rows.
 *
 *     pools.c       what a rank holds in device memory, and where
 *     host_pool.c   pinned host rows */
#ifndef KVT_CUDA_MEMORY_H
#define KVT_CUDA_MEMORY_H

#include "cuda_error.h"
#include "kvt/backend.h"
#include "launch.h"

struct backend_cuda;
struct rank;

/* Takes pieces of a block one after the other; with base NULL it only adds up. */
struct carver {
    uint8_t *base;
    uint64_t used_bytes;
};
void *carve(struct carver *carver, uint64_t bytes, uint64_t alignment);

/* One store, the same on every rank. */
struct store_shape {
    uint32_t layers, first_layer, layer_bytes, row_bytes, ratio;
    uint32_t page_rows; /* 64 / ratio */
    uint32_t rows_max;  /* of the longest context, a round's own included */
    uint32_t slots_max;
    uint32_t first_selector; /* names its index keys */
    uint64_t lane_key_bytes;
    uint32_t own_rows;    /* host rows of a lane that nobody shares, at most */
    uint32_t shared_rows; /* of one shared prefix, at most */
};

/* One store on one rank. Host tables (h_) are uploaded with every step. */
struct store_state {
    struct kvt_gpu_places places;
    struct kvt_gpu_hot hot;
    struct kvt_gpu_host_rows host;
    uint8_t *keys;         /* [lanes][lane_key_bytes] */
    uint8_t *host_base;    /* the same memory as host.base, as the CPU sees it */
    uint32_t *slot_counts; /* [lanes] of the upload block, as the CPU sees it; likewise: */
    uint64_t *shared_at;   /* [lanes] */
    uint64_t *own_at;      /* [lanes] */
    uint32_t *shared_rows; /* [lanes] */
    bool appended;         /* in the step that is being enqueued */
};

/* Pinned host memory of a rank's rows. */
struct host_pool {
    uint8_t *base;
    uint64_t bytes, registered_bytes;
    bool has_node; /* the node that was asked for was preferred */
};
/* numa_node -1: anywhere. done, total: bytes of all ranks, for progress. On failure nothing stays.
 */
KVT_CHECKED kvt_status host_pool_open(const struct kvt_backend_env *env, uint64_t bytes,
                                      int numa_node, uint64_t *done_bytes, uint64_t total_bytes,
                                      struct host_pool *out, struct kvt_error *err);
void host_pool_close(struct host_pool *pool); /* of one that is zeroed too */
/* Refuses, with figures and a cure, what the machine or host_pool_gib does not leave room for. */
KVT_CHECKED kvt_status host_pool_check(uint64_t need_bytes, double limit_gib,
                                       struct kvt_error *err);

/* Written by the CPU for a step and uploaded in one copy; every pointer twice, at the same offset
 * of the pinned block and of the device's. */
struct step_block {
    uint8_t *host, *device;
    uint64_t bytes;
    struct kvt_gpu_request *requests;      /* [lanes] of the batch: all queries of each */
    struct kvt_gpu_request *pass_requests; /* [passes][lanes] of each pass */
    struct kvt_gpu_query *queries;         /* [queries] */
    struct kvt_gpu_query *pass_queries;    /* [queries] its request: itself, in pass_counts */
    struct kvt_gpu_counts *pass_counts;    /* [queries] wave: the pass that it belongs to */
    int32_t *frames;                       /* [lanes][frame_stride] */
    struct kvt_gpu_copy *proof_copies;     /* [selectors][check_queries] */
    uint32_t *hashed_lane;                 /* whose caches are hashed */
};

/* As the device sees a piece of the block. */
static inline void *on_device(const struct step_block *block, const void *piece)
{
    return block->device + ((const uint8_t *)piece - block->host);
}

/* ---- pools.c -------------------------------------------------------------------------- */

/* Pinned bytes of a rank's host rows. */
uint64_t rank_host_bytes(const struct backend_cuda *cuda);
KVT_CHECKED kvt_status rank_open_host_rows(struct rank *rank, uint64_t *done_bytes,
                                           uint64_t total_bytes, struct kvt_error *err);
/* free_bytes: of the device, that the rank may take. */
KVT_CHECKED kvt_status rank_open_pools(struct rank *rank, uint64_t free_bytes,
                                       struct kvt_error *err);
void rank_close_pools(struct rank *rank);

#endif
