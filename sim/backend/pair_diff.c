/* pair_diff.c -- where two backends part: the first call of a round that differs, its counts, the
 * first row of its misses that does, and the hot cache behind it.
 *
 *     for each selector, by layer; for each of its calls
 *         unequal? its counts side by side; where the lists of missed rows part, both rows, and of
 *         each: who selected it, whether it was in the tail or in a page, where it is now
 *     no call is unequal? the first store whose cache differs, and its first such slot */
#include <string.h>

#include "kvt/layout.h"
#include "pair_private.h"

/* The call in question, on both sides. */
struct call_pair {
    uint32_t selector, query, queries; /* those it resolves */
    struct kvt_resolve_result sides[PAIR_SIDES];
};

static const struct kvt_store *store_of(const struct backend_pair *pair, uint32_t selector)
{
    const struct kvt_llm *llm = pair->env.llm;
    return &llm->stores[llm->selectors[selector].store];
}

static uint32_t missed_count(const struct kvt_resolve_result *call)
{
    return call->missed ? call->filled_rows + call->staged_rows : 0;
}

/* ---- Counts ------------------------------------------------------------------------------ */

enum {
    CALL_COUNTS = 13
};

static void counts_of(const struct kvt_resolve_result *call, uint32_t counts[CALL_COUNTS])
{
    const uint32_t all[CALL_COUNTS] = {
        call->union_rows,       call->tail_rows,    call->page_rows,       call->hot_rows,
        call->filled_rows,      call->staged_rows,  call->selected,        call->tail_selected,
        call->page_selected,    call->hot_selected, call->missed_selected, call->promoted_rows,
        (uint32_t)call->skipped};
    memcpy(counts, all, sizeof all);
}

static const char *const count_names[CALL_COUNTS] = {
    "union",           "tail",     "page",          "hot",           "filled",
    "staged",          "selected", "tail selected", "page selected", "hot selected",
    "missed selected", "promoted", "skipped"};

static bool calls_differ(const struct kvt_resolve_result *a, const struct kvt_resolve_result *b)
{
    uint32_t first[CALL_COUNTS], second[CALL_COUNTS];

    counts_of(a, first);
    counts_of(b, second);
    if (memcmp(first, second, sizeof first) != 0 || a->placed_hash != b->placed_hash)
        return true;
    return missed_count(a) > 0 && missed_count(b) > 0 &&
           memcmp(a->missed, b->missed, missed_count(a) * sizeof *a->missed) != 0;
}

static void say_counts(const struct call_pair *call, struct pair_text *text)
{
    uint32_t first[CALL_COUNTS], second[CALL_COUNTS];

    counts_of(&call->sides[0], first);
    counts_of(&call->sides[1], second);
    pair_say(text, "  counts, first | second; * differs:\n ");
    for (int c = 0; c < CALL_COUNTS; c++)
        pair_say(text, "%s %s%s %u | %u",
                 c % 4 == 0 && c > 0 ? "\n "
                 : c > 0             ? ","
                                     : "",
                 first[c] != second[c] ? "* " : "", count_names[c], first[c], second[c]);
    pair_say(text, "\n  placed hash %016llx | %016llx\n",
             (unsigned long long)call->sides[0].placed_hash,
             (unsigned long long)call->sides[1].placed_hash);
}

/* ---- One row ------------------------------------------------------------------------------ */

/* Queries of the call that select the row, as " 0 3"; what a side cannot say is " ?". */
static void say_selected(struct backend_pair *pair, int side, uint32_t request,
                         const struct call_pair *call, uint32_t row, struct pair_text *text)
{
    struct kvt_backend *backend = pair->sides[side];
    bool is_selected = false;

    for (uint32_t q = call->query; q < call->query + call->queries; q++) {
        uint32_t count = 0;
        if (backend->ops->selection(backend, request, call->selector, q, pair->selected[side],
                                    &count, NULL) != KVT_OK) {
            pair_say(text, " ?");
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (pair->selected[side][i] != row)
                continue;
            pair_say(text, " %u", q);
            is_selected = true;
        }
    }
    if (!is_selected)
        pair_say(text, " no query");
}

