/* service.c -- what requests took by class and by kind, and whether it was what they were promised.
 *
 *     a class's requests = those that had not ended when the warm-up did
 *                        = completed + dropped + unfinished
 *     met:     of the completed, those within every bound
 *     late:    of the unfinished, those that can meet their bounds no more
 *     attained = met / (completed + dropped + late)
 *
 * Goodput and times of violation are of requests that have finished, as vLLM counts; attained also
 * holds against a run whom it left waiting. */
#include "service.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"

static bool within(double ms, double bound_ms)
{
    return bound_ms <= 0 || isnan(ms) || ms <= bound_ms;
}

bool record_meets_bounds(const struct kvt_run *run, const struct kvt_request_record *record)
{
    const struct kvt_slo_class *bounds = &run->scenario->slo_classes[record->slo_class];

    return within(record_latency_ms(record, TTFT), bounds->ttft_ms) &&
           within(record_latency_ms(record, TPOT), bounds->tpot_ms) &&
           within(record_latency_ms(record, E2EL), bounds->e2el_ms);
}

/* Whether a request that has not ended has broken a bound already: all that it still lacks may
 * come at once. */
static bool is_late(const struct kvt_run *run, const struct kvt_request_record *record)
{
    const struct kvt_slo_class *bounds = &run->scenario->slo_classes[record->slo_class];
    double age_ms = (double)(run->end_ns - record->arrival_ns) / 1e6;
    bool has_first = record->first_token_ns != KVT_NS_NEVER;
    double ttft_ms = has_first ? record_latency_ms(record, TTFT) : age_ms;
    double tpot_ms =
        has_first && record->output_tokens > 1
            ? (double)(run->end_ns - record->first_token_ns) / 1e6 / (record->output_tokens - 1)
            : 0;

    return !within(ttft_ms, bounds->ttft_ms) || !within(tpot_ms, bounds->tpot_ms) ||
           !within(age_ms, bounds->e2el_ms);
}

/* ---- Counts of a class -------------------------------------------------------------- */

static bool is_of_phase(const struct kvt_request_record *record, int phase)
{
    return phase < 0 || record->phase == phase;
}

static void count_request(const struct kvt_run *run, const struct kvt_request_record *record,
                          bool has_bounds, struct kvt_class_report *out)
{
    if (record->status == KVT_REQUEST_COMPLETED) {
        if (record->finished_ns < run->warmup_ns)
            return;
        out->completed++;
        out->met += has_bounds && record_meets_bounds(run, record);
    } else if (record->status == KVT_REQUEST_UNSERVABLE) {
        if (record->arrival_ns < run->warmup_ns)
            return;
        out->dropped++;
    } else {
        out->late += has_bounds && is_late(run, record);
    }
    out->requests++;
}

/* Of requests that finish in each interval. */
struct attainment {
    uint32_t finished, met;
};

static bool is_counted(const struct kvt_request_record *record, int phase, long long from_ns)
{
    return record->status == KVT_REQUEST_COMPLETED && record->finished_ns >= from_ns &&
           is_of_phase(record, phase);
}

/* Whether in an interval a class met its bounds less often than it must; only: that one, or any
 * (-1). */
static bool fell_short(const struct kvt_scenario *scenario, const struct attainment *attained,
                       int only)
{
    bool is_short = false;

    for (uint32_t c = 0; c < scenario->slo_class_count; c++)
        is_short |= (only < 0 || only == (int)c) &&
                    (double)attained[c].met <
                        scenario->slo_classes[c].attain * (double)attained[c].finished;
    return is_short;
}

/* Seconds of [from, to) as slo_violated_s() has them, of some class in any_s and of each in
 * of_class_s[], which may be NULL. */
static bool violations(const struct kvt_run *run, int phase, long long from_ns, long long to_ns,
                       double *any_s, double *of_class_s)
{
    const struct kvt_scenario *scenario = run->scenario;
    uint32_t classes = scenario->slo_class_count;
    double interval_ns = scenario->interval_s * (double)KVT_NS_PER_S;
    size_t first = (size_t)((double)from_ns / interval_ns);
    size_t count = (size_t)((double)to_ns / interval_ns) + 1 - first;
    struct attainment *attained = calloc(count * classes, sizeof *attained);

    if (!attained)
        return false;
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        size_t interval = (size_t)((double)record->finished_ns / interval_ns) - first;
        if (!is_counted(record, phase, from_ns) || interval >= count)
            continue;
        attained[interval * classes + record->slo_class].finished++;
        attained[interval * classes + record->slo_class].met += record_meets_bounds(run, record);
    }
    *any_s = 0;
    for (int c = -1; c < (of_class_s ? (int)classes : 0); c++) {
        double violated_ns = 0;
        for (size_t i = 0; i < count; i++) {
            double begin_ns = fmax((double)(first + i) * interval_ns, (double)from_ns);
            double end_ns = fmin((double)(first + i + 1) * interval_ns, (double)to_ns);
            if (end_ns > begin_ns && fell_short(scenario, &attained[i * classes], c))
                violated_ns += end_ns - begin_ns;
        }
        *(c < 0 ? any_s : &of_class_s[c]) = violated_ns / (double)KVT_NS_PER_S;
    }
    free(attained);
    return true;
}

