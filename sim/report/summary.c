/* summary.c -- the terminal summary: what happened, and four lines of why. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "calibrated.h"
#include "faults.h"
#include "kvt/explain.h"
#include "kvt/json.h"
#include "kvt/report.h"
#include "metrics_table.h"
#include "summary.h"
#include "text.h"

static void put_head(FILE *stream, const struct kvt_run *run)
{
    const struct kvt_scenario *scenario = run->scenario;
    char gpus[160] = "";
    size_t used = 0;

    for (uint32_t p = 0; p < scenario->pool_count && used < sizeof gpus; p++)
        used += (size_t)snprintf(gpus + used, sizeof gpus - used, "%s%u x %s", p ? " + " : "",
                                 scenario->pools[p].gpus, scenario->pools[p].hardware->name);
    text_line(stream, "%s: %s on %s, %s, %s, %s, %s, seed %" PRIu64, scenario->name,
              scenario->llm->name, gpus, scenario->residency.info->name,
              scenario->arrival.info->name, kvt_fidelity_name(scenario->fidelity),
              scenario->timing.info->name, scenario->seed);
    text_rule(stream);
}

static void put_requests(FILE *stream, const struct kvt_run *run)
{
    struct kvt_request_counts counts = kvt_run_count_requests(run);
    const struct kvt_trace_account *account = run->account;

    if (account) {
        char dropped[160] = "";
        size_t used = 0;
        for (int r = 0; r < KVT_DROP_REASONS; r++)
            used += (size_t)snprintf(dropped + used, sizeof dropped - used, " + %s %" PRIu64,
                                     kvt_drop_reason_name((enum kvt_drop_reason)r),
                                     account->dropped[r]);
        text_line(stream, "trace      %s: rows read %" PRIu64 " = used %" PRIu64 "%s",
                  account->format, account->rows_read, account->used, dropped);
        if (account->unused)
            text_line(stream, "unused     of the trace, this version reads and does not use: %s",
                      account->unused);
    }
    text_line(stream,
              "requests   arrived %" PRIu64 " = completed %" PRIu64 " + running %" PRIu64
              " + waiting %" PRIu64 " + dropped %" PRIu64 " (unservable)",
              kvt_run_arrived(run), counts.completed, counts.running, counts.waiting,
              counts.unservable);
}

static void put_latency(FILE *stream, const cJSON *result, const char *label, const char *key,
                        double scale)
{
    static const char *const columns[] = {"mean",           "p50",          "p90", "p99",
                                          "post_wave_mean", "post_wave_p99"};

    fprintf(stream, "%-10s", label);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char name[64], text[16];
        snprintf(name, sizeof name, "%s_%s_ms", columns[i], key);
        fprintf(stream, " %10s", text_figure(metric(result, name) * scale, text));
    }
    fputc('\n', stream);
}

static void put_serving(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    char a[16], b[16], c[16], d[16];

    text_line(stream, "output     %s tokens/s, %s per GPU, over %s s; %s requests/s",
              text_figure(metric(result, "output_throughput"), a),
              text_figure(metric(result, "output_throughput_per_gpu"), b),
              text_figure(metric(result, "duration"), c),
              text_figure(metric(result, "request_throughput"), d));
    fprintf(stream, "%-10s %10s %10s %10s %10s %10s %10s\n", "", "mean", "p50", "p90", "p99",
            "post-wave", "its p99");
    put_latency(stream, result, "TTFT s", "ttft", 1e-3);
    put_latency(stream, result, "TPOT ms", "tpot", 1);
    put_latency(stream, result, "ITL ms", "itl", 1);
    put_latency(stream, result, "E2E s", "e2el", 1e-3);
    text_line(stream,
              "active     %s of %" PRIu64
              " slots, coverage %s (over the central half); host fetch share %s %%",
              text_figure(metric(result, "active_mean"), a), run->slots,
              text_figure(metric(result, "coverage_mean"), b),
              text_figure(100 * metric(result, "host_fetch_share"), c));
    if (run->scenario->slo_class_count > 0)
        text_line(stream,
                  "service    %s requests/s met all their bounds; some class fell short in %s s",
                  text_figure(metric(result, "request_goodput"), a),
                  text_figure(metric(result, "slo_violation_s"), b));
    summary_put_classes(stream, result);
}

static void put_rows(FILE *stream, const struct kvt_run *run)
{
    struct kvt_row_counts sum = {0};
    const char *of =
        run_is_sampled(run) ? " of followed calls" : ""; /* which are not all of them */

    for (uint32_t s = 0; s < run->stratum_count; s++)
        kvt_row_counts_add(&sum, &run->total.rows[s]);
    text_line(stream,
              "selected   %" PRIu64 "%s = tail %" PRIu64 " + optional %" PRIu64 " + hot %" PRIu64
              " + missed %" PRIu64,
              sum.selected, of, sum.tail, sum.page, sum.hot, sum.missed);
    text_line(stream,
              "distinct   %" PRIu64 "%s = tail %" PRIu64 " + optional %" PRIu64 " + hot %" PRIu64
              " + filled %" PRIu64 " + staged %" PRIu64,
              sum.union_rows, of, sum.union_tail, sum.union_page, sum.union_hot, sum.filled,
              sum.staged);
}

