/* clock.c -- CLOCK, or second chance: LRU by one bit a slot.
 *
 *     hit:  mark the slot
 *     miss: fill the lowest empty slot; the hand stays. If there is none, turn the hand:
 *               a slot that the call reads is passed by
 *               a marked slot loses its mark and is passed by
 *               an unmarked slot is filled, without a mark; the hand stands behind it
 *
 * Hits come before misses, as the call knows them first. The hand takes the unmarked slots
 * of one turn, and in a second turn those that lost their mark in the first: whatever it
 * filled by then, the call reads. So the victims of a call are
 *
 *     [empty, lowest first] [unmarked, from the hand on] [marked, from the hand on]
 *
 * without those that hit, and ranks are what this is when nothing hits and everything is
 * wanted. A promoted row takes over the slot and its mark: the call reads both of its rows.
 *
 * Sources: F. J. Corbato, "A paging experiment with the Multics system", MIT Project MAC,
 * 1968; a row comes in unmarked as in libCacheSim, eviction/Clock.c. */
#include "kvt/policy.h"

/* Bits of 64 slots. No slot is in two of them; bits past the last slot are in none. */
struct clock_word {
    uint64_t empty;
    uint64_t unmarked; /* holds a row that did not hit since it came in or the hand passed it */
    uint64_t marked;
};

struct clock {
    uint32_t slot_count;
    uint32_t hand;             /* the slot at which the next turn begins */
    struct clock_word words[]; /* [(slot_count + 63) / 64] */
};

static uint32_t word_count(const struct clock *clock)
{
    return clock->slot_count / 64 + (clock->slot_count % 64 != 0);
}

static size_t clock_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct clock) + ((size_t)env->slot_count + 63) / 64 * sizeof(struct clock_word);
}

static kvt_status clock_init(void *state, const struct kvt_replacement_env *env,
                             struct kvt_error *err)
{
    struct clock *clock = state;

    (void)err;
    clock->slot_count = env->slot_count;
    for (uint32_t w = 0; w < word_count(clock); w++) {
        uint32_t left = clock->slot_count - 64 * w;
        clock->words[w].empty = left < 64 ? ~(UINT64_MAX << left) : UINT64_MAX;
    }
    return KVT_OK;
}

/* ---- A turn ------------------------------------------------------------------------------ */

/* Slots of the bits, which are those of word w, go behind the victims. */
static uint32_t take(uint64_t bits, uint32_t w, uint32_t want, kvt_slot *victims)
{
    uint32_t taken = 0;

    for (; bits != 0 && taken < want; bits &= bits - 1)
        victims[taken++] = 64 * w + (uint32_t)__builtin_ctzll(bits);
    return taken;
}

static uint64_t candidates(const struct clock_word *word, uint64_t hit, bool marked)
{
    return (marked ? word->marked : word->unmarked) & ~hit;
}

/* Once round from the hand: the word in which it stands comes first from there on, and last up
 * to there. */
static uint32_t turn(const struct clock *clock, const uint64_t *hit_bits, bool marked,
                     uint32_t want, kvt_slot *victims)
{
    const uint32_t words = word_count(clock), first = clock->hand / 64;
    const uint64_t ahead = UINT64_MAX << clock->hand % 64;
    uint32_t taken = take(candidates(&clock->words[first], hit_bits[first], marked) & ahead, first,
                          want, victims);

    for (uint32_t i = 1; i < words && taken < want; i++) {
        uint32_t w = first + i < words ? first + i : first + i - words;
        taken += take(candidates(&clock->words[w], hit_bits[w], marked), w, want - taken,
                      victims + taken);
    }
    return taken + take(candidates(&clock->words[first], hit_bits[first], marked) & ~ahead, first,
                        want - taken, victims + taken);
}

/* Nothing moves yet: which slots are unmarked in a second turn is known before the first. */
static uint32_t clock_choose_victims(void *state, const struct kvt_replacement_call *call,
                                     uint32_t want, kvt_slot *victims)
{
    const struct clock *clock = state;
    uint32_t chosen = 0;

    for (uint32_t w = 0; w < word_count(clock) && chosen < want; w++)
        chosen += take(clock->words[w].empty, w, want - chosen, victims + chosen);
    chosen += turn(clock, call->hit_bits, false, want - chosen, victims + chosen);
    chosen += turn(clock, call->hit_bits, true, want - chosen, victims + chosen);
    return chosen;
}

/* ---- After a call ------------------------------------------------------------------------- */

