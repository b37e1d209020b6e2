/* sparkline.h -- the course of a run on one line a quantity. */
#ifndef KVT_CLI_SPARKLINE_H
#define KVT_CLI_SPARKLINE_H

#include <stdbool.h>

#include "kvt/error.h"

/* Whether stdout's reader can show block elements: by locale, and a terminal that is not dumb. */
bool sparklines_in_utf8(void);

/* Prints what timeline.csv at `path` says of those who decode and wait, coverage, fetches, gaps and
 * output, 80 columns wide; a quantity that never had a value is left out. */
KVT_CHECKED kvt_status sparklines_put(const char *path, bool utf8, struct kvt_error *err);

#endif
