/* test_law_rounds.c -- what every law answers to a round of several queries. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_setting.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

static const struct kvt_law *const laws[] = {&kvt_law_score, &kvt_law_tape};
enum {
    LAWS = sizeof laws / sizeof laws[0]
};

enum {
    TOP_K = 32,
    CONTEXT = 700,
    DEPTHS = 8,
    WORDS = (CONTEXT + 200) / 64 + 2
};

/* A stream that is asked by rounds, one row a token. */
struct asked {
    const struct kvt_law *law;
    void *data, *stream;
    size_t stream_bytes;
    uint32_t visible;                 /* at depth 0 of the next round */
    uint64_t sets[2 * DEPTHS][WORDS]; /* answers to the last */
};

static struct asked *asked_new(const struct kvt_law *law)
{
    struct law_setting setting;
    law_setting_init(&setting, law, TOP_K);
    setting.env.side_paths = 2;
    setting.env.side_tokens = DEPTHS - 1;
    struct asked *asked = calloc(1, sizeof *asked);
    ck_assert_ptr_nonnull(asked);
    struct kvt_law_stream_env env = law_stream_env(9, 1, CONTEXT, CONTEXT + 190);
    asked->law = law;
    asked->data = law_prepared(law, &setting);
    asked->stream = law_stream_new(law, asked->data, &env);
    asked->stream_bytes = law->stream_bytes(asked->data, &env);
    asked->visible = CONTEXT;
    return asked;
}

static void asked_free(struct asked *asked)
{
    free(asked->stream);
    asked->law->free(asked->data);
    free(asked);
}

/* Queries are answered into sets in their order; nobody looks where `looks` is false. */
static void ask(struct asked *asked, const struct kvt_law_query *queries, uint32_t query_count,
                uint32_t committed, bool looks)
{
    uint32_t visible[DEPTHS];
    for (uint32_t d = 0; d < DEPTHS; d++)
        visible[d] = asked->visible + d;
    uint64_t *sets[2 * DEPTHS];
    memset(asked->sets, 0xa5, sizeof asked->sets);
    for (uint32_t q = 0; q < query_count; q++)
        sets[q] = asked->sets[q];
    struct kvt_law_round round = {.queries = queries,
                                  .query_count = query_count,
                                  .committed_tokens = committed,
                                  .visible_rows = visible};
    asked->law->select(asked->data, asked->stream, &round, looks ? sets : NULL);
    asked->visible += committed;
}

static const struct kvt_law_query anchor = {.depth = 0};

/* Rows that two answers of WORDS words have in common. */
static uint32_t common_rows(const uint64_t *a, const uint64_t *b, uint32_t visible)
{
    uint32_t common = 0;
    for (size_t w = 0; w < kvt_row_words(visible); w++)
        common += (uint32_t)__builtin_popcountll(a[w] & b[w]);
    return common;
}

/* What a stream that is asked token by token selects at each of count tokens. */
static void walk(struct asked *asked, uint32_t count, uint64_t (*sets)[WORDS])
{
    for (uint32_t t = 0; t < count; t++) {
        ask(asked, &anchor, 1, 1, true);
        memset(sets[t], 0, sizeof sets[t]);
        memcpy(sets[t], asked->sets[0], kvt_row_words(asked->visible - 1) * sizeof(uint64_t));
    }
}

START_TEST(a_round_answers_path_0_as_its_tokens_one_by_one)
{
    static uint64_t expected[3 * DEPTHS][WORDS];
    struct asked *single = asked_new(laws[_i]), *asked = asked_new(laws[_i]);
    walk(single, 3 * DEPTHS, expected);
    struct kvt_law_query chain[DEPTHS];
    for (uint32_t d = 0; d < DEPTHS; d++)
        chain[d] = (struct kvt_law_query){.depth = d};
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t deepest = asked->visible + DEPTHS - 1;
        ask(asked, chain, DEPTHS, DEPTHS, true);
        for (uint32_t d = 0; d < DEPTHS; d++)
            ck_assert_mem_eq(asked->sets[d], expected[DEPTHS * round + d],
                             kvt_row_words(deepest) * sizeof(uint64_t));
    }
    asked_free(single);
    asked_free(asked);
}
END_TEST

