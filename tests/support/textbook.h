/* textbook.h -- replacement as papers have it: rows read one by one, in a cache of so many rows.
 * Nothing of it is the policies' own: no slots, no lists, but for each row when it came and where
 * it is, which is looked through from the first row to the last. */
#ifndef KVT_TESTS_TEXTBOOK_H
#define KVT_TESTS_TEXTBOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "row_streams.h"

/* Numbers by which an algorithm is set; each takes its own. */
struct textbook_params {
    double small, ghosts; /* fractions of the cache */
    uint32_t promote_hits;
    uint32_t ageing_per_row;
};

enum textbook_place {
    TEXTBOOK_NOWHERE = 0,
    TEXTBOOK_FIRST,  /* in the cache: of one list, or of two the one of newcomers */
    TEXTBOOK_SECOND, /* in the cache */
    TEXTBOOK_FIRST_GHOST,
    TEXTBOOK_SECOND_GHOST,
    TEXTBOOK_PLACES
};

struct textbook {
    const char *policy;
    struct textbook_params params;
    uint32_t capacity;
    uint64_t now, accesses;
    double target;
    uint64_t hand; /* SIEVE: the hand is at the first row that came then or later */
    uint32_t counts[TEXTBOOK_PLACES];
    uint8_t places[ROW_STREAM_ROWS];
    uint64_t came_at[ROW_STREAM_ROWS]; /* to the new end of its place */
    uint32_t uses[ROW_STREAM_ROWS];
};

void textbook_init(struct textbook *book, const char *policy, uint32_t capacity,
                   struct textbook_params params);
/* Reads a row. */
bool textbook_misses(struct textbook *book, uint32_t row);

#endif
