/* parts.c -- what RAGPulse's prompts consist of.
 *
 *     {"timestamp": "27", "input_length": 3861, "output_length": 127,
 *      "hash_ids": {"sys_prompt": [...], "passages_ids": [...], "history": [...],
 *                   "web_search": [...], "user_input": [...]}, "session_id": "..."}
 *
 * A prompt is its parts one after the other, in the order of the object, and a few tokens of the
 * chat's template more, which nobody names. How long a part is stands in five files beside the
 * trace, a line {"passage_id": 0, "token_length": 84} each; an id stands in one of them. In the
 * published data every prompt is 6 to 12 tokens longer than its parts. Without those files nothing
 * is known of prompts, and a later turn is no continuation of an earlier one: other passages stand
 * in between. Z. Wang et al., "RAGPulse", 2025. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvt/hash.h"
#include "trace_file.h"

enum {
    CAPACITY_FIRST = 1024,
    FILES = 5,
    PATH_BYTES = 4096
};
static const char *const file_names[FILES] = {"1_sys_prompt.jsonl", "2_passages.jsonl",
                                              "3_history.jsonl", "4_user_input.jsonl",
                                              "5_web_search.jsonl"};

struct part {
    uint64_t id_plus_1; /* 0: nobody's place */
    uint32_t tokens;
};

/* Open addressing: linear probing, at most half full. */
struct kvt_trace_parts {
    struct part *table; /* [capacity], a power of two */
    size_t capacity, count;
};

/* A file beside the trace. False where the name is too long for any. */
static bool beside(const char *path, const char *name, char out[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path) + 1 : 0;
    return snprintf(out, PATH_BYTES, "%.*s%s", folder, path, name) < PATH_BYTES;
}

bool kvt_trace_parts_are_beside(const char *path)
{
    char name[PATH_BYTES];
    for (int i = 0; i < FILES; i++) {
        if (beside(path, file_names[i], name) && access(name, F_OK) == 0)
            return true;
    }
    return false;
}

void kvt_trace_parts_free(struct kvt_trace_parts *parts)
{
    if (parts != NULL)
        free(parts->table);
    free(parts);
}

static struct part *place_of(struct part *table, size_t capacity, uint64_t id)
{
    size_t i = (size_t)kvt_mix64(id + 1) & (capacity - 1);
    while (table[i].id_plus_1 != 0 && table[i].id_plus_1 != id + 1)
        i = (i + 1) & (capacity - 1);
    return &table[i];
}

static kvt_status grow(struct kvt_trace_parts *parts, struct kvt_error *err)
{
    size_t capacity = parts->capacity > 0 ? 2 * parts->capacity : CAPACITY_FIRST;
    struct part *table = calloc(capacity, sizeof *table);
    if (table == NULL)
        return kvt_fail_nomem(err, "the parts of a trace's prompts");
    for (size_t i = 0; i < parts->capacity; i++) {
        if (parts->table[i].id_plus_1 != 0)
            *place_of(table, capacity, parts->table[i].id_plus_1 - 1) = parts->table[i];
    }
    free(parts->table);
    parts->table = table;
    parts->capacity = capacity;
    return KVT_OK;
}

static kvt_status add(struct kvt_trace_parts *parts, uint64_t id, uint32_t tokens,
                      const struct kvt_trace_place *place, struct kvt_error *err)
{
    kvt_status status = 2 * parts->count >= parts->capacity ? grow(parts, err) : KVT_OK;
    if (status != KVT_OK)
        return status;
    struct part *part = place_of(parts->table, parts->capacity, id);
    if (part->id_plus_1 != 0) {
        char where[256];
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_PARSE, where, "part %" PRIu64 " has a length already", id);
    }
    *part = (struct part){.id_plus_1 = id + 1, .tokens = tokens};
    parts->count++;
    return KVT_OK;
}

/* Its two members: "token_length", and the id by whatever name. */
static kvt_status add_object(struct kvt_trace_parts *parts, const char *path, uint64_t line,
                             const cJSON *object, struct kvt_error *err)
{
    const cJSON *first = object->child;
    const cJSON *length = kvt_json_find(object, "token_length");
    const cJSON *id = first == length && first != NULL ? first->next : first;
    struct kvt_trace_place place = {.path = path, .line = line, .name = "token_length"};
    char where[256];
    if (length == NULL || id == NULL || cJSON_GetArraySize(object) != 2) {
        kvt_trace_where(&place, where);
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "a line is expected to hold a part's id and its \"token_length\"");
    }
    struct kvt_trace_value value = {.text = NULL};
    uint64_t tokens = 0;
    uint64_t number = 0;
    kvt_status status = kvt_trace_value_of_json(length, &place, &value, err);
    if (status == KVT_OK)
        status = kvt_trace_count(&value, &place, KVT_TRACE_TOKENS_MAX, &tokens, err);
    place.name = id->string;
    if (status == KVT_OK)
        status = kvt_trace_value_of_json(id, &place, &value, err);
    if (status == KVT_OK)
        status = kvt_trace_count(&value, &place, INT64_MAX, &number, err);
    return status == KVT_OK ? add(parts, number, (uint32_t)tokens, &place, err) : status;
}

