/* test_resolver.c -- the rules of a resolve, each on a context of ten rows, worked out by hand. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/resolver.h"
#include "support/support.h"

extern const struct kvt_replacement_policy kvt_replacement_lru;

enum {
    ROWS = 10,
    NO_TAIL = ROWS,
    SLOTS_MAX = 8,
    QUERIES_MAX = 4,
    NONE = -1
};

static struct kvt_resolver *resolver;
static struct kvt_hot_cache *cache;
static struct kvt_resolve_result result;
static struct kvt_error err;

static void open_resolver(void)
{
    ck_assert_int_eq(kvt_resolver_new(ROWS, SLOTS_MAX, ROWS, &resolver, &err), KVT_OK);
    cache = NULL;
}

static void close_resolver(void)
{
    kvt_hot_cache_free(cache);
    kvt_resolver_free(resolver);
}

static void open_cache(uint32_t slot_count)
{
    struct kvt_replacement_env env = {.slot_count = slot_count, .top_k = 3};
    ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, ROWS, &cache, &err), KVT_OK);
}

/* ---- Selections as text: "1 4 9 | 2 4" is two queries ------------------------ */

struct question {
    uint64_t sets[QUERIES_MAX];
    const uint64_t *selections[QUERIES_MAX];
    struct kvt_resolve_call call;
};

static void ask(struct question *question, uint32_t tail_first_row, const char *text)
{
    uint32_t query = 0;

    memset(question, 0, sizeof *question);
    for (; *text != '\0'; text++) {
        if (*text == '|')
            query++;
        else if (*text != ' ')
            question->sets[query] |= UINT64_C(1) << (*text - '0');
    }
    for (uint32_t i = 0; i < QUERIES_MAX; i++)
        question->selections[i] = &question->sets[i];
    question->call = (struct kvt_resolve_call){.visible_rows = ROWS,
                                               .tail_first_row = tail_first_row,
                                               .query_count = query + 1,
                                               .selections = question->selections};
}

static kvt_status try_resolve(uint32_t tail_first_row, const char *text)
{
    struct question question;
    ask(&question, tail_first_row, text);
    return kvt_resolve(resolver, cache, &question.call, &result, &err);
}

static void resolve(uint32_t tail_first_row, const char *text)
{
    ck_assert_int_eq(try_resolve(tail_first_row, text), KVT_OK);
}

/* Rows of two a page; bit p of pages: page p is in HBM. */
static void resolve_with_pages(uint64_t pages, uint32_t tail_first_row, const char *text)
{
    struct question question;
    uint64_t page_rows;

    kvt_row_set_of_pages(&pages, ROWS / 2, 2, &page_rows, 1);
    ask(&question, tail_first_row, text);
    question.call.page_rows = &page_rows;
    ck_assert_int_eq(kvt_resolve(resolver, cache, &question.call, &result, &err), KVT_OK);
}

static void resolve_by_count(const char *text)
{
    struct question question;

    ask(&question, NO_TAIL, text);
    question.call.promotion = KVT_PROMOTE_BY_COUNT;
    ck_assert_int_eq(kvt_resolve(resolver, cache, &question.call, &result, &err), KVT_OK);
}

/* ---- Expectations -------------------------------------------------------------- */

#define EXPECT(array, count, ...)                                                                  \
    do {                                                                                           \
        const int expected[] = {__VA_ARGS__};                                                      \
        ck_assert_uint_eq(count, sizeof expected / sizeof expected[0]);                            \
        for (size_t place = 0; place < sizeof expected / sizeof expected[0]; place++)              \
            ck_assert_msg((array)[place] == (uint32_t)expected[place],                             \
                          "%s[%zu] is %d, expected %d", #array, place, (int)(array)[place],        \
                          expected[place]);                                                        \
    } while (0)
#define EXPECT_ROWS(...)                                                                           \
    EXPECT(kvt_hot_cache_rows(cache), kvt_hot_cache_slot_count(cache), __VA_ARGS__)
#define EXPECT_MISSED(...)                                                                         \
    EXPECT(result.missed, result.filled_rows + result.staged_rows, __VA_ARGS__)
