/* apply.c -- layers into the tree in force.
 *
 *     tree = defaults
 *     for each layer, first to last: merge(tree, layer), by the table of keys
 *
 *     merge(object): names of plug-ins and switches first, because they decide
 *         which other members there are; changing one resets what depends on it;
 *         then every other member: objects merge, lists replace
 *
 * Every value of every layer is checked where it stands, whether or not a later
 * layer replaces it. */
#include <stdio.h>
#include <string.h>

#include "apply.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

static kvt_status apply_member(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                               const struct kvt_at *at, const cJSON *given, struct kvt_error *err);

/* Words and shorthands put a value elsewhere than it was given: {"trace": {"path": ...}}. */
static kvt_status note_place(struct kvt_load *load, cJSON *node, const struct kvt_at *at,
                             struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const char *kept = kvt_arena_strdup(load->arena, kvt_at_place(at, place));

    if (kept == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_note_place(node, kept);
    return KVT_OK;
}

/* ---- Leaves ---------------------------------------------------------------------- */

static kvt_status apply_leaf(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                             const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    kvt_status status = kvt_value_check(key, at, given, err);
    if (status != KVT_OK)
        return status;
    bool is_path = key->is_path || (key->is_name && kvt_is_path(given->valuestring));
    cJSON *copy = is_path ? kvt_copy_path(load, at->layer, given->valuestring)
                          : kvt_tree_copy(load->arena, at->layer, given);
    if (copy == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(parent, key->name, copy);
    return note_place(load, copy, at, err);
}

/* ---- Objects ------------------------------------------------------------------------- */

static kvt_status check_when(const struct kvt_key *member, const cJSON *object,
                             const struct kvt_at *at, struct kvt_error *err)
{
    if (member->when_key == NULL)
        return KVT_OK;
    const cJSON *chosen = kvt_tree_find(object, member->when_key);
    if (chosen != NULL && kvt_choice_index(member->when, chosen->valuestring) >= 0)
        return KVT_OK;
    char place[KVT_PLACE_BYTES];
    char wanted[64];
    const struct kvt_key choice = {.type = KVT_KEY_CHOICE, .choices = member->when};
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                    "%s has no effect while %s is \"%s\"; it takes %s %s", member->name,
                    member->when_key, chosen != NULL ? chosen->valuestring : "", member->when_key,
                    kvt_key_range(&choice, wanted, sizeof wanted));
}

/* A switch that changes takes its dependents with it and brings its own. A dependent that the same
 * command line gave is not taken: it would go without a word. */
static kvt_status apply_switch(struct kvt_load *load, const struct kvt_key *key,
                               const struct kvt_key *member, cJSON *object, const struct kvt_at *at,
                               const cJSON *given, struct kvt_error *err)
{
    const cJSON *older = kvt_tree_find(object, member->name);
    kvt_status status = apply_leaf(load, member, object, at, given, err);
    if (status != KVT_OK)
        return status;
    if (older != NULL && strcmp(older->valuestring, given->valuestring) == 0)
        return KVT_OK;
    for (const struct kvt_key *dependent = key->members; kvt_key_is_one(dependent); dependent++) {
        if (dependent->when_key == NULL || strcmp(dependent->when_key, member->name) != 0)
            continue;
        char place[KVT_PLACE_BYTES];
        const cJSON *taken = kvt_tree_find(object, dependent->name);
        const struct kvt_at dependent_at = kvt_at_member(at->up, dependent->name);
        if (taken != NULL && kvt_find_given(load, taken, &dependent_at, at->layer, place)) {
            status = check_when(dependent, object, &dependent_at, err);
            if (status != KVT_OK)
                return status;
        }
        kvt_tree_remove(object, dependent->name);
        status = kvt_default_member(load, dependent, object, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* Alternatives: the one that is given now replaces the other. */
static kvt_status drop_excluded(const struct kvt_key *member, cJSON *object, const cJSON *given,
                                const struct kvt_at *at, struct kvt_error *err)
{
    if (member->excludes == NULL)
        return KVT_OK;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, given)
    {
        if (kvt_choice_index(member->excludes, item->string) >= 0) {
            char place[KVT_PLACE_BYTES];
            return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                            "%s and %s are alternatives; give one", member->name, item->string);
        }
    }
    size_t count = kvt_choice_count(member->excludes);
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        char name[64];
        const char *choice = kvt_choice_at(member->excludes, i, &length);
        (void)snprintf(name, sizeof name, "%.*s", (int)length, choice);
        kvt_tree_remove(object, name);
    }
    return KVT_OK;
}

static kvt_status apply_object(struct kvt_load *load, const struct kvt_key *key, cJSON *object,
                               const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    if (!cJSON_IsObject(given))
        return kvt_refuse_value(at, given, "an object", err);
    for (int is_second_pass = 0; is_second_pass < 2; is_second_pass++) {
        const cJSON *item = NULL;
        cJSON_ArrayForEach(item, given)
        {
            const struct kvt_key *member = kvt_key_member(key, item->string);
            const struct kvt_at member_at = kvt_at_member(at, item->string);
            if (member == NULL)
                return kvt_unknown_key(load->options->plugins, key, NULL, &member_at, err);
            if (member->is_switch == (is_second_pass == 1))
                continue;
            kvt_status status = member->is_switch
                                    ? apply_switch(load, key, member, object, &member_at, item, err)
                                    : check_when(member, object, &member_at, err);
            if (status == KVT_OK && !member->is_switch)
                status = drop_excluded(member, object, given, &member_at, err);
            if (status == KVT_OK && !member->is_switch)
                status = apply_member(load, member, object, &member_at, item, err);
            if (status != KVT_OK)
                return status;
        }
    }
    return KVT_OK;
}

/* ---- Lists of objects ----------------------------------------------------------------- */

static kvt_status apply_elements(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                                 const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    int count = cJSON_GetArraySize(given);
    if (count > (int)key->maximum || (count == 0 && key->takes_list)) {
        char place[KVT_PLACE_BYTES];
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "a list of %d; %d to %.0f are expected", count, key->takes_list ? 1 : 0,
                        key->maximum);
    }
    cJSON *list = kvt_tree_new(load->arena, at->layer, cJSON_Array);
    if (list == NULL)
        return kvt_fail_nomem(err, "a scenario");
    unsigned index = 0;
    for (const cJSON *item = given->child; item != NULL; item = item->next) {
        char name[16];
        cJSON *element = NULL;
        (void)snprintf(name, sizeof name, "%u", index++);
        const struct kvt_at element_at = kvt_at_member(at, name);
        kvt_status status = kvt_default_object(load, key, &element, err);
        if (status == KVT_OK)
            status = apply_object(load, key, element, &element_at, item, err);
        if (status != KVT_OK)
            return status;
        kvt_tree_append(list, element);
    }
    kvt_tree_set(parent, key->name, list);
    return KVT_OK;
}

