/* test_calibrate.c -- terms of a step out of benchmarks whose engine is known. */
#include <check.h>
#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/calibrate.h"
#include "support/written.h"

enum {
    REQUESTS_MAX = 64,
    TOKENS_MAX = 512
};

/* An engine of known costs, stepped token by token: who is in decodes, and one prompt at a time is
 * computed in a step of its own or beside. An oracle that shares nothing with the windows. */
struct engine {
    double step_s, query_s, row_s, token_s;
    size_t batch; /* most that run at once */
};

struct served {
    struct engine_request requests[REQUESTS_MAX];
    double later[REQUESTS_MAX][TOKENS_MAX];
    size_t count;
};

static double step_seconds(const struct engine *engine, const struct served *served,
                           const uint32_t *made, size_t from, size_t to, double prompt_tokens)
{
    double queries = 0, rows = 0;

    for (size_t i = from; i < to; i++) {
        const struct engine_request *request = &served->requests[i];
        if (made[i] == 0 || made[i] >= request->output_tokens)
            continue;
        queries++;
        rows += request->input_tokens + made[i] + 0.5;
    }
    return (queries > 0 || prompt_tokens > 0 ? engine->step_s : 0) + queries * engine->query_s +
           rows * engine->row_s + prompt_tokens * engine->token_s;
}

/* Everybody is there at time 0 and is let in in order, as far as the batch goes. */
static void serve(const struct engine *engine, struct served *served)
{
    uint32_t made[REQUESTS_MAX] = {0};
    size_t begun = 0, ended = 0;
    double now_s = 0;

    while (ended < served->count) {
        bool admits = begun < served->count && begun - ended < engine->batch;
        double prompt = admits ? served->requests[begun].input_tokens : 0;
        double begin_s = now_s;
        now_s += step_seconds(engine, served, made, 0, begun, prompt);
        for (size_t i = 0; i < begun; i++) {
            struct engine_request *request = &served->requests[i];
            if (made[i] >= request->output_tokens)
                continue;
            served->later[i][made[i] - 1] = now_s - request->first_s;
            request->last_s = now_s;
            ended += ++made[i] >= request->output_tokens;
        }
        if (!admits)
            continue;
        struct engine_request *request = &served->requests[begun];
        request->scheduled_s = begin_s;
        request->first_s = request->last_s = now_s;
        made[begun++] = 1;
    }
}

/* Lengths of no pattern, and prompts long enough to be seen. */
static void serve_some(const struct engine *engine, size_t count, bool tells_deliveries,
                       struct served *served, struct engine_run *run)
{
    *served = (struct served){.count = count};
    for (size_t i = 0; i < count; i++)
        served->requests[i] =
            (struct engine_request){.input_tokens = 200 + (uint32_t)(i * 7919 % 1801),
                                    .output_tokens = 40 + (uint32_t)(i * 6007 % 397)};
    serve(engine, served);
    for (size_t i = 0; i < count && tells_deliveries; i++) {
        served->requests[i].later_s = served->later[i];
        served->requests[i].later_count = served->requests[i].output_tokens - 1;
    }
    *run = (struct engine_run){
        .path = "test", .engine = "vllm", .requests = served->requests, .request_count = count};
}

static const struct engine known = {
    .step_s = 12e-3, .query_s = 60e-6, .row_s = 0.25e-6, .token_s = 90e-6, .batch = 12};

static void assert_term(const struct fit *fit, enum window_sum term, double seconds, double share)
{
    ck_assert_int_eq(fit->terms[term].state, TERM_FITTED);
    ck_assert_msg(fabs(fit->terms[term].ns * 1e-9 / seconds - 1) <= share, "term %d: %g ns, not %g",
                  term, fit->terms[term].ns, seconds * 1e9);
}

static struct fit fitted(const struct engine_run *run, double from_s, double to_s)
{
    struct windows windows = {.items = NULL};
    struct fit fit;
    struct kvt_error err = {0};

    ck_assert_msg(windows_of_run(run, 0, from_s, to_s, 2048, &windows, &err) == KVT_OK, "%s",
                  err.message);
    ck_assert_msg(fit_windows(&windows, &fit, &err) == KVT_OK, "%s", err.message);
    windows_free(&windows);
    return fit;
}

