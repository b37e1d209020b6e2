/* metrics.c -- metrics from tallies and records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expenses.h"
#include "faults.h"
#include "kvt/report.h"
#include "metrics_table.h"
#include "service.h"

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

static void summarise(const struct kvt_run *run, int phase, enum latency latency, size_t from,
                      double *scratch, struct kvt_summary *out)
{
    size_t n = 0;

    for (size_t i = from; i < run->record_count; i++) {
        double ms =
            record_counts(run, i, phase) ? record_latency_ms(&run->records[i], latency) : NAN;
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
    expenses_compute(run->scenario, tally, out);
    if (run->analytic)
        out->staging_peak_bytes = NAN;
    return service_levels(run, phase, out) && latencies(run, phase, out) &&
           transition_metrics(run, phase, out);
}
