/* recorded_own.c -- each request reads the recording that was made of it.
 *
 *     a recording begins with the token behind context_tokens, or with up to tokens_per_row - 1
 *         that nobody asked for before it, so that a row is born as a whole number of
 *         tokens_per_row has passed
 *     path 0 reads the token at its depth; path p that parts at depth f, branch p of the token
 *         before f
 *     where no more than top_k rows are visible all are selected, recorded or not
 *
 * What the note says is checked as any file is: "requests", one for each recording, in their
 * order, and "stores", one for each selector. */
#include "recorded_own.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "replay.h"

static const char where[] = "law \"recorded\"";

#define NOBODY UINT64_MAX

enum {
    PLACE_BYTES = 200 /* of a message, as far as it fits */
};

/* Recording `number` is of this request. */
struct entry {
    uint32_t request, context_tokens, number;
};

struct own {
    const struct kvt_kvsel *file;
    const char *path;
    uint32_t top_k, count, selector_count;
    struct entry *entries;   /* [count] by request, then by number */
    unsigned char *is_taken; /* [count * selector_count] by place in entries */
    uint32_t *contexts;      /* [count] by number */
    uint32_t *requests;      /* [count] by number */
    /* Recording << 32 | selector of the first stream that read past its end; NOBODY: none. Apart,
     * for streams of different requests are read by different threads. */
    _Atomic uint64_t *past;
};

void own_free(struct own *own)
{
    if (own == NULL)
        return;
    free(own->past);
    free(own->requests);
    free(own->contexts);
    free(own->is_taken);
    free(own->entries);
    free(own);
}

/* ---- The note --------------------------------------------------------------------------- */

static kvt_status check_stores(const struct own *own, const cJSON *note, const char *place,
                               const struct kvt_law_env *env, struct kvt_error *err)
{
    const cJSON *stores = NULL, *item = NULL;
    uint32_t s = 0;
    kvt_status status = kvt_json_get_array(note, place, "stores", true, &stores, err);
    if (status != KVT_OK)
        return status;
    cJSON_ArrayForEach(item, stores)
    {
        uint32_t store = s < env->stream_count && env->stream_store ? env->stream_store[s] : s;
        if (s >= own->selector_count || !kvt_json_is_count(item) ||
            item->valuedouble != (double)store)
            break;
        s++;
    }
    if (item != NULL || s != env->stream_count || s != own->selector_count)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "path %s is of %u selectors that read other stores than the %u of this "
                        "model",
                        own->path, own->selector_count, env->stream_count);
    return KVT_OK;
}

static int by_request(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->request != y->request)
        return x->request < y->request ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static kvt_status read_requests(struct own *own, const cJSON *note, const char *place,
                                struct kvt_error *err)
{
    const cJSON *requests = NULL, *item = NULL;
    uint32_t number = 0;
    kvt_status status = kvt_json_get_array(note, place, "requests", true, &requests, err);
    if (status != KVT_OK)
        return status;
    cJSON_ArrayForEach(item, requests)
    {
        char at[PLACE_BYTES + 32];
        uint64_t request = 0, context = 0;
        (void)snprintf(at, sizeof at, "%s/requests/%u", place, number);
        if (number >= own->count)
            break;
        if (!cJSON_IsObject(item))
            return kvt_fail(err, KVT_ERR_PARSE, at, "an object is expected");
        status = kvt_json_get_u64(item, at, "request", true, 0, UINT32_MAX, &request, err);
        if (status == KVT_OK)
            status =
                kvt_json_get_u64(item, at, "context_tokens", true, 0, UINT32_MAX, &context, err);
        if (status != KVT_OK)
            return status;
        own->entries[number] = (struct entry){
            .request = (uint32_t)request, .context_tokens = (uint32_t)context, .number = number};
        own->requests[number] = (uint32_t)request;
        own->contexts[number++] = (uint32_t)context;
    }
    if (item != NULL || number != own->count)
        return kvt_fail(err, KVT_ERR_PARSE, place,
                        "the note's \"requests\" are not as many as the file's recordings, %u",
                        own->count);
    qsort(own->entries, own->count, sizeof *own->entries, by_request);
    return KVT_OK;
}

