/* gather.cu -- missing rows from pinned host memory to their places, by the GPU's own loads.
 *
 *     lay the miss lists of all requests end to end, in chunks that go round the blocks
 *     of a block's chunks a tile at a time: where each row lies on the host, and where it goes
 *         several queries a request: rows are put in the order of their host addresses
 *         of the tile a thread loads 16 bytes at a time, LOADS of them before the first is stored
 *
 * Floor: bytes / 51 GB/s, which is what the link gives to zero copy, or the 64-KiB pieces of host
 * memory that the rows lie in / 40 million a second, whichever is longer: small rows pay for
 * translations of host addresses (docs/cuda.md has the figures, and what was tried). A query's
 * misses ascend; those of several do so one query behind the other, and would pass over the same
 * memory as many times. */
#include "gather.cuh"

#include <algorithm>

#include "resolve.cuh"

enum {
    THREADS = 1024,
    BLOCKS = 32,
    BLOCKS_SHORT = 16,    /* short rows of one query: fewer places of host memory at a time */
    BLOCKS_SCATTERED = 8, /* and of many requests, each of which has places of its own */
    BLOCKS_BESIDE = 8,    /* while others compute: as few as fill the link */
    REQUESTS_SCATTERED = 16,
    LOADS = 2,
    CHUNK_ROWS = 32, /* at most; but of lists that are sorted a block has one piece */
    TILE_ROWS_MAX = 8192,
    ROWS_AT_ONCE = 4, /* of a thread, on their way from the lists */
    BINS_OF_THREAD = 4,
    BINS = THREADS * BINS_OF_THREAD, /* 64-KiB pieces of host memory, in turn */
    REQUESTS_MAX = 512,              /* whose lists are laid end to end at a time */
    LONG_ROW_UNITS = 128             /* 2 KiB: of such rows bytes bind, in any order */
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
    uint32_t tile_rows; /* that shared memory holds, and few enough for divide() */
    uint32_t chunk_rows_max;
    bool sorts; /* tiles are put in the order of host addresses */
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

/* What a block has in shared memory, before its tile. */
struct gather_shared {
    uint32_t bins[BINS]; /* rows of each; then, where the next of it goes */
    /* Where the lists of up to REQUESTS_MAX requests lie. */
    uint64_t shared_at[REQUESTS_MAX], own_at[REQUESTS_MAX];
    uint32_t shared_rows[REQUESTS_MAX];
    uint32_t ends[REQUESTS_MAX]; /* of each, within all of them end to end */
    uint32_t warp_totals[BLOCK_WARPS_MAX];
};

/* A missing row: bytes from the host's first, and where it goes. */
struct missing_row {
    uint64_t from;
    int32_t place;
};

/* Rows as they are copied, in shared memory: [tile_rows] each. */
struct row_tile {
    uint64_t *from;
    int32_t *places;

    __device__ __forceinline__ row_tile(uint8_t *at, uint32_t tile_rows)
        : from((uint64_t *)at), places((int32_t *)(from + tile_rows))
    {
    }
    __device__ __forceinline__ void put(uint32_t to, const missing_row &row) const
    {
        from[to] = row.from;
        places[to] = row.place;
    }
    static uint32_t bytes_of(uint32_t rows)
    {
        return rows * (uint32_t)(sizeof(uint64_t) + sizeof(int32_t));
    }
};

/* The lists of requests from first_request on, end to end, in chunks that go round the blocks: as
 * many to each, and as long, as can be. */
struct list_chunks {
    uint32_t first_request, chunk_rows, all_rows;

    __device__ __forceinline__ list_chunks(uint32_t first, uint32_t all, uint32_t chunk_rows_max)
        : first_request(first), all_rows(all)
    {
        const uint32_t rounds = max(ceil_of(all, gridDim.x * chunk_rows_max), 1);
        chunk_rows = max(ceil_of(all, gridDim.x * rounds), 1);
    }
    static __device__ __forceinline__ uint32_t ceil_of(uint32_t n, uint32_t divisor)
    {
        return n / divisor + (n % divisor > 0);
    }

