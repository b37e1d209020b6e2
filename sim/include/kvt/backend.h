/* kvt/backend.h -- one interface, two ways to run a decode step: predicted or real.
 *
 * A backend holds what a step works on (hot caches, selections; rows and kernels
 * on a GPU) and has one verb that does work: a step of the ranks that step together. What simulated
 * and real must agree on bit for bit is in the arguments and the row counts; what
 * they may differ in is the duration. */
#ifndef KVT_BACKEND_H
#define KVT_BACKEND_H

#include <math.h>

#include "kvt/crossing.h"
#include "kvt/law.h"
#include "kvt/layout.h"
#include "kvt/llm.h"
#include "kvt/page_watch.h"
#include "kvt/policy.h"
#include "kvt/resolver.h"
#include "kvt/row_counts.h"
#include "kvt/sampling.h"
#include "kvt/speculation.h"
#include "kvt/timing.h"

KVT_BEGIN_DECLS

struct kvt_backend_env {
    struct kvt_params params; /* of the backend, in the order of its info.params */
    uint32_t rank_count;
    uint32_t rank_requests; /* that a rank decodes at once, at most */
    uint64_t rank_pages;    /* of 64 tokens that a rank has readable in HBM at once, at most; one
                             * that requests share counts once */
    const struct kvt_llm *llm;
    struct kvt_choice replacement, selection;
    uint64_t hot_tokens; /* of the largest hot cache that a request can be given */
    struct kvt_speculation_shape speculation;
    bool resolve_each_query; /* K calls of one query instead of one call of K */
    enum kvt_promotion promotion;
    struct kvt_staging staging; /* of a rank */
    bool hierarchy; /* false: everything resident, no hot caches, no selections needed */
    struct kvt_prefetch prefetch;
    struct kvt_read_depth read_depth;
    bool scores_pages; /* items want scores of their pages, which the law has */
    /* Set: a policy sees the future. Rounds are planned ahead of time, by the method
     * and its data, which a request has alone; every request is followed. NULL: it does not. */
    const struct kvt_speculation_method *looks_ahead_by;
    bool
        shows_next_use; /* the replacement policy does; else items want the future of their pages */
    const void *speculation_data;
    uint32_t sample_stores;   /* followed exactly per request and stratum; 0: all */
    uint32_t sample_requests; /* of those with hot caches, followed at once per rank; 0: all */
    uint64_t run_seed;
    uint32_t longest_tokens;      /* context that any request can reach */
    uint32_t output_tokens;       /* longest usual output */
    const uint32_t *input_tokens; /* [input_count] the distinct inputs, where they are few */
    size_t input_count;
    const char *cache_dir; /* as kvt_law_env.cache_dir */
    unsigned threads;
    /* As kvt_law_env.progress. */
    bool (*on_prepare)(void *context, double done_fraction, const char *what);
    void *prepare_context;
    const struct kvt_law_source *source; /* as kvt_law_env.source */
    void *law_context;                   /* as kvt_law_env.context */
    bool is_inspected; /* somebody will ask for calls and selections of the newest step */
    uint32_t tp, ep;   /* GPUs of a rank, and those that its experts are spread over; 0: 1 */
    const struct kvt_drafter *drafter; /* NULL: none */
};

/* One request's part of a step. */
struct kvt_step_item {
    uint32_t request;        /* id given to admit() */
    uint32_t context_tokens; /* committed rows; the round's anchor is the next */
    uint64_t step;           /* rounds of the request before this one */
    const struct kvt_round *round;
    const uint64_t *ready_bits;   /* page p of its history is in HBM and readable */
    uint32_t ready_pages;         /* bits that are valid */
    struct kvt_page_watch *watch; /* in and out: what is selected of its pages; NULL: nobody asks */
    uint64_t selected_rows, missed_rows; /* out: of the followed calls */
    uint64_t decisions; /* out: a chain over the selectors, of a chain over each one's calls */
};

/* Histories that came to the device over the link before their requests joined. */
struct kvt_backend_imports {
    uint64_t requests, checked_pages;     /* pages: of index keys, compared with those sent */
    uint64_t beside_bytes, joining_bytes; /* while steps ran; while a request waited to join */
    double beside_ns, joining_ns;         /* that the link took for them */
    double
        waited_ns; /* for those that were joining, and for what steps beside were too short for */
};

