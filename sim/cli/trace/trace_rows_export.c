/* trace_rows_export.c -- recorded selections row by row, for others to read.
 *
 * libCacheSim's oracleGeneral is one access after the other, 24 bytes each, little-endian, packed:
 *
 *     u32 time              the token
 *     u64 object            one number for each (request, selector, row)
 *     u32 size in bytes
 *     i64 next access       the number of the next access to the object, counted from 1; -1: none
 *
 * (libCacheSim, traceReader/customizedReader/oracle/oracleGeneralBin.h, and traceConv for the
 * count). Streams follow each other: none shares a row with another, so that one LRU cache over all
 * of them misses what an empty one for each would. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/kvsel.h"
#include "trace_rows.h"

struct exporting {
    const char *to;
    struct kvt_kvsel_reader *reader;
    struct kvt_kvsel_cursor *cursor;
    struct cli_progress progress;
    struct kvt_wall start;
    uint32_t stream_count, selector_count, rows_max;
    uint64_t *set;  /* [kvt_row_words(rows_max)] the selection in hand */
    uint32_t *rows; /* [top_k] */
    uint64_t written;
    /* Of oracleGeneral. */
    uint32_t row_bytes;
    uint32_t *last; /* [rows_max] the access to each row that was met last; UINT32_MAX: none */
    uint32_t *next; /* [next_count] of a stream's accesses, the next one to the row */
    uint64_t next_count;
};

static kvt_status tell(struct exporting *export, double fraction, const char *what,
                       struct kvt_error *err)
{
    cli_progress_show(&export->progress, fraction, what);
    return cli_interrupted() ? kvt_fail(err, KVT_ERR_INTERRUPTED, "trace convert", "interrupted")
                             : KVT_OK;
}

static bool on_read(void *context, double fraction)
{
    struct exporting *export = context;
    return tell(export, fraction, "reading", NULL) == KVT_OK;
}

