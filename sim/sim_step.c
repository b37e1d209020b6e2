/* sim_step.c -- boundaries and decode steps.
 *
 *     boundary: every rank of the group settles its memory and its queue; then, with
 *               anybody to decode, one step of all its ranks:
 *                   duration = shared part + slowest rank's part
 *     step done: every request of the batch commits a row and delivers a token */
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/order.h"
#include "sim_private.h"

/* A request loses its memory: it waits again, from the front of its queue. */
static void put_aside(void *context, struct kvt_live *live)
{
    struct kvt_sim *sim = context;
    struct kvt_request_record *record = &sim->records[live->id];

    if (live->has_lane)
        sim->backend->ops->release(sim->backend, live->id, &sim->decisions);
    live->has_lane = false;
    sim->decoding--;
    sim->waiting++;
    record->status = KVT_REQUEST_WAITING;
    if (record->preemptions < UINT16_MAX)
        record->preemptions++;
}

/* A request has another hot cache than before. */
static kvt_status resized(void *context, struct kvt_live *live, struct kvt_error *err)
{
    struct kvt_sim *sim = context;

    return sim->backend->ops->resize(sim->backend, live->id, live->hot_tokens, &sim->decisions,
                                     err);
}

/* Ranks of a node share its DRAM: what nobody holds there goes, in order of ranks. */
static void make_host_room(void *context, const struct kvt_rank *rank, uint64_t host_bytes)
{
    struct kvt_sim *sim = context;
    uint64_t copies = rank->memory.host_copies, freed_bytes = 0;

    for (uint32_t r = 0; r < sim->rank_count && freed_bytes / copies < host_bytes; r++) {
        if (&sim->ranks[r] != rank && sim->ranks[r].env.host == rank->env.host)
            freed_bytes += kvt_rank_yield_host(&sim->ranks[r], host_bytes - freed_bytes / copies);
    }
}

static kvt_status prefill_again(void *context, struct kvt_live *live, struct kvt_error *err)
{
    return sim_queue_prefill(context, live, err);
}

/* Requests that the boundary has admitted. */
static void note_admissions(struct kvt_sim *sim, const struct kvt_rank *rank)
{
    for (uint32_t i = rank->imports_under_way; i < rank->importing.count; i++) {
        const struct kvt_live *live = rank->importing.items[i];
        struct kvt_request_record *record = &sim->records[live->id];
        if (record->status != KVT_REQUEST_WAITING)
            continue;
        record->status = KVT_REQUEST_IMPORTING;
        if (record->admitted_ns == KVT_NS_NEVER) {
            record->admitted_ns = sim->now_ns;
            record->prefix_hit_tokens = live->shared.page_count * KVT_PAGE_ROWS;
        }
        sim_wait(sim, rank->importing.items[i], KVT_WAIT_IMPORT_QUEUE);
        sim->waiting--;
        sim->importing++;
    }
}

uint32_t sim_round_delivery(const struct kvt_live *live)
{
    uint32_t left = live->output_tokens - live->generated_tokens;
    return live->round_tokens < left ? live->round_tokens : left;
}

/* What a rank's part of a step found goes to the books; what the timing model needs
 * to sim->loads. */
static void book_rank_step(struct kvt_sim *sim, uint32_t r)
{
    const struct kvt_rank *rank = &sim->ranks[r];
    const struct kvt_rank_step *step = &sim->rank_steps[r];
    struct kvt_rank_load load = step->outcome.load;
    uint32_t gpus = sim_gpus_of(sim, r); /* each of the rank fetches every miss */

    for (uint32_t i = 0; i < step->item_count; i++) {
        struct kvt_live *live = sim->live[step->items[i].request];
        live->selected_rows += step->items[i].selected_rows;
        live->missed_rows += step->items[i].missed_rows;
        sim->tally.round_tokens += sim_round_delivery(live);
    }
    for (uint32_t s = 0; s < KVT_STRATA_MAX; s++)
        kvt_row_counts_add(&sim->tally.rows[s], &step->outcome.rows[s]);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        sim->tally.counts[c] += step->outcome.counts[c];
    sim->tally.h2d_payload_bytes += gpus * step->outcome.payload_bytes;
    sim->tally.h2d_wire_bytes += gpus * (load.wire_bytes + load.ahead.wire_bytes);
    sim->tally.prefetched_rows += step->outcome.prefetched_rows;
    sim->tally.prefetch_wasted_rows += step->outcome.wasted_rows;
    sim->tally.deepened_rows += step->outcome.deepened_rows;
    sim->tally.rounds += step->item_count;
    sim->tally.staging_waves += (uint64_t)load.extra_waves;
    if (step->outcome.staging_peak_bytes > sim->tally.staging_peak_bytes)
        sim->tally.staging_peak_bytes = step->outcome.staging_peak_bytes;
    load.backup_bytes = kvt_link_backlog_bytes(&rank->d2h, sim->now_ns);
    load.fill_bytes = kvt_link_backlog_bytes(&rank->h2d, sim->now_ns);
    /* What imports bring in while the step runs, were it as long as the last one. */
    load.import_bytes =
        (uint64_t)((double)rank->import_bytes_per_s * (double)rank->last_step_ns * 1e-9);
    sim->loads[r] = load;
}

