/* plugins.c -- the shared objects of a command line: loaded as they are read and tried, until its
 * end. */
#include "kvt/plugins.h"
#include "cli.h"
#include "contract/contract.h"

enum {
    CALLS_BEFORE_A_RUN = 1500 /* a hundredth of a second a table */
};
#define CALL_LIMIT_S 4.0 /* of one call: whatever a plug-in prepares says that it goes on */

/* As a command's other answers about where things are, for whoever loads a scenario. */
static struct kvt_plugins *loaded;

const struct kvt_plugins *cli_plugins(void)
{
    return loaded;
}

/* Tells of which of a file's tables a sentence is. */
static kvt_status at_file(const char *path, const struct kvt_plugin_table *table,
                          struct kvt_error *err)
{
    return kvt_fail(err, err->status, path, "%s %s: %s", kvt_plugin_kind_name(table->kind),
                    table->info->name, err->message);
}

kvt_status cli_plugin_try(const char *path, const struct kvt_plugin_table *table,
                          uint64_t least_calls, struct cli_plugin_tried *out, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    struct contract_play play = {.calls = 0};

    *out = (struct cli_plugin_tried){.missing = NULL};
    kvt_status status = arena != NULL ? contract_play_init(&play, table->kind, table->info, 2385,
                                                           NULL, arena, &out->missing, err)
                                      : kvt_fail_nomem(err, "a plug-in's parameters");

    if (status == KVT_OK && out->missing == NULL) {
        play.calls = least_calls;
        status = contract_play_apart(&play, CALL_LIMIT_S, &out->calls, err);
    }
    kvt_arena_free(arena);
    return status == KVT_OK || err == NULL ? status : at_file(path, table, err);
}

kvt_status cli_plugin_open(struct kvt_plugins *plugins, const char *path, struct kvt_error *err)
{
    kvt_status status = contract_load_apart(path, CALL_LIMIT_S, err);

    return status == KVT_OK ? kvt_plugins_load(plugins, path, err) : status;
}

static kvt_status try_newest(struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_plugin_file *files = kvt_plugins_files(loaded, &count);
    const struct kvt_plugin_file *file = &files[count - 1];
    kvt_status status = KVT_OK;

    for (size_t t = 0; t < file->table_count && status == KVT_OK; t++) {
        struct cli_plugin_tried tried;
        status = cli_plugin_try(file->path, &file->tables[t], CALLS_BEFORE_A_RUN, &tried, err);
    }
    return status;
}

kvt_status cli_plugins_load(const char *path, struct kvt_error *err)
{
    kvt_status status = loaded == NULL ? kvt_plugins_new(&loaded, err) : KVT_OK;

    if (status == KVT_OK)
        status = cli_plugin_open(loaded, path, err);
    if (status == KVT_OK)
        status = try_newest(err);
    if (status == KVT_OK)
        cli_guard_plugin(path);
    return status;
}

void cli_plugins_free(void)
{
    kvt_plugins_free(loaded);
    loaded = NULL;
    cli_guard_end(); /* there is no plug-in any more that could end it */
}
