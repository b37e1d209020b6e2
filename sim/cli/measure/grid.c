/* grid.c -- a grid of runs from its file, strictly, and one run of it. */
#include "grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../list.h"
#include "kvt/gather.h"
#include "kvt/json.h"
#include "points.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    WHERE_BYTES = 160,
    PLACE_BYTES = 240,
    STEPS_MAX = 100000
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- The file -------------------------------------------------------------------------- */

static kvt_status read_sets(const cJSON *object, const char *where, struct kvt_arena *arena,
                            struct grid_run *run, struct kvt_error *err)
{
    const cJSON *sets = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(object, where, "sets", true, &sets, err);

    cJSON_ArrayForEach(item, sets)
    {
        if (!cJSON_IsString(item) || run->set_count == GRID_SETS_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "sets/%zu: at most %d texts PATH=VALUE are expected", run->set_count,
                            GRID_SETS_MAX);
        status = points_check_text(item->valuestring, where, "sets", err);
        if (status != KVT_OK)
            return status;
        run->sets[run->set_count] = kvt_arena_strdup(arena, item->valuestring);
        if (!run->sets[run->set_count++])
            return kvt_fail_nomem(err, "a grid");
    }
    return status;
}

/* Runs and gathers are told apart by name alone, in --only as in points and profiles. */
static kvt_status check_name(const struct grid *grid, const char *name, const char *where,
                             struct kvt_error *err)
{
    bool is_taken = false;
    kvt_status status = points_check_name(name, where, err);

    if (status != KVT_OK)
        return status;
    for (size_t r = 0; r < grid->run_count; r++)
        is_taken = is_taken || strcmp(grid->runs[r].name, name) == 0;
    for (size_t g = 0; g < grid->gather_count; g++)
        is_taken = is_taken || strcmp(grid->gathers[g].name, name) == 0;
    if (!is_taken)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "a second run or gather \"%s\"; one of that name is expected", name);
}

static kvt_status read_run(const cJSON *object, const char *where, struct kvt_arena *arena,
                           struct grid *grid, struct kvt_error *err)
{
    static const char *const keys[] = {"name", "sets", "steps", "quick", "ranked"};
    struct grid_run *run = &grid->runs[grid->run_count];
    kvt_status status = kvt_json_check_keys(object, where, keys, LENGTH(keys), err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "name", arena, &run->name, err);
    if (status == KVT_OK)
        status = read_sets(object, where, arena, run, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "steps", true, 1, STEPS_MAX, &run->steps, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "quick", false, &run->is_quick, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "ranked", false, &run->is_ranked, err);
    if (status == KVT_OK)
        status = check_name(grid, run->name, where, err);
    grid->run_count += status == KVT_OK;
    return status;
}

static kvt_status read_runs(const cJSON *tree, const char *where, struct kvt_arena *arena,
                            struct grid *grid, struct kvt_error *err)
{
    const cJSON *runs = NULL, *item = NULL;
    char place[PLACE_BYTES];
    kvt_status status = kvt_json_get_array(tree, where, "runs", true, &runs, err);

    if (status == KVT_OK &&
        (cJSON_GetArraySize(runs) == 0 || cJSON_GetArraySize(runs) > GRID_RUNS_MAX))
        return kvt_fail(err, KVT_ERR_INVALID, where, "%d runs; 1 to %d are expected",
                        cJSON_GetArraySize(runs), GRID_RUNS_MAX);
    cJSON_ArrayForEach(item, runs)
    {
        (void)snprintf(place, sizeof place, "%s/runs/%zu", where, grid->run_count);
        if (status == KVT_OK)
            status = read_run(item, place, arena, grid, err);
    }
    return status;
}

/* One of two words. */
static kvt_status read_choice(const cJSON *object, const char *where, const char *key,
                              const char *no, const char *yes, bool *out, struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(object, where, key, true, &text, err);

    if (status != KVT_OK)
        return status;
    *out = strcmp(text, yes) == 0;
    if (*out || strcmp(text, no) == 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, where, "%s is \"%.40s\"; %s or %s is expected", key, text,
                    no, yes);
}

static kvt_status read_gather(const cJSON *object, const char *where, struct kvt_arena *arena,
                              struct grid *grid, struct kvt_error *err)
{
    static const char *const keys[] = {"name",        "row_bytes",    "pool_gib", "contexts",
                                       "order",       "requests",     "rows",     "gpus",
                                       "inbound_mib", "outbound_mib", "quick"};
    struct grid_gather *gather = &grid->gathers[grid->gather_count];
    kvt_status status = kvt_json_check_keys(object, where, keys, LENGTH(keys), err);

