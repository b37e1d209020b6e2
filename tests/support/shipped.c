/* shipped.c -- model files of the checkout, for tests. */
#include "support/shipped.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    PATH_BYTES = 256
};

cJSON *shipped_tree(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct kvt_error err;
    cJSON *tree = NULL;

    (void)snprintf(path, sizeof path, "%s/models/%s/%s.json", KVT_TEST_ROOT, folder, name);
    if (kvt_json_load(path, FILE_BYTES_MAX, &tree, &err) != KVT_OK) {
        ck_abort_msg("%s: %s", err.where, err.message);
    }
    return tree;
}

static void *room_for(struct kvt_arena *arena, size_t size_bytes)
{
    void *room = kvt_arena_alloc(arena, size_bytes, 16);

    ck_assert_ptr_nonnull(room);
    return room;
}

static void expect_loaded(kvt_status status, const struct kvt_error *err)
{
    if (status != KVT_OK) {
        ck_abort_msg("%s: %s", err->where, err->message);
    }
}

const struct kvt_llm *shipped_llm(struct kvt_arena *arena, const char *name)
{
    struct kvt_llm *llm = room_for(arena, sizeof *llm);
    cJSON *tree = shipped_tree("llm", name);
    struct kvt_error err;

    expect_loaded(kvt_llm_from_json(tree, name, arena, llm, &err), &err);
    cJSON_Delete(tree);
    return llm;
}

const struct kvt_drafter *shipped_drafter(struct kvt_arena *arena, const char *name)
{
    struct kvt_drafter *drafter = room_for(arena, sizeof *drafter);
    cJSON *tree = shipped_tree("drafters", name);
    struct kvt_error err;

    expect_loaded(kvt_drafter_from_json(tree, name, arena, drafter, &err), &err);
    cJSON_Delete(tree);
    return drafter;
}

const struct kvt_engine *shipped_engine(struct kvt_arena *arena, const char *name)
{
    struct kvt_engine *engine = room_for(arena, sizeof *engine);
    cJSON *tree = shipped_tree("engine", name);
    struct kvt_error err;

    expect_loaded(kvt_engine_from_json(tree, name, arena, engine, &err), &err);
    cJSON_Delete(tree);
    return engine;
}

const struct kvt_hardware *shipped_hardware(struct kvt_arena *arena, const char *name)
{
    struct kvt_hardware *hardware = room_for(arena, sizeof *hardware);
    cJSON *tree = shipped_tree("hardware", name);
    struct kvt_error err;

    expect_loaded(kvt_hardware_from_json(tree, name, arena, hardware, &err), &err);
    cJSON_Delete(tree);
    return hardware;
}

/* The member of an object by name, or of an array by number. */
static cJSON *child_of(cJSON *parent, const char *key)
{
    if (cJSON_IsArray(parent)) {
        return cJSON_GetArrayItem(parent, (int)strtol(key, NULL, 10));
    }
    return cJSON_GetObjectItemCaseSensitive(parent, key);
}

void shipped_apply(cJSON *tree, const struct shipped_edit *edit)
{
    cJSON *parent = tree;
    const char *rest = edit->pointer;
    char key[PATH_BYTES];
    cJSON *value = NULL;
    cJSON *old = NULL;

    while (true) {
        size_t length = strcspn(++rest, "/");

        memcpy(key, rest, length);
        key[length] = '\0';
        rest += length;
        if (*rest == '\0') {
            break;
        }
        parent = child_of(parent, key);
        ck_assert_msg(parent != NULL, "nothing at %s", edit->pointer);
    }
    if (edit->value != NULL) {
        value = cJSON_Parse(edit->value);
        ck_assert_msg(value != NULL, "no JSON: %s", edit->value);
    }
    old = child_of(parent, key);
    if (old != NULL && value != NULL) {
        cJSON_ReplaceItemViaPointer(parent, old, value);
        if (!cJSON_IsArray(parent)) {
            /* The pointer form drops the name. */
            value->string = malloc(strlen(key) + 1);
            ck_assert_ptr_nonnull(value->string);
            memcpy(value->string, key, strlen(key) + 1);
        }
    } else if (old != NULL) {
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, old));
    } else if (cJSON_IsArray(parent)) {
        cJSON_AddItemToArray(parent, value);
    } else {
        cJSON_AddItemToObject(parent, key, value);
    }
}