/* Attention that was checked against the same rows made anew, resident. */
struct kvt_backend_proof {
    uint64_t calls;            /* resolved on the device, or planned for it and executed there */
    uint64_t checked_queries;  /* (query, layer) pairs whose attention was compared */
    uint64_t unequal_queries;  /* of those, in any bit, or not finite; and pages of index keys that
                                * did not come in as they were sent */
    double max_rel_error;      /* of the queries that were also computed in double precision; NaN
                                * where one was not a number: as kvt_worse_error() */
    uint64_t double_queries;   /* how many were */
    const char *first_unequal; /* where, as a sentence; NULL: nowhere. Borrowed */
    /* Why measured times are not what the GPU could do; NULL: they are. Borrowed. */
    const char *not_representative;
    const char
        *scaled; /* what of measured times stands for more, as words; NULL: nothing. Borrowed */
    uint64_t planned_calls; /* of the calls: decided by the CPU, carried out on the device */
    /* Rows on host that were spoilt on purpose, and those of them that a check has found; the
     * unequal queries whose call selects such a row, as they must be. */
    uint64_t corrupted_rows, corrupted_found, corrupted_queries;
    struct kvt_backend_imports imports;
    uint64_t draft_rings; /* of which every row that a pass reads was compared; one that differs
                           * ends the run */
};

/* NaN is worse than any error, and stays. */
static inline double kvt_worse_error(double a, double b)
{
    return a >= b || isnan(a) ? a : b;
}

/* What another rank, run or machine has found comes to it: of texts the first stays. */
void kvt_backend_proof_add(struct kvt_backend_proof *sum, const struct kvt_backend_proof *other);
/* Against double precision; true where none was compared. */
bool kvt_backend_proof_is_precise(const struct kvt_backend_proof *proof, double tolerance);
/* Of rows that were spoilt on purpose: NULL where there was one, each was found, and nothing else
 * differs; else what is wrong, as a sentence. */
const char *kvt_backend_proof_corruption(const struct kvt_backend_proof *proof);

/* A hot cache as it stands behind the newest step. Borrowed until the next one. */
struct kvt_backend_cache {
    uint64_t state_hash;   /* as kvt_hot_cache_state_hash() */
    uint32_t slot_count;   /* 0: the request has none */
    const uint32_t *rows;  /* [slot_count] KVT_ROW_NONE: empty */
    const uint32_t *ranks; /* [slot_count] 0 is the next victim */
};

/* What a backend that measures has timed of a step. */
enum kvt_step_timing {
    KVT_TIMED_WHOLE = 0, /* the step; its parts are shared out as those of an earlier one */
    KVT_TIMED_FAMILIES,  /* each part by itself, in a step that ran as any other */
    KVT_TIMED_APART      /* likewise, with every fetch exposed behind its resolver */
};
const char *kvt_step_timing_name(enum kvt_step_timing timing); /* "whole", ..; never NULL */

struct kvt_step_outcome {
    struct kvt_rank_load load;                  /* row fields, scaled; bytes are the caller's */
    struct kvt_row_counts rows[KVT_STRATA_MAX]; /* of the followed calls */
    double counts[KVT_SAMPLED_COUNTS]; /* of all calls; estimated where some stand for others */
    double payload_bytes;              /* that crossed the link, scaled */
    /* Of missed rows those that were predicted, rows that were sent in vain, and cached ones of
     * which the rest was fetched; scaled. */
    double prefetched_rows, wasted_rows, deepened_rows;
    uint64_t staging_peak_bytes;         /* most that one wave staged; drawn where estimated */
    kvt_ns measured_ns;                  /* KVT_NS_NEVER where time is predicted */
    double measured_parts_ns[KVT_PARTS]; /* of it, by family of those that are run, if measured */
    enum kvt_step_timing timing;
    uint16_t part_marks[KVT_PARTS]; /* how often the GPU stopped to take the time of each */
    double launch_ns; /* wall time beyond measured_ns: from the first launch of it, until its end
                       * has been noticed. Not in measured_ns */
    /* What crossed the link beside fetches while measured_ns went by; of the load's other traffic
     * it was not given. */
    uint64_t beside_inbound_bytes, beside_outbound_bytes;
};

/* What one rank does in a step. */
struct kvt_rank_step {
    uint32_t rank;               /* of all of the run's */
    struct kvt_step_item *items; /* [item_count] a round each */
    uint32_t item_count;
    struct kvt_step_outcome outcome; /* out */
};

/* A request that begins to decode. Its hot caches are sized for max_tokens; selections will be
 * asked for up to last_tokens, which no policy may know. */
struct kvt_backend_admission {
    uint32_t request;
    uint32_t rank;           /* where it decodes until it is released */
    uint32_t context_tokens; /* committed */
    uint32_t generated_tokens;
    uint32_t max_tokens, last_tokens;
    uint64_t hot_tokens;  /* of its hot caches; 0: none, while all of its history is in HBM */
    const void *drafting; /* the speculation method's state of it, before the next round */
};

