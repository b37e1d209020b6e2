/* test_tape.c -- streams on one tape, how many tapes there are, limits and progress. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"
#include "support/law_setting.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

/* ---- Tapes ------------------------------------------------------------------------- */

/* Two streams on one tape: one lag of time and one turn by pages take the
 * first's old rows to the second's. Finds them by search. */
enum {
    PAIR_K = 50,
    PAIR_CONTEXT = 2000,
    PAIR_STEPS = 400
};

static bool are_turned(const uint32_t *a, const uint32_t *b, uint32_t turn)
{
    uint32_t whole = PAIR_CONTEXT / 64 * 64, old = 0, common = 0;
    for (uint32_t i = 0; i < PAIR_K; i++) {
        old += a[i] < whole;
        common += a[i] < whole && law_rows_contain(b, PAIR_K, (a[i] + turn) % whole);
    }
    /* Rows born between the two phases are old to one stream only. */
    return common * 5 > old * 4;
}

static bool find_lag(uint32_t (*a)[PAIR_K], uint32_t (*b)[PAIR_K], int *lag_found)
{
    for (int lag = -130; lag <= 130; lag++) {
        for (uint32_t turn = 0; turn < PAIR_CONTEXT / 64 * 64; turn += 64) {
            bool agrees = true;
            for (int step = 135; step < 260 && agrees; step += 15)
                agrees = are_turned(a[step + lag], b[step], turn);
            if (agrees) {
                *lag_found = lag;
                return true;
            }
        }
    }
    return false;
}

START_TEST(streams_on_one_tape_differ_by_a_lag_and_a_turn)
{
    enum {
        STREAMS = 5
    };
    static uint32_t rows[STREAMS][PAIR_STEPS][PAIR_K];
    static const uint32_t contexts[] = {PAIR_CONTEXT};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, PAIR_K);
    law_setting_set(&setting, &kvt_law_tape, "tapes", 1);
    setting.env.output_tokens = PAIR_STEPS;
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    void *data = law_prepared(&kvt_law_tape, &setting);
    int lags_apart = 0;
    for (uint32_t s = 0; s < STREAMS; s++) {
        struct kvt_law_stream_env env =
            law_stream_env(s, 0, PAIR_CONTEXT, PAIR_CONTEXT + PAIR_STEPS - 1);
        void *stream = law_stream_new(&kvt_law_tape, data, &env);
        for (uint32_t step = 0; step < PAIR_STEPS; step++)
            (void)law_select_one(&kvt_law_tape, data, stream, PAIR_CONTEXT + step, rows[s][step]);
        free(stream);
        int lag;
        ck_assert_msg(find_lag(rows[0], rows[s], &lag), "stream %u is on no tape of the first", s);
        ck_assert(s > 0 || lag == 0);
        lags_apart += lag != 0;
    }
    ck_assert_int_ge(lags_apart, STREAMS - 2);
    kvt_law_tape.free(data);
}
END_TEST

/* A length of k + 1 has one phase, so that every stream begins at step 0; the automatic steps of
 * 100 tokens are 6 tau1, in blocks 640. */
enum {
    LOOP_K = 70,
    LOOP_STEPS = 640,
    LOOP_READS = 3 * LOOP_STEPS
};

/* Rows born on the second round lie where the stream gains them, a round further. */
static void check_round(const uint32_t *then, const uint32_t *now, uint32_t visible)
{
    uint32_t expected[LOOP_K];
    for (uint32_t i = 0; i < LOOP_K; i++)
        expected[i] = then[i] <= LOOP_K ? then[i] : then[i] + LOOP_STEPS;
    ck_assert_mem_eq(now, expected, sizeof expected);
    ck_assert_uint_lt(now[LOOP_K - 1], visible);
}

