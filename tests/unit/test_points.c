/* test_points.c -- files of points that are refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/points.h"
#include "support/support.h"

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

#define HEAD                                                                                       \
    "{\"schema\": \"kvtide/points/1\", \"grid\": \"g\", \"model\": \"m\", \"hardware\": \"h\", "   \
    "\"tp\": 1, \"ep\": 1, \"runs_drafts\": false, \"machine\": null, "
#define RUN                                                                                        \
    "\"configurations\": [{\"name\": \"a\", \"sets\": \"\", \"fetch_order\": \"group\", "          \
    "\"gather\": false, \"ranked\": false}], "
#define COLUMNS "\"columns\": [\"configuration\", \"steps\", \"apart\", \"step_ns\", \"spread\"], "
#define WITH(column)                                                                               \
    "\"columns\": [\"configuration\", \"steps\", \"apart\", \"step_ns\", \"spread\", \"" column    \
    "\"], "
#define NAME_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
static const struct {
    const char *text, *says;
} refused[] = {
    {"{\"schema\": \"kvtide/grid/1\"}", "\"kvtide/points/1\""},
    {HEAD "\"configurations\": [], " COLUMNS "\"rows\": []}", "0 configurations"},
    {HEAD "\"configurations\": [{\"name\": \"a\", \"sets\": \"\", \"fetch_order\": \"both\", "
          "\"gather\": false, \"ranked\": false}], " COLUMNS "\"rows\": []}",
     "\"both\""},
    {HEAD RUN "\"columns\": [\"configuration\"], \"rows\": []}", "\"steps\" is missing"},
    {HEAD RUN "\"columns\": [\"fetch_us\"], \"rows\": []}", "\"fetch_us\""},
    {HEAD RUN "\"columns\": [\"steps\", \"steps\"], \"rows\": []}", "there twice"},
    {HEAD RUN COLUMNS "\"rows\": []}", "rows: found none"},
    {HEAD RUN COLUMNS "\"rows\": [[1, 4, 0, 5e6, 0]]}", "configuration: found 1;"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4.5, 0, 5e6, 0]]}", "steps: found 4.5;"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 0, 0, 5e6, 0]]}", "steps: found 0; a whole number from 1"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 2, 5e6, 0]]}", "apart: found 2;"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, -5e6, 0]]}", "step_ns: found -5000000;"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, 5e6]]}", "4 cells; an array of 5"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, 5e6, 0, 0]]}", "6 cells; an array of 5"},
    {HEAD RUN COLUMNS "\"rows\": [5]}", "0 cells; an array of 5"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, 0, 0]]}", "step_ns: found 0;"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, null, 0]]}", "step_ns: no number"},
    {HEAD RUN WITH("fetch_ns") "\"rows\": [[0, 4, 1, 5e6, 0, 5e6]]}", "found 5000000, and no wire"},
    {HEAD RUN WITH("draft_ns") "\"rows\": [[0, 4, 1, 5e6, 0, 5e6]]}", "and no draft_tokens"},
    {HEAD RUN WITH("wire_bytes") "\"rows\": [[0, 4, 1, 5e6, 0, 1]]}", "\"missed_rows\" is missing"},
    {HEAD RUN WITH("node_bytes") "\"rows\": [[0, 4, 1, 5e6, 0, 1e18]]}", "node_bytes: found 1e+18"},
    {HEAD RUN WITH("gathering_gpus") "\"rows\": [[0, 4, 1, 5e6, 0, 1.5]]}",
     "gathering_gpus: found 1.5;"},
    {HEAD RUN WITH("gathering_gpus") "\"rows\": [[0, 4, 1, 5e6, 0, 65]]}", "from 0 to 64"},
    {HEAD RUN WITH("granule_blocks") "\"rows\": [[0, 4, 1, 5e6, 0, 1]]}", "at most granules, 0"},
    {HEAD RUN COLUMNS "\"rows\": [[0, 4, 0, 5e6, 0]]}", "step: found 0; 1 is expected"},
    {"{\"schema\": \"kvtide/points/1\", \"grid\": \"g\", \"model\": \"" NAME_64 "\", "
     "\"hardware\": \"h\", \"tp\": 1, \"ep\": 1, \"runs_drafts\": false, \"machine\": null, " RUN
         COLUMNS "\"rows\": [[0, 4, 0, 5e6, 0]]}",
     "model: found a name of 64 bytes; at most 63"},
    {HEAD RUN COLUMNS "\"rows\": [], \"more\": 1}", "more"},
};

START_TEST(points_that_are_none_are_refused_with_their_place)
{
    struct points points = {.items = NULL};
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_error err = {0};
    FILE *file = fopen(path, "w");

    fputs(refused[_i].text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_ne(points_load(path, arena, &points, &err), KVT_OK);
    ck_assert_msg(strstr(err.message, refused[_i].says) || strstr(err.where, refused[_i].says),
                  "%s: %s", err.where, err.message);
    points_free(&points);
    kvt_arena_free(arena);
}
END_TEST

static void make_folder(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "points.json", path);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

int main(void)
{
    Suite *suite = suite_create("points");
    TCase *files = tcase_create("files");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_loop_test(files, points_that_are_none_are_refused_with_their_place, 0,
                        sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, files);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