struct kvt_backend;

/* New members go at the end. */
struct kvt_backend_ops {
    struct kvt_plugin_info info; /* its name as written in a scenario, its parameters */

    kvt_status (*open)(const struct kvt_backend_env *env, struct kvt_backend **out,
                       struct kvt_error *err);
    void (*close)(struct kvt_backend *backend);

    /* Writes strata[KVT_STRATA_MAX], returns how many; without a hierarchy all are followed. */
    uint32_t (*strata)(const struct kvt_backend *backend, struct kvt_stratum *strata);
    /* One line: what stands behind the selections. Borrowed until the next call. */
    const char *(*describe)(struct kvt_backend *backend);

    /* The request decodes from here on. Its hot caches start empty. */
    kvt_status (*admit)(struct kvt_backend *backend, const struct kvt_backend_admission *admission,
                        struct kvt_error *err);
    /* From the next step on its hot caches are of another size, and begin empty; 0: it has none.
     * *decisions is chained as by release(). */
    kvt_status (*resize)(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                         uint64_t *decisions, struct kvt_error *err);
    /* *decisions is chained with the state hash of each of its hot caches. What fails is reported
     * by the next admit(), resize(), step() or finish(). */
    void (*release)(struct kvt_backend *backend, uint32_t request, uint64_t *decisions);

    /* One step of ranks that step together: a round of every item. No request is in two ranks. */
    kvt_status (*step)(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                       uint32_t rank_count, struct kvt_error *err);

    /* What is counted for sampling() begins now. */
    void (*restart_sampling)(struct kvt_backend *backend);
    /* Of the requests released since then, and of those that still decode. One that lost its
     * memory and came back is two. */
    void (*sampling)(const struct kvt_backend *backend, struct kvt_sampling *out);

    /* For whoever compares two backends, behind a step. A sampled run keeps none of it: exact runs
     * only, and calls and selections where env.is_inspected. Each may cost a transfer. */

    /* Hash of every store's hot cache of the request, hashes[store_count]; 0 where it has none. */
    kvt_status (*state_hashes)(struct kvt_backend *backend, uint32_t request, uint64_t *hashes,
                               struct kvt_error *err);
    /* The request's call of a selector in the newest step; where queries are resolved one by one,
     * that of the given query, else query is 0. Its missed[] is borrowed until the next step; the
     * other lists are not kept, and NULL. */
    kvt_status (*inspect_call)(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                               uint32_t query, struct kvt_resolve_result *out,
                               struct kvt_error *err);
    kvt_status (*inspect_cache)(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                struct kvt_backend_cache *out, struct kvt_error *err);
    /* The rows that a query of the newest step selected, ascending, into rows[top_k]; *count of
     * them. What the law "indexer" of another backend reads. */
    kvt_status (*selection)(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                            uint32_t query, uint32_t *rows, uint32_t *count, struct kvt_error *err);
    /* Optional: NULL where nothing is attended. */
    void (*proof)(const struct kvt_backend *backend, struct kvt_backend_proof *out);
    /* Optional: NULL where no release can fail. At the end of a run: what one found wrong. */
    kvt_status (*finish)(struct kvt_backend *backend, struct kvt_error *err);
    /* Optional: NULL where it makes no difference. The request's history is on its way, and it will
     * be admitted to this rank, with these tokens, once that has come. */
    kvt_status (*expect)(struct kvt_backend *backend, const struct kvt_backend_admission *admission,
                         struct kvt_error *err);
    /* Optional: NULL where no drafter's passes are run. Whether the part "draft" is measured. */
    bool (*runs_drafts)(const struct kvt_backend *backend);
};

/* First member of every implementation's own struct. */
struct kvt_backend {
    const struct kvt_backend_ops *ops;
};

/* The two that there are, in every build: without CUDA, and on a machine without a GPU,
 * kvt_backend_cuda.open() answers KVT_ERR_DEVICE before anything is prepared. */
extern const struct kvt_backend_ops kvt_backend_sim, kvt_backend_cuda;

/* The table behind what a scenario has chosen. */
static inline const struct kvt_backend_ops *kvt_backend_of(const struct kvt_choice *choice)
{
    return (const struct kvt_backend_ops *)(const void *)choice->info;
}

static inline bool kvt_backend_runs_drafts(const struct kvt_backend *backend)
{
    return backend->ops->runs_drafts && backend->ops->runs_drafts(backend);
}

/* Whether steps are run, and measured: then every call is, and no part stands for others. */
static inline bool kvt_backend_runs(const struct kvt_choice *choice)
{
    return choice->info != &kvt_backend_sim.info;
}

KVT_END_DECLS
#endif
