/* test_event.c -- one total order of events. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/event.h"
#include "kvt/rng.h"
#include "support/support.h"

static struct kvt_event event_at(kvt_ns time_ns, uint16_t phase, uint64_t payload)
{
    return (struct kvt_event){.time_ns = time_ns, .phase = phase, .payload = payload, .seq = 999};
}

static void push(struct kvt_eventq *queue, kvt_ns time_ns, uint16_t phase, uint64_t payload)
{
    struct kvt_event event = event_at(time_ns, phase, payload);
    struct kvt_error err;
    ck_assert_int_eq(kvt_eventq_push(queue, &event, &err), KVT_OK);
}

/* The naive twin: an unsorted list, searched whole at each pop. */
struct list {
    struct kvt_event events[4096];
    size_t length;
    uint64_t next_seq;
};

static void list_push(struct list *list, struct kvt_event event)
{
    event.seq = list->next_seq++;
    list->events[list->length++] = event;
}

static struct kvt_event list_pop(struct list *list)
{
    size_t best = 0;
    for (size_t i = 1; i < list->length; i++) {
        const struct kvt_event *a = &list->events[i];
        const struct kvt_event *b = &list->events[best];
        bool is_earlier = a->time_ns < b->time_ns ||
                          (a->time_ns == b->time_ns && a->phase < b->phase) ||
                          (a->time_ns == b->time_ns && a->phase == b->phase && a->seq < b->seq);
        if (is_earlier)
            best = i;
    }
    struct kvt_event found = list->events[best];
    list->events[best] = list->events[--list->length];
    return found;
}

START_TEST(events_leave_in_the_order_of_a_sorted_list)
{
    static struct list list;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct kvt_rng rng = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
        memset(&list, 0, sizeof list);
        struct kvt_eventq *queue = kvt_eventq_new(1);
        kvt_ns now_ns = 0;
        uint64_t ties = 0;
        uint64_t pops = 0;
        struct kvt_event last = {.time_ns = -1};
        for (int i = 0; i < 4000; i++) {
            bool adds = list.length == 0 || kvt_rng_below(&rng, 100) < (i < 2000 ? 65 : 35);
            if (adds) {
                struct kvt_event event = event_at(now_ns + (kvt_ns)kvt_rng_below(&rng, 40),
                                                  (uint16_t)kvt_rng_below(&rng, 5), (uint64_t)i);
                list_push(&list, event);
                if (kvt_eventq_push(queue, &event, NULL) != KVT_OK)
                    ck_abort_msg("seed %d, step %d: refused", (int)seed, i);
            } else {
                struct kvt_event expected = list_pop(&list);
                struct kvt_event peeked;
                struct kvt_event found;
                if (!kvt_eventq_peek(queue, &peeked) || !kvt_eventq_pop(queue, &found) ||
                    memcmp(&found, &expected, sizeof found) != 0 ||
                    memcmp(&peeked, &expected, sizeof peeked) != 0)
                    ck_abort_msg("seed %d, step %d", (int)seed, i);
                ties += pops > 0 && found.time_ns == last.time_ns && found.phase == last.phase;
                pops++;
                last = found;
                now_ns = found.time_ns;
            }
            if (kvt_eventq_length(queue) != list.length ||
                (i % 16 == 0 && !kvt_eventq_is_sane(queue)))
                ck_abort_msg("seed %d, step %d", (int)seed, i);
        }
        ck_assert_uint_eq(kvt_eventq_ties(queue), ties);
        kvt_eventq_free(queue);
    }
}
END_TEST

START_TEST(equal_events_keep_the_order_they_came_in)
{
    struct kvt_eventq *queue = kvt_eventq_new(0);
    for (uint64_t i = 0; i < 1000; i++)
        push(queue, 5, KVT_PHASE_ARRIVE, i);
    struct kvt_event event;
    for (uint64_t i = 0; i < 1000; i++) {
        ck_assert(kvt_eventq_pop(queue, &event));
        ck_assert_uint_eq(event.payload, i);
        ck_assert_uint_eq(event.seq, i);
    }
    ck_assert_uint_eq(kvt_eventq_ties(queue), 999);
    kvt_eventq_free(queue);
}
END_TEST

START_TEST(at_one_instant_what_finishes_comes_before_what_arrives)
{
    struct kvt_eventq *queue = kvt_eventq_new(8);
    push(queue, 7, KVT_PHASE_STOP, 4);
    push(queue, 7, KVT_PHASE_OBSERVE, 3);
    push(queue, 7, KVT_PHASE_SCHEDULE, 2);
    push(queue, 7, KVT_PHASE_ARRIVE, 1);
    push(queue, 7, KVT_PHASE_COMPLETE, 0);
    struct kvt_event event;
    for (uint64_t i = 0; i < 5; i++) {
        ck_assert(kvt_eventq_pop(queue, &event));
        ck_assert_uint_eq(event.payload, i);
    }
    ck_assert_uint_eq(kvt_eventq_ties(queue), 0);
    kvt_eventq_free(queue);
}
END_TEST

