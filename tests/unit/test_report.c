/* test_report.c -- what a run is told as: metrics against values worked out by hand, tables to the
 * letter, a summary that fits its columns, and no memory lost when it runs out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/json.h"
#include "support/small_run.h"
#include "support/support.h"

#define SMALL                                                                                      \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"small\", \"seed\": 1, "                       \
    "\"model\": {\"base\": \"glm-5.3\", \"top_k\": 64, \"weight_bytes\": 2147483648, "             \
    "\"dense_weight_bytes\": 1073741824, \"weights_replicated_gib\": 1, "                          \
    "\"weights_expert_gib\": 1}, \"hardware\": \"b300\", "                                         \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"pools\": {\"unified_gib\": 0.2}}}, "                \
    "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 128}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"slo\": {\"classes\": [{\"name\": \"all\", \"share\": 1, \"ttft_ms\": 150, "                 \
    "\"tpot_ms\": 25}]}, "                                                                         \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 2, \"requests\": 6, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 300}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 20}}}}"

#define MS INT64_C(1000000)

enum {
    RECORDS = 6,
    COLUMNS = 80
};

static struct small_run small;
static struct kvt_run run; /* a copy with records of our own */
static struct kvt_request_record records[RECORDS];

static struct kvt_request_record record_of(kvt_ns arrival_ms, kvt_ns first_ms, kvt_ns last_ms,
                                           uint32_t tokens, enum kvt_request_status status)
{
    bool ended = status == KVT_REQUEST_COMPLETED;
    return (struct kvt_request_record){.arrival_ns = arrival_ms * MS,
                                       .admitted_ns = first_ms < 0 ? KVT_NS_NEVER : arrival_ms * MS,
                                       .first_token_ns =
                                           first_ms < 0 ? KVT_NS_NEVER : first_ms * MS,
                                       .last_token_ns = first_ms < 0 ? KVT_NS_NEVER : last_ms * MS,
                                       .finished_ns = ended ? last_ms * MS : KVT_NS_NEVER,
                                       .session = UINT64_MAX,
                                       .rank = first_ms < 0 ? UINT32_MAX : 1,
                                       .input_tokens = 300,
                                       .output_tokens = 20,
                                       .generated_tokens = tokens,
                                       .status = (uint8_t)status};
}

static void start(void)
{
    small_run_whole(&small, SMALL, NULL);
    run = *small.run;
    records[0] = record_of(0, 100, 200, 11, KVT_REQUEST_COMPLETED);  /* TPOT 10 ms */
    records[1] = record_of(0, 200, 500, 11, KVT_REQUEST_COMPLETED);  /* TPOT 30 ms */
    records[2] = record_of(100, 140, 140, 1, KVT_REQUEST_COMPLETED); /* one token: no TPOT */
    records[3] = record_of(300, 500, 620, 7, KVT_REQUEST_RUNNING);   /* TPOT 20 ms, no E2E */
    records[4] = record_of(400, -1, -1, 0, KVT_REQUEST_WAITING);
    records[5] = record_of(450, -1, -1, 0, KVT_REQUEST_UNSERVABLE);
    run.records = records;
    run.record_count = RECORDS;
    /* What three requests with a TPOT of 10, 30 and 20 ms and four with a TTFT of 100, 200, 40 and
     * 200 ms were waiting for. */
    struct kvt_latency_parts *parts = &run.latency_parts[0];
    *parts = (struct kvt_latency_parts){.ttft_requests = 4, .tpot_requests = 3};
    parts->ttft_ns[KVT_WAIT_QUEUE] = 100.0 * MS;
    parts->ttft_ns[KVT_WAIT_IMPORT] = 440.0 * MS;
    parts->tpot_ns[KVT_PART_DENSE] = 33.0 * MS;
    parts->tpot_ns[KVT_PART_FETCH] = 12.0 * MS;
    parts->tpot_ns[KVT_TOKEN_BACKUP_STALL] = 10.0 * MS;
    parts->tpot_ns[KVT_TOKEN_BESIDE] = 5.0 * MS;
}

