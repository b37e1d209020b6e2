/* attend_fast.cu -- sparse MLA decode over 576-byte e4m3 rows on Hopper's tensor cores.
 *
 * A cluster of `splits` blocks answers one query for 64 heads; each block takes a run of tiles of
 * 64 rows. Everything is transposed, so that rows are the register operand and never have to be
 * written to shared memory in f16:
 *
 *     loader       16-byte asynchronous copies into one of three stages of FP8 rows
 *     scores       S'[64 rows][64 heads] = K[64][576] Q'[576][64]
 *                  x = S' c - m; where any x > 8: m = the exact maximum, alpha = 2^(old m - m)
 *                  P' = f16(2^x), l += 2^x
 *     outputs x2   O'[256 dims][64 heads] = alpha O' + V'[256][64 rows] P'[64 rows][64 heads]
 *     end          O' / l; with splits, scaled to the cluster's maximum and summed in the order
 *                  of splits through the blocks' shared memory
 *
 * A line is a warpgroup. e4m3 becomes f16 exactly, two in an instruction; the tensor's scale is
 * folded into c (with softmax_scale, log2 e and a power of two per head that puts q into the range
 * of f16) and into the output. m need not be the maximum, only near it: it moves when a score
 * passes it by 2^8, which f16 still holds with full precision.
 *
 * Floor, per row and 64 heads: 34 cycles of f16 MMA (18 scores, 16 outputs), which m64n64k16 with a
 * register operand reaches (32.1 cycles each, measured); 31 cycles of shared memory (4.5 written,
 * 4.5 and 4 read as FP8, 9 and 8 operands, 1 P'). 576 bytes over 4.4 TB/s.
 * Where the time goes: docs/cuda.md. A register operand made from FP8 is CUTLASS's mixed-input
 * GEMM; the lazy maximum is FlashAttention 4's. */
#include "attend.cuh"
#include "attend_fast.cuh"

#include <math.h>

/* Made for another target than sm_90a the kernel is a trap: kvt_gpu_attend() launches it on Hopper
 * only, and a program without sm_90a must not end with outputs that nothing has written. */
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_HOPPER 1
#else
#define HAS_HOPPER 0
#endif

