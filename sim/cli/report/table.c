/* table.c -- a page's main table for other documents. */
#include <math.h>
#include <string.h>

#include "figures.h"
#include "kvt/json.h"
#include "page_tree.h"

/* What a form has for itself in a text, and what stands for it. */
struct escape {
    char letter;
    const char *as;
};
static const struct escape latex[] = {{'\\', "\\textbackslash{}"},
                                      {'{', "\\{"},
                                      {'}', "\\}"},
                                      {'$', "\\$"},
                                      {'&', "\\&"},
                                      {'#', "\\#"},
                                      {'_', "\\_"},
                                      {'%', "\\%"},
                                      {'~', "\\textasciitilde{}"},
                                      {'^', "\\textasciicircum{}"},
                                      {'<', "\\textless{}"},
                                      {'>', "\\textgreater{}"},
                                      {'\n', " "},
                                      {'\r', " "}};
static const struct escape markdown[] = {
    {'|', "\\|"}, {'<', "&lt;"}, {'&', "&amp;"}, {'*', "\\*"}, {'_', "\\_"}, {'`', "\\`"},
    {'[', "\\["}, {']', "\\]"},  {'\\', "\\\\"}, {'\n', " "},  {'\r', " "}};

static void put_escaped(const char *text, const struct escape *escapes, size_t count, FILE *stream)
{
    for (; *text != '\0'; text++) {
        const char *as = NULL;
        for (size_t i = 0; i < count && as == NULL; i++)
            as = escapes[i].letter == *text ? escapes[i].as : NULL;
        if (as != NULL)
            fputs(as, stream);
        else
            fputc(*text, stream);
    }
}

static void put_csv(const char *text, FILE *stream)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text != '\0'; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, stream);
    fputc('"', stream);
}

static void put(const char *text, enum report_table_form form, FILE *stream)
{
    if (form == REPORT_LATEX)
        put_escaped(text, latex, sizeof latex / sizeof latex[0], stream);
    else if (form == REPORT_MARKDOWN)
        put_escaped(text, markdown, sizeof markdown / sizeof markdown[0], stream);
    else
        put_csv(text, stream);
}

/* Texts as they are; numbers in full where a program reads them, rounded where people do. */
static void put_cell(const cJSON *cell, enum report_table_form form, FILE *stream)
{
    const char *text = report_cell_as_text(cell, NULL);
    char number[REPORT_NUMBER_BYTES];

    if (text != NULL) {
        put(text, form, stream);
    } else if (form != REPORT_CSV) {
        report_number_text(cell, number);
        fputs(number, stream);
    } else if (cJSON_IsNumber(cell)) {
        kvt_json_print_number(cell->valuedouble, number);
        fputs(number, stream);
    }
}

static const char *separator(enum report_table_form form)
{
    return form == REPORT_LATEX ? " & " : form == REPORT_MARKDOWN ? " | " : ",";
}

/* What a line of cells is set between. */
static void begin_line(enum report_table_form form, FILE *stream)
{
    if (form == REPORT_MARKDOWN)
        fputs("| ", stream);
}
static void end_line(enum report_table_form form, FILE *stream)
{
    fputs(form == REPORT_LATEX ? " \\\\\n" : form == REPORT_MARKDOWN ? " |\n" : "\n", stream);
}

static void put_head(const cJSON *columns, enum report_table_form form, FILE *stream)
{
    const cJSON *column = NULL;

    if (form == REPORT_LATEX) {
        fputs("\\begin{tabular}{", stream);
        cJSON_ArrayForEach(column, columns)
        {
            fputc(cJSON_IsTrue(kvt_json_find(column, "text")) ? 'l' : 'r', stream);
        }
        fputs("}\n\\toprule\n", stream);
    }
    begin_line(form, stream);
    cJSON_ArrayForEach(column, columns)
    {
        fputs(column == columns->child ? "" : separator(form), stream);
        put(report_text(column, form == REPORT_CSV ? "name" : "title"), form, stream);
    }
    end_line(form, stream);
    if (form == REPORT_LATEX)
        fputs("\\midrule\n", stream);
    if (form != REPORT_MARKDOWN)
        return;
    fputc('|', stream);
    cJSON_ArrayForEach(column, columns)
    {
        fputs(cJSON_IsTrue(kvt_json_find(column, "text")) ? " --- |" : " ---: |", stream);
    }
    fputc('\n', stream);
}

kvt_status report_print_table(struct report_page *page, enum report_table_form form, FILE *stream,
                              struct kvt_error *err)
{
    const cJSON *tree = report_page_finish(page);
    const cJSON *table = report_main_table(tree), *row = NULL, *cell = NULL;

    if (tree == NULL)
        return kvt_fail_nomem(err, "a table");
    if (table == NULL)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, "report --table", "this page has no main table");
    put_head(kvt_json_find(table, "columns"), form, stream);
    cJSON_ArrayForEach(row, kvt_json_find(table, "rows"))
    {
        begin_line(form, stream);
        cJSON_ArrayForEach(cell, row)
        {
            fputs(cell == row->child ? "" : separator(form), stream);
            put_cell(cell, form, stream);
        }
        end_line(form, stream);
    }
    if (form == REPORT_LATEX)
        fputs("\\bottomrule\n\\end{tabular}\n", stream);
    return KVT_OK;
}
