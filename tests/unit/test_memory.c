/* test_memory.c -- every byte is on somebody's account, and nothing is taken that is not free. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/memory.h"
#include "kvt/rng.h"

#define NONE UINT64_MAX

enum {
    INDEX_POOL = 1000,
    ROWS_POOL = 5000,
    RESERVE = 300,
    HOST = 9000
};

struct bench {
    struct kvt_host_pool host;
    struct kvt_rank_memory memory;
    struct kvt_holding holding;
};

static void bench_start(struct bench *bench, uint64_t rows_pool, uint32_t host_copies)
{
    *bench = (struct bench){.host = {.capacity_bytes = HOST}};
    kvt_rank_memory_init(&bench->memory, INDEX_POOL, rows_pool, RESERVE, &bench->host, host_copies);
}

static bool take(struct bench *bench, enum kvt_mem_class mem_class, uint64_t bytes, uint64_t host,
                 bool growth)
{
    uint64_t by_class[KVT_MEM_CLASSES] = {0};
    by_class[mem_class] = bytes;
    return kvt_rank_memory_take(&bench->memory, &bench->holding, by_class, host, growth);
}

static uint64_t shortfall(const struct bench *bench, enum kvt_mem_class mem_class, uint64_t bytes,
                          uint64_t host, bool growth)
{
    uint64_t by_class[KVT_MEM_CLASSES] = {0};
    by_class[mem_class] = bytes;
    return kvt_rank_memory_shortfall(&bench->memory, by_class, host, growth);
}

START_TEST(a_take_is_all_or_nothing)
{
    struct bench bench;
    bench_start(&bench, ROWS_POOL, 1);
    const struct bench before = bench;
    const uint64_t too_much[][KVT_MEM_CLASSES] = {
        {[KVT_MEM_HOT] = 1, [KVT_MEM_INDEX] = INDEX_POOL + 1},
        {[KVT_MEM_INDEX] = 1, [KVT_MEM_HOT] = 2501, [KVT_MEM_TAIL] = 2500},
    };
    for (size_t i = 0; i < sizeof too_much / sizeof too_much[0]; i++) {
        ck_assert(!kvt_rank_memory_take(&bench.memory, &bench.holding, too_much[i], 1, false));
        ck_assert_mem_eq(&bench, &before, sizeof bench);
    }
    ck_assert(!take(&bench, KVT_MEM_HOT, 1, HOST + 1, false));
    ck_assert_mem_eq(&bench, &before, sizeof bench);

    const uint64_t just_fits[KVT_MEM_CLASSES] = {
        [KVT_MEM_INDEX] = INDEX_POOL, [KVT_MEM_HOT] = 2500, [KVT_MEM_TAIL] = 2500};
    ck_assert(kvt_rank_memory_take(&bench.memory, &bench.holding, just_fits, HOST, false));
    ck_assert_uint_eq(kvt_rank_memory_used(&bench.memory), INDEX_POOL + ROWS_POOL);
    ck_assert_uint_eq(bench.host.used_bytes, HOST);
    ck_assert(kvt_rank_memory_is_sane(&bench.memory));
}
END_TEST

START_TEST(index_rows_have_a_pool_of_their_own_where_there_are_two)
{
    struct bench bench;
    bench_start(&bench, ROWS_POOL, 1);
    ck_assert(take(&bench, KVT_MEM_INDEX, 400, 0, false));
    ck_assert_uint_eq(kvt_rank_memory_free(&bench.memory, KVT_MEM_INDEX), INDEX_POOL - 400);
    for (int c = KVT_MEM_HOT; c < KVT_MEM_CLASSES; c++)
        ck_assert_uint_eq(kvt_rank_memory_free(&bench.memory, (enum kvt_mem_class)c), ROWS_POOL);
}
END_TEST

START_TEST(one_pool_holds_every_class_where_there_is_one)
{
    struct bench bench;
    bench_start(&bench, 0, 1);
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        ck_assert(take(&bench, (enum kvt_mem_class)c, 100, 0, false));
        for (int d = 0; d < KVT_MEM_CLASSES; d++)
            ck_assert_uint_eq(kvt_rank_memory_free(&bench.memory, (enum kvt_mem_class)d),
                              (uint64_t)INDEX_POOL - 100 * ((uint64_t)c + 1));
    }
}
END_TEST

START_TEST(growth_draws_on_the_reserve_first_and_then_on_the_pool)
{
    struct bench bench;
    bench_start(&bench, 0, 1);
    ck_assert(take(&bench, KVT_MEM_INDEX, 200, 0, true));
    ck_assert_uint_eq(bench.memory.reserve_used, 200);
    ck_assert_uint_eq(bench.memory.pool_used[0], 0);
    /* Of 101 the reserve has 100 left: the last byte is the pool's. */
    ck_assert(take(&bench, KVT_MEM_INDEX, 101, 0, true));
    ck_assert_uint_eq(bench.memory.reserve_used, RESERVE);
    ck_assert_uint_eq(bench.memory.pool_used[0], 1);
    ck_assert(take(&bench, KVT_MEM_INDEX, 100, 0, true));
    ck_assert_uint_eq(bench.memory.pool_used[0], 101);
    ck_assert_uint_eq(bench.holding.reserve_bytes[KVT_MEM_INDEX], RESERVE);
    ck_assert_uint_eq(bench.memory.used_by_class[KVT_MEM_INDEX], 401);
    ck_assert(kvt_rank_memory_is_sane(&bench.memory));
}
END_TEST

