/* sim_books.c -- what is counted, interval by interval, and the closing of the books. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_private.h"

enum {
    INTERVALS_MAX = 10000000 /* lines of a timeline */
};

uint32_t sim_phase_now(const struct kvt_sim *sim)
{
    return sim->arrival->phase_at(sim->source, sim->now_ns);
}

/* The first moment after now, up to limit_ns, at which another phase is on; limit_ns
 * when there is none. */
static kvt_ns phase_edge_before(const struct kvt_sim *sim, kvt_ns limit_ns)
{
    uint32_t phase = sim_phase_now(sim);
    kvt_ns low = sim->now_ns, high = limit_ns;

    if (sim->arrival->phase_at(sim->source, limit_ns) == phase)
        return limit_ns;
    while (high - low > 1) {
        kvt_ns middle = low + (high - low) / 2;
        if (sim->arrival->phase_at(sim->source, middle) == phase)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static kvt_status fail_too_many_intervals(const struct kvt_sim *sim, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, "run.interval_s|run.duration_s|workload.phases",
                    "%g s make more than %d intervals of this run; a longer run.interval_s, or a "
                    "shorter run, is expected",
                    sim->scenario->interval_s, INTERVALS_MAX);
}

/* Intervals end at multiples of run.interval_s, and where a phase does. */
static kvt_status schedule_interval(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_ns end_ns = (sim->now_ns / sim->interval_ns + 1) * sim->interval_ns;
    struct kvt_event next;

    if (++sim->interval_count > INTERVALS_MAX)
        return fail_too_many_intervals(sim, err);
    /* Nobody is served and nothing happens until then: one long interval, not many empty ones. */
    if (sim->in_flight == 0 && kvt_eventq_peek(sim->events, &next) && next.time_ns > end_ns)
        end_ns = next.time_ns / sim->interval_ns * sim->interval_ns;
    return sim_push(sim, phase_edge_before(sim, end_ns), KVT_PHASE_OBSERVE, EVENT_INTERVAL, 0, 0,
                    err);
}

kvt_status sim_books_open(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;

    sim->interval_ns = (kvt_ns)llround(scenario->interval_s * (double)KVT_NS_PER_S);
    if (sim->end_ns != KVT_NS_NEVER && sim->end_ns / sim->interval_ns > INTERVALS_MAX)
        return fail_too_many_intervals(sim, err);
    sim->run.first_wave = sim->arrival->first_wave(sim->source);
    sim->warmup_ns = scenario->warmup_rule == KVT_WARMUP_NONE ? 0 : KVT_NS_NEVER;
    if (scenario->warmup_rule == KVT_WARMUP_SECONDS)
        sim->warmup_ns = (kvt_ns)llround(scenario->warmup_value * (double)KVT_NS_PER_S);
    sim->run.phase_count = sim->arrival->phase_count(sim->source);
    if (sim->run.phase_count > KVT_PHASES_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "workload.phases",
                        "%u phases; this version reports on at most %d", sim->run.phase_count,
                        KVT_PHASES_MAX);
    kvt_status opened = sim_course_open(&sim->course, err);
    if (opened != KVT_OK)
        return opened;
    sim->run.itl = kvt_histogram_new();
    if (!sim->run.itl)
        return kvt_fail_nomem(err, "the histogram of gaps between tokens");
    for (uint32_t p = 0; p < sim->run.phase_count; p++) {
        sim->run.phase_itl[p] = kvt_histogram_new();
        if (!sim->run.phase_itl[p])
            return kvt_fail_nomem(err, "the histogram of gaps between tokens");
    }
    sim->run.post_wave_itl = kvt_histogram_new();
    if (!sim->run.post_wave_itl)
        return kvt_fail_nomem(err, "the histogram of gaps between tokens");
    sim->run.stratum_count = sim->backend->ops->strata(sim->backend, sim->run.strata);
    return sim->warmup_ns > 0
               ? sim_push(sim, sim->warmup_ns, KVT_PHASE_OBSERVE, EVENT_WARMUP, 0, 0, err)
               : KVT_OK;
}

kvt_status sim_books_begin(struct kvt_sim *sim, struct kvt_error *err)
{
    return schedule_interval(sim, err);
}

void sim_books_close(struct kvt_sim *sim)
{
    kvt_histogram_free(sim->run.itl);
    kvt_histogram_free(sim->run.post_wave_itl);
    for (uint32_t p = 0; p < KVT_PHASES_MAX; p++)
        kvt_histogram_free(sim->run.phase_itl[p]);
    sim_course_close(&sim->course);
    free(sim->intervals);
}

/* Requests that wait on ranks whose node had no DRAM for them at the last boundary. */
static uint64_t waiting_for_host(const struct kvt_sim *sim)
{
    uint64_t waiting = 0;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        if (sim->ranks[r].host_short)
            waiting += sim->ranks[r].waiting.count;
    }
    return waiting;
}

