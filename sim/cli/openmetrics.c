/* openmetrics.c -- timeline.om: a sample an interval of every metric, at the interval's end.
 *
 *     before the first:       counters at 0
 *     as an interval closes:  its figures, counters as sums up to there, go to a spool
 *     at the end:             metric by metric, the spool is read again; histograms come from the
 *                             requests in order of when each was done
 *
 * Times are seconds of the run, from 0. Gauges that an engine samples at an instant are means over
 * the interval here, as in timeline.csv. A figure that an interval does not have (coverage where
 * nothing can be covered) is left out. Names: vLLM's and SGLang's own where they have the same
 * quantity, "kvtide:" else; buckets are vLLM's. */
#include "openmetrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/scenario.h"

enum figure {
    FIGURE_TO_S = 0,
    FIGURE_RUNNING,
    FIGURE_WAITING,
    FIGURE_IMPORTING,
    FIGURE_PREFILLING,
    FIGURE_HELD,
    FIGURE_USAGE,
    FIGURE_OUTPUT_RATE,
    FIGURE_HIT_RATE,
    FIGURE_FETCH_SHARE,
    FIGURE_COVERAGE,
    FIGURE_STEP_S,
    FIGURE_BARRIER_SHARE,
    FIGURE_DOWN,
    FIGURE_HBM_BYTES,
    FIGURE_HOST_BYTES,
    FIGURE_HBM_CLASS,                                     /* one a class */
    FIGURE_COUNTERS = FIGURE_HBM_CLASS + KVT_MEM_CLASSES, /* from here on: sums since the start */
    FIGURE_ARRIVED = FIGURE_COUNTERS,
    FIGURE_ADMITTED,
    FIGURE_COMPLETED,
    FIGURE_UNSERVABLE,
    FIGURE_PREEMPTIONS,
    FIGURE_INPUT_TOKENS,
    FIGURE_HIT_TOKENS,
    FIGURE_OUTPUT_TOKENS,
    FIGURE_SELECTED,
    FIGURE_MISSED,
    FIGURE_HOT_HITS,
    FIGURE_WIRE_BYTES,
    FIGURE_FILL_BYTES,
    FIGURE_D2H_BYTES,
    FIGURE_IMPORT_BYTES,
    FIGURE_PAGES_FILLED,
    FIGURE_PAGES_RELEASED,
    FIGURE_STEPS,
    FIGURE_INTERRUPTED,
    FIGURE_ITL_COUNT, /* gaps between deliveries, and their seconds */
    FIGURE_ITL_SUM,
    FIGURES
};

enum kind {
    GAUGE = 0,
    COUNTER
};