static kvt_status load_file(struct kvt_trace_parts *parts, const char *trace_path, const char *name,
                            struct kvt_error *err)
{
    static const struct kvt_trace_format plain = {.name = "parts"};
    char path[PATH_BYTES];
    if (!beside(trace_path, name, path))
        return kvt_fail(err, KVT_ERR_INVALID, trace_path, "the file's name is too long");
    const struct kvt_trace_source source = {.path = path, .format = &plain};
    struct kvt_trace_objects *objects = NULL;
    kvt_status status = kvt_trace_objects_open(&source, &objects, err);
    while (status == KVT_OK) {
        const cJSON *object = NULL;
        status = kvt_trace_objects_next(objects, &object, err);
        if (status != KVT_OK || object == NULL)
            break;
        status = add_object(parts, path, kvt_trace_objects_line(objects), object, err);
    }
    kvt_trace_objects_close(objects);
    return status;
}

kvt_status kvt_trace_parts_load(const char *path, struct kvt_trace_parts **out,
                                struct kvt_error *err)
{
    struct kvt_trace_parts *parts = calloc(1, sizeof *parts);
    if (parts == NULL)
        return kvt_fail_nomem(err, "the parts of a trace's prompts");
    kvt_status status = grow(parts, err);
    for (int i = 0; i < FILES && status == KVT_OK; i++)
        status = load_file(parts, path, file_names[i], err);
    if (status != KVT_OK) {
        kvt_trace_parts_free(parts);
        return status;
    }
    *out = parts;
    return KVT_OK;
}

/* ---- A prompt ------------------------------------------------------------------------ */

static kvt_status check_form(const cJSON *hash_ids, const struct kvt_trace_place *place,
                             struct kvt_error *err)
{
    bool is_well_formed = cJSON_IsObject(hash_ids);
    const cJSON *list = is_well_formed ? hash_ids->child : NULL;
    for (; is_well_formed && list != NULL; list = list->next) {
        is_well_formed = cJSON_IsArray(list);
        const cJSON *id = is_well_formed ? list->child : NULL;
        for (; is_well_formed && id != NULL; id = id->next)
            is_well_formed = kvt_json_is_count(id);
    }
    if (is_well_formed)
        return KVT_OK;
    char where[256];
    kvt_trace_where(place, where);
    return kvt_fail(err, KVT_ERR_PARSE, where,
                    "hash_ids is an object of lists of whole numbers from 0 to 2^53, a list for "
                    "each kind of part");
}

/* Tokens of all parts together. */
static kvt_status sum_parts(const struct kvt_trace_parts *parts, const cJSON *hash_ids,
                            const struct kvt_trace_place *place, uint64_t *tokens,
                            struct kvt_error *err)
{
    *tokens = 0;
    for (const cJSON *list = hash_ids->child; list != NULL; list = list->next) {
        for (const cJSON *id = list->child; id != NULL; id = id->next) {
            uint64_t number = (uint64_t)id->valuedouble;
            const struct part *part = place_of(parts->table, parts->capacity, number);
            if (part->id_plus_1 == 0) {
                char where[256];
                kvt_trace_where(place, where);
                return kvt_fail(err, KVT_ERR_PARSE, where,
                                "part %" PRIu64 " has no length in the files beside the trace",
                                number);
            }
            *tokens += part->tokens;
        }
    }
    return KVT_OK;
}

kvt_status kvt_trace_parts_keys(const struct kvt_trace_parts *parts, const cJSON *hash_ids,
                                uint32_t input_tokens, const struct kvt_trace_place *place,
                                struct kvt_page_keys *keys, struct kvt_error *err)
{
    uint64_t tokens = 0;
    kvt_status status = check_form(hash_ids, place, err);
    if (status == KVT_OK && parts != NULL)
        status = sum_parts(parts, hash_ids, place, &tokens, err);
    if (status != KVT_OK)
        return status;
    if (tokens > input_tokens) {
        char where[256];
        kvt_trace_where(place, where);
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "hash_ids stand for %" PRIu64 " tokens, and the prompt has %" PRIu32,
                        tokens, input_tokens);
    }
    if (keys == NULL)
        return KVT_OK;
    status = kvt_page_keys_begin(keys, tokens, err);
    if (status != KVT_OK || parts == NULL)
        return status;
    for (const cJSON *list = hash_ids->child; list != NULL; list = list->next) {
        for (const cJSON *id = list->child; id != NULL; id = id->next) {
            uint64_t number = (uint64_t)id->valuedouble;
            kvt_page_keys_run(keys, kvt_content(KVT_CONTENT_BLOCK, number),
                              place_of(parts->table, parts->capacity, number)->tokens);
        }
    }
    return KVT_OK;
}
