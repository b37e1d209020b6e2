/* test_cluster_faults.c -- what fails in a run: times by hand in cases small enough for that, who
 * goes with whom, and faults that must change nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>
#include <cjson/cJSON.h>

#include "cluster_faults.h"
#include "kvt/json.h"

/* ---- Times by hand --------------------------------------------------------------------- */

/* A prompt of n tokens takes n ms. What was generated is computed again but for the newest, whose
 * row the next step makes. */
START_TEST(a_lost_request_is_computed_again_elsewhere_and_goes_on)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, here_text, NULL);
    open_with(&small, here_text, "[{\"kind\": \"rank\", \"at_s\": 0.65, \"which\": 0}]", NULL);
    advance(&small, 650 * KVT_NS_PER_S / 1000 - 1);
    const struct kvt_live *live = small.sim->live[0];
    uint32_t generated = live->generated_tokens, stepping = live->round_tokens;
    ck_assert_uint_gt(generated, 1);
    ck_assert_uint_eq(small.sim->records[0].rank, 0);
    ck_assert_uint_eq(stepping, 1); /* its step is under way */
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    const struct kvt_request_record *record = &small.run->records[0];
    const struct kvt_fault_report *report = &small.run->faults[0];
    kvt_ns again_ns = (640 + (kvt_ns)generated - 1) * 1000000;
    ck_assert_int_eq(report->recovered_ns - report->fault->at_ns, again_ns);
    ck_assert_uint_eq(report->context_tokens, 640 + generated - 1);
    ck_assert_uint_eq(report->kept_tokens, 0);
    ck_assert_uint_eq(report->step_tokens, 1);
    ck_assert_uint_eq(report->running, 1);
    ck_assert_uint_eq(record->rank, 1);
    ck_assert_uint_eq(record->interruptions, 1);
    ck_assert_uint_eq(record->preemptions, 0);
    ck_assert_uint_eq(small.run->total.reprefill_tokens, 640 + generated - 1);
    ck_assert_uint_eq(small.run->total.output_tokens, 400);
    ck_assert_uint_eq(small.run->total.input_tokens, 640);
    ck_assert_uint_eq(small.run->total.admitted, 1);
    /* TTFT is what it was; the end is later by what was computed, and the part of a step lost. */
    const struct kvt_request_record *before = &undisturbed.run->records[0];
    ck_assert_int_eq(record->first_token_ns, before->first_token_ns);
    kvt_ns later_ns = record->finished_ns - before->finished_ns;
    kvt_ns step_ns = (before->finished_ns - before->first_token_ns) / 399;
    ck_assert_int_ge(later_ns, again_ns);
    ck_assert_int_le(later_ns, again_ns + 2 * step_ns);
    /* The gap is one between tokens. */
    ck_assert_double_ge(kvt_histogram_quantile(small.run->itl, 1), (double)again_ns * 0.999);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* With nowhere else to go it waits for the repair and what it takes to load weights. */
START_TEST(where_no_rank_is_up_requests_wait_for_the_repair)
{
    struct small_run small;

    open_with(&small, here_text,
              "[{\"kind\": \"node\", \"at_s\": 0.65, \"which\": 0, \"back_after_s\": 2, "
              "\"reload_s\": 0.5}]",
              NULL);
    advance(&small, 650 * KVT_NS_PER_S / 1000 - 1);
    uint32_t generated = small.sim->live[0]->generated_tokens;
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    const struct kvt_fault_report *report = &small.run->faults[0];
    ck_assert_uint_eq(report->ranks, 2);
    ck_assert_int_eq(report->recovered_ns - report->fault->at_ns,
                     5 * KVT_NS_PER_S / 2 + (640 + (kvt_ns)generated - 1) * 1000000);
    ck_assert_double_eq_tol(small.run->total.down_ns, 2 * 2.5e9, 1);
    ck_assert_uint_eq(small.run->records[0].status, KVT_REQUEST_COMPLETED);
    small_run_close(&small);
}
END_TEST

