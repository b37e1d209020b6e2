/* page_watch.c -- hits, scores and the future of a request's pages. */
#include "kvt/page_watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

kvt_status kvt_page_watch_init(struct kvt_page_watch *watch, uint32_t page_count, bool with_hits,
                               bool with_scores, bool with_future, struct kvt_error *err)
{
    /* + 1: no pages are no failure. */
    *watch = (struct kvt_page_watch){.page_count = page_count};
    if (with_hits)
        watch->hits = calloc((size_t)page_count + 1, sizeof *watch->hits);
    if (with_scores)
        watch->scores = calloc((size_t)page_count + 1, sizeof *watch->scores);
    if (with_future)
        watch->future = calloc((size_t)page_count + 1, sizeof *watch->future);
    if ((!with_hits || watch->hits) && (!with_scores || watch->scores) &&
        (!with_future || watch->future))
        return KVT_OK;
    kvt_page_watch_fini(watch);
    return kvt_fail_nomem(err, "what a policy watches of a request's pages");
}

void kvt_page_watch_fini(struct kvt_page_watch *watch)
{
    free(watch->hits);
    free(watch->scores);
    free(watch->future);
    *watch = (struct kvt_page_watch){0};
}

void kvt_page_watch_begin(struct kvt_page_watch *watch, uint64_t step)
{
    for (uint32_t p = 0;
         watch->hits && step % KVT_PAGE_HITS_HALF_LIFE == 0 && p < watch->page_count; p++)
        watch->hits[p] /= 2;
    for (uint32_t p = 0; watch->scores && p < watch->page_count; p++)
        watch->scores[p] = 0;
    for (uint32_t p = 0; watch->future && p < watch->page_count; p++)
        watch->future[p] = 0;
}

/* A word holds whole pages. */
void kvt_page_watch_hit(struct kvt_page_watch *watch, const uint64_t *set, size_t words,
                        uint32_t rows_per_page)
{
    const uint32_t pages_per_word = 64 / rows_per_page;
    const uint64_t page_rows = UINT64_MAX >> (64 - rows_per_page);

    for (size_t w = 0; w < words; w++) {
        uint64_t rows = set[w];
        for (uint32_t i = 0; i < pages_per_word && rows != 0; i++) {
            size_t page = w * pages_per_word + i;
            uint32_t hits = (uint32_t)__builtin_popcountll(rows & page_rows);
            if (page < watch->page_count)
                watch->hits[page] = (uint16_t)(hits < UINT16_MAX - (uint32_t)watch->hits[page]
                                                   ? watch->hits[page] + hits
                                                   : UINT16_MAX);
            rows = rows_per_page < 64 ? rows >> rows_per_page : 0;
        }
    }
}

void kvt_page_watch_score(struct kvt_page_watch *watch, const float *scores, uint32_t count,
                          uint32_t selectors)
{
    for (uint32_t p = 0; p < watch->page_count; p++)
        watch->scores[p] += p < count ? scores[p] / (float)selectors : -INFINITY;
}
