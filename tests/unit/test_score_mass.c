/* test_score_mass.c -- budgets by attention mass, against sorting and the libm. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../../models/law/score_mass.h"
#include "kvt/rng.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_score_mass;

enum {
    ROWS = 4000,
    TOP_K = 256
};

static struct score_mass mass;
static float scores[ROWS];

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The least number whose weights come to the share: every weight by expl(), of scores[count] sorted
 * and rounded down to steps as the module says. */
static uint32_t rows_by_sorting(uint32_t count, double share, double temperature)
{
    static float sorted[ROWS];
    long double total = 0, held = 0;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = floorf(scores[i] * SCORE_MASS_STEPS) / SCORE_MASS_STEPS;
    qsort(sorted, count, sizeof *sorted, descending);
    for (uint32_t i = 0; i < count; i++)
        total += expl(((long double)sorted[i] - sorted[0]) / temperature);
    while (held < share * total * (1 - 1e-12L))
        held += expl(((long double)sorted[rows++] - sorted[0]) / temperature);
    return rows;
}

static void draw_scores(struct kvt_rng *rng, uint32_t count)
{
    memset(&mass, 0, sizeof mass);
    for (uint32_t i = 0; i < count; i++)
        scores[i] = (float)kvt_rng_gaussian(rng);
    score_mass_add(&mass, scores, count);
}

/* ---- The sum ----------------------------------------------------------------------------- */

START_TEST(a_step_down_is_the_libms_to_its_last_digits)
{
    static const double temperatures[] = {0.01, 0.0385, 0.187, 1, 2.385, 100};
    for (size_t i = 0; i < sizeof temperatures / sizeof *temperatures; i++) {
        double wanted = exp(-1 / (temperatures[i] * SCORE_MASS_STEPS));
        ck_assert_double_eq_tol(score_mass_fall(temperatures[i]), wanted, 4e-16);
    }
}
END_TEST

START_TEST(rows_are_as_many_as_sorting_says)
{
    static const double shares[] = {0.01, 0.5, 0.9, 0.99, 0.9999};
    static const double temperatures[] = {0.05, 0.187, 0.6, 3, 50};
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);
    for (int round = 0; round < 6; round++) {
        uint32_t count = 1 + (uint32_t)kvt_rng_below(&rng, ROWS);
        draw_scores(&rng, count);
        for (int s = 0; s < 5; s++) {
            for (int t = 0; t < 5; t++) {
                uint32_t rows = score_mass_rows(&mass, shares[s], score_mass_fall(temperatures[t]));
                uint32_t wanted = rows_by_sorting(count, shares[s], temperatures[t]);
                ck_assert_uint_ge(rows + 1, wanted); /* one apart where the sum falls on a row */
                ck_assert_uint_le(rows, wanted + 1);
                ck_assert_uint_ge(rows, 1);
            }
        }
    }
}
END_TEST

START_TEST(equal_scores_share_the_mass_evenly)
{
    memset(&mass, 0, sizeof mass);
    for (uint32_t i = 0; i < 1000; i++)
        scores[i] = -2.385F;
    score_mass_add(&mass, scores, 1000);
    double fall = score_mass_fall(0.187);
    ck_assert_uint_eq(score_mass_rows(&mass, 0.25, fall), 250);
    ck_assert_uint_eq(score_mass_rows(&mass, 0.2501, fall), 251);
    /* One row far above them has all of it. */
    scores[0] = 9.5F;
    score_mass_add(&mass, scores, 1);
    ck_assert_uint_eq(score_mass_rows(&mass, 0.99, fall), 1);
}
END_TEST

START_TEST(scores_without_bound_count_as_the_last_step)
{
    memset(&mass, 0, sizeof mass);
    scores[0] = 3e30F;
    scores[1] = 15.9999F;
    scores[2] = -3e30F;
    scores[3] = -16.0F;
    score_mass_add(&mass, scores, 4);
    ck_assert_uint_eq(mass.rows[SCORE_MASS_BINS - 1], 2);
    ck_assert_uint_eq(mass.rows[0], 2);
}
END_TEST

/* ---- The law ----------------------------------------------------------------------------- */

struct bench {
    struct law_setting setting;
    void *law, *stream;
    const struct kvt_law *of;
};

static void bench_start(struct bench *bench, const struct kvt_law *of, double share,
                        double temperature, uint32_t rows_min, uint32_t sinks)
{
    bench->of = of;
    law_setting_init(&bench->setting, of, TOP_K);
    law_setting_set(&bench->setting, of, "sink_rows", sinks);
    law_setting_set(&bench->setting, of, "mass", share);
    law_setting_set(&bench->setting, of, "temperature", temperature);
    law_setting_set(&bench->setting, of, "rows_min", rows_min);
    bench->law = law_prepared(of, &bench->setting);
    const struct kvt_law_stream_env env = law_stream_env(7, 0, 20, ROWS);
    bench->stream = law_stream_new(of, bench->law, &env);
}

static void bench_stop(struct bench *bench)
{
    free(bench->stream);
    bench->of->free(bench->law);
}

