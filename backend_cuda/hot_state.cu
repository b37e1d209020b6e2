/* hot_state.cu -- hot caches as a whole: emptied, and hashed. */
#include "resolve.cuh"

enum {
    THREADS = 256
};

static __global__ void __launch_bounds__(THREADS) reset(struct kvt_gpu_hot hot, uint32_t lane)
{
    const uint32_t first = blockIdx.x * THREADS + threadIdx.x, step = gridDim.x * THREADS;

    for (uint32_t slot = first; slot < hot.slots_max; slot += step) {
        hot.slot_rows[(size_t)lane * hot.slots_max + slot] = NO_ROW;
        hot.order[(size_t)lane * hot.slots_max + slot] = (uint16_t)slot;
    }
    for (uint32_t row = first; row < hot.rows_max; row += step)
        hot.slot_of_row[(size_t)lane * hot.rows_max + row] = NOT_CACHED;
}

cudaError_t kvt_gpu_hot_reset(const struct kvt_gpu_hot *hot, uint32_t lane, cudaStream_t stream)
{
    const uint32_t items = hot->rows_max > hot->slots_max ? hot->rows_max : hot->slots_max;
    const uint32_t items_a_block = THREADS * 8;

    reset<<<(items + items_a_block - 1) / items_a_block, THREADS, 0, stream>>>(*hot, lane);
    return cudaGetLastError();
}

/* A block a lane: a slot's rank is where it stands in the order. Sums of integers, in any order. */
static __global__ void __launch_bounds__(THREADS)
    state_hash(struct kvt_gpu_hot hot, const uint32_t *lanes, uint64_t *hashes)
{
    __shared__ unsigned long long sum;
    const size_t lane = lanes[blockIdx.x];
    const uint16_t *order = hot.order + lane * hot.slots_max;
    const uint32_t *slot_rows = hot.slot_rows + lane * hot.slots_max;
    const uint32_t slot_count = hot.slot_counts[lane];
    uint64_t own = 0;

    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    for (uint32_t rank = threadIdx.x; rank < slot_count; rank += THREADS) {
        const uint32_t slot = order[rank], row = slot_rows[slot];
        if (row != NO_ROW)
            own += resolve_chain64((uint64_t)slot << 32 | row, rank);
    }
    resolve_add(&sum, own);
    __syncthreads();
    if (threadIdx.x == 0)
        hashes[blockIdx.x] = sum;
}

cudaError_t kvt_gpu_state_hash(const struct kvt_gpu_hot *hot, const uint32_t *lanes,
                               uint32_t lane_count, uint64_t *hashes, cudaStream_t stream)
{
    if (lane_count == 0)
        return cudaSuccess;
    state_hash<<<lane_count, THREADS, 0, stream>>>(*hot, lanes, hashes);
    return cudaGetLastError();
}
