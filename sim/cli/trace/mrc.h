/* mrc.h -- miss curves of recorded selections: what hot caches of several sizes would have missed.
 *
 * One cache for each (request, store), policy and size, from empty; own selections only. Everything
 * is counted in one reading of a file, two where a policy sees the future. */
#ifndef KVT_CLI_MRC_H
#define KVT_CLI_MRC_H

#include "kvt/arena.h"
#include "kvt/kvsel.h"
#include "kvt/policy.h"
#include "mrc_stack.h"

enum {
    MRC_POLICIES_MAX = 64
};

/* A policy with its parameters as they are by default, but for seeing the future. */
struct mrc_policy {
    const struct kvt_replacement_policy *table;
    struct kvt_params params;
    bool sees_future;
    bool is_lru; /* by rows: done for all sizes at once */
};

/* What is an access. */
enum mrc_stream {
    MRC_CALLS, /* a token's selection: rows of it are pinned, no row is in a tail */
    MRC_ROWS   /* each selected row, ascending within a selection; nothing is pinned */
};

struct mrc_plan {
    enum mrc_stream stream;
    const struct mrc_policy *policies; /* [policy_count] */
    size_t policy_count;
    uint32_t slots[MRC_SIZES_MAX]; /* [size_count] ascending, distinct */
    size_t size_count;
    uint32_t from_token, to_token; /* of each stream; the second is left out */
    uint64_t memory_bytes;         /* for what policies see of the future, of all threads */
    unsigned threads;
    bool quiet;
};

struct mrc_file {
    struct kvt_kvsel_reader *reader;
    uint32_t *selector_stores; /* [selector_count] */
    uint32_t store_count;
};

/* Sums over lanes. */
struct mrc_counts {
    uint64_t lanes, selections, selected;
    uint64_t
        first; /* selected rows that the lane had not selected before: nobody could have them */
    uint64_t missed[MRC_POLICIES_MAX][MRC_SIZES_MAX];
};

/* mrc_policies.c: by name, or all there are for "all". policies[MRC_POLICIES_MAX], their parameters
 * in the arena. */
KVT_CHECKED kvt_status mrc_policies_find(const char *names, struct kvt_arena *arena,
                                         struct mrc_policy *policies, size_t *count,
                                         struct kvt_error *err);

/* mrc_files.c. What the file's note says of stores is followed. */
KVT_CHECKED kvt_status mrc_file_open(const char *path, bool (*on_read)(void *, double),
                                     void *context, struct mrc_file *out, struct kvt_error *err);
void mrc_file_close(struct mrc_file *file); /* also of zeros */

/* mrc_lane.c: one (request, store). tell() is told how much is done; false: KVT_ERR_INTERRUPTED.
 * Adds to *counts, whatever comes of it. */
KVT_CHECKED kvt_status mrc_lane_run(const struct mrc_plan *plan, const struct mrc_file *file,
                                    uint32_t request, uint32_t store,
                                    bool (*tell)(void *context, double fraction), void *context,
                                    struct mrc_counts *counts, struct kvt_error *err);
/* Bytes that it takes for the future, where a policy of the plan sees it. */
uint64_t mrc_lane_future_bytes(const struct mrc_plan *plan, const struct mrc_file *file,
                               uint32_t request, uint32_t store);

/* mrc_run.c: all lanes of the files, on some threads; the same counts on any number of them. */
KVT_CHECKED kvt_status mrc_run(const struct mrc_plan *plan, const struct mrc_file *files,
                               size_t file_count, struct mrc_counts *counts, struct kvt_error *err);

/* ---- Parts of a lane --------------------------------------------------------------------------
 */

enum {
    MRC_LIST_SLACK = 3
};
/* mrc_list.c: kvt_row_set_list() into an array with room for MRC_LIST_SLACK rows more. */
uint32_t mrc_list(const uint64_t *set, size_t words, uint32_t *rows);

/* Whose caches they are. */
struct mrc_store {
    uint32_t top_k, rows_max;
    uint32_t rows_per_page; /* rows of it in KVT_PAGE_ROWS tokens */
    uint64_t entity;        /* for random streams, as in a run */
};

/* mrc_calls.c: the caches of all policies and sizes, each told every call. */
struct mrc_calls;
KVT_CHECKED kvt_status mrc_calls_new(const struct mrc_plan *plan, const struct mrc_store *store,
                                     struct mrc_calls **out, struct kvt_error *err);
void mrc_calls_free(struct mrc_calls *calls); /* takes NULL */
/* One selection of visible_rows. next_call[rows_max]: the number of the call after this one that
 * selects the row, UINT32_MAX for none; NULL where no policy asks. */
KVT_CHECKED kvt_status mrc_calls_take(struct mrc_calls *calls, const uint64_t *set,
                                      uint32_t visible_rows, uint64_t step, uint32_t call,
                                      const uint32_t *next_call, struct mrc_counts *counts,
                                      struct kvt_error *err);

/* mrc_rows.c: a cache as textbooks have it, of any policy: one row at a time. */
struct mrc_rows;
KVT_CHECKED kvt_status mrc_rows_new(const struct mrc_policy *policy, uint32_t slots,
                                    const struct mrc_store *store, struct mrc_rows **out,
                                    struct kvt_error *err);
void mrc_rows_free(struct mrc_rows *cache); /* takes NULL */
/* Rows accessed one after the other, the first as access number `access`; next_access[count] is the
 * number of the next access to the same row, UINT32_MAX for none; NULL unless the policy sees the
 * future. *missed is added to. */
KVT_CHECKED kvt_status mrc_rows_take(struct mrc_rows *cache, const uint32_t *rows, uint32_t count,
                                     uint64_t step, uint32_t access, const uint32_t *next_access,
                                     uint64_t *missed, struct kvt_error *err);

#endif
