/* paper_html.c -- one page with every target, our version of the paper's figures and tables, and
 * what was fitted: whole in itself, without scripts and without a network.
 *
 * What is drawn is said by figures.json: charts whose series are families of points, courses of a
 * run, or measured figures; bars of a step's parts; tables whose cells are targets or values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/version.h"
#include "paper.h"
#include "paper_chart.h"

struct page {
    const struct paper_answer *answer;
    struct kvt_arena *arena;
    FILE *stream;
};

static const char style[] =
    "<style>\n"
    ":root{--ink:#1a1a1a;--soft:#666;--back:#fff;--edge:#ddd;--good:#0a7d38;--bad:#b3261e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#9a9a9a;--back:#161616;"
    "--edge:#3a3a3a;--good:#5ccb86;--bad:#ff8a80}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);"
    "max-width:1180px;margin:0 auto;padding:16px}\n"
    "table{border-collapse:collapse;font-size:13px;margin:8px 0}"
    "th,td{border-bottom:1px solid var(--edge);padding:2px 8px;text-align:left;"
    "vertical-align:top}\n"
    ".wide{overflow-x:auto}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}"
    ".soft{color:var(--soft)}\n"
    ".charts{display:flex;flex-wrap:wrap;gap:16px}.chart{flex:1 1 340px;max-width:480px}\n"
    "h4{margin:8px 0 0;font-size:14px}svg{width:100%;height:auto}"
    ".bars{max-width:720px;display:block}\n"
    ".grid{stroke:var(--edge)}.axis{stroke:var(--soft)}"
    ".tick,.label{font-size:11px;fill:var(--soft)}\n"
    ".line{fill:none;stroke:currentColor;stroke-width:2}.mark{fill:currentColor}"
    ".open{fill:none;stroke:currentColor;stroke-width:2}.fill{fill:currentColor}\n"
    ".legend{margin:0;font-size:12px}.legend>span{margin-right:10px;white-space:nowrap}\n"
    ".dot,.ring{display:inline-block;width:9px;height:9px;border-radius:9px;margin-right:4px;"
    "border:2px solid currentColor}.dot{background:currentColor}\n"
    ".c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#cc79a7}"
    ".c4{color:#b8860b}.c5{color:#56b4e9}.c6{color:#7f7f7f}.c7{color:#8c6bb1}.c8{color:#a65628}.c9{"
    "color:#17a2a2}\n"
    "@media print{body{max-width:none}details{display:none}}\n"
    "</style>\n";

/* ---- Series
 * --------------------------------------------------------------------------------------- */

static const struct paper_line *find_line(const struct page *page, const char *id)
{
    for (size_t i = 0; i < page->answer->line_count; i++) {
        if (strcmp(page->answer->lines[i].target->id, id) == 0)
            return &page->answer->lines[i];
    }
    return NULL;
}

static const struct paper_target *find_target(const struct page *page, const char *id)
{
    const struct paper *paper = page->answer->paper;

    for (size_t i = 0; i < paper->target_count; i++) {
        if (strcmp(paper->targets[i].id, id) == 0)
            return &paper->targets[i];
    }
    return NULL;
}

/* Room for so many points in the arena. */
static kvt_status make_room(struct page *page, size_t count, double **x, double **y,
                            struct kvt_error *err)
{
    *x = kvt_arena_array(page->arena, count + 1, sizeof **x, _Alignof(double));
    *y = kvt_arena_array(page->arena, count + 1, sizeof **y, _Alignof(double));
    return *x != NULL && *y != NULL ? KVT_OK : kvt_fail_nomem(err, "a chart");
}

static const char *text_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double scale_of(const cJSON *spec, const char *key)
{
    double divide = paper_number(spec, key);
    return isnan(divide) ? 1 : 1 / divide;
}

