/* test_resolver_twin.c -- the resolver against a twin written from the words of the design, over
 * random calls: every answer and the whole state agree, at every level of the processor. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kv/resolver_passes.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"
#include "support/resolver_twin.h"

extern const struct kvt_replacement_policy kvt_replacement_lru;

enum {
    ROWS_MAX = 40000,
    ROW_WORDS = (ROWS_MAX + 63) / 64,
    SLOTS_MAX = 32768,
    QUERIES_MAX = TWIN_QUERIES_MAX,
    TOP_K_MAX = 2048,
    SMALL_CASES = 80,
    SMALL_CALLS = 60,
    LARGE_CASES = 5,
    LARGE_CALLS = 4,
};

/* ---- Random requests ----------------------------------------------------------------- */

/* What stays the same over the calls of one case, and the call being made, in both forms. */
struct request {
    struct kvt_rng rng;
    uint32_t rows_max, visible_rows, tail_rows, top_k, slot_count;
    uint32_t change_percent, pages_percent;
    uint64_t step;
    bool selected[ROWS_MAX]; /* by the last query */
    bool paged[ROWS_MAX];
    int rows[QUERIES_MAX][TOP_K_MAX];
    uint64_t sets[QUERIES_MAX][ROW_WORDS];
    const uint64_t *selections[QUERIES_MAX];
    uint64_t page_rows[ROW_WORDS];
    struct twin_call twin_call;
    struct kvt_resolve_call call;
};

static uint32_t draw(struct request *request, uint32_t least, uint32_t most)
{
    return least + (uint32_t)kvt_rng_below(&request->rng, (uint64_t)most - least + 1);
}

static bool chance(struct request *request, uint32_t percent)
{
    return draw(request, 1, 100) <= percent;
}

static void request_init(struct request *request, uint64_t seed, uint32_t top_k,
                         uint32_t slot_count, uint32_t rows_max)
{
    memset(request, 0, sizeof *request);
    request->rng = kvt_rng_stream(seed, KVT_RNG_TEST, 1);
    request->top_k = top_k;
    request->slot_count = slot_count;
    request->rows_max = rows_max;
    request->visible_rows = draw(request, rows_max / 4, rows_max);
    request->tail_rows = draw(request, 0, 130);
    request->change_percent = draw(request, 0, 1) * draw(request, 0, 100) / 2 + 2;
    request->pages_percent = draw(request, 0, 2) * draw(request, 0, 50);
}

/* k in 8 .. 64, B from k to 16k, now and then below k. */
static void request_init_small(struct request *request, uint64_t seed)
{
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
    uint32_t top_k = 8 + (uint32_t)kvt_rng_below(&rng, 57);
    uint32_t factor = 1u << kvt_rng_below(&rng, 5);
    uint32_t slots = top_k * factor + (uint32_t)kvt_rng_below(&rng, top_k * factor);

    if (slots > 16 * top_k || kvt_rng_below(&rng, 4) == 0)
        slots = top_k * factor;
    if (kvt_rng_below(&rng, 8) == 0)
        slots = 1 + (uint32_t)kvt_rng_below(&rng, top_k);
    request_init(request, seed, top_k, slots, 100 + (uint32_t)kvt_rng_below(&rng, 2900));
}

/* Some rows leave, others come, until min(k, visible) are selected; mostly near each other, so
 * that words hold several. */
static void select_rows(struct request *request, uint32_t query)
{
    uint32_t visible_rows = request->visible_rows;
    uint32_t wanted = request->top_k < visible_rows ? request->top_k : visible_rows;
    uint32_t held = 0;
    struct twin_list *selection = &request->twin_call.selections[query];

    for (uint32_t row = 0; row < visible_rows; row++) {
        if (request->selected[row] && chance(request, request->change_percent))
            request->selected[row] = false;
        held += request->selected[row];
    }
    while (held < wanted) {
        uint32_t row = draw(request, 0, visible_rows - 1);
        for (uint32_t i = draw(request, 1, 4); i > 0 && row < visible_rows && held < wanted;
             i--, row++) {
            held += !request->selected[row];
            request->selected[row] = true;
        }
    }
    selection->items = request->rows[query];
    selection->count = 0;
    memset(request->sets[query], 0, sizeof request->sets[query]);
    for (uint32_t row = 0; row < visible_rows; row++) {
        if (!request->selected[row])
            continue;
        selection->items[selection->count++] = (int)row;
        request->sets[query][row / 64] |= UINT64_C(1) << row % 64;
    }
    request->selections[query] = request->sets[query];
}

