/* recorder.c -- a law that answers as another does, and keeps what it answers.
 *
 *     opening of a request's streams: a recording, numbered in the order of openings
 *     each round of a stream: what it commits follows as the stream's own tokens, its rejected
 *         drafts as branches behind the token that they part from (recorder_track.c)
 *     behind each step, and as a stream ends: finished blocks go to a file beside the target, by
 *         recording, then by selector
 *     commit: header, note, those blocks, end
 *
 * Streams of different requests are asked by different threads, and each touches its own track
 * alone; blocks are put by one thread in a fixed order, so that threads never show. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "recorder_private.h"

static const char where[] = "recording";

struct opening {
    uint32_t number; /* of the recording */
    uint32_t open_count;
    struct kvsel_track *tracks[]; /* [selector_count] NULL: not open */
};

struct kvt_recorder {
    struct kvt_law table; /* the inner law's, but for what is done here */
    const struct kvt_law *inner;
    void *inner_data;
    bool is_prepared, is_done;
    char *path;
    uint32_t top_k, selector_count, side_paths, side_tokens;
    uint32_t *stores, *tokens_per_row; /* [selector_count] */

    struct kvt_outfile *spool; /* blocks so far, in file order */
    uint64_t tokens, rows;
    struct kvt_recording *recordings; /* [recording_count] */
    struct kvt_kvsel_shape *shapes;   /* [recording_count * selector_count] */
    uint32_t recording_count, recording_capacity;
    struct opening **open; /* [open_count] by number */
    size_t open_count, open_capacity;
    kvt_status status; /* the first failure that nobody could be told of */
    struct kvt_error error;
};

/* A stream's state: ours, then the inner law's. */
struct stream {
    _Alignas(max_align_t) struct opening *opening; /* NULL: it is not recorded */
    struct kvsel_track *track;
    uint32_t selector;
};

static void *inner_of(void *stream)
{
    return (struct stream *)stream + 1;
}

/* ---- Blocks -------------------------------------------------------------------------- */

/* Finished blocks of a track, to the spool. */
static void put_blocks(struct kvt_recorder *recorder, struct kvsel_track *track)
{
    for (size_t b = 0; b < track->done_count; b++) {
        (void)fwrite(track->done[b], 1, kvt_kvsel_block_bytes(track->done[b]),
                     kvt_outfile_stream(recorder->spool));
        free(track->done[b]);
    }
    track->done_count = 0;
    recorder->tokens += track->tokens;
    recorder->rows += track->rows;
    track->tokens = track->rows = 0;
}

static void keep_failure(struct kvt_recorder *recorder, kvt_status status,
                         const struct kvt_error *err)
{
    if (status == KVT_OK || recorder->status != KVT_OK)
        return;
    recorder->status = status;
    recorder->error = *err;
}

static kvt_status check_spool(struct kvt_recorder *recorder, struct kvt_error *err)
{
    return ferror(kvt_outfile_stream(recorder->spool)) == 0
               ? KVT_OK
               : kvt_outfile_flush(recorder->spool, err);
}

static kvt_status tell_failure(const struct kvt_recorder *recorder, struct kvt_error *err)
{
    if (err != NULL)
        *err = recorder->error;
    return recorder->status;
}

static kvt_status recorder_end_step(void *data, struct kvt_error *err)
{
    struct kvt_recorder *recorder = data;
    if (recorder->inner->end_step != NULL) {
        kvt_status status = KVT_PLUGIN_CALL(recorder->inner, end_step, err, recorder->inner_data);
        if (status != KVT_OK)
            return status;
    }
    for (size_t i = 0; i < recorder->open_count; i++) {
        for (uint32_t s = 0; s < recorder->selector_count; s++) {
            struct kvsel_track *track = recorder->open[i]->tracks[s];
            if (track == NULL)
                continue;
            put_blocks(recorder, track);
            keep_failure(recorder, track->status, &track->error);
        }
    }
    return recorder->status == KVT_OK ? check_spool(recorder, err) : tell_failure(recorder, err);
}

