/* csv_columns.h -- the columns of our own CSV files, by name. */
#ifndef KVT_CLI_REPORT_CSV_COLUMNS_H
#define KVT_CLI_REPORT_CSV_COLUMNS_H

#include "kvt/file.h"

enum {
    CSV_COLUMNS_MAX = 32
};

struct csv_columns {
    struct kvt_csv *csv;
    const char *path;
    size_t places[CSV_COLUMNS_MAX]; /* [count] */
    size_t count;
};

/* Refuses a file that lacks one of the columns. */
KVT_CHECKED kvt_status csv_columns_open(struct csv_columns *columns, const char *path,
                                        const char *const *names, size_t count,
                                        struct kvt_error *err);
/* The next row: values[count], NaN where a field is empty. *more is false at the end. */
KVT_CHECKED kvt_status csv_columns_next(struct csv_columns *columns, double *values, bool *more,
                                        struct kvt_error *err);
void csv_columns_close(struct csv_columns *columns); /* takes one that was zeroed */

#endif
