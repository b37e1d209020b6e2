/* faults.c -- what failed during a run: metrics, the list in result.json, lines of the summary. */
#include "faults.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#include "kvt/json.h"

static double seconds_between(kvt_ns from_ns, kvt_ns to_ns)
{
    return to_ns == KVT_NS_NEVER ? NAN : (double)(to_ns - from_ns) / (double)KVT_NS_PER_S;
}

double faults_recovery_s(const struct kvt_run *run)
{
    double longest_s = NAN;

    for (uint32_t i = 0; i < run->fault_count; i++) {
        const struct kvt_fault_report *report = &run->faults[i];
        if (!report->has_struck || kvt_fault_interrupted(report) == 0)
            continue;
        double recovery_s = seconds_between(report->fault->at_ns, report->recovered_ns);
        if (isnan(recovery_s))
            return NAN;
        longest_s = fmax(recovery_s, longest_s); /* NaN loses against a number */
    }
    return longest_s;
}

double faults_kept_tokens(const struct kvt_run *run)
{
    double tokens = 0;

    for (uint32_t i = 0; i < run->fault_count; i++)
        tokens += (double)run->faults[i].kept_tokens;
    return tokens;
}

/* ---- result.json --------------------------------------------------------------------- */

static bool add(cJSON *object, const char *key, double value)
{
    return kvt_json_add_number(object, key, value);
}

static bool add_requests(cJSON *object, const struct kvt_fault_report *report)
{
    cJSON *requests = kvt_json_add_object(object, "requests");

    return requests && add(requests, "interrupted", kvt_fault_interrupted(report)) &&
           add(requests, "running", report->running) &&
           add(requests, "importing", report->importing) &&
           add(requests, "prefilling", report->prefilling) &&
           add(requests, "waiting", report->waiting) &&
           add(requests, "not_recovered", report->outstanding);
}

static bool add_lost(cJSON *object, const struct kvt_fault_report *report)
{
    cJSON *lost = kvt_json_add_object(object, "lost");
    cJSON *classes = lost ? kvt_json_add_object(lost, "hbm_bytes") : NULL;
    bool ok = classes && add(lost, "host_bytes", (double)report->host_lost_bytes) &&
              add(lost, "prefix_pages", (double)report->prefix_pages) &&
              add(lost, "step_tokens", (double)report->step_tokens);

    for (int c = 0; c < KVT_MEM_CLASSES && ok; c++)
        ok = add(classes, kvt_mem_class_name((enum kvt_mem_class)c), (double)report->hbm_bytes[c]);
    return ok;
}

static bool add_kept(cJSON *object, const struct kvt_fault_report *report)
{
    cJSON *kept = kvt_json_add_object(object, "kept");

    return kept && add(kept, "tokens", (double)report->kept_tokens) &&
           add(kept, "host_bytes", (double)report->host_kept_bytes);
}

static bool add_report(cJSON *list, const struct kvt_fault_report *report)
{
    const struct kvt_fault *fault = report->fault;
    cJSON *object = kvt_json_add_element(list);
    bool is_repaired = fault->back_ns != KVT_NS_NEVER;
    kvt_ns back_ns = is_repaired ? fault->at_ns + fault->back_ns : KVT_NS_NEVER;

    bool ok = object && kvt_json_add_text(object, "kind", kvt_fault_kind_name(fault->kind)) &&
              kvt_json_add_bool(object, "struck", report->has_struck) &&
              add(object, "at_s", seconds_between(0, fault->at_ns)) &&
              add(object, "back_at_s", seconds_between(0, back_ns));
    if (!ok || !report->has_struck)
        return ok;
    if (fault->kind != KVT_FAULT_PREFILL)
        ok = add(object, "which", report->which);
    return ok && add(object, "ranks_down", report->ranks) && add_requests(object, report) &&
           add(object, "context_tokens", (double)report->context_tokens) &&
           add_lost(object, report) && add_kept(object, report) &&
           add(object, "decoding_before", (double)report->decoding) &&
           add(object, "recovery_s", seconds_between(fault->at_ns, report->recovered_ns)) &&
           add(object, "full_s", seconds_between(fault->at_ns, report->full_ns));
}

bool faults_add(cJSON *result, const struct kvt_run *run)
{
    cJSON *list = run->fault_count > 0 ? cJSON_AddArrayToObject(result, "faults") : NULL;
    bool ok = list != NULL || run->fault_count == 0;

    for (uint32_t i = 0; i < run->fault_count && ok; i++)
        ok = add_report(list, &run->faults[i]);
    return ok;
}

/* ---- Summary ------------------------------------------------------------------------- */

static void say_what(const struct kvt_run *run, const struct kvt_fault_report *report, char *text,
                     size_t bytes)
{
    const struct kvt_fault *fault = report->fault;
    double at_s = seconds_between(0, fault->at_ns);

    if (!report->has_struck)
        (void)snprintf(text, bytes, "%s at %g s: did not strike, for %s",
                       kvt_fault_kind_name(fault->kind), at_s,
                       fault->at_ns > run->total.to_ns ? "the run was over by then"
                                                       : "nothing that it could hit was up");
    else if (fault->kind == KVT_FAULT_PREFILL)
        (void)snprintf(text, bytes, "%u prefill servers at %g s", fault->servers, at_s);
    else if (fault->kind == KVT_FAULT_LINK)
        (void)snprintf(text, bytes, "link of rank %u at %g of its rate at %g s", report->which,
                       fault->bandwidth_factor, at_s);
    else
        (void)snprintf(text, bytes, "%s %u at %g s, %u rank%s down",
                       kvt_fault_kind_name(fault->kind), report->which, at_s, report->ranks,
                       report->ranks == 1 ? "" : "s");
}

void faults_say(const struct kvt_run *run, const struct kvt_fault_report *report, char *text,
                size_t bytes)
{
    const struct kvt_fault *fault = report->fault;
    char what[128], back[48] = "", became[160] = "";

    say_what(run, report, what, sizeof what);
    if (!report->has_struck) {
        (void)snprintf(text, bytes, "%s", what);
        return;
    }
    if (fault->back_ns != KVT_NS_NEVER)
        (void)snprintf(back, sizeof back, " for %g s", seconds_between(0, fault->back_ns));
    if (kvt_fault_interrupted(report) > 0 && report->recovered_ns != KVT_NS_NEVER)
        (void)snprintf(became, sizeof became, "; all decode again or have ended after %.3g s",
                       seconds_between(fault->at_ns, report->recovered_ns));
    else if (kvt_fault_interrupted(report) > 0)
        (void)snprintf(became, sizeof became, "; %u of them do not decode again by the end",
                       report->outstanding);
    double kept = report->context_tokens > 0
                      ? 100 * (double)report->kept_tokens / (double)report->context_tokens
                      : 0;
    (void)snprintf(text, bytes,
                   "%s%s: %u requests interrupted, %.0f %% of their rows kept on host%s", what,
                   back, kvt_fault_interrupted(report), kept, became);
}
