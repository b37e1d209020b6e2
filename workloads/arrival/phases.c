/* phases.c -- a closed loop whose concurrency changes at set times.
 *
 *     past the last phase:        the end
 *     in flight < concurrency of the phase that now lies in: one arrives now
 *     else: when one has finished, or when the next phase begins
 *
 * So a step up is a burst at the phase's start, and after a step down finishes
 * let nobody in until fewer than the new concurrency are in flight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "drawn.h"
#include "kvt/clock.h"

enum {
    PARAM_PHASES = 0,
    PHASES_MAX = 1000,
    MEMBERS = 2 /* concurrency, seconds */
};

struct phase {
    uint64_t concurrency;
    kvt_ns end_ns;
};

struct phases {
    struct kvt_drawn drawn;
    uint64_t given;
    uint32_t count;
    struct phase list[]; /* [count] */
};

static kvt_status fill(struct phases *phases, const double *records, struct kvt_error *err)
{
    double end_s = 0;
    for (size_t i = 0; i < phases->count; i++) {
        double concurrency = records[MEMBERS * i];
        double seconds = records[MEMBERS * i + 1];
        char where[64];
        (void)snprintf(where, sizeof where, "phases/%zu", i);
        if (concurrency < 0 || concurrency > 1e6 || floor(concurrency) != concurrency)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "a concurrency of %g is not a whole number from 0 to 1,000,000",
                            concurrency);
        end_s += seconds;
        struct phase *phase = &phases->list[i];
        if (!(seconds >= 0.001) || !kvt_ns_from_seconds(end_s, &phase->end_ns))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%g seconds are no length of a phase: at least 0.001, and less than "
                            "146 years in all",
                            seconds);
        phase->concurrency = (uint64_t)concurrency;
    }
    return KVT_OK;
}

static kvt_status phases_open(const struct kvt_arrival_env *env, void **out, struct kvt_error *err)
{
    const struct kvt_param_value *records = &env->params.values[PARAM_PHASES];
    size_t count = records->list_length / MEMBERS;
    if (count == 0 || count > PHASES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "phases",
                        "%zu phases; from 1 to %d are taken, each {concurrency, seconds}", count,
                        (int)PHASES_MAX);
    struct phases *phases = calloc(1, sizeof *phases + count * sizeof phases->list[0]);
    if (phases == NULL)
        return kvt_fail_nomem(err, "the phases of a load");
    phases->drawn = kvt_drawn_of(env);
    phases->count = (uint32_t)count;
    kvt_status status = fill(phases, records->list, err);
    if (status != KVT_OK) {
        free(phases);
        return status;
    }
    *out = phases;
    return KVT_OK;
}

static void phases_close(void *source)
{
    struct phases *phases = source;
    if (phases != NULL)
        kvt_drawn_free(&phases->drawn);
    free(phases);
}

/* The last phase has no end here: past it, reports still need a number. */
static uint32_t phases_phase_at(const void *source, kvt_ns now_ns)
{
    const struct phases *phases = source;
    uint32_t i = 0;
    while (i + 1 < phases->count && now_ns >= phases->list[i].end_ns)
        i++;
    return i;
}

static kvt_ns phases_end_ns(const void *source)
{
    const struct phases *phases = source;
    return phases->list[phases->count - 1].end_ns;
}

static kvt_status phases_poll(void *source, kvt_ns now_ns, uint64_t in_flight,
                              enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                              kvt_ns *due_ns, struct kvt_error *err)
{
    struct phases *phases = source;
    if (now_ns >= phases_end_ns(phases)) {
        *answer = KVT_ARRIVAL_END;
        return KVT_OK;
    }
    const struct phase *phase = &phases->list[phases_phase_at(phases, now_ns)];
    if (in_flight >= phase->concurrency) {
        *answer = KVT_ARRIVAL_LATER;
        *due_ns = phase->end_ns;
        return KVT_OK;
    }
    *answer = KVT_ARRIVAL_NOW;
    return kvt_drawn_request(&phases->drawn, phases->given++, now_ns, spec, err);
}

static uint32_t phases_phase_count(const void *source)
{
    const struct phases *phases = source;
    return phases->count;
}

static uint64_t phases_first_wave(const void *source)
{
    const struct phases *phases = source;
    return phases->list[0].concurrency;
}

static uint64_t phases_most_in_flight(const void *source)
{
    const struct phases *phases = source;
    uint64_t most = 0;

    for (size_t p = 0; p < phases->count; p++)
        most = phases->list[p].concurrency > most ? phases->list[p].concurrency : most;
    return most;
}

static uint64_t phases_phase_load(const void *source, uint32_t phase)
{
    const struct phases *phases = source;
    return phases->list[phase].concurrency;
}

static uint64_t phases_expected(const void *source)
{
    (void)source;
    return 0;
}

static void phases_extent(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                          uint32_t *inputs, size_t *input_count)
{
    const struct phases *phases = source;
    kvt_drawn_extent(&phases->drawn, longest_tokens, output_tokens, inputs, input_count);
}

static const struct kvt_trace_account *phases_account(const void *source)
{
    (void)source;
    return NULL;
}

static const struct kvt_param_spec phases_params[] = {
    [PARAM_PHASES] = {.name = "phases",
                      .help = "concurrency, and for how many seconds, one after the other",
                      .type = KVT_PARAM_RECORDS,
                      .minimum = 0,
                      .maximum = 1e9,
                      .default_text = "[]",
                      .choices = "concurrency|seconds"},
};

const struct kvt_arrival kvt_arrival_phases = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_arrival_phases,
             .name = "phases",
             .summary = "a closed loop whose concurrency steps up and down",
             .params = phases_params,
             .param_count = sizeof phases_params / sizeof phases_params[0]},
    .uses_lengths = true,
    .closed_loop = true,
    .open = phases_open,
    .close = phases_close,
    .poll = phases_poll,
    .phase_count = phases_phase_count,
    .phase_at = phases_phase_at,
    .end_ns = phases_end_ns,
    .first_wave = phases_first_wave,
    .expected = phases_expected,
    .extent = phases_extent,
    .account = phases_account,
    .most_in_flight = phases_most_in_flight,
    .phase_load = phases_phase_load,
};
