/* test_version.c -- the facts of a build are there, in every build. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/version.h"

START_TEST(the_library_and_its_header_name_one_version)
{
    ck_assert_str_eq(kvt_version(), KVT_VERSION);
}
END_TEST

START_TEST(the_commit_is_one_word)
{
    ck_assert_uint_gt(strlen(kvt_commit()), 0);
    ck_assert_ptr_null(strpbrk(kvt_commit(), " \t\r\n\""));
}
END_TEST

START_TEST(the_data_folder_is_absolute_and_ours)
{
    const char *path = kvt_installed_data_dir();
    const char *end = "/share/kvt";

    ck_assert_int_eq(path[0], '/');
    ck_assert_uint_ge(strlen(path), strlen(end));
    ck_assert_str_eq(path + strlen(path) - strlen(end), end);
}
END_TEST

static Suite *version_suite(void)
{
    Suite *suite = suite_create("version");
    TCase *facts = tcase_create("facts");

    tcase_add_test(facts, the_library_and_its_header_name_one_version);
    tcase_add_test(facts, the_commit_is_one_word);
    tcase_add_test(facts, the_data_folder_is_absolute_and_ours);
    suite_add_tcase(suite, facts);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(version_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
