/* test_rank_policy.c -- what a residency policy may do to a rank, and what it may not. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/rank_bench.h"

START_TEST(a_policy_that_does_what_it_may_not_is_named)
{
    static const struct {
        struct kvt_residency_action action;
        kvt_status status;
        const char *words;
    } cases[] = {
        {{KVT_RESIDENCY_RELEASE, 0, 0, 1}, KVT_ERR_POLICY, "not all of them are optional"},
        {{KVT_RESIDENCY_RELEASE, 0, 0, 0}, KVT_ERR_POLICY, "not all of them are optional"},
        {{KVT_RESIDENCY_RELEASE, 9, 0, 1}, KVT_ERR_POLICY, "request 9, which is not running"},
        {{KVT_RESIDENCY_REFILL, 0, 14, 1}, KVT_ERR_POLICY, "not all of them are backed"},
        {{KVT_RESIDENCY_REFILL, 0, 14, 1}, KVT_ERR_POLICY, "contract: the tail is never lent"},
        {{KVT_RESIDENCY_RELEASE, 0, 13, 2}, KVT_ERR_POLICY, "contract: the tail is never lent"},
        {{KVT_RESIDENCY_RELEASE, 0, 0, 1},
         KVT_ERR_POLICY,
         "contract: only optional pages in HBM are released"},
        {{KVT_RESIDENCY_REFILL, 0, 0, UINT32_MAX}, KVT_ERR_POLICY, "not all of them are backed"},
        {{KVT_RESIDENCY_REFILL, 0, 0, 3}, KVT_ERR_POLICY, "has not that much free"},
        {{KVT_RESIDENCY_DEMOTE, 0, 0, 0}, KVT_ERR_POLICY, "which frees nothing"},
        {{KVT_RESIDENCY_DEMOTE, 9, 0, 0}, KVT_ERR_POLICY, "request 9, which is not running"},
        {{KVT_RESIDENCY_RESIZE, 0, 0, 0}, KVT_ERR_POLICY, "1 to 1200, which is residency.hot"},
        {{KVT_RESIDENCY_RESIZE, 0, 0, 1201}, KVT_ERR_POLICY, "a hot cache of 1201 tokens"},
        {{KVT_RESIDENCY_BACKUP, 0, 0, 1000},
         KVT_ERR_POLICY,
         "of which 1000 are committed and 1000"},
        {{KVT_RESIDENCY_BACKUP, 0, 0, 1001}, KVT_ERR_POLICY, "more than these and at most those"},
        {{5, 0, 0, 1}, KVT_ERR_POLICY, "release, refill, backup, resize and demote"},
    };
    struct kvt_error err = {0};
    bench_start("adaptive", 1, 2 * PAGE_BYTES + 10 * INDEX_TOKEN, 0);
    bench_obey((struct kvt_residency_needs){.host_backing = true, .optional_pages = true});
    bench_next_action = cases[_i].action;
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    ck_assert_int_eq(bench_try_boundary(1, &err), cases[_i].status);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_msg(strstr(err.message, cases[_i].words) != NULL, "%s", err.message);
    ck_assert(kvt_rank_is_sane(&bench.rank, bench.now_ns));
    bench_stop();
}
END_TEST

START_TEST(a_policy_that_refills_under_pressure_is_named)
{
    struct kvt_error err = {0};
    bench_start_filling(0);
    bench_rogue = *(const struct kvt_residency_policy *)(const void *)bench.env.residency.info;
    bench_rogue.info.name = "rogue";
    bench_rogue.reclaim = bench_reclaim_once;
    bench.rank.residency = &bench_rogue;
    bench_next_action = (struct kvt_residency_action){KVT_RESIDENCY_REFILL, 0, 0, 1};
    bench_boundary(2 * KVT_NS_PER_S);
    (void)bench_enqueue();
    ck_assert_int_eq(bench_try_boundary(3 * KVT_NS_PER_S, &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "other than a release or a demotion"));
    bench_stop();
}
END_TEST

static uint32_t release_nothing(void *state, const struct kvt_residency_view *view,
                                uint64_t want_bytes, struct kvt_residency_action *actions,
                                uint32_t capacity)
{
    (void)state;
    (void)view;
    (void)want_bytes;
    (void)actions;
    (void)capacity;
    return 0;
}

START_TEST(a_policy_that_releases_nothing_under_pressure_is_named)
{
    struct kvt_error err = {0};
    bench_start_filling(0);
    bench_rogue = *(const struct kvt_residency_policy *)(const void *)bench.env.residency.info;
    bench_rogue.info.name = "rogue";
    bench_rogue.reclaim = release_nothing;
    bench.rank.residency = &bench_rogue;
    bench_next_action = (struct kvt_residency_action){KVT_RESIDENCY_REFILL, 0, 0, 1};
    bench_boundary(2 * KVT_NS_PER_S);
    (void)bench_enqueue();
    ck_assert_int_eq(bench_try_boundary(3 * KVT_NS_PER_S, &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_msg(strstr(err.message,
                         "bytes of optional pages could go, it released nothing; "
                         "contract: optional pages are released under pressure") != NULL,
                  "%s", err.message);
    bench_stop();
}
END_TEST

START_TEST(optional_pages_without_a_way_to_reclaim_them_are_refused)
{
    struct kvt_error err = {0};
    bench_start("adaptive", 1, 0, 0);
    bench_obey(bench_plain);
    const struct kvt_residency_policy whole = bench_rogue;
    bench_rogue.reclaim = NULL;
    kvt_rank_fini(&bench.rank);
    ck_assert_int_eq(kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, &err),
                     KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "its table has no reclaim()"));
    bench_rogue = whole;
    bench_obey(bench_plain);
    bench_stop();
}
END_TEST

static uint32_t pick_outside(void *state, const struct kvt_scheduling_view *view,
                             const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)view;
    (void)waiting;
    return count + 1;
}

START_TEST(a_scheduler_that_picks_nobody_there_is_named)
{
    struct kvt_error err = {0};
    bench_start("adaptive", 1, 0, 0);
    struct kvt_scheduling_policy rogue = *bench.rank.scheduling;
    rogue.info.name = "rogue";
    rogue.next = pick_outside;
    bench.rank.scheduling = &rogue;
    (void)bench_enqueue();
    ck_assert_int_eq(bench_try_boundary(0, &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_str_eq(err.message, "next() returned 2 of 1 requests; contract: an index, or the "
                                  "count for nobody");
    bench_stop();
}
END_TEST

START_TEST(needs_that_contradict_each_other_are_named)
{
    static const struct kvt_residency_needs cases[] = {
        {.history_in_hbm = true, .optional_pages = true, .host_backing = true},
        {.history_in_hbm = true, .starts_whole = true, .host_backing = true},
        {.optional_pages = true},
        {.starts_whole = true},
        {.history_in_hbm = true, .deferred_backup = true},
        {.host_backing = true, .offloads_whole = true}};
    struct kvt_error err = {0};
    bench_start("adaptive", 1, 0, 0);
    ck_assert_int_eq(bench_try_to_obey(cases[_i], &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "needs()"));
    bench_obey(bench_plain);
    bench_stop();
}
END_TEST

START_TEST(a_whole_request_holds_its_rows_and_no_hot_cache)
{
    bench_start("adaptive", 2, 0, 1 << 20);
    bench_obey(bench_hybrid);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->hot_tokens, 0);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), (uint64_t)INPUT * PAYLOAD_TOKEN);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_HOT) + bench_held(live, KVT_MEM_TAIL), 0);
    ck_assert_uint_eq(live->hot_cost_bytes, FIXED_BYTES);
    bench_import_all();
    /* It came into HBM, and not to host as well; there is room for its copy. */
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, 0);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes,
                      (uint64_t)INPUT * (INDEX_TOKEN + PAYLOAD_TOKEN));
    ck_assert_uint_eq(live->holding.host_bytes, (uint64_t)INPUT * PAYLOAD_TOKEN);
    ck_assert_uint_eq(live->pages.backed_tokens, 0);
    bench_boundary(1);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), (uint64_t)(INPUT + 1) * PAYLOAD_TOKEN);
    ck_assert_uint_eq(bench.rank.eligible_rows, 0); /* nothing has a copy yet */
    bench_act(2, KVT_RESIDENCY_BACKUP, 0, 640);
    bench_boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.backed_tokens, 640);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes, 640 * PAYLOAD_TOKEN);
    ck_assert_uint_eq(bench.rank.ready_rows, 640);
    ck_assert_uint_eq(bench.rank.eligible_rows, 640);
    bench_stop();
}
END_TEST

