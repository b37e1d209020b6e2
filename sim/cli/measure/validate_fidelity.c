/* validate_fidelity.c -- kvtide validate --suite fidelity: the same scenarios at every level.
 *
 *     for each scenario and seed: exact, then sampled, then analytic twice, the second time
 *     with its surfaces at hand; only that one is timed */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/sim.h"
#include "validate.h"

/* Half a minute of the real model under light and heavy load, short answers, so that every
 * request's whole life fits. */
#define SHORT                                                                                      \
    "run.duration_s=15", "workload.requests=0",                                                    \
        "workload.lengths.output={\"law\": \"lognormal\", \"mean_tokens\": 160, \"cv\": 0.25}"

enum {
    CASE_SETS_MAX = 8
};

struct suite_case {
    const char *name, *scenario;
    const char *sets[CASE_SETS_MAX]; /* NULL-terminated */
};

static const struct suite_case suite[] = {
    {"hisparse C16",
     "glm-5.3-100k",
     {SHORT, "workload.concurrency=16", "residency={\"policy\": \"hisparse\"}",
      "residency.hot_tokens=4096", "cluster.import.hisparse_mean_s=0.1"}},
    {"adaptive C16",
     "glm-5.3-100k",
     {SHORT, "workload.concurrency=16", "cluster.import.adaptive_mean_s=0.1"}},
    {"adaptive C64",
     "glm-5.3-100k",
     {SHORT, "workload.concurrency=64", "cluster.import.adaptive_mean_s=0.1"}},
};

/* ---- One run --------------------------------------------------------------------- */

struct runner {
    const struct validate_plan *plan;
    struct kvt_arena *arena;
    struct cli_progress *progress;
    struct kvt_surfaces *surfaces;
    struct validate_outcome *out;
    size_t runs, runs_done;
};

static bool on_prepare(void *context, double fraction, const char *what)
{
    const struct runner *runner = context;

    (void)fraction;
    cli_progress_show(runner->progress, (double)runner->runs_done / (double)runner->runs, what);
    return !cli_interrupted();
}

static void note_done(void *context, double done_fraction)
{
    const struct runner *runner = context;

    cli_progress_show(runner->progress,
                      ((double)runner->runs_done + done_fraction) / (double)runner->runs,
                      "validating");
}

static double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = kvt_json_find(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static void keep(const cJSON *result, double values[VALIDATE_METRICS],
                 double half_width[VALIDATE_METRICS])
{
    const cJSON *metrics = kvt_json_find(result, "metrics");
    const cJSON *rows = kvt_json_find(kvt_json_find(result, "scaled"), "rows");
    const cJSON *intervals = kvt_json_find(rows, "ci99");

    for (size_t m = 0; m < VALIDATE_METRICS; m++) {
        values[m] = number_of(metrics, validate_metrics[m].name);
        half_width[m] = number_of(intervals, validate_metrics[m].name);
    }
}

/* How long a run was on its own clock, and on the wall's once it was prepared. */
struct timing {
    double simulated_s, wall_s;
};

static kvt_status run_once(struct runner *runner, const struct kvt_scenario *scenario,
                           double values[VALIDATE_METRICS], double half_width[VALIDATE_METRICS],
                           struct timing *timing, struct kvt_error *err)
{
    const struct kvt_sim_options options = {.threads = runner->plan->threads,
                                            .cache_dir = runner->plan->cache_dir,
                                            .on_prepare = on_prepare,
                                            .prepare_context = runner,
                                            .surfaces = runner->surfaces};
    struct kvt_sim *sim = NULL;
    const struct kvt_run *run = NULL;
    cJSON *result = NULL;
    struct kvt_badge badge;
    bool interrupted = false;
    kvt_status status = kvt_sim_new(scenario, &options, &sim, err);
    struct kvt_wall start = kvt_wall_now();

    if (status == KVT_OK)
        status = cli_advance(sim, note_done, runner, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "validate", "a signal ended it");
    timing->wall_s = kvt_wall_seconds_since(start);
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK)
        status = kvt_report_result(run, &result, err);
    if (status == KVT_OK) {
        kvt_run_badge(run, NULL, &badge);
        kvt_badge_join(&runner->out->badge, &badge);
        keep(result, values, half_width);
        timing->simulated_s = (double)run->end_ns * 1e-9;
    }
    cJSON_Delete(result);
    kvt_sim_free(sim);
    return status;
}

/* ---- One scenario and seed ----------------------------------------------------------- */

static kvt_status run_exact(struct runner *runner, struct kvt_scenario scenario,
                            double values[VALIDATE_METRICS], struct kvt_error *err)
{
    double none[VALIDATE_METRICS];
    struct timing timing = {0};

    scenario.fidelity = KVT_FIDELITY_EXACT;
    kvt_status status = run_once(runner, &scenario, values, none, &timing, err);
    runner->out->exact_s += timing.wall_s;
    runner->out->exact_simulated_s += timing.simulated_s;
    runner->runs_done++;
    return status;
}

static kvt_status run_sampled(struct runner *runner, struct kvt_scenario scenario,
                              struct validate_point *point, struct kvt_error *err)
{
    struct timing timing = {0};

    if (scenario.fidelity != KVT_FIDELITY_SAMPLED)
        scenario.sample_stores = 1;
    scenario.fidelity = KVT_FIDELITY_SAMPLED;
    point->level = VALIDATE_SAMPLED;
    kvt_status status = run_once(runner, &scenario, point->ours, point->half_width, &timing, err);
    runner->out->sampled_s += timing.wall_s;
    runner->out->sampled_simulated_s += timing.simulated_s;
    runner->runs_done++;
    return status;
}

