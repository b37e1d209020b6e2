/* replacement.h -- a replacement policy that keeps its contract, for others to break in one place.
 *
 * LRU by a stamp a slot: the lowest stamp goes first, an empty slot has none. */
#ifndef KVT_TESTS_BROKEN_REPLACEMENT_H
#define KVT_TESTS_BROKEN_REPLACEMENT_H

#include <string.h>

#include "kvt/policy.h"

struct stamps {
    uint32_t slot_count, now;
    uint32_t of[]; /* [slot_count]; 0: empty */
};

static inline bool is_hit(const struct kvt_replacement_call *call, kvt_slot slot)
{
    return call->hit_bits[slot / 64] >> slot % 64 & 1;
}

static inline size_t good_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct stamps) + env->slot_count * sizeof(uint32_t);
}

static inline kvt_status good_init(void *state, const struct kvt_replacement_env *env,
                                   struct kvt_error *err)
{
    struct stamps *stamps = state;

    (void)err;
    stamps->slot_count = env->slot_count;
    return KVT_OK;
}

static inline void good_ranks(const void *state, uint32_t *ranks)
{
    const struct stamps *stamps = state;

    for (kvt_slot slot = 0; slot < stamps->slot_count; slot++) {
        ranks[slot] = 0;
        for (kvt_slot other = 0; other < stamps->slot_count; other++)
            ranks[slot] += stamps->of[other] < stamps->of[slot] ||
                           (other < slot && stamps->of[other] == stamps->of[slot]);
    }
}

static inline uint32_t good_choose(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims)
{
    const struct stamps *stamps = state;
    uint32_t ranks[4096], count = 0;

    good_ranks(state, ranks);
    for (uint32_t rank = 0; rank < stamps->slot_count && count < want; rank++) {
        for (kvt_slot slot = 0; slot < stamps->slot_count && count < want; slot++) {
            if (ranks[slot] == rank && !is_hit(call, slot))
                victims[count++] = slot;
        }
    }
    return count;
}

static inline void good_resolved(void *state, const struct kvt_replacement_call *call,
                                 const kvt_slot *fills, const uint32_t *evicted_rows,
                                 uint32_t fill_count)
{
    struct stamps *stamps = state;

    (void)evicted_rows;
    for (kvt_slot slot = 0; slot < stamps->slot_count; slot++) {
        if (is_hit(call, slot))
            stamps->of[slot] = ++stamps->now;
    }
    for (uint32_t i = 0; i < fill_count; i++)
        stamps->of[fills[i]] = ++stamps->now;
}

static inline void good_invalidate(void *state, kvt_slot slot)
{
    ((struct stamps *)state)->of[slot] = 0;
}

/* The table of the name, with some members other than these. */
#define REPLACEMENT(table_name, ...)                                                               \
    _Pragma(                                                                                       \
        "GCC diagnostic ignored \"-Woverride-init\"") static const struct kvt_replacement_policy   \
        policy = {.info = {.abi = KVT_ABI_VERSION,                                                 \
                           .struct_bytes = sizeof policy,                                          \
                           .name = (table_name),                                                   \
                           .summary = "breaks a contract"},                                        \
                  .state_bytes = good_state_bytes,                                                 \
                  .init = good_init,                                                               \
                  .choose_victims = good_choose,                                                   \
                  .on_resolved = good_resolved,                                                    \
                  .on_invalidate = good_invalidate,                                                \
                  .ranks = good_ranks,                                                             \
                  __VA_ARGS__};                                                                    \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_REPLACEMENT, &policy.info}};      \
    KVT_PLUGIN_OBJECT(tables)

#endif
