/* test_compare_order.c -- which variant is ahead, what is a tie, and what a change of order is. */
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "kvt/compare.h"
#include "kvt/json.h"
#include "support/support.h"

enum {
    VARIANTS = 4,
    SEEDS_MAX = 3,
    PRESETS = 3
};

static const char *const names[VARIANTS] = {"A", "B", "C", "D"};
static const char *const preset_names[PRESETS] = {"flat", "clustered", "skewed"};
static const uint64_t seeds[SEEDS_MAX] = {1, 2, 3};

/* A comparison whose only metric that is not NaN is the first one. */
struct made_up {
    struct kvt_variant variants[VARIANTS];
    struct kvt_comparison comparison;
    double *metrics;
    uint64_t hashes[SEEDS_MAX];
    struct kvt_badge badges[SEEDS_MAX];
    cJSON *scenario;
};

/* values: [variant_count][seed_count] */
static void made_up_open(struct made_up *made_up, size_t variant_count, size_t seed_count,
                         const double *values)
{
    size_t metrics = 0;

    (void)kvt_metric_docs(&metrics);
    *made_up =
        (struct made_up){.metrics = malloc(variant_count * seed_count * metrics * sizeof(double)),
                         .scenario = cJSON_CreateObject()};
    ck_assert_ptr_nonnull(made_up->metrics);
    for (size_t i = 0; i < variant_count * seed_count * metrics; i++)
        made_up->metrics[i] = i % metrics == 0 ? values[i / metrics] : (double)NAN;
    for (size_t v = 0; v < variant_count; v++)
        made_up->variants[v] =
            (struct kvt_variant){.name = names[v],
                                 .source = "made_up",
                                 .scenario = made_up->scenario,
                                 .metrics = made_up->metrics + v * seed_count * metrics,
                                 .hashes = made_up->hashes,
                                 .basis = "assumed",
                                 .badges = made_up->badges};
    made_up->comparison = (struct kvt_comparison){.variants = made_up->variants,
                                                  .variant_count = variant_count,
                                                  .seeds = seeds,
                                                  .seed_count = seed_count};
}

static void made_up_close(struct made_up *made_up)
{
    cJSON_Delete(made_up->scenario);
    free(made_up->metrics);
}

/* Of the first two variants. */
static int ahead_of(size_t seed_count, const double *values)
{
    struct made_up made_up;
    struct kvt_error err = {0};
    int forth = 2, back = 2;

    made_up_open(&made_up, 2, seed_count, values);
    ck_assert_int_eq(kvt_comparison_ahead(&made_up.comparison, 0, 1, 0, &forth, &err), KVT_OK);
    ck_assert_int_eq(kvt_comparison_ahead(&made_up.comparison, 1, 0, 0, &back, &err), KVT_OK);
    ck_assert_int_eq(forth, -back);
    made_up_close(&made_up);
    return forth;
}

START_TEST(one_seed_tells_what_differs_by_more_than_half_a_percent)
{
    ck_assert_int_eq(ahead_of(1, (double[]){1006, 1000}), 1);
    ck_assert_int_eq(ahead_of(1, (double[]){994, 1000}), -1);
    ck_assert_int_eq(ahead_of(1, (double[]){1004.9, 1000}), 0);
    ck_assert_int_eq(ahead_of(1, (double[]){1000, 1004.9}), 0);
    ck_assert_int_eq(ahead_of(1, (double[]){0, 0}), 0);
    ck_assert_int_eq(ahead_of(1, (double[]){NAN, 1000}), 0);
}
END_TEST

/* t(0.975, 2) = 4.3027: differences 1 2 3 have 2 -+ 2.484, differences 2 3 4 have 3 -+ 2.484. */
START_TEST(several_seeds_tell_what_their_interval_tells)
{
    ck_assert_int_eq(ahead_of(3, (double[]){11, 12, 13, 10, 10, 10}), 0);
    ck_assert_int_eq(ahead_of(3, (double[]){12, 13, 14, 10, 10, 10}), 1);
    ck_assert_int_eq(ahead_of(3, (double[]){10, 10, 10, 12, 13, 14}), -1);
    /* Paired: what both have in common does not count, however far seeds are apart. */
    ck_assert_int_eq(ahead_of(3, (double[]){10.1, 200.1, 3000.1, 10, 200, 3000}), 1);
    ck_assert_int_eq(ahead_of(3, (double[]){10, 200, 3000, 10, 200, 3000}), 0);
    ck_assert_int_eq(ahead_of(3, (double[]){NAN, 200, 3000, 10, 200, 3000}), 0);
}
END_TEST

