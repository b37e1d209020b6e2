/* attend_outputs.cuh -- the outputs' warpgroups: O' over all tiles, and its end. */
#ifndef KVT_ATTEND_OUTPUTS_CUH
#define KVT_ATTEND_OUTPUTS_CUH

#include "attend_tile.cuh"

#include <math.h>

#if HAS_HOPPER
namespace attend_tile
{

using namespace hopper;

/* What this block's outputs are multiplied with, over all splits: 0 where nothing was attended. */
static __device__ __forceinline__ void find_weights(control &control, uint32_t splits,
                                                    float row_scale, uint32_t head)
{
    float2 mine = control.reference_sum[head];
    float reference = mine.x, sum = mine.y;
    if (splits > 1) {
        uint32_t address = address_of(&control.reference_sum[head]);
        float2 pieces[ATTEND_SPLITS_MAX];
#pragma unroll
        for (uint32_t i = 0; i < ATTEND_SPLITS_MAX; i++) {
            pieces[i] =
                i < splits ? cluster_load2(cluster_address(address, i)) : make_float2(0.0f, 0.0f);
        }
        reference = -INFINITY;
        sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < ATTEND_SPLITS_MAX; i++) {
            reference = pieces[i].y > 0 ? fmaxf(reference, pieces[i].x) : reference;
        }
#pragma unroll
        for (uint32_t i = 0; i < ATTEND_SPLITS_MAX; i++) {
            sum += pieces[i].y > 0 ? pieces[i].y * exp2_approx(pieces[i].x - reference) : 0.0f;
        }
    }
    control.weight[head] = mine.y > 0 ? exp2_approx(mine.x - reference) * row_scale / sum : 0.0f;
}

/* Two dims, pair 0 to 3 of a lane's eight, of four rows as register operand of one MMA: pairs of
 * rows. */
static __device__ __forceinline__ void convert_dims(const uint2 (&raw)[4], uint32_t pair,
                                                    uint32_t (&operand)[4])
{
    uint32_t selector = pair % 2 == 0 ? 0x5140 : 0x7362;
    uint32_t low = pair < 2 ? __byte_perm(raw[0].x, raw[1].x, selector)
                            : __byte_perm(raw[0].y, raw[1].y, selector);
    uint32_t high = pair < 2 ? __byte_perm(raw[2].x, raw[3].x, selector)
                             : __byte_perm(raw[2].y, raw[3].y, selector);
    halves_of_e4m3x4(low, operand[0], operand[1]);
    halves_of_e4m3x4(high, operand[2], operand[3]);
}

/* Rows 0 and 1 of a lane, were its strip the first, in shared memory; 2 and 3 are 8 further. */
struct four_rows {
    uint32_t first, second;
};

static __device__ __forceinline__ void load_dims(uint2 (&raw)[4], four_rows rows, uint32_t strip)
{
    uint32_t first = rows.first + strip * STRIP_BYTES;
    uint32_t second = rows.second + strip * STRIP_BYTES;
    raw[0] = load8(first);
    raw[1] = load8(second);
    raw[2] = load8(first + 8 * ROW_STRIDE);
    raw[3] = load8(second + 8 * ROW_STRIDE);
}

/* One of two warpgroups of outputs: O' of 256 dims over all tiles. o[i][4 j + 2 d + h] is dim
 * first_dim + 2 i + d of head 8 j + 2 (lane % 4) + h. */
static __device__ __forceinline__ void run_outputs(float (&o)[4][32], uint8_t *shared,
                                                   control &control, uint32_t tiles,
                                                   uint32_t first_dim, uint32_t lane)
{
    uint32_t strips = address_of(shared) + STRIP_OFFSET + first_dim;
    uint32_t p_operand = operand_of(address_of(shared) + P_OFFSET);
    uint32_t column = 2 * (lane % 4);
    four_rows rows = {strips + row_of(column) * ROW_STRIDE,
                      strips + row_of(column + 1) * ROW_STRIDE};
    ring_place place = {0, 0};

    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t buffer = tile % 2;
        uint2 raw[4];
        uint32_t operand[3][4];
        ring_place each = place; /* they are: S' has been made of them */
#pragma unroll
        for (uint32_t i = 0; i < STRIPS_OF_TILE; i++) {
            barrier_wait(&control.full[each.strip], each.parity);
            advance(each, 1);
        }
        load_dims(raw, rows, place.strip);
        mma_wait<0>();
        if (tile > 0 && tile + 1 < tiles) {
            named_arrive(P_EMPTY_BARRIER + (buffer ^ 1), 3 * GROUP);
        }
        named_sync(P_FULL_BARRIER + buffer, 3 * GROUP);
        if (control.rescaled[buffer] != 0) {
#pragma unroll
            for (uint32_t j = 0; j < 8; j++) {
                float2 alpha =
                    *reinterpret_cast<const float2 *>(&control.alpha[buffer][8 * j + column]);
#pragma unroll
                for (uint32_t i = 0; i < 4; i++) {
                    o[i][4 * j] *= alpha.x;
                    o[i][4 * j + 1] *= alpha.y;
                    o[i][4 * j + 2] *= alpha.x;
                    o[i][4 * j + 3] *= alpha.y;
                }
            }
        }
#pragma unroll
        for (uint32_t unit = 0; unit < TILE_ROWS / 4; unit++) {
            uint32_t step = unit / 4, pair = unit % 4;
            convert_dims(raw, pair, operand[unit % 3]);
            if (pair == 3) {
                warp_arrive(&control.empty[place.strip]);
                advance(place, 1);
            }
            if (pair == 3 && step + 1 < TILE_ROWS / 16) {
                load_dims(raw, rows, place.strip);
            }
            mma_wait<1>();
            mma_fence();
            mma_64x64x16<1>(o[pair], operand[unit % 3],
                            p_operand + (buffer * P_BYTES + step * 16 * 128) / 16, 1);
            mma_commit();
        }
    }
    mma_wait<0>();
}