#define EXPECT_FILLS(...) EXPECT(result.fills, result.filled_rows, __VA_ARGS__)
#define EXPECT_EVICTED(...) EXPECT(result.evicted, result.filled_rows, __VA_ARGS__)
#define EXPECT_PROMOTED(...) EXPECT(result.promoted, result.promoted_rows, __VA_ARGS__)
#define EXPECT_PROMOTED_SLOTS(...) EXPECT(result.promoted_slots, result.promoted_rows, __VA_ARGS__)
#define EXPECT_ORDER(...)                                                                          \
    do {                                                                                           \
        uint32_t order[SLOTS_MAX] = {0};                                                           \
        read_order(order);                                                                         \
        EXPECT(order, kvt_hot_cache_slot_count(cache), __VA_ARGS__);                               \
    } while (0)

/* The slots, oldest first. */
static void read_order(uint32_t *order)
{
    uint32_t ranks[SLOTS_MAX];
    kvt_hot_cache_ranks(cache, ranks);
    for (uint32_t slot = 0; slot < kvt_hot_cache_slot_count(cache); slot++)
        order[ranks[slot]] = slot;
}

/* union = tail + page + hot + filled + staged */
static void expect_distinct(uint32_t tail, uint32_t page, uint32_t hot, uint32_t filled,
                            uint32_t staged)
{
    ck_assert_uint_eq(result.tail_rows, tail);
    ck_assert_uint_eq(result.page_rows, page);
    ck_assert_uint_eq(result.hot_rows, hot);
    ck_assert_uint_eq(result.filled_rows, filled);
    ck_assert_uint_eq(result.staged_rows, staged);
    ck_assert_uint_eq(result.union_rows, tail + page + hot + filled + staged);
}

static void expect_selected(uint32_t tail, uint32_t page, uint32_t hot, uint32_t missed)
{
    ck_assert_uint_eq(result.tail_selected, tail);
    ck_assert_uint_eq(result.page_selected, page);
    ck_assert_uint_eq(result.hot_selected, hot);
    ck_assert_uint_eq(result.missed_selected, missed);
    ck_assert_uint_eq(result.selected, tail + page + hot + missed);
}

static void expect_refusal(kvt_status status, kvt_status expected, const char *words)
{
    ck_assert_int_eq(status, expected);
    ck_assert_msg(strstr(err.message, words) != NULL, "\"%s\" lacks \"%s\"", err.message, words);
}

/* ---- The example of docs/resolver.md ---------------------------------------------- */

START_TEST(the_worked_example_of_the_documentation_comes_out)
{
    open_cache(4);
    resolve(8, "1 4 9");
    expect_distinct(1, 0, 0, 2, 0);
    EXPECT_ROWS(1, 4, NONE, NONE);
    EXPECT_ORDER(2, 3, 0, 1);
    resolve(8, "1 5 6");
    expect_distinct(0, 0, 1, 2, 0);
    EXPECT_ROWS(1, 4, 5, 6);
    EXPECT_ORDER(1, 2, 3, 0);
    resolve(8, "4 7 8");
    expect_distinct(1, 0, 1, 1, 0);
    EXPECT_EVICTED(5);
    EXPECT_ROWS(1, 4, 7, 6);
    EXPECT_ORDER(3, 0, 2, 1);
    resolve_with_pages(0x5, 8, "1 4 9");
    ck_assert(result.skipped);
    EXPECT_ORDER(3, 0, 2, 1);
    resolve_with_pages(0x4, 8, "2 4 6");
    expect_distinct(0, 1, 1, 1, 0);
    EXPECT_ROWS(2, 4, 7, 6);
    EXPECT_ORDER(2, 1, 0, 3);
    resolve(8, "0 2 6 | 2 3 5");
    expect_distinct(0, 0, 2, 2, 1);
    expect_selected(0, 0, 3, 3);
    EXPECT_MISSED(0, 3, 5);
    EXPECT_ROWS(2, 3, 0, 6);
    EXPECT_ORDER(2, 1, 0, 3);
}
END_TEST

/* ---- Where a row is -------------------------------------------------------------------- */

