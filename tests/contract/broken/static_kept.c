/* Counts calls outside its state: caches would decide for each other. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    static uint32_t calls;
    uint32_t count = good_choose(state, call, want, victims);

    if (calls++ % 2 == 1 && count > 1 && call->slot_rows[victims[count - 2]] != KVT_ROW_NONE) {
        kvt_slot last = victims[count - 1];
        victims[count - 1] = victims[count - 2];
        victims[count - 2] = last;
    }
    return count;
}

REPLACEMENT("static-kept", .choose_victims = choose)
