/* page.h -- a report as one JSON document: the answer, what it rests on, sections of charts and
 * tables. Written as report.html by page_html.c, and read back from it.
 *
 *     struct report_page *page = report_page_new("run", scenario_name);
 *     report_say(page, "%s tokens a second", text);
 *     report_section(page, "Over time", NULL);
 *     report_chart(page, &chart);
 *     report_point(page, (struct report_point){.series = "decoding", .x = 1, .y = 17});
 *     status = report_page_write(page, stream, err);
 *
 * Texts are copied. Where memory is short, what is added is lost and the page remembers it:
 * report_page_write() then refuses. Names of any kind may stand in any text. */
#ifndef KVT_CLI_REPORT_PAGE_H
#define KVT_CLI_REPORT_PAGE_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "kvt/badge.h"
#include "kvt/error.h"

#define REPORT_PAGE_SCHEMA "kvtide/page/1"

struct report_page;

/* kind: a word ("run", "compare"); title: the largest line. NULL when memory is short. */
struct report_page *report_page_new(const char *kind, const char *title);
/* Takes a tree that report_page_read() has checked; the page's from here on, also on failure. */
struct report_page *report_page_of(cJSON *tree);
void report_page_free(struct report_page *page); /* takes NULL */
/* The document; of the page's life. NULL where memory was short. */
const cJSON *report_page_tree(const struct report_page *page);

/* ---- What a page opens with ------------------------------------------------------------------ */

/* Instead of the title that the page was made with. */
void report_title(struct report_page *page, const char *fmt, ...) KVT_PRINTF(2, 3);
/* A sentence of the answer. */
void report_say(struct report_page *page, const char *fmt, ...) KVT_PRINTF(2, 3);
/* One of the few figures beside it. unit and note may be NULL; NaN is left out. */
void report_figure(struct report_page *page, const char *label, double value, const char *unit,
                   const char *note);
/* A thing that the answer stands on. basis: measured | profile | extrapolated | datasheet |
 * fitted-to-paper | assumed | exact, or NULL. */
void report_assume(struct report_page *page, const char *what, const char *value,
                   const char *basis);
/* A line that opens beneath the last assumption. */
void report_assume_more(struct report_page *page, const char *text);
void report_put_badge(struct report_page *page, const struct kvt_badge *badge);

/* ---- Sections -------------------------------------------------------------------------------- */

/* What follows belongs to it; note may be NULL. */
void report_section(struct report_page *page, const char *title, const char *note);
void report_paragraph(struct report_page *page, const char *fmt, ...) KVT_PRINTF(2, 3);
/* A line that must add up, or the like: in letters of one width. */
void report_line(struct report_page *page, const char *fmt, ...) KVT_PRINTF(2, 3);
/* Text that opens on demand. */
void report_fold(struct report_page *page, const char *title, const char *text);
/* A tree of nodes {"text", "value", "children": [..]}, value and children where there are any;
 * the page's from here on. */
void report_tree(struct report_page *page, cJSON *node);

/* ---- Tables ------------------------------------------------------------------------------------
 */

struct report_column {
    const char *name;  /* in CSV: no blanks, with its unit */
    const char *title; /* for people */
    bool is_text;
};
enum report_table_kind {
    REPORT_OPEN,
    REPORT_MAIN,  /* the first of them is what --table prints */
    REPORT_FOLDED /* opens on demand */
};
/* id: of its file. */
void report_table(struct report_page *page, const char *id, enum report_table_kind kind,
                  const char *title, const struct report_column *columns, size_t column_count);
void report_row(struct report_page *page);
/* The next cell of the row. NaN: there is nothing. style: "good", "bad", "soft" or NULL. */
void report_cell(struct report_page *page, double value);
void report_cell_text(struct report_page *page, const char *text, const char *style);

/* ---- Charts ------------------------------------------------------------------------------------
 */

enum report_form {
    REPORT_LINES, /* x and y are numbers, a line a series; marks too where points are few */
    REPORT_CLOUD, /* the same without lines */
    REPORT_AREAS, /* the same, stacked */
    REPORT_BARS,  /* a bar a category, parts by series stacked: x is the number */
    REPORT_DOTS   /* categories down, marks by series with intervals across: x is the number */
};

struct report_axis {
    const char *name;  /* the column's, in CSV: with its unit */
    const char *title; /* for people, with its unit */
    bool is_log;
    bool is_from_zero;
    double most; /* of x: where it ends, whatever lies beyond; 0: with the last point */
};

struct report_rule {
    double at;
    const char *text; /* NULL: none */
    bool is_level;    /* across y instead, from side to side */
};

struct report_chart {
    const char *id;    /* of its files: letters, digits, '-', '.', '_' */
    const char *title; /* what is seen */
    const char *note;  /* NULL: none */
    enum report_form form;
    struct report_axis x, y;      /* y of BARS and DOTS: the category */
    const char *series;           /* what the series are: the column's name */
    const char *label;            /* of LINES and CLOUD: the column of points' names, which
                                   * tooltips tell; NULL: they have none */
    bool is_stepped;              /* lines go across, then up */
    bool is_wide;                 /* takes the page's whole width */
    bool has_kinds;               /* of LINES: points differ in kind, and most are marked */
    bool has_intervals;           /* of LINES and CLOUD: low and high are of y */
    struct report_rule rules[32]; /* across x, dashed */
    size_t rule_count;
};

enum report_point_kind {
    REPORT_ON_LINE,
    REPORT_MARK,      /* beside the lines of others */
    REPORT_REFERENCE, /* somebody else's: an open mark and no line */
    REPORT_CURVE      /* of a line that has no marks */
};

struct report_point {
    const char *series;
    const char *category;        /* of BARS and DOTS */
    double x, y;                 /* NaN: nothing here; a line is broken */
    double low, high;            /* of DOTS, or has_intervals; equal or NaN: no interval */
    enum report_point_kind kind; /* where the chart has_kinds */
    const char *label;           /* where the chart has a label */
};

/* Begins a chart; points of the chart follow, series by series. A chart without any is left out.
 */
void report_chart(struct report_page *page, const struct report_chart *chart);
void report_point(struct report_page *page, struct report_point point);

/* ---- Output ------------------------------------------------------------------------------------
 */

/* page_html.c: all of report.html. */
KVT_CHECKED kvt_status report_page_write(struct report_page *page, FILE *stream,
                                         struct kvt_error *err);
/* page_read.c: the document out of such a file, checked as far as is needed to write it again. */
KVT_CHECKED kvt_status report_page_read(const char *path, struct report_page **out,
                                        struct kvt_error *err);

/* chart_spec.c: adds the Vega-Lite specification to a chart whose points are all there. */
bool report_chart_finish(cJSON *block, const struct report_chart *chart);

#endif
