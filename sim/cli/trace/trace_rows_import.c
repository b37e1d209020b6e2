/* trace_rows_import.c -- selected rows as CSV into .kvsel.
 *
 *     pass 1: how many streams there are, how many tokens each has, what they see; k is the largest
 *             selection
 *     pass 2: selection by selection into its stream's block
 *
 * A block is under way for each stream whose tokens are not all there: rows may come token by
 * token, as an engine makes them, or stream by stream. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/kvsel.h"
#include "trace_rows.h"

enum {
    FIELDS = 5 /* of a line */
};

/* A line's numbers, in the order of its columns. */
struct line {
    uint32_t request, selector, token, visible_rows, row;
};

struct stream {
    uint32_t token_count; /* that are there so far */
    uint32_t first_rows, last_rows;
    uint32_t tokens_per_row; /* 0: it has not grown yet */
    struct kvt_kvsel_coder *coder;
};

struct importing {
    const char *path, *to;
    struct kvt_csv *csv;
    char where[4200];       /* of the line in hand */
    struct stream *streams; /* [request_capacity * selector_capacity] */
    uint32_t request_capacity, selector_capacity;
    uint32_t request_count, selector_count, top_k, rows_max;
    /* The selection in hand. */
    struct line head;
    uint32_t row_count;
    uint64_t *set; /* [kvt_row_words(rows_max)] pass 2 */
    struct kvt_kvsel_writer *writer;
    uint64_t selected;
};

/* ---- Lines --------------------------------------------------------------------------------------
 */

/* False in *more: the end. */
static kvt_status next_line(struct importing *import, struct line *line, bool *more,
                            struct kvt_error *err)
{
    static const char *const names[FIELDS] = {"request", "selector", "token", "visible_rows",
                                              "row"};
    uint32_t *const targets[FIELDS] = {&line->request, &line->selector, &line->token,
                                       &line->visible_rows, &line->row};
    char **fields = NULL;
    size_t count = 0;
    kvt_status status = kvt_csv_next(import->csv, &fields, &count, err);
    *more = fields != NULL;
    if (status != KVT_OK || !*more)
        return status;
    (void)snprintf(import->where, sizeof import->where, "%s:%" PRIu64, import->path,
                   kvt_csv_line(import->csv));
    if (count != FIELDS)
        return kvt_fail(err, KVT_ERR_PARSE, import->where,
                        "%zu fields; " TRACE_ROWS_HEADER " are expected", count);
    for (int f = 0; f < FIELDS; f++) {
        char where[4300];
        uint64_t value = 0;
        (void)snprintf(where, sizeof where, "%s:%d", import->where, f + 1);
        status = kvt_text_count(fields[f], where, KVT_KVSEL_ROWS_MAX, &value, err);
        if (status != KVT_OK)
            return status;
        *targets[f] = (uint32_t)value;
    }
    if (line->row >= line->visible_rows)
        return kvt_fail(err, KVT_ERR_PARSE, import->where, "%s %" PRIu32 ", but %s are %" PRIu32,
                        names[4], line->row, names[3], line->visible_rows);
    return KVT_OK;
}

static kvt_status open_csv(struct importing *import, struct kvt_error *err)
{
    char **fields = NULL;
    size_t count = 0;
    kvt_csv_close(import->csv);
    import->csv = NULL;
    kvt_status status = kvt_csv_open(import->path, &import->csv, err);
    return status == KVT_OK ? kvt_csv_next(import->csv, &fields, &count, err) : status; /* names */
}

/* Gives each selection's lines to take_row(), and the end of it to take_selection(). */
static kvt_status go_through(struct importing *import,
                             kvt_status (*take_row)(struct importing *, uint32_t row,
                                                    struct kvt_error *),
                             kvt_status (*take_selection)(struct importing *, struct kvt_error *),
                             struct kvt_error *err)
{
    kvt_status status = open_csv(import, err);
    import->row_count = 0;
    for (uint64_t lines = 0; status == KVT_OK; lines++) {
        struct line line = {0};
        bool more = false;
        status = next_line(import, &line, &more, err);
        bool is_same = more && import->row_count > 0 && line.request == import->head.request &&
                       line.selector == import->head.selector && line.token == import->head.token;
        if (status == KVT_OK && import->row_count > 0 && !is_same) {
            status = take_selection(import, err);
            import->row_count = 0;
        }
        if (status != KVT_OK || !more)
            break;
        if (is_same && line.visible_rows != import->head.visible_rows)
            return kvt_fail(err, KVT_ERR_PARSE, import->where,
                            "visible_rows %" PRIu32 " after %" PRIu32 " of the same selection",
                            line.visible_rows, import->head.visible_rows);
        import->head = line;
        import->row_count++;
        status = take_row(import, line.row, err);
        if (lines % 65536 == 0 && cli_interrupted())
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "trace convert", "interrupted");
    }
    return status;
}

/* ---- Pass 1 -------------------------------------------------------------------------------------
 */

static struct stream *stream_of(struct importing *import, uint32_t request, uint32_t selector)
{
    return &import->streams[(size_t)request * import->selector_capacity + selector];
}

