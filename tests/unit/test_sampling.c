/* test_sampling.c -- half-widths of what sampling leaves open, against sums by hand. */
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "kvt/rng.h"
#include "kvt/sampling.h"

/* Two-sided 99 %. */
#define T_1 63.656741162871596
#define T_2 9.924843200918286

static struct kvt_store_sample sample(uint32_t store, double selected, double missed)
{
    return (struct kvt_store_sample){.store = store,
                                     .counts = {[KVT_SAMPLED_SELECTED] = selected,
                                                [KVT_SAMPLED_MISSED] = missed,
                                                [KVT_SAMPLED_LOOKED_UP] = selected / 2,
                                                [KVT_SAMPLED_FETCHED] = missed}};
}

static double half_width(const struct kvt_sampling *sampling, const struct kvt_stratum *strata,
                         uint32_t count)
{
    return kvt_sampling_half_width(sampling, strata, count, KVT_SAMPLED_MISSED,
                                   KVT_SAMPLED_SELECTED, NULL);
}

START_TEST(two_followed_leave_open_what_stores_of_a_request_differ_by)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum stratum = {.stores = 6, .followed = 2, .selectors = 1};
    const struct kvt_store_sample first[] = {sample(0, 100, 10), sample(3, 100, 14)};
    const struct kvt_store_sample second[] = {sample(1, 100, 40), sample(2, 100, 34)};
    kvt_sampling_add(&sampling, 0, first, 2);
    kvt_sampling_add(&sampling, 0, second, 2);
    /* s^2 of 10, 14 is 8; of 40, 34 it is 18; S^2 (1 - n/S) / n = 12; the sum is 3 x 98. */
    double expected = T_2 * sqrt(12.0 * (8 + 18)) / (3 * 98);
    ck_assert_double_eq_tol(half_width(&sampling, &stratum, 1), expected, 1e-12);
}
END_TEST

START_TEST(one_followed_takes_what_requests_differ_by)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum stratum = {.stores = 5, .followed = 1, .selectors = 1};
    const struct kvt_store_sample first = sample(0, 100, 10), second = sample(4, 300, 50);
    kvt_sampling_add(&sampling, 0, &first, 1);
    kvt_sampling_add(&sampling, 0, &second, 1);
    /* The ratio is 60 / 400: residuals 10 - 15 and 50 - 45; S^2 (1 - 1/S) = 20, m/(m-1) = 2. */
    double expected = T_1 * sqrt(20.0 * (25 + 25) * 2) / (5 * 60);
    ck_assert_double_eq_tol(half_width(&sampling, &stratum, 1), expected, 1e-10);
}
END_TEST

START_TEST(what_is_followed_whole_leaves_nothing_open)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum stratum = {.stores = 2, .followed = 2, .selectors = 1};
    const struct kvt_store_sample stores[] = {sample(0, 100, 10), sample(1, 100, 30)};
    kvt_sampling_add(&sampling, 0, stores, 2);
    ck_assert_double_eq(half_width(&sampling, &stratum, 1), 0);
}
END_TEST

START_TEST(one_request_alone_cannot_tell)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum stratum = {.stores = 5, .followed = 1, .selectors = 1};
    const struct kvt_store_sample only = sample(0, 100, 10);
    kvt_sampling_add(&sampling, 0, &only, 1);
    ck_assert(isinf(half_width(&sampling, &stratum, 1)));
}
END_TEST

START_TEST(nothing_missed_leaves_nothing_open)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum stratum = {.stores = 5, .followed = 1, .selectors = 1};
    const struct kvt_store_sample none = sample(0, 100, 0), no_call = sample(1, 0, 0);
    kvt_sampling_add(&sampling, 0, &none, 1);
    kvt_sampling_add(&sampling, 0, &none, 1);
    kvt_sampling_add(&sampling, 0, &no_call, 1);
    ck_assert_double_eq(half_width(&sampling, &stratum, 1), 0);
    ck_assert_uint_eq(sampling.strata[0].clusters, 2);
}
END_TEST

START_TEST(weights_count_a_stratum_for_more)
{
    struct kvt_sampling sampling = {0};
    const struct kvt_stratum strata[] = {{.stores = 6, .followed = 2, .selectors = 1},
                                         {.stores = 1, .followed = 1, .selectors = 1}};
    const double weights[] = {4, 1};
    const struct kvt_store_sample stores[] = {sample(0, 100, 10), sample(3, 100, 14)};
    const struct kvt_store_sample whole = sample(6, 100, 28);
    for (int i = 0; i < 3; i++) {
        kvt_sampling_add(&sampling, 0, stores, 2);
        kvt_sampling_add(&sampling, 1, &whole, 1);
    }
    /* Two-sided t of 3 degrees of freedom. */
    double open = 5.840909309733355 * sqrt(3 * 12.0 * 8);
    ck_assert_double_eq_tol(half_width(&sampling, strata, 2), open / (3 * 72 + 84), 1e-12);
    ck_assert_double_eq_tol(kvt_sampling_half_width(&sampling, strata, 2, KVT_SAMPLED_MISSED,
                                                    KVT_SAMPLED_SELECTED, weights),
                            4 * open / (4 * 3 * 72 + 84), 1e-12);
}
END_TEST