/* A point for each of a family's that there is. */
static kvt_status fill_family(struct page *page, const cJSON *spec, const char *family,
                              struct chart_series *out, struct kvt_error *err)
{
    const struct paper *paper = page->answer->paper;
    const char *x_path = text_at(spec, "x"), *y_path = text_at(spec, "y");
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, paper->point_count, &x, &y, err);

    for (size_t i = 0; status == KVT_OK && y_path != NULL && i < paper->point_count; i++) {
        const struct paper_point *point = &paper->points[i];
        if (strcmp(point->family, family) != 0 || point->tree == NULL)
            continue;
        x[out->count] = scale_of(spec, "x_divide") *
                        (x_path != NULL ? paper_number(point->tree, x_path) : point->x);
        y[out->count++] = scale_of(spec, "y_divide") * paper_number(point->tree, y_path);
    }
    out->x = x;
    out->y = y;
    return status;
}

/* Two arrays of one tree. */
static kvt_status fill_course(struct page *page, const cJSON *spec, const cJSON *tree,
                              struct chart_series *out, struct kvt_error *err)
{
    const char *x_path = text_at(spec, "x"), *y_path = text_at(spec, "y");
    const cJSON *xs = x_path != NULL ? paper_at(tree, x_path) : NULL;
    const cJSON *ys = y_path != NULL ? paper_at(tree, y_path) : NULL;
    size_t count = (size_t)cJSON_GetArraySize(xs);
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, count, &x, &y, err);
    const cJSON *item = xs != NULL ? xs->child : NULL, *other = ys != NULL ? ys->child : NULL;

    for (; status == KVT_OK && item != NULL && other != NULL;
         item = item->next, other = other->next) {
        x[out->count] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
        y[out->count++] =
            scale_of(spec, "y_divide") * (cJSON_IsNumber(other) ? other->valuedouble : (double)NAN);
    }
    out->x = x;
    out->y = y;
    return status;
}

/* The number behind a text of a figure's name: "figure 8b, batch 8, B 512" behind ", B ". */
static double number_behind(const char *name, const char *text)
{
    const char *found = strstr(name, text);
    return found != NULL ? strtod(found + strlen(text), NULL) : (double)NAN;
}

static bool is_of_series(const char *name, const cJSON *spec)
{
    const char *begins = text_at(spec, "begins"), *ends = text_at(spec, "ends");
    size_t length = strlen(name), tail = ends != NULL ? strlen(ends) : 0;

    return begins != NULL && strncmp(name, begins, strlen(begins)) == 0 && length >= tail &&
           (ends == NULL || strcmp(name + length - tail, ends) == 0);
}

/* Measured figures whose names begin, and end, so. */
static kvt_status fill_measured(struct page *page, const cJSON *spec, const cJSON *tree,
                                struct chart_series *out, struct kvt_error *err)
{
    const char *x_path = text_at(spec, "x"), *behind = text_at(spec, "x_behind");
    const char *y_path = text_at(spec, "y");
    const cJSON *command = NULL, *result = NULL;
    size_t room = 0;
    double *x = NULL, *y = NULL;

    cJSON_ArrayForEach(command, kvt_json_find(tree, "commands"))
    {
        room += (size_t)cJSON_GetArraySize(kvt_json_find(command, "results"));
    }
    kvt_status status = make_room(page, room, &x, &y, err);
    cJSON_ArrayForEach(command, kvt_json_find(tree, "commands"))
    {
        cJSON_ArrayForEach(result, kvt_json_find(command, "results"))
        {
            const char *name = text_at(result, "name");
            if (status != KVT_OK || name == NULL || y_path == NULL || !is_of_series(name, spec))
                continue;
            double at = behind != NULL   ? number_behind(name, behind)
                        : x_path != NULL ? paper_number(result, x_path)
                                         : (double)NAN;
            if (isnan(at) || isnan(paper_number(result, y_path)))
                continue;
            x[out->count] = at * scale_of(spec, "x_divide");
            y[out->count++] = paper_number(result, y_path) * scale_of(spec, "y_divide");
        }
    }
    out->x = x;
    out->y = y;
    return status;
}