START_TEST(the_tail_begins_exactly_at_its_first_row)
{
    open_cache(4);
    resolve(7, "6 7 9");
    expect_distinct(2, 0, 0, 1, 0);
    expect_selected(2, 0, 0, 1);
    EXPECT_MISSED(6);
}
END_TEST

START_TEST(a_context_shorter_than_the_tail_needs_no_hot_cache)
{
    open_cache(4);
    resolve(0, "0 1 9");
    ck_assert(result.skipped);
    expect_distinct(3, 0, 0, 0, 0);
    EXPECT_ROWS(NONE, NONE, NONE, NONE);
}
END_TEST

START_TEST(a_call_whose_rows_are_all_resident_leaves_the_cache_as_it_is)
{
    open_cache(4);
    resolve(8, "1 2 3");
    resolve(8, "2");
    uint64_t before = kvt_hot_cache_state_hash(resolver, cache);
    EXPECT_ORDER(3, 0, 2, 1);

    resolve_with_pages(0x2, 8, "2 3 8"); /* rows 2 and 3 are hot, too */
    ck_assert(result.skipped);
    expect_distinct(1, 2, 0, 0, 0);
    expect_selected(1, 2, 0, 0);
    EXPECT_ORDER(3, 0, 2, 1);
    ck_assert_uint_eq(kvt_hot_cache_state_hash(resolver, cache), before);
}
END_TEST

START_TEST(a_call_that_selects_nothing_is_resident)
{
    open_cache(4);
    resolve(8, "");
    ck_assert(result.skipped);
    expect_distinct(0, 0, 0, 0, 0);
}
END_TEST

START_TEST(a_row_resident_by_page_is_no_hit_and_its_hot_entry_ages)
{
    open_cache(3);
    resolve(NO_TAIL, "0 4 6");
    EXPECT_ORDER(0, 1, 2);

    resolve_with_pages(0x4, NO_TAIL, "0 4"); /* page 2 is rows 4 and 5 */
    ck_assert(!result.skipped);
    expect_distinct(0, 1, 1, 0, 0);
    EXPECT_ROWS(0, 4, 6);
    EXPECT_ORDER(1, 2, 0); /* a hit would have stood last */
}
END_TEST

START_TEST(a_row_resident_by_page_may_lose_its_hot_entry)
{
    open_cache(2);
    resolve(NO_TAIL, "4 6");
    resolve_with_pages(0x4, NO_TAIL, "1 4");
    EXPECT_EVICTED(4);
    EXPECT_ROWS(1, 6);
}
END_TEST

START_TEST(a_row_of_the_tail_in_a_ready_page_counts_as_tail)
{
    open_cache(4);
    resolve_with_pages(0x10, 8, "8 9 | 9");
    expect_distinct(2, 0, 0, 0, 0);
    expect_selected(3, 0, 0, 0);
}
END_TEST

/* ---- Orders ------------------------------------------------------------------------------ */

START_TEST(empty_slots_go_first_lowest_first)
{
    open_cache(4);
    resolve(NO_TAIL, "5");
    EXPECT_FILLS(0);
    resolve(NO_TAIL, "2 3");
    EXPECT_FILLS(1, 2);
    resolve(NO_TAIL, "6 7");
    EXPECT_FILLS(3, 0);
    EXPECT_EVICTED(NONE, 5);
}
END_TEST

START_TEST(the_order_is_unused_then_filled_then_hit)
{
    open_cache(5);
    resolve(NO_TAIL, "0 1 2 3 4");
    resolve(NO_TAIL, "1 3 7 8"); /* hits slots 1 and 3; oldest others are 0 and 2 */
    EXPECT_FILLS(0, 2);
    EXPECT_ROWS(7, 1, 8, 3, 4);
    EXPECT_ORDER(4, 0, 2, 1, 3);
}
END_TEST

START_TEST(hits_keep_their_old_order_not_that_of_the_selection)
{
    open_cache(3);
    resolve(NO_TAIL, "7");
    resolve(NO_TAIL, "5");
    resolve(NO_TAIL, "2");
    resolve(NO_TAIL, "2 5 7");
    EXPECT_ORDER(0, 1, 2); /* rows 7, 5, 2 */
}
END_TEST

