/* score_top_k.h -- the k best of scores that come block by block. */
#ifndef KVT_SCORE_TOP_K_H
#define KVT_SCORE_TOP_K_H

#include "kvt/base.h"

/* Rows that come at a time: their scores stay in the L1 cache, and loops of a known
 * length are what -O2 vectorises. */
enum {
    SCORE_BLOCK_ROWS = 256
};

/* Rows that may be among the best, ascending. */
struct score_candidates {
    uint32_t *rows;   /* [score_candidate_count()] */
    uint32_t *images; /* [score_candidate_count()] integers in the order of the scores */
    uint32_t count;
    uint32_t top_k;
    float least; /* rows that score less need not be added */
};

static inline size_t score_candidate_count(uint32_t top_k)
{
    return 2 * (size_t)top_k + (size_t)4 * SCORE_BLOCK_ROWS;
}

/* Adds the rows of one block whose bits are set in reached[SCORE_BLOCK_ROWS / 64]. Where they
 * may not fit, keeps the top_k best so far first, and raises `least` to the worst of them.
 * No score is NaN. */
void score_candidates_add(struct score_candidates *candidates, const float *scores,
                          uint32_t first_row, const uint64_t *reached);

/* Adds the k best (of equal scores the lower row) to a set, and returns the worst of their
 * scores. There are at least k; k is 1 to top_k. */
float score_candidates_select(const struct score_candidates *candidates, uint32_t k, uint64_t *set);

/* The k-th best score alone. */
float score_candidates_worst(const struct score_candidates *candidates, uint32_t k);

#endif