/* A scenario that mean values cannot stand for is no failure: the point says why. */
static kvt_status run_analytic(struct runner *runner, struct kvt_scenario scenario,
                               struct validate_point *point, struct kvt_error *err)
{
    struct timing timing = {0};

    scenario.fidelity = KVT_FIDELITY_ANALYTIC;
    point->level = VALIDATE_ANALYTIC;
    kvt_status status = run_once(runner, &scenario, point->ours, point->half_width, &timing, err);
    if (status == KVT_ERR_UNSUPPORTED) {
        point->refused = kvt_arena_printf(runner->arena, "%s: %s", err->where, err->message);
        status = point->refused ? KVT_OK : kvt_fail_nomem(err, "a sentence");
    } else if (status == KVT_OK) {
        struct kvt_wall start = kvt_wall_now();
        status = run_once(runner, &scenario, point->ours, point->half_width, &timing, err);
        runner->out->solve_s += kvt_wall_seconds_since(start);
        runner->out->solves++;
    }
    runner->runs_done++;
    return status;
}

/* What is done counts, whatever comes behind it. */
static kvt_status run_levels(struct runner *runner, const struct kvt_scenario *scenario,
                             const char *name, struct kvt_error *err)
{
    double exact[VALIDATE_METRICS];
    kvt_status status = run_exact(runner, *scenario, exact, err);

    for (int level = 0; level < VALIDATE_LEVELS && status == KVT_OK; level++) {
        struct validate_point *point = &runner->out->points[runner->out->point_count];
        *point = (struct validate_point){.scenario = name, .seed = scenario->seed};
        memcpy(point->exact, exact, sizeof exact);
        status = level == VALIDATE_SAMPLED ? run_sampled(runner, *scenario, point, err)
                                           : run_analytic(runner, *scenario, point, err);
        runner->out->point_count += status == KVT_OK;
    }
    return status;
}

/* ---- All of them ------------------------------------------------------------------------ */

static kvt_status run_scenario(struct runner *runner, const struct suite_case *which,
                               struct kvt_error *err)
{
    const struct cli_texts *given = runner->plan->sets;
    const char **sets = kvt_arena_array(runner->arena, given->count + CASE_SETS_MAX,
                                        sizeof(const char *), _Alignof(const char *));
    struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .sets = sets};
    struct kvt_scenario scenario;

    if (!sets)
        return kvt_fail_nomem(err, "a scenario");
    while (options.set_count < CASE_SETS_MAX && which->sets[options.set_count]) {
        sets[options.set_count] = which->sets[options.set_count];
        options.set_count++;
    }
    for (size_t i = 0; i < given->count; i++)
        sets[options.set_count++] = given->items[i];
    kvt_status status = kvt_scenario_load(which->scenario, &options, runner->arena, &scenario, err);
    uint64_t first = status == KVT_OK ? scenario.seed : 0;
    for (uint64_t s = 0; s < runner->plan->seeds && status == KVT_OK; s++) {
        scenario.seed = first + s;
        status = run_levels(runner, &scenario, which->name, err);
    }
    return status;
}

static kvt_status run_all(struct runner *runner, struct kvt_error *err)
{
    const struct cli_texts *scenarios = runner->plan->scenarios;
    size_t count = scenarios->count ? scenarios->count : sizeof suite / sizeof suite[0];
    size_t points = count * runner->plan->seeds * VALIDATE_LEVELS;
    kvt_status status = KVT_OK;

    runner->runs = count * runner->plan->seeds * (1 + VALIDATE_LEVELS);
    runner->out->points = points <= VALIDATE_POINTS_MAX
                              ? kvt_arena_array(runner->arena, points, sizeof *runner->out->points,
                                                _Alignof(struct validate_point))
                              : NULL;
    if (points > VALIDATE_POINTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "validate",
                        "%zu scenarios on %llu seeds are more than %d points", count,
                        (unsigned long long)runner->plan->seeds, VALIDATE_POINTS_MAX);
    if (!runner->out->points)
        return kvt_fail_nomem(err, "a validation");
    for (size_t i = 0; i < count && status == KVT_OK; i++) {
        struct suite_case given = {0};
        if (scenarios->count)
            given.name = given.scenario = scenarios->items[i];
        status = run_scenario(runner, scenarios->count ? &given : &suite[i], err);
    }
    return status;
}

kvt_status validate_fidelity(const struct validate_plan *plan, struct kvt_arena *arena,
                             struct validate_outcome *out, struct kvt_error *err)
{
    struct kvt_wall start;
    struct cli_progress progress;
    struct runner runner = {.plan = plan, .arena = arena, .progress = &progress, .out = out};
    kvt_status status = kvt_surfaces_new(&runner.surfaces, err);

    *out = (struct validate_outcome){0};
    cli_progress_begin(&progress, &start, plan->quiet);
    if (status == KVT_OK)
        status = run_all(&runner, err);
    cli_progress_end(&progress);
    if (status != KVT_OK)
        (void)snprintf(out->failure, sizeof out->failure, "%s%s%s", err->where,
                       err->where[0] ? ": " : "", err->message);
    kvt_surfaces_free(runner.surfaces);
    return status;
}