namespace
{

using namespace hopper;

constexpr uint32_t HEADS = 64; /* of a block */
constexpr uint32_t WIDTH = KVT_GPU_HEAD;
constexpr uint32_t TILE_ROWS = 64;
constexpr uint32_t STAGES = 3;
/* 24 words modulo 32 banks: four rows in turn start in four different quarters of the banks,
 * which both ways of reading need. */
constexpr uint32_t ROW_STRIDE = WIDTH + 32;
constexpr uint32_t STAGE_BYTES = TILE_ROWS * ROW_STRIDE;
constexpr uint32_t Q_BYTES = HEADS * WIDTH * 2;
constexpr uint32_t P_BYTES = TILE_ROWS * HEADS * 2;

constexpr uint32_t Q_OFFSET = 0;
constexpr uint32_t P_OFFSET = Q_OFFSET + Q_BYTES;
constexpr uint32_t STAGE_OFFSET = P_OFFSET + 2 * P_BYTES;
constexpr uint32_t CONTROL_OFFSET = STAGE_OFFSET + STAGES * STAGE_BYTES;

constexpr uint32_t WARPS = 16;
constexpr uint32_t THREADS = WARPS * 32;

struct control {
    uint64_t full[STAGES];          /* rows of a stage are there */
    alignas(16) float2 head[HEADS]; /* c, m */
    float moves_by[HEADS];          /* what m was raised by last */
    float alpha[2][HEADS];          /* beside P */
    uint32_t rescaled[2];           /* whether alpha says anything */
    float partial[4][HEADS];        /* of the scores' warps */
    float2 reference_sum[HEADS];    /* m, l at the end, for the cluster */
    float weight[HEADS];            /* what outputs are multiplied with */
};

constexpr uint32_t SHARED_BYTES = CONTROL_OFFSET + sizeof(control);
static_assert(SHARED_BYTES <= 232448, "a block has 227 KiB");
static_assert(CONTROL_OFFSET % 16 == 0 && STAGE_OFFSET % 1024 == 0, "alignment of operands");
static_assert(HEADS * KVT_GPU_LATENT * 4 <= CONTROL_OFFSET, "outputs fit where tiles were");

#if HAS_HOPPER
constexpr uint32_t BLOCKS_OF_Q = WIDTH / 64; /* of 64 columns: swizzle atoms side by side */
constexpr uint32_t GROUP = 128;              /* threads of a warpgroup */
constexpr int SCORE_REGISTERS = 120, OUTPUT_REGISTERS = 184, LOADER_REGISTERS = 24;

/* Named barriers; 0 is __syncthreads(). Who waits at one takes no issue slots from those who work,
 * as the pollers of an mbarrier do. Those of a buffer or a stage are as many in turn. */
enum {
    SCORES_BARRIER = 1,
    WEIGHTS_BARRIER,
    LOADER_BARRIER,
    START_BARRIER,
    P_FULL_BARRIER,
    P_EMPTY_BARRIER = P_FULL_BARRIER + 2,
    EMPTY_BARRIER = P_EMPTY_BARRIER + 2,
    BARRIERS = EMPTY_BARRIER + STAGES
};
static_assert(BARRIERS <= 16, "a block has 16 named barriers");

/* How far, in powers of two, a score may pass the reference before the reference moves. */
constexpr float PASSES_BY = 8.0f;

/* Row of a tile that is row g of an MMA's eight: rows of neighbouring g are 2 apart, and those of
 * even g (and of odd g) differ modulo 4, so that no read of a warp meets a bank twice. */
__device__ __forceinline__ uint32_t row_of(uint32_t g)
{
    return (0x57463120u >> (4 * g)) & 7;
}

/* How many of places[k] come before the first KVT_GPU_NONE, the last of them being `last`. A
 * warp's work. */
__device__ __forceinline__ uint32_t count_places(const int32_t *places, uint32_t k, int32_t last,
                                                 uint32_t lane)
{
    if (last >= 0) {
        return k;
    }
    uint32_t low = 0, high = k - 1; /* the first NONE is in [low, high] */
    while (low < high) {
        uint32_t step = (high - low + 31) / 32;
        uint32_t probe = low + lane * step;
        bool is_row = probe < high && places[probe] >= 0;
        uint32_t rows = __popc(__ballot_sync(0xffffffffu, is_row));
        if (rows == 0) {
            high = low;
        } else {
            high = min(low + rows * step, high);
            low += (rows - 1) * step + 1;
        }
    }
    return low;
}

/* q of some heads, warp, warp + 12 .., a warp's part of a block's: columns 64 block + 2 lane of
 * each. The loader has no part. */
constexpr uint32_t Q_WARPS = 3 * GROUP / 32;
constexpr uint32_t HEADS_OF_WARP = (HEADS + Q_WARPS - 1) / Q_WARPS;
struct q_part {
    uint32_t pairs[HEADS_OF_WARP][BLOCKS_OF_Q];
};

__device__ __forceinline__ void load_q(q_part &part, const uint32_t *q /* [HEADS][WIDTH / 2] */,
                                       uint32_t warp, uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < HEADS_OF_WARP; i++) {
        uint32_t head = warp + i * Q_WARPS;
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            part.pairs[i][block] =
                head < HEADS ? __ldg(q + head * (WIDTH / 2) + block * 32 + lane) : 0;
        }
    }
}

/* Writes it as f16 operand, K-major in swizzled atoms, brought near 1 by a power of two per head.
 * Columns of each 64 are permuted as the scores' warps read rows: of a lane's 16 bytes, four go
 * into each of four MMA steps. */
__device__ __forceinline__ void store_q(const q_part &part, float common_factor, uint8_t *shared,
                                        control &control, uint32_t warp, uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < HEADS_OF_WARP; i++) {
        uint32_t head = warp + i * Q_WARPS;
        if (head >= HEADS) {
            break;
        }
        float largest = 0;
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            largest = fmaxf(largest, fabsf(__uint_as_float(part.pairs[i][block] << 16)));
            largest = fmaxf(largest, fabsf(__uint_as_float(part.pairs[i][block] & 0xffff0000u)));
        }
