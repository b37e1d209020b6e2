/* score_top_k.c -- the k best of scores that come block by block.
 *
 *     keep what reaches a bar; when there is no room for another block,
 *         keep the k best of what there is, and raise the bar to the k-th
 *     find the k-th largest score by three histograms over an integer image of
 *     the scores, from its high bits to its low ones
 *     take the rows above it, and of those equal to it the first that are due */
#include "score_top_k.h"

#include <string.h>

enum {
    DIGIT_BITS = 11,
    DIGIT_COUNT = 1 << DIGIT_BITS
};

/* Orders as the floats do, with -0 = +0. */
static inline uint32_t ordered_image(float score)
{
    float positive_zero = score + 0.0F;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits ^ ((bits >> 31) != 0 ? UINT32_MAX : UINT32_C(1) << 31);
}

/* The image of the k-th largest of count scores; *ties_due is how many rows of just that
 * score belong to the top k. */
static uint32_t kth_image(const float *scores, uint32_t count, uint32_t k, uint32_t *ties_due)
{
    uint32_t found = 0, due = k;
    for (int shift = 32; shift > 0;) {
        int bits = shift < DIGIT_BITS ? shift : DIGIT_BITS;
        uint64_t settled = shift == 32 ? 0 : (uint64_t)found >> shift;
        uint32_t histogram[DIGIT_COUNT];
        memset(histogram, 0, sizeof histogram);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t image = ordered_image(scores[i]);
            if ((uint64_t)image >> shift == settled)
                histogram[(image >> (shift - bits)) & ((1U << bits) - 1)]++;
        }
        uint32_t digit = (1U << bits) - 1;
        while (histogram[digit] < due)
            due -= histogram[digit--];
        shift -= bits;
        found |= digit << shift;
    }
    *ties_due = due;
    return found;
}

static float score_of(uint32_t image)
{
    uint32_t bits = image ^ ((image >> 31) != 0 ? UINT32_C(1) << 31 : UINT32_MAX);
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* Whether a row belongs to the top k; of those equal to the k-th the first ties_due do. */
static inline bool belongs(float score, uint32_t kth, uint32_t *ties_due)
{
    uint32_t image = ordered_image(score);
    bool is_due_tie = image == kth && *ties_due > 0;
    *ties_due -= is_due_tie;
    return image > kth || is_due_tie;
}

void score_candidates_make_room(struct score_candidates *candidates)
{
    if (candidates->count + SCORE_BLOCK_ROWS <= score_candidate_count(candidates->top_k))
        return;
    uint32_t ties_due;
    uint32_t kth = kth_image(candidates->scores, candidates->count, candidates->top_k, &ties_due);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        candidates->rows[kept] = candidates->rows[i];
        candidates->scores[kept] = candidates->scores[i];
        kept += belongs(candidates->scores[i], kth, &ties_due);
    }
    candidates->count = kept;
    candidates->least = score_of(kth);
}

float score_candidates_select(struct score_candidates *candidates, uint64_t *set)
{
    uint32_t ties_due;
    uint32_t kth = kth_image(candidates->scores, candidates->count, candidates->top_k, &ties_due);
    for (uint32_t i = 0; i < candidates->count; i++) {
        uint64_t bit = belongs(candidates->scores[i], kth, &ties_due);
        set[candidates->rows[i] / 64] |= bit << candidates->rows[i] % 64;
    }
    return score_of(kth);
}
