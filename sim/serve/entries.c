/* entries.c -- the rank as a scheduling policy sees it, and what it takes to let somebody in.
 *
 *     of each of the first of the waiting: its prompt is looked up where the store has changed;
 *     what of it a request coming in will bring is looked for among those that begin alike
 *
 * Keys stand for all that came before, so that how much two prompts have in common is a search by
 * halves. */
#include "kvt/rank.h"
#include "rank_private.h"

/* Changes with every copy of a page that comes or goes; never 0. */
static uint64_t state_of_store(const struct kvt_rank *rank)
{
    const struct kvt_prefix_counters *counters = kvt_prefix_counters_of(rank->prefixes.store);
    uint64_t changes = 1;

    for (int h = 0; h < KVT_PREFIX_HOMES; h++)
        changes += counters->inserted_pages[h] + counters->reclaimed_pages[h];
    return changes;
}

static bool comes_in_whole(const struct kvt_rank *rank)
{
    return rank->needs.history_in_hbm || rank->needs.starts_whole;
}

static bool lacks_index(kvt_prefix_homes homes)
{
    return (homes & KVT_PREFIX_IN(KVT_PREFIX_INDEX_HBM)) == 0;
}

static bool lacks_rows(kvt_prefix_homes homes)
{
    return (homes & KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM)) == 0;
}

/* ---- What is there ------------------------------------------------------------------ */

/* Its own copy on host. */
static kvt_status see_aside(const struct kvt_rank *rank, const struct kvt_live *live,
                            struct kvt_scheduling_entry *seen, struct kvt_error *err)
{
    struct kvt_session_bytes bytes;
    uint32_t hot_tokens = comes_in_whole(rank) ? 0 : rank->hot_tokens;
    kvt_status status =
        kvt_rank_required(rank, live->aside_tokens, live->max_tokens, hot_tokens, &bytes, err);

    if (status != KVT_OK)
        return status;
    seen->load_bytes = bytes.hbm_by_class[KVT_MEM_INDEX] + bytes.hbm_by_class[KVT_MEM_PAYLOAD];
    seen->found_tokens = live->aside_tokens;
    seen->load_tokens = seen->load_bytes > 0 ? live->aside_tokens : 0;
    return KVT_OK;
}

/* Its prompt in the store. */
static void see_prefix(const struct kvt_rank *rank, struct kvt_live *live,
                       struct kvt_scheduling_entry *seen)
{
    struct kvt_shared *shared = &live->shared;
    uint32_t pages = rank_look_up(rank, shared, live->input_tokens, shared->homes);

    for (uint32_t i = 0; i < pages; i++) {
        bool index = lacks_index(shared->homes[i]);
        bool rows = comes_in_whole(rank) && lacks_rows(shared->homes[i]);
        seen->load_tokens += index || rows ? KVT_PAGE_ROWS : 0;
        seen->load_bytes += index ? rank->prefixes.page_bytes[KVT_PREFIX_INDEX_HBM] : 0;
        seen->load_bytes += rows ? rank->page_bytes : 0;
    }
    seen->found_tokens = pages * KVT_PAGE_ROWS;
    seen->context_key = pages > 0 ? shared->keys[pages - 1] : 0;
}

/* ---- What is coming ----------------------------------------------------------------- */

/* Whole pages that two prompts have in common. */
static uint32_t pages_in_common(const struct kvt_live *one, const struct kvt_live *other)
{
    const struct kvt_shared *a = &one->shared, *b = &other->shared;
    uint32_t most = kvt_prefix_pages_of(one->input_tokens);
    uint32_t whole = other->input_tokens / KVT_PAGE_ROWS;
    uint32_t known = a->key_count < b->key_count ? a->key_count : b->key_count;
    uint32_t common = 0;

    most = most < whole ? most : whole;
    most = most < known ? most : known;
    while (common < most) {
        uint32_t middle = common + (most - common) / 2;
        if (a->keys[middle] == b->keys[middle])
            common = middle + 1;
        else
            most = middle;
    }
    return common;
}

