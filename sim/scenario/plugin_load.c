/* plugin_load.c -- tables out of shared objects.
 *
 *     open the object -> ask its entry for the tables -> check all of them -> copy each into room
 *     for a table of this version, what its version did not have being NULL -> list it
 *
 * Nothing is listed before everything of the object has been checked. */
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "plugins.h"

enum {
    TABLES_MAX = 256,
    FILE_BYTES_MAX = 256 << 20,
};

kvt_status kvt_plugins_new(struct kvt_plugins **out, struct kvt_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a list of plug-ins");
}

static void give_back(struct kvt_plugin_parts *parts)
{
    for (size_t i = 0; i < parts->table_count; i++)
        free(parts->infos[i]);
    free(parts->infos);
    free(parts->tables);
    free(parts->path);
    if (parts->handle != NULL)
        (void)dlclose(parts->handle);
    *parts = (struct kvt_plugin_parts){0};
}

void kvt_plugins_free(struct kvt_plugins *plugins)
{
    if (plugins == NULL)
        return;
    for (size_t i = plugins->file_count; i-- > 0;)
        give_back(&plugins->parts[i]);
    for (size_t kind = 0; kind < KVT_PLUGIN_KINDS; kind++)
        free(plugins->lists[kind].items);
    free(plugins);
}

const struct kvt_plugin_file *kvt_plugins_files(const struct kvt_plugins *plugins, size_t *count)
{
    *count = plugins != NULL ? plugins->file_count : 0;
    return plugins != NULL ? plugins->files : NULL;
}

/* ---- One object ------------------------------------------------------------------------- */

/* Its file, whole, so that a folder, a text or nothing at all is told in our words. */
static kvt_status hash_file(const char *path, uint64_t *hash, struct kvt_error *err)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F'};
    char *bytes = NULL;
    size_t byte_count = 0;
    kvt_status status = kvt_file_read(path, FILE_BYTES_MAX, &bytes, &byte_count, err);

    if (status == KVT_OK && (byte_count < sizeof elf || memcmp(bytes, elf, sizeof elf) != 0))
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "it is not a shared object: it does not begin as an ELF file does");
    if (status == KVT_OK)
        *hash = kvt_hash_bytes(0, bytes, byte_count);
    free(bytes);
    return status;
}

/* A name without a slash would be looked for where libraries are. */
static kvt_status open_object(const char *path, void **handle,
                              const struct kvt_plugin_object **object, struct kvt_error *err)
{
    char *from_here = malloc(strlen(path) + sizeof "./");
    const struct kvt_plugin_object *(*entry)(void) = NULL;

    if (from_here == NULL)
        return kvt_fail_nomem(err, "a plug-in's path");
    (void)sprintf(from_here, "%s%s", strchr(path, '/') != NULL ? "" : "./", path);
    *handle = dlopen(from_here, RTLD_NOW | RTLD_LOCAL);
    free(from_here);
    if (*handle == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, path, "it cannot be loaded: %s", dlerror());
    void *symbol = dlsym(*handle, "kvt_plugin_entry");
    memcpy(&entry, &symbol, sizeof entry);
    *object = entry != NULL ? entry() : NULL;
    if (*object != NULL)
        return KVT_OK;
    (void)dlclose(*handle);
    *handle = NULL;
    return kvt_fail(err, KVT_ERR_ABI, path, "%s",
                    entry == NULL ? "it does not export kvt_plugin_entry(), so it is no plug-in; "
                                    "KVT_PLUGIN_OBJECT of kvt/plugin.h defines it"
                                  : "its kvt_plugin_entry() returns no tables");
}

static kvt_status check_object(const struct kvt_plugin_object *object, const char *path,
                               struct kvt_error *err)
{
    if (object->abi != KVT_ABI_VERSION)
        return kvt_fail(err, KVT_ERR_ABI, path,
                        "it was built for ABI %u, and this kvtide has ABI %u: build it against "
                        "this kvtide's headers",
                        object->abi, KVT_ABI_VERSION);
    if (object->struct_bytes < sizeof *object)
        return kvt_fail(err, KVT_ERR_ABI, path,
                        "what its entry returns has %u bytes; %zu are expected",
                        object->struct_bytes, sizeof *object);
    if (object->tables == NULL || object->table_count == 0 || object->table_count > TABLES_MAX)
        return kvt_fail(err, KVT_ERR_POLICY, path, "it brings %zu tables; 1 to %d are expected",
                        object->table_count, TABLES_MAX);
    return KVT_OK;
}

static kvt_status check_name(const struct kvt_plugins *plugins,
                             const struct kvt_plugin_object *object, size_t index, const char *path,
                             struct kvt_error *err)
{
    const struct kvt_plugin_table *table = &object->tables[index];
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(plugins, table->kind, &count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->name, table->info->name) == 0)
            return kvt_fail(err, KVT_ERR_POLICY, path,
                            "there is a %s \"%s\" already; the plug-in's own name is expected",
                            kvt_plugin_noun(table->kind), table->info->name);
    }
    for (size_t i = 0; i < index; i++) {
        if (object->tables[i].kind == table->kind &&
            strcmp(object->tables[i].info->name, table->info->name) == 0)
            return kvt_fail(err, KVT_ERR_POLICY, path, "it brings two of the kind %s named \"%s\"",
                            kvt_plugin_kind_name(table->kind), table->info->name);
    }
    return KVT_OK;
}

