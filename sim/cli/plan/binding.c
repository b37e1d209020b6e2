/* binding.c -- what stops the answer, and what would next. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

/* ---- What stops it --------------------------------------------------------------------------- */

static const char *text_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);

    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static const cJSON *batch_of(const struct plan_point *point)
{
    return point != NULL && point->result != NULL
               ? kvt_json_find(kvt_json_find(point->result, "explain"), "batch")
               : NULL;
}

/* The bound that a point breaks by most; bound_count: none. */
static size_t broken(const struct plan_question *question, const struct plan_point *point)
{
    size_t found = question->bound_count;
    double most = INFINITY;

    for (size_t b = 0; b < question->bound_count; b++) {
        double slack = plan_slack(&question->bounds[b], point->bounds[b].mean);
        if (plan_holds(&question->bounds[b], point->bounds[b].mean))
            continue;
        if (found == question->bound_count || slack < most) {
            found = b;
            most = slack;
        }
    }
    return found;
}

static void by_point(const struct plan *plan, const struct plan_point *point,
                     struct plan_binding *out)
{
    const struct plan_question *question = &plan->question;

    out->at = point->at;
    if (point->refused != NULL) {
        out->kind = point->is_spared ? "untested" : "refused";
        out->constraint = point->refused;
        return;
    }
    size_t b = broken(question, point);
    if (b == question->bound_count)
        return;
    out->kind = "bound";
    out->constraint = question->bounds[b].text;
    out->value = point->bounds[b].mean;
    out->says = plan_says(question, b, point, plan->arena);
    out->limit = question->bounds[b].limit;
    const char *now = text_at(batch_of(point), "now");
    if (now != NULL && strcmp(now, "load") != 0)
        out->because = text_at(batch_of(point), "says");
}

/* By mean values: the bound that is broken most at the value beyond the answer, which the curve may
 * not have looked at; or that the scenario refuses it. */
static kvt_status by_curve(struct plan *plan, struct plan_choice *choice, struct plan_binding *out,
                           struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    const char *few = choice->few;
    double least = INFINITY;
    struct one_run run = {.metrics = kvt_arena_array(plan->arena, question->metric_count,
                                                     sizeof *run.metrics, _Alignof(double))};

    if (run.metrics == NULL)
        return kvt_fail_nomem(err, "a plan");
    choice->few = NULL;
    kvt_status status = plan_mean_values(plan, choice, choice->answer + 1, &run, err);
    cJSON_Delete(run.result);
    if (status != KVT_OK)
        return status;
    out->at = choice->answer + 1;
    if (choice->few != NULL) {
        out->kind = "refused";
        out->constraint = choice->few;
        return KVT_OK;
    }
    choice->few = few;
    for (size_t b = 0; b < question->bound_count; b++) {
        double value = run.metrics[question->bounds[b].metric];
        double slack = plan_slack(&question->bounds[b], value);
        if (plan_holds(&question->bounds[b], value) || (out->kind != NULL && !(slack < least)))
            continue;
        least = slack;
        out->kind = "bound";
        out->constraint = question->bounds[b].text;
        out->value = value;
        out->limit = question->bounds[b].limit;
        out->says = isnan(value) ? "mean values have none there" : NULL;
    }
    return KVT_OK;
}

/* Of a metric: what the choice breaks that would have been better. */
static void by_better_choice(const struct plan *plan, const struct plan_choice *best,
                             struct plan_binding *out)
{
    const struct plan_question *question = &plan->question;
    const struct plan_point *here = plan_point_at(best, best->answer);
    double most = here != NULL ? here->metrics[question->metric].mean : (double)NAN;

    for (size_t i = 0; i < plan->choice_count; i++) {
        const struct plan_choice *choice = &plan->choices[i];
        const struct plan_point *point = plan_point_at(choice, 0);
        if (choice->status != PLAN_UNREACHED || point == NULL || point->metrics == NULL)
            continue;
        double value = point->metrics[question->metric].mean;
        if (!(question->maximizes ? value > most : value < most))
            continue;
        most = value;
        by_point(plan, point, out);
        out->at = -1;
    }
    if (out->kind == NULL)
        *out = (struct plan_binding){.kind = "choices",
                                     .constraint = "no choice asked for is better",
                                     .value = NAN,
                                     .limit = NAN,
                                     .at = -1,
                                     .next_slack = NAN};
}

/* ---- What would next ------------------------------------------------------------------------- */

static void find_next(const struct plan *plan, const struct plan_choice *choice,
                      struct plan_binding *out)
{
    const struct plan_question *question = &plan->question;
    const struct plan_point *here = plan_point_at(choice, choice->answer);
    const cJSON *item;

    if (here == NULL || here->metrics == NULL)
        return;
    for (size_t b = 0; b < question->bound_count; b++) {
        double slack = plan_slack(&question->bounds[b], here->bounds[b].mean);
        if (question->bounds[b].text == out->constraint || isnan(slack))
            continue;
        if (!(out->next_slack <= slack)) {
            out->next_slack = slack;
            out->next = question->bounds[b].text;
        }
    }
    cJSON_ArrayForEach(item, kvt_json_find(batch_of(here), "uses"))
    {
        double slack = 1 - kvt_json_number_or(item, "utilisation", NAN);
        if (!isnan(slack) && !(out->next_slack <= slack)) {
            out->next_slack = slack;
            out->next = text_at(item, "what");
        }
    }
}

kvt_status plan_bind(struct plan *plan, struct plan_choice *choice, struct plan_binding *out,
                     struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    kvt_status status = KVT_OK;
    char end[PLAN_VALUE_BYTES];

    *out = (struct plan_binding){.value = NAN, .limit = NAN, .at = -1, .next_slack = NAN};
    if (choice->answer < 0)
        return KVT_OK;
    if (question->path == NULL) {
        by_better_choice(plan, choice, out);
    } else if (choice->answer == question->value_count - 1) {
        plan_print_value(question, choice->answer, end);
        out->kind = "range";
        out->constraint = kvt_arena_printf(plan->arena, "%s %s %s", question->path,
                                           question->maximizes ? "<=" : ">=", end);
        if (out->constraint == NULL)
            return kvt_fail_nomem(err, "a plan");
    } else if (choice->is_simulated) {
        const struct plan_point *beyond = plan_point_at(choice, choice->answer + 1);
        if (beyond != NULL)
            by_point(plan, beyond, out);
    } else {
        status = by_curve(plan, choice, out, err);
    }
    find_next(plan, choice, out);
    return status;
}
