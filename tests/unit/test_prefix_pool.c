/* test_prefix_pool.c -- the bytes of a prefix store, among those of a rank. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/prefix_pool.h"

enum {
    PAGES_MAX = 64,
    INDEX = 1 << KVT_PREFIX_INDEX_HBM,
    INDEX_OUT = 1 << KVT_PREFIX_INDEX_HOST,
    HBM = 1 << KVT_PREFIX_ROWS_HBM,
    HOST = 1 << KVT_PREFIX_ROWS_HOST,
    ALL = INDEX | INDEX_OUT | HBM | HOST,
    INDEX_BYTES = 132,
    ROWS_BYTES = 576
};

static const uint64_t page_bytes[KVT_PREFIX_HOMES] = {INDEX_BYTES, INDEX_BYTES, ROWS_BYTES,
                                                      ROWS_BYTES};

static struct kvt_host_pool host;
static struct kvt_rank_memory memory;
static struct kvt_prefix_pool pool;
static struct kvt_holding request; /* a running one */

/* A rank of one pool or two; the host keeps two copies of a row. */
static void make(uint64_t index_pool_bytes, uint64_t rows_pool_bytes)
{
    struct kvt_error err = {0};
    host = (struct kvt_host_pool){.capacity_bytes = UINT64_C(2) * 40 * ROWS_BYTES};
    kvt_rank_memory_init(&memory, index_pool_bytes, rows_pool_bytes, 1000, &host, 2);
    ck_assert_int_eq(
        kvt_prefix_pool_init(&pool, &memory, page_bytes, UINT64_C(10) * INDEX_BYTES, &err), KVT_OK);
    request = (struct kvt_holding){0};
}

static void make_one_pool(void)
{
    make(UINT64_C(30) * (INDEX_BYTES + ROWS_BYTES), 0);
}

static void finish(void)
{
    ck_assert(kvt_prefix_pool_is_sane(&pool));
    ck_assert(kvt_rank_memory_is_sane(&memory));
    kvt_rank_memory_give_all(&memory, &request);
    kvt_prefix_pool_fini(&pool);
    ck_assert_uint_eq(kvt_rank_memory_used(&memory), 0);
    ck_assert_uint_eq(host.used_bytes, 0);
    kvt_prefix_pool_fini(&pool);
}

static const uint64_t *keys_of(uint64_t conversation)
{
    static uint64_t keys[PAGES_MAX];
    for (uint64_t i = 0; i < PAGES_MAX; i++)
        keys[i] = conversation * 1000 + i;
    return keys;
}

static bool take(uint32_t index_pages, uint32_t rows_pages, uint32_t host_pages, bool growth)
{
    const uint64_t bytes[KVT_MEM_CLASSES] = {[KVT_MEM_INDEX] = (uint64_t)index_pages * INDEX_BYTES,
                                             [KVT_MEM_PAYLOAD] = (uint64_t)rows_pages * ROWS_BYTES};
    return kvt_rank_memory_take(&memory, &request, bytes, (uint64_t)host_pages * ROWS_BYTES,
                                growth);
}

/* The request leaves `count` pages with these homes, and gives back what it has left. */
static kvt_prefix_homes keep(uint64_t conversation, uint32_t count, unsigned homes, bool held)
{
    kvt_prefix_homes list[PAGES_MAX];
    memset(list, (int)homes, sizeof list);
    ck_assert_int_eq(
        kvt_prefix_pool_keep(&pool, &request, keys_of(conversation), list, count, held, NULL),
        KVT_OK);
    kvt_rank_memory_give_all(&memory, &request);
    return list[count - 1];
}

static uint32_t hit(uint64_t conversation, uint32_t count)
{
    struct kvt_prefix_hit hit;
    kvt_prefix_lookup(pool.store, keys_of(conversation), count, NULL, &hit);
    return hit.pages;
}

static bool make_room(unsigned homes, uint32_t index_pages, uint32_t rows_pages,
                      uint32_t host_pages)
{
    const uint64_t bytes[KVT_MEM_CLASSES] = {[KVT_MEM_INDEX] = (uint64_t)index_pages * INDEX_BYTES,
                                             [KVT_MEM_PAYLOAD] = (uint64_t)rows_pages * ROWS_BYTES};
    return kvt_prefix_pool_make_room(&pool, (kvt_prefix_homes)homes, bytes,
                                     (uint64_t)host_pages * ROWS_BYTES, false);
}

