/* farthest.h -- what policies share that are told when rows are selected next. */
#ifndef KVT_POLICIES_REPLACEMENT_FARTHEST_H
#define KVT_POLICIES_REPLACEMENT_FARTHEST_H

#include "kvt/policy.h"

/* Their first parameter. They are nothing without the future: init() refuses false. */
#define FARTHEST_CLAIRVOYANT                                                                       \
    {                                                                                              \
        .name = KVT_CLAIRVOYANT,                                                                   \
        .help = "It is shown when rows are selected next; it can do nothing else, so that false "  \
                "is refused.",                                                                     \
        .type = KVT_PARAM_BOOL, .maximum = 1, .default_number = 1                                  \
    }
kvt_status farthest_check(const struct kvt_replacement_env *env, const char *where,
                          struct kvt_error *err);

/* Empty slots, the lowest first, as victims; returns how many. */
uint32_t farthest_take_empty(const struct kvt_replacement_call *call, uint32_t slot_count,
                             uint32_t want, kvt_slot *victims);

/* The occupied slots that did not hit, ascending. */
uint32_t farthest_candidates(const struct kvt_replacement_call *call, uint32_t slot_count,
                             kvt_slot *slots);

/* Orders slots by falling keys[slot], of which KVT_CALL_NEVER is the highest; equals stay in their
 * order. spare is [count]. */
void farthest_first(kvt_slot *slots, uint32_t count, const uint32_t *keys, kvt_slot *spare);

/* What comes is told with each call and is no part of the state: ranks are the slots' numbers. */
void farthest_ranks(uint32_t slot_count, uint32_t *ranks);

#endif
