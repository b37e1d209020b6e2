/* test_router.c -- what every router holds to beside its contract (test_contract.c), and which rank
 * each picks. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/plugin_params.h"

enum {
    RANKS = 5,
    STATE_WORDS = 512
};

/* A router of the table, stood up with its defaults. */
struct bench {
    const struct kvt_router_policy *router;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    uint64_t state[STATE_WORDS];
};

static void bench_start(struct bench *bench, const struct kvt_plugin_info *info)
{
    struct kvt_error err = {0};
    *bench = (struct bench){.router = (const struct kvt_router_policy *)info};
    struct kvt_router_env env = {
        .params = support_default_params(info, bench->values),
        .rank_count = RANKS,
        .run_seed = 2385,
        .host = kvt_host(),
    };
    ck_assert_uint_le(bench->router->state_bytes(&env), sizeof bench->state);
    kvt_status status = bench->router->init(bench->state, &env, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

static void bench_named(struct bench *bench, const char *name)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_ROUTER, name, "router", &info, &err), KVT_OK);
    bench_start(bench, info);
}

static void bench_nth(struct bench *bench, int index)
{
    size_t count;
    bench_start(bench, kvt_plugin_list(NULL, KVT_PLUGIN_ROUTER, &count)[index]);
}

static uint32_t route(struct bench *bench, uint32_t request, const struct kvt_router_rank *ranks)
{
    return bench->router->route(bench->state, request, 100032, ranks, RANKS);
}

static void draw_ranks(struct kvt_rng *rng, struct kvt_router_rank ranks[RANKS])
{
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] =
            (struct kvt_router_rank){.waiting = (uint32_t)kvt_rng_below(rng, 4),
                                     .running = (uint32_t)kvt_rng_below(rng, 53),
                                     .slots = 52,
                                     .free_bytes = kvt_rng_below(rng, KVT_GIB),
                                     .prefix_hit_tokens = (uint32_t)kvt_rng_below(rng, 100032)};
    }
}

/* ---- every router ------------------------------------------------------------------ */

START_TEST(equal_ranks_get_equal_shares)
{
    struct bench bench;
    bench_nth(&bench, _i);
    struct kvt_router_rank ranks[RANKS] = {0};
    for (uint32_t request = 0; request < RANKS * 40; request++)
        ranks[route(&bench, request, ranks)].running++;
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_uint_eq(ranks[i].running, 40);
}
END_TEST

/* ---- each by itself ------------------------------------------------------------------ */

START_TEST(round_robin_takes_ranks_in_turn_whatever_their_load)
{
    struct bench bench;
    bench_named(&bench, "round-robin");
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 0);
    for (uint32_t request = 0; request < 23; request++) {
        struct kvt_router_rank ranks[RANKS];
        draw_ranks(&rng, ranks);
        ck_assert_uint_eq(route(&bench, 1000 - request, ranks), request % RANKS);
    }
}
END_TEST

START_TEST(each_picks_by_its_own_measure_and_ties_go_to_the_lower_rank)
{
    static const struct {
        uint32_t waiting[RANKS], running[RANKS];
        uint32_t least_loaded, shortest_queue;
    } rows[] = {
        {{0, 0, 0, 0, 0}, {9, 9, 9, 9, 9}, 0, 0},
        {{0, 0, 0, 0, 0}, {9, 9, 8, 9, 8}, 2, 2},
        {{3, 0, 0, 1, 0}, {1, 9, 8, 4, 8}, 0, 2},
        {{2, 4, 1, 3, 1}, {2, 0, 3, 1, 3}, 0, 2}, /* 4 requests each */
        {{1, 1, 0, 0, 0}, {0, 0, 1, 0, 0}, 3, 3},
        {{UINT32_MAX, 2, 9, 9, 9}, {UINT32_MAX, UINT32_MAX, 9, 9, 8}, 4, 1},
    };
    struct kvt_router_rank ranks[RANKS] = {0};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i].waiting = rows[_i].waiting[i];
        ranks[i].running = rows[_i].running[i];
    }
    struct bench bench;
    bench_named(&bench, "least-loaded");
    ck_assert_uint_eq(route(&bench, 0, ranks), rows[_i].least_loaded);
    bench_named(&bench, "shortest-queue");
    ck_assert_uint_eq(route(&bench, 0, ranks), rows[_i].shortest_queue);
}
END_TEST

START_TEST(least_loaded_gives_ranks_of_different_sizes_their_shares)
{
    struct kvt_router_rank ranks[RANKS] = {
        {.slots = 10}, {.slots = 40}, {.slots = 20}, {.slots = 0}, {.slots = 30}};
    static const uint32_t shares[RANKS] = {10, 40, 20, 1, 30};
    struct bench bench;
    bench_named(&bench, "least-loaded");
    for (uint32_t request = 0; request < 3 * 101; request++)
        ranks[route(&bench, request, ranks)].running++;
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_uint_eq(ranks[i].running, 3 * shares[i]);
}
END_TEST

