/* score_top_k.h -- the k best of scores that come block by block. */
#ifndef KVT_SCORE_TOP_K_H
#define KVT_SCORE_TOP_K_H

#include "kvt/base.h"

/* Rows that come at a time: their scores stay in the L1 cache, and loops of a known
 * length are what -O2 vectorises. */
enum {
    SCORE_BLOCK_ROWS = 256
};

/* Rows that may be among the best, ascending. [score_candidate_count()] each. */
struct score_candidates {
    float *scores;
    uint32_t *rows;
    uint32_t count;
    uint32_t top_k;
    float least; /* rows that score less are passed over */
};

static inline size_t score_candidate_count(uint32_t top_k)
{
    return 2 * (size_t)top_k + 4 * SCORE_BLOCK_ROWS;
}

/* Makes room for another block, by keeping the top_k best so far and passing over from now
 * on what is worse. */
void score_candidates_make_room(struct score_candidates *candidates);

/* Writes the top_k best (of equal scores the lower row) into a set whose words are zero,
 * and returns the worst of their scores. There are at least top_k; no score is NaN. */
float score_candidates_select(struct score_candidates *candidates, uint64_t *set);

#endif
