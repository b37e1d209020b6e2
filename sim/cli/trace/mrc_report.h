/* mrc_report.h -- miss curves as a table, as CSV and as JSON. */
#ifndef KVT_CLI_MRC_REPORT_H
#define KVT_CLI_MRC_REPORT_H

#include <stdio.h>

#include "mrc.h"

struct mrc_report {
    const char *const *paths; /* [path_count] */
    size_t path_count;
    uint32_t top_k;
    const double *at; /* [plan->size_count] B/k as asked, of plan->slots */
    const struct mrc_plan *plan;
    const struct mrc_counts *counts;
};

/* On stdout, 80 columns. */
void mrc_report_print(const struct mrc_report *report);
/* policy,b_over_k,slots,selected,missed,miss_ratio,regret; the last is empty without belady. */
void mrc_report_csv(const struct mrc_report *report, FILE *stream);
/* For free(); NULL: no memory. */
char *mrc_report_json(const struct mrc_report *report);

#endif
