/* resolver_twin.h -- a resolver written from the words of the design, with plain lists. */
#ifndef KVT_TESTS_RESOLVER_TWIN_H
#define KVT_TESTS_RESOLVER_TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include "kvt/rng.h"

enum {
    TWIN_QUERIES_MAX = 8,
    TWIN_EMPTY = -1
};

/* What is given up for misses; resolver_twin_policy.c and resolver_twin_lists.c have each, one
 * access at a time. */
enum twin_policy {
    TWIN_LRU = 0,
    TWIN_ACCESS_LRU,
    TWIN_FIFO,
    TWIN_CLOCK,
    TWIN_LFU,
    TWIN_SIEVE,
    TWIN_S3FIFO,
    TWIN_ARC,
    TWIN_TWO_Q,
    TWIN_RANDOM,
    TWIN_SHARDED_LRU,
    TWIN_BELADY,
    TWIN_ORACLE_PAGES,
    TWIN_BUCKETED_LRU,
    TWIN_POLICIES
};

struct twin_list {
    int *items; /* of as many as there are rows or slots, the larger */
    int count;
};

struct twin_call {
    int query_count;
    struct twin_list selections[TWIN_QUERIES_MAX]; /* ascending; the caller's */
    int tail_first_row;
    const bool *paged; /* [rows] resident by page; NULL: none */
    bool promote_by_count;
    const uint32_t *next_use; /* [slots] of those that see the future */
};

struct twin_answer {
    struct twin_list tail, page, hits, misses;
    struct twin_list hit_slots, fills, evicted; /* of the misses that found a slot */
    struct twin_list promoted, promoted_slots;
    int tail_selected, page_selected, hot_selected, missed_selected;
    bool skipped;
};

/* One hot cache, and the answer to its last call. */
struct twin {
    int row_count, slot_count;
    enum twin_policy policy;
    bool promoted_are_newest; /* to the young end of the order, in the order of the pairs; else each
                               * has the place of the row that it takes the slot of */
    int *slot_rows;           /* [slot_count] TWIN_EMPTY or the row */
    int *slot_of;             /* [row_count] TWIN_EMPTY or the slot */
    struct twin_list order;   /* slots, the next victim first */
    bool *marked;             /* [slot_count] CLOCK's and SIEVE's, and the hand */
    int hand;
    struct twin_list lists[2], ghosts[2]; /* of slots, and of rows that left */
    int *uses;                            /* [slot_count] */
    int accesses;
    double target;
    int (*learn)(struct twin *twin, int row); /* what comes of a ghost; NULL: it goes */
    struct kvt_rng rng;
    const uint32_t *next_use;
    struct twin_answer answer;
    int *places;  /* [row_count] what the call found of a row */
    int *queries; /* [row_count] how many of the call select it */
    bool *read;   /* [slot_count] the row that it holds, by the call */
};

/* Ends the test when memory is short. */
void twin_init(struct twin *twin, enum twin_policy policy, int row_count, int slot_count);
void twin_fini(struct twin *twin);

/* Fills twin->answer, valid until the next call. */
void twin_resolve(struct twin *twin, const struct twin_call *call);

/* The policy's name in a scenario. */
const char *twin_policy_name(enum twin_policy policy);
/* Step 4 of a call whose hits and misses are known: fills and order. */
void twin_replace(struct twin *twin);
/* Moves a slot to the young end of the order. */
void twin_make_newest(struct twin *twin, int slot);

/* The state hash as docs/resolver.md defines it. */
uint64_t twin_hash(const struct twin *twin);
/* The sum of hashes of what the last call put where, as kvt/resolver.h defines it. */
uint64_t twin_placed_hash(const struct twin *twin);
uint64_t twin_mix(uint64_t x);
/* One link of a chain of hashes. */
uint64_t twin_chain(uint64_t chain, uint64_t value);

#endif
