/* validate_measured_report.c -- a run beside an engine's: as JSON, and for people. */
#include <math.h>
#include <stdio.h>

#include "kvt/timing.h"
#include "validate_measured.h"

bool measured_is_good(const struct measured_outcome *outcome)
{
    size_t judged = 0;

    for (size_t i = 0; i < outcome->figure_count; i++) {
        if (outcome->figures[i].is_judged && !outcome->figures[i].is_good)
            return false;
        judged += outcome->figures[i].is_judged;
    }
    return judged > 0;
}

static const char *other_of(const struct measured_outcome *outcome)
{
    if (outcome->is_of_kvtide)
        return "kvtide's own timeline";
    return outcome->engine ? outcome->engine : "an engine";
}

/* Of an error: per cent of the measured value, or points between two shares. */
static const char *unit_of(const struct measured_figure *figure)
{
    return figure->rule == MEASURED_ABSOLUTE ? "pp" : "%";
}

/* "5 figures within 10 % of vllm", or the first that is not. */
static void say_engine(const struct measured_plan *plan, const struct measured_outcome *outcome,
                       char *out, size_t out_bytes)
{
    const char *engine = other_of(outcome);
    size_t judged = 0;

    if (outcome->is_of_kvtide && measured_is_good(outcome)) {
        (void)snprintf(out, out_bytes, "%s", engine);
        return;
    }

    for (size_t i = 0; i < outcome->figure_count; i++) {
        const struct measured_figure *figure = &outcome->figures[i];
        const char *name = engine_figure_name(figure->figure);
        judged += figure->is_judged;
        if (!figure->is_judged || figure->is_good)
            continue;
        if (figure->rule == MEASURED_BOTH_OR_NONE)
            (void)snprintf(out, out_bytes, "%s %.0f, %s had %.0f", name, figure->ours, engine,
                           figure->measured);
        else
            (void)snprintf(out, out_bytes, "%s %+.1f %s from %s's", name, 100 * figure->error,
                           unit_of(figure), engine);
        return;
    }
    if (judged > 0)
        (void)snprintf(out, out_bytes, "%zu figures within %g %% of %s's", judged,
                       100 * plan->tolerance, engine);
    else
        (void)snprintf(out, out_bytes, "no figure to judge by");
}

static struct kvt_badge badge_of(const struct measured_outcome *outcome, const char *engine)
{
    bool is_met = measured_is_good(outcome) && !outcome->is_of_kvtide;
    const struct kvt_badge_facts facts = {.timing = kvt_basis_name(outcome->timing_basis),
                                          .in_range_share = outcome->in_range_share,
                                          .engine = is_met ? "yes" : "no",
                                          .engine_reason = engine};
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool add_figure(cJSON *figures, const struct measured_figure *figure)
{
    static const char *const rules[] = {"relative", "both or none", "absolute", "shown"};
    cJSON *item = kvt_json_add_element(figures);

    return item && kvt_json_add_text(item, "name", engine_figure_name(figure->figure)) &&
           kvt_json_add_number(item, "measured", figure->measured) &&
           kvt_json_add_number(item, "ours", figure->ours) &&
           kvt_json_add_number(item, "error", figure->error) &&
           kvt_json_add_text(item, "rule", rules[figure->rule]) &&
           (!figure->is_judged || kvt_json_add_bool(item, "good", figure->is_good));
}

static bool add_family(cJSON *families, const struct measured_family *family)
{
    cJSON *item = kvt_json_add_element(families);

    return item && kvt_json_add_text(item, "name", family->name) &&
           kvt_json_add_number(item, "n", (double)family->count) &&
           kvt_json_add_number(item, "mape", family->mape) &&
           kvt_json_add_number(item, "median_abs", family->median_abs) &&
           kvt_json_add_number(item, "p95_abs", family->p95_abs) &&
           kvt_json_add_number(item, "bias", family->bias);
}

static bool fill(cJSON *tree, const struct measured_plan *plan,
                 const struct measured_outcome *outcome)
{
    char engine[160];
    bool ok = kvt_json_add_text(tree, "scenario", outcome->scenario) &&
              kvt_json_add_text(tree, "engine", outcome->engine) &&
              kvt_json_add_text(tree, "window", plan->window) &&
              kvt_json_add_number(tree, "tolerance", plan->tolerance);
    cJSON *files = ok ? cJSON_AddArrayToObject(tree, "files") : NULL;
    cJSON *figures = files ? cJSON_AddArrayToObject(tree, "figures") : NULL;
    cJSON *families = figures ? cJSON_AddArrayToObject(tree, "families") : NULL;

    ok = families != NULL;
    for (size_t f = 0; f < plan->files->count && ok; f++) {
        cJSON *name = cJSON_CreateString(plan->files->items[f]);
        ok = name && cJSON_AddItemToArray(files, name);
    }
    for (size_t i = 0; i < outcome->figure_count && ok; i++)
        ok = add_figure(figures, &outcome->figures[i]);
    for (size_t i = 0; i < MEASURED_FAMILIES && outcome->matched > 0 && ok; i++)
        ok = add_family(families, &outcome->families[i]);
    say_engine(plan, outcome, engine, sizeof engine);
    const struct kvt_badge badge = badge_of(outcome, engine);
    return ok && kvt_json_add_number(tree, "matched_requests", (double)outcome->matched) &&
           kvt_json_add_number(tree, "in_range_share", outcome->in_range_share) &&
           kvt_json_add_bool(tree, "good", measured_is_good(outcome)) &&
           kvt_badge_add(tree, &badge);
}

kvt_status measured_tree(const struct measured_plan *plan, const struct measured_outcome *outcome,
                         cJSON **out, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();

    if (tree && fill(tree, plan, outcome)) {
        *out = tree;
        return KVT_OK;
    }
    cJSON_Delete(tree);
    return kvt_fail_nomem(err, "the result of a validation");
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_figure(const struct measured_figure *figure)
{
    const char *verdict = !figure->is_judged ? "" : figure->is_good ? "good" : "NO";
    char error[24] = "-";

    if (!isnan(figure->error))
        (void)snprintf(error, sizeof error, "%+.1f %s", 100 * figure->error, unit_of(figure));
    printf("%-22s %14.6g %14.6g %10s  %s\n", engine_figure_name(figure->figure), figure->measured,
           figure->ours, error, verdict);
}

void measured_print(const struct measured_plan *plan, const struct measured_outcome *outcome)
{
    char engine[160];

    printf("%s beside %s", outcome->scenario, other_of(outcome));
    if (plan->window)
        printf(", requests that ended there in %s s", plan->window);
    printf("\n\n%-22s %14s %14s %10s\n", "", "measured", "ours", "error");
    for (size_t i = 0; i < outcome->figure_count; i++)
        print_figure(&outcome->figures[i]);
    if (outcome->matched > 0)
        printf("\n%zu requests, one by one%24s %9s %9s\n", outcome->matched, "median", "mean",
               "bias");
    for (size_t i = 0; i < MEASURED_FAMILIES && outcome->matched > 0; i++) {
        const struct measured_family *family = &outcome->families[i];
        printf("%-37s %8.1f %% %7.1f %% %+7.1f %%\n", family->name, 100 * family->median_abs,
               100 * family->mape, 100 * family->bias);
    }
    putchar('\n');
    say_engine(plan, outcome, engine, sizeof engine);
    const struct kvt_badge badge = badge_of(outcome, engine);
    cli_print_badge(&badge);
}
