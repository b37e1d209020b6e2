/* test_sim.c -- the run: timestamps calculated by hand, and ends that are not the usual one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/small_run.h"
#include "support/support.h"

/* GLM-5.3 with light weights on one GPU: what the constants of timing "paper" hold for. */
#define MODEL                                                                                      \
    "\"model\": {\"base\": \"glm-5.3\", \"weight_bytes\": 2147483648, "                            \
    "\"dense_weight_bytes\": 1073741824, \"weights_replicated_gib\": 1, "                          \
    "\"weights_expert_gib\": 1}, "

#define HAND                                                                                       \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"hand\", \"seed\": 1, " MODEL                  \
    "\"hardware\": \"b300\", "                                                                     \
    "\"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": {\"unified_gib\": 2}}, "                   \
    "\"import\": {\"law\": \"rate\"}}, "                                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 4096}, "                            \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"paper\"}, "                    \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 1, \"requests\": 1, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 100}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 5}}}}"

/* By hand, of 100 rows that all are selected:
 *   import  index rows 100 x 21 x 132 B at 10 GB/s                             27,720 ns
 *           payload rows 100 x 78 x 576 B = 4,492,800 B at 10 GB/s            449,280
 *           the same once more at 55.3 GB/s (less than half the staging)       81,245
 *           one hand-over                                                       7,000
 *   step    15.8 ms + 22.2 ms x 8/256                                      16,493,750
 *           one request under hisparse                                        120,000
 *           missed: 78 layer rows x 656 B / 49.4 GB/s = 1,035.789 ns each of
 *           37 rows of 101 outside the tail in the first step, and of the one row
 *           that has left the tail in each later one                 38,324 and 1,036 */
enum {
    IMPORT_NS = 27720 + 449280 + 81245 + 7000,
    FIRST_STEP_NS = 16493750 + 120000 + 38324,
    STEP_NS = 16493750 + 120000 + 1036,
};