#pragma unroll
        for (uint32_t offset = 16; offset > 0; offset /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
        }
        int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
        exponent = min(max(exponent, -60), 60);
        float scale = __uint_as_float(static_cast<uint32_t>(127 - exponent) << 23);
        if (lane == 0) {
            float unscale = __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
            control.head[head] = make_float2(common_factor * unscale, 0.0f);
        }
        uint32_t at = shared_address(shared) + Q_OFFSET + head * 128 +
                      ((lane % 8) ^ (head % 8)) * 16 + lane / 8 * 4;
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            float low = __uint_as_float(part.pairs[i][block] << 16) * scale;
            float high = __uint_as_float(part.pairs[i][block] & 0xffff0000u) * scale;
            store4(at + block * HEADS * 128, half2_of_floats(low, high));
        }
    }
}

/* A loader's warp brings 16 rows of each tile: a lane every fourth 16 bytes of rows lane / 4 and
 * lane / 4 + 8. */
struct lane_rows {
    const uint8_t *row[2];
};

__device__ __forceinline__ lane_rows find_rows(const struct kvt_gpu_attend &attend,
                                               const int32_t *places, uint32_t first, uint32_t end,
                                               uint32_t loader, uint32_t lane)
{
    lane_rows found;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        /* Behind the last row: any row that is finite; its weight is 0. */
        uint32_t at = first + loader * 16 + i * 8 + lane / 4;
        uint32_t place = static_cast<uint32_t>(__ldg(places + (at < end ? at : first)));
        found.row[i] =
            attend.rows + static_cast<uint64_t>(place) * attend.row_bytes + lane % 4 * 16;
    }
    return found;
}

__device__ __forceinline__ void copy_rows(const lane_rows &rows, uint32_t stage_address,
                                          uint64_t *full, uint32_t loader, uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t dst =
            stage_address + (loader * 16 + i * 8 + lane / 4) * ROW_STRIDE + lane % 4 * 16;
#pragma unroll
        for (uint32_t piece = 0; piece < WIDTH / 64; piece++) {
            copy16_async(dst + piece * 64, rows.row[i] + piece * 64);
        }
    }
    barrier_arrive_copied(full);
}

/* Eight columns of two rows, a lane's four of each of two MMA steps, as register operands. */
__device__ __forceinline__ void convert_columns(const uint4 (&raw)[2], uint32_t half,
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

__device__ __forceinline__ void load_columns(uint4 (&raw)[2], uint32_t row_address, uint32_t block)
{
    raw[0] = load16(row_address + block * 64);
    raw[1] = load16(row_address + block * 64 + 8 * ROW_STRIDE);
}

/* s = K Q' of one tile; returns before the last MMAs are complete, but done with the stage.
 * Operands go through a ring of four, two MMA steps each: while two are being multiplied the one
 * after them is converted. */
__device__ __forceinline__ void multiply_scores(float (&s)[32], uint32_t row_address,
                                                uint64_t q_descriptor)
{
    constexpr uint32_t UNITS = BLOCKS_OF_Q * 2;
    uint4 raw[2];
    uint32_t operand[4][8];
    load_columns(raw, row_address, 0);
    convert_columns(raw, 0, operand[0]);
    convert_columns(raw, 1, operand[1]);
    load_columns(raw, row_address, 1);
#pragma unroll
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        mma_fence();
#pragma unroll
        for (uint32_t step = 0; step < 2; step++) {
            mma_64x64x16<0>(s, &operand[unit % 4][4 * step],
                            q_descriptor +
                                (unit / 2 * HEADS * 128 + unit % 2 * 64 + step * 32) / 16,
                            unit + step > 0);
        }
        mma_commit();
        if (unit + 2 < UNITS) {
            if (unit >= 2) {
                mma_wait<2>();
            }
            convert_columns(raw, unit % 2, operand[(unit + 2) % 4]);
            if (unit % 2 == 1 && unit / 2 + 2 < BLOCKS_OF_Q) {
                load_columns(raw, row_address, unit / 2 + 2);
            }
        }
    }
}

/* Rows from `valid` on count for nothing. */
__device__ __forceinline__ void leave_out(float (&s)[32], uint32_t first_row, uint32_t valid)
{
    asm volatile(""); /* a branch, rather than 32 selections in every tile */
#pragma unroll
    for (uint32_t i = 0; i < 32; i++) {
        s[i] = first_row + i / 2 % 2 * 8 < valid ? s[i] : -INFINITY;
    }
}

/* The reference of every head becomes the maximum so far; x, alpha and l follow. */
__device__ __forceinline__ void move_reference(float (&x)[32], float (&l)[16], control &control,
                                               bool is_first, uint32_t buffer, uint32_t thread)
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
    }
}

