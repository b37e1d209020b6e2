/* lru.h -- batch LRU's state and its two loops, in plain C and for a wider machine. */
#ifndef KVT_POLICIES_REPLACEMENT_LRU_H
#define KVT_POLICIES_REPLACEMENT_LRU_H

#include "kvt/policy.h"

/* Two bytes a slot: the order is read and written whole in every call. */
enum {
    LRU_SLOTS_MAX = 65536
};
struct lru {
    uint32_t slot_count;
    uint32_t empty_count; /* order[0 .. empty_count) is empty, ascending */
    uint16_t order[];     /* [slot_count] slots, oldest first */
};

/* An order being split: slots that did not hit stay in front, in their order. */
struct lru_split {
    uint32_t drop_count; /* slots that did not hit and are still to be left out */
    uint32_t kept_count; /* at the front of the order */
    uint32_t hit_count;
    uint16_t *hits; /* [slot_count] in their order */
};

/* The first `want` slots of order[first ..] that did not hit; returns how many there were. */
uint32_t lru_oldest_from(const struct lru *lru, uint32_t first, const uint64_t *hit_bits,
                         uint32_t want, kvt_slot *victims);
/* Goes on with order[first ..]. */
void lru_split_from(struct lru *lru, uint32_t first, const uint64_t *hit_bits,
                    struct lru_split *split);

/* The same over the whole order, from KVT_CPU_AVX512 on. */
uint32_t lru_oldest_avx512(const struct lru *lru, const uint64_t *hit_bits, uint32_t want,
                           kvt_slot *victims);
void lru_split_avx512(struct lru *lru, const uint64_t *hit_bits, struct lru_split *split);

#endif
