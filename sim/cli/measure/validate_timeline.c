/* validate_timeline.c -- the course of a run that was measured in lockstep, and of the same
 * scenario by the simulator's own clock.
 *
 *     measured:   read from the answer of an earlier `kvtide validate SCENARIO`: decisions are the
 *                 simulator's, step times the GPU's
 *     predicted:  the scenario run once, without a GPU, step times those of its timing model
 *     by phase:   means of both over time, and the mean of the absolute difference
 *
 * Bins need not begin together: where requests end elsewhere, so do intervals in which nobody is
 * served. So the two are compared over the overlaps of their bins. */
#include "validate_timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/arena.h"

enum {
    FILE_BYTES_MAX = 256 << 20,
    PLACE_BYTES = 4200,
    DOTTED_BYTES = 256
};

const struct timeline_quantity timeline_quantities[TIMELINE_QUANTITIES] = {
    {TIMELINE_HOST_FETCH_SHARE, "host fetch share", "%", 100},
    {TIMELINE_COVERAGE, "coverage", "%", 100},
    {TIMELINE_RUNNING, "requests that decode", "mean", 1},
    {TIMELINE_MEAN_STEP_MS, "step", "ms", 1},
};

/* ---- The measured side --------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static bool is_answer(const cJSON *tree)
{
    return strcmp(text_of(tree, "schema"), "kvtide/validate/1") == 0;
}

bool timeline_is_one(const char *path)
{
    struct kvt_error unused;
    cJSON *tree = NULL;

    if (kvt_json_load(path, FILE_BYTES_MAX, &tree, &unused) != KVT_OK)
        return false;
    bool is_one = is_answer(tree) || cJSON_IsArray(kvt_json_find(tree, "commands"));
    cJSON_Delete(tree);
    return is_one;
}

/* The run of that scenario and seed which has a course. */
static const cJSON *find_in(const cJSON *document, const struct kvt_scenario *scenario)
{
    const cJSON *run = NULL;

    if (!is_answer(document))
        return NULL;
    cJSON_ArrayForEach(run, kvt_json_find(document, "runs"))
    {
        const cJSON *seed = kvt_json_find(run, "seed");
        if (strcmp(text_of(run, "scenario"), scenario->name) == 0 && cJSON_IsNumber(seed) &&
            seed->valuedouble == (double)scenario->seed &&
            cJSON_IsObject(kvt_json_find(run, "timeline")) &&
            cJSON_IsObject(kvt_json_find(run, "result")))
            return run;
    }
    return NULL;
}

static kvt_status find_run(const struct timeline_plan *plan, const struct kvt_scenario *scenario,
                           struct timeline_outcome *out, const cJSON **run, struct kvt_error *err)
{
    const cJSON *command = NULL;

    out->document = out->file;
    *run = find_in(out->document, scenario);
    cJSON_ArrayForEach(command, kvt_json_find(out->file, "commands"))
    {
        if (*run)
            break;
        out->document = kvt_json_find(command, "document");
        *run = find_in(out->document, scenario);
    }
    if (*run)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_NOT_FOUND, plan->file,
                    "no run of the scenario \"%s\" with seed %llu, and its timeline, is in it; an "
                    "answer of `kvtide validate SCENARIO` is expected",
                    scenario->name, (unsigned long long)scenario->seed);
}

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

/* Nobody has said anything of what is at or below the path. */
static bool is_default(const cJSON *node, const char *path, const cJSON *origins)
{
    char below[DOTTED_BYTES];
    const cJSON *member = NULL;
    bool all = true;

    if (!cJSON_IsObject(node)) {
        const cJSON *origin = kvt_json_find(origins, path);
        return cJSON_IsString(origin) && strcmp(origin->valuestring, "default") == 0;
    }
    cJSON_ArrayForEach(member, node)
    {
        (void)snprintf(below, sizeof below, "%s.%s", path, member->string);
        all = all && is_default(member, below, origins);
    }
    return all;
}

/* A key that the program did not have yet that measured is the same while nobody gives it. */
static bool is_same(const cJSON *there, const cJSON *here, const char *path, const cJSON *origins)
{
    char below[DOTTED_BYTES];
    const cJSON *member = NULL;
    bool same = true;

    if (!cJSON_IsObject(there) || !cJSON_IsObject(here))
        return there ? cJSON_Compare(there, here, true) : !here || is_default(here, path, origins);
    cJSON_ArrayForEach(member, there) same = same && kvt_json_find(here, member->string);
    cJSON_ArrayForEach(member, here)
    {
        (void)snprintf(below, sizeof below, "%s.%s", path, member->string);
        same = same && is_same(kvt_json_find(there, member->string), member, below, origins);
    }
    return same;
}

/* NOLINTEND(misc-no-recursion) */

