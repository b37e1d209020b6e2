/* sweep_grid.h -- the points of a sweep: axes in groups, and what each axis has at a point. */
#ifndef KVT_CLI_SWEEP_GRID_H
#define KVT_CLI_SWEEP_GRID_H

#include <cjson/cJSON.h>

#include "../axis.h"
#include "../cli.h"

enum {
    SWEEP_RUNS_MAX = 1000000 /* points x seeds */
};

/* Axes whose values go together: of one length. A --vary is a group of one axis, a --zip of
 * several, and a file of points a group of its columns. */
struct sweep_group {
    struct cli_axis *axes; /* [axis_count] a value of a file of points is NULL where the cell is
                            * empty: the point leaves the key as it is */
    size_t axis_count, length;
    const char *file;      /* of points; NULL: from the command line */
    const uint64_t *lines; /* [length] where its rows begin */
};

/* Every point takes one place of each group: the product, in which the last group changes fastest.
 */
struct sweep_grid {
    struct sweep_group *groups; /* [group_count] */
    size_t group_count, axis_count, point_count;
};

/* From the command line; lives in the arena. The groups are the file of points (NULL: none), then
 * each --vary, then each --zip in its turn; zips has a NULL behind each group's last. Refused: what
 * cli_axis_parse() and the reader of CSV refuse, a key that is there twice, groups of axes of
 * unequal lengths or of one axis, no axis at all, and more than SWEEP_RUNS_MAX points. */
KVT_CHECKED kvt_status sweep_grid_parse(const struct cli_texts *varied,
                                        const struct cli_texts *zips, const char *points_path,
                                        struct kvt_arena *arena, struct sweep_grid *out,
                                        struct kvt_error *err);

/* Axis number `axis` of all, in the order of the groups; *group is whose it is. */
const struct cli_axis *sweep_grid_axis(const struct sweep_grid *grid, size_t axis, size_t *group);
/* Its value at a point; NULL: the point leaves the key as it is. */
const char *sweep_grid_value(const struct sweep_grid *grid, size_t point, size_t axis);

/* The place of the axis's group that a point takes. */
size_t sweep_grid_place(const struct sweep_grid *grid, size_t point, size_t group);

/* As a member "axes" of files, and back. An array of groups, a group an array of axes {"path",
 * "values"}. cJSON_Delete() *out. */
KVT_CHECKED kvt_status sweep_grid_to_json(const struct sweep_grid *grid, cJSON **out,
                                          struct kvt_error *err);
KVT_CHECKED kvt_status sweep_grid_from_json(const cJSON *axes, const char *where,
                                            struct kvt_arena *arena, struct sweep_grid *out,
                                            struct kvt_error *err);

/* sweep_points.c: a file of points as a group: its header has the keys, every row a point's values,
 * as --set takes them. */
KVT_CHECKED kvt_status sweep_points_read(const char *path, struct kvt_arena *arena,
                                         struct sweep_group *out, struct kvt_error *err);

#endif
