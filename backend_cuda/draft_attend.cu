/* draft_attend.cu -- attention of a drafter's layer over its ring of rows.
 *
 *     a block of four warps: one (request, kv head), 64 (token, head) pairs of its group
 *         tiles of 64 rows, keys and values as they lie, three under way (cp.async)
 *         scores = q k^T; running maximum and sum; out = out * keep + p v, all by f16 mma.sync,
 *         e4m3 to f16 in registers, which is exact
 *     pieces of a request's rows, where blocks are few, meet in a kernel of their own
 *
 * Rows come from memory once a request and layer, as long as a block's tokens times heads of a
 * group are 64 or less. Floor: rows over 4.69 TB/s, or 4 x 128 operations a (token, head, row) over
 * 660 TFLOP/s, two thirds of the data sheet's f16: what mma.sync reaches was not measured. Any
 * architecture from sm_80 on. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <math.h>

#include "draft.cuh"

namespace
{

constexpr uint32_t DIM = KVT_GPU_DRAFT_DIM;
constexpr uint32_t WARPS = 4;
constexpr uint32_t THREADS = WARPS * 32;
constexpr uint32_t PAIRS = WARPS * 16;                 /* (token, head) pairs of a block */
constexpr uint32_t TILE_ROWS = KVT_GPU_DRAFT_ROWS_MIN; /* of which a ring holds one at least */
constexpr uint32_t TILE_BYTES = TILE_ROWS * DIM;       /* of keys, or of values */
constexpr uint32_t STAGES = 3;
constexpr uint32_t TURNS = 4;    /* products of scores that take turns */
constexpr uint32_t RESIDENT = 3; /* blocks of a multiprocessor */
constexpr uint32_t NO_SPLIT = 1;
constexpr uint32_t SPLITS_MAX = KVT_GPU_DRAFT_SPLITS_MAX;

/* What a block works on. */
struct share {
    struct kvt_gpu_draft_request request;
    uint32_t end; /* of its positions */
    uint32_t kv_head, first_pair, pairs;
};

/* A partial answer of one (token, head) in the workspace. */
struct partial {
    float out[DIM]; /* unnormalised; dims 32 t + 4 i .. + 3 are the float4 of number 4 i + t */
    float largest, sum, unused[2];
};

