/* sweep_charts.c -- a sweep's charts: metrics over the first axis of numbers, or beside each other,
 * and latency against throughput. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page_tree.h"
#include "sweep_page.h"

enum {
    LINES_MAX = 8,    /* of a chart, evenly over their ranks; and one more */
    MARKS_MAX = 2000, /* of a chart */
    BARS_MAX = 30,    /* of a chart */
    FAR_APART = 40    /* from this ratio on equal factors are equally far apart */
};

/* ---- Which lines ----------------------------------------------------------------------------- */

struct rank {
    size_t line;
    double most; /* of its output */
};

static int compare_ranks(const void *a, const void *b)
{
    const struct rank *first = a, *second = b;
    if (first->most != second->most)
        return first->most > second->most ? -1 : 1;
    return first->line < second->line ? -1 : first->line > second->line;
}

/* Marks the lines that are drawn, [line_count]; false: no memory. */
static bool choose_lines(const struct sweep_page *source, bool *is_drawn)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *shortest = sweep_best(swept, SWEEP_TPOT, false, false);
    struct rank *ranks = calloc(swept->line_count, sizeof *ranks);

    if (ranks == NULL)
        return false;
    for (size_t l = 0; l < swept->line_count; l++)
        ranks[l] = (struct rank){.line = l, .most = -INFINITY};
    for (size_t p = 0; p < swept->point_count; p++) {
        double output = swept_metric(&swept->points[p], SWEEP_OUTPUT);
        struct rank *rank = &ranks[swept->points[p].line];
        rank->most = fmax(rank->most, isnan(output) ? -INFINITY : output);
    }
    qsort(ranks, swept->line_count, sizeof *ranks, compare_ranks);
    for (size_t i = 0; i < LINES_MAX; i++)
        is_drawn[ranks[i * (swept->line_count - 1) / (LINES_MAX - 1)].line] = true;
    if (shortest != NULL)
        is_drawn[shortest->line] = true;
    free(ranks);
    return true;
}

/* ---- Charts over the axis -------------------------------------------------------------------- */

static void put_point(const struct sweep_page *source, const struct swept_point *point,
                      const struct sweep_metric *metric, const char *series)
{
    report_point(source->page, (struct report_point){
                                   .series = series,
                                   .label = point->name,
                                   .x = point->x,
                                   .y = swept_metric(point, metric->name) * metric->scale,
                                   .low = swept_interval(point, metric->name, 0) * metric->scale,
                                   .high = swept_interval(point, metric->name, 1) * metric->scale});
}

/* Whether values of x grow by factors rather than by steps: their mean is well below the middle. */
static bool is_spread_by_factors(const struct swept *swept)
{
    const struct swept_axis *x = swept->x;
    double sum = 0;

    for (size_t p = 0; p < swept->point_count; p++)
        sum += swept->points[p].x;
    return x->least > 0 && x->most >= 8 * x->least &&
           sum / (double)swept->point_count < 0.9 * (x->least + x->most) / 2;
}

static struct report_axis x_axis(const struct sweep_page *source)
{
    const struct swept_axis *x = source->swept.x;
    const char *title =
        x->is_multiple ? kvt_arena_printf(source->arena, "%s, times k", x->path) : x->path;
    return (struct report_axis){.name = x->column,
                                .title = title != NULL ? title : x->path,
                                .is_log = is_spread_by_factors(&source->swept)};
}

static struct report_axis y_axis(const struct sweep_page *source, size_t m)
{
    const struct sweep_range *range = &source->ranges[m];
    bool is_far = range->least > 0 && range->most > FAR_APART * range->least;

    /* An interval may reach below 0, where a logarithmic axis has no place. */
    return (struct report_axis){.name = sweep_shown[m].column,
                                .title = sweep_shown[m].title,
                                .is_log = is_far && source->swept.seed_count < 2,
                                .is_from_zero = sweep_shown[m].is_from_zero};
}

/* drawn: of the lines; every: of a line's points one of so many is drawn. */
static void put_lines(const struct sweep_page *source, size_t m, const bool *drawn, size_t every,
                      bool are_lines)
{
    const struct swept *swept = &source->swept;
    const struct sweep_metric *metric = &sweep_shown[m];
    const struct report_chart chart = {.id = metric->id,
                                       .title = metric->label,
                                       .form = are_lines ? REPORT_LINES : REPORT_CLOUD,
                                       .x = x_axis(source),
                                       .y = y_axis(source, m),
                                       .series = are_lines ? swept->line_column : "line",
                                       .label = "point",
                                       .has_intervals = swept->seed_count > 1};

    report_chart(source->page, &chart);
    for (size_t l = 0; l < (are_lines ? swept->line_count : 1); l++) {
        size_t nth = 0;
        for (size_t p = 0; (!are_lines || drawn[l]) && p < swept->point_count; p++) {
            const struct swept_point *point = &swept->points[p];
            if ((are_lines && point->line != l) || nth++ % every != 0)
                continue;
            put_point(source, point, metric, are_lines ? swept->lines[l] : "all points");
        }
    }
}

