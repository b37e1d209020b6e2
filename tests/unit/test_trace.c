/* test_trace.c -- trace files: what each format means, and rates that become requests. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/workload.h"
#include "support/support.h"
#include "support/traces.h"

/* ---- Formats ---------------------------------------------------------------------- */

/* rebased_s and requests were worked out by hand from the files. */
static const struct sample {
    const char *file, *format;
    double rebased_s, span_s;
    const char *requests;
} samples[] = {
    {"kvtide.csv", "kvtide", 2.5, 1.5,
     "0:2385/17 s7.0 chat; 250000000:1190/3 batch; 1500000000:64/1 s7.1 chat"},
    {"mooncake.jsonl", "mooncake", 0, 3, "0:1300/52; 0:512/26; 3000000000:513/2"},
    {"azure2023.csv", "azure", 1700158623.97996, 56.02004,
     "0:4808/10; 52000100:3180/8; 56020040000:110/27"},
    {"azure2024.csv", "azure", 1715299199.00993, 1.49007,
     "0:2162/5; 990070000:2399/6; 1490070000:76/15"},
    {"burstgpt1.csv", "burstgpt", 5, 40, "0:472/18; 40000000000:1087/230"},
    {"burstgpt-without-fails.csv", "burstgpt", 7, 0, "0:64/3; 0:65/4"},
    {"qwen-bailian.jsonl", "qwen-bailian", 61.114, 29.886,
     "0:33/132 s159.0; 9136000000:48/5 s159.1; 29386000000:49/6 s159.2; "
     "29886000000:16/1 s162.0"},
    {"llmservingsim.jsonl", "llmservingsim", 0.101537, 25e-9, "0:27369/1626; 25:11/2"},
    {"llmservingsim-bench.jsonl", "llmservingsim", 1787267980.25, 0.5,
     "0:2358/531; 500000000:1034/769"},
    {"llmservingsim-conversation.jsonl", "llmservingsim-agentic", 0, 2.5,
     "0:100/5 s0.0; 0:164/7 s0.1; 2500000000:30/4 s1.0"},
    {"vidur.csv", "vidur", 0, 0.183, "0:374/44; 183000000:396/109"},
    {"splitwise.csv", "splitwise", 0.25, 1.5, "0:374/44; 1500000000:396/109"},
    {"vllm.json", "vllm", 27536.5, 63.5, "0:100/4; 0:300/2; 63500000000:64/1"},
    {"vllm-document.json", "vllm", 10.5, 0.25, "0:100/4; 250000000:200/3"},
    {"sglang.jsonl", "sglang", 1, 0.5, "0:7/2; 500000000:8/3"},
    {"apex.jsonl", "apex", 0.002, 0.003000001, "0:900/12; 3000001:901/13"},
    {"other.csv", "csv", 0.001, 0.0005, "0:12/3; 500000:13/4"},
    {"other.jsonl", "jsonl", 0.0025, 0.0015, "0:10/4; 1500000:11/5"},
};

START_TEST(each_format_is_recognised_by_its_content_and_means_what_its_source_says)
{
    const struct sample *sample = &samples[_i];
    char file[256];
    struct kvt_trace_account account;
    (void)snprintf(file, sizeof file, TRACES_DATA "%s", sample->file);
    ck_assert_str_eq(traces_requests_of(file, &account), sample->requests);
    ck_assert_str_eq(account.format, sample->format);
    ck_assert_double_eq_tol(account.rebased_s, sample->rebased_s, 1e-6);
    ck_assert_double_eq_tol(account.span_s, sample->span_s, 1e-12);
}
END_TEST

START_TEST(a_file_s_name_does_not_count)
{
    size_t byte_count = 0;
    char *bytes = support_read(TRACES_DATA "mooncake.jsonl", &byte_count);
    char other[SUPPORT_PATH_BYTES];
    struct kvt_trace_account account;
    support_write(support_path(traces_folder(), "azure.csv", other), bytes, byte_count);
    free(bytes);
    (void)traces_requests_of(other, &account);
    ck_assert_str_eq(account.format, "mooncake");
}
END_TEST

START_TEST(a_format_that_is_named_must_fit)
{
    struct kvt_trace_options options = traces_options(TRACES_DATA "azure2023.csv");
    struct kvt_trace_account account;
    options.format = "csv";
    (void)traces_requests_with(&options, &account);
    ck_assert_str_eq(account.format, "csv");

    options.format = "mooncake";
    traces_assert_holds(traces_refusal_with(&options), "format mooncake is JSON; this file is CSV");
    options.format = "azur";
    traces_assert_holds(traces_refusal_with(&options),
                        "KVT_ERR_NOT_FOUND " TRACES_DATA
                        "azure2023.csv: \"azur\" is no trace format; there are: auto, kvtide, ");
}
END_TEST

