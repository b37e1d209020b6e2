/* tree.c -- plan.json.
 *
 *     met, answer, interval, binding, choices[], worth[]       and beside them
 *     scenario, question, seeds, ending, nearest[], basis, badge */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/version.h"
#include "plan.h"

/* ---- Pieces ---------------------------------------------------------------------------------- */

static bool add_texts(cJSON *object, const char *key, const char *const *texts, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(object, key);
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < count; i++)
        ok = cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
    return ok;
}

static bool add_known(cJSON *object, const char *key, double value)
{
    return kvt_json_add_number(object, key, value); /* null where it is not finite */
}

static bool add_pair(cJSON *object, const char *key, double low, double high)
{
    cJSON *list = cJSON_AddArrayToObject(object, key);
    cJSON *a = isfinite(low) ? cJSON_CreateNumber(low) : cJSON_CreateNull();
    cJSON *b = isfinite(high) ? cJSON_CreateNumber(high) : cJSON_CreateNull();

    return list != NULL && cJSON_AddItemToArray(list, a) && cJSON_AddItemToArray(list, b);
}

static double value_of(const struct plan_question *question, long at)
{
    return question->path != NULL && at >= 0 ? question->values[at] : (double)NAN;
}

static bool add_metrics(cJSON *object, const struct plan *plan, const struct plan_point *point,
                        const double *mean_values)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *metrics = kvt_json_add_object(object, "metrics");
    cJSON *intervals = kvt_json_add_object(object, "metrics_ci95");
    bool is_run = point != NULL && point->metrics != NULL;
    bool ok = metrics != NULL && intervals != NULL;

    for (size_t m = 0; ok && m < count; m++) {
        double mean = is_run                ? point->metrics[m].mean
                      : mean_values != NULL ? mean_values[m]
                                            : (double)NAN;
        ok = add_known(metrics, docs[m].name, mean);
        if (ok && is_run && plan->question.seed_count > 1 && isfinite(point->metrics[m].low))
            ok = add_pair(intervals, docs[m].name, point->metrics[m].low, point->metrics[m].high);
    }
    return ok;
}

static bool add_mean_values(cJSON *object, const double *mean_values)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *metrics = mean_values != NULL ? kvt_json_add_object(object, "metrics_analytic") : NULL;
    bool ok = metrics != NULL || mean_values == NULL;

    for (size_t m = 0; ok && mean_values != NULL && m < count; m++)
        ok = !isfinite(mean_values[m]) || add_known(metrics, docs[m].name, mean_values[m]);
    return ok;
}

/* Of a bound that has no value, or is broken by none: why. */
static bool add_says(cJSON *item, const char *says)
{
    return says == NULL || kvt_json_add_text(item, "says", says);
}

static bool add_bounds(cJSON *object, const struct plan *plan, const struct plan_choice *choice,
                       const struct plan_point *point, long at)
{
    const struct plan_question *question = &plan->question;
    const double *figures = curve_known(&choice->curve, at);
    cJSON *list = cJSON_AddArrayToObject(object, "bounds");
    bool ok = list != NULL;

    for (size_t b = 0; ok && b < question->bound_count; b++) {
        const struct plan_bound *bound = &question->bounds[b];
        bool is_run = point != NULL && point->bounds != NULL;
        double value = is_run ? point->bounds[b].mean : figures != NULL ? figures[b] : (double)NAN;
        cJSON *item = kvt_json_add_element(list);
        ok = item != NULL && kvt_json_add_text(item, "bound", bound->text) &&
             add_known(item, "value", value) &&
             (!is_run || add_pair(item, "interval", point->bounds[b].low, point->bounds[b].high)) &&
             add_known(item, "limit", bound->limit) &&
             add_known(item, "slack_share", plan_slack(bound, value)) &&
             kvt_json_add_bool(item, "holds", plan_holds(bound, value)) &&
             add_says(item, plan_says(question, b, point, plan->arena));
    }
    return ok;
}

