/* confidence.c -- Beta distributions of a given mean and discrimination, in slices.
 *
 *     c ~ Beta(mean * n, (1 - mean) * n);  accepted ~ Bernoulli(c)
 *     AUC(n) = P(c of an accepted draft > c of a rejected one) + half of the ties
 *
 * AUC falls from 1 to 1/2 as n grows from 0 without end: n is where it is the one
 * asked for, found by bisection on a logarithmic scale. For each n the distribution
 * is cut into cells of equal width, of which the distribution functions of Beta(a, b)
 * and Beta(a + 1, b) give the mass and the mean, and these are dealt out to slices of
 * equal mass. So the mean is exact however steep the density is at 0 and 1, and the
 * AUC is the one of what is drawn from. */
#include "confidence.h"

#include <gsl/gsl_cdf.h>
#include <math.h>

enum {
    CELLS = 512,
    HALVINGS = 24 /* of 20.7 e-foldings: to a millionth */
};

static const double LOG_SUM_MIN = -6.9; /* of the sum n: 0.001 */
static const double LOG_SUM_MAX = 13.8; /* 1,000,000 */
/* Values are rounded to so many steps, so that the last bits of a machine's libm never
 * reach a decision. */
static const double VALUE_STEPS = 1 << 20;

/* Moves `mass` at `value` into slices, from *filled (in slices) on. */
static void deal(struct confidence *out, double *filled, double mass, double value)
{
    double rest = mass * CONFIDENCE_SLICES;
    while (rest > 0 && *filled < CONFIDENCE_SLICES) {
        size_t slice = (size_t)*filled;
        double room = (double)(slice + 1) - *filled;
        double part = rest < room ? rest : room;
        out->values[slice] += part * value;
        *filled = part < room ? *filled + part : (double)(slice + 1);
        rest -= part;
    }
}

static void make_slices(struct confidence *out, double mean, double sum)
{
    *out = (struct confidence){.mean = mean};
    if (mean <= 0 || mean >= 1) { /* nothing to tell apart */
        for (size_t i = 0; i < CONFIDENCE_SLICES; i++)
            out->values[i] = mean;
        return;
    }
    double a = mean * sum;
    double b = (1 - mean) * sum;
    double filled = 0;
    double below = 0;      /* mass below the cell */
    double below_mean = 0; /* and the mean of all in it, as a share of the whole mean */
    for (size_t i = 1; i <= CELLS; i++) {
        double edge = (double)i / CELLS;
        double up_to = i < CELLS ? gsl_cdf_beta_P(edge, a, b) : 1;
        double mean_up_to = i < CELLS ? gsl_cdf_beta_P(edge, a + 1, b) : 1;
        double mass = up_to - below;
        if (mass > 0)
            deal(out, &filled, mass, mean * (mean_up_to - below_mean) / mass);
        below = up_to;
        below_mean = mean_up_to;
    }
    /* What rounding left of the last slice is of the last value. */
    double missing = CONFIDENCE_SLICES - filled;
    if (missing > 0 && missing < 1)
        out->values[CONFIDENCE_SLICES - 1] /= 1 - missing;
}

double confidence_mean(const struct confidence *confidence)
{
    double total = 0;
    for (size_t i = 0; i < CONFIDENCE_SLICES; i++)
        total += confidence->values[i];
    return total / CONFIDENCE_SLICES;
}

/* Slices rise, so an accepted draft of slice i is above the rejected ones of all
 * slices before it; within a slice it is a tie. */
double confidence_auc(const struct confidence *confidence)
{
    double accepted = 0;
    double rejected = 0;
    double above = 0;
    for (size_t i = 0; i < CONFIDENCE_SLICES; i++) {
        double value = confidence->values[i];
        above += value * (rejected + (1 - value) / 2);
        accepted += value;
        rejected += 1 - value;
    }
    return accepted > 0 && rejected > 0 ? above / (accepted * rejected) : 0.5;
}

void confidence_make(struct confidence *out, double mean, double auc)
{
    double low = LOG_SUM_MIN;
    double high = LOG_SUM_MAX;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        make_slices(out, mean, exp(middle));
        if (confidence_auc(out) > auc)
            low = middle;
        else
            high = middle;
    }
    for (size_t i = 0; i < CONFIDENCE_SLICES; i++)
        out->values[i] = nearbyint(out->values[i] * VALUE_STEPS) / VALUE_STEPS;
}
