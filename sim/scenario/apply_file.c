/* apply_file.c -- a model or hardware by name, path or {"base": one, ...changes}, into the tree in
 * force; the files themselves are read when all layers have spoken. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "apply.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

kvt_status kvt_refuse_value(const struct kvt_at *at, const cJSON *given, const char *expected,
                            struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place), "%s is not %s",
                    kvt_value_describe(given, described), expected);
}

kvt_status kvt_refuse_null(const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    if (!cJSON_IsNull(given))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                    "null is no value; leave the key out to have its default");
}

cJSON *kvt_copy_path(struct kvt_load *load, const struct kvt_layer *layer, const char *text)
{
    const char *path = kvt_path_from(load->arena, layer->folder, text);
    return path != NULL ? kvt_tree_text(load->arena, layer, path) : NULL;
}

static kvt_status copy_file_name(struct kvt_load *load, const struct kvt_key *key,
                                 const struct kvt_at *at, const cJSON *given, cJSON **out,
                                 struct kvt_error *err)
{
    char expected[96];
    (void)snprintf(expected, sizeof expected,
                   "the name of a %s, a path, or an object with \"base\"", key->noun);
    if (!cJSON_IsString(given) || given->valuestring[0] == '\0')
        return kvt_refuse_value(at, given, expected, err);
    *out = kvt_is_path(given->valuestring) ? kvt_copy_path(load, at->layer, given->valuestring)
                                           : kvt_tree_copy(load->arena, at->layer, given);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a scenario");
}

/* Changes to a file that is read later: objects merge, all else replaces. skip: the
 * member that is no change, or NULL. */
static kvt_status merge_changes(struct kvt_load *load, cJSON *object, const struct kvt_at *at,
                                const cJSON *given, const cJSON *skip, struct kvt_error *err)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, given)
    {
        const struct kvt_at member = kvt_at_member(at, item->string);
        kvt_status status = kvt_refuse_null(&member, item, err);
        if (status != KVT_OK)
            return status;
        if (item == skip)
            continue;
        cJSON *older = kvt_tree_find(object, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(older)) {
            status = merge_changes(load, older, &member, item, NULL, err);
            if (status != KVT_OK)
                return status;
            continue;
        }
        cJSON *copy = kvt_tree_copy(load->arena, at->layer, item);
        if (copy == NULL)
            return kvt_fail_nomem(err, "a scenario");
        kvt_tree_set(object, item->string, copy);
    }
    return KVT_OK;
}

/* The object that changes go into: what is there, unless another base is named. */
static kvt_status open_changes(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                               const struct kvt_at *at, const cJSON *given, cJSON **out,
                               struct kvt_error *err)
{
    cJSON *older = kvt_tree_find(parent, key->name);
    cJSON *older_base = cJSON_IsObject(older) ? kvt_tree_find(older, "base") : older;
    const cJSON *named = kvt_tree_find(given, "base");
    cJSON *base = NULL;
    if (named != NULL) {
        const struct kvt_at base_at = kvt_at_member(at, "base");
        kvt_status status = copy_file_name(load, key, &base_at, named, &base, err);
        if (status != KVT_OK)
            return status;
    } else if (older_base != NULL) {
        base = kvt_tree_copy(load->arena, kvt_tree_layer(older_base), older_base);
        if (base == NULL)
            return kvt_fail_nomem(err, "a scenario");
    } else {
        char place[KVT_PLACE_BYTES];
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(at, place),
                        "changes without a \"base\"; name the %s that they change", key->noun);
    }
    assert(base != NULL);
    bool is_same = older_base != NULL && strcmp(older_base->valuestring, base->valuestring) == 0;
    *out = is_same && cJSON_IsObject(older) ? older
                                            : kvt_tree_new(load->arena, at->layer, cJSON_Object);
    if (*out == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_tree_set(*out, "base", base);
    return KVT_OK;
}

kvt_status kvt_apply_file(struct kvt_load *load, const struct kvt_key *key, cJSON *parent,
                          const struct kvt_at *at, const cJSON *given, struct kvt_error *err)
{
    cJSON *node = NULL;
    kvt_status status = KVT_OK;
    if (cJSON_IsObject(given)) {
        status = open_changes(load, key, parent, at, given, &node, err);
        if (status == KVT_OK)
            status = merge_changes(load, node, at, given, kvt_tree_find(given, "base"), err);
    } else {
        status = copy_file_name(load, key, at, given, &node, err);
    }
    if (status == KVT_OK && node != kvt_tree_find(parent, key->name))
        kvt_tree_set(parent, key->name, node);
    return status;
}

/* NOLINTEND(misc-no-recursion) */