START_TEST(what_is_not_growth_never_touches_the_reserve)
{
    struct bench bench;
    bench_start(&bench, 0, 1);
    ck_assert(take(&bench, KVT_MEM_HOT, INDEX_POOL, 0, false));
    ck_assert(!take(&bench, KVT_MEM_HOT, 1, 0, false));
    ck_assert_uint_eq(bench.memory.reserve_used, 0);
    ck_assert(take(&bench, KVT_MEM_HOT, 1, 0, true));
    ck_assert_uint_eq(bench.memory.reserve_used, 1);
}
END_TEST

START_TEST(a_shortfall_is_what_optional_pages_would_have_to_give)
{
    struct bench bench;
    bench_start(&bench, ROWS_POOL, 1);
    ck_assert(take(&bench, KVT_MEM_PAYLOAD, 4000, 0, false));
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_HOT, 1000, 0, false), 0);
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_HOT, 1001, 0, false), 1);
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_HOT, 3000, 0, false), 2000);
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_HOT, RESERVE, 0, true), 0);
    /* No page of history frees index rows of the other pool, or host DRAM. */
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_INDEX, INDEX_POOL + 1, 0, false), NONE);
    ck_assert_uint_eq(shortfall(&bench, KVT_MEM_HOT, 1, HOST + 1, false), NONE);

    struct bench unified;
    bench_start(&unified, 0, 1);
    ck_assert_uint_eq(shortfall(&unified, KVT_MEM_INDEX, INDEX_POOL + 7, 0, false), 7);
}
END_TEST

START_TEST(host_copies_count_each)
{
    struct bench bench;
    bench_start(&bench, 0, 4);
    ck_assert(!take(&bench, KVT_MEM_HOT, 1, HOST / 4 + 1, false));
    ck_assert(take(&bench, KVT_MEM_HOT, 1, HOST / 4, false));
    ck_assert_uint_eq(bench.host.used_bytes, HOST);
    kvt_rank_memory_give_all(&bench.memory, &bench.holding);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
}
END_TEST

