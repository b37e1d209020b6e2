/* perfetto.c -- a run as Chrome's trace events, one a line, as they happen.
 *
 *     ranks      a lane a rank: steps, and in them their parts, one behind the other
 *     links      three lanes a rank: host to HBM, HBM to host, and the part of steps that waits for
 *                missing rows
 *     imports    as many lanes a rank as are taken at once; prefill likewise
 *     counters   a value an interval, at its beginning
 *     requests   a track each: waits, is brought in, decodes; and an arrow from its prefill over
 * its import to its first step
 *
 * Parts of a step are what its slowest rank spent on each in all; layers go through them in turns.
 * Slices are pairs of a beginning and an end. Viewers read times as floating point, and some cut
 * them to whole nanoseconds: what two events have in common stays in common then, which a beginning
 * and a duration do not add up to. A part below 0, which a fitted model may have, is taken off
 * those behind it. Times are those of the run, to the nanosecond, as microseconds with three
 * digits. Requests are written when the run has ended, out of its records. The format: "Trace Event
 * Format", Google. */
#include "perfetto.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/backend.h"
#include "kvt/json.h"
#include "kvt/scenario.h"
#include "perfetto_lanes.h"

enum process {
    PROCESS_RANKS = 1,
    PROCESS_LINKS,
    PROCESS_IMPORTS,
    PROCESS_PREFILL,
    PROCESS_COUNTERS,
    PROCESS_REQUESTS
};
static const char *const process_names[] = {
    [PROCESS_RANKS] = "ranks",     [PROCESS_LINKS] = "links",
    [PROCESS_IMPORTS] = "imports", [PROCESS_PREFILL] = "prefill servers",
    [PROCESS_COUNTERS] = "run",    [PROCESS_REQUESTS] = "requests",
};

enum link_lane {
    LANE_INBOUND = 0,
    LANE_OUTBOUND,
    LANE_FETCH,
    LINK_LANES
};
static const char *const link_names[LINK_LANES] = {"host to HBM", "HBM to host", "missing rows"};

enum {
    REQUEST_EVENTS = 8, /* at most: four spans */
    AGAIN = 1000000,    /* between the numbers of a lane and of those that stand in for it */
    FLOW_BEGUN = 1,     /* of a request's arrow */
    FLOW_ENDED = 2
};

static const char *const kind_names[PERFETTO_KINDS] = {
    "steps", "transfers", "prefills", "counters", "requests",
};

struct perfetto {
    FILE *stream;
    const struct kvt_scenario *scenario;
    kvt_ns from_ns, to_ns; /* to: INT64_MAX where it has no end */
    uint64_t events_max, events;
    uint64_t left_out[PERFETTO_KINDS];
    kvt_ns full_ns; /* when there was no more room, but for requests; KVT_NS_NEVER: not yet */
    bool has_any;   /* written something, which the next is set apart from */
    uint32_t rank_count;
    struct perfetto_lanes *imports; /* [rank_count] */
    struct perfetto_lanes *steps;   /* [rank_count] one each, but after a fault */
    struct perfetto_lanes *links;   /* [LINK_LANES x rank_count] likewise */
    struct perfetto_lanes prefill;
    uint8_t *flows; /* [flow_capacity] of requests by number */
    size_t flow_capacity;
    bool is_short_of_memory;
    struct kvt_observer observer;
};

/* ---- Events ------------------------------------------------------------------------------- */

/* Whether something of the run's time is wanted, and so many more events find room. What comes
 * after something that did not is left out too: up to there the file is whole. */
static bool takes(struct perfetto *perfetto, enum perfetto_kind kind, kvt_ns from_ns, kvt_ns to_ns,
                  uint64_t events)
{
    uint64_t most = perfetto->events_max;
    bool is_request = kind == PERFETTO_REQUESTS;

    if (!is_request)
        most -= most / 4;
    if (from_ns >= perfetto->to_ns || (to_ns <= perfetto->from_ns && from_ns < perfetto->from_ns))
        return false;
    if (perfetto->events + events > most && !is_request && perfetto->full_ns == KVT_NS_NEVER)
        perfetto->full_ns = from_ns;
    if (perfetto->events + events <= most && (is_request || perfetto->full_ns == KVT_NS_NEVER))
        return true;
    perfetto->left_out[kind]++;
    return false;
}