static void end(void)
{
    small_run_close(&small);
}

static cJSON *result_of(const struct kvt_run *told)
{
    cJSON *result = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_report_result(told, &result, &err), KVT_OK);
    return result;
}

static void check_metric(const cJSON *result, const char *name, double expected)
{
    const cJSON *item = kvt_json_find(kvt_json_find(result, "metrics"), name);
    ck_assert_msg(item != NULL, "no metric \"%s\"", name);
    if (isnan(expected))
        ck_assert_msg(cJSON_IsNull(item), "%s is not null", name);
    else
        ck_assert_msg(cJSON_IsNumber(item) &&
                          fabs(item->valuedouble - expected) <= 1e-9 * fabs(expected) + 1e-12,
                      "%s is %g, expected %g", name, item->valuedouble, expected);
}

START_TEST(latencies_are_those_of_the_definitions)
{
    cJSON *result = result_of(&run);
    /* TTFT 100, 200, 40, 200 ms: numpy's percentiles of 40 100 200 200. */
    check_metric(result, "mean_ttft_ms", 135);
    check_metric(result, "median_ttft_ms", 150);
    check_metric(result, "p90_ttft_ms", 200);
    check_metric(result, "std_ttft_ms", sqrt((95.0 * 95 + 35 * 35 + 2 * 65 * 65) / 4));
    /* TPOT 10, 30, 20; a request of one token has none. */
    check_metric(result, "mean_tpot_ms", 20);
    check_metric(result, "p99_tpot_ms", 29.8);
    /* E2E 200, 500, 40: of those that have ended. */
    check_metric(result, "mean_e2el_ms", 740.0 / 3);
    check_metric(result, "p50_e2el_ms", 200);
    cJSON_Delete(result);
}
END_TEST

START_TEST(post_wave_leaves_the_first_requests_out)
{
    ck_assert_uint_eq(run.first_wave, 2);
    cJSON *result = result_of(&run);
    check_metric(result, "post_wave_mean_ttft_ms", 120);
    check_metric(result, "post_wave_mean_tpot_ms", 20);
    check_metric(result, "post_wave_p50_e2el_ms", 40);
    cJSON_Delete(result);

    run.closed_loop = false;
    result = result_of(&run);
    check_metric(result, "post_wave_mean_ttft_ms", NAN);
    cJSON_Delete(result);
}
END_TEST

START_TEST(warm_up_cuts_by_arrival)
{
    run.warmup_ns = 100 * MS;
    cJSON *result = result_of(&run);
    check_metric(result, "mean_ttft_ms", 120);
    check_metric(result, "mean_tpot_ms", 20);
    cJSON_Delete(result);
}
END_TEST

START_TEST(of_nothing_there_is_no_mean)
{
    struct kvt_tally nothing = {0};
    run.record_count = 0;
    run.total = nothing;
    cJSON *result = result_of(&run);
    static const char *const undefined[] = {
        "mean_ttft_ms",     "p99_tpot_ms",           "std_e2el_ms",  "output_throughput",
        "host_fetch_share", "request_throughput",    "mean_step_ms", "barrier_wait_share",
        "hot_miss_ratio",   "fetched_rows_per_round"};
    for (size_t i = 0; i < sizeof undefined / sizeof undefined[0]; i++)
        check_metric(result, undefined[i], NAN);
    check_metric(result, "completed", 0);
    cJSON_Delete(result);
}
END_TEST

START_TEST(service_levels_count_who_met_all_their_bounds)
{
    /* Bounds: 150 ms and 25 ms. Of the three that have finished, all in the first second,
     * the second missed both; 99 of 100 must meet them. */
    cJSON *result = result_of(&run);
    double seconds = (double)(run.total.to_ns - run.total.from_ns) * 1e-9;
    check_metric(result, "request_goodput", 2 / seconds);
    check_metric(result, "slo_violation_s", (double)run.end_ns / 1e9); /* less than a second */
    cJSON_Delete(result);
}
END_TEST

