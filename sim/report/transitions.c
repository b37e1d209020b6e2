/* transitions.c -- how a run went from one load to the next.
 *
 *     up:    seconds until those who came with the step have all been admitted, or as many hold a
 *            slot as there are slots;
 *            the worst mean gap between tokens of any interval in which pages were released
 *     down:  seconds until an interval's coverage is 0.9 of what it was when no more was offered
 *     both:  seconds in which some class of service fell short
 *
 * A step is where two phases of the workload meet, both of them counted. */
#include <math.h>
#include <stdlib.h>

#include "kvt/json.h"
#include "kvt/report.h"
#include "metrics_table.h"

static const double REGAINED_SHARE = 0.9;

static double seconds(kvt_ns ns)
{
    return (double)ns / (double)KVT_NS_PER_S;
}

/* Whether phase p begins where the one before it ends, both of them counted. */
static bool is_step(const struct kvt_run *run, uint32_t p)
{
    const struct kvt_tally *before = &run->phases[p - 1], *after = &run->phases[p];

    return before->to_ns > before->from_ns && after->to_ns > after->from_ns &&
           before->to_ns == after->from_ns && isfinite(run->phase_load[p]) &&
           run->phase_load[p] != run->phase_load[p - 1];
}

static int compare_ns(const void *a, const void *b)
{
    kvt_ns x = *(const kvt_ns *)a, y = *(const kvt_ns *)b;
    return (x > y) - (x < y);
}

/* When as many have been admitted and not ended as there are slots: from at_ns on, or never. */
static bool full_ns(const struct kvt_run *run, kvt_ns at_ns, kvt_ns *out)
{
    kvt_ns *in = malloc((run->record_count + 1) * sizeof *in);
    kvt_ns *gone = malloc((run->record_count + 1) * sizeof *gone);
    size_t in_count = 0, gone_count = 0, ended = 0;
    bool ok = in && gone;

    *out = KVT_NS_NEVER;
    for (size_t i = 0; i < run->record_count && ok; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (record->admitted_ns != KVT_NS_NEVER)
            in[in_count++] = record->admitted_ns;
        if (record->finished_ns != KVT_NS_NEVER)
            gone[gone_count++] = record->finished_ns;
    }
    if (ok) {
        qsort(in, in_count, sizeof *in, compare_ns);
        qsort(gone, gone_count, sizeof *gone, compare_ns);
    }
    /* Held grows by admissions alone; who ends at that moment has made his place free. */
    for (size_t i = 0; i < in_count && ok && *out == KVT_NS_NEVER; i++) {
        while (ended < gone_count && gone[ended] <= in[i])
            ended++;
        if (in[i] >= at_ns && (i + 1 == in_count || in[i + 1] > in[i]) &&
            i + 1 - ended >= run->slots)
            *out = in[i];
    }
    free(in);
    free(gone);
    return ok;
}

/* Of the burst [from, to) of records. */
struct burst {
    uint64_t requests, admitted;    /* admitted: by the end of admission */
    kvt_ns all_in_ns;               /* the last one's admission; KVT_NS_NEVER: some are not */
    kvt_ns admission_ns, tokens_ns; /* its end, and when those who were in by then had their first
                                     * tokens; KVT_NS_NEVER: not in this run */
};

static bool comes_with(const struct kvt_request_record *record, kvt_ns at_ns)
{
    return record->arrival_ns == at_ns && record->status != KVT_REQUEST_UNSERVABLE;
}

static bool find_burst(const struct kvt_run *run, kvt_ns at_ns, struct burst *out)
{
    kvt_ns filled_ns;

    *out = (struct burst){.all_in_ns = at_ns};
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (!comes_with(record, at_ns))
            continue;
        out->requests++;
        if (record->admitted_ns == KVT_NS_NEVER || out->all_in_ns == KVT_NS_NEVER)
            out->all_in_ns = KVT_NS_NEVER;
        else if (record->admitted_ns > out->all_in_ns)
            out->all_in_ns = record->admitted_ns;
    }
    if (!full_ns(run, at_ns, &filled_ns))
        return false;
    bool is_full_first =
        filled_ns != KVT_NS_NEVER && (out->all_in_ns == KVT_NS_NEVER || filled_ns < out->all_in_ns);
    out->admission_ns = out->tokens_ns = is_full_first ? filled_ns : out->all_in_ns;
    for (size_t i = 0; i < run->record_count && out->admission_ns != KVT_NS_NEVER; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (!comes_with(record, at_ns) || record->admitted_ns == KVT_NS_NEVER ||
            record->admitted_ns > out->admission_ns)
            continue;
        out->admitted++;
        if (record->first_token_ns == KVT_NS_NEVER || out->tokens_ns == KVT_NS_NEVER)
            out->tokens_ns = KVT_NS_NEVER;
        else if (record->first_token_ns > out->tokens_ns)
            out->tokens_ns = record->first_token_ns;
    }
    return true;
}

static double since(kvt_ns at_ns, kvt_ns ns)
{
    return ns == KVT_NS_NEVER ? (double)NAN : seconds(ns - at_ns);
}

/* Intervals end where phases do. */
static double worst_itl_ms(const struct kvt_run *run, const struct kvt_tally *phase)
{
    double worst = NAN;

    for (size_t i = 0; i < run->interval_count; i++) {
        const struct kvt_interval *interval = &run->intervals[i];
        if (interval->from_ns < phase->from_ns || interval->to_ns > phase->to_ns ||
            interval->pages_released == 0 || isnan(interval->mean_itl_ms))
            continue;
        worst = isnan(worst) ? interval->mean_itl_ms : fmax(worst, interval->mean_itl_ms);
    }
    return worst;
}

