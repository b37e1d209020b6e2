/* validate_measured.c -- a scenario's run, and what an engine measured of the same load.
 *
 *     files:    one benchmark at most, and any metrics of the same run
 *     run:      the scenario as it is
 *     figures:  both sides' requests through the same functions; what requests do not tell from
 *               the metrics files there, from the run's books here
 *     window:   only requests that ended in it there, and the same ones here, told by their place
 * in the order of arrival */
#include "validate_measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_metrics.h"
#include "kvt/metrics.h"

/* First whether memory and queues are right, then times. */
static const struct {
    enum engine_figure figure;
    enum measured_rule rule;
} order[] = {
    {ENGINE_PEAK_RUNNING, MEASURED_RELATIVE},    {ENGINE_PREEMPTIONS, MEASURED_BOTH_OR_NONE},
    {ENGINE_HOT_MISS_RATIO, MEASURED_ABSOLUTE},  {ENGINE_MEAN_TTFT, MEASURED_RELATIVE},
    {ENGINE_MEDIAN_TTFT, MEASURED_SHOWN},        {ENGINE_P99_TTFT, MEASURED_SHOWN},
    {ENGINE_MEAN_TPOT, MEASURED_RELATIVE},       {ENGINE_MEDIAN_TPOT, MEASURED_SHOWN},
    {ENGINE_P99_TPOT, MEASURED_SHOWN},           {ENGINE_MEAN_ITL, MEASURED_SHOWN},
    {ENGINE_MEAN_E2EL, MEASURED_SHOWN},          {ENGINE_OUTPUT_THROUGHPUT, MEASURED_RELATIVE},
    {ENGINE_REQUEST_THROUGHPUT, MEASURED_SHOWN}, {ENGINE_COMPLETED, MEASURED_SHOWN},
    {ENGINE_OUTPUT_TOKENS, MEASURED_SHOWN},      {ENGINE_INPUT_TOKENS, MEASURED_SHOWN},
    {ENGINE_DURATION, MEASURED_SHOWN},
};
_Static_assert(sizeof order / sizeof order[0] == MEASURED_FIGURES, "each figure has its place");

/* ---- The measured side -------------------------------------------------------------------------
 */

struct side {
    struct engine_request *requests; /* [count] in the arena */
    size_t count;
    double figures[ENGINE_FIGURES];
};

static kvt_status read_files(const struct measured_plan *plan, struct kvt_arena *arena,
                             struct engine_run *run, struct engine_metrics *metrics,
                             struct kvt_error *err)
{
    size_t runs = 0;

    for (size_t f = 0; f < plan->files->count; f++) {
        const char *path = plan->files->items[f];
        struct engine_run *found = NULL;
        size_t count = 0;
        bool is_metrics = false;
        kvt_status status = engine_metrics_is_one(path, &is_metrics, err);
        if (status == KVT_OK && is_metrics)
            status = engine_metrics_read(path, metrics, err);
        else if (status == KVT_OK)
            status = engine_bench_load(path, arena, &found, &count, err);
        if (status != KVT_OK)
            return status;
        runs += count;
        if (runs > 1)
            return kvt_fail(err, KVT_ERR_INVALID, path,
                            "%zu runs are measured, and there is one scenario: one run, with its "
                            "metrics, is expected",
                            runs);
        if (count == 1)
            *run = found[0];
    }
    return KVT_OK;
}

/* What metrics say of memory and queues goes before what a client saw. *has_gauge: they say how
 * many ran at once, which a client only sees admitted and not ended. */
static void merge_metrics(const struct engine_metrics *metrics, double figures[ENGINE_FIGURES],
                          bool *has_gauge)
{
    double counted[ENGINE_FIGURES];

    for (int f = 0; f < ENGINE_FIGURES; f++)
        counted[f] = NAN;
    engine_metrics_figures(metrics, counted);
    *has_gauge = !isnan(counted[ENGINE_PEAK_RUNNING]);
    for (int f = 0; f < ENGINE_FIGURES; f++) {
        bool goes_before =
            f == ENGINE_PEAK_RUNNING || f == ENGINE_PREEMPTIONS || f == ENGINE_HOT_MISS_RATIO;
        if (isnan(figures[f]) || (goes_before && !isnan(counted[f])))
            figures[f] = counted[f];
    }
}

/* ---- Our side -------------------------------------------------------------------------------- */

struct runner {
    double peak_running;  /* of a step's batch, and of an interval's mean, which has prompts too */
    double peak_of_means; /* of requests that decode, over intervals */
    bool wants_means;     /* as the other side's gauges are */
};