START_TEST(rows_of_a_sample_are_scaled_by_kind)
{
    run.stratum_count = 2;
    run.strata[0] = (struct kvt_stratum){.stores = 10, .followed = 2, .selectors = 1};
    run.strata[1] = (struct kvt_stratum){.stores = 3, .followed = 3, .selectors = 1};
    run.total.rounds = 10;
    run.total.rows[0] =
        (struct kvt_row_counts){.selected = 100, .hot = 30, .missed = 10, .filled = 6, .staged = 2};
    run.total.rows[1] =
        (struct kvt_row_counts){.selected = 40, .hot = 10, .missed = 20, .filled = 20};
    const double counts[KVT_SAMPLED_COUNTS] = {[KVT_SAMPLED_SELECTED] = 5 * 100 + 40,
                                               [KVT_SAMPLED_MISSED] = 5 * 10 + 20,
                                               [KVT_SAMPLED_LOOKED_UP] = 5 * 40 + 30,
                                               [KVT_SAMPLED_FETCHED] = 5 * 8 + 20};
    memcpy(run.total.counts, counts, sizeof counts);
    cJSON *result = result_of(&run);
    check_metric(result, "host_fetch_share", (5.0 * 10 + 20) / (5.0 * 100 + 40));
    check_metric(result, "hot_miss_ratio", 70.0 / (70 + 5 * 30 + 10));
    check_metric(result, "fetched_rows_per_round", (5 * 8 + 20) / 10.0);
    const cJSON *scaled = kvt_json_find(result, "scaled");
    const cJSON *rows = kvt_json_find(scaled, "rows");
    const cJSON *first = cJSON_GetArrayItem(kvt_json_find(rows, "strata"), 0);
    ck_assert_double_eq(kvt_json_find(first, "stores")->valuedouble, 10);
    ck_assert_double_eq(kvt_json_find(first, "followed")->valuedouble, 2);
    ck_assert_double_eq(kvt_json_find(first, "scale")->valuedouble, 5);
    ck_assert_int_eq(cJSON_GetArraySize(kvt_json_find(rows, "ci99")), 9);
    cJSON_Delete(result);
}
END_TEST

START_TEST(requests_are_accounted_for_in_one_line)
{
    cJSON *result = result_of(&run);
    const cJSON *requests = kvt_json_find(result, "requests");
    ck_assert_double_eq(kvt_json_find(requests, "arrived")->valuedouble, 6);
    ck_assert_double_eq(kvt_json_find(requests, "completed")->valuedouble, 3);
    ck_assert_double_eq(kvt_json_find(requests, "running")->valuedouble, 1);
    ck_assert_double_eq(kvt_json_find(requests, "waiting")->valuedouble, 1);
    const cJSON *dropped = kvt_json_find(requests, "dropped");
    ck_assert_double_eq(kvt_json_find(dropped, "unservable")->valuedouble, 1);
    cJSON_Delete(result);
}
END_TEST

