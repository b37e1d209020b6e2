/* hot_cache.h -- the hot cache from inside: for this folder only. */
#ifndef KVT_KV_HOT_CACHE_H
#define KVT_KV_HOT_CACHE_H

#include "kvt/resolver.h"

/* Caches that are resolved in turn are cold, so what a call reads lies in one block and
 * is read from front to back. No row appears twice. Slots fill from the lowest on and a
 * row leaves only for another: slots [0, occupied_slots) hold rows, the others never
 * have. */
struct kvt_hot_cache {
    const struct kvt_replacement_policy *replacement;
    uint64_t *hot_rows;  /* set of the rows in slots, below rows_max */
    uint32_t *slot_rows; /* [slot_count] KVT_ROW_NONE: empty */
    void *state;         /* the policy's */
    uint32_t rows_max, slot_count, occupied_slots;
};

#endif
