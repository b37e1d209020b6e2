/* test_recorded.c -- the law that reads a file of selections, and what it refuses. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/kvsel.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_recorded;

static const struct kvt_law *const law = &kvt_law_recorded;

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "a.kvsel", path);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

enum {
    TOP_K = 4,
    FIRST_ROWS = 100,
    TOKENS = 300,
    SELECTORS = 2,
    WORDS = 16,
};

/* Each selection says where it comes from: row 0 and the newest one, and two that number its
 * token, or its place after it. */
static void draw(uint32_t request, uint32_t selector, uint32_t token, uint32_t side,
                 uint32_t visible, uint64_t set[WORDS])
{
    uint64_t word = kvt_chain64(kvt_chain64((uint64_t)request << 32 | selector, token), side);
    uint32_t a = 1 + (uint32_t)(word % (visible - 2)), b = 1 + (a + 36) % (visible - 2);
    uint32_t rows[TOP_K] = {0, a, b == a ? 1 + a % (visible - 2) : b, visible - 1};
    memset(set, 0, WORDS * sizeof *set);
    kvt_row_set_add(set, rows, TOP_K);
}

static void write_file(uint32_t requests, uint32_t side_tokens, uint32_t first_rows)
{
    struct kvt_kvsel_shape shape = {.top_k = TOP_K,
                                    .first_rows = first_rows,
                                    .tokens_per_row = 1,
                                    .side_paths = side_tokens > 0,
                                    .side_tokens = side_tokens};
    struct kvt_kvsel_header header = {.top_k = TOP_K,
                                      .side_paths = shape.side_paths,
                                      .side_tokens = side_tokens,
                                      .request_count = requests,
                                      .selector_count = SELECTORS};
    struct kvt_kvsel_shape *shapes = calloc((size_t)requests * SELECTORS, sizeof *shapes);
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shape);
    ck_assert(shapes != NULL && coder != NULL);
    for (uint32_t s = 0; s < requests * SELECTORS; s++)
        shapes[s] = shape;
    struct kvt_kvsel_writer *writer = NULL;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, shapes, &writer, NULL), KVT_OK);
    for (uint32_t s = 0; s < requests * SELECTORS; s++) {
        for (uint32_t first = 0; first < TOKENS; first += 64) {
            uint32_t count = TOKENS - first < 64 ? TOKENS - first : 64;
            ck_assert_int_eq(kvt_kvsel_coder_begin(coder, s, first, count, NULL), KVT_OK);
            for (uint32_t t = first; t < first + count; t++) {
                uint64_t sets[2][WORDS];
                uint32_t visible = kvt_kvsel_visible(&shape, t);
                draw(s / SELECTORS, s % SELECTORS, t, 0, visible, sets[0]);
                ck_assert_int_eq(kvt_kvsel_coder_add(coder, sets[0], NULL, WORDS, NULL), KVT_OK);
                for (uint32_t i = 1; i <= side_tokens; i++) {
                    draw(s / SELECTORS, s % SELECTORS, t, i, visible + i, sets[i % 2]);
                    ck_assert_int_eq(
                        kvt_kvsel_coder_add(coder, sets[i % 2], sets[(i + 1) % 2], WORDS, NULL),
                        KVT_OK);
                }
            }
            unsigned char *block = NULL;
            ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
            ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
            free(block);
        }
    }
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
    kvt_kvsel_coder_free(coder);
    free(shapes);
}

static void setting_init(struct law_setting *setting, uint32_t side_tokens)
{
    memset(setting, 0, sizeof *setting);
    setting->values[0].text = path;
    setting->env.params =
        (struct kvt_params){.values = setting->values, .count = law->info.param_count};
    setting->env.top_k = TOP_K;
    setting->env.stream_count = 2 * SELECTORS;
    setting->env.side_paths = side_tokens > 0;
    setting->env.side_tokens = side_tokens;
    setting->env.run_seed = 5;
}

enum {
    FOLLOWED = 4 /* selections that tell where a stream began */
};

/* True when the selections of a stream that began with so many rows are those of the recorded
 * tokens from `token` on, as the law says that rows lie. */
static bool is_start(uint64_t sets[FOLLOWED][WORDS], uint32_t rows, uint32_t request,
                     uint32_t selector, uint32_t token)
{
    for (uint32_t i = 0; i < FOLLOWED; i++) {
        uint64_t expected[WORDS], moved[WORDS] = {0};
        uint32_t visible = FIRST_ROWS + token + i;
        draw(request, selector, token + i, 0, visible, expected);
        for (uint32_t row = 0; row < visible; row++) {
            uint32_t to = row < 64 ? row : row + rows - (FIRST_ROWS + token);
            if (kvt_row_is_in(expected, row))
                kvt_row_set_add(moved, &to, 1);
        }
        if (memcmp(moved, sets[i], sizeof moved) != 0)
            return false;
    }
    return true;
}

