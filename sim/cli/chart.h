/* chart.h -- charts as SVG: lines and marks over two axes, and bars of shares. */
#ifndef KVT_CLI_CHART_H
#define KVT_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    CHART_SERIES_MAX = 12,
    CHART_PARTS_MAX = 16
};

struct chart_series {
    const char *name;
    const double *x, *y; /* [count] NaN: not drawn, and the line is broken there */
    size_t count;
    unsigned color; /* of the palette, from 0 */
    bool is_paper;  /* the paper's own points: open marks, no line */
    bool is_cloud;  /* marks without a line */
};

struct chart {
    const char *title, *x_label, *y_label;
    bool log_x, log_y;
    struct chart_series series[CHART_SERIES_MAX]; /* [series_count] */
    size_t series_count;
};

/* Text with what HTML takes for itself written otherwise. */
void chart_text(FILE *stream, const char *text);
/* The chart as <svg>, its legend, and its points in a table that opens. */
void chart_draw(const struct chart *chart, FILE *stream);

/* One bar: parts that make a whole, each with its name. */
struct chart_bar {
    const char *name;
    const char *parts[CHART_PARTS_MAX]; /* [part_count] */
    double values[CHART_PARTS_MAX];
    size_t part_count;
};
void chart_draw_bars(const struct chart_bar *bars, size_t bar_count, FILE *stream);

/* chart_page.c: a page that needs nothing else, up to its open body; and its end. */
void chart_page_begin(FILE *stream, const char *title);
void chart_page_end(FILE *stream);

#endif
