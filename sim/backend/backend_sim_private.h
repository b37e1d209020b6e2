/* backend_sim_private.h -- the predicted backend from inside: requests and how they step. */
#ifndef KVT_BACKEND_SIM_PRIVATE_H
#define KVT_BACKEND_SIM_PRIVATE_H

#include "backend_sim.h"
#include "kvt/crew.h"
#include "kvt/resolver.h"
#include "kvt/strata.h"

enum {
    RATIOS_MAX = 7 /* 1, 2, .. KVT_PAGE_ROWS */
};

/* One store that a request follows. */
struct followed {
    uint32_t store;
    struct kvt_hot_cache *cache; /* NULL while all history is in HBM */
    uint32_t first_stream;       /* of its selectors, in lane->streams */
    /* Of its calls, while some stores stand for others. */
    double counts[KVT_SAMPLED_COUNTS], changes, last_fetched;
    uint64_t change_count;
    uint32_t calls;
};

/* What a decoding request owns here. */
struct lane {
    uint32_t max_tokens;  /* that its hot caches are sized for */
    uint32_t last_tokens; /* that selections can be asked for, uncommitted ones included */
    uint32_t followed_count, stream_count;
    struct followed *followed; /* [followed_count] */
    void **streams;            /* [stream_count] */
};

/* What one thread works with. */
struct worker {
    struct kvt_resolver *resolver;
    uint64_t *block;                 /* holds the sets below */
    uint64_t *sets[KVT_QUERIES_MAX]; /* [queries_max] selections of a round */
    uint64_t *page_rows[RATIOS_MAX]; /* rows of the item's ready pages, by log2 of the ratio */
    bool page_rows_made[RATIOS_MAX]; /* for the item in hand */
    kvt_status status;               /* of the first of its ranks that failed */
    uint32_t failed_rank;
    struct kvt_error error;
};

struct backend_sim {
    struct kvt_backend base;
    struct kvt_backend_env env;
    const struct kvt_law *law;
    void *law_data;
    uint32_t stream_store[KVT_SELECTORS_MAX]; /* what the law borrows for its life */
    const struct kvt_replacement_policy *replacement;
    struct kvt_strata strata;
    struct kvt_crew *crew;
    struct worker *workers; /* [size of the crew] */
    struct lane **lanes;    /* [lane_capacity] by request; NULL: does not decode */
    size_t lane_capacity;
    struct kvt_sampling sampling; /* of the requests that have been released */
    char description[160];
};

static inline struct backend_sim *backend_sim_of(struct kvt_backend *backend)
{
    return (struct backend_sim *)backend;
}

/* backend_step.c: one step of ranks that step together. */
KVT_CHECKED kvt_status backend_sim_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                                        uint32_t rank_count, struct kvt_error *err);

#endif
