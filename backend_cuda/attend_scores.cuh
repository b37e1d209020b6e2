/* attend_scores.cuh -- the scores' warpgroup: S', softmax and P' of every tile. */
#ifndef KVT_ATTEND_SCORES_CUH
#define KVT_ATTEND_SCORES_CUH

#include "attend_tile.cuh"

#include <math.h>

#if HAS_HOPPER
namespace attend_tile
{

using namespace hopper;

/* How far, in powers of two, a score may pass the reference before the reference moves. */
constexpr float PASSES_BY = 8.0f;

/* The softmax of a tile is cut into pieces, one between MMAs; the unit of MMAs behind which the
 * first one stands. */
constexpr uint32_t SOFTMAX_PIECES = 10, SOFTMAX_UNIT = 1;

/* Eight columns of two rows, a lane's four of each of two MMA steps, as register operands. */
static __device__ __forceinline__ void convert_columns(const uint4 (&raw)[2], uint32_t half,
                                                       uint32_t (&operand)[8])
{
    const uint32_t low[2] = {half == 0 ? raw[0].x : raw[0].z, half == 0 ? raw[0].y : raw[0].w};
    const uint32_t high[2] = {half == 0 ? raw[1].x : raw[1].z, half == 0 ? raw[1].y : raw[1].w};
#pragma unroll
    for (uint32_t step = 0; step < 2; step++) {
        halves_of_e4m3x4(low[step], operand[4 * step], operand[4 * step + 2]);
        halves_of_e4m3x4(high[step], operand[4 * step + 1], operand[4 * step + 3]);
    }
}

static __device__ __forceinline__ void load_columns(uint4 (&raw)[2], uint32_t row_address,
                                                    uint32_t block)
{
    raw[0] = load_words(row_address + block * 64);
    raw[1] = load_words(row_address + block * 64 + 8 * ROW_STRIDE);
}

/* What a lane of the scores' warpgroup keeps from tile to tile. */
struct scores_lane {
    uint32_t rows;  /* its rows, were its strip the first, in shared memory */
    uint32_t p_row; /* its row of stored P' */
    uint32_t q_operand;
    uint32_t thread, column;
    float l[16];
};

/* Rows from `valid` on count for nothing. */
static __device__ __forceinline__ void leave_out(float (&s)[32], uint32_t first_row, uint32_t valid)
{
    asm volatile(""); /* a branch, rather than 32 selections in every tile */
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) {
        s[i] = first_row + i / 2 % 2 * 8 < valid ? s[i] : -INFINITY;
    }
}

/* The reference of every head becomes the maximum so far; x, alpha and l follow. */
static __device__ __forceinline__ void move_reference(float (&x)[32], float (&l)[16],
                                                      control &control, bool is_first,
                                                      uint32_t buffer, uint32_t thread)
{
    uint32_t lane = thread % 32, column = 2 * (lane % 4);
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        float largest = fmaxf(x[i / 2 * 4 + i % 2], x[i / 2 * 4 + 2 + i % 2]);
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 4));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 8));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 16));
        if (lane < 4) {
            control.partial[thread / 32][8 * (i / 2) + column + i % 2] = largest;
        }
        asm volatile("" ::: "memory"); /* one after the other: registers are few */
    }
    named_sync(SCORES_BARRIER, GROUP);
    if (thread < HEADS) {
        float moves_by = fmaxf(fmaxf(control.partial[0][thread], control.partial[1][thread]),
                               fmaxf(control.partial[2][thread], control.partial[3][thread]));
        moves_by = is_first ? moves_by : fmaxf(moves_by, 0.0f);
        control.head[thread].y += moves_by;
        control.moves_by[thread] = moves_by;
        control.alpha[buffer][thread] = is_first ? 1.0f : exp2_approx(-moves_by);
    }
    named_sync(SCORES_BARRIER, GROUP);
#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t head = 8 * (i / 2) + column + i % 2;
        l[i] *= control.alpha[buffer][head];
        x[i / 2 * 4 + i % 2] -= control.moves_by[head];
        x[i / 2 * 4 + 2 + i % 2] -= control.moves_by[head];
        asm volatile("" ::: "memory");
    }
}

