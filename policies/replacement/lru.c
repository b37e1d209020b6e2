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
 * cache that moves each access to the young end chooses other victims. Sources:
 * SGLang, jit_kernel/csrc/hisparse.cuh (lru_slots); vLLM orders alike,
 * csrc/libtorch_stable/hisparse_kernels.cu.
 *
 * Empty slots stand at the old end, lowest first: they do in a new cache, calls
 * take them from there without reordering the rest, and an invalidated slot
 * goes back to its place among them. */
#include <string.h>

#include "lru.h"

static bool is_hit(const uint64_t *hit_bits, kvt_slot slot)
{
    return hit_bits[slot / 64] >> slot % 64 & 1;
}

static size_t lru_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct lru) + (size_t)env->slot_count * sizeof(uint16_t);
}

static kvt_status lru_init(void *state, const struct kvt_replacement_env *env,
                           struct kvt_error *err)
{
    struct lru *lru = state;

    if (env->slot_count > LRU_SLOTS_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "lru",
                        "a hot cache of %u slots is too large; its order holds at most %d",
                        env->slot_count, LRU_SLOTS_MAX);
    lru->slot_count = env->slot_count;
    lru->empty_count = env->slot_count;
    for (kvt_slot slot = 0; slot < env->slot_count; slot++)
        lru->order[slot] = (uint16_t)slot;
    return KVT_OK;
}

uint32_t lru_oldest_from(const struct lru *lru, uint32_t first, const uint64_t *hit_bits,
                         uint32_t want, kvt_slot *victims)
{
    uint32_t chosen = 0;

    for (uint32_t at = first; at < lru->slot_count && chosen < want; at++) {
        victims[chosen] = lru->order[at];
        chosen += !is_hit(hit_bits, lru->order[at]);
    }
    return chosen;
}

/* Whether a slot hit is a coin toss to the processor: stores, not branches. */
void lru_split_from(struct lru *lru, uint32_t first, const uint64_t *hit_bits,
                    struct lru_split *split)
{
    uint16_t *restrict order = lru->order;
    uint16_t *restrict hits = split->hits;
    const uint32_t slot_count = lru->slot_count;
    uint32_t kept_count = split->kept_count, hit_count = split->hit_count, at = first;

    for (; at < slot_count && split->drop_count > 0; at++) {
        bool hit = is_hit(hit_bits, order[at]);
        hits[hit_count] = order[at];
        hit_count += hit;
        split->drop_count -= !hit;
    }
    for (; at < slot_count; at++) {
        uint16_t slot = order[at];
        uint32_t hit = is_hit(hit_bits, slot);
        hits[hit_count] = slot;
        order[kept_count] = slot;
        hit_count += hit;
        kept_count += 1 - hit;
    }
    split->kept_count = kept_count;
    split->hit_count = hit_count;
}

static uint32_t lru_choose_victims(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims)
{
    if (call->cpu >= KVT_CPU_AVX512)
        return lru_oldest_avx512(state, call->hit_bits, want, victims);
    return lru_oldest_from(state, 0, call->hit_bits, want, victims);
}

/* The order is split in place: the first fill_count slots that did not hit are the fills
 * and drop out, the others move up to the old end, hits wait in scratch. Empty slots
 * stand first and never hit, so that fills take them first here, too. */
static void lru_on_resolved(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *fills, const uint32_t *evicted_rows,
                            uint32_t fill_count)
{
    struct lru *lru = state;
    struct lru_split split = {.drop_count = fill_count, .hits = (uint16_t *)call->scratch};

    (void)evicted_rows;
    if (call->cpu >= KVT_CPU_AVX512)
        lru_split_avx512(lru, call->hit_bits, &split);
    else
        lru_split_from(lru, 0, call->hit_bits, &split);
    uint16_t *filled = lru->order + split.kept_count;
    for (uint32_t i = 0; i < fill_count; i++)
        filled[i] = (uint16_t)fills[i];
    memcpy(filled + fill_count, split.hits, split.hit_count * sizeof *split.hits);
    lru->empty_count -= fill_count < lru->empty_count ? fill_count : lru->empty_count;
}

static void lru_on_invalidate(void *state, kvt_slot slot)
{
    struct lru *lru = state;
    uint16_t *order = lru->order;
    uint32_t at = 0, place = 0;

    while (order[at] != slot)
        at++;
    if (at < lru->empty_count)
        return;
    while (place < lru->empty_count && order[place] < slot)
        place++;
    for (; at > place; at--)
        order[at] = order[at - 1];
    order[place] = (uint16_t)slot;
    lru->empty_count++;
}

static void lru_ranks(const void *state, uint32_t *ranks)
{
    const struct lru *lru = state;

    for (uint32_t rank = 0; rank < lru->slot_count; rank++)
        ranks[lru->order[rank]] = rank;
}

/* The order is a permutation, and its empty slots ascend. One window of slots
 * at a time, so that the marks fit on the stack whatever the cache's size. */
static bool lru_is_sane(const void *state)
{
    enum {
        WINDOW_SLOTS = 4096
    };
    const struct lru *lru = state;

    if (lru->empty_count > lru->slot_count)
        return false;
    for (uint32_t i = 1; i < lru->empty_count; i++) {
        if (lru->order[i - 1] >= lru->order[i])
            return false;
    }
    for (uint64_t first = 0; first < lru->slot_count; first += WINDOW_SLOTS) {
        uint64_t seen[WINDOW_SLOTS / 64] = {0};
        for (uint32_t i = 0; i < lru->slot_count; i++) {
            uint64_t place = lru->order[i] - first;
            if (lru->order[i] >= lru->slot_count ||
                (place < WINDOW_SLOTS && is_hit(seen, (kvt_slot)place)))
                return false;
            if (place < WINDOW_SLOTS)
                seen[place / 64] |= UINT64_C(1) << place % 64;
        }
    }
    return true;
}

const struct kvt_replacement_policy kvt_replacement_lru = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_lru,
             .name = "lru",
             .summary = "batch LRU: unused rows go first, then filled ones, then hits"},
    .state_bytes = lru_state_bytes,
    .init = lru_init,
    .choose_victims = lru_choose_victims,
    .on_resolved = lru_on_resolved,
    .on_invalidate = lru_on_invalidate,
    .ranks = lru_ranks,
    .is_sane = lru_is_sane,
};