static void on_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    struct runner *runner = context;
    double ns = (double)(interval->to_ns - interval->from_ns);

    (void)stratum_count;
    if (ns <= 0)
        return;
    runner->peak_running = fmax(runner->peak_running, interval->held_ns / ns);
    runner->peak_of_means = fmax(runner->peak_of_means, interval->running_ns / ns);
}

static void on_step(void *context, const struct kvt_step_times *times)
{
    struct runner *runner = context;

    runner->peak_running = fmax(runner->peak_running, times->requests);
}

/* Records of requests that have ended, in order of arrival, as an engine's. */
static kvt_status keep_requests(const struct kvt_run *run, struct kvt_arena *arena,
                                struct side *ours, struct kvt_error *err)
{
    ours->requests = kvt_arena_array(arena, run->record_count + 1, sizeof *ours->requests,
                                     _Alignof(struct engine_request));
    if (!ours->requests)
        return kvt_fail_nomem(err, "a run's requests");
    for (size_t i = 0; i < run->record_count; i++) {
        const struct kvt_request_record *record = &run->records[i];
        if (record->status != KVT_REQUEST_COMPLETED)
            continue;
        ours->requests[ours->count++] =
            (struct engine_request){.arrival_s = (double)record->arrival_ns * 1e-9,
                                    .scheduled_s = (double)record->admitted_ns * 1e-9,
                                    .first_s = (double)record->first_token_ns * 1e-9,
                                    .last_s = (double)record->finished_ns * 1e-9,
                                    .input_tokens = record->input_tokens,
                                    .output_tokens = record->output_tokens};
    }
    return KVT_OK;
}

static double metric_of(const cJSON *result, const char *name)
{
    const cJSON *item = kvt_json_find(kvt_json_find(result, "metrics"), name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

/* An engine counts a request's TPOT when it has ended, as a client does; a metric of ours has those
 * too that still decode when the run stops. */
static kvt_status count_the_ended(struct side *ours, struct kvt_error *err)
{
    static const enum engine_figure of_ended[] = {ENGINE_MEAN_TPOT, ENGINE_MEDIAN_TPOT,
                                                  ENGINE_P99_TPOT};
    double figures[ENGINE_FIGURES];

    for (int f = 0; f < ENGINE_FIGURES; f++)
        figures[f] = NAN;
    kvt_status status = engine_figures_of(ours->requests, ours->count, figures, err);
    for (size_t i = 0; i < sizeof of_ended / sizeof of_ended[0]; i++)
        ours->figures[of_ended[i]] = figures[of_ended[i]];
    return status;
}

static kvt_status keep_run(const struct kvt_run *run, const struct runner *runner,
                           struct kvt_arena *arena, struct side *ours, struct measured_outcome *out,
                           struct kvt_error *err)
{
    cJSON *result = NULL;
    kvt_status status = kvt_report_result(run, &result, err);

    if (status == KVT_OK)
        status = keep_requests(run, arena, ours, err);
    if (status == KVT_OK) {
        for (int f = 0; f < ENGINE_FIGURES; f++)
            ours->figures[f] = metric_of(result, engine_figure_name((enum engine_figure)f));
        ours->figures[ENGINE_PEAK_RUNNING] =
            runner->wants_means ? runner->peak_of_means : runner->peak_running;
        status = count_the_ended(ours, err);
        out->timing_basis = run->timing_basis;
        out->in_range_share = 1 - metric_of(result, "extrapolated_step_share");
    }
    cJSON_Delete(result);
    return status;
}

static kvt_status run_scenario(const struct measured_plan *plan, bool wants_means,
                               struct kvt_arena *arena, struct side *ours,
                               struct measured_outcome *out, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = plan->sets->items,
                                                 .set_count = plan->sets->count};
    struct cli_run done = {.sim = NULL};
    struct runner runner = {.wants_means = wants_means};
    const struct kvt_sim_options sim_options = {.threads = plan->threads,
                                                .cache_dir = plan->cache_dir,
                                                .on_interval = on_interval,
                                                .interval_context = &runner,
                                                .on_step = on_step,
                                                .step_context = &runner};
    struct kvt_scenario *scenario =
        kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario));

    if (!scenario)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = kvt_scenario_load(plan->scenario, &options, arena, scenario, err);
    if (status != KVT_OK)
        return status;
    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        return kvt_fail(err, KVT_ERR_INVALID, "validate --measured",
                        "run.fidelity \"analytic\" has no requests; \"exact\" or \"sampled\" is "
                        "expected");
    out->scenario = scenario->name;
    status = cli_run_whole(scenario, &sim_options, "running", plan->quiet, &done, err);
    if (status == KVT_OK && done.interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "validate --measured", "a signal ended it");
    if (status == KVT_OK)
        status = keep_run(done.run, &runner, arena, ours, out, err);
    else
        kvt_scenario_locate(scenario, err);
    kvt_sim_free(done.sim);
    return status;
}

