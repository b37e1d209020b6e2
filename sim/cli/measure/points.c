/* points.c -- from steps to points.
 *
 *     steps that are timed alike, one behind the other with the same requests and queries, are a
 *     point once they are enough: the median of each feature, and of each time */
#include "points.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kvt_status points_append(struct points *points, const struct point *point, struct kvt_error *err)
{
    if (points->count == points->capacity) {
        size_t capacity = points->capacity ? 2 * points->capacity : 64;
        struct point *items = realloc(points->items, capacity * sizeof *items);
        if (!items)
            return kvt_fail_nomem(err, "points of a calibration");
        points->items = items;
        points->capacity = capacity;
    }
    points->items[points->count++] = *point;
    return KVT_OK;
}

void points_free(struct points *points)
{
    free(points->items);
    cJSON_Delete(points->machine);
    *points = (struct points){.count = 0};
}

/* What a stretch's steps say, one value each. */
typedef double value_of_step(const struct kvt_step_times *times, int index);

static double step_ns_of(const struct kvt_step_times *times, int index)
{
    (void)index;
    return (double)times->measured_ns;
}

static double part_ns_of(const struct kvt_step_times *times, int part)
{
    return part == KVT_PART_HOST ? times->launch_ns : (double)times->measured_parts_ns[part];
}

static double feature_of(const struct kvt_step_times *times, int feature)
{
    return times->features[feature];
}

static double median_of(const struct point_stretch *stretch, value_of_step *value, int index,
                        double *spread)
{
    double values[POINT_STEPS_MAX];

    for (uint32_t i = 0; i < stretch->count; i++)
        values[i] = value(&stretch->steps[i], index);
    double width =
        gsl_stats_max(values, 1, stretch->count) - gsl_stats_min(values, 1, stretch->count);
    double median = gsl_stats_median(values, 1, stretch->count);
    if (spread)
        *spread = median > 0 ? width / median : 0;
    return median;
}

static struct point make_point(const struct point_stretch *stretch, uint32_t configuration)
{
    const struct kvt_step_times *first = &stretch->steps[0];
    struct point point = {.configuration = configuration,
                          .steps = stretch->count,
                          .is_apart = first->timing == KVT_TIMED_APART};

    point.step_ns = median_of(stretch, step_ns_of, 0, &point.spread);
    for (int p = 0; p < KVT_PARTS; p++) {
        if (!point.is_apart && p != KVT_PART_HOST)
            continue;
        point.parts_ns[p] = median_of(stretch, part_ns_of, p, NULL);
        point.marks[p] = first->part_marks[p];
    }
    for (int f = 0; f < KVT_FEATURES; f++)
        point.features[f] = median_of(stretch, feature_of, f, NULL);
    return point;
}

static bool is_alike(const struct kvt_step_times *a, const struct kvt_step_times *b)
{
    return a->requests == b->requests && a->queries == b->queries &&
           a->features[KVT_FEATURE_DRAFT_TOKENS] == b->features[KVT_FEATURE_DRAFT_TOKENS];
}

kvt_status point_steps_add(struct point_steps *steps, const struct kvt_step_times *times,
                           struct points *points, struct kvt_error *err)
{
    bool is_apart = times->timing == KVT_TIMED_APART;
    struct point_stretch *stretch = is_apart ? &steps->apart : &steps->whole;

    if (steps->seen++ < POINT_STEPS_SKIP || times->measured_ns == KVT_NS_NEVER ||
        times->timing == KVT_TIMED_FAMILIES)
        return KVT_OK;
    points->runs_drafts = times->runs_drafts;
    if (stretch->count > 0 && !is_alike(&stretch->steps[0], times))
        stretch->count = 0;
    stretch->steps[stretch->count++] = *times;
    if (stretch->count < steps->wanted)
        return KVT_OK;
    const struct point point = make_point(stretch, steps->configuration);
    stretch->count = 0;
    return points_append(points, &point, err);
}

/* ---- As JSON ---------------------------------------------------------------------------------
 *
 * Columns by name, so that a file stays readable when features are added: those that are 0 in every
 * point are left out. */

static const char *part_column(int part, const char *of, char out[48])
{
    (void)snprintf(out, 48, "%s_%s", kvt_step_part_name((enum kvt_step_part)part), of);
    return out;
}

const char *const points_order_names[2] = {"leader_first", "group"};

/* Which features and parts occur. */
struct columns {
    int features[KVT_FEATURES], parts[KVT_PARTS];
    int feature_count, part_count;
};
enum {
    NAME_BYTES_MAX = 120,
    PLAIN_COLUMNS = 5 /* before those of parts, two each, and of features */
};

kvt_status points_check_text(const char *text, const char *where, const char *key,
                             struct kvt_error *err)
{
    size_t length = strlen(text);

    for (size_t c = 0; c < length; c++) {
        if ((unsigned char)text[c] < ' ' || text[c] == 0x7f)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%s has a control character (byte %zu is %u); printed text is expected",
                            key, c, (unsigned char)text[c]);
    }
    return KVT_OK;
}

kvt_status points_check_name(const char *name, const char *where, struct kvt_error *err)
{
    size_t length = strlen(name);

    if (length == 0 || length > NAME_BYTES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "name has %zu bytes; 1 to %d are expected",
                        length, NAME_BYTES_MAX);
    return points_check_text(name, where, "name", err);
}

