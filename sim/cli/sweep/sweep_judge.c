/* sweep_judge.c -- which of a sweep's points that are refused are answers, and which a slip of the
 * pen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep.h"

/* The place that is told: of a file of points its line and, of one of its columns, that. */
static void place_in_file(const struct sweep_group *group, size_t row, const struct cli_axis *axis,
                          struct kvt_error *err)
{
    char place[sizeof err->where];

    if (group->file == NULL)
        return;
    int length = snprintf(place, sizeof place, "%s:%" PRIu64, group->file, group->lines[row]);
    if (axis != NULL && length > 0 && (size_t)length < sizeof place)
        (void)snprintf(place + length, sizeof place - (size_t)length, ":%zu",
                       (size_t)(axis - group->axes) + 1);
    (void)kvt_fail(err, err->status, place, "%s%s%s", err->where, err->where[0] != '\0' ? ": " : "",
                   err->message);
}

/* ---- Points ---------------------------------------------------------------------------------- */

static kvt_status judge_all(const struct sweep_question *question, struct kvt_error *err)
{
    const struct sweep_point *points = question->points;
    const struct sweep_grid *grid = &question->grid;
    size_t first = 0;

    while (first < grid->point_count && points[first].status != KVT_OK)
        first++;
    if (first < grid->point_count)
        return KVT_OK;
    kvt_status status =
        kvt_fail(err, points[0].status, "sweep", "%s%s", points[0].message,
                 grid->point_count > 1 ? " (point 0; nor can any other be run)" : "");
    if (grid->groups[0].file != NULL) {
        err->where[0] = '\0';
        place_in_file(&grid->groups[0], 0, NULL, err);
    }
    return status;
}

static kvt_status judge_common_sets(const struct sweep_question *question, struct kvt_error *err)
{
    uint64_t idle = UINT64_MAX;

    for (size_t p = 0; p < question->grid.point_count; p++) {
        const struct sweep_point *point = &question->points[p];
        idle &= point->status == KVT_OK ? point->idle_sets : UINT64_MAX;
    }
    for (size_t i = 0; i < question->set_count; i++) {
        if ((idle >> i & 1) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                            "--set %.200s has no effect at any point; leave it out",
                            question->sets[i]);
    }
    return KVT_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

struct value {
    const char *text;
    size_t place; /* in its group */
    bool is_taken;
};

static int by_text(const void *a, const void *b)
{
    const struct value *x = a, *y = b;
    int order = strcmp(x->text, y->text);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    const struct value *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

/* The values of an axis, each text once, where it comes first, in that order; those of which no
 * point can be are not taken. */
static size_t gather_values(const struct sweep_question *question, size_t axis, const bool *taken,
                            struct value *values)
{
    size_t group = 0, count = 0, kept = 0;
    const struct cli_axis *of = sweep_grid_axis(&question->grid, axis, &group);

    for (size_t v = 0; v < of->value_count; v++) {
        if (of->values[v] != NULL)
            values[count++] =
                (struct value){.text = of->values[v], .place = v, .is_taken = taken[v]};
    }
    qsort(values, count, sizeof *values, by_text);
    for (size_t v = 0; v < count; v++) {
        if (kept > 0 && strcmp(values[kept - 1].text, values[v].text) == 0)
            values[kept - 1].is_taken = values[kept - 1].is_taken || values[v].is_taken;
        else
            values[kept++] = values[v];
    }
    qsort(values, kept, sizeof *values, by_place);
    return kept;
}

/* taken[]: of each place of the group whether any point there can be. */
static kvt_status judge_axis(const struct sweep_question *question, size_t axis, bool *taken,
                             struct value *values, struct kvt_error *err)
{
    size_t group = 0;
    const struct sweep_grid *grid = &question->grid;
    const struct cli_axis *of = sweep_grid_axis(grid, axis, &group);

    memset(taken, 0, of->value_count * sizeof *taken);
    for (size_t p = 0; p < grid->point_count; p++) {
        if (question->points[p].status == KVT_OK)
            taken[sweep_grid_place(grid, p, group)] = true;
    }
    size_t count = gather_values(question, axis, taken, values);
    for (size_t v = 0; v < count; v++) {
        kvt_status status =
            values[v].is_taken ? KVT_OK : sweep_check_value(question, of, values[v].text, err);
        if (status != KVT_OK) {
            place_in_file(&grid->groups[group], values[v].place, of, err);
            return status;
        }
    }
    return KVT_OK;
}

static kvt_status judge_values(const struct sweep_question *question, struct kvt_error *err)
{
    const struct sweep_grid *grid = &question->grid;
    size_t longest = 0;
    kvt_status status = KVT_OK;

    for (size_t g = 0; g < grid->group_count; g++)
        longest = grid->groups[g].length > longest ? grid->groups[g].length : longest;
    struct value *values = calloc(longest + 1, sizeof *values);
    bool *taken = calloc(longest + 1, sizeof *taken);
    if (values == NULL || taken == NULL)
        status = kvt_fail_nomem(err, "a sweep");
    for (size_t a = 0; status == KVT_OK && a < grid->axis_count; a++)
        status = judge_axis(question, a, taken, values, err);
    free(taken);
    free(values);
    return status;
}

/* Values first: which of them it is says more than that no point can be. */
kvt_status sweep_judge(const struct sweep_question *question, struct kvt_error *err)
{
    kvt_status status = judge_values(question, err);

    if (status == KVT_OK)
        status = judge_all(question, err);
    return status == KVT_OK ? judge_common_sets(question, err) : status;
}
