/* dense.h -- the dense stand-in: the matrix products of a layer that one GPU runs, in true shapes,
 * as FP8 by cuBLASLt.
 *
 * A layer is
 *
 *     into latent, rope and the heads   hidden -> latent + wide   } wide: such that these together
 *     out of the heads                  wide -> hidden            } read the model file's dense
 *                                                                 } bytes of a layer
 *     experts                           hidden -> 2 x inner -> hidden, of each expert touched
 *
 * with the replica's heads sharded over tp, and experts over ep GPUs (ep 1: each in pieces over
 * tp). What reads the same input is one product, as engines have it. A byte is a weight: models of
 * narrower experts read as many bytes as they do, with fewer operations. Embeddings and heads of
 * the model are spread over its layers, as are layers without experts. Weights are one set, taken
 * in turn by layers, large enough that L2 does not hold it. */
#ifndef KVT_DENSE_H
#define KVT_DENSE_H

#include <cuda_runtime_api.h>

#include "kvt/llm.h"

KVT_BEGIN_DECLS

/* What one GPU has of a layer; pure arithmetic. Dimensions are multiples of 16, from 1,024
 * on of 64. */
struct kvt_dense_shape {
    uint32_t hidden, latent, wide; /* latent: and rope */
    uint32_t inner;         /* of an expert, or of the piece of it that is here; 0: no experts */
    uint32_t local_experts; /* on this GPU, whole or in pieces */
    uint32_t replicas;      /* whose tokens meet at these experts */
    double active_fraction; /* of all experts, by one token */
};

/* tp: GPUs of a replica; ep: GPUs that share the experts, 1 where they do not. Of a model so
 * small that an expert is less than 16 wide, experts are read whole, with the dense weights; no
 * product is less than 16 wide. Refuses (KVT_ERR_UNSUPPORTED) more GPUs than experts. */
KVT_CHECKED kvt_status kvt_dense_shape_make(const struct kvt_llm *llm, uint32_t tp, uint32_t ep,
                                            struct kvt_dense_shape *out, struct kvt_error *err);

/* Experts of this GPU that `tokens` of each replica touch, rounded up, and the tokens each of them
 * is given. Uniform routing: 1 - (1 - active fraction)^(tokens that meet) of them. */
uint32_t kvt_dense_touched(const struct kvt_dense_shape *shape, uint32_t tokens,
                           uint32_t *tokens_each);

/* Of one layer and `tokens` of this replica: weight bytes that are read, and operations (two
 * for each weight and token). */
double kvt_dense_read_bytes(const struct kvt_dense_shape *shape, uint32_t tokens);
double kvt_dense_operations(const struct kvt_dense_shape *shape, uint32_t tokens);

/* The stand-in on the current device. */
struct kvt_dense;

KVT_CHECKED kvt_status kvt_dense_new(const struct kvt_dense_shape *shape, uint32_t tokens_max,
                                     struct kvt_dense **out, struct kvt_error *err);
void kvt_dense_free(struct kvt_dense *dense);

/* One layer's products for `tokens` of this replica, 1 to tokens_max, one behind the other on the
 * stream. May be captured; the first call with a number of tokens asks the library what to run, on
 * the host. */
KVT_CHECKED kvt_status kvt_dense_enqueue(struct kvt_dense *dense, uint32_t layer, uint32_t tokens,
                                         cudaStream_t stream, struct kvt_error *err);
/* Borrowed: the library's file, for reports. */
const char *kvt_dense_library(const struct kvt_dense *dense);

KVT_END_DECLS
#endif