static void put_memory(FILE *stream, const struct kvt_run *run)
{
    char classes[200] = "";
    size_t used = 0;
    double gib = (double)KVT_GIB;

    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        if (run->total.hbm_peak_by_class[c] > 0)
            used += (size_t)snprintf(classes + used, sizeof classes - used, "%s%s %.2f",
                                     used ? ", " : "", kvt_mem_class_name((enum kvt_mem_class)c),
                                     (double)run->total.hbm_peak_by_class[c] / gib);
    }
    text_line(stream, "memory     HBM peak %.2f GiB over %u GPUs (%s); host peak %.2f GiB",
              (double)run->total.hbm_peak_bytes / gib, run->gpus, classes,
              (double)run->total.host_peak_bytes / gib);
    if (run->total.prefix_hit_tokens > 0)
        text_line(stream, "prefixes   %" PRIu64 " of %" PRIu64 " prompt tokens were found, %.1f %%",
                  run->total.prefix_hit_tokens, run->total.input_tokens,
                  100 * (double)run->total.prefix_hit_tokens / (double)run->total.input_tokens);
    if (run->total.preemptions > 0 || run->total.backup_stall_ns > 0)
        text_line(stream, "pressure   %" PRIu64 " preemptions, %.3f s of steps held up by backups",
                  run->total.preemptions, (double)run->total.backup_stall_ns * 1e-9);
}

/* What a smaller staging has cost; with the whole of the worst case it costs nothing. */
static void put_staging(FILE *stream, const struct kvt_run *run)
{
    const struct kvt_tally *total = &run->total;

    if (!kvt_scenario_takes_turns(run->scenario) || total->decode_steps == 0)
        return;
    text_line(stream,
              "staging    %g of the widest call a session: %" PRIu64
              " waves beyond the first, %.2f a step; at most %.1f MiB in one",
              run->scenario->staging_fraction, total->staging_waves,
              (double)total->staging_waves / (double)total->decode_steps,
              (double)total->staging_peak_bytes / (double)(1 << 20));
}

/* How missed rows crossed the link, where not all of them did whole and on demand. */
static void put_crossing(FILE *stream, const struct kvt_run *run)
{
    const struct kvt_tally *total = &run->total;
    const struct kvt_prefetch *prefetch = &run->scenario->prefetch;
    const struct kvt_read_depth *depth = &run->scenario->read_depth;
    double missed = total->counts[KVT_SAMPLED_FETCHED];

    if (kvt_predicts_rows(prefetch))
        text_line(
            stream,
            "prefetch   %.0f of %.0f missed rows were sent ahead (%.1f %%, lead %s), and %.0f "
            "in vain",
            total->prefetched_rows, missed, missed > 0 ? 100 * total->prefetched_rows / missed : 0,
            kvt_prefetch_lead_name(prefetch->lead), total->prefetch_wasted_rows);
    if (kvt_reads_planes(depth))
        text_line(
            stream,
            "planes     %.0f cached rows were deepened beside %.0f missed; the first plane is "
            "%g of a row, enough for %g of the reads",
            total->deepened_rows, missed, depth->shallow_fraction, depth->shallow_share);
}

