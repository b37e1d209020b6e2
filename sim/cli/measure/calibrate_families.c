/* calibrate_families.c -- a profile out of points.
 *
 *     mark_ns   where nothing is fetched, a step whose parts are timed one by one does what a whole
 *               one does, and stops to take times: what it takes longer, over how often it stops
 *     families  each from the steps that are timed apart, less mark_ns for each stop
 *     exposed   whole steps whose followers run beside compute: what they take beyond the other
 *               families is what is exposed of their fetch, with what copies slow the others by.
 *               The share of dense and attention time that hides a fetch is the one that, with the
 *               floor fitted to the steps that it leaves, explains these steps best
 *
 * A family that was timed and whose terms cannot be told is none of the profile's, and is named.
 * Then, for the error of a step, all of it again without each configuration in turn. */
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_gpu.h"

enum {
    SHARES = 50, /* of hiding that are tried: 0, .02, .. 1 */
    NOBODY = UINT32_MAX
};

static const double LOSS_MOST = 0.05; /* share of a step, beyond which it is an outlier */

/* Host, dense and sampling know features of a group alone. */
static const struct family_form forms[] = {
    {KVT_PART_HOST, 1, {{.count = 1, .features = {KVT_FEATURE_STEP}}}},
    {KVT_PART_DENSE,
     1,
     {{.count = 3,
       .features = {KVT_FEATURE_STEP, KVT_FEATURE_QUERIES, KVT_FEATURE_EXPERTS_SHARE}}}},
    {KVT_PART_INDEX,
     1,
     {{.count = 4,
       .features = {KVT_FEATURE_STEP, KVT_FEATURE_CONTEXT_ROWS, KVT_FEATURE_SCORED_ROWS,
                    KVT_FEATURE_QUERIES}}}},
    {KVT_PART_RESOLVE,
     1,
     {{.count = 4,
       .features = {KVT_FEATURE_STEP, KVT_FEATURE_FETCHES, KVT_FEATURE_ROUND_QUERIES,
                    KVT_FEATURE_LOOKED_UP_ROWS}}}},
    {KVT_PART_FETCH,
     3,
     {{.count = 5,
       .features = {KVT_FEATURE_WIRE_BYTES, KVT_FEATURE_FETCHES, KVT_FEATURE_MISSED_ROWS,
                    KVT_FEATURE_INBOUND_BYTES, KVT_FEATURE_OUTBOUND_BYTES}},
      {.count = 4,
       .features = {KVT_FEATURE_GRANULES, KVT_FEATURE_GRANULE_BLOCKS, KVT_FEATURE_FAR_GRANULES,
                    KVT_FEATURE_FETCHES}},
      {.count = 2, /* of the node: one GPU alone does not tell it from the limit of its link */
       .features = {KVT_FEATURE_NODE_BYTES, KVT_FEATURE_FETCHES},
       .is_told_by_some = true,
       .told_by = KVT_FEATURE_GATHERING_GPUS,
       .told_above = 1}}},
    {KVT_PART_ATTEND,
     1,
     {{.count = 2, .features = {KVT_FEATURE_STEP, KVT_FEATURE_ATTENDED_LAYER_ROWS}}}},
    {KVT_PART_DRAFT,
     1,
     {{.count = 3,
       .features = {KVT_FEATURE_STEP, KVT_FEATURE_REQUESTS, KVT_FEATURE_DRAFT_TOKENS}}}},
    {KVT_PART_OTHER,
     1,
     {{.count = 4,
       .features = {KVT_FEATURE_STEP, KVT_FEATURE_FETCHES, KVT_FEATURE_REQUESTS,
                    KVT_FEATURE_QUERIES}}}},
};
static const struct family_form exposed_form = {
    KVT_PART_FETCH,
    1,
    {{.count = 5,
      .features = {KVT_FEATURE_WIRE_BYTES, KVT_FEATURE_FETCHES, KVT_FEATURE_GRANULES,
                   KVT_FEATURE_INBOUND_BYTES, KVT_FEATURE_OUTBOUND_BYTES}}}};

