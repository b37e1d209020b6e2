/* cuda_error.h -- what CUDA reports, as our failures. */
#ifndef KVT_CUDA_ERROR_H
#define KVT_CUDA_ERROR_H

#include <cuda_runtime_api.h>

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* What a failure means for whoever goes on. */
enum kvt_cuda_outcome {
    KVT_CUDA_FINE,
    KVT_CUDA_NO_DEVICE,     /* none here, none visible, or none that this driver can run */
    KVT_CUDA_NO_MEMORY,     /* the context is as it was */
    KVT_CUDA_REFUSED,       /* a call or a launch was turned down; the context is as it was */
    KVT_CUDA_KERNEL_FAILED, /* a kernel broke off; the process cannot use the device any more */
    KVT_CUDA_LOST           /* the device itself failed: memory errors, or off the bus */
};
enum kvt_cuda_outcome kvt_cuda_outcome(cudaError_t error);

/* KVT_OK for cudaSuccess. Otherwise one sentence, and KVT_ERR_NOMEM or KVT_ERR_DEVICE. `what`
 * was tried: "kvt_gpu_scan", "copying the counters". */
KVT_CHECKED kvt_status kvt_cuda_check(cudaError_t error, const char *what, struct kvt_error *err);

/* The same of an allocation for `what`: a failure says how much was asked for and how much is
 * free, on the current device, or of this machine's memory for pinned memory. */
KVT_CHECKED kvt_status kvt_cuda_check_device_bytes(cudaError_t error, const char *what,
                                                   uint64_t bytes, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_cuda_check_pinned_bytes(cudaError_t error, const char *what,
                                                   uint64_t bytes, struct kvt_error *err);

KVT_END_DECLS
#endif
