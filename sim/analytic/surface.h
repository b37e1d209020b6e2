/* surface.h -- miss surfaces: what a round of one store finds where, by coverage and age. */
#ifndef KVT_ANALYTIC_SURFACE_H
#define KVT_ANALYTIC_SURFACE_H

#include "kvt/analytic.h"

enum {
    SURFACE_COVERAGES = 11, /* 0, 0.1, .. 1 of the history in HBM */
    SURFACE_AGES = 10,      /* rounds [0, 1), [1, 2), [2, 4), .. and from 256 on */
    SURFACE_ROUNDS = 448,   /* that are measured */
    SURFACE_STREAMS = 48,   /* requests that are followed, one store of the stratum each */
    SURFACE_SEED = 2385     /* a surface belongs to its law: every seed of a run reads the same */
};

/* Means of a round of one store of a stratum, over all its selectors. */
enum surface_count {
    SURFACE_CALLS = 0,
    SURFACE_SKIPPED,
    SURFACE_SELECTED,
    SURFACE_TAIL,
    SURFACE_PAGE,
    SURFACE_HOT,
    SURFACE_MISSED,
    SURFACE_UNION,
    SURFACE_UNION_TAIL,
    SURFACE_UNION_PAGE,
    SURFACE_UNION_HOT,
    SURFACE_FILLED,
    SURFACE_STAGED,
    SURFACE_WITH_MISSES,
    SURFACE_GRANULES,
    SURFACE_FETCHED_SQUARES, /* sum over calls of (filled + staged)^2 */
    SURFACE_COUNTS
};

struct surface_cell {
    double counts[SURFACE_COUNTS];
};

/* What requests do in a round while so many decode. */
struct round_means {
    double queries, draft_tokens, committed_tokens, committed_squares;
};

struct surface {
    uint64_t key;
    uint32_t stratum_count;
    struct round_means rounds;
    struct surface_cell cells[KVT_STRATA_MAX][SURFACE_COVERAGES][SURFACE_AGES];
};

/* Which age a request is of after so many rounds. */
static inline uint32_t surface_age(double rounds)
{
    uint32_t age = 0;

    while (age + 1 < SURFACE_AGES && rounds >= (double)(1u << age))
        age++;
    return age;
}

/* What surfaces are measured for. */
struct surface_env {
    const struct kvt_analytic_env *run;
    const struct kvt_stratum *strata; /* [stratum_count] */
    const uint32_t *stratum_of;       /* [stores] */
    uint32_t stratum_count;
    uint32_t input_tokens, output_tokens; /* means */
    bool covered; /* pages of history may be in HBM: else coverage 0 alone is measured */
};

/* surface_rounds.c: the run's method, with chances of the surface's own. Freed by the method. */
KVT_CHECKED kvt_status surface_open_method(const struct kvt_analytic_env *run, void **out,
                                           struct kvt_error *err);

/* The rounds that the method plans while `active` requests decode, as many
 * of each of `requests` of them: out[request * rounds + round]. */
KVT_CHECKED kvt_status surface_plan(const struct surface_env *env, uint32_t active,
                                    uint32_t requests, uint32_t rounds, struct kvt_round *out,
                                    struct kvt_error *err);

/* surface_measure.c: with everything resident nothing is resolved, and nothing measured. */
KVT_CHECKED kvt_status surface_measure(const struct surface_env *env, uint32_t active,
                                       struct surface *out, struct kvt_error *err);

/* surface_store.c: from memory, else from the cache folder, else measured. *out is borrowed for
 * the store's life. */
KVT_CHECKED kvt_status surface_get(const struct surface_env *env, uint32_t active,
                                   const struct surface **out, struct kvt_error *err);

#endif
