/* test_family_fit.c -- one family out of samples whose law is known. */
#include <check.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/rng.h"
#include "support/calibration.h"

enum {
    SAMPLES = 240,
    RUNS = 24
};

struct made {
    double features[SAMPLES][KVT_FEATURES];
    struct family_sample samples[SAMPLES];
};

/* Fetches of any size, whose granules are apart from their bytes; noise: a share. */
static void make_fetches(struct made *made, double noise, uint64_t seed)
{
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);

    for (int i = 0; i < SAMPLES; i++) {
        double *features = made->features[i];
        double bytes = 1e6 * pow(300, kvt_rng_unit(&rng));
        features[KVT_FEATURE_STEP] = 1;
        features[KVT_FEATURE_WIRE_BYTES] = bytes;
        features[KVT_FEATURE_GRANULES] = bytes / 2304 * (0.05 + 2.4 * kvt_rng_unit(&rng));
        features[KVT_FEATURE_FETCHES] = 1 + (double)kvt_rng_below(&rng, 21);
        double link = 0.0195 * bytes + 7000 * features[KVT_FEATURE_FETCHES];
        double granules = 35.7 * features[KVT_FEATURE_GRANULES];
        made->samples[i] = (struct family_sample){.features = features,
                                                  .ns = fmax(link, granules) *
                                                        (1 + noise * kvt_rng_gaussian(&rng)),
                                                  .configuration = (uint32_t)(i % RUNS)};
    }
}

static const struct family_form fetch_form = {
    KVT_PART_FETCH,
    2,
    {{.count = 3,
      .features = {KVT_FEATURE_WIRE_BYTES, KVT_FEATURE_FETCHES, KVT_FEATURE_OUTBOUND_BYTES}},
     {.count = 1, .features = {KVT_FEATURE_GRANULES}}}};

static struct family_fit fitted(const struct family_form *form, const struct made *made)
{
    struct family_fit fit;
    struct kvt_error err = {0};

    ck_assert_msg(family_fit(form, made->samples, SAMPLES, true, &fit, &err) == KVT_OK, "%s",
                  err.message);
    return fit;
}

static void assert_term(const struct family_fit *fit, uint32_t limit,
                        enum kvt_profile_feature feature, double ns, double share)
{
    const struct family_term *term = term_of(fit, limit, feature);

    ck_assert_int_eq(term->state, FAMILY_TERM_FITTED);
    ck_assert_msg(fabs(term->ns / ns - 1) <= share, "%s of limit %u: %g, not %g",
                  kvt_profile_feature_name(feature), limit, term->ns, ns);
}

START_TEST(the_larger_of_two_limits_comes_back)
{
    static struct made made;
    make_fetches(&made, 0.01, 1);
    const struct family_fit fit = fitted(&fetch_form, &made);

    assert_term(&fit, 0, KVT_FEATURE_WIRE_BYTES, 0.0195, 0.01);
    assert_term(&fit, 0, KVT_FEATURE_FETCHES, 7000, 0.03);
    assert_term(&fit, 1, KVT_FEATURE_GRANULES, 35.7, 0.01);
    ck_assert_int_eq(term_of(&fit, 0, KVT_FEATURE_OUTBOUND_BYTES)->state, FAMILY_TERM_ABSENT);
    ck_assert_uint_eq(fit.family.limit_count, 2);
    ck_assert_uint_eq(fit.configurations, RUNS);
    ck_assert_double_lt(fit.left_out.mape, 0.015);
    ck_assert_double_lt(fabs(fit.left_out.bias), 0.003);
}
END_TEST

/* One sample in twelve took twice to four times as long. */
START_TEST(samples_that_were_disturbed_are_counted_and_have_no_say)
{
    static struct made made;
    size_t disturbed = 0;
    make_fetches(&made, 0.01, 2);
    for (int i = 5; i < SAMPLES; i += 12, disturbed++)
        made.samples[i].ns *= 2 + (i % 3);
    const struct family_fit fit = fitted(&fetch_form, &made);

    assert_term(&fit, 0, KVT_FEATURE_WIRE_BYTES, 0.0195, 0.01);
    assert_term(&fit, 1, KVT_FEATURE_GRANULES, 35.7, 0.01);
    ck_assert_uint_ge(fit.outliers, disturbed);
    ck_assert_uint_le(fit.outliers, disturbed + 8);
    ck_assert_double_gt(fit.own.mape, 0.04); /* errors hold them all the same */
    ck_assert_double_lt(fit.own.median_abs, 0.02);
}
END_TEST

