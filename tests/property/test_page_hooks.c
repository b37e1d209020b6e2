/* test_page_hooks.c -- what a residency policy is shown of its requests' pages, against hits
 * reckoned row by row from a diary of the run's selections. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/diary.h"
#include "support/small_run.h"

/* DeepSeek-V4.1-Flash in small: four stores of ratios 2, 2, 2, 1 under eight selectors. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"pages\", \"seed\": 11, "                      \
    "\"model\": {\"base\": \"deepseek-v4.1-flash\", \"top_k\": 64, "                               \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1}, \"hardware\": \"b300\", "          \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"pools\": {\"unified_gib\": 0.05}}, "                \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 256}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 4, \"requests\": 6, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 600}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 150}}}, "                                        \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

enum {
    REQUESTS_MAX = 16,
    PAGES_MAX = 32
};

/* ---- Hits, row by row ------------------------------------------------------------------- */

static struct {
    uint32_t hits[REQUESTS_MAX][PAGES_MAX];
    uint32_t rounds[REQUESTS_MAX]; /* of the request that are in the diary, wholly or in part */
    uint32_t of_selector[REQUESTS_MAX][KVT_SELECTORS_MAX];
    size_t read; /* entries of the diary */
} book;

static void book_row(uint32_t request, uint32_t page)
{
    if (page >= PAGES_MAX) /* Check notes every assertion in a file: only a failure is one */
        ck_abort_msg("page %u of a request", page);
    if (book.hits[request][page] < 65535)
        book.hits[request][page]++;
}

static void book_entry(const struct kvt_llm *llm, const struct diary_entry *entry)
{
    uint32_t request = entry->request;
    uint32_t ratio = llm->stores[llm->selectors[entry->selector].store].compress_ratio;

    if (++book.of_selector[request][entry->selector] > book.rounds[request]) {
        if (book.rounds[request] % 64 == 0) {
            for (uint32_t page = 0; page < PAGES_MAX; page++)
                book.hits[request][page] /= 2;
        }
        book.rounds[request]++;
    }
    for (uint32_t query = 0; query < entry->query_count; query++) {
        for (uint32_t row = 0; row < entry->visible_rows; row++) {
            if (kvt_row_is_in(diary_set(entry, query), row))
                book_row(request, row * ratio / 64);
        }
    }
}

/* ---- A policy that looks, and does what another does -------------------------------------- */

static struct kvt_residency_policy spy;
static const struct kvt_residency_policy *inner;
static const struct kvt_llm *llm;
static uint32_t boundaries, compared, scored, odd, largest;

static void look_at_hits(const struct kvt_residency_request *request)
{
    for (uint32_t page = 0; page < request->page_count; page++) {
        uint32_t hits = request->page_hits[page];
        if (hits != book.hits[request->id][page])
            ck_abort_msg("request %u after %u rounds, page %u: %u hits, %u in the diary",
                         request->id, book.rounds[request->id], page, hits,
                         book.hits[request->id][page]);
        largest = hits > largest ? hits : largest;
        compared++;
    }
}

static void look_at_scores(const struct kvt_residency_request *request)
{
    for (uint32_t page = 0; page < request->page_count; page++) {
        float score = request->page_scores[page];
        if (book.rounds[request->id] == 0)
            odd += score < 0 || score > 0;
        else if (page + 1 < request->page_count)
            odd += isfinite(score) ? 0 : 1;
        else
            odd += isnan(score) || score > 20;
        scored += score < 0 || score > 0;
    }
}

static uint32_t spy_boundary(void *state, const struct kvt_residency_view *view,
                             struct kvt_residency_action *actions, uint32_t capacity)
{
    boundaries++;
    while (book.read < diary.count)
        book_entry(llm, &diary.entries[book.read++]);
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        if (spy.wants_page_hits)
            look_at_hits(request);
        else
            ck_assert_ptr_null(request->page_hits);
        if (spy.wants_page_scores)
            look_at_scores(request);
        else
            ck_assert_ptr_null(request->page_scores);
    }
    return inner->boundary ? inner->boundary(state, view, actions, capacity) : 0;
}

