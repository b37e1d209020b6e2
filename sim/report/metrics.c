/* metrics.c -- metrics from tallies and records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "kvt/report.h"
#include "metrics_table.h"

const struct metric_row metric_rows[] = {
#define KVT_ROW(name, unit, rests_on, help) {#name, unit, help, rests_on},
    KVT_METRICS(KVT_ROW)
#undef KVT_ROW
};
const unsigned metric_count = sizeof metric_rows / sizeof metric_rows[0];

const struct kvt_metric_doc *kvt_metric_docs(size_t *count)
{
    static const struct kvt_metric_doc docs[] = {
#define KVT_DOC(name, unit, rests_on, help) {#name, unit, help},
        KVT_METRICS(KVT_DOC)
#undef KVT_DOC
    };
    *count = metric_count;
    return docs;
}

/* ---- Latencies: exact values of requests, or the ITL histogram ---------------- */

enum latency {
    TTFT,
    TPOT,
    E2EL
};

/* One request's latency in ms, or NaN where it has none. A request still decoding
 * when the run was stopped counts in TPOT with what it has delivered. */
static double latency_ms(const struct kvt_request_record *record, enum latency latency)
{
    if (record->first_token_ns == KVT_NS_NEVER)
        return NAN;
    switch (latency) {
    case TTFT:
        return (double)(record->first_token_ns - record->arrival_ns) / 1e6;
    case TPOT:
        if (record->generated_tokens < 2)
            return NAN;
        return (double)(record->last_token_ns - record->first_token_ns) / 1e6 /
               (record->generated_tokens - 1);
    case E2EL:
        if (record->finished_ns == KVT_NS_NEVER)
            return NAN;
        return (double)(record->finished_ns - record->arrival_ns) / 1e6;
    }
    return NAN;
}

static bool counts(const struct kvt_run *run, size_t i, int phase)
{
    return run->records[i].arrival_ns >= run->warmup_ns &&
           (phase < 0 || run->records[i].phase == phase);
}

static void summarise(const struct kvt_run *run, int phase, enum latency latency, size_t from,
                      double *scratch, struct kvt_summary *out)
{
    size_t n = 0;

    for (size_t i = from; i < run->record_count; i++) {
        double ms = counts(run, i, phase) ? latency_ms(&run->records[i], latency) : NAN;
        if (!isnan(ms))
            scratch[n++] = ms;
    }
    kvt_summary_of(scratch, n, out);
}

static void summarise_itl(const struct kvt_histogram *itl, struct kvt_summary *out)
{
    *out = (struct kvt_summary){.mean = kvt_histogram_mean(itl) / 1e6,
                                .std = kvt_histogram_std(itl) / 1e6,
                                .median = kvt_histogram_quantile(itl, .5) / 1e6,
                                .p50 = kvt_histogram_quantile(itl, .5) / 1e6,
                                .p90 = kvt_histogram_quantile(itl, .9) / 1e6,
                                .p95 = kvt_histogram_quantile(itl, .95) / 1e6,
                                .p99 = kvt_histogram_quantile(itl, .99) / 1e6};
}

#define STORE_LATENCY(out, key, all, post)                                                         \
    do {                                                                                           \
        (out)->mean_##key##_ms = (all).mean;                                                       \
        (out)->median_##key##_ms = (all).median;                                                   \
        (out)->std_##key##_ms = (all).std;                                                         \
        (out)->p50_##key##_ms = (all).p50;                                                         \
        (out)->p90_##key##_ms = (all).p90;                                                         \
        (out)->p95_##key##_ms = (all).p95;                                                         \
        (out)->p99_##key##_ms = (all).p99;                                                         \
        (out)->post_wave_mean_##key##_ms = (post).mean;                                            \
        (out)->post_wave_p50_##key##_ms = (post).p50;                                              \
        (out)->post_wave_p99_##key##_ms = (post).p99;                                              \
    } while (0)

/* Means alone: no distribution follows from them. */
static void mean_latencies(const struct kvt_mean_latencies *means, struct metric_values *out)
{
    const struct kvt_summary none = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};

    STORE_LATENCY(out, ttft, none, none);
    STORE_LATENCY(out, tpot, none, none);
    STORE_LATENCY(out, itl, none, none);
    STORE_LATENCY(out, e2el, none, none);
    out->mean_ttft_ms = means->ttft_ms;
    out->mean_tpot_ms = means->tpot_ms;
    out->mean_itl_ms = means->itl_ms;
    out->mean_e2el_ms = means->e2el_ms;
    out->post_wave_mean_ttft_ms = means->post_wave_ttft_ms;
    out->post_wave_mean_tpot_ms = means->post_wave_tpot_ms;
    out->post_wave_mean_itl_ms = means->post_wave_itl_ms;
    out->post_wave_mean_e2el_ms = means->post_wave_e2el_ms;
}