static const struct metric {
    const char *name;                 /* of the family: a counter's samples end in _total */
    const char *labels, *unit, *help; /* unit NULL: none */
    enum figure figure;
    enum kind kind;
} metrics[] = {
    {"vllm:num_requests_running", "", NULL, "Requests that decode, mean over the interval.",
     FIGURE_RUNNING, GAUGE},
    {"vllm:num_requests_waiting", "", NULL,
     "Requests that wait to be admitted, mean over the interval.", FIGURE_WAITING, GAUGE},
    {"vllm:kv_cache_usage_perc", "", NULL,
     "HBM for KV in use at its peak in the interval, optional history with it; 1 is all.",
     FIGURE_USAGE, GAUGE},
    {"vllm:prompt_tokens", "", NULL, "Prompt tokens of admitted requests.", FIGURE_INPUT_TOKENS,
     COUNTER},
    {"vllm:generation_tokens", "", NULL, "Tokens delivered.", FIGURE_OUTPUT_TOKENS, COUNTER},
    {"vllm:prefix_cache_queries", "", NULL, "Prompt tokens of admitted requests, looked up.",
     FIGURE_INPUT_TOKENS, COUNTER},
    {"vllm:prefix_cache_hits", "", NULL, "Of those, found.", FIGURE_HIT_TOKENS, COUNTER},
    {"vllm:num_preemptions", "", NULL, "Requests that lost their memory and waited again.",
     FIGURE_PREEMPTIONS, COUNTER},
    {"vllm:request_success", "finished_reason=\"length\"", NULL, "Requests completed.",
     FIGURE_COMPLETED, COUNTER},
    {"vllm:hisparse_cache_hits", "", NULL, "Selections found in hot caches, of all calls.",
     FIGURE_HOT_HITS, COUNTER},
    {"vllm:hisparse_cache_misses", "", NULL, "Selections whose row crossed the link.",
     FIGURE_MISSED, COUNTER},
    {"sglang:num_running_reqs", "", NULL, "Requests that decode, mean over the interval.",
     FIGURE_RUNNING, GAUGE},
    {"sglang:num_queue_reqs", "", NULL, "Requests that wait to be admitted, mean.", FIGURE_WAITING,
     GAUGE},
    {"sglang:token_usage", "", NULL, "As vllm:kv_cache_usage_perc.", FIGURE_USAGE, GAUGE},
    {"sglang:gen_throughput", "", NULL, "Tokens delivered in a second of the interval.",
     FIGURE_OUTPUT_RATE, GAUGE},
    {"sglang:cache_hit_rate", "", NULL, "Share of prompt tokens admitted in the interval, found.",
     FIGURE_HIT_RATE, GAUGE},
    {"sglang:prompt_tokens", "", NULL, "Prompt tokens of admitted requests.", FIGURE_INPUT_TOKENS,
     COUNTER},
    {"sglang:generation_tokens", "", NULL, "Tokens delivered.", FIGURE_OUTPUT_TOKENS, COUNTER},
    {"sglang:num_retracted_requests", "", NULL, "As vllm:num_preemptions.", FIGURE_PREEMPTIONS,
     COUNTER},
    {"kvtide:requests_importing", "", NULL, "Requests whose history comes in, mean.",
     FIGURE_IMPORTING, GAUGE},
    {"kvtide:requests_prefilling", "", NULL, "Requests in prefill, or before it, mean.",
     FIGURE_PREFILLING, GAUGE},
    {"kvtide:allocated_slots", "", NULL, "Requests that hold a slot, mean.", FIGURE_HELD, GAUGE},
    {"kvtide:host_fetch_ratio", "", "ratio", "Missed selections over selections.",
     FIGURE_FETCH_SHARE, GAUGE},
    {"kvtide:coverage_ratio", "", "ratio", "Ready optional rows over eligible rows, mean.",
     FIGURE_COVERAGE, GAUGE},
    {"kvtide:step_seconds", "", "seconds", "Mean duration of a decode step.", FIGURE_STEP_S, GAUGE},
    {"kvtide:barrier_wait_ratio", "", "ratio", "Time of ranks that wait for the slowest.",
     FIGURE_BARRIER_SHARE, GAUGE},
    {"kvtide:ranks_down", "", NULL, "Ranks that are down, mean.", FIGURE_DOWN, GAUGE},
    {"kvtide:hbm_kv_peak_bytes", "", "bytes", "HBM in use over all GPUs, peak of the interval.",
     FIGURE_HBM_BYTES, GAUGE},
    {"kvtide:host_peak_bytes", "", "bytes", "Host DRAM in use over all nodes, peak.",
     FIGURE_HOST_BYTES, GAUGE},
    {"kvtide:requests_arrived", "", NULL, "Requests that arrived.", FIGURE_ARRIVED, COUNTER},
    {"kvtide:requests_admitted", "", NULL, "Admissions, those after a preemption too.",
     FIGURE_ADMITTED, COUNTER},
    {"kvtide:requests_completed", "", NULL, "Requests completed.", FIGURE_COMPLETED, COUNTER},
    {"kvtide:requests_unservable", "", NULL, "Requests that could never fit.", FIGURE_UNSERVABLE,
     COUNTER},
    {"kvtide:selections", "", NULL, "Selections, of all calls.", FIGURE_SELECTED, COUNTER},
    {"kvtide:h2d_wire_bytes", "", "bytes", "Missed rows as they cross the link.", FIGURE_WIRE_BYTES,
     COUNTER},
    {"kvtide:fill_bytes", "", "bytes", "Optional pages brought up.", FIGURE_FILL_BYTES, COUNTER},
    {"kvtide:d2h_bytes", "", "bytes", "Rows written to host.", FIGURE_D2H_BYTES, COUNTER},
    {"kvtide:import_bytes", "", "bytes", "Histories from outside.", FIGURE_IMPORT_BYTES, COUNTER},
    {"kvtide:pages_filled", "", NULL, "Pages brought up.", FIGURE_PAGES_FILLED, COUNTER},
    {"kvtide:pages_released", "", NULL, "Pages given up.", FIGURE_PAGES_RELEASED, COUNTER},
    {"kvtide:requests_interrupted", "", NULL, "Requests that faults interrupted.",
     FIGURE_INTERRUPTED, COUNTER},
    {"kvtide:decode_steps", "", NULL, "Steps of groups of ranks.", FIGURE_STEPS, COUNTER},
};