/* The reader alone would take the first three: the names are ones that it knows. */
static const struct {
    const char *file, *format, *says;
} misnamed[] = {
    {"kvtide.csv", "burstgpt",
     "format burstgpt has timestamp, request_tokens, response_tokens; "
     "found: arrival_s, input_tokens, output_tokens"},
    {"kvtide.csv", "burstgpt", "task; this looks like format kvtide"},
    {"apex.jsonl", "mooncake", "; this looks like format apex"},
    {"azure2023.csv", "burstgpt", "; this looks like format azure"},
    {"splitwise.csv", "servegen", "rows of numbers, without a header; found: "},
    {"mooncake.jsonl", "weka", "format weka has id, requests; found: "},
};

START_TEST(a_named_format_is_one_that_the_file_has)
{
    char file[128];

    (void)snprintf(file, sizeof file, TRACES_DATA "%s", misnamed[_i].file);
    struct kvt_trace_options options = traces_options(file);
    options.format = misnamed[_i].format;
    const char *refusal = traces_refusal_with(&options);
    traces_assert_holds(refusal, "KVT_ERR_INVALID ");
    traces_assert_holds(refusal, misnamed[_i].says);
}
END_TEST

START_TEST(failed_calls_are_dropped_and_counted)
{
    struct kvt_trace_account account;
    (void)traces_requests_of(TRACES_DATA "vllm.json", &account);
    ck_assert_uint_eq(account.rows_read, 4);
    ck_assert_uint_eq(account.dropped[KVT_DROP_FAILED], 1);
    (void)traces_requests_of(TRACES_DATA "burstgpt1.csv", &account);
    ck_assert_uint_eq(account.rows_read, 3);
    ck_assert_uint_eq(account.dropped[KVT_DROP_ZERO_OUTPUT], 1);
}
END_TEST

START_TEST(a_call_without_any_token_has_failed_even_where_no_error_is_kept)
{
    static const char text[] =
        "{\"tokenizer_id\": 1, \"request_throughput\": 1, \"start_times\": [1, 2], \"input_lens\": "
        "[5, 6], \"output_lens\": [3, 3], \"ttfts\": [0.0, 0.0], \"itls\": [[], [0.1]]}";
    struct kvt_trace_account account;
    ck_assert_str_eq(traces_requests_of_bytes(text, sizeof text - 1, &account), "0:6/3");
    ck_assert_uint_eq(account.dropped[KVT_DROP_FAILED], 1);
}
END_TEST

START_TEST(a_conversation_is_kept_by_name_or_by_parent)
{
    struct kvt_trace_account account;
    (void)traces_requests_of(TRACES_DATA "qwen-bailian.jsonl", &account);
    ck_assert_uint_eq(account.orphan_turns, 1);

    struct kvt_trace_options options = traces_options(TRACES_DATA "mooncake-superset.jsonl");
    struct kvt_trace *trace = traces_opened(&options);
    struct kvt_request_spec first;
    struct kvt_request_spec second;
    bool more = false;
    ck_assert_int_eq(kvt_trace_next(trace, &first, &more, NULL), KVT_OK);
    ck_assert_int_eq(kvt_trace_next(trace, &second, &more, NULL), KVT_OK);
    ck_assert_uint_ne(first.session, UINT64_MAX);
    ck_assert_uint_eq(first.session, second.session);
    ck_assert_int_eq(second.arrival_ns, 250500000);
    ck_assert_uint_eq(second.line, 3);
    kvt_trace_close(trace);

    options.path = TRACES_DATA "burstgpt3.csv";
    trace = traces_opened(&options);
    ck_assert_int_eq(kvt_trace_next(trace, &first, &more, NULL), KVT_OK);
    ck_assert_int_eq(kvt_trace_next(trace, &second, &more, NULL), KVT_OK);
    ck_assert_uint_ne(first.session, UINT64_MAX);
    ck_assert_uint_eq(second.session, UINT64_MAX);
    kvt_trace_close(trace);
}
END_TEST

