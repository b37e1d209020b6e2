/* kvt/calls.h -- what every backend does alike around a call: it opens selections and hot caches,
 * and makes counts and chains of what was decided. */
#ifndef KVT_CALLS_H
#define KVT_CALLS_H

#include "kvt/backend.h"
#include "kvt/resolver.h"
#include "kvt/strata.h"

KVT_BEGIN_DECLS

/* Rows of any store in the longest context, a round's own included. */
uint32_t kvt_env_rows_max(const struct kvt_backend_env *env);
/* Slots of the largest hot cache that any request can be given, of any store. */
uint32_t kvt_env_slots_max(const struct kvt_backend_env *env);

/* What a law borrows for its life. */
struct kvt_law_streams {
    uint32_t store[KVT_SELECTORS_MAX];
};

/* The law of env->selection. all_streams: as in kvt_law_env. *out is freed by the law. */
KVT_CHECKED kvt_status kvt_calls_prepare_law(const struct kvt_backend_env *env,
                                             const struct kvt_strata *strata, bool all_streams,
                                             struct kvt_law_streams *streams, void **out,
                                             struct kvt_error *err);

/* A request's stream of one selector, from the round behind context_tokens on; never asked past
 * last_tokens. */
struct kvt_stream_spec {
    uint32_t request, selector;
    uint32_t context_tokens, last_tokens;
    bool looks_ahead; /* a second one, that goes ahead of the first */
};
/* *out is the caller's to close with kvt_calls_close_stream(), or to free() where it looks ahead;
 * NULL where this fails. */
KVT_CHECKED kvt_status kvt_calls_open_stream(const struct kvt_backend_env *env, void *law_data,
                                             const struct kvt_stream_spec *spec, void **out,
                                             struct kvt_error *err);
/* Takes NULL. */
void kvt_calls_close_stream(const struct kvt_backend_env *env, void *law_data, void *stream);
/* Behind a step: what its selections could not say. law_data NULL: there was none. */
KVT_CHECKED kvt_status kvt_calls_end_step(const struct kvt_backend_env *env, void *law_data,
                                          struct kvt_error *err);

/* Slots of a request's hot cache of a store: one at least, a store may have no row yet. */
uint32_t kvt_calls_slots(const struct kvt_llm *llm, uint32_t store, uint64_t hot_tokens,
                         uint32_t max_tokens);
/* Such a cache. */
KVT_CHECKED kvt_status kvt_calls_open_cache(const struct kvt_backend_env *env, uint32_t request,
                                            uint32_t store, uint64_t hot_tokens,
                                            uint32_t max_tokens, uint32_t last_tokens,
                                            struct kvt_hot_cache **out, struct kvt_error *err);

/* The round's sets of a selector go to the item's watch. words: of each set; page_scores: scratch
 * for the pages of the longest context, where the watch has scores. */
void kvt_calls_watch(const struct kvt_backend_env *env, void *law_data,
                     const struct kvt_step_item *item, uint32_t store, void *stream,
                     const struct kvt_law_round *round, const uint64_t *const *sets, size_t words,
                     float *page_scores);

/* What an item adds to its rank's load, before its calls. */
void kvt_calls_count_item(const struct kvt_step_item *item, struct kvt_step_outcome *outcome);

/* A call of a request that reads every row from a page in HBM: nothing is resolved, each query
 * reads its top_k. */
struct kvt_resolve_result kvt_calls_resident(const struct kvt_llm *llm, uint32_t visible_rows);
/* The same of a set of so many rows, by a law whose sets vary. */
struct kvt_resolve_result kvt_calls_resident_set(uint32_t rows);

/* A call whose missed rows cross the link whole and on demand. */
struct kvt_crossing kvt_calls_cross_whole(const struct kvt_resolve_result *result);

/* Rows alone. */
void kvt_calls_count_rows(struct kvt_row_counts *rows, const struct kvt_resolve_result *result);

/* A call of a store, that stands for as many as its stratum's scale; what it misses crosses whole
 * and on demand. exact_layers: the store's own layers count, else the mean of its stratum. */
void kvt_calls_count(const struct kvt_llm *llm, const struct kvt_strata *strata, bool exact_layers,
                     uint32_t store, uint32_t visible_rows, const struct kvt_resolve_result *result,
                     struct kvt_step_outcome *outcome);

/* The same of a call of which this crosses the link. */
void kvt_calls_count_crossing(const struct kvt_llm *llm, const struct kvt_strata *strata,
                              bool exact_layers, uint32_t store, uint32_t visible_rows,
                              const struct kvt_resolve_result *result,
                              const struct kvt_crossing *crossing,
                              struct kvt_step_outcome *outcome);

/* A call of the item goes to its chain. */
uint64_t kvt_calls_chain(uint64_t decisions, const struct kvt_step_item *item, uint32_t selector,
                         const struct kvt_resolve_result *result);

/* One selector's calls of a rank's step, call i staging staged_rows[i] rows, in an arena of so
 * many bytes: waves beyond the first go to the load. Writes wave_of[call_count]. */
void kvt_calls_count_waves(const struct kvt_llm *llm, uint32_t selector, uint64_t arena_bytes,
                           const uint32_t *staged_rows, uint32_t call_count, uint32_t *wave_of,
                           struct kvt_step_outcome *outcome);

KVT_END_DECLS
#endif
