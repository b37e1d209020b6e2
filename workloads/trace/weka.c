/* weka.c -- the reader of Weka's agent traces: one object a conversation.
 *
 *     {"id": "c0", "block_size": 64, "hash_id_scope": "local",
 *      "requests": [{"t": 0.0, "in": 640, "out": 20, "hash_ids": [1, 2, ...], "api_time": 4.9},
 *                   {"t": 5.5, "type": "subagent", "agent_id": "a", "requests": [...]},
 *                   {"t": 17.0, "in": 700, "out": 8, "hash_ids": [1, 2, ...]}]}
 *
 * Every request is a row, those of a subagent as a conversation of their own, whose times count
 * from the subagent's where the first of them is before it. t is seconds since the conversation
 * began. Where a request's api_time is known, the next one follows it by the rest of the gap
 * between them. An id of hash_ids means the same within one object only, unless hash_id_scope says
 * "global"; the last block of a prompt has one or not. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "trace_file.h"

/* Requests of one agent, one after the other. */
struct chain {
    const cJSON *request; /* the next to give; NULL: none is left */
    size_t index;         /* of it in its list */
    uint64_t session;
    uint32_t turn;
    int64_t base_ns;     /* of its times */
    int64_t last_end_ns; /* when its last request ended; -1: not known */
};

struct weka_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
    struct kvt_page_keys keys; /* of the row last given */
    uint64_t ordinal;          /* conversations so far */
    uint64_t scope;            /* of hash ids */
    uint32_t block_tokens;
    struct chain main, subagent;
    size_t subagents; /* of the conversation so far */
};

static void weka_close(void *state)
{
    struct weka_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_trace_objects_close(reader->objects);
    kvt_page_keys_free(&reader->keys);
    free(reader);
}

static kvt_status weka_open(const struct kvt_trace_source *source, void **out,
                            struct kvt_error *err)
{
    struct weka_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = kvt_trace_objects_open(source, &reader->objects, err);
    if (status != KVT_OK) {
        weka_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static struct kvt_trace_place place_of(const struct weka_reader *reader, const char *name)
{
    return (struct kvt_trace_place){
        .path = reader->source.path, .line = kvt_trace_objects_line(reader->objects), .name = name};
}

static kvt_status fail_at(const struct weka_reader *reader, const char *name, const char *what,
                          struct kvt_error *err)
{
    const struct kvt_trace_place place = place_of(reader, name);
    char where[256];
    kvt_trace_where(&place, where);
    return kvt_fail(err, KVT_ERR_PARSE, where, "%s", what);
}

/* "requests/3", or "requests/3/requests/0" of a subagent. */
static void name_request(const struct weka_reader *reader, bool is_subagent, char out[96])
{
    if (is_subagent)
        (void)snprintf(out, 96, "requests/%zu/requests/%zu", reader->main.index - 1,
                       reader->subagent.index);
    else
        (void)snprintf(out, 96, "requests/%zu", reader->main.index);
}

static kvt_status begin_conversation(struct weka_reader *reader, const cJSON *object,
                                     struct kvt_error *err)
{
    const struct kvt_trace_place place = place_of(reader, "");
    const struct kvt_trace_column session = {KVT_TRACE_SESSION, 0};
    struct kvt_trace_row row = kvt_trace_row_at(place.line);
    const cJSON *requests = kvt_json_find(object, "requests");
    const cJSON *scope = kvt_json_find(object, "hash_id_scope");
    uint64_t block_tokens = reader->source.format->block_tokens;
    char where[256];
    if (!cJSON_IsArray(requests))
        return fail_at(reader, "requests", "a list of the conversation's requests is expected",
                       err);
    if (scope != NULL && !(cJSON_IsString(scope) && (strcmp(scope->valuestring, "local") == 0 ||
                                                     strcmp(scope->valuestring, "global") == 0)))
        return fail_at(reader, "hash_id_scope", "\"local\" or \"global\" is expected", err);
    kvt_status status = kvt_trace_put_member(&place, object, "id", session, &row, err);
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 "#", reader->source.path, place.line);
    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "block_size", false, 1, 65536, &block_tokens, err);
    if (status != KVT_OK)
        return status;
    bool is_global = scope != NULL && strcmp(scope->valuestring, "global") == 0;
    reader->ordinal++;
    reader->scope = is_global ? 0 : kvt_mix64(reader->ordinal);
    reader->block_tokens = (uint32_t)block_tokens;
    reader->subagents = 0;
    reader->subagent = (struct chain){.request = NULL};
    reader->main =
        (struct chain){.request = requests->child, .session = row.session, .last_end_ns = -1};
    return KVT_OK;
}

/* Seconds of a member as ns. */
static kvt_status time_of(const struct weka_reader *reader, const cJSON *object, const char *path,
                          const char *name, int64_t *out_ns, struct kvt_error *err)
{
    const struct kvt_trace_place place = place_of(reader, path);
    const struct kvt_trace_column arrival = {KVT_TRACE_ARRIVAL, KVT_NS_PER_S};
    struct kvt_trace_row row = kvt_trace_row_at(0);
    kvt_status status = kvt_trace_put_member(&place, object, name, arrival, &row, err);
    *out_ns = row.time_ns;
    return status;
}