/* All but what says how a step is done or timed. */
static kvt_status check_same(const struct timeline_plan *plan, const struct kvt_scenario *scenario,
                             const cJSON *run, struct kvt_error *err)
{
    static const char *const keys[] = {"seed",        "model",     "hardware",
                                       "cluster",     "residency", "replacement",
                                       "speculation", "selection", "workload"};
    const cJSON *measured = kvt_json_find(kvt_json_find(run, "result"), "scenario");

    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const cJSON *there = kvt_json_find(measured, keys[k]);
        const cJSON *here = kvt_json_find(scenario->tree, keys[k]);
        if (!is_same(there, here, keys[k], scenario->origins))
            return kvt_fail(err, KVT_ERR_INVALID, plan->file,
                            "it was measured with another \"%s\" than the scenario \"%s\" has; "
                            "only timing, run and backend may differ",
                            keys[k], scenario->name);
    }
    return KVT_OK;
}

/* A column of as many numbers as the others; null: not defined. */
static kvt_status read_column(const cJSON *tree, const char *where, enum timeline_column column,
                              struct kvt_arena *arena, struct timeline *out, struct kvt_error *err)
{
    const char *name = timeline_column_name(column);
    bool is_time = column == TIMELINE_FROM_S || column == TIMELINE_TO_S;
    const cJSON *array = NULL, *item = NULL;
    size_t i = 0;

    kvt_status status = kvt_json_get_array(tree, where, name, true, &array, err);
    if (status != KVT_OK)
        return status;
    size_t count = (size_t)cJSON_GetArraySize(array);
    if (column != 0 && count != out->count)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s has %zu numbers, and %s has %zu: as many are expected", name, count,
                        timeline_column_name(0), out->count);
    out->count = count;
    double *values = kvt_arena_array(arena, count + 1, sizeof *values, _Alignof(double));
    if (!values)
        return kvt_fail_nomem(err, "a timeline");
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsNumber(item) && (is_time || !cJSON_IsNull(item)))
            return kvt_fail(err, KVT_ERR_INVALID, where, "%s/%zu: a number%s is expected", name, i,
                            is_time ? "" : ", or null,");
        values[i++] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    }
    out->columns[column] = values;
    return KVT_OK;
}

static kvt_status read_timeline(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                struct timeline *out, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (int c = 0; c < TIMELINE_COLUMNS && status == KVT_OK; c++)
        status = read_column(tree, where, (enum timeline_column)c, arena, out, err);
    for (size_t i = 0; i < out->count && status == KVT_OK; i++) {
        double from_s = out->columns[TIMELINE_FROM_S][i], to_s = out->columns[TIMELINE_TO_S][i];
        double before_s = i > 0 ? out->columns[TIMELINE_TO_S][i - 1] : 0;
        if (!(from_s >= before_s) || !(to_s > from_s))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "row %zu is from %g to %g s: an end behind its beginning, and a "
                            "beginning not before %g s, are expected",
                            i, from_s, to_s, before_s);
    }
    return status;
}

/* ---- The predicted side -------------------------------------------------------------------- */

/* Whatever backend the scenario names: here nothing is run. */
static kvt_status open_simulator(void *context, const struct kvt_backend_env *env,
                                 struct kvt_backend **out, struct kvt_error *err)
{
    (void)context;
    return kvt_backend_sim.open(env, out, err);
}

static void keep_timing(const struct kvt_run *run, struct timeline_outcome *out)
{
    const struct kvt_tally *total = &run->total;

    out->timing = run->scenario->timing.info->name;
    out->timing_basis = run->timing_basis;
    out->in_range_share = total->decode_steps > 0
                              ? 1 - (double)total->extrapolated_steps / (double)total->decode_steps
                              : (double)NAN;
}

static kvt_status predict(const struct timeline_plan *plan, struct kvt_scenario *scenario,
                          struct kvt_arena *arena, struct timeline_outcome *out,
                          struct kvt_error *err)
{
    struct timeline_columns columns;
    const struct kvt_sim_options options = {.threads = plan->threads,
                                            .cache_dir = plan->cache_dir,
                                            .on_interval = timeline_columns_add,
                                            .interval_context = &columns,
                                            .open_backend = open_simulator};
    struct cli_run done = {.sim = NULL};
    cJSON *tree = NULL;

    scenario->clock = KVT_CLOCK_PREDICTED;
    kvt_status status = timeline_columns_open(&columns, 0, err);
    if (status == KVT_OK)
        status = cli_run_whole(scenario, &options, "running", plan->quiet, &done, err);
    if (status == KVT_OK && done.interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "validate --measured", "a signal ended it");
    if (status == KVT_OK) {
        keep_timing(done.run, out);
        status = timeline_columns_close(&columns, &tree, err);
    } else {
        kvt_scenario_locate(scenario, err);
    }
    if (status == KVT_OK)
        status = read_timeline(tree, "timeline", arena, &out->sides[TIMELINE_PREDICTED], err);
    cJSON_Delete(tree);
    timeline_columns_discard(&columns);
    kvt_sim_free(done.sim);
    return status;
}

/* ---- Both ---------------------------------------------------------------------------------- */

