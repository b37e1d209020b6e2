/* admission.c -- who comes in at a boundary, and with what.
 *
 *     the scheduling policy names the next one, the residency policy may say no;
 *     it holds what the prefix store has of its prompt; what else it must have is taken at once, in
 *     HBM and host DRAM, or nothing;
 *     who does not fit lets go again and blocks those behind it */
#include "kvt/rank.h"
#include "live_list.h"
#include "rank_private.h"
#include "wait_queue.h"

static enum kvt_backup_rule backup_rule(const struct kvt_residency_needs *needs)
{
    if (!needs->host_backing)
        return KVT_BACKUP_NEVER;
    return needs->deferred_backup ? KVT_BACKUP_LATER : KVT_BACKUP_AT_ONCE;
}

static kvt_status hot_cost(const struct kvt_rank *rank, const struct kvt_live *live,
                           uint64_t *bytes, struct kvt_error *err)
{
    struct kvt_session_bytes required;

    *bytes = 0;
    if (rank->needs.history_in_hbm)
        return KVT_OK;
    kvt_status status = kvt_rank_required(rank, kvt_live_context(live), live->max_tokens,
                                          rank->hot_tokens, &required, err);
    if (status == KVT_OK)
        *bytes = required.hbm_by_class[KVT_MEM_HOT] + required.hbm_by_class[KVT_MEM_TAIL] +
                 required.hbm_by_class[KVT_MEM_STAGING];
    return status;
}

/* A request about to be admitted, and what it takes. */
struct entry {
    uint32_t at; /* in the queue */
    uint32_t hot_tokens;
    uint64_t bytes[KVT_MEM_CLASSES];
    uint64_t host_bytes;
    bool could_fit; /* were everything given up that can be */
};

/* From its first admission on, as the policy wants it: what is known outlives being put aside. */
static kvt_status watch_pages(const struct kvt_rank *rank, struct kvt_live *live,
                              struct kvt_error *err)
{
    const struct kvt_residency_policy *policy = rank->residency;
    uint64_t last = (uint64_t)live->input_tokens + live->output_tokens + rank->env.queries_max;

