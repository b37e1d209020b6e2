/* schema.c -- the JSON Schema of scenarios (draft 2020-12), from the table of keys.
 *
 * An editor's help, not the judge: what depends on other files or other keys (a
 * plug-in inherited by `extends`, a key under a switch) is checked at load. */
#include <float.h>
#include <string.h>

#include "keys.h"
#include "kvt/scenario.h"
#include "tree.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

enum {
    ARENA_BYTES = 1 << 16
};

/* After the first failed allocation every node is a stand-in, and none is kept. */
struct maker {
    struct kvt_arena *arena;
    struct kvt_layer layer;
    cJSON stand_in;
    bool is_short; /* of memory */
};

static cJSON *checked(struct maker *maker, cJSON *node)
{
    if (node != NULL)
        return node;
    maker->is_short = true;
    return &maker->stand_in;
}

static cJSON *new_object(struct maker *maker)
{
    return checked(maker, kvt_tree_new(maker->arena, &maker->layer, cJSON_Object));
}

static cJSON *new_list(struct maker *maker)
{
    return checked(maker, kvt_tree_new(maker->arena, &maker->layer, cJSON_Array));
}

static cJSON *new_text(struct maker *maker, const char *text)
{
    return checked(maker, kvt_tree_text(maker->arena, &maker->layer, text));
}

static void set(struct maker *maker, cJSON *object, const char *name, cJSON *child)
{
    if (!maker->is_short)
        kvt_tree_set(object, name, child);
}

static void append(struct maker *maker, cJSON *list, cJSON *child)
{
    if (!maker->is_short)
        kvt_tree_append(list, child);
}

static void set_text(struct maker *maker, cJSON *object, const char *name, const char *text)
{
    set(maker, object, name, new_text(maker, text));
}

static void set_number(struct maker *maker, cJSON *object, const char *name, double number)
{
    set(maker, object, name, checked(maker, kvt_tree_number(maker->arena, &maker->layer, number)));
}

static cJSON *typed(struct maker *maker, const char *type)
{
    cJSON *schema = new_object(maker);
    set_text(maker, schema, "type", type);
    return schema;
}

/* An object of these properties and no others. */
static cJSON *closed_object(struct maker *maker, cJSON *properties)
{
    cJSON *schema = typed(maker, "object");
    set(maker, schema, "properties", properties);
    set(maker, schema, "additionalProperties",
        checked(maker, kvt_tree_new(maker->arena, &maker->layer, cJSON_False)));
    return schema;
}

/* Either of two. */
static cJSON *either(struct maker *maker, cJSON *first, cJSON *second)
{
    cJSON *schema = new_object(maker);
    cJSON *list = new_list(maker);
    append(maker, list, first);
    append(maker, list, second);
    set(maker, schema, "anyOf", list);
    return schema;
}

static cJSON *constant(struct maker *maker, const char *text)
{
    cJSON *schema = new_object(maker);
    set_text(maker, schema, "const", text);
    return schema;
}

/* ---- By type ------------------------------------------------------------------------ */

static cJSON *schema_of(struct maker *maker, const struct kvt_key *key);

static cJSON *number_schema(struct maker *maker, const struct kvt_key *key, const char *type)
{
    cJSON *schema = typed(maker, type);
    set_number(maker, schema, "minimum", key->minimum);
    if (key->maximum < DBL_MAX)
        set_number(maker, schema, "maximum", key->maximum);
    return schema;
}

static cJSON *text_schema(struct maker *maker, double least)
{
    cJSON *schema = typed(maker, "string");
    if (least > 0)
        set_number(maker, schema, "minLength", 1);
    return schema;
}

static cJSON *list_schema(struct maker *maker, cJSON *items, double least, double most)
{
    cJSON *schema = typed(maker, "array");
    set(maker, schema, "items", items);
    if (least > 0)
        set_number(maker, schema, "minItems", least);
    if (most > 0)
        set_number(maker, schema, "maxItems", most);
    return schema;
}

static cJSON *choice_names(struct maker *maker, const char *choices)
{
    cJSON *list = new_list(maker);
    size_t count = kvt_choice_count(choices);
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        const char *choice = kvt_choice_at(choices, i, &length);
        const char *name = kvt_arena_printf(maker->arena, "%.*s", (int)length, choice);
        maker->is_short |= name == NULL;
        append(maker, list, new_text(maker, name != NULL ? name : ""));
    }
    return list;
}

static cJSON *choice_schema(struct maker *maker, const struct kvt_key *key)
{
    cJSON *schema = new_object(maker);
    set(maker, schema, "enum", choice_names(maker, key->choices));
    return schema;
}

/* The word, or one of the words, that stand in a value's place. */
static cJSON *words_schema(struct maker *maker, const char *words)
{
    const struct kvt_key choice = {.choices = words};
    return kvt_choice_count(words) > 1 ? choice_schema(maker, &choice) : constant(maker, words);
}

static cJSON *records_schema(struct maker *maker, const struct kvt_key *key)
{
    cJSON *properties = new_object(maker);
    cJSON *names = choice_names(maker, key->choices);
    for (const cJSON *name = names->child; name != NULL; name = name->next)
        set(maker, properties, name->valuestring, number_schema(maker, key, "number"));
    cJSON *record = closed_object(maker, properties);
    set(maker, record, "required", names);
    return list_schema(maker, record, 1, 0);
}

static cJSON *hot_schema(struct maker *maker, const struct kvt_key *key)
{
    cJSON *multiple = typed(maker, "string");
    set_text(maker, multiple, "pattern", "^[0-9]+(\\.[0-9]+)?k$");
    return either(maker, number_schema(maker, key, "integer"), multiple);
}

