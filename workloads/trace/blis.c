/* blis.c -- the reader of BLIS's TraceV2: a CSV of requests, with a YAML header beside it.
 *
 *     the prompt:  prefix_length of its prefix_group, then input_tokens; outside a group the
 *                  server's own count where it gave one (server_input_tokens)
 *     growth:      where PREFIX.yaml says "session_context_growth: accumulate", input_tokens of a
 *                  later round is what it adds to all before it, answer and all
 *     failed:      any status but "ok" and none
 *
 * A row arrives at arrival_time_us, also where a client held it back (send_time_us). Of the header
 * nothing else matters here; without it prompts are whole. github.com/inference-sim/inference-sim
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "trace_file.h"

enum {
    CAPACITY_FIRST = 64
};

struct session {
    uint64_t id_plus_1; /* 0: nobody's place; ids are below 2^64 - 1 */
    uint64_t tokens;    /* of its last round, answer and all */
};

struct blis_reader {
    struct kvt_trace_source source;
    void *csv; /* a kvt_trace_csv_reader */
    bool accumulates;
    struct session *table; /* [capacity], a power of two, at most half full */
    size_t capacity, count;
};

static void blis_close(void *state)
{
    struct blis_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_trace_csv_reader.close(reader->csv);
    free(reader->table);
    free(reader);
}

/* The value of "key: value" at the margin, without quotes and what is behind a blank; NULL: the
 * line says something else. Changes the line. */
static const char *value_of(char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0 || line[length] != ':')
        return NULL;
    char *value = line + length + 1;
    value += strspn(value, " \t\"'");
    value[strcspn(value, " \t\"'#")] = '\0';
    return value;
}

static kvt_status read_header(struct blis_reader *reader, const char *path, struct kvt_error *err)
{
    struct kvt_lines *lines = NULL;
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_lines_open(path, &lines, err);
    while (status == KVT_OK) {
        status = kvt_lines_next(lines, &text, &text_bytes, err);
        if (status != KVT_OK || text == NULL)
            break;
        const char *growth = value_of(text, "session_context_growth");
        if (growth == NULL || growth[0] == '\0')
            continue;
        reader->accumulates = strcmp(growth, "accumulate") == 0;
        if (!reader->accumulates && strcmp(growth, "independent") != 0) {
            char where[256];
            (void)snprintf(where, sizeof where, "%s:%" PRIu64, path, kvt_lines_number(lines));
            status = kvt_fail(err, KVT_ERR_PARSE, where,
                              "session_context_growth \"%.40s\"; accumulate or independent is "
                              "expected",
                              growth);
        }
    }
    kvt_lines_close(lines);
    return status;
}

/* "PREFIX.csv" -> "PREFIX.yaml", where there is one. */
static kvt_status find_header(struct blis_reader *reader, struct kvt_error *err)
{
    static const char ending[] = ".csv";
    static const char other[] = ".yaml";
    const char *path = reader->source.path;
    size_t length = strlen(path);
    if (length < sizeof ending || strcmp(path + length - (sizeof ending - 1), ending) != 0)
        return KVT_OK;
    size_t stem = length - (sizeof ending - 1);
    char *header = malloc(stem + sizeof other);
    if (header == NULL)
        return kvt_fail_nomem(err, "a file's name");
    memcpy(header, path, stem);
    memcpy(header + stem, other, sizeof other);
    kvt_status status = access(header, F_OK) == 0 ? read_header(reader, header, err) : KVT_OK;
    free(header);
    return status;
}

