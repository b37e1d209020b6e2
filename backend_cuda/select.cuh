/* select.cuh -- what the kernels of the index scan and of top-k share. */
#ifndef KVT_SELECT_CUH
#define KVT_SELECT_CUH

#include "launch.h"

/* Rows that a query sees. */
static __device__ __forceinline__ uint32_t select_visible_rows(
    const struct kvt_gpu_request &request, const struct kvt_gpu_query &query, uint32_t ratio)
{
    return (request.context_tokens + query.depth + 1) / ratio;
}

/* Unsigned integers in the order of the scores; -0 and +0 are one score. Numbers map to
 * [0x007fffff, 0xff800000]; 0, which stands for "no row here", is one of the NaNs. */
static __device__ __forceinline__ uint32_t select_key(float score)
{
    uint32_t bits = __float_as_uint(score + 0.0f);
    return bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
}

/* Bins of scores are the first 11 bits of their keys. */
constexpr uint32_t SCORES_OF_BIN = 1u << 21;

/* So many rows fit into four blocks that share SMs by two. */
constexpr uint32_t SELECT_ROWS_OF_FOUR = 4 * 25 * 1024;

/* Whether top-k uses clusters of three blocks, which take counts. An H200 of 132 SMs has room for
 * so many of them at a block an SM, but for 31 of four: its SMs come in groups of 14 to 18, and a
 * cluster stays within one. Fewer queries get more blocks each, many rows too. */
static inline bool select_is_counted(uint32_t query_count, uint32_t rows_max)
{
    return query_count > 16 && query_count <= KVT_GPU_COUNTED_QUERIES_MAX &&
           rows_max <= SELECT_ROWS_OF_FOUR;
}

/* The device of the current context: 90 for compute capability 9.0. */
static inline cudaError_t select_device(int *capability, int *multiprocessors)
{
    int device, major, minor;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess)
        *capability = 10 * major + minor;
    return error;
}

/* The fast kernels, for devices of compute capability 9.0. */
cudaError_t kvt_gpu_scan_fast(const struct kvt_gpu_scan *scan, int multiprocessors,
                              cudaStream_t stream);
cudaError_t kvt_gpu_topk_fast(const struct kvt_gpu_topk *topk, cudaStream_t stream);

#endif
