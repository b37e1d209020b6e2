/* points_predict.c -- points beside a profile: the sums that timing "profile" makes of a step. */
#include "points.h"

bool point_has_part(const struct point *point, enum kvt_step_part part)
{
    switch (part) {
    case KVT_PART_FETCH:
        return point->features[KVT_FEATURE_WIRE_BYTES] > 0;
    case KVT_PART_DRAFT:
        return point->features[KVT_FEATURE_DRAFT_TOKENS] > 0;
    default:
        return point->features[KVT_FEATURE_STEP] > 0; /* none is around a gather */
    }
}

double point_part_ns(const struct point *point, enum kvt_step_part part, double mark_ns)
{
    double ns = point->parts_ns[part] - mark_ns * point->marks[part];

    if (part != KVT_PART_HOST && !point->is_apart)
        return 0;
    return ns > 0 ? ns : 0;
}

/* Whether followers run beside compute: where whole stores come at once they do not, nor in steps
 * that are timed apart. */
static bool is_leader_first(const struct points *points, const struct point *point)
{
    return !point->is_apart && !points->configurations[point->configuration].is_group;
}

/* Features with the traffic that its fetches meet. */
static void meet(const struct kvt_profile *profile, const struct points *points,
                 const struct point *point, double met[KVT_FEATURES])
{
    kvt_profile_meet_predicted(profile, is_leader_first(points, point), point->features, met);
}

double point_predict_part(const struct kvt_profile *profile, const struct points *points,
                          const struct point *point, enum kvt_step_part part)
{
    double met[KVT_FEATURES];

    if (!point_has_part(point, part))
        return 0;
    if (part != KVT_PART_FETCH)
        return kvt_profile_ns(&profile->families[part], point->features);
    meet(profile, points, point, met);
    return kvt_profile_ns(&profile->families[part], met);
}

double point_predict_step(const struct kvt_profile *profile, const struct points *points,
                          const struct point *point)
{
    double ns = kvt_profile_others_ns(profile, point->features), met[KVT_FEATURES];

    if (!point_has_part(point, KVT_PART_FETCH))
        return ns;
    meet(profile, points, point, met);
    return ns + kvt_profile_exposed_ns(profile, met, is_leader_first(points, point));
}

bool point_part_is_in_range(const struct kvt_profile *profile, const struct points *points,
                            const struct point *point, enum kvt_step_part part)
{
    const struct kvt_profile_family *family = &profile->families[part];
    double met[KVT_FEATURES];

    if (!family->is_there || !point_has_part(point, part))
        return true;
    meet(profile, points, point, met);
    return kvt_profile_in_range(family, met);
}

bool point_is_in_range(const struct kvt_profile *profile, const struct points *points,
                       const struct point *point)
{
    bool is_in = true;

    for (int p = 0; p < KVT_PARTS; p++)
        is_in = is_in && point_part_is_in_range(profile, points, point, (enum kvt_step_part)p);
    return is_in;
}
