/* farthest.c -- what policies share that are told when rows are selected next. */
#include "farthest.h"

#include <string.h>

kvt_status farthest_check(const struct kvt_replacement_env *env, const char *where,
                          struct kvt_error *err)
{
    if (env->params.values[0].number == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "clairvoyant is false, and it goes by nothing but the calls to come; true, "
                        "or another policy, is expected");
    return KVT_OK;
}

uint32_t farthest_take_empty(const struct kvt_replacement_call *call, uint32_t slot_count,
                             uint32_t want, kvt_slot *victims)
{
    uint32_t chosen = 0;

    for (kvt_slot slot = 0; slot < slot_count && chosen < want; slot++) {
        if (call->slot_rows[slot] == KVT_ROW_NONE)
            victims[chosen++] = slot;
    }
    return chosen;
}

uint32_t farthest_candidates(const struct kvt_replacement_call *call, uint32_t slot_count,
                             kvt_slot *slots)
{
    uint32_t count = 0;

    for (kvt_slot slot = 0; slot < slot_count; slot++) {
        bool hit = call->hit_bits[slot / 64] >> slot % 64 & 1;
        if (!hit && call->slot_rows[slot] != KVT_ROW_NONE)
            slots[count++] = slot;
    }
    return count;
}

/* Falls as the key rises, from 0 for what never comes on. */
static uint32_t nearness(uint32_t key, uint32_t most)
{
    return key == KVT_CALL_NEVER ? 0 : 1 + most - key;
}

/* A radix sort, a byte at a time: calls to come are few, so that one pass is the rule. */
void farthest_first(kvt_slot *slots, uint32_t count, const uint32_t *keys, kvt_slot *spare)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = keys[slots[i]];
        most = key != KVT_CALL_NEVER && key > most ? key : most;
    }
    for (uint32_t shift = 0; shift < 32 && (most + 1) >> shift != 0; shift += 8) {
        uint32_t begins[257] = {0};
        for (uint32_t i = 0; i < count; i++)
            begins[(nearness(keys[slots[i]], most) >> shift & 255) + 1]++;
        for (uint32_t byte = 0; byte < 256; byte++)
            begins[byte + 1] += begins[byte];
        for (uint32_t i = 0; i < count; i++)
            spare[begins[nearness(keys[slots[i]], most) >> shift & 255]++] = slots[i];
        memcpy(slots, spare, count * sizeof *slots);
    }
}

void farthest_ranks(uint32_t slot_count, uint32_t *ranks)
{
    for (kvt_slot slot = 0; slot < slot_count; slot++)
        ranks[slot] = slot;
}
