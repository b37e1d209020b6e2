/* test_calibrate_gpu.c -- a profile out of points whose law is known. */
#include <check.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/rng.h"
#include "support/calibration.h"
#include "support/support.h"

enum {
    RUNS = 24
};

/* ---- A whole calibration ----------------------------------------------------------------- */

/* A GPU of known costs; an oracle that shares nothing with the fit. */
static const double MARK_NS = 3100;
static const double HIDES = 0.6; /* of dense and attention time */

static double true_ns(enum kvt_step_part part, const double *f)
{
    switch (part) {
    case KVT_PART_HOST:
        return 21000;
    case KVT_PART_DENSE:
        return 6.4e6 + 64000 * f[KVT_FEATURE_QUERIES] + 7.9e6 * f[KVT_FEATURE_EXPERTS_SHARE];
    case KVT_PART_INDEX:
        return 4e5 + 0.57 * f[KVT_FEATURE_CONTEXT_ROWS];
    case KVT_PART_RESOLVE:
        return 1.2e5 + 8e4 * f[KVT_FEATURE_ROUND_QUERIES];
    case KVT_PART_FETCH:
        return 0.0202 * f[KVT_FEATURE_WIRE_BYTES] + 2600 * f[KVT_FEATURE_FETCHES];
    case KVT_PART_ATTEND:
        return 1.6e6 + 0.057 * f[KVT_FEATURE_ATTENDED_LAYER_ROWS];
    case KVT_PART_OTHER:
        return 1e5 + 500 * f[KVT_FEATURE_REQUESTS];
    default:
        return 0;
    }
}

/* Of a step's traffic so much moves while fetches do; what comes in as far as they go, and what
 * goes out slows that and them alike. */
static double met_inbound(const double *f, double share)
{
    return fmin(share * f[KVT_FEATURE_INBOUND_BYTES], f[KVT_FEATURE_WIRE_BYTES]);
}

static double met_outbound(const double *f, double share)
{
    double wire = f[KVT_FEATURE_WIRE_BYTES];
    double outbound = fmin(share * f[KVT_FEATURE_OUTBOUND_BYTES], wire);
    return wire > 0 ? outbound * wire / (wire + met_inbound(f, share)) : 0;
}

/* Beside a fetch that meets so much of a step's traffic. */
static double busy_ns(const double *f, double met)
{
    return true_ns(KVT_PART_FETCH, f) + 0.018 * met_inbound(f, met) + 0.009 * met_outbound(f, met);
}

/* As the step runs: followers beside compute, or whole stores at once. */
static double exposed_ns(const double *f, double met, bool is_hidden)
{
    double rest_ns =
        busy_ns(f, met) - HIDES * (true_ns(KVT_PART_DENSE, f) + true_ns(KVT_PART_ATTEND, f));
    double floor_ns = 0.0078 * f[KVT_FEATURE_WIRE_BYTES] + 7000 * f[KVT_FEATURE_FETCHES] +
                      0.013 * met_inbound(f, met) + 0.006 * met_outbound(f, met) +
                      60 * f[KVT_FEATURE_GRANULES];

    return is_hidden ? fmax(rest_ns, floor_ns) : busy_ns(f, met);
}

/* Traffic moves evenly through the step: fetches meet their share of it, which is longer for it. */
static double true_fetch_ns(const double *f, double others_ns, bool is_hidden)
{
    double step_ns = others_ns, ns = 0;

    for (int i = 0; i < 50; i++) {
        double met = fmin(true_ns(KVT_PART_FETCH, f) / step_ns, 1);
        ns = exposed_ns(f, met, is_hidden);
        step_ns = others_ns + ns;
    }
    return ns;
}

/* Of the runs with followers beside compute that have fetches, so many have traffic beside their
 * steps. */
static uint32_t runs_with_traffic;

/* 4, 8, .. MiB to the device, and every second time half of it from there; 0: none. */
static double inbound_bytes(uint32_t run)
{
    uint32_t index = 0;

    if (run % 8 == 0 || run % 5 == 2)
        return 0;
    for (uint32_t before = 0; before < run; before++)
        index += before % 8 != 0 && before % 5 != 2;
    return index < runs_with_traffic ? (1 + index) * 4.0 * (1 << 20) : 0;
}

/* Whether what a step fetches has granules that are translated. */
static bool has_granules;