static cJSON *file_schema(struct maker *maker)
{
    cJSON *properties = new_object(maker);
    cJSON *changes = typed(maker, "object");
    set(maker, properties, "base", text_schema(maker, 1));
    set(maker, changes, "properties", properties);
    return either(maker, text_schema(maker, 1), changes);
}

static void add_members(struct maker *maker, const struct kvt_key *key,
                        const struct kvt_plugin_info *info, cJSON *properties)
{
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        if (member->refused != NULL ||
            (info != NULL && member->belongs != NULL && !member->belongs(info)))
            continue;
        set(maker, properties, member->name, schema_of(maker, member));
    }
}

static void add_params(struct maker *maker, const struct kvt_plugin_info *info, cJSON *properties)
{
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_key param = kvt_key_of_param(&info->params[i]);
        set(maker, properties, info->params[i].name, schema_of(maker, &param));
    }
}

/* {"closed": {...}} beside {"arrival": "closed", ...}; where a parameter has the
 * plug-in's name, its own form as well. */
static void add_shorthand(struct maker *maker, const struct kvt_plugin_info *info,
                          cJSON *properties)
{
    cJSON *params = new_object(maker);
    add_params(maker, info, params);
    cJSON *schema = closed_object(maker, params);
    const struct kvt_param_spec *namesake = kvt_param_find(info, info->name);
    if (namesake != NULL) {
        const struct kvt_key param = kvt_key_of_param(namesake);
        schema = either(maker, schema_of(maker, &param), schema);
    }
    set(maker, properties, info->name, schema);
}

static cJSON *plugin_schema(struct maker *maker, const struct kvt_key *key)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, key->kind, &count);
    cJSON *schema = new_object(maker);
    cJSON *names = new_object(maker);
    cJSON *name_list = new_list(maker);
    cJSON *forms = new_list(maker);
    for (size_t i = 0; i < count; i++)
        append(maker, name_list, new_text(maker, list[i]->name));
    set(maker, names, "enum", name_list);
    append(maker, forms, names);
    for (size_t i = 0; i < count; i++) {
        cJSON *properties = new_object(maker);
        set(maker, properties, key->name_key, constant(maker, list[i]->name));
        add_params(maker, list[i], properties);
        add_members(maker, key, list[i], properties);
        if (key->takes_shorthand)
            add_shorthand(maker, list[i], properties);
        cJSON *form = closed_object(maker, properties);
        set_text(maker, form, "description", list[i]->summary);
        append(maker, forms, form);
    }
    set(maker, schema, "anyOf", forms);
    return schema;
}

static cJSON *object_schema(struct maker *maker, const struct kvt_key *key)
{
    cJSON *properties = new_object(maker);
    add_members(maker, key, NULL, properties);
    return closed_object(maker, properties);
}

static cJSON *bare_schema(struct maker *maker, const struct kvt_key *key)
{
    switch (key->type) {
    case KVT_KEY_COUNT:
        return number_schema(maker, key, "integer");
    case KVT_KEY_REAL:
        return number_schema(maker, key, "number");
    case KVT_KEY_BOOL:
        return typed(maker, "boolean");
    case KVT_KEY_TEXT:
        return text_schema(maker, key->minimum);
    case KVT_KEY_CHOICE:
        return choice_schema(maker, key);
    case KVT_KEY_NUMBERS:
        return either(maker, number_schema(maker, key, "number"),
                      list_schema(maker, number_schema(maker, key, "number"), 0, 0));
    case KVT_KEY_RECORDS:
        return records_schema(maker, key);
    case KVT_KEY_HOT:
        return hot_schema(maker, key);
    case KVT_KEY_EXTENDS:
        return either(maker, text_schema(maker, 1),
                      list_schema(maker, text_schema(maker, 1), 0, 0));
    case KVT_KEY_FILE:
        return file_schema(maker);
    case KVT_KEY_LIST:
        return list_schema(maker, object_schema(maker, key), 0, key->maximum);
    case KVT_KEY_PLUGIN:
        return plugin_schema(maker, key);
    case KVT_KEY_OBJECT:
        break;
    }
    cJSON *schema = object_schema(maker, key);
    if (!key->takes_list)
        return schema;
    return either(maker, schema, list_schema(maker, object_schema(maker, key), 1, key->maximum));
}

static cJSON *schema_of(struct maker *maker, const struct kvt_key *key)
{
    cJSON *schema = bare_schema(maker, key);
    if (key->word != NULL)
        schema = either(maker, schema, words_schema(maker, key->word));
    if (key->help != NULL)
        set_text(maker, schema, "description", key->help);
    return schema;
}

char *kvt_scenario_schema(void)
{
    struct maker maker = {.arena = kvt_arena_new(ARENA_BYTES),
                          .layer = {.kind = KVT_LAYER_DEFAULT, .name = "schema"},
                          .stand_in = {.type = cJSON_Object}};
    if (maker.arena == NULL)
        return NULL;
    cJSON *schema = new_object(&maker);
    set_text(&maker, schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    set_text(&maker, schema, "title", KVT_SCENARIO_SCHEMA);
    cJSON *whole = schema_of(&maker, kvt_keys_root());
    while (!maker.is_short && whole->child != NULL) {
        cJSON *member = whole->child;
        kvt_tree_remove(whole, member->string);
        kvt_tree_set(schema, member->string, member);
    }
    cJSON *required = new_list(&maker);
    append(&maker, required, new_text(&maker, "schema"));
    set(&maker, schema, "required", required);
    char *text = maker.is_short ? NULL : kvt_json_print(schema);
    kvt_arena_free(maker.arena);
    return text;
}

/* NOLINTEND(misc-no-recursion) */
