/* test_sweep_grid.c -- axes in groups, their product, and files of points. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep/sweep_grid.h"
#include "support/support.h"

static struct support_folder folder;
static struct kvt_arena *arena;
static char path[SUPPORT_PATH_BYTES];

static void setup(void)
{
    support_folder_make(&folder);
    support_path(&folder, "points.csv", path);
    arena = kvt_arena_new(1 << 12);
}

static void teardown(void)
{
    kvt_arena_free(arena);
    support_folder_remove(&folder);
}

/* "a,b;c,d": values of a point with commas, points with semicolons; "-" where there is none. */
static void spell(const struct sweep_grid *grid, char *out, size_t bytes)
{
    size_t used = 0;

    for (size_t p = 0; p < grid->point_count; p++) {
        for (size_t a = 0; a < grid->axis_count; a++) {
            const char *value = sweep_grid_value(grid, p, a);
            used += (size_t)snprintf(out + used, bytes - used, "%s%s",
                                     a > 0   ? ","
                                     : p > 0 ? ";"
                                             : "",
                                     value != NULL ? value : "-");
        }
    }
}

START_TEST(the_last_group_changes_fastest_and_a_group_goes_as_one)
{
    const char *varied_items[] = {"a=1,2", "b=x,y,z"};
    const char *zip_items[] = {"c=p,q", "d=r,s", NULL};
    const struct cli_texts varied = {varied_items, 2}, zips = {zip_items, 3};
    struct sweep_grid grid, again;
    struct kvt_error err;
    char text[512], copy[512];
    cJSON *axes = NULL;

    support_write(path, "e\n8\n9\n", 6);
    ck_assert_int_eq(sweep_grid_parse(&varied, &zips, path, arena, &grid, &err), KVT_OK);
    ck_assert_uint_eq(grid.point_count, 24);
    spell(&grid, text, sizeof text);
    ck_assert_str_eq(
        text, "8,1,x,p,r;8,1,x,q,s;8,1,y,p,r;8,1,y,q,s;8,1,z,p,r;8,1,z,q,s;8,2,x,p,r;8,2,x,q,s;8,2,"
              "y,p,r;8,2,y,q,s;8,2,z,p,r;8,2,z,q,s;9,1,x,p,r;9,1,x,q,s;9,1,y,p,r;9,1,y,q,s;9,1,z,p,"
              "r;9,1,z,q,s;9,2,x,p,r;9,2,x,q,s;9,2,y,p,r;9,2,y,q,s;9,2,z,p,r;9,2,z,q,s");
    ck_assert_int_eq(sweep_grid_to_json(&grid, &axes, &err), KVT_OK);
    ck_assert_int_eq(sweep_grid_from_json(axes, "x", arena, &again, &err), KVT_OK);
    spell(&again, copy, sizeof copy);
    ck_assert_str_eq(copy, text);
    cJSON_Delete(axes);
}
END_TEST

START_TEST(points_of_a_file_are_its_rows_and_an_empty_cell_leaves_the_key)
{
    const struct cli_texts none = {NULL, 0};
    const char text[] = "\xef\xbb\xbf"
                        "residency,run.x\r\n\"{\"\"policy\"\":\"\"a,b\"\"}\", 2k \r\n,3\r\n";
    struct sweep_grid grid, again;
    struct kvt_error err;
    char spelled[256];
    cJSON *axes = NULL;

    support_write(path, text, sizeof text - 1);
    ck_assert_int_eq(sweep_grid_parse(&none, &none, path, arena, &grid, &err), KVT_OK);
    spell(&grid, spelled, sizeof spelled);
    ck_assert_str_eq(spelled, "{\"policy\":\"a,b\"},2k;-,3");
    ck_assert_int_eq(sweep_grid_to_json(&grid, &axes, &err), KVT_OK);
    ck_assert_int_eq(sweep_grid_from_json(axes, "x", arena, &again, &err), KVT_OK);
    ck_assert_ptr_null(sweep_grid_value(&again, 1, 0));
    cJSON_Delete(axes);
}
END_TEST