/* Into the run's chain: the calls of the step in hand, by request, whatever rank it is on. */
static void chain_calls(struct kvt_sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sim->item_order[i] = (uint64_t)sim->items[i].request << 32 | i;
    kvt_order64(sim->item_order, count, sim->item_order + count);
    for (uint32_t i = 0; i < count; i++)
        sim->decisions =
            kvt_chain64(sim->decisions, sim->items[(uint32_t)sim->item_order[i]].decisions);
}

/* What queries leave of a rank's chunk goes to the prompts that it computes. */
static void share_prefill(struct kvt_sim *sim, uint32_t r)
{
    struct kvt_rank_load *load = &sim->loads[r];
    uint32_t most = sim->scenario->prefill.chunk_tokens;

    if (sim->ranks[r].prefilling.count > 0)
        kvt_rank_share_prefill(&sim->ranks[r], most > load->queries ? most - load->queries : 0,
                               load);
}

/* How long the batch must wait for tail rows to be on host. */
static kvt_ns backup_stall_ns(const struct kvt_sim *sim, uint32_t count)
{
    kvt_ns ready_ns = sim->now_ns;

    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_live *live = sim->live[sim->items[i].request];
        kvt_ns at = kvt_pages_tail_ready_ns(&live->pages, sim->rounds[i].query_count, sim->now_ns);
        ready_ns = at > ready_ns ? at : ready_ns;
    }
    return ready_ns - sim->now_ns;
}

/* Whoever watches. */
static void tell_step(const struct kvt_sim *sim, const struct group *group, kvt_ns stall_ns,
                      kvt_ns step_ns)
{
    const struct kvt_observer *observer = sim->options.observer;

    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        const struct kvt_rank_load *load = &sim->loads[r];
        const struct kvt_observed_step step = {
            .rank = r,
            .from_ns = sim->now_ns,
            .stall_ns = stall_ns,
            .step_ns = step_ns,
            .parts_ns = group->parts_ns,
            .load = load,
            .wire_bytes = sim_gpus_of(sim, r) * (load->wire_bytes + load->ahead.wire_bytes),
            .items = sim->rank_steps[r].items,
            .item_count = sim->rank_steps[r].item_count};
        observer->on_step(observer->context, &step);
    }
}

static kvt_status begin_step(struct kvt_sim *sim, uint32_t g, struct kvt_error *err)
{
    struct group *group = &sim->groups[g];
    struct kvt_rank_step *steps = &sim->rank_steps[group->first_rank];
    uint32_t count = 0;
    kvt_status status = sim_plan_rounds(sim, group, &count, err);

    if (status != KVT_OK)
        return status;
    kvt_ns stall_ns = backup_stall_ns(sim, count);
    if (count > 0)
        status = sim->backend->ops->step(sim->backend, steps, group->rank_count, err);
    if (status != KVT_OK)
        return status;
    if (count > 0)
        chain_calls(sim, count);
    for (uint32_t r = 0; r < group->rank_count; r++) {
        book_rank_step(sim, group->first_rank + r);
        share_prefill(sim, group->first_rank + r);
    }
    kvt_ns step_ns = 0;
    status = sim_time_step(sim, group, count, &step_ns, err);
    if (status != KVT_OK)
        return status;
    if (sim->options.observer && sim->options.observer->on_step)
        tell_step(sim, group, stall_ns, step_ns);
    sim->tally.decode_steps++;
    sim->tally.step_ns += step_ns;
    sim->tally.backup_stall_ns += stall_ns;
    group->stall_ns = stall_ns;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        sim->ranks[r].last_step_ns = step_ns + stall_ns;
        sim->ranks[r].last_step_requests = sim->rank_steps[r].item_count;
    }
    group->stepping = true;
    return sim_push(sim, sim_after(sim, stall_ns + step_ns), KVT_PHASE_COMPLETE, EVENT_STEP_DONE, g,
                    ++group->step_serial, err);
}

/* Requests stand still, and a transfer that is under way may make the room they want: a
 * boundary when it ends. */
