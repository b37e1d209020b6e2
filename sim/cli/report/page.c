/* page.c -- a report is put together, as one JSON document. */
#include "page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/json.h"
#include "kvt/version.h"
#include "page_tree.h"
#include "template.h"

struct report_page {
    cJSON *tree;
    cJSON *blocks;             /* of the section under way; NULL before the first */
    cJSON *rows;               /* of the table or chart under way */
    struct report_chart chart; /* its texts are copies, in texts */
    cJSON *chart_block;        /* NULL: none is under way */
    struct kvt_arena *texts;
    bool failed; /* something was lost for want of memory */
};

struct report_page *report_page_of(cJSON *tree)
{
    struct report_page *page = calloc(1, sizeof *page);

    if (page == NULL) {
        cJSON_Delete(tree);
        return NULL;
    }
    page->tree = tree;
    page->texts = kvt_arena_new(1 << 12);
    page->failed = tree == NULL || page->texts == NULL;
    return page;
}

struct report_page *report_page_new(const char *kind, const char *title)
{
    return report_page_of(report_json(
        "{'schema': %s, 'kind': %s, 'title': %s, 'version': %s, 'commit': %s, 'answer': [],"
        " 'figures': [], 'assumptions': [], 'badge': null, 'sections': []}",
        REPORT_PAGE_SCHEMA, kind, title, kvt_version(), kvt_commit()));
}

void report_page_free(struct report_page *page)
{
    if (page == NULL)
        return;
    cJSON_Delete(page->tree);
    kvt_arena_free(page->texts);
    free(page);
}

const cJSON *report_page_tree(const struct report_page *page)
{
    return page->failed ? NULL : page->tree;
}

/* The item belongs to the array from here on; NULL: there was no memory for it. */
static cJSON *append(struct report_page *page, cJSON *array, cJSON *item)
{
    if (array != NULL && item != NULL && cJSON_AddItemToArray(array, item))
        return item;
    cJSON_Delete(item);
    page->failed = true;
    return NULL;
}

static cJSON *member(struct report_page *page, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(page->tree, key);
}

/* The text that a format makes, as an item. */
static cJSON *text_of(const char *fmt, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;

    if (text == NULL)
        return NULL;
    vsnprintf(text, (size_t)length + 1, fmt, arguments);
    cJSON *item = cJSON_CreateString(text);
    free(text);
    return item;
}

/* ---- What a page opens with --------------------------------------------------------------------
 */

void report_say(struct report_page *page, const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    append(page, member(page, "answer"), text_of(fmt, arguments));
    va_end(arguments);
}

void report_figure(struct report_page *page, const char *label, double value, const char *unit,
                   const char *note)
{
    if (isfinite(value))
        append(page, member(page, "figures"),
               report_json("{'label': %s, 'value': %g, 'unit': %s, 'note': %s}", label, value, unit,
                           note));
}

void report_assume(struct report_page *page, const char *what, const char *value, const char *basis)
{
    append(page, member(page, "assumptions"),
           report_json("{'what': %s, 'value': %s, 'basis': %s, 'more': []}", what, value, basis));
}

void report_assume_more(struct report_page *page, const char *text)
{
    const cJSON *list = member(page, "assumptions");
    const cJSON *first = list != NULL ? list->child : NULL;

    append(page, cJSON_GetObjectItemCaseSensitive(first != NULL ? first->prev : NULL, "more"),
           cJSON_CreateString(text));
}

static void replace(struct report_page *page, const char *key, cJSON *item)
{
    if (page->tree != NULL && item != NULL &&
        cJSON_ReplaceItemInObjectCaseSensitive(page->tree, key, item))
        return;
    cJSON_Delete(item);
    page->failed = true;
}

void report_title(struct report_page *page, const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    replace(page, "title", text_of(fmt, arguments));
    va_end(arguments);
}

void report_put_badge(struct report_page *page, const struct kvt_badge *badge)
{
    char text[KVT_BADGE_TEXT_BYTES];

    kvt_badge_print(badge, text);
    replace(page, "badge", cJSON_CreateString(text));
}

