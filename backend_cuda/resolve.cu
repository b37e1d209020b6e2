/* resolve.cu -- launchers of the resolver: which kernel a call takes, and the copies behind it. */
#include "gather.cuh"
#include "resolve.cuh"
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

bool kvt_gpu_resolve_is_fast(const struct kvt_gpu_resolve *resolve)
{
    if (resolve->reference)
        return false;
    return resolve->queries_max == 1 ? resolve_fits_one(*resolve) : resolve_fits_many(*resolve);
}

/* *fast: whether a fast kernel has it. */
static cudaError_t decide(const resolve_args &args, bool *fast, cudaStream_t stream)
{
    bool tuned;
    cudaError_t error = device_is_tuned(&tuned);

    *fast = false;
    if (error != cudaSuccess)
        return error;
    *fast = tuned && kvt_gpu_resolve_is_fast(&args.call);
    if (!*fast)
        return resolve_launch_reference(args, stream);
    return args.call.queries_max == 1 ? resolve_launch_one(args, stream)
                                      : resolve_launch_many(args, stream);
}

cudaError_t kvt_gpu_resolve(const struct kvt_gpu_resolve *resolve, cudaStream_t stream)
{
    struct resolve_args args;
    bool fast;

    if (!resolve_make_args(resolve, &args) || resolve->queries_max > KVT_GPU_QUERIES_MAX ||
        resolve->missed_stride < resolve->queries_max * resolve->top_k)
        return cudaErrorInvalidValue;
    if (resolve->request_count == 0)
        return cudaSuccess;
    cudaError_t error = decide(args, &fast, stream);
    if (error != cudaSuccess || resolve->fetch == KVT_GPU_FETCH_NONE)
        return error;
    return gather_launch(resolve, GATHER_MISSED, 0, 0,
                         resolve->fetch == KVT_GPU_FETCH_LEADER ? 1 : resolve->layers,
                         fast ? GATHER_BEHIND_RESOLVER : GATHER_ALONE, stream);
}