static void select_once(const struct bench *bench, uint32_t visible, uint64_t *set)
{
    static const struct kvt_law_query query = {0};
    const uint32_t visible_rows[] = {visible};
    const struct kvt_law_round round = {
        .queries = &query, .query_count = 1, .committed_tokens = 1, .visible_rows = visible_rows};
    uint64_t *const sets[] = {set};
    bench->of->select(bench->law, bench->stream, &round, sets);
}

/* Beside the fixed law, whose scores are the same: the best rows of it, as many as it takes. */
static void check_budgets(double share, double temperature, uint32_t rows_min, uint32_t sinks,
                          uint32_t first_visible)
{
    struct bench fixed, budget;
    bench_start(&fixed, &kvt_law_score, 0, 0, 0, sinks);
    bench_start(&budget, &kvt_law_score_mass, share, temperature, rows_min, sinks);
    for (uint32_t token = 0; token < 12; token++) {
        static uint64_t all[ROWS / 64 + 1], some[ROWS / 64 + 1];
        uint32_t visible = first_visible + token;
        select_once(&fixed, visible, all);
        select_once(&budget, visible, some);
        size_t words = kvt_row_words(visible);
        budget.of->page_scores(budget.law, budget.stream, visible, 1, scores);
        uint32_t most = visible < TOP_K ? visible : TOP_K, taken = 0, better = 0;
        float worst = INFINITY;
        for (uint32_t i = 0; i < visible; i++) {
            bool is_in = kvt_row_is_in(some, i);
            taken += is_in;
            ck_assert(!is_in || kvt_row_is_in(all, i) || visible <= TOP_K);
            worst = is_in && scores[i] < worst ? scores[i] : worst;
            ck_assert(is_in || i >= sinks);
        }
        for (uint32_t i = 0; i < visible; i++)
            better += !kvt_row_is_in(some, i) && scores[i] > worst;
        ck_assert_uint_eq(better, 0);
        ck_assert_uint_eq(taken, kvt_row_set_count(some, words));
        if (sinks == 0) {
            uint32_t wanted = rows_by_sorting(visible, share, temperature);
            wanted = wanted < rows_min ? rows_min : wanted;
            wanted = wanted < most ? wanted : most;
            ck_assert_uint_ge(taken + 1, wanted);
            ck_assert_uint_le(taken, wanted + 1);
        }
        ck_assert_uint_ge(taken, rows_min < most ? rows_min : most);
        ck_assert_uint_le(taken, most);
    }
    bench_stop(&fixed);
    bench_stop(&budget);
}

START_TEST(a_set_is_the_best_rows_that_hold_the_mass)
{
    check_budgets(0.9, 0.25, 1, 0, 3000);
    check_budgets(0.99, 0.25, 1, 0, 3000);
    check_budgets(0.9, 0.25, 1, 16, 3000);
    check_budgets(0.5, 0.05, 1, 16, 3000); /* sinks, where fewer would do */
}
END_TEST

START_TEST(a_set_has_no_fewer_rows_than_the_least_and_no_more_than_top_k)
{
    check_budgets(0.5, 0.05, 40, 0, 3000);
    check_budgets(0.99, 50, 1, 0, 3000); /* flat: thousands would be wanted */
    check_budgets(0.5, 0.05, 1000, 0, 3000);
}
END_TEST

START_TEST(short_histories_have_budgets_too)
{
    check_budgets(0.9, 0.25, 1, 0, TOP_K - 5); /* to beyond top_k */
    check_budgets(0.9, 0.25, 64, 0, 20);
}
END_TEST

/* With as much mass as there is nothing is left out: the same sets as the fixed law's. */
START_TEST(a_flat_softmax_is_the_fixed_law)
{
    struct bench fixed, budget;
    bench_start(&fixed, &kvt_law_score, 0, 0, 0, 0);
    bench_start(&budget, &kvt_law_score_mass, 0.9999, 100, 1, 0);
    for (uint32_t token = 0; token < 50; token++) {
        static uint64_t all[ROWS / 64 + 1], some[ROWS / 64 + 1];
        select_once(&fixed, 3000 + token, all);
        select_once(&budget, 3000 + token, some);
        ck_assert_mem_eq(all, some, kvt_row_words(3000 + token) * sizeof *all);
    }
    bench_stop(&fixed);
    bench_stop(&budget);
}
END_TEST

static Suite *mass_suite(void)
{
    Suite *suite = suite_create("score_mass");
    TCase *sum = tcase_create("the sum");
    tcase_add_test(sum, a_step_down_is_the_libms_to_its_last_digits);
    tcase_add_test(sum, rows_are_as_many_as_sorting_says);
    tcase_add_test(sum, equal_scores_share_the_mass_evenly);
    tcase_add_test(sum, scores_without_bound_count_as_the_last_step);
    suite_add_tcase(suite, sum);
    TCase *law = tcase_create("the law");
    tcase_add_test(law, a_set_is_the_best_rows_that_hold_the_mass);
    tcase_add_test(law, a_set_has_no_fewer_rows_than_the_least_and_no_more_than_top_k);
    tcase_add_test(law, short_histories_have_budgets_too);
    tcase_add_test(law, a_flat_softmax_is_the_fixed_law);
    suite_add_tcase(suite, law);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(mass_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
