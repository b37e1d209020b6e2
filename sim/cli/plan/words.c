/* words.c -- what is said of one value: numbers, why a bound has no value there, and what a reader
 * should know beside it. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

enum {
    NOTE_VALUES_MAX = 8 /* that are named one by one */
};

const char *plan_figure(double value, char out[PLAN_VALUE_BYTES])
{
    if (!isfinite(value))
        (void)snprintf(out, PLAN_VALUE_BYTES, "-");
    else if ((value == floor(value) && fabs(value) < 1e6) ||
             (fabs(value) >= 1e4 && fabs(value) < 1e7))
        (void)snprintf(out, PLAN_VALUE_BYTES, "%.0f", value);
    else
        (void)snprintf(out, PLAN_VALUE_BYTES,
                       fabs(value) >= 1e7 || fabs(value) < 1e-3 ? "%.3g" : "%.4g", value);
    return out;
}

const char *plan_figure_beside(double value, double limit, char out[PLAN_VALUE_BYTES])
{
    char of_limit[PLAN_VALUE_BYTES];

    (void)plan_figure(limit, of_limit);
    if (strcmp(plan_figure(value, out), of_limit) != 0)
        return out;
    for (int digits = 5;
         digits <= 17 && isfinite(value) && value != limit && strcmp(out, of_limit) == 0;
         digits++) {
        (void)snprintf(out, PLAN_VALUE_BYTES, "%.*g", digits, value);
        (void)snprintf(of_limit, sizeof of_limit, "%.*g", digits, limit);
    }
    return out;
}

const char *plan_value(const struct plan_question *question, double value,
                       char out[PLAN_VALUE_BYTES])
{
    size_t used = strlen(plan_figure(value, out));

    if (isfinite(value)) /* one letter, behind 31 at most */
        (void)snprintf(out + used, PLAN_VALUE_BYTES - used, "%s", question->unit);
    return out;
}

/* ---- A bound without a value ----------------------------------------------------------------- */

/* What nobody did, so that there is no such latency. */
static const char *not_done(const char *metric)
{
    if (strstr(metric, "ttft_ms") != NULL)
        return "no request got a first token";
    if (strstr(metric, "itl_ms") != NULL)
        return "no request got a second token";
    return "no request finished";
}

const char *plan_says(const struct plan_question *question, size_t b,
                      const struct plan_point *point, struct kvt_arena *arena)
{
    const struct plan_bound *bound = &question->bounds[b];
    size_t count = 0;
    const char *of_seeds = question->seed_count > 1 ? ", on one of the seeds at least" : "";

    if (point == NULL || point->bounds == NULL)
        return NULL;
    if (point->stranded > 0 && plan_is_of_requests(bound))
        return kvt_arena_printf(arena,
                                "%.0f request%s never decode%s again by the end of the run, after "
                                "the fault%s",
                                point->stranded, point->stranded == 1 ? "" : "s",
                                point->stranded == 1 ? "s" : "",
                                question->seed_count > 1 ? " (worst seed)" : "");
    if (!isnan(point->bounds[b].mean))
        return NULL;
    if (bound->class_name != NULL)
        return kvt_arena_printf(arena, "no request of class %s finished%s", bound->class_name,
                                of_seeds);
    if (plan_is_of_requests(bound))
        return kvt_arena_printf(arena, "%s%s",
                                not_done(kvt_metric_docs(&count)[bound->metric].name), of_seeds);
    return kvt_arena_printf(arena, "it is not defined there%s", of_seeds);
}

/* ---- Progress -------------------------------------------------------------------------------- */

void plan_tell_point(const struct plan *plan, const struct plan_wish *wish)
{
    const struct plan_question *question = &plan->question;
    const struct plan_point *point = wish->point;
    char number[PLAN_VALUE_BYTES];

    if (question->options->quiet || point == NULL)
        return;
    fprintf(stderr, "round %u: %s", plan->round, wish->choice->name);
    if (question->path != NULL)
        fprintf(stderr, " at %s", plan_value(question, question->values[wish->at], number));
    if (point->refused != NULL) {
        fprintf(stderr, point->is_spared ? ": ends before the fault\n" : ": refused\n");
        return;
    }
    for (size_t b = 0; b < question->bound_count; b++) {
        const char *says = plan_says(question, b, point, plan->arena);
        fprintf(stderr, "%s %.*s %s", b == 0 ? ":" : ",",
                (int)strcspn(question->bounds[b].text, "<>"), question->bounds[b].text,
                says != NULL
                    ? says
                    : plan_figure_beside(point->bounds[b].mean, question->bounds[b].limit, number));
    }
    fprintf(stderr, ": %s (%zu seed%s)\n", plan_meets(question, point) ? "holds" : "does not hold",
            wish->seed_count, wish->seed_count == 1 ? "" : "s");
}

/* ---- What should be known beside it ---------------------------------------------------------- */

