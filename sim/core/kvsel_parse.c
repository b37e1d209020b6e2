/* kvsel_parse.c -- files of recorded selections, checked piece by piece.
 *
 *     header, streams; note, where there is one; blocks; end
 *
 * What a reader is to follow is checked once, here, so that kvt_kvsel_read() need not look:
 * checksums, that blocks follow each other, that offsets ascend within their block, and that
 * no list toggles a row that its query cannot see. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "kvsel_private.h"
#include "kvt/hash.h"

bool kvt_kvsel_is_magic(const void *bytes, size_t byte_count)
{
    return byte_count >= sizeof kvsel_magic && memcmp(bytes, kvsel_magic, sizeof kvsel_magic) == 0;
}

#define REFUSE(parser, ...) kvt_fail(err, KVT_ERR_PARSE, (parser)->where, __VA_ARGS__)

static kvt_status refuse_cut(const struct kvsel_parser *parser, struct kvt_error *err)
{
    return REFUSE(parser, "byte %llu: the file ends before its end; it was cut",
                  (unsigned long long)parser->byte_count);
}

/* ---- Bytes --------------------------------------------------------------------------------- */

static kvt_status reserve(struct kvsel_parser *parser, size_t bytes, struct kvt_error *err)
{
    if (bytes <= parser->buffer_bytes)
        return KVT_OK;
    unsigned char *larger = realloc(parser->buffer, bytes);
    if (larger == NULL)
        return kvt_fail_nomem(err, parser->where);
    parser->buffer = larger;
    parser->buffer_bytes = bytes;
    return KVT_OK;
}

/* buffer[from, to) of the file's bytes from `at` on. */
static kvt_status read_buffer(struct kvsel_parser *parser, uint64_t at, size_t from, size_t to,
                              struct kvt_error *err)
{
    while (from < to) {
        unsigned long long place = at + from;
        ssize_t got = pread(parser->fd, parser->buffer + from, to - from, (off_t)place);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvt_fail(err, KVT_ERR_IO, parser->where, "byte %llu: the file cannot be read",
                            place);
        if (got == 0)
            return REFUSE(parser, "byte %llu: the file became shorter while it was read", place);
        from += (size_t)got;
    }
    return KVT_OK;
}

/* So many bytes from `at` on, of which `have` lie in the buffer from the last call on. Nothing is
 * allocated for what the file does not have. */
static kvt_status take(struct kvsel_parser *parser, uint64_t at, size_t have, size_t bytes,
                       unsigned char **out, struct kvt_error *err)
{
    if (at > parser->byte_count || bytes > parser->byte_count - at)
        return refuse_cut(parser, err);
    if (parser->bytes != NULL) {
        *out = parser->bytes + at;
        return KVT_OK;
    }
    kvt_status status = reserve(parser, bytes, err);
    if (status == KVT_OK)
        status = read_buffer(parser, at, have, bytes, err);
    *out = parser->buffer;
    return status;
}

/* ---- Header, streams, note ------------------------------------------------------------------ */

static kvt_status parse_counts(struct kvsel_parser *parser, const unsigned char *bytes,
                               struct kvt_error *err)
{
    uint32_t version = kvsel_u32(bytes + HEADER_VERSION_AT);
    if (version < KVSEL_VERSION_OLDEST || version > KVSEL_VERSION)
        return REFUSE(parser, "byte 8: version %u; this program reads versions %d to %d", version,
                      KVSEL_VERSION_OLDEST, KVSEL_VERSION);
    parser->header = (struct kvt_kvsel_header){
        .top_k = kvsel_u32(bytes + HEADER_TOP_K_AT),
        .side_paths = kvsel_u32(bytes + HEADER_SIDE_PATHS_AT),
        .side_tokens = kvsel_u32(bytes + HEADER_SIDE_TOKENS_AT),
        .request_count = kvsel_u32(bytes + HEADER_REQUESTS_AT),
        .selector_count = kvsel_u32(bytes + HEADER_SELECTORS_AT),
        .key = kvsel_u64(bytes + HEADER_KEY_AT),
    };
    const struct kvt_kvsel_header *header = &parser->header;
    uint64_t streams = (uint64_t)header->request_count * header->selector_count;
    if (streams < 1 || streams > KVT_KVSEL_STREAMS_MAX)
        return REFUSE(parser, "byte 24: %u requests of %u selectors; 1 to %u streams are expected",
                      header->request_count, header->selector_count, KVT_KVSEL_STREAMS_MAX);
    parser->stream_count = (uint32_t)streams;
    return KVT_OK;
}

