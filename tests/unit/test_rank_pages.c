/* test_rank_pages.c -- when pages of a rank count: on their way up, landing from outside, waiting
 * for their copy. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/rank_bench.h"

START_TEST(pages_count_when_they_leave_and_are_ready_at_a_boundary_behind_their_transfer)
{
    bench_start_filling(4);
    struct kvt_live *live = &bench.lives[0];
    /* 1,000 rows: 14 pages are out of the tail; there is room for 4 and a second request. */
    ck_assert_uint_eq(live->pages.eligible_pages, 14);
    ck_assert_uint_eq(live->pages.filling_pages, 14);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    ck_assert_uint_eq(live->holding.bytes[KVT_MEM_PAYLOAD], 14 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.fill_bytes, 14 * (uint64_t)PAGE_BYTES);
    kvt_ns done_ns = bench.rank.h2d.free_ns;
    ck_assert_int_eq(done_ns, KVT_NS_PER_S + INT64_C(814889)); /* 40,255,488 B at 49.4 GB/s, up */
    bench_boundary(done_ns - 1);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    bench_boundary(done_ns);
    ck_assert_uint_eq(live->pages.optional_pages, 14);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 14);
    ck_assert_uint_eq(bench.rank.ready_rows, 14 * 64);
    ck_assert_uint_eq(bench.rank.eligible_rows, 14 * 64);
    bench_stop();
}
END_TEST

START_TEST(optional_pages_give_way_to_a_request_and_to_growth)
{
    bench_start_filling(4);
    bench_boundary(2 * KVT_NS_PER_S);
    (void)bench_enqueue();
    bench_boundary(3 * KVT_NS_PER_S);
    /* Released to the page: the second one fits, the lowest pages have gone. */
    ck_assert_uint_eq(bench.rank.importing.count, 1);
    struct kvt_live *live = &bench.lives[0];
    uint64_t kept = live->pages.optional_pages;
    ck_assert_uint_eq(kept, 4);
    ck_assert_uint_eq(bench.rank.counters.pages_released, 10);
    ck_assert_uint_eq(live->pages.ready_bits[0], UINT64_C(0xf) << 10);
    ck_assert_uint_eq(bench.rank.counters.preemptions, 0);
    bench_stop();
}
END_TEST

START_TEST(pages_on_their_way_to_a_request_that_has_gone_are_nobodys)
{
    bench_start_filling(4);
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    ck_assert_uint_eq(kvt_rank_memory_used(&bench.rank.memory), 0);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
    bench_boundary(10 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.fill_count, 0);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 0);
    bench_stop();
}
END_TEST

/* Two requests, and room for a row each and two pages of history. The pages are on
 * their way up when the next row is asked for: it waits for them to land, goes on by
 * releasing one, and nobody loses his place. */
START_TEST(nobody_is_put_aside_for_pages_on_their_way_up)
{
    bench_start("adaptive", 2, 2 * INDEX_TOKEN + 2 * (uint64_t)PAGE_BYTES + 100, 0);
    (void)bench_enqueue();
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 0);
    ck_assert_uint_eq(bench.rank.fill_count, 2);
    bench_step(KVT_NS_PER_S);
    bench_boundary(KVT_NS_PER_S + 1);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    ck_assert(bench.rank.running.items[0]->blocked);
    bench_boundary(2 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert(!bench.rank.running.items[0]->blocked && !bench.rank.running.items[1]->blocked);
    ck_assert_uint_ge(bench.rank.counters.pages_released, 1);
    bench_stop();
}
END_TEST

START_TEST(a_link_carries_one_transfer_after_the_other)
{
    struct kvt_link link = {.bytes_per_s = 1000000000};
    ck_assert_int_eq(kvt_link_send(&link, 100, 50), 150);
    ck_assert_int_eq(kvt_link_send(&link, 120, 10), 160);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 130), 30);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 160), 0);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 1000), 0);
    ck_assert_int_eq(kvt_link_send(&link, 1000, 1), 1001);
    link.bytes_per_s = 3; /* rounds up */
    ck_assert_int_eq(kvt_link_send(&link, 2000, 1), 2000 + 333333334);
}
END_TEST

