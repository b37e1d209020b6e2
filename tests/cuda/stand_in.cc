/* stand_in.cc -- CUDA's runtime on the CPU, so that the backend's host side can be run, and watched
 * by sanitizers, where there is no GPU. Kernels: stand_in_kernels.cc.
 *
 * A launch copies what it was given and runs at once; while a graph is captured it runs whenever
 * the graph is replayed. So streams are in order, and events have nothing to do. */
#include "stand_in.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

using stand_in::ALLOCATES;
using stand_in::ASKS;
using stand_in::begin;
using stand_in::give_back;
using stand_in::graph;
using stand_in::launch;
using stand_in::LAUNCHES;
using stand_in::make;
using stand_in::take;

namespace
{

/* Of this thread: the graph under capture, and those that it is a branch of. */
thread_local std::vector<graph *> captured;
thread_local std::unique_ptr<graph> root;

} // namespace

uint64_t stand_in::wrong_hash = 0;
bool stand_in::wrong_draft = false;
std::vector<stand_in::fetch> *stand_in::fetches = nullptr;
uint64_t stand_in::copies = 0, stand_in::copied_bytes[] = {0};

/* ---- Faults, and what a process holds -------------------------------------------------- */

namespace
{

std::mutex mutex;                         /* ranks have threads */
bool is_planned = false, is_over = false; /* the fault */
stand_in::call planned;
uint64_t left; /* calls before the one that fails */
cudaError_t sticky = cudaSuccess;

std::set<void *> held;               /* memory and handles */
std::set<graph *> graphs;            /* that were captured, or made of one */
std::map<void *, size_t> registered; /* host memory */

thread_local int chosen_device = 0;
std::map<void *, int> device_of; /* streams that are made with cudaStreamCreate() */

void keep(graph *of)
{
    std::lock_guard<std::mutex> guard(mutex);

    graphs.insert(of);
}

} // namespace

void stand_in::fail(call kind, uint64_t nth)
{
    std::lock_guard<std::mutex> guard(mutex);

    is_planned = true;
    planned = kind;
    left = nth;
}

cudaError_t stand_in::begin(call kind)
{
    const cudaError_t errors[] = {cudaErrorMemoryAllocation, cudaErrorInvalidResourceHandle,
                                  cudaErrorInvalidConfiguration, cudaErrorIllegalAddress};
    std::lock_guard<std::mutex> guard(mutex);

    if (!is_planned || planned != kind || left-- > 0)
        return sticky;
    is_planned = false;
    is_over = true;
    sticky = kind == ASKS ? errors[kind] : sticky;
    return errors[kind];
}

bool stand_in::has_failed()
{
    return is_over;
}

size_t stand_in::end_process()
{
    size_t count = held.size() + graphs.size() + registered.size();

    for (void *data : held)
        std::free(data);
    for (graph *each : graphs)
        delete each;
    for (const auto &[base, bytes] : registered)
        (void)munmap(base, bytes);
    held.clear();
    graphs.clear();
    registered.clear();
    is_planned = is_over = false;
    sticky = cudaSuccess;
    return count;
}

void *stand_in::take(size_t bytes)
{
    void *data = nullptr;

    if (posix_memalign(&data, 4096, bytes) != 0)
        return nullptr;
    std::lock_guard<std::mutex> guard(mutex);
    held.insert(data);
    return data;
}

void stand_in::give_back(void *data)
{
    std::lock_guard<std::mutex> guard(mutex);

    held.erase(data);
    std::free(data);
}

void stand_in::note_fetch(const struct kvt_gpu_resolve &call, cudaStream_t stream)
{
    if (fetches)
        fetches->push_back({chosen_device, device_of[stream], call.missed, call.missed[0]});
}

