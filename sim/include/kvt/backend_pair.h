/* kvt/backend_pair.h -- two backends on one schedule: does each decide as the other?
 *
 * The first does the work: what it reports, times included, goes on to the run. The second is given
 * the same requests, rounds and pages, and after every step both must agree on the decisions,
 * the rows, the waves and every hot cache. Where they do not, the first call that differs is looked
 * for, and told row by row. */
#ifndef KVT_BACKEND_PAIR_H
#define KVT_BACKEND_PAIR_H

#include "kvt/backend.h"

KVT_BEGIN_DECLS

/* Whose table takes part. A second one without parameters is expected: "sim". */
struct kvt_pair_sides {
    const struct kvt_backend_ops *first, *second;
};

/* sides: struct kvt_pair_sides *, borrowed for this call. As kvt_sim_options.open_backend wants it.
 * Exact runs only. With the law "indexer" the second reads what the first selected. */
KVT_CHECKED kvt_status kvt_backend_pair_open(void *sides, const struct kvt_backend_env *env,
                                             struct kvt_backend **out, struct kvt_error *err);

struct kvt_pair_report {
    uint64_t steps, rounds; /* of ranks, of requests */
    uint64_t agreed_rounds; /* that were compared, and in which nothing differs */
    uint64_t calls;         /* that were resolved, on either side */
    uint64_t waves;         /* beyond the first of a selector's */
    uint64_t states;        /* of hot caches that were compared */
    uint64_t admissions, resizes, releases;
    uint64_t page_changes; /* pages that became readable in HBM, or ceased to be */
    /* Rounds of requests, and steps of ranks, that differ in anything. A request is not looked
     * at any more once one of its rounds did. */
    uint64_t mismatches;
    const char *first_mismatch; /* several lines; NULL: none. Borrowed until the pair is closed */
};
void kvt_backend_pair_report(const struct kvt_backend *pair, struct kvt_pair_report *out);

KVT_END_DECLS
#endif
