/* cuda_private.h -- the CUDA backend from inside: devices, ranks, lanes and how they step.
 *
 *     backend.c     the table: open, close, admit, resize, release
 *     setup.c       what a model and a run take: refusals, settings, shapes
 *     ranks.c       a thread a rank; what a rank opens and closes
 *     pools.c       what a rank holds in device memory, and where
 *     host_pool.c   pinned host rows
 *     lane.c        one decoding request: selections, pages and frames
 *     copies.c      rows that move between host, tail and frames
 *     select.c      the CPU's part of a step: selections as lists, and plans (plan.c)
 *     enqueue.c     the GPU's part: launches in order; graph.c replays them
 *     rank.c        one step of a rank from end to end
 *     outcome.c     counters into what a step reports
 *     proof.c       attention computed again from the same rows made anew
 *     corrupt.c     a row spoilt on purpose
 *     inspect.c     how the newest step was decided, for whoever compares */
#ifndef KVT_CUDA_PRIVATE_H
#define KVT_CUDA_PRIVATE_H

#include <pthread.h>

#include "cuda_error.h"
#include "kvt/backend_params.h"
#include "kvt/calls.h"
#include "kvt/crew.h"
#include "kvt/look_ahead.h"
#include "launch.h"

enum {
    GRAPHS_MAX = 24,       /* shapes of steps that are kept ready */
    ROWS_STEP = 4096,      /* tokens: launches of a shape see contexts rounded up to it */
    FAMILY_STEPS = 16,     /* families are timed in one step of so many, ... */
    DECISION_STEPS = 64,   /* ... and decisions apart from copies in one of so many */
    STEP_TIMEOUT_S = 120,  /* a step that takes longer is taken for hung */
    SETUP_TIMEOUT_S = 600, /* so are copies and fills outside of steps */
    COPIES_MAX = 1 << 16,  /* of one list */
    MARKS_MAX = 1024,      /* times taken within a step */
    WAVES_MAX = 16,        /* of one selector's calls that a graph has branches for */
    DOUBLE_EVERY = 32,     /* checked queries, of which one is also computed in double precision */
    SHARED_CONTEXT = 1 << 30 /* context ids from here on name shared prefixes */
};

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

/* ---- Memory (pools.c, host_pool.c) ---------------------------------------------------- */

/* Takes pieces of a block one after the other; with base NULL it only adds up. */
struct carver {
    uint8_t *base;
    uint64_t used_bytes;
};
void *carve(struct carver *carver, uint64_t bytes, uint64_t alignment);

/* One store, the same on every rank. */
struct store_shape {
    uint32_t layers, first_layer, layer_bytes, row_bytes, ratio;
    uint32_t page_rows; /* 64 / ratio */
    uint32_t rows_max;  /* of the longest context, a round's own included */
    uint32_t slots_max;
    uint32_t first_selector; /* names its index keys */
    uint64_t lane_key_bytes;
    uint32_t own_rows;    /* host rows of a lane that nobody shares, at most */
    uint32_t shared_rows; /* of one shared prefix, at most */
};

/* One store on one rank. Host tables (h_) are uploaded with every step. */
struct store_state {
    struct kvt_gpu_places places;
    struct kvt_gpu_hot hot;
    struct kvt_gpu_host_rows host;
    uint8_t *keys;         /* [lanes][lane_key_bytes] */
    uint8_t *host_base;    /* the same memory as host.base, as the CPU sees it */
    uint32_t *slot_counts; /* [lanes] of the upload block, as the CPU sees it; likewise: */
    uint64_t *shared_at;   /* [lanes] */
    uint64_t *own_at;      /* [lanes] */
    uint32_t *shared_rows; /* [lanes] */
    bool appended;         /* in the step that is being enqueued */
};

/* Pinned host memory of a rank's rows. */
struct host_pool {
    uint8_t *base;
    uint64_t bytes, registered_bytes;
    bool has_node; /* the node that was asked for was preferred */
};
/* numa_node -1: anywhere. done, total: bytes of all ranks, for progress. On failure nothing stays.
 */
KVT_CHECKED kvt_status host_pool_open(const struct kvt_backend_env *env, uint64_t bytes,
                                      int numa_node, uint64_t *done_bytes, uint64_t total_bytes,
                                      struct host_pool *out, struct kvt_error *err);
void host_pool_close(struct host_pool *pool); /* of one that is zeroed too */
/* Refuses, with figures and a cure, what the machine or host_pool_gib does not leave room for. */
KVT_CHECKED kvt_status host_pool_check(uint64_t need_bytes, double limit_gib,
                                       struct kvt_error *err);

