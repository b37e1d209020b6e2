/* test_cluster_faults.c -- what fails in a run: times by hand in cases small enough for that, what
 * is kept and what is lost, and faults that must change nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>
#include <cjson/cJSON.h>

#include "kvt/clock.h"
#include "kvt/json.h"
#include "sim_private.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

/* One request of 640 tokens, in a closed loop of one; two ranks of one GPU on a node. */
#define SCENARIO(decode, prefill, residency)                                                       \
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 7, \"model\": " DRAWN_MODEL ", "                \
    "\"hardware\": \"b300\", \"cluster\": {\"decode\": {" decode ", \"pools\": "                   \
    "{\"unified_gib\": 0.05}, \"growth_reserve_gib\": 0.01}, " prefill "}, "                       \
    "\"residency\": " residency ", \"timing\": {\"model\": \"roofline\"}, "                        \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 1, \"requests\": 1, \"lengths\": "   \
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "                                          \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 400}}}}"
#define TWO "\"gpus\": 2"
#define COMPUTED_HERE                                                                              \
    "\"prefill\": {\"mode\": \"colocated\", \"tokens_per_s\": 1000, \"chunk_tokens\": 8192}"
#define COMPUTED_APART "\"prefill\": {\"mode\": \"separate\", \"gpus\": 1, \"tokens_per_s\": 1000}"
#define IMPORTED "\"import\": {\"law\": \"rate\", \"rate\": 0.05}"
#define RESIDENT "{\"policy\": \"resident\"}"
#define HISPARSE                                                                                   \
    "{\"policy\": \"hisparse\", \"hot_tokens\": 64}, \"selection\": {\"law\": \"score\"}"

static const char here_text[] = SCENARIO(TWO, COMPUTED_HERE, RESIDENT);
static const char apart_text[] = SCENARIO(TWO, COMPUTED_APART, RESIDENT);
static const char imported_text[] = SCENARIO(TWO, IMPORTED, HISPARSE);

static void open_with(struct small_run *small, const char *text, const char *faults,
                      const char *more)
{
    char set[1024];
    const char *const sets[] = {set, more, NULL};

    (void)snprintf(set, sizeof set, "cluster.faults=%s", faults);
    small_run_open(small, text, sets, NULL);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

static void run_with(struct small_run *small, const char *text, const char *faults)
{
    open_with(small, text, faults, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

/* All that happens before that time. */
static void advance(struct small_run *small, kvt_ns until_ns)
{
    bool more;

    ck_assert_int_eq(kvt_sim_run_until(small->sim, until_ns, &more, &small->err), KVT_OK);
    ck_assert(more);
}

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

static uint64_t index_bytes(const struct small_run *small, uint32_t tokens)
{
    struct kvt_session_bytes bytes;
    struct kvt_error err = {0};

    ck_assert_int_eq(kvt_rank_required(&small->sim->ranks[1], tokens, 1040, 64, &bytes, &err),
                     KVT_OK);
    return bytes.hbm_by_class[KVT_MEM_INDEX];
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
        "cluster.decode={\"gpus\": 2, \"pools\": {\"unified_gib\": 0.004}, "
        "\"growth_reserve_gib\": 0.02}",
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

/* ---- Groups ---------------------------------------------------------------------------- */

#define FOUR(more) "\"gpus\": 4" more
#define MANY                                                                                       \
    "workload={\"arrival\": \"closed\", \"concurrency\": 8, \"requests\": 8, \"lengths\": "        \
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "                                          \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 400}}}"

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
        const char *const sets[] = {set, MANY, "cluster.decode.lockstep=true", cases[i].set, NULL};
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
        "cluster.decode.tp=2", MANY,
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
    const char *const sets[] = {MANY,
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
    const char *const sets[] = {MANY,     "cluster.decode.lockstep=true",
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
    ck_assert_ptr_nonnull(strstr(summary, "fault      node at 500 s: did not strike"));
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
