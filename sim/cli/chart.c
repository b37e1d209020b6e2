/* chart.c -- charts as SVG, without scripts: a page that holds them needs nothing else.
 *
 *     an axis: linear from the first round number below to the first above, steps of 1, 2 or 5;
 *     logarithmic between the least and the largest, ticks at 1, 2, 5 of each decade; along
 *     x at the points themselves, where they are few
 *
 * Colours are classes (c0 ..), so that the page's style sheet has both themes. */
#include "chart.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 380,
    HEIGHT = 250,
    LEFT = 56,
    RIGHT = 22,
    TOP = 12,
    BOTTOM = 42,
    COLORS = 10, /* a step has as many parts */
    TICKS_MAX = 12,
    TICK_WISH = 5
};

struct axis {
    double low, high; /* of what is drawn; logarithms where is_log */
    double ticks[TICKS_MAX];
    size_t tick_count;
    bool is_log;
    double from, to; /* pixels of low and high */
};

void chart_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*text, stream);
        }
    }
}

/* ---- Axes ------------------------------------------------------------------------------- */

static void range_of(const struct chart *chart, bool of_x, bool is_log, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t s = 0; s < chart->series_count; s++) {
        const struct chart_series *series = &chart->series[s];
        for (size_t i = 0; i < series->count; i++) {
            double value = of_x ? series->x[i] : series->y[i];
            if (!isfinite(value) || (is_log && value <= 0))
                continue;
            *low = fmin(*low, value);
            *high = fmax(*high, value);
        }
    }
    if (*low > *high)
        *low = is_log ? 1 : 0, *high = 10;
}

