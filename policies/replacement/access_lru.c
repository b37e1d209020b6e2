/* access_lru.c -- LRU by access: the textbook's cache, one row at a time.
 *
 *     order: the slots, oldest first; 0, 1, 2 .. in a new cache
 *     a call: for each row that hit, in the order of the union:
 *                 its slot becomes the newest
 *             for each miss, in its order:
 *                 fill the oldest slot that the call does not read; it becomes the newest
 *
 * A miss takes no slot that hit or was filled in this call: attention reads all of
 * them behind it. Where a call reads one row nothing is kept back, and this is the LRU
 * of cache simulators. In a call of more the order comes out as
 *
 *     [not used, in their old order] [hit, in the union's order] [filled, in miss order]
 *
 * so that a row that has just come in outlives one that hit: the other way round than
 * batch LRU (lru.c), which gives up the same slots in this call, others in the next.
 * Rows that are promoted are the last accesses of the call: they become the newest.
 * Source: R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM
 * Systems Journal 9(2), 1970. */
#include "slot_order.h"

static kvt_status access_lru_init(void *state, const struct kvt_replacement_env *env,
                                  struct kvt_error *err)
{
    return slot_order_init(state, env, "replacement \"access-lru\"", err);
}

/* The misses take the oldest slots that did not hit, whatever hits have done to the order
 * before. What hit is put back in the call's order, not in the one that it had. */
static void access_lru_on_resolved(void *state, const struct kvt_replacement_call *call,
                                   const kvt_slot *fills, const uint32_t *evicted_rows,
                                   uint32_t fill_count)
{
    struct slot_order *order = state;

    (void)evicted_rows;
    struct slot_split split = slot_order_split(order, call, fill_count);
    uint32_t end = slot_order_append(order, split.kept_count, call->hit_slots, call->hit_count);
    (void)slot_order_append(order, end, fills, fill_count);
    slot_order_filled(order, fill_count);
}

const struct kvt_replacement_policy kvt_replacement_access_lru = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_access_lru,
             .name = "access-lru",
             .summary = "LRU by access: hits in turn, then misses one by one"},
    .state_bytes = slot_order_state_bytes,
    .init = access_lru_init,
    .choose_victims = slot_order_choose_victims,
    .on_resolved = access_lru_on_resolved,
    .on_invalidate = slot_order_on_invalidate,
    .ranks = slot_order_ranks,
    .is_sane = slot_order_is_sane,
    .on_promoted = slot_order_make_newest,
    .wants_hit_order = true,
};
