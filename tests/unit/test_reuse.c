/* test_reuse.c -- prompts that repeat what was computed before, and prompts that are computed
 * beside decoding: tokens, bytes and times calculated by hand. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "sim_private.h"
#include "support/small_run.h"

/* GLM-5.3 with light weights on one GPU: index rows of 21 x 132 B = 2,772 B a token, payload of
 * 78 x 576 B = 44,928 B; a page of 64 tokens is 177,408 B and 2,875,392 B. One conversation of two
 * turns: 100 in and 5 out, then 100 + 5 + 30 = 135 in and 5 out. */
#define MODEL                                                                                      \
    "\"model\": {\"base\": \"glm-5.3\", \"weight_bytes\": 2147483648, "                            \
    "\"dense_weight_bytes\": 1073741824, \"weights_replicated_gib\": 1, "                          \
    "\"weights_expert_gib\": 1}, "

#define TALK                                                                                       \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"talk\", \"seed\": 1, " MODEL                  \
    "\"hardware\": \"b300\", "                                                                     \
    "\"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": {\"unified_gib\": 2}}, "                   \
    "\"import\": {\"law\": \"rate\"}}, "                                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 4096}, "                            \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"sessions\", \"concurrency\": 1, \"conversations\": 1, "         \
    "\"turns\": 2, \"new_tokens\": [100, 30], \"output_tokens\": 5}}"

#define COLOCATED "cluster.prefill={\"mode\": \"colocated\", \"tokens_per_s\": 10000}"

enum {
    INDEX_TOKEN = 21 * 132,
    PAYLOAD_TOKEN = 78 * 576,
    PAGE = 64 * (INDEX_TOKEN + PAYLOAD_TOKEN),
    /* A row on its way to host: 44,928 B at 55.3 GB/s. */
    ROW_BACK_NS = 813,
    MS = 1000000
};

static kvt_ns ttft_ns(const struct small_run *small, uint32_t request)
{
    const struct kvt_request_record *record = &small->run->records[request];
    return record->first_token_ns - record->arrival_ns;
}

START_TEST(a_second_turn_imports_what_the_first_did_not_leave)
{
    /* Whole pages of 104 rows: one. 71 tokens are new: index rows 196,812 B and payload 3,189,888 B
     * at 10 GB/s, the payload once more at 55.3 GB/s, a hand-over; behind the page's last row but
     * one step's, which is on its way to host. */
    const kvt_ns outside_ns = 19682 + 318989 + 57684 + 7000;
    struct small_run small;
    small_run_whole(&small, TALK, NULL);
    const struct kvt_tally *total = &small.run->total;
    ck_assert_uint_eq(small.run->record_count, 2);
    ck_assert_uint_eq(small.run->records[1].input_tokens, 135);
    ck_assert_uint_eq(total->prefix_hit_tokens, 64);
    ck_assert_uint_eq(small.run->records[0].prefix_hit_tokens, 0);
    ck_assert_uint_eq(small.run->records[1].prefix_hit_tokens, 64);
    ck_assert_uint_eq(total->import_hbm_bytes, (100 + 71) * INDEX_TOKEN);
    ck_assert_uint_eq(total->import_host_bytes, (100 + 71) * PAYLOAD_TOKEN);
    ck_assert_int_eq(ttft_ns(&small, 1), outside_ns);
    ck_assert_int_gt(outside_ns, ROW_BACK_NS);
    /* Its index rows and payload are there once: 139 tokens at the end. */
    ck_assert_uint_eq(total->hbm_peak_by_class[KVT_MEM_INDEX], 139 * INDEX_TOKEN);
    ck_assert_uint_eq(total->host_peak_bytes, 139 * PAYLOAD_TOKEN);
    small_run_close(&small);
}
END_TEST

START_TEST(rows_that_were_found_on_host_are_not_written_again)
{
    /* Whole pages are written: the first one in the first turn, the second one in the second. */
    static const char *const sets[] = {"residency={\"policy\": \"vllm-hybrid\"}", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 64);
    ck_assert_uint_eq(small.run->total.d2h_bytes, 2 * 64 * PAYLOAD_TOKEN);
    /* And its payload had stayed in HBM, where it went over to the second. */
    ck_assert_uint_eq(small.run->total.recall_bytes, 0);
    ck_assert_uint_eq(small.run->total.import_hbm_bytes,
                      (100 + 71) * (INDEX_TOKEN + PAYLOAD_TOKEN));
    small_run_close(&small);
}
END_TEST

