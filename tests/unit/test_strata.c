/* test_strata.c -- stores that are alike, and a fair draw among them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/strata.h"
#include "support/shipped.h"

enum {
    REQUESTS = 20000
};

static struct kvt_arena *arena;

static void make_arena(void)
{
    arena = kvt_arena_new(1 << 16);
}

static void free_arena(void)
{
    kvt_arena_free(arena);
}

static struct kvt_strata strata_of(const struct kvt_llm *llm, uint32_t sample_stores)
{
    struct kvt_strata strata;
    struct kvt_error err = {0};
    kvt_status status = kvt_strata_init(&strata, llm, sample_stores, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    return strata;
}

START_TEST(stores_that_differ_in_layers_alone_are_alike)
{
    struct kvt_strata strata = strata_of(shipped_llm(arena, "glm-5.3"), 1);
    ck_assert_uint_eq(strata.count, 1);
    ck_assert_uint_eq(strata.strata[0].stores, 21);
    ck_assert_uint_eq(strata.strata[0].layers, 78);
    ck_assert_uint_eq(strata.strata[0].selectors, 1);
    ck_assert_uint_eq(strata.strata[0].compress_ratio, 1);
    ck_assert_uint_eq(strata.strata[0].followed, 1);
}
END_TEST

START_TEST(ratio_and_number_of_selectors_tell_stores_apart)
{
    /* Sources of ratio 2 with one selector each, and one of ratio 1 with five. */
    struct kvt_strata strata = strata_of(shipped_llm(arena, "deepseek-v4.1-flash"), 2);
    ck_assert_uint_eq(strata.count, 2);
    ck_assert_uint_eq(strata.strata[0].stores, 3);
    ck_assert_uint_eq(strata.strata[0].compress_ratio, 2);
    ck_assert_uint_eq(strata.strata[0].selectors, 1);
    ck_assert_uint_eq(strata.strata[0].followed, 2);
    ck_assert_uint_eq(strata.strata[1].stores, 1);
    ck_assert_uint_eq(strata.strata[1].compress_ratio, 1);
    ck_assert_uint_eq(strata.strata[1].selectors, 5);
    ck_assert_uint_eq(strata.strata[1].followed, 1);
    ck_assert_uint_eq(kvt_strata_followed(&strata), 3);
}
END_TEST

START_TEST(no_sample_and_a_sample_of_more_follow_all)
{
    const struct kvt_llm *llm = shipped_llm(arena, "glm-5.3");
    uint32_t stores[KVT_STORES_MAX];
    const uint32_t samples[] = {0, 21, 22, 1000};
    for (size_t i = 0; i < 4; i++) {
        struct kvt_strata strata = strata_of(llm, samples[i]);
        ck_assert_uint_eq(kvt_strata_followed(&strata), 21);
        ck_assert_uint_eq(kvt_strata_draw(&strata, llm->store_count, 1, 7, stores), 21);
        for (uint32_t s = 0; s < 21; s++)
            ck_assert_uint_eq(stores[s], s);
    }
}
END_TEST

START_TEST(each_store_is_drawn_as_often_as_any_other_of_its_kind)
{
    static const char *const models[] = {"glm-5.3", "deepseek-v4.1-flash"};
    const struct kvt_llm *llm = shipped_llm(arena, models[_i]);
    struct kvt_strata strata = strata_of(llm, 2);
    uint32_t drawn[KVT_STORES_MAX] = {0}, stores[KVT_STORES_MAX];
    for (uint32_t request = 0; request < REQUESTS; request++) {
        uint32_t count = kvt_strata_draw(&strata, llm->store_count, 2385, request, stores);
        ck_assert_uint_eq(count, kvt_strata_followed(&strata));
        for (uint32_t i = 0; i < count; i++) {
            ck_assert(i == 0 || stores[i - 1] < stores[i]);
            drawn[stores[i]]++;
        }
    }
    for (uint32_t s = 0; s < llm->store_count; s++) {
        const struct kvt_stratum *stratum = &strata.strata[strata.stratum_of[s]];
        double p = (double)stratum->followed / stratum->stores;
        double sigma = sqrt(REQUESTS * p * (1 - p));
        ck_assert_msg(fabs(drawn[s] - REQUESTS * p) <= 5 * sigma, "store %u: %u draws, %g expected",
                      s, drawn[s], REQUESTS * p);
    }
}
END_TEST

START_TEST(a_draw_is_of_the_seed_and_the_request_alone)
{
    const struct kvt_llm *llm = shipped_llm(arena, "glm-5.3");
    struct kvt_strata strata = strata_of(llm, 3);
    uint32_t a[KVT_STORES_MAX], b[KVT_STORES_MAX], others = 0, other_seeds = 0;
    for (uint32_t request = 0; request < 50; request++) {
        (void)kvt_strata_draw(&strata, llm->store_count, 1, request, a);
        (void)kvt_strata_draw(&strata, llm->store_count, 1, request, b);
        ck_assert_mem_eq(a, b, 3 * sizeof a[0]);
        (void)kvt_strata_draw(&strata, llm->store_count, 1, request + 1, b);
        others += memcmp(a, b, 3 * sizeof a[0]) != 0;
        (void)kvt_strata_draw(&strata, llm->store_count, 2, request, b);
        other_seeds += memcmp(a, b, 3 * sizeof a[0]) != 0;
    }
    ck_assert_uint_ge(others, 45);
    ck_assert_uint_ge(other_seeds, 45);
}
END_TEST

START_TEST(more_kinds_of_stores_than_there_is_room_for_are_refused)
{
    struct kvt_llm llm = *shipped_llm(arena, "glm-5.3");
    struct kvt_strata strata;
    struct kvt_error err = {0};
    for (uint32_t s = 0; s < KVT_STRATA_MAX; s++)
        llm.stores[s].compress_ratio = s + 2; /* and ratio 1, of the others */
    ck_assert_int_eq(kvt_strata_init(&strata, &llm, 1, &err), KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "more than 8 kinds"));
}
END_TEST

static Suite *strata_suite(void)
{
    Suite *suite = suite_create("strata");
    TCase *tcase = tcase_create("strata");
    tcase_add_checked_fixture(tcase, make_arena, free_arena);
    tcase_add_test(tcase, stores_that_differ_in_layers_alone_are_alike);
    tcase_add_test(tcase, ratio_and_number_of_selectors_tell_stores_apart);
    tcase_add_test(tcase, no_sample_and_a_sample_of_more_follow_all);
    tcase_add_loop_test(tcase, each_store_is_drawn_as_often_as_any_other_of_its_kind, 0, 2);
    tcase_add_test(tcase, a_draw_is_of_the_seed_and_the_request_alone);
    tcase_add_test(tcase, more_kinds_of_stores_than_there_is_room_for_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(strata_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
