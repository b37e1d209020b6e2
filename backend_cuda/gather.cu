/* gather.cu -- missing rows from pinned host memory to their places, by the GPU's own loads.
 *
 *     the miss lists of all requests, end to end, are cut into as many pieces as there are blocks;
 *     a block goes through its piece in order: 16 bytes a thread and load, two loads under way
 *     before the first is stored
 *
 * Floor: bytes / 51 GB/s, which is what the link gives to zero copy, or the 64-KiB pieces of host
 * memory that the rows lie in / 37 to 50 million a second, whichever is longer. Small rows pay for
 * translations of host addresses, and pay less the fewer places of memory are read at a time: lists
 * ascend for each query, and sixteen blocks, one to a pair of multiprocessors, fill the link
 * (docs/cuda.md has what other shapes cost). The rest of the device is left to whoever computes
 * meanwhile. */
#include "gather.cuh"
#include "resolve.cuh"

enum {
    THREADS = 1024,
    BLOCKS = 16,
    LOADS = 2,          /* of 16 bytes, under way a thread */
    REQUESTS_MAX = 1024 /* whose lists are laid end to end at a time */
};

/* What is copied of each missing row, in units of 16 bytes. */
struct gather_args {
    struct kvt_gpu_resolve call;
    enum gather_choice choice;
    uint32_t wave;
    uint32_t first_layer;
    uint32_t row_units;   /* of all layers that are copied */
    uint32_t layer_units; /* of one layer, or of all where they lie end to end */
};

/* Divides by a number that is the same for all: n * units stays below 2^32 for 4,096 rows of up to
 * 16 KiB. */
struct divisor {
    uint32_t units, magic;

    __device__ __forceinline__ explicit divisor(uint32_t by)
        : units(by), magic((uint32_t)(((1ull << 32) + by - 1) / by))
    {
    }
    __device__ __forceinline__ uint32_t operator()(uint32_t n) const
    {
        return units == 1 ? n : __umulhi(n, magic);
    }
};

/* Where a thread is in the lists of all requests. */
class list_walk
{
  public:
    /* ends: [requests] in shared memory, of each list within all of them. */
    __device__ __forceinline__ list_walk(const gather_args &args, uint32_t first_request,
                                         const uint32_t *ends)
        : args_(args), ends_(ends), first_request_(first_request)
    {
    }
    /* Row `at` of all lists: where it lies on the host, and where it goes. Never behind the last.
     */
    __device__ __forceinline__ void go(uint32_t at, uint64_t &row_at, int32_t &place)
    {
        if (at >= end_)
            enter(at);
        const uint32_t row = rows_[at - begin_];
        row_at = row + (row < shared_rows_ ? shared_at_ : own_at_);
        place = places_[at - begin_];
    }

  private:
    __device__ void enter(uint32_t at)
    {
        const struct kvt_gpu_resolve &call = args_.call;

        while (at >= ends_[next_])
            next_++;
        begin_ = next_ > 0 ? ends_[next_ - 1] : 0;
        end_ = ends_[next_];
        const uint32_t request = first_request_ + next_, lane = call.requests[request].lane;
        const uint32_t skipped =
            args_.choice == GATHER_STAGED ? call.counts[request].filled_rows : 0;
        rows_ = call.missed + (size_t)request * call.missed_stride + skipped;
        places_ = call.missed_places + (size_t)request * call.missed_stride + skipped;
        shared_rows_ = call.host.shared_rows[lane];
        shared_at_ = call.host.shared_at[lane];
        own_at_ = call.host.own_at[lane];
    }

    const gather_args &args_;
    const uint32_t *ends_;
    uint32_t first_request_, next_ = 0, begin_ = 0, end_ = 0;
    const uint32_t *rows_ = nullptr;
    const int32_t *places_ = nullptr;
    uint32_t shared_rows_ = 0;
    uint64_t shared_at_ = 0, own_at_ = 0;
};

