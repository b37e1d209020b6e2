/* kvt/row_counts.h -- where the rows that a step selected were found. */
#ifndef KVT_ROW_COUNTS_H
#define KVT_ROW_COUNTS_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

enum {
    KVT_STRATA_MAX = 8
};

/* Rows of the calls that were followed exactly. Two conservation lines:
 *   selected = tail + page + hot + missed              (selections, with multiplicity)
 *   union_rows = union_tail + union_page + union_hot + filled + staged  (distinct rows) */
struct kvt_row_counts {
    uint64_t calls, skipped_calls; /* skipped: everything was resident */
    uint64_t selected, tail, page, hot, missed;
    uint64_t union_rows, union_tail, union_page, union_hot, filled, staged;
};
void kvt_row_counts_add(struct kvt_row_counts *into, const struct kvt_row_counts *from);
bool kvt_row_counts_conserve(const struct kvt_row_counts *counts);

/* Stores that are alike (same ratio, same number of selectors). A sampled run
 * follows some of each request's and scales by stores / followed. */
struct kvt_stratum {
    uint32_t stores, followed; /* per request */
    uint32_t selectors;        /* of one store */
    uint32_t layers;           /* over all its stores */
    uint32_t compress_ratio;
};

/* What a count of followed rows stands for: stores / followed; 1 in an exact run. */
static inline double kvt_stratum_scale(const struct kvt_stratum *stratum)
{
    return (double)stratum->stores / stratum->followed;
}

KVT_END_DECLS
#endif
