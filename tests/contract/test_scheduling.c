/* test_scheduling.c -- what every scheduling policy holds to beside its contract (test_contract.c),
 * and each by itself. */
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

static void bench_named(struct bench *bench, const char *name)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_SCHEDULING, name, "scheduling", &info, &err),
                     KVT_OK);
    bench_start(bench, info);
}

/* A parameter by name, from the next bench_restart() on. */
static void bench_set(struct bench *bench, const char *name, double number)
{
    const struct kvt_plugin_info *info = &bench->policy->info;
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0) {
            bench->values[i].number = number;
            return;
        }
    }
    ck_abort_msg("%s has no %s", info->name, name);
}

static void bench_restart(struct bench *bench)
{
    const struct kvt_scheduling_env env = {
        .params = {bench->values, bench->policy->info.param_count},
        .run_seed = 2385,
        .host = kvt_host(),
    };
    struct kvt_error err = {0};
    memset(bench->state, 0, sizeof bench->state);
    ck_assert_int_eq(bench->policy->init(bench->state, &env, &err), KVT_OK);
}

/* As a rank asks: with a view where the policy wants one. */
static uint32_t bench_ask(struct bench *bench, const struct kvt_scheduling_view *view,
                          const struct kvt_scheduling_request *waiting, uint32_t count)
{
    const struct kvt_scheduling_policy *policy = bench->policy;
    struct kvt_scheduling_view rank_alone = *view;
    rank_alone.entries = NULL;
    rank_alone.entry_count = 0;
    rank_alone.coming_load_tokens = rank_alone.coming_new_tokens = 0;
    if (!policy->wants_entries)
        view = policy->wants_view ? &rank_alone : NULL;
    return policy->next(bench->state, view, waiting, count);
}

static void draw_view(struct kvt_rng *rng, const struct kvt_scheduling_request *waiting,
                      uint32_t count, struct kvt_scheduling_entry *entries,
                      struct kvt_scheduling_view *view)
{
    *view = (struct kvt_scheduling_view){
        .now_ns = 1000000 + (kvt_ns)kvt_rng_below(rng, 1000000),
        .last_step_ns = (kvt_ns)kvt_rng_below(rng, 1000000),
        .last_step_requests = (uint32_t)kvt_rng_below(rng, 50),
        .running = (uint32_t)kvt_rng_below(rng, 50),
        .coming_in = (uint32_t)kvt_rng_below(rng, 50),
        .coming_load_tokens = kvt_rng_below(rng, 100000),
        .coming_new_tokens = kvt_rng_below(rng, 1000),
        .entries = entries,
        .entry_count = (uint32_t)kvt_rng_below(rng, count + 1),
    };
    view->last_fetch_ns = (kvt_ns)kvt_rng_below(rng, (uint64_t)view->last_step_ns + 1);
    for (uint32_t i = 0; i < view->entry_count; i++) {
        uint32_t found = (uint32_t)kvt_rng_below(rng, waiting[i].input_tokens);
        entries[i] = (struct kvt_scheduling_entry){
            .found_tokens = found,
            .load_tokens = (uint32_t)kvt_rng_below(rng, found + 1),
            .new_tokens = waiting[i].input_tokens - found,
            .in_flight_tokens = (uint32_t)kvt_rng_below(rng, 300),
            .load_bytes = kvt_rng_below(rng, 1000000),
            .context_key = kvt_rng_below(rng, 4),
            .passed_by = (uint32_t)kvt_rng_below(rng, 70),
        };
    }
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

/* On an idle rank, with nothing coming in, somebody must come in: nothing else will ever happen. */
START_TEST(on_an_idle_rank_somebody_is_chosen)
{
    struct bench bench;
    bench_nth(&bench, _i);
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_TEST, 0);
    for (uint32_t round = 0; round < 5000; round++) {
        struct kvt_scheduling_request requests[REQUESTS_MAX] = {0};
        struct kvt_scheduling_entry entries[REQUESTS_MAX];
        struct kvt_scheduling_view view;
        uint32_t count = 1 + (uint32_t)kvt_rng_below(&rng, REQUESTS_MAX);
        draw_requests(&rng, requests, count);
        draw_view(&rng, requests, count, entries, &view);
        view.running = view.coming_in = 0;
        view.coming_load_tokens = view.coming_new_tokens = 0;
        for (uint32_t i = 0; i < view.entry_count; i++)
            entries[i].in_flight_tokens = 0;
        ck_assert_uint_lt(bench_ask(&bench, &view, requests, count), count);
    }
}
END_TEST