static void make_features(uint32_t run, int i, struct kvt_rng *rng, double *f)
{
    bool resident = run % 8 == 0;
    double requests = 1 + (run * 5) % 37, queries = run % 3 == 0 ? 1 : 1 + run % 4;
    double missed = 400 * pow(20, kvt_rng_unit(rng)) / (1 + 0.1 * i);

    f[KVT_FEATURE_STEP] = 1;
    f[KVT_FEATURE_REQUESTS] = requests;
    f[KVT_FEATURE_QUERIES] = requests * queries;
    f[KVT_FEATURE_ROUND_QUERIES] = queries;
    f[KVT_FEATURE_EXPERTS_SHARE] = 1 - pow(1 - 8.0 / 256, requests * queries);
    f[KVT_FEATURE_CONTEXT_ROWS] = requests * (8000 + 4000 * (run % 19));
    f[KVT_FEATURE_ATTENDED_LAYER_ROWS] = requests * queries * 2048 * 78;
    if (resident)
        return;
    f[KVT_FEATURE_FETCHES] = 21;
    f[KVT_FEATURE_WIRE_BYTES] = requests * queries * missed * 2304 * 4;
    f[KVT_FEATURE_GRANULES] =
        has_granules ? requests * queries * missed * (0.1 + 0.2 * (run % 4)) : 0;
    f[KVT_FEATURE_INBOUND_BYTES] = inbound_bytes(run);
    f[KVT_FEATURE_OUTBOUND_BYTES] = run % 2 == 0 ? inbound_bytes(run) / 2 : 0;
}

static void add_points(struct points *points, uint32_t run, int i, struct kvt_rng *rng,
                       double noise)
{
    bool is_group = points->configurations[run].is_group;
    struct point apart = {.configuration = run, .steps = 4, .is_apart = true}, whole;
    double others_ns = 0;

    make_features(run, i, rng, apart.features);
    for (int p = 0; p < KVT_PARTS; p++)
        others_ns += p == KVT_PART_HOST || p == KVT_PART_FETCH
                         ? 0
                         : true_ns((enum kvt_step_part)p, apart.features);
    whole = apart;
    whole.is_apart = false;
    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_fetch = p == KVT_PART_FETCH;
        double ns = (is_fetch ? true_fetch_ns(apart.features, others_ns, false)
                              : true_ns((enum kvt_step_part)p, apart.features)) *
                    (1 + noise * kvt_rng_gaussian(rng));
        whole.step_ns += p == KVT_PART_HOST ? 0
                         : is_fetch         ? true_fetch_ns(whole.features, others_ns, !is_group)
                                            : ns;
        if (p == KVT_PART_HOST)
            whole.parts_ns[p] = apart.parts_ns[p] = ns;
        if (p == KVT_PART_HOST || ns == 0)
            continue;
        apart.marks[p] = p == KVT_PART_DENSE || p == KVT_PART_ATTEND ? 78 : 21;
        apart.parts_ns[p] = ns + MARK_NS * apart.marks[p];
        apart.step_ns += apart.parts_ns[p];
    }
    struct kvt_error err;
    ck_assert_int_eq(points_append(points, &apart, &err), KVT_OK);
    ck_assert_int_eq(points_append(points, &whole, &err), KVT_OK);
}

static struct points_configuration configurations[RUNS + 2]; /* gathers behind the runs */
static char names[RUNS][16];

static void make_points(struct points *points, double noise)
{
    struct kvt_rng rng = kvt_rng_stream(7, KVT_RNG_TEST, 2);

    *points = (struct points){.configurations = configurations,
                              .configuration_count = RUNS,
                              .grid = "made",
                              .model = "glm-5.3",
                              .hardware = "h200",
                              .tp = 1,
                              .ep = 1};
    for (uint32_t run = 0; run < RUNS; run++) {
        (void)snprintf(names[run], sizeof names[run], "run-%u", run);
        configurations[run] =
            (struct points_configuration){.name = names[run], .sets = "", .is_group = run % 5 == 2};
        for (int i = 0; i < 5; i++)
            add_points(points, run, i, &rng, noise);
    }
}

