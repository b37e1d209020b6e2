/* kvsel_parse.c -- a file of recorded selections, read whole and checked.
 *
 * What a reader is to follow is checked once, here, so that kvt_kvsel_read() need not look:
 * checksums, that blocks follow each other, that offsets ascend within their block, and that
 * no list toggles a row that its query cannot see. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvsel_private.h"
#include "kvt/file.h"
#include "kvt/hash.h"

/* Larger files are not read into memory. */
#define FILE_BYTES_MAX ((size_t)1 << 36)

bool kvt_kvsel_is_magic(const void *bytes, size_t byte_count)
{
    return byte_count >= sizeof kvsel_magic && memcmp(bytes, kvsel_magic, sizeof kvsel_magic) == 0;
}

struct kvt_kvsel {
    struct kvt_kvsel_header header;
    unsigned char *owned; /* the bytes, where they are ours */
    unsigned char **blocks;
    uint32_t stream_count;
    struct kvt_kvsel_stream streams[]; /* [stream_count] */
};

/* Where the parser stands. */
struct parser {
    unsigned char *bytes;
    size_t byte_count, at;
    const char *where;
    bool counts;
    uint64_t *scratch;    /* [KVSEL_SEGMENT_WORDS], two of them, where rows are counted */
    uint32_t *next_token; /* [stream_count] */
    uint64_t chain;
    size_t block_count;
    struct kvt_error *err;
};

#define REFUSE(parser, ...) kvt_fail((parser)->err, KVT_ERR_PARSE, (parser)->where, __VA_ARGS__)

static kvt_status refuse_cut(const struct parser *parser)
{
    return REFUSE(parser, "byte %zu: the file ends before its end; it was cut", parser->byte_count);
}

static kvt_status parse_header(struct parser *parser, struct kvt_kvsel_header *header)
{
    const unsigned char *bytes = parser->bytes;
    if (!kvt_kvsel_is_magic(bytes, parser->byte_count))
        return REFUSE(parser, "byte 0: this is no file of selections (.kvsel)");
    if (parser->byte_count < KVSEL_HEADER_BYTES)
        return refuse_cut(parser);
    uint32_t version = kvsel_u32(bytes + HEADER_VERSION_AT);
    if (version != KVSEL_VERSION)
        return REFUSE(parser, "byte 8: version %u; this program reads version %d", version,
                      KVSEL_VERSION);
    *header = (struct kvt_kvsel_header){
        .top_k = kvsel_u32(bytes + HEADER_TOP_K_AT),
        .side_paths = kvsel_u32(bytes + HEADER_SIDE_PATHS_AT),
        .side_tokens = kvsel_u32(bytes + HEADER_SIDE_TOKENS_AT),
        .request_count = kvsel_u32(bytes + HEADER_REQUESTS_AT),
        .selector_count = kvsel_u32(bytes + HEADER_SELECTORS_AT),
        .key = kvsel_u64(bytes + HEADER_KEY_AT),
    };
    uint64_t streams = (uint64_t)header->request_count * header->selector_count;
    if (streams < 1 || streams > KVT_KVSEL_STREAMS_MAX)
        return REFUSE(parser, "byte 24: %u requests of %u selectors; 1 to %u streams are expected",
                      header->request_count, header->selector_count, KVT_KVSEL_STREAMS_MAX);
    if (parser->byte_count - KVSEL_HEADER_BYTES < streams * KVSEL_STREAM_BYTES)
        return refuse_cut(parser);
    if (kvsel_u64(bytes + HEADER_CHECKSUM_AT) != kvsel_header_checksum(bytes, (uint32_t)streams))
        return REFUSE(parser, "byte 56: the header's checksum is not that of its bytes; it was "
                              "damaged");
    if (kvsel_u32(bytes + HEADER_SEGMENT_ROWS_AT) != KVSEL_SEGMENT_ROWS)
        return REFUSE(parser, "byte 32: segments of %u rows; %d are expected",
                      kvsel_u32(bytes + HEADER_SEGMENT_ROWS_AT), KVSEL_SEGMENT_ROWS);
    parser->at = KVSEL_HEADER_BYTES;
    return KVT_OK;
}