START_TEST(known_costs_come_back_out_of_deliveries)
{
    static struct served served;
    struct engine_run run;
    serve_some(&known, 48, true, &served, &run);
    const struct fit fit = fitted(&run, 0, 0);

    assert_term(&fit, WINDOW_STEPS, known.step_s, .01);
    assert_term(&fit, WINDOW_QUERIES, known.query_s, .1);
    assert_term(&fit, WINDOW_CONTEXT_ROWS, known.row_s, .1);
    assert_term(&fit, WINDOW_PREFILL_TOKENS, known.token_s, .02);
    ck_assert_double_lt(fit.left_out.mape, .01);
    ck_assert_double_lt(fabs(fit.left_out.bias), .005);
    ck_assert_uint_eq(fit.part_count, 10);
}
END_TEST

/* Only first and last tokens are told: tokens are spread over time, and little is lost. */
START_TEST(known_costs_come_back_out_of_whole_requests)
{
    static struct served served;
    struct engine_run run;
    serve_some(&known, 64, false, &served, &run);
    const struct fit fit = fitted(&run, 0, 0);

    assert_term(&fit, WINDOW_STEPS, known.step_s, .05);
    assert_term(&fit, WINDOW_PREFILL_TOKENS, known.token_s, .06);
    ck_assert_double_lt(fit.left_out.mape, .01);
}
END_TEST

/* A request in seven stands still for two seconds. */
START_TEST(requests_that_stand_still_are_outliers)
{
    static struct served served;
    struct engine_run run;
    serve_some(&known, 64, false, &served, &run);
    for (size_t i = 0; i < served.count; i += 7)
        served.requests[i].last_s += 2;
    const struct fit fit = fitted(&run, 0, 0);

    assert_term(&fit, WINDOW_STEPS, known.step_s, .12);
    ck_assert_double_ge(fit.outlier_share, 10.0 / 128);
    ck_assert_double_lt(fit.own.median_abs, .02);
}
END_TEST

/* One at a time, and nobody says when prompts were begun: a request is a step. */
START_TEST(what_a_benchmark_cannot_tell_is_said)
{
    static struct served served;
    struct engine_run run;
    struct engine alone = known;
    alone.batch = 1;
    serve_some(&alone, 24, true, &served, &run);
    for (size_t i = 0; i < served.count; i++)
        served.requests[i].scheduled_s = NAN;
    const struct fit fit = fitted(&run, 0, 0);

    ck_assert_int_eq(fit.terms[WINDOW_QUERIES].state, TERM_SAME);
    ck_assert_int_eq(fit.terms[WINDOW_QUERIES].like, WINDOW_STEPS);
    ck_assert_int_ne(fit.terms[WINDOW_PREFILL_TOKENS].state, TERM_FITTED);
    assert_term(&fit, WINDOW_STEPS, known.step_s + known.query_s, .001);
    assert_term(&fit, WINDOW_CONTEXT_ROWS, known.row_s, .01);
    ck_assert(isinf(fit.condition));
}
END_TEST

/* Nothing behind the window's end is looked at. */
START_TEST(a_window_takes_what_lies_in_it)
{
    static struct served served;
    struct engine_run run;
    struct windows half = {.items = NULL};
    struct kvt_error err;
    serve_some(&known, 48, true, &served, &run);
    double middle_s = served.requests[24].first_s;

    ck_assert_int_eq(windows_of_run(&run, 3, 0, middle_s, 2048, &half, &err), KVT_OK);
    ck_assert_uint_gt(half.count, 20);
    for (size_t i = 0; i < half.count; i++) {
        ck_assert_double_le(half.items[i].end_s, middle_s);
        ck_assert_uint_eq(half.items[i].run, 3);
        ck_assert(i == 0 || half.items[i - 1].end_s <= half.items[i].end_s);
    }
    ck_assert_double_le(half.most[WINDOW_QUERIES], 12);
    windows_free(&half);
}
END_TEST

