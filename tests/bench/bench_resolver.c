/* bench_resolver.c -- what one resolve costs when caches are resolved in turn, as a decode step
 * does: k = 2,048, B = 2k, 100,032 rows, 128 requests of 21 stores.
 *
 * Selections are synthetic, and made between the timed stretches: 32 % of a selection's rows
 * change from one query to the next, and of the newcomers 56 % had left not long ago, so that a
 * cache of 2k slots misses about 14 % of the selected rows. One JSON line a case. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/clock.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"

extern const struct kvt_replacement_policy kvt_replacement_lru;

enum {
    ROWS = 100032,
    TAIL_ROWS = 64,
    TOP_K = 2048,
    SLOTS = 2 * TOP_K,
    CHANGED_ROWS = TOP_K * 32 / 100,
    CACHES = 128 * 21,
    QUERIES_MAX = 4,
    WARM_STEPS = 6,
    TIMED_STEPS = 6,
};
#define RETURNING_FRACTION 0.56

/* A selection that drifts, and the rows that left it, newest last in a ring. */
struct stream {
    struct kvt_rng rng;
    uint32_t selected[TOP_K], left[TOP_K];
    uint32_t left_count;
    uint64_t member_bits[ROWS / 64];
};

struct bench {
    struct kvt_resolver *resolver;
    struct kvt_hot_cache *caches[CACHES];
    struct stream *streams;                     /* [CACHES] */
    uint32_t (*selections)[QUERIES_MAX][TOP_K]; /* [CACHES] of the step being timed */
};