static void add_pooled(struct kvt_sampling *sampling, double missed, double expected)
{
    struct kvt_store_sample followed = sample(0, 100, missed);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        followed.expected[c] = followed.counts[c];
    followed.expected[KVT_SAMPLED_MISSED] = expected;
    kvt_sampling_add(sampling, 0, &followed, 1);
}

START_TEST(pooled_requests_leave_open_what_they_missed_beyond_what_was_expected)
{
    const struct kvt_stratum stratum = {.stores = 5, .followed = 1, .selectors = 1};
    struct kvt_sampling sampling = {.pooled = true, .followed_rounds = 30, .followed_at_once = 90};
    sampling.strata[0].whole[KVT_SAMPLED_SELECTED] = 1200;
    sampling.strata[0].whole[KVT_SAMPLED_MISSED] = 130;
    add_pooled(&sampling, 12, 10);
    add_pooled(&sampling, 11, 12);
    add_pooled(&sampling, 9, 10);
    /* f = 300 / 1200, a = 3 at once: (1 - f) / f^2 = 12, a/(a-1) = 3/2, squares 4 + 1 + 1. */
    double expected = T_2 * sqrt(12 * 1.5 * 6) / 130;
    ck_assert_double_eq_tol(half_width(&sampling, &stratum, 1), expected, 1e-12);
}
END_TEST

START_TEST(one_followed_alone_cannot_tell)
{
    const struct kvt_stratum stratum = {.stores = 5, .followed = 1, .selectors = 1};
    struct kvt_sampling sampling = {.pooled = true, .followed_rounds = 30, .followed_at_once = 30};
    sampling.strata[0].whole[KVT_SAMPLED_SELECTED] = 1200;
    sampling.strata[0].whole[KVT_SAMPLED_MISSED] = 130;
    add_pooled(&sampling, 12, 10);
    add_pooled(&sampling, 11, 12);
    ck_assert(isinf(half_width(&sampling, &stratum, 1)));
}
END_TEST

START_TEST(pooled_and_all_followed_leaves_nothing_open)
{
    const struct kvt_stratum stratum = {.stores = 1, .followed = 1, .selectors = 1};
    struct kvt_sampling sampling = {.pooled = true, .followed_rounds = 30, .followed_at_once = 60};
    sampling.strata[0].whole[KVT_SAMPLED_SELECTED] = 200;
    sampling.strata[0].whole[KVT_SAMPLED_MISSED] = 23;
    add_pooled(&sampling, 12, 11);
    add_pooled(&sampling, 11, 12);
    ck_assert_double_eq(half_width(&sampling, &stratum, 1), 0);
}
END_TEST

/* A population that is known: how often the interval holds its sum. */
START_TEST(intervals_hold_a_known_population_99_times_in_100)
{
    enum {
        TRIALS = 1000,
        REQUESTS = 30,
        STORES = 8
    };
    const struct kvt_stratum stratum = {.stores = STORES, .followed = 2, .selectors = 1};
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 0);
    int held = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct kvt_sampling sampling = {0};
        double all = 0, seen = 0;
        for (int i = 0; i < REQUESTS; i++) {
            struct kvt_store_sample followed[2] = {{0}};
            double mean = 20 + 20 * kvt_rng_unit(&rng);
            uint32_t first = (uint32_t)kvt_rng_below(&rng, STORES);
            uint32_t second = (first + 1 + (uint32_t)kvt_rng_below(&rng, STORES - 1)) % STORES;
            for (uint32_t j = 0; j < STORES; j++) {
                double missed = mean * (0.7 + 0.6 * kvt_rng_unit(&rng));
                all += missed;
                if (j == first || j == second)
                    followed[j == second] = sample(j, 100, missed);
            }
            seen += followed[0].counts[KVT_SAMPLED_MISSED] + followed[1].counts[KVT_SAMPLED_MISSED];
            kvt_sampling_add(&sampling, 0, followed, 2);
        }
        double estimate = STORES / 2.0 * seen;
        held += fabs(estimate - all) <= half_width(&sampling, &stratum, 1) * estimate;
    }
    /* 990 expected; 3.6 standard deviations of a binomial either way. */
    ck_assert_msg(held >= 978 && held <= 1000, "%d of %d intervals", held, TRIALS);
}
END_TEST

static Suite *sampling_suite(void)
{
    Suite *suite = suite_create("sampling");
    TCase *tcase = tcase_create("sampling");
    tcase_add_test(tcase, two_followed_leave_open_what_stores_of_a_request_differ_by);
    tcase_add_test(tcase, one_followed_takes_what_requests_differ_by);
    tcase_add_test(tcase, what_is_followed_whole_leaves_nothing_open);
    tcase_add_test(tcase, one_request_alone_cannot_tell);
    tcase_add_test(tcase, nothing_missed_leaves_nothing_open);
    tcase_add_test(tcase, weights_count_a_stratum_for_more);
    tcase_add_test(tcase, pooled_requests_leave_open_what_they_missed_beyond_what_was_expected);
    tcase_add_test(tcase, one_followed_alone_cannot_tell);
    tcase_add_test(tcase, pooled_and_all_followed_leaves_nothing_open);
    tcase_add_test(tcase, intervals_hold_a_known_population_99_times_in_100);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(sampling_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