/* Of one fit: which points, and room for samples. */
struct fitter {
    const struct points *points;
    uint32_t left_out;             /* configuration; NOBODY: none */
    bool leaves_out;               /* errors of each configuration, too */
    struct family_sample *samples; /* [points->count] */
    double *hidden_ns, *fetch_ns;  /* [points->count] beside samples */
    double (*met)[KVT_FEATURES];   /* [points->count] features, with what traffic fetches met */
};

static bool is_in(const struct fitter *fitter, const struct point *point)
{
    return point->configuration != fitter->left_out;
}

static bool is_group(const struct points *points, const struct point *point)
{
    return points->configurations[point->configuration].is_group;
}

/* ---- Marks ----------------------------------------------------------------------------- */

/* Of a run without fetches: what its steps that are timed apart take longer, over their marks.
 * False where it has none of either kind. */
static bool mark_of_run(const struct points *points, uint32_t configuration, double *ns)
{
    double sums[2] = {0}, counts[2] = {0}, marks = 0;

    for (size_t i = 0; i < points->count; i++) {
        const struct point *point = &points->items[i];
        if (point->configuration != configuration || point->features[KVT_FEATURE_WIRE_BYTES] > 0)
            continue;
        sums[point->is_apart] += point->step_ns;
        counts[point->is_apart]++;
        for (int p = 0; p < KVT_PARTS && point->is_apart; p++)
            marks += point->marks[p];
    }
    if (counts[0] == 0 || counts[1] == 0 || marks == 0)
        return false;
    *ns = fmax((sums[1] / counts[1] - sums[0] / counts[0]) / (marks / counts[1]), 0);
    return true;
}

/* The median run's. */
static kvt_status find_mark(const struct points *points, struct gpu_calibration *out,
                            struct kvt_error *err)
{
    double *all = calloc(points->configuration_count, sizeof *all);

    if (!all)
        return kvt_fail_nomem(err, "a calibration");
    for (size_t c = 0; c < points->configuration_count; c++)
        out->mark_runs += mark_of_run(points, (uint32_t)c, &all[out->mark_runs]);
    out->mark_ns = out->mark_runs > 0 ? gsl_stats_median(all, 1, out->mark_runs) : 0;
    free(all);
    return KVT_OK;
}

/* ---- Traffic beside fetches -------------------------------------------------------------- */

/* Where a step is timed apart, its fetches' share of it is measured; elsewhere none is known yet.
 */
static void meet_apart(struct fitter *fitter)
{
    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        double share = point->is_apart ? point->parts_ns[KVT_PART_FETCH] / point->step_ns : 0;
        kvt_profile_meet(point->features, share, fitter->met[i]);
    }
}

/* In a whole step fetches take as long as these tell, were it not for the traffic. */
static void meet_whole(struct fitter *fitter, const struct kvt_profile_family *fetch)
{
    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (point->is_apart)
            continue;
        double share = kvt_profile_quiet_fetch_ns(fetch, point->features) / point->step_ns;
        kvt_profile_meet(point->features, fmin(share, 1), fitter->met[i]);
    }
}

/* ---- Families -------------------------------------------------------------------------- */

/* Of a run, not of a gather. */
static bool is_step_with(const struct fitter *fitter, const struct point *point,
                         enum kvt_step_part part)
{
    return is_in(fitter, point) && point_has_part(point, part) &&
           !fitter->points->configurations[point->configuration].is_gather;
}

/* What whole steps have of a feature was measured too. */
static void widen_ranges(const struct fitter *fitter, enum kvt_step_part part,
                         struct kvt_profile_family *family)
{
    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (!is_step_with(fitter, point, part))
            continue;
        for (int f = 0; f < KVT_FEATURES; f++) {
            if (family->has_range[f] && family->most[f] <= 0)
                continue; /* what could not be told */
            family->least[f] = fmin(family->least[f], fitter->met[i][f]);
            family->most[f] = fmax(family->most[f], fitter->met[i][f]);
        }
    }
}

