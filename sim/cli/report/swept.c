/* swept.c -- the points of a sweep, named and sorted into lines. */
#include "swept.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

enum {
    VALUE_BYTES = 80 /* of a name; what is longer is cut */
};

/* ---- Values ---------------------------------------------------------------------------------- */

double swept_metric(const struct swept_point *point, const char *metric)
{
    return report_number(point->metrics, metric);
}

double swept_interval(const struct swept_point *point, const char *metric, int end)
{
    return report_number(cJSON_GetArrayItem(kvt_json_find(point->intervals, metric), end), "");
}

/* "2k" of hot tokens: so many times the k of the selection. */
static double multiple_of(const cJSON *value)
{
    char *end = NULL;

    if (!cJSON_IsString(value) || !isdigit((unsigned char)value->valuestring[0]))
        return NAN;
    double number = strtod(value->valuestring, &end);
    return strcmp(end, "k") == 0 ? number : (double)NAN;
}

double swept_number(const struct swept_point *point, const struct swept_axis *axis)
{
    const cJSON *value = kvt_json_find(point->inputs, axis->path);
    return axis->is_multiple ? multiple_of(value) : report_number(value, "");
}

/* Cut between letters, not inside one. */
static void cut(char *text)
{
    size_t length = strlen(text);

    if (length <= VALUE_BYTES)
        return;
    for (length = VALUE_BYTES; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    memcpy(text + length, "..", 3);
}

const char *swept_value(const struct swept_point *point, const struct swept_axis *axis,
                        struct kvt_arena *arena)
{
    const cJSON *value = kvt_json_find(point->inputs, axis->path);
    char *made = NULL;

    if (value == NULL || cJSON_IsNull(value))
        return "";
    if (!cJSON_IsString(value) && (made = cJSON_PrintUnformatted(value)) == NULL)
        return NULL;
    char *text = kvt_arena_strdup(arena, made != NULL ? made : value->valuestring);
    cJSON_free(made);
    if (text != NULL)
        cut(text);
    return text;
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static size_t count_axes(const cJSON *groups)
{
    size_t count = 0;
    const cJSON *group = NULL;

    cJSON_ArrayForEach(group, groups)
    {
        count += (size_t)cJSON_GetArraySize(group);
    }
    return count;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How many different ones an axis has. */
static bool count_values(const cJSON *values, size_t *out)
{
    size_t count = (size_t)cJSON_GetArraySize(values), used = 0;
    const char **texts = calloc(count + 1, sizeof *texts);
    const cJSON *value = NULL;

    *out = 0;
    if (texts == NULL)
        return false;
    cJSON_ArrayForEach(value, values)
    {
        texts[used++] = cJSON_IsString(value) ? value->valuestring : "";
    }
    qsort(texts, used, sizeof *texts, compare_texts);
    for (size_t i = 0; i < used; i++)
        *out += i == 0 || strcmp(texts[i], texts[i - 1]) != 0;
    free(texts);
    return true;
}

/* Whether a path ends in an ending, at a dot. */
static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);
    return length >= end && strcmp(path + length - end, ending) == 0 &&
           (length == end || path[length - end - 1] == '.');
}

static bool is_ambiguous(const struct swept *swept, const struct swept_axis *axis,
                         const char *label)
{
    for (size_t i = 0; i < swept->axis_count; i++) {
        if (&swept->axes[i] != axis && ends_in(swept->axes[i].path, label))
            return true;
    }
    return false;
}

static const char *label_of(const struct swept *swept, const struct swept_axis *axis)
{
    const char *label = axis->path + strlen(axis->path);

    do {
        while (label > axis->path && label[-1] != '.')
            label--;
        if (label == axis->path || !is_ambiguous(swept, axis, label))
            return label;
        label--; /* over the dot */
    } while (true);
}

static bool name_axes(struct swept *swept, struct kvt_arena *arena)
{
    for (size_t i = 0; i < swept->axis_count; i++) {
        struct swept_axis *axis = &swept->axes[i];
        axis->label = label_of(swept, axis);
        char *column = kvt_arena_strdup(arena, axis->label);
        if (column == NULL)
            return false;
        axis->column = column;
        for (; *column != '\0'; column++) {
            if (!isalnum((unsigned char)*column))
                *column = '_';
        }
    }
    return true;
}

static bool read_axes(const cJSON *groups, struct kvt_arena *arena, struct swept *out)
{
    const cJSON *group = NULL, *item = NULL;
    size_t nth = 0;

    out->axes = kvt_arena_array(arena, count_axes(groups) + 1, sizeof *out->axes,
                                _Alignof(struct swept_axis));
    if (out->axes == NULL)
        return false;
    cJSON_ArrayForEach(group, groups)
    {
        cJSON_ArrayForEach(item, group)
        {
            struct swept_axis *axis = &out->axes[out->axis_count++];
            *axis = (struct swept_axis){.path = report_text(item, "path"), .group = nth};
            if (!count_values(kvt_json_find(item, "values"), &axis->value_count))
                return false;
        }
        nth++;
    }
    return name_axes(out, arena);
}

/* Whether all points have a number there. */
static bool holds_numbers(const struct swept *swept, struct swept_axis *axis, bool is_multiple)
{
    axis->is_multiple = is_multiple;
    axis->least = INFINITY;
    axis->most = -INFINITY;
    for (size_t p = 0; p < swept->point_count; p++) {
        double value = swept_number(&swept->points[p], axis);
        if (isnan(value))
            return false;
        axis->least = fmin(axis->least, value);
        axis->most = fmax(axis->most, value);
    }
    return true;
}

static void find_numbers(struct swept *swept)
{
    for (size_t i = 0; i < swept->axis_count; i++) {
        struct swept_axis *axis = &swept->axes[i];
        axis->is_numeric = holds_numbers(swept, axis, false) || holds_numbers(swept, axis, true);
        axis->is_multiple = axis->is_numeric && axis->is_multiple;
        if (swept->x == NULL && axis->is_numeric && axis->least < axis->most)
            swept->x = axis;
    }
    for (size_t p = 0; p < swept->point_count; p++)
        swept->points[p].x =
            swept->x != NULL ? swept_number(&swept->points[p], swept->x) : (double)NAN;
}

/* ---- Points ---------------------------------------------------------------------------------- */

static kvt_status read_points(const cJSON *list, const char *where, struct kvt_arena *arena,
                              struct swept *out, struct kvt_error *err)
{
    const cJSON *item = NULL;
    size_t count = (size_t)cJSON_GetArraySize(list);

    if (count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "found no points[], expected a sweep's");
    out->points = kvt_arena_array(arena, count, sizeof *out->points, _Alignof(struct swept_point));
    if (out->points == NULL)
        return kvt_fail_nomem(err, "a sweep's points");
    cJSON_ArrayForEach(item, list)
    {
        struct swept_point *point = &out->points[out->point_count];
        if (!cJSON_IsObject(item))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "points[%zu] is no object, expected a point's", out->point_count);
        *point = (struct swept_point){.tree = item,
                                      .metrics = kvt_json_find(item, "metrics"),
                                      .intervals = kvt_json_find(item, "metrics_ci95"),
                                      .inputs = kvt_json_find(item, "inputs"),
                                      .number = out->point_count++,
                                      .is_ok = strcmp(report_text(item, "status"), "ok") == 0,
                                      .is_bound = cJSON_IsTrue(kvt_json_find(item, "bound"))};
        out->ok_count += point->is_ok;
        out->bound_count += point->is_ok && point->is_bound;
    }
    return KVT_OK;
}

