/* kvt/analytic.h -- a run without events: miss surfaces of the law, and mean values.
 *
 * What a round fetches depends on its width, the size of the hot cache, how much of the
 * history is in HBM and how many rounds the request has had; not on when it happens. So
 * it is measured once, by streams of the law in force through the resolver, and looked
 * up while mean numbers of requests (waiting, in prefill, imported, decoding) move
 * through the run. No percentile follows from mean values, and none is given. */
#ifndef KVT_ANALYTIC_H
#define KVT_ANALYTIC_H

#include "kvt/rank.h"
#include "kvt/report.h"
#include "kvt/speculation.h"
#include "kvt/workload.h"

KVT_BEGIN_DECLS

/* Surfaces measured so far, for runs of one program; any number of threads may use it at
 * once. A run whose surfaces are all there prepares no law. */
struct kvt_surfaces;
KVT_CHECKED kvt_status kvt_surfaces_new(struct kvt_surfaces **out, struct kvt_error *err);
void kvt_surfaces_free(struct kvt_surfaces *surfaces); /* takes NULL */

/* A run as its owner has put it together. All borrowed. */
struct kvt_analytic_env {
    const struct kvt_scenario *scenario;
    struct kvt_rank *rank; /* one of rank_count that are alike, empty */
    uint32_t rank_count, gpus_per_rank, hosts;
    bool lockstep;
    const struct kvt_timing_model *timing;
    const void *timing_state;
    const struct kvt_arrival *arrival;
    void *source;
    const struct kvt_speculation_method *speculation;
    const void *speculation_data;
    struct kvt_surfaces *surfaces;
    const char *cache_dir; /* where surfaces are kept from run to run; NULL: nowhere */
    unsigned threads;      /* to measure with; never changes a result */
    bool (*on_prepare)(void *context, double done_fraction, const char *what);
    void *prepare_context;
};

/* Refuses (KVT_ERR_UNSUPPORTED), with the reason, what mean values cannot stand for. */
KVT_CHECKED kvt_status kvt_analytic_check(const struct kvt_analytic_env *env,
                                          struct kvt_error *err);

/* Fills totals, means and strata of *run, whose other members are the owner's. */
KVT_CHECKED kvt_status kvt_analytic_solve(const struct kvt_analytic_env *env, struct kvt_run *run,
                                          struct kvt_error *err);

KVT_END_DECLS
#endif
