/* chart_spec.c -- the Vega-Lite specification of a chart, without data, width and colours: where
 * it is drawn, draw.js gives those.
 *
 * Series differ in colour and besides in dash or shape, and one list of names orders all of it. */
#include <math.h>
#include <string.h>

#include "page.h"
#include "template.h"

enum {
    MARKED_MAX = 40, /* points of a line that is marked too */
    TICKED_MAX = 8,  /* different x of a logarithmic axis that has its ticks there */
    HEIGHT = 230,
    BAR_STEP = 44,
    DOT_STEP = 15
};

#define DASHES                                                                                     \
    "[[1,0],[6,3],[2,2],[9,3,2,3],[4,1],[12,3],[1,3],[9,2,2,2,2,2],[3,5],[14,2,4,2],[5,5],[1,1]]"
#define SHAPES                                                                                     \
    "['circle','square','triangle-up','diamond','cross','triangle-down','triangle-right',"         \
    "'triangle-left']"
#define FIGURE_FORMAT ",.5~r"

/* What the parts of a specification are made from. */
struct sketch {
    const struct report_chart *chart;
    const cJSON *names, *rows;
    size_t name_count, row_count;
};

static cJSON *copy(const cJSON *tree)
{
    return cJSON_Duplicate(tree, true);
}

/* ---- Scales ------------------------------------------------------------------------------------
 */

static bool is_marked(const struct sketch *sketch)
{
    return sketch->chart->form == REPORT_CLOUD || sketch->chart->form == REPORT_DOTS ||
           sketch->chart->has_kinds ||
           (sketch->chart->form == REPORT_LINES &&
            sketch->row_count <= MARKED_MAX * sketch->name_count);
}

/* What stands beside a series' name: its mark, or a piece of its line. With one series there is no
 * legend. */
static cJSON *legend_of(const struct sketch *sketch)
{
    if (sketch->name_count < 2)
        return cJSON_CreateNull();
    return sketch->chart->form == REPORT_LINES && !is_marked(sketch)
               ? report_json("{'symbolType': 'stroke', 'symbolSize': 400}")
               : report_json("{'symbolSize': 80, 'symbolDash': [1, 0], 'symbolStrokeWidth': 0}");
}

/* A channel that tells series apart; range NULL: the theme's colours. */
static cJSON *by_series(const struct sketch *sketch, const char *range, bool has_legend)
{
    cJSON *scale = report_json("{'domain': %j}", copy(sketch->names));
    cJSON *legend = has_legend ? legend_of(sketch) : cJSON_CreateNull();
    cJSON *values = range != NULL ? report_json(range) : NULL;

    if (values != NULL && !cJSON_AddItemToObject(scale, "range", values))
        cJSON_Delete(values);
    return report_json("{'field': %s, 'type': 'nominal', 'title': null, 'scale': %j, 'legend': %j}",
                       sketch->chart->series, scale, legend);
}

static bool is_known(const double *values, size_t count, double value)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] == value)
            return true;
    }
    return false;
}

/* The different x of all points, as ticks; NULL where they are many. */
static cJSON *ticks_of(const struct sketch *sketch)
{
    double found[TICKED_MAX] = {0};
    size_t count = 0;
    const cJSON *row = NULL;

    cJSON_ArrayForEach(row, sketch->rows)
    {
        const cJSON *x = cJSON_GetArrayItem(row, 1);
        if (!cJSON_IsNumber(x) || is_known(found, count, x->valuedouble))
            continue;
        if (count == TICKED_MAX)
            return NULL;
        found[count++] = x->valuedouble;
    }
    return count > 1 ? cJSON_CreateDoubleArray(found, (int)count) : NULL;
}

/* Whether marks would else stand on an axis. */
static bool has_room_about(const struct sketch *sketch, const struct report_axis *axis)
{
    const struct report_chart *chart = sketch->chart;
    bool is_of_marks =
        chart->form == REPORT_CLOUD || chart->form == REPORT_DOTS || chart->has_kinds;
    return axis->is_log ? is_marked(sketch) : is_of_marks && !axis->is_from_zero;
}

