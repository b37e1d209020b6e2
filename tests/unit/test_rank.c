/* test_rank.c -- one rank without a run around it: who is admitted, who grows out of what, and who
 * is put aside. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/rank_bench.h"

START_TEST(slots_are_the_pool_over_what_a_request_must_hold)
{
    /* DESIGN: slots = floor(pool / required at input length). */
    static const char *const policies[] = {"resident", "hisparse", "adaptive"};
    struct kvt_error err = {0};
    uint64_t slots;
    bench_start(policies[_i], 5, 0, 1 << 20);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 5);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT + 1, LONGEST + 1, &slots, NULL, &err),
                     KVT_OK);
    ck_assert_uint_eq(slots, 4);
    ck_assert_uint_eq(bench.rank.page_bytes, PAGE_BYTES);
    bench_stop();
}
END_TEST

START_TEST(two_pools_give_the_slots_of_the_tighter)
{
    struct kvt_error err = {0};
    uint64_t slots;
    bench_start("hisparse", 5, 0, 0);
    bench.env.index_pool_bytes = 3 * (uint64_t)INPUT * INDEX_TOKEN;
    bench.env.rows_pool_bytes = 7 * FIXED_BYTES;
    bench_restart(NULL, NULL);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 3);
    bench_stop();
}
END_TEST

START_TEST(the_nodes_dram_gives_slots_too)
{
    struct kvt_error err = {0};
    uint64_t slots, by_host;
    bench_start("hisparse", 5, 0, 0);
    bench.host.capacity_bytes = 7 * (uint64_t)INPUT * PAYLOAD_TOKEN + 6;
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, &by_host, &err), KVT_OK);
    ck_assert_uint_eq(slots, 5);
    ck_assert_uint_eq(by_host, 7);
    bench.env.host_copies = 2;
    bench_restart(NULL, NULL);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, &by_host, &err), KVT_OK);
    ck_assert_uint_eq(by_host, 3);
    bench_stop();
}
END_TEST

/* The widest call of 8 queries stages 8 x 2,048 rows of 4 layers; a session adds a quarter. */
#define CALL_BYTES ((uint64_t)8 * TOP_K * 4 * 576)
#define SHARE_BYTES (CALL_BYTES / 4)

static void start_sharing(uint64_t pool_bytes)
{
    bench_start("hisparse", 1, 0, 0);
    bench.env.queries_max = 8;
    bench.env.staging_fraction = 0.25;
    bench.env.index_pool_bytes = pool_bytes;
    bench_restart(NULL, NULL);
}

START_TEST(a_rank_keeps_what_its_sessions_do_not_hold_of_the_widest_call)
{
    const uint64_t each = (uint64_t)INPUT * INDEX_TOKEN + FIXED_BYTES + SHARE_BYTES;
    const uint64_t growth = 8 * INDEX_TOKEN, kept = CALL_BYTES - SHARE_BYTES;
    const uint64_t *staged = &bench.rank.memory.used_by_class[KVT_MEM_STAGING];
    struct kvt_error err = {0};
    uint64_t slots;
    start_sharing(kept + 2 * (each + growth));
    ck_assert_uint_eq(*staged, kept);
    ck_assert(kvt_rank_is_sane(&bench.rank, 0));
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 2);
    for (int i = 0; i < 3; i++)
        bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert_uint_eq(*staged, CALL_BYTES + SHARE_BYTES);
    kvt_rank_release(&bench.rank, bench.rank.running.items[0]);
    ck_assert_uint_eq(*staged, CALL_BYTES);
    kvt_rank_release(&bench.rank, bench.rank.running.items[0]);
    ck_assert_uint_eq(*staged, kept);
    bench_stop();
}
END_TEST

