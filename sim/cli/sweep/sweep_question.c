/* sweep_question.c -- the points of a sweep as scenarios. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/json.h"
#include "kvt/plugins.h"
#include "sweep.h"

enum {
    POINT_ARENA_BYTES = 1 << 16
};

/* ---- One point ----------------------------------------------------------------------------- */

/* How many of the axes hold this one, itself among them. */
static size_t depth_of(const struct sweep_grid *grid, size_t axis)
{
    size_t group = 0, depth = 0;
    const char *path = sweep_grid_axis(grid, axis, &group)->path;

    for (size_t a = 0; a < grid->axis_count; a++)
        depth += cli_path_holds(sweep_grid_axis(grid, a, &group)->path, path);
    return depth;
}

/* Whether an axis has the path, or what holds it. */
static bool is_of_an_axis(const void *context, const char *path)
{
    const struct sweep_grid *grid = context;
    size_t group = 0;

    for (size_t a = 0; a < grid->axis_count; a++) {
        if (cli_path_holds(sweep_grid_axis(grid, a, &group)->path, path))
            return true;
    }
    return false;
}

/* With room for what goes along; no items where memory is short. */
static struct cli_settings new_settings(const struct sweep_question *question, size_t count,
                                        struct kvt_arena *arena)
{
    size_t most = count + CLI_ALONG_MAX;

    return (struct cli_settings){
        .items =
            arena != NULL ? kvt_arena_array(arena, most, sizeof(char *), _Alignof(char *)) : NULL,
        .most = most,
        .arena = arena,
        .is_taken = is_of_an_axis,
        .context = &question->grid};
}

static struct kvt_scenario_options options_of(const struct sweep_question *question,
                                              const char *const *sets, size_t count)
{
    return (struct kvt_scenario_options){.data_dir = question->data_dir,
                                         .plugins = cli_plugins(),
                                         .sets = sets,
                                         .set_count = count,
                                         .common_sets = question->set_count};
}

/* A value behind the settings before it, with what goes along in the scenario that those make:
 * which may be none that could be run, as long as the value is not there. */
static kvt_status add_value(const struct sweep_question *question, const char *path,
                            const char *value, struct cli_settings *sets, struct kvt_error *err)
{
    struct kvt_scenario_options keys = options_of(question, sets->items, sets->count);
    struct kvt_scenario before;
    struct cli_along along;

    if (strcmp(path, CLI_ALONG_GPUS) != 0)
        return cli_settings_add(sets, path, value, err);
    keys.only_keys = true;
    kvt_status status = kvt_scenario_load(question->source, &keys, sets->arena, &before, err);
    if (status == KVT_OK)
        status = cli_settings_add(sets, path, value, err);
    if (status != KVT_OK)
        return status;
    cli_along_read(&before, &along);
    return cli_along_gpus(&along, path, value, sets, err);
}

/* The point's own: those that nothing holds, then those that one holds, and so on. There may be
 * fewer than axes: a point may leave keys alone. */
static kvt_status gather_own(const struct sweep_question *question, size_t point, bool leaders,
                             struct cli_settings *sets, struct kvt_error *err)
{
    const struct sweep_grid *grid = &question->grid;
    size_t group = 0, seen = 0;

    for (size_t depth = 1; seen < grid->axis_count; depth++) {
        for (size_t a = 0; a < grid->axis_count; a++) {
            const char *path = sweep_grid_axis(grid, a, &group)->path;
            const char *value = sweep_grid_value(grid, point, a);
            if (depth_of(grid, a) != depth)
                continue;
            seen++;
            if (value == NULL || leaders != (strcmp(path, CLI_ALONG_GPUS) == 0))
                continue;
            kvt_status status = add_value(question, path, value, sets, err);
            if (status != KVT_OK)
                return status;
        }
    }
    return KVT_OK;
}

/* Settings for all, then the point's own, those last that take others along. */
static kvt_status gather_sets(const struct sweep_question *question, size_t point,
                              struct cli_settings *sets, struct kvt_error *err)
{
    for (; sets->count < question->set_count; sets->count++)
        sets->items[sets->count] = question->sets[sets->count];
    kvt_status status = gather_own(question, point, false, sets, err);
    return status == KVT_OK ? gather_own(question, point, true, sets, err) : status;
}

void sweep_name_axis(const struct sweep_grid *grid, struct kvt_error *err)
{
    static const char set[] = "--set ";
    size_t group = 0;

    for (size_t a = 0; a < grid->axis_count && strncmp(err->where, set, sizeof set - 1) == 0; a++) {
        const char *place = err->where + sizeof set - 1;
        if (cli_path_holds(sweep_grid_axis(grid, a, &group)->path, place))
            memmove(err->where, place, strlen(place) + 1);
    }
}

/* The scenario in force, and what its plug-ins are. */
static kvt_status hash_scenario(const struct kvt_scenario *scenario, uint64_t *out,
                                struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_plugin_file *files = kvt_plugins_files(scenario->plugins, &count);
    char *text = kvt_json_print(scenario->tree);

    if (text == NULL)
        return kvt_fail_nomem(err, "a point");
    *out = kvt_hash_bytes(0, text, strlen(text));
    free(text);
    for (const cJSON *input = scenario->inputs->child; input != NULL; input = input->next)
        *out = kvt_hash_bytes(*out, input->valuestring, strlen(input->valuestring));
    for (size_t i = 0; i < count; i++)
        *out = kvt_chain64(*out, files[i].hash);
    return KVT_OK;
}

