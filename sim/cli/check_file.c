/* check_file.c -- one input file: told by its content, then read as strictly as a run would.
 *
 *     begins as an ELF file does, or is named FILE.so:         a plug-in
 *     begins with '{' and is one JSON object with a "schema":  that kind of file
 *     begins with '{' and its first line is an object by itself: a trace in JSON Lines
 *     anything else:                                            a trace, in whatever format */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "cli.h"
#include "kvt/compare.h"
#include "kvt/costs.h"
#include "kvt/engine.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/profile.h"
#include "kvt/speculation.h"
#include "measure/grid.h"
#include "measure/validate_public.h"

enum {
    JSON_BYTES_MAX = 64 << 20, /* as scenarios and results are read; traces may be longer */
    PATH_BYTES = 4352
};

/* ---- Kinds -------------------------------------------------------------------------- */

typedef kvt_status check_tree(const cJSON *tree, const char *path, struct kvt_arena *arena,
                              struct kvt_error *err);

static kvt_status check_scenario(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                 struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins()};
    struct kvt_scenario scenario;

    (void)tree; /* read again, with everything it extends */
    return kvt_scenario_load(path, &options, arena, &scenario, err);
}

static kvt_status check_model(const cJSON *tree, const char *path, struct kvt_arena *arena,
                              struct kvt_error *err)
{
    struct kvt_llm llm;
    return kvt_llm_from_json(tree, path, arena, &llm, err);
}

static kvt_status check_hardware(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                 struct kvt_error *err)
{
    struct kvt_hardware hardware;
    return kvt_hardware_from_json(tree, path, arena, &hardware, err);
}

static kvt_status check_drafter(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                struct kvt_error *err)
{
    struct kvt_drafter drafter;
    return kvt_drafter_from_json(tree, path, arena, &drafter, err);
}

static kvt_status check_engine_file(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                    struct kvt_error *err)
{
    struct kvt_engine engine;
    return kvt_engine_from_json(tree, path, arena, &engine, err);
}

static kvt_status check_acceptance(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                   struct kvt_error *err)
{
    (void)tree; /* read again */
    (void)arena;
    return kvt_acceptance_check(path, err);
}

static kvt_status check_costs(const cJSON *tree, const char *path, struct kvt_arena *arena,
                              struct kvt_error *err)
{
    struct kvt_costs costs;

    (void)tree; /* read again */
    (void)arena;
    return kvt_costs_load(path, &costs, err);
}

static kvt_status check_profile(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                struct kvt_error *err)
{
    struct kvt_profile profile;

    (void)tree; /* read again */
    (void)arena;
    return kvt_profile_load(path, &profile, err);
}

static kvt_status check_points(const cJSON *tree, const char *path, struct kvt_arena *arena,
                               struct kvt_error *err)
{
    struct points points = {.items = NULL};
    kvt_status status = points_load(path, arena, &points, err);

    (void)tree; /* read again */
    points_free(&points);
    return status;
}

/* Each run's scenario, too. */
static kvt_status check_grid(const cJSON *tree, const char *path, struct kvt_arena *arena,
                             struct kvt_error *err)
{
    const struct cli_texts none = {.count = 0};
    struct grid *grid = NULL;
    kvt_status status = grid_load(path, arena, &grid, err);

    (void)tree; /* read again */
    return status == KVT_OK ? grid_check(grid, &none, arena, err) : status;
}

static kvt_status check_public(const cJSON *tree, const char *path, struct kvt_arena *arena,
                               struct kvt_error *err)
{
    struct public_setting *setting = NULL;

    (void)tree; /* read again */
    return public_setting_load(path, arena, &setting, err);
}

static kvt_status check_reference(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                  struct kvt_error *err)
{
    const struct kvt_reference *reference = NULL;
    return kvt_reference_from_json(tree, path, arena, &reference, err);
}

/* Known metrics only, each a number or null. */
static kvt_status check_metrics(const cJSON *metrics, const char *where, struct kvt_error *err)
{
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, metrics)
    {
        size_t metric = 0;
        kvt_status status = kvt_metric_find(item->string, where, &metric, err);
        if (status != KVT_OK)
            return status;
        if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
            return kvt_fail(err, KVT_ERR_INVALID, where, "%s is neither a number nor null",
                            item->string);
    }
    return KVT_OK;
}

