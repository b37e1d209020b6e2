/* paper_points.c -- what the targets and figures are made of: scenarios with the free parameters in
 * force, run on some threads.
 *
 *     load a point's scenario; for each free parameter whose key is in its tree in force:
 *         PATH=VALUE, behind the point's own
 *     load it again with those
 *
 * A key without effect is not in the tree in force, so that a parameter reaches the points that it
 * can change and no others. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "../jobs.h"
#include "../timeline_columns.h"
#include "kvt/json.h"
#include "kvt/sim.h"
#include "kvt/size.h"
#include "paper.h"

enum {
    MEASURED_BYTES_MAX = 16 << 20,
    VALUE_BYTES = 256
};

static const double bin_s = 5; /* of a course, as in the paper's Figure 6 */

struct work {
    struct paper *paper;
    struct kvt_scenario *scenarios; /* [point_count] */
    size_t *wanted;                 /* [wanted_count] points in the order in which they are run */
    size_t wanted_count;
};

/* ---- Scenarios -------------------------------------------------------------------------- */

static bool has_scenario(const struct paper_point *point)
{
    return point->kind != PAPER_MEASURED;
}

/* Names of the data folder's own: "paper/FILE.json". */
static kvt_status source_of(const struct paper_point *point, struct kvt_arena *arena,
                            const char **out, struct kvt_error *err)
{
    *out = strchr(point->source, '/') == NULL
               ? point->source
               : kvt_arena_printf(arena, "%s/%s", cli_data_dir(), point->source);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, point->id);
}

static kvt_status load(const struct paper_point *point, const char *const *sets, size_t set_count,
                       struct kvt_arena *arena, struct kvt_scenario *out, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .sets = sets,
                                                 .set_count = set_count,
                                                 .for_size = point->kind == PAPER_SIZE};
    const char *source = NULL;
    kvt_status status = source_of(point, arena, &source, err);

    return status == KVT_OK ? kvt_scenario_load(source, &options, arena, out, err) : status;
}

static bool reaches(const struct paper_parameter *parameter, const struct kvt_scenario *scenario)
{
    return paper_at(scenario->tree, parameter->key) != NULL &&
           (parameter->times == NULL ||
            cJSON_IsNumber(paper_at(scenario->tree, parameter->times))) &&
           (parameter->model == NULL || strcmp(parameter->model, scenario->llm->name) == 0);
}

/* What the parameter gives this scenario, as text. */
static void print_value(const struct paper_parameter *parameter,
                        const struct kvt_scenario *scenario, char out[VALUE_BYTES])
{
    if (cJSON_IsString(parameter->value)) {
        (void)snprintf(out, VALUE_BYTES, "%s", parameter->value->valuestring);
        return;
    }
    double times = parameter->times != NULL ? paper_number(scenario->tree, parameter->times) : 1;
    kvt_json_print_number(parameter->value->valuedouble * times, out);
}

/* The scenario has that value of itself. A shipped table stands there as a path. */
static bool has_value(const cJSON *own, const char *value)
{
    char text[VALUE_BYTES];

    if (cJSON_IsNumber(own)) {
        kvt_json_print_number(own->valuedouble, text);
        return strcmp(text, value) == 0;
    }
    if (!cJSON_IsString(own))
        return false;
    const char *slash = strrchr(own->valuestring, '/');
    const char *name = slash != NULL ? slash + 1 : own->valuestring;
    size_t length = strlen(value);
    return strncmp(name, value, length) == 0 &&
           (name[length] == '\0' || strcmp(name + length, ".json") == 0);
}

/* The point's own sets, then those of the parameters that reach it. Of parameters that are
 * multiplied a scenario's own value says nothing: it was made for one load. */
static kvt_status put_in_force(struct paper *paper, struct paper_point *point,
                               struct kvt_arena *arena, struct kvt_scenario *scenario,
                               struct kvt_error *err)
{
    const char **sets = kvt_arena_array(arena, point->set_count + paper->parameter_count + 1,
                                        sizeof *sets, _Alignof(const char *));
    size_t count = 0;

