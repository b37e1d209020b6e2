/* test_scheduling.c -- what every scheduling policy holds to beside its contract (test_contract.c),
 * and fcfs by itself. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/plugin_params.h"

enum {
    REQUESTS_MAX = 64,
    STATE_WORDS = 512
};

/* A policy of the table, stood up with its defaults. */
struct bench {
    const struct kvt_scheduling_policy *policy;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    uint64_t state[STATE_WORDS];
};

static void bench_start(struct bench *bench, const struct kvt_plugin_info *info)
{
    struct kvt_error err = {0};
    *bench = (struct bench){.policy = (const struct kvt_scheduling_policy *)info};
    struct kvt_scheduling_env env = {
        .params = support_default_params(info, bench->values),
        .run_seed = 2385,
        .host = kvt_host(),
    };
    ck_assert_uint_le(bench->policy->state_bytes(&env), sizeof bench->state);
    kvt_status status = bench->policy->init(bench->state, &env, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

static void bench_nth(struct bench *bench, int index)
{
    size_t count;
    bench_start(bench, kvt_plugin_list(NULL, KVT_PLUGIN_SCHEDULING, &count)[index]);
}

static void bench_fcfs(struct bench *bench)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(
        kvt_plugin_find(NULL, KVT_PLUGIN_SCHEDULING, "fcfs", "scheduling", &info, &err), KVT_OK);
    bench_start(bench, info);
}

static void draw_requests(struct kvt_rng *rng, struct kvt_scheduling_request *requests,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        requests[i] = (struct kvt_scheduling_request){
            .id = 100 + i,
            .arrival_ns = (kvt_ns)kvt_rng_below(rng, 1000000),
            .input_tokens = 1 + (uint32_t)kvt_rng_below(rng, 100000),
            .generated_tokens = (uint32_t)kvt_rng_below(rng, 2000),
            .priority = (uint32_t)kvt_rng_below(rng, 3),
        };
    }
}

/* ---- every policy -------------------------------------------------------------------- */

START_TEST(the_only_request_is_never_put_aside)
{
    struct bench bench;
    bench_nth(&bench, _i);
    struct kvt_scheduling_request alone = {.id = 7, .input_tokens = 100032};
    ck_assert_uint_eq(bench.policy->preempt(bench.state, &alone, 1), 1);
}
END_TEST

/* ---- fcfs ----------------------------------------------------------------------------- */

START_TEST(fcfs_admits_the_head_and_puts_the_last_aside_within_a_class)
{
    struct bench bench;
    bench_fcfs(&bench);
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 0);
    for (uint32_t count = 2; count <= REQUESTS_MAX; count++) {
        struct kvt_scheduling_request requests[REQUESTS_MAX];
        draw_requests(&rng, requests, count);
        for (uint32_t i = 0; i < count; i++)
            requests[i].priority = 4;
        ck_assert_uint_eq(bench.policy->next(bench.state, requests, count), 0);
        ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, count), count - 1);
    }
}
END_TEST

START_TEST(fcfs_lets_the_urgent_go_first_and_puts_them_aside_last)
{
    struct bench bench;
    bench_fcfs(&bench);
    struct kvt_scheduling_request requests[5] = {
        {.id = 0, .priority = 2}, {.id = 1, .priority = 1}, {.id = 2, .priority = 3},
        {.id = 3, .priority = 1}, {.id = 4, .priority = 3},
    };
    ck_assert_uint_eq(bench.policy->next(bench.state, requests, 5), 1);
    ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, 5), 4);
    requests[4].priority = 0;
    ck_assert_uint_eq(bench.policy->next(bench.state, requests, 5), 4);
    ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, 5), 2);
}
END_TEST

static Suite *scheduling_suite(void)
{
    Suite *suite = suite_create("scheduling");
    size_t listed;
    (void)kvt_plugin_list(NULL, KVT_PLUGIN_SCHEDULING, &listed);
    const int count = (int)listed;

    TCase *every = tcase_create("every_policy");
    tcase_add_loop_test(every, the_only_request_is_never_put_aside, 0, count);
    suite_add_tcase(suite, every);

    TCase *fcfs = tcase_create("fcfs");
    tcase_add_test(fcfs, fcfs_admits_the_head_and_puts_the_last_aside_within_a_class);
    tcase_add_test(fcfs, fcfs_lets_the_urgent_go_first_and_puts_them_aside_last);
    suite_add_tcase(suite, fcfs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(scheduling_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
