/* paper_page.h -- what the parts of paper.html pass to each other. */
#ifndef KVT_CLI_PAPER_PAGE_H
#define KVT_CLI_PAPER_PAGE_H

#include "../report/page.h"
#include "paper.h"

struct page {
    const struct paper_answer *answer;
    struct kvt_arena *arena;
    struct report_page *report;
};

/* Points of one name, in the arena. */
struct page_series {
    const char *name;
    const double *x, *y; /* [count] NaN: not drawn, and the line is broken there */
    size_t count;
    bool is_paper; /* the paper's own points: open marks, no line */
    bool is_cloud; /* marks without a line */
};

/* paper_series.c: fills a series of a chart as figures.json says: a family's points, the course of
 * a run, measured figures, or the paper's own. What is not here has no point. */
KVT_CHECKED kvt_status page_fill_series(struct page *page, const cJSON *spec,
                                        struct page_series *out, struct kvt_error *err);
/* A text of an entry of figures.json; NULL: it has none. */
const char *page_text(const cJSON *object, const char *key);
/* What values are multiplied with: 1 / the number at that key, 1 where there is none. */
double page_scale(const cJSON *spec, const char *key);
const struct paper_target *page_find_target(const struct page *page, const char *id);

/* paper_figures.c: one entry of figures.json. */
KVT_CHECKED kvt_status page_put_figure(struct page *page, const cJSON *figure,
                                       struct kvt_error *err);
/* The style of a line's value: "good", "bad", "soft" or "". */
const char *page_style_of(const struct paper_line *line);

#endif
