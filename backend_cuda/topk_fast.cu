/* topk_fast.cu -- the k best rows of each query: a radix select by a cluster of blocks. */
#include "select.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma nv_diag_suppress 177 /* without clusters the kernel is empty, and all else unused */
#endif

namespace
{

constexpr uint32_t THREADS = 1024;
constexpr uint32_t WARPS = THREADS / 32;
constexpr uint32_t BATCH = 16; /* keys of a lane at a time, where they are read again each pass */

/* A key's bits from the top, in three digits of 11, 11 and 10 bits. */
constexpr uint32_t DIGITS = 3;
constexpr uint32_t BINS_MAX = 2048;

struct shared {
    uint32_t bins[DIGITS][BINS_MAX]; /* read by the whole cluster */
    uint32_t parts[DIGITS][WARPS];
    uint32_t bin, above, count; /* of the digit that was found last */
    uint32_t above_lower;       /* rows above the threshold in blocks of lower rank */
    uint32_t ties_lower;        /* and at it */
};

/* What is known of the threshold. */
struct threshold {
    uint32_t key;  /* rows above it are in */
    uint32_t ties; /* so many at it as well */
};

__device__ __forceinline__ uint32_t cluster_size()
{
    uint32_t size;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
    return size;
}

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

/* Two words of block `rank` of the cluster, where `here` is in this block. */
__device__ __forceinline__ uint2 load_from_block(const uint32_t *here, uint32_t rank)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(here);
    uint2 value;
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %2, %3;\n"
                 "ld.shared::cluster.v2.u32 {%0, %1}, [there];\n"
                 "}"
                 : "=r"(value.x), "=r"(value.y)
                 : "r"(address), "r"(rank)
                 : "memory");
    return value;
}

/* Sum of `value` over threads below this one. */
__device__ __forceinline__ uint32_t sum_below(uint32_t value, uint32_t *parts)
{
    uint32_t lane = threadIdx.x % 32, sum = value;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    uint32_t part = parts[lane];
    return sum - value + __reduce_add_sync(~0u, lane < threadIdx.x / 32 ? part : 0);
}

/* One cluster a query, one block a stretch of its rows, one warp a stretch of the block's:
 *
 *     for each digit of the key, from the top:
 *         count, in the block, the rows whose digits so far are the threshold's, by this digit
 *         add up the counts of the cluster's blocks; the threshold's digit is where the sum
 *         from the top reaches what is still wanted
 *     out: rows above the threshold, and the first of those at it, in row order
 *
 * All digits of all 32 bits are looked at, so that it is exact whatever the scores; each block
 * learns on the way how many rows of the blocks before it are in, which is where it writes.
 * With KEYS > 0 a lane holds its KEYS keys in registers and the scores are read once; with 0
 * they are read again for each digit.
 *
 * Floor: 4 bytes a row over 4.5 TB/s, 2.9 us for 32 queries of 102,400 rows. What it takes
 * beyond that is latency: of the three exchanges within the cluster above all. */
template <uint32_t KEYS>
__global__ void __launch_bounds__(THREADS, 1)
    topk_cluster(struct kvt_gpu_topk topk, uint32_t batches)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr uint32_t BLOCKS_MAX = 8; /* of a cluster */
    constexpr uint32_t HELD = KEYS > 0 ? KEYS : BATCH;
    __shared__ struct shared shared;
    const uint32_t blocks = cluster_size(), rank = cluster_rank();
    const uint32_t index = blockIdx.x / blocks, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *scores = topk.scores + (size_t)index * topk.score_stride;
    const uint32_t first_row = (rank * WARPS + warp) * batches * HELD * 32 + lane;
    struct kvt_gpu_query query = topk.queries[index];

    /* Scores are asked for before it is known how many there are: rows up to rows_max may be
     * read, and those that the query does not see are left out afterwards. */
    uint32_t key[HELD];
    auto load = [&](uint32_t batch) {
#pragma unroll
        for (uint32_t i = 0; i < HELD; i++) {
            uint32_t row = first_row + (batch * HELD + i) * 32;
            key[i] = row < topk.rows_max ? __float_as_uint(__ldg(scores + row)) : 0;
        }
    };
    uint32_t row_count = 0;
    /* In place: scores into keys. */
    auto convert = [&](uint32_t batch) {
#pragma unroll
        for (uint32_t i = 0; i < HELD; i++) {
            uint32_t row = first_row + (batch * HELD + i) * 32;
            key[i] = row < row_count ? select_key(__uint_as_float(key[i])) : 0;
        }
    };
    if (KEYS > 0)
        load(0);
    for (uint32_t i = threadIdx.x; i < DIGITS * BINS_MAX; i += THREADS)
        (&shared.bins[0][0])[i] = 0;
    if (threadIdx.x == 0)
        shared.above_lower = shared.ties_lower = 0;
    row_count = select_visible_rows(topk.requests[query.request], query, topk.ratio);
    if (KEYS > 0)
        convert(0);
    __syncthreads();

    struct threshold threshold = {0, 0};
    uint32_t prefix = 0, wanted = topk.k;