/* One of 10,000 tokens, so that a hot cache of top_k rows is the smaller way to hold it. */
static struct kvt_live *enqueue_long(void)
{
    struct kvt_live *live = bench_enqueue();
    live->input_tokens = LONG;
    live->max_tokens = LONG + OUTPUT;
    return live;
}

START_TEST(where_a_request_does_not_fit_whole_it_starts_with_a_hot_cache)
{
    /* Room for one whole request and the hot cache of another, or a byte less. */
    bench_start("adaptive", 1, 0, 1 << 20);
    bench.env.hot_tokens = TOP_K;
    bench.env.index_pool_bytes =
        (uint64_t)LONG * (2 * INDEX_TOKEN + PAYLOAD_TOKEN) + HOT_BYTES - (_i ? 1 : 0);
    bench_obey(bench_hybrid);
    const struct kvt_live *first = enqueue_long(), *second = enqueue_long();
    bench_boundary(0);
    ck_assert(first->pages.whole);
    ck_assert_uint_eq(bench.rank.importing.count, _i ? 1 : 2);
    ck_assert_uint_eq(second->hot_tokens, _i ? 0 : TOP_K);
    ck_assert_uint_eq(bench_held(second, KVT_MEM_HOT) + bench_held(second, KVT_MEM_TAIL),
                      _i ? 0 : HOT_BYTES);
    ck_assert_uint_eq(bench_held(second, KVT_MEM_PAYLOAD), 0);
    /* Slots count requests as small as they can be held. */
    struct kvt_error err = {0};
    uint64_t slots;
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, LONG, LONG + OUTPUT, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, bench.env.index_pool_bytes / (LONG * INDEX_TOKEN + HOT_BYTES));
    bench_stop();
}
END_TEST

