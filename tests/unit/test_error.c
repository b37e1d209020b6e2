/* test_error.c -- failures in words. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/error.h"

START_TEST(a_failure_carries_status_place_and_sentence)
{
    struct kvt_error err = {0};
    kvt_status status =
        kvt_fail(&err, KVT_ERR_INVALID, "h200.json#/links/0", "%d is not %s", 7, "a rate");
    ck_assert_int_eq(status, KVT_ERR_INVALID);
    ck_assert_int_eq(err.status, KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "h200.json#/links/0");
    ck_assert_str_eq(err.message, "7 is not a rate");
}
END_TEST

START_TEST(a_caller_who_wants_no_words_passes_null)
{
    ck_assert_int_eq(kvt_fail(NULL, KVT_ERR_IO, "x", "y"), KVT_ERR_IO);
    ck_assert_int_eq(kvt_fail_nomem(NULL, "x"), KVT_ERR_NOMEM);
}
END_TEST

START_TEST(an_absent_place_is_an_empty_one)
{
    struct kvt_error err;
    (void)kvt_fail(&err, KVT_ERR_IO, NULL, "y");
    ck_assert_str_eq(err.where, "");
}
END_TEST

START_TEST(a_failure_may_quote_the_error_it_fills)
{
    struct kvt_error err;
    (void)kvt_fail(&err, KVT_ERR_IO, "inner", "a reason");
    (void)kvt_fail(&err, KVT_ERR_INVALID, err.where, "outer: %s (%s)", err.message, err.where);
    ck_assert_str_eq(err.where, "inner");
    ck_assert_str_eq(err.message, "outer: a reason (inner)");
}
END_TEST

START_TEST(a_message_is_one_line_a_terminal_can_show)
{
    struct kvt_error err;
    (void)kvt_fail(&err, KVT_ERR_PARSE, "a\nb", "key \"%s\"",
                   "\x1b[31mred\r\n\x7f\xc2\x9b\xff\xc3\xa9");
    ck_assert_str_eq(err.where, "a?b");
    ck_assert_str_eq(err.message, "key \"?[31mred??????\xc3\xa9\"");
}
END_TEST

START_TEST(what_does_not_fit_is_cut_between_characters)
{
    char longest[2000];
    for (size_t i = 0; i + 2 < sizeof longest; i += 2)
        memcpy(longest + i, "\xc3\xa9", 3);
    struct kvt_error err;
    (void)kvt_fail(&err, KVT_ERR_PARSE, longest, "x%s", longest);
    ck_assert_uint_eq(strlen(err.where), sizeof err.where - 1);
    ck_assert_uint_eq(strlen(err.message), sizeof err.message - 1);
    ck_assert_int_eq(err.where[sizeof err.where - 2], '?');
    ck_assert_int_eq((unsigned char)err.message[sizeof err.message - 2], 0xa9);
}
END_TEST

START_TEST(short_memory_names_what_it_was_for)
{
    struct kvt_error err;
    ck_assert_int_eq(kvt_fail_nomem(&err, "the event queue"), KVT_ERR_NOMEM);
    ck_assert_str_eq(err.message, "there is not enough memory for the event queue");
}
END_TEST

START_TEST(every_status_has_a_name_of_its_own)
{
    for (int a = KVT_OK; a <= KVT_ERR_SYSTEM; a++) {
        const char *name = kvt_status_name((kvt_status)a);
        ck_assert(strncmp(name, "KVT_", 4) == 0);
        ck_assert_str_ne(name, "KVT_ERR_UNKNOWN");
        for (int b = KVT_OK; b < a; b++)
            ck_assert_str_ne(name, kvt_status_name((kvt_status)b));
    }
    ck_assert_str_eq(kvt_status_name((kvt_status)1000), "KVT_ERR_UNKNOWN");
    ck_assert_str_eq(kvt_status_name(KVT_ERR_PARSE), "KVT_ERR_PARSE");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *words = tcase_create("words");
    tcase_add_test(words, a_failure_carries_status_place_and_sentence);
    tcase_add_test(words, a_caller_who_wants_no_words_passes_null);
    tcase_add_test(words, an_absent_place_is_an_empty_one);
    tcase_add_test(words, a_failure_may_quote_the_error_it_fills);
    tcase_add_test(words, a_message_is_one_line_a_terminal_can_show);
    tcase_add_test(words, what_does_not_fit_is_cut_between_characters);
    tcase_add_test(words, short_memory_names_what_it_was_for);
    tcase_add_test(words, every_status_has_a_name_of_its_own);
    suite_add_tcase(suite, words);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
