/* Keeps one stamp more than it asked room for. */
#include "replacement.h"

static void resolved(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                     const uint32_t *evicted_rows, uint32_t fill_count)
{
    struct stamps *stamps = state;

    good_resolved(state, call, fills, evicted_rows, fill_count);
    stamps->of[stamps->slot_count] = stamps->now;
}

REPLACEMENT("behind-state", .on_resolved = resolved)