START_TEST(nobody_ever_fits_where_the_widest_call_does_not)
{
    const uint64_t each = (uint64_t)INPUT * INDEX_TOKEN + FIXED_BYTES + SHARE_BYTES;
    const uint64_t kept = CALL_BYTES - SHARE_BYTES;
    struct kvt_error err = {0};
    uint64_t slots;
    bool fits;
    for (uint64_t more = 0; more < 2; more++) {
        start_sharing(kept + each - 1 + more);
        ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT, LONGEST, &fits, &err),
                         KVT_OK);
        ck_assert(fits == (more > 0));
        bench_stop();
    }
    start_sharing(kept - 1);
    ck_assert(kvt_rank_is_sane(&bench.rank, 0));
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 0);
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    bench_stop();
}
END_TEST

START_TEST(what_can_be_admitted_and_can_never_grow_never_fits)
{
    struct kvt_error err = {0};
    bool fits;
    bench_start("hisparse", 1, 50 * INDEX_TOKEN, 100 * INDEX_TOKEN);
    /* Growth is taken whole from one place: the reserve of 100 rows, or the pool's 50. */
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 100, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(fits);
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 199, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    ck_assert_int_eq(
        kvt_rank_can_ever_fit(&bench.rank, INPUT + 51, INPUT + 51, LONGEST, &fits, &err), KVT_OK);
    ck_assert(!fits);
    bench.host.capacity_bytes = (uint64_t)INPUT * PAYLOAD_TOKEN;
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 1, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
    bench_stop();
}
END_TEST

START_TEST(requests_are_admitted_and_imported_first_come_first_served)
{
    struct kvt_error err = {0};
    bench_start("hisparse", 2, 0, 1 << 20);
    for (int i = 0; i < 3; i++)
        (void)bench_enqueue();
    bench_boundary(0);
    ck_assert_uint_eq(bench.rank.importing.count, 2);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    ck_assert_uint_eq(bench.rank.counters.admitted, 2);
    ck_assert_uint_eq(bench.rank.counters.admitted_input_tokens, 2 * INPUT);

    struct kvt_live *first, *second;
    kvt_ns duration_ns;
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &first, &duration_ns, &err),
                     KVT_OK);
    ck_assert_uint_eq(first->id, 0);
    ck_assert_int_gt(duration_ns, 0);
    /* One server: the next one's turn has not come. */
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &second, &duration_ns, &err),
                     KVT_OK);
    ck_assert_ptr_null(second);
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, &bench.lives[1], true, &err),
                     KVT_ERR_INTERNAL);
    first->generated_tokens = 1;
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, first, true, &err), KVT_OK);
    ck_assert_uint_eq(bench.rank.running.count, 0); /* it joins at the next boundary */
    bench_boundary(1);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert_ptr_eq(bench.rank.running.items[0], first);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes, (uint64_t)INPUT * INDEX_TOKEN);
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, (uint64_t)INPUT * PAYLOAD_TOKEN);
    bench_stop();
}
END_TEST

START_TEST(growth_comes_out_of_the_reserve_then_the_pool_then_others)
{
    bench_start("hisparse", 2, 2 * INDEX_TOKEN, 2 * INDEX_TOKEN);
    (void)bench_enqueue();
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1); /* one row each */
    ck_assert_uint_eq(bench.rank.memory.reserve_used, 2 * INDEX_TOKEN);
    ck_assert_uint_eq(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_INDEX), 2 * INDEX_TOKEN);
    bench_step(2);
    bench_boundary(2);
    ck_assert_uint_eq(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_INDEX), 0);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    bench_step(3);
    bench_boundary(3);
    /* The last admitted loses its memory, and nobody comes in until somebody has finished. */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 1);
    ck_assert_uint_eq(bench.rank.counters.preemptions, 1);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    ck_assert(bench.rank.admission_held);
    for (kvt_ns now_ns = 4; now_ns < 20; now_ns++) {
        bench_step(now_ns);
        bench_boundary(now_ns);
        ck_assert_uint_eq(bench.rank.waiting.count, 1);
    }
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    bench_boundary(20);
    ck_assert_uint_eq(bench.rank.waiting.count, 0);
    /* It comes in with what it had: the prompt and two rows of answers. They waited on host. */
    ck_assert_uint_eq(bench.lives[1].pages.committed_tokens, INPUT + 2);
    ck_assert_uint_eq(bench.rank.counters.reprefill_tokens, 0);
    ck_assert_uint_eq(bench.rank.counters.admitted, 2);
    bench_stop();
}
END_TEST

