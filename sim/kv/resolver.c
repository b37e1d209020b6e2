/* resolver.c -- one call: which selected rows are in HBM, which are fetched, and where to.
 *
 *     gather   the union: what is resident (tail, ready page) is counted, the
 *              rest is listed in the union's order and marked
 *     look up  walk the slots; where a slot's row is marked, the slot hits and
 *              the mark goes
 *     miss     walk the list; a mark that is still there is a miss, is listed,
 *              and goes
 *     replace  victims from the policy, checked; rows into slots; the policy
 *              learns of it; misses left over are staged
 *
 * Turned round from the GPU's kernels, which hash the selection and probe it with
 * the slots (SGLang's hisparse swap-in, vLLM's hisparse_resolve_residency): one
 * byte per row of context stays in L2, needs no probing, and is zero again when
 * the call ends. The work grows with selections and slots, not with the context.
 * A bit per row would stay in L1, but taking marks away is then a read, a change
 * and a write of words that neighbours share: measured, a quarter slower. */
#include <string.h>

#include "hot_cache.h"
#include "kvt/hash.h"
#include <stdlib.h>

struct old_call {
    uint64_t step;
    uint32_t visible_rows, tail_first_row;
    const uint64_t *page_rows;
    uint32_t query_count;
    const uint32_t *const *selections;
    const uint32_t *selection_counts;
};
/* What a call knows of a row. */
enum mark {
    UNSELECTED = 0,
    LOOKED_UP = 1,
    RESIDENT = 2
};

struct kvt_resolver {
    struct kvt_arena *arena; /* holds this struct and its arrays */
    uint32_t rows_max, slots_max, union_max;
    uint8_t *marks;       /* [rows_max + 1] enum mark of each row; zero between calls, and
                           * at rows_max always */
    uint64_t *hit_bits;   /* [(slots_max + 63) / 64] */
    uint64_t *taken_bits; /* [(slots_max + 63) / 64] hits and victims so far */
    uint32_t *lookups;    /* [union_max + 1] rows to look up, in the union's order; the last
                           * is written, never read */
    uint32_t *missed;     /* [union_max + 1] likewise */
    kvt_slot *victims;    /* [slots_max] */
    uint32_t *evicted;    /* [slots_max] */
    kvt_slot *scratch;    /* [slots_max] lent to policies; ranks for the state hash */
};

/* ---- Memory ---------------------------------------------------------------- */

enum {
    CACHE_LINE_BYTES = 64,
    RESOLVER_ROWS_MAX = INT32_MAX /* is_ascending() compares by the sign of a difference */
};

static void *array_new(struct kvt_arena *arena, uint64_t count, size_t size_bytes)
{
    return kvt_arena_array(arena, (size_t)count, size_bytes, CACHE_LINE_BYTES);
}

static bool fill_arrays(struct kvt_resolver *resolver)
{
    struct kvt_arena *arena = resolver->arena;
    uint64_t slot_words = ((uint64_t)resolver->slots_max + 63) / 64;

    resolver->marks = array_new(arena, (uint64_t)resolver->rows_max + 1, sizeof(uint8_t));
    resolver->hit_bits = array_new(arena, slot_words, sizeof(uint64_t));
    resolver->taken_bits = array_new(arena, slot_words, sizeof(uint64_t));
    resolver->lookups = array_new(arena, (uint64_t)resolver->union_max + 1, sizeof(uint32_t));
    resolver->missed = array_new(arena, (uint64_t)resolver->union_max + 1, sizeof(uint32_t));
    resolver->victims = array_new(arena, resolver->slots_max, sizeof(kvt_slot));
    resolver->evicted = array_new(arena, resolver->slots_max, sizeof(uint32_t));
    resolver->scratch = array_new(arena, resolver->slots_max, sizeof(kvt_slot));
    return resolver->marks != NULL && resolver->hit_bits != NULL && resolver->taken_bits != NULL &&
           resolver->lookups != NULL && resolver->missed != NULL && resolver->victims != NULL &&
           resolver->evicted != NULL && resolver->scratch != NULL;
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
    *out = resolver;
    return KVT_OK;
}

void kvt_resolver_free(struct kvt_resolver *resolver)
{
    if (resolver != NULL)
        kvt_arena_free(resolver->arena);
}

/* ---- The call as given ------------------------------------------------------ */

