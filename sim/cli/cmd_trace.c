/* cmd_trace.c -- kvtide trace: what a trace holds, and trace files into our own formats. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kvt/file.h"
#include "kvt/metrics.h"
#include "kvt/workload.h"
#include "trace_json.h"
#include "trace_kvsel.h"
#include "trace_prefixes.h"

#define KVTIDE_HEADER                                                                              \
    "arrival_s,input_tokens,output_tokens,session_id,turn,prefix_group,prefix_tokens,think_s,"     \
    "slo_class,tenant,task\n"

enum {
    UNUSED_BYTES = 256
};

#define NOT_GIVEN UINT64_MAX

/* What the command was asked. */
struct question {
    const char *format, *window, *rate_scale, *to;
    uint64_t seed;         /* NOT_GIVEN */
    uint64_t context_rows; /* NOT_GIVEN */
    bool json, quiet;
};

/* One file's answer. */
struct stats {
    const char *path;
    struct kvt_trace_account account;
    double mean_rate_per_s; /* NaN: all arrive at once */
    struct kvt_summary input, output;
    double input_max, output_max;
    uint32_t longest_tokens;
    uint64_t keyed_requests, pages; /* that say what their prompts consist of, and in how many */
    double found_share;             /* NaN: it was not counted */
    double counted_share;           /* of the pages, by which that is estimated; 1: it is exact */
    char unused[UNUSED_BYTES]; /* as in the account, whose own goes with the trace; "": nothing */
};

/* Actions of the design that this version does not have. */
static const char *const later[] = {"record", "replay", "mrc", "merge"};

