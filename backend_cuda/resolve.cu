/* resolve.cu -- launchers of the resolver: which kernel a call takes, and the copies behind it. */
#include "gather.cuh"

#include "resolve_promote.cuh"

size_t kvt_gpu_resolve_workspace_bytes(uint32_t requests_max, uint32_t queries_max, uint32_t top_k,
                                       uint32_t slots_max, uint32_t rows_max)
{
    resolve_scratch scratch;
    return requests_max *
           resolve_scratch_layout(queries_max, top_k, slots_max, rows_max, NULL, &scratch);
}

/* The fast kernels are tuned for compute capability 9.0; elsewhere the plain one runs. */
static cudaError_t device_is_tuned(bool *tuned)
{
    int device, major;
    cudaError_t error = cudaGetDevice(&device);

    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    *tuned = error == cudaSuccess && major == 9;
    return error;
}

/* *copied: whether the kernel copies, too. From so many requests on, one block of each fills the
 * link, and starts at once: a block moves 20 to 40 GB/s. */
enum {
    COPYING_REQUESTS = 8
};
static cudaError_t decide(resolve_args *args, bool *copied, cudaStream_t stream)
{
    bool tuned, fits = false;
    cudaError_t error = device_is_tuned(&tuned);

    args->copies =
        args->call.fetch != KVT_GPU_FETCH_NONE && args->call.request_count >= COPYING_REQUESTS;
    if (error == cudaSuccess && tuned && !args->call.reference) {
        error = args->call.queries_max == 1 ? resolve_launch_one(*args, stream, &fits)
                                            : resolve_launch_many(*args, stream, &fits);
    }
    *copied = fits && args->copies;
    if (error == cudaSuccess && !fits)
        error = resolve_launch_reference(*args, stream);
    return error;
}

cudaError_t kvt_gpu_resolve(const struct kvt_gpu_resolve *resolve, cudaStream_t stream)
{
    const uint32_t layers = resolve->fetch == KVT_GPU_FETCH_LEADER ? 1 : resolve->layers;
    struct resolve_args args;
    bool copied = false;

    if (!resolve_make_args(resolve, &args) || resolve->queries_max > KVT_GPU_QUERIES_MAX ||
        resolve->missed_stride < resolve->queries_max * resolve->top_k)
        return cudaErrorInvalidValue;
    if (resolve->fetch != KVT_GPU_FETCH_NONE && !gather_make_shape(resolve, 0, layers, &args.shape))
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0)
        return cudaSuccess;
    cudaError_t error = decide(&args, &copied, stream);
    if (error != cudaSuccess || resolve->fetch == KVT_GPU_FETCH_NONE || copied)
        return error;
    return gather_launch(resolve, GATHER_MISSED, 0, 0, layers, true, stream);
}
