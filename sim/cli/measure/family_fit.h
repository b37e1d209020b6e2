/* family_fit.h -- a family of a step as a largest of limits, fitted to what it took. */
#ifndef KVT_CLI_FAMILY_FIT_H
#define KVT_CLI_FAMILY_FIT_H

#include "kvt/profile.h"
#include "robust.h"

enum {
    FAMILY_LIMIT_TERMS_MAX = 6,
    FAMILY_TERMS_MAX = KVT_PROFILE_LIMITS_MAX * FAMILY_LIMIT_TERMS_MAX
};

/* Which features a family may be linear in, limit by limit. The first feature of each limit is the
 * one that makes it grow. */
struct family_form {
    enum kvt_step_part part;
    uint32_t limit_count;
    struct family_limit {
        uint32_t count;
        enum kvt_profile_feature features[FAMILY_LIMIT_TERMS_MAX];
        /* Where not every sample tells it from other limits: those whose feature told_by is above
         * told_above do. */
        bool is_told_by_some;
        enum kvt_profile_feature told_by;
        double told_above;
    } limits[KVT_PROFILE_LIMITS_MAX];
};

struct family_sample {
    const double *features; /* [KVT_FEATURES] borrowed */
    double ns;              /* above 0 unless weight_ns is given */
    double weight_ns;       /* errors count as shares of it; 0: of ns */
    uint32_t configuration; /* left out with the others of its own */
};

enum family_term_state {
    FAMILY_TERM_FITTED = 0,
    FAMILY_TERM_ABSENT,    /* it occurs in no sample where its limit binds, or that tells it */
    FAMILY_TERM_UNCERTAIN, /* below 0, or not ROBUST_CERTAIN standard errors away from it */
    FAMILY_TERM_ALONE      /* in one configuration alone: what else that one has would be in it */
};

struct family_term {
    uint32_t limit;
    enum kvt_profile_feature feature;
    enum family_term_state state;
    double ns, error_ns; /* of one; as they were when it was left out */
};

struct family_fit {
    /* Limits of the fitted terms; ranges of all samples, [0, 0] of what is ALONE, and none of what
     * some samples alone tell, and not those of two configurations. */
    struct kvt_profile_family family;
    struct family_term terms[FAMILY_TERMS_MAX]; /* [term_count] */
    uint32_t term_count;
    size_t samples, outliers;
    struct robust_errors own;      /* of weight_ns or ns */
    struct robust_errors left_out; /* of each configuration, by what was fitted to the others */
    size_t configurations;         /* that were left out in turn; 0: too few */
};

/* Refuses (KVT_ERR_UNSUPPORTED) samples that no term can be told from. left_out and configurations
 * are found where leaves_out. */
KVT_CHECKED kvt_status family_fit(const struct family_form *form,
                                  const struct family_sample *samples, size_t count,
                                  bool leaves_out, struct family_fit *out, struct kvt_error *err);

#endif
