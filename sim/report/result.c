/* result.c -- result.json: the scenario in force, what was measured, and what it
 * rests on. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrated.h"
#include "faults.h"
#include "kvt/explain.h"
#include "kvt/json.h"
#include "kvt/plugins.h"
#include "kvt/report.h"
#include "kvt/version.h"
#include "metrics_table.h"
#include "service.h"
#include "stage_load.h"

/* Adds a member and says whether there was memory for it. */
static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* A new object or array within `object`, which owns it from here on; NULL when memory
 * is short. */
static cJSON *add_object(cJSON *object, const char *key)
{
    cJSON *item = cJSON_CreateObject();
    return add(object, key, item) ? item : NULL;
}

static cJSON *add_array(cJSON *object, const char *key)
{
    cJSON *item = cJSON_CreateArray();
    return add(object, key, item) ? item : NULL;
}

static bool add_number(cJSON *object, const char *key, double value)
{
    return add(object, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return add(object, key, cJSON_CreateString(text));
}

static bool add_copy(cJSON *object, const char *key, const cJSON *tree)
{
    return add(object, key, tree ? cJSON_Duplicate(tree, true) : cJSON_CreateObject());
}

/* Of the metrics that are there by now. */
static bool add_explain(cJSON *object, const struct kvt_run *run, int phase)
{
    return add(object, "explain", kvt_explain_tree(run, phase, kvt_json_find(object, "metrics")));
}

static bool add_metrics(cJSON *object, const struct kvt_run *run, int phase)
{
    struct metric_values values;
    cJSON *metrics = add_object(object, "metrics");
    const char *bytes = (const char *)&values;
    bool ok = metrics && metric_values_compute(run, phase, &values);

    for (unsigned i = 0; i < metric_count && ok; i++) {
        double value;
        memcpy(&value, bytes + i * sizeof value, sizeof value);
        ok = add_number(metrics, metric_rows[i].name, value);
    }
    return ok;
}

static enum kvt_basis worse(enum kvt_basis a, enum kvt_basis b)
{
    return a > b ? a : b;
}

/* Whether measured steps take something that was predicted beside. */
static bool adds_predicted(const struct kvt_run *run)
{
    for (int p = 0; p < KVT_PARTS; p++) {
        if (run->total.added_parts_ns[p] > 0)
            return true;
    }
    return false;
}

/* Who is served when follows from how long prompts are on their way, too. */
static enum kvt_basis run_queue_basis(const struct kvt_run *run, enum kvt_basis times)
{
    enum kvt_basis basis = worse(times, run->import_basis);

    return run->scenario->prefill.is_roofline ? worse(basis, KVT_BASIS_DATASHEET) : basis;
}

/* Which rows are where follows from the law, and from what is accepted of drafts; with
 * optional pages, also from when they come and go. Without a hierarchy no selection matters. */
static enum kvt_basis basis_of(const struct kvt_run *run, enum metric_rests_on rests_on)
{
    enum kvt_basis law = run->needs.history_in_hbm ? KVT_BASIS_EXACT : run->law_basis;
    law = worse(law, run->acceptance_basis);
    /* How far the timing model was fitted is no matter to a clock that measures, but for what is
     * added to it. */
    bool is_predicted = run->scenario->clock != KVT_CLOCK_MEASURED || adds_predicted(run);
    enum kvt_basis steps = run->total.extrapolated_steps > 0 && is_predicted
                               ? KVT_BASIS_EXTRAPOLATED
                               : run->timing_basis;
    enum kvt_basis model = is_predicted ? run->added_basis : run->timing_basis;
    enum kvt_basis times = worse(law, worse(worse(steps, model), run->timing_basis));

    switch (rests_on) {
    case COUNTED:
        return run->analytic ? law : KVT_BASIS_EXACT;
    case ROWS:
        return run->needs.optional_pages ? run_queue_basis(run, times) : law;
    case TIME:
        return times;
    case QUEUE:
        return run_queue_basis(run, times);
    case PAID:
        return worse(run_queue_basis(run, times), KVT_BASIS_ASSUMED);
    }
    return KVT_BASIS_ASSUMED;
}

static bool add_basis(cJSON *object, const struct kvt_run *run)
{
    cJSON *basis = add_object(object, "metrics_basis");
    bool ok = basis != NULL;

    for (unsigned i = 0; i < metric_count && ok; i++)
        ok = add_text(basis, metric_rows[i].name,
                      kvt_basis_name(basis_of(run, metric_rows[i].rests_on)));
    return ok;
}

static bool add_rows(cJSON *object, const struct kvt_run *run)
{
    cJSON *rows = add_object(object, "rows_followed");
    struct kvt_row_counts sum = {0};

    for (uint32_t s = 0; s < run->stratum_count; s++)
        kvt_row_counts_add(&sum, &run->total.rows[s]);
    return rows && add_number(rows, "calls", (double)sum.calls) &&
           add_number(rows, "skipped_calls", (double)sum.skipped_calls) &&
           add_number(rows, "selected", (double)sum.selected) &&
           add_number(rows, "tail", (double)sum.tail) &&
           add_number(rows, "optional", (double)sum.page) &&
           add_number(rows, "hot", (double)sum.hot) &&
           add_number(rows, "missed", (double)sum.missed) &&
           add_number(rows, "distinct", (double)sum.union_rows) &&
           add_number(rows, "distinct_tail", (double)sum.union_tail) &&
           add_number(rows, "distinct_optional", (double)sum.union_page) &&
           add_number(rows, "distinct_hot", (double)sum.union_hot) &&
           add_number(rows, "filled", (double)sum.filled) &&
           add_number(rows, "staged", (double)sum.staged);
}

static bool add_requests(cJSON *object, const struct kvt_run *run)
{
    struct kvt_request_counts counts = kvt_run_count_requests(run);
    cJSON *requests = add_object(object, "requests");
    bool ok = requests && add_number(requests, "arrived", (double)kvt_run_arrived(run)) &&
              add_number(requests, "completed", (double)counts.completed) &&
              add_number(requests, "running", (double)counts.running) &&
              add_number(requests, "waiting", (double)counts.waiting);
    if (ok && run->record_count > 0) /* records are in order of arrival */
        ok = add_number(requests, "last_arrival_s",
                        (double)run->records[run->record_count - 1].arrival_ns / 1e9);
    cJSON *dropped = ok ? add_object(requests, "dropped") : NULL;
    return dropped && add_number(dropped, "unservable", (double)counts.unservable);
}

static bool add_trace(cJSON *object, const struct kvt_trace_account *account)
{
    if (!account)
        return true;
    cJSON *trace = add_object(object, "trace");
    bool ok = trace && add_text(trace, "format", account->format) &&
              add_number(trace, "rows_read", (double)account->rows_read) &&
              add_number(trace, "used", (double)account->used);
    cJSON *dropped = ok ? add_object(trace, "dropped") : NULL;
    ok = dropped != NULL;
    for (int r = 0; r < KVT_DROP_REASONS && ok; r++)
        ok = add_number(dropped, kvt_drop_reason_name((enum kvt_drop_reason)r),
                        (double)account->dropped[r]);
    return ok && add_number(trace, "out_of_order_rows", (double)account->out_of_order_rows) &&
           add_number(trace, "rebased_s", account->rebased_s) &&
           add_number(trace, "span_s", account->span_s);
}

/* A metric's half-width, in its unit. */
static bool add_half_width(cJSON *half_widths, const cJSON *result, const char *name,
                           double relative)
{
    const cJSON *value = kvt_json_find(kvt_json_find(result, "metrics"), name);
    return add_number(half_widths, name,
                      cJSON_IsNumber(value) ? relative * fabs(value->valuedouble) : NAN);
}

static bool add_half_widths(cJSON *rows, const struct kvt_run *run, const cJSON *result)
{
    struct sampled_errors errors;
    cJSON *list = add_object(rows, "ci99");

    sampled_errors_compute(run, &errors);
    return list && add_half_width(list, result, "host_fetch_share", errors.host_fetch_share) &&
           add_half_width(list, result, "hot_miss_ratio", errors.hot_miss_ratio) &&
           add_half_width(list, result, "fetched_rows_per_round", errors.fetched_rows_per_round) &&
           add_half_width(list, result, "h2d_payload_bytes", errors.bytes) &&
           add_half_width(list, result, "h2d_wire_bytes", errors.bytes) &&
           add_half_width(list, result, "mean_step_ms", errors.step) &&
           add_half_width(list, result, "mean_tpot_ms", errors.step) &&
           add_half_width(list, result, "output_throughput", errors.output) &&
           add_half_width(list, result, "output_throughput_per_gpu", errors.output);
}

/* Parameters of a backend that let few GPUs stand for many. */
static bool add_scaled_backend(cJSON *scaled, const struct kvt_choice *backend)
{
    static const char *const stand_ins[] = {"ranks_on_device", "shared_tokens", "shared_contexts",
                                            "layers"};
    cJSON *object = NULL;

    for (size_t i = 0; i < sizeof stand_ins / sizeof stand_ins[0]; i++) {
        for (size_t p = 0; p < backend->info->param_count; p++) {
            const struct kvt_param_spec *spec = &backend->info->params[p];
            double value = backend->params.values[p].number;
            if (strcmp(spec->name, stand_ins[i]) != 0 || value == spec->default_number)
                continue;
            if (!object && !(object = add_object(scaled, "backend")))
                return false;
            if (!add_number(object, spec->name, value))
                return false;
        }
    }
    return true;
}

/* What stands for something larger, by what it is: rows, where some stores are followed; or what a
 * GPU holds. */
static bool add_scaled(cJSON *object, const struct kvt_run *run)
{
    cJSON *scaled = add_object(object, "scaled");

    if (!scaled || !add_scaled_backend(scaled, &run->scenario->backend) ||
        (run->proof.scaled && !add_text(scaled, "times", run->proof.scaled)))
        return false;
    if (!run_is_sampled(run))
        return true;
    cJSON *rows = add_object(scaled, "rows");
    cJSON *strata = rows ? add_array(rows, "strata") : NULL;
    bool ok = strata != NULL;
    for (uint32_t s = 0; s < run->stratum_count && ok; s++) {
        const struct kvt_stratum *stratum = &run->strata[s];
        cJSON *entry = cJSON_CreateObject();
        ok = entry && cJSON_AddItemToArray(strata, entry) &&
             add_number(entry, "compress_ratio", stratum->compress_ratio) &&
             add_number(entry, "stores", stratum->stores) &&
             add_number(entry, "followed", stratum->followed) &&
             add_number(entry, "scale", sampled_scale(run, s));
    }
    return ok && add_half_widths(rows, run, object);
}

/* Parameters of one plug-in whose default was fitted to something. */
static bool add_calibrated_of(cJSON *list, const struct kvt_scenario *scenario, const char *object,
                              const struct kvt_choice *choice)
{
    for (size_t i = 0; choice->info && i < choice->info->param_count; i++) {
        const struct kvt_param_spec *spec = &choice->info->params[i];
        const struct kvt_param_value *value = &choice->params.values[i];
        char in_force[CALIBRATED_BYTES], text[256];
        if (!calibrated_counts(scenario, object, spec))
            continue;
        calibrated_print(value, in_force);
        snprintf(text, sizeof text, "%s.%s = %s (%s%s)", object, spec->name, in_force,
                 calibrated_is_default(spec, value) ? "fitted to " : "changed; default fitted to ",
                 spec->calibrated_to);
        if (!cJSON_AddItemToArray(list, cJSON_CreateString(text)))
            return false;
    }
    return true;
}

static bool add_calibrated(cJSON *object, const struct kvt_run *run)
{
    const struct kvt_scenario *scenario = run->scenario;
    cJSON *list = add_array(object, "calibrated");
    return list && add_calibrated_of(list, scenario, "residency", &scenario->residency) &&
           add_calibrated_of(list, scenario, "selection", &scenario->selection) &&
           add_calibrated_of(list, scenario, "speculation", &scenario->speculation) &&
           add_calibrated_of(list, scenario, "timing", &scenario->timing) &&
           add_calibrated_of(list, scenario, "cluster.import", &scenario->import);
}

static bool add_phases(cJSON *object, const struct kvt_run *run)
{
    cJSON *phases = add_array(object, "phases");
    bool ok = phases != NULL;

    for (uint32_t p = 0; p < run->phase_count && ok; p++) {
        cJSON *phase = cJSON_CreateObject();
        ok = phase && cJSON_AddItemToArray(phases, phase) && add_number(phase, "phase", p) &&
             add_number(phase, "from_s", (double)run->phases[p].from_ns * 1e-9) &&
             add_number(phase, "to_s", (double)run->phases[p].to_ns * 1e-9) &&
             add_metrics(phase, run, (int)p) && add_explain(phase, run, (int)p);
    }
    return ok;
}

static bool add_transitions(cJSON *result, const struct kvt_run *run)
{
    return run->phase_count < 2 || add(result, "transitions", kvt_transitions_tree(run));
}

static bool add_peak(cJSON *object, const struct kvt_run *run)
{
    cJSON *peak = add_object(object, "hbm_kv_peak_by_class");
    bool ok = peak != NULL;

    for (int c = 0; c < KVT_MEM_CLASSES && ok; c++)
        ok = add_number(peak, kvt_mem_class_name((enum kvt_mem_class)c),
                        (double)run->total.hbm_peak_by_class[c]);
    return ok;
}

static bool add_step_parts(cJSON *object, const struct kvt_run *run)
{
    cJSON *parts = add_object(object, "step_parts_ms");
    bool ok = parts != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++)
        ok = add_number(parts, kvt_step_part_name((enum kvt_step_part)p),
                        run->total.decode_steps > 0
                            ? (double)run->total.parts_ns[p] / 1e6 / (double)run->total.decode_steps
                            : NAN);
    return ok;
}

