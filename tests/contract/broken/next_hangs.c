/* Looks for an urgent request for ever where there is none. */
#include "choice.h"

static uint32_t next(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count)
{
    const volatile uint32_t *urgent = count > 0 ? &waiting[0].priority : &count;

    (void)state;
    (void)view;
    while (*urgent != 0)
        ;
    return 0;
}

SCHEDULING("next-hangs", .next = next)
