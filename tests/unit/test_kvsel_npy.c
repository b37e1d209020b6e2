/* test_kvsel_npy.c -- what an engine returned, as NumPy writes it: converted, or refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/kvsel.h"
#include "support/support.h"

static struct support_folder folder;
static char from[SUPPORT_PATH_BYTES], to[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "a.npy", from);
    (void)support_path(&folder, "a.kvsel", to);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

enum {
    TOKENS = 130,
    LAYERS = 3,
    TOP_K = 8,
    FIRST_ROWS = 5,
};

/* An array of int32, little-endian, behind a literal padded as NumPy pads it. */
static void write_npy(const char *literal, int version, const int32_t *numbers, size_t count)
{
    size_t prefix = version == 1 ? 10 : 12, header = (prefix + strlen(literal) + 64) / 64 * 64;
    unsigned char *bytes = calloc(1, header + 4 * count);
    ck_assert_ptr_nonnull(bytes);
    static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    memcpy(bytes, magic, sizeof magic);
    bytes[6] = (unsigned char)version;
    bytes[8] = (unsigned char)(header - prefix);
    bytes[9] = (unsigned char)((header - prefix) >> 8);
    memset(bytes + prefix, ' ', header - prefix - 1);
    for (size_t i = 0; literal[i] != '\0'; i++)
        bytes[prefix + i] = (unsigned char)literal[i];
    bytes[header - 1] = '\n';
    for (size_t i = 0; i < count; i++) {
        for (size_t b = 0; b < 4; b++)
            bytes[header + 4 * i + b] = (unsigned char)((uint32_t)numbers[i] >> 8 * b);
    }
    support_write(from, bytes, header + 4 * count);
    free(bytes);
}

/* Layer 1 is silent; the others select the newest rows, best first, and -1 while there are
 * fewer than k. */
static void fill(int32_t numbers[TOKENS][LAYERS][TOP_K])
{
    for (int t = 0; t < TOKENS; t++) {
        for (int layer = 0; layer < LAYERS; layer++) {
            for (int i = 0; i < TOP_K; i++) {
                int visible = FIRST_ROWS + t, step = layer == 2 && visible > 2 * TOP_K ? 2 : 1;
                int row = visible - 1 - i * step;
                numbers[t][layer][i] = layer == 1 || i >= visible ? -1 : row;
            }
        }
    }
}

#define SHAPE "(130, 3, 8)"
static const char literal[] = "{'descr': '<i4', 'fortran_order': False, 'shape': " SHAPE ", }";

static int32_t numbers[TOKENS][LAYERS][TOP_K];
enum {
    NUMBERS = TOKENS * LAYERS * TOP_K
};

START_TEST(an_array_becomes_a_stream_for_each_layer_that_selects)
{
    for (int version = 1; version <= 3; version++) {
        fill(numbers);
        write_npy(literal, version, &numbers[0][0][0], NUMBERS);
        struct kvt_kvsel_npy found;
        struct kvt_error err;
        ck_assert_msg(kvt_kvsel_from_npy(from, to, 0, &found, &err) == KVT_OK, "%s", err.message);
        ck_assert_uint_eq(found.tokens, TOKENS);
        ck_assert_uint_eq(found.top_k, TOP_K);
        ck_assert_uint_eq(found.silent_layers, 1);
        ck_assert_uint_eq(found.first_rows, FIRST_ROWS);
        struct kvt_kvsel *file = NULL;
        ck_assert_int_eq(kvt_kvsel_load(to, true, &file, NULL), KVT_OK);
        ck_assert_uint_eq(kvt_kvsel_header_of(file)->selector_count, 2);
        for (uint32_t s = 0; s < 2; s++) {
            const struct kvt_kvsel_stream *stream = kvt_kvsel_stream_of(file, 0, s);
            ck_assert_uint_eq(stream->token_count, TOKENS);
            struct kvt_kvsel_map map = {.old_rows = FIRST_ROWS, .stream_rows = FIRST_ROWS};
            for (uint32_t t = 0; t < TOKENS; t++) {
                uint64_t set[3], *sets[] = {set}, expected[3] = {0};
                struct kvt_kvsel_place place = {.token = t};
                kvt_kvsel_read(stream, &place, 1, &map, sets, 3);
                for (int i = 0; i < TOP_K; i++) {
                    uint32_t row = (uint32_t)numbers[t][2 * s][i];
                    if (numbers[t][2 * s][i] >= 0)
                        kvt_row_set_add(expected, &row, 1);
                }
                ck_assert_mem_eq(set, expected, sizeof set);
            }
        }
        kvt_kvsel_free(file);
    }
}
END_TEST

