/* topk_fast.cu -- the k best rows of each query: a radix select by a cluster of blocks. */
#include "select.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma nv_diag_suppress 177 /* without clusters the kernel is empty, and all else unused */
#endif

namespace
{

constexpr uint32_t THREADS = 1024;
constexpr uint32_t WARPS = THREADS / 32;
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
    uint2 sums[WARPS];
    struct place place;
    uint64_t arrived[PIECES_MAX]; /* copies */
    uint4 keys[];                 /* scores, until the first pass */
};

__device__ __forceinline__ uint32_t address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
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

/* Through an address: by pointers it would be reckoned anew for each load. */
__device__ __forceinline__ uint32_t load_word(uint32_t address)
{
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ uint4 load_words(uint32_t address)
{
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address)
                 : "memory");
    return words;
}

__device__ __forceinline__ void store_words(uint32_t address, uint4 words)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words.x),
                 "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
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

/* Keys of four rows, of which `count` are there; 0 is no row. */
__device__ __forceinline__ uint4 keys_of(uint4 scores, uint32_t count)
{
    uint4 keys = {select_key(__uint_as_float(scores.x)), select_key(__uint_as_float(scores.y)),
                  select_key(__uint_as_float(scores.z)), select_key(__uint_as_float(scores.w))};
    if (count < 4) {
        keys.x = count > 0 ? keys.x : 0;
        keys.y = count > 1 ? keys.y : 0;
        keys.z = count > 2 ? keys.z : 0;
        keys.w = 0;
    }
    return keys;
}

/* The rows of one block: keys in shared memory, or, where they are too many for it, scores that
 * are read again each time. */
