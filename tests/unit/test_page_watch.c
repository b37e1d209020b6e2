/* test_page_watch.c -- hits and scores of pages, against sums row by row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/page_watch.h"
#include "kvt/rng.h"
#include "kvt/row_set.h"
#include "support/support.h"

enum {
    PAGES = 37,
    ROWS_MAX = (PAGES + 3) * KVT_PAGE_ROWS /* some past the last page */
};

static struct kvt_page_watch watch;
static struct kvt_error err;

static void open_watch(void)
{
    ck_assert_int_eq(kvt_page_watch_init(&watch, PAGES, true, true, false, &err), KVT_OK);
}

static void close_watch(void)
{
    kvt_page_watch_fini(&watch);
}

static void draw_set(struct kvt_rng *rng, uint64_t *set)
{
    for (size_t w = 0; w < ROWS_MAX / 64; w++) {
        uint64_t one = kvt_rng_u64(rng), other = kvt_rng_u64(rng);
        set[w] = kvt_rng_below(rng, 3) > 0 ? one & other : 0;
    }
}

START_TEST(a_page_is_hit_once_for_each_row_and_query_whatever_the_ratio)
{
    const uint32_t ratio = 1u << _i, rows = ROWS_MAX / ratio;
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 0);
    uint32_t expected[PAGES] = {0};
    uint64_t set[ROWS_MAX / 64];

    for (int query = 0; query < 50; query++) {
        draw_set(&rng, set);
        if (rows % 64 != 0)
            set[rows / 64] &= (UINT64_C(1) << rows % 64) - 1;
        kvt_page_watch_hit(&watch, set, kvt_row_words(rows), KVT_PAGE_ROWS / ratio);
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t page = row * ratio / KVT_PAGE_ROWS;
            if (kvt_row_is_in(set, row) && page < PAGES)
                expected[page]++;
        }
    }
    for (uint32_t page = 0; page < PAGES; page++)
        ck_assert_uint_eq(watch.hits[page], expected[page]);
}
END_TEST

START_TEST(hits_halve_every_64_rounds_and_at_no_other)
{
    const uint64_t set[1] = {0x7f}; /* 7 rows of page 0 */
    uint32_t expected = 0;

    for (uint64_t step = 0; step < 300; step++) {
        kvt_page_watch_begin(&watch, step);
        if (step == 64 || step == 128 || step == 192 || step == 256)
            expected /= 2;
        ck_assert_uint_eq(watch.hits[0], expected);
        kvt_page_watch_hit(&watch, set, 1, KVT_PAGE_ROWS);
        expected += 7;
    }
}
END_TEST

START_TEST(hits_stay_at_their_largest_value)
{
    const uint64_t set[1] = {UINT64_MAX};

    for (int i = 0; i < 1023; i++)
        kvt_page_watch_hit(&watch, set, 1, KVT_PAGE_ROWS);
    ck_assert_uint_eq(watch.hits[0], 65472);
    kvt_page_watch_hit(&watch, (const uint64_t[]){(UINT64_C(1) << 62) - 1}, 1, KVT_PAGE_ROWS);
    ck_assert_uint_eq(watch.hits[0], 65534);
    for (int i = 0; i < 3; i++) {
        kvt_page_watch_hit(&watch, set, 1, KVT_PAGE_ROWS);
        ck_assert_uint_eq(watch.hits[0], UINT16_MAX);
    }
    kvt_page_watch_begin(&watch, 64);
    ck_assert_uint_eq(watch.hits[0], UINT16_MAX / 2);
    ck_assert_uint_eq(watch.hits[1], 0);
}
END_TEST

START_TEST(a_score_is_the_mean_of_the_selectors_of_the_newest_round)
{
    float first[PAGES], second[PAGES];

    for (int round = 0; round < 3; round++) {
        kvt_page_watch_begin(&watch, (uint64_t)round);
        for (uint32_t page = 0; page < PAGES; page++) {
            ck_assert_double_eq_tol((double)watch.scores[page], 0, 1e-12);
            first[page] = (float)page + (float)round;
            second[page] = -3 * (float)page;
        }
        kvt_page_watch_score(&watch, first, PAGES, 2);
        kvt_page_watch_score(&watch, second, PAGES - 1, 2);
        for (uint32_t page = 0; page + 1 < PAGES; page++)
            ck_assert_double_eq_tol((double)watch.scores[page], (round - 2.0 * page) / 2, 1e-5);
        ck_assert(isinf(watch.scores[PAGES - 1]) && watch.scores[PAGES - 1] < 0);
    }
}
END_TEST

START_TEST(what_nobody_asks_for_takes_no_memory)
{
    struct kvt_page_watch hits, scores;

    ck_assert_int_eq(kvt_page_watch_init(&hits, PAGES, true, false, false, &err), KVT_OK);
    ck_assert_int_eq(kvt_page_watch_init(&scores, PAGES, false, true, false, &err), KVT_OK);
    ck_assert(hits.hits && !hits.scores && !scores.hits && scores.scores);
    kvt_page_watch_begin(&hits, 64);
    kvt_page_watch_begin(&scores, 64);
    kvt_page_watch_fini(&hits);
    kvt_page_watch_fini(&scores);
    kvt_page_watch_fini(&scores);
    ck_assert_uint_eq(scores.page_count, 0);
}
END_TEST

START_TEST(memory_that_runs_out_leaves_nothing)
{
    struct kvt_page_watch none;

    if (!support_can_fail_allocations())
        return;
    for (uint64_t nth = 0; nth < 2; nth++) {
        support_fail_allocation(nth);
        kvt_status status = kvt_page_watch_init(&none, PAGES, true, true, false, &err);
        ck_assert(support_allocation_failed());
        ck_assert_int_eq(status, KVT_ERR_NOMEM);
        ck_assert(!none.hits && !none.scores);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page watch");
    TCase *tcase = tcase_create("page watch");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(tcase, open_watch, close_watch);
    tcase_add_loop_test(tcase, a_page_is_hit_once_for_each_row_and_query_whatever_the_ratio, 0, 7);
    tcase_add_test(tcase, hits_halve_every_64_rounds_and_at_no_other);
    tcase_add_test(tcase, hits_stay_at_their_largest_value);
    tcase_add_test(tcase, a_score_is_the_mean_of_the_selectors_of_the_newest_round);
    tcase_add_test(tcase, what_nobody_asks_for_takes_no_memory);
    tcase_add_test(tcase, memory_that_runs_out_leaves_nothing);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
