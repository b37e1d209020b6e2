/* report_plan.c -- the page of a plan: the answer with its bounds and what stops it, each choice's
 * bounds over the values that were looked at, and what more of something is worth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/report.h"
#include "page_tree.h"
#include "report.h"

enum {
    LINES_MAX = 8,   /* choices of a chart over values */
    DOTS_MAX = 40,   /* of one without values */
    CHARTS_MAX = 8,  /* bounds that are drawn */
    CURVE_MAX = 256, /* points of a curve */
    ROWS_MAX = 500,
    FAR_APART = 40 /* from this ratio on equal factors are equally far apart */
};

struct source {
    struct report_page *page;
    const cJSON *tree, *question, *choices;
    const char *input;   /* what is sought; "": a metric is, of the choices alone */
    const char *metric;  /* that metric, else "" */
    const cJSON *bounds; /* of the first choice that has some: their names and limits */
};

static const char *figure(double value, char out[REPORT_NUMBER_BYTES])
{
    cJSON *cell = cJSON_CreateNumber(value);
    report_number_text(isfinite(value) ? cell : NULL, out);
    cJSON_Delete(cell);
    return out;
}

static double item_of(const cJSON *list, int index)
{
    return report_number(cJSON_GetArrayItem(list, index), "");
}

/* "49.3 (48.9 to 49.6)"; the interval where there is one. */
static const char *estimate_text(double value, const cJSON *interval, char out[128])
{
    char text[REPORT_NUMBER_BYTES], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];

    if (isfinite(item_of(interval, 0)) && isfinite(item_of(interval, 1)))
        snprintf(out, 128, "%s (%s to %s)", figure(value, text), figure(item_of(interval, 0), low),
                 figure(item_of(interval, 1), high));
    else
        snprintf(out, 128, "%s", figure(value, text));
    return out;
}

/* "mean_tpot_ms" of "mean_tpot_ms<=50". */
static const char *bound_name(const cJSON *bound, char out[96])
{
    const char *text = report_text(bound, "bound");
    snprintf(out, 96, "%.*s", (int)strcspn(text, "<>"), text);
    return out;
}

static const char *unit_of(const char *metric)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t m = 0; m < count; m++) {
        if (strcmp(docs[m].name, metric) == 0)
            return strcmp(docs[m].unit, "1") != 0 ? docs[m].unit : NULL;
    }
    return NULL;
}

/* ---- The answer
 * ------------------------------------------------------------------------------------ */

static void say_question(const struct source *source)
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
                   figure(report_number(source->question, "low"), low),
                   figure(report_number(source->question, "high"), high), text);
    else
        report_say(source->page, "Asked for: the %s %s%s.", maximizes ? "largest" : "smallest",
                   source->metric, text);
}

/* What the bounds are at the answer: "mean_tpot_ms 49.3 (48.9 to 49.6), ..". */
static void bounds_text(const cJSON *bounds, char *out, size_t bytes)
{
    const cJSON *bound = NULL;
    char name[96], value[128];
    size_t used = 0;

    out[0] = '\0';
    cJSON_ArrayForEach(bound, bounds)
    {
        if (used < bytes)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s %s", used > 0 ? ", " : "",
                                     bound_name(bound, name),
                                     estimate_text(report_number(bound, "value"),
                                                   kvt_json_find(bound, "interval"), value));
    }
}

