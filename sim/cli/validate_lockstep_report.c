/* validate_lockstep_report.c -- what running in lockstep has shown, as JSON and for people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/metrics.h"
#include "validate.h"

/* Of all runs. */
struct totals {
    struct kvt_pair_report report;
    struct kvt_backend_proof proof;
    uint64_t decode_steps;
    bool interrupted;
};

static struct totals totals_of(const struct lockstep_outcome *outcome)
{
    struct totals all = {0};

    for (size_t r = 0; r < outcome->run_count; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        const struct kvt_pair_report *report = &run->report;
        const struct kvt_backend_proof *proof = &run->proof;
        all.report.steps += report->steps;
        all.report.rounds += report->rounds;
        all.report.calls += report->calls;
        all.report.waves += report->waves;
        all.report.states += report->states;
        all.report.admissions += report->admissions;
        all.report.resizes += report->resizes;
        all.report.releases += report->releases;
        all.report.page_changes += report->page_changes;
        all.report.mismatches += report->mismatches;
        if (!all.report.first_mismatch)
            all.report.first_mismatch = run->first_mismatch;
        all.proof.calls += proof->calls;
        all.proof.checked_queries += proof->checked_queries;
        all.proof.unequal_queries += proof->unequal_queries;
        all.proof.double_queries += proof->double_queries;
        all.proof.max_rel_error = fmax(all.proof.max_rel_error, proof->max_rel_error);
        if (!all.proof.first_unequal)
            all.proof.first_unequal = run->first_unequal;
        all.decode_steps += run->decode_steps;
        all.interrupted = all.interrupted || run->interrupted;
    }
    return all;
}

bool lockstep_is_good(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome)
{
    struct totals all = totals_of(outcome);
    bool decided_alike = all.report.mismatches == 0 && all.report.calls > 0 && !all.interrupted;
    bool precise = all.proof.max_rel_error <= outcome->tolerance;

    if (plan->corrupt)
        return decided_alike && all.proof.unequal_queries > 0;
    return decided_alike && all.proof.unequal_queries == 0 && precise;
}

static const char *family_name(int f)
{
    return f < KVT_PARTS ? kvt_step_part_name((enum kvt_step_part)f) : "step";
}

/* Of errors, which are sorted on the way. */
static void judge(const struct lockstep_family *family, double *mape, double *p95_abs, double *bias)
{
    double *absolute = malloc((family->count + 1) * sizeof *absolute);
    struct kvt_summary summary;

    *mape = *p95_abs = *bias = NAN;
    if (!absolute || family->count == 0) {
        free(absolute);
        return;
    }
    *bias = 0;
    for (size_t i = 0; i < family->count; i++) {
        absolute[i] = fabs(family->errors[i]);
        *bias += family->errors[i] / (double)family->count;
    }
    kvt_summary_of(absolute, family->count, &summary);
    *mape = summary.mean;
    *p95_abs = summary.p95;
    free(absolute);
}

/* ---- As JSON ---------------------------------------------------------------------- */

