/* report_plan.c -- the page of a plan: the answer with its bounds and what stops it, each choice's
 * bounds over the values that were looked at, and what more of something is worth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "plan_page.h"

enum {
    ROWS_MAX = 500
};

/* "49.3 (48.9 to 49.6)"; the interval where there is one. */
static const char *estimate_text(double value, const cJSON *interval, char out[128])
{
    char text[REPORT_NUMBER_BYTES], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];

    if (isfinite(plan_item(interval, 0)) && isfinite(plan_item(interval, 1)))
        snprintf(out, 128, "%s (%s to %s)", report_value_text(value, text),
                 report_value_text(plan_item(interval, 0), low),
                 report_value_text(plan_item(interval, 1), high));
    else
        snprintf(out, 128, "%s", report_value_text(value, text));
    return out;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void say_question(const struct plan_page *source)
{
    const cJSON *slo = kvt_json_find(source->question, "slo"), *item = NULL;
    bool maximizes = strcmp(report_text(source->question, "goal"), "maximize") == 0;
    char low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES], text[1024] = "";
    size_t used = 0;

    cJSON_ArrayForEach(item, slo)
    {
        if (cJSON_IsString(item) && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used == 0 ? " with " : " and ", item->valuestring);
    }
    const char *survived = report_text(source->question, "survive");
    if (survived[0] != '\0' && used < sizeof text)
        snprintf(text + used, sizeof text - used, ", while %.200s fails", survived);
    if (source->input[0] != '\0')
        report_say(source->page, "Asked for: the %s %s of %s to %s%s.",
                   maximizes ? "largest" : "smallest", source->input,
                   report_value_text(report_number(source->question, "low"), low),
                   report_value_text(report_number(source->question, "high"), high), text);
    else
        report_say(source->page, "Asked for: the %s %s%s.", maximizes ? "largest" : "smallest",
                   source->metric, text);
}

/* What the bounds are at the answer: "mean_tpot_ms 49.3 (48.9 to 49.6), ..". */
static void bounds_text(const cJSON *bounds, char *out, size_t bytes)
{
    const cJSON *bound = NULL;
    char name[PLAN_NAME_BYTES], value[128];
    size_t used = 0;

    out[0] = '\0';
    cJSON_ArrayForEach(bound, bounds)
    {
        if (used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                                     plan_bound_name(bound, name),
                                     estimate_text(report_number(bound, "value"),
                                                   kvt_json_find(bound, "interval"), value));
    }
}

static void say_answer(const struct plan_page *source, const cJSON *answer)
{
    const cJSON *interval = kvt_json_find(source->tree, "interval");
    const cJSON *pair = kvt_json_find(interval, "value");
    const cJSON *metrics = kvt_json_find(answer, "metrics");
    char text[1024], value[128], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];
    char sure[160] = "", output[REPORT_NUMBER_BYTES];

    bounds_text(kvt_json_find(interval, "bounds"), text, sizeof text);
    if (source->input[0] != '\0') {
        report_value_text(plan_item(pair, 0), low);
        report_value_text(plan_item(pair, 1), high);
        if (isfinite(plan_item(pair, 0)) && isfinite(plan_item(pair, 1)))
            snprintf(sure, sizeof sure, ", surely between %s and %s", low, high);
        else if (isfinite(plan_item(pair, 0)))
            snprintf(sure, sizeof sure, ", surely %s at least", low);
        else if (isfinite(plan_item(pair, 1)))
            snprintf(sure, sizeof sure, ", surely %s at most", high);
        report_say(source->page, "%s: %s %s%s. There %s; %s tokens/s a GPU.",
                   report_text(answer, "choice"), source->input,
                   report_value_text(report_number(answer, "value"), value), sure, text,
                   report_value_text(report_number(metrics, "output_throughput_per_gpu"), output));
    } else {
        report_say(
            source->page, "%s: %s %s. There %s.", report_text(answer, "choice"), source->metric,
            estimate_text(report_number(metrics, source->metric),
                          kvt_json_find(kvt_json_find(answer, "metrics_ci95"), source->metric),
                          value),
            text);
    }
    if (strcmp(report_text(answer, "by"), "analytic") == 0)
        report_say(source->page, "By mean values; nothing was simulated.");
    if (cJSON_IsTrue(kvt_json_find(answer, "bound")))
        report_say(source->page, "A policy of it saw the future: a bound, which cannot be had.");
}