static bool latencies(const struct kvt_run *run, int phase, struct metric_values *out)
{
    if (run->analytic) {
        mean_latencies(&run->mean_latencies, out);
        return true;
    }
    const struct kvt_summary none = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    struct kvt_summary all[3], post[3] = {none, none, none}, itl, post_itl = none;
    double *scratch = malloc((run->record_count + 1) * sizeof *scratch);

    if (!scratch)
        return false;
    for (int l = TTFT; l <= E2EL; l++) {
        summarise(run, phase, (enum latency)l, 0, scratch, &all[l]);
        if (run->closed_loop)
            summarise(run, phase, (enum latency)l, run->first_wave, scratch, &post[l]);
    }
    free(scratch);
    summarise_itl(phase < 0 ? run->itl : run->phase_itl[phase], &itl);
    if (run->closed_loop && phase < 0)
        summarise_itl(run->post_wave_itl, &post_itl);
    STORE_LATENCY(out, ttft, all[TTFT], post[TTFT]);
    STORE_LATENCY(out, tpot, all[TPOT], post[TPOT]);
    STORE_LATENCY(out, e2el, all[E2EL], post[E2EL]);
    STORE_LATENCY(out, itl, itl, post_itl);
    return true;
}

/* ---- Service levels -------------------------------------------------------------- */

static bool within(double ms, double bound_ms)
{
    return bound_ms <= 0 || isnan(ms) || ms <= bound_ms;
}

static bool meets_bounds(const struct kvt_request_record *record,
                         const struct kvt_slo_class *bounds)
{
    return within(latency_ms(record, TTFT), bounds->ttft_ms) &&
           within(latency_ms(record, TPOT), bounds->tpot_ms) &&
           within(latency_ms(record, E2EL), bounds->e2el_ms);
}

/* What became of a class's requests that finished in one interval. */
struct attainment {
    uint32_t finished, met;
};

/* Intervals of [from, to), whole or in part, in which some class fell short. */
static double violated_s(const struct kvt_run *run, const struct attainment *attained,
                         double interval_ns, double from_ns, double to_ns)
{
    const struct kvt_scenario *scenario = run->scenario;
    double violated_ns = 0;
    size_t first = (size_t)(from_ns / interval_ns);

    for (size_t i = 0; (double)(first + i) * interval_ns < to_ns; i++) {
        double begin_ns = fmax((double)(first + i) * interval_ns, from_ns);
        double end_ns = fmin((double)(first + i + 1) * interval_ns, to_ns);
        bool fell_short = false;
        for (uint32_t c = 0; c < scenario->slo_class_count; c++) {
            const struct attainment *of = &attained[i * scenario->slo_class_count + c];
            fell_short |= (double)of->met < scenario->slo_classes[c].attain * (double)of->finished;
        }
        if (fell_short)
            violated_ns += end_ns - begin_ns;
    }
    return violated_ns * 1e-9;
}

bool slo_violated_s(const struct kvt_run *run, int phase, long long from_ns, long long to_ns,
                    double *out)
{
    const struct kvt_scenario *scenario = run->scenario;
    double interval_ns = scenario->interval_s * (double)KVT_NS_PER_S;
    size_t first = (size_t)((double)from_ns / interval_ns);
    size_t interval_count = (size_t)((double)to_ns / interval_ns) + 1 - first;

    *out = NAN;
    if (scenario->slo_class_count == 0 || run->analytic)
        return true;
    struct attainment *attained =
        calloc(interval_count * scenario->slo_class_count, sizeof *attained);
    if (!attained)
        return false;
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (record->status != KVT_REQUEST_COMPLETED || record->finished_ns < from_ns ||
            (phase >= 0 && record->phase != phase))
            continue;
        size_t interval = (size_t)((double)record->finished_ns / interval_ns) - first;
        if (interval >= interval_count)
            continue;
        struct attainment *of = &attained[interval * scenario->slo_class_count + record->slo_class];
        of->finished++;
        of->met += meets_bounds(record, &scenario->slo_classes[record->slo_class]);
    }
    *out = violated_s(run, attained, interval_ns, (double)from_ns, (double)to_ns);
    free(attained);
    return true;
}

static bool service_levels(const struct kvt_run *run, int phase, double duration_s,
                           struct metric_values *out)
{
    const struct kvt_scenario *scenario = run->scenario;
    double met = 0;

    out->request_goodput = NAN;
    for (size_t i = 0; i < run->record_count && scenario->slo_class_count > 0; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (record->status == KVT_REQUEST_COMPLETED && record->finished_ns >= run->warmup_ns &&
            (phase < 0 || record->phase == phase))
            met += meets_bounds(record, &scenario->slo_classes[record->slo_class]);
    }
    if (scenario->slo_class_count > 0 && !run->analytic)
        out->request_goodput = duration_s > 0 ? met / duration_s : NAN;
    return slo_violated_s(run, phase, run->warmup_ns, run->end_ns, &out->slo_violation_s);
}

