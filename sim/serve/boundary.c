/* boundary.c -- what a rank does between two steps.
 *
 *     1  transfers that have ended take effect: pages become ready or backed
 *     2  imported requests join the batch; hot caches that are due are given
 *     3  every running request gets room for another round: from the reserve, then the
 *        pool, then by releasing optional pages, then by putting requests aside; and
 *        rows that the round pushes out of its tail get another home
 *     4  waiting requests are admitted while everything they must have fits
 *     5  the residency policy moves what is optional */
#include <stdlib.h>

#include "kvt/rank.h"
#include "live_list.h"
#include "rank_private.h"

static kvt_status list_candidates(struct kvt_rank *rank, const struct kvt_live_list *list,
                                  struct kvt_error *err)
{
    if (list->count > rank->candidate_capacity) {
        size_t capacity = 2 * (size_t)list->count;
        struct kvt_scheduling_request *candidates =
            realloc(rank->candidates, capacity * sizeof *candidates);
        if (!candidates)
            return kvt_fail_nomem(err, "a scheduler's view");
        rank->candidates = candidates;
        rank->candidate_capacity = (uint32_t)capacity;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct kvt_live *live = list->items[i];
        rank->candidates[i] =
            (struct kvt_scheduling_request){.id = live->id,
                                            .arrival_ns = live->arrival_ns,
                                            .input_tokens = live->input_tokens,
                                            .generated_tokens = live->generated_tokens,
                                            .priority = live->priority};
    }
    return KVT_OK;
}

/* How many more bytes of each class a request must hold with `tokens` rows and a hot cache of
 * hot_tokens. Pages beside a hot cache are nothing that it must hold. */
static kvt_status missing_bytes(const struct kvt_rank *rank, const struct kvt_live *live,
                                uint32_t tokens, uint32_t hot_tokens,
                                uint64_t missing[KVT_MEM_CLASSES], uint64_t *host_bytes,
                                struct kvt_error *err)
{
    struct kvt_session_bytes required;
    kvt_status status =
        kvt_rank_required(rank, tokens, live->max_tokens, hot_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        uint64_t held = rank_held_bytes(live, (enum kvt_mem_class)c) + live->shared.bytes[c];
        missing[c] = required.hbm_by_class[c] > held ? required.hbm_by_class[c] - held : 0;
    }
    uint64_t held = live->holding.host_bytes + live->shared.host_bytes;
    *host_bytes = required.host_bytes > held ? required.host_bytes - held : 0;
    return KVT_OK;
}

/* ---- Growth --------------------------------------------------------------------- */

/* The scheduling policy puts one running request aside; NULL when it has none. */
static kvt_status put_one_aside(const struct boundary *boundary, struct kvt_live **out,
                                struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = list_candidates(rank, &rank->running, err);

    *out = NULL;
    if (status != KVT_OK)
        return status;
    uint32_t victim =
        rank->scheduling->preempt(rank->scheduling_state, rank->candidates, rank->running.count);
    if (victim >= rank->running.count)
        return KVT_OK;
    struct kvt_live *live = rank->running.items[victim];
    rank_decide(rank, DECIDE_PUT_ASIDE, live->id, 0, 0);
    boundary->hooks->put_aside(boundary->hooks->context, live);
    status = rank_set_aside(rank, live, boundary->now_ns, err);
    if (status != KVT_OK)
        return status;
    /* Let in again at once, it would push the next one out: the room it left is for growth. */
    rank->admission_held = rank->running.count > 0;
    rank->counters.preemptions++;
    *out = live;
    return live_list_insert(&rank->waiting, 0, live, err);
}

/* Whether pages on their way up, and pages whose rows are on their way to host, would make the
 * room once they can be released: then it is worth a step's wait, and nobody loses his place
 * to them. */
static bool transfers_would_do(const struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                               uint64_t host_bytes)
{
    uint64_t idle_bytes =
        kvt_rank_free_bytes(rank) - kvt_rank_memory_free(&rank->memory, KVT_MEM_PAYLOAD);
    uint64_t pages = 0;

    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_pages *held = &rank->running.items[i]->pages;
        pages += held->filling_pages;
        if (rank->needs.host_backing)
            pages += kvt_pages_await_backup(held);
    }
    return kvt_rank_memory_shortfall(&rank->memory, bytes, host_bytes, true) <=
           pages * rank->page_bytes + idle_bytes;
}

/* Sends what was put off to host, so that its pages can be released. */
static void send_deferred(const struct boundary *boundary)
{
    struct kvt_rank *rank = boundary->rank;

    for (uint32_t i = 0; i < rank->running.count && rank->needs.deferred_backup; i++) {
        struct kvt_live *live = rank->running.items[i];
        if (live->pages.queued_tokens < live->pages.committed_tokens)
            rank_write_back(rank, live, live->pages.committed_tokens, boundary->now_ns);
    }
}

/* Rows that the coming round pushes out of the tail: where their write-back was put off, they
 * stay in HBM if there is room for their pages, or are sent to host now and awaited. */