/* The parts that others read: the hash, the metrics, the scenario that can run again. */
static kvt_status check_result(const cJSON *tree, const char *path, struct kvt_arena *arena,
                               struct kvt_error *err)
{
    char where[320];
    const char *hash = NULL;
    const cJSON *metrics = NULL, *scenario = NULL;

    snprintf(where, sizeof where, "%.255s#", path);
    /* Mean values decide nothing, and have null there. */
    bool is_none = cJSON_IsNull(kvt_json_find(tree, "decision_hash"));
    kvt_status status =
        is_none ? KVT_OK : kvt_json_get_text(tree, where, "decision_hash", true, &hash, err);
    if (status == KVT_OK && !is_none &&
        (strlen(hash) != 16 || strspn(hash, "0123456789abcdef") != 16))
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "decision_hash is \"%.40s\", not 16 hexadecimal digits", hash);
    if (status == KVT_OK)
        status = kvt_json_get_object(tree, where, "metrics", true, &metrics, err);
    if (status == KVT_OK)
        status = kvt_json_get_object(tree, where, "scenario", true, &scenario, err);
    snprintf(where, sizeof where, "%.255s#/metrics", path);
    if (status == KVT_OK)
        status = check_metrics(metrics, where, err);
    return status == KVT_OK ? check_scenario(tree, path, arena, err) : status;
}

static const struct file_kind {
    const char *schema, *noun;
    check_tree *check;
} kinds[] = {
    {"kvtide/scenario/1", "scenario", check_scenario},
    {"kvtide/llm/1", "model", check_model},
    {"kvtide/hardware/1", "hardware", check_hardware},
    {"kvtide/drafter/1", "drafter", check_drafter},
    {"kvtide/engine/1", "engine", check_engine_file},
    {"kvtide/acceptance/1", "acceptance table", check_acceptance},
    {"kvtide/costs/1", "cost table", check_costs},
    {"kvtide/profile/1", "profile", check_profile},
    {"kvtide/points/1", "points", check_points},
    {"kvtide/grid/1", "grid", check_grid},
    {"kvtide/public/1", "published measurement", check_public},
    {"kvtide/result/1", "result", check_result},
    {KVT_REFERENCE_SCHEMA, "reference", check_reference},
};
enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

static kvt_status find_kind(const char *path, const char *schema, const struct file_kind **out,
                            struct kvt_error *err)
{
    char known[384] = "", where[320];
    size_t used = 0;

    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].schema, schema) == 0) {
            *out = &kinds[i];
            return KVT_OK;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, " %s", kinds[i].schema);
    }
    snprintf(where, sizeof where, "%.255s#/schema", path);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "\"%.60s\" is no kind of file that is read here; there are:%s", schema, known);
}

/* ---- Telling them apart ---------------------------------------------------------------- */

/* Is the first line an object by itself, of no schema of ours, with more lines behind it? */
static bool is_json_lines(const char *text, const char *path)
{
    cJSON *tree = NULL;
    size_t line = strcspn(text, "\n");

    if (text[line] == '\0' || text[line + 1 + strspn(text + line + 1, " \t\r\n")] == '\0')
        return false;
    bool is_row = kvt_json_parse(text, line, path, 1, &tree, NULL) == KVT_OK &&
                  kvt_json_find(tree, "schema") == NULL;
    cJSON_Delete(tree);
    return is_row;
}

/* A scenario that lacks its schema: sections that no row of a trace and no benchmark has. */
static bool has_sections(const cJSON *tree)
{
    static const char *const names[] = {"extends", "cluster", "residency", "workload"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (kvt_json_find(tree, names[i]) != NULL)
            return true;
    }
    return false;
}

/* The file as one JSON object that names its schema, or should; *out stays NULL where it may be a
 * trace. */
static kvt_status read_tree(const char *path, cJSON **out, struct kvt_error *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_file_read(path, JSON_BYTES_MAX, &text, &text_bytes, err);

    if (status != KVT_OK)
        return status;
    const char *begin = text + (strncmp(text, byte_order_mark, 3) == 0 ? 3 : 0);
    if (begin[strspn(begin, " \t\r\n")] == '{' && !is_json_lines(begin, path))
        status = kvt_json_parse(text, text_bytes, path, 1, out, err);
    free(text);
    if (status == KVT_OK && kvt_json_find(*out, "schema") == NULL && !has_sections(*out)) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return status;
}

