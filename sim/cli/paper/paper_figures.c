/* paper_figures.c -- our version of the paper's figures and tables, as figures.json says: charts,
 * bars of a step's parts, tables whose cells are targets or values of points. */
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "paper_page.h"

/* ---- Charts ----------------------------------------------------------------------------- */

/* Series of one name have one colour. */
static unsigned color_of(const struct chart *chart, const char *name)
{
    unsigned color = 0;

    for (size_t s = 0; s < chart->series_count; s++) {
        if (strcmp(chart->series[s].name, name) == 0)
            return chart->series[s].color;
        color += !chart->series[s].is_paper;
    }
    return color;
}
static kvt_status put_chart(struct page *page, const cJSON *spec, struct kvt_error *err)
{
    const char *title = page_text(spec, "title"), *x = page_text(spec, "x"),
               *y = page_text(spec, "y");
    struct chart chart = {.title = title != NULL ? title : "",
                          .x_label = x != NULL ? x : "",
                          .y_label = y != NULL ? y : "",
                          .log_x = cJSON_IsTrue(kvt_json_find(spec, "log_x")),
                          .log_y = cJSON_IsTrue(kvt_json_find(spec, "log_y"))};
    const cJSON *entry = NULL;
    size_t drawn = 0;

    cJSON_ArrayForEach(entry, kvt_json_find(spec, "series"))
    {
        const char *name = page_text(entry, "name");
        if (chart.series_count == CHART_SERIES_MAX)
            break;
        struct chart_series *series = &chart.series[chart.series_count];
        *series = (struct chart_series){.name = name != NULL ? name : "",
                                        .color = color_of(&chart, name != NULL ? name : "")};
        kvt_status status = page_fill_series(page, entry, series, err);
        if (status != KVT_OK)
            return status;
        drawn += series->is_paper ? 0 : series->count;
        chart.series_count += series->count > 0;
    }
    if (drawn > 0)
        chart_draw(&chart, page->stream);
    else
        fprintf(page->stream, "<p class=\"soft\">%s: not run here</p>\n", chart.title);
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

static void put_bars(const struct page *page, const cJSON *spec)
{
    struct chart_bar bars[CHART_SERIES_MAX];
    size_t count = 0;
    const cJSON *entry = NULL, *part = NULL;

    cJSON_ArrayForEach(entry, spec)
    {
        const char *id = page_text(entry, "point"), *at = page_text(entry, "at");
        const struct paper_point *point =
            id != NULL ? paper_find_point(page->answer->paper, id) : NULL;
        if (point == NULL || point->tree == NULL || at == NULL || count == CHART_SERIES_MAX)
            continue;
        struct chart_bar *bar = &bars[count++];
        *bar = (struct chart_bar){.name = page_text(entry, "name")};
        bar->name = bar->name != NULL ? bar->name : id;
        cJSON_ArrayForEach(part, paper_at(point->tree, at))
        {
            if (bar->part_count == CHART_PARTS_MAX || !cJSON_IsNumber(part))
                continue;
            bar->parts[bar->part_count] = part->string;
            bar->values[bar->part_count++] = part->valuedouble;
        }
    }
    chart_draw_bars(bars, count, page->stream);
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
    char ours[PAPER_TEXT_BYTES], claim[PAPER_TEXT_BYTES];
    FILE *stream = page->stream;
    const char *id = page_text(cell, "point"), *at = page_text(cell, "at");

    if (id != NULL && at != NULL) {
        const struct paper_point *point = paper_find_point(page->answer->paper, id);
        double value = point != NULL ? paper_number(point->tree, at) : (double)NAN;
        if (isfinite(value))
            fprintf(stream, "<td>%.4g</td>", value * page_scale(cell, "divide"));
        else
            fputs("<td>-</td>", stream);
        return;
    }
    const char *text = cJSON_IsString(cell) ? cell->valuestring : "";
    const struct paper_line *line = find_line(page, text);
    const struct paper_target *target = page_find_target(page, text);
    if (target == NULL) {
        fputs("<td>", stream);
        chart_text(stream, text);
        fputs("</td>", stream);
        return;
    }
    paper_print_claim(target, claim);
    if (line == NULL) {
        fprintf(stream, "<td class=\"soft\">(%s)</td>", claim);
        return;
    }
    paper_print_value(line, ours);
    fprintf(stream, "<td><span class=\"%s\">%s</span> <span class=\"soft\">(%s)</span></td>",
            page_style_of(line), ours, claim);
}

static void put_table(const struct page *page, const cJSON *spec)
{
    const cJSON *row = NULL, *cell = NULL;

    fputs("<div class=\"wide\"><table><tr>", page->stream);
    cJSON_ArrayForEach(cell, kvt_json_find(spec, "columns"))
    {
        fputs("<th>", page->stream);
        chart_text(page->stream, cJSON_IsString(cell) ? cell->valuestring : "");
        fputs("</th>", page->stream);
    }
    fputs("</tr>\n", page->stream);
    cJSON_ArrayForEach(row, kvt_json_find(spec, "rows"))
    {
        fputs("<tr>", page->stream);
        cJSON_ArrayForEach(cell, row)
        {
            put_cell(page, cell);
        }
        fputs("</tr>\n", page->stream);
    }
    fputs("</table></div>\n", page->stream);
}

kvt_status page_put_figure(struct page *page, const cJSON *figure, struct kvt_error *err)
{
    const char *title = page_text(figure, "title"), *note = page_text(figure, "note");
    const cJSON *chart = NULL;
    kvt_status status = KVT_OK;

    fputs("<section><h3>", page->stream);
    chart_text(page->stream, title != NULL ? title : "");
    fputs("</h3>\n", page->stream);
    if (note != NULL) {
        fputs("<p>", page->stream);
        chart_text(page->stream, note);
        fputs("</p>\n", page->stream);
    }
    fputs("<div class=\"charts\">\n", page->stream);
    cJSON_ArrayForEach(chart, kvt_json_find(figure, "charts"))
    {
        if (status == KVT_OK)
            status = put_chart(page, chart, err);
    }
    fputs("</div>\n", page->stream);
    if (kvt_json_find(figure, "bars") != NULL)
        put_bars(page, kvt_json_find(figure, "bars"));
    if (kvt_json_find(figure, "table") != NULL)
        put_table(page, kvt_json_find(figure, "table"));
    fputs("</section>\n", page->stream);
    return status;
}
