/* sweep_results.h -- a point's runs as one row, and what its files write of it. */
#ifndef KVT_CLI_SWEEP_RESULTS_H
#define KVT_CLI_SWEEP_RESULTS_H

#include <stdio.h>

#include "kvt/compare.h"
#include "sweep.h"

/* All runs of one point. */
struct sweep_row {
    size_t point;
    enum sweep_outcome outcome; /* the worst of its runs' */
    const char *message;        /* of the first run that has one; "" */
    bool is_bound;
    const char *basis; /* of output_throughput; "" */
    uint64_t scenario_hash;
    uint64_t decision_hash; /* of one seed its own, else a chain over all seeds; 0: none */
    const struct sweep_record *records;  /* [seed_count] */
    const struct kvt_estimate *estimate; /* [metrics] over seeds; NULL where any run has failed */
    struct kvt_badge badge;              /* of all its runs */
};

/* What rows are read with. */
struct sweep_table {
    struct sweep_grid grid;
    const double *seeds; /* [seed_count] */
    size_t seed_count;
    const struct kvt_metric_doc *metrics; /* [metric_count] */
    size_t metric_count;
    const cJSON *header;
};

/* sweep_csv.c: RFC 4180 with LF; numbers in the shortest form that reads back, nothing where there
 * is no value. A row a point; with several seeds, means and the ends of their 95 % intervals. */
void sweep_csv_header(FILE *stream, const struct sweep_table *table);
void sweep_csv_row(FILE *stream, const struct sweep_table *table, const struct sweep_row *row);
/* sweep_csv.c: a row a run. */
void sweep_csv_runs_header(FILE *stream, const struct sweep_table *table);
void sweep_csv_runs_rows(FILE *stream, const struct sweep_table *table,
                         const struct sweep_row *row);

/* sweep_json.c: results.json, a point after the other, so that it need not be in memory. */
KVT_CHECKED kvt_status sweep_json_begin(FILE *stream, const struct sweep_table *table,
                                        struct kvt_error *err);
KVT_CHECKED kvt_status sweep_json_row(FILE *stream, const struct sweep_table *table,
                                      const struct sweep_row *row, struct kvt_error *err);
void sweep_json_end(FILE *stream, const struct sweep_counts *counts);

#endif
