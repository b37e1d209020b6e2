/* list_files.c -- models, hardware, drafters, engines and scenarios, each read from its file, for
 * `kvtide list`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kvt/engine.h"
#include "list.h"

enum {
    FILE_BYTES_MAX = 16 << 20,
    PATH_BYTES = 4352
};

/* ---- Folders ------------------------------------------------------------------- */

void list_names_free(struct list_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct list_names){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool append_name(struct list_names *names, const char *file_name)
{
    size_t length = strlen(file_name);

    if (length <= 5 || strcmp(file_name + length - 5, ".json") != 0)
        return true;
    char **items = realloc(names->items, (names->count + 1) * sizeof *items);
    if (items == NULL)
        return false;
    names->items = items;
    items[names->count] = strndup(file_name, length - 5);
    return items[names->count++] != NULL;
}

kvt_status list_names_read(const char *folder, struct list_names *names, struct kvt_error *err)
{
    char path[PATH_BYTES];
    bool ok = true;

    *names = (struct list_names){0};
    snprintf(path, sizeof path, "%s/%s", cli_data_dir(), folder);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return kvt_fail(err, KVT_ERR_IO, path,
                        "this folder of shipped files cannot be opened; KVT_DATA names the folder "
                        "that holds it");
    for (struct dirent *entry = readdir(dir); ok && entry != NULL; entry = readdir(dir))
        ok = append_name(names, entry->d_name);
    (void)closedir(dir);
    if (!ok) {
        names->count -= names->count > 0 && names->items[names->count - 1] == NULL;
        list_names_free(names);
        return kvt_fail_nomem(err, "a list of files");
    }
    if (names->count > 0)
        qsort(names->items, names->count, sizeof names->items[0], compare_names);
    return KVT_OK;
}

kvt_status list_names_check(const struct list_names *names, const char *name, const char *noun,
                            const char *hint, const char *where, struct kvt_error *err)
{
    char known[480] = "";
    size_t used = 0;

    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], name) == 0)
            return KVT_OK;
        if (used + strlen(names->items[i]) + 3 < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                     used > 0 ? ", " : "", names->items[i]);
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, where, "\"%.60s\": no such %s; there are: %s%s", name,
                    noun, known, hint);
}

static kvt_status check_shipped(const char *name, const char *folder, const char *noun,
                                const char *where, struct kvt_error *err)
{
    struct list_names names;
    kvt_status status = list_names_read(folder, &names, err);

    if (status != KVT_OK)
        return status;
    status =
        list_names_check(&names, name, noun, "; a path has a '/' or ends in \".json\"", where, err);
    list_names_free(&names);
    return status;
}

