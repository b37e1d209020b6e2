/* gather.cu -- copies of missing rows as kernels of their own: behind a resolver whose blocks are
 * too few to fill the link, for followers, and for staging in waves. */
#include "gather.cuh"

enum {
    THREADS = 512,
    BLOCKS = 128 /* of all requests, about */
};

struct gather_args {
    struct kvt_gpu_resolve call;
    struct gather_shape shape;
    enum gather_choice choice;
    uint32_t wave;
};

/* Block x of request y takes its share of the list in one piece. */
static __global__ void __launch_bounds__(THREADS) gather(const __grid_constant__ gather_args args)
{
    const struct kvt_gpu_resolve &call = args.call;
    const uint32_t request = blockIdx.y, lane = call.requests[request].lane;
    const uint32_t *rows = call.missed + (size_t)request * call.missed_stride;
    const int32_t *places = call.missed_places + (size_t)request * call.missed_stride;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const struct kvt_gpu_counts &counts = call.counts[request];
    const uint32_t filled = counts.filled_rows, staged = counts.staged_rows;
    uint32_t first = 0, count = gather_count(call, filled, staged);
    if (args.choice == GATHER_STAGED) {
        first = filled;
        count = counts.wave == args.wave ? staged : 0;
    }
    const uint32_t own_first = first + (uint64_t)count * blockIdx.x / gridDim.x;
    const uint32_t own_last = first + (uint64_t)count * (blockIdx.x + 1) / gridDim.x;
    gather_rows<4>(call, args.shape, lane, rows + own_first, places + own_first,
                   own_last - own_first, [] {});
}

cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_choice choice,
                          uint32_t wave, uint32_t first_layer, uint32_t layers,
                          bool behind_resolver, cudaStream_t stream)
{
    struct gather_args args = {*resolve, {}, choice, wave};

    if (!gather_make_shape(resolve, first_layer, layers, &args.shape))
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0)
        return cudaSuccess;
    const uint32_t parts = (BLOCKS + resolve->request_count - 1) / resolve->request_count;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(parts, resolve->request_count);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = behind_resolver ? 1 : 0;
    cudaError_t error = cudaLaunchKernelEx(&config, gather, args);
    return error != cudaSuccess ? error : cudaGetLastError();
}

cudaError_t kvt_gpu_fetch_followers(const struct kvt_gpu_resolve *resolve, uint32_t first_layer,
                                    cudaStream_t stream)
{
    if (first_layer >= resolve->layers)
        return cudaSuccess;
    return gather_launch(resolve, GATHER_MISSED, 0, first_layer, resolve->layers - first_layer,
                         false, stream);
}

cudaError_t kvt_gpu_fetch_wave(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                               cudaStream_t stream)
{
    return gather_launch(resolve, GATHER_STAGED, wave, 0, resolve->layers, false, stream);
}
