/* kvt/row_set.h -- a set of a store's rows, one bit each.
 *
 * What a query selects, what is resident and what a call reads are sets of rows that
 * are joined, cut and counted word by word; bit r % 64 of word r / 64 is row r. At
 * 100,000 rows of context a set is 12.5 KB, and a pass over it a fraction of what it
 * takes to look at 2,048 row numbers one by one.
 *
 * A shared object can call the inline functions alone: it links against nothing of ours. */
#ifndef KVT_ROW_SET_H
#define KVT_ROW_SET_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

static inline size_t kvt_row_words(uint32_t rows)
{
    return ((size_t)rows + 63) / 64;
}

static inline bool kvt_row_is_in(const uint64_t *set, uint32_t row)
{
    return set[row / 64] >> row % 64 & 1;
}

/* Rows in [0, 64 * words): how many are in the set. */
uint32_t kvt_row_set_count(const uint64_t *set, size_t words);

/* Adds listed rows, in any order; each lies in the set's words. */
void kvt_row_set_add(uint64_t *set, const uint32_t *rows, uint32_t count);

/* Writes the rows of the set, ascending, and returns how many. */
uint32_t kvt_row_set_list(const uint64_t *set, size_t words, uint32_t *rows);

/* The rows of a history whose pages are in `pages` (bit p % 64 of word p / 64 is page
 * p < page_count), for a store of rows_per_page rows a page: KVT_PAGE_ROWS / ratio, a
 * power of two. Writes all of rows[words]. */
void kvt_row_set_of_pages(const uint64_t *pages, uint32_t page_count, uint32_t rows_per_page,
                          uint64_t *rows, size_t words);

KVT_END_DECLS
#endif
