/* sweep_points.c -- a CSV file of points: its header has keys, every row a point. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kvt/file.h"
#include "sweep_grid.h"

struct reading {
    const char *path;
    struct kvt_csv *csv;
    struct kvt_arena *arena;
    const char ***columns; /* [axis_count][capacity] */
    uint64_t *lines;       /* [capacity] */
    size_t axis_count, length, capacity;
};

static kvt_status fail_at(const struct reading *reading, size_t column, struct kvt_error *err,
                          const char *message, const char *found)
{
    char where[sizeof err->where];

    (void)snprintf(where, sizeof where, "%s:%" PRIu64 ":%zu", reading->path,
                   kvt_csv_line(reading->csv), column);
    return kvt_fail(err, KVT_ERR_PARSE, where, message, found);
}

static kvt_status read_header(struct reading *reading, struct sweep_group *out,
                              struct kvt_error *err)
{
    char **fields = NULL;
    size_t count = 0;
    kvt_status status = kvt_csv_next(reading->csv, &fields, &count, err);

    if (status != KVT_OK)
        return status;
    if (fields == NULL)
        return kvt_fail(err, KVT_ERR_PARSE, reading->path,
                        "the file is empty; a header of dotted paths is expected");
    reading->axis_count = out->axis_count = count;
    out->axes =
        kvt_arena_array(reading->arena, count, sizeof *out->axes, _Alignof(struct cli_axis));
    reading->columns =
        kvt_arena_array(reading->arena, count, sizeof *reading->columns, _Alignof(const char **));
    if (out->axes == NULL || reading->columns == NULL)
        return kvt_fail_nomem(err, "points");
    for (size_t i = 0; i < count; i++) {
        if (fields[i][0] == '\0' || fields[i][strcspn(fields[i], " \t\n=\",{[")] != '\0')
            return fail_at(reading, i + 1, err,
                           "found the column \"%.100s\"; a dotted path of keys is expected",
                           fields[i]);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(fields[i], out->axes[j].path) == 0)
                return fail_at(reading, i + 1, err, "the column \"%.100s\" is there twice",
                               fields[i]);
        }
        out->axes[i].path = kvt_arena_strdup(reading->arena, fields[i]);
        if (out->axes[i].path == NULL)
            return kvt_fail_nomem(err, "points");
    }
    return KVT_OK;
}

/* Twice as many rows. What the arena had for fewer is its own until it goes. */
static kvt_status grow(struct reading *reading, struct kvt_error *err)
{
    size_t capacity = reading->capacity > 0 ? 2 * reading->capacity : 64;

    for (size_t i = 0; i < reading->axis_count; i++) {
        const char **wider =
            kvt_arena_array(reading->arena, capacity, sizeof *wider, _Alignof(const char *));
        if (wider == NULL)
            return kvt_fail_nomem(err, "points");
        if (reading->length > 0)
            memcpy(wider, reading->columns[i], reading->length * sizeof *wider);
        reading->columns[i] = wider;
    }
    uint64_t *lines = kvt_arena_array(reading->arena, capacity, sizeof *lines, _Alignof(uint64_t));
    if (lines == NULL)
        return kvt_fail_nomem(err, "points");
    if (reading->length > 0)
        memcpy(lines, reading->lines, reading->length * sizeof *lines);
    reading->lines = lines;
    reading->capacity = capacity;
    return KVT_OK;
}

static kvt_status add_row(struct reading *reading, char **fields, size_t count,
                          struct kvt_error *err)
{
    char counts[64];

    (void)snprintf(counts, sizeof counts, "%zu cell%s; the header has %zu", count,
                   count == 1 ? "" : "s", reading->axis_count);
    if (count != reading->axis_count)
        return fail_at(reading, 1, err, "found %s", counts);
    if (reading->length == SWEEP_RUNS_MAX)
        return fail_at(reading, 1, err, "more points than the %s that are taken", "1000000");
    kvt_status status = reading->length == reading->capacity ? grow(reading, err) : KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        const char *text = fields[i][0] != '\0' ? kvt_arena_strdup(reading->arena, fields[i]) : "";
        if (text == NULL)
            return kvt_fail_nomem(err, "points");
        reading->columns[i][reading->length] = text[0] != '\0' ? text : NULL;
    }
    if (status != KVT_OK)
        return status;
    reading->lines[reading->length++] = kvt_csv_line(reading->csv);
    return KVT_OK;
}

static kvt_status read_all(struct reading *reading, struct sweep_group *out, struct kvt_error *err)
{
    char **fields = NULL;
    size_t count = 0;
    kvt_status status = read_header(reading, out, err);

    while (status == KVT_OK) {
        status = kvt_csv_next(reading->csv, &fields, &count, err);
        if (status != KVT_OK || fields == NULL)
            break;
        status = add_row(reading, fields, count, err);
    }
    if (status == KVT_OK && reading->length == 0)
        status = kvt_fail(err, KVT_ERR_PARSE, reading->path,
                          "found no point below the header; a row each is expected");
    return status;
}

kvt_status sweep_points_read(const char *path, struct kvt_arena *arena, struct sweep_group *out,
                             struct kvt_error *err)
{
    struct reading reading = {.path = path, .arena = arena};
    kvt_status status = kvt_csv_open(path, &reading.csv, err);

    if (status != KVT_OK)
        return status;
    status = read_all(&reading, out, err);
    kvt_csv_close(reading.csv);
    for (size_t i = 0; status == KVT_OK && i < reading.axis_count; i++) {
        out->axes[i].values = reading.columns[i];
        out->axes[i].value_count = reading.length;
    }
    out->length = reading.length;
    out->file = path;
    out->lines = reading.lines;
    return status;
}