static void put_phases(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    const cJSON *phase;

    if (run->phase_count < 2)
        return;
    fprintf(stream, "%-10s %10s %10s %10s %10s %10s %10s\n", "phase", "from s", "to s", "tok/s/GPU",
            "active", "coverage", "host %");
    cJSON_ArrayForEach(phase, kvt_json_find(result, "phases"))
    {
        char text[6][16];
        fprintf(stream, "%-10.0f %10s %10s %10s %10s %10s %10s\n",
                kvt_json_find(phase, "phase")->valuedouble,
                text_figure(kvt_json_find(phase, "from_s")->valuedouble, text[5]),
                text_figure(kvt_json_find(phase, "to_s")->valuedouble, text[0]),
                text_figure(metric(phase, "output_throughput_per_gpu"), text[1]),
                text_figure(metric(phase, "active_mean"), text[2]),
                text_figure(metric(phase, "coverage_mean"), text[3]),
                text_figure(100 * metric(phase, "host_fetch_share"), text[4]));
    }
}

/* "host + draft": what was added to measured steps; "" where that is nothing. */
static const char *added_names(const struct kvt_run *run, char out[96])
{
    size_t used = 0;

    out[0] = '\0';
    for (int p = 0; p < KVT_PARTS; p++) {
        if (run->total.added_parts_ns[p] > 0)
            used += (size_t)snprintf(out + used, 96 - used, "%s%s", used ? " + " : "",
                                     kvt_step_part_name((enum kvt_step_part)p));
    }
    return out;
}

/* ---- What was fitted, scaled, cut short ------------------------------------------ */

/* "residency.refill_gb_per_s 0.6", or "timing paper (6 constants)": appended to text. */
static void append_calibrated(char *text, size_t bytes, const struct kvt_scenario *scenario,
                              const char *object, const struct kvt_choice *choice)
{
    size_t used = strlen(text), fitted = 0, last = 0;
    char in_force[CALIBRATED_BYTES];

    for (size_t i = 0; choice->info && i < choice->info->param_count; i++) {
        if (calibrated_counts(scenario, object, &choice->info->params[i])) {
            fitted++;
            last = i;
        }
    }
    if (fitted == 0)
        return;
    const char *separator = used > 0 ? ", " : "";
    const char *label = strrchr(object, '.') ? strrchr(object, '.') + 1 : object;
    if (fitted == 1) {
        calibrated_print(&choice->params.values[last], in_force);
        snprintf(text + used, bytes - used, "%s%s.%s %s", separator, label,
                 choice->info->params[last].name, in_force);
    } else {
        snprintf(text + used, bytes - used, "%s%s %s (%zu constants)", separator, label,
                 choice->info->name, fitted);
    }
}

/* "+-1.2 %" of its value. */
static const char *percent(double relative, char out[24])
{
    char text[16];

    if (!isfinite(relative))
        snprintf(out, 24, "not known");
    else
        snprintf(out, 24, "+-%s %%", text_figure(100 * relative, text));
    return out;
}

static void put_followed(FILE *stream, const struct kvt_run *run, uint32_t s)
{
    const struct kvt_stratum *stratum = &run->strata[s];
    char requests[32] = "each request", times[48] = "", scale[16];
    double stand_for = sampled_scale(run, s);

    if (run->sampling.pooled)
        snprintf(requests, sizeof requests, "%u requests of each rank",
                 run->scenario->sample_requests);
    if (isfinite(stand_for))
        snprintf(times, sizeof times, ", and stand for %s times as many",
                 text_figure(stand_for, scale));
    text_line(stream, "scaled     rows: %u of %u stores (compress ratio %u) of %s are followed%s",
              stratum->followed, stratum->stores, stratum->compress_ratio, requests, times);
}

/* Of those metrics that the run has. */
static void put_sampling(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    struct sampled_errors errors;
    char text[160] = "", number[24];
    size_t used = 0;

    sampled_errors_compute(run, &errors);
    const struct {
        const char *title, *metric;
        double error;
    } parts[] = {{"output", "output_throughput", errors.output},
                 {"TPOT", "mean_tpot_ms", errors.step},
                 {"host fetch share", "host_fetch_share", errors.host_fetch_share}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (isfinite(metric(result, parts[i].metric)))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "",
                                     parts[i].title, percent(parts[i].error, number));
    }
    if (used > 0 && run->total.decode_steps > 0)
        text_line(stream, "sampling   leaves open, 99 %% of the time: %s (of the value)", text);
}