/* A least-squares line as it was measured: from no payload to `to`, in the chart's unit. */
static kvt_status fill_line(struct page *page, const cJSON *spec, const char *name,
                            const cJSON *tree, struct chart_series *out, struct kvt_error *err)
{
    const cJSON *line = paper_measured(tree, name);
    double to = paper_number(spec, "to"), bytes = to / scale_of(spec, "x_divide");
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, 2, &x, &y, err);

    if (status != KVT_OK || line == NULL)
        return status;
    x[1] = to;
    y[0] = paper_number(line, "at_zero_us");
    y[1] = y[0] + bytes / (1e3 * paper_number(line, "gb_per_s"));
    *out =
        (struct chart_series){.name = out->name, .color = out->color, .x = x, .y = y, .count = 2};
    return KVT_OK;
}

/* The paper's own: [x, target] or [target, target]. */
static kvt_status fill_paper(struct page *page, const cJSON *spec, struct chart_series *out,
                             struct kvt_error *err)
{
    const cJSON *pairs = kvt_json_find(spec, "paper"), *pair = NULL;
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, (size_t)cJSON_GetArraySize(pairs), &x, &y, err);

    out->is_paper = true;
    cJSON_ArrayForEach(pair, pairs)
    {
        double at[2] = {(double)NAN, (double)NAN};
        for (int i = 0; status == KVT_OK && i < 2; i++) {
            const cJSON *item = cJSON_GetArrayItem(pair, i);
            const struct paper_target *target =
                cJSON_IsString(item) ? find_target(page, item->valuestring) : NULL;
            at[i] = cJSON_IsNumber(item)                         ? item->valuedouble
                    : target != NULL && target->number_count > 0 ? target->numbers[0]
                                                                 : (double)NAN;
        }
        if (status == KVT_OK) {
            x[out->count] = at[0];
            y[out->count++] = at[1];
        }
    }
    out->x = x;
    out->y = y;
    return status;
}

static kvt_status fill_series(struct page *page, const cJSON *spec, struct chart_series *out,
                              struct kvt_error *err)
{
    const char *family = text_at(spec, "family"), *id = text_at(spec, "point");