START_TEST(a_figure_is_found_by_its_name)
{
    static const struct {
        const char *name;
        bool is_there, is_number;
    } names[] = {{"request_goodput", true, true},
                 {"usd_per_hour", true, false},
                 {"classes.all.attained_share", true, true},
                 {"classes.all.p99_tpot_ms", true, true},
                 {"classes.all", false, false},
                 {"classes.all.", false, false},
                 {"classes..attained_share", false, false},
                 {"classes.attained_share", false, false},
                 {"classes.al.attained_share", false, false},
                 {"classes.all.usd_per_hour", false, false},
                 {"kinds.all.attained_share", false, false},
                 {"attained_share", false, false},
                 {"", false, false},
                 {".", false, false}};
    cJSON *result = result_of(&run);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        double value = 7;
        ck_assert_msg(kvt_report_figure(result, names[i].name, &value) == names[i].is_there, "%s",
                      names[i].name);
        ck_assert_msg(!isnan(value) == names[i].is_number, "%s", names[i].name);
    }
    const cJSON *classes = kvt_json_find(result, "classes");
    cJSON *name = cJSON_GetObjectItemCaseSensitive(classes->child, "name");
    ck_assert_ptr_nonnull(cJSON_SetValuestring(name, "a.b"));
    double value;
    ck_assert(kvt_report_figure(result, "classes.a.b.met", &value));
    cJSON_Delete(result);
}
END_TEST

START_TEST(every_documented_metric_is_in_the_result_and_rests_on_something)
{
    size_t count;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *result = result_of(&run);
    const cJSON *metrics = kvt_json_find(result, "metrics");
    const cJSON *basis = kvt_json_find(result, "metrics_basis");
    ck_assert_int_eq(cJSON_GetArraySize(metrics), (int)count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_nonnull(kvt_json_find(metrics, docs[i].name));
        ck_assert(cJSON_IsString(kvt_json_find(basis, docs[i].name)));
        ck_assert_uint_gt(strlen(docs[i].help), 0);
        ck_assert_uint_gt(strlen(docs[i].unit), 0);
    }
    cJSON_Delete(result);
}
END_TEST

static char *written(void (*write)(FILE *stream, const struct kvt_run *told),
                     const struct kvt_run *told)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(stream);
    write(stream, told);
    ck_assert_int_eq(fclose(stream), 0);
    return text;
}

static void write_requests(FILE *stream, const struct kvt_run *told)
{
    kvt_report_requests_csv(told, stream);
}

static void write_timeline(FILE *stream, const struct kvt_run *told)
{
    kvt_report_timeline_header(stream);
    kvt_report_timeline_row(stream, &told->total, told->stratum_count);
}

static void write_summary(FILE *stream, const struct kvt_run *told)
{
    cJSON *result = result_of(told);
    kvt_report_summary(stream, told, result);
    cJSON_Delete(result);
}

START_TEST(the_table_of_requests_is_this_to_the_letter)
{
    records[1].session = 7;
    records[1].turn = 2;
    records[1].line = 13;
    records[1].prefix_hit_tokens = 256;
    records[1].selected_rows = 5000000000;
    records[1].missed_rows = 41;
    records[1].preemptions = 3;
    records[1].interruptions = 2;
    run.record_count = 2;
    records[0] = records[4];
    char *text = written(write_requests, &run);
    const char *rows = strchr(text, '\n') + 1;
    ck_assert_str_eq(rows, "0,400000000,,,,,,300,20,0,waiting,all,0,0,0,,0,,0,0,,\n"
                           "1,0,0,200000000,500000000,500000000,1,300,20,11,completed,all,3,"
                           "5000000000,41,7,2,13,256,2,,0\n");
    free(text);
}
END_TEST

static size_t count_of(const char *text, char c)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == c;
    return count;
}

START_TEST(rows_have_as_many_columns_as_their_header)
{
    static void (*const writers[])(FILE *, const struct kvt_run *) = {write_requests,
                                                                      write_timeline};
    char *text = written(writers[_i], &run);
    char *line = text, *end = NULL;
    size_t commas = 0;
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (line == text)
            commas = count_of(line, ',');
        ck_assert_uint_eq(count_of(line, ','), commas);
    }
    ck_assert_str_eq(line, "");
    ck_assert_uint_gt(commas, 10);
    free(text);
}
END_TEST