    gather->gpus = 1;
    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "name", arena, &gather->name, err);
    if (status == KVT_OK)
        status =
            kvt_json_get_u64(object, where, "row_bytes", true, 16, 65536, &gather->row_bytes, err);
    if (status == KVT_OK && gather->row_bytes % 16 != 0)
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "row_bytes is %llu; a multiple of 16 is "
                          "expected",
                          (unsigned long long)gather->row_bytes);
    if (status == KVT_OK)
        status =
            kvt_json_get_f64(object, where, "pool_gib", true, 0.125, 4096, &gather->pool_gib, err);
    if (status == KVT_OK)
        status = read_choice(object, where, "contexts", "contiguous", "shuffled",
                             &gather->is_shuffled, err);
    if (status == KVT_OK)
        status = read_choice(object, where, "order", "random", "sorted", &gather->is_sorted, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "requests", true, 1, 1024, &gather->requests, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "rows", true, 1, 65536, &gather->rows_each, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "gpus", false, 1, KVT_GATHER_GPUS_MAX,
                                  &gather->gpus, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "inbound_mib", false, 1, 65536,
                                  &gather->inbound_mib, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "outbound_mib", false, 1, 65536,
                                  &gather->outbound_mib, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "quick", false, &gather->is_quick, err);
    if (status == KVT_OK)
        status = check_name(grid, gather->name, where, err);
    grid->gather_count += status == KVT_OK;
    return status;
}

static kvt_status read_gathers(const cJSON *tree, const char *where, struct kvt_arena *arena,
                               struct grid *grid, struct kvt_error *err)
{
    const cJSON *gathers = NULL, *item = NULL;
    char place[PLACE_BYTES];
    kvt_status status = kvt_json_get_array(tree, where, "gathers", false, &gathers, err);

    if (status == KVT_OK && cJSON_GetArraySize(gathers) > GRID_RUNS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%d gathers; at most %d are expected",
                        cJSON_GetArraySize(gathers), GRID_RUNS_MAX);
    cJSON_ArrayForEach(item, gathers)
    {
        (void)snprintf(place, sizeof place, "%s/gathers/%zu", where, grid->gather_count);
        if (status == KVT_OK)
            status = read_gather(item, place, arena, grid, err);
    }
    return status;
}

static kvt_status read_scenario(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                struct grid *grid, struct kvt_error *err)
{
    const cJSON *scenario = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "scenario", true, &scenario, err);
    char *text = status == KVT_OK ? kvt_json_print(scenario) : NULL;

    if (status != KVT_OK)
        return status;
    grid->scenario_text = text ? kvt_arena_strdup(arena, text) : NULL;
    free(text);
    return grid->scenario_text ? KVT_OK : kvt_fail_nomem(err, "a grid");
}

static kvt_status read_grid(const cJSON *tree, const char *where, struct kvt_arena *arena,
                            struct grid *grid, struct kvt_error *err)
{
    static const char *const keys[] = {"schema", "name", "summary", "scenario", "runs", "gathers"};
    kvt_status status = kvt_json_check_head(tree, where, "kvtide/grid/1", err);

    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, LENGTH(keys), err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "name", arena, &grid->name, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "summary", arena, &grid->summary, err);
    if (status == KVT_OK)
        status = read_scenario(tree, where, arena, grid, err);
    if (status == KVT_OK)
        status = read_runs(tree, where, arena, grid, err);
    return status == KVT_OK ? read_gathers(tree, where, arena, grid, err) : status;
}

kvt_status grid_load(const char *name, struct kvt_arena *arena, struct grid **out,
                     struct kvt_error *err)
{
    char where[WHERE_BYTES];
    cJSON *tree = NULL;
    struct grid *grid = kvt_arena_alloc(arena, sizeof *grid, _Alignof(struct grid));

    if (!grid)
        return kvt_fail_nomem(err, "a grid");
    *grid = (struct grid){.name = NULL};
    kvt_status status = list_file_of(name, "grids", "grid", "--grid", arena, &grid->path, err);
    if (status == KVT_OK)
        status = kvt_json_load(grid->path, FILE_BYTES_MAX, &tree, err);
    if (status != KVT_OK)
        return status;
    (void)snprintf(where, sizeof where, "%s#", grid->path);
    status = read_grid(tree, where, arena, grid, err);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        *out = grid;
    return status;
}

/* ---- A run ----------------------------------------------------------------------------- */