struct openmetrics {
    struct kvt_outfile *spool; /* [interval_count][FIGURES] doubles; never committed */
    FILE *intervals;           /* the spool, once it is read again */
    uint64_t interval_count;   /* the start with them */
    double capacity_bytes;     /* HBM for KV over all GPUs */
    double sums[FIGURES];      /* of counters */
};

kvt_status openmetrics_begin(const char *path, const struct kvt_scenario *scenario,
                             struct openmetrics **out, struct kvt_error *err)
{
    struct openmetrics *om = calloc(1, sizeof *om);

    if (!om)
        return kvt_fail_nomem(err, "timeline.om");
    kvt_status status = kvt_outfile_open(path, &om->spool, err);
    if (status != KVT_OK) {
        free(om);
        return status;
    }
    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        const struct kvt_decode_pool *pool = &scenario->pools[p];
        om->capacity_bytes += pool->gpus * (double)(pool->index_pool_bytes + pool->rows_pool_bytes +
                                                    pool->growth_reserve_bytes);
    }
    *out = om;
    return KVT_OK;
}

void openmetrics_free(struct openmetrics *om)
{
    if (!om)
        return;
    if (om->intervals)
        (void)fclose(om->intervals);
    kvt_outfile_discard(om->spool);
    free(om);
}

/* ---- As the run goes ----------------------------------------------------------------------- */

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static void count(double sums[FIGURES], const struct kvt_tally *interval)
{
    const double counts[FIGURES] = {
        [FIGURE_ARRIVED] = (double)interval->arrived,
        [FIGURE_ADMITTED] = (double)interval->admitted,
        [FIGURE_COMPLETED] = (double)interval->completed,
        [FIGURE_UNSERVABLE] = (double)interval->unservable,
        [FIGURE_PREEMPTIONS] = (double)interval->preemptions,
        [FIGURE_INPUT_TOKENS] = (double)interval->input_tokens,
        [FIGURE_HIT_TOKENS] = (double)interval->prefix_hit_tokens,
        [FIGURE_OUTPUT_TOKENS] = (double)interval->output_tokens,
        [FIGURE_SELECTED] = interval->counts[KVT_SAMPLED_SELECTED],
        [FIGURE_MISSED] = interval->counts[KVT_SAMPLED_MISSED],
        [FIGURE_HOT_HITS] =
            interval->counts[KVT_SAMPLED_LOOKED_UP] - interval->counts[KVT_SAMPLED_MISSED],
        [FIGURE_WIRE_BYTES] = round(interval->h2d_wire_bytes),
        [FIGURE_FILL_BYTES] = (double)interval->fill_bytes,
        [FIGURE_D2H_BYTES] = (double)interval->d2h_bytes,
        [FIGURE_IMPORT_BYTES] = (double)(interval->import_hbm_bytes + interval->import_host_bytes),
        [FIGURE_PAGES_FILLED] = (double)interval->pages_filled,
        [FIGURE_PAGES_RELEASED] = (double)interval->pages_released,
        [FIGURE_STEPS] = (double)interval->decode_steps,
        [FIGURE_INTERRUPTED] = (double)interval->interrupted,
        [FIGURE_ITL_COUNT] = (double)interval->itl_count,
        [FIGURE_ITL_SUM] = interval->itl_ns * 1e-9,
    };

    for (int f = FIGURE_COUNTERS; f < FIGURES; f++)
        sums[f] += counts[f];
}