START_TEST(the_past_is_closed)
{
    struct kvt_eventq *queue = kvt_eventq_new(8);
    struct kvt_error err;
    struct kvt_event event = event_at(KVT_NS_NEVER, 0, 0);
    ck_assert_int_eq(kvt_eventq_push(queue, &event, &err), KVT_ERR_INVALID);
    push(queue, 100, KVT_PHASE_OBSERVE, 0);
    push(queue, 200, KVT_PHASE_OBSERVE, 0);
    ck_assert(kvt_eventq_pop(queue, &event));

    event = event_at(99, 0, 0);
    ck_assert_int_eq(kvt_eventq_push(queue, &event, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "an event at 99 ns is in the past; the queue is at 100 ns, and "
                                  "events come no earlier");
    ck_assert_uint_eq(kvt_eventq_length(queue), 1);
    /* The present is not the past, whatever the phase. */
    push(queue, 100, KVT_PHASE_COMPLETE, 17);
    ck_assert(kvt_eventq_pop(queue, &event));
    ck_assert_uint_eq(event.payload, 17);
    /* Neither refusal took a number. */
    ck_assert_uint_eq(event.seq, 2);
    kvt_eventq_free(queue);
}
END_TEST

START_TEST(a_phase_that_does_not_exist_is_refused)
{
    struct kvt_eventq *queue = kvt_eventq_new(8);
    struct kvt_error err;
    struct kvt_event event = event_at(1, KVT_PHASE_STOP + 1, 0);
    ck_assert_int_eq(kvt_eventq_push(queue, &event, &err), KVT_ERR_INVALID);
    ck_assert_uint_eq(kvt_eventq_length(queue), 0);
    kvt_eventq_free(queue);
}
END_TEST

START_TEST(an_empty_queue_has_nothing_to_give)
{
    struct kvt_eventq *queue = kvt_eventq_new(0);
    struct kvt_event event = event_at(3, 3, 3);
    ck_assert(!kvt_eventq_pop(queue, &event));
    ck_assert(!kvt_eventq_peek(queue, &event));
    ck_assert_uint_eq(event.payload, 3);
    ck_assert_uint_eq(kvt_eventq_length(queue), 0);
    ck_assert(kvt_eventq_is_sane(queue));
    kvt_eventq_free(queue);
    kvt_eventq_free(NULL);
}
END_TEST

START_TEST(the_hinted_number_of_events_allocates_nothing)
{
    struct kvt_eventq *queue = kvt_eventq_new(1000);
    uint64_t before = support_allocations();
    struct kvt_event event;
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            event = event_at((kvt_ns)(1000 * round) + (kvt_ns)(i * 7919 % 1000), 0, i);
            if (kvt_eventq_push(queue, &event, NULL) != KVT_OK)
                ck_abort_msg("refused");
        }
        while (kvt_eventq_pop(queue, &event))
            continue;
    }
    ck_assert_uint_eq(support_allocations(), before);
    kvt_eventq_free(queue);
}
END_TEST

START_TEST(short_memory_leaves_the_queue_as_it_was)
{
    if (!support_can_fail_allocations())
        return;
    for (uint64_t nth = 0; nth < 2; nth++) {
        support_fail_allocation(nth);
        struct kvt_eventq *none = kvt_eventq_new(4);
        ck_assert(support_allocation_failed());
        ck_assert_ptr_null(none);
    }
    ck_assert_ptr_null(kvt_eventq_new(SIZE_MAX));
    ck_assert_ptr_null(kvt_eventq_new(SIZE_MAX / 32));

    struct kvt_eventq *queue = kvt_eventq_new(1);
    push(queue, 5, 0, 1);
    struct kvt_event event = event_at(4, 0, 2);
    struct kvt_error err;
    support_fail_allocation(0);
    kvt_status status = kvt_eventq_push(queue, &event, &err);
    ck_assert(support_allocation_failed());
    ck_assert_int_eq(status, KVT_ERR_NOMEM);
    ck_assert_uint_eq(kvt_eventq_length(queue), 1);
    ck_assert(kvt_eventq_is_sane(queue));
    ck_assert(kvt_eventq_pop(queue, &event));
    ck_assert_uint_eq(event.payload, 1);
    kvt_eventq_free(queue);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event");
    TCase *cases = tcase_create("order");
    tcase_add_test(cases, events_leave_in_the_order_of_a_sorted_list);
    tcase_add_test(cases, equal_events_keep_the_order_they_came_in);
    tcase_add_test(cases, at_one_instant_what_finishes_comes_before_what_arrives);
    tcase_add_test(cases, the_past_is_closed);
    tcase_add_test(cases, a_phase_that_does_not_exist_is_refused);
    tcase_add_test(cases, an_empty_queue_has_nothing_to_give);
    tcase_add_test(cases, the_hinted_number_of_events_allocates_nothing);
    tcase_add_test(cases, short_memory_leaves_the_queue_as_it_was);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
