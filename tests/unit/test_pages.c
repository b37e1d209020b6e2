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

static void start(struct kvt_pages *pages, uint32_t context, uint32_t queries, bool whole,
                  enum kvt_backup_rule rule)
{
    struct kvt_error err = {0};
    ck_assert_int_eq(kvt_pages_init(pages, context, LONGEST, queries, whole, rule, &err), KVT_OK);
}

/* A history with a hot cache whose rows are written at once, in calls of one query. */
static void start_plain(struct kvt_pages *pages, uint32_t context)
{
    start(pages, context, 1, false, KVT_BACKUP_AT_ONCE);
}

/* What a boundary does, with no page kept. */
static void settle(struct kvt_pages *pages, kvt_ns now_ns)
{
    kvt_pages_settle(pages, now_ns);
    kvt_pages_leave(pages, 0);
}

START_TEST(an_imported_history_is_backed_and_on_host_only)
{
    struct kvt_pages pages;
    start_plain(&pages, CONTEXT);
    settle(&pages, 0);
    ck_assert_uint_eq(pages.backed_tokens, CONTEXT);
    /* Rows from 1000 + 1 - 64 = 937 on are in the tail: 14 whole pages before it. */
    ck_assert_uint_eq(pages.eligible_pages, 14);
    ck_assert_uint_eq(pages.optional_pages + pages.filling_pages, 0);
    for (uint32_t page = 0; page < 14; page++)
        ck_assert_int_eq(kvt_pages_state(&pages, page), KVT_PAGE_HOST_ONLY);
    ck_assert_int_eq(kvt_pages_state(&pages, 14), KVT_PAGE_PINNED);
    ck_assert_int_eq(kvt_pages_state(&pages, 15), KVT_PAGE_PINNED);
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
        start(&pages, cases[i].context, cases[i].queries, false, KVT_BACKUP_AT_ONCE);
        settle(&pages, 0);
        ck_assert_msg(pages.eligible_pages == cases[i].eligible, "%u + %u: %u pages",
                      cases[i].context, cases[i].queries, pages.eligible_pages);
        kvt_pages_fini(&pages);
    }
}
END_TEST