static void run(const char *const *sets, bool hits, bool scores, struct small_run *small)
{
    small_run_parse(small, SCENARIO, sets);
    inner = (const struct kvt_residency_policy *)(const void *)small->scenario.residency.info;
    spy = *inner;
    spy.wants_page_hits = hits;
    spy.wants_page_scores = scores;
    spy.boundary = spy_boundary;
    small->scenario.residency.info = &spy.info;
    llm = small->scenario.llm;
    memset(&book, 0, sizeof book);
    boundaries = compared = scored = odd = largest = 0;
    diary_open(&small->scenario);
    small_run_start(small, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

static void close_run(struct small_run *small)
{
    small_run_close(small);
    diary_close();
}

/* ---- Cases ------------------------------------------------------------------------------------
 */

/* Whole requests, some demoted, and requests put aside among them. */
static const struct {
    const char *sets[9];
    bool puts_aside;
} cases[] = {
    {{NULL}, false},
    {{"residency=hisparse", "speculation.method=self-sparse", "speculation.drafts=3",
      "cluster.decode.speculation_workspace_gib=0", NULL},
     false},
    {{"speculation.method=medusa", "speculation.retrieval=each_query",
      "cluster.decode.speculation_workspace_gib=0", NULL},
     false},
    {{"residency=vllm-hybrid", "cluster.decode.pools.unified_gib=0.001", NULL}, false},
    {{"residency=sglang-demote", "cluster.decode.pools.unified_gib=0.001", NULL}, false},
    {{"residency=adaptive", "cluster.decode.gpus=1", "cluster.decode.pools.unified_gib=0.001",
      "cluster.decode.growth_reserve_gib=0", "workload.concurrency=5", "workload.requests=5",
      "workload.lengths.input.tokens=300", "workload.lengths.output.tokens=400", NULL},
     true},
};
enum {
    CASES = sizeof cases / sizeof cases[0]
};

START_TEST(hits_are_the_selections_of_all_calls_by_page)
{
    struct small_run small;

    run(cases[_i].sets, true, false, &small);
    ck_assert_uint_gt(boundaries, 100);
    ck_assert_uint_gt(compared, 1000);
    ck_assert_uint_gt(largest, 100);
    if (cases[_i].puts_aside)
        ck_assert_uint_gt(small.run->total.preemptions, 0);
    close_run(&small);
}
END_TEST

START_TEST(scores_come_with_the_law_that_has_them)
{
    struct small_run small;

    run(cases[_i].sets, true, true, &small);
    ck_assert_uint_gt(scored, 1000);
    ck_assert_uint_eq(odd, 0);
    close_run(&small);
}
END_TEST

START_TEST(a_policy_is_shown_nothing_that_it_did_not_ask_for_and_nothing_else_changes)
{
    struct small_run small;

    run(cases[_i].sets, false, false, &small);
    ck_assert_uint_gt(boundaries, 100);
    uint64_t unasked = small.run->decision_hash;
    char *text = small_run_result_text(&small);
    close_run(&small);
    run(cases[_i].sets, true, true, &small);
    ck_assert_uint_eq(small.run->decision_hash, unasked);
    char *other = small_run_result_text(&small);
    ck_assert_str_eq(text, other);
    free(text);
    free(other);
    close_run(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page hooks");
    TCase *tcase = tcase_create("page hooks");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(tcase, hits_are_the_selections_of_all_calls_by_page, 0, CASES);
    tcase_add_loop_test(tcase, scores_come_with_the_law_that_has_them, 0, CASES);
    tcase_add_loop_test(tcase,
                        a_policy_is_shown_nothing_that_it_did_not_ask_for_and_nothing_else_changes,
                        0, CASES);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