static kvt_status read_note(struct own *own, const struct kvt_law_env *env, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(own->file);
    char place[PLACE_BYTES];
    cJSON *note = NULL;
    (void)snprintf(place, sizeof place, "%s#note", own->path);
    if (header->note_bytes == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "path %s does not say whose its recordings are; assign \"own\" wants a "
                        "file of `kvtide trace record`",
                        own->path);
    kvt_status status =
        kvt_json_parse(header->note, (size_t)header->note_bytes, place, 1, &note, err);
    if (status == KVT_OK && kvt_json_find(note, "requests") == NULL)
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "path %s does not say whose its recordings are (a file that was merged "
                          "of several runs does not where two have a request of one number); "
                          "assign \"own\" wants one of `kvtide trace record`",
                          own->path);
    if (status == KVT_OK)
        status = check_stores(own, note, place, env, err);
    if (status == KVT_OK)
        status = read_requests(own, note, place, err);
    cJSON_Delete(note);
    return status;
}

kvt_status own_new(const struct kvt_kvsel *file, const char *path, const struct kvt_law_env *env,
                   struct own **out, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    struct own *own = calloc(1, sizeof *own);
    if (own == NULL)
        return kvt_fail_nomem(err, "the law of selections");
    own->file = file;
    own->path = path;
    own->top_k = env->top_k;
    own->count = header->request_count;
    own->selector_count = header->selector_count;
    own->entries = calloc(own->count, sizeof *own->entries);
    own->is_taken = calloc((size_t)own->count * own->selector_count, 1);
    own->contexts = calloc(own->count, sizeof *own->contexts);
    own->requests = calloc(own->count, sizeof *own->requests);
    own->past = malloc(sizeof *own->past);
    if (own->entries == NULL || own->is_taken == NULL || own->contexts == NULL ||
        own->requests == NULL || own->past == NULL) {
        own_free(own);
        return kvt_fail_nomem(err, "the law of selections");
    }
    atomic_init(own->past, NOBODY);
    kvt_status status = read_note(own, env, err);
    if (status != KVT_OK) {
        own_free(own);
        return status;
    }
    *out = own;
    return KVT_OK;
}

/* ---- Who reads what ------------------------------------------------------------------------ */

/* The first entry of a request, or where it would be. */
static uint32_t first_of(const struct own *own, uint32_t request)
{
    uint32_t low = 0, high = own->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (own->entries[middle].request < request)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct own *own, uint32_t at, uint32_t request)
{
    return at < own->count && own->entries[at].request == request;
}

static kvt_status refuse_request(const struct own *own, const struct kvt_law_stream_env *env,
                                 struct kvt_error *err)
{
    uint32_t at = first_of(own, env->request), last = at;
    if (!is_of(own, at, env->request))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "request %u is not recorded in path %s: it has %u recordings, of requests "
                        "%u to %u",
                        env->request, own->path, own->count, own->entries[0].request,
                        own->entries[own->count - 1].request);
    while (is_of(own, last + 1, env->request))
        last++;
    if (last > at)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "request %u begins with %u tokens; path %s has %u recordings of it, the "
                        "first from %u tokens on, the last from %u",
                        env->request, env->context_tokens, own->path, last - at + 1,
                        own->entries[at].context_tokens, own->entries[last].context_tokens);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "request %u begins with %u tokens; path %s has it from %u tokens on",
                    env->request, env->context_tokens, own->path, own->entries[at].context_tokens);
}

/* The place in entries that a stream reads; count: there is none. */
static uint32_t choose(struct own *own, const struct kvt_law_stream_env *env)
{
    uint32_t chosen = own->count;
    for (uint32_t at = first_of(own, env->request); is_of(own, at, env->request); at++) {
        unsigned char *is_taken = &own->is_taken[(size_t)at * own->selector_count + env->selector];
        if (own->entries[at].context_tokens != env->context_tokens)
            continue;
        if (env->looks_ahead && !*is_taken && chosen != own->count)
            break;
        chosen = at;
        if (!env->looks_ahead && !*is_taken) {
            *is_taken = 1;
            break;
        }
    }
    return chosen;
}

/* The recording's stream gains rows as this one does, from as many on. */
static kvt_status check_rows(const struct own *own, const struct kvt_law_stream_env *env,
                             uint32_t number, uint32_t tokens_per_row, struct kvt_error *err)
{
    const struct kvt_kvsel_shape *shape =
        &kvt_kvsel_stream_of(own->file, number, env->selector)->shape;
    if (shape->tokens_per_row != tokens_per_row)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "selector %u gains a row every %u tokens, and in path %s every %u",
                        env->selector, tokens_per_row, own->path, shape->tokens_per_row);
    if (shape->first_rows != env->context_rows)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "request %u begins with %u rows of selector %u, and in path %s with %u",
                        env->request, env->context_rows, env->selector, own->path,
                        shape->first_rows);
    return KVT_OK;
}

