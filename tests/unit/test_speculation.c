/* test_speculation.c -- rounds of every method: their form, their chances, and whose they are. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/speculation_bench.h"
#include "support/support.h"

extern const struct kvt_speculation_method kvt_speculation_none;
extern const struct kvt_speculation_method kvt_speculation_dflash2;
extern const struct kvt_speculation_method kvt_speculation_mtp;
extern const struct kvt_speculation_method kvt_speculation_eagle;
extern const struct kvt_speculation_method kvt_speculation_eagle_tree;
extern const struct kvt_speculation_method kvt_speculation_medusa;
extern const struct kvt_speculation_method kvt_speculation_self_sparse;

static double step_of_queries_ns(void *context, uint32_t requests, uint32_t draft_tokens,
                                 uint32_t queries)
{
    (void)context;
    return 5e6 + 1e4 * requests + 1e3 * draft_tokens + 4e4 * queries;
}

/* ---- Chains of one round ------------------------------------------------------------- */

START_TEST(a_chain_forks_where_its_first_draft_is_rejected)
{
    struct kvt_round round;
    kvt_round_chain(&round, 5, 3);
    static const struct kvt_law_query expected[] = {
        {0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 1, 3}, {4, 1, 3}};

    ck_assert_uint_eq(round.draft_tokens, 4);
    ck_assert_uint_eq(round.query_count, 5);
    ck_assert_uint_eq(round.committed_tokens, 3);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(round.queries[i].depth, expected[i].depth);
        ck_assert_uint_eq(round.queries[i].path, expected[i].path);
        ck_assert_uint_eq(round.queries[i].fork, expected[i].fork);
    }
}
END_TEST

/* ---- Every method ---------------------------------------------------------------------- */

static const double branching[] = {3, 2, 1, 1};

static size_t method_count(void)
{
    size_t count = 0;
    (void)kvt_models_table(KVT_PLUGIN_SPECULATION, &count);
    return count;
}

static void make_number(struct speculation_bench *bench, int number)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *table = kvt_models_table(KVT_PLUGIN_SPECULATION, &count);
    const struct kvt_plugin_info *info = table[number];
    speculation_bench_make(bench, (const struct kvt_speculation_method *)(const void *)info);
    for (size_t i = 0; i < info->param_count; i++) {
        if (info->params[i].type == KVT_PARAM_LIST)
            bench->values[i].list = branching, bench->values[i].list_length = 4;
        if (strcmp(info->params[i].name, "drafts") == 0 && bench->values[i].number == 0)
            bench->values[i].number = 7;
    }
}

/* What law.h and speculation.h say of a round. */
static void check_round(const struct kvt_round *round, const struct kvt_speculation_shape *shape,
                        uint32_t queries_max)
{
    uint32_t deepest[KVT_QUERIES_MAX] = {0}, lengths[KVT_QUERIES_MAX] = {0};
    uint32_t committed = 0;
    ck_assert_uint_ge(round->query_count, 1);
    ck_assert_uint_le(round->query_count, queries_max);
    ck_assert_uint_ge(round->committed_tokens, 1);
    ck_assert_uint_ge(round->draft_tokens + 1, round->query_count);
    ck_assert_uint_eq(round->queries[0].depth, 0);
    ck_assert_uint_eq(round->queries[0].path, 0);
    for (uint32_t i = 0; i < round->query_count; i++) {
        const struct kvt_law_query *query = &round->queries[i];
        ck_assert_uint_le(query->path, shape->side_paths);
        ck_assert(lengths[query->path] == 0 || query->depth > deepest[query->path]);
        deepest[query->path] = query->depth;
        lengths[query->path]++;
        if (query->path == 0) {
            ck_assert_uint_eq(query->depth, committed);
            ck_assert_uint_eq(query->fork, 0);
            committed++;
        } else {
            ck_assert_uint_ge(query->fork, 1);
            ck_assert_uint_le(query->fork, query->depth);
            ck_assert_uint_le(query->fork, round->committed_tokens);
            ck_assert_uint_le(lengths[query->path], shape->side_tokens);
        }
    }
    ck_assert_uint_eq(committed, round->committed_tokens);
}