/* Whether x ends at a round number, with room for what lies at its end. */
static bool is_rounded(const struct report_chart *chart)
{
    return chart->form == REPORT_BARS || (chart->form == REPORT_DOTS && chart->x.is_from_zero);
}

static cJSON *quantity(const struct sketch *sketch, const struct report_axis *axis, bool is_x)
{
    bool has_ticks = is_x && axis->is_log && sketch->chart->form == REPORT_LINES;
    cJSON *ticks = has_ticks ? ticks_of(sketch) : NULL;
    cJSON *style = axis->is_log ? report_json("{'format': ',~g'}") : cJSON_CreateObject();

    if (ticks != NULL && !cJSON_AddItemToObject(style, "values", ticks))
        cJSON_Delete(ticks);
    if (axis->most > 0)
        return report_json(
            "{'field': %s, 'type': 'quantitative', 'title': %s,"
            " 'scale': {'type': 'linear', 'zero': %b, 'nice': false, 'domainMax': %g},"
            " 'axis': %j}",
            axis->name, axis->title, axis->is_from_zero, axis->most, style);
    return report_json("{'field': %s, 'type': 'quantitative', 'title': %s,"
                       " 'scale': {'type': %s, 'zero': %b, 'nice': %b, 'padding': %g}, 'axis': %j}",
                       axis->name, axis->title, axis->is_log ? "log" : "linear",
                       axis->is_from_zero && !axis->is_log,
                       !axis->is_log && (!is_x || is_rounded(sketch->chart)),
                       has_room_about(sketch, axis) ? 12.0 : 0.0, style);
}

static cJSON *tip(const struct report_axis *axis)
{
    return report_json(
        "{'field': %s, 'type': 'quantitative', 'title': %s, 'format': '" FIGURE_FORMAT "'}",
        axis->name, axis->title);
}

static cJSON *name_tip(const char *column)
{
    return report_json("{'field': %s, 'type': 'nominal', 'title': %s}", column, column);
}

#define INTERVAL_TIPS                                                                              \
    "[{'field': 'low', 'type': 'quantitative', 'title': 'from', 'format': '" FIGURE_FORMAT         \
    "'}, {'field': 'high', 'type': 'quantitative', 'title': 'to', 'format': '" FIGURE_FORMAT "'}]"

/* Moves what `more` holds behind what `list` does. */
static cJSON *join(cJSON *list, cJSON *more)
{
    cJSON *item = NULL;

    while (more != NULL && list != NULL && (item = cJSON_DetachItemFromArray(more, 0)) != NULL)
        cJSON_AddItemToArray(list, item);
    cJSON_Delete(more);
    return list;
}

/* What a tooltip says of a mark whose x and y are numbers. */
static cJSON *tips(const struct sketch *sketch)
{
    const struct report_chart *chart = sketch->chart;
    cJSON *list =
        chart->label != NULL ? report_json("[%j]", name_tip(chart->label)) : cJSON_CreateArray();

    join(list,
         report_json("[%j, %j, %j]", name_tip(chart->series), tip(&chart->x), tip(&chart->y)));
    return chart->has_intervals ? join(list, report_json(INTERVAL_TIPS)) : list;
}

/* ---- Layers ------------------------------------------------------------------------------------
 */

static bool add_layer(cJSON *layers, cJSON *layer)
{
    if (layer != NULL && cJSON_AddItemToArray(layers, layer))
        return true;
    cJSON_Delete(layer);
    return false;
}

/* Whether x lies so far to the right that what is written beside it would be cut off there. */
static bool is_right(const struct sketch *sketch, double x)
{
    double least = INFINITY, most = -INFINITY;
    bool is_log = sketch->chart->x.is_log;
    const cJSON *row = NULL;

    cJSON_ArrayForEach(row, sketch->rows)
    {
        const cJSON *cell = cJSON_GetArrayItem(row, 1);
        if (cJSON_IsNumber(cell)) {
            least = fmin(least, cell->valuedouble);
            most = fmax(most, cell->valuedouble);
        }
    }
    if (sketch->chart->x.is_from_zero)
        least = fmin(least, 0);
    double share = is_log ? log(x / least) / log(most / least) : (x - least) / (most - least);
    return share > 0.8;
}