/* The scenario is part of the grid's file, and what else may be wrong is of one run of it. */
static void locate(const struct grid_plan *plan, const struct grid_run *run, struct kvt_error *err)
{
    const char *path = plan->grid->path;
    size_t length = strlen(path);
    char where[sizeof err->where + 16];

    if (strncmp(err->where, path, length) == 0 && err->where[length] == '#')
        (void)snprintf(where, sizeof where, "%s#/scenario%s", path, err->where + length + 1);
    else
        (void)snprintf(where, sizeof where, "%.100s, run \"%.60s\": %.80s", path, run->name,
                       err->where);
    (void)snprintf(err->where, sizeof err->where, "%.*s", (int)sizeof err->where - 1, where);
}

kvt_status grid_run_scenario(const struct grid_plan *plan, const struct grid_run *run,
                             struct kvt_arena *arena, struct kvt_scenario *out,
                             struct kvt_error *err)
{
    size_t common = plan->sets->count;
    const char **sets =
        kvt_arena_array(arena, common + run->set_count + 1, sizeof *sets, _Alignof(char *));

    if (!sets)
        return kvt_fail_nomem(err, "a run of a grid");
    if (common > 0)
        memcpy(sets, plan->sets->items, common * sizeof *sets);
    memcpy(sets + common, run->sets, run->set_count * sizeof *sets);
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = sets,
                                                 .set_count = common + run->set_count,
                                                 .common_sets = common};
    kvt_status status =
        kvt_scenario_parse(plan->grid->scenario_text, strlen(plan->grid->scenario_text),
                           plan->grid->path, &options, arena, out, err);
    if (status != KVT_OK)
        locate(plan, run, err);
    return status;
}

kvt_status grid_check(const struct grid *grid, const struct cli_texts *sets,
                      struct kvt_arena *arena, struct kvt_error *err)
{
    const struct grid_plan plan = {.grid = grid, .sets = sets};
    struct kvt_scenario scenario;
    kvt_status status = KVT_OK;

    for (size_t r = 0; r < grid->run_count && status == KVT_OK; r++)
        status = grid_run_scenario(&plan, &grid->runs[r], arena, &scenario, err);
    return status;
}

/* What callbacks of a run know. */
struct runner {
    const struct grid_plan *plan;
    const struct grid_run *run;
    uint64_t steps;
    double done_fraction;
    kvt_status status; /* of the caller's part */
    struct kvt_error error;
};

static bool on_prepare(void *context, double fraction, const char *what)
{
    struct runner *runner = context;

    (void)fraction;
    (void)what;
    cli_progress_show(runner->plan->progress, runner->done_fraction, runner->run->name);
    return !cli_interrupted();
}

static void on_step(void *context, const struct kvt_step_times *times)
{
    struct runner *runner = context;

    runner->steps++;
    if (runner->status == KVT_OK)
        runner->status = runner->plan->on_step(runner->plan->context, times, &runner->error);
}

static kvt_status advance(struct runner *runner, struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    bool more = true;

    while (more && runner->steps < runner->run->steps && status == KVT_OK) {
        status = kvt_sim_step(sim, &more, err);
        if (status == KVT_OK && runner->status != KVT_OK) {
            *err = runner->error;
            status = runner->status;
        }
        if (status == KVT_OK && cli_interrupted())
            status = kvt_fail(err, KVT_ERR_INTERRUPTED, runner->run->name, "a signal ended it");
    }
    return status;
}

kvt_status grid_run_do(const struct grid_plan *plan, const struct grid_run *run,
                       struct kvt_arena *arena, double done_fraction, struct kvt_error *err)
{
    struct runner runner = {.plan = plan, .run = run, .done_fraction = done_fraction};
    const struct kvt_sim_options options = {.threads = plan->threads,
                                            .cache_dir = plan->cache_dir,
                                            .on_prepare = on_prepare,
                                            .prepare_context = &runner,
                                            .on_step = on_step,
                                            .step_context = &runner};
    struct kvt_scenario scenario;
    struct kvt_sim *sim = NULL;
    kvt_status status = grid_run_scenario(plan, run, arena, &scenario, err);

    if (status == KVT_OK && plan->on_scenario)
        status = plan->on_scenario(plan->context, &scenario, err);
    if (status != KVT_OK)
        return status;
    cli_progress_show(plan->progress, done_fraction, run->name);
    status = kvt_sim_new(&scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = advance(&runner, sim, err);
    if (status != KVT_OK)
        kvt_scenario_locate(&scenario, err);
    kvt_sim_free(sim);
    return status;
}
