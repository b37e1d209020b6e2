/* confidence.h -- how sure a confidence head is of a draft: a Beta distribution around the
 * chance that it is accepted, as discriminating as such heads were measured to be. */
#ifndef KVT_MODELS_SPECULATION_CONFIDENCE_H
#define KVT_MODELS_SPECULATION_CONFIDENCE_H

#include "kvt/rng.h"

enum {
    CONFIDENCE_SLICES = 512
};

/* Equally likely slices of the distribution, each by its mean: their mean is that of the whole. */
struct confidence {
    double mean;                      /* as asked for */
    double values[CONFIDENCE_SLICES]; /* rising */
};

/* A draft of confidence c is accepted with chance c, so that confidences are calibrated; over all
 * drafts it is accepted with chance `mean`, in [0, 1]. auc, in (0.5, 1), is how likely an accepted
 * draft has the higher confidence of the two, set against one that is rejected; what chances next
 * to 0 or 1 cannot have, they come as near to as 1,000,000 or 0.001 allow for the sum of Beta's
 * parameters. */
void confidence_make(struct confidence *out, double mean, double auc);

/* The same of what was made, exactly. */
double confidence_mean(const struct confidence *confidence);
double confidence_auc(const struct confidence *confidence);

static inline double confidence_draw(const struct confidence *confidence, struct kvt_rng *rng)
{
    return confidence->values[(size_t)(kvt_rng_unit(rng) * CONFIDENCE_SLICES)];
}

#endif