/* ---- Rows and the rest ------------------------------------------------------------- */

static void rows(const struct kvt_tally *tally, struct metric_values *out)
{
    double missed = tally->counts[KVT_SAMPLED_MISSED];

    out->host_fetch_share = metric_ratio(missed, tally->counts[KVT_SAMPLED_SELECTED]);
    out->hot_miss_ratio = metric_ratio(missed, tally->counts[KVT_SAMPLED_LOOKED_UP]);
    out->fetched_rows_per_round =
        metric_ratio(tally->counts[KVT_SAMPLED_FETCHED], (double)tally->rounds);
    out->h2d_payload_bytes = round(tally->h2d_payload_bytes);
    out->h2d_wire_bytes = round(tally->h2d_wire_bytes);
    out->prefetched_rows = round(tally->prefetched_rows);
    out->prefetch_wasted_rows = round(tally->prefetch_wasted_rows);
    out->deepened_rows = round(tally->deepened_rows);
}

static void throughput(const struct kvt_run *run, const struct kvt_tally *tally, int phase,
                       struct metric_values *out)
{
    double seconds = (double)(tally->to_ns - tally->from_ns) / 1e9;
    double tokens = (double)tally->output_tokens;

    out->duration = seconds;
    out->completed = (double)tally->completed;
    out->failed = out->unservable = (double)tally->unservable;
    out->total_input_tokens = (double)tally->input_tokens;
    out->total_output_tokens = tokens;
    out->request_throughput = metric_ratio(out->completed, seconds);
    out->output_throughput = metric_ratio(tokens, seconds);
    out->output_throughput_per_gpu = metric_ratio(tokens, seconds * run->gpus);
    out->total_token_throughput = metric_ratio(tokens + out->total_input_tokens, seconds);
    out->max_output_tokens_per_s = phase < 0 && !run->analytic ? run->max_output_tokens_per_s : NAN;
    out->max_concurrent_requests = phase < 0 ? (double)run->max_concurrent_requests : NAN;
}

static void steps_and_bytes(const struct kvt_tally *tally, struct metric_values *out)
{
    double steps = (double)tally->decode_steps, rounds = (double)tally->rounds;

    out->tokens_per_round =
        metric_ratio((double)tally->round_tokens - (double)tally->lost_tokens, rounds);
    out->decode_steps = steps;
    out->mean_step_ms = metric_ratio((double)tally->step_ns * 1e-6, steps);
    out->barrier_wait_share = metric_ratio((double)tally->barrier_wait_ns, (double)tally->rank_ns);
    out->backup_stall_ns = (double)tally->backup_stall_ns;
    out->extrapolated_step_share = metric_ratio((double)tally->extrapolated_steps, steps);
    out->staging_waves = (double)tally->staging_waves;
    out->staging_peak_bytes = (double)tally->staging_peak_bytes;
    out->backups_forced = (double)tally->backups_forced;
    out->pages_landed = (double)tally->pages_landed;
    out->pages_kept = (double)tally->pages_kept;
    out->hot_cache_resizes = (double)tally->resizes;
    out->demotions = (double)tally->demotions;
    out->preemptions = (double)tally->preemptions;
    out->prefix_hit_tokens = (double)tally->prefix_hit_tokens;
    out->reprefill_tokens = (double)tally->reprefill_tokens;
    out->d2h_bytes = (double)tally->d2h_bytes;
    out->recall_bytes = (double)tally->recall_bytes;
    out->fill_bytes = (double)tally->fill_bytes;
    out->import_bytes = (double)(tally->import_hbm_bytes + tally->import_host_bytes);
    out->hbm_kv_peak_bytes = (double)tally->hbm_peak_bytes;
    out->host_peak_bytes = (double)tally->host_peak_bytes;
}

static void faults(const struct kvt_run *run, const struct kvt_tally *tally, int phase,
                   struct metric_values *out)
{
    out->faults = (double)tally->faults;
    out->requests_interrupted = (double)tally->interrupted;
    out->fault_kept_tokens = phase < 0 ? faults_kept_tokens(run) : NAN;
    out->fault_recovery_s = phase < 0 ? faults_recovery_s(run) : NAN;
}

bool metric_values_compute(const struct kvt_run *run, int phase, struct metric_values *out)
{
    const struct kvt_tally *tally = phase < 0 ? &run->total : &run->phases[phase];

    throughput(run, tally, phase, out);
    steps_and_bytes(tally, out);
    rows(tally, out);
    faults(run, tally, phase, out);
    out->active_mean = phase < 0 ? run->active_mean : run->phase_active_mean[phase];
    out->coverage_mean = phase < 0 ? run->coverage_mean : run->phase_coverage_mean[phase];
    out->slots = (double)run->slots;
    if (run->analytic)
        out->staging_peak_bytes = NAN;
    return service_levels(run, phase, out->duration, out) && latencies(run, phase, out) &&
           transition_metrics(run, phase, out);
}
