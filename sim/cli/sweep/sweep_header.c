/* sweep_header.c -- the question of a sweep as JSON: what its results are made of, and what tells
 * it from every other. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/json.h"
#include "kvt/plugins.h"
#include "kvt/version.h"
#include "sweep.h"

/* ---- Making one ------------------------------------------------------------------------------ */

/* The scenario that all points start from; where it cannot be loaded for itself, because axes bring
 * what it lacks, that of the first point which can. *point is then its number, else -1. */
static kvt_status load_base(const struct sweep_question *question, struct kvt_arena *arena,
                            struct kvt_scenario *out, double *point, struct kvt_error *err)
{
    size_t first = 0;
    uint64_t hash = 0;

    *point = -1;
    if (sweep_load_base(question, arena, out, NULL) == KVT_OK)
        return KVT_OK;
    while (first + 1 < question->grid.point_count && question->points[first].status != KVT_OK)
        first++;
    *point = (double)first;
    return sweep_load_point(question, first, arena, out, &hash, err);
}

static bool add_copy(cJSON *object, const char *key, const cJSON *tree)
{
    return kvt_json_add(object, key, cJSON_Duplicate(tree, true));
}

static bool add_base(const struct kvt_scenario *base, double point, cJSON *header)
{
    cJSON *number = point < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(point);

    return kvt_json_add(header, "scenario_point", number) &&
           add_copy(header, "inputs", base->inputs) && add_copy(header, "scenario", base->tree);
}

static bool add_plugins(cJSON *header)
{
    size_t count = 0;
    const struct kvt_plugin_file *files = kvt_plugins_files(cli_plugins(), &count);
    cJSON *array = cJSON_AddArrayToObject(header, "plugins");
    bool ok = array != NULL;

    for (size_t i = 0; ok && i < count; i++) {
        char hash[SWEEP_HASH_BYTES];
        cJSON *entry = kvt_json_add_element(array);
        (void)snprintf(hash, sizeof hash, "%016" PRIx64, files[i].hash);
        ok = entry != NULL && kvt_json_add_text(entry, "path", files[i].path) &&
             kvt_json_add_text(entry, "hash", hash);
    }
    return ok;
}

static bool add_seeds(const struct sweep_question *question, uint64_t first, cJSON *header)
{
    cJSON *array = cJSON_AddArrayToObject(header, "seeds");
    bool ok = array != NULL;

    for (size_t s = 0; ok && s < question->seed_count; s++)
        ok = cJSON_AddItemToArray(array, cJSON_CreateNumber((double)(first + s)));
    return ok;
}

/* Everything about every point: two sweeps of one chain ask the same. */
static bool add_points(const struct sweep_question *question, cJSON *header)
{
    char hash[SWEEP_HASH_BYTES];
    uint64_t chain = 0;

    for (size_t p = 0; p < question->grid.point_count; p++)
        chain = kvt_chain64(chain, question->points[p].hash);
    (void)snprintf(hash, sizeof hash, "%016" PRIx64, chain);
    return kvt_json_add_number(header, "points", (double)question->grid.point_count) &&
           kvt_json_add_text(header, "points_hash", hash) &&
           kvt_json_add_number(header, "runs",
                               (double)(question->grid.point_count * question->seed_count));
}

static bool add_shard(const struct sweep_question *question, cJSON *header)
{
    return kvt_json_add_number(header, "shard", question->shard + 1.0) &&
           kvt_json_add_number(header, "shards", question->shard_count);
}

static bool add_metric_names(cJSON *header)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *array = cJSON_AddArrayToObject(header, "metrics");
    bool ok = array != NULL;

    for (size_t m = 0; ok && m < count; m++)
        ok = cJSON_AddItemToArray(array, cJSON_CreateString(docs[m].name));
    return ok;
}

