/* objects.c -- the JSON objects of a file, one after the other: JSON Lines, or one document. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_file.h"

struct kvt_trace_objects {
    struct kvt_trace_source source;
    struct kvt_lines *lines; /* NULL for a document */
    cJSON *object;           /* in hand; NULL: none */
    uint64_t line;           /* where it begins */
    bool is_document_done;
};

kvt_status kvt_trace_objects_open(const struct kvt_trace_source *source,
                                  struct kvt_trace_objects **out, struct kvt_error *err)
{
    struct kvt_trace_objects *objects = calloc(1, sizeof *objects);
    if (objects == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    objects->source = *source;
    if (!source->is_document) {
        kvt_status status = kvt_lines_open(source->path, &objects->lines, err);
        if (status != KVT_OK) {
            free(objects);
            return status;
        }
    }
    *out = objects;
    return KVT_OK;
}

void kvt_trace_objects_close(struct kvt_trace_objects *objects)
{
    if (objects == NULL)
        return;
    cJSON_Delete(objects->object);
    kvt_lines_close(objects->lines);
    free(objects);
}

uint64_t kvt_trace_objects_line(const struct kvt_trace_objects *objects)
{
    return objects->line;
}

/* The next value of the file into objects->object; NULL at the end. */
static kvt_status next_value(struct kvt_trace_objects *objects, struct kvt_error *err)
{
    const char *path = objects->source.path;
    if (objects->lines == NULL) {
        if (objects->is_document_done)
            return KVT_OK;
        objects->is_document_done = true;
        objects->line = 1;
        return objects->source.format->has_infinity
                   ? kvt_json_load_mended(path, KVT_TRACE_DOCUMENT_BYTES_MAX, &objects->object, err)
                   : kvt_json_load(path, KVT_TRACE_DOCUMENT_BYTES_MAX, &objects->object, err);
    }
    char *text = NULL;
    size_t text_bytes = 0;
    do {
        kvt_status status = kvt_lines_next(objects->lines, &text, &text_bytes, err);
        if (status != KVT_OK || text == NULL)
            return status;
    } while (text[strspn(text, " \t")] == '\0');
    objects->line = kvt_lines_number(objects->lines);
    if (objects->source.format->has_infinity)
        kvt_json_mend_infinity(text);
    return kvt_json_parse(text, text_bytes, path, objects->line, &objects->object, err);
}

kvt_status kvt_trace_objects_next(struct kvt_trace_objects *objects, const cJSON **object,
                                  struct kvt_error *err)
{
    cJSON_Delete(objects->object);
    objects->object = NULL;
    *object = NULL;
    kvt_status status = next_value(objects, err);
    if (status != KVT_OK)
        return status;
    if (objects->object != NULL && !cJSON_IsObject(objects->object)) {
        char where[256];
        (void)snprintf(where, sizeof where, "%s:%" PRIu64, objects->source.path, objects->line);
        return kvt_fail(err, KVT_ERR_PARSE, where, "each line holds one object: {\"...\": ...}");
    }
    *object = objects->object;
    return KVT_OK;
}

kvt_status kvt_trace_put_member(const struct kvt_trace_place *place, const cJSON *object,
                                const char *name, struct kvt_trace_column column,
                                struct kvt_trace_row *row, struct kvt_error *err)
{
    char full_name[160];
    struct kvt_trace_place at = *place;
    struct kvt_trace_value value = {.text = NULL};
    const cJSON *item = kvt_json_find(object, name);

    (void)snprintf(full_name, sizeof full_name, "%s%s%s", place->name,
                   place->name[0] != '\0' ? "/" : "", name);
    at.name = full_name;
    if (item == NULL) {
        char where[256];
        kvt_trace_where(&at, where);
        return kvt_fail(err, KVT_ERR_PARSE, where, "no \"%s\" in this object", name);
    }
    kvt_status status = kvt_trace_value_of_json(item, &at, &value, err);
    return status == KVT_OK ? kvt_trace_put(column, &value, &at, row, err) : status;
}
