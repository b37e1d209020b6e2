/* report_sweep.c -- the page of a sweep: the best points, what they rest on, and tables; its charts
 * are in sweep_charts.c. However many points there are, the page stays a few megabytes at most:
 * what it leaves out it says. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"
#include "sweep_page.h"

enum {
    ROWS_MAX = 500,   /* of the table of points */
    REASONS_MAX = 20, /* of what failed */
    BASES_MAX = 8
};

static const char *metric_figure(const struct swept_point *point, const char *metric,
                                 char out[REPORT_NUMBER_BYTES])
{
    return report_value_text(swept_metric(point, metric), out);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static const cJSON *first_failure(const struct swept *swept)
{
    for (size_t p = 0; p < swept->point_count; p++) {
        if (!swept->points[p].is_ok)
            return swept->points[p].tree;
    }
    return NULL;
}

static void say_counts(const struct sweep_page *source)
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

static void say_best(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *most = sweep_best(swept, SWEEP_OUTPUT, true, false);
    const struct swept_point *shortest = sweep_best(swept, SWEEP_TPOT, false, false);
    const struct swept_point *kept = sweep_best(swept, SWEEP_OUTPUT, true, true);
    const struct swept_point *cheapest = sweep_best(swept, SWEEP_COST, false, false);
    char first[REPORT_NUMBER_BYTES], second[REPORT_NUMBER_BYTES];

    if (most != NULL)
        report_say(source->page,
                   "Most output: %s tokens/s a GPU at %s, where a token takes %s ms on average.",
                   metric_figure(most, SWEEP_OUTPUT, first), most->name,
                   metric_figure(most, SWEEP_TPOT, second));
    if (shortest != NULL && shortest != most)
        report_say(source->page, "Shortest time per token: %s ms at %s, with %s tokens/s a GPU.",
                   metric_figure(shortest, SWEEP_TPOT, first), shortest->name,
                   metric_figure(shortest, SWEEP_OUTPUT, second));
    if (kept != NULL)
        report_say(source->page, "Most output with every promise kept: %s tokens/s a GPU at %s.",
                   metric_figure(kept, SWEEP_OUTPUT, first), kept->name);
    else if (sweep_best(swept, SWEEP_MARGIN, true, false) != NULL)
        report_say(source->page, "No point keeps every promise.");
    if (cheapest != NULL)
        report_say(source->page, "Cheapest: %s USD a million output tokens at %s.",
                   metric_figure(cheapest, SWEEP_COST, first), cheapest->name);
    if (swept->bound_count > 0)
        report_say(source->page,
                   "%zu point%s of a policy that saw the future: bounds, which cannot be had and "
                   "are not counted among the best.",
                   swept->bound_count, swept->bound_count == 1 ? " is" : "s are");
}

static void put_figures(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    const struct swept_point *most = sweep_best(swept, SWEEP_OUTPUT, true, false);
    const struct swept_point *shortest = sweep_best(swept, SWEEP_TPOT, false, false);
    const struct swept_point *cheapest = sweep_best(swept, SWEEP_COST, false, false);
    char note[64];

    snprintf(note, sizeof note, "of %zu", swept->point_count);
    report_figure(source->page, "Points with results", (double)swept->ok_count, NULL, note);
    if (most != NULL)
        report_figure(source->page, "Most output per GPU", swept_metric(most, SWEEP_OUTPUT),
                      "tokens/s", most->name);
    if (shortest != NULL)
        report_figure(source->page, "Shortest mean TPOT", swept_metric(shortest, SWEEP_TPOT), "ms",
                      shortest->name);
    if (cheapest != NULL)
        report_figure(source->page, "Cheapest million tokens", swept_metric(cheapest, SWEEP_COST),
                      "USD", cheapest->name);
}

/* ---- What it rests on ------------------------------------------------------------------------ */

static void assume_seeds(const struct sweep_page *source)
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

static void assume_bases(const struct sweep_page *source)
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

static void assume_fixed(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;

    for (size_t i = 0; i < swept->axis_count; i++) {
        if (swept->axes[i].value_count == 1)
            report_assume(source->page, swept->axes[i].path,
                          swept_value(&swept->points[0], &swept->axes[i], source->arena), NULL);
    }
}

static void put_badge(const struct sweep_page *source)
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

/* ---- Tables ---------------------------------------------------------------------------------- */

static bool put_columns(const struct sweep_page *source, const char *note)
{
    const struct swept *swept = &source->swept;
    struct report_column *columns = calloc(swept->axis_count + SWEEP_SHOWN + 2, sizeof *columns);
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
    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        if (sweep_is_known(source, m))
            columns[used++] =
                (struct report_column){sweep_shown[m].column, sweep_shown[m].title, false};
    }
    report_table(source->page, "points", REPORT_MAIN, note, columns, used);
    free(columns);
    return true;
}

static void put_row(const struct sweep_page *source, const struct swept_point *point)
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
    for (size_t m = 0; m < SWEEP_SHOWN; m++) {
        if (sweep_is_known(source, m))
            report_cell(source->page,
                        swept_metric(point, sweep_shown[m].name) * sweep_shown[m].scale);
    }
}

static bool put_table(const struct sweep_page *source)
{
    const struct swept *swept = &source->swept;
    size_t count = 0;
    const struct swept_point **points = sweep_best_points(swept, ROWS_MAX, &count);
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
static void put_failures(const struct sweep_page *source)
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

/* ---- The page -------------------------------------------------------------------------------- */

static bool put_page(const struct sweep_page *source)
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
        ok = sweep_put_over_axis(source);
    } else if (swept->ok_count > 0) {
        report_section(source->page, "Beside each other", NULL);
        ok = sweep_put_bars(source);
    }
    ok = ok && sweep_put_trades(source) && put_table(source);
    put_failures(source);
    report_add_scenario(source->page, "The scenario before the points' own values",
                        kvt_json_find(source->tree, "scenario"));
    return ok;
}

kvt_status report_build_sweep(struct report_page *page, const char *dir, const cJSON *tree,
                              struct kvt_error *err)
{
    struct sweep_page source = {.page = page, .tree = tree, .arena = kvt_arena_new(1 << 16)};
    kvt_status status = source.arena != NULL
                            ? swept_read(tree, "results.json", source.arena, &source.swept, err)
                            : kvt_fail_nomem(err, "a report");

    (void)dir;
    if (status == KVT_OK)
        sweep_find_ranges(&source);
    if (status == KVT_OK && !put_page(&source))
        status = kvt_fail_nomem(err, "a report");
    kvt_arena_free(source.arena);
    return status;
}
