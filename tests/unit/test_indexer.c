/* test_indexer.c -- the law "indexer" passes on what a source selects, and has nothing of its own.
 */
#include <stdlib.h>

#include <check.h>

#include "support/law_setting.h"

extern const struct kvt_law kvt_law_indexer;

enum {
    TOP_K = 8,
    ROWS = 300,
    WORDS = (ROWS + 63) / 64
};

/* Row 3 + 30 * query + i, and what was asked for. */
struct source {
    uint32_t request, selector, reads;
    uint32_t stray; /* a row that no query can see, in place of the last; 0: none */
};

static uint32_t read_rows(void *context, uint32_t request, uint32_t selector, uint32_t query,
                          uint32_t *rows)
{
    struct source *source = context;

    ck_assert_uint_eq(request, source->request);
    ck_assert_uint_eq(selector, source->selector);
    source->reads++;
    for (uint32_t i = 0; i < TOP_K; i++)
        rows[i] = 3 + 30 * query + i;
    if (source->stray > 0)
        rows[TOP_K - 1] = source->stray;
    return TOP_K;
}

static void select_both(struct source *from, uint64_t sets[2][WORDS])
{
    struct kvt_law_source source = {.context = from, .read = read_rows};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_indexer, TOP_K);
    setting.env.source = &source;
    void *law = law_prepared(&kvt_law_indexer, &setting);
    struct kvt_law_stream_env env = law_stream_env(from->request, from->selector, 200, ROWS);
    void *stream = law_stream_new(&kvt_law_indexer, law, &env);
    const struct kvt_law_query queries[] = {{.depth = 0}, {.depth = 1, .path = 1, .fork = 1}};
    const uint32_t visible[] = {ROWS - 1, ROWS};
    const struct kvt_law_round round = {
        .queries = queries, .query_count = 2, .committed_tokens = 1, .visible_rows = visible};
    uint64_t *const places[] = {sets[0], sets[1]};

    for (int q = 0; q < 2; q++) {
        for (int w = 0; w < WORDS; w++)
            sets[q][w] = UINT64_MAX; /* all of it is written */
    }
    kvt_law_indexer.select(law, stream, &round, places);
    free(stream);
    kvt_law_indexer.free(law);
}

START_TEST(each_query_gets_the_rows_that_the_source_read_for_it)
{
    struct source from = {.request = 7, .selector = 2};
    uint64_t sets[2][WORDS];

    select_both(&from, sets);
    ck_assert_uint_eq(from.reads, 2);
    for (uint32_t q = 0; q < 2; q++) {
        ck_assert_uint_eq(kvt_row_set_count(sets[q], WORDS), TOP_K);
        for (uint32_t i = 0; i < TOP_K; i++)
            ck_assert(kvt_row_is_in(sets[q], 3 + 30 * q + i));
    }
}
END_TEST

START_TEST(a_row_that_nobody_can_see_is_left_out_and_overruns_nothing)
{
    struct source from = {.request = 7, .selector = 2, .stray = 5000};
    uint64_t sets[2][WORDS];

    select_both(&from, sets);
    ck_assert_uint_eq(kvt_row_set_count(sets[0], WORDS), TOP_K - 1);
    ck_assert_uint_eq(kvt_row_set_count(sets[1], WORDS), TOP_K - 1);
}
END_TEST

START_TEST(where_nobody_looks_nothing_is_read)
{
    struct source from = {.request = 1, .selector = 1};
    struct kvt_law_source source = {.context = &from, .read = read_rows};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_indexer, TOP_K);
    setting.env.source = &source;
    void *law = law_prepared(&kvt_law_indexer, &setting);
    struct kvt_law_stream_env env = law_stream_env(1, 1, 200, ROWS);
    void *stream = law_stream_new(&kvt_law_indexer, law, &env);
    const struct kvt_law_query query = {.depth = 0};
    const uint32_t visible = 200;
    const struct kvt_law_round round = {
        .queries = &query, .query_count = 1, .committed_tokens = 1, .visible_rows = &visible};

    kvt_law_indexer.select(law, stream, &round, NULL);
    ck_assert_uint_eq(from.reads, 0);
    free(stream);
    kvt_law_indexer.free(law);
}
END_TEST

START_TEST(without_a_source_it_is_refused_with_the_cure)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_indexer, TOP_K);
    law_check_refused(&kvt_law_indexer, &setting, KVT_ERR_INVALID,
                      "selection.law \"indexer\" needs --backend cuda");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("indexer");
    TCase *tests = tcase_create("indexer");

    tcase_add_test(tests, each_query_gets_the_rows_that_the_source_read_for_it);
    tcase_add_test(tests, a_row_that_nobody_can_see_is_left_out_and_overruns_nothing);
    tcase_add_test(tests, where_nobody_looks_nothing_is_read);
    tcase_add_test(tests, without_a_source_it_is_refused_with_the_cure);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