static uint64_t imports_under_way(const struct kvt_sim *sim)
{
    uint64_t imports = 0;

    for (uint32_t r = 0; r < sim->rank_count; r++)
        imports += sim->ranks[r].imports_under_way;
    return imports;
}

void sim_books_advance(struct kvt_sim *sim)
{
    double ns = (double)(sim->now_ns - sim->booked_ns);
    uint64_t ready_rows = 0, eligible_rows = 0;

    if (ns <= 0)
        return;
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        ready_rows += sim->ranks[r].ready_rows;
        eligible_rows += sim->ranks[r].eligible_rows;
    }
    sim->tally.running_ns += ns * (double)sim->decoding;
    sim->tally.waiting_ns += ns * (double)(sim->waiting - sim->prefilling);
    sim->tally.prefilling_ns += ns * (double)(sim->prefilling + sim->computing);
    sim->tally.host_short_ns += ns * (double)waiting_for_host(sim);
    if (sim->faults.down_count == sim->rank_count)
        sim->tally.no_rank_ns += ns * (double)(sim->waiting - sim->prefilling);
    sim->tally.prefill_busy_ns += ns * (double)sim->prefill.busy;
    sim->tally.import_busy_ns += ns * (double)imports_under_way(sim);
    sim->tally.importing_ns += ns * (double)(sim->importing - sim->computing);
    sim->tally.held_ns += ns * (double)(sim->importing + sim->decoding);
    for (uint32_t g = 0; g < sim->group_count; g++) {
        if (sim->groups[g].stepping)
            sim->tally.pool_busy_ns[sim->groups[g].pool] += ns * (double)sim->groups[g].rank_count;
    }
    sim->tally.down_ns += ns * (double)sim->faults.down_count;
    double covered = eligible_rows > 0 ? 1 : 0;
    double coverage = eligible_rows > 0 ? (double)ready_rows / (double)eligible_rows : 0;
    sim->tally.coverage_ns += ns * coverage;
    sim->tally.covered_ns += ns * covered;
    const double values[COURSE_QUANTITIES] = {[COURSE_RUNNING] = (double)sim->decoding,
                                              [COURSE_COVERAGE] = coverage,
                                              [COURSE_COVERED] = covered};
    sim_course_add(&sim->course, sim->booked_ns, sim->now_ns, values);
    sim->booked_ns = sim->now_ns;
    sim->tally.to_ns = sim->now_ns;
}

/* Bytes of HBM and of its link are per GPU of the rank; bytes of host DRAM are per
 * copy that the node keeps. */
static void collect_rank(struct kvt_tally *tally, struct kvt_rank *rank, uint64_t gpus)
{
    uint64_t copies = rank->memory.host_copies;
    struct kvt_rank_counters *counters = &rank->counters;

    tally->admitted += counters->admitted;
    tally->input_tokens += counters->admitted_input_tokens;
    tally->preemptions += counters->preemptions;
    tally->prefix_hit_tokens += counters->prefix_hit_tokens;
    tally->reprefill_tokens += counters->reprefill_tokens;
    tally->import_hbm_bytes += gpus * counters->import_hbm_bytes;
    tally->import_host_bytes += copies * counters->import_host_bytes;
    tally->pages_filled += counters->pages_filled;
    tally->pages_released += counters->pages_released;
    tally->pages_landed += counters->pages_landed;
    tally->pages_kept += counters->pages_kept;
    tally->backups_forced += counters->backup_forced;
    tally->resizes += counters->resizes;
    tally->demotions += counters->demotions;
    tally->fill_bytes += gpus * counters->fill_bytes;
    tally->recall_bytes += gpus * counters->recalled_bytes;
    tally->d2h_bytes += copies * counters->backup_bytes;
    *counters = (struct kvt_rank_counters){0};
}

