/* test_prefix.c -- pages that outlive their request: found, held, reclaimed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/prefix.h"

enum {
    PAGES_MAX = 64,
    INDEX = 1 << KVT_PREFIX_INDEX_HBM,
    INDEX_OUT = 1 << KVT_PREFIX_INDEX_HOST,
    HBM = 1 << KVT_PREFIX_ROWS_HBM,
    HOST = 1 << KVT_PREFIX_ROWS_HOST
};

static const uint64_t page_bytes[KVT_PREFIX_HOMES] = {8448, 8448, 2876, 5752};

static struct kvt_prefix *store;

static void make_store(void)
{
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_prefix_new(page_bytes, &store, &err), KVT_OK);
}

static void free_store(void)
{
    ck_assert(kvt_prefix_is_sane(store));
    kvt_prefix_free(store);
    store = NULL;
}

/* Keys of one conversation's pages. */
static const uint64_t *keys_of(uint64_t conversation)
{
    static uint64_t keys[PAGES_MAX];
    for (uint64_t i = 0; i < PAGES_MAX; i++)
        keys[i] = conversation * 1000 + i;
    return keys;
}

static const kvt_prefix_homes *all_in(unsigned homes)
{
    static kvt_prefix_homes list[PAGES_MAX];
    memset(list, (int)homes, sizeof list);
    return list;
}

static void insert(uint64_t conversation, uint32_t count, unsigned homes, bool held)
{
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_prefix_insert(store, keys_of(conversation), all_in(homes), count, held,
                                       added_bytes, &err),
                     KVT_OK);
}

static struct kvt_prefix_hit lookup(uint64_t conversation, uint32_t count)
{
    struct kvt_prefix_hit hit;
    kvt_prefix_lookup(store, keys_of(conversation), count, NULL, &hit);
    return hit;
}

/* Bytes that came free in the home asked for. */
static uint64_t reclaim(enum kvt_prefix_home home, uint64_t want_bytes)
{
    uint64_t freed_bytes[KVT_PREFIX_HOMES];
    kvt_prefix_reclaim(store, home, want_bytes, freed_bytes);
    return freed_bytes[home];
}

START_TEST(an_empty_store_has_nothing_and_wants_nothing_back)
{
    ck_assert_uint_eq(lookup(1, 20).pages, 0);
    ck_assert_uint_eq(kvt_prefix_page_count(store), 0);
    for (int h = 0; h < KVT_PREFIX_HOMES; h++) {
        ck_assert_uint_eq(reclaim((enum kvt_prefix_home)h, UINT64_MAX), 0);
        ck_assert_uint_eq(kvt_prefix_bytes(store, (enum kvt_prefix_home)h), 0);
        ck_assert(!kvt_prefix_drop(store, 7, (enum kvt_prefix_home)h));
    }
    kvt_prefix_free(NULL);
}
END_TEST

START_TEST(a_prompt_never_finds_its_last_token)
{
    ck_assert_uint_eq(kvt_prefix_pages_of(0), 0);
    ck_assert_uint_eq(kvt_prefix_pages_of(64), 0);
    ck_assert_uint_eq(kvt_prefix_pages_of(65), 1);
    ck_assert_uint_eq(kvt_prefix_pages_of(74160), 1158);
}
END_TEST

START_TEST(the_hit_is_the_shorter_of_index_rows_and_payload)
{
    insert(1, 12, INDEX, false);
    insert(1, 9, HOST, false);
    insert(1, 3, HBM, false);
    insert(1, 15, INDEX_OUT, false);
    struct kvt_prefix_hit hit = lookup(1, 20);
    ck_assert_uint_eq(hit.index_pages, 15);
    ck_assert_uint_eq(hit.rows_pages, 9);
    ck_assert_uint_eq(hit.pages, 9);
    ck_assert_uint_eq(hit.in_home[KVT_PREFIX_INDEX_HBM], 9);
    ck_assert_uint_eq(hit.in_home[KVT_PREFIX_INDEX_HOST], 9);
    ck_assert_uint_eq(hit.in_home[KVT_PREFIX_ROWS_HBM], 3);
    ck_assert_uint_eq(hit.in_home[KVT_PREFIX_ROWS_HOST], 9);
    ck_assert_uint_eq(lookup(1, 5).pages, 5);
    ck_assert_uint_eq(lookup(2, 20).pages, 0);
}
END_TEST

