/* openmetrics.h -- the intervals of a run as OpenMetrics, under the names that engines give them.
 */
#ifndef KVT_CLI_OPENMETRICS_H
#define KVT_CLI_OPENMETRICS_H

#include <stdio.h>

#include "kvt/report.h"

struct openmetrics; /* private to openmetrics.c */

/* What intervals say is kept beside `path` until openmetrics_free(), for the format wants all of a
 * metric together. */
KVT_CHECKED kvt_status openmetrics_begin(const char *path, const struct kvt_scenario *scenario,
                                         struct openmetrics **out, struct kvt_error *err);
/* As an interval closes. */
void openmetrics_interval(struct openmetrics *metrics, const struct kvt_tally *interval);
KVT_CHECKED kvt_status openmetrics_write(struct openmetrics *metrics, const struct kvt_run *run,
                                         FILE *stream, struct kvt_error *err);
void openmetrics_free(struct openmetrics *metrics); /* takes NULL */

#endif
