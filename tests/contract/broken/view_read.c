/* Looks at the rank, and does not say so in its table. */
#include "choice.h"

static uint32_t next(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)waiting;
    return view->running > 40 ? count : 0;
}

SCHEDULING("view-read", .next = next)
