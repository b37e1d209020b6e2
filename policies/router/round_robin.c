/* Round-robin: every rank in turn, whatever its load.
 *
 *     route: the rank after the last one used */
#include "kvt/policy.h"

struct round_robin {
    uint32_t next_rank;
};

static size_t round_robin_state_bytes(const struct kvt_router_env *env)
{
    (void)env;
    return sizeof(struct round_robin);
}

static kvt_status round_robin_init(void *state, const struct kvt_router_env *env,
                                   struct kvt_error *err)
{
    (void)env;
    (void)err;
    *(struct round_robin *)state = (struct round_robin){.next_rank = 0};
    return KVT_OK;
}

static uint32_t round_robin_route(void *state, uint32_t request, uint32_t input_tokens,
                                  const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    (void)request;
    (void)input_tokens;
    (void)ranks;
    struct round_robin *router = state;
    uint32_t rank = router->next_rank % rank_count;
    router->next_rank = rank + 1;
    return rank;
}

const struct kvt_router_policy kvt_router_round_robin = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_router_round_robin,
             .name = "round-robin",
             .summary = "every rank in turn"},
    .state_bytes = round_robin_state_bytes,
    .init = round_robin_init,
    .route = round_robin_route,
};
