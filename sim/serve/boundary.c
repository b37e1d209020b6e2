/* boundary.c -- what a rank does between two steps.
 *
 *     1  transfers that have ended take effect: pages become ready or backed
 *     2  imported requests join the batch
 *     3  every running request gets room for one more row: from the reserve, then
 *        the pool, then by releasing optional pages, then by putting requests aside
 *     4  waiting requests are admitted while everything they must have fits
 *     5  the residency policy moves what is optional */
#include <math.h>
#include <stdlib.h>

#include "kvt/hash.h"
#include "kvt/rank.h"
#include "live_list.h"
#include "rank_private.h"

enum decision {
    DECIDE_ADMIT = 1,
    DECIDE_PUT_ASIDE,
    DECIDE_RELEASE,
    DECIDE_REFILL
};

static void decide(struct kvt_rank *rank, enum decision decision, uint32_t request, uint32_t first,
                   uint32_t count)
{
    uint64_t chain = kvt_chain64(*rank->decisions, (uint64_t)decision << 32 | request);
    *rank->decisions = kvt_chain64(chain, (uint64_t)first << 32 | count);
}

static void end_fills(struct kvt_rank *rank, kvt_ns now_ns)
{
    while (rank->fill_count > 0 && rank->fills[rank->fill_head].done_ns <= now_ns) {
        const struct kvt_fill *fill = &rank->fills[rank->fill_head];
        if (fill->live) {
            kvt_pages_end_fill(&fill->live->pages, fill->first, fill->count);
            rank->counters.pages_filled += fill->count;
        }
        rank->fill_head = (rank->fill_head + 1) % rank->fill_capacity;
        rank->fill_count--;
    }
}

static kvt_status queue_fill(struct kvt_rank *rank, const struct kvt_fill *fill,
                             struct kvt_error *err)
{
    if (rank->fill_count == rank->fill_capacity) {
        uint32_t capacity = rank->fill_capacity ? rank->fill_capacity * 2 : 64;
        struct kvt_fill *fills = malloc(capacity * sizeof *fills);
        if (!fills)
            return kvt_fail_nomem(err, "transfers of optional pages");
        for (uint32_t i = 0; i < rank->fill_count; i++)
            fills[i] = rank->fills[(rank->fill_head + i) % rank->fill_capacity];
        free(rank->fills);
        rank->fills = fills;
        rank->fill_head = 0;
        rank->fill_capacity = capacity;
    }
    rank->fills[(rank->fill_head + rank->fill_count) % rank->fill_capacity] = *fill;
    rank->fill_count++;
    return KVT_OK;
}

static kvt_status make_view(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_residency_view *view,
                            struct kvt_error *err)
{
    uint32_t count = rank->running.count;

