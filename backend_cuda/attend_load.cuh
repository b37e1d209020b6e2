/* attend_load.cuh -- places, q and rows on their way into a block's shared memory. */
#ifndef KVT_ATTEND_LOAD_CUH
#define KVT_ATTEND_LOAD_CUH

#include "attend_tile.cuh"

#if HAS_HOPPER
namespace attend_tile
{

using namespace hopper;

/* How many of places[k] come before the first KVT_GPU_NONE, the last of them being `last`. A
 * warp's work. */
static __device__ __forceinline__ uint32_t count_places(const int32_t *places, uint32_t k,
                                                        int32_t last, uint32_t lane)
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

/* q of four heads at a time, a warp of outputs two such groups of a block's 64: a lane has columns
 * 64 block + 8 (lane % 8) .. of head lane / 8. */
constexpr uint32_t Q_WARPS = 2 * GROUP / 32;
constexpr uint32_t Q_GROUPS = HEADS / 4 / Q_WARPS;
struct q_part {
    uint4 columns[Q_GROUPS][BLOCKS_OF_Q];
};

static __device__ __forceinline__ void load_q(q_part &part, const uint16_t *q /* [HEADS][WIDTH] */,
                                              uint32_t warp, uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < Q_GROUPS; i++) {
        const uint4 *head = reinterpret_cast<const uint4 *>(
            q + ((warp + i * Q_WARPS) * 4 + lane / 8) * WIDTH + lane % 8 * 8);
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            part.columns[i][block] = __ldg(head + block * 8);
        }
    }
}

static __device__ __forceinline__ float largest_of(float before, uint32_t pair)
{
    return fmaxf(before, fmaxf(fabsf(__uint_as_float(pair << 16)),
                               fabsf(__uint_as_float(pair & 0xffff0000u))));
}

/* Writes it as f16 operand, K-major in swizzled atoms, brought near 1 by a power of two per head.
 * Columns of each 64 are permuted as the scores' warps read rows: of a lane's 16 bytes, four go
 * into each of four MMA steps. */
static __device__ __forceinline__ void store_q(const q_part &part, float common_factor,
                                               uint8_t *shared, control &control, uint32_t warp,
                                               uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < Q_GROUPS; i++) {
        uint32_t head = (warp + i * Q_WARPS) * 4 + lane / 8;
        float largest = 0;
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            const uint4 &four = part.columns[i][block];
            largest = largest_of(largest_of(largest, four.x), four.y);
            largest = largest_of(largest_of(largest, four.z), four.w);
        }
#pragma unroll
        for (uint32_t offset = 4; offset > 0; offset /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
        }
        int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
        exponent = min(max(exponent, -60), 60);
        float scale = __uint_as_float(static_cast<uint32_t>(127 - exponent) << 23);
        if (lane % 8 == 0) {
            float unscale = __uint_as_float(static_cast<uint32_t>(127 + exponent) << 23);
            control.head[head] = make_float2(common_factor * unscale, 0.0f);
        }
        /* Pair p of a block's 32 is word p / 8 of 16-byte unit p % 8. */
        uint32_t row = address_of(shared) + Q_OFFSET + head * 128 + lane % 8 / 2 * 4;
        uint32_t swizzle = head % 8;
#pragma unroll
        for (uint32_t block = 0; block < BLOCKS_OF_Q; block++) {
            const uint4 &four = part.columns[i][block];
            const uint32_t pairs[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                float low = __uint_as_float(pairs[j] << 16) * scale;
                float high = __uint_as_float(pairs[j] & 0xffff0000u) * scale;
                uint32_t unit = (lane % 2 * 4 + j) ^ swizzle;
                store4(row + block * HEADS * 128 + unit * 16, half2_of_floats(low, high));
            }
        }
    }
}

/* A loader's warp brings a strip of each tile: a lane every fourth 16 bytes of rows
 * row_of(lane / 4) and 8 further, whose places it knows a tile ahead. */
struct lane_places {
    uint32_t place[2];
};