/* Two committed, six rejected on path 1, and four on path 2 that part earlier. */
static const struct kvt_law_query forked[] = {
    {.depth = 0},
    {.depth = 1},
    {.depth = 1, .path = 2, .fork = 1},
    {.depth = 2, .path = 1, .fork = 2},
    {.depth = 2, .path = 2, .fork = 1},
    {.depth = 3, .path = 1, .fork = 2},
    {.depth = 4, .path = 1, .fork = 2},
    {.depth = 4, .path = 2, .fork = 1},
    {.depth = 7, .path = 1, .fork = 2},
    {.depth = 7, .path = 2, .fork = 1},
};
enum {
    FORKED = sizeof forked / sizeof forked[0]
};

START_TEST(rejected_paths_change_nothing_for_what_comes_after)
{
    static uint64_t expected[40][WORDS];
    struct asked *single = asked_new(laws[_i]), *asked = asked_new(laws[_i]);
    walk(single, 40, expected);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t visible = asked->visible;
        ask(asked, forked, FORKED, 2, true);
        ck_assert_mem_eq(asked->sets[0], expected[2 * round],
                         kvt_row_words(visible) * sizeof(uint64_t));
        ck_assert_mem_eq(asked->sets[1], expected[2 * round + 1],
                         kvt_row_words(visible + 1) * sizeof(uint64_t));
    }
    asked_free(single);
    asked_free(asked);
}
END_TEST

START_TEST(a_query_is_answered_alike_whatever_else_is_asked)
{
    struct asked *whole = asked_new(laws[_i]), *part = asked_new(laws[_i]);
    for (uint32_t round = 0; round < FORKED; round++) {
        uint32_t visible = whole->visible;
        ask(whole, forked, FORKED, 2, true);
        ask(part, &forked[round], 1, 2, true);
        ck_assert_mem_eq(whole->sets[round], part->sets[0],
                         kvt_row_words(visible + forked[round].depth) * sizeof(uint64_t));
    }
    asked_free(whole);
    asked_free(part);
}
END_TEST

START_TEST(an_answer_fills_the_words_of_the_deepest_query_and_no_others)
{
    struct asked *asked = asked_new(laws[_i]);
    for (uint32_t round = 0; round < 40; round++) {
        size_t words = kvt_row_words(asked->visible + 7);
        uint32_t first = asked->visible;
        ask(asked, forked, FORKED, 2, true);
        for (size_t q = 0; q < FORKED; q++) {
            ck_assert_uint_eq(kvt_row_set_count(asked->sets[q], words), TOP_K);
            ck_assert_uint_eq(asked->sets[q][words], UINT64_C(0xa5a5a5a5a5a5a5a5));
            for (uint32_t row = first + forked[q].depth; row < 64 * words; row++)
                ck_assert(!kvt_row_is_in(asked->sets[q], row));
        }
    }
    asked_free(asked);
}
END_TEST

/* A rejected draft starts where path 0 was. It is as near to the token before as path 0 is, and
 * from path 0's own next token as far as two tokens are from each other. */
