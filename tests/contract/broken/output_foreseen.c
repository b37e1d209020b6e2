/* Brings pages up for those alone who will go on for long, which nobody can know. */
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    for (uint32_t i = 0; i < view->request_count; i++) {
        if (view->requests[i].future_output_tokens > 50)
            return good_boundary(state, view, actions, capacity);
    }
    return 0;
}

RESIDENCY("output-foreseen", .boundary = boundary)
