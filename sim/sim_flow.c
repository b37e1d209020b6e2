/* sim_flow.c -- what happens to a request outside the decode step, but for its way to a rank:
 * arrival, import, first token, end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/clock.h"
#include "kvt/hash.h"
#include "sim_private.h"

enum {
    DROPS_IN_A_ROW_MAX = 1 << 16
};

kvt_status sim_push(struct kvt_sim *sim, kvt_ns time_ns, enum kvt_phase phase, enum event_kind kind,
                    uint32_t target, uint64_t payload, struct kvt_error *err)
{
    struct kvt_event event = {.time_ns = time_ns,
                              .phase = (uint16_t)phase,
                              .kind = (uint16_t)kind,
                              .target = target,
                              .payload = payload};
    return kvt_eventq_push(sim->events, &event, err);
}

kvt_ns sim_after(const struct kvt_sim *sim, kvt_ns duration_ns)
{
    return duration_ns < INT64_MAX - sim->now_ns ? sim->now_ns + duration_ns : INT64_MAX;
}

kvt_status sim_schedule_boundary(struct kvt_sim *sim, uint32_t group, struct kvt_error *err)
{
    if (sim->groups[group].stepping || sim->groups[group].boundary_scheduled)
        return KVT_OK;
    sim->groups[group].boundary_scheduled = true;
    return sim_push(sim, sim->now_ns, KVT_PHASE_SCHEDULE, EVENT_BOUNDARY, group, 0, err);
}

uint32_t sim_gpus_of(const struct kvt_sim *sim, uint32_t rank)
{
    return sim->scenario->pools[sim->groups[sim->group_of[rank]].pool].tp;
}

/* ---- Records --------------------------------------------------------------- */

static kvt_status grow_records(struct kvt_sim *sim, struct kvt_error *err)
{
    if (sim->record_count < sim->record_capacity)
        return KVT_OK;
    size_t capacity = sim->record_capacity ? sim->record_capacity * 2 : 1024;
    if (capacity > UINT32_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, sim->scenario->name,
                        "more than 2^31 requests in one run");
    struct kvt_request_record *records = realloc(sim->records, capacity * sizeof *records);
    if (records)
        sim->records = records;
    struct kvt_live **live = realloc(sim->live, capacity * sizeof(struct kvt_live *));
    if (live)
        sim->live = live;
    if (!records || !live)
        return kvt_fail_nomem(err, "the records of requests");
    sim->record_capacity = capacity;
    return KVT_OK;
}

/* The class a request names, or one drawn by share from its own stream. */
static kvt_status class_of(const struct kvt_sim *sim, const struct kvt_request_spec *spec,
                           uint32_t id, uint16_t *out, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;

    if (spec->slo_class[0] && scenario->slo_class_count > 0) {
        for (uint16_t c = 0; c < scenario->slo_class_count; c++) {
            if (strcmp(scenario->slo_classes[c].name, spec->slo_class) == 0) {
                *out = c;
                return KVT_OK;
            }
        }
        char where[64];
        snprintf(where, sizeof where, "trace line %llu", (unsigned long long)spec->line);
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "slo_class \"%s\" is not among the scenario's slo.classes",
                        spec->slo_class);
    }
    *out = 0;
    if (scenario->slo_class_count < 2)
        return KVT_OK;
    struct kvt_rng rng = kvt_rng_stream(scenario->seed, KVT_RNG_CLASS, id);
    double draw = kvt_rng_unit(&rng), sum = 0;
    while (*out + 1u < scenario->slo_class_count) {
        sum += scenario->slo_classes[*out].share;
        if (draw < sum)
            break;
        (*out)++;
    }
    return KVT_OK;
}

/* By the numbers that the speculation method was given; what the workload says of a request that
 * says nothing is the first. */
static kvt_status task_of(const struct kvt_sim *sim, const struct kvt_request_spec *spec,
                          uint32_t *out, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    char where[64];

    *out = 0;
    if (!spec->task || !scenario->has_task_table)
        return KVT_OK;
    for (uint32_t t = 0; t < scenario->task_count; t++) {
        if (strcmp(scenario->tasks[t], spec->task) == 0) {
            *out = t;
            return KVT_OK;
        }
    }
    snprintf(where, sizeof where, "trace line %llu", (unsigned long long)spec->line);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "task \"%.64s\" is not in the table of speculation.acceptance", spec->task);
}

