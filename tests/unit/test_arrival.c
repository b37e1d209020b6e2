/* test_arrival.c -- sources of requests, driven as the simulator drives them. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/workload.h"

extern const struct kvt_arrival kvt_arrival_closed;
extern const struct kvt_arrival kvt_arrival_phases;
extern const struct kvt_arrival kvt_arrival_open;
extern const struct kvt_arrival kvt_arrival_trace;

#define DATA KVT_TEST_ROOT "/tests/unit/data/traces/"
#define S KVT_NS_PER_S

enum {
    SEED = 2385,
    FINISHES_MAX = 4096
};

/* A law whose draw is the first number of the request's stream, so that a test
 * can tell which stream was used. */
static uint32_t spread_draw(const void *state, struct kvt_rng *rng)
{
    (void)state;
    return (uint32_t)kvt_rng_below(rng, 1u << 20) + 1;
}

static uint32_t spread_longest(const void *state)
{
    (void)state;
    return 1u << 20;
}

static const struct kvt_length_law spread = {
    .draw = spread_draw, .typical_max = spread_longest, .longest = spread_longest};

static void *opened(const struct kvt_arrival *arrival, const struct kvt_param_value *values)
{
    const struct kvt_arrival_env env = {
        .params = {.values = values, .count = arrival->info.param_count},
        .input = {.law = &spread},
        .output = {.law = &spread},
        .max_position_tokens = 1u << 21,
        .run_seed = SEED,
        .host = kvt_host(),
    };
    void *source = NULL;
    struct kvt_error err = {0};
    kvt_status status = arrival->open(&env, &source, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    return source;
}

static const char *refusal_of(const struct kvt_arrival *arrival,
                              const struct kvt_param_value *values)
{
    static struct kvt_error err;
    const struct kvt_arrival_env env = {
        .params = {.values = values, .count = arrival->info.param_count},
        .input = {.law = &spread},
        .output = {.law = &spread},
        .host = kvt_host(),
    };
    void *source = NULL;
    ck_assert_int_ne(arrival->open(&env, &source, &err), KVT_OK);
    ck_assert_ptr_null(source);
    return err.message;
}

/* ---- A driver: each request runs for service_ns, then finishes ----------------------- */

struct drive {
    kvt_ns service_ns;
    kvt_ns stop_ns;                   /* no events past it */
    kvt_ns arrivals_ns[FINISHES_MAX]; /* [count] */
    uint64_t tags[FINISHES_MAX];
    size_t count, finished;
    uint64_t peak_in_flight;
    bool has_ended;
};

static void drive(const struct kvt_arrival *arrival, void *source, struct drive *run)
{
    kvt_ns now_ns = 0;
    for (;;) {
        enum kvt_arrival_answer answer = KVT_ARRIVAL_END;
        struct kvt_request_spec spec;
        kvt_ns due_ns = INT64_MAX;
        uint64_t in_flight = run->count - run->finished;
        ck_assert_int_eq(arrival->poll(source, now_ns, in_flight, &answer, &spec, &due_ns, NULL),
                         KVT_OK);
        if (answer == KVT_ARRIVAL_NOW) {
            ck_assert_uint_lt(run->count, FINISHES_MAX);
            run->tags[run->count] = spec.tag;
            run->arrivals_ns[run->count++] = spec.arrival_ns;
            if (in_flight + 1 > run->peak_in_flight)
                run->peak_in_flight = in_flight + 1;
            continue;
        }
        run->has_ended = answer == KVT_ARRIVAL_END;
        kvt_ns next_ns = answer == KVT_ARRIVAL_LATER ? due_ns : INT64_MAX;
        /* Equal service times: the oldest in flight finishes first. */
        bool is_finish =
            in_flight > 0 && run->arrivals_ns[run->finished] + run->service_ns <= next_ns;
        if (is_finish)
            next_ns = run->arrivals_ns[run->finished] + run->service_ns;
        if (next_ns == INT64_MAX || next_ns > run->stop_ns)
            return;
        now_ns = next_ns;
        if (is_finish && arrival->on_finished != NULL)
            arrival->on_finished(source, run->tags[run->finished], true, now_ns);
        run->finished += is_finish;
    }
}

static size_t arrivals_in(const struct drive *run, kvt_ns from_ns, kvt_ns to_ns)
{
    size_t count = 0;
    for (size_t i = 0; i < run->count; i++)
        count += run->arrivals_ns[i] >= from_ns && run->arrivals_ns[i] < to_ns;
    return count;
}

/* ---- closed --------------------------------------------------------------------------- */

START_TEST(a_closed_loop_starts_with_a_burst_and_each_finish_lets_one_in_at_once)
{
    const struct kvt_param_value values[] = {{.number = 3}, {.number = 8}};
    void *source = opened(&kvt_arrival_closed, values);
    struct drive run = {.service_ns = 10 * S, .stop_ns = 1000 * S};
    drive(&kvt_arrival_closed, source, &run);
    static const kvt_ns expected_s[8] = {0, 0, 0, 10, 10, 10, 20, 20};
    ck_assert_uint_eq(run.count, 8);
    ck_assert(run.has_ended);
    ck_assert_uint_eq(run.peak_in_flight, 3);
    for (size_t i = 0; i < 8; i++)
        ck_assert_int_eq(run.arrivals_ns[i], expected_s[i] * S);
    ck_assert_uint_eq(kvt_arrival_closed.first_wave(source), 3);
    ck_assert_uint_eq(kvt_arrival_closed.expected(source), 8);
    ck_assert_int_eq(kvt_arrival_closed.end_ns(source), KVT_NS_NEVER);
    ck_assert_ptr_null(kvt_arrival_closed.account(source));
    kvt_arrival_closed.close(source);
}
END_TEST

START_TEST(a_closed_loop_without_a_number_of_requests_never_ends)
{
    const struct kvt_param_value values[] = {{.number = 5}, {.number = 0}};
    void *source = opened(&kvt_arrival_closed, values);
    struct drive run = {.service_ns = S, .stop_ns = 99 * S};
    drive(&kvt_arrival_closed, source, &run);
    ck_assert(!run.has_ended);
    ck_assert_uint_eq(run.count, 500);
    ck_assert_uint_eq(kvt_arrival_closed.expected(source), 0);
    kvt_arrival_closed.close(source);
}
END_TEST

START_TEST(a_first_wave_is_no_larger_than_all_requests)
{
    const struct kvt_param_value values[] = {{.number = 5}, {.number = 2}};
    void *source = opened(&kvt_arrival_closed, values);
    ck_assert_uint_eq(kvt_arrival_closed.first_wave(source), 2);
    kvt_arrival_closed.close(source);
}
END_TEST

/* ---- Lengths -------------------------------------------------------------------------- */

static struct kvt_request_spec next_of(const struct kvt_arrival *arrival, void *source,
                                       kvt_ns now_ns)
{
    struct kvt_request_spec spec;
    enum kvt_arrival_answer answer = KVT_ARRIVAL_END;
    kvt_ns due_ns = 0;
    ck_assert_int_eq(arrival->poll(source, now_ns, 0, &answer, &spec, &due_ns, NULL), KVT_OK);
    ck_assert_int_eq(answer, KVT_ARRIVAL_NOW);
    return spec;
}

START_TEST(a_request_s_lengths_depend_on_its_number_alone)
{
    const struct kvt_param_value closed_values[] = {{.number = 9}, {.number = 0}};
    const struct kvt_param_value open_values[] = {{.number = 50}, {.number = 2}, {.number = 0}};
    void *closed = opened(&kvt_arrival_closed, closed_values);
    void *open = opened(&kvt_arrival_open, open_values);
    for (uint64_t i = 0; i < 9; i++) {
        struct kvt_request_spec a = next_of(&kvt_arrival_closed, closed, 0);
        struct kvt_request_spec b = next_of(&kvt_arrival_open, open, 1000 * S);
        struct kvt_rng input = kvt_rng_stream(SEED, KVT_RNG_LENGTH, 2 * i);
        struct kvt_rng output = kvt_rng_stream(SEED, KVT_RNG_LENGTH, 2 * i + 1);
        ck_assert_uint_eq(a.input_tokens, spread_draw(NULL, &input));
        ck_assert_uint_eq(a.output_tokens, spread_draw(NULL, &output));
        ck_assert_uint_eq(a.input_tokens, b.input_tokens);
        ck_assert_uint_eq(a.output_tokens, b.output_tokens);
        ck_assert_uint_eq(a.session, UINT64_MAX);
        ck_assert_uint_eq(a.line, 0);
        ck_assert_str_eq(a.slo_class, "");
    }
    kvt_arrival_closed.close(closed);
    kvt_arrival_open.close(open);
}
END_TEST

START_TEST(the_extent_adds_the_longest_input_and_the_longest_output)
{
    const struct kvt_param_value values[] = {{.number = 9}, {.number = 0}};
    void *source = opened(&kvt_arrival_closed, values);
    uint32_t longest_tokens = 0;
    uint32_t output_tokens = 0;
    uint32_t inputs[16];
    size_t input_count = 16;
    kvt_arrival_closed.extent(source, &longest_tokens, &output_tokens, inputs, &input_count);
    ck_assert_uint_eq(longest_tokens, 2u << 20);
    ck_assert_uint_eq(output_tokens, 1u << 20);
    ck_assert_uint_eq(input_count, 0);
    kvt_arrival_closed.close(source);
}
END_TEST

/* ---- phases --------------------------------------------------------------------------- */

START_TEST(a_step_up_is_a_burst_and_a_step_down_drains_first)
{
    const double records[] = {2, 95, 6, 100, 1, 105};
    const struct kvt_param_value values[] = {{.list = records, .list_length = 6}};
    void *source = opened(&kvt_arrival_phases, values);
    struct drive run = {.service_ns = 10 * S, .stop_ns = 400 * S};
    drive(&kvt_arrival_phases, source, &run);

    ck_assert(run.has_ended);
    ck_assert_uint_eq(arrivals_in(&run, 0, 1), 2);
    /* Two at 0, 10, .. 90; at 95 four more, all at once. */
    ck_assert_uint_eq(arrivals_in(&run, 0, 95 * S), 20);
    ck_assert_uint_eq(arrivals_in(&run, 95 * S, 95 * S + 1), 4);
    ck_assert_uint_eq(run.peak_in_flight, 6);
    /* At 195 six are in flight: four end there, two at 200, and only after the
     * last of them does the next one come. Then one every ten seconds. */
    ck_assert_uint_eq(arrivals_in(&run, 195 * S, 200 * S), 0);
    ck_assert_uint_eq(arrivals_in(&run, 200 * S, 200 * S + 1), 1);
    ck_assert_uint_eq(arrivals_in(&run, 200 * S, 300 * S), 10);
    ck_assert_uint_eq(arrivals_in(&run, 300 * S, INT64_MAX), 0);

    ck_assert_uint_eq(kvt_arrival_phases.phase_count(source), 3);
    ck_assert_uint_eq(kvt_arrival_phases.phase_at(source, 0), 0);
    ck_assert_uint_eq(kvt_arrival_phases.phase_at(source, 95 * S - 1), 0);
    ck_assert_uint_eq(kvt_arrival_phases.phase_at(source, 95 * S), 1);
    ck_assert_uint_eq(kvt_arrival_phases.phase_at(source, 900 * S), 2);
    ck_assert_int_eq(kvt_arrival_phases.end_ns(source), 300 * S);
    ck_assert_uint_eq(kvt_arrival_phases.first_wave(source), 2);
    kvt_arrival_phases.close(source);
}
END_TEST

START_TEST(a_phase_of_nobody_is_a_pause)
{
    const double records[] = {1, 10, 0, 10, 1, 10};
    const struct kvt_param_value values[] = {{.list = records, .list_length = 6}};
    void *source = opened(&kvt_arrival_phases, values);
    struct drive run = {.service_ns = 4 * S, .stop_ns = 100 * S};
    drive(&kvt_arrival_phases, source, &run);
    ck_assert_uint_eq(arrivals_in(&run, 0, 10 * S), 3);
    ck_assert_uint_eq(arrivals_in(&run, 10 * S, 20 * S), 0);
    ck_assert_uint_eq(arrivals_in(&run, 20 * S, 30 * S), 3);
    ck_assert_uint_eq(run.count, 6);
    kvt_arrival_phases.close(source);
}
END_TEST

START_TEST(phases_that_make_no_sense_are_refused)
{
    static const double half[] = {1.5, 10};
    static const double negative[] = {-1, 10};
    static const double short_one[] = {1, 0};
    static const double endless[] = {1, 1e11};
    const struct kvt_param_value cases[] = {
        {.list_length = 0},
        {.list = half, .list_length = 2},
        {.list = negative, .list_length = 2},
        {.list = short_one, .list_length = 2},
        {.list = endless, .list_length = 2},
    };
    static const char *const says[] = {"0 phases; from 1 to 1000", "a concurrency of 1.5",
                                       "a concurrency of -1", "0 seconds are no length",
                                       "1e+11 seconds are no length"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(strstr(refusal_of(&kvt_arrival_phases, &cases[i]), says[i]));
}
END_TEST

/* ---- open ------------------------------------------------------------------------------ */

/* All arrivals of an open loop of 4,000, and the mean and cv of the gaps. */
static void gaps_of(double rate, double burstiness, struct drive *run, double *mean_s, double *cv)
{
    const struct kvt_param_value values[] = {
        {.number = rate}, {.number = burstiness}, {.number = 4000}};
    void *source = opened(&kvt_arrival_open, values);
    *run = (struct drive){.service_ns = 1, .stop_ns = INT64_MAX};
    drive(&kvt_arrival_open, source, run);
    kvt_arrival_open.close(source);
    double sum = 0;
    double squares = 0;
    kvt_ns before_ns = 0;
    for (size_t i = 0; i < run->count; i++) {
        double gap_s = (double)(run->arrivals_ns[i] - before_ns) / 1e9;
        sum += gap_s;
        squares += gap_s * gap_s;
        before_ns = run->arrivals_ns[i];
    }
    *mean_s = sum / (double)run->count;
    *cv = sqrt(squares / (double)run->count - *mean_s * *mean_s) / *mean_s;
}

/* A gamma law of shape k has a cv of 1 / sqrt(k). */
START_TEST(an_open_loop_offers_its_rate_exactly_and_its_burstiness_closely)
{
    static const double shapes[] = {0.25, 1, 4};
    static struct drive run;
    for (size_t i = 0; i < 3; i++) {
        double mean_s = 0;
        double cv = 0;
        gaps_of(23.85, shapes[i], &run, &mean_s, &cv);
        ck_assert_uint_eq(run.count, 4000);
        ck_assert(run.has_ended);
        ck_assert_double_eq_tol(mean_s, 1 / 23.85, 1e-12);
        ck_assert_int_eq(run.arrivals_ns[3999], llround(4000 / 23.85 * 1e9));
        ck_assert_double_eq_tol(cv * sqrt(shapes[i]), 1, 0.1);
    }
}
END_TEST

/* Gaps of a Poisson process longer than t: a share of exp(-rate t). */
START_TEST(gaps_of_burstiness_one_are_exponential)
{
    static struct drive run;
    double mean_s = 0;
    double cv = 0;
    gaps_of(10, 1, &run, &mean_s, &cv);
    for (int i = 1; i < 6; i++) {
        double t = 0.05 * i;
        size_t longer = 0;
        kvt_ns before_ns = 0;
        for (size_t r = 0; r < run.count; r++) {
            longer += (double)(run.arrivals_ns[r] - before_ns) > t * 1e9;
            before_ns = run.arrivals_ns[r];
        }
        ck_assert_double_eq_tol((double)longer / 4000, exp(-10 * t), 0.03);
    }
}
END_TEST

START_TEST(an_open_loop_does_not_wait_for_finishes)
{
    const struct kvt_param_value values[] = {{.number = 100}, {.number = 1}, {.number = 0}};
    void *source = opened(&kvt_arrival_open, values);
    struct drive run = {.service_ns = 1000 * S, .stop_ns = 10 * S};
    drive(&kvt_arrival_open, source, &run);
    ck_assert(!run.has_ended);
    ck_assert_uint_eq(run.peak_in_flight, run.count);
    /* 1,000 expected, with a standard deviation of 32. */
    ck_assert_uint_gt(run.count, 840);
    ck_assert_uint_lt(run.count, 1160);
    ck_assert_uint_eq(kvt_arrival_open.first_wave(source), 0);
    kvt_arrival_open.close(source);
}
END_TEST

START_TEST(a_loop_that_would_outlast_the_clock_is_refused)
{
    const struct kvt_param_value values[] = {{.number = 1e-6}, {.number = 0.01}, {.number = 0}};
    void *source = opened(&kvt_arrival_open, values);
    kvt_status status = KVT_OK;
    struct kvt_error err = {0};
    kvt_ns now_ns = 0;
    while (status == KVT_OK) {
        enum kvt_arrival_answer answer = KVT_ARRIVAL_END;
        struct kvt_request_spec spec;
        status = kvt_arrival_open.poll(source, now_ns, 0, &answer, &spec, &now_ns, &err);
    }
    ck_assert_int_eq(status, KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "more than 146 years"));
    kvt_arrival_open.close(source);
}
END_TEST

/* ---- trace ------------------------------------------------------------------------------- */

static struct kvt_param_value trace_values[4];

static const struct kvt_param_value *trace_of(const char *path, const char *window)
{
    trace_values[0] = (struct kvt_param_value){.text = path};
    trace_values[1] = (struct kvt_param_value){.text = "auto"};
    trace_values[2] = (struct kvt_param_value){.number = 2};
    trace_values[3] = (struct kvt_param_value){.text = window};
    return trace_values;
}

START_TEST(a_trace_gives_its_rows_when_they_are_due)
{
    void *source = opened(&kvt_arrival_trace, trace_of(DATA "kvtide.csv", ""));
    struct drive run = {.service_ns = 1, .stop_ns = INT64_MAX};
    drive(&kvt_arrival_trace, source, &run);
    ck_assert(run.has_ended);
    ck_assert_uint_eq(run.count, 3);
    ck_assert_int_eq(run.arrivals_ns[0], 0);
    ck_assert_int_eq(run.arrivals_ns[1], S / 8);
    ck_assert_int_eq(run.arrivals_ns[2], S * 5 / 4 + 1); /* after 1.25 s of thought */
    ck_assert_uint_eq(kvt_arrival_trace.expected(source), 3);
    ck_assert_str_eq(kvt_arrival_trace.account(source)->format, "kvtide");
    uint32_t longest_tokens = 0;
    uint32_t output_tokens = 0;
    uint32_t inputs[16];
    size_t input_count = 16;
    kvt_arrival_trace.extent(source, &longest_tokens, &output_tokens, inputs, &input_count);
    ck_assert_uint_eq(longest_tokens, 2402);
    ck_assert_uint_eq(output_tokens, 17);
    ck_assert_uint_eq(input_count, 3);
    kvt_arrival_trace.close(source);
}
END_TEST

START_TEST(a_window_is_written_from_to_in_seconds)
{
    static const struct {
        const char *window;
        uint64_t requests;
    } cases[] = {{"0.25:1.5", 1}, {":1.5", 2}, {"0.25:", 2}, {"0:100", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *source = opened(&kvt_arrival_trace, trace_of(DATA "kvtide.csv", cases[i].window));
        ck_assert_uint_eq(kvt_arrival_trace.expected(source), cases[i].requests);
        kvt_arrival_trace.close(source);
    }
    static const char *const wrong[] = {"5", ":", "3:2", "2:2", "a:b", "-1:2", "1:2:3", "1: 2x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        (void)refusal_of(&kvt_arrival_trace, trace_of(DATA "kvtide.csv", wrong[i]));
}
END_TEST

START_TEST(the_choices_of_a_trace_s_format_are_the_formats_there_are)
{
    char expected[256] = "auto";
    size_t used = strlen(expected);
    for (const char *const *name = kvt_trace_formats(); *name != NULL; name++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, "|%s", *name);
    ck_assert_str_eq(kvt_arrival_trace.info.params[1].name, "format");
    ck_assert_str_eq(kvt_arrival_trace.info.params[1].choices, expected);
}
END_TEST

static Suite *arrival_suite(void)
{
    Suite *suite = suite_create("arrival");

    TCase *closed = tcase_create("closed");
    tcase_add_test(closed, a_closed_loop_starts_with_a_burst_and_each_finish_lets_one_in_at_once);
    tcase_add_test(closed, a_closed_loop_without_a_number_of_requests_never_ends);
    tcase_add_test(closed, a_first_wave_is_no_larger_than_all_requests);
    tcase_add_test(closed, a_request_s_lengths_depend_on_its_number_alone);
    tcase_add_test(closed, the_extent_adds_the_longest_input_and_the_longest_output);
    suite_add_tcase(suite, closed);

    TCase *phases = tcase_create("phases");
    tcase_add_test(phases, a_step_up_is_a_burst_and_a_step_down_drains_first);
    tcase_add_test(phases, a_phase_of_nobody_is_a_pause);
    tcase_add_test(phases, phases_that_make_no_sense_are_refused);
    suite_add_tcase(suite, phases);

    TCase *open = tcase_create("open");
    tcase_add_test(open, an_open_loop_offers_its_rate_exactly_and_its_burstiness_closely);
    tcase_add_test(open, gaps_of_burstiness_one_are_exponential);
    tcase_add_test(open, an_open_loop_does_not_wait_for_finishes);
    tcase_add_test(open, a_loop_that_would_outlast_the_clock_is_refused);
    suite_add_tcase(suite, open);

    TCase *trace = tcase_create("trace");
    tcase_add_test(trace, a_trace_gives_its_rows_when_they_are_due);
    tcase_add_test(trace, a_window_is_written_from_to_in_seconds);
    tcase_add_test(trace, the_choices_of_a_trace_s_format_are_the_formats_there_are);
    suite_add_tcase(suite, trace);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(arrival_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
