/* test_waves.c -- calls that share staging, by hand. */
#include <stdlib.h>

#include <check.h>

#include "kvt/waves.h"

enum {
    CALLS_MAX = 8
};

struct hand {
    uint32_t call_count;
    uint32_t staged_rows[CALLS_MAX];
    uint64_t arena_rows;
    uint32_t waves;
    uint32_t wave_of[CALLS_MAX];
    uint64_t peak_rows;
};

static const struct hand hands[] = {
    {0, {0}, 0, 1, {0}, 0},
    {3, {0, 0, 0}, 0, 1, {0, 0, 0}, 0},
    {1, {7}, 7, 1, {0}, 7},
    /* together to the last row */
    {3, {3, 2, 3}, 8, 1, {0, 0, 0}, 8},
    /* one row too many: the last waits, and what comes behind it does not */
    {4, {3, 3, 3, 2}, 8, 2, {0, 0, 1, 0}, 8},
    /* what waits keeps its order, and has the whole arena */
    {6, {6, 5, 4, 2, 3, 4}, 8, 3, {0, 1, 2, 0, 1, 2}, 8},
    /* a call that stages nothing waits for nobody */
    {4, {8, 8, 0, 8}, 8, 3, {0, 1, 0, 2}, 8},
    /* each by itself: none is more than the arena holds */
    {5, {5, 6, 7, 5, 8}, 8, 5, {0, 1, 2, 3, 4}, 8},
    {5, {5, 6, 7, 5, 5}, 8, 5, {0, 1, 2, 3, 4}, 7},
};
enum {
    HANDS = sizeof hands / sizeof hands[0]
};

START_TEST(calls_wait_for_the_first_wave_that_has_room)
{
    const struct hand *hand = &hands[_i];
    uint32_t wave_of[CALLS_MAX];
    uint64_t peak_rows;
    ck_assert_uint_eq(
        kvt_waves_make(hand->staged_rows, hand->call_count, hand->arena_rows, wave_of, &peak_rows),
        hand->waves);
    for (uint32_t i = 0; i < hand->call_count; i++)
        ck_assert_uint_eq(wave_of[i], hand->wave_of[i]);
    ck_assert_uint_eq(peak_rows, hand->peak_rows);
}
END_TEST

static Suite *waves_suite(void)
{
    Suite *suite = suite_create("waves");
    TCase *tcase = tcase_create("waves");
    tcase_add_loop_test(tcase, calls_wait_for_the_first_wave_that_has_room, 0, HANDS);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(waves_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