/* ---- Arrival ----------------------------------------------------------------- */

uint32_t sim_longest_context(const struct kvt_sim *sim, uint32_t input_tokens,
                             uint32_t output_tokens)
{
    uint64_t longest = (uint64_t)input_tokens +
                       (output_tokens > sim->output_cap ? output_tokens : sim->output_cap);
    uint32_t limit = sim->scenario->llm->max_position_tokens;
    return longest < limit ? (uint32_t)longest : limit;
}

/* The request has ended, one way or the other; its memory is its rank's again. */
static void forget(struct kvt_sim *sim, struct kvt_live *live, bool is_completed)
{
    if (sim->arrival->on_finished)
        sim->arrival->on_finished(sim->source, live->tag, is_completed, sim->now_ns);
    sim->live[live->id] = NULL;
    kvt_shared_fini(&live->shared);
    kvt_page_watch_fini(&live->watch);
    free(live->drafting);
    free(live);
}

static void drop(struct kvt_sim *sim, uint32_t id)
{
    sim->records[id].status = KVT_REQUEST_UNSERVABLE;
    sim->tally.unservable++;
    forget(sim, sim->live[id], false);
}

static kvt_status arrive(struct kvt_sim *sim, const struct kvt_request_spec *spec,
                         struct kvt_error *err)
{
    kvt_status status = grow_records(sim, err);
    if (status != KVT_OK)
        return status;
    struct kvt_live *live = calloc(1, sizeof *live);
    if (!live)
        return kvt_fail_nomem(err, "a request");
    uint32_t id = (uint32_t)sim->record_count;
    struct kvt_request_record *record = &sim->records[id];
    *record = (struct kvt_request_record){.arrival_ns = sim->now_ns,
                                          .admitted_ns = KVT_NS_NEVER,
                                          .first_token_ns = KVT_NS_NEVER,
                                          .last_token_ns = KVT_NS_NEVER,
                                          .finished_ns = KVT_NS_NEVER,
                                          .session = spec->session,
                                          .line = spec->line,
                                          .input_tokens = spec->input_tokens,
                                          .output_tokens = spec->output_tokens,
                                          .turn = spec->turn,
                                          .kind = spec->kind,
                                          .phase = (uint16_t)sim_phase_now(sim),
                                          .rank = UINT32_MAX};
    *live = (struct kvt_live){.id = id,
                              .input_tokens = spec->input_tokens,
                              .output_tokens = spec->output_tokens,
                              .max_tokens =
                                  sim_longest_context(sim, spec->input_tokens, spec->output_tokens),
                              .arrival_ns = sim->now_ns,
                              .wait_since_ns = sim->now_ns,
                              .tag = spec->tag};
    sim->live[id] = live;
    sim->record_count++;
    sim->tally.arrived++;
    live->drafting = kvt_plugin_state_new(sim->speculation->request_bytes(sim->speculation_data));
    if (!live->drafting)
        return kvt_fail_nomem(err, "a request");
    bool routed = false, servable = true;
    uint32_t task = 0;
    status = task_of(sim, spec, &task, err);
    if (status != KVT_OK)
        return status;
    sim->speculation->request_init(sim->speculation_data, live->drafting, id, task);
    status = kvt_shared_init(&live->shared, spec->page_keys, spec->page_key_count, err);
    if (status == KVT_OK)
        status = class_of(sim, spec, id, &record->slo_class, err);
    if (status == KVT_OK)
        status = sim_route(sim, live, &routed, &servable, err);
    if (status != KVT_OK)
        return status;
    if (!servable) {
        drop(sim, id);
        return KVT_OK;
    }
    if (sim->scenario->slo_class_count > 0)
        live->priority = sim->scenario->slo_classes[record->slo_class].priority;
    sim->waiting++;
    sim->in_flight++;
    if (sim->in_flight > sim->run.max_concurrent_requests)
        sim->run.max_concurrent_requests = sim->in_flight;
    return sim_send_off(sim, live, routed, err);
}

/* A closed loop lets the next one in for each that is dropped, at once and without
 * end where none can ever fit. */