/* The main agent's next entry is a subagent: its requests come first. */
static kvt_status begin_subagent(struct weka_reader *reader, struct kvt_error *err)
{
    const cJSON *entry = reader->main.request;
    const cJSON *requests = kvt_json_find(entry, "requests");
    int64_t spawned_ns = 0;
    int64_t first_ns = 0;
    char path[96];
    char inner[112];
    name_request(reader, false, path);
    (void)snprintf(inner, sizeof inner, "%s/requests/0", path);
    if (!cJSON_IsArray(requests))
        return fail_at(reader, path, "a subagent has a list of requests", err);
    reader->main.request = entry->next;
    reader->main.index++;
    reader->subagents++;
    if (requests->child == NULL)
        return KVT_OK;
    kvt_status status = time_of(reader, entry, path, "t", &spawned_ns, err);
    if (status == KVT_OK)
        status = time_of(reader, requests->child, inner, "t", &first_ns, err);
    reader->subagent =
        (struct chain){.request = requests->child,
                       .session = kvt_chain64(reader->main.session, reader->subagents),
                       .base_ns = first_ns < spawned_ns ? spawned_ns : 0,
                       .last_end_ns = -1};
    if (reader->subagent.session == UINT64_MAX)
        reader->subagent.session = 0;
    return status;
}

/* Its list, and the prompt's pages. Whole blocks alone are enough: a page of 64 tokens that a last
 * block does not fill has no key. */
static kvt_status put_blocks(struct weka_reader *reader, const cJSON *request, const char *path,
                             struct kvt_trace_row *row, struct kvt_error *err)
{
    char name[128];
    const cJSON *hash_ids = kvt_json_find(request, "hash_ids");
    if (hash_ids == NULL || cJSON_IsNull(hash_ids) ||
        (cJSON_IsArray(hash_ids) && hash_ids->child == NULL))
        return KVT_OK;
    (void)snprintf(name, sizeof name, "%s/hash_ids", path);
    const struct kvt_trace_place place = place_of(reader, name);
    uint32_t whole_tokens = row->input_tokens / reader->block_tokens * reader->block_tokens;
    bool has_last = !cJSON_IsArray(hash_ids) || whole_tokens == 0 ||
                    (uint32_t)cJSON_GetArraySize(hash_ids) != whole_tokens / reader->block_tokens;
    uint32_t tokens = has_last ? row->input_tokens : whole_tokens;
    kvt_status status = kvt_trace_check_blocks(hash_ids, tokens, reader->block_tokens, &place, err);
    if (status != KVT_OK)
        return status;
    row->fields |= UINT32_C(1) << KVT_TRACE_HASH_IDS;
    if (!reader->source.page_keys)
        return KVT_OK;
    status = kvt_trace_block_keys(hash_ids, reader->scope, tokens, reader->block_tokens,
                                  &reader->keys, err);
    row->has_page_keys = true;
    row->page_keys = reader->keys.keys;
    row->page_key_count = reader->keys.count;
    return status;
}

/* When it came, and what it waited for. */
static kvt_status put_times(struct weka_reader *reader, struct chain *chain, const char *path,
                            struct kvt_trace_row *row, struct kvt_error *err)
{
    const cJSON *api_time = kvt_json_find(chain->request, "api_time");
    int64_t api_ns = 0;
    kvt_status status = time_of(reader, chain->request, path, "t", &row->time_ns, err);
    if (status != KVT_OK)
        return status;
    row->time_ns += chain->base_ns;
    if (chain->last_end_ns >= 0) {
        row->follows = true;
        row->fields |= UINT32_C(1) << KVT_TRACE_THINK_S;
        row->think_ns = row->time_ns > chain->last_end_ns ? row->time_ns - chain->last_end_ns : 0;
    }
    chain->last_end_ns = -1;
    if (api_time == NULL || cJSON_IsNull(api_time))
        return KVT_OK;
    status = time_of(reader, chain->request, path, "api_time", &api_ns, err);
    chain->last_end_ns = row->time_ns + api_ns;
    return status;
}

static kvt_status give(struct weka_reader *reader, struct chain *chain, struct kvt_trace_row *row,
                       struct kvt_error *err)
{
    const struct kvt_trace_column input = {KVT_TRACE_INPUT, 0};
    const struct kvt_trace_column output = {KVT_TRACE_OUTPUT, 0};
    const cJSON *request = chain->request;
    char path[96];
    name_request(reader, chain == &reader->subagent, path);
    const struct kvt_trace_place place = place_of(reader, path);
    *row = kvt_trace_row_at(place.line);
    row->session = chain->session;
    row->turn = chain->turn++;
    row->fields = UINT32_C(1) << KVT_TRACE_SESSION | UINT32_C(1) << KVT_TRACE_TURN;
    kvt_status status = kvt_trace_put_member(&place, request, "in", input, row, err);
    if (status == KVT_OK)
        status = kvt_trace_put_member(&place, request, "out", output, row, err);
    if (status == KVT_OK)
        status = put_times(reader, chain, path, row, err);
    if (status == KVT_OK)
        status = put_blocks(reader, request, path, row, err);
    chain->request = request->next;
    chain->index++;
    return status;
}

static kvt_status weka_next(void *state, struct kvt_trace_row *row, bool *more,
                            struct kvt_error *err)
{
    struct weka_reader *reader = state;
    *more = false;
    for (;;) {
        kvt_status status = KVT_OK;
        const cJSON *object = NULL;
        if (reader->subagent.request != NULL || reader->main.request != NULL) {
            bool is_main = reader->subagent.request == NULL;
            if (is_main && kvt_json_find(reader->main.request, "requests") != NULL) {
                status = begin_subagent(reader, err);
                if (status != KVT_OK)
                    return status;
                continue;
            }
            *more = true;
            return give(reader, is_main ? &reader->main : &reader->subagent, row, err);
        }
        status = kvt_trace_objects_next(reader->objects, &object, err);
        if (status != KVT_OK || object == NULL)
            return status;
        status = begin_conversation(reader, object, err);
        if (status != KVT_OK)
            return status;
    }
}

const struct kvt_trace_reader kvt_trace_weka_reader = {
    .open = weka_open,
    .next = weka_next,
    .close = weka_close,
};
