/* test_rng.c -- streams that are independent, and distributions that are what they say. */
#include <check.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/rng.h"

/* Every test draws from fixed seeds, so a statistic that passes once passes
 * always; its limits are those of a chance of 1e-6 to fail. */
#define RARE 1e-6

enum {
    CELLS = 100,
    DRAWS = 200000
};

/* Chi-square of DRAWS probabilities over CELLS equal cells. */
static void check_uniform(const uint32_t counts[CELLS])
{
    double expected = (double)DRAWS / CELLS;
    double sum = 0.0;
    for (int i = 0; i < CELLS; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    ck_assert_double_gt(gsl_cdf_chisq_Q(sum, CELLS - 1), RARE);
    ck_assert_double_gt(gsl_cdf_chisq_P(sum, CELLS - 1), RARE);
}

static void count_cell(uint32_t counts[CELLS], double probability)
{
    if (!(probability >= 0.0 && probability <= 1.0))
        ck_abort_msg("%g is no probability", probability);
    int cell = (int)(probability * CELLS);
    counts[cell < CELLS ? cell : CELLS - 1]++;
}

START_TEST(draws_are_the_same_on_every_machine)
{
    /* From a second implementation, in Python. */
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 7);
    ck_assert_uint_eq(kvt_rng_u64(&rng), UINT64_C(0x5dbbadb557e1ce6d));
    ck_assert_uint_eq(kvt_rng_u64(&rng), UINT64_C(0x6cfda0d3625c82c3));
    ck_assert_uint_eq(kvt_rng_u64(&rng), UINT64_C(0x739e3fcf087e327d));
    rng = kvt_rng_stream(0, KVT_RNG_ARRIVAL, 0);
    ck_assert_uint_eq(kvt_rng_u64(&rng), UINT64_C(0x00633a168ccab9d0));
}
END_TEST

START_TEST(a_copy_is_a_snapshot)
{
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);
    for (int i = 0; i < 17; i++)
        (void)kvt_rng_gaussian(&rng);
    struct kvt_rng copy = rng;
    double drawn[50];
    for (int i = 0; i < 50; i++)
        drawn[i] = kvt_rng_gamma(&rng, 2.385, 3.0);
    for (int i = 0; i < 50; i++)
        ck_assert_double_eq(kvt_rng_gamma(&copy, 2.385, 3.0), drawn[i]);
}
END_TEST

START_TEST(a_stream_does_not_see_what_others_draw)
{
    struct kvt_rng alone = kvt_rng_stream(9, KVT_RNG_LENGTH, 3);
    uint64_t first = kvt_rng_u64(&alone);
    struct kvt_rng other = kvt_rng_stream(9, KVT_RNG_LENGTH, 2);
    for (int i = 0; i < 1000; i++)
        (void)kvt_rng_u64(&other);
    struct kvt_rng again = kvt_rng_stream(9, KVT_RNG_LENGTH, 3);
    ck_assert_uint_eq(kvt_rng_u64(&again), first);
}
END_TEST

START_TEST(seed_purpose_and_entity_each_make_another_stream)
{
    uint64_t firsts[5];
    struct kvt_rng streams[5] = {
        kvt_rng_stream(1, KVT_RNG_ARRIVAL, 2), kvt_rng_stream(2, KVT_RNG_ARRIVAL, 1),
        kvt_rng_stream(0, KVT_RNG_ARRIVAL, 0), kvt_rng_stream(1, KVT_RNG_LENGTH, 1),
        kvt_rng_stream(1, KVT_RNG_ARRIVAL, 1),
    };
    for (int a = 0; a < 5; a++) {
        firsts[a] = kvt_rng_u64(&streams[a]);
        for (int b = 0; b < a; b++)
            ck_assert_uint_ne(firsts[a], firsts[b]);
    }
}
END_TEST

