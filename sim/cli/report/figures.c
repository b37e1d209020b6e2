/* figures.c -- the charts of a page as files, drawn by the page's own runtime under node. */
#include "figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "page_tree.h"
#include "runtime.h"
#include "template.h"

enum {
    PATH_BYTES = 4096,
    DRAWN_BYTES_MAX = 512 << 20
};

/* ---- Drawn by node --------------------------------------------------------------------------- */

/* Without the tables, of all sections. Borrows from the page. */
static cJSON *charts_of(const cJSON *tree)
{
    const cJSON *section = NULL;
    cJSON *block = NULL, *charts = cJSON_CreateArray();

    cJSON_ArrayForEach(section, kvt_json_find(tree, "sections"))
    {
        cJSON_ArrayForEach(block, kvt_json_find(section, "blocks"))
        {
            if (strcmp(report_text(block, "type"), "chart") == 0 &&
                !cJSON_AddItemReferenceToArray(charts, block)) {
                cJSON_Delete(charts);
                return NULL;
            }
        }
    }
    return charts;
}

/* The library, the charts, and what draws them, as one script. */
static kvt_status write_script(const cJSON *charts, FILE *stream, struct kvt_error *err)
{
    fputs(report_library_js, stream);
    fputs("globalThis.kvtideCharts = ", stream);
    report_json_print(charts, stream);
    fputs(";\n", stream);
    fputs(report_figures_js, stream);
    return ferror(stream) == 0
               ? KVT_OK
               : kvt_fail_system(err, errno, "a temporary file", "it cannot be written");
}

/* An array of {id, svg, csv, spec}; the caller's to delete. */
static kvt_status draw(const cJSON *charts, cJSON **out, struct kvt_error *err)
{
    static const char *const node[] = {"node", "-", NULL};
    FILE *script = tmpfile();
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status =
        script != NULL ? write_script(charts, script, err)
                       : kvt_fail_system(err, errno, "a temporary file", "it cannot be written");

    if (status == KVT_OK)
        status = child_run(node, "nodejs", script, &text, &text_bytes, err);
    if (status == KVT_OK)
        status = kvt_json_parse(text, text_bytes, "what node drew", 1, out, err);
    free(text);
    if (script != NULL)
        fclose(script);
    return status;
}

/* ---- As files -------------------------------------------------------------------------------- */

static kvt_status write_file(const char *dir, const char *id, const char *ending, const char *bytes,
                             size_t byte_count, struct kvt_error *err)
{
    char path[PATH_BYTES];
    struct kvt_outfile *file = NULL;
    int length = snprintf(path, sizeof path, "%s/%s%s", dir, id, ending);

    if (length < 0 || (size_t)length >= sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "report --figures", "the folder's name is too long");
    kvt_status status = kvt_outfile_open(path, &file, err);
    if (status != KVT_OK)
        return status;
    (void)fwrite(bytes, 1, byte_count, kvt_outfile_stream(file)); /* commit tells what failed */
    return kvt_outfile_commit(file, err);
}

static kvt_status write_pdf(const char *dir, const char *id, const char *svg, struct kvt_error *err)
{
    static const char *const convert[] = {"rsvg-convert", "--format=pdf", NULL};
    FILE *input = tmpfile();
    char *pdf = NULL;
    size_t pdf_bytes = 0;
    kvt_status status = KVT_OK;

    if (input == NULL || fputs(svg, input) < 0)
        status = kvt_fail_system(err, errno, "a temporary file", "it cannot be written");
    if (status == KVT_OK)
        status = child_run(convert, "librsvg2-bin", input, &pdf, &pdf_bytes, err);
    if (status == KVT_OK)
        status = write_file(dir, id, ".pdf", pdf, pdf_bytes, err);
    free(pdf);
    if (input != NULL)
        fclose(input);
    return status;
}

static kvt_status write_texts(const char *dir, const cJSON *drawn, bool svg, struct kvt_error *err)
{
    const char *id = report_text(drawn, "id");
    const struct {
        const char *key, *ending;
        bool is_wanted;
    } texts[] = {{"svg", ".svg", svg}, {"csv", ".csv", true}, {"spec", ".vl.json", true}};
    kvt_status status = KVT_OK;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == KVT_OK; i++) {
        const char *text = report_text(drawn, texts[i].key);
        if (texts[i].is_wanted)
            status = write_file(dir, id, texts[i].ending, text, strlen(text), err);
    }
    return status;
}

kvt_status report_figures(struct report_page *page, const char *dir, bool svg, bool pdf,
                          size_t *count, struct kvt_error *err)
{
    const cJSON *tree = report_page_finish(page);
    cJSON *charts = tree != NULL ? charts_of(tree) : NULL, *drawn = NULL;
    const cJSON *each = NULL;
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s/figures", dir);
    kvt_status status =
        charts != NULL ? draw(charts, &drawn, err) : kvt_fail_nomem(err, "the charts of a report");

    *count = 0;
    /* A date would make each file another. */
    if (status == KVT_OK && setenv("SOURCE_DATE_EPOCH", "0", 0) != 0)
        status = kvt_fail_nomem(err, "a variable");
    if (status == KVT_OK && (length < 0 || (size_t)length >= sizeof folder))
        status =
            kvt_fail(err, KVT_ERR_INVALID, "report --figures", "the folder's name is too long");
    if (status == KVT_OK)
        status = kvt_mkdirs(folder, err);
    cJSON_ArrayForEach(each, drawn)
    {
        if (status == KVT_OK && !report_is_file_name(report_text(each, "id")))
            status = kvt_fail(err, KVT_ERR_INTERNAL, "report --figures", "a chart without a name");
        if (status == KVT_OK)
            status = write_texts(folder, each, svg, err);
        if (status == KVT_OK && pdf)
            status = write_pdf(folder, report_text(each, "id"), report_text(each, "svg"), err);
        *count += status == KVT_OK;
    }
    cJSON_Delete(drawn);
    cJSON_Delete(charts);
    return status;
}
