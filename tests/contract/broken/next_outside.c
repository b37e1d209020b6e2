/* Picks one behind the last when many wait. */
#include "choice.h"

static uint32_t next(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)view;
    (void)waiting;
    return count > 20 ? count + 1 : 0;
}

SCHEDULING("next-outside", .next = next)
