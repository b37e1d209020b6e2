/* test_budgets.c -- runs of a law whose queries read as many rows as it takes. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/small_run.h"
#include "support/support.h"

extern const struct kvt_residency_policy kvt_residency_resident;

#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 3, \"model\": \"glm-5.3\","                     \
    " \"hardware\": \"b300\","                                                                     \
    " \"cluster\": {\"decode\": {\"gpus\": 4, \"tp\": 4, \"pools\": {\"unified_gib\": 4}}},"       \
    " \"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 2048},"                            \
    " \"selection\": {\"law\": \"score-mass\", \"temperature\": 0.2},"                             \
    " \"timing\": {\"model\": \"roofline\"},"                                                      \
    " \"workload\": {\"arrival\": \"closed\", \"concurrency\": 2, \"requests\": 2,"                \
    " \"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 6000},"                            \
    " \"output\": {\"law\": \"fixed\", \"tokens\": 12}}}, \"run\": {\"fidelity\": \"exact\"}}"

enum {
    TOP_K = 2048,
    CALLS = 2 * 11 * 21 /* requests, tokens behind the first, selectors */
};

static struct kvt_row_counts counted(const char *const *sets)
{
    struct small_run small;
    struct kvt_row_counts rows = {0};
    small_run_whole(&small, SCENARIO, sets);
    for (uint32_t s = 0; s < KVT_STRATA_MAX; s++)
        kvt_row_counts_add(&rows, &small.run->total.rows[s]);
    small_run_close(&small);
    return rows;
}

START_TEST(queries_read_no_more_than_it_takes)
{
    struct kvt_row_counts fixed = counted((const char *const[]){"selection.law=score", NULL});
    struct kvt_row_counts some = counted(NULL);
    struct kvt_row_counts fewer = counted((const char *const[]){"selection.mass=0.9", NULL});
    ck_assert_uint_eq(fixed.calls, CALLS);
    ck_assert_uint_eq(fixed.selected, (uint64_t)CALLS * TOP_K);
    ck_assert_uint_eq(some.calls, CALLS);
    ck_assert_uint_lt(some.selected, fixed.selected);
    ck_assert_uint_lt(fewer.selected, some.selected);
    ck_assert_uint_lt(some.missed, fixed.missed);
    ck_assert_uint_ge(fewer.selected, (uint64_t)CALLS * 64);
    ck_assert_uint_eq(some.selected, some.tail + some.page + some.hot + some.missed);
}
END_TEST

/* Selections do not hang on where rows are. */
START_TEST(as_much_is_read_where_all_of_it_is_in_hbm)
{
    struct kvt_row_counts cached = counted(NULL);
    struct kvt_row_counts whole =
        counted((const char *const[]){"residency.policy=vllm-hybrid", NULL});
    ck_assert_uint_eq(whole.calls, CALLS);
    ck_assert_uint_eq(whole.skipped_calls, CALLS);
    ck_assert_uint_eq(whole.page, whole.selected);
    ck_assert_uint_eq(whole.selected, cached.selected);
}
END_TEST

static const struct {
    const char *sets[3];
    const char *words;
} refusals[] = {
    {{"run.fidelity=sampled", NULL}, "which \"sampled\" does not see of every request"},
    {{"run.fidelity=sampled", "run.sample_requests=0", NULL}, "run.fidelity \"exact\" is expected"},
    {{"run.fidelity=analytic", NULL}, "which \"analytic\" does not see"},
    {{NULL}, "under \"resident\" nobody looks"}, /* given by a program: a file is refused before */
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(where_nobody_looks_at_sets_it_is_refused)
{
    struct small_run small;
    small_run_parse(&small, SCENARIO, refusals[_i].sets);
    if (refusals[_i].sets[0] == NULL)
        small.scenario.residency = (struct kvt_choice){.info = &kvt_residency_resident.info};
    small_run_start(&small, NULL);
    ck_assert_int_eq(small.status, KVT_ERR_UNSUPPORTED);
    ck_assert_str_eq(small.err.where, "small.json#/selection/law");
    ck_assert_msg(strstr(small.err.message, refusals[_i].words) != NULL, "\"%s\" lacks \"%s\"",
                  small.err.message, refusals[_i].words);
    small_run_close(&small);
}
END_TEST

static Suite *budgets_suite(void)
{
    Suite *suite = suite_create("budgets");
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 60);
    tcase_add_test(runs, queries_read_no_more_than_it_takes);
    tcase_add_test(runs, as_much_is_read_where_all_of_it_is_in_hbm);
    tcase_add_loop_test(runs, where_nobody_looks_at_sets_it_is_refused, 0, REFUSALS);
    suite_add_tcase(suite, runs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(budgets_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