__device__ __forceinline__ void copy_16(uint32_t to, const void *from, bool is_there)
{
    uint32_t bytes = is_there ? 16 : 0; /* the rest of the 16 becomes zero */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

/* Keys are read with rows g across a warp and values with rows 2t: each is laid out so that the
 * eight threads that shared memory serves at once find eight different 16-byte columns. */
__device__ __forceinline__ uint32_t key_chunk(uint32_t row, uint32_t chunk)
{
    return row * DIM + 16 * (chunk ^ (row & 1) << 2);
}

__device__ __forceinline__ uint32_t value_chunk(uint32_t row, uint32_t chunk)
{
    return row * DIM + 16 * (chunk ^ (row & 6));
}

/* Positions [first, first + 64) below `end`, keys and values. */
__device__ __forceinline__ void load_tile(const struct kvt_gpu_draft_attend &attend,
                                          const struct share &share, uint32_t first, uint32_t end,
                                          uint32_t keys)
{
    uint32_t chunk = threadIdx.x % 8;
    uint32_t first_slot = first % attend.ring.ring_rows;
    const uint8_t *rows =
        row_at(attend.ring, share.request.lane, attend.layer, 0) + share.kv_head * DIM + 16 * chunk;
#pragma unroll
    for (uint32_t i = 0; i < TILE_ROWS / (THREADS / 8); i++) {
        uint32_t row = i * (THREADS / 8) + threadIdx.x / 8;
        uint32_t slot = first_slot + row;
        slot = slot < attend.ring.ring_rows ? slot : slot - attend.ring.ring_rows;
        bool is_there = first + row < end;
        const uint8_t *from =
            rows + static_cast<uint64_t>(is_there ? slot : first_slot) * attend.ring.row_bytes;
        copy_16(keys + key_chunk(row, chunk), from, is_there);
        copy_16(keys + TILE_BYTES + value_chunk(row, chunk), from + attend.kv_heads * DIM,
                is_there);
    }
}

/* Four e4m3 as f16, two and two. The word is taken apart in PTX, so that a conversion itself reads
 * the half that it wants. */
__device__ __forceinline__ void halves_of(uint32_t four, uint32_t &low, uint32_t &high)
{
#if __CUDA_ARCH__ >= 890
    asm("{\n"
        ".reg .b16 l, h;\n"
        "mov.b32 {l, h}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, l;\n"
        "cvt.rn.f16x2.e4m3x2 %1, h;\n"
        "}\n"
        : "=r"(low), "=r"(high)
        : "r"(four));
#else
    __half2_raw pairs[2];
    for (uint32_t i = 0; i < 2; i++) {
        pairs[i] = __nv_cvt_fp8x2_to_halfraw2(
            static_cast<__nv_fp8x2_storage_t>(four >> 16 * i & 0xffff), __NV_E4M3);
    }
    low = static_cast<uint32_t>(pairs[0].y) << 16 | pairs[0].x;
    high = static_cast<uint32_t>(pairs[1].y) << 16 | pairs[1].x;
#endif
}

/* To 2 units in the last place; of -infinity: 0. */
__device__ __forceinline__ float exp2_of(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

__device__ __forceinline__ uint32_t halves(float low, float high)
{
    __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* d += a b: 16 x 16 times 16 x 8. */
__device__ __forceinline__ void multiply(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint4 load_chunk(const uint8_t *chunk)
{
    return *reinterpret_cast<const uint4 *>(chunk);
}

/* Where pair number `pair` of the block has its q and out, in elements; which token it is. */
__device__ __forceinline__ uint64_t pair_at(const struct kvt_gpu_draft_attend &attend,
                                            const struct share &share, uint32_t pair,
                                            uint32_t *depth)
{
    uint32_t group = attend.heads / attend.kv_heads;
    *depth = (share.first_pair + pair) / group;
    uint32_t head = share.kv_head * group + (share.first_pair + pair) % group;
    return (static_cast<uint64_t>(share.request.first_token + *depth) * attend.heads + head) * DIM;
}

/* q of pairs g and g + 8 of the warp. What the k index of an MMA stands for is free, as long as
 * keys have it alike: thread t has dims 16 t .. + 15 in the first four steps and 64 + 16 t .. + 15
 * in the other four, four dims a step, so that keys come by 16-byte loads. */
__device__ __forceinline__ void load_q(const struct kvt_gpu_draft_attend &attend,
                                       const struct share &share, uint32_t pair, uint32_t t,
                                       uint32_t half, uint32_t q[8][4])
{
    uint32_t depth;
    uint64_t at = pair_at(attend, share, pair, &depth);
    bool is_there = share.first_pair + pair < share.pairs;
    const __nv_bfloat162 *from =
        reinterpret_cast<const __nv_bfloat162 *>(static_cast<const __nv_bfloat16 *>(attend.q) + at);
#pragma unroll
    for (uint32_t step = 0; step < 8; step++) {
        uint32_t dim = step / 4 * 64 + 16 * t + step % 4 * 4;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            float2 value = make_float2(0, 0);
            if (is_there) {
                value = __bfloat1622float2(from[dim / 2 + i]);
            }
            q[step][half + 2 * i] = halves(value.x, value.y);
        }
    }
}

/* scores[n]: rows 8 n + 2 t and + 1 of the tile, for pairs g and g + 8. Four of them take turns, so
 * that an MMA need not wait for the one before it. */
__device__ __forceinline__ void score_tile(const uint8_t *keys, const uint32_t q[8][4], uint32_t g,
                                           uint32_t t, float scores[8][4])
{
#pragma unroll
    for (uint32_t first = 0; first < 8; first += TURNS) {
        uint4 k[TURNS][2];
#pragma unroll
        for (uint32_t n = 0; n < TURNS; n++) {
            k[n][0] = load_chunk(keys + key_chunk(8 * (first + n) + g, t));
            k[n][1] = load_chunk(keys + key_chunk(8 * (first + n) + g, 4 + t));
            scores[first + n][0] = scores[first + n][1] = 0;
            scores[first + n][2] = scores[first + n][3] = 0;
        }
#pragma unroll
        for (uint32_t step = 0; step < 8; step++) {
#pragma unroll
            for (uint32_t n = 0; n < TURNS; n++) {
                const uint4 &words = k[n][step / 4];
                uint32_t word = step % 4 == 0   ? words.x
                                : step % 4 == 1 ? words.y
                                : step % 4 == 2 ? words.z
                                                : words.w;
                uint32_t low, high;
                halves_of(word, low, high);
                multiply(scores[first + n], q[step], low, high);
            }
        }
    }
}

/* out[i]: column g of an MMA is dim 16 g + i, so that values, too, come 16 bytes at a time; two
 * rows' bytes are interleaved for the pairs that an MMA wants. */
__device__ __forceinline__ void add_values(const uint8_t *values, const float p[8][4], uint32_t g,
                                           uint32_t t, float out[16][4])
{
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t a[4] = {halves(p[2 * j][0], p[2 * j][1]), halves(p[2 * j][2], p[2 * j][3]),
                               halves(p[2 * j + 1][0], p[2 * j + 1][1]),
                               halves(p[2 * j + 1][2], p[2 * j + 1][3])};
        uint4 rows[4];
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) {
            rows[r] = load_chunk(values + value_chunk(16 * j + r / 2 * 8 + 2 * t + r % 2, g));
        }
        const uint32_t words[4][4] = {{rows[0].x, rows[0].y, rows[0].z, rows[0].w},
                                      {rows[1].x, rows[1].y, rows[1].z, rows[1].w},
                                      {rows[2].x, rows[2].y, rows[2].z, rows[2].w},
                                      {rows[3].x, rows[3].y, rows[3].z, rows[3].w}};
#pragma unroll
        for (uint32_t w = 0; w < 4; w++) {
#pragma unroll
            for (uint32_t pair = 0; pair < 2; pair++) {
                const uint32_t bytes = pair == 0 ? 0x5140 : 0x7362;
                uint32_t b[2][2]; /* of dims 2 pair and + 1; rows 2 t and 2 t + 8 on */
                halves_of(__byte_perm(words[0][w], words[1][w], bytes), b[0][0], b[1][0]);
                halves_of(__byte_perm(words[2][w], words[3][w], bytes), b[0][1], b[1][1]);
                multiply(out[4 * w + 2 * pair], a, b[0][0], b[0][1]);
                multiply(out[4 * w + 2 * pair + 1], a, b[1][0], b[1][1]);
            }
        }
    }
}

__device__ __forceinline__ float largest_of_four(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Running maximum (scaled, base 2) and sum of pairs g and g + 8. */
struct running {
    float largest[2], sum[2];
};

/* Scores become weights, rows out of sight weigh nothing; out is scaled down where the maximum
 * grows. */
__device__ __forceinline__ void weigh(float scores[8][4], float out[16][4], struct running &running,
                                      const uint32_t first_seen[2], uint32_t first, uint32_t end,
                                      uint32_t t, float scale)
{
    bool all_seen = first >= first_seen[0] && first >= first_seen[1] && first + TILE_ROWS <= end;
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        float largest = running.largest[h];
#pragma unroll
        for (uint32_t n = 0; n < 8; n++) {
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                uint32_t position = first + 8 * n + 2 * t + i;
                float &score = scores[n][2 * h + i];
                score *= scale;
                if (!all_seen && (position < first_seen[h] || position >= end)) {
                    score = -INFINITY;
                }
                largest = fmaxf(largest, score);
            }
        }
        largest = largest_of_four(largest);
        float base = largest == -INFINITY ? 0 : largest; /* nothing seen yet */
        float keep = exp2_of(running.largest[h] - base);
        float sum = 0;
#pragma unroll
        for (uint32_t n = 0; n < 8; n++) {
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                float &score = scores[n][2 * h + i];
                score = exp2_of(score - base);
                sum += score;
            }
        }
        running.largest[h] = largest;
        running.sum[h] = running.sum[h] * keep + sum_of_four(sum);
        if (__all_sync(0xffffffffu, keep == 1)) {
            continue;
        }
#pragma unroll
        for (uint32_t i = 0; i < 16; i++) {
            out[i][2 * h] *= keep;
            out[i][2 * h + 1] *= keep;
        }
    }
}

