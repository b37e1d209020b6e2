/* csv.c -- the reader of every CSV with a header: columns by name, rows checked. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_file.h"

struct csv_reader {
    struct kvt_trace_source source;
    struct kvt_csv *csv;
    struct kvt_trace_column *columns; /* [column_count] */
    char **names;                     /* [column_count], as in the header */
    size_t column_count;
    char **fields; /* [column_count] of the row last given, borrowed from csv */
};

static void csv_close(void *state)
{
    struct csv_reader *reader = state;
    if (reader == NULL)
        return;
    for (size_t i = 0; reader->names != NULL && i < reader->column_count; i++)
        free(reader->names[i]);
    free(reader->names);
    free(reader->columns);
    kvt_csv_close(reader->csv);
    free(reader);
}

static struct kvt_trace_place place_in(const struct csv_reader *reader, size_t column)
{
    return (struct kvt_trace_place){
        .path = reader->source.path,
        .line = kvt_csv_line(reader->csv),
        .column = column + 1,
        .name = column < reader->column_count ? reader->names[column] : "",
    };
}

/* Copies the header, for the reader's rows are borrowed. False when memory is short. */
static bool copy_header(struct csv_reader *reader, char **fields, size_t field_count)
{
    reader->column_count = 0;
    reader->names = calloc(field_count, sizeof *reader->names);
    reader->columns = calloc(field_count, sizeof *reader->columns);
    if (reader->names == NULL || reader->columns == NULL)
        return false;
    for (size_t i = 0; i < field_count; i++) {
        size_t bytes = strlen(fields[i]) + 1;
        reader->names[i] = malloc(bytes);
        if (reader->names[i] == NULL)
            return false;
        memcpy(reader->names[i], fields[i], bytes);
        reader->column_count++;
        reader->columns[i] = kvt_trace_column_of(fields[i]);
        /* The data's own unit stands where the name gives none. */
        if (reader->columns[i].field == KVT_TRACE_ARRIVAL &&
            reader->columns[i].unit_ns == KVT_TRACE_UNIT_OF_FORMAT)
            reader->columns[i].unit_ns = reader->source.format->unit_ns;
    }
    return true;
}

static bool is_same_name(const char *a, const char *b)
{
    char first[64];
    char second[64];
    if (!kvt_trace_spell(a, first) || !kvt_trace_spell(b, second))
        return strcmp(a, b) == 0;
    return strcmp(first, second) == 0;
}

/* A name twice, or two names of one field (arrival_s beside arrival_ms): which
 * one is meant is not ours to guess. */
static kvt_status refuse_repeats(const struct csv_reader *reader, struct kvt_error *err)
{
    for (size_t i = 1; i < reader->column_count; i++) {
        for (size_t j = 0; j < i; j++) {
            bool is_same = is_same_name(reader->names[i], reader->names[j]);
            enum kvt_trace_field field = reader->columns[i].field;
            bool is_rival = field != KVT_TRACE_OTHER && field == reader->columns[j].field;
            if ((!is_same && !is_rival) || reader->names[i][0] == '\0')
                continue;
            struct kvt_trace_place place = place_in(reader, i);
            char where[256];
            kvt_trace_where(&place, where);
            if (is_same)
                return kvt_fail(err, KVT_ERR_PARSE, where,
                                "column \"%.60s\" is here twice (also column %zu)",
                                reader->names[i], j + 1);
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "columns \"%.60s\" and \"%.60s\" could both be the %s; keep one",
                            reader->names[j], reader->names[i], kvt_trace_field_name(field));
        }
    }
    return KVT_OK;
}

static kvt_status require_columns(const struct csv_reader *reader, struct kvt_error *err)
{
    for (int field = 0; field < KVT_TRACE_REQUIRED_FIELDS; field++) {
        bool is_there = false;
        for (size_t i = 0; i < reader->column_count; i++)
            is_there = is_there || reader->columns[i].field == (enum kvt_trace_field)field;
        if (is_there)
            continue;
        char known[256];
        char found[256] = "";
        char where[256];
        struct kvt_trace_place place = place_in(reader, 0);
        kvt_trace_aliases((enum kvt_trace_field)field, known, sizeof known);
        for (size_t i = 0; i < reader->column_count; i++)
            kvt_trace_list(found, sizeof found, reader->names[i]);
        kvt_trace_where(&place, where);
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "no column for the %s; it may be named %s; found: %s",
                        kvt_trace_field_name((enum kvt_trace_field)field), known, found);
    }
    return KVT_OK;
}

static kvt_status read_header(struct csv_reader *reader, struct kvt_error *err)
{
    char **fields = NULL;
    size_t field_count = 0;
    kvt_status status = kvt_csv_open(reader->source.path, &reader->csv, err);
    if (status == KVT_OK)
        status = kvt_csv_next(reader->csv, &fields, &field_count, err);
    if (status != KVT_OK)
        return status;
    if (fields == NULL)
        return kvt_fail(err, KVT_ERR_PARSE, reader->source.path, "the file is empty");
    if (!copy_header(reader, fields, field_count))
        return kvt_fail_nomem(err, "the header of a trace");
    status = refuse_repeats(reader, err);
    if (status == KVT_OK)
        status = require_columns(reader, err);
    return status;
}

static kvt_status csv_open(const struct kvt_trace_source *source, void **out, struct kvt_error *err)
{
    struct csv_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = read_header(reader, err);
    if (status != KVT_OK) {
        csv_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static kvt_status fail_empty(const struct csv_reader *reader, size_t column, struct kvt_error *err)
{
    struct kvt_trace_place place = place_in(reader, column);
    char where[256];
    kvt_trace_where(&place, where);
    return kvt_fail(err, KVT_ERR_PARSE, where, "the %s (column \"%.60s\") is empty; it is required",
                    kvt_trace_field_name(reader->columns[column].field), reader->names[column]);
}

static kvt_status csv_next(void *state, struct kvt_trace_row *row, bool *more,
                           struct kvt_error *err)
{
    struct csv_reader *reader = state;
    char **fields = NULL;
    size_t field_count = 0;
    kvt_status status = kvt_csv_next(reader->csv, &fields, &field_count, err);
    *more = status == KVT_OK && fields != NULL;
    if (!*more)
        return status;

    *row = kvt_trace_row_at(kvt_csv_line(reader->csv));
    if (field_count != reader->column_count) {
        char where[256];
        (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path, row->line);
        return kvt_fail(err, KVT_ERR_PARSE, where, "the row has %zu fields, the header %zu",
                        field_count, reader->column_count);
    }
    reader->fields = fields;
    for (size_t i = 0; i < field_count; i++) {
        if (reader->columns[i].field == KVT_TRACE_OTHER)
            continue;
        if (fields[i][0] == '\0') {
            if (reader->columns[i].field < KVT_TRACE_REQUIRED_FIELDS)
                return fail_empty(reader, i, err);
            continue;
        }
        row->fields |= UINT32_C(1) << reader->columns[i].field;
        const struct kvt_trace_value value = {.text = fields[i]};
        const struct kvt_trace_place place = place_in(reader, i);
        status = kvt_trace_put(reader->columns[i], &value, &place, row, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

const char *kvt_trace_csv_cell(const void *csv_reader, const char *name)
{
    const struct csv_reader *reader = csv_reader;
    for (size_t i = 0; i < reader->column_count; i++) {
        if (is_same_name(reader->names[i], name))
            return reader->fields[i];
    }
    return NULL;
}

const struct kvt_trace_reader kvt_trace_csv_reader = {
    .open = csv_open,
    .next = csv_next,
    .close = csv_close,
};