/* 1, 2 or 5 times a power of ten, so that about TICK_WISH of it cover the span. */
static double round_step(double span)
{
    double raw = span / TICK_WISH, power = pow(10, floor(log10(raw)));
    double lead = raw / power;

    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void make_linear(struct axis *axis, double low, double high)
{
    low = fmin(low, 0);
    if (high <= low)
        high = low + 1;
    double step = round_step(high - low);
    axis->low = floor(low / step) * step;
    axis->high = ceil(high / step - 1e-9) * step;
    for (int i = 0; axis->tick_count < TICKS_MAX && axis->low + i * step <= axis->high + step / 2;
         i++)
        axis->ticks[axis->tick_count++] = axis->low + i * step;
}

static void make_log(struct axis *axis, double low, double high)
{
    static const double leads[] = {1, 2, 5};
    bool all = log10(high / low) < 2.5;

    if (high <= low)
        low /= 2, high *= 2;
    axis->low = log10(low) - 0.04 * log10(high / low);
    axis->high = log10(high) + 0.04 * log10(high / low);
    for (int decade = (int)floor(log10(low)); decade <= (int)ceil(log10(high)); decade++) {
        for (size_t i = 0; i < (all ? 3 : 1); i++) {
            double tick = decade + log10(leads[i]);
            if (tick >= axis->low && tick <= axis->high && axis->tick_count < TICKS_MAX)
                axis->ticks[axis->tick_count++] = tick;
        }
    }
}

/* The different x of all lines; more than `most`: how many does not matter. */
static size_t different_x(const struct chart *chart, double *found, size_t most)
{
    size_t count = 0;

    for (size_t s = 0; s < chart->series_count; s++) {
        for (size_t i = 0; i < chart->series[s].count; i++) {
            double x = chart->series[s].x[i];
            size_t same = 0;
            while (same < count && found[same] != x)
                same++;
            if (same < count || !(x > 0))
                continue;
            if (count == most)
                return most + 1;
            found[count++] = x;
        }
    }
    return count;
}

static void tick_at_points(const struct chart *chart, struct axis *axis)
{
    enum {
        FEW = 8
    };
    double x[FEW];
    size_t count = different_x(chart, x, FEW);

    if (count > FEW)
        return;
    axis->tick_count = count;
    for (size_t i = 0; i < count; i++)
        axis->ticks[i] = log10(x[i]);
}

static struct axis axis_of(const struct chart *chart, bool of_x)
{
    struct axis axis = {.is_log = of_x ? chart->log_x : chart->log_y,
                        .from = of_x ? LEFT : HEIGHT - BOTTOM,
                        .to = of_x ? WIDTH - RIGHT : TOP};
    double low = 0, high = 0;

    range_of(chart, of_x, axis.is_log, &low, &high);
    if (!axis.is_log)
        make_linear(&axis, low, high);
    else
        make_log(&axis, low, high);
    if (axis.is_log && of_x)
        tick_at_points(chart, &axis);
    return axis;
}

/* NaN where the value cannot be drawn. */
static double pixel(const struct axis *axis, double value)
{
    double at = axis->is_log ? (value > 0 ? log10(value) : (double)NAN) : value;
    return axis->from + (axis->to - axis->from) * (at - axis->low) / (axis->high - axis->low);
}

static void put_tick(const struct axis *axis, double tick, FILE *stream)
{
    double value = axis->is_log ? pow(10, tick) : tick;
    /* A sum of steps may miss 0 by the last digit. */
    if (!axis->is_log && fabs(value) < 1e-9 * (axis->high - axis->low))
        value = 0;
    fprintf(stream, "%.6g", value);
}

static void draw_axes(const struct chart *chart, const struct axis *x, const struct axis *y,
                      FILE *stream)
{
    for (size_t i = 0; i < y->tick_count; i++) {
        double at = y->from + (y->to - y->from) * (y->ticks[i] - y->low) / (y->high - y->low);
        fprintf(stream,
                "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                LEFT, at, WIDTH - RIGHT, at, LEFT - 6, at + 4);
        put_tick(y, y->ticks[i], stream);
        fputs("</text>\n", stream);
    }
    for (size_t i = 0; i < x->tick_count; i++) {
        double at = x->from + (x->to - x->from) * (x->ticks[i] - x->low) / (x->high - x->low);
        fprintf(stream,
                "<line class=\"axis\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>"
                "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                at, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 4, at, HEIGHT - BOTTOM + 16);
        put_tick(x, x->ticks[i], stream);
        fputs("</text>\n", stream);
    }
    fprintf(stream,
            "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>"
            "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
            LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8);
    chart_text(stream, chart->x_label);
    fprintf(stream,
            "</text><text class=\"label\" x=\"14\" y=\"%d\" text-anchor=\"middle\" "
            "transform=\"rotate(-90 14 %d)\">",
            (TOP + HEIGHT - BOTTOM) / 2, (TOP + HEIGHT - BOTTOM) / 2);
    chart_text(stream, chart->y_label);
    fputs("</text>\n", stream);
}

/* ---- Series ----------------------------------------------------------------------------- */

static void draw_line(const struct chart_series *series, const struct axis *x, const struct axis *y,
                      FILE *stream)
{
    bool is_open = false;

    for (size_t i = 0; i < series->count; i++) {
        double px = pixel(x, series->x[i]), py = pixel(y, series->y[i]);
        bool drawn = isfinite(px) && isfinite(py);
        if (drawn)
            fprintf(stream, "%s%.1f,%.1f", is_open ? " " : "<polyline class=\"line\" points=\"", px,
                    py);
        else if (is_open)
            fputs("\"/>", stream);
        is_open = drawn;
    }
    if (is_open)
        fputs("\"/>", stream);
}

static void draw_marks(const struct chart_series *series, const struct axis *x,
                       const struct axis *y, FILE *stream)
{
    for (size_t i = 0; i < series->count; i++) {
        double px = pixel(x, series->x[i]), py = pixel(y, series->y[i]);
        if (!isfinite(px) || !isfinite(py))
            continue;
        fprintf(stream, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>",
                series->is_paper ? "open" : "mark", px, py, series->is_paper ? "5" : "3");
        chart_text(stream, series->name);
        fprintf(stream, ": %.6g, %.6g</title></circle>", series->x[i], series->y[i]);
    }
}

enum {
    MARKED_MAX = 40 /* points of a line that is marked too */
};

static void draw_series(const struct chart_series *series, const struct axis *x,
                        const struct axis *y, FILE *stream)
{
    fprintf(stream, "<g class=\"c%u\">", series->color % COLORS);
    if (!series->is_paper && !series->is_cloud)
        draw_line(series, x, y, stream);
    if (series->is_paper || series->count <= MARKED_MAX)
        draw_marks(series, x, y, stream);
    fputs("</g>\n", stream);
}

/* ---- Beside it -------------------------------------------------------------------------- */

static void put_legend(const struct chart *chart, FILE *stream)
{
    fputs("<p class=\"legend\">", stream);
    for (size_t s = 0; s < chart->series_count; s++) {
        const struct chart_series *series = &chart->series[s];
        fprintf(stream, "<span class=\"c%u\"><span class=\"%s\"></span>", series->color % COLORS,
                series->is_paper ? "ring" : "dot");
        chart_text(stream, series->name);
        fputs(series->is_paper ? " (paper)</span> " : "</span> ", stream);
    }
    fputs("</p>\n", stream);
}

static void put_number(double value, FILE *stream)
{
    if (isfinite(value))
        fprintf(stream, "%.6g", value);
    else
        fputs("-", stream);
}

static void put_data(const struct chart *chart, FILE *stream)
{
    fputs("<details><summary>data</summary><table><tr><th></th><th>", stream);
    chart_text(stream, chart->x_label);
    fputs("</th><th>", stream);
    chart_text(stream, chart->y_label);
    fputs("</th></tr>\n", stream);
    for (size_t s = 0; s < chart->series_count; s++) {
        const struct chart_series *series = &chart->series[s];
        for (size_t i = 0; i < series->count; i++) {
            fputs("<tr><td>", stream);
            chart_text(stream, series->name);
            fputs(series->is_paper ? " (paper)</td><td>" : "</td><td>", stream);
            put_number(series->x[i], stream);
            fputs("</td><td>", stream);
            put_number(series->y[i], stream);
            fputs("</td></tr>\n", stream);
        }
    }
    fputs("</table></details>\n", stream);
}

void chart_draw(const struct chart *chart, FILE *stream)
{
    struct axis x = axis_of(chart, true), y = axis_of(chart, false);

    fputs("<div class=\"chart\"><h4>", stream);
    chart_text(stream, chart->title);
    fprintf(stream, "</h4>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    draw_axes(chart, &x, &y, stream);
    for (size_t s = 0; s < chart->series_count; s++)
        draw_series(&chart->series[s], &x, &y, stream);
    fputs("</svg>\n", stream);
    put_legend(chart, stream);
    put_data(chart, stream);
    fputs("</div>\n", stream);
}

/* ---- Bars ------------------------------------------------------------------------------- */

static double whole_of(const struct chart_bar *bar)
{
    double sum = 0;

    for (size_t p = 0; p < bar->part_count; p++)
        sum += bar->values[p];
    return sum;
}

/* The parts by name, one colour for one name in all bars: its place in the first that has it. */
static unsigned color_of(const struct chart_bar *bars, size_t bar_count, const char *part)
{
    unsigned color = 0;

    for (size_t b = 0; b < bar_count; b++) {
        for (size_t p = 0; p < bars[b].part_count; p++, color++) {
            if (strcmp(bars[b].parts[p], part) == 0)
                return color;
        }
    }
    return color;
}

void chart_draw_bars(const struct chart_bar *bars, size_t bar_count, FILE *stream)
{
    enum {
        BAR_WIDTH = 720,
        BAR_HEIGHT = 26,
        NAME_HEIGHT = 18
    };

    for (size_t b = 0; b < bar_count; b++) {
        double whole = whole_of(&bars[b]), at = 0;
        fprintf(stream, "<svg class=\"bars\" viewBox=\"0 0 %d %d\" role=\"img\">", BAR_WIDTH,
                BAR_HEIGHT + NAME_HEIGHT);
        fputs("<text class=\"label\" x=\"0\" y=\"12\">", stream);
        chart_text(stream, bars[b].name);
        fputs("</text>", stream);
        for (size_t p = 0; p < bars[b].part_count && whole > 0; p++) {
            double width = BAR_WIDTH * bars[b].values[p] / whole;
            if (bars[b].values[p] <= 0)
                continue;
            fprintf(stream,
                    "<rect class=\"fill c%u\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\">"
                    "<title>",
                    color_of(bars, bar_count, bars[b].parts[p]) % COLORS, at, NAME_HEIGHT, width,
                    BAR_HEIGHT);
            chart_text(stream, bars[b].parts[p]);
            fprintf(stream, " %.1f %%</title></rect>", 100 * bars[b].values[p] / whole);
            at += width;
        }
        fputs("</svg>\n<p class=\"legend\">", stream);
        for (size_t p = 0; p < bars[b].part_count && whole > 0; p++) {
            if (bars[b].values[p] <= 0)
                continue;
            fprintf(stream, "<span class=\"c%u\"><span class=\"dot\"></span>",
                    color_of(bars, bar_count, bars[b].parts[p]) % COLORS);
            chart_text(stream, bars[b].parts[p]);
            fprintf(stream, " %.2f ms, %.1f %%</span> ", bars[b].values[p],
                    100 * bars[b].values[p] / whole);
        }
        fputs("</p>\n", stream);
    }
}
