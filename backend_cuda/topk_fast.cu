/* topk_fast.cu -- the k best rows of each query: a radix select by a cluster of blocks. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#pragma nv_diag_suppress 177 /* without clusters the kernel is empty, and all else unused */
#endif

#include "topk_candidates.cuh"

namespace
{

constexpr uint32_t PIECE = 4 * THREADS; /* rows of one copy: 16 bytes a thread */
constexpr uint32_t PIECES_MAX = 12;
constexpr uint32_t ROWS_OF_TWO = 25 * 1024; /* so many each, and two blocks share an SM */
constexpr uint32_t ROWS_OF_ONE = 47 * 1024;

/* A key's bits from the top, in three digits of 11, 10 and 11 bits. */
constexpr uint32_t DIGITS = 3;

/* Words beside the counts, for candidates behind the first digit. Two blocks that share an SM have
 * none; behind the second digit they have bins[]. */
constexpr uint32_t ROOM = 6 * 1024;

template <uint32_t BLOCKS> struct topk_shared {
    uint32_t bins[2048]; /* of the first and the last digit; the whole cluster reads them */
    uint32_t middle_bins[1024];
    uint32_t room[BLOCKS == 4 ? 4 : ROOM];
    uint2 sums[WARPS];
    struct place place;
    struct choice choice;
    uint64_t arrived[PIECES_MAX]; /* copies */
    uint4 keys[];                 /* scores, until the first pass */
};

/* Keys of the copied scores, 0 where there is no row, and their counts by the first digit. */
template <bool HELD>
__device__ __forceinline__ void count_first(const struct stretch<HELD> &stretch, uint32_t held_rows,
                                            uint32_t shift, uint32_t bins, uint64_t *arrived)
{
    for (uint32_t i = 0; i < stretch.rows / PIECE + 1; i++) {
        const uint32_t vector = i * THREADS + threadIdx.x;
        if (4 * vector >= stretch.rows)
            break;
        uint4 keys = {0, 0, 0, 0};
        if (HELD && i * PIECE < held_rows) /* also where the query sees none of it */
            barrier_wait(&arrived[i], 0);
        if (4 * vector < stretch.count) {
            keys = HELD
                       ? keys_of(load_words(stretch.keys + 16 * vector), stretch.count - 4 * vector)
                       : stretch.four_keys(vector);
            count_key(keys.x - 1, ~0u - 1, keys.x >> shift, bins);
            count_key(keys.y - 1, ~0u - 1, keys.y >> shift, bins);
            count_key(keys.z - 1, ~0u - 1, keys.z >> shift, bins);
            count_key(keys.w - 1, ~0u - 1, keys.w >> shift, bins);
        }
        if (HELD)
            store_words(stretch.keys + 16 * vector, keys);
    }
}

/* Counts the keys in a bin of 2^bits from `lowest` on, by those of the bits from `shift` on. */
template <bool HELD>
__device__ __forceinline__ void count_next(const struct stretch<HELD> &stretch, uint32_t lowest,
                                           uint32_t bits, uint32_t shift, uint32_t bins)
{
    const uint32_t first = first_key(lowest), last = last_distance(lowest, bits);
#pragma unroll 4
    for (uint32_t vector = threadIdx.x; vector < stretch.rows / 4; vector += THREADS) {
        const uint4 keys = stretch.four_keys(vector);
        count_key(keys.x - first, last, keys.x - lowest >> shift, bins);
        count_key(keys.y - first, last, keys.y - lowest >> shift, bins);
        count_key(keys.z - first, last, keys.z - lowest >> shift, bins);
        count_key(keys.w - first, last, keys.w - lowest >> shift, bins);
    }
}

/* Where the k-th best's digit is, from counts of it that every block of the cluster has made. */
template <uint32_t BLOCKS, uint32_t BINS>
__device__ __forceinline__ struct place agree_on_place(uint32_t *bins, uint32_t wanted,
                                                       struct topk_shared<BLOCKS> &shared)
{
    __syncthreads();
    add_from_top<BINS>(bins, shared.sums);
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x < 32) {
        struct place place = find_place<BLOCKS, BINS>(address_of(bins), wanted);
        if (threadIdx.x == 0)
            shared.place = place;
    }
    __syncthreads();
    return shared.place;
}

/* Rows of the blocks of lower rank, from their counts of all bins. */
__device__ __forceinline__ uint32_t rows_of_lower_blocks(uint32_t bins)
{
    uint32_t sum = 0, word[1];
    for (uint32_t other = 0; other < cluster_rank(); other++) {
        load_from_block(word, bins, other);
        sum += word[0];
    }
    return sum;
}