static kvt_status copy_table(const struct kvt_plugin_table *from, const char *path,
                             struct kvt_plugin_info **to, struct kvt_error *err)
{
    size_t table_bytes = 0;
    kvt_status status = kvt_plugin_table_check(from, path, &table_bytes, err);

    if (status != KVT_OK)
        return status;
    struct kvt_plugin_info *info = calloc(1, table_bytes);
    if (info == NULL)
        return kvt_fail_nomem(err, "a plug-in's table");
    memcpy(info, from->info, from->info->struct_bytes);
    info->struct_bytes = (uint32_t)table_bytes;
    *to = info;
    return KVT_OK;
}

static kvt_status copy_tables(const struct kvt_plugins *plugins,
                              const struct kvt_plugin_object *object,
                              struct kvt_plugin_parts *parts, struct kvt_error *err)
{
    parts->tables = calloc(object->table_count, sizeof *parts->tables);
    parts->infos = calloc(object->table_count, sizeof(struct kvt_plugin_info *));
    if (parts->tables == NULL || parts->infos == NULL)
        return kvt_fail_nomem(err, "a plug-in's tables");
    parts->table_count = object->table_count;
    for (size_t i = 0; i < object->table_count; i++) {
        const struct kvt_plugin_table *from = &object->tables[i];
        kvt_status status = copy_table(from, parts->path, &parts->infos[i], err);
        if (status != KVT_OK)
            return status;
        parts->tables[i] = (struct kvt_plugin_table){.kind = from->kind, .info = parts->infos[i]};
        status = check_name(plugins, object, i, parts->path, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- All of them ------------------------------------------------------------------------- */

/* Room for one list of every kind that has newcomers; the old lists stay valid until then. */
static kvt_status list_tables(struct kvt_plugins *plugins, const struct kvt_plugin_file *file,
                              struct kvt_error *err)
{
    struct kvt_plugins_list grown[KVT_PLUGIN_KINDS] = {{0}};

    for (size_t i = 0; i < file->table_count; i++) {
        enum kvt_plugin_kind kind = file->tables[i].kind;
        struct kvt_plugins_list *list = &grown[kind];
        size_t count = 0;
        const struct kvt_plugin_info *const *older = kvt_plugin_list(plugins, kind, &count);
        if (list->items == NULL) {
            list->items = calloc(count + file->table_count, sizeof(struct kvt_plugin_info *));
            if (list->items == NULL) {
                for (size_t k = 0; k < KVT_PLUGIN_KINDS; k++)
                    free(grown[k].items);
                return kvt_fail_nomem(err, "a list of plug-ins");
            }
            memcpy(list->items, older, count * sizeof(struct kvt_plugin_info *));
            list->count = count;
        }
        list->items[list->count++] = file->tables[i].info;
    }
    for (size_t kind = 0; kind < KVT_PLUGIN_KINDS; kind++) {
        if (grown[kind].items == NULL)
            continue;
        free(plugins->lists[kind].items);
        plugins->lists[kind] = grown[kind];
    }
    return KVT_OK;
}

/* The same bytes bring the same names, from whatever path. */
static kvt_status refuse_loaded(const struct kvt_plugins *plugins, const char *path, uint64_t hash,
                                struct kvt_error *err)
{
    for (size_t i = 0; i < plugins->file_count; i++) {
        const char *other = plugins->files[i].path;
        if (plugins->files[i].hash != hash)
            continue;
        if (strcmp(other, path) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, path, "it is loaded already");
        return kvt_fail(err, KVT_ERR_INVALID, path, "it is loaded already, as %s", other);
    }
    return KVT_OK;
}

kvt_status kvt_plugins_load(struct kvt_plugins *plugins, const char *path, struct kvt_error *err)
{
    const struct kvt_plugin_object *object = NULL;
    struct kvt_plugin_parts parts = {0};
    uint64_t hash = 0;

    if (plugins->file_count == KVT_PLUGIN_FILES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, path, "%d plug-ins are loaded, which is the most",
                        KVT_PLUGIN_FILES_MAX);
    kvt_status status = hash_file(path, &hash, err);
    if (status == KVT_OK)
        status = refuse_loaded(plugins, path, hash, err);
    if (status == KVT_OK && (parts.path = strdup(path)) == NULL)
        status = kvt_fail_nomem(err, "a plug-in's path");
    if (status == KVT_OK)
        status = open_object(path, &parts.handle, &object, err);
    assert(status != KVT_OK || object != NULL);
    if (status == KVT_OK)
        status = check_object(object, path, err);
    if (status == KVT_OK)
        status = copy_tables(plugins, object, &parts, err);
    const struct kvt_plugin_file file = {
        .path = parts.path, .hash = hash, .tables = parts.tables, .table_count = parts.table_count};
    if (status == KVT_OK)
        status = list_tables(plugins, &file, err);
    if (status != KVT_OK) {
        give_back(&parts);
        return status;
    }
    plugins->files[plugins->file_count] = file;
    plugins->parts[plugins->file_count++] = parts;
    return KVT_OK;
}
