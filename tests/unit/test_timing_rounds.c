/* test_timing_rounds.c -- what rounds of several queries take: graphs, drafting, and the two
 * models that know it from elsewhere. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/costs.h"
#include "kvt/timing.h"
#include "support/timing_bench.h"

extern const struct kvt_timing_model kvt_timing_roofline;
extern const struct kvt_timing_model kvt_timing_paper;
extern const struct kvt_timing_model kvt_timing_cost_table;

static double sum(const double parts[KVT_PARTS])
{
    double total = 0;
    for (size_t i = 0; i < KVT_PARTS; i++)
        total += parts[i];
    return total;
}

static double group_part_us(const struct timing_bench *bench, uint32_t queries,
                            enum kvt_step_part part)
{
    double parts[KVT_PARTS] = {0};
    struct kvt_group_load load = timing_group_load(queries, 1);
    bench->model->group_step(bench->state, &load, parts);
    return parts[part] / 1e3;
}

/* ---- roofline: graphs --------------------------------------------------------------- */

/* Dense time that nothing but tokens makes: no weights, no overheads. */
static void tokens_make(struct timing_bench *bench)
{
    timing_bench_make(bench, &kvt_timing_roofline);
    timing_bench_param(bench, "layer_overhead_us")->number = 0;
    timing_bench_param(bench, "collective_us")->number = 0;
    bench->llm.weight_bytes = bench->llm.dense_weight_bytes = 0;
    bench->env.tp = bench->env.dp = bench->env.ep = 1;
    timing_bench_start(bench);
}

START_TEST(tokens_are_padded_to_the_next_graph)
{
    static const struct {
        uint32_t queries, padded;
    } rows[] = {{1, 1},   {2, 2},       {3, 4},       {4, 4},       {5, 8},
                {9, 16},  {30, 32},     {249, 256},   {1017, 1024}, {1024, 1024},
                {33, 40}, {1023, 1024}, {1025, 1025}, {5003, 5003}};
    struct timing_bench bench;
    tokens_make(&bench);
    double token_us = group_part_us(&bench, 1, KVT_PART_DENSE);

    timing_assert_near(group_part_us(&bench, rows[_i].queries, KVT_PART_DENSE),
                       rows[_i].padded * token_us, 1e-9);
}
END_TEST

START_TEST(the_largest_graph_need_not_be_a_multiple)
{
    struct timing_bench bench;
    tokens_make(&bench);
    double token_us = group_part_us(&bench, 1, KVT_PART_DENSE);
    timing_bench_param(&bench, "graph_step_tokens")->number = 48;
    timing_bench_param(&bench, "graph_largest_tokens")->number = 100;
    timing_bench_start(&bench);

    timing_assert_near(group_part_us(&bench, 33, KVT_PART_DENSE), 48 * token_us, 1e-9);
    timing_assert_near(group_part_us(&bench, 50, KVT_PART_DENSE), 96 * token_us, 1e-9);
    timing_assert_near(group_part_us(&bench, 97, KVT_PART_DENSE), 100 * token_us, 1e-9);
}
END_TEST

START_TEST(beyond_the_largest_graph_every_layer_is_launched_by_hand)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    double within_us = group_part_us(&bench, 1024, KVT_PART_HOST);

    timing_assert_near(within_us, 200, 1e-9);
    timing_assert_near(group_part_us(&bench, 1025, KVT_PART_HOST), within_us + 78 * 1950, 1e-9);
}
END_TEST

/* ---- roofline: rounds ----------------------------------------------------------------- */

START_TEST(queries_resolved_one_by_one_take_a_launch_each)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, 0);
    load.looked_up_rows = 0;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_RESOLVE), 21 * 5.3, 1e-9);
    load.calls *= 4;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_RESOLVE), 4 * 21 * 5.3, 1e-9);
}
END_TEST

