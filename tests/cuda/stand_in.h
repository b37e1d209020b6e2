/* stand_in.h -- what the stand-in's runtime, its kernels and its test share: launches, which a
 * graph keeps, and calls that fail on purpose. */
#ifndef KVT_TESTS_CUDA_STAND_IN_H
#define KVT_TESTS_CUDA_STAND_IN_H

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "launch.h"

namespace stand_in
{

struct graph {
    std::vector<std::function<void()>> launches;
    std::vector<std::unique_ptr<graph>> branches;
    bool runs = false; /* a branch's condition */

    void replay() const
    {
        for (const std::function<void()> &launch : launches)
            launch();
    }
};

/* Runs the work at once, or, while this thread captures a graph, whenever that is replayed. */
cudaError_t launch(std::function<void()> work);

/* What hashes of caches are off by: as if the device's tables were others than they should be. */
extern uint64_t wrong_hash;

/* Calls that may fail. What is found out by asking stays: every later call says the same, as with a
 * device that is lost. */
enum call {
    ALLOCATES, /* memory, on the device or pinned */
    HANDLES,   /* streams and events */
    LAUNCHES,  /* kernels, copies, graphs: refused, once */
    ASKS       /* how far the device is */
};
/* The nth call of the kind from now on fails, from 0 on. */
void fail(call kind, uint64_t nth);
bool has_failed();
/* The process is at its end: whatever it holds goes, and nothing fails any more. How many things
 * there were. */
size_t end_process();

/* What the call of this kind returns before it has done anything. */
cudaError_t begin(call kind);
/* Memory that is the process's until give_back(). */
void *take(size_t bytes);
void give_back(void *data);
/* A draft row of the first request of each step is wrong. */
extern bool wrong_draft;

/* Where a gather was launched, and its list: what kvt_gpu_fetch_followers() was called with while
 * fetches points to a vector. */
struct fetch {
    int chosen, stream; /* device that is chosen; that the stream was made on */
    const uint32_t *missed;
    uint32_t first_row;
};
extern std::vector<fetch> *fetches;
void note_fetch(const struct kvt_gpu_resolve &call, cudaStream_t stream);

/* Copies that cudaMemcpyAsync() was called for, and their bytes by enum cudaMemcpyKind. */
extern uint64_t copies, copied_bytes[cudaMemcpyDefault + 1];

/* A handle that is somebody's alone, and says nothing. */
template <typename T> cudaError_t make(T *handle)
{
    cudaError_t error = begin(HANDLES);

    if (error == cudaSuccess)
        *handle = (T)take(1);
    return error;
}

} // namespace stand_in

#endif
