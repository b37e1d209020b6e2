/* backend_sim_private.h -- the predicted backend from inside: requests and how they step. */
#ifndef KVT_BACKEND_SIM_PRIVATE_H
#define KVT_BACKEND_SIM_PRIVATE_H

#include "estimate.h"
#include "kvt/calls.h"
#include "kvt/crew.h"
#include "kvt/look_ahead.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"
#include "kvt/strata.h"

enum {
    RATIOS_MAX = 7, /* 1, 2, .. KVT_PAGE_ROWS */
    DEVIATIONS = 64 /* of followed calls, that are remembered */
};

/* One store that a request follows. */
struct followed {
    uint32_t store;
    struct kvt_hot_cache *cache;         /* NULL while all history is in HBM */
    struct kvt_look_ahead *ahead;        /* NULL: nobody sees the future */
    uint64_t *deep_rows;                 /* set: cached rows of which both planes are there; NULL:
                                          * rows are one piece. Others than cached say nothing */
    uint32_t first_stream;               /* of its selectors, in lane->streams */
    double expected[KVT_SAMPLED_COUNTS]; /* what the estimator makes of its calls */
    /* Of its calls, while some stand for others. */
    double counts[KVT_SAMPLED_COUNTS], changes, last_fetched;
    uint64_t change_count;
    uint32_t calls;
};

/* The calls of a request's newest step, for whoever compares: [selectors][queries_max]. */
struct kept {
    struct kvt_resolve_result *calls; /* at query 0 of those of all queries at once */
    uint32_t *missed;                 /* [top_k] a query; a call's go on behind its first query's */
    uint32_t *selected;               /* [top_k] a query */
    uint32_t *counts;                 /* of what is selected */
};

/* What a decoding request owns here. */
struct lane {
    uint32_t admitted_tokens; /* committed as it was admitted */
    uint32_t max_tokens;      /* that its hot caches are sized for */
    uint32_t last_tokens;     /* that selections can be asked for, uncommitted ones included */
    uint64_t hot_tokens;      /* of its hot caches; 0: it has none */
    uint64_t rounds;          /* since they were empty, ... */
    uint64_t followed_rounds; /* ... and since those were that are followed */
    bool is_extra;            /* followed beyond sample_requests, for a while */
    uint32_t followed_count, stream_count;  /* 0: it is not followed */
    struct followed *followed;              /* [followed_count] */
    void **streams;                         /* [stream_count] */
    uint32_t *staged_rows;                  /* [stream_count] by the step in hand */
    double expected_staged[KVT_STRATA_MAX]; /* of a call of it, where others stand for it */
    double seen[KVT_STRATA_MAX]
               [ESTIMATED_COUNT]; /* by the step in hand, where others stand for it */
    struct kept *kept;            /* NULL: nobody compares */
};

/* What one thread works with. */
struct worker {
    struct kvt_resolver *resolver;
    uint64_t *block;                 /* holds the sets below */
    uint64_t *sets[KVT_QUERIES_MAX]; /* [queries_max] selections of a round */
    uint64_t *page_rows[RATIOS_MAX]; /* rows of the item's ready pages, by log2 of the ratio */
    bool page_rows_made[RATIOS_MAX]; /* for the item in hand */
    float *page_scores;              /* of a selector: one a page of the longest context, ... */
    uint32_t *next_use;              /* ... one a slot of the largest cache; NULL: nobody asks */
    uint64_t *missed_rows; /* a set for the call in hand, else empty; NULL: rows are one piece */
    uint64_t calls[KVT_SELECTORS_MAX]; /* chains of the item in hand, by selector */
    uint32_t *staged_rows, *wave_of;   /* [call_capacity] of a selector's calls; one block */
    uint32_t call_capacity;
    kvt_status status; /* of the first of its ranks that failed */
    uint32_t failed_rank;
    struct kvt_error error;
};

/* How many times what was expected of them the newest followed calls of a stratum staged. */
struct deviations {
    double factors[DEVIATIONS]; /* a ring */
    uint64_t added;
};

struct backend_sim {
    struct kvt_backend base;
    struct kvt_backend_env env;
    const struct kvt_law *law;
    void *law_data;
    struct kvt_law_streams streams;
    const struct kvt_replacement_policy *replacement;
    struct kvt_strata strata;
    uint32_t store_of[KVT_STRATA_MAX];      /* the first of each stratum */
    uint32_t ordinal_of[KVT_SELECTORS_MAX]; /* a selector's place among its store's */
    struct estimator *estimator;            /* NULL: every request is followed */
    struct deviations deviations[KVT_STRATA_MAX];
    struct kvt_rng deviation_rng;
    struct kvt_look_ahead_env ahead_env;
    uint32_t open_lanes; /* followed, while there is one */
    struct kvt_crew *crew;
    struct worker *workers; /* [size of the crew] */
    struct lane **lanes;    /* [lane_capacity] by request; NULL: does not decode */
    size_t lane_capacity;
    struct kvt_sampling sampling; /* of the requests that have been released */
    uint32_t *inspected_ranks;    /* [slots of the largest cache] NULL: nobody compares */
    char description[160];
};