static kvt_status blis_open(const struct kvt_trace_source *source, void **out,
                            struct kvt_error *err)
{
    struct blis_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = find_header(reader, err);
    if (status == KVT_OK)
        status = kvt_trace_csv_reader.open(source, &reader->csv, err);
    if (status != KVT_OK) {
        blis_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static struct session *place_of(struct session *table, size_t capacity, uint64_t id)
{
    size_t i = (size_t)kvt_mix64(id) & (capacity - 1);
    while (table[i].id_plus_1 != 0 && table[i].id_plus_1 != id + 1)
        i = (i + 1) & (capacity - 1);
    return &table[i];
}

static kvt_status grow(struct blis_reader *reader, struct kvt_error *err)
{
    size_t capacity = reader->capacity > 0 ? 2 * reader->capacity : CAPACITY_FIRST;
    struct session *table = calloc(capacity, sizeof *table);
    if (table == NULL)
        return kvt_fail_nomem(err, "the conversations of a trace");
    for (size_t i = 0; i < reader->capacity; i++) {
        if (reader->table[i].id_plus_1 != 0)
            *place_of(table, capacity, reader->table[i].id_plus_1 - 1) = reader->table[i];
    }
    free(reader->table);
    reader->table = table;
    reader->capacity = capacity;
    return KVT_OK;
}

static kvt_status fail_long(const struct blis_reader *reader, const struct kvt_trace_row *row,
                            uint64_t tokens, struct kvt_error *err)
{
    char where[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path, row->line);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "a prompt of %" PRIu64 " tokens with all before it is more than %" PRIu64,
                    tokens, (uint64_t)KVT_TRACE_TOKENS_MAX);
}

/* A later round's prompt holds all of the one before. */
static kvt_status accumulate(struct blis_reader *reader, struct kvt_trace_row *row,
                             uint64_t *tokens, struct kvt_error *err)
{
    kvt_status status = 2 * reader->count >= reader->capacity ? grow(reader, err) : KVT_OK;
    if (status != KVT_OK)
        return status;
    struct session *session = place_of(reader->table, reader->capacity, row->session);
    if (session->id_plus_1 == 0) {
        session->id_plus_1 = row->session + 1;
        reader->count++;
    } else if (row->turn > 0) {
        *tokens = session->tokens + row->input_tokens;
    }
    session->tokens = *tokens + row->output_tokens;
    return KVT_OK;
}

static kvt_status server_count(const struct blis_reader *reader, const struct kvt_trace_row *row,
                               uint64_t *tokens, struct kvt_error *err)
{
    const struct kvt_trace_value value = {
        .text = kvt_trace_csv_cell(reader->csv, "server_input_tokens")};
    char where[256];
    if (value.text == NULL || value.text[0] == '\0')
        return KVT_OK;
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 ": server_input_tokens", reader->source.path,
                   row->line);
    uint64_t count = 0;
    kvt_status status = kvt_text_count(value.text, where, KVT_TRACE_TOKENS_MAX, &count, err);
    if (count > 0)
        *tokens = count;
    return status;
}

static kvt_status blis_next(void *state, struct kvt_trace_row *row, bool *more,
                            struct kvt_error *err)
{
    struct blis_reader *reader = state;
    kvt_status status = kvt_trace_csv_reader.next(reader->csv, row, more, err);
    if (status != KVT_OK || !*more)
        return status;
    const char *outcome = kvt_trace_csv_cell(reader->csv, "status");
    const char *group = kvt_trace_csv_cell(reader->csv, "prefix_group");
    uint64_t tokens = row->input_tokens;
    if (group == NULL || group[0] == '\0')
        row->prefix_tokens = 0;
    else
        tokens += row->prefix_tokens;
    if (outcome != NULL && outcome[0] != '\0' && strcmp(outcome, "ok") != 0)
        row->kind = KVT_TRACE_ROW_FAILED;
    if (row->prefix_tokens == 0)
        status = server_count(reader, row, &tokens, err);
    if (status == KVT_OK && reader->accumulates && row->session != UINT64_MAX)
        status = accumulate(reader, row, &tokens, err);
    if (status == KVT_OK && tokens > KVT_TRACE_TOKENS_MAX)
        status = fail_long(reader, row, tokens, err);
    row->input_tokens = (uint32_t)tokens;
    return status;
}

const struct kvt_trace_reader kvt_trace_blis_reader = {
    .open = blis_open,
    .next = blis_next,
    .close = blis_close,
};