static void begin_line(struct perfetto *perfetto)
{
    fputs(perfetto->has_any ? ",\n{" : "\n{", perfetto->stream);
    perfetto->has_any = true;
}

static void begin_event(struct perfetto *perfetto)
{
    begin_line(perfetto);
    perfetto->events++;
}

static void put_time(FILE *stream, const char *name, kvt_ns ns)
{
    fprintf(stream, "\"%s\":%" PRId64 ".%03d", name, ns / 1000, (int)(ns % 1000));
}

/* A text of the scenario's as JSON. */
static void put_text(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(stream, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(stream, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, stream);
    }
    fputc('"', stream);
}

static void put_number(FILE *stream, const char *name, double value, char separator)
{
    char text[32];

    kvt_json_print_number(isfinite(value) ? value : 0, text);
    fprintf(stream, "\"%s\":%s%c", name, text, separator);
}

static void name_process(struct perfetto *perfetto, enum process process)
{
    begin_line(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s\"}}",
            process, process_names[process]);
    begin_line(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
            process, process);
}

static void name_lane(struct perfetto *perfetto, enum process process, uint32_t lane,
                      const char *name)
{
    begin_line(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%" PRIu32
            ",\"args\":{\"name\":\"%s\"}}",
            process, lane, name);
    begin_line(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%" PRIu32
            ",\"args\":{\"sort_index\":%" PRIu32 "}}",
            process, lane, lane);
}

/* A slice, up to the brace of its args. What lies in it follows, and then its end. */
static void begin_slice(struct perfetto *perfetto, const char *name, enum process process,
                        uint32_t lane, kvt_ns from_ns)
{
    begin_event(perfetto);
    fprintf(perfetto->stream, "\"ph\":\"B\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32 ",", name,
            process, lane);
    put_time(perfetto->stream, "ts", from_ns);
    fputs(",\"args\":{", perfetto->stream);
}

/* Of the slice of the lane that was begun last; its name is for viewers that match by it. */
static void end_slice(struct perfetto *perfetto, const char *name, enum process process,
                      uint32_t lane, kvt_ns to_ns)
{
    begin_event(perfetto);
    fprintf(perfetto->stream, "\"ph\":\"E\",\"name\":\"%s\",\"pid\":%d,\"tid\":%" PRIu32 ",", name,
            process, lane);
    put_time(perfetto->stream, "ts", to_ns);
    fputc('}', perfetto->stream);
}

/* One end of a request's arrow, or a stop on its way: in the slice that is there at that time. */
static void put_flow(struct perfetto *perfetto, const char *phase, uint32_t request,
                     enum process process, uint32_t lane, kvt_ns at_ns)
{
    begin_event(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"%s\",\"cat\":\"flow\",\"name\":\"request\",\"id\":%" PRIu32
            ",\"pid\":%d,\"tid\":%" PRIu32 ",",
            phase, request, process, lane);
    put_time(perfetto->stream, "ts", at_ns);
    fputs(phase[0] == 'f' ? ",\"bp\":\"e\"}" : "}", perfetto->stream);
}

/* ---- Lanes and arrows -------------------------------------------------------------------------
 */

/* The number of a lane that is taken once at a time, but where a fault has cut short what was to
 * take it longer: that is drawn whole, and what comes then is beside it. */
static uint32_t lane_of(struct perfetto *perfetto, enum process process,
                        struct perfetto_lanes *lanes, uint32_t number, kvt_ns from_ns, kvt_ns to_ns)
{
    uint32_t known = lanes->count;
    uint32_t place = perfetto_lanes_take(lanes, from_ns, to_ns);
    char name[64];