/* The scores' warpgroup: every tile's S', softmax and P'. */
__device__ __forceinline__ void run_scores(uint8_t *shared, control &control, uint32_t tiles,
                                           uint32_t rows, uint32_t thread)
{
    uint32_t warp = thread / 32, lane = thread % 32;
    uint32_t first_row = 16 * warp + row_of(lane / 4);
    uint32_t column = 2 * (lane % 4);
    uint32_t stages = shared_address(shared) + STAGE_OFFSET;
    uint64_t q_descriptor = operand_descriptor(shared_address(shared) + Q_OFFSET);
    uint32_t p_row = shared_address(shared) + P_OFFSET + (16 * warp + lane % 8) * 128;
    float l[16] = {};
    uint32_t stage = 0, stage_parity = 0;

    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t buffer = tile % 2;
        float x[32];
        barrier_wait(&control.full[stage], stage_parity);
        multiply_scores(x, stages + stage * STAGE_BYTES + first_row * ROW_STRIDE + 16 * (lane % 4),
                        q_descriptor);
        if (tile + STAGES < tiles) {
            named_arrive(EMPTY_BARRIER + stage, THREADS);
        }
        mma_wait<0>();

        if (rows - tile * TILE_ROWS < TILE_ROWS) {
            leave_out(x, first_row, rows - tile * TILE_ROWS);
        }
        float passed = -INFINITY;
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            float4 head = *reinterpret_cast<const float4 *>(&control.head[8 * j + column]);
            x[4 * j] = fmaf(x[4 * j], head.x, -head.y);
            x[4 * j + 1] = fmaf(x[4 * j + 1], head.z, -head.w);
            x[4 * j + 2] = fmaf(x[4 * j + 2], head.x, -head.y);
            x[4 * j + 3] = fmaf(x[4 * j + 3], head.z, -head.w);
            passed = fmaxf(passed,
                           fmaxf(fmaxf(x[4 * j], x[4 * j + 1]), fmaxf(x[4 * j + 2], x[4 * j + 3])));
        }
        bool moves = named_any(SCORES_BARRIER, GROUP, passed > PASSES_BY) || tile == 0;
        if (tile >= 2) {
            named_sync(P_EMPTY_BARRIER + buffer, 3 * GROUP);
        }
        if (moves) {
            move_reference(x, l, control, tile == 0, buffer, thread);
        }
        if (thread == 0) {
            control.rescaled[buffer] = moves && tile > 0;
        }

        uint32_t p[2][8];
#pragma unroll
        for (uint32_t j = 0; j < 8; j++) {
            float p00 = exp2_approx(x[4 * j]);
            float p01 = exp2_approx(x[4 * j + 1]);
            float p10 = exp2_approx(x[4 * j + 2]);
            float p11 = exp2_approx(x[4 * j + 3]);
            l[2 * j] += p00 + p10;
            l[2 * j + 1] += p01 + p11;
            p[0][j] = half2_of_floats(p00, p01);
            p[1][j] = half2_of_floats(p10, p11);
        }
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
#pragma unroll
            for (uint32_t j = 0; j < 8; j += 4) {
                const uint32_t matrices[4] = {p[half][j], p[half][j + 1], p[half][j + 2],
                                              p[half][j + 3]};
                store_matrices(p_row + buffer * P_BYTES + half * 8 * 128 +
                                   ((j + lane / 8) ^ (lane % 8)) * 16,
                               matrices);
            }
        }
        async_proxy_fence();
        named_arrive(P_FULL_BARRIER + buffer, 3 * GROUP);

        stage = stage + 1 == STAGES ? 0 : stage + 1;
        stage_parity ^= stage == 0;
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

/* What this block's outputs are multiplied with, over all splits: 0 where nothing was attended. */
__device__ __forceinline__ void find_weights(control &control, uint32_t splits, float row_scale,
                                             uint32_t head)
{
    float2 mine = control.reference_sum[head];
    float reference = mine.x, sum = mine.y;
    if (splits > 1) {
        uint32_t address = shared_address(&control.reference_sum[head]);
        reference = -INFINITY;
        sum = 0;
        for (uint32_t i = 0; i < splits; i++) {
            float2 piece = cluster_load2(cluster_address(address, i));
            reference = piece.y > 0 ? fmaxf(reference, piece.x) : reference;
        }
        for (uint32_t i = 0; i < splits; i++) {
            float2 piece = cluster_load2(cluster_address(address, i));
            sum += piece.y > 0 ? piece.y * exp2_approx(piece.x - reference) : 0.0f;
        }
    }
    control.weight[head] = mine.y > 0 ? exp2_approx(mine.x - reference) * row_scale / sum : 0.0f;
}