/* Points of the lines that are drawn. */
static size_t count_drawn(const struct swept *swept, const bool *drawn)
{
    size_t count = 0;

    for (size_t p = 0; p < swept->point_count; p++)
        count += drawn[swept->points[p].line];
    return count;
}

static void say_lines(const struct sweep_page *source, const bool *drawn, size_t every,
                      bool are_lines)
{
    const struct swept *swept = &source->swept;
    size_t count = 0;

    for (size_t l = 0; l < swept->line_count; l++)
        count += drawn[l];
    if (are_lines && count < swept->line_count)
        report_paragraph(source->page,
                         "%zu of %zu lines are drawn: by their most output per GPU the first, the "
                         "last and some evenly between, and the one with the shortest TPOT. "
                         "results.csv has all.",
                         count, swept->line_count);
    if (are_lines && swept->has_short_lines && strchr(swept->line_labels, ',') != NULL)
        report_paragraph(source->page, "Lines are named by %s.", swept->line_labels);
    if (every > 1)
        report_paragraph(source->page, "Of the points one of %zu is drawn.", every);
}

/* What is equal at all points needs no chart. */
static void say_equal(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    char text[512] = "", value[REPORT_NUMBER_BYTES];
    size_t used = 0;

    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        double least = source->ranges[m].least;
        if (sweep_shown[m].id == NULL || sweep_varies(source, m) || !isfinite(least))
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", used > 0 ? "; " : "",
                                 sweep_shown[m].title,
                                 report_value_text(least * sweep_shown[m].scale, value));
    }
    if (used > 0 && swept->ok_count > 1)
        report_paragraph(source->page, "The same at all points: %s.", text);
}

bool sweep_put_over_axis(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    bool *drawn = calloc(swept->line_count, sizeof *drawn);
    bool are_lines = swept->line_count * 2 <= swept->point_count;

    if (drawn == NULL)
        return false;
    for (size_t l = 0; l < swept->line_count; l++)
        drawn[l] = swept->line_count <= LINES_MAX || !are_lines;
    if (are_lines && swept->line_count > LINES_MAX && !choose_lines(source, drawn)) {
        free(drawn);
        return false;
    }
    size_t every = (count_drawn(swept, drawn) + MARKS_MAX - 1) / MARKS_MAX;
    say_lines(source, drawn, every, are_lines);
    say_equal(source);
    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        if (sweep_shown[m].id != NULL && sweep_varies(source, m))
            put_lines(source, m, drawn, every, are_lines);
    }
    free(drawn);
    return true;
}

/* ---- Without an axis of numbers -------------------------------------------------------------- */

static void put_bars(const struct sweep_page *source, size_t m, const struct swept_point **points,
                     size_t count)
{
    const struct swept *swept = &source->swept;
    const struct sweep_metric *metric = &sweep_shown[m];
    struct report_axis x = y_axis(source, m);
    bool has_seeds = swept->seed_count > 1;

    x.is_log = false;
    const struct report_chart chart = {.id = metric->id,
                                       .title = metric->label,
                                       .form = has_seeds ? REPORT_DOTS : REPORT_BARS,
                                       .x = x,
                                       .y = {.name = "point", .title = "point"},
                                       .series = "metric"};
    report_chart(source->page, &chart);
    for (size_t p = 0; p < count; p++) {
        if (!points[p]->is_ok)
            continue;
        report_point(source->page,
                     (struct report_point){
                         .series = metric->title,
                         .category = points[p]->name,
                         .x = swept_metric(points[p], metric->name) * metric->scale,
                         .low = swept_interval(points[p], metric->name, 0) * metric->scale,
                         .high = swept_interval(points[p], metric->name, 1) * metric->scale});
    }
}

bool sweep_put_bars(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    size_t count = 0;
    const struct swept_point **points = sweep_best_points(swept, BARS_MAX, &count);

    if (points == NULL)
        return false;
    if (count < swept->point_count)
        report_paragraph(source->page,
                         "The %zu points with most output per GPU, of %zu; results.csv has all.",
                         count, swept->point_count);
    say_equal(source);
    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        if (sweep_shown[m].id != NULL && sweep_varies(source, m))
            put_bars(source, m, points, count);
    }
    free(points);
    return true;
}

/* ---- What is traded -------------------------------------------------------------------------- */

static bool has_both(const struct swept_point *point)
{
    return point->is_ok && isfinite(swept_metric(point, SWEEP_OUTPUT)) &&
           isfinite(swept_metric(point, SWEEP_TPOT));
}

/* Those of which none other has as much output with shorter tokens, by output; into list, which is
 * in order of output. */