/* The one server is gone from 0.3 s to 0.5 s, and begins again then: 0.5 + 0.64 - 0.64 s later. */
START_TEST(a_prompt_on_a_server_that_fails_begins_again)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, apart_text, NULL);
    run_with(&small, apart_text, "[{\"kind\": \"prefill\", \"at_s\": 0.3, \"back_after_s\": 0.2}]");
    const struct kvt_fault_report *report = &small.run->faults[0];
    ck_assert_int_eq(small.run->records[0].first_token_ns -
                         undisturbed.run->records[0].first_token_ns,
                     KVT_NS_PER_S / 2);
    ck_assert_uint_eq(report->prefilling, 1);
    ck_assert_uint_eq(small.run->total.interrupted, 1);
    ck_assert_int_eq(report->recovered_ns, small.run->records[0].first_token_ns);
    ck_assert_uint_eq(small.run->total.input_tokens, 640);
    ck_assert(small.run->total.down_ns == 0);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* An idle server goes first: nobody notices. */
START_TEST(an_idle_server_that_fails_interrupts_nobody)
{
    struct small_run small, undisturbed;
    const char *const two[] = {"cluster.prefill.gpus=2", NULL};

    small_run_whole(&undisturbed, apart_text, two);
    open_with(&small, apart_text, "[{\"kind\": \"prefill\", \"at_s\": 0.3}]", two[0]);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->total.faults, 1);
    ck_assert_uint_eq(small.run->total.interrupted, 0);
    ck_assert_int_eq(small.run->records[0].finished_ns, undisturbed.run->records[0].finished_ns);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* While the prompt is computed on the rank nothing of it is worth keeping. */
START_TEST(a_prompt_computed_on_a_rank_that_fails_begins_again)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, here_text, NULL);
    run_with(&small, here_text,
             "[{\"kind\": \"rank\", \"at_s\": 0.3, \"which\": 0, \"host_copy\": \"kept\"}]");
    ck_assert_uint_eq(small.run->faults[0].importing, 1);
    ck_assert_uint_eq(small.run->faults[0].running, 0);
    ck_assert_int_eq(small.run->records[0].first_token_ns -
                         undisturbed.run->records[0].first_token_ns,
                     3 * KVT_NS_PER_S / 10);
    ck_assert_uint_eq(small.run->total.input_tokens, 640); /* counted once */
    ck_assert_uint_eq(small.run->total.reprefill_tokens, 640);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* Half the link's rate: what a step waits for it doubles. The request's decisions are the same. */
START_TEST(a_degraded_link_takes_its_factor_in_time)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, imported_text, NULL);
    run_with(&small, imported_text,
             "[{\"kind\": \"link\", \"at_s\": 0, \"which\": 0, \"bandwidth_factor\": 0.5}]");
    kvt_ns before_ns = undisturbed.run->total.parts_ns[KVT_PART_FETCH];
    kvt_ns steps = (kvt_ns)small.run->total.decode_steps;
    ck_assert_int_gt(before_ns, 100 * steps);
    ck_assert_int_le(llabs(small.run->total.parts_ns[KVT_PART_FETCH] - 2 * before_ns), 2 * steps);
    ck_assert_uint_eq(small.run->total.interrupted, 0);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* ---- Groups ---------------------------------------------------------------------------- */

#define FOUR(more) "\"gpus\": 4" more
static const char many[] =
    "workload={\"arrival\": \"closed\", \"concurrency\": 8, \"requests\": 8, \"lengths\": "
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "
    "\"output\": {\"law\": \"fixed\", \"tokens\": 400}}}";

/* ep above 1: experts are missing, and all stop. Said otherwise, or without: one goes. */
START_TEST(ranks_that_share_experts_stop_together)
{
    static const struct {
        const char *set, *group;
        uint32_t ranks;
    } cases[] = {{"cluster.decode.ep=4", "auto", 4},
                 {"cluster.decode.ep=4", "goes_on", 1},
                 {"cluster.decode.ep=1", "auto", 1},
                 {"cluster.decode.ep=1", "stops", 4}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct small_run small;
        char set[300];
        (void)snprintf(set, sizeof set,
                       "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.3, \"which\": 1, "
                       "\"back_after_s\": 0.2, \"group\": \"%s\"}]",
                       cases[i].group);
        const char *const sets[] = {set, many, "cluster.decode.lockstep=true", cases[i].set, NULL};
        small_run_whole(&small, SCENARIO(FOUR(""), IMPORTED, HISPARSE), sets);
        ck_assert_uint_eq(small.run->faults[0].ranks, cases[i].ranks);
        ck_assert_uint_eq(kvt_fault_interrupted(&small.run->faults[0]), 2 * cases[i].ranks);
        ck_assert_uint_eq(small.run->total.completed, 8);
        small_run_close(&small);
    }
}
END_TEST

