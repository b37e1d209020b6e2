/* validate_time.c -- a profile beside a GPU, step by step.
 *
 *     runs of a grid that the profile was not fitted to, every step a point (points.h); those that
 *     it was fitted to are told, and prove nothing
 *     families   in steps that are timed apart, less what taking the times takes
 *     step       in steps that ran as any other
 *     rates      of each run: requests over the time of its steps, measured and predicted; their
 *                order, over runs that the grid calls ranked
 *
 * What is predicted is a function of the profile and the points alone, so that it can be made again
 * without a GPU. */
#include "validate_time.h"

#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../list.h"
#include "calibrate_gpu.h"

enum {
    FILE_BYTES_MAX = 64 << 20
};

static const double TELLS = 0.01; /* share by which rates must differ to have an order */
static const double SAME = 1e-7;  /* share by which files round */
static const double MARK_NS_MOST = 1e6;

/* ---- The profile ------------------------------------------------------------------------- */

/* Whether the file has points as a GPU's are; those of a benchmark are others. */
static bool has_points(const cJSON *tree)
{
    const cJSON *schema = kvt_json_find(kvt_json_find(tree, "points"), "schema");
    return cJSON_IsString(schema) && strcmp(schema->valuestring, "kvtide/points/1") == 0;
}

static kvt_status load_profile(const char *name, struct kvt_arena *arena, struct time_outcome *out,
                               struct kvt_error *err)
{
    cJSON *tree = NULL;
    const cJSON *made = NULL;
    kvt_status status = list_file_of(name, "models/profiles", "profile", "--profile", arena,
                                     &out->profile_path, err);

    out->profile_name = name;
    if (status == KVT_OK)
        status = kvt_profile_load(out->profile_path, &out->profile, err);
    if (status == KVT_OK)
        status = kvt_json_load(out->profile_path, FILE_BYTES_MAX, &tree, err);
    if (status == KVT_OK)
        status = kvt_json_get_object(tree, out->profile_path, "made", false, &made, err);
    if (status == KVT_OK && made)
        status = kvt_json_get_f64(made, out->profile_path, "mark_ns", false, 0, MARK_NS_MOST,
                                  &out->mark_ns, err);
    if (status == KVT_OK && has_points(tree))
        status = points_load(out->profile_path, arena, &out->fitted_points, err);
    cJSON_Delete(tree);
    return status;
}

static kvt_status check_setting(const struct time_outcome *out, struct kvt_error *err)
{
    const struct kvt_profile *profile = &out->profile;
    const struct points *points = &out->points;

    if ((profile->model[0] == '\0' || strcmp(profile->model, points->model) == 0) &&
        (profile->hardware[0] == '\0' || strcmp(profile->hardware, points->hardware) == 0) &&
        (profile->tp == 0 || profile->tp == points->tp) &&
        (profile->ep == 0 || profile->ep == points->ep))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, out->profile_path,
                    "a profile of %s on %s, tp %u, ep %u (0: any); what is measured is %s on %s, "
                    "tp %u, ep %u",
                    profile->model, profile->hardware, profile->tp, profile->ep, points->model,
                    points->hardware, points->tp, points->ep);
}

/* ---- What was measured ------------------------------------------------------------------- */

static kvt_status measure(const struct time_plan *plan, struct kvt_arena *arena,
                          struct time_outcome *out, struct kvt_error *err)
{
    struct kvt_wall start;
    struct cli_progress progress;
    struct grid *grid = NULL;
    struct grid_plan runs = {.sets = plan->sets,
                             .cache_dir = plan->cache_dir,
                             .threads = plan->threads,
                             .progress = &progress};
    const struct calibrate_selection selection = {.quick = plan->quick,
                                                  .only = plan->only,
                                                  .shard = plan->shard,
                                                  .shards = plan->shards,
                                                  .point_steps = 1};
    kvt_status status = grid_load(plan->grid, arena, &grid, err);

    runs.grid = grid;
    if (status == KVT_OK)
        status = cli_machine(plan->quiet, &out->points.machine, err);
    if (status != KVT_OK)
        return status;
    cli_progress_begin(&progress, &start, plan->quiet);
    status = calibrate_measure(&runs, &selection, arena, &out->points, &out->left_out, err);
    cli_progress_end(&progress);
    return status;
}

/* ---- Beside the profile ------------------------------------------------------------------ */

/* Room for every point. */
struct pairs {
    double *predicted, *measured, *errors;
    size_t count;
};

