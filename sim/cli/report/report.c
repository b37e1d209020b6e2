/* report.c -- what lies in a folder, and its page. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "page_tree.h"

enum {
    ANSWER_BYTES_MAX = 256 << 20,
    PATH_BYTES = 4096
};

static const struct report_kind kinds[] = {
    {"result.json", "kvtide/result/1", report_build_run, "run"},
    {"compare.json", "kvtide/compare/1", report_build_compare, "compare"},
};
enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

/* ---- What kinds share -------------------------------------------------------------------------------- */

void report_add_badge(struct report_page *page, const cJSON *tree)
{
    struct kvt_badge badge;

    if (kvt_badge_read(tree, &badge))
        report_put_badge(page, &badge);
}

void report_add_scenario(struct report_page *page, const char *title, const cJSON *scenario)
{
    char *text = scenario != NULL ? kvt_json_print(scenario) : NULL;

    if (text != NULL) {
        report_section(page, title, NULL);
        report_fold(page, "Show it", text);
    }
    free(text);
}

double report_number(const cJSON *tree, const char *path)
{
    char key[128];

    while (tree != NULL) {
        size_t length = strcspn(path, ".");
        if (length >= sizeof key)
            return (double)NAN;
        memcpy(key, path, length);
        key[length] = '\0';
        tree = kvt_json_find(tree, key);
        if (path[length] == '\0')
            break;
        path += length + 1;
    }
    return cJSON_IsNumber(tree) ? tree->valuedouble : (double)NAN;
}

/* ---- The page of a file ------------------------------------------------------------------------------ */

/* What the page is called: the scenario, or scenarios, that it is of. */
static const char *title_of(const cJSON *tree, const struct report_kind *kind)
{
    const char *name = report_text(kvt_json_find(tree, "scenario"), "name");
    return name[0] != '\0' ? name : kind->kind;
}

static kvt_status build(const struct report_kind *kind, const char *dir, const char *path,
                        struct report_page **out, struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, ANSWER_BYTES_MAX, &tree, err);

    if (status == KVT_OK && strcmp(report_text(tree, "schema"), kind->schema) != 0)
        status = kvt_fail(err, KVT_ERR_INVALID, path, "found schema \"%s\", expected \"%s\"",
                          report_text(tree, "schema"), kind->schema);
    if (status == KVT_OK && (*out = report_page_new(kind->kind, title_of(tree, kind))) == NULL)
        status = kvt_fail_nomem(err, "a report");
    if (status == KVT_OK)
        status = kind->build(*out, dir, tree, err);
    if (status != KVT_OK) {
        report_page_free(*out);
        *out = NULL;
    }
    cJSON_Delete(tree);
    return status;
}

static kvt_status join(char out[PATH_BYTES], const char *dir, const char *name,
                       struct kvt_error *err)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return length >= 0 && length < PATH_BYTES
               ? KVT_OK
               : kvt_fail(err, KVT_ERR_INVALID, "report", "the folder's name is too long");
}

/* ---- What lies in a folder --------------------------------------------------------------------------- */

/* Pages of commands whose answer is drawn from more than their files hold. */
static const char *const pages[] = {"paper.html", "timeline.html"};
enum {
    PAGES = sizeof pages / sizeof pages[0]
};

/* The one file of the folder that is an answer; *name is of the program's life. */
static kvt_status find_answer(const char *dir, const char **name, struct kvt_error *err)
{
    char path[PATH_BYTES];

    *name = NULL;
    for (size_t i = 0; i < KINDS + PAGES; i++) {
        const char *file = i < KINDS ? kinds[i].file : pages[i - KINDS];
        kvt_status status = join(path, dir, file, err);
        if (status != KVT_OK)
            return status;
        if (access(path, F_OK) != 0)
            continue;
        if (*name != NULL)
            return kvt_fail(err, KVT_ERR_INVALID, dir,
                            "found %s and %s; say which: kvtide report %s/%s", *name, file, dir,
                            *name);
        *name = file;
    }
    if (*name == NULL)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, dir,
                        "found no answer of kvtide, expected result.json, compare.json or a page "
                        "(paper.html, timeline.html)");
    return KVT_OK;
}

static const struct report_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].file, name) == 0)
            return &kinds[i];
    }
    return NULL;
}

static bool is_page(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".html") == 0;
}

static kvt_status open_file(const char *dir, const char *name, struct report_page **out,
                            char **page_path, struct kvt_error *err)
{
    char path[PATH_BYTES], page[PATH_BYTES];
    const struct report_kind *kind = kind_of(name);
    kvt_status status = join(path, dir, name, err);

    if (status == KVT_OK)
        status = join(page, dir, is_page(name) ? name : "report.html", err);
    if (status == KVT_OK && is_page(name))
        status = report_page_read(path, out, err);
    else if (status == KVT_OK && kind != NULL)
        status = build(kind, dir, path, out, err);
    else if (status == KVT_OK)
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "expected result.json, compare.json or a page of kvtide (.html)");
    if (status == KVT_OK && (*page_path = strdup(page)) == NULL) {
        report_page_free(*out);
        *out = NULL;
        status = kvt_fail_nomem(err, "a file's name");
    }
    return status;
}

kvt_status report_open(const char *path, struct report_page **out, char **page_path,
                       struct kvt_error *err)
{
    struct stat found;
    const char *name = NULL;
    char dir[PATH_BYTES];

    *out = NULL;
    *page_path = NULL;
    if (stat(path, &found) != 0)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, path, "there is no such folder or file");
    if (S_ISDIR(found.st_mode)) {
        kvt_status status = find_answer(path, &name, err);
        return status == KVT_OK ? open_file(path, name, out, page_path, err) : status;
    }
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) : 1;
    if (length >= sizeof dir)
        return kvt_fail(err, KVT_ERR_INVALID, "report", "the file's name is too long");
    memcpy(dir, slash != NULL ? path : ".", length);
    dir[length] = '\0';
    return open_file(slash == path ? "/" : dir, slash != NULL ? slash + 1 : path, out, page_path,
                     err);
}

kvt_status report_write(const char *dir, const char *file, struct kvt_error *err)
{
    struct report_page *page = NULL;
    struct kvt_outfile *out = NULL;
    char *path = NULL;
    kvt_status status = open_file(dir, file, &page, &path, err);

    if (status == KVT_OK)
        status = kvt_outfile_open(path, &out, err);
    if (status == KVT_OK)
        status = report_page_write(page, kvt_outfile_stream(out), err);
    if (status == KVT_OK) {
        status = kvt_outfile_commit(out, err);
        out = NULL;
    }
    kvt_outfile_discard(out);
    report_page_free(page);
    free(path);
    return status;
}
