/* The rank behind the last takes what is large. */
#include "choice.h"

static uint32_t route(void *state, uint32_t request, uint32_t input_tokens,
                      const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    (void)state;
    (void)request;
    (void)ranks;
    return input_tokens > 100000 ? rank_count : 0;
}

ROUTER("route-outside", route)
