/* report_validate.c -- the page of a validation: its verdict, and of a course that was measured the
 * charts of it beside the predicted one. */
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

/* What two courses are compared by: columns of timeline_columns.h. */
static const struct {
    const char *column, *title, *axis;
    double scale;
} quantities[] = {
    {"host_fetch_share", "Selected rows that cross the link", "%", 100},
    {"coverage", "Coverage: ready of eligible optional rows", "%", 100},
    {"running", "Requests that decode", "requests", 1},
    {"mean_step_ms", "Mean duration of a step", "ms", 1},
};
enum {
    QUANTITIES = sizeof quantities / sizeof quantities[0]
};

static double number_of(const cJSON *item, double scale)
{
    return scale * report_number(item, "");
}

static void put_side(struct report_page *page, const cJSON *tree, const char *side, size_t q)
{
    const cJSON *course = kvt_json_find(tree, side);
    const cJSON *x = kvt_json_find(course, "from_s"),
                *y = kvt_json_find(course, quantities[q].column);

    x = x != NULL ? x->child : NULL;
    y = y != NULL ? y->child : NULL;
    for (; x != NULL && y != NULL; x = x->next, y = y->next)
        report_point(page, (struct report_point){.series = side,
                                                 .x = number_of(x, 1),
                                                 .y = number_of(y, quantities[q].scale)});
}

static void put_courses(struct report_page *page, const cJSON *tree)
{
    report_section(page, "Measured and predicted, over time", NULL);
    for (size_t q = 0; q < QUANTITIES; q++) {
        const struct report_chart chart = {
            .id = quantities[q].column,
            .title = quantities[q].title,
            .form = REPORT_LINES,
            .x = {.name = "time_s", .title = "time, s", .is_from_zero = true},
            .y = {.name = quantities[q].column, .title = quantities[q].axis, .is_from_zero = true},
            .series = "side"};
        report_chart(page, &chart);
        put_side(page, tree, "measured", q);
        put_side(page, tree, "predicted", q);
    }
}

static void put_phases(struct report_page *page, const cJSON *tree)
{
    static const struct report_column columns[] = {
        {"from_s", "from, s", false},
        {"to_s", "to, s", false},
        {"what", "mean over time", true},
        {"unit", "unit", true},
        {"measured", "measured", false},
        {"predicted", "predicted", false},
        {"mean_abs_difference", "mean absolute difference", false}};
    static const char *const sides[] = {"measured", "predicted", "mean_abs_difference"};
    const cJSON *phase = NULL;

    report_section(page, "Phases of the load", NULL);
    report_table(page, "phases", REPORT_MAIN, NULL, columns, sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(phase, kvt_json_find(tree, "phases"))
    {
        for (size_t q = 0; q < QUANTITIES; q++) {
            const cJSON *of = kvt_json_find(phase, quantities[q].column);
            report_row(page);
            report_cell(page, report_number(phase, "from_s"));
            report_cell(page, report_number(phase, "to_s"));
            report_cell_text(page, quantities[q].title, NULL);
            report_cell_text(page, quantities[q].axis, NULL);
            for (size_t s = 0; s < sizeof sides / sizeof sides[0]; s++)
                report_cell(page, quantities[q].scale * report_number(of, sides[s]));
        }
    }
}

static kvt_status build_timeline(struct report_page *page, const cJSON *tree)
{
    const cJSON *timing = kvt_json_find(tree, "timing");
    const cJSON *gpus = kvt_json_find(kvt_json_find(tree, "machine"), "gpus");
    const char *gpu = report_text(cJSON_GetArrayItem(gpus, 0), "name");

    report_say(page,
               "The same schedule by two clocks: measured, every decision the simulator's and "
               "steps as long as they took; and simulated, steps as long as the timing model "
               "says. Differences judge nothing.");
    report_assume(page, "Measured", gpu[0] != '\0' ? gpu : "no GPU: the simulator beside itself",
                  gpu[0] != '\0' ? "measured" : NULL);
    report_assume(page, "Predicted: timing model", report_text(timing, "model"),
                  report_text(timing, "basis"));
    report_add_badge(page, tree);
    put_courses(page, tree);
    put_phases(page, tree);
    return KVT_OK;
}

kvt_status report_build_validate(struct report_page *page, const char *dir, const cJSON *tree,
                                 struct kvt_error *err)
{
    bool good = cJSON_IsTrue(kvt_json_find(tree, "good"));

    if (report_text(tree, "scenario")[0] == '\0')
        report_title(page, "validate, suite %s", report_text(tree, "suite"));
    report_say(page, "Suite %s: %s.", report_text(tree, "suite"), good ? "yes" : "no");
    if (report_text(tree, "broken_off")[0] != '\0')
        report_say(page, "It was broken off: %s", report_text(tree, "broken_off"));
    if (cJSON_IsTrue(kvt_json_find(tree, "interrupted")))
        report_say(page, "It was interrupted: what is here is until then.");
    if (strcmp(report_text(tree, "suite"), "timeline") == 0)
        return build_timeline(page, tree);
    report_figure(page, "Calls compared", report_number(tree, "calls"), NULL, NULL);
    report_figure(page, "Mismatches", report_number(tree, "mismatches"), NULL, NULL);
    return report_build_any(page, dir, tree, err);
}