    perfetto->is_short_of_memory = perfetto->is_short_of_memory || place == UINT32_MAX;
    if (place == UINT32_MAX || place == 0)
        return number;
    if (place == known) {
        if (process == PROCESS_RANKS)
            snprintf(name, sizeof name, "rank %" PRIu32 ", after a fault", number);
        else
            snprintf(name, sizeof name, "rank %" PRIu32 ", %s, after a fault", number / LINK_LANES,
                     link_names[number % LINK_LANES]);
        name_lane(perfetto, process, AGAIN * place + number, name);
    }
    return AGAIN * place + number;
}

/* Where a request's arrow is; NULL when memory is short. */
static uint8_t *flow_of(struct perfetto *perfetto, uint32_t request)
{
    if (request >= perfetto->flow_capacity) {
        size_t capacity = (size_t)request + 1024 + request / 2;
        uint8_t *grown = realloc(perfetto->flows, capacity);
        if (!grown) {
            perfetto->is_short_of_memory = true;
            return NULL;
        }
        memset(grown + perfetto->flow_capacity, 0, capacity - perfetto->flow_capacity);
        perfetto->flows = grown;
        perfetto->flow_capacity = capacity;
    }
    return &perfetto->flows[request];
}

/* The arrow of a request that comes in begins here, or goes on. */
static void lead_flow(struct perfetto *perfetto, uint32_t request, enum process process,
                      uint32_t lane, kvt_ns at_ns)
{
    uint8_t *flow = flow_of(perfetto, request);

    if (!flow || *flow & FLOW_ENDED)
        return;
    put_flow(perfetto, *flow & FLOW_BEGUN ? "t" : "s", request, process, lane, at_ns);
    *flow |= FLOW_BEGUN;
}

/* ---- What is told -------------------------------------------------------------------------- */

static void put_parts(struct perfetto *perfetto, const struct kvt_observed_step *step,
                      uint32_t lane, kvt_ns from_ns)
{
    uint32_t fetch_lane = LINK_LANES * step->rank + LANE_FETCH;
    kvt_ns at_ns = from_ns, owed_ns = 0;
    for (int p = 0; p < KVT_PARTS; p++) {
        kvt_ns part_ns = step->parts_ns[p] + owed_ns;
        owed_ns = part_ns < 0 ? part_ns : 0;
        if (part_ns <= 0)
            continue;
        begin_slice(perfetto, kvt_step_part_name((enum kvt_step_part)p), PROCESS_RANKS, lane,
                    at_ns);
        fputs("}}", perfetto->stream);
        end_slice(perfetto, kvt_step_part_name((enum kvt_step_part)p), PROCESS_RANKS, lane,
                  at_ns + part_ns);
        if (p == KVT_PART_FETCH && step->wire_bytes > 0) {
            uint32_t number = lane_of(perfetto, PROCESS_LINKS, &perfetto->links[fetch_lane],
                                      fetch_lane, at_ns, at_ns + part_ns);
            begin_slice(perfetto, "fetch", PROCESS_LINKS, number, at_ns);
            put_number(perfetto->stream, "bytes", round(step->wire_bytes), '}');
            fputc('}', perfetto->stream);
            end_slice(perfetto, "fetch", PROCESS_LINKS, number, at_ns + part_ns);
        }
        at_ns += part_ns;
    }
}

/* That a step may take: two for itself, its parts, the fetch beside them and its stall each, and
 * arrows that end. */
static uint64_t count_events(const struct kvt_observed_step *step)
{
    uint64_t slices = 3;

    for (int p = 0; p < KVT_PARTS; p++)
        slices += step->parts_ns[p] > 0;
    return 2 * slices + step->item_count;
}