    if (count > rank->view_capacity) {
        size_t capacity = 2 * (size_t)count;
        struct kvt_residency_request *views = realloc(rank->views, capacity * sizeof *views);
        if (!views)
            return kvt_fail_nomem(err, "a rank's view for its residency policy");
        rank->views = views;
        rank->view_capacity = (uint32_t)capacity;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_live *live = rank->running.items[i];
        const struct kvt_pages *pages = &live->pages;
        /* Insertion by id: the batch is in order of admission, nearly sorted. */
        uint32_t at = i;
        while (at > 0 && rank->views[at - 1].id > live->id) {
            rank->views[at] = rank->views[at - 1];
            at--;
        }
        rank->views[at] = (struct kvt_residency_request){
            .id = live->id,
            .context_tokens = pages->committed_tokens,
            .generated_tokens = live->generated_tokens,
            .page_count = (pages->committed_tokens + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS,
            .eligible_pages = pages->eligible_pages,
            .optional_pages = pages->optional_pages,
            .filling_pages = pages->filling_pages,
            .missed_rows = live->missed_rows,
            .selected_rows = live->selected_rows,
            .resident_bits = pages->resident_bits,
            .filling_bits = pages->filling_bits};
    }
    *view = (struct kvt_residency_view){
        .now_ns = now_ns,
        .last_step_ns = rank->last_step_ns,
        .since_boundary_ns = now_ns - rank->last_boundary_ns,
        .queue_length = rank->waiting.count,
        .free_bytes = kvt_rank_memory_free(&rank->memory, KVT_MEM_PAYLOAD),
        .h2d_backlog_bytes = kvt_link_backlog_bytes(&rank->h2d, now_ns),
        .d2h_backlog_bytes = kvt_link_backlog_bytes(&rank->d2h, now_ns),
        .requests = rank->views,
        .request_count = count};
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        view->used_bytes[c] = rank->memory.used_by_class[c];
    return KVT_OK;
}

static struct kvt_live *find_running(const struct kvt_rank *rank, uint32_t id)
{
    for (uint32_t i = 0; i < rank->running.count; i++) {
        if (rank->running.items[i]->id == id)
            return rank->running.items[i];
    }
    return NULL;
}

/* Carries out one action, or names the policy and what it may not do. */
static kvt_status act(struct kvt_rank *rank, const struct kvt_residency_action *action,
                      kvt_ns now_ns, struct kvt_error *err)
{
    const char *policy = rank->residency->info.name;
    struct kvt_live *live = find_running(rank, action->request);
    uint64_t bytes = action->count * rank->page_bytes;
    uint64_t by_class[KVT_MEM_CLASSES] = {[KVT_MEM_PAYLOAD] = bytes};

    if (!live)
        return kvt_fail(err, KVT_ERR_POLICY, policy,
                        "it moves pages of request %u, which is not running on rank %u",
                        action->request, rank->env.index);
    switch (action->verb) {
    case KVT_RESIDENCY_RELEASE:
        if (!kvt_pages_can_release(&live->pages, action->first, action->count))
            return kvt_fail(err, KVT_ERR_POLICY, policy,
                            "it releases pages %u to %u of request %u, and not all of them are "
                            "optional pages in HBM",
                            action->first, action->first + action->count - 1, action->request);
        kvt_pages_release(&live->pages, action->first, action->count);
        kvt_rank_memory_give(&rank->memory, &live->holding, KVT_MEM_PAYLOAD, bytes);
        rank->counters.pages_released += action->count;
        decide(rank, DECIDE_RELEASE, live->id, action->first, action->count);
        return KVT_OK;
    case KVT_RESIDENCY_REFILL:
        if (!rank->needs.optional_pages ||
            !kvt_pages_can_fill(&live->pages, action->first, action->count))
            return kvt_fail(err, KVT_ERR_POLICY, policy,
                            "it refills pages %u to %u of request %u, and not all of them are "
                            "backed, out of the tail and on host only",
                            action->first, action->first + action->count - 1, action->request);
        if (!kvt_rank_memory_take(&rank->memory, &live->holding, by_class, 0, false))
            return kvt_fail(err, KVT_ERR_POLICY, policy,
                            "it refills %u pages, and the pool of rank %u has not that much free",
                            action->count, rank->env.index);
        kvt_pages_begin_fill(&live->pages, action->first, action->count);
        rank->counters.fill_bytes += bytes;
        decide(rank, DECIDE_REFILL, live->id, action->first, action->count);
        return queue_fill(rank,
                          &(struct kvt_fill){.live = live,
                                             .first = action->first,
                                             .count = action->count,
                                             .done_ns = kvt_link_send(&rank->h2d, now_ns, bytes)},
                          err);
    default:
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy,
                        "it asks for action %u; this version carries out release and refill",
                        action->verb);
    }
}

/* Has the policy release optional pages until bytes[] fit. *fits says whether
 * they now do; nothing is released where no release can help. */
static kvt_status reclaim(struct kvt_rank *rank, kvt_ns now_ns,
                          const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes, bool growth,
                          bool *fits, struct kvt_error *err)
{
    uint64_t optional_bytes = 0;

    for (uint32_t i = 0; i < rank->running.count; i++)
        optional_bytes += rank->running.items[i]->pages.optional_pages * rank->page_bytes;
    for (;;) {
        uint64_t short_bytes = kvt_rank_memory_shortfall(&rank->memory, bytes, host_bytes, growth);
        *fits = short_bytes == 0;
        if (*fits || short_bytes > optional_bytes || !rank->residency->reclaim)
            return KVT_OK;
        struct kvt_residency_view view;
        kvt_status status = make_view(rank, now_ns, &view, err);
        if (status != KVT_OK)
            return status;
        uint32_t count = rank->residency->reclaim(rank->residency_state, &view, short_bytes,
                                                  rank->actions, RANK_ACTIONS);
        if (count == 0)
            return KVT_OK;
        for (uint32_t i = 0; i < count; i++) {
            if (rank->actions[i].verb != KVT_RESIDENCY_RELEASE)
                return kvt_fail(err, KVT_ERR_POLICY, rank->residency->info.name,
                                "asked to reclaim memory, it wants something other than a release");
            status = act(rank, &rank->actions[i], now_ns, err);
            if (status != KVT_OK)
                return status;
            optional_bytes -= rank->actions[i].count * rank->page_bytes;
        }
    }
}

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

