/* aiperf.c -- the reader of AIPerf's profile_export.jsonl: one request a line, as it was measured.
 *
 *     {"metadata": {"request_start_ns": 1759813207532900363, "conversation_id": "77aa",
 *                   "turn_index": 0, ...},
 *      "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"},
 *                  "output_sequence_length": {"value": 9, "unit": "tokens"}, ...}, "error": null}
 *
 * Earlier versions call the start timestamp_ns. A call that was cancelled, or has an error, has
 * failed; its metrics are not looked at. Nanoseconds since 1970 pass through a double, and are off
 * by up to 128. */
#include <stdio.h>
#include <stdlib.h>

#include "trace_file.h"

struct aiperf_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
};

static void aiperf_close(void *state)
{
    struct aiperf_reader *reader = state;
    if (reader != NULL)
        kvt_trace_objects_close(reader->objects);
    free(reader);
}

static kvt_status aiperf_open(const struct kvt_trace_source *source, void **out,
                              struct kvt_error *err)
{
    struct aiperf_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = kvt_trace_objects_open(source, &reader->objects, err);
    if (status != KVT_OK) {
        aiperf_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static bool is_something(const cJSON *object, const char *name)
{
    const cJSON *item = kvt_json_find(object, name);
    return item != NULL && !cJSON_IsNull(item);
}

static kvt_status put_metadata(struct kvt_trace_place place, const cJSON *metadata,
                               struct kvt_trace_row *row, struct kvt_error *err)
{
    const struct kvt_trace_column arrival = {KVT_TRACE_ARRIVAL, 1};
    const struct kvt_trace_column session = {KVT_TRACE_SESSION, 0};
    const struct kvt_trace_column turn = {KVT_TRACE_TURN, 0};
    const char *start =
        is_something(metadata, "timestamp_ns") ? "timestamp_ns" : "request_start_ns";
    place.name = "metadata";
    kvt_status status = kvt_trace_put_member(&place, metadata, start, arrival, row, err);
    if (status == KVT_OK && is_something(metadata, "conversation_id")) {
        row->fields |= UINT32_C(1) << KVT_TRACE_SESSION;
        status = kvt_trace_put_member(&place, metadata, "conversation_id", session, row, err);
    }
    if (status == KVT_OK && is_something(metadata, "turn_index")) {
        row->fields |= UINT32_C(1) << KVT_TRACE_TURN;
        status = kvt_trace_put_member(&place, metadata, "turn_index", turn, row, err);
    }
    return status;
}

static kvt_status put_length(struct kvt_trace_place place, const cJSON *metrics, const char *name,
                             enum kvt_trace_field field, struct kvt_trace_row *row,
                             struct kvt_error *err)
{
    char path[96];
    const struct kvt_trace_column column = {field, 0};
    (void)snprintf(path, sizeof path, "metrics/%s", name);
    place.name = path;
    return kvt_trace_put_member(&place, kvt_json_find(metrics, name), "value", column, row, err);
}

static kvt_status aiperf_next(void *state, struct kvt_trace_row *row, bool *more,
                              struct kvt_error *err)
{
    struct aiperf_reader *reader = state;
    const cJSON *object = NULL;
    kvt_status status = kvt_trace_objects_next(reader->objects, &object, err);
    *more = status == KVT_OK && object != NULL;
    if (!*more)
        return status;
    const struct kvt_trace_place place = {
        .path = reader->source.path, .line = kvt_trace_objects_line(reader->objects), .name = ""};
    const cJSON *metadata = kvt_json_find(object, "metadata");
    const cJSON *metrics = kvt_json_find(object, "metrics");
    *row = kvt_trace_row_at(place.line);
    status = put_metadata(place, metadata, row, err);
    if (status != KVT_OK)
        return status;
    if (is_something(object, "error") || cJSON_IsTrue(kvt_json_find(metadata, "was_cancelled"))) {
        row->kind = KVT_TRACE_ROW_FAILED;
        return KVT_OK;
    }
    status = put_length(place, metrics, "input_sequence_length", KVT_TRACE_INPUT, row, err);
    return status == KVT_OK
               ? put_length(place, metrics, "output_sequence_length", KVT_TRACE_OUTPUT, row, err)
               : status;
}

const struct kvt_trace_reader kvt_trace_aiperf_reader = {
    .open = aiperf_open,
    .next = aiperf_next,
    .close = aiperf_close,
};
