/* sim_private.h -- the run's own state, shared by the sim_*.c files. */
#ifndef KVT_SIM_PRIVATE_H
#define KVT_SIM_PRIVATE_H

#include "kvt/backend.h"
#include "kvt/event.h"
#include "kvt/profile.h"
#include "kvt/rank.h"
#include "kvt/sim.h"
#include "kvt/source.h"
#include "kvt/workload.h"
#include "sim_course.h"

enum event_kind {
    EVENT_STEP_DONE,    /* target: group, payload: its step */
    EVENT_IMPORT_DONE,  /* target: rank, payload: request, as sim_awaited() has it */
    EVENT_PREFILL_DONE, /* payload: likewise */
    EVENT_ARRIVAL,      /* the source said to ask again now */
    EVENT_BOUNDARY,     /* target: group */
    EVENT_INTERVAL,
    EVENT_WARMUP, /* ends now: what is counted begins */
    EVENT_STOP,
    EVENT_FAULT, /* target: fault */
    EVENT_REPAIR /* target: fault */
};

/* Ranks that step together: all of a pool in lockstep, or one rank. */
struct group {
    uint32_t first_rank, rank_count;
    uint32_t pool;
    bool stepping, boundary_scheduled;
    kvt_ns fill_boundary_ns; /* of the boundary that waits for pages on their way up */
    const struct kvt_timing_model *timing;
    void *timing_state;
    void *if_states[KVT_WHAT_IFS];      /* in other settings; NULL: those would say nothing */
    kvt_ns parts_ns[KVT_PARTS];         /* of the step under way, ... */
    kvt_ns stall_ns;                    /* ... and what held it up */
    struct kvt_profile_setting setting; /* what of the pool features of a step depend on */
    const struct kvt_prefill *prefill;  /* at which rate prompts are computed beside */
    const struct kvt_prefetch *prefetch;
    uint32_t selectors;        /* of the model */
    uint64_t step_serial;      /* of the step under way; what an event says of another is void */
    const double *link_factor; /* [rank_count] share of its link that each has; NULL: all of it */
};

/* The prefill pool: servers, and a queue before them. */
struct prefill {
    uint32_t busy;
    uint32_t failed;         /* servers that cannot be used */
    uint64_t turns;          /* prompts begun so far */
    struct kvt_live **queue; /* ring [capacity] */
    size_t head, count, capacity;
};

/* What has failed; all NULL where nothing will. */
struct faults {
    uint32_t *down; /* [rank_count] faults that keep each rank down */
    uint32_t down_count;
    double *link_factor;              /* [rank_count] */
    struct kvt_fault_report *reports; /* [of the scenario] */
    struct kvt_live **homeless;       /* [homeless_count] wait for any rank to come back */
    size_t homeless_count, homeless_capacity;
    struct kvt_live **leaving; /* scratch */
    size_t leaving_count, leaving_capacity;
};

enum {
    OUTSIDE_MAX = 16 /* ways to be out of range that are told apart */
};

struct kvt_sim {
    const struct kvt_scenario *scenario;
    struct kvt_sim_options options;
    struct kvt_eventq *events;
    kvt_ns now_ns, end_ns; /* end: KVT_NS_NEVER where it ends with its requests */
    uint64_t event_count;
    bool ended;

    /* What arrives. */
    struct kvt_source workload;
    const struct kvt_arrival *arrival; /* of workload, as is what follows */
    void *source;
    kvt_ns arrival_due_ns; /* of the ARRIVAL event under way; KVT_NS_NEVER: none */
    bool source_ended;
    uint32_t output_cap; /* longest usual output: what a request's hot caches are sized for */

    /* Requests. */
    struct kvt_request_record *records; /* [record_count] */
    struct kvt_live **live;             /* [record_count] NULL once ended */
    size_t record_count, record_capacity;
    uint64_t in_flight, importing, decoding, completed;
    uint64_t waiting, prefilling; /* prefilling ones wait too */
    uint32_t *prefilling_for;     /* [rank_count] in the prefill pool, or before it, by rank */
    uint64_t computing;           /* of importing, those whose prompts the ranks compute */

