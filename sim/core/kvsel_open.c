/* kvsel_open.c -- a file of recorded selections that need not fit into memory.
 *
 *     open:  all of it is read once and checked; 16 bytes of each block are kept, by stream
 *     read:  the block that holds the token is read into the cursor, unless it is there
 *
 * A block is checked again when it is read again: files change. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "kvsel_private.h"
#include "kvt/file.h"

/* Where a block lies. */
struct block_place {
    uint64_t at;
    uint32_t stream, bytes;
};

struct kvt_kvsel_reader {
    struct kvsel_parser parser; /* of the first reading */
    char *path;
    FILE *file;
    struct block_place *blocks; /* [block_count] by stream, in the order of its tokens */
    size_t block_count, capacity;
    size_t *first_blocks; /* [stream_count] where a stream's begin */
};

struct kvt_kvsel_cursor {
    const struct kvt_kvsel_reader *reader;
    struct kvsel_parser parser;     /* whose buffer holds one block */
    struct kvt_kvsel_stream stream; /* that the block is of; of its blocks this one is there */
    uint32_t stream_number, block_number; /* UINT32_MAX: none is there */
};

/* ---- Opening ------------------------------------------------------------------------------- */

static kvt_status keep_place(struct kvt_kvsel_reader *reader, const unsigned char *block,
                             struct kvt_error *err)
{
    if (reader->block_count == reader->capacity) {
        size_t capacity = reader->capacity + reader->capacity / 2 + 64;
        struct block_place *more = realloc(reader->blocks, capacity * sizeof *more);
        if (more == NULL)
            return kvt_fail_nomem(err, reader->path);
        reader->blocks = more;
        reader->capacity = capacity;
    }
    uint32_t bytes = (uint32_t)kvt_kvsel_block_bytes(block);
    reader->blocks[reader->block_count++] = (struct block_place){
        .at = reader->parser.at - bytes,
        .stream = kvsel_u32(block + BLOCK_STREAM_AT),
        .bytes = bytes,
    };
    return KVT_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct block_place *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Blocks of a stream are in order in the file, so that they are by their place. */
static kvt_status order_places(struct kvt_kvsel_reader *reader, struct kvt_error *err)
{
    const struct kvsel_parser *parser = &reader->parser;
    if (reader->block_count > 0)
        qsort(reader->blocks, reader->block_count, sizeof *reader->blocks, compare_places);
    reader->first_blocks = calloc(parser->stream_count, sizeof *reader->first_blocks);
    if (reader->first_blocks == NULL)
        return kvt_fail_nomem(err, reader->path);
    size_t first = 0;
    for (uint32_t s = 0; s < parser->stream_count; s++) {
        reader->first_blocks[s] = first;
        first += kvsel_block_count(&parser->streams[s]);
    }
    return KVT_OK;
}

static kvt_status read_through(struct kvt_kvsel_reader *reader,
                               bool (*on_read)(void *context, double fraction), void *context,
                               struct kvt_error *err)
{
    struct kvsel_parser *parser = &reader->parser;
    kvt_status status = kvsel_parser_begin(parser, err);
    while (status == KVT_OK) {
        unsigned char *block = NULL;
        status = kvsel_parser_next(parser, &block, err);
        if (status != KVT_OK || block == NULL)
            break;
        status = keep_place(reader, block, err);
        if (on_read != NULL && !on_read(context, (double)parser->at / (double)parser->byte_count))
            return kvt_fail(err, KVT_ERR_INTERRUPTED, reader->path, "interrupted");
    }
    return status == KVT_OK ? order_places(reader, err) : status;
}

/* Opened, its size known. */
static kvt_status begin(struct kvt_kvsel_reader *reader, const char *path, struct kvt_error *err)
{
    reader->path = malloc(strlen(path) + 1);
    if (reader->path == NULL)
        return kvt_fail_nomem(err, path);
    memcpy(reader->path, path, strlen(path) + 1);
    kvt_status status = kvt_file_open(path, &reader->file, err);
    if (status != KVT_OK)
        return status;
    struct stat info;
    int fd = fileno(reader->file);
    if (fstat(fd, &info) != 0)
        return kvt_fail(err, KVT_ERR_IO, path, "the file's size cannot be told");
    reader->parser = (struct kvsel_parser){
        .fd = fd, .byte_count = (uint64_t)info.st_size, .where = reader->path};
    return KVT_OK;
}

kvt_status kvt_kvsel_open(const char *path, bool (*on_read)(void *context, double fraction),
                          void *context, struct kvt_kvsel_reader **out, struct kvt_error *err)
{
    struct kvt_kvsel_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, path);
    kvt_status status = begin(reader, path, err);
    if (status == KVT_OK)
        status = read_through(reader, on_read, context, err);
    if (status != KVT_OK) {
        kvt_kvsel_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

void kvt_kvsel_close(struct kvt_kvsel_reader *reader)
{
    if (reader == NULL)
        return;
    kvsel_parser_fini(&reader->parser);
    if (reader->file != NULL)
        (void)fclose(reader->file);
    free(reader->blocks);
    free(reader->first_blocks);
    free(reader->path);
    free(reader);
}

const struct kvt_kvsel_header *kvt_kvsel_reader_header(const struct kvt_kvsel_reader *reader)
{
    return &reader->parser.header;
}

const struct kvt_kvsel_stream *kvt_kvsel_reader_stream(const struct kvt_kvsel_reader *reader,
                                                       uint32_t stream)
{
    assert(stream < reader->parser.stream_count);
    return &reader->parser.streams[stream];
}

/* ---- Reading again --------------------------------------------------------------------------- */

static size_t longest_stream(const struct kvsel_parser *parser)
{
    size_t most = 1;
    for (uint32_t s = 0; s < parser->stream_count; s++) {
        size_t blocks = kvsel_block_count(&parser->streams[s]);
        most = blocks > most ? blocks : most;
    }
    return most;
}

kvt_status kvt_kvsel_cursor_new(const struct kvt_kvsel_reader *reader,
                                struct kvt_kvsel_cursor **out, struct kvt_error *err)
{
    const struct kvsel_parser *first = &reader->parser;
    struct kvt_kvsel_cursor *cursor = calloc(1, sizeof *cursor);
    unsigned char **blocks = calloc(longest_stream(first), sizeof *blocks);
    uint64_t *scratch = malloc((size_t)2 * KVSEL_SEGMENT_WORDS * sizeof *scratch);
    if (cursor == NULL || blocks == NULL || scratch == NULL) {
        free(cursor);
        free(blocks);
        free(scratch);
        return kvt_fail_nomem(err, reader->path);
    }
    cursor->reader = reader;
    cursor->parser = (struct kvsel_parser){
        .fd = first->fd,
        .byte_count = first->byte_count,
        .where = reader->path,
        .counts = true,
        .scratch = scratch,
        .stream_count = first->stream_count,
        .streams = first->streams,
    };
    cursor->stream.blocks = blocks;
    cursor->stream_number = cursor->block_number = UINT32_MAX;
    *out = cursor;
    return KVT_OK;
}

void kvt_kvsel_cursor_free(struct kvt_kvsel_cursor *cursor)
{
    if (cursor == NULL)
        return;
    cursor->parser.streams = NULL; /* the reader's */
    kvsel_parser_fini(&cursor->parser);
    free(cursor->stream.blocks);
    free(cursor);
}

kvt_status kvt_kvsel_cursor_block(struct kvt_kvsel_cursor *cursor, uint32_t stream, uint32_t block,
                                  const unsigned char **out, struct kvt_error *err)
{
    const struct kvt_kvsel_reader *reader = cursor->reader;
    const struct kvt_kvsel_stream *kept = kvt_kvsel_reader_stream(reader, stream);
    assert(block < kvsel_block_count(kept));
    if (stream != cursor->stream_number || block != cursor->block_number) {
        const struct block_place *place = &reader->blocks[reader->first_blocks[stream] + block];
        unsigned char *bytes = NULL;
        cursor->stream_number = cursor->block_number = UINT32_MAX;
        kvt_status status = kvsel_parser_again(&cursor->parser, place->at, place->bytes, stream,
                                               block, &bytes, err);
        if (status != KVT_OK)
            return status;
        cursor->stream.shape = kept->shape;
        cursor->stream.token_count = kept->token_count;
        cursor->stream.blocks[block] = bytes;
        cursor->stream_number = stream;
        cursor->block_number = block;
    }
    *out = cursor->stream.blocks[block];
    return KVT_OK;
}

kvt_status kvt_kvsel_cursor_read(struct kvt_kvsel_cursor *cursor, uint32_t stream, uint32_t token,
                                 uint64_t *set, size_t words, struct kvt_error *err)
{
    const unsigned char *block = NULL;
    kvt_status status =
        kvt_kvsel_cursor_block(cursor, stream, token / KVT_KVSEL_BLOCK_TOKENS, &block, err);
    if (status != KVT_OK)
        return status;
    uint32_t first_rows = cursor->stream.shape.first_rows;
    const struct kvt_kvsel_map as_it_is = {.old_rows = first_rows, .stream_rows = first_rows};
    const struct kvt_kvsel_place place = {.token = token};
    kvt_kvsel_read(&cursor->stream, &place, 1, &as_it_is, &set, words);
    return KVT_OK;
}
