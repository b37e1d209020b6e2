/* csv.c -- rows of a CSV file: libcsv's fields over the checked lines of lines.c.
 *
 *     next: feed lines to libcsv until it reports the end of a row;
 *           skip the row when all its fields are blank
 *
 * Fed by the line, libcsv's place in the file is always known, and a row is
 * never in memory together with the one after it. A CRLF inside a quoted field
 * is handed out as LF. */
#include <csv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "kvt/file.h"

enum {
    FIELDS_MAX = 65536,        /* of a row: a file with more is not a table of ours */
    FIELD_BLOCK_BYTES = 65536, /* libcsv's buffer grows by this at least */
    FIRST_TEXT_BYTES = 1024,
    FIRST_FIELDS = 32,
};

struct kvt_csv {
    struct kvt_lines *lines;
    char *name;
    struct csv_parser parser;

    /* The row being read or handed out: its fields' text, each ended by a NUL. */
    char *text;
    size_t text_bytes;
    size_t text_capacity;
    size_t *starts; /* [field_capacity] in text; it moves as it grows */
    char **fields;  /* [field_capacity] */
    size_t field_count;
    size_t field_capacity;
    uint64_t row_line;
    size_t row_bytes; /* in the file, so far */
    bool is_row_complete;

    kvt_status trouble;       /* of a callback, which cannot return one */
    struct kvt_error failure; /* the first failure; every later call repeats it */
};

/* Makes room for one more field of field_bytes bytes. */
static kvt_status reserve(struct kvt_csv *csv, size_t field_bytes)
{
    size_t needed = csv->text_bytes + field_bytes + 1; /* both at most 64 MiB */
    if (needed > csv->text_capacity) {
        size_t capacity = csv->text_capacity;
        while (capacity < needed)
            capacity *= 2;
        char *text = realloc(csv->text, capacity);
        if (text == NULL)
            return KVT_ERR_NOMEM;
        csv->text = text;
        csv->text_capacity = capacity;
    }
    if (csv->field_count == csv->field_capacity) {
        size_t capacity = csv->field_capacity * 2;
        size_t *starts = realloc(csv->starts, capacity * sizeof *starts);
        if (starts == NULL)
            return KVT_ERR_NOMEM;
        csv->starts = starts;
        char **fields = realloc(csv->fields, capacity * sizeof *fields);
        if (fields == NULL)
            return KVT_ERR_NOMEM;
        csv->fields = fields;
        csv->field_capacity = capacity;
    }
    return KVT_OK;
}

static void on_field(void *bytes, size_t byte_count, void *data)
{
    struct kvt_csv *csv = data;
    if (csv->trouble != KVT_OK)
        return;
    csv->trouble = csv->field_count < FIELDS_MAX ? reserve(csv, byte_count) : KVT_ERR_PARSE;
    if (csv->trouble != KVT_OK)
        return;
    csv->starts[csv->field_count++] = csv->text_bytes;
    if (byte_count > 0)
        memcpy(csv->text + csv->text_bytes, bytes, byte_count);
    csv->text_bytes += byte_count;
    csv->text[csv->text_bytes++] = '\0';
}

static void on_row(int line_end, void *data)
{
    (void)line_end;
    struct kvt_csv *csv = data;
    csv->is_row_complete = true;
}

kvt_status kvt_csv_open(const char *path, struct kvt_csv **out, struct kvt_error *err)
{
    struct kvt_csv *csv = calloc(1, sizeof *csv);
    if (csv == NULL)
        return kvt_fail_nomem(err, path);
    if (csv_init(&csv->parser, CSV_STRICT | CSV_STRICT_FINI | CSV_REPALL_NL) != 0) {
        free(csv);
        return kvt_fail_nomem(err, path);
    }

    kvt_status status = kvt_lines_open(path, &csv->lines, err);
    if (status == KVT_OK) {
        csv->text_capacity = FIRST_TEXT_BYTES;
        csv->field_capacity = FIRST_FIELDS;
        csv->name = strdup(path);
        csv->text = malloc(csv->text_capacity);
        csv->starts = malloc(csv->field_capacity * sizeof *csv->starts);
        csv->fields = malloc(csv->field_capacity * sizeof *csv->fields);
        if (csv->name == NULL || csv->text == NULL || csv->starts == NULL || csv->fields == NULL)
            status = kvt_fail_nomem(err, path);
    }
    if (status != KVT_OK) {
        kvt_csv_close(csv);
        return status;
    }
    *out = csv;
    return KVT_OK;
}

