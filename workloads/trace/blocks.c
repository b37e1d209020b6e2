/* blocks.c -- hash_ids held against the prompt they stand for.
 *
 * A prompt of n tokens has ceil(n / block) blocks, the last one partial. A file
 * read with the wrong block size has prompts many times too short or too long,
 * so a list that does not fit is refused, with the sizes that would fit. What two prompts
 * share is then the pages whose blocks, and all before them, have equal ids. */
#include <inttypes.h>
#include <stdio.h>

#include "kvt/hash.h"
#include "trace_file.h"

enum {
    BLOCK_TOKENS_MAX = 65536
};

static uint64_t blocks_of(uint64_t tokens, uint64_t block_tokens)
{
    return (tokens + block_tokens - 1) / block_tokens;
}

/* "256, 512", or what range there is between powers of two. */
static void list_candidates(uint64_t tokens, uint64_t count, char out[96])
{
    int used = 0;
    for (uint64_t block = 1; block <= BLOCK_TOKENS_MAX && used < 80; block *= 2) {
        if (blocks_of(tokens, block) == count)
            used += snprintf(out + used, (size_t)(96 - used), "%s%" PRIu64, used > 0 ? ", " : "",
                             block);
    }
    if (used > 0)
        return;
    uint64_t least = count > 0 ? blocks_of(tokens, count) : 0;
    if (least > 0 && blocks_of(tokens, least) == count)
        (void)snprintf(out, 96, "%" PRIu64 " (no power of two)", least);
    else
        (void)snprintf(out, 96, "none");
}

kvt_status kvt_trace_check_blocks(const cJSON *hash_ids, uint32_t input_tokens,
                                  uint32_t block_tokens, const struct kvt_trace_place *place,
                                  struct kvt_error *err)
{
    char where[256];
    if (!cJSON_IsArray(hash_ids)) {
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_PARSE, where, "hash_ids is a list of whole numbers");
    }
    uint64_t count = 0;
    for (const cJSON *id = hash_ids->child; id != NULL; id = id->next, count++) {
        if (!kvt_json_is_count(id)) {
            kvt_trace_where(place, where);
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "entry %" PRIu64 " of hash_ids is not a whole number from 0 to 2^53",
                            count);
        }
    }
    uint64_t expected = blocks_of(input_tokens, block_tokens);
    if (count == expected)
        return KVT_OK;
    char candidates[96];
    list_candidates(input_tokens, count, candidates);
    kvt_trace_where(place, where);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "%" PRIu64 " hash_ids for %" PRIu32 " input tokens, where blocks of %" PRIu32
                    " tokens make %" PRIu64 "; block sizes that would fit: %s",
                    count, input_tokens, block_tokens, expected, candidates);
}

kvt_status kvt_trace_block_keys(const cJSON *hash_ids, uint64_t scope, uint32_t input_tokens,
                                uint32_t block_tokens, struct kvt_page_keys *keys,
                                struct kvt_error *err)
{
    kvt_status status = kvt_page_keys_begin(keys, input_tokens, err);
    uint32_t left_tokens = input_tokens;
    for (const cJSON *id = hash_ids->child; status == KVT_OK && id != NULL; id = id->next) {
        uint32_t tokens = left_tokens < block_tokens ? left_tokens : block_tokens;
        uint64_t name = (uint64_t)id->valuedouble;
        if (scope != 0)
            name = kvt_chain64(scope, name);
        kvt_page_keys_run(keys, kvt_content(KVT_CONTENT_BLOCK, name), tokens);
        left_tokens -= tokens;
    }
    return status;
}
