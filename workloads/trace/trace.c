/* trace.c -- a trace file as a stream of requests in time order.
 *
 *     survey:  read every row once, checking it; find the first arrival, whether
 *              arrivals ever go back, and the account
 *     gather:  only for an out-of-order file: its used rows, compactly, sorted by
 *              (arrival, place in the file)
 *     recount: only for a window, whose rows are not known before the first arrival
 *     next:    stream the file again, or walk the sorted rows
 *
 * So memory does not grow with an ordered file. */
#include "kvt/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"

enum {
    INPUTS_MAX = 16,
    NAMES_BYTES = 192
};

struct kvt_trace {
    struct kvt_trace_source source;
    char *path;
    double rate_scale;
    int64_t first_ns;                /* of the file: eligible rows, in time */
    int64_t from_ns, to_ns;          /* what of the file's time is used: [from, to) */
    int64_t origin_ns;               /* becomes time 0 */
    bool is_window_known;            /* counted rows are those that are used */
    void *reader;                    /* open while streaming; NULL when sorted */
    struct kvt_trace_sorted *sorted; /* NULL: the file is in order */
    struct kvt_page_keys keys;       /* of the request last given, by its session and group */
    bool wants_keys, has_followers;
    struct kvt_trace_names names[KVT_TRACE_NAME_KINDS];
    kvt_ns last_arrival_ns; /* of the request last given */
    struct kvt_trace_account account;
    uint32_t fields; /* that any row has something in: bit f is kvt_trace_field f */
    char unused[NAMES_BYTES], unconverted[NAMES_BYTES]; /* for the account */
    enum kvt_drop_reason row_reason; /* the row in hand is dropped so far; REASONS: it is used */
    int64_t used_first_ns, used_last_ns;
    uint32_t longest_tokens, longest_output_tokens;
    uint32_t inputs[INPUTS_MAX]; /* distinct, ascending */
    size_t input_count;          /* past INPUTS_MAX: too many to list */
};

const char *kvt_drop_reason_name(enum kvt_drop_reason reason)
{
    switch (reason) {
    case KVT_DROP_ZERO_INPUT:
        return "zero_input";
    case KVT_DROP_ZERO_OUTPUT:
        return "zero_output";
    case KVT_DROP_FAILED:
        return "failed";
    case KVT_DROP_OUTSIDE_WINDOW:
        return "outside_window";
    case KVT_DROP_IDLE:
        return "idle";
    case KVT_DROP_REASONS:
        break;
    }
    return "unknown";
}

/* ---- Judging rows ------------------------------------------------------------------ */

/* Whether a row can be used, wherever it lies in time. */
static bool is_eligible(const struct kvt_trace_row *row, enum kvt_drop_reason *reason)
{
    if (row->kind == KVT_TRACE_ROW_IDLE)
        *reason = KVT_DROP_IDLE;
    else if (row->kind == KVT_TRACE_ROW_FAILED)
        *reason = KVT_DROP_FAILED;
    else if (row->input_tokens == 0)
        *reason = KVT_DROP_ZERO_INPUT;
    else if (row->output_tokens == 0)
        *reason = KVT_DROP_ZERO_OUTPUT;
    else
        return true;
    return false;
}

static bool is_used(const struct kvt_trace *trace, const struct kvt_trace_row *row,
                    enum kvt_drop_reason *reason)
{
    if (!is_eligible(row, reason))
        return false;
    *reason = KVT_DROP_OUTSIDE_WINDOW;
    return row->time_ns >= trace->from_ns && row->time_ns < trace->to_ns;
}

/* Without a session there is nobody to follow. */
static bool follows(const struct kvt_trace_row *row)
{
    return row->follows && row->session != UINT64_MAX;
}

static void note_input(struct kvt_trace *trace, uint32_t input_tokens)
{
    size_t count = trace->input_count;
    if (count > INPUTS_MAX)
        return;
    size_t at = 0;
    while (at < count && trace->inputs[at] < input_tokens)
        at++;
    if (at < count && trace->inputs[at] == input_tokens)
        return;
    trace->input_count++;
    if (count == INPUTS_MAX)
        return;
    memmove(&trace->inputs[at + 1], &trace->inputs[at], (count - at) * sizeof trace->inputs[0]);
    trace->inputs[at] = input_tokens;
}