/* How many more bytes of each class a request must hold with `tokens` rows. */
static kvt_status missing_bytes(const struct kvt_rank *rank, const struct kvt_live *live,
                                uint32_t tokens, uint64_t missing[KVT_MEM_CLASSES],
                                uint64_t *host_bytes, struct kvt_error *err)
{
    struct kvt_session_bytes required;
    kvt_status status = kvt_rank_required(rank, tokens, live->max_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        uint64_t held = live->holding.bytes[c] + live->holding.reserve_bytes[c];
        missing[c] = required.hbm_by_class[c] > held ? required.hbm_by_class[c] - held : 0;
    }
    *host_bytes = required.host_bytes - live->holding.host_bytes;
    return KVT_OK;
}

/* The scheduling policy puts one running request aside; false when it has none. */
static kvt_status put_one_aside(struct kvt_rank *rank,
                                void (*put_aside)(void *context, struct kvt_live *live),
                                void *context, struct kvt_live **out, struct kvt_error *err)
{
    kvt_status status = list_candidates(rank, &rank->running, err);

    *out = NULL;
    if (status != KVT_OK)
        return status;
    uint32_t victim =
        rank->scheduling->preempt(rank->scheduling_state, rank->candidates, rank->running.count);
    if (victim >= rank->running.count)
        return KVT_OK;
    struct kvt_live *live = rank->running.items[victim];
    decide(rank, DECIDE_PUT_ASIDE, live->id, 0, 0);
    put_aside(context, live);
    kvt_rank_release(rank, live);
    /* Let in again at once, it would push the next one out: the room it left is for growth. */
    rank->admission_held = rank->running.count > 0;
    rank->counters.preemptions++;
    *out = live;
    return live_list_insert(&rank->waiting, 0, live, err);
}

/* Whether pages on their way up, which can be released once they have landed, would make
 * the room: then it is worth a step's wait, and nobody loses his place to them. */
static bool filling_would_do(const struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                             uint64_t host_bytes)
{
    uint64_t filling_bytes = 0;

    for (uint32_t i = 0; i < rank->running.count; i++)
        filling_bytes += rank->running.items[i]->pages.filling_pages * rank->page_bytes;
    return kvt_rank_memory_shortfall(&rank->memory, bytes, host_bytes, true) <= filling_bytes;
}

static kvt_status grow(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                       void (*put_aside)(void *context, struct kvt_live *live), void *context,
                       struct kvt_error *err)
{
    uint64_t missing[KVT_MEM_CLASSES], host_bytes;
    kvt_status status =
        missing_bytes(rank, live, live->pages.committed_tokens + 1, missing, &host_bytes, err);