START_TEST(pages_left_behind_keep_their_bytes)
{
    ck_assert(take(10, 4, 10, false));
    uint64_t used_bytes = kvt_rank_memory_used(&memory);
    ck_assert_uint_eq(keep(1, 10, INDEX | HOST, false), INDEX | HOST);
    ck_assert_uint_eq(kvt_rank_memory_used(&memory), used_bytes - UINT64_C(4) * ROWS_BYTES);
    ck_assert_uint_eq(memory.used_by_class[KVT_MEM_INDEX], UINT64_C(10) * INDEX_BYTES);
    ck_assert_uint_eq(host.used_bytes, UINT64_C(2) * 10 * ROWS_BYTES);
    ck_assert_uint_eq(hit(1, 20), 10);
}
END_TEST

START_TEST(what_the_store_has_is_given_back)
{
    ck_assert(take(10, 0, 10, false));
    keep(1, 10, INDEX | HOST, false);
    ck_assert(take(12, 0, 12, false));
    keep(1, 12, INDEX | HOST, false);
    ck_assert_uint_eq(kvt_rank_memory_used(&memory), UINT64_C(12) * INDEX_BYTES);
    ck_assert_uint_eq(host.used_bytes, UINT64_C(2) * 12 * ROWS_BYTES);
}
END_TEST

START_TEST(the_reserve_keeps_nothing)
{
    ck_assert(take(8, 0, 10, false));
    ck_assert(take(2, 0, 0, true));
    ck_assert_uint_eq(keep(1, 10, INDEX | HOST, false), HOST);
    ck_assert_uint_eq(memory.reserve_used, 0);
    ck_assert_uint_eq(hit(1, 10), 8);
}
END_TEST

START_TEST(index_rows_on_host_make_room_for_newer_ones)
{
    ck_assert(take(6, 0, 6, false));
    ck_assert_uint_eq(keep(1, 6, INDEX | INDEX_OUT | HOST, false), INDEX | INDEX_OUT | HOST);
    ck_assert(take(8, 0, 8, false));
    ck_assert_uint_eq(keep(2, 8, INDEX | INDEX_OUT | HOST, false), INDEX | INDEX_OUT | HOST);
    ck_assert_uint_eq(kvt_prefix_bytes(pool.store, KVT_PREFIX_INDEX_HOST),
                      UINT64_C(10) * INDEX_BYTES);
    ck_assert(take(12, 0, 12, false)); /* more than there is */
    ck_assert_uint_eq(keep(3, 12, INDEX | INDEX_OUT | HOST, false), INDEX | HOST);
    ck_assert_uint_eq(kvt_prefix_bytes(pool.store, KVT_PREFIX_INDEX_HOST),
                      UINT64_C(10) * INDEX_BYTES);
}
END_TEST

START_TEST(payload_goes_over_to_one_request_unless_it_is_held)
{
    kvt_prefix_homes homes[PAGES_MAX];
    ck_assert(take(6, 6, 6, false));
    keep(1, 6, INDEX | HBM | HOST, false);
    uint64_t used_bytes = kvt_rank_memory_used(&memory);
    memset(homes, HBM, sizeof homes);
    kvt_prefix_adopt(pool.store, keys_of(1), homes, 2);
    memset(homes, INDEX | HBM | HOST, sizeof homes);
    ck_assert_uint_eq(kvt_prefix_pool_take_over(&pool, &request, keys_of(1), homes, 6), 4);
    ck_assert_uint_eq(homes[1], INDEX | HOST);
    ck_assert_uint_eq(homes[2], INDEX | HBM | HOST);
    ck_assert_uint_eq(request.bytes[KVT_MEM_PAYLOAD], UINT64_C(4) * ROWS_BYTES);
    ck_assert_uint_eq(kvt_rank_memory_used(&memory), used_bytes);
    ck_assert_uint_eq(hit(1, 6), 6);
    memset(homes, HBM, sizeof homes);
    kvt_prefix_release(pool.store, keys_of(1), homes, 2);
}
END_TEST

