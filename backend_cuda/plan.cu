/* plan.cu -- calls that were decided on the CPU: the copies, and which row each slot holds. */
#include "gather.cuh"
#include "resolve.cuh"

enum {
    THREADS = 256
};

/* Fills first, then promotions: a slot may have both in one call. Staged rows lie end to end from
 * the first one's place on, so that a promoted row is found by where it was. */
static __global__ void __launch_bounds__(THREADS)
    keep_slot_rows(const __grid_constant__ struct kvt_gpu_resolve call)
{
    const uint32_t request = blockIdx.x, lane = call.requests[request].lane;
    const struct kvt_gpu_counts &counts = call.counts[request];
    const uint32_t *missed = call.missed + (size_t)request * call.missed_stride;
    const int32_t *places = call.missed_places + (size_t)request * call.missed_stride;
    const uint32_t *pairs = call.promoted + 2 * (size_t)request * call.missed_stride;
    const int32_t hot0 = call.places.hot0 + (int32_t)lane * call.places.hot_stride;
    uint32_t *slot_rows = call.hot.slot_rows + (size_t)lane * call.hot.slots_max;

    for (uint32_t m = threadIdx.x; m < counts.filled_rows; m += THREADS)
        slot_rows[places[m] - hot0] = missed[m];
    __syncthreads();
    const uint32_t filled = counts.filled_rows;
    for (uint32_t i = threadIdx.x; i < counts.promoted_rows; i += THREADS) {
        const int32_t staged = (int32_t)pairs[2 * i] - places[filled];
        slot_rows[(int32_t)pairs[2 * i + 1] - hot0] = missed[filled + (uint32_t)staged];
    }
}

cudaError_t kvt_gpu_execute_plan(const struct kvt_gpu_resolve *resolve, cudaStream_t stream)
{
    if (resolve->request_count == 0)
        return cudaSuccess;
    keep_slot_rows<<<resolve->request_count, THREADS, 0, stream>>>(*resolve);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess || resolve->fetch == KVT_GPU_FETCH_NONE)
        return error;
    return gather_launch(resolve, GATHER_MISSED, 0, 0,
                         resolve->fetch == KVT_GPU_FETCH_LEADER ? 1 : resolve->layers, GATHER_ALONE,
                         stream);
}