/* A replica of two GPUs is one rank, and goes as one. */
START_TEST(a_replica_goes_as_a_whole)
{
    struct small_run small;
    const char *const sets[] = {
        "cluster.decode.tp=2", many,
        "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.3, \"which\": 1}]", NULL};

    small_run_whole(&small, SCENARIO(FOUR(""), IMPORTED, HISPARSE), sets);
    ck_assert_uint_eq(small.run->faults[0].ranks, 1);
    ck_assert_uint_eq(kvt_fault_interrupted(&small.run->faults[0]), 4);
    for (size_t i = 0; i < small.run->record_count; i++)
        ck_assert_uint_eq(small.run->records[i].rank, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(the_busiest_is_the_one_with_most_requests)
{
    struct small_run small;
    const char *const sets[] = {many,
                                "workload.concurrency=5",
                                "workload.requests=5",
                                "cluster.router=round-robin",
                                "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.3}]",
                                NULL};

    small_run_whole(&small, SCENARIO(FOUR(""), IMPORTED, HISPARSE), sets);
    ck_assert_uint_eq(small.run->faults[0].which, 0); /* 2, 1, 1 and 1 */
    ck_assert_uint_eq(kvt_fault_interrupted(&small.run->faults[0]), 2);
    small_run_close(&small);
}
END_TEST

/* ---- Faults that change nothing, and those that end it all ---------------------------------- */

START_TEST(a_fault_after_the_end_is_none)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, imported_text, NULL);
    run_with(&small, imported_text, "[{\"kind\": \"rank\", \"at_s\": 1000, \"which\": 0}]");
    ck_assert(!small.run->faults[0].has_struck);
    ck_assert_uint_eq(small.run->total.faults, 0);
    ck_assert_uint_eq(kvt_sim_decision_hash(small.sim), kvt_sim_decision_hash(undisturbed.sim));
    ck_assert_int_eq(small.run->end_ns, undisturbed.run->end_ns);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

START_TEST(a_rank_that_fails_and_is_back_before_anybody_comes_changes_no_time)
{
    struct small_run small, undisturbed;
    const char *const late = "workload={\"arrival\": \"open\", \"rate\": 1, \"requests\": 3, "
                             "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "
                             "\"output\": {\"law\": \"fixed\", \"tokens\": 40}}}";
    const char *const sets[] = {late, NULL};

    small_run_whole(&undisturbed, imported_text, sets);
    ck_assert_int_gt(undisturbed.run->records[0].arrival_ns, 10000000);
    open_with(&small, imported_text,
              "[{\"kind\": \"node\", \"at_s\": 0, \"which\": 0, \"back_after_s\": 0.001}, "
              "{\"kind\": \"rank\", \"at_s\": 0.002, \"which\": 1, \"back_after_s\": 0.001}]",
              late);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->total.faults, 2);
    ck_assert_uint_eq(small.run->total.interrupted, 0);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(small.run->records[i].finished_ns,
                         undisturbed.run->records[i].finished_ns);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

START_TEST(an_idle_rank_that_fails_changes_no_time)
{
    struct small_run small, undisturbed;

    small_run_whole(&undisturbed, imported_text, NULL);
    run_with(&small, imported_text, "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 1}]");
    ck_assert_uint_eq(small.run->faults[0].ranks, 1);
    ck_assert_uint_eq(kvt_fault_interrupted(&small.run->faults[0]), 0);
    ck_assert_int_eq(small.run->faults[0].recovered_ns, small.run->faults[0].fault->at_ns);
    ck_assert_int_eq(small.run->records[0].finished_ns, undisturbed.run->records[0].finished_ns);
    small_run_close(&small);
    small_run_close(&undisturbed);
}
END_TEST

/* From here to there and back, twice. */
START_TEST(the_same_rank_can_fail_twice)
{
    struct small_run small;

    open_with(&small, imported_text,
              "[{\"kind\": \"rank\", \"at_s\": 0.2, \"which\": 0, \"back_after_s\": 0.1}, "
              "{\"kind\": \"rank\", \"at_s\": 0.45, \"which\": 1}, "
              "{\"kind\": \"rank\", \"at_s\": 0.7, \"which\": 0, \"back_after_s\": 0.1}]",
              "workload.lengths.output.tokens=2000");
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_eq(small.run->records[0].interruptions, 3);
    ck_assert_uint_eq(small.run->records[0].rank, 0);
    ck_assert_uint_eq(small.run->total.output_tokens, 2000);
    small_run_close(&small);
}
END_TEST

START_TEST(where_nothing_comes_back_the_run_says_so)
{
    struct small_run small;

    open_with(&small, imported_text, "[{\"kind\": \"node\", \"at_s\": 0.2, \"which\": 0}]", NULL);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_ERR_STALLED);
    ck_assert_ptr_nonnull(strstr(small.err.message, "2 of 2 ranks have failed"));
    ck_assert_ptr_nonnull(strstr(small.err.message, "back_after_s"));
    small_run_close(&small);
}
END_TEST