kvt_status sweep_load_base(const struct sweep_question *question, struct kvt_arena *arena,
                           struct kvt_scenario *out, struct kvt_error *err)
{
    const struct kvt_scenario_options options =
        options_of(question, question->sets, question->set_count);

    return kvt_scenario_load(question->source, &options, arena, out, err);
}

/* What is wrong with the key or the value is found before anything is held against anything else,
 * but for names of files, which are looked for last. */
kvt_status sweep_check_value(const struct sweep_question *question, const struct cli_axis *axis,
                             const char *value, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(POINT_ARENA_BYTES);
    struct cli_settings sets = new_settings(question, question->set_count + 1, arena);
    struct kvt_scenario out;
    kvt_status status = sets.items != NULL ? KVT_OK : kvt_fail_nomem(err, "a value");

    for (; status == KVT_OK && sets.count < question->set_count; sets.count++)
        sets.items[sets.count] = question->sets[sets.count];
    if (status == KVT_OK)
        status = add_value(question, axis->path, value, &sets, err);
    if (status == KVT_OK) {
        const struct kvt_scenario_options options = options_of(question, sets.items, sets.count);
        struct kvt_scenario_options keys = options;
        keys.only_keys = true;
        status = kvt_scenario_load(question->source, &keys, arena, &out, err);
        if (status == KVT_OK &&
            kvt_scenario_load(question->source, &options, arena, &out, err) == KVT_ERR_NOT_FOUND)
            status = KVT_ERR_NOT_FOUND;
    }
    if (status != KVT_OK && status != KVT_ERR_NOMEM) {
        sweep_name_axis(&question->grid, err);
        if (!cli_path_holds(axis->path, err->where))
            status = KVT_OK;
    }
    kvt_arena_free(arena);
    return status;
}

kvt_status sweep_load_point(const struct sweep_question *question, size_t point,
                            struct kvt_arena *arena, struct kvt_scenario *out, uint64_t *hash,
                            struct kvt_error *err)
{
    struct cli_settings sets =
        new_settings(question, question->set_count + question->grid.axis_count, arena);

    if (sets.items == NULL)
        return kvt_fail_nomem(err, "a point");
    kvt_status status = gather_sets(question, point, &sets, err);
    const struct kvt_scenario_options options = options_of(question, sets.items, sets.count);
    if (status == KVT_OK)
        status = kvt_scenario_load(question->source, &options, arena, out, err);
    if (status == KVT_OK)
        return hash_scenario(out, hash, err);
    sweep_name_axis(&question->grid, err);
    return status;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void keep_refusal(struct sweep_point *point, const struct kvt_error *why)
{
    size_t bytes = strlen(why->where) + strlen(why->message) + 3;
    char *message = malloc(bytes);

    point->status = why->status;
    if (message != NULL)
        (void)snprintf(message, bytes, "%s%s%s", why->where, why->where[0] != '\0' ? ": " : "",
                       why->message);
    point->message = message;
}

static kvt_status look_at(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    struct sweep_question *question = context;
    struct sweep_point *point = &question->points[index];
    struct kvt_arena *arena = kvt_arena_new(POINT_ARENA_BYTES);
    struct kvt_scenario scenario;
    struct kvt_error why;

    (void)threads;
    (void)job;
    if (arena == NULL)
        return kvt_fail_nomem(err, "a point");
    kvt_status status = sweep_load_point(question, index, arena, &scenario, &point->hash, &why);
    if (status == KVT_OK && question->seed_count > SWEEP_SEED_MAX - scenario.seed)
        status = kvt_fail(&why, KVT_ERR_INVALID, "sweep --seeds",
                          "%zu seeds from %llu on go past 2^53, the largest", question->seed_count,
                          (unsigned long long)scenario.seed);
    if (status == KVT_OK) {
        point->idle_sets = scenario.idle_sets;
        point->is_measured = kvt_backend_runs(&scenario.backend);
    } else {
        point->hash = 0;
        keep_refusal(point, &why);
    }
    kvt_arena_free(arena);
    if (status == KVT_ERR_NOMEM || (status != KVT_OK && point->message == NULL))
        return kvt_fail_nomem(err, "a point");
    return KVT_OK;
}

/* Messages were made on many threads, and an arena is of one. */
static kvt_status keep_messages(struct sweep_question *question, struct kvt_error *err)
{
    bool ok = true;

    for (size_t p = 0; p < question->grid.point_count; p++) {
        struct sweep_point *point = &question->points[p];
        char *message = (char *)point->message;
        point->message = message != NULL ? kvt_arena_strdup(question->arena, message) : "";
        ok = ok && point->message != NULL;
        free(message);
    }
    return ok ? KVT_OK : kvt_fail_nomem(err, "a sweep");
}

kvt_status sweep_look(struct sweep_question *question, unsigned threads, bool quiet,
                      struct kvt_error *err)
{
    size_t count = question->grid.point_count, failed = 0;
    const struct cli_jobs jobs = {.count = count,
                                  .threads = threads,
                                  .quiet = quiet,
                                  .what = "checking points",
                                  .run = look_at,
                                  .context = question};

    question->points = kvt_arena_array(question->arena, count, sizeof *question->points,
                                       _Alignof(struct sweep_point));
    if (question->points == NULL)
        return kvt_fail_nomem(err, "a sweep");
    kvt_status status = cli_jobs_run(&jobs, &failed, err);
    kvt_status kept = keep_messages(question, status == KVT_OK ? err : NULL);
    if (status == KVT_OK)
        status = kept;
    if (status == KVT_OK && cli_interrupted())
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "sweep",
                          "interrupted before its points were checked");
    return status == KVT_OK ? sweep_judge(question, err) : status;
}