static kvt_status parse_streams(struct parser *parser, struct kvt_kvsel *file)
{
    for (uint32_t s = 0; s < file->stream_count; s++, parser->at += KVSEL_STREAM_BYTES) {
        const unsigned char *entry = parser->bytes + parser->at;
        struct kvt_kvsel_shape shape = {
            .top_k = file->header.top_k,
            .first_rows = kvsel_u32(entry),
            .tokens_per_row = kvsel_u32(entry + 4),
            .side_paths = file->header.side_paths,
            .side_tokens = file->header.side_tokens,
        };
        kvt_status status = kvsel_check_shape(&shape, parser->where, parser->err);
        if (status != KVT_OK)
            return status;
        file->streams[s].shape = shape;
    }
    return KVT_OK;
}

/* Rows that list `list` of those of one token sees. */
static uint64_t list_rows(const struct kvt_kvsel_shape *shape, uint32_t token, uint32_t list)
{
    uint64_t at = token;
    if (list > 0)
        at += 1 + (list - 1) % shape->side_tokens;
    return shape->first_rows + at / shape->tokens_per_row;
}

/* Offsets that ascend from behind themselves to the end of the payload. */
static bool are_offsets_sound(const unsigned char *block, uint64_t list_count)
{
    const unsigned char *payload = block + KVSEL_BLOCK_HEADER_BYTES;
    uint64_t payload_bytes = kvsel_u32(block + BLOCK_BYTES_AT);
    uint64_t offsets_bytes = (list_count + 1) * 4;
    if (payload_bytes < offsets_bytes || kvsel_u32(payload) != offsets_bytes)
        return false;
    uint64_t previous = offsets_bytes;
    for (uint64_t i = 1; i <= list_count; i++) {
        uint64_t offset = kvsel_u32(payload + i * 4);
        if (offset < previous + KVSEL_LIST_HEADER_BYTES || offset > payload_bytes)
            return false;
        previous = offset;
    }
    return previous == payload_bytes;
}

static bool are_lists_sound(const unsigned char *block, const struct kvt_kvsel_shape *shape)
{
    uint32_t first_token = kvsel_u32(block + BLOCK_FIRST_TOKEN_AT);
    uint32_t tokens = kvsel_u32(block + BLOCK_TOKENS_AT);
    uint32_t segments = kvsel_u32(block + BLOCK_SEGMENTS_AT);
    uint32_t per_token = kvsel_lists_per_token(shape);
    for (uint32_t list = 0; list < tokens * per_token; list++) {
        uint64_t rows = list_rows(shape, first_token + list / per_token, list % per_token);
        for (uint32_t segment = 0; segment < segments; segment++) {
            uint64_t first = (uint64_t)segment * KVSEL_SEGMENT_ROWS;
            uint64_t here = rows > first ? rows - first : 0;
            struct kvsel_list found = kvsel_list_at(block, segments, list, segment);
            if (!kvsel_list_is_sound(&found, here < KVSEL_SEGMENT_ROWS ? (uint32_t)here
                                                                       : KVSEL_SEGMENT_ROWS))
                return false;
        }
    }
    return true;
}

/* Counts the rows of each selection kept for one token of a block, the t-th. Segment by
 * segment, so that branches go on from where the scratch sets stand. */
static void count_token(uint64_t *scratch, const unsigned char *block,
                        const struct kvt_kvsel_shape *shape, uint32_t t, uint64_t *counted)
{
    uint32_t segments = kvsel_u32(block + BLOCK_SEGMENTS_AT);
    uint32_t per_token = kvsel_lists_per_token(shape);
    uint64_t rows = kvsel_rows_after(shape, (uint64_t)kvsel_u32(block + BLOCK_FIRST_TOKEN_AT) + t);
    uint64_t *own = scratch, *side = scratch + KVSEL_SEGMENT_WORDS;
    enum kvt_cpu cpu = kvt_cpu_best();
    memset(counted, 0, per_token * sizeof *counted);
    for (uint32_t segment = 0; segment < segments; segment++) {
        uint64_t first = (uint64_t)segment * KVSEL_SEGMENT_ROWS;
        uint64_t here = rows > first ? rows - first : 0;
        size_t words =
            kvt_row_words(here < KVSEL_SEGMENT_ROWS ? (uint32_t)here : KVSEL_SEGMENT_ROWS);
        for (uint32_t list = 0; list < per_token; list++) {
            struct kvsel_list found = kvsel_list_at(block, segments, t * per_token + list, segment);
            if (list > 0 && (list - 1) % shape->side_tokens == 0)
                memcpy(side, own, words * sizeof *own);
            if (list == 0)
                kvsel_begin(own, &found, words, cpu);
            else
                kvsel_toggle(side, &found, cpu);
            counted[list] += kvt_row_set_count(list == 0 ? own : side, words);
        }
    }
}

