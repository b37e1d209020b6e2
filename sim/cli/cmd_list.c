/* cmd_list.c -- kvtide list: what can be chosen, by kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "list.h"

enum {
    NAME_COLUMNS_MAX = 34
};

static const struct list_kind {
    const char *name;
    list_fill *fill;
    bool is_apart; /* not in a list of everything: part of policies or keys, or of one command */
} kinds[] = {
    {"models", list_models, false},
    {"hardware", list_hardware, false},
    {"drafters", list_drafters, false},
    {"policies", list_policies, false},
    {"laws", list_laws, false},
    {"timing", list_timing, false},
    {"import", list_import, false},
    {"arrivals", list_arrivals, false},
    {"lengths", list_lengths, false},
    {"speculation", list_speculation, false},
    {"backends", list_backends, false},
    {"scenarios", list_scenarios, false},
    {"metrics", list_metrics, false},
    {"keys", list_keys, false},
    {"settings", list_settings, true},
    {"values", list_values, true},
    {"formats", list_formats, false},
    {"engines", list_engines, false},
    {"profiles", list_profiles, false},
    {"grids", list_grids, true},
    {"targets", list_targets, true},
    {"residency", list_residency, true},
    {"replacement", list_replacement, true},
    {"scheduling", list_scheduling, true},
    {"router", list_router, true},
};
enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

const char *list_kind_name(size_t i)
{
    return i < KINDS ? kinds[i].name : NULL;
}

/* ---- For people ------------------------------------------------------------------ */