static inline struct backend_sim *backend_sim_of(struct kvt_backend *backend)
{
    return (struct backend_sim *)backend;
}

/* backend_lane.c: what is followed of a request. */

/* Follows its stores from the round after admitted_tokens on. On failure it follows none. */
KVT_CHECKED kvt_status lane_open(struct backend_sim *sim, struct lane *lane, uint32_t request,
                                 struct kvt_error *err);
/* The same from a later round on. */
KVT_CHECKED kvt_status lane_open_late(struct backend_sim *sim, struct lane *lane, uint32_t request,
                                      uint32_t context_tokens, struct kvt_error *err);
/* Of hot_tokens; none at 0. */
KVT_CHECKED kvt_status lane_open_caches(struct backend_sim *sim, struct lane *lane,
                                        uint32_t request, struct kvt_error *err);
/* Each followed store sees its calls to come, from the round after admission on. */
KVT_CHECKED kvt_status lane_look_ahead(struct backend_sim *sim, struct lane *lane,
                                       const struct kvt_backend_admission *admission,
                                       struct kvt_error *err);
/* *decisions is chained with the state hash of each. */
void lane_close_caches(const struct backend_sim *sim, struct lane *lane, uint64_t *decisions);
void lane_add_sample(const struct backend_sim *sim, const struct lane *lane,
                     struct kvt_sampling *sampling);
/* What it has seen goes to sim->sampling. */
void lane_unfollow(struct backend_sim *sim, struct lane *lane);
void lane_free(const struct backend_sim *sim, struct lane *lane); /* takes NULL */

/* backend_pooled.c: some requests of each rank stand for the others. */

/* Before a step: each rank follows as many as it should. */
KVT_CHECKED kvt_status pooled_follow(struct backend_sim *sim, const struct kvt_rank_step *ranks,
                                     uint32_t rank_count, struct kvt_error *err);
/* After it: what its requests with hot caches do to the loads. */
KVT_CHECKED kvt_status pooled_estimate(struct backend_sim *sim, struct kvt_rank_step *ranks,
                                       uint32_t rank_count, struct kvt_error *err);

/* backend_crossing.c: how what a call lacks crosses the link. */

/* A call that has been resolved. */
struct read_call {
    const struct kvt_step_item *item;
    uint32_t selector, first_query;
    const struct kvt_resolve_call *call;
    const struct kvt_resolve_result *result;
};

/* With its hot cache, which is empty. */
KVT_CHECKED kvt_status crossing_open(const struct backend_sim *sim, const struct lane *lane,
                                     struct followed *followed, struct kvt_error *err);
void crossing_of(const struct backend_sim *sim, const struct worker *worker,
                 struct followed *followed, const struct read_call *read, struct kvt_crossing *out);

/* backend_waves.c: calls that share staging. */

/* A followed call. */
void deviations_add(struct deviations *deviations, double expected_rows, uint32_t staged_rows);
/* After a rank's step: its waves go to its load. rng: drawn from where some requests stand for
 * others, else not looked at. */
KVT_CHECKED kvt_status waves_count(const struct backend_sim *sim, struct worker *worker,
                                   struct kvt_rank_step *rank, struct kvt_rng *rng,
                                   struct kvt_error *err);

/* backend_inspect.c: how calls were decided, for whoever compares two backends. */

KVT_CHECKED kvt_status kept_new(const struct backend_sim *sim, struct kept **out,
                                struct kvt_error *err);
void kept_free(struct kept *kept); /* takes NULL */
/* Before the step: it has had no call. */
void kept_begin(const struct backend_sim *sim, struct kept *kept);
/* The worker's sets of a round, as a selector selected them. */
void kept_add_selection(const struct backend_sim *sim, const struct worker *worker,
                        struct kept *kept, uint32_t selector, uint32_t queries,
                        uint32_t visible_rows);
/* Of a store whose rows are all in HBM: nothing is resolved. */
void kept_add_whole(const struct backend_sim *sim, struct kept *kept, uint32_t store,
                    uint32_t queries);
void kept_add_call(const struct backend_sim *sim, struct kept *kept, uint32_t selector,
                   uint32_t query, const struct kvt_resolve_result *result);

KVT_CHECKED kvt_status backend_sim_state_hashes(struct kvt_backend *backend, uint32_t request,
                                                uint64_t *hashes, struct kvt_error *err);
KVT_CHECKED kvt_status backend_sim_inspect_call(struct kvt_backend *backend, uint32_t request,
                                                uint32_t selector, uint32_t query,
                                                struct kvt_resolve_result *out,
                                                struct kvt_error *err);
KVT_CHECKED kvt_status backend_sim_inspect_cache(struct kvt_backend *backend, uint32_t request,
                                                 uint32_t store, struct kvt_backend_cache *out,
                                                 struct kvt_error *err);
KVT_CHECKED kvt_status backend_sim_selection(struct kvt_backend *backend, uint32_t request,
                                             uint32_t selector, uint32_t query, uint32_t *rows,
                                             uint32_t *count, struct kvt_error *err);

/* backend_step.c: one step of ranks that step together. */
KVT_CHECKED kvt_status backend_sim_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                                        uint32_t rank_count, struct kvt_error *err);

#endif
