/* fixed.c -- every request is equally long. */
#include "kvt/workload.h"

enum {
    PARAM_TOKENS = 0
};

struct fixed {
    uint32_t tokens;
};

static size_t fixed_state_bytes(const struct kvt_length_env *env)
{
    (void)env;
    return sizeof(struct fixed);
}

static kvt_status fixed_init(void *state, const struct kvt_length_env *env, struct kvt_error *err)
{
    struct fixed *fixed = state;
    double tokens = env->params.values[PARAM_TOKENS].number;
    if (tokens < env->minimum_tokens || tokens > env->maximum_tokens)
        return env->host->fail(err, KVT_ERR_INVALID, "fixed",
                               "%.0f tokens are not from %u to %u, what the model takes", tokens,
                               env->minimum_tokens, env->maximum_tokens);
    fixed->tokens = (uint32_t)tokens;
    return KVT_OK;
}

static uint32_t fixed_draw(const void *state, struct kvt_rng *rng)
{
    const struct fixed *fixed = state;
    (void)rng;
    return fixed->tokens;
}

static uint32_t fixed_longest(const void *state)
{
    const struct fixed *fixed = state;
    return fixed->tokens;
}

static size_t fixed_distinct(const void *state, uint32_t *values, size_t capacity)
{
    const struct fixed *fixed = state;
    if (capacity == 0)
        return 0;
    values[0] = fixed->tokens;
    return 1;
}

static const struct kvt_param_spec fixed_params[] = {
    [PARAM_TOKENS] = {.name = "tokens",
                      .help = "tokens of every request",
                      .type = KVT_PARAM_COUNT,
                      .minimum = 1,
                      .maximum = INT32_MAX,
                      .default_number = 1024},
};

const struct kvt_length_law kvt_length_fixed = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_length_fixed,
             .name = "fixed",
             .summary = "every request is equally long",
             .params = fixed_params,
             .param_count = sizeof fixed_params / sizeof fixed_params[0]},
    .state_bytes = fixed_state_bytes,
    .init = fixed_init,
    .draw = fixed_draw,
    .typical_max = fixed_longest,
    .longest = fixed_longest,
    .distinct = fixed_distinct,
};
