/* sharded_lru.c -- batch LRU in shards, each of which a part of a GPU can keep alone.
 *
 *     shards: as many as there are whole times `ways` in the slots, at least 1; the slots are
 * shared out among them evenly, the first ones having one more where that does not come out a row's
 * shard: a hash of it, or the row itself, modulo the shards a call: for each miss, in order: its
 * shard, or, where the call reads all of that one's ways, the next shard that has another, from the
 * last on to the first: if it has fewer slots than are its share: the lowest empty slot, which is
 * then its else: the oldest of its slots that the call does not read then in each shard, as in
 * batch LRU (lru.c): order = [not used, in their old order] [filled, in the order of the misses]
 * [hit, in their old order]
 *
 * Which slot of the cache a shard's way is makes no difference to anybody, so that a way takes the
 * lowest empty slot the first time that it is needed. While another shard still has empty ways a
 * full one gives up rows: the table says so (is_partitioned). With one shard this is batch LRU. A
 * promoted row takes over slot and place, whatever its own shard is; it is found there, as every
 * row is, since look-up is by row. What a kernel does whose shard is read as a whole is not known;
 * passing the surplus on is this policy's rule. Source: SGLang pull request 31341, "Optimize
 * small-batch perf with multi-CTA cache sharding": 256 shards of 32 ways for 8,192 slots. */
#include <assert.h>
#include <string.h>

#include "kvt/hash.h"
#include "slot_lists.h"

enum {
    SETS = 1,
    PARAM_WAYS = 0,
    PARAM_HASH,
    PARAMS,
    HASH_MIX = 0,
    HASH_MODULO
};

static const struct kvt_param_spec sharded_params[] = {
    [PARAM_WAYS] = {.name = "ways",
                    .help = "Slots of a shard; as many as there are or more: one shard.",
                    .type = KVT_PARAM_COUNT,
                    .minimum = 1,
                    .maximum = 1048576,
                    .default_number = 32},
    [PARAM_HASH] = {.name = "hash",
                    .help = "A row's shard: its bits mixed, or the row itself, modulo the shards.",
                    .type = KVT_PARAM_CHOICE,
                    .default_text = "mix",
                    .choices = "mix|modulo"},
};

struct shard {
    uint32_t listed; /* of its slots in the order */
    uint32_t held;   /* slots that are its own; in a call some are not listed yet */
    uint32_t taken;  /* by this call, of those listed: the oldest that did not hit */
};

struct sharded {
    uint32_t slot_count, shard_count, hash;
    uint32_t unused;  /* words lie on 8 bytes */
    uint64_t words[]; /* the empty slots, then order[slot_count], shard_of[slot_count], shards */
};

struct view {
    struct sharded *sharded;
    struct slot_lists lists;
    uint32_t *order;    /* [slot_count] each shard's slots from its first place on, oldest first */
    uint32_t *shard_of; /* [slot_count] of occupied slots */
    struct shard *shards;
};

static struct view view_of(struct sharded *sharded)
{
    struct view view = {.sharded = sharded,
                        .lists = slot_lists_at(sharded->words, sharded->slot_count, SETS)};

    view.order = (uint32_t *)(sharded->words + slot_lists_words(sharded->slot_count, SETS, 0));
    view.shard_of = view.order + sharded->slot_count;
    view.shards = (struct shard *)(view.shard_of + sharded->slot_count);
    return view;
}

static uint32_t shard_count_of(const struct kvt_replacement_env *env)
{
    uint32_t ways = (uint32_t)env->params.values[PARAM_WAYS].number;

    return env->slot_count > ways ? env->slot_count / ways : 1;
}

static size_t sharded_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct sharded) + slot_lists_words(env->slot_count, SETS, 0) * sizeof(uint64_t) +
           (size_t)env->slot_count * 2 * sizeof(uint32_t) +
           (size_t)shard_count_of(env) * sizeof(struct shard);
}