/* Written by the CPU for a step and uploaded in one copy; every pointer twice, at the same offset
 * of the pinned block and of the device's. */
struct step_block {
    uint8_t *host, *device;
    uint64_t bytes;
    struct kvt_gpu_request *requests;      /* [lanes] of the batch: all queries of each */
    struct kvt_gpu_request *pass_requests; /* [passes][lanes] of each pass */
    struct kvt_gpu_query *queries;         /* [queries] */
    struct kvt_gpu_query *pass_queries;    /* [queries] its request: itself, in pass_counts */
    struct kvt_gpu_counts *pass_counts;    /* [queries] wave: the pass that it belongs to */
    int32_t *frames;                       /* [lanes][frame_stride] */
    struct kvt_gpu_copy *proof_copies;     /* [selectors][check_queries] */
    uint32_t *hashed_lane;                 /* whose caches are hashed */
};

/* As the device sees a piece of the block. */
static inline void *on_device(const struct step_block *block, const void *piece)
{
    return block->device + ((const uint8_t *)piece - block->host);
}

/* ---- Lanes (lane.c) ------------------------------------------------------------------- */

/* One decoding request. Its place on the rank, `index`, is where its rows and tables are. */
struct lane {
    uint32_t request, rank, index;
    uint32_t admitted_tokens, max_tokens, last_tokens; /* as in struct kvt_backend_admission */
    uint64_t hot_tokens;                               /* 0: it is whole */
    uint32_t shared_tokens, shared_context; /* of its host rows, the first so many are shared */
    uint32_t settled_tokens;  /* rows of these are on host, and in the frames of their pages */
    uint32_t appended_tokens; /* the tail's newest, rejected ones included */
    uint32_t frame_pages;     /* pages [0, so many) may have a frame */
    int32_t *frames;          /* [frame_stride] of the upload block */
    void **streams;           /* [selectors] of the law */
    struct planned *planned;  /* [stores] decided on the CPU; NULL: on the device */
    int32_t item;             /* its place in the newest step; -1: it was in none */
};

/* What the CPU keeps of a lane's store where it decides. */
struct planned {
    struct kvt_hot_cache *cache;  /* NULL: the lane has none */
    struct kvt_look_ahead *ahead; /* NULL: nobody sees the future */
    uint32_t *slot_rows;          /* [slots] as the device's */
    uint16_t *slot_of_row;        /* [rows] 0xffff: in no slot; one block with the former */
};

/* ---- Ranks ---------------------------------------------------------------------------- */

/* A GPU. Ranks on it take turns. */
struct device {
    int ordinal;
    int numa_node;
    int capability; /* 90: compute capability 9.0 */
    uint32_t rank_count, opened_count;
    pthread_mutex_t turn, dense_lock;
    struct kvt_dense *dense;
    void *dense_workspace;
    _Atomic bool lost; /* it hangs or is gone: it is not touched any more */
};

/* What one thread of a rank's crew works with. */
struct worker {
    struct kvt_resolver *resolver; /* NULL: decided on the device */
    uint64_t *block;
    uint64_t *sets[KVT_QUERIES_MAX];
    uint64_t *page_rows;
    float *page_scores;
    uint32_t *next_use;
    uint32_t *missed_at; /* [rows of the longest context] where a row is in a call's misses */
    kvt_status status;
    uint32_t failed_item;
    struct kvt_error error;
};

enum step_timing {
    TIME_WHOLE = 0,
    TIME_FAMILIES, /* events between the families */
    TIME_DECISIONS /* and all copies behind the resolver, exposed */
};

/* What a step's launches depend on: the graph of one may be replayed for another alike. */
struct step_key {
    uint32_t request_count, query_count, queries_max;
    uint32_t pass_requests[KVT_QUERIES_MAX]; /* [passes] */
    uint32_t tokens;                         /* of the longest context, rounded up */
    uint32_t hot_requests;
    uint32_t staging_share; /* rows of the arena that are each request's own */
    uint64_t turn_bytes;    /* of the arena, where requests take turns in it */
    bool takes_turns;
    uint32_t waves_max; /* that any selector's calls can make */
    enum step_timing timing;
};

/* A (query, layer) pair that is checked. */
struct check {
    uint32_t selector, query, layer;
};

/* A row that was spoilt on purpose: one layer of it, on host. */
struct spoilt {
    bool is_there;
    uint32_t context_id, row, store, layer;
};

