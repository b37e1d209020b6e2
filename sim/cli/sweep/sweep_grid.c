/* sweep_grid.c -- axes in groups, and their product.
 *
 *     place of point p in the last group: p mod its length; p div that goes on to the one before
 */
#include "sweep_grid.h"

#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

enum {
    HEAD_BYTES = 256
};

const struct cli_axis *sweep_grid_axis(const struct sweep_grid *grid, size_t axis, size_t *group)
{
    size_t g = 0;

    while (axis >= grid->groups[g].axis_count)
        axis -= grid->groups[g++].axis_count;
    *group = g;
    return &grid->groups[g].axes[axis];
}

const char *sweep_grid_value(const struct sweep_grid *grid, size_t point, size_t axis)
{
    size_t group = 0;
    const struct cli_axis *of = sweep_grid_axis(grid, axis, &group);

    return of->values[sweep_grid_place(grid, point, group)];
}

size_t sweep_grid_place(const struct sweep_grid *grid, size_t point, size_t group)
{
    for (size_t g = grid->group_count - 1; g > group; g--)
        point /= grid->groups[g].length;
    return point % grid->groups[group].length;
}

/* ---- From the command line ----------------------------------------------------------------- */

/* The option or the file's header that has an axis. */
static const char *head_of(const struct sweep_grid *grid, size_t axis, char place[HEAD_BYTES])
{
    size_t group = 0, column = 1;
    const struct cli_axis *of = sweep_grid_axis(grid, axis, &group);

    if (grid->groups[group].file == NULL)
        return "sweep";
    column += (size_t)(of - grid->groups[group].axes);
    (void)snprintf(place, HEAD_BYTES, "%s:1:%zu", grid->groups[group].file, column);
    return place;
}

static kvt_status check_keys(const struct sweep_grid *grid, struct kvt_error *err)
{
    size_t of_a = 0, of_b = 0;
    char place[HEAD_BYTES];

    for (size_t a = 0; a < grid->axis_count; a++) {
        const char *path = sweep_grid_axis(grid, a, &of_a)->path;
        if (strcmp(path, "seed") == 0)
            return kvt_fail(err, KVT_ERR_INVALID, head_of(grid, a, place),
                            "found the axis \"seed\"; --seeds N runs each point on N seeds");
        for (size_t b = 0; b < a; b++) {
            if (strcmp(path, sweep_grid_axis(grid, b, &of_b)->path) == 0)
                return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                                "the key \"%.100s\" is given by two axes; expected one", path);
        }
    }
    return KVT_OK;
}

/* Sums and products of what the groups have. */
static kvt_status close_grid(struct sweep_grid *grid, struct kvt_error *err)
{
    grid->point_count = 1;
    grid->axis_count = 0;
    for (size_t g = 0; g < grid->group_count; g++) {
        grid->axis_count += grid->groups[g].axis_count;
        if (grid->groups[g].length > SWEEP_RUNS_MAX / grid->point_count)
            return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                            "more points than the %d that are taken: their axes multiply",
                            SWEEP_RUNS_MAX);
        grid->point_count *= grid->groups[g].length;
    }
    return check_keys(grid, err);
}

/* texts[0..count) are the axes of one --zip. */
static kvt_status parse_zip(const char *const *texts, size_t count, struct kvt_arena *arena,
                            struct sweep_group *out, struct kvt_error *err)
{
    if (count < 2)
        return kvt_fail(err, KVT_ERR_INVALID, "sweep --zip",
                        "found \"%.100s\" alone; axes that go together are two or more: --zip "
                        "PATH=V1,V2 PATH=V1,V2, and one alone is --vary",
                        texts[0]);
    out->axes = kvt_arena_array(arena, count, sizeof *out->axes, _Alignof(struct cli_axis));
    if (out->axes == NULL)
        return kvt_fail_nomem(err, "axes");
    for (size_t i = 0; i < count; i++) {
        kvt_status status = cli_axis_parse(texts[i], "sweep --zip", arena, &out->axes[i], err);
        if (status != KVT_OK)
            return status;
        if (out->axes[i].value_count != out->axes[0].value_count)
            return kvt_fail(err, KVT_ERR_INVALID, "sweep --zip",
                            "%.100s has %zu values and %.100s has %zu; axes that go together have "
                            "equally many",
                            out->axes[0].path, out->axes[0].value_count, out->axes[i].path,
                            out->axes[i].value_count);
    }
    out->axis_count = count;
    out->length = out->axes[0].value_count;
    return KVT_OK;
}

static kvt_status parse_vary(const char *text, struct kvt_arena *arena, struct sweep_group *out,
                             struct kvt_error *err)
{
    out->axes = kvt_arena_alloc(arena, sizeof *out->axes, _Alignof(struct cli_axis));
    if (out->axes == NULL)
        return kvt_fail_nomem(err, "axes");
    kvt_status status = cli_axis_parse(text, "sweep --vary", arena, out->axes, err);
    out->axis_count = 1;
    out->length = out->axes->value_count;
    return status;
}

