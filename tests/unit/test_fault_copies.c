/* test_fault_copies.c -- what is kept on host of requests whose rank fails, and what is lost. */
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "cluster_faults.h"

/* ---- What is kept -------------------------------------------------------------------------- */

/* Every row is on host between two steps whose write-backs are quick. */
static void fail_with_copies(struct small_run *small, const char *host_copy, uint32_t *context)
{
    char faults[200];
    const kvt_ns at_ns = 20 * KVT_NS_PER_S / 100;

    (void)snprintf(faults, sizeof faults,
                   "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 0, \"host_copy\": \"%s\"}]",
                   host_copy);
    open_with(small, imported_text, faults, NULL);
    advance(small, at_ns - 1);
    const struct kvt_live *live = small->sim->live[0];
    *context = kvt_live_context(live);
    ck_assert_uint_eq(small->sim->ranks[0].running.count, 1);
    ck_assert_uint_gt(live->generated_tokens, 1);
    ck_assert_int_le(small->sim->ranks[0].d2h.free_ns, at_ns); /* nothing is on its way */
    small_run_finish(small);
    ck_assert_int_eq(small->status, KVT_OK);
}

/* With index rows on host it takes no more than to bring these up. */
START_TEST(rows_kept_with_their_index_come_up_from_host)
{
    struct small_run small;
    uint32_t context;

    fail_with_copies(&small, "kept_with_index", &context);
    const struct kvt_fault_report *report = &small.run->faults[0];
    ck_assert_uint_eq(report->kept_tokens, context);
    ck_assert_uint_eq(small.run->total.reprefill_tokens, 0);
    uint64_t bytes = index_bytes(&small, context);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(report->recovered_ns - report->fault->at_ns,
                     kvt_ns_for_bytes(bytes, small.sim->ranks[1].h2d.bytes_per_s));
    ck_assert_uint_eq(small.run->total.recall_bytes, bytes);
    small_run_close(&small);
}
END_TEST

/* Without, they come in from outside as they did at first, at 0.05 GB/s into HBM. */
START_TEST(payload_kept_alone_saves_its_own_way_in)
{
    struct small_run small;
    uint32_t context;

    fail_with_copies(&small, "kept", &context);
    const struct kvt_fault_report *report = &small.run->faults[0];
    ck_assert_uint_eq(report->kept_tokens, context);
    ck_assert_int_eq(report->recovered_ns - report->fault->at_ns,
                     kvt_ns_for_bytes(index_bytes(&small, context), 50000000));
    ck_assert_uint_eq(small.run->total.recall_bytes, 0);
    ck_assert_uint_eq(small.run->total.reprefill_tokens, context); /* something of each */
    ck_assert_uint_eq(small.run->total.import_hbm_bytes,
                      index_bytes(&small, 640) + index_bytes(&small, context));
    small_run_close(&small);
}
END_TEST

START_TEST(with_nothing_kept_all_of_it_comes_in_again)
{
    struct small_run lost, kept;
    uint32_t context;

    fail_with_copies(&kept, "kept", &context);
    fail_with_copies(&lost, "lost", &context);
    const struct kvt_fault_report *report = &lost.run->faults[0];
    ck_assert_uint_eq(report->kept_tokens, 0);
    ck_assert_uint_eq(report->host_kept_bytes, 0);
    ck_assert_uint_gt(report->host_lost_bytes, 0);
    ck_assert_uint_gt(kept.run->faults[0].host_kept_bytes, 0);
    ck_assert_uint_eq(lost.run->total.reprefill_tokens, context);
    ck_assert_int_gt(report->recovered_ns, kept.run->faults[0].recovered_ns);
    /* As long as one that comes in with so many tokens: the longer the way, the later. */
    kvt_ns first_ns = lost.run->records[0].first_token_ns;
    ck_assert_int_gt(report->recovered_ns - report->fault->at_ns, first_ns);
    small_run_close(&lost);
    small_run_close(&kept);
}
END_TEST

