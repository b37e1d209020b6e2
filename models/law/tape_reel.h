/* tape_reel.h -- one tape: selections of the score process, recorded once and read many times. */
#ifndef KVT_TAPE_REEL_H
#define KVT_TAPE_REEL_H

#include "score_process.h"

/* Steps are recorded in blocks, which stay where they are: a stream may read
 * what was recorded before its start while the recording goes on. */
enum {
    REEL_BLOCK_STEPS = 64
};

struct reel {
    uint64_t key;
    uint32_t first_rows;            /* visible at step 0 */
    uint32_t tokens_per_row;        /* steps after which one more is visible */
    uint32_t top_k;                 /* at most first_rows */
    uint32_t step_count;            /* that the whole tape has, in whole blocks */
    uint32_t recorded;              /* steps, in whole blocks */
    struct reel_recorder *recorder; /* NULL before the first step and after the last */
    uint16_t *blocks[];             /* [step_count / REEL_BLOCK_STEPS] */
};

/* Nothing is recorded yet; NULL when memory is short. step_count is rounded up
 * to whole blocks. */
struct reel *reel_new(uint64_t key, uint32_t first_rows, uint32_t tokens_per_row, uint32_t top_k,
                      uint32_t step_count);
void reel_free(struct reel *reel); /* takes NULL */

/* Records until at least `steps` (at most step_count) are there. What a tape
 * holds does not depend on the portions it was recorded in. On failure the
 * recording stands where it stood. */
KVT_CHECKED kvt_status reel_record(struct reel *reel, const struct score_shape *shape,
                                   const float *gauss, uint32_t steps, struct kvt_error *err);

/* Bytes that the reel would hold with `steps` recorded, and of them those that
 * go when the last step is recorded. */
size_t reel_bytes_at(const struct reel *reel, uint32_t steps);
size_t reel_recorder_bytes(const struct reel *reel);

/* How a stream's history lies on the tape. Old rows, which the tape had when
 * the stream began, are turned by whole pages within the stream's whole pages;
 * rows born since follow one another on both sides. */
struct reel_map {
    uint32_t old_rows;    /* tape rows that were visible at the stream's first step */
    uint32_t stream_rows; /* rows of the stream at that step, at least as many */
    uint32_t shift_rows;  /* whole pages, less than the stream's whole pages */
};

/* The selection of a recorded step in the stream's own rows, ascending: writes
 * rows[top_k]. */
void reel_read(const struct reel *reel, uint32_t step, const struct reel_map *map, uint32_t *rows);

#endif
