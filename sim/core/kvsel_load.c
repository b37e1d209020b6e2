/* kvsel_load.c -- a file of recorded selections, whole in memory. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvsel_private.h"
#include "kvt/file.h"

/* Larger files are not read into memory. */
#define FILE_BYTES_MAX ((size_t)1 << 36)

struct kvt_kvsel {
    struct kvt_kvsel_header header;
    char *note;
    unsigned char *owned; /* the bytes, where they are ours */
    unsigned char **blocks;
    struct kvt_kvsel_stream *streams; /* [request_count * selector_count] */
};

/* Block pointers, stream by stream, once all blocks have been checked. */
static kvt_status link_blocks(const struct kvsel_parser *parser, unsigned char ***out,
                              struct kvt_error *err)
{
    unsigned char **blocks = malloc(((size_t)parser->block_count + 1) * sizeof *blocks);
    if (blocks == NULL)
        return kvt_fail_nomem(err, parser->where);
    unsigned char **next = blocks;
    for (uint32_t s = 0; s < parser->stream_count; s++) {
        parser->streams[s].blocks = next;
        next += kvsel_block_count(&parser->streams[s]);
    }
    unsigned char *block = parser->bytes + parser->first_block_at;
    for (uint64_t b = 0; b < parser->block_count; b++, block += kvt_kvsel_block_bytes(block)) {
        const struct kvt_kvsel_stream *stream =
            &parser->streams[kvsel_u32(block + BLOCK_STREAM_AT)];
        stream->blocks[kvsel_u32(block + BLOCK_FIRST_TOKEN_AT) / KVT_KVSEL_BLOCK_TOKENS] = block;
    }
    *out = blocks;
    return KVT_OK;
}

static kvt_status parse_all(struct kvsel_parser *parser, unsigned char ***blocks,
                            struct kvt_error *err)
{
    unsigned char *block = NULL;
    kvt_status status = kvsel_parser_begin(parser, err);
    do {
        if (status == KVT_OK)
            status = kvsel_parser_next(parser, &block, err);
    } while (status == KVT_OK && block != NULL);
    return status == KVT_OK ? link_blocks(parser, blocks, err) : status;
}

kvt_status kvt_kvsel_parse(unsigned char *bytes, size_t byte_count, const char *where, bool counts,
                           struct kvt_kvsel **out, struct kvt_error *err)
{
    struct kvsel_parser parser = {
        .bytes = bytes, .byte_count = byte_count, .where = where, .counts = counts};
    struct kvt_kvsel *file = calloc(1, sizeof *file);
    if (file == NULL)
        return kvt_fail_nomem(err, where);
    kvt_status status = parse_all(&parser, &file->blocks, err);
    if (status != KVT_OK) {
        kvsel_parser_fini(&parser);
        free(file);
        return status;
    }
    file->header = parser.header;
    file->note = parser.note;
    file->streams = parser.streams;
    parser.note = NULL;
    parser.streams = NULL;
    kvsel_parser_fini(&parser);
    *out = file;
    return KVT_OK;
}

/* A file of another kind, however large, is refused by its first bytes. */
static kvt_status check_magic(const char *path, struct kvt_error *err)
{
    char first[8];
    FILE *stream = NULL;
    kvt_status status = kvt_file_open(path, &stream, err);
    if (status != KVT_OK)
        return status;
    size_t got = fread(first, 1, sizeof first, stream);
    (void)fclose(stream);
    if (got > 0 && !kvt_kvsel_is_magic(first, got))
        return kvt_fail(err, KVT_ERR_PARSE, path, "byte 0: this is no file of selections (.kvsel)");
    return KVT_OK;
}

kvt_status kvt_kvsel_load(const char *path, bool counts, struct kvt_kvsel **out,
                          struct kvt_error *err)
{
    char *bytes = NULL;
    size_t byte_count = 0;
    kvt_status status = check_magic(path, err);
    if (status == KVT_OK)
        status = kvt_file_read(path, FILE_BYTES_MAX, &bytes, &byte_count, err);
    if (status != KVT_OK)
        return status;
    struct kvt_kvsel *file = NULL;
    status = kvt_kvsel_parse((unsigned char *)bytes, byte_count, path, counts, &file, err);
    if (status != KVT_OK) {
        free(bytes);
        return status;
    }
    assert(file != NULL);
    file->owned = (unsigned char *)bytes;
    *out = file;
    return KVT_OK;
}

void kvt_kvsel_free(struct kvt_kvsel *file)
{
    if (file == NULL)
        return;
    free(file->owned);
    free(file->blocks);
    free(file->streams);
    free(file->note);
    free(file);
}

const struct kvt_kvsel_header *kvt_kvsel_header_of(const struct kvt_kvsel *file)
{
    return &file->header;
}

const struct kvt_kvsel_stream *kvt_kvsel_stream_of(const struct kvt_kvsel *file, uint32_t request,
                                                   uint32_t selector)
{
    assert(request < file->header.request_count && selector < file->header.selector_count);
    return &file->streams[(size_t)request * file->header.selector_count + selector];
}
