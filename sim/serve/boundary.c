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
#include "wait_queue.h"

/* The running batch as a scheduling policy sees it; borrowed until the next call. */
static kvt_status view_running(struct kvt_rank *rank, struct kvt_error *err)
{
    uint32_t count = rank->running.count;

    if (count > rank->candidate_capacity) {
        size_t capacity = 2 * (size_t)count;
        struct kvt_scheduling_request *candidates =
            realloc(rank->candidates, capacity * sizeof *candidates);
        if (!candidates)
            return kvt_fail_nomem(err, "a scheduler's view");
        rank->candidates = candidates;
        rank->candidate_capacity = (uint32_t)capacity;
    }
    for (uint32_t i = 0; i < count; i++)
        rank->candidates[i] = wait_view_of(rank->running.items[i]);
    return KVT_OK;
}

kvt_status rank_missing_bytes(const struct kvt_rank *rank, const struct kvt_live *live,
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

kvt_status rank_check_pick(const struct kvt_rank *rank, const char *function, uint32_t pick,
                           uint32_t count, struct kvt_error *err)
{
    if (pick <= count)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_POLICY, rank->scheduling->info.name,
                    "%s() returned %u of %u requests; contract: an index, or the count for nobody",
                    function, pick, count);
}

/* The scheduling policy puts one running request aside; NULL when it has none. */
static kvt_status put_one_aside(const struct boundary *boundary, struct kvt_live **out,
                                struct kvt_error *err)
{
    struct kvt_rank *rank = boundary->rank;
    kvt_status status = view_running(rank, err);

    *out = NULL;
    if (status != KVT_OK)
        return status;
    uint32_t victim =
        rank->scheduling->preempt(rank->scheduling_state, rank->candidates, rank->running.count);
    if (victim >= rank->running.count)
        return rank_check_pick(rank, "preempt", victim, rank->running.count, err);
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
    return wait_queue_push_first(&rank->waiting, live, err);
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
        status = rank_missing_bytes(rank, live, tokens_after_round(rank, live), live->hot_tokens,
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
        status = rank_admit_all(&boundary, err);
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
