/* indexer.c -- selections of a real index scan, as whoever ran it hands them on.
 *
 *     query q of a round: what the source read for (request, selector, q)
 *
 * The CUDA backend scans real keys with queries that drift from token to token, and takes the
 * top k; this law is how the simulator comes to resolve the same rows. Nothing is known before it
 * is asked for, so that nobody can see the future. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"

static const char where[] = "law \"indexer\"";

struct indexer_law {
    const struct kvt_law_source *source;
    uint32_t top_k;
};

struct indexer_stream {
    uint32_t request, selector;
    uint32_t rows[]; /* [top_k] scratch */
};

static kvt_status indexer_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    if (env->source == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "nobody scans an index here: selection.law \"indexer\" needs --backend "
                        "cuda");
    struct indexer_law *law = malloc(sizeof *law);
    if (law == NULL)
        return kvt_fail_nomem(err, "the law of selections");
    *law = (struct indexer_law){.source = env->source, .top_k = env->top_k};
    *out = law;
    return KVT_OK;
}

static void indexer_free(void *law)
{
    free(law);
}

static void indexer_describe(const void *law, char *out, size_t bytes)
{
    (void)law;
    (void)snprintf(out, bytes, "indexer: top k of scanned keys, queries drifting");
}

static size_t indexer_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    const struct indexer_law *law = data;
    (void)env;
    return sizeof(struct indexer_stream) + law->top_k * sizeof(uint32_t);
}

static kvt_status indexer_init(void *law, void *state, const struct kvt_law_stream_env *env,
                               struct kvt_error *err)
{
    struct indexer_stream *stream = state;
    (void)law;
    (void)err;
    stream->request = env->request;
    stream->selector = env->selector;
    return KVT_OK;
}

static void indexer_select(const void *data, void *state, const struct kvt_law_round *round,
                           uint64_t *const *sets)
{
    const struct indexer_law *law = data;
    struct indexer_stream *stream = state;
    uint32_t deepest = 0;

    if (sets == NULL)
        return;
    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    uint32_t visible = round->visible_rows[deepest];
    for (uint32_t q = 0; q < round->query_count; q++) {
        uint32_t count = law->source->read(law->source->context, stream->request, stream->selector,
                                           q, stream->rows);
        memset(sets[q], 0, kvt_row_words(visible) * sizeof *sets[q]);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = stream->rows[i];
            if (row < visible) /* else the scan is wrong, and whoever compares finds a row short */
                sets[q][row / 64] |= UINT64_C(1) << row % 64;
        }
    }
}

const struct kvt_law kvt_law_indexer = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_law_indexer,
             .name = "indexer",
             .summary = "top k of a real scan: keys and drifting queries on the GPU"},
    .basis = KVT_BASIS_ASSUMED,
    .prepare = indexer_prepare,
    .free = indexer_free,
    .describe = indexer_describe,
    .stream_bytes = indexer_bytes,
    .stream_init = indexer_init,
    .select = indexer_select,
    .reads_source = true,
};