/* DFlash2 of GLM-5.3 on one GPU, light enough to be bound by reading. */
/* GLM-5.3: a wave of a store of four layers, and one of a store of one. */
START_TEST(a_wave_is_a_launch_of_resolve_and_gather_and_of_attention_in_each_layer)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    double resolve_us = timing_bench_param(&bench, "resolve_launch_us")->number;
    double attend_us = timing_bench_param(&bench, "attention_launch_us")->number;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 32, 0.001), waves = load;
    load.wire_bytes = waves.wire_bytes = 1; /* the latency of launches binds */
    load.granules = waves.granules = 0;
    waves.extra_waves = 2;
    waves.extra_wave_layers = 5;

    const struct {
        enum kvt_step_part part;
        double more_us;
    } rows[] = {{KVT_PART_RESOLVE, 2 * resolve_us},
                {KVT_PART_FETCH, 2 * 20},
                {KVT_PART_ATTEND, 5 * attend_us},
                {KVT_PART_INDEX, 0},
                {KVT_PART_DRAFT, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_double_eq_tol(timing_rank_part_us(&bench, &waves, rows[i].part) -
                                    timing_rank_part_us(&bench, &load, rows[i].part),
                                rows[i].more_us, 1e-6);
}
END_TEST

START_TEST(a_block_reads_the_drafters_weights_and_rings_once)
{
    static const struct kvt_drafter drafter = {.layers = 6,
                                               .kv_heads = 8,
                                               .head_dim = 128,
                                               .window_tokens = 2048,
                                               .slack_tokens = 128,
                                               .value_bytes = 1,
                                               .weight_bytes = 4917737554};
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.drafter = &drafter;
    bench.env.draft_passes = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0);
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), 0);
    load.draft_tokens = 70;
    load.queries = 80;

    double read_us = (4917737554.0 + 10 * 26738688.0) / (4.8e6 * 0.8);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), read_us + 6 * 300, 1e-9);
    bench.env.tp = 2;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), read_us / 2 + 6 * 300,
                       1e-9);
}
END_TEST

START_TEST(many_drafts_are_bound_by_the_drafters_math)
{
    static const struct kvt_drafter drafter = {.layers = 1, .kv_heads = 8, .weight_bytes = 4e9};
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "draft_layer_us")->number = 0;
    bench.env.drafter = &drafter;
    bench.env.draft_passes = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0);
    load.draft_tokens = 100000;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT),
                       100000 * 4e9 / (1979e6 * 0.6), 1e-9); /* 2 operations for 2 bytes */
}
END_TEST

/* MTP: no weights of its own, a pass a draft, each through one layer of the model. */
START_TEST(a_chain_of_the_models_own_layer_reads_it_once_a_draft)
{
    static const struct kvt_drafter drafter = {.layers = 1, .kv_heads = 1};
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.drafter = &drafter;
    bench.env.draft_passes = 3;
    bench.env.dp = bench.env.ep = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0);
    load.queries = load.group_queries = 40;
    load.draft_tokens = 30;
    double touched = 1 - pow(1 - 8.0 / 256, 10);
    double layer_us = (27e9 + 726e9 * touched) / 78 / (4.8e6 * 0.8);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), 3 * (layer_us + 300),
                       1e-9);
}
END_TEST

START_TEST(a_model_that_drafts_for_itself_reads_its_weights_and_the_budget_each_pass)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_roofline);
    bench.env.draft_passes = 4;
    bench.env.draft_budget_tokens = 4096;
    bench.env.dp = bench.env.ep = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0);
    load.queries = load.group_queries = 50;
    load.draft_tokens = 40;
    double touched = 1 - pow(1 - 8.0 / 256, 10);
    double weights_us = (27e9 + 726e9 * touched) / (4.8e6 * 0.8);
    double row_us = fmax(576 / (4.8e6 * 0.8), 2 * 64 * 1088 / (989e6 * 0.36));
    double pass_us = weights_us + 10 * 4096 * 78 * row_us + 78 * (10 + 15);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), 4 * pass_us, 1e-9);
}
END_TEST

