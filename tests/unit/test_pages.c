/* test_pages.c -- every committed row has a home, and a tail slot is rewritten only when its row
 * is backed: against a twin that keeps one line a row and one state a page. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/pages.h"
#include "kvt/rng.h"

enum {
    T = KVT_TAIL_ROWS,
    PAGE = KVT_PAGE_ROWS,
    CONTEXT = 1000,
    LONGEST = 3000
};

static void start(struct kvt_pages *pages, uint32_t context, bool all_ready)
{
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_pages_init(pages, context, LONGEST, all_ready, &err), KVT_OK);
}

static void commit(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns)
{
    struct kvt_error err = {0};
    kvt_status status = kvt_pages_commit(pages, tokens, done_ns, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

START_TEST(an_imported_history_is_backed_and_on_host_only)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, false);
    kvt_pages_settle(&pages, 1, 0);
    ck_assert_uint_eq(pages.backed_tokens, CONTEXT);
    /* Rows from 1000 + 1 - 64 = 937 on are in the tail: 14 whole pages before it. */
    ck_assert_uint_eq(pages.eligible_pages, 14);
    ck_assert_uint_eq(pages.optional_pages + pages.filling_pages, 0);
    for (uint32_t page = 0; page < 14; page++)
        ck_assert_int_eq(kvt_pages_state(&pages, page, 1), KVT_PAGE_HOST_ONLY);
    ck_assert_int_eq(kvt_pages_state(&pages, 14, 1), KVT_PAGE_PINNED);
    ck_assert_int_eq(kvt_pages_state(&pages, 15, 1), KVT_PAGE_PINNED);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_page_is_eligible_when_its_last_row_has_left_the_tail)
{
    /* The call's tail covers [n + K - 64, n + K): page p is out of it from n + K = 64 (p + 2) on.
     */
    const struct {
        uint32_t context, queries, eligible;
    } cases[] = {{63, 1, 0},  {64, 1, 0},  {126, 1, 0}, {127, 1, 1}, {128, 1, 1},
                 {190, 1, 1}, {191, 1, 2}, {120, 8, 1}, {119, 8, 0}, {1, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kvt_pages pages;
        start(&pages, cases[i].context, false);
        kvt_pages_settle(&pages, cases[i].queries, 0);
        ck_assert_msg(pages.eligible_pages == cases[i].eligible, "%u + %u: %u pages",
                      cases[i].context, cases[i].queries, pages.eligible_pages);
        kvt_pages_fini(&pages);
    }
}
END_TEST

START_TEST(a_page_lives_from_pending_to_host_and_back)
{
    struct kvt_pages pages;
    start(&pages, 2 * PAGE, false);
    for (uint32_t i = 1; i <= PAGE; i++) {
        commit(&pages, 1, 100 * (kvt_ns)i);
        kvt_pages_settle(&pages, 1, 0);
    }
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_PENDING);
    kvt_pages_settle(&pages, 1, 100 * PAGE - 1);
    ck_assert_uint_eq(pages.backed_tokens, 3 * PAGE - 1);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_PENDING);
    kvt_pages_settle(&pages, 1, 100 * PAGE);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_PINNED);
    for (uint32_t i = 1; i < PAGE; i++)
        commit(&pages, 1, 100 * PAGE);
    kvt_pages_settle(&pages, 1, 100 * PAGE);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_HOST_ONLY);

    ck_assert(kvt_pages_can_fill(&pages, 1, 2));
    kvt_pages_begin_fill(&pages, 1, 2);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_FILLING);
    ck_assert_uint_eq(pages.filling_pages, 2);
    ck_assert(!(pages.ready_bits[0] & 4)); /* its bytes are counted, its rows not readable */
    ck_assert(!kvt_pages_can_release(&pages, 1, 2));
    kvt_pages_end_fill(&pages, 1, 2);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_OPTIONAL);
    ck_assert_uint_eq(pages.optional_pages, 2);
    ck_assert(pages.ready_bits[0] & 4);
    ck_assert(kvt_pages_can_release(&pages, 2, 1));
    kvt_pages_release(&pages, 2, 1);
    ck_assert_int_eq(kvt_pages_state(&pages, 2, 1), KVT_PAGE_HOST_ONLY);
    ck_assert_int_eq(kvt_pages_state(&pages, 1, 1), KVT_PAGE_OPTIONAL);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(only_eligible_pages_move_and_only_the_way_they_can)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, false);
    ck_assert(!kvt_pages_can_fill(&pages, 0, 1)); /* nothing is, before a boundary */
    kvt_pages_settle(&pages, 1, 0);
    ck_assert(kvt_pages_can_fill(&pages, 0, 14));
    ck_assert(kvt_pages_can_fill(&pages, 13, 1));
    ck_assert(!kvt_pages_can_fill(&pages, 0, 15));
    ck_assert(!kvt_pages_can_fill(&pages, 13, 2));
    ck_assert(!kvt_pages_can_fill(&pages, 14, 1));
    ck_assert(!kvt_pages_can_fill(&pages, 5, 0));
    ck_assert(!kvt_pages_can_fill(&pages, 5, UINT32_MAX));
    ck_assert(!kvt_pages_can_fill(&pages, UINT32_MAX, 2));
    ck_assert(!kvt_pages_can_release(&pages, 0, 1));
    kvt_pages_begin_fill(&pages, 5, 3);
    ck_assert(!kvt_pages_can_fill(&pages, 7, 2));
    kvt_pages_end_fill(&pages, 5, 3);
    ck_assert(!kvt_pages_can_fill(&pages, 7, 2));
    ck_assert(!kvt_pages_can_release(&pages, 4, 2));
    ck_assert(!kvt_pages_can_release(&pages, 7, UINT32_MAX));
    ck_assert(kvt_pages_can_release(&pages, 5, 3));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(the_tail_waits_for_the_row_whose_slot_is_rewritten)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, false);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 7), 7);
    for (uint32_t i = 0; i < T; i++)
        commit(&pages, 1, 1000 + 10 * (kvt_ns)i);
    /* The next row takes the slot of row 1000, the first that is not backed. */
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 7), 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 3, 7), 1020);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 1005), 1005);
    kvt_pages_settle(&pages, 1, 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 1000), 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 2, 1000), 1010);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_step_that_waited_for_its_tail_commits_before_the_boundary)
{
    struct kvt_pages pages;
    struct kvt_error err = {0};
    start(&pages, CONTEXT, false);
    for (uint32_t i = 0; i < T; i++)
        commit(&pages, 1, 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 0), 1000);
    commit(&pages, 1, 2000); /* at 1000 or later; nothing has been settled since */
    ck_assert_int_eq(kvt_pages_commit(&pages, 1, 2000, &err), KVT_ERR_INTERNAL);
    ck_assert_str_eq(err.where, "pages");
    ck_assert_uint_eq(pages.committed_tokens, CONTEXT + T + 1);
    kvt_pages_settle(&pages, 1, 1000);
    ck_assert_uint_eq(pages.backed_tokens, CONTEXT + T);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_resident_history_is_ready_for_ever)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, true);
    for (int i = 0; i < 200; i++)
        commit(&pages, 1, INT64_MAX);
    kvt_pages_settle(&pages, 1, 0);
    ck_assert_uint_eq(pages.committed_tokens, CONTEXT + 200);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 5), 5);
    ck_assert_uint_eq(pages.eligible_pages + pages.optional_pages + pages.filling_pages, 0);
    for (uint32_t page = 0; page <= LONGEST / PAGE; page++)
        ck_assert(pages.ready_bits[page / 64] >> page % 64 & 1);
    ck_assert(!kvt_pages_can_release(&pages, 0, 1));
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

