/* Gives up the slots of rows that the call reads, as soon as there are any. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    uint32_t count = good_choose(state, call, want, victims);

    for (kvt_slot slot = 0; slot < ((const struct stamps *)state)->slot_count; slot++) {
        if (is_hit(call, slot))
            victims[count - 1] = slot;
    }
    return count;
}

REPLACEMENT("victim-read", .choose_victims = choose)