static void pairs_free(struct pairs *pairs)
{
    free(pairs->predicted);
    free(pairs->measured);
    free(pairs->errors);
}

static void add_pair(struct pairs *pairs, double predicted_ns, double measured_ns)
{
    pairs->predicted[pairs->count] = predicted_ns;
    pairs->measured[pairs->count] = measured_ns;
    pairs->errors[pairs->count++] = predicted_ns / measured_ns - 1;
}

/* Empties it. */
static void sum_up(struct pairs *pairs, struct time_family *family)
{
    robust_sum_up(pairs->errors, pairs->count, &family->errors);
    double r = pairs->count > 1
                   ? gsl_stats_correlation(pairs->predicted, 1, pairs->measured, 1, pairs->count)
                   : (double)NAN;
    family->correlation = isfinite(r) ? r : (double)NAN;
    pairs->count = 0;
}

static void judge_family(struct time_outcome *outcome, enum kvt_step_part part, struct pairs *pairs)
{
    const struct points *points = &outcome->points;
    struct time_family *family = &outcome->families[part];

    for (size_t i = 0; i < points->count && outcome->profile.families[part].is_there; i++) {
        const struct point *point = &points->items[i];
        double measured_ns = point_part_ns(point, part, outcome->mark_ns);
        bool is_wanted = part == KVT_PART_HOST ? !point->is_apart : point->is_apart;
        if (!is_wanted || measured_ns <= 0 || !point_has_part(point, part) ||
            points->configurations[point->configuration].is_gather)
            continue;
        add_pair(pairs, point_predict_part(&outcome->profile, points, point, part), measured_ns);
        family->in_range += point_part_is_in_range(&outcome->profile, points, point, part);
    }
    sum_up(pairs, family);
}

static void judge_gathers(struct time_outcome *outcome, struct pairs *pairs)
{
    const struct points *points = &outcome->points;

    for (size_t i = 0; i < points->count; i++) {
        const struct point *point = &points->items[i];
        double measured_ns = point->parts_ns[KVT_PART_FETCH];
        if (!points->configurations[point->configuration].is_gather || measured_ns <= 0)
            continue;
        double ns = point_predict_part(&outcome->profile, points, point, KVT_PART_FETCH);
        add_pair(pairs, ns, measured_ns);
        outcome->gathers.in_range += point_is_in_range(&outcome->profile, points, point);
        outcome->gathers_within += fabs(ns / measured_ns - 1) <= TIME_GATHER_MOST;
    }
    sum_up(pairs, &outcome->gathers);
}

static void judge_steps(struct time_outcome *outcome, struct pairs *pairs)
{
    const struct points *points = &outcome->points;

    for (size_t i = 0; i < points->count; i++) {
        const struct point *point = &points->items[i];
        struct time_run *run = &outcome->runs[point->configuration];
        if (point->is_apart)
            continue;
        bool in_range = point_is_in_range(&outcome->profile, points, point);
        double predicted_ns = point_predict_step(&outcome->profile, points, point);
        add_pair(pairs, predicted_ns, point->step_ns);
        outcome->step.in_range += in_range;
        run->in_range += in_range;
        run->steps++;
        run->requests += point->features[KVT_FEATURE_REQUESTS];
        run->measured_ns += point->step_ns;
        run->predicted_ns += predicted_ns;
        run->mape += fabs(predicted_ns / point->step_ns - 1);
    }
    for (size_t c = 0; c < points->configuration_count; c++) {
        struct time_run *run = &outcome->runs[c];
        run->requests /= run->steps > 0 ? (double)run->steps : 1;
        run->mape /= run->steps > 0 ? (double)run->steps : 1;
    }
    sum_up(pairs, &outcome->step);
}

double time_run_rate(const struct time_run *run, double ns)
{
    return run->steps > 0 ? run->requests * (double)run->steps / (ns * 1e-9) : (double)NAN;
}

static void rank(struct time_outcome *outcome)
{
    const struct points *points = &outcome->points;

    for (size_t a = 0; a < points->configuration_count; a++) {
        for (size_t b = a + 1; b < points->configuration_count; b++) {
            const struct time_run *run = &outcome->runs[a], *other = &outcome->runs[b];
            if (!points->configurations[a].is_ranked || !points->configurations[b].is_ranked)
                continue;
            double measured =
                time_run_rate(run, run->measured_ns) / time_run_rate(other, other->measured_ns);
            double predicted =
                time_run_rate(run, run->predicted_ns) / time_run_rate(other, other->predicted_ns);
            if (!isfinite(measured) || fabs(log(measured)) < TELLS)
                continue;
            outcome->pairs++;
            outcome->swapped += (measured > 1) != (predicted > 1);
        }
    }
    outcome->tau = outcome->pairs > 0 ? 1 - 2 * (double)outcome->swapped / (double)outcome->pairs
                                      : (double)NAN;
}

