/* sim_faults.c -- what fails, who is interrupted, where they go, and when all is well again.
 *
 *     fault:   ranks that it hits are down, their HBM is gone; a step under way delivers nothing
 *              from them, and imports to them end nowhere
 *              everybody who was there goes, in order of arrival, where the router sends him: with
 *              rows left on host, to a rank of their node as long as one is up; else elsewhere,
 *              without them; where none is up he waits for one
 *     repair:  ranks come back empty; who waited for one goes there. Nobody is moved
 *     decodes: once all that a fault interrupted decode again or have ended, it is recovered from
 *
 * Who was interrupted goes before those who wait. */
#include <stdlib.h>

#include "kvt/hash.h"
#include "kvt/order.h"
#include "kvt/rng.h"
#include "sim_private.h"

/* ---- Opening ------------------------------------------------------------------------ */

kvt_status sim_faults_open(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    struct faults *faults = &sim->faults;
    kvt_status status = KVT_OK;

    if (scenario->fault_count == 0)
        return KVT_OK;
    faults->down = calloc(sim->rank_count, sizeof *faults->down);
    faults->link_factor = calloc(sim->rank_count, sizeof *faults->link_factor);
    faults->reports = calloc(scenario->fault_count, sizeof *faults->reports);
    if (!faults->down || !faults->link_factor || !faults->reports)
        return kvt_fail_nomem(err, "what fails in a run");
    for (uint32_t r = 0; r < sim->rank_count; r++)
        faults->link_factor[r] = 1;
    for (uint32_t g = 0; g < sim->group_count; g++)
        sim->groups[g].link_factor = &faults->link_factor[sim->groups[g].first_rank];
    for (uint32_t i = 0; i < scenario->fault_count && status == KVT_OK; i++) {
        const struct kvt_fault *fault = &scenario->faults[i];
        faults->reports[i] = (struct kvt_fault_report){.fault = fault,
                                                       .which = fault->which,
                                                       .recovered_ns = KVT_NS_NEVER,
                                                       .full_ns = KVT_NS_NEVER};
        status = sim_push(sim, fault->at_ns, KVT_PHASE_ARRIVE, EVENT_FAULT, i, 0, err);
    }
    sim->run.faults = faults->reports;
    sim->run.fault_count = scenario->fault_count;
    return status;
}

void sim_faults_close(struct kvt_sim *sim)
{
    free(sim->faults.down);
    free(sim->faults.link_factor);
    free(sim->faults.reports);
    free(sim->faults.homeless);
    free(sim->faults.leaving);
}

bool sim_is_down(const struct kvt_sim *sim, uint32_t rank)
{
    return sim->faults.down != NULL && sim->faults.down[rank] > 0;
}

/* ---- What is hit ------------------------------------------------------------------- */

static bool hits(const struct kvt_sim *sim, const struct kvt_fault_report *report, uint32_t rank)
{
    return kvt_fault_hits(sim->scenario, report->fault, report->which, rank);
}

/* Whether a rank, node or link could be hit: something of it is up. *requests: that are there. */
static bool is_candidate(const struct kvt_sim *sim, const struct kvt_fault *fault, uint32_t which,
                         uint64_t *requests)
{
    struct kvt_fault alone = *fault;
    bool is_up = false;

    alone.group = KVT_FAULT_GROUP_GOES_ON;
    *requests = 0;
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        const struct kvt_rank *rank = &sim->ranks[r];
        if (!kvt_fault_hits(sim->scenario, &alone, which, r) || sim_is_down(sim, r))
            continue;
        is_up = true;
        *requests += (uint64_t)rank->running.count + rank->arrived.count + rank->importing.count;
    }
    return is_up;
}

/* report->which; false where there is nothing to hit. */
static bool choose(struct kvt_sim *sim, uint32_t index)
{
    struct kvt_fault_report *report = &sim->faults.reports[index];
    const struct kvt_fault *fault = report->fault;
    uint32_t count = fault->kind == KVT_FAULT_NODE ? sim->host_count : sim->rank_count;
    uint64_t requests, most = 0, candidates = 0;

    if (fault->target == KVT_FAULT_NAMED || fault->kind == KVT_FAULT_PREFILL)
        return true;
    for (uint32_t w = 0; w < count; w++) {
        if (!is_candidate(sim, fault, w, &requests))
            continue;
        if (candidates++ == 0 || requests > most) {
            report->which = w;
            most = requests;
        }
    }
    if (candidates == 0 || fault->target == KVT_FAULT_BUSIEST)
        return candidates > 0;
    struct kvt_rng rng = kvt_rng_stream(sim->scenario->seed, KVT_RNG_FAULT, index);
    uint64_t left = kvt_rng_below(&rng, candidates);
    for (uint32_t w = 0; w < count; w++) {
        if (is_candidate(sim, fault, w, &requests) && left-- == 0)
            report->which = w;
    }
    return true;
}