START_TEST(every_timestamp_is_the_one_calculated_by_hand)
{
    struct small_run small;
    small_run_whole(&small, HAND, NULL);
    ck_assert_uint_eq(small.run->record_count, 1);
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert_int_eq(record->arrival_ns, 0);
    ck_assert_int_eq(record->admitted_ns, 0);
    ck_assert_int_eq(record->first_token_ns, IMPORT_NS);
    ck_assert_int_eq(record->finished_ns, IMPORT_NS + FIRST_STEP_NS + 3 * STEP_NS);
    ck_assert_int_eq(record->last_token_ns, record->finished_ns);
    ck_assert_int_eq(small.run->end_ns, record->finished_ns);
    ck_assert_uint_eq(record->generated_tokens, 5);
    ck_assert_uint_eq(record->status, KVT_REQUEST_COMPLETED);

    const struct kvt_tally *total = &small.run->total;
    ck_assert_uint_eq(total->decode_steps, 4);
    ck_assert_int_eq(total->step_ns, FIRST_STEP_NS + 3 * STEP_NS);
    ck_assert_int_eq(total->parts_ns[KVT_PART_DENSE], 4 * 16493750);
    ck_assert_int_eq(total->parts_ns[KVT_PART_OTHER], 4 * 120000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_FETCH], 38324 + 3 * 1036);
    ck_assert_int_eq(total->backup_stall_ns, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(every_row_and_byte_is_the_one_counted_by_hand)
{
    struct small_run small;
    small_run_whole(&small, HAND, NULL);
    const struct kvt_tally *total = &small.run->total;
    const struct kvt_row_counts *rows = &total->rows[0];
    ck_assert_uint_eq(rows->calls, 4 * 21);
    ck_assert_uint_eq(rows->selected, 21 * (101 + 102 + 103 + 104));
    ck_assert_uint_eq(rows->tail, 21 * 4 * 64);
    ck_assert_uint_eq(rows->hot, 21 * (0 + 37 + 38 + 39));
    ck_assert_uint_eq(rows->missed, 21 * (37 + 1 + 1 + 1));
    ck_assert_uint_eq(rows->filled, rows->missed);
    ck_assert_uint_eq(rows->staged + rows->page + rows->skipped_calls, 0);
    ck_assert_double_eq(total->h2d_payload_bytes, 40.0 * 78 * 576);
    ck_assert_uint_eq(total->d2h_bytes, 4 * 78 * 576);
    ck_assert_uint_eq(total->import_hbm_bytes, 100 * 21 * 132);
    ck_assert_uint_eq(total->import_host_bytes, 100 * 78 * 576);
    /* Index rows of 104 tokens, hot slots for 105 (its longest context), a tail. */
    ck_assert_uint_eq(total->hbm_peak_by_class[KVT_MEM_INDEX], 104 * 21 * 132);
    ck_assert_uint_eq(total->hbm_peak_by_class[KVT_MEM_HOT], 105 * 78 * 576);
    ck_assert_uint_eq(total->hbm_peak_by_class[KVT_MEM_TAIL], 64 * 78 * 576);
    ck_assert_uint_eq(total->hbm_peak_bytes, 104 * 21 * 132 + 169 * 78 * 576);
    ck_assert_uint_eq(total->host_peak_bytes, 104 * 78 * 576);
    small_run_close(&small);
}
END_TEST

START_TEST(two_requests_share_the_import_and_the_step_as_calculated_by_hand)
{
    static const char *const sets[] = {"workload.concurrency=2", "workload.requests=2",
                                       "workload.lengths.output.tokens=2", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    const struct kvt_request_record *records = small.run->records;
    /* The second is imported behind the first, which decodes meanwhile: the step that
     * begins at IMPORT_NS is longer than an import. */
    ck_assert_int_eq(records[0].first_token_ns, IMPORT_NS);
    ck_assert_int_eq(records[1].first_token_ns, 2 * IMPORT_NS);
    ck_assert_int_eq(records[0].finished_ns, IMPORT_NS + FIRST_STEP_NS);
    /* It joins at the boundary behind that step, alone. */
    ck_assert_int_eq(records[1].finished_ns, IMPORT_NS + 2 * FIRST_STEP_NS);
    small_run_close(&small);
}
END_TEST

START_TEST(a_request_of_one_token_ends_with_its_import)
{
    static const char *const sets[] = {"workload.lengths.output.tokens=1", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    ck_assert_int_eq(small.run->records[0].first_token_ns, IMPORT_NS);
    ck_assert_int_eq(small.run->records[0].finished_ns, IMPORT_NS);
    ck_assert_uint_eq(small.run->total.decode_steps, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(a_slow_way_back_stalls_steps_and_breaks_nothing)
{
    /* A row takes 44.928 ms to be backed, a step 16.6 ms: once 64 rows are behind, each
     * step waits for the oldest. */
    static const char *const sets[] = {
        "hardware={\"base\": \"b300\", \"link_d2h_bytes_per_s\": 1000000}",
        "workload.lengths.output.tokens=200", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    ck_assert_uint_eq(small.run->records[0].generated_tokens, 200);
    ck_assert_int_gt(small.run->total.backup_stall_ns, 0);
    /* The last step's slot was that of row 298 - 64, committed by step 135 of 199: as many
     * write-backs, one after the other, have ended before that step began. */
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert_int_ge(record->finished_ns - record->first_token_ns,
                     INT64_C(135) * 44928000 + STEP_NS);
    ck_assert_int_le(record->finished_ns - record->first_token_ns,
                     INT64_C(135) * 44928000 + 2 * INT64_C(16700000));
    small_run_close(&small);
}
END_TEST

START_TEST(what_can_never_fit_is_dropped_and_counted)
{
    /* Hot slots of 1,100 tokens and a tail are 52 MB. */
    static const char *const sets[] = {
        "cluster.decode.pools.unified_gib=0.05", "workload.requests=3",
        "workload.lengths.input={\"law\": \"fixed\", \"tokens\": 1100}", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    ck_assert_uint_eq(small.run->record_count, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(small.run->records[i].status, KVT_REQUEST_UNSERVABLE);
        ck_assert_int_eq(small.run->records[i].admitted_ns, KVT_NS_NEVER);
    }
    ck_assert_uint_eq(small.run->total.unservable, 3);
    ck_assert_uint_eq(small.run->total.completed, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(a_request_that_fits_and_could_never_finish_is_unservable)
{
    /* 100 tokens are admitted; with 1,000 more index rows grow past what is left. */
    static const char *const sets[] = {"cluster.decode.pools.unified_gib=0.051",
                                       "workload.lengths.output.tokens=1000", NULL};
    static const char *const with_reserve[] = {"cluster.decode.pools.unified_gib=0.051",
                                               "workload.lengths.output.tokens=1000",
                                               "cluster.decode.growth_reserve_gib=0.003", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    ck_assert_uint_eq(small.run->records[0].status, KVT_REQUEST_UNSERVABLE);
    small_run_close(&small);
    small_run_whole(&small, HAND, with_reserve);
    ck_assert_uint_eq(small.run->records[0].status, KVT_REQUEST_COMPLETED);
    small_run_close(&small);
}
END_TEST

START_TEST(a_closed_loop_of_what_can_never_fit_is_diagnosed_not_counted_for_ever)
{
    static const char *const sets[] = {"cluster.decode.pools.unified_gib=0.004",
                                       "workload.requests=0", "run.duration_s=10", NULL};
    struct small_run small;
    small_run_open(&small, HAND, sets, NULL);
    ck_assert_int_eq(small.status, KVT_ERR_STALLED);
    ck_assert_ptr_nonnull(strstr(small.err.message, "could never fit"));
    ck_assert_ptr_null(small.sim);
    small_run_close(&small);
}
END_TEST

START_TEST(a_workload_without_an_end_is_refused)
{
    static const char *const sets[] = {"workload.requests=0", NULL};
    struct small_run small;
    small_run_open(&small, HAND, sets, NULL);
    ck_assert_int_eq(small.status, KVT_ERR_INVALID);
    ck_assert_str_eq(small.err.where, "--set workload.requests");
    small_run_close(&small);
}
END_TEST

/* A byte a second of HBM: days a step, of events as of mean values. */
START_TEST(a_step_that_takes_longer_than_an_hour_is_refused)
{
    static const char *const fidelities[] = {"run.fidelity=exact", "run.fidelity=analytic"};
    const char *const sets[] = {"timing={\"model\": \"roofline\"}",
                                "hardware={\"base\": \"b300\", \"hbm_bytes_per_s\": 1}",
                                "workload.requests=40", fidelities[_i], NULL};
    struct small_run small;
    small_run_open(&small, HAND, sets, NULL);
    if (small.status == KVT_OK)
        small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(small.err.message, "roofline predicts a step of "));
    ck_assert_ptr_nonnull(strstr(small.err.message, "at most 3600 s are expected"));
    small_run_close(&small);
}
END_TEST

/* Two ranks of one node, whose host DRAM holds one and a half requests. */
static const char *const two_ranks[] = {
    "cluster.decode.gpus=2",  "cluster.decode.host_dram_gib_per_node=0.0066",
    "workload.concurrency=2", "workload.requests=6",
    "cluster.decode.ep=2",    NULL};

START_TEST(a_rank_that_waits_for_its_nodes_dram_goes_on_when_another_gives_it_back)
{
    struct small_run small;
    small_run_whole(&small, HAND, two_ranks);
    for (size_t i = 0; i < 6; i++)
        ck_assert_uint_eq(small.run->records[i].status, KVT_REQUEST_COMPLETED);
    ck_assert_int_gt(small.run->records[1].admitted_ns, 0);
    ck_assert_uint_ne(small.run->records[0].rank, small.run->records[1].rank);
    small_run_close(&small);
}
END_TEST

START_TEST(a_stall_is_diagnosed)
{
    /* Both fit when they come, and neither can grow by its 300 tokens without the other's
     * DRAM; each runs alone on its rank, so that fcfs puts nobody aside. */
    static const char *const sets[] = {"cluster.decode.gpus=2",
                                       "cluster.decode.ep=2",
                                       "cluster.decode.host_dram_gib_per_node=0.02",
                                       "workload.concurrency=2",
                                       "workload.requests=2",
                                       "workload.lengths.output.tokens=300",
                                       NULL};
    struct small_run small;
    small_run_open(&small, HAND, sets, NULL);
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_ERR_STALLED);
    ck_assert_str_eq(small.err.where, "hand");
    ck_assert_ptr_nonnull(strstr(small.err.message, "2 decode"));
    ck_assert_ptr_nonnull(strstr(small.err.message, "host_dram_gib_per_node"));
    small_run_close(&small);
}
END_TEST

START_TEST(requests_await_pages_on_their_way_up_rather_than_stall)
{
    /* All that is spare is on its way up over a slow link when the request must grow. */
    static const char *const sets[] = {
        "hardware={\"base\": \"b300\", \"link_h2d_bytes_per_s\": 2000000}",
        "residency={\"policy\": \"adaptive\", \"hot_tokens\": 64, \"refill_gb_per_s\": 1000}",
        "model.top_k=64",
        "cluster.decode.pools.unified_gib=0.00978",
        "workload.lengths.input.tokens=640",
        "workload.lengths.output.tokens=100",
        NULL};
    struct small_run small;
    small_run_open(&small, HAND, sets, NULL);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    ck_assert_uint_eq(small.run->records[0].status, KVT_REQUEST_COMPLETED);
    ck_assert_uint_gt(small.run->total.pages_filled, 0);
    ck_assert_uint_gt(small.run->total.pages_released, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(a_run_that_is_stopped_says_what_its_requests_have_read)
{
    static const char *const sets[] = {"run.duration_s=0.05", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert(small.run->stopped_early);
    ck_assert_int_eq(small.run->end_ns, 50000000);
    ck_assert_uint_eq(record->status, KVT_REQUEST_RUNNING);
    ck_assert_uint_eq(record->generated_tokens, 3);
    ck_assert_uint_eq(record->selected_rows,
                      21 * (101 + 102 + 103)); /* the third step is under way */
    ck_assert_uint_eq(record->missed_rows, 21 * (37 + 1 + 1));
    small_run_close(&small);
}
END_TEST

START_TEST(a_run_that_is_stopped_while_prompts_are_computed_loses_nobody)
{
    static const char *const modes[] = {"colocated", "separate"};
    char prefill[96];
    const char *const sets[] = {"run.duration_s=0.05", "workload.concurrency=3",
                                "workload.requests=3", prefill, NULL};
    struct small_run small;
    (void)snprintf(prefill, sizeof prefill,
                   "cluster.prefill={\"mode\": \"%s\", \"tokens_per_s\": 1000}", modes[_i]);
    small_run_whole(&small, HAND, sets);
    struct kvt_request_counts counts = kvt_run_count_requests(small.run);
    ck_assert_uint_eq(counts.waiting, 3);
    ck_assert_uint_eq(small.run->records[0].status, KVT_REQUEST_PREFILLING);
    small_run_close(&small);
}
END_TEST

START_TEST(without_any_cost_time_stands_still)
{
    /* No step costs anything (a step lasts the one ns that keeps time moving), imports
     * all but nothing; what is counted is what it was. */
    static const char *const sets[] = {
        "timing={\"model\": \"paper\", \"shared_ms\": 0, \"expert_ms\": 0, "
        "\"hisparse_request_ms\": 0, \"link_gb_per_s\": 100000, \"wire_row_bytes\": 1}",
        "cluster.import={\"law\": \"paper\", \"hisparse_mean_s\": 0}", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert_int_eq(record->first_token_ns, 0);
    ck_assert_int_eq(record->finished_ns, 4);
    ck_assert_uint_eq(small.run->total.rows[0].missed, 21 * 40);
    small_run_close(&small);
}
END_TEST

START_TEST(a_resident_history_moves_no_row)
{
    static const char *const sets[] = {"residency={\"policy\": \"resident\"}",
                                       "timing={\"model\": \"roofline\"}", NULL};
    struct small_run small;
    small_run_whole(&small, HAND, sets);
    const struct kvt_tally *total = &small.run->total;
    ck_assert_double_eq(total->h2d_wire_bytes + total->h2d_payload_bytes, 0);
    ck_assert_uint_eq(total->d2h_bytes + total->fill_bytes + total->host_peak_bytes, 0);
    ck_assert_uint_eq(total->import_host_bytes, 0);
    ck_assert_int_eq(total->parts_ns[KVT_PART_FETCH] + total->parts_ns[KVT_PART_RESOLVE], 0);
    ck_assert_uint_eq(total->rows[0].selected, 21 * (101 + 102 + 103 + 104));
    ck_assert_uint_eq(total->rows[0].page, total->rows[0].selected);
    ck_assert_uint_eq(total->hbm_peak_bytes, 104 * (21 * 132 + 78 * 576));
    small_run_close(&small);
}
END_TEST

/* ---- With speculation -------------------------------------------------------------------- */

/* The same request in rounds of four queries: drafts that are accepted with the chance given,
 * 0 or 1, of an adaptive history that never comes up. */
static void run_drafting(struct small_run *small, const char *chance, const char *output_tokens)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES], table[256], speculation[SUPPORT_PATH_BYTES + 128];
    const char *const sets[] = {
        "residency={\"policy\": \"adaptive\", \"hot_tokens\": 4096, \"refill_gb_per_s\": 0}",
        "cluster.decode.pools.unified_gib=8", speculation, output_tokens, NULL};

    support_folder_make(&folder);
    (void)support_path(&folder, "certain.json", path);
    (void)snprintf(table, sizeof table,
                   "{\"schema\": \"kvtide/acceptance/1\", \"name\": \"certain\", \"summary\": "
                   "\"all or nothing\", \"tasks\": {\"default\": [%s, %s, %s]}, "
                   "\"sources\": {\"tasks\": \"this test\"}}",
                   chance, chance, chance);
    support_write(path, table, strlen(table));
    (void)snprintf(speculation, sizeof speculation,
                   "speculation={\"method\": \"dflash2\", \"block\": 4, \"acceptance\": \"%s\"}",
                   path);
    small_run_whole(small, HAND, sets);
    support_folder_remove(&folder);
}

/* By hand:
 *   step    15.8 ms + 22.2 ms x (1 - (248/256)^4)                           18,447,611 ns
 *           drafts                                                         10,700,000
 *           one request under adaptive, and 30,000 for each further query     115,000
 *           rows that cross: 40 of 104 outside the tail in the first round, and of those
 *           that have left the tail since, four or one in each later one
 *                                                            41,432, and 4,143 or 1,036
 * Query q of a round at n committed rows reads all n + q + 1; the tail holds [n - 60, n + 4). */
enum {
    ROUND_NS = 18447611 + 10700000 + 115000,
    FIRST_ROUND_NS = ROUND_NS + 41432,
    RING_BYTES = 6 * 2 * 8 * 128 * (2048 + 128), /* of the drafter: layers, K and V, heads, rows */
    STAGING_BYTES = 4 * 2048 * 4 * 576           /* all rows of four queries, of four layers */
};

START_TEST(rounds_that_are_accepted_whole_are_as_calculated_by_hand)
{
    struct small_run small;
    run_drafting(&small, "1", "workload.lengths.output.tokens=9");
    const struct kvt_tally *total = &small.run->total;
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert_int_eq(record->first_token_ns, IMPORT_NS);
    ck_assert_int_eq(record->finished_ns, IMPORT_NS + FIRST_ROUND_NS + ROUND_NS + 4143);
    ck_assert_uint_eq(record->generated_tokens, 9);
    ck_assert_uint_eq(total->decode_steps, 2);
    ck_assert_uint_eq(total->rounds, 2);
    ck_assert_uint_eq(total->round_tokens, 8);
    ck_assert_int_eq(total->parts_ns[KVT_PART_DENSE], 2 * 18447611);
    ck_assert_int_eq(total->parts_ns[KVT_PART_DRAFT], 2 * 10700000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_OTHER], 2 * 115000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_FETCH], 41432 + 4143);

    const struct kvt_row_counts *rows = &total->rows[0];
    ck_assert_uint_eq(rows->calls, 2 * 21);
    ck_assert_uint_eq(rows->selected, 21 * (101 + 102 + 103 + 104 + 105 + 106 + 107 + 108));
    ck_assert_uint_eq(rows->tail, 21 * 2 * (61 + 62 + 63 + 64));
    ck_assert_uint_eq(rows->hot, 21 * 4 * 40);
    ck_assert_uint_eq(rows->missed, 21 * 4 * (40 + 4));
    ck_assert_uint_eq(rows->union_rows, 21 * (104 + 108));
    ck_assert_uint_eq(rows->union_tail, 21 * 2 * 64);
    ck_assert_uint_eq(rows->union_hot, 21 * 40);
    ck_assert_uint_eq(rows->filled, 21 * (40 + 4));
    ck_assert_uint_eq(rows->staged + rows->page + rows->skipped_calls, 0);
    ck_assert_double_eq(total->h2d_payload_bytes, 44.0 * 78 * 576);
    ck_assert_uint_eq(total->d2h_bytes, 8 * 78 * 576);
    small_run_close(&small);
}
END_TEST

START_TEST(rounds_that_are_rejected_whole_are_as_calculated_by_hand)
{
    struct small_run small;
    run_drafting(&small, "0", "workload.lengths.output.tokens=5");
    const struct kvt_tally *total = &small.run->total;
    const struct kvt_request_record *record = &small.run->records[0];
    ck_assert_int_eq(record->finished_ns, IMPORT_NS + FIRST_ROUND_NS + 3 * (ROUND_NS + 1036));
    ck_assert_uint_eq(record->generated_tokens, 5);
    ck_assert_uint_eq(total->rounds, 4);
    ck_assert_uint_eq(total->round_tokens, 4);

    const struct kvt_row_counts *rows = &total->rows[0];
    ck_assert_uint_eq(rows->selected, 21 * (410 + 414 + 418 + 422));
    ck_assert_uint_eq(rows->tail, 21 * 4 * (61 + 62 + 63 + 64));
    ck_assert_uint_eq(rows->hot, 21 * 4 * (0 + 40 + 41 + 42));
    ck_assert_uint_eq(rows->missed, 21 * 4 * (40 + 1 + 1 + 1));
    ck_assert_uint_eq(rows->filled, 21 * (40 + 1 + 1 + 1));
    ck_assert_uint_eq(rows->staged, 0);
    /* Only what is committed is written to host: a row a round. */
    ck_assert_uint_eq(total->d2h_bytes, 4 * 78 * 576);
    ck_assert_uint_eq(total->host_peak_bytes, 104 * 78 * 576);
    small_run_close(&small);
}
END_TEST

START_TEST(a_last_round_delivers_no_more_than_was_asked_for)
{
    struct small_run small;
    run_drafting(&small, "1", "workload.lengths.output.tokens=7");
    ck_assert_uint_eq(small.run->records[0].generated_tokens, 7);
    ck_assert_uint_eq(small.run->total.output_tokens, 7);
    ck_assert_uint_eq(small.run->total.rounds, 2);
    ck_assert_uint_eq(small.run->total.round_tokens, 6);
    small_run_close(&small);
}
END_TEST

START_TEST(a_drafting_request_holds_a_ring_and_staging_beside_its_rows)
{
    struct small_run small;
    run_drafting(&small, "1", "workload.lengths.output.tokens=9");
    const uint64_t *peak = small.run->total.hbm_peak_by_class;
    /* Rows of the round in hand are room that is held, committed or not: 104 + 4. */
    ck_assert_uint_eq(peak[KVT_MEM_INDEX], 108 * 21 * 132);
    ck_assert_uint_eq(peak[KVT_MEM_HOT], 109 * 78 * 576);
    ck_assert_uint_eq(peak[KVT_MEM_TAIL], 64 * 78 * 576);
    ck_assert_uint_eq(peak[KVT_MEM_RING], RING_BYTES);
    ck_assert_uint_eq(peak[KVT_MEM_STAGING], STAGING_BYTES);
    small_run_close(&small);
}
END_TEST

static Suite *sim_suite(void)
{
    Suite *suite = suite_create("sim");
    TCase *hand = tcase_create("by_hand");
    tcase_add_test(hand, every_timestamp_is_the_one_calculated_by_hand);
    tcase_add_test(hand, every_row_and_byte_is_the_one_counted_by_hand);
    tcase_add_test(hand, two_requests_share_the_import_and_the_step_as_calculated_by_hand);
    tcase_add_test(hand, a_request_of_one_token_ends_with_its_import);
    tcase_add_test(hand, a_slow_way_back_stalls_steps_and_breaks_nothing);
    tcase_add_test(hand, without_any_cost_time_stands_still);
    tcase_add_test(hand, a_resident_history_moves_no_row);
    suite_add_tcase(suite, hand);

    TCase *drafting = tcase_create("speculation");
    tcase_add_test(drafting, rounds_that_are_accepted_whole_are_as_calculated_by_hand);
    tcase_add_test(drafting, rounds_that_are_rejected_whole_are_as_calculated_by_hand);
    tcase_add_test(drafting, a_last_round_delivers_no_more_than_was_asked_for);
    tcase_add_test(drafting, a_drafting_request_holds_a_ring_and_staging_beside_its_rows);
    suite_add_tcase(suite, drafting);

    TCase *ends = tcase_create("ends");
    tcase_set_timeout(ends, 20);
    tcase_add_test(ends, what_can_never_fit_is_dropped_and_counted);
    tcase_add_test(ends, a_request_that_fits_and_could_never_finish_is_unservable);
    tcase_add_test(ends, a_closed_loop_of_what_can_never_fit_is_diagnosed_not_counted_for_ever);
    tcase_add_test(ends, a_workload_without_an_end_is_refused);
    tcase_add_loop_test(ends, a_step_that_takes_longer_than_an_hour_is_refused, 0, 2);
    tcase_add_test(ends, a_rank_that_waits_for_its_nodes_dram_goes_on_when_another_gives_it_back);
    tcase_add_test(ends, a_stall_is_diagnosed);
    tcase_add_test(ends, requests_await_pages_on_their_way_up_rather_than_stall);
    tcase_add_test(ends, a_run_that_is_stopped_says_what_its_requests_have_read);
    tcase_add_loop_test(ends, a_run_that_is_stopped_while_prompts_are_computed_loses_nobody, 0, 2);
    suite_add_tcase(suite, ends);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(sim_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
