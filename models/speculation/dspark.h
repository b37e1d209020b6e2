/* dspark.h -- DSpark's state, between its two halves: tables and parameters (dspark.c), and
 * what a round verifies (dspark_plan.c). */
#ifndef KVT_MODELS_SPECULATION_DSPARK_H
#define KVT_MODELS_SPECULATION_DSPARK_H

#include "acceptance.h"
#include "confidence.h"
#include "kvt/costs.h"

struct dspark {
    struct acceptance acceptance;
    struct confidence *confidences;        /* one a distinct chance of the lists */
    uint32_t (*confidence_of)[DRAFTS_MAX]; /* [task][position] */
    struct kvt_costs *costs;               /* NULL: the run's timing */
    uint64_t run_seed;
    uint32_t drafts; /* made in a round */
    uint32_t fixed_drafts;
    uint32_t lag_rounds;
    uint32_t pool_requests;
    bool early_stop;
};

/* The table's members of these names. */
void kvt_dspark_plan(const void *method, const struct kvt_speculation_view *view,
                     struct kvt_round *rounds);
size_t kvt_dspark_plan_bytes(const void *method, uint32_t request_count);

#endif
