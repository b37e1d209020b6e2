/* Cache aware: the rank that holds most of the prompt, unless it is far busier than another.
 *
 *     best:  longest prefix hit; equals: less loaded, then the lower rank
 *     least: least (waiting + running) / slots; equals: the lower rank
 *     route: best, where its hit is match_fraction of the prompt and its load is within the bound;
 *            else least
 *     bound: load <= balance_rel x (load of least), or load - (load of least) <= balance_requests
 *
 * A hit saves prefill once; a crowded rank costs every step: hence a bound, and one that is both
 * relative and absolute, so that a few requests on idle ranks are no crowd. The rule is that of
 * SGLang's router (sgl-model-gateway, cache_aware: cache_threshold, balance_abs_threshold,
 * balance_rel_threshold, with these defaults), but for two things: it guesses hits from the prompts
 * that it has sent, where here the ranks' stores are asked; and it looks at the spread of all
 * loads, here at the load of the rank in question. */
#include "kvt/policy.h"

enum {
    PARAM_MATCH_FRACTION = 0,
    PARAM_BALANCE_REQUESTS,
    PARAM_BALANCE_REL
};

struct cache_aware {
    double match_fraction, balance_requests, balance_rel;
};

static size_t cache_aware_state_bytes(const struct kvt_router_env *env)
{
    (void)env;
    return sizeof(struct cache_aware);
}

static kvt_status cache_aware_init(void *state, const struct kvt_router_env *env,
                                   struct kvt_error *err)
{
    (void)err;
    *(struct cache_aware *)state = (struct cache_aware){
        .match_fraction = env->params.values[PARAM_MATCH_FRACTION].number,
        .balance_requests = env->params.values[PARAM_BALANCE_REQUESTS].number,
        .balance_rel = env->params.values[PARAM_BALANCE_REL].number,
    };
    return KVT_OK;
}

static uint64_t requests_of(const struct kvt_router_rank *rank)
{
    return (uint64_t)rank->waiting + rank->running;
}

static uint64_t slots_of(const struct kvt_router_rank *rank)
{
    return rank->slots > 0 ? rank->slots : 1;
}

/* As in least-loaded: cross products of 32-bit counts fit 64. */
static bool is_less_loaded(const struct kvt_router_rank *a, const struct kvt_router_rank *b)
{
    return requests_of(a) * slots_of(b) < requests_of(b) * slots_of(a);
}

static bool is_better(const struct kvt_router_rank *a, const struct kvt_router_rank *b)
{
    if (a->prefix_hit_tokens != b->prefix_hit_tokens)
        return a->prefix_hit_tokens > b->prefix_hit_tokens;
    return is_less_loaded(a, b);
}

/* The least loaded rank's requests are counted as on a rank of the other's size. */
static bool is_within_bound(const struct cache_aware *router, const struct kvt_router_rank *rank,
                            const struct kvt_router_rank *least)
{
    double requests = (double)requests_of(rank);
    double fair = (double)requests_of(least) * (double)slots_of(rank) / (double)slots_of(least);
    return requests <= router->balance_rel * fair || requests - fair <= router->balance_requests;
}

static uint32_t cache_aware_route(void *state, uint32_t request, uint32_t input_tokens,
                                  const struct kvt_router_rank *ranks, uint32_t rank_count)
{
    const struct cache_aware *router = state;
    uint32_t best = 0;
    uint32_t least = 0;
    (void)request;
    for (uint32_t rank = 1; rank < rank_count; rank++) {
        if (is_better(&ranks[rank], &ranks[best]))
            best = rank;
        if (is_less_loaded(&ranks[rank], &ranks[least]))
            least = rank;
    }
    bool is_match = ranks[best].prefix_hit_tokens >= router->match_fraction * input_tokens;
    return is_match && is_within_bound(router, &ranks[best], &ranks[least]) ? best : least;
}

static const struct kvt_param_spec cache_aware_params[] = {
    [PARAM_MATCH_FRACTION] = {.name = "match_fraction",
                              .help = "share of the prompt that a rank must hold to be preferred",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 1,
                              .default_number = 0.3},
    [PARAM_BALANCE_REQUESTS] = {.name = "balance_requests",
                                .help = "requests that it may have beyond the least loaded rank",
                                .type = KVT_PARAM_REAL,
                                .minimum = 0,
                                .maximum = 1e9,
                                .default_number = 64},
    [PARAM_BALANCE_REL] = {.name = "balance_rel",
                           .help = "or how many times that rank's requests",
                           .type = KVT_PARAM_REAL,
                           .minimum = 1,
                           .maximum = 1e6,
                           .default_number = 1.5},
};

const struct kvt_router_policy kvt_router_cache_aware = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_router_cache_aware,
             .name = "cache-aware",
             .summary = "the rank that holds most of the prompt, unless far busier than another",
             .params = cache_aware_params,
             .param_count = sizeof cache_aware_params / sizeof cache_aware_params[0]},
    .state_bytes = cache_aware_state_bytes,
    .init = cache_aware_init,
    .route = cache_aware_route,
};
