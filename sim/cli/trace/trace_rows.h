/* trace_rows.h -- recorded selections row by row: as CSV, there and back, and for libCacheSim. */
#ifndef KVT_CLI_TRACE_ROWS_H
#define KVT_CLI_TRACE_ROWS_H

#include "trace.h"

/* The first line of the CSV, by which it is known. */
#define TRACE_ROWS_HEADER "request,selector,token,visible_rows,row"

/* A line for each selected row of each token's own selection: stream by stream, token by token,
 * ascending. */
KVT_CHECKED kvt_status trace_rows_to_csv(const char *path, const char *to, bool quiet,
                                         struct kvt_error *err);

/* The same rows as libCacheSim's oracleGeneral; each of row_bytes. */
KVT_CHECKED kvt_status trace_rows_to_oracle(const char *path, const char *to, uint32_t row_bytes,
                                            bool quiet, struct kvt_error *err);

/* Such CSV into .kvsel. A selection's lines stand together and a stream's tokens ascend from 0; how
 * streams stand to each other is free. */
KVT_CHECKED kvt_status trace_rows_from_csv(const char *path, const char *to, bool quiet,
                                           struct kvt_error *err);

#endif
