/* calibrate_profile.c -- what was fitted to points as a profile, and for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibrate_gpu.h"
#include "kvt/badge.h"
#include "kvt/version.h"
#include "validate.h"

static const char *state_name(enum family_term_state state)
{
    static const char *const names[] = {[FAMILY_TERM_FITTED] = "fitted",
                                        [FAMILY_TERM_ABSENT] = "absent",
                                        [FAMILY_TERM_UNCERTAIN] = "uncertain",
                                        [FAMILY_TERM_ALONE] = "alone"};
    return names[state];
}

/* What a reader should know of a family. */
static const char *note_of(enum kvt_step_part part)
{
    switch (part) {
    case KVT_PART_HOST:
        return "wall time of a step beyond the GPU's: launching its graph, and noticing its end. "
               "An "
               "engine's scheduler is not in it";
    case KVT_PART_SAMPLE:
        return "no backend chooses tokens: there is nothing of it here";
    case KVT_PART_DENSE:
        return "a stand-in of the true shapes: cuBLASLt, FP8";
    case KVT_PART_FETCH:
        return "exposed_ns and hidden_by: where followers run beside compute, with what their "
               "copies slow it by";
    default:
        return NULL;
    }
}

/* ---- The profile ------------------------------------------------------------------------ */

static bool add_linear(cJSON *object, const double ns_per[KVT_FEATURES])
{
    bool ok = true;

    for (int f = 0; f < KVT_FEATURES && ok; f++) {
        if (ns_per[f] > 0)
            ok = kvt_json_add_number(object, kvt_profile_feature_name((enum kvt_profile_feature)f),
                                     ns_per[f]);
    }
    return ok;
}

static bool add_limits(cJSON *object, const struct kvt_profile_family *family)
{
    cJSON *limits = cJSON_AddArrayToObject(object, "limits_ns");
    bool ok = limits != NULL;

    for (uint32_t l = 0; l < family->limit_count && ok; l++) {
        cJSON *limit = kvt_json_add_element(limits);
        ok = limit && add_linear(limit, family->ns_per[l]);
    }
    return ok;
}

static bool add_range(cJSON *object, const struct kvt_profile_family *family)
{
    cJSON *range = kvt_json_add_object(object, "range");
    bool ok = range != NULL;

    for (int f = 0; f < KVT_FEATURES && ok; f++) {
        const double ends[] = {family->least[f], family->most[f]};
        if (family->has_range[f])
            ok = kvt_json_add(range, kvt_profile_feature_name((enum kvt_profile_feature)f),
                              cJSON_CreateDoubleArray(ends, 2));
    }
    return ok;
}

static bool add_hidden(cJSON *object, const struct kvt_profile_family *family)
{
    cJSON *hidden = kvt_json_add_object(object, "hidden_by");
    cJSON *exposed = hidden ? kvt_json_add_object(object, "exposed_ns") : NULL;
    bool ok = exposed != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (family->hidden_by[p] > 0)
            ok = kvt_json_add_number(hidden, kvt_step_part_name((enum kvt_step_part)p),
                                     family->hidden_by[p]);
    }
    return ok && add_linear(exposed, family->exposed_ns_per);
}

static bool add_terms(cJSON *object, const struct family_fit *fit)
{
    cJSON *terms = cJSON_AddArrayToObject(object, "terms");
    bool ok = terms != NULL;

    for (uint32_t t = 0; t < fit->term_count && ok; t++) {
        const struct family_term *term = &fit->terms[t];
        bool is_known = term->state == FAMILY_TERM_FITTED || term->state == FAMILY_TERM_UNCERTAIN;
        cJSON *entry = kvt_json_add_element(terms);
        ok = entry && kvt_json_add_number(entry, "limit", term->limit) &&
             kvt_json_add_text(entry, "feature", kvt_profile_feature_name(term->feature)) &&
             kvt_json_add_text(entry, "state", state_name(term->state)) &&
             kvt_json_add_number(entry, "ns", is_known ? term->ns : (double)NAN) &&
             kvt_json_add_number(entry, "standard_error_ns",
                                 is_known ? term->error_ns : (double)NAN);
    }
    return ok;
}

static bool add_errors(cJSON *object, const char *name, const struct robust_errors *errors)
{
    cJSON *entry = kvt_json_add_object(object, name);

    return entry && kvt_json_add_number(entry, "n", (double)errors->count) &&
           kvt_json_add_number(entry, "mape", errors->mape) &&
           kvt_json_add_number(entry, "median_abs", errors->median_abs) &&
           kvt_json_add_number(entry, "p95_abs", errors->p95_abs) &&
           kvt_json_add_number(entry, "bias", errors->bias);
}