/* How many ran at once, of all requests and before any is cut away. */
static kvt_status like_a_client(struct side *ours, struct kvt_error *err)
{
    double figures[ENGINE_FIGURES];

    figures[ENGINE_PEAK_RUNNING] = NAN;
    kvt_status status = engine_figures_of(ours->requests, ours->count, figures, err);
    ours->figures[ENGINE_PEAK_RUNNING] = figures[ENGINE_PEAK_RUNNING];
    return status;
}

/* ---- Requests one by one --------------------------------------------------------------------- */

/* The same requests in the same order on both sides? *at is the first that is not. */
static bool is_matched(const struct side *measured, const struct side *ours, size_t *at)
{
    size_t count = measured->count < ours->count ? measured->count : ours->count;

    for (*at = 0; *at < count; ++*at) {
        const struct engine_request *a = &measured->requests[*at], *b = &ours->requests[*at];
        if (a->input_tokens != b->input_tokens || a->output_tokens != b->output_tokens)
            return false;
    }
    return measured->count == ours->count && count > 0;
}

/* Keeps those that ended in the window there, on both sides. */
static kvt_status cut(const struct measured_plan *plan, struct side *measured, struct side *ours,
                      bool matched, size_t unlike, struct kvt_error *err)
{
    double from_s = 0, to_s = 0;
    size_t kept = 0;
    kvt_status status =
        kvt_trace_parse_window(plan->window, "validate --window", &from_s, &to_s, err);

    if (status != KVT_OK || !plan->window)
        return status;
    if (!matched)
        return kvt_fail(err, KVT_ERR_INVALID, "validate --window",
                        "it compares request by request, and of %zu there and %zu here, number %zu "
                        "is another: the file itself as workload.trace.path is expected",
                        measured->count, ours->count, unlike + 1);
    for (size_t i = 0; i < measured->count; i++) {
        double at_s = measured->requests[i].last_s;
        if (at_s < from_s || (to_s > 0 && at_s >= to_s))
            continue;
        measured->requests[kept] = measured->requests[i];
        ours->requests[kept++] = ours->requests[i];
    }
    if (kept == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "validate --window", "no request ended in it");
    measured->count = ours->count = kept;
    return KVT_OK;
}

static double ttft_of(const struct engine_request *request)
{
    return request->first_s - request->arrival_s;
}

static double tpot_of(const struct engine_request *request)
{
    return (request->last_s - request->first_s) / (request->output_tokens - 1.0);
}

static double e2el_of(const struct engine_request *request)
{
    return request->last_s - request->arrival_s;
}

static kvt_status fill_family(const struct side *measured, const struct side *ours,
                              double (*value_of)(const struct engine_request *),
                              struct measured_family *family, struct kvt_error *err)
{
    double *errors = calloc(measured->count, sizeof *errors);
    struct kvt_summary summary;

    if (!errors)
        return kvt_fail_nomem(err, "errors of requests");
    for (size_t i = 0; i < measured->count; i++) {
        double there = value_of(&measured->requests[i]), here = value_of(&ours->requests[i]);
        if (there > 0 && isfinite(there) && isfinite(here))
            errors[family->count++] = here / there - 1;
    }
    kvt_summary_of(errors, family->count, &summary);
    family->bias = summary.mean;
    for (size_t i = 0; i < family->count; i++)
        errors[i] = fabs(errors[i]);
    kvt_summary_of(errors, family->count, &summary);
    family->mape = summary.mean;
    family->median_abs = summary.median;
    family->p95_abs = summary.p95;
    free(errors);
    return KVT_OK;
}

static kvt_status fill_families(const struct side *measured, const struct side *ours,
                                struct measured_outcome *out, struct kvt_error *err)
{
    static const struct {
        const char *name;
        double (*value_of)(const struct engine_request *);
    } families[MEASURED_FAMILIES] = {{"ttft", ttft_of}, {"tpot", tpot_of}, {"e2el", e2el_of}};
    kvt_status status = KVT_OK;

