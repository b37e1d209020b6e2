/* validate_lockstep.c -- kvtide validate SCENARIO: the GPU and the simulator on one schedule.
 *
 *     for each scenario and seed: one run of serving, whose backend is a pair (kvt/backend_pair.h):
 *         the GPU does the steps and says how long they took; that is the run's clock
 *         the simulator decides beside it, and every decision is compared
 *         what the timing model says of each step is kept beside what was measured */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../timeline_columns.h"
#include "kvt/clock.h"
#include "kvt/file.h"
#include "validate.h"

enum {
    STEPS_PER_LOOK = 16,
    OWN_SETS = 6
};

/* ---- Steps ----------------------------------------------------------------------------- */

struct runner {
    const struct lockstep_plan *plan;
    struct lockstep_outcome *out;
    struct cli_progress progress;
    struct kvt_wall start;
    struct kvt_pair_sides sides;
    struct kvt_backend *pair; /* the run's; borrowed */
    struct kvt_outfile *steps;
    const struct lockstep_run *run;
    uint64_t steps_done;
    kvt_status kept; /* of what on_step() keeps and writes; not KVT_OK: kept_error says why */
    struct kvt_error kept_error;
};

static bool keep_error(struct lockstep_family *family, double predicted_ns, double measured_ns,
                       bool in_range)
{
    family->predicted_ns += predicted_ns;
    family->measured_ns += measured_ns;
    if (measured_ns <= 0)
        return true;
    if (family->count == family->capacity) {
        size_t capacity = family->capacity ? 2 * family->capacity : 1024;
        double *errors = realloc(family->errors, capacity * sizeof *errors);
        if (!errors)
            return false;
        family->errors = errors;
        family->capacity = capacity;
    }
    family->errors[family->count++] = (predicted_ns - measured_ns) / measured_ns;
    family->in_range += in_range;
    return true;
}

static void write_step_header(FILE *stream)
{
    fputs("scenario,seed,step,first_rank,requests,queries,in_range,predicted_ns,measured_ns",
          stream);
    for (int p = 0; p < KVT_PARTS; p++) {
        const char *name = kvt_step_part_name((enum kvt_step_part)p);
        fprintf(stream, ",predicted_%s_ns,measured_%s_ns", name, name);
    }
    fputs(",timed", stream);
    for (int f = 0; f < KVT_FEATURES; f++)
        fprintf(stream, ",%s", kvt_profile_feature_name((enum kvt_profile_feature)f));
    fputc('\n', stream);
}

/* An empty cell where nothing was measured. */
static void write_measured(FILE *stream, bool is_measured, kvt_ns ns)
{
    if (is_measured)
        fprintf(stream, ",%lld", (long long)ns);
    else
        fputc(',', stream);
}

static void write_step(const struct runner *runner, const struct kvt_step_times *times)
{
    FILE *stream = kvt_outfile_stream(runner->steps);
    bool is_measured = times->measured_ns != KVT_NS_NEVER;

    fprintf(stream, "%s,%llu,%llu,%u,%u,%u,%d,%lld", runner->run->scenario,
            (unsigned long long)runner->run->seed, (unsigned long long)runner->steps_done,
            times->first_rank, times->requests, times->queries, times->in_range,
            (long long)times->predicted_ns);
    write_measured(stream, is_measured, times->measured_ns);
    for (int p = 0; p < KVT_PARTS; p++) {
        fprintf(stream, ",%lld", (long long)times->predicted_parts_ns[p]);
        bool is_run = kvt_step_part_is_run((enum kvt_step_part)p, times->runs_drafts);
        write_measured(stream, is_measured && is_run, times->measured_parts_ns[p]);
    }
    fprintf(stream, ",%s", is_measured ? kvt_step_timing_name(times->timing) : "");
    for (int f = 0; f < KVT_FEATURES; f++)
        fprintf(stream, ",%.9g", times->features[f]);
    fputc('\n', stream);
}

