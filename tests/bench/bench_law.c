/* bench_law.c -- what a selection costs: k = 2,048 of 100,032 rows, by scores and from tapes.
 *
 * score: one stream, step after step. tape: 2,688 streams (128 requests of 21
 * selectors) in turn, as a decode step reads them, so that caches are cold; and
 * what recording costs. One JSON line a case. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/clock.h"
#include "kvt/law.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

enum {
    ROWS = 100032,
    TOP_K = 2048,
    OUTPUT_TOKENS = 512,
    SCORE_STEPS = 400,
    SELECTORS = 21,
    TAPE_STREAMS = 128 * SELECTORS,
    TAPE_STEPS = 12,
};

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("bench_law: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void must_be_ok(kvt_status status, const struct kvt_error *err)
{
    if (status != KVT_OK) {
        (void)fprintf(stderr, "bench_law: %s: %s\n", err->where, err->message);
        exit(EXIT_FAILURE);
    }
}

static void *prepared(const struct kvt_law *law)
{
    static const uint32_t context_rows = ROWS;
    struct kvt_param_value values[32] = {{.number = 0}};
    for (size_t i = 0; i < law->info.param_count && i < 32; i++)
        values[i].number = law->info.params[i].default_number;
    struct kvt_law_env env = {.params = {.values = values, .count = law->info.param_count},
                              .top_k = TOP_K,
                              .stream_count = SELECTORS,
                              .context_rows = &context_rows,
                              .context_count = 1,
                              .output_tokens = OUTPUT_TOKENS,
                              .run_seed = 1,
                              .threads = 1};
    struct kvt_error err;
    void *data = NULL;
    must_be_ok(law->prepare(&env, &data, &err), &err);
    return data;
}

static void *stream_new(const struct kvt_law *law, void *data, uint32_t number)
{
    struct kvt_law_stream_env env = {.request = number / SELECTORS,
                                     .selector = number % SELECTORS,
                                     .context_rows = ROWS,
                                     .rows_max = ROWS + OUTPUT_TOKENS,
                                     .tokens_per_row = 1};
    struct kvt_error err;
    void *stream = must(calloc(1, law->stream_bytes(data, &env)));
    must_be_ok(law->stream_init(data, stream, &env, &err), &err);
    return stream;
}

/* All streams in turn, step after step; the checksum keeps the work alive. */
static void bench(const struct kvt_law *law, uint32_t stream_count, uint32_t steps)
{
    static uint32_t rows[TOP_K];
    struct kvt_wall start = kvt_wall_now();
    void *data = prepared(law);
    double prepare_s = kvt_wall_seconds_since(start);
    void **streams = must(calloc(stream_count, sizeof *streams));
    for (uint32_t s = 0; s < stream_count; s++)
        streams[s] = stream_new(law, data, s);

    uint64_t checksum = 0;
    start = kvt_wall_now();
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t s = 0; s < stream_count; s++) {
            (void)law->select(data, streams[s], ROWS + step, rows);
            checksum += rows[0] + (uint64_t)rows[TOP_K - 1];
        }
    }
    double calls = (double)stream_count * steps;
    double call_ns = 1e9 * kvt_wall_seconds_since(start) / calls;
    (void)printf("{\"bench\": \"law\", \"law\": \"%s\", \"rows\": %d, \"top_k\": %d, "
                 "\"streams\": %" PRIu32 ", \"ns_per_step\": %.0f, \"ns_per_selected_row\": %.3f, "
                 "\"ns_per_visible_row\": %.3f, \"prepare_s\": %.3f, \"checksum\": %" PRIu64 "}\n",
                 law->info.name, ROWS, TOP_K, stream_count, call_ns, call_ns / TOP_K,
                 call_ns / ROWS, prepare_s, checksum);
    for (uint32_t s = 0; s < stream_count; s++)
        free(streams[s]);
    free(streams);
    law->free(data);
}

int main(void)
{
    bench(&kvt_law_score, 1, SCORE_STEPS);
    bench(&kvt_law_tape, TAPE_STREAMS, TAPE_STEPS);
    return EXIT_SUCCESS;
}
