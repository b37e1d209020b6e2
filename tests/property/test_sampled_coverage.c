/* test_sampled_coverage.c -- a sampled run against the exact one of the same seed: its 99 %
 * intervals hold what exact counts, in 18 of 20 seeds at least, and are not so wide that
 * anything would. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "kvt/json.h"
#include "support/small_run.h"

enum {
    SEEDS = 20,
    SEEDS_LEAST = 18,
    METRICS = 5,
    TEXT_BYTES = 2048
};

/* GLM-5.3 in small: twelve stores, two of them of one layer, sixteen rows a query, and a link so
 * slow that what is fetched is a good part of the step. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"sampled\", \"seed\": %d, "                    \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 42, \"top_k\": 16, "                           \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 10, \"stride_layers\": 4}]}, "                                                    \
    "\"hardware\": {\"base\": \"b300\", \"link_h2d_bytes_per_s\": 2000000000}, "                   \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"dp\": 2, \"ep\": 2, \"lockstep\": true, "           \
    "\"pools\": {\"unified_gib\": 1}}, \"import\": {\"law\": \"rate\", \"rate\": 1}}, "            \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 32}, "                              \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 12, \"requests\": 24, "              \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 256}, "                             \
    "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": 48, \"cv\": 0.25}}}, "                  \
    "\"run\": {\"fidelity\": %s}}"

static const char *const metrics[METRICS] = {
    "host_fetch_share", "hot_miss_ratio", "h2d_payload_bytes", "mean_tpot_ms", "output_throughput"};

static double number_at(const struct cJSON *object, const char *name)
{
    const cJSON *item = kvt_json_find(object, name);
    ck_assert_msg(cJSON_IsNumber(item), "%s is no number", name);
    return item->valuedouble;
}

/* Values, and half-widths where the run is sampled. */
static void run_one(int seed, const char *fidelity, double values[METRICS],
                    double half_widths[METRICS])
{
    char text[TEXT_BYTES];
    struct small_run small;
    struct cJSON *result = NULL;
    ck_assert(snprintf(text, sizeof text, SCENARIO, seed, fidelity) < TEXT_BYTES);
    small_run_whole(&small, text, NULL);
    ck_assert_int_eq(kvt_report_result(small.run, &result, &small.err), KVT_OK);
    const cJSON *rows = kvt_json_find(kvt_json_find(result, "scaled"), "rows");
    ck_assert_int_eq(rows != NULL, half_widths != NULL);
    for (int m = 0; m < METRICS; m++) {
        values[m] = number_at(kvt_json_find(result, "metrics"), metrics[m]);
        if (half_widths)
            half_widths[m] = number_at(kvt_json_find(rows, "ci99"), metrics[m]);
    }
    cJSON_Delete(result);
    small_run_close(&small);
}

enum {
    SAMPLES = 4
};
static const char *const sampled[SAMPLES] = {
    "\"sampled\", \"sample_stores\": 1, \"sample_requests\": 0",
    "\"sampled\", \"sample_stores\": 3, \"sample_requests\": 0",
    "\"sampled\", \"sample_stores\": 1, \"sample_requests\": 2",
    "\"sampled\", \"sample_stores\": 3, \"sample_requests\": 3"};
/* Of the value, at most. */
static const double widest[SAMPLES][METRICS] = {{0.25, 0.25, 0.4, 0.1, 0.1},
                                                {0.1, 0.1, 0.2, 0.06, 0.06},
                                                {0.25, 0.25, 0.3, 0.03, 0.03},
                                                {0.1, 0.1, 0.15, 0.02, 0.02}};
static double exact[SEEDS][METRICS];
static bool exact_is_known;

START_TEST(intervals_hold_what_exact_counts_and_are_no_wider_than_need_be)
{
    int held[METRICS] = {0};
    double widths[METRICS] = {0};
    for (int seed = 0; seed < SEEDS; seed++) {
        double values[METRICS], half_widths[METRICS];
        if (!exact_is_known)
            run_one(seed + 1, "\"exact\"", exact[seed], NULL);
        run_one(seed + 1, sampled[_i], values, half_widths);
        for (int m = 0; m < METRICS; m++) {
            held[m] += fabs(values[m] - exact[seed][m]) <= half_widths[m];
            widths[m] += half_widths[m] / values[m] / SEEDS;
        }
    }
    exact_is_known = true;
    for (int m = 0; m < METRICS; m++) {
        ck_assert_msg(held[m] >= SEEDS_LEAST, "%s: %d of %d intervals hold the exact value",
                      metrics[m], held[m], SEEDS);
        ck_assert_msg(widths[m] <= widest[_i][m], "%s: the half-width is %g of the value",
                      metrics[m], widths[m]);
    }
}
END_TEST

static Suite *sampled_coverage_suite(void)
{
    Suite *suite = suite_create("sampled_coverage");
    TCase *tcase = tcase_create("sampled_coverage");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, intervals_hold_what_exact_counts_and_are_no_wider_than_need_be, 0,
                        SAMPLES);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(sampled_coverage_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