/* Tokens that are not found or not up yet, and will be with whoever begins most alike. Who comes in
 * leaves index rows in HBM, and payload where requests stay whole. */
static uint32_t tokens_in_flight(const struct kvt_rank *rank, const struct kvt_live *live)
{
    const struct kvt_shared *shared = &live->shared;
    uint32_t found = shared->seen.found_tokens / KVT_PAGE_ROWS, common = 0, pages = 0;

    for (uint32_t i = 0; i < rank->importing.count; i++) {
        uint32_t alike = pages_in_common(live, rank->importing.items[i]);
        common = alike > common ? alike : common;
    }
    for (uint32_t i = 0; i < common && i < found && shared->seen.load_tokens > 0; i++)
        pages += lacks_index(shared->homes[i]) ||
                 (rank->needs.history_in_hbm && lacks_rows(shared->homes[i]));
    return (pages + (common > found ? common - found : 0)) * KVT_PAGE_ROWS;
}

kvt_status rank_entry_of(const struct kvt_rank *rank, struct kvt_live *live,
                         struct kvt_scheduling_entry *entry, struct kvt_error *err)
{
    struct kvt_shared *shared = &live->shared;
    uint64_t state = state_of_store(rank);
    kvt_status status = KVT_OK;

    if (live->aside_tokens > 0 || shared->looked_up_at != state) {
        shared->seen = (struct kvt_scheduling_entry){0};
        shared->looked_up_at = live->aside_tokens > 0 ? 0 : state;
        if (live->aside_tokens > 0)
            status = see_aside(rank, live, &shared->seen, err);
        else
            see_prefix(rank, live, &shared->seen);
    }
    *entry = shared->seen;
    entry->new_tokens = kvt_live_context(live) - entry->found_tokens;
    entry->passed_by = live->passed_by;
    if (live->aside_tokens == 0)
        entry->in_flight_tokens = tokens_in_flight(rank, live);
    return status;
}

/* ---- The view ----------------------------------------------------------------------- */

static void count_coming_in(const struct kvt_rank *rank, struct kvt_scheduling_view *view)
{
    for (uint32_t i = 0; i < rank->importing.count; i++) {
        const struct kvt_live *live = rank->importing.items[i];
        bool begun = i < rank->imports_under_way && rank->env.prefills_here;
        view->coming_load_tokens += live->load_tokens;
        view->coming_new_tokens +=
            begun ? live->prefill_left : kvt_live_context(live) - rank_known_tokens(live);
    }
}

kvt_status rank_scheduling_view(struct kvt_rank *rank, kvt_ns now_ns,
                                struct kvt_scheduling_view *view, struct kvt_error *err)
{
    uint32_t count = rank->waiting.count;

    *view = (struct kvt_scheduling_view){
        .now_ns = now_ns,
        .last_step_ns = rank->last_step_ns,
        .last_fetch_ns = rank->last_fetch_ns,
        .last_step_requests = rank->last_step_requests,
        .running = rank->running.count,
        .coming_in = rank->importing.count + rank->arrived.count,
        .free_bytes = kvt_rank_free_bytes(rank),
        .h2d_backlog_bytes = kvt_link_backlog_bytes(&rank->h2d, now_ns),
        .d2h_backlog_bytes = kvt_link_backlog_bytes(&rank->d2h, now_ns)};
    if (!rank->scheduling->wants_entries)
        return KVT_OK;
    view->entries = rank->entries;
    view->entry_count = count < KVT_SCHEDULING_ENTRIES ? count : KVT_SCHEDULING_ENTRIES;
    count_coming_in(rank, view);
    for (uint32_t i = 0; i < view->entry_count; i++) {
        kvt_status status = rank_entry_of(rank, rank->waiting.items[i], &rank->entries[i], err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}