/* One cluster a query, one block a stretch of its rows:
 *
 *     for each digit of the key, from the top:
 *         count, in the block, the rows whose digits so far are the k-th best's, by this digit
 *         add the counts up from the top
 *         the k-th best's digit is where the sum over the blocks reaches what is still wanted
 *         few rows have it: every block gets their keys, and finds the k-th best by itself
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
__global__ void __launch_bounds__(THREADS, BLOCKS == 4 ? 2 : 1)
    topk_cluster(const __grid_constant__ struct kvt_gpu_topk topk, uint32_t block_rows)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(16) uint8_t dynamic[];
    auto &shared = *(struct topk_shared<BLOCKS> *)dynamic;
    const uint32_t index = blockIdx.x / BLOCKS, first_row = cluster_rank() * block_rows;
    struct stretch<HELD> stretch = {
        topk.scores + (size_t)index *topk.score_stride + first_row,
            address_of(shared.keys), first_row, block_rows, 0
    };
    const uint32_t held_rows =
        topk.rows_max > first_row ? min(block_rows, topk.rows_max - first_row) : 0;
    if (HELD && threadIdx.x == 0) {
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++)
            barrier_init(&shared.arrived[piece], 1);
        barriers_are_ready();
    }
    shared.bins[threadIdx.x] = shared.bins[THREADS + threadIdx.x] = 0;
    shared.middle_bins[threadIdx.x] = 0;
    const struct kvt_gpu_query query = topk.queries[index];
    const uint32_t row_count =
        min(select_visible_rows(topk.requests[query.request], query, topk.ratio), topk.rows_max);
    stretch.count = row_count > first_row ? min(block_rows, row_count - first_row) : 0;
    named_barriers_begin<CHOOSERS>();
    kernel_wait(); /* so far while the kernel before, the scan, may still be at work */

    if (HELD && threadIdx.x == 0)
        for (uint32_t piece = 0; piece * PIECE < held_rows; piece++) {
            const uint32_t bytes = (min(PIECE, held_rows - piece * PIECE) + 3) / 4 * 16;
            barrier_arrive_expecting(&shared.arrived[piece], bytes);
            bulk_copy(shared.keys + piece * THREADS, stretch.scores + piece * PIECE, bytes,
                      &shared.arrived[piece]);
        }
    __syncthreads();

    int32_t *rows = topk.rows + (size_t)index * topk.k;
    uint32_t wanted = topk.k, lowest = 0;
    struct verdict verdict = {0, 0, 0, 0};
#pragma unroll
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        const uint32_t shift = digit == 0 ? 21 : digit == 1 ? 11 : 0;
        struct place place;
        if (digit == 0) {
            count_first<HELD>(stretch, held_rows, shift, address_of(shared.bins), shared.arrived);
            place = agree_on_place<BLOCKS, 2048>(shared.bins, wanted, shared);
        } else if (digit == 1) {
            count_next<HELD>(stretch, lowest, 21, shift, address_of(shared.middle_bins));
            place = agree_on_place<BLOCKS, 1024>(shared.middle_bins, wanted, shared);
        } else { /* nobody reads the first digit's any more */
            shared.bins[threadIdx.x] = shared.bins[THREADS + threadIdx.x] = 0;
            __syncthreads();
            count_next<HELD>(stretch, lowest, 11, shift, address_of(shared.bins));
            place = agree_on_place<BLOCKS, 2048>(shared.bins, wanted, shared);
        }
        if (place.here == 0) { /* at the first digit: fewer rows than k, all of them are in */
            verdict.above_lower = rows_of_lower_blocks(address_of(shared.bins));
            break;
        }
        wanted -= place.above;
        lowest += place.bin << shift;
        verdict.above_lower += place.above_lower;
        if (place.here == wanted) { /* all of them, whatever their lower digits */
            verdict.above_lower += place.here_lower;
            verdict.threshold = lowest - 1;
            break;
        }
        if (digit == DIGITS - 1) {
            verdict.threshold = lowest;
            verdict.ties = wanted;
            verdict.ties_lower = place.here_lower;
        } else if constexpr (HELD) {
            /* The others look at bins[] no more, behind the second digit. */
            const struct candidate_room room =
                BLOCKS == 4
                    ? candidate_room<BLOCKS>(shared.bins, digit == 1 ? 2048 : 0, stretch.rows)
                    : candidate_room<BLOCKS>(shared.room, ROOM, stretch.rows);
            if (place.here <= room.capacity) {
                write_from_candidates<BLOCKS>(rows, stretch, place, lowest, shift, wanted,
                                              verdict.above_lower, room, &shared.sums[0].x,
                                              &shared.choice);
                return;
            }
        }
    }
    /* The others' counts are not read any more; ours may be until everybody has come here. */
    cluster_arrive();
    verdict = write_rows<HELD>(rows, stretch, verdict, shared.sums);
    if (cluster_rank() == BLOCKS - 1)
        for (uint32_t i = verdict.above_lower + min(verdict.ties_lower, verdict.ties) + threadIdx.x;
             i < topk.k; i += THREADS)
            rows[i] = KVT_GPU_NONE;
    cluster_wait();
#else
    __trap();
#endif
}

uint32_t rows_of_block(uint32_t rows, uint32_t blocks)
{
    return (rows + blocks * THREADS - 1) / (blocks * THREADS) * THREADS;
}

template <uint32_t BLOCKS, bool HELD>
cudaError_t launch(const struct kvt_gpu_topk *topk, uint32_t block_rows, cudaStream_t stream)
{
    const size_t bytes =
        sizeof(struct topk_shared<BLOCKS>) + (HELD ? block_rows * sizeof(uint32_t) : 0);
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
    const uint32_t block_rows = rows_of_block(topk->rows_max, blocks);
    if (block_rows > ROWS_OF_ONE)
        return launch<8, false>(topk, block_rows, stream);
    return blocks == 8   ? launch<8, true>(topk, block_rows, stream)
           : blocks == 3 ? launch<3, true>(topk, block_rows, stream)
                         : launch<4, true>(topk, block_rows, stream);
}
