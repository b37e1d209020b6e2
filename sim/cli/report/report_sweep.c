/* report_sweep.c -- the page of a sweep: the best points, metrics over what varied, and what is
 * traded for what. However many points there are, the page stays a few megabytes at most: what it
 * leaves out it says. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"
#include "swept.h"

enum {
    LINES_MAX = 8,    /* of a chart, evenly over their ranks; and one more */
    MARKS_MAX = 2000, /* of a chart */
    BARS_MAX = 30,    /* of a chart */
    ROWS_MAX = 500,   /* of the table of points */
    REASONS_MAX = 20, /* of what failed */
    BASES_MAX = 8,
    FAR_APART = 40 /* from this ratio on equal factors are equally far apart */
};

/* The metrics that are drawn and tabled, of all that results.json holds. */
static const struct shown {
    const char *name;
    const char *id, *label; /* of a chart; NULL: it has none */
    const char *column, *title;
    double scale;
    bool is_from_zero;
} shown[] = {
    {"output_throughput_per_gpu", "output", "Output per GPU", "output_tokens_per_s_per_gpu",
     "output, tokens/s a GPU", 1, true},
    {"mean_tpot_ms", "tpot", "Time per token", "mean_tpot_ms", "mean TPOT, ms", 1, true},
    {"mean_ttft_ms", "ttft", "Time to the first token", "mean_ttft_s", "mean TTFT, s", 1e-3, true},
    {"host_fetch_share", "host-fetch", "Rows fetched from the host", "host_fetch_percent",
     "host fetch, %", 100, true},
    {"coverage_mean", "coverage", "Coverage", "coverage_percent", "coverage, %", 100, false},
    {"slo_margin", "slo-margin", "Margin to the promises", "slo_margin", "SLO margin", 1, false},
    {"usd_per_million_output_tokens", "cost", "Cost of output", "usd_per_million_output_tokens",
     "USD a million output tokens", 1, true},
    {"active_mean", NULL, NULL, "decoding", "decoding at once", 1, true},
    {"hbm_kv_peak_bytes", NULL, NULL, "hbm_peak_gib", "HBM peak, GiB", 1 / 1073741824.0, true},
};
enum {
    SHOWN = sizeof shown / sizeof shown[0]
};

#define OUTPUT "output_throughput_per_gpu"
#define TPOT "mean_tpot_ms"
#define MARGIN "slo_margin"
#define COST "usd_per_million_output_tokens"

struct source {
    struct report_page *page;
    const cJSON *tree;
    struct kvt_arena *arena;
    struct swept swept;
    struct range {
        double least, most; /* infinite: no point has the metric */
    } ranges[SHOWN];
};

static void find_ranges(struct source *source)
{
    for (size_t m = 0; m < SHOWN; m++) {
        struct range *range = &source->ranges[m];
        *range = (struct range){INFINITY, -INFINITY};
        for (size_t p = 0; p < source->swept.point_count; p++) {
            double value = swept_metric(&source->swept.points[p], shown[m].name);
            if (isfinite(value)) {
                range->least = fmin(range->least, value);
                range->most = fmax(range->most, value);
            }
        }
    }
}

/* ---- The best
 * -------------------------------------------------------------------------------------- */

/* That has most of a metric, or least; of those that can be had, and keep all promises where that
 * is asked. NULL: none has any. */
static const struct swept_point *best_of(const struct swept *swept, const char *metric, bool most,
                                         bool keeps_promises)
{
    const struct swept_point *best = NULL;
    double value = NAN;

    for (size_t p = 0; p < swept->point_count; p++) {
        const struct swept_point *point = &swept->points[p];
        if (!point->is_ok || point->is_bound ||
            (keeps_promises && !(swept_metric(point, MARGIN) >= 0)))
            continue;
        double found = swept_metric(point, metric);
        if (isfinite(found) && (best == NULL || (most ? found > value : found < value))) {
            best = point;
            value = found;
        }
    }
    return best;
}

static const char *figure(double value, char out[REPORT_NUMBER_BYTES])
{
    cJSON *cell = cJSON_CreateNumber(value);
    report_number_text(isfinite(value) ? cell : NULL, out);
    cJSON_Delete(cell);
    return out;
}