/* Outputs in units of four dims: 128 of each head, swizzled within a head so that what a warp
 * stores at once lies in different banks. With splits each block sums a run of them. */
constexpr uint32_t UNITS_OF_HEAD = KVT_GPU_LATENT / 4;
constexpr uint32_t UNITS = HEADS * UNITS_OF_HEAD;

static __device__ __forceinline__ uint32_t unit_swizzle(uint32_t head)
{
    return (head / 2 % 2) << 2 | (head / 4 % 2);
}

/* Ends a warpgroup of outputs: without splits to global memory, else to shared memory. */
static __device__ __forceinline__ void write_outputs(const struct kvt_gpu_attend &attend,
                                                     const float (&o)[4][32], uint8_t *shared,
                                                     const control &control, uint64_t first_head,
                                                     uint32_t splits, uint32_t first_dim,
                                                     uint32_t lane)
{
    uint32_t column = 2 * (lane % 4);
    const float *weights = control.weight + column;
    uint64_t at = (first_head + column) * KVT_GPU_LATENT + first_dim;
    uint8_t *out = static_cast<uint8_t *>(attend.out) + at * (attend.out_is_float ? 4 : 2);
    uint32_t row = address_of(shared) + column * (KVT_GPU_LATENT * 4);
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t head = 8 * j + h; /* beyond `column` */
            float weight = weights[head];
            float x[8];
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                x[i] = o[i / 2][4 * j + 2 * (i % 2) + h] * weight;
            }
            if (splits > 1) {
                uint32_t swizzled = first_dim / 4 ^ unit_swizzle(column + head);
                uint32_t to = row + head * (KVT_GPU_LATENT * 4);
                store16(to + swizzled * 16, x[0], x[1], x[2], x[3]);
                store16(to + (swizzled ^ 1) * 16, x[4], x[5], x[6], x[7]);
            } else if (attend.out_is_float) {
                float4 *to = reinterpret_cast<float4 *>(out + head * (KVT_GPU_LATENT * 4));
                to[0] = make_float4(x[0], x[1], x[2], x[3]);
                to[1] = make_float4(x[4], x[5], x[6], x[7]);
            } else {
                *reinterpret_cast<uint4 *>(out + head * (KVT_GPU_LATENT * 2)) =
                    make_uint4(bfloat2_of_floats(x[0], x[1]), bfloat2_of_floats(x[2], x[3]),
                               bfloat2_of_floats(x[4], x[5]), bfloat2_of_floats(x[6], x[7]));
            }
            asm volatile("" ::: "memory"); /* one after the other: registers are few */
        }
    }
}

/* This block's units of the 64 heads' outputs, summed in the order of splits. */
static __device__ __forceinline__ void sum_splits(const struct kvt_gpu_attend &attend,
                                                  const uint8_t *shared, uint64_t first_head,
                                                  uint32_t split, uint32_t splits, uint32_t thread,
                                                  uint32_t threads)
{
    uint32_t begin = UNITS * split / splits, end = UNITS * (split + 1) / splits;
    uint32_t base = address_of(shared);
    for (uint32_t unit = begin + thread; unit < end; unit += threads) {
        float4 pieces[ATTEND_SPLITS_MAX];
#pragma unroll
        for (uint32_t i = 0; i < ATTEND_SPLITS_MAX; i++) {
            if (i < splits) {
                pieces[i] = cluster_load4(cluster_address(base + unit * 16, i));
            }
        }
        float4 sum = pieces[0];
#pragma unroll
        for (uint32_t i = 1; i < ATTEND_SPLITS_MAX; i++) {
            if (i < splits) {
                sum.x += pieces[i].x;
                sum.y += pieces[i].y;
                sum.z += pieces[i].z;
                sum.w += pieces[i].w;
            }
        }
        uint32_t head = unit / UNITS_OF_HEAD;
        uint32_t dim = (unit % UNITS_OF_HEAD ^ unit_swizzle(head)) * 4;
        uint64_t at = (first_head + head) * KVT_GPU_LATENT + dim;
        if (attend.out_is_float) {
            *reinterpret_cast<float4 *>(static_cast<float *>(attend.out) + at) = sum;
        } else {
            *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(attend.out) + at) =
                make_uint2(bfloat2_of_floats(sum.x, sum.y), bfloat2_of_floats(sum.z, sum.w));
        }
    }
}

} // namespace attend_tile
#endif

#endif