/* ---- Openings ------------------------------------------------------------------------- */

static kvt_status make_room(struct kvt_recorder *recorder, struct kvt_error *err)
{
    uint64_t streams = ((uint64_t)recorder->recording_count + 1) * recorder->selector_count;
    if (streams > KVT_KVSEL_STREAMS_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "%u recordings of %u selectors, and another one; a file has at most %u "
                        "streams: a shorter run is expected",
                        recorder->recording_count, recorder->selector_count, KVT_KVSEL_STREAMS_MAX);
    if (recorder->recording_count == recorder->recording_capacity) {
        uint32_t capacity = 2 * recorder->recording_capacity + 64;
        struct kvt_recording *recordings =
            realloc(recorder->recordings, capacity * sizeof *recordings);
        if (recordings != NULL)
            recorder->recordings = recordings;
        struct kvt_kvsel_shape *shapes =
            realloc(recorder->shapes, (size_t)capacity * recorder->selector_count * sizeof *shapes);
        if (shapes != NULL)
            recorder->shapes = shapes;
        if (recordings == NULL || shapes == NULL)
            return kvt_fail_nomem(err, where);
        recorder->recording_capacity = capacity;
    }
    if (recorder->open_count == recorder->open_capacity) {
        size_t capacity = 2 * recorder->open_capacity + 64;
        struct opening **open = realloc(recorder->open, capacity * sizeof(struct opening *));
        if (open == NULL)
            return kvt_fail_nomem(err, where);
        recorder->open = open;
        recorder->open_capacity = capacity;
    }
    return KVT_OK;
}

/* A recording of which nothing is open yet. Selectors that are never opened have no token. */
static kvt_status open_recording(struct kvt_recorder *recorder,
                                 const struct kvt_law_stream_env *env, struct opening **out,
                                 struct kvt_error *err)
{
    kvt_status status = make_room(recorder, err);
    if (status != KVT_OK)
        return status;
    struct opening *opening =
        calloc(1, sizeof *opening + recorder->selector_count * sizeof(struct kvsel_track *));
    if (opening == NULL)
        return kvt_fail_nomem(err, where);
    opening->number = recorder->recording_count++;
    recorder->recordings[opening->number] =
        (struct kvt_recording){.request = env->request, .context_tokens = env->context_tokens};
    for (uint32_t s = 0; s < recorder->selector_count; s++) {
        uint32_t first_rows = (env->context_tokens + 1) / recorder->tokens_per_row[s];
        recorder->shapes[(size_t)opening->number * recorder->selector_count + s] =
            (struct kvt_kvsel_shape){.top_k = recorder->top_k,
                                     .first_rows = first_rows > 0 ? first_rows : 1,
                                     .tokens_per_row = recorder->tokens_per_row[s],
                                     .side_paths = recorder->side_paths,
                                     .side_tokens = recorder->side_tokens};
    }
    recorder->open[recorder->open_count++] = opening;
    *out = opening;
    return KVT_OK;
}

/* Streams of a request that are opened one after the other are one recording's. */
static bool belongs(const struct kvt_recorder *recorder, const struct opening *opening,
                    const struct kvt_law_stream_env *env)
{
    const struct kvt_recording *recording = &recorder->recordings[opening->number];
    return opening->number + 1 == recorder->recording_count && recording->request == env->request &&
           recording->context_tokens == env->context_tokens &&
           opening->tracks[env->selector] == NULL;
}

