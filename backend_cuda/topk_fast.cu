/* topk_fast.cu -- the k best rows of each query: a radix select by a cluster of blocks. */
#include "select.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma nv_diag_suppress 177 /* without clusters the kernel is empty, and all else unused */
#endif

namespace
{

constexpr uint32_t THREADS = 1024;
constexpr uint32_t WARPS = THREADS / 32;
constexpr uint32_t BLOCKS_MAX = 8;      /* of a cluster */
constexpr uint32_t PIECE = 4 * THREADS; /* rows of one copy: 16 bytes a thread */
constexpr uint32_t PIECES_MAX = 14;
constexpr uint32_t ROWS_OF_TWO = 25 * 1024; /* so many each, and two blocks share an SM */
constexpr uint32_t ROWS_OF_ONE = 53 * 1024;

/* A key's bits from the top, in three digits of 11, 10 and 11 bits. */
constexpr uint32_t DIGITS = 3;
constexpr uint32_t COARSE = 32; /* bins are searched in two steps, this many in the first */

/* What is known of the k-th best key, its digits so far. "Here" is at those digits; the rows of
 * blocks of lower rank are counted apart, because that is where this block's answers begin. */
struct place {
    uint32_t bin; /* of the digit */
    uint32_t above, here;
    uint32_t above_lower, here_lower;
};

struct shared {
    uint32_t bins[2048]; /* of the first and the last digit; the whole cluster reads them */
    uint32_t middle_bins[1024];
    uint32_t sums[WARPS];
    struct place place;
    uint64_t arrived[PIECES_MAX]; /* copies */
    float4 scores[];              /* as keys from the first pass on */
};

__device__ __forceinline__ uint32_t address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

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

/* A word of block `rank` of the cluster, where `here` is in this block. */
__device__ __forceinline__ uint32_t load_from_block(const uint32_t *here, uint32_t rank)
{
    uint32_t value;
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.u32 %0, [there];\n"
                 "}"
                 : "=r"(value)
                 : "r"(address_of(here)), "r"(rank)
                 : "memory");
    return value;
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address_of(barrier)) : "memory");
}

/* `barrier` completes when the copy, the only one that it is for, has arrived. */
__device__ __forceinline__ void copy(void *dst, const void *src, uint32_t bytes, uint64_t *barrier)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
        "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(address_of(dst)),
                 "l"(src), "r"(bytes), "r"(address_of(barrier))
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t *barrier)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address_of(barrier))
                 : "memory");
}

/* Sum of `value` over threads above this one. */
__device__ __forceinline__ uint32_t sum_above(uint32_t value, uint32_t *sums)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = value;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_down_sync(~0u, sum, step);
        sum += lane + step < 32 ? other : 0;
    }
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    uint32_t of_warp = sums[lane];
    return sum - value + __reduce_add_sync(~0u, lane > warp ? of_warp : 0);
}

/* Turns the block's counts by bin into counts of the bin and all above it. */
template <uint32_t BINS>
__device__ __forceinline__ void add_from_top(uint32_t *bins, uint32_t *sums)
{
    constexpr uint32_t EACH = BINS / THREADS;
    uint32_t count[EACH], total = 0;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        total += count[i] = bins[EACH * threadIdx.x + i];
    uint32_t sum = sum_above(total, sums);
#pragma unroll
    for (uint32_t i = EACH; i-- > 0;)
        bins[EACH * threadIdx.x + i] = sum += count[i];
}

/* One warp: where, from the top, the counts of all blocks reach `wanted`. Looks at every
 * BINS / COARSE-th bin first, and then at those in between. Nowhere: here is 0. */