START_TEST(a_rejected_path_goes_its_own_way_from_where_path_0_was)
{
    enum {
        ROUNDS = 150
    };
    static const struct kvt_law_query queries[] = {
        {.depth = 0}, {.depth = 1, .path = 1, .fork = 1}, {.depth = 7, .path = 1, .fork = 1}};
    static uint64_t anchors[ROUNDS][WORDS], drafts[ROUNDS][WORDS];
    struct asked *asked = asked_new(laws[_i]);
    double near = 0, apart = 0, far = 0, lag_1 = 0, lag_2 = 0, lag_7 = 0;
    uint32_t same = 0;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        uint32_t visible = asked->visible;
        ask(asked, queries, 3, 1, true);
        memcpy(anchors[r], asked->sets[0], sizeof anchors[r]);
        memcpy(drafts[r], asked->sets[1], sizeof drafts[r]);
        near += common_rows(anchors[r], asked->sets[1], visible);
        far += common_rows(anchors[r], asked->sets[2], visible);
        if (r < 7)
            continue;
        apart += common_rows(anchors[r], drafts[r - 1], visible);
        lag_1 += common_rows(anchors[r], anchors[r - 1], visible - 1);
        lag_2 += common_rows(anchors[r], anchors[r - 2], visible - 2);
        lag_7 += common_rows(anchors[r], anchors[r - 7], visible - 7);
        same += memcmp(anchors[r], drafts[r - 1], kvt_row_words(visible) * sizeof(uint64_t)) == 0;
    }
    ck_assert_uint_lt(same, 3);
    ck_assert_double_eq_tol(near / ROUNDS, lag_1 / (ROUNDS - 7), .03 * TOP_K);
    ck_assert_double_eq_tol(apart / (ROUNDS - 7), lag_2 / (ROUNDS - 7), .03 * TOP_K);
    ck_assert_double_eq_tol(far / ROUNDS, lag_7 / (ROUNDS - 7), .05 * TOP_K);
    asked_free(asked);
}
END_TEST

/* The same depth of the same path, asked for in one round and again in the next. */
START_TEST(no_round_sees_the_chances_of_another)
{
    static const struct kvt_law_query first[] = {{.depth = 0}, {.depth = 2, .path = 1, .fork = 1}};
    static const struct kvt_law_query second[] = {{.depth = 0}, {.depth = 1, .path = 1, .fork = 1}};
    struct asked *asked = asked_new(laws[_i]);
    uint32_t same = 0;
    for (uint32_t round = 0; round < 50; round++) {
        uint64_t draft[WORDS];
        size_t bytes = kvt_row_words(asked->visible + 2) * sizeof *draft;
        ask(asked, first, 2, 1, true);
        memcpy(draft, asked->sets[1], sizeof draft);
        ask(asked, second, 2, 1, true);
        same += memcmp(draft, asked->sets[1], bytes) == 0;
    }
    ck_assert_uint_lt(same, 2);
    asked_free(asked);
}
END_TEST

START_TEST(a_stream_that_nobody_looks_at_moves_on_alike)
{
    struct asked *seen = asked_new(laws[_i]), *unseen = asked_new(laws[_i]);
    for (uint32_t round = 0; round < 6; round++) {
        ask(seen, forked, FORKED, 2, true);
        ask(unseen, forked, FORKED, 2, false);
    }
    size_t bytes = kvt_row_words(seen->visible) * sizeof(uint64_t);
    ask(seen, &anchor, 1, 1, true);
    ask(unseen, &anchor, 1, 1, true);
    ck_assert_mem_eq(seen->sets[0], unseen->sets[0], bytes);
    asked_free(seen);
    asked_free(unseen);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("law_rounds");
    TCase *rounds = tcase_create("rounds");
    tcase_set_timeout(rounds, 60);
    tcase_add_loop_test(rounds, a_round_answers_path_0_as_its_tokens_one_by_one, 0, LAWS);
    tcase_add_loop_test(rounds, rejected_paths_change_nothing_for_what_comes_after, 0, LAWS);
    tcase_add_loop_test(rounds, a_query_is_answered_alike_whatever_else_is_asked, 0, LAWS);
    tcase_add_loop_test(rounds, an_answer_fills_the_words_of_the_deepest_query_and_no_others, 0,
                        LAWS);
    tcase_add_loop_test(rounds, a_rejected_path_goes_its_own_way_from_where_path_0_was, 0, LAWS);
    tcase_add_loop_test(rounds, no_round_sees_the_chances_of_another, 0, LAWS);
    tcase_add_loop_test(rounds, a_stream_that_nobody_looks_at_moves_on_alike, 0, LAWS);
    suite_add_tcase(suite, rounds);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
