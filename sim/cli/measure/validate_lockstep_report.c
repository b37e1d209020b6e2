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

/* Of the runs with that tolerance; NaN: of all. */
static struct totals totals_of(const struct lockstep_outcome *outcome, double tolerance)
{
    struct totals all = {0};

    for (size_t r = 0; r < outcome->run_count; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        const struct kvt_pair_report *report = &run->report;
        if (!isnan(tolerance) && run->tolerance != tolerance)
            continue;
        all.report.steps += report->steps;
        all.report.rounds += report->rounds;
        all.report.agreed_rounds += report->agreed_rounds;
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
        kvt_backend_proof_add(&all.proof, &run->proof);
        all.decode_steps += run->decode_steps;
        all.interrupted = all.interrupted || run->interrupted;
    }
    return all;
}

/* What is wrong with the attention of any run, as a sentence; NULL: nothing. */
static const char *attention_fault(const struct lockstep_plan *plan,
                                   const struct lockstep_outcome *outcome)
{
    for (size_t r = 0; r < outcome->run_count; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        const char *corruption = kvt_backend_proof_corruption(&run->proof);
        if (plan->corrupt && corruption)
            return corruption;
        if (!plan->corrupt && run->proof.unequal_queries > 0)
            return "attention differs from the same computed again";
        if (!plan->corrupt && !kvt_backend_proof_is_precise(&run->proof, run->tolerance))
            return "attention is too far from double precision";
    }
    return NULL;
}

static bool is_broken_off(const struct lockstep_outcome *outcome, const struct totals *all)
{
    return all->interrupted || outcome->failure[0] != '\0';
}

bool lockstep_is_good(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome)
{
    struct totals all = totals_of(outcome, (double)NAN);

    return all.report.mismatches == 0 && all.report.calls > 0 && !is_broken_off(outcome, &all) &&
           !attention_fault(plan, outcome);
}