static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_number(cJSON *object, const char *key, double value)
{
    return add(object, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return add(object, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static cJSON *add_object(cJSON *object, const char *key)
{
    cJSON *item = cJSON_CreateObject();
    return add(object, key, item) ? item : NULL;
}

static cJSON *add_element(cJSON *array)
{
    cJSON *item = cJSON_CreateObject();
    if (item && cJSON_AddItemToArray(array, item))
        return item;
    cJSON_Delete(item);
    return NULL;
}

static bool add_findings(cJSON *object, const struct kvt_pair_report *report)
{
    cJSON *compared = NULL;
    return add_number(object, "calls", (double)report->calls) &&
           add_number(object, "mismatches", (double)report->mismatches) &&
           add_text(object, "first_mismatch", report->first_mismatch) &&
           (compared = add_object(object, "compared")) != NULL &&
           add_number(compared, "rank_steps", (double)report->steps) &&
           add_number(compared, "rounds", (double)report->rounds) &&
           add_number(compared, "cache_states", (double)report->states) &&
           add_number(compared, "extra_waves", (double)report->waves) &&
           add_number(compared, "admissions", (double)report->admissions) &&
           add_number(compared, "resizes", (double)report->resizes) &&
           add_number(compared, "releases", (double)report->releases) &&
           add_number(compared, "page_changes", (double)report->page_changes);
}

double validate_tolerance_of(const struct kvt_choice *backend)
{
    for (size_t i = 0; i < backend->info->param_count; i++) {
        if (strcmp(backend->info->params[i].name, "output") == 0 &&
            strcmp(backend->params.values[i].text, "f32") == 0)
            return 1e-3;
    }
    return 3e-3;
}

bool validate_add_attention(cJSON *object, const struct kvt_backend_proof *proof, double tolerance)
{
    cJSON *attention = add_object(object, "attention");
    bool compared = proof->checked_queries > 0;

    return attention &&
           add_number(attention, "max_rel_error",
                      proof->double_queries > 0 ? proof->max_rel_error : (double)NAN) &&
           add(attention, "bit_equal",
               compared ? cJSON_CreateBool(proof->unequal_queries == 0) : cJSON_CreateNull()) &&
           add_number(attention, "tolerance", tolerance) &&
           add_number(attention, "compared_queries", (double)proof->checked_queries) &&
           add_number(attention, "unequal_queries", (double)proof->unequal_queries) &&
           add_number(attention, "double_precision_queries", (double)proof->double_queries) &&
           add_text(attention, "first_unequal", proof->first_unequal);
}

/* What "step" leaves out on both sides: nothing of it was measured. */
static bool add_predicted_only(cJSON *tree, const struct lockstep_outcome *outcome)
{
    if (outcome->families[KVT_PARTS].count == 0)
        return true;
    cJSON *parts = cJSON_AddObjectToObject(tree, "predicted_only_s");
    bool ok = parts != NULL;
    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (!kvt_step_part_is_run((enum kvt_step_part)p))
            ok = cJSON_AddNumberToObject(parts, family_name(p),
                                         outcome->families[p].predicted_ns * 1e-9) != NULL;
    }
    return ok;
}

static bool add_families(cJSON *tree, const struct lockstep_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = add(tree, "families", list);

    for (int f = 0; f < LOCKSTEP_FAMILIES && ok; f++) {
        const struct lockstep_family *family = &outcome->families[f];
        double mape, p95_abs, bias;
        if (family->count == 0)
            continue;
        judge(family, &mape, &p95_abs, &bias);
        cJSON *entry = add_element(list);
        ok = entry && add_text(entry, "name", family_name(f)) &&
             add_number(entry, "n", (double)family->count) && add_number(entry, "mape", mape) &&
             add_number(entry, "p95_abs", p95_abs) && add_number(entry, "bias", bias) &&
             add_number(entry, "in_range", (double)family->in_range / (double)family->count) &&
             add_number(entry, "predicted_s", family->predicted_ns * 1e-9) &&
             add_number(entry, "measured_s", family->measured_ns * 1e-9);
    }
    return ok && add_predicted_only(tree, outcome);
}

static bool add_runs(cJSON *tree, const struct lockstep_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = add(tree, "runs", list);

    for (size_t r = 0; r < outcome->run_count && ok; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        cJSON *entry = add_element(list);
        ok = entry && add_text(entry, "scenario", run->scenario) &&
             add_number(entry, "seed", (double)run->seed) &&
             add_text(entry, "decision_hash", run->hash) &&
             add_number(entry, "decode_steps", (double)run->decode_steps) &&
             add_number(entry, "simulated_s", run->simulated_s) &&
             add(entry, "interrupted", cJSON_CreateBool(run->interrupted)) &&
             add_findings(entry, &run->report) &&
             validate_add_attention(entry, &run->proof, outcome->tolerance);
    }
    return ok;
}

kvt_status lockstep_tree(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome,
                         cJSON **out, struct kvt_error *err)
{
    struct totals all = totals_of(outcome);
    cJSON *tree = cJSON_CreateObject();

    bool ok =
        tree && add_text(tree, "schema", "kvtide/validate/1") &&
        add_text(tree, "suite", "lockstep") &&
        add(tree, "good", cJSON_CreateBool(lockstep_is_good(plan, outcome))) &&
        add_text(tree, "backend", plan->on_gpu ? "cuda" : "sim") &&
        add(tree, "corrupt", cJSON_CreateBool(plan->corrupt)) &&
        add(tree, "machine",
            outcome->machine ? cJSON_Duplicate(outcome->machine, true) : cJSON_CreateNull()) &&
        add_findings(tree, &all.report) && add_families(tree, outcome) &&
        validate_add_attention(tree, &all.proof, outcome->tolerance) && add_runs(tree, outcome);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "the result of a validation");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people ------------------------------------------------------------------------ */

static void print_runs(const struct lockstep_outcome *outcome)
{
    printf("%-26s %6s %7s %10s %11s %8s %10s\n", "scenario", "seed", "steps", "calls", "states",
           "pages", "mismatches");
    for (size_t r = 0; r < outcome->run_count; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        printf("%-26s %6llu %7llu %10llu %11llu %8llu %10llu%s\n", run->scenario,
               (unsigned long long)run->seed, (unsigned long long)run->decode_steps,
               (unsigned long long)run->report.calls, (unsigned long long)run->report.states,
               (unsigned long long)run->report.page_changes,
               (unsigned long long)run->report.mismatches,
               run->interrupted ? " (interrupted)" : "");
    }
}

static void print_families(const struct lockstep_outcome *outcome)
{
    if (outcome->families[KVT_PARTS].count == 0)
        return;
    printf("\n%-9s %7s %9s %9s %9s %9s %12s %12s\n", "time of", "n", "mean abs", "p95 abs", "bias",
           "in range", "predicted s", "measured s");
    for (int f = 0; f < LOCKSTEP_FAMILIES; f++) {
        const struct lockstep_family *family = &outcome->families[f];
        double mape, p95_abs, bias;
        if (family->count == 0)
            continue;
        judge(family, &mape, &p95_abs, &bias);
        printf("%-9s %7zu %8.1f%% %8.1f%% %+8.1f%% %8.0f%% %12.4f %12.4f\n", family_name(f),
               family->count, 100 * mape, 100 * p95_abs, 100 * bias,
               100 * (double)family->in_range / (double)family->count, family->predicted_ns * 1e-9,
               family->measured_ns * 1e-9);
    }
    fputs("not in step, for no backend runs it:", stdout);
    for (int p = 0; p < KVT_PARTS; p++) {
        if (!kvt_step_part_is_run((enum kvt_step_part)p))
            printf(" %s %.4f s,", family_name(p), outcome->families[p].predicted_ns * 1e-9);
    }
    puts(" as predicted");
}

void validate_print_attention(const struct kvt_backend_proof *proof, double tolerance)
{
    if (proof->checked_queries == 0) {
        puts("attention  nothing was attended, or backend.check_queries is 0");
        return;
    }
    printf("attention  %llu queries computed again from the same rows: %llu differ in any bit",
           (unsigned long long)proof->checked_queries, (unsigned long long)proof->unequal_queries);
    if (proof->double_queries > 0)
        printf("; %llu against double precision: %.2g at most, of %.2g",
               (unsigned long long)proof->double_queries, proof->max_rel_error, tolerance);
    putchar('\n');
    if (proof->first_unequal)
        printf("           first: %s\n", proof->first_unequal);
}

static void print_verdict(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome,
                          const struct totals *all)
{
    bool good = lockstep_is_good(plan, outcome);
    const char *what = plan->on_gpu ? "the GPU decides as the simulator does"
                                    : "the simulator decides as the simulator does (which says "
                                      "nothing of a GPU)";

    if (plan->corrupt)
        printf("%s: the byte that was flipped in host memory %s\n", good ? "yes" : "no",
               good ? "was found" : "was not found, or decisions differ");
    else
        printf("%s: %s in %llu of %llu rounds, call by call%s\n", good ? "yes" : "no", what,
               (unsigned long long)(all->report.rounds - all->report.mismatches),
               (unsigned long long)all->report.rounds,
               all->interrupted ? "; interrupted, so that this is part of it" : "");
}

void lockstep_print(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome)
{
    struct totals all = totals_of(outcome);

    print_runs(outcome);
    print_families(outcome);
    putchar('\n');
    if (plan->on_gpu)
        validate_print_attention(&all.proof, outcome->tolerance);
    if (all.report.first_mismatch)
        printf("first mismatch: %s\n", all.report.first_mismatch);
    print_verdict(plan, outcome, &all);
}