static void end_flows(struct perfetto *perfetto, const struct kvt_observed_step *step,
                      uint32_t lane, kvt_ns at_ns)
{
    for (uint32_t i = 0; i < step->item_count; i++) {
        uint32_t request = step->items[i].request;
        uint8_t *flow = flow_of(perfetto, request);
        if (!flow || *flow != FLOW_BEGUN)
            continue;
        put_flow(perfetto, "f", request, PROCESS_RANKS, lane, at_ns);
        *flow |= FLOW_ENDED;
    }
}

static void on_step(void *context, const struct kvt_observed_step *step)
{
    struct perfetto *perfetto = context;
    FILE *stream = perfetto->stream;
    const struct kvt_rank_load *load = step->load;
    kvt_ns begun_ns = step->from_ns + step->stall_ns, to_ns = begun_ns + step->step_ns;
    bool waits = load->queries == 0 && load->prefill_tokens == 0;

    if (!takes(perfetto, PERFETTO_STEPS, step->from_ns, to_ns, count_events(step)))
        return;
    uint32_t lane = lane_of(perfetto, PROCESS_RANKS, &perfetto->steps[step->rank], step->rank,
                            step->from_ns, to_ns);
    const char *name = waits ? "waits for the others" : "step";
    begin_slice(perfetto, name, PROCESS_RANKS, lane, step->from_ns);
    put_number(stream, "requests", step->item_count, ',');
    put_number(stream, "queries", load->queries, ',');
    put_number(stream, "prefill_tokens", load->prefill_tokens, ',');
    put_number(stream, "context_rows", (double)load->context_rows, ',');
    put_number(stream, "selected_rows", load->selected_rows, ',');
    put_number(stream, "missed_rows", load->missed_rows, ',');
    put_number(stream, "wire_bytes", round(step->wire_bytes), '}');
    fputc('}', stream);
    if (!waits) {
        end_flows(perfetto, step, lane, step->from_ns);
        if (step->stall_ns > 0) {
            begin_slice(perfetto, "backup stall", PROCESS_RANKS, lane, step->from_ns);
            fputs("}}", stream);
            end_slice(perfetto, "backup stall", PROCESS_RANKS, lane, begun_ns);
        }
        put_parts(perfetto, step, lane, begun_ns);
    }
    end_slice(perfetto, name, PROCESS_RANKS, lane, to_ns);
}

static void on_transfer(void *context, const struct kvt_transfer *transfer)
{
    struct perfetto *perfetto = context;
    bool leaves = transfer->kind == KVT_TRANSFER_BACKUP;
    uint32_t lane = LINK_LANES * transfer->rank + (leaves ? LANE_OUTBOUND : LANE_INBOUND);
    enum process process = PROCESS_LINKS;

    if (!takes(perfetto, PERFETTO_TRANSFERS, transfer->from_ns, transfer->to_ns, 3))
        return;
    if (transfer->kind == KVT_TRANSFER_IMPORT) {
        struct perfetto_lanes *lanes = &perfetto->imports[transfer->rank];
        uint32_t known = lanes->count;
        uint32_t place = perfetto_lanes_take(lanes, transfer->from_ns, transfer->to_ns);
        char name[48];
        perfetto->is_short_of_memory = perfetto->is_short_of_memory || place == UINT32_MAX;
        if (place == UINT32_MAX)
            return;
        process = PROCESS_IMPORTS;
        lane = transfer->rank * PERFETTO_LANES_MAX + place;
        snprintf(name, sizeof name, "rank %" PRIu32 ", import %" PRIu32, transfer->rank, place);
        if (place == known)
            name_lane(perfetto, process, lane, name);
    } else {
        lane = lane_of(perfetto, process, &perfetto->links[lane], lane, transfer->from_ns,
                       transfer->to_ns);
    }
    begin_slice(perfetto, kvt_transfer_kind_name(transfer->kind), process, lane, transfer->from_ns);
    if (transfer->request != KVT_TRANSFER_OF_MANY)
        put_number(perfetto->stream, "request", transfer->request, ',');
    put_number(perfetto->stream, "bytes", (double)transfer->bytes, '}');
    fputc('}', perfetto->stream);
    if (transfer->kind == KVT_TRANSFER_IMPORT)
        lead_flow(perfetto, transfer->request, process, lane, transfer->from_ns);
    end_slice(perfetto, kvt_transfer_kind_name(transfer->kind), process, lane, transfer->to_ns);
}