/* ---- Sections ----------------------------------------------------------------------------------
 */

/* A chart's specification depends on all of its points. */
static void end_block(struct report_page *page)
{
    cJSON *block = page->chart_block;

    page->chart_block = NULL;
    page->rows = NULL;
    if (block == NULL)
        return;
    if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(block, "rows")) == 0)
        cJSON_Delete(cJSON_DetachItemViaPointer(page->blocks, block));
    else if (!report_chart_finish(block, &page->chart))
        page->failed = true;
}

static cJSON *add_block(struct report_page *page, cJSON *block)
{
    end_block(page);
    if (page->blocks == NULL) /* a page without a heading here */
        report_section(page, NULL, NULL);
    return append(page, page->blocks, block);
}

void report_section(struct report_page *page, const char *title, const char *note)
{
    end_block(page);
    cJSON *section = append(page, member(page, "sections"),
                            report_json("{'title': %s, 'note': %s, 'blocks': []}", title, note));
    page->blocks = cJSON_GetObjectItemCaseSensitive(section, "blocks");
}

static void add_text_block(struct report_page *page, const char *type, cJSON *text)
{
    add_block(page, report_json("{'type': %s, 'text': %j}", type, text));
}

void report_paragraph(struct report_page *page, const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    add_text_block(page, "text", text_of(fmt, arguments));
    va_end(arguments);
}

void report_line(struct report_page *page, const char *fmt, ...)
{
    va_list arguments;

    va_start(arguments, fmt);
    add_text_block(page, "line", text_of(fmt, arguments));
    va_end(arguments);
}

void report_fold(struct report_page *page, const char *title, const char *text)
{
    add_block(page, report_json("{'type': 'fold', 'title': %s, 'text': %s}", title, text));
}

void report_tree(struct report_page *page, cJSON *node)
{
    add_block(page, report_json("{'type': 'tree', 'root': %j}", node));
}

/* ---- Tables ------------------------------------------------------------------------------------
 */

static cJSON *column_of(const char *name, const char *title, bool is_text)
{
    return report_json("{'name': %s, 'title': %s, 'text': %b}", name, title, is_text);
}

void report_table(struct report_page *page, const char *id, enum report_table_kind kind,
                  const char *title, const struct report_column *columns, size_t column_count)
{
    cJSON *block =
        add_block(page, report_json("{'type': 'table', 'id': %s, 'main': %b, 'folded': %b,"
                                    " 'title': %s, 'columns': [], 'rows': []}",
                                    id, kind == REPORT_MAIN, kind == REPORT_FOLDED, title));
    cJSON *list = cJSON_GetObjectItemCaseSensitive(block, "columns");

    for (size_t i = 0; i < column_count; i++)
        append(page, list, column_of(columns[i].name, columns[i].title, columns[i].is_text));
    page->rows = cJSON_GetObjectItemCaseSensitive(block, "rows");
}

void report_row(struct report_page *page)
{
    append(page, page->rows, cJSON_CreateArray());
}

static void add_cell(struct report_page *page, cJSON *cell)
{
    cJSON *first = page->rows != NULL ? page->rows->child : NULL;
    append(page, first != NULL ? first->prev : NULL, cell); /* the first's prev is the last */
}

