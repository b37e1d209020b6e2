/* test_timeline.c -- courses of runs: bins of intervals, and two of them side by side. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "cli/measure/validate_timeline.h"
#include "cli/timeline_columns.h"
#include "kvt/json.h"

/* ---- A course ------------------------------------------------------------------------------ */

static struct kvt_tally interval(kvt_ns from_ns, kvt_ns to_ns)
{
    return (struct kvt_tally){.from_ns = from_ns,
                              .to_ns = to_ns,
                              .held_ns = 3 * (double)(to_ns - from_ns),
                              .running_ns = 2.5 * (double)(to_ns - from_ns)};
}

static double at(const cJSON *tree, enum timeline_column column, int i)
{
    const cJSON *array = kvt_json_find(tree, timeline_column_name(column));
    const cJSON *item = cJSON_GetArrayItem(array, i);

    ck_assert_ptr_nonnull(item);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static int rows_of(const cJSON *tree)
{
    int rows = cJSON_GetArraySize(kvt_json_find(tree, timeline_column_name(TIMELINE_FROM_S)));

    for (int c = 0; c < TIMELINE_COLUMNS; c++)
        ck_assert_int_eq(
            cJSON_GetArraySize(kvt_json_find(tree, timeline_column_name((enum timeline_column)c))),
            rows);
    return rows;
}

START_TEST(each_interval_is_a_row_where_bins_have_no_length)
{
    struct timeline_columns columns;
    struct kvt_error err;
    cJSON *tree = NULL;
    struct kvt_tally first = interval(0, 29 * KVT_NS_PER_S);
    struct kvt_tally second = interval(29 * KVT_NS_PER_S, 29 * KVT_NS_PER_S + 1);

    first.counts[KVT_SAMPLED_SELECTED] = 2385;
    first.counts[KVT_SAMPLED_MISSED] = 477;
    first.coverage_ns = 3e9;
    first.covered_ns = 4e9;
    first.decode_steps = 4;
    first.step_ns = 50000000;
    ck_assert_int_eq(timeline_columns_open(&columns, 0, &err), KVT_OK);
    timeline_columns_add(&columns, &first, 0);
    timeline_columns_add(&columns, &second, 0);
    ck_assert_int_eq(timeline_columns_close(&columns, &tree, &err), KVT_OK);
    ck_assert_int_eq(rows_of(tree), 2);
    ck_assert_double_eq(at(tree, TIMELINE_TO_S, 0), 29);
    ck_assert_double_eq(at(tree, TIMELINE_SLOTS, 0), 3);
    ck_assert_double_eq(at(tree, TIMELINE_RUNNING, 1), 2.5);
    ck_assert_double_eq(at(tree, TIMELINE_HOST_FETCH_SHARE, 0), 0.2);
    ck_assert_double_eq(at(tree, TIMELINE_COVERAGE, 0), 0.75);
    ck_assert_double_eq(at(tree, TIMELINE_MEAN_STEP_MS, 0), 12.5);
    ck_assert_double_nan(at(tree, TIMELINE_HOST_FETCH_SHARE, 1));
    ck_assert_double_nan(at(tree, TIMELINE_COVERAGE, 1));
    ck_assert_double_nan(at(tree, TIMELINE_MEAN_STEP_MS, 1));
    cJSON_Delete(tree);
}
END_TEST

START_TEST(intervals_fill_a_bin_until_it_is_long_enough_and_the_last_is_kept_short)
{
    struct timeline_columns columns;
    struct kvt_error err;
    cJSON *tree = NULL;

    ck_assert_int_eq(timeline_columns_open(&columns, 2, &err), KVT_OK);
    for (int i = 0; i < 5; i++) {
        struct kvt_tally one = interval(i * KVT_NS_PER_S, (i + 1) * KVT_NS_PER_S);
        one.counts[KVT_SAMPLED_SELECTED] = 10;
        one.counts[KVT_SAMPLED_MISSED] = i;
        timeline_columns_add(&columns, &one, 0);
    }
    ck_assert_int_eq(timeline_columns_close(&columns, &tree, &err), KVT_OK);
    ck_assert_int_eq(rows_of(tree), 3);
    ck_assert_double_eq(at(tree, TIMELINE_FROM_S, 1), 2);
    ck_assert_double_eq(at(tree, TIMELINE_TO_S, 1), 4);
    ck_assert_double_eq(at(tree, TIMELINE_HOST_FETCH_SHARE, 1), 0.25);
    ck_assert_double_eq(at(tree, TIMELINE_FROM_S, 2), 4);
    ck_assert_double_eq(at(tree, TIMELINE_TO_S, 2), 5);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(a_run_of_no_interval_has_empty_columns)
{
    struct timeline_columns columns, zeroed = {0};
    struct kvt_error err;
    cJSON *tree = NULL;

    ck_assert_int_eq(timeline_columns_open(&columns, 0, &err), KVT_OK);
    ck_assert_int_eq(timeline_columns_close(&columns, &tree, &err), KVT_OK);
    ck_assert_int_eq(rows_of(tree), 0);
    cJSON_Delete(tree);
    timeline_columns_discard(&columns); /* closed */
    timeline_columns_discard(&zeroed);
}
END_TEST

/* ---- Two of them --------------------------------------------------------------------------- */

static double from_a[] = {0, 1, 2, 5}, to_a[] = {1, 2, 5, 6}, value_a[] = {4, NAN, 1, 2};
static double from_b[] = {0, 1.5, 4}, to_b[] = {1.5, 4, 9}, value_b[] = {1, 3, 5};

static void sides_of(struct timeline sides[TIMELINE_SIDES])
{
    sides[TIMELINE_MEASURED] = (struct timeline){.count = 4};
    sides[TIMELINE_MEASURED].columns[TIMELINE_FROM_S] = from_a;
    sides[TIMELINE_MEASURED].columns[TIMELINE_TO_S] = to_a;
    sides[TIMELINE_MEASURED].columns[TIMELINE_COVERAGE] = value_a;
    sides[TIMELINE_PREDICTED] = (struct timeline){.count = 3};
    sides[TIMELINE_PREDICTED].columns[TIMELINE_FROM_S] = from_b;
    sides[TIMELINE_PREDICTED].columns[TIMELINE_TO_S] = to_b;
    sides[TIMELINE_PREDICTED].columns[TIMELINE_COVERAGE] = value_b;
}

/* By hand: measured 4 on [0, 1), nothing on [1, 2), 1 on [2, 5), 2 on [5, 6); predicted 1 on
 * [0, 1.5), 3 on [1.5, 4), 5 on [4, 9). */
static const struct {
    double from_s, to_s, measured, predicted, mean_abs;
} overlaps[] = {
    {0, 6, (4 + 2 + 1 + 2) / 5.0, (1 + 6 + 5 + 5) / 5.0, (3 + 2 * 2 + 4 + 3) / 5.0},
    {0, 1, 4, 1, 3},
    {0.5, 2.5, (2 + 0.5) / 1, (0.5 + 1.5) / 1, (1.5 + 1) / 1},
    {1, 2, NAN, NAN, NAN},
    {4.5, 100, (0.5 + 2) / 1.5, 5, (0.5 * 4 + 3) / 1.5},
    {6, 9, NAN, NAN, NAN},
    {3, 3, NAN, NAN, NAN},
};

static void expect(double value, double expected)
{
    if (isnan(expected))
        ck_assert_double_nan(value);
    else
        ck_assert_double_eq_tol(value, expected, 1e-12);
}

START_TEST(bins_that_begin_elsewhere_are_compared_where_they_overlap_and_both_are_defined)
{
    struct timeline sides[TIMELINE_SIDES];
    struct timeline_difference difference;

    sides_of(sides);
    timeline_compare(sides, TIMELINE_COVERAGE, overlaps[_i].from_s, overlaps[_i].to_s, &difference);
    expect(difference.means[TIMELINE_MEASURED], overlaps[_i].measured);
    expect(difference.means[TIMELINE_PREDICTED], overlaps[_i].predicted);
    expect(difference.mean_abs, overlaps[_i].mean_abs);
}
END_TEST

START_TEST(which_side_is_which_does_not_change_the_difference)
{
    struct timeline sides[TIMELINE_SIDES], turned[TIMELINE_SIDES];
    struct timeline_difference forth, back;

    sides_of(sides);
    turned[TIMELINE_MEASURED] = sides[TIMELINE_PREDICTED];
    turned[TIMELINE_PREDICTED] = sides[TIMELINE_MEASURED];
    timeline_compare(sides, TIMELINE_COVERAGE, 0, 6, &forth);
    timeline_compare(turned, TIMELINE_COVERAGE, 0, 6, &back);
    ck_assert_double_eq(forth.mean_abs, back.mean_abs);
    ck_assert_double_eq(forth.means[TIMELINE_MEASURED], back.means[TIMELINE_PREDICTED]);
}
END_TEST

static Suite *timeline_suite(void)
{
    Suite *suite = suite_create("timeline");
    TCase *columns = tcase_create("columns"), *both = tcase_create("both");

    tcase_add_test(columns, each_interval_is_a_row_where_bins_have_no_length);
    tcase_add_test(columns,
                   intervals_fill_a_bin_until_it_is_long_enough_and_the_last_is_kept_short);
    tcase_add_test(columns, a_run_of_no_interval_has_empty_columns);
    suite_add_tcase(suite, columns);
    tcase_add_loop_test(
        both, bins_that_begin_elsewhere_are_compared_where_they_overlap_and_both_are_defined, 0,
        (int)(sizeof overlaps / sizeof overlaps[0]));
    tcase_add_test(both, which_side_is_which_does_not_change_the_difference);
    suite_add_tcase(suite, both);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(timeline_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