/* ---- Who leaves ------------------------------------------------------------------- */

static kvt_status append(struct kvt_live ***list, size_t *count, size_t *capacity,
                         struct kvt_live *live, struct kvt_error *err)
{
    if (*count == *capacity) {
        size_t more = *capacity ? *capacity * 2 : 64;
        struct kvt_live **items = realloc(*list, more * sizeof(struct kvt_live *));
        if (!items)
            return kvt_fail_nomem(err, "requests that have lost their rank");
        *list = items;
        *capacity = more;
    }
    (*list)[(*count)++] = live;
    return KVT_OK;
}

static int by_arrival(const void *a, const void *b)
{
    const struct kvt_live *one = *(struct kvt_live *const *)a,
                          *other = *(struct kvt_live *const *)b;
    return (one->id > other->id) - (one->id < other->id);
}

/* It stands where it stood before it was let in, and belongs to the fault until it decodes. */
static void interrupt(struct kvt_sim *sim, uint32_t index, struct kvt_live *live)
{
    struct kvt_fault_report *report = &sim->faults.reports[index];
    struct kvt_request_record *record = &sim->records[live->id];

    live->epoch++;
    record->status = KVT_REQUEST_WAITING;
    if (record->interruptions < UINT16_MAX)
        record->interruptions++;
    sim->tally.interrupted++;
    if (live->fault == 0) { /* else an earlier one still waits for it */
        live->fault = index + 1;
        report->outstanding++;
    }
}

static void interrupt_decoding(struct kvt_sim *sim, uint32_t index, struct kvt_live *live)
{
    struct kvt_fault_report *report = &sim->faults.reports[index];
    bool steps = sim->groups[sim->group_of[sim->records[live->id].rank]].stepping;

    if (steps) {
        report->step_tokens += sim_round_delivery(live);
        sim->tally.lost_tokens += sim_round_delivery(live);
    }
    if (live->has_lane)
        sim->backend->ops->release(sim->backend, live->id, &sim->decisions);
    live->has_lane = false;
    sim->decoding--;
    sim->waiting++;
    report->running++;
    report->context_tokens += kvt_live_context(live);
    interrupt(sim, index, live);
}

static void interrupt_importing(struct kvt_sim *sim, uint32_t index, struct kvt_live *live)
{
    struct kvt_fault_report *report = &sim->faults.reports[index];

    if (sim->records[live->id].status == KVT_REQUEST_PREFILLING)
        sim->computing--;
    sim->importing--;
    sim->waiting++;
    sim_wait(sim, live, KVT_WAIT_QUEUE);
    report->importing++;
    report->context_tokens += kvt_live_context(live);
    interrupt(sim, index, live);
}

/* Everybody on the rank, into faults->leaving behind those who are there. */
static kvt_status gather(struct kvt_sim *sim, uint32_t index, uint32_t r, struct kvt_error *err)
{
    struct faults *faults = &sim->faults;
    const struct kvt_rank *rank = &sim->ranks[r];
    const struct kvt_live_list *decoding[] = {&rank->running, &rank->arrived};
    kvt_status status = KVT_OK;

    for (size_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < decoding[l]->count && status == KVT_OK; i++) {
            struct kvt_live *live = decoding[l]->items[i];
            interrupt_decoding(sim, index, live);
            status = append(&faults->leaving, &faults->leaving_count, &faults->leaving_capacity,
                            live, err);
        }
    }
    for (uint32_t i = 0; i < rank->importing.count && status == KVT_OK; i++) {
        struct kvt_live *live = rank->importing.items[i];
        interrupt_importing(sim, index, live);
        status =
            append(&faults->leaving, &faults->leaving_count, &faults->leaving_capacity, live, err);
    }
    for (uint32_t i = 0; i < rank->waiting.count && status == KVT_OK; i++) {
        faults->reports[index].waiting++;
        faults->reports[index].context_tokens += rank->waiting.items[i]->aside_tokens;
        status = append(&faults->leaving, &faults->leaving_count, &faults->leaving_capacity,
                        rank->waiting.items[i], err);
    }
    return status;
}

/* A group of which no rank is left steps no further. */
static void end_step_of(struct kvt_sim *sim, struct group *group)
{
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        if (!sim_is_down(sim, r))
            return;
    }
    group->stepping = false;
}