static cJSON *number(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

void report_cell(struct report_page *page, double value)
{
    add_cell(page, number(value));
}

void report_cell_text(struct report_page *page, const char *text, const char *style)
{
    add_cell(page, style == NULL ? cJSON_CreateString(text)
                                 : report_json("{'text': %s, 'style': %s}", text, style));
}

/* ---- Charts ------------------------------------------------------------------------------------
 */

static bool has_categories(const struct report_chart *chart)
{
    return chart->form == REPORT_BARS || chart->form == REPORT_DOTS;
}

static const char *keep(struct report_page *page, const char *text)
{
    const char *kept =
        text != NULL && page->texts != NULL ? kvt_arena_strdup(page->texts, text) : NULL;

    page->failed = page->failed || (text != NULL && kept == NULL);
    return kept;
}

/* The chart is drawn when its last point is there, which is after its caller has gone on. */
static void keep_chart(struct report_page *page, const struct report_chart *chart)
{
    struct report_chart *kept = &page->chart;

    *kept = *chart;
    kept->id = keep(page, chart->id);
    kept->title = keep(page, chart->title);
    kept->note = keep(page, chart->note);
    kept->series = keep(page, chart->series);
    kept->label = keep(page, chart->label);
    kept->x.name = keep(page, chart->x.name);
    kept->x.title = keep(page, chart->x.title);
    kept->y.name = keep(page, chart->y.name);
    kept->y.title = keep(page, chart->y.title);
    for (size_t i = 0; i < chart->rule_count; i++)
        kept->rules[i].text = keep(page, chart->rules[i].text);
}

static bool has_intervals(const struct report_chart *chart)
{
    return chart->form == REPORT_DOTS || chart->has_intervals;
}

void report_chart(struct report_page *page, const struct report_chart *chart)
{
    cJSON *block = add_block(
        page, report_json("{'type': 'chart', 'id': %s, 'title': %s, 'note': %s, 'wide': %b,"
                          " 'names': [], 'columns': [%j, %j, %j], 'rows': []}",
                          chart->id, chart->title, chart->note, chart->is_wide,
                          column_of(chart->series, chart->series, true),
                          column_of(chart->x.name, chart->x.title, false),
                          column_of(chart->y.name, chart->y.title, has_categories(chart))));
    cJSON *columns = cJSON_GetObjectItemCaseSensitive(block, "columns");

    if (has_intervals(chart)) {
        append(page, columns, column_of("low", "from", false));
        append(page, columns, column_of("high", "to", false));
    }
    if (chart->has_kinds)
        append(page, columns, column_of("kind", "kind", true));
    if (chart->label != NULL)
        append(page, columns, column_of(chart->label, chart->label, true));
    page->rows = cJSON_GetObjectItemCaseSensitive(block, "rows");
    keep_chart(page, chart);
    page->chart_block = block;
}

static bool is_listed(const cJSON *names, const char *name)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, names)
    {
        if (strcmp(item->valuestring, name) == 0)
            return true;
    }
    return false;
}

static const char *const kind_names[] = {[REPORT_ON_LINE] = "line",
                                         [REPORT_MARK] = "mark",
                                         [REPORT_REFERENCE] = "reference",
                                         [REPORT_CURVE] = "curve"};

void report_point(struct report_page *page, struct report_point point)
{
    const struct report_chart *chart = &page->chart;
    cJSON *block = page->chart_block;
    cJSON *names = cJSON_GetObjectItemCaseSensitive(block, "names");

    if (block == NULL) {
        page->failed = true;
        return;
    }
    if (!is_listed(names, point.series))
        append(page, names, cJSON_CreateString(point.series));
    report_row(page);
    add_cell(page, cJSON_CreateString(point.series));
    add_cell(page, number(point.x));
    add_cell(page, has_categories(chart) ? cJSON_CreateString(point.category) : number(point.y));
    if (has_intervals(chart)) {
        add_cell(page, number(point.low));
        add_cell(page, number(point.high));
    }
    if (chart->has_kinds)
        add_cell(page, cJSON_CreateString(kind_names[point.kind]));
    if (chart->label != NULL)
        add_cell(page, cJSON_CreateString(point.label));
}

/* ---- For who writes it -------------------------------------------------------------------------
 */

bool report_is_file_name(const char *id)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return id[0] != '\0' && id[0] != '.' && strlen(id) < 128 && strspn(id, letters) == strlen(id);
}

const cJSON *report_main_table(const cJSON *tree)
{
    const cJSON *section = NULL, *block = NULL;

    cJSON_ArrayForEach(section, kvt_json_find(tree, "sections"))
    {
        cJSON_ArrayForEach(block, kvt_json_find(section, "blocks"))
        {
            if (cJSON_IsTrue(kvt_json_find(block, "main")))
                return block;
        }
    }
    return NULL;
}

cJSON *report_page_finish(struct report_page *page)
{
    end_block(page);
    return page->failed ? NULL : page->tree;
}