#pragma unroll
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        const uint32_t bits = digit < 2 ? 11 : 10, shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
        const uint32_t bin_mask = (1u << bits) - 1, lowest = prefix << (shift + bits) % 32;
        for (uint32_t batch = 0; batch < batches; batch++) {
            if (KEYS == 0) {
                load(batch);
                convert(batch);
            }
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++) {
                /* As a range: comparing shifted keys would keep KEYS more of them alive. */
                bool here = digit == 0 ? key[i] != 0 : key[i] - lowest < 1u << (shift + bits) % 32;
                if (here)
                    atomicAdd(&shared.bins[digit][key[i] >> shift & bin_mask], 1u);
            }
        }
        cluster_arrive();
        cluster_wait();

        /* Thread t has the bins_of_thread bins that come t-th from the top. */
        constexpr uint32_t bins_of_thread = BINS_MAX / THREADS;
        const uint32_t first_bin = (THREADS - 1 - threadIdx.x) * bins_of_thread;
        uint2 counts = {0, 0}, lower = {0, 0}; /* of the cluster; of blocks of lower rank */
#pragma unroll
        for (uint32_t other = 0; other < BLOCKS_MAX; other++) {
            if (other >= blocks)
                break;
            uint2 theirs = load_from_block(&shared.bins[digit][first_bin], other);
            counts.x += theirs.x;
            counts.y += theirs.y;
            lower.x += other < rank ? theirs.x : 0;
            lower.y += other < rank ? theirs.y : 0;
        }
        uint32_t above = sum_below(counts.x + counts.y, shared.parts[digit]);
        uint32_t above_x = above + counts.y;
        if (above < wanted && wanted <= above_x) {
            shared.bin = first_bin + 1;
            shared.above = above;
            shared.count = counts.y;
        } else if (above_x < wanted && wanted <= above_x + counts.x) {
            shared.bin = first_bin;
            shared.above = above_x;
            shared.count = counts.x;
        } else if (threadIdx.x == THREADS - 1 && wanted > above_x + counts.x) {
            shared.count = 0; /* fewer rows than k: every one is above key 0 */
        }
        __syncthreads();
        const uint32_t bin = shared.bin, count = shared.count;
        const bool every_row = count == 0;
        const bool whole_bin = count == wanted - shared.above;
        uint32_t above_lower = (every_row || first_bin + 1 > bin ? lower.y : 0) +
                               (every_row || first_bin > bin ? lower.x : 0);
        uint32_t ties_lower = every_row              ? 0
                              : first_bin + 1 == bin ? lower.y
                              : first_bin == bin     ? lower.x
                                                     : 0;
        if (!every_row && whole_bin)
            above_lower += ties_lower;
        above_lower = __reduce_add_sync(~0u, above_lower);
        if (lane == 0 && above_lower > 0)
            atomicAdd(&shared.above_lower, above_lower);
        if (every_row)
            break;
        wanted -= shared.above;
        prefix = prefix << bits | bin;
        if (whole_bin) { /* all of it is in, whatever its lower digits are */
            threshold.key = (prefix << shift) - 1;
            break;
        }
        if (digit == DIGITS - 1) {
            threshold.key = prefix;
            threshold.ties = wanted;
            if (ties_lower > 0)
                shared.ties_lower = ties_lower;
        }
    }
    /* The others' bins are not read any more; ours may be until everybody has come here. */
    cluster_arrive();

    uint32_t above = 0, ties = 0;
    for (uint32_t batch = 0; batch < batches; batch++) {
        if (KEYS == 0) {
            load(batch);
            convert(batch);
        }
#pragma unroll
        for (uint32_t i = 0; i < HELD; i++) {
            above += key[i] > threshold.key;
            ties += key[i] == threshold.key;
        }
    }
    above = __reduce_add_sync(~0u, above);
    ties = __reduce_add_sync(~0u, ties);
    __shared__ uint2 of_warp[WARPS];
    if (lane == 0)
        of_warp[warp] = {above, ties};
    __syncthreads();
    uint2 part = of_warp[lane];
    above = shared.above_lower + __reduce_add_sync(~0u, lane < warp ? part.x : 0);
    ties = shared.ties_lower + __reduce_add_sync(~0u, lane < warp ? part.y : 0);

    int32_t *rows = topk.rows + (size_t)index * topk.k;
    const uint32_t lower_lanes = (1u << lane) - 1;
    for (uint32_t batch = 0; batch < batches; batch++) {
        if (KEYS == 0) {
            load(batch);
            convert(batch);
        }
#pragma unroll
        for (uint32_t i = 0; i < HELD; i++) {
            bool is_tie = key[i] == threshold.key;
            uint32_t mask = __ballot_sync(~0u, key[i] >= threshold.key && key[i] != 0);
            if (mask == 0)
                continue;
            uint32_t tie_mask = __ballot_sync(~0u, is_tie);
            uint32_t above_here = above + __popc(mask & ~tie_mask & lower_lanes);
            uint32_t ties_here = ties + __popc(tie_mask & lower_lanes);
            if (key[i] > threshold.key || (is_tie && ties_here < threshold.ties))
                rows[above_here + min(ties_here, threshold.ties)] =
                    (int32_t)(first_row + (batch * HELD + i) * 32);
            above += __popc(mask & ~tie_mask);
            ties += __popc(tie_mask);
        }
    }
    if (rank == blocks - 1 && warp == WARPS - 1)
        for (uint32_t i = above + min(ties, threshold.ties) + lane; i < topk.k; i += 32)
            rows[i] = KVT_GPU_NONE;
    cluster_wait();
