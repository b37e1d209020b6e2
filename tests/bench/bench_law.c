/* bench_law.c -- what selections cost: k = 2,048 of 100,032 rows, by scores and from tapes.
 *
 *     bench_law [ROUNDS]
 *
 * score: one stream, token after token. tape: 2,688 streams (128 requests of 21 selectors) in
 * turn, as a decode step reads them, so that caches are cold; rounds of 1, 4 and 8 queries of
 * which 1, 2 and 3 are committed. Recording is timed on one thread and on two. The least and
 * the median of ROUNDS passes (7) over all streams; one JSON line a case. */
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
    OUTPUT_TOKENS = 2120,
    SELECTORS = 21,
    TAPE_STREAMS = 128 * SELECTORS,
    QUERIES_MAX = 8,
    PASSES_MAX = 100,
    WORDS = (ROWS + PASSES_MAX * QUERIES_MAX + 63) / 64,
    PARAMS_MAX = 64,
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

static void *prepared(const struct kvt_law *law, uint32_t queries, unsigned threads)
{
    static const uint32_t context_rows = ROWS;
    struct kvt_param_value values[PARAMS_MAX] = {{.number = 0}};
    for (size_t i = 0; i < law->info.param_count && i < PARAMS_MAX; i++) {
        if (law->info.params[i].type != KVT_PARAM_CHOICE) /* whose first is the default */
            values[i].number = law->info.params[i].default_number;
    }
    struct kvt_law_env env = {.params = {.values = values, .count = law->info.param_count},
                              .top_k = TOP_K,
                              .stream_count = SELECTORS,
                              .side_paths = queries > 1,
                              .side_tokens = queries - 1,
                              .context_rows = &context_rows,
                              .context_count = 1,
                              .output_tokens = OUTPUT_TOKENS,
                              .run_seed = 1,
                              .threads = threads,
                              .all_streams = true};
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

/* Every stream's next round, `first_rows` visible to its first query; the sum keeps the work
 * alive. */
static uint64_t ask_all(const struct kvt_law *law, void *data, void *const *streams,
                        uint32_t stream_count, uint32_t first_rows, uint32_t query_count,
                        uint32_t committed)
{
    static uint64_t memory[QUERIES_MAX][WORDS];
    uint64_t *sets[QUERIES_MAX];
    struct kvt_law_query queries[QUERIES_MAX];
    uint32_t visible[QUERIES_MAX];
    for (uint32_t q = 0; q < query_count; q++) {
        bool is_rejected = q >= committed;
        queries[q] = (struct kvt_law_query){
            .depth = q, .path = is_rejected, .fork = is_rejected ? committed : 0};
        visible[q] = first_rows + q;
        sets[q] = memory[q];
    }
    struct kvt_law_round round = {.queries = queries,
                                  .query_count = query_count,
                                  .committed_tokens = committed,
                                  .visible_rows = visible};
    uint64_t sum = 0;
    for (uint32_t s = 0; s < stream_count; s++) {
        law->select(data, streams[s], &round, sets);
        sum += sets[query_count - 1][first_rows / 128];
    }
    return sum;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const struct kvt_law *law, uint32_t stream_count, uint32_t passes,
                  uint32_t query_count, uint32_t committed, unsigned threads)
{
    struct kvt_wall start = kvt_wall_now();
    void *data = prepared(law, query_count, threads);
    double prepare_s = kvt_wall_seconds_since(start);
    void **streams = must(calloc(stream_count, sizeof *streams));
    for (uint32_t s = 0; s < stream_count; s++)
        streams[s] = stream_new(law, data, s);

    double pass_ns[PASSES_MAX] = {0};
    uint64_t checksum = 0;
    for (uint32_t pass = 0; pass < passes; pass++) {
        start = kvt_wall_now();
        checksum += ask_all(law, data, streams, stream_count, ROWS + pass * committed, query_count,
                            committed);
        pass_ns[pass] = 1e9 * kvt_wall_seconds_since(start) / stream_count;
    }
    qsort(pass_ns, passes, sizeof pass_ns[0], compare_numbers);
    char text[256];
    law->describe(data, text, sizeof text);
    (void)printf("{\"bench\": \"law\", \"law\": \"%s\", \"rows\": %d, \"top_k\": %d, \"streams\": "
                 "%" PRIu32 ", \"queries\": %" PRIu32 ", \"committed\": %" PRIu32
                 ", \"round_ns_min\": %.0f, \"round_ns_median\": %.0f, "
                 "\"selected_rows_per_s\": %.4g, \"prepare_s\": %.2f, \"threads\": %u, "
                 "\"checksum\": %" PRIu64 ", \"about\": \"%s\"}\n",
                 law->info.name, ROWS, TOP_K, stream_count, query_count, committed, pass_ns[0],
                 pass_ns[passes / 2], 1e9 * TOP_K * query_count / pass_ns[0], prepare_s, threads,
                 checksum, text);
    (void)fflush(stdout);
    for (uint32_t s = 0; s < stream_count; s++)
        free(streams[s]);
    free(streams);
    law->free(data);
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? strtol(argv[1], NULL, 10) : 7;
    if (passes < 1 || passes > PASSES_MAX) {
        (void)fprintf(stderr, "bench_law: 1 to %d passes are expected\n", PASSES_MAX);
        return EXIT_FAILURE;
    }
    bench(&kvt_law_score, 1, 100, 1, 1, 1);
    bench(&kvt_law_tape, TAPE_STREAMS, (uint32_t)passes, 1, 1, 1);
    bench(&kvt_law_tape, TAPE_STREAMS, (uint32_t)passes, 1, 1, 2);
    bench(&kvt_law_tape, TAPE_STREAMS, (uint32_t)passes, 4, 2, 2);
    bench(&kvt_law_tape, TAPE_STREAMS, (uint32_t)passes, 8, 3, 2);
    return EXIT_SUCCESS;
}