START_TEST(misses_come_by_first_query_then_by_row)
{
    open_cache(8);
    resolve(NO_TAIL, "4 9 | 1 4 7 | 0 1 8");
    EXPECT_MISSED(4, 9, 1, 7, 0, 8);
    expect_distinct(0, 0, 0, 6, 0);
    expect_selected(0, 0, 0, 8);
}
END_TEST

START_TEST(no_query_evicts_what_another_one_reads)
{
    open_cache(2);
    resolve(NO_TAIL, "3 4");
    resolve(NO_TAIL, "6 | 3"); /* row 3 is the oldest, but the second query reads it */
    EXPECT_EVICTED(4);
    EXPECT_ROWS(3, 6);
}
END_TEST

START_TEST(misses_beyond_the_free_slots_are_staged_and_stay_out_of_the_cache)
{
    open_cache(3);
    resolve(NO_TAIL, "1 2 3");
    resolve(NO_TAIL, "2 5 | 0 6");
    expect_distinct(0, 0, 1, 2, 1);
    EXPECT_MISSED(5, 0, 6);
    EXPECT_ROWS(5, 2, 0);
    EXPECT_ORDER(0, 2, 1);
    resolve(NO_TAIL, "6");
    expect_distinct(0, 0, 0, 1, 0); /* it was staged: it is fetched again */
}
END_TEST

/* ---- Promotion ------------------------------------------------------------------------------ */

START_TEST(a_staged_row_takes_the_place_of_one_that_fewer_queries_select)
{
    open_cache(3);
    resolve(NO_TAIL, "1 2 3");
    resolve_by_count("1 2 6 | 2 5 | 1 5 | 1 5"); /* 1 three times, 2 twice, 6 once, 5 thrice */
    expect_distinct(0, 0, 2, 1, 1);
    EXPECT_MISSED(6, 5);
    EXPECT_FILLS(2);
    EXPECT_PROMOTED(5);
    EXPECT_PROMOTED_SLOTS(2);
    EXPECT_ROWS(1, 2, 5);
    EXPECT_ORDER(2, 0, 1); /* the slot keeps its place: filled, then hits */
    resolve(NO_TAIL, "1 2 5");
    expect_distinct(0, 0, 3, 0, 0);
    resolve(NO_TAIL, "6"); /* it came and went in one call */
    expect_distinct(0, 0, 0, 1, 0);
}
END_TEST

START_TEST(promotion_pairs_falling_counts_with_rising_ones)
{
    open_cache(4);
    resolve(NO_TAIL, "0 1 2 3");
    /* Slots' counts: 2, 1, 1, 3. Staged, in miss order: 4 once, 5 twice, 6 twice, 7 once. */
    resolve_by_count("0 1 3 4 5 6 | 0 2 3 5 6 7 | 3");
    expect_distinct(0, 0, 4, 0, 4);
    EXPECT_MISSED(4, 5, 6, 7);
    EXPECT_PROMOTED(5, 6);
    EXPECT_PROMOTED_SLOTS(1, 2);
    EXPECT_ROWS(0, 5, 6, 3);
    EXPECT_ORDER(0, 1, 2, 3);
}
END_TEST

START_TEST(equal_counts_promote_nothing)
{
    open_cache(2);
    resolve(NO_TAIL, "0 1");
    resolve_by_count("0 1 2 3 | 0 1 2 3");
    expect_distinct(0, 0, 2, 0, 2);
    ck_assert_uint_eq(result.promoted_rows, 0);
    EXPECT_ROWS(0, 1);
}
END_TEST

START_TEST(nothing_is_promoted_unless_asked_for)
{
    open_cache(1);
    resolve(NO_TAIL, "0 | 1 | 1");
    expect_distinct(0, 0, 0, 1, 1);
    ck_assert_uint_eq(result.promoted_rows, 0);
    EXPECT_ROWS(0);
}
END_TEST

START_TEST(selections_are_counted_with_multiplicity)
{
    open_cache(4);
    resolve(8, "1 2");
    resolve_with_pages(0x4, 8, "1 4 6 8 | 1 4 6 | 2 6 8");
    expect_distinct(1, 1, 2, 1, 0);
    expect_selected(2, 2, 3, 3);
}
END_TEST

