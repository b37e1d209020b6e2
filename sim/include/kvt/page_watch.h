/* kvt/page_watch.h -- what a residency policy may ask to know of a request's pages: how often their
 * rows are selected, what the indexer's newest scores are, and, as a bound, what comes next. */
#ifndef KVT_PAGE_WATCH_H
#define KVT_PAGE_WATCH_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum {
    KVT_PAGE_HITS_HALF_LIFE = 64 /* rounds of the request after which hits count half */
};

/* Pages are of KVT_PAGE_ROWS tokens. A backend adds what each call selects; the owner shows it to
 * the policy at boundaries. */
struct kvt_page_watch {
    uint16_t *hits;   /* [page_count] NULL: nobody asks */
    float *scores;    /* [page_count] NULL: nobody asks */
    uint32_t *future; /* [page_count] NULL: nobody asks */
    uint32_t page_count;
};

/* Of pages that nothing has selected and nothing has scored, of which nothing comes. On failure
 * nothing is allocated. */
KVT_CHECKED kvt_status kvt_page_watch_init(struct kvt_page_watch *watch, uint32_t page_count,
                                           bool with_hits, bool with_scores, bool with_future,
                                           struct kvt_error *err);
void kvt_page_watch_fini(struct kvt_page_watch *watch); /* of one that is zeroed too */

/* Before the calls of a request's round `step`, from 0: hits are halved, rounded down, where it is
 * a multiple of the half-life; scores, and what comes, begin at 0. */
void kvt_page_watch_begin(struct kvt_page_watch *watch, uint64_t step);

/* A query selects set[words] of a store with rows_per_page rows a page, a power of two up to
 * KVT_PAGE_ROWS. Hits stay at UINT16_MAX once there. Rows of pages past the last count nowhere. */
void kvt_page_watch_hit(struct kvt_page_watch *watch, const uint64_t *set, size_t words,
                        uint32_t rows_per_page);

/* A selector's scores of the first `count` pages; it is one of so many, whose mean is kept. Of the
 * others no row exists for it yet: -INFINITY. */
void kvt_page_watch_score(struct kvt_page_watch *watch, const float *scores, uint32_t count,
                          uint32_t selectors);

KVT_END_DECLS
#endif
