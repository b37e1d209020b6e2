/* validate_time_report.c -- a profile beside a GPU, as JSON and for people. */
#include <math.h>
#include <stdio.h>

#include "validate.h"
#include "validate_time.h"

enum {
    FITTED_TOLD = 8 /* names at most */
};

#define FITTED "the profile was fitted to these points"

/* What is not met, as a sentence; NULL: all is. */
static const char *fault_of(const struct time_outcome *outcome)
{
    const struct robust_errors *step = &outcome->step.errors;

    if (step->count == 0 && outcome->gathers.errors.count == 0)
        return "no step was compared";
    if (outcome->fitted_count > 0)
        return FITTED;
    if (step->mape > TIME_MAPE_MOST)
        return "the mean error of a step is above 5 %";
    if (step->p95_abs > TIME_P95_MOST)
        return "one step in twenty is off by more than 12 %";
    if (fabs(step->bias) > TIME_BIAS_MOST)
        return "steps are off by more than 2 % on average, all one way";
    if (outcome->swapped > 0)
        return "the order of the ranked runs is another one";
    if (outcome->gathers_within < outcome->gathers.errors.count)
        return "a gather is off by more than 10 %";
    return outcome->left_out > 0 ? "runs of the grid were left out" : NULL;
}

bool time_is_good(const struct time_outcome *outcome)
{
    return !fault_of(outcome);
}

/* Points are a GPU's steps, measured now or before; nobody looks at what they decide. */
static struct kvt_badge badge_of(const struct time_outcome *outcome)
{
    const struct time_family *step = &outcome->step;
    const size_t count = step->errors.count;
    const struct kvt_badge_facts facts = {
        .on_gpu = true,
        .gpu = validate_gpu_name(outcome->points.machine),
        .is_attention_good = true,
        .not_representative = outcome->fitted_count > 0 ? FITTED : NULL,
        .timed_steps = count,
        .in_range_share = count > 0 ? (double)step->in_range / (double)count : (double)NAN,
    };
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

/* ---- As JSON ------------------------------------------------------------------------------ */

static bool add_family(cJSON *list, const char *name, const struct time_family *family)
{
    const struct robust_errors *errors = &family->errors;
    cJSON *entry = kvt_json_add_element(list);

    return entry && kvt_json_add_text(entry, "name", name) &&
           kvt_json_add_number(entry, "n", (double)errors->count) &&
           kvt_json_add_number(entry, "mape", errors->mape) &&
           kvt_json_add_number(entry, "median_abs", errors->median_abs) &&
           kvt_json_add_number(entry, "p95_abs", errors->p95_abs) &&
           kvt_json_add_number(entry, "bias", errors->bias) &&
           kvt_json_add_number(entry, "r", family->correlation) &&
           kvt_json_add_number(entry, "in_range", (double)family->in_range / (double)errors->count);
}

static bool add_families(cJSON *tree, const struct time_outcome *outcome)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "families");
    bool ok = list != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (outcome->families[p].errors.count > 0)
            ok = add_family(list, kvt_step_part_name((enum kvt_step_part)p), &outcome->families[p]);
    }
    if (ok && outcome->gathers.errors.count > 0)
        ok = add_family(list, "gather", &outcome->gathers);
    return ok && (outcome->step.errors.count == 0 || add_family(list, "step", &outcome->step));
}