static const char call_place[] = "resolve call";

/* Below 2^31 a row is less than the next where their difference has its top bit set:
 * so the check is a subtraction and an AND, in blocks of a fixed length, which the
 * compiler turns into vector code. */
static bool is_ascending(const uint32_t *rows, uint32_t count)
{
    enum {
        BLOCK = 32
    };
    uint32_t all_less = UINT32_MAX, any = rows[0], i = 1;
    for (; i + BLOCK <= count; i += BLOCK) {
        const uint32_t *block = rows + i;
        for (int j = 0; j < BLOCK; j++) {
            all_less &= block[j - 1] - block[j];
            any |= block[j];
        }
    }
    for (; i < count; i++) {
        all_less &= rows[i - 1] - rows[i];
        any |= rows[i];
    }
    return (all_less & ~any) >> 31;
}

/* Marks are set by row: a row past the end would be marked past the end. */
static kvt_status check_selection(const struct old_call *call, uint32_t query,
                                  struct kvt_error *err)
{
    const uint32_t *rows = call->selections[query];
    uint32_t count = call->selection_counts[query];

    if (count == 0)
        return KVT_OK;
    if (!is_ascending(rows, count))
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the selection of query %u is not in strictly ascending row order", query);
    if (rows[count - 1] >= call->visible_rows)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "query %u selects row %u of a context of %u rows", query, rows[count - 1],
                        call->visible_rows);
    return KVT_OK;
}

static kvt_status check_call(const struct kvt_resolver *resolver, const struct kvt_hot_cache *cache,
                             const struct old_call *call, struct kvt_error *err)
{
    uint64_t selected = 0;

    if (cache->slot_count > resolver->slots_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the hot cache has %u slots; this resolver takes at most %u",
                        cache->slot_count, resolver->slots_max);
    if (call->visible_rows > resolver->rows_max)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "the context has %u rows; this resolver takes at most %u",
                        call->visible_rows, resolver->rows_max);
    if (call->query_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, call_place, "there is no query; K is at least 1");
    for (uint32_t query = 0; query < call->query_count; query++) {
        kvt_status status = check_selection(call, query, err);
        if (status != KVT_OK)
            return status;
        selected += call->selection_counts[query];
    }
    if (selected > UINT32_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, call_place,
                        "its queries select more rows than %u in all", UINT32_MAX);
    return KVT_OK;
}

/* ---- Gather ----------------------------------------------------------------- */

/* Index of the first row at or past limit; rows ascend. */
static uint32_t lower_bound(const uint32_t *rows, uint32_t count, uint64_t limit)
{
    uint32_t begin = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        bool is_before = rows[begin + half] < limit;
        begin = is_before ? begin + half + 1 : begin;
        count = is_before ? count - half - 1 : half;
    }
    return begin;
}

/* An ascending selection falls into three runs: rows whose page may be ready,
 * rows past the last page that may be, rows of the tail. */
struct runs {
    uint32_t paged_end, history_end, count;
};

static struct runs runs_of(const struct old_call *call, uint32_t query)
{
    const uint32_t *rows = call->selections[query];
    uint32_t count = call->selection_counts[query];
    uint64_t paged_rows = call->page_rows == NULL ? 0 : call->visible_rows;
    uint32_t history_end = lower_bound(rows, count, call->tail_first_row);

    return (struct runs){
        .paged_end = paged_rows == 0 ? 0 : lower_bound(rows, history_end, paged_rows),
        .history_end = history_end,
        .count = count,
    };
}

/* Appends to lookups those of rows[0 .. count) whose page is not ready; returns how
 * many. Every row is written, one to look up moves the end: no branch to mispredict. */
static uint32_t list_unready(const struct old_call *call, const uint32_t *restrict rows,
                             uint32_t count, uint32_t *restrict lookups)
{
    const uint64_t *ready_bits = call->page_rows;
    uint32_t listed = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t page = rows[i];
        lookups[listed] = rows[i];
        listed += (uint32_t)(~(ready_bits[page / 64] >> page % 64) & 1);
    }
    return listed;
}

/* One query: the selection is the union, and only rows to look up need a mark. */
static uint32_t gather_one(const struct kvt_resolver *resolver, const struct old_call *call,
                           struct kvt_resolve_result *result)
{
    const uint32_t *rows = call->selections[0];
    uint8_t *restrict marks = resolver->marks;
    uint32_t *restrict lookups = resolver->lookups;
    struct runs runs = runs_of(call, 0);
    uint32_t listed = list_unready(call, rows, runs.paged_end, lookups);
    uint32_t unpaged = runs.history_end - runs.paged_end;