    /* Who serves them. */
    uint32_t rank_count, group_count, host_count, gpus;
    struct kvt_rank *ranks;
    struct group *groups;
    uint32_t *group_of; /* [rank_count] */
    struct kvt_host_pool *hosts;
    const struct kvt_router_policy *router;
    void *router_state;
    struct kvt_router_rank *router_views; /* scratch [rank_count] */
    uint32_t *router_choices;             /* scratch [rank_count] */
    struct prefill prefill;
    struct faults faults;
    struct kvt_backend *backend;
    const struct kvt_speculation_method *speculation;
    void *speculation_data;

    /* The step in hand. */
    struct kvt_rank_load *loads;          /* [rank_count] of each rank's newest step */
    struct kvt_rank_load *guesses;        /* scratch [rank_count] */
    struct kvt_rank_load *shared_loads;   /* scratch [rank_count] */
    struct kvt_rank_step *rank_steps;     /* scratch [rank_count] */
    struct kvt_step_item *items;          /* scratch [round_capacity] */
    struct kvt_round *rounds;             /* scratch [round_capacity] */
    struct kvt_speculation_request *asks; /* scratch [round_capacity] */
    uint64_t *item_order;                 /* scratch [2 x round_capacity] */
    void *plan_scratch;                   /* the method's, for [round_capacity] */
    uint32_t round_capacity;

    /* The books. */
    uint64_t decisions;
    kvt_ns booked_ns;         /* integrals are complete up to here */
    struct kvt_tally tally;   /* of the interval under way */
    struct sim_course course; /* for means over the central half */
    kvt_ns interval_ns;
    uint64_t interval_count;
    struct kvt_interval *intervals; /* [run.interval_count]; where there are phases to compare */
    size_t interval_capacity;
    kvt_ns warmup_ns; /* KVT_NS_NEVER: not reached yet */
    struct outside_count {
        struct kvt_outside first; /* of its part and feature */
        uint64_t steps;
    } outside[OUTSIDE_MAX]; /* [outside_count] */
    uint32_t outside_count;
    struct kvt_run run;
};

/* ---- sim_flow.c: what happens to requests ---- */

/* Asks the source for every request that arrives now, and when to ask again. */
KVT_CHECKED kvt_status sim_poll_arrivals(struct kvt_sim *sim, struct kvt_error *err);
KVT_CHECKED kvt_status sim_on_import_done(struct kvt_sim *sim, uint32_t rank, uint64_t request,
                                          struct kvt_error *err);
/* The request has delivered its last token; its place is free. */
KVT_CHECKED kvt_status sim_complete(struct kvt_sim *sim, struct kvt_live *live,
                                    struct kvt_error *err);
/* A rank has given host DRAM back: it and the others of its node that stand still
 * get a boundary, for what they wait for may fit now. */
KVT_CHECKED kvt_status sim_wake_node(struct kvt_sim *sim, uint32_t rank, struct kvt_error *err);
/* More tokens of a request, at least one, reach its user now, at once. */
void sim_deliver(struct kvt_sim *sim, struct kvt_live *live, uint32_t tokens);
KVT_CHECKED kvt_status sim_schedule_boundary(struct kvt_sim *sim, uint32_t group,
                                             struct kvt_error *err);
KVT_CHECKED kvt_status sim_push(struct kvt_sim *sim, kvt_ns time_ns, enum kvt_phase phase,
                                enum event_kind kind, uint32_t target, uint64_t payload,
                                struct kvt_error *err);
/* The context that a request may grow to, as far as anybody may know beforehand: its
 * prompt and the workload's longest answer, within what the model takes. */
uint32_t sim_longest_context(const struct kvt_sim *sim, uint32_t input_tokens,
                             uint32_t output_tokens);
/* now + duration, or the end of time. */
kvt_ns sim_after(const struct kvt_sim *sim, kvt_ns duration_ns);
/* GPUs of a rank: its tensor-parallel peers. */
uint32_t sim_gpus_of(const struct kvt_sim *sim, uint32_t rank);
/* Imports whose turn has come. */
KVT_CHECKED kvt_status sim_begin_imports(struct kvt_sim *sim, uint32_t rank, struct kvt_error *err);

/* ---- sim_route.c: the way to a rank ---- */

