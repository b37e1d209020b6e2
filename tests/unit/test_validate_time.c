/* test_validate_time.c -- a profile beside points: errors, orders, gathers. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/validate_time.h"
#include "support/support.h"

/* ---- A profile beside points --------------------------------------------------------------- */

enum {
    RUNS = 4,
    STEPS = 30
};

static struct kvt_arena *arena;
static struct points_configuration configurations[RUNS + 1];

/* A step of 8 ms and 0.1 ms a request; a fetch of 0.02 ns a byte. */
static struct kvt_profile make_profile(void)
{
    struct kvt_profile profile = {.model = "glm-5.3", .hardware = "h200", .tp = 1, .ep = 1};
    struct kvt_profile_family *dense = &profile.families[KVT_PART_DENSE];
    struct kvt_profile_family *fetch = &profile.families[KVT_PART_FETCH];

    *dense = (struct kvt_profile_family){.is_there = true, .limit_count = 1};
    dense->ns_per[0][KVT_FEATURE_STEP] = 8e6;
    dense->ns_per[0][KVT_FEATURE_REQUESTS] = 1e5;
    dense->has_range[KVT_FEATURE_REQUESTS] = true;
    dense->least[KVT_FEATURE_REQUESTS] = 1;
    dense->most[KVT_FEATURE_REQUESTS] = 30;
    *fetch = (struct kvt_profile_family){.is_there = true, .limit_count = 1};
    fetch->ns_per[0][KVT_FEATURE_WIRE_BYTES] = 0.02;
    return profile;
}

static void add(struct points *points, const struct point *point)
{
    struct kvt_error err;
    ck_assert_int_eq(points_append(points, point, &err), KVT_OK);
}

/* Runs of 10, 20, 30, 40 requests whose steps take `factor` times what the profile says. */
static struct time_outcome make_outcome(double factor)
{
    struct time_outcome outcome = {.profile = make_profile(), .profile_path = "p.json"};
    static const char *const names[RUNS + 1] = {"a", "b", "c", "d", "gather"};

    outcome.points = (struct points){.configurations = configurations,
                                     .configuration_count = RUNS + 1,
                                     .grid = "made",
                                     .model = "glm-5.3",
                                     .hardware = "h200",
                                     .tp = 1,
                                     .ep = 1};
    for (uint32_t run = 0; run <= RUNS; run++)
        configurations[run] = (struct points_configuration){
            .name = names[run], .sets = "", .is_gather = run == RUNS, .is_ranked = run < RUNS};
    for (uint32_t run = 0; run < RUNS; run++) {
        for (int i = 0; i < STEPS; i++) {
            struct point point = {.configuration = run, .steps = 1, .is_apart = i % 3 == 0};
            point.features[KVT_FEATURE_STEP] = 1;
            point.features[KVT_FEATURE_REQUESTS] = 10 + 10 * run;
            point.parts_ns[KVT_PART_DENSE] = factor * (8e6 + 1e6 * (1 + run));
            point.step_ns = point.parts_ns[KVT_PART_DENSE];
            if (point.is_apart) { /* 78 stops of 3 us are no part of it */
                point.marks[KVT_PART_DENSE] = 78;
                point.parts_ns[KVT_PART_DENSE] += 78 * 3000;
                point.step_ns = point.parts_ns[KVT_PART_DENSE];
            }
            add(&outcome.points, &point);
        }
    }
    outcome.mark_ns = 3000;
    return outcome;
}

static void judge(struct time_outcome *outcome)
{
    struct kvt_error err = {0};
    ck_assert_msg(time_judge(outcome, arena, &err) == KVT_OK, "%s", err.message);
}

