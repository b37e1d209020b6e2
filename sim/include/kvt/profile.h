/* kvt/profile.h -- step times as they were measured on one machine: a file of schema
 * "kvtide/profile/1". A calibration writes it, timing "profile" reads it.
 *
 * A family's time is the largest of its limits, and a limit is linear in what a load counts:
 *
 *     ns(family) = max over limits of the sum over features of ns_per[feature] x feature
 *
 * less what other families of the step hide of it. Outside the range that a family was measured
 * over it is carried on in the same way, and the step is flagged. */
#ifndef KVT_PROFILE_H
#define KVT_PROFILE_H

#include "kvt/timing.h"

KVT_BEGIN_DECLS

/* What a family may be linear in. Those of a group are known of ranks in lockstep together; the
 * others are of one rank's load. */
enum kvt_profile_feature {
    KVT_FEATURE_STEP = 0,      /* 1 */
    KVT_FEATURE_REQUESTS,      /* decoding, on the busiest rank of a group */
    KVT_FEATURE_QUERIES,       /* verified, on the busiest rank of a group */
    KVT_FEATURE_EXPERTS_SHARE, /* expected share of a GPU's experts that is touched */
    KVT_FEATURE_GROUP_FEATURES,
    KVT_FEATURE_CALLS = KVT_FEATURE_GROUP_FEATURES, /* and on, as kvt_rank_load has them */
    KVT_FEATURE_ROUND_QUERIES,                      /* of one request, mean */
    KVT_FEATURE_CONTEXT_ROWS,
    KVT_FEATURE_SCORED_ROWS, /* context rows, once for each query of their request */
    KVT_FEATURE_SELECTED_ROWS,
    KVT_FEATURE_ATTENDED_LAYER_ROWS,
    KVT_FEATURE_LOOKED_UP_ROWS,
    KVT_FEATURE_MISSED_ROWS,
    KVT_FEATURE_MISSED_LAYER_ROWS,
    KVT_FEATURE_WIRE_BYTES,
    KVT_FEATURE_INBOUND_BYTES,  /* imports, fills and copies beside the step; of those met, beside
                                 * its fetches */
    KVT_FEATURE_OUTBOUND_BYTES, /* backup likewise */
    KVT_FEATURE_NODE_BYTES,     /* all three, of all GPUs that gather from the node's DRAM */
    KVT_FEATURE_GATHERING_GPUS, /* those GPUs */
    KVT_FEATURE_GRANULES,       /* 64 KiB of host memory each, that a fetch has translated */
    KVT_FEATURE_GRANULE_BLOCKS, /* 2 MiB each, that these lie in, likewise */
    KVT_FEATURE_FAR_GRANULES,   /* granules that are not among those of KVT_PROFILE_NEAR_BYTES */
    KVT_FEATURE_FETCHES,        /* launches that fetch: of selectors that miss, and of waves */
    KVT_FEATURE_EXTRA_WAVES,
    KVT_FEATURE_EXTRA_WAVE_LAYERS,
    KVT_FEATURE_DRAFT_TOKENS,
    KVT_FEATURE_PREFILL_TOKENS,
    KVT_FEATURE_PREFILL_CONTEXT_TOKENS,
    KVT_FEATURES
};
const char *kvt_profile_feature_name(enum kvt_profile_feature feature); /* "step", ..; not NULL */

enum {
    KVT_PROFILE_LIMITS_MAX = 4,
    KVT_PROFILE_NAME_BYTES = 64,
    KVT_PROFILE_BLOCK_BYTES = 2 << 20
};

/* Host memory whose translations stay at hand: of a fetch from more, a part comes from afar. */
#define KVT_PROFILE_NEAR_BYTES (16.0 * (double)KVT_GIB)

struct kvt_profile_family {
    bool is_there;
    uint32_t limit_count; /* 0: its time is part of another family's */
    double ns_per[KVT_PROFILE_LIMITS_MAX][KVT_FEATURES]; /* [limit_count] not negative */
    bool has_range[KVT_FEATURES];
    double least[KVT_FEATURES], most[KVT_FEATURES]; /* where has_range */
    /* Of fetch alone, where a store's first layer is exposed and its others run beside compute: */
    double hidden_by[KVT_PARTS]; /* share of that family's time that hides this one; 0 to 1 */
    double exposed_ns_per[KVT_FEATURES]; /* what is exposed in any case */
};