START_TEST(or_waits_to_the_end_that_it_has)
{
    struct small_run small;

    open_with(&small, imported_text, "[{\"kind\": \"node\", \"at_s\": 0.2, \"which\": 0}]",
              "run.duration_s=5");
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_int_eq(small.run->end_ns, 5 * KVT_NS_PER_S);
    struct kvt_request_counts counts = kvt_run_count_requests(small.run);
    ck_assert_uint_eq(counts.waiting, 1);
    ck_assert_uint_eq(counts.completed, 0);
    ck_assert_int_eq(small.run->faults[0].recovered_ns, KVT_NS_NEVER);
    ck_assert_uint_eq(small.run->faults[0].outstanding, 1);
    /* It is not memory that is short, and no step says what more of it would bring. */
    ck_assert_double_gt(small.run->total.no_rank_ns, 0.9 * small.run->total.waiting_ns);
    char *text = small_run_result_text(&small);
    ck_assert_ptr_nonnull(strstr(text, "\"now\": \"no_rank\""));
    ck_assert_ptr_nonnull(strstr(text, "no rank left: all are down while requests wait"));
    ck_assert_ptr_nonnull(strstr(text, "\"next\": null"));
    ck_assert_ptr_null(strstr(text, "one_more_rank"));
    free(text);
    small_run_close(&small);
}
END_TEST

/* ---- Decisions ---------------------------------------------------------------------------- */

#define THROUGH                                                                                    \
    "cluster.faults=[{\"kind\": \"rank\", \"at_s\": 0.3, \"which\": \"random\", "                  \
    "\"back_after_s\": 0.2, \"host_copy\": \"kept_with_index\", \"group\": \"goes_on\"}, "         \
    "{\"kind\": \"link\", \"at_s\": 0.31, \"bandwidth_factor\": 0.2, \"back_after_s\": 0.3}, "     \
    "{\"kind\": \"node\", \"at_s\": 0.6, \"which\": \"random\", \"back_after_s\": 0.1}]"

static uint64_t hash_on(unsigned threads, const char *fidelity, const char *faults)
{
    struct small_run small;
    const struct kvt_sim_options options = {.threads = threads};
    const char *const sets[] = {many,     "cluster.decode.lockstep=true",
                                fidelity, "cluster.decode.gpus_per_node=2",
                                faults,   NULL};

    small_run_open(&small, SCENARIO(FOUR(""), IMPORTED, HISPARSE), sets, &options);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    uint64_t hash = kvt_sim_decision_hash(small.sim);
    small_run_close(&small);
    return hash;
}

START_TEST(threads_change_no_decision_about_a_fault)
{
    static const char *const fidelities[] = {"run.fidelity=exact", "run.fidelity=sampled"};

    for (int f = 0; f < 2; f++) {
        uint64_t one = hash_on(1, fidelities[f], THROUGH);
        ck_assert_uint_eq(hash_on(2, fidelities[f], THROUGH), one);
        ck_assert_uint_eq(hash_on(8, fidelities[f], THROUGH), one);
        ck_assert_uint_ne(hash_on(1, fidelities[f], "cluster.faults=[]"), one);
    }
}
END_TEST

/* ---- What is told -------------------------------------------------------------------------- */