START_TEST(a_profile_that_says_what_was_measured_is_good)
{
    struct time_outcome outcome = make_outcome(1);
    judge(&outcome);

    ck_assert(time_is_good(&outcome));
    ck_assert_double_lt(outcome.step.errors.mape, 1e-12);
    ck_assert_double_lt(outcome.families[KVT_PART_DENSE].errors.mape, 1e-12);
    ck_assert_uint_eq(outcome.step.errors.count, RUNS * STEPS * 2 / 3);
    ck_assert_uint_eq(outcome.families[KVT_PART_DENSE].errors.count, RUNS * STEPS / 3);
    /* Requests 40 were not measured. */
    ck_assert_uint_eq(outcome.step.in_range, (RUNS - 1) * STEPS * 2 / 3);
    ck_assert_double_gt(outcome.step.correlation, 0.9999);
    ck_assert_uint_eq(outcome.pairs, RUNS * (RUNS - 1) / 2);
    ck_assert_uint_eq(outcome.swapped, 0);
    ck_assert(outcome.tau == 1);
    ck_assert(fabs(time_run_rate(&outcome.runs[0], outcome.runs[0].measured_ns) - 10 / 9e-3) <
              1e-6);
    time_outcome_free(&outcome);
}
END_TEST

static const struct {
    double factor;
    bool good;
} factors[] = {{1.019, true}, {1.0 / 1.019, true}, {1.03, false}, {0.94, false}, {1.2, false}};

START_TEST(a_bias_of_more_than_2_percent_is_not_good)
{
    struct time_outcome outcome = make_outcome(factors[_i].factor);
    judge(&outcome);

    ck_assert_int_eq(time_is_good(&outcome), factors[_i].good);
    ck_assert_double_lt(fabs(outcome.step.errors.bias - (1 / factors[_i].factor - 1)), 1e-9);
    time_outcome_free(&outcome);
}
END_TEST

/* One in ten steps takes a sixth longer, the others a little less: no bias, and a long tail. */
START_TEST(steps_that_are_far_off_are_not_good)
{
    struct time_outcome outcome = make_outcome(1);
    for (size_t i = 0; i < outcome.points.count; i++)
        outcome.points.items[i].step_ns *= i % 10 == 4 ? 1.17 : 0.985;
    judge(&outcome);

    ck_assert_double_lt(fabs(outcome.step.errors.bias), TIME_BIAS_MOST);
    ck_assert_double_lt(outcome.step.errors.mape, TIME_MAPE_MOST);
    ck_assert_double_gt(outcome.step.errors.p95_abs, TIME_P95_MOST);
    ck_assert(!time_is_good(&outcome));
    time_outcome_free(&outcome);
}
END_TEST

/* 40 requests in 12 ms beat 30 in 11, as predicted; measured they do not, by far. */
START_TEST(another_order_is_not_good)
{
    struct time_outcome outcome = make_outcome(1);
    for (size_t i = 0; i < outcome.points.count; i++) {
        if (outcome.points.items[i].configuration == RUNS - 1)
            outcome.points.items[i].step_ns *= 1.4;
    }
    judge(&outcome);

    ck_assert_uint_eq(outcome.swapped, 1);
    ck_assert_double_eq_tol(outcome.tau, 1 - 2.0 / 6, 1e-12);
    ck_assert(!time_is_good(&outcome));
    time_outcome_free(&outcome);
}
END_TEST

static const struct {
    double ns;
    bool good;
} gathers[] = {{20e6 / 1.09, true}, {20e6 / 0.91, true}, {20e6 / 1.11, false}};

START_TEST(each_gather_is_within_10_percent_or_it_is_not_good)
{
    struct time_outcome outcome = make_outcome(1);
    struct point point = {.configuration = RUNS, .steps = 21, .is_apart = true};
    cJSON *tree = NULL;
    struct kvt_error err = {0};

    point.features[KVT_FEATURE_WIRE_BYTES] = 1e9;
    point.step_ns = point.parts_ns[KVT_PART_FETCH] = gathers[_i].ns;
    add(&outcome.points, &point);
    judge(&outcome);

    ck_assert_uint_eq(outcome.gathers.errors.count, 1);
    ck_assert_uint_eq(outcome.families[KVT_PART_FETCH].errors.count, 0);
    ck_assert_int_eq(time_is_good(&outcome), gathers[_i].good);
    ck_assert_int_eq(time_tree(&outcome, &tree, &err), KVT_OK);
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(tree, "gathers")), 1);
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(tree, "runs")), RUNS);
    ck_assert_int_eq(cJSON_IsTrue(kvt_json_find(tree, "good")), gathers[_i].good);
    cJSON_Delete(tree);
    time_outcome_free(&outcome);
}
END_TEST