/* Slots [first, end) lose their marks. */
static void unmark(struct clock *clock, uint32_t first, uint32_t end)
{
    for (uint32_t w = first / 64; w < end / 64 + (end % 64 != 0); w++) {
        struct clock_word *word = &clock->words[w];
        uint64_t passed = w == first / 64 ? UINT64_MAX << first % 64 : UINT64_MAX;
        if (w == end / 64)
            passed &= ~(UINT64_MAX << end % 64);
        word->unmarked |= word->marked & passed;
        word->marked &= ~passed;
    }
}

/* The hand comes from where it was to behind the last victim. That one was marked when the
 * call began if it was found in the second turn. Slots that hit are marked below. */
static void move_hand(struct clock *clock, kvt_slot last)
{
    bool second_turn = clock->words[last / 64].marked >> last % 64 & 1;

    if (second_turn) {
        unmark(clock, 0, clock->slot_count);
    } else if (last >= clock->hand) {
        unmark(clock, clock->hand, last + 1);
    } else {
        unmark(clock, clock->hand, clock->slot_count);
        unmark(clock, 0, last + 1);
    }
    clock->hand = last + 1 < clock->slot_count ? last + 1 : 0;
}

static void clock_on_resolved(void *state, const struct kvt_replacement_call *call,
                              const kvt_slot *fills, const uint32_t *evicted_rows,
                              uint32_t fill_count)
{
    struct clock *clock = state;

    for (uint32_t i = 0; i < fill_count && evicted_rows[i] == KVT_ROW_NONE; i++) {
        struct clock_word *word = &clock->words[fills[i] / 64];
        uint64_t bit = UINT64_C(1) << fills[i] % 64;
        word->empty &= ~bit;
        word->unmarked |= bit;
    }
    if (fill_count > 0 && evicted_rows[fill_count - 1] != KVT_ROW_NONE)
        move_hand(clock, fills[fill_count - 1]);
    for (uint32_t w = 0; w < word_count(clock); w++) {
        clock->words[w].unmarked &= ~call->hit_bits[w];
        clock->words[w].marked |= call->hit_bits[w];
    }
}

static void clock_on_invalidate(void *state, kvt_slot slot)
{
    struct clock *clock = state;
    struct clock_word *word = &clock->words[slot / 64];
    uint64_t bit = UINT64_C(1) << slot % 64;

    word->empty |= bit;
    word->unmarked &= ~bit;
    word->marked &= ~bit;
}

/* ---- What can be asked --------------------------------------------------------------------- */

static void clock_ranks(const void *state, uint32_t *ranks)
{
    const struct clock *clock = state;
    uint32_t next[3] = {0}; /* of empty, unmarked and marked slots */

    for (uint32_t w = 0; w < word_count(clock); w++) {
        next[1] += (uint32_t)__builtin_popcountll(clock->words[w].empty);
        next[2] += (uint32_t)__builtin_popcountll(clock->words[w].unmarked);
    }
    next[2] += next[1];
    for (kvt_slot slot = 0; slot < clock->slot_count; slot++) {
        if (clock->words[slot / 64].empty >> slot % 64 & 1)
            ranks[slot] = next[0]++;
    }
    for (uint32_t i = 0; i < clock->slot_count; i++) {
        uint64_t turned = (uint64_t)clock->hand + i;
        kvt_slot slot = (kvt_slot)(turned % clock->slot_count);
        const struct clock_word *word = &clock->words[slot / 64];
        if ((word->empty >> slot % 64 & 1) == 0)
            ranks[slot] = next[1 + (word->marked >> slot % 64 & 1)]++;
    }
}

/* Every slot is in one set, and nothing else is. */
static bool clock_is_sane(const void *state)
{
    const struct clock *clock = state;

    if (clock->slot_count == 0 || clock->hand >= clock->slot_count)
        return false;
    for (uint32_t w = 0; w < word_count(clock); w++) {
        const struct clock_word *word = &clock->words[w];
        uint32_t left = clock->slot_count - 64 * w;
        uint64_t slots = left < 64 ? ~(UINT64_MAX << left) : UINT64_MAX;
        if ((word->empty ^ word->unmarked ^ word->marked) != slots ||
            (word->empty & word->unmarked & word->marked) != 0)
            return false;
    }
    return true;
}

const struct kvt_replacement_policy kvt_replacement_clock = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_clock,
             .name = "clock",
             .summary = "second chance: LRU by one bit a slot"},
    .state_bytes = clock_state_bytes,
    .init = clock_init,
    .choose_victims = clock_choose_victims,
    .on_resolved = clock_on_resolved,
    .on_invalidate = clock_on_invalidate,
    .ranks = clock_ranks,
    .is_sane = clock_is_sane,
};
