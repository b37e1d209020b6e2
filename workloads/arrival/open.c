/* open.c -- an open loop: requests come at a rate, whoever is still running.
 *
 *     gap i:     gamma of shape `burstiness` and mean 1 / rate (1: Poisson),
 *                from the stream of request i
 *     arrival i: the sum of gaps 0..i; with a number of requests given, stretched
 *                so that the last one comes at requests / rate
 *
 * The stretch is vLLM's (`bench serve`, get_request): every seed then offers the
 * stated rate. Streams cost nothing to make, so the gaps are simply drawn twice. */
#include <math.h>
#include <stdlib.h>

#include "drawn.h"
#include "kvt/clock.h"

enum {
    PARAM_RATE = 0,
    PARAM_BURSTINESS,
    PARAM_REQUESTS
};

struct open_loop {
    struct kvt_drawn drawn;
    double rate_per_s, burstiness;
    uint64_t requests; /* 0: no end */
    double stretch;
    uint64_t given;
    double elapsed_s; /* sum of the gaps up to the next request, before stretching */
    kvt_ns next_ns;   /* when it comes */
};

static double gap_s(const struct open_loop *loop, uint64_t ordinal)
{
    struct kvt_rng rng = kvt_rng_stream(loop->drawn.run_seed, KVT_RNG_ARRIVAL, ordinal);
    return kvt_rng_gamma(&rng, loop->burstiness, 1.0 / (loop->rate_per_s * loop->burstiness));
}

/* Finds when request `given` comes. */
static kvt_status plan_next(struct open_loop *loop, struct kvt_error *err)
{
    loop->elapsed_s += gap_s(loop, loop->given);
    double arrival_s = loop->elapsed_s * loop->stretch;
    if (!kvt_ns_from_seconds(arrival_s, &loop->next_ns))
        return kvt_fail(err, KVT_ERR_INVALID, "open",
                        "at %g requests a second, one comes after more than 146 years",
                        loop->rate_per_s);
    return KVT_OK;
}

static double stretch_of(const struct open_loop *loop)
{
    if (loop->requests == 0)
        return 1;
    double sum_s = 0;
    for (uint64_t i = 0; i < loop->requests; i++)
        sum_s += gap_s(loop, i);
    return sum_s > 0 ? (double)loop->requests / loop->rate_per_s / sum_s : 1;
}

static kvt_status open_open(const struct kvt_arrival_env *env, void **out, struct kvt_error *err)
{
    struct open_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return kvt_fail_nomem(err, "an open loop");
    loop->drawn = kvt_drawn_of(env);
    loop->rate_per_s = env->params.values[PARAM_RATE].number;
    loop->burstiness = env->params.values[PARAM_BURSTINESS].number;
    loop->requests = (uint64_t)env->params.values[PARAM_REQUESTS].number;
    loop->stretch = stretch_of(loop);
    kvt_status status = plan_next(loop, err);
    if (status != KVT_OK) {
        free(loop);
        return status;
    }
    *out = loop;
    return KVT_OK;
}

static void open_close(void *source)
{
    struct open_loop *loop = source;
    if (loop != NULL)
        kvt_drawn_free(&loop->drawn);
    free(loop);
}

static kvt_status open_poll(void *source, kvt_ns now_ns, uint64_t in_flight,
                            enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                            kvt_ns *due_ns, struct kvt_error *err)
{
    struct open_loop *loop = source;
    (void)in_flight;
    if (loop->requests > 0 && loop->given == loop->requests) {
        *answer = KVT_ARRIVAL_END;
        return KVT_OK;
    }
    if (loop->next_ns > now_ns) {
        *answer = KVT_ARRIVAL_LATER;
        *due_ns = loop->next_ns;
        return KVT_OK;
    }
    kvt_status status = kvt_drawn_request(&loop->drawn, loop->given, loop->next_ns, spec, err);
    if (status != KVT_OK)
        return status;
    *answer = KVT_ARRIVAL_NOW;
    loop->given++;
    return loop->given == loop->requests ? KVT_OK : plan_next(loop, err);
}

static uint32_t open_phase_count(const void *source)
{
    (void)source;
    return 1;
}

static uint32_t open_phase_at(const void *source, kvt_ns now_ns)
{
    (void)source;
    (void)now_ns;
    return 0;
}

static kvt_ns open_end_ns(const void *source)
{
    (void)source;
    return KVT_NS_NEVER;
}

static uint64_t open_first_wave(const void *source)
{
    (void)source;
    return 0;
}

static uint64_t open_expected(const void *source)
{
    const struct open_loop *loop = source;
    return loop->requests;
}

static void open_extent(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                        uint32_t *inputs, size_t *input_count)
{
    const struct open_loop *loop = source;
    kvt_drawn_extent(&loop->drawn, longest_tokens, output_tokens, inputs, input_count);
}

static const struct kvt_trace_account *open_account(const void *source)
{
    (void)source;
    return NULL;
}

static const struct kvt_param_spec open_params[] = {
    [PARAM_RATE] = {.name = "rate",
                    .help = "requests per second, on average",
                    .type = KVT_PARAM_REAL,
                    .minimum = 1e-6,
                    .maximum = 1e6,
                    .default_number = 1},
    [PARAM_BURSTINESS] = {.name = "burstiness",
                          .help = "shape of the gamma law of gaps: 1 Poisson, less is burstier",
                          .type = KVT_PARAM_REAL,
                          .minimum = 0.01,
                          .maximum = 1e6,
                          .default_number = 1},
    [PARAM_REQUESTS] = {.name = "requests",
                        .help = "requests in all; 0: as many as run.duration_s allows",
                        .type = KVT_PARAM_COUNT,
                        .minimum = 0,
                        .maximum = 1e8,
                        .default_number = 0},
};

const struct kvt_arrival kvt_arrival_open = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_arrival_open,
             .name = "open",
             .summary = "an open loop: gamma gaps at a rate, whoever is still running",
             .params = open_params,
             .param_count = sizeof open_params / sizeof open_params[0]},
    .uses_lengths = true,
    .closed_loop = false,
    .open = open_open,
    .close = open_close,
    .poll = open_poll,
    .phase_count = open_phase_count,
    .phase_at = open_phase_at,
    .end_ns = open_end_ns,
    .first_wave = open_first_wave,
    .expected = open_expected,
    .extent = open_extent,
    .account = open_account,
};