struct tally {
    uint64_t ns, calls, selected, hot, filled, staged;
};

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("bench_resolver: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void must_be_ok(kvt_status status, const struct kvt_error *err)
{
    if (status != KVT_OK) {
        fprintf(stderr, "bench_resolver: %s: %s\n", err->where, err->message);
        exit(EXIT_FAILURE);
    }
}

static bool is_member(const struct stream *stream, uint32_t row)
{
    return stream->member_bits[row / 64] >> row % 64 & 1;
}

static void toggle(struct stream *stream, uint32_t row)
{
    stream->member_bits[row / 64] ^= UINT64_C(1) << row % 64;
}

static uint32_t draw_new(struct stream *stream)
{
    uint32_t row;
    do
        row = (uint32_t)kvt_rng_below(&stream->rng, ROWS);
    while (is_member(stream, row));
    return row;
}

static uint32_t draw_newcomer(struct stream *stream)
{
    if (stream->left_count >= CHANGED_ROWS && kvt_rng_unit(&stream->rng) < RETURNING_FRACTION) {
        uint32_t known = stream->left_count < TOP_K ? stream->left_count : TOP_K;
        uint32_t row = stream->left[kvt_rng_below(&stream->rng, known)];
        if (!is_member(stream, row))
            return row;
    }
    return draw_new(stream);
}

static void stream_init(struct stream *stream, uint64_t entity)
{
    stream->rng = kvt_rng_stream(1, KVT_RNG_TEST, entity);
    for (uint32_t i = 0; i < TOP_K; i++) {
        stream->selected[i] = draw_new(stream);
        toggle(stream, stream->selected[i]);
    }
}

/* The next selection, ascending. */
static void stream_next(struct stream *stream, uint32_t rows[TOP_K])
{
    uint32_t count = 0;

    for (uint32_t change = 0; change < CHANGED_ROWS; change++) {
        uint32_t *place = &stream->selected[kvt_rng_below(&stream->rng, TOP_K)];
        uint32_t newcomer = draw_newcomer(stream);
        toggle(stream, *place);
        toggle(stream, newcomer);
        stream->left[stream->left_count++ % TOP_K] = *place;
        *place = newcomer;
    }
    for (uint32_t word = 0; word < ROWS / 64; word++) {
        for (uint64_t bits = stream->member_bits[word]; bits != 0; bits &= bits - 1)
            rows[count++] = word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
}

static void bench_init(struct bench *bench)
{
    struct kvt_replacement_env env = {.slot_count = SLOTS, .top_k = TOP_K};
    struct kvt_error err;

    must_be_ok(kvt_resolver_new(ROWS, SLOTS, QUERIES_MAX * TOP_K, &bench->resolver, &err), &err);
    bench->streams = must(calloc(CACHES, sizeof *bench->streams));
    bench->selections = must(calloc(CACHES, sizeof *bench->selections));
    for (uint32_t i = 0; i < CACHES; i++) {
        must_be_ok(kvt_hot_cache_new(&kvt_replacement_lru, &env, &bench->caches[i], &err), &err);
        stream_init(&bench->streams[i], i);
    }
}

static void bench_fini(struct bench *bench)
{
    for (uint32_t i = 0; i < CACHES; i++)
        kvt_hot_cache_free(bench->caches[i]);
    kvt_resolver_free(bench->resolver);
    free(bench->streams);
    free(bench->selections);
}

/* One decode step of every request: all caches once, in turn. */
static void step(struct bench *bench, struct kvt_resolve_call *call, struct tally *tally)
{
    static const uint32_t counts[QUERIES_MAX] = {TOP_K, TOP_K, TOP_K, TOP_K};
    struct kvt_resolve_result result;
    struct kvt_error err;

    for (uint32_t i = 0; i < CACHES; i++) {
        for (uint32_t query = 0; query < call->query_count; query++)
            stream_next(&bench->streams[i], bench->selections[i][query]);
    }
    struct kvt_wall start = kvt_wall_now();
    for (uint32_t i = 0; i < CACHES; i++) {
        const uint32_t *selections[QUERIES_MAX];
        for (uint32_t query = 0; query < QUERIES_MAX; query++)
            selections[query] = bench->selections[i][query];
        call->selections = selections;
        call->selection_counts = counts;
        must_be_ok(kvt_resolve(bench->resolver, bench->caches[i], call, &result, &err), &err);
        tally->selected += result.selected;
        tally->hot += result.hot_rows;
        tally->filled += result.filled_rows;
        tally->staged += result.staged_rows;
    }
    tally->ns += (uint64_t)(kvt_wall_now().ns - start.ns);
    tally->calls += CACHES;
}

static void measure(struct bench *bench, const char *name, uint32_t query_count,
                    const uint64_t *ready_bits)
{
    struct tally warm = {0}, timed = {0};
    struct kvt_resolve_call call = {.visible_rows = ROWS,
                                    .tail_first_row = ROWS - TAIL_ROWS,
                                    .rows_per_page = KVT_PAGE_ROWS,
                                    .ready_bits = ready_bits,
                                    .ready_pages = ROWS / KVT_PAGE_ROWS,
                                    .query_count = query_count};

    for (uint32_t i = 0; i < WARM_STEPS; i++, call.step++)
        step(bench, &call, &warm);
    for (uint32_t i = 0; i < TIMED_STEPS; i++, call.step++)
        step(bench, &call, &timed);
    double calls = (double)timed.calls;
    printf("{\"bench\": \"resolver\", \"case\": \"%s\", \"queries\": %" PRIu32
           ", \"top_k\": %d, \"slots\": %d, \"rows\": %d, \"caches\": %d, \"calls\": %" PRIu64
           ", \"ns_per_call\": %.0f, \"selected_rows_per_s\": %.4g, \"hot_per_call\": %.1f, "
           "\"filled_per_call\": %.1f, \"staged_per_call\": %.1f}\n",
           name, query_count, TOP_K, SLOTS, ROWS, CACHES, timed.calls, (double)timed.ns / calls,
           (double)timed.selected * 1e9 / (double)timed.ns, (double)timed.hot / calls,
           (double)timed.filled / calls, (double)timed.staged / calls);
}

int main(void)
{
    struct bench *bench = must(calloc(1, sizeof *bench));
    uint64_t half_ready[(ROWS / KVT_PAGE_ROWS + 63) / 64];

    for (size_t i = 0; i < sizeof half_ready / sizeof half_ready[0]; i++)
        half_ready[i] = UINT64_C(0xffffffff00000000);
    bench_init(bench);
    measure(bench, "hot cache alone", 1, NULL);
    measure(bench, "half of the pages ready", 1, half_ready);
    measure(bench, "hot cache alone", QUERIES_MAX, NULL);
    bench_fini(bench);
    free(bench);
    return EXIT_SUCCESS;
}
