/* test_sessions.c -- turns that follow each other: conversations, and traces that say so. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/workload.h"
#include "support/support.h"
#include "support/traces.h"

extern const struct kvt_arrival kvt_arrival_sessions;
extern const struct kvt_arrival kvt_arrival_trace;

#define S KVT_NS_PER_S

enum {
    SEED = 2385,
    REQUESTS_MAX = 2048,
    KEYS_MAX = 4096,
    PARAMS = 9
};

/* ---- A driver: each request runs for service_ns, then ends ------------------------------- */

struct seen {
    struct kvt_request_spec spec; /* without its keys */
    kvt_ns ended_ns;
    uint64_t *keys;
};

struct drive {
    kvt_ns service_ns;
    uint32_t input_tokens_max; /* longer ones are dropped at once; 0: none */
    size_t stop_after;         /* requests */
    struct seen seen[REQUESTS_MAX];
    size_t count, ended;
    bool is_over;
};

static struct drive run;

static void note(const struct kvt_request_spec *spec, kvt_ns now_ns)
{
    struct seen *seen = &run.seen[run.count++];
    *seen = (struct seen){.spec = *spec, .ended_ns = now_ns + run.service_ns};
    ck_assert_int_le(spec->arrival_ns, now_ns);
    seen->spec.arrival_ns = now_ns;
    seen->keys = calloc(spec->page_key_count + 1, sizeof *seen->keys);
    ck_assert_ptr_nonnull(seen->keys);
    if (spec->page_key_count > 0)
        memcpy(seen->keys, spec->page_keys, spec->page_key_count * sizeof *seen->keys);
}

/* Runs a source until it ends or has given stop_after requests. Equal service times: the oldest
 * in flight ends first. */
static void drive(const struct kvt_arrival *arrival, void *source)
{
    kvt_ns now_ns = 0;
    struct kvt_error err = {0};
    while (run.count < run.stop_after) {
        enum kvt_arrival_answer answer = KVT_ARRIVAL_END;
        struct kvt_request_spec spec = {0};
        kvt_ns due_ns = INT64_MAX;
        kvt_status status =
            arrival->poll(source, now_ns, run.count - run.ended, &answer, &spec, &due_ns, &err);
        ck_assert_msg(status == KVT_OK, "%s", err.message);
        if (answer == KVT_ARRIVAL_NOW) {
            note(&spec, now_ns);
            if (run.input_tokens_max > 0 && spec.input_tokens > run.input_tokens_max) {
                ck_assert_uint_eq(run.ended + 1, run.count);
                run.seen[run.ended++].ended_ns = now_ns;
                arrival->on_finished(source, spec.tag, false, now_ns);
            }
            continue;
        }
        run.is_over = answer == KVT_ARRIVAL_END;
        kvt_ns next_ns = answer == KVT_ARRIVAL_LATER ? due_ns : INT64_MAX;
        bool is_end = run.ended < run.count && run.seen[run.ended].ended_ns <= next_ns;
        if (is_end)
            next_ns = run.seen[run.ended].ended_ns;
        if (next_ns == INT64_MAX)
            return;
        ck_assert_int_ge(next_ns, now_ns);
        now_ns = next_ns;
        if (is_end)
            arrival->on_finished(source, run.seen[run.ended++].spec.tag, true, now_ns);
    }
}

static void drive_begin(void)
{
    run = (struct drive){.service_ns = 2 * S, .stop_after = REQUESTS_MAX};
}

static void drive_end(void)
{
    for (size_t i = 0; i < run.count; i++)
        free(run.seen[i].keys);
}

/* Pages from the first on that two requests seen have in common. */
static uint32_t shared_pages(size_t a, size_t b)
{
    uint32_t count = 0;
    while (count < run.seen[a].spec.page_key_count && count < run.seen[b].spec.page_key_count &&
           run.seen[a].keys[count] == run.seen[b].keys[count])
        count++;
    return count;
}

/* ---- Conversations ------------------------------------------------------------------------ */

static const double agentic_new[] = {74160, 753};
static const double agentic_out[] = {220};

