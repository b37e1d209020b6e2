/* mrc_stack.h -- LRU caches of several sizes at once. */
#ifndef KVT_CLI_MRC_STACK_H
#define KVT_CLI_MRC_STACK_H

#include "kvt/error.h"

enum {
    MRC_SIZES_MAX = 64
};

/* Rows below rows_max by when they were touched last, for sizes[size_count], ascending, distinct,
 * at least 1. Nothing has been touched yet. */
struct mrc_stack;
KVT_CHECKED kvt_status mrc_stack_new(uint32_t rows_max, const uint32_t *sizes, size_t size_count,
                                     struct mrc_stack **out, struct kvt_error *err);
void mrc_stack_free(struct mrc_stack *stack); /* takes NULL */

/* Touches rows one after the other. */
void mrc_stack_touch(struct mrc_stack *stack, const uint32_t *rows, size_t count);

/* Of all touches so far: those that an LRU cache of sizes[i] rows missed, and those of a row that
 * none had touched before. */
uint64_t mrc_stack_missed(const struct mrc_stack *stack, size_t i);
uint64_t mrc_stack_first(const struct mrc_stack *stack);

#endif