/* Thread t has dims 32 t .. + 15 of a pair in one half of its columns and the next 16 in the other.
 */
__device__ __forceinline__ void store(const struct kvt_gpu_draft_attend &attend,
                                      const struct share &share, uint32_t pair, uint32_t t,
                                      uint32_t h, uint32_t splits, const float out[16][4],
                                      const struct running &running)
{
    uint32_t depth;
    uint64_t at = pair_at(attend, share, pair, &depth);
    if (share.first_pair + pair >= share.pairs) {
        return;
    }
    if (splits > NO_SPLIT) {
        uint64_t all = static_cast<uint64_t>(attend.token_count) * attend.heads;
        struct partial *to =
            static_cast<struct partial *>(attend.workspace) + blockIdx.x * all + at / DIM;
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t first = i % 4 * 4, column = 2 * h + i / 4;
            reinterpret_cast<float4 *>(to->out)[4 * i + t] =
                make_float4(out[first][column], out[first + 1][column], out[first + 2][column],
                            out[first + 3][column]);
        }
        if (t == 0) {
            to->largest = running.largest[h];
            to->sum = running.sum[h];
        }
        return;
    }
    float weight = running.sum[h] > 0 ? 1 / running.sum[h] : 0.0f;
    __nv_bfloat162 *to =
        reinterpret_cast<__nv_bfloat162 *>(static_cast<__nv_bfloat16 *>(attend.out) + at) + 16 * t;
