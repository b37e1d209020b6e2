/* tree.c -- building, searching and naming places of the tree in force. */
#include "tree.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

/* The cJSON node comes first, so that a pointer to it is one to the value. */
struct value {
    cJSON json;
    const struct kvt_layer *layer;
    const char *place; /* where the layer gave it, once noted */
};

enum {
    INDEX_DIGITS_MAX = 4,
    DOTTED_BYTES = 512
};

/* ---- Places ------------------------------------------------------------------ */

struct writer {
    char *out;
    size_t capacity, used;
};

static void put(struct writer *writer, char byte)
{
    if (writer->used + 1 < writer->capacity)
        writer->out[writer->used++] = byte;
}

static void put_text(struct writer *writer, const char *text)
{
    for (; *text != '\0'; text++)
        put(writer, *text);
}

/* As RFC 6901 has it: '~' and '/' of a name are escaped. */
static void put_pointer_part(struct writer *writer, const char *name)
{
    put(writer, '/');
    for (; *name != '\0'; name++) {
        if (*name == '~')
            put_text(writer, "~0");
        else if (*name == '/')
            put_text(writer, "~1");
        else
            put(writer, *name);
    }
}

static void put_path(struct writer *writer, const struct kvt_at *at, bool is_dotted)
{
    if (at->up == NULL)
        return;
    put_path(writer, at->up, is_dotted);
    if (!is_dotted) {
        put_pointer_part(writer, at->name);
        return;
    }
    if (at->up->up != NULL)
        put(writer, '.');
    put_text(writer, at->name);
}

const char *kvt_at_place(const struct kvt_at *at, char out[KVT_PLACE_BYTES])
{
    struct writer writer = {.out = out, .capacity = KVT_PLACE_BYTES};

    put_text(&writer, at->layer->name);
    if (at->layer->kind == KVT_LAYER_SET) {
        put(&writer, ' ');
    } else {
        put(&writer, '#');
        put_text(&writer, at->layer->pointer);
    }
    put_path(&writer, at, at->layer->kind == KVT_LAYER_SET);
    out[writer.used] = '\0';
    return out;
}

const char *kvt_at_dotted(const struct kvt_at *at, char out[KVT_PLACE_BYTES])
{
    struct writer writer = {.out = out, .capacity = KVT_PLACE_BYTES};

    put_path(&writer, at, true);
    out[writer.used] = '\0';
    return out;
}

/* ---- Building ---------------------------------------------------------------- */

cJSON *kvt_tree_new(struct kvt_arena *arena, const struct kvt_layer *layer, int type)
{
    struct value *value = kvt_arena_alloc(arena, sizeof *value, _Alignof(struct value));
    if (value == NULL)
        return NULL;
    value->json.type = type;
    value->layer = layer;
    value->place = NULL;
    return &value->json;
}

cJSON *kvt_tree_text(struct kvt_arena *arena, const struct kvt_layer *layer, const char *text)
{
    cJSON *node = kvt_tree_new(arena, layer, cJSON_String);
    if (node == NULL)
        return NULL;
    node->valuestring = kvt_arena_strdup(arena, text);
    return node->valuestring != NULL ? node : NULL;
}

cJSON *kvt_tree_number(struct kvt_arena *arena, const struct kvt_layer *layer, double number)
{
    cJSON *node = kvt_tree_new(arena, layer, cJSON_Number);
    if (node == NULL)
        return NULL;
    node->valuedouble = number;
    /* cJSON's own readers look here; saturated as its parser does. */
    node->valueint = number >= INT_MAX ? INT_MAX : number <= INT_MIN ? INT_MIN : (int)number;
    return node;
}

cJSON *kvt_tree_copy(struct kvt_arena *arena, const struct kvt_layer *layer, const cJSON *from)
{
    if (cJSON_IsString(from))
        return kvt_tree_text(arena, layer, from->valuestring);
    if (cJSON_IsNumber(from))
        return kvt_tree_number(arena, layer, from->valuedouble);

    cJSON *node = kvt_tree_new(arena, layer, from->type & 0xff);
    if (node == NULL)
        return NULL;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, from)
    {
        cJSON *copy = kvt_tree_copy(arena, layer, item);
        if (copy == NULL)
            return NULL;
        if (item->string != NULL) {
            copy->string = kvt_arena_strdup(arena, item->string);
            if (copy->string == NULL)
                return NULL;
        }
        kvt_tree_append(node, copy);
    }
    return node;
}

void kvt_tree_append(cJSON *array, cJSON *child)
{
    child->next = NULL;
    if (array->child == NULL) {
        array->child = child;
        child->prev = child; /* cJSON keeps the last child there */
        return;
    }
    cJSON *last = array->child->prev;
    last->next = child;
    child->prev = last;
    array->child->prev = child;
}