/* Behind the last row: any row that is finite; its weight is 0. */
static __device__ __forceinline__ void find_places(lane_places &found, const int32_t *places,
                                                   uint32_t first, uint32_t end)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = first + i * 8;
        found.place[i] = static_cast<uint32_t>(__ldg(places + min(at, end - 1)));
    }
}

static __device__ __forceinline__ void copy_rows(const struct kvt_gpu_attend &attend,
                                                 const lane_places &from, uint32_t strip_address,
                                                 uint64_t *full, uint32_t lane)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *row =
            attend.rows + static_cast<uint64_t>(from.place[i]) * attend.row_bytes + lane % 4 * 16;
        uint32_t dst = strip_address + (i * 8 + row_of(lane / 4)) * ROW_STRIDE + lane % 4 * 16;
#pragma unroll
        for (uint32_t piece = 0; piece < WIDTH / 64; piece++) {
            copy16_async(dst + piece * 64, row + piece * 64);
        }
    }
    barrier_arrive_copied(full);
}

/* A block's share of a query's rows: tiles, cut at whole ones of the rows that there are, so that
 * nothing but they and `splits` say what is added to what. */
struct block_share {
    uint32_t first_row, rows, tiles;
};

static __device__ __forceinline__ block_share find_share(uint32_t all_rows, uint32_t split,
                                                         uint32_t splits)
{
    uint32_t all_tiles = (all_rows + TILE_ROWS - 1) / TILE_ROWS;
    uint32_t first_tile = splits == 1 ? 0 : all_tiles * split / splits;
    uint32_t end_tile = splits == 1 ? all_tiles : all_tiles * (split + 1) / splits;
    block_share share;
    share.first_row = first_tile * TILE_ROWS;
    share.tiles = end_tile - first_tile;
    share.rows = min(all_rows - share.first_row, share.tiles * TILE_ROWS);
    return share;
}

/* The loader's warpgroup: brings every tile. Places are known a tile ahead; the first are asked
 * for as if there were k rows, while the last place says whether there are. Rows of the second tile
 * wait until q is there. */
static __device__ __forceinline__ void run_loads(const struct kvt_gpu_attend &attend,
                                                 const int32_t *places, uint8_t *shared,
                                                 control &control, uint32_t split, uint32_t splits,
                                                 uint32_t thread)
{
    uint32_t warp = thread / 32, lane = thread % 32;
    uint32_t row = warp * STRIP_ROWS + row_of(lane / 4);
    block_share share = find_share(attend.k, split, splits);
    int32_t last = __ldg(places + attend.k - 1);
    lane_places next;
    find_places(next, places + share.first_row, row, attend.k - share.first_row);
    if (thread < STRIPS) {
        barrier_init(&control.full[thread], 32);
        barrier_init(&control.empty[thread], 2 * GROUP / 32 * WARP_ARRIVALS);
    }
    named_sync(LOADER_BARRIER, GROUP);
    if (last < 0) {
        share = find_share(count_places(places, attend.k, last, lane), split, splits);
        if (share.tiles > 0) {
            find_places(next, places + share.first_row, row, share.rows);
        }
    }
    places += share.first_row;
    ring_place place = {warp, 1};
    uint32_t strips = address_of(shared) + STRIP_OFFSET;
    for (uint32_t tile = 0; tile < share.tiles; tile++) {
        lane_places now = next;
        if (tile + 1 < share.tiles) {
            find_places(next, places, (tile + 1) * TILE_ROWS + row, share.rows);
        }
        barrier_wait(&control.empty[place.strip], place.parity);
        copy_rows(attend, now, strips + place.strip * STRIP_BYTES, &control.full[place.strip],
                  lane);
        advance(place, STRIPS_OF_TILE);
        if (tile == 0) {
            named_sync(START_BARRIER, THREADS);
        }
    }
    if (share.tiles == 0) {
        named_arrive(START_BARRIER, THREADS);
    }
}

} // namespace attend_tile
#endif

#endif