static kvt_status open_track(struct kvt_recorder *recorder, const struct kvt_law_stream_env *env,
                             struct stream *stream, struct kvt_error *err)
{
    struct opening *opening =
        recorder->open_count > 0 ? recorder->open[recorder->open_count - 1] : NULL;
    kvt_status status = KVT_OK;
    if (opening == NULL || !belongs(recorder, opening, env))
        status = open_recording(recorder, env, &opening, err);
    if (status != KVT_OK)
        return status;
    assert(opening != NULL);
    uint32_t number = opening->number * recorder->selector_count + env->selector;
    struct kvt_kvsel_shape *shape = &recorder->shapes[number];
    shape->first_rows = env->context_rows;
    shape->tokens_per_row = env->tokens_per_row;
    struct kvsel_track *track =
        kvsel_track_new(shape, number, (env->context_tokens + 1) % shape->tokens_per_row, err);
    if (track == NULL)
        return err != NULL ? err->status : KVT_ERR_NOMEM;
    opening->tracks[env->selector] = track;
    opening->open_count++;
    stream->opening = opening;
    stream->track = track;
    stream->selector = env->selector;
    return KVT_OK;
}

static void close_track(struct kvt_recorder *recorder, struct opening *opening, uint32_t selector)
{
    struct kvsel_track *track = opening->tracks[selector];
    kvsel_track_end(track);
    put_blocks(recorder, track);
    keep_failure(recorder, track->status, &track->error);
    kvsel_track_free(track);
    opening->tracks[selector] = NULL;
    opening->open_count--;
}

/* An opening that none of its streams is open of is forgotten. */
static void forget(struct kvt_recorder *recorder, struct opening *opening)
{
    size_t at = 0;
    while (recorder->open[at] != opening)
        at++;
    memmove(recorder->open + at, recorder->open + at + 1,
            (recorder->open_count - at - 1) * sizeof(struct opening *));
    recorder->open_count--;
    free(opening);
}

/* ---- The law --------------------------------------------------------------------------- */

static void recorder_release(void *data)
{
    struct kvt_recorder *recorder = data;
    if (recorder == NULL)
        return;
    recorder->inner->free(recorder->inner_data);
    recorder->inner_data = NULL;
}

static kvt_status copy_selectors(struct kvt_recorder *recorder, const struct kvt_law_env *env,
                                 struct kvt_error *err)
{
    recorder->stores = calloc(env->stream_count, sizeof *recorder->stores);
    recorder->tokens_per_row = calloc(env->stream_count, sizeof *recorder->tokens_per_row);
    if (recorder->stores == NULL || recorder->tokens_per_row == NULL)
        return kvt_fail_nomem(err, where);
    for (uint32_t s = 0; s < env->stream_count; s++) {
        recorder->stores[s] = env->stream_store != NULL ? env->stream_store[s] : s;
        recorder->tokens_per_row[s] =
            env->stream_tokens_per_row != NULL ? env->stream_tokens_per_row[s] : 1;
    }
    return KVT_OK;
}

static kvt_status recorder_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    struct kvt_recorder *recorder = env->context;
    assert(recorder != NULL && env->stream_count > 0);
    if (recorder->is_prepared)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "two backends select in this run, and only one can be recorded; a GPU that "
                        "has all layers, or the simulator alone, is expected");
    recorder->is_prepared = true;
    recorder->top_k = env->top_k;
    recorder->selector_count = env->stream_count;
    recorder->side_paths = env->side_tokens > 0 ? env->side_paths : 0;
    recorder->side_tokens = recorder->side_paths > 0 ? env->side_tokens : 0;
    kvt_status status = copy_selectors(recorder, env, err);
    if (status == KVT_OK)
        status = KVT_PLUGIN_CALL(recorder->inner, prepare, err, env, &recorder->inner_data);
    if (status == KVT_OK)
        *out = recorder;
    return status;
}

static void recorder_describe(const void *data, char *out, size_t bytes)
{
    const struct kvt_recorder *recorder = data;
    recorder->inner->describe(recorder->inner_data, out, bytes);
}

static size_t recorder_stream_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    const struct kvt_recorder *recorder = data;
    return sizeof(struct stream) + recorder->inner->stream_bytes(recorder->inner_data, env);
}

static kvt_status recorder_stream_init(void *data, void *state,
                                       const struct kvt_law_stream_env *env, struct kvt_error *err)
{
    struct kvt_recorder *recorder = data;
    kvt_status status = KVT_PLUGIN_CALL(recorder->inner, stream_init, err, recorder->inner_data,
                                        inner_of(state), env);
    if (status != KVT_OK || env->looks_ahead)
        return status;
    status = open_track(recorder, env, state, err);
    if (status != KVT_OK && recorder->inner->stream_fini != NULL)
        recorder->inner->stream_fini(recorder->inner_data, inner_of(state));
    return status;
}

