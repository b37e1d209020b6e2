/* resolve.cuh -- what the resolver's kernels share: a call, where rows are, hashes, scans. */
#ifndef KVT_RESOLVE_CUH
#define KVT_RESOLVE_CUH

#include "launch.h"

enum {
    WARP_THREADS = 32,
    BLOCK_WARPS_MAX = 32
};

#define EVERY_LANE 0xffffffffu
#define NO_ROW 0xffffffffu /* in slot_rows: the slot is empty */
#define NOT_CACHED 0xffffu /* in slot_of_row */

/* A call with what the launcher works out once; kernels take it by value. */
struct resolve_args {
    struct kvt_gpu_resolve call;
    uint32_t ratio_shift; /* log2 of the ratio */
    uint32_t page_shift;  /* log2 of a page's rows */
};

/* False where the ratio is not a power of two up to a page's tokens. */
static inline bool resolve_make_args(const struct kvt_gpu_resolve *resolve,
                                     struct resolve_args *args)
{
    uint32_t shift = 0;

    while (resolve->ratio > 1u << shift && shift < 6)
        shift++;
    *args = {};
    args->call = *resolve;
    args->ratio_shift = shift;
    args->page_shift = 6 - shift;
    return resolve->ratio == 1u << shift;
}

/* What is one request's: its numbers, its state, its answers. */
struct resolve_view {
    uint32_t index, lane, first_query, query_count;
    uint32_t tail_first_row, frame_count;
    int32_t hot0, tail0, staging0; /* places of slot 0, of tail row 0, of staged row 0 */
    const int32_t *frames;
    uint32_t *slot_rows;
    uint16_t *order, *slot_of_row;
    uint32_t *missed;
    int32_t *missed_places;
    uint32_t *promoted;
};

static __device__ __forceinline__ resolve_view resolve_view_of(const resolve_args &args,
                                                               uint32_t index)
{
    const struct kvt_gpu_resolve &call = args.call;
    const struct kvt_gpu_request request = call.requests[index];
    const uint32_t rows = (request.context_tokens + request.query_count) >> args.ratio_shift;
    const size_t lane = request.lane;
    resolve_view view;

    view.index = index;
    view.lane = request.lane;
    view.first_query = request.first_query;
    view.query_count = request.query_count;
    view.tail_first_row = rows > KVT_GPU_TAIL_ROWS ? rows - KVT_GPU_TAIL_ROWS : 0;
    view.frame_count = request.frame_count;
    view.hot0 = call.places.hot0 + (int32_t)request.lane * call.places.hot_stride;
    view.tail0 = call.places.tail0 + (int32_t)(request.lane * KVT_GPU_TAIL_ROWS);
    view.staging0 = call.places.staging0 + (int32_t)(index * call.staging_share);
    view.frames = call.frames + lane * call.frame_stride;
    view.slot_rows = call.hot.slot_rows + lane * call.hot.slots_max;
    view.order = call.hot.order + lane * call.hot.slots_max;
    view.slot_of_row = call.hot.slot_of_row + lane * call.hot.rows_max;
    view.missed = call.missed + (size_t)index * call.missed_stride;
    view.missed_places = call.missed_places + (size_t)index * call.missed_stride;
    view.promoted = call.promoted + 2 * (size_t)index * call.missed_stride;
    return view;
}

/* The frame of a row's page, or KVT_GPU_NONE. */
static __device__ __forceinline__ int32_t resolve_frame_of(const resolve_args &args,
                                                           const resolve_view &view, uint32_t row)
{
    const uint32_t page = row >> args.page_shift;
    return page < view.frame_count ? __ldg(view.frames + page) : KVT_GPU_NONE;
}

static __device__ __forceinline__ int32_t resolve_tail_place(const resolve_view &view, uint32_t row)
{
    return view.tail0 + (int32_t)(row % KVT_GPU_TAIL_ROWS);
}

static __device__ __forceinline__ int32_t resolve_frame_place(const resolve_args &args,
                                                              int32_t frame, uint32_t row)
{
    const uint32_t page_rows = 1u << args.page_shift;
    return args.call.places.frame0 + (frame << args.page_shift) + (int32_t)(row & (page_rows - 1));
}