cudaError_t stand_in::launch(std::function<void()> work)
{
    cudaError_t error = begin(LAUNCHES);

    if (error != cudaSuccess)
        return error;
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
cudaError_t cudaSetDevice(int chosen)
{
    chosen_device = chosen;
    return begin(ASKS);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **data, size_t bytes)
{
    cudaError_t error = begin(ALLOCATES);

    if (error != cudaSuccess)
        return error;
    *data = take(bytes);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *data)
{
    give_back(data);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned)
{
    return cudaMalloc(data, bytes);
}
cudaError_t cudaHostGetDevicePointer(void **data, void *host, unsigned)
{
    *data = host;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *data)
{
    return cudaFree(data);
}
cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned)
{
    cudaError_t error = begin(ALLOCATES);

    std::lock_guard<std::mutex> guard(mutex);
    if (error == cudaSuccess)
        registered[data] = bytes;
    return error;
}
cudaError_t cudaHostUnregister(void *data)
{
    std::lock_guard<std::mutex> guard(mutex);

    registered.erase(data);
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
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t)
{
    {
        std::lock_guard<std::mutex> guard(mutex);
        stand_in::copies++;
        stand_in::copied_bytes[kind] += bytes;
    }
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
cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    cudaError_t error = make(stream);

    if (error == cudaSuccess)
        device_of[*stream] = chosen_device;
    return error;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return cudaFree(stream);
}
cudaError_t cudaStreamQuery(cudaStream_t)
{
    return begin(ASKS);
}
cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return begin(ASKS);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return begin(LAUNCHES);
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
    return begin(LAUNCHES);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned)
{
    return begin(LAUNCHES);
}
cudaError_t cudaEventQuery(cudaEvent_t)
{
    return begin(ASKS);
}
cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return begin(ASKS);
}
cudaError_t cudaPeekAtLastError()
{
    return begin(ASKS);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = 1;
    return cudaSuccess;
}

/* ---- Graphs --------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode)
{
    cudaError_t error = begin(LAUNCHES);

    if (error != cudaSuccess)
        return error;
    root = std::make_unique<graph>();
    captured.assign(1, root.get());
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t body, const cudaGraphNode_t *,
                                          const cudaGraphEdgeData *, size_t,
                                          enum cudaStreamCaptureMode)
{
    cudaError_t error = begin(LAUNCHES);

    if (error != cudaSuccess)
        return error;
    captured.push_back((graph *)body);
    return cudaSuccess;
}
/* A capture ends in any case. */
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *out)
{
    cudaError_t error = begin(LAUNCHES);

    *out = error == cudaSuccess ? (cudaGraph_t)captured.back() : nullptr;
    captured.pop_back();
    if (captured.empty() && error == cudaSuccess)
        keep(root.release());
    return error;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, enum cudaStreamCaptureStatus *state,
                                     unsigned long long *, cudaGraph_t *out,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                     size_t *count)
{
    *state = cudaStreamCaptureStatusActive;
    *out = (cudaGraph_t)captured.back();
    *nodes = nullptr;
    *edges = nullptr;
    *count = 0;
    return cudaSuccess;
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t *,
                                                const cudaGraphEdgeData *, size_t, unsigned)
{
    return begin(LAUNCHES);
}
/* A handle is a branch of the graph that it was made in. */
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t of,
                                             unsigned, unsigned)
{
    std::vector<std::unique_ptr<graph>> &branches = ((graph *)of)->branches;
    cudaError_t error = begin(LAUNCHES);

    if (error != cudaSuccess)
        return error;
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
/* What the graph does is the other's from here on. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t from, unsigned long long)
{
    cudaError_t error = begin(LAUNCHES);

    if (error != cudaSuccess)
        return error;
    graph *replayed = new graph(std::move(*(graph *)from));
    keep(replayed);
    *exec = (cudaGraphExec_t)replayed;
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return begin(LAUNCHES);
}
cudaError_t cudaGraphDestroy(cudaGraph_t of)
{
    {
        std::lock_guard<std::mutex> guard(mutex);
        graphs.erase((graph *)of);
    }
    delete (graph *)of;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaGraphDestroy((cudaGraph_t)exec);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    cudaError_t error = begin(LAUNCHES);

    if (error == cudaSuccess)
        ((const graph *)exec)->replay();
    return error;
}

} // extern "C"