    /* Where row `number` of this block's is among all. */
    __device__ __forceinline__ uint32_t place_of(uint32_t number) const
    {
        const uint32_t chunk = number / chunk_rows;
        return (chunk * gridDim.x + blockIdx.x) * chunk_rows + number - chunk * chunk_rows;
    }
    /* How many are this block's. */
    __device__ __forceinline__ uint32_t rows() const
    {
        const uint32_t round_rows = gridDim.x * chunk_rows, before = blockIdx.x * chunk_rows;
        const uint32_t rounds = all_rows / round_rows, rest = all_rows - rounds * round_rows;
        return rounds * chunk_rows + (rest > before ? min(rest - before, chunk_rows) : 0);
    }
};

static_assert((REQUESTS_MAX & (REQUESTS_MAX - 1)) == 0, "they are halved until one is left");

/* The first request whose rows end behind `at`. */
static __device__ __forceinline__ uint32_t request_at(const gather_shared &shared, uint32_t at)
{
    uint32_t request = 0;
#pragma unroll
    for (uint32_t step = REQUESTS_MAX / 2; step > 0; step /= 2)
        request += at >= shared.ends[request + step - 1] ? step : 0;
    return request;
}

/* Calls what(row, its number in the tile) for each row of a tile, which begins with the block's
 * `first`: a thread for every THREADS-th. */
template <typename F>
static __device__ __forceinline__ void
for_rows(const gather_args &args, const gather_shared &shared, const list_chunks &chunks,
         uint32_t first, uint32_t rows_of_tile, F what)
{
    const struct kvt_gpu_resolve &call = args.call;

    for (uint32_t begin = threadIdx.x; begin < rows_of_tile; begin += THREADS * ROWS_AT_ONCE) {
        uint32_t rows[ROWS_AT_ONCE], request[ROWS_AT_ONCE];
        int32_t places[ROWS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            if (begin + i * THREADS >= rows_of_tile)
                continue;
            const uint32_t at = chunks.place_of(first + begin + i * THREADS);
            request[i] = request_at(shared, at);
            const uint32_t number = chunks.first_request + request[i];
            const size_t entry =
                (size_t)number * call.missed_stride +
                (request[i] > 0 ? at - shared.ends[request[i] - 1] : at) +
                (args.choice == GATHER_STAGED ? call.counts[number].filled_rows : 0);
            rows[i] = call.missed[entry];
            places[i] = call.missed_places[entry];
        }
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++) {
            if (begin + i * THREADS >= rows_of_tile)
                continue;
            const uint64_t row_at =
                rows[i] + (rows[i] < shared.shared_rows[request[i]] ? shared.shared_at[request[i]]
                                                                    : shared.own_at[request[i]]);
            what(missing_row{row_at * call.host.row_stride, places[i]}, begin + i * THREADS);
        }
    }
}

/* The block's rows from `first` on become the tile. Where it is sorted, rows of one 64-KiB piece of
 * host memory come together, and these ascend, but for those that share a bin. Which of such rows
 * is first is left to chance: it does not matter to any. */