kvt_status sweep_header(const struct sweep_question *question, cJSON **out, struct kvt_error *err)
{
    cJSON *header = cJSON_CreateObject(), *axes = NULL;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario base = {.seed = 0};
    double point = -1;
    kvt_status status = arena != NULL && header != NULL ? KVT_OK : kvt_fail_nomem(err, "a sweep");

    if (status == KVT_OK)
        status = load_base(question, arena, &base, &point, err);
    if (status == KVT_OK)
        status = sweep_grid_to_json(&question->grid, &axes, err);
    if (status == KVT_OK &&
        !(kvt_json_add(header, "axes", axes) &&
          kvt_json_add_text(header, "schema", SWEEP_JOURNAL_SCHEMA) &&
          kvt_json_add_text(header, "version", kvt_version()) &&
          kvt_json_add_text(header, "commit", kvt_commit()) &&
          kvt_json_add_text(header, "source", question->source) && add_shard(question, header) &&
          add_points(question, header) && add_seeds(question, base.seed, header) &&
          add_plugins(header) && add_metric_names(header) && add_base(&base, point, header)))
        status = kvt_fail_nomem(err, "a sweep");
    kvt_arena_free(arena);
    if (status != KVT_OK) {
        cJSON_Delete(header);
        return status;
    }
    *out = header;
    return KVT_OK;
}

/* ---- Two of them ----------------------------------------------------------------------------- */

/* The dotted path of the first value that differs; empty where none does. */
/* NOLINTNEXTLINE(misc-no-recursion): the reader has bounded the depth */
static bool find_difference(const cJSON *ours, const cJSON *theirs, char *path, size_t path_bytes)
{
    size_t used = strlen(path);

    if (!cJSON_IsObject(ours) || !cJSON_IsObject(theirs))
        return cJSON_Compare(ours, theirs, true) == 0;
    for (int turn = 0; turn < 2; turn++) {
        const cJSON *from = turn == 0 ? ours : theirs, *other = turn == 0 ? theirs : ours;
        for (const cJSON *item = from->child; item != NULL; item = item->next) {
            const cJSON *match = kvt_json_find(other, item->string);
            (void)snprintf(path + used, path_bytes - used, "%s%s", used > 0 ? "." : "",
                           item->string);
            if (match == NULL || find_difference(item, match, path, path_bytes))
                return true;
            path[used] = '\0';
        }
    }
    return false;
}

/* A value as a sentence may hold it. */
static void describe(const cJSON *value, char *out, size_t bytes)
{
    char *text = value != NULL ? sweep_print_line(value) : NULL;

    (void)snprintf(out, bytes, "%.120s%s", text != NULL ? text : "nothing",
                   text != NULL && strlen(text) > 120 ? ".." : "");
    free(text);
}

/* NOLINTNEXTLINE(misc-no-recursion): one level a name between dots */
static const cJSON *at_path(const cJSON *tree, const char *path)
{
    for (const cJSON *item = tree != NULL ? tree->child : NULL; item != NULL; item = item->next) {
        size_t length = item->string != NULL ? strlen(item->string) : 0;
        if (length == 0 || strncmp(item->string, path, length) != 0)
            continue;
        if (path[length] == '\0')
            return item;
        if (path[length] == '.')
            return at_path(item, path + length + 1);
    }
    return NULL;
}

static kvt_status fail_differs(const char *what, const cJSON *ours, const cJSON *theirs,
                               const char *where, struct kvt_error *err)
{
    char wanted[160], found[160];

    describe(ours, wanted, sizeof wanted);
    describe(theirs, found, sizeof found);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "its sweep is of another question: %.150s is %s there, and %s here%s", what,
                    found, wanted,
                    strcmp(what, "points_hash") == 0 ? " (of what the points' files hold)" : "");
}

kvt_status sweep_header_check(const cJSON *ours, const cJSON *theirs, const char *where,
                              bool with_shard, struct kvt_error *err)
{
    /* What a person can name first; points_hash is all that may be left. */
    static const char *const members[] = {"version", "commit",  "scenario",   "seeds",
                                          "axes",    "plugins", "metrics",    "runs",
                                          "shards",  "shard",   "points_hash"};

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        char path[512];
        if (strcmp(members[i], "shard") == 0 && !with_shard)
            continue;
        (void)snprintf(path, sizeof path, "%s", members[i]);
        if (find_difference(at_path(ours, path), at_path(theirs, path), path, sizeof path))
            return fail_differs(path, at_path(ours, path), at_path(theirs, path), where, err);
    }
    return KVT_OK;
}