static const char *text_of(const cJSON *entry, const char *key)
{
    const cJSON *item = kvt_json_find(entry, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static const char *name_of(const cJSON *entry)
{
    const char *name = text_of(entry, "name");
    return name != NULL ? name : text_of(entry, "path");
}

/* Text on lines of its own. */
static void put_paragraph(const char *text, int indent)
{
    printf("%*s", indent, "");
    (void)cli_put_wrapped(text, indent, indent);
    putchar('\n');
}

/* An empty text as "", so that it is seen. */
static int put_value(const cJSON *item, int column, int indent)
{
    char number[32];

    if (cJSON_IsNumber(item)) {
        kvt_json_print_number(item->valuedouble, number);
        return cli_put_wrapped(number, column, indent);
    }
    if (cJSON_IsString(item))
        return cli_put_wrapped(item->valuestring[0] != '\0' ? item->valuestring : "\"\"", column,
                               indent);
    char *text = kvt_json_print(item); /* a list, true or false */
    column = cli_put_wrapped(text != NULL ? text : "(no memory)", column, indent);
    free(text);
    return column;
}

/* Has it been said on the entry's first line? */
static bool is_headline(const char *key)
{
    static const char *const headline[] = {"name", "path", "kind", "summary", "params", "unit"};

    for (size_t i = 0; i < sizeof headline / sizeof headline[0]; i++) {
        if (strcmp(key, headline[i]) == 0)
            return true;
    }
    return false;
}

/* "type count, range 1 to 64, default 8", then the help and what it was fitted to. */
static void put_details(const cJSON *entry, int indent)
{
    const char *help = text_of(entry, "help");
    const char *fitted = text_of(entry, "calibrated_to");
    int column = indent;
    const cJSON *item = NULL;

    cJSON_ArrayForEach(item, entry)
    {
        if (is_headline(item->string) || strcmp(item->string, "help") == 0 ||
            strcmp(item->string, "calibrated_to") == 0)
            continue;
        if (column == indent)
            printf("%*s", indent, "");
        else
            putchar(',');
        column = cli_put_wrapped(item->string, column + (column > indent), indent);
        column = put_value(item, column, indent);
    }
    if (column > indent)
        putchar('\n');
    if (help != NULL)
        put_paragraph(help, indent);
    if (fitted != NULL) {
        printf("%*sdefault fitted to", indent, "");
        (void)cli_put_wrapped(fitted, indent + 17, indent);
        putchar('\n');
    }
}

static int name_columns(const cJSON *array)
{
    const cJSON *entry = NULL;
    size_t widest = 0;

    cJSON_ArrayForEach(entry, array)
    {
        size_t length = strlen(name_of(entry));
        if (length > widest && length <= NAME_COLUMNS_MAX)
            widest = length;
    }
    return (int)widest;
}

static void put_entry(const cJSON *entry, int columns, bool verbose)
{
    const cJSON *param = NULL;
    const char *says = text_of(entry, "summary");

    if (says == NULL)
        says = text_of(entry, "unit");
    if (says == NULL)
        says = text_of(entry, "type");
    printf("  %-*s  ", says != NULL ? columns : 0, name_of(entry));
    (void)cli_put_wrapped(says != NULL ? says : "", columns + 4, columns + 4);
    putchar('\n');
    if (!verbose)
        return;
    put_details(entry, 6);
    cJSON_ArrayForEach(param, kvt_json_find(entry, "params"))
    {
        printf("    %s\n", name_of(param));
        put_details(param, 8);
    }
}

/* Those of one kind stand together. */
static bool has_several_kinds(const cJSON *array)
{
    return array->child != NULL && text_of(array->child, "kind") != NULL &&
           strcmp(text_of(array->child, "kind"),
                  text_of(cJSON_GetArrayItem(array, cJSON_GetArraySize(array) - 1), "kind")) != 0;
}

/* Entries one by one; those of several kinds (policies) under the name of each. */
static void put_entries(const cJSON *array, bool verbose)
{
    const char *kind = "";
    const cJSON *entry = NULL;
    int columns = name_columns(array);
    bool has_kinds = has_several_kinds(array);

    cJSON_ArrayForEach(entry, array)
    {
        if (has_kinds && strcmp(kind, text_of(entry, "kind")) != 0) {
            kind = text_of(entry, "kind");
            printf("%s\n", kind);
        }
        put_entry(entry, columns, verbose);
    }
}

/* "models        glm-5 glm-5.3 ...", wrapped; of several kinds (policies) a line each. */
static void put_names(const char *title, const cJSON *array)
{
    const char *kind = NULL;
    const cJSON *entry = NULL;
    int column = 13;
    bool has_kinds = has_several_kinds(array);

    if (!has_kinds)
        printf("%-12s", title);
    cJSON_ArrayForEach(entry, array)
    {
        int width = (int)strlen(name_of(entry)) + 1;
        if (has_kinds && (kind == NULL || strcmp(kind, text_of(entry, "kind")) != 0)) {
            printf("%s%-12s", kind != NULL ? "\n" : "", text_of(entry, "kind"));
            kind = text_of(entry, "kind");
            column = 13;
        }
        if (column > 13 && column + width > CLI_COLUMNS) {
            printf("\n%12s", "");
            column = 13;
        }
        printf(" %s", name_of(entry));
        column += width;
    }
    putchar('\n');
}

/* ---- The command --------------------------------------------------------------------- */

/* All kinds, each entry once, or the one named what, as {"schema": ..., KIND: [...]}. */
static kvt_status fill(cJSON *tree, const char *what, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < KINDS; i++) {
        if (what != NULL ? strcmp(kinds[i].name, what) != 0 : kinds[i].is_apart)
            continue;
        cJSON *array = cJSON_AddArrayToObject(tree, kinds[i].name);
        status = array != NULL ? kinds[i].fill(array, err) : kvt_fail_nomem(err, "a list");
    }
    return status;
}

static kvt_status print_json(const cJSON *tree, struct kvt_error *err)
{
    char *text = kvt_json_print(tree);

    if (text == NULL)
        return kvt_fail_nomem(err, "list --json");
    puts(text);
    free(text);
    return KVT_OK;
}

static void print_text(const cJSON *tree, const char *what, bool verbose)
{
    for (size_t i = 0; i < KINDS; i++) {
        const cJSON *array = kvt_json_find(tree, kinds[i].name);
        if (array == NULL)
            continue;
        if (what != NULL) {
            put_entries(array, verbose);
        } else if (verbose) {
            printf("%s%s:\n", i > 0 ? "\n" : "", kinds[i].name);
            put_entries(array, verbose);
        } else {
            put_names(kinds[i].name, array);
        }
    }
}

static int list(const char *what, bool verbose, bool json)
{
    struct kvt_error err;
    cJSON *tree = cJSON_CreateObject();
    kvt_status status = tree != NULL && list_add_text(tree, "schema", "kvtide/list/1")
                            ? fill(tree, what, &err)
                            : kvt_fail_nomem(&err, "a list");

    if (status == KVT_OK && json)
        status = print_json(tree, &err);
    else if (status == KVT_OK)
        print_text(tree, what, verbose);
    cJSON_Delete(tree);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

static int refuse_kind(const char *what)
{
    char names[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < KINDS; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, " %s", kinds[i].name);
    return cli_malformed("list: nothing is listed as \"%s\"; there are:%s", what, names);
}

static bool is_kind(const char *what)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, what) == 0)
            return true;
    }
    return false;
}

int kvt_cmd_list(const struct cli_command *command, int argc, char **argv)
{
    bool verbose = false, json = false;
    int exit_code = CLI_DONE;
    struct cli_texts positional;
    const struct cli_option options[] = {
        {"-v", NULL, "with parameters, ranges, defaults and what they rest on", CLI_FLAG, &verbose},
        {"--json", NULL, "prints everything about them as JSON", CLI_FLAG, &json},
        CLI_PLUGIN_OPTION,
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, 1, &positional, &exit_code)) {
        const char *what = positional.count > 0 ? positional.items[0] : NULL;
        exit_code = what == NULL || is_kind(what) ? list(what, verbose, json) : refuse_kind(what);
    }
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