static void note_used(struct kvt_trace *trace, const struct kvt_trace_row *row)
{
    struct kvt_trace_account *account = &trace->account;
    if (account->requests == 0 || row->time_ns < trace->used_first_ns)
        trace->used_first_ns = row->time_ns;
    if (account->requests == 0 || row->time_ns > trace->used_last_ns)
        trace->used_last_ns = row->time_ns;
    account->requests++;
    account->hash_id_requests +=
        kvt_trace_reads_hash_ids(&trace->source) && (row->fields >> KVT_TRACE_HASH_IDS & 1) != 0;
    trace->has_followers = trace->has_followers || follows(row);
    uint32_t context_tokens = row->input_tokens + row->output_tokens;
    if (context_tokens > trace->longest_tokens)
        trace->longest_tokens = context_tokens;
    if (row->output_tokens > trace->longest_output_tokens)
        trace->longest_output_tokens = row->output_tokens;
    note_input(trace, row->input_tokens);
}

/* Counts one row, or one more request of a row that stands for many: such a row
 * is used as soon as one of its requests is. Returns whether the request is. */
static bool count_row(struct kvt_trace *trace, const struct kvt_trace_row *row)
{
    struct kvt_trace_account *account = &trace->account;
    enum kvt_drop_reason reason = KVT_DROP_REASONS;
    bool used = is_used(trace, row, &reason);
    if (row->kind != KVT_TRACE_ROW_MORE) {
        account->rows_read++;
        account->orphan_turns += row->is_orphan;
        trace->row_reason = used ? KVT_DROP_REASONS : reason;
        if (used)
            account->used++;
        else
            account->dropped[reason]++;
    } else if (used && trace->row_reason != KVT_DROP_REASONS) {
        account->dropped[trace->row_reason]--;
        account->used++;
        trace->row_reason = KVT_DROP_REASONS;
    }
    if (used)
        note_used(trace, row);
    return used;
}

/* A prefix is a part of the prompt. */
static kvt_status check_prefix(const struct kvt_trace *trace, const struct kvt_trace_row *row,
                               struct kvt_error *err)
{
    char where[256];

    if (row->prefix_tokens <= row->input_tokens)
        return KVT_OK;
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, trace->path, row->line);
    return kvt_fail(err, KVT_ERR_PARSE, where,
                    "a prefix of %" PRIu32 " tokens in a prompt of %" PRIu32
                    "; it is expected to be no longer than that",
                    row->prefix_tokens, row->input_tokens);
}

/* Of a row that is used: what may not be there is refused, names are kept. */
static kvt_status take_names(struct kvt_trace *trace, const struct kvt_trace_row *row,
                             uint16_t numbers[KVT_TRACE_NAME_KINDS], struct kvt_error *err)
{
    kvt_status status = check_prefix(trace, row, err);
    for (int kind = 0; status == KVT_OK && kind < KVT_TRACE_NAME_KINDS; kind++) {
        numbers[kind] = KVT_TRACE_NO_NAME;
        status = kvt_trace_names_check(&trace->names[kind], row, trace->path, err);
        if (status == KVT_OK)
            status =
                kvt_trace_names_add(&trace->names[kind], row, trace->path, &numbers[kind], err);
    }
    return status;
}

/* ---- Passes over the file ------------------------------------------------------------ */

typedef kvt_status (*row_visitor)(struct kvt_trace *trace, const struct kvt_trace_row *row,
                                  struct kvt_error *err);

static kvt_status visit_rows(struct kvt_trace *trace, row_visitor visit, struct kvt_error *err)
{
    const struct kvt_trace_reader *methods = trace->source.format->reader;
    void *reader = NULL;
    kvt_status status = methods->open(&trace->source, &reader, err);
    while (status == KVT_OK) {
        struct kvt_trace_row row;
        bool more = false;
        status = methods->next(reader, &row, &more, err);
        if (status != KVT_OK || !more)
            break;
        status = visit(trace, &row, err);
    }
    methods->close(reader);
    return status;
}

/* The latest arrival so far stands in used_last_ns: before windows are known,
 * every eligible row is used. */
static kvt_status survey_row(struct kvt_trace *trace, const struct kvt_trace_row *row,
                             struct kvt_error *err)
{
    uint16_t numbers[KVT_TRACE_NAME_KINDS];
    bool is_first = trace->account.requests == 0;
    int64_t latest_ns = trace->used_last_ns;
    trace->fields |= row->fields;
    if (!count_row(trace, row))
        return KVT_OK;
    if (!is_first && row->time_ns < latest_ns)
        trace->account.out_of_order_rows++;
    return trace->is_window_known ? take_names(trace, row, numbers, err) : KVT_OK;
}

static kvt_status recount_row(struct kvt_trace *trace, const struct kvt_trace_row *row,
                              struct kvt_error *err)
{
    uint16_t numbers[KVT_TRACE_NAME_KINDS];
    return count_row(trace, row) ? take_names(trace, row, numbers, err) : KVT_OK;
}

