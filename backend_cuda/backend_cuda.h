/* backend_cuda.h -- the CUDA backend: its settings, its GPUs and ranks, its requests.
 *
 *     backend.c     the table: open, close, admit, resize, release
 *     setup.c       what a model and a run take: refusals, settings, shapes
 *     layers.c      the first layers of a model, which stand for all
 *     inspect.c     how the newest step was decided, for whoever compares
 *
 * Below it: rank.h, lane.h, memory.h; above it: step.h. */
#ifndef KVT_CUDA_BACKEND_CUDA_H
#define KVT_CUDA_BACKEND_CUDA_H

#include "kvt/backend_params.h"
#include "kvt/calls.h"
#include "kvt/look_ahead.h"
#include "rank.h"

/* What decides. */
enum decider {
    DECIDE_ON_DEVICE = 0, /* batch LRU, by kvt_gpu_resolve() */
    DECIDE_ON_HOST        /* kvt_resolve(); the device carries out the plan */
};

/* What selects. */
enum chooser {
    CHOOSE_LAW = 0, /* a law's streams; scan and top-k run beside them */
    CHOOSE_INDEXER  /* the device's own top-k */
};

struct backend_cuda {
    struct kvt_backend base;
    struct kvt_backend_env env;
    const struct kvt_llm *llm; /* what is run: env.llm, or the first layers of it */
    const struct kvt_law *law; /* NULL: rows are chosen on the device */
    void *law_data;
    struct kvt_law_streams law_streams;
    const struct kvt_replacement_policy *replacement;
    struct kvt_strata strata;
    struct kvt_look_ahead_env ahead_env;
    enum decider decider;
    enum chooser chooser;

    /* Settings. */
    enum kvt_gpu_format format;
    bool leader_first, layers_apart, reference, out_is_float;
    uint32_t shared_tokens, shared_contexts, check_queries;
    uint64_t corrupt_step;       /* from 1 on; 0: never */
    uint64_t apart_steps;        /* copies are exposed, and timed apart, in one of so many */
    uint64_t beside_bytes[WAYS]; /* that are copied beside every step for its own sake */
    float drift, softmax_scale;

    /* Shapes that all ranks have in common. */
    uint32_t lanes, queries_max, query_rows; /* lanes * queries_max */
    uint32_t passes;                         /* of a call: K where each query is one, else 1 */
    uint32_t pass_queries;                   /* queries_max of a pass */
    uint32_t frame_stride, q_dim, out_bytes; /* out_bytes: of one query */
    uint32_t layers_max;                     /* of a store */
    struct store_shape stores[KVT_STORES_MAX];
    struct draft_shape draft;

    /* Where the first layers alone are run (layers.c). */
    struct kvt_llm first_layers;
    char scaled[64];                   /* as in struct kvt_backend_proof; "": all are */
    double part_scales[KVT_PARTS];     /* of all layers, over those that are run */
    struct kvt_backend *others;        /* decides for the other stores; NULL: there are none */
    struct kvt_rank_step *other_steps; /* [env.rank_count] */
    struct kvt_law_source source;      /* what the device selects, for it */

    struct device *devices;
    uint32_t device_count;
    struct rank *ranks; /* [env.rank_count] */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t working; /* ranks that have work */
    bool quits;

    struct lane **lane_of; /* [lane_capacity] by request; NULL: does not decode */
    size_t lane_capacity;
    kvt_status release_status; /* of the first release that failed */
    struct kvt_error release_error;
    uint32_t *inspected_rows, *inspected_ranks, *inspected_missed; /* what inspect lends */
    const char *not_representative; /* as in struct kvt_backend_proof */
    char reason[128], description[960];
};

static inline struct backend_cuda *backend_cuda_of(struct kvt_backend *backend)
{
    return (struct backend_cuda *)backend;
}

/* A call of the newest step, in any array of [selectors][passes][lanes]. */
static inline uint32_t pass_place(const struct rank *rank, uint32_t pass, uint32_t item)
{
    return rank->cuda->passes > 1 ? rank->pass_place[pass * rank->cuda->lanes + item] : item;
}

static inline size_t call_at(const struct rank *rank, uint32_t selector, uint32_t pass,
                             uint32_t item)
{
    const struct backend_cuda *cuda = rank->cuda;

    return ((size_t)selector * cuda->passes + pass) * cuda->lanes + pass_place(rank, pass, item);
}

/* ---- setup.c -------------------------------------------------------------------------- */

/* cuda->env is there: all that follows from it, or why it is refused. */
KVT_CHECKED kvt_status backend_cuda_setup(struct backend_cuda *cuda, struct kvt_error *err);

/* ---- layers.c ------------------------------------------------------------------------- */

/* cuda->llm is what backend.layers leaves of the model. Behind the choice of a law. */
KVT_CHECKED kvt_status layers_cut(struct backend_cuda *cuda, struct kvt_error *err);
/* Where the device selects: a selector that is run, whose lists are those of one that is not;
 * UINT32_MAX: none has its compress ratio. */
uint32_t layers_stand_in(const struct backend_cuda *cuda, uint32_t selector);
/* env: as it was given. */
KVT_CHECKED kvt_status others_open(struct backend_cuda *cuda, const struct kvt_backend_env *env,
                                   struct kvt_error *err);
void others_close(struct backend_cuda *cuda);
/* Behind the device's part of the step, before it is counted. Items keep nothing but what is
 * watched of their pages. */
KVT_CHECKED kvt_status others_step(struct backend_cuda *cuda, struct kvt_rank_step *steps,
                                   uint32_t count, struct kvt_error *err);
/* Of the stores that are not run, at their places in hashes[]. */
KVT_CHECKED kvt_status others_hashes(const struct backend_cuda *cuda, uint32_t request,
                                     uint64_t *hashes, struct kvt_error *err);

/* ---- inspect.c ------------------------------------------------------------------------ */

KVT_CHECKED kvt_status gpu_lane_state_hashes(struct backend_cuda *cuda, const struct lane *lane,
                                             uint64_t *hashes, struct kvt_error *err);
KVT_CHECKED kvt_status backend_cuda_state_hashes(struct kvt_backend *backend, uint32_t request,
                                                 uint64_t *hashes, struct kvt_error *err);
KVT_CHECKED kvt_status backend_cuda_inspect_call(struct kvt_backend *backend, uint32_t request,
                                                 uint32_t selector, uint32_t query,
                                                 struct kvt_resolve_result *out,
                                                 struct kvt_error *err);
KVT_CHECKED kvt_status backend_cuda_inspect_cache(struct kvt_backend *backend, uint32_t request,
                                                  uint32_t store, struct kvt_backend_cache *out,
                                                  struct kvt_error *err);
KVT_CHECKED kvt_status backend_cuda_selection(struct kvt_backend *backend, uint32_t request,
                                              uint32_t selector, uint32_t query, uint32_t *rows,
                                              uint32_t *count, struct kvt_error *err);

#endif