/* Of staged row m. Where the arena is shared in waves it has no place yet, and a number below
 * KVT_GPU_NONE, by which kvt_gpu_waves() knows it. */
static __device__ __forceinline__ int32_t resolve_staged_place(const resolve_args &args,
                                                               const resolve_view &view, uint32_t m)
{
    return args.call.staging_share > 0 ? view.staging0 + (int32_t)m : -2 - (int32_t)m;
}

/* The row takes the slot; whatever was in it leaves. */
static __device__ __forceinline__ void resolve_put(const resolve_view &view, uint32_t slot,
                                                   uint32_t row)
{
    const uint32_t old = view.slot_rows[slot];

    if (old != NO_ROW)
        view.slot_of_row[old] = NOT_CACHED;
    view.slot_rows[slot] = row;
    view.slot_of_row[row] = (uint16_t)slot;
}

/* ---- Hashes (kvt/hash.h, kvt/resolver.h) ---- */

static __device__ __forceinline__ uint64_t resolve_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static __device__ __forceinline__ uint64_t resolve_chain64(uint64_t chain, uint64_t value)
{
    return resolve_mix64(chain * 0x9e3779b97f4a7c15ull + value + 1);
}

/* A term of placed_hash. */
static __device__ __forceinline__ uint64_t resolve_placed(uint32_t slot, uint32_t row)
{
    return resolve_mix64(((uint64_t)slot << 32 | row) + 1);
}

/* ---- Sums over a block ---- */

static __device__ __forceinline__ uint64_t resolve_warp_sum(uint64_t value)
{
    for (int step = WARP_THREADS / 2; step > 0; step /= 2)
        value += __shfl_down_sync(EVERY_LANE, value, step);
    return value;
}

/* Adds the values of all threads to *sum, in shared memory: of integers, in any order. */
static __device__ __forceinline__ void resolve_add(unsigned long long *sum, uint64_t value)
{
    value = resolve_warp_sum(value);
    if (threadIdx.x % WARP_THREADS == 0 && value != 0)
        atomicAdd(sum, (unsigned long long)value);
}

static __device__ __forceinline__ uint32_t resolve_warp_scan(uint32_t value)
{
    const uint32_t lane = threadIdx.x % WARP_THREADS;

    for (uint32_t step = 1; step < WARP_THREADS; step *= 2) {
        uint32_t before = __shfl_up_sync(EVERY_LANE, value, step);
        if (lane >= step)
            value += before;
    }
    return value;
}

/* The sum of the values of the threads before this one; *total: of all. Has one barrier, so that
 * the next scan needs other warp_totals ([BLOCK_WARPS_MAX] in shared memory) or a barrier
 * before it. */
static __device__ __forceinline__ uint32_t resolve_block_scan(uint32_t value, uint32_t *warp_totals,
                                                              uint32_t *total)
{
    const uint32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    const uint32_t through = resolve_warp_scan(value);

    if (lane == WARP_THREADS - 1)
        warp_totals[warp] = through;
    __syncthreads();
    const uint32_t of_warp = lane < blockDim.x / WARP_THREADS ? warp_totals[lane] : 0;
    const uint32_t through_warps = resolve_warp_scan(of_warp);
    *total = __shfl_sync(EVERY_LANE, through_warps, WARP_THREADS - 1);
    return __shfl_sync(EVERY_LANE, through_warps - of_warp, (int)warp) + through - value;
}

/* ---- Kernels behind kvt_gpu_resolve() ---- */

/* The fast ones are for calls that fit them. */
bool resolve_fits_one(const struct kvt_gpu_resolve &call);
bool resolve_fits_many(const struct kvt_gpu_resolve &call);
cudaError_t resolve_launch_one(const resolve_args &args, cudaStream_t stream);
cudaError_t resolve_launch_many(const resolve_args &args, cudaStream_t stream);
cudaError_t resolve_launch_reference(const resolve_args &args, cudaStream_t stream);

#endif
