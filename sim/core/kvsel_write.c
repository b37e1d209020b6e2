/* kvsel_write.c -- a file of recorded selections, written block by block.
 *
 *     header, 64 bytes; an entry a stream, 8 bytes; a note, where there is one; blocks; end,
 *     32 bytes
 *
 * A block's checksum is over its own bytes, that of the end over all of theirs: a file that
 * was cut, even between two blocks, is told from a whole one. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvsel_private.h"
#include "kvt/file.h"
#include "kvt/hash.h"

uint64_t kvsel_header_checksum(const unsigned char *header, uint32_t stream_count)
{
    uint64_t chain = kvt_hash_bytes(0, header, HEADER_CHECKSUM_AT);
    return kvt_hash_bytes(chain, header + KVSEL_HEADER_BYTES,
                          (size_t)stream_count * KVSEL_STREAM_BYTES);
}

uint64_t kvsel_end_checksum(uint64_t chain, const unsigned char *end)
{
    return kvt_hash_bytes(chain, end, BLOCK_CHECKSUM_AT);
}

struct kvt_kvsel_writer {
    struct kvt_outfile *file;
    uint64_t chain, block_count;
    uint32_t stream_count;
    uint32_t next_token[]; /* [stream_count] */
};

static kvt_status check_header(const struct kvt_kvsel_header *header, const char *where,
                               struct kvt_error *err)
{
    uint64_t streams = (uint64_t)header->request_count * header->selector_count;
    if (streams < 1 || streams > KVT_KVSEL_STREAMS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%u requests of %u selectors; 1 to %u streams are expected",
                        header->request_count, header->selector_count, KVT_KVSEL_STREAMS_MAX);
    if (header->note_bytes > KVT_KVSEL_NOTE_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a note of %llu bytes; at most %u are expected",
                        (unsigned long long)header->note_bytes, KVT_KVSEL_NOTE_MAX);
    return KVT_OK;
}

static void write_note(struct kvt_kvsel_writer *writer, const char *text, uint64_t text_bytes)
{
    static const unsigned char zeros[KVSEL_NOTE_ALIGNMENT] = {0};
    unsigned char head[KVSEL_NOTE_HEADER_BYTES] = {0};
    FILE *stream = kvt_outfile_stream(writer->file);
    kvsel_put_u32(head, KVSEL_NOTE_MAGIC);
    kvsel_put_u64(head + NOTE_BYTES_AT, text_bytes);
    uint64_t checksum = kvsel_note_checksum(head, text, (size_t)text_bytes);
    kvsel_put_u64(head + NOTE_CHECKSUM_AT, checksum);
    writer->chain = kvt_chain64(writer->chain, checksum);
    (void)fwrite(head, 1, sizeof head, stream);
    (void)fwrite(text, 1, (size_t)text_bytes, stream);
    (void)fwrite(zeros, 1, kvsel_note_padding(text_bytes), stream);
}

static kvt_status write_header(struct kvt_kvsel_writer *writer,
                               const struct kvt_kvsel_header *header,
                               const struct kvt_kvsel_shape *shapes, struct kvt_error *err)
{
    size_t bytes = KVSEL_HEADER_BYTES + (size_t)writer->stream_count * KVSEL_STREAM_BYTES;
    unsigned char *out = calloc(1, bytes);
    if (out == NULL)
        return kvt_fail_nomem(err, "the header of a file of selections");
    memcpy(out, kvsel_magic, sizeof kvsel_magic);
    kvsel_put_u32(out + HEADER_VERSION_AT, KVSEL_VERSION);
    kvsel_put_u32(out + HEADER_TOP_K_AT, header->top_k);
    kvsel_put_u32(out + HEADER_SIDE_PATHS_AT, header->side_paths);
    kvsel_put_u32(out + HEADER_SIDE_TOKENS_AT, header->side_tokens);
    kvsel_put_u32(out + HEADER_REQUESTS_AT, header->request_count);
    kvsel_put_u32(out + HEADER_SELECTORS_AT, header->selector_count);
    kvsel_put_u32(out + HEADER_SEGMENT_ROWS_AT, KVSEL_SEGMENT_ROWS);
    kvsel_put_u64(out + HEADER_KEY_AT, header->key);
    for (uint32_t s = 0; s < writer->stream_count; s++) {
        unsigned char *entry = out + KVSEL_HEADER_BYTES + (size_t)s * KVSEL_STREAM_BYTES;
        kvsel_put_u32(entry, shapes[s].first_rows);
        kvsel_put_u32(entry + 4, shapes[s].tokens_per_row);
    }
    kvsel_put_u64(out + HEADER_CHECKSUM_AT, kvsel_header_checksum(out, writer->stream_count));
    /* A short write is kept by the stream and reported by the commit. */
    (void)fwrite(out, 1, bytes, kvt_outfile_stream(writer->file));
    free(out);
    if (header->note_bytes > 0)
        write_note(writer, header->note, header->note_bytes);
    return KVT_OK;
}

