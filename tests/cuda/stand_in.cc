/* stand_in.cc -- CUDA's runtime on the CPU, so that the backend's host side can be run, and watched
 * by sanitizers, where there is no GPU. Kernels: stand_in_kernels.cc.
 *
 * A launch copies what it was given and runs at once; while a graph is captured it runs whenever
 * the graph is replayed. So streams are in order, and events have nothing to do. */
#include "stand_in.h"

#include <cstring>

#include "launch.h"

using stand_in::graph;
using stand_in::launch;
using stand_in::make;

namespace
{

/* Of this thread: the graph under capture, and those that it is a branch of. */
thread_local std::vector<graph *> captured;
thread_local std::unique_ptr<graph> root;

} // namespace

uint64_t stand_in::wrong_hash = 0;
bool stand_in::wrong_draft = false;

cudaError_t stand_in::launch(std::function<void()> work)
{
    if (captured.empty())
        work();
    else
        captured.back()->launches.push_back(std::move(work));
    return cudaSuccess;
}

extern "C" {

/* ---- Runtime -------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 2;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **data, size_t bytes)
{
    *data = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *data)
{
    std::free(data);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned)
{
    return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void *data)
{
    return cudaFree(data);
}
cudaError_t cudaHostRegister(void *, size_t, unsigned)
{
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *)
{
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)6 << 30;
    return cudaSuccess;
}
cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
    std::memset(data, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t)
{
    return launch([=] { std::memcpy(to, from, bytes); });
}
const char *cudaGetErrorName(cudaError_t)
{
    return "an error of the stand-in";
}
const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}
cudaError_t cudaDeviceGetPCIBusId(char *, int, int)
{
    return cudaErrorInvalidValue;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int)
{
    return make(stream);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    return make(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaFree(stream);
}
cudaError_t cudaStreamQuery(cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return make(event);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    return make(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return cudaFree(event);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned)
{
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t)
{
    return cudaSuccess;
}
cudaError_t cudaPeekAtLastError()
{
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = 1;
    return cudaSuccess;
}

/* ---- Graphs --------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode)
{
    root = std::make_unique<graph>();
    captured.assign(1, root.get());
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t body, const cudaGraphNode_t *,
                                          const cudaGraphEdgeData *, size_t,
                                          enum cudaStreamCaptureMode)
{
    captured.push_back((graph *)body);
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    *out = (cudaGraph_t)captured.back();
    captured.pop_back();
    if (captured.empty())
        root.release();
    return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, enum cudaStreamCaptureStatus *,
                                     unsigned long long *, cudaGraph_t *out,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    *out = (cudaGraph_t)captured.back();
    *nodes = nullptr;
    *edges = nullptr;
    *count = 0;
    return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t *,
                                                const cudaGraphEdgeData *, size_t, unsigned)
{
    return cudaSuccess;
}
/* A handle is a branch of the graph that it was made in. */
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t of,
                                             unsigned, unsigned)
{
    std::vector<std::unique_ptr<graph>> &branches = ((graph *)of)->branches;
    branches.push_back(std::make_unique<graph>());
    *handle = (cudaGraphConditionalHandle)branches.back().get();
    return cudaSuccess;
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *,
                             const cudaGraphEdgeData *, size_t, struct cudaGraphNodeParams *params)
{
    static thread_local cudaGraph_t body;
    graph *branch = (graph *)params->conditional.handle;
    body = (cudaGraph_t)branch;
    params->conditional.phGraph_out = &body;
    return launch([=] {
        if (branch->runs)
            branch->replay();
    });
}
cudaError_t kvt_gpu_branch(cudaGraphConditionalHandle handle, const uint32_t *count, uint32_t above,
                           cudaStream_t)
{
    return launch([=] { ((graph *)handle)->runs = *count > above; });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t from, unsigned long long)
{
    *exec = (cudaGraphExec_t)from; /* whose owner it is from here on */
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t)
{
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete (graph *)exec;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    ((const graph *)exec)->replay();
    return cudaSuccess;
}

} // extern "C"

/* The test itself, by the host's compiler: what nvcc makes wants CUDA's own runtime. */
#include "test_backend.cu"

namespace
{
const bool is_set_up = [] {
    spoil_hashes = [](uint64_t by) { stand_in::wrong_hash = by; };
    spoil_drafts = [](bool spoil) { stand_in::wrong_draft = spoil; };
    return true;
}();
} // namespace