struct step_graph {
    struct step_key key;
    cudaGraphExec_t exec; /* NULL: free */
    uint64_t used;        /* when, in steps */
    uint32_t mark_count;
    uint8_t mark_parts[MARKS_MAX]; /* enum kvt_step_part of what follows the mark */
};

struct rank {
    struct backend_cuda *cuda;
    struct device *device;
    uint32_t number; /* of all of the run's */

    /* Its thread stands by for a step. */
    pthread_t thread;
    bool has_thread;
    struct kvt_rank_step *work; /* NULL: nothing to do */
    kvt_status status;
    struct kvt_error error;
    struct kvt_crew *crew;
    struct worker *workers;

    cudaStream_t main, beside, copier; /* a step; follower copies; backup */
    cudaStream_t inner[WAVES_MAX];     /* what branches of a graph are captured from */
    cudaStream_t launches;             /* where a step's launches go: main, or one of those */
    cudaEvent_t begin, end, marks[MARKS_MAX]; /* with times */
    cudaEvent_t ready, forked, joined, backed;

    uint8_t *pool; /* rows: hot caches, tails, staging, frames of all stores */
    uint64_t pool_bytes;
    uint8_t *tables; /* everything else on the device */
    uint64_t tables_bytes;
    uint8_t *pinned; /* everything of the host that steps write and read, but rows */
    struct host_pool host_rows;
    struct store_state stores[KVT_STORES_MAX];
    uint64_t arena_bytes; /* staging, allocated */
    struct step_block block;

    uint32_t *free_frames; /* [free_frame_count] stack, the lowest on top */
    uint32_t free_frame_count, frame_count;
    struct lane **lanes; /* [lanes_max] NULL: free */

    /* Of a step, [selectors][..], on the device unless it says otherwise. */
    int32_t *selections;        /* [queries][top_k] */
    int32_t *selections_pinned; /* the same on host */
    bool selections_read;       /* the pinned ones are those of the newest step */
    int32_t *scan_rows;         /* [queries][top_k] of one selector, where a law selects */
    int32_t *row_places;        /* [queries][top_k] */
    uint32_t *missed;           /* [passes][lanes][queries of a pass * top_k] */
    int32_t *missed_places;
    uint32_t *promoted;                            /* as missed, two words each */
    struct kvt_gpu_counts *counts, *counts_pinned; /* [passes][lanes] */
    /* Plans, pinned: as what they are copied to. NULL: decided on the device. */
    int32_t *plan_places;
    uint32_t *plan_missed, *plan_promoted;
    int32_t *plan_missed_places;
    float *scores;
    uint32_t score_stride;
    uint8_t *index_q;                         /* [queries][index heads][128] */
    float *index_weights;                     /* [queries][index heads] */
    uint32_t *wave_count, *wave_count_pinned; /* one word */
    uint64_t *hashes, *hashes_pinned;         /* [stores] */
    void *q;                                  /* bf16 [queries][heads][q_dim]; one for all layers */
    uint8_t *out; /* [layers of the largest store][queries][heads][512] */
    void *resolve_workspace;
    struct kvt_gpu_copy *copies, *copies_pinned; /* [COPIES_MAX] */

    /* Proofs. */
    uint8_t *proof_out, *proof_again; /* [check_queries][heads][512] */
    uint8_t *proof_rows;              /* [top_k] of one layer */
    int32_t *proof_lists;             /* [3][top_k]: own rows, shared rows, places */
    int32_t *proof_lists_pinned;
    uint8_t *proof_pinned; /* both outputs of one query, its rows and its q */
    struct check *checks;  /* [check_queries] of the newest step */
    uint64_t proof_turn;
    struct kvt_backend_proof proof;
    char first_unequal[256];

    /* Graphs. */
    struct step_graph *graphs; /* [GRAPHS_MAX + 1] the last for steps that are not captured */
    struct step_graph *graph;  /* the newest step's */
    bool capturing;
    double part_shares[KVT_PARTS]; /* of a step, as last timed by family; has_shares: it has been */
    bool has_shares;
    struct spoilt spoilt;
    double decisions_ns; /* of a step, as last timed apart; 0: not yet */
    uint64_t step_count; /* that were run */
    bool has_turn;       /* on its device */

    /* The newest step. */
    struct step_key key;
    uint32_t staging_share;          /* as the key's; 0: in turns */
    uint32_t *first_query;           /* [lanes] of each item */
    uint32_t *pass_place;            /* [passes][lanes] of each item among those of a pass */
    uint32_t *staged_rows, *wave_of; /* [lanes] scratch of the books */
    struct lane **items;             /* [lanes] */
};

