/* Looks at page hits, and does not say so in its table. */
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    if (view->request_count > 0 && view->requests[0].page_hits[0] == UINT16_MAX)
        return 0;
    return good_boundary(state, view, actions, capacity);
}

RESIDENCY("page-hits-read", .boundary = boundary)
