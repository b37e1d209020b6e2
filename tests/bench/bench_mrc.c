/* bench_mrc.c -- how fast miss curves are counted: 1e8 selected rows, k = 2,048 of 100,000.
 *
 * 25 requests of one selector, 1,954 tokens each. Selections are synthetic: 32 % of a selection's
 * rows change from one token to the next, and of the newcomers 56 % had left not long ago. The file
 * is written first, and not timed; what is timed is all that the command does with it: opening it,
 * which checks it, and counting, which decodes it again. One thread, processor time. A line a case:
 * all of LRU's sizes by rows in one pass, then each policy by calls, B/k = 2.
 *
 *     bench_mrc                           the table
 *     bench_mrc FILE REQUESTS SELECTORS TOKENS    writes such a file, of any size, and ends */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/trace/mrc.h"
#include "kvt/file.h"
#include "kvt/rng.h"

enum {
    TOP_K = 2048,
    FIRST_ROWS = 100000,
    CHANGED_ROWS = TOP_K * 32 / 100,
    REQUESTS = 25,
    TOKENS = 1954,
};
#define RETURNING_FRACTION 0.56

static void must_be_ok(kvt_status status, const struct kvt_error *err)
{
    if (status == KVT_OK)
        return;
    (void)fprintf(stderr, "bench_mrc: %s: %s\n", err->where, err->message);
    exit(EXIT_FAILURE);
}

/* ---- A file -------------------------------------------------------------------------------- */

/* A selection that drifts, and the rows that left it, newest last in a ring. */
struct drift {
    struct kvt_rng rng;
    uint32_t selected[TOP_K], left[TOP_K];
    uint32_t left_count;
    uint64_t *set; /* [words] */
    size_t words;
};

static void toggle(struct drift *drift, uint32_t row)
{
    drift->set[row / 64] ^= UINT64_C(1) << row % 64;
}

static uint32_t draw_newcomer(struct drift *drift, uint32_t visible)
{
    if (drift->left_count >= CHANGED_ROWS && kvt_rng_unit(&drift->rng) < RETURNING_FRACTION) {
        uint32_t known = drift->left_count < TOP_K ? drift->left_count : TOP_K;
        uint32_t row = drift->left[kvt_rng_below(&drift->rng, known)];
        if (!kvt_row_is_in(drift->set, row))
            return row;
    }
    uint32_t row;
    do
        row = (uint32_t)kvt_rng_below(&drift->rng, visible);
    while (kvt_row_is_in(drift->set, row));
    return row;
}

static void begin(struct drift *drift, uint64_t entity)
{
    memset(drift->set, 0, drift->words * sizeof *drift->set);
    drift->rng = kvt_rng_stream(1, KVT_RNG_TEST, entity);
    drift->left_count = 0;
    for (uint32_t i = 0; i < TOP_K; i++) {
        drift->selected[i] = draw_newcomer(drift, FIRST_ROWS);
        toggle(drift, drift->selected[i]);
    }
}

static void change(struct drift *drift, uint32_t visible)
{
    for (uint32_t i = 0; i < CHANGED_ROWS; i++) {
        uint32_t *place = &drift->selected[kvt_rng_below(&drift->rng, TOP_K)];
        uint32_t newcomer = draw_newcomer(drift, visible);
        toggle(drift, *place);
        toggle(drift, newcomer);
        drift->left[drift->left_count++ % TOP_K] = *place;
        *place = newcomer;
    }
}

static void write_stream(struct kvt_kvsel_writer *writer, const struct kvt_kvsel_shape *shape,
                         uint32_t stream, uint32_t tokens, struct drift *drift)
{
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(shape);
    struct kvt_error err = {.message = "out of memory"};
    must_be_ok(coder != NULL ? KVT_OK : KVT_ERR_NOMEM, &err);
    begin(drift, stream);
    for (uint32_t first = 0; first < tokens; first += KVT_KVSEL_BLOCK_TOKENS) {
        uint32_t count =
            tokens - first < KVT_KVSEL_BLOCK_TOKENS ? tokens - first : KVT_KVSEL_BLOCK_TOKENS;
        unsigned char *block = NULL;
        must_be_ok(kvt_kvsel_coder_begin(coder, stream, first, count, &err), &err);
        for (uint32_t t = 0; t < count; t++) {
            must_be_ok(kvt_kvsel_coder_add(coder, drift->set, NULL, drift->words, &err), &err);
            change(drift, kvt_kvsel_visible(shape, first + t));
        }
        must_be_ok(kvt_kvsel_coder_finish(coder, &block, &err), &err);
        must_be_ok(kvt_kvsel_put(writer, block, &err), &err);
        free(block);
    }
    kvt_kvsel_coder_free(coder);
}

