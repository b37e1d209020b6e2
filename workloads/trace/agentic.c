/* agentic.c -- the reader of LLMServingSim's agentic workloads: one object a conversation.
 *
 *     {"session_id": "s0", "arrival_time_ns": 0,
 *      "sub_requests": [{"input_toks": 100, "output_toks": 5, "tool_duration_ns": 1000}, ...]}
 *
 * The first sub-request comes at the object's time; each later one follows the one before it by
 * that one's tool_duration_ns. A prompt holds all that came before it in its conversation. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace_file.h"

struct agentic_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
    const cJSON *object;      /* the conversation in hand; NULL: none */
    const cJSON *sub_request; /* of it, the next to give; NULL: none is left */
    struct kvt_trace_row row; /* of the conversation's next request */
    uint64_t ordinal;         /* conversations so far: names those without an id */
};

static void agentic_close(void *state)
{
    struct agentic_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_trace_objects_close(reader->objects);
    free(reader);
}

static kvt_status agentic_open(const struct kvt_trace_source *source, void **out,
                               struct kvt_error *err)
{
    struct agentic_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = kvt_trace_objects_open(source, &reader->objects, err);
    if (status != KVT_OK) {
        agentic_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

/* Reads member `name` of an object of the line as the column given. */
static kvt_status put_member(const struct agentic_reader *reader, const cJSON *object,
                             const char *name, struct kvt_trace_column column,
                             struct kvt_trace_row *row, struct kvt_error *err)
{
    const struct kvt_trace_place place = {
        .path = reader->source.path, .line = kvt_trace_objects_line(reader->objects), .name = ""};
    return kvt_trace_put_member(&place, object, name, column, row, err);
}

static kvt_status begin_conversation(struct agentic_reader *reader, struct kvt_error *err)
{
    const struct kvt_trace_column arrival = {KVT_TRACE_ARRIVAL, 1};
    const struct kvt_trace_column session = {KVT_TRACE_SESSION, 0};
    const cJSON *list = kvt_json_find(reader->object, "sub_requests");
    uint64_t line = kvt_trace_objects_line(reader->objects);
    if (!cJSON_IsArray(list) || list->child == NULL) {
        char where[256];
        (void)snprintf(where, sizeof where, "%s:%" PRIu64 "#/sub_requests", reader->source.path,
                       line);
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "each line holds one conversation, with its requests in the list "
                        "\"sub_requests\"");
    }
    reader->row = kvt_trace_row_at(line);
    reader->row.session = reader->ordinal++;
    reader->row.fields = UINT32_C(1) << KVT_TRACE_SESSION | UINT32_C(1) << KVT_TRACE_SUB_REQUESTS;
    reader->sub_request = list->child;
    kvt_status status =
        put_member(reader, reader->object, "arrival_time_ns", arrival, &reader->row, err);
    const cJSON *id = kvt_json_find(reader->object, "session_id");
    if (status == KVT_OK && id != NULL && !cJSON_IsNull(id))
        status = put_member(reader, reader->object, "session_id", session, &reader->row, err);
    return status;
}

/* The next line's conversation into reader->object; NULL at the end. */
static kvt_status next_object(struct agentic_reader *reader, struct kvt_error *err)
{
    kvt_status status = kvt_trace_objects_next(reader->objects, &reader->object, err);
    return status == KVT_OK && reader->object != NULL ? begin_conversation(reader, err) : status;
}

/* One request, and what stands for the next one: it follows, by this one's tool. */
static kvt_status give(struct agentic_reader *reader, struct kvt_trace_row *row,
                       struct kvt_error *err)
{
    const struct kvt_trace_column input = {KVT_TRACE_INPUT, 0};
    const struct kvt_trace_column output = {KVT_TRACE_OUTPUT, 0};
    const struct kvt_trace_column think = {KVT_TRACE_THINK_S, 1};
    const cJSON *request = reader->sub_request;
    *row = reader->row;
    kvt_status status = put_member(reader, request, "input_toks", input, row, err);
    if (status == KVT_OK)
        status = put_member(reader, request, "output_toks", output, row, err);
    reader->sub_request = request->next;
    reader->row.kind = KVT_TRACE_ROW_MORE;
    reader->row.turn++;
    reader->row.follows = true;
    reader->row.think_ns = 0;
    if (status == KVT_OK && kvt_json_find(request, "tool_duration_ns") != NULL)
        status = put_member(reader, request, "tool_duration_ns", think, &reader->row, err);
    return status;
}

static kvt_status agentic_next(void *state, struct kvt_trace_row *row, bool *more,
                               struct kvt_error *err)
{
    struct agentic_reader *reader = state;
    kvt_status status = KVT_OK;
    if (reader->sub_request == NULL)
        status = next_object(reader, err);
    *more = status == KVT_OK && reader->object != NULL;
    return *more ? give(reader, row, err) : status;
}

const struct kvt_trace_reader kvt_trace_agentic_reader = {
    .open = agentic_open,
    .next = agentic_next,
    .close = agentic_close,
};