/* Room for one request or selector more, or for twice as many. */
static kvt_status make_room(struct importing *import, uint32_t request, uint32_t selector,
                            struct kvt_error *err)
{
    uint32_t requests = request + 1 > import->request_count ? request + 1 : import->request_count;
    uint32_t selectors =
        selector + 1 > import->selector_count ? selector + 1 : import->selector_count;
    if ((uint64_t)requests * selectors > KVT_KVSEL_STREAMS_MAX)
        return kvt_fail(err, KVT_ERR_PARSE, import->where,
                        "%" PRIu32 " requests of %" PRIu32 " selectors; at most %" PRIu32
                        " streams are expected",
                        requests, selectors, KVT_KVSEL_STREAMS_MAX);
    if (requests > import->request_capacity || selectors > import->selector_capacity) {
        uint32_t rows =
            requests > import->request_capacity ? 2 * requests : import->request_capacity;
        uint32_t columns =
            selectors > import->selector_capacity ? 2 * selectors : import->selector_capacity;
        struct stream *more = calloc((size_t)rows * columns, sizeof *more);
        if (more == NULL)
            return kvt_fail_nomem(err, import->path);
        for (uint32_t r = 0; r < import->request_count; r++)
            memcpy(more + (size_t)r * columns, stream_of(import, r, 0),
                   import->selector_count * sizeof *more);
        free(import->streams);
        import->streams = more;
        import->request_capacity = rows;
        import->selector_capacity = columns;
    }
    import->request_count = requests;
    import->selector_count = selectors;
    return KVT_OK;
}

/* A selection must be the next of its stream. */
static kvt_status check_order(const struct importing *import, const struct stream *stream,
                              struct kvt_error *err)
{
    if (import->head.token == stream->token_count)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_PARSE, import->where,
                    "up to here: token %" PRIu32 " of selector %" PRIu32 " of request %" PRIu32
                    ", whose next is %" PRIu32 "; tokens ascend from 0, and a selection's rows "
                    "stand together",
                    import->head.token, import->head.selector, import->head.request,
                    stream->token_count);
}

/* Rows are born one at a time, after as many tokens each time. */
static kvt_status check_growth(const struct importing *import, struct stream *stream,
                               struct kvt_error *err)
{
    uint32_t token = import->head.token, visible = import->head.visible_rows;
    if (token == 0)
        stream->first_rows = visible;
    else if (stream->tokens_per_row == 0 && visible == stream->first_rows + 1)
        stream->tokens_per_row = token;
    uint32_t grown = stream->tokens_per_row > 0 ? token / stream->tokens_per_row : 0;
    if (visible == stream->first_rows + grown)
        return KVT_OK;
    return kvt_fail(
        err, KVT_ERR_PARSE, import->where,
        "up to here: token %" PRIu32 " of selector %" PRIu32 " of request %" PRIu32 " sees %" PRIu32
        " rows; %" PRIu32 " are expected: one more each so many tokens",
        token, import->head.selector, import->head.request, visible, stream->first_rows + grown);
}

static kvt_status count_row(struct importing *import, uint32_t row, struct kvt_error *err)
{
    (void)row;
    return import->row_count == 1
               ? make_room(import, import->head.request, import->head.selector, err)
               : KVT_OK;
}

static kvt_status count_selection(struct importing *import, struct kvt_error *err)
{
    struct stream *stream = stream_of(import, import->head.request, import->head.selector);
    kvt_status status = check_order(import, stream, err);
    if (status == KVT_OK)
        status = check_growth(import, stream, err);
    if (status != KVT_OK)
        return status;
    stream->token_count++;
    stream->last_rows = import->head.visible_rows;
    if (import->row_count > import->top_k)
        import->top_k = import->row_count;
    if (stream->last_rows > import->rows_max)
        import->rows_max = stream->last_rows;
    return KVT_OK;
}

/* ---- Pass 2 -------------------------------------------------------------------------------------
 */

static struct kvt_kvsel_shape shape_of(const struct importing *import, const struct stream *stream)
{
    return (struct kvt_kvsel_shape){
        .top_k = import->top_k,
        .first_rows = stream->first_rows > 0 ? stream->first_rows : 1, /* it has no token */
        .tokens_per_row = stream->tokens_per_row > 0 ? stream->tokens_per_row
                          : stream->token_count > 0  ? stream->token_count
                                                     : 1};
}

static kvt_status create(struct importing *import, struct kvt_error *err)
{
    struct kvt_kvsel_header header = {.top_k = import->top_k,
                                      .request_count = import->request_count,
                                      .selector_count = import->selector_count};
    assert(header.request_count > 0 && header.selector_count > 0);
    struct kvt_kvsel_shape *shapes =
        calloc((size_t)header.request_count * header.selector_count, sizeof *shapes);
    import->set = calloc(kvt_row_words(import->rows_max), sizeof *import->set);
    if (shapes == NULL || import->set == NULL) {
        free(shapes);
        return kvt_fail_nomem(err, import->path);
    }
    for (uint32_t r = 0; r < header.request_count; r++) {
        for (uint32_t s = 0; s < header.selector_count; s++)
            shapes[(size_t)r * header.selector_count + s] =
                shape_of(import, stream_of(import, r, s));
    }
    kvt_status status = kvt_kvsel_create(import->to, &header, shapes, &import->writer, err);
    free(shapes);
    return status;
}