void sim_books_collect(struct kvt_sim *sim)
{
    uint64_t hbm_bytes = 0, host_bytes = 0, by_class[KVT_MEM_CLASSES] = {0};

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        struct kvt_rank *rank = &sim->ranks[r];
        uint64_t gpus = sim_gpus_of(sim, r);
        collect_rank(&sim->tally, rank, gpus);
        hbm_bytes += gpus * kvt_rank_memory_used(&rank->memory);
        for (int c = 0; c < KVT_MEM_CLASSES; c++)
            by_class[c] += gpus * rank->memory.used_by_class[c];
    }
    for (uint32_t h = 0; h < sim->host_count; h++)
        host_bytes += sim->hosts[h].used_bytes;
    if (hbm_bytes > sim->tally.hbm_peak_bytes) {
        sim->tally.hbm_peak_bytes = hbm_bytes;
        memcpy(sim->tally.hbm_peak_by_class, by_class, sizeof by_class);
    }
    if (host_bytes > sim->tally.host_peak_bytes)
        sim->tally.host_peak_bytes = host_bytes;
}

/* The rule `requests`: the warm-up is over once so many have finished. */
static void end_warmup_if_due(struct kvt_sim *sim)
{
    const struct kvt_scenario *scenario = sim->scenario;

    if (scenario->warmup_rule == KVT_WARMUP_REQUESTS && sim->warmup_ns == KVT_NS_NEVER &&
        (double)sim->completed >= scenario->warmup_value)
        sim->warmup_ns = sim->now_ns;
    if (sim->warmup_ns == sim->now_ns)
        sim->backend->ops->restart_sampling(sim->backend);
}

/* The best rate of any interval but the shortest scraps. */
static void note_best_interval(struct kvt_sim *sim)
{
    kvt_ns ns = sim->tally.to_ns - sim->tally.from_ns;
    double rate = (double)sim->tally.output_tokens / ((double)ns / 1e9);

    if (2 * ns >= sim->interval_ns && rate > sim->run.max_output_tokens_per_s)
        sim->run.max_output_tokens_per_s = rate;
}

/* What tells later how the run went from one load to another. */
static kvt_status keep_interval(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_tally *tally = &sim->tally;

    if (sim->run.phase_count < 2)
        return KVT_OK;
    if (sim->run.interval_count == sim->interval_capacity) {
        size_t capacity = sim->interval_capacity ? sim->interval_capacity * 2 : 1024;
        struct kvt_interval *intervals = realloc(sim->intervals, capacity * sizeof *sim->intervals);
        if (!intervals)
            return kvt_fail_nomem(err, "the intervals of a run");
        sim->intervals = intervals;
        sim->interval_capacity = capacity;
    }
    sim->intervals[sim->run.interval_count++] = (struct kvt_interval){
        .from_ns = tally->from_ns,
        .to_ns = tally->to_ns,
        .coverage = tally->covered_ns > 0 ? tally->coverage_ns / tally->covered_ns : (double)NAN,
        .mean_itl_ms =
            tally->itl_count > 0 ? tally->itl_ns * 1e-6 / (double)tally->itl_count : (double)NAN,
        .pages_released = tally->pages_released};
    return KVT_OK;
}

kvt_status sim_books_cut(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    struct kvt_tally *tally = &sim->tally;

    sim_books_collect(sim);
    if (tally->to_ns > tally->from_ns) {
        if (sim->warmup_ns != KVT_NS_NEVER && tally->from_ns >= sim->warmup_ns) {
            uint32_t phase = sim->arrival->phase_at(sim->source, tally->from_ns);
            kvt_tally_merge(&sim->run.total, tally);
            kvt_tally_merge(&sim->run.phases[phase], tally);
            note_best_interval(sim);
            status = keep_interval(sim, err);
        }
        if (sim->options.on_interval)
            sim->options.on_interval(sim->options.interval_context, tally, sim->run.stratum_count);
    }
    end_warmup_if_due(sim);
    *tally = (struct kvt_tally){.from_ns = sim->now_ns, .to_ns = sim->now_ns};
    return status;
}

kvt_status sim_books_interval(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = sim_books_cut(sim, err);
    return status == KVT_OK ? schedule_interval(sim, err) : status;
}

