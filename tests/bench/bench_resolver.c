/* bench_resolver.c -- what one resolve costs when caches are resolved in turn, as a decode step
 * does: k = 2,048, B = 2k, 100,032 rows, 128 requests of 21 stores.
 *
 * Selections are synthetic: 32 % of a selection's rows change from one query to the next, and of
 * the newcomers 56 % had left not long ago, so that a cache of 2k slots misses about 14 % of the
 * selected rows. A call's sets are written just before it, as a law does, and only the call is
 * timed: the sets are warm, the cache is cold. A repetition is one decode step, every cache once,
 * and counts with its median call, so that calls which other programs interrupted do not; printed
 * are the median of the steps and the least, one JSON line a case.
 *
 *     bench_resolver [POLICY ..]     all cases, or those of some policies
 *
 * Policies that see the future are shown one that is drawn once for all: what it says makes no
 * difference to the time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/resolver_passes.h"
#include "kvt/clock.h"
#include "kvt/plugin.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"

enum {
    ROWS = 100032,
    ROW_WORDS = ROWS / 64,
    TAIL_ROWS = 64,
    TOP_K = 2048,
    SLOTS = 2 * TOP_K,
    CHANGED_ROWS = TOP_K * 32 / 100,
    CACHES = 128 * 21,
    QUERIES_MAX = 8,
    PARAMS_MAX = 8,
    WARM_STEPS = 6,
    TIMED_STEPS = 9,
};
#define RETURNING_FRACTION 0.56

/* A selection that drifts, and the rows that left it, newest last in a ring. */
struct stream {
    struct kvt_rng rng;
    uint32_t selected[TOP_K], left[TOP_K];
    uint32_t left_count;
    uint64_t member_bits[ROW_WORDS];
};

struct bench {
    struct kvt_resolver *resolver;
    const char *policy; /* of the caches; NULL: there are none yet */
    struct kvt_hot_cache *caches[CACHES];
    struct stream *streams; /* [CACHES] */
    uint64_t selections[QUERIES_MAX][ROW_WORDS];
    uint32_t next_use[SLOTS];
    double call_ns[CACHES]; /* of the last step */
};

struct tally {
    uint64_t selected, hot, filled, staged;
};

struct setting {
    const char *name;
    uint32_t queries;
    enum kvt_cpu cpu;
    const uint64_t *page_rows;
    const char *policy;
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
        (void)fprintf(stderr, "bench_resolver: %s: %s\n", err->where, err->message);
        exit(EXIT_FAILURE);
    }
}

/* ---- Selections -------------------------------------------------------------- */

static void toggle(struct stream *stream, uint32_t row)
{
    stream->member_bits[row / 64] ^= UINT64_C(1) << row % 64;
}

static uint32_t draw_new(struct stream *stream)
{
    uint32_t row;
    do
        row = (uint32_t)kvt_rng_below(&stream->rng, ROWS);
    while (kvt_row_is_in(stream->member_bits, row));
    return row;
}

static uint32_t draw_newcomer(struct stream *stream)
{
    if (stream->left_count >= CHANGED_ROWS && kvt_rng_unit(&stream->rng) < RETURNING_FRACTION) {
        uint32_t known = stream->left_count < TOP_K ? stream->left_count : TOP_K;
        uint32_t row = stream->left[kvt_rng_below(&stream->rng, known)];
        if (!kvt_row_is_in(stream->member_bits, row))
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

static void stream_next(struct stream *stream, uint64_t *selection)
{
    for (uint32_t change = 0; change < CHANGED_ROWS; change++) {
        uint32_t *place = &stream->selected[kvt_rng_below(&stream->rng, TOP_K)];
        uint32_t newcomer = draw_newcomer(stream);
        toggle(stream, *place);
        toggle(stream, newcomer);
        stream->left[stream->left_count++ % TOP_K] = *place;
        *place = newcomer;
    }
    for (uint32_t word = 0; word < ROW_WORDS; word++)
        selection[word] = stream->member_bits[word];
}

/* ---- Measurement --------------------------------------------------------------- */

static void bench_init(struct bench *bench)
{
    struct kvt_error err;

    must_be_ok(kvt_resolver_new(ROWS, SLOTS, QUERIES_MAX * TOP_K, &bench->resolver, &err), &err);
    bench->streams = must(calloc(CACHES, sizeof *bench->streams));
    for (uint32_t i = 0; i < CACHES; i++)
        stream_init(&bench->streams[i], i);
    struct kvt_rng rng = kvt_rng_stream(2, KVT_RNG_TEST, 0);
    for (kvt_slot slot = 0; slot < SLOTS; slot++) {
        uint32_t calls = 1 + (uint32_t)kvt_rng_below(&rng, 2 * KVT_LOOK_AHEAD_CALLS);
        bench->next_use[slot] = calls <= KVT_LOOK_AHEAD_CALLS ? calls : KVT_CALL_NEVER;
    }
}

/* Of choices the first is the default of those there are. */
static struct kvt_params default_params(const struct kvt_plugin_info *info,
                                        struct kvt_param_value values[PARAMS_MAX])
{
    for (size_t i = 0; i < info->param_count && i < PARAMS_MAX; i++)
        values[i] = (struct kvt_param_value){.number = info->params[i].default_number};
    return (struct kvt_params){.values = values, .count = info->param_count};
}

/* Empty caches under another policy. */
static void change_policy(struct bench *bench, const char *policy)
{
    struct kvt_replacement_env env = {.slot_count = SLOTS, .top_k = TOP_K, .host = kvt_host()};
    struct kvt_param_value values[PARAMS_MAX];
    const struct kvt_plugin_info *info;
    struct kvt_error err;

    must_be_ok(kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, policy, "policy", &info, &err), &err);
    env.params = default_params(info, values);
    for (uint32_t i = 0; i < CACHES; i++) {
        env.entity = i;
        kvt_hot_cache_free(bench->caches[i]);
        bench->caches[i] = NULL;
        must_be_ok(kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)info,
                                     &env, ROWS, &bench->caches[i], &err),
                   &err);
    }
    bench->policy = policy;
}

