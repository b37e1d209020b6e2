/* tape_reel.h -- one tape: a loop of selections of the score process, recorded once and read often.
 */
#ifndef KVT_TAPE_REEL_H
#define KVT_TAPE_REEL_H

#include "kvt/kvsel.h"
#include "score_process.h"

/* Steps are recorded in blocks, which stay where they are: a stream may read
 * what was recorded before its start while the recording goes on. */
enum {
    REEL_BLOCK_STEPS = KVT_KVSEL_BLOCK_TOKENS
};

struct reel {
    struct score_kin kin;
    struct kvt_kvsel_stream selections; /* its token_count is what the whole tape has */
    uint32_t recorded;                  /* steps, in whole blocks */
    uint32_t wanted;                    /* of them, by streams of this run */
    uint32_t stored;                    /* of them, in the cache */
    bool was_written;                   /* there, by us */
    struct reel_recorder *recorder;     /* NULL before the first step and after the last */
    struct kvt_kvsel *loaded;           /* from the cache: the first loaded_blocks */
    uint32_t loaded_blocks;
    unsigned char *blocks[]; /* [token_count / REEL_BLOCK_STEPS] */
};

/* What all recording shares. */
struct reel_process {
    struct score_shape shape;
    const float *gauss;
};

/* Nothing is recorded yet; NULL when memory is short. step_count is rounded up
 * to whole blocks. */
struct reel *reel_new(const struct score_kin *kin, const struct kvt_kvsel_shape *shape,
                      uint32_t step_count);
void reel_free(struct reel *reel); /* takes NULL */

/* Records until at least `steps` (at most all) are there. What a tape holds
 * does not depend on the portions it was recorded in. On failure the
 * recording stands where it stood. */
KVT_CHECKED kvt_status reel_record(struct reel *reel, const struct reel_process *process,
                                   uint32_t steps, struct kvt_error *err);

/* Takes over a file with the first steps of this very tape; false where it is
 * no such file or has nothing to add: then it stays the caller's. */
bool reel_adopt(struct reel *reel, struct kvt_kvsel *file, uint64_t key);

/* Bytes of the selections that streams of this run wanted: what a run of the
 * same scenario finds, whatever else was recorded before. */
uint64_t reel_bytes(const struct reel *reel);

/* About as many for so many steps, before they are recorded. */
uint64_t reel_bytes_expected(const struct reel *reel, uint32_t steps);

#endif
