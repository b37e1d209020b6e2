/* test_timing.c -- step times: the paper's, the measured kernels', and dimensions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/timing.h"
#include "support/plugin_params.h"

extern const struct kvt_timing_model kvt_timing_roofline;
extern const struct kvt_timing_model kvt_timing_paper;

static const struct kvt_timing_model *const models[] = {&kvt_timing_roofline, &kvt_timing_paper};

/* A model stood up with its defaults, which a test may change before start(). */
struct bench {
    const struct kvt_timing_model *model;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_llm llm;
    struct kvt_hardware hardware;
    struct kvt_timing_env env;
    uint64_t state[128];
};

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
        llm.stores[i] = (struct kvt_store){first_layer, i < 2 ? 1 : 4, 1};
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

static void bench_make(struct bench *bench, const struct kvt_timing_model *model)
{
    *bench = (struct bench){.model = model, .llm = glm(), .hardware = h200()};
    bench->env = (struct kvt_timing_env){
        .params = support_default_params(&model->info, bench->values),
        .llm = &bench->llm,
        .hardware = &bench->hardware,
        .residency = "hisparse",
        .tp = 1,
        .dp = 4,
        .ep = 4,
        .gpus_per_node = 8,
        .ranks_per_link_node = 4,
    };
}

static struct kvt_param_value *bench_param(struct bench *bench, const char *name)
{
    for (size_t i = 0; i < bench->model->info.param_count; i++) {
        if (strcmp(bench->model->info.params[i].name, name) == 0)
            return &bench->values[i];
    }
    ck_abort_msg("%s has no parameter %s", bench->model->info.name, name);
}

static kvt_status bench_try(struct bench *bench, struct kvt_error *err)
{
    ck_assert_uint_le(bench->model->state_bytes(&bench->env), sizeof bench->state);
    memset(bench->state, 0, sizeof bench->state);
    return bench->model->init(bench->state, &bench->env, err);
}

static void bench_start(struct bench *bench)
{
    struct kvt_error err = {0};
    kvt_status status = bench_try(bench, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

/* `requests` at 100,032 tokens, each selecting 2,048 rows in every selector, of
 * which the share `miss` crosses the link. */
static struct kvt_rank_load rank_load(const struct kvt_llm *llm, uint32_t requests, double miss)
{
    struct kvt_rank_load load = {.requests = requests, .queries = requests};
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

static struct kvt_group_load group_load(uint32_t queries, uint32_t ranks)
{
    return (struct kvt_group_load){queries, ranks, (queries + ranks - 1) / ranks};
}

static double rank_part_us(const struct bench *bench, const struct kvt_rank_load *load,
                           enum kvt_step_part part)
{
    double parts[KVT_PARTS] = {0};
    bench->model->rank_step(bench->state, load, parts);
    return parts[part] / 1e3;
}

static double dense_us(const struct bench *bench, const struct kvt_group_load *load)
{
    double parts[KVT_PARTS] = {0};
    bench->model->group_step(bench->state, load, parts);
    return parts[KVT_PART_DENSE] / 1e3;
}

static double sum(const double parts[KVT_PARTS])
{
    double total = 0;
    for (size_t i = 0; i < KVT_PARTS; i++)
        total += parts[i];
    return total;
}

static void assert_near(double value, double expected, double relative)
{
    ck_assert_msg(fabs(value - expected) <= relative * fabs(expected), "%.9g is not %.9g +- %g",
                  value, expected, relative);
}

/* ---- paper ------------------------------------------------------------------ */

/* Mean TPOT of Table 2 at its mean active requests. A hundred ranks' worth of
 * requests at once, as requests come whole and the rank's part is linear. */
START_TEST(the_paper_profile_gives_table_2)
{
    static const struct {
        const char *residency;
        uint32_t requests_x100, active;
        double miss, tpot_ms;
    } rows[] = {
        {"hisparse", 3027, 121, 0.142, 50.3},
        {"hisparse", 4762, 190, 0.142, 58.0},
        {"adaptive", 3140, 126, 0.1236, 46.6}, /* coverage .064: (1 - c) u(2 / (1 - c)) */
        {"adaptive", 5040, 202, 0.142, 54.4},
    };
    struct bench bench;
    bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = rows[_i].residency;
    bench_start(&bench);

    double group[KVT_PARTS] = {0}, rank[KVT_PARTS] = {0};
    struct kvt_group_load active = group_load(rows[_i].active, 4);
    struct kvt_rank_load load = rank_load(&bench.llm, rows[_i].requests_x100, rows[_i].miss);
    bench.model->group_step(bench.state, &active, group);
    bench.model->rank_step(bench.state, &load, rank);
    double step_ms = (sum(group) + sum(rank) / 100) / 1e6;
    ck_assert_msg(fabs(step_ms - rows[_i].tpot_ms) <= 0.3, "%.2f ms", step_ms);
}
END_TEST

START_TEST(a_missed_selection_of_glm_costs_2437_bytes_at_49_4_gb_per_s)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_paper);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 1, 1.0);

    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 43008 * 2436.57 / 49.4e3, 1e-6);
}
END_TEST

