/* nearest.c -- without an answer: the best that each bound was found to be, and by what.
 *
 *     simulated     on all seeds
 *     first seed    what a choice without mean values was looked at by
 *     mean values   of choices that were not simulated, or where there is nothing else
 *
 * A value that was simulated is told of by that alone. */
#include <math.h>

#include "plan.h"

bool plan_knows_no_fault(const struct plan_question *question, const struct plan_choice *choice)
{
    return question->survive_set != NULL && choice->no_analytic == NULL;
}

static void take(const struct plan_bound *bound, const struct plan_choice *choice, long at,
                 double value, const char *by, struct plan_nearest *out)
{
    if (isnan(value) ||
        (out->choice != NULL && !(plan_slack(bound, value) > plan_slack(bound, out->value))))
        return;
    out->choice = choice;
    out->at = at;
    out->value = value;
    out->by = by;
}

static void take_runs(const struct plan *plan, const struct plan_choice *choice, size_t b,
                      struct plan_nearest *out)
{
    for (size_t i = 0; i < choice->point_count; i++) {
        const struct plan_point *point = choice->points[i];
        if (point->bounds == NULL)
            continue;
        if (out->says == NULL)
            out->says = plan_says(&plan->question, b, point, plan->arena);
        take(&plan->question.bounds[b], choice, point->at, point->bounds[b].mean, "simulated", out);
    }
}

static void take_scouts(const struct plan *plan, const struct plan_choice *choice, size_t b,
                        struct plan_nearest *out)
{
    for (size_t i = 0; i < choice->scout_count; i++) {
        const struct curve_point *scout = &choice->scouts[i];
        const struct plan_point *point = plan_point_at(choice, scout->candidate);
        if (point == NULL || point->bounds == NULL || isnan(point->bounds[b].mean))
            take(&plan->question.bounds[b], choice, scout->candidate, scout->figures[b],
                 "first_seed", out);
    }
}

static void take_curve(const struct plan *plan, const struct plan_choice *choice, size_t b,
                       struct plan_nearest *out)
{
    if (choice->no_analytic != NULL || plan_knows_no_fault(&plan->question, choice))
        return;
    for (size_t i = 0; i < choice->curve.point_count; i++)
        take(&plan->question.bounds[b], choice, choice->curve.points[i].candidate,
             choice->curve.points[i].figures[b], "analytic", out);
}

struct plan_nearest plan_nearest(const struct plan *plan, size_t b)
{
    struct plan_nearest out = {.at = -1, .value = NAN};

    for (size_t i = 0; i < plan->choice_count; i++) {
        take_runs(plan, &plan->choices[i], b, &out);
        take_scouts(plan, &plan->choices[i], b, &out);
    }
    bool has_runs = out.choice != NULL;
    for (size_t i = 0; i < plan->choice_count; i++) {
        if (!has_runs || !plan->choices[i].is_simulated)
            take_curve(plan, &plan->choices[i], b, &out);
    }
    if (out.choice != NULL && isfinite(out.value) && out.by[0] == 's')
        out.says = NULL;
    return out;
}

bool plan_nearest_untried(const struct plan *plan, size_t b, struct plan_choice **choice, long *at)
{
    const struct plan_bound *bound = &plan->question.bounds[b];
    struct plan_nearest best = {.at = -1, .value = NAN};

    for (size_t i = 0; i < plan->choice_count; i++)
        take_runs(plan, &plan->choices[i], b, &best);
    *choice = NULL;
    for (size_t i = 0; i < plan->choice_count; i++) {
        struct plan_choice *other = &plan->choices[i];
        if (!other->is_simulated || plan_knows_no_fault(&plan->question, other))
            continue;
        for (size_t p = 0; p < other->curve.point_count; p++) {
            const struct curve_point *point = &other->curve.points[p];
            const struct plan_choice *before = best.choice;
            long before_at = best.at;
            if (plan_point_at(other, point->candidate) != NULL)
                continue;
            take(bound, other, point->candidate,
                 plan_corrected(other, b, point->candidate, point->figures[b]), "", &best);
            if (best.choice != before || best.at != before_at)
                *choice = other;
        }
    }
    *at = best.at;
    return *choice != NULL;
}