kvt_status own_attach(struct own *own, const struct kvt_law_stream_env *env, struct own_stream *out,
                      struct kvt_error *err)
{
    uint32_t tokens_per_row = env->tokens_per_row > 0 ? env->tokens_per_row : 1;
    uint32_t at = choose(own, env);
    if (at == own->count)
        return refuse_request(own, env, err);
    kvt_status status = check_rows(own, env, own->entries[at].number, tokens_per_row, err);
    if (status != KVT_OK)
        return status;
    *out = (struct own_stream){.recording = own->entries[at].number,
                               .selector = env->selector,
                               .token = (env->context_tokens + UINT64_C(1)) % tokens_per_row,
                               .looks_ahead = env->looks_ahead};
    return KVT_OK;
}

/* ---- Rounds --------------------------------------------------------------------------------- */

/* Where a query reads; false: its token is not recorded. */
static bool find_place(const struct own_stream *stream, const struct kvt_kvsel_stream *recording,
                       const struct kvt_law_query *query, struct kvt_kvsel_place *place)
{
    const struct kvt_kvsel_shape *shape = &recording->shape;
    bool is_side = query->path != 0 && shape->side_paths > 0;
    uint64_t token = stream->token + (is_side ? query->fork - 1 : query->depth);
    /* A rejected draft without a branch reads what followed, as far as anything did. */
    if (query->path != 0 && !is_side && token >= recording->token_count &&
        recording->token_count > 0)
        token = recording->token_count - 1;
    if (token >= recording->token_count)
        return false;
    *place = (struct kvt_kvsel_place){.token = (uint32_t)token};
    if (is_side) {
        assert(query->depth - query->fork < shape->side_tokens);
        place->side_path = 1 + (query->path - 1) % shape->side_paths;
        place->side_token = query->depth - query->fork;
    }
    return true;
}

/* Behind the end. Of several streams the first by recording and selector is kept, whoever comes
 * first. */
static void run_past(const struct own *own, const struct own_stream *stream, uint64_t *set,
                     size_t words)
{
    if (stream->looks_ahead) {
        memset(set, 0, words * sizeof *set);
        return;
    }
    replay_select_all(set, own->top_k, words);
    uint64_t here = (uint64_t)stream->recording << 32 | stream->selector;
    uint64_t known = atomic_load(own->past);
    while (here < known && !atomic_compare_exchange_weak(own->past, &known, here))
        continue;
}

void own_round(const struct own *own, struct own_stream *stream, const struct kvt_law_round *round,
               uint64_t *const *sets)
{
    static const struct kvt_kvsel_map as_recorded = {.is_shifted = true};
    const struct kvt_kvsel_stream *recording =
        kvt_kvsel_stream_of(own->file, stream->recording, stream->selector);
    struct kvt_kvsel_place places[REPLAY_BATCH];
    uint64_t *place_sets[REPLAY_BATCH];
    size_t words = kvt_row_words(round->visible_rows[replay_deepest(round)]), count = 0;
    for (uint32_t q = 0; sets != NULL && q < round->query_count; q++) {
        uint32_t visible = round->visible_rows[round->queries[q].depth];
        if (visible <= own->top_k) {
            replay_select_all(sets[q], visible, words);
            continue;
        }
        if (!find_place(stream, recording, &round->queries[q], &places[count])) {
            run_past(own, stream, sets[q], words);
            continue;
        }
        place_sets[count++] = sets[q];
        if (count == REPLAY_BATCH) {
            kvt_kvsel_read(recording, places, count, &as_recorded, place_sets, words);
            count = 0;
        }
    }
    if (count > 0)
        kvt_kvsel_read(recording, places, count, &as_recorded, place_sets, words);
    stream->token += round->committed_tokens;
}

kvt_status own_end_step(const struct own *own, struct kvt_error *err)
{
    uint64_t past = atomic_load(own->past);
    if (past == NOBODY)
        return KVT_OK;
    uint32_t number = (uint32_t)(past >> 32), selector = (uint32_t)past;
    uint32_t tokens = kvt_kvsel_stream_of(own->file, number, selector)->token_count;
    if (tokens == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "selector %u of request %u, from %u tokens on, was not followed as path %s "
                        "was recorded; a recording of an exact run is expected, or "
                        "run.sample_stores as they were",
                        selector, own->requests[number], own->contexts[number], own->path);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "request %u reads past the %u tokens that path %s has of it from %u tokens "
                    "on: this run goes further than the one that was recorded",
                    own->requests[number], tokens, own->path, own->contexts[number]);
}
