/* golden_calls.c -- golden call vectors, read from a file. */
#include "golden_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/speculation.h"

enum {
    FILE_BYTES_MAX = 16 << 20,
    SLOTS_MAX = 65536,
    ROWS_MAX = 1 << 20,
    CALLS_MAX = 1 << 20,
    PATH_BYTES = 4096
};

/* A file is read line by line, each of which begins with its word. The first that does not ends
 * the reading: from then on lines are empty. */
struct golden_file {
    char path[PATH_BYTES];
    char *text, *next;
    uint32_t line;
    struct golden_head head;
    uint32_t calls_read;
    uint64_t *sets; /* [KVT_QUERIES_MAX + 1][words] queries, and resident pages */
    size_t words;
    const uint64_t *selections[KVT_QUERIES_MAX];
    kvt_status status;
    struct kvt_error error;
};

/* ---- Lines ---------------------------------------------------------------------------- */

static void refuse(struct golden_file *file, const char *expected)
{
    char where[PATH_BYTES + 16];

    if (file->status != KVT_OK)
        return;
    (void)snprintf(where, sizeof where, "%s:%u", file->path, file->line);
    file->status =
        kvt_fail(&file->error, KVT_ERR_PARSE, where, "\"%.40s\" is expected here", expected);
}

static bool is_next(const struct golden_file *file, const char *word)
{
    return file->status == KVT_OK && strncmp(file->next, word, strlen(word)) == 0;
}

/* The rest of the next line, which begins with the word. */
static char *line_of(struct golden_file *file, const char *word)
{
    static char nothing[1];
    char *line = file->next, *end = strchr(line, '\n');

    file->line++;
    if (!end || !is_next(file, word)) {
        refuse(file, word);
        return nothing;
    }
    *end = '\0';
    file->next = end + 1;
    return line + strlen(word);
}

static bool next_number(const char **line, uint32_t *number)
{
    char *end;

    *number = (uint32_t)strtoul(*line, &end, 10);
    bool found = end != *line;
    *line = end;
    return found;
}

static uint32_t number_of(struct golden_file *file, const char *word, uint32_t least, uint32_t most)
{
    const char *line = line_of(file, word);
    uint32_t number;

    if (file->status != KVT_OK)
        return least;
    if (!next_number(&line, &number) || *line != '\0' || number < least || number > most) {
        refuse(file, word);
        return least;
    }
    return number;
}

/* ---- Calls ---------------------------------------------------------------------------- */

/* Runs of rows, "first+count". */
static void read_pages(struct golden_file *file, uint64_t *pages)
{
    const char *line = line_of(file, "pages");
    uint32_t rows_max = file->head.rows_max, first, count;

    memset(pages, 0, file->words * sizeof *pages);
    while (file->status == KVT_OK && next_number(&line, &first)) {
        if (*line++ != '+' || !next_number(&line, &count) || first > rows_max ||
            count > rows_max - first) {
            refuse(file, "FIRST+COUNT of rows below rows_max");
            return;
        }
        for (uint32_t row = first; row < first + count; row++)
            kvt_row_set_add(pages, &row, 1);
    }
}

/* The first row, then the distance of each to the one before. */
static void read_query(struct golden_file *file, uint64_t *set)
{
    const char *line = line_of(file, "query");
    uint64_t row = 0;
    uint32_t step;

    memset(set, 0, file->words * sizeof *set);
    while (file->status == KVT_OK && next_number(&line, &step)) {
        row += step;
        uint32_t at = (uint32_t)row;
        if (row >= file->head.rows_max)
            refuse(file, "rows below rows_max");
        else
            kvt_row_set_add(set, &at, 1);
    }
}

static void read_call(struct golden_file *file, struct kvt_resolve_call *call)
{
    uint64_t *pages = file->sets + KVT_QUERIES_MAX * file->words;

    *call = (struct kvt_resolve_call){.step = file->calls_read,
                                      .page_rows = pages,
                                      .selections = file->selections,
                                      .promotion = file->head.promotion};
    (void)line_of(file, "");
    (void)number_of(file, "call ", file->calls_read, file->calls_read);
    call->visible_rows = number_of(file, "visible ", 1, file->head.rows_max);
    call->tail_first_row = number_of(file, "tail ", 0, file->head.rows_max);
    read_pages(file, pages);
    while (is_next(file, "query") && call->query_count < KVT_QUERIES_MAX) {
        uint64_t *set = file->sets + call->query_count * file->words;
        read_query(file, set);
        file->selections[call->query_count++] = set;
    }
}