static kvt_status gather_row(struct kvt_trace *trace, const struct kvt_trace_row *row,
                             struct kvt_error *err)
{
    enum kvt_drop_reason reason = KVT_DROP_REASONS;
    uint16_t numbers[KVT_TRACE_NAME_KINDS];
    if (!is_used(trace, row, &reason))
        return KVT_OK;
    kvt_status status = take_names(trace, row, numbers, err);
    if (status == KVT_OK)
        status = kvt_trace_sorted_add(trace->sorted, row, numbers, err);
    return status;
}

static kvt_status gather(struct kvt_trace *trace, struct kvt_error *err)
{
    kvt_status status = kvt_trace_sorted_new(trace->path, trace->account.requests, trace->fields,
                                             &trace->sorted, err);
    if (status == KVT_OK)
        status = visit_rows(trace, gather_row, err);
    if (status == KVT_OK)
        kvt_trace_sorted_sort(trace->sorted);
    return status;
}

/* ---- Opening --------------------------------------------------------------------------- */

/* ": 12 rows read, 9 failed, 3 outside_window". */
static kvt_status fail_nothing_used(const struct kvt_trace *trace, struct kvt_error *err)
{
    const struct kvt_trace_account *account = &trace->account;
    if (account->rows_read == 0)
        return kvt_fail(err, KVT_ERR_PARSE, trace->path, "the file has no rows (format %s)",
                        trace->source.format->name);
    char reasons[256] = "";
    size_t used = 0;
    for (int i = 0; i < KVT_DROP_REASONS; i++) {
        if (account->dropped[i] == 0)
            continue;
        int wrote = snprintf(reasons + used, sizeof reasons - used, ", %" PRIu64 " %s",
                             account->dropped[i], kvt_drop_reason_name((enum kvt_drop_reason)i));
        used += (size_t)wrote;
    }
    return kvt_fail(err, KVT_ERR_INVALID, trace->path,
                    "no row of this trace is used: %" PRIu64 " read%s", account->rows_read,
                    reasons);
}

static int64_t after(int64_t start_ns, double seconds)
{
    double offset_ns = seconds * 1e9;
    return offset_ns >= (double)(INT64_MAX / 2) ? INT64_MAX
                                                : start_ns + (int64_t)llround(offset_ns);
}

static bool has_window(const struct kvt_trace_options *options)
{
    return options->window_from_s > 0 || options->window_to_s > 0;
}

static void start_account(struct kvt_trace *trace)
{
    uint64_t out_of_order_rows = trace->account.out_of_order_rows;
    trace->account = (struct kvt_trace_account){.format = trace->source.format->name,
                                                .out_of_order_rows = out_of_order_rows};
    trace->longest_tokens = 0;
    trace->longest_output_tokens = 0;
    trace->input_count = 0;
    trace->has_followers = false;
}

static void account_for_fields(struct kvt_trace *trace)
{
    kvt_trace_name_unused(trace->fields, &trace->source, trace->unused, trace->unconverted,
                          NAMES_BYTES);
    trace->account.unused = trace->unused[0] != '\0' ? trace->unused : NULL;
    trace->account.unconverted = trace->unconverted[0] != '\0' ? trace->unconverted : NULL;
}

/* Everything that can be wrong with the file is found here. */
static kvt_status survey(struct kvt_trace *trace, const struct kvt_trace_options *options,
                         struct kvt_error *err)
{
    trace->from_ns = INT64_MIN;
    trace->to_ns = INT64_MAX;
    trace->is_window_known = !has_window(options);
    start_account(trace);
    kvt_status status = visit_rows(trace, survey_row, err);
    if (status == KVT_OK && trace->account.used == 0)
        status = fail_nothing_used(trace, err);
    if (status != KVT_OK)
        return status;

    trace->first_ns = trace->used_first_ns;
    trace->origin_ns = trace->first_ns;
    if (has_window(options)) {
        trace->from_ns = after(trace->first_ns, options->window_from_s);
        trace->to_ns =
            options->window_to_s > 0 ? after(trace->first_ns, options->window_to_s) : INT64_MAX;
        trace->origin_ns = trace->from_ns;
        start_account(trace);
        status = visit_rows(trace, recount_row, err);
        if (status == KVT_OK && trace->account.used == 0)
            status = fail_nothing_used(trace, err);
    }
    account_for_fields(trace);
    trace->account.rebased_s = (double)trace->first_ns / 1e9;
    trace->account.span_s =
        (double)(trace->used_last_ns - trace->used_first_ns) / 1e9 / trace->rate_scale;
    if (status == KVT_OK &&
        (double)(trace->used_last_ns - trace->origin_ns) / trace->rate_scale >= 0x1p62)
        return kvt_fail(err, KVT_ERR_INVALID, trace->path,
                        "at rate_scale %g the last request comes after more than 146 years",
                        trace->rate_scale);
    return status;
}

