/* topk_candidates.cuh -- the last steps of top-k, when the k-th best is known to be one of few. */
#ifndef KVT_TOPK_CANDIDATES_CUH
#define KVT_TOPK_CANDIDATES_CUH

#include "topk_rows.cuh"

namespace
{

/* They are searched by SMALL_BITS bits at a time, by so many threads: more would wait longer for
 * each other. */
constexpr uint32_t SMALL_BITS = 7, SMALL_BINS = 1 << SMALL_BITS;
constexpr uint32_t SMALL_DIGITS = 3; /* at most: 21 bits are below the first digit */
constexpr uint32_t CHOOSERS = 512;
constexpr uint32_t CHOOSERS_BARRIER = 1; /* theirs */
/* Of one of them; registers are few where two blocks share an SM. */
template <uint32_t BLOCKS> constexpr uint32_t CANDIDATES_EACH = BLOCKS == 4 ? 2 : 8;

/* Rows of a block that are above the k-th best, and at it; both in half a word. */
__device__ __forceinline__ uint32_t counts_of(uint32_t above, uint32_t at)
{
    return above | at << 16;
}

struct choice {
    uint32_t threshold, ties; /* rows above it are in, and so many at it */
    uint32_t lower;           /* counts of candidates of blocks of lower rank */
};

/* Words of shared memory that the steps need. */
struct candidate_room {
    uint32_t *bins;  /* [SMALL_DIGITS][SMALL_BINS] 0 */
    uint32_t *marks; /* 0; a bit for each row of the block */
    uint32_t *keys;  /* [capacity] the candidates', of all blocks in row order; others write here */
    uint32_t capacity;
};

template <uint32_t BLOCKS>
__device__ __forceinline__ struct candidate_room candidate_room(uint32_t *words, uint32_t count,
                                                                uint32_t rows)
{
    const uint32_t used = SMALL_DIGITS * SMALL_BINS + rows / 32;
    return {words, words + SMALL_DIGITS * SMALL_BINS, words + used,
            count > used ? min(count - used, CANDIDATES_EACH<BLOCKS> * CHOOSERS) : 0};
}

/* Sums over the threads before this one of two counts in a word. */
__device__ __forceinline__ uint32_t sum_before(uint32_t own, uint32_t *warp_sums)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = own;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        warp_sums[warp] = sum;
    __syncthreads();
    return sum - own + __reduce_add_sync(~0u, lane < warp ? warp_sums[lane] : 0);
}

/* Marks the rows whose keys are at least `first`. */
__device__ __forceinline__ void mark_rows(const struct stretch<true> &stretch, uint32_t first,
                                          uint32_t *marks)
{
#pragma unroll 4
    for (uint32_t vector = threadIdx.x; vector < stretch.rows / 4; vector += THREADS) {
        const uint4 keys = stretch.four_keys(vector);
        const uint32_t bits = (keys.x >= first ? 1 : 0) | (keys.y >= first ? 2 : 0) |
                              (keys.z >= first ? 4 : 0) | (keys.w >= first ? 8 : 0);
        if (bits != 0)
            atomicOr(&marks[vector / 8], bits << vector % 8 * 4);
    }
}

/* A thread's 64 rows, in two words of bits. */
struct own_rows {
    uint32_t above[2], at[2];
    uint32_t keys; /* address of the first one's */

    __device__ __forceinline__ uint32_t counts() const
    {
        return counts_of(__popc(above[0]) + __popc(above[1]), __popc(at[0]) + __popc(at[1]));
    }
    /* Of those that were at something: above `threshold`, at it, or none of both. */
    __device__ __forceinline__ void refine(uint32_t threshold)
    {
#pragma unroll
        for (uint32_t word = 0; word < 2; word++) {
            uint32_t left = at[word];
            at[word] = 0;
            for (; left != 0; left &= left - 1) {
                const uint32_t bit = __ffs((int)left) - 1;
                const uint32_t key = load_word(keys + 4 * (32 * word + bit));
                above[word] |= key > threshold ? 1u << bit : 0;
                at[word] |= key == threshold ? 1u << bit : 0;
            }
        }
    }
};

/* The rows that are marked: at something if they are in the bin [first, first + last]. */
__device__ __forceinline__ struct own_rows own_marked_rows(const struct stretch<true> &stretch,
                                                           const uint32_t *marks, uint32_t first,
                                                           uint32_t last)
{
    struct own_rows own = {{0, 0}, {0, 0}, stretch.keys + 256 * threadIdx.x};
    if (64 * threadIdx.x >= stretch.rows)
        return own;
    const uint2 words = ((const uint2 *)marks)[threadIdx.x];
    own.above[0] = words.x;
    own.above[1] = words.y;
#pragma unroll
    for (uint32_t word = 0; word < 2; word++)
        for (uint32_t left = own.above[word]; left != 0; left &= left - 1) {
            const uint32_t bit = __ffs((int)left) - 1;
            const uint32_t key = load_word(own.keys + 4 * (32 * word + bit));
            own.at[word] |= key - first <= last ? 1u << bit : 0;
        }
    own.above[0] &= ~own.at[0];
    own.above[1] &= ~own.at[1];
    return own;
}

