/* test_tape.c -- reels read back at every edge, streams on one tape, limits and progress. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/law/score_process.h"
#include "../../models/law/tape_reel.h"
#include "kvt/law.h"
#include "support/law_setting.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

/* ---- Reels ------------------------------------------------------------------------- */

START_TEST(a_reel_reads_back_what_the_process_selected)
{
    /* Two rows in 300,000: gaps of more than 16 bits are the rule. */
    static const uint32_t lengths[][2] = {{300000, 2}, {2000, 150}, {70000, 1}, {90, 90}};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, 1);
    struct score_shape shape;
    ck_assert_int_eq(score_shape_init(&shape, &setting.env.params, "test", NULL), KVT_OK);
    float *gauss = score_gauss_new();
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        uint32_t first_rows = lengths[l][0], top_k = lengths[l][1];
        struct reel *reel = reel_new(77, first_rows, 1, top_k, 30);
        struct score_stream *score = malloc(score_stream_bytes(first_rows + 63, top_k));
        ck_assert(reel != NULL && score != NULL);
        ck_assert_int_eq(reel_record(reel, &shape, gauss, 1, NULL), KVT_OK);
        ck_assert_uint_eq(reel->recorded, 64);
        ck_assert_ptr_null(reel->recorder);
        score_stream_init(score, gauss, 77, first_rows + 63, top_k);
        struct reel_map map = {.old_rows = first_rows, .stream_rows = first_rows};
        for (uint32_t step = 0; step < 64; step++) {
            uint32_t expected[150], rows[150];
            (void)score_stream_select(score, &shape, gauss, first_rows + step, expected);
            reel_read(reel, step, &map, rows);
            ck_assert_mem_eq(rows, expected, top_k * sizeof *rows);
        }
        free(score);
        reel_free(reel);
    }
    free(gauss);
}
END_TEST

static int compare_rows(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Every shift of every partition of old rows, against the definition: old rows
 * turn within the whole pages, the last partial page stays, born rows follow. */
START_TEST(a_turned_history_is_read_in_order_at_every_edge)
{
    static const uint32_t stream_lengths[] = {40, 63, 64, 65, 127, 128, 129, 200, 256, 300};
    enum {
        TOP_K = 30,
        STEPS = 64
    };
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, TOP_K);
    struct score_shape shape;
    ck_assert_int_eq(score_shape_init(&shape, &setting.env.params, "test", NULL), KVT_OK);
    float *gauss = score_gauss_new();
    for (size_t l = 0; l < sizeof stream_lengths / sizeof stream_lengths[0]; l++) {
        uint32_t stream_rows = stream_lengths[l], whole = stream_rows / 64 * 64;
        for (uint32_t old_rows = TOP_K + 5; old_rows <= stream_rows; old_rows += 7) {
            struct reel *reel = reel_new(l, old_rows, 1, TOP_K, STEPS);
            ck_assert_int_eq(reel_record(reel, &shape, gauss, STEPS, NULL), KVT_OK);
            struct reel_map plain = {.old_rows = old_rows, .stream_rows = old_rows};
            struct reel_map map = {.old_rows = old_rows, .stream_rows = stream_rows};
            for (; map.shift_rows == 0 || map.shift_rows < whole; map.shift_rows += 64) {
                for (uint32_t step = 0; step < STEPS; step += 21) {
                    uint32_t expected[TOP_K], rows[TOP_K];
                    reel_read(reel, step, &plain, expected);
                    for (uint32_t i = 0; i < TOP_K; i++) {
                        if (expected[i] >= old_rows)
                            expected[i] = expected[i] - old_rows + stream_rows;
                        else if (expected[i] < whole)
                            expected[i] = (expected[i] + map.shift_rows) % whole;
                    }
                    qsort(expected, TOP_K, sizeof *expected, compare_rows);
                    reel_read(reel, step, &map, rows);
                    ck_assert_mem_eq(rows, expected, sizeof rows);
                }
            }
            reel_free(reel);
        }
    }
    free(gauss);
}
END_TEST

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
            (void)kvt_law_tape.select(data, stream, PAIR_CONTEXT + step, rows[s][step]);
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

