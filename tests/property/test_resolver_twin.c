/* test_resolver_twin.c -- the resolver against a twin written from the words of the design, over
 * random calls: every answer and the whole state agree, at every level of the processor. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kv/resolver_passes.h"
#include "kvt/plugin.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"
#include "support/plugin_params.h"
#include "support/random_calls.h"

enum {
    ROWS_MAX = RANDOM_ROWS_MAX,
    ROW_WORDS = RANDOM_ROW_WORDS,
    SLOTS_MAX = 16 * RANDOM_TOP_K_MAX,
    SMALL_CASES = 40,
    SMALL_CALLS = 60,
    LARGE_CASES = 5,
    LARGE_CALLS = 4,
};

/* k in 8 .. 64, B from k to 16k, now and then below k. */
static void request_init_small(struct random_calls *request, uint64_t seed)
{
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
    uint32_t top_k = 8 + (uint32_t)kvt_rng_below(&rng, 57);
    uint32_t factor = 1u << kvt_rng_below(&rng, 5);
    uint32_t slots = top_k * factor + (uint32_t)kvt_rng_below(&rng, top_k * factor);

    if (slots > 16 * top_k || kvt_rng_below(&rng, 4) == 0)
        slots = top_k * factor;
    if (kvt_rng_below(&rng, 8) == 0)
        slots = 1 + (uint32_t)kvt_rng_below(&rng, top_k);
    random_calls_init(request, seed, top_k, slots, 100 + (uint32_t)kvt_rng_below(&rng, 2900));
}

/* ---- Comparison -------------------------------------------------------------------------- */

struct place {
    const char *policy; /* where we are, for messages */
    int seed, call;
    const char *level;
};

/* Millions of times: Check notes every assertion in a file, so that only a failure is one. */
static void expect_number(struct place place, const char *what, uint64_t ours, uint64_t twins)
{
    if (ours != twins)
        ck_abort_msg("%s, seed %d, call %d, %s: %s is %" PRIu64 ", the twin says %" PRIu64,
                     place.policy, place.seed, place.call, place.level, what, ours, twins);
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

static void bench_open(struct bench *bench, enum twin_policy policy,
                       const struct random_calls *request)
{
    struct kvt_replacement_env env = {
        .slot_count = request->slot_count, .top_k = request->top_k, .host = kvt_host()};
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    const struct kvt_plugin_info *info;
    struct kvt_error err;

    memset(bench, 0, sizeof *bench);
    twin_init(&bench->twin, policy, (int)request->rows_max, (int)request->slot_count);
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, twin_policy_name(policy), "twin",
                                     &info, &err),
                     KVT_OK);
    env.params = support_default_params(info, values);
    for (int level = 0; level <= (int)kvt_cpu_best(); level++) {
        ck_assert_int_eq(
            kvt_resolver_new(ROWS_MAX, SLOTS_MAX, ROWS_MAX, &bench->resolvers[level], &err),
            KVT_OK);
        ck_assert(kvt_resolver_set_cpu(bench->resolvers[level], (enum kvt_cpu)level));
        ck_assert_int_eq(
            kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)info, &env,
                              request->rows_max, &bench->caches[level], &err),
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
static void expect_rules(struct place place, const struct random_calls *request,
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

/* A future as good as any for each slot, few calls away, so that many are equal. */
static void draw_next_use(const struct twin *twin, struct place place, uint32_t *next_use)
{
    for (int slot = 0; slot < twin->slot_count; slot++) {
        uint64_t drawn = twin_chain((uint64_t)place.call, (uint64_t)slot) % 23;
        next_use[slot] =
            drawn == 0 || twin->slot_rows[slot] == TWIN_EMPTY ? KVT_CALL_NEVER : (uint32_t)drawn;
    }
}

static void resolve_and_compare(struct bench *bench, const struct random_calls *request,
                                struct kvt_resolve_call *call, struct twin_call *twin_call,
                                struct place place)
{
    static uint64_t before[ROW_WORDS];
    static uint32_t next_use[SLOTS_MAX];
    struct kvt_resolve_result result;
    struct kvt_error err;

    draw_next_use(&bench->twin, place, next_use);
    call->next_use = twin_call->next_use = next_use;
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
        ck_assert_msg(status == KVT_OK, "%s, seed %d, call %d: %s", place.policy, place.seed,
                      place.call, err.message);
        expect_rules(place, request, call, before, &result);
        expect_equal(place, &result, &bench->twin.answer);
        expect_number(place, "placed_hash", result.placed_hash, twin_placed_hash(&bench->twin));
        expect_equal_state(place, bench->resolvers[level], bench->caches[level], &bench->twin);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static struct random_calls request;
static struct bench bench;

/* The policies take turns over a loop test's cases. */
static enum twin_policy policy_of(int loop)
{
    return (enum twin_policy)(loop % TWIN_POLICIES);
}

static struct place place_of(int loop, int first_seed)
{
    return (struct place){.policy = twin_policy_name(policy_of(loop)),
                          .seed = first_seed + loop / TWIN_POLICIES};
}

START_TEST(every_answer_and_the_state_are_the_twins)
{
    struct place place = place_of(_i, 0);

    request_init_small(&request, (uint64_t)place.seed);
    bench_open(&bench, policy_of(_i), &request);
    for (place.call = 0; place.call < SMALL_CALLS; place.call++) {
        random_calls_next(&request);
        resolve_and_compare(&bench, &request, &request.call, &request.twin_call, place);
    }
    bench_close(&bench);
}
END_TEST

/* As vLLM and SGLang launch it where queries do not share: the cache ages between them. */
START_TEST(calls_of_one_query_each_are_resolves_in_turn)
{
    struct place place = place_of(_i, 1000);

    request_init_small(&request, (uint64_t)place.seed);
    bench_open(&bench, policy_of(_i), &request);
    for (place.call = 0; place.call < SMALL_CALLS / 4; place.call++) {
        random_calls_next(&request);
        for (uint32_t query = 0; query < request.call.query_count; query++) {
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
    struct place place = place_of(_i, 2000);

    if (policy_of(_i) >= TWIN_LFU && slots_per_k[_i / TWIN_POLICIES] > 2)
        return; /* its lists are looked through for each row: too slow */
    random_calls_init(&request, (uint64_t)place.seed, RANDOM_TOP_K_MAX,
                      slots_per_k[_i / TWIN_POLICIES] * RANDOM_TOP_K_MAX, ROWS_MAX);
    bench_open(&bench, policy_of(_i), &request);
    for (place.call = 0; place.call < LARGE_CALLS; place.call++) {
        random_calls_next(&request);
        resolve_and_compare(&bench, &request, &request.call, &request.twin_call, place);
    }
    bench_close(&bench);
}
END_TEST

static Suite *twin_suite(void)
{
    Suite *suite = suite_create("resolver twin");
    TCase *calls = tcase_create("random calls");

    tcase_add_loop_test(calls, every_answer_and_the_state_are_the_twins, 0,
                        SMALL_CASES * TWIN_POLICIES);
    tcase_add_loop_test(calls, calls_of_one_query_each_are_resolves_in_turn, 0,
                        SMALL_CASES / 4 * TWIN_POLICIES);
    tcase_add_loop_test(calls, caches_of_full_size_are_the_twins_too, 0,
                        LARGE_CASES * TWIN_POLICIES);
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