static kvt_status parse_streams(struct kvsel_parser *parser, const unsigned char *bytes,
                                struct kvt_error *err)
{
    assert(parser->stream_count > 0);
    parser->streams = calloc(parser->stream_count, sizeof *parser->streams);
    if (parser->streams == NULL)
        return kvt_fail_nomem(err, parser->where);
    for (uint32_t s = 0; s < parser->stream_count; s++) {
        const unsigned char *entry = bytes + KVSEL_HEADER_BYTES + (size_t)s * KVSEL_STREAM_BYTES;
        struct kvt_kvsel_shape shape = {
            .top_k = parser->header.top_k,
            .first_rows = kvsel_u32(entry),
            .tokens_per_row = kvsel_u32(entry + 4),
            .side_paths = parser->header.side_paths,
            .side_tokens = parser->header.side_tokens,
        };
        kvt_status status = kvsel_check_shape(&shape, parser->where, err);
        if (status != KVT_OK)
            return status;
        parser->streams[s].shape = shape;
    }
    return KVT_OK;
}

static kvt_status parse_header(struct kvsel_parser *parser, uint32_t *version,
                               struct kvt_error *err)
{
    unsigned char *bytes = NULL;
    kvt_status status = KVT_OK;
    uint64_t first =
        parser->byte_count < sizeof kvsel_magic ? parser->byte_count : sizeof kvsel_magic;
    status = take(parser, 0, 0, (size_t)first, &bytes, err);
    if (status != KVT_OK)
        return status;
    if (!kvt_kvsel_is_magic(bytes, (size_t)first))
        return REFUSE(parser, "byte 0: this is no file of selections (.kvsel)");
    status = take(parser, 0, (size_t)first, KVSEL_HEADER_BYTES, &bytes, err);
    if (status == KVT_OK)
        status = parse_counts(parser, bytes, err);
    size_t whole = KVSEL_HEADER_BYTES + (size_t)parser->stream_count * KVSEL_STREAM_BYTES;
    if (status == KVT_OK)
        status = take(parser, 0, KVSEL_HEADER_BYTES, whole, &bytes, err);
    if (status != KVT_OK)
        return status;
    if (kvsel_u64(bytes + HEADER_CHECKSUM_AT) != kvsel_header_checksum(bytes, parser->stream_count))
        return REFUSE(parser, "byte 56: the header's checksum is not that of its bytes; it was "
                              "damaged");
    if (kvsel_u32(bytes + HEADER_SEGMENT_ROWS_AT) != KVSEL_SEGMENT_ROWS)
        return REFUSE(parser, "byte 32: segments of %u rows; %d are expected",
                      kvsel_u32(bytes + HEADER_SEGMENT_ROWS_AT), KVSEL_SEGMENT_ROWS);
    *version = kvsel_u32(bytes + HEADER_VERSION_AT);
    parser->at = whole;
    return parse_streams(parser, bytes, err);
}

/* The note at parser->at, whose header is `bytes`. Its text is kept. */
static kvt_status parse_note(struct kvsel_parser *parser, unsigned char *bytes,
                             struct kvt_error *err)
{
    static const unsigned char zeros[KVSEL_NOTE_ALIGNMENT] = {0};
    unsigned long long at = parser->at;
    uint64_t text_bytes = kvsel_u64(bytes + NOTE_BYTES_AT);
    if (text_bytes < 1 || text_bytes > KVT_KVSEL_NOTE_MAX)
        return REFUSE(parser, "byte %llu: a note of %llu bytes; 1 to %u are expected",
                      at + NOTE_BYTES_AT, (unsigned long long)text_bytes, KVT_KVSEL_NOTE_MAX);
    size_t padding = kvsel_note_padding(text_bytes);
    size_t whole = KVSEL_NOTE_HEADER_BYTES + (size_t)text_bytes + padding;
    kvt_status status = take(parser, parser->at, KVSEL_NOTE_HEADER_BYTES, whole, &bytes, err);
    if (status != KVT_OK)
        return status;
    const unsigned char *text = bytes + KVSEL_NOTE_HEADER_BYTES;
    uint64_t checksum = kvsel_u64(bytes + NOTE_CHECKSUM_AT);
    if (checksum != kvsel_note_checksum(bytes, text, (size_t)text_bytes) ||
        memcmp(text + text_bytes, zeros, padding) != 0)
        return REFUSE(parser,
                      "byte %llu: the note's checksum is not that of its bytes; it was "
                      "damaged",
                      at);
    parser->note = malloc((size_t)text_bytes + 1);
    if (parser->note == NULL)
        return kvt_fail_nomem(err, parser->where);
    memcpy(parser->note, text, (size_t)text_bytes);
    parser->note[text_bytes] = '\0';
    parser->header.note = parser->note;
    parser->header.note_bytes = text_bytes;
    parser->chain = kvt_chain64(parser->chain, checksum);
    parser->at += whole;
    return KVT_OK;
}