/* As many GPUs at once as were measured, and fewer; one alone where the node's limit cannot be
 * told. Points that do not say how many they were say nothing. */
static void hold_gpus(const struct fitter *fitter, struct kvt_profile_family *fetch)
{
    bool is_told = fetch->has_range[KVT_FEATURE_NODE_BYTES];
    double most = 0;

    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (is_in(fitter, point) && point_has_part(point, KVT_PART_FETCH))
            most = fmax(most, point->features[KVT_FEATURE_GATHERING_GPUS]);
    }
    if (most <= 0)
        return;
    fetch->has_range[KVT_FEATURE_GATHERING_GPUS] = true;
    fetch->least[KVT_FEATURE_GATHERING_GPUS] = 1;
    fetch->most[KVT_FEATURE_GATHERING_GPUS] = is_told ? most : 1;
}

/* A family that no point has is none of the profile's. */
static kvt_status fit_family(struct fitter *fitter, const struct family_form *form,
                             struct gpu_calibration *out, struct kvt_error *err)
{
    size_t count = 0;

    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        double ns = point_part_ns(point, form->part, out->mark_ns);
        if (is_in(fitter, point) && point_has_part(point, form->part) && ns > 0)
            fitter->samples[count++] = (struct family_sample){
                .features = fitter->met[i], .ns = ns, .configuration = point->configuration};
    }
    if (count == 0)
        return KVT_OK;
    kvt_status status =
        family_fit(form, fitter->samples, count, fitter->leaves_out, &out->fits[form->part], err);
    if (status == KVT_ERR_UNSUPPORTED) {
        out->untold_points[form->part] = count;
        return KVT_OK;
    }
    if (status != KVT_OK)
        return status;
    out->profile.families[form->part] = out->fits[form->part].family;
    if (form->part == KVT_PART_FETCH)
        meet_whole(fitter, &out->profile.families[KVT_PART_FETCH]);
    widen_ranges(fitter, form->part, &out->profile.families[form->part]);
    if (form->part == KVT_PART_FETCH)
        hold_gpus(fitter, &out->profile.families[KVT_PART_FETCH]);
    return KVT_OK;
}

/* ---- What is exposed of a fetch ---------------------------------------------------------- */

/* Whole steps whose followers run beside compute. */
static size_t gather_exposed(struct fitter *fitter, const struct kvt_profile *profile)
{
    size_t count = 0;

    for (size_t i = 0; i < fitter->points->count; i++) {
        const struct point *point = &fitter->points->items[i];
        if (!is_in(fitter, point) || point->is_apart || is_group(fitter->points, point) ||
            !point_has_part(point, KVT_PART_FETCH))
            continue;
        fitter->hidden_ns[count] = kvt_profile_part_ns(profile, KVT_PART_DENSE, point->features) +
                                   kvt_profile_part_ns(profile, KVT_PART_ATTEND, point->features);
        fitter->fetch_ns[count] =
            kvt_profile_ns(&profile->families[KVT_PART_FETCH], fitter->met[i]);
        fitter->samples[count++] = (struct family_sample){
            .features = fitter->met[i],
            .ns = point->step_ns - kvt_profile_others_ns(profile, point->features),
            .weight_ns = point->step_ns,
            .configuration = point->configuration};
    }
    return count;
}

/* The floor, fitted to the samples that are not explained by what this share leaves of their fetch;
 * returns the mean error of all, in shares of a step. INFINITY: it cannot be fitted. */
static double try_share(const struct fitter *fitter, size_t count, double share,
                        struct family_sample *left, struct family_fit *floor_fit)
{
    size_t left_count = 0;
    double loss = 0;
    struct kvt_error unused;