START_TEST(the_paper_profile_refuses_other_policies_in_these_words)
{
    static const char *const others[] = {"resident", "vllm-hybrid", "hisparse2", ""};
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = others[_i];

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "profile \"paper\" holds constants for hisparse, adaptive only");
}
END_TEST

START_TEST(the_paper_profile_refuses_other_models)
{
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_timing_paper);
    bench.llm.name = "other-57";
    bench.llm.store_count = 20;

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "78 payload layers in 21 stores"));
    ck_assert_ptr_nonnull(strstr(err.message, "\"other-57\" has 74 in 20"));
}
END_TEST

START_TEST(the_paper_profile_refuses_ranks_of_several_gpus)
{
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_timing_paper);
    bench.env.tp = 8;

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "tp 8"));
}
END_TEST

/* ---- roofline against kernels measured on an H200 ----------------------------
 *
 * Most defaults were set on these measurements, so that agreement shows that the
 * model's form and units are right, not that it predicts. Rows that no default
 * was set on say so. */

/* One layer, one store, one selector: a kernel by itself. */
static void kernel_make(struct bench *bench)
{
    bench_make(bench, &kvt_timing_roofline);
    bench->llm.layers = 1;
    bench->llm.store_count = 1;
    bench->llm.selector_count = 1;
    bench_start(bench);
}

START_TEST(sparse_attention_takes_what_flashmla_takes)
{
    static const struct {
        uint32_t requests, queries, heads;
        double us;
    } rows[] = {
        {32, 1, 64, 47.1},    {32, 4, 64, 114.1},  {32, 8, 64, 223.7}, {128, 1, 64, 115.4},
        {1, 1, 64, 17.9},     {128, 2, 64, 224.8}, {8, 4, 64, 46.1},   {1, 8, 64, 20.8},
        {32, 1, 128, 62.8},   {32, 4, 128, 184.0}, {32, 8, 128, 369},  {128, 1, 128, 185.5},
        {128, 2, 128, 374.0}, /* no default was set on those of 128 heads */
    };
    struct bench bench;
    kernel_make(&bench);
    bench.llm.heads = rows[_i].heads;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, rows[_i].requests, 0);
    load.queries *= rows[_i].queries;
    load.attended_layer_rows *= rows[_i].queries;

    assert_near(rank_part_us(&bench, &load, KVT_PART_ATTEND), rows[_i].us, 0.2);
}
END_TEST

START_TEST(scan_and_top_k_take_what_deepgemm_and_vllm_take)
{
    struct bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 32, 0);
    load.context_rows = UINT64_C(32) * 102400;

    assert_near(rank_part_us(&bench, &load, KVT_PART_INDEX), 139.6, 0.1);
}
END_TEST

START_TEST(a_resolve_without_misses_takes_what_sglang_takes)
{
    struct bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 32, 0);

    assert_near(rank_part_us(&bench, &load, KVT_PART_RESOLVE), 17.7, 0.05);
}
END_TEST

/* A step of 21 groups in turn, contexts contiguous: us a launch of 32 requests by
 * the fastest of three gathers. 33 M granules a second is the middle of what these
 * rows gave; the model is pessimistic where misses are few. */
