/* test_axis.c -- keys and the values that they are to have. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "cli/axis.h"

static const struct {
    const char *text, *path, *values; /* with a blank between them */
} taken[] = {
    {"a=1", "a", "1"},
    {"a.b=x,y,z", "a.b", "x y z"},
    {"a=b=c,d", "a", "b=c d"},
    {"a=[1,2],{\"x\":1,\"y\":[2,3]},\"p,q\"", "a", "[1,2] {\"x\":1,\"y\":[2,3]} \"p,q\""},
    {"a=\"x\\\",y\",z", "a", "\"x\\\",y\" z"},
    {"a=1:4:1", "a", "1 2 3 4"},
    {"a=1:4.5:1", "a", "1 2 3 4"},
    {"a=3:3:1", "a", "3"},
    {"a=-1:1:0.5", "a", "-1 -0.5 0 0.5 1"},
    /* 0.1 + 2 x 0.1 is no 0.3 in binary. */
    {"a=0.1:0.5:0.1", "a", "0.1 0.2 0.3 0.4 0.5"},
    {"a=1e3:3e3:1e3", "a", "1000 2000 3000"},
    {"a=0:1e-3:2.5e-4", "a", "0 0.00025 0.0005 0.00075 0.001"},
    {"a=1:8:*2", "a", "1 2 4 8"},
    {"a=1:1000:*10", "a", "1 10 100 1000"},
    /* Multiplied out the last is 1e-15 above 0.4. */
    {"a=0.1:0.4:*1.3195079107728946", "a",
     "0.1 0.131950791077289 0.174110112659225 0.229739670999407 0.30314331330208 0.4"},
    {"a=0.1:0.3:*1.1", "a",
     "0.1 0.11 0.121 0.1331 0.14641 0.161051 0.1771561 0.19487171 0.214358881 0.2357947691 "
     "0.25937424601 0.285311670611"},
    {"a=2k:8k:2k", "a", "2k 4k 6k 8k"},
    {"a=1k:2k:0.5k,3", "a", "1k 1.5k 2k 3"},
    {"a=1k:8k:*2", "a", "1k 2k 4k 8k"},
    {"a=2k,1:3:1,none", "a", "2k 1 2 3 none"},
    {"a=\"0:97\",0:97x", "a", "\"0:97\" 0:97x"},
};

static const struct {
    const char *text, *says;
} refused[] = {
    {"", "found \"\", expected PATH=V1,V2,.."},
    {"a", "found \"a\""},
    {"=1", "found \"=1\""},
    {"a b=1", "the path \"a b\""},
    {"a,b=1", "the path \"a,b\""},
    {"a=", "an empty value"},
    {"a=1,,2", "an empty value"},
    {"a=1,", "an empty value"},
    {"a=1:10", "found \"1:10\"; a range is LOW:HIGH:STEP"},
    {"a=5,1:2:3:4", "found \"1:2:3:4\""},
    {"a=1::2", "found \"1::2\""},
    {"a=1:2:*", "found \"1:2:*\""},
    {"a=1:2:1e999", "found \"1:2:1e999\""},
    {"a=4:1:1", "the range \"4:1:1\" is empty"},
    {"a=2k:8:1", "found \"2k:8:1\""},
    {"a=2:8k:1k", "found \"2:8k:1k\""},
    {"a=2k:8k:1", "found \"2k:8k:1\""},
    {"a=2k:8k", "found \"2k:8k\""},
    {"a=2k:8k:*2k", "found \"2k:8k:*2k\""},
    {"a=k:8k:k", "found \"k:8k:k\""},
    {"a=8k:2k:1k", "the range \"8k:2k:1k\" is empty"},
    {"a=1:4:0", "the range \"1:4:0\" has no end"},
    {"a=1:4:-1", "the range \"1:4:-1\" has no end"},
    {"a=1:4:*1", "the factor is above 1"},
    {"a=1:4:*0.5", "the factor is above 1"},
    {"a=0:4:*2", "the low end is above 0"},
    {"a=-4:4:*2", "the low end is above 0"},
    {"a=0:1e6:1", "the range \"0:1e6:1\" has more values than the 1000000"},
    {"a=-1e308:1e308:1e-308", "has more values than"},
    {"a=1:6e5:1,1:6e5:1", "with \"1:6e5:1\" there are more values than the 1000000"},
};

START_TEST(values_are_the_texts_between_commas_and_ranges_spelled_out)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 12);
    struct cli_axis axis;
    struct kvt_error err;
    char joined[512] = "";
    size_t used = 0;

    ck_assert_int_eq(cli_axis_parse(taken[_i].text, "sweep --vary", arena, &axis, &err), KVT_OK);
    ck_assert_str_eq(axis.path, taken[_i].path);
    for (size_t i = 0; i < axis.value_count; i++) {
        used += (size_t)snprintf(joined + used, sizeof joined - used, "%s%s", i > 0 ? " " : "",
                                 axis.values[i]);
        ck_assert_uint_lt(used, sizeof joined);
    }
    ck_assert_str_eq(joined, taken[_i].values);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 12);
    struct cli_axis axis = {0};
    struct kvt_error err;
    kvt_status status = cli_axis_parse(refused[_i].text, "sweep --vary", arena, &axis, &err);

    ck_assert_int_eq(status, KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "sweep --vary");
    ck_assert_msg(strstr(err.message, refused[_i].says) != NULL, "%s", err.message);
    ck_assert_ptr_null(axis.path);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(a_range_may_have_a_million_values)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 20);
    struct cli_axis axis;
    struct kvt_error err;

    ck_assert_int_eq(cli_axis_parse("a=1:1000000:1", "x", arena, &axis, &err), KVT_OK);
    ck_assert_uint_eq(axis.value_count, 1000000);
    ck_assert_str_eq(axis.values[0], "1");
    ck_assert_str_eq(axis.values[999999], "1000000");
    kvt_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("axis");
    TCase *tcase = tcase_create("axis");

    tcase_add_loop_test(tcase, values_are_the_texts_between_commas_and_ranges_spelled_out, 0,
                        sizeof taken / sizeof taken[0]);
    tcase_add_loop_test(tcase, what_is_wrong_is_named, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tcase, a_range_may_have_a_million_values);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
