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

/* Two requests of a policy, the second put aside with INPUT + 2 rows. */
static void put_second_aside(const char *policy)
{
    uint64_t row = strcmp(policy, "hisparse") ? INDEX_TOKEN + PAYLOAD_TOKEN : INDEX_TOKEN;
    bench_start(policy, 2, 2 * row, 2 * row);
    (void)bench_enqueue();
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    for (kvt_ns now_ns = 1; now_ns < 3; now_ns++) {
        bench_boundary(now_ns);
        bench_step(now_ns);
    }
    bench_boundary(3);
    ck_assert_uint_eq(bench.put_aside_count, 1);
}

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
