/* rank.h -- a rank and its GPU: all that steps of it need.
 *
 *     rank.c        one step of a rank from end to end
 *     ranks.c       a thread a rank; what a rank opens and closes
 *     traffic.c     copies beside its steps, for a calibration */
#ifndef KVT_CUDA_RANK_H
#define KVT_CUDA_RANK_H

#include <pthread.h>

#include "draft.h"
#include "kvt/crew.h"
#include "kvt/resolver.h"
#include "lane.h"

enum {
    GRAPHS_MAX = 24,       /* shapes of steps that are kept ready */
    STEP_TIMEOUT_S = 120,  /* a step that takes longer is taken for hung */
    SETUP_TIMEOUT_S = 600, /* so are copies and fills outside of steps */
    ROWS_STEP = 4096,      /* tokens: launches of a shape see contexts rounded up to it */
    MARKS_MAX = 1024,      /* times taken within a step */
    WAVES_MAX = 16         /* of one selector's calls that a graph has branches for */
};

/* A GPU. Ranks on it take turns. */
struct device {
    int ordinal;
    int numa_node;
    int capability; /* 90: compute capability 9.0 */
    uint32_t rank_count, opened_count;
    pthread_mutex_t turn, dense_lock;
    struct kvt_dense *dense;
    struct kvt_draft_dense *draft_dense; /* NULL: no drafter's products are run */
    _Atomic bool lost;                   /* it hangs or is gone: it is not touched any more */
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

/* What a step's launches depend on: the graph of one may be replayed for another alike. */
struct step_key {
    uint32_t request_count, query_count, queries_max;
    uint32_t pass_requests[KVT_QUERIES_MAX]; /* [passes] */
    uint32_t tokens;                         /* of the longest context, rounded up */
    uint32_t hot_requests;
    uint32_t staging_share; /* rows of the arena that are each request's own */
    uint64_t turn_bytes;    /* of the arena, where requests take turns in it */
    bool takes_turns;
    uint32_t waves_max;               /* that any selector's calls can make */
    uint32_t draft_tokens, draft_max; /* of all blocks of a drafter's pass, and of one at most */
    enum kvt_step_timing timing;
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

enum way {
    WAY_INBOUND, /* host to device */
    WAY_OUTBOUND,
    WAYS
};

/* What is copied beside each step, one way. */
struct traffic {
    cudaStream_t stream;      /* NULL: nothing */
    uint8_t *device, *pinned; /* [beside_bytes] */
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
    struct imports imports;
    struct traffic traffic[WAYS];

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

    struct draft_state draft;

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
    bool is_late;        /* which was lost before it had that */

    /* The newest step. */
    struct step_key key;
    uint32_t staging_share;          /* as the key's; 0: in turns */
    uint32_t *first_query;           /* [lanes] of each item */
    uint32_t *pass_place;            /* [passes][lanes] of each item among those of a pass */
    uint32_t *staged_rows, *wave_of; /* [lanes] scratch of the books */
    struct lane **items;             /* [lanes] */
};

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
/* What the device does of a step; and, once the others have decided, what is reported of it. */
KVT_CHECKED kvt_status rank_step(struct rank *rank, struct kvt_rank_step *step,
                                 struct kvt_error *err);
KVT_CHECKED kvt_status rank_count(struct rank *rank, struct kvt_rank_step *step,
                                  struct kvt_error *err);

/* ---- ranks.c -------------------------------------------------------------------------- */

KVT_CHECKED kvt_status ranks_step(struct backend_cuda *cuda, struct kvt_rank_step *steps,
                                  uint32_t count, struct kvt_error *err);
KVT_CHECKED kvt_status rank_open(struct rank *rank, uint64_t free_bytes, struct kvt_error *err);
void rank_close(struct rank *rank);

/* ---- traffic.c ------------------------------------------------------------------------ */

void traffic_lay(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver);
void traffic_lay_pinned(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver);
KVT_CHECKED kvt_status traffic_open(struct rank *rank, struct kvt_error *err);
void traffic_close(struct rank *rank); /* of one that was not opened too */
/* With a step; and behind it, when its time is known: what was launched is over. */
KVT_CHECKED kvt_status traffic_launch(struct rank *rank, struct kvt_error *err);
KVT_CHECKED kvt_status traffic_end(struct rank *rank, struct kvt_error *err);

/* ---- dense_rank.c --------------------------------------------------------------------- */

KVT_CHECKED kvt_status device_open_dense(const struct backend_cuda *cuda, struct device *device,
                                         struct kvt_error *err);
void device_close_dense(struct device *device); /* of one that has none too */

#endif