START_TEST(a_tape_goes_round_and_rows_are_born_again)
{
    static uint32_t rows[LOOP_READS][LOOP_K];
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, LOOP_K);
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, LOOP_K + 1, LOOP_K + LOOP_READS);
    void *stream = law_stream_new(&kvt_law_tape, data, &env);
    for (uint32_t read = 0; read < LOOP_READS; read++)
        (void)law_select_one(&kvt_law_tape, data, stream, LOOP_K + 1 + read, rows[read]);
    for (uint32_t read = LOOP_STEPS; read < LOOP_READS; read++)
        check_round(rows[read - LOOP_STEPS], rows[read], LOOP_K + 1 + read);
    for (uint32_t step = 1; step < LOOP_STEPS; step++)
        ck_assert(memcmp(rows[step], rows[step - 1], sizeof rows[step]) != 0);
    free(stream);
    kvt_law_tape.free(data);
}
END_TEST

/* The first selection after the last one shares as much with it as any two in a row. */
START_TEST(where_a_tape_closes_nothing_jumps)
{
    enum {
        TOP_K = 256,
        ROWS = 12800,
        STEPS = 1024
    };
    static const uint32_t contexts[] = {ROWS};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, TOP_K);
    law_setting_set(&setting, &kvt_law_tape, "tapes", 1);
    law_setting_set(&setting, &kvt_law_tape, "steps", STEPS);
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    void *data = law_prepared(&kvt_law_tape, &setting);
    double seam = 0, mean = 0;
    uint32_t most_gone = 0;
    struct kvt_law_stream_env env = law_stream_env(0, 0, ROWS, ROWS + 2 * STEPS);
    void *stream = law_stream_new(&kvt_law_tape, data, &env);
    static uint32_t before[TOP_K], now[TOP_K];
    for (uint32_t read = 0; read < 2 * STEPS; read++) {
        memcpy(before, now, sizeof before);
        (void)law_select_one(&kvt_law_tape, data, stream, ROWS + read, now);
        uint32_t common = 0, born_before = 0, born_now = 0;
        for (uint32_t i = 0; i < TOP_K && read > 0; i++) {
            common += law_rows_contain(before, TOP_K, now[i]);
            born_before += before[i] >= ROWS;
            born_now += now[i] >= ROWS;
        }
        mean += (double)common / TOP_K / (2 * STEPS - 1);
        /* Rows born on the first round are gone on the second, all at once. */
        if (born_before > born_now + most_gone) {
            most_gone = born_before - born_now;
            seam = (double)common / (TOP_K - most_gone);
        }
    }
    free(stream);
    kvt_law_tape.free(data);
    ck_assert_uint_ge(most_gone, TOP_K / 25);
    ck_assert_double_eq_tol(mean, .68, .02);
    ck_assert_double_eq_tol(seam, mean, .09);
}
END_TEST

/* ---- What the presets ask of tapes ----------------------------------------------------- */

enum {
    KIN_K = 64,
    KIN_ROWS = 3000,
    KIN_REQUESTS = 12
};

static void *prepared_preset(double preset)
{
    static const uint32_t contexts[] = {KIN_ROWS};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, KIN_K);
    law_setting_set(&setting, &kvt_law_tape, "preset", preset);
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    return law_prepared(&kvt_law_tape, &setting);
}

static void select_first(void *data, uint32_t request, uint32_t selector, uint32_t context_rows,
                         uint32_t rows[KIN_K])
{
    struct kvt_law_stream_env env =
        law_stream_env(request, selector, context_rows, context_rows + 50);
    void *stream = law_stream_new(&kvt_law_tape, data, &env);
    for (uint32_t step = 0; step < 20; step++)
        (void)law_select_one(&kvt_law_tape, data, stream, context_rows + step, rows);
    free(stream);
}

/* Rows that selectors 0 and 1 of a request share, of all they select. */
static double shared_by_selectors(double preset)
{
    void *data = prepared_preset(preset);
    double shared = 0;
    for (uint32_t request = 0; request < KIN_REQUESTS; request++) {
        uint32_t rows[2][KIN_K];
        for (uint32_t s = 0; s < 2; s++)
            select_first(data, request, s, KIN_ROWS, rows[s]);
        for (uint32_t i = 0; i < KIN_K; i++)
            shared += law_rows_contain(rows[1], KIN_K, rows[0][i]);
    }
    kvt_law_tape.free(data);
    return shared / KIN_K / KIN_REQUESTS;
}

START_TEST(selectors_of_a_request_are_kin_where_the_process_says_so)
{
    double flat = shared_by_selectors(0), clustered = shared_by_selectors(1);
    ck_assert_double_le(flat, .05); /* k/rows is .021 */
    ck_assert_double_ge(clustered, .08);
}
END_TEST