#pragma unroll
    for (uint32_t i = 0; i < 32; i += 2) {
        to[i / 2] = __floats2bfloat162_rn(out[i % 16][2 * h + i / 16] * weight,
                                          out[i % 16 + 1][2 * h + i / 16] * weight);
    }
}

/* grid: [splits][kv_heads x pairs / PAIRS][request_count] */
__global__ void __launch_bounds__(THREADS, RESIDENT)
    attend_ring(const __grid_constant__ struct kvt_gpu_draft_attend attend)
{
    __shared__ alignas(16) uint8_t tiles[STAGES][2 * TILE_BYTES];
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t pair = threadIdx.x / 32 * 16 + g; /* and + 8 */
    const uint32_t splits = gridDim.x;
    struct share share;
    share.request = attend.requests[blockIdx.z];
    share.kv_head = blockIdx.y % attend.kv_heads;
    share.first_pair = blockIdx.y / attend.kv_heads * PAIRS;
    share.pairs = share.request.block_tokens * (attend.heads / attend.kv_heads);
    if (share.first_pair >= share.pairs) {
        return;
    }
    uint32_t begin = first_seen(attend.ring, share.request, 0);
    share.end = share.request.context_tokens + share.request.block_tokens;
    uint32_t all_tiles = (share.end - begin + TILE_ROWS - 1) / TILE_ROWS;
    uint32_t tile = blockIdx.x * all_tiles / splits;
    const uint32_t tile_end = (blockIdx.x + 1) * all_tiles / splits;

    uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(tiles));
    for (uint32_t ahead = 0; ahead + 1 < STAGES; ahead++) {
        if (tile + ahead < tile_end) {
            load_tile(attend, share, begin + (tile + ahead) * TILE_ROWS, share.end,
                      shared + (tile + ahead) % STAGES * 2 * TILE_BYTES);
        }
        asm volatile("cp.async.commit_group;");
    }
    uint32_t q[8][4], seen[2];
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t depth;
        load_q(attend, share, pair + 8 * half, t, half, q);
        (void)pair_at(attend, share, pair + 8 * half, &depth);
        seen[half] = first_seen(attend.ring, share.request, depth);
    }
    struct running running = {{-INFINITY, -INFINITY}, {0, 0}};
    float out[16][4] = {};
    const float scale = attend.softmax_scale * 1.4426950408889634f;

    for (; tile < tile_end; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        uint32_t ahead = tile + STAGES - 1;
        if (ahead < tile_end) {
            load_tile(attend, share, begin + ahead * TILE_ROWS, share.end,
                      shared + ahead % STAGES * 2 * TILE_BYTES);
        }
        asm volatile("cp.async.commit_group;");
        const uint8_t *keys = tiles[tile % STAGES];
        float scores[8][4];
        score_tile(keys, q, g, t, scores);
        weigh(scores, out, running, seen, begin + tile * TILE_ROWS, share.end, t, scale);
        add_values(keys + TILE_BYTES, scores, g, t, out);
    }
    store(attend, share, pair, t, 0, splits, out, running);
    store(attend, share, pair + 8, t, 1, splits, out, running);
}