static kvt_status check_trace(const char *path, struct checked_file *out)
{
    const struct kvt_trace_options options = {.path = path, .format = "auto", .rate_scale = 1};
    struct kvt_trace *trace = NULL;
    kvt_status status = kvt_trace_open(&options, &trace, &out->err);

    if (status != KVT_OK)
        return status;
    out->noun = "trace";
    snprintf(out->detail, sizeof out->detail, "%s", kvt_trace_account_of(trace)->format);
    kvt_trace_close(trace);
    return KVT_OK;
}

static kvt_status check_by_schema(const cJSON *tree, const char *path, struct checked_file *out)
{
    char where[320];
    const char *schema = NULL;
    const struct file_kind *kind = NULL;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    kvt_status status = arena != NULL ? KVT_OK : kvt_fail_nomem(&out->err, "a file");

    snprintf(where, sizeof where, "%.255s#", path);
    if (status == KVT_OK && kvt_json_find(tree, "schema") == NULL)
        status =
            kvt_fail(&out->err, KVT_ERR_INVALID, where,
                     "there is no \"schema\"; a scenario says \"schema\": \"%s\"", kinds[0].schema);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "schema", true, &schema, &out->err);
    if (status == KVT_OK)
        status = find_kind(path, schema, &kind, &out->err);
    if (status == KVT_OK) {
        out->noun = kind->noun;
        status = kind->check(tree, path, arena, &out->err);
    }
    kvt_arena_free(arena);
    return status;
}

static kvt_status check_path(const char *path, off_t bytes, struct checked_file *out)
{
    cJSON *tree = NULL;

    if (check_is_plugin(path))
        return check_plugin(path, out);
    kvt_status status = bytes <= JSON_BYTES_MAX ? read_tree(path, &tree, &out->err) : KVT_OK;

    if (status == KVT_OK)
        status = tree != NULL ? check_by_schema(tree, path, out) : check_trace(path, out);
    cJSON_Delete(tree);
    return status;
}

/* "trace.csv", but not "glm-5.3-100k": letters alone behind the last dot. */
static bool has_extension(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (dot == NULL || dot[1] == '\0')
        return false;
    for (const char *at = dot + 1; *at != '\0'; at++) {
        if (*at < 'a' || *at > 'z')
            return false;
    }
    return true;
}

static kvt_status check_shipped(const char *name, struct checked_file *out)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    kvt_status status = arena != NULL ? check_scenario(NULL, name, arena, &out->err)
                                      : kvt_fail_nomem(&out->err, "a scenario");

    out->noun = "scenario";
    kvt_arena_free(arena);
    return status;
}

void check_file(const char *file, struct checked_file *out)
{
    char path[PATH_BYTES];
    struct stat facts;

    *out = (struct checked_file){.file = file};
    /* A scenario's loader takes what has a '/' for a path. */
    bool has_slash = strchr(file, '/') != NULL;
    int length = snprintf(path, sizeof path, "%s%s", has_slash ? "" : "./", file);
    if (length < 0 || (size_t)length >= sizeof path)
        out->status = kvt_fail(&out->err, KVT_ERR_INVALID, "check", "a file's name is too long");
    else if (stat(file, &facts) == 0)
        out->status =
            S_ISREG(facts.st_mode)
                ? check_path(path, facts.st_size, out)
                : kvt_fail(&out->err, KVT_ERR_IO, file,
                           "this is not an ordinary file; one is needed, which can be read twice");
    else if (errno == ENOENT && !has_slash && !has_extension(file))
        out->status = check_shipped(file, out);
    else
        out->status = kvt_fail(&out->err, errno == ENOENT ? KVT_ERR_NOT_FOUND : KVT_ERR_IO, file,
                               errno == ENOENT ? "no such file" : "this file cannot be looked at");
}

void check_file_free(struct checked_file *checked)
{
    free(checked->tables);
    checked->tables = NULL;
}
