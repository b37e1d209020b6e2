/* expenses.h -- private to sim/report: machines, energy and money. */
#ifndef KVT_REPORT_EXPENSES_H
#define KVT_REPORT_EXPENSES_H

#include "kvt/report.h"
#include "metrics_table.h"

/* The metrics of expenses, of a stretch of a run; NaN where the scenario says nothing of them. */
void expenses_compute(const struct kvt_scenario *scenario, const struct kvt_tally *tally,
                      struct metric_values *out);

#endif
