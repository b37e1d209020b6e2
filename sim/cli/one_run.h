/* one_run.h -- one scenario on one seed, from its beginning to its figures. */
#ifndef KVT_CLI_ONE_RUN_H
#define KVT_CLI_ONE_RUN_H

#include "jobs.h"
#include "kvt/badge.h"
#include "kvt/sim.h"

struct cJSON;

enum {
    ONE_RUN_BASIS_BYTES = 24
};

/* What is kept of a run once it is closed. */
struct one_run {
    double *metrics; /* [metrics] of the caller, as kvt_metric_docs() counts; NaN: none */
    uint64_t hash;   /* of all decisions */
    struct kvt_badge badge;
    char basis[ONE_RUN_BASIS_BYTES]; /* what output_throughput rests on; empty: not known */
    struct cJSON *result;            /* result.json as a tree, where it was asked for: the caller's
                                      * to delete; else NULL */
};

struct one_run_options {
    unsigned threads;              /* as kvt_sim_options has these three */
    const char *cache_dir;         /* borrowed */
    struct kvt_surfaces *surfaces; /* borrowed; NULL: the run's own */
    bool wants_result;
};

/* Runs the scenario on `seed` to its end, telling job how far it is. After a signal
 * KVT_ERR_INTERRUPTED; then, as after any failure, nothing of out is set but its metrics, which
 * mean nothing. */
KVT_CHECKED kvt_status one_run(const struct kvt_scenario *scenario, uint64_t seed,
                               const struct one_run_options *options, struct cli_job *job,
                               struct one_run *out, struct kvt_error *err);

#endif
