/* Shortest queue: the rank with the fewest requests waiting.
 *
 *     route: least waiting; equals: least running; equals: the lower rank
 *
 * Unlike least-loaded it sees no load before a queue forms, except to break
 * ties: ranks of unequal size fill up before their queues do. */
#include "kvt/policy.h"

static size_t shortest_queue_state_bytes(const struct kvt_router_env *env)
{
    (void)env;
    return 0;
}

static kvt_status shortest_queue_init(void *state, const struct kvt_router_env *env,
                                      struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static bool is_shorter(const struct kvt_router_rank *a, const struct kvt_router_rank *b)
{
    if (a->waiting != b->waiting)
        return a->waiting < b->waiting;
    return a->running < b->running;
}

static uint32_t shortest_queue_route(void *state, uint32_t request, uint32_t input_tokens,
                                     const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    (void)state;
    (void)request;
    (void)input_tokens;
    uint32_t best = 0;
    for (uint32_t rank = 1; rank < rank_count; rank++) {
        if (is_shorter(&ranks[rank], &ranks[best]))
            best = rank;
    }
    return best;
}

const struct kvt_router_policy kvt_router_shortest_queue = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_router_shortest_queue,
             .name = "shortest-queue",
             .summary = "the rank with the fewest requests waiting"},
    .state_bytes = shortest_queue_state_bytes,
    .init = shortest_queue_init,
    .route = shortest_queue_route,
};
