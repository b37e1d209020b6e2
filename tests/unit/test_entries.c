/* test_entries.c -- what a scheduling policy is shown: of the rank, and of those who wait. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "serve/rank_private.h"
#include "support/rank_bench.h"

enum {
    PAGES = INPUT / KVT_PAGE_ROWS, /* 15 whole ones, and 40 tokens */
    WHOLE = PAGES * KVT_PAGE_ROWS
};

/* ---- A policy that writes down what it saw and picks what the test says ---------------- */

static bool is_shown;
static struct kvt_scheduling_view seen;
static struct kvt_scheduling_entry seen_entries[KVT_SCHEDULING_ENTRIES];
static uint32_t pick;
static struct kvt_scheduling_policy watcher;

static uint32_t watch(void *state, const struct kvt_scheduling_view *view,
                      const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)waiting;
    is_shown = view != NULL;
    if (is_shown)
        seen = *view;
    if (is_shown && view->entry_count > 0)
        memcpy(seen_entries, view->entries, view->entry_count * sizeof *view->entries);
    return pick < count ? pick : count;
}

static void start(const char *residency, uint32_t requests, bool wants_entries)
{
    bench_start(residency, requests, 1 << 20, 1 << 20);
    watcher = *(const struct kvt_scheduling_policy *)(const void *)bench.env.scheduling.info;
    watcher.next = watch;
    watcher.wants_view = !wants_entries; /* which bring the view along */
    watcher.wants_entries = wants_entries;
    bench_restart(NULL, &watcher.info);
    seen = (struct kvt_scheduling_view){0};
    pick = UINT32_MAX;
}

/* One more request; its first `alike` pages are those of everybody of its kind. */
static struct kvt_live *enqueue(uint64_t kind, uint32_t alike)
{
    struct kvt_live *live = bench_enqueue();
    struct kvt_error err = {0};
    uint64_t keys[PAGES];
    for (uint32_t i = 0; i < PAGES; i++)
        keys[i] = (i < alike ? kind << 32 : (uint64_t)(live->id + 1) << 48) + i + 1;
    ck_assert_int_eq(kvt_shared_init(&live->shared, keys, PAGES, &err), KVT_OK);
    return live;
}

static void look(kvt_ns now_ns)
{
    bench_boundary(now_ns);
}

/* It comes in, and ends at once. */
static void serve(struct kvt_live *live, kvt_ns now_ns)
{
    struct kvt_error err = {0};
    pick = 0;
    bench_boundary(now_ns);
    bench_import_all();
    bench_boundary(now_ns + 1);
    ck_assert_int_eq(kvt_rank_finish(&bench.rank, live, now_ns + 1, &err), KVT_OK);
    pick = UINT32_MAX;
}

static void stop(void)
{
    for (uint32_t i = 0; i < bench.live_count; i++) {
        if (bench.lives[i].shared.page_count > 0)
            kvt_rank_release(&bench.rank, &bench.lives[i]);
    }
    for (uint32_t i = 0; i < bench.live_count; i++)
        kvt_shared_fini(&bench.lives[i].shared);
    bench_stop();
}

/* Nobody's payload is left in HBM. */
static void drop_rows(void)
{
    const kvt_prefix_homes rows = KVT_PREFIX_IN(KVT_PREFIX_ROWS_HBM);
    const uint64_t all[KVT_MEM_CLASSES] = {[KVT_MEM_PAYLOAD] = bench.env.index_pool_bytes};
    (void)kvt_prefix_pool_make_room(&bench.rank.prefixes, rows, all, 0, false);
}

/* ---- Of a request ---------------------------------------------------------------------- */

START_TEST(what_is_not_known_must_be_computed)
{
    start("prefix-offload", 2, true);
    (void)bench_enqueue();
    (void)enqueue(1, PAGES);
    look(0);
    ck_assert_uint_eq(seen.entry_count, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(seen_entries[i].new_tokens, INPUT);
        ck_assert_uint_eq(seen_entries[i].found_tokens, 0);
        ck_assert_uint_eq(seen_entries[i].context_key, 0);
        ck_assert_uint_eq(seen_entries[i].load_bytes, 0);
    }
    stop();
}
END_TEST