bool slo_violated_s(const struct kvt_run *run, int phase, long long from_ns, long long to_ns,
                    double *out)
{
    *out = NAN;
    return run->scenario->slo_class_count == 0 || run->analytic ||
           violations(run, phase, from_ns, to_ns, out, NULL);
}

static double phase_seconds(const struct kvt_run *run, int phase)
{
    const struct kvt_tally *tally = phase < 0 ? &run->total : &run->phases[phase];

    return (double)(tally->to_ns - tally->from_ns) / 1e9;
}

/* Counts, goodput and seconds of violation of every class; *any_violation_s: of some class. */
static bool fill_classes(const struct kvt_run *run, int phase, struct kvt_class_report *out,
                         double *any_violation_s)
{
    const struct kvt_scenario *scenario = run->scenario;
    uint32_t classes = scenario->slo_class_count;
    double duration_s = phase_seconds(run, phase), violated_s[KVT_SLO_CLASSES_MAX];

    if (!violations(run, phase, run->warmup_ns, run->end_ns, any_violation_s, violated_s))
        return false;
    for (uint32_t c = 0; c < classes; c++)
        out[c] = (struct kvt_class_report){.name = scenario->slo_classes[c].name,
                                           .attain = scenario->slo_classes[c].attain,
                                           .slo_violation_s = violated_s[c]};
    for (size_t i = 0; i < run->record_count; i++) {
        if (is_of_phase(&run->records[i], phase))
            count_request(run, &run->records[i], true, &out[run->records[i].slo_class]);
    }
    for (uint32_t c = 0; c < classes; c++) {
        out[c].attained_share = metric_ratio(
            (double)out[c].met, (double)(out[c].completed + out[c].dropped + out[c].late));
        out[c].request_goodput = metric_ratio((double)out[c].met, duration_s);
    }
    return true;
}

bool service_levels(const struct kvt_run *run, int phase, struct metric_values *out)
{
    const struct kvt_scenario *scenario = run->scenario;
    struct kvt_class_report classes[KVT_SLO_CLASSES_MAX];

    out->request_goodput = out->slo_violation_s = NAN;
    out->slo_attained_share = out->slo_margin = NAN;
    if (scenario->slo_class_count == 0 || run->analytic)
        return true;
    if (!fill_classes(run, phase, classes, &out->slo_violation_s))
        return false;
    uint64_t met = 0;
    for (uint32_t c = 0; c < scenario->slo_class_count; c++) {
        met += classes[c].met;
        /* fmin and fmax leave out what is not defined: a class without requests. */
        out->slo_attained_share = fmin(out->slo_attained_share, classes[c].attained_share);
        out->slo_margin = fmin(out->slo_margin, classes[c].attained_share - classes[c].attain);
    }
    out->request_goodput = metric_ratio((double)met, phase_seconds(run, phase));
    return true;
}

/* ---- Latencies of a class or a kind ---------------------------------------------------- */

static void summarise(const struct kvt_run *run, bool by_kind, uint32_t number,
                      enum latency latency, double *scratch, struct kvt_summary *out)
{
    size_t n = 0;

    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        bool is_of = number == (by_kind ? record->kind : record->slo_class);
        double ms =
            is_of && record_counts(run, i, -1) ? record_latency_ms(record, latency) : (double)NAN;
        if (!isnan(ms))
            scratch[n++] = ms;
    }
    kvt_summary_of(scratch, n, out);
}

static bool fill_latencies(const struct kvt_run *run, bool by_kind, uint32_t count,
                           struct kvt_class_report *out)
{
    double *scratch = malloc((run->record_count + 1) * sizeof *scratch);

    if (!scratch)
        return false;
    for (uint32_t c = 0; c < count; c++) {
        summarise(run, by_kind, c, TTFT, scratch, &out[c].ttft_ms);
        summarise(run, by_kind, c, TPOT, scratch, &out[c].tpot_ms);
        summarise(run, by_kind, c, E2EL, scratch, &out[c].e2el_ms);
    }
    free(scratch);
    return true;
}

kvt_status kvt_run_classes(const struct kvt_run *run,
                           struct kvt_class_report out[KVT_SLO_CLASSES_MAX], uint32_t *count,
                           struct kvt_error *err)
{
    double any_violation_s;

    *count = run->analytic ? 0 : run->scenario->slo_class_count;
    if (*count == 0 ||
        (fill_classes(run, -1, out, &any_violation_s) && fill_latencies(run, false, *count, out)))
        return KVT_OK;
    return kvt_fail_nomem(err, "the classes of a run");
}

