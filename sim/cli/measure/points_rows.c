/* points_rows.c -- rows of a file of points: each column once, each cell in its bounds. */
#include "points_rows.h"

#include <stdio.h>
#include <string.h>

enum {
    PLACE_BYTES = 240,
    COLUMN_BYTES = 48,
    COLUMNS_MAX = 5 + 2 * KVT_PARTS + KVT_FEATURES,
    GATHERING_GPUS_MAX = 64,
    STEPS_MAX = 1 << 20,
    MARKS_MAX = 1 << 20
};

static const double ROUNDING = 1e-6;    /* of numbers that were printed */
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

/* All of what a fetch's time may hang on, where there are fetches. */
static kvt_status check_fetch_columns(const bool has_feature[KVT_FEATURES], const char *where,
                                      struct kvt_error *err)
{
    for (int f = 0; f < KVT_FEATURES && has_feature[KVT_FEATURE_WIRE_BYTES]; f++) {
        if (!has_feature[f] && points_fetch_needs((enum kvt_profile_feature)f))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "columns: \"%s\" is missing, which is expected beside \"wire_bytes\"",
                            kvt_profile_feature_name((enum kvt_profile_feature)f));
    }
    return KVT_OK;
}

/* Each once, and the plain ones all. */
static kvt_status read_columns(const cJSON *tree, const char *where, struct column *columns,
                               size_t *count, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    bool has_plain[LENGTH(plain_columns)] = {false}, has_feature[KVT_FEATURES] = {false};
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
        if (column->kind == COLUMN_FEATURE)
            has_feature[column->index] = true;
        (*count)++;
    }
    for (size_t k = 0; k < LENGTH(plain_columns) && status == KVT_OK; k++) {
        if (!has_plain[k])
            return kvt_fail(err, KVT_ERR_INVALID, where, "columns: \"%s\" is missing",
                            plain_columns[k]);
    }
    return status == KVT_OK ? check_fetch_columns(has_feature, where, err) : status;
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
    if (column->kind == COLUMN_FEATURE && column->index == KVT_FEATURE_GATHERING_GPUS)
        return GATHERING_GPUS_MAX;
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
    if (column->kind == COLUMN_STEP_NS && cell->valuedouble < 1)
        return kvt_fail(err, KVT_ERR_INVALID, where, "step_ns: found %.17g; 1 or more is expected",
                        cell->valuedouble);
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

/* Blocks and far ones are of these granules, and a gather is no step. */
static kvt_status check_parts_of(const struct point *point, bool is_gather, const char *where,
                                 struct kvt_error *err)
{
    static const enum kvt_profile_feature of_granules[] = {KVT_FEATURE_GRANULE_BLOCKS,
                                                           KVT_FEATURE_FAR_GRANULES};
    double granules = point->features[KVT_FEATURE_GRANULES];

    for (size_t f = 0; f < LENGTH(of_granules); f++) {
        double value = point->features[of_granules[f]];
        if (value > granules * (1 + ROUNDING))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%s: found %.17g; at most granules, %.17g, is expected",
                            kvt_profile_feature_name(of_granules[f]), value, granules);
    }
    double step = point->features[KVT_FEATURE_STEP], expected = is_gather ? 0 : 1;
    if (step == expected)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, where, "step: found %.17g; %g is expected of a %s", step,
                    expected, is_gather ? "gather" : "run");
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
    if (status == KVT_OK)
        status = check_parts_of(&point, points->configurations[point.configuration].is_gather,
                                where, err);
    return status == KVT_OK ? points_append(points, &point, err) : status;
}

kvt_status points_read_rows(const cJSON *tree, const char *where, struct points *points,
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