static void leave_tail(const struct boundary *boundary, struct kvt_live *live)
{
    struct kvt_rank *rank = boundary->rank;
    struct kvt_pages *pages = &live->pages;
    uint32_t unbacked = 0, keep = 0;

    if (pages->whole)
        return;
    uint32_t leaving = kvt_pages_begin_to_leave(pages, &unbacked);
    if (leaving > 0 && unbacked > 0 && pages->rule == KVT_BACKUP_LATER) {
        uint64_t bytes[KVT_MEM_CLASSES] = {[KVT_MEM_PAYLOAD] = unbacked * rank->page_bytes};
        if (rank_take(rank, live, bytes, 0, false))
            keep = unbacked;
    }
    if (leaving > 0)
        kvt_pages_leave(pages, keep);
    if (keep > 0)
        rank_decide(rank, DECIDE_KEEP, live->id, pages->left_pages - keep, keep);
    rank->counters.pages_kept += keep;
    if (pages->rule == KVT_BACKUP_LATER && kvt_pages_must_be_backed(pages) > pages->queued_tokens) {
        rank->counters.backup_forced++;
        rank_write_back(rank, live, pages->committed_tokens, boundary->now_ns);
    }
}

/* Rows after the widest round that may come, as far as the request will ever go. */
static uint32_t tokens_after_round(const struct kvt_rank *rank, const struct kvt_live *live)
{
    uint64_t after = (uint64_t)live->pages.committed_tokens + rank->env.queries_max;
    uint64_t last = (uint64_t)live->input_tokens + live->output_tokens - 1;

    if (after > last)
        after = last > live->pages.committed_tokens ? last : live->pages.committed_tokens + 1;
    return (uint32_t)after;
}

static kvt_status grow(const struct boundary *boundary, struct kvt_live *live,
                       struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = KVT_OK;

    live->blocked = false;
    while (status == KVT_OK) {
        uint64_t missing[KVT_MEM_CLASSES], host_bytes;
        bool fits = false;
        /* Anew each time: it may itself have been demoted to make the room. */
        status = missing_bytes(rank, live, tokens_after_round(rank, live), live->hot_tokens,
                               missing, &host_bytes, err);
        if (status != KVT_OK)
            break;
        rank_make_host_room(boundary, host_bytes, NULL);
        uint32_t hot_tokens = live->hot_tokens;
        status = rank_reclaim(boundary, missing, host_bytes, true, &fits, err);
        if (status != KVT_OK)
            break;
        if (live->hot_tokens != hot_tokens)
            continue;
        if (fits) {
            if (!kvt_rank_memory_take(&rank->memory, &live->holding, missing, host_bytes, true))
                return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
            leave_tail(boundary, live);
            return KVT_OK;
        }
        if (transfers_would_do(rank, missing, host_bytes)) {
            send_deferred(boundary);
            live->blocked = true;
            return KVT_OK;
        }
        struct kvt_live *victim;
        status = put_one_aside(boundary, &victim, err);
        if (status != KVT_OK || victim == live)
            return status;
        if (!victim) {
            /* Imports under way hold the rest: wait for one of them to run. */
            live->blocked = true;
            return KVT_OK;
        }
    }
    return status;
}

static kvt_status grow_all(const struct boundary *boundary, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < rank->running.count && status == KVT_OK;) {
        struct kvt_live *live = rank->running.items[i];
        status = grow(boundary, live, err);
        /* Victims on either side, or itself, may have left the list. Those that have
         * grown want nothing more, so that beginning again is harmless. */
        if (i < rank->running.count && rank->running.items[i] == live) {
            i++;
            continue;
        }
        uint32_t at = live_list_find(&rank->running, live);
        i = at < rank->running.count ? at + 1 : 0;
    }
    return status;
}

/* ---- Admission ------------------------------------------------------------------- */

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
};

/* From its first admission on, as the policy wants it: what is known outlives being put aside. */
static kvt_status watch_pages(const struct kvt_rank *rank, struct kvt_live *live,
                              struct kvt_error *err)
{
    const struct kvt_residency_policy *policy = rank->residency;
    uint64_t last = (uint64_t)live->input_tokens + live->output_tokens + rank->env.queries_max;

    if (live->watch.page_count > 0 || (!policy->wants_page_hits && !policy->wants_page_scores))
        return KVT_OK;
    return kvt_page_watch_init(&live->watch, (uint32_t)((last + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS),
                               policy->wants_page_hits, policy->wants_page_scores, err);
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
    live_list_remove_at(&rank->waiting, entry->at);
    rank_decide(rank, DECIDE_ADMIT, live->id, rank->env.index, context);
    rank_use_prefix(rank, live);
    if (live->generated_tokens == 0) {
        rank->counters.admitted++;
        rank->counters.admitted_input_tokens += live->input_tokens;
    } else {
        rank->counters.reprefill_tokens +=
            context - live->aside_tokens - live->shared.page_count * KVT_PAGE_ROWS;
    }
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
        status = missing_bytes(rank, live, context, 0, entry->bytes, &entry->host_bytes, err);
        if (status != KVT_OK)
            return status;
        rank_make_host_room(boundary, entry->host_bytes, live);
        *fits = rank_displace_idle(rank, entry->bytes, entry->host_bytes, grown);
        if (*fits)
            return KVT_OK;
    }
    if (!rank->needs.history_in_hbm)
        rank_let_go_of_rows(rank, live);
    entry->hot_tokens = rank->hot_tokens;
    status = missing_bytes(rank, live, context, entry->hot_tokens, entry->bytes, &entry->host_bytes,
                           err);
    if (status != KVT_OK)
        return status;
    rank_make_host_room(boundary, entry->host_bytes, live);
    return rank_reclaim(boundary, entry->bytes, entry->host_bytes, grown, fits, err);
}