/* Whether some bound grows with the time that requests wait before they decode. */
static bool bounds_waiting(const struct plan_question *question)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t b = 0; b < question->bound_count; b++) {
        const struct plan_bound *bound = &question->bounds[b];
        const char *name = bound->class_name != NULL ? "" : docs[bound->metric].name;
        if (bound->class_name != NULL || strstr(name, "ttft") != NULL ||
            strstr(name, "e2el") != NULL || strncmp(name, "slo_", 4) == 0 ||
            strcmp(name, "request_goodput") == 0)
            return true;
    }
    return false;
}

/* Latencies are of those who got there: a run that ends while many wait has none of theirs. */
static const char *note_left_out(const struct cJSON *result, struct kvt_arena *arena)
{
    const cJSON *requests = kvt_json_find(result, "requests");
    double waiting = kvt_json_number_or(requests, "waiting", 0),
           arrived = kvt_json_number_or(requests, "arrived", 0);

    if (waiting < 1 || waiting < 0.05 * arrived)
        return NULL;
    return kvt_arena_printf(arena,
                            "at the answer %.0f of %.0f requests still wait when the run ends, and "
                            "no mean latency counts them; a longer run.duration_s does, and so do "
                            "classes of service (--slo classes)",
                            waiting, arrived);
}

const char *plan_note_waiting(const struct plan_question *question, const struct cJSON *result,
                              struct kvt_arena *arena)
{
    const cJSON *batch = kvt_json_find(kvt_json_find(result, "explain"), "batch");
    double waiting = kvt_json_number_or(batch, "waiting_mean", 0);
    double all = waiting + kvt_json_number_or(batch, "decoding_mean", 0) +
                 kvt_json_number_or(batch, "prefilling_mean", 0) +
                 kvt_json_number_or(batch, "importing_mean", 0);

    if (bounds_waiting(question))
        return note_left_out(result, arena);
    if (waiting < 1 || waiting < 0.05 * all)
        return NULL;
    return kvt_arena_printf(arena,
                            "at the answer %.0f of %.0f requests wait for admission on average, "
                            "which no bound asked for sees; --slo 'mean_ttft_ms<=LIMIT' beside "
                            "them bounds queueing too",
                            waiting, all);
}

/* What makes a run of the arrival longer. */
static const char *makes_longer(const char *arrival)
{
    static const struct {
        const char *arrival, *by;
    } ways[] = {{"open", "more requests (workload.requests)"},
                {"closed", "more requests for each one at a time (workload.requests)"},
                {"sessions", "more of them (workload.conversations, workload.turns)"},
                {"phases", "longer phases"},
                {"trace", "a lower workload.rate_scale or a wider workload.window"}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(ways[i].arrival, arrival) == 0)
            return ways[i].by;
    }
    return "a workload that lasts";
}

/* Requests of an open loop that have all come before half of the run is over are a burst of so
 * many, whatever their rate. In a closed loop the load lasts as long as somebody still comes; it is
 * one wave where nobody follows those that came first. */
static const char *note_burst(const struct cJSON *result, bool is_closed_loop,
                              struct kvt_arena *arena)
{
    const cJSON *requests = kvt_json_find(result, "requests");
    const cJSON *scenario = kvt_json_find(result, "scenario");
    const cJSON *arrival = kvt_json_find(kvt_json_find(scenario, "workload"), "arrival");
    const cJSON *run = kvt_json_find(scenario, "run");
    double arrived = kvt_json_number_or(requests, "arrived", 0);
    double last_s = kvt_json_number_or(requests, "last_arrival_s", NAN);
    double duration_s = kvt_json_number_or(kvt_json_find(result, "metrics"), "duration", NAN);
    bool is_cut = is_closed_loop && kvt_json_number_or(run, "duration_s", 0) > 0 &&
                  kvt_json_number_or(requests, "completed", 0) < 1;
    const char *longer = is_cut                    ? "a longer run (run.duration_s)"
                         : cJSON_IsString(arrival) ? makes_longer(arrival->valuestring)
                                                   : makes_longer("");
    char last[PLAN_VALUE_BYTES], whole[PLAN_VALUE_BYTES];

    if (!(is_closed_loop ? last_s <= 0 : last_s < duration_s / 2))
        return NULL;
    (void)plan_figure(last_s, last);
    (void)plan_figure(duration_s, whole);
    return kvt_arena_printf(
        arena,
        is_closed_loop ? "at the answer its %.0f requests all come at %s s of a run of %s s and "
                         "none follows them: they are one wave and say nothing of a load that "
                         "lasts; %s would"
                       : "at the answer the last of its %.0f requests comes at %s s of a run of %s "
                         "s: they are a burst and say nothing of a load that lasts; %s would",
        arrived, last, whole, longer);
}