/* ms a measured step, of the parts that are run, or of those that were predicted beside them. */
static bool add_measured_parts(cJSON *measured, const char *key, const struct kvt_run *run,
                               bool are_run)
{
    const struct kvt_tally *total = &run->total;
    const kvt_ns *parts_ns = are_run ? total->measured_parts_ns : total->added_parts_ns;
    cJSON *parts = add_object(measured, key);
    bool ok = parts != NULL;

    for (int p = 0; p < KVT_PARTS && ok; p++) {
        enum kvt_step_part part = (enum kvt_step_part)p;
        if (kvt_step_part_is_run(part, run->runs_drafts) == are_run)
            ok = add_number(parts, kvt_step_part_name(part),
                            (double)parts_ns[p] / 1e6 / (double)total->measured_steps);
    }
    return ok;
}

/* What came to the device over the link; seconds are those of its copies. */
static bool add_imports(cJSON *measured, const struct kvt_backend_imports *imports)
{
    cJSON *object = imports->requests > 0 ? add_object(measured, "imports") : NULL;

    return imports->requests == 0 ||
           (object && add_number(object, "requests", (double)imports->requests) &&
            add_number(object, "beside_bytes", (double)imports->beside_bytes) &&
            add_number(object, "beside_s", imports->beside_ns * 1e-9) &&
            add_number(object, "joining_bytes", (double)imports->joining_bytes) &&
            add_number(object, "joining_s", imports->joining_ns * 1e-9) &&
            add_number(object, "waited_s", imports->waited_ns * 1e-9) &&
            add_number(object, "compared_pages", (double)imports->checked_pages));
}