static void say_missed(const struct kvt_resolve_result *call, uint32_t row, struct pair_text *text)
{
    for (uint32_t i = 0; i < missed_count(call); i++) {
        if (call->missed[i] == row) {
            pair_say(text, ", miss %u, %s", i, i < call->filled_rows ? "filled" : "staged");
            return;
        }
    }
    pair_say(text, ", not missed");
}

static void say_slot(struct backend_pair *pair, int side, uint32_t request, uint32_t store,
                     uint32_t row, struct pair_text *text)
{
    struct kvt_backend *backend = pair->sides[side];
    struct kvt_backend_cache cache;

    if (backend->ops->inspect_cache(backend, request, store, &cache, NULL) != KVT_OK) {
        pair_say(text, ", its cache cannot be read");
        return;
    }
    for (uint32_t s = 0; s < cache.slot_count; s++) {
        if (cache.rows[s] == row) {
            pair_say(text, ", now in slot %u of rank %u", s, cache.ranks[s]);
            return;
        }
    }
    pair_say(text, ", now in no slot");
}

static void say_row(struct backend_pair *pair, const struct kvt_step_item *item,
                    const struct call_pair *call, uint32_t row, struct pair_text *text)
{
    const struct kvt_store *store = store_of(pair, call->selector);
    uint32_t tail = kvt_tail_first_row(store, item->context_tokens, item->round->query_count);
    uint32_t page = row / (KVT_PAGE_ROWS / store->compress_ratio);
    bool is_ready = page < item->ready_pages && kvt_row_is_in(item->ready_bits, page);

    pair_say(text, "  row %u: %s (rows from %u on are), page %u %s\n", row,
             row >= tail ? "in the tail" : "not in the tail", tail, page,
             is_ready ? "in HBM" : "not in HBM");
    for (int side = 0; side < PAIR_SIDES; side++) {
        pair_say(text, "    %-6s selected by", side == 0 ? "first" : "second");
        say_selected(pair, side, item->request, call, row, text);
        say_missed(&call->sides[side], row, text);
        say_slot(pair, side, item->request, pair->env.llm->selectors[call->selector].store, row,
                 text);
        pair_say(text, "\n");
    }
}

/* Where the lists of missed rows part. */
static void say_first_miss(struct backend_pair *pair, const struct kvt_step_item *item,
                           const struct call_pair *call, struct pair_text *text)
{
    uint32_t counts[PAIR_SIDES] = {missed_count(&call->sides[0]), missed_count(&call->sides[1])};
    uint32_t most = counts[0] > counts[1] ? counts[0] : counts[1];

    for (uint32_t i = 0; i < most; i++) {
        uint32_t rows[PAIR_SIDES];
        for (int side = 0; side < PAIR_SIDES; side++)
            rows[side] = i < counts[side] ? call->sides[side].missed[i] : KVT_ROW_NONE;
        if (rows[0] == rows[1])
            continue;
        pair_say(text, "  misses part at number %u of %u | %u\n", i, counts[0], counts[1]);
        for (int side = 0; side < PAIR_SIDES; side++) {
            if (rows[side] != KVT_ROW_NONE)
                say_row(pair, item, call, rows[side], text);
        }
        return;
    }
    if (most > 0)
        pair_say(text, "  the same rows are missed, in the same order\n");
}

/* ---- A hot cache --------------------------------------------------------------------------- */

/* The first's is copied: both may answer with the same scratch of one kind of backend. */
static bool read_caches(struct backend_pair *pair, uint32_t request, uint32_t store,
                        struct kvt_backend_cache caches[PAIR_SIDES], struct pair_text *text)
{
    for (int side = 0; side < PAIR_SIDES; side++) {
        struct kvt_backend *backend = pair->sides[side];
        struct kvt_error err;
        if (backend->ops->inspect_cache(backend, request, store, &caches[side], &err) != KVT_OK) {
            pair_say(text, "  the cache of \"%s\" cannot be read: %s\n", backend->ops->info.name,
                     err.message);
            return false;
        }
        if (side == 0 && caches[0].slot_count > 0) {
            memcpy(pair->cache_rows, caches[0].rows,
                   caches[0].slot_count * sizeof *pair->cache_rows);
            memcpy(pair->cache_ranks, caches[0].ranks,
                   caches[0].slot_count * sizeof *pair->cache_ranks);
            caches[0].rows = pair->cache_rows;
            caches[0].ranks = pair->cache_ranks;
        }
    }
    return true;
}