kvt_status list_file_of(const char *name, const char *folder, const char *noun, const char *where,
                        struct kvt_arena *arena, const char **path, struct kvt_error *err)
{
    char shipped[PATH_BYTES];
    kvt_status status = kvt_is_path(name) ? KVT_OK : check_shipped(name, folder, noun, where, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(shipped, sizeof shipped, "%s/%s/%s.json", cli_data_dir(), folder, name);
    *path = kvt_arena_strdup(arena, kvt_is_path(name) ? name : shipped);
    return *path ? KVT_OK : kvt_fail_nomem(err, "a path");
}

/* ---- One file ------------------------------------------------------------------- */

/* Reads the file's tree and adds its entry. */
typedef kvt_status add_file(cJSON *array, const cJSON *tree, const char *path,
                            struct kvt_arena *arena, struct kvt_error *err);

static kvt_status add_model(cJSON *array, const cJSON *tree, const char *path,
                            struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_llm llm;
    kvt_status status = kvt_llm_from_json(tree, path, arena, &llm, err);

    if (status != KVT_OK)
        return status;
    cJSON *entry = list_add_entry(array, "name", llm.name);
    bool ok =
        entry != NULL && list_add_text(entry, "summary", llm.summary) &&
        list_add_number(entry, "layers", llm.layers) &&
        list_add_number(entry, "stores", llm.store_count) &&
        list_add_number(entry, "selectors", llm.selector_count) &&
        list_add_number(entry, "top_k", llm.top_k) && list_add_number(entry, "heads", llm.heads) &&
        list_add_number(entry, "payload_row_bytes", llm.payload.capacity_bytes) &&
        list_add_number(entry, "payload_wire_bytes", llm.payload.wire_bytes) &&
        list_add_number(entry, "index_row_bytes", llm.index.capacity_bytes) &&
        list_add_number(entry, "payload_bytes_per_token", kvt_llm_payload_bytes_per_token(&llm)) &&
        list_add_number(entry, "index_bytes_per_token", kvt_llm_index_bytes_per_token(&llm)) &&
        list_add_number(entry, "max_position_tokens", llm.max_position_tokens) &&
        list_add_number(entry, "experts", llm.experts) &&
        list_add_number(entry, "experts_active", llm.experts_active) &&
        list_add_number(entry, "weight_bytes", llm.weight_bytes);
    return ok ? KVT_OK : kvt_fail_nomem(err, "the list of models");
}

static kvt_status add_hardware(cJSON *array, const cJSON *tree, const char *path,
                               struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_hardware hardware;
    kvt_status status = kvt_hardware_from_json(tree, path, arena, &hardware, err);

    if (status != KVT_OK)
        return status;
    cJSON *entry = list_add_entry(array, "name", hardware.name);
    bool ok =
        entry != NULL && list_add_text(entry, "summary", hardware.summary) &&
        list_add_number(entry, "hbm_gb", hardware.hbm_gb) &&
        list_add_number(entry, "hbm_bytes_per_s", (double)hardware.hbm_bytes_per_s) &&
        list_add_number(entry, "link_h2d_bytes_per_s", (double)hardware.link_h2d_bytes_per_s) &&
        list_add_number(entry, "link_d2h_bytes_per_s", (double)hardware.link_d2h_bytes_per_s) &&
        list_add_number(entry, "gpus_per_node", hardware.gpus_per_node) &&
        list_add_number(entry, "host_dram_gib", hardware.host_dram_gib) &&
        list_add_number(entry, "fp8_flops", hardware.fp8_flops) &&
        list_add_number(entry, "bf16_flops", hardware.bf16_flops);
    return ok ? KVT_OK : kvt_fail_nomem(err, "the list of hardware");
}

static kvt_status add_drafter(cJSON *array, const cJSON *tree, const char *path,
                              struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_drafter drafter;
    kvt_status status = kvt_drafter_from_json(tree, path, arena, &drafter, err);

    if (status != KVT_OK)
        return status;
    const char *models = drafter.models[0];
    for (uint32_t i = 1; i < drafter.model_count && models != NULL; i++)
        models = kvt_arena_printf(arena, "%s, %s", models, drafter.models[i]);
    cJSON *entry = list_add_entry(array, "name", drafter.name);
    bool ok = entry != NULL && list_add_text(entry, "summary", drafter.summary) &&
              list_add_text(entry, "models", models) &&
              list_add_number(entry, "layers", drafter.layers) &&
              list_add_number(entry, "block_max", drafter.block_max) &&
              list_add_number(entry, "window_tokens", drafter.window_tokens) &&
              list_add_number(entry, "ring_bytes", (double)kvt_drafter_ring_bytes(&drafter)) &&
              list_add_number(entry, "weight_bytes", drafter.weight_bytes);
    return ok ? KVT_OK : kvt_fail_nomem(err, "the list of drafters");
}

/* Rules by what comes of them, in a few words each: docs/engines.md has the rest. */
static bool list_rules(cJSON *entry, const struct kvt_engine *engine, struct kvt_arena *arena)
{
    for (int effect = 0; effect < KVT_ENGINE_EFFECTS; effect++) {
        const char *ids = NULL;

        for (uint32_t i = 0; i < engine->rule_count; i++) {
            if (engine->rules[i].effect != (enum kvt_engine_effect)effect)
                continue;
            ids = ids != NULL ? kvt_arena_printf(arena, "%s, %s", ids, engine->rules[i].id)
                              : engine->rules[i].id;
            if (ids == NULL)
                return false;
        }
        if (!list_add_text(entry, kvt_engine_effect_name((enum kvt_engine_effect)effect), ids))
            return false;
    }
    return true;
}

static kvt_status add_engine(cJSON *array, const cJSON *tree, const char *path,
                             struct kvt_arena *arena, struct kvt_error *err)
{
    struct kvt_engine engine;
    kvt_status status = kvt_engine_from_json(tree, path, arena, &engine, err);

    if (status != KVT_OK)
        return status;
    cJSON *entry = list_add_entry(array, "name", engine.name);
    bool ok = entry != NULL && list_add_text(entry, "summary", engine.summary) &&
              list_add_text(entry, "family", engine.family) &&
              list_add_text(entry, "describes", engine.describes) &&
              list_add_number(entry, "page_tokens", engine.layout.page_tokens) &&
              list_add_number(entry, "memory_fraction", engine.memory_fraction) &&
              list_add_number(entry, "workspace_gib", engine.workspace_gib) &&
              list_add_text(entry, "admission", engine.admission) &&
              list_rules(entry, &engine, arena);
    return ok ? KVT_OK : kvt_fail_nomem(err, "the list of engines");
}

/* Rows as they are: what `size` counts without an engine. */
static bool add_ideal(cJSON *array)
{
    cJSON *entry = list_add_entry(array, "name", "ideal");

    return entry != NULL &&
           list_add_text(entry, "summary", "no engine: rows as they are, without pages");
}

/* What is read whole only by the command that takes it. */
static kvt_status add_named(cJSON *array, const cJSON *tree, const char *path,
                            struct kvt_arena *arena, struct kvt_error *err)
{
    const char *name = NULL, *summary = NULL;
    kvt_status status = kvt_json_get_text(tree, path, "name", true, &name, err);