/* A gather that is off by 30 % is in range all the same, and one that nothing is known of may be
 * right. */
START_TEST(a_gather_in_range_is_not_one_within_10_percent)
{
    struct time_outcome outcome = make_outcome(1);
    struct kvt_profile_family *fetch = &outcome.profile.families[KVT_PART_FETCH];
    struct point point = {.configuration = RUNS, .steps = 21, .is_apart = true};

    fetch->has_range[KVT_FEATURE_WIRE_BYTES] = true;
    fetch->most[KVT_FEATURE_WIRE_BYTES] = 2e9;
    point.features[KVT_FEATURE_WIRE_BYTES] = 1e9;
    point.step_ns = point.parts_ns[KVT_PART_FETCH] = 26e6;
    add(&outcome.points, &point);
    for (int i = 0; i < 2; i++) { /* right, and beyond the range */
        point.features[KVT_FEATURE_WIRE_BYTES] = 3e9;
        point.step_ns = point.parts_ns[KVT_PART_FETCH] = 60e6;
        add(&outcome.points, &point);
    }
    judge(&outcome);

    ck_assert_uint_eq(outcome.gathers.errors.count, 3);
    ck_assert_uint_eq(outcome.gathers.in_range, 1);
    ck_assert_uint_eq(outcome.gathers_within, 2);
    time_outcome_free(&outcome);
}
END_TEST

/* 3 GB beside 1 GB that is fetched, and no step around it: it meets as much as it moves. */
START_TEST(a_gather_is_in_range_by_what_its_fetch_meets)
{
    struct time_outcome outcome = make_outcome(1);
    struct kvt_profile_family *fetch = &outcome.profile.families[KVT_PART_FETCH];
    struct point point = {.configuration = RUNS, .steps = 21, .is_apart = true};

    fetch->ns_per[0][KVT_FEATURE_INBOUND_BYTES] = 0.01;
    fetch->has_range[KVT_FEATURE_INBOUND_BYTES] = true;
    fetch->most[KVT_FEATURE_INBOUND_BYTES] = 1e9;
    point.features[KVT_FEATURE_WIRE_BYTES] = 1e9;
    point.features[KVT_FEATURE_INBOUND_BYTES] = 3e9;
    point.step_ns = point.parts_ns[KVT_PART_FETCH] = 30e6;
    add(&outcome.points, &point);
    judge(&outcome);

    ck_assert_uint_eq(outcome.gathers.in_range, 1);
    ck_assert_double_lt(outcome.gathers.errors.mape, 1e-12);
    time_outcome_free(&outcome);
}
END_TEST

/* A step that is timed apart, half of it a fetch of 20 ms, beside 2e9 B: it meets 1e9 of them,
 * which is all that the range has, and which take another 20 ms. */