/* Counters are in the chain, and the other lists follow from the state. */
static void read_answer(struct golden_file *file, struct golden_call *out)
{
    static const char *const skipped[] = {"fills", "evicted", "promoted", "promoted_slots"};

    (void)line_of(file, "rows ");
    (void)line_of(file, "selections ");
    out->missed = line_of(file, "missed");
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++)
        (void)line_of(file, skipped[i]);
    out->state = strtoull(line_of(file, "state "), NULL, 16);
    out->chain = strtoull(line_of(file, "chain "), NULL, 16);
}

kvt_status golden_next(struct golden_file *file, struct golden_call *out, struct kvt_error *err)
{
    read_call(file, &out->call);
    read_answer(file, out);
    file->calls_read++;
    if (file->calls_read == file->head.calls && *file->next != '\0')
        refuse(file, "the end of the file");
    if (file->status != KVT_OK && err)
        *err = file->error;
    return file->status;
}

bool golden_list_is(const char *text, const uint32_t *items, uint32_t count)
{
    uint32_t item, at = 0;

    while (next_number(&text, &item)) {
        if (at >= count || items[at++] != item)
            return false;
    }
    return at == count;
}

uint64_t golden_chain(uint64_t chain, uint64_t state, const struct kvt_resolve_result *r)
{
    const uint64_t values[] = {state,
                               r->union_rows,
                               r->tail_rows,
                               r->page_rows,
                               r->hot_rows,
                               r->filled_rows,
                               r->staged_rows,
                               r->promoted_rows,
                               r->selected,
                               r->tail_selected,
                               r->page_selected,
                               r->hot_selected,
                               r->missed_selected};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        chain = kvt_chain64(chain, values[i]);
    return chain;
}

/* ---- Files ---------------------------------------------------------------------------- */

static void read_head(struct golden_file *file)
{
    struct golden_head *head = &file->head;

    (void)line_of(file, "kvtide resolver calls 1");
    head->slots = number_of(file, "slots ", 1, SLOTS_MAX);
    head->top_k = number_of(file, "top_k ", 1, ROWS_MAX);
    head->rows_max = number_of(file, "rows_max ", 1, ROWS_MAX);
    head->policy = line_of(file, "policy ");
    head->promotion = strcmp(line_of(file, "promotion "), "by_count") == 0 ? KVT_PROMOTE_BY_COUNT
                                                                           : KVT_PROMOTE_NONE;
    head->calls = number_of(file, "calls ", 1, CALLS_MAX);
}

kvt_status golden_open(const char *path, struct golden_file **out, struct kvt_error *err)
{
    struct golden_file *file = calloc(1, sizeof *file);
    size_t bytes = 0;

    if (!file)
        return kvt_fail_nomem(err, "golden calls");
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    kvt_status status = kvt_file_read(path, FILE_BYTES_MAX, &file->text, &bytes, err);
    if (status == KVT_OK) {
        file->next = file->text;
        read_head(file);
        status = file->status;
        if (status != KVT_OK && err)
            *err = file->error;
    }
    if (status == KVT_OK) {
        file->words = kvt_row_words(file->head.rows_max);
        file->sets = calloc((KVT_QUERIES_MAX + 1) * file->words, sizeof *file->sets);
        if (!file->sets)
            status = kvt_fail_nomem(err, "golden calls");
    }
    if (status != KVT_OK) {
        golden_close(file);
        return status;
    }
    *out = file;
    return KVT_OK;
}

void golden_close(struct golden_file *file)
{
    if (!file)
        return;
    free(file->sets);
    free(file->text);
    free(file);
}

const struct golden_head *golden_head(const struct golden_file *file)
{
    return &file->head;
}