/* ---- The twin ----------------------------------------------------------------------- */

enum {
    HOST,
    UP,
    READY
};
struct twin {
    uint32_t committed;
    kvt_ns backed_at_ns[LONGEST + 64]; /* of each row */
    int place[LONGEST / PAGE + 2];
};

static bool twin_eligible(const struct twin *twin, uint32_t page, uint32_t queries, kvt_ns now_ns)
{
    for (uint32_t row = page * PAGE; row < (page + 1) * PAGE; row++) {
        bool in_tail = row + T >= twin->committed + queries;
        if (row >= twin->committed || in_tail || twin->backed_at_ns[row] > now_ns)
            return false;
    }
    return true;
}

static kvt_ns twin_tail_ready(const struct twin *twin, uint32_t queries, kvt_ns now_ns)
{
    kvt_ns ready_ns = now_ns;
    for (uint32_t q = 0; q < queries; q++) {
        uint32_t row = twin->committed + q; /* takes the slot of the row 64 before it */
        if (row >= T && row - T < twin->committed && twin->backed_at_ns[row - T] > ready_ns)
            ready_ns = twin->backed_at_ns[row - T];
    }
    return ready_ns;
}

static uint32_t check_against(const struct kvt_pages *pages, const struct twin *twin,
                              uint32_t queries, kvt_ns now_ns)
{
    uint32_t eligible = 0, ready = 0, up = 0;
    while (twin_eligible(twin, eligible, queries, now_ns))
        eligible++;
    ck_assert_uint_eq(pages->eligible_pages, eligible);
    for (uint32_t page = 0; page < eligible; page++) {
        static const enum kvt_page_state states[] = {
            [HOST] = KVT_PAGE_HOST_ONLY, [UP] = KVT_PAGE_FILLING, [READY] = KVT_PAGE_OPTIONAL};
        ck_assert_int_eq(kvt_pages_state(pages, page, queries), states[twin->place[page]]);
        ready += twin->place[page] == READY;
        up += twin->place[page] == UP;
    }
    ck_assert_uint_eq(pages->optional_pages, ready);
    ck_assert_uint_eq(pages->filling_pages, up);
    ck_assert(kvt_pages_is_sane(pages));
    return eligible;
}

