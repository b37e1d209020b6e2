/* text.c -- a plan for people: the answer first, then the choices, what more is worth, and what it
 * rests on. 80 columns. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

enum {
    INDENT = 11,
    NAME_COLUMNS = 30
};

static void put_line(const char *head, const char *text)
{
    printf("%-*s", INDENT, head);
    (void)cli_put_wrapped(text, INDENT, INDENT);
    putchar('\n');
}

static const char *metric_name(size_t metric)
{
    size_t count = 0;

    return kvt_metric_docs(&count)[metric].name;
}

/* "49.3 [48.9, 49.6]", the interval where there is one. limit: NaN, or what it is held to. */
static void put_estimate(char *out, size_t bytes, const struct kvt_estimate *estimate, double limit)
{
    char mean[PLAN_VALUE_BYTES], low[PLAN_VALUE_BYTES], high[PLAN_VALUE_BYTES];

    if (isfinite(estimate->low))
        (void)snprintf(out, bytes, "%s [%s, %s]", plan_figure_beside(estimate->mean, limit, mean),
                       plan_figure(estimate->low, low), plan_figure(estimate->high, high));
    else
        (void)snprintf(out, bytes, "%s", plan_figure_beside(estimate->mean, limit, mean));
}

static void put_question(const struct plan *plan)
{
    const struct plan_question *question = &plan->question;
    char text[2048], low[PLAN_VALUE_BYTES], high[PLAN_VALUE_BYTES];
    size_t used = 0;

    if (question->path != NULL)
        used = (size_t)snprintf(text, sizeof text, "%s: the %s %s of %s to %s", question->name,
                                question->maximizes ? "largest" : "smallest", question->path,
                                plan_value(question, question->low, low),
                                plan_value(question, question->high, high));
    else
        used = (size_t)snprintf(text, sizeof text, "%s: the %s %s", question->name,
                                question->maximizes ? "largest" : "smallest",
                                metric_name(question->metric));
    for (size_t b = 0; b < question->bound_count && used < sizeof text; b++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s",
                                 b == 0 ? " with" : " and", question->bounds[b].text);
    if (question->options->survive != NULL && used < sizeof text)
        (void)snprintf(text + used, sizeof text - used, ", while %s fails",
                       question->options->survive);
    put_line("plan", text);
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* Bounds and output at a value, as simulated or else by mean values. */
static size_t put_figures(char *text, size_t bytes, const struct plan *plan,
                          const struct plan_choice *choice, long at)
{
    const struct plan_question *question = &plan->question;
    const struct plan_point *point = plan_point_at(choice, at);
    const double *figures = curve_known(&choice->curve, at);
    size_t used = 0, output = 0;
    char number[128];

    if (point != NULL && point->metrics != NULL &&
        kvt_metric_find("output_throughput_per_gpu", "plan", &output, NULL) == KVT_OK) {
        put_estimate(number, sizeof number, &point->metrics[output], NAN);
        used = (size_t)snprintf(text, bytes, "%s tokens/s/GPU", number);
    }
    for (size_t b = 0; b < question->bound_count && used < bytes; b++) {
        const struct kvt_estimate alone = {figures != NULL ? figures[b] : (double)NAN, NAN, NAN};
        const char *says = plan_says(question, b, point, plan->arena);
        char name[96];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(question->bounds[b].text, "<>"),
                       question->bounds[b].text);
        put_estimate(number, sizeof number,
                     point != NULL && point->bounds != NULL ? &point->bounds[b] : &alone,
                     question->bounds[b].limit);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s %s", used > 0 ? "; " : "", name,
                                 says != NULL ? ":" : "", says != NULL ? says : number);
    }
    return used;
}

static void put_answer(const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_choice *best = answer->best;
    const struct plan_question *question = &plan->question;
    char text[2048], value[PLAN_VALUE_BYTES], low[PLAN_VALUE_BYTES], high[PLAN_VALUE_BYTES];
    size_t used = 0;

    if (question->path != NULL) {
        used = (size_t)snprintf(text, sizeof text, "%s: %s %s", best->name, question->path,
                                plan_value(question, question->values[best->answer], value));
        long first = question->maximizes ? best->sure : best->not_sure;
        long last = question->maximizes ? best->not_sure : best->sure;
        if (first >= 0 || last >= 0)
            used += (size_t)snprintf(
                text + used, sizeof text - used, " [%s, %s]",
                first >= 0 ? plan_value(question, question->values[first], low) : "-",
                last >= 0 ? plan_value(question, question->values[last], high) : "-");
    } else {
        const struct plan_point *point = plan_point_at(best, 0);
        const double *figures = curve_known(&best->curve, 0);
        const struct kvt_estimate alone = {
            figures != NULL ? figures[question->bound_count] : (double)NAN, NAN, NAN};
        char number[128];
        put_estimate(number, sizeof number,
                     point != NULL && point->metrics != NULL ? &point->metrics[question->metric]
                                                             : &alone,
                     NAN);
        used = (size_t)snprintf(text, sizeof text, "%s: %s %s", best->name,
                                metric_name(question->metric), number);
    }
    if (used < sizeof text - 2) {
        used += (size_t)snprintf(text + used, sizeof text - used, "; ");
        (void)put_figures(text + used, sizeof text - used, plan, best, best->answer);
    }
    put_line("answer", text);
}