enum side {
    BESIDE_RIGHT, /* of a rule across x, to the right of it */
    BESIDE_LEFT,
    ABOVE, /* of a rule across y */
    SIDES
};

static enum side side_of(const struct sketch *sketch, const struct report_rule *rule)
{
    return rule->is_level ? ABOVE : is_right(sketch, rule->at) ? BESIDE_LEFT : BESIDE_RIGHT;
}

/* The rules of one side, as rows; NULL: no memory. */
static cJSON *rules_of(const struct sketch *sketch, enum side side)
{
    cJSON *values = cJSON_CreateArray();

    for (size_t i = 0; i < sketch->chart->rule_count; i++) {
        const struct report_rule *rule = &sketch->chart->rules[i];
        if (side_of(sketch, rule) != side)
            continue;
        cJSON *value = report_json("{'at': %g, 'text': %s}", rule->at, rule->text);
        if (value == NULL || !cJSON_AddItemToArray(values, value)) {
            cJSON_Delete(value);
            cJSON_Delete(values);
            return NULL;
        }
    }
    return values;
}

/* Dashed lines across an axis, and what is written beside them. */
static bool add_rules(const struct sketch *sketch, cJSON *layers, enum side side)
{
    static const double shifts[] = {[BESIDE_RIGHT] = -2, [BESIDE_LEFT] = 2, [ABOVE] = 4};
    const char *along = side == ABOVE ? "y" : "x", *across = side == ABOVE ? "x" : "y";
    cJSON *values = rules_of(sketch, side);

    if (values == NULL || cJSON_GetArraySize(values) == 0) {
        cJSON_Delete(values);
        return values != NULL;
    }
    cJSON *again = copy(values);
    cJSON *rule = report_json("{'data': {'values': %j},"
                              " 'mark': {'type': 'rule', 'style': 'aside',"
                              " 'strokeDash': [3, 3], 'strokeWidth': 1},"
                              " 'encoding': {%s: {'field': 'at', 'type': 'quantitative'}}}",
                              values, along);
    cJSON *text =
        report_json("{'data': {'values': %j},"
                    " 'mark': {'type': 'text', 'style': 'asideText',"
                    " 'align': %s, 'baseline': 'bottom', 'dx': %g, 'dy': -3},"
                    " 'encoding': {%s: {'field': 'at', 'type': 'quantitative'},"
                    " %s: {'value': 0}, 'text': {'field': 'text', 'type': 'nominal'}}}",
                    again, side == BESIDE_LEFT ? "right" : "left", shifts[side], along, across);
    bool ok = add_layer(layers, rule);

    return add_layer(layers, text) && ok;
}

/* Of the chart's own rows only those of some kinds, where there are kinds; a JSON array of them. */
static bool only(cJSON *layer, const struct report_chart *chart, const char *kinds)
{
    if (!chart->has_kinds)
        return layer != NULL;
    cJSON *filter = report_json("[{'filter': {'field': 'kind', 'oneOf': %j}}]", report_json(kinds));
    if (layer != NULL && filter != NULL && cJSON_AddItemToObject(layer, "transform", filter))
        return true;
    cJSON_Delete(filter);
    return false;
}

/* A mark a point: seen where points are few, else where the pointer is nearest. */
static cJSON *marks(const struct sketch *sketch, cJSON *y)
{
    bool is_seen = is_marked(sketch);
    cJSON *opacity =
        is_seen ? report_json("{'value': 1}")
                : report_json("{'condition': {'param': 'near', 'empty': false, 'value': 1},"
                              " 'value': 0}");
    cJSON *encoding = report_json("{'x': %j, 'y': %j, 'color': %j, 'opacity': %j, 'tooltip': %j}",
                                  quantity(sketch, &sketch->chart->x, true), y,
                                  by_series(sketch, NULL, true), opacity, tips(sketch));

    if (is_seen) {
        cJSON *shape = by_series(sketch, SHAPES, true);
        if (!cJSON_AddItemToObject(encoding, "shape", shape))
            cJSON_Delete(shape);
    }
    return report_json(
        "{'params': [{'name': 'near', 'select': {'type': 'point', 'nearest': true,"
        " 'on': 'pointerover', 'clear': 'pointerout'}}],"
        " 'mark': {'type': 'point', 'filled': true, 'size': %g, 'clip': %b}, 'encoding': %j}",
        sketch->row_count > 200 ? 30.0 : 60.0, sketch->chart->x.most > 0, encoding);
}