static void on_prefill(void *context, const struct kvt_observed_prefill *prefill)
{
    struct perfetto *perfetto = context;
    uint32_t known = perfetto->prefill.count;
    char name[48];

    if (!takes(perfetto, PERFETTO_PREFILLS, prefill->from_ns, prefill->to_ns, 3))
        return;
    uint32_t lane = perfetto_lanes_take(&perfetto->prefill, prefill->from_ns, prefill->to_ns);
    perfetto->is_short_of_memory = perfetto->is_short_of_memory || lane == UINT32_MAX;
    if (lane == UINT32_MAX)
        return;
    snprintf(name, sizeof name, "server %" PRIu32, lane);
    if (lane == known)
        name_lane(perfetto, PROCESS_PREFILL, lane, name);
    begin_slice(perfetto, "prefill", PROCESS_PREFILL, lane, prefill->from_ns);
    put_number(perfetto->stream, "request", prefill->request, ',');
    put_number(perfetto->stream, "tokens", prefill->tokens, '}');
    fputc('}', perfetto->stream);
    lead_flow(perfetto, prefill->request, PROCESS_PREFILL, lane, prefill->from_ns);
    end_slice(perfetto, "prefill", PROCESS_PREFILL, lane, prefill->to_ns);
}

/* ---- Counters ------------------------------------------------------------------------------ */

/* Up to the brace of its args. */
static void begin_counter(struct perfetto *perfetto, const char *name, kvt_ns at_ns)
{
    begin_event(perfetto);
    fprintf(perfetto->stream, "\"ph\":\"C\",\"name\":\"%s\",\"pid\":%d,", name, PROCESS_COUNTERS);
    put_time(perfetto->stream, "ts", at_ns);
    fputs(",\"args\":{", perfetto->stream);
}

