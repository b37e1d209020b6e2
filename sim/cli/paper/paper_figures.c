/* paper_figures.c -- our version of the paper's figures and tables, as figures.json says: charts,
 * bars of a step's parts, tables whose cells are targets or values of points. */
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "paper_page.h"

/* ---- Charts ----------------------------------------------------------------------------- */

enum {
    SERIES_MAX = 16,
    COLUMNS_MAX = 16
};

static void put_points(struct report_page *report, const struct page_series *series)
{
    for (size_t i = 0; i < series->count; i++)
        report_point(report, (struct report_point){.series = series->name,
                                                   .x = series->x[i],
                                                   .y = series->y[i],
                                                   .kind = series->is_paper   ? REPORT_REFERENCE
                                                           : series->is_cloud ? REPORT_MARK
                                                                              : REPORT_ON_LINE});
}

/* "Figure 4: GLM-5.3 at 100K" and "(a) output" make "Figure 4 (a) output". */
static const char *title_of(struct page *page, const cJSON *figure, const cJSON *spec)
{
    const char *whole = page_text(figure, "title"), *own = page_text(spec, "title");
    size_t length = whole != NULL ? strcspn(whole, ":") : 0;

    return kvt_arena_printf(page->arena, "%.*s %s", (int)length, whole != NULL ? whole : "",
                            own != NULL ? own : "");
}

static kvt_status put_chart(struct page *page, const cJSON *figure, const cJSON *spec, int nth,
                            struct kvt_error *err)
{
    const char *x = page_text(spec, "x"), *y = page_text(spec, "y");
    struct page_series series[SERIES_MAX];
    struct report_chart chart = {
        .id = kvt_arena_printf(page->arena, "%s-%d", page_text(figure, "id"), nth),
        .title = title_of(page, figure, spec),
        .form = REPORT_LINES,
        .x = {"x", x != NULL ? x : "", cJSON_IsTrue(kvt_json_find(spec, "log_x")), true},
        .y = {"y", y != NULL ? y : "", cJSON_IsTrue(kvt_json_find(spec, "log_y")), true},
        .series = "series"};
    const cJSON *entry = NULL;
    size_t count = 0, drawn = 0;

    if (chart.id == NULL || chart.title == NULL)
        return kvt_fail_nomem(err, "a chart");
    cJSON_ArrayForEach(entry, kvt_json_find(spec, "series"))
    {
        const char *name = page_text(entry, "name");
        if (count == SERIES_MAX)
            break;
        series[count] = (struct page_series){.name = name != NULL ? name : ""};
        kvt_status status = page_fill_series(page, entry, &series[count], err);
        if (status != KVT_OK)
            return status;
        drawn += series[count].is_paper ? 0 : series[count].count;
        chart.has_kinds = chart.has_kinds || series[count].is_cloud ||
                          (series[count].is_paper && series[count].count > 0);
        chart.note = series[count].is_paper ? "Open circles are the paper's." : chart.note;
        count += series[count].count > 0;
    }
    if (drawn == 0) {
        report_paragraph(page->report, "%s: not run here", chart.title);
        return KVT_OK;
    }
    report_chart(page->report, &chart);
    for (size_t s = 0; s < count; s++)
        put_points(page->report, &series[s]);
    return KVT_OK;
}

static const struct paper_line *find_line(const struct page *page, const char *id)
{
    for (size_t i = 0; i < page->answer->line_count; i++) {
        if (strcmp(page->answer->lines[i].target->id, id) == 0)
            return &page->answer->lines[i];
    }
    return NULL;
}

/* ---- Bars and tables -------------------------------------------------------------------- */