/* ---- Members --------------------------------------------------------------------------------- */

static bool add_question(cJSON *tree, const struct plan *plan)
{
    const struct plan_question *question = &plan->question;
    const struct plan_options *options = question->options;
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *object = kvt_json_add_object(tree, "question");
    cJSON *seeds = cJSON_AddArrayToObject(tree, "seeds");
    bool ok =
        object != NULL && seeds != NULL &&
        kvt_json_add_text(object, "goal", question->maximizes ? "maximize" : "minimize") &&
        kvt_json_add_text(object, question->path != NULL ? "input" : "metric",
                          question->path != NULL ? question->path : docs[question->metric].name);

    if (ok && question->path != NULL)
        ok = add_known(object, "low", question->low) && add_known(object, "high", question->high) &&
             add_known(object, "values", (double)question->value_count) &&
             (question->unit[0] == '\0' || kvt_json_add_text(object, "unit", question->unit));
    ok = ok && add_texts(object, "slo", options->slo.items, options->slo.count) &&
         add_texts(object, "over", options->over.items, options->over.count) &&
         add_texts(object, "set", options->sets.items, options->sets.count);
    if (ok && options->survive != NULL)
        ok = kvt_json_add_text(object, "survive", options->survive);
    for (size_t s = 0; ok && s < question->seed_count; s++)
        ok = cJSON_AddItemToArray(seeds, cJSON_CreateNumber((double)question->seeds[s]));
    return ok;
}

static const char *level_of(const struct plan_choice *choice)
{
    return choice->is_simulated ? "simulated" : "analytic";
}

static bool add_answer(cJSON *tree, const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_choice *best = answer->best;
    const struct plan_question *question = &plan->question;

    if (!answer->is_met)
        return cJSON_AddNullToObject(tree, "answer") && cJSON_AddNullToObject(tree, "interval") &&
               cJSON_AddNullToObject(tree, "binding");
    const struct plan_point *point = plan_point_at(best, best->answer);
    cJSON *object = kvt_json_add_object(tree, "answer");
    bool ok = object != NULL && kvt_json_add_text(object, "choice", best->name) &&
              add_texts(object, "changes", best->axis_sets, question->axis_count) &&
              kvt_json_add_text(object, "by", level_of(best)) &&
              add_known(object, "value", value_of(question, best->answer)) &&
              add_known(object, "value_analytic", value_of(question, best->analytic_answer)) &&
              kvt_json_add_bool(object, "bound", best->is_bound);
    const double *mean_values = answer->mean_values[best - plan->choices].metrics;
    ok =
        ok && add_metrics(object, plan, point, mean_values) && add_mean_values(object, mean_values);
    cJSON *interval = ok ? kvt_json_add_object(tree, "interval") : NULL;
    double held = value_of(question, best->sure), broken = value_of(question, best->not_sure);
    return interval != NULL &&
           add_pair(interval, "value", question->maximizes ? held : broken,
                    question->maximizes ? broken : held) &&
           add_known(interval, "surely_held", held) &&
           add_known(interval, "surely_broken", broken) &&
           add_bounds(interval, plan, best, point, best->answer);
}

static bool add_binding(cJSON *tree, const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_binding *binding = &answer->binding;

    if (!answer->is_met)
        return true;
    cJSON *object = kvt_json_add_object(tree, "binding");
    bool ok = object != NULL && kvt_json_add_text(object, "kind", binding->kind) &&
              kvt_json_add_text(object, "constraint", binding->constraint) &&
              add_known(object, "at", value_of(&plan->question, binding->at)) &&
              add_known(object, "value", binding->value) && add_says(object, binding->says) &&
              add_known(object, "limit", binding->limit) &&
              kvt_json_add_text(object, "because", binding->because);
    cJSON *next = ok ? kvt_json_add_object(object, "next") : NULL;
    return next != NULL && kvt_json_add_text(next, "constraint", binding->next) &&
           add_known(next, "slack_share", binding->next_slack);
}

