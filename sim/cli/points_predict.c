/* points_predict.c -- points beside a profile: the sums that timing "profile" makes of a step. */
#include <string.h>

#include "points.h"

bool point_has_part(const struct point *point, enum kvt_step_part part)
{
    switch (part) {
    case KVT_PART_FETCH:
        return point->features[KVT_FEATURE_WIRE_BYTES] > 0;
    case KVT_PART_DRAFT:
        return point->features[KVT_FEATURE_DRAFT_TOKENS] > 0;
    default:
        return true;
    }
}

double point_part_ns(const struct point *point, enum kvt_step_part part, double mark_ns)
{
    double ns = point->parts_ns[part] - mark_ns * point->marks[part];

    if (part != KVT_PART_HOST && !point->is_apart)
        return 0;
    return ns > 0 ? ns : 0;
}

/* Features with the traffic that its fetches meet, where followers run beside compute or not. */
static void meet(const struct kvt_profile *profile, const struct point *point, bool leader_first,
                 double features[KVT_FEATURES])
{
    memcpy(features, point->features, sizeof point->features);
    kvt_profile_meet_predicted(profile, leader_first && !point->is_apart, features);
}

double point_predict_part(const struct kvt_profile *profile, const struct point *point,
                          enum kvt_step_part part)
{
    double features[KVT_FEATURES];

    if (!point_has_part(point, part))
        return 0;
    meet(profile, point, false, features);
    return kvt_profile_ns(&profile->families[part], features);
}

double point_predict_others(const struct kvt_profile *profile, const struct point *point)
{
    double ns = 0;

    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_run = p != KVT_PART_FETCH && p != KVT_PART_HOST && p != KVT_PART_SAMPLE;
        ns += is_run ? point_predict_part(profile, point, (enum kvt_step_part)p) : 0;
    }
    return ns;
}

double point_predict_step(const struct kvt_profile *profile, const struct points *points,
                          const struct point *point)
{
    bool leader_first = !points->configurations[point->configuration].is_group;
    double ns = point_predict_others(profile, point), features[KVT_FEATURES];

    if (!point_has_part(point, KVT_PART_FETCH))
        return ns;
    meet(profile, point, leader_first, features);
    return ns + kvt_profile_exposed_ns(profile, features, leader_first);
}

bool point_is_in_range(const struct kvt_profile *profile, const struct points *points,
                       const struct point *point)
{
    const struct points_configuration *of = &points->configurations[point->configuration];
    double features[KVT_FEATURES];

    meet(profile, point, !of->is_group, features);
    for (int p = 0; p < KVT_PARTS; p++) {
        const struct kvt_profile_family *family = &profile->families[p];
        if (of->is_gather && p != KVT_PART_FETCH)
            continue;
        if (family->is_there && point_has_part(point, (enum kvt_step_part)p) &&
            !kvt_profile_in_range(family, features))
            return false;
    }
    return true;
}
