/* figures.h -- what a report gives away: charts as vector files, its main table as text. */
#ifndef KVT_CLI_REPORT_FIGURES_H
#define KVT_CLI_REPORT_FIGURES_H

#include <stdio.h>

#include "page.h"

/* Writes each chart of the page into dir/figures: ID.svg or ID.pdf as asked for, ID.csv with its
 * data, and ID.vl.json, a whole Vega-Lite specification. *count is how many there were. Needs node
 * on PATH, and rsvg-convert for PDF: KVT_ERR_NOT_FOUND without. */
KVT_CHECKED kvt_status report_figures(struct report_page *page, const char *dir, bool svg, bool pdf,
                                      size_t *count, struct kvt_error *err);

enum report_table_form {
    REPORT_LATEX,
    REPORT_MARKDOWN,
    REPORT_CSV
};
/* KVT_ERR_NOT_FOUND: the page has no main table. */
KVT_CHECKED kvt_status report_print_table(struct report_page *page, enum report_table_form form,
                                          FILE *stream, struct kvt_error *err);

#endif