START_TEST(room_is_made_of_payload_before_index_rows)
{
    ck_assert(take(20, 20, 20, false));
    keep(1, 20, INDEX | HBM | HOST, false);
    ck_assert(make_room(ALL, 12, 15, 0));
    ck_assert_uint_eq(kvt_prefix_bytes(pool.store, KVT_PREFIX_INDEX_HBM),
                      UINT64_C(20) * INDEX_BYTES);
    ck_assert_uint_lt(kvt_prefix_bytes(pool.store, KVT_PREFIX_ROWS_HBM), UINT64_C(20) * ROWS_BYTES);
    ck_assert_uint_eq(hit(1, 20), 20);
    ck_assert(!make_room(HBM, 0, 34, 0)); /* index rows are in the way */
    ck_assert_uint_eq(kvt_prefix_bytes(pool.store, KVT_PREFIX_ROWS_HBM), 0);
    ck_assert_uint_eq(hit(1, 20), 20);
    ck_assert(make_room(ALL, 30, 30, 0));
    ck_assert_uint_eq(hit(1, 20), 0);
}
END_TEST

START_TEST(room_on_host_counts_every_copy)
{
    ck_assert(take(25, 0, 30, false));
    keep(1, 25, INDEX | HOST, false);
    ck_assert(make_room(ALL, 0, 0, 15));
    ck_assert_uint_eq(hit(1, 25), 25);
    ck_assert(make_room(ALL, 0, 0, 20));
    ck_assert_uint_eq(hit(1, 25), 20);
    ck_assert_uint_eq(memory.used_by_class[KVT_MEM_INDEX], UINT64_C(20) * INDEX_BYTES);
    ck_assert(!make_room(ALL, 0, 0, 41));
}
END_TEST

START_TEST(held_pages_make_no_room)
{
    kvt_prefix_homes homes[PAGES_MAX];
    ck_assert(take(20, 0, 20, false));
    keep(1, 20, INDEX | HOST, true);
    ck_assert(!make_room(ALL, 0, 33, 0));
    ck_assert_uint_eq(hit(1, 20), 20);
    memset(homes, INDEX | HOST, sizeof homes);
    kvt_prefix_release(pool.store, keys_of(1), homes, 20);
    ck_assert(make_room(ALL, 0, 33, 0));
}
END_TEST

START_TEST(pools_apart_make_room_apart)
{
    ck_assert(take(20, 20, 20, false));
    keep(1, 20, INDEX | HBM | HOST, false);
    ck_assert(make_room(ALL, 15, 0, 0));
    ck_assert_uint_eq(hit(1, 20), 15);
    ck_assert_uint_eq(kvt_prefix_bytes(pool.store, KVT_PREFIX_ROWS_HBM), UINT64_C(15) * ROWS_BYTES);
    ck_assert(!make_room(HBM | HOST, 16, 0, 0));
}
END_TEST

static void make_two_pools(void)
{
    make(UINT64_C(30) * INDEX_BYTES, UINT64_C(30) * ROWS_BYTES);
}

static Suite *prefix_pool_suite(void)
{
    Suite *suite = suite_create("prefix_pool");
    TCase *one = tcase_create("one_pool");
    tcase_add_checked_fixture(one, make_one_pool, finish);
    tcase_add_test(one, pages_left_behind_keep_their_bytes);
    tcase_add_test(one, what_the_store_has_is_given_back);
    tcase_add_test(one, the_reserve_keeps_nothing);
    tcase_add_test(one, index_rows_on_host_make_room_for_newer_ones);
    tcase_add_test(one, payload_goes_over_to_one_request_unless_it_is_held);
    tcase_add_test(one, room_is_made_of_payload_before_index_rows);
    tcase_add_test(one, room_on_host_counts_every_copy);
    tcase_add_test(one, held_pages_make_no_room);
    suite_add_tcase(suite, one);

    TCase *two = tcase_create("two_pools");
    tcase_add_checked_fixture(two, make_two_pools, finish);
    tcase_add_test(two, pools_apart_make_room_apart);
    suite_add_tcase(suite, two);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(prefix_pool_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
