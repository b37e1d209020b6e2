/* closed.c -- a closed loop: all requests exist at time 0, behind a semaphore.
 *
 *     in flight < concurrency and requests left: the next one arrives now
 *     none left:                                 the end
 *     else:                                      when one has finished
 *
 * As vLLM's and SGLang's benchmarks with an infinite rate and --max-concurrency. */
#include <stdlib.h>

#include "drawn.h"

enum {
    PARAM_CONCURRENCY = 0,
    PARAM_REQUESTS
};

struct closed {
    struct kvt_drawn drawn;
    uint64_t concurrency;
    uint64_t requests; /* 0: no end */
    uint64_t given;
};

static kvt_status closed_open(const struct kvt_arrival_env *env, void **out, struct kvt_error *err)
{
    struct closed *closed = calloc(1, sizeof *closed);
    if (closed == NULL)
        return kvt_fail_nomem(err, "a closed loop");
    closed->drawn = kvt_drawn_of(env);
    closed->concurrency = (uint64_t)env->params.values[PARAM_CONCURRENCY].number;
    closed->requests = (uint64_t)env->params.values[PARAM_REQUESTS].number;
    *out = closed;
    return KVT_OK;
}

static void closed_close(void *source)
{
    struct closed *closed = source;
    if (closed != NULL)
        kvt_drawn_free(&closed->drawn);
    free(closed);
}

static kvt_status closed_poll(void *source, kvt_ns now_ns, uint64_t in_flight,
                              enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                              kvt_ns *due_ns, struct kvt_error *err)
{
    struct closed *closed = source;
    (void)due_ns;
    if (closed->requests > 0 && closed->given == closed->requests) {
        *answer = KVT_ARRIVAL_END;
    } else if (in_flight >= closed->concurrency) {
        *answer = KVT_ARRIVAL_WAIT;
    } else {
        *answer = KVT_ARRIVAL_NOW;
        return kvt_drawn_request(&closed->drawn, closed->given++, now_ns, spec, err);
    }
    return KVT_OK;
}

static uint32_t closed_phase_count(const void *source)
{
    (void)source;
    return 1;
}

static uint32_t closed_phase_at(const void *source, kvt_ns now_ns)
{
    (void)source;
    (void)now_ns;
    return 0;
}

static kvt_ns closed_end_ns(const void *source)
{
    (void)source;
    return KVT_NS_NEVER;
}

static uint64_t closed_first_wave(const void *source)
{
    const struct closed *closed = source;
    bool is_short = closed->requests > 0 && closed->requests < closed->concurrency;
    return is_short ? closed->requests : closed->concurrency;
}

static uint64_t closed_expected(const void *source)
{
    const struct closed *closed = source;
    return closed->requests;
}

static void closed_extent(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                          uint32_t *inputs, size_t *input_count)
{
    const struct closed *closed = source;
    kvt_drawn_extent(&closed->drawn, longest_tokens, output_tokens, inputs, input_count);
}

static const struct kvt_trace_account *closed_account(const void *source)
{
    (void)source;
    return NULL;
}

static const struct kvt_param_spec closed_params[] = {
    [PARAM_CONCURRENCY] = {.name = "concurrency",
                           .help = "requests in flight at any time",
                           .type = KVT_PARAM_COUNT,
                           .minimum = 1,
                           .maximum = 1e6,
                           .default_number = 128},
    [PARAM_REQUESTS] = {.name = "requests",
                        .help = "requests in all; 0: as many as run.duration_s allows",
                        .type = KVT_PARAM_COUNT,
                        .minimum = 0,
                        .maximum = 1e9,
                        .default_number = 0},
};

const struct kvt_arrival kvt_arrival_closed = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_arrival_closed,
             .name = "closed",
             .summary = "a closed loop: so many in flight, each finish lets the next one in",
             .params = closed_params,
             .param_count = sizeof closed_params / sizeof closed_params[0]},
    .uses_lengths = true,
    .closed_loop = true,
    .open = closed_open,
    .close = closed_close,
    .poll = closed_poll,
    .phase_count = closed_phase_count,
    .phase_at = closed_phase_at,
    .end_ns = closed_end_ns,
    .first_wave = closed_first_wave,
    .expected = closed_expected,
    .extent = closed_extent,
    .account = closed_account,
    .most_in_flight = closed_first_wave,
};
