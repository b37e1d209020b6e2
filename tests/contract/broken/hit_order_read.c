/* Takes hits one by one, and does not say so in its table. */
#include "replacement.h"

static void resolved(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                     const uint32_t *evicted_rows, uint32_t fill_count)
{
    struct stamps *stamps = state;

    stamps->of[call->hit_slots[0]] = ++stamps->now;
    good_resolved(state, call, fills, evicted_rows, fill_count);
}

REPLACEMENT("hit-order-read", .on_resolved = resolved)