/* Means of runs at several concurrencies, exact: TPOT linear in the batch. */
START_TEST(means_of_several_runs_are_enough)
{
    struct windows windows = {.items = NULL};
    struct kvt_error err = {0};
    struct fit fit;

    for (size_t r = 0; r < 12; r++) {
        double active = (double)(1 + r * 3), tpot_s = 10e-3 + 200e-6 * active;
        struct engine_run run = {.path = "means", .line = r + 1, .engine = "sglang"};
        for (int f = 0; f < ENGINE_FIGURES; f++)
            run.figures[f] = NAN;
        run.figures[ENGINE_COMPLETED] = 100;
        run.figures[ENGINE_MEAN_TPOT] = 1e3 * tpot_s;
        run.figures[ENGINE_INPUT_TOKENS] = 0; /* made up, so that prompts take nothing */
        run.figures[ENGINE_OUTPUT_TOKENS] = 100 * 201;
        run.figures[ENGINE_DURATION] = 100 * 200 * tpot_s / active;
        ck_assert_msg(windows_of_run(&run, r, 0, 0, 2048, &windows, &err) == KVT_OK, "%s",
                      err.message);
    }
    ck_assert_msg(fit_windows(&windows, &fit, &err) == KVT_OK, "%s", err.message);
    assert_term(&fit, WINDOW_STEPS, 10e-3, .001);
    assert_term(&fit, WINDOW_QUERIES, 200e-6, .001);
    ck_assert_int_eq(fit.terms[WINDOW_CONTEXT_ROWS].state, TERM_SAME); /* 100.5 rows a query */
    ck_assert_int_eq(fit.terms[WINDOW_PREFILL_TOKENS].state, TERM_ABSENT);
    ck_assert(fit.parts_are_runs);
    ck_assert_uint_eq(fit.part_count, 12);
    ck_assert_double_lt(fit.left_out.mape, 1e-6);
    windows_free(&windows);
}
END_TEST

START_TEST(too_few_windows_are_no_answer)
{
    static struct served served;
    struct engine_run run;
    struct windows windows = {.items = NULL};
    struct kvt_error err;
    struct fit fit;
    serve_some(&known, 2, false, &served, &run);

    ck_assert_int_eq(windows_of_run(&run, 0, 0, 0, 2048, &windows, &err), KVT_OK);
    ck_assert_int_eq(fit_windows(&windows, &fit, &err), KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "at least 8 are expected"));
    windows_free(&windows);
}
END_TEST

/* ---- Files ------------------------------------------------------------------------------------
 */

#define FIGURES                                                                                    \
    "\"duration\": 10, \"completed\": 2, \"total_input_tokens\": 30, \"total_output_tokens\": 7, " \
    "\"mean_ttft_ms\": 350, \"mean_tpot_ms\": 101"
#define ARRAYS                                                                                     \
    ", \"start_times\": [100.5, 100, 101], \"input_lens\": [20, 10, 5], \"output_lens\": [3, 4, "  \
    "0],"                                                                                          \
    " \"ttfts\": [0.25, 0.5, 0], \"itls\": [[0.1, 0.2], [0.1, 0.1, 0.4], []]"

/* Times by hand; the third failed, the second arrived first. */
START_TEST(requests_of_vllm_stand_on_one_clock_in_order_of_arrival)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    struct engine_run *runs = NULL;
    struct kvt_error err = {0};
    size_t count = 0;
    const char *path = written(
        "bench.json", "{" FIGURES ARRAYS ", \"tokenizer_id\": \"t\", \"request_rate\": \"inf\"}\n");

    ck_assert_msg(engine_bench_load(path, arena, &runs, &count, &err) == KVT_OK, "%s", err.message);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(runs[0].engine, "vllm");
    ck_assert_uint_eq(runs[0].request_count, 2);
    ck_assert_uint_eq(runs[0].failed, 1);
    const struct engine_request *first = &runs[0].requests[0], *second = &runs[0].requests[1];
    ck_assert_uint_eq(first->input_tokens, 10);
    ck_assert_double_eq(first->arrival_s, 0);
    ck_assert_double_eq_tol(first->first_s, .5, 1e-9);
    ck_assert_double_eq_tol(first->last_s, 1.1, 1e-9);
    ck_assert_double_eq_tol(second->arrival_s, .5, 1e-9);
    ck_assert_double_eq_tol(second->first_s, .75, 1e-9);
    ck_assert_uint_eq(second->later_count, 2);
    ck_assert_double_eq_tol(second->later_s[1], .3, 1e-9);
    ck_assert_double_eq(runs[0].figures[ENGINE_MEAN_TPOT], 101);            /* as printed */
    ck_assert_double_eq_tol(runs[0].figures[ENGINE_P99_TPOT], 199.5, 1e-6); /* of 150 and 200 */
    kvt_arena_free(arena);
}
END_TEST