START_TEST(the_state_hash_tells_slots_rows_and_ranks_apart)
{
    open_cache(2);
    uint64_t empty = kvt_hot_cache_state_hash(resolver, cache);
    ck_assert_uint_eq(empty, 0);
    resolve(NO_TAIL, "3 4");
    uint64_t young_4 = kvt_hot_cache_state_hash(resolver, cache);
    resolve(NO_TAIL, "3"); /* only the ranks change */
    uint64_t young_3 = kvt_hot_cache_state_hash(resolver, cache);
    resolve(NO_TAIL, "4");
    ck_assert_uint_ne(young_4, young_3);
    ck_assert_uint_eq(kvt_hot_cache_state_hash(resolver, cache), young_4);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------ */

START_TEST(a_malformed_call_is_refused_and_changes_nothing)
{
    static const struct {
        const char *text, *words;
        uint32_t visible_rows, queries;
        int promotion;
    } bad[] = {
        {"1 9", "query 0 selects row 9 of a context of 9 rows", 9, 1, 0},
        {"1 | 2 8 9", "query 1 selects row 8 of a context of 8 rows", 8, 2, 0},
        {"1", "11 rows", ROWS + 1, 1, 0},
        {"1", "0 queries", ROWS, 0, 0},
        {"1", "33 queries", ROWS, 33, 0},
        {"1", "promotion 2", ROWS, 1, 2},
        {"1", "promotion -1", ROWS, 1, -1},
    };
    struct question question;

    open_cache(4);
    resolve(NO_TAIL, "1 2");
    uint64_t before = kvt_hot_cache_state_hash(resolver, cache);
    struct kvt_resolve_result untouched = result;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ask(&question, NO_TAIL, bad[i].text);
        question.call.visible_rows = bad[i].visible_rows;
        question.call.query_count = bad[i].queries;
        question.call.promotion = (enum kvt_promotion)bad[i].promotion;
        expect_refusal(kvt_resolve(resolver, cache, &question.call, &result, &err), KVT_ERR_INVALID,
                       bad[i].words);
        ck_assert_uint_eq(kvt_hot_cache_state_hash(resolver, cache), before);
        ck_assert_mem_eq(&result, &untouched, sizeof result);
    }
    resolve(NO_TAIL, "1 2");
    expect_distinct(0, 0, 2, 0, 0);
}
END_TEST

START_TEST(a_row_past_the_last_one_is_refused_at_every_place_in_a_word)
{
    uint64_t set[3] = {0};
    const uint64_t *selection = set;
    struct kvt_resolver *wide = NULL;
    struct kvt_replacement_env env = {.slot_count = 2, .top_k = 1};

    ck_assert_int_eq(kvt_resolver_new(192, 2, 1, &wide, &err), KVT_OK);
    ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, 192, &cache, &err), KVT_OK);
    for (uint32_t visible_rows = 1; visible_rows <= 192; visible_rows++) {
        struct kvt_resolve_call call = {.visible_rows = visible_rows,
                                        .tail_first_row = visible_rows,
                                        .query_count = 1,
                                        .selections = &selection};
        uint32_t last = visible_rows - 1;
        memset(set, 0, sizeof set);
        kvt_row_set_add(set, &last, 1);
        ck_assert_int_eq(kvt_resolve(wide, cache, &call, &result, &err), KVT_OK);
        ck_assert_uint_eq(result.union_rows, 1);
        if (visible_rows % 64 == 0) /* the next row is no longer in the set's words */
            continue;
        kvt_row_set_add(set, &visible_rows, 1);
        expect_refusal(kvt_resolve(wide, cache, &call, &result, &err), KVT_ERR_INVALID,
                       "of a context of");
    }
    kvt_resolver_free(wide);
}
END_TEST