START_TEST(giving_back_is_by_class_or_everything)
{
    struct bench bench;
    bench_start(&bench, ROWS_POOL, 2);
    const struct bench empty = bench;
    ck_assert(take(&bench, KVT_MEM_PAYLOAD, 640, 0, false));
    ck_assert(take(&bench, KVT_MEM_HOT, 55, 10, false));
    ck_assert(take(&bench, KVT_MEM_INDEX, 200, 3, true));
    kvt_rank_memory_give(&bench.memory, &bench.holding, KVT_MEM_PAYLOAD, 64);
    ck_assert_uint_eq(bench.holding.bytes[KVT_MEM_PAYLOAD], 576);
    ck_assert_uint_eq(bench.memory.pool_used[1], 576 + 55);
    ck_assert_uint_eq(bench.memory.used_by_class[KVT_MEM_PAYLOAD], 576);
    kvt_rank_memory_give_all(&bench.memory, &bench.holding);
    ck_assert_mem_eq(&bench, &empty, sizeof bench);
}
END_TEST

START_TEST(what_the_pool_gave_goes_back_before_what_the_reserve_gave)
{
    struct bench bench;
    bench_start(&bench, 0, 2);
    ck_assert(take(&bench, KVT_MEM_PAYLOAD, 250, 0, true)); /* of the reserve's 300 */
    ck_assert(take(&bench, KVT_MEM_PAYLOAD, 100, 40, false));
    kvt_rank_memory_give(&bench.memory, &bench.holding, KVT_MEM_PAYLOAD, 130);
    ck_assert_uint_eq(bench.holding.bytes[KVT_MEM_PAYLOAD], 0);
    ck_assert_uint_eq(bench.holding.reserve_bytes[KVT_MEM_PAYLOAD], 220);
    ck_assert_uint_eq(bench.memory.reserve_used, 220);
    ck_assert_uint_eq(bench.memory.pool_used[0], 0);
    ck_assert(kvt_rank_memory_is_sane(&bench.memory));
    kvt_rank_memory_give_host(&bench.memory, &bench.holding, 15);
    ck_assert_uint_eq(bench.holding.host_bytes, 25);
    ck_assert_uint_eq(bench.host.used_bytes, 2 * 25);
}
END_TEST

/* Accounts as a clerk would keep them: one line for each byte range taken. */
START_TEST(accounts_agree_with_a_clerks_over_random_days)
{
    enum {
        HOLDERS = 6,
        DAYS = 4000
    };
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct bench bench;
    bench_start(&bench, _i % 2 ? ROWS_POOL : 0, 1 + (uint32_t)_i % 3);
    struct kvt_holding holdings[HOLDERS] = {0};
    uint64_t pools[2] = {INDEX_POOL, _i % 2 ? ROWS_POOL : 0};

    for (int day = 0; day < DAYS; day++) {
        struct kvt_holding *holding = &holdings[kvt_rng_below(&rng, HOLDERS)];
        uint64_t bytes[KVT_MEM_CLASSES], by_pool[2] = {0}, used[2] = {0}, reserve = 0, host = 0;
        if (kvt_rng_below(&rng, 5) == 0) {
            kvt_rank_memory_give_all(&bench.memory, holding);
            continue;
        }
        for (int h = 0; h < HOLDERS; h++) {
            host += holdings[h].host_bytes;
            for (int c = 0; c < KVT_MEM_CLASSES; c++) {
                used[_i % 2 && c != KVT_MEM_INDEX] += holdings[h].bytes[c];
                reserve += holdings[h].reserve_bytes[c];
            }
        }
        bool growth = kvt_rng_below(&rng, 2);
        uint64_t left = growth ? RESERVE - reserve : 0;
        for (int c = 0; c < KVT_MEM_CLASSES; c++) {
            bytes[c] = kvt_rng_below(&rng, 3) ? 0 : kvt_rng_below(&rng, 400);
            uint64_t from_reserve = bytes[c] < left ? bytes[c] : left;
            left -= from_reserve;
            by_pool[_i % 2 && c != KVT_MEM_INDEX] += bytes[c] - from_reserve;
        }
        uint64_t more_host = kvt_rng_below(&rng, 2000);
        bool host_fits = (host + more_host) * bench.memory.host_copies <= HOST;
        bool fits = host_fits && used[0] + by_pool[0] <= pools[0] &&
                    used[1] + by_pool[1] <= (pools[1] ? pools[1] : 0);
        uint64_t short_bytes = kvt_rank_memory_shortfall(&bench.memory, bytes, more_host, growth);
        ck_assert_uint_eq(short_bytes == 0, fits);
        ck_assert_uint_eq(kvt_rank_memory_take(&bench.memory, holding, bytes, more_host, growth),
                          fits);
        ck_assert(kvt_rank_memory_is_sane(&bench.memory));
    }
    for (int h = 0; h < HOLDERS; h++)
        kvt_rank_memory_give_all(&bench.memory, &holdings[h]);
    ck_assert_uint_eq(kvt_rank_memory_used(&bench.memory), 0);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
}
END_TEST

