/* draft.cuh -- where draft rows lie, and which of them a pass reads: what its kernels share. */
#ifndef KVT_GPU_DRAFT_CUH
#define KVT_GPU_DRAFT_CUH

#include "launch.h"

/* First position that token `depth` of the pass reads. */
__device__ __forceinline__ uint32_t first_seen(const struct kvt_gpu_draft_ring &ring,
                                               const struct kvt_gpu_draft_request &request,
                                               uint32_t depth)
{
    uint32_t seen = request.context_tokens + depth + 1;
    uint32_t first = seen > ring.window_tokens ? seen - ring.window_tokens : 0;
    return first > request.lost_tokens ? first : request.lost_tokens;
}

__device__ __forceinline__ uint8_t *row_at(const struct kvt_gpu_draft_ring &ring, uint32_t lane,
                                           uint32_t layer, uint32_t position)
{
    uint64_t row = (static_cast<uint64_t>(lane) * ring.layers + layer) * ring.ring_rows +
                   position % ring.ring_rows;
    return ring.rows + row * ring.row_bytes;
}

#endif