static kvt_status check_options(const struct kvt_trace_options *options, struct kvt_error *err)
{
    if (options->path == NULL || options->path[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, "trace", "a trace needs the path of its file");
    if (!(options->rate_scale >= 1e-6 && options->rate_scale <= 1e6))
        return kvt_fail(err, KVT_ERR_INVALID, options->path,
                        "rate_scale %g is not from 1e-6 to 1e6", options->rate_scale);
    bool is_window = options->window_from_s >= 0 && options->window_to_s >= 0 &&
                     options->window_from_s < 1e10 && options->window_to_s < 1e10 &&
                     (options->window_to_s == 0 || options->window_to_s > options->window_from_s);
    if (!is_window)
        return kvt_fail(err, KVT_ERR_INVALID, options->path,
                        "the window %g:%g does not end after it begins, in seconds from 0",
                        options->window_from_s, options->window_to_s);
    return KVT_OK;
}

static kvt_status prepare(struct kvt_trace *trace, const struct kvt_trace_options *options,
                          struct kvt_error *err)
{
    size_t path_bytes = strlen(options->path) + 1;
    trace->path = malloc(path_bytes);
    if (trace->path == NULL)
        return kvt_fail_nomem(err, "a trace's path");
    memcpy(trace->path, options->path, path_bytes);
    const char *format = options->format != NULL ? options->format : "auto";
    kvt_status status = kvt_trace_detect(trace->path, format, &trace->source, err);
    if (status != KVT_OK)
        return status;
    trace->source.run_seed = options->run_seed;
    trace->rate_scale = options->rate_scale;
    trace->names[KVT_TRACE_NAME_CLASS] =
        (struct kvt_trace_names){.kind = KVT_TRACE_NAME_CLASS,
                                 .is_wanted = true,
                                 .known = options->slo_classes,
                                 .known_count = options->slo_class_count};
    trace->names[KVT_TRACE_NAME_TASK] =
        (struct kvt_trace_names){.kind = KVT_TRACE_NAME_TASK,
                                 .is_wanted = options->task_count > 0 || options->any_task,
                                 .known = options->tasks,
                                 .known_count = options->task_count};
    status = survey(trace, options, err);
    for (int kind = 0; kind < KVT_TRACE_NAME_KINDS; kind++)
        trace->names[kind].known_count = 0;
    if (status != KVT_OK)
        return status;
    /* Rows of one object a conversation are out of order by nature: nobody can sort such a file. */
    bool keeps_keys = trace->account.out_of_order_rows == 0 || !options->ordered_keys_only ||
                      trace->source.format->shape == KVT_TRACE_JSON_NESTED;
    trace->wants_keys = options->page_keys;
    trace->source.page_keys = options->page_keys && keeps_keys;
    trace->account.hash_ids_left_out =
        options->page_keys && !keeps_keys && trace->account.hash_id_requests > 0;
    if (trace->account.out_of_order_rows > 0)
        return gather(trace, err);
    return trace->source.format->reader->open(&trace->source, &trace->reader, err);
}

kvt_status kvt_trace_open(const struct kvt_trace_options *options, struct kvt_trace **out,
                          struct kvt_error *err)
{
    kvt_status status = check_options(options, err);
    if (status != KVT_OK)
        return status;
    struct kvt_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        return kvt_fail_nomem(err, "a trace");
    status = prepare(trace, options, err);
    if (status != KVT_OK) {
        kvt_trace_close(trace);
        return status;
    }
    *out = trace;
    return KVT_OK;
}

void kvt_trace_close(struct kvt_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->reader != NULL)
        trace->source.format->reader->close(trace->reader);
    kvt_trace_sorted_free(trace->sorted);
    kvt_page_keys_free(&trace->keys);
    free(trace->path);
    free(trace);
}

/* ---- Giving requests ---------------------------------------------------------------------- */

/* Division keeps the order, so that arrivals never go back. */
static kvt_ns arrival_of(const struct kvt_trace *trace, int64_t time_ns)
{
    int64_t offset_ns = time_ns - trace->origin_ns;
    if (trace->rate_scale == 1.0)
        return offset_ns;
    return (kvt_ns)llround((double)offset_ns / trace->rate_scale);
}

