/* test_order.c -- words into ascending order. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/order.h"
#include "kvt/rng.h"

enum {
    WORDS_MAX = 200
};

static uint64_t words[WORDS_MAX], expected[WORDS_MAX], scratch[WORDS_MAX];

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void expect_ordered(size_t count)
{
    memcpy(expected, words, sizeof words);
    qsort(expected, count, sizeof *expected, by_value);
    kvt_order64(words, count, scratch);
    ck_assert_mem_eq(words, expected, sizeof words); /* what is behind them stays, too */
}

START_TEST(any_words_come_out_ascending)
{
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);

    for (size_t count = 0; count < WORDS_MAX; count++) {
        for (size_t i = 0; i < WORDS_MAX; i++)
            words[i] = count % 2 ? kvt_rng_u64(&rng) : kvt_rng_below(&rng, 7);
        expect_ordered(count);
    }
}
END_TEST

START_TEST(runs_behind_each_other_are_merged)
{
    for (size_t runs = 1; runs <= 9; runs++) {
        for (size_t i = 0; i < WORDS_MAX; i++)
            words[i] = i / runs * 100 + i % runs;
        expect_ordered(WORDS_MAX);
        for (size_t i = 0; i < WORDS_MAX; i++)
            words[i] = i % (WORDS_MAX / runs) * runs + i * runs / WORDS_MAX;
        expect_ordered(WORDS_MAX);
    }
}
END_TEST

START_TEST(falling_words_are_turned_round)
{
    for (size_t i = 0; i < WORDS_MAX; i++)
        words[i] = UINT64_MAX - i;
    expect_ordered(WORDS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("order");
    TCase *tcase = tcase_create("order");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, any_words_come_out_ascending);
    tcase_add_test(tcase, runs_behind_each_other_are_merged);
    tcase_add_test(tcase, falling_words_are_turned_round);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