/* Of the latest phase before p that offered no more; NaN: none did, or nothing was covered. */
static double coverage_before(const struct kvt_run *run, uint32_t p)
{
    for (uint32_t q = p; q-- > 0;) {
        const struct kvt_tally *phase = &run->phases[q];
        if (phase->to_ns > phase->from_ns && run->phase_load[q] <= run->phase_load[p])
            return run->phase_coverage_mean[q];
    }
    return NAN;
}

static double regain_s(const struct kvt_run *run, uint32_t p, double coverage)
{
    const struct kvt_tally *phase = &run->phases[p];

    for (size_t i = 0; i < run->interval_count; i++) {
        const struct kvt_interval *interval = &run->intervals[i];
        if (interval->from_ns >= phase->from_ns && interval->to_ns <= phase->to_ns &&
            interval->coverage >= REGAINED_SHARE * coverage)
            return seconds(interval->to_ns - phase->from_ns);
    }
    return NAN;
}

bool transition_compute(const struct kvt_run *run, uint32_t p, struct transition *out)
{
    struct burst burst;

    *out = (struct transition){.is_there = p > 0 && !run->analytic && is_step(run, p),
                               .admission_s = NAN,
                               .first_tokens_s = NAN,
                               .worst_itl_ms = NAN,
                               .coverage_before = NAN,
                               .coverage_regain_s = NAN};
    if (!out->is_there)
        return true;
    out->at_ns = run->phases[p].from_ns;
    out->is_up = run->phase_load[p] > run->phase_load[p - 1];
    if (!out->is_up) {
        out->coverage_before = coverage_before(run, p);
        if (out->coverage_before > 0)
            out->coverage_regain_s = regain_s(run, p, out->coverage_before);
        return true;
    }
    if (!find_burst(run, out->at_ns, &burst))
        return false;
    out->burst_requests = burst.requests;
    out->burst_admitted = burst.admitted;
    if (burst.requests > 0) {
        out->admission_s = since(out->at_ns, burst.admission_ns);
        out->first_tokens_s = since(out->at_ns, burst.tokens_ns);
    }
    out->worst_itl_ms = worst_itl_ms(run, &run->phases[p]);
    return true;
}

/* ---- As metrics: of a phase the step that it begins with, of a run the worst ------------- */

/* NaN once one that should have a value never got there. */
static double worse(double so_far, double value, bool is_first)
{
    return is_first ? value : fmax(so_far, value) + 0 * (so_far + value);
}

bool transition_metrics(const struct kvt_run *run, int phase, struct metric_values *out)
{
    uint32_t from = phase < 0 ? 1 : (uint32_t)phase, ups = 0, downs = 0;
    uint32_t end = phase < 0 ? run->phase_count : (uint32_t)phase + 1;

    out->admission_after_step_s = out->first_tokens_after_step_s = NAN;
    out->worst_itl_second_ms = out->coverage_regain_s = NAN;
    for (uint32_t p = from; p < end; p++) {
        struct transition step;
        if (!transition_compute(run, p, &step))
            return false;
        if (!step.is_there)
            continue;
        if (step.is_up && step.burst_requests > 0) {
            out->admission_after_step_s =
                worse(out->admission_after_step_s, step.admission_s, ups == 0);
            out->first_tokens_after_step_s =
                worse(out->first_tokens_after_step_s, step.first_tokens_s, ups == 0);
            ups++;
        }
        /* No page was released, or all were gone: no gap to speak of. */
        if (step.is_up && !isnan(step.worst_itl_ms))
            out->worst_itl_second_ms = isnan(out->worst_itl_second_ms)
                                           ? step.worst_itl_ms
                                           : fmax(out->worst_itl_second_ms, step.worst_itl_ms);
        if (!step.is_up && step.coverage_before > 0)
            out->coverage_regain_s =
                worse(out->coverage_regain_s, step.coverage_regain_s, downs++ == 0);
    }
    return true;
}

static bool add_step(cJSON *list, const struct kvt_run *run, uint32_t p,
                     const struct transition *step)
{
    const struct kvt_tally *phase = &run->phases[p];
    double violated_s = NAN;
    cJSON *item = kvt_json_add_element(list);
    bool ok = item && slo_violated_s(run, -1, phase->from_ns, phase->to_ns, &violated_s) &&
              kvt_json_add_number(item, "at_s", seconds(step->at_ns)) &&
              kvt_json_add_number(item, "from_phase", p - 1) &&
              kvt_json_add_number(item, "to_phase", p) &&
              kvt_json_add_text(item, "direction", step->is_up ? "up" : "down") &&
              kvt_json_add_number(item, "from_concurrency", run->phase_load[p - 1]) &&
              kvt_json_add_number(item, "to_concurrency", run->phase_load[p]);

    if (ok && step->is_up)
        ok = kvt_json_add_number(item, "burst_requests", (double)step->burst_requests) &&
             kvt_json_add_number(item, "burst_admitted", (double)step->burst_admitted) &&
             kvt_json_add_number(item, "admission_after_step_s", step->admission_s) &&
             kvt_json_add_number(item, "first_tokens_after_step_s", step->first_tokens_s) &&
             kvt_json_add_number(item, "worst_itl_second_ms", step->worst_itl_ms);
    else if (ok)
        ok = kvt_json_add_number(item, "coverage_before", step->coverage_before) &&
             kvt_json_add_number(item, "coverage_regain_s", step->coverage_regain_s);
    return ok && kvt_json_add_number(item, "slo_violation_s", violated_s);
}

cJSON *kvt_transitions_tree(const struct kvt_run *run)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = list != NULL;

    for (uint32_t p = 1; p < run->phase_count && ok; p++) {
        struct transition step;
        ok = transition_compute(run, p, &step) && (!step.is_there || add_step(list, run, p, &step));
    }
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}
