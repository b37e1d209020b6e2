/* test_csv.c -- rows of CSV, strictly. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "support/support.h"

#define TEXT(literal) (literal), sizeof(literal) - 1

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void make_folder(void)
{
    support_folder_make(&folder);
    support_path(&folder, "t.csv", path);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

/* The rows as "line:[field][field];", or what went wrong and where. */
static const char *rows_of(const char *bytes, size_t byte_count)
{
    static char all[8192];
    support_write(path, bytes, byte_count);
    struct kvt_csv *csv = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_csv_open(path, &csv, &err), KVT_OK);
    all[0] = '\0';
    size_t used = 0;
    for (;;) {
        char **fields = NULL;
        size_t field_count = 0;
        kvt_status status = kvt_csv_next(csv, &fields, &field_count, &err);
        if (status != KVT_OK) {
            (void)snprintf(all, sizeof all, "%s%s", kvt_status_name(status),
                           err.where + strlen(path));
            /* A reader that has failed stays failed. */
            struct kvt_error again = {0};
            ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, &again), status);
            ck_assert_str_eq(again.where, err.where);
            ck_assert_str_eq(again.message, err.message);
            break;
        }
        if (fields == NULL) {
            ck_assert_uint_eq(field_count, 0);
            ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, &err), KVT_OK);
            ck_assert_ptr_null(fields);
            break;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, "%d:", (int)kvt_csv_line(csv));
        for (size_t i = 0; i < field_count; i++)
            used += (size_t)snprintf(all + used, sizeof all - used, "[%s]", fields[i]);
        used += (size_t)snprintf(all + used, sizeof all - used, ";");
    }
    kvt_csv_close(csv);
    return all;
}

static const struct {
    const char *text;
    size_t text_bytes;
    const char *rows;
} cases_of_text[] = {
    {TEXT(""), ""},
    {TEXT("\n\r\n  \n"), ""},
    {TEXT("\xef\xbb\xbf"), ""},
    {TEXT("a,b\n1,2\n"), "1:[a][b];2:[1][2];"},
    {TEXT("a,b\r\n1,2"), "1:[a][b];2:[1][2];"},
    {TEXT("\xef\xbb\xbf"
          "a,b\r\n"),
     "1:[a][b];"},
    {TEXT("a\n\n\n b \n\n"), "1:[a];4:[b];"},
    {TEXT(",,\n ,\"\",\" \"\na,,\n"), "3:[a][][];"},
    {TEXT(" a\t, b c ,d\n"), "1:[a][b c][d];"},
    {TEXT("\"a,b\",\"say \"\"hi\"\"\",\" c \"\n"), "1:[a,b][say \"hi\"][ c ];"},
    {TEXT("\"two\nlines\",x\ny\n"), "1:[two\nlines][x];3:[y];"},
    {TEXT("\"two\r\n\r\nlines\",x\r\ny\r\n"), "1:[two\n\nlines][x];4:[y];"},
    {TEXT("  \"a\"  ,b\n"), "1:[a][b];"},
    {TEXT("a;b\n"), "1:[a;b];"},
    {TEXT("\xc3\xa9,b\n"), "1:[\xc3\xa9][b];"},
    {TEXT("a,b\n\"never closed,1\n2,3\n"), "KVT_ERR_PARSE:2:1"},
    {TEXT("\""), "KVT_ERR_PARSE:1:1"},
    {TEXT("a,b\nc\"d,e\n"), "KVT_ERR_PARSE:2:2"},
    {TEXT("a,\"b\"c,d\n"), "KVT_ERR_PARSE:1:6"},
    {TEXT("\"b\" \"c\"\n"), "KVT_ERR_PARSE:1:5"},
    {TEXT("a,b\n1,\0\n"), "KVT_ERR_PARSE:2:3"},
    {TEXT("a\rb\n"), "KVT_ERR_PARSE:1:2"},
    {TEXT("\"a\rb\"\n"), "KVT_ERR_PARSE:1:3"},
};

START_TEST(text_becomes_these_rows)
{
    ck_assert_str_eq(rows_of(cases_of_text[_i].text, cases_of_text[_i].text_bytes),
                     cases_of_text[_i].rows);
}
END_TEST

START_TEST(a_misplaced_quote_is_explained)
{
    support_write(path, TEXT("a\"b\n"));
    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_csv_open(path, &csv, &err), KVT_OK);
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "a quote out of place; a field with quotes is quoted as a whole, "
                                  "and each quote inside it is doubled");
    ck_assert_ptr_null(fields);
    kvt_csv_close(csv);
}
END_TEST

START_TEST(fields_longer_than_any_buffer_are_whole)
{
    /* "xxx...x","y" with a field of a few hundred kilobytes. */
    enum {
        BYTES = 300000
    };
    char *text = malloc(BYTES + 16);
    text[0] = '"';
    memset(text + 1, 'x', BYTES);
    memcpy(text + 1 + BYTES, "\",\"y\"\n", 7);
    support_write(path, text, BYTES + 7);
    free(text);
    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0;
    ck_assert_int_eq(kvt_csv_open(path, &csv, NULL), KVT_OK);
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, NULL), KVT_OK);
    ck_assert_uint_eq(field_count, 2);
    ck_assert_uint_eq(strlen(fields[0]), BYTES);
    ck_assert_uint_eq(strspn(fields[0], "x"), BYTES);
    ck_assert_str_eq(fields[1], "y");
    kvt_csv_close(csv);
}
END_TEST