/* Host memory is read once: it passes L1 without staying. */
static __device__ __forceinline__ uint4 load_once(const uint8_t *from)
{
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
    return value;
}

/* Rows [first, last) of all lists. */
static __device__ __forceinline__ void copy_rows(const gather_args &args, list_walk &walk,
                                                 uint32_t first, uint32_t last)
{
    const struct kvt_gpu_resolve &call = args.call;
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;
    const uint8_t *base = call.host.base + args.first_layer * call.host.layer_stride;
    uint8_t *pool = call.pool + (uint64_t)args.first_layer * call.layer_bytes;
    const divisor by_row(args.row_units), by_layer(args.layer_units);
    const uint32_t units = (last - first) * args.row_units;

    for (uint32_t begin = threadIdx.x; begin < units; begin += THREADS * LOADS) {
        uint4 values[LOADS];
        uint8_t *to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint32_t unit = begin + i * THREADS;
            if (unit >= units)
                continue;
            const uint32_t m = by_row(unit), in_row = unit - m * args.row_units;
            const uint32_t layer = by_layer(in_row), in_layer = in_row - layer * args.layer_units;
            uint64_t row_at;
            int32_t place;
            walk.go(first + m, row_at, place);
            values[i] = load_once(base + row_at * call.host.row_stride +
                                  layer * call.host.layer_stride + in_layer * 16);
            to[i] = pool + (uint64_t)place * row_bytes + in_row * 16;
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            if (begin + i * THREADS < units)
                *(uint4 *)to[i] = values[i];
        }
    }
}

/* Rows that a request has in the lists. */
static __device__ __forceinline__ uint32_t rows_of(const gather_args &args, uint32_t request)
{
    const struct kvt_gpu_counts &counts = args.call.counts[request];

    if (args.choice == GATHER_STAGED)
        return counts.wave == args.wave ? counts.staged_rows : 0;
    /* Where the arena is shared in waves, staged rows have no place yet. */
    return counts.filled_rows + (args.call.staging_share > 0 ? counts.staged_rows : 0);
}

static __global__ void __launch_bounds__(THREADS) gather(const __grid_constant__ gather_args args)
{
    enum {
        TILE_ROWS = 4096 /* for the divisor */
    };
    __shared__ uint32_t ends[REQUESTS_MAX], warp_totals[BLOCK_WARPS_MAX];

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    for (uint32_t first = 0; first < args.call.request_count; first += REQUESTS_MAX) {
        const uint32_t own = first + threadIdx.x;
        const uint32_t rows = own < args.call.request_count ? rows_of(args, own) : 0;
        uint32_t all;
        ends[threadIdx.x] = resolve_block_scan(rows, warp_totals, &all) + rows;
        __syncthreads();
        const uint32_t last = (uint32_t)((uint64_t)all * (blockIdx.x + 1) / gridDim.x);
        list_walk walk(args, first, ends);
        for (uint32_t at = (uint32_t)((uint64_t)all * blockIdx.x / gridDim.x); at < last;
             at += TILE_ROWS)
            copy_rows(args, walk, at, min(at + TILE_ROWS, last));
        __syncthreads();
    }
}

cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_choice choice,
                          uint32_t wave, uint32_t first_layer, uint32_t layers,
                          bool behind_resolver, cudaStream_t stream)
{
    const struct kvt_gpu_host_rows *host = &resolve->host;
    const uint32_t layer_units = resolve->layer_bytes / 16, row_units = layers * layer_units;
    const bool end_to_end = host->layer_stride == resolve->layer_bytes;
    const struct gather_args args = {*resolve,    choice,    wave,
                                     first_layer, row_units, end_to_end ? row_units : layer_units};

    if (resolve->layer_bytes % 16 != 0 || host->row_stride % 16 != 0 ||
        host->layer_stride % 16 != 0)
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0 || row_units == 0)
        return cudaSuccess;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(BLOCKS);
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
