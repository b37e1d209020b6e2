/* scan.cu -- scores of all rows of an index: the launcher and the plain kernel. */
#include "select.cuh"

#include <cuda_fp8.h>

namespace
{

constexpr uint32_t ROWS = 64; /* of a page, and threads of a block */
constexpr uint32_t DIM = KVT_GPU_INDEX_DIM;

__device__ float e4m3(uint8_t bits)
{
    __nv_fp8_e4m3 value;
    value.__x = bits;
    return (float)value;
}

/* One block a page and query, one thread a row; sums over dims and over heads in ascending
 * order, each by fused multiply-adds in float. */
__global__ void __launch_bounds__(ROWS) scan_plain(struct kvt_gpu_scan scan)
{
    __shared__ float key[DIM][ROWS];
    __shared__ float q[DIM];
    struct kvt_gpu_query query = scan.queries[blockIdx.y];
    struct kvt_gpu_request request = scan.requests[query.request];
    uint32_t row_count = select_visible_rows(request, query, scan.ratio);
    uint32_t row = blockIdx.x * ROWS + threadIdx.x;
    if (blockIdx.x * ROWS >= row_count)
        return;
    const uint8_t *page =
        scan.keys + request.lane * scan.lane_bytes + (size_t)blockIdx.x * KVT_GPU_INDEX_PAGE_BYTES;
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t dim = threadIdx.x; dim < DIM; dim += ROWS)
            key[dim][i] = e4m3(page[i * DIM + dim]);
    float score = 0;
    for (uint32_t head = 0; head < scan.heads; head++) {
        size_t at = (size_t)blockIdx.y * scan.heads + head;
        __syncthreads();
        for (uint32_t dim = threadIdx.x; dim < DIM; dim += ROWS)
            q[dim] = e4m3(scan.q[at * DIM + dim]);
        __syncthreads();
        float product = 0;
        for (uint32_t dim = 0; dim < DIM; dim++)
            product = fmaf(q[dim], key[dim][threadIdx.x], product);
        score = fmaf(scan.weights[at], fmaxf(product, 0.0f), score);
    }
    const float *scales = (const float *)(page + ROWS * DIM);
    if (row < row_count)
        scan.scores[(size_t)blockIdx.y * scan.score_stride + row] = score * scales[threadIdx.x];
}

} // namespace

cudaError_t kvt_gpu_scan(const struct kvt_gpu_scan *scan, cudaStream_t stream)
{
    if ((scan->heads != 32 && scan->heads != 64) || scan->ratio == 0 || scan->queries_max == 0 ||
        scan->queries_max > KVT_GPU_QUERIES_MAX || scan->rows_max > scan->score_stride ||
        scan->score_stride % 64 != 0 || scan->lane_bytes % 16 != 0)
        return cudaErrorInvalidValue;
    if (scan->query_count == 0 || scan->rows_max == 0)
        return cudaSuccess;
    int capability, multiprocessors;
    cudaError_t error = select_device(&capability, &multiprocessors);
    if (error != cudaSuccess)
        return error;
    if (!scan->reference && capability == 90)
        return kvt_gpu_scan_fast(scan, multiprocessors, stream);
    dim3 grid((scan->rows_max + ROWS - 1) / ROWS, scan->query_count);
    scan_plain<<<grid, ROWS, 0, stream>>>(*scan);
    return cudaGetLastError();
}