/* What a backend that runs its steps has found, whichever clock counted. */
static bool add_measured(cJSON *object, const struct kvt_run *run)
{
    const struct kvt_tally *total = &run->total;
    double steps = (double)total->measured_steps;

    if (total->measured_steps == 0)
        return true;
    cJSON *measured = add_object(object, "measured");
    bool ok =
        measured &&
        add(measured, "is_clock", cJSON_CreateBool(run->scenario->clock == KVT_CLOCK_MEASURED)) &&
        add(measured, "reproducible",
            cJSON_CreateBool(run->scenario->clock != KVT_CLOCK_MEASURED)) &&
        add_number(measured, "steps", steps) &&
        add_number(measured, "mean_step_ms", (double)total->measured_ns / 1e6 / steps) &&
        add_number(measured, "in_range_share",
                   1 - (double)total->extrapolated_steps / (double)total->decode_steps) &&
        add_number(measured, "attention_compared", (double)run->proof.checked_queries) &&
        add_number(measured, "attention_unequal", (double)run->proof.unequal_queries) &&
        add_number(measured, "attention_max_rel_error",
                   run->proof.double_queries > 0 ? run->proof.max_rel_error : (double)NAN) &&
        add_number(measured, "draft_rings_compared", (double)run->proof.draft_rings) &&
        add_measured_parts(measured, "step_parts_ms", run, true) &&
        add_measured_parts(measured, "predicted_parts_ms", run, false) &&
        add_imports(measured, &run->proof.imports);
    return ok;
}

