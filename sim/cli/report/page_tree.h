/* page_tree.h -- what the writers of a page read of its document. */
#ifndef KVT_CLI_REPORT_PAGE_TREE_H
#define KVT_CLI_REPORT_PAGE_TREE_H

#include "page.h"

/* The whole document, its last chart ended; NULL where memory was short. The page's. */
cJSON *report_page_finish(struct report_page *page);

/* A text of an object; "" where there is none. */
const char *report_text(const cJSON *object, const char *key);
/* A cell's text, or NULL: it is a number or nothing. *style may be set, to be NULL where none is.
 */
const char *report_cell_as_text(const cJSON *cell, const char **style);
enum {
    REPORT_NUMBER_BYTES = 40
};
/* A number as people read it: 4 figures, thousands apart; "-" where there is none. */
void report_number_text(const cJSON *cell, char out[REPORT_NUMBER_BYTES]);
/* The same of a number; returns out. */
const char *report_value_text(double value, char out[REPORT_NUMBER_BYTES]);
/* Whether it can name a file in a folder: letters, digits, '-', '_' and '.', not first. */
bool report_is_file_name(const char *id);
/* The table that is the page's main one; NULL: it has none. */
const cJSON *report_main_table(const cJSON *tree);

#endif
