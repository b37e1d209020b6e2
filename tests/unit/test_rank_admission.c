/* test_rank_admission.c -- who was refused, and when he is looked at again. */
#include <check.h>
#include <stdlib.h>

#include "support/rank_bench.h"

enum {
    SHORT = 100,
    TOKEN = INDEX_TOKEN + PAYLOAD_TOKEN /* of a request that is whole */
};

static struct kvt_live *enqueue_short(void)
{
    struct kvt_live *live = bench_enqueue();

    live->input_tokens = SHORT;
    return live;
}

/* What one short request leaves in the pool is room for the next, however much of the reserve the
 * others have grown into meanwhile. */
START_TEST(who_was_refused_comes_in_when_the_pool_has_room_though_the_reserve_has_less)
{
    bench_start("resident", 1, (uint64_t)SHORT * TOKEN, (uint64_t)3 * SHORT * TOKEN);
    (void)bench_enqueue();
    struct kvt_live *first = enqueue_short();
    (void)enqueue_short();
    bench_boundary(0);
    ck_assert_uint_eq(bench.rank.importing.count, 2);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    bench_import_all();
    bench_boundary(1);
    for (kvt_ns now_ns = 2; now_ns < 2 + SHORT; now_ns++) {
        bench_step(now_ns);
        bench_boundary(now_ns);
    }
    ck_assert_uint_eq(bench.rank.memory.reserve_used, (uint64_t)2 * (SHORT + 1) * TOKEN);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    kvt_rank_release(&bench.rank, first);
    ck_assert_uint_eq(bench.rank.memory.reserve_used, (uint64_t)(SHORT + 1) * TOKEN);
    bench_boundary(2 + SHORT);
    ck_assert_uint_eq(bench.rank.waiting.count, 0);
    bench_stop();
}
END_TEST

static Suite *rank_admission_suite(void)
{
    Suite *suite = suite_create("rank_admission");
    TCase *tcase = tcase_create("rank_admission");
    tcase_add_test(tcase,
                   who_was_refused_comes_in_when_the_pool_has_room_though_the_reserve_has_less);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(rank_admission_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