static void write_file(const char *path, uint32_t requests, uint32_t selectors, uint32_t tokens)
{
    struct kvt_kvsel_header header = {
        .top_k = TOP_K, .request_count = requests, .selector_count = selectors};
    struct kvt_kvsel_shape shape = {.top_k = TOP_K, .first_rows = FIRST_ROWS, .tokens_per_row = 1};
    struct drift drift = {.words = kvt_row_words(FIRST_ROWS + tokens)};
    struct kvt_kvsel_shape *shapes = calloc((size_t)requests * selectors, sizeof *shapes);
    struct kvt_kvsel_writer *writer = NULL;
    struct kvt_error err = {.message = "out of memory"};
    drift.set = malloc(drift.words * sizeof *drift.set);
    must_be_ok(drift.set != NULL && shapes != NULL ? KVT_OK : KVT_ERR_NOMEM, &err);
    for (uint32_t s = 0; s < requests * selectors; s++)
        shapes[s] = shape;
    must_be_ok(kvt_kvsel_create(path, &header, shapes, &writer, &err), &err);
    for (uint32_t s = 0; s < requests * selectors; s++)
        write_stream(writer, &shape, s, tokens, &drift);
    must_be_ok(kvt_kvsel_commit(writer, &err), &err);
    free(drift.set);
    free(shapes);
}

/* ---- What is timed --------------------------------------------------------------------------- */

/* Of this process: other programs may run beside it. */
static double processor_seconds(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static double count(const char *path, const struct mrc_plan *plan, struct mrc_counts *counts)
{
    struct kvt_error err;
    struct mrc_file file;
    double start = processor_seconds();
    memset(counts, 0, sizeof *counts);
    must_be_ok(mrc_file_open(path, NULL, NULL, &file, &err), &err);
    if (plan->policy_count > 0)
        must_be_ok(mrc_run(plan, &file, 1, counts, &err), &err);
    mrc_file_close(&file);
    return processor_seconds() - start;
}

static void print_case(const char *stream, const char *policy, size_t sizes, double seconds,
                       uint64_t selected, double miss_ratio)
{
    printf("{\"stream\": \"%s\", \"policy\": \"%s\", \"sizes\": %zu, \"selected\": %llu, "
           "\"seconds\": %.3f, \"m_rows_per_s\": %.1f, \"miss_ratio\": %.6f}\n",
           stream, policy, sizes, (unsigned long long)selected, seconds,
           (double)selected / seconds / 1e6, miss_ratio);
    (void)fflush(stdout);
}

static void run_cases(const char *path)
{
    static struct mrc_policy policies[MRC_POLICIES_MAX];
    static struct mrc_counts counts;
    struct kvt_error err;
    size_t policy_count = 0;
    struct mrc_plan plan = {
        .stream = MRC_ROWS,
        .policies = policies,
        .slots = {TOP_K, TOP_K * 3 / 2, TOP_K * 2, TOP_K * 3, TOP_K * 4, TOP_K * 8, TOP_K * 16},
        .size_count = 7,
        .to_token = UINT32_MAX,
        .memory_bytes = UINT64_C(1) << 32,
        .threads = 1,
        .quiet = true};
    const uint64_t selected = (uint64_t)REQUESTS * TOKENS * TOP_K;
    struct kvt_arena *arena = kvt_arena_new(0);
    if (arena == NULL)
        must_be_ok(kvt_fail_nomem(&err, "a bench"), &err);
    print_case("none", "read and checked", 0, count(path, &plan, &counts), selected, 0);
    must_be_ok(mrc_policies_find("lru", arena, policies, &plan.policy_count, &err), &err);
    double seconds = count(path, &plan, &counts);
    print_case("rows", "lru", 7, seconds, selected,
               (double)counts.missed[0][2] / (double)counts.selected);
    plan.stream = MRC_CALLS;
    plan.slots[0] = 2 * TOP_K;
    plan.size_count = 1;
    must_be_ok(mrc_policies_find("all", arena, policies, &policy_count, &err), &err);
    plan.policy_count = 1;
    for (size_t p = 0; p < policy_count; p++) {
        plan.policies = &policies[p];
        seconds = count(path, &plan, &counts);
        print_case("calls", policies[p].table->info.name, 1, seconds, selected,
                   (double)counts.missed[0][0] / (double)counts.selected);
    }
    kvt_arena_free(arena);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/kvtide-bench-mrc-XXXXXX", path[64];
    if (argc == 5) {
        write_file(argv[1], (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
                   (uint32_t)atoi(argv[4]));
        return EXIT_SUCCESS;
    }
    if (mkdtemp(folder) == NULL) {
        (void)fprintf(stderr, "bench_mrc: %s cannot be made\n", folder);
        return EXIT_FAILURE;
    }
    (void)snprintf(path, sizeof path, "%s/drift.kvsel", folder);
    write_file(path, REQUESTS, 1, TOKENS);
    run_cases(path);
    (void)remove(path);
    (void)remove(folder);
    return EXIT_SUCCESS;
}
