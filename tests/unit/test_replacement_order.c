/* test_replacement_order.c -- replacement policies on small traces that were done by hand, and on
 * streams of one row a call, where they are the textbook's. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/plugin.h"
#include "kvt/resolver.h"
#include "kvt/rng.h"

enum {
    ROWS = 256,
    ROW_WORDS = ROWS / 64,
    SLOTS_MAX = 64,
    QUERIES_MAX = 3
};

/* ---- A cache under a policy ---------------------------------------------------------------- */

struct bench {
    struct kvt_resolver *resolver;
    struct kvt_hot_cache *cache;
};

static struct bench bench_open(const char *policy, uint32_t slot_count)
{
    struct kvt_replacement_env env = {.slot_count = slot_count, .top_k = 1};
    const struct kvt_plugin_info *info;
    struct bench bench;
    struct kvt_error err;

    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, policy, "test", &info, &err),
                     KVT_OK);
    ck_assert_int_eq(kvt_resolver_new(ROWS, SLOTS_MAX, ROWS, &bench.resolver, &err), KVT_OK);
    ck_assert_int_eq(kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)info,
                                       &env, ROWS, &bench.cache, &err),
                     KVT_OK);
    return bench;
}

static void bench_close(struct bench *bench)
{
    kvt_hot_cache_free(bench->cache);
    kvt_resolver_free(bench->resolver);
}

/* Queries as text, one a word, a row a character: "A B" has two of one row, "AB" one of two. '0' is
 * row 0. Returns how many rows were missed. */
static uint32_t call(struct bench *bench, const char *text)
{
    uint64_t sets[QUERIES_MAX][ROW_WORDS] = {{0}};
    const uint64_t *selections[QUERIES_MAX] = {sets[0], sets[1], sets[2]};
    struct kvt_resolve_call call = {.visible_rows = ROWS,
                                    .tail_first_row = ROWS,
                                    .query_count = 1,
                                    .selections = selections,
                                    .promotion = KVT_PROMOTE_BY_COUNT};
    struct kvt_resolve_result result;
    struct kvt_error err;

    for (; *text != '\0'; text++) {
        uint32_t row = (uint32_t)(*text - '0');
        if (*text == ' ')
            call.query_count++;
        else
            kvt_row_set_add(sets[call.query_count - 1], &row, 1);
    }
    kvt_status status = kvt_resolve(bench->resolver, bench->cache, &call, &result, &err);
    ck_assert_msg(status == KVT_OK, "%s", err.message);
    return result.filled_rows + result.staged_rows;
}

/* One row a call. */
static bool misses(struct bench *bench, uint32_t row)
{
    uint64_t set[ROW_WORDS] = {0};
    const uint64_t *selection = set;
    struct kvt_resolve_call call = {
        .visible_rows = ROWS, .tail_first_row = ROWS, .query_count = 1, .selections = &selection};
    struct kvt_resolve_result result;
    struct kvt_error err;

    kvt_row_set_add(set, &row, 1);
    kvt_status status = kvt_resolve(bench->resolver, bench->cache, &call, &result, &err);
    ck_assert_msg(status == KVT_OK, "%s", err.message);
    return result.filled_rows == 1;
}

/* What the slots hold, as a text; '-' is an empty one. */
static void expect_slots(const struct bench *bench, const char *expected)
{
    char found[SLOTS_MAX + 1] = "";
    uint32_t slot_count = kvt_hot_cache_slot_count(bench->cache);

    for (kvt_slot slot = 0; slot < slot_count; slot++) {
        uint32_t row = kvt_hot_cache_rows(bench->cache)[slot];
        found[slot] = '-';
        if (row != KVT_ROW_NONE)
            found[slot] = (char)('0' + row);
    }
    ck_assert_str_eq(found, expected);
}

/* ---- By hand --------------------------------------------------------------------------------- */

/* L. A. Belady, R. A. Nelson, G. S. Shedler, "An anomaly in space-time characteristics of certain
 * programs running in a paging machine", Communications of the ACM 12(6), 1969: more room, more
 * misses, for FIFO. */
