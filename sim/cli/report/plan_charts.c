/* plan_charts.c -- a plan's charts: bounds over the values that were looked at or choice by choice,
 * and what more of something is worth. */
#include "plan_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/report.h"
#include "page_tree.h"

enum {
    LINES_MAX = 8,   /* choices of a chart over values */
    DOTS_MAX = 40,   /* of one without values */
    CURVE_MAX = 256, /* points of a curve */
    FAR_APART = 40   /* from this ratio on equal factors are equally far apart */
};

double plan_item(const cJSON *list, int index)
{
    return report_number(cJSON_GetArrayItem(list, index), "");
}

const char *plan_bound_name(const cJSON *bound, char out[PLAN_NAME_BYTES])
{
    const char *text = report_text(bound, "bound");
    snprintf(out, PLAN_NAME_BYTES, "%.*s", (int)strcspn(text, "<>"), text);
    return out;
}

const char *plan_unit(const char *metric)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t m = 0; m < count; m++) {
        if (strcmp(docs[m].name, metric) == 0)
            return strcmp(docs[m].unit, "1") != 0 ? docs[m].unit : NULL;
    }
    return NULL;
}

/* ---- Bounds over values ---------------------------------------------------------------------- */

/* All that one chart is drawn from. */
struct over {
    int bound; /* its place in bounds[] */
    double least, most;
    bool has_intervals;
};

static double looked(const cJSON *entry, const struct over *over)
{
    return plan_item(kvt_json_find(entry, "bounds"), over->bound);
}

static double looked_end(const cJSON *entry, const struct over *over, int end)
{
    const cJSON *list = kvt_json_find(entry, "intervals");
    return plan_item(cJSON_GetArrayItem(list, over->bound), end);
}

static void widen(struct over *over, double value)
{
    if (isfinite(value)) {
        over->least = fmin(over->least, value);
        over->most = fmax(over->most, value);
    }
}

static void measure(const struct plan_page *source, struct over *over, double limit)
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
static void put_choice(const struct plan_page *source, const cJSON *choice, const struct over *over,
                       bool is_run)
{
    const cJSON *list = kvt_json_find(choice, "looked_at"), *entry = NULL;
    size_t count = 0, nth = 0;

    cJSON_ArrayForEach(entry, list)
    {
        count += !is_simulated(entry);
    }
    size_t every = is_run || count == 0 ? 1 : (count + CURVE_MAX - 1) / CURVE_MAX;
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

static void put_over(const struct plan_page *source, const cJSON *bound, int place)
{
    struct over over = {.bound = place};
    double limit = report_number(bound, "limit"),
           answer = report_number(source->tree, "answer.value");
    double low = report_number(source->question, "low"),
           high = report_number(source->question, "high");
    char name[PLAN_NAME_BYTES], id[32], title[192], axis[160], limit_text[128], answer_text[64];
    char number[REPORT_NUMBER_BYTES];
    const cJSON *choice = NULL;
    size_t drawn = 0;

    plan_bound_name(bound, name);
    measure(source, &over, limit);
    snprintf(id, sizeof id, "bound-%d", place + 1);
    snprintf(title, sizeof title, "%s over %.60s", name, source->input);
    snprintf(axis, sizeof axis, "%s%s%.40s", name, plan_unit(name) != NULL ? ", " : "",
             plan_unit(name) != NULL ? plan_unit(name) : "");
    snprintf(limit_text, sizeof limit_text, "%.120s", report_text(bound, "bound") + strlen(name));
    snprintf(answer_text, sizeof answer_text, "answer %s", report_value_text(answer, number));
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

static size_t count_drawable(const struct plan_page *source)
{
    const cJSON *choice = NULL;
    size_t count = 0;

    cJSON_ArrayForEach(choice, source->choices)
    {
        count += cJSON_GetArraySize(kvt_json_find(choice, "looked_at")) > 0;
    }
    return count;
}

static bool has_looked(const struct plan_page *source, const char *by)
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

static const char *note_of_values(const struct plan_page *source)
{
    bool is_run = has_looked(source, "simulated");
    bool is_solved = has_looked(source, "analytic"), is_scouted = has_looked(source, "first_seed");

    return !is_run                   ? "By mean values."
           : is_solved && is_scouted ? "Lines are mean values, or straight ones between values on "
                                       "one seed; marks are simulated."
           : is_scouted ? "Lines are straight ones between values on one seed; marks are simulated."
                        : "Lines are mean values; marks are simulated.";
}

void plan_put_values(const struct plan_page *source)
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
        if (place < PLAN_BOUNDS_SHOWN)
            put_over(source, bound, place);
        place++;
    }
    if (place > PLAN_BOUNDS_SHOWN)
        report_paragraph(source->page, "The first %d of %d bounds are drawn.", PLAN_BOUNDS_SHOWN,
                         place);
}

/* ---- Without values: the choices beside each other ------------------------------------------- */

static void put_dot(const struct plan_page *source, const cJSON *choice, double value,
                    const cJSON *interval)
{
    report_point(source->page, (struct report_point){.series = report_text(choice, "by"),
                                                     .category = report_text(choice, "choice"),
                                                     .x = value,
                                                     .low = plan_item(interval, 0),
                                                     .high = plan_item(interval, 1)});
}

/* bound: its place; -1: the metric that is wanted. */
static void put_dots(const struct plan_page *source, const char *id, const char *name, int bound,
                     double limit, const char *limit_text)
{
    char axis[160];
    const cJSON *choice = NULL;
    size_t drawn = 0;
    const char *unit = plan_unit(name);

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

void plan_put_dots(const struct plan_page *source)
{
    const cJSON *bound = NULL;
    char name[PLAN_NAME_BYTES], id[32], limit[128];
    int place = 0;

    report_section(source->page, "The choices beside each other", NULL);
    if (cJSON_GetArraySize(source->choices) > DOTS_MAX)
        report_paragraph(source->page, "The best %d of %d are drawn; plan.json has all.", DOTS_MAX,
                         cJSON_GetArraySize(source->choices));
    put_dots(source, "wanted", source->metric, -1, NAN, NULL);
    cJSON_ArrayForEach(bound, source->bounds)
    {
        plan_bound_name(bound, name);
        snprintf(id, sizeof id, "bound-%d", ++place);
        snprintf(limit, sizeof limit, "%.120s", report_text(bound, "bound") + strlen(name));
        if (place <= PLAN_BOUNDS_SHOWN)
            put_dots(source, id, name, place - 1, report_number(bound, "limit"), limit);
    }
}

/* ---- What more is worth ---------------------------------------------------------------------- */

void plan_put_worth_chart(const struct plan_page *source, double now)
{
    const struct report_chart chart = {
        .id = "worth",
        .title = "The answer with more of something",
        .form = REPORT_BARS,
        .x = {.name = "answer",
              .title = source->input[0] != '\0' ? source->input : source->metric,
              .is_from_zero = true},
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