/* A warp a (token, head): its pieces, in their order. grid: [token_count x heads / 4] */
__global__ void __launch_bounds__(THREADS)
    join_pieces(const __grid_constant__ struct kvt_gpu_draft_attend attend, uint32_t splits)
{
    const uint64_t all = static_cast<uint64_t>(attend.token_count) * attend.heads;
    const uint64_t pair = static_cast<uint64_t>(blockIdx.x) * WARPS + threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    const struct partial *pieces = static_cast<const struct partial *>(attend.workspace) + pair;
    float largest = -INFINITY, sum = 0;
    float4 out = make_float4(0, 0, 0, 0);

    if (pair >= all) {
        return;
    }
    for (uint32_t s = 0; s < splits; s++) {
        largest = fmaxf(largest, pieces[s * all].largest);
    }
    float base = largest == -INFINITY ? 0 : largest;
    for (uint32_t s = 0; s < splits; s++) {
        const struct partial *piece = &pieces[s * all];
        float keep = exp2f(piece->largest - base);
        float4 part = reinterpret_cast<const float4 *>(piece->out)[lane];
        sum += piece->sum * keep;
        out.x += part.x * keep;
        out.y += part.y * keep;
        out.z += part.z * keep;
        out.w += part.w * keep;
    }
    float weight = sum > 0 ? 1 / sum : 0.0f;
    __nv_bfloat162 *to =
        static_cast<__nv_bfloat162 *>(attend.out) + pair * (DIM / 2) + lane % 4 * 16 + lane / 4 * 2;
    to[0] = __floats2bfloat162_rn(out.x * weight, out.y * weight);
    to[1] = __floats2bfloat162_rn(out.z * weight, out.w * weight);
}

/* ---- The plain kernel ------------------------------------------------------------------ */

__device__ __forceinline__ float float_of_e4m3(uint8_t byte)
{
    __nv_fp8_e4m3 value;
    value.__x = byte;
    return static_cast<float>(value);
}

/* A warp a (token, head), rows in their order, all in float. grid: [block_max x heads / 4]
 * [request_count] */
__global__ void __launch_bounds__(THREADS)
    attend_plainly(const __grid_constant__ struct kvt_gpu_draft_attend attend)
{
    const struct kvt_gpu_draft_request request = attend.requests[blockIdx.y];
    const uint32_t pair = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t depth = pair / attend.heads, head = pair % attend.heads;
    const uint64_t at =
        (static_cast<uint64_t>(request.first_token + depth) * attend.heads + head) * DIM;
    const uint32_t keys = head / (attend.heads / attend.kv_heads) * DIM;
    const uint32_t values = keys + attend.kv_heads * DIM;
    const __nv_bfloat16 *q = static_cast<const __nv_bfloat16 *>(attend.q) + at;
    float largest = -INFINITY, sum = 0, out[DIM / 32] = {};

    if (depth >= request.block_tokens) {
        return;
    }
    for (uint32_t position = first_seen(attend.ring, request, depth);
         position < request.context_tokens + request.block_tokens; position++) {
        const uint8_t *row = row_at(attend.ring, request.lane, attend.layer, position);
        float score = 0;
        for (uint32_t i = 0; i < DIM / 32; i++) {
            score += __bfloat162float(q[i * 32 + lane]) * float_of_e4m3(row[keys + i * 32 + lane]);
        }
        for (uint32_t offset = 16; offset > 0; offset /= 2) {
            score += __shfl_xor_sync(0xffffffffu, score, offset);
        }
        score *= attend.softmax_scale;
        float most = fmaxf(largest, score);
        float keep = expf(largest - most), weight = expf(score - most);
        largest = most;
        sum = sum * keep + weight;
        for (uint32_t i = 0; i < DIM / 32; i++) {
            out[i] = out[i] * keep + weight * float_of_e4m3(row[values + i * 32 + lane]);
        }
    }
    for (uint32_t i = 0; i < DIM / 32; i++) {
        static_cast<__nv_bfloat16 *>(attend.out)[at + i * 32 + lane] =
            __float2bfloat16_rn(sum > 0 ? out[i] / sum : 0.0f);
    }
}

