/* test_report_page.c -- pages of a report: numbers as people read them, JSON by templates and back,
 * what a page holds, and bins of a course. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/course.h"
#include "cli/report/page_tree.h"
#include "cli/report/spread.h"
#include "cli/report/template.h"
#include "kvt/json.h"

static const struct {
    double value;
    const char *text;
} numbers[] = {
    {0, "0"},
    {1, "1"},
    {-1, "-1"},
    {2.385, "2.385"},
    {0.5, "0.5"},
    {12.346, "12.35"},
    {123.44, "123.4"},
    {999.96, "1,000"},
    {1234.5, "1,234"},
    {1e6, "1,000,000"},
    {-54321.5, "-54,322"},
    {0.012346, "0.01235"},
    {0.00012, "0.00012"},
    {1.5e-7, "1.5e-07"},
    {1e15, "1e+15"},
    {97272797868.0, "97,272,797,868"},
};

START_TEST(a_number_has_four_figures_and_commas)
{
    char out[REPORT_NUMBER_BYTES];
    cJSON *item = cJSON_CreateNumber(numbers[_i].value);

    report_number_text(item, out);
    ck_assert_str_eq(out, numbers[_i].text);
    cJSON_Delete(item);
}
END_TEST

START_TEST(what_is_no_number_is_a_dash)
{
    char out[REPORT_NUMBER_BYTES];

    report_number_text(NULL, out);
    ck_assert_str_eq(out, "-");
    cJSON *item = cJSON_CreateNull();
    report_number_text(item, out);
    ck_assert_str_eq(out, "-");
    cJSON_Delete(item);
}
END_TEST

/* What is printed of a tree; the caller's. */
static char *printed(const cJSON *tree)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(stream);
    report_json_print(tree, stream);
    ck_assert_int_eq(fclose(stream), 0);
    return text;
}

START_TEST(a_template_takes_texts_numbers_and_trees)
{
    cJSON *tree = report_json("{'a': %s, 'b': [%g, %g, %b, %s], 'c': %j, 'd': '5 %%'}", "x<'\"\n\\",
                              0.1 + 0.2, (double)NAN, 1, NULL, report_json("{'e': []}"));
    char *text = printed(tree);

    ck_assert_str_eq(text,
                     "{\"a\":\"x\\u003c'\\\"\\u000a\\\\\",\"b\":[0.30000000000000004,null,true,"
                     "null],\"c\":{\"e\":[]},\"d\":\"5 %\"}");
    free(text);
    cJSON_Delete(tree);
    ck_assert_ptr_null(report_json("{'a': %j}", NULL));
}
END_TEST

START_TEST(charts_and_tables_are_in_the_section_under_way)
{
    const struct report_chart chart = {.id = "one",
                                       .title = "One",
                                       .form = REPORT_LINES,
                                       .x = {.name = "x", .title = "x"},
                                       .y = {.name = "y", .title = "y"},
                                       .series = "of"};
    const struct report_column column = {"n", "n", false};
    struct report_page *page = report_page_new("test", "Title");

    report_section(page, "First", NULL);
    report_chart(page, &chart); /* without points: left out */
    report_section(page, "Second", "note");
    report_chart(page, &chart);
    report_point(page, (struct report_point){.series = "a", .x = 1, .y = (double)NAN});
    report_point(page, (struct report_point){.series = "b", .x = 2.385, .y = 3});
    report_table(page, "two", REPORT_MAIN, NULL, &column, 1);
    report_row(page);
    report_cell(page, 7);
    const cJSON *tree = report_page_finish(page), *sections = kvt_json_find(tree, "sections");
    ck_assert_ptr_nonnull(tree);
    ck_assert_int_eq(cJSON_GetArraySize(sections), 2);
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(cJSON_GetArrayItem(sections, 0), "blocks")),
                     0);
    const cJSON *blocks = kvt_json_find(cJSON_GetArrayItem(sections, 1), "blocks");
    ck_assert_int_eq(cJSON_GetArraySize(blocks), 2);
    char *rows = printed(kvt_json_find(cJSON_GetArrayItem(blocks, 0), "rows"));
    ck_assert_str_eq(rows, "[[\"a\",1,null],[\"b\",2.385,3]]");
    free(rows);
    ck_assert_ptr_nonnull(kvt_json_find(cJSON_GetArrayItem(blocks, 0), "spec"));
    ck_assert_str_eq(report_text(report_main_table(tree), "id"), "two");
    report_page_free(page);
}
END_TEST

