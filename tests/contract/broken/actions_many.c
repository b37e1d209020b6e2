/* Says that it wrote what there was no room for. */
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    uint32_t count = good_boundary(state, view, actions, capacity);
    return count == capacity ? count + 1 : count;
}

RESIDENCY("actions-many", .boundary = boundary)