/* Blocks of a launch without pieces. */
uint32_t blocks_of(const struct kvt_gpu_draft_attend *attend)
{
    uint32_t pairs = attend->block_max * (attend->heads / attend->kv_heads);
    return attend->request_count * attend->kv_heads * ((pairs + PAIRS - 1) / PAIRS);
}

/* By what they cost in tiles: turns of the blocks that are resident at once, each with its start,
 * and the pieces that are joined. Measured on an H200 with 8, 64 and 256 blocks. */
uint32_t choose_splits(const struct kvt_gpu_draft_attend *attend)
{
    const uint32_t resident = 132 * RESIDENT, start_tiles = 2, blocks = blocks_of(attend);
    const uint32_t tiles =
        (attend->ring.window_tokens + attend->block_max + TILE_ROWS - 1) / TILE_ROWS;
    uint32_t best = NO_SPLIT, least = UINT32_MAX;

    for (uint32_t splits = 1; splits <= SPLITS_MAX && splits <= tiles; splits++) {
        uint32_t turns = (blocks * splits + resident - 1) / resident;
        uint32_t cost = turns * ((tiles + splits - 1) / splits + start_tiles) +
                        (splits > NO_SPLIT ? splits * blocks / 128 : 0);
        if (cost < least) {
            least = cost;
            best = splits;
        }
    }
    return best;
}

bool is_valid(const struct kvt_gpu_draft_attend *attend)
{
    const struct kvt_gpu_draft_ring *ring = &attend->ring;
    return attend->kv_heads > 0 && attend->heads % attend->kv_heads == 0 &&
           ring->row_bytes == 2 * attend->kv_heads * DIM &&
           ring->ring_rows >= KVT_GPU_DRAFT_ROWS_MIN && ring->window_tokens <= ring->ring_rows &&
           attend->splits <= KVT_GPU_DRAFT_SPLITS_MAX && isfinite(attend->softmax_scale) &&
           attend->softmax_scale > 0;
}

} // namespace

/* ---- Launchers ------------------------------------------------------------------------ */

uint64_t kvt_gpu_draft_workspace_bytes(uint32_t token_count, uint32_t heads)
{
    return static_cast<uint64_t>(KVT_GPU_DRAFT_SPLITS_MAX) * token_count * heads *
           sizeof(struct partial);
}

cudaError_t kvt_gpu_draft_attend(const struct kvt_gpu_draft_attend *attend, cudaStream_t stream)
{
    if (attend->request_count == 0 || attend->block_max == 0) {
        return cudaSuccess;
    }
    if (!is_valid(attend)) {
        return cudaErrorInvalidValue;
    }
    if (attend->reference) {
        dim3 grid((attend->block_max * attend->heads + WARPS - 1) / WARPS, attend->request_count);
        attend_plainly<<<grid, THREADS, 0, stream>>>(*attend);
        return cudaGetLastError();
    }
    uint32_t splits = attend->splits > 0 ? attend->splits : choose_splits(attend);
    dim3 grid(splits, blocks_of(attend) / attend->request_count, attend->request_count);
    attend_ring<<<grid, THREADS, 0, stream>>>(*attend);
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess || splits == NO_SPLIT) {
        return status;
    }
    uint64_t pairs = static_cast<uint64_t>(attend->token_count) * attend->heads;
    join_pieces<<<static_cast<uint32_t>((pairs + WARPS - 1) / WARPS), THREADS, 0, stream>>>(*attend,
                                                                                            splits);
    return cudaGetLastError();
}