START_TEST(nobody_of_a_less_urgent_class_comes_first)
{
    struct bench bench;
    bench_nth(&bench, _i);
    struct kvt_rng rng = kvt_rng_stream(5, KVT_RNG_TEST, 0);
    for (uint32_t round = 0; round < 5000; round++) {
        struct kvt_scheduling_request requests[REQUESTS_MAX] = {0};
        struct kvt_scheduling_entry entries[REQUESTS_MAX];
        struct kvt_scheduling_view view;
        uint32_t count = 1 + (uint32_t)kvt_rng_below(&rng, REQUESTS_MAX);
        draw_requests(&rng, requests, count);
        draw_view(&rng, requests, count, entries, &view);
        uint32_t chosen = bench_ask(&bench, &view, requests, count);
        for (uint32_t i = 0; i < count && chosen < count; i++)
            ck_assert_uint_le(requests[chosen].priority, requests[i].priority);
    }
}
END_TEST

/* ---- fcfs ----------------------------------------------------------------------------- */

START_TEST(fcfs_admits_the_head_and_puts_the_last_aside_within_a_class)
{
    struct bench bench;
    bench_named(&bench, "fcfs");
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, 0);
    for (uint32_t count = 2; count <= REQUESTS_MAX; count++) {
        struct kvt_scheduling_request requests[REQUESTS_MAX];
        draw_requests(&rng, requests, count);
        for (uint32_t i = 0; i < count; i++)
            requests[i].priority = 4;
        ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, count), 0);
        ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, count), count - 1);
    }
}
END_TEST

START_TEST(fcfs_lets_the_urgent_go_first_and_puts_them_aside_last)
{
    struct bench bench;
    bench_named(&bench, "fcfs");
    struct kvt_scheduling_request requests[5] = {
        {.id = 0, .priority = 2}, {.id = 1, .priority = 1}, {.id = 2, .priority = 3},
        {.id = 3, .priority = 1}, {.id = 4, .priority = 3},
    };
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 5), 1);
    ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, 5), 4);
    requests[4].priority = 0;
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 5), 4);
    ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, 5), 2);
}
END_TEST

/* ---- sjf ------------------------------------------------------------------------------ */

START_TEST(sjf_takes_the_shortest_and_the_first_of_equals)
{
    struct bench bench;
    bench_named(&bench, "sjf");
    bench_set(&bench, "ageing_tokens_per_s", 0);
    bench_restart(&bench);
    const struct kvt_scheduling_request requests[4] = {
        {.id = 0, .input_tokens = 900, .arrival_ns = 0},
        {.id = 1, .input_tokens = 500, .arrival_ns = 5},
        {.id = 2, .input_tokens = 500, .arrival_ns = 1},
        {.id = 3, .input_tokens = 100, .arrival_ns = 9, .priority = 1},
    };
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 4), 1);
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 1), 0);
    ck_assert_uint_eq(bench.policy->preempt(bench.state, requests, 4), 3);
}
END_TEST

START_TEST(sjf_lets_a_second_of_waiting_make_up_for_so_many_tokens)
{
    struct bench bench;
    bench_named(&bench, "sjf");
    bench_set(&bench, "ageing_tokens_per_s", 100);
    bench_restart(&bench);
    struct kvt_scheduling_request requests[2] = {
        {.id = 0, .input_tokens = 900, .arrival_ns = 0},
        {.id = 1, .input_tokens = 500, .arrival_ns = INT64_C(3900000000)},
    };
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 2), 1); /* 890 */
    requests[1].arrival_ns = INT64_C(4100000000);
    ck_assert_uint_eq(bench.policy->next(bench.state, NULL, requests, 2), 0); /* 910 */
}
END_TEST

/* ---- strata --------------------------------------------------------------------------- */

/* A queue by hand: each of 10,000 tokens. Nothing is on its way but what a test says. */
struct queue {
    struct kvt_scheduling_request requests[6];
    struct kvt_scheduling_entry entries[6];
    struct kvt_scheduling_view view;
};

