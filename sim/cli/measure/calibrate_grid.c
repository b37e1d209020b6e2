/* calibrate_grid.c -- kvtide calibrate on a GPU: runs of a grid, step by step, into points. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_gpu.h"
#include "kvt/backend_params.h"

struct collector {
    const struct grid_plan *plan;
    struct kvt_arena *arena;
    struct points *points;
    struct point_steps steps;
    uint32_t point_steps;
};

static kvt_status on_step(void *context, const struct kvt_step_times *times, struct kvt_error *err)
{
    struct collector *collector = context;
    return point_steps_add(&collector->steps, times, collector->points, err);
}

/* Runs of a grid are of one setting: what a profile of them is for. */
static kvt_status take_setting(struct collector *collector, const struct kvt_scenario *scenario,
                               struct kvt_error *err)
{
    struct points *points = collector->points;
    const struct kvt_decode_pool *pool = &scenario->pools[0];

    if (points->model && (strcmp(points->model, scenario->llm->name) != 0 ||
                          strcmp(points->hardware, pool->hardware->name) != 0 ||
                          points->tp != pool->tp || points->ep != pool->ep))
        return kvt_fail(err, KVT_ERR_INVALID, collector->plan->grid->path,
                        "runs are of %s on %s, tp %u, ep %u, and of %s on %s, tp %u, ep %u; one "
                        "setting is expected",
                        points->model, points->hardware, points->tp, points->ep,
                        scenario->llm->name, pool->hardware->name, pool->tp, pool->ep);
    if (points->model)
        return KVT_OK;
    points->grid = collector->plan->grid->name;
    points->model = kvt_arena_strdup(collector->arena, scenario->llm->name);
    points->hardware = kvt_arena_strdup(collector->arena, pool->hardware->name);
    points->tp = pool->tp;
    points->ep = pool->ep;
    return points->model && points->hardware ? KVT_OK : kvt_fail_nomem(err, "a calibration");
}

static kvt_status on_scenario(void *context, const struct kvt_scenario *scenario,
                              struct kvt_error *err)
{
    struct collector *collector = context;
    struct points *points = collector->points;
    const struct kvt_param_value *backend = scenario->backend.params.values;

    if (scenario->backend.info == &kvt_backend_cuda.info)
        points->configurations[points->configuration_count].is_group =
            backend[KVT_CUDA_FETCH_ORDER].number == KVT_CUDA_FETCH_GROUP;
    return take_setting(collector, scenario, err);
}

/* Gathers alone are of the setting that the grid's runs have. */
static kvt_status take_grid_setting(struct collector *collector, struct kvt_error *err)
{
    const struct grid_plan *plan = collector->plan;
    struct kvt_scenario scenario;
    kvt_status status =
        grid_run_scenario(plan, &plan->grid->runs[0], collector->arena, &scenario, err);

    return status == KVT_OK ? take_setting(collector, &scenario, err) : status;
}

/* What of the grid's scenario a run changes, as one text. */
static const char *join_sets(const struct grid_run *run, struct kvt_arena *arena)
{
    size_t bytes = 1;

    for (size_t s = 0; s < run->set_count; s++)
        bytes += strlen(run->sets[s]) + 1;
    char *text = kvt_arena_alloc(arena, bytes, 1);
    if (!text)
        return NULL;
    char *end = text;
    *end = '\0';
    for (size_t s = 0; s < run->set_count; s++)
        end += sprintf(end, "%s%s", s > 0 ? " " : "", run->sets[s]);
    return text;
}

/* A run that cannot be made here, for want of memory say, is told, and the others go on. A signal
 * ends all, and so does a GPU that is not there. */
static bool is_end(kvt_status status, const struct points *points)
{
    return status == KVT_ERR_INTERRUPTED || status == KVT_ERR_HUNG || status == KVT_ERR_NOMEM ||
           (status == KVT_ERR_DEVICE && points->count == 0);
}

static kvt_status collect(struct collector *collector, const struct grid_run *run, double fraction,
                          struct kvt_error *err)
{
    struct points *points = collector->points;
    struct points_configuration *configuration =
        &points->configurations[points->configuration_count];
    size_t had = points->count;

    *configuration = (struct points_configuration){
        .name = run->name, .sets = join_sets(run, collector->arena), .is_ranked = run->is_ranked};
    if (!configuration->sets)
        return kvt_fail_nomem(err, "a calibration");
    collector->steps = (struct point_steps){.configuration = (uint32_t)points->configuration_count,
                                            .wanted = collector->point_steps};
    kvt_status status = grid_run_do(collector->plan, run, collector->arena, fraction, err);
    if (status == KVT_OK && points->count == had)
        status =
            kvt_fail(err, KVT_ERR_UNSUPPORTED, run->name,
                     "no %u steps alike, so that there is no point of it", collector->point_steps);
    if (status == KVT_OK)
        points->configuration_count++;
    else
        points->count = had;
    return status;
}

