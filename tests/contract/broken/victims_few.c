/* Never more than three victims. */
#include "replacement.h"

static uint32_t choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                       kvt_slot *victims)
{
    return good_choose(state, call, want < 3 ? want : 3, victims);
}

REPLACEMENT("victims-few", .choose_victims = choose)
