/* test_timing_roofline.c -- roofline's step times: the measured kernels', and dimensions. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/timing.h"
#include "support/timing_bench.h"

extern const struct kvt_timing_model kvt_timing_roofline;

static double dense_us(const struct timing_bench *bench, const struct kvt_group_load *load)
{
    double parts[KVT_PARTS] = {0};
    bench->model->group_step(bench->state, load, parts);
    return parts[KVT_PART_DENSE] / 1e3;
}

/* ---- roofline against kernels measured on an H200 ----------------------------
 *
 * Most defaults were set on these measurements, so that agreement shows that the
 * model's form and units are right, not that it predicts. Rows that no default
 * was set on say so. */

/* One layer, one store, one selector: a kernel by itself. */
static void kernel_make(struct timing_bench *bench)
{
    timing_bench_make(bench, &kvt_timing_roofline);
    bench->llm.layers = 1;
    bench->llm.store_count = 1;
    bench->llm.selector_count = 1;
    timing_bench_start(bench);
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
    struct timing_bench bench;
    kernel_make(&bench);
    bench.llm.heads = rows[_i].heads;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, rows[_i].requests, 0);
    load.queries *= rows[_i].queries;
    load.attended_layer_rows *= rows[_i].queries;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND), rows[_i].us, 0.2);
}
END_TEST

START_TEST(scan_and_top_k_take_what_deepgemm_and_vllm_take)
{
    struct timing_bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 32, 0);
    load.context_rows = UINT64_C(32) * 102400;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), 139.6, 0.1);
}
END_TEST

START_TEST(a_scan_for_several_queries_takes_what_deepgemm_takes)
{
    static const struct {
        uint32_t queries;
        double us;
    } rows[] = {{1, 110}, {4, 191}, {8, 306}};
    struct timing_bench bench;
    kernel_make(&bench);
    timing_bench_param(&bench, "topk_launch_us")->number = 0;
    timing_bench_param(&bench, "topk_passes")->number = 0;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 32, 0);
    load.context_rows = UINT64_C(32) * 102400;
    load.queries *= rows[_i].queries;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), rows[_i].us, 0.04);
}
END_TEST

START_TEST(a_resolve_without_misses_takes_what_sglang_takes)
{
    struct timing_bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 32, 0);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_RESOLVE), 17.7, 0.05);
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
    struct timing_bench bench;
    kernel_make(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 32, 0);
    load.missed_rows = load.missed_layer_rows = load.leader_layer_rows = 32.0 * rows[_i].misses;
    load.wire_bytes = load.missed_rows * rows[_i].row_bytes;
    load.granules = rows[_i].granules;
    load.calls_with_misses = 32;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), rows[_i].us, 0.16);
}
END_TEST

/* ---- roofline, dimensions ---------------------------------------------------- */

START_TEST(twice_the_link_halves_a_fetch_bound_by_bytes)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 0.142);
    double before_us = timing_rank_part_us(&bench, &load, KVT_PART_FETCH);

    timing_assert_near(before_us, load.wire_bytes / 51.3e3, 1e-9);
    bench.hardware.link_h2d_bytes_per_s *= 2;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), before_us / 2, 1e-9);
}
END_TEST

START_TEST(the_gpus_of_a_node_share_its_dram)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.dram_bytes_per_s = UINT64_C(100000000000);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 0.142);
    double four_us = timing_rank_part_us(&bench, &load, KVT_PART_FETCH);

    timing_assert_near(four_us, load.wire_bytes / (100e3 * 0.8 / 4), 1e-9);
    bench.env.ranks_per_link_node = 8;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 2 * four_us, 1e-9);
    bench.env.ranks_per_link_node = 1;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), load.wire_bytes / 51.3e3,
                       1e-9);
}
END_TEST

START_TEST(few_misses_cost_a_latency_a_selector)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 1e-6);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 21 * 20, 1e-9);
    load.calls_with_misses = 3;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 3 * 20, 1e-9);
}
END_TEST

START_TEST(background_traffic_slows_a_fetch_twofold_at_most)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 0.142);
    double alone_us = timing_rank_part_us(&bench, &load, KVT_PART_FETCH);

    load.import_bytes = (uint64_t)(load.wire_bytes / 8);
    load.fill_bytes = (uint64_t)(load.wire_bytes / 8);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 1.25 * alone_us, 1e-6);
    load.import_bytes = UINT64_MAX;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 2 * alone_us, 1e-9);
    load.import_bytes = load.fill_bytes = 0;
    load.backup_bytes = UINT64_MAX; /* the other direction */
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), alone_us / 0.91, 1e-9);
}
END_TEST