START_TEST(a_family_is_in_range_by_what_its_fetch_meets)
{
    struct time_outcome outcome = make_outcome(1);
    struct kvt_profile_family *fetch = &outcome.profile.families[KVT_PART_FETCH];
    struct point point = {.configuration = 1, .steps = 1, .is_apart = true};

    *fetch = (struct kvt_profile_family){.is_there = true, .limit_count = 1};
    fetch->ns_per[0][KVT_FEATURE_WIRE_BYTES] = fetch->ns_per[0][KVT_FEATURE_INBOUND_BYTES] = 0.02;
    fetch->has_range[KVT_FEATURE_INBOUND_BYTES] = true;
    fetch->most[KVT_FEATURE_INBOUND_BYTES] = 1e9;
    point.features[KVT_FEATURE_STEP] = 1;
    point.features[KVT_FEATURE_REQUESTS] = 120; /* 8 ms and 0.1 for each */
    point.features[KVT_FEATURE_WIRE_BYTES] = 1e9;
    point.features[KVT_FEATURE_INBOUND_BYTES] = 2e9;
    point.parts_ns[KVT_PART_FETCH] = 40e6;
    point.step_ns = 60e6;
    add(&outcome.points, &point);
    judge(&outcome);

    ck_assert_uint_eq(outcome.families[KVT_PART_FETCH].errors.count, 1);
    ck_assert_uint_eq(outcome.families[KVT_PART_FETCH].in_range, 1);
    ck_assert_double_lt(outcome.families[KVT_PART_FETCH].errors.mape, 1e-9);
    time_outcome_free(&outcome);
}
END_TEST

static const struct {
    bool is_group, is_apart;
    double share, ns; /* of the step that is its fetch; the step, of its 10 us of attention and
                       * what is exposed of the fetch */
} met_steps[] = {{false, false, 20.0 / 25, 10000 + 28000 - 5000},
                 {true, false, 20.0 / 30, 10000 + 20000 + 20000 / 3.0},
                 {false, true, 20.0 / 30, 0}};

/* A fetch of 20 us beside 10 of attention, which hide 5 of it where followers run beside compute,
 * and beside 500,000 B of other traffic, of which each that it meets takes .02 ns. */
START_TEST(a_step_meets_its_traffic_as_it_was_run)
{
    struct points_configuration of = {.is_group = met_steps[_i].is_group};
    const struct points points = {.configurations = &of, .configuration_count = 1};
    struct point point = {.is_apart = met_steps[_i].is_apart,
                          .features = {[KVT_FEATURE_STEP] = 1,
                                       [KVT_FEATURE_WIRE_BYTES] = 1e6,
                                       [KVT_FEATURE_INBOUND_BYTES] = 5e5,
                                       [KVT_FEATURE_ATTENDED_LAYER_ROWS] = 80000}};
    struct kvt_profile profile = {.model = ""};
    struct kvt_profile_family *attend = &profile.families[KVT_PART_ATTEND];
    struct kvt_profile_family *fetch = &profile.families[KVT_PART_FETCH];
    double met = met_steps[_i].share * 5e5;

    *attend = (struct kvt_profile_family){.is_there = true, .limit_count = 1};
    attend->ns_per[0][KVT_FEATURE_ATTENDED_LAYER_ROWS] = 0.125;
    *fetch = (struct kvt_profile_family){.is_there = true, .limit_count = 1};
    fetch->ns_per[0][KVT_FEATURE_WIRE_BYTES] = fetch->ns_per[0][KVT_FEATURE_INBOUND_BYTES] = 0.02;
    fetch->hidden_by[KVT_PART_ATTEND] = 0.5;
    fetch->has_range[KVT_FEATURE_INBOUND_BYTES] = true;

    if (!point.is_apart)
        ck_assert_double_eq_tol(point_predict_step(&profile, &points, &point), met_steps[_i].ns,
                                1e-6);
    ck_assert_double_eq_tol(point_predict_part(&profile, &points, &point, KVT_PART_FETCH),
                            20000 + 0.02 * met, 1e-6);
    fetch->most[KVT_FEATURE_INBOUND_BYTES] = met + 1;
    ck_assert(point_is_in_range(&profile, &points, &point));
    fetch->most[KVT_FEATURE_INBOUND_BYTES] = met - 1;
    ck_assert(!point_is_in_range(&profile, &points, &point));
    ck_assert(!point_part_is_in_range(&profile, &points, &point, KVT_PART_FETCH));
    ck_assert(point_part_is_in_range(&profile, &points, &point, KVT_PART_ATTEND));
    ck_assert(point_part_is_in_range(&profile, &points, &point, KVT_PART_DENSE)); /* it has none */
}
END_TEST