START_TEST(a_page_lives_from_pending_to_host_and_back)
{
    struct kvt_pages pages;
    start_plain(&pages, 2 * PAGE);
    for (uint32_t i = 1; i <= PAGE; i++) {
        kvt_pages_commit(&pages, 1, 100 * (kvt_ns)i);
        settle(&pages, 0);
    }
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_PENDING);
    settle(&pages, 100 * PAGE - 1);
    ck_assert_uint_eq(pages.backed_tokens, 3 * PAGE - 1);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_PENDING);
    settle(&pages, 100 * PAGE);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_PINNED);
    for (uint32_t i = 1; i < PAGE; i++)
        kvt_pages_commit(&pages, 1, 100 * PAGE);
    settle(&pages, 100 * PAGE);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_HOST_ONLY);

    ck_assert(kvt_pages_can_fill(&pages, 1, 2));
    kvt_pages_begin_fill(&pages, 1, 2);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_FILLING);
    ck_assert_uint_eq(pages.filling_pages, 2);
    ck_assert(!(pages.ready_bits[0] & 4)); /* its bytes are counted, its rows not readable */
    ck_assert(!kvt_pages_can_release(&pages, 1, 2));
    kvt_pages_end_fill(&pages, 1, 2);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_OPTIONAL);
    ck_assert_uint_eq(pages.optional_pages, 2);
    ck_assert(pages.ready_bits[0] & 4);
    ck_assert(kvt_pages_can_release(&pages, 2, 1));
    kvt_pages_release(&pages, 2, 1);
    ck_assert_int_eq(kvt_pages_state(&pages, 2), KVT_PAGE_HOST_ONLY);
    ck_assert_int_eq(kvt_pages_state(&pages, 1), KVT_PAGE_OPTIONAL);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(only_eligible_pages_move_and_only_the_way_they_can)
{
    struct kvt_pages pages;
    start_plain(&pages, CONTEXT);
    ck_assert(!kvt_pages_can_fill(&pages, 0, 1)); /* nothing is, before a boundary */
    settle(&pages, 0);
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
    start_plain(&pages, CONTEXT);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 7), 7);
    for (uint32_t i = 0; i < T; i++)
        kvt_pages_commit(&pages, 1, 1000 + 10 * (kvt_ns)i);
    /* The next row takes the slot of row 1000, the first that is not backed. */
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 7), 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 3, 7), 1020);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 1005), 1005);
    settle(&pages, 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 1000), 1000);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 2, 1000), 1010);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(more_writes_than_are_told_apart_end_with_the_newest)
{
    struct kvt_pages pages;
    start_plain(&pages, CONTEXT);
    for (uint32_t i = 1; i <= KVT_BACKUPS_MAX; i++)
        kvt_pages_commit(&pages, 1, 1000 + (kvt_ns)i);
    ck_assert_uint_eq(pages.pending_count, KVT_BACKUPS_MAX);
    kvt_pages_commit(&pages, 1, 5000);
    ck_assert_uint_eq(pages.pending_count, KVT_BACKUPS_MAX);
    settle(&pages, 4999);
    ck_assert_uint_eq(pages.backed_tokens, CONTEXT + KVT_BACKUPS_MAX - 1);
    settle(&pages, 5000);
    ck_assert_uint_eq(pages.backed_tokens, CONTEXT + KVT_BACKUPS_MAX + 1);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_resident_history_is_ready_for_ever)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, 1, true, KVT_BACKUP_NEVER);
    for (int i = 0; i < 200; i++)
        kvt_pages_commit(&pages, 1, INT64_MAX);
    kvt_pages_settle(&pages, 0);
    ck_assert_uint_eq(pages.committed_tokens, CONTEXT + 200);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 5), 5);
    ck_assert_uint_eq(pages.eligible_pages + kvt_pages_held(&pages), 0);
    ck_assert_uint_eq(pages.clean_pages, 0); /* nothing has a copy */
    ck_assert_uint_gt(kvt_pages_readable(&pages), LONGEST / PAGE);
    for (uint32_t page = 0; page <= LONGEST / PAGE; page++)
        ck_assert(pages.ready_bits[page / 64] >> page % 64 & 1);
    ck_assert(!kvt_pages_can_release(&pages, 0, 1));
    ck_assert(kvt_pages_have_homes(&pages, 0));
    ck_assert(kvt_pages_is_sane(&pages));
    pages.ready_bits[0] ^= 1;
    ck_assert(!kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_whole_history_that_is_parted_has_optional_pages_and_keeps_the_rest)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, 1, true, KVT_BACKUP_LATER);
    kvt_pages_land(&pages, 0); /* it came into HBM: nothing is on host */
    ck_assert_uint_eq(pages.backed_tokens, 0);
    kvt_pages_queue_backup(&pages, 640, 50);
    kvt_pages_settle(&pages, 50);
    ck_assert_uint_eq(pages.clean_pages, 10);
    ck_assert_uint_eq(pages.eligible_pages, 0);
    /* 937 rows are out of the tail: pages 0 to 13 and a part of 14. */
    ck_assert_uint_eq(kvt_pages_kept_when_parted(&pages), 5);
    ck_assert_uint_eq(kvt_pages_await_backup(&pages), 4);
    kvt_pages_part(&pages);
    ck_assert(kvt_pages_is_sane(&pages));
    ck_assert_uint_eq(pages.optional_pages, 10);
    ck_assert_uint_eq(pages.kept_pages, 5);
    ck_assert_uint_eq(kvt_pages_await_backup(&pages), 4);
    ck_assert_uint_eq(kvt_pages_readable(&pages), 15);
    ck_assert_int_eq(kvt_pages_state(&pages, 9), KVT_PAGE_OPTIONAL);
    ck_assert_int_eq(kvt_pages_state(&pages, 10), KVT_PAGE_DIRTY);
    ck_assert(!kvt_pages_can_release(&pages, 10, 1));
    ck_assert_uint_eq(kvt_pages_release_from(&pages, 7), 3);
    ck_assert_int_eq(kvt_pages_state(&pages, 7), KVT_PAGE_HOST_ONLY);
    kvt_pages_queue_backup(&pages, CONTEXT, 90);
    ck_assert_int_eq(kvt_pages_state(&pages, 10), KVT_PAGE_PENDING);
    settle(&pages, 90);
    ck_assert_uint_eq(pages.optional_pages, 11);
    ck_assert_uint_eq(pages.kept_pages, 1); /* page 14, a part of which is in the tail */
    ck_assert_int_eq(kvt_pages_state(&pages, 14), KVT_PAGE_PINNED);
    ck_assert(kvt_pages_have_homes(&pages, 90));
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_page_kept_as_it_leaves_the_tail_becomes_optional_without_a_transfer)
{
    struct kvt_pages pages;
    uint32_t unbacked;
    start(&pages, CONTEXT, 1, false, KVT_BACKUP_LATER);
    settle(&pages, 0);
    for (int i = 0; i < 24; i++) {
        ck_assert_uint_eq(kvt_pages_begin_to_leave(&pages, &unbacked), 0);
        kvt_pages_commit(&pages, 1, 0);
        settle(&pages, 0);
    }
    /* 1,024 rows: the next one takes the slot of row 961, the second of page 15. */
    ck_assert_uint_eq(pages.committed_tokens, 1024);
    ck_assert_uint_eq(pages.left_pages, 16);
    /* As the page left, nothing was kept: its rows must go to host now. */
    ck_assert_uint_eq(kvt_pages_must_be_backed(&pages), 0); /* row 960 is on host */
    for (int i = 0; i < 40; i++) {
        kvt_pages_commit(&pages, 1, 0);
        settle(&pages, 0);
    }
    ck_assert_uint_eq(kvt_pages_must_be_backed(&pages), 1001);
    kvt_pages_queue_backup(&pages, 1024, 70);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 3), 70);
    kvt_pages_settle(&pages, 70);
    for (int i = 0; i < 24; i++)
        kvt_pages_commit(&pages, 1, 0);
    kvt_pages_settle(&pages, 70);
    ck_assert_uint_eq(kvt_pages_begin_to_leave(&pages, &unbacked), 1);
    ck_assert_uint_eq(unbacked, 1);
    kvt_pages_leave(&pages, 1);
    ck_assert_uint_eq(pages.kept_pages, 1);
    ck_assert_int_eq(kvt_pages_state(&pages, 16), KVT_PAGE_DIRTY);
    ck_assert_uint_eq(kvt_pages_must_be_backed(&pages), 0);
    ck_assert_int_eq(kvt_pages_tail_ready_ns(&pages, 1, 3), 3);
    for (int i = 0; i < 64; i++) {
        kvt_pages_commit(&pages, 1, 0);
        kvt_pages_settle(&pages, 70);
        ck_assert(kvt_pages_have_homes(&pages, 70));
        ck_assert(kvt_pages_is_sane(&pages));
    }
    ck_assert_uint_eq(kvt_pages_await_backup(&pages), 1);
    kvt_pages_queue_backup(&pages, 1088, 80);
    kvt_pages_settle(&pages, 80);
    ck_assert_int_eq(kvt_pages_state(&pages, 16), KVT_PAGE_OPTIONAL);
    ck_assert_uint_eq(pages.kept_pages, 0);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(pages_that_land_are_kept_until_their_copy_is_on_host)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, 1, false, KVT_BACKUP_LATER);
    ck_assert_uint_eq(pages.left_pages, kvt_pages_leaving(CONTEXT, 1));
    kvt_pages_land(&pages, 4);
    ck_assert_uint_eq(pages.kept_pages, 4);
    ck_assert_uint_eq(pages.backed_tokens, 11 * PAGE);
    ck_assert(kvt_pages_have_homes(&pages, 0));
    kvt_pages_settle(&pages, 0);
    ck_assert_uint_eq(pages.eligible_pages, 11);
    ck_assert_uint_eq(pages.optional_pages, 0);
    kvt_pages_queue_backup(&pages, CONTEXT, 10);
    kvt_pages_settle(&pages, 10);
    ck_assert_uint_eq(pages.optional_pages, 3);
    ck_assert_uint_eq(pages.kept_pages, 1);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(pages_that_were_found_are_on_host_and_may_be_in_hbm_too)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, 1, false, KVT_BACKUP_LATER);
    kvt_pages_take(&pages, 0);
    kvt_pages_take(&pages, 2);
    ck_assert_uint_eq(pages.kept_pages, 2);
    kvt_pages_settle(&pages, 0);
    ck_assert_uint_eq(pages.kept_pages, 0);
    ck_assert_uint_eq(pages.optional_pages, 2);
    ck_assert_int_eq(kvt_pages_state(&pages, 0), KVT_PAGE_OPTIONAL);
    ck_assert_int_eq(kvt_pages_state(&pages, 1), KVT_PAGE_HOST_ONLY);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);

    /* Whole: the rest came into HBM, and what was found is on host beside that. */
    start(&pages, CONTEXT, 1, true, KVT_BACKUP_LATER);
    kvt_pages_land(&pages, 0);
    kvt_pages_found(&pages, 7 * PAGE);
    kvt_pages_take(&pages, 2);
    kvt_pages_settle(&pages, 0);
    ck_assert_uint_eq(pages.backed_tokens, 7 * PAGE);
    ck_assert_uint_eq(pages.queued_tokens, 7 * PAGE);
    ck_assert_uint_eq(pages.clean_pages, 7);
    ck_assert(kvt_pages_is_sane(&pages));
    kvt_pages_fini(&pages);

    /* More of it has landed there: nothing is taken back. */
    start(&pages, CONTEXT, 1, false, KVT_BACKUP_LATER);
    kvt_pages_land(&pages, 4);
    kvt_pages_found(&pages, 7 * PAGE);
    ck_assert_uint_eq(pages.backed_tokens, 11 * PAGE);
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(a_row_without_a_home_is_noticed)
{
    struct kvt_pages pages;
    start(&pages, CONTEXT, 1, false, KVT_BACKUP_LATER);
    settle(&pages, 0);
    for (int i = 0; i < KVT_TAIL_ROWS; i++) {
        kvt_pages_commit(&pages, 1, 0);
        settle(&pages, 0);
    }
    ck_assert(kvt_pages_have_homes(&pages, 0)); /* row 1000 is the oldest of the tail */
    kvt_pages_commit(&pages, 1, 0);             /* and is gone: nobody wrote it */
    ck_assert(!kvt_pages_have_homes(&pages, 0));
    kvt_pages_queue_backup(&pages, 1001, 7);
    ck_assert(!kvt_pages_have_homes(&pages, 6));
    ck_assert(kvt_pages_have_homes(&pages, 7));
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
    uint32_t committed, queries, left;
    kvt_ns backed_at_ns[LONGEST + 64]; /* of each row; INT64_MAX: nobody has sent it */
    int place[LONGEST / PAGE + 2];
};

