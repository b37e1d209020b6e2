/* test_warm_loop.c -- once a batch is full, steps allocate nothing, whoever keeps what where. */
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "support/small_run.h"
#include "support/support.h"

/* GLM-5.3 in small, eight requests that decode for long. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"warm\", \"seed\": 3, "                        \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, "                            \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}, \"hardware\": \"b300\", "                             \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"lockstep\": true, "                                 \
    "\"pools\": {\"unified_gib\": 0.05}, \"speculation_workspace_gib\": 0}, "                      \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 32}, "                              \
    "\"selection\": {\"law\": \"tape\", \"tapes\": 2, \"steps\": 64}, "                            \
    "\"speculation\": {\"method\": \"mtp\", \"drafts\": 3}, "                                      \
    "\"timing\": {\"model\": \"roofline\"}, "                                                      \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 8, \"requests\": 8, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 500}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 3000}}}, "                                       \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

static const char *const policies[] = {"residency=resident",      "residency=hisparse",
                                       "residency=adaptive",      "residency=vllm-hybrid",
                                       "residency=sglang-demote", "residency=prefix-offload"};
enum {
    POLICIES = sizeof policies / sizeof policies[0],
    WARM_EVENTS = 1500,
    EVENTS = 600
};

static void advance(struct small_run *small, int events)
{
    bool more = true;

    for (int i = 0; i < events && more; i++) {
        if (kvt_sim_step(small->sim, &more, &small->err) != KVT_OK)
            ck_abort_msg("%s", small->err.message);
    }
    if (!more) /* an assertion that holds allocates, too */
        ck_abort_msg("requests have finished");
}

START_TEST(a_full_batch_steps_without_allocating)
{
    const char *const sets[] = {policies[_i], NULL};
    /* Alone: what a further thread records ahead of the steps it may come to at any time. */
    const struct kvt_sim_options options = {.threads = 1};
    struct small_run small;

    if (!support_can_fail_allocations())
        return;
    small_run_open(&small, SCENARIO, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    advance(&small, WARM_EVENTS);
    uint64_t before = support_allocations();
    advance(&small, EVENTS);
    ck_assert_uint_eq(support_allocations() - before, 0);
    small_run_close(&small);
}
END_TEST

extern const struct kvt_replacement_policy kvt_replacement_lru;

START_TEST(nor_does_it_for_policies_that_want_to_know_everything)
{
    static const char *const sets[] = {"residency=adaptive", "selection=score",
                                       "workload.lengths.input.tokens=100",
                                       "workload.concurrency=3", NULL};
    static const struct kvt_param_spec clairvoyant = {.name = KVT_CLAIRVOYANT,
                                                      .type = KVT_PARAM_BOOL};
    static const struct kvt_param_value sees = {.number = 1};
    struct kvt_replacement_policy seer = kvt_replacement_lru;
    struct small_run small;

    if (!support_can_fail_allocations())
        return;
    small_run_parse(&small, SCENARIO, sets);
    struct kvt_residency_policy watcher =
        *(const struct kvt_residency_policy *)(const void *)small.scenario.residency.info;
    watcher.wants_page_hits = watcher.wants_page_scores = true;
    seer.info.params = &clairvoyant;
    seer.info.param_count = 1;
    small.scenario.residency.info = &watcher.info;
    small.scenario.replacement = (struct kvt_choice){&seer.info, {&sees, 1}};
    small_run_start(&small, NULL);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    advance(&small, WARM_EVENTS / 5);
    uint64_t before = support_allocations();
    advance(&small, EVENTS / 3);
    ck_assert_uint_eq(support_allocations() - before, 0);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("warm_loop");
    TCase *tcase = tcase_create("warm_loop");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(tcase, a_full_batch_steps_without_allocating, 0, POLICIES);
    tcase_add_test(tcase, nor_does_it_for_policies_that_want_to_know_everything);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