static kvt_status sharded_init(void *state, const struct kvt_replacement_env *env,
                               struct kvt_error *err)
{
    struct sharded *sharded = state;

    (void)err;
    sharded->slot_count = env->slot_count;
    sharded->shard_count = shard_count_of(env);
    sharded->hash = (uint32_t)env->params.values[PARAM_HASH].number;
    struct view view = view_of(sharded);
    slot_lists_init(&view.lists, 0);
    return KVT_OK;
}

/* ---- Shards -------------------------------------------------------------------------------------
 */

static uint32_t ways_of(const struct sharded *sharded, uint32_t shard)
{
    return sharded->slot_count / sharded->shard_count +
           (shard < sharded->slot_count % sharded->shard_count);
}

static uint32_t first_place(const struct sharded *sharded, uint32_t shard)
{
    assert(sharded->shard_count > 0);
    uint32_t longer = sharded->slot_count % sharded->shard_count;

    return shard * (sharded->slot_count / sharded->shard_count) + (shard < longer ? shard : longer);
}

static uint32_t shard_of_row(const struct sharded *sharded, uint32_t row)
{
    uint64_t hashed = sharded->hash == HASH_MIX ? kvt_mix64(row) : row;

    return (uint32_t)(hashed % sharded->shard_count);
}

/* ---- A call -------------------------------------------------------------------------------------
 */

/* next[shard]: places of its order before it are read or taken. KVT_SLOT_NONE: all are. */
static kvt_slot take_from(const struct view *view, struct slot_play *play, uint32_t *next,
                          uint32_t shard)
{
    struct shard *its = &view->shards[shard];
    const uint32_t *order = view->order + first_place(view->sharded, shard);

    if (its->held < ways_of(view->sharded, shard)) {
        kvt_slot slot = slot_take_empty(&view->lists, play);
        its->held++;
        view->shard_of[slot] = shard;
        return slot;
    }
    while (next[shard] < its->listed) {
        kvt_slot slot = order[next[shard]++];
        if (!slot_is_in(play->call->hit_bits, slot)) {
            its->taken++;
            return slot;
        }
    }
    return KVT_SLOT_NONE;
}

static uint32_t sharded_choose_victims(void *state, const struct kvt_replacement_call *call,
                                       uint32_t want, kvt_slot *victims)
{
    struct view view = view_of(state);
    struct slot_play play = {.call = call};
    const uint32_t shard_count = view.sharded->shard_count;
    uint32_t *next = call->scratch;

    memset(next, 0, shard_count * sizeof *next);
    for (uint32_t i = 0; i < want; i++) {
        uint32_t shard = shard_of_row(view.sharded, call->missed_rows[i]);
        while ((victims[i] = take_from(&view, &play, next, shard)) == KVT_SLOT_NONE)
            shard = shard + 1 < shard_count ? shard + 1 : 0;
    }
    return want;
}

/* Slots that were neither hit nor taken move up to the old end; hits go to `hits`. */
static uint32_t split(const struct view *view, uint32_t shard, const uint64_t *hit_bits,
                      uint32_t *hits)
{
    struct shard *its = &view->shards[shard];
    uint32_t *order = view->order + first_place(view->sharded, shard);
    uint32_t kept = 0, hit_count = 0, taken = its->taken;

    for (uint32_t at = 0; at < its->listed; at++) {
        uint32_t slot = order[at];
        bool hit = slot_is_in(hit_bits, slot), drops = !hit && taken > 0;
        hits[hit_count] = slot;
        order[kept] = slot;
        hit_count += hit;
        kept += !hit && !drops;
        taken -= drops;
    }
    its->listed = kept;
    its->taken = 0;
    return hit_count;
}

