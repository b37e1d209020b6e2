/* fifo.c -- first in, first out: the row that came in first goes first.
 *
 *     order: the slots, the one filled longest ago first; 0, 1, 2 .. in a new cache
 *     hit:   nothing
 *     miss:  fill the first slot of the order that the call does not read; it goes to the end
 *
 * A slot that is passed by since the call reads it keeps its place: it is due in the next
 * call. A promoted row has come in last, and goes to the end. What LRU gains over this is
 * what looking at hits is worth. Source: L. A. Belady, "A study of replacement algorithms
 * for a virtual-storage computer", IBM Systems Journal 5(2), 1966. */
#include <string.h>

#include "slot_order.h"

static kvt_status fifo_init(void *state, const struct kvt_replacement_env *env,
                            struct kvt_error *err)
{
    return slot_order_init(state, env, "replacement \"fifo\"", err);
}

/* Up to the last of the victims the order holds them and slots that hit; only that part is
 * looked at, the rest moves up. */
static void fifo_on_resolved(void *state, const struct kvt_replacement_call *call,
                             const kvt_slot *fills, const uint32_t *evicted_rows,
                             uint32_t fill_count)
{
    struct slot_order *order = state;
    uint16_t *slots = order->slots;
    uint32_t kept = 0, at = 0;

    (void)evicted_rows;
    for (uint32_t left = fill_count; left > 0; at++) {
        uint16_t slot = slots[at];
        uint32_t hit = call->hit_bits[slot / 64] >> slot % 64 & 1;
        slots[kept] = slot;
        kept += hit;
        left -= 1 - hit;
    }
    memmove(slots + kept, slots + at, (order->slot_count - at) * sizeof *slots);
    (void)slot_order_append(order, order->slot_count - fill_count, fills, fill_count);
    slot_order_filled(order, fill_count);
}

const struct kvt_replacement_policy kvt_replacement_fifo = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_fifo,
             .name = "fifo",
             .summary = "first in, first out: hits change nothing"},
    .state_bytes = slot_order_state_bytes,
    .init = fifo_init,
    .choose_victims = slot_order_choose_victims,
    .on_resolved = fifo_on_resolved,
    .on_invalidate = slot_order_on_invalidate,
    .ranks = slot_order_ranks,
    .is_sane = slot_order_is_sane,
    .on_promoted = slot_order_make_newest,
};
