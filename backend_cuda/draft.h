/* draft.h -- what the CUDA backend runs of a drafter: its ring of rows, its pass.
 *
 *     admission   the ring's rows of what was committed before
 *     step        rows of what was committed since, and of the round's block; the pass: products
 *                 (draft_dense.h) and attention over the ring, or layers of the model
 *     behind it   all rows that one request's pass has read, made anew and compared
 *
 * What is accepted is drawn by the acceptance table: nothing of a pass's output is looked at. */
#ifndef KVT_CUDA_DRAFT_H
#define KVT_CUDA_DRAFT_H

#include "draft_dense.h"
#include "launch.h"

KVT_BEGIN_DECLS

enum draft_pass {
    DRAFT_NOT_RUN = 0,
    DRAFT_OWN,   /* one pass for a block, of the drafter's own layers */
    DRAFT_LAYERS /* passes of as many of the model's layers, without their attention */
};

/* The same on every rank. */
struct draft_shape {
    enum draft_pass pass;
    uint32_t passes, layers, lead_tokens;
    uint32_t block_max;             /* tokens of one request's block */
    struct kvt_gpu_draft_ring ring; /* ring_rows 0: there is none; rows: each rank's own */
    struct kvt_draft_dense_shape dense;
    char words[256]; /* for reports: what is run, or why it is not; "": nothing drafts */
};

/* On one rank. */
struct draft_state {
    uint8_t *rows; /* [lanes] of rings */
    void *q, *out; /* bf16 [lanes * block_max][heads][128] */
    void *workspace;
    struct kvt_gpu_draft_request *requests; /* [lanes] of the upload block */
    struct kvt_gpu_draft_verdict *verdict, *verdict_pinned;
    uint64_t turn; /* whose ring is compared */
};

KVT_END_DECLS
#endif