static void say_binding(const struct plan_page *source)
{
    const cJSON *binding = kvt_json_find(source->tree, "binding");
    const cJSON *next = kvt_json_find(binding, "next");
    const char *kind = report_text(binding, "kind"), *because = report_text(binding, "because");
    double value = report_number(binding, "value"), at = report_number(binding, "at");
    char text[512] = "", number[REPORT_NUMBER_BYTES];
    size_t used = 0;

    if (kind[0] == '\0')
        return;
    if (isfinite(value))
        used = (size_t)snprintf(text, sizeof text, ": %s", report_value_text(value, number));
    else if (report_text(binding, "says")[0] != '\0')
        used = (size_t)snprintf(text, sizeof text, ": %.200s", report_text(binding, "says"));
    if (isfinite(at) && source->input[0] != '\0')
        used += (size_t)snprintf(text + used, sizeof text - used, " at %s",
                                 report_value_text(at, number));
    if (because[0] != '\0')
        snprintf(text + used, sizeof text - used, " (%.300s)", because);
    report_say(source->page, "Binding: %s%s%s%s.",
               strcmp(kind, "untested") == 0 ? "nothing that was tested; " : "",
               report_text(binding, "constraint"),
               strcmp(kind, "range") == 0 ? ", the end of the range" : "", text);
    if (report_text(next, "constraint")[0] != '\0')
        report_say(source->page, "Next to bind: %s, with %.0f %% left.",
                   report_text(next, "constraint"), 100 * report_number(next, "slack_share"));
}

static void say_nearest(const struct plan_page *source)
{
    const cJSON *item = NULL;
    char value[REPORT_NUMBER_BYTES], at[REPORT_NUMBER_BYTES], where[64];

    report_say(source->page, strcmp(report_text(source->tree, "ending"), "interrupted") == 0
                                 ? "No answer: interrupted before one was found."
                                 : "No answer: no value of any choice holds all bounds.");
    cJSON_ArrayForEach(item, kvt_json_find(source->tree, "nearest"))
    {
        where[0] = '\0';
        if (isfinite(report_number(item, "at")))
            snprintf(where, sizeof where, " at %s",
                     report_value_text(report_number(item, "at"), at));
        const char *says = report_text(item, "says");
        double found = report_number(item, "value");
        bool is_first = strcmp(report_text(item, "by"), "first_seed") == 0;
        if (report_text(item, "choice")[0] != '\0')
            report_say(source->page, "Nearest to %s: %s with %s%s (%s)%s%s.",
                       report_text(item, "bound"),
                       isfinite(found) ? report_value_text(found, value) : "no value",
                       report_text(item, "choice"), where,
                       is_first ? "first seed" : report_text(item, "by"),
                       says[0] != '\0' ? "; " : "", says);
        else
            report_say(source->page, "%s has no value%s%s.", report_text(item, "bound"),
                       says[0] != '\0' ? ": " : "", says);
    }
}