void timeline_compare(const struct timeline sides[TIMELINE_SIDES], enum timeline_column column,
                      double from_s, double to_s, struct timeline_difference *out)
{
    const struct timeline *a = &sides[TIMELINE_MEASURED], *b = &sides[TIMELINE_PREDICTED];
    double sums[TIMELINE_SIDES] = {0}, difference = 0, seconds = 0;
    size_t i = 0, j = 0;

    while (i < a->count && j < b->count) {
        double a_to_s = a->columns[TIMELINE_TO_S][i], b_to_s = b->columns[TIMELINE_TO_S][j];
        double low_s = fmax(a->columns[TIMELINE_FROM_S][i], b->columns[TIMELINE_FROM_S][j]);
        double overlap_s = fmin(fmin(a_to_s, b_to_s), to_s) - fmax(low_s, from_s);
        double here = a->columns[column][i], there = b->columns[column][j];
        if (overlap_s > 0 && isfinite(here) && isfinite(there)) {
            sums[TIMELINE_MEASURED] += overlap_s * here;
            sums[TIMELINE_PREDICTED] += overlap_s * there;
            difference += overlap_s * fabs(here - there);
            seconds += overlap_s;
        }
        i += a_to_s <= b_to_s;
        j += b_to_s <= a_to_s;
    }
    for (int side = 0; side < TIMELINE_SIDES; side++)
        out->means[side] = seconds > 0 ? sums[side] / seconds : (double)NAN;
    out->mean_abs = seconds > 0 ? difference / seconds : (double)NAN;
}

static kvt_status compare_phases(const cJSON *run, const char *where, struct kvt_arena *arena,
                                 struct timeline_outcome *out, struct kvt_error *err)
{
    const cJSON *list = NULL, *item = NULL;

    kvt_status status =
        kvt_json_get_array(kvt_json_find(run, "result"), where, "phases", true, &list, err);
    if (status != KVT_OK)
        return status;
    out->phases = kvt_arena_array(arena, (size_t)cJSON_GetArraySize(list) + 1, sizeof *out->phases,
                                  _Alignof(struct timeline_phase));
    if (!out->phases)
        return kvt_fail_nomem(err, "the phases of a timeline");
    cJSON_ArrayForEach(item, list)
    {
        struct timeline_phase *phase = &out->phases[out->phase_count++];
        status = kvt_json_get_f64(item, where, "from_s", true, 0, 1e18, &phase->from_s, err);
        if (status == KVT_OK)
            status = kvt_json_get_f64(item, where, "to_s", true, 0, 1e18, &phase->to_s, err);
        if (status != KVT_OK)
            return status;
        for (int q = 0; q < TIMELINE_QUANTITIES; q++)
            timeline_compare(out->sides, timeline_quantities[q].column, phase->from_s, phase->to_s,
                             &phase->of[q]);
    }
    return KVT_OK;
}

static kvt_status load_scenario(const struct timeline_plan *plan, struct kvt_arena *arena,
                                struct kvt_scenario *scenario, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = plan->sets->items,
                                                 .set_count = plan->sets->count};
    kvt_status status = kvt_scenario_load(plan->scenario, &options, arena, scenario, err);

    if (status == KVT_OK && scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        return kvt_fail(err, KVT_ERR_INVALID, "validate --measured",
                        "run.fidelity \"analytic\" has no course; \"exact\" or \"sampled\" is "
                        "expected");
    return status;
}

kvt_status validate_timeline(const struct timeline_plan *plan, struct kvt_arena *arena,
                             struct timeline_outcome *out, struct kvt_error *err)
{
    struct kvt_scenario *scenario =
        kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario));
    char timeline_place[PLACE_BYTES], result_place[PLACE_BYTES];
    const cJSON *run = NULL;

    if (!scenario)
        return kvt_fail_nomem(err, "a scenario");
    (void)snprintf(timeline_place, sizeof timeline_place, "%s#/runs/timeline", plan->file);
    (void)snprintf(result_place, sizeof result_place, "%s#/runs/result/phases", plan->file);
    kvt_status status = load_scenario(plan, arena, scenario, err);
    if (status == KVT_OK)
        status = kvt_json_load(plan->file, FILE_BYTES_MAX, &out->file, err);
    if (status == KVT_OK)
        status = find_run(plan, scenario, out, &run, err);
    if (status == KVT_OK)
        status = check_same(plan, scenario, run, err);
    if (status == KVT_OK)
        status = read_timeline(kvt_json_find(run, "timeline"), timeline_place, arena,
                               &out->sides[TIMELINE_MEASURED], err);
    if (status != KVT_OK)
        return status;
    out->scenario = scenario->name;
    out->seed = scenario->seed;
    out->was_good = cJSON_IsTrue(kvt_json_find(out->document, "good"));
    out->was_interrupted = cJSON_IsTrue(kvt_json_find(run, "interrupted"));
    out->broken_off = cJSON_GetStringValue(kvt_json_find(out->document, "broken_off"));
    status = predict(plan, scenario, arena, out, err);
    if (status == KVT_OK)
        status = compare_phases(run, result_place, arena, out, err);
    return status;
}

void timeline_free(struct timeline_outcome *outcome)
{
    cJSON_Delete(outcome->file);
    *outcome = (struct timeline_outcome){0};
}
