/* kvsel_private.h -- the bytes of a block, for the files of sim/core that read and write them. */
#ifndef KVT_CORE_KVSEL_PRIVATE_H
#define KVT_CORE_KVSEL_PRIVATE_H

#include <string.h>

#include "kvt/cpu.h"
#include "kvt/hash.h"
#include "kvt/kvsel.h"

enum {
    /* Rows are coded a segment at a time, so that a reader's scratch has a size. */
    KVSEL_SEGMENT_WORDS = 2048,
    KVSEL_SEGMENT_ROWS = KVSEL_SEGMENT_WORDS * 64,

    KVSEL_VERSION = 3,
    KVSEL_VERSION_OLDEST = 2, /* had no note */
    KVSEL_HEADER_BYTES = 64,
    KVSEL_STREAM_BYTES = 8,
    KVSEL_BLOCK_HEADER_BYTES = 32,
    KVSEL_LANES = 4,
    KVSEL_LIST_HEADER_BYTES = KVSEL_LANES * 4,
    KVSEL_LINE_WORDS = 8,
    KVSEL_GAP_MAX = 255,
};

/* "\x89KVSEL\r\n": what text mode or seven bits would spoil. */
static const unsigned char kvsel_magic[8] = {0x89, 'K', 'V', 'S', 'E', 'L', '\r', '\n'};
#define KVSEL_BLOCK_MAGIC UINT32_C(0x4b4c424b) /* "KBLK" */
#define KVSEL_END_MAGIC UINT32_C(0x444e454b)   /* "KEND" */
#define KVSEL_NOTE_MAGIC UINT32_C(0x544f4e4b)  /* "KNOT" */

/* Offsets in a block's header. */
enum {
    BLOCK_MAGIC_AT = 0,
    BLOCK_STREAM_AT = 4,
    BLOCK_FIRST_TOKEN_AT = 8,
    BLOCK_TOKENS_AT = 12,
    BLOCK_SEGMENTS_AT = 16,
    BLOCK_BYTES_AT = 20, /* of the payload */
    BLOCK_CHECKSUM_AT = 24,
};

/* Offsets in a file's header, and in its end, whose checksum lies where a block's does. */
enum {
    HEADER_VERSION_AT = 8,
    HEADER_TOP_K_AT = 12,
    HEADER_SIDE_PATHS_AT = 16,
    HEADER_SIDE_TOKENS_AT = 20,
    HEADER_REQUESTS_AT = 24,
    HEADER_SELECTORS_AT = 28,
    HEADER_SEGMENT_ROWS_AT = 32,
    HEADER_KEY_AT = 40,
    HEADER_CHECKSUM_AT = 56,
    END_BLOCKS_AT = 8,
};

/* Offsets in a note's header, whose text follows it. */
enum {
    NOTE_BYTES_AT = 8,
    NOTE_CHECKSUM_AT = 16,
    KVSEL_NOTE_HEADER_BYTES = 24,
    KVSEL_NOTE_ALIGNMENT = 8, /* what follows it begins at a multiple */
};

/* Little-endian whatever the machine; compilers make each one move on x86. */
static inline uint32_t kvsel_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static inline uint64_t kvsel_u64(const unsigned char *bytes)
{
    return kvsel_u32(bytes) | (uint64_t)kvsel_u32(bytes + 4) << 32;
}

static inline void kvsel_put_u32(unsigned char *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
}

static inline void kvsel_put_u64(unsigned char *bytes, uint64_t value)
{
    kvsel_put_u32(bytes, (uint32_t)value);
    kvsel_put_u32(bytes + 4, (uint32_t)(value >> 32));
}

/* Rows that any selection kept for a token sees at most: its last branch selection's. */
static inline uint64_t kvsel_rows_after(const struct kvt_kvsel_shape *shape, uint64_t token)
{
    return shape->first_rows + (token + shape->side_tokens) / shape->tokens_per_row;
}

static inline uint32_t kvsel_segments(const struct kvt_kvsel_shape *shape, uint64_t last_token)
{
    uint64_t rows = kvsel_rows_after(shape, last_token);
    return (uint32_t)((rows + KVSEL_SEGMENT_ROWS - 1) / KVSEL_SEGMENT_ROWS);
}

/* Selections kept for one token. */
static inline uint32_t kvsel_lists_per_token(const struct kvt_kvsel_shape *shape)
{
    return 1 + shape->side_paths * shape->side_tokens;
}

static inline size_t kvsel_block_count(const struct kvt_kvsel_stream *stream)
{
    return ((size_t)stream->token_count + KVT_KVSEL_BLOCK_TOKENS - 1) / KVT_KVSEL_BLOCK_TOKENS;
}