/* --set cluster.decode.0.gpus=8: into one element of a list. */
static kvt_status apply_indexed(struct kvt_load *load, const struct kvt_key *key, const cJSON *list,
                                const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    const char *index = given->child != NULL ? given->child->string : "";
    const struct kvt_at element_at = kvt_at_member(at, index);
    cJSON *element = kvt_tree_element(list, index);
    if (element == NULL) {
        char place[KVT_PLACE_BYTES];
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(&element_at, place),
                        "%s is a list of %d here: its elements are called %s.0, %s.1 and so on",
                        key->name, cJSON_GetArraySize(list), key->name, key->name);
    }
    return apply_object(load, key, element, &element_at, given->child, err);
}

static kvt_status apply_list(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                             const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    if (cJSON_IsArray(given))
        return apply_elements(load, key, parent, at, given, err);
    if (cJSON_IsObject(given) && at->layer->kind == KVT_LAYER_SET)
        return apply_indexed(load, key, kvt_tree_find(parent, key->name), at, given, err);
    return kvt_refuse_value(at, given, "a list of objects", err);
}

/* An object that may be a list of such objects, or a word. */
static kvt_status apply_object_member(struct kvt_load *load, const struct kvt_key *key,
                                      cJSON *parent, const struct kvt_at *at, const cJSON *given,
                                      struct kvt_error *err)
{
    cJSON *object = kvt_tree_find(parent, key->name);
    if (key->word != NULL && cJSON_IsString(given)) {
        if (strcmp(given->valuestring, key->word) == 0)
            return apply_leaf(load, key, parent, at, given, err);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "an object or \"%s\"", key->word);
        return kvt_refuse_value(at, given, expected, err);
    }
    if (key->takes_list && cJSON_IsArray(given))
        return apply_elements(load, key, parent, at, given, err);
    if (cJSON_IsArray(object) && at->layer->kind == KVT_LAYER_SET && cJSON_IsObject(given))
        return apply_indexed(load, key, object, at, given, err);
    if (!cJSON_IsObject(object)) {
        kvt_status status = kvt_default_object(load, key, &object, err);
        if (status != KVT_OK)
            return status;
        kvt_tree_set(parent, key->name, object);
    }
    return apply_object(load, key, object, at, given, err);
}

/* ---- Plug-ins ------------------------------------------------------------------------- */

