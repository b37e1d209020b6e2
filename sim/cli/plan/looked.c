/* looked.c -- the values of a choice that were looked at, and what its bounds were there: the
 * member looked_at[] of plan.json, from which a report draws. */
#include <cjson/cJSON.h>
#include <math.h>

#include "kvt/json.h"
#include "plan.h"

static bool add_number(cJSON *list, double value)
{
    cJSON *item = isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
    return item != NULL && cJSON_AddItemToArray(list, item);
}

/* An element, without its figures yet. */
static cJSON *add_value(cJSON *list, const struct plan *plan, long at, const char *by)
{
    cJSON *object = kvt_json_add_element(list);
    bool ok = object != NULL && kvt_json_add_number(object, "value", plan->question.values[at]) &&
              kvt_json_add_text(object, "by", by);
    return ok ? object : NULL;
}

static bool add_curve_point(cJSON *list, const struct plan *plan, const struct curve_point *point,
                            const char *by)
{
    cJSON *object = add_value(list, plan, point->candidate, by);
    cJSON *bounds = object != NULL ? cJSON_AddArrayToObject(object, "bounds") : NULL;
    bool ok = bounds != NULL;

    for (size_t b = 0; ok && b < plan->question.bound_count; b++)
        ok = add_number(bounds, point->figures[b]);
    return ok;
}

static bool add_run_point(cJSON *list, const struct plan *plan, const struct plan_point *point)
{
    cJSON *object = add_value(list, plan, point->at, "simulated");
    cJSON *bounds = object != NULL ? cJSON_AddArrayToObject(object, "bounds") : NULL;
    cJSON *intervals = bounds != NULL ? cJSON_AddArrayToObject(object, "intervals") : NULL;
    bool ok = intervals != NULL;

    for (size_t b = 0; ok && b < plan->question.bound_count; b++) {
        cJSON *pair = cJSON_CreateArray();
        ok = cJSON_AddItemToArray(intervals, pair) && add_number(bounds, point->bounds[b].mean) &&
             add_number(pair, point->bounds[b].low) && add_number(pair, point->bounds[b].high);
    }
    return ok;
}

/* Of those that were run and stand behind `after` the first; NULL: there is none. */
static const struct plan_point *next_run(const struct plan_choice *choice, long after)
{
    const struct plan_point *next = NULL;

    for (size_t i = 0; i < choice->point_count; i++) {
        const struct plan_point *point = choice->points[i];
        if (point->bounds != NULL && point->at > after && (next == NULL || point->at < next->at))
            next = point;
    }
    return next;
}

bool plan_add_looked(cJSON *object, const struct plan *plan, const struct plan_choice *choice)
{
    if (plan->question.path == NULL) /* there are no values */
        return true;
    cJSON *list = cJSON_AddArrayToObject(object, "looked_at");
    const struct plan_point *point = NULL;
    long after = -1;
    bool ok = list != NULL, is_solved = choice->no_analytic == NULL;

    for (size_t i = 0; ok && is_solved && i < choice->curve.point_count; i++)
        ok = add_curve_point(list, plan, &choice->curve.points[i], "analytic");
    for (size_t i = 0; ok && !is_solved && i < choice->scout_count; i++)
        ok = add_curve_point(list, plan, &choice->scouts[i], "first_seed");
    for (; ok && (point = next_run(choice, after)) != NULL; after = point->at)
        ok = add_run_point(list, plan, point);
    return ok;
}

bool plan_add_untested(cJSON *object, const struct plan *plan, const struct plan_choice *choice)
{
    cJSON *list = NULL;
    bool ok = true;

    for (long at = 0; ok && plan->question.path != NULL && at < plan->question.value_count; at++) {
        const struct plan_point *point = plan_point_at(choice, at);
        if (point == NULL || !point->is_spared)
            continue;
        if (list == NULL)
            list = cJSON_AddArrayToObject(object, "untested");
        ok = list != NULL && add_number(list, plan->question.values[at]);
    }
    return ok;
}