/* The folder is made here: where nothing runs, nothing is left behind. */
static kvt_status open_steps(struct runner *runner, struct kvt_error *err)
{
    const char *dir = runner->plan->out_dir;
    char path[4096];

    if (!dir || runner->steps)
        return KVT_OK;
    if (snprintf(path, sizeof path, "%s/steps.csv", dir) >= (int)sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
    kvt_status status = kvt_mkdirs(dir, err);
    if (status == KVT_OK)
        status = kvt_outfile_open(path, &runner->steps, err);
    if (status == KVT_OK)
        write_step_header(kvt_outfile_stream(runner->steps));
    return status;
}

static void on_step(void *context, const struct kvt_step_times *times)
{
    struct runner *runner = context;
    struct lockstep_family *families = runner->out->families;
    bool kept = true;

    runner->steps_done++;
    runner->out->runs_drafts = times->runs_drafts;
    if (runner->kept == KVT_OK)
        runner->kept = open_steps(runner, &runner->kept_error);
    if (runner->steps)
        write_step(runner, times);
    if (times->measured_ns == KVT_NS_NEVER)
        return;
    for (int p = 0; p < KVT_PARTS; p++)
        kept = kept && keep_error(&families[p], (double)times->predicted_parts_ns[p],
                                  (double)times->measured_parts_ns[p], times->in_range);
    kept = kept && keep_error(&families[KVT_PARTS], (double)kvt_step_predicted_run_ns(times),
                              (double)times->measured_ns, times->in_range);
    if (!kept && runner->kept == KVT_OK)
        runner->kept = kvt_fail_nomem(&runner->kept_error, "the times of steps");
}

static bool on_prepare(void *context, double fraction, const char *what)
{
    cli_progress_show(context, fraction, what);
    return !cli_interrupted();
}

static kvt_status open_pair(void *context, const struct kvt_backend_env *env,
                            struct kvt_backend **out, struct kvt_error *err)
{
    struct runner *runner = context;
    kvt_status status = kvt_backend_pair_open(&runner->sides, env, out, err);

    runner->pair = status == KVT_OK ? *out : NULL;
    return status;
}

/* To the end of the run, a signal, or so many steps. */
static kvt_status advance(struct runner *runner, struct kvt_sim *sim, bool *interrupted,
                          struct kvt_error *err)
{
    uint64_t most = runner->plan->steps > 0 ? runner->plan->steps : UINT64_MAX;
    uint64_t looked_at = 0;
    bool more = true;

    while (more && !*interrupted && runner->steps_done < most && runner->kept == KVT_OK) {
        kvt_status status = kvt_sim_step(sim, &more, err);
        if (status == KVT_ERR_INTERRUPTED)
            *interrupted = true;
        else if (status != KVT_OK)
            return status;
        if (runner->steps_done < looked_at + STEPS_PER_LOOK)
            continue;
        looked_at = runner->steps_done;
        double by_steps = runner->plan->steps > 0 ? (double)runner->steps_done / (double)most : -1;
        cli_progress_show(&runner->progress, fmax(by_steps, kvt_sim_progress(sim)), "in lockstep");
        *interrupted = *interrupted || cli_interrupted();
    }
    if (runner->kept != KVT_OK)
        *err = runner->kept_error;
    return runner->kept;
}

/* ---- Runs ------------------------------------------------------------------------------ */

/* The texts live as long as the pair. */
static kvt_status keep_findings(struct runner *runner, const struct kvt_sim *sim,
                                struct lockstep_run *run, struct kvt_error *err)
{
    const char *mismatch;

    kvt_backend_pair_report(runner->pair, &run->report);
    runner->pair->ops->proof(runner->pair, &run->proof);
    mismatch = run->report.first_mismatch;
    run->report.first_mismatch = run->first_mismatch = mismatch ? strdup(mismatch) : NULL;
    kvt_status status = validate_keep_texts(&run->proof, &run->texts, err);
    if (status == KVT_OK && mismatch && !run->first_mismatch)
        status = kvt_fail_nomem(err, "what was found");
    run->decode_steps = runner->steps_done;
    snprintf(run->hash, sizeof run->hash, "%016llx",
             (unsigned long long)kvt_sim_decision_hash(sim));
    run->simulated_s = (double)kvt_sim_now_ns(sim) * 1e-9;
    return status;
}

static kvt_status run_one(struct runner *runner, struct kvt_scenario *scenario,
                          struct lockstep_run *run, struct kvt_error *err)
{
    struct kvt_sim *sim = NULL;
    const struct kvt_run *result = NULL;
    struct timeline_columns columns = {0};
    struct kvt_sim_options options = {.threads = runner->plan->threads,
                                      .cache_dir = runner->plan->cache_dir,
                                      .on_interval = timeline_columns_add,
                                      .interval_context = &columns,
                                      .on_prepare = on_prepare,
                                      .prepare_context = &runner->progress,
                                      .open_backend = open_pair,
                                      .backend_context = runner,
                                      .on_step = on_step,
                                      .step_context = runner};

    *run = (struct lockstep_run){.scenario = scenario->name,
                                 .seed = scenario->seed,
                                 .tolerance = validate_tolerance_of(&scenario->backend)};
    runner->run = run;
    runner->steps_done = 0;
    cli_progress_begin(&runner->progress, &runner->start, runner->plan->quiet);
    kvt_status status = timeline_columns_open(&columns, 0, err);
    if (status == KVT_OK)
        status = kvt_sim_new(scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = advance(runner, sim, &run->interrupted, err);
    cli_progress_end(&runner->progress);
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, run->interrupted, &result, err);
    if (status == KVT_OK)
        status = kvt_report_result(result, &run->result, err);
    if (status == KVT_OK)
        status = timeline_columns_close(&columns, &run->timeline, err);
    if (sim) { /* what a run that broke off has found until then, counts as well */
        struct kvt_error unused;
        kvt_status kept = keep_findings(runner, sim, run, status == KVT_OK ? err : &unused);
        status = status == KVT_OK ? kept : status;
    }
    run->wall_s = kvt_wall_seconds_since(runner->start);
    kvt_sim_free(sim);
    timeline_columns_discard(&columns);
    return status;
}

/* What a comparison takes, before what the user sets. */
static size_t own_sets(const struct lockstep_plan *plan, const char **sets)
{
    size_t count = 0;

    if (plan->on_gpu)
        sets[count++] = "backend=cuda";
    sets[count++] = "run.fidelity=exact";
    if (plan->on_gpu)
        sets[count++] = "run.clock=measured";
    if (plan->corrupt)
        sets[count++] = "backend.corrupt_step=2";
    return count;
}

static kvt_status run_seeds(struct runner *runner, struct kvt_scenario *scenario, bool *stop,
                            struct kvt_error *err)
{
    struct lockstep_outcome *out = runner->out;
    uint64_t first = scenario->seed;
    kvt_status status = KVT_OK;

    for (uint64_t s = 0; s < runner->plan->seeds && status == KVT_OK && !*stop; s++) {
        scenario->seed = first + s;
        struct lockstep_run *run = &out->runs[out->run_count++];
        status = run_one(runner, scenario, run, err);
        if (status == KVT_ERR_INTERRUPTED && out->run_count > 1) {
            run->interrupted = true; /* while it was prepared; those before it stand */
            status = KVT_OK;
        }
        *stop = run->interrupted;
    }
    return status;
}

/* All of them, before any runs. */
static kvt_status load_scenarios(const struct lockstep_plan *plan, const char *const *sets,
                                 size_t set_count, struct kvt_arena *arena,
                                 struct kvt_scenario *scenarios, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .sets = sets, .set_count = set_count};
    kvt_status status = KVT_OK;

    for (size_t i = 0; i < plan->scenarios->count && status == KVT_OK; i++)
        status = kvt_scenario_load(plan->scenarios->items[i], &options, arena, &scenarios[i], err);
    return status;
}

