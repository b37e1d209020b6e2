/* test_metrics.c -- distributions against their values, sorted. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "kvt/metrics.h"
#include "kvt/rng.h"
#include "support/support.h"

#define WIDTH 0.001 /* relative, of a bucket at most */

enum {
    VALUES = 20000
};

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* numpy.quantile(values, fraction), method "linear". */
static double quantile_of(const double *sorted, size_t count, double fraction)
{
    double place = fraction * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

static void check_quantiles(const struct kvt_histogram *histogram, double *values, size_t count,
                            double tolerance)
{
    static const double fractions[] = {0.0, 0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.9999, 1.0};
    qsort(values, count, sizeof *values, compare_doubles);
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
        double expected = quantile_of(values, count, fractions[i]);
        double found = kvt_histogram_quantile(histogram, fractions[i]);
        ck_assert_double_le(fabs(found - expected), expected * tolerance + 1e-9);
    }
}

START_TEST(quantiles_are_numpy_s_within_a_tenth_of_a_percent)
{
    static double values[VALUES];
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
        struct kvt_histogram *histogram = kvt_histogram_new();
        for (size_t i = 0; i < VALUES; i++) {
            double draw =
                seed % 2 == 0 ? kvt_rng_lognormal(&rng, 3e7, 1.5) : kvt_rng_exponential(&rng, 9e14);
            uint64_t value = (uint64_t)draw;
            values[i] = (double)value;
            kvt_histogram_add(histogram, value, 1);
        }
        check_quantiles(histogram, values, VALUES, WIDTH);
        kvt_histogram_free(histogram);
    }
}
END_TEST

START_TEST(small_values_are_exact)
{
    static double values[VALUES];
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 0);
    struct kvt_histogram *histogram = kvt_histogram_new();
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t value = kvt_rng_below(&rng, 1024);
        values[i] = (double)value;
        kvt_histogram_add(histogram, value, 1);
    }
    check_quantiles(histogram, values, VALUES, 0.0);
    kvt_histogram_free(histogram);
}
END_TEST

START_TEST(every_64_bit_value_is_found_again)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int offset = -2; offset <= 2; offset++) {
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)(int64_t)offset;
            struct kvt_histogram *histogram = kvt_histogram_new();
            kvt_histogram_add(histogram, value, 4);
            double found = kvt_histogram_quantile(histogram, 0.5);
            ck_assert_double_le(fabs(found - (double)value), (double)value * WIDTH / 2.0);
            ck_assert_double_eq(kvt_histogram_mean(histogram), (double)value);
            ck_assert_uint_eq(kvt_histogram_count(histogram), 4);
            kvt_histogram_free(histogram);
        }
    }
}
END_TEST

START_TEST(between_two_values_the_quantile_is_linear)
{
    struct kvt_histogram *histogram = kvt_histogram_new();
    kvt_histogram_add(histogram, 100, 1);
    kvt_histogram_add(histogram, 700, 1);
    ck_assert_double_eq_tol(kvt_histogram_quantile(histogram, 0.25), 250.0, 1e-9);
    kvt_histogram_add(histogram, 700, 2);
    ck_assert_double_eq_tol(kvt_histogram_quantile(histogram, 0.1), 280.0, 1e-9);
    ck_assert_double_eq(kvt_histogram_quantile(histogram, 0.5), 700.0);
    ck_assert_double_eq(kvt_histogram_quantile(histogram, 0.0), 100.0);
    ck_assert_double_eq(kvt_histogram_quantile(histogram, 1.0), 700.0);
    kvt_histogram_free(histogram);
}
END_TEST

START_TEST(the_mean_is_exact_and_the_deviation_within_a_bucket)
{
    struct kvt_histogram *histogram = kvt_histogram_new();
    struct kvt_rng rng = kvt_rng_stream(6, KVT_RNG_TEST, 0);
    static double values[VALUES];
    uint64_t sum = 0;
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t value = UINT64_C(40000000) + kvt_rng_below(&rng, 20000000);
        values[i] = (double)value;
        sum += value;
        kvt_histogram_add(histogram, value, 1);
    }
    double mean = (double)sum / VALUES;
    double squares = 0.0;
    for (size_t i = 0; i < VALUES; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    ck_assert_double_eq(kvt_histogram_mean(histogram), mean);
    ck_assert_double_eq_tol(kvt_histogram_std(histogram), sqrt(squares / VALUES), mean * WIDTH);

    /* A sum past 64 bits. */
    struct kvt_histogram *large = kvt_histogram_new();
    kvt_histogram_add(large, UINT64_MAX, UINT64_C(1) << 40);
    ck_assert_double_eq(kvt_histogram_mean(large), 0x1p64);
    kvt_histogram_free(large);
    kvt_histogram_free(histogram);
}
END_TEST

