/* slot_order.h -- the slots of a cache in an order, oldest first: the state of policies that keep
 * one. They give up the same slots and differ in what a call makes of the order. */
#ifndef KVT_POLICIES_REPLACEMENT_SLOT_ORDER_H
#define KVT_POLICIES_REPLACEMENT_SLOT_ORDER_H

#include "kvt/policy.h"

/* Two bytes a slot: the order is read and written whole in every call. */
enum {
    SLOT_ORDER_MAX = 65536
};

/* Empty slots stand at the old end, lowest first: they do in a new cache, calls take them from
 * there without reordering the rest, and an invalidated slot goes back to its place among them. */
struct slot_order {
    uint32_t slot_count;
    uint32_t empty_count; /* slots[0 .. empty_count) are empty, ascending */
    uint16_t slots[];     /* [slot_count] oldest first */
};

/* ---- Members of a policy's table, for policies whose state this is --------------------------- */

size_t slot_order_state_bytes(const struct kvt_replacement_env *env);
/* Refuses more than SLOT_ORDER_MAX slots, in the name of the policy. */
kvt_status slot_order_init(void *state, const struct kvt_replacement_env *env, const char *where,
                           struct kvt_error *err);
/* The oldest slots that did not hit, hence empty ones first. */
uint32_t slot_order_choose_victims(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims);
void slot_order_on_invalidate(void *state, kvt_slot slot);
void slot_order_ranks(const void *state, uint32_t *ranks);
bool slot_order_is_sane(const void *state);

/* ---- What their on_resolved() is made of ------------------------------------------------------
 */

/* An order being split: slots that did not hit stay in front, in their order. */
struct slot_split {
    uint32_t drop_count; /* slots that did not hit and are still to be left out */
    uint32_t kept_count; /* at the front of the order */
    uint32_t hit_count;
    uint16_t *hits; /* [slot_count] in their order */
};

/* Takes out what hit and, of the rest, the oldest fill_count, which are the victims of the call.
 * The others move up to the old end. Hits are in the call's scratch. */
struct slot_split slot_order_split(struct slot_order *order,
                                   const struct kvt_replacement_call *call, uint32_t fill_count);

/* Puts slots behind those at the front that are `kept`; returns how many are there now. */
uint32_t slot_order_append(struct slot_order *order, uint32_t kept, const kvt_slot *slots,
                           uint32_t count);

/* fill_count more slots hold a row, the empty ones first. */
void slot_order_filled(struct slot_order *order, uint32_t fill_count);

/* on_promoted() for policies in whose order the promoted rows are the newest, in the order of the
 * pairs. */
void slot_order_make_newest(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *slots, const uint32_t *rows,
                            const uint32_t *evicted_rows, uint32_t count);

/* ---- The two loops, in plain C and for a wider machine ------------------------------------------
 */

/* The first `want` slots of slots[first ..] that did not hit; returns how many there were. */
uint32_t slot_order_oldest_from(const struct slot_order *order, uint32_t first,
                                const uint64_t *hit_bits, uint32_t want, kvt_slot *victims);
/* Goes on with slots[first ..]. */
void slot_order_split_from(struct slot_order *order, uint32_t first, const uint64_t *hit_bits,
                           struct slot_split *split);

/* The same over the whole order, from KVT_CPU_AVX512 on. */
uint32_t slot_order_oldest_avx512(const struct slot_order *order, const uint64_t *hit_bits,
                                  uint32_t want, kvt_slot *victims);
void slot_order_split_avx512(struct slot_order *order, const uint64_t *hit_bits,
                             struct slot_split *split);

#endif
