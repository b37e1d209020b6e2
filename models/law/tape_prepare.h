/* tape_prepare.h -- whole tapes recorded by several threads, through the cache. */
#ifndef KVT_TAPE_PREPARE_H
#define KVT_TAPE_PREPARE_H

#include <stdatomic.h>

#include "kvt/law.h"
#include "tape_cache.h"

/* Who hears of the progress, as in kvt_law_env. */
struct tape_listener {
    bool (*progress)(void *context, double done_fraction, const char *what); /* NULL: nobody */
    void *context;
};

/* False when it has had enough. */
bool tape_tell(const struct tape_listener *listener, double done_fraction);
kvt_status tape_interrupted(struct kvt_error *err);

/* The tapes to record, and how far all of them are. The caller sets the first
 * six members and zeroes the rest. */
struct tape_work {
    const struct reel_process *process;
    const struct tape_cache *cache;
    unsigned threads;
    const struct tape_listener *listener;
    struct reel **reels; /* [reel_count] */
    size_t reel_count;
    uint64_t step_count;   /* of all of them */
    atomic_bool *is_taken; /* [reel_count] by a thread of ours */
    atomic_size_t next;
    atomic_ullong steps_done;
    atomic_bool has_failed;
    atomic_bool is_stopped; /* whoever hears of the progress has had enough */
};

/* Records what there is not yet of all tapes. KVT_ERR_INTERRUPTED when the progress was
 * answered by false. */
KVT_CHECKED kvt_status tape_prepare_all(struct tape_work *work, struct kvt_error *err);

#endif