START_TEST(a_tape_turns_at_its_end_and_at_its_beginning)
{
    /* A length of k + 1 has one phase, so that every stream begins at step 0;
     * 100 tokens and a phase are 101 steps, in blocks 128. */
    enum {
        TOP_K = 70,
        LAST = 127,
        READS = 600
    };
    static uint32_t rows[READS][TOP_K];
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, TOP_K);
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, TOP_K + 1, TOP_K + READS);
    void *stream = law_stream_new(&kvt_law_tape, data, &env);
    for (uint32_t read = 0; read < READS; read++)
        (void)kvt_law_tape.select(data, stream, TOP_K + 1 + read, rows[read]);
    for (uint32_t read = 0; read < READS; read++) {
        uint32_t place = read % (2 * LAST);
        uint32_t step = place <= LAST ? place : 2 * LAST - place;
        ck_assert_mem_eq(rows[read], rows[step], sizeof rows[read]);
    }
    for (uint32_t step = 1; step <= LAST; step++)
        ck_assert(memcmp(rows[step], rows[step - 1], sizeof rows[step]) != 0);
    free(stream);
    kvt_law_tape.free(data);
}
END_TEST

START_TEST(a_tape_of_absurdly_large_rows_is_refused)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, 64);
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, 5000, 5001);
    env.tokens_per_row = UINT32_MAX;
    unsigned char stream[256];
    struct kvt_error err;
    ck_assert_int_eq(kvt_law_tape.stream_init(data, stream, &env, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "rows of 4294967295 tokens"));
    kvt_law_tape.free(data);
}
END_TEST

START_TEST(tapes_that_pass_the_memory_limit_are_refused)
{
    static const uint32_t contexts[] = {3000};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, 64);
    law_setting_set(&setting, &kvt_law_tape, "memory_mib", 1);
    law_setting_set(&setting, &kvt_law_tape, "steps", 2000);
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    law_check_refused(&kvt_law_tape, &setting, KVT_ERR_NOMEM, "memory_mib allows 1");

    setting.env.context_count = 0;
    void *data = law_prepared(&kvt_law_tape, &setting);
    struct kvt_law_stream_env small = law_stream_env(0, 0, 500, 550);
    uint64_t expected = law_whole_hash(&kvt_law_tape, data, &small);
    struct kvt_law_stream_env large = law_stream_env(0, 0, 200000, 200010);
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

START_TEST(a_tape_says_how_far_it_is_and_what_it_holds)
{
    static const uint32_t contexts[] = {3000};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, 64);
    double last = 0;
    setting.env.progress = count_progress;
    setting.env.progress_context = &last;
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    void *data = law_prepared(&kvt_law_tape, &setting);
    ck_assert_double_eq(last, 1);
    char text[200];
    kvt_law_tape.describe(data, text, sizeof text);
    ck_assert_str_eq(text, "8 tapes of 100 tokens at 3000 rows, 1 MiB");
    struct kvt_law_stream_env env = law_stream_env(0, 0, 1000, 1010);
    (void)law_whole_hash(&kvt_law_tape, data, &env);
    kvt_law_tape.describe(data, text, sizeof text);
    ck_assert_str_eq(text, "9 tapes of up to 100 tokens at 2 lengths (953 to 3000 rows), 1 MiB");
    kvt_law_tape.describe(data, text, 8);
    ck_assert_str_eq(text, "9 tapes");
    kvt_law_tape.free(data);

    law_setting_init(&setting, &kvt_law_score, 64);
    data = law_prepared(&kvt_law_score, &setting);
    kvt_law_score.describe(data, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "top 64"));
    kvt_law_score.free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tape");
    TCase *tape = tcase_create("tape");
    tcase_set_timeout(tape, 60);
    tcase_add_test(tape, a_reel_reads_back_what_the_process_selected);
    tcase_add_test(tape, a_turned_history_is_read_in_order_at_every_edge);
    tcase_add_test(tape, streams_on_one_tape_differ_by_a_lag_and_a_turn);
    tcase_add_test(tape, a_tape_turns_at_its_end_and_at_its_beginning);
    tcase_add_test(tape, a_tape_of_absurdly_large_rows_is_refused);
    tcase_add_test(tape, tapes_that_pass_the_memory_limit_are_refused);
    tcase_add_test(tape, a_tape_says_how_far_it_is_and_what_it_holds);
    tcase_add_test(tape, recording_stops_when_its_listener_says_so);
    suite_add_tcase(suite, tape);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
