/* bucketed_lru.c -- LRU by coarse age: what needs no order of slots, and no sort.
 *
 *     age:    calls since one read the slot, cut to whole buckets of bucket_calls; the last bucket
 *             holds all that is older
 *     hit:    age 0
 *     miss:   fill the lowest empty slot; if there is none, the lowest slot of the oldest bucket
 *             that the call does not read; it has age 0
 *
 * A call that looks nothing up makes nobody older. Each victim is found by counting: one pass for
 * how many slots are in each bucket, one for who they are, as blocks of threads would. With one
 * call a bucket and as many buckets as rows get old it is batch LRU but for the order of slots that
 * the same call read; with few buckets those that were not read lately are alike, and the lowest
 * goes. A promoted row takes a slot that the call has read, whose age is 0 already.
 *
 * Source: the replacement of buffered pages in SPIN, "Unifying Sparse Attention with Hierarchical
 * Memory" (arXiv 2604.26837). How many buckets there are, and how long they last, it does not say
 * in what could be read: both are assumed here. */
#include <string.h>

#include "kvt/policy.h"

enum {
    BUCKETS_MAX = 256,
    GROUPS_MAX = BUCKETS_MAX + 1, /* empty slots, then buckets, the oldest first */
    NO_STAMP = 0
};

enum {
    PARAM_BUCKETS,
    PARAM_BUCKET_CALLS,
    PARAM_COUNT
};

static const struct kvt_param_spec bucketed_params[PARAM_COUNT] = {
    [PARAM_BUCKETS] = {.name = "buckets",
                       .help = "Ages that are told apart; assumed.",
                       .type = KVT_PARAM_COUNT,
                       .minimum = 2,
                       .maximum = BUCKETS_MAX,
                       .default_number = 16},
    [PARAM_BUCKET_CALLS] = {.name = "bucket_calls",
                            .help = "Calls that one age lasts; assumed.",
                            .type = KVT_PARAM_COUNT,
                            .minimum = 1,
                            .maximum = 1 << 20,
                            .default_number = 16},
};

struct bucketed {
    uint32_t slot_count;
    uint32_t buckets, bucket_calls;
    uint32_t now;      /* calls that looked rows up */
    uint32_t stamps[]; /* [slot_count] the call that read it last; NO_STAMP: it is empty */
};

static size_t bucketed_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct bucketed) + (size_t)env->slot_count * sizeof(uint32_t);
}

static kvt_status bucketed_init(void *state, const struct kvt_replacement_env *env,
                                struct kvt_error *err)
{
    struct bucketed *bucketed = state;

    (void)err;
    bucketed->slot_count = env->slot_count;
    bucketed->buckets = (uint32_t)env->params.values[PARAM_BUCKETS].number;
    bucketed->bucket_calls = (uint32_t)env->params.values[PARAM_BUCKET_CALLS].number;
    return KVT_OK;
}

/* ---- Groups, the first to go first --------------------------------------------------------- */

static uint32_t group_of(const struct bucketed *bucketed, kvt_slot slot)
{
    uint32_t stamp = bucketed->stamps[slot], oldest = bucketed->buckets - 1;

    if (stamp == NO_STAMP)
        return 0;
    uint32_t bucket = (bucketed->now - stamp) / bucketed->bucket_calls;
    return 1 + oldest - (bucket < oldest ? bucket : oldest);
}

static bool is_hit(const uint64_t *hit_bits, kvt_slot slot)
{
    return hit_bits != NULL && (hit_bits[slot / 64] >> slot % 64 & 1) != 0;
}

/* Where each group's first slot stands; hit_bits NULL: nothing hit. */
static void find_places(const struct bucketed *bucketed, const uint64_t *hit_bits,
                        uint32_t places[GROUPS_MAX])
{
    uint32_t first = 0;

    memset(places, 0, GROUPS_MAX * sizeof *places);
    for (kvt_slot slot = 0; slot < bucketed->slot_count; slot++)
        places[group_of(bucketed, slot)] += !is_hit(hit_bits, slot);
    for (uint32_t group = 0; group <= bucketed->buckets; group++) {
        uint32_t count = places[group];
        places[group] = first;
        first += count;
    }
}

static uint32_t bucketed_choose_victims(void *state, const struct kvt_replacement_call *call,
                                        uint32_t want, kvt_slot *victims)
{
    const struct bucketed *bucketed = state;
    uint32_t places[GROUPS_MAX], chosen = 0;

    find_places(bucketed, call->hit_bits, places);
    for (kvt_slot slot = 0; slot < bucketed->slot_count && chosen < want; slot++) {
        if (is_hit(call->hit_bits, slot))
            continue;
        uint32_t place = places[group_of(bucketed, slot)]++;
        if (place >= want)
            continue;
        victims[place] = slot;
        chosen++;
    }
    return chosen;
}

static void bucketed_on_resolved(void *state, const struct kvt_replacement_call *call,
                                 const kvt_slot *fills, const uint32_t *evicted_rows,
                                 uint32_t fill_count)
{
    struct bucketed *bucketed = state;

    (void)evicted_rows;
    bucketed->now++;
    for (uint32_t w = 0; w < (bucketed->slot_count + 63) / 64; w++) {
        for (uint64_t bits = call->hit_bits[w]; bits != 0; bits &= bits - 1)
            bucketed->stamps[64 * w + (uint32_t)__builtin_ctzll(bits)] = bucketed->now;
    }
    for (uint32_t i = 0; i < fill_count; i++)
        bucketed->stamps[fills[i]] = bucketed->now;
}

static void bucketed_on_invalidate(void *state, kvt_slot slot)
{
    struct bucketed *bucketed = state;

    bucketed->stamps[slot] = NO_STAMP;
}

static void bucketed_ranks(const void *state, uint32_t *ranks)
{
    const struct bucketed *bucketed = state;
    uint32_t places[GROUPS_MAX];

    find_places(bucketed, NULL, places);
    for (kvt_slot slot = 0; slot < bucketed->slot_count; slot++)
        ranks[slot] = places[group_of(bucketed, slot)]++;
}

static bool bucketed_is_sane(const void *state)
{
    const struct bucketed *bucketed = state;

    for (kvt_slot slot = 0; slot < bucketed->slot_count; slot++) {
        if (bucketed->stamps[slot] > bucketed->now)
            return false;
    }
    return bucketed->slot_count > 0 && bucketed->buckets >= 2 && bucketed->bucket_calls >= 1;
}

const struct kvt_replacement_policy kvt_replacement_bucketed_lru = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_bucketed_lru,
             .name = "bucketed-lru",
             .summary = "LRU by coarse age, the lowest slot among equals (SPIN)",
             .params = bucketed_params,
             .param_count = PARAM_COUNT},
    .state_bytes = bucketed_state_bytes,
    .init = bucketed_init,
    .choose_victims = bucketed_choose_victims,
    .on_resolved = bucketed_on_resolved,
    .on_invalidate = bucketed_on_invalidate,
    .ranks = bucketed_ranks,
    .is_sane = bucketed_is_sane,
};