START_TEST(a_fetch_takes_what_a_gather_of_the_same_rows_takes)
{
    static const struct {
        uint32_t row_bytes, misses;
        double granules, us;
    } rows[] = {
        {2304, 300, 9530, 448}, {2304, 2048, 0, 3010}, /* granules not counted: bound by the link */
        {576, 128, 3855, 103},  {576, 300, 8236, 250},   {576, 2048, 25924, 784},
        {288, 300, 7070, 186},  {288, 2048, 14248, 413},
    };
    struct bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 32, 0);
    load.missed_rows = load.missed_layer_rows = load.leader_layer_rows = 32.0 * rows[_i].misses;
    load.wire_bytes = load.missed_rows * rows[_i].row_bytes;
    load.granules = rows[_i].granules;
    load.calls_with_misses = 32;

    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), rows[_i].us, 0.16);
}
END_TEST

/* ---- roofline, dimensions ---------------------------------------------------- */

START_TEST(twice_the_link_halves_a_fetch_bound_by_bytes)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 30, 0.142);
    double before_us = rank_part_us(&bench, &load, KVT_PART_FETCH);

    assert_near(before_us, load.wire_bytes / 51.3e3, 1e-9);
    bench.hardware.link_h2d_bytes_per_s *= 2;
    bench_start(&bench);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), before_us / 2, 1e-9);
}
END_TEST

START_TEST(the_gpus_of_a_node_share_its_dram)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench.env.dram_bytes_per_s = UINT64_C(100000000000);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 30, 0.142);
    double four_us = rank_part_us(&bench, &load, KVT_PART_FETCH);

    assert_near(four_us, load.wire_bytes / (100e3 * 0.8 / 4), 1e-9);
    bench.env.ranks_per_link_node = 8;
    bench_start(&bench);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 2 * four_us, 1e-9);
    bench.env.ranks_per_link_node = 1;
    bench_start(&bench);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), load.wire_bytes / 51.3e3, 1e-9);
}
END_TEST

START_TEST(few_misses_cost_a_latency_a_selector)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 30, 1e-6);

    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 21 * 20, 1e-9);
    load.calls_with_misses = 3;
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 3 * 20, 1e-9);
}
END_TEST

START_TEST(background_traffic_slows_a_fetch_twofold_at_most)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 30, 0.142);
    double alone_us = rank_part_us(&bench, &load, KVT_PART_FETCH);

    load.import_bytes = (uint64_t)(load.wire_bytes / 8);
    load.fill_bytes = (uint64_t)(load.wire_bytes / 8);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 1.25 * alone_us, 1e-6);
    load.import_bytes = UINT64_MAX;
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 2 * alone_us, 1e-9);
    load.import_bytes = load.fill_bytes = 0;
    load.backup_bytes = UINT64_MAX; /* the other direction */
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), alone_us / 0.91, 1e-9);
}
END_TEST

START_TEST(background_traffic_alone_costs_no_step_anything)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 30, 0);
    load.import_bytes = load.fill_bytes = load.backup_bytes = UINT64_C(1) << 40;

    ck_assert_double_eq(rank_part_us(&bench, &load, KVT_PART_FETCH), 0);
}
END_TEST

START_TEST(leader_first_hides_followers_behind_their_layers_compute)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_param(&bench, "fetch_order")->number = 1;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 40, 0.1);
    load.granules /= 100; /* bound by bytes */
    double leader_us = load.leader_layer_rows * 576 / 51.3e3;
    double follower_us = load.wire_bytes / 51.3e3 - leader_us;
    struct kvt_group_load group = group_load(160, 4);
    double compute_us = dense_us(&bench, &group) + rank_part_us(&bench, &load, KVT_PART_ATTEND);

    ck_assert_double_lt(follower_us, compute_us * 57 / 78);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), leader_us, 1e-9);

    load.wire_bytes *= 20;
    leader_us *= 20;
    follower_us *= 20;
    ck_assert_double_gt(follower_us, compute_us * 57 / 78);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH),
                leader_us + follower_us - compute_us * 57 / 78, 1e-9);
}
END_TEST