START_TEST(the_context_is_as_told_or_the_fewest_rows_that_fit)
{
    /* No padding: the newest row of the last 100 tokens is what is known. */
    fill(numbers);
    write_npy("{'descr': '<i4', 'fortran_order': False, 'shape': (100, 3, 8), }", 1,
              &numbers[30][0][0], 100 * LAYERS * TOP_K);
    struct kvt_kvsel_npy found;
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, 0, &found, NULL), KVT_OK);
    ck_assert_uint_eq(found.first_rows, FIRST_ROWS + 30);
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, 90, &found, NULL), KVT_OK);
    ck_assert_uint_eq(found.first_rows, 90);
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, 20, &found, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "token 0, layer 0: row 34; it sees 20 rows");
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, UINT32_MAX, &found, &err), KVT_ERR_INVALID);
}
END_TEST

static void check_refused(kvt_status status, const char *says)
{
    (void)remove(to);
    size_t before = support_folder_entries(folder.path);
    struct kvt_kvsel_npy found;
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, 0, &found, &err), status);
    ck_assert_msg(strstr(err.message, says) != NULL, "%s", err.message);
    ck_assert_str_eq(err.where, from);
    ck_assert_uint_eq(support_folder_entries(folder.path), before);
}

START_TEST(headers_that_numpy_would_not_write_for_this_are_refused)
{
    static const struct {
        const char *literal, *says;
    } bad[] = {
        {"", "the header is not"},
        {"{}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, }", "the header is not"},
        {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': " SHAPE ", }",
         "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': " SHAPE ", 'x': 1}",
         "the header is not"},
        {"{'descr': '<i4' 'fortran_order': False, 'shape': " SHAPE "}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': " SHAPE ", } x", "the header is not"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': " SHAPE ", }",
         "type '<i8'; int32, little-endian ('<i4'), is"},
        {"{'descr': '>i4', 'fortran_order': False, 'shape': " SHAPE ", }", "type '>i4'; int32"},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': " SHAPE ", }",
         "fortran_order True; C order (False)"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3120,), }",
         "shape (3120,); (tokens, layers, k)"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 130, 3, 8), }",
         "shape (1, 130, 3, 8); (tokens, layers, k)"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-130, 3, 8), }",
         "shape (-130, 3, 8); (tokens"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (130, 3, 99999999999), }",
         "99999999999 rows a selection; 1 to"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (0, 3, 8), }", "0 tokens"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (130, 0, 8), }", "0 layers"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (130, 3, 0), }", "0 rows a selection"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (130, 3, 4294967295), }",
         "4294967295 rows a selection"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (131, 3, 8), }", "the header promises"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (129, 3, 8), }", "the header promises"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1073741824, 1048576, 1073741824), }",
         "the header promises"},
    };
    fill(numbers);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_npy(bad[i].literal, 1, &numbers[0][0][0], NUMBERS);
        check_refused(KVT_ERR_PARSE, bad[i].says);
    }
}
END_TEST

START_TEST(files_that_were_cut_or_are_of_another_kind_are_refused)
{
    fill(numbers);
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    size_t count = 0;
    char *bytes = support_read(from, &count);
    for (size_t cut = 0; cut < count; cut += cut < 140 ? 1 : 997) {
        support_write(from, bytes, cut);
        check_refused(KVT_ERR_PARSE, "");
    }
    bytes[6] = 4;
    support_write(from, bytes, count);
    check_refused(KVT_ERR_PARSE, "version 4.0");
    bytes[6] = 3; /* its length has four bytes: these are far too many */
    support_write(from, bytes, count);
    check_refused(KVT_ERR_PARSE, "a header of");
    free(bytes);
    (void)remove(from);
    check_refused(KVT_ERR_NOT_FOUND, "cannot be opened");
}
END_TEST

