/* march.h -- mean numbers of requests on their way through a run. */
#ifndef KVT_ANALYTIC_MARCH_H
#define KVT_ANALYTIC_MARCH_H

#include "surface.h"

enum {
    MARCH_LOADS = 12,    /* active requests 1, 2, 4, .. that surfaces are asked for */
    MARCH_CELLS = 16384, /* steps of a march, at most */
    LIFE_CELLS = 4096    /* steps that the longest request decodes for, at most */
};

#define ROUNDS_UNTIL_TAKEN_IN 0.5 /* half a step, on average */

/* Requests of one rank that began to decode in the same step. */
struct cohort {
    double entered; /* requests */
    double alive;   /* of those */
    double entry_s; /* when, on average */
    double pages;   /* of each one's history in HBM */
    double number;  /* of the mean one of them, in order of arrival */
    double wait_s;  /* that one's, from its arrival to entry_s */
};

/* A rank's share of a stage that requests queue for. */
struct march_queue {
    double servers; /* 0: there is no such stage */
    double shares;  /* of so many ranks queue together */
    double service_s, service_scv;
    double variability; /* of arrivals and services: half the sum of their squared variations */
    double load;        /* open: what comes over what can be served; closed: 0 */
};

/* What a march is about: one rank of several that are alike. */
struct march_env {
    const struct surface_env *surfaces;
    const struct surface *loads[MARCH_LOADS]; /* [load_count] */
    uint32_t load_count;

    /* What arrives, a rank's share. */
    bool closed;
    double in_flight;                   /* closed: requests that exist at once */
    double requests;                    /* in all; INFINITY: no end */
    double arrivals_per_s, arrival_scv; /* open */
    double duration_s;                  /* INFINITY: none */
    double warmup_s, warmup_requests;   /* the later of the two; 0: none */

    /* Tokens after the first, by share of requests: chance_of_life[n] of n cells, each
     * cell_tokens, what the last round overshoots and the wait for the first included. */
    double cell_tokens;
    uint32_t life_cells;
    double chance_of_life[LIFE_CELLS + 1];
    double mean_output_tokens,
        mean_life_tokens;   /* life: tokens after the first, and extra_tokens */
    double extra_tokens;    /* of a request that decodes */
    double overshoot_share; /* of what rounds commit: past the answers' ends */

    /* Places. */
    double slots;
    struct march_queue prefill, import;
    double import_hbm_bytes; /* of one, into each GPU */
    double burst_import_s;   /* mean of those that exist at the start */

    /* Memory of one GPU. */
    bool refills; /* optional history fills what is spare */
    double refill_bytes_per_s, page_bytes, spare_fraction;
    double pool_bytes;   /* that optional history shares */
    double held_bytes;   /* of it, of each request that holds a slot */
    double growth_bytes; /* of it, of each token after the prompt */
    double reserve_bytes;
    double other_pool_bytes, other_growth_bytes, other_held_bytes; /* of the pool beside it */
    double host_held_bytes, host_growth_bytes; /* of one copy in DRAM, likewise */
    double grown_bytes[KVT_MEM_CLASSES]; /* of either, of each token after the prompt, by class */
};

/* What a rank holds in HBM at one moment. */
struct march_memory {
    double held, grown_tokens; /* requests; tokens of all of them after their prompts */
    double optional_bytes;
    double bytes; /* in all, of one GPU */
};

/* Requests, and how long they have waited for their first token by the means of their cohorts. */
struct march_reach {
    double requests, wait_s;
};

/* What came of it; extensive figures are a rank's. */
struct march_result {
    double end_s, counted_s;                 /* counted: without the warm-up */
    double arrived, first_tokens, completed; /* in all */
    double counted_arrived, admitted, counted_completed;
    double first_counted, decode_tokens; /* tokens, first ones and of rounds */
    double rounds, steps, step_s, rank_step_s, waited_s;
    double parts_s[KVT_PARTS];
    double extrapolated_steps;
    struct surface_cell rows[KVT_STRATA_MAX]; /* of all rounds, per store of the stratum */
    double waiting_s, importing_s, prefilling_s, running_s; /* requests x time */
    double fill_bytes, released_bytes;
    /* Of those that arrived after the warm-up, summed over as many; post: after the first wave. */
    double ttft_s, ttft_requests, post_ttft_s, post_ttft_requests;
    double tpot_s, tpot_requests, post_tpot_s, post_tpot_requests;
    double span_s, span_requests, post_span_s, post_span_requests; /* decoding, of completed ones */
    struct march_reach begun, done, post_begun, post_done; /* of those in ttft_s and in span_s */
    double active, coverage, covered;    /* over the central half; covered: share of it with rows */
    double held_peak, growth_peak_bytes; /* each at its own moment */
    struct march_memory memory_peak;     /* when it is fullest */
    double host_peak_bytes;
    double in_flight_peak;
    double running_end, waiting_end;
    double slot_load;  /* open: what comes to the slots over what they take; NaN: all of it */
    bool says_outside; /* outside is known */
    struct kvt_outside outside; /* what of extrapolated_steps was so most often */
};

KVT_CHECKED kvt_status march_run(const struct march_env *env, struct march_result *out,
                                 struct kvt_error *err);

/* Refuses a step that takes longer than KVT_STEP_NS_MAX. */
KVT_CHECKED kvt_status march_check_step(const struct march_env *env, double step_s,
                                        struct kvt_error *err);

/* ---- step_cost.c ---- */

/* Means of a round of one request, all its stores: what the timing model is asked about. */
struct round_load {
    struct round_means means;
    double calls, selected, attended, looked_up, missed, missed_layers, with_misses, granules;
    double fetched_spread; /* of a request's missed layer rows, standard deviation over mean */
    double context_tokens;
    double backup_bytes, fill_bytes_per_s, import_bytes_per_s;
};

/* Surfaces of the loads around `active`, and how much of the upper one. */
double step_cost_between(const struct march_env *env, double active, uint32_t *low);
/* Folds a store's round, by stratum, into a load. */
void step_cost_fold(const struct march_env *env, const struct surface_cell rows[KVT_STRATA_MAX],
                    struct round_load *load);
/* Whether a step lies where the timing model was fitted, and where not. */
struct step_range {
    bool in_range, says_outside;
    struct kvt_outside outside;
};

/* Seconds of a step with so many requests on a mean rank and on the slowest; by parts. */
double step_cost(const struct march_env *env, const struct round_load *load, double requests,
                 double slowest, double parts_s[KVT_PARTS], struct step_range *range);

/* ---- queue_cost.c ---- */

/* Those that leave servers in dt_s of `present` there, arrivals included, when the queue's law at
 * each moment is the stationary one; the smaller of the two roots of a balance. load: what comes
 * over what can be served; beyond 1 no law is stationary, and servers that have a backlog are as
 * seldom idle as those of a walk that drifts away. */
double queue_served(double present, double servers, double service_s, double variability,
                    double load, double dt_s);

/* Of `want` pages, those that a transfer of at most `most` brings up while requests come one by
 * one, each of them in want of `each`. */
double refill_done(double want, double each, double requests, double most);

/* ---- spare.c: optional history, levelled across cohorts [from, to), the older ones first ---- */

/* Brings up `bytes`, lowest coverage first; returns what there was room for. */
double spare_fill(struct cohort *cohorts, uint32_t from, uint32_t to, const double *eligible_pages,
                  double pages);
/* Gives up pages, highest coverage first; returns how many. */
double spare_release(struct cohort *cohorts, uint32_t from, uint32_t to, double pages);

#endif