static void keep(struct openmetrics *om, const double figures[FIGURES])
{
    (void)fwrite(figures, FIGURES * sizeof figures[0], 1, kvt_outfile_stream(om->spool));
    om->interval_count++;
}

/* Nothing has been counted yet; gauges have no value. */
static void put_start(struct openmetrics *om, const struct kvt_tally *first)
{
    double figures[FIGURES] = {[FIGURE_TO_S] = (double)first->from_ns / KVT_NS_PER_S};

    for (int f = FIGURE_TO_S + 1; f < FIGURE_COUNTERS; f++)
        figures[f] = NAN;
    keep(om, figures);
}

void openmetrics_interval(struct openmetrics *om, const struct kvt_tally *interval)
{
    double ns = (double)(interval->to_ns - interval->from_ns);
    double figures[FIGURES] = {
        [FIGURE_TO_S] = (double)interval->to_ns / KVT_NS_PER_S,
        [FIGURE_RUNNING] = ratio(interval->running_ns, ns),
        [FIGURE_WAITING] = ratio(interval->waiting_ns, ns),
        [FIGURE_IMPORTING] = ratio(interval->importing_ns, ns),
        [FIGURE_PREFILLING] = ratio(interval->prefilling_ns, ns),
        [FIGURE_HELD] = ratio(interval->held_ns, ns),
        [FIGURE_USAGE] = ratio((double)interval->hbm_peak_bytes, om->capacity_bytes),
        [FIGURE_OUTPUT_RATE] = ratio((double)interval->output_tokens * KVT_NS_PER_S, ns),
        [FIGURE_HIT_RATE] =
            ratio((double)interval->prefix_hit_tokens, (double)interval->input_tokens),
        [FIGURE_FETCH_SHARE] =
            ratio(interval->counts[KVT_SAMPLED_MISSED], interval->counts[KVT_SAMPLED_SELECTED]),
        [FIGURE_COVERAGE] = ratio(interval->coverage_ns, interval->covered_ns),
        [FIGURE_STEP_S] = ratio((double)interval->step_ns * 1e-9, (double)interval->decode_steps),
        [FIGURE_BARRIER_SHARE] =
            ratio((double)interval->barrier_wait_ns, (double)interval->rank_ns),
        [FIGURE_DOWN] = ratio(interval->down_ns, ns),
        [FIGURE_HBM_BYTES] = (double)interval->hbm_peak_bytes,
        [FIGURE_HOST_BYTES] = (double)interval->host_peak_bytes,
    };

    if (om->interval_count == 0)
        put_start(om, interval);
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        figures[FIGURE_HBM_CLASS + c] = (double)interval->hbm_peak_by_class[c];
    count(om->sums, interval);
    for (int f = FIGURE_COUNTERS; f < FIGURES; f++)
        figures[f] = om->sums[f];
    keep(om, figures);
}

/* ---- At the end ---------------------------------------------------------------------------- */

static void put_value(FILE *stream, double value, double at_s)
{
    char text[32];

    kvt_json_print_number(value, text);
    fprintf(stream, " %s", text);
    kvt_json_print_number(at_s, text);
    fprintf(stream, " %s\n", text);
}

static void put_head(FILE *stream, const char *name, const char *type, const char *unit,
                     const char *help)
{
    fprintf(stream, "# TYPE %s %s\n", name, type);
    if (unit)
        fprintf(stream, "# UNIT %s %s\n", name, unit);
    fprintf(stream, "# HELP %s %s\n", name, help);
}