START_TEST(background_traffic_alone_costs_no_step_anything)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 0);
    load.import_bytes = load.fill_bytes = load.backup_bytes = UINT64_C(1) << 40;

    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 0);
}
END_TEST

START_TEST(leader_first_hides_followers_behind_their_layers_compute)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "fetch_order")->number = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, 0.1);
    load.granules /= 100; /* bound by bytes */
    double leader_us = load.leader_layer_rows * 576 / 51.3e3;
    double follower_us = load.wire_bytes / 51.3e3 - leader_us;
    struct kvt_group_load group = timing_group_load(160, 4);
    double compute_us =
        dense_us(&bench, &group) + timing_rank_part_us(&bench, &load, KVT_PART_ATTEND);

    ck_assert_double_lt(follower_us, compute_us * 57 / 78);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), leader_us, 1e-9);

    load.wire_bytes *= 20;
    leader_us *= 20;
    follower_us *= 20;
    ck_assert_double_gt(follower_us, compute_us * 57 / 78);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH),
                       leader_us + follower_us - compute_us * 57 / 78, 1e-9);
}
END_TEST

START_TEST(leader_first_without_compute_pays_every_copy)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "fetch_order")->number = 1;
    timing_bench_param(&bench, "layer_overhead_us")->number = 0;
    timing_bench_param(&bench, "collective_us")->number = 0;
    timing_bench_param(&bench, "attention_launch_us")->number = 0;
    bench.llm.weight_bytes = bench.llm.dense_weight_bytes = bench.llm.active_parameters = 0;
    bench.hardware.interconnect_bytes_per_s = UINT64_MAX;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, 0.1);
    load.attended_layer_rows = 0;
    load.granules = 0;
    const double copies = 78.0 / 21;
    double bytes_us = load.wire_bytes / 51.3e3;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), bytes_us, 1e-4);

    /* What got in the leaders' way does not get in the followers' again. */
    load.import_bytes = (uint64_t)(load.wire_bytes / copies);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH),
                       bytes_us * (1 + 1 / copies), 1e-4);
    load.import_bytes = 0;
    load.granules = 1e6;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), copies * 1e6 / 33, 1e-4);
    load.granules = 0;
    load.wire_bytes = 1;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 78 * 20, 1e-4);
}
END_TEST

START_TEST(history_in_hbm_leaves_nothing_to_resolve)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.history_in_hbm = true;
    bench.hardware.link_h2d_bytes_per_s = 0; /* and needs no link */
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 4, 0);
    load.looked_up_rows = 0;

    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_RESOLVE), 0);
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 0);
    ck_assert_double_gt(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND), 0);
}
END_TEST

/* Dense time alone: no overheads. */
static void dense_make(struct timing_bench *bench, uint32_t tp, uint32_t dp, uint32_t ep)
{
    timing_bench_make(bench, &kvt_timing_roofline);
    timing_bench_param(bench, "layer_overhead_us")->number = 0;
    timing_bench_param(bench, "collective_us")->number = 0;
    bench->hardware.interconnect_bytes_per_s = UINT64_MAX;
    bench->env.tp = tp;
    bench->env.dp = dp;
    bench->env.ep = ep;
    timing_bench_start(bench);
}

START_TEST(one_query_reads_the_dense_weights_and_its_own_experts)
{
    struct timing_bench bench;
    struct kvt_group_load load = timing_group_load(1, 1);
    dense_make(&bench, 1, 1, 1);

    timing_assert_near(dense_us(&bench, &load), (27e9 + 726e9 * 8 / 256) / (4.8e6 * 0.8), 1e-9);
}
END_TEST

START_TEST(many_queries_read_every_expert)
{
    struct timing_bench bench;
    struct kvt_group_load few = timing_group_load(64, 1), many = timing_group_load(256, 1);
    dense_make(&bench, 1, 1, 1);
    double touched = 1 - pow(1 - 8.0 / 256, 64);

    timing_assert_near(dense_us(&bench, &few), (27e9 + 726e9 * touched) / (4.8e6 * 0.8), 1e-9);
    timing_assert_near(dense_us(&bench, &many), 753e9 / (4.8e6 * 0.8), 1e-3);
}
END_TEST

