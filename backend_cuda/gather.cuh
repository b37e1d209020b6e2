/* gather.cuh -- missing rows from pinned host memory to their places, by loads and stores.
 *
 *     a block takes rows of one request in the order of its miss list, which ascends for each
 *     query: 16 bytes a thread and load, LOADS loads under way before the first is stored
 *
 * Floor: bytes / 51 GB/s (what the link gives to zero copy), or the 64-KiB pieces of host memory
 * that the rows lie in / about 60 million a second, whichever is longer: translations of host
 * addresses are what small rows pay for, and a block that stays with one request uses most of them
 * again (docs/cuda.md). */
#ifndef KVT_GATHER_CUH
#define KVT_GATHER_CUH

#include "resolve.cuh"

static inline uint32_t gather_magic(uint32_t units)
{
    return (uint32_t)(((UINT64_C(1) << 32) + units - 1) / units);
}

/* False where addresses would not be multiples of 16. */
static inline bool gather_make_shape(const struct kvt_gpu_resolve *resolve, uint32_t first_layer,
                                     uint32_t layers, struct gather_shape *shape)
{
    const struct kvt_gpu_host_rows *host = &resolve->host;
    const bool end_to_end = host->layer_stride == resolve->layer_bytes;

    shape->first_layer = first_layer;
    shape->row_units = layers * (resolve->layer_bytes / 16);
    shape->layer_units = end_to_end ? shape->row_units : resolve->layer_bytes / 16;
    shape->row_magic = gather_magic(shape->row_units);
    shape->layer_magic = gather_magic(shape->layer_units);
    return resolve->layer_bytes % 16 == 0 && resolve->layer_bytes > 0 && layers > 0 &&
           host->row_stride % 16 == 0 && host->layer_stride % 16 == 0;
}

/* n / units, for n * units below 2^32. */
static __device__ __forceinline__ uint32_t gather_divide(uint32_t n, uint32_t units, uint32_t magic)
{
    return units == 1 ? n : __umulhi(n, magic);
}

/* Host memory is read once: it passes L1 without staying. Not moved across what follows. */
static __device__ __forceinline__ uint4 gather_load(const uint8_t *from)
{
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from));
    return value;
}

/* Of a request's miss list: where the arena is shared in waves, staged rows come later. */
static __device__ __forceinline__ uint32_t gather_count(const struct kvt_gpu_resolve &call,
                                                        uint32_t filled, uint32_t staged)
{
    return call.staging_share > 0 ? filled + staged : filled;
}

/* Copies `count` listed rows of a lane, by all threads of the block. meanwhile() is called once,
 * while the first loads are on their way, two microseconds long. */
template <int LOADS, typename Meanwhile>
static __device__ __forceinline__ void
gather_rows(const struct kvt_gpu_resolve &call, const gather_shape &shape, uint32_t lane,
            const uint32_t *rows, const int32_t *places, uint32_t count, Meanwhile meanwhile)
{
    enum {
        TILE_ROWS = 4096 /* keeps gather_divide() exact up to rows of 16 KiB */
    };
    const struct kvt_gpu_host_rows &host = call.host;
    const uint32_t shared_rows = host.shared_rows[lane];
    const uint64_t shared_at = host.shared_at[lane], own_at = host.own_at[lane];
    const uint64_t row_bytes = (uint64_t)call.layers * call.layer_bytes;
    const uint64_t layers_before = (uint64_t)shape.first_layer * call.layer_bytes;
    const uint8_t *base = host.base + shape.first_layer * host.layer_stride;
    bool first = true;

    for (uint32_t tile = 0; first || tile < count; tile += TILE_ROWS) {
        const uint32_t units = min(count - tile, (uint32_t)TILE_ROWS) * shape.row_units;
        for (uint32_t begin = threadIdx.x; first || begin < units; begin += blockDim.x * LOADS) {
            uint4 values[LOADS];
            uint8_t *to[LOADS];
#pragma unroll
            for (uint32_t i = 0; i < LOADS; i++) {
                const uint32_t unit = begin + i * blockDim.x;
                if (unit >= units)
                    continue;
                const uint32_t m = gather_divide(unit, shape.row_units, shape.row_magic);
                const uint32_t in_row = unit - m * shape.row_units;
                const uint32_t layer = gather_divide(in_row, shape.layer_units, shape.layer_magic);
                const uint32_t row = rows[tile + m];
                const uint64_t at = row + (row < shared_rows ? shared_at : own_at);
                values[i] = gather_load(base + at * host.row_stride + layer * host.layer_stride +
                                        (in_row - layer * shape.layer_units) * 16);
                to[i] = call.pool + (uint64_t)places[tile + m] * row_bytes + layers_before +
                        in_row * 16;
            }
            if (first)
                meanwhile();
            first = false;
#pragma unroll
            for (uint32_t i = 0; i < LOADS; i++) {
                if (begin + i * blockDim.x < units)
                    *(uint4 *)to[i] = values[i];
            }
        }
    }
}

/* Which rows of the requests' miss lists a gather of its own takes. */
enum gather_choice {
    GATHER_MISSED, /* gather_count() of them */
    GATHER_STAGED  /* those that found no slot, of requests of one wave */
};
/* behind_resolver: the launch before it in the stream is that of a kernel of the resolver, so that
 * blocks may come up, and wait, while it ends. */
cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_choice choice,
                          uint32_t wave, uint32_t first_layer, uint32_t layers,
                          bool behind_resolver, cudaStream_t stream);

#endif