static kvt_status admit_all(const struct boundary *boundary, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = KVT_OK;

    rank->host_short = false;
    while (rank->waiting.count > 0 && !rank->admission_held) {
        status = list_candidates(rank, &rank->waiting, err);
        if (status != KVT_OK)
            return status;
        struct entry entry = {0};
        entry.at =
            rank->scheduling->next(rank->scheduling_state, rank->candidates, rank->waiting.count);
        if (entry.at >= rank->waiting.count)
            return KVT_OK;
        struct kvt_live *live = rank->waiting.items[entry.at];
        if (rank->residency->admit) {
            struct kvt_residency_view view;
            status = rank_view(rank, boundary->now_ns, &view, err);
            if (status != KVT_OK ||
                !rank->residency->admit(rank->residency_state, &view, live->input_tokens))
                return status;
        }
        bool fits = false;
        rank_adopt_prefix(rank, live);
        status = try_entry(boundary, &entry, &fits, err);
        if (status != KVT_OK || !fits)
            rank_let_go(rank, live);
        if (status != KVT_OK)
            return status;
        rank->host_short = kvt_rank_memory_host_is_short(&rank->memory, entry.host_bytes);
        if (!fits) {
            /* Nobody here will ever give host DRAM back: its own copy goes too. */
            if (rank->host_short && live->aside_tokens > 0 &&
                rank->running.count + rank->arrived.count + rank->importing.count == 0)
                rank_drop_copy(rank, live);
            return KVT_OK;
        }
        status = admit(rank, &entry, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- The boundary ----------------------------------------------------------------- */

static kvt_status move_optional(const struct boundary *boundary, struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    struct kvt_residency_view view;

    if (!rank->residency->boundary)
        return KVT_OK;
    kvt_status status = rank_view(rank, boundary->now_ns, &view, err);
    if (status != KVT_OK)
        return status;
    uint32_t count =
        rank->residency->boundary(rank->residency_state, &view, rank->actions, RANK_ACTIONS);
    status = rank_check_action_count(rank, count, err);
    for (uint32_t i = 0; i < count && status == KVT_OK; i++)
        status = rank_act(boundary, &rank->actions[i], err);
    return status;
}

static kvt_status join_batch(struct kvt_rank *rank, struct kvt_error *err)
{
    for (uint32_t i = 0; i < rank->arrived.count; i++) {
        kvt_status status =
            live_list_insert(&rank->running, rank->running.count, rank->arrived.items[i], err);
        if (status != KVT_OK)
            return status;
    }
    rank->arrived.count = 0;
    return KVT_OK;
}

/* What a whole request has in HBM and could give up counts as covered. */
static void measure_coverage(struct kvt_rank *rank)
{
    rank->ready_rows = rank->eligible_rows = 0;
    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_pages *pages = &rank->running.items[i]->pages;
        uint32_t ready = pages->whole ? pages->clean_pages : pages->optional_pages;
        rank->ready_rows += (uint64_t)ready * KVT_PAGE_ROWS;
        rank->eligible_rows += (uint64_t)pages->clean_pages * KVT_PAGE_ROWS;
    }
}

kvt_status kvt_rank_boundary(struct kvt_rank *rank, kvt_ns now_ns,
                             const struct kvt_rank_hooks *hooks, struct kvt_error *err)
{
    const struct boundary boundary = {rank, now_ns, hooks};

    rank_end_fills(rank, now_ns);
    kvt_status status = join_batch(rank, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < rank->running.count; i++)
        kvt_pages_settle(&rank->running.items[i]->pages, now_ns);
    status = rank_resize_due(&boundary, err);
    if (status == KVT_OK)
        status = grow_all(&boundary, err);
    if (status == KVT_OK)
        status = admit_all(&boundary, err);
    if (status == KVT_OK)
        status = move_optional(&boundary, err);
    measure_coverage(rank);
    rank->last_boundary_ns = now_ns;
    return status;
}

kvt_ns kvt_rank_due_ns(const struct kvt_rank *rank)
{
    kvt_ns due_ns = rank->fill_count > 0 && rank->running.count > 0
                        ? rank->fills[rank->fill_head].done_ns
                        : KVT_NS_NEVER;

    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_pages *pages = &rank->running.items[i]->pages;
        if (pages->pending_count == 0)
            continue;
        kvt_ns done_ns = pages->pending[pages->pending_head].done_ns;
        due_ns = due_ns == KVT_NS_NEVER || done_ns < due_ns ? done_ns : due_ns;
    }
    return due_ns;
}
