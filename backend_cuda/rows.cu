/* rows.cu -- makes rows, index keys and queries, and copies rows and pages.
 *
 *     a thread: one 16-byte chunk at a time, made from its hash (rows.h), written once
 *     neighbours in a warp: neighbouring chunks, in the order in which they lie in memory
 *
 * Floor: the bytes written, over the link's 51 GB/s into pinned memory, 4.2 TB/s into device
 * memory (where hashing, about 300 instructions a chunk, comes first). */
#include "rows.h"

#include <cuda_runtime.h>

#include <type_traits>

namespace
{

enum {
    THREADS = 256,
    BLOCKS_MAX = 132 * 8
};

__device__ void copy_tables(struct kvt_made_tables *shared, const struct kvt_made_tables *tables)
{
    for (uint32_t i = threadIdx.x; i < 128; i += blockDim.x) {
        shared->e4m3[i] = tables->e4m3[i];
        shared->bf16[i] = tables->bf16[i];
    }
    __syncthreads();
}

__device__ void make_chunk(const struct kvt_made_tables *tables, enum kvt_gpu_format format,
                           uint64_t stream, uint32_t chunk, uint8_t *dst)
{
    uint64_t words[2];
    kvt_made_row_chunk(tables, format, stream, chunk, words);
    *(ulonglong2 *)dst = make_ulonglong2(words[0], words[1]);
}

/* Chunks are numbered as they lie: layer within row, or row within layer. */
template <enum kvt_gpu_format FORMAT>
__global__ void __launch_bounds__(THREADS)
    make_rows(const __grid_constant__ struct kvt_gpu_make_rows make,
              const __grid_constant__ struct kvt_made_tables tables)
{
    const uint32_t chunks = kvt_made_layer_bytes(FORMAT) / 16;
    __shared__ struct kvt_made_tables shared;
    const bool layers_apart = make.layer_stride > make.row_stride;
    const uint32_t inner_count = layers_apart ? make.row_count : make.layers;
    const uint64_t count = (uint64_t)make.row_count * make.layers * chunks;

    copy_tables(&shared, &tables);
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * THREADS) {
        uint64_t part = i / chunks;
        uint32_t chunk = (uint32_t)(i % chunks);
        uint32_t inner = (uint32_t)(part % inner_count);
        uint32_t outer = (uint32_t)(part / inner_count);
        uint32_t row = layers_apart ? inner : outer;
        uint32_t layer = layers_apart ? outer : inner;
        uint64_t stream = kvt_made_stream(KVT_MADE_ROW, make.context_id, make.first_layer + layer,
                                          make.first_row + row);
        make_chunk(&shared, FORMAT, stream, chunk,
                   make.dst + row * make.row_stride + layer * make.layer_stride + 16 * chunk);
    }
}

template <enum kvt_gpu_format FORMAT>
__global__ void __launch_bounds__(THREADS)
    make_selected(const __grid_constant__ struct kvt_gpu_make_rows make, const int32_t *rows,
                  uint32_t row_count, const __grid_constant__ struct kvt_made_tables tables)
{
    const uint32_t chunks = kvt_made_layer_bytes(FORMAT) / 16;
    __shared__ struct kvt_made_tables shared;
    const uint64_t count = (uint64_t)row_count * chunks;

    copy_tables(&shared, &tables);
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * THREADS) {
        int32_t row = rows[i / chunks];
        if (row == KVT_GPU_NONE)
            continue;
        uint64_t stream =
            kvt_made_stream(KVT_MADE_ROW, make.context_id, make.first_layer, (uint32_t)row);
        make_chunk(&shared, FORMAT, stream, (uint32_t)(i % chunks), make.dst + 16 * i);
    }
}

/* A block a request and layer. */
template <enum kvt_gpu_format FORMAT>
__global__ void __launch_bounds__(THREADS)
    append(const __grid_constant__ struct kvt_gpu_append to,
           const __grid_constant__ struct kvt_made_tables tables)
{
    const uint32_t chunks = kvt_made_layer_bytes(FORMAT) / 16;
    __shared__ struct kvt_made_tables shared;
    const struct kvt_gpu_request request = to.requests[blockIdx.x];
    const uint32_t layer = blockIdx.y;
    const uint32_t first_row = request.context_tokens / to.ratio;
    const uint32_t end_row = (request.context_tokens + request.query_count) / to.ratio;
    const uint64_t row_bytes = (uint64_t)to.layers * to.layer_bytes;

    copy_tables(&shared, &tables);
    for (uint32_t i = threadIdx.x; i < (end_row - first_row) * chunks; i += THREADS) {
        uint32_t row = first_row + i / chunks;
        uint64_t place =
            (uint64_t)to.tail0 + request.lane * KVT_GPU_TAIL_ROWS + row % KVT_GPU_TAIL_ROWS;
        uint64_t stream =
            kvt_made_stream(KVT_MADE_ROW, request.context_id, to.first_layer + layer, row);
        make_chunk(&shared, FORMAT, stream, i % chunks,
                   to.pool + place * row_bytes + layer * to.layer_bytes + 16 * (i % chunks));
    }
}