/* To be counted, or to be written. */
static kvt_status open_trace(const struct question *question, const char *path, bool counts,
                             struct kvt_trace **out, struct kvt_error *err)
{
    struct kvt_trace_options options = {.path = path,
                                        .any_task = !counts,
                                        .page_keys = counts,
                                        .ordered_keys_only = true,
                                        .format = question->format ? question->format : "auto",
                                        .rate_scale = 1,
                                        .run_seed =
                                            question->seed != NOT_GIVEN ? question->seed : 1};
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

/* ---- stats ---------------------------------------------------------------------- */

static void summarise(struct kvt_trace *trace, const char *path, double *inputs, double *outputs,
                      size_t count, struct stats *out)
{
    uint32_t longest_output_tokens = 0;
    size_t input_count = 0;
    *out = (struct stats){.path = path, .account = *kvt_trace_account_of(trace)};
    out->mean_rate_per_s =
        out->account.span_s > 0 ? (double)(count - 1) / out->account.span_s : (double)NAN;
    (void)snprintf(out->unused, sizeof out->unused, "%s",
                   out->account.unused != NULL ? out->account.unused : "");
    out->account.unused = NULL;
    out->account.unconverted = NULL;
    kvt_summary_of(inputs, count, &out->input);
    kvt_summary_of(outputs, count, &out->output);
    out->input_max = inputs[count - 1];
    out->output_max = outputs[count - 1];
    kvt_trace_extent(trace, &out->longest_tokens, &longest_output_tokens, NULL, &input_count);
}

/* Every request's lengths, into arrays of `expected` entries, and what its prompt consists of. */
static kvt_status read_requests(struct kvt_trace *trace, const char *path, double *inputs,
                                double *outputs, size_t expected, struct trace_prefixes *prefixes,
                                struct kvt_error *err)
{
    for (size_t i = 0; i < expected; i++) {
        struct kvt_request_spec spec;
        bool more = false;
        kvt_status status = kvt_trace_next(trace, &spec, &more, err);
        if (status != KVT_OK)
            return status;
        if (!more)
            return kvt_fail(err, KVT_ERR_IO, path, "the file changed while it was read");
        inputs[i] = spec.input_tokens;
        outputs[i] = spec.output_tokens;
        status = trace_prefixes_add(prefixes, &spec, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* Where rows had to be sorted, their hash ids were not kept. */
static void note_prefixes(const struct trace_prefixes *prefixes, struct stats *out)
{
    bool is_whole = out->account.out_of_order_rows == 0 || out->account.hash_id_requests == 0;

    out->keyed_requests = prefixes->requests;
    out->pages = prefixes->pages;
    out->found_share = is_whole ? trace_prefixes_found_share(prefixes) : (double)NAN;
    out->counted_share = 1 / (double)(UINT64_C(1) << prefixes->level);
}

static kvt_status stats_of(struct kvt_trace *trace, const char *path, struct stats *out,
                           struct kvt_error *err)
{
    size_t count = (size_t)kvt_trace_account_of(trace)->requests;
    double *inputs = calloc(count, sizeof *inputs);
    double *outputs = calloc(count, sizeof *outputs);
    struct trace_prefixes prefixes = {0};
    kvt_status status = KVT_ERR_NOMEM;
    if (inputs != NULL && outputs != NULL) {
        status = read_requests(trace, path, inputs, outputs, count, &prefixes, err);
        if (status == KVT_OK) {
            summarise(trace, path, inputs, outputs, count, out);
            note_prefixes(&prefixes, out);
        }
    } else {
        status = kvt_fail_nomem(err, "the lengths of a trace");
    }
    trace_prefixes_free(&prefixes);
    free(inputs);
    free(outputs);
    return status;
}

static void print_lengths(const char *name, const struct kvt_summary *summary, double maximum)
{
    printf("  %-7s tokens  mean %.1f, p50 %.0f, p90 %.0f, p99 %.0f, max %.0f\n", name,
           summary->mean, summary->p50, summary->p90, summary->p99, maximum);
}

/* Names, as many to a line as 80 columns hold. */
static void print_unused(const char *names)
{
    static const char margin[] = "                  ";
    size_t column = 0;
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        if (column == 0)
            column = (size_t)printf("  not used here   ");
        else if (column + length + 1 > 80)
            column = (size_t)printf("\n%s", margin) - 1;
        else
            column += (size_t)printf(" ");
        column += (size_t)printf("%.*s", (int)length, names);
        names += length + strspn(names + length, " ");
    }
    if (column > 0)
        (void)putchar('\n');
}

static void print_prefixes(const struct stats *stats)
{
    uint64_t hash_id_requests = stats->account.hash_id_requests;
    if (stats->keyed_requests + hash_id_requests == 0)
        return;
    printf("  known prompts   %" PRIu64 " requests", stats->keyed_requests);
    if (hash_id_requests > 0)
        printf(", %" PRIu64 " with hash_ids", hash_id_requests);
    printf("; %" PRIu64 " pages of %d tokens\n", stats->pages, KVT_PAGE_ROWS);
    if (isfinite(stats->found_share))
        printf("  found again     %s%.1f %% of prompt tokens, were nothing ever lost\n",
               stats->counted_share < 1 ? "about " : "", 100 * stats->found_share);
    else
        printf("  found again     not counted: sort the file by arrival\n");
}

static void print_stats(const struct stats *stats)
{
    const struct kvt_trace_account *account = &stats->account;
    printf("%s: %s\n", stats->path, account->format);
    printf("  rows read       %" PRIu64 " = %" PRIu64 " used", account->rows_read, account->used);
    for (int i = 0; i < KVT_DROP_REASONS; i++) {
        if (account->dropped[i] > 0)
            printf(" + %" PRIu64 " %s", account->dropped[i],
                   kvt_drop_reason_name((enum kvt_drop_reason)i));
    }
    printf("\n  requests        %" PRIu64 " over %.3f s", account->requests, account->span_s);
    if (isfinite(stats->mean_rate_per_s))
        printf(", %.4g a second", stats->mean_rate_per_s);
    printf("\n  first arrival   %.6f s in the file, 0 here\n", account->rebased_s);
    if (account->out_of_order_rows > 0)
        printf("  out of order    %" PRIu64 " rows, sorted into place\n",
               account->out_of_order_rows);
    if (account->orphan_turns > 0)
        printf("  orphan turns    %" PRIu64 ", whose parent is not above them\n",
               account->orphan_turns);
    print_unused(stats->unused);
    print_lengths("input", &stats->input, stats->input_max);
    print_lengths("output", &stats->output, stats->output_max);
    printf("  longest context %" PRIu32 " tokens\n", stats->longest_tokens);
    print_prefixes(stats);
}

static bool add_lengths(cJSON *object, const char *name, const struct kvt_summary *summary,
                        double maximum)
{
    cJSON *lengths = cJSON_AddObjectToObject(object, name);
    return lengths != NULL && trace_add_number(lengths, "mean", summary->mean) &&
           trace_add_number(lengths, "std", summary->std) &&
           trace_add_number(lengths, "p50", summary->p50) &&
           trace_add_number(lengths, "p90", summary->p90) &&
           trace_add_number(lengths, "p95", summary->p95) &&
           trace_add_number(lengths, "p99", summary->p99) &&
           trace_add_number(lengths, "max", maximum);
}

static bool add_dropped(cJSON *object, const struct kvt_trace_account *account)
{
    cJSON *dropped = cJSON_AddObjectToObject(object, "dropped");
    bool is_whole = dropped != NULL;
    for (int i = 0; is_whole && i < KVT_DROP_REASONS; i++)
        is_whole = trace_add_number(dropped, kvt_drop_reason_name((enum kvt_drop_reason)i),
                                    (double)account->dropped[i]);
    return is_whole;
}

/* "a, b" as a list of names. */
static bool add_unused(cJSON *object, const char *names)
{
    cJSON *list = cJSON_AddArrayToObject(object, "unused");
    bool is_whole = list != NULL;
    while (is_whole && *names != '\0') {
        char name[UNUSED_BYTES];
        size_t length = strcspn(names, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, names);
        cJSON *item = cJSON_CreateString(name);
        is_whole = item != NULL && cJSON_AddItemToArray(list, item);
        names += length + strspn(names + length, ", ");
    }
    return is_whole;
}

static bool add_prefixes(cJSON *object, const struct stats *stats)
{
    cJSON *prefixes = cJSON_AddObjectToObject(object, "prefixes");
    return prefixes != NULL &&
           trace_add_number(prefixes, "requests", (double)stats->keyed_requests) &&
           trace_add_number(prefixes, "hash_ids_requests",
                            (double)stats->account.hash_id_requests) &&
           trace_add_number(prefixes, "pages", (double)stats->pages) &&
           trace_add_number(prefixes, "found_share", stats->found_share) &&
           trace_add_number(prefixes, "counted_share", stats->counted_share);
}

static cJSON *tree_of(const void *read)
{
    const struct stats *stats = read;
    const struct kvt_trace_account *account = &stats->account;
    cJSON *tree = cJSON_CreateObject();
    bool is_whole =
        tree != NULL && cJSON_AddStringToObject(tree, "file", stats->path) != NULL &&
        cJSON_AddStringToObject(tree, "format", account->format) != NULL &&
        trace_add_number(tree, "rows_read", (double)account->rows_read) &&
        trace_add_number(tree, "used", (double)account->used) && add_dropped(tree, account) &&
        trace_add_number(tree, "requests", (double)account->requests) &&
        trace_add_number(tree, "out_of_order_rows", (double)account->out_of_order_rows) &&
        trace_add_number(tree, "orphan_turns", (double)account->orphan_turns) &&
        trace_add_number(tree, "rebased_s", account->rebased_s) &&
        trace_add_number(tree, "span_s", account->span_s) &&
        trace_add_number(tree, "mean_rate_per_s", stats->mean_rate_per_s) &&
        add_lengths(tree, "input_tokens", &stats->input, stats->input_max) &&
        add_lengths(tree, "output_tokens", &stats->output, stats->output_max) &&
        trace_add_number(tree, "longest_context_tokens", stats->longest_tokens) &&
        add_prefixes(tree, stats) && add_unused(tree, stats->unused);
    if (!is_whole) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

static kvt_status read_stats(const struct question *question, const char *const *paths,
                             size_t count, struct stats *stats, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        struct kvt_trace *trace = NULL;
        status = open_trace(question, paths[i], true, &trace, err);
        if (status == KVT_OK)
            status = stats_of(trace, paths[i], &stats[i], err);
        kvt_trace_close(trace);
    }
    return status;
}

/* Nothing is printed before every file has been read. */
static kvt_status run_stats(const struct question *question, const char *const *paths, size_t count,
                            struct kvt_error *err)
{
    assert(count > 0);
    struct stats *stats = calloc(count, sizeof *stats);
    if (stats == NULL)
        return kvt_fail_nomem(err, "trace stats");
    kvt_status status = read_stats(question, paths, count, stats, err);
    if (status == KVT_OK && question->json)
        status = trace_print_json(stats, sizeof *stats, count, tree_of, err);
    for (size_t i = 0; status == KVT_OK && !question->json && i < count; i++)
        print_stats(&stats[i]);
    free(stats);
    return status;
}

/* ---- convert ---------------------------------------------------------------------- */

/* A field of CSV, quoted where RFC 4180 wants it. */
static void put_field(FILE *stream, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        (void)fputs(text, stream);
        return;
    }
    (void)fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)fputc('"', stream);
        (void)fputc(*text, stream);
    }
    (void)fputc('"', stream);
}

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
    put_field(stream, spec->slo_class);
    (void)fputs(",,", stream);
    put_field(stream, spec->task != NULL ? spec->task : "");
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

