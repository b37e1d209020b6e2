/* test_decision_chain.c -- calls go into the run's chain by step, request and selector, whatever
 * the batch's order. */
#include <stdlib.h>

#include <check.h>

#include "kvt/hash.h"
#include "sim_private.h"
#include "support/small_run.h"

/* DeepSeek-V4.1-Flash, whose selectors share stores, on two ranks that step together: requests
 * with even numbers on one, with odd ones on the other. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"chain\", \"seed\": 5, "                       \
    "\"model\": {\"base\": \"deepseek-v4.1-flash\", \"top_k\": 16, "                               \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1}, \"hardware\": \"b300\", "          \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"lockstep\": true, "                                 \
    "\"pools\": {\"unified_gib\": 0.05}}, \"router\": \"round-robin\", "                           \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 128}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 6, \"requests\": 6, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 500}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 30}}}, "                                         \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

static void advance(struct small_run *small)
{
    bool more = true;
    kvt_status status = kvt_sim_step(small->sim, &more, &small->err);
    ck_assert_msg(status == KVT_OK && more, "%s", small->err.message);
}

/* Of the step in hand, in order of requests. */
static uint64_t chain_by_request(const struct kvt_sim *sim, uint64_t chain, uint32_t count)
{
    for (uint32_t request = 0; request < sim->record_count; request++) {
        for (uint32_t i = 0; i < count; i++) {
            if (sim->items[i].request == request)
                chain = kvt_chain64(chain, sim->items[i].decisions);
        }
    }
    return chain;
}

START_TEST(requests_of_all_ranks_are_chained_in_their_order)
{
    struct small_run small;
    int steps = 0;

    small_run_open(&small, SCENARIO, NULL, NULL);
    ck_assert_msg(small.status == KVT_OK, "%s", small.err.message);
    while (steps < 10) {
        const struct kvt_sim *sim = small.sim;
        uint64_t before = kvt_sim_decision_hash(sim);
        bool was_stepping = sim->groups[0].stepping;
        advance(&small);
        if (was_stepping || !sim->groups[0].stepping || sim->decoding < 6)
            continue;
        uint32_t count = sim->rank_steps[0].item_count + sim->rank_steps[1].item_count;
        ck_assert_uint_eq(count, 6);
        ck_assert_uint_gt(sim->items[1].request, sim->items[3].request); /* rank by rank */
        ck_assert_uint_eq(kvt_sim_decision_hash(sim), chain_by_request(sim, before, count));
        steps++;
    }
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decision chain");
    TCase *tcase = tcase_create("decision chain");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, requests_of_all_ranks_are_chained_in_their_order);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
