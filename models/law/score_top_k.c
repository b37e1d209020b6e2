/* score_top_k.c -- the k best of scores that come block by block.
 *
 *     keep what reaches a bar; when there may be no room for another block,
 *         keep the k best of what there is, and raise the bar to the k-th
 *     find the k-th largest score in [low, high], all there is at first:
 *         count the scores in each of 2,048 equal parts of it
 *         go on with the part where the k-th is, until it is one value
 *     take the rows above it, and of those equal to it the first that are due
 *
 * Scores are compared as integers that are ordered alike. */
#include "score_top_k.h"

#include <assert.h>
#include <string.h>

enum {
    DIGIT_BITS = 11,
    DIGIT_COUNT = 1 << DIGIT_BITS
};

/* -0 = +0. */
static inline uint32_t image_of(float score)
{
    float positive_zero = score + 0.0F;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits ^ ((bits >> 31) != 0 ? UINT32_MAX : UINT32_C(1) << 31);
}

static float score_of(uint32_t image)
{
    uint32_t bits = image ^ ((image >> 31) != 0 ? UINT32_C(1) << 31 : UINT32_MAX);
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* Bits that a value needs beyond those of one digit. */
static unsigned shift_of(uint32_t span)
{
    unsigned bits = span == 0 ? 0 : 32 - (unsigned)__builtin_clz(span);
    return bits > DIGIT_BITS ? bits - DIGIT_BITS : 0;
}

/* Where the top k ends. */
struct cut {
    uint32_t image;    /* of the k-th best */
    uint32_t ties_due; /* how many rows of just that score belong to the top k */
};

static struct cut cut_of(const uint32_t *images, uint32_t count, uint32_t k)
{
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < count; i++) {
        low = images[i] < low ? images[i] : low;
        high = images[i] > high ? images[i] : high;
    }
    uint32_t due = k;
    while (low < high) {
        uint32_t histogram[DIGIT_COUNT] = {0};
        unsigned shift = shift_of(high - low);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t place = images[i] - low; /* wraps far beyond below low */
            if (place <= high - low)
                histogram[place >> shift]++;
        }
        uint32_t digit = (high - low) >> shift;
        while (histogram[digit] < due)
            due -= histogram[digit--];
        low += digit << shift;
        uint32_t part_end = low + ((UINT32_C(1) << shift) - 1);
        high = part_end < high ? part_end : high;
    }
    return (struct cut){.image = low, .ties_due = due};
}

/* Whether a row belongs to the top k; rows are asked for in ascending order. */
static inline bool is_above(uint32_t image, struct cut *cut)
{
    bool is_due_tie = image == cut->image && cut->ties_due > 0;
    cut->ties_due -= is_due_tie;
    return image > cut->image || is_due_tie;
}

static void keep_best(struct score_candidates *candidates)
{
    struct cut cut = cut_of(candidates->images, candidates->count, candidates->top_k);
    candidates->least = score_of(cut.image);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < candidates->count; i++) {
        candidates->rows[kept] = candidates->rows[i];
        candidates->images[kept] = candidates->images[i];
        kept += is_above(candidates->images[i], &cut);
    }
    candidates->count = kept;
}

void score_candidates_add(struct score_candidates *candidates, const float *scores,
                          uint32_t first_row, const uint64_t *reached)
{
    if (candidates->count + SCORE_BLOCK_ROWS > score_candidate_count(candidates->top_k))
        keep_best(candidates);
    uint32_t count = candidates->count;
    for (uint32_t word = 0; word < SCORE_BLOCK_ROWS / 64; word++) {
        for (uint64_t left = reached[word]; left != 0; left &= left - 1) {
            uint32_t i = 64 * word + (uint32_t)__builtin_ctzll(left);
            candidates->rows[count] = first_row + i;
            candidates->images[count++] = image_of(scores[i]);
        }
    }
    candidates->count = count;
}

float score_candidates_select(const struct score_candidates *candidates, uint32_t k, uint64_t *set)
{
    assert(candidates->count >= k && k >= 1 && k <= candidates->top_k);
    struct cut cut = cut_of(candidates->images, candidates->count, k);
    float worst = score_of(cut.image);
    for (uint32_t i = 0; i < candidates->count; i++) {
        uint64_t bit = is_above(candidates->images[i], &cut);
        set[candidates->rows[i] / 64] |= bit << candidates->rows[i] % 64;
    }
    return worst;
}

float score_candidates_worst(const struct score_candidates *candidates, uint32_t k)
{
    return score_of(cut_of(candidates->images, candidates->count, k).image);
}
