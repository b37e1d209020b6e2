/* row_counts.c -- rows counted by where they were found. */
#include "kvt/row_counts.h"

void kvt_row_counts_add(struct kvt_row_counts *into, const struct kvt_row_counts *from)
{
    into->calls += from->calls;
    into->skipped_calls += from->skipped_calls;
    into->selected += from->selected;
    into->tail += from->tail;
    into->page += from->page;
    into->hot += from->hot;
    into->missed += from->missed;
    into->union_rows += from->union_rows;
    into->union_tail += from->union_tail;
    into->union_page += from->union_page;
    into->union_hot += from->union_hot;
    into->filled += from->filled;
    into->staged += from->staged;
}

bool kvt_row_counts_conserve(const struct kvt_row_counts *counts)
{
    return counts->selected == counts->tail + counts->page + counts->hot + counts->missed &&
           counts->union_rows == counts->union_tail + counts->union_page + counts->union_hot +
                                     counts->filled + counts->staged;
}
