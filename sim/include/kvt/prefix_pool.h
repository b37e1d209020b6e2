/* kvt/prefix_pool.h -- a rank's prefix store with the bytes that it takes of the rank's memory.
 *
 * Pages that a request leaves behind keep their bytes: they go from the request's account to the
 * store's, and nothing is copied. Bytes of the store that nobody holds are given back to the
 * pools when somebody must have them. Index rows on host have a capacity of their own, beside
 * the node's pool of payload rows. */
#ifndef KVT_PREFIX_POOL_H
#define KVT_PREFIX_POOL_H

#include "kvt/memory.h"
#include "kvt/prefix.h"

KVT_BEGIN_DECLS

struct kvt_prefix_pool {
    struct kvt_prefix *store;
    struct kvt_rank_memory *memory; /* borrowed */
    struct kvt_holding holding;     /* of it, what the store's pages take */
    uint64_t page_bytes[KVT_PREFIX_HOMES];
    uint64_t index_host_capacity_bytes;
};

/* page_bytes: of one page in each home; on host of one copy, however many the node keeps. */
KVT_CHECKED kvt_status kvt_prefix_pool_init(struct kvt_prefix_pool *pool,
                                            struct kvt_rank_memory *memory,
                                            const uint64_t page_bytes[KVT_PREFIX_HOMES],
                                            uint64_t index_host_capacity_bytes,
                                            struct kvt_error *err);
/* Gives everything back. Takes a pool that was never initialised, but zeroed. */
void kvt_prefix_pool_fini(struct kvt_prefix_pool *pool);

/* Adds a request's pages, as kvt_prefix_insert() does: what the store did not have goes from the
 * request's holding to its own, what it had stays with the request, to be given back with the
 * rest. homes[i] is what the request has of page i, and afterwards what is in the store of it:
 * copies that the request has from the growth reserve are left out, for the reserve is not for
 * keeping, and index rows on host for which old ones make no room. */
KVT_CHECKED kvt_status kvt_prefix_pool_keep(struct kvt_prefix_pool *pool, struct kvt_holding *from,
                                            const uint64_t *keys, kvt_prefix_homes *homes,
                                            uint32_t count, bool held, struct kvt_error *err);

/* Payload in HBM that nobody holds goes from the store to a request, which may do with it what it
 * likes: of the pages keys[i] with that home in homes[i]. Where somebody holds it, homes[i] loses
 * it. Returns how many pages went over. */
uint32_t kvt_prefix_pool_take_over(struct kvt_prefix_pool *pool, struct kvt_holding *to,
                                   const uint64_t *keys, kvt_prefix_homes *homes, uint32_t count);

/* Gives up pages in the homes given, until kvt_rank_memory_take() of this would succeed or none
 * are left that help. Returns whether it would. */
bool kvt_prefix_pool_make_room(struct kvt_prefix_pool *pool, kvt_prefix_homes homes,
                               const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                               bool growth);

/* The store and the account agree. For tests and the end of a run. */
bool kvt_prefix_pool_is_sane(const struct kvt_prefix_pool *pool);

KVT_END_DECLS
#endif