START_TEST(a_gpu_of_known_costs_is_found_again)
{
    struct points points;
    make_points(&points, 0.003);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *families = found.profile.families;
    const struct kvt_profile_family *fetch = &families[KVT_PART_FETCH];

    assert_ns(found.mark_ns, MARK_NS, 0.05);
    assert_ns(families[KVT_PART_HOST].ns_per[0][KVT_FEATURE_STEP], 21000, 0.01);
    assert_ns(families[KVT_PART_DENSE].ns_per[0][KVT_FEATURE_STEP], 6.4e6, 0.01);
    assert_ns(families[KVT_PART_DENSE].ns_per[0][KVT_FEATURE_QUERIES], 64000, 0.03);
    assert_ns(families[KVT_PART_INDEX].ns_per[0][KVT_FEATURE_CONTEXT_ROWS], 0.57, 0.01);
    assert_ns(families[KVT_PART_RESOLVE].ns_per[0][KVT_FEATURE_ROUND_QUERIES], 8e4, 0.02);
    assert_ns(fetch->ns_per[0][KVT_FEATURE_WIRE_BYTES], 0.0202, 0.005);
    assert_ns(fetch->hidden_by[KVT_PART_DENSE], HIDES, 0.04);
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_WIRE_BYTES], 0.0078, 0.05);
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_FETCHES], 7000, 0.2);
    ck_assert_double_lt(found.step_own.mape, 0.005);
    ck_assert_double_lt(found.step_left_out.mape, 0.01);
    ck_assert_uint_ge(found.step_left_out.count, 100);
    ck_assert(!families[KVT_PART_DRAFT].is_there);
    points_free(&points);
}
END_TEST

START_TEST(what_is_exposed_of_granules_is_told)
{
    struct points points;
    has_granules = true;
    make_points(&points, 0.0005);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    has_granules = false;
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_GRANULES], 60, 0.05);
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_WIRE_BYTES], 0.0078, 0.05);
    points_free(&points);
}
END_TEST

/* Followers are not measured: a fetch is exposed, whatever the order. */
START_TEST(groups_alone_tell_no_overlap)
{
    struct points points;
    double f[KVT_FEATURES] = {0};
    make_points(&points, 0.003);
    size_t kept = 0;
    for (size_t i = 0; i < points.count; i++) {
        if (points.items[i].is_apart || configurations[points.items[i].configuration].is_group)
            points.items[kept++] = points.items[i];
    }
    points.count = kept;
    const struct gpu_calibration found = calibrated(&points);

    f[KVT_FEATURE_FETCHES] = 21;
    f[KVT_FEATURE_WIRE_BYTES] = 1e8;
    ck_assert_uint_eq(found.exposed.samples, 0);
    ck_assert(kvt_profile_exposed_ns(&found.profile, f, true) ==
              kvt_profile_exposed_ns(&found.profile, f, false));
    points_free(&points);
}
END_TEST

/* ---- Traffic beside steps ----------------------------------------------------------------- */

/* Of a step's traffic, what its fetches meet: their share of the step. */
static double met_of(const struct point *point, enum kvt_profile_feature feature)
{
    double ns = point->is_apart ? point->parts_ns[KVT_PART_FETCH]
                                : true_ns(KVT_PART_FETCH, point->features);
    double share = fmin(ns / point->step_ns, 1);

    return feature == KVT_FEATURE_INBOUND_BYTES ? met_inbound(point->features, share)
                                                : met_outbound(point->features, share);
}

static double most_met(const struct points *points, enum kvt_profile_feature feature)
{
    double most = 0;

    for (size_t i = 0; i < points->count; i++) {
        if (points->items[i].configuration < RUNS)
            most = fmax(most, met_of(&points->items[i], feature));
    }
    return most;
}

/* Two gathers with more beside them than any step has. */
static void add_gathers_with_traffic(struct points *points)
{
    struct kvt_error err;

    for (uint32_t g = RUNS; g < RUNS + 2; g++) {
        struct point point = {.configuration = g, .steps = 21, .is_apart = true};
        configurations[g] = (struct points_configuration){
            .name = "gather", .sets = "", .is_group = true, .is_gather = true};
        point.features[KVT_FEATURE_FETCHES] = 1;
        point.features[KVT_FEATURE_WIRE_BYTES] = 4e7 * (g - RUNS + 1);
        point.features[KVT_FEATURE_INBOUND_BYTES] = 3e8;
        point.step_ns = point.parts_ns[KVT_PART_FETCH] = busy_ns(point.features, 1);
        ck_assert_int_eq(points_append(points, &point, &err), KVT_OK);
    }
    points->configuration_count = RUNS + 2;
}

