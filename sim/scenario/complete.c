/* complete.c -- the tree in force in the order of the table, with nothing missing. */
#include <stdio.h>
#include <string.h>

#include "load.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

static kvt_status complete_object(struct kvt_load *load, const struct kvt_key *key,
                                  const struct kvt_at *at, cJSON *object, struct kvt_error *err);

static kvt_status refuse_missing(const struct kvt_load *load, const struct kvt_at *at,
                                 const char *help, struct kvt_error *err)
{
    char dotted[KVT_PLACE_BYTES];
    char place[KVT_PLACE_BYTES];
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, kvt_at_dotted(at, dotted), place),
                    "%s is missing: %s", at->name, help);
}

/* A parameter is missing where the plug-in was chosen. */
static kvt_status refuse_missing_param(const struct kvt_at *at, const cJSON *name, const char *help,
                                       struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const struct kvt_layer *chooser = kvt_tree_layer(name);
    const struct kvt_at param_at = {
        .up = at->up, .name = at->name, .layer = chooser->turn > 0 ? chooser : at->layer};
    bool is_set = chooser->kind == KVT_LAYER_SET && kvt_tree_place(name) != NULL;
    return kvt_fail(err, KVT_ERR_INVALID,
                    is_set ? kvt_tree_place(name) : kvt_at_place(&param_at, place),
                    "%s is missing: %s", at->name, help);
}

static kvt_status complete_params(struct kvt_load *load, const struct kvt_key *key,
                                  const struct kvt_at *at, cJSON *object, struct kvt_error *err)
{
    const struct kvt_plugin_info *info = kvt_chosen(load, key, object);
    if (info == NULL)
        return kvt_fail(err, KVT_ERR_INTERNAL, at->name, "no %s is chosen",
                        kvt_plugin_kind_name(key->kind));
    kvt_tree_move_last(object, kvt_tree_find(object, key->name_key));
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        const struct kvt_at param_at = kvt_at_member(at, spec->name);
        if (kvt_tree_find(object, spec->name) == NULL)
            return refuse_missing_param(&param_at, kvt_tree_find(object, key->name_key), spec->help,
                                        err);
        kvt_status status = kvt_idle_param(load, spec, &param_at, object, err);
        if (status != KVT_OK)
            return status;
        kvt_tree_move_last(object, kvt_tree_find(object, spec->name));
    }
    return KVT_OK;
}

static bool is_needed(const struct kvt_key *member, const cJSON *object)
{
    if (!member->required)
        return false;
    if (member->when_key == NULL)
        return true;
    const cJSON *chosen = kvt_tree_find(object, member->when_key);
    return kvt_choice_index(member->when, chosen->valuestring) >= 0;
}

static kvt_status complete_elements(struct kvt_load *load, const struct kvt_key *key,
                                    const struct kvt_at *at, const cJSON *list,
                                    struct kvt_error *err)
{
    unsigned index = 0;
    for (cJSON *item = list->child; item != NULL; item = item->next) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", index++);
        const struct kvt_at element_at = kvt_at_member(at, name);
        kvt_status status = complete_object(load, key, &element_at, item, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status complete_object(struct kvt_load *load, const struct kvt_key *key,
                                  const struct kvt_at *at, cJSON *object, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    if (key->type == KVT_KEY_PLUGIN)
        status = complete_params(load, key, at, object, err);
    for (const struct kvt_key *member = key->members; status == KVT_OK && kvt_key_is_one(member);
         member++) {
        const struct kvt_at member_at = kvt_at_member(at, member->name);
        cJSON *node = kvt_tree_find(object, member->name);
        if (node == NULL) {
            if (is_needed(member, object))
                status = refuse_missing(load, &member_at, member->help, err);
            continue;
        }
        status = kvt_idle_member(load, member, &member_at, object, err);
        if (status != KVT_OK)
            return status;
        node = kvt_tree_find(object, member->name);
        kvt_tree_move_last(object, node);
        if (member->type != KVT_KEY_OBJECT && member->type != KVT_KEY_PLUGIN &&
            member->type != KVT_KEY_LIST)
            continue;
        if (cJSON_IsObject(node))
            status = complete_object(load, member, &member_at, node, err);
        else if (cJSON_IsArray(node))
            status = complete_elements(load, member, &member_at, node, err);
    }
    return status;
}

/* "my.json" of "runs/my.json": what a run is called when nothing else is said. */
static kvt_status derive_name(struct kvt_load *load, struct kvt_error *err)
{
    if (kvt_tree_find(load->tree, "name") != NULL)
        return KVT_OK;
    const char *file = load->main->name;
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL && slash[1] != '\0' ? slash + 1 : file;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".json") == 0)
        length -= 5;
    char name[201];
    (void)snprintf(name, sizeof name, "%.*s", length > 0 ? (int)length : 8,
                   length > 0 ? base : "scenario");
    cJSON *node = kvt_tree_text(load->arena, &load->derived, name);
    if (node == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(load->tree, "name", node);
    return KVT_OK;
}

kvt_status kvt_tree_complete(struct kvt_load *load, struct kvt_error *err)
{
    const struct kvt_at at = {.name = "", .layer = load->main};
    kvt_status status = derive_name(load, err);
    return status == KVT_OK ? complete_object(load, kvt_keys_root(), &at, load->tree, err) : status;
}

/* NOLINTEND(misc-no-recursion) */
