/* topk.cu -- the k best rows of each query: the launcher and the plain kernel. */
#include "select.cuh"

namespace
{

constexpr uint32_t THREADS = 1024;
constexpr uint32_t WARPS = THREADS / 32;

/* Sum over the block; every thread gets it. */
__device__ uint32_t block_sum(uint32_t value, uint32_t *parts)
{
    value = __reduce_add_sync(~0u, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    return __reduce_add_sync(~0u, parts[threadIdx.x % 32]);
}

/* One block a query:
 *
 *     threshold = the largest key that at least k rows reach, found bit by bit from the top
 *     out: rows above it, and the first of those at it, in row order
 *
 * Reads the scores 34 times. Where fewer than k rows are there, no bit is ever set: the
 * threshold stays 0, which is below every number's key. */
__global__ void __launch_bounds__(THREADS) topk_plain(struct kvt_gpu_topk topk)
{
    __shared__ uint32_t parts[WARPS];
    struct kvt_gpu_query query = topk.queries[blockIdx.x];
    uint32_t row_count =
        min(select_visible_rows(topk.requests[query.request], query, topk.ratio), topk.rows_max);
    const float *scores = topk.scores + (size_t)blockIdx.x * topk.score_stride;
    int32_t *rows = topk.rows + (size_t)blockIdx.x * topk.k;

    uint32_t threshold = 0;
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t reached = 0;
        for (uint32_t row = threadIdx.x; row < row_count; row += THREADS)
            reached += select_key(scores[row]) >= (threshold | 1u << bit);
        if (block_sum(reached, parts) >= topk.k)
            threshold |= 1u << bit;
    }
    uint32_t above = 0;
    for (uint32_t row = threadIdx.x; row < row_count; row += THREADS)
        above += select_key(scores[row]) > threshold;
    uint32_t ties = topk.k - block_sum(above, parts); /* how many rows at the threshold go in */

    uint32_t above_before = 0, ties_before = 0; /* in the rows of earlier rounds */
    for (uint32_t base = 0; base < row_count; base += THREADS) {
        uint32_t row = base + threadIdx.x;
        uint32_t key = row < row_count ? select_key(scores[row]) : 0;
        bool is_above = key > threshold, is_tie = row < row_count && key == threshold;
        uint32_t lower_lanes = (1u << threadIdx.x % 32) - 1;
        uint32_t above_mask = __ballot_sync(~0u, is_above);
        uint32_t tie_mask = __ballot_sync(~0u, is_tie);
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            parts[threadIdx.x / 32] = __popc(above_mask) << 16 | __popc(tie_mask);
        __syncthreads();
        uint32_t part = parts[threadIdx.x % 32];
        uint32_t before = __reduce_add_sync(~0u, threadIdx.x % 32 < threadIdx.x / 32 ? part : 0);
        uint32_t above_here = above_before + (before >> 16) + __popc(above_mask & lower_lanes);
        uint32_t ties_here = ties_before + (before & 0xffff) + __popc(tie_mask & lower_lanes);
        if (is_above || (is_tie && ties_here < ties))
            rows[above_here + min(ties_here, ties)] = (int32_t)row;
        uint32_t all = __reduce_add_sync(~0u, part);
        above_before += all >> 16;
        ties_before += all & 0xffff;
    }
    for (uint32_t i = above_before + min(ties_before, ties) + threadIdx.x; i < topk.k; i += THREADS)
        rows[i] = KVT_GPU_NONE;
}

} // namespace

cudaError_t kvt_gpu_topk(const struct kvt_gpu_topk *topk, cudaStream_t stream)
{
    if (topk->k == 0 || topk->ratio == 0 || topk->rows_max > topk->score_stride ||
        topk->score_stride % 64 != 0)
        return cudaErrorInvalidValue;
    if (topk->query_count == 0)
        return cudaSuccess;
    int capability, multiprocessors;
    cudaError_t error = select_device(&capability, &multiprocessors);
    if (error != cudaSuccess)
        return error;
    if (!topk->reference && capability == 90)
        return kvt_gpu_topk_fast(topk, stream);
    topk_plain<<<topk->query_count, THREADS, 0, stream>>>(*topk);
    return cudaGetLastError();
}
