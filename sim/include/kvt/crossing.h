/* kvt/crossing.h -- how what a call lacks crosses the link: some rows ahead of it, and of a row no
 * more than its queries read. Neither says what is in a hot cache. */
#ifndef KVT_CROSSING_H
#define KVT_CROSSING_H

#include "kvt/timing.h"

KVT_BEGIN_DECLS

/* What runs while predicted rows are on their way. */
enum kvt_prefetch_lead {
    KVT_LEAD_SCAN = 0, /* the call's own index scan */
    KVT_LEAD_SELECTOR, /* everything between the selector before and this one */
    KVT_LEAD_STEP,     /* the whole step before */
    KVT_LEADS
};
const char *kvt_prefetch_lead_name(enum kvt_prefetch_lead lead); /* "scan", ..; never NULL */

/* A predictor of rows that calls will miss, by how good it is. */
struct kvt_prefetch {
    double recall;    /* of rows that are missed, the share that was predicted; 0: none is */
    double precision; /* of rows that were predicted, the share that is missed */
    enum kvt_prefetch_lead lead;
};

/* Rows on host lie in two planes, and what a query reads of one is the first, or both. */
struct kvt_read_depth {
    double shallow_share;    /* of reads, those that need the first alone; 0: a row is one piece */
    double shallow_fraction; /* of a row's bytes, those of the first */
};

static inline bool kvt_predicts_rows(const struct kvt_prefetch *prefetch)
{
    return prefetch->recall > 0;
}

/* Rows that are sent for each that a call misses indeed. */
static inline double kvt_sent_per_predicted(const struct kvt_prefetch *prefetch)
{
    return kvt_predicts_rows(prefetch) ? 1 / prefetch->precision : 1;
}

static inline bool kvt_reads_planes(const struct kvt_read_depth *depth)
{
    return depth->shallow_share > 0;
}

/* What one call has cross the link. Rows of which a part crosses count for that part. */
struct kvt_crossing {
    double demanded_rows, ahead_rows;     /* ahead: those in vain included */
    double demanded_pieces, ahead_pieces; /* contiguous ones of host memory */
    double predicted_rows, wasted_rows;   /* whole ones, of whichever part */
    uint32_t deepened_rows; /* that were cached by their first plane, and are by both */
};

/* By how much a rank's own parts of a step grow for what its load sends ahead, ns: the time that
 * the link takes for it beyond what the rank demands, less what runs meanwhile. Followers that are
 * fetched behind compute have their share of that first. shared, own: parts of the group and of the
 * rank without it. */
double kvt_ahead_exposed_ns(const struct kvt_timing_model *timing, const void *timing_state,
                            enum kvt_prefetch_lead lead, uint32_t selectors,
                            const struct kvt_rank_load *load, const double shared[KVT_PARTS],
                            const double own[KVT_PARTS]);

/* How long the link is busy with a load's missed rows, waited for or not, ns. */
double kvt_link_busy_ns(const struct kvt_timing_model *timing, const void *timing_state,
                        const struct kvt_rank_load *load);

KVT_END_DECLS
#endif
