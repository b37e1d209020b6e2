/* traces.c -- trace files read whole or refused, as text. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "traces.h"

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

void traces_folder_make(void)
{
    support_folder_make(&folder);
    support_path(&folder, "t", path);
}

void traces_folder_remove(void)
{
    support_folder_remove(&folder);
}

const struct support_folder *traces_folder(void)
{
    return &folder;
}

const char *traces_path(void)
{
    return path;
}

struct kvt_trace_options traces_options(const char *file)
{
    return (struct kvt_trace_options){
        .path = file, .format = "auto", .rate_scale = 1, .run_seed = 11};
}

struct kvt_trace *traces_opened(const struct kvt_trace_options *options)
{
    struct kvt_trace *trace = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_trace_open(options, &trace, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    return trace;
}

/* One request as "ns:input/output", with what else it carries. */
static size_t print_request(const struct kvt_request_spec *spec, char *out, size_t out_bytes)
{
    size_t used = (size_t)snprintf(out, out_bytes, "%" PRId64 ":%" PRIu32 "/%" PRIu32,
                                   spec->arrival_ns, spec->input_tokens, spec->output_tokens);
    if (spec->session != UINT64_MAX)
        used += (size_t)snprintf(out + used, out_bytes - used, " s%" PRIu64 ".%" PRIu32,
                                 spec->session, spec->turn);
    if (spec->slo_class[0] != '\0')
        used += (size_t)snprintf(out + used, out_bytes - used, " %s", spec->slo_class);
    return used;
}

bool traces_next(struct kvt_trace *trace, struct kvt_request_spec *spec)
{
    struct kvt_error err = {0};
    bool more = false;
    ck_assert_msg(kvt_trace_next(trace, spec, &more, &err) == KVT_OK, "%s", err.message);
    return more;
}

const char *traces_requests_with(const struct kvt_trace_options *options,
                                 struct kvt_trace_account *account)
{
    static char all[4096];
    struct kvt_trace *trace = traces_opened(options);
    size_t used = 0;
    uint64_t count = 0;
    all[0] = '\0';
    struct kvt_request_spec spec;
    while (traces_next(trace, &spec)) {
        used += (size_t)snprintf(all + used, sizeof all - used, "%s", count > 0 ? "; " : "");
        used += print_request(&spec, all + used, sizeof all - used);
        count++;
    }
    *account = *kvt_trace_account_of(trace);
    ck_assert_uint_eq(account->requests, count);
    uint64_t accounted = account->used;
    for (int i = 0; i < KVT_DROP_REASONS; i++)
        accounted += account->dropped[i];
    ck_assert_uint_eq(account->rows_read, accounted);
    kvt_trace_close(trace);
    return all;
}

const char *traces_requests_of(const char *file, struct kvt_trace_account *account)
{
    struct kvt_trace_options options = traces_options(file);
    return traces_requests_with(&options, account);
}

const char *traces_requests_of_bytes(const char *bytes, size_t byte_count,
                                     struct kvt_trace_account *account)
{
    support_write(path, bytes, byte_count);
    return traces_requests_of(path, account);
}

const char *traces_refusal_with(const struct kvt_trace_options *options)
{
    static char text[1200];
    struct kvt_trace *trace = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_trace_open(options, &trace, &err);
    ck_assert_msg(status != KVT_OK, "this file should have been refused");
    ck_assert_ptr_null(trace);
    const char *where = strncmp(err.where, folder.path, strlen(folder.path)) == 0
                            ? err.where + strlen(folder.path) + 1
                            : err.where;
    (void)snprintf(text, sizeof text, "%s %s: %s", kvt_status_name(status), where, err.message);
    return text;
}

const char *traces_refusal_of(const char *bytes, size_t byte_count)
{
    support_write(path, bytes, byte_count);
    struct kvt_trace_options options = traces_options(path);
    return traces_refusal_with(&options);
}

void traces_assert_holds(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}
