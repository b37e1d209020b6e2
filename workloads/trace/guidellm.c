/* guidellm.c -- the reader of GuideLLM's benchmarks.json: all requests of all runs.
 *
 *     {"benchmarks": [{"requests": {"successful": [{"request_start_time": 1754563200.25,
 *                                                   "prompt_tokens": 512, "output_tokens": 64,
 *                                                   "info": {"conversation_id": null, ...}}],
 *                                   "incomplete": [...], "errored": [...]}}]}
 *
 * Earlier versions call the start start_time. Requests are listed by how they ended, and each list
 * by when. Incomplete ones were cut off by the end of their run, and count as failed. A file may
 * hold a sample of the requests only; played back it would be a lighter load than was measured, so
 * it is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace_file.h"

enum list {
    SUCCESSFUL = 0,
    INCOMPLETE,
    ERRORED,
    LISTS
};
static const char *const list_names[LISTS] = {"successful", "incomplete", "errored"};

struct guidellm_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
    const cJSON *benchmark; /* in hand; NULL: none */
    const cJSON *request;   /* of the list in hand, the next to give; NULL: none is left */
    size_t benchmark_index, request_index;
    enum list list;
};

static void guidellm_close(void *state)
{
    struct guidellm_reader *reader = state;
    if (reader != NULL)
        kvt_trace_objects_close(reader->objects);
    free(reader);
}