static void say_answer(const struct source *source, const cJSON *answer)
{
    const cJSON *interval = kvt_json_find(source->tree, "interval");
    const cJSON *pair = kvt_json_find(interval, "value");
    const cJSON *metrics = kvt_json_find(answer, "metrics");
    char text[1024], value[128], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];
    char sure[160] = "", output[REPORT_NUMBER_BYTES];

    bounds_text(kvt_json_find(interval, "bounds"), text, sizeof text);
    if (source->input[0] != '\0') {
        if (isfinite(item_of(pair, 0)) || isfinite(item_of(pair, 1)))
            snprintf(sure, sizeof sure, ", surely between %s and %s", figure(item_of(pair, 0), low),
                     figure(item_of(pair, 1), high));
        report_say(source->page, "%s: %s %s%s. There %s; %s tokens/s a GPU.",
                   report_text(answer, "choice"), source->input,
                   figure(report_number(answer, "value"), value), sure, text,
                   figure(report_number(metrics, "output_throughput_per_gpu"), output));
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

static void say_binding(const struct source *source)
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
        used = (size_t)snprintf(text, sizeof text, ": %s", figure(value, number));
    if (isfinite(at) && source->input[0] != '\0')
        used += (size_t)snprintf(text + used, sizeof text - used, " at %s", figure(at, number));
    if (because[0] != '\0')
        snprintf(text + used, sizeof text - used, " (%.300s)", because);
    report_say(source->page, "It ends with %s%s%s.", report_text(binding, "constraint"),
               strcmp(kind, "range") == 0 ? ", the end of the range" : "", text);
    if (report_text(next, "constraint")[0] != '\0')
        report_say(source->page, "Next to bind: %s, with %.0f %% left.",
                   report_text(next, "constraint"), 100 * report_number(next, "slack_share"));
}

static void say_nearest(const struct source *source)
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
            snprintf(where, sizeof where, " at %s", figure(report_number(item, "at"), at));
        if (report_text(item, "choice")[0] != '\0')
            report_say(source->page, "Nearest to %s: %s with %s%s (%s).",
                       report_text(item, "bound"), figure(report_number(item, "value"), value),
                       report_text(item, "choice"), where, report_text(item, "by"));
    }
}

static void put_figures(const struct source *source, const cJSON *answer)
{
    const cJSON *interval = kvt_json_find(source->tree, "interval"), *bound = NULL;
    const cJSON *pair = kvt_json_find(interval, "value");
    const cJSON *metrics = kvt_json_find(answer, "metrics");
    char note[160], name[96], low[REPORT_NUMBER_BYTES], high[REPORT_NUMBER_BYTES];

    snprintf(note, sizeof note, "surely %s to %s", figure(item_of(pair, 0), low),
             figure(item_of(pair, 1), high));
    const char *last = strrchr(source->input, '.');
    if (source->input[0] != '\0')
        report_figure(source->page, last != NULL ? last + 1 : source->input,
                      report_number(answer, "value"), NULL,
                      isfinite(item_of(pair, 0)) && isfinite(item_of(pair, 1)) ? note : NULL);
    else
        report_figure(source->page, source->metric, report_number(metrics, source->metric),
                      unit_of(source->metric), NULL);
    cJSON_ArrayForEach(bound, kvt_json_find(interval, "bounds"))
    {
        bound_name(bound, name);
        snprintf(note, sizeof note, "asked for %s%s", report_text(bound, "bound") + strlen(name),
                 cJSON_IsTrue(kvt_json_find(bound, "holds")) ? "" : ", broken");
        report_figure(source->page, name, report_number(bound, "value"), unit_of(name), note);
    }
    report_figure(source->page, "Output per GPU",
                  report_number(metrics, "output_throughput_per_gpu"), "tokens/s", NULL);
}

/* ---- What it rests on
 * ------------------------------------------------------------------------------ */

static void put_method(const struct source *source)
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

static bool has_runs(const struct source *source)
{
    const cJSON *choice = NULL;

    cJSON_ArrayForEach(choice, source->choices)
    {
        if (strcmp(report_text(choice, "by"), "simulated") == 0)
            return true;
    }
    return false;
}