START_TEST(growth_is_for_the_widest_round_and_no_further_than_the_last_row)
{
    bench_start("hisparse", 1, 100 * INDEX_TOKEN, 1 << 20);
    bench.env.queries_max = 8;
    bench.env.index_pool_bytes += UINT64_C(1) << 30; /* staging */
    bench_restart(NULL, NULL);
    struct kvt_live *live = bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 8) * INDEX_TOKEN);
    live->round_tokens = 5;
    kvt_live_commit(live, 2);
    live->generated_tokens += 5;
    ck_assert_uint_eq(live->pages.committed_tokens, INPUT + 5);
    ck_assert_uint_eq(live->step, 1);
    bench_boundary(2);
    ck_assert_uint_eq(bench_held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 13) * INDEX_TOKEN);
    live->output_tokens = 10;
    live->generated_tokens = 6;
    live->round_tokens = 2;
    kvt_live_commit(live, 3);
    live->generated_tokens += 2;
    bench_boundary(3); /* INPUT + 7 rows, of INPUT + 9 that there will be: it has room for 13 */
    ck_assert_uint_eq(bench_held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 13) * INDEX_TOKEN);
    bench_stop();
}
END_TEST

START_TEST(whoever_is_put_aside_waits_before_those_who_never_ran)
{
    bench_start("hisparse", 3, 2 * INDEX_TOKEN, 0);
    for (int i = 0; i < 5; i++)
        (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1); /* three rows are wanted and two are there */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 2);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert_uint_eq(bench.rank.waiting.count, 3);
    ck_assert_uint_eq(bench.rank.waiting.items[0]->id, 2);
    ck_assert_uint_eq(bench.rank.waiting.items[1]->id, 3);
    ck_assert_uint_eq(bench.rank.waiting.items[2]->id, 4);
    bench_stop();
}
END_TEST

START_TEST(the_only_request_waits_for_imports_to_free_what_it_needs)
{
    bench_start("hisparse", 2, 0, 0);
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    (void)bench_enqueue();
    bench_boundary(1); /* takes its row of the second place, so that nobody else fits */
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert(!bench.lives[0].blocked);
    ck_assert_uint_eq(bench.rank.importing.count, 0);
    bench_stop();

    bench_start("hisparse", 2, 0, 0);
    (void)bench_enqueue();
    (void)bench_enqueue();
    bench_boundary(0);
    struct kvt_error err = {0};
    struct kvt_live *live;
    kvt_ns duration_ns;
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &live, &duration_ns, &err),
                     KVT_OK);
    live->generated_tokens = 1;
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, live, true, &err), KVT_OK);
    bench_boundary(1);
    ck_assert(bench.lives[0].blocked);
    bench_import_all();
    bench_boundary(2); /* the other one runs too, and goes */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 1);
    ck_assert(!bench.lives[0].blocked);
    bench_stop();
}
END_TEST

/* Puts the request aside that has run longest: a policy that takes from the front. */
static uint32_t preempt_first(void *state, const struct kvt_scheduling_request *running,
                              uint32_t count)
{
    (void)state;
    (void)running;
    return count > 1 ? 0 : count;
}

START_TEST(everybody_grows_whoever_is_put_aside)
{
    struct kvt_scheduling_policy from_the_front;
    bench_start("hisparse", 4, 2 * INDEX_TOKEN, 0);
    from_the_front = *(const struct kvt_scheduling_policy *)(const void *)bench.env.scheduling.info;
    from_the_front.preempt = preempt_first;
    bench_restart(NULL, &from_the_front.info);
    for (int i = 0; i < 4; i++)
        (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(1);
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 0);
    ck_assert_uint_eq(bench.rank.running.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct kvt_live *live = bench.rank.running.items[i];
        ck_assert_uint_eq(live->holding.bytes[KVT_MEM_INDEX], (uint64_t)(INPUT + 1) * INDEX_TOKEN);
    }
    bench_stop();
}
END_TEST