static void unlink_child(cJSON *parent, cJSON *child)
{
    if (child == parent->child) {
        parent->child = child->next;
        if (child->next != NULL)
            child->next->prev = child->prev;
    } else {
        child->prev->next = child->next;
        if (child->next != NULL)
            child->next->prev = child->prev;
        else
            parent->child->prev = child->prev;
    }
    child->next = NULL;
    child->prev = NULL;
}

cJSON *kvt_tree_find(const cJSON *object, const char *name)
{
    cJSON *item = NULL;
    cJSON_ArrayForEach(item, object)
    {
        if (item->string != NULL && strcmp(item->string, name) == 0)
            return item;
    }
    return NULL;
}

void kvt_tree_set(cJSON *parent, const char *name, cJSON *child)
{
    /* cJSON's member is not const, but nothing here writes through it. */
    child->string = (char *)name;
    cJSON *older = kvt_tree_find(parent, name);
    if (older == NULL) {
        kvt_tree_append(parent, child);
        return;
    }
    child->next = older->next;
    child->prev = older->prev;
    if (older->next != NULL)
        older->next->prev = child;
    if (older == parent->child) {
        if (older->prev == older)
            child->prev = child;
        parent->child = child;
    } else {
        older->prev->next = child;
    }
    if (older->next == NULL)
        parent->child->prev = child;
}

void kvt_tree_remove(cJSON *parent, const char *name)
{
    cJSON *child = kvt_tree_find(parent, name);
    if (child != NULL)
        unlink_child(parent, child);
}

void kvt_tree_move_last(cJSON *parent, cJSON *child)
{
    unlink_child(parent, child);
    kvt_tree_append(parent, child);
}

/* ---- Finding ----------------------------------------------------------------- */

const struct kvt_layer *kvt_tree_layer(const cJSON *node)
{
    return ((const struct value *)(const void *)node)->layer;
}

void kvt_tree_note_place(cJSON *node, const char *place)
{
    ((struct value *)(void *)node)->place = place;
}

const char *kvt_tree_place(const cJSON *node)
{
    return ((const struct value *)(const void *)node)->place;
}

cJSON *kvt_tree_element(const cJSON *array, const char *index)
{
    size_t digits = strspn(index, "0123456789");
    if (digits == 0 || digits > INDEX_DIGITS_MAX || index[digits] != '\0' || array == NULL)
        return NULL;
    unsigned wanted = 0;
    for (size_t i = 0; i < digits; i++)
        wanted = wanted * 10 + (unsigned)(index[i] - '0');
    cJSON *item = array->child;
    for (; item != NULL && wanted > 0; wanted--)
        item = item->next;
    return item;
}

cJSON *kvt_tree_at(const cJSON *tree, const char *dotted)
{
    char name[DOTTED_BYTES];
    cJSON *node = NULL;
    for (const cJSON *within = tree; within != NULL; within = node) {
        size_t length = strcspn(dotted, ".");
        if (length >= sizeof name)
            return NULL;
        memcpy(name, dotted, length);
        name[length] = '\0';
        node = cJSON_IsArray(within) ? kvt_tree_element(within, name) : kvt_tree_find(within, name);
        if (dotted[length] == '\0')
            return node;
        dotted += length + 1;
    }
    return NULL;
}

/* ---- Origins ----------------------------------------------------------------- */

static bool has_members(const cJSON *node)
{
    if (cJSON_IsObject(node))
        return node->child != NULL;
    return cJSON_IsArray(node) && node->child != NULL && cJSON_IsObject(node->child);
}

static bool add_origins(struct kvt_arena *arena, const cJSON *node, const char *prefix,
                        cJSON *origins)
{
    unsigned index = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, node)
    {
        const char *dot = prefix[0] != '\0' ? "." : "";
        const char *path = item->string != NULL
                               ? kvt_arena_printf(arena, "%s%s%s", prefix, dot, item->string)
                               : kvt_arena_printf(arena, "%s%s%u", prefix, dot, index);
        index++;
        if (path == NULL)
            return false;
        if (has_members(item)) {
            if (!add_origins(arena, item, path, origins))
                return false;
            continue;
        }
        const struct kvt_layer *layer = kvt_tree_layer(item);
        cJSON *origin = kvt_tree_text(arena, layer, layer->name);
        if (origin == NULL)
            return false;
        kvt_tree_set(origins, path, origin);
    }
    return true;
}

cJSON *kvt_tree_origins(struct kvt_arena *arena, const cJSON *tree)
{
    cJSON *origins = kvt_tree_new(arena, kvt_tree_layer(tree), cJSON_Object);
    if (origins == NULL || !add_origins(arena, tree, "", origins))
        return NULL;
    return origins;
}

/* NOLINTEND(misc-no-recursion) */
