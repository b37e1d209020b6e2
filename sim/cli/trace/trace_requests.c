/* trace_requests.c -- traces of requests as kvtide trace reads them, and into kvtide's own CSV. */
#include "trace_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/workload.h"

#define KVTIDE_HEADER                                                                              \
    "arrival_s,input_tokens,output_tokens,session_id,turn,prefix_group,prefix_tokens,think_s,"     \
    "slo_class,tenant,task\n"

bool trace_requests_are_asked(const struct trace_requests_question *question)
{
    return question->format != NULL || question->window != NULL || question->rate_scale != NULL ||
           question->seed != TRACE_NOT_GIVEN;
}

kvt_status trace_requests_open(const struct trace_requests_question *question, const char *path,
                               bool counts, struct kvt_trace **out, struct kvt_error *err)
{
    struct kvt_trace_options options = {.path = path,
                                        .any_task = !counts,
                                        .page_keys = counts,
                                        .ordered_keys_only = true,
                                        .format = question->format ? question->format : "auto",
                                        .rate_scale = 1,
                                        .run_seed =
                                            question->seed != TRACE_NOT_GIVEN ? question->seed : 1};
    kvt_status status = KVT_OK;
    if (question->rate_scale != NULL)
        status = kvt_text_real(question->rate_scale, "trace --rate-scale", 1e-6, 1e6,
                               &options.rate_scale, err);
    if (status == KVT_OK)
        status = kvt_trace_parse_window(question->window, "trace --window", &options.window_from_s,
                                        &options.window_to_s, err);
    if (status == KVT_OK)
        status = kvt_trace_open(&options, out, err);
    return status;
}

/* ---- Into CSV -------------------------------------------------------------------------- */

/* Seconds to the nanosecond, without trailing zeros: exact, unlike a double. */
static void put_seconds(FILE *stream, kvt_ns time_ns)
{
    char fraction[16];
    (void)snprintf(fraction, sizeof fraction, "%09" PRId64, time_ns % KVT_NS_PER_S);
    size_t digits = 9;
    while (digits > 0 && fraction[digits - 1] == '0')
        digits--;
    fraction[digits] = '\0';
    (void)fprintf(stream, "%" PRId64 "%s%s", time_ns / KVT_NS_PER_S, digits > 0 ? "." : "",
                  fraction);
}

static void put_request(FILE *stream, const struct kvt_request_spec *spec)
{
    put_seconds(stream, spec->arrival_ns);
    (void)fprintf(stream, ",%" PRIu32 ",%" PRIu32 ",", spec->input_tokens, spec->output_tokens);
    if (spec->session != UINT64_MAX)
        (void)fprintf(stream, "%" PRIu64 ",%" PRIu32, spec->session, spec->turn);
    else
        (void)fputc(',', stream);
    if (spec->prefix_tokens > 0)
        (void)fprintf(stream, ",%" PRIu64 ",%" PRIu32 ",", spec->prefix_group, spec->prefix_tokens);
    else
        (void)fputs(",,,", stream);
    if (spec->follows)
        put_seconds(stream, spec->think_ns);
    (void)fputc(',', stream);
    kvt_csv_put(stream, spec->slo_class);
    (void)fputs(",,", stream);
    kvt_csv_put(stream, spec->task != NULL ? spec->task : "");
    (void)fputc('\n', stream);
}

static kvt_status write_requests(struct kvt_trace *trace, FILE *stream, struct kvt_error *err)
{
    (void)fputs(KVTIDE_HEADER, stream);
    for (;;) {
        struct kvt_request_spec spec;
        bool more = false;
        kvt_status status = kvt_trace_next(trace, &spec, &more, err);
        if (status != KVT_OK || !more)
            return status;
        put_request(stream, &spec);
    }
}

kvt_status trace_requests_convert(const struct trace_requests_question *question, const char *path,
                                  const char *to, bool quiet, struct kvt_error *err)
{
    struct kvt_trace *trace = NULL;
    struct kvt_outfile *file = NULL;
    kvt_status status = trace_requests_open(question, path, false, &trace, err);
    if (status == KVT_OK)
        status = kvt_outfile_open(to, &file, err);
    if (status == KVT_OK)
        status = write_requests(trace, kvt_outfile_stream(file), err);
    if (status == KVT_OK) {
        status = kvt_outfile_commit(file, err);
        file = NULL;
    }
    kvt_outfile_discard(file);
    if (status == KVT_OK && !quiet) {
        const struct kvt_trace_account *account = kvt_trace_account_of(trace);
        (void)fprintf(stderr,
                      "%s: %" PRIu64 " requests from %" PRIu64 " of %" PRIu64 " rows (%s)\n", to,
                      account->requests, account->used, account->rows_read, account->format);
        if (account->unconverted != NULL)
            (void)fprintf(stderr, "%s: not carried over: %s\n", to, account->unconverted);
    }
    kvt_trace_close(trace);
    return status;
}
