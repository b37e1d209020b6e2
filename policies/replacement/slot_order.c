/* slot_order.c -- the slots of a cache in an order, oldest first. */
#include "slot_order.h"

#include <string.h>

static bool is_in(const uint64_t *bits, kvt_slot slot)
{
    return bits[slot / 64] >> slot % 64 & 1;
}

/* ---- State --------------------------------------------------------------------------------- */

size_t slot_order_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct slot_order) + (size_t)env->slot_count * sizeof(uint16_t);
}

kvt_status slot_order_init(void *state, const struct kvt_replacement_env *env, const char *where,
                           struct kvt_error *err)
{
    struct slot_order *order = state;

    if (env->slot_count > SLOT_ORDER_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "a hot cache of %u slots is too large; its order holds at most %d",
                        env->slot_count, SLOT_ORDER_MAX);
    order->slot_count = env->slot_count;
    order->empty_count = env->slot_count;
    for (kvt_slot slot = 0; slot < env->slot_count; slot++)
        order->slots[slot] = (uint16_t)slot;
    return KVT_OK;
}

void slot_order_ranks(const void *state, uint32_t *ranks)
{
    const struct slot_order *order = state;

    for (uint32_t rank = 0; rank < order->slot_count; rank++)
        ranks[order->slots[rank]] = rank;
}

/* The order is a permutation, and its empty slots ascend. One window of slots
 * at a time, so that the marks fit on the stack whatever the cache's size. */
bool slot_order_is_sane(const void *state)
{
    enum {
        WINDOW_SLOTS = 4096
    };
    const struct slot_order *order = state;

    if (order->empty_count > order->slot_count)
        return false;
    for (uint32_t i = 1; i < order->empty_count; i++) {
        if (order->slots[i - 1] >= order->slots[i])
            return false;
    }
    for (uint64_t first = 0; first < order->slot_count; first += WINDOW_SLOTS) {
        uint64_t seen[WINDOW_SLOTS / 64] = {0};
        for (uint32_t i = 0; i < order->slot_count; i++) {
            uint64_t place = order->slots[i] - first;
            if (order->slots[i] >= order->slot_count ||
                (place < WINDOW_SLOTS && is_in(seen, (kvt_slot)place)))
                return false;
            if (place < WINDOW_SLOTS)
                seen[place / 64] |= UINT64_C(1) << place % 64;
        }
    }
    return true;
}

/* ---- A call ---------------------------------------------------------------------------------- */

uint32_t slot_order_oldest_from(const struct slot_order *order, uint32_t first,
                                const uint64_t *hit_bits, uint32_t want, kvt_slot *victims)
{
    uint32_t chosen = 0;

    for (uint32_t at = first; at < order->slot_count && chosen < want; at++) {
        victims[chosen] = order->slots[at];
        chosen += !is_in(hit_bits, order->slots[at]);
    }
    return chosen;
}

uint32_t slot_order_choose_victims(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims)
{
    if (call->cpu >= KVT_CPU_AVX512)
        return slot_order_oldest_avx512(state, call->hit_bits, want, victims);
    return slot_order_oldest_from(state, 0, call->hit_bits, want, victims);
}

/* Whether a slot hit is a coin toss to the processor: stores, not branches. */
void slot_order_split_from(struct slot_order *order, uint32_t first, const uint64_t *hit_bits,
                           struct slot_split *split)
{
    uint16_t *restrict slots = order->slots;
    uint16_t *restrict hits = split->hits;
    const uint32_t slot_count = order->slot_count;
    uint32_t kept_count = split->kept_count, hit_count = split->hit_count, at = first;

    for (; at < slot_count && split->drop_count > 0; at++) {
        bool hit = is_in(hit_bits, slots[at]);
        hits[hit_count] = slots[at];
        hit_count += hit;
        split->drop_count -= !hit;
    }
    for (; at < slot_count; at++) {
        uint16_t slot = slots[at];
        uint32_t hit = is_in(hit_bits, slot);
        hits[hit_count] = slot;
        slots[kept_count] = slot;
        hit_count += hit;
        kept_count += 1 - hit;
    }
    split->kept_count = kept_count;
    split->hit_count = hit_count;
}

struct slot_split slot_order_split(struct slot_order *order,
                                   const struct kvt_replacement_call *call, uint32_t fill_count)
{
    struct slot_split split = {.drop_count = fill_count, .hits = (uint16_t *)call->scratch};

    if (call->cpu >= KVT_CPU_AVX512)
        slot_order_split_avx512(order, call->hit_bits, &split);
    else
        slot_order_split_from(order, 0, call->hit_bits, &split);
    return split;
}

uint32_t slot_order_append(struct slot_order *order, uint32_t kept, const kvt_slot *slots,
                           uint32_t count)
{
    uint16_t *end = order->slots + kept;

    for (uint32_t i = 0; i < count; i++)
        end[i] = (uint16_t)slots[i];
    return kept + count;
}

void slot_order_filled(struct slot_order *order, uint32_t fill_count)
{
    order->empty_count -= fill_count < order->empty_count ? fill_count : order->empty_count;
}

/* ---- Between calls -----------------------------------------------------------------------------
 */

void slot_order_make_newest(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *slots, const uint32_t *rows,
                            const uint32_t *evicted_rows, uint32_t count)
{
    struct slot_order *order = state;
    unsigned char *promoted = (unsigned char *)call->scratch; /* [slot_count] */
    uint32_t kept = 0;

    (void)rows, (void)evicted_rows;
    memset(promoted, 0, order->slot_count);
    for (uint32_t i = 0; i < count; i++)
        promoted[slots[i]] = 1;
    for (uint32_t at = 0; at < order->slot_count; at++) {
        uint16_t slot = order->slots[at];
        order->slots[kept] = slot;
        kept += !promoted[slot];
    }
    (void)slot_order_append(order, kept, slots, count);
}

void slot_order_on_invalidate(void *state, kvt_slot slot)
{
    struct slot_order *order = state;
    uint16_t *slots = order->slots;
    uint32_t at = 0, place = 0;

    while (slots[at] != slot)
        at++;
    if (at < order->empty_count)
        return;
    while (place < order->empty_count && slots[place] < slot)
        place++;
    for (; at > place; at--)
        slots[at] = slots[at - 1];
    slots[place] = (uint16_t)slot;
    order->empty_count++;
}