/* On failure too, where any step was made. */
static kvt_status close_steps(struct runner *runner, kvt_status status, struct kvt_error *err)
{
    struct kvt_error unused;

    if (status == KVT_OK)
        status = open_steps(runner, err); /* a run without any step has a header */
    if (!runner->steps)
        return status;
    kvt_status written = kvt_outfile_commit(runner->steps, status == KVT_OK ? err : &unused);
    return status == KVT_OK ? written : status;
}

kvt_status validate_lockstep(const struct lockstep_plan *plan, struct kvt_arena *arena,
                             struct lockstep_outcome *out, struct kvt_error *err)
{
    size_t set_count = 0, run_max = plan->scenarios->count * plan->seeds;
    const char **sets = malloc((plan->sets->count + OWN_SETS) * sizeof *sets);
    struct runner runner = {
        .plan = plan,
        .out = out,
        .sides = {plan->on_gpu ? &kvt_backend_cuda : &kvt_backend_sim, &kvt_backend_sim}};
    struct kvt_scenario *scenarios = kvt_arena_array(
        arena, plan->scenarios->count, sizeof *scenarios, _Alignof(struct kvt_scenario));
    bool stop = false;

    out->runs = calloc(run_max, sizeof *out->runs);
    if (!sets || !scenarios || !out->runs) {
        free(sets);
        return kvt_fail_nomem(err, "a validation");
    }
    set_count = own_sets(plan, sets);
    for (size_t i = 0; i < plan->sets->count; i++)
        sets[set_count++] = plan->sets->items[i];
    kvt_status status = load_scenarios(plan, sets, set_count, arena, scenarios, err);
    if (status == KVT_OK) {
        for (size_t i = 0; i < plan->scenarios->count && status == KVT_OK && !stop; i++)
            status = run_seeds(&runner, &scenarios[i], &stop, err);
        status = close_steps(&runner, status, err);
        if (status != KVT_OK)
            (void)snprintf(out->failure, sizeof out->failure, "%s%s%s", err->where,
                           err->where[0] ? ": " : "", err->message);
    }
    free(sets);
    return status;
}

void lockstep_free(struct lockstep_outcome *outcome)
{
    for (size_t r = 0; outcome->runs && r < outcome->run_count; r++) {
        free(outcome->runs[r].first_mismatch);
        validate_free_texts(&outcome->runs[r].texts);
        cJSON_Delete(outcome->runs[r].result);
        cJSON_Delete(outcome->runs[r].timeline);
    }
    for (int f = 0; f < LOCKSTEP_FAMILIES; f++)
        free(outcome->families[f].errors);
    free(outcome->runs);
    cJSON_Delete(outcome->machine);
    *outcome = (struct lockstep_outcome){0};
}
