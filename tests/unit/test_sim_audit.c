/* test_sim_audit.c -- what kvt_sim_audit() says of a run in order, and of one that was tampered
 * with: each fault is seen, counted once a look, and gone when it is put right. */
#include <stdlib.h>

#include <check.h>

#include "sim_private.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

static const char scenario_text[] =
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 7, \"model\": " DRAWN_MODEL ", "
    "\"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": "
    "{\"unified_gib\": 0.05}, \"growth_reserve_gib\": 0.01}, \"import\": {\"law\": \"rate\"}}, "
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 64}, "
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 3, \"requests\": 3, \"lengths\": "
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "
    "\"output\": {\"law\": \"fixed\", \"tokens\": 40}}}}";

/* A run in the middle of its decoding: three requests on one rank. */
struct middle {
    struct small_run small;
    struct kvt_rank *rank;
    struct kvt_live *live; /* the first of them */
};

static void middle_open(struct middle *middle)
{
    bool more = true;

    small_run_open(&middle->small, scenario_text, NULL, NULL);
    ck_assert_msg(middle->small.status == KVT_OK, "%s: %s", middle->small.err.where,
                  middle->small.err.message);
    middle->rank = &middle->small.sim->ranks[0];
    while (more && (middle->rank->running.count < 3 ||
                    middle->rank->running.items[0]->generated_tokens < 10))
        ck_assert_int_eq(kvt_sim_step(middle->small.sim, &more, &middle->small.err), KVT_OK);
    ck_assert(more);
    middle->live = middle->rank->running.items[0];
}

static struct kvt_sim_audit look(struct middle *middle)
{
    struct kvt_sim_audit audit = {0};

    ck_assert_int_eq(kvt_sim_audit(middle->small.sim, &audit, &middle->small.err), KVT_OK);
    ck_assert_uint_eq(audit.looks, 1);
    ck_assert_uint_eq(audit.requests, 3);
    return audit;
}

static uint64_t faults_of(const struct kvt_sim_audit *audit)
{
    return audit->lent + audit->homeless + audit->uncommitted + audit->wide_rings +
           audit->overstaged;
}

START_TEST(a_run_in_order_has_no_fault_and_looks_add_up)
{
    struct middle middle;
    struct kvt_sim_audit audit = {0};

    middle_open(&middle);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(kvt_sim_audit(middle.small.sim, &audit, &middle.small.err), KVT_OK);
    ck_assert_uint_eq(audit.looks, 2);
    ck_assert_uint_eq(audit.requests, 6);
    ck_assert_uint_eq(faults_of(&audit), 0);
    small_run_close(&middle.small);
}
END_TEST

START_TEST(bytes_of_the_required_that_are_lent_are_seen)
{
    static const enum kvt_mem_class required[] = {KVT_MEM_INDEX, KVT_MEM_HOT, KVT_MEM_TAIL};
    struct middle middle;

    middle_open(&middle);
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        uint64_t *bytes = &middle.live->holding.bytes[required[i]];
        uint64_t before = *bytes;
        *bytes = 0;
        ck_assert_uint_ge(look(&middle).lent, 1);
        *bytes = before;
        ck_assert_uint_eq(look(&middle).lent, 0);
    }
    small_run_close(&middle.small);
}
END_TEST

START_TEST(a_committed_row_that_is_nowhere_is_seen)
{
    struct middle middle;

    middle_open(&middle);
    struct kvt_pages *pages = &middle.live->pages;
    uint32_t backed = pages->backed_tokens, pending = pages->pending_count;
    pages->backed_tokens = 64;
    pages->pending_count = 0;
    ck_assert_uint_eq(look(&middle).homeless, 1);
    pages->backed_tokens = backed;
    pages->pending_count = pending;
    ck_assert_uint_eq(look(&middle).homeless, 0);
    small_run_close(&middle.small);
}
END_TEST

START_TEST(a_row_of_the_newest_token_is_seen)
{
    struct middle middle;

    middle_open(&middle);
    middle.live->generated_tokens--; /* the newest has a row already */
    struct kvt_sim_audit audit = look(&middle);
    ck_assert_uint_eq(audit.uncommitted, 1);
    ck_assert_uint_eq(faults_of(&audit), 1);
    middle.live->generated_tokens++;
    ck_assert_uint_eq(look(&middle).uncommitted, 0);
    small_run_close(&middle.small);
}
END_TEST

START_TEST(draft_rows_past_the_window_are_seen)
{
    struct middle middle;

    middle_open(&middle);
    middle.live->holding.bytes[KVT_MEM_RING] += 4096;
    ck_assert_uint_eq(look(&middle).wide_rings, 1);
    middle.live->holding.bytes[KVT_MEM_RING] -= 4096;
    ck_assert_uint_eq(look(&middle).wide_rings, 0);
    small_run_close(&middle.small);
}
END_TEST

START_TEST(a_step_that_stages_more_than_is_held_is_seen)
{
    struct middle middle;

    middle_open(&middle);
    struct group *group = &middle.small.sim->groups[0];
    uint64_t *staged = &middle.small.sim->rank_steps[0].outcome.staging_peak_bytes;
    uint64_t before = *staged;
    bool stepping = group->stepping;
    group->stepping = true;
    *staged = middle.rank->memory.used_by_class[KVT_MEM_STAGING] + 1;
    ck_assert_uint_eq(look(&middle).overstaged, 1);
    *staged = before;
    group->stepping = stepping;
    ck_assert_uint_eq(look(&middle).overstaged, 0);
    small_run_close(&middle.small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_audit");
    TCase *audit = tcase_create("audit");

    tcase_add_test(audit, a_run_in_order_has_no_fault_and_looks_add_up);
    tcase_add_test(audit, bytes_of_the_required_that_are_lent_are_seen);
    tcase_add_test(audit, a_committed_row_that_is_nowhere_is_seen);
    tcase_add_test(audit, a_row_of_the_newest_token_is_seen);
    tcase_add_test(audit, draft_rows_past_the_window_are_seen);
    tcase_add_test(audit, a_step_that_stages_more_than_is_held_is_seen);
    suite_add_tcase(suite, audit);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
