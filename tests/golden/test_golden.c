/* test_golden.c -- small scenarios, their whole result and summary to the letter.
 *
 * A result that moved is a change of behaviour: read the difference, and say in the commit why.
 * KVT_GOLDEN_UPDATE=1 writes what is found instead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/json.h"
#include "support/small_run.h"
#include "support/support.h"

static const char *const names[] = {"adaptive", "preemption", "ratios", "sessions"};
enum {
    NAMES = sizeof names / sizeof names[0],
    PATH_BYTES = 256
};

static char *path_of(const char *name, const char *ending, char out[PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/tests/golden/%s.%s", KVT_TEST_ROOT, name, ending);
    return out;
}

static char *summary_text(const struct small_run *small)
{
    struct cJSON *result = NULL;
    struct kvt_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_int_eq(kvt_report_result(small->run, &result, &err), KVT_OK);
    FILE *stream = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(stream);
    kvt_report_summary(stream, small->run, result);
    (void)fclose(stream);
    cJSON_Delete(result);
    return text;
}

static void check_text(const char *name, const char *ending, const char *found)
{
    char path[PATH_BYTES];
    size_t bytes;
    (void)path_of(name, ending, path);
    if (getenv("KVT_GOLDEN_UPDATE") != NULL) {
        support_write(path, found, strlen(found));
        return;
    }
    char *expected = support_read(path, &bytes);
    ck_assert_msg(expected != NULL, "%s is missing; KVT_GOLDEN_UPDATE=1 writes it", path);
    size_t at = 0, line = 1;
    for (; found[at] == expected[at] && found[at] != '\0'; at++)
        line += found[at] == '\n';
    if (found[at] != expected[at])
        ck_abort_msg("%s:%zu: \"%.60s\" is now \"%.60s\"; KVT_GOLDEN_UPDATE=1 takes it over", path,
                     line, expected + at, found + at);
    free(expected);
}

/* GSL sums up in long doubles, which valgrind computes in 64 bits: another last digit. */
static bool long_doubles_are_wide(void)
{
    volatile long double one = 1, little = 0x1p-60L;
    return one + little != one;
}

START_TEST(the_result_is_what_it_was)
{
    char path[PATH_BYTES];
    size_t bytes;
    struct small_run small;
    char *scenario = support_read(path_of(names[_i], "scenario.json", path), &bytes);
    ck_assert_msg(scenario != NULL, "%s is missing", path);
    small_run_whole(&small, scenario, NULL);
    char *result = small_run_result_text(&small);
    char *summary = summary_text(&small);
    if (long_doubles_are_wide())
        check_text(names[_i], "result.json", result);
    check_text(names[_i], "summary.txt", summary);
    free(summary);
    free(result);
    free(scenario);
    small_run_close(&small);
}
END_TEST

static Suite *golden_suite(void)
{
    Suite *suite = suite_create("golden");
    TCase *tcase = tcase_create("golden");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, the_result_is_what_it_was, 0, NAMES);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(golden_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