START_TEST(a_prompt_is_computed_at_its_rate_and_only_what_was_not_found)
{
    static const char *const sets[] = {COLOCATED, NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_tally *total = &small.run->total;
    /* 100 tokens, then their rows to host: 4,492,800 B. 71 tokens once the row of the last step is
     * there: 3,189,888 B. */
    ck_assert_int_eq(ttft_ns(&small, 0), 10 * MS + 81245);
    ck_assert_int_eq(ttft_ns(&small, 1), ROW_BACK_NS + 71 * MS / 10 + 57684);
    ck_assert_int_eq(total->parts_ns[KVT_PART_PREFILL], 171 * MS / 10);
    ck_assert_uint_eq(total->prefix_hit_tokens, 64);
    ck_assert_uint_eq(total->import_hbm_bytes + total->import_host_bytes, 0);
    /* Each computed row once, and those of four steps in each turn. */
    ck_assert_uint_eq(total->d2h_bytes, (171 + 8) * PAYLOAD_TOKEN);
    ck_assert_uint_eq(total->decode_steps, 2 + 8);
    small_run_close(&small);
}
END_TEST

START_TEST(chunks_and_context_make_a_prompt_slower)
{
    static const char *const sets[] = {COLOCATED, "cluster.prefill.context_half_tokens=1000",
                                       "cluster.prefill.chunk_tokens=64",
                                       "residency={\"policy\": \"resident\"}", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    /* 64 tokens see 1 to 64 rows, 2,080 in all; 36 see 65 to 100, 2,970: 6.608 and 3.897 ms. Then
     * 64 see 65 to 128, 6,176; 7 see 129 to 135, 924: 7.0176 and 0.7924 ms. */
    ck_assert_int_eq(ttft_ns(&small, 0), 6608000 + 3897000);
    ck_assert_int_eq(ttft_ns(&small, 1), 7017600 + 792400);
    ck_assert_uint_eq(small.run->total.decode_steps, 4 + 8);
    small_run_close(&small);
}
END_TEST

START_TEST(queries_come_before_prompts_in_a_chunk)
{
    static const char *const sets[] = {COLOCATED,
                                       "cluster.prefill.chunk_tokens=64",
                                       "residency={\"policy\": \"resident\"}",
                                       "workload.concurrency=2",
                                       "workload.conversations=2",
                                       "workload.turns=1",
                                       "workload.new_tokens=100",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    /* 64 of the first; its other 36 and 28 of the second; with the first decoding, 63; 9. The first
     * has then delivered 3 of its 5 tokens, and the second's four steps are the last ones. */
    ck_assert_uint_eq(small.run->total.decode_steps, 8);
    ck_assert_int_eq(small.run->total.parts_ns[KVT_PART_PREFILL], 20 * MS);
    ck_assert_int_eq(ttft_ns(&small, 0), 64 * MS / 10 + 64 * MS / 10);
    ck_assert_int_gt(ttft_ns(&small, 1), 20 * MS);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(a_prefill_pool_computes_what_the_rank_has_not)
{
    static const char *const sets[] = {
        "cluster.prefill={\"mode\": \"separate\", \"tokens_per_s\": 10000}",
        "residency={\"policy\": \"resident\"}", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    /* 4,770,000 B and 3,386,700 B are imported behind it at 10 GB/s. */
    ck_assert_int_eq(ttft_ns(&small, 0), 10 * MS + 477000);
    ck_assert_int_eq(ttft_ns(&small, 1), 71 * MS / 10 + 338670);
    small_run_close(&small);
}
END_TEST

/* Two conversations in turns on a GPU that has room for one request: 640 in and 5 out, then 675
 * in. Each leaves ten whole pages, none of which the other has room beside. */
#define IN_TURNS                                                                                   \
    "workload.concurrency=2", "workload.conversations=2", "workload.new_tokens=[640, 30]",         \
        "cluster.decode.pools.unified_gib=0.0305"

START_TEST(what_nobody_holds_gives_way)
{
    static const char *const sets[] = {IN_TURNS, "residency={\"policy\": \"resident\"}", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.completed, 4);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 0);
    ck_assert_uint_eq(small.run->total.preemptions, 0);
    ck_assert_uint_le(small.run->total.hbm_peak_bytes, (uint64_t)(0.0305 * (double)KVT_GIB));
    small_run_close(&small);
}
END_TEST

START_TEST(pages_that_a_prefill_pool_counted_on_and_that_are_gone_are_computed)
{
    static const char *const sets[] = {
        "cluster.prefill={\"mode\": \"separate\", \"tokens_per_s\": 10000, \"gpus\": 2}", IN_TURNS,
        "residency={\"policy\": \"resident\"}", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_request_record *records = small.run->records;
    /* As the first one's second turn came it counted on ten pages, and 35 tokens were computed. The
     * second one took their room; so at the first boundary behind its first step 640 tokens more
     * are, 64 ms, and 675 are imported, 32,197,500 B. */
    kvt_ns waited_ns = records[2].first_token_ns - records[1].first_token_ns;
    kvt_ns step_ns = (records[1].finished_ns - records[1].first_token_ns) / 4;
    ck_assert_int_lt(records[2].arrival_ns + 35 * MS / 10, records[1].first_token_ns + step_ns);
    ck_assert_int_lt(llabs(waited_ns - (step_ns + 64 * MS + 3219750)), MS / 100);
    ck_assert_uint_eq(records[2].prefix_hit_tokens, 0);
    /* The second one's own pages were still there as it came again. */
    ck_assert_uint_eq(records[3].prefix_hit_tokens, 640);
    ck_assert_uint_eq(small.run->total.import_hbm_bytes,
                      (640 + 640 + 675 + 35) * (INDEX_TOKEN + PAYLOAD_TOKEN));
    small_run_close(&small);
}
END_TEST

START_TEST(whole_prefixes_on_host_outlive_their_place_in_hbm)
{
    static const char *const sets[] = {IN_TURNS, "residency={\"policy\": \"prefix-offload\"}",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_tally *total = &small.run->total;
    ck_assert_uint_eq(total->prefix_hit_tokens, 2 * 640);
    /* Written once each, index rows with payload; there at the end, too. */
    ck_assert_uint_eq(total->d2h_bytes, 2 * 10 * PAGE);
    /* Payload of both came up; of the second also the index rows of eight pages: for 675 tokens and
     * four more the first took 1,393,854 B beyond all idle payload, 7.9 pages of index rows. */
    ck_assert_uint_eq(total->recall_bytes, 2 * 10 * 64 * PAYLOAD_TOKEN + 8 * 64 * INDEX_TOKEN);
    ck_assert_uint_eq(total->host_peak_bytes, 2 * 10 * PAGE);
    ck_assert_uint_eq(total->import_hbm_bytes, 2 * (640 + 35) * (INDEX_TOKEN + PAYLOAD_TOKEN));
    /* The first one's second turn waited for the other to end. Its index rows had room beside
     * that; its payload came up, longer than 35 tokens took from outside: 28,753,920 B at
     * 49.4 GB/s. */
    const struct kvt_request_record *records = small.run->records;
    ck_assert_int_eq(records[2].first_token_ns - records[1].finished_ns, 582064);
    small_run_close(&small);
}
END_TEST

START_TEST(host_dram_bounds_what_is_offloaded)
{
    /* For 15 pages of the 20. The second conversation's push out five of the first's, the last
     * ones, which finds the other five; and so on. */
    static const char *const sets[] = {IN_TURNS, "residency={\"policy\": \"prefix-offload\"}",
                                       "cluster.decode.host_dram_gib_per_node=0.0427", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_tally *total = &small.run->total;
    ck_assert_uint_eq(total->host_peak_bytes, 15 * PAGE);
    ck_assert_uint_ge(total->prefix_hit_tokens, 5 * 64);
    ck_assert_uint_lt(total->prefix_hit_tokens, 2 * 640);
    ck_assert_uint_eq(total->completed, 4);
    small_run_close(&small);
}
END_TEST

START_TEST(index_rows_are_found_again_where_they_were_offloaded)
{
    /* Index rows of one request fit, and payload on host is found with nobody's index rows. */
    const char *sets[] = {IN_TURNS, "cluster.decode.pools={\"index_gib\": 0.0018, \"rows_gib\": 1}",
                          NULL, NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 0);
    small_run_close(&small);

    sets[5] = "cluster.decode.index_offload_gib_per_node=1";
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 2 * 640);
    small_run_close(&small);
}
END_TEST

START_TEST(a_prefix_that_many_begin_with_is_held_once)
{
    static const char *const sets[] = {"residency={\"policy\": \"resident\"}",
                                       "workload.turns=1",
                                       "workload.conversations=3",
                                       "workload.concurrency=1",
                                       "workload.new_tokens=640",
                                       "workload.shared_prefix_tokens=576",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 2 * 576);
    /* Nine common pages and each conversation's tenth stay; the last one's four rows are gone. */
    ck_assert_uint_eq(small.sim->ranks[0].prefixes.holding.bytes[KVT_MEM_INDEX],
                      12 * 64 * INDEX_TOKEN);
    ck_assert_uint_eq(kvt_rank_memory_used(&small.sim->ranks[0].memory), (uint64_t)12 * PAGE);
    small_run_close(&small);
}
END_TEST

/* Tokens a second of 20 conversations of six turns, so many at once. Host DRAM has room for six of
 * them, index rows and payload, in two copies; or for all ten with payload in one, and index rows
 * beside it. */
static double tokens_per_s(bool offloads_whole, const char *concurrency)
{
    const char *sets[] = {
        offloads_whole ? "residency={\"policy\": \"prefix-offload\"}"
                       : "residency={\"policy\": \"hisparse\", \"hot_tokens\": 2048}",
        offloads_whole ? "cluster.decode.host_pool=per_rank" : "cluster.decode.host_pool=shared",
        offloads_whole ? "cluster.decode.index_offload_gib_per_node=0"
                       : "cluster.decode.index_offload_gib_per_node=0.1",
        concurrency,
        COLOCATED,
        "workload.conversations=20",
        "workload.turns=6",
        "workload.new_tokens=[640, 30]",
        "cluster.decode.gpus=2",
        "cluster.decode.tp=2",
        "cluster.decode.pools.unified_gib=0.15",
        "cluster.decode.host_dram_gib_per_node=0.42",
        NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_tally *total = &small.run->total;
    ck_assert_uint_eq(total->completed, 20 * 6);
    double tokens = (double)total->input_tokens + (double)total->output_tokens;
    double seconds = (double)small.run->end_ns / (double)KVT_NS_PER_S;
    small_run_close(&small);
    return tokens / seconds;
}

START_TEST(plain_offload_collapses_where_its_prefixes_no_longer_fit)
{
    double few = tokens_per_s(true, "workload.concurrency=4");
    double many = tokens_per_s(true, "workload.concurrency=10");
    ck_assert_double_lt(many, 0.5 * few);
    few = tokens_per_s(false, "workload.concurrency=4");
    many = tokens_per_s(false, "workload.concurrency=10");
    ck_assert_double_gt(many, 0.9 * few);
}
END_TEST

START_TEST(whoever_blocks_the_queue_is_not_looked_up_at_every_boundary)
{
    /* Four conversations of three turns where two requests fit; while two decode 100 tokens, one
     * waits at the head of the queue. What is found is held once for each that is admitted, and
     * once more for each that was refused when something had come free. */
    static const char *const sets[] = {"residency={\"policy\": \"prefix-offload\"}",
                                       "workload.concurrency=4",
                                       "workload.conversations=4",
                                       "workload.turns=3",
                                       "workload.new_tokens=[640, 30]",
                                       "workload.output_tokens=100",
                                       "cluster.decode.pools.unified_gib=0.1",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    const struct kvt_tally *total = &small.run->total;
    const struct kvt_prefix_counters *store =
        kvt_prefix_counters_of(small.sim->ranks[0].prefixes.store);
    ck_assert_uint_eq(total->completed, 12);
    ck_assert_uint_gt(total->decode_steps, 400);
    ck_assert_uint_gt(total->prefix_hit_tokens, 0);
    ck_assert_uint_le(store->adopted_pages, 3 * total->prefix_hit_tokens / 64);
    small_run_close(&small);
}
END_TEST

START_TEST(blocks_that_a_trace_names_are_found)
{
    /* 1,300 tokens of blocks 0, 1 and 2, and 512 of block 0, both at once; three seconds later 513
     * of blocks 0 and 9: block 0 is eight pages. */
    static const char trace[] = "workload={\"arrival\": \"trace\", \"path\": "
                                "\"" KVT_TEST_ROOT "/tests/unit/data/traces/mooncake.jsonl\"}";
    static const char *const sets[] = {trace, NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->record_count, 3);
    ck_assert_uint_eq(small.run->records[0].prefix_hit_tokens, 0);
    ck_assert_uint_eq(small.run->records[1].prefix_hit_tokens, 0);
    ck_assert_uint_eq(small.run->records[2].prefix_hit_tokens, 512);
    small_run_close(&small);
}
END_TEST

START_TEST(a_store_that_must_make_room_for_all_is_empty)
{
    static const char *const policies[] = {"resident",    "hisparse",      "adaptive",
                                           "vllm-hybrid", "sglang-demote", "prefix-offload"};
    char residency[64];
    (void)snprintf(residency, sizeof residency, "residency={\"policy\": \"%s\"}", policies[_i]);
    const char *sets[] = {residency, "workload.new_tokens=[640, 30]", NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.prefix_hit_tokens, 640);
    struct kvt_rank *rank = &small.sim->ranks[0];
    const uint64_t all[KVT_MEM_CLASSES] = {[KVT_MEM_INDEX] = rank->memory.pool_bytes[0]};
    const kvt_prefix_homes homes = (1u << KVT_PREFIX_HOMES) - 1;
    ck_assert(kvt_rank_is_sane(rank, small.run->end_ns));
    ck_assert_uint_gt(kvt_prefix_page_count(rank->prefixes.store), 0);
    ck_assert(kvt_prefix_pool_make_room(&rank->prefixes, homes, all, rank->env.host->capacity_bytes,
                                        false));
    ck_assert_uint_eq(kvt_prefix_page_count(rank->prefixes.store), 0);
    ck_assert_uint_eq(kvt_rank_memory_used(&rank->memory), 0);
    ck_assert_uint_eq(rank->env.host->used_bytes, 0);
    small_run_close(&small);
}
END_TEST

START_TEST(host_dram_that_nobody_holds_is_any_ranks_of_the_node)
{
    /* A node's DRAM for one request, and two ranks that are taken in turn. */
    static const char *const sets[] = {"cluster.decode.gpus=2",
                                       "cluster.decode.host_dram_gib_per_node=0.03",
                                       "cluster.router.policy=round-robin",
                                       "workload.conversations=4",
                                       "workload.turns=1",
                                       "workload.new_tokens=640",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.completed, 4);
    ck_assert_uint_eq(small.run->records[3].rank, 1);
    ck_assert_uint_le(small.run->total.host_peak_bytes, (uint64_t)(0.03 * (double)KVT_GIB));
    small_run_close(&small);
}
END_TEST

START_TEST(a_conversation_ends_where_a_turn_can_never_fit)
{
    /* 675 tokens and their answer do not fit, 640 do. */
    static const char *const sets[] = {"residency={\"policy\": \"resident\"}",
                                       "workload.conversations=3",
                                       "workload.turns=4",
                                       "workload.new_tokens=[640, 30]",
                                       "cluster.decode.pools.unified_gib=0.0290",
                                       NULL};
    struct small_run small;
    small_run_whole(&small, TALK, sets);
    ck_assert_uint_eq(small.run->total.completed, 3);
    ck_assert_uint_eq(small.run->total.unservable, 3);
    ck_assert_uint_eq(small.run->record_count, 6);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reuse");
    TCase *hand = tcase_create("by_hand");
    tcase_set_timeout(hand, 20);
    tcase_add_test(hand, a_second_turn_imports_what_the_first_did_not_leave);
    tcase_add_test(hand, rows_that_were_found_on_host_are_not_written_again);
    tcase_add_test(hand, a_prompt_is_computed_at_its_rate_and_only_what_was_not_found);
    tcase_add_test(hand, chunks_and_context_make_a_prompt_slower);
    tcase_add_test(hand, queries_come_before_prompts_in_a_chunk);
    tcase_add_test(hand, a_prefill_pool_computes_what_the_rank_has_not);
    suite_add_tcase(suite, hand);

    TCase *store = tcase_create("store");
    tcase_set_timeout(store, 20);
    tcase_add_test(store, what_nobody_holds_gives_way);
    tcase_add_test(store, pages_that_a_prefill_pool_counted_on_and_that_are_gone_are_computed);
    tcase_add_test(store, whole_prefixes_on_host_outlive_their_place_in_hbm);
    tcase_add_test(store, host_dram_bounds_what_is_offloaded);
    tcase_add_test(store, index_rows_are_found_again_where_they_were_offloaded);
    tcase_add_test(store, a_prefix_that_many_begin_with_is_held_once);
    tcase_add_test(store, plain_offload_collapses_where_its_prefixes_no_longer_fit);
    tcase_add_test(store, whoever_blocks_the_queue_is_not_looked_up_at_every_boundary);
    tcase_add_test(store, blocks_that_a_trace_names_are_found);
    tcase_add_loop_test(store, a_store_that_must_make_room_for_all_is_empty, 0, 6);
    tcase_add_test(store, host_dram_that_nobody_holds_is_any_ranks_of_the_node);
    tcase_add_test(store, a_conversation_ends_where_a_turn_can_never_fit);
    suite_add_tcase(suite, store);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
