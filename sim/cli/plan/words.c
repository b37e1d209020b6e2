/* words.c -- what is said of one value: numbers, why a bound has no value there, and what a reader
 * should know beside it. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

const char *plan_figure(double value, char out[PLAN_VALUE_BYTES])
{
    if (!isfinite(value))
        (void)snprintf(out, PLAN_VALUE_BYTES, "-");
    else if (value == floor(value) && fabs(value) < 1e6)
        (void)snprintf(out, PLAN_VALUE_BYTES, "%.0f", value);
    else
        (void)snprintf(out, PLAN_VALUE_BYTES,
                       fabs(value) >= 1e5 || fabs(value) < 1e-3 ? "%.3g" : "%.4g", value);
    return out;
}

const char *plan_value(const struct plan_question *question, double value,
                       char out[PLAN_VALUE_BYTES])
{
    (void)plan_figure(value, out);
    if (isfinite(value))
        (void)strcat(out, question->unit); /* one letter, behind 31 at most */
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
        fprintf(stderr, ": refused\n");
        return;
    }
    for (size_t b = 0; b < question->bound_count; b++)
        fprintf(stderr, "%s %.*s %s", b == 0 ? ":" : ",",
                (int)strcspn(question->bounds[b].text, "<>"), question->bounds[b].text,
                plan_figure(point->bounds[b].mean, number));
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

const char *plan_note_waiting(const struct plan_question *question, const struct cJSON *result,
                              struct kvt_arena *arena)
{
    static const char *const members[] = {"waiting_mean", "decoding_mean", "prefilling_mean",
                                          "importing_mean"};
    const cJSON *batch = kvt_json_find(kvt_json_find(result, "explain"), "batch");
    double of[4], all = 0;

    for (int i = 0; i < 4; i++) {
        const cJSON *item = kvt_json_find(batch, members[i]);
        of[i] = cJSON_IsNumber(item) ? item->valuedouble : 0;
        all += of[i];
    }
    if (of[0] < 1 || of[0] < 0.05 * all || bounds_waiting(question))
        return NULL;
    return kvt_arena_printf(arena,
                            "at the answer %.0f of %.0f requests wait for admission on average, "
                            "which no bound asked for sees; --slo 'mean_ttft_ms<=LIMIT' beside "
                            "them bounds queueing too",
                            of[0], all);
}