/* Where prompts are computed, payload without index rows is of no use: it is computed all. */
START_TEST(payload_alone_spares_no_prefill)
{
    static const char *const copies[] = {"kept", "kept_with_index"};
    static const char text[] = SCENARIO(TWO, COMPUTED_HERE, HISPARSE);

    for (int i = 0; i < 2; i++) {
        struct small_run small;
        char faults[200];
        (void)snprintf(faults, sizeof faults,
                       "[{\"kind\": \"rank\", \"at_s\": 0.7, \"which\": 0, \"host_copy\": \"%s\"}]",
                       copies[i]);
        run_with(&small, text, faults);
        const struct kvt_fault_report *report = &small.run->faults[0];
        double took_s = (double)(report->recovered_ns - report->fault->at_ns) * 1e-9;
        ck_assert_uint_eq(report->running, 1);
        if (i == 0) {
            ck_assert_uint_eq(report->kept_tokens, 0);
            ck_assert_double_ge(took_s, (double)report->context_tokens * 1e-3);
        } else {
            ck_assert_uint_gt(report->kept_tokens, 640);
            ck_assert_double_le(took_s, 0.01);
        }
        small_run_close(&small);
    }
}
END_TEST

/* A node of its own each: copies that are kept are out of reach, and room is given back. */
START_TEST(copies_on_another_node_are_given_up)
{
    struct small_run small;

    open_with(&small, imported_text,
              "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 0, \"host_copy\": "
              "\"kept_with_index\"}]",
              "cluster.decode.gpus_per_node=1");
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->records[0].rank, 1);
    ck_assert_uint_gt(small.run->total.reprefill_tokens, 640);
    ck_assert_uint_eq(small.sim->hosts[0].used_bytes, 0);
    small_run_close(&small);
}
END_TEST

/* With no rank of any node up, a copy waits for its own to come back. */
START_TEST(a_copy_is_there_when_its_rank_comes_back)
{
    struct small_run small;

    open_with(&small, SCENARIO("\"gpus\": 1", IMPORTED, HISPARSE),
              "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 0, \"back_after_s\": 1, "
              "\"host_copy\": \"kept_with_index\"}]",
              NULL);
    advance(&small, KVT_NS_PER_S / 2);
    ck_assert_uint_eq(small.sim->faults.homeless_count, 1);
    ck_assert_uint_gt(small.sim->hosts[0].used_bytes, 0);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->total.reprefill_tokens, 0);
    ck_assert_uint_gt(small.run->total.recall_bytes, 0);
    small_run_close(&small);
}
END_TEST

/* Back at once, and with its rows: it steps anew before the lost step would have ended, which
 * delivers nothing all the same. */
START_TEST(a_lost_step_never_ends)
{
    struct small_run small;
    const kvt_ns at_ns = 2 * KVT_NS_PER_S / 10;
    bool more = true;

    open_with(&small, SCENARIO("\"gpus\": 1", IMPORTED, HISPARSE),
              "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 0, \"back_after_s\": 1e-6, "
              "\"host_copy\": \"kept_with_index\"}]",
              NULL);
    advance(&small, at_ns - 1);
    const struct kvt_live *live = small.sim->live[0];
    kvt_ns step_ns = small.sim->ranks[0].last_step_ns;
    uint32_t before = live->generated_tokens;
    ck_assert(small.sim->groups[0].stepping);
    while (more && live->generated_tokens == before)
        ck_assert_int_eq(kvt_sim_step(small.sim, &more, &small.err), KVT_OK);
    kvt_ns recovered_ns = small.sim->faults.reports[0].recovered_ns;
    ck_assert_int_lt(recovered_ns, at_ns + step_ns / 4);
    ck_assert_int_eq(kvt_sim_now_ns(small.sim), recovered_ns + small.sim->ranks[0].last_step_ns);
    small_run_close(&small);
}
END_TEST

/* Of a whole request too rows without a copy come in again, and are written then. A link of 5 MB/s
 * has the prompt on host after half a second, and lags behind what is generated. */