/* agentic-74k, two at once. */
static void agentic(struct kvt_param_value values[PARAMS])
{
    const struct kvt_param_value params[PARAMS] = {
        {.number = 2},                           /* concurrency */
        {.number = 0},                           /* conversations */
        {.number = 13},                          /* turns */
        {.list = agentic_new, .list_length = 2}, /* new_tokens */
        {.list = agentic_out, .list_length = 1}, /* output_tokens */
        {.number = 0},                           /* length_spread_fraction */
        {.number = 0},                           /* shared_prefix_tokens */
        {.number = 0},                           /* think_s */
        {.number = 0, .text = "fixed"},          /* think_law */
    };
    memcpy(values, params, sizeof params);
}

static void *opened(const struct kvt_param_value *values, uint64_t seed)
{
    const struct kvt_arrival_env env = {
        .params = {.values = values, .count = PARAMS}, .run_seed = seed, .host = kvt_host()};
    void *source = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_arrival_sessions.open(&env, &source, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    return source;
}

static void drive_sessions(const struct kvt_param_value *values, uint64_t seed)
{
    void *source = opened(values, seed);
    drive(&kvt_arrival_sessions, source);
    kvt_arrival_sessions.close(source);
}

START_TEST(a_turn_repeats_all_before_it_and_adds_its_own)
{
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[0].number = 1;
    values[1].number = 1;
    drive_sessions(values, SEED);
    ck_assert_uint_eq(run.count, 13);
    ck_assert(run.is_over);
    for (uint32_t turn = 0; turn < 13; turn++) {
        const struct kvt_request_spec *spec = &run.seen[turn].spec;
        ck_assert_uint_eq(spec->turn, turn);
        ck_assert_uint_eq(spec->session, 0);
        ck_assert_uint_eq(spec->input_tokens, 74160 + turn * (753 + 220));
        ck_assert_uint_eq(spec->output_tokens, 220);
        ck_assert_int_eq(spec->arrival_ns, turn * 2 * S);
        ck_assert_uint_eq(spec->page_key_count, (spec->input_tokens + 220) / KVT_PAGE_ROWS);
    }
}
END_TEST

START_TEST(a_turn_finds_the_whole_pages_of_the_turn_before_answer_and_all)
{
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[0].number = 1;
    values[1].number = 2;
    drive_sessions(values, SEED);
    for (size_t i = 1; i < 13; i++)
        ck_assert_uint_eq(shared_pages(i - 1, i), run.seen[i - 1].spec.page_key_count);
    ck_assert_uint_eq(shared_pages(0, 13), 0); /* another conversation */
}
END_TEST

START_TEST(conversations_share_the_pages_of_their_common_prefix)
{
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[1].number = 2;
    values[6].number = 6410; /* 100 pages and ten tokens */
    drive_sessions(values, SEED);
    ck_assert_uint_eq(shared_pages(0, 1), 100);
    ck_assert_uint_eq(shared_pages(0, run.count - 1), 100);
    ck_assert_uint_eq(shared_pages(0, 2), run.seen[0].spec.page_key_count);
}
END_TEST

START_TEST(so_many_conversations_are_under_way_and_one_ended_makes_room_for_the_next)
{
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[0].number = 5;
    values[1].number = 12;
    values[7].number = 1.5;
    drive_sessions(values, SEED);
    ck_assert_uint_eq(run.count, 12 * 13);
    ck_assert(run.is_over);
    uint32_t next_turn[12] = {0};
    for (size_t i = 0; i < run.count; i++) {
        const struct kvt_request_spec *spec = &run.seen[i].spec;
        ck_assert_uint_eq(spec->turn, next_turn[spec->session]);
        next_turn[spec->session]++;
        /* Turns take 2 s and 1.5 s of thought, but for the last. */
        uint64_t wave = spec->session / 5;
        kvt_ns begun_ns = (kvt_ns)wave * (13 * 2 * S + 12 * (3 * S / 2));
        ck_assert_int_eq(spec->arrival_ns, begun_ns + spec->turn * (7 * S / 2));
    }
}
END_TEST

START_TEST(thinking_times_vary_about_their_mean_and_belong_to_their_turn)
{
    struct kvt_param_value values[PARAMS];
    static kvt_ns think_ns[600];
    double sum_s = 0;
    agentic(values);
    values[0].number = 40;
    values[1].number = 50;
    values[7].number = 3;
    values[8] = (struct kvt_param_value){.number = 1, .text = "exponential"};
    drive_sessions(values, SEED);
    ck_assert_uint_eq(run.count, 650);
    for (size_t i = 0; i < run.count; i++) {
        const struct kvt_request_spec *spec = &run.seen[i].spec;
        if (spec->turn > 0)
            think_ns[spec->session * 12 + spec->turn - 1] = spec->think_ns;
    }
    for (size_t i = 0; i < 600; i++)
        sum_s += (double)think_ns[i] / 1e9;
    ck_assert_double_eq_tol(sum_s / 600, 3, 0.36); /* three standard errors */

    drive_end();
    drive_begin();
    values[0].number = 3; /* other company, the same thoughts */
    drive_sessions(values, SEED);
    for (size_t i = 0; i < run.count; i++) {
        const struct kvt_request_spec *spec = &run.seen[i].spec;
        if (spec->turn > 0)
            ck_assert_int_eq(spec->think_ns, think_ns[spec->session * 12 + spec->turn - 1]);
    }
}
END_TEST

START_TEST(lengths_spread_evenly_within_their_share)
{
    struct kvt_param_value values[PARAMS];
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    agentic(values);
    values[0].number = 64;
    values[1].number = 128;
    values[5].number = 0.25;
    drive_sessions(values, SEED);
    for (size_t i = 0; i < run.count; i++) {
        uint32_t tokens = run.seen[i].spec.output_tokens;
        least = tokens < least ? tokens : least;
        most = tokens > most ? tokens : most;
    }
    ck_assert_uint_eq(least, 165);
    ck_assert_uint_eq(most, 275);
}
END_TEST

START_TEST(a_conversation_ends_where_a_turn_is_dropped)
{
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[0].number = 1;
    values[1].number = 3;
    run.input_tokens_max = 76106; /* turns 0, 1 and 2 fit */
    drive_sessions(values, SEED);
    ck_assert_uint_eq(run.count, 12);
    ck_assert(run.is_over);
    for (uint32_t i = 0; i < 12; i++) {
        ck_assert_uint_eq(run.seen[i].spec.session, i / 4);
        ck_assert_uint_eq(run.seen[i].spec.turn, i % 4);
    }
}
END_TEST

START_TEST(what_can_come_is_known_beforehand)
{
    struct kvt_param_value values[PARAMS];
    uint32_t longest_tokens, output_tokens, inputs[KVT_INPUTS_MAX];
    size_t count = KVT_INPUTS_MAX;
    agentic(values);
    values[1].number = 4;
    void *source = opened(values, SEED);
    kvt_arrival_sessions.extent(source, &longest_tokens, &output_tokens, inputs, &count);
    ck_assert_uint_eq(longest_tokens, 74160 + 12 * 753 + 13 * 220);
    ck_assert_uint_eq(output_tokens, 220);
    ck_assert_uint_eq(count, 13);
    ck_assert_uint_eq(inputs[0], 74160);
    ck_assert_uint_eq(inputs[12], 74160 + 12 * 973);
    ck_assert_uint_eq(kvt_arrival_sessions.expected(source), 52);
    ck_assert_uint_eq(kvt_arrival_sessions.first_wave(source), 2);
    kvt_arrival_sessions.close(source);

    values[5].number = 0.1;
    source = opened(values, SEED);
    count = KVT_INPUTS_MAX;
    kvt_arrival_sessions.extent(source, &longest_tokens, &output_tokens, inputs, &count);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(output_tokens, 242);
    kvt_arrival_sessions.close(source);
    kvt_arrival_sessions.close(NULL);
}
END_TEST

START_TEST(conversations_that_cannot_be_are_refused)
{
    static const double part[] = {10.5};
    static const double many[] = {1e9};
    static const double five[] = {1, 2, 3, 4, 5};
    static const struct {
        int param;
        struct kvt_param_value value;
        const char *where, *says;
    } rows[] = {
        {3, {.list = part, .list_length = 1}, "new_tokens", "10.5 is not a whole number"},
        {3, {.list = part, .list_length = 0}, "new_tokens", "0 lengths for 4 turns"},
        {4, {.list = five, .list_length = 5}, "output_tokens", "5 lengths for 4 turns"},
        {3, {.list = many, .list_length = 1}, "turns", "at most 2147483647 are taken"},
        {6, {.number = 74161}, "shared_prefix_tokens", "does not fit a first prompt of 74160"},
        {8, {.number = 1}, "think_law", "think_s above 0 is expected"},
        {7, {.number = 2.5}, "think_s", "2.5 s between turns, and a conversation has one turn"},
    };
    struct kvt_param_value values[PARAMS];
    agentic(values);
    values[2].number = 4;
    if (rows[_i].param == 7) /* of one turn */
        values[2].number = (double)(values[3].list_length = 1);
    values[rows[_i].param] = rows[_i].value;
    const struct kvt_arrival_env env = {.params = {.values = values, .count = PARAMS},
                                        .run_seed = SEED};
    struct kvt_error err = {0};
    void *source = NULL;
    ck_assert_int_eq(kvt_arrival_sessions.open(&env, &source, &err), KVT_ERR_INVALID);
    ck_assert_ptr_null(source);
    ck_assert_str_eq(err.where, rows[_i].where);
    traces_assert_holds(err.message, rows[_i].says);
}
END_TEST

/* ---- Traces ------------------------------------------------------------------------------- */

static void drive_trace(const char *text)
{
    support_write(traces_path(), text, strlen(text));
    const struct kvt_param_value values[] = {
        {.text = traces_path()}, {.text = "auto"}, {.number = 1}, {.text = ""}};
    const struct kvt_arrival_env env = {
        .params = {.values = values, .count = 4}, .run_seed = SEED, .host = kvt_host()};
    void *source = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_arrival_trace.open(&env, &source, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    drive(&kvt_arrival_trace, source);
    kvt_arrival_trace.close(source);
}

static void check_arrivals(const kvt_ns *arrivals_ms, size_t count)
{
    ck_assert_uint_eq(run.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(run.seen[i].spec.arrival_ns, arrivals_ms[i] * (S / 1000));
    ck_assert(run.is_over);
}

START_TEST(without_thinking_times_a_trace_keeps_its_own_times)
{
    drive_trace("arrival_s,input_tokens,output_tokens,session_id,turn\n"
                "0,64,64,a,0\n0.5,256,64,a,1\n1,64,64,b,0\n");
    check_arrivals((const kvt_ns[]){0, 500, 1000}, 3);
}
END_TEST

START_TEST(a_row_with_a_thinking_time_waits_for_the_one_before_it_in_its_session)
{
    /* Each takes 2 s. Of a: the second is late, the third waits for it; the fourth comes long
     * after. b has nobody before it; a row without a time is not held up. */
    drive_trace("arrival_s,input_tokens,output_tokens,session_id,turn,think_s\n"
                "0,64,64,a,0,\n"
                "0.5,256,64,a,1,0.25\n"
                "0.75,400,64,a,2,1\n"
                "1,64,64,b,0,5\n"
                "3,64,64,c,0,\n"
                "20,700,64,a,3,0.5\n");
    check_arrivals((const kvt_ns[]){0, 1000, 2250, 3000, 5250, 20000}, 6);
    ck_assert_uint_eq(run.seen[2].spec.turn, 1);
    ck_assert_uint_eq(run.seen[4].spec.turn, 2);
    ck_assert_uint_eq(shared_pages(0, 2), 2);
    ck_assert_uint_eq(shared_pages(2, 4), 5);
}
END_TEST

START_TEST(an_agentic_conversation_runs_turn_by_turn)
{
    drive_trace("{\"session_id\": \"s0\", \"arrival_time_ns\": 5000000000, \"sub_requests\": ["
                "{\"input_toks\": 640, \"output_toks\": 64, \"tool_duration_ns\": 250000000}, "
                "{\"input_toks\": 1000, \"output_toks\": 64, \"tool_duration_ns\": 0}, "
                "{\"input_toks\": 2000, \"output_toks\": 5}]}\n"
                "{\"session_id\": \"s1\", \"arrival_time_ns\": 6000000000, \"sub_requests\": ["
                "{\"input_toks\": 640, \"output_toks\": 64}]}\n");
    check_arrivals((const kvt_ns[]){0, 1000, 2250, 4250}, 4);
    ck_assert_uint_eq(shared_pages(0, 1), 0);
    ck_assert_uint_eq(shared_pages(0, 2), 11);
    ck_assert_uint_eq(shared_pages(2, 3), 16);
}
END_TEST

START_TEST(a_dropped_turn_holds_nobody_up)
{
    run.input_tokens_max = 500;
    drive_trace("{\"arrival_time_ns\": 0, \"sub_requests\": ["
                "{\"input_toks\": 640, \"output_toks\": 64, \"tool_duration_ns\": 250000000}, "
                "{\"input_toks\": 100, \"output_toks\": 64}]}\n");
    check_arrivals((const kvt_ns[]){0, 250}, 2);
}
END_TEST

START_TEST(a_thousand_held_turns_come_in_the_order_of_their_times)
{
    static char text[1 << 16];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "arrival_s,input_tokens,output_tokens,"
                                   "session_id,think_s\n");
    for (int i = 0; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "0,9,9,%d,%d.%03d\n", i % 100,
                                 i * 37 % 11, i * 613 % 1000);
    run.service_ns = 0; /* so that they end in the order in which they come */
    drive_trace(text);
    ck_assert_uint_eq(run.count, 1000);
    ck_assert(run.is_over);
    for (size_t i = 1; i < run.count; i++)
        ck_assert_int_ge(run.seen[i].spec.arrival_ns, run.seen[i - 1].spec.arrival_ns);
}
END_TEST

static Suite *sessions_suite(void)
{
    Suite *suite = suite_create("sessions");
    TCase *loop = tcase_create("conversations");
    tcase_add_checked_fixture(loop, drive_begin, drive_end);
    tcase_add_test(loop, a_turn_repeats_all_before_it_and_adds_its_own);
    tcase_add_test(loop, a_turn_finds_the_whole_pages_of_the_turn_before_answer_and_all);
    tcase_add_test(loop, conversations_share_the_pages_of_their_common_prefix);
    tcase_add_test(loop, so_many_conversations_are_under_way_and_one_ended_makes_room_for_the_next);
    tcase_add_test(loop, thinking_times_vary_about_their_mean_and_belong_to_their_turn);
    tcase_add_test(loop, lengths_spread_evenly_within_their_share);
    tcase_add_test(loop, a_conversation_ends_where_a_turn_is_dropped);
    tcase_add_test(loop, what_can_come_is_known_beforehand);
    tcase_add_loop_test(loop, conversations_that_cannot_be_are_refused, 0, 7);
    suite_add_tcase(suite, loop);

    TCase *traces = tcase_create("traces");
    tcase_add_checked_fixture(traces, traces_folder_make, traces_folder_remove);
    tcase_add_checked_fixture(traces, drive_begin, drive_end);
    tcase_add_test(traces, without_thinking_times_a_trace_keeps_its_own_times);
    tcase_add_test(traces, a_row_with_a_thinking_time_waits_for_the_one_before_it_in_its_session);
    tcase_add_test(traces, an_agentic_conversation_runs_turn_by_turn);
    tcase_add_test(traces, a_dropped_turn_holds_nobody_up);
    tcase_add_test(traces, a_thousand_held_turns_come_in_the_order_of_their_times);
    suite_add_tcase(suite, traces);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(sessions_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