    result->page_rows = result->page_selected = runs.paged_end - listed;
    result->tail_rows = result->tail_selected = runs.count - runs.history_end;
    result->union_rows = result->selected = runs.count;
    memcpy(lookups + listed, rows + runs.paged_end, unpaged * sizeof *rows);
    listed += unpaged;
    for (uint32_t i = 0; i < listed; i++)
        marks[lookups[i]] = LOOKED_UP;
    return listed;
}

/* Marks one row of several queries' union; returns whether it is new to it. */
static uint32_t mark_new(uint8_t *marks, uint32_t row, enum mark as)
{
    uint32_t is_new = marks[row] == UNSELECTED;
    marks[row] = (uint8_t)as;
    return is_new;
}

static bool is_ready(const struct old_call *call, uint32_t row)
{
    return kvt_row_is_in(call->page_rows, row);
}

/* Several queries: a row counts once however many select it, so that every row of
 * the union has its mark until all of them have been seen. Lists at most union_max
 * rows; a longer union is for the caller to refuse. */
static uint32_t gather_many(const struct kvt_resolver *resolver, const struct old_call *call,
                            struct kvt_resolve_result *result)
{
    uint8_t *marks = resolver->marks;
    uint32_t listed = 0;

    for (uint32_t query = 0; query < call->query_count; query++) {
        const uint32_t *rows = call->selections[query];
        struct runs runs = runs_of(call, query);

        for (uint32_t i = 0; i < runs.history_end; i++) {
            bool resident = i < runs.paged_end && is_ready(call, rows[i]);
            uint32_t is_new = mark_new(marks, rows[i], resident ? RESIDENT : LOOKED_UP);
            result->page_rows += is_new && resident;
            result->page_selected += resident;
            resolver->lookups[listed < resolver->union_max ? listed : resolver->union_max] =
                rows[i];
            listed += is_new && !resident;
        }
        for (uint32_t i = runs.history_end; i < runs.count; i++)
            result->tail_rows += mark_new(marks, rows[i], RESIDENT);
        result->tail_selected += runs.count - runs.history_end;
        result->selected += runs.count;
    }
    result->union_rows = listed + result->page_rows + result->tail_rows;
    return listed;
}

/* Keeps, of the marks of all selected rows, only those equal to kept. */
static void unmark(uint8_t *restrict marks, const struct old_call *call, enum mark kept)
{
    for (uint32_t query = 0; query < call->query_count; query++) {
        const uint32_t *restrict rows = call->selections[query];
        for (uint32_t i = 0; i < call->selection_counts[query]; i++)
            marks[rows[i]] &= (uint8_t)kept;
    }
}

/* ---- Look up, miss ----------------------------------------------------------- */

/* Fills hit_bits and takes the marks of the rows found. Empty slots, and rows
 * past rows_max if there were any, read the mark of rows_max, which no row has. */
static void look_up(const struct kvt_resolver *resolver, const struct kvt_hot_cache *cache)
{
    uint8_t *restrict marks = resolver->marks;
    const uint32_t *restrict slot_rows = cache->slot_rows;
    uint64_t *restrict hit_bits = resolver->hit_bits;
    const uint32_t rows_max = resolver->rows_max;

    memset(hit_bits, 0, ((size_t)cache->slot_count + 63) / 64 * sizeof *hit_bits);
    for (uint32_t first = 0; first < cache->used_slots; first += 64) {
        uint32_t left = cache->used_slots - first;
        uint32_t width = left < 64 ? left : 64;
        uint64_t hits = 0;

        for (uint32_t i = 0; i < width; i++) {
            uint32_t row = slot_rows[first + i] < rows_max ? slot_rows[first + i] : rows_max;
            hits |= (uint64_t)marks[row] << i;
            marks[row] = UNSELECTED;
        }
        hit_bits[first / 64] = hits;
    }
}

/* How many selections, with multiplicity, have a mark left. */
static uint32_t count_marked(const uint8_t *marks, const struct old_call *call)
{
    uint32_t marked = 0;
    for (uint32_t query = 0; query < call->query_count; query++) {
        const uint32_t *rows = call->selections[query];
        uint32_t history_end = runs_of(call, query).history_end;
        for (uint32_t i = 0; i < history_end; i++)
            marked += marks[rows[i]];
    }
    return marked;
}