static void recorder_stream_fini(void *data, void *state)
{
    struct kvt_recorder *recorder = data;
    struct stream *stream = state;
    if (recorder->inner->stream_fini != NULL)
        recorder->inner->stream_fini(recorder->inner_data, inner_of(state));
    if (recorder->is_done || stream->opening == NULL)
        return;
    close_track(recorder, stream->opening, stream->selector);
    if (stream->opening->open_count == 0)
        forget(recorder, stream->opening);
}

static void recorder_select(const void *data, void *state, const struct kvt_law_round *round,
                            uint64_t *const *sets)
{
    const struct kvt_recorder *recorder = data;
    struct stream *stream = state;
    const struct kvsel_asked asked = {
        .law = recorder->inner, .data = recorder->inner_data, .stream = inner_of(state)};
    if (stream->track == NULL || recorder->is_done)
        recorder->inner->select(asked.data, asked.stream, round, sets);
    else
        kvsel_track_select(stream->track, &asked, round, sets);
}

static void recorder_page_scores(const void *data, void *state, uint32_t visible_rows,
                                 uint32_t rows_per_page, float *scores)
{
    const struct kvt_recorder *recorder = data;
    recorder->inner->page_scores(recorder->inner_data, inner_of(state), visible_rows, rows_per_page,
                                 scores);
}

/* ---- From outside ------------------------------------------------------------------------ */

kvt_status kvt_recorder_new(const struct kvt_law *law, const char *path, struct kvt_recorder **out,
                            struct kvt_error *err)
{
    if (law->varies)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, law->info.name,
                        "its queries read as many rows as it takes, and a recording has top_k of "
                        "each; a law such as \"score\" is expected");
    struct kvt_recorder *recorder = calloc(1, sizeof *recorder);
    if (recorder == NULL)
        return kvt_fail_nomem(err, where);
    recorder->inner = law;
    recorder->table = *law;
    recorder->table.prepare = recorder_prepare;
    recorder->table.free = recorder_release;
    recorder->table.describe = recorder_describe;
    recorder->table.stream_bytes = recorder_stream_bytes;
    recorder->table.stream_init = recorder_stream_init;
    recorder->table.stream_fini = recorder_stream_fini;
    recorder->table.select = recorder_select;
    recorder->table.page_scores = law->page_scores != NULL ? recorder_page_scores : NULL;
    recorder->table.end_step = recorder_end_step;
    recorder->path = strdup(path);
    kvt_status status = recorder->path != NULL ? kvt_outfile_open(path, &recorder->spool, err)
                                               : kvt_fail_nomem(err, where);
    if (status != KVT_OK) {
        kvt_recorder_free(recorder);
        return status;
    }
    *out = recorder;
    return KVT_OK;
}

void kvt_recorder_free(struct kvt_recorder *recorder)
{
    if (recorder == NULL)
        return;
    for (size_t i = 0; i < recorder->open_count; i++) {
        for (uint32_t s = 0; s < recorder->selector_count; s++)
            kvsel_track_free(recorder->open[i]->tracks[s]);
        free(recorder->open[i]);
    }
    kvt_outfile_discard(recorder->spool);
    free(recorder->open);
    free(recorder->shapes);
    free(recorder->recordings);
    free(recorder->tokens_per_row);
    free(recorder->stores);
    free(recorder->path);
    free(recorder);
}

const struct kvt_law *kvt_recorder_law(const struct kvt_recorder *recorder)
{
    return &recorder->table;
}