START_TEST(a_resize_is_due_at_the_next_boundary_and_parts_a_whole_request)
{
    bench_start("adaptive", 3, 0, 1 << 20);
    bench_obey(bench_hybrid);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    bench_act(2, KVT_RESIDENCY_BACKUP, 0, INPUT);
    bench_act(KVT_NS_PER_S, KVT_RESIDENCY_RESIZE, 10, LONGEST);
    ck_assert_uint_eq(bench.resized_count, 0);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->next_hot_tokens, LONGEST);
    bench_boundary(KVT_NS_PER_S + 1);
    ck_assert_uint_eq(bench.resized_count, 1);
    ck_assert_uint_eq(live->hot_tokens, LONGEST);
    ck_assert_uint_eq(live->next_hot_tokens, 0);
    /* 14 clean pages, of which 10 stay, and the page that is partly in the tail. */
    ck_assert_uint_eq(live->pages.optional_pages, 10);
    ck_assert_uint_eq(live->pages.kept_pages, 1);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), 11 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_HOT) + bench_held(live, KVT_MEM_TAIL), FIXED_BYTES);
    ck_assert_uint_eq(bench.rank.counters.pages_released, 4);
    /* As much again: nothing changes hands, and nobody is told. */
    bench_act(KVT_NS_PER_S + 2, KVT_RESIDENCY_RESIZE, UINT32_MAX, LONGEST);
    bench_boundary(KVT_NS_PER_S + 3);
    ck_assert_uint_eq(bench.resized_count, 0);
    ck_assert_uint_eq(live->pages.optional_pages, 10);
    bench_stop();
}
END_TEST

START_TEST(a_resize_without_room_waits_for_it)
{
    bench_start("adaptive", 1, 0, 1 << 20);
    bench.env.index_pool_bytes = (uint64_t)INPUT * (INDEX_TOKEN + PAYLOAD_TOKEN) + 4096;
    bench_obey(bench_hybrid);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    /* No page is on host, so that none can go for the hot cache. */
    bench_act(2, KVT_RESIDENCY_RESIZE, 0, LONGEST);
    bench_boundary(3);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->next_hot_tokens, LONGEST);
    bench_stop();
}
END_TEST

START_TEST(a_demotion_leaves_what_is_protected)
{
    bench_start("adaptive", 1, 0, 1 << 20);
    bench.env.hot_tokens = TOP_K;
    bench.env.index_pool_bytes = (uint64_t)LONG * (INDEX_TOKEN + PAYLOAD_TOKEN) + 4096;
    bench_obey(bench_hybrid);
    const struct kvt_live *live = enqueue_long();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    bench_act(2, KVT_RESIDENCY_BACKUP, 0, 9900);
    bench_boundary(KVT_NS_PER_S);
    /* There is no room beside it: its own pages make it. */
    uint64_t free_bytes = kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_PAYLOAD);
    bench_act(KVT_NS_PER_S + 1, KVT_RESIDENCY_DEMOTE, 0, 0);
    ck_assert_uint_eq(bench.resized_count, 1);
    ck_assert_uint_eq(bench.rank.counters.demotions, 1);
    ck_assert_uint_eq(live->hot_tokens, TOP_K);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    ck_assert_uint_eq(live->pages.kept_pages, 2); /* rows 9,856 to 9,936 are out of the tail */
    ck_assert_uint_eq(bench_held(live, KVT_MEM_PAYLOAD), 2 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_gt(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_PAYLOAD),
                      free_bytes + 7000 * (uint64_t)PAYLOAD_TOKEN);
    bench_stop();
}
END_TEST

static Suite *rank_policy_suite(void)
{
    Suite *suite = suite_create("rank_policy");
    TCase *tcase = tcase_create("rank_policy");
    tcase_add_loop_test(tcase, a_policy_that_does_what_it_may_not_is_named, 0, 16);
    tcase_add_test(tcase, a_policy_that_refills_under_pressure_is_named);
    tcase_add_test(tcase, a_policy_that_releases_nothing_under_pressure_is_named);
    tcase_add_test(tcase, optional_pages_without_a_way_to_reclaim_them_are_refused);
    tcase_add_test(tcase, a_scheduler_that_picks_nobody_there_is_named);
    tcase_add_loop_test(tcase, needs_that_contradict_each_other_are_named, 0, 6);
    tcase_add_test(tcase, a_whole_request_holds_its_rows_and_no_hot_cache);
    tcase_add_loop_test(tcase, where_a_request_does_not_fit_whole_it_starts_with_a_hot_cache, 0, 2);
    tcase_add_test(tcase, a_resize_is_due_at_the_next_boundary_and_parts_a_whole_request);
    tcase_add_test(tcase, a_resize_without_room_waits_for_it);
    tcase_add_test(tcase, a_demotion_leaves_what_is_protected);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(rank_policy_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