/* Whether what the axis says follows from x: it goes along with it. */
static bool follows_x(const struct swept *swept, const struct swept_axis *axis, size_t group_length)
{
    return swept->x != NULL && axis->group == swept->x->group &&
           swept->x->value_count == group_length;
}

enum naming {
    NAME_POINT,  /* "concurrency 64, policy adaptive" */
    NAME_LINE,   /* the same without x */
    NAME_VALUES, /* the same without labels */
    NAME_LABELS  /* without values */
};

/* Whether an axis is of those that tell lines apart. */
static bool is_beside_x(const struct swept *swept, const struct swept_axis *axis,
                        size_t x_group_length)
{
    return axis->value_count > 1 && axis != swept->x && !follows_x(swept, axis, x_group_length);
}

/* NULL: no memory. */
static const char *name_of(const struct swept *swept, const struct swept_point *point,
                           enum naming naming, size_t x_group_length, struct kvt_arena *arena)
{
    const char *name = "";
    size_t said = 0;

    for (size_t i = 0; i < swept->axis_count && name != NULL; i++) {
        const struct swept_axis *axis = &swept->axes[i];
        const char *value = swept_value(point, axis, arena);
        if (value == NULL)
            return NULL;
        if (naming == NAME_POINT ? axis->value_count < 2
                                 : !is_beside_x(swept, axis, x_group_length))
            continue;
        value = value[0] != '\0' ? value : "as it is";
        name = kvt_arena_printf(arena, "%s%s%s%s%s", name, said++ > 0 ? ", " : "",
                                naming != NAME_VALUES ? axis->label : "",
                                naming == NAME_VALUES || naming == NAME_LABELS ? "" : " ",
                                naming != NAME_LABELS ? value : "");
    }
    return name;
}