START_TEST(sinks_stay_and_new_rows_keep_their_distance)
{
    void *data = prepared_preset(2);
    /* A length that was prepared for, and one that lies between two tapes. */
    static const uint32_t contexts[] = {KIN_ROWS, KIN_ROWS - 77};
    for (size_t c = 0; c < 2; c++) {
        uint32_t newest = 0;
        for (uint32_t request = 0; request < KIN_REQUESTS; request++) {
            uint32_t rows[KIN_K];
            select_first(data, request, 2, contexts[c], rows);
            for (uint32_t sink = 0; sink < 4; sink++)
                ck_assert_uint_eq(rows[sink], sink);
            for (uint32_t i = 0; i < KIN_K; i++)
                newest += rows[i] >= contexts[c] + 20 - 400;
        }
        /* 400 of 3,000 rows, were all alike, would be 8.5 of 64. */
        ck_assert_uint_ge(newest, 12 * KIN_REQUESTS);
    }
    kvt_law_tape.free(data);
}
END_TEST

/* ---- How many tapes there are ------------------------------------------------------------- */

enum {
    MANY_ROWS = 3000,
    MANY_SELECTORS = 3
};

/* Of some streams of so many requests at one length; what stands behind them into text. */
static uint64_t hash_of_requests(const struct law_setting *setting, uint32_t requests,
                                 uint32_t rows, char text[200])
{
    void *data = law_prepared(&kvt_law_tape, setting);
    uint64_t chain = 0;
    for (uint32_t request = 0; request < requests; request++) {
        for (uint32_t selector = 0; selector < MANY_SELECTORS; selector++) {
            struct kvt_law_stream_env env = law_stream_env(request, selector, rows, rows + 3);
            chain += law_whole_hash(&kvt_law_tape, data, &env) * (1 + chain);
        }
    }
    kvt_law_tape.describe(data, text, 200);
    kvt_law_tape.free(data);
    return chain;
}

static void many_setting(struct law_setting *setting, bool all_streams, unsigned threads)
{
    static const uint32_t contexts[] = {MANY_ROWS};
    law_setting_init(setting, &kvt_law_tape, 64);
    setting->env.context_rows = contexts;
    setting->env.context_count = 1;
    setting->env.all_streams = all_streams;
    setting->env.threads = threads;
}

START_TEST(tapes_made_as_needed_are_those_made_ahead)
{
    char text[200], other_text[200];
    struct law_setting setting;
    many_setting(&setting, true, 2);
    uint64_t ahead = hash_of_requests(&setting, 3, MANY_ROWS, text);
    ck_assert_str_eq(text, "32 tapes of 640 tokens at 3000 rows, 3 MiB");
    many_setting(&setting, false, 1);
    ck_assert_uint_eq(hash_of_requests(&setting, 3, MANY_ROWS, text), ahead);
    uint32_t tapes = (uint32_t)strtoul(text, NULL, 10);
    ck_assert_uint_ge(tapes, 2);
    ck_assert_uint_le(tapes, 3 * MANY_SELECTORS);
    /* Further threads record what others may want: neither shows. */
    many_setting(&setting, false, 3);
    ck_assert_uint_eq(hash_of_requests(&setting, 3, MANY_ROWS, other_text), ahead);
    ck_assert_str_eq(text, other_text);
}
END_TEST

static bool count_calls(void *context, double done_fraction, const char *what)
{
    (void)done_fraction;
    (void)what;
    ++*(uint32_t *)context;
    return true;
}

/* How many of the first streams of so many requests had to wait for a recording. */
static uint32_t count_waits(unsigned threads, uint32_t requests)
{
    uint32_t calls = 0, waits = 0;
    struct law_setting setting;
    many_setting(&setting, false, threads);
    setting.env.progress = count_calls;
    setting.env.progress_context = &calls;
    void *data = law_prepared(&kvt_law_tape, &setting);
    for (uint32_t request = 0; request < requests; request++) {
        uint32_t before = calls;
        struct kvt_law_stream_env env = law_stream_env(request, 0, MANY_ROWS, MANY_ROWS + 3);
        (void)law_whole_hash(&kvt_law_tape, data, &env);
        waits += calls > before;
    }
    kvt_law_tape.free(data);
    return waits;
}

