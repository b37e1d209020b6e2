/* branch.cu -- whether the rest of a graph's branch runs, by a number that only the GPU knows. */
#include "launch.h"

static __global__ void branch(cudaGraphConditionalHandle handle, const uint32_t *count,
                              uint32_t above)
{
    cudaGraphSetConditional(handle, *count > above);
}

cudaError_t kvt_gpu_branch(cudaGraphConditionalHandle handle, const uint32_t *count, uint32_t above,
                           cudaStream_t stream)
{
    branch<<<1, 1, 0, stream>>>(handle, count, above);
    return cudaGetLastError();
}