/* Time means over the central half of [from, to). */
static void central_half(const struct kvt_sim *sim, kvt_ns from_ns, kvt_ns to_ns, double *active,
                         double *coverage)
{
    double low = (double)from_ns + 0.25 * (double)(to_ns - from_ns);
    double high = (double)from_ns + 0.75 * (double)(to_ns - from_ns);
    double integrals[COURSE_QUANTITIES];

    sim_course_integrate(&sim->course, low, high, integrals);
    *active = high > low ? integrals[COURSE_RUNNING] / (high - low) : NAN;
    *coverage = integrals[COURSE_COVERED] > 0
                    ? integrals[COURSE_COVERAGE] / integrals[COURSE_COVERED]
                    : NAN;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Those of the ranks of one node, which share its DRAM; and with hot caches twice as large. */
static kvt_status count_node_slots(struct kvt_sim *sim, uint32_t host, uint32_t input,
                                   uint32_t longest, struct kvt_error *err)
{
    struct kvt_run *run = &sim->run;
    uint64_t by_pools = 0, by_host = 0, of_twice_hot = 0;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        uint64_t slots[2], twice[2];
        if (sim->ranks[r].env.host != &sim->hosts[host])
            continue;
        kvt_status status =
            kvt_rank_slots_by_pool(&sim->ranks[r], input, longest, 1, slots, &by_host, err);
        if (status == KVT_OK)
            status = kvt_rank_slots_by_pool(&sim->ranks[r], input, longest, 2, twice, NULL, err);
        if (status != KVT_OK)
            return status;
        by_pools = plus(by_pools, smaller(slots[0], slots[1]));
        of_twice_hot = plus(of_twice_hot, smaller(twice[0], twice[1]));
        run->slots_by.pool[0] = plus(run->slots_by.pool[0], slots[0]);
        run->slots_by.pool[1] = plus(run->slots_by.pool[1], slots[1]);
    }
    run->slots += smaller(by_pools, by_host);
    run->slots_by.host = plus(run->slots_by.host, by_host);
    if (sim->ranks[0].hot_tokens > 0)
        run->slots_of_twice_hot += smaller(of_twice_hot, by_host);
    return KVT_OK;
}

/* Slots for requests of the workload's mean input: what fits the pools of each rank,
 * and at most what fits the DRAM of its node. */
