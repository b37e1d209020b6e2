/* kvt/sim.h -- the run: make it, advance it, ask it, free it. */
#ifndef KVT_SIM_H
#define KVT_SIM_H

#include "kvt/analytic.h"
#include "kvt/backend.h"
#include "kvt/observer.h"
#include "kvt/profile.h"
#include "kvt/report.h"
#include "kvt/scenario.h"

KVT_BEGIN_DECLS

struct kvt_sim;

/* What one step took. By a measured clock it is measured_ns and the sum of added_parts_ns. */
struct kvt_step_times {
    uint32_t first_rank, rank_count; /* that stepped together */
    uint32_t requests, queries;      /* of all of them */
    kvt_ns predicted_ns;             /* all parts */
    kvt_ns measured_ns; /* those that are run; KVT_NS_NEVER where the backend measures nothing */
    kvt_ns predicted_parts_ns[KVT_PARTS], measured_parts_ns[KVT_PARTS]; /* of the slowest rank */
    kvt_ns added_parts_ns[KVT_PARTS]; /* to what was measured: predicted of parts that nobody runs,
                                       * of the rank that is slowest with them */
    bool in_range;                    /* of what the timing model was fitted to */
    bool runs_drafts;                 /* the part "draft" is one of those that are run */
    enum kvt_step_timing timing;      /* of the slowest rank, where anything was measured */
    uint16_t part_marks[KVT_PARTS];   /* likewise */
    double launch_ns;                 /* likewise */
    double features[KVT_FEATURES];    /* of kvt/profile.h: of the slowest rank, as measured or else
                                       * as predicted; those of a group of all of them */
};

/* Of the prediction what can be set beside measured_ns: the parts that a backend runs. */
static inline kvt_ns kvt_step_predicted_run_ns(const struct kvt_step_times *times)
{
    kvt_ns total = 0;

    for (int p = 0; p < KVT_PARTS; p++)
        total += kvt_step_part_is_run((enum kvt_step_part)p, times->runs_drafts)
                     ? times->predicted_parts_ns[p]
                     : 0;
    return total;
}

struct kvt_sim_options {
    unsigned threads; /* at most so many; 0: one. Never changes a result. */
    const char
        *cache_dir; /* where what is prepared may be kept, borrowed; NULL: nowhere. Nor does it. */
    /* Called as each interval of run.interval_s closes. Optional. */
    void (*on_interval)(void *context, const struct kvt_tally *interval, uint32_t stratum_count);
    void *interval_context;
    /* Called now and then while something is prepared, before the run or during it; false ends
     * kvt_sim_new(), or the step, with KVT_ERR_INTERRUPTED: a run that has begun can be finished
     * as one that was interrupted. Optional; of the run's life. */
    bool (*on_prepare)(void *context, double done_fraction, const char *what);
    void *prepare_context;
    /* Opens another backend than the scenario's, of the same rules: a pair of them. Optional. */
    kvt_status (*open_backend)(void *context, const struct kvt_backend_env *env,
                               struct kvt_backend **out, struct kvt_error *err);
    void *backend_context;
    /* Called behind each step of a group that decoded something, with what it took as the timing
     * model and as the backend has it. Optional. */
    void (*on_step)(void *context, const struct kvt_step_times *times);
    void *step_context;
    const struct kvt_observer *observer; /* of steps and transfers; of the run's life; NULL: nobody
                                          * watches. An analytic run has neither. */
    struct kvt_surfaces *surfaces;       /* of analytic runs, kept for a sweep, borrowed; NULL: the
                                          * run's own */
};

/* The scenario is borrowed for the run's life. Refuses what cannot run. */
KVT_CHECKED kvt_status kvt_sim_new(const struct kvt_scenario *scenario,
                                   const struct kvt_sim_options *options, struct kvt_sim **out,
                                   struct kvt_error *err);
void kvt_sim_free(struct kvt_sim *sim); /* takes NULL */

/* One event. *more is false once the run has reached its end. KVT_ERR_STALLED,
 * with a diagnosis, when requests wait and nothing can ever serve them. */
KVT_CHECKED kvt_status kvt_sim_step(struct kvt_sim *sim, bool *more, struct kvt_error *err);
/* Until the next event would be after until_ns, or the end. */
KVT_CHECKED kvt_status kvt_sim_run_until(struct kvt_sim *sim, kvt_ns until_ns, bool *more,
                                         struct kvt_error *err);

kvt_ns kvt_sim_now_ns(const struct kvt_sim *sim);
/* Share of the run that is done, by time or by requests; -1: not known. */
double kvt_sim_progress(const struct kvt_sim *sim);

/* A hash of every decision so far (admissions, slots, victims, page moves) and of
 * nothing that was measured: equal for equal scenarios on every machine. */
uint64_t kvt_sim_decision_hash(const struct kvt_sim *sim);

/* What must hold between any two events, looked over so many times. Whoever wants to know calls it
 * behind each; `looks` and what follows it are added to. */
struct kvt_sim_audit {
    uint64_t looks, requests; /* requests that decode, summed over the looks */
    /* Of those requests or their ranks, how many did not have it so: */
    uint64_t lent; /* index rows, hot cache and tail are held to the byte; no pool is exceeded */
    uint64_t homeless; /* every committed row is in HBM, or on host by now */
    uint64_t
        uncommitted; /* rows are those of the prompt and of all delivered tokens but the newest */
    uint64_t wide_rings; /* draft KV is what the drafter's window takes, at any length */
    uint64_t overstaged; /* what a step stages fits the staging that is held */
};
KVT_CHECKED kvt_status kvt_sim_audit(const struct kvt_sim *sim, struct kvt_sim_audit *audit,
                                     struct kvt_error *err);

/* Closes the books; valid until the sim is freed. Call once, at the end (or after
 * an interrupt: interrupted says so). Checks both conservation lines and that
 * arrived = completed + running + waiting + dropped. */
KVT_CHECKED kvt_status kvt_sim_finish(struct kvt_sim *sim, bool interrupted,
                                      const struct kvt_run **out, struct kvt_error *err);

KVT_END_DECLS
#endif