static kvt_status check_drops(const struct kvt_sim *sim, uint32_t drops, struct kvt_error *err)
{
    if (drops < DROPS_IN_A_ROW_MAX || sim->arrival->expected(sim->source) > 0)
        return KVT_OK;
    const struct kvt_request_record *last = &sim->records[sim->record_count - 1];
    return kvt_fail(err, KVT_ERR_STALLED, sim->scenario->name,
                    "%u requests in a row could never fit and were dropped after %.3f s, the last "
                    "of %u input and %u output tokens: shorter workload.lengths or larger "
                    "cluster.decode.pools are expected",
                    drops, (double)sim->now_ns / (double)KVT_NS_PER_S, last->input_tokens,
                    last->output_tokens);
}

kvt_status sim_poll_arrivals(struct kvt_sim *sim, struct kvt_error *err)
{
    uint32_t drops = 0;

    while (!sim->source_ended) {
        enum kvt_arrival_answer answer;
        struct kvt_request_spec spec = {0};
        kvt_ns due_ns = KVT_NS_NEVER;
        kvt_status status = sim->arrival->poll(sim->source, sim->now_ns, sim->in_flight, &answer,
                                               &spec, &due_ns, err);
        if (status != KVT_OK)
            return status;
        switch (answer) {
        case KVT_ARRIVAL_NOW:
            status = arrive(sim, &spec, err);
            if (status != KVT_OK)
                return status;
            drops = sim->live[sim->record_count - 1] ? 0 : drops + 1;
            status = check_drops(sim, drops, err);
            if (status != KVT_OK)
                return status;
            break;
        case KVT_ARRIVAL_LATER:
            if (sim->arrival_due_ns == due_ns)
                return KVT_OK;
            sim->arrival_due_ns = due_ns;
            return sim_push(sim, due_ns, KVT_PHASE_ARRIVE, EVENT_ARRIVAL, 0, 0, err);
        case KVT_ARRIVAL_WAIT:
            return KVT_OK;
        case KVT_ARRIVAL_END:
            sim->source_ended = true;
            break;
        }
    }
    return KVT_OK;
}

/* What the rank had of its prompt is up; it computes the rest itself. */
static kvt_status queue_computing(struct kvt_sim *sim, uint32_t rank, struct kvt_live *live,
                                  struct kvt_error *err)
{
    sim->computing++;
    sim_wait(sim, live, KVT_WAIT_PREFILL);
    sim->records[live->id].status = KVT_REQUEST_PREFILLING;
    return kvt_rank_queue_prefill(&sim->ranks[rank], live, err);
}

/* ---- Import, first token, end ------------------------------------------------- */

static struct kvt_backend_admission admission_of(const struct kvt_live *live, uint32_t rank)
{
    return (struct kvt_backend_admission){.request = live->id,
                                          .rank = rank,
                                          .context_tokens = kvt_live_context(live),
                                          .generated_tokens = live->generated_tokens,
                                          .max_tokens = live->max_tokens,
                                          .last_tokens = live->input_tokens + live->output_tokens,
                                          .hot_tokens = live->hot_tokens,
                                          .drafting = live->drafting};
}

/* A prompt that is computed here does not come in, and who has one token to say does not decode. */
static kvt_status expect(struct kvt_sim *sim, uint32_t rank, const struct kvt_live *live,
                         struct kvt_error *err)
{
    const struct kvt_backend_admission admission = admission_of(live, rank);

    if (!sim->backend->ops->expect || live->prefill_left > 0 ||
        (live->generated_tokens == 0 && live->output_tokens == 1))
        return KVT_OK;
    return sim->backend->ops->expect(sim->backend, &admission, err);
}

kvt_status sim_begin_imports(struct kvt_sim *sim, uint32_t rank, struct kvt_error *err)
{
    for (;;) {
        struct kvt_live *live;
        kvt_ns duration_ns;
        kvt_status status =
            kvt_rank_begin_import(&sim->ranks[rank], sim->now_ns, &live, &duration_ns, err);
        if (status != KVT_OK || !live)
            return status;
        sim_wait(sim, live, KVT_WAIT_IMPORT);
        status = expect(sim, rank, live, err);
        if (status == KVT_OK && duration_ns == 0 && live->prefill_left > 0)
            status =
                queue_computing(sim, rank, live, err); /* nothing to await: into the next step */
        else if (status == KVT_OK)
            status = sim_push(sim, sim_after(sim, duration_ns), KVT_PHASE_COMPLETE,
                              EVENT_IMPORT_DONE, rank, sim_awaited(live), err);
        if (status != KVT_OK)
            return status;
    }
}