/* *routed: to its record's rank. Not, and servable: every rank that could serve it is down. */
KVT_CHECKED kvt_status sim_route(struct kvt_sim *sim, struct kvt_live *live, bool *routed,
                                 bool *servable, struct kvt_error *err);
/* To the rank that it is routed to, prefilled where prompts are; where it is routed to none, it
 * waits for one to come back. */
KVT_CHECKED kvt_status sim_send_off(struct kvt_sim *sim, struct kvt_live *live, bool routed,
                                    struct kvt_error *err);
/* Both, of a request that has no rank. */
KVT_CHECKED kvt_status sim_place(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err);
KVT_CHECKED kvt_status sim_on_prefill_done(struct kvt_sim *sim, uint64_t request,
                                           struct kvt_error *err);

/* ---- sim_prefill.c: the pool that computes prompts ---- */

/* Into the prefill pool, or its queue. */
KVT_CHECKED kvt_status sim_queue_prefill(struct kvt_sim *sim, struct kvt_live *live,
                                         struct kvt_error *err);
/* Its prompt is computed, or its server has failed: the server is free. */
void sim_leave_prefill(struct kvt_sim *sim, const struct kvt_live *live);
/* Prompts that wait, as far as there are servers. */
KVT_CHECKED kvt_status sim_begin_prefills(struct kvt_sim *sim, struct kvt_error *err);

/* ---- sim_faults.c: what fails ---- */

KVT_CHECKED kvt_status sim_faults_open(struct kvt_sim *sim, struct kvt_error *err);
void sim_faults_close(struct kvt_sim *sim);
bool sim_is_down(const struct kvt_sim *sim, uint32_t rank);
KVT_CHECKED kvt_status sim_on_fault(struct kvt_sim *sim, uint32_t index, struct kvt_error *err);
KVT_CHECKED kvt_status sim_on_repair(struct kvt_sim *sim, uint32_t index, struct kvt_error *err);
/* It waits until a rank has come back. */
KVT_CHECKED kvt_status sim_shelter(struct kvt_sim *sim, struct kvt_live *live,
                                   struct kvt_error *err);
/* It decodes, or has said all it had to: a fault may be recovered from. */
void sim_note_decoding(struct kvt_sim *sim, struct kvt_live *live);
/* Everybody left waits for a rank, and none will come. */
KVT_CHECKED kvt_status sim_diagnose_homeless(const struct kvt_sim *sim, struct kvt_error *err);

/* An event's payload: the request as it is now. One that has been interrupted since, or has ended,
 * is awaited no more: NULL. */
static inline uint64_t sim_awaited(const struct kvt_live *live)
{
    return (uint64_t)live->epoch << 32 | live->id;
}
static inline struct kvt_live *sim_find_awaited(const struct kvt_sim *sim, uint64_t payload)
{
    struct kvt_live *live = sim->live[(uint32_t)payload];
    return live && live->epoch == payload >> 32 ? live : NULL;
}

/* ---- sim_round.c: what each request of a step drafts and verifies ---- */

/* Fills sim->rounds, sim->items and the items of sim->rank_steps for the ranks of a
 * group, and says how many requests take part. */
KVT_CHECKED kvt_status sim_plan_rounds(struct kvt_sim *sim, const struct group *group,
                                       uint32_t *count, struct kvt_error *err);

/* ---- sim_backend.c: the backend of the run ---- */

/* Once ranks and speculation are there. */
KVT_CHECKED kvt_status sim_open_backend(struct kvt_sim *sim, struct kvt_error *err);

/* ---- sim_hooks.c: what policies want to know ---- */

/* Refuses what this run cannot tell them, with what would be right. */
KVT_CHECKED kvt_status sim_check_hooks(const struct kvt_sim *sim, struct kvt_error *err);

/* ---- sim_step.c: boundaries and decode steps ---- */

KVT_CHECKED kvt_status sim_on_boundary(struct kvt_sim *sim, uint32_t group, struct kvt_error *err);
/* step: the group's step_serial as it began. */
KVT_CHECKED kvt_status sim_on_step_done(struct kvt_sim *sim, uint32_t group, uint64_t step,
                                        struct kvt_error *err);
