/* bind_files.c -- the files that a scenario names: model, hardware, drafter, with its changes. */
#include <stdio.h>
#include <string.h>

#include "bind.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

/* Lays the changes of a scenario over the tree of a file: objects merge, all else
 * replaces. */
static kvt_status lay_over(struct kvt_load *load, cJSON *tree, const cJSON *changes,
                           const cJSON *skip, struct kvt_error *err)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, changes)
    {
        if (item == skip)
            continue;
        cJSON *older = kvt_tree_find(tree, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(older)) {
            kvt_status status = lay_over(load, older, item, NULL, err);
            if (status != KVT_OK)
                return status;
            continue;
        }
        cJSON *copy = kvt_tree_copy(load->arena, &load->derived, item);
        if (copy == NULL)
            return kvt_fail_nomem(err, "a scenario");
        kvt_tree_set(tree, item->string, copy);
    }
    return KVT_OK;
}

/* The tree of a file that the scenario names, with the scenario's changes; *name
 * is what messages call it. *base_tree is without the changes. */
static kvt_status read_named(struct kvt_load *load, const char *dotted, const cJSON *node,
                             const char *folder, const char *noun, const cJSON **tree,
                             const cJSON **base_tree, const char **name, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    struct kvt_found found;
    const cJSON *base = cJSON_IsObject(node) ? kvt_tree_find(node, "base") : node;
    kvt_status status = kvt_find_file(load, base->valuestring, folder, noun, "",
                                      kvt_load_place(load, dotted, place), &found, err);
    if (status == KVT_OK)
        status = kvt_read_tree(load, &found, tree, err);
    if (status != KVT_OK)
        return status;
    *name = found.name;
    *base_tree = *tree;
    if (!cJSON_IsObject(node) || !cJSON_IsObject(*tree) || node->child->next == NULL)
        return KVT_OK;

    cJSON *changed = kvt_tree_copy(load->arena, &load->derived, *tree);
    if (changed == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *tree = changed;
    *name = kvt_arena_printf(load->arena, "%s with the changes of %s", found.name,
                             kvt_load_place(load, dotted, place));
    if (*name == NULL)
        return kvt_fail_nomem(err, "a scenario");
    return lay_over(load, changed, node, base, err);
}

kvt_status kvt_bind_hardware(struct kvt_load *load, const char *dotted,
                             const struct kvt_hardware **out, struct kvt_error *err)
{
    const cJSON *tree = NULL, *base = NULL;
    const char *name = NULL;
    struct kvt_hardware *hardware =
        kvt_arena_alloc(load->arena, sizeof *hardware, _Alignof(struct kvt_hardware));
    if (hardware == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = read_named(load, dotted, kvt_tree_at(load->tree, dotted), "models/hardware",
                                   "hardware", &tree, &base, &name, err);
    if (status == KVT_OK)
        status = kvt_hardware_from_json(tree, name, load->arena, hardware, err);
    *out = hardware;
    return status;
}

/* What was measured, or fitted, was so with rows that are selected one by one, scanned whole and
 * fetched whole. */
static kvt_status check_timing(const struct kvt_load *load, const struct kvt_llm *llm,
                               const char *timing, struct kvt_error *err)
{
    const struct {
        bool is_there;
        const char *key;
    } ours[] = {
        {kvt_llm_block_rows(llm) > 1, "block_tokens"},
        {llm->index.scan_bytes > 0, "index.scan_bytes"},
        {llm->payload.rebuild_flops > 0, "payload.rebuild_flops"},
    };
    char place[KVT_PLACE_BYTES];

    if (strcmp(timing, "roofline") == 0)
        return KVT_OK;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (ours[i].is_there)
            return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "timing.model|model", place),
                            "timing \"%s\" knows nothing of %s, which model \"%.60s\" has; "
                            "\"roofline\" does",
                            timing, ours[i].key, llm->name);
    }
    return KVT_OK;
}

kvt_status kvt_bind_model(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *tree = NULL, *base = NULL;
    const char *name = NULL;
    char place[KVT_PLACE_BYTES];
    struct kvt_llm *llm = kvt_arena_alloc(load->arena, sizeof *llm, _Alignof(struct kvt_llm));
    if (llm == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = read_named(load, "model", kvt_tree_at(load->tree, "model"), "models/llm",
                                   "model", &tree, &base, &name, err);
    if (status == KVT_OK)
        status = kvt_llm_from_json(tree, name, load->arena, llm, err);
    if (status != KVT_OK)
        return status;
    if (llm->top_k == 0 || llm->store_count == 0 || llm->selector_count == 0) {
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, kvt_load_place(load, "model", place),
                        "%s selects no rows; kvtide simulates models with sparse top-k attention",
                        llm->name);
    }
    const cJSON *base_name = kvt_json_find(base, "name");
    load->model_name = cJSON_IsString(base_name) ? base_name->valuestring : llm->name;
    out->llm = llm;
    return check_timing(load, llm, out->timing.info->name, err);
}

/* Acceptance, rows and passes of a drafter are those beside its own model. */
static kvt_status check_made_for(const struct kvt_load *load, const struct kvt_drafter *drafter,
                                 struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char models[128] = "";

    if (kvt_drafter_fits(drafter, load->model_name))
        return KVT_OK;
    for (uint32_t i = 0; i < drafter->model_count; i++) {
        size_t used = strlen(models);
        (void)snprintf(models + used, sizeof models - used, "%s%s", i > 0 ? ", " : "",
                       drafter->models[i]);
    }
    return kvt_fail(err, KVT_ERR_INVALID,
                    kvt_load_place(load, "speculation.drafter|speculation.method|model", place),
                    "drafter \"%.60s\" was made for %s, not for model \"%.60s\"; name one whose "
                    "file has that model in \"models\" (kvtide list drafters -v)",
                    drafter->name, models, load->model_name);
}

kvt_status kvt_bind_drafter(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const struct kvt_param_value *named = kvt_param_of(&out->speculation, "drafter");
    if (named == NULL || strcmp(named->text, "none") == 0)
        return KVT_OK;

    const cJSON *tree = NULL, *base = NULL;
    const char *name = NULL;
    const cJSON *node = kvt_tree_at(load->tree, "speculation.drafter");
    struct kvt_drafter *drafter =
        kvt_arena_alloc(load->arena, sizeof *drafter, _Alignof(struct kvt_drafter));
    if (drafter == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = read_named(load, "speculation.drafter", node, "models/drafters", "drafter",
                                   &tree, &base, &name, err);
    if (status == KVT_OK)
        status = kvt_drafter_from_json(tree, name, load->arena, drafter, err);
    if (status == KVT_OK)
        status = check_made_for(load, drafter, err);
    if (status != KVT_OK)
        return status;
    out->drafter = drafter;
    return KVT_OK;
}

/* NOLINTEND(misc-no-recursion) */