static bool add_runs(cJSON *tree, const struct time_outcome *outcome)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "runs");
    bool ok = list != NULL;

    for (size_t c = 0; c < outcome->points.configuration_count && ok; c++) {
        const struct time_run *run = &outcome->runs[c];
        if (run->steps == 0)
            continue;
        cJSON *entry = kvt_json_add_element(list);
        ok = entry && kvt_json_add_text(entry, "name", outcome->points.configurations[c].name) &&
             kvt_json_add_number(entry, "steps", (double)run->steps) &&
             kvt_json_add_number(entry, "requests", run->requests) &&
             kvt_json_add_number(entry, "measured_ms",
                                 run->measured_ns * 1e-6 / (double)run->steps) &&
             kvt_json_add_number(entry, "predicted_ms",
                                 run->predicted_ns * 1e-6 / (double)run->steps) &&
             kvt_json_add_number(entry, "tpot_error", run->predicted_ns / run->measured_ns - 1) &&
             kvt_json_add_number(entry, "throughput_error",
                                 run->measured_ns / run->predicted_ns - 1) &&
             kvt_json_add_number(entry, "step_mape", run->mape) &&
             kvt_json_add_number(entry, "in_range", (double)run->in_range / (double)run->steps);
    }
    return ok;
}

static bool add_gathers(cJSON *tree, const struct time_outcome *outcome)
{
    const struct points *points = &outcome->points;
    cJSON *list = cJSON_AddArrayToObject(tree, "gathers");
    bool ok = list != NULL;

    for (size_t i = 0; i < points->count && ok; i++) {
        const struct point *point = &points->items[i];
        const struct points_configuration *gather = &points->configurations[point->configuration];
        if (!gather->is_gather)
            continue;
        double ns = point_predict_part(&outcome->profile, points, point, KVT_PART_FETCH);
        cJSON *entry = kvt_json_add_element(list);
        ok = entry && kvt_json_add_text(entry, "name", gather->name) &&
             kvt_json_add_number(entry, "measured_us", point->step_ns * 1e-3) &&
             kvt_json_add_number(entry, "predicted_us", ns * 1e-3) &&
             kvt_json_add_number(entry, "error", ns / point->step_ns - 1);
    }
    return ok;
}

/* Names of what the profile was fitted to. */
static bool add_fitted(cJSON *tree, const struct time_outcome *outcome)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "fitted_to");
    bool ok = list != NULL;

    for (size_t c = 0; c < outcome->points.configuration_count && ok; c++) {
        cJSON *name = outcome->is_fitted[c]
                          ? cJSON_CreateString(outcome->points.configurations[c].name)
                          : NULL;
        ok = !outcome->is_fitted[c] || (name && cJSON_AddItemToArray(list, name));
    }
    return ok;
}

static bool add_ranking(cJSON *tree, const struct time_outcome *outcome)
{
    cJSON *ranking = kvt_json_add_object(tree, "ranking");

    return ranking && kvt_json_add_number(ranking, "pairs", (double)outcome->pairs) &&
           kvt_json_add_number(ranking, "swapped", (double)outcome->swapped) &&
           kvt_json_add_number(ranking, "kendall_tau", outcome->tau);
}

kvt_status time_tree(const struct time_outcome *outcome, cJSON **out, struct kvt_error *err)
{
    cJSON *points = NULL, *tree = cJSON_CreateObject();
    const char *fault = fault_of(outcome);
    const struct kvt_badge badge = badge_of(outcome);
    kvt_status status = points_tree(&outcome->points, &points, err);

    if (status != KVT_OK) {
        cJSON_Delete(tree);
        return status;
    }
    bool ok = tree && kvt_json_add_text(tree, "schema", "kvtide/validate/1") &&
              kvt_json_add_text(tree, "suite", "time") && kvt_json_add_bool(tree, "good", !fault) &&
              kvt_json_add_text(tree, "fault", fault) &&
              kvt_json_add_text(tree, "profile", outcome->profile_name) &&
              kvt_json_add_number(tree, "left_out", (double)outcome->left_out) &&
              kvt_json_add_number(tree, "gathers_within", (double)outcome->gathers_within) &&
              add_fitted(tree, outcome) && add_families(tree, outcome) && add_runs(tree, outcome) &&
              add_gathers(tree, outcome) && add_ranking(tree, outcome) &&
              kvt_badge_add(tree, &badge);
    if (!ok)
        cJSON_Delete(points);
    if (ok && kvt_json_add(tree, "points", points)) { /* it is deleted where it cannot be added */
        *out = tree;
        return KVT_OK;
    }
    cJSON_Delete(tree);
    return kvt_fail_nomem(err, "the result of a validation");
}

