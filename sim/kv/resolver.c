/* resolver.c -- one call: which selected rows are in HBM, which are fetched, and where to.
 *
 *     look     query by query, 64 rows a word: what is resident, what is in the hot
 *              cache, what is missed; a query's new misses are listed
 *     hit      one pass over the slots: those hit whose row is looked up; put in the union's
 *              order for a policy that wants it
 *     replace  victims from the policy, checked; rows into slots; the policy learns of
 *              it; misses left over are staged
 *     promote  where asked for: staged rows take slots of rows that fewer queries select; the
 *              policy learns of it
 *
 * Turned round from the GPU's kernels, which hash the selection and probe it with the
 * slots (SGLang's hisparse swap-in, vLLM's hisparse_resolve_residency): sets are joined
 * and cut, and a set of the rows in the hot cache, kept with it, tells misses without a
 * look at the slots. docs/resolver.md says what was measured. */
#include <string.h>

#include "hot_cache.h"
#include "kvt/hash.h"
#include "promotion.h"
#include "resolver_passes.h"

struct kvt_resolver {
    struct kvt_arena *arena; /* holds this struct and its arrays */
    const struct resolver_passes *passes;
    enum kvt_cpu cpu;
    uint32_t rows_max, slots_max, union_max;
    uint64_t *looked_up;    /* set */
    size_t looked_up_words; /* those of looked_up from here on are zero */
    struct misses misses;
    uint64_t *hit_bits;  /* [(slots_max + 63) / 64] */
    uint64_t *hit_rows;  /* set: those not yet in hit_slots */
    kvt_slot *hit_slots; /* [slots_max + MISS_SLACK] */
    kvt_slot *slot_of;   /* [rows_max] of rows that hit */
    uint8_t *taken;      /* [slots_max rounded up to 64, and 64 more] */
    uint32_t *missed;    /* [union_max] */
    kvt_slot *victims;   /* [slots_max] */
    uint32_t *evicted;   /* [slots_max] */
    kvt_slot *scratch;   /* [slots_max] lent to policies; ranks for the state hash */
    struct promotion promotion;
};

/* ---- Memory ---------------------------------------------------------------- */

enum {
    CACHE_LINE_BYTES = 64
};

/* Selections of all queries of a call are counted in 32 bits. */
#define RESOLVER_ROWS_MAX (UINT32_MAX / KVT_QUERIES_MAX)

static void *array_new(struct kvt_arena *arena, uint64_t count, size_t size_bytes)
{
    return kvt_arena_array(arena, (size_t)count, size_bytes, CACHE_LINE_BYTES);
}

static bool fill_arrays(struct kvt_resolver *resolver)
{
    struct kvt_arena *arena = resolver->arena;
    size_t row_words = kvt_row_words(resolver->rows_max);
    size_t stride = row_words + MISS_SLACK;
    size_t slot_words = ((size_t)resolver->slots_max + 63) / 64;
    struct promotion *promotion = &resolver->promotion;

    resolver->looked_up = array_new(arena, row_words, sizeof(uint64_t));
    resolver->misses.stride = stride;
    resolver->misses.words = array_new(arena, stride * KVT_QUERIES_MAX, sizeof(uint64_t));
    resolver->misses.at = array_new(arena, stride * KVT_QUERIES_MAX, sizeof(uint32_t));
    resolver->hit_bits = array_new(arena, slot_words, sizeof(uint64_t));
    resolver->hit_rows = array_new(arena, row_words, sizeof(uint64_t));
    resolver->hit_slots =
        array_new(arena, (uint64_t)resolver->slots_max + MISS_SLACK, sizeof(kvt_slot));
    resolver->slot_of = array_new(arena, resolver->rows_max, sizeof(kvt_slot));
    resolver->taken = array_new(arena, (slot_words + 1) * 64, sizeof(uint8_t));
    resolver->missed =
        array_new(arena, (uint64_t)resolver->union_max + MISS_SLACK, sizeof(uint32_t));
    resolver->victims = array_new(arena, resolver->slots_max, sizeof(kvt_slot));
    resolver->evicted = array_new(arena, resolver->slots_max, sizeof(uint32_t));
    resolver->scratch = array_new(arena, resolver->slots_max, sizeof(kvt_slot));
    promotion->staged_lacks = array_new(arena, resolver->union_max, sizeof(uint8_t));
    promotion->slot_counts = array_new(arena, resolver->slots_max, sizeof(uint8_t));
    promotion->rows = array_new(arena, resolver->union_max, sizeof(uint32_t));
    promotion->slots = array_new(arena, resolver->slots_max, sizeof(kvt_slot));
    promotion->evicted = array_new(arena, resolver->slots_max, sizeof(uint32_t));
    return resolver->looked_up != NULL && resolver->misses.words != NULL &&
           resolver->misses.at != NULL && resolver->hit_bits != NULL &&
           resolver->hit_rows != NULL && resolver->hit_slots != NULL && resolver->slot_of != NULL &&
           resolver->taken != NULL && resolver->missed != NULL && resolver->victims != NULL &&
           resolver->evicted != NULL && resolver->scratch != NULL &&
           promotion->staged_lacks != NULL && promotion->slot_counts != NULL &&
           promotion->rows != NULL && promotion->slots != NULL && promotion->evicted != NULL;
}

