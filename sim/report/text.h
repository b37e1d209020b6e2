/* text.h -- lines for people, 80 columns of them. */
#ifndef KVT_REPORT_TEXT_H
#define KVT_REPORT_TEXT_H

#include <stdio.h>

#include "kvt/error.h"

enum {
    TEXT_COLUMNS = 80,
    TEXT_FIGURE_BYTES = 16
};

/* A number for people: 3 or 4 figures, "-" where it is not defined. */
const char *text_figure(double value, char out[TEXT_FIGURE_BYTES]);

/* One line, broken at a blank where it is too long; what follows is set in by eleven. */
void text_line(FILE *stream, const char *fmt, ...) KVT_PRINTF(2, 3);

void text_rule(FILE *stream);

#endif