const struct kvt_plugin_info *kvt_chosen(const struct kvt_load *load, const struct kvt_key *key,
                                         const cJSON *object)
{
    const cJSON *name = kvt_tree_find(object, key->name_key);
    size_t count = 0;
    const struct kvt_plugin_info *const *list =
        kvt_plugin_list(load->options->plugins, key->kind, &count);
    for (size_t i = 0; i < count && cJSON_IsString(name); i++) {
        if (strcmp(list[i]->name, name->valuestring) == 0)
            return list[i];
    }
    return NULL;
}

/* What the newcomer resets goes without a word, unless the same command line gave it. */
static kvt_status refuse_reset(struct kvt_load *load, const struct kvt_key *key,
                               const cJSON *object, const char *name, const struct kvt_at *at,
                               const struct kvt_plugin_info *info, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const cJSON *node = kvt_tree_find(object, name);
    const struct kvt_at member_at = kvt_at_member(at, name);
    if (node == NULL || !kvt_find_given(load, node, &member_at, at->layer, place))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place,
                    "%s was given to %s \"%s\"; a later --set makes that \"%s\", which resets "
                    "it: give it after that one, or leave it out",
                    name, key->name_key, kvt_tree_find(object, key->name_key)->valuestring,
                    info->name);
}

/* The newcomer's defaults take the place of the old one's parameters. name_at: where it was named.
 */
static kvt_status choose(struct kvt_load *load, const struct kvt_key *key, cJSON *object,
                         const struct kvt_at *at, const struct kvt_at *name_at,
                         const struct kvt_plugin_info *info, struct kvt_error *err)
{
    const struct kvt_plugin_info *older = kvt_chosen(load, key, object);
    kvt_status status = KVT_OK;
    if (older != NULL && older == info) {
        cJSON *name = kvt_tree_text(load->arena, at->layer, info->name);
        if (name == NULL)
            return kvt_fail_nomem(err, "a scenario");
        kvt_tree_set(object, key->name_key, name);
        return note_place(load, name, name_at, err);
    }
    for (size_t i = 0; older != NULL && i < older->param_count; i++) {
        status = refuse_reset(load, key, object, older->params[i].name, at, info, err);
        if (status != KVT_OK)
            return status;
        kvt_tree_remove(object, older->params[i].name);
    }
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        if (member->belongs == NULL || member->belongs(info))
            continue;
        status = refuse_reset(load, key, object, member->name, at, info, err);
        if (status != KVT_OK)
            return status;
    }
    status = kvt_default_plugin(load, key, info, at->layer, object, err);
    return status == KVT_OK ? note_place(load, kvt_tree_find(object, key->name_key), name_at, err)
                            : status;
}

static kvt_status find_named(const struct kvt_load *load, const struct kvt_key *key,
                             const struct kvt_at *at, const cJSON *given,
                             const struct kvt_plugin_info **out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    if (!cJSON_IsString(given)) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "the name of a %s",
                       kvt_plugin_kind_name(key->kind));
        return kvt_refuse_value(at, given, expected, err);
    }
    return kvt_plugin_find(load->options->plugins, key->kind, given->valuestring,
                           kvt_at_place(at, place), out, err);
}

/* {"closed": {...}}: the member that is named after a plug-in, if any. */
static kvt_status find_shorthand(const struct kvt_load *load, const struct kvt_key *key,
                                 const struct kvt_at *at, const cJSON *given,
                                 const struct kvt_plugin_info *named, const cJSON **out,
                                 const struct kvt_plugin_info **info, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    size_t count = 0;
    const struct kvt_plugin_info *const *list =
        kvt_plugin_list(load->options->plugins, key->kind, &count);
    *out = NULL;
    *info = named;
    for (size_t i = 0; i < count && key->takes_shorthand; i++) {
        const cJSON *item = kvt_tree_find(given, list[i]->name);
        if (item == NULL)
            continue;
        if (*info != NULL && *info != list[i]) {
            return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                            "\"%s\" and \"%s\" both say what %s is; give one", (*info)->name,
                            list[i]->name, key->name_key);
        }
        *out = item;
        *info = list[i];
    }
    return KVT_OK;
}

static kvt_status apply_plugin_member(struct kvt_load *load, const struct kvt_key *key,
                                      cJSON *object, const struct kvt_at *up, const cJSON *given,
                                      struct kvt_error *err)
{
    const struct kvt_plugin_info *info = kvt_chosen(load, key, object);
    const struct kvt_at at = kvt_at_member(up, given->string);
    const struct kvt_param_spec *spec = kvt_param_find(info, given->string);
    if (spec != NULL) {
        const struct kvt_key param = kvt_key_of_param(spec);
        return apply_member(load, &param, object, &at, given, err);
    }
    const struct kvt_key *member = kvt_key_member(key, given->string);
    if (member == NULL)
        return kvt_unknown_key(load->options->plugins, key, info, &at, err);
    if (member->belongs != NULL && !member->belongs(info)) {
        char place[KVT_PLACE_BYTES];
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(&at, place),
                        "%s has no effect with %s \"%s\": %s", member->name, key->name_key,
                        info->name, member->belongs_why);
    }
    return apply_member(load, member, object, &at, given, err);
}