    out->is_cloud = cJSON_IsTrue(kvt_json_find(spec, "cloud"));
    if (kvt_json_find(spec, "paper") != NULL)
        return fill_paper(page, spec, out, err);
    if (family != NULL)
        return fill_family(page, spec, family, out, err);
    const struct paper_point *point = id != NULL ? paper_find_point(page->answer->paper, id) : NULL;
    const char *line = text_at(spec, "line");
    if (point == NULL || point->tree == NULL)
        return KVT_OK;
    if (line != NULL)
        return fill_line(page, spec, line, point->tree, out, err);
    return point->kind == PAPER_MEASURED ? fill_measured(page, spec, point->tree, out, err)
                                         : fill_course(page, spec, point->tree, out, err);
}

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
    const char *title = text_at(spec, "title"), *x = text_at(spec, "x"), *y = text_at(spec, "y");
    struct chart chart = {.title = title != NULL ? title : "",
                          .x_label = x != NULL ? x : "",
                          .y_label = y != NULL ? y : "",
                          .log_x = cJSON_IsTrue(kvt_json_find(spec, "log_x")),
                          .log_y = cJSON_IsTrue(kvt_json_find(spec, "log_y"))};
    const cJSON *entry = NULL;
    size_t drawn = 0;

    cJSON_ArrayForEach(entry, kvt_json_find(spec, "series"))
    {
        const char *name = text_at(entry, "name");
        if (chart.series_count == CHART_SERIES_MAX)
            break;
        struct chart_series *series = &chart.series[chart.series_count];
        *series = (struct chart_series){.name = name != NULL ? name : "",
                                        .color = color_of(&chart, name != NULL ? name : "")};
        kvt_status status = fill_series(page, entry, series, err);
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

/* ---- Bars and tables
 * -------------------------------------------------------------------------------- */

static void put_bars(const struct page *page, const cJSON *spec)
{
    struct chart_bar bars[CHART_SERIES_MAX];
    size_t count = 0;
    const cJSON *entry = NULL, *part = NULL;

    cJSON_ArrayForEach(entry, spec)
    {
        const char *id = text_at(entry, "point"), *at = text_at(entry, "at");
        const struct paper_point *point =
            id != NULL ? paper_find_point(page->answer->paper, id) : NULL;
        if (point == NULL || point->tree == NULL || at == NULL || count == CHART_SERIES_MAX)
            continue;
        struct chart_bar *bar = &bars[count++];
        *bar = (struct chart_bar){.name = text_at(entry, "name")};
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

static const char *class_of(const struct paper_line *line)
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
    const char *id = text_at(cell, "point"), *at = text_at(cell, "at");

    if (id != NULL && at != NULL) {
        const struct paper_point *point = paper_find_point(page->answer->paper, id);
        double value = point != NULL ? paper_number(point->tree, at) : (double)NAN;
        if (isfinite(value))
            fprintf(stream, "<td>%.4g</td>", value * scale_of(cell, "divide"));
        else
            fputs("<td>-</td>", stream);
        return;
    }
    const char *text = cJSON_IsString(cell) ? cell->valuestring : "";
    const struct paper_line *line = find_line(page, text);
    const struct paper_target *target = find_target(page, text);
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
            class_of(line), ours, claim);
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

static kvt_status put_figure(struct page *page, const cJSON *figure, struct kvt_error *err)
{
    const char *title = text_at(figure, "title"), *note = text_at(figure, "note");
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

/* ---- Targets and parameters
 * ---------------------------------------------------------------------------- */

static void put_scores(const struct page *page)
{
    fputs("<table><tr><th></th><th>class</th><th>good</th><th>of</th><th>open</th></tr>\n",
          page->stream);
    for (int c = 0; c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(page->answer, (enum paper_class)c, &score);
        if (score.asked > 0)
            fprintf(page->stream,
                    "<tr><td>%s</td><td>%s</td><td>%zu</td><td>%zu</td><td>%zu</td></tr>\n",
                    paper_class_letter((enum paper_class)c), paper_class_name((enum paper_class)c),
                    score.good, score.asked, score.open);
    }
    fputs("</table>\n<p>Exact ones must come out as printed. To calibrated ones a parameter was "
          "fitted: that they agree proves nothing. Predicted ones are evidence, as far as it "
          "goes: output, active and TTFT of one run hang together.</p>\n",
          page->stream);
}

static void put_made_by(const struct page *page, const struct paper_line *line)
{
    const struct paper_point *points = page->answer->paper->points;

    fputs("<td><details><summary>", page->stream);
    if (line->point_count == 1)
        chart_text(page->stream, points[line->points[0]].id);
    else
        fprintf(page->stream, "%zu points", line->point_count);
    fputs("</summary>", page->stream);
    for (size_t i = 0; i < line->point_count; i++) {
        const struct paper_point *point = &points[line->points[i]];
        chart_text(page->stream, point->id);
        fputs(": ", page->stream);
        chart_text(page->stream, point->source);
        for (size_t s = 0; s < point->set_count; s++) {
            fputs(" ", page->stream);
            chart_text(page->stream, point->sets[s]);
        }
        fputs("<br>", page->stream);
    }
    fputs("</details></td>", page->stream);
}

static void put_remark(const struct page *page, const struct paper_line *line)
{
    const char *says = line->value.says, *note = line->target->note;
    bool missed = line->verdict.kind == PAPER_OUTSIDE || line->verdict.kind == PAPER_FAILS;

    fputs("<td class=\"soft\">", page->stream);
    if (missed && line->target->cause[0] != '\0') {
        fputs("Cause: ", page->stream);
        chart_text(page->stream, line->target->cause);
        fputs(". ", page->stream);
    }
    if (says != NULL && says[0] != '\0') {
        chart_text(page->stream, says);
        fputs(". ", page->stream);
    }
    chart_text(page->stream, note);
    fputs("</td>", page->stream);
}

static void put_targets(const struct page *page)
{
    fputs("<div class=\"wide\"><table><tr><th></th><th>target</th><th>statement</th><th>paper</th>"
          "<th>here</th><th>unit</th><th>error</th><th>verdict</th><th>made by</th><th></th>"
          "</tr>\n",
          page->stream);
    for (size_t i = 0; i < page->answer->line_count; i++) {
        const struct paper_line *line = &page->answer->lines[i];
        const struct paper_target *target = line->target;
        char claim[PAPER_TEXT_BYTES], ours[PAPER_TEXT_BYTES];
        paper_print_claim(target, claim);
        paper_print_value(line, ours);
        fprintf(page->stream, "<tr><td>%s</td><td>", paper_class_letter(target->class_of));
        chart_text(page->stream, target->id);
        fputs("</td><td>", page->stream);
        chart_text(page->stream, target->statement);
        fprintf(page->stream, "</td><td>%s</td><td>%s</td><td>", claim, ours);
        chart_text(page->stream, target->unit);
        fputs("</td><td>", page->stream);
        if (isfinite(line->verdict.error))
            fprintf(page->stream, "%+.1f %%", 100 * line->verdict.error);
        fprintf(page->stream, "</td><td class=\"%s\">%s</td>", class_of(line),
                paper_verdict_name(line->verdict.kind));
        put_made_by(page, line);
        put_remark(page, line);
        fputs("</tr>\n", page->stream);
    }
    fputs("</table></div>\n", page->stream);
}

static void put_parameters(const struct page *page)
{
    const struct paper *paper = page->answer->paper;

    fputs("<div class=\"wide\"><table><tr><th>key</th><th>value</th><th>unit</th><th>set by</th>"
          "<th></th></tr>\n",
          page->stream);
    for (size_t p = 0; p < paper->parameter_count; p++) {
        const struct paper_parameter *parameter = &paper->parameters[p];
        fputs("<tr><td>", page->stream);
        chart_text(page->stream, parameter->key);
        fputs("</td><td>", page->stream);
        if (cJSON_IsString(parameter->value))
            chart_text(page->stream, parameter->value->valuestring);
        else
            fprintf(page->stream, "%.6g", parameter->value->valuedouble);
        fputs(parameter->is_shipped ? "</td><td>" : " (changed)</td><td>", page->stream);
        chart_text(page->stream, parameter->unit);
        fputs("</td><td>", page->stream);
        for (size_t t = 0; t < parameter->set_by_count; t++) {
            chart_text(page->stream, parameter->set_by[t]);
            fputs("<br>", page->stream);
        }
        fputs("</td><td class=\"soft\">", page->stream);
        chart_text(page->stream, parameter->how);
        fputs("</td></tr>\n", page->stream);
    }
    fputs("</table></div>\n", page->stream);
}

/* ---- The page
 * --------------------------------------------------------------------------------------------- */

kvt_status paper_write_page(const struct paper_answer *answer, struct kvt_arena *arena,
                            FILE *stream, struct kvt_error *err)
{
    struct page page = {.answer = answer, .arena = arena, .stream = stream};
    const cJSON *figure = NULL;
    kvt_status status = KVT_OK;

    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
          "<title>kvtide paper</title>\n",
          stream);
    fputs(style, stream);
    fputs("</head><body>\n<h1>", stream);
    chart_text(stream, answer->paper->name);
    fputs("</h1>\n<p>", stream);
    chart_text(stream, answer->paper->summary);
    fprintf(stream,
            "</p>\n<p class=\"soft\">kvtide %s (%s). Open circles are the paper's; everything "
            "else came out of this program's own runs, or of a GPU where it says so.</p>\n",
            kvt_version(), kvt_commit());
    put_scores(&page);
    fputs("<h2>Figures and tables</h2>\n", stream);
    cJSON_ArrayForEach(figure, answer->paper->figures)
    {
        if (status == KVT_OK)
            status = put_figure(&page, figure, err);
    }
    fputs("<h2>Targets</h2>\n", stream);
    put_targets(&page);
    fputs("<h2>What was fitted, or chosen</h2>\n", stream);
    put_parameters(&page);
    fputs("</body></html>\n", stream);
    return status;
}
