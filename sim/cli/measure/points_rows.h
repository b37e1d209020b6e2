/* points_rows.h -- the columns and rows of a file of points. */
#ifndef KVT_CLI_POINTS_ROWS_H
#define KVT_CLI_POINTS_ROWS_H

#include "points.h"

/* Reads "columns" and "rows" of the object at where, and adds a point for each row. first: index of
 * the file's first configuration, of those that are in points already. Refuses, by place, what is
 * missing, out of bounds, or contradicts itself. */
KVT_CHECKED kvt_status points_read_rows(const cJSON *tree, const char *where, struct points *points,
                                        size_t first, struct kvt_error *err);

#endif