/* 16 elements a thread; the first of a row's eight writes its scale. */
__global__ void __launch_bounds__(THREADS)
    make_keys(const __grid_constant__ struct kvt_gpu_make_keys make)
{
    constexpr uint32_t chunks = KVT_GPU_INDEX_DIM / 16;
    const uint64_t count = (uint64_t)make.row_count * chunks;

    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * THREADS) {
        uint32_t row = (uint32_t)(i / chunks);
        uint32_t chunk = (uint32_t)(i % chunks);
        struct kvt_made_key key =
            kvt_made_key(make.context_id, make.selector, make.first_row + row);
        uint8_t *page = make.lane_keys + (uint64_t)(row / 64) * KVT_GPU_INDEX_PAGE_BYTES;
        alignas(16) uint8_t out[16];
#pragma unroll
        for (uint32_t d = 0; d < 16; d += 2)
            kvt_made_key_pair(&key, 16 * chunk + d, &out[d]);
        *(uint4 *)(page + row % 64 * KVT_GPU_INDEX_DIM + 16 * chunk) = *(const uint4 *)out;
        if (chunk == 0)
            *(float *)(page + 64 * KVT_GPU_INDEX_DIM + row % 64 * sizeof(float)) =
                kvt_made_key_scale(&key);
    }
}

__global__ void __launch_bounds__(THREADS)
    make_queries(const __grid_constant__ struct kvt_gpu_make_queries make)
{
    constexpr uint32_t chunks = KVT_GPU_INDEX_DIM / 16;
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;

    if (i >= make.query_count * make.heads * chunks)
        return;
    const uint32_t chunk = i % chunks;
    const uint32_t head = i / chunks % make.heads;
    const struct kvt_gpu_query query = make.queries[i / chunks / make.heads];
    const struct kvt_gpu_request *request = &make.requests[query.request];
    const struct kvt_made_query made =
        kvt_made_query(request->context_id, make.selector, head,
                       request->context_tokens + query.depth, make.drift);
    alignas(16) uint8_t out[16];
#pragma unroll
    for (uint32_t d = 0; d < 16; d += 2)
        kvt_made_query_pair(&made, 16 * chunk + d, &out[d]);
    *(uint4 *)(make.q + 16 * (uint64_t)i) = *(const uint4 *)out;
    if (chunk == 0)
        make.weights[i / chunks] = kvt_made_head_weight(request->context_id, make.selector, head);
}

/* Block (slice, copy): pieces of 16 KiB, each thread's four loads under way before its stores. */
enum {
    COPY_LOADS = 4,
    COPY_PIECE = THREADS * COPY_LOADS
};
__global__ void __launch_bounds__(THREADS) copy(const struct kvt_gpu_copy *copies)
{
    const struct kvt_gpu_copy what = copies[blockIdx.y];
    const uint4 *src = (const uint4 *)what.src;
    uint4 *dst = (uint4 *)what.dst;
    const uint64_t count = what.bytes / sizeof(uint4);

    for (uint64_t first = (uint64_t)blockIdx.x * COPY_PIECE; first < count;
         first += (uint64_t)gridDim.x * COPY_PIECE) {
        uint4 loaded[COPY_LOADS];
#pragma unroll
        for (int j = 0; j < COPY_LOADS; j++) {
            uint64_t i = first + j * THREADS + threadIdx.x;
            if (i < count)
                loaded[j] = __ldcs(&src[i]);
        }
#pragma unroll
        for (int j = 0; j < COPY_LOADS; j++) {
            uint64_t i = first + j * THREADS + threadIdx.x;
            if (i < count)
                __stcs(&dst[i], loaded[j]);
        }
    }
}

uint32_t blocks_for(uint64_t threads)
{
    uint64_t blocks = (threads + THREADS - 1) / THREADS;
    return blocks < BLOCKS_MAX ? (uint32_t)blocks : (uint32_t)BLOCKS_MAX;
}

