/* cublaslt.h -- matrix products in FP8 and bf16 by cuBLASLt, which is opened where it is wanted:
 * programs start, and everything else works, on machines without it. */
#ifndef KVT_CUBLASLT_H
#define KVT_CUBLASLT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* The library, and its handle on the current device. */
struct kvt_cublaslt;

/* KVT_ERR_DEVICE where the library is nowhere: the sentence says where it was looked for. */
KVT_CHECKED kvt_status kvt_cublaslt_open(struct kvt_cublaslt **out, struct kvt_error *err);
void kvt_cublaslt_close(struct kvt_cublaslt *library);
const char *kvt_cublaslt_path(const struct kvt_cublaslt *library); /* borrowed: which file it is */

/* y[b] = x[b] * weights[b]^T, each of `batches` on its own: e4m3 times e4m3 with scales of 1, or
 * bf16 times bf16, summed in float, rounded to bf16. Multiples of 16: outputs, inputs. */
struct kvt_gemm_shape {
    uint32_t tokens, outputs, inputs, batches;
    bool is_bf16; /* weights and x; else e4m3 */
};

/* What the library chose for one shape. */
struct kvt_gemm;
KVT_CHECKED kvt_status kvt_gemm_new(const struct kvt_cublaslt *library,
                                    const struct kvt_gemm_shape *shape, struct kvt_gemm **out,
                                    struct kvt_error *err);
void kvt_gemm_free(struct kvt_gemm *gemm);

/* Device memory, 16-byte aligned: weights [batches][outputs][inputs], x [batches][tokens][inputs],
 * y bf16 [batches][tokens][outputs]. May be captured into a graph. */
KVT_CHECKED kvt_status kvt_gemm_enqueue(const struct kvt_gemm *gemm, const void *weights,
                                        const void *x, void *y, cudaStream_t stream,
                                        struct kvt_error *err);

KVT_END_DECLS
#endif
