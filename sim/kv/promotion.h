/* promotion.h -- which staged rows stay in the hot cache: for this folder only. */
#ifndef KVT_KV_PROMOTION_H
#define KVT_KV_PROMOTION_H

#include "hot_cache.h"

/* Scratch, and the answer of the last call. */
struct promotion {
    uint8_t *staged_lacks; /* [staged rows] queries that do not select the row */
    uint8_t *slot_counts;  /* [slots] queries that select the row in the slot */
    uint32_t *rows;        /* [staged rows] promoted, in the order of the pairs */
    kvt_slot *slots;       /* [slots] that they took */
    uint32_t *evicted;     /* [slots] what was in those */
};

/* KVT_PROMOTE_BY_COUNT, for a call that has staged rows: every slot is read by it.
 * Returns how many were promoted. */
uint32_t kvt_promote_by_count(const struct promotion *promotion, struct kvt_hot_cache *cache,
                              const struct kvt_resolve_call *call, const uint32_t *staged,
                              uint32_t staged_count);

#endif