START_TEST(the_order_is_that_of_means_with_the_missing_ones_last)
{
    struct made_up made_up;
    struct kvt_error err = {0};
    size_t order[VARIANTS];
    const double values[] = {NAN, 7, /* A */ 5, 7, /* B */ 9, 3, /* C */ 8, 8 /* D */};

    made_up_open(&made_up, VARIANTS, 2, values);
    ck_assert_int_eq(kvt_comparison_order(&made_up.comparison, 0, order, &err), KVT_OK);
    const size_t expected[VARIANTS] = {3, 1, 2, 0}; /* 8, 6, 6, none */
    for (size_t v = 0; v < VARIANTS; v++)
        ck_assert_uint_eq(order[v], expected[v]);
    made_up_close(&made_up);
}
END_TEST

/* ---- Between presets --------------------------------------------------------------------- */

struct made_up_presets {
    struct made_up made_up[PRESETS];
    struct kvt_comparison comparisons[PRESETS];
    struct kvt_presets presets;
};

/* values: [PRESETS][variant_count], one seed */
static void presets_open(struct made_up_presets *all, size_t variant_count, const double *values)
{
    for (size_t p = 0; p < PRESETS; p++) {
        made_up_open(&all->made_up[p], variant_count, 1, values + p * variant_count);
        all->comparisons[p] = all->made_up[p].comparison;
    }
    all->presets = (struct kvt_presets){
        .names = preset_names, .comparisons = all->comparisons, .count = PRESETS};
}

static void presets_close(struct made_up_presets *all)
{
    for (size_t p = 0; p < PRESETS; p++)
        made_up_close(&all->made_up[p]);
}

static struct kvt_order_check check_of(struct made_up_presets *all)
{
    struct kvt_order_check check = {0};
    struct kvt_error err = {0};

    ck_assert_int_eq(kvt_presets_check_order(&all->presets, 0, &check, &err), KVT_OK);
    return check;
}

START_TEST(a_pair_that_changes_places_is_a_reversal)
{
    struct made_up_presets all;
    const double values[] = {30, 20, 10, /* flat */ 30, 10, 20, /* clustered */ 30, 10, 40};

    presets_open(&all, 3, values);
    struct kvt_order_check check = check_of(&all);
    ck_assert_uint_eq(check.reversal_count, 2);
    ck_assert_uint_eq(check.tie_count, 0);
    /* A > C under flat, C > A under skewed; B > C under flat, C > B from clustered on. */
    ck_assert_uint_eq(check.reversals[0].a, 0);
    ck_assert_uint_eq(check.reversals[0].b, 2);
    ck_assert_uint_eq(check.reversals[0].a_ahead, 0);
    ck_assert_uint_eq(check.reversals[0].b_ahead, 2);
    ck_assert_uint_eq(check.reversals[1].a, 1);
    ck_assert_uint_eq(check.reversals[1].b, 2);
    ck_assert_uint_eq(check.reversals[1].a_ahead, 0);
    ck_assert_uint_eq(check.reversals[1].b_ahead, 1);
    free(check.reversals);
    presets_close(&all);
}
END_TEST

START_TEST(a_tie_under_one_preset_is_no_reversal)
{
    struct made_up_presets all;
    const double values[] = {1000, 900, /* flat */ 1000, 1001, /* clustered */ 1000, NAN};

    presets_open(&all, 2, values);
    struct kvt_order_check check = check_of(&all);
    ck_assert_uint_eq(check.reversal_count, 0);
    ck_assert_uint_eq(check.tie_count, 2);
    free(check.reversals);
    presets_close(&all);
}
END_TEST

START_TEST(every_pair_may_be_reversed)
{
    struct made_up_presets all;
    const double values[] = {4, 3, 2, 1, /* flat */ 1, 2, 3, 4, /* clustered */ 4, 3, 2, 1};

    presets_open(&all, VARIANTS, values);
    struct kvt_order_check check = check_of(&all);
    ck_assert_uint_eq(check.reversal_count, VARIANTS * (VARIANTS - 1) / 2);
    free(check.reversals);
    presets_close(&all);
}
END_TEST

/* Two seeds; A and D miss 30 and 40, 24 and 30 per cent, B and C, which see the future, 20 and 25,
 * 22 and 30. */
