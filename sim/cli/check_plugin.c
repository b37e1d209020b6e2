/* check_plugin.c -- a shared object looked at and played: is every contract of its tables kept? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "kvt/plugins.h"

enum {
    CALLS = 20000 /* of each table */
};

bool check_is_plugin(const char *path)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    char begin[sizeof elf];
    FILE *file = fopen(path, "rb");
    const char *ending = strrchr(path, '.');
    bool is_elf = file != NULL && fread(begin, 1, sizeof begin, file) == sizeof begin &&
                  memcmp(begin, elf, sizeof elf) == 0;

    if (file != NULL)
        (void)fclose(file);
    return is_elf || (ending != NULL && strcmp(ending, ".so") == 0);
}

static void check_table(const char *path, const struct kvt_plugin_table *table,
                        struct checked_table *out)
{
    struct cli_plugin_tried tried = {.missing = NULL};

    out->kind = kvt_plugin_kind_name(table->kind);
    (void)snprintf(out->name, sizeof out->name, "%s", table->info->name);
    out->status = cli_plugin_try(path, table, CALLS, &tried, &out->err);
    out->calls = tried.calls;
    if (tried.missing != NULL)
        (void)snprintf(out->missing, sizeof out->missing, "%s", tried.missing);
}

/* Every table is played, whatever is wrong with one of them. */
static kvt_status check_tables(const struct kvt_plugin_file *file, struct checked_file *out)
{
    out->tables = calloc(file->table_count, sizeof *out->tables);
    if (out->tables == NULL)
        return kvt_fail_nomem(&out->err, "a plug-in's tables");
    out->table_count = file->table_count;
    for (size_t i = 0; i < file->table_count; i++)
        check_table(file->path, &file->tables[i], &out->tables[i]);
    for (size_t i = 0; i < file->table_count; i++) {
        if (out->tables[i].status == KVT_OK)
            continue;
        out->err = out->tables[i].err;
        return out->tables[i].status;
    }
    return KVT_OK;
}

/* Beside built-in tables alone: another file's names are no matter of this one. */
kvt_status check_plugin(const char *path, struct checked_file *out)
{
    struct kvt_plugins *plugins = NULL;
    kvt_status status = kvt_plugins_new(&plugins, &out->err);
    size_t count = 0;

    out->noun = "plug-in";
    if (status == KVT_OK)
        status = cli_plugin_open(plugins, path, &out->err);
    if (status == KVT_OK)
        status = check_tables(kvt_plugins_files(plugins, &count), out);
    kvt_plugins_free(plugins);
    return status;
}

/* "12,345"; there are fewer than a billion. */
static const char *grouped(uint64_t count, char out[32])
{
    if (count < 1000)
        (void)snprintf(out, 32, "%" PRIu64, count);
    else if (count < 1000000)
        (void)snprintf(out, 32, "%" PRIu64 ",%03" PRIu64, count / 1000, count % 1000);
    else
        (void)snprintf(out, 32, "%" PRIu64 ",%03" PRIu64 ",%03" PRIu64, count / 1000000,
                       count / 1000 % 1000, count % 1000);
    return out;
}

void check_print_tables(const struct checked_file *checked)
{
    char calls[32];

    for (size_t i = 0; i < checked->table_count; i++) {
        const struct checked_table *table = &checked->tables[i];
        if (table->status != KVT_OK)
            (void)cli_fail(&table->err);
        else if (table->missing[0] != '\0')
            printf("%s: %s %s: not played: parameter %s must be given\n", checked->file,
                   table->kind, table->name, table->missing);
        else
            printf("%s: %s %s: %s calls, contract kept\n", checked->file, table->kind, table->name,
                   grouped(table->calls, calls));
    }
    if (checked->status == KVT_OK)
        printf("%s: ok (%s)\n", checked->file, checked->noun);
}
