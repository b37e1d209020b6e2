/* test_crew.c -- every task is done once, by one worker at a time, however many there are. */
#include <stdatomic.h>
#include <stdlib.h>

#include <check.h>

#include "kvt/crew.h"

enum {
    TASKS_MAX = 1000
};

struct board {
    atomic_uint done[TASKS_MAX]; /* how often each task was done */
    atomic_uint busy[64];        /* tasks that each worker has in hand */
    atomic_bool twice;           /* some worker had two at once */
    unsigned size;
    atomic_bool stranger; /* a worker's number was out of range */
};

static void note(void *context, uint32_t task, unsigned worker)
{
    struct board *board = context;

    if (worker >= board->size) {
        atomic_store(&board->stranger, true);
        return;
    }
    if (atomic_fetch_add(&board->busy[worker], 1) != 0)
        atomic_store(&board->twice, true);
    atomic_fetch_add(&board->done[task], 1);
    atomic_fetch_sub(&board->busy[worker], 1);
}

static void check_crew(unsigned threads, uint32_t tasks, int calls)
{
    struct kvt_error err;
    struct kvt_crew *crew = NULL;
    struct board *board = calloc(1, sizeof *board);

    ck_assert_ptr_nonnull(board);
    ck_assert_int_eq(kvt_crew_new(threads, &crew, &err), KVT_OK);
    board->size = kvt_crew_size(crew);
    ck_assert_uint_ge(board->size, 1);
    ck_assert_uint_le(board->size, threads > 0 ? threads : 1);
    for (int call = 0; call < calls; call++)
        kvt_crew_run(crew, tasks, note, board);
    for (uint32_t task = 0; task < TASKS_MAX; task++)
        ck_assert_uint_eq(atomic_load(&board->done[task]), task < tasks ? (unsigned)calls : 0);
    ck_assert(!atomic_load(&board->twice));
    ck_assert(!atomic_load(&board->stranger));
    kvt_crew_free(crew);
    free(board);
}

START_TEST(every_task_is_done_once_a_call)
{
    for (unsigned threads = 0; threads <= 4; threads++) {
        check_crew(threads, TASKS_MAX, 20);
        check_crew(threads, 3, 200);
    }
}
END_TEST

START_TEST(no_task_and_one_task_are_no_trouble)
{
    check_crew(4, 0, 5);
    check_crew(4, 1, 5);
}
END_TEST

START_TEST(a_crew_that_never_worked_goes_home)
{
    struct kvt_error err;
    struct kvt_crew *crew = NULL;

    ck_assert_int_eq(kvt_crew_new(3, &crew, &err), KVT_OK);
    kvt_crew_free(crew);
    kvt_crew_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crew");
    TCase *tcase = tcase_create("crew");
    SRunner *runner = srunner_create(suite);

    tcase_add_test(tcase, every_task_is_done_once_a_call);
    tcase_add_test(tcase, no_task_and_one_task_are_no_trouble);
    tcase_add_test(tcase, a_crew_that_never_worked_goes_home);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