START_TEST(bits_within_a_stream_and_across_streams_are_fair_coins)
{
    /* Neighbours in a stream, and equal places of neighbouring entities: the
     * bits in which they differ are binomial. */
    enum {
        PAIRS = 100000
    };
    double deviation = sqrt(64.0 * PAIRS * 0.25);
    double middle = 32.0 * PAIRS;
    struct kvt_rng rng = kvt_rng_stream(5, KVT_RNG_TEST, 0);
    double along = 0.0;
    double across = 0.0;
    uint64_t previous = kvt_rng_u64(&rng);
    for (uint64_t i = 0; i < PAIRS; i++) {
        uint64_t next = kvt_rng_u64(&rng);
        along += __builtin_popcountll(previous ^ next);
        previous = next;
        struct kvt_rng here = kvt_rng_stream(5, KVT_RNG_TEST, i);
        struct kvt_rng there = kvt_rng_stream(5, KVT_RNG_TEST, i + 1);
        across += __builtin_popcountll(kvt_rng_u64(&here) ^ kvt_rng_u64(&there));
    }
    ck_assert_double_lt(fabs(along - middle) / deviation, 5.0);
    ck_assert_double_lt(fabs(across - middle) / deviation, 5.0);
}
END_TEST

START_TEST(streams_whose_windows_overlap_still_differ)
{
    /* Two keys one counter step apart are the same window of splitmix64. */
    struct kvt_rng a = kvt_rng_stream(5, KVT_RNG_TEST, 0);
    struct kvt_rng b = {.key = a.key + UINT64_C(0x9e3779b97f4a7c15), .counter = 0};
    (void)kvt_rng_u64(&a);
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_ne(kvt_rng_u64(&a), kvt_rng_u64(&b));
}
END_TEST

START_TEST(unit_draws_are_uniform_and_below_one)
{
    struct kvt_rng rng = kvt_rng_stream(11, KVT_RNG_TEST, 0);
    uint32_t counts[CELLS] = {0};
    double lagged = 0.0;
    double previous = 0.5;
    for (int i = 0; i < DRAWS; i++) {
        double draw = kvt_rng_unit(&rng);
        if (draw >= 1.0)
            ck_abort_msg("%g is not below one", draw);
        count_cell(counts, draw);
        lagged += (draw - 0.5) * (previous - 0.5);
        previous = draw;
    }
    check_uniform(counts);
    /* Products of independent draws: mean 0, deviation 1/12 each. */
    ck_assert_double_lt(fabs(lagged / DRAWS) / (1.0 / 12.0 / sqrt(DRAWS)), 5.0);
}
END_TEST

START_TEST(below_is_uniform_and_reaches_both_ends)
{
    struct kvt_rng rng = kvt_rng_stream(12, KVT_RNG_TEST, 0);
    uint32_t counts[CELLS] = {0};
    for (int i = 0; i < DRAWS; i++)
        counts[kvt_rng_below(&rng, CELLS)]++;
    check_uniform(counts);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(kvt_rng_below(&rng, 1), 0);
}
END_TEST