START_TEST(rounds_of_every_method_are_well_formed)
{
    struct speculation_bench bench;
    struct speculation_batch batch;
    make_number(&bench, _i);
    speculation_bench_start(&bench);
    ck_assert_uint_ge(bench.shape.queries_max, 1);
    ck_assert_uint_le(bench.shape.queries_max, KVT_QUERIES_MAX);
    speculation_batch_make(&batch, &bench, 50, 7, 0);
    batch.view.step_ns = step_of_queries_ns;
    for (uint32_t plan = 0; plan < 200; plan++) {
        for (uint32_t i = 0; i < batch.count; i++)
            batch.requests[i].queries_max = 1 + (plan + i) % bench.shape.queries_max;
        speculation_batch_plan(&batch);
        for (uint32_t i = 0; i < batch.count; i++)
            check_round(&batch.rounds[i], &bench.shape, batch.requests[i].queries_max);
    }
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(nobody_decoding_is_no_round)
{
    struct speculation_bench bench;
    struct kvt_round untouched = {.query_count = 77};
    struct kvt_speculation_view view = {.step_ns = step_of_queries_ns};
    make_number(&bench, _i);
    speculation_bench_start(&bench);
    bench.method->plan(bench.data, &view, &untouched);

    ck_assert_uint_eq(untouched.query_count, 77);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(every_method_says_what_it_is)
{
    struct speculation_bench bench;
    make_number(&bench, _i);
    const struct kvt_plugin_info *info = &bench.method->info;
    ck_assert_uint_eq(info->abi, KVT_ABI_VERSION);
    ck_assert_uint_eq(info->struct_bytes, sizeof(struct kvt_speculation_method));
    for (size_t i = 0; i < info->param_count; i++) {
        const char *help = info->params[i].help;
        ck_assert_msg(help[strlen(help) - 1] == '.', "%s: %s", info->params[i].name, help);
    }
}
END_TEST

/* Committed tokens of so many rounds of request `id`, in a batch of `count`. */
static void run_in_batch(const struct speculation_bench *bench, uint32_t id, uint32_t count,
                         uint32_t first_id, uint32_t tokens[], uint32_t plans)
{
    struct speculation_batch batch;
    speculation_batch_make(&batch, bench, count, first_id, 0);
    batch.view.step_ns = step_of_queries_ns;
    for (uint32_t plan = 0; plan < plans; plan++) {
        speculation_batch_plan(&batch);
        tokens[plan] = batch.rounds[id - first_id].committed_tokens;
    }
    speculation_batch_free(&batch);
}

START_TEST(what_is_drawn_depends_on_the_request_and_its_rounds)
{
    enum {
        PLANS = 300
    };
    static uint32_t alone[PLANS], among[PLANS];
    struct speculation_bench bench;
    make_number(&bench, _i);
    for (size_t i = 0; i < bench.method->info.param_count; i++) {
        if (strcmp(bench.method->info.params[i].name, "fixed_drafts") == 0)
            bench.values[i].number = 5; /* else how much is verified depends on the others */
    }
    speculation_bench_start(&bench);
    run_in_batch(&bench, 9, 1, 9, alone, PLANS);
    run_in_batch(&bench, 9, 20, 0, among, PLANS);

    ck_assert_mem_eq(alone, among, sizeof alone);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(a_copy_of_a_requests_state_is_the_request)
{
    struct speculation_bench bench;
    struct speculation_batch batch, copy;
    make_number(&bench, _i);
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 1, 3, 0);
    speculation_batch_make(&copy, &bench, 1, 3, 0);
    batch.view.step_ns = copy.view.step_ns = step_of_queries_ns;
    speculation_batch_plan(&batch);
    memcpy(copy.requests[0].state, batch.requests[0].state,
           bench.method->request_bytes(bench.data));
    for (uint32_t plan = 0; plan < 50; plan++) {
        speculation_batch_plan(&batch);
        speculation_batch_plan(&copy);
        ck_assert_uint_eq(batch.rounds[0].committed_tokens, copy.rounds[0].committed_tokens);
        ck_assert_uint_eq(batch.rounds[0].query_count, copy.rounds[0].query_count);
    }
    speculation_batch_free(&batch);
    speculation_batch_free(&copy);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(a_plan_allocates_nothing)
{
    struct speculation_bench bench;
    struct speculation_batch batch;
    make_number(&bench, _i);
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 64, 0, 0);
    batch.view.step_ns = step_of_queries_ns;
    uint64_t before = support_allocations();
    for (uint32_t plan = 0; plan < 10; plan++)
        speculation_batch_plan(&batch);

    ck_assert_uint_eq(support_allocations(), before);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(memory_that_runs_out_is_said_and_nothing_leaks)
{
    struct speculation_bench bench;
    bool has_failed = true;
    for (uint64_t nth = 0; has_failed && support_can_fail_allocations(); nth++) {
        struct kvt_error err = {0};
        make_number(&bench, _i);
        support_fail_allocation(nth);
        kvt_status status = speculation_bench_try(&bench, &err);
        has_failed = support_allocation_failed();
        ck_assert_int_eq(status, has_failed ? KVT_ERR_NOMEM : KVT_OK);
        speculation_bench_end(&bench);
    }
}
END_TEST

/* ---- Chances ------------------------------------------------------------------------------ */

/* Within four standard errors of the closed form; a round's tokens spread by less than K / 2. */
static void check_tokens(double tokens, double expected, uint32_t queries, double rounds)
{
    ck_assert_msg(fabs(tokens - expected) <= 4 * queries / 2.0 / sqrt(rounds),
                  "%.4f tokens a round, not %.4f", tokens, expected);
}

START_TEST(a_block_of_k_commits_the_sum_of_powers)
{
    enum {
        REQUESTS = 64,
        PLANS = 1000
    };
    struct speculation_bench bench;
    struct speculation_batch batch;
    double expected = 0;
    uint32_t block = (uint32_t)_i;
    for (uint32_t i = 0; i < block; i++)
        expected += pow(0.65, i);
    speculation_bench_make(&bench, &kvt_speculation_dflash2);
    speculation_bench_param(&bench, "block")->number = block;
    speculation_bench_start(&bench);
    ck_assert_uint_eq(bench.shape.queries_max, block);
    ck_assert_int_eq(bench.shape.basis, KVT_BASIS_FITTED);
    speculation_batch_make(&batch, &bench, REQUESTS, 0, 0);

    check_tokens(speculation_batch_tokens(&batch, PLANS), expected, block, REQUESTS * PLANS);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

/* facts: DFlash on code and chat emits 4.76 and 3.13 tokens a round of 8. */
START_TEST(tasks_have_their_own_chances)
{
    static const double expected[] = {3.13, 4.76, 3.13};
    struct speculation_bench bench;
    struct speculation_batch batch;
    speculation_bench_make(&bench, &kvt_speculation_dflash2);
    speculation_bench_param(&bench, "block")->number = 8;
    speculation_bench_table(&bench, "acceptance", "dflash");
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 64, 0, (uint32_t)_i);

    check_tokens(speculation_batch_tokens(&batch, 1000), expected[_i], 8, 64000);
    ck_assert_int_eq(bench.shape.basis, KVT_BASIS_MEASURED);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(a_wider_block_has_the_luck_of_a_narrower_one)
{
    enum {
        PLANS = 500
    };
    struct speculation_bench narrow, wide;
    struct speculation_batch narrows, wides;
    speculation_bench_make(&narrow, &kvt_speculation_dflash2);
    speculation_bench_make(&wide, &kvt_speculation_dflash2);
    speculation_bench_param(&narrow, "block")->number = 4;
    speculation_bench_param(&wide, "block")->number = 8;
    speculation_bench_start(&narrow);
    speculation_bench_start(&wide);
    speculation_batch_make(&narrows, &narrow, 8, 0, 0);
    speculation_batch_make(&wides, &wide, 8, 0, 0);
    for (uint32_t plan = 0; plan < PLANS; plan++) {
        speculation_batch_plan(&narrows);
        speculation_batch_plan(&wides);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t committed = wides.rounds[i].committed_tokens;
            ck_assert_uint_eq(narrows.rounds[i].committed_tokens, committed < 4 ? committed : 4);
        }
    }
    speculation_batch_free(&narrows);
    speculation_batch_free(&wides);
    speculation_bench_end(&narrow);
    speculation_bench_end(&wide);
}
END_TEST

START_TEST(blocks_follow_the_load)
{
    static const struct {
        uint32_t requests, block;
    } rows[] = {{1, 8}, {32, 8}, {33, 6}, {64, 6}, {65, 4}, {500, 4}};
    struct speculation_bench bench;
    struct speculation_batch batch;
    speculation_bench_make(&bench, &kvt_speculation_dflash2);
    speculation_bench_start(&bench);
    ck_assert_uint_eq(bench.shape.queries_max, 8);
    speculation_batch_make(&batch, &bench, rows[_i].requests, 0, 0);
    speculation_batch_plan(&batch);

    for (uint32_t i = 0; i < batch.count; i++)
        ck_assert_uint_eq(batch.rounds[i].query_count, rows[_i].block);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(native_mtp_commits_what_was_reported)
{
    struct speculation_bench bench;
    struct speculation_batch batch;
    speculation_bench_make(&bench, &kvt_speculation_mtp);
    speculation_bench_param(&bench, "drafts")->number = 5;
    speculation_bench_start(&bench);
    ck_assert_uint_eq(bench.shape.draft_passes, 5);
    speculation_batch_make(&batch, &bench, 64, 0, 0);

    check_tokens(speculation_batch_tokens(&batch, 1000), 2.41, 6, 64000);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(the_model_drafts_for_itself_from_its_budget)
{
    struct speculation_bench bench;
    speculation_bench_make(&bench, &kvt_speculation_self_sparse);
    bench.env.drafter = NULL;
    speculation_bench_start(&bench);

    ck_assert_uint_eq(bench.shape.draft_budget_tokens, 4096);
    ck_assert_uint_eq(bench.shape.draft_passes, 4);
    speculation_bench_end(&bench);
}
END_TEST

/* ---- Trees -------------------------------------------------------------------------------- */

static void make_tree(struct speculation_bench *bench, const struct kvt_speculation_method *method,
                      const double *list, size_t length)
{
    speculation_bench_make(bench, method);
    speculation_bench_param(bench, "branching")->list = list;
    speculation_bench_param(bench, "branching")->list_length = length;
}

START_TEST(a_tree_verifies_all_its_nodes)
{
    struct speculation_bench bench;
    make_tree(&bench, &kvt_speculation_eagle_tree, branching, 4);
    speculation_bench_start(&bench);

    ck_assert_uint_eq(bench.shape.queries_max, 1 + 3 + 6 + 6 + 6);
    ck_assert_uint_eq(bench.shape.side_paths, 6);
    ck_assert_uint_eq(bench.shape.side_tokens, 4);
    ck_assert_uint_eq(bench.shape.draft_passes, 4);
    speculation_bench_end(&bench);
    make_tree(&bench, &kvt_speculation_medusa, branching, 2);
    speculation_bench_start(&bench);
    ck_assert_uint_eq(bench.shape.queries_max, 1 + 3 + 6);
    ck_assert_uint_eq(bench.shape.draft_passes, 1);
    speculation_bench_end(&bench);
}
END_TEST

/* A depth is accepted unless the first candidate and each further one are rejected. */
START_TEST(a_tree_commits_the_sum_of_its_depths_chances)
{
    static const double chances[] = {0.6, 0.45, 0.35};
    static const double wide[] = {4, 2, 1};
    struct speculation_bench bench;
    struct speculation_batch batch;
    make_tree(&bench, &kvt_speculation_medusa, wide, 3);
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 64, 0, 0);
    double expected = 1, reached = 1;
    for (size_t depth = 0; depth < 3; depth++) {
        double rejected = (1 - chances[depth]) * pow(1 - 0.3 * chances[depth], wide[depth] - 1);
        reached *= 1 - rejected;
        expected += reached;
    }

    check_tokens(speculation_batch_tokens(&batch, 1000), expected, 4, 64000);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(a_tree_of_one_candidate_each_is_a_chain)
{
    static const double narrow[] = {1, 1, 1};
    struct speculation_bench tree, chain;
    struct speculation_batch trees, chains;
    make_tree(&tree, &kvt_speculation_eagle_tree, narrow, 3);
    speculation_bench_make(&chain, &kvt_speculation_eagle);
    speculation_bench_start(&tree);
    speculation_bench_start(&chain);
    speculation_batch_make(&trees, &tree, 10, 0, 0);
    speculation_batch_make(&chains, &chain, 10, 0, 0);
    for (uint32_t plan = 0; plan < 100; plan++) {
        speculation_batch_plan(&trees);
        speculation_batch_plan(&chains);
        for (uint32_t i = 0; i < 10; i++) {
            ck_assert_uint_eq(trees.rounds[i].query_count, 4);
            ck_assert_uint_eq(trees.rounds[i].committed_tokens, chains.rounds[i].committed_tokens);
            ck_assert_mem_eq(trees.rounds[i].queries, chains.rounds[i].queries,
                             4 * sizeof trees.rounds[i].queries[0]);
        }
    }
    speculation_batch_free(&trees);
    speculation_batch_free(&chains);
    speculation_bench_end(&tree);
    speculation_bench_end(&chain);
}
END_TEST

START_TEST(a_tree_that_no_round_holds_is_refused)
{
    static const double half[] = {2, 1.5}, huge[] = {31, 31};
    static const struct {
        const double *list;
        size_t length;
        const char *message;
    } rows[] = {
        {half, 2, "1.5 candidates at depth 2; expected a whole number"},
        {huge, 2, "down to depth 2 the tree has 993 queries"},
        {half, 0, "0 depths; expected 1 to 31"},
    };
    struct speculation_bench bench;
    struct kvt_error err = {0};
    make_tree(&bench, &kvt_speculation_eagle_tree, rows[_i].list, rows[_i].length);

    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, rows[_i].message) != NULL, "%s", err.message);
    speculation_bench_end(&bench);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

START_TEST(blocks_that_cannot_be_are_refused)
{
    static const struct {
        const char *param;
        double number;
        uint32_t block_max;
        const char *message;
    } rows[] = {
        {"block", 9, 8, "a block of 9 queries, where drafter \"any\" was made for at most 8"},
        {"block_heavy", 7, 6, "where drafter \"any\" was made for at most 6"},
        {"block", 1, 8, "blocks of 1 query hold no draft"},
        {"light_requests", 65, 8, "light_requests is 65, above medium_requests of 64"},
    };
    struct speculation_bench bench;
    struct kvt_error err = {0};
    speculation_bench_make(&bench, &kvt_speculation_dflash2);
    bench.drafter.block_max = rows[_i].block_max;
    speculation_bench_param(&bench, rows[_i].param)->number = rows[_i].number;

    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, rows[_i].message) != NULL, "%s", err.message);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(a_drafter_must_be_there_and_wide_enough)
{
    struct speculation_bench bench;
    struct kvt_error err = {0};
    speculation_bench_make(&bench, &kvt_speculation_mtp);
    bench.drafter.block_max = 3;
    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "rounds of at most 3 queries"));

    bench.env.drafter = NULL;
    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "no drafter"));
    speculation_bench_make(&bench, &kvt_speculation_dflash2);
    bench.env.drafter = NULL;
    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "no drafter"));
}
END_TEST