static kvt_status count_slots(struct kvt_sim *sim, struct kvt_error *err)
{
    uint64_t tokens = 0, requests = 0;

    for (size_t i = 0; i < sim->record_count; i++) {
        bool served = sim->records[i].status != KVT_REQUEST_UNSERVABLE;
        tokens += served ? sim->records[i].input_tokens : 0;
        requests += served;
    }
    if (requests == 0)
        return KVT_OK;
    uint32_t input = (uint32_t)llround((double)tokens / (double)requests);
    uint32_t longest = sim_longest_context(sim, input, 0);
    for (uint32_t h = 0; h < sim->host_count; h++) {
        kvt_status status = count_node_slots(sim, h, input, longest, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* arrived = completed + running + waiting + dropped, and rows are where they were found. */
static kvt_status check_conservation(const struct kvt_sim *sim, struct kvt_error *err)
{
    uint64_t by_status[KVT_REQUEST_STATUSES] = {0};

    for (size_t i = 0; i < sim->record_count; i++)
        by_status[sim->records[i].status]++;
    if (by_status[KVT_REQUEST_IMPORTING] + sim->computing != sim->importing ||
        by_status[KVT_REQUEST_RUNNING] != sim->decoding ||
        by_status[KVT_REQUEST_WAITING] + by_status[KVT_REQUEST_PREFILLING] !=
            sim->waiting + sim->computing ||
        sim->waiting + sim->importing + sim->decoding != sim->in_flight)
        return kvt_fail(err, KVT_ERR_INTERNAL, sim->scenario->name,
                        "requests were lost: arrived is not completed + running + waiting + "
                        "dropped");
    for (uint32_t s = 0; s < sim->run.stratum_count; s++) {
        if (!kvt_row_counts_conserve(&sim->run.total.rows[s]))
            return kvt_fail(err, KVT_ERR_INTERNAL, sim->scenario->name,
                            "rows were lost: selected is not tail + page + hot + missed");
    }
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        if (!kvt_rank_is_sane(&sim->ranks[r], sim->now_ns))
            return kvt_fail(err, KVT_ERR_INTERNAL, sim->scenario->name,
                            "rank %u: bytes held and bytes used do not agree, or a row has no home",
                            r);
    }
    return KVT_OK;
}

/* What requests that have not ended have read so far. */
static void record_unfinished(struct kvt_sim *sim)
{
    for (size_t i = 0; i < sim->record_count; i++) {
        const struct kvt_live *live = sim->live[i];
        if (!live)
            continue;
        sim->records[i].selected_rows = live->selected_rows;
        sim->records[i].missed_rows = live->missed_rows;
        sim_end_tokens(sim, live);
    }
}

static kvt_ns phase_edge(const struct kvt_sim *sim, uint32_t phase, bool end)
{
    const struct kvt_tally *tally = &sim->run.phases[phase];
    return end ? tally->to_ns : tally->from_ns;
}

static enum kvt_basis acceptance_basis(const struct kvt_sim *sim)
{
    struct kvt_speculation_shape shape;

    sim->speculation->shape(sim->speculation_data, &shape);
    return shape.queries_max > 1 ? shape.basis : KVT_BASIS_EXACT;
}

static enum kvt_basis timing_basis(const struct group *group)
{
    return group->timing->basis_of ? group->timing->basis_of(group->timing_state)
                                   : group->timing->basis;
}

/* What was most often out of range; of equals the first. Solved instead, a run has said so. */
static void describe_outside(struct kvt_sim *sim)
{
    uint64_t most = 0;

    if (sim->run.analytic)
        return;
    for (uint32_t i = 0; i < sim->outside_count; i++) {
        if (sim->outside[i].steps <= most)
            continue;
        most = sim->outside[i].steps;
        sim->run.outside = sim->outside[i].first;
    }
    sim->run.says_outside = most > 0 && sim->run.total.extrapolated_steps > 0;
}

void sim_books_describe(struct kvt_sim *sim)
{
    struct kvt_run *run = &sim->run;

    run->scenario = sim->scenario;
    run->gpus = sim->gpus;
    run->ranks = sim->rank_count;
    run->decision_hash = sim->decisions;
    run->added_basis = timing_basis(&sim->groups[0]);
    run->timing_basis =
        sim->scenario->clock == KVT_CLOCK_MEASURED ? KVT_BASIS_MEASURED : run->added_basis;
    run->import_basis = sim->ranks[0].import->basis;
    run->acceptance_basis = acceptance_basis(sim);
    run->needs = sim->ranks[0].needs;
    run->times_read_hardware = !run->analytic && sim->groups[0].timing->reads_hardware;
    for (uint32_t r = 0; r < sim->rank_count; r++)
        run->import_servers += sim->ranks[r].import->servers(sim->ranks[r].import_state);
    run->is_bound = kvt_choice_has(&sim->scenario->residency, KVT_CLAIRVOYANT) ||
                    kvt_choice_has(&sim->scenario->replacement, KVT_CLAIRVOYANT);
    run->law_basis = ((const struct kvt_law *)(const void *)sim->scenario->selection.info)->basis;
}

kvt_status sim_books_finish(struct kvt_sim *sim, bool interrupted, struct kvt_error *err)
{
    struct kvt_run *run = &sim->run;
    kvt_status status = sim_books_cut(sim, err);
    if (status == KVT_OK)
        status = check_conservation(sim, err);
    if (status == KVT_OK)
        status = count_slots(sim, err);
    if (status != KVT_OK)
        return status;
    record_unfinished(sim);
    run->records = sim->records;
    run->record_count = sim->record_count;
    run->closed_loop = sim->arrival->closed_loop;
    run->end_ns = sim->now_ns;
    run->warmup_ns = sim->warmup_ns == KVT_NS_NEVER ? sim->now_ns : sim->warmup_ns;
    central_half(sim, run->warmup_ns, run->end_ns, &run->active_mean, &run->coverage_mean);
    for (uint32_t p = 0; p < run->phase_count; p++)
        central_half(sim, phase_edge(sim, p, false), phase_edge(sim, p, true),
                     &run->phase_active_mean[p], &run->phase_coverage_mean[p]);
    sim->backend->ops->sampling(sim->backend, &run->sampling);
    sim_books_describe(sim);
    describe_outside(sim);
    for (uint32_t p = 0; p < run->phase_count; p++)
        run->phase_load[p] = sim->arrival->phase_load
                                 ? (double)sim->arrival->phase_load(sim->source, p)
                                 : (double)NAN;
    run->intervals = sim->intervals;
    run->law_description = sim->backend->ops->describe(sim->backend);
    run->runs_drafts = kvt_backend_runs_drafts(sim->backend);
    if (sim->backend->ops->proof)
        sim->backend->ops->proof(sim->backend, &run->proof);
    if (sim->backend->ops->finish) {
        status = sim->backend->ops->finish(sim->backend, err);
        if (status != KVT_OK)
            return status;
    }
    run->account = sim->arrival->account(sim->source);
    run->events = sim->event_count;
    run->tied_events = kvt_eventq_ties(sim->events);
    run->stopped_early = sim->in_flight > 0 || !sim->source_ended;
    run->interrupted = interrupted;
    return KVT_OK;
}
