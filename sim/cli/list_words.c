/* list_words.c -- metrics, keys, settings, their values, trace formats and targets of the paper,
 * for `kvtide list`. */
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/report.h"
#include "kvt/scenario.h"
#include "list.h"
#include "paper/paper.h"

enum {
    SETTING_BYTES = 128
};

bool list_add_text(cJSON *entry, const char *key, const char *text)
{
    return text == NULL || cJSON_AddStringToObject(entry, key, text) != NULL;
}

bool list_add_number(cJSON *entry, const char *key, double value)
{
    return cJSON_AddNumberToObject(entry, key, value) != NULL;
}

cJSON *list_add_entry(cJSON *array, const char *name_key, const char *name)
{
    cJSON *entry = cJSON_CreateObject();

    if (entry != NULL && list_add_text(entry, name_key, name) && cJSON_AddItemToArray(array, entry))
        return entry;
    cJSON_Delete(entry);
    return NULL;
}

kvt_status list_metrics(cJSON *array, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t i = 0; i < count; i++) {
        cJSON *entry = list_add_entry(array, "name", docs[i].name);
        if (entry == NULL || !list_add_text(entry, "unit", docs[i].unit) ||
            !list_add_text(entry, "help", docs[i].help))
            return kvt_fail_nomem(err, "the list of metrics");
    }
    return KVT_OK;
}

static bool add_key(cJSON *array, const struct kvt_key_doc *doc)
{
    cJSON *entry = list_add_entry(array, "path", doc->path);

    return entry != NULL && list_add_text(entry, "type", doc->type) &&
           list_add_text(entry, "range", doc->range[0] != '\0' ? doc->range : NULL) &&
           list_add_text(entry, "default", doc->dflt[0] != '\0' ? doc->dflt : NULL) &&
           list_add_text(entry, "takes", doc->takes[0] != '\0' ? doc->takes : NULL) &&
           list_add_text(entry, "help", doc->help) && list_add_text(entry, "refused", doc->refused);
}

/* "residency(adaptive).refill_gb_per_s" as --set has it, of whichever is chosen; false for what it
 * does not take: members of a list, which are there once the list is, what is read from files only,
 * and what is refused. */
static bool setting_of(const struct kvt_key_doc *doc, char out[SETTING_BYTES])
{
    size_t used = 0;
    bool is_inside = false;

    if (doc->refused != NULL || strstr(doc->path, "[]") != NULL ||
        strcmp(doc->path, "extends") == 0)
        return false;
    for (const char *at = doc->path; *at != '\0' && used + 1 < SETTING_BYTES; at++) {
        is_inside = is_inside || *at == '(';
        if (!is_inside)
            out[used++] = *at;
        is_inside = is_inside && *at != ')';
    }
    out[used] = '\0';
    return true;
}

static bool is_listed(const cJSON *array, const char *path)
{
    const cJSON *entry = NULL;

    cJSON_ArrayForEach(entry, array)
    {
        if (strcmp(kvt_json_find(entry, "path")->valuestring, path) == 0)
            return true;
    }
    return false;
}

static bool add_setting(cJSON *array, const struct kvt_key_doc *doc)
{
    char path[SETTING_BYTES];

    return !setting_of(doc, path) || is_listed(array, path) ||
           list_add_entry(array, "path", path) != NULL;
}

/* "a | b" as "PATH=a" and "PATH=b"; ".." stands there for those that have no room. */
static bool add_values(cJSON *array, const struct kvt_key_doc *doc)
{
    char path[SETTING_BYTES], setting[2 * SETTING_BYTES];
    const char *values = strcmp(doc->type, "choice") == 0 ? doc->range
                         : strcmp(doc->type, "bool") == 0 ? "true | false"
                                                          : "";

    if (!setting_of(doc, path))
        return true;
    for (const char *at = values; *at != '\0'; at += strspn(at, " |")) {
        size_t length = strcspn(at, " |");
        (void)snprintf(setting, sizeof setting, "%s=%.*s", path, (int)length, at);
        if (at[0] != '.' && !is_listed(array, setting) &&
            list_add_entry(array, "path", setting) == NULL)
            return false;
        at += length;
    }
    return true;
}

static kvt_status add_keys(cJSON *array, bool (*add)(cJSON *array, const struct kvt_key_doc *doc),
                           const char *what, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    const struct kvt_key_doc *docs = NULL;
    size_t count = 0;
    kvt_status status =
        arena != NULL ? kvt_scenario_keys(arena, &docs, &count, err) : kvt_fail_nomem(err, what);

    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        if (!add(array, &docs[i]))
            status = kvt_fail_nomem(err, what);
    }
    kvt_arena_free(arena);
    return status;
}

kvt_status list_keys(cJSON *array, struct kvt_error *err)
{
    return add_keys(array, add_key, "the list of keys", err);
}

kvt_status list_settings(cJSON *array, struct kvt_error *err)
{
    return add_keys(array, add_setting, "the list of settings", err);
}

kvt_status list_values(cJSON *array, struct kvt_error *err)
{
    return add_keys(array, add_values, "the list of values", err);
}

kvt_status list_formats(cJSON *array, struct kvt_error *err)
{
    for (const char *const *name = kvt_trace_formats(); *name != NULL; name++) {
        if (list_add_entry(array, "name", *name) == NULL)
            return kvt_fail_nomem(err, "the list of trace formats");
    }
    return KVT_OK;
}

/* A target's statement is in the paper's words: what `paper` prints. */
kvt_status list_targets(cJSON *array, struct kvt_error *err)
{
    struct paper paper = {.threads = 1};
    struct kvt_arena *arena = kvt_arena_new(1 << 20);
    kvt_status status = arena != NULL ? paper_load(cli_data_dir(), arena, &paper, err)
                                      : kvt_fail_nomem(err, "the list of targets");

    for (size_t i = 0; status == KVT_OK && i < paper.target_count; i++) {
        cJSON *entry = list_add_entry(array, "name", paper.targets[i].id);
        if (entry == NULL || !list_add_text(entry, "summary", paper.targets[i].statement))
            status = kvt_fail_nomem(err, "the list of targets");
    }
    paper_free_trees(&paper);
    kvt_arena_free(arena);
    return status;
}