/* Tokens that the request's round will deliver: what it commits, and no more than is left. */
uint32_t sim_round_delivery(const struct kvt_live *live);

/* ---- sim_step_time.c: how long a step takes ---- */

/* How long a step of these loads takes, and its parts: what the ranks share, and the slowest rank;
 * loads[rank_count] of the group's ranks. Whole ns, as long as the timing model has them: a step of
 * the run is at most KVT_STEP_NS_MAX, a question of what it would take has no such end. *waited_ns
 * is what the others waited for it. features as in struct kvt_step_times; NULL: nobody asks. */
double sim_predict(const struct group *group, struct kvt_rank_load *loads, double parts[KVT_PARTS],
                   double features[KVT_FEATURES], double *waited_ns);
/* The same where the ranks share `all`; *slowest is the rank that takes longest, from loads[0]. */
double sim_predict_of(const struct group *group, const struct kvt_group_load *all,
                      struct kvt_rank_load *loads, double parts[KVT_PARTS], double *waited_ns,
                      uint32_t *slowest);
struct kvt_group_load sim_group_load(const struct group *group, const struct kvt_rank_load *loads);

/* What a step of the group, whose loads are in sim->loads, takes by the run's clock; the other
 * clock's figures go to the books too, the step's parts to the group. Refuses one that takes longer
 * than KVT_STEP_NS_MAX. */
KVT_CHECKED kvt_status sim_time_step(struct kvt_sim *sim, struct group *group, uint32_t requests,
                                     kvt_ns *out, struct kvt_error *err);

/* ---- sim_what_if.c: how long steps would take otherwise ---- */

/* To the books, of a step of the group whose loads are in sim->loads: how long it would take on a
 * faster link, or with more ranks; and how long its slowest rank keeps the link busy. Decides
 * nothing. requests: that decode in it; step_ns: as predicted. */
void sim_book_what_ifs(struct kvt_sim *sim, const struct group *group, uint32_t requests,
                       kvt_ns step_ns);

/* ---- sim_waits.c: of what latencies consist ---- */

/* Until now a request that has no token yet was where it was; from now on it is there. */
void sim_wait(const struct kvt_sim *sim, struct kvt_live *live, enum kvt_wait_part part);
/* Its first token goes out now. */
void sim_end_wait(struct kvt_sim *sim, struct kvt_live *live);
/* It delivers tokens of the group's step that ends now. */
void sim_took_part(const struct group *group, struct kvt_live *live);
/* It has ended, or the run has. */
void sim_end_tokens(struct kvt_sim *sim, const struct kvt_live *live);

/* ---- sim_analytic.c: mean values instead of events ---- */

/* Fills sim->run but for what its bases are; the run has ended then. */
KVT_CHECKED kvt_status sim_solve(struct kvt_sim *sim, struct kvt_error *err);

/* ---- sim_books.c: what is counted ---- */

KVT_CHECKED kvt_status sim_books_open(struct kvt_sim *sim, struct kvt_error *err);
/* The first interval, once those who arrive at the start are there: a stretch in which nobody is
 * served is one interval, however long. */
KVT_CHECKED kvt_status sim_books_begin(struct kvt_sim *sim, struct kvt_error *err);
void sim_books_close(struct kvt_sim *sim);
/* Time integrals up to now; before anything changes at this instant. */
void sim_books_advance(struct kvt_sim *sim);
/* The counters that ranks have gathered, and the peaks. */
void sim_books_collect(struct kvt_sim *sim);
/* Closes the interval under way, short as it may be, and opens the next. */
KVT_CHECKED kvt_status sim_books_cut(struct kvt_sim *sim, struct kvt_error *err);
/* The same at its regular end, with the next one's scheduled. */
KVT_CHECKED kvt_status sim_books_interval(struct kvt_sim *sim, struct kvt_error *err);
KVT_CHECKED kvt_status sim_books_finish(struct kvt_sim *sim, bool interrupted,
                                        struct kvt_error *err);
/* Who served, and what the figures rest on: of any run. */
void sim_books_describe(struct kvt_sim *sim);
uint32_t sim_phase_now(const struct kvt_sim *sim);

#endif
