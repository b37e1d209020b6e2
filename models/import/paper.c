/* paper.c -- import times of the reference paper's closed loop, rebuilt.
 *
 *     one request at a time, in order of arrival, for Exp(mean of the policy)
 *
 * The means were fitted to TTFT in Table 2 by a queue with 4 ranks of 52 slots;
 * fixed times give no queue there, so some spread is needed. Why the policies,
 * and DFlash2 beside one of them, differ is not known, so nothing follows for another one: init
 * refuses it. */
#include <assert.h>
#include <string.h>

#include "kvt/clock.h"
#include "kvt/timing.h"

enum {
    PARAM_HISPARSE_MEAN_S,
    PARAM_ADAPTIVE_MEAN_S,
    PARAM_DFLASH2_MEAN_S,
    PARAM_COUNT
};

static const struct kvt_param_spec import_paper_params[PARAM_COUNT] = {
    [PARAM_HISPARSE_MEAN_S] = {.name = "hisparse_mean_s",
                               .help = "Mean import time of a request under hisparse.",
                               .calibrated_to = "TTFT in Table 2, C128 and C256 HiSparse",
                               .type = KVT_PARAM_REAL,
                               .minimum = 0,
                               .maximum = 3600,
                               .default_number = 2.25,
                               .idle = {{.beside = "residency.policy",
                                         .values = "adaptive",
                                         .cure = "residency.policy \"hisparse\""}}},
    [PARAM_ADAPTIVE_MEAN_S] = {.name = "adaptive_mean_s",
                               .help = "The same under adaptive.",
                               .calibrated_to = "TTFT in Table 2, C128 and C256 Adaptive HiSparse",
                               .type = KVT_PARAM_REAL,
                               .minimum = 0,
                               .maximum = 3600,
                               .default_number = 1.45,
                               .idle = {{.beside = "residency.policy",
                                         .values = "hisparse",
                                         .cure = "residency.policy \"adaptive\""},
                                        {.beside = "speculation.method",
                                         .values = "dflash2",
                                         .cure = "speculation.method \"none\""}}},
    [PARAM_DFLASH2_MEAN_S] = {.name = "dflash2_mean_s",
                              .help = "The same under adaptive with speculation dflash2.",
                              .calibrated_to = "TTFT in Table 2, C128 Adaptive DHiSparse",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 3600,
                              .default_number = 1.2,
                              .idle = {{.beside = "speculation.method",
                                        .values = "none",
                                        .cure = "speculation.method \"dflash2\""}}},
};

struct import_paper {
    uint64_t run_seed;
    double mean_s;
};

static size_t import_paper_state_bytes(const struct kvt_import_env *env)
{
    (void)env;
    return sizeof(struct import_paper);
}

static kvt_status import_paper_init(void *state, const struct kvt_import_env *env,
                                    struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    struct import_paper *law = state;

    size_t param = PARAM_COUNT;
    if (strcmp(env->speculation, "none") == 0) {
        if (strcmp(env->residency, "hisparse") == 0)
            param = PARAM_HISPARSE_MEAN_S;
        else if (strcmp(env->residency, "adaptive") == 0)
            param = PARAM_ADAPTIVE_MEAN_S;
        else
            return kvt_fail(
                err, KVT_ERR_INVALID, "import \"paper\"",
                "profile \"paper\" holds constants for hisparse, adaptive only; law \"rate\" "
                "takes any policy (cluster.import.law=rate)");
    } else if (strcmp(env->speculation, "dflash2") == 0 &&
               strcmp(env->residency, "adaptive") == 0) {
        param = PARAM_DFLASH2_MEAN_S;
    } else {
        return kvt_fail(err, KVT_ERR_INVALID, "import \"paper\"",
                        "profile \"paper\" holds constants for dflash2 with adaptive only, where "
                        "there is speculation; law \"rate\" takes any method "
                        "(cluster.import.law=rate)");
    }
    *law = (struct import_paper){.run_seed = env->run_seed,
                                 .mean_s = env->params.values[param].number};
    return KVT_OK;
}

/* A request's own stream: its time is the same whoever was imported before it. */
static kvt_ns import_paper_duration_ns(void *state, uint32_t request, uint64_t host_bytes,
                                       uint64_t hbm_bytes)
{
    (void)host_bytes;
    (void)hbm_bytes;
    const struct import_paper *law = state;
    struct kvt_rng rng = kvt_rng_stream(law->run_seed, KVT_RNG_SERVICE, request);
    kvt_ns duration_ns = 0;
    bool fits = kvt_ns_from_seconds(kvt_rng_exponential(&rng, law->mean_s), &duration_ns);
    assert(fits); /* a draw is at most 53 ln 2 means of an hour */
    (void)fits;
    return duration_ns;
}

static uint32_t import_paper_servers(const void *state)
{
    (void)state;
    return 1;
}

const struct kvt_import_law kvt_import_paper = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_import_paper,
             .name = "paper",
             .summary = "exponential times fitted to the reference paper: hisparse or adaptive",
             .params = import_paper_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .state_bytes = import_paper_state_bytes,
    .init = import_paper_init,
    .duration_ns = import_paper_duration_ns,
    .servers = import_paper_servers,
};