START_TEST(lines_and_documents_are_both_read)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    struct engine_run *runs = NULL;
    struct kvt_error err = {0};
    size_t count = 0;

    ck_assert_int_eq(engine_bench_load(written("bench.json", "{" FIGURES "}\n\n{" FIGURES "}\r\n"),
                                       arena, &runs, &count, &err),
                     KVT_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(runs[1].line, 3);
    ck_assert_str_eq(runs[1].engine, "sglang");
    ck_assert(isnan(runs[1].figures[ENGINE_MEAN_E2EL]));
    ck_assert_int_eq(
        engine_bench_load(written("bench.json", "{\n" FIGURES ",\n\"mean_e2e_latency_ms\": 7\n}"),
                          arena, &runs, &count, &err),
        KVT_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_double_eq(runs[0].figures[ENGINE_MEAN_E2EL], 7);
    kvt_arena_free(arena);
}
END_TEST

/* SGLang writes its default rate with Python's word for it, which is no JSON. */
START_TEST(an_infinite_rate_is_read_and_nothing_else_that_is_no_json)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    struct engine_run *runs = NULL;
    struct kvt_error err = {0};
    size_t count = 0;

    ck_assert_int_eq(
        engine_bench_load(written("bench.json", "{\"request_rate\": Infinity, " FIGURES
                                                "}\n{\"request_rate\": Infinity, "
                                                "\"generated\": \"Infinity\", " FIGURES "}\n"),
                          arena, &runs, &count, &err),
        KVT_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(
        engine_bench_load(written("bench.json", "{\"request_rate\":\nInfinity, " FIGURES "\n}"),
                          arena, &runs, &count, &err),
        KVT_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(
        engine_bench_load(written("bench.json", "{\"request_rate\": -Infinity, " FIGURES "}\n"),
                          arena, &runs, &count, &err),
        KVT_ERR_PARSE);
    ck_assert_int_eq(
        engine_bench_load(written("bench.json", "{\"request_rate\": NaN, " FIGURES "}\n"), arena,
                          &runs, &count, &err),
        KVT_ERR_PARSE);
    kvt_arena_free(arena);
}
END_TEST

#define LINE(in, out, arrival, queued, scheduled, first, last)                                     \
    "{\"request_id\": \"b\", \"input_toks\": " #in ", \"output_toks\": " #out                      \
    ", \"arrival_time\": " #arrival ", \"queued_ts\": " #queued ", \"scheduled_ts\": " #scheduled  \
    ", \"first_token_ts\": " #first ", \"last_token_ts\": " #last "}\n"

/* The wall clock is 1,000 s ahead: the second request was queued as it arrived. */
START_TEST(two_clocks_of_a_line_a_request_are_told_apart)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    struct engine_run *runs = NULL;
    struct kvt_error err = {0};
    size_t count = 0;
    const char *path = written("bench.json", LINE(10, 5, 1100, 100.25, 100.5, 101, 103)
                                                 LINE(20, 2, 1101, 101, 102, 103, 104));

    ck_assert_msg(engine_bench_load(path, arena, &runs, &count, &err) == KVT_OK, "%s", err.message);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(runs[0].request_count, 2);
    ck_assert_double_eq(runs[0].requests[0].scheduled_s, .5);
    ck_assert_double_eq(runs[0].requests[1].arrival_s, 1);
    ck_assert_double_eq(runs[0].requests[1].last_s, 4);
    ck_assert_double_eq(runs[0].figures[ENGINE_MEAN_TTFT], 1500);
    ck_assert_double_eq(runs[0].figures[ENGINE_MEAN_TPOT], 750);
    ck_assert_double_eq(runs[0].figures[ENGINE_PEAK_RUNNING], 2);
    ck_assert_double_eq(runs[0].figures[ENGINE_OUTPUT_THROUGHPUT], 7.0 / 4);
    kvt_arena_free(arena);
}
END_TEST

static const struct {
    const char *text, *where, *words;
} refused[] = {
    {"", "", "nothing in it"},
    {"\n\n", "", "nothing in it"},
    {"[1]", ":1", "no benchmark's result"},
    {"{\"completed\": 3}", ":1", "no benchmark's result"},
    {"{" FIGURES, "", ""},
    {"{" FIGURES "}\n{\"completed\"", ":2", ""},
    {"{" FIGURES ", \"p99_ttft_ms\": -1}", ":1/p99_ttft_ms", "-1"},
    {"{" FIGURES ", \"p99_ttft_ms\": 1e999}", ":1", ""},
    {"{" FIGURES ", \"start_times\": [1, 2], \"input_lens\": [1], \"output_lens\": [1, 2], "
     "\"ttfts\": [1, 2], \"itls\": [[], []]}",
     ":1", "\"input_lens\" has 1 entries, \"start_times\" 2"},
    {"{" FIGURES ", \"start_times\": [1], \"input_lens\": [1.5], \"output_lens\": [2], "
     "\"ttfts\": [1], \"itls\": [[1]]}",
     ":1", "input_lens/0 is 1.5: whole tokens"},
    {"{\"request_rate\": Infinity, " FIGURES ", \"itls\": [[1", ":1:", "the text ends here"},
    {"{" FIGURES ", \"start_times\": [1], \"input_lens\": [1], \"output_lens\": [2], "
     "\"ttfts\": [-1], \"itls\": [[1]]}",
     ":1", "ttfts/0 is no number"},
    {"{" FIGURES ", \"start_times\": [1], \"input_lens\": [1], \"output_lens\": [2], "
     "\"ttfts\": [1], \"itls\": [1]}",
     ":1", "itls/0 is no list"},
    {LINE(10, 5, 1100, 100.25, 100.5, 101, 103) "{" FIGURES "}", ":2", "no request, after 1"},
    {LINE(10, 5, 1100, 100.25, 100.5, 101, 100.75), ":1", "do not rise"},
    {LINE(0, 5, 1100, 100.25, 100.5, 101, 103), ":1/input_toks", ""},
};

START_TEST(a_file_that_is_no_benchmark_is_refused_with_its_place)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    struct engine_run *runs = NULL;
    struct kvt_error err = {0};
    size_t count = 77;
    char where[SUPPORT_PATH_BYTES + 64];
    const char *path = written("bench.json", refused[_i].text);

    ck_assert_int_ne(engine_bench_load(path, arena, &runs, &count, &err), KVT_OK);
    (void)snprintf(where, sizeof where, "%s%s", path, refused[_i].where);
    ck_assert_msg(strncmp(err.where, where, strlen(where)) == 0, "%s: %s", err.where, err.message);
    ck_assert_msg(strstr(err.message, refused[_i].words) != NULL, "%s: %s", err.where, err.message);
    ck_assert_uint_eq(count, 77);
    kvt_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate");
    TCase *fits = tcase_create("fits");
    TCase *files = tcase_create("files");
    SRunner *runner = srunner_create(suite);

    gsl_set_error_handler_off(); /* as the command does */
    tcase_add_test(fits, known_costs_come_back_out_of_deliveries);
    tcase_add_test(fits, known_costs_come_back_out_of_whole_requests);
    tcase_add_test(fits, requests_that_stand_still_are_outliers);
    tcase_add_test(fits, what_a_benchmark_cannot_tell_is_said);
    tcase_add_test(fits, a_window_takes_what_lies_in_it);
    tcase_add_test(fits, means_of_several_runs_are_enough);
    tcase_add_test(fits, too_few_windows_are_no_answer);
    tcase_add_checked_fixture(files, written_folder_make, written_folder_remove);
    tcase_add_test(files, requests_of_vllm_stand_on_one_clock_in_order_of_arrival);
    tcase_add_test(files, lines_and_documents_are_both_read);
    tcase_add_test(files, an_infinite_rate_is_read_and_nothing_else_that_is_no_json);
    tcase_add_test(files, two_clocks_of_a_line_a_request_are_told_apart);
    tcase_add_loop_test(files, a_file_that_is_no_benchmark_is_refused_with_its_place, 0,
                        sizeof refused / sizeof refused[0]);
    suite_add_tcase(suite, fits);
    suite_add_tcase(suite, files);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
