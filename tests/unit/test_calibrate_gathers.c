/* test_calibrate_gathers.c -- a profile out of gathers whose law is known, of one GPU and of two at
 * once. */
#include <check.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>

#include "kvt/rng.h"
#include "support/calibration.h"

enum {
    SINGLE_GATHERS = 48, /* of one GPU */
    SHARED_GATHERS = 8   /* of two, behind them */
};

static const double LINK_NS = 1 / 51.0, NODE_NS = 1 / 99.7, GRANULE_NS = 35.7, LAUNCH_NS = 6300;

/* A gather's features: 32 requests miss rows of 288 to 2,304 B, in a small pool or in a large one.
 */
static void make_gather(uint32_t index, double gpus, double *f)
{
    static const double row_bytes[] = {2304, 288, 1152, 576}, rows[] = {600, 200, 1000, 400};
    double missed = 32 * (gpus > 1 ? 600 : rows[index / 8 % 4]);

    f[KVT_FEATURE_MISSED_ROWS] = missed;
    f[KVT_FEATURE_WIRE_BYTES] = missed * row_bytes[index % 4];
    f[KVT_FEATURE_NODE_BYTES] = gpus * f[KVT_FEATURE_WIRE_BYTES];
    f[KVT_FEATURE_GATHERING_GPUS] = gpus;
    f[KVT_FEATURE_GRANULES] = missed * (index / 4 % 2 == 0 ? 0.2 : 1.05);
    f[KVT_FEATURE_FETCHES] = 1;
}

static double gather_ns(const double *f, double node_ns)
{
    double link = LINK_NS * f[KVT_FEATURE_WIRE_BYTES], node = node_ns * f[KVT_FEATURE_NODE_BYTES];

    return fmax(fmax(link, node), GRANULE_NS * f[KVT_FEATURE_GRANULES]) + LAUNCH_NS;
}

/* shared: of the gathers of two GPUs, so many. */
static void make_gathers(struct points *points, uint32_t shared, double node_ns)
{
    static struct points_configuration gathers[SINGLE_GATHERS + SHARED_GATHERS];
    struct kvt_rng rng = kvt_rng_stream(11, KVT_RNG_TEST, 3);
    struct kvt_error err;

    *points = (struct points){.configurations = gathers,
                              .configuration_count = SINGLE_GATHERS + shared,
                              .grid = "made",
                              .model = "glm-5.3",
                              .hardware = "h200",
                              .tp = 1,
                              .ep = 1};
    for (uint32_t g = 0; g < SINGLE_GATHERS + shared; g++) {
        struct point point = {.configuration = g, .steps = 21, .is_apart = true};
        gathers[g] = (struct points_configuration){
            .name = "gather", .sets = "", .is_group = true, .is_gather = true};
        make_gather(g, g < SINGLE_GATHERS ? 1 : 2, point.features);
        point.step_ns = point.parts_ns[KVT_PART_FETCH] =
            gather_ns(point.features, node_ns) * (1 + 0.003 * kvt_rng_gaussian(&rng));
        ck_assert_int_eq(points_append(points, &point, &err), KVT_OK);
    }
}

/* In one limit, at most; 0: in none. */
static double ns_per(const struct kvt_profile_family *family, enum kvt_profile_feature feature)
{
    double ns = 0;

    for (uint32_t l = 0; l < family->limit_count; l++) {
        ck_assert(ns == 0 || family->ns_per[l][feature] == 0);
        ns += family->ns_per[l][feature];
    }
    return ns;
}

static bool is_fetch_in_range(const struct kvt_profile_family *fetch, uint32_t index, double gpus)
{
    double f[KVT_FEATURES] = {0};
    make_gather(index, gpus, f);
    return kvt_profile_in_range(fetch, f);
}

START_TEST(two_gpus_at_once_tell_what_the_node_serves)
{
    struct points points;
    make_gathers(&points, SHARED_GATHERS, NODE_NS);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    assert_ns(ns_per(fetch, KVT_FEATURE_WIRE_BYTES), LINK_NS, 0.005);
    assert_ns(ns_per(fetch, KVT_FEATURE_NODE_BYTES), NODE_NS, 0.01);
    assert_ns(ns_per(fetch, KVT_FEATURE_GRANULES), GRANULE_NS, 0.005);
    for (size_t i = 0; i < points.count; i++) {
        assert_ns(kvt_profile_ns(fetch, points.items[i].features), points.items[i].step_ns, 0.015);
        ck_assert(kvt_profile_in_range(fetch, points.items[i].features));
    }
    points_free(&points);
}
END_TEST

/* What is translated of a gather takes 35.7 ns a granule, 12 a block and 8 more from afar. */
START_TEST(blocks_and_far_granules_are_told_beside_granules)
{
    struct points points;
    make_gathers(&points, 0, NODE_NS);
    for (uint32_t g = 0; g < points.count; g++) {
        struct point *point = &points.items[g];
        double *f = point->features;
        f[KVT_FEATURE_GRANULE_BLOCKS] = f[KVT_FEATURE_GRANULES] * 0.1 * (g % 7);
        f[KVT_FEATURE_FAR_GRANULES] = f[KVT_FEATURE_GRANULES] * 0.2 * (g % 5);
        double granules_ns = GRANULE_NS * f[KVT_FEATURE_GRANULES] +
                             12 * f[KVT_FEATURE_GRANULE_BLOCKS] + 8 * f[KVT_FEATURE_FAR_GRANULES];
        point->step_ns = point->parts_ns[KVT_PART_FETCH] =
            fmax(LINK_NS * f[KVT_FEATURE_WIRE_BYTES], granules_ns) + LAUNCH_NS;
    }
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    assert_ns(ns_per(fetch, KVT_FEATURE_GRANULES), GRANULE_NS, 0.005);
    assert_ns(ns_per(fetch, KVT_FEATURE_GRANULE_BLOCKS), 12, 0.02);
    assert_ns(ns_per(fetch, KVT_FEATURE_FAR_GRANULES), 8, 0.02);
    points_free(&points);
}
END_TEST