/* Lists the lookups that still have their mark, in order, and takes it. */
static uint32_t list_missed(const struct kvt_resolver *resolver, uint32_t lookup_rows)
{
    uint8_t *restrict marks = resolver->marks;
    const uint32_t *restrict lookups = resolver->lookups;
    uint32_t *restrict missed = resolver->missed;
    uint32_t missed_rows = 0;

    for (uint32_t i = 0; i < lookup_rows; i++) {
        missed[missed_rows] = lookups[i];
        missed_rows += marks[lookups[i]];
        marks[lookups[i]] = UNSELECTED;
    }
    return missed_rows;
}

/* ---- Replace ----------------------------------------------------------------- */

static kvt_status broken(const struct kvt_hot_cache *cache, struct kvt_error *err, kvt_slot slot,
                         const char *found, const char *contract)
{
    return kvt_fail(err, KVT_ERR_POLICY, cache->replacement->info.name,
                    "choose_victims returned slot %u, %s; contract: %s", slot, found, contract);
}

/* Victims are in range, not read and distinct. */
static kvt_status check_distinct(const struct kvt_resolver *resolver,
                                 const struct kvt_hot_cache *cache, uint32_t count,
                                 struct kvt_error *err)
{
    uint64_t *taken_bits = resolver->taken_bits;

    memcpy(taken_bits, resolver->hit_bits, ((size_t)cache->slot_count + 63) / 64 * 8);
    for (uint32_t i = 0; i < count; i++) {
        kvt_slot slot = resolver->victims[i];
        if (slot >= cache->slot_count)
            return broken(cache, err, slot, "which this cache does not have",
                          "a victim is a slot of this cache");
        uint64_t bit = UINT64_C(1) << slot % 64;
        if ((resolver->hit_bits[slot / 64] & bit) != 0)
            return broken(cache, err, slot, "whose row a query of this call reads",
                          "a slot that hit is never a victim");
        if ((taken_bits[slot / 64] & bit) != 0)
            return broken(cache, err, slot, "which it had returned before",
                          "no slot is a victim twice in one call");
        taken_bits[slot / 64] |= bit;
    }
    return KVT_OK;
}

/* While there are empty slots, victim i is the i-th of them. */
static kvt_status check_empty_first(const struct kvt_resolver *resolver,
                                    const struct kvt_hot_cache *cache, uint32_t count,
                                    struct kvt_error *err)
{
    uint32_t empty_slots = cache->slot_count - cache->occupied_slots;
    kvt_slot next = 0;

    for (uint32_t i = 0; i < count && i < empty_slots; i++, next++) {
        while (cache->slot_rows[next] != KVT_SLOT_NONE)
            next++;
        if (resolver->victims[i] != next)
            return broken(cache, err, resolver->victims[i],
                          "while an empty one that goes before it was left",
                          "empty slots go first, lowest slot first");
    }
    return KVT_OK;
}

/* Asks the policy for slots, checks its answer, and puts the first missed rows
 * into them. */
static kvt_status replace(const struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                          const struct kvt_replacement_call *view, uint32_t want,
                          struct kvt_error *err)
{
    const struct kvt_replacement_policy *policy = cache->replacement;
    uint32_t chosen = 0;

    if (want > 0)
        chosen = policy->choose_victims(cache->state, view, want, resolver->victims);
    if (chosen != want)
        return kvt_fail(err, KVT_ERR_POLICY, policy->info.name,
                        "choose_victims returned %u slots for %u misses that could have them; "
                        "contract: as many as are wanted and did not hit",
                        chosen, want);
    kvt_status status = check_distinct(resolver, cache, want, err);
    if (status == KVT_OK)
        status = check_empty_first(resolver, cache, want, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < want; i++) {
        kvt_slot slot = resolver->victims[i];
        resolver->evicted[i] = cache->slot_rows[slot];
        cache->slot_rows[slot] = view->missed_rows[i];
        cache->occupied_slots += resolver->evicted[i] == KVT_SLOT_NONE;
        cache->used_slots = slot < cache->used_slots ? cache->used_slots : slot + 1;
    }
    policy->on_resolved(cache->state, view, resolver->victims, resolver->evicted, want);
    return KVT_OK;
}

