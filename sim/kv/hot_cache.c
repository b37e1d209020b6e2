/* hot_cache.c -- the slots of one (request, store), and what can be asked about them. */
#include "hot_cache.h"

#include <stdlib.h>
#include <string.h>

enum {
    CACHE_LINE_BYTES = 64
};

/* Bytes so far, filled up to whole cache lines: at most 2^36 for the largest cache. */
static size_t whole_lines(size_t bytes)
{
    return (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
}

kvt_status kvt_hot_cache_new(const struct kvt_replacement_policy *replacement,
                             const struct kvt_replacement_env *env, uint32_t rows_max,
                             struct kvt_hot_cache **out, struct kvt_error *err)
{
    struct kvt_replacement_env whole = *env;

    if (env->slot_count == 0 || env->slot_count == KVT_SLOT_NONE || rows_max == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "hot cache",
                        "%u slots for a store of %u rows are not possible; 1 to %u slots and at "
                        "least 1 row are",
                        env->slot_count, rows_max, KVT_SLOT_NONE - 1);
    whole.rows_max = rows_max;
    if (whole.rows_per_page == 0)
        whole.rows_per_page = KVT_PAGE_ROWS;
    size_t set_offset = whole_lines(sizeof(struct kvt_hot_cache));
    size_t rows_offset = whole_lines(set_offset + kvt_row_words(rows_max) * sizeof(uint64_t));
    size_t state_offset = whole_lines(rows_offset + (size_t)env->slot_count * sizeof(uint32_t));
    size_t state_bytes = replacement->state_bytes(&whole);
    if (state_bytes > SIZE_MAX - state_offset - CACHE_LINE_BYTES)
        return kvt_fail_nomem(err, "a hot cache");
    size_t block_bytes = whole_lines(state_offset + state_bytes);
    unsigned char *block = aligned_alloc(CACHE_LINE_BYTES, block_bytes);
    if (block == NULL)
        return kvt_fail_nomem(err, "a hot cache");
    memset(block, 0, block_bytes);
    struct kvt_hot_cache *cache = (struct kvt_hot_cache *)block;
    *cache = (struct kvt_hot_cache){
        .replacement = replacement,
        .hot_rows = (uint64_t *)(block + set_offset),
        .slot_rows = (uint32_t *)(block + rows_offset),
        .state = block + state_offset,
        .rows_max = rows_max,
        .slot_count = env->slot_count,
    };
    memset(cache->slot_rows, 0xff, (size_t)env->slot_count * sizeof(uint32_t));
    kvt_status status = KVT_PLUGIN_CALL(replacement, init, err, cache->state, &whole);
    if (status != KVT_OK) {
        free(cache);
        return status;
    }
    *out = cache;
    return KVT_OK;
}

void kvt_hot_cache_free(struct kvt_hot_cache *cache)
{
    free(cache);
}

uint32_t kvt_hot_cache_slot_count(const struct kvt_hot_cache *cache)
{
    return cache->slot_count;
}

const uint32_t *kvt_hot_cache_rows(const struct kvt_hot_cache *cache)
{
    return cache->slot_rows;
}

void kvt_hot_cache_ranks(const struct kvt_hot_cache *cache, uint32_t *ranks)
{
    cache->replacement->ranks(cache->state, ranks);
}