static bool find_start(uint64_t sets[FOLLOWED][WORDS], uint32_t selector, uint32_t requests,
                       uint32_t rows, uint32_t *request, uint32_t *token)
{
    for (*request = 0; *request < requests; ++*request) {
        for (*token = 0; FIRST_ROWS + *token <= rows; ++*token) {
            if (is_start(sets, rows, *request, selector, *token))
                return true;
        }
    }
    return false;
}

START_TEST(streams_of_a_request_read_its_recording_from_one_token_on)
{
    enum {
        REQUESTS = 3,
        ROWS = 200
    };
    write_file(REQUESTS, 0, FIRST_ROWS);
    struct law_setting setting;
    setting_init(&setting, 0);
    void *data = law_prepared(law, &setting);
    bool seen[REQUESTS] = {false};
    uint32_t starts[30];
    for (uint32_t r = 0; r < 30; r++) {
        uint32_t recorded = 0, first = 0;
        for (uint32_t s = 0; s < 2 * SELECTORS; s++) {
            struct kvt_law_stream_env env = law_stream_env(r, s, ROWS, ROWS + 300);
            void *stream = law_stream_new(law, data, &env);
            uint64_t sets[FOLLOWED][WORDS] = {{0}};
            for (uint32_t i = 0; i < FOLLOWED; i++) {
                uint32_t rows[TOP_K];
                ck_assert_uint_eq(law_select_one(law, data, stream, ROWS + i, rows), TOP_K);
                kvt_row_set_add(sets[i], rows, TOP_K);
            }
            uint32_t request, token;
            ck_assert(find_start(sets, s % SELECTORS, REQUESTS, ROWS, &request, &token));
            ck_assert(s == 0 || (request == recorded && token == first));
            ck_assert_uint_ge(FIRST_ROWS + token, ROWS - ROWS / 16);
            recorded = request;
            first = token;
            free(stream);
        }
        seen[recorded] = true;
        starts[r] = first;
    }
    ck_assert(seen[0] && seen[1] && seen[2]);
    uint32_t same = 0;
    for (uint32_t r = 1; r < 30; r++)
        same += starts[r] == starts[0];
    ck_assert_uint_le(same, 10);
    char text[200];
    law->describe(data, text, sizeof text);
    ck_assert_str_eq(text, "recorded: 3 requests of 2 selectors, 900 tokens");
    law->free(data);
}
END_TEST

START_TEST(a_recording_turns_at_its_end_and_where_all_rows_are_selected)
{
    /* From three rows on: tokens 0 and 1 select all that is visible, and are never read again. */
    write_file(1, 0, 3);
    struct law_setting setting;
    setting_init(&setting, 0);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, 2, 2000);
    void *stream = law_stream_new(law, data, &env);
    enum {
        READS = 700
    };
    static uint32_t rows[READS][TOP_K];
    for (uint32_t read = 0; read < 3; read++)
        ck_assert_uint_eq(law_select_one(law, data, stream, 2 + read, rows[0]), 2 + read);
    for (uint32_t read = 0; read < READS; read++)
        ck_assert_uint_eq(law_select_one(law, data, stream, 5 + read, rows[read]), TOP_K);
    uint32_t last = TOKENS - 1 - 2; /* tokens from 2 on */
    for (uint32_t read = 0; read < READS; read++) {
        uint32_t place = read % (2 * last);
        ck_assert_mem_eq(rows[read], rows[place <= last ? place : 2 * last - place],
                         sizeof rows[0]);
    }
    free(stream);
    law->free(data);
}
END_TEST

/* A round of three queries, of which one is committed. */
static void ask_round(void *data, void *stream, uint32_t rows, uint64_t sets[3][WORDS])
{
    static const struct kvt_law_query queries[] = {{0, 0, 0}, {1, 1, 1}, {2, 1, 1}};
    uint32_t visible[] = {rows, rows + 1, rows + 2};
    struct kvt_law_round round = {
        .queries = queries, .query_count = 3, .committed_tokens = 1, .visible_rows = visible};
    uint64_t *places[] = {sets[0], sets[1], sets[2]};
    law->select(data, stream, &round, places);
}

START_TEST(rejected_drafts_read_the_branch_that_was_recorded)
{
    write_file(1, 2, FIRST_ROWS);
    struct law_setting setting;
    setting_init(&setting, 2);
    void *data = law_prepared(law, &setting);
    struct kvt_law_stream_env env = law_stream_env(0, 0, FIRST_ROWS, FIRST_ROWS + 500);
    void *stream = law_stream_new(law, data, &env);
    for (uint32_t token = 0; token < 200; token++) {
        uint64_t found[3][WORDS] = {{0}}, expected[WORDS];
        ask_round(data, stream, FIRST_ROWS + token, found);
        for (uint32_t i = 0; i < 3; i++) {
            draw(0, 0, token, i, FIRST_ROWS + token + i, expected);
            ck_assert_mem_eq(found[i], expected,
                             kvt_row_words(FIRST_ROWS + token + 2) * sizeof expected[0]);
        }
    }
    free(stream);
    law->free(data);
}
END_TEST

