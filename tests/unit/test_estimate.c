/* test_estimate.c -- what rounds that nobody follows fetch, from those that are followed. */
#include <stdlib.h>

#include <check.h>

#include "backend/estimate.h"

enum {
    TOP_K = 16,
    QUERIES = 8
};

static struct estimator *estimator;

static void start(void)
{
    struct kvt_error err;
    ck_assert_int_eq(estimator_new(QUERIES, &estimator, &err), KVT_OK);
}

static void end(void)
{
    estimator_free(estimator);
}

static struct round_kind kind_of(uint64_t rounds, uint32_t queries)
{
    return round_kind_of(0, rounds, 1000, 1, TOP_K, queries);
}

/* A round of so many queries that fetches `fetched` of `distinct` rows. */
static void add(uint64_t rounds, uint32_t queries, double distinct, double fetched)
{
    const double counts[ESTIMATED_COUNT] = {[ESTIMATED_MISSED] = fetched,
                                            [ESTIMATED_DISTINCT] = distinct,
                                            [ESTIMATED_FETCHED] = fetched};
    struct round_kind kind = kind_of(rounds, queries);
    estimator_add(estimator, &kind, TOP_K * queries, counts);
}

static double fetched_of(uint64_t rounds, uint32_t queries)
{
    struct round_kind kind = kind_of(rounds, queries);
    return estimator_rates(estimator, &kind)[ESTIMATED_FETCHED] * TOP_K * queries;
}

START_TEST(nothing_followed_is_nothing_fetched)
{
    struct round_kind kind = kind_of(0, 1);
    ck_assert(!estimator_knows(estimator, &kind));
    ck_assert_double_eq(fetched_of(0, 1), 0);
}
END_TEST

START_TEST(a_kind_that_was_seen_fetches_what_it_did)
{
    for (int i = 0; i < 100; i++) {
        add(0, 1, 16, 16);
        add(200, 1, 16, 4);
    }
    /* A thousandth of it leans on the other. */
    ck_assert_double_eq_tol(fetched_of(0, 1), 16, 0.05);
    ck_assert_double_eq_tol(fetched_of(200, 1), 4, 0.05);
    ck_assert_double_eq_tol(fetched_of(5000, 1), fetched_of(64, 1), 1e-12);
}
END_TEST

START_TEST(an_age_that_was_never_seen_fetches_as_all_do)
{
    add(0, 1, 16, 12);
    add(200, 1, 16, 4);
    ck_assert_double_eq_tol(fetched_of(9, 1), 8, 1e-12);
}
END_TEST

/* Eight queries select 64 distinct rows of 128, two 28 of 32; a cold cache fetches every one. */
START_TEST(a_width_that_was_never_cold_fetches_by_distinct_rows)
{
    add(0, 8, 64, 64);
    add(200, 8, 64, 16);
    add(200, 2, 28, 7);
    ck_assert_double_eq_tol(fetched_of(0, 2), 28, 2.5);
    ck_assert_double_eq_tol(fetched_of(0, 8), 64, 5);
}
END_TEST

START_TEST(the_newest_rounds_count_for_most)
{
    for (int i = 0; i < 1000; i++)
        add(200, 1, 16, 8);
    for (int i = 0; i < 1000; i++)
        add(200, 1, 16, 2);
    ck_assert_double_eq_tol(fetched_of(200, 1), 2, 0.01);
}
END_TEST

START_TEST(covers_and_contexts_are_told_apart)
{
    struct round_kind bare = round_kind_of(0, 200, 1000, 1, TOP_K, 1);
    struct round_kind covered = round_kind_of(0, 200, 1000, 0.3, TOP_K, 1);
    struct round_kind whole = round_kind_of(0, 200, 1000, 0, TOP_K, 1);
    struct round_kind brief = round_kind_of(0, 200, 10, 1, TOP_K, 1);
    ck_assert_uint_ne(bare.cover, covered.cover);
    ck_assert_uint_ne(covered.cover, whole.cover);
    ck_assert_uint_ne(bare.context, brief.context);
    const double none[ESTIMATED_COUNT] = {0};
    estimator_add(estimator, &whole, 0, none);
    estimator_add(estimator, &brief, 1, none);
    ck_assert(estimator_knows(estimator, &whole));
    ck_assert(!estimator_knows(estimator, &bare));
    ck_assert_double_eq(estimator_rates(estimator, &whole)[ESTIMATED_FETCHED], 0);
}
END_TEST

static Suite *estimate_suite(void)
{
    Suite *suite = suite_create("estimate");
    TCase *tcase = tcase_create("estimate");
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, nothing_followed_is_nothing_fetched);
    tcase_add_test(tcase, a_kind_that_was_seen_fetches_what_it_did);
    tcase_add_test(tcase, an_age_that_was_never_seen_fetches_as_all_do);
    tcase_add_test(tcase, a_width_that_was_never_cold_fetches_by_distinct_rows);
    tcase_add_test(tcase, the_newest_rounds_count_for_most);
    tcase_add_test(tcase, covers_and_contexts_are_told_apart);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(estimate_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