/* One rank goes down; who was there is behind `first` in faults->leaving, in order of arrival. */
static kvt_status take_down(struct kvt_sim *sim, uint32_t index, uint32_t r, struct kvt_error *err)
{
    struct faults *faults = &sim->faults;
    struct kvt_fault_report *report = &faults->reports[index];
    const struct kvt_rank_fate fate = {report->fault->keeps_host, report->fault->keeps_index};
    struct kvt_rank_loss loss = {0};
    size_t first = faults->leaving_count;

    if (faults->down[r]++ > 0)
        return KVT_OK;
    faults->down_count++;
    report->ranks++;
    kvt_status status = gather(sim, index, r, err);
    if (status != KVT_OK)
        return status;
    size_t count = faults->leaving_count - first;
    if (count > 0)
        qsort(faults->leaving + first, count, sizeof(struct kvt_live *), by_arrival);
    status = kvt_rank_lose(&sim->ranks[r], sim->now_ns, &fate, faults->leaving + first,
                           (uint32_t)count, &loss, err);
    for (size_t i = first; i < faults->leaving_count; i++)
        report->kept_tokens += faults->leaving[i]->aside_tokens;
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        report->hbm_bytes[c] += loss.hbm_bytes[c];
    report->host_lost_bytes += loss.host_bytes;
    report->host_kept_bytes += loss.host_kept_bytes;
    report->prefix_pages += loss.prefix_pages;
    end_step_of(sim, &sim->groups[sim->group_of[r]]);
    return status;
}

/* ---- Where they go ----------------------------------------------------------------- */

kvt_status sim_shelter(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    struct faults *faults = &sim->faults;

    sim_wait(sim, live, KVT_WAIT_QUEUE);
    return append(&faults->homeless, &faults->homeless_count, &faults->homeless_capacity, live,
                  err);
}

/* Those who were interrupted from the last one to the first, each before those who wait; then the
 * others in order. */
static kvt_status place_all(struct kvt_sim *sim, struct kvt_live **requests, size_t count,
                            struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (count > 0)
        qsort(requests, count, sizeof(struct kvt_live *), by_arrival);
    for (size_t i = count; i-- > 0 && status == KVT_OK;) {
        if (requests[i]->fault > 0)
            status = sim_place(sim, requests[i], err);
    }
    for (size_t i = 0; i < count && status == KVT_OK; i++) {
        if (requests[i]->fault == 0)
            status = sim_place(sim, requests[i], err);
    }
    return status;
}

/* ---- Ranks and nodes ---------------------------------------------------------------- */

/* A node's DRAM is gone, and with it what requests that are underway to one of its ranks had kept
 * there of an earlier fault. */
static void forget_copies(struct kvt_sim *sim, uint32_t index)
{
    for (size_t i = 0; i < sim->record_count; i++) {
        struct kvt_live *live = sim->live[i];
        if (live && live->aside_tokens > 0 &&
            hits(sim, &sim->faults.reports[index], sim->records[i].rank))
            kvt_rank_forget_copy(&sim->ranks[sim->records[i].rank], live);
    }
}

static kvt_status fail_ranks(struct kvt_sim *sim, uint32_t index, struct kvt_error *err)
{
    struct faults *faults = &sim->faults;
    kvt_status status = KVT_OK;

    faults->leaving_count = 0;
    for (uint32_t r = 0; r < sim->rank_count && status == KVT_OK; r++) {
        if (hits(sim, &faults->reports[index], r))
            status = take_down(sim, index, r, err);
    }
    if (status == KVT_OK && faults->reports[index].fault->kind == KVT_FAULT_NODE)
        forget_copies(sim, index);
    if (status == KVT_OK)
        status = place_all(sim, faults->leaving, faults->leaving_count, err);
    for (uint32_t r = 0; r < sim->rank_count && status == KVT_OK; r++) {
        if (hits(sim, &faults->reports[index], r)) /* host DRAM has come free */
            status = sim_wake_node(sim, r, err);
    }
    return status;
}

static kvt_status repair_ranks(struct kvt_sim *sim, uint32_t index, struct kvt_error *err)
{
    struct faults *faults = &sim->faults;
    struct kvt_live **homeless = faults->homeless;
    size_t count = faults->homeless_count;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        if (hits(sim, &faults->reports[index], r) && --faults->down[r] == 0)
            faults->down_count--;
    }
    /* Some may find no rank that could hold them, and come back here. */
    faults->homeless = NULL;
    faults->homeless_count = faults->homeless_capacity = 0;
    kvt_status status = place_all(sim, homeless, count, err);
    free(homeless);
    return status;
}

/* ---- Links ------------------------------------------------------------------------- */

/* From what is wrong with it now. */
static void set_links(struct kvt_sim *sim)
{
    struct faults *faults = &sim->faults;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        double factor = 1;
        for (uint32_t i = 0; i < sim->scenario->fault_count; i++) {
            const struct kvt_fault_report *report = &faults->reports[i];
            bool is_over = report->fault->back_ns != KVT_NS_NEVER &&
                           report->fault->at_ns + report->fault->back_ns <= sim->now_ns;
            if (report->has_struck && !is_over && report->fault->kind == KVT_FAULT_LINK &&
                report->which == r)
                factor *= report->fault->bandwidth_factor;
        }
        if (factor == faults->link_factor[r])
            continue;
        faults->link_factor[r] = factor;
        kvt_rank_set_link(&sim->ranks[r], factor);
    }
}

