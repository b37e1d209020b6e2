/* Releases the page behind the last that may go. */
#include "residency.h"

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    for (uint32_t i = 0; i < view->request_count && capacity > 0; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        if (request->eligible_pages > 0 && request->eligible_pages < request->page_count) {
            actions[0] = (struct kvt_residency_action){KVT_RESIDENCY_RELEASE, request->id,
                                                       request->eligible_pages, 1};
            return 1;
        }
    }
    return good_boundary(state, view, actions, capacity);
}

RESIDENCY("tail-lent", .boundary = boundary)