    out->matched = measured->count;
    for (size_t i = 0; i < MEASURED_FAMILIES && status == KVT_OK; i++) {
        out->families[i].name = families[i].name;
        status = fill_family(measured, ours, families[i].value_of, &out->families[i], err);
    }
    return status;
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void judge(struct measured_figure *figure, double tolerance)
{
    double there = figure->measured, here = figure->ours;

    figure->error = here / there - 1;
    if (!isfinite(figure->error))
        figure->error = NAN;
    if (figure->rule == MEASURED_ABSOLUTE)
        figure->error = here - there;
    figure->is_judged = figure->rule != MEASURED_SHOWN && !isnan(there) && !isnan(here);
    figure->is_good = figure->rule == MEASURED_BOTH_OR_NONE ? (there > 0) == (here > 0)
                                                            : fabs(figure->error) <= tolerance;
}

/* Requests of a part say nothing of the whole: those figures are of the run alone. */
static bool is_of_whole(enum engine_figure figure)
{
    return figure == ENGINE_PEAK_RUNNING || figure == ENGINE_PREEMPTIONS ||
           figure == ENGINE_HOT_MISS_RATIO;
}

/* Of a window, throughput is what its requests got while they ended, and has no meaning. */
static bool is_of_requests(enum engine_figure figure)
{
    return figure != ENGINE_OUTPUT_THROUGHPUT && figure != ENGINE_REQUEST_THROUGHPUT &&
           figure != ENGINE_DURATION;
}

static kvt_status compare(const struct measured_plan *plan, struct side *measured,
                          struct side *ours, struct measured_outcome *out, struct kvt_error *err)
{
    double there[ENGINE_FIGURES], here[ENGINE_FIGURES];
    kvt_status status = KVT_OK;

    memcpy(there, measured->figures, sizeof there);
    memcpy(here, ours->figures, sizeof here);
    if (measured->count > 0) {
        status = engine_figures_of(measured->requests, measured->count, there, err);
        if (status == KVT_OK)
            status = engine_figures_of(ours->requests, ours->count, here, err);
    }
    for (size_t i = 0; i < MEASURED_FIGURES && status == KVT_OK; i++) {
        enum engine_figure figure = order[i].figure;
        bool of_whole = is_of_whole(figure) && !isnan(measured->figures[figure]);
        struct measured_figure *item = &out->figures[out->figure_count];
        *item = (struct measured_figure){.figure = figure,
                                         .rule = order[i].rule,
                                         .measured =
                                             of_whole ? measured->figures[figure] : there[figure],
                                         .ours = of_whole ? ours->figures[figure] : here[figure]};
        if (isnan(item->measured) || (plan->window && !is_of_requests(figure)))
            continue;
        judge(item, plan->tolerance);
        out->figure_count++;
    }
    return status;
}

kvt_status validate_measured(const struct measured_plan *plan, struct kvt_arena *arena,
                             struct measured_outcome *out, struct kvt_error *err)
{
    struct engine_metrics metrics = {.peak_running = NAN};
    struct engine_run run = {.path = NULL};
    struct side measured = {.count = 0}, ours = {.count = 0};
    size_t unlike = 0;
    bool has_gauge = false;

    *out = (struct measured_outcome){.figure_count = 0};
    for (int f = 0; f < ENGINE_FIGURES; f++)
        run.figures[f] = NAN;
    kvt_status status = read_files(plan, arena, &run, &metrics, err);
    if (status == KVT_OK) {
        memcpy(measured.figures, run.figures, sizeof measured.figures);
        merge_metrics(&metrics, measured.figures, &has_gauge);
        status = run_scenario(plan, metrics.is_of_kvtide, arena, &ours, out, err);
    }
    engine_metrics_free(&metrics);
    if (status != KVT_OK)
        return status;
    out->engine = run.engine;
    out->is_of_kvtide = metrics.is_of_kvtide;
    out->measured_requests = measured.count = run.request_count;
    measured.requests = kvt_arena_array(arena, run.request_count + 1, sizeof *measured.requests,
                                        _Alignof(struct engine_request));
    if (!measured.requests)
        return kvt_fail_nomem(err, "a benchmark's requests");
    if (run.request_count > 0)
        memcpy(measured.requests, run.requests, run.request_count * sizeof *measured.requests);
    if (!has_gauge)
        status = like_a_client(&ours, err);
    bool matched = is_matched(&measured, &ours, &unlike);
    if (status == KVT_OK)
        status = cut(plan, &measured, &ours, matched, unlike, err);
    if (status == KVT_OK && matched)
        status = fill_families(&measured, &ours, out, err);
    return status == KVT_OK ? compare(plan, &measured, &ours, out, err) : status;
}
