/* hot_cache.h -- the hot cache from inside: for this folder only. */
#ifndef KVT_KV_HOT_CACHE_H
#define KVT_KV_HOT_CACHE_H

#include "kvt/resolver.h"

/* Rows of caches that are resolved in turn are cold, so what a call reads lies
 * in one block and in the order it is read. No row appears twice; there is no
 * map from rows to slots, which would be a second table to miss on. */
struct kvt_hot_cache {
    const struct kvt_replacement_policy *replacement;
    void *state;        /* the policy's, further down in this block */
    size_t block_bytes; /* of all this */
    uint32_t slot_count;
    uint32_t occupied_slots;
    uint32_t used_slots;  /* slots from here on have never held a row */
    uint32_t slot_rows[]; /* [slot_count] KVT_SLOT_NONE: empty */
};

#endif