/* Every selection has the rows that it should. */
static kvt_status check_counts(const struct parser *parser, const unsigned char *block,
                               const struct kvt_kvsel_shape *shape)
{
    uint32_t first_token = kvsel_u32(block + BLOCK_FIRST_TOKEN_AT);
    uint32_t tokens = kvsel_u32(block + BLOCK_TOKENS_AT);
    uint32_t per_token = kvsel_lists_per_token(shape);
    uint64_t counted[1 + KVT_KVSEL_SIDES_MAX];
    for (uint32_t t = 0; t < tokens; t++) {
        count_token(parser->scratch, block, shape, t, counted);
        for (uint32_t list = 0; list < per_token; list++) {
            uint64_t rows = list_rows(shape, first_token + t, list);
            uint64_t due = rows < shape->top_k ? rows : shape->top_k;
            if (counted[list] != due)
                return REFUSE(parser,
                              "stream %u, token %u, selection %u: %llu rows; %llu are expected of "
                              "%llu that are visible",
                              kvsel_u32(block + BLOCK_STREAM_AT), first_token + t, list,
                              (unsigned long long)counted[list], (unsigned long long)due,
                              (unsigned long long)rows);
        }
    }
    return KVT_OK;
}

/* The block at parser->at, whose header lies in the file. */
static kvt_status parse_block(struct parser *parser, struct kvt_kvsel *file)
{
    const unsigned char *block = parser->bytes + parser->at;
    uint32_t stream = kvsel_u32(block + BLOCK_STREAM_AT);
    uint32_t first_token = kvsel_u32(block + BLOCK_FIRST_TOKEN_AT);
    uint32_t tokens = kvsel_u32(block + BLOCK_TOKENS_AT);
    if (kvt_kvsel_block_bytes(block) > parser->byte_count - parser->at)
        return refuse_cut(parser);
    if (kvsel_u64(block + BLOCK_CHECKSUM_AT) != kvsel_block_checksum(block))
        return REFUSE(parser,
                      "byte %zu: the block's checksum is not that of its bytes; it was "
                      "damaged",
                      parser->at);
    if (stream >= file->stream_count || tokens < 1 || tokens > KVT_KVSEL_BLOCK_TOKENS ||
        first_token != parser->next_token[stream] || first_token % KVT_KVSEL_BLOCK_TOKENS != 0 ||
        first_token >= KVT_KVSEL_ROWS_MAX)
        return REFUSE(parser,
                      "byte %zu: %u tokens of stream %u from token %u on do not follow what is "
                      "before them",
                      parser->at, tokens, stream, first_token);
    const struct kvt_kvsel_shape *shape = &file->streams[stream].shape;
    uint32_t segments = kvsel_segments(shape, (uint64_t)first_token + tokens - 1);
    uint64_t lists = (uint64_t)tokens * kvsel_lists_per_token(shape) * segments;
    if (kvsel_u32(block + BLOCK_SEGMENTS_AT) != segments || !are_offsets_sound(block, lists) ||
        !are_lists_sound(block, shape))
        return REFUSE(parser, "byte %zu: the block's lists are not laid out as its header says",
                      parser->at);
    if (parser->counts) {
        kvt_status status = check_counts(parser, block, shape);
        if (status != KVT_OK)
            return status;
    }
    parser->next_token[stream] = first_token + tokens;
    parser->chain = kvt_chain64(parser->chain, kvsel_u64(block + BLOCK_CHECKSUM_AT));
    parser->block_count++;
    parser->at += kvt_kvsel_block_bytes(block);
    return KVT_OK;
}