START_TEST(the_report_has_what_was_hit_and_what_became_of_it)
{
    struct small_run small;
    struct kvt_error err = {0};
    struct cJSON *result = NULL;
    char *summary = NULL;
    size_t bytes = 0;

    run_with(&small, imported_text,
             "[{\"kind\": \"rank\", \"at_s\": 0.2, \"back_after_s\": 0.5}, "
             "{\"kind\": \"link\", \"at_s\": 0.25, \"which\": 1, \"bandwidth_factor\": 0.5}, "
             "{\"kind\": \"node\", \"at_s\": 500}]");
    ck_assert_int_eq(kvt_report_result(small.run, &result, &err), KVT_OK);
    const struct cJSON *faults = kvt_json_find(result, "faults"), *first = faults->child;
    const struct kvt_fault_report *report = &small.run->faults[0];
    ck_assert_str_eq(kvt_json_find(first, "kind")->valuestring, "rank");
    ck_assert(cJSON_IsTrue(kvt_json_find(first, "struck")));
    ck_assert_double_eq_tol(kvt_json_find(first, "back_at_s")->valuedouble, 0.7, 1e-9);
    ck_assert_double_eq_tol(kvt_json_find(first, "ranks_down")->valuedouble, 1, 0.1);
    double recovery_s = (double)(report->recovered_ns - report->fault->at_ns) * 1e-9;
    ck_assert_double_eq_tol(kvt_json_find(first, "recovery_s")->valuedouble, recovery_s, 1e-9);
    const struct cJSON *metrics = kvt_json_find(result, "metrics");
    ck_assert_double_eq_tol(kvt_json_find(metrics, "fault_recovery_s")->valuedouble, recovery_s,
                            1e-9);
    ck_assert_double_eq_tol(kvt_json_find(metrics, "requests_interrupted")->valuedouble, 1, 0.1);
    ck_assert_double_eq_tol(kvt_json_find(metrics, "faults")->valuedouble, 2, 0.1);
    const struct cJSON *hbm = kvt_json_find(kvt_json_find(first, "lost"), "hbm_bytes");
    ck_assert_double_ge(kvt_json_find(hbm, "index")->valuedouble,
                        (double)index_bytes(&small, (uint32_t)report->context_tokens));
    ck_assert(cJSON_IsNull(kvt_json_find(first->next, "back_at_s")));
    ck_assert(cJSON_IsFalse(kvt_json_find(first->next->next, "struck")));
    ck_assert_ptr_null(kvt_json_find(first->next->next, "which"));
    FILE *stream = open_memstream(&summary, &bytes);
    kvt_report_summary(stream, small.run, result);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_ptr_nonnull(strstr(summary, "fault      rank 0 at 0.2 s, 1 rank down for 0.5 s: 1 "));
    ck_assert_ptr_nonnull(strstr(summary, "fault      link of rank 1 at 0.5 of its rate at 0.25"));
    ck_assert_ptr_nonnull(
        strstr(summary, "fault      node at 500 s: did not strike, for the run was over by then"));
    for (char *line = summary, *end = NULL; (end = strchr(line, '\n')) != NULL; line = end + 1)
        ck_assert_msg(end - line <= 80, "%.*s", (int)(end - line), line);
    free(summary);
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_lost_request_is_computed_again_elsewhere_and_goes_on);
    tcase_add_test(tcase, where_no_rank_is_up_requests_wait_for_the_repair);
    tcase_add_test(tcase, a_prompt_on_a_server_that_fails_begins_again);
    tcase_add_test(tcase, an_idle_server_that_fails_interrupts_nobody);
    tcase_add_test(tcase, a_prompt_computed_on_a_rank_that_fails_begins_again);
    tcase_add_test(tcase, a_degraded_link_takes_its_factor_in_time);
    tcase_add_test(tcase, ranks_that_share_experts_stop_together);
    tcase_add_test(tcase, a_replica_goes_as_a_whole);
    tcase_add_test(tcase, the_busiest_is_the_one_with_most_requests);
    tcase_add_test(tcase, a_fault_after_the_end_is_none);
    tcase_add_test(tcase, a_rank_that_fails_and_is_back_before_anybody_comes_changes_no_time);
    tcase_add_test(tcase, an_idle_rank_that_fails_changes_no_time);
    tcase_add_test(tcase, the_same_rank_can_fail_twice);
    tcase_add_test(tcase, where_nothing_comes_back_the_run_says_so);
    tcase_add_test(tcase, or_waits_to_the_end_that_it_has);
    tcase_add_test(tcase, threads_change_no_decision_about_a_fault);
    tcase_add_test(tcase, the_report_has_what_was_hit_and_what_became_of_it);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