static bool add_fit_errors(cJSON *object, const struct family_fit *fit)
{
    cJSON *errors = kvt_json_add_object(object, "errors");

    return errors && kvt_json_add_number(errors, "points", (double)fit->samples) &&
           kvt_json_add_number(errors, "outliers", (double)fit->outliers) &&
           add_errors(errors, "own", &fit->own) &&
           kvt_json_add_number(errors, "configurations", (double)fit->configurations) &&
           add_errors(errors, "left_out", &fit->left_out);
}

static bool add_family(cJSON *families, const struct gpu_calibration *calibration,
                       enum kvt_step_part part)
{
    const struct kvt_profile_family *family = &calibration->profile.families[part];
    const struct family_fit *fit = &calibration->fits[part];
    cJSON *entry = kvt_json_add_element(families);
    const char *note = note_of(part);
    bool ok = entry && kvt_json_add_text(entry, "name", kvt_step_part_name(part)) &&
              add_limits(entry, family);

    if (ok && family->is_there)
        ok = add_range(entry, family);
    if (ok && calibration->exposed.samples > 0 && part == KVT_PART_FETCH)
        ok = add_hidden(entry, family);
    if (ok && family->is_there)
        ok = add_terms(entry, fit) && add_fit_errors(entry, fit);
    return ok && (!note || kvt_json_add_text(entry, "note", note));
}

static bool add_families(cJSON *tree, const struct gpu_calibration *calibration)
{
    cJSON *families = cJSON_AddArrayToObject(tree, "families");
    bool ok = families != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (calibration->profile.families[p].is_there || p == KVT_PART_SAMPLE)
            ok = add_family(families, calibration, (enum kvt_step_part)p);
    }
    return ok;
}

static bool add_setting(cJSON *tree, const struct points *points)
{
    cJSON *setting = kvt_json_add_object(tree, "setting");

    return setting && kvt_json_add_text(setting, "model", points->model) &&
           kvt_json_add_text(setting, "hardware", points->hardware) &&
           kvt_json_add_number(setting, "tp", points->tp) &&
           kvt_json_add_number(setting, "ep", points->ep);
}

/* What it was fitted to is no evidence for it. */
static struct kvt_badge badge_of(const struct gpu_calibration *calibration)
{
    const struct kvt_badge_facts facts = {.on_gpu = true,
                                          .gpu = validate_gpu_name(calibration->points->machine),
                                          .is_attention_good = true,
                                          .timed_steps = calibration->points->count,
                                          .not_representative =
                                              "fitted to these steps; validate --suite time "
                                              "compares others",
                                          .in_range_share = (double)NAN};
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

static bool add_untold(cJSON *made, const struct gpu_calibration *calibration)
{
    cJSON *untold = kvt_json_add_object(made, "not_told");
    bool ok = untold != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (calibration->untold_points[p] > 0)
            ok = kvt_json_add_number(untold, kvt_step_part_name((enum kvt_step_part)p),
                                     (double)calibration->untold_points[p]);
    }
    return ok;
}

static bool add_made(cJSON *tree, const struct gpu_calibration *calibration)
{
    const struct kvt_badge badge = badge_of(calibration);
    cJSON *made = kvt_json_add_object(tree, "made");

    return made && kvt_json_add_text(made, "by", "kvtide calibrate") &&
           kvt_json_add_text(made, "version", kvt_version()) &&
           kvt_json_add_text(made, "commit", kvt_commit()) &&
           kvt_json_add_text(made, "grid", calibration->points->grid) &&
           kvt_json_add_number(made, "mark_ns", calibration->mark_ns) &&
           kvt_json_add_number(made, "mark_runs", (double)calibration->mark_runs) &&
           add_untold(made, calibration) && kvt_badge_add(made, &badge);
}

static bool add_left_out(cJSON *tree, const struct gpu_calibration *calibration)
{
    cJSON *left_out = kvt_json_add_object(tree, "leave_one_out");

    return left_out && kvt_json_add_text(left_out, "of", "configurations") &&
           add_errors(left_out, "step", &calibration->step_left_out) &&
           add_errors(left_out, "own", &calibration->step_own);
}

/* Every step has dense layers: what is fitted to none of them times no step. */
static kvt_status check_steps(const struct gpu_calibration *calibration, struct kvt_error *err)
{
    char why[CALIBRATE_WHY_BYTES];

    if (calibration->profile.families[KVT_PART_DENSE].is_there)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate", "%s: %s",
                    kvt_step_part_name(KVT_PART_DENSE),
                    calibration->untold_points[KVT_PART_DENSE] > 0
                        ? calibrate_say_untold(calibration, KVT_PART_DENSE, why)
                        : "no point has a time of it, so that no step could be timed by the "
                          "profile; steps that are timed apart are expected");
}

kvt_status gpu_calibration_tree(const struct gpu_calibration *calibration, cJSON **out,
                                struct kvt_error *err)
{
    const struct points *points = calibration->points;
    cJSON *raw = NULL;
    char name[160], summary[240];
    kvt_status status = check_steps(calibration, err);