static Suite *speculation_suite(void)
{
    Suite *suite = suite_create("speculation");
    int methods = (int)method_count();

    TCase *every = tcase_create("every_method");
    tcase_add_test(every, a_chain_forks_where_its_first_draft_is_rejected);
    tcase_add_loop_test(every, rounds_of_every_method_are_well_formed, 0, methods);
    tcase_add_loop_test(every, nobody_decoding_is_no_round, 0, methods);
    tcase_add_loop_test(every, every_method_says_what_it_is, 0, methods);
    tcase_add_loop_test(every, what_is_drawn_depends_on_the_request_and_its_rounds, 0, methods);
    tcase_add_loop_test(every, a_copy_of_a_requests_state_is_the_request, 0, methods);
    tcase_add_loop_test(every, a_plan_allocates_nothing, 0, methods);
    tcase_add_loop_test(every, memory_that_runs_out_is_said_and_nothing_leaks, 0, methods);
    tcase_set_timeout(every, 60);
    suite_add_tcase(suite, every);

    TCase *chances = tcase_create("chances");
    tcase_add_loop_test(chances, a_block_of_k_commits_the_sum_of_powers, 2, 9);
    tcase_add_loop_test(chances, tasks_have_their_own_chances, 0, 3);
    tcase_add_test(chances, a_wider_block_has_the_luck_of_a_narrower_one);
    tcase_add_loop_test(chances, blocks_follow_the_load, 0, 6);
    tcase_add_test(chances, native_mtp_commits_what_was_reported);
    tcase_add_test(chances, the_model_drafts_for_itself_from_its_budget);
    suite_add_tcase(suite, chances);

    TCase *trees = tcase_create("trees");
    tcase_add_test(trees, a_tree_verifies_all_its_nodes);
    tcase_add_test(trees, a_tree_commits_the_sum_of_its_depths_chances);
    tcase_add_test(trees, a_tree_of_one_candidate_each_is_a_chain);
    tcase_add_loop_test(trees, a_tree_that_no_round_holds_is_refused, 0, 3);
    suite_add_tcase(suite, trees);

    TCase *refusals = tcase_create("refusals");
    tcase_add_loop_test(refusals, blocks_that_cannot_be_are_refused, 0, 4);
    tcase_add_test(refusals, a_drafter_must_be_there_and_wide_enough);
    suite_add_tcase(suite, refusals);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(speculation_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