/* 1: what the large rows of one GPU take; 4: fewer bytes than two GPUs had, of more GPUs. */
START_TEST(more_gpus_than_gathered_at_once_are_out_of_range)
{
    struct points points;
    make_gathers(&points, SHARED_GATHERS, NODE_NS);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    ck_assert(fetch->has_range[KVT_FEATURE_NODE_BYTES]);
    ck_assert_double_eq_tol(fetch->most[KVT_FEATURE_NODE_BYTES], 2 * 32 * 600 * 2304.0, 1e3);
    ck_assert(is_fetch_in_range(fetch, 0, 1));
    ck_assert(is_fetch_in_range(fetch, 0, 2));
    ck_assert(!is_fetch_in_range(fetch, 0, 3));
    ck_assert(!is_fetch_in_range(fetch, 1, 4));
    points_free(&points);
}
END_TEST

/* Its node's bytes are its own, so that the limit of its link could be either. */
START_TEST(one_gpu_alone_does_not_tell_what_the_node_serves)
{
    struct points points;
    make_gathers(&points, 0, NODE_NS);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    ck_assert(ns_per(fetch, KVT_FEATURE_NODE_BYTES) == 0);
    ck_assert_uint_eq(fetch->limit_count, 2);
    ck_assert_int_eq(term_of(&found.fits[KVT_PART_FETCH], 2, KVT_FEATURE_NODE_BYTES)->state,
                     FAMILY_TERM_ABSENT);
    assert_ns(ns_per(fetch, KVT_FEATURE_WIRE_BYTES), LINK_NS, 0.005);
    ck_assert(!fetch->has_range[KVT_FEATURE_NODE_BYTES]);
    ck_assert(is_fetch_in_range(fetch, 0, 1));
    ck_assert(!is_fetch_in_range(fetch, 1, 2));
    points_free(&points);
}
END_TEST

START_TEST(one_gather_of_two_gpus_alone_does_not_tell_it)
{
    struct points points;
    make_gathers(&points, 1, NODE_NS);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    ck_assert_int_eq(term_of(&found.fits[KVT_PART_FETCH], 2, KVT_FEATURE_NODE_BYTES)->state,
                     FAMILY_TERM_ALONE);
    ck_assert(ns_per(fetch, KVT_FEATURE_NODE_BYTES) == 0);
    ck_assert(is_fetch_in_range(fetch, 0, 1));
    ck_assert(!is_fetch_in_range(fetch, 0, 2));
    points_free(&points);
}
END_TEST

/* A node that serves both as if each were alone: no time of either is taken for another's. */
START_TEST(a_node_that_serves_all_links_slows_nobody)
{
    struct points points;
    make_gathers(&points, SHARED_GATHERS, NODE_NS / 3);
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    assert_ns(ns_per(fetch, KVT_FEATURE_WIRE_BYTES), LINK_NS, 0.005);
    for (size_t i = 0; i < points.count; i++)
        assert_ns(kvt_profile_ns(fetch, points.items[i].features), points.items[i].step_ns, 0.015);
    ck_assert(is_fetch_in_range(fetch, 0, 2));
    points_free(&points);
}
END_TEST

/* As files have them that were written before points said how many GPUs gathered. */
START_TEST(points_that_do_not_say_how_many_gpus_hold_for_any)
{
    struct points points;
    make_gathers(&points, 0, NODE_NS);
    for (size_t i = 0; i < points.count; i++)
        points.items[i].features[KVT_FEATURE_GATHERING_GPUS] = 0;
    const struct gpu_calibration found = calibrated(&points);
    const struct kvt_profile_family *fetch = &found.profile.families[KVT_PART_FETCH];

    ck_assert(!fetch->has_range[KVT_FEATURE_GATHERING_GPUS]);
    ck_assert(!fetch->has_range[KVT_FEATURE_NODE_BYTES]);
    ck_assert(is_fetch_in_range(fetch, 0, 1));
    points_free(&points);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate_gathers");
    TCase *fits = tcase_create("fits");
    SRunner *runner = srunner_create(suite);

    gsl_set_error_handler_off(); /* as the command does */
    tcase_add_test(fits, two_gpus_at_once_tell_what_the_node_serves);
    tcase_add_test(fits, blocks_and_far_granules_are_told_beside_granules);
    tcase_add_test(fits, more_gpus_than_gathered_at_once_are_out_of_range);
    tcase_add_test(fits, one_gpu_alone_does_not_tell_what_the_node_serves);
    tcase_add_test(fits, one_gather_of_two_gpus_alone_does_not_tell_it);
    tcase_add_test(fits, a_node_that_serves_all_links_slows_nobody);
    tcase_add_test(fits, points_that_do_not_say_how_many_gpus_hold_for_any);
    suite_add_tcase(suite, fits);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