START_TEST(a_row_of_the_timeline_is_its_interval)
{
    struct kvt_tally *tally = &run.total;
    *tally = (struct kvt_tally){.from_ns = 1000 * MS,
                                .to_ns = 1500 * MS,
                                .arrived = 3,
                                .output_tokens = 70,
                                .running_ns = 2.0 * 500 * MS,
                                .itl_ns = 50.0 * MS,
                                .itl_count = 4,
                                .coverage_ns = 1,
                                .covered_ns = 4,
                                .interrupted = 9,
                                .down_ns = 1.5 * 500 * MS};
    char *text = written(write_timeline, &run);
    const char *row = strchr(text, '\n') + 1;
    ck_assert_str_eq(row,
                     "1,1.5,3,0,0,0,70,2,0,0,0,,0.25,0,0,0,0,0,0,0,0,0,0,0,0,,,0,0,12.5,1.5,9\n");
    free(text);
}
END_TEST

START_TEST(the_summary_fits_its_columns_and_accounts_for_everything)
{
    struct kvt_scenario scenario = *run.scenario;
    scenario.name = "a-name-of-a-scenario-that-somebody-has-made-as-long-as-a-name-can-well-be-and-"
                    "then-a-bit-longer-still";
    if (_i == 1)
        run.scenario = &scenario;
    run.warmup_ns = 50 * MS;
    run.total.preemptions = 12345678;
    run.total.backup_stall_ns = 1234567 * MS;
    char *text = written(write_summary, &run);
    for (char *line = text, *end = NULL; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        ck_assert_msg(end - line <= COLUMNS, "%.*s", (int)(end - line), line);
        ck_assert_msg(end == line || end[-1] != ' ', "\"%.*s\"", (int)(end - line), line);
    }
    ck_assert_ptr_nonnull(
        strstr(text, "arrived 6 = completed 3 + running 1 + waiting 1 + dropped 1"));
    static const char *const lines[] = {"\nselected ", "\ndistinct ", "\nTPOT       ",
                                        "\nlimit ",    "\nbasis ",    "\nbadge "};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert_ptr_nonnull(strstr(text, lines[i]));
    ck_assert_ptr_nonnull(strstr(text, "stall"));
    free(text);
}
END_TEST

START_TEST(waves_are_told_where_there_can_be_any)
{
    struct kvt_scenario scenario = *run.scenario;
    static const double fractions[] = {0, 1, 0.25};
    run.scenario = &scenario;
    run.total.decode_steps = 4;
    run.total.staging_waves = 1234;
    run.total.staging_peak_bytes = UINT64_C(5) << 19;
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
        scenario.staging_fraction = fractions[i];
        char *text = written(write_summary, &run);
        const char *line = strstr(text, "\nstaging ");
        ck_assert_int_eq(line != NULL, i == 2);
        if (line != NULL) {
            ck_assert_ptr_nonnull(strstr(line, ": 1234 waves "));
            ck_assert_ptr_nonnull(strstr(line, "308.50 a"));
            ck_assert_ptr_nonnull(strstr(line, "2.5 MiB"));
        }
        free(text);
    }
    run.scenario = NULL;
}
END_TEST

/* Sum of the members, which are numbers. */
static double sum_of(const cJSON *object)
{
    const cJSON *item;
    double sum = 0;
    cJSON_ArrayForEach(item, object) sum += item->valuedouble;
    return sum;
}

START_TEST(the_parts_of_a_latency_sum_to_it)
{
    static const char *const latencies[] = {"tpot", "ttft"};
    cJSON *result = result_of(&run);
    const cJSON *tree = kvt_json_find(result, "explain");
    for (size_t i = 0; i < 2; i++) {
        const cJSON *latency = kvt_json_find(tree, latencies[i]);
        ck_assert_double_eq_tol(kvt_json_find(latency, "ms")->valuedouble,
                                sum_of(kvt_json_find(latency, "parts_ms")), 1e-9);
    }
    const cJSON *parts = kvt_json_find(kvt_json_find(tree, "tpot"), "parts_ms");
    ck_assert_double_eq_tol(kvt_json_find(parts, "fetch")->valuedouble, 4, 1e-12);
    ck_assert_double_eq_tol(kvt_json_find(parts, "backup_stall")->valuedouble, 10 / 3.0, 1e-12);
    const cJSON *step = kvt_json_find(tree, "step");
    ck_assert_double_eq_tol(kvt_json_find(step, "ms")->valuedouble,
                            sum_of(kvt_json_find(step, "parts_ms")), 1e-9);
    cJSON_Delete(result);
    char *text = written(write_summary, &run);
    ck_assert_ptr_nonnull(
        strstr(text, "\nTPOT       20.0 ms = dense 11.0 + fetch 4.0 + backup stall 3.3"));
    free(text);
}
END_TEST