/* ---- Forms -------------------------------------------------------------------------------------
 */

/* Somebody else's points: open, and larger. */
static cJSON *references(const struct sketch *sketch)
{
    const struct report_chart *chart = sketch->chart;
    return report_json("{'mark': {'type': 'point', 'filled': false, 'size': 110, 'strokeWidth': 2},"
                       " 'encoding': {'x': %j, 'y': %j, 'color': %j, 'tooltip': %j}}",
                       quantity(sketch, &chart->x, true), quantity(sketch, &chart->y, false),
                       by_series(sketch, NULL, true), tips(sketch));
}

/* Intervals of y. */
static cJSON *spans(const struct sketch *sketch)
{
    const struct report_chart *chart = sketch->chart;
    return report_json("{'mark': {'type': 'rule', 'strokeWidth': 1.5}, 'encoding': {'x': %j,"
                       " 'y': {'field': 'low', 'type': 'quantitative', 'title': %s},"
                       " 'y2': {'field': 'high'}, 'color': %j}}",
                       quantity(sketch, &chart->x, true), chart->y.title,
                       by_series(sketch, NULL, true));
}

static bool draw_lines(const struct sketch *sketch, cJSON *layers)
{
    const struct report_chart *chart = sketch->chart;
    cJSON *line =
        report_json("{'mark': {'type': 'line', 'strokeWidth': 2, 'interpolate': %s, 'clip': true},"
                    " 'encoding': {'x': %j, 'y': %j, 'color': %j, 'strokeDash': %j}}",
                    chart->is_stepped ? "step-after" : "linear", quantity(sketch, &chart->x, true),
                    quantity(sketch, &chart->y, false), by_series(sketch, NULL, true),
                    by_series(sketch, DASHES, !is_marked(sketch)));
    cJSON *points = marks(sketch, quantity(sketch, &chart->y, false));
    bool ok = only(line, chart, "['line', 'curve']") && only(points, chart, "['line', 'mark']");

    if (chart->has_intervals)
        ok = add_layer(layers, spans(sketch)) && ok;
    if (chart->form == REPORT_LINES)
        ok = add_layer(layers, line) && ok;
    else
        cJSON_Delete(line);
    ok = add_layer(layers, points) && ok;
    if (chart->has_kinds) {
        cJSON *open = references(sketch);
        ok = only(open, chart, "['reference']") && ok;
        ok = add_layer(layers, open) && ok;
    }
    return ok;
}

/* y of a stack; the order is that of the points. */
static cJSON *stacked(const struct sketch *sketch, const struct report_axis *axis, bool is_x)
{
    cJSON *channel = quantity(sketch, axis, is_x);
    if (channel != NULL && cJSON_AddStringToObject(channel, "stack", "zero") == NULL) {
        cJSON_Delete(channel);
        return NULL;
    }
    return channel;
}

#define IN_ORDER "'order': {'field': 'nth', 'type': 'quantitative'}"
#define NUMBERED "'transform': [{'window': [{'op': 'row_number', 'as': 'nth'}]}]"

static bool draw_areas(const struct sketch *sketch, cJSON *layers)
{
    const struct report_chart *chart = sketch->chart;
    return add_layer(layers, report_json("{'mark': {'type': 'area', 'opacity': 0.85},"
                                         " 'encoding': {'x': %j, 'y': %j, 'color': %j}}",
                                         quantity(sketch, &chart->x, true),
                                         stacked(sketch, &chart->y, false),
                                         by_series(sketch, NULL, true))) &&
           add_layer(layers, marks(sketch, stacked(sketch, &chart->y, false)));
}

static cJSON *category(const struct sketch *sketch)
{
    return report_json("{'field': %s, 'type': 'nominal', 'title': null, 'sort': null,"
                       " 'axis': {'grid': %b}}",
                       sketch->chart->y.name, sketch->chart->form == REPORT_DOTS);
}