static const char *metric_figure(const struct swept_point *point, const char *metric,
                                 char out[REPORT_NUMBER_BYTES])
{
    return figure(swept_metric(point, metric), out);
}

/* ---- The answer
 * ------------------------------------------------------------------------------------ */

static const cJSON *first_failure(const struct swept *swept)
{
    for (size_t p = 0; p < swept->point_count; p++) {
        if (!swept->points[p].is_ok)
            return swept->points[p].tree;
    }
    return NULL;
}

static void say_counts(const struct source *source)
{
    const struct swept *swept = &source->swept;
    size_t failed = swept->point_count - swept->ok_count;
    const cJSON *first = first_failure(swept);
    char over[1024] = "";
    size_t used = 0;

    for (size_t i = 0; i < swept->axis_count && used < sizeof over; i++)
        used += (size_t)snprintf(over + used, sizeof over - used, "%s%s (%zu)",
                                 i == 0                      ? " over "
                                 : i + 1 < swept->axis_count ? ", "
                                                             : " and ",
                                 swept->axes[i].path, swept->axes[i].value_count);
    report_say(source->page, "%zu point%s%s.", swept->point_count,
               swept->point_count == 1 ? "" : "s", over);
    if (failed > 0)
        report_say(source->page, "%zu of them %s no results. The first, point %.0f, %s: %s", failed,
                   failed == 1 ? "has" : "have", report_number(first, "point"),
                   strcmp(report_text(first, "status"), "refused") == 0 ? "is refused" : "failed",
                   report_text(first, "message"));
}

static void say_best(const struct source *source)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *most = best_of(swept, OUTPUT, true, false);
    const struct swept_point *shortest = best_of(swept, TPOT, false, false);
    const struct swept_point *kept = best_of(swept, OUTPUT, true, true);
    const struct swept_point *cheapest = best_of(swept, COST, false, false);
    char first[REPORT_NUMBER_BYTES], second[REPORT_NUMBER_BYTES];

    if (most != NULL)
        report_say(source->page,
                   "Most output: %s tokens/s a GPU at %s, where a token takes %s ms on average.",
                   metric_figure(most, OUTPUT, first), most->name,
                   metric_figure(most, TPOT, second));
    if (shortest != NULL && shortest != most)
        report_say(source->page, "Shortest time per token: %s ms at %s, with %s tokens/s a GPU.",
                   metric_figure(shortest, TPOT, first), shortest->name,
                   metric_figure(shortest, OUTPUT, second));
    if (kept != NULL)
        report_say(source->page, "Most output with every promise kept: %s tokens/s a GPU at %s.",
                   metric_figure(kept, OUTPUT, first), kept->name);
    else if (best_of(swept, MARGIN, true, false) != NULL)
        report_say(source->page, "No point keeps every promise.");
    if (cheapest != NULL)
        report_say(source->page, "Cheapest: %s USD a million output tokens at %s.",
                   metric_figure(cheapest, COST, first), cheapest->name);
    if (swept->bound_count > 0)
        report_say(source->page,
                   "%zu point%s of a policy that saw the future: bounds, which cannot be had and "
                   "are not counted among the best.",
                   swept->bound_count, swept->bound_count == 1 ? " is" : "s are");
}

static void put_figures(const struct source *source)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *most = best_of(swept, OUTPUT, true, false);
    const struct swept_point *shortest = best_of(swept, TPOT, false, false);
    const struct swept_point *cheapest = best_of(swept, COST, false, false);
    char note[64];

    snprintf(note, sizeof note, "of %zu", swept->point_count);
    report_figure(source->page, "Points with results", (double)swept->ok_count, NULL, note);
    if (most != NULL)
        report_figure(source->page, "Most output per GPU", swept_metric(most, OUTPUT), "tokens/s",
                      most->name);
    if (shortest != NULL)
        report_figure(source->page, "Shortest mean TPOT", swept_metric(shortest, TPOT), "ms",
                      shortest->name);
    if (cheapest != NULL)
        report_figure(source->page, "Cheapest million tokens", swept_metric(cheapest, COST), "USD",
                      cheapest->name);
}