/* Two requests of a policy, the second put aside with INPUT + 2 rows. Its prompt's whole pages have
 * keys: none are known, or as many as there are. */
static void put_second_aside_with(const char *policy, const uint64_t *keys, uint32_t key_count)
{
    uint64_t row = strcmp(policy, "hisparse") ? INDEX_TOKEN + PAYLOAD_TOKEN : INDEX_TOKEN;
    struct kvt_error err = {0};
    bench_start(policy, 2, 2 * row, 2 * row);
    (void)bench_enqueue();
    ck_assert_int_eq(kvt_shared_init(&bench_enqueue()->shared, keys, key_count, &err), KVT_OK);
    bench_boundary(0);
    bench_import_all();
    for (kvt_ns now_ns = 1; now_ns < 3; now_ns++) {
        bench_boundary(now_ns);
        bench_step(now_ns);
    }
    bench_boundary(3);
    ck_assert_uint_eq(bench.put_aside_count, 1);
}

static void put_second_aside(const char *policy)
{
    put_second_aside_with(policy, NULL, 0);
}

/* Under hisparse the prompt's whole pages are the store's, payload on host. */
START_TEST(what_the_store_keeps_of_a_request_put_aside_is_not_kept_twice)
{
    uint64_t keys[INPUT / KVT_PAGE_ROWS];
    const uint32_t pages = INPUT / KVT_PAGE_ROWS;
    for (uint32_t i = 0; i < pages; i++)
        keys[i] = 7 + i;
    put_second_aside_with("hisparse", keys, pages);
    struct kvt_live *live = &bench.lives[1];
    const struct kvt_rank *rank = &bench.rank;
    uint64_t rows = INPUT + 2, others = bench.lives[0].holding.host_bytes;
    ck_assert_uint_eq(live->aside_tokens, rows);
    ck_assert_uint_eq(live->shared.page_count, pages);
    ck_assert_uint_eq(live->shared.host_bytes, pages * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.host.used_bytes - others, rows * (INDEX_TOKEN + PAYLOAD_TOKEN));
    /* Nobody's, were they not held. */
    ck_assert_uint_eq(kvt_prefix_reclaimable_bytes(rank->prefixes.store, KVT_PREFIX_ROWS_HOST), 0);
    if (_i == 0) {
        kvt_rank_release(&bench.rank, &bench.lives[0]);
        bench_boundary(KVT_NS_PER_S);
        bench_import_all();
        bench_boundary(2 * KVT_NS_PER_S);
        ck_assert_uint_eq(rank->running.count, 1);
        ck_assert_uint_eq(rank->counters.reprefill_tokens, 0);
        ck_assert_uint_eq(rank->counters.recalled_bytes, rows * INDEX_TOKEN);
        ck_assert_uint_eq(bench.host.used_bytes, (rows + 1) * PAYLOAD_TOKEN);
        ck_assert_uint_eq(bench_held(live, KVT_MEM_INDEX) + live->shared.bytes[KVT_MEM_INDEX],
                          (rows + 1) * INDEX_TOKEN);
        ck_assert_uint_eq(live->shared.bytes[KVT_MEM_INDEX], pages * 64 * INDEX_TOKEN);
    } else { /* no room on host for a row of the other: the copy goes, what the store had with it */
        bench.host.capacity_bytes = bench.host.used_bytes;
        bench_step(5);
        bench_boundary(5);
        ck_assert_uint_eq(live->aside_tokens, 0);
        ck_assert_uint_eq(live->shared.page_count, 0);
        ck_assert(!bench.lives[0].blocked);
    }
    kvt_rank_release(&bench.rank, live);
    kvt_shared_fini(&live->shared);
    bench_stop();
}
END_TEST

