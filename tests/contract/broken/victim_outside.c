/* The last victim is one past the last slot. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    uint32_t count = good_choose(state, call, want, victims);

    victims[count - 1] = ((const struct stamps *)state)->slot_count;
    return count;
}

REPLACEMENT("victim-outside", .choose_victims = choose)