START_TEST(payload_may_lie_here_and_there_page_by_page)
{
    const kvt_prefix_homes homes[6] = {INDEX | HBM,        INDEX | HOST, INDEX_OUT | HBM,
                                       INDEX | HBM | HOST, INDEX,        INDEX | HBM};
    kvt_prefix_homes found[6] = {0};
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    struct kvt_prefix_hit hit;
    ck_assert_int_eq(kvt_prefix_insert(store, keys_of(1), homes, 6, false, added_bytes, NULL),
                     KVT_OK);
    kvt_prefix_lookup(store, keys_of(1), 6, found, &hit);
    ck_assert_uint_eq(hit.pages, 4);
    ck_assert_uint_eq(hit.index_pages, 6);
    ck_assert_uint_eq(hit.rows_pages, 4);
    ck_assert_mem_eq(found, homes, 4);
    ck_assert_uint_eq(added_bytes[KVT_PREFIX_INDEX_HBM], UINT64_C(5) * 8448);
    ck_assert_uint_eq(added_bytes[KVT_PREFIX_INDEX_HOST], 8448);
    ck_assert_uint_eq(added_bytes[KVT_PREFIX_ROWS_HBM], UINT64_C(4) * 2876);
    ck_assert_uint_eq(added_bytes[KVT_PREFIX_ROWS_HOST], UINT64_C(2) * 5752);
}
END_TEST

START_TEST(bytes_of_a_page_that_is_there_are_taken_once)
{
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    insert(1, 10, INDEX | HOST, false);
    ck_assert_int_eq(
        kvt_prefix_insert(store, keys_of(1), all_in(INDEX | HOST), 12, false, added_bytes, NULL),
        KVT_OK);
    ck_assert_uint_eq(added_bytes[KVT_PREFIX_INDEX_HBM], UINT64_C(2) * 8448);
    ck_assert_uint_eq(kvt_prefix_bytes(store, KVT_PREFIX_INDEX_HBM), UINT64_C(12) * 8448);
    ck_assert_uint_eq(kvt_prefix_counters_of(store)->duplicate_pages[KVT_PREFIX_ROWS_HOST], 10);
    ck_assert_uint_eq(kvt_prefix_counters_of(store)->inserted_pages[KVT_PREFIX_ROWS_HOST], 12);
}
END_TEST

START_TEST(the_tail_goes_before_the_head)
{
    insert(1, 8, INDEX | HOST, false);
    for (uint32_t left = 8; left-- > 0;) {
        ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, 1), 5752);
        ck_assert_uint_eq(lookup(1, 8).pages, left);
        ck_assert_uint_eq(lookup(1, 8).index_pages, left);
    }
}
END_TEST

START_TEST(the_least_recently_used_goes_first)
{
    for (uint64_t conversation = 1; conversation <= 3; conversation++)
        insert(conversation, 4, INDEX | HOST, false);
    kvt_prefix_adopt(store, keys_of(1), all_in(INDEX | HOST), 4);
    kvt_prefix_release(store, keys_of(1), all_in(INDEX | HOST), 4);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, 6 * 5752), 6 * 5752);
    ck_assert_uint_eq(lookup(2, 4).pages, 0);
    ck_assert_uint_eq(lookup(3, 4).pages, 2);
    ck_assert_uint_eq(lookup(1, 4).pages, 4);
}
END_TEST

START_TEST(a_shared_head_outlives_every_tail)
{
    uint64_t keys[2][6];
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    for (uint64_t i = 0; i < 6; i++) {
        keys[0][i] = i < 3 ? i : 100 + i;
        keys[1][i] = i < 3 ? i : 200 + i;
    }
    for (int c = 0; c < 2; c++)
        ck_assert_int_eq(
            kvt_prefix_insert(store, keys[c], all_in(INDEX), 6, false, added_bytes, NULL), KVT_OK);
    ck_assert_uint_eq(kvt_prefix_page_count(store), 9);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_INDEX_HBM, 6 * 8448), 6 * 8448);
    struct kvt_prefix_hit hit;
    kvt_prefix_lookup(store, keys[0], 6, NULL, &hit);
    ck_assert_uint_eq(hit.index_pages, 3);
    kvt_prefix_lookup(store, keys[1], 6, NULL, &hit);
    ck_assert_uint_eq(hit.index_pages, 3);
}
END_TEST