struct backend_cuda {
    struct kvt_backend base;
    struct kvt_backend_env env;
    const struct kvt_llm *llm;
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
    uint64_t corrupt_step; /* from 1 on; 0: never */
    float drift, softmax_scale;

    /* Shapes that all ranks have in common. */
    uint32_t lanes, queries_max, query_rows; /* lanes * queries_max */
    uint32_t passes;                         /* of a call: K where each query is one, else 1 */
    uint32_t pass_queries;                   /* queries_max of a pass */
    uint32_t frame_stride, q_dim, out_bytes; /* out_bytes: of one query */
    uint32_t layers_max;                     /* of a store */
    struct store_shape stores[KVT_STORES_MAX];

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
    char reason[128], description[640];
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

/* ---- pools.c -------------------------------------------------------------------------- */

/* Pinned bytes of a rank's host rows. */
uint64_t rank_host_bytes(const struct backend_cuda *cuda);
KVT_CHECKED kvt_status rank_open_host_rows(struct rank *rank, uint64_t *done_bytes,
                                           uint64_t total_bytes, struct kvt_error *err);
/* free_bytes: of the device, that the rank may take. */
KVT_CHECKED kvt_status rank_open_pools(struct rank *rank, uint64_t free_bytes,
                                       struct kvt_error *err);
void rank_close_pools(struct rank *rank);

/* ---- copies.c ------------------------------------------------------------------------- */

enum row_home {
    HOME_HOST,
    HOME_TAIL,
    HOME_FRAME /* of a page that has one */
};

/* Two lists may be under way at once. */
enum copy_half {
    COPIES_OF_STEP,
    COPIES_OF_BACKUP
};
struct copy_list {
    struct rank *rank;
    cudaStream_t stream;
    struct kvt_gpu_copy *pinned, *device; /* [COPIES_MAX / 2] */
    uint32_t count;
};
struct copy_list copies_begin(struct rank *rank, cudaStream_t stream, enum copy_half half);
/* Rows [first, end) of a lane's store; launches what is listed whenever the list is full. */
KVT_CHECKED kvt_status copies_add_rows(struct copy_list *list, const struct lane *lane, uint32_t s,
                                       uint32_t first_row, uint32_t end_row, enum row_home from,
                                       enum row_home to, struct kvt_error *err);
KVT_CHECKED kvt_status copies_launch(struct copy_list *list, struct kvt_error *err);
/* The same rows made where they belong, on the rank's main stream. */
KVT_CHECKED kvt_status rows_make(struct rank *rank, const struct lane *lane, uint32_t s,
                                 uint32_t first_row, uint32_t end_row, enum row_home home,
                                 struct kvt_error *err);

/* ---- lane.c --------------------------------------------------------------------------- */

KVT_CHECKED kvt_status gpu_lane_admit(struct backend_cuda *cuda,
                                      const struct kvt_backend_admission *admission,
                                      struct lane **out, struct kvt_error *err);
KVT_CHECKED kvt_status gpu_lane_resize(struct backend_cuda *cuda, struct lane *lane,
                                       uint64_t hot_tokens, uint64_t *decisions,
                                       struct kvt_error *err);
/* *decisions is chained with the state hash of each. */
KVT_CHECKED kvt_status gpu_lane_close_caches(struct backend_cuda *cuda, struct lane *lane,
                                             uint64_t *decisions, struct kvt_error *err);
void gpu_lane_free(struct backend_cuda *cuda, struct lane *lane); /* takes NULL */
/* At the beginning of a step: pages get and lose frames, what was committed is listed to go to
 * host. */
KVT_CHECKED kvt_status gpu_lane_settle(struct lane *lane, const struct kvt_step_item *item,
                                       struct copy_list *fills, struct copy_list *backups,
                                       struct kvt_error *err);

/* ---- select.c, plan.c ----------------------------------------------------------------- */

KVT_CHECKED kvt_status gpu_worker_open(const struct backend_cuda *cuda, struct worker *worker,
                                       struct kvt_error *err);
void gpu_worker_close(struct worker *worker);
/* Of a query, in any array of [selectors][queries][top_k]. */
size_t list_at(const struct rank *rank, uint32_t selector, uint32_t item, uint32_t query);
/* How many of a list's entries are rows: they come first. */
uint32_t list_count(const int32_t *list, uint32_t top_k);
/* Lists of all items, and plans where the CPU decides. */
KVT_CHECKED kvt_status select_step(struct rank *rank, struct kvt_rank_step *step,
                                   struct kvt_error *err);

/* Before the calls of a store. */
void plan_begin(const struct rank *rank, struct worker *worker, const struct lane *lane,
                const struct kvt_step_item *item, uint32_t s, uint32_t visible_rows);
/* Of the sets that the worker holds, whose lists are written. */
KVT_CHECKED kvt_status plan_selector(const struct rank *rank, struct worker *worker,
                                     const struct kvt_step_item *item, uint32_t i,
                                     uint32_t selector, uint32_t visible_rows,
                                     struct kvt_error *err);

/* ---- enqueue.c, dense_rank.c, graph.c ------------------------------------------------- */

/* Scan and top-k of one selector. */
KVT_CHECKED kvt_status enqueue_index(struct rank *rank, const struct step_key *key,
                                     uint32_t selector, int32_t *rows, struct kvt_error *err);
KVT_CHECKED kvt_status enqueue_step(struct rank *rank, const struct step_key *key,
                                    struct kvt_error *err);
KVT_CHECKED kvt_status device_open_dense(const struct backend_cuda *cuda, struct device *device,
                                         struct kvt_error *err);
void device_close_dense(struct device *device); /* of one that has none too */
KVT_CHECKED kvt_status rank_enqueue_dense(struct rank *rank, uint32_t layer,
                                          const struct step_key *key, struct kvt_error *err);
/* rank->graph is the one of a step like this. */
KVT_CHECKED kvt_status graph_prepare(struct rank *rank, const struct step_key *key,
                                     struct kvt_error *err);
KVT_CHECKED kvt_status graph_launch(struct rank *rank, const struct step_key *key,
                                    struct kvt_error *err);
/* Between the marks of the newest step, which has ended. */
KVT_CHECKED kvt_status graph_read_parts(struct rank *rank, double parts_ns[KVT_PARTS],
                                        struct kvt_error *err);
void graphs_close(struct rank *rank);
/* While a step is captured: what is enqueued between the two runs if *count is above a number.
 * depth: of branches within branches, from 0 on. Nothing in it is timed. */
KVT_CHECKED kvt_status graph_begin_branch(struct rank *rank, const uint32_t *count, uint32_t above,
                                          uint32_t depth, struct kvt_error *err);
KVT_CHECKED kvt_status graph_end_branch(struct rank *rank, uint32_t depth, struct kvt_error *err);

/* ---- rank.c --------------------------------------------------------------------------- */

/* Its device is the thread's; refused once it is lost. */
KVT_CHECKED kvt_status rank_use(struct rank *rank, struct kvt_error *err);
/* A device whose kernels broke off is not used again. */
void rank_note(struct rank *rank, cudaError_t error);
/* As kvt_cuda_check(), with the former. */
KVT_CHECKED kvt_status rank_check(struct rank *rank, cudaError_t error, const char *what,
                                  struct kvt_error *err);
KVT_CHECKED kvt_status rank_wait_stream(struct rank *rank, cudaStream_t stream, const char *what,
                                        struct kvt_error *err);
KVT_CHECKED kvt_status rank_upload_block(struct rank *rank, struct kvt_error *err);
/* The newest step's lists, as the device has them. */
KVT_CHECKED kvt_status rank_read_selections(struct rank *rank, struct kvt_error *err);
KVT_CHECKED kvt_status rank_step(struct rank *rank, struct kvt_rank_step *step,
                                 struct kvt_error *err);

/* ---- ranks.c -------------------------------------------------------------------------- */

KVT_CHECKED kvt_status ranks_step(struct backend_cuda *cuda, struct kvt_rank_step *steps,
                                  uint32_t count, struct kvt_error *err);
KVT_CHECKED kvt_status rank_open(struct rank *rank, uint64_t free_bytes, struct kvt_error *err);
void rank_close(struct rank *rank);

/* ---- outcome.c, proof.c, inspect.c ---------------------------------------------------- */

struct kvt_resolve_result outcome_of_call(const struct kvt_gpu_counts *counts);
void outcome_count(struct rank *rank, struct kvt_rank_step *step);

/* (query, layer) pairs of the step in hand, whose requests are listed. */
void proof_choose(struct rank *rank);
/* Number n of them is this one instead. */
void proof_set(struct rank *rank, uint32_t n, struct check check);
/* Flips a byte of a row on host that the step in hand will fetch, and has it checked; of none,
 * where nothing will be missed. Lists and plans are there. */
KVT_CHECKED kvt_status corrupt_row(struct rank *rank, const struct kvt_rank_step *step,
                                   struct kvt_error *err);
KVT_CHECKED kvt_status proof_check(struct rank *rank, struct kvt_error *err);

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