static bool twin_leaves(const struct twin *twin, uint32_t row, uint32_t queries)
{
    return row + T < twin->committed + queries;
}

static bool twin_eligible(const struct twin *twin, uint32_t page, kvt_ns now_ns)
{
    for (uint32_t row = page * PAGE; row < (page + 1) * PAGE; row++) {
        if (row >= twin->committed || !twin_leaves(twin, row, twin->queries) ||
            twin->backed_at_ns[row] > now_ns)
            return false;
    }
    return true;
}

/* Rows of a call of so many queries overwrite these; the latest write they wait for. */
static kvt_ns twin_tail_ready(const struct twin *twin, uint32_t queries, kvt_ns now_ns)
{
    kvt_ns ready_ns = now_ns;
    for (uint32_t q = 0; q < queries; q++) {
        uint32_t row = twin->committed + q; /* takes the slot of the row 64 before it */
        if (row >= T && row - T < twin->committed && twin->place[(row - T) / PAGE] != READY &&
            twin->backed_at_ns[row - T] > ready_ns)
            ready_ns = twin->backed_at_ns[row - T];
    }
    return ready_ns;
}

static void check_homes(const struct twin *twin, kvt_ns now_ns)
{
    for (uint32_t row = 0; row < twin->committed; row++) {
        if (twin_leaves(twin, row, 0) && twin->backed_at_ns[row] > now_ns &&
            twin->place[row / PAGE] != READY)
            ck_abort_msg("row %u of %u is nowhere", row, twin->committed);
    }
}