/* Most pages stay what they were; of one row or of 64, by what the request drew. */
static void change_pages(struct request *request)
{
    uint32_t page_rows = 1u << request->top_k % 7;

    for (uint32_t first = 0; first < request->rows_max; first += page_rows) {
        bool leaves = chance(request, 20), comes = chance(request, request->pages_percent / 4);
        for (uint32_t row = first; row < first + page_rows && row < request->rows_max; row++)
            request->paged[row] = (request->paged[row] && !leaves) || comes;
    }
    memset(request->page_rows, 0, sizeof request->page_rows);
    for (uint32_t row = 0; row < request->rows_max; row++)
        request->page_rows[row / 64] |= (uint64_t)request->paged[row] << row % 64;
}

static void request_next(struct request *request)
{
    uint32_t grown_rows = request->visible_rows + draw(request, 0, 8);
    bool has_pages = request->pages_percent > 0 && chance(request, 90);

    request->visible_rows = grown_rows < request->rows_max ? grown_rows : request->rows_max;
    uint32_t tail_first_row =
        request->visible_rows > request->tail_rows ? request->visible_rows - request->tail_rows : 0;
    uint32_t query_count = draw(request, 1, QUERIES_MAX);
    for (uint32_t query = 0; query < query_count; query++)
        select_rows(request, query);
    change_pages(request);
    if (chance(request, 3)) /* everything is resident */
        tail_first_row = 0;
    request->call = (struct kvt_resolve_call){
        .step = request->step++,
        .visible_rows = request->visible_rows,
        .tail_first_row = tail_first_row,
        .page_rows = has_pages ? request->page_rows : NULL,
        .query_count = query_count,
        .selections = request->selections,
        .promotion = chance(request, 50) ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE,
    };
    request->twin_call.query_count = (int)query_count;
    request->twin_call.tail_first_row = (int)tail_first_row;
    request->twin_call.paged = has_pages ? request->paged : NULL;
    request->twin_call.promote_by_count = request->call.promotion == KVT_PROMOTE_BY_COUNT;
}

/* ---- Comparison -------------------------------------------------------------------------- */

struct place {
    int seed, call; /* where we are, for messages */
    const char *level;
};

/* Millions of times: Check notes every assertion in a file, so that only a failure is one. */
static void expect_number(struct place place, const char *what, uint64_t ours, uint64_t twins)
{
    if (ours != twins)
        ck_abort_msg("seed %d, call %d, %s: %s is %" PRIu64 ", the twin says %" PRIu64, place.seed,
                     place.call, place.level, what, ours, twins);
}

static void expect_list(struct place place, const char *what, const uint32_t *ours,
                        const struct twin_list *twins)
{
    for (int i = 0; i < twins->count; i++)
        expect_number(place, what, ours[i], (uint32_t)twins->items[i]);
}

