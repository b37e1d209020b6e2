/* Looks at who waits, and asks for the rank alone. */
#include "choice.h"

static uint32_t next(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)waiting;
    return count > 1 && view->entries[0].load_tokens > view->entries[1].load_tokens;
}

SCHEDULING("entries-read", .next = next, .wants_view = true)
