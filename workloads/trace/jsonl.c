/* jsonl.c -- the reader of JSON Lines with one request a line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_file.h"

struct jsonl_reader {
    struct kvt_trace_source source;
    struct kvt_lines *lines;
    struct kvt_trace_chains *chains;
    struct kvt_page_keys keys; /* of the row last given */
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
    kvt_lines_close(reader->lines);
    kvt_trace_chains_free(reader->chains);
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
                            ? kvt_lines_open(source->path, &reader->lines, err)
                            : kvt_fail_nomem(err, "the conversations of a trace");
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
        .line = kvt_lines_number(reader->lines),
        .name = name,
    };
}

static kvt_status fail_missing(const struct jsonl_reader *reader, enum kvt_trace_field field,
                               struct kvt_error *err)
{
    char where[256];
    char known[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path,
                   kvt_lines_number(reader->lines));
    kvt_trace_aliases(field, known, sizeof known);
    return kvt_fail(err, KVT_ERR_PARSE, where, "no %s in this object; it may be named %s",
                    kvt_trace_field_name(field), known);
}

/* Sorts the members into fields, and puts what stands alone into the row. */
static kvt_status put_members(const struct jsonl_reader *reader, const cJSON *object,
                              struct members *members, struct kvt_trace_row *row,
                              struct kvt_error *err)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        struct kvt_trace_column column = kvt_trace_column_of(item->string);
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
        if (cJSON_IsNull(item) && column.field >= KVT_TRACE_REQUIRED_FIELDS)
            continue;
        members->by_field[column.field] = item;
        row->fields |= UINT32_C(1) << column.field;
        if (column.field >= KVT_TRACE_HASH_IDS)
            continue;
        if (column.field == KVT_TRACE_ARRIVAL && column.unit_ns == KVT_TRACE_UNIT_OF_FORMAT)
            column.unit_ns = reader->source.format->unit_ns;
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
    const cJSON *hash_ids = members->by_field[KVT_TRACE_HASH_IDS];
    uint32_t block_tokens = reader->source.format->block_tokens;
    kvt_status status = KVT_OK;
    if (!reader->source.page_keys)
        return KVT_OK;
    if (hash_ids != NULL && block_tokens > 0)
        status =
            kvt_trace_block_keys(hash_ids, row->input_tokens, block_tokens, &reader->keys, err);
    else if (members->by_field[KVT_TRACE_CHAT_ID] != NULL)
        status = kvt_trace_chains_keys(reader->chains, &reader->keys, err);
    else
        return KVT_OK;
    row->has_page_keys = true;
    row->page_keys = reader->keys.keys;
    row->page_key_count = reader->keys.count;
    return status;
}

static kvt_status row_of(struct jsonl_reader *reader, const cJSON *object,
                         struct kvt_trace_row *row, struct kvt_error *err)
{
    struct members members = {.by_field = {NULL}};
    kvt_status status = put_members(reader, object, &members, row, err);
    if (status != KVT_OK)
        return status;
    for (int field = 0; field < KVT_TRACE_REQUIRED_FIELDS; field++) {
        if (members.by_field[field] == NULL)
            return fail_missing(reader, (enum kvt_trace_field)field, err);
    }
    const cJSON *hash_ids = members.by_field[KVT_TRACE_HASH_IDS];
    if (hash_ids != NULL && reader->source.format->block_tokens > 0) {
        const struct kvt_trace_place place = place_of(reader, hash_ids->string);
        status = kvt_trace_check_blocks(hash_ids, row->input_tokens,
                                        reader->source.format->block_tokens, &place, err);
    }
    if (status == KVT_OK)
        status = follow_chain(reader, &members, row, err);
    return status == KVT_OK ? name_pages(reader, &members, row, err) : status;
}

/* The next line that is not blank; *text NULL at the end. */
static kvt_status next_line(struct jsonl_reader *reader, char **text, size_t *text_bytes,
                            struct kvt_error *err)
{
    for (;;) {
        kvt_status status = kvt_lines_next(reader->lines, text, text_bytes, err);
        if (status != KVT_OK || *text == NULL)
            return status;
        if ((*text)[strspn(*text, " \t")] != '\0')
            return KVT_OK;
    }
}

static kvt_status jsonl_next(void *state, struct kvt_trace_row *row, bool *more,
                             struct kvt_error *err)
{
    struct jsonl_reader *reader = state;
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = next_line(reader, &text, &text_bytes, err);
    *more = status == KVT_OK && text != NULL;
    if (!*more)
        return status;

    uint64_t line = kvt_lines_number(reader->lines);
    cJSON *object = NULL;
    status = kvt_json_parse(text, text_bytes, reader->source.path, line, &object, err);
    if (status != KVT_OK)
        return status;
    *row = kvt_trace_row_at(line);
    if (cJSON_IsObject(object)) {
        status = row_of(reader, object, row, err);
    } else {
        char where[256];
        (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path, line);
        status = kvt_fail(err, KVT_ERR_PARSE, where, "each line holds one object: {\"...\": ...}");
    }
    cJSON_Delete(object);
    return status;
}

const struct kvt_trace_reader kvt_trace_jsonl_reader = {
    .open = jsonl_open,
    .next = jsonl_next,
    .close = jsonl_close,
};
