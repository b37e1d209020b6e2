/* promote.cu -- promoted rows, from staging to the slots that they take, within HBM. */
#include "resolve.cuh"

enum {
    THREADS = 256,
    PARTS = 8 /* blocks a request */
};

struct promote_args {
    struct kvt_gpu_resolve call;
    uint32_t wave;
};

/* A place is the source of one pair or the target of one pair, and staging is never a target. */
static __global__ void __launch_bounds__(THREADS) promote(const __grid_constant__ promote_args args)
{
    const struct kvt_gpu_resolve &call = args.call;
    const struct kvt_gpu_counts &counts = call.counts[blockIdx.y];
    const uint32_t *pairs = call.promoted + 2 * (size_t)blockIdx.y * call.missed_stride;
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;
    const uint32_t row_units = (uint32_t)(row_bytes / 16);

    if (counts.wave != args.wave)
        return;
    for (uint32_t pair = blockIdx.x; pair < counts.promoted_rows; pair += PARTS) {
        const uint4 *from = (const uint4 *)(call.pool + pairs[2 * pair] * row_bytes);
        uint4 *to = (uint4 *)(call.pool + pairs[2 * pair + 1] * row_bytes);
        for (uint32_t i = threadIdx.x; i < row_units; i += THREADS)
            to[i] = from[i];
    }
}

cudaError_t kvt_gpu_promote(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                            cudaStream_t stream)
{
    if (resolve->request_count == 0)
        return cudaSuccess;
    promote<<<dim3(PARTS, resolve->request_count), THREADS, 0, stream>>>({*resolve, wave});
    return cudaGetLastError();
}