START_TEST(a_union_wider_than_the_scratch_is_refused_without_trace)
{
    struct kvt_resolver *narrow = NULL;
    struct question question;

    open_cache(4);
    ck_assert_int_eq(kvt_resolver_new(ROWS, 4, 3, &narrow, &err), KVT_OK);
    static const char *const wide[] = {"1 2 9 | 2 3", "1 2 3 4", "1 2 | 3 4", "1 7 8 9"};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        ask(&question, 8, wide[i]);
        expect_refusal(kvt_resolve(narrow, cache, &question.call, &result, &err), KVT_ERR_INVALID,
                       "4 rows");
        ck_assert_uint_eq(kvt_hot_cache_state_hash(narrow, cache), 0);
    }
    ask(&question, 8, "1 9 | 2");
    ck_assert_int_eq(kvt_resolve(narrow, cache, &question.call, &result, &err), KVT_OK);
    expect_distinct(1, 0, 0, 2, 0);
    EXPECT_MISSED(1, 2);
    kvt_resolver_free(narrow);
}
END_TEST

START_TEST(a_cache_larger_than_the_scratch_is_refused)
{
    struct kvt_replacement_env env = {.slot_count = 4, .top_k = 3};

    open_cache(SLOTS_MAX + 1);
    expect_refusal(try_resolve(NO_TAIL, "1"), KVT_ERR_INVALID, "9 slots");
    kvt_hot_cache_free(cache);
    ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, ROWS + 1, &cache, &err), KVT_OK);
    expect_refusal(try_resolve(NO_TAIL, "1"), KVT_ERR_INVALID, "is for 11 rows");
}
END_TEST

START_TEST(a_context_past_what_the_cache_is_for_is_refused)
{
    struct kvt_replacement_env env = {.slot_count = 4, .top_k = 3};

    ck_assert_int_eq(kvt_hot_cache_new(&kvt_replacement_lru, &env, ROWS - 1, &cache, &err), KVT_OK);
    expect_refusal(try_resolve(NO_TAIL, "1"), KVT_ERR_INVALID, "this hot cache is for at most 9");
}
END_TEST

