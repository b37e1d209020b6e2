/* ranges.h -- what residency policies share: pages as ranges, requests in an order. */
#ifndef KVT_RESIDENCY_RANGES_H
#define KVT_RESIDENCY_RANGES_H

#include "kvt/policy.h"

/* Orders of pages, as a parameter's choices; its number is one of these. */
#define RESIDENCY_ORDERS "lowest|highest"
enum {
    ORDER_LOWEST = 0,
    ORDER_HIGHEST
};

/* Actions as they are written. */
struct residency_actions {
    struct kvt_residency_action *list; /* [capacity] */
    uint32_t count, capacity;
};

/* Releases `want` optional pages of the request, or refills `want` of its missing ones, first to
 * go or come first. Returns how many: fewer where there are no more, or no room to say so. */
uint32_t residency_move(struct residency_actions *actions, enum kvt_residency_verb verb,
                        const struct kvt_residency_request *request, uint32_t order, uint32_t want);

/* Adds one action; false where there is no room. */
bool residency_add(struct residency_actions *actions, enum kvt_residency_verb verb,
                   uint32_t request, uint32_t first, uint32_t count);

/* Requests by a key, largest first (tie: lower id), without those whose key is 0: the index of
 * the one after `previous`, or of the first where that is request_count; request_count behind
 * the last. */
uint32_t residency_next(const struct kvt_residency_view *view,
                        uint64_t (*key)(const struct kvt_residency_request *request),
                        uint32_t previous);
/* Two keys. */
uint64_t residency_optional_pages(const struct kvt_residency_request *request);
uint64_t residency_reclaimable_bytes(const struct kvt_residency_request *request);

#endif
