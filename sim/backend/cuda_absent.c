/* cuda_absent.c -- the CUDA backend of a build without CUDA: known by its parameters, and no more.
 *
 * So scenarios check and print the same everywhere. The real one is in backend_cuda/. */
#include "kvt/backend.h"
#include "kvt/backend_params.h"

#ifndef KVT_CUDA

static kvt_status absent_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                              struct kvt_error *err)
{
    (void)env;
    (void)out;
    return kvt_fail(err, KVT_ERR_DEVICE, "backend \"cuda\"",
                    "this build of kvtide has no CUDA; build it with cuda=1, or take backend "
                    "\"sim\"");
}

const struct kvt_backend_ops kvt_backend_cuda = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_backend_cuda,
             .name = KVT_CUDA_NAME,
             .summary = KVT_CUDA_SUMMARY,
             .params = kvt_cuda_params,
             .param_count = KVT_CUDA_PARAM_COUNT},
    .open = absent_open,
};

#endif
