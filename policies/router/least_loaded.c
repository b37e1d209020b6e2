/* Least loaded: the rank with the fewest requests, waiting and running.
 *
 *     route: least (waiting + running); equals: the lower rank
 *
 * This is join-shortest-queue of the queueing literature, where the queue
 * includes whoever is being served. */
#include "kvt/policy.h"

static size_t least_loaded_state_bytes(const struct kvt_router_env *env)
{
    (void)env;
    return 0;
}

static kvt_status least_loaded_init(void *state, const struct kvt_router_env *env,
                                    struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static uint64_t requests_of(const struct kvt_router_rank *rank)
{
    return (uint64_t)rank->waiting + rank->running;
}

static uint32_t least_loaded_route(void *state, uint32_t request, uint32_t input_tokens,
                                   const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    (void)state;
    (void)request;
    (void)input_tokens;
    uint32_t best = 0;
    for (uint32_t rank = 1; rank < rank_count; rank++) {
        if (requests_of(&ranks[rank]) < requests_of(&ranks[best]))
            best = rank;
    }
    return best;
}

const struct kvt_router_policy kvt_router_least_loaded = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_router_least_loaded,
             .name = "least-loaded",
             .summary = "the rank with the fewest requests, waiting and running"},
    .state_bytes = least_loaded_state_bytes,
    .init = least_loaded_init,
    .route = least_loaded_route,
};