static kvt_status begin(struct exporting *export, const char *path, struct kvt_error *err)
{
    kvt_status status = kvt_kvsel_open(path, on_read, export, &export->reader, err);
    if (status == KVT_OK)
        status = kvt_kvsel_cursor_new(export->reader, &export->cursor, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_kvsel_header *header = kvt_kvsel_reader_header(export->reader);
    export->selector_count = header->selector_count;
    export->stream_count = header->request_count * header->selector_count;
    export->rows_max = 1;
    for (uint32_t s = 0; s < export->stream_count; s++) {
        const struct kvt_kvsel_stream *stream = kvt_kvsel_reader_stream(export->reader, s);
        uint32_t last = stream->token_count > 0 ? stream->token_count - 1 : 0;
        uint32_t rows = kvt_kvsel_visible(&stream->shape, last);
        export->rows_max = rows > export->rows_max ? rows : export->rows_max;
    }
    export->set = malloc(kvt_row_words(export->rows_max) * sizeof *export->set);
    export->rows = malloc(header->top_k * sizeof *export->rows);
    return export->set != NULL && export->rows != NULL ? KVT_OK
                                                       : kvt_fail_nomem(err, "trace convert");
}

static void end(struct exporting *export)
{
    cli_progress_end(&export->progress);
    kvt_kvsel_cursor_free(export->cursor);
    kvt_kvsel_close(export->reader);
    free(export->set);
    free(export->rows);
    free(export->last);
    free(export->next);
}

/* The rows of one token's own selection, ascending. */
static kvt_status read_rows(struct exporting *export, uint32_t stream, uint32_t token,
                            uint32_t *count, struct kvt_error *err)
{
    const struct kvt_kvsel_shape *shape = &kvt_kvsel_reader_stream(export->reader, stream)->shape;
    size_t words = kvt_row_words(kvt_kvsel_visible(shape, token));
    kvt_status status =
        kvt_kvsel_cursor_read(export->cursor, stream, token, export->set, words, err);
    if (status == KVT_OK)
        *count = kvt_row_set_list(export->set, words, export->rows);
    return status;
}

/* Every stream; the file appears when all of it is there. */
static kvt_status run(struct exporting *export, const char *path, const char *head,
                      kvt_status (*write_stream)(struct exporting *, uint32_t stream, FILE *out,
                                                 struct kvt_error *err),
                      bool quiet, struct kvt_error *err)
{
    struct kvt_outfile *file = NULL;
    cli_catch_signals();
    cli_progress_begin(&export->progress, &export->start, quiet);
    kvt_status status = begin(export, path, err);
    if (status == KVT_OK)
        status = kvt_outfile_open(export->to, &file, err);
    if (status == KVT_OK)
        (void)fputs(head, kvt_outfile_stream(file));
    for (uint32_t s = 0; status == KVT_OK && s < export->stream_count; s++) {
        status = write_stream(export, s, kvt_outfile_stream(file), err);
        if (status == KVT_OK)
            status = tell(export, (double)(s + 1) / export->stream_count, "converting", err);
    }
    if (status == KVT_OK) {
        status = kvt_outfile_commit(file, err);
        file = NULL;
    }
    kvt_outfile_discard(file);
    const struct kvt_kvsel_header *header =
        status == KVT_OK ? kvt_kvsel_reader_header(export->reader) : NULL;
    if (header != NULL && !quiet)
        (void)fprintf(stderr,
                      "%s: %" PRIu64 " selected rows of %" PRIu32 " requests of %" PRIu32
                      " selectors%s\n",
                      export->to, export->written, header->request_count, header->selector_count,
                      header->side_paths > 0 ? "; rejected drafts are left out" : "");
    end(export);
    return status;
}

/* ---- CSV --------------------------------------------------------------------------------------
 */

static kvt_status write_csv_stream(struct exporting *export, uint32_t stream, FILE *out,
                                   struct kvt_error *err)
{
    const struct kvt_kvsel_stream *read = kvt_kvsel_reader_stream(export->reader, stream);
    for (uint32_t token = 0; token < read->token_count; token++) {
        uint32_t count = 0;
        kvt_status status = read_rows(export, stream, token, &count, err);
        if (status == KVT_OK && token % 1024 == 0)
            status = tell(export, -1, "converting", err);
        if (status != KVT_OK)
            return status;
        for (uint32_t i = 0; i < count; i++)
            (void)fprintf(out, "%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 "\n",
                          stream / export->selector_count, stream % export->selector_count, token,
                          kvt_kvsel_visible(&read->shape, token), export->rows[i]);
        export->written += count;
    }
    return KVT_OK;
}

kvt_status trace_rows_to_csv(const char *path, const char *to, bool quiet, struct kvt_error *err)
{
    struct exporting export = {.to = to};
    return run(&export, path, TRACE_ROWS_HEADER "\n", write_csv_stream, quiet, err);
}

/* ---- oracleGeneral ------------------------------------------------------------------------------
 */

enum {
    RECORD_BYTES = 24
};

static void put(unsigned char *bytes, uint64_t value, int count)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t count_rows(const struct kvt_kvsel_stream *stream)
{
    uint64_t rows = 0;
    for (uint32_t token = 0; token < stream->token_count; token++) {
        uint32_t visible = kvt_kvsel_visible(&stream->shape, token);
        rows += visible < stream->shape.top_k ? visible : stream->shape.top_k;
    }
    return rows;
}

/* next[] of a stream of so many accesses, from the last to the first. */
static kvt_status look_back(struct exporting *export, uint32_t stream, uint64_t accesses,
                            struct kvt_error *err)
{
    if (accesses >= UINT32_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "trace convert",
                        "stream %" PRIu32 " selects %" PRIu64 " rows; at most %" PRIu32
                        " have room for their next access",
                        stream, accesses, UINT32_MAX - 1);
    if (accesses > export->next_count) {
        uint32_t *more = realloc(export->next, (size_t)accesses * sizeof *more);
        if (more == NULL)
            return kvt_fail_nomem(err, "trace convert");
        export->next = more;
        export->next_count = accesses;
    }
    if (export->last == NULL)
        export->last = malloc(export->rows_max * sizeof *export->last);
    if (export->last == NULL)
        return kvt_fail_nomem(err, "trace convert");
    memset(export->last, 0xff, export->rows_max * sizeof *export->last);
    const struct kvt_kvsel_stream *read = kvt_kvsel_reader_stream(export->reader, stream);
    for (uint32_t token = read->token_count; token-- > 0;) {
        uint32_t count = 0;
        kvt_status status = read_rows(export, stream, token, &count, err);
        if (status == KVT_OK && token % 1024 == 0)
            status = tell(export, -1, "converting", err);
        if (status != KVT_OK)
            return status;
        while (count > 0) {
            uint32_t row = export->rows[--count];
            export->next[--accesses] = export->last[row];
            export->last[row] = (uint32_t)accesses;
        }
    }
    assert(accesses == 0);
    return KVT_OK;
}

static kvt_status write_oracle_stream(struct exporting *export, uint32_t stream, FILE *out,
                                      struct kvt_error *err)
{
    const struct kvt_kvsel_stream *read = kvt_kvsel_reader_stream(export->reader, stream);
    kvt_status status = look_back(export, stream, count_rows(read), err);
    uint64_t first = export->written, access = 0; /* of the stream */
    for (uint32_t token = 0; status == KVT_OK && token < read->token_count; token++) {
        uint32_t count = 0;
        status = read_rows(export, stream, token, &count, err);
        for (uint32_t i = 0; status == KVT_OK && i < count; i++, access++) {
            unsigned char record[RECORD_BYTES];
            uint32_t next = export->next[access];
            put(record, token, 4);
            put(record + 4, (uint64_t)stream * KVT_KVSEL_ROWS_MAX + export->rows[i], 8);
            put(record + 12, export->row_bytes, 4);
            put(record + 16, next == UINT32_MAX ? UINT64_MAX : first + next + 1, 8);
            (void)fwrite(record, 1, sizeof record, out);
        }
    }
    export->written += access;
    return status;
}

kvt_status trace_rows_to_oracle(const char *path, const char *to, uint32_t row_bytes, bool quiet,
                                struct kvt_error *err)
{
    struct exporting export = {.to = to, .row_bytes = row_bytes};
    return run(&export, path, "", write_oracle_stream, quiet, err);
}