template <uint32_t BINS>
__device__ __forceinline__ struct place find_place(const uint32_t *bins, uint32_t wanted)
{
    constexpr uint32_t FINE = BINS / COARSE;
    const uint32_t lane = threadIdx.x % 32, blocks = cluster_size(), rank = cluster_rank();
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t other = 0; other < BLOCKS_MAX; other++)
        if (other < blocks)
            sum += load_from_block(&bins[lane * FINE], other);
    uint32_t mask = __ballot_sync(~0u, sum >= wanted);
    struct place place = {0, 0, 0, 0, 0};
    if (mask == 0) {
        place.above = place.above_lower = 0;
        return place;
    }
    const uint32_t first_bin = (31 - __clz(mask)) * FINE;
    for (uint32_t half = FINE / 32; half-- > 0;) { /* the upper 32 bins, then the lower */
        uint32_t bin = first_bin + 32 * half + lane;
        uint32_t at_least = 0, above = 0, at_least_lower = 0, above_lower = 0;
#pragma unroll
        for (uint32_t other = 0; other < BLOCKS_MAX; other++)
            if (other < blocks) {
                uint32_t theirs = load_from_block(&bins[bin], other);
                uint32_t theirs_above = bin + 1 < BINS ? load_from_block(&bins[bin + 1], other) : 0;
                at_least += theirs;
                above += theirs_above;
                at_least_lower += other < rank ? theirs : 0;
                above_lower += other < rank ? theirs_above : 0;
            }
        mask = __ballot_sync(~0u, at_least >= wanted);
        if (mask == 0)
            continue;
        const int source = 31 - __clz(mask);
        place.bin = first_bin + 32 * half + source;
        place.above = __shfl_sync(~0u, above, source);
        place.here = __shfl_sync(~0u, at_least, source) - place.above;
        place.above_lower = __shfl_sync(~0u, above_lower, source);
        place.here_lower = __shfl_sync(~0u, at_least_lower, source) - place.above_lower;
        break;
    }
    return place;
}

/* The rows of one block: from shared memory, or, where they are too many for it, from the
 * scores themselves each time. */
template <bool HELD> struct stretch {
    const float *scores;
    float4 *held;
    uint32_t count; /* of rows that the query sees */

    __device__ __forceinline__ uint32_t key(uint32_t row) const
    {
        if (row >= count)
            return 0;
        return HELD ? ((const uint32_t *)held)[row] : select_key(__ldg(scores + row));
    }
    /* Four rows from 4 * vector on; 0 is no row. */
    __device__ __forceinline__ uint4 keys(uint32_t vector) const
    {
        if (HELD)
            return ((const uint4 *)held)[vector];
        float4 four = __ldg((const float4 *)scores + vector);
        return to_keys(four, vector);
    }
    __device__ __forceinline__ uint4 to_keys(float4 four, uint32_t vector) const
    {
        uint4 keys = {select_key(four.x), select_key(four.y), select_key(four.z),
                      select_key(four.w)};
        if (4 * vector + 3 >= count) {
            keys.x = 4 * vector < count ? keys.x : 0;
            keys.y = 4 * vector + 1 < count ? keys.y : 0;
            keys.z = 4 * vector + 2 < count ? keys.z : 0;
            keys.w = 0;
        }
        return keys;
    }
};

__device__ __forceinline__ void count_key(uint32_t key, uint32_t lowest, uint32_t last,
                                          uint32_t shift, uint32_t *bins)
{
    if (key != 0 && key - lowest <= last)
        atomicAdd(&bins[(key - lowest) >> shift], 1u);
}

/* One cluster a query, one block a stretch of its rows:
 *
 *     for each digit of the key, from the top:
 *         count, in the block, the rows whose digits so far are the k-th best's, by this digit
 *         add the counts up from the top
 *         the k-th best's digit is where the sum over the blocks reaches what is still wanted
 *     out: rows above the k-th best's key, and the first of those at it, in row order
 *
 * All digits of all 32 bits are looked at, unless all rows at the digits so far are wanted, so
 * that it is exact whatever the scores. Each block learns on the way how many rows of the
 * blocks before it are in, which is where it begins to write. Scores are read once, where a
 * block's stretch fits into shared memory.
 *
 * Floor: 4 bytes a row over 4.5 TB/s, 2.9 us for 32 queries of 102,400 rows. What it takes
 * beyond that is latency: of the exchanges within the cluster above all, which is why blocks
 * look only at the few words of each other's counts that they need. */