static uint32_t check_against(const struct kvt_pages *pages, const struct twin *twin, kvt_ns now_ns)
{
    uint32_t eligible = 0, ready = 0, up = 0, kept = 0;
    while (twin_eligible(twin, eligible, now_ns))
        eligible++;
    ck_assert_uint_eq(pages->eligible_pages, eligible);
    for (uint32_t page = 0; page < LONGEST / PAGE; page++) {
        static const enum kvt_page_state states[] = {
            [HOST] = KVT_PAGE_HOST_ONLY, [UP] = KVT_PAGE_FILLING, [READY] = KVT_PAGE_OPTIONAL};
        if (page < eligible)
            ck_assert_int_eq(kvt_pages_state(pages, page), states[twin->place[page]]);
        ready += page < eligible && twin->place[page] == READY;
        kept += page >= eligible && twin->place[page] == READY;
        up += twin->place[page] == UP;
    }
    ck_assert_uint_eq(pages->optional_pages, ready);
    ck_assert_uint_eq(pages->filling_pages, up);
    ck_assert_uint_eq(pages->kept_pages, kept);
    ck_assert(kvt_pages_is_sane(pages));
    ck_assert(kvt_pages_have_homes(pages, now_ns));
    check_homes(twin, now_ns);
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

/* Rows up to here go to host. */
static void twin_send(struct twin *twin, uint32_t tokens, kvt_ns done_ns)
{
    for (uint32_t row = 0; row < tokens; row++) {
        if (twin->backed_at_ns[row] == INT64_MAX)
            twin->backed_at_ns[row] = done_ns;
    }
}

/* Pages whose rows begin to leave: some of those that are not on host are kept, and rows that
 * are then without a home are sent. */
static void leave(struct kvt_pages *pages, struct twin *twin, kvt_ns now_ns, kvt_ns done_ns,
                  struct kvt_rng *rng)
{
    uint32_t end = twin->left, unbacked = 0, said;
    while (twin_leaves(twin, end * PAGE, twin->queries)) {
        bool on_host = true;
        for (uint32_t row = end * PAGE; row < (end + 1) * PAGE; row++)
            on_host = on_host && row < twin->committed && twin->backed_at_ns[row] <= now_ns;
        unbacked += !on_host;
        end++;
    }
    ck_assert_uint_eq(kvt_pages_begin_to_leave(pages, &said), end - twin->left);
    ck_assert_uint_eq(said, unbacked);
    uint32_t keep = pages->rule == KVT_BACKUP_LATER && kvt_rng_below(rng, 3) ? unbacked : 0;
    kvt_pages_leave(pages, keep);
    for (uint32_t page = end - keep; page < end; page++)
        twin->place[page] = READY;
    twin->left = end;
    uint32_t must = 0;
    for (uint32_t row = 0; row < twin->committed; row++) {
        if (twin_leaves(twin, row, twin->queries) && twin->backed_at_ns[row] > now_ns &&
            twin->place[row / PAGE] != READY)
            must = row + 1;
    }
    ck_assert_uint_eq(kvt_pages_must_be_backed(pages), must);
    if (must <= pages->queued_tokens)
        return;
    kvt_pages_queue_backup(pages, twin->committed, done_ns);
    twin_send(twin, twin->committed, done_ns);
}

START_TEST(pages_agree_with_a_twin_that_follows_each_row)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    static struct twin twin;
    struct kvt_pages pages;
    bool at_once = _i % 2;
    uint32_t queries = _i % 3 == 0 ? 1 : 1 + (uint32_t)kvt_rng_below(&rng, 8);
    kvt_ns now_ns = 0, last_done_ns = 0, lag_ns = (kvt_ns)kvt_rng_below(&rng, 200);

    memset(&twin, 0, sizeof twin);
    twin.committed = 1 + (uint32_t)kvt_rng_below(&rng, 2000);
    twin.queries = queries;
    for (uint32_t row = twin.committed; row < LONGEST + 64; row++)
        twin.backed_at_ns[row] = INT64_MAX;
    start(&pages, twin.committed, queries, false, at_once ? KVT_BACKUP_AT_ONCE : KVT_BACKUP_LATER);
    while (twin_leaves(&twin, twin.left * PAGE, queries))
        twin.left++;
    for (int step = 0; step < 300; step++) {
        last_done_ns = last_done_ns > now_ns + lag_ns ? last_done_ns : now_ns + lag_ns;
        kvt_pages_settle(&pages, now_ns);
        leave(&pages, &twin, now_ns, last_done_ns, &rng);
        if (!at_once && kvt_rng_below(&rng, 8) == 0 && pages.queued_tokens < twin.committed) {
            uint32_t more = (uint32_t)kvt_rng_below(&rng, twin.committed - pages.queued_tokens);
            twin_send(&twin, pages.queued_tokens + 1 + more, last_done_ns);
            kvt_pages_queue_backup(&pages, pages.queued_tokens + 1 + more, last_done_ns);
            kvt_pages_settle(&pages, now_ns);
        }
        uint32_t eligible = check_against(&pages, &twin, now_ns);
        for (int i = 0; i < 3; i++)
            move_some_pages(&pages, &twin, eligible, &rng);
        check_against(&pages, &twin, now_ns);

        uint32_t asked = 1 + (uint32_t)kvt_rng_below(&rng, queries);
        kvt_ns ready_ns = kvt_pages_tail_ready_ns(&pages, asked, now_ns);
        ck_assert_int_eq(ready_ns, twin_tail_ready(&twin, asked, now_ns));
        now_ns = ready_ns + 1 + (kvt_ns)kvt_rng_below(&rng, 5);
        uint32_t tokens = 1 + (uint32_t)kvt_rng_below(&rng, asked);
        if (twin.committed + tokens + queries > LONGEST)
            break;
        kvt_ns done_ns = now_ns + lag_ns + (kvt_ns)kvt_rng_below(&rng, 20);
        last_done_ns = done_ns > last_done_ns ? done_ns : last_done_ns;
        kvt_pages_commit(&pages, tokens, last_done_ns);
        twin.committed += tokens;
        if (at_once)
            twin_send(&twin, twin.committed, last_done_ns);
    }
    kvt_pages_fini(&pages);
}
END_TEST

START_TEST(broken_pages_are_noticed)
{
    struct kvt_pages pages;
    start_plain(&pages, CONTEXT);
    settle(&pages, 0);
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
    tcase_add_test(tcase, more_writes_than_are_told_apart_end_with_the_newest);
    tcase_add_test(tcase, a_whole_history_that_is_parted_has_optional_pages_and_keeps_the_rest);
    tcase_add_test(tcase, a_page_kept_as_it_leaves_the_tail_becomes_optional_without_a_transfer);
    tcase_add_test(tcase, pages_that_land_are_kept_until_their_copy_is_on_host);
    tcase_add_test(tcase, a_row_without_a_home_is_noticed);
    tcase_add_test(tcase, pages_that_were_found_are_on_host_and_may_be_in_hbm_too);
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
