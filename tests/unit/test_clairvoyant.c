/* test_clairvoyant.c -- who sees the future, how the result says so, and what a run refuses to
 * tell. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/json.h"
#include "support/small_run.h"
#include "support/support.h"

/* GLM-5.3 in small. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"future\", \"seed\": 3, "                      \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, "                            \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}, \"hardware\": \"b300\", "                             \
    "\"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": {\"unified_gib\": 8}}, "                   \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 128}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 3, \"requests\": 6, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 200}, "                             \
    "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": 30, \"cv\": 0.5}}}, "                   \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

#define NO_WORKSPACE "cluster.decode.speculation_workspace_gib=0"

extern const struct kvt_replacement_policy kvt_replacement_lru;

/* ---- Policies that may see ------------------------------------------------------------------ */

static const struct kvt_param_spec clairvoyant = {
    .name = KVT_CLAIRVOYANT, .type = KVT_PARAM_BOOL, .help = "Sees the future."};
static struct kvt_param_value sights[2];
static struct kvt_residency_policy residency;
static struct kvt_replacement_policy replacement;

enum {
    REQUESTS = 6
};
static uint32_t promised[REQUESTS]; /* whole output that a request was said to have; 0: none */
static uint32_t boundaries, unlike;

static uint32_t listen(void *state, const struct kvt_residency_view *view,
                       struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state, (void)actions, (void)capacity;
    boundaries++;
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t whole = request->future_output_tokens > 0
                             ? request->generated_tokens + request->future_output_tokens
                             : 0;
        if (promised[request->id] == 0)
            promised[request->id] = whole;
        unlike += promised[request->id] != whole;
    }
    return 0;
}

/* Of a run that is parsed: who sees, of residency and replacement, which have no other
 * parameters. */
static void give_sight(struct small_run *small, bool residency_sees, bool replacement_sees)
{
    residency = *(const struct kvt_residency_policy *)(const void *)small->scenario.residency.info;
    residency.boundary = listen;
    residency.info.name = "listener";
    residency.info.params = &clairvoyant;
    residency.info.param_count = 1;
    replacement = kvt_replacement_lru;
    replacement.info.name = "seer";
    replacement.info.params = &clairvoyant;
    replacement.info.param_count = 1;
    sights[0] = (struct kvt_param_value){.number = residency_sees};
    sights[1] = (struct kvt_param_value){.number = replacement_sees};
    small->scenario.residency = (struct kvt_choice){&residency.info, {&sights[0], 1}};
    small->scenario.replacement = (struct kvt_choice){&replacement.info, {&sights[1], 1}};
    memset(promised, 0, sizeof promised);
    boundaries = unlike = 0;
}