START_TEST(a_row_of_more_than_sixty_four_mebibytes_is_refused)
{
    /* A quote that is never closed, over lines that are each short enough. */
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    char line[1 << 16];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    (void)fputs("a,b\n\"", file);
    for (int i = 0; i < 1025; i++)
        (void)fwrite(line, 1, sizeof line, file);
    ck_assert_int_eq(fclose(file), 0);

    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_csv_open(path, &csv, &err), KVT_OK);
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, &err), KVT_OK);
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.where + strlen(path), ":2:1");
    ck_assert_str_eq(err.message, "a row longer than the 64 MiB that are read");
    kvt_csv_close(csv);
}
END_TEST

START_TEST(a_row_of_65536_fields_is_read_and_of_one_more_refused)
{
    for (size_t extra = 0; extra < 2; extra++) {
        support_write_filled(path, ',', 65535 + extra);
        FILE *file = fopen(path, "ab");
        ck_assert_ptr_nonnull(file);
        (void)fputs("x\n", file);
        ck_assert_int_eq(fclose(file), 0);
        struct kvt_csv *csv = NULL;
        char **fields = NULL;
        size_t field_count = 0;
        ck_assert_int_eq(kvt_csv_open(path, &csv, NULL), KVT_OK);
        kvt_status status = kvt_csv_next(csv, &fields, &field_count, NULL);
        ck_assert_int_eq(status, extra == 0 ? KVT_OK : KVT_ERR_PARSE);
        ck_assert_uint_eq(field_count, extra == 0 ? 65536 : 0);
        if (extra == 0)
            ck_assert_str_eq(fields[65535], "x");
        kvt_csv_close(csv);
    }
}
END_TEST

START_TEST(a_long_file_is_streamed_without_allocating_for_each_row)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    enum {
        ROWS = 100000
    };
    for (int i = 0; i < ROWS; i++)
        (void)fprintf(file, "%d.5,%d,\"%d\"\r\n", i, i * 3, i % 7);
    ck_assert_int_eq(fclose(file), 0);

    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0;
    ck_assert_int_eq(kvt_csv_open(path, &csv, NULL), KVT_OK);
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, NULL), KVT_OK);
    uint64_t before = support_allocations();
    for (int i = 1; i < ROWS; i++) {
        kvt_status status = kvt_csv_next(csv, &fields, &field_count, NULL);
        if (status != KVT_OK || field_count != 3 || atoi(fields[1]) != i * 3 ||
            kvt_csv_line(csv) != (uint64_t)i + 1)
            ck_abort_msg("row %d", i);
    }
    uint64_t during = support_allocations() - before;
    ck_assert_int_eq(kvt_csv_next(csv, &fields, &field_count, NULL), KVT_OK);
    ck_assert_ptr_null(fields);
    kvt_csv_close(csv);
    ck_assert_uint_eq(during, 0);
}
END_TEST

START_TEST(what_cannot_be_read_is_refused)
{
    struct kvt_csv *csv = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_csv_open(path, &csv, &err), KVT_ERR_NOT_FOUND);
    ck_assert_str_eq(err.where, path);
    ck_assert_int_eq(kvt_csv_open(folder.path, &csv, &err), KVT_ERR_IO);
    ck_assert_ptr_null(csv);
    kvt_csv_close(NULL);
}
END_TEST

START_TEST(short_memory_is_reported_and_nothing_leaks)
{
    if (!support_can_fail_allocations())
        return;
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 200; i++)
        (void)fputs("\"a field of some length\",", file);
    (void)fputs("x\n", file);
    ck_assert_int_eq(fclose(file), 0);
    for (uint64_t nth = 0;; nth++) {
        struct kvt_csv *csv = NULL;
        char **fields = NULL;
        size_t field_count = 0;
        support_fail_allocation(nth);
        kvt_status status = kvt_csv_open(path, &csv, NULL);
        if (status == KVT_OK)
            status = kvt_csv_next(csv, &fields, &field_count, NULL);
        bool has_failed = support_allocation_failed();
        /* libcsv tries again with half as much before it gives up. */
        ck_assert(status == KVT_OK || (status == KVT_ERR_NOMEM && has_failed));
        ck_assert_uint_eq(field_count, status == KVT_OK ? 201 : 0);
        kvt_csv_close(csv);
        if (!has_failed)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("csv");
    TCase *cases = tcase_create("rows");
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_set_timeout(cases, 30);
    tcase_add_loop_test(cases, text_becomes_these_rows, 0,
                        (int)(sizeof cases_of_text / sizeof cases_of_text[0]));
    tcase_add_test(cases, a_misplaced_quote_is_explained);
    tcase_add_test(cases, fields_longer_than_any_buffer_are_whole);
    tcase_add_test(cases, a_row_of_more_than_sixty_four_mebibytes_is_refused);
    tcase_add_test(cases, a_row_of_65536_fields_is_read_and_of_one_more_refused);
    tcase_add_test(cases, a_long_file_is_streamed_without_allocating_for_each_row);
    tcase_add_test(cases, what_cannot_be_read_is_refused);
    tcase_add_test(cases, short_memory_is_reported_and_nothing_leaks);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
