/* test_validate_time.c -- a profile beside points: errors, orders, gathers; and the rows of a
 * gather. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gather_rows.h"
#include "cli/validate_time.h"
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

/* ---- Rows of a gather ------------------------------------------------------------------------ */

static struct grid_gather gather_of(double pool_gib, bool is_shuffled, bool is_sorted)
{
    return (struct grid_gather){.name = "test",
                                .row_bytes = 576,
                                .requests = 8,
                                .rows_each = 100,
                                .pool_gib = pool_gib,
                                .is_shuffled = is_shuffled,
                                .is_sorted = is_sorted};
}

static uint32_t *drawn(const struct grid_gather *gather)
{
    struct kvt_error err = {0};
    uint32_t *rows = NULL;
    ck_assert_msg(gather_draw(gather, &rows, &err) == KVT_OK, "%s", err.message);
    return rows;
}

static struct gather_translations translations(const struct grid_gather *gather,
                                               const uint32_t *rows)
{
    struct kvt_error err = {0};
    struct gather_translations found;
    ck_assert_int_eq(gather_translate(gather, rows, &found, &err), KVT_OK);
    ck_assert_double_le(found.blocks, found.granules);
    ck_assert_double_le(found.far_granules, found.granules);
    return found;
}

static double translated(const struct grid_gather *gather, const uint32_t *rows)
{
    return translations(gather, rows).granules;
}

START_TEST(rows_of_a_call_are_its_own_and_in_the_order_that_was_asked_for)
{
    const struct grid_gather gather = gather_of(4, _i & 1, _i & 2);
    uint32_t *rows = drawn(&gather);
    size_t rising = 0, contexts = GATHER_LISTS * gather.requests, pool = 4 * KVT_GIB / 576;
    size_t calls = GATHER_STEPS * contexts;

    for (size_t call = 0; call < calls; call++) {
        const uint32_t *own = rows + call * gather.rows_each;
        const uint32_t *before = own - contexts * gather.rows_each;
        if (call >= contexts) /* the step before missed other rows */
            ck_assert_mem_ne(own, before, gather.rows_each * sizeof *own);
        size_t foreign = 0, repeated = 0;
        for (size_t i = 0; i < gather.rows_each; i++) {
            foreign +=
                gather.is_shuffled ? own[i] >= pool : own[i] / (pool / contexts) != call % contexts;
            for (size_t j = 0; j < i && !gather.is_shuffled; j++)
                repeated += own[i] == own[j];
            rising += i > 0 && own[i] >= own[i - 1];
        }
        ck_assert_uint_eq(foreign + repeated, 0);
    }
    size_t steps = calls * (gather.rows_each - 1);
    if (gather.is_sorted)
        ck_assert_uint_eq(rising, steps);
    else
        ck_assert_double_eq_tol((double)rising / (double)steps, 0.5, 0.02);
    free(rows);
}
END_TEST

START_TEST(a_pool_that_is_known_is_not_translated_again)
{
    const struct grid_gather gather = gather_of(0.45, true, false); /* 7,373 granules */
    uint32_t *rows = drawn(&gather);

    /* A list touches some 450, of contexts that have 620: what the first step left out is met in
     * the next ones, once. */
    ck_assert_double_lt(translated(&gather, rows), 620 / 5.0);
    free(rows);
}
END_TEST

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Lists that between them touch far more than is kept: each translates what it touches. */
START_TEST(a_list_of_a_large_pool_translates_each_granule_once)
{
    struct grid_gather gather = gather_of(40, true, true);
    double distinct = 0;
    gather.requests = 32;
    uint32_t *rows = drawn(&gather);
    size_t of_list = gather.requests * gather.rows_each, count = 0;
    uint64_t *granules = calloc(2 * of_list, sizeof *granules);

    for (size_t i = 0; i < of_list; i++) {
        uint64_t first = (uint64_t)rows[i] * 576 / 65536;
        uint64_t last = ((uint64_t)rows[i] * 576 + 575) / 65536;
        granules[count++] = first;
        if (last > first)
            granules[count++] = last;
    }
    qsort(granules, count, sizeof *granules, compare);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || granules[i] != granules[i - 1];
    /* Of 21 lists, so that a few per cent are met again by chance. */
    ck_assert_double_gt(translated(&gather, rows), 0.9 * distinct);
    ck_assert_double_le(translated(&gather, rows), 1.02 * distinct);
    free(granules);
    free(rows);
}
END_TEST

static const struct {
    double pool_gib;
    uint64_t requests;
    bool is_shuffled;
    double granules; /* that contexts of 21 lists lie in; 262,144 are 16 GiB */
    double within;   /* of the share that is far */
} memories[] = {
    /* 168 contexts of 102,400 rows of 576 B, 900 granules each: all near. */
    {10, 8, false, 262144, 1e-12},
    /* 672 such, 110,960 rows apart, which is 975 granules and 15,360 B: all but each 64th lie
     * across the ends of 901. */
    {40, 32, false, 672 * 901 - 11, 1e-9},
    /* 672 contexts of 89,995 rows, side by side, to 1,993 B before the end of the last granule. */
    {672 * 89995 * 576.0 / (1 << 30), 32, false, 531533, 1e-9},
    /* 1,075,200 pages of 36,864 B, each at one of 2,330,168 places: exp(-.46143) = .63038 of these
     * are empty. Of 1,310,720 granules a third touches 2 places, the others 3; nothing lies in
     * .33333 * .39738 + .66667 * .25050 = .29946. */
    {80, 32, true, 1310720 * (1 - .29946), 1e-3},
};

