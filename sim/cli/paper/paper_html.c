/* paper_html.c -- one page with every target, our version of the paper's figures and tables, and
 * what was fitted: whole in itself, without scripts and without a network. */
#include <math.h>

#include "kvt/json.h"
#include "kvt/version.h"
#include "paper_page.h"

/* ---- Targets and parameters ------------------------------------------------------------- */

static void put_scores(const struct page *page)
{
    fputs("<table><tr><th></th><th>class</th><th>good</th><th>of</th><th>open</th></tr>\n",
          page->stream);
    for (int c = 0; c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(page->answer, (enum paper_class)c, &score);
        if (score.asked > 0)
            fprintf(page->stream,
                    "<tr><td>%s</td><td>%s</td><td>%zu</td><td>%zu</td><td>%zu</td></tr>\n",
                    paper_class_letter((enum paper_class)c), paper_class_name((enum paper_class)c),
                    score.good, score.asked, score.open);
    }
    fputs("</table>\n<p>Exact ones must come out as printed. To calibrated ones a parameter was "
          "fitted: that they agree proves nothing. Predicted ones are evidence, as far as it "
          "goes: output, active and TTFT of one run hang together.</p>\n",
          page->stream);
}

static void put_made_by(const struct page *page, const struct paper_line *line)
{
    const struct paper_point *points = page->answer->paper->points;

    fputs("<td><details><summary>", page->stream);
    if (line->point_count == 1)
        chart_text(page->stream, points[line->points[0]].id);
    else
        fprintf(page->stream, "%zu points", line->point_count);
    fputs("</summary>", page->stream);
    for (size_t i = 0; i < line->point_count; i++) {
        const struct paper_point *point = &points[line->points[i]];
        chart_text(page->stream, point->id);
        fputs(": ", page->stream);
        chart_text(page->stream, point->source);
        for (size_t s = 0; s < point->set_count; s++) {
            fputs(" ", page->stream);
            chart_text(page->stream, point->sets[s]);
        }
        fputs("<br>", page->stream);
    }
    fputs("</details></td>", page->stream);
}

static void put_remark(const struct page *page, const struct paper_line *line)
{
    const char *says = line->value.says, *note = line->target->note;
    bool missed = line->verdict.kind == PAPER_OUTSIDE || line->verdict.kind == PAPER_FAILS;

    fputs("<td class=\"soft\">", page->stream);
    if (missed && line->target->cause[0] != '\0') {
        fputs("Cause: ", page->stream);
        chart_text(page->stream, line->target->cause);
        fputs(". ", page->stream);
    }
    if (says != NULL && says[0] != '\0') {
        chart_text(page->stream, says);
        fputs(". ", page->stream);
    }
    chart_text(page->stream, note);
    fputs("</td>", page->stream);
}

static void put_targets(const struct page *page)
{
    fputs("<div class=\"wide\"><table><tr><th></th><th>target</th><th>statement</th><th>paper</th>"
          "<th>here</th><th>unit</th><th>error</th><th>verdict</th><th>made by</th><th></th>"
          "</tr>\n",
          page->stream);
    for (size_t i = 0; i < page->answer->line_count; i++) {
        const struct paper_line *line = &page->answer->lines[i];
        const struct paper_target *target = line->target;
        char claim[PAPER_TEXT_BYTES], ours[PAPER_TEXT_BYTES];
        paper_print_claim(target, claim);
        paper_print_value(line, ours);
        fprintf(page->stream, "<tr><td>%s</td><td>", paper_class_letter(target->class_of));
        chart_text(page->stream, target->id);
        fputs("</td><td>", page->stream);
        chart_text(page->stream, target->statement);
        fprintf(page->stream, "</td><td>%s</td><td>%s</td><td>", claim, ours);
        chart_text(page->stream, target->unit);
        fputs("</td><td>", page->stream);
        if (isfinite(line->verdict.error))
            fprintf(page->stream, "%+.1f %%", 100 * line->verdict.error);
        fprintf(page->stream, "</td><td class=\"%s\">%s</td>", page_style_of(line),
                paper_verdict_name(line->verdict.kind));
        put_made_by(page, line);
        put_remark(page, line);
        fputs("</tr>\n", page->stream);
    }
    fputs("</table></div>\n", page->stream);
}

static void put_parameters(const struct page *page)
{
    const struct paper *paper = page->answer->paper;

    fputs("<div class=\"wide\"><table><tr><th>key</th><th>value</th><th>unit</th><th>set by</th>"
          "<th></th></tr>\n",
          page->stream);
    for (size_t p = 0; p < paper->parameter_count; p++) {
        const struct paper_parameter *parameter = &paper->parameters[p];
        fputs("<tr><td>", page->stream);
        chart_text(page->stream, parameter->key);
        fputs("</td><td>", page->stream);
        if (cJSON_IsString(parameter->value))
            chart_text(page->stream, parameter->value->valuestring);
        else
            fprintf(page->stream, "%.6g", parameter->value->valuedouble);
        fputs(parameter->is_shipped ? "</td><td>" : " (changed)</td><td>", page->stream);
        chart_text(page->stream, parameter->unit);
        fputs("</td><td>", page->stream);
        for (size_t t = 0; t < parameter->set_by_count; t++) {
            chart_text(page->stream, parameter->set_by[t]);
            fputs("<br>", page->stream);
        }
        fputs("</td><td class=\"soft\">", page->stream);
        chart_text(page->stream, parameter->how);
        fputs("</td></tr>\n", page->stream);
    }
    fputs("</table></div>\n", page->stream);
}

/* ---- The page --------------------------------------------------------------------------- */

kvt_status paper_write_page(const struct paper_answer *answer, struct kvt_arena *arena,
                            FILE *stream, struct kvt_error *err)
{
    struct page page = {.answer = answer, .arena = arena, .stream = stream};
    const struct kvt_badge badge = paper_badge_of(answer);
    const cJSON *figure = NULL;
    char badge_text[KVT_BADGE_TEXT_BYTES];
    kvt_status status = KVT_OK;

    kvt_badge_print(&badge, badge_text);
    chart_page_begin(stream, "kvtide paper");
    fputs("<h1>", stream);
    chart_text(stream, answer->paper->name);
    fputs("</h1>\n<p>", stream);
    chart_text(stream, answer->paper->summary);
    fprintf(stream,
            "</p>\n<p class=\"soft\">kvtide %s (%s). Open circles are the paper's; everything "
            "else came out of this program's own runs, or of a GPU where it says so. Runs: ",
            kvt_version(), kvt_commit());
    chart_text(stream, badge_text);
    fputs(".</p>\n", stream);
    put_scores(&page);
    fputs("<h2>Figures and tables</h2>\n", stream);
    cJSON_ArrayForEach(figure, answer->paper->figures)
    {
        if (status == KVT_OK)
            status = page_put_figure(&page, figure, err);
    }
    fputs("<h2>Targets</h2>\n", stream);
    put_targets(&page);
    fputs("<h2>What was fitted, or chosen</h2>\n", stream);
    put_parameters(&page);
    chart_page_end(stream);
    return status;
}