/* What a prompt consists of where the file says no more than whose it is: its group's prefix,
 * then its conversation, answers and all. */
static kvt_status name_pages(struct kvt_trace *trace, struct kvt_request_spec *spec,
                             struct kvt_error *err)
{
    bool has_session = spec->session != UINT64_MAX;
    uint64_t tokens = (uint64_t)spec->input_tokens + spec->output_tokens;
    if (!has_session)
        tokens = spec->prefix_tokens;
    kvt_status status = kvt_page_keys_begin(&trace->keys, tokens, err);
    if (status != KVT_OK)
        return status;
    kvt_page_keys_run(&trace->keys, kvt_content(KVT_CONTENT_GROUP, spec->prefix_group),
                      spec->prefix_tokens);
    kvt_page_keys_run(&trace->keys, kvt_content(KVT_CONTENT_SESSION, spec->session),
                      tokens - spec->prefix_tokens);
    spec->page_keys = trace->keys.keys;
    spec->page_key_count = trace->keys.count;
    return KVT_OK;
}

/* The next row that is used, in time, with the numbers of its names. */
static kvt_status next_used(struct kvt_trace *trace, struct kvt_trace_row *row,
                            uint16_t numbers[KVT_TRACE_NAME_KINDS], bool *more,
                            struct kvt_error *err)
{
    if (trace->sorted != NULL) {
        *more = kvt_trace_sorted_next(trace->sorted, row, numbers);
        return KVT_OK;
    }
    enum kvt_drop_reason reason = KVT_DROP_REASONS;
    do {
        kvt_status status = trace->source.format->reader->next(trace->reader, row, more, err);
        if (status != KVT_OK || !*more)
            return status;
    } while (!is_used(trace, row, &reason));
    if (arrival_of(trace, row->time_ns) < trace->last_arrival_ns)
        return kvt_fail(err, KVT_ERR_IO, trace->path, "the file changed while it was read");
    return take_names(trace, row, numbers, err);
}

static const char *name_of(const struct kvt_trace *trace, enum kvt_trace_name_kind kind,
                           const uint16_t numbers[KVT_TRACE_NAME_KINDS])
{
    return numbers[kind] != KVT_TRACE_NO_NAME ? trace->names[kind].texts[numbers[kind]] : NULL;
}

kvt_status kvt_trace_next(struct kvt_trace *trace, struct kvt_request_spec *spec, bool *more,
                          struct kvt_error *err)
{
    struct kvt_trace_row row;
    uint16_t numbers[KVT_TRACE_NAME_KINDS] = {0};
    kvt_status status = next_used(trace, &row, numbers, more, err);
    if (status != KVT_OK || !*more)
        return status;
    *spec = (struct kvt_request_spec){
        .arrival_ns = arrival_of(trace, row.time_ns),
        .input_tokens = row.input_tokens,
        .output_tokens = row.output_tokens,
        .session = row.session,
        .turn = row.turn,
        .prefix_tokens = row.prefix_tokens,
        .prefix_group = row.prefix_group,
        .follows = follows(&row),
        .think_ns = row.think_ns,
        .task = name_of(trace, KVT_TRACE_NAME_TASK, numbers),
        .line = row.line,
        .page_keys = row.page_keys,
        .page_key_count = row.page_key_count,
    };
    const char *slo_class = name_of(trace, KVT_TRACE_NAME_CLASS, numbers);
    (void)snprintf(spec->slo_class, sizeof spec->slo_class, "%s",
                   slo_class != NULL ? slo_class : "");
    trace->last_arrival_ns = spec->arrival_ns;
    bool is_named = row.session != UINT64_MAX || row.prefix_tokens > 0;
    if (trace->wants_keys && !row.has_page_keys && is_named)
        return name_pages(trace, spec, err);
    return KVT_OK;
}

bool kvt_trace_has_followers(const struct kvt_trace *trace)
{
    return trace->has_followers;
}

const struct kvt_trace_account *kvt_trace_account_of(const struct kvt_trace *trace)
{
    return &trace->account;
}

void kvt_trace_extent(const struct kvt_trace *trace, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count)
{
    *longest_tokens = trace->longest_tokens;
    *output_tokens = trace->longest_output_tokens;
    size_t capacity = *input_count;
    *input_count = 0;
    if (trace->input_count > INPUTS_MAX || trace->input_count > capacity)
        return;
    memcpy(inputs, trace->inputs, trace->input_count * sizeof inputs[0]);
    *input_count = trace->input_count;
}
