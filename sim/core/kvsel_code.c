/* kvsel_code.c -- selections as lists of rows to be toggled: as lines where they are dense, else as
 * gaps of eight bits.
 *
 *     gaps:  previous = 0
 *            for each row to be toggled, ascending:
 *                gap = row - previous
 *                while gap > 255: put 255, put 0; gap -= 255      toggled twice: nothing
 *                put gap; previous = row
 *     lines: for each 64 bytes of the set: put which of them change
 *            put the bytes that do, as they change
 *
 * A reader of gaps has no special case: it adds a byte and toggles a bit. The bytes are read in
 * four lanes of a quarter each, whose first rows are kept: additions of one lane wait for each
 * other, and those of four do not. A reader of lines spreads 64 bytes at once, four times as fast.
 * A token's own selection toggles the empty set, a branch's the one before it. */
#include <assert.h>
#include <stdlib.h>

#include "kvsel_private.h"
#include "kvt/hash.h"

struct kvt_kvsel_coder {
    struct kvt_kvsel_shape shape;
    uint32_t segments; /* of the block begun */
    uint32_t lists_due, lists_done;
    unsigned char *bytes; /* [capacity] the block so far */
    size_t used, capacity;
};

struct kvt_kvsel_coder *kvt_kvsel_coder_new(const struct kvt_kvsel_shape *shape)
{
    struct kvt_kvsel_coder *coder = calloc(1, sizeof *coder);
    if (coder != NULL)
        coder->shape = *shape;
    return coder;
}

void kvt_kvsel_coder_free(struct kvt_kvsel_coder *coder)
{
    if (coder == NULL)
        return;
    free(coder->bytes);
    free(coder);
}

/* Room for so many bytes behind those in use. */
static kvt_status reserve(struct kvt_kvsel_coder *coder, size_t bytes, struct kvt_error *err)
{
    size_t needed = coder->used + bytes;
    if (needed > (size_t)UINT32_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "selections",
                        "a block of %zu bytes; at most 4 GiB for 64 tokens are expected", needed);
    if (needed <= coder->capacity)
        return KVT_OK;
    size_t capacity = needed + needed / 2;
    unsigned char *bytes_now = realloc(coder->bytes, capacity);
    if (bytes_now == NULL)
        return kvt_fail_nomem(err, "a block of selections");
    coder->bytes = bytes_now;
    coder->capacity = capacity;
    return KVT_OK;
}

kvt_status kvt_kvsel_coder_begin(struct kvt_kvsel_coder *coder, uint32_t stream,
                                 uint32_t first_token, uint32_t token_count, struct kvt_error *err)
{
    assert(token_count >= 1 && token_count <= KVT_KVSEL_BLOCK_TOKENS);
    coder->segments = kvsel_segments(&coder->shape, (uint64_t)first_token + token_count - 1);
    coder->lists_due = token_count * kvsel_lists_per_token(&coder->shape);
    coder->lists_done = 0;
    coder->used = 0;
    size_t offsets = ((size_t)coder->lists_due * coder->segments + 1) * 4;
    kvt_status status = reserve(coder, KVSEL_BLOCK_HEADER_BYTES + offsets, err);
    if (status != KVT_OK)
        return status;
    memset(coder->bytes, 0, KVSEL_BLOCK_HEADER_BYTES);
    kvsel_put_u32(coder->bytes + BLOCK_MAGIC_AT, KVSEL_BLOCK_MAGIC);
    kvsel_put_u32(coder->bytes + BLOCK_STREAM_AT, stream);
    kvsel_put_u32(coder->bytes + BLOCK_FIRST_TOKEN_AT, first_token);
    kvsel_put_u32(coder->bytes + BLOCK_TOKENS_AT, token_count);
    kvsel_put_u32(coder->bytes + BLOCK_SEGMENTS_AT, coder->segments);
    coder->used = KVSEL_BLOCK_HEADER_BYTES + offsets;
    return KVT_OK;
}

static uint64_t changed(const uint64_t *set, const uint64_t *from, size_t word)
{
    return from != NULL ? set[word] ^ from[word] : set[word];
}

/* Writes the gaps of the words' bits and where the lanes begin; returns the bytes written, at
 * most list_bytes_max(). */