/* Four dims (half a lane's eight) of four rows as register operands of one step of two 64-dim
 * MMAs: pairs of rows. */
__device__ __forceinline__ void convert_dims(uint32_t first, uint32_t second, uint32_t third,
                                             uint32_t fourth, uint32_t (&operand)[8])
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t selector = i == 0 ? 0x5140 : 0x7362;
        uint32_t low = __byte_perm(first, second, selector);
        uint32_t high = __byte_perm(third, fourth, selector);
        halves_of_e4m3x4(low, operand[4 * i], operand[4 * i + 1]);
        halves_of_e4m3x4(high, operand[4 * i + 2], operand[4 * i + 3]);
    }
}

struct four_rows {
    uint32_t first, second; /* offsets of rows 0 and 1 of a lane; 2 and 3 are 8 rows further */
};

__device__ __forceinline__ void load_dims(uint2 (&raw)[4], uint32_t address, four_rows rows)
{
    raw[0] = load8(address + rows.first);
    raw[1] = load8(address + rows.second);
    raw[2] = load8(address + rows.first + 8 * ROW_STRIDE);
    raw[3] = load8(address + rows.second + 8 * ROW_STRIDE);
}

/* One of two warpgroups of outputs: O' of 256 dims over all tiles. o[i][4 j + 2 d + h] is dim
 * first_dim + 2 i + d of head 8 j + 2 (lane % 4) + h. */
__device__ __forceinline__ void run_outputs(float (&o)[4][32], uint8_t *shared, control &control,
                                            uint32_t tiles, uint32_t first_dim, uint32_t lane)
{
    uint32_t stages = shared_address(shared) + STAGE_OFFSET + first_dim;
    uint64_t p_descriptor = operand_descriptor(shared_address(shared) + P_OFFSET);
    uint32_t column = 2 * (lane % 4);
    four_rows rows = {row_of(column) * ROW_STRIDE, row_of(column + 1) * ROW_STRIDE};
    uint32_t stage = 0, stage_parity = 0;

    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t buffer = tile % 2;
        uint32_t address = stages + stage * STAGE_BYTES;
        uint2 raw[4];
        uint32_t operand[2][8];
        barrier_wait(&control.full[stage], stage_parity);
        load_dims(raw, address, rows);
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
        for (uint32_t step = 0; step < TILE_ROWS / 16; step++) {
            uint64_t p_step = p_descriptor + (buffer * P_BYTES + step * 16 * 128) / 16;
            convert_dims(raw[0].x, raw[1].x, raw[2].x, raw[3].x, operand[0]);
            mma_fence();
            mma_64x64x16<1>(o[0], &operand[0][0], p_step, 1);
            mma_64x64x16<1>(o[1], &operand[0][4], p_step, 1);
            mma_commit();
            mma_wait<1>();
            convert_dims(raw[0].y, raw[1].y, raw[2].y, raw[3].y, operand[1]);
            if (step + 1 < TILE_ROWS / 16) {
                load_dims(raw, address + (step + 1) * 16 * ROW_STRIDE, rows);
            } else if (tile + STAGES < tiles) {
                named_arrive(EMPTY_BARRIER + stage, THREADS);
            }
            mma_fence();
            mma_64x64x16<1>(o[2], &operand[1][0], p_step, 1);
            mma_64x64x16<1>(o[3], &operand[1][4], p_step, 1);
            mma_commit();
            mma_wait<1>();
        }
        mma_wait<0>();
        if (tile + 2 < tiles) {
            named_arrive(P_EMPTY_BARRIER + buffer, 3 * GROUP);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        stage_parity ^= stage == 0;
    }
}

__device__ __forceinline__ void store_eight(const struct kvt_gpu_attend &attend, uint64_t at,
                                            const float (&x)[8])
{
    if (attend.out_is_float) {
        float4 *out = reinterpret_cast<float4 *>(static_cast<float *>(attend.out) + at);
        out[0] = make_float4(x[0], x[1], x[2], x[3]);
        out[1] = make_float4(x[4], x[5], x[6], x[7]);
    } else {
        uint16_t *out = static_cast<uint16_t *>(attend.out) + at;
        *reinterpret_cast<uint4 *>(out) =
            make_uint4(bfloat2_of_floats(x[0], x[1]), bfloat2_of_floats(x[2], x[3]),
                       bfloat2_of_floats(x[4], x[5]), bfloat2_of_floats(x[6], x[7]));
    }
}