void kvt_recorder_totals(const struct kvt_recorder *recorder, struct kvt_recorder_totals *out)
{
    *out = (struct kvt_recorder_totals){.recordings = recorder->recordings,
                                        .recording_count = recorder->recording_count,
                                        .selector_count = recorder->selector_count,
                                        .stores = recorder->stores,
                                        .tokens = recorder->tokens,
                                        .rows = recorder->rows};
    for (size_t i = 0; i < recorder->open_count; i++) {
        for (uint32_t s = 0; s < recorder->selector_count; s++) {
            const struct kvsel_track *track = recorder->open[i]->tracks[s];
            out->tokens += track != NULL ? track->tokens : 0;
            out->rows += track != NULL ? track->rows : 0;
        }
    }
}

/* Every block of the spool, in its order. */
static kvt_status copy_blocks(struct kvt_recorder *recorder, FILE *spool,
                              struct kvt_kvsel_writer *writer, struct kvt_error *err)
{
    unsigned char *block = malloc(KVSEL_BLOCK_HEADER_BYTES);
    size_t capacity = KVSEL_BLOCK_HEADER_BYTES;
    kvt_status status = block != NULL ? KVT_OK : kvt_fail_nomem(err, where);
    while (status == KVT_OK &&
           fread(block, 1, KVSEL_BLOCK_HEADER_BYTES, spool) == KVSEL_BLOCK_HEADER_BYTES) {
        size_t bytes = kvt_kvsel_block_bytes(block), payload = bytes - KVSEL_BLOCK_HEADER_BYTES;
        if (bytes > capacity) {
            unsigned char *larger = realloc(block, bytes);
            if (larger == NULL) {
                status = kvt_fail_nomem(err, where);
                break;
            }
            block = larger;
            capacity = bytes;
        }
        if (fread(block + KVSEL_BLOCK_HEADER_BYTES, 1, payload, spool) != payload)
            status = kvt_fail(err, KVT_ERR_SYSTEM, recorder->path,
                              "what was recorded cannot be read back");
        if (status == KVT_OK)
            status = kvt_kvsel_put(writer, block, err);
    }
    if (status == KVT_OK && ferror(spool))
        status =
            kvt_fail(err, KVT_ERR_SYSTEM, recorder->path, "what was recorded cannot be read back");
    free(block);
    return status;
}

static kvt_status write_file(struct kvt_recorder *recorder, const char *note, uint64_t note_bytes,
                             struct kvt_error *err)
{
    const struct kvt_kvsel_header header = {.top_k = recorder->top_k,
                                            .side_paths = recorder->side_paths,
                                            .side_tokens = recorder->side_tokens,
                                            .request_count = recorder->recording_count,
                                            .selector_count = recorder->selector_count,
                                            .note = note,
                                            .note_bytes = note_bytes};
    struct kvt_kvsel_writer *writer = NULL;
    FILE *spool = NULL;
    kvt_status status = kvt_file_open(kvt_outfile_temporary(recorder->spool), &spool, err);
    if (status == KVT_OK)
        status = kvt_kvsel_create(recorder->path, &header, recorder->shapes, &writer, err);
    if (status == KVT_OK)
        status = copy_blocks(recorder, spool, writer, err);
    if (status == KVT_OK) {
        status = kvt_kvsel_commit(writer, err);
        writer = NULL;
    }
    kvt_kvsel_discard(writer);
    if (spool != NULL)
        (void)fclose(spool);
    return status;
}

kvt_status kvt_recorder_commit(struct kvt_recorder *recorder, const char *note, uint64_t note_bytes,
                               struct kvt_error *err)
{
    assert(!recorder->is_done);
    recorder->is_done = true;
    for (size_t i = 0; i < recorder->open_count; i++) {
        for (uint32_t s = 0; s < recorder->selector_count; s++) {
            if (recorder->open[i]->tracks[s] != NULL)
                close_track(recorder, recorder->open[i], s);
        }
    }
    if (recorder->status != KVT_OK)
        return tell_failure(recorder, err);
    if (recorder->recording_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "no request was followed in this run: there is nothing to record");
    kvt_status status = kvt_outfile_flush(recorder->spool, err);
    return status == KVT_OK ? write_file(recorder, note, note_bytes, err) : status;
}