kvt_status kvt_run_kinds(const struct kvt_run *run, struct kvt_class_report out[KVT_KINDS_MAX],
                         uint32_t *count, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = run->scenario;
    bool has_bounds = scenario->slo_class_count > 0;

    *count = run->analytic ? 0 : scenario->kind_count;
    if (*count == 0)
        return KVT_OK;
    for (uint32_t k = 0; k < *count; k++)
        out[k] = (struct kvt_class_report){.name = scenario->kinds[k].name,
                                           .attain = NAN,
                                           .attained_share = NAN,
                                           .request_goodput = NAN,
                                           .slo_violation_s = NAN};
    for (size_t i = 0; i < run->record_count; i++)
        count_request(run, &run->records[i], has_bounds, &out[run->records[i].kind]);
    for (uint32_t k = 0; has_bounds && k < *count; k++) {
        out[k].attained_share = metric_ratio(
            (double)out[k].met, (double)(out[k].completed + out[k].dropped + out[k].late));
        out[k].request_goodput = metric_ratio((double)out[k].met, phase_seconds(run, -1));
    }
    return fill_latencies(run, true, *count, out) ? KVT_OK
                                                  : kvt_fail_nomem(err, "the kinds of a run");
}

/* ---- As JSON -------------------------------------------------------------------------------- */

static bool add_summary(cJSON *object, const char *key, const struct kvt_summary *summary)
{
    const struct {
        const char *prefix;
        double value;
    } figures[] = {{"mean", summary->mean}, {"p50", summary->p50}, {"p99", summary->p99}};
    bool ok = true;

    for (size_t i = 0; i < sizeof figures / sizeof figures[0] && ok; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s_ms", figures[i].prefix, key);
        ok = kvt_json_add_number(object, name, figures[i].value);
    }
    return ok;
}

static bool add_report(cJSON *list, const struct kvt_class_report *report)
{
    cJSON *object = cJSON_CreateObject();

    return object && cJSON_AddItemToArray(list, object) &&
           cJSON_AddStringToObject(object, "name", report->name) &&
           kvt_json_add_number(object, "requests", (double)report->requests) &&
           kvt_json_add_number(object, "completed", (double)report->completed) &&
           kvt_json_add_number(object, "dropped", (double)report->dropped) &&
           kvt_json_add_number(object, "late", (double)report->late) &&
           kvt_json_add_number(object, "met", (double)report->met) &&
           kvt_json_add_number(object, "attain", report->attain) &&
           kvt_json_add_number(object, "attained_share", report->attained_share) &&
           kvt_json_add_number(object, "request_goodput", report->request_goodput) &&
           kvt_json_add_number(object, "slo_violation_s", report->slo_violation_s) &&
           add_summary(object, "ttft", &report->ttft_ms) &&
           add_summary(object, "tpot", &report->tpot_ms) &&
           add_summary(object, "e2el", &report->e2el_ms);
}

static bool add_reports(cJSON *result, const char *key, const struct kvt_class_report *reports,
                        uint32_t count)
{
    cJSON *list = count > 0 ? cJSON_AddArrayToObject(result, key) : NULL;
    bool ok = count == 0 || list != NULL;

    for (uint32_t i = 0; i < count && ok; i++)
        ok = add_report(list, &reports[i]);
    return ok;
}

bool service_add(cJSON *result, const struct kvt_run *run)
{
    struct kvt_class_report classes[KVT_SLO_CLASSES_MAX], kinds[KVT_KINDS_MAX];
    uint32_t class_count, kind_count;

    return kvt_run_classes(run, classes, &class_count, NULL) == KVT_OK &&
           kvt_run_kinds(run, kinds, &kind_count, NULL) == KVT_OK &&
           add_reports(result, "classes", classes, class_count) &&
           add_reports(result, "kinds", kinds, kind_count);
}

/* ---- And back ----------------------------------------------------------------------------------
 */

/* The element of a list that has this name of so many bytes; NULL: none. */
static const cJSON *named(const cJSON *list, const char *name, size_t name_bytes)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, list)
    {
        const cJSON *text = kvt_json_find(item, "name");
        if (cJSON_IsString(text) && strlen(text->valuestring) == name_bytes &&
            memcmp(text->valuestring, name, name_bytes) == 0)
            return item;
    }
    return NULL;
}

bool kvt_report_figure(const cJSON *result, const char *name, double *value)
{
    static const char *const lists[] = {"classes", "kinds"};
    const cJSON *within = kvt_json_find(result, "metrics");
    const char *figure = name;

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        size_t head = strlen(lists[i]) + 1; /* with its dot */
        const char *last = strrchr(name, '.');
        if (strncmp(name, lists[i], head - 1) != 0 || name[head - 1] != '.' || last < name + head)
            continue;
        /* A name may hold dots; a figure's does not. */
        within = named(kvt_json_find(result, lists[i]), name + head, (size_t)(last - name) - head);
        figure = last + 1;
    }
    const cJSON *item = within ? kvt_json_find(within, figure) : NULL;
    bool is_number = item && cJSON_IsNumber(item);
    *value = is_number ? item->valuedouble : (double)NAN;
    return is_number || cJSON_IsNull(item);
}
