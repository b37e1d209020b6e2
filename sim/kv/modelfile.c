/* modelfile.c -- what model, drafter and hardware files share. */
#include "modelfile.h"

#include <stdio.h>
#include <string.h>

kvt_status kvt_model_head_read(const cJSON *tree, const char *path, const char *schema,
                               struct kvt_arena *arena, struct kvt_model_head *head,
                               struct kvt_error *err)
{
    struct kvt_model_head read = {0};
    const char *found = NULL;
    const char *name = NULL;
    const char *summary = NULL;
    kvt_status status = KVT_OK;

    (void)snprintf(read.where, sizeof read.where, "%s#", path);
    if (!cJSON_IsObject(tree)) {
        return kvt_fail(err, KVT_ERR_INVALID, read.where, "not an object: \"%s\" is one", schema);
    }
    status = kvt_json_get_text(tree, read.where, "schema", true, &found, err);
    if (status == KVT_OK && strcmp(found, schema) != 0) {
        return kvt_fail(err, KVT_ERR_INVALID, read.where, "schema is \"%s\"; expected \"%s\"",
                        found, schema);
    }
    if (status == KVT_OK) {
        status = kvt_json_get_text(tree, read.where, "name", true, &name, err);
    }
    if (status == KVT_OK) {
        status = kvt_json_get_text(tree, read.where, "summary", true, &summary, err);
    }
    if (status != KVT_OK) {
        return status;
    }
    read.name = kvt_arena_strdup(arena, name);
    read.path = kvt_arena_strdup(arena, path);
    read.summary = kvt_arena_strdup(arena, summary);
    if (read.name == NULL || read.path == NULL || read.summary == NULL) {
        return kvt_fail_nomem(err, path);
    }
    *head = read;
    return KVT_OK;
}

static kvt_status read_field(const cJSON *object, const char *where, const struct kvt_field *field,
                             void *out, struct kvt_error *err)
{
    char *place = (char *)out + field->offset;
    uint64_t count = 0;
    kvt_status status = KVT_OK;

    if (field->kind == KVT_FIELD_F64) {
        double real = 0;

        status = kvt_json_get_f64(object, where, field->key, true, field->minimum, field->maximum,
                                  &real, err);
        if (status == KVT_OK) {
            memcpy(place, &real, sizeof real);
        }
        return status;
    }
    status = kvt_json_get_u64(object, where, field->key, true, (uint64_t)field->minimum,
                              (uint64_t)field->maximum, &count, err);
    if (status != KVT_OK) {
        return status;
    }
    if (field->kind == KVT_FIELD_U32) {
        uint32_t narrow = (uint32_t)count;

        memcpy(place, &narrow, sizeof narrow);
    } else if (field->kind == KVT_FIELD_NS) {
        kvt_ns time_ns = (kvt_ns)count;

        memcpy(place, &time_ns, sizeof time_ns);
    } else {
        memcpy(place, &count, sizeof count);
    }
    return KVT_OK;
}

kvt_status kvt_fields_read(const cJSON *object, const char *where, const struct kvt_field *fields,
                           size_t field_count, const char *const *others, size_t other_count,
                           void *out, struct kvt_error *err)
{
    const char *keys[KVT_FIELDS_MAX];
    size_t key_count = 0;
    kvt_status status = KVT_OK;

    if (field_count + other_count > KVT_FIELDS_MAX) {
        return kvt_fail(err, KVT_ERR_INTERNAL, where,
                        "%zu keys, more than the %d there is room for", field_count + other_count,
                        KVT_FIELDS_MAX);
    }
    for (size_t i = 0; i < other_count; i++) {
        keys[key_count++] = others[i];
    }
    for (size_t i = 0; i < field_count; i++) {
        keys[key_count++] = fields[i].key;
    }
    status = kvt_json_check_keys(object, where, keys, key_count, err);
    for (size_t i = 0; status == KVT_OK && i < field_count; i++) {
        status = read_field(object, where, &fields[i], out, err);
    }
    return status;
}