/* What the shorthand holds: an object of parameters, or the value of the one
 * parameter that has the plug-in's name. */
static kvt_status apply_shorthand(struct kvt_load *load, const struct kvt_key *key, cJSON *object,
                                  const struct kvt_at *at, const cJSON *given,
                                  struct kvt_error *err)
{
    const struct kvt_key bare = {.name = key->name, .kind = key->kind, .name_key = key->name_key};
    if (!cJSON_IsObject(given) &&
        kvt_param_find(kvt_chosen(load, key, object), given->string) != NULL)
        return apply_plugin_member(load, &bare, object, at, given, err);
    const struct kvt_at within = kvt_at_member(at, given->string);
    if (!cJSON_IsObject(given))
        return kvt_refuse_value(&within, given, "an object of its parameters", err);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, given)
    {
        kvt_status status = apply_plugin_member(load, &bare, object, &within, item, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status apply_plugin(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                               const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    cJSON *object = kvt_tree_find(parent, key->name);
    const struct kvt_plugin_info *info = NULL;
    const cJSON *shorthand = NULL;
    kvt_status status = KVT_OK;
    if (cJSON_IsString(given)) {
        status = find_named(load, key, at, given, &info, err);
        return status == KVT_OK ? choose(load, key, object, at, at, info, err) : status;
    }
    if (!cJSON_IsObject(given))
        return kvt_refuse_value(at, given, "a name, or an object of a name and parameters", err);

    const cJSON *name = kvt_tree_find(given, key->name_key);
    struct kvt_at name_at = kvt_at_member(at, key->name_key);
    if (name != NULL)
        status = find_named(load, key, &name_at, name, &info, err);
    if (status == KVT_OK)
        status = find_shorthand(load, key, at, given, info, &shorthand, &info, err);
    if (name == NULL && shorthand != NULL)
        name_at.name = shorthand->string;
    if (status == KVT_OK && info != NULL)
        status = choose(load, key, object, at, &name_at, info, err);
    if (status == KVT_OK && shorthand != NULL)
        status = apply_shorthand(load, key, object, at, shorthand, err);
    for (const cJSON *item = given->child; status == KVT_OK && item != NULL; item = item->next) {
        if (item != name && item != shorthand)
            status = apply_plugin_member(load, key, object, at, item, err);
    }
    return status;
}

/* ---- All of it ------------------------------------------------------------------------- */

static kvt_status apply_extends(const struct kvt_at *at, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    if (at->layer->kind == KVT_LAYER_FILE)
        return KVT_OK; /* its layers came before this one */
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                    "extends is read from files only; name the scenario itself instead");
}

static kvt_status apply_member(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                               const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    if (key->refused != NULL)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, kvt_at_place(at, place), "%s", key->refused);
    kvt_status status = kvt_refuse_null(at, given, err);
    if (status != KVT_OK)
        return status;
    switch (key->type) {
    case KVT_KEY_EXTENDS:
        return apply_extends(at, err);
    case KVT_KEY_FILE:
        return kvt_apply_file(load, key, parent, at, given, err);
    case KVT_KEY_OBJECT:
        return apply_object_member(load, key, parent, at, given, err);
    case KVT_KEY_LIST:
        return apply_list(load, key, parent, at, given, err);
    case KVT_KEY_PLUGIN:
        return apply_plugin(load, key, parent, at, given, err);
    default:
        return apply_leaf(load, key, parent, at, given, err);
    }
}

kvt_status kvt_layers_apply(struct kvt_load *load, struct kvt_error *err)
{
    const struct kvt_key *root = kvt_keys_root();
    kvt_status status = kvt_default_object(load, root, &load->tree, err);
    for (size_t i = 0; status == KVT_OK && i < load->layer_count; i++) {
        const struct kvt_layer *layer = load->layers[i];
        const struct kvt_at at = {.name = "", .layer = layer};
        status = apply_object(load, root, load->tree, &at, layer->tree, err);
        /* A name is of one file, not of those that extend it. */
        if (status == KVT_OK && layer->kind == KVT_LAYER_FILE && layer != load->main)
            kvt_tree_remove(load->tree, "name");
    }
    return status;
}

/* NOLINTEND(misc-no-recursion) */