template <bool HELD>
__global__ void __launch_bounds__(THREADS, HELD ? 2 : 1)
    topk_cluster(const __grid_constant__ struct kvt_gpu_topk topk, uint32_t block_rows)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(16) uint8_t dynamic[];
    struct shared &shared = *(struct shared *)dynamic;
    const uint32_t blocks = cluster_size(), rank = cluster_rank();
    const uint32_t index = blockIdx.x / blocks, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t first_row = rank * block_rows;
    struct stretch<HELD> stretch;
    stretch.scores = topk.scores + (size_t)index * topk.score_stride + first_row;
    stretch.held = shared.scores;

    /* Scores are asked for before it is known how many there are: rows up to rows_max may be
     * read, and those that the query does not see are left out afterwards. */
    const uint32_t held_rows =
        topk.rows_max > first_row ? min(block_rows, topk.rows_max - first_row) : 0;
    if (HELD && threadIdx.x == 0) {
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            barrier_init(&shared.arrived[piece]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            copy(shared.scores + piece * THREADS, stretch.scores + piece * PIECE,
                 (min(PIECE, held_rows - piece * PIECE) + 3) / 4 * 16, &shared.arrived[piece]);
    }
    shared.bins[threadIdx.x] = shared.bins[THREADS + threadIdx.x] = 0;
    shared.middle_bins[threadIdx.x] = 0;
    struct kvt_gpu_query query = topk.queries[index];
    uint32_t row_count = select_visible_rows(topk.requests[query.request], query, topk.ratio);
    stretch.count = row_count > first_row ? min(block_rows, row_count - first_row) : 0;
    const uint32_t vectors = (stretch.count + 3) / 4;
    __syncthreads();

    uint32_t wanted = topk.k, lowest = 0, ties = 0, above_lower = 0, ties_lower = 0;
    uint32_t threshold = 0; /* rows above it are in, and so many at it as `ties` says */
#pragma unroll
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        constexpr uint32_t SHIFTS[] = {21, 11, 0};
        const uint32_t shift = SHIFTS[digit];
        uint32_t *const bins = digit == 1 ? shared.middle_bins : shared.bins;
        if (digit == 2) { /* nobody reads the first digit's any more */
            bins[threadIdx.x] = bins[THREADS + threadIdx.x] = 0;
            __syncthreads();
        }
        for (uint32_t vector = threadIdx.x; vector < vectors; vector += THREADS) {
            uint4 keys;
            if (HELD && digit == 0) {
                barrier_wait(&shared.arrived[vector / THREADS]);
                keys = stretch.to_keys(stretch.held[vector], vector);
                ((uint4 *)stretch.held)[vector] = keys;
            } else {
                keys = stretch.keys(vector);
            }
            const uint32_t last = digit == 0 ? ~0u : digit == 1 ? (1u << 21) - 1 : (1u << 11) - 1;
            count_key(keys.x, lowest, last, shift, bins);
            count_key(keys.y, lowest, last, shift, bins);
            count_key(keys.z, lowest, last, shift, bins);
            count_key(keys.w, lowest, last, shift, bins);
        }
        __syncthreads();
        if (digit == 1)
            add_from_top<1024>(bins, shared.sums);
        else
            add_from_top<2048>(bins, shared.sums);
        cluster_arrive();
        cluster_wait();
        if (warp == 0) {
            struct place place =
                digit == 1 ? find_place<1024>(bins, wanted) : find_place<2048>(bins, wanted);
            if (lane == 0)
                shared.place = place;
        }
        __syncthreads();
        const struct place place = shared.place;
        if (place.here == 0) { /* at the first digit: fewer rows than k */
            for (uint32_t other = 0; other < rank; other++)
                above_lower += load_from_block(bins, other);
            break;
        }
        wanted -= place.above;
        lowest += place.bin << shift;
        above_lower += place.above_lower;
        if (place.here == wanted) { /* all of them, whatever their lower digits */
            above_lower += place.here_lower;
            threshold = lowest - 1;
            break;
        }
        threshold = lowest;
        ties = wanted;
        ties_lower = place.here_lower;
    }
    /* The others' counts are not read any more; ours may be until everybody has come here. */
    cluster_arrive();

    /* Each warp has a stretch of the block's. */
    const uint32_t warp_rows = block_rows / WARPS, warp_row = warp * warp_rows;
    uint32_t above = 0, at = 0;
    for (uint32_t row = warp_row + lane; row < warp_row + warp_rows; row += 32) {
        uint32_t key = stretch.key(row);
        above += key > threshold;
        at += key == threshold;
    }
    __syncthreads(); /* the sums have been read */
    above = __reduce_add_sync(~0u, above);
    at = __reduce_add_sync(~0u, at);
    if (lane == 0)
        shared.sums[warp] = above << 16 | at;
    __syncthreads();
    uint32_t of_warp = lane < warp ? shared.sums[lane] : 0;
    above = above_lower + __reduce_add_sync(~0u, of_warp >> 16);
    at = ties_lower + __reduce_add_sync(~0u, of_warp & 0xffff);

    int32_t *rows = topk.rows + (size_t)index * topk.k;
    const uint32_t lower_lanes = (1u << lane) - 1;
    for (uint32_t row = warp_row + lane; row < warp_row + warp_rows; row += 32) {
        uint32_t key = stretch.key(row);
        uint32_t above_mask = __ballot_sync(~0u, key > threshold);
        uint32_t at_mask = ties > 0 ? __ballot_sync(~0u, key == threshold) : 0;
        if ((above_mask | at_mask) == 0)
            continue;
        uint32_t above_here = above + __popc(above_mask & lower_lanes);
        uint32_t at_here = at + __popc(at_mask & lower_lanes);
        bool is_in = key > threshold || (at_mask >> lane & 1 && at_here < ties);
        if (is_in)
            rows[above_here + min(at_here, ties)] = (int32_t)(first_row + row);
        above += __popc(above_mask);
        at += __popc(at_mask);
    }
    if (rank == blocks - 1 && warp == WARPS - 1)
        for (uint32_t i = above + min(at, ties) + lane; i < topk.k; i += 32)
            rows[i] = KVT_GPU_NONE;
    if (HELD && threadIdx.x == 0) /* no copy may arrive when the block has gone */
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            barrier_wait(&shared.arrived[piece]);
    cluster_wait();
#else
    __trap();
#endif
}

template <bool HELD>
cudaError_t launch(const struct kvt_gpu_topk *topk, uint32_t blocks, uint32_t block_rows,
                   cudaStream_t stream)
{
    const size_t bytes = sizeof(struct shared) + (HELD ? block_rows * sizeof(float) : 0);
    cudaError_t error = cudaFuncSetAttribute(
        topk_cluster<HELD>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {blocks, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(topk->query_count * blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, topk_cluster<HELD>, *topk, block_rows);
}

} // namespace

cudaError_t kvt_gpu_topk_fast(const struct kvt_gpu_topk *topk, cudaStream_t stream)
{
    /* Few queries get more blocks each, many rows too. */
    uint32_t blocks = topk->query_count <= 16 || topk->rows_max > 4 * ROWS_OF_TWO ? 8 : 4;
    uint32_t block_rows = (topk->rows_max + blocks * 1024 - 1) / (blocks * 1024) * 1024;
    return block_rows <= ROWS_OF_ONE ? launch<true>(topk, blocks, block_rows, stream)
                                     : launch<false>(topk, blocks, block_rows, stream);
}