kvt_status kvt_kvsel_create(const char *path, const struct kvt_kvsel_header *header,
                            const struct kvt_kvsel_shape *shapes, struct kvt_kvsel_writer **out,
                            struct kvt_error *err)
{
    kvt_status status = check_header(header, path, err);
    if (status != KVT_OK)
        return status;
    uint32_t stream_count = header->request_count * header->selector_count;
    for (uint32_t s = 0; s < stream_count; s++) {
        assert(shapes[s].top_k == header->top_k && shapes[s].side_paths == header->side_paths &&
               shapes[s].side_tokens == header->side_tokens);
        status = kvsel_check_shape(&shapes[s], path, err);
        if (status != KVT_OK)
            return status;
    }
    struct kvt_kvsel_writer *writer =
        calloc(1, sizeof *writer + stream_count * sizeof writer->next_token[0]);
    if (writer == NULL)
        return kvt_fail_nomem(err, path);
    writer->stream_count = stream_count;
    status = kvt_outfile_open(path, &writer->file, err);
    if (status == KVT_OK)
        status = write_header(writer, header, shapes, err);
    if (status != KVT_OK) {
        kvt_kvsel_discard(writer);
        return status;
    }
    *out = writer;
    return KVT_OK;
}

kvt_status kvt_kvsel_put(struct kvt_kvsel_writer *writer, const unsigned char *block,
                         struct kvt_error *err)
{
    uint32_t stream = kvsel_u32(block + BLOCK_STREAM_AT);
    uint32_t first_token = kvsel_u32(block + BLOCK_FIRST_TOKEN_AT);
    if (stream >= writer->stream_count || writer->next_token[stream] != first_token ||
        first_token % KVT_KVSEL_BLOCK_TOKENS != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "selections",
                        "a block of stream %u from token %u on does not follow what was written",
                        stream, first_token);
    writer->next_token[stream] = first_token + kvsel_u32(block + BLOCK_TOKENS_AT);
    writer->chain = kvt_chain64(writer->chain, kvsel_u64(block + BLOCK_CHECKSUM_AT));
    writer->block_count++;
    (void)fwrite(block, 1, kvt_kvsel_block_bytes(block), kvt_outfile_stream(writer->file));
    return KVT_OK;
}

kvt_status kvt_kvsel_commit(struct kvt_kvsel_writer *writer, struct kvt_error *err)
{
    unsigned char end[KVSEL_BLOCK_HEADER_BYTES] = {0};
    kvsel_put_u32(end + BLOCK_MAGIC_AT, KVSEL_END_MAGIC);
    kvsel_put_u64(end + END_BLOCKS_AT, writer->block_count);
    kvsel_put_u64(end + BLOCK_CHECKSUM_AT, kvsel_end_checksum(writer->chain, end));
    (void)fwrite(end, 1, sizeof end, kvt_outfile_stream(writer->file));
    kvt_status status = kvt_outfile_commit(writer->file, err);
    free(writer);
    return status;
}

void kvt_kvsel_discard(struct kvt_kvsel_writer *writer)
{
    if (writer == NULL)
        return;
    kvt_outfile_discard(writer->file);
    free(writer);
}