START_TEST(a_name_of_a_file_leads_nowhere_else)
{
    ck_assert(report_is_file_name("step-parts.2_x"));
    ck_assert(!report_is_file_name(""));
    ck_assert(!report_is_file_name(".."));
    ck_assert(!report_is_file_name("a/b"));
    ck_assert(!report_is_file_name("a b"));
}
END_TEST

/* ---- Bins and spreads ------------------------------------------------------------------------ */

static const char head[] =
    "from_s,to_s,arrived,running_mean,waiting_mean,importing_mean,allocated_slots_mean,"
    "host_fetch_share,coverage,followed_selected_rows,output_tokens,h2d_wire_bytes,fill_bytes,"
    "d2h_bytes,import_bytes,preemptions,decode_steps,mean_step_ms,hbm_kv_peak_bytes,"
    "host_peak_bytes\n";

/* The course of 601 rows, one more than there are bins: the first two are joined. */
START_TEST(joined_rows_are_weighed_by_what_they_are_means_of)
{
    char path[] = "/tmp/kvt-course-XXXXXX";
    int handle = mkstemp(path);
    FILE *file = handle >= 0 ? fdopen(handle, "w") : NULL;
    struct course *course = malloc(sizeof *course);
    struct kvt_error err;

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(course);
    fputs(head, file);
    fputs("0,3,0,10,0,0,0,0.5,,100,30,0,0,0,0,0,1,40,7,1\n", file);
    fputs("3,4,0,2,0,0,0,0.1,0.25,300,10,0,0,0,0,0,3,20,9,1\n", file);
    for (int i = 2; i < COURSE_BINS_MAX + 1; i++)
        fprintf(file, "%d,%d,0,1,0,0,0,,,0,1,0,0,0,0,0,0,,1,1\n", i + 2, i + 3);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(course_load(path, course, &err), KVT_OK);
    ck_assert_uint_eq(course->rows_per_bin, 2);
    ck_assert_uint_eq(course->bin_count, COURSE_BINS_MAX / 2 + 1);
    const double *bin = course->bins[0];
    ck_assert_double_eq(bin[COURSE_FROM_S], 0);
    ck_assert_double_eq(bin[COURSE_TO_S], 4);
    ck_assert_double_eq(bin[COURSE_DECODING], 8);                      /* (3 x 10 + 1 x 2) / 4 s */
    ck_assert_double_eq_tol(bin[COURSE_HOST_FETCH_SHARE], 0.2, 1e-12); /* 50 + 30 of 400 */
    ck_assert_double_eq(bin[COURSE_COVERAGE], 0.25);                   /* the first has none */
    ck_assert_double_eq(bin[COURSE_OUTPUT_TOKENS], 40);
    ck_assert_double_eq(bin[COURSE_STEP_MS], 25); /* (1 x 40 + 3 x 20) / 4 steps */
    ck_assert_double_eq(bin[COURSE_HBM_PEAK_BYTES], 9);
    ck_assert_double_nan(course->bins[1][COURSE_STEP_MS]);
    free(course);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(a_spread_goes_from_the_least_to_the_largest)
{
    double values[] = {3, 1, 2, 10};
    struct spread spread;

    spread_of(values, 4, &spread);
    ck_assert_uint_eq(spread.count, 4);
    ck_assert_double_eq(spread.values[0], 1);
    ck_assert_double_eq(spread.values[3], 10);
    ck_assert_double_eq(spread.shares[3], 1);
    spread_of(values, 0, &spread);
    ck_assert_uint_eq(spread.count, 0);
    double many[1001];
    for (int i = 0; i <= 1000; i++)
        many[i] = 1000 - i;
    spread_of(many, 1001, &spread);
    ck_assert_uint_eq(spread.count, SPREAD_POINTS);
    ck_assert_double_eq_tol(spread.values[100], 500, 1e-9); /* half of them are at most that */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report_page");
    TCase *cases = tcase_create("page");

    tcase_add_loop_test(cases, a_number_has_four_figures_and_commas, 0,
                        sizeof numbers / sizeof numbers[0]);
    tcase_add_test(cases, what_is_no_number_is_a_dash);
    tcase_add_test(cases, a_template_takes_texts_numbers_and_trees);
    tcase_add_test(cases, charts_and_tables_are_in_the_section_under_way);
    tcase_add_test(cases, a_name_of_a_file_leads_nowhere_else);
    tcase_add_test(cases, joined_rows_are_weighed_by_what_they_are_means_of);
    tcase_add_test(cases, a_spread_goes_from_the_least_to_the_largest);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