/* x of a tile from its scores. */
static __device__ __forceinline__ void scale_scores(float (&x)[32], const float (&s)[32],
                                                    const control &control, uint32_t column)
{
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
        float4 head = *reinterpret_cast<const float4 *>(&control.head[8 * j + column]);
        x[4 * j] = fmaf(s[4 * j], head.x, -head.y);
        x[4 * j + 1] = fmaf(s[4 * j + 1], head.z, -head.w);
        x[4 * j + 2] = fmaf(s[4 * j + 2], head.x, -head.y);
        x[4 * j + 3] = fmaf(s[4 * j + 3], head.z, -head.w);
    }
}

/* A piece, 0 to SOFTMAX_PIECES - 1, of the softmax of a tile: from x to P'. */
static __device__ __forceinline__ void softmax_piece(uint32_t piece, float (&x)[32],
                                                     uint32_t (&p)[2][4], scores_lane &my,
                                                     control &control, uint32_t tile)
{
    uint32_t buffer = tile % 2, lane = my.thread % 32;
    if (piece == 0) {
        float passed = -INFINITY;
#pragma unroll
        for (uint32_t j = 0; j < 32; j += 2) {
            passed = fmaxf(passed, fmaxf(x[j], x[j + 1]));
        }
        bool moves = named_any(SCORES_BARRIER, GROUP, passed > PASSES_BY) || tile == 0;
        if (moves) {
            move_reference(x, my.l, control, tile == 0, buffer, my.thread);
        }
        if (my.thread == 0) {
            control.rescaled[buffer] = moves && tile > 0;
        }
    } else if (piece < 9) {
        uint32_t j = piece - 1;
        float p00 = exp2_approx(x[4 * j]);
        float p01 = exp2_approx(x[4 * j + 1]);
        float p10 = exp2_approx(x[4 * j + 2]);
        float p11 = exp2_approx(x[4 * j + 3]);
        my.l[2 * j] += p00 + p10;
        my.l[2 * j + 1] += p01 + p11;
        p[0][j % 4] = half2_of_floats(p00, p01);
        p[1][j % 4] = half2_of_floats(p10, p11);
        if (j % 4 == 3) {
            uint32_t at = my.p_row + buffer * P_BYTES + ((j - 3 + lane / 8) ^ (lane % 8)) * 16;
            store_matrices(at, p[0]);
            store_matrices(at + 8 * 128, p[1]);
        }
    } else {
        async_proxy_fence();
        named_arrive(P_FULL_BARRIER + buffer, 3 * GROUP);
    }
}

/* Piece 0 writes alpha and `rescaled`, the others P': the buffer must be free. */
static __device__ __forceinline__ void wait_for_buffer(uint32_t tile)
{
    if (tile >= 2) {
        named_sync(P_EMPTY_BARRIER + tile % 2, 3 * GROUP);
    }
}

/* s = K Q' of one tile, whose first operand is in the ring, blocks 0 and 1 in raw; returns before
 * the last two MMAs are complete. Operands go through a ring of three, two MMA steps each: while
 * two are being multiplied the one after them is converted. Between MMAs goes the softmax of the
 * tile before. */
template <bool has_softmax>
static __device__ __forceinline__ void
multiply_scores(float (&s)[32], uint4 (&raw)[2][2], uint32_t (&operand)[3][8], uint32_t rows,
                float (&x)[32], scores_lane &my, control &control, uint32_t tile)
{
    constexpr uint32_t UNITS = BLOCKS_OF_Q * 2;
    uint32_t p[2][4];
    uint32_t q_operand = my.q_operand;
    asm volatile("" : "+r"(q_operand)); /* not 36 registers, for every step one */
#pragma unroll
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        if (unit > 0) {
            mma_wait<1>();
        }
        mma_fence();
#pragma unroll
        for (uint32_t step = 0; step < 2; step++) {
            mma_64x64x16<0>(s, &operand[unit % 3][4 * step],
                            q_operand + (unit / 2 * HEADS * 128 + unit % 2 * 64 + step * 32) / 16,
                            unit + step > 0);
        }
        mma_commit();
        if (has_softmax && unit == SOFTMAX_UNIT) {
            wait_for_buffer(tile - 1);
        }
        if (has_softmax && unit >= SOFTMAX_UNIT && unit - SOFTMAX_UNIT < SOFTMAX_PIECES) {
            softmax_piece(unit - SOFTMAX_UNIT, x, p, my, control, tile - 1);
        }
        if (unit + 1 < UNITS) {
            convert_columns(raw[(unit + 1) / 2 % 2], (unit + 1) % 2, operand[(unit + 1) % 3]);
            if (unit % 2 == 0 && unit / 2 + 2 < BLOCKS_OF_Q) {
                load_columns(raw[unit / 2 % 2], rows, unit / 2 + 2);
            }
        }
    }
}

