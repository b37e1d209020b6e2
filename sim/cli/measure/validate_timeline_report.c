/* validate_timeline_report.c -- two courses side by side: as JSON, and for people. */
#include <math.h>

#include "kvt/badge.h"
#include "kvt/timing.h"
#include "kvt/version.h"
#include "validate_timeline.h"

static const char *const side_names[TIMELINE_SIDES] = {"measured", "predicted"};

/* The measured run's; what the simulator's times rest on stands beside it. */
static struct kvt_badge badge_of(const struct timeline_outcome *outcome)
{
    struct kvt_badge badge = {0};

    (void)kvt_badge_read(outcome->document, &badge);
    return badge;
}

/* "roofline (datasheet)", "profile (profile, 97 % of steps in range)". */
static void say_timing(const struct timeline_outcome *outcome, char *out, size_t out_bytes)
{
    const char *basis = kvt_basis_name(outcome->timing_basis);

    if (outcome->in_range_share < 1 || outcome->timing_basis == KVT_BASIS_PROFILE)
        (void)snprintf(out, out_bytes, "%s (%s, %.0f %% of steps in range)", outcome->timing, basis,
                       100 * outcome->in_range_share);
    else
        (void)snprintf(out, out_bytes, "%s (%s)", outcome->timing, basis);
}

static const char *say_machine(const struct timeline_outcome *outcome)
{
    const char *gpu = validate_gpu_name(kvt_json_find(outcome->document, "machine"));
    return gpu ? gpu : "no GPU: the simulator beside itself";
}

/* ---- As JSON ------------------------------------------------------------------------------- */

static bool add_column(cJSON *object, const struct timeline *timeline, enum timeline_column column)
{
    cJSON *array = cJSON_AddArrayToObject(object, timeline_column_name(column));

    for (size_t i = 0; i < timeline->count && array; i++) {
        double value = timeline->columns[column][i];
        cJSON *item = isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
        if (!cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(item);
            return false;
        }
    }
    return array != NULL;
}

static bool add_side(cJSON *tree, const struct timeline_outcome *outcome, int side)
{
    cJSON *object = kvt_json_add_object(tree, side_names[side]);
    bool ok = object != NULL;

    for (int c = 0; c < TIMELINE_COLUMNS && ok; c++)
        ok = add_column(object, &outcome->sides[side], (enum timeline_column)c);
    return ok;
}

static bool add_difference(cJSON *phase, enum timeline_column column,
                           const struct timeline_difference *difference)
{
    cJSON *object = kvt_json_add_object(phase, timeline_column_name(column));

    return object &&
           kvt_json_add_number(object, side_names[TIMELINE_MEASURED],
                               difference->means[TIMELINE_MEASURED]) &&
           kvt_json_add_number(object, side_names[TIMELINE_PREDICTED],
                               difference->means[TIMELINE_PREDICTED]) &&
           kvt_json_add_number(object, "mean_abs_difference", difference->mean_abs);
}

static bool add_phases(cJSON *tree, const struct timeline_outcome *outcome)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "phases");
    bool ok = list != NULL;

    for (size_t p = 0; p < outcome->phase_count && ok; p++) {
        const struct timeline_phase *phase = &outcome->phases[p];
        cJSON *object = kvt_json_add_element(list);
        ok = object && kvt_json_add_number(object, "phase", (double)p) &&
             kvt_json_add_number(object, "from_s", phase->from_s) &&
             kvt_json_add_number(object, "to_s", phase->to_s);
        for (int q = 0; q < TIMELINE_QUANTITIES && ok; q++)
            ok = add_difference(object, timeline_quantities[q].column, &phase->of[q]);
    }
    return ok;
}

static bool add_timing(cJSON *tree, const struct timeline_outcome *outcome)
{
    cJSON *timing = kvt_json_add_object(tree, "timing");

    return timing && kvt_json_add_text(timing, "model", outcome->timing) &&
           kvt_json_add_text(timing, "basis", kvt_basis_name(outcome->timing_basis)) &&
           kvt_json_add_number(timing, "in_range_share", outcome->in_range_share);
}