static cJSON *category_tips(const struct sketch *sketch, cJSON *more)
{
    const struct report_chart *chart = sketch->chart;
    return join(report_json("[{'field': %s, 'type': 'nominal', 'title': %s}, %j, %j]",
                            chart->y.name, chart->y.title, name_tip(chart->series), tip(&chart->x)),
                more);
}

static bool draw_bars(const struct sketch *sketch, cJSON *layers)
{
    return add_layer(layers,
                     report_json("{" NUMBERED ", 'mark': {'type': 'bar', 'style': 'edge',"
                                 " 'strokeWidth': 1, 'height': {'band': 0.7}},"
                                 " 'encoding': {'y': %j, 'x': %j, 'color': %j, 'tooltip': %j,"
                                 " " IN_ORDER "}}",
                                 category(sketch), stacked(sketch, &sketch->chart->x, true),
                                 by_series(sketch, NULL, true), category_tips(sketch, NULL)));
}

/* Where series of one category are set beneath each other. */
static cJSON *offset(const struct sketch *sketch)
{
    return report_json("{'field': %s, 'type': 'nominal', 'scale': {'domain': %j}}",
                       sketch->chart->series, copy(sketch->names));
}

static bool draw_dots(const struct sketch *sketch, cJSON *layers)
{
    const struct report_chart *chart = sketch->chart;
    cJSON *interval = report_json(
        "{'mark': {'type': 'rule', 'strokeWidth': 2},"
        " 'encoding': {'y': %j, 'yOffset': %j, 'x': {'field': 'low', 'type':"
        " 'quantitative', 'title': %s}, 'x2': {'field': 'high'}, 'color': %j}}",
        category(sketch), offset(sketch), chart->x.title, by_series(sketch, NULL, true));
    cJSON *dots = report_json(
        "{'mark': {'type': 'point', 'filled': true, 'size': 60, 'opacity': 1},"
        " 'encoding': {'y': %j, 'yOffset': %j, 'x': %j, 'color': %j, 'shape': %j, 'tooltip': %j}}",
        category(sketch), offset(sketch), quantity(sketch, &chart->x, true),
        by_series(sketch, NULL, true), by_series(sketch, SHAPES, true),
        category_tips(sketch, report_json(INTERVAL_TIPS)));
    bool ok = add_layer(layers, interval);

    return add_layer(layers, dots) && ok;
}

static bool draw(const struct sketch *sketch, cJSON *layers)
{
    switch (sketch->chart->form) {
    case REPORT_LINES:
    case REPORT_CLOUD:
        return draw_lines(sketch, layers);
    case REPORT_AREAS:
        return draw_areas(sketch, layers);
    case REPORT_BARS:
        return draw_bars(sketch, layers);
    case REPORT_DOTS:
        return draw_dots(sketch, layers);
    }
    return false;
}

static cJSON *height_of(enum report_form form)
{
    switch (form) {
    case REPORT_BARS:
        return report_json("{'step': %g}", (double)BAR_STEP);
    case REPORT_DOTS:
        return report_json("{'step': %g, 'for': 'offset'}", (double)DOT_STEP);
    default:
        return cJSON_CreateNumber(HEIGHT);
    }
}

bool report_chart_finish(cJSON *block, const struct report_chart *chart)
{
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(block, "names");
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(block, "rows");
    const struct sketch sketch = {.chart = chart,
                                  .names = names,
                                  .rows = rows,
                                  .name_count = (size_t)cJSON_GetArraySize(names),
                                  .row_count = (size_t)cJSON_GetArraySize(rows)};
    cJSON *layers = cJSON_CreateArray();
    bool ok = layers != NULL;

    for (int side = 0; ok && side < SIDES; side++)
        ok = add_rules(&sketch, layers, (enum side)side);
    if (ok)
        ok = draw(&sketch, layers);
    cJSON *spec = report_json("{'height': %j, 'layer': %j}", height_of(chart->form), layers);
    if (ok && spec != NULL && cJSON_AddItemToObject(block, "spec", spec))
        return true;
    cJSON_Delete(spec);
    return false;
}
