/* test_real_traces.c -- public traces, read where they lie: every row accounted for.
 *
 * They are not part of this tree. KVT_TRACES names their folder; without it,
 * ../shared/traces is tried. A file that is absent is named, and counted as skipped. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/workload.h"

enum {
    EXIT_SKIPPED = 77
};

/* Rows and sums counted by other means (awk, Python) from the files. */
static const struct real {
    const char *file, *format;
    uint64_t rows_read, used, requests;
    double span_s;
    uint64_t input_tokens, output_tokens; /* sums; 0: drawn, not in the file */
    uint32_t longest_tokens;
} reals[] = {
    {"mooncake/conversation_trace.jsonl", "mooncake", 12031, 12031, 12031, 3536.999, 144793823,
     4122048, 126527},
    {"azure2023/AzureLLMInferenceTrace_code.csv", "azure", 8819, 8819, 8819, 3435.9480560, 18059974,
     245896, 7841},
    {"llmservingsim/RTX4090_Llama-3.1-8B/requests.jsonl", "llmservingsim", 300, 300, 300, 29.100521,
     257239, 195753, 4765},
    {"servegen/m-small_chunk-10-trace.csv", "servegen", 2016, 35, 224979, 0, 0, 0, 0},
};
enum {
    REALS = sizeof reals / sizeof reals[0]
};

static void path_of(const struct real *real, char out[512])
{
    const char *folder = getenv("KVT_TRACES");
    if (folder == NULL || folder[0] == '\0')
        folder = KVT_TEST_ROOT "/../shared/traces";
    (void)snprintf(out, 512, "%s/%s", folder, real->file);
}

static bool is_there(const struct real *real)
{
    char path[512];
    path_of(real, path);
    FILE *file = fopen(path, "rb");
    if (file != NULL)
        (void)fclose(file);
    return file != NULL;
}

START_TEST(every_row_of_a_public_trace_is_accounted_for)
{
    const struct real *real = &reals[_i];
    char path[512];
    path_of(real, path);
    const struct kvt_trace_options options = {
        .path = path, .format = "auto", .rate_scale = 1, .run_seed = 1};
    struct kvt_trace *trace = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_trace_open(&options, &trace, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);

    const struct kvt_trace_account *account = kvt_trace_account_of(trace);
    uint64_t accounted = account->used;
    for (int i = 0; i < KVT_DROP_REASONS; i++)
        accounted += account->dropped[i];
    ck_assert_str_eq(account->format, real->format);
    ck_assert_uint_eq(account->rows_read, real->rows_read);
    ck_assert_uint_eq(account->rows_read, accounted);
    ck_assert_uint_eq(account->used, real->used);
    ck_assert_uint_eq(account->requests, real->requests);
    ck_assert_uint_eq(account->out_of_order_rows, 0);

    uint64_t count = 0;
    uint64_t input_tokens = 0;
    uint64_t output_tokens = 0;
    bool goes_back = false;
    struct kvt_request_spec spec = {.arrival_ns = 0};
    kvt_ns last_ns = 0;
    bool more = true;
    while (kvt_trace_next(trace, &spec, &more, &err) == KVT_OK && more) {
        goes_back = goes_back || spec.arrival_ns < last_ns || spec.input_tokens == 0 ||
                    spec.output_tokens == 0;
        last_ns = spec.arrival_ns;
        input_tokens += spec.input_tokens;
        output_tokens += spec.output_tokens;
        count++;
    }
    ck_assert(!goes_back);
    ck_assert_uint_eq(count, account->requests);
    ck_assert_double_eq_tol((double)last_ns / 1e9, account->span_s, 1e-6);
    if (real->input_tokens > 0) {
        uint32_t longest_tokens = 0;
        uint32_t longest_output_tokens = 0;
        size_t input_count = 0;
        kvt_trace_extent(trace, &longest_tokens, &longest_output_tokens, NULL, &input_count);
        ck_assert_double_eq_tol(account->span_s, real->span_s, 1e-6);
        ck_assert_uint_eq(input_tokens, real->input_tokens);
        ck_assert_uint_eq(output_tokens, real->output_tokens);
        ck_assert_uint_eq(longest_tokens, real->longest_tokens);
    }
    kvt_trace_close(trace);
}
END_TEST

/* Adds the tests whose files are there; returns how many are not. */
static int add_present(TCase *public)
{
    int absent = 0;
    for (int i = 0; i < REALS; i++) {
        if (is_there(&reals[i])) {
            tcase_add_loop_test(public, every_row_of_a_public_trace_is_accounted_for, i, i + 1);
            continue;
        }
        (void)fprintf(stderr, "skipped: %s is not there (KVT_TRACES names its folder)\n",
                      reals[i].file);
        absent++;
    }
    return absent;
}

int main(void)
{
    Suite *suite = suite_create("real_traces");
    TCase *public = tcase_create("public");
    int absent = add_present(public);
    suite_add_tcase(suite, public);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    int run = srunner_ntests_run(runner);
    srunner_free(runner);
    if (absent == REALS) {
        (void)fputs("skipped: no public trace is there\n", stderr);
        return EXIT_SKIPPED;
    }
    (void)printf("%d passed, %d failed, %d skipped\n", run - failed, failed, absent);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