    if (sets == NULL)
        return kvt_fail_nomem(err, point->id);
    for (; count < point->set_count; count++)
        sets[count] = point->sets[count];
    for (size_t p = 0; p < paper->parameter_count; p++) {
        struct paper_parameter *parameter = &paper->parameters[p];
        char value[VALUE_BYTES];
        if (!reaches(parameter, scenario))
            continue;
        print_value(parameter, scenario, value);
        point->parameters |= UINT64_C(1) << p;
        if (has_value(paper_at(scenario->tree, parameter->key), value))
            continue;
        if (parameter->times == NULL)
            parameter->is_shipped = false;
        sets[count] = kvt_arena_printf(arena, "%s=%s", parameter->key, value);
        if (sets[count++] == NULL)
            return kvt_fail_nomem(err, point->id);
    }
    if (count == point->set_count)
        return KVT_OK;
    point->sets = sets;
    point->set_count = count;
    return load(point, sets, count, arena, scenario, err);
}

static kvt_status load_scenarios(struct work *work, struct kvt_arena *arena, struct kvt_error *err)
{
    struct paper *paper = work->paper;

    for (size_t i = 0; i < paper->point_count; i++) {
        struct paper_point *point = &paper->points[i];
        if (!point->is_wanted)
            continue;
        work->wanted[work->wanted_count++] = i;
        if (!has_scenario(point))
            continue;
        struct kvt_error why;
        kvt_status status =
            load(point, point->sets, point->set_count, arena, &work->scenarios[i], &why);
        /* What must hold in any run was not fitted to anything. */
        if (status == KVT_OK && point->kind != PAPER_PROPERTIES)
            status = put_in_force(paper, point, arena, &work->scenarios[i], &why);
        if (status != KVT_OK)
            return kvt_fail(err, status, point->id, "%s%s%s", why.where,
                            why.where[0] != '\0' ? ": " : "", why.message);
    }
    return KVT_OK;
}

/* ---- Runs ------------------------------------------------------------------------------- */

/* What result.json does not have, or not as one number. */
static bool add_sums(cJSON *result, const struct kvt_run *run)
{
    return kvt_json_add_number(result, "active_per_gpu", run->active_mean / run->gpus) &&
           kvt_json_add_number(result, "rounds", (double)run->total.rounds) &&
           kvt_json_add_number(result, "missed_selections",
                               run->total.counts[KVT_SAMPLED_MISSED]) &&
           kvt_json_add_number(result, "payload_row_bytes",
                               run->scenario->llm->payload.capacity_bytes);
}

static kvt_status run_point(const struct work *work, struct paper_point *point,
                            const struct kvt_scenario *scenario, unsigned threads,
                            struct cli_job *job, struct kvt_error *err)
{
    struct timeline_columns columns = {0};
    struct kvt_sim_options options = {.threads = threads,
                                      .cache_dir = work->paper->cache_dir,
                                      .on_prepare = cli_job_on_prepare,
                                      .prepare_context = job};
    struct kvt_sim *sim = NULL;
    const struct kvt_run *run = NULL;
    cJSON *result = NULL, *timeline = NULL;
    bool interrupted = false;
    kvt_status status = KVT_OK;

    if (point->has_timeline) {
        options.on_interval = timeline_columns_add;
        options.interval_context = &columns;
        status = timeline_columns_open(&columns, bin_s, err);
    }
    if (status == KVT_OK)
        status = kvt_sim_new(scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = cli_advance(sim, cli_job_on_advance, job, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "paper", "a signal ended the runs");
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK)
        status = kvt_report_result(run, &result, err);
    if (status == KVT_OK && !add_sums(result, run))
        status = kvt_fail_nomem(err, point->id);
    if (status == KVT_OK && point->has_timeline) {
        status = timeline_columns_close(&columns, &timeline, err);
        if (status == KVT_OK && !kvt_json_add(result, "timeline", timeline))
            status = kvt_fail_nomem(err, point->id);
    }
    if (status == KVT_OK)
        kvt_run_badge(run, NULL, &point->badge);
    kvt_sim_free(sim);
    timeline_columns_discard(&columns);
    if (status == KVT_OK)
        point->tree = result;
    else
        cJSON_Delete(result);
    return status;
}

/* ---- What is no run --------------------------------------------------------------------- */