static void move_some_pages(struct kvt_pages *pages, struct twin *twin, uint32_t eligible,
                            struct kvt_rng *rng)
{
    uint32_t first = (uint32_t)kvt_rng_below(rng, eligible + 1);
    uint32_t count = (uint32_t)kvt_rng_below(rng, 5);
    bool all_host = count > 0, all_ready = count > 0, all_up = count > 0;
    for (uint32_t page = first; page < first + count; page++) {
        bool in = page < eligible;
        all_host = all_host && in && twin->place[page] == HOST;
        all_ready = all_ready && in && twin->place[page] == READY;
        all_up = all_up && in && twin->place[page] == UP;
    }
    ck_assert_uint_eq(kvt_pages_can_fill(pages, first, count), all_host);
    ck_assert_uint_eq(kvt_pages_can_release(pages, first, count), all_ready);
    if (all_host)
        kvt_pages_begin_fill(pages, first, count);
    else if (all_ready)
        kvt_pages_release(pages, first, count);
    else if (all_up)
        kvt_pages_end_fill(pages, first, count);
    else
        return;
    for (uint32_t page = first; page < first + count; page++)
        twin->place[page] = all_host ? UP : all_ready ? HOST : READY;
}

START_TEST(pages_agree_with_a_twin_that_follows_each_row)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    static struct twin twin;
    struct kvt_pages pages;
    uint32_t queries = _i % 3 == 0 ? 1 : 1 + (uint32_t)kvt_rng_below(&rng, 8);
    kvt_ns now_ns = 0, last_done_ns = 0, lag_ns = (kvt_ns)kvt_rng_below(&rng, 200);

    memset(&twin, 0, sizeof twin);
    twin.committed = 1 + (uint32_t)kvt_rng_below(&rng, 2000);
    start(&pages, twin.committed, false);
    for (int step = 0; step < 300; step++) {
        kvt_pages_settle(&pages, queries, now_ns);
        uint32_t eligible = check_against(&pages, &twin, queries, now_ns);
        for (int i = 0; i < 3; i++)
            move_some_pages(&pages, &twin, eligible, &rng);
        check_against(&pages, &twin, queries, now_ns);

        kvt_ns ready_ns = kvt_pages_tail_ready_ns(&pages, queries, now_ns);
        ck_assert_int_eq(ready_ns, twin_tail_ready(&twin, queries, now_ns));
        now_ns = ready_ns + 1 + (kvt_ns)kvt_rng_below(&rng, 5);
        uint32_t tokens = 1 + (uint32_t)kvt_rng_below(&rng, queries);
        if (twin.committed + tokens > LONGEST)
            break;
        kvt_ns done_ns = now_ns + lag_ns + (kvt_ns)kvt_rng_below(&rng, 20);
        done_ns = done_ns > last_done_ns ? done_ns : last_done_ns;
        last_done_ns = done_ns;
        commit(&pages, tokens, done_ns);
        for (uint32_t i = 0; i < tokens; i++)
            twin.backed_at_ns[twin.committed++] = done_ns;
    }
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(broken_pages_are_noticed)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, false);
    kvt_pages_settle(&pages, 1, 0);
    kvt_pages_begin_fill(&pages, 3, 2);
    kvt_pages_end_fill(&pages, 3, 1);
    ck_assert(kvt_pages_is_sane(&pages));
    uint64_t *const bits[] = {pages.ready_bits, pages.filling_bits, pages.resident_bits};
    for (size_t b = 0; b < 3; b++) {
        for (uint32_t page = 0; page < 20; page++) {
            bits[b][0] ^= UINT64_C(1) << page;
            ck_assert(!kvt_pages_is_sane(&pages));
            bits[b][0] ^= UINT64_C(1) << page;
        }
    }
    /* A page in HBM that is not eligible, with the counts in agreement. */
    kvt_pages_begin_fill(&pages, 14, 1);
    ck_assert(!kvt_pages_is_sane(&pages));
    kvt_pages_end_fill(&pages, 14, 1);
    ck_assert(!kvt_pages_is_sane(&pages));
    kvt_pages_release(&pages, 14, 1);
    ck_assert(kvt_pages_is_sane(&pages));
    pages.backed_tokens++;
    ck_assert(!kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

static Suite *pages_suite(void)
{
    Suite *suite = suite_create("pages");
    TCase *tcase = tcase_create("pages");
    tcase_add_test(tcase, an_imported_history_is_backed_and_on_host_only);
    tcase_add_test(tcase, a_page_is_eligible_when_its_last_row_has_left_the_tail);
    tcase_add_test(tcase, a_page_lives_from_pending_to_host_and_back);
    tcase_add_test(tcase, only_eligible_pages_move_and_only_the_way_they_can);
    tcase_add_test(tcase, the_tail_waits_for_the_row_whose_slot_is_rewritten);
    tcase_add_test(tcase, a_step_that_waited_for_its_tail_commits_before_the_boundary);
    tcase_add_test(tcase, a_resident_history_is_ready_for_ever);
    tcase_add_loop_test(tcase, pages_agree_with_a_twin_that_follows_each_row, 0, 24);
    tcase_add_test(tcase, broken_pages_are_noticed);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(pages_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
