/* timing_bench.c -- GLM-5.3 on H200s, and the loads of its ranks. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "timing_bench.h"

/* GLM-5.3: stores {0}, {1}, {2..5}, ... {74..77}, the first layer of each selecting. */
static struct kvt_llm glm(void)
{
    struct kvt_llm llm = {.name = "glm-5.3",
                          .layers = 78,
                          .hidden = 6144,
                          .heads = 64,
                          .latent_dim = 512,
                          .rope_dim = 64,
                          .index_heads = 32,
                          .index_dim = 128,
                          .top_k = 2048,
                          .experts = 256,
                          .experts_active = 8,
                          .weight_bytes = 753e9,
                          .dense_weight_bytes = 27e9,
                          .active_parameters = 40e9,
                          .payload = {.capacity_bytes = 576, .wire_bytes = 576},
                          .index = {.capacity_bytes = 132, .wire_bytes = 132},
                          .store_count = 21,
                          .selector_count = 21};
    for (uint32_t i = 0; i < llm.store_count; i++) {
        uint32_t first_layer = i < 2 ? i : 4 * i - 6;
        llm.stores[i] = (struct kvt_store){
            .first_layer = first_layer, .layers = i < 2 ? 1 : 4, .compress_ratio = 1};
        llm.selectors[i] = (struct kvt_selector){first_layer, i};
    }
    return llm;
}

/* The H200 of the measurements: one layer's kernels, alone. */
static struct kvt_hardware h200(void)
{
    return (struct kvt_hardware){.name = "h200",
                                 .hbm_bytes_per_s = UINT64_C(4800000000000),
                                 .link_h2d_bytes_per_s = UINT64_C(51300000000),
                                 .link_d2h_bytes_per_s = UINT64_C(51300000000),
                                 .link_granules_per_s = 33e6,
                                 .link_latency_ns = 20000,
                                 .fp8_flops = 1979e12,
                                 .bf16_flops = 989e12,
                                 .interconnect_bytes_per_s = UINT64_C(450000000000)};
}

void timing_bench_make(struct timing_bench *bench, const struct kvt_timing_model *model)
{
    *bench = (struct timing_bench){.model = model, .llm = glm(), .hardware = h200()};
    bench->env = (struct kvt_timing_env){
        .params = support_default_params(&model->info, bench->values),
        .llm = &bench->llm,
        .hardware = &bench->hardware,
        .residency = "hisparse",
        .speculation = "none",
        .queries_max = 1,
        .tp = 1,
        .dp = 4,
        .ep = 4,
        .gpus_per_node = 8,
        .ranks_per_link_node = 4,
    };
}

struct kvt_param_value *timing_bench_param(struct timing_bench *bench, const char *name)
{
    for (size_t i = 0; i < bench->model->info.param_count; i++) {
        if (strcmp(bench->model->info.params[i].name, name) == 0)
            return &bench->values[i];
    }
    ck_abort_msg("%s has no parameter %s", bench->model->info.name, name);
}

kvt_status timing_bench_try(struct timing_bench *bench, struct kvt_error *err)
{
    ck_assert_uint_le(bench->model->state_bytes(&bench->env), sizeof bench->state);
    memset(bench->state, 0, sizeof bench->state);
    return bench->model->init(bench->state, &bench->env, err);
}

void timing_bench_start(struct timing_bench *bench)
{
    struct kvt_error err = {0};
    kvt_status status = timing_bench_try(bench, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

struct kvt_rank_load timing_rank_load(const struct kvt_llm *llm, uint32_t requests, double miss)
{
    struct kvt_rank_load load = {
        .requests = requests, .queries = requests, .calls = requests * llm->selector_count};
    for (uint32_t i = 0; i < llm->selector_count; i++) {
        double selected = 2048.0 * requests;
        uint32_t layers = llm->stores[llm->selectors[i].store].layers;
        load.selected_rows += selected;
        load.attended_layer_rows += selected * layers;
        load.missed_layer_rows += selected * layers * miss;
        load.leader_layer_rows += selected * miss;
    }
    load.context_rows = UINT64_C(100032) * requests;
    load.looked_up_rows = load.selected_rows;
    load.missed_rows = load.selected_rows * miss;
    load.wire_bytes = load.missed_layer_rows * llm->payload.wire_bytes;
    load.granules = load.missed_rows / 2;
    load.calls_with_misses = miss > 0 ? (double)requests * llm->selector_count : 0;
    load.group_queries = 4 * requests;
    return load;
}

struct kvt_group_load timing_group_load(uint32_t queries, uint32_t ranks)
{
    return (struct kvt_group_load){.queries = queries,
                                   .ranks = ranks,
                                   .queries_max = (queries + ranks - 1) / ranks,
                                   .requests = queries};
}

double timing_rank_part_us(const struct timing_bench *bench, const struct kvt_rank_load *load,
                           enum kvt_step_part part)
{
    double parts[KVT_PARTS] = {0};
    bench->model->rank_step(bench->state, load, parts);
    return parts[part] / 1e3;
}

void timing_assert_near(double value, double expected, double relative)
{
    ck_assert_msg(fabs(value - expected) <= relative * fabs(expected), "%.9g is not %.9g +- %g",
                  value, expected, relative);
}