static void bench_fini(struct bench *bench)
{
    for (uint32_t i = 0; i < CACHES; i++)
        kvt_hot_cache_free(bench->caches[i]);
    kvt_resolver_free(bench->resolver);
    free(bench->streams);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_value);
    return values[count / 2];
}

/* One decode step of every request: all caches once, in turn. Returns its median call. */
static double step(struct bench *bench, struct kvt_resolve_call *call, struct tally *tally)
{
    const uint64_t *selections[QUERIES_MAX];
    struct kvt_resolve_result result;
    struct kvt_error err;

    for (uint32_t query = 0; query < QUERIES_MAX; query++)
        selections[query] = bench->selections[query];
    call->selections = selections;
    *tally = (struct tally){0};
    for (uint32_t i = 0; i < CACHES; i++) {
        for (uint32_t query = 0; query < call->query_count; query++)
            stream_next(&bench->streams[i], bench->selections[query]);
        struct kvt_wall start = kvt_wall_now();
        must_be_ok(kvt_resolve(bench->resolver, bench->caches[i], call, &result, &err), &err);
        bench->call_ns[i] = (double)(kvt_wall_now().ns - start.ns);
        tally->selected += result.selected;
        tally->hot += result.hot_rows;
        tally->filled += result.filled_rows;
        tally->staged += result.staged_rows;
    }
    call->step++;
    return median(bench->call_ns, CACHES);
}

static void measure(struct bench *bench, const struct setting *setting)
{
    struct kvt_resolve_call call = {.visible_rows = ROWS,
                                    .tail_first_row = ROWS - TAIL_ROWS,
                                    .page_rows = setting->page_rows,
                                    .query_count = setting->queries,
                                    .next_use = bench->next_use};
    double step_ns[TIMED_STEPS];
    struct tally tally;

    if (!kvt_resolver_set_cpu(bench->resolver, setting->cpu))
        return;
    if (bench->policy == NULL || strcmp(bench->policy, setting->policy) != 0)
        change_policy(bench, setting->policy);
    for (uint32_t i = 0; i < WARM_STEPS; i++)
        (void)step(bench, &call, &tally);
    for (uint32_t i = 0; i < TIMED_STEPS; i++)
        step_ns[i] = step(bench, &call, &tally);
    double call_ns = median(step_ns, TIMED_STEPS), calls = CACHES;
    (void)printf(
        "{\"bench\": \"resolver\", \"case\": \"%s\", \"policy\": \"%s\", \"level\": "
        "\"%s\", \"queries\": %" PRIu32
        ", \"top_k\": %d, \"slots\": %d, \"rows\": %d, \"caches\": %d, \"steps\": %d, "
        "\"ns_per_call\": %.0f, \"ns_per_call_least\": %.0f, "
        "\"ns_per_selected_row\": %.3g, \"selected_rows_per_s\": %.4g, \"hot_per_call\": %.1f, "
        "\"filled_per_call\": %.1f, \"staged_per_call\": %.1f}\n",
        setting->name, setting->policy, kvt_cpu_name(setting->cpu), setting->queries, TOP_K, SLOTS,
        ROWS, CACHES, TIMED_STEPS, call_ns, step_ns[0], call_ns * calls / (double)tally.selected,
        (double)tally.selected / calls * 1e9 / call_ns, (double)tally.hot / calls,
        (double)tally.filled / calls, (double)tally.staged / calls);
    (void)fflush(stdout);
}

static bool is_asked_for(const char *policy, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], policy) == 0)
            return true;
    }
    return argc < 2;
}

int main(int argc, char **argv)
{
    static uint64_t half_of_pages[ROW_WORDS];
    struct bench *bench = must(calloc(1, sizeof *bench));
    const enum kvt_cpu best = kvt_cpu_best();

    for (uint32_t page = 0; page < ROW_WORDS; page++)
        half_of_pages[page] = page % 64 < 32 ? 0 : UINT64_MAX;
    const struct setting settings[] = {
        {"hot cache alone", 1, best, NULL, "lru"},
        {"half of the pages ready", 1, best, half_of_pages, "lru"},
        {"hot cache alone", 4, best, NULL, "lru"},
        {"half of the pages ready", 4, best, half_of_pages, "lru"},
        {"hot cache alone", 8, best, NULL, "lru"},
        {"hot cache alone", 1, KVT_CPU_PLAIN, NULL, "lru"},
        {"hot cache alone", 4, KVT_CPU_PLAIN, NULL, "lru"},
        {"hot cache alone", 1, KVT_CPU_AVX2, NULL, "lru"},
        {"hot cache alone", 4, KVT_CPU_AVX2, NULL, "lru"},
    };
    size_t policies = 0;
    const struct kvt_plugin_info *const *list =
        kvt_plugin_list(NULL, KVT_PLUGIN_REPLACEMENT, &policies);
    bench_init(bench);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (is_asked_for(settings[i].policy, argc, argv))
            measure(bench, &settings[i]);
    }
    for (size_t p = 0; p < policies; p++) {
        struct setting setting = {"hot cache alone", 8, best, NULL, list[p]->name};
        if (strcmp(setting.policy, "lru") == 0 || !is_asked_for(setting.policy, argc, argv))
            continue;
        measure(bench, &setting);
        setting.queries = 1;
        measure(bench, &setting);
    }
    bench_fini(bench);
    free(bench);
    return EXIT_SUCCESS;
}
