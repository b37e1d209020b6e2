/* test_engine_metrics.c -- figures out of what vLLM and SGLang expose to Prometheus. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/engine_metrics.h"
#include "support/written.h"

static void read_into(struct engine_metrics *metrics, const char *text)
{
    struct kvt_error err = {0};
    bool is_one = false;
    const char *path = written("metrics.prom", text);

    ck_assert_int_eq(engine_metrics_is_one(path, &is_one, &err), KVT_OK);
    ck_assert(is_one);
    ck_assert_msg(engine_metrics_read(path, metrics, &err) == KVT_OK, "%s: %s", err.where,
                  err.message);
}

static void figures_of(const char *text, double figures[ENGINE_FIGURES])
{
    struct engine_metrics metrics = {.peak_running = NAN};

    for (int f = 0; f < ENGINE_FIGURES; f++)
        figures[f] = NAN;
    read_into(&metrics, text);
    engine_metrics_figures(&metrics, figures);
    engine_metrics_free(&metrics);
}

#define VLLM(running, preempted, ttft_sum, ttft_count)                                             \
    "# HELP vllm:num_requests_running Number of requests.\n"                                       \
    "# TYPE vllm:num_requests_running gauge\n"                                                     \
    "vllm:num_requests_running{engine=\"0\",model_name=\"a {b} \\\"c\\\" d\"} " #running "\n"      \
    "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 1.0\n"                               \
    "vllm:num_preemptions_total{engine=\"0\"} " #preempted "\n"                                    \
    "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 9\n"                                     \
    "vllm:time_to_first_token_seconds_sum " #ttft_sum "\n"                                         \
    "vllm:time_to_first_token_seconds_count " #ttft_count " 1700000000000\n"                       \
    "process_cpu_seconds_total 12.5\n"

/* Two engines of a server are summed; the second scrape begins where the first sample comes again.
 */
START_TEST(counters_grow_from_the_first_scrape_to_the_last)
{
    double figures[ENGINE_FIGURES];
    figures_of(VLLM(3, 2, 1.5, 1) VLLM(7, 5, 7.5, 5) VLLM(0, 6, 9.5, 9), figures);

    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 8);
    ck_assert_double_eq(figures[ENGINE_PREEMPTIONS], 4);
    ck_assert_double_eq(figures[ENGINE_MEAN_TTFT], 1000);
    ck_assert(isnan(figures[ENGINE_MEAN_TPOT]));
    ck_assert(isnan(figures[ENGINE_HOT_MISS_RATIO]));
}
END_TEST

START_TEST(one_scrape_counts_since_the_engine_began)
{
    double figures[ENGINE_FIGURES];
    figures_of("vllm:hisparse_cache_hits_total 860\r\nvllm:hisparse_cache_misses_total 1.4e2\r\n"
               "vllm:request_time_per_output_token_seconds_sum 0.9\n"
               "vllm:request_time_per_output_token_seconds_count 30\n",
               figures);

    ck_assert_double_eq_tol(figures[ENGINE_HOT_MISS_RATIO], .14, 1e-12);
    ck_assert_double_eq_tol(figures[ENGINE_MEAN_TPOT], 30, 1e-9);
}
END_TEST

/* Each rank of a replica says the same. */
START_TEST(of_sglangs_ranks_one_is_counted)
{
    double figures[ENGINE_FIGURES];
    figures_of("sglang:num_running_reqs{model_name=\"g\",tp_rank=\"0\",pp_rank=\"0\"} 5\n"
               "sglang:num_running_reqs{model_name=\"g\",tp_rank=\"1\",pp_rank=\"0\"} 5\n"
               "sglang:num_retracted_requests_total{tp_rank=\"0\"} 48\n"
               "sglang:num_retracted_reqs{tp_rank=\"0\"} 1\n",
               figures);

    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 5);
    ck_assert_double_eq(figures[ENGINE_PREEMPTIONS], 48);
}
END_TEST

/* By metric, as OpenMetrics wants it: 2 of the first engine's three times are of one scrape each.
 */
START_TEST(samples_of_one_time_are_of_one_scrape_and_of_two_engines_the_first_counts)
{
    double figures[ENGINE_FIGURES];
    figures_of("# TYPE vllm:num_requests_running gauge\n"
               "vllm:num_requests_running 5 1\nvllm:num_requests_running{engine=\"1\"} 2 1\n"
               "vllm:num_requests_running 6 2.5\nvllm:num_requests_running{engine=\"1\"} 0 2.5\n"
               "vllm:generation_tokens_total 100 1\nvllm:generation_tokens_total 175 2.5\n"
               "sglang:num_running_reqs 50 1\nsglang:generation_tokens_total 100 1\n"
               "sglang:generation_tokens_total 175 2.5\n# EOF\n",
               figures);

    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 7);
    ck_assert_double_eq(figures[ENGINE_OUTPUT_TOKENS], 75);
}
END_TEST

