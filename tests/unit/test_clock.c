/* test_clock.c -- durations in integers. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "kvt/clock.h"
#include "kvt/rng.h"

__extension__ typedef unsigned __int128 wide;

START_TEST(durations_from_bytes_round_up)
{
    static const struct {
        uint64_t bytes, bytes_per_s;
        kvt_ns ns;
    } rows[] = {
        {0, 1, 0},
        {0, UINT64_MAX, 0},
        {1, 1, 1000000000},
        {1, UINT64_MAX, 1},
        {2304, UINT64_C(57000000000), 41}, /* 40.42 */
        {57, UINT64_C(57000000000), 1},    /* exactly 1 */
        {58, UINT64_C(57000000000), 2},
        {UINT64_C(18446744073), 1, INT64_MAX},
        {UINT64_C(9223372036), 1, INT64_C(9223372036000000000)},
        {UINT64_C(9223372037), 1, INT64_MAX},
        {UINT64_MAX, 1, INT64_MAX},
        {UINT64_MAX, UINT64_MAX, 1000000000},
        {UINT64_C(100000000000), UINT64_C(3), INT64_MAX},
        {UINT64_C(100000000000), UINT64_C(57000000000), 1754385965}, /* ...964.9 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(kvt_ns_for_bytes(rows[i].bytes, rows[i].bytes_per_s) == rows[i].ns, "row %zu",
                      i);
}
END_TEST

START_TEST(durations_agree_with_wide_arithmetic)
{
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t bytes = kvt_rng_u64(&rng) >> kvt_rng_below(&rng, 64);
        uint64_t rate = (kvt_rng_u64(&rng) >> kvt_rng_below(&rng, 64)) | 1;
        wide exact = ((wide)bytes * 1000000000u + rate - 1) / rate;
        kvt_ns expected = exact > INT64_MAX ? INT64_MAX : (kvt_ns)exact;
        if (kvt_ns_for_bytes(bytes, rate) != expected)
            ck_abort_msg("%llu bytes at %llu", (unsigned long long)bytes, (unsigned long long)rate);
    }
}
END_TEST

START_TEST(seconds_become_the_nearest_nanosecond)
{
    static const struct {
        double seconds;
        kvt_ns ns;
    } rows[] = {
        {0.0, 0},
        {-0.0, 0},
        {2.385, 2385000000},
        {1e-9, 1},
        {0.4e-9, 0},
        {0.6e-9, 1},
        {60.0, 60000000000},
        {0.1 + 0.2, 300000000},
        {1700476637.9799600, 1700476637979959965}, /* what the double holds */
        {4611686018.0, INT64_C(4611686018000000000)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvt_ns ns = -7;
        ck_assert(kvt_ns_from_seconds(rows[i].seconds, &ns));
        ck_assert_msg(ns == rows[i].ns, "row %zu: %lld", i, (long long)ns);
    }
}
END_TEST

START_TEST(seconds_that_are_no_time_are_refused_and_leave_the_result_alone)
{
    static const double bad[] = {-1e-9, -1.0, 4611686019.0, 1e300, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvt_ns ns = -7;
        ck_assert_msg(!kvt_ns_from_seconds(bad[i], &ns), "row %zu", i);
        ck_assert_int_eq(ns, -7);
    }
}
END_TEST

START_TEST(wall_time_does_not_go_back)
{
    struct kvt_wall start = kvt_wall_now();
    for (int i = 0; i < 1000; i++)
        ck_assert_double_ge(kvt_wall_seconds_since(start), 0.0);
    struct kvt_wall earlier = {.ns = start.ns - 2385000000};
    ck_assert_double_ge(kvt_wall_seconds_since(earlier), 2.385);
    ck_assert_double_lt(kvt_wall_seconds_since(earlier), 60.0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *cases = tcase_create("time");
    tcase_add_test(cases, durations_from_bytes_round_up);
    tcase_add_test(cases, durations_agree_with_wide_arithmetic);
    tcase_add_test(cases, seconds_become_the_nearest_nanosecond);
    tcase_add_test(cases, seconds_that_are_no_time_are_refused_and_leave_the_result_alone);
    tcase_add_test(cases, wall_time_does_not_go_back);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