START_TEST(what_somebody_holds_is_never_given_up)
{
    insert(1, 6, INDEX | HBM | HOST, false);
    insert(2, 6, INDEX | HOST, true);
    kvt_prefix_adopt(store, keys_of(1), all_in(INDEX | HOST), 6);
    kvt_prefix_adopt(store, keys_of(1), all_in(INDEX | HOST), 3);
    ck_assert_uint_eq(kvt_prefix_reclaimable_bytes(store, KVT_PREFIX_ROWS_HOST), 0);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, UINT64_MAX), 0);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_INDEX_HBM, UINT64_MAX), 0);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HBM, UINT64_MAX), 6 * 2876);
    ck_assert(!kvt_prefix_drop(store, keys_of(1)[0], KVT_PREFIX_ROWS_HOST));

    kvt_prefix_release(store, keys_of(1), all_in(INDEX | HOST), 6);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, UINT64_MAX), 3 * 5752);
    ck_assert_uint_eq(lookup(1, 6).pages, 3);
    ck_assert(!kvt_prefix_drop(store, keys_of(1)[5], KVT_PREFIX_INDEX_HBM));
    ck_assert_uint_eq(lookup(2, 6).pages, 6);
    insert(3, 6, INDEX | HOST, false);
    ck_assert(kvt_prefix_drop(store, keys_of(3)[5], KVT_PREFIX_INDEX_HBM));
    ck_assert_uint_eq(lookup(3, 6).index_pages, 5);
    ck_assert_uint_eq(lookup(3, 6).rows_pages, 6);
    kvt_prefix_release(store, keys_of(1), all_in(INDEX | HOST), 3);
    kvt_prefix_release(store, keys_of(2), all_in(INDEX | HOST), 6);
}
END_TEST

START_TEST(index_rows_without_payload_go_with_it_unless_somebody_holds_them)
{
    uint64_t freed_bytes[KVT_PREFIX_HOMES];
    insert(1, 10, INDEX | INDEX_OUT | HOST, false);
    insert(1, 4, HBM, false);
    kvt_prefix_adopt(store, keys_of(1), all_in(INDEX), 7);
    kvt_prefix_reclaim(store, KVT_PREFIX_ROWS_HOST, UINT64_MAX, freed_bytes);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_ROWS_HOST], 10 * 5752);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_INDEX_HOST], 6 * 8448);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_INDEX_HBM], 3 * 8448);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_ROWS_HBM], 0);
    ck_assert_uint_eq(lookup(1, 10).pages, 4);
    ck_assert_uint_eq(kvt_prefix_page_count(store), 7);
    kvt_prefix_release(store, keys_of(1), all_in(INDEX), 7);
}
END_TEST

START_TEST(a_page_without_a_copy_is_forgotten)
{
    const uint64_t key = UINT64_C(2385);
    const kvt_prefix_homes homes = INDEX | HOST;
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    struct kvt_error err = {0};
    ck_assert(!kvt_prefix_has(store, key, KVT_PREFIX_ROWS_HOST));
    ck_assert_int_eq(kvt_prefix_insert(store, &key, &homes, 1, false, added_bytes, &err), KVT_OK);
    ck_assert(kvt_prefix_has(store, key, KVT_PREFIX_ROWS_HOST));
    ck_assert(!kvt_prefix_has(store, key, KVT_PREFIX_ROWS_HBM));
    (void)reclaim(KVT_PREFIX_ROWS_HOST, UINT64_MAX);
    ck_assert(!kvt_prefix_has(store, key, KVT_PREFIX_ROWS_HOST));
    insert(1, PAGES_MAX, INDEX | HOST, false);
    ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, UINT64_MAX), (uint64_t)PAGES_MAX * 5752);
    ck_assert_uint_eq(kvt_prefix_page_count(store), 0);
    insert(2, 5, INDEX | HOST, false);
    ck_assert_uint_eq(lookup(2, 5).pages, 5);
}
END_TEST