/* Plain data without pointers. */
struct kvt_profile {
    /* What it was measured for; empty, or 0: whatever it is. */
    char model[KVT_PROFILE_NAME_BYTES], hardware[KVT_PROFILE_NAME_BYTES];
    uint32_t tp, ep;
    struct kvt_profile_family families[KVT_PARTS]; /* by the part of a step that each is */
};

/* Reads the file, names and terms strictly; what it holds beside them (points, errors, the
 * machine) is for people and other programs. */
KVT_CHECKED kvt_status kvt_profile_load(const char *path, struct kvt_profile *out,
                                        struct kvt_error *err);

/* What of a run's setting features depend on. */
struct kvt_profile_setting {
    double selectors;
    double untouched;         /* share of experts that one query leaves alone; 0: no experts */
    uint64_t expert_replicas; /* replicas whose queries meet at one set of experts */
    double gathering_gpus;    /* of a node at once */
};
struct kvt_profile_setting kvt_profile_setting_of(const struct kvt_timing_env *env);

/* Features of what ranks share, the others 0; and of a rank, all of them, those of the group as
 * the rank knows them (its own requests and queries). */
void kvt_profile_group_features(const struct kvt_profile_setting *setting,
                                const struct kvt_group_load *load, double features[KVT_FEATURES]);
void kvt_profile_rank_features(const struct kvt_profile_setting *setting,
                               const struct kvt_rank_load *load, double features[KVT_FEATURES]);

/* Of granules at random in so much memory, the share whose translation is not at hand:
 * 1 - near / memory, or 0. */
double kvt_profile_far_share(double memory_bytes);

/* What of the traffic beside a step gets in the way of its fetches: what moves while they do, which
 * is their share of the step (0 to 1), but no more than they move themselves; and what goes out
 * slows all that comes in, of which fetches are a part: wire / (wire + inbound) of it. met has the
 * features as they are but for inbound, outbound and the node's bytes. */
void kvt_profile_meet(const double features[KVT_FEATURES], double fetch_share,
                      double met[KVT_FEATURES]);
/* With the fetches' share of the step that the profile predicts: of what a GPU does, as the
 * measured one is, where no traffic is. */
void kvt_profile_meet_predicted(const struct kvt_profile *profile, bool leader_first,
                                const double features[KVT_FEATURES], double met[KVT_FEATURES]);
/* What fetches take where no traffic is. */
double kvt_profile_quiet_fetch_ns(const struct kvt_profile_family *fetch,
                                  const double features[KVT_FEATURES]);

/* The family's time by itself, nothing of it hidden; 0 for one that is not there. A fetch takes
 * features that are met. */
double kvt_profile_ns(const struct kvt_profile_family *family, const double features[KVT_FEATURES]);
/* The same of a part of a step, and 0 for a draft where nothing is drafted. */
double kvt_profile_part_ns(const struct kvt_profile *profile, enum kvt_step_part part,
                           const double features[KVT_FEATURES]);
/* Of all that a GPU does in a step but its fetches: neither host nor sampling; 0 of a fetch that no
 * step is around. */
double kvt_profile_others_ns(const struct kvt_profile *profile,
                             const double features[KVT_FEATURES]);

/* What of a fetch a step waits for: all of it where whole stores come at once, else
 *
 *     max(exposed in any case, its time - the share of other families' time that hides it) */
double kvt_profile_exposed_ns(const struct kvt_profile *profile, const double met[KVT_FEATURES],
                              bool leader_first);

/* Whether each feature that the family has a range of lies in it. One that is not there holds
 * nothing. */
bool kvt_profile_in_range(const struct kvt_profile_family *family,
                          const double features[KVT_FEATURES]);
/* The first that does not; KVT_FEATURES: each does. */
enum kvt_profile_feature kvt_profile_find_outside(const struct kvt_profile_family *family,
                                                  const double features[KVT_FEATURES]);

/* Whether the part of a step is shared by a group of ranks, so that its family is linear in
 * features of groups alone. */
static inline bool kvt_profile_is_of_group(enum kvt_step_part part)
{
    return part == KVT_PART_HOST || part == KVT_PART_DENSE || part == KVT_PART_SAMPLE;
}

KVT_END_DECLS
#endif