static void run(struct small_run *small, bool residency_sees, bool replacement_sees)
{
    small_run_parse(small, SCENARIO, NULL);
    give_sight(small, residency_sees, replacement_sees);
    small_run_start(small, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

START_TEST(a_clairvoyant_residency_policy_is_told_the_output_that_is_left)
{
    struct small_run small;

    run(&small, true, false);
    ck_assert_uint_gt(boundaries, 50);
    ck_assert_uint_eq(unlike, 0);
    for (uint32_t r = 0; r < REQUESTS; r++)
        ck_assert_uint_eq(promised[r], small.run->records[r].output_tokens);
    ck_assert_uint_ne(promised[0], promised[1]);
    small_run_close(&small);
}
END_TEST

START_TEST(nobody_else_is_told)
{
    struct small_run small;

    run(&small, false, _i);
    ck_assert_uint_gt(boundaries, 50);
    for (uint32_t r = 0; r < REQUESTS; r++)
        ck_assert_uint_eq(promised[r], 0);
    small_run_close(&small);
}
END_TEST

START_TEST(a_result_that_saw_the_future_is_marked_a_bound)
{
    struct small_run small;
    struct cJSON *result = NULL;
    char *summary = NULL;
    size_t bytes = 0;
    bool sees = _i > 0;

    run(&small, (_i & 1) != 0, (_i & 2) != 0);
    ck_assert_int_eq(kvt_report_result(small.run, &result, &small.err), KVT_OK);
    ck_assert_int_eq(cJSON_IsTrue(kvt_json_find(result, "bound")), sees);
    ck_assert_int_eq(cJSON_IsFalse(kvt_json_find(result, "bound")), !sees);
    FILE *stream = open_memstream(&summary, &bytes);
    ck_assert_ptr_nonnull(stream);
    kvt_report_summary(stream, small.run, result);
    (void)fclose(stream);
    ck_assert_int_eq(strstr(summary, "\nbound      ") != NULL, sees);
    free(summary);
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

/* ---- What a run cannot tell -------------------------------------------------------------------
 */

static const struct {
    const char *sets[4];
    bool hits, scores, sees;
    const char *where, *words;
} refusals[] = {
    {{"run.fidelity=sampled", NULL},
     true,
     false,
     false,
     "listener",
     "wants page hits, which \"sampled\" does not keep"},
    {{"run.fidelity=sampled", "run.sample_requests=0", NULL},
     false,
     true,
     false,
     "listener",
     "wants page scores, which \"sampled\" does not keep"},
    {{"selection.law=tape", NULL},
     true,
     true,
     false,
     "listener",
     "page scores, which the law \"tape\" does not have; selection.law \"score\""},
    {{"residency=resident", NULL}, true, false, false, "listener", "says history_in_hbm"},
    {{"residency=resident", NULL}, false, true, false, "listener", "says history_in_hbm"},
    {{"run.fidelity=sampled", NULL},
     false,
     false,
     true,
     "seer",
     "\"sampled\" does not follow every request"},
    {{"run.fidelity=analytic", NULL},
     false,
     false,
     true,
     "seer",
     "\"analytic\" does not follow every request"},
    {{"speculation={\"method\": \"dspark\", \"drafter\": \"glm-5.3-dflash2\"}", NO_WORKSPACE, NULL},
     false,
     false,
     true,
     "seer",
     "rounds of speculation method \"dspark\" depend on who else decodes"},
    {{"speculation.method=dflash2", NO_WORKSPACE, NULL},
     false,
     false,
     true,
     "seer",
     "rounds of speculation method \"dflash2\" depend"},
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(what_a_run_cannot_tell_is_refused_by_name)
{
    struct small_run small;

    small_run_parse(&small, SCENARIO, refusals[_i].sets);
    give_sight(&small, false, refusals[_i].sees);
    residency.wants_page_hits = refusals[_i].hits;
    residency.wants_page_scores = refusals[_i].scores;
    small_run_start(&small, NULL);
    ck_assert_int_ne(small.status, KVT_OK);
    ck_assert_str_eq(small.err.where, refusals[_i].where);
    ck_assert_msg(strstr(small.err.message, refusals[_i].words) != NULL, "\"%s\" lacks \"%s\"",
                  small.err.message, refusals[_i].words);
    small_run_close(&small);
}
END_TEST

START_TEST(rounds_of_one_size_can_be_known)
{
    static const char *const methods[] = {"speculation.method=mtp", "speculation.method=eagle-tree",
                                          "speculation={\"method\": \"dflash2\", \"block\": 4}",
                                          "speculation={\"method\": \"dspark\", \"drafter\": "
                                          "\"glm-5.3-dflash2\", \"fixed_drafts\": 3}"};
    struct small_run small;

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        small_run_parse(&small, SCENARIO,
                        (const char *const[]){methods[i], NO_WORKSPACE, "workload.requests=2",
                                              "workload.concurrency=2", NULL});
        give_sight(&small, false, true);
        small_run_start(&small, NULL);
        small_run_finish(&small);
        ck_assert_msg(small.status == KVT_OK, "%s: %s", methods[i], small.err.message);
        small_run_close(&small);
    }
}
END_TEST

START_TEST(memory_that_runs_out_on_the_way_is_reported)
{
    static const char *const sets[] = {
        "workload.requests=1", "workload.concurrency=1",
        "workload.lengths.output={\"law\": \"fixed\", \"tokens\": 3}", NULL};
    bool failed = true;

    if (!support_can_fail_allocations())
        return;
    for (uint64_t nth = 0; failed; nth++) {
        struct small_run small;
        small_run_parse(&small, SCENARIO, sets);
        give_sight(&small, true, true);
        residency.wants_page_hits = residency.wants_page_scores = true;
        support_fail_allocation(nth);
        small_run_start(&small, NULL);
        small_run_finish(&small);
        failed = support_allocation_failed();
        ck_assert_int_eq(small.status, failed ? KVT_ERR_NOMEM : KVT_OK);
        small_run_close(&small);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clairvoyant");
    TCase *tcase = tcase_create("clairvoyant");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, a_clairvoyant_residency_policy_is_told_the_output_that_is_left);
    tcase_add_loop_test(tcase, nobody_else_is_told, 0, 2);
    tcase_add_loop_test(tcase, a_result_that_saw_the_future_is_marked_a_bound, 0, 4);
    tcase_add_loop_test(tcase, what_a_run_cannot_tell_is_refused_by_name, 0, REFUSALS);
    tcase_add_test(tcase, rounds_of_one_size_can_be_known);
    tcase_add_test(tcase, memory_that_runs_out_on_the_way_is_reported);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
