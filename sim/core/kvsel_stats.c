/* kvsel_stats.c -- how local recorded selections are: overlap by lag, rows of several in a row. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kvsel_private.h"

const uint32_t kvt_kvsel_lags[KVT_KVSEL_LAGS] = {1, 2, 4, 8, 16, 32, 63};

enum {
    RING = 64 /* selections kept: more than the largest lag */
};

/* Sums over tokens, and how many there are of each. */
struct sums {
    double overlap[KVT_KVSEL_LAGS], unions[KVT_KVSEL_UNIONS];
    uint64_t overlap_count[KVT_KVSEL_LAGS], union_count[KVT_KVSEL_UNIONS];
};

static uint32_t count_common(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint32_t count = 0;
    for (size_t w = 0; w < words; w++)
        count += (uint32_t)__builtin_popcountll(a[w] & b[w]);
    return count;
}

/* Joins `set` to the union, and counts that. */
static uint32_t count_joined(uint64_t *joined, const uint64_t *set, size_t words)
{
    for (size_t w = 0; w < words; w++)
        joined[w] |= set[w];
    return kvt_row_set_count(joined, words);
}

/* One token: the ring holds its selection and those before it, `held` in all. */
static void add_token(struct sums *sums, uint64_t *const ring[RING + 1], uint32_t token,
                      uint32_t held, uint32_t top_k, size_t words)
{
    const uint64_t *now = ring[token % RING];
    for (int l = 0; l < KVT_KVSEL_LAGS; l++) {
        if (held <= kvt_kvsel_lags[l])
            continue;
        const uint64_t *then = ring[(token - kvt_kvsel_lags[l]) % RING];
        sums->overlap[l] += (double)count_common(now, then, words) / top_k;
        sums->overlap_count[l]++;
    }
    uint64_t *joined = ring[RING];
    memset(joined, 0, words * sizeof *joined);
    for (uint32_t u = 0; u < KVT_KVSEL_UNIONS && u < held; u++) {
        uint32_t rows = count_joined(joined, ring[(token - u) % RING], words);
        sums->unions[u] += (double)rows / top_k;
        sums->union_count[u]++;
    }
}

static void add_stream(struct sums *sums, const struct kvt_kvsel_stream *stream,
                       uint64_t *const ring[RING + 1], size_t words)
{
    const struct kvt_kvsel_shape *shape = &stream->shape;
    struct kvt_kvsel_map map = {.old_rows = shape->first_rows, .stream_rows = shape->first_rows};
    uint32_t held = 0;
    for (uint32_t token = 0; token < stream->token_count; token++) {
        if (kvt_kvsel_visible(shape, token) <= shape->top_k)
            continue;
        struct kvt_kvsel_place place = {.token = token};
        kvt_kvsel_read(stream, &place, 1, &map, &ring[token % RING], words);
        held += held < RING;
        add_token(sums, ring, token, held, shape->top_k, words);
    }
}

static double mean_of(double sum, uint64_t count)
{
    return count > 0 ? sum / (double)count : (double)NAN;
}

static const struct kvt_kvsel_stream *numbered(const struct kvt_kvsel *file, uint32_t stream)
{
    uint32_t selectors = kvt_kvsel_header_of(file)->selector_count;
    return kvt_kvsel_stream_of(file, stream / selectors, stream % selectors);
}

/* Everything but the means. */
static void survey(const struct kvt_kvsel *file, uint32_t stream_count,
                   struct kvt_kvsel_stats *stats)
{
    *stats = (struct kvt_kvsel_stats){.rows_min = UINT32_MAX};
    for (uint32_t s = 0; s < stream_count; s++) {
        const struct kvt_kvsel_stream *stream = numbered(file, s);
        const struct kvt_kvsel_shape *shape = &stream->shape;
        uint32_t last = stream->token_count > 0 ? stream->token_count - 1 : 0;
        uint32_t most = kvt_kvsel_visible(shape, last);
        stats->rows_min = shape->first_rows < stats->rows_min ? shape->first_rows : stats->rows_min;
        stats->rows_max = most > stats->rows_max ? most : stats->rows_max;
        stats->tokens += stream->token_count;
        for (uint32_t token = 0; token < stream->token_count; token++) {
            uint32_t visible = kvt_kvsel_visible(shape, token);
            stats->selected += visible < shape->top_k ? visible : shape->top_k;
        }
    }
}

kvt_status kvt_kvsel_stats_of(const struct kvt_kvsel *file, struct kvt_kvsel_stats *out,
                              struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    uint32_t stream_count = header->request_count * header->selector_count;
    struct kvt_kvsel_stats stats;
    survey(file, stream_count, &stats);
    size_t words = kvt_row_words(stats.rows_max);
    assert(words > 0);
    uint64_t *memory = calloc((RING + 1) * words, sizeof *memory);
    if (memory == NULL)
        return kvt_fail_nomem(err, "the sets of consecutive selections");
    uint64_t *ring[RING + 1]; /* the last is scratch */
    for (size_t i = 0; i <= RING; i++)
        ring[i] = memory + i * words;
    struct sums sums = {.union_count = {0}};
    for (uint32_t s = 0; s < stream_count; s++)
        add_stream(&sums, numbered(file, s), ring, words);
    free(memory);
    for (int l = 0; l < KVT_KVSEL_LAGS; l++)
        stats.overlap[l] = mean_of(sums.overlap[l], sums.overlap_count[l]);
    for (int u = 0; u < KVT_KVSEL_UNIONS; u++)
        stats.unions[u] = mean_of(sums.unions[u], sums.union_count[u]);
    stats.sampled_tokens = sums.overlap_count[0];
    *out = stats;
    return KVT_OK;
}
