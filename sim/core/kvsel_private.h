/* kvsel_private.h -- the bytes of a block, for the files of sim/core that read and write them. */
#ifndef KVT_CORE_KVSEL_PRIVATE_H
#define KVT_CORE_KVSEL_PRIVATE_H

#include <string.h>

#include "kvt/cpu.h"
#include "kvt/kvsel.h"

enum {
    /* Rows are coded a segment at a time, so that a reader's scratch has a size. */
    KVSEL_SEGMENT_WORDS = 2048,
    KVSEL_SEGMENT_ROWS = KVSEL_SEGMENT_WORDS * 64,

    KVSEL_VERSION = 2,
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

/* A shape that streams can have; `where` is the place. */
KVT_CHECKED kvt_status kvsel_check_shape(const struct kvt_kvsel_shape *shape, const char *where,
                                         struct kvt_error *err);

#endif