START_TEST(caches_and_resolvers_of_no_size_are_refused)
{
    struct kvt_replacement_env env = {.slot_count = 0};
    struct kvt_resolver *none = NULL;

    expect_refusal(kvt_hot_cache_new(&kvt_replacement_lru, &env, 1, &cache, &err), KVT_ERR_INVALID,
                   "0 slots");
    env.slot_count = 1;
    expect_refusal(kvt_hot_cache_new(&kvt_replacement_lru, &env, 0, &cache, &err), KVT_ERR_INVALID,
                   "a store of 0 rows");
    env.slot_count = 65537;
    expect_refusal(kvt_hot_cache_new(&kvt_replacement_lru, &env, 1, &cache, &err),
                   KVT_ERR_UNSUPPORTED, "65537 slots is too large");
    ck_assert_ptr_null(cache);
    expect_refusal(kvt_resolver_new(0, 1, 1, &none, &err), KVT_ERR_INVALID, "0 rows");
    expect_refusal(kvt_resolver_new(1, 0, 1, &none, &err), KVT_ERR_INVALID, "0 slots");
    expect_refusal(kvt_resolver_new(1, 1, 0, &none, &err), KVT_ERR_INVALID, "of 0 rows");
    expect_refusal(kvt_resolver_new(UINT32_MAX, 1, 1, &none, &err), KVT_ERR_INVALID, "rows are 1");
    ck_assert_ptr_null(none);
    kvt_resolver_free(NULL);
    kvt_hot_cache_free(NULL);
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------------------- */

START_TEST(a_call_allocates_nothing)
{
    struct question question;

    open_cache(3);
    resolve(NO_TAIL, "1 2 3");
    ask(&question, NO_TAIL, "1 2 6 | 2 5 | 1 5 | 1 5");
    question.call.promotion = KVT_PROMOTE_BY_COUNT;
    uint64_t before = support_allocations(); /* Check's assertions allocate, too */
    kvt_status status = kvt_resolve(resolver, cache, &question.call, &result, &err);
    (void)kvt_hot_cache_state_hash(resolver, cache);
    uint64_t after = support_allocations();
    ck_assert_int_eq(status, KVT_OK);
    ck_assert_uint_eq(result.promoted_rows, 1);
    ck_assert_uint_eq(after, before);
}
END_TEST

START_TEST(memory_that_runs_out_is_reported_and_nothing_is_left)
{
    struct kvt_replacement_env env = {.slot_count = 4, .top_k = 3};
    struct kvt_resolver *other = NULL;

    if (!support_can_fail_allocations())
        return;
    support_fail_allocation(0);
    expect_refusal(kvt_hot_cache_new(&kvt_replacement_lru, &env, ROWS, &cache, &err), KVT_ERR_NOMEM,
                   "a hot cache");
    ck_assert(support_allocation_failed());
    ck_assert_ptr_null(cache);
    for (uint64_t nth = 0;; nth++) {
        support_fail_allocation(nth);
        kvt_status status = kvt_resolver_new(4000, 4000, 4000, &other, &err);
        if (!support_allocation_failed()) {
            ck_assert_int_eq(status, KVT_OK);
            ck_assert_uint_ge(nth, 2);
            break;
        }
        expect_refusal(status, KVT_ERR_NOMEM, "a resolver");
        ck_assert_ptr_null(other);
    }
    kvt_resolver_free(other);
}
END_TEST

static Suite *resolver_suite(void)
{
    Suite *suite = suite_create("resolver");
    TCase *rules = tcase_create("rules");
    TCase *refusals = tcase_create("refusals");
    TCase *memory = tcase_create("memory");

    tcase_add_checked_fixture(rules, open_resolver, close_resolver);
    tcase_add_test(rules, the_worked_example_of_the_documentation_comes_out);
    tcase_add_test(rules, the_tail_begins_exactly_at_its_first_row);
    tcase_add_test(rules, a_context_shorter_than_the_tail_needs_no_hot_cache);
    tcase_add_test(rules, a_call_whose_rows_are_all_resident_leaves_the_cache_as_it_is);
    tcase_add_test(rules, a_call_that_selects_nothing_is_resident);
    tcase_add_test(rules, a_row_resident_by_page_is_no_hit_and_its_hot_entry_ages);
    tcase_add_test(rules, a_row_resident_by_page_may_lose_its_hot_entry);
    tcase_add_test(rules, a_row_of_the_tail_in_a_ready_page_counts_as_tail);
    tcase_add_test(rules, empty_slots_go_first_lowest_first);
    tcase_add_test(rules, the_order_is_unused_then_filled_then_hit);
    tcase_add_test(rules, hits_keep_their_old_order_not_that_of_the_selection);
    tcase_add_test(rules, misses_come_by_first_query_then_by_row);
    tcase_add_test(rules, no_query_evicts_what_another_one_reads);
    tcase_add_test(rules, misses_beyond_the_free_slots_are_staged_and_stay_out_of_the_cache);
    tcase_add_test(rules, a_staged_row_takes_the_place_of_one_that_fewer_queries_select);
    tcase_add_test(rules, promotion_pairs_falling_counts_with_rising_ones);
    tcase_add_test(rules, equal_counts_promote_nothing);
    tcase_add_test(rules, nothing_is_promoted_unless_asked_for);
    tcase_add_test(rules, selections_are_counted_with_multiplicity);
    tcase_add_test(rules, the_state_hash_tells_slots_rows_and_ranks_apart);
    suite_add_tcase(suite, rules);
    tcase_add_checked_fixture(memory, open_resolver, close_resolver);
    tcase_add_test(memory, a_call_allocates_nothing);
    tcase_add_test(memory, memory_that_runs_out_is_reported_and_nothing_is_left);
    suite_add_tcase(suite, memory);
    tcase_add_checked_fixture(refusals, open_resolver, close_resolver);
    tcase_add_test(refusals, a_malformed_call_is_refused_and_changes_nothing);
    tcase_add_test(refusals, a_row_past_the_last_one_is_refused_at_every_place_in_a_word);
    tcase_add_test(refusals, a_union_wider_than_the_scratch_is_refused_without_trace);
    tcase_add_test(refusals, a_cache_larger_than_the_scratch_is_refused);
    tcase_add_test(refusals, a_context_past_what_the_cache_is_for_is_refused);
    tcase_add_test(refusals, caches_and_resolvers_of_no_size_are_refused);
    suite_add_tcase(suite, refusals);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(resolver_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