/* Where four dims of a head are in shared memory while splits are summed, in units of 16 bytes:
 * swizzled so that the stores of a warp's eight lanes meet eight different units of a row. */
__device__ __forceinline__ uint32_t sum_swizzle(uint32_t head)
{
    return (head / 2 % 2) << 2 | (head / 4 % 2);
}

/* Ends a warpgroup of outputs: without splits to global memory, else to shared memory. */
__device__ __forceinline__ void write_outputs(const struct kvt_gpu_attend &attend,
                                              const float (&o)[4][32], uint8_t *shared,
                                              const control &control, uint64_t first_head,
                                              uint32_t splits, uint32_t first_dim, uint32_t lane)
{
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t head = 8 * j + 2 * (lane % 4) + h;
            float weight = control.weight[head];
            float x[8];
#pragma unroll
            for (uint32_t i = 0; i < 8; i++) {
                x[i] = o[i / 2][4 * j + 2 * (i % 2) + h] * weight;
            }
            if (splits == 1) {
                store_eight(attend, (first_head + head) * KVT_GPU_LATENT + first_dim, x);
            } else {
                float4 *row = reinterpret_cast<float4 *>(shared) + head * (KVT_GPU_LATENT / 4);
                uint32_t unit = (first_dim / 4) ^ sum_swizzle(head);
                row[unit] = make_float4(x[0], x[1], x[2], x[3]);
                row[unit ^ 1] = make_float4(x[4], x[5], x[6], x[7]);
            }
        }
    }
}

/* This block's share of the 64 heads' outputs, summed over the cluster in the order of splits. */
__device__ __forceinline__ void sum_splits(const struct kvt_gpu_attend &attend,
                                           const uint8_t *shared, uint64_t first_head,
                                           uint32_t splits, uint32_t split, uint32_t thread,
                                           uint32_t threads)
{
    constexpr uint32_t UNITS = HEADS * KVT_GPU_LATENT / 4;
    uint32_t begin = UNITS * split / splits, end = UNITS * (split + 1) / splits;
    uint32_t base = shared_address(shared);
    for (uint32_t unit = begin + thread; unit < end; unit += threads) {
        float4 sum = cluster_load4(cluster_address(base + unit * 16, 0));
        for (uint32_t i = 1; i < splits; i++) {
            float4 piece = cluster_load4(cluster_address(base + unit * 16, i));
            sum.x += piece.x;
            sum.y += piece.y;
            sum.z += piece.z;
            sum.w += piece.w;
        }
        uint32_t head = unit / (KVT_GPU_LATENT / 4);
        uint32_t dim = (unit % (KVT_GPU_LATENT / 4) ^ sum_swizzle(head)) * 4;
        uint64_t at = (first_head + head) * KVT_GPU_LATENT + dim;
        if (attend.out_is_float) {
            *reinterpret_cast<float4 *>(static_cast<float *>(attend.out) + at) = sum;
        } else {
            *reinterpret_cast<uint2 *>(static_cast<uint16_t *>(attend.out) + at) =
                make_uint2(bfloat2_of_floats(sum.x, sum.y), bfloat2_of_floats(sum.z, sum.w));
        }
    }
}

#endif

