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
