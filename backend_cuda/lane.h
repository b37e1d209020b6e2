/* lane.h -- requests that decode, and how their rows move.
 *
 *     lane.c        one decoding request: selections, pages and frames
 *     copies.c      rows that move between host, tail and frames
 *     imports.c     histories that come in over the link */
#ifndef KVT_CUDA_LANE_H
#define KVT_CUDA_LANE_H

#include "memory.h"

enum {
    COPIES_MAX = 1 << 16,         /* of one list */
    IMPORT_BYTES_MAX = 256 << 20, /* of the staging area of a rank's imports */
    IMPORT_PIECES_MAX = 64,       /* that it holds */
    SHARED_CONTEXT = 1 << 30      /* context ids from here on name shared prefixes */
};

/* One decoding request. Its place on the rank, `index`, is where its rows and tables are. */
struct lane {
    uint32_t request, rank, index;
    uint32_t admitted_tokens, max_tokens, last_tokens; /* as in struct kvt_backend_admission */
    uint64_t hot_tokens;                               /* 0: it is whole */
    uint32_t shared_tokens, shared_context; /* of its host rows, the first so many are shared */
    uint32_t settled_tokens;  /* rows of these are on host, and in the frames of their pages */
    uint32_t appended_tokens; /* the tail's newest, rejected ones included */
    uint32_t drafted_tokens;  /* the draft ring has what was committed up to here, ... */
    uint32_t lost_tokens;     /* ... and nothing from before here */
    uint32_t frame_pages;     /* pages [0, so many) may have a frame */
    /* Of one that comes in over the link, else 0: tokens whose index keys do; how far they have
     * been laid into the staging area; and whether its first step is still to come. */
    uint32_t expected_tokens, staged_store, staged_pages;
    bool joins;
    int32_t *frames;         /* [frame_stride] of the upload block */
    void **streams;          /* [selectors] of the law */
    struct planned *planned; /* [stores] decided on the CPU; NULL: on the device */
    int32_t item;            /* its place in the newest step; -1: it was in none */
};

/* What the CPU keeps of a lane's store where it decides. */
struct planned {
    struct kvt_hot_cache *cache;  /* NULL: the lane has none */
    struct kvt_look_ahead *ahead; /* NULL: nobody sees the future */
    uint32_t *slot_rows;          /* [slots] as the device's */
    uint16_t *slot_of_row;        /* [rows] 0xffff: in no slot; one block with the former */
};

/* Histories on their way to a rank (imports.c). */
struct imports {
    cudaStream_t stream; /* NULL: none comes over the link */
    cudaEvent_t begin, end;
    uint8_t *staging; /* [bytes] pinned */
    uint64_t bytes, staged_bytes;
    struct kvt_gpu_copy pieces[IMPORT_PIECES_MAX]; /* [piece_count] out of the area */
    uint32_t piece_count;
    struct lane **line; /* [count] of [lanes] in the order in which they were expected */
    uint32_t count;
};

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
    uint64_t bytes; /* of all that it has ever held */
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

/* ---- imports.c ------------------------------------------------------------------------ */

KVT_CHECKED kvt_status imports_open(struct rank *rank, struct kvt_error *err);
void imports_close(struct rank *rank); /* of one that was not opened too */
/* The lane, whose expected_tokens are above 0, stands in line; or does so no longer. */
void imports_expect(struct rank *rank, struct lane *lane);
void imports_leave(struct rank *rank, const struct lane *lane);
/* Before a step: the staging area is filled, on the main stream. With it: what lies there travels.
 * Behind it, or behind a request that joins: it has arrived, and is counted. */
KVT_CHECKED kvt_status imports_stage(struct rank *rank, struct kvt_error *err);
KVT_CHECKED kvt_status imports_launch(struct rank *rank, struct kvt_error *err);
KVT_CHECKED kvt_status imports_end(struct rank *rank, bool beside, struct kvt_error *err);
/* Between steps: all of the lane's keys that have not come do, and are waited for. */
KVT_CHECKED kvt_status imports_join(struct rank *rank, struct lane *lane, struct kvt_error *err);
/* Launches rows that a request begins with, and waits for them. */
KVT_CHECKED kvt_status imports_copy(struct copy_list *list, struct kvt_error *err);
/* The first row of a store whose key does not come over the link. */
uint32_t imports_first_row(const struct rank *rank, const struct lane *lane, uint32_t s);

/* ---- lane.c --------------------------------------------------------------------------- */

/* Its history is on its way; where no place is free, it will be made as it is admitted. */
KVT_CHECKED kvt_status gpu_lane_expect(struct backend_cuda *cuda,
                                       const struct kvt_backend_admission *admission,
                                       struct lane **out, struct kvt_error *err);
/* *lane: one that was expected, or NULL. On failure it is gone. */
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

#endif