/* What of steps out of range was so most often. */
static bool add_outside(cJSON *result, const struct kvt_run *run)
{
    const struct kvt_outside *outside = &run->outside;

    if (!run->says_outside)
        return true;
    cJSON *object = add_object(result, "out_of_range");
    return object && add_text(object, "part", kvt_step_part_name(outside->part)) &&
           (!outside->feature || (add_text(object, "feature", outside->feature) &&
                                  add_number(object, "value", outside->value) &&
                                  add_number(object, "least", outside->least) &&
                                  add_number(object, "most", outside->most)));
}

/* Shared objects whose tables could be chosen: what the scenario needs to run again. */
static bool add_plugins(cJSON *result, const struct kvt_scenario *scenario)
{
    size_t count;
    const struct kvt_plugin_file *files = kvt_plugins_files(scenario->plugins, &count);
    cJSON *array = count > 0 ? cJSON_AddArrayToObject(result, "plugins") : NULL;
    bool ok = count == 0 || array != NULL;

    for (size_t i = 0; i < count && ok; i++) {
        cJSON *entry = cJSON_CreateObject();
        char hash[24];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)files[i].hash);
        ok = cJSON_AddItemToArray(array, entry) && add_text(entry, "path", files[i].path) &&
             add_text(entry, "hash", hash);
        cJSON *tables = ok ? cJSON_AddArrayToObject(entry, "tables") : NULL;
        ok = tables != NULL;
        for (size_t t = 0; t < files[i].table_count && ok; t++) {
            const struct kvt_plugin_table *table = &files[i].tables[t];
            cJSON *object = cJSON_CreateObject();
            ok = cJSON_AddItemToArray(tables, object) &&
                 add_text(object, "kind", kvt_plugin_kind_name(table->kind)) &&
                 add_text(object, "name", table->info->name);
        }
    }
    return ok;
}

