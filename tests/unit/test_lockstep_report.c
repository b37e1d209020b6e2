/* test_lockstep_report.c -- what kvtide validate says of steps that were measured, and when it
 * says yes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "cli/measure/validate.h"

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

/* Where a drafter's passes are run, they are a family. */
START_TEST(drafts_that_are_run_are_not_named_as_predicted)
{
    struct lockstep_outcome outcome = measured_outcome();

    outcome.runs_drafts = true;
    outcome.families[KVT_PART_DRAFT] = outcome.families[KVT_PART_ATTEND];
    cJSON *tree = tree_of(&outcome);
    const cJSON *families = kvt_json_find(tree, "families");
    const cJSON *only = kvt_json_find(tree, "predicted_only_s");
    ck_assert_int_eq(cJSON_GetArraySize(families), 3);
    ck_assert_str_eq(kvt_json_find(cJSON_GetArrayItem(families, 1), "name")->valuestring, "draft");
    ck_assert_int_eq(cJSON_GetArraySize(only), 3);
    ck_assert_ptr_null(kvt_json_find(only, "draft"));
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

enum {
    TEXT_BYTES = 8192
};

/* Lines that were broken at a blank, and set in by eleven, as one. */
static void unfold(char *text)
{
    static const char fold[] = "\n           ";
    char *at = text;

    while ((at = strstr(at, fold)) != NULL) {
        *at++ = ' ';
        memmove(at, at + strlen(fold) - 1, strlen(at + strlen(fold) - 1) + 1);
    }
}

static void print_into(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome,
                       char text[TEXT_BYTES])
{
    FILE *file = tmpfile();

    ck_assert_ptr_nonnull(file);
    (void)fflush(stdout);
    int shown = dup(STDOUT_FILENO);
    ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
    lockstep_print(plan, outcome);
    (void)fflush(stdout);
    ck_assert_int_ge(dup2(shown, STDOUT_FILENO), 0);
    (void)close(shown);
    rewind(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
    unfold(text);
}

START_TEST(the_table_says_what_is_not_in_step)
{
    const struct lockstep_outcome outcome = measured_outcome();
    const struct lockstep_plan plan = {.on_gpu = true};
    char text[TEXT_BYTES];

    print_into(&plan, &outcome, text);
    ck_assert_msg(
        strstr(text, "not in step, for no backend runs it: host 150.0000 ms, draft 250.0000 ms"),
        "%s", text);
}
END_TEST

/* ---- When it says yes ------------------------------------------------------------------------ */

/* Two runs that agree, of outputs in f32 and in bf16; the second's error is too large for f32. */
static struct lockstep_run good_runs[2] = {
    {.scenario = "first",
     .report = {.rounds = 10, .agreed_rounds = 10, .calls = 700},
     .proof = {.calls = 700, .checked_queries = 40, .double_queries = 3, .max_rel_error = 1e-5},
     .tolerance = 1e-3},
    {.scenario = "second",
     .report = {.rounds = 10, .agreed_rounds = 10, .calls = 500},
     .proof = {.calls = 500, .checked_queries = 40, .double_queries = 3, .max_rel_error = 2e-3},
     .tolerance = 3e-3}};

static void nothing(struct lockstep_run *runs)
{
    (void)runs;
}

static void first_is_no_number(struct lockstep_run *runs)
{
    runs[0].proof.max_rel_error = (double)NAN;
}

static void last_is_no_number(struct lockstep_run *runs)
{
    runs[1].proof.max_rel_error = (double)NAN;
}

static void first_is_as_far_as_bf16(struct lockstep_run *runs)
{
    runs[0].proof.max_rel_error = 2e-3;
}

static void one_query_differs(struct lockstep_run *runs)
{
    runs[1].proof.unequal_queries = 1;
}

static void rank_differs(struct lockstep_run *runs)
{
    runs[0].report.mismatches = 12; /* more than there are rounds, all of which agree */
}

static void times_mean_nothing(struct lockstep_run *runs)
{
    runs[1].proof.not_representative = "plain kernels";
}

static void layers_stand_for_all(struct lockstep_run *runs)
{
    for (int r = 0; r < 2; r++) {
        runs[r].proof.scaled = "times of 26 of 78 layers, scaled";
        runs[r].proof.calls = 230;
    }
}

static void flip_both(struct lockstep_run *runs)
{
    for (int r = 0; r < 2; r++) {
        runs[r].proof.corrupted_rows = runs[r].proof.corrupted_found = 1;
        runs[r].proof.corrupted_queries = runs[r].proof.unequal_queries = 2;
    }
}

static void flip_and_miss(struct lockstep_run *runs)
{
    flip_both(runs);
    runs[1].proof.corrupted_found = runs[1].proof.corrupted_queries = 0;
}

static void flip_and_break(struct lockstep_run *runs)
{
    flip_both(runs);
    runs[0].proof.unequal_queries++;
}

#define IN_RANGE "kernel time yes (a GPU, 50 % of steps in range) | engine no"
#define WRONG "kernel time no (of attention that is not right)"
static const struct verdict_case {
    const char *what;
    void (*change)(struct lockstep_run *runs);
    bool corrupt;
    const char *failure;
    const char *badge, *words; /* in what is printed */
    bool good;
} verdicts[] = {
    {"agree", nothing, false, "", "decisions yes (1200 calls) | " IN_RANGE,
     "yes: the GPU decides as the simulator does in 20 of 20 rounds", true},
    {"a part of the layers", layers_stand_for_all, false, "",
     "decisions yes (460 calls on the GPU, of 1200) | kernel time yes (a GPU, times of 26 of 78 "
     "layers, scaled, 50 % of steps in range) | engine no",
     "yes: the GPU decides as the simulator does in 20 of 20 rounds", true},
    {"not a number", first_is_no_number, false, "", WRONG, "one is not a number, of 0.001", false},
    {"not a number, last", last_is_no_number, false, "", WRONG, "too far from double", false},
    {"f32 as far as bf16", first_is_as_far_as_bf16, false, "", WRONG, "0.002 at most, of 0.001",
     false},
    {"attention differs", one_query_differs, false, "", WRONG, "attention differs", false},
    {"a rank differs", rank_differs, false, "", "decisions no (12 rounds or steps differ)",
     "no: the GPU decides as the simulator does in 20 of 20 rounds", false},
    {"planned", times_mean_nothing, false, "", "kernel time no (plain kernels)", "yes: the GPU",
     true},
    {"broken off", nothing, false, "cuda: the device was lost",
     "decisions no (broken off, after 1200 calls that agree)",
     "broken off: cuda: the device was lost", false},
    {"found", flip_both, true, "", "decisions yes (1200 calls)",
     "yes: of 2 bytes that were flipped", true},
    {"nothing to flip", nothing, true, "", WRONG, "nothing was flipped", false},
    {"not found", flip_and_miss, true, "", WRONG, "was not found", false},
    {"more differs", flip_and_break, true, "", WRONG, "where nothing was flipped", false},
};

START_TEST(it_says_yes_where_all_is_well_and_else_why_not)
{
    const struct verdict_case *verdict = &verdicts[_i];
    struct lockstep_outcome outcome = measured_outcome();
    const struct lockstep_plan plan = {.on_gpu = true, .corrupt = verdict->corrupt};
    struct kvt_error err;
    char text[TEXT_BYTES];
    cJSON *tree = NULL;

    outcome.runs = good_runs; /* of this process alone */
    outcome.run_count = 2;
    (void)snprintf(outcome.failure, sizeof outcome.failure, "%s", verdict->failure);
    verdict->change(good_runs);
    ck_assert_msg(lockstep_is_good(&plan, &outcome) == verdict->good, "%s", verdict->what);
    ck_assert_int_eq(lockstep_tree(&plan, &outcome, &tree, &err), KVT_OK);
    ck_assert_int_eq(cJSON_IsTrue(kvt_json_find(tree, "good")), verdict->good);
    ck_assert_int_eq(cJSON_IsString(kvt_json_find(tree, "broken_off")), verdict->failure[0] != 0);
    cJSON_Delete(tree);
    print_into(&plan, &outcome, text);
    ck_assert_msg(strstr(text, verdict->badge) && strstr(text, verdict->words), "%s: %s",
                  verdict->what, text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lockstep_report");
    TCase *cases = tcase_create("report");

    tcase_add_test(cases, parts_that_nobody_runs_are_no_families_and_are_named);
    tcase_add_test(cases, drafts_that_are_run_are_not_named_as_predicted);
    tcase_add_test(cases, where_nothing_was_measured_nothing_is_set_beside);
    tcase_add_test(cases, the_table_says_what_is_not_in_step);
    tcase_add_loop_test(cases, it_says_yes_where_all_is_well_and_else_why_not, 0,
                        sizeof verdicts / sizeof verdicts[0]);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
