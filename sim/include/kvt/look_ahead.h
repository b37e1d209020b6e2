/* kvt/look_ahead.h -- when each row of a store is selected next, for policies that see the future.
 */
#ifndef KVT_LOOK_AHEAD_H
#define KVT_LOOK_AHEAD_H

#include "kvt/backend.h"

KVT_BEGIN_DECLS

/* What the look-aheads of a run have in common; borrowed. */
struct kvt_look_ahead_env {
    const struct kvt_llm *llm;
    const struct kvt_law *law;
    void *law_data;
    const struct kvt_speculation_method *speculation;
    const void *speculation_data;
    uint32_t queries_max;
    bool resolve_each_query;
};

/* Of one (request, store), by call: those of the past are forgotten. */
struct kvt_look_ahead;

/* The calls of `store` from the next round of the request on. streams[selectors] are of its own,
 * as new as those of the calls themselves; they are the look-ahead's from here on, and freed with
 * it, also where this fails. */
KVT_CHECKED kvt_status kvt_look_ahead_new(const struct kvt_look_ahead_env *env, uint32_t store,
                                          const struct kvt_backend_admission *admission,
                                          void **streams, uint32_t selectors,
                                          struct kvt_look_ahead **out, struct kvt_error *err);
void kvt_look_ahead_free(struct kvt_look_ahead *ahead); /* takes NULL */

/* Before the calls of a round of so many queries: looks so far ahead that each of them can see
 * KVT_LOOK_AHEAD_CALLS more. sets[queries_max] is scratch. */
void kvt_look_ahead_fill(struct kvt_look_ahead *ahead, uint32_t queries, uint64_t *const *sets);

/* The next call selects these: it is not to come any more. */
void kvt_look_ahead_pass(struct kvt_look_ahead *ahead, const uint64_t *const *selections,
                         uint32_t query_count, uint32_t visible_rows);

/* Adds to future[page_count] what comes of each page of KVT_PAGE_ROWS tokens: how often its rows
 * are selected in the calls behind the one last passed, as far as has been looked. */
void kvt_look_ahead_pages(const struct kvt_look_ahead *ahead, uint32_t *future,
                          uint32_t page_count);

/* kvt_replacement_call.next_use of slots that hold these rows, from the call last passed. */
void kvt_look_ahead_next_use(const struct kvt_look_ahead *ahead, const uint32_t *slot_rows,
                             uint32_t slot_count, uint32_t *next_use);

KVT_END_DECLS
#endif
