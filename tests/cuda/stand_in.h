/* stand_in.h -- what the stand-in's runtime and its kernels share: launches, which a graph keeps.
 */
#ifndef KVT_TESTS_CUDA_STAND_IN_H
#define KVT_TESTS_CUDA_STAND_IN_H

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

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

/* A draft row of the first request of each step is wrong. */
extern bool wrong_draft;

/* A handle that is somebody's alone, and says nothing. */
template <typename T> cudaError_t make(T *handle)
{
    *handle = (T)std::malloc(1);
    return cudaSuccess;
}

} // namespace stand_in

#endif