/* ---- paper -------------------------------------------------------------------------------- */

static double paper_tpot_ms(struct timing_bench *bench, uint32_t block, double fetched)
{
    static const double alpha = 0.65;
    const double active = 124.7;
    double tokens = 0;
    for (uint32_t i = 0; i < block; i++)
        tokens += pow(alpha, i);
    double group[KVT_PARTS] = {0}, rank[KVT_PARTS] = {0};
    struct kvt_group_load all = timing_group_load((uint32_t)(active * block), 4);
    struct kvt_rank_load load =
        timing_rank_load(&bench->llm, (uint32_t)(100 * active / 4), fetched);
    all.draft_tokens = (block - 1) * (uint32_t)active;
    load.queries *= block;
    bench->model->group_step(bench->state, &all, group);
    bench->model->rank_step(bench->state, &load, rank);
    return (sum(group) + sum(rank) / 100) / 1e6 / tokens;
}

/* Rows fetched in a round, in units of k, by the generator of docs/laws.md at a coverage of
 * 0.01: 0.487, 0.71 and 1.0. TPOT at a block of 4 is what draft_ms was fitted to; that 4
 * is the best block there follows. */
START_TEST(the_paper_profile_gives_table_2_with_dflash2)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = "adaptive";
    bench.env.speculation = "dflash2";
    bench.env.queries_max = 8;
    timing_bench_start(&bench);
    double four_ms = paper_tpot_ms(&bench, 4, 0.487);

    timing_assert_near(four_ms, 35.9, 0.01);
    ck_assert_double_gt(paper_tpot_ms(&bench, 6, 0.71), four_ms);
    ck_assert_double_gt(paper_tpot_ms(&bench, 8, 1.0), paper_tpot_ms(&bench, 6, 0.71));
}
END_TEST

START_TEST(the_paper_profile_refuses_other_speculation_in_these_words)
{
    static const struct {
        const char *residency, *speculation;
        uint32_t queries_max;
        bool takes_turns;
        const char *message;
    } rows[] = {
        {"adaptive", "dspark", 6, false,
         "profile \"paper\" holds constants for speculation none, dflash2 only; model "
         "\"roofline\" takes any (timing.model=roofline)"},
        {"hisparse", "dflash2", 8, false,
         "profile \"paper\" holds constants for dflash2 with adaptive only; model "
         "\"roofline\" takes any (timing.model=roofline)"},
        {"adaptive", "dflash2", 8, true,
         "profile \"paper\" holds no constants for calls that outgrow their staging; expected "
         "speculation.staging_fraction 1, or timing roofline"},
        {"adaptive", "dflash2", 9, false,
         "profile \"paper\" holds constants for rounds of up to 8 queries; these have 9"},
    };
    struct timing_bench bench;
    struct kvt_error err = {0};
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = rows[_i].residency;
    bench.env.speculation = rows[_i].speculation;
    bench.env.queries_max = rows[_i].queries_max;
    bench.env.takes_turns = rows[_i].takes_turns;

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, rows[_i].message);
}
END_TEST

/* ---- cost-table ------------------------------------------------------------------------------ */

static void cost_table_make(struct timing_bench *bench)
{
    timing_bench_make(bench, &kvt_timing_cost_table);
    timing_bench_param(bench, "costs")->text =
        KVT_TEST_ROOT "/models/costs/deepseek-v4-flash-b300.json";
    bench->env.residency = "resident";
    bench->env.history_in_hbm = true;
}

