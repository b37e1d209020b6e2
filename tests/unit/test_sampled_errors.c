/* test_sampled_errors.c -- what a sampled run's intervals have beside what its sample says. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "report/metrics_table.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

/* Room for pages of history beside eight requests of 600 rows. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"sampled\", \"seed\": 3, "                     \
    "\"model\": " DRAWN_MODEL ", \"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 1, " \
    "\"pools\": {\"unified_gib\": "                                                                \
    "0.006}}, \"import\": {\"law\": \"rate\"}}, \"residency\": {\"policy\": \"adaptive\", "        \
    "\"hot_tokens\": 64}, \"selection\": {\"law\": \"tape\", \"tapes\": 4}, \"timing\": "          \
    "{\"model\": "                                                                                 \
    "\"roofline\"}, \"workload\": {\"arrival\": \"closed\", \"concurrency\": 8, \"requests\": "    \
    "16, "                                                                                         \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 600}, \"output\": {\"law\": "       \
    "\"fixed\", "                                                                                  \
    "\"tokens\": 60}}}, \"run\": {\"fidelity\": \"sampled\"}}"

START_TEST(where_rows_are_found_in_pages_the_form_of_the_weights_is_in_the_interval)
{
    struct small_run small;
    struct sampled_errors with, without;
    small_run_whole(&small, SCENARIO, NULL);
    struct kvt_run run = *small.run;
    ck_assert(run.sampling.pooled && run.total.rows[0].page > 0);
    sampled_errors_compute(&run, &with);
    for (uint32_t s = 0; s < run.stratum_count; s++)
        run.total.rows[s].page = 0;
    sampled_errors_compute(&run, &without);
    ck_assert(isfinite(without.host_fetch_share));
    ck_assert_double_eq_tol(with.host_fetch_share - without.host_fetch_share, 0.006, 1e-9);
    ck_assert_double_eq_tol(with.hot_miss_ratio - without.hot_miss_ratio, 0.006, 1e-9);
    ck_assert_double_eq_tol(with.fetched_rows_per_round - without.fetched_rows_per_round, 0.006,
                            1e-9);
    ck_assert_double_gt(with.bytes, without.bytes);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampled_errors");
    TCase *tcase = tcase_create("form");
    tcase_add_test(tcase, where_rows_are_found_in_pages_the_form_of_the_weights_is_in_the_interval);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