static void put_binding(const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_binding *binding = &answer->binding;
    char text[2048], value[PLAN_VALUE_BYTES], at[PLAN_VALUE_BYTES];
    size_t used = 0;

    bool is_refused = binding->kind != NULL && strcmp(binding->kind, "refused") == 0;
    bool is_untested = binding->kind != NULL && strcmp(binding->kind, "untested") == 0;

    if (binding->kind == NULL)
        used = (size_t)snprintf(text, sizeof text, "not known");
    else if (is_refused)
        used = (size_t)snprintf(text, sizeof text, "the scenario takes no %s: %.700s",
                                plan_value(&plan->question, plan->question.values[binding->at], at),
                                binding->constraint);
    else if (is_untested)
        used = (size_t)snprintf(text, sizeof text, "nothing that was tested; at %s %.700s",
                                plan_value(&plan->question, plan->question.values[binding->at], at),
                                binding->constraint);
    else
        used =
            (size_t)snprintf(text, sizeof text, "%.700s%s", binding->constraint,
                             strcmp(binding->kind, "range") == 0 ? ", the end of the range" : "");
    if (isfinite(binding->value))
        used += (size_t)snprintf(text + used, sizeof text - used, ": %s",
                                 plan_figure_beside(binding->value, binding->limit, value));
    else if (binding->says != NULL)
        used += (size_t)snprintf(text + used, sizeof text - used, ": %s", binding->says);
    if (binding->at >= 0 && plan->question.path != NULL && !is_refused && !is_untested)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, " at %s",
                             plan_value(&plan->question, plan->question.values[binding->at], at));
    if (binding->because != NULL)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%s)", binding->because);
    if (binding->next != NULL)
        (void)snprintf(text + used, sizeof text - used, "; next: %s, %.0f %% left", binding->next,
                       100 * binding->next_slack);
    put_line("binding", text);
}

/* ---- Unreachable ----------------------------------------------------------------------------- */

static void put_unmet(const struct plan *plan, const cJSON *tree)
{
    const cJSON *item;
    size_t b = 0; /* of the bounds, whose order it is */

    put_line("answer", plan->interrupted ? "none: interrupted before one was found"
                                         : "none: no value of any choice holds all bounds");
    cJSON_ArrayForEach(item, kvt_json_find(tree, "nearest"))
    {
        char text[1024], number[PLAN_VALUE_BYTES], at[PLAN_VALUE_BYTES];
        const cJSON *value = kvt_json_find(item, "value"), *where = kvt_json_find(item, "at");
        const cJSON *choice = kvt_json_find(item, "choice"), *by = kvt_json_find(item, "by");
        const cJSON *says = kvt_json_find(item, "says");
        size_t used = (size_t)snprintf(
            text, sizeof text, "%s: %s", kvt_json_find(item, "bound")->valuestring,
            cJSON_IsNumber(value)
                ? plan_figure_beside(value->valuedouble, plan->question.bounds[b].limit, number)
                : "has no value");
        b++;
        if (cJSON_IsString(choice))
            used += (size_t)snprintf(text + used, sizeof text - used, " with %.300s",
                                     choice->valuestring);
        if (cJSON_IsNumber(where) && isfinite(where->valuedouble) && plan->question.path != NULL)
            used += (size_t)snprintf(text + used, sizeof text - used, " at %s",
                                     plan_value(&plan->question, where->valuedouble, at));
        if (cJSON_IsString(by))
            used += (size_t)snprintf(text + used, sizeof text - used, " (%s)",
                                     strcmp(by->valuestring, "first_seed") == 0 ? "first seed"
                                                                                : by->valuestring);
        if (cJSON_IsString(says))
            (void)snprintf(text + used, sizeof text - used, "; %.300s", says->valuestring);
        put_line("nearest", text);
    }
}