START_TEST(deferred_rows_stay_in_hbm_while_there_is_room)
{
    bench_start("adaptive", 1, 3 * PAGE_BYTES, 1 << 20);
    bench_obey(bench_lazy);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    kvt_ns now_ns = 1;
    bench_boundary(now_ns);
    ck_assert_int_eq(kvt_rank_queue_backup(&bench.rank, now_ns, 1), now_ns);
    for (int i = 0; i < 150; i++) {
        bench_step(now_ns);
        bench_boundary(++now_ns);
        ck_assert_int_eq(kvt_pages_tail_ready_ns(&live->pages, 1, now_ns), now_ns);
    }
    /* 1,150 rows: pages 15 and 16 have begun to leave, and were not on host. */
    ck_assert_uint_eq(live->pages.kept_pages, 2);
    ck_assert_uint_eq(bench.rank.counters.pages_kept, 2);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), 2 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes, 0);
    ck_assert_uint_eq(live->pages.backed_tokens, INPUT);
    bench_act(++now_ns, KVT_RESIDENCY_BACKUP, 0, 1150);
    bench_boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.optional_pages, 1); /* without a refill */
    ck_assert_uint_eq(bench.rank.counters.fill_bytes, 0);
    bench_stop();
}
END_TEST

START_TEST(deferred_rows_without_room_are_written_and_awaited)
{
    bench_start("adaptive", 1, 0, 1 << 20);
    bench_obey(bench_lazy);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    kvt_ns now_ns = 1, stalled_ns = 0;
    bench_boundary(now_ns);
    for (int i = 0; i < 150; i++) {
        bench_step(now_ns);
        bench_boundary(++now_ns);
        kvt_ns ready_ns = kvt_pages_tail_ready_ns(&live->pages, 1, now_ns);
        stalled_ns += ready_ns - now_ns;
        now_ns = ready_ns;
    }
    ck_assert_uint_eq(live->pages.kept_pages, 0);
    ck_assert_uint_gt(bench.rank.counters.backup_forced, 0);
    ck_assert_int_gt(stalled_ns, 0);
    ck_assert(kvt_rank_is_sane(&bench.rank, now_ns));
    bench_stop();
}
END_TEST

static struct kvt_residency_landing next_landing;

static void land_as_told(void *state, const struct kvt_residency_view *view,
                         const struct kvt_residency_import *import,
                         struct kvt_residency_landing *landing)
{
    (void)state;
    (void)view;
    ck_assert_uint_eq(import->page_count, 15);
    *landing = next_landing;
}

START_TEST(history_that_lands_in_hbm_does_not_come_to_host_from_outside)
{
    bench_start("adaptive", 1, 20 * PAGE_BYTES, 1 << 20);
    bench_obey(_i ? bench_lazy : bench_plain);
    bench_rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){4, _i};
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    ck_assert_uint_eq(bench.rank.counters.pages_landed, 4);
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, 11 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes,
                      (uint64_t)INPUT * INDEX_TOKEN + 4 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), 4 * (uint64_t)PAGE_BYTES);
    bench_boundary(1);
    ck_assert_uint_eq(live->pages.kept_pages, 4);
    bench_boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.optional_pages, _i ? 0 : 3);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes,
                      _i ? 0 : (INPUT - 11 * 64) * (uint64_t)PAYLOAD_TOKEN);
    bench_stop();
}
END_TEST

START_TEST(no_more_lands_than_fits)
{
    bench_start("adaptive", 1, 2 * PAGE_BYTES + 5, 1 << 20);
    bench_obey(bench_plain);
    bench_rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){UINT32_MAX, false};
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    ck_assert_uint_eq(bench.rank.counters.pages_landed, 2);
    bench_stop();
}
END_TEST

START_TEST(landing_without_a_copy_needs_deferred_backup)
{
    struct kvt_error err = {0};
    struct kvt_live *live;
    kvt_ns duration_ns;
    bench_start("adaptive", 1, 20 * PAGE_BYTES, 1 << 20);
    bench_obey(bench_plain);
    bench_rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){4, true};
    (void)bench_enqueue();
    bench_boundary(0);
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, 0, &live, &duration_ns, &err),
                     KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "no deferred_backup"));
    bench_stop();
}
END_TEST

static Suite *rank_pages_suite(void)
{
    Suite *suite = suite_create("rank_pages");
    TCase *tcase = tcase_create("rank_pages");
    tcase_add_test(tcase,
                   pages_count_when_they_leave_and_are_ready_at_a_boundary_behind_their_transfer);
    tcase_add_test(tcase, optional_pages_give_way_to_a_request_and_to_growth);
    tcase_add_test(tcase, pages_on_their_way_to_a_request_that_has_gone_are_nobodys);
    tcase_add_test(tcase, nobody_is_put_aside_for_pages_on_their_way_up);
    tcase_add_test(tcase, a_link_carries_one_transfer_after_the_other);
    tcase_add_test(tcase, deferred_rows_stay_in_hbm_while_there_is_room);
    tcase_add_test(tcase, deferred_rows_without_room_are_written_and_awaited);
    tcase_add_loop_test(tcase, history_that_lands_in_hbm_does_not_come_to_host_from_outside, 0, 2);
    tcase_add_test(tcase, no_more_lands_than_fits);
    tcase_add_test(tcase, landing_without_a_copy_needs_deferred_backup);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(rank_pages_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