static const char *status_name(enum plan_status status)
{
    static const char *const names[] = {[PLAN_OPEN] = "unfinished",
                                        [PLAN_MET] = "met",
                                        [PLAN_UNREACHED] = "unreachable",
                                        [PLAN_UNFINISHED] = "unfinished",
                                        [PLAN_REFUSED] = "refused"};

    return names[status];
}

static bool add_method(cJSON *object, const struct plan_choice *choice)
{
    cJSON *method = kvt_json_add_object(object, "method");

    if (method == NULL)
        return false;
    if (choice->no_analytic != NULL)
        return kvt_json_add_text(method, "first", "some values on one seed") &&
               kvt_json_add_text(method, "because", choice->no_analytic) &&
               kvt_json_add_bool(method, "monotone", curve_is_monotone(&choice->curve)) &&
               add_known(method, "values_run", (double)choice->point_count);
    return kvt_json_add_text(method, "first", choice->curve.is_scanned ? "scan" : "bisection") &&
           kvt_json_add_bool(method, "monotone", curve_is_monotone(&choice->curve)) &&
           add_known(method, "values_analytic", (double)choice->curve.point_count) &&
           add_known(method, "values_run", (double)choice->point_count);
}

static bool add_choice(cJSON *list, const struct plan *plan, const struct plan_answer *answer,
                       size_t index)
{
    const struct plan_choice *choice = &plan->choices[index];
    const struct plan_question *question = &plan->question;
    long at = plan_told_at(plan, choice);
    const struct plan_point *point = plan_point_at(choice, at);
    cJSON *object = kvt_json_add_element(list);
    bool ok = object != NULL && kvt_json_add_text(object, "choice", choice->name) &&
              add_texts(object, "changes", choice->axis_sets, question->axis_count) &&
              kvt_json_add_text(object, "status", status_name(choice->status));

    if (!ok || choice->status == PLAN_REFUSED)
        return ok && kvt_json_add_text(object, "reason", choice->reason);
    if (choice->reason != NULL && !kvt_json_add_text(object, "reason", choice->reason))
        return false;
    return kvt_json_add_text(object, "by", level_of(choice)) &&
           kvt_json_add_bool(object, "bound", choice->is_bound) &&
           add_known(object, "value", value_of(question, choice->answer)) &&
           add_known(object, "value_analytic", value_of(question, choice->analytic_answer)) &&
           add_known(object, "told_at", value_of(question, at)) &&
           add_metrics(object, plan, point, answer->mean_values[index].metrics) &&
           add_mean_values(object, answer->mean_values[index].metrics) &&
           add_bounds(object, plan, choice, point, at) && add_method(object, choice) &&
           plan_add_looked(object, plan, choice) && plan_add_untested(object, plan, choice);
}

static bool add_choices(cJSON *tree, const struct plan *plan, const struct plan_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "choices");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < plan->choice_count; i++)
        ok = add_choice(list, plan, answer, plan->order[i]);
    return ok;
}

static bool add_worth(cJSON *tree, const struct plan_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "worth");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < answer->worth_count; i++) {
        const struct plan_worth *worth = &answer->worth[i];
        cJSON *object = kvt_json_add_element(list);
        ok = object != NULL && kvt_json_add_text(object, "change", worth->change) &&
             add_texts(object, "changes", worth->sets, worth->set_count) &&
             kvt_json_add_text(object, "by",
                               worth->level == PLAN_SIMULATED ? "simulated" : "analytic") &&
             add_known(object, "answer", worth->value) &&
             add_known(object, "difference", worth->difference) &&
             kvt_json_add_bool(object, "range_end", worth->is_range_end) &&
             kvt_json_add_text(object, "refused", worth->refused);
    }
    return ok;
}

