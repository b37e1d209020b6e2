/* test_scenario_derived.c -- what a scenario's numbers are made into: caches, pools, weights. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/scenario.h"
#include "support/loaded.h"

START_TEST(hot_tokens_is_a_number_a_multiple_of_top_k_or_auto)
{
    static const struct {
        const char *set;
        uint64_t tokens;
    } forms[] = {{"residency.hot_tokens=6144", 6144},
                 {"residency.hot_tokens=1.5k", 3072},
                 {"residency.hot_tokens=2k", 4096},
                 {"residency.hot_tokens=auto", 4096}};
    for (size_t i = 0; i < 4; i++) {
        const char *const sets[LOADED_SETS_MAX] = {forms[i].set};
        struct loaded loaded = loaded_from("glm-5.3-100k", sets);
        loaded_check_ok(&loaded);
        ck_assert_uint_eq(loaded.scenario.hot_tokens, forms[i].tokens);
        kvt_arena_free(loaded.arena);
    }
    /* 512 rows at ratio 2, and one query more than the widest round. */
    const char *const methods[] = {"speculation=none", "speculation=dspark"};
    const uint64_t tokens[] = {(1 + 1) * 512 * 2, (6 + 1) * 512 * 2};
    for (size_t i = 0; i < 2; i++) {
        const char *const sets[LOADED_SETS_MAX] = {"residency.hot_tokens=auto", methods[i]};
        struct loaded loaded = loaded_from("deepseek-v4.1-flash-500k", sets);
        loaded_check_ok(&loaded);
        ck_assert_uint_eq(loaded.scenario.hot_tokens, tokens[i]);
        kvt_arena_free(loaded.arena);
    }
}
END_TEST

START_TEST(the_derived_pool_is_what_the_published_calculator_says)
{
    struct loaded loaded = loaded_from("vllm-calculator", NULL);
    loaded_check_ok(&loaded);
    const struct kvt_decode_pool *pool = &loaded.scenario.pools[0];
    /* 141e9 / 2^30 * .92 - (19.556 + 684.167) / 8 - 15, of which it prints 17.8. */
    double weights_gib = (19.556 + 684.167) / 8;
    double expected_gib = 141e9 / (double)KVT_GIB * 0.92 - weights_gib - 15;
    ck_assert_double_eq_tol(pool->weights_gib_per_gpu, weights_gib, 1e-9);
    ck_assert_double_eq_tol((double)pool->index_pool_bytes / (double)KVT_GIB, expected_gib, 1e-6);
    ck_assert_double_eq_tol(expected_gib, 17.8, 0.05);
    ck_assert(!pool->pools_given && pool->weights_fit);
    ck_assert_double_eq(pool->host_dram_gib_per_node, 4096);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(experts_are_sharded_over_the_pool_only_where_ep_is_on)
{
    const char *const sets[LOADED_SETS_MAX] = {"cluster.decode.ep=1", "cluster.decode.tp=4",
                                               "cluster.decode.dp=1",
                                               "cluster.decode.pools=derived"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq_tol(loaded.scenario.pools[0].weights_gib_per_gpu, (19.556 + 684.167) / 4,
                            1e-9);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(weights_that_do_not_fit_are_refused_with_the_figures)
{
    const char *const sets[LOADED_SETS_MAX] = {"hardware=h100"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_refused(
        &loaded, KVT_ERR_INVALID, "scenarios/glm-5.3-100k.json#/cluster/decode/gpus",
        "the weights of glm-5.3 do not fit: h100 has 74.5 GiB of HBM of which 68.5 GiB "
        "may be used, the weights take 190.6 GiB of each of 4 GPUs and the workspace "
        "15.0 GiB; 137.1 GiB are missing");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(sizing_is_told_when_the_weights_do_not_fit)
{
    struct loaded loaded = loaded_over("\"hardware\": \"h100\"", NULL, true);
    loaded_check_ok(&loaded);
    ck_assert(!loaded.scenario.pools[0].weights_fit);
    ck_assert_uint_eq(loaded.scenario.pools[0].index_pool_bytes, 0);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(speculation_is_sized_with_its_drafter_taken_from_the_pool)
{
    struct loaded loaded = loaded_over("\"speculation\": \"dflash2\"", NULL, true);
    loaded_check_ok(&loaded);
    ck_assert_uint_eq(loaded.scenario.queries_max, 8);
    ck_assert_str_eq(loaded.scenario.drafter->name, "glm-5.3-dflash2");
    double left =
        22.5 * (double)KVT_GIB - loaded.scenario.drafter->weight_bytes - 0.5 * (double)KVT_GIB;
    ck_assert_double_eq_tol((double)loaded.scenario.pools[0].index_pool_bytes, left, 2);
    /* The paper's 35 slots of 0.4924 GiB bound the pool from both sides. */
    ck_assert_double_eq(floor(left / (double)KVT_GIB / 0.4924), 35);
    kvt_arena_free(loaded.arena);

    loaded = loaded_over("\"speculation\": {\"method\": \"dflash2\", \"block\": 4}", NULL, false);
    loaded_check_ok(&loaded);
    ck_assert_uint_eq(loaded.scenario.queries_max, 4);
    ck_assert_double_eq(loaded.scenario.staging_fraction, 1);
    ck_assert(!loaded.scenario.resolve_each_query);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(split_pools_stay_apart)
{
    struct loaded loaded = loaded_over(
        "\"cluster\": {\"decode\": {\"pools\": {\"index_gib\": 8, \"rows_gib\": 12.5}}}", NULL,
        false);
    loaded_check_ok(&loaded);
    ck_assert_ptr_null(loaded_at(&loaded, "cluster.decode.pools.unified_gib"));
    ck_assert_uint_eq(loaded.scenario.pools[0].index_pool_bytes, UINT64_C(8) * KVT_GIB);
    ck_assert_uint_eq(loaded.scenario.pools[0].rows_pool_bytes, UINT64_C(25) * KVT_GIB / 2);
    kvt_arena_free(loaded.arena);
}
END_TEST

static Suite *derived_suite(void)
{
    Suite *suite = suite_create("scenario_derived");
    TCase *derived = tcase_create("derived");
    tcase_add_checked_fixture(derived, loaded_folder_make, loaded_folder_remove);
    tcase_add_test(derived, hot_tokens_is_a_number_a_multiple_of_top_k_or_auto);
    tcase_add_test(derived, the_derived_pool_is_what_the_published_calculator_says);
    tcase_add_test(derived, experts_are_sharded_over_the_pool_only_where_ep_is_on);
    tcase_add_test(derived, weights_that_do_not_fit_are_refused_with_the_figures);
    tcase_add_test(derived, sizing_is_told_when_the_weights_do_not_fit);
    tcase_add_test(derived, speculation_is_sized_with_its_drafter_taken_from_the_pool);
    tcase_add_test(derived, split_pools_stay_apart);
    suite_add_tcase(suite, derived);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(derived_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
