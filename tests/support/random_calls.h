/* random_calls.h -- calls of one request as they come in turn, for the resolver and for its twin.
 */
#ifndef KVT_TESTS_RANDOM_CALLS_H
#define KVT_TESTS_RANDOM_CALLS_H

#include "kvt/resolver.h"
#include "kvt/rng.h"
#include "support/resolver_twin.h"

enum {
    RANDOM_ROWS_MAX = 40000,
    RANDOM_ROW_WORDS = (RANDOM_ROWS_MAX + 63) / 64,
    RANDOM_TOP_K_MAX = 2048
};

/* What stays the same over the calls of one case, and the call being made, in both forms. */
struct random_calls {
    struct kvt_rng rng;
    uint32_t rows_max, visible_rows, tail_rows, top_k, slot_count;
    uint32_t change_percent, pages_percent;
    uint64_t step;
    bool selected[RANDOM_ROWS_MAX]; /* by the last query */
    bool paged[RANDOM_ROWS_MAX];
    int rows[TWIN_QUERIES_MAX][RANDOM_TOP_K_MAX];
    uint64_t sets[TWIN_QUERIES_MAX][RANDOM_ROW_WORDS];
    const uint64_t *selections[TWIN_QUERIES_MAX];
    uint64_t page_rows[RANDOM_ROW_WORDS];
    struct twin_call twin_call;
    struct kvt_resolve_call call;
};

/* Shares of changing rows and of resident pages, and the tail's length, are drawn. */
void random_calls_init(struct random_calls *calls, uint64_t seed, uint32_t top_k,
                       uint32_t slot_count, uint32_t rows_max);

/* Makes the next call, 1 to TWIN_QUERIES_MAX queries: calls->call and calls->twin_call, valid
 * until the one after it. Promotion is by count every other time. */
void random_calls_next(struct random_calls *calls);

#endif