/* ---- The choices ----------------------------------------------------------------------------- */

/* What a choice is told of in one word or one number. */
static void put_verdict(const struct plan *plan, const struct plan_choice *choice)
{
    const struct plan_question *question = &plan->question;
    char value[PLAN_VALUE_BYTES], other[PLAN_VALUE_BYTES];
    const char *said = choice->status == PLAN_UNREACHED    ? "none"
                       : choice->status == PLAN_UNFINISHED ? "unfinished"
                                                           : "-";

    if (question->path != NULL) {
        if (choice->answer >= 0)
            said = plan_value(question, question->values[choice->answer], value);
        printf(" %10s %9s", said,
               choice->analytic_answer >= 0
                   ? plan_value(question, question->values[choice->analytic_answer], other)
                   : "-");
        return;
    }
    const struct plan_point *point = plan_point_at(choice, 0);
    const double *figures = curve_known(&choice->curve, 0);
    if (point != NULL && point->metrics != NULL)
        said = plan_figure(point->metrics[question->metric].mean, value);
    printf(" %10s %9s", said,
           figures != NULL && choice->no_analytic == NULL
               ? plan_figure(figures[question->bound_count], other)
               : "-");
}

/* As simulated, or else by mean values. */
static double output_per_gpu(const struct plan *plan, const struct plan_answer *answer,
                             const struct plan_choice *choice, const struct plan_point *point)
{
    const struct one_run *by_means =
        answer->mean_values != NULL ? &answer->mean_values[choice - plan->choices] : NULL;
    size_t output = 0;

    if (kvt_metric_find("output_throughput_per_gpu", "plan", &output, NULL) != KVT_OK)
        return NAN;
    if (point != NULL && point->metrics != NULL)
        return point->metrics[output].mean;
    return by_means != NULL && by_means->metrics != NULL ? by_means->metrics[output] : (double)NAN;
}

static void put_choice(const struct plan *plan, const struct plan_answer *answer,
                       const struct plan_choice *choice)
{
    const struct plan_question *question = &plan->question;
    int columns = (int)strlen(choice->name);
    long at = plan_told_at(plan, choice);
    const struct plan_point *point = plan_point_at(choice, at);
    const double *figures = curve_known(&choice->curve, at);
    char number[PLAN_VALUE_BYTES];

    if (columns > NAME_COLUMNS)
        printf("%s\n%*s", choice->name, NAME_COLUMNS, "");
    else
        printf("%-*s", NAME_COLUMNS, choice->name);
    put_verdict(plan, choice);
    printf(" %8s", plan_figure(output_per_gpu(plan, answer, choice, point), number));
    for (size_t b = 0; b < question->bound_count && b < 2; b++) {
        double value = point != NULL && point->bounds != NULL ? point->bounds[b].mean
                       : figures != NULL                      ? figures[b]
                                                              : (double)NAN;
        bool holds = plan_holds(&question->bounds[b], value);
        printf(" %8s%s", plan_figure_beside(value, question->bounds[b].limit, number),
               holds || (isnan(value) && point == NULL) ? " " : "*");
    }
    puts(choice->is_bound ? " bound" : "");
}

static void put_refused(const struct plan_choice *choice)
{
    char text[PLAN_REASON_BYTES + 300];

    (void)snprintf(text, sizeof text, "%.250s: %.500s", choice->name,
                   choice->reason != NULL ? choice->reason : "");
    put_line(choice->status == PLAN_REFUSED ? "refused" : "stalled", text);
}

static void put_choices(const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_question *question = &plan->question;
    bool breaks = false;

    printf("\n%-*s %10s %9s %8s", NAME_COLUMNS, "choice", "answer", "analytic", "tok/s/GPU");
    for (size_t b = 0; b < question->bound_count && b < 2; b++)
        printf(" bound %zu ", b + 1);
    putchar('\n');
    for (size_t i = 0; i < plan->choice_count; i++) {
        const struct plan_choice *choice = &plan->choices[plan->order[i]];
        if (choice->status == PLAN_REFUSED)
            continue;
        put_choice(plan, answer, choice);
        breaks = breaks || choice->status == PLAN_UNREACHED;
    }
    if (breaks)
        puts("* breaks the bound, at the value where they come nearest to holding");
    putchar('\n');
    for (size_t i = 0; i < plan->choice_count; i++) {
        if (plan->choices[plan->order[i]].reason != NULL)
            put_refused(&plan->choices[plan->order[i]]);
    }
}