START_TEST(leader_first_without_compute_pays_every_copy)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_param(&bench, "fetch_order")->number = 1;
    bench_param(&bench, "layer_overhead_us")->number = 0;
    bench_param(&bench, "collective_us")->number = 0;
    bench_param(&bench, "attention_launch_us")->number = 0;
    bench.llm.weight_bytes = bench.llm.dense_weight_bytes = bench.llm.active_parameters = 0;
    bench.hardware.interconnect_bytes_per_s = UINT64_MAX;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 40, 0.1);
    load.attended_layer_rows = 0;
    load.granules = 0;
    const double copies = 78.0 / 21;
    double bytes_us = load.wire_bytes / 51.3e3;
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), bytes_us, 1e-4);

    /* What got in the leaders' way does not get in the followers' again. */
    load.import_bytes = (uint64_t)(load.wire_bytes / copies);
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), bytes_us * (1 + 1 / copies), 1e-4);
    load.import_bytes = 0;
    load.granules = 1e6;
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), copies * 1e6 / 33, 1e-4);
    load.granules = 0;
    load.wire_bytes = 1;
    assert_near(rank_part_us(&bench, &load, KVT_PART_FETCH), 78 * 20, 1e-4);
}
END_TEST

START_TEST(history_in_hbm_leaves_nothing_to_resolve)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench.env.history_in_hbm = true;
    bench.hardware.link_h2d_bytes_per_s = 0; /* and needs no link */
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 4, 0);
    load.looked_up_rows = 0;

    ck_assert_double_eq(rank_part_us(&bench, &load, KVT_PART_RESOLVE), 0);
    ck_assert_double_eq(rank_part_us(&bench, &load, KVT_PART_FETCH), 0);
    ck_assert_double_gt(rank_part_us(&bench, &load, KVT_PART_ATTEND), 0);
}
END_TEST

/* Dense time alone: no overheads. */
static void dense_make(struct bench *bench, uint32_t tp, uint32_t dp, uint32_t ep)
{
    bench_make(bench, &kvt_timing_roofline);
    bench_param(bench, "layer_overhead_us")->number = 0;
    bench_param(bench, "collective_us")->number = 0;
    bench->hardware.interconnect_bytes_per_s = UINT64_MAX;
    bench->env.tp = tp;
    bench->env.dp = dp;
    bench->env.ep = ep;
    bench_start(bench);
}

START_TEST(one_query_reads_the_dense_weights_and_its_own_experts)
{
    struct bench bench;
    struct kvt_group_load load = group_load(1, 1);
    dense_make(&bench, 1, 1, 1);

    assert_near(dense_us(&bench, &load), (27e9 + 726e9 * 8 / 256) / (4.8e6 * 0.8), 1e-9);
}
END_TEST

START_TEST(many_queries_read_every_expert)
{
    struct bench bench;
    struct kvt_group_load few = group_load(64, 1), many = group_load(256, 1);
    dense_make(&bench, 1, 1, 1);
    double touched = 1 - pow(1 - 8.0 / 256, 64);

    assert_near(dense_us(&bench, &few), (27e9 + 726e9 * touched) / (4.8e6 * 0.8), 1e-9);
    assert_near(dense_us(&bench, &many), 753e9 / (4.8e6 * 0.8), 1e-3);
}
END_TEST

START_TEST(twice_the_tensor_parallelism_halves_the_dense_time)
{
    struct bench bench;
    struct kvt_group_load light = group_load(8, 1), heavy = group_load(1 << 20, 1);
    dense_make(&bench, 4, 1, 1);
    double light_us = dense_us(&bench, &light);
    double heavy_us = dense_us(&bench, &heavy);

    assert_near(heavy_us, 2 * 40e9 * 1048576 / 4 / (1979e6 * 0.6), 1e-3); /* bound by flops */
    dense_make(&bench, 8, 1, 1);
    assert_near(dense_us(&bench, &light), light_us / 2, 1e-6);
    assert_near(dense_us(&bench, &heavy), heavy_us / 2, 1e-3);
}
END_TEST

START_TEST(expert_parallelism_spreads_experts_and_brings_all_queries_to_them)
{
    struct bench bench;
    struct kvt_group_load load = group_load(16, 4);
    dense_make(&bench, 1, 4, 1);
    double own = 1 - pow(1 - 8.0 / 256, 4);
    assert_near(dense_us(&bench, &load), (27e9 + 726e9 * own) / (4.8e6 * 0.8), 1e-9);

    dense_make(&bench, 1, 4, 4);
    double all = 1 - pow(1 - 8.0 / 256, 16);
    assert_near(dense_us(&bench, &load), (27e9 + 726e9 / 4 * all) / (4.8e6 * 0.8), 1e-6);
}
END_TEST