/* Calls launch with the format as a constant. */
template <typename Launch> cudaError_t for_format(enum kvt_gpu_format format, Launch launch)
{
    using std::integral_constant;
    switch (format) {
    case KVT_GPU_ROW_E4M3_576:
        launch(integral_constant<kvt_gpu_format, KVT_GPU_ROW_E4M3_576>());
        return cudaGetLastError();
    case KVT_GPU_ROW_MIXED_656:
        launch(integral_constant<kvt_gpu_format, KVT_GPU_ROW_MIXED_656>());
        return cudaGetLastError();
    case KVT_GPU_ROW_BF16_1152:
        launch(integral_constant<kvt_gpu_format, KVT_GPU_ROW_BF16_1152>());
        return cudaGetLastError();
    case KVT_GPU_ROW_FP4_288:
        launch(integral_constant<kvt_gpu_format, KVT_GPU_ROW_FP4_288>());
        return cudaGetLastError();
    }
    return cudaErrorInvalidValue;
}

} // namespace

/* ---- Launchers ------------------------------------------------------------------------ */

cudaError_t kvt_gpu_make_rows(const struct kvt_gpu_make_rows *make, cudaStream_t stream)
{
    const uint64_t chunks = kvt_made_layer_bytes(make->format) / 16;
    const uint32_t blocks = blocks_for(make->row_count * make->layers * chunks);

    if (make->row_count == 0 || make->layers == 0)
        return cudaSuccess;
    return for_format(make->format, [=](auto format) {
        make_rows<format.value><<<blocks, THREADS, 0, stream>>>(*make, kvt_made_tables);
    });
}

cudaError_t kvt_gpu_make_selected(const struct kvt_gpu_make_rows *make, const int32_t *rows,
                                  uint32_t row_count, cudaStream_t stream)
{
    const uint64_t chunks = kvt_made_layer_bytes(make->format) / 16;
    const uint32_t blocks = blocks_for(row_count * chunks);

    if (row_count == 0)
        return cudaSuccess;
    return for_format(make->format, [=](auto format) {
        make_selected<format.value>
            <<<blocks, THREADS, 0, stream>>>(*make, rows, row_count, kvt_made_tables);
    });
}

cudaError_t kvt_gpu_append(const struct kvt_gpu_append *to, cudaStream_t stream)
{
    const dim3 blocks(to->request_count, to->layers);

    if (to->ratio == 0 || to->layer_bytes != kvt_made_layer_bytes(to->format))
        return cudaErrorInvalidValue;
    if (to->request_count == 0 || to->layers == 0)
        return cudaSuccess;
    return for_format(to->format, [=](auto format) {
        append<format.value><<<blocks, THREADS, 0, stream>>>(*to, kvt_made_tables);
    });
}

cudaError_t kvt_gpu_make_keys(const struct kvt_gpu_make_keys *make, cudaStream_t stream)
{
    const uint32_t blocks = blocks_for((uint64_t)make->row_count * (KVT_GPU_INDEX_DIM / 16));

    if (blocks == 0)
        return cudaSuccess;
    make_keys<<<blocks, THREADS, 0, stream>>>(*make);
    return cudaGetLastError();
}

cudaError_t kvt_gpu_make_queries(const struct kvt_gpu_make_queries *make, cudaStream_t stream)
{
    const uint64_t threads = (uint64_t)make->query_count * make->heads * (KVT_GPU_INDEX_DIM / 16);

    if (make->heads > 256 || threads > UINT32_MAX - THREADS)
        return cudaErrorInvalidValue;
    if (threads == 0)
        return cudaSuccess;
    make_queries<<<(uint32_t)((threads + THREADS - 1) / THREADS), THREADS, 0, stream>>>(*make);
    return cudaGetLastError();
}

cudaError_t kvt_gpu_copy(const struct kvt_gpu_copy *copies, uint32_t copy_count,
                         cudaStream_t stream)
{
    /* Many small copies take a block each, few large ones the whole chip. */
    const uint32_t slices = copy_count >= BLOCKS_MAX ? 1 : BLOCKS_MAX / (copy_count + 1) + 1;
    const uint32_t copies_max = 65535; /* of a grid's second dimension */

    for (uint32_t first = 0; first < copy_count; first += copies_max) {
        uint32_t count = copy_count - first < copies_max ? copy_count - first : copies_max;
        copy<<<dim3(slices, count), THREADS, 0, stream>>>(copies + first);
        cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}
