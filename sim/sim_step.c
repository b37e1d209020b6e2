/* sim_step.c -- boundaries and decode steps.
 *
 *     boundary: every rank of the group settles its memory and its queue; then, with
 *               anybody to decode, one step of all its ranks:
 *                   duration = shared part + slowest rank's part
 *     step done: every request of the batch commits a row and delivers a token */
#include <math.h>
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
        sim->waiting--;
        sim->importing++;
    }
}

/* Tokens that the request's round will deliver: what it commits, and no more than is left. */
static uint32_t round_delivery(const struct kvt_live *live)
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
        sim->tally.round_tokens += round_delivery(live);
    }
    for (uint32_t s = 0; s < KVT_STRATA_MAX; s++)
        kvt_row_counts_add(&sim->tally.rows[s], &step->outcome.rows[s]);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        sim->tally.counts[c] += step->outcome.counts[c];
    sim->tally.h2d_payload_bytes += gpus * step->outcome.payload_bytes;
    sim->tally.h2d_wire_bytes += gpus * load.wire_bytes;
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

/* Every token of a prompt waits for the context before it. */
static double prefill_ns(const struct kvt_prefill *prefill, const struct kvt_rank_load *load)
{
    double tokens = load->prefill_tokens;

    if (load->prefill_tokens == 0)
        return 0;
    if (prefill->context_half_tokens > 0)
        tokens += load->prefill_context_tokens / prefill->context_half_tokens;
    return tokens / prefill->tokens_per_s * (double)KVT_NS_PER_S;
}

static double sum(const double parts[KVT_PARTS])
{
    double total = 0;

    for (int p = 0; p < KVT_PARTS; p++)
        total += parts[p];
    return total;
}

static bool in_range(const struct kvt_sim *sim, const struct group *group)
{
    if (!group->timing->in_range)
        return true;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        if (sim->loads[r].requests > 0 &&
            !group->timing->in_range(group->timing_state, &sim->loads[r]))
            return false;
    }
    return true;
}

static struct kvt_group_load group_load(const struct group *group,
                                        const struct kvt_rank_load *loads)
{
    struct kvt_group_load load = {.ranks = group->rank_count};

    for (uint32_t r = 0; r < group->rank_count; r++) {
        load.queries += loads[r].queries;
        load.requests += loads[r].requests;
        load.draft_tokens += loads[r].draft_tokens;
        if (loads[r].queries > load.queries_max)
            load.queries_max = loads[r].queries;
    }
    return load;
}

/* A rank's own parts as predicted, into parts[], which is all 0. */
static void predict_rank(const struct group *group, const struct kvt_rank_load *load,
                         double parts[KVT_PARTS])
{
    group->timing->rank_step(group->timing_state, load, parts);
    parts[KVT_PART_PREFILL] = prefill_ns(group->prefill, load);
}

/* What the step's time may be linear in, of one rank and of all. */
static void keep_features(const struct group *group, const struct kvt_group_load *all,
                          const struct kvt_rank_load *load, double features[KVT_FEATURES])
{
    double shared[KVT_FEATURES];

    kvt_profile_rank_features(&group->setting, load, features);
    kvt_profile_group_features(&group->setting, all, shared);
    for (int f = 0; f < KVT_FEATURE_GROUP_FEATURES; f++)
        features[f] = shared[f];
}

kvt_ns sim_predict(const struct group *group, struct kvt_rank_load *loads,
                   kvt_ns parts_ns[KVT_PARTS], double features[KVT_FEATURES], double *waited_ns)
{
    double shared[KVT_PARTS] = {0}, slowest[KVT_PARTS] = {0}, slowest_ns = 0, all_ns = 0;
    const struct kvt_group_load load = group_load(group, loads);
    uint32_t slowest_rank = 0;

    for (uint32_t r = 0; r < group->rank_count; r++) {
        double parts[KVT_PARTS] = {0};
        loads[r].group_queries = load.queries;
        predict_rank(group, &loads[r], parts);
        double rank_ns = sum(parts);
        all_ns += rank_ns;
        if (rank_ns >= slowest_ns) {
            slowest_ns = rank_ns;
            slowest_rank = r;
            memcpy(slowest, parts, sizeof slowest);
        }
    }
    if (features)
        keep_features(group, &load, &loads[slowest_rank], features);
    group->timing->group_step(group->timing_state, &load, shared);
    if (load.queries == 0 && slowest[KVT_PART_PREFILL] > 0)
        shared[KVT_PART_PREFILL] = group->prefill->lone_step_ns;
    kvt_ns total = 0;
    for (int p = 0; p < KVT_PARTS; p++) {
        parts_ns[p] = (kvt_ns)llround(shared[p] + slowest[p]);
        total += parts_ns[p];
    }
    *waited_ns = group->rank_count * slowest_ns - all_ns;
    return total > 0 ? total : 1;
}