static kvt_status run_convert(const struct question *question, const char *path,
                              struct kvt_error *err)
{
    struct kvt_trace *trace = NULL;
    struct kvt_outfile *file = NULL;
    kvt_status status = open_trace(question, path, false, &trace, err);
    if (status == KVT_OK)
        status = kvt_outfile_open(question->to, &file, err);
    if (status == KVT_OK)
        status = write_requests(trace, kvt_outfile_stream(file), err);
    if (status == KVT_OK) {
        status = kvt_outfile_commit(file, err);
        file = NULL;
    }
    kvt_outfile_discard(file);
    if (status == KVT_OK && !question->quiet) {
        const struct kvt_trace_account *account = kvt_trace_account_of(trace);
        (void)fprintf(
            stderr, "%s: %" PRIu64 " requests from %" PRIu64 " of %" PRIu64 " rows (%s)\n",
            question->to, account->requests, account->used, account->rows_read, account->format);
        if (account->unconverted != NULL)
            (void)fprintf(stderr, "%s: not carried over: %s\n", question->to, account->unconverted);
    }
    kvt_trace_close(trace);
    return status;
}

/* ---- The command -------------------------------------------------------------------- */

/* True where an option was given that only request traces have. */
static bool asks_of_requests(const struct question *question)
{
    return question->format != NULL || question->window != NULL || question->rate_scale != NULL ||
           question->seed != NOT_GIVEN;
}