START_TEST(merging_in_any_order_gives_the_same_bits)
{
    enum {
        PARTS = 5
    };
    struct kvt_histogram *parts[PARTS];
    struct kvt_histogram *whole = kvt_histogram_new();
    struct kvt_rng rng = kvt_rng_stream(8, KVT_RNG_TEST, 0);
    for (int i = 0; i < PARTS; i++) {
        parts[i] = kvt_histogram_new();
        for (int j = 0; j < i * 500; j++) { /* the first is empty */
            uint64_t value = kvt_rng_u64(&rng) >> kvt_rng_below(&rng, 64);
            uint64_t times = kvt_rng_below(&rng, 4);
            kvt_histogram_add(parts[i], value, times);
            kvt_histogram_add(whole, value, times);
        }
    }
    struct kvt_histogram *up = kvt_histogram_new();
    struct kvt_histogram *down = kvt_histogram_new();
    for (int i = 0; i < PARTS; i++) {
        kvt_histogram_merge(up, parts[i]);
        kvt_histogram_merge(down, parts[PARTS - 1 - i]);
    }
    ck_assert_uint_eq(kvt_histogram_count(up), kvt_histogram_count(whole));
    const struct kvt_histogram *merged[2] = {up, down};
    for (int i = 0; i < 2; i++) {
        ck_assert_double_eq(kvt_histogram_mean(merged[i]), kvt_histogram_mean(whole));
        ck_assert_double_eq(kvt_histogram_std(merged[i]), kvt_histogram_std(whole));
        for (int sixteenths = 0; sixteenths <= 16; sixteenths++) {
            double at = sixteenths / 16.0;
            ck_assert_double_eq(kvt_histogram_quantile(merged[i], at),
                                kvt_histogram_quantile(whole, at));
        }
    }
    for (int i = 0; i < PARTS; i++)
        kvt_histogram_free(parts[i]);
    kvt_histogram_free(up);
    kvt_histogram_free(down);
    kvt_histogram_free(whole);
}
END_TEST

START_TEST(an_empty_histogram_has_no_statistics)
{
    struct kvt_histogram *histogram = kvt_histogram_new();
    kvt_histogram_add(histogram, 17, 0);
    ck_assert_uint_eq(kvt_histogram_count(histogram), 0);
    ck_assert_double_nan(kvt_histogram_mean(histogram));
    ck_assert_double_nan(kvt_histogram_std(histogram));
    ck_assert_double_nan(kvt_histogram_quantile(histogram, 0.5));
    kvt_histogram_add(histogram, 17, 1);
    ck_assert_double_nan(kvt_histogram_quantile(histogram, -0.1));
    ck_assert_double_nan(kvt_histogram_quantile(histogram, 1.1));
    ck_assert_double_nan(kvt_histogram_quantile(histogram, NAN));
    kvt_histogram_free(histogram);
    kvt_histogram_free(NULL);
}
END_TEST

START_TEST(short_memory_makes_no_histogram)
{
    if (!support_can_fail_allocations())
        return;
    support_fail_allocation(0);
    struct kvt_histogram *histogram = kvt_histogram_new();
    ck_assert(support_allocation_failed());
    ck_assert_ptr_null(histogram);
}
END_TEST

START_TEST(a_summary_is_what_numpy_computes)
{
    /* np.mean, np.median, np.std, np.percentile of these values. */
    double values[] = {9.5, 2.385, 100.25, 3.0, 47.125, 3.0, 12.0, 0.5};
    struct kvt_summary summary;
    kvt_summary_of(values, 8, &summary);
    ck_assert_double_eq_tol(summary.mean, 22.22, 1e-12);
    ck_assert_double_eq_tol(summary.median, 6.25, 1e-12);
    ck_assert_double_eq_tol(summary.p50, 6.25, 1e-12);
    ck_assert_double_eq_tol(summary.std, 32.74749828231158, 1e-12);
    ck_assert_double_eq_tol(summary.p90, 63.06249999999999, 1e-12);
    ck_assert_double_eq_tol(summary.p95, 81.65624999999997, 1e-12);
    ck_assert_double_eq_tol(summary.p99, 96.53124999999999, 1e-12);
    for (size_t i = 1; i < 8; i++)
        ck_assert_double_le(values[i - 1], values[i]);
}
END_TEST

START_TEST(a_summary_of_one_value_is_that_value_and_of_none_is_nan)
{
    double value = 2.385;
    struct kvt_summary summary;
    kvt_summary_of(&value, 1, &summary);
    ck_assert_double_eq(summary.mean, 2.385);
    ck_assert_double_eq(summary.p50, 2.385);
    ck_assert_double_eq(summary.p99, 2.385);
    ck_assert_double_eq(summary.std, 0.0);
    kvt_summary_of(NULL, 0, &summary);
    ck_assert_double_nan(summary.mean);
    ck_assert_double_nan(summary.median);
    ck_assert_double_nan(summary.std);
    ck_assert_double_nan(summary.p99);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *cases = tcase_create("distributions");
    tcase_add_test(cases, quantiles_are_numpy_s_within_a_tenth_of_a_percent);
    tcase_add_test(cases, small_values_are_exact);
    tcase_add_test(cases, every_64_bit_value_is_found_again);
    tcase_add_test(cases, between_two_values_the_quantile_is_linear);
    tcase_add_test(cases, the_mean_is_exact_and_the_deviation_within_a_bucket);
    tcase_add_test(cases, merging_in_any_order_gives_the_same_bits);
    tcase_add_test(cases, an_empty_histogram_has_no_statistics);
    tcase_add_test(cases, short_memory_makes_no_histogram);
    tcase_add_test(cases, a_summary_is_what_numpy_computes);
    tcase_add_test(cases, a_summary_of_one_value_is_that_value_and_of_none_is_nan);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