/* As the timing model has it. */
static void predict(struct kvt_sim *sim, const struct group *group, struct kvt_step_times *times,
                    double *waited_ns)
{
    times->predicted_ns = sim_predict(group, &sim->loads[group->first_rank],
                                      times->predicted_parts_ns, times->features, waited_ns);
    times->in_range = in_range(sim, group);
}

/* Of predicted parts those that the backend does not run, in whole ns; returns their sum. */
static kvt_ns keep_unrun(bool runs_drafts, const double parts[KVT_PARTS],
                         kvt_ns unrun_ns[KVT_PARTS])
{
    kvt_ns total = 0;

    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_run = kvt_step_part_is_run((enum kvt_step_part)p, runs_drafts);
        unrun_ns[p] = is_run ? 0 : (kvt_ns)llround(parts[p]);
        total += unrun_ns[p];
    }
    return total;
}

/* What a rank measured. Parts that were not told apart are "other". */
static void keep_measured(const struct kvt_step_outcome *outcome, struct kvt_step_times *times)
{
    kvt_ns told_ns = 0;

    times->measured_ns = outcome->measured_ns;
    times->timing = outcome->timing;
    times->launch_ns = outcome->launch_ns;
    memcpy(times->part_marks, outcome->part_marks, sizeof times->part_marks);
    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_run = kvt_step_part_is_run((enum kvt_step_part)p, times->runs_drafts);
        times->measured_parts_ns[p] = is_run ? (kvt_ns)llround(outcome->measured_parts_ns[p]) : 0;
        told_ns += times->measured_parts_ns[p];
    }
    times->measured_parts_ns[KVT_PART_OTHER] += outcome->measured_ns - told_ns;
}

/* The load that a backend's time is of: with the traffic beside fetches that it was given. */
static struct kvt_rank_load load_as_run(const struct kvt_rank_load *load,
                                        const struct kvt_step_outcome *outcome)
{
    struct kvt_rank_load run = *load;

    run.import_bytes = outcome->beside_inbound_bytes;
    run.fill_bytes = 0;
    run.backup_bytes = outcome->beside_outbound_bytes;
    return run;
}

/* As the slowest rank has it: what it measured, and what the timing model says of its parts that
 * the backend does not run; those that the group shares once. */
static void measure(const struct kvt_sim *sim, const struct group *group,
                    struct kvt_step_times *times, double *waited_ns)
{
    const struct kvt_rank_load *loads = &sim->loads[group->first_rank];
    kvt_ns all_ns = 0, slowest_ns = -1, shared_ns[KVT_PARTS];
    double shared[KVT_PARTS] = {0};
    uint32_t slowest = 0;