START_TEST(what_is_exposed_of_traffic_is_told_and_in_range_as_far_as_steps_had_it)
{
    struct points points;
    runs_with_traffic = 10;
    make_points(&points, 0.0005);
    add_gathers_with_traffic(&points);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    runs_with_traffic = 0;
    assert_ns(fetch->ns_per[0][KVT_FEATURE_INBOUND_BYTES], 0.018, 0.05);
    ck_assert_double_lt(found.step_left_out.mape, 0.005);
    assert_ns(fetch->ns_per[0][KVT_FEATURE_OUTBOUND_BYTES], 0.009, 0.3);
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_INBOUND_BYTES], 0.013, 0.15);
    assert_ns(fetch->exposed_ns_per[KVT_FEATURE_OUTBOUND_BYTES], 0.006, 0.4);
    double most = most_met(&points, KVT_FEATURE_INBOUND_BYTES);
    assert_ns(fetch->most[KVT_FEATURE_INBOUND_BYTES], most, 0.01);
    assert_ns(fetch->most[KVT_FEATURE_OUTBOUND_BYTES],
              most_met(&points, KVT_FEATURE_OUTBOUND_BYTES), 0.01);
    for (size_t i = 0; i < points.count; i++) {
        const struct point *point = &points.items[i];
        if (point->configuration >= RUNS || met_of(point, KVT_FEATURE_INBOUND_BYTES) < 0.9 * most)
            ck_assert_int_eq(point_is_in_range(&found.profile, &points, point),
                             point->configuration < RUNS);
    }
    points_free(&points);
}
END_TEST

/* What else is peculiar to that run would be in it. */
START_TEST(traffic_of_one_run_alone_is_out_of_range)
{
    struct points points;
    runs_with_traffic = 1;
    make_points(&points, 0.003);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    runs_with_traffic = 0;
    ck_assert(fetch->exposed_ns_per[KVT_FEATURE_INBOUND_BYTES] == 0);
    ck_assert(fetch->has_range[KVT_FEATURE_INBOUND_BYTES]);
    ck_assert(fetch->most[KVT_FEATURE_INBOUND_BYTES] == 0);
    points_free(&points);
}
END_TEST

/* A step whose fetches of all layers at once are so much of it: measured, where they are apart;
 * else what they would be without traffic. Beside it moves `times` what they fetch. */
static void add_group_step(struct points *points, bool is_apart, double share, double wire,
                           double times)
{
    struct kvt_error err;
    struct point point = {.configuration = (uint32_t)points->configuration_count - 1,
                          .steps = 4,
                          .is_apart = is_apart};
    double quiet_ns = 0.02 * wire + 5000 * 21, met = share * times * wire;

    point.features[KVT_FEATURE_FETCHES] = 21;
    point.features[KVT_FEATURE_GATHERING_GPUS] = 1;
    point.features[KVT_FEATURE_WIRE_BYTES] = wire;
    point.features[KVT_FEATURE_INBOUND_BYTES] = times * wire;
    point.step_ns = (quiet_ns + (is_apart ? 0.018 * met : 0)) / share;
    point.parts_ns[KVT_PART_FETCH] = is_apart ? quiet_ns + 0.018 * met : 0;
    ck_assert_int_eq(points_append(points, &point, &err), KVT_OK);
}

static const struct {
    double share, times, met; /* of one whole step: its fetches, its traffic, what they met of it */
} most_steps[] = {{0.3, 3, 0.9}, {1.25, 0.95, 0.95} /* in less time than its fetches take */};

/* Steps that are apart met from 0.1 x 1 x 10 MB to 0.2 x 4 x 120; a whole one met more. */
START_TEST(steps_are_in_range_by_the_traffic_that_their_fetches_met)
{
    static struct points_configuration runs[12];
    struct points points = {.configurations = runs, .grid = "made", .model = "m", .hardware = "h"};
    for (uint32_t run = 0; run < 12; run++) {
        runs[points.configuration_count++] =
            (struct points_configuration){.name = "run", .sets = "", .is_group = true};
        double wire = 1e7 * (1 + run);
        add_group_step(&points, true, 0.1 + 0.1 * (run % 2), wire, 1 + run % 4);
        add_group_step(&points, true, 0.15, wire, 1 + run % 4);
        add_group_step(&points, false, run == 10 ? most_steps[_i].share : 0.3, wire,
                       run == 10 ? most_steps[_i].times : 1);
    }
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    assert_ns(fetch->ns_per[0][KVT_FEATURE_INBOUND_BYTES], 0.018, 1e-3);
    assert_ns(fetch->least[KVT_FEATURE_INBOUND_BYTES], 0.1 * 1e7, 1e-4);
    assert_ns(fetch->most[KVT_FEATURE_INBOUND_BYTES], most_steps[_i].met * 11e7, 1e-3);
    points_free(&points);
}
END_TEST

/* ---- Gathers of a grid -------------------------------------------------------------------- */

