/* Waits for free bytes, though nobody is there who would give any back. */
#include "choice.h"

static uint32_t next(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)waiting;
    return view->free_bytes < 1 << 20 ? count : 0;
}

SCHEDULING("nobody-comes", .next = next, .wants_view = true)