    for (size_t i = 0; i < count; i++) {
        double rest_ns = fitter->fetch_ns[i] - share * fitter->hidden_ns[i];
        if (rest_ns < fitter->samples[i].ns)
            left[left_count++] = fitter->samples[i];
    }
    if (family_fit(&exposed_form, left, left_count, false, floor_fit, &unused) != KVT_OK)
        return INFINITY;
    for (size_t i = 0; i < count; i++) {
        const struct family_sample *sample = &fitter->samples[i];
        double rest_ns = fitter->fetch_ns[i] - share * fitter->hidden_ns[i];
        double ns = fmax(rest_ns, kvt_profile_ns(&floor_fit->family, sample->features));
        loss += fmin(fabs(ns - sample->ns) / sample->weight_ns, LOSS_MOST);
    }
    return loss / (double)count;
}

/* Nothing of what whole steps could not tell; and of what crosses the link beside a fetch no more
 * than steps had, whatever gathers had, which expose nothing. */
static void hold_exposed(const struct fitter *fitter, const struct kvt_profile_family *exposed,
                         struct kvt_profile_family *fetch)
{
    static const enum kvt_profile_feature beside[] = {KVT_FEATURE_INBOUND_BYTES,
                                                      KVT_FEATURE_OUTBOUND_BYTES};

    for (int f = 0; f < KVT_FEATURES; f++) {
        if (!exposed->has_range[f] || exposed->most[f] > 0)
            continue;
        fetch->has_range[f] = true;
        fetch->least[f] = fetch->most[f] = 0;
    }
    for (size_t b = 0; b < sizeof beside / sizeof beside[0]; b++) {
        double most = 0;
        for (size_t i = 0; i < fitter->points->count; i++) {
            const struct point *point = &fitter->points->items[i];
            if (is_step_with(fitter, point, KVT_PART_FETCH))
                most = fmax(most, fitter->met[i][beside[b]]);
        }
        fetch->most[beside[b]] = fmin(fetch->most[beside[b]], most);
    }
}

static kvt_status fit_exposed(struct fitter *fitter, struct gpu_calibration *out,
                              struct kvt_error *err)
{
    struct kvt_profile_family *fetch = &out->profile.families[KVT_PART_FETCH];
    size_t count = fetch->is_there ? gather_exposed(fitter, &out->profile) : 0;
    double least = INFINITY;

    if (count == 0)
        return KVT_OK;
    struct family_sample *left = calloc(count, sizeof *left);
    if (!left)
        return kvt_fail_nomem(err, "a calibration");
    for (int s = 0; s <= SHARES; s++) {
        struct family_fit floor_fit;
        double share = (double)s / SHARES;
        double loss = try_share(fitter, count, share, left, &floor_fit);
        if (loss >= least)
            continue;
        least = loss;
        out->exposed = floor_fit;
        fetch->hidden_by[KVT_PART_DENSE] = fetch->hidden_by[KVT_PART_ATTEND] = share;
        for (int f = 0; f < KVT_FEATURES; f++)
            fetch->exposed_ns_per[f] = floor_fit.family.ns_per[0][f];
    }
    free(left);
    hold_exposed(fitter, &out->exposed.family, fetch);
    return KVT_OK;
}

/* ---- All of it ------------------------------------------------------------------------- */

static kvt_status fit_all(struct fitter *fitter, struct gpu_calibration *out, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (size_t f = 0; f < sizeof forms / sizeof forms[0] && status == KVT_OK; f++)
        status = fit_family(fitter, &forms[f], out, err);
    return status == KVT_OK ? fit_exposed(fitter, out, err) : status;
}

static size_t step_errors(const struct points *points, const struct kvt_profile *profile,
                          uint32_t configuration, double *errors)
{
    size_t count = 0;

    for (size_t i = 0; i < points->count; i++) {
        const struct point *point = &points->items[i];
        if (!point->is_apart && (configuration == NOBODY || point->configuration == configuration))
            errors[count++] = point_predict_step(profile, points, point) / point->step_ns - 1;
    }
    return count;
}