kvt_status timeline_tree(const struct timeline_plan *plan, const struct timeline_outcome *outcome,
                         cJSON **out, struct kvt_error *err)
{
    const cJSON *machine = kvt_json_find(outcome->document, "machine");
    const struct kvt_badge badge = badge_of(outcome);
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree && kvt_json_add_text(tree, "schema", "kvtide/validate/1") &&
              kvt_json_add_text(tree, "suite", "timeline") &&
              kvt_json_add_bool(tree, "good", outcome->was_good) &&
              kvt_json_add_bool(tree, "interrupted", outcome->was_interrupted) &&
              kvt_json_add(tree, "broken_off",
                           outcome->broken_off ? cJSON_CreateString(outcome->broken_off)
                                               : cJSON_CreateNull()) &&
              kvt_badge_add(tree, &badge) &&
              kvt_json_add_text(tree, "scenario", outcome->scenario) &&
              kvt_json_add_number(tree, "seed", (double)outcome->seed) &&
              kvt_json_add_text(tree, "file", plan->file) &&
              kvt_json_add(tree, "machine",
                           machine ? cJSON_Duplicate(machine, true) : cJSON_CreateNull()) &&
              add_timing(tree, outcome) && add_phases(tree, outcome);

    for (int side = 0; side < TIMELINE_SIDES && ok; side++)
        ok = add_side(tree, outcome, side);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "the result of a validation");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people ---------------------------------------------------------------------------- */

/* In the unit of the quantity; "-" where it is not defined. */
static const char *figure(double value, double scale, char out[16])
{
    if (isfinite(value))
        (void)snprintf(out, 16, "%.2f", scale * value);
    else
        (void)snprintf(out, 16, "-");
    return out;
}

static void print_verdict(const struct timeline_outcome *outcome)
{
    if (outcome->was_good)
        puts("yes: decisions of the measured run were the simulator's; differences judge nothing");
    else if (outcome->broken_off)
        printf("no: the measured run was broken off: %s\n", outcome->broken_off);
    else if (outcome->was_interrupted)
        puts("no: the measured run was broken off by a signal; what is above is until then");
    else
        puts("no: in the measured run something was wrong (its own \"good\" is false)");
}

void timeline_print(const struct timeline_outcome *outcome)
{
    const struct kvt_badge badge = badge_of(outcome);
    char timing[96], a[16], b[16], c[16];

    say_timing(outcome, timing, sizeof timing);
    printf("%s, seed %llu\nmeasured   %s\npredicted  timing %s\n\n", outcome->scenario,
           (unsigned long long)outcome->seed, say_machine(outcome), timing);
    printf("%-16s %-24s %9s %9s %10s\n", "phase", "means over time", "measured", "predicted",
           "mean abs");
    for (size_t p = 0; p < outcome->phase_count; p++) {
        const struct timeline_phase *phase = &outcome->phases[p];
        char name[64];
        (void)snprintf(name, sizeof name, "%zu: %.4g to %.4g s", p, phase->from_s, phase->to_s);
        for (int q = 0; q < TIMELINE_QUANTITIES; q++) {
            const struct timeline_quantity *quantity = &timeline_quantities[q];
            const struct timeline_difference *of = &phase->of[q];
            char title[40];
            (void)snprintf(title, sizeof title, "%s, %s", quantity->title, quantity->unit);
            printf("%-16s %-24s %9s %9s %10s\n", q == 0 ? name : "", title,
                   figure(of->means[TIMELINE_MEASURED], quantity->scale, a),
                   figure(of->means[TIMELINE_PREDICTED], quantity->scale, b),
                   figure(of->mean_abs, quantity->scale, c));
        }
    }
    putchar('\n');
    puts("The measured run's own badge; steps in range by the timing model that it had:");
    cli_print_badge(&badge);
    print_verdict(outcome);
}