static void expect_equal(struct place place, const struct kvt_resolve_result *result,
                         const struct twin_answer *answer)
{
    const struct {
        const char *what;
        uint32_t ours;
        int twins;
    } numbers[] = {
        {"tail_rows", result->tail_rows, answer->tail.count},
        {"page_rows", result->page_rows, answer->page.count},
        {"hot_rows", result->hot_rows, answer->hits.count},
        {"filled_rows", result->filled_rows, answer->fills.count},
        {"staged_rows", result->staged_rows, answer->misses.count - answer->fills.count},
        {"union_rows", result->union_rows,
         answer->tail.count + answer->page.count + answer->hits.count + answer->misses.count},
        {"tail_selected", result->tail_selected, answer->tail_selected},
        {"page_selected", result->page_selected, answer->page_selected},
        {"hot_selected", result->hot_selected, answer->hot_selected},
        {"missed_selected", result->missed_selected, answer->missed_selected},
        {"selected", result->selected,
         answer->tail_selected + answer->page_selected + answer->hot_selected +
             answer->missed_selected},
        {"promoted_rows", result->promoted_rows, answer->promoted.count},
        {"skipped", result->skipped, answer->skipped},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        expect_number(place, numbers[i].what, numbers[i].ours, (uint64_t)numbers[i].twins);
    expect_list(place, "missed", result->missed, &answer->misses);
    expect_list(place, "fills", result->fills, &answer->fills);
    expect_list(place, "evicted", result->evicted, &answer->evicted);
    expect_list(place, "promoted", result->promoted, &answer->promoted);
    expect_list(place, "promoted_slots", result->promoted_slots, &answer->promoted_slots);
}

static void expect_equal_state(struct place place, struct kvt_resolver *resolver,
                               const struct kvt_hot_cache *cache, const struct twin *twin)
{
    static uint32_t ranks[SLOTS_MAX];

    kvt_hot_cache_ranks(cache, ranks);
    for (int slot = 0; slot < twin->slot_count; slot++)
        expect_number(place, "the row in a slot", kvt_hot_cache_rows(cache)[slot],
                      (uint32_t)twin->slot_rows[slot]);
    for (int rank = 0; rank < twin->order.count; rank++)
        expect_number(place, "a rank", ranks[twin->order.items[rank]], (uint64_t)rank);
    expect_number(place, "the state hash", kvt_hot_cache_state_hash(resolver, cache),
                  twin_hash(twin));
}

/* ---- A cache for each level of the processor, and the twin -------------------------------- */

struct bench {
    struct kvt_resolver *resolvers[KVT_CPU_LEVELS]; /* NULL: not on this machine */
    struct kvt_hot_cache *caches[KVT_CPU_LEVELS];
    struct twin twin;
};

static void bench_open(struct bench *bench, const struct request *request)
{
    struct kvt_replacement_env env = {.slot_count = request->slot_count, .top_k = request->top_k};
    struct kvt_error err;

    memset(bench, 0, sizeof *bench);
    twin_init(&bench->twin, (int)request->rows_max, (int)request->slot_count);
    for (int level = 0; level <= (int)kvt_cpu_best(); level++) {
        ck_assert_int_eq(
            kvt_resolver_new(ROWS_MAX, SLOTS_MAX, ROWS_MAX, &bench->resolvers[level], &err),
            KVT_OK);
        ck_assert(kvt_resolver_set_cpu(bench->resolvers[level], (enum kvt_cpu)level));
        ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, request->rows_max,
                                           &bench->caches[level], &err),
                         KVT_OK);
    }
}

static void bench_close(struct bench *bench)
{
    for (int level = 0; level < KVT_CPU_LEVELS; level++) {
        kvt_hot_cache_free(bench->caches[level]);
        kvt_resolver_free(bench->resolvers[level]);
    }
    twin_fini(&bench->twin);
}

/* What must hold whatever the twin says; `before` is the hot cache's rows before the call. */
static void expect_rules(struct place place, const struct request *request,
                         const struct kvt_resolve_call *call, const uint64_t *before,
                         const struct kvt_resolve_result *result)
{
    static uint64_t looked_up[ROW_WORDS], wanted[ROW_WORDS];

    memset(looked_up, 0, sizeof looked_up);
    for (uint32_t query = 0; query < call->query_count; query++) {
        for (uint32_t row = 0; row < call->visible_rows && row < call->tail_first_row; row++) {
            bool looks = kvt_row_is_in(call->selections[query], row) &&
                         (call->page_rows == NULL || !kvt_row_is_in(call->page_rows, row));
            looked_up[row / 64] |= (uint64_t)looks << row % 64;
        }
    }
    for (size_t w = 0; w < ROW_WORDS; w++)
        wanted[w] = looked_up[w] & ~before[w];
    uint32_t missed_rows = result->filled_rows + result->staged_rows;
    expect_number(place, "rows that cross the link", missed_rows,
                  kvt_row_set_count(wanted, ROW_WORDS));
    for (uint32_t i = 0; i < missed_rows; i++) {
        uint32_t row = result->missed[i];
        expect_number(place, "a fetched row is missing and fetched once",
                      kvt_row_is_in(wanted, row), 1);
        wanted[row / 64] &= ~(UINT64_C(1) << row % 64);
    }
    for (uint32_t i = 0; i < result->filled_rows; i++) {
        if (result->evicted[i] != KVT_ROW_NONE)
            expect_number(place, "a query reads an evicted row",
                          kvt_row_is_in(looked_up, result->evicted[i]), 0);
    }
    expect_number(place, "staging within K k",
                  result->staged_rows <= call->query_count * request->top_k, 1);
    expect_number(place, "distinct rows", result->union_rows,
                  result->tail_rows + result->page_rows + result->hot_rows + missed_rows);
    expect_number(place, "selections", result->selected,
                  result->tail_selected + result->page_selected + result->hot_selected +
                      result->missed_selected);
}