/* Ring all-reduces of bf16 move 2 (n - 1) / n of the bytes; an expert's input
 * goes out as fp8 and comes back as bf16. */
START_TEST(collectives_take_their_latencies_and_bytes)
{
    static const struct {
        uint32_t tp, dp, ep;
        double count, bytes; /* in one layer, for one query and GPU */
    } rows[] = {
        {1, 4, 1, 0, 0},
        {8, 1, 1, 2, 2 * 2 * 7.0 / 8 * 2 * 6144},
        {8, 1, 8, 2, 2 * 2 * 7.0 / 8 * 2 * 6144}, /* the replica holds all experts */
        {2, 16, 32, 3, 2 * 1.0 / 2 * 2 * 6144 + 8 * 31.0 / 32 * 3 * 6144 / 2},
    };
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench.llm.weight_bytes = bench.llm.dense_weight_bytes = bench.llm.active_parameters = 0;
    bench.env.tp = rows[_i].tp;
    bench.env.dp = rows[_i].dp;
    bench.env.ep = rows[_i].ep;
    bench_start(&bench);
    struct kvt_group_load load = group_load(30, 1);

    assert_near(dense_us(&bench, &load),
                78 * (10 + 8 * rows[_i].count + 30 * rows[_i].bytes / (450e3 * 0.7)), 1e-9);
}
END_TEST

START_TEST(many_queries_scan_at_the_rate_of_math)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_param(&bench, "topk_launch_us")->number = 0;
    bench_param(&bench, "topk_passes")->number = 0;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 2, 0);
    load.queries = 16;

    assert_near(rank_part_us(&bench, &load, KVT_PART_INDEX),
                21 * 2 * 100032.0 * 8 * 2 * 32 * 128 / (1979e6 * 0.6), 1e-9);
}
END_TEST

START_TEST(a_model_without_experts_reads_all_its_weights)
{
    struct bench bench;
    struct kvt_group_load load = group_load(3, 1);
    bench_make(&bench, &kvt_timing_roofline);
    bench_param(&bench, "layer_overhead_us")->number = 0;
    bench.llm.experts = bench.llm.experts_active = 0;
    bench.llm.dense_weight_bytes = 0;
    bench.env.ep = bench.env.dp = 1;
    bench_start(&bench);

    assert_near(dense_us(&bench, &load), 753e9 / (4.8e6 * 0.8), 1e-9);
}
END_TEST

START_TEST(tensor_parallel_ranks_share_heads_but_not_rows)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench.env.ep = 1;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 8, 0.142);
    double index_us = rank_part_us(&bench, &load, KVT_PART_INDEX);
    double fetch_us = rank_part_us(&bench, &load, KVT_PART_FETCH);
    bench.env.tp = 8;
    bench_start(&bench);

    ck_assert_double_eq(rank_part_us(&bench, &load, KVT_PART_INDEX), index_us);
    ck_assert_double_eq(rank_part_us(&bench, &load, KVT_PART_FETCH), fetch_us);
    double rows_us = rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15;
    assert_near(rows_us, load.attended_layer_rows * 576 / (4.8e6 * 0.8), 1e-6);
}
END_TEST

START_TEST(a_store_of_a_higher_ratio_is_scanned_in_proportion)
{
    struct bench bench;
    bench_make(&bench, &kvt_timing_roofline);
    bench_param(&bench, "topk_launch_us")->number = 0;
    bench_start(&bench);
    struct kvt_rank_load load = rank_load(&bench.llm, 8, 0);
    double before_us = rank_part_us(&bench, &load, KVT_PART_INDEX);
    for (uint32_t i = 0; i < bench.llm.store_count; i++)
        bench.llm.stores[i].compress_ratio = 4;
    bench_start(&bench);

    assert_near(rank_part_us(&bench, &load, KVT_PART_INDEX), before_us / 4, 1e-9);
}
END_TEST