static kvt_status await_transfers(struct kvt_sim *sim, uint32_t g, struct kvt_error *err)
{
    struct group *group = &sim->groups[g];
    kvt_ns due_ns = KVT_NS_NEVER;

    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        kvt_ns done_ns = kvt_rank_due_ns(&sim->ranks[r]);
        if (done_ns != KVT_NS_NEVER && (due_ns == KVT_NS_NEVER || done_ns < due_ns))
            due_ns = done_ns;
    }
    if (due_ns == KVT_NS_NEVER || due_ns == group->fill_boundary_ns)
        return KVT_OK;
    group->fill_boundary_ns = due_ns;
    return sim_push(sim, due_ns, KVT_PHASE_SCHEDULE, EVENT_BOUNDARY, g, 0, err);
}

kvt_status sim_on_boundary(struct kvt_sim *sim, uint32_t g, struct kvt_error *err)
{
    struct group *group = &sim->groups[g];
    const struct kvt_rank_hooks hooks = {.context = sim,
                                         .put_aside = put_aside,
                                         .resized = resized,
                                         .prefill_again = prefill_again,
                                         .make_host_room = make_host_room};
    bool works = false;

    group->boundary_scheduled = false;
    if (group->stepping) /* it was to await pages, and a step began before they came */
        return KVT_OK;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        struct kvt_rank *rank = &sim->ranks[r];
        kvt_status status = kvt_rank_boundary(rank, sim->now_ns, &hooks, err);
        if (status != KVT_OK)
            return status;
        note_admissions(sim, rank);
        status = sim_begin_imports(sim, r, err);
        if (status == KVT_OK && rank->counters.preemptions + rank->counters.copies_dropped > 0)
            status = sim_wake_node(sim, r, err);
        if (status != KVT_OK)
            return status;
        works = works || rank->prefilling.count > 0;
        for (uint32_t i = 0; i < rank->running.count; i++)
            works = works || !rank->running.items[i]->blocked;
    }
    sim_books_collect(sim);
    return works ? begin_step(sim, g, err) : await_transfers(sim, g, err);
}

/* Prompts that are computed: those requests are in as if imported, once their rows are where they
 * belong. */
static kvt_status end_rank_prefill(struct kvt_sim *sim, uint32_t r, struct kvt_error *err)
{
    kvt_ns done_ns = sim->now_ns;
    struct kvt_live *live = kvt_rank_end_prefill(&sim->ranks[r], sim->now_ns, &done_ns);

    for (; live; live = kvt_rank_end_prefill(&sim->ranks[r], sim->now_ns, &done_ns)) {
        sim->computing--;
        sim->records[live->id].status = KVT_REQUEST_IMPORTING;
        sim_wait(sim, live, KVT_WAIT_IMPORT);
        kvt_status status = sim_push(sim, done_ns, KVT_PHASE_COMPLETE, EVENT_IMPORT_DONE, r,
                                     sim_awaited(live), err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* Every request that took part: commit, deliver, end. */
static kvt_status end_rank_step(struct kvt_sim *sim, uint32_t r, struct kvt_error *err)
{
    struct kvt_rank *rank = &sim->ranks[r];
    uint64_t tokens = 0;

    for (uint32_t i = 0; i < rank->running.count; i++) {
        struct kvt_live *live = rank->running.items[i];
        live->round_tokens = sim_round_delivery(live); /* rows past the answer's end are nobody's */
        tokens += live->round_tokens;
    }
    kvt_ns done_ns = kvt_rank_queue_backup(rank, sim->now_ns, tokens);
    for (uint32_t i = 0; i < rank->running.count;) {
        struct kvt_live *live = rank->running.items[i];
        uint32_t delivered = live->round_tokens;
        if (delivered == 0) {
            i++;
            continue;
        }
        kvt_live_commit(live, done_ns);
        sim_took_part(&sim->groups[sim->group_of[r]], live);
        live->round_tokens = 0;
        sim_deliver(sim, live, delivered);
        if (live->generated_tokens < live->output_tokens) {
            i++;
            continue;
        }
        sim->decoding--;
        kvt_status status =
            sim_complete(sim, live, err); /* leaves the batch: the next one moves up */
        if (status != KVT_OK)
            return status;
    }
    return end_rank_prefill(sim, r, err);
}

kvt_status sim_on_step_done(struct kvt_sim *sim, uint32_t g, uint64_t step, struct kvt_error *err)
{
    struct group *group = &sim->groups[g];
    kvt_status status = KVT_OK;

    if (!group->stepping || step != group->step_serial) /* its ranks failed meanwhile */
        return KVT_OK;
    group->stepping = false;
    for (uint32_t r = group->first_rank;
         r < group->first_rank + group->rank_count && status == KVT_OK; r++)
        status = end_rank_step(sim, r, err);
    if (status == KVT_OK)
        status = sim_poll_arrivals(sim, err);
    return status == KVT_OK ? sim_schedule_boundary(sim, g, err) : status;
}
