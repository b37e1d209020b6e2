/* kvt/backend_params.h -- what of the CUDA backend can be set: known to builds without CUDA too. */
#ifndef KVT_BACKEND_PARAMS_H
#define KVT_BACKEND_PARAMS_H

#include "kvt/error.h"
#include "kvt/plugin.h"

enum {
    KVT_CUDA_DEVICES = 0,
    KVT_CUDA_RANKS_ON_DEVICE,
    KVT_CUDA_LONGEST_TOKENS,
    KVT_CUDA_HOST_POOL_GIB,
    KVT_CUDA_HOST_LAYOUT,
    KVT_CUDA_FETCH_ORDER,
    KVT_CUDA_SHARED_TOKENS,
    KVT_CUDA_SHARED_CONTEXTS,
    KVT_CUDA_CHECK_QUERIES,
    KVT_CUDA_KERNELS,
    KVT_CUDA_OUTPUT,
    KVT_CUDA_INDEXER_DRIFT,
    KVT_CUDA_CORRUPT_STEP,
    KVT_CUDA_LAYERS,
    KVT_CUDA_IMPORT,
    KVT_CUDA_APART_STEPS,
    KVT_CUDA_BESIDE_INBOUND_MIB,
    KVT_CUDA_BESIDE_OUTBOUND_MIB,
    KVT_CUDA_PARAM_COUNT
};

/* Choices, in the order of the table. */
enum kvt_cuda_host_layout {
    KVT_CUDA_LAYOUT_STORE = 0,
    KVT_CUDA_LAYOUT_LAYER
};
enum kvt_cuda_fetch_order {
    KVT_CUDA_FETCH_GROUP = 0,
    KVT_CUDA_FETCH_LEADER_FIRST
};
enum kvt_cuda_kernels {
    KVT_CUDA_KERNELS_FAST = 0,
    KVT_CUDA_KERNELS_REFERENCE
};
enum kvt_cuda_output {
    KVT_CUDA_OUTPUT_BF16 = 0,
    KVT_CUDA_OUTPUT_F32
};

#define KVT_CUDA_NAME "cuda"
#define KVT_CUDA_SUMMARY "runs each step on GPUs: real rows, real kernels, measured time"

extern const struct kvt_param_spec kvt_cuda_params[KVT_CUDA_PARAM_COUNT];

/* Whether the value of "devices" names GPUs, each once, or all of them by -1; `where` is what a
 * refusal points at. */
KVT_CHECKED kvt_status kvt_cuda_check_devices(const struct kvt_param_value *devices,
                                              const char *where, struct kvt_error *err);

#endif