/* The place of a line among all. */
static size_t line_of(struct swept *swept, const char *name)
{
    for (size_t i = swept->line_count; i > 0; i--) {
        if (strcmp(swept->lines[i - 1], name) == 0)
            return i - 1;
    }
    swept->lines[swept->line_count] = name;
    return swept->line_count++;
}

static bool sort_into_lines(struct swept *swept, size_t x_group_length, struct kvt_arena *arena)
{
    const struct swept_axis *only = NULL;
    size_t beside = 0;

    swept->lines =
        kvt_arena_array(arena, swept->point_count, sizeof *swept->lines, _Alignof(const char *));
    swept->line_labels = name_of(swept, &swept->points[0], NAME_LABELS, x_group_length, arena);
    if (swept->lines == NULL || swept->line_labels == NULL)
        return false;
    for (size_t i = 0; i < swept->axis_count; i++) {
        if (is_beside_x(swept, &swept->axes[i], x_group_length)) {
            only = &swept->axes[i];
            beside++;
        }
    }
    swept->line_column = beside == 1 ? only->column : "line";
    swept->has_short_lines = beside == 1 || beside > 2;
    for (size_t p = 0; p < swept->point_count; p++) {
        struct swept_point *point = &swept->points[p];
        const char *line = name_of(swept, point, swept->has_short_lines ? NAME_VALUES : NAME_LINE,
                                   x_group_length, arena);
        point->name = name_of(swept, point, NAME_POINT, x_group_length, arena);
        if (point->name != NULL && point->name[0] == '\0')
            point->name = kvt_arena_printf(arena, "point %zu", point->number);
        if (point->name == NULL || line == NULL)
            return false;
        point->line = line_of(swept, line[0] != '\0' ? line : "all points");
    }
    return true;
}

/* Values of each axis of the group that x is in. */
static size_t group_length_of_x(const struct swept *swept, const cJSON *groups)
{
    if (swept->x == NULL)
        return 0;
    const cJSON *group = cJSON_GetArrayItem(groups, (int)swept->x->group);
    return (size_t)cJSON_GetArraySize(kvt_json_find(cJSON_GetArrayItem(group, 0), "values"));
}

kvt_status swept_read(const cJSON *tree, const char *where, struct kvt_arena *arena,
                      struct swept *out, struct kvt_error *err)
{
    const cJSON *groups = kvt_json_find(tree, "axes");

    *out = (struct swept){.seed_count = (size_t)cJSON_GetArraySize(kvt_json_find(tree, "seeds"))};
    kvt_status status = read_points(kvt_json_find(tree, "points"), where, arena, out, err);
    if (status != KVT_OK)
        return status;
    if (!read_axes(groups, arena, out))
        return kvt_fail_nomem(err, "a sweep's axes");
    find_numbers(out);
    return sort_into_lines(out, group_length_of_x(out, groups), arena)
               ? KVT_OK
               : kvt_fail_nomem(err, "a sweep's points");
}
