/* test_plugin_abi.c -- what a shared object was compiled against: the layout of everything that it
 * and the program hand each other, as the ABI's number promises it. A change here is a change of
 * KVT_ABI_VERSION, or objects that were built before walk over arrays with the wrong stride. */
#include <check.h>
#include <stddef.h>
#include <stdlib.h>

#include "kvt/law.h"
#include "kvt/policy.h"
#include "kvt/speculation.h"

#define SIZE_OF(type, bytes)                                                                       \
    {                                                                                              \
#type, sizeof(type), bytes                                                                 \
    }

/* Of ABI 1, on a machine of 64 bits. Those that are elements of arrays, and those that lie within
 * others, keep their sizes; the rest may grow at their ends: then they are at least so long. */
static const struct {
    const char *name;
    size_t bytes, expected;
} elements[] = {
    SIZE_OF(struct kvt_param_spec, 232),
    SIZE_OF(struct kvt_param_value, 32),
    SIZE_OF(struct kvt_params, 16),
    SIZE_OF(struct kvt_idle, 40),
    SIZE_OF(struct kvt_plugin_info, 40),
    SIZE_OF(struct kvt_plugin_table, 16),
    SIZE_OF(struct kvt_error, 1028),
    SIZE_OF(struct kvt_rng, 16),
    SIZE_OF(struct kvt_residency_request, 136),
    SIZE_OF(struct kvt_residency_action, 16),
    SIZE_OF(struct kvt_scheduling_request, 24),
    SIZE_OF(struct kvt_scheduling_entry, 40),
    SIZE_OF(struct kvt_router_rank, 32),
    SIZE_OF(struct kvt_law_query, 12),
    SIZE_OF(struct kvt_speculation_request, 32),
    SIZE_OF(struct kvt_round, 396),
};

START_TEST(what_lies_in_arrays_keeps_its_size_within_an_abi)
{
    ck_assert_uint_eq(KVT_ABI_VERSION, 1);
    ck_assert_msg(elements[_i].bytes == elements[_i].expected,
                  "%s has %zu bytes, %zu were promised: raise KVT_ABI_VERSION", elements[_i].name,
                  elements[_i].bytes, elements[_i].expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin abi");
    TCase *layout = tcase_create("layout");

    tcase_add_loop_test(layout, what_lies_in_arrays_keeps_its_size_within_an_abi, 0,
                        sizeof elements / sizeof elements[0]);
    suite_add_tcase(suite, layout);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
