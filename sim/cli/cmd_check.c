/* cmd_check.c -- kvtide check: input files, the scenario in force with its origins, the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "engine/engine.h"
#include "kvt/json.h"

struct question {
    struct cli_texts files, sets;
    const char *engine, *export, *hardware, *tokens;
    bool print, schema, machine, json;
};

kvt_status check_print_tree(const cJSON *tree, struct kvt_error *err)
{
    char *text = kvt_json_print(tree);

    if (text == NULL)
        return kvt_fail_nomem(err, "check --json");
    puts(text);
    free(text);
    return KVT_OK;
}

/* ---- Files ------------------------------------------------------------------------- */

static void print_checked(const struct checked_file *checked)
{
    if (checked->table_count > 0)
        check_print_tables(checked);
    else if (checked->status != KVT_OK)
        (void)cli_fail(&checked->err);
    else if (checked->detail[0] != '\0')
        printf("%s: ok (%s, %s)\n", checked->file, checked->noun, checked->detail);
    else
        printf("%s: ok (%s)\n", checked->file, checked->noun);
}

static bool add_fault(cJSON *entry, const struct kvt_error *err)
{
    return cJSON_AddStringToObject(entry, "where", err->where) != NULL &&
           cJSON_AddStringToObject(entry, "message", err->message) != NULL;
}

static bool add_table(cJSON *tables, const struct checked_table *table)
{
    cJSON *entry = cJSON_CreateObject();

    if (entry == NULL || !cJSON_AddItemToArray(tables, entry)) {
        cJSON_Delete(entry);
        return false;
    }
    return cJSON_AddStringToObject(entry, "kind", table->kind) != NULL &&
           cJSON_AddStringToObject(entry, "name", table->name) != NULL &&
           cJSON_AddBoolToObject(entry, "ok", table->status == KVT_OK) != NULL &&
           cJSON_AddNumberToObject(entry, "calls", (double)table->calls) != NULL &&
           (table->missing[0] == '\0' ||
            cJSON_AddStringToObject(entry, "missing", table->missing) != NULL) &&
           (table->status == KVT_OK || add_fault(entry, &table->err));
}

static bool add_tables(cJSON *entry, const struct checked_file *checked)
{
    cJSON *tables = checked->table_count > 0 ? cJSON_AddArrayToObject(entry, "tables") : NULL;
    bool ok = tables != NULL || checked->table_count == 0;

    for (size_t i = 0; i < checked->table_count && ok; i++)
        ok = add_table(tables, &checked->tables[i]);
    return ok;
}

static bool add_checked(cJSON *files, const struct checked_file *checked)
{
    cJSON *entry = cJSON_CreateObject();

    if (entry == NULL || !cJSON_AddItemToArray(files, entry)) {
        cJSON_Delete(entry);
        return false;
    }
    bool ok =
        cJSON_AddStringToObject(entry, "file", checked->file) != NULL &&
        cJSON_AddBoolToObject(entry, "ok", checked->status == KVT_OK) != NULL &&
        (checked->noun == NULL || cJSON_AddStringToObject(entry, "kind", checked->noun) != NULL) &&
        (checked->detail[0] == '\0' ||
         cJSON_AddStringToObject(entry, "format", checked->detail) != NULL);
    if (ok && checked->status != KVT_OK)
        ok = add_fault(entry, &checked->err);
    return ok && add_tables(entry, checked);
}

/* All files are looked at, whatever is wrong with one of them. */
static int check_files(const struct question *question)
{
    struct kvt_error err;
    bool all_ok = true;
    cJSON *tree = cJSON_CreateObject();
    cJSON *files = NULL;
    kvt_status status = KVT_OK;

    if (tree == NULL || cJSON_AddStringToObject(tree, "schema", "kvtide/check/1") == NULL ||
        (files = cJSON_AddArrayToObject(tree, "files")) == NULL)
        status = kvt_fail_nomem(&err, "check");
    for (size_t i = 0; status == KVT_OK && i < question->files.count; i++) {
        struct checked_file checked;
        check_file(question->files.items[i], &checked);
        all_ok = all_ok && checked.status == KVT_OK;
        if (!question->json)
            print_checked(&checked);
        else if (!add_checked(files, &checked))
            status = kvt_fail_nomem(&err, "check --json");
        check_file_free(&checked);
    }
    if (status == KVT_OK && question->json)
        status = check_print_tree(tree, &err);
    cJSON_Delete(tree);
    if (status != KVT_OK)
        return cli_fail(&err);
    return all_ok ? CLI_DONE : CLI_MALFORMED;
}

/* ---- The scenario in force ------------------------------------------------------------ */

/* The leaf at a dotted path; list elements by their index. Names of leaves may have dots of their
 * own, as those of sources do. */
static const cJSON *leaf_at(const cJSON *tree, const char *path)
{
    const cJSON *node = tree;

    while (node != NULL && *path != '\0') {
        const cJSON *leaf = cJSON_IsObject(node) ? kvt_json_find(node, path) : NULL;
        if (leaf != NULL)
            return leaf;
        char part[256];
        size_t length = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, path);
        node =
            cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(part)) : kvt_json_find(node, part);
        path += length + (path[length] == '.');
    }
    return node;
}