/* ---- What more is worth, and what it rests on ------------------------------------------------ */

static void put_worth(const struct plan *plan, const struct plan_answer *answer)
{
    bool is_asked = plan->question.options->worth != NULL, has_path = plan->question.path != NULL;
    bool is_untold = answer->worth_count > 0;

    for (size_t i = 0; i < answer->worth_count; i++)
        is_untold = is_untold && answer->worth[i].is_untold &&
                    answer->worth[i].refused == answer->worth[0].refused;
    for (size_t i = 0; i < answer->worth_count; i++) {
        const struct plan_worth *worth = &answer->worth[i];
        const char *hint = worth->is_untold && !is_asked && !plan->question.analytic_only
                               ? "; --worth simulated tells it, by runs"
                               : "";
        char text[PLAN_REASON_BYTES + 200], value[PLAN_VALUE_BYTES], difference[PLAN_VALUE_BYTES];
        if (worth->refused != NULL)
            (void)snprintf(text, sizeof text, "%s: not told: %.500s%s",
                           is_untold ? "more of something" : worth->change, worth->refused, hint);
        else if (!isfinite(worth->value))
            (void)snprintf(text, sizeof text, "%s: no answer", worth->change);
        else
            (void)snprintf(text, sizeof text, "%s: %s%s (%s%s)%s", worth->change,
                           has_path ? plan_value(&plan->question, worth->value, value)
                                    : plan_figure(worth->value, value),
                           worth->is_range_end ? " or more" : "", worth->difference >= 0 ? "+" : "",
                           plan_figure(worth->difference, difference),
                           worth->level == PLAN_SIMULATED ? "" : ", by mean values");
        put_line("worth", text);
        if (is_untold) /* of the others it would be the same words */
            break;
    }
}

static void put_method(const struct plan *plan, const struct plan_choice *best)
{
    char text[1024];
    size_t used = 0, runs = 0;

    for (size_t i = 0; i < plan->choice_count; i++)
        runs += plan->choices[i].point_count;
    if (best->no_analytic != NULL)
        used = (size_t)snprintf(text, sizeof text, "no mean values (%.300s); ", best->no_analytic);
    else
        used =
            (size_t)snprintf(text, sizeof text, "mean values at %zu value%s%s; ",
                             best->curve.point_count, best->curve.point_count == 1 ? "" : "s",
                             best->curve.is_scanned ? ", a scan, for they are not monotone" : "");
    if (!curve_is_monotone(&best->curve) && best->no_analytic != NULL)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "not monotone on the values tried, of which this is the last; ");
    if (runs > 0)
        (void)snprintf(text + used, sizeof text - used,
                       "%zu value%s of all choices simulated on %zu seed%s", runs,
                       runs == 1 ? "" : "s", plan->question.seed_count,
                       plan->question.seed_count > 1 ? "s" : "");
    else
        (void)snprintf(text + used, sizeof text - used, "nothing was simulated");
    put_line("method", text);
}

static void put_calibrated(const cJSON *tree)
{
    const cJSON *item;
    char text[1024];
    size_t used = 0;

    cJSON_ArrayForEach(item, kvt_json_find(tree, "calibrated"))
    {
        if (cJSON_IsString(item) && used < sizeof text) /* "NAME = VALUE (fitted to ..)" */
            used +=
                (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used > 0 ? ", " : "",
                                 (int)strcspn(item->valuestring, " "), item->valuestring);
    }
    if (used > 0)
        put_line("calibrated", text);
}

void plan_print(const struct plan *plan, const struct plan_answer *answer)
{
    const struct plan_choice *best = answer->best;
    cJSON *tree = plan_tree(plan, answer); /* what is nearest, and what it rests on */

    put_question(plan);
    if (answer->is_met) {
        put_answer(plan, answer);
        put_binding(plan, answer);
    } else {
        put_unmet(plan, tree);
    }
    put_choices(plan, answer);
    put_worth(plan, answer);
    if (answer->note != NULL)
        put_line("note", answer->note);
    if (best != NULL) {
        const struct plan_rests rests = plan_rests_on(plan, answer);
        put_method(plan, best);
        if (rests.result != NULL && rests.basis[0] != '\0')
            put_line("basis", rests.basis);
        put_calibrated(tree);
        if (rests.result != NULL)
            cli_print_badge(rests.badge);
    }
    if (plan->interrupted)
        put_line("ending", "interrupted: what was known by then");
    cJSON_Delete(tree);
}