static void sharded_on_resolved(void *state, const struct kvt_replacement_call *call,
                                const kvt_slot *fills, const uint32_t *evicted_rows,
                                uint32_t fill_count)
{
    struct view view = view_of(state);
    uint32_t *hits = call->scratch;

    (void)evicted_rows;
    for (uint32_t shard = 0; shard < view.sharded->shard_count; shard++)
        hits += split(&view, shard, call->hit_bits, hits);
    for (uint32_t i = 0; i < fill_count; i++) {
        uint32_t shard = view.shard_of[fills[i]];
        view.order[first_place(view.sharded, shard) + view.shards[shard].listed++] = fills[i];
    }
    hits = call->scratch;
    for (uint32_t shard = 0; shard < view.sharded->shard_count; shard++) {
        struct shard *its = &view.shards[shard];
        uint32_t hit_count = its->held - its->listed;
        memcpy(view.order + first_place(view.sharded, shard) + its->listed, hits,
               hit_count * sizeof *hits);
        hits += hit_count;
        its->listed = its->held;
    }
}

static void sharded_on_invalidate(void *state, kvt_slot slot)
{
    struct view view = view_of(state);

    if (slot_is_in(view.lists.sets, slot))
        return;
    struct shard *its = &view.shards[view.shard_of[slot]];
    uint32_t *order = view.order + first_place(view.sharded, view.shard_of[slot]);
    uint32_t kept = 0;
    for (uint32_t at = 0; at < its->listed; at++) {
        order[kept] = order[at];
        kept += order[at] != slot;
    }
    its->listed = its->held = kept;
    slot_put(view.lists.sets, slot, true);
}

/* ---- What can be asked --------------------------------------------------------------------------
 */

/* The empty slots, then the oldest of each shard, the next oldest of each, and so on. */
static void sharded_ranks(const void *state, uint32_t *ranks)
{
    struct view view = view_of((struct sharded *)state);
    const struct sharded *sharded = view.sharded;
    uint32_t rank = slot_rank_empty(&view.lists, ranks);

    for (uint32_t place = 0; place < ways_of(sharded, 0); place++) {
        for (uint32_t shard = 0; shard < sharded->shard_count; shard++) {
            if (place < view.shards[shard].listed)
                ranks[view.order[first_place(sharded, shard) + place]] = rank++;
        }
    }
}

/* Every occupied slot is in the order of its own shard, once. */
static bool sharded_is_sane(const void *state)
{
    struct view view = view_of((struct sharded *)state);
    const struct sharded *sharded = view.sharded;
    uint64_t slots = 0;

    if (sharded->shard_count == 0 || sharded->shard_count > sharded->slot_count)
        return false;
    for (uint32_t w = 0; w < view.lists.set_words; w++)
        slots += (uint64_t)__builtin_popcountll(view.lists.sets[w]);
    for (uint32_t shard = 0; shard < sharded->shard_count; shard++) {
        const struct shard *its = &view.shards[shard];
        const uint32_t *order = view.order + first_place(sharded, shard);
        if (its->listed != its->held || its->taken != 0 || its->held > ways_of(sharded, shard))
            return false;
        for (uint32_t at = 0; at < its->listed; at++) {
            if (order[at] >= sharded->slot_count || view.shard_of[order[at]] != shard ||
                slot_is_in(view.lists.sets, order[at]))
                return false;
            for (uint32_t before = 0; before < at; before++) {
                if (order[before] == order[at])
                    return false;
            }
        }
        slots += its->listed;
    }
    return slots == sharded->slot_count;
}

const struct kvt_replacement_policy kvt_replacement_sharded_lru = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_sharded_lru,
             .name = "sharded-lru",
             .summary = "batch LRU in shards: a row has its shard, by hash",
             .params = sharded_params,
             .param_count = PARAMS},
    .state_bytes = sharded_state_bytes,
    .init = sharded_init,
    .choose_victims = sharded_choose_victims,
    .on_resolved = sharded_on_resolved,
    .on_invalidate = sharded_on_invalidate,
    .ranks = sharded_ranks,
    .is_sane = sharded_is_sane,
    .is_partitioned = true,
};