/* The best that a bound was found to be, and where. */
static bool add_nearest(cJSON *list, const struct plan *plan, size_t b)
{
    const struct plan_nearest nearest = plan_nearest(plan, b);
    cJSON *object = kvt_json_add_element(list);

    return object != NULL && kvt_json_add_text(object, "bound", plan->question.bounds[b].text) &&
           add_known(object, "value", nearest.value) &&
           kvt_json_add_text(object, "choice",
                             nearest.choice != NULL ? nearest.choice->name : NULL) &&
           add_known(object, "at", value_of(&plan->question, nearest.at)) &&
           kvt_json_add_text(object, "by", nearest.by) && add_says(object, nearest.says);
}

static bool add_all_nearest(cJSON *tree, const struct plan *plan, const struct plan_answer *answer)
{
    if (answer->is_met)
        return true;
    cJSON *list = cJSON_AddArrayToObject(tree, "nearest");
    bool ok = list != NULL;
    for (size_t b = 0; ok && b < plan->question.bound_count; b++)
        ok = add_nearest(list, plan, b);
    return ok;
}

struct plan_rests plan_rests_on(const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_choice *best = answer->best;
    const struct plan_point *point =
        best != NULL ? plan_point_at(best, plan_told_at(plan, best)) : NULL;

    if (point != NULL && point->result != NULL)
        return (struct plan_rests){point->result, point->basis, &point->badge};
    if (best == NULL || answer->mean_values == NULL)
        return (struct plan_rests){NULL, "", NULL};
    const struct one_run *run = &answer->mean_values[best - plan->choices];
    return (struct plan_rests){run->result, run->basis, &run->badge};
}

/* What the answer's figures rest on, and constants that were fitted to something. */
static bool add_basis(cJSON *tree, const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_rests rests = plan_rests_on(plan, answer);
    static const char *const members[] = {"calibrated", "scenario"};

    if (rests.result == NULL)
        return true;
    bool ok = kvt_json_add_text(tree, "basis", rests.basis) && kvt_badge_add(tree, rests.badge);
    for (size_t i = 0; ok && i < sizeof members / sizeof members[0]; i++) {
        const cJSON *item = kvt_json_find(rests.result, members[i]);
        const char *name = i == 0 ? members[i] : "scenario_in_force";
        ok = item == NULL || kvt_json_add(tree, name, cJSON_Duplicate(item, true));
    }
    return ok;
}

long plan_told_at(const struct plan *plan, const struct plan_choice *choice)
{
    struct plan_judge judge = {.question = &plan->question, .choice = choice};
    long best = -1;
    double most = -INFINITY;

    if (choice->answer >= 0)
        return choice->answer;
    for (size_t i = 0; i < choice->point_count; i++) {
        double margin = plan_margin(&plan->question, choice->points[i]);
        if (margin > most || (best < 0 && choice->points[i]->metrics != NULL)) {
            best = choice->points[i]->at;
            most = margin;
        }
    }
    return best >= 0 || plan_knows_no_fault(&plan->question, choice)
               ? best
               : curve_best(&choice->curve, plan_judge_margin, &judge);
}

cJSON *plan_tree(const struct plan *plan, const struct plan_answer *answer)
{
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree != NULL && kvt_json_add_text(tree, "schema", PLAN_SCHEMA) &&
              kvt_json_add_text(tree, "version", kvt_version()) &&
              kvt_json_add_text(tree, "commit", kvt_commit()) &&
              kvt_json_add_text(tree, "scenario", plan->question.name) &&
              kvt_json_add_text(tree, "ending", plan->interrupted ? "interrupted" : "complete") &&
              add_question(tree, plan) && kvt_json_add_bool(tree, "met", answer->is_met) &&
              add_answer(tree, plan, answer) && add_binding(tree, plan, answer) &&
              (answer->note == NULL || kvt_json_add_text(tree, "note", answer->note)) &&
              add_choices(tree, plan, answer) && add_worth(tree, answer) &&
              add_all_nearest(tree, plan, answer) && add_basis(tree, plan, answer);

    if (!ok) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}