/* A gauge has no value yet when counters are at 0: their first scrape is one that it is not in, and
 * comes behind its in the file. */
START_TEST(counters_may_begin_before_the_metric_that_the_file_begins_with)
{
    double figures[ENGINE_FIGURES];
    figures_of("vllm:num_requests_running 5 1\nvllm:num_requests_running 6 2\n"
               "vllm:generation_tokens_total 0 0\nvllm:generation_tokens_total 100 1\n"
               "vllm:generation_tokens_total 175 2\n"
               "vllm:hisparse_cache_hits_total 0 0\nvllm:hisparse_cache_hits_total 300 1\n"
               "vllm:hisparse_cache_hits_total 400 2\n"
               "vllm:hisparse_cache_misses_total 0 0\nvllm:hisparse_cache_misses_total 90 1\n"
               "vllm:hisparse_cache_misses_total 100 2\n# EOF\n",
               figures);

    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 6);
    ck_assert_double_eq(figures[ENGINE_OUTPUT_TOKENS], 175);
    ck_assert_double_eq_tol(figures[ENGINE_HOT_MISS_RATIO], .2, 1e-12);
}
END_TEST

/* Metric by metric and newest first, each at times of its own: as many scrapes as lines until they
 * are joined. A search for each one's place took a minute, and Check allows seconds. */
START_TEST(metrics_at_interleaved_times_are_read_in_one_go)
{
    enum {
        TIMES = 100000
    };
    size_t room = (size_t)2 * TIMES * 64, used = 0;
    char *text = malloc(room);
    double figures[ENGINE_FIGURES];

    ck_assert_ptr_nonnull(text);
    for (int i = TIMES; i-- > 0;)
        used += (size_t)snprintf(text + used, room - used, "vllm:num_requests_running %d %d\n",
                                 i % 77, 2 * i);
    for (int i = TIMES; i-- > 0;)
        used += (size_t)snprintf(text + used, room - used, "vllm:generation_tokens_total %d %d\n",
                                 3 * i + 10, 2 * i + 1);
    (void)snprintf(text + used, room - used, "# EOF\n");
    figures_of(text, figures);
    free(text);
    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 76);
    ck_assert_double_eq(figures[ENGINE_OUTPUT_TOKENS], 3.0 * (TIMES - 1));
}
END_TEST

/* The same scrape twice is two scrapes: nothing of it counts double. */
START_TEST(a_scrape_that_comes_again_at_its_time_is_another)
{
    double figures[ENGINE_FIGURES];
    figures_of(
        "vllm:num_requests_running 5 1700000000000\nvllm:num_preemptions_total 3 1700000000000\n"
        "vllm:num_requests_running 5 1700000000000\nvllm:num_preemptions_total 3 1700000000000\n"
        "vllm:num_requests_running 4 1700000001000\nvllm:num_preemptions_total 7 1700000001000\n",
        figures);

    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 5);
    ck_assert_double_eq(figures[ENGINE_PREEMPTIONS], 4);
}
END_TEST

/* A scrape of Prometheus has no # EOF, whole ones of OpenMetrics have one each. */
START_TEST(only_openmetrics_ends_in_eof_and_what_is_ours_is_known)
{
    static const struct {
        const char *text;
        bool is_of_kvtide;
    } read[] = {
        {"# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total 1\n", false},
        {"# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total 1\n# EOF\n"
         "# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total 3\n# EOF",
         false},
        {"# HELP vllm:num_preemptions_total as kvtide: counts\nvllm:num_preemptions_total 1\n",
         false},
        {"vllm:num_preemptions_total 1 1\nkvtide:coverage_ratio 1 1\n# EOF\n", true},
        {"# TYPE kvtide:coverage_ratio gauge\nvllm:num_preemptions_total 1\n# EOF\n", true},
    };

    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        struct engine_metrics metrics = {.peak_running = NAN};
        read_into(&metrics, read[i].text);
        ck_assert_int_eq(metrics.is_of_kvtide, read[i].is_of_kvtide);
        engine_metrics_free(&metrics);
    }
}
END_TEST

