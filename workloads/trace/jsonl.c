/* jsonl.c -- the reader of JSON Lines with one request a line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"

#define TIME_NS_MAX (INT64_C(4000000000) * KVT_NS_PER_S)

struct jsonl_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
    struct kvt_trace_chains *chains;
    struct kvt_trace_parts *parts;    /* NULL: of another format, or they are not there */
    struct kvt_page_keys keys;        /* of the row last given */
    int64_t last_ns;                  /* of the row last given, as the file has it */
    int64_t wrapped_ns, last_time_ns; /* what is added to it, and the sum */
};

/* What of an object is looked at once all its members are known. */
struct members {
    const cJSON *by_field[KVT_TRACE_FIELDS]; /* NULL: not there, or null where it may be */
};

static void jsonl_close(void *state)
{
    struct jsonl_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_trace_objects_close(reader->objects);
    kvt_trace_chains_free(reader->chains);
    kvt_trace_parts_free(reader->parts);
    kvt_page_keys_free(&reader->keys);
    free(reader);
}

static kvt_status jsonl_open(const struct kvt_trace_source *source, void **out,
                             struct kvt_error *err)
{
    struct jsonl_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    reader->chains = kvt_trace_chains_new();
    kvt_status status = reader->chains != NULL
                            ? kvt_trace_objects_open(source, &reader->objects, err)
                            : kvt_fail_nomem(err, "the conversations of a trace");
    if (status == KVT_OK && source->has_parts)
        status = kvt_trace_parts_load(source->path, &reader->parts, err);
    if (status != KVT_OK) {
        jsonl_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static struct kvt_trace_place place_of(const struct jsonl_reader *reader, const char *name)
{
    return (struct kvt_trace_place){
        .path = reader->source.path,
        .line = kvt_trace_objects_line(reader->objects),
        .name = name,
    };
}

static kvt_status fail_missing(const struct jsonl_reader *reader, enum kvt_trace_field field,
                               struct kvt_error *err)
{
    char where[256];
    char known[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path,
                   kvt_trace_objects_line(reader->objects));
    kvt_trace_aliases(field, known, sizeof known);
    return kvt_fail(err, KVT_ERR_PARSE, where, "no %s in this object; it may be named %s",
                    kvt_trace_field_name(field), known);
}

/* What a member is in this format. */
static struct kvt_trace_column column_of(const struct kvt_trace_format *format, const char *name)
{
    struct kvt_trace_column column = kvt_trace_column_of(name);
    if (column.field == KVT_TRACE_ARRIVAL && column.unit_ns == KVT_TRACE_UNIT_OF_FORMAT)
        column.unit_ns = format->unit_ns;
    if (column.field == KVT_TRACE_OTHER && format->think_name != NULL &&
        strcmp(name, format->think_name) == 0)
        column = (struct kvt_trace_column){KVT_TRACE_THINK_S, format->think_unit_ns};
    return column;
}

/* Sorts the members into fields, and puts what stands alone into the row. */
static kvt_status put_members(const struct jsonl_reader *reader, const cJSON *object,
                              struct members *members, struct kvt_trace_row *row,
                              struct kvt_error *err)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        struct kvt_trace_column column = column_of(reader->source.format, item->string);
        if (column.field == KVT_TRACE_OTHER)
            continue;
        const struct kvt_trace_place place = place_of(reader, item->string);
        if (members->by_field[column.field] != NULL) {
            char where[256];
            kvt_trace_where(&place, where);
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "\"%.60s\" and \"%.60s\" could both be the %s; keep one",
                            members->by_field[column.field]->string, item->string,
                            kvt_trace_field_name(column.field));
        }
        if (cJSON_IsNull(item) &&
            (column.field >= KVT_TRACE_REQUIRED_FIELDS ||
             (column.field == KVT_TRACE_ARRIVAL && reader->source.format->think_name != NULL)))
            continue;
        members->by_field[column.field] = item;
        row->fields |= UINT32_C(1) << column.field;
        if (column.field >= KVT_TRACE_HASH_IDS)
            continue;
        struct kvt_trace_value value = {.text = NULL};
        kvt_status status = kvt_trace_value_of_json(item, &place, &value, err);
        if (status == KVT_OK)
            status = kvt_trace_put(column, &value, &place, row, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* -1 stands for "none" as a parent. */
static kvt_status id_of(const struct jsonl_reader *reader, const cJSON *item, bool may_be_none,
                        int64_t *out, struct kvt_error *err)
{
    if (may_be_none && cJSON_IsNumber(item) && item->valuedouble == -1) {
        *out = -1;
        return KVT_OK;
    }
    const struct kvt_trace_place place = place_of(reader, item->string);
    struct kvt_trace_value value = {.text = NULL};
    uint64_t id = 0;
    kvt_status status = kvt_trace_value_of_json(item, &place, &value, err);
    if (status == KVT_OK)
        status = kvt_trace_count(&value, &place, INT64_MAX, &id, err);
    *out = (int64_t)id;
    return status;
}

static kvt_status follow_chain(struct jsonl_reader *reader, const struct members *members,
                               struct kvt_trace_row *row, struct kvt_error *err)
{
    const cJSON *chat = members->by_field[KVT_TRACE_CHAT_ID];
    const cJSON *parent = members->by_field[KVT_TRACE_PARENT_CHAT_ID];
    if (chat == NULL)
        return KVT_OK;
    int64_t chat_id = 0;
    int64_t parent_id = -1;
    kvt_status status = id_of(reader, chat, false, &chat_id, err);
    if (status == KVT_OK && parent != NULL)
        status = id_of(reader, parent, true, &parent_id, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_trace_place place = place_of(reader, chat->string);
    return kvt_trace_chains_add(reader->chains, (uint64_t)chat_id, parent_id, &place, row, err);
}

/* By hash ids where there are any, which know more than parents do; else by parents. */
static kvt_status name_pages(struct jsonl_reader *reader, const struct members *members,
                             struct kvt_trace_row *row, struct kvt_error *err)
{
    const struct kvt_trace_format *format = reader->source.format;
    const cJSON *hash_ids = members->by_field[KVT_TRACE_HASH_IDS];
    kvt_status status = KVT_OK;
    if (hash_ids != NULL && format->has_parts) {
        const struct kvt_trace_place place = place_of(reader, hash_ids->string);
        status = kvt_trace_parts_keys(reader->parts, hash_ids, row->input_tokens, &place,
                                      reader->source.page_keys ? &reader->keys : NULL, err);
    }
    if (status != KVT_OK || !reader->source.page_keys)
        return status;
    if (hash_ids != NULL && format->block_tokens > 0)
        status = kvt_trace_block_keys(hash_ids, 0, row->input_tokens, format->block_tokens,
                                      &reader->keys, err);
    else if (members->by_field[KVT_TRACE_CHAT_ID] != NULL)
        status = kvt_trace_chains_keys(reader->chains, &reader->keys, err);
    else if (hash_ids == NULL || !format->has_parts)
        return KVT_OK;
    row->has_page_keys = true;
    row->page_keys = reader->keys.keys;
    row->page_key_count = reader->keys.count;
    return status;
}

/* Times that begin anew are those of the next week, or whatever the format counts in. */
static kvt_status unwrap(struct jsonl_reader *reader, const struct members *members,
                         struct kvt_trace_row *row, struct kvt_error *err)
{
    int64_t wrap_ns = reader->source.format->wrap_ns;
    if (members->by_field[KVT_TRACE_ARRIVAL] == NULL) {
        row->time_ns = reader->last_time_ns;
        return KVT_OK;
    }
    if (wrap_ns > 0 && row->time_ns < reader->last_ns - wrap_ns / 2)
        reader->wrapped_ns += wrap_ns;
    reader->last_ns = row->time_ns;
    row->time_ns += reader->wrapped_ns;
    reader->last_time_ns = row->time_ns;
    if (row->time_ns <= TIME_NS_MAX)
        return KVT_OK;
    const struct kvt_trace_place place =
        place_of(reader, members->by_field[KVT_TRACE_ARRIVAL]->string);
    char where[256];
    kvt_trace_where(&place, where);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "times have begun anew so often that this one is past the year 2095");
}

static kvt_status require_fields(const struct jsonl_reader *reader, const struct members *members,
                                 struct kvt_error *err)
{
    for (int field = 0; field < KVT_TRACE_REQUIRED_FIELDS; field++) {
        bool may_be_missing = field == KVT_TRACE_ARRIVAL &&
                              reader->source.format->think_name != NULL &&
                              members->by_field[KVT_TRACE_THINK_S] != NULL;
        if (members->by_field[field] == NULL && !may_be_missing)
            return fail_missing(reader, (enum kvt_trace_field)field, err);
    }
    return KVT_OK;
}

static kvt_status row_of(struct jsonl_reader *reader, const cJSON *object,
                         struct kvt_trace_row *row, struct kvt_error *err)
{
    struct members members = {.by_field = {NULL}};
    uint32_t block_tokens = reader->source.format->block_tokens;
    kvt_status status = put_members(reader, object, &members, row, err);
    if (status == KVT_OK)
        status = require_fields(reader, &members, err);
    if (status == KVT_OK)
        status = unwrap(reader, &members, row, err);
    if (status != KVT_OK)
        return status;
    const cJSON *hash_ids = members.by_field[KVT_TRACE_HASH_IDS];
    if (block_tokens > 0 && cJSON_IsArray(hash_ids) && hash_ids->child == NULL) {
        members.by_field[KVT_TRACE_HASH_IDS] = NULL; /* an empty list says nothing */
        row->fields &= ~(UINT32_C(1) << KVT_TRACE_HASH_IDS);
    } else if (block_tokens > 0 && hash_ids != NULL) {
        const struct kvt_trace_place place = place_of(reader, hash_ids->string);
        status = kvt_trace_check_blocks(hash_ids, row->input_tokens, block_tokens, &place, err);
    }
    if (status == KVT_OK)
        status = follow_chain(reader, &members, row, err);
    return status == KVT_OK ? name_pages(reader, &members, row, err) : status;
}

static kvt_status jsonl_next(void *state, struct kvt_trace_row *row, bool *more,
                             struct kvt_error *err)
{
    struct jsonl_reader *reader = state;
    const cJSON *object = NULL;
    kvt_status status = kvt_trace_objects_next(reader->objects, &object, err);
    *more = status == KVT_OK && object != NULL;
    if (!*more)
        return status;
    *row = kvt_trace_row_at(kvt_trace_objects_line(reader->objects));
    return row_of(reader, object, row, err);
}

const struct kvt_trace_reader kvt_trace_jsonl_reader = {
    .open = jsonl_open,
    .next = jsonl_next,
    .close = jsonl_close,
};