static void queue_start(struct queue *queue, struct bench *bench)
{
    bench_named(bench, "strata");
    *queue = (struct queue){.view = {.entries = queue->entries, .entry_count = 6}};
    for (uint32_t i = 0; i < 6; i++) {
        queue->requests[i] = (struct kvt_scheduling_request){.id = i, .input_tokens = 10000};
        queue->entries[i].new_tokens = 10000;
    }
}

static uint32_t queue_ask(struct queue *queue, struct bench *bench)
{
    return bench->policy->next(bench->state, &queue->view, queue->requests, 6);
}

/* So much is found on host. */
static void queue_load(struct queue *queue, uint32_t at, uint32_t load_tokens, uint64_t context)
{
    queue->entries[at].found_tokens = queue->entries[at].load_tokens = load_tokens;
    queue->entries[at].new_tokens = 10000 - load_tokens;
    queue->entries[at].context_key = context;
}

START_TEST(strata_puts_delay_hits_off_until_what_they_wait_for_is_there)
{
    struct bench bench;
    struct queue queue;
    queue_start(&queue, &bench);
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    queue.entries[0].in_flight_tokens = 99;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    queue.entries[0].in_flight_tokens = 100;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 1);
    for (uint32_t i = 1; i < 6; i++)
        queue.entries[i].in_flight_tokens = 5000;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 6);
    queue.entries[3].in_flight_tokens = 0;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 3);
    bench_set(&bench, "delay_hit_tokens", 0);
    bench_restart(&bench);
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
}
END_TEST

START_TEST(strata_balances_what_comes_up_against_what_is_computed)
{
    struct bench bench;
    struct queue queue;
    queue_start(&queue, &bench);
    queue_load(&queue, 0, 9901, 7); /* 9,901 to 99: just above 100 */
    ck_assert_uint_eq(queue_ask(&queue, &bench), 1);
    queue_load(&queue, 0, 9900, 7); /* 9,900 to 100 */
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    queue.view.coming_load_tokens = 101; /* 10,001 to 100 */
    ck_assert_uint_eq(queue_ask(&queue, &bench), 1);
    queue.view.coming_new_tokens = 1; /* 10,001 to 101 */
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    /* Where everybody is, the first comes all the same. */
    for (uint32_t i = 0; i < 6; i++)
        queue_load(&queue, i, 9999, 7 + i);
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    queue.entries[0].in_flight_tokens = 9999;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 1);
    bench_set(&bench, "load_compute_ratio", 0);
    bench_restart(&bench);
    queue.entries[0].in_flight_tokens = 0;
    queue_load(&queue, 1, 0, 0);
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
}
END_TEST

START_TEST(strata_lets_those_who_share_a_loaded_context_follow)
{
    for (int bundles = 1; bundles >= 0; bundles--) {
        struct bench bench;
        struct queue queue;
        queue_start(&queue, &bench);
        bench_set(&bench, "bundle", bundles);
        bench_restart(&bench);
        for (uint32_t i = 0; i < 6; i++)
            queue_load(&queue, i, 9999, 7 + i % 3);
        ck_assert_uint_eq(queue_ask(&queue, &bench), 0); /* context 7 comes up */
        for (uint32_t i = 0; i < 5; i++)
            queue_load(&queue, i, 0, 0);
        /* It is there: the last one has found all of it in HBM. */
        queue.entries[5] =
            (struct kvt_scheduling_entry){.found_tokens = 9999, .new_tokens = 1, .context_key = 7};
        ck_assert_uint_eq(queue_ask(&queue, &bench), bundles ? 5 : 0);
        queue.entries[5].context_key = 8;
        ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
        /* Nobody follows a request without a context. */
        queue.entries[5].context_key = 0;
        ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
    }
}
END_TEST

/* Whatever else holds: 64 times, and the first of those. */
START_TEST(strata_starves_nobody)
{
    struct bench bench;
    struct queue queue;
    queue_start(&queue, &bench);
    queue.entries[2].in_flight_tokens = 10000;
    queue.entries[2].passed_by = 63;
    queue_load(&queue, 4, 9999, 7);
    queue.entries[4].passed_by = 64;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 4);
    queue.entries[2].passed_by = 64;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 2);
    bench_set(&bench, "passes_max", 65);
    bench_restart(&bench);
    ck_assert_uint_eq(queue_ask(&queue, &bench), 0);
}
END_TEST