/* The next interval's figures; false at the end. */
static bool next_interval(struct openmetrics *om, double figures[FIGURES])
{
    return fread(figures, FIGURES * sizeof figures[0], 1, om->intervals) == 1;
}

static void write_metric(struct openmetrics *om, const struct metric *metric, FILE *stream)
{
    const char *end = metric->kind == COUNTER ? "_total" : "";
    bool is_labelled = metric->labels[0] != '\0';
    double figures[FIGURES];

    put_head(stream, metric->name, metric->kind == COUNTER ? "counter" : "gauge", metric->unit,
             metric->help);
    rewind(om->intervals);
    while (next_interval(om, figures)) {
        if (!isfinite(figures[metric->figure]))
            continue;
        fprintf(stream, "%s%s%s%s%s", metric->name, end, is_labelled ? "{" : "", metric->labels,
                is_labelled ? "}" : "");
        put_value(stream, figures[metric->figure], figures[FIGURE_TO_S]);
    }
}

static void write_classes(struct openmetrics *om, FILE *stream)
{
    static const char name[] = "kvtide:hbm_kv_class_bytes";
    double figures[FIGURES];

    put_head(stream, name, "gauge", "bytes", "HBM in use by class, at the interval's peak.");
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        rewind(om->intervals);
        while (next_interval(om, figures)) {
            if (!isfinite(figures[FIGURE_HBM_CLASS + c]))
                continue;
            fprintf(stream, "%s{class=\"%s\"}", name, kvt_mem_class_name((enum kvt_mem_class)c));
            put_value(stream, figures[FIGURE_HBM_CLASS + c], figures[FIGURE_TO_S]);
        }
    }
}

/* Gaps are not kept one by one: no buckets, which makes it a summary. */
static void write_gaps(struct openmetrics *om, FILE *stream)
{
    static const char name[] = "vllm:inter_token_latency_seconds";
    double figures[FIGURES];

    put_head(stream, name, "summary", "seconds", "From one delivery to the next.");
    rewind(om->intervals);
    while (next_interval(om, figures)) {
        fprintf(stream, "%s_count", name);
        put_value(stream, figures[FIGURE_ITL_COUNT], figures[FIGURE_TO_S]);
        fprintf(stream, "%s_sum", name);
        put_value(stream, figures[FIGURE_ITL_SUM], figures[FIGURE_TO_S]);
    }
}

/* What a request took, known at that moment. */
struct done {
    kvt_ns at_ns;
    double seconds;
};

static int compare_done(const void *a, const void *b)
{
    const struct done *first = a, *second = b;

    if (first->at_ns != second->at_ns)
        return first->at_ns < second->at_ns ? -1 : 1;
    return (first->seconds > second->seconds) - (first->seconds < second->seconds);
}

enum latency {
    LATENCY_TTFT = 0,
    LATENCY_TPOT,
    LATENCY_E2E,
    LATENCIES
};

static const double ttft_bounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                     0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                     20,    40,    80,   160,  640,  2560};
static const double tpot_bounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                     0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double e2e_bounds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                    30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
enum {
    BOUNDS_MAX = 32
};

static const struct {
    const char *name, *help;
    const double *bounds;
    size_t bound_count;
} latencies[LATENCIES] = {
    [LATENCY_TTFT] = {"vllm:time_to_first_token_seconds", "From arrival to the first token.",
                      ttft_bounds, sizeof ttft_bounds / sizeof ttft_bounds[0]},
    [LATENCY_TPOT] = {"vllm:request_time_per_output_token_seconds",
                      "From the first token to the last, over the tokens after the first.",
                      tpot_bounds, sizeof tpot_bounds / sizeof tpot_bounds[0]},
    [LATENCY_E2E] = {"vllm:e2e_request_latency_seconds", "From arrival to the last token.",
                     e2e_bounds, sizeof e2e_bounds / sizeof e2e_bounds[0]},
};