void kvt_run_badge(const struct kvt_run *run, const char *gpu, struct kvt_badge *out)
{
    const struct kvt_tally *total = &run->total;
    uint64_t in_range = total->decode_steps - total->extrapolated_steps;
    bool on_gpu = total->measured_steps > 0;
    /* A data sheet has no range that could be left. */
    bool says_range =
        on_gpu || run->timing_basis == KVT_BASIS_PROFILE || total->extrapolated_steps > 0;
    const struct kvt_badge_facts facts = {
        .timing = kvt_basis_name(run->timing_basis),
        .in_range_share = says_range && total->decode_steps > 0
                              ? (double)in_range / (double)total->decode_steps
                              : (double)NAN,
        .on_gpu = on_gpu,
        .gpu = gpu,
        .is_attention_good = run->proof.unequal_queries == 0,
        .is_beside = run->scenario->clock != KVT_CLOCK_MEASURED,
        .timed_steps = total->measured_steps,
        .not_representative = run->proof.not_representative,
        .scaled = run->proof.scaled,
    };

    kvt_badge_of(&facts, out);
}

static const char *ending(const struct kvt_run *run)
{
    if (run->interrupted)
        return "interrupted";
    return run->stopped_early ? "stopped" : "complete";
}

kvt_status kvt_report_result(const struct kvt_run *run, cJSON **out, struct kvt_error *err)
{
    cJSON *result = cJSON_CreateObject();
    struct kvt_badge badge;
    char hash[24];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)run->decision_hash);
    kvt_run_badge(run, NULL, &badge);
    bool ok =
        result && add_text(result, "schema", "kvtide/result/1") &&
        add_text(result, "version", kvt_version()) && add_text(result, "commit", kvt_commit()) &&
        add_text(result, "ending", ending(run)) &&
        kvt_json_add_text(result, "decision_hash", run->analytic ? NULL : hash) &&
        add(result, "bound", cJSON_CreateBool(run->is_bound)) &&
        (!run->analytic || add(result, "few_for_means", cJSON_CreateBool(run->few_for_means))) &&
        (!run->analytic || stage_load_add(result, run)) && add_metrics(result, run, -1) &&
        service_add(result, run) && add(result, "metrics_ci95", cJSON_CreateObject()) &&
        add_basis(result, run) && add_phases(result, run) && add_requests(result, run) &&
        add_rows(result, run) && add_trace(result, run->account) && add_peak(result, run) &&
        faults_add(result, run) && add_step_parts(result, run) && add_outside(result, run) &&
        add_measured(result, run) && kvt_badge_add(result, &badge) && add_scaled(result, run) &&
        add_calibrated(result, run) && add_text(result, "selections", run->law_description) &&
        add_number(result, "warmup_s", (double)run->warmup_ns * 1e-9) &&
        add_explain(result, run, -1) && add_transitions(result, run) &&
        add_number(result, "events", (double)run->events) &&
        add_number(result, "tied_events", (double)run->tied_events) &&
        add_copy(result, "inputs", run->scenario->inputs) && add_plugins(result, run->scenario) &&
        add_copy(result, "scenario", run->scenario->tree);

    if (!ok) {
        cJSON_Delete(result);
        return kvt_fail_nomem(err, "the result");
    }
    *out = result;
    return KVT_OK;
}
