/* test_nearest_law.c -- figures of selections counted by hand, and laws found by what they
 * selected. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/nearest_law.h"
#include "kvt/rng.h"
#include "support/law_setting.h"

enum {
    TOP_K = 128,
    FIRST_ROWS = 6272,
    TOKENS = 512,
    SELECTORS = 12,
    STREAMS = 3,
};

extern const struct kvt_law kvt_law_score;

/* ---- Figures -----------------------------------------------------------------------------------
 */

START_TEST(figures_are_those_that_a_hand_counts)
{
    enum {
        K = 3,
        ROWS = 200,
        CALLS = 400
    };
    struct figures_meter *meter = NULL;
    struct figures found = {0}, due = {0};
    uint32_t last[ROWS] = {0}, stack[ROWS], depth = 0, pages[4] = {0};
    uint64_t set[4];
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 0);
    ck_assert_int_eq(figures_meter_new(FIGURES_ROWS, K, ROWS, 64, &meter, NULL), KVT_OK);
    for (uint32_t call = 1; call <= CALLS; call++) {
        uint32_t count = 0;
        memset(set, 0, sizeof set);
        while (count < K) {
            uint32_t row = (uint32_t)kvt_rng_below(&rng, 1 + kvt_rng_below(&rng, ROWS));
            count += !kvt_row_is_in(set, row);
            kvt_row_set_add(set, &row, 1);
        }
        ck_assert_int_eq(figures_take(meter, set, ROWS, NULL), KVT_OK);
        bool is_touched[4] = {false};
        for (uint32_t row = 0; row < ROWS; row++) {
            if (!kvt_row_is_in(set, row))
                continue;
            uint32_t at = 0;
            while (at < depth && stack[at] != row)
                at++;
            if (last[row] == 0)
                due.first++;
            else
                due.ages[(int)log2(call - last[row])]++;
            /* at rows were selected since: within a depth of at + 1 rows. */
            size_t step = 0;
            while (step < FIGURES_DEPTHS && floor(figures_depth(step) * K + 0.5) < at + 1)
                step++;
            /* Of steps that are as many rows, the last. */
            while (step + 1 < FIGURES_DEPTHS &&
                   floor(figures_depth(step + 1) * K + 0.5) == floor(figures_depth(step) * K + 0.5))
                step++;
            due.depths[step] += at < depth;
            memmove(stack + 1, stack, at * sizeof stack[0]);
            stack[0] = row;
            depth += at == depth;
            last[row] = call;
            is_touched[row / 64] = true;
            pages[row / 64]++;
        }
        for (int p = 0; p < 4; p++)
            due.pages += is_touched[p];
    }
    figures_add(meter, &found);
    figures_meter_free(meter);
    ck_assert_uint_eq(found.selections, CALLS);
    ck_assert_uint_eq(found.selected, CALLS * K);
    ck_assert_uint_eq(found.first, due.first);
    ck_assert_uint_eq(found.pages, due.pages);
    ck_assert_mem_eq(found.ages, due.ages, sizeof due.ages);
    ck_assert_mem_eq(found.depths, due.depths, sizeof due.depths);
    /* Low rows are drawn more often: page 0 is the hottest, and 2 of 4 pages are half of them. */
    ck_assert_uint_eq(found.hot[0], pages[0]);
    ck_assert_uint_eq(found.hot[1], pages[0]);
    ck_assert_uint_eq(found.hot[2], pages[0] + pages[1]);
}
END_TEST

START_TEST(a_selection_that_sees_no_more_than_it_selects_does_not_count)
{
    struct figures_meter *meter = NULL;
    struct figures found = {0};
    uint64_t set[1] = {0xff};
    ck_assert_int_eq(figures_meter_new(FIGURES_ALL, 8, 9, 64, &meter, NULL), KVT_OK);
    ck_assert_int_eq(figures_take(meter, set, 8, NULL), KVT_OK);
    figures_add(meter, &found);
    ck_assert_uint_eq(found.selections + found.selected + found.hot[0], 0);
    ck_assert_int_eq(figures_take(meter, set, 9, NULL), KVT_OK);
    figures_add(meter, &found);
    ck_assert_uint_eq(found.selections, 1);
    figures_meter_free(meter);
    ck_assert_uint_eq(figures_page_rows(1), 64);
    ck_assert_uint_eq(figures_page_rows(4), 16);
    ck_assert_uint_eq(figures_page_rows(5), 64);
}
END_TEST

