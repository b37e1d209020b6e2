/* promotion.c -- staged rows that more queries select stay, in the slots of rows that fewer do.
 *
 *     staged by falling count (equal: in miss order) s[0], s[1] ..
 *     slots by rising count (equal: by slot)         v[0], v[1] ..
 *     while count(s[i]) > count(v[i]): the row s[i] takes the slot v[i]
 *
 * Counts are at most K, so that both orders come of a counting sort. */
#include "promotion.h"

#include "kvt/speculation.h"

static uint8_t queries_of(const struct kvt_resolve_call *call, uint32_t row)
{
    uint8_t count = 0;

    for (uint32_t query = 0; query < call->query_count; query++)
        count = (uint8_t)(count + kvt_row_is_in(call->selections[query], row));
    return count;
}

/* The indexes 0 .. count by rising key, equal keys by rising index. */
static void order_by_key(const uint8_t *keys, uint32_t count, uint32_t *ordered)
{
    uint32_t begin[KVT_QUERIES_MAX + 2] = {0}; /* of each key's indexes */

    for (uint32_t i = 0; i < count; i++)
        begin[keys[i] + 1]++;
    for (int key = 0; key < KVT_QUERIES_MAX; key++)
        begin[key + 1] += begin[key];
    for (uint32_t i = 0; i < count; i++)
        ordered[begin[keys[i]]++] = i;
}

/* Returns the row that goes. */
static uint32_t move_in(struct kvt_hot_cache *cache, uint32_t row, kvt_slot slot)
{
    uint32_t old = cache->slot_rows[slot];

    cache->hot_rows[old / 64] &= ~(UINT64_C(1) << old % 64);
    cache->hot_rows[row / 64] |= UINT64_C(1) << row % 64;
    cache->slot_rows[slot] = row;
    return old;
}

uint32_t kvt_promote_by_count(const struct promotion *promotion, struct kvt_hot_cache *cache,
                              const struct kvt_resolve_call *call, const uint32_t *staged,
                              uint32_t staged_count)
{
    uint32_t pairs = staged_count < cache->slot_count ? staged_count : cache->slot_count;
    uint32_t promoted = 0;

    for (uint32_t i = 0; i < staged_count; i++)
        promotion->staged_lacks[i] = (uint8_t)(call->query_count - queries_of(call, staged[i]));
    for (kvt_slot slot = 0; slot < cache->slot_count; slot++)
        promotion->slot_counts[slot] = queries_of(call, cache->slot_rows[slot]);
    order_by_key(promotion->staged_lacks, staged_count, promotion->rows);
    order_by_key(promotion->slot_counts, cache->slot_count, promotion->slots);
    for (; promoted < pairs; promoted++) {
        uint32_t index = promotion->rows[promoted];
        kvt_slot slot = promotion->slots[promoted];
        if (call->query_count - promotion->staged_lacks[index] <= promotion->slot_counts[slot])
            break;
        promotion->rows[promoted] = staged[index];
        promotion->evicted[promoted] = move_in(cache, staged[index], slot);
    }
    return promoted;
}