START_TEST(twice_the_tensor_parallelism_halves_the_dense_time)
{
    struct timing_bench bench;
    struct kvt_group_load light = timing_group_load(8, 1), heavy = timing_group_load(1 << 20, 1);
    dense_make(&bench, 4, 1, 1);
    double light_us = dense_us(&bench, &light);
    double heavy_us = dense_us(&bench, &heavy);

    timing_assert_near(heavy_us, 2 * 40e9 * 1048576 / 4 / (1979e6 * 0.6),
                       1e-3); /* bound by flops */
    dense_make(&bench, 8, 1, 1);
    timing_assert_near(dense_us(&bench, &light), light_us / 2, 1e-6);
    timing_assert_near(dense_us(&bench, &heavy), heavy_us / 2, 1e-3);
}
END_TEST

START_TEST(expert_parallelism_spreads_experts_and_brings_all_queries_to_them)
{
    struct timing_bench bench;
    struct kvt_group_load load = timing_group_load(16, 4);
    dense_make(&bench, 1, 4, 1);
    double own = 1 - pow(1 - 8.0 / 256, 4);
    timing_assert_near(dense_us(&bench, &load), (27e9 + 726e9 * own) / (4.8e6 * 0.8), 1e-9);

    dense_make(&bench, 1, 4, 4);
    double all = 1 - pow(1 - 8.0 / 256, 16);
    timing_assert_near(dense_us(&bench, &load), (27e9 + 726e9 / 4 * all) / (4.8e6 * 0.8), 1e-6);
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
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.llm.weight_bytes = bench.llm.dense_weight_bytes = bench.llm.active_parameters = 0;
    bench.env.tp = rows[_i].tp;
    bench.env.dp = rows[_i].dp;
    bench.env.ep = rows[_i].ep;
    timing_bench_start(&bench);
    struct kvt_group_load load = timing_group_load(32, 1); /* a graph is of that size */

    timing_assert_near(dense_us(&bench, &load),
                       78 * (10 + 8 * rows[_i].count + 32 * rows[_i].bytes / (450e3 * 0.7)), 1e-9);
}
END_TEST

START_TEST(many_queries_scan_at_the_rate_of_math)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "topk_launch_us")->number = 0;
    timing_bench_param(&bench, "topk_passes")->number = 0;
    timing_bench_param(&bench, "index_query_share")->number = 0;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 2, 0);
    load.queries = 16;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX),
                       21 * 2 * 100032.0 * 8 * 2 * 32 * 128 / (1979e6 * 0.6), 1e-9);
}
END_TEST

START_TEST(a_model_without_experts_reads_all_its_weights)
{
    struct timing_bench bench;
    struct kvt_group_load load = timing_group_load(3, 1);
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "layer_overhead_us")->number = 0;
    bench.llm.experts = bench.llm.experts_active = 0;
    bench.llm.dense_weight_bytes = 0;
    bench.env.ep = bench.env.dp = 1;
    timing_bench_start(&bench);

    timing_assert_near(dense_us(&bench, &load), 753e9 / (4.8e6 * 0.8), 1e-9);
}
END_TEST

START_TEST(tensor_parallel_ranks_share_heads_but_not_rows)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.ep = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 8, 0.142);
    double index_us = timing_rank_part_us(&bench, &load, KVT_PART_INDEX);
    double fetch_us = timing_rank_part_us(&bench, &load, KVT_PART_FETCH);
    bench.env.tp = 8;
    timing_bench_start(&bench);

    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), index_us);
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), fetch_us);
    double rows_us = timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15;
    timing_assert_near(rows_us, load.attended_layer_rows * 576 / (4.8e6 * 0.8), 1e-6);
}
END_TEST

START_TEST(a_store_of_a_higher_ratio_is_scanned_in_proportion)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "topk_launch_us")->number = 0;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 8, 0);
    double before_us = timing_rank_part_us(&bench, &load, KVT_PART_INDEX);
    for (uint32_t i = 0; i < bench.llm.store_count; i++)
        bench.llm.stores[i].compress_ratio = 4;
    timing_bench_start(&bench);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), before_us / 4, 1e-9);
}
END_TEST

