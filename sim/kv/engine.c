/* engine.c -- a serving engine, from its file: layout, memory, and what the lists say. */
#include "kvt/engine.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "engine_read.h"
#include "modelfile.h"

enum {
    FILE_BYTES_MAX = 16 << 20,
    PATH_BYTES = 4352
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- Layout ------------------------------------------------------------------------------ */

static uint64_t up_to(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

struct kvt_engine_blocks kvt_engine_blocks_of(const struct kvt_engine_layout *layout,
                                              const struct kvt_llm *llm)
{
    uint64_t layer_page_bytes = (uint64_t)layout->page_tokens * llm->payload.capacity_bytes;
    uint64_t index_page_bytes =
        (uint64_t)layout->page_tokens * llm->index.capacity_bytes * llm->store_count;
    uint64_t widest = index_page_bytes, group = 0;
    struct kvt_engine_blocks blocks = {.payload_groups = 0};

    for (uint32_t i = 0; i < llm->store_count; i++) {
        uint64_t unit = llm->stores[i].layers * layer_page_bytes;

        if (group == 0 || group + unit > index_page_bytes) {
            blocks.payload_groups++;
            group = 0;
        }
        group += unit;
        widest = group > widest ? group : widest;
    }
    blocks.block_bytes = up_to(widest, layer_page_bytes);
    return blocks;
}

static kvt_status read_layout(const cJSON *tree, const char *where,
                              struct kvt_engine_layout *layout, struct kvt_error *err)
{
    static const struct kvt_field fields[] = {
        {"page_tokens", KVT_FIELD_U32, 1, 1 << 16, offsetof(struct kvt_engine_layout, page_tokens)},
        {"dense_page_tokens", KVT_FIELD_U32, 1, 1 << 16,
         offsetof(struct kvt_engine_layout, dense_page_tokens)},
        {"tail_pages", KVT_FIELD_U32, 0, 1 << 16, offsetof(struct kvt_engine_layout, tail_pages)},
        {"tail_rows", KVT_FIELD_U32, 0, 1 << 16, offsetof(struct kvt_engine_layout, tail_rows)},
        {"table_bytes_per_slot", KVT_FIELD_U32, 0, 1 << 16,
         offsetof(struct kvt_engine_layout, table_bytes_per_slot)},
        {"order_bytes_per_slot", KVT_FIELD_U32, 0, 1 << 16,
         offsetof(struct kvt_engine_layout, order_bytes_per_slot)},
    };
    static const char *const others[] = {"kind", "hot_rounded"};
    char place[ENGINE_PLACE_BYTES];
    const cJSON *object = NULL;
    const char *kind = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "layout", true, &object, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/layout", where);
    status =
        kvt_fields_read(object, place, fields, LENGTH(fields), others, LENGTH(others), layout, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(object, place, "kind", true, &kind, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, place, "hot_rounded", true, &layout->hot_rounded, err);
    if (status != KVT_OK)
        return status;
    layout->kind = strcmp(kind, "block_pool") == 0 ? KVT_ENGINE_BLOCKS : KVT_ENGINE_ROWS;
    if (layout->kind == KVT_ENGINE_ROWS && strcmp(kind, "row_pools") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "kind is \"%.40s\"; block_pool or row_pools is expected", kind);
    return KVT_OK;
}

/* ---- Memory and hot caches --------------------------------------------------------------- */

static kvt_status read_memory(const cJSON *tree, const char *where, struct kvt_engine *engine,
                              struct kvt_error *err)
{
    static const struct kvt_field fields[] = {
        {"fraction", KVT_FIELD_F64, 0.01, 1, offsetof(struct kvt_engine, memory_fraction)},
        {"workspace_gib", KVT_FIELD_F64, 0, 1e5, offsetof(struct kvt_engine, workspace_gib)},
        {"max_requests", KVT_FIELD_F64, 0, 1e9, offsetof(struct kvt_engine, max_requests)},
        {"host_ratio", KVT_FIELD_F64, 0, 1e6, offsetof(struct kvt_engine, host_ratio)},
    };
    static const char *const others[] = {"of", "seats"};
    char place[ENGINE_PLACE_BYTES];
    const cJSON *object = NULL;
    const char *of = NULL, *seats = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "memory", true, &object, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/memory", where);
    status =
        kvt_fields_read(object, place, fields, LENGTH(fields), others, LENGTH(others), engine, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(object, place, "of", true, &of, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(object, place, "seats", true, &seats, err);
    if (status != KVT_OK)
        return status;
    engine->seats_of_all = strcmp(seats, "all") == 0;
    if (!engine->seats_of_all && strcmp(seats, "replica") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "seats is \"%.40s\"; max_requests is of a replica or of all", seats);
    engine->fraction_of_free = strcmp(of, "free") == 0;
    if (!engine->fraction_of_free && strcmp(of, "total") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "of is \"%.40s\"; total or free memory is what a fraction is of", of);
    return KVT_OK;
}

static kvt_status read_hot_cache(const cJSON *tree, const char *where, struct kvt_engine *engine,
                                 struct kvt_error *err)
{
    static const struct kvt_field fields[] = {
        {"per_query", KVT_FIELD_F64, 0, 1024, offsetof(struct kvt_engine, hot_per_query)},
        {"extra", KVT_FIELD_F64, 0, 1024, offsetof(struct kvt_engine, hot_extra)},
        {"least_per_query", KVT_FIELD_F64, 0, 1024,
         offsetof(struct kvt_engine, hot_least_per_query)},
        {"most_tokens", KVT_FIELD_F64, 1, 1e12, offsetof(struct kvt_engine, hot_most_tokens)},
    };
    char place[ENGINE_PLACE_BYTES];
    const cJSON *object = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "hot_cache", true, &object, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/hot_cache", where);
    return kvt_fields_read(object, place, fields, LENGTH(fields), NULL, 0, engine, err);
}

/* ---- The whole ---------------------------------------------------------------------------- */

static kvt_status read_texts(const cJSON *tree, const char *where, struct kvt_arena *arena,
                             struct kvt_engine *engine, struct kvt_error *err)
{
    kvt_status status = kvt_json_copy_text(tree, where, "family", arena, &engine->family, err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "describes", arena, &engine->describes, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "hierarchy_policy", arena,
                                    &engine->hierarchy_policy, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "admission", arena, &engine->admission, err);
    return status;
}

static kvt_status read_lists(const cJSON *tree, const char *where, struct kvt_arena *arena,
                             struct kvt_engine *engine, struct kvt_error *err)
{
    kvt_status status = engine_read_flags(tree, where, arena, engine, err);

    if (status == KVT_OK)
        status = engine_read_passive(tree, where, arena, engine, err);
    if (status == KVT_OK)
        status = engine_read_log(tree, where, arena, engine, err);
    if (status == KVT_OK)
        status = engine_read_rules(tree, where, arena, engine, err);
    if (status == KVT_OK)
        status = engine_read_auto_rows(tree, where, arena, engine, err);
    if (status == KVT_OK)
        status = engine_read_checkpoints(tree, where, arena, engine, err);
    return status;
}

kvt_status kvt_engine_from_json(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                struct kvt_engine *out, struct kvt_error *err)
{
    static const char *const keys[] = {
        KVT_JSON_HEAD_KEYS, "family",    "describes", "layout",  "memory", "hot_cache",
        "hierarchy_policy", "admission", "flags",     "passive", "log",    "rules",
        "checkpoints",      "auto_rows"};
    /* Each of their entries names its own. */
    static const char *const sourced[] = {"log", "rules"};
    struct kvt_model_head head;
    struct kvt_engine engine = {.name = NULL};
    kvt_status status = kvt_model_head_read(tree, path, "kvtide/engine/1", arena, &head, err);

    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, head.where, keys, LENGTH(keys), err);
    if (status == KVT_OK)
        status = read_texts(tree, head.where, arena, &engine, err);
    if (status == KVT_OK)
        status = read_layout(tree, head.where, &engine.layout, err);
    if (status == KVT_OK)
        status = read_memory(tree, head.where, &engine, err);
    if (status == KVT_OK)
        status = read_hot_cache(tree, head.where, &engine, err);
    if (status == KVT_OK)
        status = read_lists(tree, head.where, arena, &engine, err);
    if (status == KVT_OK)
        status = kvt_json_check_sources_but(tree, head.where, sourced, LENGTH(sourced), err);
    if (status != KVT_OK)
        return status;
    engine.name = head.name;
    engine.path = head.path;
    engine.summary = head.summary;
    *out = engine;
    return KVT_OK;
}

const char *kvt_engine_name(const struct kvt_engine *engine)
{
    return engine != NULL ? engine->family : "ideal";
}

/* ---- By name ------------------------------------------------------------------------------ */

/* The last in order of those named FAMILY-..., or NAME itself; known: all there are. */
static kvt_status find_shipped(const char *name, const char *folder, char best[256],
                               char known[400], struct kvt_error *err)
{
    size_t length = strlen(name), used = 0;
    DIR *dir = opendir(folder);

    if (dir == NULL)
        return kvt_fail(err, KVT_ERR_IO, folder,
                        "this folder of shipped files cannot be opened; KVT_DATA names the folder "
                        "that holds it");
    best[0] = known[0] = '\0';
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        const char *file = entry->d_name;
        size_t stem = strlen(file);

        if (stem < 6 || stem > 250 || strcmp(file + stem - 5, ".json") != 0)
            continue;
        stem -= 5;
        if (used + stem + 2 < 400)
            used += (size_t)snprintf(known + used, 400 - used, " %.*s", (int)stem, file);
        bool is_same = stem == length && memcmp(file, name, length) == 0;
        bool is_family = stem > length && memcmp(file, name, length) == 0 && file[length] == '-';
        if (is_same || (is_family && strncmp(file, best, stem) > 0))
            (void)snprintf(best, 256, "%.*s", (int)stem, file);
        if (is_same)
            break;
    }
    (void)closedir(dir);
    return KVT_OK;
}

kvt_status kvt_engine_load(const char *name, const char *data_dir, struct kvt_arena *arena,
                           const struct kvt_engine **out, struct kvt_error *err)
{
    char path[PATH_BYTES], best[256], known[400];
    size_t length = strlen(name);
    cJSON *tree = NULL;
    kvt_status status = KVT_OK;

    *out = NULL;
    if (strcmp(name, "ideal") == 0)
        return KVT_OK;
    if (strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0)) {
        (void)snprintf(path, sizeof path, "%s", name);
    } else {
        (void)snprintf(path, sizeof path, "%s/models/engine", data_dir);
        status = find_shipped(name, path, best, known, err);
        if (status == KVT_OK && best[0] == '\0')
            status = kvt_fail(err, KVT_ERR_NOT_FOUND, "--engine",
                              "no engine \"%.60s\"; there are: ideal%s; a path has a '/' or ends "
                              "in \".json\"",
                              name, known);
        (void)snprintf(path, sizeof path, "%s/models/engine/%s.json", data_dir, best);
    }
    struct kvt_engine *engine = kvt_arena_alloc(arena, sizeof *engine, _Alignof(struct kvt_engine));
    if (status == KVT_OK && engine == NULL)
        status = kvt_fail_nomem(err, "an engine");
    if (status == KVT_OK)
        status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);
    if (status == KVT_OK)
        status = kvt_engine_from_json(tree, path, arena, engine, err);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        *out = engine;
    return status;
}