/* ---- Laws
 * ---------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double f0, f1, f2, tau1_tokens, tau2_tokens;
} sets[] = {
    {"A", 0.487, 0.323, 0.155, 100, 8},
    {"B", 0.128, 0.665, 0.169, 300, 8},
    {"C", 0.427, 0.256, 0.265, 300, 20},
};
static const char *const presets[] = {"flat", "clustered", "skewed"};

/* What the law selects, of three selectors of its twelve. */
static void select_by(int set, int preset, uint64_t seed, struct nearest_sample *sample,
                      struct figures *figures)
{
    const struct kvt_law *law = &kvt_law_score;
    struct law_setting setting;
    law_setting_init(&setting, law, TOP_K);
    setting.env.stream_count = SELECTORS;
    setting.env.run_seed = seed;
    law_setting_set(&setting, law, "preset", preset);
    law_setting_set(&setting, law, "f0", sets[set].f0);
    law_setting_set(&setting, law, "f1", sets[set].f1);
    law_setting_set(&setting, law, "f2", sets[set].f2);
    law_setting_set(&setting, law, "tau1_tokens", sets[set].tau1_tokens);
    law_setting_set(&setting, law, "tau2_tokens", sets[set].tau2_tokens);
    void *data = law_prepared(law, &setting);
    *sample = (struct nearest_sample){
        .top_k = TOP_K, .selector_count = SELECTORS, .tokens = TOKENS, .stream_count = STREAMS};
    memset(figures, 0, sizeof *figures);
    for (uint32_t s = 0; s < STREAMS; s++) {
        uint32_t selector = s * (SELECTORS - 1) / (STREAMS - 1);
        struct kvt_law_stream_env env =
            law_stream_env(0, selector, FIRST_ROWS, FIRST_ROWS + TOKENS);
        void *stream = law_stream_new(law, data, &env);
        struct figures_meter *meter = NULL;
        uint32_t rows[FIRST_ROWS + TOKENS];
        uint64_t words[(FIRST_ROWS + TOKENS) / 64];
        ck_assert_int_eq(
            figures_meter_new(FIGURES_ALL, TOP_K, FIRST_ROWS + TOKENS, 64, &meter, NULL), KVT_OK);
        for (uint32_t token = 0; token < TOKENS; token++) {
            uint32_t count = law_select_one(law, data, stream, FIRST_ROWS + token, rows);
            memset(words, 0, sizeof words);
            kvt_row_set_add(words, rows, count);
            ck_assert_int_eq(figures_take(meter, words, FIRST_ROWS + token, NULL), KVT_OK);
        }
        figures_add(meter, figures);
        figures_meter_free(meter);
        free(stream);
        sample->streams[s].selector = selector;
        sample->streams[s].first_rows = FIRST_ROWS;
        sample->streams[s].tokens_per_row = 1;
    }
    law->free(data);
}

START_TEST(what_a_law_selected_is_nearest_to_its_set_and_preset)
{
    struct nearest_sample sample;
    struct figures figures;
    struct nearest_law found[NEAREST_LAWS];
    struct kvt_error err;
    select_by(_i / 3, _i % 3, 2385, &sample, &figures);
    ck_assert_msg(nearest_laws(&sample, &figures, NULL, NULL, found, &err) == KVT_OK, "%s",
                  err.message);
    ck_assert_str_eq(found[0].set, sets[_i / 3].name);
    ck_assert_str_eq(found[0].preset, presets[_i % 3]);
    ck_assert_double_lt(found[0].distance, 0.02);
    for (size_t i = 1; i < NEAREST_LAWS; i++)
        ck_assert_double_ge(found[i].distance, found[i - 1].distance);
}
END_TEST

static bool stop(void *context, double fraction)
{
    (void)context;
    (void)fraction;
    return false;
}

START_TEST(the_search_stops_when_told_and_skips_what_cannot_be)
{
    struct nearest_sample sample;
    struct figures figures;
    struct nearest_law found[NEAREST_LAWS];
    struct kvt_error err;
    select_by(0, 0, 1, &sample, &figures);
    ck_assert_int_eq(nearest_laws(&sample, &figures, stop, NULL, found, &err), KVT_ERR_INTERRUPTED);
    sample.top_k = 3; /* fewer than the sinks of `skewed` */
    sample.tokens = 8;
    ck_assert_msg(nearest_laws(&sample, &figures, NULL, NULL, found, &err) == KVT_OK, "%s",
                  err.message);
    for (size_t i = 0; i < NEAREST_LAWS; i++)
        ck_assert(isnan(found[i].distance) == (strcmp(found[i].preset, "skewed") == 0));
    ck_assert(isnan(found[NEAREST_LAWS - 1].distance));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nearest_law");
    TCase *cases = tcase_create("nearest_law");
    tcase_set_timeout(cases, 30);
    tcase_add_test(cases, figures_are_those_that_a_hand_counts);
    tcase_add_test(cases, a_selection_that_sees_no_more_than_it_selects_does_not_count);
    tcase_add_loop_test(cases, what_a_law_selected_is_nearest_to_its_set_and_preset, 0,
                        NEAREST_LAWS);
    tcase_add_test(cases, the_search_stops_when_told_and_skips_what_cannot_be);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