static void put_figures(const struct plan_page *source, const cJSON *answer)
{
    const cJSON *interval = kvt_json_find(source->tree, "interval"), *bound = NULL;
    const cJSON *pair = kvt_json_find(interval, "value");
    const cJSON *metrics = kvt_json_find(answer, "metrics");
    char note[160], name[96], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];

    snprintf(note, sizeof note, "surely %s to %s", report_value_text(plan_item(pair, 0), low),
             report_value_text(plan_item(pair, 1), high));
    const char *last = strrchr(source->input, '.');
    if (source->input[0] != '\0')
        report_figure(source->page, last != NULL ? last + 1 : source->input,
                      report_number(answer, "value"), NULL,
                      isfinite(plan_item(pair, 0)) && isfinite(plan_item(pair, 1)) ? note : NULL);
    else
        report_figure(source->page, source->metric, report_number(metrics, source->metric),
                      plan_unit(source->metric), NULL);
    cJSON_ArrayForEach(bound, kvt_json_find(interval, "bounds"))
    {
        plan_bound_name(bound, name);
        snprintf(note, sizeof note, "asked for %s%s", report_text(bound, "bound") + strlen(name),
                 cJSON_IsTrue(kvt_json_find(bound, "holds")) ? "" : ", broken");
        report_figure(source->page, name, report_number(bound, "value"), plan_unit(name), note);
    }
    if (strcmp(source->metric, "output_throughput_per_gpu") == 0)
        return; /* it is there already */
    report_figure(source->page, "Output per GPU",
                  report_number(metrics, "output_throughput_per_gpu"), "tokens/s", NULL);
}

/* ---- What it rests on ------------------------------------------------------------------------ */

static void put_method(const struct plan_page *source)
{
    const cJSON *method = kvt_json_find(cJSON_GetArrayItem(source->choices, 0), "method");
    const char *because = report_text(method, "because");
    double solved = report_number(method, "values_analytic");
    double run = report_number(method, "values_run");
    char text[512];

    if (method == NULL)
        return;
    if (isfinite(solved))
        snprintf(text, sizeof text, "mean values at %.0f values%s; simulated: %.0f", solved,
                 strcmp(report_text(method, "first"), "scan") == 0
                     ? ", a scan, for they are not monotone"
                     : "",
                 run);
    else
        snprintf(text, sizeof text, "no mean values (%.300s); values simulated: %.0f", because,
                 run);
    report_assume(source->page, "How the first choice was solved", text, NULL);
}

static bool has_runs(const struct plan_page *source)
{
    const cJSON *choice = NULL;

    cJSON_ArrayForEach(choice, source->choices)
    {
        if (strcmp(report_text(choice, "by"), "simulated") == 0)
            return true;
    }
    return false;
}

static void put_assumptions(const struct plan_page *source)
{
    const cJSON *seeds = kvt_json_find(source->tree, "seeds"), *item = NULL;
    const cJSON *calibrated = kvt_json_find(source->tree, "calibrated");
    const char *basis = report_text(source->tree, "basis");
    char text[160];

    if (has_runs(source))
        snprintf(text, sizeof text, "%d, from %.0f on, the same for every value%s",
                 cJSON_GetArraySize(seeds), plan_item(seeds, 0),
                 cJSON_GetArraySize(seeds) > 1 ? "; intervals are of 95 %, over seeds" : "");
    else
        snprintf(text, sizeof text, "none: nothing was simulated, mean values have no chance");
    report_assume(source->page, "Seeds", text, NULL);
    put_method(source);
    if (basis[0] != '\0')
        report_assume(source->page, "Output", "step times and what follows", basis);
    snprintf(text, sizeof text, "%d", cJSON_GetArraySize(calibrated));
    if (cJSON_GetArraySize(calibrated) > 0)
        report_assume(source->page, "Constants fitted to something (calibrated)", text,
                      "fitted-to-paper");
    cJSON_ArrayForEach(item, calibrated)
    {
        report_assume_more(source->page, cJSON_IsString(item) ? item->valuestring : "");
    }
    cJSON_ArrayForEach(item, kvt_json_find(source->question, "set"))
    {
        if (cJSON_IsString(item))
            report_assume(source->page, "Set", item->valuestring, NULL);
    }
    report_add_badge(source->page, source->tree);
}

/* ---- The choices as a table ------------------------------------------------------------------ */

/* Where the figures of one that does not hold all bounds are from; "": there is nothing to say. */
static const char *note_of(const struct plan_page *source, const cJSON *choice, char out[96])
{
    double at = report_number(choice, "told_at");
    const char *status = report_text(choice, "status");
    char number[REPORT_NUMBER_BYTES];

    out[0] = '\0';
    if (strcmp(status, "met") != 0 && isfinite(at) && source->input[0] != '\0')
        snprintf(out, 96, "nearest at %s", report_value_text(at, number));
    else if (cJSON_IsTrue(kvt_json_find(choice, "bound")))
        snprintf(out, 96, "a bound: a policy saw the future");
    return out;
}