/* ---- What it rests on
 * ------------------------------------------------------------------------------ */

static void assume_seeds(const struct source *source)
{
    const cJSON *first = cJSON_GetArrayItem(kvt_json_find(source->tree, "seeds"), 0);
    size_t count = source->swept.seed_count;
    char text[160];

    snprintf(text, sizeof text, "%zu, from %.0f on, the same for all points; %s", count,
             report_number(first, ""),
             count > 1 ? "values are means, intervals of 95 %, over seeds"
                       : "one seed has no interval: small differences prove nothing");
    report_assume(source->page, "Seeds", text, NULL);
}

static void assume_bases(const struct source *source)
{
    const struct swept *swept = &source->swept;
    const char *bases[BASES_MAX];
    size_t counts[BASES_MAX], count = 0, b = 0;
    char text[64];

    for (size_t p = 0; p < swept->point_count; p++) {
        const char *basis = report_text(swept->points[p].tree, "basis");
        if (basis[0] == '\0')
            continue;
        for (b = 0; b < count && strcmp(bases[b], basis) != 0;)
            b++;
        if (b == BASES_MAX)
            continue;
        if (b == count) {
            bases[count] = basis;
            counts[count++] = 0;
        }
        counts[b]++;
    }
    for (b = 0; b < count; b++) {
        snprintf(text, sizeof text, "of %zu point%s", counts[b], counts[b] == 1 ? "" : "s");
        report_assume(source->page, "Output", text, bases[b]);
    }
}

static void assume_fixed(const struct source *source)
{
    const struct swept *swept = &source->swept;

    for (size_t i = 0; i < swept->axis_count; i++) {
        if (swept->axes[i].value_count == 1)
            report_assume(source->page, swept->axes[i].path,
                          swept_value(&swept->points[0], &swept->axes[i], source->arena), NULL);
    }
}

static void put_badge(const struct source *source)
{
    struct kvt_badge all = {.claims = {{.word = ""}}}, one;
    bool has_one = false;

    for (size_t p = 0; p < source->swept.point_count; p++) {
        if (source->swept.points[p].is_ok && kvt_badge_read(source->swept.points[p].tree, &one)) {
            kvt_badge_join(&all, &one);
            has_one = true;
        }
    }
    if (has_one)
        report_put_badge(source->page, &all);
}

/* ---- Which lines
 * ----------------------------------------------------------------------------------- */

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
static bool choose_lines(const struct source *source, bool *is_drawn)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *shortest = best_of(swept, TPOT, false, false);
    struct rank *ranks = calloc(swept->line_count, sizeof *ranks);

    if (ranks == NULL)
        return false;
    for (size_t l = 0; l < swept->line_count; l++)
        ranks[l] = (struct rank){.line = l, .most = -INFINITY};
    for (size_t p = 0; p < swept->point_count; p++) {
        double output = swept_metric(&swept->points[p], OUTPUT);
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

/* ---- Charts over the axis
 * -------------------------------------------------------------------------- */

/* Whether the points differ in a metric. */
static bool varies(const struct source *source, size_t m)
{
    return source->ranges[m].least < source->ranges[m].most;
}

static void put_point(const struct source *source, const struct swept_point *point,
                      const struct shown *metric, const char *series)
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

static struct report_axis x_axis(const struct source *source)
{
    const struct swept_axis *x = source->swept.x;
    const char *title =
        x->is_multiple ? kvt_arena_printf(source->arena, "%s, times k", x->path) : x->path;
    return (struct report_axis){.name = x->column,
                                .title = title != NULL ? title : x->path,
                                .is_log = is_spread_by_factors(&source->swept)};
}

static struct report_axis y_axis(const struct source *source, size_t m)
{
    const struct range *range = &source->ranges[m];
    bool is_far = range->least > 0 && range->most > FAR_APART * range->least;

    /* An interval may reach below 0, where a logarithmic axis has no place. */
    return (struct report_axis){.name = shown[m].column,
                                .title = shown[m].title,
                                .is_log = is_far && source->swept.seed_count < 2,
                                .is_from_zero = shown[m].is_from_zero};
}

/* drawn: of the lines; every: of a line's points one of so many is drawn. */
static void put_lines(const struct source *source, size_t m, const bool *drawn, size_t every,
                      bool are_lines)
{
    const struct swept *swept = &source->swept;
    const struct shown *metric = &shown[m];
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

static void say_lines(const struct source *source, const bool *drawn, size_t every, bool are_lines)
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
    if (are_lines && swept->has_short_lines && swept->line_count > 1)
        report_paragraph(source->page, "Lines are named by %s.", swept->line_labels);
    if (every > 1)
        report_paragraph(source->page, "Of the points one of %zu is drawn.", every);
}

/* What is equal at all points needs no chart. */
static void say_equal(const struct source *source)
{
    const struct swept *swept = &source->swept;
    char text[512] = "", value[REPORT_NUMBER_BYTES];
    size_t used = 0;

    for (size_t m = 0; m < SHOWN; m++) {
        double least = source->ranges[m].least;
        if (shown[m].id == NULL || varies(source, m) || !isfinite(least))
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", used > 0 ? "; " : "",
                                 shown[m].title, figure(least * shown[m].scale, value));
    }
    if (used > 0 && swept->ok_count > 1)
        report_paragraph(source->page, "The same at all points: %s.", text);
}

