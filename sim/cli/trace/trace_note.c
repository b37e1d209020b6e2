/* trace_note.c -- the note of a recording: written of a result, read of a file. */
#include "trace_note.h"

#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

const char *const trace_note_metrics[TRACE_NOTE_METRIC_COUNT] = {TRACE_NOTE_METRICS};

static bool copy_member(cJSON *note, const cJSON *from, const char *key)
{
    const cJSON *item = kvt_json_find(from, key);
    return item == NULL || kvt_json_add(note, key, cJSON_Duplicate(item, true));
}

static bool add_metrics(cJSON *note, const cJSON *result)
{
    const cJSON *metrics = kvt_json_find(result, "metrics");
    cJSON *kept = kvt_json_add_object(note, "metrics");
    bool is_whole = kept != NULL;
    for (int i = 0; is_whole && i < TRACE_NOTE_METRIC_COUNT; i++)
        is_whole = copy_member(kept, metrics, trace_note_metrics[i]);
    return is_whole;
}

static bool add_stores(cJSON *note, const struct kvt_recorder_totals *totals)
{
    cJSON *stores = cJSON_CreateArray();
    bool is_whole = kvt_json_add(note, "stores", stores);
    for (uint32_t s = 0; is_whole && s < totals->selector_count; s++)
        is_whole = cJSON_AddItemToArray(stores, cJSON_CreateNumber(totals->stores[s]));
    return is_whole;
}

static bool add_requests(cJSON *note, const struct kvt_recorder_totals *totals)
{
    cJSON *requests = cJSON_CreateArray();
    bool is_whole = kvt_json_add(note, "requests", requests);
    for (uint32_t r = 0; is_whole && r < totals->recording_count; r++) {
        cJSON *item = kvt_json_add_element(requests);
        is_whole =
            item != NULL && kvt_json_add_number(item, "request", totals->recordings[r].request) &&
            kvt_json_add_number(item, "context_tokens", totals->recordings[r].context_tokens);
    }
    return is_whole;
}

kvt_status trace_note_of_run(const cJSON *result, const struct kvt_recorder_totals *totals,
                             char **out, struct kvt_error *err)
{
    static const char *const kept[] = {"version", "commit", "ending", "decision_hash"};
    cJSON *note = cJSON_CreateObject();
    bool is_whole = note != NULL && kvt_json_add_text(note, "schema", TRACE_NOTE_SCHEMA);
    for (size_t i = 0; is_whole && i < sizeof kept / sizeof kept[0]; i++)
        is_whole = copy_member(note, result, kept[i]);
    is_whole = is_whole && add_metrics(note, result) && add_stores(note, totals) &&
               add_requests(note, totals) && copy_member(note, result, "scenario");
    char *text = is_whole ? kvt_json_print(note) : NULL;
    cJSON_Delete(note);
    if (text == NULL)
        return kvt_fail_nomem(err, "the note of a recording");
    *out = text;
    return KVT_OK;
}

kvt_status trace_note_read(const struct kvt_kvsel_header *header, const char *path, cJSON **out,
                           struct kvt_error *err)
{
    char place[sizeof err->where];
    const char *schema = NULL;
    *out = NULL;
    if (header->note_bytes == 0)
        return KVT_OK;
    (void)snprintf(place, sizeof place, "%s#note", path);
    kvt_status status =
        kvt_json_parse(header->note, (size_t)header->note_bytes, place, 1, out, err);
    if (status == KVT_OK && !cJSON_IsObject(*out))
        status = kvt_fail(err, KVT_ERR_PARSE, place, "an object is expected");
    if (status == KVT_OK)
        status = kvt_json_get_text(*out, place, "schema", true, &schema, err);
    if (status == KVT_OK && strcmp(schema, TRACE_NOTE_SCHEMA) != 0)
        status = kvt_fail(err, KVT_ERR_UNSUPPORTED, place, "schema \"%.60s\"; \"%s\" is expected",
                          schema, TRACE_NOTE_SCHEMA);
    if (status != KVT_OK) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return status;
}
