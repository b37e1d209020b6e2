/* trace_requests_stats.c -- what a trace of requests holds: arrivals, lengths, common beginnings.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/metrics.h"
#include "kvt/workload.h"
#include "trace_json.h"
#include "trace_prefixes.h"
#include "trace_requests.h"

enum {
    UNUSED_BYTES = 256
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
    out->keyed_requests = prefixes->requests;
    out->pages = prefixes->pages;
    out->found_share =
        out->account.hash_ids_left_out ? (double)NAN : trace_prefixes_found_share(prefixes);
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

static kvt_status read_stats(const struct trace_requests_question *question,
                             const char *const *paths, size_t count, struct stats *stats,
                             struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        struct kvt_trace *trace = NULL;
        status = trace_requests_open(question, paths[i], true, &trace, err);
        if (status == KVT_OK)
            status = stats_of(trace, paths[i], &stats[i], err);
        kvt_trace_close(trace);
    }
    return status;
}

kvt_status trace_requests_stats(const struct trace_requests_question *question,
                                const char *const *paths, size_t count, bool json,
                                struct kvt_error *err)
{
    assert(count > 0);
    struct stats *stats = calloc(count, sizeof *stats);
    if (stats == NULL)
        return kvt_fail_nomem(err, "trace stats");
    kvt_status status = read_stats(question, paths, count, stats, err);
    if (status == KVT_OK && json)
        status = trace_print_json(stats, sizeof *stats, count, tree_of, err);
    for (size_t i = 0; status == KVT_OK && !json && i < count; i++)
        print_stats(&stats[i]);
    free(stats);
    return status;
}