/* Steps 3 to 5 of the call, for lookup_rows marked rows. */
static kvt_status look_up_and_replace(const struct kvt_resolver *resolver,
                                      struct kvt_hot_cache *cache, const struct old_call *call,
                                      uint32_t lookup_rows, struct kvt_resolve_result *result,
                                      struct kvt_error *err)
{
    look_up(resolver, cache);
    if (call->query_count > 1)
        result->missed_selected = count_marked(resolver->marks, call);
    uint32_t missed_rows = list_missed(resolver, lookup_rows);
    if (call->query_count == 1)
        result->missed_selected = missed_rows;
    result->hot_rows = lookup_rows - missed_rows;
    result->hot_selected =
        result->selected - result->tail_selected - result->page_selected - result->missed_selected;

    uint32_t free_slots = cache->slot_count - result->hot_rows;
    result->filled_rows = missed_rows < free_slots ? missed_rows : free_slots;
    result->staged_rows = missed_rows - result->filled_rows;
    struct kvt_replacement_call view = {
        .hit_bits = resolver->hit_bits,
        .slot_rows = cache->slot_rows,
        .missed_rows = resolver->missed,
        .missed_count = missed_rows,
        .step = call->step,
        .scratch = resolver->scratch,
    };
    return replace(resolver, cache, &view, result->filled_rows, err);
}

static kvt_status union_too_long(const struct kvt_resolver *resolver, uint32_t rows,
                                 struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, call_place,
                    "its union has %u rows; this resolver takes at most %u", rows,
                    resolver->union_max);
}

static kvt_status old_resolve(struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                              const struct old_call *call, struct kvt_resolve_result *result,
                              struct kvt_error *err)
{
    struct kvt_resolve_result found = {
        .missed = resolver->missed, .fills = resolver->victims, .evicted = resolver->evicted};

    kvt_status status = check_call(resolver, cache, call, err);
    if (status != KVT_OK)
        return status;
    bool alone = call->query_count == 1;
    if (alone && call->selection_counts[0] > resolver->union_max)
        return union_too_long(resolver, call->selection_counts[0], err);
    uint32_t lookup_rows =
        alone ? gather_one(resolver, call, &found) : gather_many(resolver, call, &found);
    if (found.union_rows > resolver->union_max) {
        unmark(resolver->marks, call, UNSELECTED);
        return union_too_long(resolver, found.union_rows, err);
    }
    if (!alone)
        unmark(resolver->marks, call, LOOKED_UP);
    found.skipped = lookup_rows == 0;
    if (!found.skipped)
        status = look_up_and_replace(resolver, cache, call, lookup_rows, &found, err);
    if (status == KVT_OK)
        *result = found;
    return status;
}

kvt_status kvt_resolve(struct kvt_resolver *resolver, struct kvt_hot_cache *cache,
                       const struct kvt_resolve_call *call, struct kvt_resolve_result *result,
                       struct kvt_error *err)
{
    uint32_t *lists[64];
    uint32_t counts[64];
    size_t words = kvt_row_words(call->visible_rows);
    for (uint32_t q = 0; q < call->query_count; q++) {
        counts[q] = kvt_row_set_count(call->selections[q], words);
        lists[q] = malloc(4 * (counts[q] + 1));
        kvt_row_set_list(call->selections[q], words, lists[q]);
    }
    struct old_call old = {call->step,      call->visible_rows, call->tail_first_row,
                           call->page_rows, call->query_count,  (const uint32_t *const *)lists,
                           counts};
    kvt_status status = old_resolve(resolver, cache, &old, result, err);
    for (uint32_t q = 0; q < call->query_count; q++)
        free(lists[q]);
    return status;
}

uint64_t kvt_hot_cache_state_hash(struct kvt_resolver *resolver, const struct kvt_hot_cache *cache)
{
    uint32_t *ranks = resolver->scratch;
    uint64_t sum = 0;

    kvt_hot_cache_ranks(cache, ranks);
    for (kvt_slot slot = 0; slot < cache->slot_count; slot++) {
        uint32_t row = cache->slot_rows[slot];
        if (row != KVT_SLOT_NONE)
            sum += kvt_chain64((uint64_t)slot << 32 | row, ranks[slot]);
    }
    return sum;
}