/* Where, from the top, the bins' counts reach `wanted`, of which is left what is not above. */
__device__ __forceinline__ uint32_t find_small_bin(const uint32_t *bins, uint32_t *wanted)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint4 own = *(const uint4 *)(bins + 4 * lane);
    const uint32_t total = own.x + own.y + own.z + own.w;
    uint32_t sum = total; /* from this lane's bins up */
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_down_sync(~0u, sum, step);
        sum += lane + step < 32 ? other : 0;
    }
    const uint32_t mask = __ballot_sync(~0u, sum >= *wanted);
    const uint32_t from_1 = sum - own.x, from_2 = from_1 - own.y, from_3 = from_2 - own.z;
    const uint32_t above_3 = from_3 - own.w;
    const uint32_t bin = (from_1 >= *wanted) + (from_2 >= *wanted) + (from_3 >= *wanted);
    const uint32_t above = bin == 3 ? above_3 : bin == 2 ? from_3 : bin == 1 ? from_2 : from_1;
    const int source = mask == 0 ? 0 : 31 - __clz(mask);
    *wanted -= __shfl_sync(~0u, above, source);
    return __shfl_sync(~0u, 4 * lane + bin, source);
}

/* CHOOSERS threads: which of `count` candidates, from `lowest` on in a bin of 2^shift, is the
 * `wanted`-th best; the first `lower_count` are those of blocks of lower rank. */
template <uint32_t EACH>
__device__ __forceinline__ void choose(const struct candidate_room &room, uint32_t count,
                                       uint32_t lower_count, uint32_t lowest, uint32_t shift,
                                       uint32_t wanted, struct choice *choice)
{
    uint32_t distance[EACH]; /* from `lowest`; beyond all of them where there is none */
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t index = i * CHOOSERS + threadIdx.x;
        distance[i] = index < count ? room.keys[index] - lowest : ~0u;
    }
#pragma unroll
    for (uint32_t digit = 0; digit < SMALL_DIGITS; digit++) {
        if (shift == 0)
            break;
        const uint32_t last = (1u << shift) - 1;
        uint32_t *const bins = room.bins + digit * SMALL_BINS;
        shift -= min(shift, SMALL_BITS);
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++)
            count_key(distance[i], last, distance[i] >> shift, address_of(bins));
        named_sync(CHOOSERS_BARRIER, CHOOSERS);
        const uint32_t first = find_small_bin(bins, &wanted) << shift;
        lowest += first;
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++)
            distance[i] -= first; /* below it: a negative number */
    }
    uint32_t lower = 0;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        if (i * CHOOSERS + threadIdx.x < lower_count)
            lower += counts_of((int32_t)distance[i] > 0, distance[i] == 0);
    lower = __reduce_add_sync(~0u, lower);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&choice->lower, lower);
    if (threadIdx.x == 0) {
        choice->threshold = lowest;
        choice->ties = wanted;
    }
}

/* Keys from `lowest` on, in a bin of 2^shift, are candidates, `place`.here of them, of which
 * `wanted` are in. All blocks get all of their keys, each finds the k-th best by itself, and
 * writes its rows. Only for stretches of 64 rows a thread or less. */
template <uint32_t BLOCKS>
__device__ __forceinline__ void
write_from_candidates(int32_t *rows, const struct stretch<true> &stretch, const struct place &place,
                      uint32_t lowest, uint32_t shift, uint32_t wanted, uint32_t above_lower,
                      const struct candidate_room &room, uint32_t *warp_sums, struct choice *choice)
{
    const uint32_t first = first_key(lowest), last = last_distance(lowest, shift);
    for (uint32_t i = threadIdx.x; i < SMALL_DIGITS * SMALL_BINS + stretch.rows / 32; i += THREADS)
        room.bins[i] = 0; /* and marks */
    if (threadIdx.x == 0)
        choice->lower = 0;
    __syncthreads();
    mark_rows(stretch, first, room.marks);
    __syncthreads();
    struct own_rows own = own_marked_rows(stretch, room.marks, first, last);
    const uint32_t own_first = sum_before(own.counts(), warp_sums) >> 16;
    uint32_t to = address_of(room.keys + place.here_lower + own_first);
#pragma unroll
    for (uint32_t word = 0; word < 2; word++)
        for (uint32_t left = own.at[word]; left != 0; left &= left - 1, to += 4) {
            const uint32_t key = load_word(own.keys + 4 * (32 * word + __ffs((int)left) - 1));
#pragma unroll
            for (uint32_t other = 0; other < BLOCKS; other++)
                store_to_block(to, other, key);
        }
    cluster_arrive();
    cluster_wait();
    if (threadIdx.x < CHOOSERS)
        choose<CANDIDATES_EACH<BLOCKS>>(room, place.here, place.here_lower, lowest, shift, wanted,
                                        choice);
    __syncthreads();

    const struct choice chosen = *choice;
    own.refine(chosen.threshold);
    const uint32_t before = sum_before(own.counts(), warp_sums) + chosen.lower;
    uint32_t above = above_lower + (before & 0xffff), tie = before >> 16;
    const uint32_t row = stretch.first_row + 64 * threadIdx.x;
#pragma unroll
    for (uint32_t word = 0; word < 2; word++)
        for (uint32_t left = own.above[word] | own.at[word]; left != 0; left &= left - 1) {
            const uint32_t bit = __ffs((int)left) - 1;
            const bool is_tie = own.at[word] >> bit & 1;
            if (!is_tie || tie < chosen.ties)
                rows[above + min(tie, chosen.ties)] = (int32_t)(row + 32 * word + bit);
            above += !is_tie;
            tie += is_tie;
        }
}

} // namespace

#endif