/* ---- Prefill servers ----------------------------------------------------------------- */

/* Of the prompts that are being computed elsewhere, the one begun last. */
static struct kvt_live *newest_prompt(const struct kvt_sim *sim)
{
    struct kvt_live *newest = NULL;

    for (size_t i = 0; i < sim->record_count; i++) {
        struct kvt_live *live = sim->live[i];
        if (live && sim->records[i].status == KVT_REQUEST_PREFILLING &&
            (!newest || live->prefill_turn > newest->prefill_turn))
            newest = live;
    }
    return newest;
}

/* Idle servers go first; then those whose prompts were begun last, which begin again. */
static kvt_status fail_servers(struct kvt_sim *sim, uint32_t index, struct kvt_error *err)
{
    struct prefill *prefill = &sim->prefill;
    kvt_status status = KVT_OK;

    prefill->failed += sim->faults.reports[index].fault->servers;
    while (prefill->busy > sim->scenario->prefill.servers - prefill->failed && status == KVT_OK) {
        struct kvt_live *live = newest_prompt(sim);
        sim_leave_prefill(sim, live);
        sim->faults.reports[index].prefilling++;
        interrupt(sim, index, live);
        live->counted_pages = 0;
        sim->decisions = kvt_chain64(sim->decisions, (uint64_t)index << 32 | live->id);
        status = sim_queue_prefill(sim, live, err);
    }
    return status;
}

/* ---- Events ------------------------------------------------------------------------- */

kvt_status sim_on_fault(struct kvt_sim *sim, uint32_t index, struct kvt_error *err)
{
    struct kvt_fault_report *report = &sim->faults.reports[index];
    const struct kvt_fault *fault = report->fault;
    kvt_status status = KVT_OK;

    if (!choose(sim, index))
        return KVT_OK;
    report->has_struck = true;
    report->decoding = sim->decoding;
    sim->tally.faults++;
    sim->decisions = kvt_chain64(sim->decisions, (uint64_t)index << 32 | report->which);
    if (fault->kind == KVT_FAULT_LINK)
        set_links(sim);
    else if (fault->kind == KVT_FAULT_PREFILL)
        status = fail_servers(sim, index, err);
    else
        status = fail_ranks(sim, index, err);
    if (report->outstanding == 0)
        report->recovered_ns = sim->now_ns;
    if (sim->decoding >= report->decoding)
        report->full_ns = sim->now_ns;
    if (status == KVT_OK && fault->back_ns != KVT_NS_NEVER)
        status = sim_push(sim, sim_after(sim, fault->back_ns), KVT_PHASE_ARRIVE, EVENT_REPAIR,
                          index, 0, err);
    return status;
}

kvt_status sim_on_repair(struct kvt_sim *sim, uint32_t index, struct kvt_error *err)
{
    const struct kvt_fault *fault = sim->faults.reports[index].fault;

    sim->decisions = kvt_chain64(sim->decisions, ~((uint64_t)index << 32));
    if (fault->kind == KVT_FAULT_LINK) {
        set_links(sim);
        return KVT_OK;
    }
    if (fault->kind != KVT_FAULT_PREFILL)
        return repair_ranks(sim, index, err);
    sim->prefill.failed -= fault->servers;
    return sim_begin_prefills(sim, err);
}

void sim_note_decoding(struct kvt_sim *sim, struct kvt_live *live)
{
    struct kvt_fault_report *reports = sim->faults.reports;

    if (live->fault > 0) {
        struct kvt_fault_report *report = &reports[live->fault - 1];
        live->fault = 0;
        if (--report->outstanding == 0)
            report->recovered_ns = sim->now_ns;
    }
    for (uint32_t i = 0; reports && i < sim->scenario->fault_count; i++) {
        if (reports[i].has_struck && reports[i].full_ns == KVT_NS_NEVER &&
            sim->decoding >= reports[i].decoding)
            reports[i].full_ns = sim->now_ns;
    }
}

kvt_status sim_diagnose_homeless(const struct kvt_sim *sim, struct kvt_error *err)
{
    return kvt_fail(
        err, KVT_ERR_STALLED, sim->scenario->name,
        "stalled after %.3f s: %zu requests wait for a rank that could serve them, %u of "
        "%u ranks have failed, and none comes back: give back_after_s in "
        "cluster.faults, or run.duration_s to have it counted",
        (double)sim->now_ns / (double)KVT_NS_PER_S, sim->faults.homeless_count,
        sim->faults.down_count, sim->rank_count);
}