static struct kvt_badge badge_of(const struct lockstep_plan *plan,
                                 const struct lockstep_outcome *outcome, const struct totals *all)
{
    const struct lockstep_family *steps = &outcome->families[KVT_PARTS];
    const struct kvt_badge_facts facts = {
        .on_gpu = plan->on_gpu,
        .gpu = validate_gpu_name(outcome->machine),
        .is_compared = true,
        .is_broken_off = is_broken_off(outcome, all),
        .is_attention_good = !plan->corrupt && !attention_fault(plan, outcome),
        .calls = all->report.calls,
        .mismatches = all->report.mismatches,
        .timed_steps = steps->count,
        .in_range_share =
            steps->count > 0 ? (double)steps->in_range / (double)steps->count : (double)NAN,
        .not_representative = all->proof.not_representative,
        .scaled = all->proof.scaled,
        .device_calls = all->proof.calls,
    };
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

/* Of all runs, where they have the same one; else NaN. */
static double common_tolerance(const struct lockstep_outcome *outcome)
{
    for (size_t r = 1; r < outcome->run_count; r++) {
        if (outcome->runs[r].tolerance != outcome->runs[0].tolerance)
            return (double)NAN;
    }
    return outcome->run_count > 0 ? outcome->runs[0].tolerance : (double)NAN;
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

static bool add_findings(cJSON *object, const struct kvt_pair_report *report)
{
    cJSON *compared = NULL;
    return kvt_json_add_number(object, "calls", (double)report->calls) &&
           kvt_json_add_number(object, "mismatches", (double)report->mismatches) &&
           kvt_json_add_text(object, "first_mismatch", report->first_mismatch) &&
           (compared = kvt_json_add_object(object, "compared")) != NULL &&
           kvt_json_add_number(compared, "rank_steps", (double)report->steps) &&
           kvt_json_add_number(compared, "rounds", (double)report->rounds) &&
           kvt_json_add_number(compared, "agreed_rounds", (double)report->agreed_rounds) &&
           kvt_json_add_number(compared, "cache_states", (double)report->states) &&
           kvt_json_add_number(compared, "extra_waves", (double)report->waves) &&
           kvt_json_add_number(compared, "admissions", (double)report->admissions) &&
           kvt_json_add_number(compared, "resizes", (double)report->resizes) &&
           kvt_json_add_number(compared, "releases", (double)report->releases) &&
           kvt_json_add_number(compared, "page_changes", (double)report->page_changes);
}

/* What "step" leaves out on both sides: nothing of it was measured. */
static bool add_predicted_only(cJSON *tree, const struct lockstep_outcome *outcome)
{
    if (outcome->families[KVT_PARTS].count == 0)
        return true;
    cJSON *parts = cJSON_AddObjectToObject(tree, "predicted_only_s");
    bool ok = parts != NULL;
    for (int p = 0; p < KVT_PARTS && ok; p++) {
        if (!kvt_step_part_is_run((enum kvt_step_part)p, outcome->runs_drafts))
            ok = cJSON_AddNumberToObject(parts, family_name(p),
                                         outcome->families[p].predicted_ns * 1e-9) != NULL;
    }
    return ok;
}

static bool add_families(cJSON *tree, const struct lockstep_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = kvt_json_add(tree, "families", list);

    for (int f = 0; f < LOCKSTEP_FAMILIES && ok; f++) {
        const struct lockstep_family *family = &outcome->families[f];
        double mape, p95_abs, bias;
        if (family->count == 0)
            continue;
        judge(family, &mape, &p95_abs, &bias);
        cJSON *entry = kvt_json_add_element(list);
        ok = entry && kvt_json_add_text(entry, "name", family_name(f)) &&
             kvt_json_add_number(entry, "n", (double)family->count) &&
             kvt_json_add_number(entry, "mape", mape) &&
             kvt_json_add_number(entry, "p95_abs", p95_abs) &&
             kvt_json_add_number(entry, "bias", bias) &&
             kvt_json_add_number(entry, "in_range",
                                 (double)family->in_range / (double)family->count) &&
             kvt_json_add_number(entry, "predicted_s", family->predicted_ns * 1e-9) &&
             kvt_json_add_number(entry, "measured_s", family->measured_ns * 1e-9);
    }
    return ok && add_predicted_only(tree, outcome);
}

static cJSON *copy_of(const cJSON *tree)
{
    return tree ? cJSON_Duplicate(tree, true) : cJSON_CreateNull();
}

static bool add_runs(cJSON *tree, const struct lockstep_outcome *outcome)
{
    cJSON *list = cJSON_CreateArray();
    bool ok = kvt_json_add(tree, "runs", list);

    for (size_t r = 0; r < outcome->run_count && ok; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        cJSON *entry = kvt_json_add_element(list);
        ok = entry && kvt_json_add_text(entry, "scenario", run->scenario) &&
             kvt_json_add_number(entry, "seed", (double)run->seed) &&
             kvt_json_add_text(entry, "decision_hash", run->hash[0] ? run->hash : NULL) &&
             kvt_json_add_number(entry, "decode_steps", (double)run->decode_steps) &&
             kvt_json_add_number(entry, "simulated_s", run->simulated_s) &&
             kvt_json_add_bool(entry, "interrupted", run->interrupted) &&
             add_findings(entry, &run->report) &&
             validate_add_attention(entry, &run->proof, run->tolerance) &&
             kvt_json_add(entry, "timeline", copy_of(run->timeline)) &&
             kvt_json_add(entry, "result", copy_of(run->result));
    }
    return ok;
}

kvt_status lockstep_tree(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome,
                         cJSON **out, struct kvt_error *err)
{
    struct totals all = totals_of(outcome, (double)NAN);
    cJSON *tree = cJSON_CreateObject();

    const struct kvt_badge badge = badge_of(plan, outcome, &all);
    bool ok =
        tree && kvt_json_add_text(tree, "schema", "kvtide/validate/1") &&
        kvt_json_add_text(tree, "suite", "lockstep") &&
        kvt_json_add_bool(tree, "good", lockstep_is_good(plan, outcome)) &&
        kvt_badge_add(tree, &badge) &&
        kvt_json_add_text(tree, "broken_off", outcome->failure[0] ? outcome->failure : NULL) &&
        kvt_json_add_text(tree, "backend", plan->on_gpu ? "cuda" : "sim") &&
        kvt_json_add_bool(tree, "corrupt", plan->corrupt) &&
        kvt_json_add(tree, "machine", copy_of(outcome->machine)) &&
        add_findings(tree, &all.report) && add_families(tree, outcome) &&
        validate_add_attention(tree, &all.proof, common_tolerance(outcome)) &&
        validate_add_imports(tree, &all.proof.imports) && add_runs(tree, outcome);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "the result of a validation");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people ------------------------------------------------------------------------ */

/* Of a run's result; NaN where it has none. */
static double metric_of(const struct lockstep_run *run, const char *name)
{
    const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(run->result, "metrics");
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(metrics, name);
    return cJSON_IsNumber(value) ? value->valuedouble : (double)NAN;
}

static void print_runs(const struct lockstep_outcome *outcome)
{
    printf("%-26s %6s %7s %10s %9s %12s %11s %10s\n", "scenario", "seed", "steps", "calls",
           "requests", "tokens/round", "host fetch", "mismatches");
    for (size_t r = 0; r < outcome->run_count; r++) {
        const struct lockstep_run *run = &outcome->runs[r];
        printf("%-26s %6llu %7llu %10llu %9.1f %12.2f %10.1f%% %10llu%s\n", run->scenario,
               (unsigned long long)run->seed, (unsigned long long)run->decode_steps,
               (unsigned long long)run->report.calls, metric_of(run, "active_mean"),
               metric_of(run, "tokens_per_round"), 100 * metric_of(run, "host_fetch_share"),
               (unsigned long long)run->report.mismatches,
               run->interrupted ? " (interrupted)" : "");
    }
}

/* Times are means of a step. */
static void print_families(const struct lockstep_outcome *outcome)
{
    double steps = (double)outcome->families[KVT_PARTS].count;

    if (steps == 0)
        return;
    printf("\n%-9s %7s %9s %9s %9s %9s %12s %12s\n", "time of", "n", "mean abs", "p95 abs", "bias",
           "in range", "predicted ms", "measured ms");
    for (int f = 0; f < LOCKSTEP_FAMILIES; f++) {
        const struct lockstep_family *family = &outcome->families[f];
        double mape, p95_abs, bias;
        if (family->count == 0)
            continue;
        judge(family, &mape, &p95_abs, &bias);
        printf("%-9s %7zu %8.1f%% %8.1f%% %+8.1f%% %8.0f%% %12.4f %12.4f\n", family_name(f),
               family->count, 100 * mape, 100 * p95_abs, 100 * bias,
               100 * (double)family->in_range / (double)family->count,
               family->predicted_ns * 1e-6 / steps, family->measured_ns * 1e-6 / steps);
    }
    fputs("not in step, for no backend runs it:", stdout);
    for (int p = 0; p < KVT_PARTS; p++) {
        if (!kvt_step_part_is_run((enum kvt_step_part)p, outcome->runs_drafts))
            printf(" %s %.4f ms,", family_name(p),
                   outcome->families[p].predicted_ns * 1e-6 / steps);
    }
    puts(" as predicted");
}

static void print_verdict(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome,
                          const struct totals *all)
{
    bool good = lockstep_is_good(plan, outcome);
    const char *what = plan->on_gpu ? "the GPU decides as the simulator does"
                                    : "the simulator decides as the simulator does (which says "
                                      "nothing of a GPU)";

    const char *fault = all->report.calls > 0
                            ? attention_fault(plan, outcome)
                            : "no call was resolved, so that nothing was compared";
    if (outcome->failure[0])
        printf("broken off: %s\n", outcome->failure);
    if (plan->corrupt && good)
        printf("yes: of %llu bytes that were flipped in host memory every one was found, and "
               "nothing else differs\n",
               (unsigned long long)all->proof.corrupted_rows);
    else if (plan->corrupt && fault)
        printf("no: %s\n", fault);
    else
        printf("%s: %s in %llu of %llu rounds, call by call%s%s%s\n", good ? "yes" : "no", what,
               (unsigned long long)all->report.agreed_rounds,
               (unsigned long long)all->report.rounds, fault ? "; " : "", fault ? fault : "",
               is_broken_off(outcome, all) ? "; broken off, so that this is part of it" : "");
}

/* A line for each tolerance that runs have. */
static void print_attention(const struct lockstep_outcome *outcome)
{
    for (size_t r = 0; r < outcome->run_count; r++) {
        double tolerance = outcome->runs[r].tolerance;
        size_t before = 0;
        while (before < r && outcome->runs[before].tolerance != tolerance)
            before++;
        if (before < r)
            continue;
        struct totals same = totals_of(outcome, tolerance);
        validate_print_attention(&same.proof, tolerance);
    }
}

void lockstep_print(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome)
{
    struct totals all = totals_of(outcome, (double)NAN);

    print_runs(outcome);
    print_families(outcome);
    putchar('\n');
    if (plan->on_gpu)
        print_attention(outcome);
    if (all.report.first_mismatch)
        printf("first mismatch: %s\n", all.report.first_mismatch);
    const struct kvt_badge badge = badge_of(plan, outcome, &all);
    cli_print_badge(&badge);
    print_verdict(plan, outcome, &all);
}