void perfetto_interval(struct perfetto *perfetto, const struct kvt_tally *interval)
{
    FILE *stream = perfetto->stream;
    kvt_ns at_ns = interval->from_ns;
    double ns = (double)(interval->to_ns - interval->from_ns);

    if (ns <= 0 || !takes(perfetto, PERFETTO_COUNTERS, at_ns, interval->to_ns, 5))
        return;
    begin_counter(perfetto, "requests", at_ns);
    put_number(stream, "decoding", interval->running_ns / ns, ',');
    put_number(stream, "importing", interval->importing_ns / ns, ',');
    put_number(stream, "prefilling", interval->prefilling_ns / ns, ',');
    put_number(stream, "waiting", interval->waiting_ns / ns, '}');
    fputc('}', stream);
    begin_counter(perfetto, "ranks down", at_ns);
    put_number(stream, "down", interval->down_ns / ns, '}');
    fputc('}', stream);
    begin_counter(perfetto, "coverage", at_ns);
    put_number(stream, "coverage",
               interval->covered_ns > 0 ? interval->coverage_ns / interval->covered_ns : 0, '}');
    fputc('}', stream);
    begin_counter(perfetto, "HBM bytes", at_ns);
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        put_number(stream, kvt_mem_class_name((enum kvt_mem_class)c),
                   (double)interval->hbm_peak_by_class[c], c + 1 < KVT_MEM_CLASSES ? ',' : '}');
    fputc('}', stream);
    begin_counter(perfetto, "host bytes", at_ns);
    put_number(stream, "host", (double)interval->host_peak_bytes, '}');
    fputc('}', stream);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void put_async(struct perfetto *perfetto, const char *phase, const char *name,
                      size_t request, kvt_ns at_ns)
{
    begin_event(perfetto);
    fprintf(perfetto->stream,
            "\"ph\":\"%s\",\"cat\":\"request\",\"name\":\"%s\",\"id\":%zu,\"pid\":%d,\"tid\":0,",
            phase, name, request, PROCESS_REQUESTS);
    put_time(perfetto->stream, "ts", at_ns);
}

/* A stretch of a request's life, from one moment to the next; until the end where that never
 * came. Returns whether it did. */
static bool put_span(struct perfetto *perfetto, const char *name, size_t request, kvt_ns from_ns,
                     kvt_ns to_ns, kvt_ns end_ns)
{
    bool is_over = to_ns != KVT_NS_NEVER;

    put_async(perfetto, "b", name, request, from_ns);
    fputs("}", perfetto->stream);
    put_async(perfetto, "e", name, request, is_over ? to_ns : end_ns);
    fputs("}", perfetto->stream);
    return is_over;
}

static void put_request(struct perfetto *perfetto, const struct kvt_run *run, size_t i)
{
    const struct kvt_request_record *record = &run->records[i];
    kvt_ns end_ns = record->finished_ns != KVT_NS_NEVER ? record->finished_ns : run->end_ns;
    FILE *stream = perfetto->stream;
    char name[32];

    if (record->status == KVT_REQUEST_UNSERVABLE)
        end_ns = record->arrival_ns;
    if (!takes(perfetto, PERFETTO_REQUESTS, record->arrival_ns, end_ns, REQUEST_EVENTS))
        return;
    snprintf(name, sizeof name, "request %zu", i);
    put_async(perfetto, "b", name, i, record->arrival_ns);
    fputs(",\"args\":{", stream);
    if (record->rank != UINT32_MAX)
        put_number(stream, "rank", record->rank, ',');
    put_number(stream, "input_tokens", record->input_tokens, ',');
    put_number(stream, "output_tokens", record->output_tokens, ',');
    put_number(stream, "preemptions", record->preemptions, ',');
    fprintf(stream, "\"status\":\"%s\"}}",
            kvt_request_status_name((enum kvt_request_status)record->status));
    if (end_ns > record->arrival_ns &&
        put_span(perfetto, "waits", i, record->arrival_ns, record->admitted_ns, end_ns) &&
        put_span(perfetto, "comes in", i, record->admitted_ns, record->first_token_ns, end_ns))
        put_span(perfetto, "decodes", i, record->first_token_ns, record->finished_ns, end_ns);
    put_async(perfetto, "e", name, i, end_ns);
    fputs("}", stream);
}

/* ---- The file ------------------------------------------------------------------------------ */

static void name_lanes(struct perfetto *perfetto)
{
    char name[64];

    for (int p = PROCESS_RANKS; p <= PROCESS_REQUESTS; p++)
        name_process(perfetto, (enum process)p);
    for (uint32_t r = 0; r < perfetto->rank_count; r++) {
        snprintf(name, sizeof name, "rank %" PRIu32, r);
        name_lane(perfetto, PROCESS_RANKS, r, name);
        for (uint32_t l = 0; l < LINK_LANES; l++) {
            snprintf(name, sizeof name, "rank %" PRIu32 ", %s", r, link_names[l]);
            name_lane(perfetto, PROCESS_LINKS, LINK_LANES * r + l, name);
        }
    }
}

static kvt_ns ns_of(double seconds)
{
    kvt_ns ns = 0;

    return kvt_ns_from_seconds(seconds, &ns) ? ns : INT64_MAX;
}

kvt_status perfetto_begin(FILE *stream, const struct kvt_scenario *scenario, double from_s,
                          double to_s, uint64_t events_max, struct perfetto **out,
                          struct kvt_error *err)
{
    struct perfetto *perfetto = calloc(1, sizeof *perfetto);

    if (!perfetto)
        return kvt_fail_nomem(err, "perfetto.json");
    *perfetto = (struct perfetto){.stream = stream,
                                  .scenario = scenario,
                                  .from_ns = ns_of(from_s),
                                  .to_ns = to_s > 0 ? ns_of(to_s) : INT64_MAX,
                                  .full_ns = KVT_NS_NEVER,
                                  .events_max = events_max,
                                  .observer = {.context = perfetto,
                                               .on_step = on_step,
                                               .on_transfer = on_transfer,
                                               .on_prefill = on_prefill}};
    perfetto->rank_count = kvt_scenario_rank_count(scenario);
    perfetto->imports = calloc(perfetto->rank_count, sizeof *perfetto->imports);
    perfetto->steps = calloc(perfetto->rank_count, sizeof *perfetto->steps);
    perfetto->links = calloc((size_t)LINK_LANES * perfetto->rank_count, sizeof *perfetto->links);
    if (!perfetto->imports || !perfetto->steps || !perfetto->links) {
        perfetto_free(perfetto);
        return kvt_fail_nomem(err, "perfetto.json");
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", stream);
    name_lanes(perfetto);
    *out = perfetto;
    return KVT_OK;
}

const struct kvt_observer *perfetto_observer(struct perfetto *perfetto)
{
    return &perfetto->observer;
}

/* What the file is of, and what it has not. */
static void put_other(const struct perfetto *perfetto, const struct kvt_run *run)
{
    FILE *stream = perfetto->stream;
    kvt_ns to_ns = perfetto->to_ns < run->end_ns ? perfetto->to_ns : run->end_ns;
    kvt_ns whole_ns = perfetto->full_ns != KVT_NS_NEVER ? perfetto->full_ns : to_ns;

    fputs("\n],\n\"otherData\":{\"scenario\":", stream);
    put_text(stream, perfetto->scenario->name);
    fprintf(stream, ",\"seed\":\"%" PRIu64 "\",", perfetto->scenario->seed);
    put_number(stream, "from_s", (double)perfetto->from_ns / KVT_NS_PER_S, ',');
    put_number(stream, "to_s", (double)to_ns / KVT_NS_PER_S, ',');
    put_number(stream, "whole_to_s", (double)whole_ns / KVT_NS_PER_S, ',');
    put_number(stream, "events", (double)perfetto->events, ',');
    put_number(stream, "events_max", (double)perfetto->events_max, ',');
    fputs("\"left_out\":{", stream);
    for (int k = 0; k < PERFETTO_KINDS; k++)
        put_number(stream, kind_names[k], (double)perfetto->left_out[k],
                   k + 1 < PERFETTO_KINDS ? ',' : '}');
    fputs("}}\n", stream);
}

kvt_status perfetto_end(struct perfetto *perfetto, const struct kvt_run *run,
                        struct perfetto_account *account, struct kvt_error *err)
{
    for (size_t i = 0; i < run->record_count; i++)
        put_request(perfetto, run, i);
    put_other(perfetto, run);
    account->events = perfetto->events;
    memcpy(account->left_out, perfetto->left_out, sizeof account->left_out);
    return perfetto->is_short_of_memory ? kvt_fail_nomem(err, "perfetto.json") : KVT_OK;
}

void perfetto_left_out(const struct perfetto_account *account, char out[160])
{
    int used = 0;

    out[0] = '\0';
    for (int k = 0; k < PERFETTO_KINDS; k++) {
        if (account->left_out[k] > 0)
            used += snprintf(out + used, 160 - (size_t)used, "%s%" PRIu64 " %s",
                             used > 0 ? ", " : "", account->left_out[k], kind_names[k]);
    }
}

void perfetto_free(struct perfetto *perfetto)
{
    if (!perfetto)
        return;
    perfetto_lanes_free(perfetto->imports, perfetto->rank_count);
    perfetto_lanes_free(perfetto->steps, perfetto->rank_count);
    perfetto_lanes_free(perfetto->links, LINK_LANES * perfetto->rank_count);
    free(perfetto->prefill.free_ns);
    free(perfetto->flows);
    free(perfetto);
}
