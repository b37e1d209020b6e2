/* sieve.c -- SIEVE: a queue whose hand sifts out what was not hit, and moves nothing.
 *
 *     hit:  mark the slot
 *     miss: fill the lowest empty slot; if there is none, from the hand on to newer slots, and from
 *           the newest on to the oldest:
 *               a slot that the call reads is passed by
 *               a marked slot loses its mark and is passed by
 *               an unmarked slot is filled; the hand stands at the next newer slot
 *           the row comes in unmarked, as the newest of the queue
 *
 * Unlike CLOCK's, a row that comes in does not take the place of the one that went: the hand is
 * in the middle of the queue, and new rows wait behind it to be looked at. All hits come before the
 * misses of a call, and set marks, so that their order is all one. A promoted row takes over slot,
 * place and mark. Source: Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024. */
#include "slot_lists.h"

enum {
    SET_EMPTY,
    SET_MARKED,
    SETS,
    QUEUE = 0,
    LISTS
};

struct sieve {
    uint32_t slot_count;
    uint32_t queued; /* slots in the queue */
    uint32_t hand;   /* a slot of the queue, or its end: then the oldest is next */
    uint32_t unused; /* words lie on 8 bytes */
    uint64_t words[];
};

static struct slot_lists lists_of(struct sieve *sieve)
{
    return slot_lists_at(sieve->words, sieve->slot_count, SETS);
}

static size_t sieve_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct sieve) + slot_lists_words(env->slot_count, SETS, LISTS) * sizeof(uint64_t);
}

static kvt_status sieve_init(void *state, const struct kvt_replacement_env *env,
                             struct kvt_error *err)
{
    struct sieve *sieve = state;

    (void)err;
    sieve->slot_count = env->slot_count;
    sieve->hand = env->slot_count + QUEUE;
    struct slot_lists lists = lists_of(sieve);
    slot_lists_init(&lists, LISTS);
    return KVT_OK;
}

/* ---- A call ---------------------------------------------------------------------------------- */

static void mark_hits(const struct slot_lists *lists, const uint64_t *hit_bits)
{
    uint64_t *marked = slot_set(lists, SET_MARKED);

    for (uint32_t w = 0; w < lists->set_words; w++)
        marked[w] |= hit_bits[w];
}

/* Some slot of the queue is not read, and has lost its mark in the second turn. */
static kvt_slot sift(struct sieve *sieve, const struct slot_lists *lists,
                     const struct slot_play *play)
{
    uint64_t *marked = slot_set(lists, SET_MARKED);
    uint32_t node = sieve->hand;

    for (;; node = lists->links[node].newer) {
        if (!slot_is_any(lists, node))
            node = slot_oldest(lists, QUEUE);
        if (slot_is_read(play, node))
            continue;
        if (!slot_is_in(marked, node))
            break;
        slot_put(marked, node, false);
    }
    sieve->hand = lists->links[node].newer;
    slot_remove(lists, node);
    sieve->queued--;
    return node;
}

static uint32_t sieve_choose_victims(void *state, const struct kvt_replacement_call *call,
                                     uint32_t want, kvt_slot *victims)
{
    struct sieve *sieve = state;
    struct slot_lists lists = lists_of(sieve);
    struct slot_play play = slot_play_begin(&lists, call);

    mark_hits(&lists, call->hit_bits);
    for (uint32_t i = 0; i < want; i++) {
        victims[i] = slot_take_empty(&lists, &play);
        if (victims[i] == KVT_SLOT_NONE)
            victims[i] = sift(sieve, &lists, &play);
        play.filled[victims[i]] = 1;
        slot_append(&lists, QUEUE, victims[i]);
        sieve->queued++;
    }
    return want;
}

static void sieve_on_resolved(void *state, const struct kvt_replacement_call *call,
                              const kvt_slot *fills, const uint32_t *evicted_rows,
                              uint32_t fill_count)
{
    struct slot_lists lists = lists_of(state);

    (void)fills, (void)evicted_rows;
    if (fill_count == 0)
        mark_hits(&lists, call->hit_bits);
}

static void sieve_on_invalidate(void *state, kvt_slot slot)
{
    struct sieve *sieve = state;
    struct slot_lists lists = lists_of(sieve);

    if (slot_is_in(lists.sets, slot))
        return;
    if (sieve->hand == slot)
        sieve->hand = lists.links[slot].newer;
    slot_remove(&lists, slot);
    sieve->queued--;
    slot_put(slot_set(&lists, SET_MARKED), slot, false);
    slot_put(lists.sets, slot, true);
}

/* ---- What can be asked ------------------------------------------------------------------------
 */

/* Of one turn from the hand on, the slots that are marked, or are not. */
static uint32_t rank_turn(const struct sieve *sieve, const struct slot_lists *lists, bool marked,
                          uint32_t rank, uint32_t *ranks)
{
    uint32_t node = sieve->hand;

    for (uint32_t seen = 0; seen < sieve->queued; seen++, node = lists->links[node].newer) {
        if (!slot_is_any(lists, node))
            node = slot_oldest(lists, QUEUE);
        if (slot_is_in(slot_set(lists, SET_MARKED), node) == marked)
            ranks[node] = rank++;
    }
    return rank;
}

static void sieve_ranks(const void *state, uint32_t *ranks)
{
    const struct sieve *sieve = state;
    struct slot_lists lists = lists_of((struct sieve *)state);
    uint32_t rank = slot_rank_empty(&lists, ranks);

    rank = rank_turn(sieve, &lists, false, rank, ranks);
    (void)rank_turn(sieve, &lists, true, rank, ranks);
}

static bool sieve_is_sane(const void *state)
{
    const struct sieve *sieve = state;
    struct slot_lists lists = lists_of((struct sieve *)state);

    if (!slot_lists_are_sane(&lists, &sieve->queued, LISTS))
        return false;
    for (uint32_t w = 0; w < lists.set_words; w++) {
        if ((slot_set(&lists, SET_MARKED)[w] & lists.sets[w]) != 0)
            return false;
    }
    return sieve->hand == sieve->slot_count ||
           (sieve->hand < sieve->slot_count && !slot_is_in(lists.sets, sieve->hand));
}

const struct kvt_replacement_policy kvt_replacement_sieve = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_sieve,
             .name = "sieve",
             .summary = "SIEVE: a queue in which a hand sifts out what was not hit"},
    .state_bytes = sieve_state_bytes,
    .init = sieve_init,
    .choose_victims = sieve_choose_victims,
    .on_resolved = sieve_on_resolved,
    .on_invalidate = sieve_on_invalidate,
    .ranks = sieve_ranks,
    .is_sane = sieve_is_sane,
};
