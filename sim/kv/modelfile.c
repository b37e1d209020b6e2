/* modelfile.c -- what model, drafter and hardware files share. */
#include "modelfile.h"

#include <stdio.h>
#include <string.h>

enum {
    DOTTED_BYTES = 160,
    DEPTH_MAX = 4
};

static const char *const head_keys[] = {KVT_MODEL_HEAD_KEYS};

static bool is_head_key(const char *key)
{
    for (size_t i = 0; i < sizeof head_keys / sizeof head_keys[0]; i++) {
        if (strcmp(key, head_keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The member that a dotted path names; NULL when there is none. */
static const cJSON *find_dotted(const cJSON *tree, const char *dotted)
{
    char key[DOTTED_BYTES];
    const cJSON *item = tree;

    while (item != NULL) {
        size_t length = strcspn(dotted, ".");

        if (length >= sizeof key || !cJSON_IsObject(item)) {
            return NULL;
        }
        memcpy(key, dotted, length);
        key[length] = '\0';
        item = kvt_json_find(item, key);
        if (dotted[length] == '\0') {
            return item;
        }
        dotted += length + 1;
    }
    return NULL;
}

/* Each source is a sentence about something that is in the file. */
static kvt_status check_each_source(const cJSON *tree, const cJSON *sources, const char *where,
                                    struct kvt_error *err)
{
    const cJSON *source = NULL;

    cJSON_ArrayForEach(source, sources)
    {
        if (!cJSON_IsString(source) || source->valuestring[0] == '\0') {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "the source of \"%s\" is no text: say in words where it comes from",
                            source->string);
        }
        if (is_head_key(source->string) || find_dotted(tree, source->string) == NULL) {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "a source for \"%s\", which is no number of this file: keys here are "
                            "those of the file, members of objects with a dot",
                            source->string);
        }
    }
    return KVT_OK;
}

/* Walk the members; a source covers everything below its key, so that a table of
 * numbers from one page needs one line. */
static kvt_status check_each_number(const cJSON *tree, const cJSON *sources, const char *where,
                                    struct kvt_error *err)
{
    char dotted[DOTTED_BYTES] = "";
    struct {
        const cJSON *next;
        size_t length; /* of the dotted path of the object that holds it */
    } stack[DEPTH_MAX] = {{tree->child, 0}};
    size_t depth = 1;

    while (depth > 0) {
        const cJSON *item = stack[depth - 1].next;
        size_t length = stack[depth - 1].length;

        if (item == NULL) {
            depth--;
            continue;
        }
        stack[depth - 1].next = item->next;
        if (depth == 1 && is_head_key(item->string)) {
            continue;
        }
        int written = snprintf(dotted + length, sizeof dotted - length, "%s%s",
                               length > 0 ? "." : "", item->string);
        if (written < 0 || (size_t)written >= sizeof dotted - length) {
            return kvt_fail(err, KVT_ERR_INVALID, where, "a key longer than %d bytes",
                            DOTTED_BYTES - 1);
        }
        if (kvt_json_find(sources, dotted) != NULL) {
            continue;
        }
        if (cJSON_IsObject(item) && depth < DEPTH_MAX) {
            stack[depth].next = item->child;
            stack[depth].length = length + (size_t)written;
            depth++;
        } else if (!cJSON_IsString(item)) {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "no source for \"%s\": every number says where it comes from, under "
                            "its own key or that of an object that holds it",
                            dotted);
        }
    }
    return KVT_OK;
}

kvt_status kvt_sources_check(const cJSON *tree, const char *where, struct kvt_error *err)
{
    char place[KVT_WHERE_BYTES + 16];
    const cJSON *sources = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "sources", true, &sources, err);

    if (status != KVT_OK) {
        return status;
    }
    (void)snprintf(place, sizeof place, "%s/sources", where);
    status = check_each_source(tree, sources, place, err);
    if (status != KVT_OK) {
        return status;
    }
    return check_each_number(tree, sources, place, err);
}

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