START_TEST(rows_that_were_not_on_host_yet_come_in_and_are_written)
{
    struct small_run small;
    const char *const sets[] = {
        "hardware={\"base\": \"b300\", \"link_d2h_bytes_per_s\": 5000000}",
        "workload.lengths.output.tokens=2000",
        "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.8, \"which\": 0, \"host_copy\": "
        "\"kept\"}]",
        NULL};

    small_run_open(&small,
                   SCENARIO(TWO, IMPORTED, "{\"policy\": \"vllm-hybrid\", \"hot_tokens\": 64}"),
                   sets, NULL);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    advance(&small, 8 * KVT_NS_PER_S / 10);
    const struct kvt_fault_report *report = &small.sim->faults.reports[0];
    const struct kvt_live *live = small.sim->live[0];
    ck_assert_uint_eq(small.sim->ranks[1].imports_under_way, 1);
    ck_assert_uint_ge(report->kept_tokens, 640);
    ck_assert_uint_lt(report->kept_tokens, report->context_tokens);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->pages.committed_tokens, report->context_tokens);
    ck_assert_uint_eq(live->pages.backed_tokens, report->kept_tokens);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    small_run_close(&small);
}
END_TEST

/* Kept of one fault, and lost to the next before it was let in again: its prompt is computed from
 * where the copy ended, and then the rest as well. */
START_TEST(a_node_takes_what_waits_there_of_an_earlier_fault)
{
    static const char text[] = SCENARIO(TWO, COMPUTED_APART, HISPARSE);
    struct small_run small;
    const char *const sets[] = {
        "cluster.import={\"law\": \"rate\", \"rate\": 100}",
        "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.665, \"which\": 0, \"back_after_s\": "
        "0.001, \"host_copy\": \"kept_with_index\"}, {\"kind\": \"node\", \"at_s\": 0.67, "
        "\"which\": 0, \"back_after_s\": 0.001}]",
        NULL};

    small_run_open(&small, text, sets, NULL);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    advance(&small, 669 * KVT_NS_PER_S / 1000);
    const struct kvt_live *live = small.sim->live[0];
    uint32_t context = kvt_live_context(live);
    ck_assert_uint_gt(context % KVT_PAGE_ROWS, 10); /* ms that it takes to compute the rest */
    ck_assert_uint_eq(live->aside_tokens, context);
    ck_assert_uint_gt(small.sim->hosts[0].used_bytes, 0);
    ck_assert_uint_eq(small.sim->prefill.busy, 1);
    advance(&small, 670 * KVT_NS_PER_S / 1000);
    ck_assert_uint_eq(live->aside_tokens, 0);
    ck_assert_uint_eq(small.sim->hosts[0].used_bytes, 0);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->total.reprefill_tokens, context);
    kvt_ns computed_ns = (kvt_ns)context * 1000000;
    kvt_ns took_ns = small.run->faults[0].recovered_ns - small.run->faults[0].fault->at_ns;
    ck_assert_int_ge(took_ns, computed_ns);
    ck_assert_int_le(took_ns, computed_ns + 2000000);
    small_run_close(&small);
}
END_TEST

#define TALK                                                                                       \
    "workload={\"arrival\": \"sessions\", \"concurrency\": 1, \"conversations\": 1, \"turns\": "   \
    "2, \"new_tokens\": [640, 640], \"output_tokens\": 65, \"think_s\": 1}"

