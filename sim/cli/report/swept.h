/* swept.h -- results.json of a sweep as arrays: what varied, the points by name, and the lines that
 * they make over the first axis of numbers. */
#ifndef KVT_CLI_REPORT_SWEPT_H
#define KVT_CLI_REPORT_SWEPT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "kvt/arena.h"
#include "kvt/error.h"

struct swept_axis {
    const char *path, *label; /* label: as much of the path's end as tells it from the others */
    const char *column;       /* the same in letters, digits and '_' */
    size_t group;             /* axes of one go together */
    size_t value_count;       /* different ones */
    bool is_numeric;          /* all its values are numbers, or all multiples of k, as "2k" */
    bool is_multiple;         /* the latter */
    double least, most;       /* where it is numeric */
};

struct swept_point {
    const cJSON *tree, *metrics, *intervals, *inputs;
    size_t number;
    const char *name; /* "concurrency 64, policy adaptive" */
    double x;         /* NaN: there is no axis of numbers */
    size_t line;      /* of swept.lines */
    bool is_ok;
    bool is_bound; /* a policy of it saw the future */
};

struct swept {
    struct swept_axis *axes; /* [axis_count] */
    size_t axis_count;
    struct swept_point *points; /* [point_count] */
    size_t point_count, ok_count, bound_count, seed_count;
    const struct swept_axis *x; /* the first of numbers with several values; NULL: there is none */
    const char **lines;         /* [line_count] what their points have in common beside x */
    size_t line_count;
    const char *line_column; /* what lines are, as a column's name */
    const char *line_labels; /* "hot_tokens, policy": of what tells them apart */
    bool has_short_lines;    /* names of lines are values in that order */
};

/* Strings are the tree's or the arena's. Refuses a tree without points or with a point that is no
 * object; where: of the tree, for messages. */
KVT_CHECKED kvt_status swept_read(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                  struct swept *out, struct kvt_error *err);

/* A metric of a point, NaN where it has none; an end of its interval, 0 or 1. */
double swept_metric(const struct swept_point *point, const char *metric);
double swept_interval(const struct swept_point *point, const char *metric, int end);
/* The value of an axis as people read it, in the arena; "" where the point leaves it as it is.
 * NULL: no memory. */
const char *swept_value(const struct swept_point *point, const struct swept_axis *axis,
                        struct kvt_arena *arena);
/* As a number; NaN where it is none. */
double swept_number(const struct swept_point *point, const struct swept_axis *axis);

#endif