/* Whether it has every family that the other has. */
static bool has_families(const struct kvt_profile *profile, const struct kvt_profile *other)
{
    bool has_all = true;

    for (int p = 0; p < KVT_PARTS; p++)
        has_all = has_all && (profile->families[p].is_there || !other->families[p].is_there);
    return has_all;
}

/* Each configuration by what was fitted to the others; one without which a family cannot be fitted
 * is passed over. */
static kvt_status leave_out(struct fitter *fitter, struct gpu_calibration *out,
                            struct kvt_error *err)
{
    const struct points *points = fitter->points;
    double *errors = calloc(points->count, sizeof *errors);
    size_t count = 0;
    kvt_status status = KVT_OK;

    if (!errors)
        return kvt_fail_nomem(err, "a calibration");
    fitter->leaves_out = false;
    robust_sum_up(errors, step_errors(points, &out->profile, NOBODY, errors), &out->step_own);
    for (size_t c = 0; c < points->configuration_count && status == KVT_OK; c++) {
        struct gpu_calibration without = {.points = points, .mark_ns = out->mark_ns};
        fitter->left_out = (uint32_t)c;
        status = fit_all(fitter, &without, err);
        if (status == KVT_OK && has_families(&without.profile, &out->profile))
            count += step_errors(points, &without.profile, (uint32_t)c, errors + count);
    }
    if (status == KVT_OK)
        robust_sum_up(errors, count, &out->step_left_out);
    free(errors);
    return status;
}

const char *calibrate_say_untold(const struct gpu_calibration *calibration, enum kvt_step_part part,
                                 char out[CALIBRATE_WHY_BYTES])
{
    (void)snprintf(out, CALIBRATE_WHY_BYTES,
                   "not told: %zu points are too few, or no term is certain; more points are "
                   "expected",
                   calibration->untold_points[part]);
    return out;
}

static kvt_status check_told(const struct gpu_calibration *calibration, struct kvt_error *err)
{
    char why[CALIBRATE_WHY_BYTES];

    for (int p = 0; p < KVT_PARTS; p++) {
        if (calibration->profile.families[p].is_there)
            return KVT_OK;
    }
    for (int p = 0; p < KVT_PARTS; p++) {
        enum kvt_step_part part = (enum kvt_step_part)p;
        if (calibration->untold_points[p] > 0)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate", "%s: %s",
                            kvt_step_part_name(part), calibrate_say_untold(calibration, part, why));
    }
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                    "no family of a step was timed in %zu points; steps that are timed apart, or "
                    "gathers, are expected",
                    calibration->points->count);
}

kvt_status calibrate_fit(const struct points *points, struct gpu_calibration *out,
                         struct kvt_error *err)
{
    struct fitter fitter = {.points = points,
                            .left_out = NOBODY,
                            .leaves_out = true,
                            .samples = calloc(points->count + 1, sizeof *fitter.samples),
                            .hidden_ns = calloc(points->count + 1, sizeof *fitter.hidden_ns),
                            .fetch_ns = calloc(points->count + 1, sizeof *fitter.fetch_ns),
                            .met = calloc(points->count + 1, sizeof *fitter.met)};
    bool has_room = fitter.samples && fitter.hidden_ns && fitter.fetch_ns && fitter.met;

    *out = (struct gpu_calibration){.points = points};
    kvt_status status =
        has_room ? find_mark(points, out, err) : kvt_fail_nomem(err, "a calibration");
    if (has_room && status == KVT_OK)
        meet_apart(&fitter);
    if (has_room && status == KVT_OK)
        status = fit_all(&fitter, out, err);
    if (has_room && status == KVT_OK)
        status = check_told(out, err);
    if (has_room && status == KVT_OK)
        status = leave_out(&fitter, out, err);
    free(fitter.samples);
    free(fitter.hidden_ns);
    free(fitter.fetch_ns);
    free(fitter.met);
    return status;
}
