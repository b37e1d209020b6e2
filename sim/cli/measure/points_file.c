/* points_file.c -- points from a file, strictly: schema "kvtide/points/1", or a profile's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "points_rows.h"

enum {
    FILE_BYTES_MAX = 64 << 20,
    WHERE_BYTES = 160,
    PLACE_BYTES = 240,
    CONFIGURATIONS_MAX = 4096,
    GPUS_MAX = 4096
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Into all[had], whose name none of those before has. */
static kvt_status read_configuration(const cJSON *item, const char *where, struct kvt_arena *arena,
                                     struct points_configuration *all, size_t had,
                                     struct kvt_error *err)
{
    static const char *const keys[] = {"name", "sets", "fetch_order", "gather", "ranked"};
    struct points_configuration *out = &all[had];
    const char *order = "";
    kvt_status status = kvt_json_check_keys(item, where, keys, LENGTH(keys), err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(item, where, "name", arena, &out->name, err);
    if (status == KVT_OK)
        status = points_check_name(out->name, where, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(item, where, "sets", arena, &out->sets, err);
    if (status == KVT_OK)
        status = points_check_text(out->sets, where, "sets", err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(item, where, "gather", true, &out->is_gather, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(item, where, "ranked", true, &out->is_ranked, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(item, where, "fetch_order", true, &order, err);
    if (status != KVT_OK)
        return status;
    out->is_group = strcmp(order, points_order_names[true]) == 0;
    if (!out->is_group && strcmp(order, points_order_names[false]) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "fetch_order \"%.40s\"; leader_first or group is expected", order);
    for (size_t c = 0; c < had; c++) {
        if (strcmp(all[c].name, out->name) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "a second configuration \"%s\"; one is expected, of all files",
                            out->name);
    }
    return KVT_OK;
}

static kvt_status read_configurations(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                      struct points *points, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    char place[PLACE_BYTES];
    size_t index = 0;
    kvt_status status = kvt_json_get_array(tree, where, "configurations", true, &array, err);
    size_t had = points->configuration_count;
    size_t count = status == KVT_OK ? (size_t)cJSON_GetArraySize(array) : 0;

    if (status == KVT_OK && (count == 0 || had + count > CONFIGURATIONS_MAX))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%zu configurations; 1 to %d of all files are expected", count,
                        CONFIGURATIONS_MAX);
    struct points_configuration *all =
        kvt_arena_array(arena, had + count, sizeof *all, _Alignof(struct points_configuration));
    if (status == KVT_OK && !all)
        return kvt_fail_nomem(err, "points of a calibration");
    if (status == KVT_OK && had > 0)
        memcpy(all, points->configurations, had * sizeof *all);
    cJSON_ArrayForEach(item, array)
    {
        (void)snprintf(place, sizeof place, "%s/configurations/%zu", where, index++);
        status = read_configuration(item, place, arena, all, had, err);
        if (status != KVT_OK)
            return status;
        had++;
    }
    points->configurations = all;
    points->configuration_count = had;
    return status;
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* As long as a profile of these points can hold. */
static kvt_status copy_name(const cJSON *tree, const char *where, const char *key,
                            struct kvt_arena *arena, const char **out, struct kvt_error *err)
{
    kvt_status status = kvt_json_copy_text(tree, where, key, arena, out, err);

    if (status == KVT_OK && strlen(*out) >= KVT_PROFILE_NAME_BYTES)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s: found a name of %zu bytes; at most %d are expected", key, strlen(*out),
                        KVT_PROFILE_NAME_BYTES - 1);
    return status;
}

static kvt_status read_setting(const cJSON *tree, const char *where, struct kvt_arena *arena,
                               struct points *points, struct kvt_error *err)
{
    struct points own = {.tp = 0};
    uint64_t tp = 0, ep = 0;
    kvt_status status = kvt_json_copy_text(tree, where, "grid", arena, &own.grid, err);

    if (status == KVT_OK)
        status = copy_name(tree, where, "model", arena, &own.model, err);
    if (status == KVT_OK)
        status = copy_name(tree, where, "hardware", arena, &own.hardware, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(tree, where, "tp", true, 1, GPUS_MAX, &tp, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(tree, where, "ep", true, 1, GPUS_MAX, &ep, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(tree, where, "runs_drafts", true, &own.runs_drafts, err);
    if (status != KVT_OK)
        return status;
    if (points->configuration_count > 0 &&
        (!is_same(points->model, own.model) || !is_same(points->hardware, own.hardware) ||
         points->tp != tp || points->ep != ep))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "points of %s on %s, tp %u, ep %u; those before are of %s on %s, tp %u, ep "
                        "%u",
                        own.model, own.hardware, (unsigned)tp, (unsigned)ep, points->model,
                        points->hardware, points->tp, points->ep);
    points->grid = own.grid;
    points->model = own.model;
    points->hardware = own.hardware;
    points->tp = (uint32_t)tp;
    points->ep = (uint32_t)ep;
    points->runs_drafts = points->runs_drafts || own.runs_drafts;
    return KVT_OK;
}

/* The first file's machine stands for all. */
static kvt_status read_machine(const cJSON *tree, struct points *points, struct kvt_error *err)
{
    const cJSON *machine = kvt_json_find(tree, "machine");

    if (points->machine || !cJSON_IsObject(machine))
        return KVT_OK;
    points->machine = cJSON_Duplicate(machine, true);
    return points->machine ? KVT_OK : kvt_fail_nomem(err, "a machine");
}

static kvt_status read_points(const cJSON *tree, const char *where, struct kvt_arena *arena,
                              struct points *points, struct kvt_error *err)
{
    static const char *const keys[] = {
        "schema",      "grid",    "model",          "hardware", "tp",  "ep",
        "runs_drafts", "machine", "configurations", "columns",  "rows"};
    size_t first = points->configuration_count;
    kvt_status status = kvt_json_check_keys(tree, where, keys, LENGTH(keys), err);

    if (status == KVT_OK)
        status = read_setting(tree, where, arena, points, err);
    if (status == KVT_OK)
        status = read_machine(tree, points, err);
    if (status == KVT_OK)
        status = read_configurations(tree, where, arena, points, err);
    return status == KVT_OK ? points_read_rows(tree, where, points, first, err) : status;
}

kvt_status points_load(const char *path, struct kvt_arena *arena, struct points *points,
                       struct kvt_error *err)
{
    char where[WHERE_BYTES], place[PLACE_BYTES];
    const char *schema = NULL;
    const cJSON *inner = NULL;
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(where, sizeof where, "%s#", path);
    (void)snprintf(place, sizeof place, "%s/points", where);
    status = kvt_json_get_text(tree, where, "schema", true, &schema, err);
    if (status == KVT_OK && strcmp(schema, "kvtide/points/1") == 0)
        status = read_points(tree, where, arena, points, err);
    else if (status == KVT_OK &&
             (strcmp(schema, "kvtide/profile/1") == 0 || strcmp(schema, "kvtide/validate/1") == 0))
        status = kvt_json_get_object(tree, where, "points", true, &inner, err);
    else if (status == KVT_OK)
        status =
            kvt_fail(err, KVT_ERR_INVALID, where,
                     "schema is \"%.40s\"; \"kvtide/points/1\", or a profile or validation that "
                     "was made of points, is expected",
                     schema);
    if (status == KVT_OK && inner)
        status = read_points(inner, place, arena, points, err);
    if (status == KVT_OK && inner) /* a profile's own: it is not said twice */
        status = read_machine(tree, points, err);
    cJSON_Delete(tree);
    return status;
}