template <bool HELD> struct stretch {
    const float *scores;
    uint32_t keys;  /* address */
    uint32_t count; /* of rows that the query sees; behind them keys are 0 */

    __device__ __forceinline__ uint32_t key(uint32_t row) const
    {
        if (HELD)
            return load_word(keys + 4 * row);
        return row < count ? select_key(__ldg(scores + row)) : 0;
    }
    /* Of four rows from 4 * vector on. */
    __device__ __forceinline__ uint4 four_keys(uint32_t vector) const
    {
        if (HELD)
            return load_words(keys + 16 * vector);
        if (4 * vector >= count)
            return {0, 0, 0, 0};
        return keys_of(__ldg((const uint4 *)scores + vector), count - 4 * vector);
    }
};

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
template <uint32_t BLOCKS, bool HELD>
__global__ void __launch_bounds__(THREADS, HELD ? 2 : 1)
    topk_cluster(const __grid_constant__ struct kvt_gpu_topk topk, uint32_t block_rows)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(16) uint8_t dynamic[];
    struct shared &shared = *(struct shared *)dynamic;
    const uint32_t rank = cluster_rank(), index = blockIdx.x / BLOCKS;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t first_row = rank * block_rows, vectors = block_rows / 4;
    struct stretch<HELD> stretch;
    stretch.scores = topk.scores + (size_t)index * topk.score_stride + first_row;
    stretch.keys = address_of(shared.keys);

    const uint32_t held_rows =
        topk.rows_max > first_row ? min(block_rows, topk.rows_max - first_row) : 0;
    if (HELD && threadIdx.x == 0) {
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            barrier_init(&shared.arrived[piece]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    shared.bins[threadIdx.x] = shared.bins[THREADS + threadIdx.x] = 0;
    shared.middle_bins[threadIdx.x] = 0;
    /* So far while the kernel before, the scan, may still be at work. */
    asm volatile("griddepcontrol.wait;" ::: "memory");

    /* Scores are asked for before it is known how many there are: rows up to rows_max may be
     * read, and those that the query does not see are left out afterwards. */
    if (HELD && threadIdx.x == 0)
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            copy(shared.keys + piece * THREADS, stretch.scores + piece * PIECE,
                 (min(PIECE, held_rows - piece * PIECE) + 3) / 4 * 16, &shared.arrived[piece]);
    struct kvt_gpu_query query = topk.queries[index];
    uint32_t row_count =
        min(select_visible_rows(topk.requests[query.request], query, topk.ratio), topk.rows_max);
    stretch.count = row_count > first_row ? min(block_rows, row_count - first_row) : 0;
    __syncthreads();

    uint32_t wanted = topk.k, lowest = 0, above_lower = 0;
    uint32_t threshold = 0;            /* rows above it are in, */
    uint32_t ties = 0, ties_lower = 0; /* and so many at it; in blocks of lower rank */
#pragma unroll
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        const uint32_t shift = digit == 0 ? 21 : digit == 1 ? 11 : 0;
        uint32_t *const bins = digit == 1 ? shared.middle_bins : shared.bins;
        const uint32_t bins_at = address_of(bins);
        if (digit == 0) {
            for (uint32_t i = 0; i * THREADS < vectors; i++) {
                const uint32_t vector = i * THREADS + threadIdx.x;
                if (vector >= vectors)
                    break;
                uint4 keys = {0, 0, 0, 0};
                if (HELD && i * PIECE < held_rows) /* also where the query sees none of it */
                    barrier_wait(&shared.arrived[i]);
                if (4 * vector < stretch.count) {
                    keys = HELD ? keys_of(load_words(stretch.keys + 16 * vector),
                                          stretch.count - 4 * vector)
                                : stretch.four_keys(vector);
                    count_key(keys.x - 1, ~0u - 1, keys.x >> shift, bins_at);
                    count_key(keys.y - 1, ~0u - 1, keys.y >> shift, bins_at);
                    count_key(keys.z - 1, ~0u - 1, keys.z >> shift, bins_at);
                    count_key(keys.w - 1, ~0u - 1, keys.w >> shift, bins_at);
                }
                if (HELD)
                    store_words(stretch.keys + 16 * vector, keys);
            }
        } else {
            if (digit == 2) { /* nobody reads the first digit's any more */
                bins[threadIdx.x] = bins[THREADS + threadIdx.x] = 0;
                __syncthreads();
            }
            const uint32_t last = (1u << (digit == 1 ? 21 : 11)) - 1;
#pragma unroll 4
            for (uint32_t i = 0; i * THREADS < vectors; i++) {
                const uint32_t vector = i * THREADS + threadIdx.x;
                if (vector >= vectors)
                    break;
                const uint4 keys = stretch.four_keys(vector);
                count_key(keys.x - lowest, last, keys.x - lowest >> shift, bins_at);
                count_key(keys.y - lowest, last, keys.y - lowest >> shift, bins_at);
                count_key(keys.z - lowest, last, keys.z - lowest >> shift, bins_at);
                count_key(keys.w - lowest, last, keys.w - lowest >> shift, bins_at);
            }
        }
        __syncthreads();
        if (digit == 1)
            add_from_top<1024>(bins, shared.sums);
        else
            add_from_top<2048>(bins, shared.sums);
        cluster_arrive();
        cluster_wait();
        if (warp == 0) {
            struct place place = digit == 1 ? find_place<BLOCKS, 1024>(bins_at, wanted)
                                            : find_place<BLOCKS, 2048>(bins_at, wanted);
            if (lane == 0)
                shared.place = place;
        }
        __syncthreads();
        const struct place place = shared.place;
        if (place.here == 0) { /* at the first digit: fewer rows than k */
            for (uint32_t other = 0; other < rank; other++) {
                uint32_t word[1];
                load_from_block(word, bins_at, other);
                above_lower += word[0];
            }
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
        if (digit == DIGITS - 1) {
            threshold = lowest;
            ties = wanted;
            ties_lower = place.here_lower;
        }
    }
    /* The others' counts are not read any more; ours may be until everybody has come here. */
    cluster_arrive();

    /* In rounds of 32 steps of THREADS rows. A warp has a stretch of the round's rows, and each
     * lane of it the bits of one step. */
    int32_t *rows = topk.rows + (size_t)index * topk.k;
    uint32_t above = above_lower, at = ties_lower;
    for (uint32_t round_row = 0; round_row < block_rows; round_row += 32 * THREADS) {
        const uint32_t steps = min(32u, (block_rows - round_row) / THREADS);
        const uint32_t warp_row = round_row + warp * steps * 32;
        uint32_t above_bits = 0, at_bits = 0;
#pragma unroll 8
        for (uint32_t step = 0; step < steps; step++) {
            uint32_t mask =
                __ballot_sync(~0u, stretch.key(warp_row + step * 32 + lane) > threshold);
            above_bits = lane == step ? mask : above_bits;
        }
        if (ties > 0)
#pragma unroll 8
            for (uint32_t step = 0; step < steps; step++) {
                uint32_t mask =
                    __ballot_sync(~0u, stretch.key(warp_row + step * 32 + lane) == threshold);
                at_bits = lane == step ? mask : at_bits;
            }
        uint32_t above_sum = __popc(above_bits), at_sum = __popc(at_bits); /* of lanes so far */
#pragma unroll
        for (uint32_t step = 1; step < 32; step *= 2) {
            uint32_t other_above = __shfl_up_sync(~0u, above_sum, step);
            uint32_t other_at = __shfl_up_sync(~0u, at_sum, step);
            above_sum += lane >= step ? other_above : 0;
            at_sum += lane >= step ? other_at : 0;
        }
        __syncthreads(); /* sums are not read any more */
        if (lane == 31)
            shared.sums[warp] = {above_sum, at_sum};
        __syncthreads();
        uint2 of_warp = shared.sums[lane];
        uint32_t to = above + above_sum - __popc(above_bits) +
                      __reduce_add_sync(~0u, lane < warp ? of_warp.x : 0);
        uint32_t tie =
            at + at_sum - __popc(at_bits) + __reduce_add_sync(~0u, lane < warp ? of_warp.y : 0);
        above += __reduce_add_sync(~0u, of_warp.x);
        at += __reduce_add_sync(~0u, of_warp.y);

        for (uint32_t bits = above_bits | at_bits; bits != 0; bits &= bits - 1) {
            const uint32_t bit = __ffs((int)bits) - 1;
            const bool is_tie = at_bits >> bit & 1;
            if (!is_tie || tie < ties)
                rows[to + min(tie, ties)] = (int32_t)(first_row + warp_row + lane * 32 + bit);
            to += !is_tie;
            tie += is_tie;
        }
    }
    if (rank == BLOCKS - 1)
        for (uint32_t i = above + min(at, ties) + threadIdx.x; i < topk.k; i += THREADS)
            rows[i] = KVT_GPU_NONE;
    cluster_wait();
#else
    __trap();
#endif
}

template <uint32_t BLOCKS, bool HELD>
cudaError_t launch(const struct kvt_gpu_topk *topk, uint32_t block_rows, cudaStream_t stream)
{
    const size_t bytes = sizeof(struct shared) + (HELD ? block_rows * sizeof(uint32_t) : 0);
    cudaError_t error = cudaFuncSetAttribute(
        topk_cluster<BLOCKS, HELD>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {BLOCKS, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(topk->query_count * BLOCKS);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    return cudaLaunchKernelEx(&config, topk_cluster<BLOCKS, HELD>, *topk, block_rows);
}

} // namespace

cudaError_t kvt_gpu_topk_fast(const struct kvt_gpu_topk *topk, cudaStream_t stream)
{
    /* Few queries get more blocks each, many rows too. An H200 of 132 SMs has room for 39
     * clusters of three at a block an SM, but for 31 of four: its SMs come in groups of 14 to
     * 18, and a cluster stays within one. */
    const bool is_wide = topk->query_count <= 16 || topk->rows_max > 4 * ROWS_OF_TWO;
    const uint32_t blocks = is_wide ? 8 : topk->query_count <= 39 ? 3 : 4;
    const uint32_t block_rows =
        (topk->rows_max + blocks * THREADS - 1) / (blocks * THREADS) * THREADS;
    if (block_rows > ROWS_OF_ONE)
        return launch<8, false>(topk, block_rows, stream);
    return blocks == 8   ? launch<8, true>(topk, block_rows, stream)
           : blocks == 3 ? launch<3, true>(topk, block_rows, stream)
                         : launch<4, true>(topk, block_rows, stream);
}
