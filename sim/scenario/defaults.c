/* defaults.c -- what each key is when nobody says anything. */
#include <string.h>

#include "load.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

kvt_status kvt_default_param(struct kvt_arena *arena, const struct kvt_layer *layer,
                             const struct kvt_param_spec *spec, cJSON **out, struct kvt_error *err)
{
    cJSON *node = NULL;
    *out = NULL;
    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        node = kvt_tree_number(arena, layer, spec->default_number);
        break;
    case KVT_PARAM_BOOL:
        node = kvt_tree_new(arena, layer, spec->default_number != 0 ? cJSON_True : cJSON_False);
        break;
    case KVT_PARAM_CHOICE:
    case KVT_PARAM_TEXT:
        if (spec->default_text == NULL)
            return KVT_OK;
        node = kvt_tree_text(arena, layer, spec->default_text);
        break;
    case KVT_PARAM_LIST:
    case KVT_PARAM_RECORDS: {
        cJSON *parsed = NULL;
        if (spec->default_text == NULL)
            return KVT_OK;
        kvt_status status = kvt_json_parse(spec->default_text, strlen(spec->default_text),
                                           spec->name, 1, &parsed, err);
        if (status != KVT_OK)
            return status;
        node = kvt_tree_copy(arena, layer, parsed);
        cJSON_Delete(parsed);
        break;
    }
    }
    if (node == NULL)
        return kvt_fail_nomem(err, "a scenario");

    const struct kvt_key key = kvt_key_of_param(spec);
    const struct kvt_at at = {.name = spec->name, .layer = layer};
    if (kvt_value_check(&key, &at, node, NULL) == KVT_OK)
        *out = node;
    return KVT_OK;
}

kvt_status kvt_default_plugin(struct kvt_load *load, const struct kvt_key *key,
                              const struct kvt_plugin_info *info, const struct kvt_layer *chosen_by,
                              cJSON *object, struct kvt_error *err)
{
    cJSON *name = kvt_tree_text(load->arena, chosen_by, info->name);
    if (name == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(object, key->name_key, name);

    for (size_t i = 0; i < info->param_count; i++) {
        cJSON *param = NULL;
        kvt_status status =
            kvt_default_param(load->arena, &load->defaults, &info->params[i], &param, err);
        if (status != KVT_OK)
            return status;
        if (param != NULL)
            kvt_tree_set(object, info->params[i].name, param);
    }
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        if (member->belongs != NULL && !member->belongs(info)) {
            kvt_tree_remove(object, member->name);
        } else if (kvt_tree_find(object, member->name) == NULL) {
            kvt_status status = kvt_default_member(load, member, object, err);
            if (status != KVT_OK)
                return status;
        }
    }
    return KVT_OK;
}

/* A member under a switch starts to exist when the switch says so. */
static bool switched_on(const struct kvt_key *member, const cJSON *object)
{
    if (member->when_key == NULL)
        return true;
    const cJSON *chosen = kvt_tree_find(object, member->when_key);
    return chosen != NULL && kvt_choice_index(member->when, chosen->valuestring) >= 0;
}

static kvt_status default_json(struct kvt_load *load, const struct kvt_key *member, cJSON *object,
                               struct kvt_error *err)
{
    cJSON *parsed = NULL;
    kvt_status status =
        kvt_json_parse(member->dflt, strlen(member->dflt), member->name, 1, &parsed, err);
    if (status != KVT_OK)
        return status;
    cJSON *node = kvt_tree_copy(load->arena, &load->defaults, parsed);
    cJSON_Delete(parsed);
    if (node == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(object, member->name, node);
    return KVT_OK;
}

static kvt_status default_chosen(struct kvt_load *load, const struct kvt_key *member, cJSON *object,
                                 struct kvt_error *err)
{
    /* The default names a plug-in as JSON text: "\"lru\"". */
    char name[64];
    size_t length = strlen(member->dflt) - 2;
    const struct kvt_plugin_info *info = NULL;
    memcpy(name, member->dflt + 1, length);
    name[length] = '\0';
    kvt_status status =
        kvt_plugin_find(load->options->plugins, member->kind, name, member->name, &info, err);
    if (status != KVT_OK)
        return status;
    cJSON *node = kvt_tree_new(load->arena, &load->defaults, cJSON_Object);
    if (node == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(object, member->name, node);
    return kvt_default_plugin(load, member, info, &load->defaults, node, err);
}

kvt_status kvt_default_member(struct kvt_load *load, const struct kvt_key *member, cJSON *object,
                              struct kvt_error *err)
{
    if (member->refused != NULL || !switched_on(member, object))
        return KVT_OK;
    if (member->type == KVT_KEY_PLUGIN)
        return default_chosen(load, member, object, err);
    if (member->dflt != NULL)
        return default_json(load, member, object, err);
    if (member->type != KVT_KEY_OBJECT || member->required)
        return KVT_OK;
    cJSON *node = NULL;
    kvt_status status = kvt_default_object(load, member, &node, err);
    if (status == KVT_OK)
        kvt_tree_set(object, member->name, node);
    return status;
}

kvt_status kvt_default_object(struct kvt_load *load, const struct kvt_key *key, cJSON **out,
                              struct kvt_error *err)
{
    cJSON *object = kvt_tree_new(load->arena, &load->defaults, cJSON_Object);
    if (object == NULL)
        return kvt_fail_nomem(err, "a scenario");
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        kvt_status status = kvt_default_member(load, member, object, err);
        if (status != KVT_OK)
            return status;
    }
    *out = object;
    return KVT_OK;
}

/* NOLINTEND(misc-no-recursion) */
