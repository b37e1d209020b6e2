/* test_row_set.c -- sets of rows, against a plain array of flags. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/rng.h"
#include "kvt/row_set.h"

enum {
    ROWS = 1000,
    WORDS = (ROWS + 63) / 64,
    PAGES = WORDS * 64,
    GUARD = 0x5a
};

/* A random set in both forms; about one row in `sparseness`. */
static uint32_t draw_set(struct kvt_rng *rng, uint32_t sparseness, bool flags[ROWS],
                         uint64_t set[WORDS])
{
    uint32_t count = 0;

    memset(set, 0, WORDS * sizeof *set);
    for (uint32_t row = 0; row < ROWS; row++) {
        flags[row] = kvt_rng_below(rng, sparseness) == 0;
        if (flags[row])
            kvt_row_set_add(set, &row, 1);
        count += flags[row];
    }
    return count;
}

START_TEST(words_cover_all_rows_and_no_more)
{
    static const struct {
        uint32_t rows;
        size_t words;
    } cases[] = {{0, 0},
                 {1, 1},
                 {63, 1},
                 {64, 1},
                 {65, 2},
                 {128, 2},
                 {100032, 1563},
                 {100033, 1564},
                 {129, 3},
                 {1000, 16},
                 {UINT32_MAX, (size_t)1 << 26}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_uint_eq(kvt_row_words(cases[i].rows), cases[i].words);
}
END_TEST

START_TEST(a_set_holds_what_was_added_and_nothing_else)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 0);
    bool flags[ROWS];
    uint64_t set[WORDS];

    (void)draw_set(&rng, 1u << _i, flags, set);
    for (uint32_t row = 0; row < ROWS; row++)
        ck_assert(kvt_row_is_in(set, row) == flags[row]);
    ck_assert_uint_eq(set[WORDS - 1] >> ROWS % 64, 0);
}
END_TEST

START_TEST(rows_are_added_in_any_order_and_twice)
{
    static const uint32_t rows[] = {64, 3, 63, 3, 999, 0};
    uint64_t set[WORDS] = {0}, expected[WORDS] = {0};

    expected[0] = UINT64_C(0x8000000000000009);
    expected[1] = 1;
    expected[999 / 64] = UINT64_C(1) << 999 % 64;
    kvt_row_set_add(set, rows, sizeof rows / sizeof rows[0]);
    ck_assert_mem_eq(set, expected, sizeof set);
    kvt_row_set_add(set, NULL, 0);
    ck_assert_mem_eq(set, expected, sizeof set);
}
END_TEST

START_TEST(a_count_is_the_number_of_rows)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 1);
    bool flags[ROWS];
    uint64_t set[WORDS];
    uint32_t count = draw_set(&rng, 1u << _i, flags, set), first_words = 0;

    ck_assert_uint_eq(kvt_row_set_count(set, WORDS), count);
    for (uint32_t row = 0; row < 3 * 64; row++)
        first_words += flags[row];
    ck_assert_uint_eq(kvt_row_set_count(set, 3), first_words);
    ck_assert_uint_eq(kvt_row_set_count(set, 0), 0);
}
END_TEST

START_TEST(a_list_is_the_rows_ascending)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 2);
    bool flags[ROWS];
    uint64_t set[WORDS];
    uint32_t rows[ROWS + 1], count = draw_set(&rng, 1u << _i, flags, set), at = 0;

    memset(rows, GUARD, sizeof rows);
    ck_assert_uint_eq(kvt_row_set_list(set, WORDS, rows), count);
    for (uint32_t row = 0; row < ROWS; row++) {
        if (flags[row])
            ck_assert_uint_eq(rows[at++], row);
    }
    ck_assert_uint_eq(rows[count], UINT32_C(0x5a5a5a5a)); /* nothing is written past it */
}
END_TEST

/* rows_per_page 1 << _i: a history of that many tokens a page, KVT_PAGE_ROWS / ratio. */
START_TEST(a_row_is_there_when_its_page_is)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 3);
    const uint32_t rows_per_page = 1u << _i;
    uint64_t pages[PAGES / 64], rows[WORDS + 1];

    for (size_t w = 0; w < PAGES / 64; w++) {
        pages[w] = kvt_rng_u64(&rng);
        pages[w] &= kvt_rng_u64(&rng); /* a quarter of the pages */
    }
    for (uint32_t page_count = 0; page_count <= ROWS / rows_per_page + 2; page_count += 3) {
        memset(rows, GUARD, sizeof rows);
        kvt_row_set_of_pages(pages, page_count, rows_per_page, rows, WORDS);
        for (uint32_t row = 0; row < WORDS * 64; row++) {
            uint32_t page = row / rows_per_page;
            bool expected = page < page_count && (pages[page / 64] >> page % 64 & 1) != 0;
            if (kvt_row_is_in(rows, row) != expected)
                ck_abort_msg("row %u of %u pages of %u rows", row, page_count, rows_per_page);
        }
        ck_assert_uint_eq(rows[WORDS], UINT64_C(0x5a5a5a5a5a5a5a5a));
    }
}
END_TEST

static Suite *row_set_suite(void)
{
    Suite *suite = suite_create("row_set");
    TCase *sets = tcase_create("sets");
    TCase *pages = tcase_create("pages");

    tcase_add_test(sets, words_cover_all_rows_and_no_more);
    tcase_add_loop_test(sets, a_set_holds_what_was_added_and_nothing_else, 0, 8);
    tcase_add_test(sets, rows_are_added_in_any_order_and_twice);
    tcase_add_loop_test(sets, a_count_is_the_number_of_rows, 0, 8);
    tcase_add_loop_test(sets, a_list_is_the_rows_ascending, 0, 8);
    suite_add_tcase(suite, sets);
    tcase_add_loop_test(pages, a_row_is_there_when_its_page_is, 0, 7);
    suite_add_tcase(suite, pages);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(row_set_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