    times->measured_ns = KVT_NS_NEVER;
    for (uint32_t r = 0; r < group->rank_count; r++) {
        const struct kvt_rank_step *step = &sim->rank_steps[group->first_rank + r];
        double parts[KVT_PARTS] = {0};
        kvt_ns unrun_ns[KVT_PARTS];
        if (step->item_count == 0 || step->outcome.measured_ns == KVT_NS_NEVER)
            continue;
        predict_rank(group, &loads[r], parts);
        kvt_ns rank_ns =
            step->outcome.measured_ns + keep_unrun(times->runs_drafts, parts, unrun_ns);
        all_ns += rank_ns;
        if (rank_ns <= slowest_ns)
            continue;
        slowest_ns = rank_ns;
        slowest = r;
        keep_measured(&step->outcome, times);
        memcpy(times->added_parts_ns, unrun_ns, sizeof unrun_ns);
    }
    if (times->measured_ns == KVT_NS_NEVER)
        return;
    const struct kvt_group_load load = group_load(group, loads);
    const struct kvt_rank_load run =
        load_as_run(&loads[slowest], &sim->rank_steps[group->first_rank + slowest].outcome);
    keep_features(group, &load, &run, times->features);
    group->timing->group_step(group->timing_state, &load, shared);
    (void)keep_unrun(times->runs_drafts, shared, shared_ns);
    for (int p = 0; p < KVT_PARTS; p++)
        times->added_parts_ns[p] += shared_ns[p];
    *waited_ns = (double)(group->rank_count * slowest_ns - all_ns);
}

/* What the step takes by the run's clock; the other clock's figures go to the books too. */
static kvt_ns time_step(struct kvt_sim *sim, const struct group *group, uint32_t requests)
{
    struct kvt_step_times times = {.first_rank = group->first_rank,
                                   .rank_count = group->rank_count,
                                   .requests = requests,
                                   .runs_drafts = kvt_backend_runs_drafts(sim->backend)};
    double waited_ns = 0, measured_waited_ns = 0;
    struct kvt_tally *tally = &sim->tally;

    predict(sim, group, &times, &waited_ns);
    measure(sim, group, &times, &measured_waited_ns);
    bool is_measured = times.measured_ns != KVT_NS_NEVER;
    bool by_measured = is_measured && sim->scenario->clock == KVT_CLOCK_MEASURED;
    kvt_ns step_ns = 0;
    tally->extrapolated_steps += !times.in_range;
    tally->measured_steps += is_measured;
    tally->measured_ns += is_measured ? times.measured_ns : 0;
    for (int p = 0; p < KVT_PARTS; p++) {
        kvt_ns measured_ns = times.measured_parts_ns[p], added_ns = times.added_parts_ns[p];
        kvt_ns part_ns = by_measured ? measured_ns + added_ns : times.predicted_parts_ns[p];
        tally->parts_ns[p] += part_ns;
        tally->measured_parts_ns[p] += measured_ns;
        tally->added_parts_ns[p] += added_ns;
        step_ns += part_ns;
    }
    step_ns = step_ns > 0 ? step_ns : 1;
    tally->rank_ns += group->rank_count * step_ns;
    tally->barrier_wait_ns += (kvt_ns)llround(by_measured ? measured_waited_ns : waited_ns);
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++)
        times.queries += sim->loads[r].queries;
    if (sim->options.on_step && requests > 0)
        sim->options.on_step(sim->options.step_context, &times);
    return step_ns;
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
    kvt_ns step_ns = time_step(sim, group, count);
    sim->tally.decode_steps++;
    sim->tally.step_ns += step_ns;
    sim->tally.backup_stall_ns += stall_ns;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++)
        sim->ranks[r].last_step_ns = step_ns + stall_ns;
    group->stepping = true;
    return sim_push(sim, sim_after(sim, stall_ns + step_ns), KVT_PHASE_COMPLETE, EVENT_STEP_DONE, g,
                    0, err);
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
        kvt_status status =
            sim_push(sim, done_ns, KVT_PHASE_COMPLETE, EVENT_IMPORT_DONE, r, live->id, err);
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
        live->round_tokens = round_delivery(live); /* rows past the answer's end are nobody's */
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

kvt_status sim_on_step_done(struct kvt_sim *sim, uint32_t g, struct kvt_error *err)
{
    struct group *group = &sim->groups[g];
    kvt_status status = KVT_OK;

    group->stepping = false;
    for (uint32_t r = group->first_rank;
         r < group->first_rank + group->rank_count && status == KVT_OK; r++)
        status = end_rank_step(sim, r, err);
    if (status == KVT_OK)
        status = sim_poll_arrivals(sim, err);
    return status == KVT_OK ? sim_schedule_boundary(sim, g, err) : status;
}
