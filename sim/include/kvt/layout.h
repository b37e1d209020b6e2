/* kvt/layout.h -- bytes of a session: what must be in HBM, what in host DRAM.
 *
 * Rows are counted as they are (KVT_ENGINE_IDEAL), or as an engine's allocators hand out pages and
 * blocks for them (kvt/engine.h). */
#ifndef KVT_LAYOUT_H
#define KVT_LAYOUT_H

#include "kvt/engine.h"
#include "kvt/llm.h"
#include "kvt/policy.h"

KVT_BEGIN_DECLS

enum {
    KVT_GRANULE_BYTES = 65536
};

/* No engine: rows as they are. */
#define KVT_ENGINE_IDEAL ((const struct kvt_engine *)0)

/* Hot slots of a store: min(floor(hot_tokens / ratio), rows at rows_max_tokens),
 * at least min(top_k, those rows). */
uint32_t kvt_hot_slots(const struct kvt_llm *llm, const struct kvt_store *store,
                       uint64_t hot_tokens, uint64_t max_tokens);

/* Whole rows of a store in the tail: KVT_TAIL_ROWS, or as many of the model's in blocks. */
static inline uint32_t kvt_tail_rows(const struct kvt_store *store)
{
    return KVT_TAIL_ROWS / kvt_store_block_rows(store);
}

/* The first row of a store in the tail during a call with query_count queries behind
 * committed_tokens: the ring holds kvt_tail_rows(), those of the call's queries the newest. */
static inline uint32_t kvt_tail_first_row(const struct kvt_store *store, uint32_t committed_tokens,
                                          uint32_t query_count)
{
    uint32_t rows = kvt_store_rows(store, committed_tokens + query_count);
    return rows > kvt_tail_rows(store) ? rows - kvt_tail_rows(store) : 0;
}

/* Rows of a call that find no hot slot are used from staging. A rank's arena is used again by one
 * selector after the other; calls of one selector that do not fit it together take turns
 * (kvt/waves.h). Any call fits by itself. */
struct kvt_staging {
    uint64_t call_bytes;    /* of the widest call: queries_max x top_k rows of the largest store */
    uint64_t session_bytes; /* that a session adds to the arena: ceil(fraction x call_bytes) */
};

/* fraction: 0 to 1. 0, and below two queries: nothing is ever staged. */
struct kvt_staging kvt_staging_of(const struct kvt_llm *llm, uint32_t queries_max, double fraction);

/* The arena of a rank on which so many sessions have hot caches:
 * call_bytes + (sessions - 1) x session_bytes. */
uint64_t kvt_staging_arena_bytes(const struct kvt_staging *staging, uint64_t sessions);

struct kvt_session_spec {
    const struct kvt_llm *llm;
    const struct kvt_drafter *drafter; /* NULL without a draft model */
    struct kvt_residency_needs needs;
    uint64_t tokens;     /* context held */
    uint64_t max_tokens; /* context it may grow to; at least tokens */
    uint64_t hot_tokens;
    uint32_t queries_max;         /* K of the widest round; 1 without speculation */
    double staging_fraction;      /* of the widest call, that a session adds to its rank's arena;
                                   * 0: every row of a call finds a hot slot */
    uint32_t draft_budget_tokens; /* whose rows the model itself drafts with, kept in HBM beside the
                                   * hot cache; 0: it does not */
};

struct kvt_session_bytes {
    uint64_t hbm_by_class[KVT_MEM_CLASSES];
    uint64_t hbm_bytes; /* their sum: what is required */
    uint64_t host_bytes;
    uint64_t metadata_bytes; /* resolver tables; outside the sum. 0 where an engine does not say */
    uint64_t window_bytes;   /* state outside the hierarchy (windows, far-compressed rows);
                              * outside the sum */
    uint64_t rank_staging_bytes; /* that a rank holds once, whoever it runs: what the widest call
                                  * needs beyond a session's share; outside the sum */
};

/* Without an engine: index rows of all tokens; then either every payload row
 * (needs.history_in_hbm), or the hot slots and the tail's rows of every payload layer and, from two
 * queries on, a share of the staging (kvt_staging_of()), where there is any. A drafter adds its
 * ring either way. Host bytes, where needs.host_backing: every payload row. With one: the same in
 * its pages; engines do not stage, so that they want hot_least_per_query * queries_max * top_k hot
 * tokens. KVT_ERR_UNSUPPORTED: compressed rows, or rows in blocks, whose layout no engine file
 * gives. KVT_ERR_INVALID: max_tokens below tokens or past 2^32 - 1, no query, or a hot cache too
 * small for the engine. */
KVT_CHECKED kvt_status kvt_session_bytes(const struct kvt_session_spec *spec,
                                         const struct kvt_engine *engine,
                                         struct kvt_session_bytes *out, struct kvt_error *err);

/* Granules of KVT_GRANULE_BYTES that so many of a store's rows fall on, rows at random:
 * G (1 - (1 - 1/G)^m), G granules in all; what a gather from host memory pays for. */
double kvt_distinct_granules(double rows_of_store, double row_bytes, double missed_rows);

/* Of rows read in both planes, the share whose planes fall on two granules: those of a page lie
 * one behind the other, its rows' first parts (shallow_fraction of the bytes) and then the rests.
 */
double kvt_planes_apart_share(double page_bytes, double shallow_fraction);

KVT_END_DECLS
#endif