static void say_held(const struct kvt_backend_cache *cache, uint32_t slot, struct pair_text *text)
{
    if (cache->rows[slot] == KVT_ROW_NONE)
        pair_say(text, "nothing");
    else
        pair_say(text, "row %u", cache->rows[slot]);
    pair_say(text, " of rank %u", cache->ranks[slot]);
}

static void say_cache(struct backend_pair *pair, uint32_t request, uint32_t store,
                      struct pair_text *text)
{
    struct kvt_backend_cache caches[PAIR_SIDES];

    if (!read_caches(pair, request, store, caches, text))
        return;
    pair_say(text, "  hot cache of store %u: state %016llx | %016llx, %u | %u slots\n", store,
             (unsigned long long)pair->hashes[0][store], (unsigned long long)pair->hashes[1][store],
             caches[0].slot_count, caches[1].slot_count);
    for (uint32_t s = 0; s < caches[0].slot_count && s < caches[1].slot_count; s++) {
        if (caches[0].rows[s] == caches[1].rows[s] &&
            (caches[0].ranks[s] == caches[1].ranks[s] || caches[0].rows[s] == KVT_ROW_NONE))
            continue;
        pair_say(text, "  first slot that differs: %u holds ", s);
        say_held(&caches[0], s, text);
        pair_say(text, " | ");
        say_held(&caches[1], s, text);
        pair_say(text, "\n");
        return;
    }
    pair_say(text, "  no slot differs: one side's hash is not of what it holds\n");
}

/* ---- The round --------------------------------------------------------------------------- */

/* The first call that is unequal. */
static bool find_call(struct backend_pair *pair, const struct kvt_step_item *item,
                      struct call_pair *call, struct pair_text *text)
{
    uint32_t queries = item->round->query_count;

    call->queries = pair->env.resolve_each_query ? 1 : queries;
    for (call->selector = 0; call->selector < pair->env.llm->selector_count; call->selector++) {
        for (call->query = 0; call->query < queries; call->query += call->queries) {
            for (int side = 0; side < PAIR_SIDES; side++) {
                struct kvt_backend *backend = pair->sides[side];
                struct kvt_error err;
                if (backend->ops->inspect_call(backend, item->request, call->selector, call->query,
                                               &call->sides[side], &err) == KVT_OK)
                    continue;
                pair_say(text, "the calls of \"%s\" cannot be read: %s\n", backend->ops->info.name,
                         err.message);
                return false;
            }
            if (calls_differ(&call->sides[0], &call->sides[1]))
                return true;
        }
    }
    return false;
}

void pair_describe_round(struct backend_pair *pair, const struct kvt_step_item *item,
                         const struct kvt_step_item *other, bool states_differ,
                         struct pair_text *text)
{
    const struct kvt_llm *llm = pair->env.llm;
    struct call_pair call;

    if (find_call(pair, item, &call, text)) {
        const struct kvt_selector *selector = &llm->selectors[call.selector];
        pair_say(text, "first call that differs: selector %u (layer %u, store %u), %s %u\n",
                 call.selector, selector->layer, selector->store,
                 call.queries == 1 ? "query" : "queries from", call.query);
        say_counts(&call, text);
        say_first_miss(pair, item, &call, text);
        if (pair->hashes[0][selector->store] != pair->hashes[1][selector->store])
            say_cache(pair, item->request, selector->store, text);
        return;
    }
    if (item->decisions != other->decisions)
        pair_say(text,
                 "every call can be read and is the same, but the chains of decisions differ: "
                 "%016llx | %016llx\n",
                 (unsigned long long)item->decisions, (unsigned long long)other->decisions);
    for (uint32_t s = 0; s < llm->store_count && states_differ; s++) {
        if (pair->hashes[0][s] == pair->hashes[1][s])
            continue;
        say_cache(pair, item->request, s, text);
        return;
    }
}