kvt_status kvt_resolver_new(uint32_t rows_max, uint32_t slots_max, uint32_t union_max,
                            struct kvt_resolver **out, struct kvt_error *err)
{
    if (rows_max == 0 || rows_max > RESOLVER_ROWS_MAX || slots_max == 0 || union_max == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "resolver",
                        "cannot be made for %u rows, %u slots and unions of %u rows; rows are 1 to "
                        "%u, the others at least 1",
                        rows_max, slots_max, union_max, RESOLVER_ROWS_MAX);
    struct kvt_arena *arena = kvt_arena_new(0);
    if (arena == NULL)
        return kvt_fail_nomem(err, "a resolver");
    struct kvt_resolver *resolver = array_new(arena, 1, sizeof *resolver);
    if (resolver != NULL)
        *resolver = (struct kvt_resolver){
            .arena = arena, .rows_max = rows_max, .slots_max = slots_max, .union_max = union_max};
    if (resolver == NULL || !fill_arrays(resolver)) {
        kvt_arena_free(arena);
        return kvt_fail_nomem(err, "a resolver");
    }
    resolver->cpu = kvt_cpu_best();
    resolver->passes = kvt_resolver_passes(resolver->cpu);
    *out = resolver;
    return KVT_OK;
}

void kvt_resolver_free(struct kvt_resolver *resolver)
{
    if (resolver != NULL)
        kvt_arena_free(resolver->arena);
}

bool kvt_resolver_set_cpu(struct kvt_resolver *resolver, enum kvt_cpu cpu)
{
    if (cpu > kvt_cpu_best())
        return false;
    resolver->cpu = cpu;
    resolver->passes = kvt_resolver_passes(cpu);
    return true;
}

/* ---- The call as given ------------------------------------------------------ */

static const char call_place[] = "resolve call";

/* The set has whole words: its last one may go past the rows that exist. */
static kvt_status check_selection(const struct kvt_resolve_call *call, uint32_t query,
                                  struct kvt_error *err)
{
    uint32_t last = call->visible_rows / 64;
    if (call->visible_rows % 64 == 0)
        return KVT_OK;
    uint64_t past = call->selections[query][last] >> call->visible_rows % 64;
    if (past == 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, call_place,
                    "query %u selects row %u of a context of %u rows", query,
                    call->visible_rows + (uint32_t)__builtin_ctzll(past), call->visible_rows);
}