/* "prefill (1.50 times)" of each stage that more comes to than it can do; false: there is none. */
static bool loaded_stages(const struct cJSON *mean_values, char *text, size_t bytes)
{
    const cJSON *load;
    size_t used = 0;

    cJSON_ArrayForEach(load, kvt_json_find(mean_values, "stage_load"))
    {
        if (cJSON_IsNumber(load) && load->valuedouble >= 1 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s (%.2f times)",
                                     used > 0 ? ", " : "", load->string, load->valuedouble);
    }
    return used > 0;
}

const char *plan_note_loaded(const struct cJSON *result, const struct cJSON *mean_values,
                             bool is_closed_loop, struct kvt_arena *arena)
{
    const cJSON *requests = kvt_json_find(result != NULL ? result : mean_values, "requests");
    const cJSON *of = kvt_json_find(result != NULL ? result : mean_values, "metrics");
    double left =
        kvt_json_number_or(requests, "waiting", 0) + kvt_json_number_or(requests, "running", 0);
    char stages[PLAN_VALUE_BYTES * 4], end[PLAN_VALUE_BYTES * 2], number[PLAN_VALUE_BYTES];

    if (!loaded_stages(mean_values, stages, sizeof stages))
        return result != NULL ? note_burst(result, is_closed_loop, arena) : NULL;
    if (left < 1)
        (void)snprintf(end, sizeof end, "%.0f requests",
                       kvt_json_number_or(requests, "arrived", 0));
    else
        (void)snprintf(end, sizeof end, "%s s",
                       plan_figure(kvt_json_number_or(of, "duration", NAN), number));
    return kvt_arena_printf(arena,
                            "at the answer more arrives than can be done by %s: the bounds hold "
                            "only because the run ends after %s; give a longer run",
                            stages, end);
}

static const char *note_nothing_left(const struct plan *plan)
{
    const struct plan_question *question = &plan->question;
    bool of_nodes = question->survive_nodes > 0;

    return kvt_arena_printf(
        plan->arena,
        "%s=%u is all that cluster.decode has: nothing is left to serve. More GPUs, or --survive "
        "'{\"kind\": \"%s\", \"at_s\": %g, \"back_after_s\": SECONDS}', which has it come back, is "
        "expected",
        of_nodes ? "node" : "rank", of_nodes ? question->survive_nodes : question->survive_ranks,
        of_nodes ? "node" : "rank", question->survive_at_s);
}

/* In order; how many. */
static size_t list_spared(const struct plan_choice *choice, long *out)
{
    size_t count = 0;

    for (size_t i = 0; i < choice->point_count; i++) {
        if (!choice->points[i]->is_spared)
            continue;
        size_t place = count++;
        for (; place > 0 && out[place - 1] > choice->points[i]->at; place--)
            out[place] = out[place - 1];
        out[place] = choice->points[i]->at;
    }
    return count;
}

kvt_status plan_note_untested(const struct plan *plan, const struct plan_choice *choice,
                              const char **out, struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    long *spared =
        kvt_arena_array(plan->arena, choice->point_count + 1, sizeof *spared, _Alignof(long));
    char values[512] = "", number[PLAN_VALUE_BYTES];
    size_t used = 0, told = 0;

    *out = NULL;
    if (spared == NULL)
        return kvt_fail_nomem(err, "a note");
    size_t count = list_spared(choice, spared);
    if (count == 0 || question->path == NULL)
        return KVT_OK;
    for (; told < count && told < NOTE_VALUES_MAX; told++)
        used += (size_t)snprintf(values + used, sizeof values - used, "%s%s",
                                 told == 0           ? ""
                                 : told == count - 1 ? " and "
                                                     : ", ",
                                 plan_value(question, question->values[spared[told]], number));
    if (told < count)
        (void)snprintf(values + used, sizeof values - used, " and %zu more", count - told);
    *out = kvt_arena_printf(plan->arena,
                            "at %s of %s the run ends before the fault, so that what survives it "
                            "is not tested there; an earlier fault, or longer runs, test it",
                            question->path, values);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a note");
}

const char *plan_note_group(const struct plan *plan, const struct plan_choice *choice)
{
    const struct plan_question *question = &plan->question;
    const char *kind = question->survive_nodes > 0 ? "node" : "rank";
    bool is_stranded = false;

    for (size_t i = 0; i < choice->point_count; i++)
        is_stranded =
            is_stranded || choice->points[i]->stranded > 0 || choice->points[i]->is_stalled;
    if (!is_stranded || question->survive_ranks + question->survive_nodes == 0)
        return NULL;
    if (choice->nothing_left)
        return note_nothing_left(plan);
    if (choice->along.expert_gpus <= 1)
        return NULL;
    return kvt_arena_printf(plan->arena,
                            "ep is above 1, so that one %s that fails stops all of its pool for "
                            "good; --survive '{\"kind\": \"%s\", \"at_s\": %g, \"group\": "
                            "\"goes_on\"}' has the others go on, and back_after_s in it has it "
                            "come back",
                            kind, kind, question->survive_at_s);
}