START_TEST(roofline_refuses_hardware_without_the_rates_it_needs)
{
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_timing_roofline);
    uint64_t *const rates[] = {&bench.hardware.hbm_bytes_per_s,
                               &bench.hardware.link_h2d_bytes_per_s,
                               &bench.hardware.interconnect_bytes_per_s};
    static const char *const names[] = {"hbm_bytes_per_s", "link_h2d_bytes_per_s",
                                        "interconnect_bytes_per_s"};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        uint64_t rate = *rates[i];
        *rates[i] = 0;
        ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.message, names[i]));
        *rates[i] = rate;
    }
    bench.hardware.fp8_flops = 0;
    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "dense_math"));
}
END_TEST

/* ---- every model --------------------------------------------------------------- */

enum {
    PROBES = 3,
    PROBE_VALUES = PROBES * 2 * 2 * KVT_PARTS
};

/* Every part of light, usual and heavy loads, in a replica of one GPU and in one
 * of eight short of DRAM, under both policies. */
static void probe(struct bench *bench, double out[PROBE_VALUES])
{
    static const char *const policies[] = {"hisparse", "adaptive"};
    static const uint32_t requests[PROBES] = {1, 40, 20000};
    double *parts = out;
    memset(out, 0, PROBE_VALUES * sizeof out[0]);
    for (size_t variant = 0; variant < 4; variant++) {
        bool is_wide = variant >= 2 && bench->model == &kvt_timing_roofline;
        bench->env.residency = policies[variant % 2];
        bench->env.tp = is_wide ? 8 : 1;
        bench->env.dram_bytes_per_s = is_wide ? UINT64_C(50000000000) : 0;
        bench_start(bench);
        for (size_t i = 0; i < PROBES; i++, parts += KVT_PARTS) {
            struct kvt_group_load group = group_load(4 * requests[i], 4);
            struct kvt_rank_load rank = rank_load(&bench->llm, requests[i], 0.2);
            rank.backup_bytes = UINT64_C(100000) * requests[i];
            bench->model->group_step(bench->state, &group, parts);
            bench->model->rank_step(bench->state, &rank, parts);
        }
    }
}

static bool differ(const double a[PROBE_VALUES], const double b[PROBE_VALUES])
{
    for (size_t i = 0; i < PROBE_VALUES; i++) {
        if (a[i] != b[i])
            return true;
    }
    return false;
}

START_TEST(every_parameter_changes_a_step)
{
    const struct kvt_timing_model *model = models[_i];
    for (size_t i = 0; i < model->info.param_count; i++) {
        struct bench bench;
        double before[PROBE_VALUES], after[PROBE_VALUES];
        bench_make(&bench, model);
        probe(&bench, before);
        support_change_param(&model->info.params[i], &bench.values[i]);
        probe(&bench, after);
        ck_assert_msg(differ(before, after), "%s.%s changes nothing", model->info.name,
                      model->info.params[i].name);
    }
}
END_TEST

START_TEST(every_parameter_says_what_it_is)
{
    const struct kvt_plugin_info *info = &models[_i]->info;
    ck_assert_uint_eq(info->abi, KVT_ABI_VERSION);
    ck_assert_uint_eq(info->struct_bytes, sizeof(struct kvt_timing_model));
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        ck_assert_msg(spec->help[strlen(spec->help) - 1] == '.', "%s: %s", spec->name, spec->help);
        if (spec->type != KVT_PARAM_REAL)
            continue;
        ck_assert_double_ge(spec->default_number, spec->minimum);
        ck_assert_double_le(spec->default_number, spec->maximum);
    }
}
END_TEST

START_TEST(an_empty_load_takes_no_time)
{
    struct bench bench;
    bench_make(&bench, models[_i]);
    bench_start(&bench);
    struct kvt_rank_load rank = {0};
    struct kvt_group_load group = {.ranks = 4};
    double parts[KVT_PARTS] = {0};
    bench.model->group_step(bench.state, &group, parts);
    bench.model->rank_step(bench.state, &rank, parts);

    for (size_t i = 0; i < KVT_PARTS; i++)
        ck_assert_double_eq(parts[i], 0);
}
END_TEST

START_TEST(requests_that_select_nothing_take_finite_time)
{
    struct bench bench;
    bench_make(&bench, models[_i]);
    for (int order = 0; order < 2; order++) {
        if (bench.model == &kvt_timing_roofline)
            bench_param(&bench, "fetch_order")->number = order;
        bench_start(&bench);
        struct kvt_rank_load rank = {.requests = 1, .queries = 1};
        double parts[KVT_PARTS] = {0};
        bench.model->rank_step(bench.state, &rank, parts);
        ck_assert(isfinite(sum(parts)));
        ck_assert_double_eq(parts[KVT_PART_FETCH], 0);
    }
}
END_TEST

