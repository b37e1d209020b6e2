/* metrics_table.h -- every metric once: name, unit, what it rests on, what it is.
 *
 * COUNTED     by the simulator, no time or law in it
 * ROWS        follows from which rows the law selects
 * TIME        follows from the timing model too
 * QUEUE       follows from the timing model and the import law too
 * PAID        follows from these, and from what the user says of prices and watts */
#ifndef KVT_METRICS_TABLE_H
#define KVT_METRICS_TABLE_H

#include <math.h>

#define KVT_METRICS_OF_REQUESTS(X, key, what)                                                      \
    X(mean_##key##_ms, "ms", QUEUE, "Mean " what)                                                  \
    X(median_##key##_ms, "ms", QUEUE, "Median " what)                                              \
    X(std_##key##_ms, "ms", QUEUE, "Population standard deviation of the " what)                   \
    X(p50_##key##_ms, "ms", QUEUE, "50th percentile of the " what)                                 \
    X(p90_##key##_ms, "ms", QUEUE, "90th percentile of the " what)                                 \
    X(p95_##key##_ms, "ms", QUEUE, "95th percentile of the " what)                                 \
    X(p99_##key##_ms, "ms", QUEUE, "99th percentile of the " what)                                 \
    X(post_wave_mean_##key##_ms, "ms", QUEUE, "Mean without the first C submitted: " what)         \
    X(post_wave_p50_##key##_ms, "ms", QUEUE, "Median without the first C submitted: " what)        \
    X(post_wave_p99_##key##_ms, "ms", QUEUE, "99th percentile without the first C submitted: " what)

#define KVT_METRICS_OF_EXPENSES(X)                                                                 \
    X(gpu_busy_share, "1", QUEUE, "Of the decode GPUs' time, a step of their rank under way")      \
    X(prefill_busy_share, "1", QUEUE, "Of the prefill pool's time, a prompt under way")            \
    X(mean_power_watts, "W", PAID, "Energy / duration")                                            \
    X(energy_kwh, "kWh", PAID, "Of all GPUs and nodes, with what the site adds, over duration")    \
    X(joules_per_output_token, "J", PAID, "Energy / total_output_tokens")                          \
    X(usd_per_hour, "USD/h", PAID, "GPUs, host DRAM, and energy where it has a price")             \
    X(usd_per_million_output_tokens, "USD", PAID, "usd_per_hour over a million tokens delivered")

/* After a step of the load, where the workload has phases (transitions.c). */
#define KVT_METRICS_OF_TRANSITIONS(X)                                                              \
    X(admission_after_step_s, "s", QUEUE,                                                          \
      "From a step up until all who came with it are admitted, or all slots are held")             \
    X(first_tokens_after_step_s, "s", QUEUE,                                                       \
      "From a step up until those who were admitted by then have their first tokens")              \
    X(worst_itl_second_ms, "ms", QUEUE,                                                            \
      "After a step up, the highest mean ITL of an interval in which pages were released")         \
    X(coverage_regain_s, "s", QUEUE,                                                               \
      "From a step down until coverage is 0.9 of what it was under no more load")

#define KVT_METRICS(X)                                                                             \
    X(duration, "s", QUEUE, "First submission to the end of the run, after the warm-up")           \
    X(completed, "1", QUEUE, "Requests that delivered their last token")                           \
    X(failed, "1", COUNTED, "Requests dropped: what can never fit")                                \
    X(total_input_tokens, "tokens", QUEUE, "Prompt tokens of the requests admitted")               \
    X(total_output_tokens, "tokens", QUEUE, "Tokens delivered, first tokens included")             \
    X(request_throughput, "1/s", QUEUE, "completed / duration")                                    \
    X(request_goodput, "1/s", QUEUE, "Requests that met all bounds of their class / duration")     \
    X(output_throughput, "tokens/s", QUEUE, "total_output_tokens / duration")                      \
    X(output_throughput_per_gpu, "tokens/s", QUEUE, "output_throughput / decode GPUs")             \
    X(total_token_throughput, "tokens/s", QUEUE, "Input and output tokens / duration")             \
    X(max_output_tokens_per_s, "tokens/s", QUEUE, "Of the best interval of the run")               \
    X(max_concurrent_requests, "1", QUEUE, "Most requests arrived and not ended at once")          \
    KVT_METRICS_OF_REQUESTS(X, ttft, "time from arrival to the first token (TTFT)")                \
    KVT_METRICS_OF_REQUESTS(X, tpot, "time per token after the first (TPOT): (E2E - TTFT)/(L-1)")  \
    KVT_METRICS_OF_REQUESTS(X, itl, "gap between deliveries (ITL)")                                \
    KVT_METRICS_OF_REQUESTS(X, e2el, "time from arrival to the last token (E2E latency)")          \
    X(active_mean, "1", QUEUE, "Requests decoding, mean over the central half of the run")         \
    X(slots, "1", COUNTED, "Requests of the mean input length that fit at once, all ranks")        \
    X(host_fetch_share, "1", ROWS, "Selected rows that crossed the link: missed / selected")       \
    X(hot_miss_ratio, "1", ROWS, "Of selections looked up in the hot caches, those not there")     \
    X(coverage_mean, "1", QUEUE,                                                                   \
      "Ready optional rows / eligible rows, over the central half of the run")                     \
    X(tokens_per_round, "tokens", COUNTED, "Tokens delivered per request and decode step")         \
    X(fetched_rows_per_round, "rows", ROWS,                                                        \
      "Distinct rows that crossed the link per request and step, over its stores")                 \
    X(prefetched_rows, "rows", QUEUE,                                                              \
      "Missed rows that were predicted and sent before their call")                                \
    X(prefetch_wasted_rows, "rows", QUEUE, "Rows that were sent ahead and that no call missed")    \
    X(deepened_rows, "rows", QUEUE, "Cached by their first plane, the second fetched for a read")  \
    X(h2d_payload_bytes, "bytes", QUEUE, "What missed rows had cross the link, as it is stored")   \
    X(h2d_wire_bytes, "bytes", QUEUE, "What missed rows had cross the link, as it does")           \
    X(d2h_bytes, "bytes", QUEUE, "Rows written back to host")                                      \
    X(fill_bytes, "bytes", QUEUE, "Optional pages brought up from host")                           \
    X(recall_bytes, "bytes", QUEUE, "Rows of found prefixes and requests put aside, from host")    \
    X(import_bytes, "bytes", QUEUE, "History and index rows that came in")                         \
    X(hbm_kv_peak_bytes, "bytes", QUEUE, "Most KV bytes held in HBM at once, all GPUs")            \
    X(host_peak_bytes, "bytes", QUEUE, "Most KV bytes held in host DRAM at once, all nodes")       \
    X(decode_steps, "1", QUEUE, "Steps of groups of ranks")                                        \
    X(mean_step_ms, "ms", TIME, "Mean duration of a step")                                         \
    X(barrier_wait_share, "1", TIME, "Of the ranks' step time, waiting for the slowest")           \
    X(backup_stall_ns, "ns", QUEUE, "Steps held up by tail rows not yet on host")                  \
    X(extrapolated_step_share, "1", COUNTED, "Steps outside the timing profile's range")           \
    X(staging_waves, "1", QUEUE,                                                                   \
      "Turns beyond the first that calls of a selector took, their staging being too small")       \
    X(staging_peak_bytes, "bytes", QUEUE, "Most that one such turn of a rank staged, on each GPU") \
    X(backups_forced, "1", QUEUE, "Write-backs put off that could wait no longer")                 \
    X(pages_landed, "pages", QUEUE, "Pages that came straight into HBM with their history")        \
    X(pages_kept, "pages", QUEUE, "Pages that stayed in HBM as they left the tail")                \
    X(hot_cache_resizes, "1", QUEUE, "Hot caches given or resized while requests run")             \
    X(demotions, "1", QUEUE, "Of those, requests that gave up their pages for one")                \
    X(preemptions, "1", QUEUE, "Requests put aside for want of memory")                            \
    X(unservable, "1", COUNTED, "Requests that could never fit")                                   \
    X(prefix_hit_tokens, "tokens", COUNTED, "Prompt tokens found in a cache")                      \
    X(reprefill_tokens, "tokens", QUEUE, "Context brought in again after a preemption or fault")   \
    X(faults, "1", QUEUE, "Faults that struck")                                                    \
    X(requests_interrupted, "1", QUEUE, "Requests that lost what they had to a fault, each time")  \
    X(fault_kept_tokens, "tokens", QUEUE, "Of their rows, those kept on host")                     \
    X(fault_recovery_s, "s", QUEUE,                                                                \
      "From a fault until all it interrupted decode again or have ended; the longest")             \
    X(slo_violation_s, "s", QUEUE,                                                                 \
      "Time in which fewer of a class's finished requests met its bounds than `attain` asks")      \
    X(slo_attained_share, "1", QUEUE,                                                              \
      "Of the class that is worst off: requests that met all its bounds / those decided")          \
    X(slo_margin, "1", QUEUE,                                                                      \
      "Least of a class's attained share - `attain`: from 0 on every promise was kept")            \
    KVT_METRICS_OF_EXPENSES(X)                                                                     \
    KVT_METRICS_OF_TRANSITIONS(X)

/* One double a metric; NaN: not defined for this run. */
struct metric_values {
#define KVT_FIELD(name, unit, rests_on, help) double name;
    KVT_METRICS(KVT_FIELD)
#undef KVT_FIELD
};

/* NaN where the divisor is not above 0: such a metric is not defined. */
static inline double metric_ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

struct kvt_run;
/* phase: index, or -1 for the whole run. False when memory is short. */
_Bool metric_values_compute(const struct kvt_run *run, int phase, struct metric_values *out);

/* service.c: seconds of [from, to) in which some class met its bounds less often than it must, told
 * by the requests that finished in each interval there: those that arrived in a phase, or any (-1).
 * NaN without classes. False when memory is short. */
_Bool slo_violated_s(const struct kvt_run *run, int phase, long long from_ns, long long to_ns,
                     double *out);

/* transitions.c: what came of the step of the load with which phase p began. What is not defined,
 * or never came, is NaN. */
struct transition {
    _Bool is_there, is_up;
    long long at_ns;
    unsigned long long burst_requests, burst_admitted; /* that came with it; in, by its end */
    double admission_s, first_tokens_s, worst_itl_ms;
    double coverage_before, coverage_regain_s;
};
_Bool transition_compute(const struct kvt_run *run, unsigned p, struct transition *out);
_Bool transition_metrics(const struct kvt_run *run, int phase, struct metric_values *out);

/* Half-widths of 99 % intervals, over the metric's value, of what sampling leaves open. */
struct sampled_errors {
    double host_fetch_share, hot_miss_ratio, fetched_rows_per_round;
    double bytes;  /* missed rows, stored and on the link */
    double step;   /* and time per token */
    double output; /* tokens a second */
};
/* sampled.c: whether some stores stand for others, and what that leaves open. */
_Bool run_is_sampled(const struct kvt_run *run);
/* What a followed row of a stratum stands for, on average; NaN: nobody was followed. */
double sampled_scale(const struct kvt_run *run, unsigned stratum);
void sampled_errors_compute(const struct kvt_run *run, struct sampled_errors *out);

enum metric_rests_on {
    COUNTED,
    ROWS,
    TIME,
    QUEUE,
    PAID
};
struct metric_row {
    const char *name, *unit, *help;
    enum metric_rests_on rests_on;
};
extern const struct metric_row metric_rows[];
extern const unsigned metric_count;

#endif
