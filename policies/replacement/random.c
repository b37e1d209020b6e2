/* random.c -- any row goes.
 *
 *     hit:  nothing
 *     miss: fill the lowest empty slot; if there is none, a slot drawn from those that the call
 * does not read, each as likely as any other
 *
 * The floor for what looking at hits is worth, and as good as any in a loop that is larger than the
 * cache. Draws of a call are a shuffle of the slots that are left, so that they cost as much
 * however few those are. Each cache draws from its own stream, whose counter is part of the state:
 * a copy draws the same. A promoted row takes over the slot. Source: L. A. Belady, "A study of
 * replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966 (RAND). */
#include "slot_lists.h"

enum {
    SETS = 1,
    LISTS = 0
};
/* Ranks are turned round in place, where the highest bit says that one is done. */
#define DONE (UINT32_C(1) << 31)

struct shuffler {
    struct kvt_rng rng;
    uint32_t slot_count;
    uint32_t unused; /* words lie on 8 bytes */
    uint64_t words[];
};

static struct slot_lists lists_of(struct shuffler *shuffler)
{
    return slot_lists_at(shuffler->words, shuffler->slot_count, SETS);
}

static size_t random_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct shuffler) +
           slot_lists_words(env->slot_count, SETS, LISTS) * sizeof(uint64_t);
}

static kvt_status random_init(void *state, const struct kvt_replacement_env *env,
                              struct kvt_error *err)
{
    struct shuffler *shuffler = state;

    if (env->slot_count >= DONE)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "replacement \"random\"",
                        "a hot cache of %u slots is too large; fewer than %u are possible",
                        env->slot_count, DONE);
    shuffler->rng = env->host->rng_stream(env->run_seed, KVT_RNG_POLICY, env->entity);
    shuffler->slot_count = env->slot_count;
    struct slot_lists lists = lists_of(shuffler);
    slot_lists_init(&lists, LISTS);
    return KVT_OK;
}

/* ---- A call ------------------------------------------------------------------------------------
 */

/* The occupied slots that did not hit, ascending; hit_bits NULL: nothing did. */
static uint32_t list_candidates(const struct slot_lists *lists, const uint64_t *hit_bits,
                                kvt_slot *slots)
{
    uint32_t count = 0;

    for (uint32_t w = 0; w < lists->set_words; w++) {
        uint32_t left = lists->slot_count - 64 * w;
        uint64_t bits = ~lists->sets[w] & (left < 64 ? ~(UINT64_MAX << left) : UINT64_MAX);
        if (hit_bits != NULL)
            bits &= ~hit_bits[w];
        for (; bits != 0; bits &= bits - 1)
            slots[count++] = 64 * w + (uint32_t)__builtin_ctzll(bits);
    }
    return count;
}

/* The first `want` of the slots become a draw without repeats. */
static void shuffle(struct kvt_rng *rng, kvt_slot *slots, uint32_t count, uint32_t want)
{
    for (uint32_t i = 0; i < want; i++) {
        uint32_t at = i + (uint32_t)kvt_rng_below(rng, count - i);
        kvt_slot drawn = slots[at];
        slots[at] = slots[i];
        slots[i] = drawn;
    }
}

static uint32_t random_choose_victims(void *state, const struct kvt_replacement_call *call,
                                      uint32_t want, kvt_slot *victims)
{
    struct shuffler *shuffler = state;
    struct slot_lists lists = lists_of(shuffler);
    struct slot_play play = {.call = call};
    uint32_t count = list_candidates(&lists, call->hit_bits, call->scratch), chosen = 0;

    while (chosen < want && (victims[chosen] = slot_take_empty(&lists, &play)) != KVT_SLOT_NONE)
        chosen++;
    shuffle(&shuffler->rng, call->scratch, count, want - chosen);
    for (uint32_t i = 0; chosen < want; i++)
        victims[chosen++] = call->scratch[i];
    return want;
}

static void random_on_resolved(void *state, const struct kvt_replacement_call *call,
                               const kvt_slot *fills, const uint32_t *evicted_rows,
                               uint32_t fill_count)
{
    (void)state, (void)call, (void)fills, (void)evicted_rows, (void)fill_count;
}

static void random_on_invalidate(void *state, kvt_slot slot)
{
    struct slot_lists lists = lists_of(state);

    slot_put(lists.sets, slot, true);
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

/* Lays each slot's place where its number is, cycle by cycle. */
static void invert(uint32_t *slots, uint32_t count)
{
    for (uint32_t first = 0; first < count; first++) {
        uint32_t at = first, slot = slots[first];
        while ((slot & DONE) == 0) {
            uint32_t next = slots[slot];
            slots[slot] = at | DONE;
            at = slot;
            slot = next;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        slots[i] &= ~DONE;
}

/* As a call without hits that wants every slot would draw them. */
static void random_ranks(const void *state, uint32_t *ranks)
{
    const struct shuffler *shuffler = state;
    struct slot_lists lists = lists_of((struct shuffler *)state);
    struct kvt_rng rng = shuffler->rng;
    uint32_t empty = 0;

    for (uint32_t w = 0; w < lists.set_words; w++) {
        for (uint64_t left = lists.sets[w]; left != 0; left &= left - 1)
            ranks[empty++] = 64 * w + (uint32_t)__builtin_ctzll(left);
    }
    uint32_t count = list_candidates(&lists, NULL, ranks + empty);
    shuffle(&rng, ranks + empty, count, count);
    invert(ranks, shuffler->slot_count);
}

static bool random_is_sane(const void *state)
{
    const struct shuffler *shuffler = state;
    struct slot_lists lists = lists_of((struct shuffler *)state);
    uint32_t last = lists.slot_count % 64;

    return shuffler->slot_count > 0 && (last == 0 || lists.sets[lists.set_words - 1] >> last == 0);
}

const struct kvt_replacement_policy kvt_replacement_random = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_random,
             .name = "random",
             .summary = "any row goes, each as likely as any other"},
    .state_bytes = random_state_bytes,
    .init = random_init,
    .choose_victims = random_choose_victims,
    .on_resolved = random_on_resolved,
    .on_invalidate = random_on_invalidate,
    .ranks = random_ranks,
    .is_sane = random_is_sane,
};