    if (live->watch.page_count > 0 ||
        (!policy->wants_page_hits && !policy->wants_page_scores && !policy->wants_page_future))
        return KVT_OK;
    return kvt_page_watch_init(&live->watch, (uint32_t)((last + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS),
                               policy->wants_page_hits, policy->wants_page_scores,
                               policy->wants_page_future, err);
}

static kvt_status admit(struct kvt_rank *rank, const struct entry *entry, struct kvt_error *err)
{
    struct kvt_live *live = rank->waiting.items[entry->at];
    uint32_t context = kvt_live_context(live);
    uint32_t last = live->input_tokens + live->output_tokens;
    kvt_status status = live_list_insert(&rank->importing, rank->importing.count, live, err);

    if (status == KVT_OK)
        status = hot_cost(rank, live, &live->hot_cost_bytes, err);
    if (status == KVT_OK)
        status = kvt_pages_init(&live->pages, context, last, rank->env.queries_max,
                                entry->hot_tokens == 0, backup_rule(&rank->needs), err);
    if (status == KVT_OK)
        status = watch_pages(rank, live, err);
    if (status != KVT_OK)
        return status;
    live->hot_tokens = entry->hot_tokens;
    live->next_hot_tokens = 0;
    /* What it has grown by comes out of the reserve again. */
    bool grown = live->generated_tokens > 0;
    if (!kvt_rank_memory_take(&rank->memory, &live->holding, entry->bytes, entry->host_bytes,
                              grown))
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
    for (uint32_t i = 0; i < entry->at; i++)
        rank->waiting.items[i]->passed_by++;
    live->passed_by = 0;
    wait_queue_remove_at(&rank->waiting, entry->at);
    rank_decide(rank, DECIDE_ADMIT, live->id, rank->env.index, context);
    rank_use_prefix(rank, live);
    if (!live->was_admitted) {
        rank->counters.admitted++;
        rank->counters.admitted_input_tokens += live->input_tokens;
    } else {
        rank->counters.reprefill_tokens += context - rank_known_index_tokens(live);
    }
    live->was_admitted = true;
    return KVT_OK;
}

/* Whether the request fits: whole where the policy starts so and HBM has that much free, else
 * with a hot cache, for which pages of others make room. */
static kvt_status try_entry(const struct boundary *boundary, struct entry *entry, bool *fits,
                            struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    struct kvt_live *live = rank->waiting.items[entry->at];
    uint32_t context = kvt_live_context(live);
    bool grown = live->generated_tokens > 0;
    kvt_status status = KVT_OK;

    *fits = false;
    if (rank->needs.starts_whole) {
        entry->hot_tokens = 0;
        status = rank_missing_bytes(rank, live, context, 0, entry->bytes, &entry->host_bytes, err);
        if (status != KVT_OK)
            return status;
        rank_make_host_room(boundary, entry->host_bytes, live);
        *fits = rank_displace_idle(rank, entry->bytes, entry->host_bytes, grown);
        if (*fits)
            return KVT_OK;
        entry->could_fit = rank_could_make_room(rank, entry->bytes, entry->host_bytes, grown);
    }
    if (!rank->needs.history_in_hbm)
        rank_let_go_of_rows(rank, live);
    entry->hot_tokens = rank->hot_tokens;
    status = rank_missing_bytes(rank, live, context, entry->hot_tokens, entry->bytes,
                                &entry->host_bytes, err);
    if (status != KVT_OK)
        return status;
    rank_make_host_room(boundary, entry->host_bytes, live);
    entry->could_fit |= rank_could_make_room(rank, entry->bytes, entry->host_bytes, grown);
    return rank_reclaim(boundary, entry->bytes, entry->host_bytes, grown, fits, err);
}

/* ---- Who was refused ---------------------------------------------------------------- */

static uint64_t inserted_pages(const struct kvt_rank *rank)
{
    const struct kvt_prefix_counters *counters = kvt_prefix_counters_of(rank->prefixes.store);
    uint64_t pages = 0;

    for (int h = 0; h < KVT_PREFIX_HOMES; h++)
        pages += counters->inserted_pages[h];
    return pages;
}

static uint64_t reserve_left(const struct kvt_rank *rank)
{
    return rank->memory.reserve_bytes - rank->memory.reserve_used;
}

/* Nothing could make the room: not before there could be more of it, or more is found. Host DRAM is
 * the node's, of which other ranks give up what this one does not know of. */
static void note_refused(struct kvt_rank *rank, const struct kvt_live *live)
{
    rank->refused = (struct kvt_refused){
        .live = live,
        .available_bytes = {rank_available_bytes(rank, 0), rank_available_bytes(rank, 1)},
        .reserve_bytes = reserve_left(rank),
        .inserted_pages = inserted_pages(rank)};
}

/* Pools and reserve each by itself: the reserve is no room for who comes in for the first time. */
static bool is_refused_again(const struct kvt_rank *rank, const struct kvt_live *live)
{
    const struct kvt_refused *refused = &rank->refused;

    return refused->live == live && inserted_pages(rank) == refused->inserted_pages &&
           rank_available_bytes(rank, 0) <= refused->available_bytes[0] &&
           rank_available_bytes(rank, 1) <= refused->available_bytes[1] &&
           reserve_left(rank) <= refused->reserve_bytes;
}

/* ---- One after another -------------------------------------------------------------- */

/* Prefill elsewhere has computed what was not found as it began; the rest must be found now. */
static bool has_lost_pages(const struct kvt_live *live)
{
    return rank_known_index_tokens(live) / KVT_PAGE_ROWS < live->counted_pages;
}

/* The next one comes in with what it finds, goes back to be prefilled, or is as it was. */
static kvt_status admit_next(const struct boundary *boundary, struct entry *entry, bool *goes_on,
                             struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    struct kvt_live *live = rank->waiting.items[entry->at];

    *goes_on = false;
    if (is_refused_again(rank, live))
        return KVT_OK;
    rank->refused.live = NULL;
    rank_adopt_prefix(rank, live);
    if (has_lost_pages(live)) {
        rank_let_go(rank, live);
        wait_queue_remove_at(&rank->waiting, entry->at);
        *goes_on = true;
        return boundary->hooks->prefill_again(boundary->hooks->context, live, err);
    }
    kvt_status status = try_entry(boundary, entry, goes_on, err);
    if (status == KVT_OK && *goes_on) {
        live->counted_pages = 0; /* from here on it holds them */
        return admit(rank, entry, err);
    }
    /* What was put aside goes on holding its copies. */
    if (live->aside_tokens == 0)
        rank_let_go(rank, live);
    if (status != KVT_OK)
        return status;
    rank->host_short = kvt_rank_memory_host_is_short(&rank->memory, entry->host_bytes);
    if (!entry->could_fit && !rank->host_short)
        note_refused(rank, live);
    /* Nobody here will ever give host DRAM back: its own copy goes too. */
    if (rank->host_short && live->aside_tokens > 0 &&
        rank->running.count + rank->arrived.count + rank->importing.count == 0)
        rank_drop_copy(rank, live);
    return KVT_OK;
}

/* The scheduling policy's next one, or as many as wait for nobody. */
static kvt_status name_next(const struct boundary *boundary, uint32_t *at, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    const struct kvt_scheduling_policy *policy = rank->scheduling;
    const struct kvt_wait_queue *waiting = &rank->waiting;
    bool sees_rank = kvt_scheduling_sees_rank(policy);
    struct kvt_scheduling_view view;
    struct kvt_scheduling_entry entry;
    kvt_status status = KVT_OK;

    if (sees_rank)
        status = rank_scheduling_view(rank, boundary->now_ns, &view, err);
    if (status != KVT_OK)
        return status;
    *at = policy->next(rank->scheduling_state, sees_rank ? &view : NULL, waiting->views,
                       waiting->count);
    if (*at >= waiting->count || !policy->wants_entries)
        return KVT_OK;
    status = rank_entry_of(rank, waiting->items[*at], &entry, err);
    waiting->items[*at]->load_tokens = entry.load_tokens;
    return status;
}

kvt_status rank_admit_all(const struct boundary *boundary, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = KVT_OK;
    bool goes_on = true;

    rank->host_short = false;
    while (status == KVT_OK && goes_on && rank->waiting.count > 0 && !rank->admission_held) {
        struct entry entry = {0};
        status = name_next(boundary, &entry.at, err);
        if (status != KVT_OK)
            return status;
        if (entry.at >= rank->waiting.count)
            return rank_check_pick(rank, "next", entry.at, rank->waiting.count, err);
        const struct kvt_live *live = rank->waiting.items[entry.at];
        if (rank->residency->admit) {
            struct kvt_residency_view view;
            status = rank_view(rank, boundary->now_ns, &view, err);
            if (status != KVT_OK ||
                !rank->residency->admit(rank->residency_state, &view, live->input_tokens))
                return status;
        }
        status = admit_next(boundary, &entry, &goes_on, err);
    }
    return status;
}