static void put_assumptions(const struct source *source)
{
    const cJSON *seeds = kvt_json_find(source->tree, "seeds"), *item = NULL;
    const cJSON *calibrated = kvt_json_find(source->tree, "calibrated");
    const char *basis = report_text(source->tree, "basis");
    char text[160];

    if (has_runs(source))
        snprintf(text, sizeof text, "%d, from %.0f on, the same for every value%s",
                 cJSON_GetArraySize(seeds), item_of(seeds, 0),
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

/* ---- Bounds over values
 * ---------------------------------------------------------------------------- */

/* All that one chart is drawn from. */
struct over {
    int bound; /* its place in bounds[] */
    double least, most;
    bool has_intervals;
};

static double looked(const cJSON *entry, const struct over *over)
{
    return item_of(kvt_json_find(entry, "bounds"), over->bound);
}

static double looked_end(const cJSON *entry, const struct over *over, int end)
{
    const cJSON *list = kvt_json_find(entry, "intervals");
    return item_of(cJSON_GetArrayItem(list, over->bound), end);
}

static void widen(struct over *over, double value)
{
    if (isfinite(value)) {
        over->least = fmin(over->least, value);
        over->most = fmax(over->most, value);
    }
}

static void measure(const struct source *source, struct over *over, double limit)
{
    const cJSON *choice = NULL, *entry = NULL;

    over->least = INFINITY;
    over->most = -INFINITY;
    widen(over, limit);
    cJSON_ArrayForEach(choice, source->choices)
    {
        cJSON_ArrayForEach(entry, kvt_json_find(choice, "looked_at"))
        {
            widen(over, looked(entry, over));
            widen(over, looked_end(entry, over, 0));
            widen(over, looked_end(entry, over, 1));
            over->has_intervals = over->has_intervals || isfinite(looked_end(entry, over, 0));
        }
    }
}

static bool is_simulated(const cJSON *entry)
{
    return strcmp(report_text(entry, "by"), "simulated") == 0;
}

/* Curves of all choices first, then marks, which stand on them. */
static void put_choice(const struct source *source, const cJSON *choice, const struct over *over,
                       bool is_run)
{
    const cJSON *list = kvt_json_find(choice, "looked_at"), *entry = NULL;
    size_t count = 0, nth = 0;

    cJSON_ArrayForEach(entry, list)
    {
        count += !is_simulated(entry);
    }
    size_t every = is_run ? 1 : (count + CURVE_MAX - 1) / CURVE_MAX;
    cJSON_ArrayForEach(entry, list)
    {
        if (is_simulated(entry) != is_run || nth++ % every != 0)
            continue;
        report_point(source->page,
                     (struct report_point){.series = report_text(choice, "choice"),
                                           .label = report_text(entry, "by"),
                                           .x = report_number(entry, "value"),
                                           .y = looked(entry, over),
                                           .low = looked_end(entry, over, 0),
                                           .high = looked_end(entry, over, 1),
                                           .kind = is_run ? REPORT_MARK : REPORT_CURVE});
    }
}

static void put_over(const struct source *source, const cJSON *bound, int place)
{
    struct over over = {.bound = place};
    double limit = report_number(bound, "limit"),
           answer = report_number(source->tree, "answer.value");
    double low = report_number(source->question, "low"),
           high = report_number(source->question, "high");
    char name[96], id[32], title[192], axis[160], limit_text[128], answer_text[64];
    char number[REPORT_NUMBER_BYTES];
    const cJSON *choice = NULL;
    size_t drawn = 0;

    bound_name(bound, name);
    measure(source, &over, limit);
    snprintf(id, sizeof id, "bound-%d", place + 1);
    snprintf(title, sizeof title, "%s over %.60s", name, source->input);
    snprintf(axis, sizeof axis, "%s%s%.40s", name, unit_of(name) != NULL ? ", " : "",
             unit_of(name) != NULL ? unit_of(name) : "");
    snprintf(limit_text, sizeof limit_text, "%.120s", report_text(bound, "bound") + strlen(name));
    snprintf(answer_text, sizeof answer_text, "answer %s", figure(answer, number));
    struct report_chart chart = {
        .id = id,
        .title = title,
        .form = REPORT_LINES,
        .x = {.name = "value", .title = source->input, .is_log = low > 0 && high >= 8 * low},
        .y = {.name = "bound_value",
              .title = axis,
              .is_log = over.least > 0 && over.most > FAR_APART * over.least,
              .is_from_zero = over.least >= 0},
        .series = "choice",
        .label = "by",
        .has_kinds = true,
        .has_intervals = over.has_intervals,
        .rules = {{.at = limit, .text = limit_text, .is_level = true},
                  {.at = answer, .text = answer_text}},
        .rule_count = isfinite(answer) ? 2 : 1};
    report_chart(source->page, &chart);
    for (int is_run = 0; is_run < 2; is_run++) {
        drawn = 0;
        cJSON_ArrayForEach(choice, source->choices)
        {
            if (kvt_json_find(choice, "looked_at") != NULL && drawn++ < LINES_MAX)
                put_choice(source, choice, &over, is_run == 1);
        }
    }
}

static size_t count_drawable(const struct source *source)
{
    const cJSON *choice = NULL;
    size_t count = 0;

    cJSON_ArrayForEach(choice, source->choices)
    {
        count += cJSON_GetArraySize(kvt_json_find(choice, "looked_at")) > 0;
    }
    return count;
}

static bool has_looked(const struct source *source, const char *by)
{
    const cJSON *choice = NULL, *entry = NULL;

    cJSON_ArrayForEach(choice, source->choices)
    {
        cJSON_ArrayForEach(entry, kvt_json_find(choice, "looked_at"))
        {
            if (strcmp(report_text(entry, "by"), by) == 0)
                return true;
        }
    }
    return false;
}

static const char *note_of_values(const struct source *source)
{
    bool is_run = has_looked(source, "simulated");
    bool is_solved = has_looked(source, "analytic"), is_scouted = has_looked(source, "first_seed");

    return !is_run                   ? "By mean values."
           : is_solved && is_scouted ? "Lines are mean values, or straight ones between values on "
                                       "one seed; marks are simulated."
           : is_scouted ? "Lines are straight ones between values on one seed; marks are simulated."
                        : "Lines are mean values; marks are simulated.";
}

static void put_values(const struct source *source)
{
    size_t count = count_drawable(source);
    const cJSON *bound = NULL;
    int place = 0;

    report_section(source->page, "What was looked at", note_of_values(source));
    if (count > LINES_MAX)
        report_paragraph(source->page, "The best %d of %zu choices; plan.json has all.", LINES_MAX,
                         count);
    cJSON_ArrayForEach(bound, source->bounds)
    {
        if (place < CHARTS_MAX)
            put_over(source, bound, place);
        place++;
    }
    if (place > CHARTS_MAX)
        report_paragraph(source->page, "The first %d of %d bounds are drawn.", CHARTS_MAX, place);
}

/* ---- Without values: the choices beside each other
 * ------------------------------------------------- */

static void put_dot(const struct source *source, const cJSON *choice, double value,
                    const cJSON *interval)
{
    report_point(source->page, (struct report_point){.series = report_text(choice, "by"),
                                                     .category = report_text(choice, "choice"),
                                                     .x = value,
                                                     .low = item_of(interval, 0),
                                                     .high = item_of(interval, 1)});
}

/* bound: its place; -1: the metric that is wanted. */
static void put_dots(const struct source *source, const char *id, const char *name, int bound,
                     double limit, const char *limit_text)
{
    char axis[160];
    const cJSON *choice = NULL;
    size_t drawn = 0;
    const char *unit = unit_of(name);

    snprintf(axis, sizeof axis, "%.96s%s%.40s", name, unit != NULL ? ", " : "",
             unit != NULL ? unit : "");
    const struct report_chart chart = {.id = id,
                                       .title = name,
                                       .form = REPORT_DOTS,
                                       .x = {.name = "metric_value", .title = axis},
                                       .y = {.name = "choice", .title = "choice"},
                                       .series = "by",
                                       .rules = {{.at = limit, .text = limit_text}},
                                       .rule_count = bound >= 0};
    report_chart(source->page, &chart);
    cJSON_ArrayForEach(choice, source->choices)
    {
        const cJSON *own = cJSON_GetArrayItem(kvt_json_find(choice, "bounds"), bound);
        if (kvt_json_find(choice, "metrics") == NULL || drawn++ >= DOTS_MAX)
            continue;
        if (bound >= 0)
            put_dot(source, choice, report_number(own, "value"), kvt_json_find(own, "interval"));
        else
            put_dot(source, choice, report_number(kvt_json_find(choice, "metrics"), name),
                    kvt_json_find(kvt_json_find(choice, "metrics_ci95"), name));
    }
}

static void put_beside_each_other(const struct source *source)
{
    const cJSON *bound = NULL;
    char name[96], id[32], limit[128];
    int place = 0;

    report_section(source->page, "The choices beside each other", NULL);
    if (cJSON_GetArraySize(source->choices) > DOTS_MAX)
        report_paragraph(source->page, "The best %d of %d are drawn; plan.json has all.", DOTS_MAX,
                         cJSON_GetArraySize(source->choices));
    put_dots(source, "wanted", source->metric, -1, NAN, NULL);
    cJSON_ArrayForEach(bound, source->bounds)
    {
        bound_name(bound, name);
        snprintf(id, sizeof id, "bound-%d", ++place);
        snprintf(limit, sizeof limit, "%.120s", report_text(bound, "bound") + strlen(name));
        if (place <= CHARTS_MAX)
            put_dots(source, id, name, place - 1, report_number(bound, "limit"), limit);
    }
}

/* ---- The choices as a table
 * ------------------------------------------------------------------------ */

/* Where the figures of one that does not hold all bounds are from; "": there is nothing to say. */
static const char *note_of(const struct source *source, const cJSON *choice, char out[96])
{
    double at = report_number(choice, "told_at");
    const char *status = report_text(choice, "status");
    char number[REPORT_NUMBER_BYTES];

    out[0] = '\0';
    if (strcmp(status, "met") != 0 && isfinite(at) && source->input[0] != '\0')
        snprintf(out, 96, "nearest at %s", figure(at, number));
    else if (cJSON_IsTrue(kvt_json_find(choice, "bound")))
        snprintf(out, 96, "a bound: a policy saw the future");
    return out;
}

static bool has_notes(const struct source *source)
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

static void put_columns(const struct source *source, size_t bound_count)
{
    struct report_column columns[CHARTS_MAX + 6] = {
        {"choice", "choice", true},
        {"status", "status", true},
        {"answer", source->input[0] != '\0' ? source->input : source->metric, false},
        {"answer_analytic", "by mean values", false},
        {"output_tokens_per_s_per_gpu", "output, tokens/s a GPU", false}};
    size_t used = 5;
    const cJSON *bound = source->bounds != NULL ? source->bounds->child : NULL;

    for (size_t b = 0; b < bound_count; b++, bound = bound->next)
        columns[used++] =
            (struct report_column){report_text(bound, "bound"), report_text(bound, "bound"), false};
    if (has_notes(source))
        columns[used++] = (struct report_column){"note", "note", true};
    report_table(source->page, "choices", REPORT_MAIN, NULL, columns, used);
}

static void put_row(const struct source *source, const cJSON *choice, size_t bound_count,
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

static void put_table(const struct source *source)
{
    size_t bound_count = (size_t)cJSON_GetArraySize(source->bounds), rows = 0;
    bool is_noted = has_notes(source);
    const cJSON *choice = NULL;

    bound_count = bound_count < CHARTS_MAX ? bound_count : CHARTS_MAX;
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

static void put_refused(const struct source *source)
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

/* ---- What more is worth
 * ---------------------------------------------------------------------------- */

static const char *sought(const struct source *source)
{
    return source->input[0] != '\0' ? source->input : source->metric;
}

static void put_worth_chart(const struct source *source, double now)
{
    const struct report_chart chart = {
        .id = "worth",
        .title = "The answer with more of something",
        .form = REPORT_BARS,
        .x = {.name = "answer", .title = sought(source), .is_from_zero = true},
        .y = {.name = "change", .title = "change"},
        .series = "series",
        .rules = {{.at = now, .text = "now"}},
        .rule_count = 1};
    const cJSON *item = NULL;

    report_chart(source->page, &chart);
    report_point(source->page,
                 (struct report_point){.series = "answer", .category = "as it is", .x = now});
    cJSON_ArrayForEach(item, kvt_json_find(source->tree, "worth"))
    {
        if (isfinite(report_number(item, "answer")))
            report_point(source->page,
                         (struct report_point){.series = "answer",
                                               .category = report_text(item, "change"),
                                               .x = report_number(item, "answer")});
    }
}

static void put_worth(const struct source *source)
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
    put_worth_chart(source, now);
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

/* ---- The page
 * ---------------------------------------------------------------------------------------- */

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
    struct source source = {.page = page,
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
    if (strcmp(report_text(tree, "ending"), "interrupted") == 0)
        report_say(page, "The plan was interrupted: this is what was known by then.");
    put_assumptions(&source);
    if (source.input[0] != '\0')
        put_values(&source);
    else
        put_beside_each_other(&source);
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
