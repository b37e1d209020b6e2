/* test_law.c -- every law against its contract. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/law.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

static const struct kvt_law *const laws[] = {&kvt_law_score, &kvt_law_tape};
enum {
    LAWS = sizeof laws / sizeof laws[0]
};

static bool is_ascending_below(const uint32_t *rows, uint32_t count, uint32_t bound)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i] >= bound || (i > 0 && rows[i - 1] >= rows[i]))
            return false;
    }
    return true;
}

/* ---- The contract, law by law ------------------------------------------------------ */

static const struct {
    uint32_t top_k, context_rows, rows_max, tokens_per_row, steps;
} histories[] = {
    {16, 0, 40, 1, 0},      {16, 1, 300, 1, 0},     {16, 15, 200, 1, 0},    {16, 16, 200, 1, 0},
    {16, 17, 17, 1, 0},     {16, 17, 600, 1, 7},    {1, 63, 300, 1, 0},     {1, 2, 70, 1, 1},
    {8, 64, 300, 1, 0},     {8, 65, 300, 1, 64},    {8, 127, 900, 1, 0},    {8, 128, 400, 1, 0},
    {200, 201, 900, 1, 50}, {63, 1000, 1300, 1, 0}, {64, 4097, 4300, 1, 0}, {64, 4095, 4300, 2, 0},
    {20, 333, 390, 4, 10},  {20, 12, 60, 128, 0},   {20, 20, 60, 3, 0},     {33, 5000, 5000, 1, 0},
};

START_TEST(a_selection_is_ascending_distinct_visible_and_complete)
{
    const struct kvt_law *law = laws[(size_t)_i % LAWS];
    size_t h = (size_t)_i / LAWS;
    struct law_setting setting;
    law_setting_init(&setting, law, histories[h].top_k);
    law_setting_set(&setting, law, "steps", histories[h].steps);
    law_setting_set(&setting, law, "tapes", 3);
    void *data = law_prepared(law, &setting);
    for (uint32_t request = 0; request < 6; request++) {
        struct kvt_law_stream_env env =
            law_stream_env(request, request % 3, histories[h].context_rows, histories[h].rows_max);
        env.tokens_per_row = histories[h].tokens_per_row;
        void *stream = law_stream_new(law, data, &env);
        bool is_untouched = true; /* past the selection */
        /* The first row's tokens may have begun before the first call. */
        uint32_t call = request % env.tokens_per_row;
        for (uint32_t visible = env.context_rows; visible <= env.rows_max;
             visible = env.context_rows + ++call / env.tokens_per_row) {
            uint32_t rows[200];
            memset(rows, 0xff, sizeof rows);
            uint32_t count = law_select_one(law, data, stream, visible, rows);
            ck_assert_uint_eq(count, visible < setting.env.top_k ? visible : setting.env.top_k);
            ck_assert_msg(is_ascending_below(rows, count, visible), "at %u visible rows", visible);
            for (uint32_t i = count; i < 200; i++)
                is_untouched = is_untouched && rows[i] == UINT32_MAX;
        }
        ck_assert(is_untouched);
        free(stream);
    }
    law->free(data);
}
END_TEST

START_TEST(equal_seeds_select_equally_and_everything_else_differs)
{
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 32);
    void *data = law_prepared(law, &setting);
    void *again = law_prepared(law, &setting);
    setting.env.run_seed++;
    void *other = law_prepared(law, &setting);
    uint64_t hashes[4][3];
    for (uint32_t request = 0; request < 4; request++) {
        for (uint32_t selector = 0; selector < 3; selector++) {
            struct kvt_law_stream_env env = law_stream_env(request, selector, 700, 760);
            hashes[request][selector] = law_whole_hash(law, data, &env);
            ck_assert_uint_eq(law_whole_hash(law, again, &env), hashes[request][selector]);
            ck_assert_uint_ne(law_whole_hash(law, other, &env), hashes[request][selector]);
        }
    }
    const uint64_t *flat = &hashes[0][0];
    for (size_t a = 0; a < 12; a++) {
        for (size_t b = 0; b < a; b++)
            ck_assert_uint_ne(flat[a], flat[b]);
    }
    law->free(data);
    law->free(again);
    law->free(other);
}
END_TEST

START_TEST(a_copied_stream_goes_on_as_the_original)
{
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 32);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(3, 1, 500, 600);
    void *stream = law_stream_new(law, data, &env);
    (void)law_selections_hash(law, data, stream, 500, 540);
    size_t bytes = law->stream_bytes(data, &env);
    void *copy = malloc(bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, stream, bytes);
    uint64_t expected = law_selections_hash(law, data, stream, 541, 600);
    memset(stream, 0xa5, bytes);
    free(stream);
    ck_assert_uint_eq(law_selections_hash(law, data, copy, 541, 600), expected);
    free(copy);
    law->free(data);
}
END_TEST