START_TEST(strata_takes_whom_it_cannot_see_where_he_is_urgent)
{
    struct bench bench;
    struct queue queue;
    queue_start(&queue, &bench);
    queue.view.entry_count = 3;
    for (uint32_t i = 0; i < 6; i++)
        queue.requests[i].priority = 1;
    queue.entries[0].in_flight_tokens = 10000;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 1);
    queue.requests[2].priority = 0;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 2);
    queue.requests[2].priority = 1;
    queue.requests[4].priority = 0;
    ck_assert_uint_eq(queue_ask(&queue, &bench), 4);
}
END_TEST

/* ---- io-adaptive ---------------------------------------------------------------------- */

/* 20 requests waited 20 of 100 ms: a 21st makes it 21 of 101, 20.8 %. */
START_TEST(io_adaptive_lets_nobody_in_while_a_step_would_wait_too_much)
{
    struct bench bench;
    const struct kvt_scheduling_request requests[2] = {{.id = 0, .priority = 1}, {.id = 1}};
    struct kvt_scheduling_view view = {.last_step_ns = 100000000,
                                       .last_fetch_ns = 20000000,
                                       .last_step_requests = 20,
                                       .running = 20};
    bench_named(&bench, "io-adaptive");
    bench_set(&bench, "fetch_share", 0.207);
    bench_restart(&bench);
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, requests, 2), 2);
    bench_set(&bench, "fetch_share", 0.209);
    bench_restart(&bench);
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, requests, 2), 1);
    view.coming_in = 1; /* 22 of 102, 21.6 % */
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, requests, 2), 2);
    view.running = 19;
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, requests, 2), 1);
    view.running = view.coming_in = 0; /* somebody must run */
    view.last_fetch_ns = 90000000;
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, requests, 2), 1);
}
END_TEST

START_TEST(io_adaptive_doubles_at_most)
{
    struct bench bench;
    const struct kvt_scheduling_request request = {.id = 0};
    struct kvt_scheduling_view view = {.last_step_ns = 100, .last_step_requests = 4, .running = 4};
    bench_named(&bench, "io-adaptive");
    view.coming_in = 3;
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, &request, 1), 0);
    view.coming_in = 4;
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, &request, 1), 1);
    view.last_step_requests = 0;
    ck_assert_uint_eq(bench.policy->next(bench.state, &view, &request, 1), 1);
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
    tcase_add_loop_test(every, on_an_idle_rank_somebody_is_chosen, 0, count);
    tcase_add_loop_test(every, nobody_of_a_less_urgent_class_comes_first, 0, count);
    suite_add_tcase(suite, every);

    TCase *fcfs = tcase_create("fcfs");
    tcase_add_test(fcfs, fcfs_admits_the_head_and_puts_the_last_aside_within_a_class);
    tcase_add_test(fcfs, fcfs_lets_the_urgent_go_first_and_puts_them_aside_last);
    suite_add_tcase(suite, fcfs);

    TCase *sjf = tcase_create("sjf");
    tcase_add_test(sjf, sjf_takes_the_shortest_and_the_first_of_equals);
    tcase_add_test(sjf, sjf_lets_a_second_of_waiting_make_up_for_so_many_tokens);
    suite_add_tcase(suite, sjf);

    TCase *strata = tcase_create("strata");
    tcase_add_test(strata, strata_puts_delay_hits_off_until_what_they_wait_for_is_there);
    tcase_add_test(strata, strata_balances_what_comes_up_against_what_is_computed);
    tcase_add_test(strata, strata_lets_those_who_share_a_loaded_context_follow);
    tcase_add_test(strata, strata_starves_nobody);
    tcase_add_test(strata, strata_takes_whom_it_cannot_see_where_he_is_urgent);
    suite_add_tcase(suite, strata);

    TCase *io_adaptive = tcase_create("io-adaptive");
    tcase_add_test(io_adaptive, io_adaptive_lets_nobody_in_while_a_step_would_wait_too_much);
    tcase_add_test(io_adaptive, io_adaptive_doubles_at_most);
    suite_add_tcase(suite, io_adaptive);
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