static kvt_status parse_groups(const struct cli_texts *varied, const struct cli_texts *zips,
                               const char *points_path, struct kvt_arena *arena,
                               struct sweep_grid *grid, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (points_path != NULL)
        status = sweep_points_read(points_path, arena, &grid->groups[grid->group_count++], err);
    for (size_t i = 0; status == KVT_OK && i < varied->count; i++)
        status = parse_vary(varied->items[i], arena, &grid->groups[grid->group_count++], err);
    for (size_t i = 0; status == KVT_OK && i < zips->count;) {
        size_t count = 0;
        while (zips->items[i + count] != NULL)
            count++;
        status = parse_zip(zips->items + i, count, arena, &grid->groups[grid->group_count++], err);
        i += count + 1;
    }
    return status;
}

kvt_status sweep_grid_parse(const struct cli_texts *varied, const struct cli_texts *zips,
                            const char *points_path, struct kvt_arena *arena,
                            struct sweep_grid *out, struct kvt_error *err)
{
    size_t most = varied->count + zips->count + 1;

    if (varied->count == 0 && zips->count == 0 && points_path == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                        "nothing varies; --vary PATH=V1,V2,.., --zip or --points FILE.csv says "
                        "what does");
    *out = (struct sweep_grid){
        .groups = kvt_arena_array(arena, most, sizeof *out->groups, _Alignof(struct sweep_group))};
    if (out->groups == NULL)
        return kvt_fail_nomem(err, "axes");
    kvt_status status = parse_groups(varied, zips, points_path, arena, out, err);
    return status == KVT_OK ? close_grid(out, err) : status;
}

/* ---- As JSON, and back ---------------------------------------------------------------------- */

static cJSON *axis_to_json(const struct cli_axis *axis)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *values = cJSON_CreateArray();
    bool ok = object != NULL && values != NULL && kvt_json_add_text(object, "path", axis->path);

    for (size_t i = 0; ok && i < axis->value_count; i++)
        ok = cJSON_AddItemToArray(values, axis->values[i] != NULL
                                              ? cJSON_CreateString(axis->values[i])
                                              : cJSON_CreateNull());
    if (ok && cJSON_AddItemToObject(object, "values", values))
        return object;
    cJSON_Delete(values);
    cJSON_Delete(object);
    return NULL;
}

kvt_status sweep_grid_to_json(const struct sweep_grid *grid, cJSON **out, struct kvt_error *err)
{
    cJSON *groups = cJSON_CreateArray();
    bool ok = groups != NULL;

    for (size_t g = 0; ok && g < grid->group_count; g++) {
        cJSON *group = cJSON_CreateArray();
        ok = cJSON_AddItemToArray(groups, group);
        for (size_t a = 0; ok && a < grid->groups[g].axis_count; a++)
            ok = cJSON_AddItemToArray(group, axis_to_json(&grid->groups[g].axes[a]));
    }
    if (!ok) {
        cJSON_Delete(groups);
        return kvt_fail_nomem(err, "axes");
    }
    *out = groups;
    return KVT_OK;
}

/* False where it is none, or memory is short. */
static bool axis_from_json(const cJSON *object, struct kvt_arena *arena, struct cli_axis *out)
{
    const cJSON *path = kvt_json_find(object, "path"), *values = kvt_json_find(object, "values");
    size_t i = 0;

    if (!cJSON_IsString(path) || !cJSON_IsArray(values))
        return false;
    out->value_count = (size_t)cJSON_GetArraySize(values);
    const char **texts =
        kvt_arena_array(arena, out->value_count + 1, sizeof *texts, _Alignof(const char *));
    out->path = kvt_arena_strdup(arena, path->valuestring);
    if (texts == NULL || out->path == NULL)
        return false;
    for (const cJSON *item = values->child; item != NULL; item = item->next, i++) {
        if (cJSON_IsString(item) && (texts[i] = kvt_arena_strdup(arena, item->valuestring)) == NULL)
            return false;
    }
    out->values = texts;
    return out->value_count > 0;
}

static bool group_from_json(const cJSON *array, struct kvt_arena *arena, struct sweep_group *out)
{
    size_t i = 0;

    if (!cJSON_IsArray(array) || array->child == NULL)
        return false;
    out->axis_count = (size_t)cJSON_GetArraySize(array);
    out->axes =
        kvt_arena_array(arena, out->axis_count, sizeof *out->axes, _Alignof(struct cli_axis));
    for (const cJSON *item = array->child; out->axes != NULL && item != NULL; item = item->next) {
        if (!axis_from_json(item, arena, &out->axes[i]) ||
            out->axes[i].value_count != out->axes[0].value_count)
            return false;
        i++;
    }
    if (out->axes == NULL)
        return false;
    out->length = out->axes[0].value_count;
    return true;
}

kvt_status sweep_grid_from_json(const cJSON *axes, const char *where, struct kvt_arena *arena,
                                struct sweep_grid *out, struct kvt_error *err)
{
    size_t count = cJSON_IsArray(axes) ? (size_t)cJSON_GetArraySize(axes) : 0;
    bool ok = count > 0;

    *out = (struct sweep_grid){.groups = kvt_arena_array(arena, count + 1, sizeof *out->groups,
                                                         _Alignof(struct sweep_group))};
    if (out->groups == NULL)
        return kvt_fail_nomem(err, "axes");
    for (const cJSON *item = ok ? axes->child : NULL; ok && item != NULL; item = item->next)
        ok = group_from_json(item, arena, &out->groups[out->group_count++]);
    return ok ? close_grid(out, err)
              : kvt_fail(err, KVT_ERR_PARSE, where, "\"axes\" is not what kvtide writes there");
}