static bool put_over_axis(const struct source *source)
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
    for (size_t m = 0; m < SHOWN; m++) {
        if (shown[m].id != NULL && varies(source, m))
            put_lines(source, m, drawn, every, are_lines);
    }
    free(drawn);
    return true;
}

/* ---- Without an axis of numbers
 * -------------------------------------------------------------------- */

static int compare_outputs(const void *a, const void *b)
{
    const struct swept_point *first = *(const struct swept_point *const *)a;
    const struct swept_point *second = *(const struct swept_point *const *)b;
    double one = swept_metric(first, OUTPUT), other = swept_metric(second, OUTPUT);

    if (isnan(one) != isnan(other))
        return isnan(one) ? 1 : -1;
    if (one != other && !isnan(one))
        return one > other ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}
static int compare_numbers(const void *a, const void *b)
{
    const struct swept_point *first = *(const struct swept_point *const *)a;
    const struct swept_point *second = *(const struct swept_point *const *)b;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* Those with most output, at most so many, by number; the caller's to free(). NULL: no memory. */
static const struct swept_point **best_points(const struct swept *swept, size_t most, size_t *count)
{
    const struct swept_point **list = calloc(swept->point_count, sizeof *list);

    if (list == NULL)
        return NULL;
    for (size_t p = 0; p < swept->point_count; p++)
        list[p] = &swept->points[p];
    *count = swept->point_count;
    if (*count > most) {
        qsort(list, *count, sizeof *list, compare_outputs);
        *count = most;
        qsort(list, *count, sizeof *list, compare_numbers);
    }
    return list;
}

static void put_bars(const struct source *source, size_t m, const struct swept_point **points,
                     size_t count)
{
    const struct swept *swept = &source->swept;
    const struct shown *metric = &shown[m];
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

static bool put_beside_each_other(const struct source *source)
{
    const struct swept *swept = &source->swept;
    size_t count = 0;
    const struct swept_point **points = best_points(swept, BARS_MAX, &count);

    if (points == NULL)
        return false;
    if (count < swept->point_count)
        report_paragraph(source->page,
                         "The %zu points with most output per GPU, of %zu; results.csv has all.",
                         count, swept->point_count);
    say_equal(source);
    for (size_t m = 0; m < SHOWN; m++) {
        if (shown[m].id != NULL && varies(source, m))
            put_bars(source, m, points, count);
    }
    free(points);
    return true;
}

/* ---- What is traded
 * -------------------------------------------------------------------------------- */

static bool has_both(const struct swept_point *point)
{
    return point->is_ok && isfinite(swept_metric(point, OUTPUT)) &&
           isfinite(swept_metric(point, TPOT));
}

/* Those of which none other has as much output with shorter tokens, by output; into list, which is
 * in order of output. */
static size_t keep_front(const struct swept_point **list, size_t count)
{
    size_t kept = 0;
    double shortest = INFINITY;

    for (size_t p = 0; p < count; p++) {
        double tpot = swept_metric(list[p], TPOT);
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

static void put_trade_point(const struct source *source, const struct colours *colours,
                            const struct swept_point *point)
{
    const struct swept *swept = &source->swept;
    const char *series = colours->are_lines      ? swept->lines[point->line]
                         : colours->axis != NULL ? swept_value(point, colours->axis, source->arena)
                                                 : "points";

    report_point(source->page,
                 (struct report_point){.series = series != NULL && series[0] != '\0' ? series : "-",
                                       .label = point->name,
                                       .x = swept_metric(point, OUTPUT),
                                       .y = swept_metric(point, TPOT),
                                       .kind = REPORT_MARK});
}

static void put_front(const struct source *source, const struct swept_point **front, size_t count)
{
    for (size_t f = 0; f < count; f++)
        report_point(source->page, (struct report_point){.series = "best trades",
                                                         .label = front[f]->name,
                                                         .x = swept_metric(front[f], OUTPUT),
                                                         .y = swept_metric(front[f], TPOT),
                                                         .kind = REPORT_CURVE});
}

/* list: all points, by output; front: of those that trade best. */
static void put_trade(const struct source *source, const struct swept_point **list,
                      const struct swept_point **front, size_t count)
{
    const struct swept *swept = &source->swept;
    const struct colours colours = colours_of(swept);
    size_t all = 0, nth = 0, next = count;
    const struct report_chart chart = {
        .id = "trade",
        .title = "Time per token against output",
        .note = "Lower and to the right is better. Along the line no other point has both more "
                "output and shorter tokens.",
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
    size_t every = (all + MARKS_MAX - 1) / MARKS_MAX;
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

static bool put_trades(const struct source *source)
{
    size_t count = 0, front_count = 0;
    const struct swept_point **list = best_points(&source->swept, SIZE_MAX, &count);
    const struct swept_point **front = best_points(&source->swept, SIZE_MAX, &count);
    bool ok = list != NULL && front != NULL;

    if (ok) {
        qsort(list, count, sizeof *list, compare_outputs);
        memcpy(front, list, count * sizeof *list);
        front_count = keep_front(front, count);
        if (front_count > 0 && source->swept.ok_count > 1)
            put_trade(source, list, front, front_count);
    }
    free(list);
    free(front);
    return ok;
}

/* ---- Tables
 * ---------------------------------------------------------------------------------------- */

static bool is_known(const struct source *source, size_t m)
{
    return isfinite(source->ranges[m].least);
}

static bool put_columns(const struct source *source, const char *note)
{
    const struct swept *swept = &source->swept;
    struct report_column *columns = calloc(swept->axis_count + SHOWN + 2, sizeof *columns);
    size_t used = 0;

    if (columns == NULL)
        return false;
    columns[used++] = (struct report_column){"point", "point", false};
    for (size_t i = 0; i < swept->axis_count; i++)
        columns[used++] =
            (struct report_column){swept->axes[i].path, swept->axes[i].label,
                                   !swept->axes[i].is_numeric || swept->axes[i].is_multiple};
    if (swept->ok_count < swept->point_count || swept->bound_count > 0)
        columns[used++] = (struct report_column){"status", "status", true};
    for (size_t m = 0; m < SHOWN; m++) {
        if (is_known(source, m))
            columns[used++] = (struct report_column){shown[m].column, shown[m].title, false};
    }
    report_table(source->page, "points", REPORT_MAIN, note, columns, used);
    free(columns);
    return true;
}

static void put_row(const struct source *source, const struct swept_point *point)
{
    const struct swept *swept = &source->swept;
    const char *status = report_text(point->tree, "status");

    report_row(source->page);
    report_cell(source->page, (double)point->number);
    for (size_t i = 0; i < swept->axis_count; i++) {
        const struct swept_axis *axis = &swept->axes[i];
        const char *text = swept_value(point, axis, source->arena);
        if (axis->is_numeric && !axis->is_multiple)
            report_cell(source->page, swept_number(point, axis));
        else
            report_cell_text(source->page, text != NULL ? text : "", NULL);
    }
    if (swept->ok_count < swept->point_count || swept->bound_count > 0)
        report_cell_text(source->page, point->is_bound ? "bound" : status,
                         point->is_bound ? "soft"
                         : point->is_ok  ? "good"
                                         : "bad");
    for (size_t m = 0; m < SHOWN; m++) {
        if (is_known(source, m))
            report_cell(source->page, swept_metric(point, shown[m].name) * shown[m].scale);
    }
}

static bool put_table(const struct source *source)
{
    const struct swept *swept = &source->swept;
    size_t count = 0;
    const struct swept_point **points = best_points(swept, ROWS_MAX, &count);
    char note[128];

    snprintf(note, sizeof note, "The %zu with most output per GPU, of %zu; results.csv has all",
             count, swept->point_count);
    report_section(source->page, "The points", NULL);
    if (points == NULL || !put_columns(source, count < swept->point_count ? note : NULL)) {
        free(points);
        return false;
    }
    for (size_t p = 0; p < count; p++)
        put_row(source, points[p]);
    free(points);
    return true;
}

/* What failed, by reason. */
static void put_failures(const struct source *source)
{
    static const struct report_column columns[] = {{"status", "status", true},
                                                   {"reason", "reason", true},
                                                   {"points", "points", false},
                                                   {"first", "the first of them", true}};
    const struct swept *swept = &source->swept;
    const struct swept_point *firsts[REASONS_MAX];
    size_t counts[REASONS_MAX], count = 0, others = 0, r = 0;

    for (size_t p = 0; p < swept->point_count; p++) {
        const struct swept_point *point = &swept->points[p];
        if (point->is_ok)
            continue;
        for (r = 0; r < count && strcmp(report_text(firsts[r]->tree, "message"),
                                        report_text(point->tree, "message")) != 0;)
            r++;
        if (r == REASONS_MAX) {
            others++;
            continue;
        }
        if (r == count) {
            firsts[count] = point;
            counts[count++] = 0;
        }
        counts[r]++;
    }
    if (count == 0)
        return;
    report_section(source->page, "Without results", NULL);
    report_table(source->page, "failures", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    for (r = 0; r < count; r++) {
        report_row(source->page);
        report_cell_text(source->page, report_text(firsts[r]->tree, "status"), "bad");
        report_cell_text(source->page, report_text(firsts[r]->tree, "message"), NULL);
        report_cell(source->page, (double)counts[r]);
        report_cell_text(source->page, firsts[r]->name, NULL);
    }
    if (others > 0)
        report_paragraph(source->page, "%zu more have other reasons, which results.csv tells.",
                         others);
}

/* ---- The page
 * ---------------------------------------------------------------------------------------- */

static bool put_page(const struct source *source)
{
    const struct swept *swept = &source->swept;
    bool ok = true;

    say_counts(source);
    say_best(source);
    put_figures(source);
    assume_seeds(source);
    assume_bases(source);
    assume_fixed(source);
    put_badge(source);
    if (swept->ok_count > 0 && swept->x != NULL) {
        char title[256];
        snprintf(title, sizeof title, "Over %.200s", swept->x->path);
        report_section(source->page, title, NULL);
        ok = put_over_axis(source);
    } else if (swept->ok_count > 0) {
        report_section(source->page, "Beside each other", NULL);
        ok = put_beside_each_other(source);
    }
    ok = ok && put_trades(source) && put_table(source);
    put_failures(source);
    report_add_scenario(source->page, "The scenario before the points' own values",
                        kvt_json_find(source->tree, "scenario"));
    return ok;
}

kvt_status report_build_sweep(struct report_page *page, const char *dir, const cJSON *tree,
                              struct kvt_error *err)
{
    struct source source = {.page = page, .tree = tree, .arena = kvt_arena_new(1 << 16)};
    kvt_status status = source.arena != NULL
                            ? swept_read(tree, "results.json", source.arena, &source.swept, err)
                            : kvt_fail_nomem(err, "a report");

    (void)dir;
    if (status == KVT_OK)
        find_ranges(&source);
    if (status == KVT_OK && !put_page(&source))
        status = kvt_fail_nomem(err, "a report");
    kvt_arena_free(source.arena);
    return status;
}