static kvt_status begin_counting(struct kvsel_parser *parser, struct kvt_error *err)
{
    if (!parser->counts)
        return KVT_OK;
    parser->scratch = malloc((size_t)2 * KVSEL_SEGMENT_WORDS * sizeof *parser->scratch);
    return parser->scratch != NULL ? KVT_OK : kvt_fail_nomem(err, parser->where);
}

kvt_status kvsel_parser_begin(struct kvsel_parser *parser, struct kvt_error *err)
{
    uint32_t version = 0;
    unsigned char *next = NULL;
    kvt_status status = parse_header(parser, &version, err);
    if (status == KVT_OK)
        status = begin_counting(parser, err);
    if (status == KVT_OK)
        status = take(parser, parser->at, 0, KVSEL_NOTE_HEADER_BYTES, &next, err);
    assert(status != KVT_OK || next != NULL);
    if (status == KVT_OK && version > KVSEL_VERSION_OLDEST && kvsel_u32(next) == KVSEL_NOTE_MAGIC)
        status = parse_note(parser, next, err);
    parser->first_block_at = parser->at;
    return status;
}

void kvsel_parser_fini(struct kvsel_parser *parser)
{
    free(parser->streams);
    free(parser->note);
    free(parser->scratch);
    free(parser->buffer);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

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
static kvt_status check_counts(const struct kvsel_parser *parser, const unsigned char *block,
                               const struct kvt_kvsel_shape *shape, uint64_t at,
                               struct kvt_error *err)
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
                              "byte %llu: stream %u, token %u, selection %u: %llu rows; %llu are "
                              "expected of %llu that are visible",
                              (unsigned long long)at, kvsel_u32(block + BLOCK_STREAM_AT),
                              first_token + t, list, (unsigned long long)counted[list],
                              (unsigned long long)due, (unsigned long long)rows);
        }
    }
    return KVT_OK;
}

static kvt_status refuse_order(const struct kvsel_parser *parser, const unsigned char *block,
                               uint64_t at, struct kvt_error *err)
{
    return REFUSE(parser,
                  "byte %llu: %u tokens of stream %u from token %u on do not follow what is "
                  "before them",
                  (unsigned long long)at, kvsel_u32(block + BLOCK_TOKENS_AT),
                  kvsel_u32(block + BLOCK_STREAM_AT), kvsel_u32(block + BLOCK_FIRST_TOKEN_AT));
}

/* All of the block at `at`, which is to begin with token `due` of its stream. */
static kvt_status check_block(const struct kvsel_parser *parser, const unsigned char *block,
                              uint64_t at, uint32_t due, struct kvt_error *err)
{
    uint32_t stream = kvsel_u32(block + BLOCK_STREAM_AT);
    uint32_t first_token = kvsel_u32(block + BLOCK_FIRST_TOKEN_AT);
    uint32_t tokens = kvsel_u32(block + BLOCK_TOKENS_AT);
    if (kvsel_u64(block + BLOCK_CHECKSUM_AT) != kvsel_block_checksum(block))
        return REFUSE(parser,
                      "byte %llu: the block's checksum is not that of its bytes; it was "
                      "damaged",
                      (unsigned long long)at);
    if (stream >= parser->stream_count || tokens < 1 || tokens > KVT_KVSEL_BLOCK_TOKENS ||
        first_token != due || first_token % KVT_KVSEL_BLOCK_TOKENS != 0 ||
        first_token >= KVT_KVSEL_ROWS_MAX)
        return refuse_order(parser, block, at, err);
    const struct kvt_kvsel_shape *shape = &parser->streams[stream].shape;
    uint32_t segments = kvsel_segments(shape, (uint64_t)first_token + tokens - 1);
    uint64_t lists = (uint64_t)tokens * kvsel_lists_per_token(shape) * segments;
    if (kvsel_u32(block + BLOCK_SEGMENTS_AT) != segments || !are_offsets_sound(block, lists) ||
        !are_lists_sound(block, shape))
        return REFUSE(parser, "byte %llu: the block's lists are not laid out as its header says",
                      (unsigned long long)at);
    return parser->counts ? check_counts(parser, block, shape, at, err) : KVT_OK;
}

