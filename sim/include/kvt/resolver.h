/* kvt/resolver.h -- selected rows to places in HBM: one semantics, simulated
 * and on the GPU, bit for bit.
 *
 *   1  U = union of the queries' selections, ordered by (first query that
 *      selects the row, row index)
 *   2  a row in the tail or in a ready page is resident; if all are, return:
 *      the hot cache is neither read nor aged
 *   3  the others are looked up: hits; misses in U order
 *   4  the replacement policy picks victims among slots no query reads
 *   5  misses beyond the free slots are staged, in miss order; what is promoted from
 *      staging takes the place of rows that the call has read, once it has
 *   6  each distinct missing row crosses the link once */
#ifndef KVT_RESOLVER_H
#define KVT_RESOLVER_H

#include "kvt/arena.h"
#include "kvt/policy.h"
#include "kvt/row_set.h"

KVT_BEGIN_DECLS

/* The hot cache of one (request, store): slots, the rows in them, and the
 * replacement policy's state. One block of memory, from new() to free(). */
struct kvt_hot_cache;

/* env->slot_count slots, at least 1, all empty, for rows below rows_max: those that
 * the store can ever have, uncommitted ones included. replacement is borrowed for the
 * cache's life, env for this call. */
KVT_CHECKED kvt_status kvt_hot_cache_new(const struct kvt_replacement_policy *replacement,
                                         const struct kvt_replacement_env *env, uint32_t rows_max,
                                         struct kvt_hot_cache **out, struct kvt_error *err);
void kvt_hot_cache_free(struct kvt_hot_cache *cache);

/* Scratch for calls, shared by all caches of one thread: sized for the longest
 * context (rows), the largest cache and the widest union. No call allocates. */
struct kvt_resolver;
KVT_CHECKED kvt_status kvt_resolver_new(uint32_t rows_max, uint32_t slots_max, uint32_t union_max,
                                        struct kvt_resolver **out, struct kvt_error *err);
void kvt_resolver_free(struct kvt_resolver *resolver);

/* Which staged rows stay in the hot cache after the call. A promoted row is copied over
 * a row that the call has read: within HBM, once every query has been answered. It takes
 * that row's slot; its place in the order is that row's too, unless the replacement policy makes
 * it another in on_promoted(). */
enum kvt_promotion {
    KVT_PROMOTE_NONE = 0,
    /* Rows that more queries select: staged rows by falling count (equal: in miss order) against
     * the slots by rising count (equal: by slot), in pairs, as long as the staged row's is
     * higher. Slots that this call filled take part. */
    KVT_PROMOTE_BY_COUNT
};

struct kvt_resolve_call {
    uint64_t step;             /* of the request */
    uint32_t visible_rows;     /* rows that exist, uncommitted ones included */
    uint32_t tail_first_row;   /* this row and all after it are in the tail */
    const uint64_t *page_rows; /* set: rows of pages that are in HBM and readable; NULL: none */
    uint32_t query_count;      /* K, 1 to KVT_QUERIES_MAX */
    const uint64_t *const *selections; /* [query_count] sets of rows below visible_rows */
    enum kvt_promotion promotion;
    const uint32_t *next_use; /* as in kvt_replacement_call; NULL: nobody sees the future */
};

/* Distinct rows: union = tail + page + hot + filled + staged. Selections with
 * multiplicity: selected = tail_selected + page_selected + hot_selected +
 * missed_selected. A row both in the tail and in a ready page counts as tail.
 * Arrays are borrowed from the resolver until its next call. */
struct kvt_resolve_result {
    uint32_t union_rows, tail_rows, page_rows, hot_rows, filled_rows, staged_rows;
    uint32_t selected, tail_selected, page_selected, hot_selected, missed_selected;
    const uint32_t *missed;         /* [filled_rows + staged_rows] rows in miss order */
    const kvt_slot *fills;          /* [filled_rows] slot that missed[i] took */
    const uint32_t *evicted;        /* [filled_rows] row it replaced; KVT_ROW_NONE: it was empty */
    uint32_t promoted_rows;         /* of those staged */
    const uint32_t *promoted;       /* [promoted_rows] in the order of the pairs */
    const kvt_slot *promoted_slots; /* [promoted_rows] that they took */
    uint64_t placed_hash; /* sum modulo 2^64 of kvt_mix64(((uint64_t)slot << 32 | row) + 1) over the
                           * fills and the promoted: of terms in any order */
    bool skipped;         /* step 2 returned: everything was resident */
};

/* Resolves one call. KVT_ERR_INVALID for a malformed call, with no effect.
 * KVT_ERR_POLICY, naming the policy and the contract, when it returned a slot
 * that was read, one twice, an occupied one before an empty one, or a wrong
 * number of them: no row has moved then, but what the policy did to its own
 * state cannot be taken back, and the cache is good for nothing but free().
 * *result is written on success only. */
KVT_CHECKED kvt_status kvt_resolve(struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                                   const struct kvt_resolve_call *call,
                                   struct kvt_resolve_result *result, struct kvt_error *err);

/* Sum over occupied slots, modulo 2^64, of
 * kvt_chain64((uint64_t)slot << 32 | row, rank): of equal terms in any order, so
 * that a parallel sum agrees. resolver is scratch for at least as many slots. */
uint64_t kvt_hot_cache_state_hash(struct kvt_resolver *resolver, const struct kvt_hot_cache *cache);

/* For tests and the GPU's comparison: the row in each slot and its rank. */
uint32_t kvt_hot_cache_slot_count(const struct kvt_hot_cache *cache);
/* [slot_count] KVT_ROW_NONE: empty */
const uint32_t *kvt_hot_cache_rows(const struct kvt_hot_cache *cache);
void kvt_hot_cache_ranks(const struct kvt_hot_cache *cache, uint32_t *ranks);

KVT_END_DECLS
#endif