START_TEST(a_hundred_thousand_pages_come_and_go)
{
    uint64_t keys[500];
    kvt_prefix_homes homes[500];
    uint64_t added_bytes[KVT_PREFIX_HOMES];
    memset(homes, INDEX | HOST, sizeof homes);
    for (uint64_t round = 0; round < 400; round++) {
        for (uint64_t i = 0; i < 500; i++)
            keys[i] = round << 20 | i;
        ck_assert_int_eq(kvt_prefix_insert(store, keys, homes, 500, false, added_bytes, NULL),
                         KVT_OK);
        if (round < 200)
            continue;
        ck_assert_uint_eq(reclaim(KVT_PREFIX_ROWS_HOST, 500 * 5752), 500 * 5752);
        ck_assert_uint_eq(reclaim(KVT_PREFIX_INDEX_HBM, 100 * 8448), 100 * 8448);
    }
    ck_assert_uint_eq(kvt_prefix_page_count(store), 80000);
}
END_TEST

START_TEST(every_home_has_a_name)
{
    for (int h = 0; h < KVT_PREFIX_HOMES; h++)
        ck_assert_str_ne(kvt_prefix_home_name((enum kvt_prefix_home)h), "unknown");
    ck_assert_str_eq(kvt_prefix_home_name(KVT_PREFIX_HOMES), "unknown");
}
END_TEST

START_TEST(a_page_that_lies_whole_on_host_has_its_index_rows_there)
{
    static const uint64_t whole_bytes[KVT_PREFIX_HOMES] = {8448, 0, 2876, 8448 + 2876};
    uint64_t freed_bytes[KVT_PREFIX_HOMES];
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_prefix_new(whole_bytes, &store, &err), KVT_OK);
    insert(1, 5, HOST, false);
    ck_assert_uint_eq(lookup(1, 5).pages, 5);
    insert(1, 5, INDEX | HBM, false);
    kvt_prefix_reclaim(store, KVT_PREFIX_ROWS_HOST, UINT64_MAX, freed_bytes);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_ROWS_HOST], 5 * (8448 + 2876));
    ck_assert_uint_eq(lookup(1, 5).pages, 5);
    /* With them went the index rows on host: payload alone serves nobody. */
    kvt_prefix_reclaim(store, KVT_PREFIX_INDEX_HBM, UINT64_MAX, freed_bytes);
    ck_assert_uint_eq(freed_bytes[KVT_PREFIX_ROWS_HBM], 5 * 2876);
    ck_assert_uint_eq(kvt_prefix_page_count(store), 0);
    free_store();
}
END_TEST

static Suite *prefix_suite(void)
{
    Suite *suite = suite_create("prefix");
    TCase *pages = tcase_create("pages");
    tcase_add_checked_fixture(pages, make_store, free_store);
    tcase_add_test(pages, an_empty_store_has_nothing_and_wants_nothing_back);
    tcase_add_test(pages, a_prompt_never_finds_its_last_token);
    tcase_add_test(pages, the_hit_is_the_shorter_of_index_rows_and_payload);
    tcase_add_test(pages, payload_may_lie_here_and_there_page_by_page);
    tcase_add_test(pages, bytes_of_a_page_that_is_there_are_taken_once);
    tcase_add_test(pages, the_tail_goes_before_the_head);
    tcase_add_test(pages, the_least_recently_used_goes_first);
    tcase_add_test(pages, a_shared_head_outlives_every_tail);
    tcase_add_test(pages, what_somebody_holds_is_never_given_up);
    tcase_add_test(pages, index_rows_without_payload_go_with_it_unless_somebody_holds_them);
    tcase_add_test(pages, a_page_without_a_copy_is_forgotten);
    tcase_add_test(pages, a_hundred_thousand_pages_come_and_go);
    tcase_add_test(pages, every_home_has_a_name);
    suite_add_tcase(suite, pages);

    TCase *whole = tcase_create("whole");
    tcase_add_test(whole, a_page_that_lies_whole_on_host_has_its_index_rows_there);
    suite_add_tcase(suite, whole);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(prefix_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