bool calibrate_is_wanted(const struct calibrate_selection *selection, const char *name,
                         bool is_quick, size_t index)
{
    return (!selection->quick || is_quick) && (!selection->only || strstr(name, selection->only)) &&
           index % selection->shards == selection->shard;
}

static bool is_run_wanted(const struct calibrate_selection *selection, const struct grid *grid,
                          size_t r)
{
    return calibrate_is_wanted(selection, grid->runs[r].name, grid->runs[r].is_quick, r);
}

static kvt_status check_shards(const struct calibrate_selection *selection, const struct grid *grid,
                               struct kvt_error *err)
{
    size_t parts = grid->run_count + grid->gather_count;

    if (selection->shards <= parts)
        return KVT_OK;
    return kvt_fail(
        err, KVT_ERR_INVALID, "--shard",
        "found %zu/%zu, but grid \"%s\" has %zu runs and %zu gathers; at most %zu parts "
        "are expected",
        selection->shard + 1, selection->shards, grid->name, grid->run_count, grid->gather_count,
        parts);
}

/* A name that was meant otherwise is no empty measurement. */
static kvt_status check_only(const struct calibrate_selection *selection, const struct grid *grid,
                             struct kvt_error *err)
{
    bool is_there = !selection->only;

    if (selection->only && selection->only[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, "--only",
                        "found no text; part of a name of grid \"%s\" is expected", grid->name);
    for (size_t r = 0; r < grid->run_count; r++)
        is_there = is_there || strstr(grid->runs[r].name, selection->only);
    for (size_t g = 0; g < grid->gather_count; g++)
        is_there = is_there || strstr(grid->gathers[g].name, selection->only);
    if (is_there)
        return KVT_OK;
    return kvt_fail(
        err, KVT_ERR_NOT_FOUND, "--only",
        "no run or gather of grid \"%s\" has \"%.60s\" in its name; part of a name that "
        "is there is expected",
        grid->name, selection->only);
}

/* The runs that are wanted, in their order. */
static kvt_status measure_runs(struct collector *collector,
                               const struct calibrate_selection *selection, size_t *left_out,
                               struct kvt_error *err)
{
    const struct grid *grid = collector->plan->grid;
    size_t wanted = 0, done = 0;

    for (size_t r = 0; r < grid->run_count; r++)
        wanted += is_run_wanted(selection, grid, r);
    for (size_t r = 0; r < grid->run_count; r++) {
        const struct grid_run *run = &grid->runs[r];
        if (!is_run_wanted(selection, grid, r))
            continue;
        kvt_status status = collect(collector, run, (double)done++ / (double)wanted, err);
        if (is_end(status, collector->points))
            return status;
        if (status == KVT_OK)
            continue;
        (*left_out)++;
        cli_progress_end(collector->plan->progress);
        fprintf(stderr, "kvtide: left out: %s: %s: %s\n", run->name, err->where, err->message);
    }
    return KVT_OK;
}

kvt_status calibrate_measure(const struct grid_plan *plan,
                             const struct calibrate_selection *selection, struct kvt_arena *arena,
                             struct points *out, size_t *left_out, struct kvt_error *err)
{
    const struct grid *grid = plan->grid;
    struct collector collector = {
        .plan = plan, .arena = arena, .points = out, .point_steps = selection->point_steps};
    struct grid_plan own = *plan;
    kvt_status status = check_only(selection, grid, err);

    if (status == KVT_OK)
        status = check_shards(selection, grid, err);
    if (status != KVT_OK)
        return status;
    own.on_step = on_step;
    own.on_scenario = on_scenario;
    own.context = &collector;
    collector.plan = &own;
    *left_out = 0;
    out->configurations =
        kvt_arena_array(arena, grid->run_count + grid->gather_count, sizeof *out->configurations,
                        _Alignof(struct points_configuration));
    if (!out->configurations)
        return kvt_fail_nomem(err, "a calibration");
    status = measure_runs(&collector, selection, left_out, err);
    if (status == KVT_OK && !out->model)
        status = take_grid_setting(&collector, err);
    if (status == KVT_OK)
        status = calibrate_gathers(&own, selection, out, left_out, err);
    if (status != KVT_OK)
        return status;
    if (out->count == 0)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate", "no run of grid \"%s\" gave a point",
                        grid->name);
    return KVT_OK;
}