/* Each recording with 4 threads makes 4 of 32 tapes; one with 32 threads makes all. */
START_TEST(a_tape_that_a_further_thread_has_recorded_is_not_waited_for)
{
    uint32_t alone = count_waits(1, 6);
    ck_assert_uint_ge(alone, 2);
    ck_assert_uint_lt(count_waits(4, 6), alone);
    ck_assert_uint_le(count_waits(32, 6), 1); /* 0: done before the thread that waits looked */
}
END_TEST

START_TEST(a_length_that_turns_up_has_no_more_tapes_than_requests_and_32_at_most)
{
    static const uint32_t requests[] = {1, 4, 400};
    char text[200];
    struct law_setting setting;
    many_setting(&setting, true, 1);
    setting.env.context_count = 0;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        (void)hash_of_requests(&setting, requests[i], MANY_ROWS - 77, text);
        uint32_t tapes = (uint32_t)strtoul(text, NULL, 10);
        ck_assert_uint_ge(tapes, requests[i] < 32 ? 1 : 32);
        ck_assert_uint_le(tapes, requests[i] < 32 ? requests[i] : 32);
    }
}
END_TEST

START_TEST(as_many_tapes_of_kin_are_independent_as_of_others)
{
    char text[200];
    struct law_setting setting;
    many_setting(&setting, true, 2);
    law_setting_set(&setting, &kvt_law_tape, "preset", 1);
    law_setting_set(&setting, &kvt_law_tape, "steps", 64);
    (void)hash_of_requests(&setting, 1, MANY_ROWS, text);
    ck_assert_msg(strstr(text, "96 tapes (32 independent) of 64 tokens") == text, "%s", text);
}
END_TEST

/* ---- Limits and progress ------------------------------------------------------------------ */

enum {
    FORESEEN_ROWS = 3000
};

/* One length is foreseen. */
static void foreseen_setting(struct law_setting *setting)
{
    static const uint32_t contexts[] = {FORESEEN_ROWS};
    law_setting_init(setting, &kvt_law_tape, 64);
    setting->env.context_rows = contexts;
    setting->env.context_count = 1;
}

START_TEST(tapes_that_pass_the_memory_limit_are_refused)
{
    struct law_setting setting;
    foreseen_setting(&setting);
    law_setting_set(&setting, &kvt_law_tape, "memory_mib", 1);
    law_setting_set(&setting, &kvt_law_tape, "steps", 2000);
    law_check_refused(&kvt_law_tape, &setting, KVT_ERR_NOMEM, "memory_mib allows 1");

    setting.env.context_count = 0;
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env small = law_stream_env(0, 0, 500, 550);
    uint64_t expected = law_whole_hash(&kvt_law_tape, data, &small);
    struct kvt_law_stream_env large = law_stream_env(0, 0, 200000, 203000);
    unsigned char stream[256];
    struct kvt_error err;
    ck_assert_uint_le(kvt_law_tape.stream_bytes(data, &large), sizeof stream);
    ck_assert_int_eq(kvt_law_tape.stream_init(data, stream, &large, &err), KVT_ERR_NOMEM);
    ck_assert_uint_eq(law_whole_hash(&kvt_law_tape, data, &small), expected);
    kvt_law_tape.free(data);
}
END_TEST

static bool count_progress(void *context, double done_fraction, const char *what)
{
    double *last = context;
    ck_assert(done_fraction >= *last && done_fraction <= 1);
    ck_assert_ptr_nonnull(what);
    *last = done_fraction;
    return true;
}

static bool stop_at_once(void *context, double done_fraction, const char *what)
{
    int *calls = context;
    (void)done_fraction;
    (void)what;
    ++*calls;
    return false;
}