START_TEST(rows_of_a_request_put_aside_wait_on_host_and_come_up_from_there)
{
    static const char *const policies[] = {"hisparse", "prefix-offload", "resident"};
    bool keeps = _i < 2;
    put_second_aside(policies[_i]);
    struct kvt_live *live = &bench.lives[1];
    uint64_t rows = INPUT + 2;
    uint64_t copy_bytes = rows * (INDEX_TOKEN + PAYLOAD_TOKEN);
    ck_assert_uint_eq(live->aside_tokens, keeps ? rows : 0);
    ck_assert_uint_eq(live->holding.host_bytes, keeps ? copy_bytes : 0);
    uint64_t outside = bench.rank.counters.import_hbm_bytes + bench.rank.counters.import_host_bytes;
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    bench_boundary(KVT_NS_PER_S);
    bench_import_all();
    ck_assert_uint_eq(bench.rank.counters.reprefill_tokens, keeps ? 0 : rows);
    uint64_t now_outside =
        bench.rank.counters.import_hbm_bytes + bench.rank.counters.import_host_bytes;
    ck_assert_uint_eq(now_outside == outside, keeps);
    ck_assert_uint_eq(bench.rank.counters.recalled_bytes,
                      keeps ? rows * (_i == 0 ? INDEX_TOKEN : INDEX_TOKEN + PAYLOAD_TOKEN) : 0);
    ck_assert_uint_eq(live->holding.host_bytes, _i == 0 ? rows * PAYLOAD_TOKEN : 0);
    bench_boundary(2 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    bench_stop();
}
END_TEST

START_TEST(copies_of_requests_put_aside_go_when_somebody_needs_the_dram)
{
    put_second_aside("hisparse");
    struct kvt_live *live = &bench.lives[1];
    ck_assert_uint_gt(live->aside_tokens, 0);
    /* The node is full: the one that runs wants another row's copy. */
    bench.host.capacity_bytes = bench.host.used_bytes;
    bench_step(5);
    bench_boundary(5);
    ck_assert_uint_eq(live->aside_tokens, 0);
    ck_assert_uint_eq(live->holding.host_bytes, 0);
    ck_assert_uint_eq(bench.rank.counters.copies_dropped, 1);
    ck_assert(!bench.lives[0].blocked);
    bench_stop();
}
END_TEST

static Suite *rank_suite(void)
{
    Suite *suite = suite_create("rank");
    TCase *tcase = tcase_create("rank");
    tcase_add_loop_test(tcase, slots_are_the_pool_over_what_a_request_must_hold, 0, 3);
    tcase_add_test(tcase, two_pools_give_the_slots_of_the_tighter);
    tcase_add_test(tcase, a_rank_keeps_what_its_sessions_do_not_hold_of_the_widest_call);
    tcase_add_test(tcase, nobody_ever_fits_where_the_widest_call_does_not);
    tcase_add_test(tcase, the_nodes_dram_gives_slots_too);
    tcase_add_test(tcase, what_can_be_admitted_and_can_never_grow_never_fits);
    tcase_add_test(tcase, requests_are_admitted_and_imported_first_come_first_served);
    tcase_add_test(tcase, growth_comes_out_of_the_reserve_then_the_pool_then_others);
    tcase_add_test(tcase, growth_is_for_the_widest_round_and_no_further_than_the_last_row);
    tcase_add_test(tcase, whoever_is_put_aside_waits_before_those_who_never_ran);
    tcase_add_test(tcase, the_only_request_waits_for_imports_to_free_what_it_needs);
    tcase_add_test(tcase, everybody_grows_whoever_is_put_aside);
    tcase_add_loop_test(tcase, rows_of_a_request_put_aside_wait_on_host_and_come_up_from_there, 0,
                        3);
    tcase_add_loop_test(tcase, what_the_store_keeps_of_a_request_put_aside_is_not_kept_twice, 0, 2);
    tcase_add_test(tcase, copies_of_requests_put_aside_go_when_somebody_needs_the_dram);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(rank_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
