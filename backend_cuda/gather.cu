/* gather.cu -- missing rows from pinned host memory to their places, by the GPU's own loads.
 *
 *     lay the miss lists of all requests end to end
 *     rows go round the blocks, CHUNK_ROWS at a time: all blocks read near each other
 *     of its rows a thread loads 16 bytes at a time, LOADS of them before the first is stored
 *
 * Floor: bytes / 51 GB/s, which is what the link gives to zero copy, or the 64-KiB pieces of host
 * memory that the rows lie in / 40 million a second, whichever is longer: small rows pay for
 * translations of host addresses (docs/cuda.md has the figures, and what was tried). */
#include "gather.cuh"
#include "resolve.cuh"

enum {
    THREADS = 1024,
    BLOCKS = 32,
    BLOCKS_BESIDE = 8, /* while others compute: as few as fill the link */
    LOADS = 2,
    CHUNK_ROWS = 16,
    REQUESTS_MAX = 512 /* whose lists are laid end to end at a time */
};

/* What is copied of each missing row, in units of 16 bytes. */
struct gather_args {
    struct kvt_gpu_resolve call;
    enum gather_choice choice;
    uint32_t wave;
    uint32_t first_layer;
    uint32_t row_units;   /* of all layers that are copied */
    uint32_t layer_units; /* of one layer, or of all where they lie end to end */
    uint32_t row_magic, layer_magic;
    uint32_t tile_rows; /* copied between two looks at the lists: few enough for divide() */
};

/* For divide(): 2^32 / units, rounded up. */
static uint32_t magic_of(uint32_t units)
{
    return (uint32_t)(((UINT64_C(1) << 32) + units - 1) / units);
}

/* n / units, for n * units below 2^32. */
static __device__ __forceinline__ uint32_t divide(uint32_t n, uint32_t units, uint32_t magic)
{
    return units == 1 ? n : __umulhi(n, magic);
}

/* Where the lists of up to REQUESTS_MAX requests lie; in shared memory. */
struct request_lists {
    uint32_t ends[REQUESTS_MAX]; /* of each, within all of them end to end */
    uint32_t shared_rows[REQUESTS_MAX];
    uint64_t shared_at[REQUESTS_MAX], own_at[REQUESTS_MAX];
};

/* Where a thread is in the lists of requests from first_request on. */
class list_walk
{
  public:
    __device__ __forceinline__ list_walk(const gather_args &args, const request_lists &lists,
                                         uint32_t first_request)
        : args_(args), lists_(lists), first_request_(first_request)
    {
    }
    /* Row `at` of all lists: where it lies on the host, and where it goes. Never behind the one
     * before. */
    __device__ __forceinline__ void go(uint32_t at, uint64_t &row_at, int32_t &place)
    {
        if (at >= end_)
            enter(at);
        const uint32_t row = rows_[at - begin_];
        row_at = row +
                 (row < lists_.shared_rows[next_] ? lists_.shared_at[next_] : lists_.own_at[next_]);
        place = places_[at - begin_];
    }

  private:
    __device__ void enter(uint32_t at)
    {
        const struct kvt_gpu_resolve &call = args_.call;

        while (at >= lists_.ends[next_])
            next_++;
        begin_ = next_ > 0 ? lists_.ends[next_ - 1] : 0;
        end_ = lists_.ends[next_];
        const uint32_t request = first_request_ + next_;
        const size_t list = (size_t)request * call.missed_stride +
                            (args_.choice == GATHER_STAGED ? call.counts[request].filled_rows : 0);
        rows_ = call.missed + list;
        places_ = call.missed_places + list;
    }

    const gather_args &args_;
    const request_lists &lists_;
    uint32_t first_request_, next_ = 0, begin_ = 0, end_ = 0;
    const uint32_t *rows_ = nullptr;
    const int32_t *places_ = nullptr;
};

/* The block's row `own` among all: chunks go round the blocks. */
static __device__ __forceinline__ uint32_t row_of_block(uint32_t own)
{
    return (own / CHUNK_ROWS * gridDim.x + blockIdx.x) * CHUNK_ROWS + own % CHUNK_ROWS;
}

static __device__ __forceinline__ uint32_t rows_of_block(uint32_t all)
{
    const uint32_t round = gridDim.x * CHUNK_ROWS, before = blockIdx.x * CHUNK_ROWS;
    const uint32_t rest = all % round;

    return all / round * CHUNK_ROWS +
           (rest > before ? min(rest - before, (uint32_t)CHUNK_ROWS) : 0);
}

/* Host memory is read once: it passes L1 without staying. */
static __device__ __forceinline__ uint4 load_once(const uint8_t *from)
{
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
    return value;
}

