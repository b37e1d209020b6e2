/* The second victim is the first once more. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    uint32_t count = good_choose(state, call, want, victims);

    if (count > 1)
        victims[1] = victims[0];
    return count;
}

REPLACEMENT("victim-twice", .choose_victims = choose)
