/* score_mass.h -- how many of the best rows hold a share of the softmax's mass. */
#ifndef KVT_SCORE_MASS_H
#define KVT_SCORE_MASS_H

#include "kvt/base.h"

enum {
    SCORE_MASS_STEPS = 256,     /* of a standard deviation, scores are rounded to */
    SCORE_MASS_DEVIATIONS = 16, /* scores beyond so many count as if there */
    SCORE_MASS_BINS = 2 * SCORE_MASS_DEVIATIONS * SCORE_MASS_STEPS
};

/* Scores of one query, sorted roughly. */
struct score_mass {
    uint32_t rows[SCORE_MASS_BINS];
};

void score_mass_add(struct score_mass *mass, const float *scores, uint32_t count);

/* What a step down multiplies a row's weight exp(score / temperature) by. Made of sums and
 * products alone: exp() differs in its last bits from one machine's libm to another's, and budgets
 * decide what is fetched. */
double score_mass_fall(double temperature);

/* The least number of rows, best first, whose weights come to `share` (0 to 1) of all. */
uint32_t score_mass_rows(const struct score_mass *mass, double share, double fall);

#endif