/* ---- What the profile was fitted to ------------------------------------------------------- */

static bool is_same_run(const struct points_configuration *a, const struct points_configuration *b)
{
    return a->is_gather == b->is_gather && strcmp(a->name, b->name) == 0 &&
           strcmp(a->sets, b->sets) == 0;
}

/* Whatever its configuration is called: no clock says the same twice, of the same load. Features
 * are whole, or means that files round. */
static bool is_same_row(const struct point *a, const struct point *b)
{
    bool is_same = a->is_apart == b->is_apart && a->steps == b->steps && a->step_ns == b->step_ns;

    for (int f = 0; f < KVT_FEATURES && is_same; f++)
        is_same = fabs(a->features[f] - b->features[f]) <= SAME * fabs(b->features[f]);
    return is_same;
}

static bool was_fitted(const struct time_outcome *outcome, const struct point *point)
{
    for (size_t i = 0; i < outcome->fitted_points.count; i++) {
        if (is_same_row(&outcome->fitted_points.items[i], point))
            return true;
    }
    return false;
}

static void find_fitted(struct time_outcome *outcome)
{
    const struct points *points = &outcome->points, *fitted = &outcome->fitted_points;

    for (size_t c = 0; c < points->configuration_count; c++) {
        for (size_t f = 0; f < fitted->configuration_count && !outcome->is_fitted[c]; f++)
            outcome->is_fitted[c] =
                is_same_run(&points->configurations[c], &fitted->configurations[f]);
    }
    for (size_t i = 0; i < points->count; i++) {
        bool *is_fitted = &outcome->is_fitted[points->items[i].configuration];
        *is_fitted = *is_fitted || was_fitted(outcome, &points->items[i]);
    }
    for (size_t c = 0; c < points->configuration_count; c++)
        outcome->fitted_count += outcome->is_fitted[c];
}

kvt_status time_judge(struct time_outcome *outcome, struct kvt_arena *arena, struct kvt_error *err)
{
    const struct points *points = &outcome->points;
    struct pairs pairs = {.predicted = calloc(points->count + 1, sizeof *pairs.predicted),
                          .measured = calloc(points->count + 1, sizeof *pairs.measured),
                          .errors = calloc(points->count + 1, sizeof *pairs.errors)};

    outcome->runs = kvt_arena_array(arena, points->configuration_count, sizeof *outcome->runs,
                                    _Alignof(struct time_run));
    outcome->is_fitted = kvt_arena_array(arena, points->configuration_count,
                                         sizeof *outcome->is_fitted, _Alignof(bool));
    if (!pairs.predicted || !pairs.measured || !pairs.errors || !outcome->runs ||
        !outcome->is_fitted) {
        pairs_free(&pairs);
        return kvt_fail_nomem(err, "a validation");
    }
    memset(outcome->runs, 0, points->configuration_count * sizeof *outcome->runs);
    memset(outcome->is_fitted, 0, points->configuration_count * sizeof *outcome->is_fitted);
    find_fitted(outcome);
    for (int p = 0; p < KVT_PARTS; p++)
        judge_family(outcome, (enum kvt_step_part)p, &pairs);
    judge_gathers(outcome, &pairs);
    judge_steps(outcome, &pairs);
    rank(outcome);
    pairs_free(&pairs);
    return KVT_OK;
}

kvt_status validate_time(const struct time_plan *plan, struct kvt_arena *arena,
                         struct time_outcome *out, struct kvt_error *err)
{
    kvt_status status = load_profile(plan->profile, arena, out, err);

    for (size_t f = 0; f < plan->points->count && status == KVT_OK; f++)
        status = points_load(plan->points->items[f], arena, &out->points, err);
    if (status == KVT_OK && plan->points->count == 0)
        status = measure(plan, arena, out, err);
    if (status == KVT_OK)
        status = check_setting(out, err);
    return status == KVT_OK ? time_judge(out, arena, err) : status;
}

void time_outcome_free(struct time_outcome *outcome)
{
    points_free(&outcome->points);
    points_free(&outcome->fitted_points);
}
