/* paper_html.c -- the page of the paper: every target, our version of its figures and tables, and
 * what was fitted. */
#include <math.h>

#include "kvt/json.h"
#include "paper_page.h"

/* ---- The answer ------------------------------------------------------------------------- */

static void put_scores(const struct page *page)
{
    for (int c = 0; c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(page->answer, (enum paper_class)c, &score);
        if (score.asked > 0)
            report_say(page->report, "%s: %zu of %zu good%s.",
                       paper_class_name((enum paper_class)c), score.good, score.asked,
                       score.open > 0 ? ", some open" : "");
    }
    report_say(page->report,
               "Exact ones must come out as printed. To calibrated ones a parameter was fitted: "
               "that they agree proves nothing. Predicted ones are evidence, as far as it goes: "
               "output, active and TTFT of one run hang together.");
}

static void put_score_table(const struct page *page)
{
    static const struct report_column columns[] = {{"letter", "", true},
                                                   {"class", "class", true},
                                                   {"good", "good", false},
                                                   {"of", "of", false},
                                                   {"open", "open", false}};

    report_section(page->report, "Targets by class", NULL);
    report_table(page->report, "classes", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    for (int c = 0; c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(page->answer, (enum paper_class)c, &score);
        if (score.asked == 0)
            continue;
        report_row(page->report);
        report_cell_text(page->report, paper_class_letter((enum paper_class)c), NULL);
        report_cell_text(page->report, paper_class_name((enum paper_class)c), NULL);
        report_cell(page->report, (double)score.good);
        report_cell(page->report, (double)score.asked);
        report_cell(page->report, (double)score.open);
    }
}

/* ---- Targets, points and parameters ----------------------------------------------------- */

/* Which points a target was made from, or how many they are. */
static void put_made_by(const struct page *page, const struct paper_line *line)
{
    const struct paper_point *points = page->answer->paper->points;
    char text[PAPER_TEXT_BYTES];

    if (line->point_count == 1) {
        report_cell_text(page->report, points[line->points[0]].id, NULL);
        return;
    }
    snprintf(text, sizeof text, "%zu points", line->point_count);
    report_cell_text(page->report, text, NULL);
}

static kvt_status put_remark(const struct page *page, const struct paper_line *line,
                             struct kvt_error *err)
{
    const char *says = line->value.says, *cause = line->target->cause;
    bool missed = line->verdict.kind == PAPER_OUTSIDE || line->verdict.kind == PAPER_FAILS;
    bool has_cause = missed && cause[0] != '\0', has_says = says != NULL && says[0] != '\0';
    const char *text = kvt_arena_printf(
        page->arena, "%s%s%s%s%s%s", has_cause ? "Cause: " : "", has_cause ? cause : "",
        has_cause ? ". " : "", has_says ? says : "", has_says ? ". " : "", line->target->note);

    if (text == NULL)
        return kvt_fail_nomem(err, "a remark");
    report_cell_text(page->report, text, "soft");
    return KVT_OK;
}

static kvt_status put_target(const struct page *page, const struct paper_line *line,
                             struct kvt_error *err)
{
    struct report_page *report = page->report;
    char claim[PAPER_TEXT_BYTES], ours[PAPER_TEXT_BYTES];

    paper_print_claim(line->target, claim);
    paper_print_value(line, ours);
    report_row(report);
    report_cell_text(report, paper_class_letter(line->target->class_of), NULL);
    report_cell_text(report, line->target->id, NULL);
    report_cell_text(report, line->target->statement, NULL);
    report_cell_text(report, claim, NULL);
    report_cell_text(report, ours, NULL);
    report_cell_text(report, line->target->unit, NULL);
    report_cell(report, 100 * line->verdict.error);
    report_cell_text(report, paper_verdict_name(line->verdict.kind), page_style_of(line));
    put_made_by(page, line);
    return put_remark(page, line, err);
}

static kvt_status put_targets(const struct page *page, struct kvt_error *err)
{
    static const struct report_column columns[] = {{"class", "", true},
                                                   {"target", "target", true},
                                                   {"statement", "statement", true},
                                                   {"paper", "paper", true},
                                                   {"here", "here", true},
                                                   {"unit", "unit", true},
                                                   {"error_percent", "error, %", false},
                                                   {"verdict", "verdict", true},
                                                   {"made_by", "made by", true},
                                                   {"remark", "", true}};
    kvt_status status = KVT_OK;

    report_section(page->report, "Targets", NULL);
    report_table(page->report, "targets", REPORT_MAIN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < page->answer->line_count && status == KVT_OK; i++)
        status = put_target(page, &page->answer->lines[i], err);
    return status;
}

/* What the points are, by the names that targets give them. */
static void put_points(const struct page *page)
{
    static const struct report_column columns[] = {
        {"point", "point", true}, {"source", "source", true}, {"set", "set", true}};
    const struct paper *paper = page->answer->paper;

    report_table(page->report, "points", REPORT_FOLDED, "What the points are", columns,
                 sizeof columns / sizeof columns[0]);
    for (size_t p = 0; p < paper->point_count; p++) {
        const struct paper_point *point = &paper->points[p];
        for (size_t s = 0; s == 0 || s < point->set_count; s++) {
            report_row(page->report);
            report_cell_text(page->report, point->id, NULL);
            report_cell_text(page->report, point->source, NULL);
            report_cell_text(page->report, point->set_count > 0 ? point->sets[s] : "", NULL);
        }
    }
}

/* The names with commas between, in the arena. */
static const char *joined(struct kvt_arena *arena, const char *const *names, size_t count)
{
    const char *text = "";

    for (size_t i = 0; i < count && text != NULL; i++)
        text = kvt_arena_printf(arena, "%s%s%s", text, i > 0 ? ", " : "", names[i]);
    return text;
}

static kvt_status put_parameter(const struct page *page, const struct paper_parameter *parameter,
                                struct kvt_error *err)
{
    struct report_page *report = page->report;
    const char *set_by = joined(page->arena, parameter->set_by, parameter->set_by_count);

    if (set_by == NULL)
        return kvt_fail_nomem(err, "a parameter");
    report_row(report);
    report_cell_text(report, parameter->key, NULL);
    if (cJSON_IsString(parameter->value))
        report_cell_text(report, parameter->value->valuestring, NULL);
    else
        report_cell(report, parameter->value->valuedouble);
    report_cell_text(report, parameter->is_shipped ? "" : "changed", "soft");
    report_cell_text(report, parameter->unit, NULL);
    report_cell_text(report, set_by, NULL);
    report_cell_text(report, parameter->how, "soft");
    return KVT_OK;
}

static kvt_status put_parameters(const struct page *page, struct kvt_error *err)
{
    static const struct report_column columns[] = {
        {"key", "key", true},   {"value", "value", true},   {"changed", "", true},
        {"unit", "unit", true}, {"set_by", "set by", true}, {"how", "", true}};
    const struct paper *paper = page->answer->paper;
    kvt_status status = KVT_OK;

    report_section(page->report, "What was fitted, or chosen", NULL);
    report_table(page->report, "parameters", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    for (size_t p = 0; p < paper->parameter_count && status == KVT_OK; p++)
        status = put_parameter(page, &paper->parameters[p], err);
    return status;
}

/* ---- The page --------------------------------------------------------------------------- */

static kvt_status put_all(struct page *page, struct kvt_error *err)
{
    const struct kvt_badge badge = paper_badge_of(page->answer);
    const cJSON *figure = NULL;
    kvt_status status = KVT_OK;

    report_say(page->report, "%s", page->answer->paper->summary);
    put_scores(page);
    report_assume(page->report, "Open circles", "the paper's own numbers", NULL);
    report_assume(page->report, "Everything else",
                  "came out of this program's own runs, or of a GPU where it says so", NULL);
    report_put_badge(page->report, &badge);
    put_score_table(page);
    cJSON_ArrayForEach(figure, page->answer->paper->figures)
    {
        if (status == KVT_OK)
            status = page_put_figure(page, figure, err);
    }
    if (status == KVT_OK)
        status = put_targets(page, err);
    put_points(page);
    return status == KVT_OK ? put_parameters(page, err) : status;
}

kvt_status paper_write_page(const struct paper_answer *answer, struct kvt_arena *arena,
                            FILE *stream, struct kvt_error *err)
{
    struct page page = {
        .answer = answer, .arena = arena, .report = report_page_new("paper", answer->paper->name)};
    kvt_status status = page.report != NULL ? put_all(&page, err) : kvt_fail_nomem(err, "a report");

    if (status == KVT_OK)
        status = report_page_write(page.report, stream, err);
    report_page_free(page.report);
    return status;
}