/* False: the request has none, or not yet. */
static bool latency_of(enum latency latency, const struct kvt_request_record *record,
                       struct done *done)
{
    bool is_over = record->finished_ns != KVT_NS_NEVER;

    done->at_ns = latency == LATENCY_TTFT ? record->first_token_ns : record->finished_ns;
    switch (latency) {
    case LATENCY_TTFT:
        done->seconds = (double)(record->first_token_ns - record->arrival_ns) / KVT_NS_PER_S;
        return record->first_token_ns != KVT_NS_NEVER;
    case LATENCY_TPOT:
        if (!is_over || record->output_tokens < 2)
            return false;
        done->seconds = (double)(record->finished_ns - record->first_token_ns) / KVT_NS_PER_S /
                        (record->output_tokens - 1);
        return true;
    case LATENCY_E2E:
        done->seconds = (double)(record->finished_ns - record->arrival_ns) / KVT_NS_PER_S;
        return is_over;
    case LATENCIES:
        break;
    }
    return false;
}

static void put_histogram(FILE *stream, enum latency latency, const uint64_t within[BOUNDS_MAX],
                          uint64_t total, double sum, double at_s)
{
    char bound[32];
    const char *name = latencies[latency].name;

    for (size_t b = 0; b < latencies[latency].bound_count; b++) {
        kvt_json_print_number(latencies[latency].bounds[b], bound);
        fprintf(stream, "%s_bucket{le=\"%s%s\"}", name, bound, strpbrk(bound, ".e") ? "" : ".0");
        put_value(stream, (double)within[b], at_s);
    }
    fprintf(stream, "%s_bucket{le=\"+Inf\"}", name);
    put_value(stream, (double)total, at_s);
    fprintf(stream, "%s_count", name);
    put_value(stream, (double)total, at_s);
    fprintf(stream, "%s_sum", name);
    put_value(stream, sum, at_s);
}

static void write_latency(struct openmetrics *om, enum latency latency, struct done *done,
                          const struct kvt_run *run, FILE *stream)
{
    uint64_t within[BOUNDS_MAX] = {0};
    double figures[FIGURES], sum = 0;
    size_t done_count = 0, next = 0;

    for (size_t i = 0; i < run->record_count; i++)
        done_count += latency_of(latency, &run->records[i], &done[done_count]);
    if (done_count > 0)
        qsort(done, done_count, sizeof *done, compare_done);
    put_head(stream, latencies[latency].name, "histogram", "seconds", latencies[latency].help);
    rewind(om->intervals);
    while (next_interval(om, figures)) {
        while (next < done_count &&
               (double)done[next].at_ns / KVT_NS_PER_S <= figures[FIGURE_TO_S]) {
            for (size_t b = 0; b < latencies[latency].bound_count; b++)
                within[b] += done[next].seconds <= latencies[latency].bounds[b];
            sum += done[next++].seconds;
        }
        put_histogram(stream, latency, within, next, sum, figures[FIGURE_TO_S]);
    }
}

kvt_status openmetrics_write(struct openmetrics *om, const struct kvt_run *run, FILE *stream,
                             struct kvt_error *err)
{
    struct done *done = NULL;

    kvt_status status = kvt_outfile_flush(om->spool, err);
    if (status == KVT_OK)
        status = kvt_file_open(kvt_outfile_temporary(om->spool), &om->intervals, err);
    if (status != KVT_OK)
        return status;
    done = calloc(run->record_count + 1, sizeof *done);
    if (!done)
        return kvt_fail_nomem(err, "timeline.om");
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++)
        write_metric(om, &metrics[m], stream);
    write_classes(om, stream);
    write_gaps(om, stream);
    for (int l = 0; l < LATENCIES; l++)
        write_latency(om, (enum latency)l, done, run, stream);
    fputs("# EOF\n", stream);
    free(done);
    return ferror(om->intervals)
               ? kvt_fail(err, KVT_ERR_SYSTEM, "timeline.om", "its spool cannot be read")
               : KVT_OK;
}
