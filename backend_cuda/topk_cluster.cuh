/* topk_cluster.cuh -- a cluster of blocks counts keys by bins, and finds the bin that matters. */
#ifndef KVT_TOPK_CLUSTER_CUH
#define KVT_TOPK_CLUSTER_CUH

#include "named_barrier.cuh"

namespace
{

constexpr uint32_t THREADS = 1024; /* of a block */
constexpr uint32_t WARPS = THREADS / 32;
constexpr uint32_t COARSE = 32; /* bins are searched in two steps, this many in the first */

/* What is known of the k-th best key, its digits so far. "Here" is at those digits; the rows of
 * blocks of lower rank are counted apart, because that is where this block's answers begin. */
struct place {
    uint32_t bin; /* of the digit */
    uint32_t above, here;
    uint32_t above_lower, here_lower;
};

__device__ __forceinline__ uint32_t cluster_rank()
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait()
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

/* WORDS words of block `rank` of the cluster, where `here` would be in this block. */
template <uint32_t WORDS>
__device__ __forceinline__ void load_from_block(uint32_t (&words)[WORDS], uint32_t here,
                                                uint32_t rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
#pragma unroll
    for (uint32_t i = 0; i < WORDS; i++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];"
                     : "=r"(words[i])
                     : "r"(there + 4 * i)
                     : "memory");
}

/* Sends a word to block `rank` of the cluster, where `here` would be in this block. */
__device__ __forceinline__ void store_to_block(uint32_t here, uint32_t rank, uint32_t word)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(word) : "memory");
}

/* Counts a key in its bin, if its distance to the lowest is at most `last`. */
__device__ __forceinline__ void count_key(uint32_t distance, uint32_t last, uint32_t bin,
                                          uint32_t bins)
{
    asm volatile("{\n"
                 ".reg .pred here;\n"
                 "setp.le.u32 here, %0, %1;\n"
                 "@here red.shared.add.u32 [%2], 1;\n"
                 "}" ::"r"(distance),
                 "r"(last), "r"(bins + 4 * bin)
                 : "memory");
}

/* Turns the block's counts by bin into counts of the bin and all above it. */
template <uint32_t BINS> __device__ __forceinline__ void add_from_top(uint32_t *bins, uint2 *sums)
{
    constexpr uint32_t EACH = BINS / THREADS;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t count[EACH], total = 0;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        total += count[i] = bins[EACH * threadIdx.x + i];
    uint32_t sum = total;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_down_sync(~0u, sum, step);
        sum += lane + step < 32 ? other : 0;
    }
    if (lane == 0)
        sums[warp].x = sum;
    __syncthreads();
    sum += __reduce_add_sync(~0u, lane > warp ? sums[lane].x : 0) - total;
#pragma unroll
    for (uint32_t i = EACH; i-- > 0;)
        bins[EACH * threadIdx.x + i] = sum += count[i];
}

/* One warp: where, from the top, the counts of all blocks reach `wanted`. Looks at every
 * BINS / COARSE-th bin first, and then at those in between. Nowhere: here is 0. */
template <uint32_t BLOCKS, uint32_t BINS>
__device__ __forceinline__ struct place find_place(uint32_t bins, uint32_t wanted)
{
    constexpr uint32_t FINE = BINS / COARSE, EACH = FINE / 32;
    const uint32_t lane = threadIdx.x % 32, rank = cluster_rank();
    uint32_t words[BLOCKS][EACH];
    uint32_t sum = 0, lower = 0; /* from coarse bin `lane` up */
#pragma unroll
    for (uint32_t other = 0; other < BLOCKS; other++) {
        uint32_t word[1];
        load_from_block(word, bins + 4 * FINE * lane, other);
        words[other][0] = word[0];
    }
#pragma unroll
    for (uint32_t other = 0; other < BLOCKS; other++) {
        sum += words[other][0];
        lower += other < rank ? words[other][0] : 0;
    }
    const uint32_t coarse_mask = __ballot_sync(~0u, sum >= wanted);
    const int coarse = coarse_mask == 0 ? 0 : 31 - __clz(coarse_mask);
#pragma unroll
    for (uint32_t other = 0; other < BLOCKS; other++)
        load_from_block(words[other], bins + 4 * (FINE * coarse + EACH * lane), other);
    const uint32_t top = coarse < 31 ? __shfl_sync(~0u, sum, (coarse + 1) % 32) : 0;
    const uint32_t top_lower = coarse < 31 ? __shfl_sync(~0u, lower, (coarse + 1) % 32) : 0;
    uint32_t sums[EACH + 1], lowers[EACH + 1]; /* from the lane's bins up, and from the next's */
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        sums[i] = lowers[i] = 0;
#pragma unroll
        for (uint32_t other = 0; other < BLOCKS; other++) {
            sums[i] += words[other][i];
            lowers[i] += other < rank ? words[other][i] : 0;
        }
    }
    sums[EACH] = __shfl_down_sync(~0u, sums[0], 1);
    lowers[EACH] = __shfl_down_sync(~0u, lowers[0], 1);
    sums[EACH] = lane < 31 ? sums[EACH] : top;
    lowers[EACH] = lane < 31 ? lowers[EACH] : top_lower;
    struct place place = {0, 0, 0, 0, 0};
    const uint32_t mask = __ballot_sync(~0u, sums[0] >= wanted);
    if (coarse_mask == 0 || mask == 0)
        return place;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        if (sums[i] >= wanted)
            place = {FINE * coarse + EACH * lane + i, sums[i + 1], sums[i] - sums[i + 1],
                     lowers[i + 1], lowers[i] - lowers[i + 1]};
    const int source = 31 - __clz(mask);
    place.bin = __shfl_sync(~0u, place.bin, source);
    place.above = __shfl_sync(~0u, place.above, source);
    place.here = __shfl_sync(~0u, place.here, source);
    place.above_lower = __shfl_sync(~0u, place.above_lower, source);
    place.here_lower = __shfl_sync(~0u, place.here_lower, source);
    return place;
}

} // namespace

#endif
