/* mrc_rows.c -- one cache as textbooks have it, over a replacement policy's table.
 *
 *     for each row: where it is in a slot, the policy is told of a hit
 *                   else the policy gives up a slot, and the row takes it
 *
 * The same tables as in a run, whose calls here have one row: nothing is pinned but that row. */
#include <stdlib.h>
#include <string.h>

#include "mrc.h"

struct mrc_rows {
    const struct kvt_replacement_policy *policy;
    void *state;
    uint32_t slot_count, occupied_slots;
    uint32_t *slot_rows;   /* [slot_count] */
    kvt_slot *slot_of;     /* [rows_max] KVT_SLOT_NONE: it is not here */
    uint32_t *next_access; /* [slot_count] of the row there; NULL: nobody asks */
    uint32_t *next_use;    /* [slot_count] */
    uint64_t *hit_bits;    /* [(slot_count + 63) / 64] all zero between accesses */
    kvt_slot *scratch;     /* [slot_count] */
    enum kvt_cpu cpu;
};

void mrc_rows_free(struct mrc_rows *cache)
{
    if (cache == NULL)
        return;
    free(cache->state);
    free(cache->slot_rows);
    free(cache->slot_of);
    free(cache->next_access);
    free(cache->next_use);
    free(cache->hit_bits);
    free(cache->scratch);
    free(cache);
}

static bool allocate(struct mrc_rows *cache, size_t state_bytes, uint32_t rows_max,
                     bool sees_future)
{
    size_t slots = cache->slot_count;
    /* As the resolver's: whole cache lines. */
    cache->state = aligned_alloc(64, (state_bytes + 64) / 64 * 64);
    cache->slot_rows = malloc(slots * sizeof *cache->slot_rows);
    cache->slot_of = malloc(rows_max * sizeof *cache->slot_of);
    cache->hit_bits = calloc((slots + 63) / 64, sizeof *cache->hit_bits);
    cache->scratch = malloc(slots * sizeof *cache->scratch);
    if (sees_future) {
        cache->next_access = malloc(slots * sizeof *cache->next_access);
        cache->next_use = malloc(slots * sizeof *cache->next_use);
    }
    if (cache->state == NULL || cache->slot_rows == NULL || cache->slot_of == NULL ||
        cache->hit_bits == NULL || cache->scratch == NULL ||
        (sees_future && (cache->next_access == NULL || cache->next_use == NULL)))
        return false;
    memset(cache->state, 0, (state_bytes + 64) / 64 * 64);
    memset(cache->slot_rows, 0xff, slots * sizeof *cache->slot_rows);
    memset(cache->slot_of, 0xff, rows_max * sizeof *cache->slot_of);
    if (sees_future)
        memset(cache->next_access, 0xff, slots * sizeof *cache->next_access);
    return true;
}

kvt_status mrc_rows_new(const struct mrc_policy *policy, uint32_t slots,
                        const struct mrc_store *store, struct mrc_rows **out, struct kvt_error *err)
{
    struct kvt_replacement_env env = {.params = policy->params,
                                      .slot_count = slots,
                                      .top_k = store->top_k,
                                      .entity = store->entity,
                                      .run_seed = 1,
                                      .host = kvt_host(),
                                      .rows_max = store->rows_max,
                                      .rows_per_page = store->rows_per_page};
    struct mrc_rows *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return kvt_fail_nomem(err, "a cache of rows");
    cache->policy = policy->table;
    cache->slot_count = slots;
    cache->cpu = kvt_cpu_best();
    kvt_status status =
        allocate(cache, policy->table->state_bytes(&env), store->rows_max, policy->sees_future)
            ? KVT_PLUGIN_CALL(policy->table, init, err, cache->state, &env)
            : kvt_fail_nomem(err, "a cache of rows");
    if (status != KVT_OK) {
        mrc_rows_free(cache);
        return status;
    }
    *out = cache;
    return KVT_OK;
}

/* From the access in hand. */
static void look_ahead(struct mrc_rows *cache, uint32_t access)
{
    for (uint32_t slot = 0; slot < cache->slot_count; slot++) {
        uint32_t next = cache->next_access[slot];
        cache->next_use[slot] = next == UINT32_MAX ? KVT_CALL_NEVER : next - access;
    }
}

static void hit(struct mrc_rows *cache, struct kvt_replacement_call *call, kvt_slot slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64;
    cache->hit_bits[slot / 64] |= bit;
    if (cache->policy->wants_hit_order) {
        call->hit_slots = &slot;
        call->hit_count = 1;
    }
    cache->policy->on_resolved(cache->state, call, NULL, NULL, 0);
    cache->hit_bits[slot / 64] &= ~bit;
}

static kvt_status miss(struct mrc_rows *cache, struct kvt_replacement_call *call, uint32_t row,
                       kvt_slot *filled, struct kvt_error *err)
{
    kvt_slot slot = KVT_SLOT_NONE;
    call->missed_rows = &row;
    call->missed_count = 1;
    uint32_t chosen = cache->policy->choose_victims(cache->state, call, 1, &slot);
    /* Where it is taken though there are empty ones, rows have their part of the cache. */
    bool is_next = cache->occupied_slots == cache->slot_count || slot == cache->occupied_slots ||
                   (cache->policy->is_partitioned && slot < cache->occupied_slots);
    if (chosen != 1 || slot >= cache->slot_count || !is_next)
        return kvt_fail(err, KVT_ERR_POLICY, cache->policy->info.name,
                        "choose_victims returned %u slots, slot %u, for one miss in %u slots of "
                        "which %u are taken; contract: as many as are wanted, empty ones first",
                        chosen, slot, cache->slot_count, cache->occupied_slots);
    uint32_t evicted = cache->slot_rows[slot];
    if (evicted == KVT_ROW_NONE)
        cache->occupied_slots++;
    else
        cache->slot_of[evicted] = KVT_SLOT_NONE;
    cache->slot_rows[slot] = row;
    cache->slot_of[row] = slot;
    cache->policy->on_resolved(cache->state, call, &slot, &evicted, 1);
    *filled = slot;
    return KVT_OK;
}

kvt_status mrc_rows_take(struct mrc_rows *cache, const uint32_t *rows, uint32_t count,
                         uint64_t step, uint32_t access, const uint32_t *next_access,
                         uint64_t *missed, struct kvt_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        struct kvt_replacement_call call = {.hit_bits = cache->hit_bits,
                                            .slot_rows = cache->slot_rows,
                                            .step = step,
                                            .scratch = cache->scratch,
                                            .cpu = cache->cpu};
        kvt_slot slot = cache->slot_of[rows[i]];
        if (cache->next_access != NULL) {
            if (slot != KVT_SLOT_NONE)
                cache->next_access[slot] = next_access[i];
            look_ahead(cache, access + i);
            call.next_use = cache->next_use;
        }
        if (slot != KVT_SLOT_NONE) {
            hit(cache, &call, slot);
            continue;
        }
        ++*missed;
        kvt_status status = miss(cache, &call, rows[i], &slot, err);
        if (status != KVT_OK)
            return status;
        if (cache->next_access != NULL)
            cache->next_access[slot] = next_access[i];
    }
    return KVT_OK;
}