START_TEST(regret_is_to_the_bound_that_misses_least)
{
    struct made_up made_up;
    struct kvt_error err = {0};
    struct kvt_estimate regret;
    size_t miss_ratio = 0, metrics = 0;
    cJSON *tree = NULL;
    const double misses[] = {0.3, 0.4, 0.2, 0.25, 0.22, 0.3, 0.24, 0.3};

    (void)kvt_metric_docs(&metrics);
    ck_assert_int_eq(kvt_metric_find("hot_miss_ratio", "test", &miss_ratio, &err), KVT_OK);
    made_up_open(&made_up, VARIANTS, 2, misses);
    for (size_t i = 0; i < VARIANTS * 2; i++)
        made_up.metrics[i * metrics + miss_ratio] = misses[i];
    ck_assert_uint_eq(kvt_comparison_bound(&made_up.comparison), VARIANTS);
    ck_assert_int_eq(kvt_comparison_tree(&made_up.comparison, NULL, 0, NULL, &tree, &err), KVT_OK);
    const cJSON *entry = cJSON_GetArrayItem(kvt_json_find(tree, "variants"), 0);
    ck_assert_ptr_null(kvt_json_find(entry, "regret"));
    ck_assert(cJSON_IsFalse(kvt_json_find(entry, "bound")));
    cJSON_Delete(tree);
    made_up.variants[1].is_bound = made_up.variants[1].bounds_misses = true;
    made_up.variants[2].is_bound = made_up.variants[2].bounds_misses = true;
    ck_assert_uint_eq(kvt_comparison_bound(&made_up.comparison), 1);
    ck_assert_int_eq(kvt_comparison_regret(&made_up.comparison, 0, 1, &regret, &err), KVT_OK);
    ck_assert_double_eq_tol(regret.mean, (0.5 + 0.6) / 2, 1e-12);
    ck_assert_double_eq_tol(regret.high - regret.mean, 12.706204736432095 * 0.05, 1e-9);
    ck_assert_int_eq(kvt_comparison_tree(&made_up.comparison, NULL, 0, NULL, &tree, &err), KVT_OK);
    entry = cJSON_GetArrayItem(kvt_json_find(tree, "variants"), 3);
    ck_assert_double_eq_tol(kvt_json_find(entry, "regret")->valuedouble, 0.2, 1e-12);
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(entry, "regret_ci95")), 2);
    entry = cJSON_GetArrayItem(kvt_json_find(tree, "variants"), 1);
    ck_assert(cJSON_IsTrue(kvt_json_find(entry, "bound")));
    ck_assert_double_eq(kvt_json_find(entry, "regret")->valuedouble, 0);
    cJSON_Delete(tree);
    made_up.metrics[1 * 2 * metrics + miss_ratio] = 0; /* nothing to be measured by */
    ck_assert_int_eq(kvt_comparison_regret(&made_up.comparison, 0, 1, &regret, &err), KVT_OK);
    ck_assert(isnan(regret.mean));
    made_up_close(&made_up);
}
END_TEST

static const char *text_at(const cJSON *tree, const char *list, int index, const char *key)
{
    const cJSON *entry = cJSON_GetArrayItem(kvt_json_find(tree, list), index);
    return kvt_json_find(entry, key)->valuestring;
}

START_TEST(the_tree_holds_what_was_compared_and_what_was_reversed)
{
    struct made_up_presets all;
    struct kvt_error err = {0};
    cJSON *tree = NULL;
    const double values[] = {1000, 900, /* flat */ 1000, 1001, /* clustered */ 1000, 1100};

    presets_open(&all, 2, values);
    ck_assert_int_eq(kvt_presets_tree(&all.presets, NULL, 0, 0, &tree, &err), KVT_OK);
    ck_assert_ptr_null(kvt_json_find(tree, "variants"));
    const cJSON *presets = kvt_json_find(tree, "presets");
    ck_assert_int_eq(cJSON_GetArraySize(presets), PRESETS);
    for (int p = 0; p < PRESETS; p++) {
        const cJSON *entry = cJSON_GetArrayItem(presets, p);
        ck_assert_str_eq(kvt_json_find(entry, "preset")->valuestring, preset_names[p]);
        ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(entry, "variants")), 2);
        ck_assert_str_eq(text_at(entry, "order", 0, "variant"), p == 0 ? "A" : "B");
        const cJSON *first = cJSON_GetArrayItem(kvt_json_find(entry, "order"), 0);
        ck_assert_int_eq(cJSON_IsTrue(kvt_json_find(first, "tied_with_next")), p == 1);
    }
    const cJSON *order = kvt_json_find(tree, "order");
    ck_assert(cJSON_IsTrue(kvt_json_find(order, "changes")));
    ck_assert_str_eq(text_at(order, "reversals", 0, "a_ahead_under"), "flat");
    ck_assert_str_eq(text_at(order, "reversals", 0, "b_ahead_under"), "skewed");
    cJSON_Delete(tree);
    presets_close(&all);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare_order");
    TCase *pairs = tcase_create("pairs");
    tcase_add_test(pairs, one_seed_tells_what_differs_by_more_than_half_a_percent);
    tcase_add_test(pairs, several_seeds_tell_what_their_interval_tells);
    tcase_add_test(pairs, the_order_is_that_of_means_with_the_missing_ones_last);
    tcase_add_test(pairs, regret_is_to_the_bound_that_misses_least);
    suite_add_tcase(suite, pairs);
    TCase *presets = tcase_create("presets");
    tcase_add_test(presets, a_pair_that_changes_places_is_a_reversal);
    tcase_add_test(presets, a_tie_under_one_preset_is_no_reversal);
    tcase_add_test(presets, every_pair_may_be_reversed);
    tcase_add_test(presets, the_tree_holds_what_was_compared_and_what_was_reversed);
    suite_add_tcase(suite, presets);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
