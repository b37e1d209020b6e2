/* tape_rack.h -- the tapes of a run, by length: which there are, and who records them. */
#ifndef KVT_TAPE_RACK_H
#define KVT_TAPE_RACK_H

#include "tape_reel.h"

struct rack;

/* What decides all that a rack will ever hold. */
struct rack_plan {
    struct score_shape shape;
    uint64_t run_seed;
    uint32_t top_k;
    uint32_t ahead_tapes; /* of each length that is prepared for */
    uint32_t other_tapes; /* of each length that turns up beside them */
    uint32_t ahead_steps; /* that a stream reads before its tape turns, by the same two kinds */
    uint32_t other_steps;
    uint64_t memory_bytes; /* that all tapes may take */
};

/* All tapes of one length. */
struct rack_bucket {
    uint32_t length_rows;
    uint32_t tokens_per_row;
    uint32_t phase_count; /* rows by which streams may begin apart; tapes begin with
                           * length_rows - phase_count */
    uint32_t tape_count;
    uint32_t steps;       /* recorded behind the last phase */
    struct reel *reels[]; /* [tape_count], NULL until needed */
};

/* Records whole tapes for the lengths of the environment, on at most
 * env->threads threads. */
KVT_CHECKED kvt_status rack_new(const struct rack_plan *plan, const struct kvt_law_env *env,
                                struct rack **out, struct kvt_error *err);
void rack_free(struct rack *rack); /* takes NULL */

/* The number of the bucket for a stream that has `rows` rows, more than top_k;
 * made when there is none yet. The caller holds rack_lock(). */
KVT_CHECKED kvt_status rack_find(struct rack *rack, uint32_t rows, uint32_t tokens_per_row,
                                 uint32_t *bucket, struct kvt_error *err);

/* Records a tape until at least `steps`, or all of its steps, are there. The
 * caller holds rack_lock(). */
KVT_CHECKED kvt_status rack_provide(struct rack *rack, uint32_t bucket, uint32_t tape,
                                    uint64_t steps, struct kvt_error *err);

/* Held by whoever makes the rack grow; reading what was provided needs no lock. */
void rack_lock(struct rack *rack);
void rack_unlock(struct rack *rack);

/* Buckets stay where they are. */
const struct rack_bucket *rack_bucket(const struct rack *rack, uint32_t bucket);

void rack_describe(const struct rack *rack, char *out, size_t bytes);

#endif
