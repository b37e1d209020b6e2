/* report.c -- what lies in a folder, and its page. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/explain.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "page_tree.h"

enum {
    ANSWER_BYTES_MAX = 256 << 20,
    PATH_BYTES = 4096
};

/* What becomes a page of its own kind; every other answer of kvtide becomes tables. */
static const struct report_kind kinds[] = {
    {"kvtide/result/1", "run", report_build_run},
    {"kvtide/compare/1", "compare", report_build_compare},
    {"kvtide/sweep/1", "sweep", report_build_sweep},
    {"kvtide/plan/1", "plan", report_build_plan},
    {"kvtide/validate/1", "validate", report_build_validate},
    {"kvtide/", "answer", report_build_any},
};
enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

/* Where commands put their answers, and the page of one that is drawn from more than its file
 * holds. */
static const char *const answers[] = {"result.json",  "compare.json", "validate.json",
                                      "results.json", "plan.json",    "paper.html"};
enum {
    ANSWERS = sizeof answers / sizeof answers[0]
};

/* ---- What kinds share ------------------------------------------------------------------------ */

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

    while (tree != NULL && path[0] != '\0') {
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
    return tree != NULL && cJSON_IsNumber(tree) ? tree->valuedouble : (double)NAN;
}

/* ---- The page of a file ---------------------------------------------------------------------- */

/* NULL: a question, or not kvtide's. */
static const struct report_kind *kind_of(const char *schema)
{
    static const char question[] = "kvtide/scenario/";

    if (strncmp(schema, question, sizeof question - 1) == 0)
        return NULL;
    for (size_t i = 0; i < KINDS; i++) {
        size_t length = strlen(kinds[i].schema);
        bool is_family = kinds[i].schema[length - 1] == '/';
        if (strncmp(schema, kinds[i].schema, length) == 0 && (is_family || schema[length] == '\0'))
            return &kinds[i];
    }
    return NULL;
}

/* What the page is called: the scenario that it is of, where it is of one. */
static const char *title_of(const cJSON *tree, const struct report_kind *kind)
{
    const cJSON *scenario = kvt_json_find(tree, "scenario");
    const char *name =
        cJSON_IsString(scenario) ? scenario->valuestring : report_text(scenario, "name");
    return name[0] != '\0' ? name : kind->name;
}

/* where: of the tree, for messages. */
static kvt_status build(const char *dir, const char *where, const cJSON *tree,
                        struct report_page **out, struct kvt_error *err)
{
    const struct report_kind *kind = kind_of(report_text(tree, "schema"));
    kvt_status status = KVT_OK;

    *out = NULL;
    if (kind == NULL)
        status = kvt_fail(
            err, KVT_ERR_INVALID, where,
            "found schema \"%s\", expected an answer of kvtide (kvtide/result/1 and others)",
            report_text(tree, "schema"));
    /* One of before results explained themselves has a page without it. */
    if (status == KVT_OK && kind->build == report_build_run &&
        kvt_json_find(tree, "explain") != NULL)
        status = kvt_explain_check(tree, where, err);
    if (status == KVT_OK && (*out = report_page_new(kind->name, title_of(tree, kind))) == NULL)
        status = kvt_fail_nomem(err, "a report");
    if (status == KVT_OK)
        status = kind->build(*out, dir, tree, err);
    if (status != KVT_OK) {
        report_page_free(*out);
        *out = NULL;
    }
    return status;
}

kvt_status report_write_tree(const cJSON *tree, FILE *stream, struct kvt_error *err)
{
    struct report_page *page = NULL;
    kvt_status status = build(".", "a report", tree, &page, err);

    if (status == KVT_OK)
        status = report_page_write(page, stream, err);
    report_page_free(page);
    return status;
}

static kvt_status load_and_build(const char *dir, const char *path, struct report_page **out,
                                 struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, ANSWER_BYTES_MAX, &tree, err);

    if (status == KVT_OK)
        status = build(dir, path, tree, out, err);
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

/* ---- What lies in a folder ------------------------------------------------------------------- */

/* The one file of the folder that is an answer; *name is of the program's life. */
static kvt_status find_answer(const char *dir, const char **name, struct kvt_error *err)
{
    char path[PATH_BYTES];

    *name = NULL;
    for (size_t i = 0; i < ANSWERS; i++) {
        kvt_status status = join(path, dir, answers[i], err);
        if (status != KVT_OK)
            return status;
        if (access(path, F_OK) != 0)
            continue;
        if (*name != NULL)
            return kvt_fail(err, KVT_ERR_INVALID, dir,
                            "found %s and %s; say which: kvtide report %s/%s", *name, answers[i],
                            dir, *name);
        *name = answers[i];
    }
    if (*name == NULL)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, dir,
                        "found no answer of kvtide, expected result.json, compare.json, "
                        "validate.json, results.json, plan.json or paper.html");
    return KVT_OK;
}

static bool is_page(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".html") == 0;
}

static kvt_status open_file(const char *dir, const char *name, struct report_page **out,
                            char **page_path, struct kvt_error *err)
{
    char path[PATH_BYTES], page[PATH_BYTES] = "";
    kvt_status status = join(path, dir, name, err);

    if (status == KVT_OK)
        status = join(page, dir, is_page(name) ? name : "report.html", err);
    if (status == KVT_OK && is_page(name))
        status = report_page_read(path, out, err);
    else if (status == KVT_OK)
        status = load_and_build(dir, path, out, err);
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

void report_remove(const char *dir)
{
    struct kvt_error err;
    char path[PATH_BYTES];

    if (join(path, dir, "report.html", &err) == KVT_OK)
        (void)remove(path);
}
