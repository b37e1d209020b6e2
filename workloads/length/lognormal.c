/* lognormal.c -- lengths of a truncated log-normal law.
 *
 *     draw:  x of the log-normal with this mean and coefficient of variation,
 *            rounded to a whole number; again while outside [minimum, maximum]
 *
 * mean_tokens and cv are the untruncated law's. A law of which less than 1 % lies
 * inside is refused: it is not what anyone means, and its draws would not end. */
#include <math.h>

#include "kvt/workload.h"

enum {
    PARAM_MEAN = 0,
    PARAM_CV
};

#define INSIDE_SHARE_MIN 0.01
#define QUANTILE_99 2.3263478740408408 /* of the standard normal law */

struct lognormal {
    double mean_tokens, cv;
    uint32_t minimum_tokens, maximum_tokens;
};

static size_t lognormal_state_bytes(const struct kvt_length_env *env)
{
    (void)env;
    return sizeof(struct lognormal);
}

/* Location and scale of the logarithm. */
static void log_moments(const struct lognormal *law, double *mu, double *sigma)
{
    double variance = log1p(law->cv * law->cv);
    *mu = log(law->mean_tokens) - 0.5 * variance;
    *sigma = sqrt(variance);
}

/* P(X <= x). */
static double share_below(double x, double mu, double sigma)
{
    if (x <= 0)
        return 0;
    if (sigma == 0)
        return log(x) >= mu ? 1 : 0;
    return 0.5 * erfc((mu - log(x)) / (sigma * sqrt(2.0)));
}

static kvt_status lognormal_init(void *state, const struct kvt_length_env *env,
                                 struct kvt_error *err)
{
    struct lognormal *law = state;
    *law = (struct lognormal){
        .mean_tokens = env->params.values[PARAM_MEAN].number,
        .cv = env->params.values[PARAM_CV].number,
        .minimum_tokens = env->minimum_tokens,
        .maximum_tokens = env->maximum_tokens,
    };
    double mu = 0;
    double sigma = 0;
    log_moments(law, &mu, &sigma);
    double inside = share_below((double)law->maximum_tokens + 0.5, mu, sigma) -
                    share_below((double)law->minimum_tokens - 0.5, mu, sigma);
    if (inside < INSIDE_SHARE_MIN)
        return env->host->fail(err, KVT_ERR_INVALID, "lognormal",
                               "with a mean of %g tokens and a cv of %g, %.2g %% of the lengths "
                               "are from %u to %u, what the model takes; at least 1 %% must be",
                               law->mean_tokens, law->cv, 100 * inside, law->minimum_tokens,
                               law->maximum_tokens);
    return KVT_OK;
}

static uint32_t lognormal_draw(const void *state, struct kvt_rng *rng)
{
    const struct lognormal *law = state;
    for (;;) {
        double tokens = floor(kvt_rng_lognormal(rng, law->mean_tokens, law->cv) + 0.5);
        if (tokens >= law->minimum_tokens && tokens <= law->maximum_tokens)
            return (uint32_t)tokens;
    }
}

static uint32_t lognormal_typical_max(const void *state)
{
    const struct lognormal *law = state;
    double mu = 0;
    double sigma = 0;
    log_moments(law, &mu, &sigma);
    double tokens = ceil(exp(mu + QUANTILE_99 * sigma));
    if (tokens >= law->maximum_tokens)
        return law->maximum_tokens;
    return tokens > law->minimum_tokens ? (uint32_t)tokens : law->minimum_tokens;
}

static uint32_t lognormal_longest(const void *state)
{
    const struct lognormal *law = state;
    return law->maximum_tokens;
}

static const struct kvt_param_spec lognormal_params[] = {
    [PARAM_MEAN] = {.name = "mean_tokens",
                    .help = "arithmetic mean of the law before truncation",
                    .type = KVT_PARAM_REAL,
                    .minimum = 1,
                    .maximum = INT32_MAX,
                    .default_number = 1024},
    [PARAM_CV] = {.name = "cv",
                  .help = "standard deviation over mean, before truncation",
                  .type = KVT_PARAM_REAL,
                  .minimum = 0,
                  .maximum = 100,
                  .default_number = 1},
};

const struct kvt_length_law kvt_length_lognormal = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_length_lognormal,
             .name = "lognormal",
             .summary = "a log-normal law, cut to the lengths that the model takes",
             .params = lognormal_params,
             .param_count = sizeof lognormal_params / sizeof lognormal_params[0]},
    .state_bytes = lognormal_state_bytes,
    .init = lognormal_init,
    .draw = lognormal_draw,
    .typical_max = lognormal_typical_max,
    .longest = lognormal_longest,
};
