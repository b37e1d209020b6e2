/* Belady without the parameter: what is used last goes first. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    uint32_t count = good_choose(state, call, want, victims);

    for (uint32_t i = 1; i < count; i++) {
        bool occupied = call->slot_rows[victims[i - 1]] != KVT_ROW_NONE;
        if (occupied && call->next_use[victims[i]] > call->next_use[victims[i - 1]]) {
            kvt_slot later = victims[i];
            victims[i] = victims[i - 1];
            victims[i - 1] = later;
        }
    }
    return count;
}

REPLACEMENT("future-read", .choose_victims = choose)
