/* estimate.h -- what a round fetches that nobody follows, from those that are followed.
 *
 *     share  = of its history that no page in HBM holds
 *     weight = selections of the round x share
 *     rate   = what followed rounds of its kind fetched, each over its share / their weight
 *     fetch  = rate x weight x share
 *
 * The share counts twice: of what is looked up, and because the hot cache then serves the less;
 * misses fall about as the inverse of how large it is for what it serves (docs/laws.md).
 *
 * A kind is how long the hot cache has been filling, how long the context is, how much of it
 * is in pages and how many queries the round has. Each kind remembers its last rounds, and so
 * do rounds that are alike but for their queries, all of an age, and of a stratum; a kind that has
 * seen few leans on the wider one: H. Buehlmann, "Experience Rating and Credibility", ASTIN
 * Bulletin 4, 1967. Queries of a round select alike, so that twice as many fetch less than twice
 * the rows: of the wider ones the rate is per distinct row, and how many of those so many queries
 * select is the same at any age. */
#ifndef KVT_ESTIMATE_H
#define KVT_ESTIMATE_H

#include "kvt/error.h"
#include "kvt/row_counts.h"

/* What is estimated, of all calls of a round's stores of one stratum. */
enum estimated {
    ESTIMATED_MISSED = 0,     /* selections, with multiplicity */
    ESTIMATED_LOOKED_UP,      /* selections */
    ESTIMATED_DISTINCT,       /* rows selected, by the share that the weight has: a weight too */
    ESTIMATED_LOOKED_UP_ROWS, /* distinct */
    ESTIMATED_FETCHED,        /* distinct rows */
    ESTIMATED_STAGED,         /* of those */
    ESTIMATED_GRANULES,
    ESTIMATED_MISSING_CALLS,
    /* Of what crosses the link, as in kvt_crossing. */
    ESTIMATED_DEMANDED, /* rows' worth */
    ESTIMATED_AHEAD,
    ESTIMATED_PREDICTED, /* rows */
    ESTIMATED_DEEPENED,
    ESTIMATED_COUNT
};

/* A round, as far as it matters for what it fetches. */
struct round_kind {
    uint32_t stratum, age, context; /* the latter two in octaves */
    uint32_t cover;                 /* by half octaves of what is in no page */
    uint32_t queries;
};

/* A round of a hot cache that has seen so many rounds, of visible_rows in the stratum's own rows,
 * of which that share is in no page in HBM. */
struct round_kind round_kind_of(uint32_t stratum, uint64_t rounds, uint32_t visible_rows,
                                double uncovered, uint32_t top_k, uint32_t queries);

struct estimator;

KVT_CHECKED kvt_status estimator_new(uint32_t queries_max, struct estimator **out,
                                     struct kvt_error *err);
void estimator_free(struct estimator *estimator); /* takes NULL */

/* A followed round of positive weight. */
void estimator_add(struct estimator *estimator, const struct round_kind *kind, double weight,
                   const double counts[ESTIMATED_COUNT]);

/* Whether a round of the kind was ever added. */
bool estimator_knows(const struct estimator *estimator, const struct round_kind *kind);

/* Per weight; all 0 where nothing of the stratum was ever followed. Borrowed until the next
 * estimator_add(). */
const double *estimator_rates(struct estimator *estimator, const struct round_kind *kind);

#endif
