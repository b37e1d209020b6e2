/* surface_rounds.c -- the rounds that a speculation method plans under a steady load. */
#include <stdlib.h>
#include <string.h>

#include "surface.h"

struct estimate {
    const struct surface_env *env;
};

/* A step of so many requests on ranks that share them evenly, without its misses: what a
 * method that asks is told. */
static double step_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    const struct kvt_analytic_env *run = ((const struct estimate *)context)->env->run;
    double parts[KVT_PARTS] = {0}, sum = 0;
    uint32_t ranks = run->lockstep ? run->rank_count : 1;
    struct kvt_group_load group = {.queries = queries,
                                   .ranks = ranks,
                                   .queries_max = (queries + ranks - 1) / ranks,
                                   .requests = requests,
                                   .draft_tokens = draft_tokens};
    struct kvt_rank_load load = {.requests = (requests + ranks - 1) / ranks,
                                 .queries = group.queries_max,
                                 .draft_tokens = (draft_tokens + ranks - 1) / ranks,
                                 .group_queries = queries};
    load.context_rows = (uint64_t)load.requests * ((struct estimate *)context)->env->input_tokens;
    run->timing->group_step(run->timing_state, &group, parts);
    run->timing->rank_step(run->timing_state, &load, parts);
    for (int p = 0; p < KVT_PARTS; p++)
        sum += parts[p];
    return sum;
}

static void plan_all(const struct surface_env *env, struct kvt_speculation_request *asks,
                     void *scratch, uint32_t active, struct kvt_round *planned, uint32_t requests,
                     uint32_t rounds, struct kvt_round *out)
{
    struct estimate estimate = {.env = env};
    struct kvt_speculation_view view = {.requests = asks,
                                        .request_count = active,
                                        .step_ns = step_ns,
                                        .step_context = &estimate,
                                        .scratch = scratch};

    for (uint32_t r = 0; r < rounds; r++) {
        env->run->speculation->plan(env->run->speculation_data, &view, planned);
        for (uint32_t i = 0; i < active; i++) {
            asks[i].context_tokens += planned[i].committed_tokens;
            asks[i].generated_tokens += planned[i].committed_tokens;
            if (i < requests)
                out[(size_t)i * rounds + r] = planned[i];
        }
    }
}

/* `active` requests from number `first` on. */
static kvt_status plan_some(const struct surface_env *env, uint32_t active, uint32_t first,
                            uint32_t requests, uint32_t rounds, struct kvt_round *out,
                            struct kvt_error *err)
{
    const struct kvt_speculation_method *method = env->run->speculation;
    const void *data = env->run->speculation_data;
    size_t bytes = (method->request_bytes(data) + 15) / 16 * 16;
    struct kvt_speculation_request *asks = calloc(active, sizeof *asks);
    struct kvt_round *planned = calloc(active, sizeof *planned);
    char *states = calloc(active, bytes ? bytes : 1);
    size_t scratch_bytes = method->plan_bytes ? method->plan_bytes(data, active) : 0;
    void *scratch = malloc(scratch_bytes ? scratch_bytes : 1);
    kvt_status status = KVT_OK;

    if (asks && planned && states && scratch) {
        for (uint32_t i = 0; i < active; i++) {
            asks[i] =
                (struct kvt_speculation_request){.state = states + (size_t)i * bytes,
                                                 .id = first + i,
                                                 .context_tokens = env->input_tokens,
                                                 .generated_tokens = 1,
                                                 .queries_max = env->run->scenario->queries_max};
            method->request_init(data, asks[i].state, first + i, 0);
        }
        plan_all(env, asks, scratch, active, planned, requests, rounds, out);
    } else {
        status = kvt_fail_nomem(err, "rounds to measure");
    }
    free(asks);
    free(planned);
    free(states);
    free(scratch);
    return status;
}

kvt_status surface_open_method(const struct kvt_analytic_env *run, void **out,
                               struct kvt_error *err)
{
    const struct kvt_scenario *scenario = run->scenario;
    const struct kvt_speculation_env env = {.params = scenario->speculation.params,
                                            .llm = scenario->llm,
                                            .drafter = scenario->drafter,
                                            .tasks = scenario->tasks,
                                            .task_count = 1,
                                            .run_seed = SURFACE_SEED,
                                            .host = kvt_host()};

    return KVT_PLUGIN_CALL(run->speculation, prepare, err, &env, out);
}

kvt_status surface_plan(const struct surface_env *env, uint32_t active, uint32_t requests,
                        uint32_t rounds, struct kvt_round *out, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    /* Fewer at once than are asked for: one load after the other. */
    for (uint32_t first = 0; first < requests && status == KVT_OK; first += active) {
        uint32_t here = requests - first < active ? requests - first : active;
        status = plan_some(env, active, first, here, rounds, out + (size_t)first * rounds, err);
    }
    return status;
}