static kvt_status add_row(struct importing *import, uint32_t row, struct kvt_error *err)
{
    if (row >= import->rows_max)
        return kvt_fail(err, KVT_ERR_IO, import->where, "the file changed while it was read");
    if (kvt_row_is_in(import->set, row))
        return kvt_fail(err, KVT_ERR_PARSE, import->where, "row %" PRIu32 " is selected twice",
                        row);
    kvt_row_set_add(import->set, &row, 1);
    return KVT_OK;
}

static kvt_status put_block(struct importing *import, struct stream *stream, struct kvt_error *err)
{
    unsigned char *block = NULL;
    kvt_status status = kvt_kvsel_coder_finish(stream->coder, &block, err);
    if (status == KVT_OK)
        status = kvt_kvsel_put(import->writer, block, err);
    free(block);
    kvt_kvsel_coder_free(stream->coder);
    stream->coder = NULL;
    return status;
}

static kvt_status begin_block(struct importing *import, struct stream *stream,
                              struct kvt_error *err)
{
    uint32_t number = import->head.request * import->selector_count + import->head.selector;
    uint32_t left = stream->token_count - import->head.token;
    struct kvt_kvsel_shape shape = shape_of(import, stream);
    stream->coder = kvt_kvsel_coder_new(&shape);
    if (stream->coder == NULL)
        return kvt_fail_nomem(err, import->path);
    return kvt_kvsel_coder_begin(stream->coder, number, import->head.token,
                                 left < KVT_KVSEL_BLOCK_TOKENS ? left : KVT_KVSEL_BLOCK_TOKENS,
                                 err);
}

static kvt_status add_selection(struct importing *import, struct kvt_error *err)
{
    if (import->head.request >= import->request_count ||
        import->head.selector >= import->selector_count)
        return kvt_fail(err, KVT_ERR_IO, import->where, "the file changed while it was read");
    struct stream *stream = stream_of(import, import->head.request, import->head.selector);
    uint32_t visible = import->head.visible_rows, token = import->head.token;
    uint32_t due = visible < import->top_k ? visible : import->top_k;
    size_t words = kvt_row_words(visible);
    kvt_status status = KVT_OK;
    if (token >= stream->token_count)
        return kvt_fail(err, KVT_ERR_IO, import->where, "the file changed while it was read");
    if (import->row_count != due)
        return kvt_fail(err, KVT_ERR_PARSE, import->where,
                        "up to here: token %" PRIu32 " of selector %" PRIu32 " of request %" PRIu32
                        " selects %" PRIu32 " rows; of the %" PRIu32 " that it sees %" PRIu32
                        " are expected, k being %" PRIu32,
                        token, import->head.selector, import->head.request, import->row_count,
                        visible, due, import->top_k);
    if (token % KVT_KVSEL_BLOCK_TOKENS == 0)
        status = begin_block(import, stream, err);
    if (status == KVT_OK && stream->coder == NULL)
        return kvt_fail(err, KVT_ERR_IO, import->where, "the file changed while it was read");
    if (status == KVT_OK)
        status = kvt_kvsel_coder_add(stream->coder, import->set, NULL, words, err);
    if (status == KVT_OK && (token + 1 == stream->token_count ||
                             token % KVT_KVSEL_BLOCK_TOKENS == KVT_KVSEL_BLOCK_TOKENS - 1))
        status = put_block(import, stream, err);
    memset(import->set, 0, words * sizeof *import->set);
    import->selected += import->row_count;
    return status;
}

static void fini(struct importing *import)
{
    for (size_t i = 0; i < (size_t)import->request_capacity * import->selector_capacity; i++)
        kvt_kvsel_coder_free(import->streams[i].coder);
    free(import->streams);
    free(import->set);
    kvt_kvsel_discard(import->writer);
    kvt_csv_close(import->csv);
}

kvt_status trace_rows_from_csv(const char *path, const char *to, bool quiet, struct kvt_error *err)
{
    struct importing import = {.path = path, .to = to};
    cli_catch_signals();
    kvt_status status = go_through(&import, count_row, count_selection, err);
    if (status == KVT_OK && import.request_count == 0)
        status = kvt_fail(err, KVT_ERR_PARSE, path, "no row is selected in it");
    if (status == KVT_OK)
        status = create(&import, err);
    if (status == KVT_OK)
        status = go_through(&import, add_row, add_selection, err);
    if (status == KVT_OK) {
        status = kvt_kvsel_commit(import.writer, err);
        import.writer = NULL;
    }
    if (status == KVT_OK && !quiet)
        (void)fprintf(stderr,
                      "%s: %" PRIu64 " selected rows of %" PRIu32 " requests of %" PRIu32
                      " selectors, k = %" PRIu32 "\n",
                      to, import.selected, import.request_count, import.selector_count,
                      import.top_k);
    fini(&import);
    return status;
}