static size_t put_gaps(unsigned char *out, const uint64_t *set, const uint64_t *from, size_t words)
{
    unsigned char *gaps = out + KVSEL_LIST_HEADER_BYTES;
    size_t count = 0;
    uint32_t previous = 0;
    for (size_t w = 0; w < words; w++) {
        for (uint64_t left = changed(set, from, w); left != 0; left &= left - 1) {
            uint32_t row = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(left);
            uint32_t gap = row - previous;
            for (; gap > KVSEL_GAP_MAX; gap -= KVSEL_GAP_MAX) {
                gaps[count++] = KVSEL_GAP_MAX;
                gaps[count++] = 0;
            }
            gaps[count++] = (unsigned char)gap;
            previous = row;
        }
    }
    size_t quarter = count / KVSEL_LANES;
    uint32_t row = 0;
    kvsel_put_u32(out, 0);
    for (size_t lane = 1; lane < KVSEL_LANES; lane++) {
        for (size_t i = (lane - 1) * quarter; i < lane * quarter; i++)
            row += gaps[i];
        kvsel_put_u32(out + lane * 4, row);
    }
    return KVSEL_LIST_HEADER_BYTES + count;
}

/* Lines up to the last that changes. */
static size_t count_lines(const uint64_t *set, const uint64_t *from, size_t words)
{
    while (words > 0 && changed(set, from, words - 1) == 0)
        words--;
    return (words + KVSEL_LINE_WORDS - 1) / KVSEL_LINE_WORDS;
}

/* What put_lines() would write. */
static size_t lines_bytes(const uint64_t *set, const uint64_t *from, size_t words, size_t lines)
{
    size_t bytes = KVSEL_LIST_HEADER_BYTES + lines * 8;
    for (size_t w = 0; w < words; w++) {
        for (uint64_t left = changed(set, from, w); left != 0; left >>= 8)
            bytes += (left & 0xff) != 0;
    }
    return bytes;
}

static void put_lines(unsigned char *out, const uint64_t *set, const uint64_t *from, size_t words,
                      size_t lines)
{
    unsigned char *bytes = out + KVSEL_LIST_HEADER_BYTES + lines * 8;
    memset(out, 0, KVSEL_LIST_HEADER_BYTES);
    kvsel_put_u32(out, (uint32_t)lines);
    for (size_t line = 0; line < lines; line++) {
        uint64_t mask = 0;
        for (uint32_t b = 0; b < KVSEL_LINE_WORDS * 8; b++) {
            size_t w = line * KVSEL_LINE_WORDS + b / 8;
            uint64_t word = w < words ? changed(set, from, w) : 0;
            unsigned char byte = (unsigned char)(word >> b % 8 * 8);
            mask |= (uint64_t)(byte != 0) << b;
            *bytes = byte;
            bytes += byte != 0;
        }
        kvsel_put_u64(out + KVSEL_LIST_HEADER_BYTES + line * 8, mask);
    }
}

/* A gap for each bit, and two for each 255 rows: room is cheaper than counting. */
static size_t list_bytes_max(size_t words)
{
    return KVSEL_LIST_HEADER_BYTES + words * 64 + 2 * (words * 64 / KVSEL_GAP_MAX + 1);
}

/* Lines are worth up to one and three quarters of the bytes that gaps take. */
static size_t put_list(unsigned char *out, const uint64_t *set, const uint64_t *from, size_t words)
{
    size_t as_gaps = put_gaps(out, set, from, words);
    size_t lines = count_lines(set, from, words);
    size_t as_lines = lines_bytes(set, from, words, lines);
    if (lines == 0 ||
        4 * (as_lines - KVSEL_LIST_HEADER_BYTES) > 7 * (as_gaps - KVSEL_LIST_HEADER_BYTES))
        return as_gaps;
    put_lines(out, set, from, words, lines);
    return as_lines;
}

kvt_status kvt_kvsel_coder_add(struct kvt_kvsel_coder *coder, const uint64_t *set,
                               const uint64_t *from, size_t words, struct kvt_error *err)
{
    assert(coder->lists_done < coder->lists_due);
    size_t used = coder->used;
    for (uint32_t segment = 0; segment < coder->segments; segment++) {
        size_t first = (size_t)segment * KVSEL_SEGMENT_WORDS;
        size_t here = words > first ? words - first : 0;
        if (here > KVSEL_SEGMENT_WORDS)
            here = KVSEL_SEGMENT_WORDS;
        const uint64_t *before = from != NULL && here > 0 ? from + first : NULL;
        const uint64_t *now = here > 0 ? set + first : NULL;
        kvt_status status = reserve(coder, list_bytes_max(here), err);
        if (status != KVT_OK) {
            coder->used = used;
            return status;
        }
        size_t entry = (size_t)coder->lists_done * coder->segments + segment;
        kvsel_put_u32(coder->bytes + KVSEL_BLOCK_HEADER_BYTES + entry * 4,
                      (uint32_t)(coder->used - KVSEL_BLOCK_HEADER_BYTES));
        coder->used += put_list(coder->bytes + coder->used, now, before, here);
    }
    coder->lists_done++;
    return KVT_OK;
}