/* The block at parser->at, whose header lies in `block`. */
static kvt_status parse_block(struct kvsel_parser *parser, unsigned char **block,
                              struct kvt_error *err)
{
    size_t bytes = kvt_kvsel_block_bytes(*block);
    kvt_status status = take(parser, parser->at, KVSEL_BLOCK_HEADER_BYTES, bytes, block, err);
    if (status != KVT_OK)
        return status;
    uint32_t stream = kvsel_u32(*block + BLOCK_STREAM_AT);
    uint32_t due = stream < parser->stream_count ? parser->streams[stream].token_count : 0;
    status = check_block(parser, *block, parser->at, due, err);
    if (status != KVT_OK)
        return status;
    parser->streams[stream].token_count = due + kvsel_u32(*block + BLOCK_TOKENS_AT);
    parser->chain = kvt_chain64(parser->chain, kvsel_u64(*block + BLOCK_CHECKSUM_AT));
    parser->block_count++;
    parser->at += bytes;
    return KVT_OK;
}

static kvt_status parse_end(const struct kvsel_parser *parser, const unsigned char *end,
                            struct kvt_error *err)
{
    if (kvsel_u64(end + END_BLOCKS_AT) != parser->block_count ||
        kvsel_u64(end + BLOCK_CHECKSUM_AT) != kvsel_end_checksum(parser->chain, end))
        return REFUSE(parser, "byte %llu: the end does not belong to the %llu blocks before it",
                      (unsigned long long)parser->at, (unsigned long long)parser->block_count);
    if (parser->at + KVSEL_BLOCK_HEADER_BYTES != parser->byte_count)
        return REFUSE(parser, "byte %llu: bytes follow the end",
                      (unsigned long long)parser->at + KVSEL_BLOCK_HEADER_BYTES);
    return KVT_OK;
}

kvt_status kvsel_parser_next(struct kvsel_parser *parser, unsigned char **block,
                             struct kvt_error *err)
{
    unsigned char *here = NULL;
    kvt_status status = take(parser, parser->at, 0, KVSEL_BLOCK_HEADER_BYTES, &here, err);
    if (status != KVT_OK)
        return status;
    assert(here != NULL);
    uint32_t magic = kvsel_u32(here + BLOCK_MAGIC_AT);
    if (magic == KVSEL_BLOCK_MAGIC) {
        status = parse_block(parser, &here, err);
    } else if (magic == KVSEL_END_MAGIC) {
        status = parse_end(parser, here, err);
        here = NULL;
    } else {
        return REFUSE(parser, "byte %llu: neither a block nor the end begins here",
                      (unsigned long long)parser->at);
    }
    if (status == KVT_OK)
        *block = here;
    return status;
}

kvt_status kvsel_parser_again(struct kvsel_parser *parser, uint64_t at, uint32_t block_bytes,
                              uint32_t stream, uint32_t number, unsigned char **block,
                              struct kvt_error *err)
{
    unsigned char *here = NULL;
    kvt_status status = take(parser, at, 0, block_bytes, &here, err);
    if (status != KVT_OK)
        return status;
    assert(here != NULL);
    if (kvsel_u32(here + BLOCK_MAGIC_AT) != KVSEL_BLOCK_MAGIC ||
        kvt_kvsel_block_bytes(here) != block_bytes || kvsel_u32(here + BLOCK_STREAM_AT) != stream ||
        kvsel_u32(here + BLOCK_FIRST_TOKEN_AT) != number * KVT_KVSEL_BLOCK_TOKENS)
        return REFUSE(parser, "byte %llu: the file changed while it was read",
                      (unsigned long long)at);
    status = check_block(parser, here, at, number * KVT_KVSEL_BLOCK_TOKENS, err);
    if (status == KVT_OK)
        *block = here;
    return status;
}
