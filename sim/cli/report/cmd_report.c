/* cmd_report.c -- kvtide report: the page of an answer that lies in a folder, its charts as vector
 * files, its table for other documents. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "figures.h"
#include "kvt/file.h"
#include "page_tree.h"
#include "report.h"
#include "template.h"

struct question {
    const char *figures, *table;
    bool svg, pdf, json, quiet;
    enum report_table_form form;
};

/* "svg,pdf", each at most once, in any order. */
static bool read_figures(struct question *question)
{
    const char *text = question->figures;

    if (text == NULL)
        return true;
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        bool is_svg = length == 3 && strncmp(text, "svg", 3) == 0;
        bool is_pdf = length == 3 && strncmp(text, "pdf", 3) == 0;
        if ((!is_svg && !is_pdf) || (is_svg && question->svg) || (is_pdf && question->pdf))
            return false;
        question->svg = question->svg || is_svg;
        question->pdf = question->pdf || is_pdf;
        text += length;
        if (*text == ',' && *++text == '\0')
            return false;
    }
    return question->svg || question->pdf;
}

static bool read_form(struct question *question)
{
    static const char *const names[] = {
        [REPORT_LATEX] = "latex", [REPORT_MARKDOWN] = "md", [REPORT_CSV] = "csv"};

    for (size_t i = 0; question->table != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(question->table, names[i]) == 0) {
            question->form = (enum report_table_form)i;
            return true;
        }
    }
    return question->table == NULL;
}

static kvt_status write_page(struct report_page *page, const char *path, struct kvt_error *err)
{
    struct kvt_outfile *out = NULL;
    kvt_status status = kvt_outfile_open(path, &out, err);

    if (status == KVT_OK)
        status = report_page_write(page, kvt_outfile_stream(out), err);
    if (status == KVT_OK) {
        status = kvt_outfile_commit(out, err);
        out = NULL;
    }
    kvt_outfile_discard(out);
    return status;
}

static kvt_status print_document(struct report_page *page, struct kvt_error *err)
{
    const cJSON *tree = report_page_finish(page);

    if (tree == NULL)
        return kvt_fail_nomem(err, "a report");
    report_json_print(tree, stdout);
    putchar('\n');
    return KVT_OK;
}

static kvt_status answer(const struct question *question, struct report_page *page,
                         const char *page_path, struct kvt_error *err)
{
    size_t count = 0;
    kvt_status status = KVT_OK;

    if (question->table != NULL)
        status = report_print_table(page, question->form, stdout, err);
    if (status == KVT_OK && question->json)
        status = print_document(page, err);
    if ((question->table != NULL || question->json) && question->figures == NULL)
        return status;
    if (status == KVT_OK)
        status = write_page(page, page_path, err);
    if (status == KVT_OK && !question->quiet)
        fprintf(stderr, "written: %s\n", page_path);
    if (status != KVT_OK || question->figures == NULL)
        return status;
    const char *slash = strrchr(page_path, '/');
    char *dir = strndup(page_path, (size_t)(slash - page_path));
    status = dir != NULL ? report_figures(page, dir, question->svg, question->pdf, &count, err)
                         : kvt_fail_nomem(err, "a file's name");
    if (status == KVT_OK && !question->quiet)
        fprintf(stderr, "written: %zu charts into %s/figures, each with its .csv and .vl.json\n",
                count, dir);
    free(dir);
    return status;
}

static int report(const struct question *question, const char *path)
{
    struct kvt_error err;
    struct report_page *page = NULL;
    char *page_path = NULL;
    kvt_status status = report_open(path, &page, &page_path, &err);
    bool is_open = status == KVT_OK;

    if (is_open)
        status = answer(question, page, page_path, &err);
    report_page_free(page);
    free(page_path);
    if (status == KVT_OK)
        return CLI_DONE;
    int exit_code = cli_fail(&err);
    /* A program that is not there, or that fails, is the machine's matter, not the question's. */
    bool is_machine = err.status == KVT_ERR_NOT_FOUND || err.status == KVT_ERR_UNSUPPORTED;
    return is_open && question->figures != NULL && is_machine ? CLI_CANNOT : exit_code;
}

int kvt_cmd_report(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {0};
    struct cli_texts positional;
    int exit_code;
    const struct cli_option options[] = {
        {"--figures", "svg,pdf", "each chart into DIR/figures, with its CSV and its Vega-Lite file",
         CLI_TEXT, &question.figures},
        {"--table", "latex|md|csv", "prints the main table, and writes no page", CLI_TEXT,
         &question.table},
        {"--json", NULL, "prints what the page is drawn from, and writes no page", CLI_FLAG,
         &question.json},
        {"--quiet", NULL, "does not say what was written", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 1, 1, &positional, &exit_code)) {
        if (!read_figures(&question))
            exit_code = cli_malformed(
                "report --figures: found \"%s\", expected svg, pdf or svg,pdf", question.figures);
        else if (!read_form(&question))
            exit_code = cli_malformed("report --table: found \"%s\", expected latex, md or csv",
                                      question.table);
        else if (question.table != NULL && question.json)
            exit_code = cli_malformed("report: --table and --json both print; ask for one of them");
        else
            exit_code = report(&question, positional.items[0]);
    }
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