START_TEST(rows_that_no_query_can_select_are_refused)
{
    static const struct {
        int token, layer, place;
        int32_t row;
        const char *says;
    } bad[] = {
        {0, 0, 0, -2, "token 0, layer 0: row -2; a row or -1"},
        {7, 2, 3, INT32_MIN, "token 7, layer 2: row -2147483648"},
        {7, 2, 3, -1, "token 7, layer 2: 7 rows are selected; of the 12 that it sees 8"},
        {1, 2, 0, 4, "token 1, layer 2: row 4 is selected twice"},
        {9, 0, 0, 400,
         "token 9, layer 0: row 400, and no other number asks for a history of more "
         "than 5 rows"},
        {0, 0, 0, INT32_MAX, "token 0, layer 0: row 2147483647, and no other"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fill(numbers);
        numbers[bad[i].token][bad[i].layer][bad[i].place] = bad[i].row;
        write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
        check_refused(KVT_ERR_PARSE, bad[i].says);
    }
    memset(numbers, 0xff, sizeof numbers);
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    check_refused(KVT_ERR_PARSE, "no layer selects anything");
}
END_TEST

/* Two of them are no slip: then as many rows must be visible. */
START_TEST(a_long_context_takes_two_rows_that_ask_for_it)
{
    struct kvt_kvsel_npy found;
    struct kvt_error err;

    fill(numbers);
    numbers[9][0][0] = 400;
    numbers[10][2][0] = 400;
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    check_refused(KVT_ERR_PARSE, "token 0, layer 0: 5 rows are selected; of the 392 that it sees");
    numbers[9][0][0] = INT32_MAX;
    numbers[9][0][1] = INT32_MAX - 1;
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    check_refused(KVT_ERR_PARSE, "at place 2147483638 of the first token's history");
    /* Told, it is the row that is out of place. */
    ck_assert_int_eq(kvt_kvsel_from_npy(from, to, FIRST_ROWS, &found, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "token 9, layer 0: row 2147483647; it sees 14 rows");
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_said)
{
    fill(numbers);
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    struct kvt_kvsel_npy found;
    struct kvt_error err;
    char nowhere[SUPPORT_PATH_BYTES];
    (void)support_path(&folder, "none/a.kvsel", nowhere);
    ck_assert_int_eq(kvt_kvsel_from_npy(from, nowhere, 0, &found, &err), KVT_ERR_SYSTEM);
    ck_assert_str_eq(err.where, nowhere);
    ck_assert_int_eq(kvt_kvsel_from_npy(from, "/dev/full", 0, &found, &err), KVT_ERR_SYSTEM);
}
END_TEST

START_TEST(failed_allocations_leave_nothing)
{
    if (!support_can_fail_allocations())
        return;
    fill(numbers);
    write_npy(literal, 1, &numbers[0][0][0], NUMBERS);
    for (uint64_t nth = 0;; nth++) {
        struct kvt_kvsel_npy found;
        struct kvt_error err;
        support_fail_allocation(nth);
        kvt_status status = kvt_kvsel_from_npy(from, to, 0, &found, &err);
        if (!support_allocation_failed()) {
            ck_assert_int_eq(status, KVT_OK);
            break;
        }
        ck_assert(status != KVT_OK || support_folder_entries(folder.path) == 2);
        if (status != KVT_OK)
            ck_assert_uint_eq(support_folder_entries(folder.path), 1);
        (void)remove(to);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kvsel_npy");
    TCase *npy = tcase_create("npy");
    tcase_set_timeout(npy, 60);
    tcase_add_checked_fixture(npy, folder_make, folder_remove);
    tcase_add_test(npy, an_array_becomes_a_stream_for_each_layer_that_selects);
    tcase_add_test(npy, the_context_is_as_told_or_the_fewest_rows_that_fit);
    tcase_add_test(npy, headers_that_numpy_would_not_write_for_this_are_refused);
    tcase_add_test(npy, files_that_were_cut_or_are_of_another_kind_are_refused);
    tcase_add_test(npy, rows_that_no_query_can_select_are_refused);
    tcase_add_test(npy, a_long_context_takes_two_rows_that_ask_for_it);
    tcase_add_test(npy, a_file_that_cannot_be_written_is_said);
    tcase_add_test(npy, failed_allocations_leave_nothing);
    suite_add_tcase(suite, npy);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