    if (status == KVT_OK)
        status = points_tree(points, &raw, err);
    if (status != KVT_OK)
        return status;
    cJSON *tree = cJSON_CreateObject();
    cJSON *machine = cJSON_DetachItemFromObjectCaseSensitive(raw, "machine");
    (void)snprintf(name, sizeof name, "%s-%s", points->hardware, points->model);
    (void)snprintf(summary, sizeof summary,
                   "%s on one %s: families of a decode step, fitted to %zu points of %zu runs",
                   points->model, points->hardware, points->count, points->configuration_count);
    bool ok = tree && machine && kvt_json_add_text(tree, "schema", "kvtide/profile/1") &&
              kvt_json_add_text(tree, "name", name) &&
              kvt_json_add_text(tree, "summary", summary) && add_setting(tree, points) &&
              add_made(tree, calibration) && add_families(tree, calibration) &&
              add_left_out(tree, calibration);

    /* What kvt_json_add() is given is the tree's, or deleted: either way not ours any more. */
    if (ok) {
        ok = kvt_json_add(tree, "machine", machine);
        machine = NULL;
    }
    if (ok) {
        ok = kvt_json_add(tree, "points", raw);
        raw = NULL;
    }
    cJSON_Delete(machine);
    cJSON_Delete(raw);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "a profile");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people -------------------------------------------------------------------------- */

static void print_terms(const char *name, const struct family_fit *fit)
{
    for (uint32_t t = 0; t < fit->term_count; t++) {
        const struct family_term *term = &fit->terms[t];
        printf("%-10s %-22s ", t == 0 ? name : "", kvt_profile_feature_name(term->feature));
        if (term->state == FAMILY_TERM_FITTED)
            printf("%12.5g %9.2g  limit %u\n", term->ns, term->error_ns, term->limit + 1);
        else
            printf("%12s %9s  %s\n", "-", "-",
                   term->state == FAMILY_TERM_ABSENT  ? "never binds"
                   : term->state == FAMILY_TERM_ALONE ? "in one run alone"
                                                      : "not told");
    }
}

static void print_share(const struct robust_errors *errors, const char *format, double share)
{
    if (errors->count > 0)
        printf(format, 100 * share);
    else
        printf(" %9s", "-");
}

static void print_errors(const char *name, const struct robust_errors *own,
                         const struct robust_errors *left_out, size_t outliers)
{
    printf("%-10s %6zu %8zu", name, own->count, outliers);
    print_share(own, " %8.1f%%", own->mape);
    print_share(left_out, " %8.1f%%", left_out->mape);
    print_share(left_out, " %8.1f%%", left_out->p95_abs);
    print_share(left_out, " %+8.1f%%", left_out->bias);
    putchar('\n');
}

void gpu_calibration_print(const struct gpu_calibration *calibration)
{
    const struct points *points = calibration->points;
    const struct kvt_profile_family *fetch = &calibration->profile.families[KVT_PART_FETCH];
    const struct kvt_badge badge = badge_of(calibration);
    char why[CALIBRATE_WHY_BYTES];

    printf("%s on %s: %zu points of %zu runs; taking a time takes %.2f us (%zu runs)\n\n",
           points->model, points->hardware, points->count, points->configuration_count,
           calibration->mark_ns * 1e-3, calibration->mark_runs);
    printf("%-10s %-22s %12s %9s\n", "family", "term", "ns of one", "+-");
    for (int p = 0; p < KVT_PARTS; p++) {
        if (calibration->profile.families[p].is_there)
            print_terms(kvt_step_part_name((enum kvt_step_part)p), &calibration->fits[p]);
        else if (calibration->untold_points[p] > 0)
            printf("%-10s %s\n", kvt_step_part_name((enum kvt_step_part)p),
                   calibrate_say_untold(calibration, (enum kvt_step_part)p, why));
    }
    if (calibration->exposed.samples > 0) {
        print_terms("exposed", &calibration->exposed);
        printf("%-10s %.0f %% of dense and attention time hide a fetch beyond that\n", "",
               100 * fetch->hidden_by[KVT_PART_DENSE]);
    }
    printf("\n%-10s %6s %8s %9s %9s %9s %9s\n", "errors", "points", "outliers", "mean abs",
           "left out", "p95", "bias");
    for (int p = 0; p < KVT_PARTS; p++) {
        const struct family_fit *fit = &calibration->fits[p];
        if (calibration->profile.families[p].is_there)
            print_errors(kvt_step_part_name((enum kvt_step_part)p), &fit->own, &fit->left_out,
                         fit->outliers);
    }
    print_errors("step", &calibration->step_own, &calibration->step_left_out, 0);
    puts("left out: each run, predicted by what is fitted to the others");
    cli_print_badge(&badge);
}
