/* topk_rows.cuh -- the rows of one block of a cluster, and how those that are in are written. */
#ifndef KVT_TOPK_ROWS_CUH
#define KVT_TOPK_ROWS_CUH

#include "select.cuh"
#include "topk_cluster.cuh"

namespace
{

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

/* Of a bin of 2^bits keys from `lowest` on: the first that is a row's, and how far the last is
 * from it. */
__device__ __forceinline__ uint32_t first_key(uint32_t lowest)
{
    return max(lowest, 1u);
}

__device__ __forceinline__ uint32_t last_distance(uint32_t lowest, uint32_t bits)
{
    return lowest + ((1u << bits) - 1) - first_key(lowest);
}

/* The rows of one block: keys in shared memory, or, where they are too many for it, scores that
 * are read again each time. */
template <bool HELD> struct stretch {
    const float *scores;
    uint32_t keys;      /* address */
    uint32_t first_row; /* of the query's */
    uint32_t rows;      /* a multiple of THREADS */
    uint32_t count;     /* of rows that the query sees; behind them keys are 0 */

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

/* Rows are written in rounds of up to 64 steps of THREADS rows. A warp has a stretch of the round,
 * and each lane of it the bits of two of its steps, `lane` and 32 + `lane`. */
constexpr uint32_t ROUND_STEPS = 64;

struct round_bits {
    uint32_t above[2], at[2]; /* rows above the threshold, and rows at it */
};

/* Rows of the block before the lane's, of each kind. */
struct round_places {
    uint32_t above[2], at[2];
};

/* The first barrier of the block in it is behind the writes to sums[] alone. */
__device__ __forceinline__ struct round_places places_of(const struct round_bits &bits, uint2 *sums,
                                                         uint2 *total)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    /* Of the first step in the lower half of a word, of the second in the upper. */
    const uint32_t own_above = __popc(bits.above[0]) | __popc(bits.above[1]) << 16;
    const uint32_t own_at = __popc(bits.at[0]) | __popc(bits.at[1]) << 16;
    uint32_t above = own_above, at = own_at;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other_above = __shfl_up_sync(~0u, above, step);
        uint32_t other_at = __shfl_up_sync(~0u, at, step);
        above += lane >= step ? other_above : 0;
        at += lane >= step ? other_at : 0;
    }
    const uint32_t above_warp = __shfl_sync(~0u, above, 31), at_warp = __shfl_sync(~0u, at, 31);
    if (lane == 0)
        sums[warp] = {(above_warp & 0xffff) + (above_warp >> 16),
                      (at_warp & 0xffff) + (at_warp >> 16)};
    __syncthreads();
    const uint2 of_warp = sums[lane];
    const uint32_t above_before = __reduce_add_sync(~0u, lane < warp ? of_warp.x : 0);
    const uint32_t at_before = __reduce_add_sync(~0u, lane < warp ? of_warp.y : 0);
    *total = {__reduce_add_sync(~0u, of_warp.x), __reduce_add_sync(~0u, of_warp.y)};
    above -= own_above;
    at -= own_at;
    return {{above_before + (above & 0xffff), above_before + (above_warp & 0xffff) + (above >> 16)},
            {at_before + (at & 0xffff), at_before + (at_warp & 0xffff) + (at >> 16)}};
}

/* What is in: all rows above a key, and the first `ties` at it; and how many of them the blocks
 * of lower rank have. */
struct verdict {
    uint32_t threshold, ties;
    uint32_t above_lower, ties_lower;
};

/* rows[] is the query's answer, `row` the lane's first row. */
__device__ __forceinline__ void write_round(int32_t *rows, const struct round_bits &bits,
                                            const struct round_places &places,
                                            const struct verdict &verdict, uint32_t row)
{
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t to = verdict.above_lower + places.above[half];
        uint32_t tie = verdict.ties_lower + places.at[half];
        for (uint32_t left = bits.above[half] | bits.at[half]; left != 0; left &= left - 1) {
            const uint32_t bit = __ffs((int)left) - 1;
            const bool is_tie = bits.at[half] >> bit & 1;
            if (!is_tie || tie < verdict.ties)
                rows[to + min(tie, verdict.ties)] = (int32_t)(row + half * 32 * 32 + bit);
            to += !is_tie;
            tie += is_tie;
        }
    }
}

/* Writes the block's rows, when the verdict is known; returns the next block's. */
template <bool HELD>
__device__ struct verdict write_rows(int32_t *rows, const struct stretch<HELD> &stretch,
                                     struct verdict verdict, uint2 *sums)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (uint32_t round_row = 0; round_row < stretch.rows; round_row += ROUND_STEPS * THREADS) {
        const uint32_t steps = min(ROUND_STEPS, (stretch.rows - round_row) / THREADS);
        const uint32_t warp_row = round_row + warp * steps * 32;
        struct round_bits bits = {{0, 0}, {0, 0}};
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t half_steps = min(32u, steps > 32 * half ? steps - 32 * half : 0);
#pragma unroll 8
            for (uint32_t step = 0; step < half_steps; step++) {
                const uint32_t key = stretch.key(warp_row + (32 * half + step) * 32 + lane);
                uint32_t mask = __ballot_sync(~0u, key > verdict.threshold);
                bits.above[half] = lane == step ? mask : bits.above[half];
                if (verdict.ties > 0) {
                    mask = __ballot_sync(~0u, key == verdict.threshold);
                    bits.at[half] = lane == step ? mask : bits.at[half];
                }
            }
        }
        uint2 total;
        __syncthreads(); /* sums are not read any more */
        const struct round_places places = places_of(bits, sums, &total);
        write_round(rows, bits, places, verdict, stretch.first_row + warp_row + lane * 32);
        verdict.above_lower += total.x;
        verdict.ties_lower += total.y;
    }
    return verdict;
}

} // namespace

#endif