/* One segment of one selection: rows to be toggled. */
struct kvsel_list {
    const unsigned char *header; /* [KVSEL_LIST_HEADER_BYTES]: u32 lines; of gaps, which have none,
                                  * then the rows before the first of lanes 1, 2, 3 */
    const unsigned char *bytes;  /* [byte_count]: gaps, or u64 masks of all lines and their bytes */
    uint32_t byte_count;
};

/* Of a block whose offsets are sound. `list` counts the selections of the block, `segments`
 * are the block's. */
static inline struct kvsel_list kvsel_list_at(const unsigned char *block, uint32_t segments,
                                              uint32_t list, uint32_t segment)
{
    const unsigned char *payload = block + KVSEL_BLOCK_HEADER_BYTES;
    const unsigned char *entry = payload + ((size_t)list * segments + segment) * 4;
    uint32_t begin = kvsel_u32(entry), end = kvsel_u32(entry + 4);
    return (struct kvsel_list){
        .header = payload + begin,
        .bytes = payload + begin + KVSEL_LIST_HEADER_BYTES,
        .byte_count = end - begin - KVSEL_LIST_HEADER_BYTES,
    };
}

/* Makes set[KVSEL_SEGMENT_WORDS] the list's rows; words from `words` on, where no row of it is, are
 * left as they are or cleared. NULL: the list of no row. */
void kvsel_begin(uint64_t *set, const struct kvsel_list *list, size_t words, enum kvt_cpu cpu);

/* Toggles the list's rows in set[KVSEL_SEGMENT_WORDS]. */
void kvsel_toggle(uint64_t *set, const struct kvsel_list *list, enum kvt_cpu cpu);

/* Rows of a list lie below `rows`, and it is written as the coder does. */
bool kvsel_list_is_sound(const struct kvsel_list *list, uint32_t rows);

/* Over a block's header and payload. */
uint64_t kvsel_block_checksum(const unsigned char *block);

/* Over a file's header and its streams' entries. */
uint64_t kvsel_header_checksum(const unsigned char *header, uint32_t stream_count);

/* Over the end, behind the checksums of all blocks. */
uint64_t kvsel_end_checksum(uint64_t chain, const unsigned char *end);

/* Over a note's header and its text. */
static inline uint64_t kvsel_note_checksum(const unsigned char *header, const void *text,
                                           size_t text_bytes)
{
    return kvt_hash_bytes(kvt_hash_bytes(0, header, NOTE_CHECKSUM_AT), text, text_bytes);
}

/* Zeros behind a note's text. */
static inline size_t kvsel_note_padding(uint64_t text_bytes)
{
    return (size_t)(-text_bytes % KVSEL_NOTE_ALIGNMENT);
}

/* A shape that streams can have; `where` is the place. */
KVT_CHECKED kvt_status kvsel_check_shape(const struct kvt_kvsel_shape *shape, const char *where,
                                         struct kvt_error *err);

/* ---- The parser: one for files in memory and for those that are read piece by piece ------- */

struct kvsel_parser {
    unsigned char *bytes; /* [byte_count] the file; NULL: it is read from `fd` */
    int fd;
    uint64_t byte_count, at;
    const char *where;
    bool counts; /* selections are decoded and their rows counted */
    struct kvt_kvsel_header header;
    char *note;
    uint32_t stream_count;
    /* [stream_count] without blocks; token_count is of the blocks so far. */
    struct kvt_kvsel_stream *streams;
    uint64_t first_block_at, block_count;
    uint64_t chain;
    uint64_t *scratch;     /* [2][KVSEL_SEGMENT_WORDS] where rows are counted */
    unsigned char *buffer; /* [buffer_bytes] what was read from `fd` last */
    size_t buffer_bytes;
};

/* Header, streams and note. The caller has set what comes first, up to `counts`. */
KVT_CHECKED kvt_status kvsel_parser_begin(struct kvsel_parser *parser, struct kvt_error *err);

/* The next block, which lies at parser->at - its bytes; NULL behind the last, once the end has been
 * found to be that of all of them. Borrowed until the next call, or for as long as the bytes are
 * there. */
KVT_CHECKED kvt_status kvsel_parser_next(struct kvsel_parser *parser, unsigned char **block,
                                         struct kvt_error *err);

/* A block that kvsel_parser_next() has gone by once, read again; `number` is its place in its
 * stream. Refused where it is another now. Borrowed as there. */
KVT_CHECKED kvt_status kvsel_parser_again(struct kvsel_parser *parser, uint64_t at,
                                          uint32_t block_bytes, uint32_t stream, uint32_t number,
                                          unsigned char **block, struct kvt_error *err);

/* What is owned: not the bytes, nor the file. */
void kvsel_parser_fini(struct kvsel_parser *parser);

#endif