void sim_deliver(struct kvt_sim *sim, struct kvt_live *live, uint32_t tokens)
{
    struct kvt_request_record *record = &sim->records[live->id];
    bool first = live->generated_tokens == 0;

    if (first)
        sim_end_wait(sim, live);
    live->generated_tokens += tokens;
    record->generated_tokens = live->generated_tokens;
    sim->tally.output_tokens += tokens;
    if (first) {
        record->first_token_ns = sim->now_ns;
    } else {
        sim->tally.itl_ns += (double)(sim->now_ns - record->last_token_ns);
        sim->tally.itl_count++;
    }
    if (!first && sim->warmup_ns != KVT_NS_NEVER && record->arrival_ns >= sim->warmup_ns) {
        uint64_t gap_ns = (uint64_t)(sim->now_ns - record->last_token_ns);
        kvt_histogram_add(sim->run.itl, gap_ns, 1);
        kvt_histogram_add(sim->run.phase_itl[record->phase], gap_ns, 1);
        if (live->id >= sim->run.first_wave)
            kvt_histogram_add(sim->run.post_wave_itl, gap_ns, 1);
    }
    record->last_token_ns = sim->now_ns;
}

kvt_status sim_wake_node(struct kvt_sim *sim, uint32_t rank, struct kvt_error *err)
{
    kvt_status status = sim_schedule_boundary(sim, sim->group_of[rank], err);

    for (uint32_t r = 0; r < sim->rank_count && status == KVT_OK; r++) {
        const struct kvt_rank *other = &sim->ranks[r];
        if (other->env.host == sim->ranks[rank].env.host &&
            other->waiting.count + other->running.count > 0)
            status = sim_schedule_boundary(sim, sim->group_of[r], err);
    }
    return status;
}

kvt_status sim_complete(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    struct kvt_request_record *record = &sim->records[live->id];
    uint32_t rank = record->rank;

    record->finished_ns = sim->now_ns;
    record->status = KVT_REQUEST_COMPLETED;
    record->missed_rows = live->missed_rows;
    record->selected_rows = live->selected_rows;
    sim_end_tokens(sim, live);
    sim->tally.completed++;
    sim->completed++;
    sim->in_flight--;
    if (live->has_lane)
        sim->backend->ops->release(sim->backend, live->id, &sim->decisions);
    kvt_status status = kvt_rank_finish(&sim->ranks[rank], live, sim->now_ns, err);
    if (status != KVT_OK)
        return status;
    forget(sim, live, true);
    return sim_wake_node(sim, rank, err);
}

/* Its history is there: the first token goes out, and it decodes, unless that was all. */
static kvt_status begin_decoding(struct kvt_sim *sim, uint32_t rank, struct kvt_live *live,
                                 struct kvt_error *err)
{
    bool first = live->generated_tokens == 0;
    bool last = first && live->output_tokens == 1;
    kvt_status status = kvt_rank_end_import(&sim->ranks[rank], sim->now_ns, live, !last, err);

    if (status != KVT_OK)
        return status;
    sim->importing--;
    if (first)
        sim_deliver(sim, live, 1);
    if (last) {
        sim_note_decoding(sim, live);
        status = sim_complete(sim, live, err);
        return status == KVT_OK ? sim_poll_arrivals(sim, err) : status;
    }
    sim->decoding++;
    sim_note_decoding(sim, live);
    sim->records[live->id].status = KVT_REQUEST_RUNNING;
    const struct kvt_backend_admission admission = admission_of(live, rank);
    status = sim->backend->ops->admit(sim->backend, &admission, err);
    live->has_lane = status == KVT_OK;
    return status;
}

kvt_status sim_on_import_done(struct kvt_sim *sim, uint32_t rank, uint64_t payload,
                              struct kvt_error *err)
{
    struct kvt_live *live = sim_find_awaited(sim, payload);
    kvt_status status;

    if (!live)
        return KVT_OK;
    if (live->prefill_left > 0)
        status = queue_computing(sim, rank, live, err);
    else
        status = begin_decoding(sim, rank, live, err);
    if (status == KVT_OK)
        status = sim_begin_imports(sim, rank, err);
    return status == KVT_OK ? sim_schedule_boundary(sim, sim->group_of[rank], err) : status;
}