START_TEST(a_result_for_which_memory_runs_out_leaves_nothing_behind)
{
    if (!support_can_fail_allocations())
        return;
    kvt_status status = KVT_ERR_NOMEM;
    for (uint64_t nth = 0; status != KVT_OK; nth++) {
        cJSON *result = NULL;
        struct kvt_error err = {0};
        support_fail_allocation(nth);
        status = kvt_report_result(&run, &result, &err);
        bool failed = support_allocation_failed();
        ck_assert_uint_eq(status == KVT_OK, !failed);
        if (failed)
            ck_assert_int_eq(status, KVT_ERR_NOMEM);
        ck_assert_uint_eq(result != NULL, status == KVT_OK);
        cJSON_Delete(result);
    }
}
END_TEST

START_TEST(a_run_for_which_memory_runs_out_leaves_nothing_behind)
{
    if (!support_can_fail_allocations())
        return;
    kvt_status status = KVT_ERR_NOMEM;
    for (uint64_t nth = 0; status != KVT_OK; nth += nth < 200 ? 1 : 37) {
        struct kvt_sim *sim = NULL;
        struct kvt_error err = {0};
        bool more = true;
        support_fail_allocation(nth);
        status = kvt_sim_new(&small.scenario, NULL, &sim, &err);
        while (status == KVT_OK && more)
            status = kvt_sim_step(sim, &more, &err);
        bool failed = support_allocation_failed();
        ck_assert_uint_eq(status == KVT_OK, !failed);
        kvt_sim_free(sim);
    }
}
END_TEST

static Suite *report_suite(void)
{
    Suite *suite = suite_create("report");
    TCase *tcase = tcase_create("report");
    tcase_add_checked_fixture(tcase, start, end);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, latencies_are_those_of_the_definitions);
    tcase_add_test(tcase, post_wave_leaves_the_first_requests_out);
    tcase_add_test(tcase, warm_up_cuts_by_arrival);
    tcase_add_test(tcase, of_nothing_there_is_no_mean);
    tcase_add_test(tcase, service_levels_count_who_met_all_their_bounds);
    tcase_add_test(tcase, rows_of_a_sample_are_scaled_by_kind);
    tcase_add_test(tcase, requests_are_accounted_for_in_one_line);
    tcase_add_test(tcase, a_figure_is_found_by_its_name);
    tcase_add_test(tcase, every_documented_metric_is_in_the_result_and_rests_on_something);
    tcase_add_test(tcase, the_table_of_requests_is_this_to_the_letter);
    tcase_add_loop_test(tcase, rows_have_as_many_columns_as_their_header, 0, 2);
    tcase_add_test(tcase, a_row_of_the_timeline_is_its_interval);
    tcase_add_loop_test(tcase, the_summary_fits_its_columns_and_accounts_for_everything, 0, 2);
    tcase_add_test(tcase, waves_are_told_where_there_can_be_any);
    tcase_add_test(tcase, the_parts_of_a_latency_sum_to_it);
    tcase_add_test(tcase, a_result_for_which_memory_runs_out_leaves_nothing_behind);
    tcase_add_test(tcase, a_run_for_which_memory_runs_out_leaves_nothing_behind);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(report_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