/* What the first turn left is gone with the rank, on host as in HBM: the second computes it all. */
START_TEST(nobody_finds_what_was_left_on_a_rank_that_failed)
{
    static const char text[] = SCENARIO("\"gpus\": 1", COMPUTED_HERE, HISPARSE);
    struct small_run small, undisturbed;
    const char *const sets[] = {TALK, NULL};

    small_run_whole(&undisturbed, text, sets);
    ck_assert_uint_ge(undisturbed.run->records[1].prefix_hit_tokens, 640);
    open_with(&small, text,
              "[{\"kind\": \"rank\", \"at_s\": 1.2, \"which\": 0, \"back_after_s\": 0.1, "
              "\"host_copy\": \"kept_with_index\"}]",
              TALK);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_ge(small.run->faults[0].prefix_pages, 10);
    ck_assert_uint_eq(small.run->total.interrupted, 0);
    ck_assert_uint_eq(small.run->records[1].prefix_hit_tokens, 0);
    ck_assert_uint_eq(small.run->total.completed, 2);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* What was found of a prompt stays found when its server fails: the rest is computed again, and
 * nothing else. */
START_TEST(a_prompt_that_begins_again_still_counts_on_what_was_found)
{
    struct small_run small, undisturbed;
    const char *const sets[] = {TALK, NULL};

    small_run_whole(&undisturbed, apart_text, sets);
    const struct kvt_request_record *second = &undisturbed.run->records[1];
    ck_assert_uint_ge(second->prefix_hit_tokens, 640);
    char faults[200];
    double at_s = (double)second->arrival_ns * 1e-9 + 0.3;
    (void)snprintf(faults, sizeof faults,
                   "[{\"kind\": \"prefill\", \"at_s\": %.9f, \"back_after_s\": 0.2}]", at_s);
    open_with(&small, apart_text, faults, TALK);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->total.interrupted, 1);
    ck_assert_int_eq(small.run->records[1].first_token_ns - second->first_token_ns,
                     KVT_NS_PER_S / 2);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* Two ranks with room for one each, and two who wait. When one fails, who decoded there is computed
 * again and comes before both, though he is last to get there; who waited is not computed again. */
START_TEST(who_was_interrupted_comes_before_those_who_wait)
{
    static const char text[] = SCENARIO(TWO, COMPUTED_APART, RESIDENT);
    struct small_run small;
    const char *const sets[] = {
        "workload.concurrency=4",
        "workload.requests=4",
        "cluster.router=round-robin",
        "cluster.prefill={\"mode\": \"separate\", \"gpus\": 4, \"tokens_per_s\": 1000}",
        "workload.lengths.output.tokens=4000",
        "cluster.decode={\"gpus\": 2, \"pools\": {\"unified_gib\": 0.004}}",
        "cluster.decode.growth_reserve_gib=0.02",
        "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.7, \"which\": 0}]",
        NULL};

    small_run_open(&small, text, sets, NULL);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    advance(&small, 7 * KVT_NS_PER_S / 10 - 1);
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_uint_eq(small.sim->ranks[r].running.count, 1);
        ck_assert_uint_eq(small.sim->ranks[r].waiting.count, 1);
    }
    uint32_t lost = small.sim->ranks[0].running.items[0]->id;
    uint32_t waited = small.sim->ranks[0].waiting.items[0]->id;
    uint32_t stayed = small.sim->ranks[1].waiting.items[0]->id;
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    const struct kvt_request_record *records = small.run->records;
    ck_assert_int_lt(small.run->faults[0].recovered_ns, records[stayed].first_token_ns);
    ck_assert_int_lt(records[stayed].first_token_ns, records[waited].first_token_ns);
    ck_assert_uint_eq(records[lost].interruptions, 1);
    ck_assert_uint_eq(small.sim->prefill.turns, 5);
    ck_assert_uint_eq(small.run->faults[0].waiting, 1);
    ck_assert_uint_eq(records[waited].interruptions, 0);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault_copies");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, rows_kept_with_their_index_come_up_from_host);
    tcase_add_test(tcase, payload_kept_alone_saves_its_own_way_in);
    tcase_add_test(tcase, with_nothing_kept_all_of_it_comes_in_again);
    tcase_add_test(tcase, payload_alone_spares_no_prefill);
    tcase_add_test(tcase, copies_on_another_node_are_given_up);
    tcase_add_test(tcase, a_copy_is_there_when_its_rank_comes_back);
    tcase_add_test(tcase, a_lost_step_never_ends);
    tcase_add_test(tcase, rows_that_were_not_on_host_yet_come_in_and_are_written);
    tcase_add_test(tcase, a_node_takes_what_waits_there_of_an_earlier_fault);
    tcase_add_test(tcase, nobody_finds_what_was_left_on_a_rank_that_failed);
    tcase_add_test(tcase, a_prompt_that_begins_again_still_counts_on_what_was_found);
    tcase_add_test(tcase, who_was_interrupted_comes_before_those_who_wait);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
