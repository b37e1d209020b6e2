/* law.h -- a selection law that keeps its contract: the newest rows, or any others by its stream's
 * own count of rounds. */
#ifndef KVT_TESTS_BROKEN_LAW_H
#define KVT_TESTS_BROKEN_LAW_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"

struct newest {
    uint32_t top_k;
};

struct stream {
    uint32_t rounds;
};

static inline kvt_status good_prepare(const struct kvt_law_env *env, void **out,
                                      struct kvt_error *err)
{
    struct newest *law = malloc(sizeof *law);

    if (law == NULL)
        return env->host->fail(err, KVT_ERR_NOMEM, "memory", "there is no room for a law");
    law->top_k = env->top_k;
    *out = law;
    return KVT_OK;
}

static inline void good_describe(const void *law, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "the newest %u", ((const struct newest *)law)->top_k);
}

static inline size_t good_stream_bytes(const void *law, const struct kvt_law_stream_env *env)
{
    (void)law;
    (void)env;
    return sizeof(struct stream);
}

static inline kvt_status good_stream_init(void *law, void *stream,
                                          const struct kvt_law_stream_env *env,
                                          struct kvt_error *err)
{
    (void)law;
    (void)stream;
    (void)env;
    (void)err;
    return KVT_OK;
}

/* Rows of a query, `less` fewer than it should be, and as many rows older as there were rounds. */
static inline void select_newest(const struct newest *law, const struct stream *stream,
                                 const struct kvt_law_round *round, uint32_t less,
                                 uint64_t *const *sets)
{
    uint32_t deepest = 0;

    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    for (uint32_t q = 0; q < round->query_count; q++) {
        uint32_t visible = round->visible_rows[round->queries[q].depth];
        uint32_t count = visible < law->top_k ? visible : law->top_k;
        uint32_t first = (visible - count) / (1 + stream->rounds % 2);
        memset(sets[q], 0, kvt_row_words(round->visible_rows[deepest]) * sizeof(uint64_t));
        for (uint32_t row = first; row < first + count - less; row++)
            sets[q][row / 64] |= UINT64_C(1) << row % 64;
    }
}

static inline void good_select(const void *law, void *state, const struct kvt_law_round *round,
                               uint64_t *const *sets)
{
    struct stream *stream = state;

    if (sets != NULL)
        select_newest(law, stream, round, 0, sets);
    stream->rounds++;
}

#define LAW(table_name, ...)                                                                       \
    _Pragma("GCC diagnostic ignored \"-Woverride-init\"") static const struct kvt_law policy = {   \
        .info = {.abi = KVT_ABI_VERSION,                                                           \
                 .struct_bytes = sizeof policy,                                                    \
                 .name = (table_name),                                                             \
                 .summary = "breaks a contract"},                                                  \
        .basis = KVT_BASIS_ASSUMED,                                                                \
        .prepare = good_prepare,                                                                   \
        .free = free,                                                                              \
        .describe = good_describe,                                                                 \
        .stream_bytes = good_stream_bytes,                                                         \
        .stream_init = good_stream_init,                                                           \
        .select = good_select,                                                                     \
        __VA_ARGS__};                                                                              \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_LAW, &policy.info}};              \
    KVT_PLUGIN_OBJECT(tables)

#endif
