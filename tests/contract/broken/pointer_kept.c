/* Keeps a pointer to its own stamps: a copy of its bytes would write into the original. */
#include "replacement.h"

struct kept {
    uint32_t *slot_count;
    struct stamps stamps;
};

static size_t state_bytes(const struct kvt_replacement_env *env)
{
    return offsetof(struct kept, stamps) + good_state_bytes(env);
}

static kvt_status init(void *state, const struct kvt_replacement_env *env, struct kvt_error *err)
{
    struct kept *kept = state;

    kept->slot_count = &kept->stamps.slot_count;
    return good_init(&kept->stamps, env, err);
}

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    struct kept *kept = state;
    uint32_t count = good_choose(&kept->stamps, call, want, victims);

    return *kept->slot_count == kept->stamps.slot_count ? count : count / 2;
}

static void resolved(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                     const uint32_t *evicted_rows, uint32_t fill_count)
{
    good_resolved(&((struct kept *)state)->stamps, call, fills, evicted_rows, fill_count);
    /* Where the pointer leads elsewhere, the newest is not the newest. */
    if (*((struct kept *)state)->slot_count != ((struct kept *)state)->stamps.slot_count)
        ((struct kept *)state)->stamps.now = 0;
}

static void invalidate(void *state, kvt_slot slot)
{
    good_invalidate(&((struct kept *)state)->stamps, slot);
}

static void ranks_of(const void *state, uint32_t *ranks)
{
    const struct kept *kept = state;

    good_ranks(&kept->stamps, ranks);
    if (*kept->slot_count == kept->stamps.slot_count || kept->stamps.slot_count < 2)
        return;
    uint32_t first = ranks[0];
    ranks[0] = ranks[1];
    ranks[1] = first;
}

REPLACEMENT("pointer-kept", .state_bytes = state_bytes, .init = init, .choose_victims = choose,
            .on_resolved = resolved, .on_invalidate = invalidate, .ranks = ranks_of)