/* More than any machine can pin, whether it has a GPU or none. */
static kvt_status gather_in_vain(struct points *points, size_t *left_out, struct kvt_error *err)
{
    static struct grid grid = {.name = "made", .gather_count = 3};
    struct kvt_wall start;
    struct cli_progress progress;
    const struct grid_plan plan = {.grid = &grid, .progress = &progress};
    const struct calibrate_selection selection = {.shards = 1, .point_steps = POINT_STEPS};

    for (int g = 0; g < 3; g++)
        grid.gathers[g] = (struct grid_gather){.name = "gather",
                                               .row_bytes = 576,
                                               .requests = 1,
                                               .rows_each = 1,
                                               .gpus = 1,
                                               .pool_gib = 1e6};
    cli_progress_begin(&progress, &start, true);
    return calibrate_gathers(&plan, &selection, points, left_out, err);
}

START_TEST(gathers_that_cannot_be_made_leave_the_runs_that_were)
{
    struct points points;
    struct kvt_error err = {0};
    size_t left_out = 1;

    make_points(&points, 0.003);
    size_t had = points.count;
    ck_assert_msg(gather_in_vain(&points, &left_out, &err) == KVT_OK, "%s", err.message);
    ck_assert_uint_eq(points.count, had);
    ck_assert_uint_eq(points.configuration_count, RUNS);
    ck_assert_uint_eq(left_out, 1 + 3);
    /* By themselves they are all that was asked for. */
    points.count = 0;
    ck_assert_int_ne(gather_in_vain(&points, &left_out, &err), KVT_OK);
    ck_assert_uint_eq(left_out, 1 + 3);
    ck_assert_uint_gt(strlen(err.message), 0);
    points_free(&points);
}
END_TEST

/* ---- Files ----------------------------------------------------------------------------- */

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void write_tree(const cJSON *tree)
{
    char *text = kvt_json_print(tree);
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    free(text);
}

START_TEST(a_profile_gives_its_points_back)
{
    struct points points, again = {.items = NULL};
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_error err = {0};
    struct kvt_profile profile;
    cJSON *tree = NULL;

    make_points(&points, 0.003);
    const struct gpu_calibration found = calibrated(&points);
    ck_assert_int_eq(gpu_calibration_tree(&found, &tree, &err), KVT_OK);
    write_tree(tree);
    cJSON_Delete(tree);
    ck_assert_msg(points_load(path, arena, &again, &err) == KVT_OK, "%s: %s", err.where,
                  err.message);
    ck_assert_uint_eq(again.count, points.count);
    ck_assert_str_eq(again.model, "glm-5.3");
    ck_assert_uint_eq(again.configuration_count, RUNS);
    for (size_t i = 0; i < points.count; i++) {
        ck_assert_uint_eq(again.items[i].configuration, points.items[i].configuration);
        ck_assert_int_eq(again.items[i].is_apart, points.items[i].is_apart);
        assert_ns(again.items[i].step_ns, points.items[i].step_ns, 1e-7);
    }
    for (uint32_t run = 0; run < RUNS; run++)
        ck_assert_int_eq(again.configurations[run].is_group, configurations[run].is_group);
    ck_assert_msg(kvt_profile_load(path, &profile, &err) == KVT_OK, "%s: %s", err.where,
                  err.message);
    assert_ns(kvt_profile_exposed_ns(&profile, points.items[40].features, true),
              kvt_profile_exposed_ns(&found.profile, points.items[40].features, true), 1e-9);
    /* Of two files no configuration is the same. */
    ck_assert_int_eq(points_load(path, arena, &again, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "a second configuration \"run-0\""));
    points_free(&again);
    points_free(&points);
    kvt_arena_free(arena);
}
END_TEST

static void make_folder(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "points.json", path);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

int main(void)
{
    Suite *suite = suite_create("calibrate_gpu");
    TCase *fits = tcase_create("fits");
    TCase *files = tcase_create("files");
    SRunner *runner = srunner_create(suite);

    gsl_set_error_handler_off(); /* as the command does */
    tcase_add_test(fits, a_gpu_of_known_costs_is_found_again);
    tcase_add_test(fits, what_is_exposed_of_granules_is_told);
    tcase_add_test(fits, groups_alone_tell_no_overlap);
    tcase_add_test(fits, what_is_exposed_of_traffic_is_told_and_in_range_as_far_as_steps_had_it);
    tcase_add_test(fits, traffic_of_one_run_alone_is_out_of_range);
    tcase_add_loop_test(fits, steps_are_in_range_by_the_traffic_that_their_fetches_met, 0,
                        sizeof most_steps / sizeof most_steps[0]);
    tcase_add_test(fits, gathers_that_cannot_be_made_leave_the_runs_that_were);
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, a_profile_gives_its_points_back);
    suite_add_tcase(suite, fits);
    suite_add_tcase(suite, files);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
