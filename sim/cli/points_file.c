/* points_file.c -- points from a file, strictly: schema "kvtide/points/1", or a profile's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "points.h"

enum {
    FILE_BYTES_MAX = 64 << 20,
    WHERE_BYTES = 160,
    PLACE_BYTES = 240,
    COLUMN_BYTES = 48,
    CONFIGURATIONS_MAX = 4096,
    COLUMNS_MAX = 5 + 2 * KVT_PARTS + KVT_FEATURES,
    GPUS_MAX = 4096,
    STEPS_MAX = 1 << 20,
    MARKS_MAX = 1 << 20
};

static const double CELL_MAX = 1e15;    /* far below what a profile's ranges hold */
static const double NOTHING_NS = 20000; /* most of a launch that finds nothing, and of its stop */

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* A cell is added to what its column says of a point. */
enum column_kind {
    COLUMN_CONFIGURATION = 0,
    COLUMN_STEPS,
    COLUMN_APART,
    COLUMN_STEP_NS,
    COLUMN_SPREAD,
    COLUMN_PART,
    COLUMN_MARKS,
    COLUMN_FEATURE
};
static const char *const plain_columns[] = {"configuration", "steps", "apart", "step_ns", "spread"};

struct column {
    enum column_kind kind;
    int index; /* of the part or feature */
};

static bool find_column(const char *name, struct column *out)
{
    char part[COLUMN_BYTES];

    for (size_t k = 0; k < LENGTH(plain_columns); k++) {
        *out = (struct column){.kind = (enum column_kind)k};
        if (strcmp(name, plain_columns[k]) == 0)
            return true;
    }
    for (int p = 0; p < KVT_PARTS; p++) {
        *out = (struct column){COLUMN_PART, p};
        (void)snprintf(part, sizeof part, "%s_ns", kvt_step_part_name((enum kvt_step_part)p));
        if (strcmp(name, part) == 0)
            return true;
        *out = (struct column){COLUMN_MARKS, p};
        (void)snprintf(part, sizeof part, "%s_marks", kvt_step_part_name((enum kvt_step_part)p));
        if (strcmp(name, part) == 0)
            return true;
    }
    for (int f = 0; f < KVT_FEATURES; f++) {
        *out = (struct column){COLUMN_FEATURE, f};
        if (strcmp(name, kvt_profile_feature_name((enum kvt_profile_feature)f)) == 0)
            return true;
    }
    return false;
}

/* Each once, and the plain ones all. */
static kvt_status read_columns(const cJSON *tree, const char *where, struct column *columns,
                               size_t *count, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    bool has_plain[LENGTH(plain_columns)] = {false};
    kvt_status status = kvt_json_get_array(tree, where, "columns", true, &array, err);

    *count = 0;
    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        struct column *column = &columns[*count < COLUMNS_MAX ? *count : 0];
        if (*count == COLUMNS_MAX || !find_column(name, column))
            return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                            "columns: \"%.40s\" is none, or one too many; a part with _ns or "
                            "_marks, a feature, configuration, steps, apart, step_ns, spread are "
                            "expected",
                            name);
        for (size_t c = 0; c < *count; c++) {
            if (columns[c].kind == column->kind && columns[c].index == column->index)
                return kvt_fail(err, KVT_ERR_INVALID, where, "columns: \"%.40s\" is there twice",
                                name);
        }
        if (column->kind < COLUMN_PART)
            has_plain[column->kind] = true;
        (*count)++;
    }
    for (size_t k = 0; k < LENGTH(plain_columns) && status == KVT_OK; k++) {
        if (!has_plain[k])
            return kvt_fail(err, KVT_ERR_INVALID, where, "columns: \"%s\" is missing",
                            plain_columns[k]);
    }
    return status;
}

static void put_cell(struct point *point, const struct column *column, double value)
{
    switch (column->kind) {
    case COLUMN_CONFIGURATION:
        point->configuration += (uint32_t)value;
        return;
    case COLUMN_STEPS:
        point->steps = (uint32_t)value;
        return;
    case COLUMN_APART:
        point->is_apart = value > 0;
        return;
    case COLUMN_STEP_NS:
        point->step_ns = value;
        return;
    case COLUMN_SPREAD:
        point->spread = value;
        return;
    case COLUMN_PART:
        point->parts_ns[column->index] = value;
        return;
    case COLUMN_MARKS:
        point->marks[column->index] = (uint32_t)value;
        return;
    case COLUMN_FEATURE:
        point->features[column->index] = value;
        return;
    }
}

/* Most that a cell may hold; whole numbers alone where *is_count. */
static double most_of(const struct column *column, size_t configurations, bool *is_count)
{
    *is_count = true;
    switch (column->kind) {
    case COLUMN_CONFIGURATION:
        return (double)configurations - 1;
    case COLUMN_STEPS:
        return STEPS_MAX;
    case COLUMN_APART:
        return 1;
    case COLUMN_MARKS:
        return MARKS_MAX;
    case COLUMN_STEP_NS:
    case COLUMN_SPREAD:
    case COLUMN_PART:
    case COLUMN_FEATURE:
        break;
    }
    *is_count = false;
    return CELL_MAX;
}

static const char *column_name(const struct column *column, char out[COLUMN_BYTES])
{
    switch (column->kind) {
    case COLUMN_PART:
    case COLUMN_MARKS:
        (void)snprintf(out, COLUMN_BYTES, "%s_%s",
                       kvt_step_part_name((enum kvt_step_part)column->index),
                       column->kind == COLUMN_PART ? "ns" : "marks");
        return out;
    case COLUMN_FEATURE:
        return kvt_profile_feature_name((enum kvt_profile_feature)column->index);
    default:
        return plain_columns[column->kind];
    }
}

