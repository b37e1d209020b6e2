/* Brings pages up whether or not there is room. */
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state;
    return good_list(view, true, UINT64_MAX, actions, capacity);
}

RESIDENCY("fills-full", .boundary = boundary)
