/* diary.h -- a law that selects as `score` does and keeps a diary of it, for tests that reckon
 * afresh what follows from a run's selections. Of one run at a time, on one thread. */
#ifndef KVT_TESTS_DIARY_H
#define KVT_TESTS_DIARY_H

#include "kvt/law.h"
#include "kvt/scenario.h"
#include "kvt/speculation.h"

/* One round of one stream that was looked at. */
struct diary_entry {
    uint32_t request, selector;
    uint32_t opening; /* of this request's stream of this selector: 0 the first, 1 .. */
    uint32_t query_count;
    uint32_t visible_rows; /* to the deepest query */
    uint64_t *sets;        /* [query_count][kvt_row_words(visible_rows)] */
};

struct diary {
    struct diary_entry *entries; /* [count] in order */
    size_t count, capacity;
};
extern struct diary diary;

/* The scenario, whose law is "score", selects by a law with a diary, which begins empty. */
void diary_open(struct kvt_scenario *scenario);
void diary_close(void);

static inline const uint64_t *diary_set(const struct diary_entry *entry, uint32_t query)
{
    return entry->sets + query * kvt_row_words(entry->visible_rows);
}

#endif