static kvt_status read_cell(const cJSON *cell, const char *where, const struct column *column,
                            size_t configurations, struct point *point, struct kvt_error *err)
{
    bool is_count = false;
    double most = most_of(column, configurations, &is_count);
    double least = column->kind == COLUMN_STEPS ? 1 : 0;
    const char *what = is_count ? "a whole number" : "a number";
    char name[COLUMN_BYTES];

    if (!cJSON_IsNumber(cell))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s: no number; %s from %g to %.17g is expected", column_name(column, name),
                        what, least, most);
    if ((is_count && !kvt_json_is_count(cell)) || !(cell->valuedouble >= least) ||
        cell->valuedouble > most)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s: found %.17g; %s from %g to %.17g is expected",
                        column_name(column, name), cell->valuedouble, what, least, most);
    if (column->kind == COLUMN_STEP_NS && cell->valuedouble <= 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "step_ns: found 0; above 0 is expected");
    put_cell(point, column, cell->valuedouble);
    return KVT_OK;
}

/* Nothing can be told from a time of what was not counted. A step that misses nothing has its fetch
 * timed all the same: stops, and launches that find nothing to do. */
static kvt_status check_counted(const struct point *point, const char *where, struct kvt_error *err)
{
    static const struct {
        enum kvt_step_part part;
        enum kvt_profile_feature feature;
    } counted[] = {{KVT_PART_FETCH, KVT_FEATURE_WIRE_BYTES},
                   {KVT_PART_DRAFT, KVT_FEATURE_DRAFT_TOKENS}};

    for (size_t c = 0; c < LENGTH(counted); c++) {
        double ns = point->parts_ns[counted[c].part];
        const char *part = kvt_step_part_name(counted[c].part);
        if (point->features[counted[c].feature] > 0 ||
            ns <= NOTHING_NS * point->marks[counted[c].part])
            continue;
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s_ns: found %.17g, and no %s, which is expected where there is a %s",
                        part, ns, kvt_profile_feature_name(counted[c].feature), part);
    }
    return KVT_OK;
}

/* first: index of the file's first configuration. */
static kvt_status read_row(const cJSON *row, const char *where, const struct column *columns,
                           size_t column_count, struct points *points, size_t first,
                           struct kvt_error *err)
{
    struct point point = {.configuration = (uint32_t)first};
    const cJSON *cell = NULL;
    size_t count = cJSON_IsArray(row) ? (size_t)cJSON_GetArraySize(row) : 0, at = 0;
    kvt_status status = KVT_OK;

    if (count != column_count)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%zu cells; an array of %zu is expected, one a column", count,
                        column_count);
    cJSON_ArrayForEach(cell, row)
    {
        if (status == KVT_OK)
            status = read_cell(cell, where, &columns[at++], points->configuration_count - first,
                               &point, err);
    }
    if (status == KVT_OK)
        status = check_counted(&point, where, err);
    return status == KVT_OK ? points_append(points, &point, err) : status;
}

static kvt_status read_rows(const cJSON *tree, const char *where, struct points *points,
                            size_t first, struct kvt_error *err)
{
    struct column columns[COLUMNS_MAX] = {0};
    size_t column_count = 0, index = 0;
    const cJSON *rows = NULL, *row = NULL;
    char place[PLACE_BYTES];
    kvt_status status = read_columns(tree, where, columns, &column_count, err);

    if (status == KVT_OK)
        status = kvt_json_get_array(tree, where, "rows", true, &rows, err);
    if (status == KVT_OK && cJSON_GetArraySize(rows) == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "rows: found none; one is expected");
    cJSON_ArrayForEach(row, rows)
    {
        (void)snprintf(place, sizeof place, "%s/rows/%zu", where, index++);
        if (status == KVT_OK)
            status = read_row(row, place, columns, column_count, points, first, err);
    }
    return status;
}

static kvt_status read_configurations(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                      struct points *points, struct kvt_error *err)
{
    static const char *const keys[] = {"name", "sets", "fetch_order", "gather", "ranked"};
    const cJSON *array = NULL, *item = NULL;
    const char *order = "";
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
        struct points_configuration *configuration = &all[had];
        status = kvt_json_check_keys(item, where, keys, LENGTH(keys), err);
        if (status == KVT_OK)
            status = kvt_json_copy_text(item, where, "name", arena, &configuration->name, err);
        if (status == KVT_OK)
            status = kvt_json_copy_text(item, where, "sets", arena, &configuration->sets, err);
        configuration->is_ranked = configuration->is_gather = false;
        if (status == KVT_OK)
            status = kvt_json_get_bool(item, where, "gather", true, &configuration->is_gather, err);
        if (status == KVT_OK)
            status = kvt_json_get_bool(item, where, "ranked", true, &configuration->is_ranked, err);
        if (status == KVT_OK)
            status = kvt_json_get_text(item, where, "fetch_order", true, &order, err);
        configuration->is_group = strcmp(order, points_order_names[true]) == 0;
        if (status == KVT_OK && !configuration->is_group &&
            strcmp(order, points_order_names[false]) != 0)
            status = kvt_fail(err, KVT_ERR_INVALID, where,
                              "fetch_order \"%.40s\"; leader_first or group is expected", order);
        for (size_t c = 0; c < had && status == KVT_OK; c++) {
            if (strcmp(all[c].name, configuration->name) == 0)
                status = kvt_fail(err, KVT_ERR_INVALID, where,
                                  "a second configuration \"%s\"; one is expected, of all files",
                                  all[c].name);
        }
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
    return status == KVT_OK ? read_rows(tree, where, points, first, err) : status;
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