START_TEST(what_is_found_in_hbm_need_not_come_up_and_what_is_on_host_must)
{
    start("prefix-offload", 2, true);
    serve(enqueue(1, PAGES), 0);
    (void)enqueue(1, PAGES);
    (void)enqueue(1, 4); /* the first four pages are the same */
    look(10);
    ck_assert_uint_eq(seen_entries[0].found_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[0].load_tokens, 0);
    ck_assert_uint_eq(seen_entries[0].load_bytes, 0);
    ck_assert_uint_eq(seen_entries[0].new_tokens, INPUT - WHOLE);
    ck_assert_uint_eq(seen_entries[1].found_tokens, 4 * KVT_PAGE_ROWS);
    ck_assert_uint_eq(seen_entries[0].context_key, (UINT64_C(1) << 32) + PAGES);
    ck_assert_uint_eq(seen_entries[1].context_key, (UINT64_C(1) << 32) + 4);

    drop_rows();
    look(11);
    ck_assert_uint_eq(seen_entries[0].found_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[0].load_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[0].load_bytes, (uint64_t)PAGES * PAGE_BYTES);
    ck_assert_uint_eq(seen_entries[1].load_bytes, UINT64_C(4) * PAGE_BYTES);
    stop();
}
END_TEST

/* Where rows stay on host, index rows alone come up. */
START_TEST(beside_a_hot_cache_payload_on_host_need_not_come_up)
{
    start("hisparse", 2, true);
    serve(enqueue(1, PAGES), 0);
    (void)enqueue(1, PAGES);
    look(10);
    ck_assert_uint_eq(seen_entries[0].found_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[0].load_tokens, 0);
    stop();
}
END_TEST

START_TEST(what_another_brings_in_is_in_flight)
{
    start("prefix-offload", 1, true);
    (void)enqueue(1, PAGES);
    (void)enqueue(1, PAGES);
    (void)enqueue(1, 7);
    (void)enqueue(2, PAGES);
    look(0);
    ck_assert_uint_eq(seen_entries[1].in_flight_tokens, 0); /* who waits brings in nothing */
    pick = 0;
    look(1); /* one comes in; there is no room for the next */
    ck_assert_uint_eq(bench.rank.importing.count, 1);
    ck_assert_uint_eq(seen.coming_in, 1);
    ck_assert_uint_eq(seen.coming_new_tokens, INPUT);
    ck_assert_uint_eq(seen.coming_load_tokens, 0);
    ck_assert_uint_eq(seen_entries[0].in_flight_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[1].in_flight_tokens, 7 * KVT_PAGE_ROWS);
    ck_assert_uint_eq(seen_entries[2].in_flight_tokens, 0);
    pick = UINT32_MAX;
    bench_import_all();
    look(2); /* it is in, and found */
    ck_assert_uint_eq(seen_entries[0].in_flight_tokens, 0);
    ck_assert_uint_eq(seen_entries[0].found_tokens, WHOLE);
    ck_assert_uint_eq(seen_entries[1].found_tokens, 7 * KVT_PAGE_ROWS);
    stop();
}
END_TEST

/* The one loads what the other would: with it, it will be in HBM. */
START_TEST(what_another_loads_is_in_flight_and_counted)
{
    start("prefix-offload", 2, true);
    serve(enqueue(1, PAGES), 0);
    drop_rows();
    (void)enqueue(1, PAGES);
    (void)enqueue(1, PAGES);
    pick = 0;
    look(10);
    ck_assert_uint_eq(bench.rank.importing.count, 2);
    ck_assert_uint_eq(bench.rank.importing.items[0]->load_tokens, WHOLE);
    /* As the second one was asked for, the first was on its way. */
    ck_assert_uint_eq(seen.entry_count, 1);
    ck_assert_uint_eq(seen_entries[0].in_flight_tokens, WHOLE);
    ck_assert_uint_eq(seen.coming_load_tokens, WHOLE);
    ck_assert_uint_eq(seen.coming_new_tokens, INPUT - WHOLE);
    stop();
}
END_TEST

START_TEST(a_copy_put_aside_is_found_and_comes_up)
{
    start("prefix-offload", 2, true);
    struct kvt_live *live = enqueue(1, PAGES);
    live->aside_tokens = 900;
    live->generated_tokens = 1;
    look(0);
    ck_assert_uint_eq(seen_entries[0].found_tokens, 900);
    ck_assert_uint_eq(seen_entries[0].load_tokens, 900);
    ck_assert_uint_eq(seen_entries[0].new_tokens, INPUT - 900);
    ck_assert_uint_eq(seen_entries[0].load_bytes, UINT64_C(900) * (INDEX_TOKEN + PAYLOAD_TOKEN));
    ck_assert_uint_eq(seen_entries[0].in_flight_tokens, 0);
    live->aside_tokens = 0;
    live->generated_tokens = 0;
    look(1);
    ck_assert_uint_eq(seen_entries[0].found_tokens, 0);
    stop();
}
END_TEST

