/* report_any.c -- an answer without a page of its own kind: its figures as tables, all of it as
 * JSON.
 *
 *     single values of the tree, and of each object in it: a table of two columns
 *     a list of objects: a table with a row for each, and a column for each single value */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

enum {
    COLUMNS_MAX = 24,
    ROWS_MAX = 5000
};

static bool is_single(const cJSON *item)
{
    return item != NULL && !cJSON_IsObject(item) && !cJSON_IsArray(item);
}

static void put_single(struct report_page *page, const cJSON *item)
{
    if (cJSON_IsString(item))
        report_cell_text(page, item->valuestring, NULL);
    else if (cJSON_IsBool(item))
        report_cell_text(page, cJSON_IsTrue(item) ? "yes" : "no", NULL);
    else
        report_cell(page, report_number(item, ""));
}

static void put_object(struct report_page *page, const char *name, const cJSON *object)
{
    static const struct report_column columns[] = {{"what", "what", true},
                                                   {"value", "value", true}};
    const cJSON *item = NULL;
    size_t count = 0;

    cJSON_ArrayForEach(item, object)
    {
        if (!is_single(item))
            continue;
        if (count++ == 0)
            report_table(page, name, REPORT_OPEN, name, columns, 2);
        report_row(page);
        report_cell_text(page, item->string, NULL);
        put_single(page, item);
    }
}

/* A list whose elements are objects with single values; false: it is none. */
static bool put_list(struct report_page *page, const char *name, const cJSON *list, bool is_main)
{
    struct report_column columns[COLUMNS_MAX];
    const cJSON *first = cJSON_GetArrayItem(list, 0), *item = NULL;
    size_t count = 0, rows = 0;

    cJSON_ArrayForEach(item, first)
    {
        if (is_single(item) && count < COLUMNS_MAX)
            columns[count++] =
                (struct report_column){item->string, item->string, !cJSON_IsNumber(item)};
    }
    if (!cJSON_IsObject(first) || count == 0)
        return false;
    report_table(page, name, is_main ? REPORT_MAIN : REPORT_OPEN, name, columns, count);
    cJSON_ArrayForEach(item, list)
    {
        if (rows++ == ROWS_MAX) {
            report_paragraph(page, "The first %d of %d; the file has all.", ROWS_MAX,
                             cJSON_GetArraySize(list));
            return true;
        }
        report_row(page);
        for (size_t c = 0; c < count; c++)
            put_single(page, kvt_json_find(item, columns[c].name));
    }
    return true;
}

kvt_status report_build_any(struct report_page *page, const char *dir, const cJSON *tree,
                            struct kvt_error *err)
{
    const cJSON *item = NULL;
    bool has_main = false;

    (void)dir;
    report_add_badge(page, tree);
    report_section(page, "Figures", NULL);
    put_object(page, "answer", tree);
    cJSON_ArrayForEach(item, tree)
    {
        if (cJSON_IsObject(item) && strcmp(item->string, "badge") != 0 &&
            strcmp(item->string, "scenario") != 0)
            put_object(page, item->string, item);
        if (cJSON_IsArray(item) && put_list(page, item->string, item, !has_main))
            has_main = true;
    }
    char *text = kvt_json_print(tree);
    if (text == NULL)
        return kvt_fail_nomem(err, "a report");
    report_section(page, "All of the answer", NULL);
    report_fold(page, "Show it", text);
    free(text);
    return KVT_OK;
}
