/* test_hardware.c -- hardware files: what is shipped loads, what is wrong is refused in words. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hardware.h"
#include "kvt/json.h"
#include "support/shipped.h"

static struct kvt_arena *arena;

static void make_arena(void)
{
    arena = kvt_arena_new(4096);
    ck_assert_ptr_nonnull(arena);
}

static void free_arena(void)
{
    kvt_arena_free(arena);
}

static const char *const shipped[] = {"h100",         "h200",     "h20",      "b200",
                                      "b300",         "gb300",    "gh200",    "mi300x",
                                      "rtx-pro-6000", "rtx-4090", "a100-80gb"};
enum {
    SHIPPED = sizeof shipped / sizeof shipped[0]
};

START_TEST(every_shipped_gpu_loads_under_its_own_name)
{
    const struct kvt_hardware *hardware = shipped_hardware(arena, shipped[_i]);

    ck_assert_str_eq(hardware->name, shipped[_i]);
    ck_assert_str_eq(hardware->path, shipped[_i]);
    ck_assert_uint_gt(strlen(hardware->summary), 0);
}
END_TEST

START_TEST(every_shipped_gpu_is_faster_inside_than_over_its_link)
{
    const struct kvt_hardware *hardware = shipped_hardware(arena, shipped[_i]);

    ck_assert_uint_gt(hardware->hbm_bytes_per_s, hardware->link_h2d_bytes_per_s);
    ck_assert_double_ge(hardware->fp8_flops, hardware->bf16_flops);
    ck_assert_uint_ge(hardware->dram_bytes_per_s, hardware->link_h2d_bytes_per_s);
}
END_TEST

/* 141e9 / 2^30 x .92 - 87.965 - 15, by hand. */
START_TEST(an_h200_under_glm_5_3_at_tp_8_leaves_17_8_gib)
{
    const struct kvt_hardware *hardware = shipped_hardware(arena, "h200");

    ck_assert_double_eq_tol(kvt_hardware_kv_gib(hardware, 87.965375), 17.845, 0.001);
}
END_TEST

START_TEST(weights_that_do_not_fit_leave_less_than_nothing)
{
    const struct kvt_hardware *hardware = shipped_hardware(arena, "h100");

    ck_assert_double_lt(kvt_hardware_kv_gib(hardware, 87.965375), 0);
}
END_TEST

START_TEST(the_measured_link_is_the_h200s)
{
    const struct kvt_hardware *hardware = shipped_hardware(arena, "h200");

    ck_assert_uint_eq(hardware->link_h2d_bytes_per_s, 51300000000);
    ck_assert_uint_eq(hardware->link_d2h_bytes_per_s, 55300000000);
    ck_assert_double_ge(hardware->link_granules_per_s, 26e6);
    ck_assert_double_le(hardware->link_granules_per_s, 38e6);
}
END_TEST

static const struct refusal {
    struct shipped_edit edit;
    const char *where, *message; /* parts of each */
} refusals[] = {
    {{"/schema", "\"kvtide/llm/1\""}, "h200#", "expected \"kvtide/hardware/1\""},
    {{"/schema", NULL}, "schema", ""},
    {{"/name", "7"}, "name", ""},
    {{"/summary", NULL}, "summary", ""},
    {{"/hbm_gb", "\"141\""}, "/hbm_gb", ""},
    {{"/hbm_gb", "0"}, "/hbm_gb", ""},
    {{"/hbm_gb", NULL}, "/hbm_gb", ""},
    {{"/usable_fraction", "1.01"}, "/usable_fraction", ""},
    {{"/link_h2d_bytes_per_s", "51.3"}, "/link_h2d_bytes_per_s", ""},
    {{"/link_h2d_bytes_per_s", "-1"}, "/link_h2d_bytes_per_s", ""},
    {{"/gpus_per_node", "0"}, "/gpus_per_node", ""},
    {{"/gpus_per_node", "2.5"}, "/gpus_per_node", ""},
    {{"/hbm_bytes", "1"}, "", "hbm_bytes"},
    {{"/sources", NULL}, "sources", ""},
    {{"/sources", "[]"}, "sources", ""},
    {{"/sources/hbm_gb", NULL}, "/sources", "no source for \"hbm_gb\""},
    {{"/sources/hbm_gb", "\"\""}, "/sources", "the source of \"hbm_gb\" is no text"},
    {{"/sources/hbm_gb", "141"}, "/sources", "the source of \"hbm_gb\" is no text"},
    {{"/sources/colour", "\"a page\""}, "/sources", "\"colour\", which is no number"},
    {{"/sources/name", "\"a page\""}, "/sources", "\"name\", which is no number"},
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(a_wrong_file_is_refused_with_its_place)
{
    const struct refusal *refusal = &refusals[_i];
    struct kvt_hardware hardware = {.hbm_gb = 2.385};
    struct kvt_error err = {0};
    cJSON *tree = shipped_tree("hardware", "h200");

    shipped_apply(tree, &refusal->edit);
    ck_assert_int_ne(kvt_hardware_from_json(tree, "h200", arena, &hardware, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, refusal->where) != NULL || strstr(err.message, refusal->where),
                  "%s: where is %s, message %s", refusal->edit.pointer, err.where, err.message);
    ck_assert_msg(strstr(err.message, refusal->message) != NULL, "%s: %s", refusal->edit.pointer,
                  err.message);
    ck_assert_double_eq(hardware.hbm_gb, 2.385);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(what_is_no_object_is_refused)
{
    struct kvt_hardware hardware;
    struct kvt_error err = {0};
    cJSON *tree = cJSON_Parse("[1]");

    ck_assert_int_eq(kvt_hardware_from_json(tree, "a.json", arena, &hardware, &err),
                     KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "a.json#");
    cJSON_Delete(tree);
}
END_TEST

static Suite *hardware_suite(void)
{
    Suite *suite = suite_create("hardware");
    TCase *good = tcase_create("shipped");
    TCase *bad = tcase_create("refused");

    tcase_add_checked_fixture(good, make_arena, free_arena);
    tcase_add_loop_test(good, every_shipped_gpu_loads_under_its_own_name, 0, SHIPPED);
    tcase_add_loop_test(good, every_shipped_gpu_is_faster_inside_than_over_its_link, 0, SHIPPED);
    tcase_add_test(good, an_h200_under_glm_5_3_at_tp_8_leaves_17_8_gib);
    tcase_add_test(good, weights_that_do_not_fit_leave_less_than_nothing);
    tcase_add_test(good, the_measured_link_is_the_h200s);
    suite_add_tcase(suite, good);
    tcase_add_checked_fixture(bad, make_arena, free_arena);
    tcase_add_loop_test(bad, a_wrong_file_is_refused_with_its_place, 0, REFUSALS);
    tcase_add_test(bad, what_is_no_object_is_refused);
    suite_add_tcase(suite, bad);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(hardware_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