static int act_stats(const struct question *question, const char *const *paths, size_t count)
{
    if (question->to != NULL || question->context_rows != NOT_GIVEN)
        return cli_malformed("trace stats: %s belongs to trace convert",
                             question->to != NULL ? "--to" : "--context-rows");
    size_t kvsel_count = 0;
    for (size_t i = 0; i < count; i++) {
        enum trace_kind kind = trace_kind_of(paths[i]);
        kvsel_count += kind == TRACE_KVSEL;
        if (kind == TRACE_NPY)
            return cli_malformed("trace stats: %s is a NumPy array; trace convert --to OUT.kvsel "
                                 "makes it readable",
                                 paths[i]);
    }
    if (kvsel_count > 0 && kvsel_count < count)
        return cli_malformed("trace stats: files of selections (.kvsel) and request traces; one "
                             "kind at a time is expected");
    if (kvsel_count > 0 && asks_of_requests(question))
        return cli_malformed("trace stats: --format, --window, --rate-scale and --seed are of "
                             "request traces; %s holds selections",
                             paths[0]);
    struct kvt_error err;
    kvt_status status = kvsel_count > 0 ? trace_kvsel_stats(paths, count, question->json, &err)
                                        : run_stats(question, paths, count, &err);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static int act_convert(const struct question *question, const char *const *paths, size_t count)
{
    if (question->to == NULL || count != 1 || question->json)
        return cli_malformed("trace convert: one FILE and --to OUT.csv (OUT.kvsel of selections) "
                             "are expected, no --json");
    if (kvt_file_is_same(paths[0], question->to))
        return cli_malformed("trace convert: --to %s is the file that is read, %s; another one is "
                             "expected",
                             question->to, paths[0]);
    enum trace_kind kind = trace_kind_of(paths[0]);
    if (kind == TRACE_KVSEL)
        return cli_malformed("trace convert: %s is a .kvsel file already", paths[0]);
    if (kind == TRACE_NPY && asks_of_requests(question))
        return cli_malformed("trace convert: --format, --window, --rate-scale and --seed are of "
                             "request traces; %s holds selections",
                             paths[0]);
    if (kind == TRACE_NPY && !ends_with(question->to, ".kvsel"))
        return cli_malformed("trace convert: %s holds selections; --to %s is expected to end in "
                             ".kvsel",
                             paths[0], question->to);
    if (kind == TRACE_REQUESTS && ends_with(paths[0], ".npy"))
        return cli_malformed("trace convert: %s does not begin as a NumPy file does, with "
                             "\\x93NUMPY",
                             paths[0]);
    if (kind == TRACE_REQUESTS && question->context_rows != NOT_GIVEN)
        return cli_malformed("trace convert: --context-rows is of selections; %s holds none",
                             paths[0]);
    bool is_given = question->context_rows != NOT_GIVEN;
    if (is_given && (question->context_rows == 0 || question->context_rows > UINT32_MAX))
        return cli_malformed(
            "trace convert: --context-rows %" PRIu64 " is too %s; 1 to %" PRIu32 " are expected",
            question->context_rows, question->context_rows == 0 ? "small" : "large", UINT32_MAX);
    struct kvt_error err;
    kvt_status status = kind == TRACE_NPY
                            ? trace_npy_convert(paths[0], question->to,
                                                is_given ? (uint32_t)question->context_rows : 0,
                                                question->quiet, &err)
                            : run_convert(question, paths[0], &err);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

static int act(const struct question *question, const struct cli_texts *positional)
{
    const char *action = positional->items[0];
    const char *const *paths = positional->items + 1;
    size_t count = positional->count - 1;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(action, later[i]) == 0)
            return cli_malformed("trace %s: this version of kvtide does not have it yet", action);
    }
    bool is_stats = strcmp(action, "stats") == 0;
    if (!is_stats && strcmp(action, "convert") != 0)
        return cli_malformed("trace: no action %s; there are: stats convert", action);
    if (count == 0)
        return cli_malformed("trace %s: which file?", action);
    return is_stats ? act_stats(question, paths, count) : act_convert(question, paths, count);
}

int kvt_cmd_trace(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.seed = NOT_GIVEN, .context_rows = NOT_GIVEN};
    const struct cli_option options[] = {
        {"--format", "FORMAT", "the files' format; without it, by their content", CLI_TEXT,
         &question.format},
        {"--window", "FROM:TO", "seconds after the first arrival; either may be left out", CLI_TEXT,
         &question.window},
        {"--rate-scale", "X", "how many times faster than recorded", CLI_TEXT,
         &question.rate_scale},
        {"--seed", "N", "for formats that give rates only (servegen); 1", CLI_COUNT,
         &question.seed},
        {"--to", "OUT", "convert: the file to write, kvtide's CSV, or .kvsel of an array", CLI_TEXT,
         &question.to},
        {"--context-rows", "N",
         "convert: rows that an array's first token sees; the fewest that fit", CLI_COUNT,
         &question.context_rows},
        {"--json", NULL, "stats: prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "says nothing on stderr when all went well", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts positional = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, SIZE_MAX, &positional, &exit_code))
        exit_code = act(&question, &positional);
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