START_TEST(a_cost_table_gives_draft_and_verify)
{
    static const struct {
        uint32_t requests, queries, draft_tokens;
        double draft_us, other_us;
        bool in_range;
    } rows[] = {
        {1, 1, 0, 0, 5160, true},
        {1, 8, 7, 920, 5590, true},
        {3, 9, 21, 1070, 6080, true},
        {128, 512, 384, 3310, 16660, true},
        {256, 1024, 1792, 5380, 20630, true},
        {256, 1025, 1792, 5380, 104500, true},
        {257, 1025, 1799, 5380.0 * 257 / 256, 104500, false},
        {16385, 16385, 0, 0, 234914.337, false},
    };
    struct timing_bench bench;
    cost_table_make(&bench);
    timing_bench_start(&bench);
    struct kvt_rank_load load = {.requests = rows[_i].requests,
                                 .queries = rows[_i].queries,
                                 .draft_tokens = rows[_i].draft_tokens};

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), rows[_i].draft_us, 1e-9);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_OTHER), rows[_i].other_us, 1e-8);
    ck_assert_int_eq(bench.model->in_range(bench.state, &load), rows[_i].in_range);
}
END_TEST

START_TEST(a_cost_table_refuses_policies_that_fetch)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    cost_table_make(&bench);
    bench.env.residency = "hisparse";
    bench.env.history_in_hbm = false;

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "residency \"hisparse\""));
}
END_TEST

START_TEST(a_cost_table_that_is_not_there_is_refused)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    cost_table_make(&bench);
    timing_bench_param(&bench, "costs")->text = "no/such.json";

    ck_assert_int_ne(timing_bench_try(&bench, &err), KVT_OK);
    ck_assert_ptr_nonnull(strstr(err.where, "no/such.json"));
}
END_TEST

START_TEST(a_cost_tables_empty_rank_takes_no_time)
{
    struct timing_bench bench;
    cost_table_make(&bench);
    timing_bench_start(&bench);
    struct kvt_rank_load load = {0};
    struct kvt_group_load group = timing_group_load(40, 1);
    double parts[KVT_PARTS] = {0};
    bench.model->rank_step(bench.state, &load, parts);
    bench.model->group_step(bench.state, &group, parts);

    ck_assert_double_eq(sum(parts), 0);
}
END_TEST

static Suite *timing_rounds_suite(void)
{
    Suite *suite = suite_create("timing_rounds");

    TCase *graphs = tcase_create("graphs");
    tcase_add_loop_test(graphs, tokens_are_padded_to_the_next_graph, 0, 14);
    tcase_add_test(graphs, the_largest_graph_need_not_be_a_multiple);
    tcase_add_test(graphs, beyond_the_largest_graph_every_layer_is_launched_by_hand);
    suite_add_tcase(suite, graphs);

    TCase *rounds = tcase_create("rounds");
    tcase_add_test(rounds, queries_resolved_one_by_one_take_a_launch_each);
    tcase_add_test(rounds, a_wave_is_a_launch_of_resolve_and_gather_and_of_attention_in_each_layer);
    tcase_add_test(rounds, a_block_reads_the_drafters_weights_and_rings_once);
    tcase_add_test(rounds, many_drafts_are_bound_by_the_drafters_math);
    tcase_add_test(rounds, a_chain_of_the_models_own_layer_reads_it_once_a_draft);
    tcase_add_test(rounds,
                   a_model_that_drafts_for_itself_reads_its_weights_and_the_budget_each_pass);
    suite_add_tcase(suite, rounds);

    TCase *paper = tcase_create("paper");
    tcase_add_test(paper, the_paper_profile_gives_table_2_with_dflash2);
    tcase_add_loop_test(paper, the_paper_profile_refuses_other_speculation_in_these_words, 0, 4);
    suite_add_tcase(suite, paper);

    TCase *table = tcase_create("cost_table");
    tcase_add_loop_test(table, a_cost_table_gives_draft_and_verify, 0, 8);
    tcase_add_test(table, a_cost_table_refuses_policies_that_fetch);
    tcase_add_test(table, a_cost_table_that_is_not_there_is_refused);
    tcase_add_test(table, a_cost_tables_empty_rank_takes_no_time);
    suite_add_tcase(suite, table);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(timing_rounds_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