/* The scores' warpgroup: every tile's S', softmax and P'. Scores of a tile are multiplied while
 * the softmax of the one before is done, so that tensor cores have work meanwhile. */
static __device__ __forceinline__ void run_scores(uint8_t *shared, control &control, uint32_t tiles,
                                                  uint32_t rows, uint32_t thread)
{
    uint32_t warp = thread / 32, lane = thread % 32, column = 2 * (lane % 4);
    uint32_t first_row = 16 * warp + row_of(lane / 4);
    scores_lane my = {};
    my.rows = address_of(shared) + STRIP_OFFSET + row_of(lane / 4) * ROW_STRIDE + lane % 4 * 16;
    my.p_row = address_of(shared) + P_OFFSET + (16 * warp + lane % 8) * 128;
    my.q_operand = operand_of(address_of(shared) + Q_OFFSET);
    my.thread = thread;
    my.column = column;
    float(&l)[16] = my.l;

    if (tiles > 0) {
        ring_place place = {warp, 0};
        float s[32], x[32];
        uint4 raw[2][2];
        uint32_t operand[3][8], p[2][4];
        uint32_t strip = my.rows + place.strip * STRIP_BYTES;
        barrier_wait(&control.full[place.strip], place.parity);
        load_columns(raw[0], strip, 0);
        load_columns(raw[1], strip, 1);
        convert_columns(raw[0], 0, operand[0]);
        multiply_scores<false>(s, raw, operand, strip, x, my, control, 0);
        for (uint32_t tile = 1; tile < tiles; tile++) {
            advance(place, STRIPS_OF_TILE);
            strip = my.rows + place.strip * STRIP_BYTES;
            barrier_wait(&control.full[place.strip], place.parity);
            load_columns(raw[0], strip, 0);
            load_columns(raw[1], strip, 1);
            mma_wait<1>();
            convert_columns(raw[0], 0, operand[0]);
            mma_wait<0>();
            scale_scores(x, s, control, column);
            multiply_scores<true>(s, raw, operand, strip, x, my, control, tile);
        }
        mma_wait<0>();
        if (rows % TILE_ROWS != 0) {
            leave_out(s, first_row, rows % TILE_ROWS);
        }
        scale_scores(x, s, control, column);
        wait_for_buffer(tiles - 1);
#pragma unroll
        for (uint32_t piece = 0; piece < SOFTMAX_PIECES; piece++) {
            softmax_piece(piece, x, p, my, control, tiles - 1);
        }
    }

#pragma unroll
    for (uint32_t i = 0; i < 16; i++) {
        l[i] += __shfl_xor_sync(0xffffffffu, l[i], 4);
        l[i] += __shfl_xor_sync(0xffffffffu, l[i], 8);
        l[i] += __shfl_xor_sync(0xffffffffu, l[i], 16);
        if (lane < 4) {
            control.partial[warp][8 * (i / 2) + column + i % 2] = l[i];
        }
    }
    named_sync(SCORES_BARRIER, GROUP);
    if (thread < HEADS) {
        float sum = (control.partial[0][thread] + control.partial[1][thread]) +
                    (control.partial[2][thread] + control.partial[3][thread]);
        control.reference_sum[thread] = make_float2(control.head[thread].y, sum);
    }
}

} // namespace attend_tile
#endif

#endif