static __device__ __forceinline__ void fill_tile(const gather_args &args, gather_shared &shared,
                                                 const row_tile &tile, const list_chunks &chunks,
                                                 uint32_t first, uint32_t rows)
{
    const uint64_t base = (uint64_t)args.call.host.base;
    const auto bin_of = [&](const missing_row &row) {
        return shared.bins + (uint32_t)((base + row.from) >> 16) % BINS;
    };
    uint4 *own = (uint4 *)shared.bins + threadIdx.x;
    uint32_t total;

    *own = make_uint4(0, 0, 0, 0);
    __syncthreads(); /* the tile before has been copied, too */
    if (!args.sorts) {
        for_rows(args, shared, chunks, first, rows,
                 [&](const missing_row &row, uint32_t number) { tile.put(number, row); });
        __syncthreads();
        return;
    }
    for_rows(args, shared, chunks, first, rows,
             [&](const missing_row &row, uint32_t) { (void)atomicAdd(bin_of(row), 1); });
    __syncthreads();
    const uint4 count = *own;
    const uint32_t before =
        resolve_block_scan(count.x + count.y + count.z + count.w, shared.warp_totals, &total);
    *own = make_uint4(before, before + count.x, before + count.x + count.y,
                      before + count.x + count.y + count.z);
    __syncthreads();
    for_rows(args, shared, chunks, first, rows,
             [&](const missing_row &row, uint32_t) { tile.put(atomicAdd(bin_of(row), 1), row); });
    __syncthreads();
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

/* The tile's rows. */
static __device__ __forceinline__ void copy_tile(const gather_args &args, const row_tile &tile,
                                                 uint32_t rows)
{
    const struct kvt_gpu_resolve &call = args.call;
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;
    const uint8_t *base = call.host.base + args.first_layer * call.host.layer_stride;
    uint8_t *pool = call.pool + (uint64_t)args.first_layer * call.layer_bytes;
    const uint32_t units = rows * args.row_units;

    for (uint32_t begin = threadIdx.x; begin < units; begin += THREADS * LOADS) {
        uint4 values[LOADS];
        uint8_t *to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint32_t unit = begin + i * THREADS;
            if (unit >= units)
                continue;
            const uint32_t row = divide(unit, args.row_units, args.row_magic);
            const uint32_t in_row = unit - row * args.row_units;
            const uint32_t layer = divide(in_row, args.layer_units, args.layer_magic);
            values[i] = load_once(base + tile.from[row] + layer * call.host.layer_stride +
                                  (in_row - layer * args.layer_units) * 16);
            to[i] = pool + (uint64_t)tile.places[row] * row_bytes + in_row * 16;
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
    extern __shared__ __align__(16) uint8_t dynamic[];
    gather_shared &shared = *(gather_shared *)dynamic;
    const row_tile tile(dynamic + sizeof shared, args.tile_rows);
    const struct kvt_gpu_resolve &call = args.call;

    static_assert(THREADS >= REQUESTS_MAX, "a thread looks at one request");
    for (uint32_t first_request = 0; first_request < call.request_count;
         first_request += REQUESTS_MAX) {
        const uint32_t request = first_request + threadIdx.x;
        const bool is_one = threadIdx.x < REQUESTS_MAX && request < call.request_count;
        if (is_one) {
            const uint32_t lane = call.requests[request].lane;
            shared.shared_rows[threadIdx.x] = call.host.shared_rows[lane];
            shared.shared_at[threadIdx.x] = call.host.shared_at[lane];
            shared.own_at[threadIdx.x] = call.host.own_at[lane];
        }
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
        const uint32_t rows = is_one ? rows_of(args, request) : 0;
        uint32_t all;
        const uint32_t before = resolve_block_scan(rows, shared.warp_totals, &all);
        if (threadIdx.x < REQUESTS_MAX)
            shared.ends[threadIdx.x] = before + rows;
        __syncthreads();
        const list_chunks chunks(first_request, all, args.chunk_rows_max);
        const uint32_t own_rows = chunks.rows();
        for (uint32_t first = 0; first < own_rows; first += args.tile_rows) {
            const uint32_t rows_of_tile = min(args.tile_rows, own_rows - first);
            fill_tile(args, shared, tile, chunks, first, rows_of_tile);
            copy_tile(args, tile, rows_of_tile);
        }
        __syncthreads();
    }
}

/* Fits the tile to the shared memory that a block of this device can have. */
static cudaError_t make_room(uint32_t *tile_rows, uint32_t *shared_bytes)
{
    int device, most = 0;
    cudaError_t error = cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (error != cudaSuccess)
        return error;
    const uint32_t room =
        ((uint32_t)most - (uint32_t)sizeof(gather_shared)) / row_tile::bytes_of(1);
    *tile_rows = std::min({*tile_rows, room, (uint32_t)TILE_ROWS_MAX});
    *shared_bytes = (uint32_t)sizeof(gather_shared) + row_tile::bytes_of(*tile_rows);
    return cudaFuncSetAttribute(gather, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)*shared_bytes);
}

static uint32_t blocks_of(const gather_args &args, enum gather_launch_kind launch)
{
    if (launch == GATHER_BESIDE)
        return BLOCKS_BESIDE;
    if (args.sorts || args.row_units >= LONG_ROW_UNITS)
        return BLOCKS;
    return args.call.request_count >= REQUESTS_SCATTERED ? BLOCKS_SCATTERED : BLOCKS_SHORT;
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
    args.sorts = resolve->queries_max > 1 && args.row_units < LONG_ROW_UNITS;
    args.chunk_rows_max = args.sorts ? UINT32_MAX / BLOCKS : (uint32_t)CHUNK_ROWS;
    uint32_t shared_bytes;
    cudaError_t error = make_room(&args.tile_rows, &shared_bytes);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks_of(args, launch));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = launch == GATHER_BEHIND_RESOLVER ? 1 : 0;
    error = cudaLaunchKernelEx(&config, gather, args);
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
