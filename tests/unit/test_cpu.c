/* test_cpu.c -- the levels of the processor have names, and the best one is among them. */
#include <stdlib.h>

#include <check.h>

#include "kvt/cpu.h"

START_TEST(every_level_has_a_name)
{
    ck_assert_str_eq(kvt_cpu_name(KVT_CPU_PLAIN), "plain");
    ck_assert_str_eq(kvt_cpu_name(KVT_CPU_AVX2), "avx2");
    ck_assert_str_eq(kvt_cpu_name(KVT_CPU_AVX512), "avx512");
}
END_TEST

START_TEST(the_best_level_is_one_and_stays_the_same)
{
    enum kvt_cpu best = kvt_cpu_best();
    ck_assert_int_ge((int)best, (int)KVT_CPU_PLAIN);
    ck_assert_int_lt((int)best, (int)KVT_CPU_LEVELS);
    ck_assert_int_eq((int)kvt_cpu_best(), (int)best);
}
END_TEST

static Suite *cpu_suite(void)
{
    Suite *suite = suite_create("cpu");
    TCase *levels = tcase_create("levels");

    tcase_add_test(levels, every_level_has_a_name);
    tcase_add_test(levels, the_best_level_is_one_and_stays_the_same);
    suite_add_tcase(suite, levels);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(cpu_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