/* ---- For people ---------------------------------------------------------------------------- */

static void print_family(const char *name, const struct time_family *family)
{
    const struct robust_errors *errors = &family->errors;
    char correlation[16] = "-";

    if (errors->count == 0)
        return;
    if (isfinite(family->correlation))
        (void)snprintf(correlation, sizeof correlation, "%.3f", family->correlation);
    printf("%-9s %6zu %8.1f%% %8.1f%% %8.1f%% %+8.1f%% %8s %8.0f%%\n", name, errors->count,
           100 * errors->mape, 100 * errors->median_abs, 100 * errors->p95_abs, 100 * errors->bias,
           correlation, 100 * (double)family->in_range / (double)errors->count);
}

static void print_runs(const struct time_outcome *outcome)
{
    printf("%-22s %6s %9s %11s %12s %8s %9s\n", "run", "steps", "requests", "measured ms",
           "predicted ms", "error", "in range");
    for (size_t c = 0; c < outcome->points.configuration_count; c++) {
        const struct time_run *run = &outcome->runs[c];
        double steps = (double)run->steps;
        if (run->steps == 0)
            continue;
        printf("%-22s %6zu %9.1f %11.3f %12.3f %+7.1f%% %8.0f%%\n",
               outcome->points.configurations[c].name, run->steps, run->requests,
               run->measured_ns * 1e-6 / steps, run->predicted_ns * 1e-6 / steps,
               100 * (run->predicted_ns / run->measured_ns - 1),
               100 * (double)run->in_range / steps);
    }
}

/* By name, as far as a line has room. */
static void print_fitted(const struct time_outcome *outcome)
{
    int told = 0;

    if (outcome->fitted_count == 0)
        return;
    printf("the profile was fitted to %zu of these %zu: ", outcome->fitted_count,
           outcome->points.configuration_count);
    for (size_t c = 0; c < outcome->points.configuration_count && told < FITTED_TOLD; c++) {
        if (outcome->is_fitted[c])
            printf("%s%s", told++ > 0 ? ", " : "", outcome->points.configurations[c].name);
    }
    puts(outcome->fitted_count > FITTED_TOLD ? ", .." : "");
}

/* What was met. */
static const char *merit_of(const struct time_outcome *outcome)
{
    if (outcome->step.errors.count == 0)
        return "each gather within 10 %; no step was compared";
    return outcome->pairs > 0 ? "mean error at most 5 %, P95 12 %, bias 2 %, ranked runs in order"
                              : "mean error at most 5 %, P95 12 %, bias 2 %; no runs are ranked";
}

void time_print(const struct time_outcome *outcome)
{
    const char *fault = fault_of(outcome);
    const struct kvt_badge badge = badge_of(outcome);

    if (outcome->step.errors.count > 0)
        print_runs(outcome);
    printf("\n%-9s %6s %9s %9s %9s %9s %8s %9s\n", "time of", "n", "mean abs", "p50 abs", "p95 abs",
           "bias", "r", "in range");
    for (int p = 0; p < KVT_PARTS; p++)
        print_family(kvt_step_part_name((enum kvt_step_part)p), &outcome->families[p]);
    print_family("gather", &outcome->gathers);
    print_family("step", &outcome->step);
    printf("families: in steps that were timed apart, every copy exposed; step: as it ran\n");
    if (outcome->gathers.errors.count > 0)
        printf("gathers, each within 10 %%: %zu of %zu\n", outcome->gathers_within,
               outcome->gathers.errors.count);
    if (outcome->pairs > 0)
        printf("order of the ranked runs: %zu of %zu pairs alike, Kendall's tau %.2f\n",
               outcome->pairs - outcome->swapped, outcome->pairs, outcome->tau);
    print_fitted(outcome);
    cli_print_badge(&badge);
    printf("%s: %s\n", fault ? "no" : "yes", fault ? fault : merit_of(outcome));
}