static kvt_status check_call(const struct kvt_resolver *resolver, const struct kvt_hot_cache *cache,
                             const struct kvt_resolve_call *call, struct kvt_error *err)
{
    if (cache->slot_count > resolver->slots_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the hot cache has %u slots; this resolver takes at most %u",
                        cache->slot_count, resolver->slots_max);
    if (cache->rows_max > resolver->rows_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the hot cache is for %u rows; this resolver takes at most %u",
                        cache->rows_max, resolver->rows_max);
    if (call->visible_rows > cache->rows_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the context has %u rows; this hot cache is for at most %u",
                        call->visible_rows, cache->rows_max);
    if (call->query_count == 0 || call->query_count > KVT_QUERIES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, call_place, "it has %u queries; 1 to %d are possible",
                        call->query_count, KVT_QUERIES_MAX);
    if (call->promotion != KVT_PROMOTE_NONE && call->promotion != KVT_PROMOTE_BY_COUNT)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "promotion %d is neither none (%d) nor by count (%d)", (int)call->promotion,
                        KVT_PROMOTE_NONE, KVT_PROMOTE_BY_COUNT);
    for (uint32_t query = 0; query < call->query_count; query++) {
        kvt_status status = check_selection(call, query, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- Look ------------------------------------------------------------------- */

static uint32_t count_bits(uint64_t word)
{
    return (uint32_t)__builtin_popcountll(word);
}

static uint32_t history_rows(const struct kvt_resolve_call *call)
{
    return call->tail_first_row < call->visible_rows ? call->tail_first_row : call->visible_rows;
}

/* Rows of the tail are the rest of the word in which it begins, and the words after it. */
static void count_tail(const struct kvt_resolve_call *call, struct kvt_resolve_result *result)
{
    uint32_t first_row = history_rows(call);
    uint64_t rows = UINT64_MAX << first_row % 64;

    for (size_t w = first_row / 64; w < kvt_row_words(call->visible_rows); w++) {
        uint64_t joined = 0;
        for (uint32_t query = 0; query < call->query_count; query++) {
            uint64_t selected = call->selections[query][w] & rows;
            result->tail_selected += count_bits(selected);
            joined |= selected;
        }
        result->tail_rows += count_bits(joined);
        rows = UINT64_MAX;
    }
}

static struct history history_of(struct kvt_resolver *resolver, const struct kvt_hot_cache *cache,
                                 const struct kvt_resolve_call *call)
{
    uint32_t rows = history_rows(call);
    size_t words = kvt_row_words(rows);

    /* Slots may hold rows past this history only if the caller took rows back; then they
     * are not looked up. */
    if (words < resolver->looked_up_words)
        memset(resolver->looked_up + words, 0,
               (resolver->looked_up_words - words) * sizeof(uint64_t));
    resolver->looked_up_words = words;
    return (struct history){
        .words = words,
        .last_rows = rows % 64 == 0 ? UINT64_MAX : ~(UINT64_MAX << rows % 64),
        .selections = call->selections,
        .query_count = call->query_count,
        .page_rows = call->page_rows,
        .hot_rows = cache->hot_rows,
        .looked_up = resolver->looked_up,
    };
}

/* Lists the misses in the union's order and counts everything but fills and staged rows:
 * staged_rows holds all misses. Refuses a union that the scratch has no room for. */
static kvt_status look(struct kvt_resolver *resolver, const struct kvt_hot_cache *cache,
                       const struct kvt_resolve_call *call, struct kvt_resolve_result *result,
                       struct kvt_error *err)
{
    const struct resolver_passes *passes = resolver->passes;
    struct history history = history_of(resolver, cache, call);
    struct row_counts selections, rows;

    passes->look(&history, &selections, &rows, &resolver->misses);
    count_tail(call, result);
    result->union_rows = result->tail_rows + rows.selected;
    result->page_rows = rows.page;
    result->hot_rows = rows.selected - rows.page - rows.missed;
    result->staged_rows = rows.missed;
    result->selected = result->tail_selected + selections.selected;
    result->page_selected = selections.page;
    result->hot_selected = selections.selected - selections.page - selections.missed;
    result->missed_selected = selections.missed;
    if (result->union_rows > resolver->union_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "its union has %u rows; this resolver takes at most %u", result->union_rows,
                        resolver->union_max);
    uint32_t listed = 0;
    for (uint32_t query = 0; query < call->query_count; query++)
        listed += passes->list(&resolver->misses, query, resolver->missed + listed);
    return KVT_OK;
}

/* ---- Hit --------------------------------------------------------------------- */

static void find_hits(const struct kvt_resolver *resolver, const struct kvt_hot_cache *cache)
{
    size_t slot_words = ((size_t)cache->slot_count + 63) / 64;
    /* Empty slots do not hit: only words past the occupied slots need to be cleared. */
    size_t seen_words = ((size_t)cache->occupied_slots + 63) / 64;

    resolver->passes->find_hits(resolver->looked_up, cache->slot_rows, cache->occupied_slots,
                                resolver->hit_bits);
    memset(resolver->hit_bits + seen_words, 0, (slot_words - seen_words) * sizeof(uint64_t));
}

/* Rows that hit, which are in the hot cache and looked up, are listed as misses are: by the first
 * query that selects them, a query's in ascending order. Then each row's slot is put for it. The
 * misses have been listed by now, and lend their room for words. */
static void order_hits(const struct kvt_resolver *resolver, const struct kvt_hot_cache *cache,
                       const struct kvt_resolve_call *call, uint32_t hit_count)
{
    kvt_slot *slot_of = resolver->slot_of;
    uint64_t *hit_rows = resolver->hit_rows;
    uint32_t listed = 0;

    for (size_t w = 0; w < ((size_t)cache->slot_count + 63) / 64; w++) {
        for (uint64_t left = resolver->hit_bits[w]; left != 0; left &= left - 1) {
            kvt_slot slot = (kvt_slot)(64 * w) + (kvt_slot)__builtin_ctzll(left);
            slot_of[cache->slot_rows[slot]] = slot;
        }
    }
    for (size_t w = 0; w < resolver->looked_up_words; w++)
        hit_rows[w] = resolver->looked_up[w] & cache->hot_rows[w];
    struct misses found = resolver->misses;
    for (uint32_t query = 0; query < call->query_count && listed < hit_count; query++) {
        const uint64_t *selection = call->selections[query];
        uint32_t count = 0;
        for (size_t w = 0; w < resolver->looked_up_words; w++) {
            uint64_t newly = hit_rows[w] & selection[w];
            hit_rows[w] ^= newly;
            found.words[count] = newly;
            found.at[count] = (uint32_t)w;
            count += newly != 0;
        }
        found.counts[0] = count;
        listed += resolver->passes->list(&found, 0, resolver->hit_slots + listed);
    }
    for (uint32_t i = 0; i < listed; i++)
        resolver->hit_slots[i] = slot_of[resolver->hit_slots[i]];
}

/* ---- Replace ----------------------------------------------------------------- */

static kvt_status broken(const struct kvt_hot_cache *cache, struct kvt_error *err, kvt_slot slot,
                         const char *found, const char *contract)
{
    return kvt_fail(err, KVT_ERR_POLICY, cache->replacement->info.name,
                    "choose_victims returned slot %u, %s; contract: %s", slot, found, contract);
}

/* The first of the victims that is out of range, read, or there twice: there is one. */
static kvt_status name_victim(const struct kvt_resolver *resolver,
                              const struct kvt_hot_cache *cache, uint32_t count,
                              struct kvt_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        kvt_slot slot = resolver->victims[i];
        if (slot >= cache->slot_count)
            return broken(cache, err, slot, "which this cache does not have",
                          "a victim is a slot of this cache");
        if ((resolver->hit_bits[slot / 64] >> slot % 64 & 1) != 0)
            return broken(cache, err, slot, "whose row a query of this call reads",
                          "a slot that hit is never a victim");
        for (uint32_t before = 0; before < i; before++) {
            if (resolver->victims[before] == slot)
                return broken(cache, err, slot, "which it had returned before",
                              "no slot is a victim twice in one call");
        }
    }
    return kvt_fail(err, KVT_ERR_INTERNAL, cache->replacement->info.name,
                    "its %u victims were found wrong, but none of them is", count);
}

/* While there are empty slots, victim i is the i-th of them; of parts those that are given up
 * are. */
static kvt_status check_empty_first(const struct kvt_resolver *resolver,
                                    const struct kvt_hot_cache *cache, uint32_t count,
                                    struct kvt_error *err)
{
    bool is_partitioned = cache->replacement->is_partitioned;
    kvt_slot next = cache->occupied_slots;

    for (uint32_t i = 0; i < count && next < cache->slot_count; i++) {
        kvt_slot slot = resolver->victims[i];
        if (is_partitioned && slot < cache->occupied_slots)
            continue;
        if (slot != next++)
            return broken(cache, err, slot, "while an empty one that goes before it was left",
                          is_partitioned ? "of empty slots the lowest goes first"
                                         : "empty slots go first, lowest slot first");
    }
    return KVT_OK;
}

/* The first missed rows go into the victims' slots. All looked-up rows are then in the hot
 * cache but those staged. */
static void fill(const struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                 const struct kvt_resolve_result *result)
{
    const uint32_t *staged = resolver->missed + result->filled_rows;
    uint64_t *hot_rows = cache->hot_rows;

    resolver->passes->join(hot_rows, resolver->looked_up, resolver->looked_up_words);
    for (uint32_t i = 0; i < result->staged_rows; i++)
        hot_rows[staged[i] / 64] &= ~(UINT64_C(1) << staged[i] % 64);
    for (uint32_t i = 0; i < result->filled_rows; i++) {
        kvt_slot slot = resolver->victims[i];
        uint32_t old = cache->slot_rows[slot];
        resolver->evicted[i] = old;
        cache->slot_rows[slot] = resolver->missed[i];
        if (old == KVT_ROW_NONE)
            cache->occupied_slots++;
        else
            hot_rows[old / 64] &= ~(UINT64_C(1) << old % 64);
    }
}

/* Asks the policy for slots, checks its answer, and fills them. */
static kvt_status replace(const struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                          const struct kvt_replacement_call *view,
                          const struct kvt_resolve_result *result, struct kvt_error *err)
{
    const struct kvt_replacement_policy *policy = cache->replacement;
    uint32_t want = result->filled_rows, chosen = 0;

    if (want > 0)
        chosen = policy->choose_victims(cache->state, view, want, resolver->victims);
    if (chosen != want)
        return kvt_fail(err, KVT_ERR_POLICY, policy->info.name,
                        "choose_victims returned %u slots for %u misses that could have them; "
                        "contract: as many as are wanted and did not hit",
                        chosen, want);
    if (!resolver->passes->are_victims(resolver->victims, want, resolver->hit_bits,
                                       cache->slot_count, resolver->taken))
        return name_victim(resolver, cache, want, err);
    kvt_status status = check_empty_first(resolver, cache, want, err);
    if (status != KVT_OK)
        return status;
    fill(resolver, cache, result);
    policy->on_resolved(cache->state, view, resolver->victims, resolver->evicted, want);
    return KVT_OK;
}

/* Staged rows that stay. */
static void promote(const struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                    const struct kvt_resolve_call *call, const struct kvt_replacement_call *view,
                    struct kvt_resolve_result *result)
{
    const struct kvt_replacement_policy *policy = cache->replacement;
    const struct promotion *promotion = &resolver->promotion;

    result->promoted_rows = kvt_promote_by_count(
        promotion, cache, call, result->missed + result->filled_rows, result->staged_rows);
    if (result->promoted_rows > 0 && policy->on_promoted)
        policy->on_promoted(cache->state, view, promotion->slots, promotion->rows,
                            promotion->evicted, result->promoted_rows);
}

/* Steps 3 to 5 of the call, whose misses are listed. */
static kvt_status hit_and_replace(const struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                                  const struct kvt_resolve_call *call,
                                  struct kvt_resolve_result *result, struct kvt_error *err)
{
    uint32_t missed_rows = result->staged_rows;
    uint32_t free_slots = cache->slot_count - result->hot_rows;

    find_hits(resolver, cache);
    result->filled_rows = missed_rows < free_slots ? missed_rows : free_slots;
    result->staged_rows = missed_rows - result->filled_rows;
    struct kvt_replacement_call view = {
        .hit_bits = resolver->hit_bits,
        .slot_rows = cache->slot_rows,
        .missed_rows = resolver->missed,
        .missed_count = missed_rows,
        .step = call->step,
        .next_use = call->next_use,
        .scratch = resolver->scratch,
        .cpu = resolver->cpu,
    };
    if (cache->replacement->wants_hit_order) {
        order_hits(resolver, cache, call, result->hot_rows);
        view.hit_slots = resolver->hit_slots;
        view.hit_count = result->hot_rows;
    }
    kvt_status status = replace(resolver, cache, &view, result, err);
    if (status == KVT_OK && result->staged_rows > 0 && call->promotion == KVT_PROMOTE_BY_COUNT)
        promote(resolver, cache, call, &view, result);
    return status;
}

kvt_status kvt_resolve(struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                       const struct kvt_resolve_call *call, struct kvt_resolve_result *result,
                       struct kvt_error *err)
{
    struct kvt_resolve_result found = {
        .missed = resolver->missed,
        .fills = resolver->victims,
        .evicted = resolver->evicted,
        .promoted = resolver->promotion.rows,
        .promoted_slots = resolver->promotion.slots,
    };

    kvt_status status = check_call(resolver, cache, call, err);
    if (status == KVT_OK)
        status = look(resolver, cache, call, &found, err);
    if (status != KVT_OK)
        return status;
    found.skipped = found.hot_rows + found.staged_rows == 0;
    if (!found.skipped)
        status = hit_and_replace(resolver, cache, call, &found, err);
    if (status != KVT_OK)
        return status;
    const struct resolver_passes *passes = resolver->passes;
    found.placed_hash =
        passes->sum_placed(found.fills, found.missed, found.filled_rows) +
        passes->sum_placed(found.promoted_slots, found.promoted, found.promoted_rows);
    *result = found;
    return KVT_OK;
}

uint64_t kvt_hot_cache_state_hash(struct kvt_resolver *resolver, const struct kvt_hot_cache *cache)
{
    uint32_t *ranks = resolver->scratch;
    uint64_t sum = 0;

    kvt_hot_cache_ranks(cache, ranks);
    for (kvt_slot slot = 0; slot < cache->occupied_slots; slot++)
        sum += kvt_chain64((uint64_t)slot << 32 | cache->slot_rows[slot], ranks[slot]);
    return sum;
}