static bool has_notes(const struct plan_page *source)
{
    const cJSON *choice = NULL;
    char note[96];

    cJSON_ArrayForEach(choice, source->choices)
    {
        if (note_of(source, choice, note)[0] != '\0')
            return true;
    }
    return false;
}

static void put_columns(const struct plan_page *source, size_t bound_count)
{
    struct report_column columns[PLAN_BOUNDS_SHOWN + 6] = {
        {"choice", "choice", true},
        {"status", "status", true},
        {"answer", source->input[0] != '\0' ? source->input : source->metric, false},
        {"answer_analytic", "by mean values", false},
        {"output_tokens_per_s_per_gpu", "output, tokens/s a GPU", false}};
    size_t used = 5;
    const cJSON *bound = source->bounds != NULL ? source->bounds->child : NULL;

    for (size_t b = 0; b < bound_count && bound != NULL; b++, bound = bound->next)
        columns[used++] =
            (struct report_column){report_text(bound, "bound"), report_text(bound, "bound"), false};
    if (has_notes(source))
        columns[used++] = (struct report_column){"note", "note", true};
    report_table(source->page, "choices", REPORT_MAIN, NULL, columns, used);
}

static void put_row(const struct plan_page *source, const cJSON *choice, size_t bound_count,
                    bool is_noted)
{
    const char *status = report_text(choice, "status"), *by = report_text(choice, "by");
    const cJSON *metrics = kvt_json_find(choice, "metrics");
    const cJSON *solved = kvt_json_find(choice, "metrics_analytic");
    const cJSON *bounds = kvt_json_find(choice, "bounds");
    bool has_input = source->input[0] != '\0';
    char text[64], note[96];

    snprintf(text, sizeof text, "%.20s%s%.20s", status, by[0] != '\0' ? ", " : "", by);
    report_row(source->page);
    report_cell_text(source->page, report_text(choice, "choice"), NULL);
    report_cell_text(source->page, text, strcmp(status, "met") == 0 ? "good" : "bad");
    report_cell(source->page, has_input ? report_number(choice, "value")
                                        : report_number(metrics, source->metric));
    report_cell(source->page, has_input ? report_number(choice, "value_analytic")
                                        : report_number(solved, source->metric));
    report_cell(source->page, report_number(metrics, "output_throughput_per_gpu"));
    for (size_t b = 0; b < bound_count; b++)
        report_cell(source->page, report_number(cJSON_GetArrayItem(bounds, (int)b), "value"));
    if (is_noted)
        report_cell_text(source->page, note_of(source, choice, note), NULL);
}

static void put_table(const struct plan_page *source)
{
    size_t bound_count = (size_t)cJSON_GetArraySize(source->bounds), rows = 0;
    bool is_noted = has_notes(source);
    const cJSON *choice = NULL;

    bound_count = bound_count < PLAN_BOUNDS_SHOWN ? bound_count : PLAN_BOUNDS_SHOWN;
    report_section(source->page, "Choices, the best first", NULL);
    put_columns(source, bound_count);
    cJSON_ArrayForEach(choice, source->choices)
    {
        if (rows++ < ROWS_MAX)
            put_row(source, choice, bound_count, is_noted);
    }
    if (rows > ROWS_MAX)
        report_paragraph(source->page, "The first %d of %zu; plan.json has all.", ROWS_MAX, rows);
}

