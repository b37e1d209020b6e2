/* trace_kvsel.c -- kvtide trace on recorded selections: how local they are, and NumPy's into ours.
 */
#include "trace_kvsel.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/kvsel.h"
#include "trace_json.h"
#include "trace_locality.h"
#include "trace_rows.h"

/* One file's answer. */
struct answer {
    const char *path;
    struct kvt_kvsel_header header;
    struct kvt_kvsel_stats stats;
    struct trace_locality locality;
};

kvt_status trace_kind_of(const char *path, enum trace_kind *out, struct kvt_error *err)
{
    static const char header[] = TRACE_ROWS_HEADER;
    char first[sizeof header];
    FILE *stream = NULL;
    kvt_status status = kvt_file_open(path, &stream, err);
    if (status != KVT_OK)
        return status;
    size_t got = fread(first, 1, sizeof first, stream);
    (void)fclose(stream);
    size_t length = sizeof header - 1;
    bool is_header = got >= length && memcmp(first, header, length) == 0 &&
                     (got == length || first[length] == '\n' || first[length] == '\r');
    if (kvt_kvsel_is_magic(first, got))
        *out = TRACE_KVSEL;
    else if (got >= 6 && memcmp(first, "\x93NUMPY", 6) == 0)
        *out = TRACE_NPY;
    else
        *out = is_header ? TRACE_ROWS : TRACE_REQUESTS;
    return KVT_OK;
}

/* ---- stats ---------------------------------------------------------------------- */

static void print_row_of(const char *title, const uint32_t *heads, const double *values, int count)
{
    printf("  %s\n ", title);
    for (int i = 0; i < count; i++)
        printf(" %7" PRIu32, heads[i]);
    printf("\n ");
    for (int i = 0; i < count; i++) {
        if (isnan(values[i]))
            printf(" %7s", "-");
        else
            printf(" %7.4f", values[i]);
    }
    (void)putchar('\n');
}

static void print_answer(const struct answer *answer)
{
    const struct kvt_kvsel_header *header = &answer->header;
    const struct kvt_kvsel_stats *stats = &answer->stats;
    uint32_t counts[KVT_KVSEL_UNIONS];
    for (uint32_t u = 0; u < KVT_KVSEL_UNIONS; u++)
        counts[u] = u + 1;
    printf("%s: kvsel\n", answer->path);
    printf("  streams         %" PRIu32 " requests of %" PRIu32 " selectors\n",
           header->request_count, header->selector_count);
    printf("  tokens          %" PRIu64 " of all streams, %" PRIu64 " rows selected\n",
           stats->tokens, stats->selected);
    printf("  k               %" PRIu32 " of %" PRIu32 " to %" PRIu32 " visible rows\n",
           header->top_k, stats->rows_min, stats->rows_max);
    if (header->side_paths > 0)
        printf("  rejected drafts %" PRIu32 " of %" PRIu32 " tokens after each token\n",
               header->side_paths, header->side_tokens);
    else
        printf("  rejected drafts none\n");
    print_row_of("rows shared with the selection so many tokens before, over k", kvt_kvsel_lags,
                 stats->overlap, KVT_KVSEL_LAGS);
    print_row_of("distinct rows of so many selections in a row, over k", counts, stats->unions,
                 KVT_KVSEL_UNIONS);
    trace_locality_print(&answer->locality);
}

static bool add_row_of(cJSON *object, const char *name, const uint32_t *heads, const double *values,
                       int count)
{
    cJSON *row = cJSON_AddObjectToObject(object, name);
    bool is_whole = row != NULL;
    for (int i = 0; is_whole && i < count; i++) {
        char head[16];
        (void)snprintf(head, sizeof head, "%" PRIu32, heads[i]);
        is_whole = trace_add_number(row, head, values[i]);
    }
    return is_whole;
}

