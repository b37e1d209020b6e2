/* page_html.c -- a page's document as report.html: whole in itself. What is read stands in it as
 * HTML, charts and their data as JSON that page.js draws from. The policy lets these scripts run
 * and nothing else, and nothing be fetched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "runtime.h"
#include "template.h"

/* ---- Texts ----------------------------------------------------------------------------------- */

static void put_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*text, stream);
        }
    }
}

const char *report_text(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

const char *report_cell_as_text(const cJSON *cell, const char **style)
{
    if (style != NULL)
        *style = NULL;
    if (cJSON_IsObject(cell)) {
        if (style != NULL)
            *style = report_text(cell, "style");
        return report_text(cell, "text");
    }
    return cJSON_IsString(cell) ? cell->valuestring : NULL;
}

/* Thousands apart by commas, and without zeros at the end of a fraction. digits: a number without
 * sign, below 1e15. */
static void group(char *digits, char out[REPORT_NUMBER_BYTES])
{
    size_t whole = strcspn(digits, "."), length = strlen(digits);
    const char *start = out;

    while (length > whole && (digits[length - 1] == '0' || digits[length - 1] == '.'))
        digits[--length] = '\0';

    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    (void)snprintf(out, REPORT_NUMBER_BYTES - (size_t)(out - start), "%s", digits + whole);
}

void report_number_text(const cJSON *cell, char out[REPORT_NUMBER_BYTES])
{
    report_value_text(cJSON_IsNumber(cell) ? cell->valuedouble : (double)NAN, out);
}

const char *report_value_text(double value, char out[REPORT_NUMBER_BYTES])
{
    char digits[24];
    double size = fabs(value);

    if (!isfinite(value)) {
        (void)snprintf(out, REPORT_NUMBER_BYTES, "-");
        return out;
    }
    if (size >= 1e15 || (size < 1e-4 && size > 0)) {
        snprintf(out, REPORT_NUMBER_BYTES, "%.3g", value);
        return out;
    }
    bool is_whole = size == floor(size) || size >= 1000;
    int decimals = is_whole ? 0 : 3 - (int)floor(log10(size));
    snprintf(digits, sizeof digits, "%.*f", decimals, size);
    if (value < 0)
        out[0] = '-';
    group(digits, out + (value < 0));
    return out;
}

/* ---- What a page opens with ------------------------------------------------------------------ */

static void put_head(const cJSON *tree, FILE *stream)
{
    const char *title = report_text(tree, "title");

    fprintf(stream,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
            report_policy);
    put_text(stream, title);
    fprintf(stream, "</title>\n<style>\n%s</style></head><body>\n<header><p class=\"kind\">kvtide ",
            report_page_css);
    put_text(stream, report_text(tree, "kind"));
    fputs("</p><h1>", stream);
    put_text(stream, title);
    fputs("</h1></header>\n", stream);
}

static void put_answer(const cJSON *tree, FILE *stream)
{
    const cJSON *item = NULL;

    fputs("<section class=\"answer\">\n", stream);
    cJSON_ArrayForEach(item, kvt_json_find(tree, "answer"))
    {
        fputs("<p>", stream);
        put_text(stream, cJSON_IsString(item) ? item->valuestring : "");
        fputs("</p>\n", stream);
    }
    fputs("</section>\n", stream);
    if (cJSON_GetArraySize(kvt_json_find(tree, "figures")) == 0)
        return;
    fputs("<dl class=\"figures\">\n", stream);
    cJSON_ArrayForEach(item, kvt_json_find(tree, "figures"))
    {
        char value[REPORT_NUMBER_BYTES];
        report_number_text(kvt_json_find(item, "value"), value);
        fputs("<div><dt>", stream);
        put_text(stream, report_text(item, "label"));
        fprintf(stream, "</dt><dd>%s <span>", value);
        put_text(stream, report_text(item, "unit"));
        fputs("</span></dd>", stream);
        if (report_text(item, "note")[0] != '\0') {
            fputs("<dd class=\"note\">", stream);
            put_text(stream, report_text(item, "note"));
            fputs("</dd>", stream);
        }
        fputs("</div>\n", stream);
    }
    fputs("</dl>\n", stream);
}

/* What an assumption says, and what opens beneath it. */
static void put_more(const cJSON *assumption, FILE *stream)
{
    const cJSON *more = kvt_json_find(assumption, "more"), *line = NULL;
    bool opens = cJSON_GetArraySize(more) > 0;

    fputs(opens ? "<details><summary>" : "", stream);
    put_text(stream, report_text(assumption, "value"));
    fputs(opens ? "</summary><ul>" : "", stream);
    cJSON_ArrayForEach(line, more)
    {
        fputs("<li>", stream);
        put_text(stream, cJSON_IsString(line) ? line->valuestring : "");
        fputs("</li>", stream);
    }
    fputs(opens ? "</ul></details>" : "", stream);
}

static void put_assumptions(const cJSON *tree, FILE *stream)
{
    const cJSON *item = NULL;
    const char *badge = report_text(tree, "badge");
    size_t count = (size_t)cJSON_GetArraySize(kvt_json_find(tree, "assumptions"));

    if (count == 0 && badge[0] == '\0')
        return;
    fputs("<section><h2>What it rests on</h2>\n", stream);
    if (count > 0)
        fputs("<div class=\"wide\"><table class=\"rests\"><tbody>\n", stream);
    cJSON_ArrayForEach(item, kvt_json_find(tree, "assumptions"))
    {
        fputs("<tr><td>", stream);
        put_text(stream, report_text(item, "what"));
        fputs("</td><td>", stream);
        if (report_text(item, "basis")[0] != '\0') {
            fputs("<span class=\"basis\">", stream);
            put_text(stream, report_text(item, "basis"));
            fputs("</span>", stream);
        }
        fputs("</td><td>", stream);
        put_more(item, stream);
        fputs("</td></tr>\n", stream);
    }
    if (count > 0)
        fputs("</tbody></table></div>\n", stream);
    if (badge[0] != '\0') {
        fputs("<p>Badge: ", stream);
        put_text(stream, badge);
        fputs("</p>\n", stream);
    }
    fputs("</section>\n", stream);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

enum {
    SHORT_BYTES = 24, /* of a text that is not broken into lines */
    PROSE_BYTES = 40, /* a cell that would be a column of single words where the page is narrow */
    LONG_ROWS = 60    /* of a table that scrolls in a place of its own */
};

static void put_cell(const cJSON *cell, bool is_text, FILE *stream)
{
    const char *style = NULL, *text = report_cell_as_text(cell, &style);
    char number[REPORT_NUMBER_BYTES];

    if (text == NULL)
        report_number_text(cell, number);
    bool is_short = text != NULL && strlen(text) <= SHORT_BYTES;
    bool is_prose = text != NULL && strlen(text) > PROSE_BYTES;
    fprintf(stream, "<td%s><span class=\"%s%s", is_text ? "" : " class=\"number\"",
            is_short ? "short " : "", is_prose ? "prose " : "");
    put_text(stream, style != NULL ? style : "");
    fputs("\">", stream);
    put_text(stream, text != NULL ? text : number);
    fputs("</span></td>", stream);
}

static void put_rows(const cJSON *block, FILE *stream)
{
    const cJSON *row = NULL, *cell = NULL;
    const cJSON *columns = kvt_json_find(block, "columns");

    fputs("<tbody>\n", stream);
    cJSON_ArrayForEach(row, kvt_json_find(block, "rows"))
    {
        const cJSON *column = columns != NULL ? columns->child : NULL;
        fputs("<tr>", stream);
        cJSON_ArrayForEach(cell, row)
        {
            put_cell(cell, cJSON_IsTrue(kvt_json_find(column, "text")), stream);
            column = column != NULL ? column->next : NULL;
        }
        fputs("</tr>\n", stream);
    }
    fputs("</tbody>", stream);
}

/* Hidden until a script has given it something to do. */
static void put_save(const cJSON *block, FILE *stream)
{
    fputs("<button type=\"button\" hidden data-save=\"", stream);
    put_text(stream, report_text(block, "id"));
    fputs("\">Save as CSV</button>", stream);
}

static void put_table(const cJSON *block, FILE *stream)
{
    const cJSON *column = NULL;

    bool is_folded = cJSON_IsTrue(kvt_json_find(block, "folded"));

    if (is_folded || report_text(block, "title")[0] != '\0') {
        fputs(is_folded ? "<details><summary>" : "<h3>", stream);
        put_text(stream, report_text(block, "title"));
        fputs(is_folded ? "</summary>\n" : "</h3>\n", stream);
    }
    bool is_long = cJSON_GetArraySize(kvt_json_find(block, "rows")) > LONG_ROWS;
    fprintf(stream, "<div class=\"wide%s\"><table><thead><tr>", is_long ? " long" : "");
    cJSON_ArrayForEach(column, kvt_json_find(block, "columns"))
    {
        fputs(cJSON_IsTrue(kvt_json_find(column, "text")) ? "<th>" : "<th class=\"number\">",
              stream);
        put_text(stream, report_text(column, "title"));
        fputs("</th>", stream);
    }
    fputs("</tr></thead>\n", stream);
    put_rows(block, stream);
    fputs("</table></div>\n", stream);
    put_save(block, stream);
    fputs(is_folded ? "</details>\n" : "\n", stream);
}

static void put_chart(const cJSON *block, FILE *stream)
{
    fprintf(stream, "<figure%s><figcaption>",
            cJSON_IsTrue(kvt_json_find(block, "wide")) ? " class=\"across\"" : "");
    put_text(stream, report_text(block, "title"));
    fputs("</figcaption>", stream);
    if (report_text(block, "note")[0] != '\0') {
        fputs("<p class=\"soft\">", stream);
        put_text(stream, report_text(block, "note"));
        fputs("</p>", stream);
    }
    fputs("\n<div class=\"plot\" data-chart=\"", stream);
    put_text(stream, report_text(block, "id"));
    fputs("\"></div>\n<details data-of=\"", stream);
    put_text(stream, report_text(block, "id"));
    fprintf(stream, "\"><summary>Data, %d rows</summary>",
            cJSON_GetArraySize(kvt_json_find(block, "rows")));
    put_save(block, stream);
    fputs("<div class=\"rows\"></div></details></figure>\n", stream);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tree of a page, which we made */
static void put_node(const cJSON *node, FILE *stream)
{
    const cJSON *child = NULL;

    fputs("<li>", stream);
    put_text(stream, report_text(node, "text"));
    if (report_text(node, "value")[0] != '\0') {
        fputs(" <b>", stream);
        put_text(stream, report_text(node, "value"));
        fputs("</b>", stream);
    }
    if (cJSON_GetArraySize(kvt_json_find(node, "children")) > 0) {
        fputs("<ul>", stream);
        cJSON_ArrayForEach(child, kvt_json_find(node, "children"))
        {
            put_node(child, stream);
        }
        fputs("</ul>", stream);
    }
    fputs("</li>\n", stream);
}

static void put_block(const cJSON *block, FILE *stream)
{
    const char *type = report_text(block, "type");

    if (strcmp(type, "chart") == 0) {
        put_chart(block, stream);
    } else if (strcmp(type, "table") == 0) {
        put_table(block, stream);
    } else if (strcmp(type, "tree") == 0) {
        fputs("<ul class=\"tree\">", stream);
        put_node(kvt_json_find(block, "root"), stream);
        fputs("</ul>\n", stream);
    } else if (strcmp(type, "fold") == 0) {
        fputs("<details><summary>", stream);
        put_text(stream, report_text(block, "title"));
        fputs("</summary><pre>", stream);
        put_text(stream, report_text(block, "text"));
        fputs("</pre></details>\n", stream);
    } else {
        fputs(strcmp(type, "line") == 0 ? "<p class=\"lines\">" : "<p>", stream);
        put_text(stream, report_text(block, "text"));
        fputs("</p>\n", stream);
    }
}

static bool is_chart(const cJSON *block)
{
    return strcmp(report_text(block, "type"), "chart") == 0;
}

/* Charts that follow each other stand beside each other where there is room. */
static void put_section(const cJSON *section, FILE *stream)
{
    const cJSON *block = NULL;
    bool is_among_charts = false;

    fputs("<section>", stream);
    if (report_text(section, "title")[0] != '\0') {
        fputs("<h2>", stream);
        put_text(stream, report_text(section, "title"));
        fputs("</h2>\n", stream);
    }
    if (report_text(section, "note")[0] != '\0') {
        fputs("<p class=\"soft\">", stream);
        put_text(stream, report_text(section, "note"));
        fputs("</p>\n", stream);
    }
    cJSON_ArrayForEach(block, kvt_json_find(section, "blocks"))
    {
        if (is_chart(block) != is_among_charts)
            fputs(is_among_charts ? "</div>\n" : "<div class=\"charts\">\n", stream);
        is_among_charts = is_chart(block);
        put_block(block, stream);
    }
    fputs(is_among_charts ? "</div></section>\n" : "</section>\n", stream);
}

/* ---- The page -------------------------------------------------------------------------------- */

kvt_status report_page_write(struct report_page *page, FILE *stream, struct kvt_error *err)
{
    const cJSON *tree = report_page_finish(page), *section = NULL;

    if (tree == NULL)
        return kvt_fail_nomem(err, "a report");
    put_head(tree, stream);
    put_answer(tree, stream);
    put_assumptions(tree, stream);
    fputs("<noscript><p class=\"soft\">Charts are drawn by a script, which is switched off here."
          "</p></noscript>\n",
          stream);
    cJSON_ArrayForEach(section, kvt_json_find(tree, "sections"))
    {
        put_section(section, stream);
    }
    fputs("<footer><p>Written by kvtide ", stream);
    put_text(stream, report_text(tree, "version"));
    fputs(" (", stream);
    put_text(stream, report_text(tree, "commit"));
    fputs("). This file holds its charts and their data, and loads nothing.</p>\n"
          "<details><summary>Licences of what draws the charts</summary><pre>",
          stream);
    put_text(stream, report_licences);
    fputs("</pre></details></footer>\n", stream);
    fputs("<script type=\"application/json\" id=\"page\">", stream);
    report_json_print(tree, stream);
    fputs("</script>\n", stream);
    fprintf(stream, "<script>%s</script>\n<script>%s</script>\n</body></html>\n", report_library_js,
            report_page_js);
    return KVT_OK;
}
