/* engine_figures.c -- figures of served requests, as engines' benchmarks compute theirs. */
#include <math.h>
#include <stdlib.h>

#include "engine_bench.h"
#include "kvt/metrics.h"

static const char *const names[ENGINE_FIGURES] = {
    [ENGINE_DURATION] = "duration",
    [ENGINE_COMPLETED] = "completed",
    [ENGINE_INPUT_TOKENS] = "total_input_tokens",
    [ENGINE_OUTPUT_TOKENS] = "total_output_tokens",
    [ENGINE_OUTPUT_THROUGHPUT] = "output_throughput",
    [ENGINE_REQUEST_THROUGHPUT] = "request_throughput",
    [ENGINE_MEAN_TTFT] = "mean_ttft_ms",
    [ENGINE_MEDIAN_TTFT] = "median_ttft_ms",
    [ENGINE_P99_TTFT] = "p99_ttft_ms",
    [ENGINE_MEAN_TPOT] = "mean_tpot_ms",
    [ENGINE_MEDIAN_TPOT] = "median_tpot_ms",
    [ENGINE_P99_TPOT] = "p99_tpot_ms",
    [ENGINE_MEAN_ITL] = "mean_itl_ms",
    [ENGINE_MEAN_E2EL] = "mean_e2el_ms",
    [ENGINE_PEAK_RUNNING] = "peak_running",
    [ENGINE_PREEMPTIONS] = "preemptions",
    [ENGINE_HOT_MISS_RATIO] = "hot_miss_ratio",
};

const char *engine_figure_name(enum engine_figure figure)
{
    return (unsigned)figure < ENGINE_FIGURES ? names[figure] : "unknown";
}

static void put_summary(double *values, size_t count, double *mean, double *median, double *p99)
{
    struct kvt_summary summary;

    kvt_summary_of(values, count, &summary);
    *mean = summary.mean;
    *median = summary.median;
    *p99 = summary.p99;
}

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The most requests scheduled and not ended at once: one that ends as another begins leaves
 * first. NaN where schedules are not told. */
static double peak_running(const struct engine_request *requests, size_t count, double *begins,
                           double *ends)
{
    size_t running = 0, peak = 0, ended = 0;

    for (size_t i = 0; i < count; i++) {
        if (isnan(requests[i].scheduled_s))
            return NAN;
        begins[i] = requests[i].scheduled_s;
        ends[i] = requests[i].last_s;
    }
    qsort(begins, count, sizeof *begins, compare_reals);
    qsort(ends, count, sizeof *ends, compare_reals);
    for (size_t i = 0; i < count; i++) {
        while (ends[ended] <= begins[i] && running > 0)
            ended++, running--;
        running++;
        peak = running > peak ? running : peak;
    }
    return (double)peak;
}

kvt_status engine_figures_of(const struct engine_request *requests, size_t count,
                             double figures[ENGINE_FIGURES], struct kvt_error *err)
{
    double *values = count > 0 ? calloc(2 * count, sizeof *values) : NULL;
    double input = 0, output = 0, begin_s = INFINITY, end_s = -INFINITY, unused;
    size_t several = 0; /* requests of more than one token */

    if (count == 0)
        return KVT_OK;
    if (!values)
        return kvt_fail_nomem(err, "figures of a benchmark");
    for (size_t i = 0; i < count; i++) {
        input += requests[i].input_tokens;
        output += requests[i].output_tokens;
        begin_s = fmin(begin_s, requests[i].arrival_s);
        end_s = fmax(end_s, requests[i].last_s);
        values[i] = 1e3 * (requests[i].first_s - requests[i].arrival_s);
    }
    put_summary(values, count, &figures[ENGINE_MEAN_TTFT], &figures[ENGINE_MEDIAN_TTFT],
                &figures[ENGINE_P99_TTFT]);
    for (size_t i = 0; i < count; i++) {
        if (requests[i].output_tokens > 1)
            values[several++] = 1e3 * (requests[i].last_s - requests[i].first_s) /
                                (requests[i].output_tokens - 1.0);
    }
    put_summary(values, several, &figures[ENGINE_MEAN_TPOT], &figures[ENGINE_MEDIAN_TPOT],
                &figures[ENGINE_P99_TPOT]);
    for (size_t i = 0; i < count; i++)
        values[i] = 1e3 * (requests[i].last_s - requests[i].arrival_s);
    put_summary(values, count, &figures[ENGINE_MEAN_E2EL], &unused, &unused);
    figures[ENGINE_PEAK_RUNNING] = peak_running(requests, count, values, values + count);
    figures[ENGINE_DURATION] = end_s - begin_s;
    figures[ENGINE_COMPLETED] = (double)count;
    figures[ENGINE_INPUT_TOKENS] = input;
    figures[ENGINE_OUTPUT_TOKENS] = output;
    figures[ENGINE_OUTPUT_THROUGHPUT] = output / (end_s - begin_s);
    figures[ENGINE_REQUEST_THROUGHPUT] = (double)count / (end_s - begin_s);
    free(values);
    return KVT_OK;
}
