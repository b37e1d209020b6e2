/* lru.c -- batch LRU, as HiSparse's kernels do it.
 *
 *     order: the slots, oldest first; 0, 1, 2 .. in a new cache
 *     victims of m misses: the first m slots of the order that did not hit
 *     after the call: order = [not used, in their old order]
 *                             [filled, in the order of the misses]
 *                             [hit, in their old order]
 *
 * All rows of a call are used at one moment, so the rows that hit keep their
 * order among themselves, and stay longer than rows that have just come in. A
 * cache that moves each access to the young end chooses other victims
 * (access_lru.c). Sources: SGLang, jit_kernel/csrc/hisparse.cuh (lru_slots);
 * vLLM orders alike, csrc/libtorch_stable/hisparse_kernels.cu. */
#include <string.h>

#include "slot_order.h"

static kvt_status lru_init(void *state, const struct kvt_replacement_env *env,
                           struct kvt_error *err)
{
    return slot_order_init(state, env, "replacement \"lru\"", err);
}

/* The order is split in place: the first fill_count slots that did not hit are the fills
 * and drop out, the others move up to the old end, hits wait in scratch. Empty slots
 * stand first and never hit, so that fills take them first here, too. */
static void lru_on_resolved(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *fills, const uint32_t *evicted_rows,
                            uint32_t fill_count)
{
    struct slot_order *order = state;

    (void)evicted_rows;
    struct slot_split split = slot_order_split(order, call, fill_count);
    uint32_t end = slot_order_append(order, split.kept_count, fills, fill_count);
    memcpy(order->slots + end, split.hits, split.hit_count * sizeof *split.hits);
    slot_order_filled(order, fill_count);
}

const struct kvt_replacement_policy kvt_replacement_lru = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_lru,
             .name = "lru",
             .summary = "batch LRU: unused rows go first, then filled ones, then hits"},
    .state_bytes = slot_order_state_bytes,
    .init = lru_init,
    .choose_victims = slot_order_choose_victims,
    .on_resolved = lru_on_resolved,
    .on_invalidate = slot_order_on_invalidate,
    .ranks = slot_order_ranks,
    .is_sane = slot_order_is_sane,
};
