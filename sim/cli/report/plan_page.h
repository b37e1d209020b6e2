/* plan_page.h -- what the parts of a plan's page share: report_plan.c has texts and tables,
 * plan_charts.c the charts. */
#ifndef KVT_CLI_REPORT_PLAN_PAGE_H
#define KVT_CLI_REPORT_PLAN_PAGE_H

#include "report.h"

enum {
    PLAN_BOUNDS_SHOWN = 8,
    PLAN_NAME_BYTES = 96
};

struct plan_page {
    struct report_page *page;
    const cJSON *tree, *question, *choices;
    const char *input;   /* what is sought; "": a metric is, of the choices alone */
    const char *metric;  /* that metric, else "" */
    const cJSON *bounds; /* of the first choice that has some: their names and limits */
};

/* plan_charts.c. Each choice's bounds over the values that were looked at. */
void plan_put_values(const struct plan_page *source);
/* Where there are no values: the metric that is wanted and the bounds, choice by choice. */
void plan_put_dots(const struct plan_page *source);
/* The answer with more of something, beside the one now. */
void plan_put_worth_chart(const struct plan_page *source, double now);

/* Of a list of numbers one; NaN: it has none there. */
double plan_item(const cJSON *list, int index);
/* "mean_tpot_ms" of "mean_tpot_ms<=50". */
const char *plan_bound_name(const cJSON *bound, char out[PLAN_NAME_BYTES]);
/* NULL: the metric is a share or a count, or there is none of the name. */
const char *plan_unit(const char *metric);

#endif