static void put_scaled(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    if (!run_is_sampled(run))
        return;
    for (uint32_t s = 0; s < run->stratum_count; s++) {
        if (run->sampling.pooled || run->strata[s].followed < run->strata[s].stores)
            put_followed(stream, run, s);
    }
    put_sampling(stream, run, result);
}

/* "dense 31.2 + fetch 4.1", ms a step, of what is no scrap of the whole. */
static void print_measured_parts(char *text, size_t bytes, const struct kvt_tally *total,
                                 const kvt_ns parts_ns[KVT_PARTS])
{
    double steps = (double)total->measured_steps;
    char number[16];
    size_t used = 0;

    text[0] = '\0';
    for (int p = 0; p < KVT_PARTS && used < bytes; p++) {
        if (parts_ns[p] > 0 && (double)parts_ns[p] > 0.0005 * (double)total->measured_ns)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s %s", used ? " + " : "",
                                     kvt_step_part_name((enum kvt_step_part)p),
                                     text_figure((double)parts_ns[p] / 1e6 / steps, number));
    }
}

/* Bytes over the time of their copies. */
static void print_rate(char *text, size_t bytes, uint64_t moved_bytes, double ns, const char *when)
{
    char size[16], rate[16];

    text[0] = '\0';
    if (moved_bytes > 0)
        snprintf(text, bytes, ", %s GB %s at %s GB/s",
                 text_figure((double)moved_bytes * 1e-9, size), when,
                 text_figure((double)moved_bytes / ns, rate));
}

static void put_imports(FILE *stream, const struct kvt_backend_imports *imports)
{
    char beside[64], joining[64], number[16];

    if (imports->requests == 0)
        return;
    print_rate(beside, sizeof beside, imports->beside_bytes, imports->beside_ns, "beside steps");
    print_rate(joining, sizeof joining, imports->joining_bytes, imports->joining_ns,
               "as they joined");
    text_line(stream, "imports    of %" PRIu64 " requests over the link%s%s; %s ms waited for",
              imports->requests, beside, joining, text_figure(imports->waited_ns * 1e-6, number));
}

/* The backend's own figures, what of a step it does not run, and whether they count. */
static void put_measured(FILE *stream, const struct kvt_run *run)
{
    const struct kvt_tally *total = &run->total;
    char text[200], added[120], number[16], attention[96] = "", names[96];

    if (total->measured_steps == 0)
        return;
    print_measured_parts(text, sizeof text, total, total->measured_parts_ns);
    print_measured_parts(added, sizeof added, total, total->added_parts_ns);
    text_line(stream, "measured   %" PRIu64 " steps of %s ms = %s%s%s%s", total->measured_steps,
              text_figure((double)total->measured_ns / 1e6 / (double)total->measured_steps, number),
              text, added[0] ? "; not in it, for no backend runs it: " : "", added,
              added[0] ? ", as predicted" : "");
    put_imports(stream, &run->proof.imports);
    if (run->proof.checked_queries > 0)
        snprintf(attention, sizeof attention, "; attention: %" PRIu64 " of %" PRIu64 " differ",
                 run->proof.unequal_queries, run->proof.checked_queries);
    if (run->scenario->clock != KVT_CLOCK_MEASURED)
        text_line(stream,
                  "clock      predicted: what was measured is told beside, and decides nothing%s",
                  attention);
    else if (added_names(run, names)[0])
        text_line(stream, "clock      measured, and %s as predicted: not reproducible%s", names,
                  attention);
    else
        text_line(stream, "clock      measured: not reproducible%s", attention);
}

static void put_scaled_backend(FILE *stream, const cJSON *result)
{
    const cJSON *backend = kvt_json_find(kvt_json_find(result, "scaled"), "backend"), *item;
    const char *times = text_at(kvt_json_find(result, "scaled"), "times");
    char text[200] = "";
    size_t used = 0;

    cJSON_ArrayForEach(item, backend) used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s %.0f", used ? ", " : "",
                         item->string, item->valuedouble);
    if (used > 0)
        text_line(stream, "scaled     on the GPU: %s%s%s", text, times[0] ? "; " : "", times);
}