    (void)arena;
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, path, "summary", true, &summary, err);
    if (status != KVT_OK)
        return status;
    cJSON *entry = list_add_entry(array, "name", name);
    return entry != NULL && list_add_text(entry, "summary", summary)
               ? KVT_OK
               : kvt_fail_nomem(err, "a list of files");
}

static kvt_status add_one(cJSON *array, const char *folder, const char *name, add_file *add,
                          struct kvt_error *err)
{
    char path[PATH_BYTES];
    cJSON *tree = NULL;
    struct kvt_arena *arena = kvt_arena_new(1 << 14);
    kvt_status status = arena != NULL ? KVT_OK : kvt_fail_nomem(err, "a list of files");

    snprintf(path, sizeof path, "%s/%s/%s.json", cli_data_dir(), folder, name);
    if (status == KVT_OK)
        status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);
    if (status == KVT_OK)
        status = add(array, tree, path, arena, err);
    cJSON_Delete(tree);
    kvt_arena_free(arena);
    return status;
}

static kvt_status add_folder(cJSON *array, const char *folder, add_file *add, struct kvt_error *err)
{
    struct list_names names;
    kvt_status status = list_names_read(folder, &names, err);

    if (status != KVT_OK)
        return status;
    for (size_t i = 0; status == KVT_OK && i < names.count; i++)
        status = add_one(array, folder, names.items[i], add, err);
    list_names_free(&names);
    return status;
}

kvt_status list_models(cJSON *array, struct kvt_error *err)
{
    return add_folder(array, "models/llm", add_model, err);
}

kvt_status list_hardware(cJSON *array, struct kvt_error *err)
{
    return add_folder(array, "models/hardware", add_hardware, err);
}

kvt_status list_drafters(cJSON *array, struct kvt_error *err)
{
    return add_folder(array, "models/drafters", add_drafter, err);
}

kvt_status list_engines(cJSON *array, struct kvt_error *err)
{
    if (!add_ideal(array))
        return kvt_fail_nomem(err, "the list of engines");
    return add_folder(array, "models/engine", add_engine, err);
}

kvt_status list_profiles(cJSON *array, struct kvt_error *err)
{
    return add_folder(array, "models/profiles", add_named, err);
}

kvt_status list_grids(cJSON *array, struct kvt_error *err)
{
    return add_folder(array, "grids", add_named, err);
}

/* ---- Scenarios -------------------------------------------------------------------- */

static bool describe_scenario(cJSON *array, const char *name, const struct kvt_scenario *scenario)
{
    char summary[256];
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < scenario->pool_count; i++)
        gpus += scenario->pools[i].gpus;
    snprintf(summary, sizeof summary, "%s on %u x %s, %s, arrivals %s", scenario->llm->name, gpus,
             scenario->pools[0].hardware->name, scenario->residency.info->name,
             scenario->arrival.info->name);
    cJSON *entry = list_add_entry(array, "name", name);
    return entry != NULL && list_add_text(entry, "summary", summary) &&
           list_add_text(entry, "model", scenario->llm->name) &&
           list_add_text(entry, "hardware", scenario->pools[0].hardware->name) &&
           list_add_number(entry, "gpus", gpus) &&
           list_add_text(entry, "residency", scenario->residency.info->name) &&
           list_add_number(entry, "hot_tokens", (double)scenario->hot_tokens) &&
           list_add_text(entry, "selection", scenario->selection.info->name) &&
           list_add_text(entry, "timing", scenario->timing.info->name) &&
           list_add_text(entry, "import", scenario->import.info->name) &&
           list_add_text(entry, "arrival", scenario->arrival.info->name) &&
           list_add_text(entry, "fidelity", kvt_fidelity_name(scenario->fidelity)) &&
           list_add_number(entry, "duration_s", scenario->duration_s);
}

static kvt_status add_scenario(cJSON *array, const char *name, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .for_size = true};
    struct kvt_scenario scenario;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);

    if (arena == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = kvt_scenario_load(name, &options, arena, &scenario, err);
    if (status == KVT_OK && !describe_scenario(array, name, &scenario))
        status = kvt_fail_nomem(err, "the list of scenarios");
    kvt_arena_free(arena);
    return status;
}

kvt_status list_scenarios(cJSON *array, struct kvt_error *err)
{
    struct list_names names;
    kvt_status status = list_names_read("scenarios", &names, err);

    if (status != KVT_OK)
        return status;
    for (size_t i = 0; status == KVT_OK && i < names.count; i++)
        status = add_scenario(array, names.items[i], err);
    list_names_free(&names);
    return status;
}
