/* score_mass.c -- how many of the best rows hold a share of the softmax's mass.
 *
 *     count the rows of each of 8,192 steps of a score
 *     weight of a step = fall x that of the step above, 1 for the highest that has a row
 *     from above, add up rows x weight until the share of the sum is reached; of the step where it
 *         is, as many rows as it takes
 *
 * As Twilight's binary search for the least set with a given sum of weights (arXiv 2502.02770), and
 * MOIRA's per head and step (arXiv 2610.04313), with a histogram in place of the search. */
#include "score_mass.h"

#include <assert.h>

/* Rows below this weight are nobody's: 2^32 of them are a millionth of the best one. */
#define LEAST_WEIGHT 2.168404344971009e-19 /* 2^-62 */

static uint32_t bin_of(float score)
{
    static const float end = SCORE_MASS_DEVIATIONS;
    float inside = score < -end ? -end : score;

    return inside < end ? (uint32_t)((inside + end) * (float)SCORE_MASS_STEPS)
                        : SCORE_MASS_BINS - 1;
}

void score_mass_add(struct score_mass *mass, const float *scores, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        mass->rows[bin_of(scores[i])]++;
}

/* The series of exp(x), whose terms are all positive, for an x of at most 4. */
double score_mass_fall(double temperature)
{
    double x = 1 / (temperature * SCORE_MASS_STEPS), term = 1, sum = 1;

    assert(x > 0 && x <= 4);
    for (int n = 1; n <= 40; n++) {
        term *= x / n;
        sum += term;
    }
    return 1 / sum;
}

static uint32_t highest_of(const struct score_mass *mass)
{
    uint32_t bin = SCORE_MASS_BINS - 1;

    while (bin > 0 && mass->rows[bin] == 0)
        bin--;
    return bin;
}

uint32_t score_mass_rows(const struct score_mass *mass, double share, double fall)
{
    uint32_t highest = highest_of(mass), rows = 0;
    double total = 0, weight = 1, held = 0;

    for (uint32_t bin = highest + 1; bin-- > 0 && weight > LEAST_WEIGHT; weight *= fall)
        total += mass->rows[bin] * weight;
    double due = share * total;
    weight = 1;
    for (uint32_t bin = highest + 1; bin-- > 0 && weight > LEAST_WEIGHT; weight *= fall) {
        double more = mass->rows[bin] * weight;
        if (held + more >= due) {
            uint32_t whole = (uint32_t)((due - held) / weight);
            uint32_t needed = whole + (whole * weight < due - held);
            return rows + (needed < mass->rows[bin] ? needed : mass->rows[bin]);
        }
        held += more;
        rows += mass->rows[bin];
    }
    return rows;
}