START_TEST(files_follow_one_another)
{
    struct engine_metrics metrics = {.peak_running = NAN};
    double figures[ENGINE_FIGURES];

    read_into(&metrics, "vllm:generation_tokens_total 100\n");
    read_into(&metrics, "vllm:generation_tokens_total 350\n");
    read_into(&metrics, "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\n"
                        "1.0,3392.0,2.0,5,2,13.2\n2.0,0,9.0,41,0,39.7\n3,0,9,40,1,9\n");
    engine_metrics_figures(&metrics, figures);
    engine_metrics_free(&metrics);
    ck_assert_double_eq(figures[ENGINE_OUTPUT_TOKENS], 250);
    ck_assert_double_eq(figures[ENGINE_PEAK_RUNNING], 41);
}
END_TEST

START_TEST(a_benchmark_is_no_metrics)
{
    struct kvt_error err = {0};
    bool is_one = true;

    ck_assert_int_eq(
        engine_metrics_is_one(written("metrics.prom", "{\"completed\": 1}\n"), &is_one, &err),
        KVT_OK);
    ck_assert(!is_one);
    ck_assert_int_eq(engine_metrics_is_one(written("metrics.prom", ""), &is_one, &err), KVT_OK);
    ck_assert(!is_one);
}
END_TEST

static const struct {
    const char *text, *where, *words;
} refused[] = {
    {"# nothing\n", "", "no sample that is known"},
    {"vllm:other_total 3\n", "", "no sample that is known"},
    {"vllm:num_preemptions_total{a=\"b\"} three\n", ":1", ""},
    {"#\nvllm:num_preemptions_total -1\n", ":2", ""},
    {"vllm:num_preemptions_total NaN\n", ":1", ""},
    {"vllm:num_preemptions_total\n", ":1", ""},
    /* Cut off: in a line, behind a time in seconds, a counter's name without _total, ours. */
    {"vllm:num_preemptions_total 1\nvllm:num_preemptions_total 12", ":2", "cut off"},
    {"vllm:num_preemptions_total 1\nvll", ":2", "expected that of the line: it was cut off"},
    {"vllm:num_requests_running 1 0\nvllm:num_requests_running 1 1\n", ":2", "expected \"# EOF\""},
    {"# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total 1\n", ":2", "\"# EOF\""},
    {"vllm:num_preemptions_total 1\nkvtide:coverage_ratio 1\n", ":2", "\"# EOF\""},
    {"vllm:num_preemptions_total 1 1\n# EOF\nvllm:num_preemptions_total 2 2\n", ":3", "# EOF"},
    /* Nobody knows when this one was. */
    {"vllm:num_preemptions_total 1 1\nvllm:num_preemptions_total 2\n# EOF\n", ":2", "no time"},
    {"t,prompt_throughput,gen_throughput,running,waiting\n1,2\n", ":2", "running is the fourth"},
    {"t,prompt_throughput,gen_throughput,running,waiting\n1,2,3,x,5\n", ":2", ""},
};

START_TEST(what_is_no_sample_is_refused_with_its_line)
{
    struct engine_metrics metrics = {.peak_running = NAN};
    struct kvt_error err = {0};
    const char *path = written("metrics.prom", refused[_i].text);
    char where[SUPPORT_PATH_BYTES + 16];

    ck_assert_int_ne(engine_metrics_read(path, &metrics, &err), KVT_OK);
    engine_metrics_free(&metrics);
    (void)snprintf(where, sizeof where, "%s%s", path, refused[_i].where);
    ck_assert_str_eq(err.where, where);
    ck_assert_msg(strstr(err.message, refused[_i].words) != NULL, "%s", err.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_metrics");
    TCase *texts = tcase_create("texts");
    SRunner *runner = srunner_create(suite);

    tcase_add_checked_fixture(texts, written_folder_make, written_folder_remove);
    tcase_add_test(texts, counters_grow_from_the_first_scrape_to_the_last);
    tcase_add_test(texts, one_scrape_counts_since_the_engine_began);
    tcase_add_test(texts, of_sglangs_ranks_one_is_counted);
    tcase_add_test(texts,
                   samples_of_one_time_are_of_one_scrape_and_of_two_engines_the_first_counts);
    tcase_add_test(texts, counters_may_begin_before_the_metric_that_the_file_begins_with);
    tcase_add_test(texts, metrics_at_interleaved_times_are_read_in_one_go);
    tcase_add_test(texts, a_scrape_that_comes_again_at_its_time_is_another);
    tcase_add_test(texts, only_openmetrics_ends_in_eof_and_what_is_ours_is_known);
    tcase_add_test(texts, files_follow_one_another);
    tcase_add_test(texts, a_benchmark_is_no_metrics);
    tcase_add_loop_test(texts, what_is_no_sample_is_refused_with_its_line, 0,
                        sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, texts);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
