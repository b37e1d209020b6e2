/* test_lockstep_report.c -- what kvtide validate says of steps that were measured. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "cli/validate.h"

/* Two steps, predicted 10 % too long. No backend runs "host" and "draft", which were predicted. */
static double errors[2] = {0.1, 0.1};

static struct lockstep_outcome measured_outcome(void)
{
    struct lockstep_outcome outcome = {0};
    struct lockstep_family *families = outcome.families;

    families[KVT_PART_ATTEND] = families[KVT_PARTS] =
        (struct lockstep_family){.errors = errors,
                                 .count = 2,
                                 .capacity = 2,
                                 .in_range = 1,
                                 .predicted_ns = 2.2e9,
                                 .measured_ns = 2e9};
    families[KVT_PART_HOST].predicted_ns = 3e8;
    families[KVT_PART_DRAFT].predicted_ns = 5e8;
    return outcome;
}

static cJSON *tree_of(const struct lockstep_outcome *outcome)
{
    const struct lockstep_plan plan = {.on_gpu = true};
    struct kvt_error err;
    cJSON *tree = NULL;

    ck_assert_int_eq(lockstep_tree(&plan, outcome, &tree, &err), KVT_OK);
    return tree;
}

static double number_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "%s is no number", key);
    return item->valuedouble;
}

START_TEST(parts_that_nobody_runs_are_no_families_and_are_named)
{
    const struct lockstep_outcome outcome = measured_outcome();
    cJSON *tree = tree_of(&outcome);
    const cJSON *families = kvt_json_find(tree, "families");
    const cJSON *attend = cJSON_GetArrayItem(families, 0), *step = cJSON_GetArrayItem(families, 1);
    const cJSON *only = kvt_json_find(tree, "predicted_only_s");

    ck_assert_int_eq(cJSON_GetArraySize(families), 2);
    ck_assert_str_eq(kvt_json_find(attend, "name")->valuestring, "attend");
    ck_assert_str_eq(kvt_json_find(step, "name")->valuestring, "step");
    ck_assert_double_eq_tol(number_at(step, "mape"), 0.1, 1e-12);
    ck_assert_double_eq_tol(number_at(step, "bias"), 0.1, 1e-12);
    ck_assert_double_eq(number_at(step, "in_range"), 0.5);
    ck_assert_int_eq(cJSON_GetArraySize(only), 4);
    ck_assert_double_eq_tol(number_at(only, "host"), 0.3, 1e-12);
    ck_assert_double_eq_tol(number_at(only, "draft"), 0.5, 1e-12);
    ck_assert_double_eq(number_at(only, "sampling"), 0);
    ck_assert_double_eq(number_at(only, "prefill"), 0);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(where_nothing_was_measured_nothing_is_set_beside)
{
    const struct lockstep_outcome outcome = {0};
    cJSON *tree = tree_of(&outcome);

    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(tree, "families")), 0);
    ck_assert_ptr_null(kvt_json_find(tree, "predicted_only_s"));
    cJSON_Delete(tree);
}
END_TEST

START_TEST(the_table_says_what_is_not_in_step)
{
    const struct lockstep_outcome outcome = measured_outcome();
    const struct lockstep_plan plan = {.on_gpu = true};
    char text[4096] = "";
    FILE *file = tmpfile();

    ck_assert_ptr_nonnull(file);
    (void)fflush(stdout);
    int shown = dup(STDOUT_FILENO);
    ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
    lockstep_print(&plan, &outcome);
    (void)fflush(stdout);
    ck_assert_int_ge(dup2(shown, STDOUT_FILENO), 0);
    (void)close(shown);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    ck_assert_msg(
        strstr(text, "not in step, for no backend runs it: host 0.3000 s, draft 0.5000 s"), "%s",
        text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lockstep_report");
    TCase *cases = tcase_create("report");

    tcase_add_test(cases, parts_that_nobody_runs_are_no_families_and_are_named);
    tcase_add_test(cases, where_nothing_was_measured_nothing_is_set_beside);
    tcase_add_test(cases, the_table_says_what_is_not_in_step);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
