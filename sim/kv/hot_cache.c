/* hot_cache.c -- the slots of one (request, store), and what can be asked about them. */
#include "hot_cache.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* Where the policy's state begins in the block: aligned for anything. */
static size_t state_offset(uint32_t slot_count)
{
    size_t rows_end =
        sizeof(struct kvt_hot_cache) + (size_t)slot_count * sizeof(uint32_t); /* 2^34 at most */
    size_t alignment = alignof(max_align_t);
    return (rows_end + alignment - 1) / alignment * alignment;
}

kvt_status kvt_hot_cache_new(const struct kvt_replacement_policy *replacement,
                             const struct kvt_replacement_env *env, struct kvt_hot_cache **out,
                             struct kvt_error *err)
{
    if (env->slot_count == 0 || env->slot_count == KVT_SLOT_NONE)
        return kvt_fail(err, KVT_ERR_INVALID, "hot cache", "%u slots are not possible; 1 to %u are",
                        env->slot_count, KVT_SLOT_NONE - 1);
    size_t offset = state_offset(env->slot_count);
    size_t state_bytes = replacement->state_bytes(env);
    if (state_bytes > SIZE_MAX - offset)
        return kvt_fail_nomem(err, "a hot cache");
    struct kvt_hot_cache *cache = calloc(1, offset + state_bytes);
    if (cache == NULL)
        return kvt_fail_nomem(err, "a hot cache");
    cache->replacement = replacement;
    cache->state = (unsigned char *)cache + offset;
    cache->block_bytes = offset + state_bytes;
    cache->slot_count = env->slot_count;
    memset(cache->slot_rows, 0xff, (size_t)env->slot_count * sizeof(uint32_t));
    kvt_status status = replacement->init(cache->state, env, err);
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

size_t kvt_hot_cache_bytes(const struct kvt_hot_cache *cache)
{
    return cache->block_bytes;
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
