/* gather.cu -- missing rows from pinned host memory to their places, by the GPU's own loads.
 *
 *     of each request's miss list, a run of rows a block; 16 bytes a thread and load, four loads
 *     under way before the first is stored
 *
 * Floor: bytes / 51 GB/s (the link by zero copy), or the 64-KiB pieces of host memory that the rows
 * lie in / 33 million a second, whichever is longer. */
#include "resolve.cuh"

enum {
    THREADS = 512,
    LOADS = 4 /* of 16 bytes, under way a thread */
};

struct gather_args {
    struct kvt_gpu_resolve call;
    enum gather_rows rows;
    uint32_t wave;
    uint32_t first_layer;
    uint32_t row_units;              /* 16-byte units copied of each row */
    uint32_t layer_units;            /* of one layer, or of all of them where they lie end to end */
    uint32_t row_magic, layer_magic; /* 2^32 / units, rounded up */
};

/* n / units, for n * units below 2^32. */
static __device__ __forceinline__ uint32_t divide(uint32_t n, uint32_t units, uint32_t magic)
{
    return units == 1 ? n : __umulhi(n, magic);
}

static uint32_t magic_of(uint32_t units)
{
    return (uint32_t)(((UINT64_C(1) << 32) + units - 1) / units);
}

/* Host memory is read once: it goes through L1 without staying. */
static __device__ __forceinline__ uint4 load_once(const uint8_t *src)
{
    uint4 value;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(src));
    return value;
}

static __global__ void __launch_bounds__(THREADS) gather(const __grid_constant__ gather_args args)
{
    const struct kvt_gpu_resolve &call = args.call;
    const uint32_t request = blockIdx.y, lane = call.requests[request].lane;
    const struct kvt_gpu_host_rows &host = call.host;
    const uint32_t shared_rows = host.shared_rows[lane];
    const uint64_t shared_at = host.shared_at[lane], own_at = host.own_at[lane];
    const uint32_t *missed = call.missed + (size_t)request * call.missed_stride;
    const int32_t *places = call.missed_places + (size_t)request * call.missed_stride;
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const struct kvt_gpu_counts &counts = call.counts[request];
    const uint32_t filled = counts.filled_rows, all = filled + counts.staged_rows;
    uint32_t first = args.rows == GATHER_STAGED ? filled : 0;
    uint32_t last = args.rows == GATHER_FILLED ? filled : all;
    if (args.rows == GATHER_STAGED && counts.wave != args.wave)
        last = first;
    const uint32_t own_first = first + (uint64_t)(last - first) * blockIdx.x / gridDim.x;
    const uint32_t own_last = first + (uint64_t)(last - first) * (blockIdx.x + 1) / gridDim.x;
    const uint32_t units = (own_last - own_first) * args.row_units;

    for (uint32_t begin = threadIdx.x; begin < units; begin += THREADS * LOADS) {
        uint4 values[LOADS];
        uint8_t *to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint32_t unit = begin + i * THREADS;
            if (unit >= units)
                continue;
            const uint32_t m = divide(unit, args.row_units, args.row_magic);
            const uint32_t in_row = unit - m * args.row_units;
            const uint32_t layer = divide(in_row, args.layer_units, args.layer_magic);
            const uint32_t in_layer = in_row - layer * args.layer_units;
            const uint32_t row = missed[own_first + m];
            const uint64_t at = row + (row < shared_rows ? shared_at : own_at);
            const uint8_t *from = host.base + at * host.row_stride +
                                  (args.first_layer + layer) * host.layer_stride + in_layer * 16;
            values[i] = load_once(from);
            to[i] = call.pool + (uint64_t)places[own_first + m] * row_bytes +
                    (uint64_t)args.first_layer * call.layer_bytes + in_row * 16;
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            if (begin + i * THREADS < units)
                *(uint4 *)to[i] = values[i];
        }
    }
}

cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_rows rows,
                          uint32_t wave, uint32_t first_layer, uint32_t layers, cudaStream_t stream)
{
    const struct kvt_gpu_host_rows *host = &resolve->host;
    const bool end_to_end = host->layer_stride == resolve->layer_bytes;
    const uint32_t row_units = layers * (resolve->layer_bytes / 16);
    const uint32_t layer_units = end_to_end ? row_units : resolve->layer_bytes / 16;
    struct gather_args args = {*resolve,
                               rows,
                               wave,
                               first_layer,
                               row_units,
                               layer_units,
                               magic_of(row_units),
                               magic_of(layer_units)};

    if (resolve->layer_bytes % 16 != 0 || host->row_stride % 16 != 0 ||
        host->layer_stride % 16 != 0)
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0 || layers == 0)
        return cudaSuccess;
    const uint32_t parts = resolve->request_count >= 66 ? 2 : 132 / resolve->request_count;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(parts, resolve->request_count);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    cudaError_t error = cudaLaunchKernelEx(&config, gather, args);
    return error != cudaSuccess ? error : cudaGetLastError();
}

cudaError_t kvt_gpu_fetch_followers(const struct kvt_gpu_resolve *resolve, uint32_t first_layer,
                                    cudaStream_t stream)
{
    if (first_layer >= resolve->layers)
        return cudaSuccess;
    return gather_launch(resolve, resolve->staging_share > 0 ? GATHER_MISSED : GATHER_FILLED, 0,
                         first_layer, resolve->layers - first_layer, stream);
}

cudaError_t kvt_gpu_fetch_wave(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                               cudaStream_t stream)
{
    return gather_launch(resolve, GATHER_STAGED, wave, 0, resolve->layers, stream);
}
