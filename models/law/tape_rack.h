/* tape_rack.h -- the tapes of a run, by length: which there are, and who records them. */
#ifndef KVT_TAPE_RACK_H
#define KVT_TAPE_RACK_H

#include "tape_cache.h"

struct rack;

/* How long tapes are: those of the lengths that a run prepares for, or of the lengths that turn up
 * beside them. */
struct rack_size {
    uint32_t steps;  /* of a tape, which is a loop */
    uint32_t phases; /* steps by which streams may begin apart */
};

/* What decides all that a rack will ever hold. */
struct rack_plan {
    struct reel_process process;
    struct score_model model; /* its stream_store is borrowed; rack_plan_of() has its own */
    uint32_t top_k;
    uint32_t side_paths, side_tokens;
    uint32_t tapes; /* of each length and class of selectors; independent of each other */
    struct rack_size foreseen, other;
    uint64_t memory_bytes; /* that all tapes may take */

    /* Selectors whose streams the process tells apart have tapes of their own: a class.
     * Where streams of a request are kin, each member of a group is a class, tape t of all
     * of them is recorded of one kin, and groups that are alike have the same classes. */
    bool are_kin;
    uint32_t class_count;
    uint32_t class_of[KVT_SELECTORS_MAX];       /* [stream_count] */
    uint32_t class_selector[KVT_SELECTORS_MAX]; /* [class_count] one of each */
};

/* All tapes of one length. */
struct rack_bucket {
    uint32_t length_rows;
    uint32_t tokens_per_row;
    uint32_t phase_count; /* rows by which streams may begin apart; tapes begin with
                           * length_rows - phase_count */
    uint32_t steps;       /* after which a tape goes on where it began */
    bool is_foreseen;     /* the run prepares for this length */
    struct reel *reels[]; /* [tapes][class_count], NULL until needed */
};

/* Where every stream will be opened, records all tapes of the lengths of the environment, on at
 * most env->threads threads, or takes them from its cache. */
KVT_CHECKED kvt_status rack_new(const struct rack_plan *plan, const struct kvt_law_env *env,
                                struct rack **out, struct kvt_error *err);

/* What was recorded beyond the cache's is written to it first. Takes NULL. */
void rack_free(struct rack *rack);

const struct rack_plan *rack_plan_of(const struct rack *rack);

/* The number of the bucket for a stream that has `rows` rows, more than top_k;
 * made when there is none yet. The caller holds rack_lock(). */
KVT_CHECKED kvt_status rack_find(struct rack *rack, uint32_t rows, uint32_t tokens_per_row,
                                 uint32_t *bucket, struct kvt_error *err);

/* Records the tape of a class until at least `steps`, or all of its steps, are there; of a length
 * that was foreseen all of them, and other tapes of it on the other threads meanwhile. The caller
 * holds rack_lock(). */
KVT_CHECKED kvt_status rack_provide(struct rack *rack, uint32_t bucket, uint32_t tape,
                                    uint32_t class, uint64_t steps, struct kvt_error *err);

/* Held by whoever makes the rack grow; reading what was provided needs no lock. */
void rack_lock(struct rack *rack);
void rack_unlock(struct rack *rack);

/* Buckets stay where they are. */
const struct rack_bucket *rack_bucket(const struct rack *rack, uint32_t bucket);

static inline struct reel **rack_reel_at(const struct rack_plan *plan,
                                         const struct rack_bucket *bucket, uint32_t tape,
                                         uint32_t class)
{
    return (struct reel **)&bucket->reels[(size_t)tape * plan->class_count + class];
}

void rack_describe(const struct rack *rack, char *out, size_t bytes);

#endif