static size_t keep_front(const struct swept_point **list, size_t count)
{
    size_t kept = 0;
    double shortest = INFINITY;

    for (size_t p = 0; p < count; p++) {
        double tpot = swept_metric(list[p], SWEEP_TPOT);
        if (!has_both(list[p]) || list[p]->is_bound || !(tpot < shortest))
            continue;
        shortest = tpot;
        list[kept++] = list[p];
    }
    return kept;
}

/* What the trade's points are told apart by: the lines, or where those are many an axis of words.
 */
struct colours {
    bool are_lines;
    const struct swept_axis *axis; /* NULL: by nothing */
};

static struct colours colours_of(const struct swept *swept)
{
    if (swept->line_count <= LINES_MAX)
        return (struct colours){.are_lines = swept->line_count > 1};
    for (size_t i = 0; i < swept->axis_count; i++) {
        const struct swept_axis *axis = &swept->axes[i];
        if (!axis->is_numeric && axis->value_count > 1 && axis->value_count <= LINES_MAX)
            return (struct colours){.axis = axis};
    }
    return (struct colours){.are_lines = false};
}

static void put_trade_point(const struct sweep_page *source, const struct colours *colours,
                            const struct swept_point *point)
{
    const struct swept *swept = &source->swept;
    const char *series = colours->are_lines      ? swept->lines[point->line]
                         : colours->axis != NULL ? swept_value(point, colours->axis, source->arena)
                                                 : "points";

    report_point(source->page,
                 (struct report_point){.series = series != NULL && series[0] != '\0' ? series : "-",
                                       .label = point->name,
                                       .x = swept_metric(point, SWEEP_OUTPUT),
                                       .y = swept_metric(point, SWEEP_TPOT),
                                       .kind = REPORT_MARK});
}

static void put_front(const struct sweep_page *source, const struct swept_point **front,
                      size_t count)
{
    for (size_t f = 0; count > 1 && f < count; f++)
        report_point(source->page, (struct report_point){.series = "best trades",
                                                         .label = front[f]->name,
                                                         .x = swept_metric(front[f], SWEEP_OUTPUT),
                                                         .y = swept_metric(front[f], SWEEP_TPOT),
                                                         .kind = REPORT_CURVE});
}

/* list: all points, by output; front: of those that trade best. */
static void put_trade(const struct sweep_page *source, const struct swept_point **list,
                      const struct swept_point **front, size_t count)
{
    const struct swept *swept = &source->swept;
    const struct colours colours = colours_of(swept);
    size_t all = 0, nth = 0, next = count;
    const struct report_chart chart = {
        .id = "trade",
        .title = "Time per token against output",
        .note = count > 1 ? "Lower and to the right is better. Along the line no other point has "
                            "both more output and shorter tokens."
                          : "Lower and to the right is better. One point has both the most output "
                            "and the shortest tokens.",
        .form = REPORT_LINES,
        .x = {.name = "output_tokens_per_s_per_gpu", .title = "output, tokens/s a GPU"},
        .y = {.name = "mean_tpot_ms", .title = "mean TPOT, ms"},
        .series = colours.are_lines      ? swept->line_column
                  : colours.axis != NULL ? colours.axis->column
                                         : "line",
        .label = "point",
        .is_wide = true,
        .has_kinds = true};

    for (size_t p = 0; p < swept->point_count; p++)
        all += has_both(&swept->points[p]);
    size_t every = all > 0 ? (all + MARKS_MAX - 1) / MARKS_MAX : 1;
    report_section(source->page, "What is traded for what", NULL);
    if (every > 1)
        report_paragraph(source->page,
                         "In order of output one point of %zu is drawn, and all of those along the "
                         "line.",
                         every);
    report_chart(source->page, &chart);
    for (size_t p = 0; p < swept->point_count; p++) {
        /* By number, so that names come in the order asked for, where all are drawn. */
        const struct swept_point *point = every > 1 ? list[p] : &swept->points[p];
        bool is_along = every > 1 && next > 0 && point == front[count - next];
        next -= is_along;
        if (has_both(point) && (nth++ % every == 0 || is_along))
            put_trade_point(source, &colours, point);
    }
    put_front(source, front, count);
}

bool sweep_put_trades(const struct sweep_page *source)
{
    size_t count = 0, front_count = 0;
    const struct swept_point **list = sweep_best_points(&source->swept, SIZE_MAX, &count);
    const struct swept_point **front = sweep_best_points(&source->swept, SIZE_MAX, &count);
    bool ok = list != NULL && front != NULL;

    if (ok) {
        qsort(list, count, sizeof(struct swept_point *), sweep_compare_outputs);
        memcpy(front, list, count * sizeof(struct swept_point *));
        front_count = keep_front(front, count);
        if (front_count > 0 && source->swept.ok_count > 1)
            put_trade(source, list, front, front_count);
    }
    free(list);
    free(front);
    return ok;
}
