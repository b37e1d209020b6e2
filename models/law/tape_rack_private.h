/* tape_rack_private.h -- a rack, between its two halves: which tapes there are (tape_rack.c), and
 * their recording (tape_supply.c). */
#ifndef KVT_TAPE_RACK_PRIVATE_H
#define KVT_TAPE_RACK_PRIVATE_H

#include <pthread.h>

#include "tape_prepare.h"
#include "tape_rack.h"

struct rack {
    struct rack_plan plan;
    uint32_t stream_store[KVT_SELECTORS_MAX]; /* the plan's, where it has one */
    struct tape_cache cache;
    unsigned threads; /* to record with */
    struct tape_listener listener;
    uint64_t used_bytes; /* reel_bytes() of all */
    pthread_mutex_t growing;
    size_t bucket_count, bucket_capacity;
    struct rack_bucket *buckets[]; /* [bucket_capacity]: streams read while it grows */
};

/* Records all tapes of all lengths that there are, or takes them from the cache. */
KVT_CHECKED kvt_status rack_record_foreseen(struct rack *rack, const struct kvt_law_env *env,
                                            struct kvt_error *err);

#endif