static void put_refused(const struct plan_page *source)
{
    static const struct report_column columns[] = {{"choice", "choice", true},
                                                   {"reason", "why it is refused", true}};
    const cJSON *choice = NULL;
    size_t rows = 0;

    cJSON_ArrayForEach(choice, source->choices)
    {
        if (strcmp(report_text(choice, "status"), "refused") != 0 || rows == ROWS_MAX)
            continue;
        if (rows++ == 0)
            report_table(source->page, "refused", REPORT_OPEN, "Refused", columns, 2);
        report_row(source->page);
        report_cell_text(source->page, report_text(choice, "choice"), NULL);
        report_cell_text(source->page, report_text(choice, "reason"), NULL);
    }
}

/* ---- What more is worth ---------------------------------------------------------------------- */

static void put_worth(const struct plan_page *source)
{
    static const struct report_column columns[] = {{"change", "change", true},
                                                   {"answer", "the answer then", false},
                                                   {"difference", "difference", false},
                                                   {"by", "by", true},
                                                   {"note", "note", true}};
    const cJSON *answer = kvt_json_find(source->tree, "answer"), *item = NULL;
    const cJSON *list = kvt_json_find(source->tree, "worth");
    double now = source->input[0] != '\0'
                     ? report_number(answer, "value")
                     : report_number(kvt_json_find(answer, "metrics"), source->metric);

    if (cJSON_GetArraySize(list) == 0 || !isfinite(now))
        return;
    report_section(source->page, "What more of something is worth", NULL);
    plan_put_worth_chart(source, now);
    report_table(source->page, "worth-table", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(item, list)
    {
        const char *refused = report_text(item, "refused");
        bool has_answer = isfinite(report_number(item, "answer"));
        report_row(source->page);
        report_cell_text(source->page, report_text(item, "change"), NULL);
        report_cell(source->page, report_number(item, "answer"));
        report_cell(source->page, report_number(item, "difference"));
        report_cell_text(source->page, report_text(item, "by"), NULL);
        report_cell_text(source->page,
                         refused[0] != '\0' ? refused
                         : cJSON_IsTrue(kvt_json_find(item, "range_end"))
                             ? "or more: the range ends"
                         : has_answer ? ""
                                      : "no answer",
                         NULL);
    }
}

/* ---- The page -------------------------------------------------------------------------------- */

static const cJSON *first_bounds(const cJSON *choices)
{
    const cJSON *choice = NULL;

    cJSON_ArrayForEach(choice, choices)
    {
        if (kvt_json_find(choice, "bounds") != NULL)
            return kvt_json_find(choice, "bounds");
    }
    return NULL;
}

kvt_status report_build_plan(struct report_page *page, const char *dir, const cJSON *tree,
                             struct kvt_error *err)
{
    struct plan_page source = {.page = page,
                               .tree = tree,
                               .question = kvt_json_find(tree, "question"),
                               .choices = kvt_json_find(tree, "choices")};
    const cJSON *answer = kvt_json_find(tree, "answer");

    (void)dir;
    (void)err;
    source.input = report_text(source.question, "input");
    source.metric = report_text(source.question, "metric");
    source.bounds = first_bounds(source.choices);
    if (cJSON_IsObject(answer)) {
        say_answer(&source, answer);
        say_binding(&source);
        put_figures(&source, answer);
    } else {
        say_nearest(&source);
    }
    say_question(&source);
    if (report_text(tree, "note")[0] != '\0')
        report_say(page, "Note: %s.", report_text(tree, "note"));
    if (report_text(source.question, "unit")[0] != '\0')
        report_say(page, "Values of %s are multiples of the model's top-k.", source.input);
    if (strcmp(report_text(tree, "ending"), "interrupted") == 0)
        report_say(page, "The plan was interrupted: this is what was known by then.");
    put_assumptions(&source);
    if (source.input[0] != '\0')
        plan_put_values(&source);
    else
        plan_put_dots(&source);
    put_table(&source);
    put_refused(&source);
    put_worth(&source);
    report_add_scenario(page, "The engine that is to run it", kvt_json_find(tree, "engine"));
    report_add_scenario(page,
                        cJSON_IsObject(answer) ? "The scenario in force at the answer"
                                               : "The scenario in force where it comes nearest",
                        kvt_json_find(tree, "scenario_in_force"));
    return KVT_OK;
}