static kvt_status size_point(struct paper_point *point, const struct kvt_scenario *scenario,
                             struct kvt_error *err)
{
    struct kvt_size size;
    kvt_status status = kvt_size_at(scenario, KVT_ENGINE_IDEAL, point->tokens, &size, err);

    if (status == KVT_OK &&
        (point->tree = kvt_size_tree(scenario, KVT_ENGINE_IDEAL, &size, 1)) == NULL)
        status = kvt_fail_nomem(err, point->id);
    return status;
}

static kvt_status describe_model(struct paper_point *point, const struct kvt_scenario *scenario,
                                 struct kvt_error *err)
{
    const struct kvt_llm *llm = scenario->llm;
    uint32_t sources = 0;

    for (uint32_t s = 0; s < llm->store_count; s++)
        sources += llm->stores[s].layers;
    point->tree = cJSON_CreateObject();
    bool ok = point->tree != NULL &&
              kvt_json_add_number(point->tree, "selecting_layers", llm->selector_count) &&
              kvt_json_add_number(point->tree, "top_k", llm->top_k) &&
              kvt_json_add_number(point->tree, "selections_per_token",
                                  (double)llm->selector_count * llm->top_k) &&
              kvt_json_add_number(point->tree, "kv_sources", sources) &&
              kvt_json_add_number(point->tree, "budget", (double)scenario->hot_tokens / llm->top_k);
    return ok ? KVT_OK : kvt_fail_nomem(err, point->id);
}

/* A machine without the file has not measured: nothing is there then. */
static kvt_status read_measured(struct paper_point *point, struct kvt_error *err)
{
    char path[4096];
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/measured/%s", cli_data_dir(), point->source);

    if (length < 0 || (size_t)length >= sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, point->id, "the data folder's name is too long");
    if (stat(path, &info) != 0 && errno == ENOENT)
        return KVT_OK;
    return kvt_json_load(path, MEASURED_BYTES_MAX, &point->tree, err);
}

static kvt_status work_on(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    const struct work *work = context;
    struct paper_point *point = &work->paper->points[work->wanted[index]];
    const struct kvt_scenario *scenario = &work->scenarios[work->wanted[index]];

    switch (point->kind) {
    case PAPER_RUN:
        return run_point(work, point, scenario, threads, job, err);
    case PAPER_SIZE:
        return size_point(point, scenario, err);
    case PAPER_MODEL:
        return describe_model(point, scenario, err);
    case PAPER_CALLS:
        return paper_resolve_calls(scenario, &point->tree, err);
    case PAPER_PROPERTIES:
        return paper_watch_run(scenario, &kvt_backend_sim, work->paper->cache_dir, job,
                               &point->tree, err);
    case PAPER_MEASURED:
        return read_measured(point, err);
    case PAPER_KINDS:
        break;
    }
    return KVT_OK;
}

kvt_status paper_run_points(struct paper *paper, struct kvt_arena *arena, struct kvt_error *err)
{
    struct work work = {.paper = paper};
    struct kvt_error why;
    size_t failed = 0;

    work.scenarios = kvt_arena_array(arena, paper->point_count + 1, sizeof *work.scenarios,
                                     _Alignof(struct kvt_scenario));
    work.wanted =
        kvt_arena_array(arena, paper->point_count + 1, sizeof *work.wanted, _Alignof(size_t));
    if (work.scenarios == NULL || work.wanted == NULL)
        return kvt_fail_nomem(err, "the paper's points");
    kvt_status status = load_scenarios(&work, arena, err);
    if (status != KVT_OK)
        return status;
    const struct cli_jobs jobs = {.count = work.wanted_count,
                                  .threads = paper->threads,
                                  .quiet = paper->quiet,
                                  .what = "the paper",
                                  .run = work_on,
                                  .context = &work};
    status = cli_jobs_run(&jobs, &failed, &why);
    if (status != KVT_OK)
        return kvt_fail(err, status, paper->points[work.wanted[failed]].id, "%s%s%s", why.where,
                        why.where[0] != '\0' ? ": " : "", why.message);
    return cli_interrupted()
               ? kvt_fail(err, KVT_ERR_INTERRUPTED, "paper", "a signal ended the runs")
               : KVT_OK;
}
