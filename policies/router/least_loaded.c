/* Least loaded: the rank with the fewest requests, waiting and running, for its size.
 *
 *     route: least (waiting + running) / slots; equals: the lower rank
 *
 * This is join-shortest-queue of the queueing literature, where the queue
 * includes whoever is being served; on ranks of different sizes each gets its
 * share. Fractions are compared by their cross products, without rounding. */
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

/* Is a's load below b's? A rank of no slots counts as one of one. Requests have ids of 32 bits, so
 * that no rank has more of them, and the products fit 64. */
static bool is_less_loaded(const struct kvt_router_rank *a, const struct kvt_router_rank *b)
{
    uint64_t a_slots = a->slots > 0 ? a->slots : 1;
    uint64_t b_slots = b->slots > 0 ? b->slots : 1;
    return requests_of(a) * b_slots < requests_of(b) * a_slots;
}

static uint32_t least_loaded_route(void *state, uint32_t request, uint32_t input_tokens,
                                   const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    (void)state;
    (void)request;
    (void)input_tokens;
    uint32_t best = 0;
    for (uint32_t rank = 1; rank < rank_count; rank++) {
        if (is_less_loaded(&ranks[rank], &ranks[best]))
            best = rank;
    }
    return best;
}

const struct kvt_router_policy kvt_router_least_loaded = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_router_least_loaded,
             .name = "least-loaded",
             .summary = "the rank with the fewest requests for its slots, waiting and running"},
    .state_bytes = least_loaded_state_bytes,
    .init = least_loaded_init,
    .route = least_loaded_route,
};