START_TEST(recording_stops_when_its_listener_says_so)
{
    static const uint32_t contexts[] = {3000, 4000, 5000};
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct law_setting setting;
        law_setting_init(&setting, &kvt_law_tape, 64);
        int calls = 0;
        setting.env.progress = stop_at_once;
        setting.env.progress_context = &calls;
        setting.env.context_rows = contexts;
        setting.env.context_count = 3;
        setting.env.threads = threads;
        void *data = NULL;
        struct kvt_error err;
        ck_assert_int_eq(kvt_law_tape.prepare(&setting.env, &data, &err), KVT_ERR_INTERRUPTED);
        ck_assert_str_eq(err.message, "interrupted while selections were recorded");
        ck_assert_ptr_null(data);
        ck_assert_int_eq(calls, 1);
    }
}
END_TEST

/* A length that was foreseen, and one that was not. */
START_TEST(a_stream_is_not_begun_when_the_listener_of_its_tape_says_so)
{
    struct law_setting setting;
    foreseen_setting(&setting);
    int calls = 0;
    setting.env.progress = stop_at_once;
    setting.env.progress_context = &calls;
    setting.env.all_streams = false;
    void *data = law_prepared(&kvt_law_tape, &setting);
    ck_assert_int_eq(calls, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct kvt_law_stream_env env = law_stream_env(0, 0, FORESEEN_ROWS - 77 * i, 3300);
        unsigned char stream[256] = {0};
        struct kvt_error err;
        ck_assert_int_eq(kvt_law_tape.stream_init(data, stream, &env, &err), KVT_ERR_INTERRUPTED);
        ck_assert_str_eq(err.message, "interrupted while selections were recorded");
        ck_assert_uint_eq((unsigned)calls, i + 1);
    }
    kvt_law_tape.free(data);
}
END_TEST

START_TEST(a_tape_says_how_far_it_is_and_what_it_holds)
{
    struct law_setting setting;
    foreseen_setting(&setting);
    double last = 0;
    setting.env.progress = count_progress;
    setting.env.progress_context = &last;
    void *data = law_prepared(&kvt_law_tape, &setting);
    ck_assert_double_eq(last, 1);
    char text[200];
    kvt_law_tape.describe(data, text, sizeof text);
    ck_assert_str_eq(text, "32 tapes of 640 tokens at 3000 rows, 3 MiB");
    struct kvt_law_stream_env env = law_stream_env(0, 0, 1000, 1010);
    (void)law_whole_hash(&kvt_law_tape, data, &env);
    kvt_law_tape.describe(data, text, sizeof text);
    ck_assert_str_eq(text,
                     "33 tapes of up to 640 tokens at 2 lengths (995 to 3000 rows), 1 to 32 a "
                     "length, 3 MiB");
    kvt_law_tape.describe(data, text, 8);
    ck_assert_str_eq(text, "33 tape");
    kvt_law_tape.free(data);

    law_setting_init(&setting, &kvt_law_score, 64);
    data = law_prepared(&kvt_law_score, &setting);
    kvt_law_score.describe(data, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "scores"));
    kvt_law_score.free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tape");
    TCase *tape = tcase_create("tape");
    tcase_set_timeout(tape, 60);
    tcase_add_test(tape, streams_on_one_tape_differ_by_a_lag_and_a_turn);
    tcase_add_test(tape, a_tape_goes_round_and_rows_are_born_again);
    tcase_add_test(tape, where_a_tape_closes_nothing_jumps);
    tcase_add_test(tape, selectors_of_a_request_are_kin_where_the_process_says_so);
    tcase_add_test(tape, sinks_stay_and_new_rows_keep_their_distance);
    tcase_add_test(tape, tapes_made_as_needed_are_those_made_ahead);
    tcase_add_test(tape, a_length_that_turns_up_has_no_more_tapes_than_requests_and_32_at_most);
    tcase_add_test(tape, a_tape_that_a_further_thread_has_recorded_is_not_waited_for);
    tcase_add_test(tape, as_many_tapes_of_kin_are_independent_as_of_others);
    tcase_add_test(tape, tapes_that_pass_the_memory_limit_are_refused);
    tcase_add_test(tape, a_tape_says_how_far_it_is_and_what_it_holds);
    tcase_add_test(tape, recording_stops_when_its_listener_says_so);
    tcase_add_test(tape, a_stream_is_not_begun_when_the_listener_of_its_tape_says_so);
    suite_add_tcase(suite, tape);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