static kvt_status guidellm_open(const struct kvt_trace_source *source, void **out,
                                struct kvt_error *err)
{
    struct guidellm_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = kvt_trace_objects_open(source, &reader->objects, err);
    if (status != KVT_OK) {
        guidellm_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static kvt_status fail_at(const struct guidellm_reader *reader, const char *what,
                          struct kvt_error *err)
{
    char where[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 "#/benchmarks/%zu/requests",
                   reader->source.path, kvt_trace_objects_line(reader->objects),
                   reader->benchmark_index);
    return kvt_fail(err, KVT_ERR_PARSE, where, "%s", what);
}

/* The file says how many there were of each; what it lists may be fewer. */
static kvt_status check_whole(const struct guidellm_reader *reader, const cJSON *requests,
                              struct kvt_error *err)
{
    const cJSON *totals =
        kvt_json_find(kvt_json_find(reader->benchmark, "metrics"), "request_totals");
    for (int i = 0; i < LISTS; i++) {
        const cJSON *total = kvt_json_find(totals, list_names[i]);
        int listed = cJSON_GetArraySize(kvt_json_find(requests, list_names[i]));
        char what[160];
        if (!cJSON_IsNumber(total) || total->valuedouble <= listed)
            continue;
        (void)snprintf(what, sizeof what,
                       "%d of %.0f %s requests are listed, a sample; all are expected", listed,
                       total->valuedouble, list_names[i]);
        return fail_at(reader, what, err);
    }
    return KVT_OK;
}

/* The first list of the benchmark in hand. */
static kvt_status begin_benchmark(struct guidellm_reader *reader, struct kvt_error *err)
{
    const cJSON *requests = kvt_json_find(reader->benchmark, "requests");
    for (int i = 0; i < LISTS; i++) {
        const cJSON *list = kvt_json_find(requests, list_names[i]);
        if (!cJSON_IsArray(list) && (i == SUCCESSFUL || (list != NULL && !cJSON_IsNull(list))))
            return fail_at(reader,
                           "an object of the lists \"successful\", \"incomplete\" and "
                           "\"errored\" is expected",
                           err);
    }
    reader->list = SUCCESSFUL;
    reader->request = kvt_json_find(requests, list_names[SUCCESSFUL])->child;
    reader->request_index = 0;
    return check_whole(reader, requests, err);
}

/* The next list, benchmark or object. With none of them left, reader->benchmark is NULL. */
static kvt_status move_on(struct guidellm_reader *reader, struct kvt_error *err)
{
    if (reader->benchmark != NULL && reader->list + 1 < LISTS) {
        reader->list++;
        const cJSON *list =
            kvt_json_find(kvt_json_find(reader->benchmark, "requests"), list_names[reader->list]);
        reader->request = list != NULL ? list->child : NULL;
        reader->request_index = 0;
        return KVT_OK;
    }
    if (reader->benchmark != NULL) {
        reader->benchmark = reader->benchmark->next;
        reader->benchmark_index++;
    }
    while (reader->benchmark == NULL) {
        const cJSON *object = NULL;
        kvt_status status = kvt_trace_objects_next(reader->objects, &object, err);
        if (status != KVT_OK || object == NULL)
            return status;
        const cJSON *benchmarks = kvt_json_find(object, "benchmarks");
        reader->benchmark_index = 0;
        if (!cJSON_IsArray(benchmarks))
            return fail_at(reader, "\"benchmarks\" is expected to be a list", err);
        reader->benchmark = benchmarks->child;
    }
    return begin_benchmark(reader, err);
}

static bool is_something(const cJSON *object, const char *name)
{
    const cJSON *item = kvt_json_find(object, name);
    return item != NULL && !cJSON_IsNull(item);
}

static kvt_status put_conversation(const struct kvt_trace_place *place, const cJSON *request,
                                   struct kvt_trace_row *row, struct kvt_error *err)
{
    const cJSON *info = kvt_json_find(request, "info");
    const struct kvt_trace_column session = {KVT_TRACE_SESSION, 0};
    const struct kvt_trace_column turn = {KVT_TRACE_TURN, 0};
    kvt_status status = KVT_OK;
    if (!is_something(info, "conversation_id"))
        return KVT_OK;
    row->fields |= UINT32_C(1) << KVT_TRACE_SESSION | UINT32_C(1) << KVT_TRACE_TURN;
    status = kvt_trace_put_member(place, info, "conversation_id", session, row, err);
    if (status == KVT_OK && is_something(info, "turn_index"))
        status = kvt_trace_put_member(place, info, "turn_index", turn, row, err);
    return status;
}

static kvt_status put_request(const struct guidellm_reader *reader, struct kvt_trace_row *row,
                              struct kvt_error *err)
{
    static const struct {
        const char *name;
        struct kvt_trace_column column;
    } members[] = {{"prompt_tokens", {KVT_TRACE_INPUT, 0}},
                   {"output_tokens", {KVT_TRACE_OUTPUT, 0}}};
    char name[96];
    const cJSON *request = reader->request;
    const struct kvt_trace_place place = {
        .path = reader->source.path, .line = row->line, .name = name};
    const struct kvt_trace_column arrival = {KVT_TRACE_ARRIVAL, KVT_NS_PER_S};
    (void)snprintf(name, sizeof name, "benchmarks/%zu/requests/%s/%zu", reader->benchmark_index,
                   list_names[reader->list], reader->request_index);
    if (reader->list != SUCCESSFUL) { /* it may never have begun */
        row->kind = KVT_TRACE_ROW_FAILED;
        return KVT_OK;
    }
    const char *start = is_something(request, "start_time") ? "start_time" : "request_start_time";
    kvt_status status = kvt_trace_put_member(&place, request, start, arrival, row, err);
    for (size_t i = 0; status == KVT_OK && i < sizeof members / sizeof members[0]; i++)
        status =
            kvt_trace_put_member(&place, request, members[i].name, members[i].column, row, err);
    return status == KVT_OK ? put_conversation(&place, request, row, err) : status;
}

static kvt_status guidellm_next(void *state, struct kvt_trace_row *row, bool *more,
                                struct kvt_error *err)
{
    struct guidellm_reader *reader = state;
    *more = false;
    while (reader->request == NULL) {
        kvt_status status = move_on(reader, err);
        if (status != KVT_OK || reader->benchmark == NULL)
            return status;
    }
    *row = kvt_trace_row_at(kvt_trace_objects_line(reader->objects));
    kvt_status status = put_request(reader, row, err);
    reader->request = reader->request->next;
    reader->request_index++;
    *more = status == KVT_OK;
    return status;
}

const struct kvt_trace_reader kvt_trace_guidellm_reader = {
    .open = guidellm_open,
    .next = guidellm_next,
    .close = guidellm_close,
};
