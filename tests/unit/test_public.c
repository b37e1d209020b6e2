/* test_public.c -- published measurements: their files, and what is judged of them. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/validate_public.h"
#include "support/written.h"

static struct kvt_arena *arena;

static void make_folder(void)
{
    written_folder_make();
    arena = kvt_arena_new(4096);
    ck_assert_ptr_nonnull(arena);
}

static void remove_folder(void)
{
    kvt_arena_free(arena);
    written_folder_remove();
}

#define HEAD                                                                                       \
    "{\"schema\": \"kvtide/public/1\", \"name\": \"n\", \"summary\": \"s\", \"source\": \"a "      \
    "post\", "                                                                                     \
    "\"unknown\": [\"the pool\"], \"scenario\": \"quickstart\", "
#define POINTS                                                                                     \
    "\"points\": [{\"name\": \"a\", \"sets\": [], \"measured\": {\"output_throughput\": 10}},"     \
    "{\"name\": \"b\", \"sets\": [\"run.duration_s=9\"], \"measured\": {\"output_throughput\": "   \
    "30, "                                                                                         \
    "\"active_mean\": 2}}, {\"name\": \"c\", \"sets\": [], \"measured\": {}}], "
#define CLAIMS(text) HEAD POINTS "\"claims\": [" text "]}"

static struct public_setting *loaded(const char *text)
{
    struct public_setting *setting = NULL;
    struct kvt_error err = {0};

    ck_assert_msg(public_setting_load(written("public.json", text), arena, &setting, &err) ==
                      KVT_OK,
                  "%s: %s", err.where, err.message);
    return setting;
}

START_TEST(a_setting_keeps_what_is_said_of_it)
{
    const struct public_setting *setting = loaded(CLAIMS(
        "{\"kind\": \"ratio\", \"metric\": \"output_throughput\", \"of\": \"b\", \"over\": \"a\", "
        "\"least\": 2, \"says\": \"more\"}"));

    ck_assert_str_eq(setting->scenario, "quickstart");
    ck_assert_uint_eq(setting->point_count, 3);
    ck_assert_str_eq(setting->points[1].sets[0], "run.duration_s=9");
    ck_assert_uint_eq(setting->points[1].value_count, 2);
    ck_assert_double_eq(setting->points[1].values[0].measured, 30);
    ck_assert(isnan(setting->points[1].values[0].ours));
    ck_assert_uint_eq(setting->claims[0].points[0], 1);
    ck_assert_uint_eq(setting->claims[0].points[1], 0);
    ck_assert(isinf(setting->claims[0].most));
    ck_assert_str_eq(setting->unknown[0], "the pool");
}
END_TEST

/* Ours 12 and 27: numbers of 20 % and -10 %, a ratio of 2.25 where 3 was measured. */
START_TEST(orders_and_ratios_are_judged_by_ours_and_numbers_by_both)
{
    struct public_setting *setting = loaded(CLAIMS(
        "{\"kind\": \"number\", \"metric\": \"output_throughput\", \"tolerance\": 0.15},"
        "{\"kind\": \"order\", \"metric\": \"output_throughput\", \"points\": [\"a\", \"b\"], "
        "\"says\": \"up\"},"
        "{\"kind\": \"order\", \"metric\": \"output_throughput\", \"points\": [\"b\", \"a\"], "
        "\"says\": \"down\"},"
        "{\"kind\": \"ratio\", \"metric\": \"output_throughput\", \"of\": \"b\", \"over\": \"a\", "
        "\"least\": 2, \"most\": 2.5, \"says\": \"in\"},"
        "{\"kind\": \"ratio\", \"metric\": \"output_throughput\", \"of\": \"b\", \"over\": \"a\", "
        "\"most\": 2, \"says\": \"out\"}"));
    const struct public_claim *claims = setting->claims;
    setting->points[0].values[0].ours = 12;
    setting->points[1].values[0].ours = 27;

    public_setting_judge(setting);
    ck_assert_uint_eq(claims[0].numbers, 2);
    ck_assert_uint_eq(claims[0].within, 1);
    ck_assert(claims[1].holds);
    ck_assert(!claims[2].holds);
    ck_assert_double_eq(claims[3].measured, 3);
    ck_assert_double_eq(claims[3].ours, 2.25);
    ck_assert(claims[3].holds);
    ck_assert(!claims[4].holds);
}
END_TEST

