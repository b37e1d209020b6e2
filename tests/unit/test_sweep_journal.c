/* test_sweep_journal.c -- what a sweep has finished survives what ends it. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/sweep/sweep_journal.h"
#include "kvt/json.h"
#include "support/support.h"

#define QUESTION "{\"schema\": \"kvtide/sweep-journal/1\",\"runs\": 3}"

static struct support_folder folder;
static char file[SUPPORT_PATH_BYTES];

static void setup(void)
{
    support_folder_make(&folder);
    support_path(&folder, SWEEP_JOURNAL, file);
}

static void teardown(void)
{
    support_folder_remove(&folder);
}

static struct sweep_journal *reopened(bool to_go_on)
{
    struct sweep_journal *journal = NULL;
    struct kvt_error err;
    kvt_status status = sweep_journal_open(folder.path, to_go_on, &journal, &err);

    ck_assert_msg(status == KVT_OK, "%s", err.message);
    return journal;
}

static void append(struct sweep_journal *journal, size_t run, const char *text)
{
    struct kvt_error err;

    ck_assert_int_eq(sweep_journal_append(journal, run, text, &err), KVT_OK);
}

static double value_of(const struct sweep_journal *journal, size_t run)
{
    cJSON *tree = NULL;
    struct kvt_error err;

    ck_assert_int_eq(sweep_journal_read(journal, run, &tree, &err), KVT_OK);
    double value = kvt_json_find(tree, "value")->valuedouble;
    cJSON_Delete(tree);
    return value;
}

/* Runs 2 and 0, in this order. */
static void make_two(void)
{
    struct sweep_journal *journal = NULL;
    struct kvt_error err;

    ck_assert_int_eq(sweep_journal_create(folder.path, QUESTION, &journal, &err), KVT_OK);
    append(journal, 2, "{\"run\": 2,\"value\": 2.385}");
    append(journal, 0, "{\"run\": 0,\"value\": 0.5}");
    sweep_journal_close(journal);
}

START_TEST(what_is_appended_is_there_again)
{
    make_two();
    struct sweep_journal *journal = reopened(true);
    ck_assert_uint_eq(sweep_journal_dropped_bytes(journal), 0);
    ck_assert(sweep_journal_has(journal, 0) && !sweep_journal_has(journal, 1) &&
              sweep_journal_has(journal, 2) && !sweep_journal_has(journal, 3));
    ck_assert_double_eq(value_of(journal, 0), 0.5);
    append(journal, 1, "{\"run\": 1,\"value\": 1.25}");
    append(journal, 2, "{\"run\": 2,\"value\": 7}");
    ck_assert_double_eq(value_of(journal, 2), 7);
    sweep_journal_close(journal);
    journal = reopened(false);
    ck_assert_double_eq(value_of(journal, 2), 7);
    ck_assert_double_eq(value_of(journal, 1), 1.25);
    sweep_journal_close(journal);
}
END_TEST

START_TEST(a_line_torn_at_any_byte_is_dropped_and_nothing_else)
{
    char *text = NULL;
    size_t bytes = 0;

    make_two();
    text = support_read(file, &bytes);
    char *last = text + bytes - 1;
    while (last[-1] != '\n')
        last--;
    for (size_t keep = (size_t)(last - text); keep < bytes; keep++) {
        support_write(file, text, keep);
        struct sweep_journal *journal = reopened(true);
        ck_assert_uint_eq(sweep_journal_dropped_bytes(journal), keep - (size_t)(last - text));
        ck_assert(!sweep_journal_has(journal, 0) && sweep_journal_has(journal, 2));
        append(journal, 0, "{\"run\": 0,\"value\": 3}");
        sweep_journal_close(journal);
        journal = reopened(false);
        ck_assert_uint_eq(sweep_journal_dropped_bytes(journal), 0);
        ck_assert_double_eq(value_of(journal, 0), 3);
        sweep_journal_close(journal);
    }
    free(text);
}
END_TEST

START_TEST(a_byte_that_is_wrong_takes_its_line_and_what_follows)
{
    char *text = NULL;
    size_t bytes = 0;

    make_two();
    text = support_read(file, &bytes);
    char *second = strchr(text, '\n') + 1;
    second[30] ^= 1;
    support_write(file, text, bytes);
    struct sweep_journal *journal = reopened(true);
    ck_assert(!sweep_journal_has(journal, 0) && !sweep_journal_has(journal, 2));
    ck_assert_uint_eq(sweep_journal_dropped_bytes(journal), bytes - (size_t)(second - text));
    sweep_journal_close(journal);
    free(text);
}
END_TEST

START_TEST(a_journal_is_one_process_own_and_readers_share_it)
{
    struct sweep_journal *other = NULL;
    struct kvt_error err;

    make_two();
    struct sweep_journal *journal = reopened(true);
    ck_assert_int_eq(sweep_journal_open(folder.path, true, &other, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "at work"));
    ck_assert_int_eq(sweep_journal_open(folder.path, false, &other, &err), KVT_ERR_INVALID);
    sweep_journal_close(journal);
    journal = reopened(false);
    other = reopened(false);
    sweep_journal_close(other);
    sweep_journal_close(journal);
}
END_TEST

START_TEST(a_folder_with_a_sweep_gets_no_second_one)
{
    struct sweep_journal *journal = NULL;
    struct kvt_error err;
    char results[SUPPORT_PATH_BYTES];

    ck_assert_int_eq(sweep_journal_open(folder.path, true, &journal, &err), KVT_ERR_NOT_FOUND);
    make_two();
    ck_assert_int_eq(sweep_journal_create(folder.path, QUESTION, &journal, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "--resume"));
    (void)remove(file);
    support_write(support_path(&folder, "results.json", results), "{}", 2);
    ck_assert_int_eq(sweep_journal_create(folder.path, QUESTION, &journal, &err), KVT_ERR_INVALID);
}
END_TEST

static const char *const no_journals[] = {
    "", "{}\n", "0123456789abcdef {\"schema\": \"kvtide/sweep-journal/1\",\"runs\": 3}\n",
    "0123456789abcdef {\"sch"};

START_TEST(a_file_that_is_no_journal_is_refused_and_left_alone)
{
    struct sweep_journal *journal = NULL;
    struct kvt_error err;
    size_t bytes = 0;

    support_write(file, no_journals[_i], strlen(no_journals[_i]));
    ck_assert_int_eq(sweep_journal_open(folder.path, true, &journal, &err), KVT_ERR_PARSE);
    char *text = support_read(file, &bytes);
    ck_assert_str_eq(text, no_journals[_i]);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep_journal");
    TCase *lines = tcase_create("lines");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(lines, setup, teardown);
    tcase_add_test(lines, what_is_appended_is_there_again);
    tcase_add_test(lines, a_line_torn_at_any_byte_is_dropped_and_nothing_else);
    tcase_add_test(lines, a_byte_that_is_wrong_takes_its_line_and_what_follows);
    tcase_add_test(lines, a_journal_is_one_process_own_and_readers_share_it);
    tcase_add_test(lines, a_folder_with_a_sweep_gets_no_second_one);
    tcase_add_loop_test(lines, a_file_that_is_no_journal_is_refused_and_left_alone, 0,
                        sizeof no_journals / sizeof no_journals[0]);
    suite_add_tcase(suite, lines);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