START_TEST(what_lies_beyond_16_gib_is_far)
{
    struct grid_gather gather = gather_of(memories[_i].pool_gib, memories[_i].is_shuffled, false);
    gather.requests = memories[_i].requests;
    uint32_t *rows = drawn(&gather);
    const struct gather_translations found = translations(&gather, rows);

    ck_assert_double_eq_tol(found.far_granules / found.granules, 1 - 262144 / memories[_i].granules,
                            memories[_i].within);
    free(rows);
}
END_TEST

/* 32 requests miss 100 rows of 576 B, on each of two GPUs, beside more than they fetch. */
START_TEST(features_of_a_gather_are_a_lists)
{
    struct grid_gather gather = gather_of(40, false, false);
    struct kvt_error err = {0};
    double f[KVT_FEATURES] = {0};
    const double mib = 1 << 20, wire = 3200 * 576;
    gather.requests = 32;
    gather.gpus = 2;
    gather.inbound_mib = 30;
    gather.outbound_mib = 7;
    uint32_t *rows = drawn(&gather);
    const struct gather_translations found = translations(&gather, rows);

    ck_assert_int_eq(gather_features(&gather, rows, f, &err), KVT_OK);
    ck_assert_double_eq(f[KVT_FEATURE_MISSED_ROWS], 3200);
    ck_assert_double_eq(f[KVT_FEATURE_WIRE_BYTES], wire);
    ck_assert_double_eq(f[KVT_FEATURE_INBOUND_BYTES], 30 * mib);
    ck_assert_double_eq(f[KVT_FEATURE_OUTBOUND_BYTES], 7 * mib);
    ck_assert_double_eq(f[KVT_FEATURE_NODE_BYTES], 2 * (wire + 37 * mib));
    ck_assert_double_eq(f[KVT_FEATURE_GATHERING_GPUS], 2);
    ck_assert_double_eq(f[KVT_FEATURE_FETCHES], 1);
    ck_assert_double_eq(f[KVT_FEATURE_GRANULES], found.granules);
    ck_assert_double_eq(f[KVT_FEATURE_GRANULE_BLOCKS], found.blocks);
    ck_assert_double_eq(f[KVT_FEATURE_FAR_GRANULES], found.far_granules);
    free(rows);
}
END_TEST

START_TEST(contexts_that_are_too_short_are_refused)
{
    struct grid_gather gather = gather_of(0.125, false, true);
    struct kvt_error err = {0};
    uint32_t *rows = NULL;

    gather.rows_each = 2000; /* of 1,387 */
    ck_assert_int_eq(gather_draw(&gather, &rows, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "2000 rows of contexts of 1387"));
}
END_TEST

static const struct {
    const char *gpus; /* behind the other keys of a gather */
    uint64_t found;   /* 0: refused */
} gpus_of_a_gather[] = {{"", 1},
                        {", \"gpus\": 1", 1},
                        {", \"gpus\": 2", 2},
                        {", \"gpus\": 8", 8},
                        {", \"gpus\": 0", 0},
                        {", \"gpus\": 9", 0},
                        {", \"gpus\": \"2\"", 0}};

START_TEST(a_gather_is_of_one_gpu_unless_it_says_more)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES];
    struct grid *grid = NULL;
    struct kvt_error err = {0};

    support_folder_make(&folder);
    FILE *file = fopen(support_path(&folder, "grid.json", path), "w");
    ck_assert_ptr_nonnull(file);
    fprintf(
        file,
        "{\"schema\": \"kvtide/grid/1\", \"name\": \"g\", \"summary\": \"s\", \"scenario\": {}, "
        "\"runs\": [{\"name\": \"r\", \"sets\": [], \"steps\": 1}], \"gathers\": [{\"name\": "
        "\"g\", \"row_bytes\": 576, \"pool_gib\": 1, \"contexts\": \"shuffled\", \"order\": "
        "\"random\", \"requests\": 32, \"rows\": 300%s}]}",
        gpus_of_a_gather[_i].gpus);
    ck_assert_int_eq(fclose(file), 0);
    kvt_status status = grid_load(path, arena, &grid, &err);
    if (gpus_of_a_gather[_i].found > 0) {
        ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
        ck_assert_uint_eq(grid->gathers[0].gpus, gpus_of_a_gather[_i].found);
    } else {
        ck_assert_int_eq(status, KVT_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.where, "gathers/0"));
    }
    support_folder_remove(&folder);
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
    TCase *rows = tcase_create("rows");
    TCase *grids = tcase_create("grids");
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
    tcase_add_loop_test(rows, rows_of_a_call_are_its_own_and_in_the_order_that_was_asked_for, 0, 4);
    tcase_add_test(rows, a_pool_that_is_known_is_not_translated_again);
    tcase_add_test(rows, a_list_of_a_large_pool_translates_each_granule_once);
    tcase_add_loop_test(rows, what_lies_beyond_16_gib_is_far, 0,
                        sizeof memories / sizeof memories[0]);
    tcase_add_test(rows, features_of_a_gather_are_a_lists);
    tcase_add_test(rows, contexts_that_are_too_short_are_refused);
    suite_add_tcase(suite, times);
    tcase_add_checked_fixture(grids, make_arena, free_arena);
    tcase_add_loop_test(grids, a_gather_is_of_one_gpu_unless_it_says_more, 0,
                        sizeof gpus_of_a_gather / sizeof gpus_of_a_gather[0]);
    suite_add_tcase(suite, rows);
    suite_add_tcase(suite, grids);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