static const struct {
    const char *varied[3], *zips[4], *says;
} refused[] = {
    {{NULL}, {NULL}, "nothing varies"},
    {{"a=1", "b=1", "a=2"}, {NULL}, "\"a\" is given by two axes"},
    {{"a=1"}, {"b=1,2", "a=1,2", NULL}, "\"a\" is given by two axes"},
    {{"seed=1,2"}, {NULL}, "--seeds N"},
    {{"a"}, {NULL}, "found \"a\""},
    {{NULL}, {"b=1,2", NULL}, "found \"b=1,2\" alone"},
    {{NULL}, {"b=1,2", "c=1,2,3", NULL}, "b has 2 values and c has 3"},
    {{"a=1:1001:1", "b=1:1000:1"}, {NULL}, "more points than the 1000000"},
};

START_TEST(axes_that_make_no_grid_are_refused)
{
    size_t varied = 0, zips = 0;
    struct sweep_grid grid;
    struct kvt_error err;

    while (varied < 3 && refused[_i].varied[varied] != NULL)
        varied++;
    while (refused[_i].zips[zips] != NULL)
        zips++;
    const struct cli_texts of_varied = {(const char **)refused[_i].varied, varied};
    const struct cli_texts of_zips = {(const char **)refused[_i].zips, zips > 0 ? zips + 1 : 0};
    ck_assert_int_eq(sweep_grid_parse(&of_varied, &of_zips, NULL, arena, &grid, &err),
                     KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, refused[_i].says) != NULL, "%s", err.message);
}
END_TEST

static const struct {
    const char *text;
    size_t bytes;
    const char *where, *says;
} bad_files[] = {
#define FILE_OF(text) (text), sizeof(text) - 1
    {FILE_OF(""), "points.csv", "the file is empty"},
    {FILE_OF("\n\n"), "points.csv", "the file is empty"},
    {FILE_OF("a,b\n"), "points.csv", "no point below the header"},
    {FILE_OF("a,\n1,2\n"), "points.csv:1:2", "found the column \"\""},
    {FILE_OF("a,b c\n1,2\n"), "points.csv:1:2", "found the column \"b c\""},
    {FILE_OF("a,a\n1,2\n"), "points.csv:1:2", "\"a\" is there twice"},
    {FILE_OF("a,b\n1,2\n3\n"), "points.csv:3:1", "found 1 cell; the header has 2"},
    {FILE_OF("a,b\n1,2,3\n"), "points.csv:2:1", "found 3 cells; the header has 2"},
    {FILE_OF("a,b\n1,\"2\n"), "points.csv:2:1", "never closed"},
    {FILE_OF("a,b\n1,2\"3\n"), "points.csv:2", "a quote out of place"},
    {FILE_OF("a\n1\0\n"), "points.csv:2", "NUL"},
};

START_TEST(files_that_hold_no_points_are_refused_with_their_place)
{
    const struct cli_texts none = {NULL, 0};
    struct sweep_grid grid;
    struct kvt_error err;

    support_write(path, bad_files[_i].text, bad_files[_i].bytes);
    ck_assert_int_eq(sweep_grid_parse(&none, &none, path, arena, &grid, &err), KVT_ERR_PARSE);
    ck_assert_msg(strstr(err.where, bad_files[_i].where) != NULL, "%s", err.where);
    ck_assert_msg(strstr(err.message, bad_files[_i].says) != NULL, "%s", err.message);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_named)
{
    const struct cli_texts none = {NULL, 0};
    struct sweep_grid grid;
    struct kvt_error err;

    ck_assert_int_eq(sweep_grid_parse(&none, &none, path, arena, &grid, &err), KVT_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.where, "points.csv"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sweep_grid");
    TCase *grid = tcase_create("grid");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(grid, setup, teardown);
    tcase_add_test(grid, the_last_group_changes_fastest_and_a_group_goes_as_one);
    tcase_add_test(grid, points_of_a_file_are_its_rows_and_an_empty_cell_leaves_the_key);
    tcase_add_loop_test(grid, axes_that_make_no_grid_are_refused, 0,
                        sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(grid, files_that_hold_no_points_are_refused_with_their_place, 0,
                        sizeof bad_files / sizeof bad_files[0]);
    tcase_add_test(grid, a_file_that_is_not_there_is_named);
    suite_add_tcase(suite, grid);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