/* Path and value into one of two columns, then the origin. */
static kvt_status print_leaves(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    const cJSON *origin = NULL;
    int path_columns = 0;

    cJSON_ArrayForEach(origin, scenario->origins)
    {
        int length = (int)strlen(origin->string);
        path_columns = length > path_columns ? length : path_columns;
    }
    cJSON_ArrayForEach(origin, scenario->origins)
    {
        char *value = kvt_json_print(leaf_at(scenario->tree, origin->string));
        if (value == NULL)
            return kvt_fail_nomem(err, "check --print");
        printf("%-*s = %-20s   # %s\n", path_columns, origin->string, value, origin->valuestring);
        free(value);
    }
    return KVT_OK;
}

static kvt_status print_scenario_json(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    cJSON *in_force = cJSON_Duplicate(scenario->tree, true);
    cJSON *origins = cJSON_Duplicate(scenario->origins, true);
    kvt_status status = KVT_OK;

    if (tree != NULL && cJSON_AddItemToObject(tree, "scenario", in_force))
        in_force = NULL;
    if (tree != NULL && cJSON_AddItemToObject(tree, "origins", origins))
        origins = NULL;
    if (tree != NULL && in_force == NULL && origins == NULL && tree->child != NULL)
        status = check_print_tree(tree, err);
    else
        status = kvt_fail_nomem(err, "check --print --json");
    cJSON_Delete(in_force);
    cJSON_Delete(origins);
    cJSON_Delete(tree);
    return status;
}

static int print_scenario(const struct question *question)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = question->sets.items,
                                                 .set_count = question->sets.count,
                                                 .for_size = true};
    struct kvt_scenario scenario = {0};
    struct kvt_error err;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    kvt_status status = arena != NULL ? kvt_scenario_load(question->files.items[0], &options, arena,
                                                          &scenario, &err)
                                      : kvt_fail_nomem(&err, "a scenario");

    if (status == KVT_OK)
        status =
            question->json ? print_scenario_json(&scenario, &err) : print_leaves(&scenario, &err);
    kvt_arena_free(arena);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

static int print_schema(void)
{
    struct kvt_error err;
    char *schema = kvt_scenario_schema();

    if (schema == NULL) {
        (void)kvt_fail_nomem(&err, "the schema");
        return cli_fail(&err);
    }
    puts(schema);
    free(schema);
    return CLI_DONE;
}

/* ---- The command ------------------------------------------------------------------------ */

/* What stands behind -- is the engine's. */
static int answer_engine(const struct question *question)
{
    const struct engine_question asked = {.engine = question->engine,
                                          .hardware = question->hardware,
                                          .tokens = question->tokens,
                                          .sets = &question->sets,
                                          .words = &question->files,
                                          .print = question->print,
                                          .json = question->json};

    if (question->schema || question->machine)
        return cli_malformed("check --engine: --schema and --machine are questions of their own");
    if (question->export == NULL)
        return engine_check(&asked);
    if (strcmp(question->export, "flags") != 0)
        return cli_malformed("check --export: found \"%s\", expected \"flags\"", question->export);
    if (question->files.count != 1 || question->print || question->hardware || question->tokens)
        return cli_malformed("check SCENARIO --engine E --export flags takes one scenario, --set "
                             "and --json");
    return engine_check_export(&asked);
}

static int answer(const struct question *question)
{
    size_t files = question->files.count;

    if (question->engine != NULL)
        return answer_engine(question);
    if (question->export != NULL || question->hardware != NULL || question->tokens != NULL)
        return cli_malformed("check: --export, --hardware and --tokens go with --engine");

    if (question->print + question->schema + question->machine > 1)
        return cli_malformed("check: --print, --schema and --machine are one question each");
    if (question->sets.count > 0 && !question->print)
        return cli_malformed("check: --set goes with --print");
    if (question->print && files != 1)
        return cli_malformed("check --print: %zu scenarios given; it prints one", files);
    if (question->schema && (files > 0 || question->json))
        return cli_malformed("check --schema takes no files and no --json");
    if (question->machine && files > 0)
        return cli_malformed("check --machine takes no files");
    if (question->machine)
        return check_machine(question->json);
    if (question->schema)
        return print_schema();
    if (question->print)
        return print_scenario(question);
    if (files == 0)
        return cli_malformed("check: no file given; kvtide check --help says more");
    return check_files(question);
}

int kvt_cmd_check(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {0};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--print", NULL, "prints the scenario in force, with the origin of every value", CLI_FLAG,
         &question.print},
        {"--set", "PATH=VALUE",
         "with --print or --engine: changes a value of the scenario; repeatable", CLI_TEXTS,
         &question.sets},
        CLI_PLUGIN_OPTION,
        {"--schema", NULL, "prints the JSON Schema of scenarios", CLI_FLAG, &question.schema},
        {"--machine", NULL, "checks GPUs, their links and the host", CLI_FLAG, &question.machine},
        {"--engine", "vllm|sglang|trtllm|FILE", "what it would do with the flags behind --",
         CLI_TEXT, &question.engine},
        {"--hardware", "GPU", "with --engine: which GPU (h200)", CLI_TEXT, &question.hardware},
        {"--tokens", "N,N..", "with --engine: context lengths to size it at", CLI_TEXT,
         &question.tokens},
        {"--export", "flags", "with --engine: a scenario as flags of the engine", CLI_TEXT,
         &question.export},
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, (size_t)argc, &question.files,
                  &exit_code))
        exit_code = answer(&question);
    cli_parsed_free(options, option_count, &question.files);
    return exit_code;
}