static const struct {
    const char *name, *sets; /* of a configuration that the profile was fitted to */
    bool has_row;            /* a row of "b" is among its own */
    int fitted;              /* index of the one that is told; -1: none */
} fitted[] = {{"a", "", false, 0},
              {"a", "seed=2", false, -1},
              {"other", "", false, -1},
              {"renamed", "", true, 1}};

START_TEST(what_the_profile_was_fitted_to_is_told_and_not_good)
{
    struct time_outcome outcome = make_outcome(1);
    struct points_configuration own = {.name = fitted[_i].name, .sets = fitted[_i].sets};
    struct point row = outcome.points.items[STEPS + 1];
    cJSON *tree = NULL;
    struct kvt_error err = {0};
    bool is_fitted = fitted[_i].fitted >= 0;

    row.configuration = 0;
    row.step_ns += fitted[_i].has_row ? 0 : 1;
    outcome.fitted_points.configurations = &own;
    outcome.fitted_points.configuration_count = 1;
    add(&outcome.fitted_points, &row);
    judge(&outcome);

    ck_assert_uint_eq(outcome.fitted_count, is_fitted);
    ck_assert_int_eq(time_is_good(&outcome), !is_fitted);
    ck_assert_int_eq(time_tree(&outcome, &tree, &err), KVT_OK);
    const cJSON *names = kvt_json_find(tree, "fitted_to");
    ck_assert_int_eq(cJSON_GetArraySize(names), is_fitted);
    if (is_fitted) {
        ck_assert_str_eq(cJSON_GetArrayItem(names, 0)->valuestring,
                         configurations[fitted[_i].fitted].name);
        ck_assert_str_eq(kvt_json_find(tree, "fault")->valuestring,
                         "the profile was fitted to these points");
        ck_assert_str_eq(kvt_json_find(kvt_json_find(tree, "badge"), "kernel_time")->valuestring,
                         "no");
    }
    cJSON_Delete(tree);
    time_outcome_free(&outcome);
}
END_TEST

START_TEST(no_step_is_not_good)
{
    struct time_outcome outcome = make_outcome(1);
    outcome.points.count = 0;
    judge(&outcome);

    ck_assert(!time_is_good(&outcome));
    time_outcome_free(&outcome);
}
END_TEST

static void make_arena(void)
{
    arena = kvt_arena_new(1 << 16);
}

static void free_arena(void)
{
    kvt_arena_free(arena);
}

int main(void)
{
    Suite *suite = suite_create("validate_time");
    TCase *times = tcase_create("times");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(times, make_arena, free_arena);
    tcase_add_test(times, a_profile_that_says_what_was_measured_is_good);
    tcase_add_loop_test(times, a_bias_of_more_than_2_percent_is_not_good, 0,
                        sizeof factors / sizeof factors[0]);
    tcase_add_test(times, steps_that_are_far_off_are_not_good);
    tcase_add_test(times, another_order_is_not_good);
    tcase_add_loop_test(times, each_gather_is_within_10_percent_or_it_is_not_good, 0,
                        sizeof gathers / sizeof gathers[0]);
    tcase_add_test(times, a_gather_in_range_is_not_one_within_10_percent);
    tcase_add_test(times, a_gather_is_in_range_by_what_its_fetch_meets);
    tcase_add_test(times, a_family_is_in_range_by_what_its_fetch_meets);
    tcase_add_loop_test(times, a_step_meets_its_traffic_as_it_was_run, 0,
                        sizeof met_steps / sizeof met_steps[0]);
    tcase_add_loop_test(times, what_the_profile_was_fitted_to_is_told_and_not_good, 0,
                        sizeof fitted / sizeof fitted[0]);
    tcase_add_test(times, no_step_is_not_good);
    suite_add_tcase(suite, times);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