/* grid: [query_count][heads / 64][splits], a cluster the splits. */
__global__ void __launch_bounds__(THREADS, 1)
    attend_fast_kernel(const __grid_constant__ struct kvt_gpu_attend attend, uint32_t splits)
{
#if HAS_HOPPER
    extern __shared__ __align__(1024) uint8_t shared[];
    control &control = *reinterpret_cast<struct control *>(shared + CONTROL_OFFSET);
    /* The loader's warpgroup is the block's first, the scores' the second: 1.5 % faster than the
     * loader last. */
    uint32_t thread = (threadIdx.x + 3 * GROUP) % THREADS, warp = thread / 32, lane = thread % 32;
    uint32_t split = splits == 1 ? 0 : cluster_rank();
    uint32_t groups = attend.heads / HEADS;
    uint32_t query = blockIdx.x / splits / groups;
    uint64_t first_head = static_cast<uint64_t>(blockIdx.x / splits) * HEADS;
    const int32_t *places = attend.places + static_cast<uint64_t>(query) * attend.k;

    if (attend_is_elsewhere(attend, query)) {
        return;
    }
    /* What comes from far away is asked for at once. */
    q_part part;
    if (warp < Q_WARPS) {
        load_q(part, static_cast<const uint32_t *>(attend.q) + first_head * (WIDTH / 2), warp,
               lane);
    }
    int32_t last = __ldg(places + attend.k - 1);

    /* Cut at whole tiles of the rows that there are, so that nothing but they and `splits` say
     * what is added to what. */
    uint32_t all_rows = count_places(places, attend.k, last, lane);
    uint32_t all_tiles = (all_rows + TILE_ROWS - 1) / TILE_ROWS;
    uint32_t first_tile = all_tiles * split / splits;
    uint32_t tiles = all_tiles * (split + 1) / splits - first_tile;
    places += first_tile * TILE_ROWS;
    uint32_t rows = min(all_rows - first_tile * TILE_ROWS, tiles * TILE_ROWS);
    uint32_t stages = shared_address(shared) + STAGE_OFFSET;
    float factor = attend.softmax_scale * attend.row_scale * static_cast<float>(M_LOG2E);

    if (thread >= 3 * GROUP) {
        give_registers<LOADER_REGISTERS>();
        if (thread == 3 * GROUP) {
            for (uint32_t i = 0; i < STAGES; i++) {
                barrier_init(&control.full[i], GROUP);
            }
        }
        named_sync(LOADER_BARRIER, GROUP);
        named_arrive(START_BARRIER, THREADS);
        uint32_t stage = 0, loader = warp - 3 * GROUP / 32;
        for (uint32_t tile = 0; tile < tiles; tile++) {
            lane_rows next = find_rows(attend, places, tile * TILE_ROWS, rows, loader, lane);
            if (tile >= STAGES) {
                named_sync(EMPTY_BARRIER + stage, THREADS);
            }
            copy_rows(next, stages + stage * STAGE_BYTES, &control.full[stage], loader, lane);
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        if (splits > 1) {
            __syncwarp();
            cluster_sync();
            cluster_sync();
            cluster_sync();
        }
    } else if (thread < GROUP) {
        give_registers<SCORE_REGISTERS>();
        store_q(part, factor, shared, control, warp, lane);
        async_proxy_fence();
        named_sync(START_BARRIER, THREADS);
        run_scores(shared, control, tiles, rows, thread);
        if (splits > 1) {
            cluster_sync();
        }
        if (thread < HEADS) {
            find_weights(control, splits, attend.row_scale, thread);
        }
        named_arrive(WEIGHTS_BARRIER, 3 * GROUP);
        if (splits > 1) {
            cluster_sync();
            sum_splits(attend, shared, first_head, splits, split, thread, 3 * GROUP);
            cluster_sync();
        }
    } else {
        take_registers<OUTPUT_REGISTERS>();
        store_q(part, factor, shared, control, warp, lane);
        async_proxy_fence();
        named_sync(START_BARRIER, THREADS);
        uint32_t first_dim = (warp - 4) * 64 + lane / 4 * 8;
        float o[4][32] = {};
        run_outputs(o, shared, control, tiles, first_dim, lane);
        if (splits > 1) {
            cluster_sync();
        }
        named_sync(WEIGHTS_BARRIER, 3 * GROUP);
        write_outputs(attend, o, shared, control, first_head, splits, first_dim, lane);
        if (splits > 1) {
            cluster_sync();
            sum_splits(attend, shared, first_head, splits, split, thread, 3 * GROUP);
            cluster_sync();
        }
    }
#else
    __trap();
#endif
}

} // namespace

cudaError_t attend_fast(const struct kvt_gpu_attend *attend, uint32_t splits, cudaStream_t stream)
{
    cudaError_t status = cudaFuncSetAttribute(
        attend_fast_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (status != cudaSuccess) {
        return status;
    }
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = splits;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(attend->query_count * (attend->heads / HEADS) * splits);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    status = cudaLaunchKernelEx(&config, attend_fast_kernel, *attend, splits);
    return status != cudaSuccess ? status : cudaGetLastError();
}