bool points_fetch_needs(enum kvt_profile_feature feature)
{
    switch (feature) {
    case KVT_FEATURE_MISSED_ROWS:
    case KVT_FEATURE_INBOUND_BYTES:
    case KVT_FEATURE_OUTBOUND_BYTES:
    case KVT_FEATURE_GRANULES:
    case KVT_FEATURE_GRANULE_BLOCKS:
    case KVT_FEATURE_FAR_GRANULES:
    case KVT_FEATURE_FETCHES:
        return true;
    default:
        return false;
    }
}

static bool has_feature(const struct points *points, int feature)
{
    bool occurs = false;

    for (size_t i = 0; i < points->count; i++)
        occurs = occurs || points->items[i].features[feature] != 0;
    return occurs;
}

static struct columns columns_of(const struct points *points)
{
    struct columns columns = {.feature_count = 0};
    bool has_fetches = has_feature(points, KVT_FEATURE_WIRE_BYTES);

    for (int f = 0; f < KVT_FEATURES; f++) {
        if (has_feature(points, f) ||
            (has_fetches && points_fetch_needs((enum kvt_profile_feature)f)))
            columns.features[columns.feature_count++] = f;
    }
    for (int p = 0; p < KVT_PARTS; p++) {
        bool occurs = false;
        for (size_t i = 0; i < points->count; i++)
            occurs = occurs || points->items[i].parts_ns[p] != 0;
        if (occurs)
            columns.parts[columns.part_count++] = p;
    }
    return columns;
}

static bool add_column(cJSON *array, const char *name)
{
    cJSON *item = cJSON_CreateString(name);
    return item && cJSON_AddItemToArray(array, item);
}

static bool add_columns(cJSON *tree, const struct columns *columns)
{
    cJSON *array = cJSON_AddArrayToObject(tree, "columns");
    char name[48];
    bool ok = array && add_column(array, "configuration") && add_column(array, "steps") &&
              add_column(array, "apart") && add_column(array, "step_ns") &&
              add_column(array, "spread");

    for (int c = 0; c < columns->part_count && ok; c++)
        ok = add_column(array, part_column(columns->parts[c], "ns", name)) &&
             add_column(array, part_column(columns->parts[c], "marks", name));
    for (int c = 0; c < columns->feature_count && ok; c++)
        ok = add_column(array,
                        kvt_profile_feature_name((enum kvt_profile_feature)columns->features[c]));
    return ok;
}

/* Four digits more than any clock has. */
static double rounded(double value)
{
    double unit = value > 0 ? pow(10, floor(log10(value)) - 8) : 1;
    return round(value / unit) * unit;
}

static bool add_row(cJSON *rows, const struct columns *columns, const struct point *point)
{
    double values[PLAIN_COLUMNS + 2 * KVT_PARTS + KVT_FEATURES] = {
        point->configuration, point->steps, point->is_apart, rounded(point->step_ns),
        rounded(point->spread)};
    int count = PLAIN_COLUMNS;

    for (int c = 0; c < columns->part_count; c++) {
        values[count++] = rounded(point->parts_ns[columns->parts[c]]);
        values[count++] = point->marks[columns->parts[c]];
    }
    for (int c = 0; c < columns->feature_count; c++)
        values[count++] = rounded(point->features[columns->features[c]]);
    cJSON *row = cJSON_CreateDoubleArray(values, count);
    return row && cJSON_AddItemToArray(rows, row);
}

static bool add_configurations(cJSON *tree, const struct points *points)
{
    cJSON *array = cJSON_AddArrayToObject(tree, "configurations");
    bool ok = array != NULL;

    for (size_t i = 0; i < points->configuration_count && ok; i++) {
        cJSON *entry = kvt_json_add_element(array);
        ok = entry && kvt_json_add_text(entry, "name", points->configurations[i].name) &&
             kvt_json_add_text(entry, "sets", points->configurations[i].sets) &&
             kvt_json_add_text(entry, "fetch_order",
                               points_order_names[points->configurations[i].is_group]) &&
             kvt_json_add_bool(entry, "gather", points->configurations[i].is_gather) &&
             kvt_json_add_bool(entry, "ranked", points->configurations[i].is_ranked);
    }
    return ok;
}

kvt_status points_tree(const struct points *points, cJSON **out, struct kvt_error *err)
{
    const struct columns columns = columns_of(points);
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree && kvt_json_add_text(tree, "schema", "kvtide/points/1") &&
              kvt_json_add_text(tree, "grid", points->grid) &&
              kvt_json_add_text(tree, "model", points->model) &&
              kvt_json_add_text(tree, "hardware", points->hardware) &&
              kvt_json_add_number(tree, "tp", points->tp) &&
              kvt_json_add_number(tree, "ep", points->ep) &&
              kvt_json_add_bool(tree, "runs_drafts", points->runs_drafts) &&
              kvt_json_add(tree, "machine",
                           points->machine ? cJSON_Duplicate(points->machine, true)
                                           : cJSON_CreateNull()) &&
              add_configurations(tree, points) && add_columns(tree, &columns);
    cJSON *rows = ok ? cJSON_AddArrayToObject(tree, "rows") : NULL;

    ok = rows != NULL;
    for (size_t i = 0; i < points->count && ok; i++)
        ok = add_row(rows, &columns, &points->items[i]);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "points of a calibration");
    }
    *out = tree;
    return KVT_OK;
}
