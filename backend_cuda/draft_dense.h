/* draft_dense.h -- the matrix products of a drafter's pass that one GPU runs, in true shapes, as
 * bf16 by cuBLASLt.
 *
 *     once a pass     hidden states of committed positions, `taps` of each, joined -> hidden
 *     a layer         that -> keys and values of those positions
 *                     hidden of the block -> heads, keys and values; attention; heads -> hidden
 *                     hidden -> 2 x inner -> hidden
 *                     hidden -> rest: what else the checkpoint has weights for, spread over layers
 *
 * sharded over tp as the model is: heads, columns, the inner width. Weights are those of one layer,
 * or of as many as L2 does not hold, taken in turn. */
#ifndef KVT_DRAFT_DENSE_H
#define KVT_DRAFT_DENSE_H

#include <cuda_runtime_api.h>

#include "kvt/llm.h"

KVT_BEGIN_DECLS

/* What one GPU of tp has of it; pure arithmetic. Widths are multiples of 16, from 1,024 on of 64.
 */
struct kvt_draft_dense_shape {
    uint32_t layers, hidden;
    uint32_t heads, kv_heads, head_dim; /* here */
    uint32_t joined, inner, rest; /* columns here of what is joined; of the MLP; of the rest */
    uint32_t taps;
};

/* The drafter's file says what its pass computes. */
struct kvt_draft_dense_shape kvt_draft_dense_shape_make(const struct kvt_drafter *drafter,
                                                        uint32_t tp);

/* Of one pass over `tokens` of blocks, behind `committed` positions that are written: bytes of
 * weights that are read, and operations. */
double kvt_draft_dense_read_bytes(const struct kvt_draft_dense_shape *shape);
double kvt_draft_dense_operations(const struct kvt_draft_dense_shape *shape, uint32_t tokens,
                                  uint32_t committed);

/* The products on the current device. */
struct kvt_draft_dense;

KVT_CHECKED kvt_status kvt_draft_dense_new(const struct kvt_draft_dense_shape *shape,
                                           uint32_t tokens_max, uint32_t committed_max,
                                           struct kvt_draft_dense **out, struct kvt_error *err);
void kvt_draft_dense_free(struct kvt_draft_dense *dense); /* takes NULL */

/* Where attention stands between a layer's products. */
enum kvt_draft_products {
    KVT_DRAFT_JOIN = 0, /* once a pass; `layer` plays no part */
    KVT_DRAFT_PROJECT,  /* in front of a layer's attention */
    KVT_DRAFT_FINISH,   /* behind it */
    KVT_DRAFT_PRODUCTS
};

/* Some products, one behind the other on the stream, for 1 to tokens_max and 1 to committed_max.
 * May be captured; the first call with a number of either asks the library what to run, on the
 * host. */
KVT_CHECKED kvt_status kvt_draft_dense_enqueue(struct kvt_draft_dense *dense,
                                               enum kvt_draft_products products, uint32_t layer,
                                               uint32_t tokens, uint32_t committed,
                                               cudaStream_t stream, struct kvt_error *err);

KVT_END_DECLS
#endif
