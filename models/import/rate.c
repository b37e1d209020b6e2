/* rate.c -- import at a rate, through a bounded staging area.
 *
 *     lanes     = queue; each has rate / queue, link / queue, staging / queue
 *     chunk     = half a lane's staging: one half fills while the other drains
 *     to HBM:     bytes / rate; rows land where they will be read
 *     to host:    bytes / min(rate, link)     the slower side of the pipeline
 *               + chunk / max(rate, link)     filling or draining it, once
 *               + chunks * link latency       handing a half over
 *
 * Requests that find every lane taken wait in order of arrival. A lane that is
 * free lends its share to nobody. The pipeline is the two-stage one of any
 * double buffer; a smaller chunk fills sooner and is handed over more often. */
#include <assert.h>

#include "kvt/clock.h"
#include "kvt/timing.h"

enum {
    PARAM_RATE,
    PARAM_STAGING,
    PARAM_QUEUE,
    PARAM_COUNT
};

static const struct kvt_param_spec rate_params[PARAM_COUNT] = {
    [PARAM_RATE] = {.name = "rate",
                    .help = "GB/s at which histories reach one rank, all its lanes together.",
                    .type = KVT_PARAM_REAL,
                    .minimum = 0.001,
                    .maximum = 1e5,
                    .default_number = 10},
    [PARAM_STAGING] = {.name = "staging",
                       .help = "GiB of one rank through which rows bound for host memory pass.",
                       .type = KVT_PARAM_REAL,
                       .minimum = 0.001,
                       .maximum = 1024,
                       .default_number = 1},
    [PARAM_QUEUE] = {.name = "queue",
                     .help = "Requests of one rank imported at once, each in a lane with its share "
                             "of rate and staging; the rest wait in order.",
                     .type = KVT_PARAM_COUNT,
                     .minimum = 1,
                     .maximum = 64,
                     .default_number = 1},
};

struct rate {
    uint64_t arrive_bytes_per_s; /* all of one lane */
    uint64_t land_bytes_per_s;
    uint64_t chunk_bytes;
    kvt_ns handover_ns;
    uint32_t lanes;
};

static size_t rate_state_bytes(const struct kvt_import_env *env)
{
    (void)env;
    return sizeof(struct rate);
}

static uint64_t at_least_one(uint64_t value)
{
    return value > 0 ? value : 1;
}

static kvt_status rate_init(void *state, const struct kvt_import_env *env, struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct rate *law = state;

    if (env->hardware->link_d2h_bytes_per_s == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "import \"rate\"",
                        "hardware \"%s\" states no link rate to host memory, where imported rows "
                        "land; link_d2h_bytes_per_s must be at least 1",
                        env->hardware->name);
    uint32_t lanes = (uint32_t)values[PARAM_QUEUE].number;
    uint64_t staging_bytes = (uint64_t)(values[PARAM_STAGING].number * (double)KVT_GIB);
    *law = (struct rate){
        .arrive_bytes_per_s = at_least_one((uint64_t)(values[PARAM_RATE].number * 1e9) / lanes),
        .land_bytes_per_s = at_least_one(env->hardware->link_d2h_bytes_per_s / lanes),
        .chunk_bytes = at_least_one(staging_bytes / lanes / 2),
        .handover_ns = env->hardware->link_latency_ns,
        .lanes = lanes,
    };
    return KVT_OK;
}

static kvt_ns saturating_sum(kvt_ns a, kvt_ns b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static kvt_ns staged_ns(const struct rate *law, uint64_t bytes)
{
    if (bytes == 0)
        return 0;
    bool arrival_is_slower = law->arrive_bytes_per_s < law->land_bytes_per_s;
    uint64_t slower = arrival_is_slower ? law->arrive_bytes_per_s : law->land_bytes_per_s;
    uint64_t faster = arrival_is_slower ? law->land_bytes_per_s : law->arrive_bytes_per_s;
    uint64_t chunks = bytes / law->chunk_bytes + (bytes % law->chunk_bytes != 0);
    uint64_t filling_bytes = bytes < law->chunk_bytes ? bytes : law->chunk_bytes;

    kvt_ns handovers_ns = INT64_MAX;
    if (law->handover_ns == 0 || chunks <= (uint64_t)(INT64_MAX / law->handover_ns))
        handovers_ns = (kvt_ns)chunks * law->handover_ns;
    kvt_ns moving_ns =
        saturating_sum(kvt_ns_for_bytes(bytes, slower), kvt_ns_for_bytes(filling_bytes, faster));
    return saturating_sum(moving_ns, handovers_ns);
}

static kvt_ns rate_duration_ns(void *state, uint32_t request, uint64_t host_bytes,
                               uint64_t hbm_bytes)
{
    (void)request;
    const struct rate *law = state;
    return saturating_sum(kvt_ns_for_bytes(hbm_bytes, law->arrive_bytes_per_s),
                          staged_ns(law, host_bytes));
}

static uint32_t rate_servers(const void *state)
{
    return ((const struct rate *)state)->lanes;
}

const struct kvt_import_law kvt_import_rate = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_import_rate,
             .name = "rate",
             .summary = "bytes at a rate, through a bounded staging area, in order of arrival",
             .params = rate_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_ASSUMED,
    .state_bytes = rate_state_bytes,
    .init = rate_init,
    .duration_ns = rate_duration_ns,
    .servers = rate_servers,
};