static void resolve_and_compare(struct bench *bench, const struct request *request,
                                const struct kvt_resolve_call *call,
                                const struct twin_call *twin_call, struct place place)
{
    static uint64_t before[ROW_WORDS];
    struct kvt_resolve_result result;
    struct kvt_error err;

    memset(before, 0, sizeof before);
    for (int slot = 0; slot < bench->twin.slot_count; slot++) {
        uint32_t row = (uint32_t)bench->twin.slot_rows[slot];
        if (row != KVT_ROW_NONE)
            kvt_row_set_add(before, &row, 1);
    }
    twin_resolve(&bench->twin, twin_call);
    for (int level = 0; level < KVT_CPU_LEVELS; level++) {
        if (bench->resolvers[level] == NULL)
            continue;
        place.level = kvt_cpu_name((enum kvt_cpu)level);
        kvt_status status =
            kvt_resolve(bench->resolvers[level], bench->caches[level], call, &result, &err);
        ck_assert_msg(status == KVT_OK, "seed %d, call %d: %s", place.seed, place.call,
                      err.message);
        expect_rules(place, request, call, before, &result);
        expect_equal(place, &result, &bench->twin.answer);
        expect_equal_state(place, bench->resolvers[level], bench->caches[level], &bench->twin);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static struct request request;
static struct bench bench;

START_TEST(every_answer_and_the_state_are_the_twins)
{
    request_init_small(&request, (uint64_t)_i);
    bench_open(&bench, &request);
    for (int i = 0; i < SMALL_CALLS; i++) {
        struct place place = {.seed = _i, .call = i};
        request_next(&request);
        resolve_and_compare(&bench, &request, &request.call, &request.twin_call, place);
    }
    bench_close(&bench);
}
END_TEST

/* As vLLM and SGLang launch it where queries do not share: the cache ages between them. */
START_TEST(calls_of_one_query_each_are_resolves_in_turn)
{
    request_init_small(&request, 1000 + (uint64_t)_i);
    bench_open(&bench, &request);
    for (int i = 0; i < SMALL_CALLS / 4; i++) {
        request_next(&request);
        for (uint32_t query = 0; query < request.call.query_count; query++) {
            struct place place = {.seed = 1000 + _i, .call = i};
            struct kvt_resolve_call call = request.call;
            struct twin_call twin_call = request.twin_call;
            call.query_count = 1;
            call.selections = &request.selections[query];
            twin_call.query_count = 1;
            twin_call.selections[0] = request.twin_call.selections[query];
            resolve_and_compare(&bench, &request, &call, &twin_call, place);
        }
    }
    bench_close(&bench);
}
END_TEST

START_TEST(caches_of_full_size_are_the_twins_too)
{
    static const uint32_t slots_per_k[LARGE_CASES] = {1, 2, 3, 4, 16};

    request_init(&request, 2000 + (uint64_t)_i, TOP_K_MAX, slots_per_k[_i] * TOP_K_MAX, ROWS_MAX);
    bench_open(&bench, &request);
    for (int i = 0; i < LARGE_CALLS; i++) {
        struct place place = {.seed = 2000 + _i, .call = i};
        request_next(&request);
        resolve_and_compare(&bench, &request, &request.call, &request.twin_call, place);
    }
    bench_close(&bench);
}
END_TEST

static Suite *twin_suite(void)
{
    Suite *suite = suite_create("resolver twin");
    TCase *calls = tcase_create("random calls");

    tcase_add_loop_test(calls, every_answer_and_the_state_are_the_twins, 0, SMALL_CASES);
    tcase_add_loop_test(calls, calls_of_one_query_each_are_resolves_in_turn, 0, SMALL_CASES / 4);
    tcase_add_loop_test(calls, caches_of_full_size_are_the_twins_too, 0, LARGE_CASES);
    suite_add_tcase(suite, calls);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(twin_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