START_TEST(parts_are_added_to)
{
    struct bench bench;
    bench_make(&bench, models[_i]);
    bench_start(&bench);
    struct kvt_group_load group = group_load(40, 4);
    struct kvt_rank_load rank = rank_load(&bench.llm, 10, 0.142);
    double once[KVT_PARTS] = {0}, twice[KVT_PARTS] = {0};
    bench.model->group_step(bench.state, &group, once);
    bench.model->rank_step(bench.state, &rank, once);
    for (int i = 0; i < 2; i++) {
        bench.model->group_step(bench.state, &group, twice);
        bench.model->rank_step(bench.state, &rank, twice);
    }

    ck_assert_double_gt(sum(once), 0);
    for (size_t i = 0; i < KVT_PARTS; i++)
        assert_near(twice[i], 2 * once[i], 1e-12);
}
END_TEST

/* Doubles one number of the load; false past the last. */
static bool double_field(struct kvt_rank_load *load, size_t field)
{
    double *const reals[] = {
        &load->attended_layer_rows, &load->looked_up_rows,    &load->wire_bytes, &load->granules,
        &load->missed_rows,         &load->calls_with_misses,
    };
    uint64_t *const counts[] = {&load->context_rows, &load->backup_bytes, &load->import_bytes,
                                &load->fill_bytes};
    const size_t real_count = sizeof reals / sizeof reals[0];
    const size_t count_count = sizeof counts / sizeof counts[0];
    if (field < real_count)
        *reals[field] *= 2;
    else if (field < real_count + count_count)
        *counts[field - real_count] *= 2;
    else if (field == real_count + count_count)
        load->queries *= 2;
    else if (field == real_count + count_count + 1)
        load->missed_layer_rows *= 2, load->leader_layer_rows *= 2;
    else
        return false;
    return true;
}

START_TEST(more_work_never_takes_less_time)
{
    struct bench bench;
    bench_make(&bench, models[_i]);
    bench.env.dram_bytes_per_s = UINT64_C(200000000000);
    bench_start(&bench);
    for (uint32_t requests = 1; requests <= 512; requests *= 2) {
        struct kvt_rank_load load = rank_load(&bench.llm, requests, 0.142);
        load.backup_bytes = load.import_bytes = load.fill_bytes = UINT64_C(1) << 20;
        double before[KVT_PARTS] = {0};
        bench.model->rank_step(bench.state, &load, before);
        struct kvt_rank_load more = load;
        for (size_t field = 0; double_field(&more, field); field++, more = load) {
            double after[KVT_PARTS] = {0};
            bench.model->rank_step(bench.state, &more, after);
            ck_assert_msg(sum(after) >= sum(before), "%u requests, field %zu", requests, field);
        }
        double few[KVT_PARTS] = {0}, many[KVT_PARTS] = {0};
        struct kvt_group_load group = group_load(4 * requests, 4);
        bench.model->group_step(bench.state, &group, few);
        group = group_load(8 * requests, 4);
        bench.model->group_step(bench.state, &group, many);
        ck_assert_double_ge(sum(many), sum(few));
    }
}
END_TEST

START_TEST(a_copy_of_the_state_is_the_model)
{
    struct bench bench, other;
    bench_make(&bench, models[_i]);
    bench_start(&bench);
    other = bench;
    struct kvt_rank_load load = rank_load(&bench.llm, 10, 0.142);
    double first[KVT_PARTS] = {0}, second[KVT_PARTS] = {0};
    bench.model->rank_step(bench.state, &load, first);
    memset(&bench, 0xa5, sizeof bench);
    other.model->rank_step(other.state, &load, second);

    ck_assert_mem_eq(first, second, sizeof first);
}
END_TEST