START_TEST(a_term_that_says_nothing_is_not_told)
{
    static struct made made;
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 1);
    make_fetches(&made, 0.02, 3);
    for (int i = 0; i < SAMPLES; i++)
        made.features[i][KVT_FEATURE_OUTBOUND_BYTES] = 1e5 * kvt_rng_unit(&rng);
    const struct family_fit fit = fitted(&fetch_form, &made);

    ck_assert_int_eq(term_of(&fit, 0, KVT_FEATURE_OUTBOUND_BYTES)->state, FAMILY_TERM_UNCERTAIN);
    ck_assert(fit.family.ns_per[0][KVT_FEATURE_OUTBOUND_BYTES] == 0);
    /* That it says nothing holds over what was seen of it. */
    ck_assert(fit.family.has_range[KVT_FEATURE_OUTBOUND_BYTES]);
    ck_assert_double_eq_tol(fit.family.most[KVT_FEATURE_OUTBOUND_BYTES], 1e5, 2e3);
}
END_TEST

/* What else is peculiar to that run would be in it, and nothing is known of others that have it. */
START_TEST(a_term_that_one_run_alone_has_is_not_told_and_out_of_range)
{
    static struct made made;
    make_fetches(&made, 0.02, 6);
    for (int i = 0; i < SAMPLES; i++) {
        if (made.samples[i].configuration != 7)
            continue;
        made.features[i][KVT_FEATURE_OUTBOUND_BYTES] = 1e6;
        made.samples[i].ns += 50000;
    }
    const struct family_fit fit = fitted(&fetch_form, &made);

    ck_assert_int_eq(term_of(&fit, 0, KVT_FEATURE_OUTBOUND_BYTES)->state, FAMILY_TERM_ALONE);
    for (int i = 0; i < SAMPLES; i++)
        ck_assert_int_eq(kvt_profile_in_range(&fit.family, made.features[i]),
                         made.samples[i].configuration != 7);
}
END_TEST

/* No term is negative: what falls with a feature is left out of it. */
START_TEST(a_term_below_0_is_left_out)
{
    static struct made made;
    static const struct family_form form = {
        KVT_PART_OTHER, 1, {{.count = 2, .features = {KVT_FEATURE_STEP, KVT_FEATURE_REQUESTS}}}};
    for (int i = 0; i < SAMPLES; i++) {
        made.features[i][KVT_FEATURE_STEP] = 1;
        made.features[i][KVT_FEATURE_REQUESTS] = 1 + i % 40;
        made.samples[i] = (struct family_sample){.features = made.features[i],
                                                 .ns = 1e5 - 500 * (i % 40),
                                                 .configuration = (uint32_t)(i % RUNS)};
    }
    const struct family_fit fit = fitted(&form, &made);

    ck_assert_int_eq(term_of(&fit, 0, KVT_FEATURE_REQUESTS)->state, FAMILY_TERM_UNCERTAIN);
    ck_assert_double_lt(term_of(&fit, 0, KVT_FEATURE_REQUESTS)->ns, 0);
    ck_assert_double_gt(fit.family.ns_per[0][KVT_FEATURE_STEP], 8e4);
}
END_TEST

START_TEST(a_range_holds_every_sample)
{
    static struct made made;
    make_fetches(&made, 0.01, 4);
    const struct family_fit fit = fitted(&fetch_form, &made);

    for (int i = 0; i < SAMPLES; i++)
        ck_assert(kvt_profile_in_range(&fit.family, made.features[i]));
    made.features[0][KVT_FEATURE_WIRE_BYTES] = 3.1e8;
    ck_assert(!kvt_profile_in_range(&fit.family, made.features[0]));
}
END_TEST

START_TEST(too_few_samples_are_no_answer)
{
    static struct made made;
    struct family_fit fit;
    struct kvt_error err = {0};

    make_fetches(&made, 0.01, 5);
    ck_assert_int_eq(family_fit(&fetch_form, made.samples, 3, true, &fit, &err),
                     KVT_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.where, "calibrate");
    ck_assert_ptr_nonnull(strstr(err.message, "more points are expected"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("family_fit");
    TCase *fits = tcase_create("fits");
    SRunner *runner = srunner_create(suite);

    gsl_set_error_handler_off(); /* as the command does */
    tcase_add_test(fits, the_larger_of_two_limits_comes_back);
    tcase_add_test(fits, samples_that_were_disturbed_are_counted_and_have_no_say);
    tcase_add_test(fits, a_term_that_says_nothing_is_not_told);
    tcase_add_test(fits, a_term_that_one_run_alone_has_is_not_told_and_out_of_range);
    tcase_add_test(fits, a_term_below_0_is_left_out);
    tcase_add_test(fits, a_range_holds_every_sample);
    tcase_add_test(fits, too_few_samples_are_no_answer);
    suite_add_tcase(suite, fits);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