START_TEST(a_stream_does_not_notice_the_others)
{
    const struct kvt_law *law = laws[_i];
    enum {
        STREAMS = 8
    };
    struct law_setting setting;
    law_setting_init(&setting, law, 32);
    law_setting_set(&setting, law, "tapes", 2);
    uint64_t alone[STREAMS];
    for (uint32_t s = 0; s < STREAMS; s++) {
        void *data = law_prepared(law, &setting);
        struct kvt_law_stream_env env = law_stream_env(s, 0, 900 + s % 3, 1000 + 20 * s);
        alone[s] = law_whole_hash(law, data, &env);
        law->free(data);
    }
    void *data = law_prepared(law, &setting);
    for (uint32_t s = STREAMS; s-- > 0;) {
        struct kvt_law_stream_env env = law_stream_env(s, 0, 900 + s % 3, 1000 + 20 * s);
        ck_assert_uint_eq(law_whole_hash(law, data, &env), alone[s]);
    }
    law->free(data);
}
END_TEST

START_TEST(threads_and_preparing_change_no_selection)
{
    const struct kvt_law *law = laws[_i];
    static const unsigned threads[] = {0, 1, 2, 16};
    static const uint32_t contexts[] = {10, 700, 700, 1000};
    static const uint32_t tokens_per_row[] = {1, 1, 1, 2};
    uint64_t expected = 0;
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        struct law_setting setting;
        law_setting_init(&setting, law, 32);
        setting.env.threads = threads[t];
        setting.env.context_rows = contexts;
        setting.env.context_tokens_per_row = tokens_per_row;
        setting.env.context_count = 4;
        void *data = law_prepared(law, &setting);
        uint64_t chain = 0;
        for (uint32_t request = 0; request < 12; request++) {
            struct kvt_law_stream_env env = law_stream_env(request, 0, 700, 790);
            chain = kvt_chain64(chain, law_whole_hash(law, data, &env));
        }
        if (t == 0)
            expected = chain;
        ck_assert_uint_eq(chain, expected);
        law->free(data);
    }
}
END_TEST

/* The same bits on every machine: these were computed once. A change means that
 * every run with these laws selects otherwise. */
START_TEST(selections_are_the_same_on_every_machine)
{
    static const uint64_t expected[LAWS] = {UINT64_C(468089645503781861),
                                            UINT64_C(11930282859052940148)};
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 64);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(5, 2, 3000, 3100);
    ck_assert_uint_eq(law_whole_hash(law, data, &env), expected[_i]);
    law->free(data);
}
END_TEST

START_TEST(what_no_law_can_do_is_refused)
{
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 32);
    law_setting_set(&setting, law, "f0", 0.7);
    law_check_refused(law, &setting, KVT_ERR_INVALID, "come to 1.178; at most 1");
    law_setting_init(&setting, law, 32);
    law_setting_set(&setting, law, "page_share", -0.5);
    law_check_refused(law, &setting, KVT_ERR_INVALID,
                      "page_share is -0.5; 0 to 1 is expected, or -1 for what the preset has");
    law_setting_init(&setting, law, 32);
    law_setting_set(&setting, law, "sink_rows", 32);
    law_check_refused(law, &setting, KVT_ERR_INVALID, "sink_rows is 32 of the 32 rows");
    law_setting_init(&setting, law, 0);
    law_check_refused(law, &setting, KVT_ERR_INVALID, "selects 0 rows");

    law_setting_init(&setting, law, 32);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, 100, 99);
    struct kvt_error err;
    unsigned char stream[256];
    ck_assert_int_eq(law->stream_init(data, stream, &env, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "from 100 rows to at most 99"));
    env.rows_max = UINT32_MAX;
    ck_assert_int_eq(law->stream_init(data, stream, &env, &err), KVT_ERR_INVALID);
    law->free(data);
    law->free(NULL);
}
END_TEST

/* Decimal shares of 1 come to a little more in binary: .7 + .1 + .2 > 1. */
START_TEST(shares_that_make_up_everything_leave_no_white_noise)
{
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 32);
    law_setting_set(&setting, law, "f0", 1);
    law_setting_set(&setting, law, "f1", 0);
    law_setting_set(&setting, law, "f2", 0);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, 500, 540);
    void *stream = law_stream_new(law, data, &env);
    uint32_t first[32], rows[32], newcomers = 0;
    (void)law_select_one(law, data, stream, 500, first);
    for (uint32_t visible = 501; visible <= 540; visible++) {
        (void)law_select_one(law, data, stream, visible, rows);
        /* Nothing drifts: only rows born since may displace others. */
        for (uint32_t i = 0; i < 32; i++)
            newcomers += rows[i] < 500 && !law_rows_contain(first, 32, rows[i]);
    }
    ck_assert_uint_eq(newcomers, 0);
    free(stream);
    law->free(data);

    law_setting_set(&setting, law, "f0", .7);
    law_setting_set(&setting, law, "f1", .1);
    law_setting_set(&setting, law, "f2", .2);
    law->free(law_prepared(law, &setting));
}
END_TEST