START_TEST(who_is_overtaken_is_told_how_often)
{
    start("hisparse", 2, true);
    for (int i = 0; i < 4; i++)
        (void)enqueue((uint64_t)i + 1, 0);
    pick = 2;
    look(0); /* the third, then the fourth, which has moved up; nobody is behind it then */
    ck_assert_uint_eq(bench.rank.waiting.count, 2);
    ck_assert_uint_eq(bench.lives[0].passed_by, 2);
    ck_assert_uint_eq(bench.lives[1].passed_by, 2);
    pick = UINT32_MAX;
    look(1);
    ck_assert_uint_eq(seen_entries[0].passed_by, 2);
    stop();
}
END_TEST

/* ---- Of the rank ----------------------------------------------------------------------- */

START_TEST(who_wants_no_entries_is_shown_the_rank_alone)
{
    start("hisparse", 2, false);
    (void)enqueue(1, PAGES);
    (void)enqueue(1, PAGES);
    bench.rank.last_step_ns = 2385;
    bench.rank.last_fetch_ns = 385;
    bench.rank.last_step_requests = 5;
    (void)kvt_link_send(&bench.rank.h2d, 0, 1 << 20);
    look(7);
    ck_assert_ptr_null(seen.entries);
    ck_assert_uint_eq(seen.entry_count, 0);
    ck_assert_int_eq(seen.now_ns, 7);
    ck_assert_int_eq(seen.last_step_ns, 2385);
    ck_assert_int_eq(seen.last_fetch_ns, 385);
    ck_assert_uint_eq(seen.last_step_requests, 5);
    ck_assert_uint_eq(seen.running, 0);
    ck_assert_uint_eq(seen.free_bytes, kvt_rank_free_bytes(&bench.rank));
    ck_assert_uint_eq(seen.h2d_backlog_bytes, kvt_link_backlog_bytes(&bench.rank.h2d, 7));
    ck_assert_uint_gt(seen.h2d_backlog_bytes, 0);
    ck_assert_uint_eq(bench.lives[0].shared.looked_up_at, 0);
    pick = 0;
    look(8);
    ck_assert_uint_eq(seen.coming_in, 1);
    ck_assert_uint_eq(bench.lives[0].load_tokens, 0);
    bench_import_all();
    pick = UINT32_MAX;
    (void)enqueue(3, PAGES);
    look(9);
    ck_assert_uint_eq(seen.running, 2);
    ck_assert_uint_eq(seen.coming_in, 0);
    stop();
}
END_TEST

START_TEST(who_wants_nothing_is_shown_nothing)
{
    start("hisparse", 2, true);
    (void)enqueue(1, PAGES);
    look(0);
    ck_assert(is_shown);
    watcher.wants_entries = false;
    bench_restart(NULL, &watcher.info);
    (void)enqueue(1, PAGES);
    look(1);
    ck_assert(!is_shown);
    stop();
}
END_TEST

static Suite *entries_suite(void)
{
    Suite *suite = suite_create("entries");
    TCase *request = tcase_create("of a request");
    tcase_add_test(request, what_is_not_known_must_be_computed);
    tcase_add_test(request, what_is_found_in_hbm_need_not_come_up_and_what_is_on_host_must);
    tcase_add_test(request, beside_a_hot_cache_payload_on_host_need_not_come_up);
    tcase_add_test(request, what_another_brings_in_is_in_flight);
    tcase_add_test(request, what_another_loads_is_in_flight_and_counted);
    tcase_add_test(request, a_copy_put_aside_is_found_and_comes_up);
    tcase_add_test(request, who_is_overtaken_is_told_how_often);
    suite_add_tcase(suite, request);
    TCase *rank = tcase_create("of the rank");
    tcase_add_test(rank, who_wants_no_entries_is_shown_the_rank_alone);
    tcase_add_test(rank, who_wants_nothing_is_shown_nothing);
    suite_add_tcase(suite, rank);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(entries_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