START_TEST(broken_accounts_are_noticed)
{
    struct bench bench;
    bench_start(&bench, ROWS_POOL, 1);
    ck_assert(take(&bench, KVT_MEM_INDEX, 100, 100, true));
    ck_assert(kvt_rank_memory_is_sane(&bench.memory));
    struct kvt_rank_memory broken = bench.memory;
    broken.used_by_class[KVT_MEM_HOT]++;
    ck_assert(!kvt_rank_memory_is_sane(&broken));
    broken = bench.memory;
    broken.pool_used[1]++;
    ck_assert(!kvt_rank_memory_is_sane(&broken));
    for (int p = 0; p < 2; p++) {
        broken = bench.memory;
        broken.pool_used[p] += ROWS_POOL + 1;
        broken.used_by_class[KVT_MEM_TAIL] += ROWS_POOL + 1;
        ck_assert(!kvt_rank_memory_is_sane(&broken));
    }
    broken = bench.memory;
    broken.reserve_used += RESERVE;
    broken.used_by_class[KVT_MEM_TAIL] += RESERVE;
    ck_assert(!kvt_rank_memory_is_sane(&broken));
    bench.host.used_bytes = HOST + 1;
    ck_assert(!kvt_rank_memory_is_sane(&bench.memory));
}
END_TEST

START_TEST(every_class_has_a_name)
{
    for (int c = 0; c < KVT_MEM_CLASSES; c++) {
        ck_assert_str_ne(kvt_mem_class_name((enum kvt_mem_class)c), "unknown");
        for (int d = 0; d < c; d++)
            ck_assert_str_ne(kvt_mem_class_name((enum kvt_mem_class)c),
                             kvt_mem_class_name((enum kvt_mem_class)d));
    }
    ck_assert_str_eq(kvt_mem_class_name(KVT_MEM_CLASSES), "unknown");
}
END_TEST

static Suite *memory_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_test(tcase, a_take_is_all_or_nothing);
    tcase_add_test(tcase, index_rows_have_a_pool_of_their_own_where_there_are_two);
    tcase_add_test(tcase, one_pool_holds_every_class_where_there_is_one);
    tcase_add_test(tcase, growth_draws_on_the_reserve_first_and_then_on_the_pool);
    tcase_add_test(tcase, what_is_not_growth_never_touches_the_reserve);
    tcase_add_test(tcase, a_shortfall_is_what_optional_pages_would_have_to_give);
    tcase_add_test(tcase, host_copies_count_each);
    tcase_add_test(tcase, giving_back_is_by_class_or_everything);
    tcase_add_test(tcase, what_the_pool_gave_goes_back_before_what_the_reserve_gave);
    tcase_add_loop_test(tcase, accounts_agree_with_a_clerks_over_random_days, 0, 6);
    tcase_add_test(tcase, broken_accounts_are_noticed);
    tcase_add_test(tcase, every_class_has_a_name);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(memory_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