START_TEST(what_cannot_be_replayed_is_refused_with_the_reason)
{
    static const struct {
        const char *file, *says;
    } cases[] = {
        {"guidellm.csv", "a summary, without a single request; give GuideLLM's benchmarks.json"},
        {"vllm-summary.json", "no array \"start_times\": only a result saved with every request"},
        {"vidur-no-arrivals.csv", "no column for the arrival time; it may be named arrival_s, "},
        {"client-dataset.json", "are no format's; there are: kvtide, "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char file[256];
        (void)snprintf(file, sizeof file, TRACES_DATA "%s", cases[i].file);
        struct kvt_trace_options options = traces_options(file);
        traces_assert_holds(traces_refusal_with(&options), cases[i].says);
    }
}
END_TEST

/* ---- ServeGen ------------------------------------------------------------------------ */

/* 0.05/s and 0.02/s over 600 s each: 30 and 12 requests, each inside its window. */
START_TEST(rates_become_as_many_requests_as_they_say_inside_their_windows)
{
    struct kvt_trace_options options = traces_options(TRACES_DATA "client-trace.csv");
    struct kvt_trace *trace = traces_opened(&options);
    const struct kvt_trace_account *account = kvt_trace_account_of(trace);
    ck_assert_uint_eq(account->rows_read, 4);
    ck_assert_uint_eq(account->used, 2);
    ck_assert_uint_eq(account->dropped[KVT_DROP_IDLE], 2);
    ck_assert_uint_eq(account->requests, 42);
    for (int i = 0; i < 42; i++) {
        struct kvt_request_spec spec;
        bool more = false;
        ck_assert_int_eq(kvt_trace_next(trace, &spec, &more, NULL), KVT_OK);
        ck_assert(more);
        double time_s = (double)spec.arrival_ns / 1e9 + account->rebased_s;
        ck_assert_double_ge(time_s, i < 30 ? 600 : 1200);
        ck_assert_double_le(time_s, i < 30 ? 1200 : 1800);
        ck_assert_uint_eq(spec.line, i < 30 ? 2 : 3);
        if (i < 30) {
            ck_assert(spec.input_tokens == 104 || spec.input_tokens == 313);
            ck_assert_uint_eq(spec.output_tokens, 3); /* its other length, 0, is a failed call */
        } else {
            ck_assert_uint_eq(spec.input_tokens, 7);
            ck_assert(spec.output_tokens == 1 || spec.output_tokens == 2 ||
                      spec.output_tokens == 79);
        }
    }
    kvt_trace_close(trace);
}
END_TEST

START_TEST(rates_give_the_same_requests_for_a_seed_and_others_for_another)
{
    struct kvt_trace_options options = traces_options(TRACES_DATA "client-trace.csv");
    struct kvt_trace_account account;
    char first[4096];
    (void)snprintf(first, sizeof first, "%s", traces_requests_with(&options, &account));
    ck_assert_str_eq(traces_requests_with(&options, &account), first);
    options.run_seed = 12;
    ck_assert_str_ne(traces_requests_with(&options, &account), first);
}
END_TEST

START_TEST(a_window_of_time_keeps_a_row_of_rates_when_one_of_its_requests_is_inside)
{
    struct kvt_trace_options options = traces_options(TRACES_DATA "client-trace.csv");
    struct kvt_trace_account account;
    options.window_from_s = 300;
    (void)traces_requests_with(&options, &account);
    ck_assert_uint_eq(account.used, 2);
    ck_assert_uint_lt(account.requests, 42);
    ck_assert_uint_gt(account.requests, 12);
    options.window_from_s = 700;
    (void)traces_requests_with(&options, &account);
    ck_assert_uint_eq(account.used, 1);
    ck_assert_uint_eq(account.dropped[KVT_DROP_OUTSIDE_WINDOW], 1);
}
END_TEST

/* Writes the pair and tells what is said of it. */
static const char *servegen_refusal(const char *rates, const char *dataset)
{
    char file[SUPPORT_PATH_BYTES];
    support_write(support_path(traces_folder(), "c-dataset.json", file), dataset, strlen(dataset));
    support_write(support_path(traces_folder(), "c-trace.csv", file), rates, strlen(rates));
    struct kvt_trace_options options = traces_options(file);
    return traces_refusal_with(&options);
}

#define WINDOW(input, output)                                                                      \
    "{\"0\": {\"input_tokens\": \"" input "\", \"output_tokens\": \"" output "\"}}"

START_TEST(malformed_rates_and_histograms_are_refused_with_their_place)
{
    static const char good[] = WINDOW("{5: 1}", "{ 6 : 0.5 , 7 : 0.5 }");
    static const struct {
        const char *rates, *dataset, *says;
    } cases[] = {
        {"0,1,1,Gamma,1\n", good, "c-trace.csv:1: the row has 5 fields; there are 6"},
        {"0,1,1,Pareto,1,1\n", good, "c-trace.csv:1:4: \"Pareto\" is no law of gaps"},
        {"0,-1,1,Gamma,1,1\n", good, "c-trace.csv:1:2: "},
        {"0,1,1,Gamma,0,1\n", good, "c-trace.csv:1: the shape 0 of a window"},
        {"0,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", good, "c-trace.csv:1: the window after this one"},
        {"0,1000000,1,Gamma,1,1\n", good, "c-trace.csv:1: this window would hold more than"},
        {"0,1,1,Gamma,1,1\n", WINDOW("{}", "{6: 1}"), "the dataset has no lengths for this time"},
        {"0,1,1,Gamma,1,1\n", WINDOW("{5: 1", "{6: 1}"),
         "c-dataset.json#/0/input_tokens: a histogram is written {length: share, ...}"},
        {"0,1,1,Gamma,1,1\n", WINDOW("{5: 1} 2", "{6: 1}"), "does not go on as one: \"2\""},
        {"0,1,1,Gamma,1,1\n", WINDOW("{5: 1, 5: 1}", "{6: 1}"), "length 5 is here twice"},
        {"0,1,1,Gamma,1,1\n", WINDOW("{5: -1}", "{6: 1}"), "c-dataset.json#/0/input_tokens: "},
        {"0,1,1,Gamma,1,1\n", WINDOW("{5.5: 1}", "{6: 1}"), "c-dataset.json#/0/input_tokens: "},
        {"0,1,1,Gamma,1,1\n", WINDOW("[5, 1]", "{6: 1}"), "does not go on as one: \"[5, 1]\""},
        {"0,1,1,Gamma,1,1\n", "{\"0\": {\"input_tokens\": \"{5: 1}\"}}", "output_tokens"},
        {"0,1,1,Gamma,1,1\n", "[]", "c-dataset.json: an object of windows is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        traces_assert_holds(servegen_refusal(cases[i].rates, cases[i].dataset), cases[i].says);
}
END_TEST

START_TEST(rates_without_their_lengths_are_refused)
{
    traces_assert_holds(
        traces_refusal_of("0,1,1,Gamma,1,1\n", 16),
        "a ServeGen file is named *-trace.csv and has its *-dataset.json beside it");
    char file[SUPPORT_PATH_BYTES];
    support_write(support_path(traces_folder(), "lone-trace.csv", file), "0,1,1,Gamma,1,1\n", 16);
    struct kvt_trace_options options = traces_options(file);
    traces_assert_holds(traces_refusal_with(&options), "KVT_ERR_NOT_FOUND lone-dataset.json");
}
END_TEST

static Suite *trace_suite(void)
{
    Suite *suite = suite_create("trace");

    TCase *formats = tcase_create("formats");
    tcase_add_checked_fixture(formats, traces_folder_make, traces_folder_remove);
    tcase_add_loop_test(formats,
                        each_format_is_recognised_by_its_content_and_means_what_its_source_says, 0,
                        (int)(sizeof samples / sizeof samples[0]));
    tcase_add_test(formats, a_file_s_name_does_not_count);
    tcase_add_test(formats, a_format_that_is_named_must_fit);
    tcase_add_loop_test(formats, a_named_format_is_one_that_the_file_has, 0,
                        sizeof misnamed / sizeof misnamed[0]);
    tcase_add_test(formats, failed_calls_are_dropped_and_counted);
    tcase_add_test(formats, a_call_without_any_token_has_failed_even_where_no_error_is_kept);
    tcase_add_test(formats, a_conversation_is_kept_by_name_or_by_parent);
    tcase_add_test(formats, what_cannot_be_replayed_is_refused_with_the_reason);
    suite_add_tcase(suite, formats);

    TCase *rates = tcase_create("rates");
    tcase_add_checked_fixture(rates, traces_folder_make, traces_folder_remove);
    tcase_add_test(rates, rates_become_as_many_requests_as_they_say_inside_their_windows);
    tcase_add_test(rates, rates_give_the_same_requests_for_a_seed_and_others_for_another);
    tcase_add_test(rates, a_window_of_time_keeps_a_row_of_rates_when_one_of_its_requests_is_inside);
    tcase_add_test(rates, malformed_rates_and_histograms_are_refused_with_their_place);
    tcase_add_test(rates, rates_without_their_lengths_are_refused);
    suite_add_tcase(suite, rates);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(trace_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