START_TEST(parts_and_bases_have_names_of_their_own)
{
    for (int i = 0; i < KVT_PARTS; i++) {
        ck_assert_str_ne(kvt_step_part_name((enum kvt_step_part)i), "unknown");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(kvt_step_part_name((enum kvt_step_part)i),
                             kvt_step_part_name((enum kvt_step_part)j));
    }
    ck_assert_str_eq(kvt_basis_name(KVT_BASIS_EXACT), "exact");
    ck_assert_str_eq(kvt_basis_name(kvt_timing_paper.basis), "fitted-to-paper");
    ck_assert_str_eq(kvt_basis_name(kvt_timing_roofline.basis), "datasheet");
}
END_TEST

static void add_for_every_model(TCase *tcase, const TTest *test)
{
    tcase_add_loop_test(tcase, test, 0, sizeof models / sizeof models[0]);
}

static Suite *timing_suite(void)
{
    Suite *suite = suite_create("timing");

    TCase *paper = tcase_create("paper");
    tcase_add_loop_test(paper, the_paper_profile_gives_table_2, 0, 4);
    tcase_add_test(paper, a_missed_selection_of_glm_costs_2437_bytes_at_49_4_gb_per_s);
    tcase_add_loop_test(paper, the_paper_profile_refuses_other_policies_in_these_words, 0, 4);
    tcase_add_test(paper, the_paper_profile_refuses_other_models);
    tcase_add_test(paper, the_paper_profile_refuses_ranks_of_several_gpus);
    suite_add_tcase(suite, paper);

    TCase *kernels = tcase_create("roofline_kernels");
    tcase_add_loop_test(kernels, sparse_attention_takes_what_flashmla_takes, 0, 13);
    tcase_add_test(kernels, scan_and_top_k_take_what_deepgemm_and_vllm_take);
    tcase_add_test(kernels, a_resolve_without_misses_takes_what_sglang_takes);
    tcase_add_loop_test(kernels, a_fetch_takes_what_a_gather_of_the_same_rows_takes, 0, 7);
    suite_add_tcase(suite, kernels);

    TCase *dimensions = tcase_create("roofline_dimensions");
    tcase_add_test(dimensions, twice_the_link_halves_a_fetch_bound_by_bytes);
    tcase_add_test(dimensions, the_gpus_of_a_node_share_its_dram);
    tcase_add_test(dimensions, few_misses_cost_a_latency_a_selector);
    tcase_add_test(dimensions, background_traffic_slows_a_fetch_twofold_at_most);
    tcase_add_test(dimensions, background_traffic_alone_costs_no_step_anything);
    tcase_add_test(dimensions, leader_first_hides_followers_behind_their_layers_compute);
    tcase_add_test(dimensions, leader_first_without_compute_pays_every_copy);
    tcase_add_loop_test(dimensions, collectives_take_their_latencies_and_bytes, 0, 4);
    tcase_add_test(dimensions, many_queries_scan_at_the_rate_of_math);
    tcase_add_test(dimensions, history_in_hbm_leaves_nothing_to_resolve);
    tcase_add_test(dimensions, one_query_reads_the_dense_weights_and_its_own_experts);
    tcase_add_test(dimensions, many_queries_read_every_expert);
    tcase_add_test(dimensions, twice_the_tensor_parallelism_halves_the_dense_time);
    tcase_add_test(dimensions, expert_parallelism_spreads_experts_and_brings_all_queries_to_them);
    tcase_add_test(dimensions, a_model_without_experts_reads_all_its_weights);
    tcase_add_test(dimensions, tensor_parallel_ranks_share_heads_but_not_rows);
    tcase_add_test(dimensions, a_store_of_a_higher_ratio_is_scanned_in_proportion);
    tcase_add_test(dimensions, roofline_refuses_hardware_without_the_rates_it_needs);
    suite_add_tcase(suite, dimensions);

    TCase *every = tcase_create("every_model");
    add_for_every_model(every, every_parameter_changes_a_step);
    add_for_every_model(every, every_parameter_says_what_it_is);
    add_for_every_model(every, an_empty_load_takes_no_time);
    add_for_every_model(every, requests_that_select_nothing_take_finite_time);
    add_for_every_model(every, parts_are_added_to);
    add_for_every_model(every, more_work_never_takes_less_time);
    add_for_every_model(every, a_copy_of_the_state_is_the_model);
    tcase_add_test(every, parts_and_bases_have_names_of_their_own);
    suite_add_tcase(suite, every);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(timing_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
