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

/* Whether path lies below the key `above`. */
static bool is_below(const char *path, const char *above)
{
    size_t length = strlen(above);

    return strncmp(path, above, length) == 0 && path[length] == '.';
}

/* How many of the axes lie above this one. */
static size_t depth_of(const struct sweep_grid *grid, size_t axis)
{
    size_t group = 0, depth = 0;
    const char *path = sweep_grid_axis(grid, axis, &group)->path;

    for (size_t a = 0; a < grid->axis_count; a++)
        depth += is_below(path, sweep_grid_axis(grid, a, &group)->path);
    return depth;
}

/* Settings for all, then the point's own: those with nothing above them, then those below one, and
 * so on. sets[set_count + axis_count]; *count is less where the point leaves keys alone. */
static kvt_status gather_sets(const struct sweep_question *question, size_t point,
                              struct kvt_arena *arena, const char **sets, size_t *count,
                              struct kvt_error *err)
{
    const struct sweep_grid *grid = &question->grid;
    size_t group = 0, left = grid->axis_count;

    for (*count = 0; *count < question->set_count; (*count)++)
        sets[*count] = question->sets[*count];
    for (size_t depth = 0; left > 0; depth++) {
        for (size_t a = 0; a < grid->axis_count; a++) {
            const char *value = sweep_grid_value(grid, point, a);
            if (depth_of(grid, a) != depth)
                continue;
            left--;
            if (value == NULL)
                continue;
            sets[*count] =
                kvt_arena_printf(arena, "%s=%s", sweep_grid_axis(grid, a, &group)->path, value);
            if (sets[(*count)++] == NULL)
                return kvt_fail_nomem(err, "a point");
        }
    }
    return KVT_OK;
}

void sweep_name_axis(const struct sweep_grid *grid, struct kvt_error *err)
{
    static const char set[] = "--set ";
    size_t group = 0;

    for (size_t a = 0; a < grid->axis_count && strncmp(err->where, set, sizeof set - 1) == 0; a++) {
        const char *path = sweep_grid_axis(grid, a, &group)->path;
        const char *place = err->where + sizeof set - 1;
        if (strcmp(place, path) == 0 || is_below(place, path))
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

kvt_status sweep_load_point(const struct sweep_question *question, size_t point,
                            struct kvt_arena *arena, struct kvt_scenario *out, uint64_t *hash,
                            struct kvt_error *err)
{
    const char **sets = kvt_arena_array(arena, question->set_count + question->grid.axis_count + 1,
                                        sizeof *sets, _Alignof(const char *));
    struct kvt_scenario_options options = {.data_dir = question->data_dir,
                                           .plugins = cli_plugins(),
                                           .sets = sets,
                                           .common_sets = question->set_count};

    if (sets == NULL)
        return kvt_fail_nomem(err, "a point");
    kvt_status status = gather_sets(question, point, arena, sets, &options.set_count, err);
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

static kvt_status judge_points(const struct sweep_question *question, struct kvt_error *err)
{
    const struct sweep_point *points = question->points;
    size_t count = question->grid.point_count, first = 0;
    uint64_t idle = UINT64_MAX;

    while (first < count && points[first].status != KVT_OK)
        first++;
    if (first == count)
        return kvt_fail(err, points[0].status, "sweep", "%s%s", points[0].message,
                        count > 1 ? " (point 0; nor can any other be run)" : "");
    for (size_t p = 0; p < count; p++)
        idle &= points[p].status == KVT_OK ? points[p].idle_sets : UINT64_MAX;
    for (size_t i = 0; i < question->set_count; i++) {
        if ((idle >> i & 1) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                            "--set %.200s has no effect at any point; leave it out",
                            question->sets[i]);
    }
    return KVT_OK;
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
    return status == KVT_OK ? judge_points(question, err) : status;
}
