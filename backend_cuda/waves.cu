/* waves.cu -- calls that share a rank's staging, in waves: sim/backend/waves.c, bit for bit.
 *
 *     for each call, in the order of the batch
 *         it joins the first wave whose arena has room for its staged rows; they lie behind those
 *         of the calls before it
 *
 * One wave after the other or one call after the other, first fit gives the same waves. Every
 * block goes through the calls up to its own (at most a few hundred, one warp, 32 waves at a time)
 * and then gives its own call's rows their places: one launch, and no block waits for another. */
#include "resolve.cuh"

enum {
    THREADS = 256
};

struct waves_args {
    struct kvt_gpu_resolve call;
    uint64_t arena_rows;
    uint32_t *wave_count;
};

struct wave_place {
    uint32_t wave, waves;
    uint64_t first_row; /* of the arena, that is the call's own */
};

/* Of call `index`, by one warp. used: [calls] rows taken, by wave. waves: after this call. */
static __device__ wave_place find_wave(const struct kvt_gpu_resolve &call, uint32_t index,
                                       uint64_t arena_rows, uint64_t *used)
{
    const uint32_t lane = threadIdx.x % WARP_THREADS;
    wave_place place = {0, 1, 0};

    if (lane == 0)
        used[0] = 0;
    __syncwarp();
    for (uint32_t i = 0; i <= index; i++) {
        const uint32_t staged = call.counts[i].staged_rows;
        place.wave = place.waves;
        for (uint32_t first = 0; first < place.waves; first += WARP_THREADS) {
            const uint32_t wave = first + lane;
            const bool fits = wave < place.waves && staged <= arena_rows - used[wave];
            const uint32_t fitting = __ballot_sync(EVERY_LANE, fits);
            if (fitting != 0) {
                place.wave = first + __ffs((int)fitting) - 1;
                break;
            }
        }
        const bool opens = place.wave == place.waves;
        place.waves += opens;
        place.first_row = opens ? 0 : used[place.wave];
        __syncwarp();
        if (lane == 0)
            used[place.wave] = place.first_row + staged;
        __syncwarp();
    }
    return place;
}

/* A place that resolve_staged_place() left open. */
static __device__ __forceinline__ int32_t settle(int32_t place, int32_t staging0)
{
    return place < KVT_GPU_NONE ? staging0 + (-2 - place) : place;
}

static __global__ void __launch_bounds__(THREADS) waves(const __grid_constant__ waves_args args)
{
    extern __shared__ uint64_t used[];
    __shared__ wave_place shared_place;
    const struct kvt_gpu_resolve &call = args.call;
    const uint32_t index = blockIdx.x;
    const bool is_last = index + 1 == call.request_count;
    struct kvt_gpu_counts &counts = call.counts[index];

    if (counts.staged_rows == 0 && !is_last)
        return; /* in wave 0, where the resolver has put it */
    if (threadIdx.x < WARP_THREADS) {
        const wave_place found = find_wave(call, index, args.arena_rows, used);
        if (threadIdx.x == 0)
            shared_place = found;
    }
    __syncthreads();
    const wave_place place = shared_place;
    const int32_t staging0 = call.places.staging0 + (int32_t)place.first_row;
    if (threadIdx.x == 0) {
        counts.wave = place.wave;
        if (is_last)
            *args.wave_count = place.waves;
    }
    if (counts.staged_rows == 0)
        return;
    const struct kvt_gpu_request request = call.requests[index];
    int32_t *places = call.row_places + (size_t)request.first_query * call.top_k;
    for (uint32_t i = threadIdx.x; i < request.query_count * call.top_k; i += THREADS)
        places[i] = settle(places[i], staging0);
    int32_t *missed_places = call.missed_places + (size_t)index * call.missed_stride;
    for (uint32_t m = threadIdx.x; m < counts.staged_rows; m += THREADS)
        missed_places[counts.filled_rows + m] = staging0 + (int32_t)m;
    uint32_t *promoted = call.promoted + 2 * (size_t)index * call.missed_stride;
    for (uint32_t i = threadIdx.x; i < counts.promoted_rows; i += THREADS)
        promoted[2 * i] = (uint32_t)settle((int32_t)promoted[2 * i], staging0);
}

cudaError_t kvt_gpu_waves(const struct kvt_gpu_resolve *resolve, uint64_t arena_rows,
                          uint32_t *wave_count, cudaStream_t stream)
{
    const uint32_t calls = resolve->request_count;

    if (calls == 0 || resolve->staging_share != 0)
        return cudaErrorInvalidValue;
    waves<<<calls, THREADS, calls * sizeof(uint64_t), stream>>>({*resolve, arena_rows, wave_count});
    return cudaGetLastError();
}
