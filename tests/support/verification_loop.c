/* verification_loop.c -- rounds of one method, one after another, timed by a cost table. */
#include "verification_loop.h"

#include <stdlib.h>
#include <string.h>

extern const struct kvt_speculation_method kvt_speculation_dspark;

enum {
    PARAMS_MAX = 16
};

static void set_param(struct kvt_param_value values[PARAMS_MAX], const char *name, double number,
                      const char *text)
{
    const struct kvt_plugin_info *info = &kvt_speculation_dspark.info;
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            values[i] = (struct kvt_param_value){.number = number, .text = text};
    }
}

static kvt_status prepare(const struct verification_loop *loop, void **out, struct kvt_error *err)
{
    static const char *const tasks[] = {"default"};
    static const struct kvt_drafter drafter = {.name = "any", .block_max = 1 + VERIFICATION_DRAFTS};
    const struct kvt_plugin_info *info = &kvt_speculation_dspark.info;
    struct kvt_param_value values[PARAMS_MAX];
    for (size_t i = 0; i < info->param_count; i++)
        values[i] = (struct kvt_param_value){.number = info->params[i].default_number,
                                             .text = info->params[i].default_text};
    set_param(values, "acceptance", 0, loop->acceptance_path);
    set_param(values, "costs", 0, loop->costs_path);
    set_param(values, "confidence_lag_rounds", loop->lag_rounds, NULL);
    set_param(values, "fixed_drafts", loop->scheme > 0 ? loop->scheme : 0, NULL);
    struct kvt_speculation_env env = {
        .params = {.values = values, .count = info->param_count},
        .drafter = &drafter,
        .tasks = tasks,
        .task_count = 1,
        .run_seed = loop->seed,
    };
    return kvt_speculation_dspark.prepare(&env, out, err);
}

/* A round of all requests; adds what it delivers and takes. */
static void run_round(const struct verification_loop *loop, void *method,
                      const struct kvt_speculation_view *view, struct kvt_round *rounds,
                      const struct kvt_costs *costs, struct verification_rate *sums,
                      double *total_ms)
{
    uint32_t requests = loop->requests;
    uint32_t queries = 0;
    kvt_speculation_dspark.plan(method, view, rounds);
    for (uint32_t i = 0; i < requests; i++) {
        queries += rounds[i].query_count;
        sums->tokens_per_round += rounds[i].committed_tokens;
    }
    sums->verified_per_round += queries - requests;
    *total_ms += kvt_costs_draft_ms(costs, requests) + kvt_costs_verify_ms(costs, queries);
}

static void run_rounds(const struct verification_loop *loop, void *method,
                       struct kvt_speculation_view *view, struct kvt_round *rounds,
                       const struct kvt_costs *costs, struct verification_rate *out)
{
    struct verification_rate sums = {0};
    double total_ms = 0;
    for (uint32_t round = 0; round < loop->rounds; round++)
        run_round(loop, method, view, rounds, costs, &sums, &total_ms);
    double request_rounds = (double)loop->requests * loop->rounds;
    *out = (struct verification_rate){
        .user_tokens_per_s = sums.tokens_per_round / loop->requests / total_ms * 1e3,
        .tokens_per_round = sums.tokens_per_round / request_rounds,
        .verified_per_round = sums.verified_per_round / request_rounds,
    };
}

static kvt_status run_prepared(const struct verification_loop *loop, void *method,
                               const struct kvt_costs *costs, struct verification_rate *out,
                               struct kvt_error *err)
{
    uint32_t requests = loop->requests;
    size_t stride = (kvt_speculation_dspark.request_bytes(method) + 15) / 16 * 16;
    struct kvt_speculation_request *asks = calloc(requests, sizeof *asks);
    struct kvt_round *rounds = calloc(requests, sizeof *rounds);
    unsigned char *states = calloc(requests, stride);
    void *scratch = malloc(kvt_speculation_dspark.plan_bytes(method, requests));
    kvt_status status = KVT_OK;
    if (asks == NULL || rounds == NULL || states == NULL || scratch == NULL) {
        status = kvt_fail_nomem(err, "a loop of rounds");
    } else {
        for (uint32_t i = 0; i < requests; i++) {
            asks[i] = (struct kvt_speculation_request){
                .state = states + i * stride, .id = i, .queries_max = 1 + VERIFICATION_DRAFTS};
            kvt_speculation_dspark.request_init(method, asks[i].state, i, 0);
        }
        struct kvt_speculation_view view = {
            .requests = asks, .request_count = requests, .scratch = scratch};
        run_rounds(loop, method, &view, rounds, costs, out);
    }
    free(asks);
    free(rounds);
    free(states);
    free(scratch);
    return status;
}

kvt_status verification_run(const struct verification_loop *loop, struct verification_rate *out,
                            struct kvt_error *err)
{
    struct kvt_costs costs;
    kvt_status status = kvt_costs_load(loop->costs_path, &costs, err);
    if (status != KVT_OK)
        return status;
    if (loop->scheme == VERIFICATION_NONE) {
        *out = (struct verification_rate){
            .user_tokens_per_s = 1e3 / kvt_costs_verify_ms(&costs, loop->requests),
            .tokens_per_round = 1,
        };
        return KVT_OK;
    }
    void *method = NULL;
    status = prepare(loop, &method, err);
    if (status == KVT_OK)
        status = run_prepared(loop, method, &costs, out, err);
    kvt_speculation_dspark.free(method);
    return status;
}
