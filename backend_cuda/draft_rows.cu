/* draft_rows.cu -- rows of draft rings: made where a ring lacks them, and held against what they
 * should be.
 *
 *     a thread: a 16-byte chunk at a time, made from its hash (rows.h); neighbours in a warp have
 *     neighbouring chunks
 *
 * Floor: the bytes written or read over 4.69 TB/s, where hashing, about 300 instructions a chunk,
 * comes first. */
#include <cuda_runtime.h>

#include "draft.cuh"
#include "rows.h"

namespace
{

constexpr uint32_t THREADS = 256;
constexpr uint32_t SLICES = 8; /* blocks of a (request, layer) */

__device__ void copy_tables(struct kvt_made_tables *shared, const struct kvt_made_tables *tables)
{
    for (uint32_t i = threadIdx.x; i < 128; i += blockDim.x) {
        shared->e4m3[i] = tables->e4m3[i];
        shared->bf16[i] = tables->bf16[i];
    }
    __syncthreads();
}

/* Chunk i of a layer's rows from position `first` on, as it should be, and where it lies. */
__device__ __forceinline__ ulonglong2 make_chunk(const struct kvt_made_tables *tables,
                                                 const struct kvt_gpu_draft_ring &ring,
                                                 const struct kvt_gpu_draft_request &request,
                                                 uint32_t layer, uint32_t position, uint32_t chunk)
{
    uint64_t words[2];
    uint64_t stream =
        kvt_made_draft_stream(request.context_id, layer, position, request.context_tokens);
    kvt_made_row_chunk(tables, ring.values, stream, chunk, words);
    return make_ulonglong2(words[0], words[1]);
}

/* grid: [request_count][layers][SLICES] */
__global__ void __launch_bounds__(THREADS)
    append(const __grid_constant__ struct kvt_gpu_draft_ring ring,
           const struct kvt_gpu_draft_request *requests,
           const __grid_constant__ struct kvt_made_tables tables)
{
    __shared__ struct kvt_made_tables shared;
    const struct kvt_gpu_draft_request request = requests[blockIdx.x];
    const uint32_t end = request.context_tokens + request.block_tokens;
    const uint32_t first = max(request.settled_tokens, request.lost_tokens);
    const uint32_t chunks = ring.row_bytes / 16;

    copy_tables(&shared, &tables);
    for (uint32_t i = blockIdx.z * THREADS + threadIdx.x; i < (end - first) * chunks;
         i += SLICES * THREADS) {
        uint32_t position = first + i / chunks, chunk = i % chunks;
        uint8_t *row = row_at(ring, request.lane, blockIdx.y, position);
        reinterpret_cast<ulonglong2 *>(row)[chunk] =
            make_chunk(&shared, ring, request, blockIdx.y, position, chunk);
    }
}

/* grid: [layers][SLICES] */
__global__ void __launch_bounds__(THREADS)
    compare(const __grid_constant__ struct kvt_gpu_draft_ring ring,
            const struct kvt_gpu_draft_request *requests,
            const __grid_constant__ struct kvt_made_tables tables,
            struct kvt_gpu_draft_verdict *verdict)
{
    __shared__ struct kvt_made_tables shared;
    const struct kvt_gpu_draft_request request = *requests;
    const uint32_t first = first_seen(ring, request, 0);
    const uint32_t end = request.context_tokens + request.block_tokens;
    const uint32_t chunks = ring.row_bytes / 16;
    unsigned long long unequal = 0, lowest = UINT64_MAX;

    copy_tables(&shared, &tables);
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < (end - first) * chunks;
         i += SLICES * THREADS) {
        uint32_t position = first + i / chunks, chunk = i % chunks;
        const uint8_t *row = row_at(ring, request.lane, blockIdx.x, position);
        ulonglong2 found = reinterpret_cast<const ulonglong2 *>(row)[chunk];
        ulonglong2 due = make_chunk(&shared, ring, request, blockIdx.x, position, chunk);
        if (found.x == due.x && found.y == due.y) {
            continue;
        }
        unsigned long long at = static_cast<unsigned long long>(blockIdx.x) << 32 | position;
        lowest = at < lowest ? at : lowest;
        unequal++;
    }
    if (unequal > 0) {
        atomicAdd(reinterpret_cast<unsigned long long *>(&verdict->unequal_chunks), unequal);
        atomicMin(reinterpret_cast<unsigned long long *>(&verdict->first), lowest);
    }
}

} // namespace

/* ---- Launchers ------------------------------------------------------------------------ */

cudaError_t kvt_gpu_draft_append(const struct kvt_gpu_draft_ring *ring,
                                 const struct kvt_gpu_draft_request *requests,
                                 uint32_t request_count, cudaStream_t stream)
{
    if (ring->row_bytes % 16 != 0 || ring->ring_rows == 0) {
        return cudaErrorInvalidValue;
    }
    if (request_count == 0) {
        return cudaSuccess;
    }
    append<<<dim3(request_count, ring->layers, SLICES), THREADS, 0, stream>>>(*ring, requests,
                                                                              kvt_made_tables);
    return cudaGetLastError();
}

cudaError_t kvt_gpu_draft_compare(const struct kvt_gpu_draft_ring *ring,
                                  const struct kvt_gpu_draft_request *request,
                                  struct kvt_gpu_draft_verdict *verdict, cudaStream_t stream)
{
    cudaError_t status = cudaMemsetAsync(&verdict->unequal_chunks, 0, sizeof(uint64_t), stream);
    if (status == cudaSuccess) {
        status = cudaMemsetAsync(&verdict->first, 0xff, sizeof(uint64_t), stream);
    }
    if (status != cudaSuccess) {
        return status;
    }
    compare<<<dim3(ring->layers, SLICES), THREADS, 0, stream>>>(*ring, request, kvt_made_tables,
                                                                verdict);
    return cudaGetLastError();
}
