/* test_score_pages.c -- scores of pages: those by which the rows were selected. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/law_setting.h"

extern const struct kvt_law kvt_law_score;

enum {
    CONTEXT = 3000,
    TOKENS = 40,
    ROWS = CONTEXT + TOKENS,
    TOP_K = 96,
    PRESETS = 3
};

static uint64_t blocks[4][(ROWS + 63) / 64 + 1];
static uint64_t *const sets[] = {blocks[0], blocks[1], blocks[2], blocks[3]};

static struct law_setting setting;
static void *law;

static void prepare(int preset)
{
    memset(blocks, 0, sizeof blocks);
    law_setting_init(&setting, &kvt_law_score, TOP_K);
    law_setting_set(&setting, &kvt_law_score, "preset", preset);
    setting.env.side_paths = 1;
    setting.env.side_tokens = 3;
    law = law_prepared(&kvt_law_score, &setting);
}

static void *new_stream(uint32_t request)
{
    struct kvt_law_stream_env env = law_stream_env(request, 0, CONTEXT, ROWS);
    return law_stream_new(&kvt_law_score, law, &env);
}

/* Two committed tokens, and two drafts that part behind the first. */
static void select_round(void *stream, uint32_t visible, uint64_t *const *into)
{
    static const struct kvt_law_query queries[] = {{.depth = 0},
                                                   {.depth = 1},
                                                   {.depth = 1, .path = 1, .fork = 1},
                                                   {.depth = 2, .path = 1, .fork = 1}};
    const uint32_t visible_rows[] = {visible, visible + 1, visible + 2};
    const struct kvt_law_round round = {
        .queries = queries, .query_count = 4, .committed_tokens = 2, .visible_rows = visible_rows};
    kvt_law_score.select(law, stream, &round, into);
}

static float scores[ROWS + 1];

START_TEST(the_best_rows_by_score_are_those_selected_by_the_newest_committed_query)
{
    prepare(_i);
    void *stream = new_stream(7);

    for (uint32_t visible = CONTEXT; visible + 2 < ROWS; visible += 2) {
        select_round(stream, visible, sets);
        scores[visible + 1] = 1234.5F;
        kvt_law_score.page_scores(law, stream, visible + 1, 1, scores);
        float worst = FLT_MAX, best = -FLT_MAX;
        for (uint32_t row = 0; row < visible + 1; row++) {
            if (kvt_row_is_in(blocks[1], row))
                worst = scores[row] < worst ? scores[row] : worst;
            else
                best = scores[row] > best ? scores[row] : best;
        }
        ck_assert_double_gt((double)worst, (double)best - 1e-12);
        ck_assert_double_lt((double)best, 10);
        ck_assert_uint_eq(kvt_row_set_count(blocks[1], (visible + 64) / 64), TOP_K);
        ck_assert(scores[visible + 1] > 1234); /* nobody's */
    }
    free(stream);
    kvt_law_score.free(law);
}
END_TEST

START_TEST(a_page_has_the_largest_score_of_its_rows)
{
    static float pages[ROWS];

    prepare(_i);
    void *stream = new_stream(3);
    select_round(stream, CONTEXT, sets);
    kvt_law_score.page_scores(law, stream, CONTEXT + 1, 1, scores);
    for (uint32_t rows_per_page = 2; rows_per_page <= 64; rows_per_page *= 2) {
        kvt_law_score.page_scores(law, stream, CONTEXT + 1, rows_per_page, pages);
        for (uint32_t first = 0; first < CONTEXT + 1; first += rows_per_page) {
            float largest = scores[first];
            for (uint32_t row = first; row < first + rows_per_page && row < CONTEXT + 1; row++)
                largest = scores[row] > largest ? scores[row] : largest;
            ck_assert_mem_eq(&pages[first / rows_per_page], &largest, sizeof largest);
        }
    }
    if (_i == 2) /* of the preset with sinks */
        ck_assert(scores[0] >= FLT_MAX);
    free(stream);
    kvt_law_score.free(law);
}
END_TEST

START_TEST(asking_changes_nothing_of_what_is_selected)
{
    prepare(_i);
    void *asked = new_stream(1), *left_alone = new_stream(1);
    uint64_t other_blocks[4][(ROWS + 63) / 64 + 1] = {0};
    uint64_t *const others[] = {other_blocks[0], other_blocks[1], other_blocks[2], other_blocks[3]};

    for (uint32_t visible = CONTEXT; visible + 2 < ROWS; visible += 2) {
        select_round(asked, visible, sets);
        select_round(left_alone, visible, others);
        ck_assert_mem_eq(blocks, other_blocks, sizeof blocks);
        kvt_law_score.page_scores(law, asked, visible + 1, 64, scores);
    }
    free(asked);
    free(left_alone);
    kvt_law_score.free(law);
}
END_TEST

START_TEST(rows_have_scores_while_all_of_them_are_selected)
{
    prepare(_i);
    struct kvt_law_stream_env env = law_stream_env(5, 0, 50, 80);
    void *stream = law_stream_new(&kvt_law_score, law, &env);

    select_round(stream, 50, sets);
    for (uint32_t row = 0; row < 52; row++)
        scores[row] = 1234.5F;
    kvt_law_score.page_scores(law, stream, 51, 1, scores);
    for (uint32_t row = 0; row < 51; row++)
        ck_assert(scores[row] < 20 || scores[row] >= FLT_MAX);
    ck_assert(scores[51] > 1234);
    free(stream);
    kvt_law_score.free(law);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score pages");
    TCase *tcase = tcase_create("score pages");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(
        tcase, the_best_rows_by_score_are_those_selected_by_the_newest_committed_query, 0, PRESETS);
    tcase_add_loop_test(tcase, a_page_has_the_largest_score_of_its_rows, 0, PRESETS);
    tcase_add_loop_test(tcase, asking_changes_nothing_of_what_is_selected, 0, PRESETS);
    tcase_add_loop_test(tcase, rows_have_scores_while_all_of_them_are_selected, 0, PRESETS);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