    live->blocked = false;
    while (status == KVT_OK) {
        bool fits = false;
        status = reclaim(rank, now_ns, missing, host_bytes, true, &fits, err);
        if (status != KVT_OK)
            break;
        if (fits) {
            if (!kvt_rank_memory_take(&rank->memory, &live->holding, missing, host_bytes, true))
                return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
            return KVT_OK;
        }
        if (filling_would_do(rank, missing, host_bytes)) {
            live->blocked = true;
            return KVT_OK;
        }
        struct kvt_live *victim;
        status = put_one_aside(rank, put_aside, context, &victim, err);
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

static kvt_status grow_all(struct kvt_rank *rank, kvt_ns now_ns,
                           void (*put_aside)(void *context, struct kvt_live *live), void *context,
                           struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < rank->running.count && status == KVT_OK;) {
        struct kvt_live *live = rank->running.items[i];
        status = grow(rank, live, now_ns, put_aside, context, err);
        /* Victims on either side, or itself, may have left the list. Those that have
         * grown want nothing more, so that beginning again is harmless. */
        uint32_t at = live_list_find(&rank->running, live);
        i = at < rank->running.count ? at + 1 : 0;
    }
    return status;
}

static kvt_status admit(struct kvt_rank *rank, uint32_t at, const uint64_t bytes[KVT_MEM_CLASSES],
                        uint64_t host_bytes, struct kvt_error *err)
{
    struct kvt_live *live = rank->waiting.items[at];
    uint32_t context = kvt_live_context(live);
    uint32_t last = live->input_tokens + live->output_tokens;
    kvt_status status = live_list_insert(&rank->importing, rank->importing.count, live, err);

    if (status == KVT_OK)
        status = kvt_pages_init(&live->pages, context, last, rank->needs.history_in_hbm, err);
    if (status != KVT_OK)
        return status;
    /* What it has grown by comes out of the reserve again. */
    bool grown = live->generated_tokens > 0;
    if (!kvt_rank_memory_take(&rank->memory, &live->holding, bytes, host_bytes, grown))
        return kvt_fail(err, KVT_ERR_INTERNAL, "rank", "memory that fits cannot be taken");
    live_list_remove_at(&rank->waiting, at);
    decide(rank, DECIDE_ADMIT, live->id, rank->env.index, context);
    if (live->generated_tokens == 0) {
        rank->counters.admitted++;
        rank->counters.admitted_input_tokens += live->input_tokens;
    } else {
        rank->counters.reprefill_tokens += context;
    }
    return KVT_OK;
}

static kvt_status admit_all(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    rank->host_short = false;
    while (rank->waiting.count > 0 && !rank->admission_held) {
        status = list_candidates(rank, &rank->waiting, err);
        if (status != KVT_OK)
            return status;
        uint32_t at =
            rank->scheduling->next(rank->scheduling_state, rank->candidates, rank->waiting.count);
        if (at >= rank->waiting.count)
            return KVT_OK;
        const struct kvt_live *live = rank->waiting.items[at];
        if (rank->residency->admit) {
            struct kvt_residency_view view;
            status = make_view(rank, now_ns, &view, err);
            if (status != KVT_OK ||
                !rank->residency->admit(rank->residency_state, &view, live->input_tokens))
                return status;
        }
        uint64_t bytes[KVT_MEM_CLASSES], host_bytes;
        bool fits = false;
        status = missing_bytes(rank, live, kvt_live_context(live), bytes, &host_bytes, err);
        if (status == KVT_OK)
            status =
                reclaim(rank, now_ns, bytes, host_bytes, live->generated_tokens > 0, &fits, err);
        if (status != KVT_OK)
            return status;
        rank->host_short = kvt_rank_memory_host_is_short(&rank->memory, host_bytes);
        if (!fits)
            return KVT_OK;
        status = admit(rank, at, bytes, host_bytes, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status move_optional(struct kvt_rank *rank, kvt_ns now_ns, struct kvt_error *err)
{
    struct kvt_residency_view view;

    if (!rank->residency->boundary)
        return KVT_OK;
    kvt_status status = make_view(rank, now_ns, &view, err);
    if (status != KVT_OK)
        return status;
    uint32_t count =
        rank->residency->boundary(rank->residency_state, &view, rank->actions, RANK_ACTIONS);
    for (uint32_t i = 0; i < count && status == KVT_OK; i++)
        status = act(rank, &rank->actions[i], now_ns, err);
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

static void measure_coverage(struct kvt_rank *rank)
{
    rank->ready_rows = rank->eligible_rows = 0;
    for (uint32_t i = 0; i < rank->running.count; i++) {
        const struct kvt_pages *pages = &rank->running.items[i]->pages;
        rank->ready_rows += (uint64_t)pages->optional_pages * KVT_PAGE_ROWS;
        rank->eligible_rows += (uint64_t)pages->eligible_pages * KVT_PAGE_ROWS;
    }
}

kvt_status kvt_rank_boundary(struct kvt_rank *rank, kvt_ns now_ns,
                             void (*put_aside)(void *context, struct kvt_live *live), void *context,
                             struct kvt_error *err)
{
    end_fills(rank, now_ns);
    kvt_status status = join_batch(rank, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < rank->running.count; i++)
        kvt_pages_settle(&rank->running.items[i]->pages, rank->env.queries_max, now_ns);
    status = grow_all(rank, now_ns, put_aside, context, err);
    if (status == KVT_OK)
        status = admit_all(rank, now_ns, err);
    if (status == KVT_OK)
        status = move_optional(rank, now_ns, err);
    measure_coverage(rank);
    rank->last_boundary_ns = now_ns;
    return status;
}