/* What is left to the preset has values of its own kind only. */
static void change_param(const struct kvt_param_spec *spec, struct kvt_param_value *value)
{
    if (spec->default_number < 0)
        value->number = spec->type == KVT_PARAM_COUNT ? 2 : 0.4;
    else
        support_change_param(spec, value);
}

START_TEST(every_parameter_changes_what_is_selected)
{
    static const uint32_t stores[] = {0, 0, 1};
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    struct kvt_law_stream_env env = law_stream_env(0, 0, 1500, 1700);
    uint64_t hashes[32];
    ck_assert_uint_lt(law->info.param_count, 32);
    for (size_t p = 0; p <= law->info.param_count; p++) {
        law_setting_init(&setting, law, 32);
        setting.env.output_tokens = 100;
        setting.env.stream_store = stores;
        if (p < law->info.param_count)
            change_param(&law->info.params[p], &setting.values[p]);
        /* A limit changes nothing until it is met. */
        bool is_limit =
            p < law->info.param_count && strcmp(law->info.params[p].name, "memory_mib") == 0;
        void *data = law_prepared(law, &setting);
        uint64_t chain = 0;
        for (env.request = 0; env.request < 16; env.request++)
            chain = kvt_chain64(chain, law_whole_hash(law, data, &env));
        law->free(data);
        hashes[p] = is_limit ? (uint64_t)p : chain;
    }
    for (size_t p = 0; p < law->info.param_count; p++)
        ck_assert_msg(hashes[p] != hashes[law->info.param_count], "%s.%s changes nothing",
                      law->info.name, law->info.params[p].name);
}
END_TEST

START_TEST(failed_allocations_fail_cleanly)
{
    if (!support_can_fail_allocations())
        return;
    const struct kvt_law *law = laws[_i];
    struct law_setting setting;
    law_setting_init(&setting, law, 8);
    law_setting_set(&setting, law, "tapes", 2);
    static const uint32_t contexts[] = {100};
    setting.env.context_rows = contexts;
    setting.env.context_count = 1;
    struct kvt_error err;
    uint64_t failures = 0;
    for (bool is_done = false; !is_done; failures++) {
        void *data = NULL;
        support_fail_allocation(failures);
        kvt_status status = law->prepare(&setting.env, &data, &err);
        is_done = !support_allocation_failed();
        ck_assert_int_eq(status, is_done ? KVT_OK : KVT_ERR_NOMEM);
        ck_assert(is_done == (data != NULL));
        law->free(data);
    }
    ck_assert_uint_ge(failures, 3);

    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(1, 0, 400, 520);
    void *expected_data = law_prepared(law, &setting);
    uint64_t expected = law_whole_hash(law, expected_data, &env);
    law->free(expected_data);
    void *stream = calloc(1, law->stream_bytes(data, &env));
    ck_assert_ptr_nonnull(stream);
    for (uint64_t nth = 0;; nth++) {
        support_fail_allocation(nth);
        kvt_status status = law->stream_init(data, stream, &env, &err);
        bool has_failed = support_allocation_failed();
        ck_assert_int_eq(status, has_failed ? KVT_ERR_NOMEM : KVT_OK);
        if (!has_failed)
            break;
    }
    ck_assert_uint_eq(law_selections_hash(law, data, stream, 400, 520), expected);
    free(stream);
    law->free(data);
}
END_TEST

static TCase *contract_cases(void)
{
    TCase *contract = tcase_create("contract");
    tcase_set_timeout(contract, 60);
    tcase_add_loop_test(contract, a_selection_is_ascending_distinct_visible_and_complete, 0,
                        LAWS * (int)(sizeof histories / sizeof histories[0]));
    tcase_add_loop_test(contract, equal_seeds_select_equally_and_everything_else_differs, 0, LAWS);
    tcase_add_loop_test(contract, a_copied_stream_goes_on_as_the_original, 0, LAWS);
    tcase_add_loop_test(contract, a_stream_does_not_notice_the_others, 0, LAWS);
    tcase_add_loop_test(contract, threads_and_preparing_change_no_selection, 0, LAWS);
    tcase_add_loop_test(contract, selections_are_the_same_on_every_machine, 0, LAWS);
    tcase_add_loop_test(contract, what_no_law_can_do_is_refused, 0, LAWS);
    tcase_add_loop_test(contract, shares_that_make_up_everything_leave_no_white_noise, 0, LAWS);
    tcase_add_loop_test(contract, every_parameter_changes_what_is_selected, 0, LAWS);
    tcase_add_loop_test(contract, failed_allocations_fail_cleanly, 0, LAWS);
    return contract;
}

int main(void)
{
    Suite *suite = suite_create("law");
    suite_add_tcase(suite, contract_cases());

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
