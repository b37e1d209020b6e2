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

static double number_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);

    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
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

static void by_point(const struct plan_question *question, const struct plan_point *point,
                     struct plan_binding *out)
{
    out->at = point->at;
    if (point->refused != NULL) {
        out->kind = "refused";
        out->constraint = point->refused;
        return;
    }
    size_t b = broken(question, point);
    if (b == question->bound_count)
        return;
    out->kind = "bound";
    out->constraint = question->bounds[b].text;
    out->value = point->bounds[b].mean;
    out->limit = question->bounds[b].limit;
    const char *now = text_at(batch_of(point), "now");
    if (now != NULL && strcmp(now, "load") != 0)
        out->because = text_at(batch_of(point), "says");
}

/* By mean values: the bound that the curve breaks first beyond the answer. */
static void by_curve(const struct plan_question *question, const struct plan_choice *choice,
                     struct plan_binding *out)
{
    const double *figures = curve_known(&choice->curve, choice->answer + 1);
    double least = 0;

    for (size_t b = 0; figures != NULL && b < question->bound_count; b++) {
        double slack = plan_slack(&question->bounds[b], figures[b]);
        if (plan_holds(&question->bounds[b], figures[b]) || slack > least)
            continue;
        least = slack;
        *out = (struct plan_binding){.kind = "bound",
                                     .constraint = question->bounds[b].text,
                                     .value = figures[b],
                                     .limit = question->bounds[b].limit,
                                     .at = choice->answer + 1,
                                     .next_slack = NAN};
    }
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
        by_point(question, point, out);
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
        double slack = 1 - number_at(item, "utilisation");
        if (!isnan(slack) && !(out->next_slack <= slack)) {
            out->next_slack = slack;
            out->next = text_at(item, "what");
        }
    }
}

kvt_status plan_bind(struct plan *plan, const struct plan_choice *choice, struct plan_binding *out,
                     struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    char end[32];

    *out = (struct plan_binding){.value = NAN, .limit = NAN, .at = -1, .next_slack = NAN};
    if (choice->answer < 0)
        return KVT_OK;
    if (question->path == NULL) {
        by_better_choice(plan, choice, out);
    } else if (choice->answer == question->value_count - 1) {
        kvt_json_print_number(question->values[choice->answer], end);
        out->kind = "range";
        out->constraint = kvt_arena_printf(plan->arena, "%s %s %s", question->path,
                                           question->maximizes ? "<=" : ">=", end);
        if (out->constraint == NULL)
            return kvt_fail_nomem(err, "a plan");
    } else if (choice->is_simulated) {
        const struct plan_point *beyond = plan_point_at(choice, choice->answer + 1);
        if (beyond != NULL)
            by_point(question, beyond, out);
    } else {
        by_curve(question, choice, out);
    }
    find_next(plan, choice, out);
    return KVT_OK;
}
