/* resolver_twin_policy.h -- what the twin's replacement policies share. */
#ifndef KVT_TESTS_RESOLVER_TWIN_POLICY_H
#define KVT_TESTS_RESOLVER_TWIN_POLICY_H

#include "resolver_twin.h"

/* -1: there is none that this call has not filled. */
int twin_lowest_empty(const struct twin *twin);
/* The next missed row comes into the slot. */
void twin_fill(struct twin *twin, int slot);

/* From TWIN_LFU on: step 4 of a call, and the slots by rank after it. */
void twin_replace_lists(struct twin *twin);
void twin_order_lists(struct twin *twin);
/* A row that is promoted is no ghost. */
void twin_forget_ghost(struct twin *twin, int row);

#endif