static kvt_status put_bars(const struct page *page, const cJSON *figure, struct kvt_error *err)
{
    const cJSON *entry = NULL, *part = NULL, *bars = kvt_json_find(figure, "bars");
    const struct report_chart chart = {
        .id = kvt_arena_printf(page->arena, "%s-parts", page_text(figure, "id")),
        .title = "What a step is made of, on average",
        .form = REPORT_BARS,
        .x = {.name = "ms", .title = "ms", .is_from_zero = true},
        .y = {.name = "run", .title = "run"},
        .series = "part",
        .is_wide = true};

    if (bars == NULL)
        return KVT_OK;
    if (chart.id == NULL)
        return kvt_fail_nomem(err, "a chart");
    report_chart(page->report, &chart);
    cJSON_ArrayForEach(entry, bars)
    {
        const char *id = page_text(entry, "point"), *at = page_text(entry, "at");
        const char *name = page_text(entry, "name");
        const struct paper_point *point =
            id != NULL ? paper_find_point(page->answer->paper, id) : NULL;
        if (point == NULL || point->tree == NULL || at == NULL)
            continue;
        cJSON_ArrayForEach(part, paper_at(point->tree, at))
        {
            if (cJSON_IsNumber(part) && part->valuedouble > 0)
                report_point(page->report,
                             (struct report_point){.series = part->string,
                                                   .category = name != NULL ? name : id,
                                                   .x = part->valuedouble});
        }
    }
    return KVT_OK;
}

const char *page_style_of(const struct paper_line *line)
{
    switch (line->verdict.kind) {
    case PAPER_WITHIN:
    case PAPER_HOLDS_TRUE:
        return "good";
    case PAPER_OUTSIDE:
    case PAPER_FAILS:
        return line->target->class_of == PAPER_CALIBRATED ? "" : "bad";
    default:
        return "soft";
    }
}

/* A target as "ours (paper)", a value of a point, or text. */
static void put_cell(const struct page *page, const cJSON *cell)
{
    char ours[PAPER_TEXT_BYTES], claim[PAPER_TEXT_BYTES], both[2 * PAPER_TEXT_BYTES + 8];
    const char *id = page_text(cell, "point"), *at = page_text(cell, "at");

    if (id != NULL && at != NULL) {
        const struct paper_point *point = paper_find_point(page->answer->paper, id);
        double value = point != NULL ? paper_number(point->tree, at) : (double)NAN;
        report_cell(page->report, value * page_scale(cell, "divide"));
        return;
    }
    const char *text = cJSON_IsString(cell) ? cell->valuestring : "";
    const struct paper_line *line = find_line(page, text);
    const struct paper_target *target = page_find_target(page, text);
    if (target == NULL) {
        report_cell_text(page->report, text, NULL);
        return;
    }
    paper_print_claim(target, claim);
    if (line == NULL) {
        snprintf(both, sizeof both, "(%s)", claim);
        report_cell_text(page->report, both, "soft");
        return;
    }
    paper_print_value(line, ours);
    snprintf(both, sizeof both, "%s (%s)", ours, claim);
    report_cell_text(page->report, both, page_style_of(line));
}

static void put_table(const struct page *page, const cJSON *figure)
{
    const cJSON *spec = kvt_json_find(figure, "table"), *row = NULL, *cell = NULL;
    struct report_column columns[COLUMNS_MAX];
    size_t count = 0;

    if (spec == NULL)
        return;
    cJSON_ArrayForEach(cell, kvt_json_find(spec, "columns"))
    {
        const char *name = cJSON_IsString(cell) ? cell->valuestring : "";
        if (count < COLUMNS_MAX)
            columns[count++] = (struct report_column){name, name, true};
    }
    report_table(page->report, page_text(figure, "id"), REPORT_OPEN, NULL, columns, count);
    cJSON_ArrayForEach(row, kvt_json_find(spec, "rows"))
    {
        report_row(page->report);
        cJSON_ArrayForEach(cell, row)
        {
            put_cell(page, cell);
        }
    }
}

kvt_status page_put_figure(struct page *page, const cJSON *figure, struct kvt_error *err)
{
    const cJSON *chart = NULL;
    kvt_status status = KVT_OK;
    int nth = 0;

    report_section(page->report, page_text(figure, "title"), page_text(figure, "note"));
    cJSON_ArrayForEach(chart, kvt_json_find(figure, "charts"))
    {
        if (status == KVT_OK)
            status = put_chart(page, figure, chart, ++nth, err);
    }
    if (status == KVT_OK)
        status = put_bars(page, figure, err);
    if (status == KVT_OK)
        put_table(page, figure);
    return status;
}
