/* test_wait_queue.c -- a line of waiting requests against a plain array. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/rng.h"
#include "serve/wait_queue.h"
#include "support/support.h"

enum {
    LIVES = 4096,
    CALLS = 6000
};

static struct kvt_live lives[LIVES];

static void name_lives(void)
{
    for (uint32_t i = 0; i < LIVES; i++)
        lives[i] = (struct kvt_live){.id = i,
                                     .arrival_ns = 1000 - (kvt_ns)i,
                                     .input_tokens = 7 * i,
                                     .generated_tokens = i % 3,
                                     .priority = i % 5};
}

static void check_same(const struct kvt_wait_queue *queue, const uint32_t *ids, uint32_t count)
{
    ck_assert_uint_eq(queue->count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_scheduling_request *view = &queue->views[i];
        ck_assert_uint_eq(queue->items[i]->id, ids[i]);
        ck_assert_uint_eq(view->id, ids[i]);
        ck_assert_int_eq(view->arrival_ns, 1000 - (kvt_ns)ids[i]);
        ck_assert_uint_eq(view->input_tokens, 7 * ids[i]);
        ck_assert_uint_eq(view->generated_tokens, ids[i] % 3);
        ck_assert_uint_eq(view->priority, ids[i] % 5);
    }
}

START_TEST(it_is_the_line_that_a_plain_array_would_be)
{
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, (uint64_t)_i);
    struct kvt_wait_queue queue = {0};
    struct kvt_error err = {0};
    uint32_t ids[LIVES], count = 0;
    uint64_t most = 8 + kvt_rng_below(&rng, 200);
    name_lives();
    for (int call = 0; call < CALLS; call++) {
        uint32_t id = (uint32_t)kvt_rng_below(&rng, LIVES);
        uint64_t what = kvt_rng_below(&rng, 8);
        if (what < 4 && count < most) {
            bool is_first = what == 0;
            kvt_status status = is_first ? wait_queue_push_first(&queue, &lives[id], &err)
                                         : wait_queue_push_last(&queue, &lives[id], &err);
            ck_assert_int_eq(status, KVT_OK);
            if (is_first)
                memmove(ids + 1, ids, count * sizeof ids[0]);
            ids[is_first ? 0 : count] = id;
            count++;
        } else if (count > 0) {
            uint32_t at = what < 7 ? 0 : (uint32_t)kvt_rng_below(&rng, count);
            wait_queue_remove_at(&queue, at);
            count--;
            memmove(ids + at, ids + at + 1, (count - at) * sizeof ids[0]);
        }
        if (call % 256 == 0 || call + 1 == CALLS)
            check_same(&queue, ids, count);
    }
    ck_assert_uint_le(queue.capacity, 1024);
    wait_queue_fini(&queue);
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

START_TEST(the_first_leaves_without_moving_the_others)
{
    struct kvt_wait_queue queue = {0};
    struct kvt_error err = {0};
    name_lives();
    for (uint32_t i = 0; i < LIVES; i++)
        ck_assert_int_eq(wait_queue_push_last(&queue, &lives[i], &err), KVT_OK);
    for (uint32_t i = 0; i < LIVES; i++) {
        struct kvt_live **second = queue.items + 1;
        ck_assert_uint_eq(queue.items[0]->id, i);
        wait_queue_remove_at(&queue, 0);
        ck_assert_ptr_eq(queue.items, second);
    }
    wait_queue_fini(&queue);
}
END_TEST

START_TEST(a_failed_push_changes_nothing)
{
    struct kvt_wait_queue queue = {0};
    struct kvt_error err = {0};
    name_lives();
    if (!support_can_fail_allocations())
        return;
    for (uint64_t nth = 0; nth < 2; nth++) {
        support_fail_allocation(nth);
        ck_assert_int_eq(wait_queue_push_first(&queue, &lives[0], &err), KVT_ERR_NOMEM);
        ck_assert(support_allocation_failed());
        ck_assert_uint_eq(queue.count, 0);
        ck_assert_uint_eq(queue.capacity, 0);
    }
    wait_queue_fini(&queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wait_queue");
    TCase *line = tcase_create("line");
    tcase_set_timeout(line, 20);
    tcase_add_loop_test(line, it_is_the_line_that_a_plain_array_would_be, 0, 10);
    tcase_add_test(line, the_first_leaves_without_moving_the_others);
    tcase_add_test(line, a_failed_push_changes_nothing);
    suite_add_tcase(suite, line);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