START_TEST(beladys_string_misses_as_often_as_it_does_on_paper)
{
    static const struct {
        const char *policy;
        uint32_t slots, misses;
        const char *left; /* in the slots */
    } cases[] = {
        {"fifo", 3, 9, "534"},        {"fifo", 4, 10, "4523"}, {"access-lru", 3, 10, "345"},
        {"access-lru", 4, 8, "5243"}, {"lru", 3, 10, "345"},   {"lru", 4, 8, "5243"},
        {"clock", 3, 10, "345"},      {"clock", 4, 8, "1245"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench = bench_open(cases[i].policy, cases[i].slots);
        uint32_t missed = 0;
        for (const char *row = "123412512345"; *row != '\0'; row++)
            missed += misses(&bench, (uint32_t)(*row - '0'));
        ck_assert_msg(missed == cases[i].misses, "%s in %u slots misses %u times, not %u",
                      cases[i].policy, cases[i].slots, missed, cases[i].misses);
        expect_slots(&bench, cases[i].left);
        bench_close(&bench);
    }
}
END_TEST

START_TEST(by_access_a_row_that_came_in_outlives_one_that_hit_in_the_same_call)
{
    static const struct {
        const char *policy, *left;
    } cases[] = {{"access-lru", "543"}, {"lru", "145"}};

    for (size_t i = 0; i < 2; i++) {
        struct bench bench = bench_open(cases[i].policy, 3);
        (void)call(&bench, "12");
        ck_assert_uint_eq(call(&bench, "13"), 1); /* 1 hits, 3 comes in */
        expect_slots(&bench, "123");
        (void)call(&bench, "4"); /* for 2 */
        (void)call(&bench, "5"); /* by access for 1, else for 3 */
        expect_slots(&bench, cases[i].left);
        bench_close(&bench);
    }
}
END_TEST

/* Rows 1 to 4 hit: 4 by the first query, 1 and 3 by the second, 2 by the third. */
START_TEST(by_access_hits_age_in_the_order_of_the_union)
{
    struct bench bench = bench_open("access-lru", 4);

    (void)call(&bench, "1234");
    ck_assert_uint_eq(call(&bench, "4 134 12"), 0);
    (void)call(&bench, "5");
    expect_slots(&bench, "1235");
    (void)call(&bench, "6");
    expect_slots(&bench, "6235");
    (void)call(&bench, "7");
    expect_slots(&bench, "6275");
    (void)call(&bench, "8");
    expect_slots(&bench, "6875");
    bench_close(&bench);
}
END_TEST

START_TEST(fifo_passes_by_a_slot_that_is_read_and_takes_it_in_the_next_call)
{
    struct bench bench = bench_open("fifo", 3);

    (void)call(&bench, "123");
    (void)call(&bench, "14"); /* 1 is due, and read */
    expect_slots(&bench, "143");
    (void)call(&bench, "5");
    expect_slots(&bench, "543");
    (void)call(&bench, "6");
    expect_slots(&bench, "546");
    bench_close(&bench);
}
END_TEST

START_TEST(clock_turns_twice_where_all_is_marked)
{
    struct bench bench = bench_open("clock", 4);

    (void)call(&bench, "1234");
    (void)call(&bench, "123"); /* marked */
    (void)call(&bench, "56");  /* 4 in the first turn, then 1: 2 and 3 have lost their marks */
    expect_slots(&bench, "6235");
    (void)call(&bench, "37"); /* 2, where the hand is */
    expect_slots(&bench, "6735");
    (void)call(&bench, "8"); /* 3 has its mark again, and loses it */
    expect_slots(&bench, "6738");
    (void)call(&bench, "9");
    expect_slots(&bench, "9738");
    bench_close(&bench);
}
END_TEST

START_TEST(clock_keeps_the_mark_of_a_slot_that_the_call_reads)
{
    struct bench bench = bench_open("clock", 3);

    (void)call(&bench, "123");
    (void)call(&bench, "12");
    (void)call(&bench, "14"); /* the hand passes 1, unmarks 2 and takes 3 */
    expect_slots(&bench, "124");
    (void)call(&bench, "5"); /* unmarks 1, takes 2 */
    expect_slots(&bench, "154");
    (void)call(&bench, "6");
    expect_slots(&bench, "156");
    (void)call(&bench, "7");
    expect_slots(&bench, "756");
    bench_close(&bench);
}
END_TEST

/* Two slots, five rows: 1 and 2 come in for the first query, 3 for the second and the third. It
 * takes the slot of 1 and was the last to come in. */
START_TEST(a_promoted_row_is_the_newest_where_the_order_is_one_of_coming_in)
{
    static const struct {
        const char *policy, *left;
    } cases[] = {{"fifo", "34"}, {"access-lru", "34"}, {"lru", "42"}, {"clock", "42"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench = bench_open(cases[i].policy, 2);
        ck_assert_uint_eq(call(&bench, "12 3 3"), 3);
        expect_slots(&bench, "32");
        (void)call(&bench, "4");
        expect_slots(&bench, cases[i].left);
        bench_close(&bench);
    }
}
END_TEST

/* ---- Streams of one row a call -----------------------------------------------------------------
 */

enum {
    STREAM_ROWS = 6000,
    STREAMS = 12
};

/* Rows of which low ones are likelier, the more so the higher the seed; now and then a scan. */
static uint32_t next_row(struct kvt_rng *rng, uint32_t seed, uint32_t *scan)
{
    uint32_t row = ROWS - 1;

    if (kvt_rng_below(rng, 400) == 0)
        *scan = 40;
    if (*scan > 0)
        return ROWS - (*scan)--;
    for (uint32_t draw = 0; draw <= seed % 4; draw++) {
        uint32_t drawn = (uint32_t)kvt_rng_below(rng, ROWS);
        row = drawn < row ? drawn : row;
    }
    return row;
}

/* The textbook's: a time for each row, and the row with the lowest goes. */
struct textbook {
    uint32_t slot_count, held, now;
    uint32_t used_at[ROWS]; /* 0: not there */
};

static bool textbook_misses(struct textbook *cache, uint32_t row)
{
    bool missed = cache->used_at[row] == 0;

    if (missed && cache->held == cache->slot_count) {
        uint32_t oldest = 0, oldest_at = UINT32_MAX;
        for (uint32_t other = 0; other < ROWS; other++) {
            if (cache->used_at[other] != 0 && cache->used_at[other] < oldest_at) {
                oldest = other;
                oldest_at = cache->used_at[other];
            }
        }
        cache->used_at[oldest] = 0;
        cache->held--;
    }
    cache->held += missed;
    cache->used_at[row] = ++cache->now;
    return missed;
}

static bool holds(const struct bench *bench, uint32_t row)
{
    for (kvt_slot slot = 0; slot < kvt_hot_cache_slot_count(bench->cache); slot++) {
        if (kvt_hot_cache_rows(bench->cache)[slot] == row)
            return true;
    }
    return false;
}

START_TEST(one_row_a_call_is_the_textbooks_lru_miss_for_miss)
{
    static const char *const policies[] = {"access-lru", "lru"};
    static const uint32_t slots[] = {1, 2, 7, 32, SLOTS_MAX};
    uint32_t seed = (uint32_t)_i, slot_count = slots[seed % 5];

    for (size_t p = 0; p < 2; p++) {
        struct bench bench = bench_open(policies[p], slot_count);
        struct textbook textbook = {.slot_count = slot_count};
        struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
        uint32_t scan = 0;
        for (uint32_t i = 0; i < STREAM_ROWS; i++) {
            uint32_t row = next_row(&rng, seed, &scan);
            bool missed = misses(&bench, row);
            if (missed != textbook_misses(&textbook, row))
                ck_abort_msg("%s, seed %u, access %u: row %u is %s, and not by the textbook",
                             policies[p], seed, i, row, missed ? "missed" : "hit");
        }
        for (uint32_t row = 0; row < ROWS; row++)
            ck_assert_int_eq(holds(&bench, row), textbook.used_at[row] != 0);
        bench_close(&bench);
    }
}
END_TEST

START_TEST(by_access_a_larger_cache_holds_all_that_a_smaller_one_does)
{
    static const uint32_t slots[] = {1, 2, 3, 5, 8, 13, 21, 34, 55, SLOTS_MAX};
    enum {
        CACHES = sizeof slots / sizeof slots[0]
    };
    struct bench caches[CACHES];
    uint32_t seed = (uint32_t)_i, scan = 0;
    struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 1);

    for (size_t c = 0; c < CACHES; c++)
        caches[c] = bench_open("access-lru", slots[c]);
    for (uint32_t i = 0; i < STREAM_ROWS / 6; i++) {
        uint32_t row = next_row(&rng, seed, &scan);
        bool smaller_missed = true;
        for (size_t c = 0; c < CACHES; c++) {
            bool missed = misses(&caches[c], row);
            if (missed && !smaller_missed)
                ck_abort_msg("seed %u, access %u: %u slots miss row %u, %u do not", seed, i,
                             slots[c], row, slots[c - 1]);
            smaller_missed = missed;
        }
        for (size_t c = 1; c < CACHES; c++) {
            for (kvt_slot slot = 0; slot < slots[c - 1]; slot++) {
                uint32_t held = kvt_hot_cache_rows(caches[c - 1].cache)[slot];
                if (held != KVT_ROW_NONE && !holds(&caches[c], held))
                    ck_abort_msg("seed %u, access %u: %u slots lack row %u, %u hold it", seed, i,
                                 slots[c], held, slots[c - 1]);
            }
        }
    }
    for (size_t c = 0; c < CACHES; c++)
        bench_close(&caches[c]);
}
END_TEST

static Suite *order_suite(void)
{
    Suite *suite = suite_create("replacement order");
    TCase *hand = tcase_create("by hand"), *streams = tcase_create("streams");

    tcase_add_test(hand, beladys_string_misses_as_often_as_it_does_on_paper);
    tcase_add_test(hand, by_access_a_row_that_came_in_outlives_one_that_hit_in_the_same_call);
    tcase_add_test(hand, by_access_hits_age_in_the_order_of_the_union);
    tcase_add_test(hand, fifo_passes_by_a_slot_that_is_read_and_takes_it_in_the_next_call);
    tcase_add_test(hand, clock_turns_twice_where_all_is_marked);
    tcase_add_test(hand, clock_keeps_the_mark_of_a_slot_that_the_call_reads);
    tcase_add_test(hand, a_promoted_row_is_the_newest_where_the_order_is_one_of_coming_in);
    suite_add_tcase(suite, hand);
    tcase_add_loop_test(streams, one_row_a_call_is_the_textbooks_lru_miss_for_miss, 0, STREAMS);
    tcase_add_loop_test(streams, by_access_a_larger_cache_holds_all_that_a_smaller_one_does, 0,
                        STREAMS);
    suite_add_tcase(suite, streams);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(order_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