#else
    __trap();
#endif
}

template <uint32_t KEYS>
cudaError_t launch(const struct kvt_gpu_topk *topk, uint32_t blocks, uint32_t batches,
                   cudaStream_t stream)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {blocks, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(topk->query_count * blocks);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, topk_cluster<KEYS>, *topk, batches);
}

} // namespace

cudaError_t kvt_gpu_topk_fast(const struct kvt_gpu_topk *topk, cudaStream_t stream)
{
    /* Up to 16 queries fill the chip by clusters of eight, 33 by clusters of four. */
    uint32_t blocks = topk->query_count <= 16 ? 8 : 4;
    uint32_t keys = (topk->rows_max + blocks * THREADS - 1) / (blocks * THREADS);
    if (keys > 32) {
        blocks = 8;
        keys = (topk->rows_max + blocks * THREADS - 1) / (blocks * THREADS);
    }
    if (keys <= 2)
        return launch<2>(topk, blocks, 1, stream);
    if (keys <= 4)
        return launch<4>(topk, blocks, 1, stream);
    if (keys <= 8)
        return launch<8>(topk, blocks, 1, stream);
    if (keys <= 13)
        return launch<13>(topk, blocks, 1, stream);
    if (keys <= 19)
        return launch<19>(topk, blocks, 1, stream);
    if (keys <= 25)
        return launch<25>(topk, blocks, 1, stream);
    if (keys <= 32)
        return launch<32>(topk, blocks, 1, stream);
    return launch<0>(topk, blocks, (keys + BATCH - 1) / BATCH, stream);
}