/* A round of 8 queries reads the context once; their math is of each. */
START_TEST(queries_of_a_dense_model_share_what_they_read)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 4, 0);
    load.queries = 8 * load.requests;
    load.attended_layer_rows *= 8;
    timing_bench_start(&bench);
    double math_us =
        load.attended_layer_rows * 2 * bench.llm.heads * (2 * 512 + 64) / (989e6 * 0.36);
    double each_us = load.attended_layer_rows * 576 / (4.8e6 * 0.8);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15,
                       fmax(each_us, math_us), 1e-9);

    bench.llm.index_heads = 0;
    bench.llm.heads = 1;
    timing_bench_start(&bench);
    ck_assert_double_lt(math_us / 64, each_us / 8);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15, each_us / 8,
                       1e-9);
    load.queries = load.requests;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15, each_us,
                       1e-9);
}
END_TEST

START_TEST(a_row_that_is_a_block_is_as_much_math_as_its_rows)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.llm.heads = 1024;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 8, 0);
    double before_us = timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15;
    for (uint32_t i = 0; i < bench.llm.store_count; i++)
        bench.llm.stores[i].block_rows = 16;
    timing_bench_start(&bench);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND) - 78 * 15,
                       16 * before_us, 1e-9);
}
END_TEST

START_TEST(a_scan_reads_as_much_of_an_index_row_as_the_file_says)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "topk_launch_us")->number = 0;
    timing_bench_param(&bench, "topk_passes")->number = 0;
    bench.llm.index_heads = 1; /* bound by bytes */
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 8, 0);
    double before_us = timing_rank_part_us(&bench, &load, KVT_PART_INDEX);
    bench.llm.index.scan_bytes = 33;
    timing_bench_start(&bench);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), before_us / 4, 1e-9);
}
END_TEST

/* Beside the transfer: the longer of the two. */
START_TEST(rows_are_rebuilt_while_others_cross_the_link)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, 0.1);
    double fetch_us = timing_rank_part_us(&bench, &load, KVT_PART_FETCH);
    double flops = fetch_us * 1979e6 * 0.6 / load.missed_layer_rows; /* of a row, to take as long */

    bench.llm.payload.rebuild_flops = flops / 2;
    timing_bench_start(&bench);
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), fetch_us);
    bench.llm.payload.rebuild_flops = flops * 3;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 3 * fetch_us, 1e-9);
    load.ahead.layer_rows = load.missed_layer_rows; /* sent ahead, and computed all the same */
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 6 * fetch_us, 1e-9);
}
END_TEST

START_TEST(roofline_refuses_hardware_without_the_rates_it_needs)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    timing_bench_make(&bench, &kvt_timing_roofline);
    uint64_t *const rates[] = {&bench.hardware.hbm_bytes_per_s,
                               &bench.hardware.link_h2d_bytes_per_s,
                               &bench.hardware.interconnect_bytes_per_s};
    static const char *const names[] = {"hbm_bytes_per_s", "link_h2d_bytes_per_s",
                                        "interconnect_bytes_per_s"};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        uint64_t rate = *rates[i];
        *rates[i] = 0;
        ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.message, names[i]));
        *rates[i] = rate;
    }
    bench.hardware.fp8_flops = 0;
    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "dense_math"));
}
END_TEST

static Suite *timing_roofline_suite(void)
{
    Suite *suite = suite_create("timing_roofline");

    TCase *kernels = tcase_create("roofline_kernels");
    tcase_add_loop_test(kernels, sparse_attention_takes_what_flashmla_takes, 0, 13);
    tcase_add_test(kernels, scan_and_top_k_take_what_deepgemm_and_vllm_take);
    tcase_add_loop_test(kernels, a_scan_for_several_queries_takes_what_deepgemm_takes, 0, 3);
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
    tcase_add_test(dimensions, queries_of_a_dense_model_share_what_they_read);
    tcase_add_test(dimensions, a_row_that_is_a_block_is_as_much_math_as_its_rows);
    tcase_add_test(dimensions, a_scan_reads_as_much_of_an_index_row_as_the_file_says);
    tcase_add_test(dimensions, rows_are_rebuilt_while_others_cross_the_link);
    tcase_add_test(dimensions, roofline_refuses_hardware_without_the_rates_it_needs);
    suite_add_tcase(suite, dimensions);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(timing_roofline_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