static cJSON *tree_of(const void *read)
{
    const struct answer *answer = read;
    const struct kvt_kvsel_header *header = &answer->header;
    const struct kvt_kvsel_stats *stats = &answer->stats;
    uint32_t counts[KVT_KVSEL_UNIONS];
    for (uint32_t u = 0; u < KVT_KVSEL_UNIONS; u++)
        counts[u] = u + 1;
    cJSON *tree = cJSON_CreateObject();
    bool is_whole =
        tree != NULL && cJSON_AddStringToObject(tree, "file", answer->path) != NULL &&
        cJSON_AddStringToObject(tree, "format", "kvsel") != NULL &&
        trace_add_number(tree, "requests", header->request_count) &&
        trace_add_number(tree, "selectors", header->selector_count) &&
        trace_add_number(tree, "tokens", (double)stats->tokens) &&
        trace_add_number(tree, "selected_rows", (double)stats->selected) &&
        trace_add_number(tree, "top_k", header->top_k) &&
        trace_add_number(tree, "visible_rows_min", stats->rows_min) &&
        trace_add_number(tree, "visible_rows_max", stats->rows_max) &&
        trace_add_number(tree, "side_paths", header->side_paths) &&
        trace_add_number(tree, "side_tokens", header->side_tokens) &&
        add_row_of(tree, "overlap_by_lag", kvt_kvsel_lags, stats->overlap, KVT_KVSEL_LAGS) &&
        add_row_of(tree, "union_by_selections", counts, stats->unions, KVT_KVSEL_UNIONS) &&
        trace_locality_add(tree, &answer->locality);
    if (!is_whole) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

struct reading {
    struct cli_progress progress;
    struct kvt_wall start;
};

static bool on_progress(void *context, double fraction)
{
    struct reading *reading = context;
    cli_progress_show(&reading->progress, fraction, "counting");
    return !cli_interrupted();
}

/* The note goes with the file. */
static kvt_status read_answer(const char *path, bool quiet, struct answer *out,
                              struct kvt_error *err)
{
    struct kvt_kvsel *file = NULL;
    struct reading reading;
    kvt_status status = kvt_kvsel_load(path, true, &file, err);
    if (status != KVT_OK)
        return status;
    *out = (struct answer){.path = path, .header = *kvt_kvsel_header_of(file)};
    out->header.note = NULL;
    cli_progress_begin(&reading.progress, &reading.start, quiet);
    status = kvt_kvsel_stats_of(file, &out->stats, err);
    if (status == KVT_OK)
        status = trace_locality_of(file, on_progress, &reading, &out->locality, err);
    cli_progress_end(&reading.progress);
    kvt_kvsel_free(file);
    return status;
}

kvt_status trace_kvsel_stats(const char *const *paths, size_t count, bool json, bool quiet,
                             struct kvt_error *err)
{
    struct answer *answers = calloc(count, sizeof *answers);
    if (answers == NULL)
        return kvt_fail_nomem(err, "trace stats");
    cli_catch_signals();
    kvt_status status = KVT_OK;
    for (size_t i = 0; i < count && status == KVT_OK; i++)
        status = read_answer(paths[i], quiet, &answers[i], err);
    if (status == KVT_OK && json)
        status = trace_print_json(answers, sizeof *answers, count, tree_of, err);
    for (size_t i = 0; i < count && status == KVT_OK && !json; i++)
        print_answer(&answers[i]);
    free(answers);
    return status;
}

/* ---- convert ---------------------------------------------------------------------- */

kvt_status trace_npy_convert(const char *path, const char *to, uint32_t first_rows, bool quiet,
                             struct kvt_error *err)
{
    struct kvt_kvsel_npy found;
    kvt_status status = kvt_kvsel_from_npy(path, to, first_rows, &found, err);
    if (status != KVT_OK || quiet)
        return status;
    (void)fprintf(stderr,
                  "%s: %" PRIu32 " tokens of %" PRIu32 " layers, %" PRIu32
                  " rows each; the first token sees %" PRIu32 " rows%s\n",
                  to, found.tokens, found.layers - found.silent_layers, found.top_k,
                  found.first_rows, first_rows == 0 ? ", the fewest that fit" : "");
    if (found.silent_layers > 0)
        (void)fprintf(stderr, "%s: left out: %" PRIu32 " of %" PRIu32 " layers, all of them -1\n",
                      to, found.silent_layers, found.layers);
    return status;
}