/* The same, and b was calibrated to: one number is left. */
START_TEST(a_value_that_was_calibrated_to_is_not_counted)
{
    struct public_setting *setting = loaded(
        CLAIMS("{\"kind\": \"number\", \"metric\": \"output_throughput\", \"tolerance\": 0.25}"));
    setting->points[0].values[0].ours = 12;
    setting->points[1].values[0].ours = 30;
    setting->points[1].values[0].is_calibrated = true;

    public_setting_judge(setting);
    ck_assert_uint_eq(setting->claims[0].numbers, 1);
    ck_assert_uint_eq(setting->claims[0].within, 1);
    setting = loaded(HEAD "\"points\": [{\"name\": \"a\", \"sets\": [], \"measured\": {\"x\": 1, "
                          "\"y\": 2}, \"calibrated\": [\"y\"]}], \"claims\": []}");
    ck_assert(!setting->points[0].values[0].is_calibrated);
    ck_assert(setting->points[0].values[1].is_calibrated);
}
END_TEST

START_TEST(what_was_not_run_holds_nothing)
{
    struct public_setting *setting = loaded(CLAIMS(
        "{\"kind\": \"order\", \"metric\": \"output_throughput\", \"points\": [\"a\", \"b\"], "
        "\"says\": \"up\"},"
        "{\"kind\": \"ratio\", \"metric\": \"active_mean\", \"of\": \"b\", \"over\": \"c\", "
        "\"least\": 0, \"most\": 9, \"says\": \"any\"}"));

    public_setting_judge(setting);
    ck_assert(!setting->claims[0].holds);
    ck_assert(!setting->claims[1].holds);
}
END_TEST

static const struct {
    const char *text, *where, *words;
} refused[] = {
    {"{}", "#/schema", "missing"},
    {HEAD "\"points\": []}", "#/claims", "missing"},
    {HEAD "\"points\": [], \"claims\": [], \"notes\": 1}", "#/notes", "no such key"},
    {HEAD "\"points\": [{\"name\": \"a\", \"sets\": [1], \"measured\": {}}], \"claims\": []}",
     "#/points/0", "sets/0"},
    {HEAD
     "\"points\": [{\"name\": \"a\", \"sets\": [], \"measured\": {\"x\": -1}}], \"claims\": []}",
     "#/points/0/x", "-1"},
    {HEAD "\"points\": [{\"name\": \"a\", \"sets\": [], \"measured\": {\"x\": 1}, \"calibrated\": "
          "[\"z\"]}], \"claims\": []}",
     "#/points/0", "calibrated \"z\": no such metric"},
    {"{\"schema\": \"kvtide/public/1\", \"name\": \"n\", \"summary\": \"s\", \"source\": \"p\", "
     "\"unknown\": [], " POINTS "\"claims\": []}",
     "#", "scenario is missing"},
    {CLAIMS("{\"kind\": \"guess\", \"metric\": \"m\"}"), "#/claims/0", "there are: number order"},
    {CLAIMS("{\"kind\": \"number\", \"metric\": \"m\", \"tolerance\": 1, \"says\": \"x\"}"),
     "#/claims/0/says", "no such key"},
    {CLAIMS("{\"kind\": \"order\", \"metric\": \"m\", \"says\": \"x\", \"points\": [\"a\"]}"),
     "#/claims/0", "at least 2"},
    {CLAIMS(
         "{\"kind\": \"order\", \"metric\": \"m\", \"says\": \"x\", \"points\": [\"a\", \"z\"]}"),
     "#/claims/0", "\"z\": no such point"},
    {CLAIMS("{\"kind\": \"ratio\", \"metric\": \"m\", \"says\": \"x\", \"of\": \"a\", \"over\": "
            "\"b\"}"),
     "#/claims/0", "a ratio without a bound"},
};

START_TEST(a_file_is_read_strictly)
{
    struct public_setting *setting = NULL;
    struct kvt_error err = {0};
    const char *path = written("public.json", refused[_i].text);
    char where[SUPPORT_PATH_BYTES + 32];

    ck_assert_int_ne(public_setting_load(path, arena, &setting, &err), KVT_OK);
    ck_assert_ptr_null(setting);
    (void)snprintf(where, sizeof where, "%s%s", path, refused[_i].where);
    ck_assert_msg(strncmp(err.where, where, strlen(where)) == 0, "%s: %s", err.where, err.message);
    ck_assert_msg(strstr(err.message, refused[_i].words) != NULL, "%s: %s", err.where, err.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("public");
    TCase *settings = tcase_create("settings");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(settings, make_folder, remove_folder);
    tcase_add_test(settings, a_setting_keeps_what_is_said_of_it);
    tcase_add_test(settings, orders_and_ratios_are_judged_by_ours_and_numbers_by_both);
    tcase_add_test(settings, a_value_that_was_calibrated_to_is_not_counted);
    tcase_add_test(settings, what_was_not_run_holds_nothing);
    tcase_add_loop_test(settings, a_file_is_read_strictly, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, settings);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