START_TEST(least_loaded_compares_without_rounding)
{
    /* (n - 1) / (m - 1) < n / m by one part in 2^64: equal as doubles. */
    struct kvt_router_rank ranks[RANKS] = {
        {.running = UINT32_MAX - 1, .slots = UINT32_MAX},
        {.running = UINT32_MAX - 2, .slots = UINT32_MAX - 1},
        {.running = UINT32_MAX - 1, .slots = UINT32_MAX},
        {.running = 1, .slots = 1},
        {.running = UINT32_MAX, .slots = UINT32_MAX},
    };
    struct bench bench;
    bench_named(&bench, "least-loaded");
    ck_assert_uint_eq(route(&bench, 0, ranks), 1);
}
END_TEST

START_TEST(cache_aware_prefers_the_longest_hit_within_its_bound)
{
    /* Of 100,032 tokens: a match is 0.3 of them; bounds are 64 requests beyond, or 1.5 times. */
    static const struct {
        uint32_t hit_tokens[RANKS], running[RANKS];
        uint32_t choice;
    } rows[] = {
        {{0, 0, 0, 0, 0}, {9, 9, 8, 9, 8}, 2},                /* nothing is known anywhere */
        {{0, 64000, 64064, 0, 0}, {9, 9, 60, 9, 8}, 2},       /* longest, 52 requests more */
        {{0, 64064, 64064, 0, 64064}, {9, 30, 20, 9, 20}, 2}, /* equal hits: less loaded, lower */
        {{0, 0, 30016, 0, 0}, {9, 9, 20, 9, 8}, 2},           /* just a match */
        {{0, 0, 29952, 0, 0}, {9, 9, 20, 9, 8}, 4},           /* just none */
        {{0, 0, 0, 99968, 0}, {40, 40, 40, 104, 40}, 3},      /* 64 beyond */
        {{0, 0, 0, 99968, 0}, {40, 41, 40, 105, 40}, 0},      /* 65 beyond, and 2.6 times */
        {{0, 0, 0, 99968, 0}, {400, 400, 400, 600, 400}, 3},  /* 200 beyond, but 1.5 times */
        {{0, 0, 0, 99968, 99968}, {400, 400, 399, 600, 601}, 2}, /* beyond 1.5 times 399 */
    };
    struct kvt_router_rank ranks[RANKS] = {0};
    for (uint32_t i = 0; i < RANKS; i++)
        ranks[i] = (struct kvt_router_rank){.running = rows[_i].running[i],
                                            .slots = 52,
                                            .prefix_hit_tokens = rows[_i].hit_tokens[i]};
    struct bench bench;
    bench_named(&bench, "cache-aware");
    ck_assert_uint_eq(route(&bench, 0, ranks), rows[_i].choice);
}
END_TEST

START_TEST(cache_aware_measures_load_by_the_slots_of_a_rank)
{
    struct kvt_router_rank ranks[RANKS] = {
        {.running = 100, .slots = 10},
        {.running = 150, .slots = 15, .prefix_hit_tokens = 99968},
        {.running = 100, .slots = 10},
        {.running = 100, .slots = 10},
        {.running = 100, .slots = 10}};
    struct bench bench;
    bench_named(&bench, "cache-aware");
    ck_assert_uint_eq(route(&bench, 0, ranks), 1);
    ranks[1].running = 226; /* 1.5 times its share of 150, and one */
    ck_assert_uint_eq(route(&bench, 0, ranks), 0);
}
END_TEST

static Suite *router_suite(void)
{
    Suite *suite = suite_create("router");
    size_t listed;
    (void)kvt_plugin_list(NULL, KVT_PLUGIN_ROUTER, &listed);
    const int count = (int)listed;

    TCase *every = tcase_create("every_router");
    tcase_add_loop_test(every, equal_ranks_get_equal_shares, 0, count);
    suite_add_tcase(suite, every);

    TCase *each = tcase_create("each_by_itself");
    tcase_add_test(each, round_robin_takes_ranks_in_turn_whatever_their_load);
    tcase_add_loop_test(each, each_picks_by_its_own_measure_and_ties_go_to_the_lower_rank, 0, 6);
    tcase_add_test(each, least_loaded_gives_ranks_of_different_sizes_their_shares);
    tcase_add_test(each, least_loaded_compares_without_rounding);
    tcase_add_loop_test(each, cache_aware_prefers_the_longest_hit_within_its_bound, 0, 9);
    tcase_add_test(each, cache_aware_measures_load_by_the_slots_of_a_rank);
    suite_add_tcase(suite, each);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(router_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
