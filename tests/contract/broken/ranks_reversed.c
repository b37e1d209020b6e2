/* Rank 0 is the slot that goes last. */
#include "replacement.h"

static void ranks_of(const void *state, uint32_t *ranks)
{
    const struct stamps *stamps = state;

    good_ranks(state, ranks);
    for (kvt_slot slot = 0; slot < stamps->slot_count; slot++)
        ranks[slot] = stamps->slot_count - 1 - ranks[slot];
}

REPLACEMENT("ranks-reversed", .ranks = ranks_of)
