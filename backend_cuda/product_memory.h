/* product_memory.h -- what sets of matrix products share: widths that the library is fast at, one
 * allocation of weights, inputs and outputs, and the library itself. */
#ifndef KVT_PRODUCT_MEMORY_H
#define KVT_PRODUCT_MEMORY_H

#include <stdint.h>

#include "cublaslt.h"
#include "launch.h"

KVT_BEGIN_DECLS

struct kvt_product_memory {
    struct kvt_cublaslt *library;
    uint64_t l2_bytes; /* of the current device */
    uint8_t *memory;   /* on it; NULL before kvt_product_memory_fill() */
};

/* The nearest multiple of 16, or of 64 from 1,024 on; 0 where that is nearest. */
uint32_t kvt_product_width(double width);

/* How many sets of so many bytes layers take in turn, so that L2 holds none of what comes next. */
uint64_t kvt_product_sets(uint64_t set_bytes, uint64_t l2_bytes);

/* Takes so many bytes behind *end_bytes, 256-byte aligned; where they begin. */
uint64_t kvt_product_take(uint64_t *end_bytes, uint64_t bytes);

/* Opens the library. On failure there is nothing to close, as there is of a zeroed one. */
KVT_CHECKED kvt_status kvt_product_memory_open(struct kvt_product_memory *out,
                                               struct kvt_error *err);
/* Allocates `bytes`, and makes the first `made_bytes` rows of that format, N(0, 1) throughout:
 * zeros would draw less power, and run faster, than weights do. Whole rows are written, so that one
 * of kvt_made_layer_bytes() must fit behind what is made. `what`: "the weights of ..". */
KVT_CHECKED kvt_status kvt_product_memory_fill(struct kvt_product_memory *memory, uint64_t bytes,
                                               uint64_t made_bytes, enum kvt_gpu_format format,
                                               const char *what, struct kvt_error *err);
void kvt_product_memory_close(struct kvt_product_memory *memory);

KVT_END_DECLS

#endif