void kvt_csv_close(struct kvt_csv *csv)
{
    if (csv == NULL)
        return;
    csv_free(&csv->parser);
    kvt_lines_close(csv->lines);
    free(csv->name);
    free(csv->text);
    free(csv->starts);
    free(csv->fields);
    free(csv);
}

static kvt_status fail_at(struct kvt_csv *csv, uint64_t line, size_t column, const char *message)
{
    char where[sizeof csv->failure.where];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 ":%zu", csv->name, line, column);
    return kvt_fail(&csv->failure, KVT_ERR_PARSE, where, "%s", message);
}

/* libcsv adds a fixed number of bytes to its buffer for one field each time it
 * is full, which would copy a long field many times over. As many as it has, or
 * as the line can need, copies each byte a few times. */
static size_t growth_for(const struct kvt_csv *csv, size_t text_bytes)
{
    size_t growth = FIELD_BLOCK_BYTES;
    if (csv->parser.entry_size > growth)
        growth = csv->parser.entry_size;
    return text_bytes > growth ? text_bytes : growth;
}

/* One line, with its end, into libcsv. */
static kvt_status feed(struct kvt_csv *csv, const char *text, size_t text_bytes)
{
    uint64_t line = kvt_lines_number(csv->lines);
    csv_set_blk_size(&csv->parser, growth_for(csv, text_bytes));
    size_t taken = csv_parse(&csv->parser, text, text_bytes, on_field, on_row, csv);
    if (taken == text_bytes)
        taken += csv_parse(&csv->parser, "\n", 1, on_field, on_row, csv);
    /* Asked before anything else touches the parser: csv_fini() forgets it. */
    if (taken != text_bytes + 1 && csv_error(&csv->parser) == CSV_EPARSE) {
        return fail_at(csv, line, taken + 1,
                       "a quote out of place; a field with quotes is quoted as a whole, and each "
                       "quote inside it is doubled");
    }
    if (taken != text_bytes + 1 || csv->trouble == KVT_ERR_NOMEM)
        return kvt_fail_nomem(&csv->failure, csv->name);
    if (csv->trouble != KVT_OK)
        return fail_at(csv, csv->row_line, 1, "a row of more than the 65536 fields that are read");
    return KVT_OK;
}

/* Reads one row, blank or not; is_row_complete stays false at the end. */
static kvt_status read_row(struct kvt_csv *csv)
{
    csv->text_bytes = 0;
    csv->field_count = 0;
    csv->row_line = kvt_lines_number(csv->lines) + 1;
    csv->row_bytes = 0;
    csv->is_row_complete = false;
    while (!csv->is_row_complete) {
        char *text = NULL;
        size_t text_bytes = 0;
        kvt_status status = kvt_lines_next(csv->lines, &text, &text_bytes, &csv->failure);
        if (status != KVT_OK)
            return status;
        if (text == NULL) {
            if (csv_fini(&csv->parser, on_field, on_row, csv) != 0)
                return fail_at(csv, csv->row_line, 1, "a quote that opens here is never closed");
            return KVT_OK;
        }
        if (text_bytes + 1 > KVT_LINE_BYTES_MAX + 1 - csv->row_bytes)
            return fail_at(csv, csv->row_line, 1, "a row longer than the 64 MiB that are read");
        csv->row_bytes += text_bytes + 1;
        status = feed(csv, text, text_bytes);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static bool is_row_blank(const struct kvt_csv *csv)
{
    for (size_t i = 0; i < csv->field_count; i++) {
        const char *field = csv->text + csv->starts[i];
        if (field[strspn(field, " \t\n")] != '\0')
            return false;
    }
    return true;
}

kvt_status kvt_csv_next(struct kvt_csv *csv, char ***fields, size_t *field_count,
                        struct kvt_error *err)
{
    kvt_status status = csv->failure.status;
    do {
        if (status == KVT_OK)
            status = read_row(csv);
        if (status != KVT_OK) {
            if (err != NULL)
                *err = csv->failure;
            return status;
        }
    } while (csv->is_row_complete && is_row_blank(csv));

    for (size_t i = 0; i < csv->field_count; i++)
        csv->fields[i] = csv->text + csv->starts[i];
    *fields = csv->is_row_complete ? csv->fields : NULL;
    *field_count = csv->is_row_complete ? csv->field_count : 0;
    return KVT_OK;
}

uint64_t kvt_csv_line(const struct kvt_csv *csv)
{
    return csv->row_line;
}

void kvt_csv_put(FILE *stream, const char *text)
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
