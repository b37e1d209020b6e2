/* speculation_bench.c -- speculation methods without a scenario around them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speculation_bench.h"

static const char *const tasks[SPECULATION_TASKS] = {"default", "code", "chat"};

void speculation_bench_make(struct speculation_bench *bench,
                            const struct kvt_speculation_method *method)
{
    const struct kvt_plugin_info *info = &method->info;
    ck_assert_uint_le(info->param_count, SPECULATION_PARAMS_MAX);
    *bench = (struct speculation_bench){
        .method = method,
        .drafter = {.name = "any", .layers = 1, .kv_heads = 1, .head_dim = 64, .block_max = 32},
    };
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        bench->values[i] =
            (struct kvt_param_value){.number = spec->default_number, .text = spec->default_text};
    }
    bench->env = (struct kvt_speculation_env){
        .params = {.values = bench->values, .count = info->param_count},
        .drafter = &bench->drafter,
        .tasks = tasks,
        .task_count = SPECULATION_TASKS,
        .run_seed = 2385,
    };
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, "acceptance") == 0)
            speculation_bench_table(bench, "acceptance", info->params[i].default_text);
    }
}

struct kvt_param_value *speculation_bench_param(struct speculation_bench *bench, const char *name)
{
    for (size_t i = 0; i < bench->method->info.param_count; i++) {
        if (strcmp(bench->method->info.params[i].name, name) == 0)
            return &bench->values[i];
    }
    ck_abort_msg("%s has no parameter %s", bench->method->info.name, name);
}

void speculation_bench_table(struct speculation_bench *bench, const char *param, const char *name)
{
    struct kvt_param_value *value = speculation_bench_param(bench, param);
    char *path = bench->paths[value - bench->values];
    (void)snprintf(path, sizeof bench->paths[0], "%s/models/%s/%s.json", KVT_TEST_ROOT, param,
                   name);
    value->text = path;
}

kvt_status speculation_bench_try(struct speculation_bench *bench, struct kvt_error *err)
{
    bench->data = NULL;
    kvt_status status = bench->method->prepare(&bench->env, &bench->data, err);
    if (status == KVT_OK)
        bench->method->shape(bench->data, &bench->shape);
    return status;
}

void speculation_bench_start(struct speculation_bench *bench)
{
    struct kvt_error err = {0};
    kvt_status status = speculation_bench_try(bench, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

void speculation_bench_end(struct speculation_bench *bench)
{
    bench->method->free(bench->data);
    bench->data = NULL;
}

static void *must(void *memory)
{
    ck_assert_ptr_nonnull(memory);
    return memory;
}

void speculation_batch_make(struct speculation_batch *batch, const struct speculation_bench *bench,
                            uint32_t count, uint32_t first_id, uint32_t task)
{
    const struct kvt_speculation_method *method = bench->method;
    size_t bytes = method->request_bytes(bench->data);
    size_t stride = (bytes + 15) / 16 * 16;
    *batch = (struct speculation_batch){
        .bench = bench,
        .requests = must(calloc(count, sizeof *batch->requests)),
        .rounds = must(calloc(count, sizeof *batch->rounds)),
        .count = count,
        .states = must(calloc(count, stride + 1)),
    };
    for (uint32_t i = 0; i < count; i++) {
        batch->requests[i] =
            (struct kvt_speculation_request){.state = batch->states + i * stride,
                                             .id = first_id + i,
                                             .context_tokens = 1000,
                                             .queries_max = bench->shape.queries_max};
        method->request_init(bench->data, batch->requests[i].state, first_id + i, task);
    }
    size_t scratch_bytes = method->plan_bytes ? method->plan_bytes(bench->data, count) : 0;
    batch->view = (struct kvt_speculation_view){
        .requests = batch->requests,
        .request_count = count,
        .scratch = must(malloc(scratch_bytes + 1)),
    };
}

void speculation_batch_plan(struct speculation_batch *batch)
{
    batch->bench->method->plan(batch->bench->data, &batch->view, batch->rounds);
}

void speculation_batch_free(struct speculation_batch *batch)
{
    free(batch->requests);
    free(batch->rounds);
    free(batch->states);
    free(batch->view.scratch);
}

double speculation_batch_tokens(struct speculation_batch *batch, uint32_t plans)
{
    uint64_t tokens = 0;
    for (uint32_t plan = 0; plan < plans; plan++) {
        speculation_batch_plan(batch);
        for (uint32_t i = 0; i < batch->count; i++)
            tokens += batch->rounds[i].committed_tokens;
    }
    return (double)tokens / ((double)plans * batch->count);
}