/* Of the rows that fall to this block, [first, last). */
static __device__ __forceinline__ void copy_rows(const gather_args &args, list_walk &walk,
                                                 uint32_t first, uint32_t last)
{
    const struct kvt_gpu_resolve &call = args.call;
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;
    const uint8_t *base = call.host.base + args.first_layer * call.host.layer_stride;
    uint8_t *pool = call.pool + (uint64_t)args.first_layer * call.layer_bytes;
    const uint32_t units = (last - first) * args.row_units;

    for (uint32_t begin = threadIdx.x; begin < units; begin += THREADS * LOADS) {
        uint4 values[LOADS];
        uint8_t *to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint32_t unit = begin + i * THREADS;
            if (unit >= units)
                continue;
            const uint32_t own = divide(unit, args.row_units, args.row_magic);
            const uint32_t in_row = unit - own * args.row_units;
            const uint32_t layer = divide(in_row, args.layer_units, args.layer_magic);
            uint64_t row_at;
            int32_t place;
            walk.go(row_of_block(first + own), row_at, place);
            values[i] =
                load_once(base + row_at * call.host.row_stride + layer * call.host.layer_stride +
                          (in_row - layer * args.layer_units) * 16);
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
    __shared__ request_lists lists;
    __shared__ uint32_t warp_totals[BLOCK_WARPS_MAX];
    const struct kvt_gpu_resolve &call = args.call;

    static_assert(THREADS >= REQUESTS_MAX, "a thread looks at one request");
    for (uint32_t first = 0; first < call.request_count; first += REQUESTS_MAX) {
        const uint32_t request = first + threadIdx.x;
        const bool is_one = threadIdx.x < REQUESTS_MAX && request < call.request_count;
        if (is_one) {
            const uint32_t lane = call.requests[request].lane;
            lists.shared_rows[threadIdx.x] = call.host.shared_rows[lane];
            lists.shared_at[threadIdx.x] = call.host.shared_at[lane];
            lists.own_at[threadIdx.x] = call.host.own_at[lane];
        }
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
        const uint32_t rows = is_one ? rows_of(args, request) : 0;
        uint32_t all;
        const uint32_t before = resolve_block_scan(rows, warp_totals, &all);
        if (threadIdx.x < REQUESTS_MAX)
            lists.ends[threadIdx.x] = before + rows;
        __syncthreads();
        list_walk walk(args, lists, first);
        const uint32_t own = rows_of_block(all);
        for (uint32_t at = 0; at < own; at += args.tile_rows)
            copy_rows(args, walk, at, min(at + args.tile_rows, own));
        __syncthreads();
    }
}

cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_choice choice,
                          uint32_t wave, uint32_t first_layer, uint32_t layers,
                          enum gather_launch_kind launch, cudaStream_t stream)
{
    const struct kvt_gpu_host_rows *host = &resolve->host;
    const bool end_to_end = host->layer_stride == resolve->layer_bytes;
    struct gather_args args = {};

    if (resolve->layer_bytes % 16 != 0 || host->row_stride % 16 != 0 ||
        host->layer_stride % 16 != 0)
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0 || layers * resolve->layer_bytes == 0)
        return cudaSuccess;
    args.call = *resolve;
    args.choice = choice;
    args.wave = wave;
    args.first_layer = first_layer;
    args.row_units = layers * resolve->layer_bytes / 16;
    args.layer_units = end_to_end ? args.row_units : resolve->layer_bytes / 16;
    args.row_magic = magic_of(args.row_units);
    args.layer_magic = magic_of(args.layer_units);
    args.tile_rows = UINT32_MAX / args.row_units / args.row_units;
    if (args.tile_rows == 0) /* rows of 1 MiB and more */
        return cudaErrorInvalidValue;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(launch == GATHER_BESIDE ? BLOCKS_BESIDE : BLOCKS);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = launch == GATHER_BEHIND_RESOLVER ? 1 : 0;
    cudaError_t error = cudaLaunchKernelEx(&config, gather, args);
    return error != cudaSuccess ? error : cudaGetLastError();
}

cudaError_t kvt_gpu_fetch_followers(const struct kvt_gpu_resolve *resolve, uint32_t first_layer,
                                    uint32_t end_layer, cudaStream_t stream)
{
    if (end_layer > resolve->layers)
        return cudaErrorInvalidValue;
    if (first_layer >= end_layer)
        return cudaSuccess;
    /* With the leader among them they are beside nothing. */
    return gather_launch(resolve, GATHER_MISSED, 0, first_layer, end_layer - first_layer,
                         first_layer > 0 ? GATHER_BESIDE : GATHER_ALONE, stream);
}

cudaError_t kvt_gpu_fetch_wave(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                               cudaStream_t stream)
{
    return gather_launch(resolve, GATHER_STAGED, wave, 0, resolve->layers, GATHER_ALONE, stream);
}