START_TEST(below_has_no_bias_where_a_remainder_or_a_product_would)
{
    /* Below 3 * 2^62, a draw modulo the bound falls in the lowest third twice
     * as often as it should; the high half of a product is divisible by 3 in
     * half of the cases instead of a third. */
    const uint64_t bound = UINT64_C(3) << 62;
    const uint64_t third = UINT64_C(1) << 62;
    enum {
        TRIES = 30000
    };
    struct kvt_rng rng = kvt_rng_stream(13, KVT_RNG_TEST, 0);
    int low = 0;
    int divisible = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t draw = kvt_rng_below(&rng, bound);
        if (draw >= bound)
            ck_abort_msg("a draw past the bound");
        low += draw < third;
        divisible += draw % 3 == 0;
    }
    double deviation = sqrt(TRIES * 2.0 / 9.0);
    ck_assert_double_lt(fabs(low - TRIES / 3.0) / deviation, 5.0);
    ck_assert_double_lt(fabs(divisible - TRIES / 3.0) / deviation, 5.0);
    ck_assert_uint_lt(kvt_rng_below(&rng, UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(exponential_draws_follow_their_law)
{
    struct kvt_rng rng = kvt_rng_stream(14, KVT_RNG_TEST, 0);
    uint32_t counts[CELLS] = {0};
    double sum = 0.0;
    for (int i = 0; i < DRAWS; i++) {
        double draw = kvt_rng_exponential(&rng, 2.385);
        count_cell(counts, gsl_cdf_exponential_P(draw, 2.385));
        sum += draw;
    }
    check_uniform(counts);
    ck_assert_double_lt(fabs(sum / DRAWS - 2.385), 5.0 * 2.385 / sqrt(DRAWS));
}
END_TEST

START_TEST(gamma_draws_follow_their_law)
{
    static const double shapes[2] = {0.35, 4.2}; /* GSL takes another road below 1 */
    for (int i = 0; i < 2; i++) {
        struct kvt_rng rng = kvt_rng_stream(15, KVT_RNG_TEST, (uint64_t)i);
        uint32_t counts[CELLS] = {0};
        double sum = 0.0;
        for (int j = 0; j < DRAWS; j++) {
            double draw = kvt_rng_gamma(&rng, shapes[i], 1.7);
            count_cell(counts, gsl_cdf_gamma_P(draw, shapes[i], 1.7));
            sum += draw;
        }
        check_uniform(counts);
        double deviation = sqrt(shapes[i]) * 1.7 / sqrt(DRAWS);
        ck_assert_double_lt(fabs(sum / DRAWS - shapes[i] * 1.7), 5.0 * deviation);
    }
}
END_TEST

START_TEST(lognormal_draws_have_the_mean_and_the_variation_asked_for)
{
    const double mean = 4096.0;
    const double cv = 0.6;
    struct kvt_rng rng = kvt_rng_stream(16, KVT_RNG_TEST, 0);
    double log_deviation = sqrt(log(1.0 + cv * cv));
    double log_mean = log(mean) - 0.5 * log_deviation * log_deviation;
    uint32_t counts[CELLS] = {0};
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < DRAWS; i++) {
        double draw = kvt_rng_lognormal(&rng, mean, cv);
        count_cell(counts, gsl_cdf_lognormal_P(draw, log_mean, log_deviation));
        sum += draw;
        squares += (draw - mean) * (draw - mean);
    }
    check_uniform(counts);
    ck_assert_double_lt(fabs(sum / DRAWS - mean), 5.0 * cv * mean / sqrt(DRAWS));
    ck_assert_double_lt(fabs(sqrt(squares / DRAWS) / mean - cv), 0.01);
    /* Without variation it is the mean itself. */
    ck_assert_double_eq(kvt_rng_lognormal(&rng, mean, 0.0), mean);
}
END_TEST

START_TEST(gaussian_draws_follow_their_law)
{
    struct kvt_rng rng = kvt_rng_stream(17, KVT_RNG_TEST, 0);
    uint32_t counts[CELLS] = {0};
    double sum = 0.0;
    for (int i = 0; i < DRAWS; i++) {
        double draw = kvt_rng_gaussian(&rng);
        count_cell(counts, gsl_cdf_ugaussian_P(draw));
        sum += draw;
    }
    check_uniform(counts);
    ck_assert_double_lt(fabs(sum / DRAWS), 5.0 / sqrt(DRAWS));
}
END_TEST

START_TEST(results_carry_no_more_than_twenty_bits_of_fraction)
{
    struct kvt_rng rng = kvt_rng_stream(18, KVT_RNG_TEST, 0);
    for (int i = 0; i < 10000; i++) {
        double draws[4] = {
            kvt_rng_exponential(&rng, 1.7),
            kvt_rng_gamma(&rng, 0.8, 1e-9),
            kvt_rng_lognormal(&rng, 1e12, 2.0),
            kvt_rng_gaussian(&rng),
        };
        for (int j = 0; j < 4; j++) {
            int exponent = 0;
            double scaled = ldexp(frexp(draws[j], &exponent), 21);
            if (scaled != floor(scaled))
                ck_abort_msg("%a is not rounded", draws[j]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rng");
    TCase *cases = tcase_create("streams");
    tcase_add_test(cases, draws_are_the_same_on_every_machine);
    tcase_add_test(cases, a_copy_is_a_snapshot);
    tcase_add_test(cases, a_stream_does_not_see_what_others_draw);
    tcase_add_test(cases, seed_purpose_and_entity_each_make_another_stream);
    tcase_add_test(cases, bits_within_a_stream_and_across_streams_are_fair_coins);
    tcase_add_test(cases, streams_whose_windows_overlap_still_differ);
    tcase_add_test(cases, unit_draws_are_uniform_and_below_one);
    tcase_add_test(cases, below_is_uniform_and_reaches_both_ends);
    tcase_add_test(cases, below_has_no_bias_where_a_remainder_or_a_product_would);
    tcase_add_test(cases, exponential_draws_follow_their_law);
    tcase_add_test(cases, gamma_draws_follow_their_law);
    tcase_add_test(cases, lognormal_draws_have_the_mean_and_the_variation_asked_for);
    tcase_add_test(cases, gaussian_draws_follow_their_law);
    tcase_add_test(cases, results_carry_no_more_than_twenty_bits_of_fraction);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