/* What this result proves, and what not: as the result has it, and on which GPU. */
static void put_badge(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    const cJSON *gpus = kvt_json_find(kvt_json_find(result, "machine"), "gpus");
    const char *gpu = text_at(cJSON_GetArrayItem(gpus, 0), "name");
    struct kvt_badge badge;
    char text[KVT_BADGE_TEXT_BYTES];

    kvt_run_badge(run, gpu[0] ? gpu : NULL, &badge);
    kvt_badge_print(&badge, text);
    text_line(stream, "badge      %s", text);
}

static void put_outside(FILE *stream, const struct kvt_outside *outside)
{
    if (outside->feature)
        text_line(stream, "           most often %s: %s %.4g, known %.4g to %.4g",
                  kvt_step_part_name(outside->part), outside->feature, outside->value,
                  outside->least, outside->most);
    else
        text_line(stream, "           most often %s: nothing of it is known",
                  kvt_step_part_name(outside->part));
}

static void put_faults(FILE *stream, const struct kvt_run *run)
{
    char text[FAULT_TEXT_BYTES];

    for (uint32_t i = 0; i < run->fault_count; i++) {
        faults_say(run, &run->faults[i], text, sizeof text);
        text_line(stream, "fault      %s", text);
    }
}

/* Where an open loop's queues are near their limit, or past it. */
static void put_loaded(FILE *stream, const struct kvt_run *run)
{
    char stages[KVT_SATURATED_BYTES];

    if (kvt_run_loaded(run, 1, INFINITY, stages))
        text_line(
            stream,
            "saturated  %s: more comes than can be done, so that the queue, and TTFT with it, "
            "grow for as long as requests come",
            stages);
    if (kvt_run_loaded(run, 0.9, 1.1, stages))
        text_line(stream,
                  "range      %s: so near to its limit a queue is mostly chance, and TTFT by mean "
                  "values may be off by half (docs/fidelity.md)",
                  stages);
}

static void put_caveats(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    const struct kvt_scenario *scenario = run->scenario;
    char calibrated[400] = "";

    append_calibrated(calibrated, sizeof calibrated, scenario, "residency", &scenario->residency);
    append_calibrated(calibrated, sizeof calibrated, scenario, "selection", &scenario->selection);
    append_calibrated(calibrated, sizeof calibrated, scenario, "speculation",
                      &scenario->speculation);
    append_calibrated(calibrated, sizeof calibrated, scenario, "timing", &scenario->timing);
    append_calibrated(calibrated, sizeof calibrated, scenario, "cluster.import", &scenario->import);
    if (calibrated[0])
        text_line(stream, "calibrated %s", calibrated);
    put_scaled(stream, run, result);
    put_scaled_backend(stream, result);
    put_measured(stream, run);
    if (run->total.extrapolated_steps > 0)
        text_line(stream,
                  "range      %.1f %% of steps lie outside what timing \"%s\" was fitted to",
                  100 * (double)run->total.extrapolated_steps / (double)run->total.decode_steps,
                  scenario->timing.info->name);
    if (run->says_outside)
        put_outside(stream, &run->outside);
    put_loaded(stream, run);
    if (run->few_for_means)
        text_line(stream, "range      fewer requests or shorter answers than mean values stand for "
                          "(docs/fidelity.md): these are extrapolated");
    if (run->warmup_ns >= run->end_ns && run->end_ns > 0)
        text_line(stream, "warm-up    the rule run.warmup cut the whole run: nothing is left");
    else if (run->warmup_ns > 0)
        text_line(
            stream,
            "warm-up    the first %.3f s are cut (run.warmup), but not from the line requests",
            (double)run->warmup_ns * 1e-9);
    if (run->is_bound)
        text_line(stream, "bound      a policy saw the future: a bound, not what can be had");
    if (run->interrupted)
        text_line(stream, "ending     interrupted: the figures cover what was simulated");
    put_badge(stream, run, result);
}

void kvt_report_summary(FILE *stream, const struct kvt_run *run, const cJSON *result)
{
    put_head(stream, run);
    put_requests(stream, run);
    put_serving(stream, run, result);
    put_phases(stream, run, result);
    put_rows(stream, run);
    put_memory(stream, run);
    summary_put_prefill(stream, run, result);
    summary_put_expenses(stream, run, result);
    put_staging(stream, run);
    put_crossing(stream, run);
    put_faults(stream, run);
    put_caveats(stream, run, result);
    kvt_explain_put_lines(stream, result);
}