static kvt_status parse_blocks(struct parser *parser, struct kvt_kvsel *file)
{
    for (;;) {
        if (parser->byte_count - parser->at < KVSEL_BLOCK_HEADER_BYTES)
            return refuse_cut(parser);
        const unsigned char *here = parser->bytes + parser->at;
        uint32_t magic = kvsel_u32(here + BLOCK_MAGIC_AT);
        if (magic == KVSEL_END_MAGIC)
            break;
        if (magic != KVSEL_BLOCK_MAGIC)
            return REFUSE(parser, "byte %zu: neither a block nor the end begins here", parser->at);
        kvt_status status = parse_block(parser, file);
        if (status != KVT_OK)
            return status;
    }
    const unsigned char *end = parser->bytes + parser->at;
    if (kvsel_u64(end + END_BLOCKS_AT) != parser->block_count ||
        kvsel_u64(end + BLOCK_CHECKSUM_AT) != kvsel_end_checksum(parser->chain, end))
        return REFUSE(parser, "byte %zu: the end does not belong to the %zu blocks before it",
                      parser->at, parser->block_count);
    if (parser->at + KVSEL_BLOCK_HEADER_BYTES != parser->byte_count)
        return REFUSE(parser, "byte %zu: bytes follow the end",
                      parser->at + KVSEL_BLOCK_HEADER_BYTES);
    return KVT_OK;
}

/* Block pointers, stream by stream, once all blocks have been checked. */
static kvt_status link_blocks(struct parser *parser, struct kvt_kvsel *file)
{
    file->blocks = malloc((parser->block_count + 1) * sizeof *file->blocks);
    if (file->blocks == NULL)
        return kvt_fail_nomem(parser->err, parser->where);
    unsigned char **next = file->blocks;
    for (uint32_t s = 0; s < file->stream_count; s++) {
        struct kvt_kvsel_stream *stream = &file->streams[s];
        stream->token_count = parser->next_token[s];
        stream->blocks = next;
        next += (stream->token_count + KVT_KVSEL_BLOCK_TOKENS - 1) / KVT_KVSEL_BLOCK_TOKENS;
    }
    unsigned char *block =
        parser->bytes + KVSEL_HEADER_BYTES + (size_t)file->stream_count * KVSEL_STREAM_BYTES;
    for (size_t b = 0; b < parser->block_count; b++, block += kvt_kvsel_block_bytes(block)) {
        const struct kvt_kvsel_stream *stream = &file->streams[kvsel_u32(block + BLOCK_STREAM_AT)];
        stream->blocks[kvsel_u32(block + BLOCK_FIRST_TOKEN_AT) / KVT_KVSEL_BLOCK_TOKENS] = block;
    }
    return KVT_OK;
}

kvt_status kvt_kvsel_parse(unsigned char *bytes, size_t byte_count, const char *where, bool counts,
                           struct kvt_kvsel **out, struct kvt_error *err)
{
    struct parser parser = {
        .bytes = bytes, .byte_count = byte_count, .where = where, .counts = counts, .err = err};
    struct kvt_kvsel_header header = {.key = 0};
    kvt_status status = parse_header(&parser, &header);
    if (status != KVT_OK)
        return status;
    uint32_t stream_count = header.request_count * header.selector_count;
    assert(stream_count > 0);
    struct kvt_kvsel *file = calloc(1, sizeof *file + stream_count * sizeof file->streams[0]);
    parser.next_token = calloc(stream_count, sizeof *parser.next_token);
    parser.scratch =
        counts ? malloc((size_t)2 * KVSEL_SEGMENT_WORDS * sizeof *parser.scratch) : NULL;
    if (file == NULL || parser.next_token == NULL || (counts && parser.scratch == NULL)) {
        status = kvt_fail_nomem(err, where);
    } else {
        file->header = header;
        file->stream_count = stream_count;
        status = parse_streams(&parser, file);
        if (status == KVT_OK)
            status = parse_blocks(&parser, file);
        if (status == KVT_OK)
            status = link_blocks(&parser, file);
    }
    free(parser.next_token);
    free(parser.scratch);
    if (status != KVT_OK) {
        kvt_kvsel_free(file);
        return status;
    }
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