/* A block of the first `tokens` of those begun: without the offsets that are not used, nor the
 * segments that none of these tokens reaches. */
static size_t put_block(const struct kvt_kvsel_coder *coder, uint32_t tokens, unsigned char *out)
{
    const unsigned char *from = coder->bytes + KVSEL_BLOCK_HEADER_BYTES;
    unsigned char *payload = out + KVSEL_BLOCK_HEADER_BYTES;
    uint32_t last_token = kvsel_u32(coder->bytes + BLOCK_FIRST_TOKEN_AT) + tokens - 1;
    uint32_t segments = kvsel_segments(&coder->shape, last_token);
    size_t lists = (size_t)coder->lists_done * segments, at = (lists + 1) * 4;
    memcpy(out, coder->bytes, KVSEL_BLOCK_HEADER_BYTES);
    for (size_t i = 0; i < lists; i++) {
        size_t entry = i / segments * coder->segments + i % segments;
        uint32_t begin = kvsel_u32(from + entry * 4), end = kvsel_u32(from + (entry + 1) * 4);
        kvsel_put_u32(payload + i * 4, (uint32_t)at);
        memcpy(payload + at, from + begin, end - begin);
        at += end - begin;
    }
    kvsel_put_u32(payload + lists * 4, (uint32_t)at);
    kvsel_put_u32(out + BLOCK_TOKENS_AT, tokens);
    kvsel_put_u32(out + BLOCK_SEGMENTS_AT, segments);
    return at;
}

kvt_status kvt_kvsel_coder_finish(struct kvt_kvsel_coder *coder, unsigned char **out,
                                  struct kvt_error *err)
{
    uint32_t per_token = kvsel_lists_per_token(&coder->shape);
    assert(coder->lists_done > 0 && coder->lists_done % per_token == 0);
    size_t last = (size_t)coder->lists_done * coder->segments;
    kvsel_put_u32(coder->bytes + KVSEL_BLOCK_HEADER_BYTES + last * 4,
                  (uint32_t)(coder->used - KVSEL_BLOCK_HEADER_BYTES));
    unsigned char *block = malloc(coder->used);
    if (block == NULL)
        return kvt_fail_nomem(err, "a block of selections");
    size_t payload_bytes = put_block(coder, coder->lists_done / per_token, block);
    kvsel_put_u32(block + BLOCK_BYTES_AT, (uint32_t)payload_bytes);
    kvsel_put_u64(block + BLOCK_CHECKSUM_AT, kvsel_block_checksum(block));
    *out = block;
    return KVT_OK;
}

size_t kvt_kvsel_block_bytes(const unsigned char *block)
{
    return KVSEL_BLOCK_HEADER_BYTES + (size_t)kvsel_u32(block + BLOCK_BYTES_AT);
}

void kvt_kvsel_block_renumber(unsigned char *block, uint32_t stream)
{
    kvsel_put_u32(block + BLOCK_STREAM_AT, stream);
    kvsel_put_u64(block + BLOCK_CHECKSUM_AT, kvsel_block_checksum(block));
}

uint64_t kvsel_block_checksum(const unsigned char *block)
{
    uint64_t chain = kvt_hash_bytes(0, block, BLOCK_CHECKSUM_AT);
    return kvt_hash_bytes(chain, block + KVSEL_BLOCK_HEADER_BYTES,
                          kvsel_u32(block + BLOCK_BYTES_AT));
}

kvt_status kvsel_check_shape(const struct kvt_kvsel_shape *shape, const char *where,
                             struct kvt_error *err)
{
    if (shape->top_k < 1 || shape->top_k > KVT_KVSEL_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "selections of %u rows; 1 to %u are expected",
                        shape->top_k, KVT_KVSEL_ROWS_MAX);
    if (shape->first_rows < 1 || shape->first_rows > KVT_KVSEL_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a stream that begins with %u rows; 1 to %u are expected",
                        shape->first_rows, KVT_KVSEL_ROWS_MAX);
    if (shape->tokens_per_row < 1)
        return kvt_fail(err, KVT_ERR_INVALID, where, "rows of 0 tokens; 1 or more are expected");
    if ((shape->side_paths == 0) != (shape->side_tokens == 0) ||
        (uint64_t)shape->side_paths * shape->side_tokens > KVT_KVSEL_SIDES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%u branches of %u selections after each token; both 0, or at most %d "
                        "selections in all are expected",
                        shape->side_paths, shape->side_tokens, KVT_KVSEL_SIDES_MAX);
    return KVT_OK;
}