START_TEST(drafts_without_branches_are_refused_or_read_what_followed)
{
    write_file(1, 0, FIRST_ROWS);
    struct law_setting setting;
    setting_init(&setting, 2);
    law_check_refused(law, &setting, KVT_ERR_UNSUPPORTED, "holds no rejected drafts");
    law_setting_set(&setting, law, "drafts", 1);
    void *data = law_prepared(law, &setting);
    char text[200];
    law->describe(data, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "; rejected drafts read what followed"));
    struct kvt_law_stream_env env = law_stream_env(0, 0, FIRST_ROWS, FIRST_ROWS + 500);
    void *stream = law_stream_new(law, data, &env);
    uint64_t found[3][WORDS] = {{0}}, expected[WORDS];
    ask_round(data, stream, FIRST_ROWS, found);
    for (uint32_t i = 0; i < 3; i++) {
        draw(0, 0, i, 0, FIRST_ROWS + i, expected);
        ck_assert_mem_eq(found[i], expected, 2 * sizeof expected[0]);
    }
    free(stream);
    law->free(data);
}
END_TEST

START_TEST(files_that_do_not_fit_the_model_are_refused)
{
    struct law_setting setting;
    setting_init(&setting, 0);
    void *data = NULL;
    struct kvt_error err;
    ck_assert_int_eq(law->prepare(&setting.env, &data, &err), KVT_ERR_NOT_FOUND);
    ck_assert_str_eq(err.where, path);
    write_file(1, 1, FIRST_ROWS);
    setting.env.top_k = TOP_K + 1;
    law_check_refused(law, &setting, KVT_ERR_INVALID, "selections of 4 rows");
    setting_init(&setting, 2);
    law_check_refused(law, &setting, KVT_ERR_UNSUPPORTED, "1 rejected drafts of 1 tokens");
    setting_init(&setting, 1);
    setting.env.side_paths = 3;
    law_check_refused(law, &setting, KVT_ERR_UNSUPPORTED, "this run has up to 3 of 1");
    ck_assert_ptr_null(data);
}
END_TEST

START_TEST(streams_that_the_recording_does_not_reach_are_refused)
{
    static const struct {
        uint32_t context_rows, rows_max, tokens_per_row;
        const char *says;
    } bad[] = {
        {FIRST_ROWS + TOKENS, 900, 1, "begins selecting with 400 rows"},
        {FIRST_ROWS - 1, 900, 1, "begins selecting with 99 rows"},
        {0, 900, 1, "begins selecting with 5 rows"},
        {200, 900, 2, "gains a row every 2 tokens"},
        {200, 199, 1, "cannot go from 200 rows"},
    };
    write_file(1, 0, FIRST_ROWS);
    struct law_setting setting;
    setting_init(&setting, 0);
    void *data = law_prepared(law, &setting);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kvt_law_stream_env env = law_stream_env(3, 1, bad[i].context_rows, bad[i].rows_max);
        env.tokens_per_row = bad[i].tokens_per_row;
        void *stream = calloc(1, law->stream_bytes(data, &env));
        struct kvt_error err;
        ck_assert_int_eq(law->stream_init(data, stream, &env, &err), KVT_ERR_INVALID);
        ck_assert_msg(strstr(err.message, bad[i].says) != NULL, "%s", err.message);
        free(stream);
    }
    /* One that never sees more rows than it selects needs none. */
    struct kvt_law_stream_env brief = law_stream_env(0, 0, 1, TOP_K);
    ck_assert_uint_ne(law_whole_hash(law, data, &brief), 0);
    law->free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recorded");
    TCase *recorded = tcase_create("recorded");
    tcase_set_timeout(recorded, 60);
    tcase_add_checked_fixture(recorded, folder_make, folder_remove);
    tcase_add_test(recorded, streams_of_a_request_read_its_recording_from_one_token_on);
    tcase_add_test(recorded, a_recording_turns_at_its_end_and_where_all_rows_are_selected);
    tcase_add_test(recorded, rejected_drafts_read_the_branch_that_was_recorded);
    tcase_add_test(recorded, drafts_without_branches_are_refused_or_read_what_followed);
    tcase_add_test(recorded, files_that_do_not_fit_the_model_are_refused);
    tcase_add_test(recorded, streams_that_the_recording_does_not_reach_are_refused);
    suite_add_tcase(suite, recorded);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
