/* test_plugin.c -- the registry: every built-in is found by its name and declares itself fully. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/plugin.h"

/* What a scenario may name, in listing order. */
static const struct {
    enum kvt_plugin_kind kind;
    const char *word;
    const char *names;
} built_in[] = {
    {KVT_PLUGIN_RESIDENCY, "residency",
     "resident hisparse adaptive vllm-hybrid sglang-demote prefix-offload oracle-pages"},
    {KVT_PLUGIN_REPLACEMENT, "replacement",
     "lru access-lru fifo clock lfu sieve s3fifo arc 2q random sharded-lru belady oracle-pages "
     "bucketed-lru"},
    {KVT_PLUGIN_SCHEDULING, "scheduling", "fcfs sjf strata io-adaptive"},
    {KVT_PLUGIN_ROUTER, "router", "round-robin least-loaded shortest-queue cache-aware"},
    {KVT_PLUGIN_LAW, "law", "tape score recorded indexer score-mass"},
    {KVT_PLUGIN_SPECULATION, "speculation",
     "none dflash2 dspark mtp eagle eagle-tree medusa self-sparse"},
    {KVT_PLUGIN_TIMING, "timing", "roofline paper cost-table profile"},
    {KVT_PLUGIN_IMPORT, "import", "rate paper"},
    {KVT_PLUGIN_ARRIVAL, "arrival", "closed phases open sessions trace"},
    {KVT_PLUGIN_LENGTH, "length", "fixed lognormal empirical"},
    {KVT_PLUGIN_BACKEND, "backend", "sim cuda"},
};
enum {
    KINDS = sizeof built_in / sizeof built_in[0]
};

START_TEST(each_kind_lists_its_built_ins_in_order)
{
    char names[256] = "";
    size_t used = 0;
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, built_in[_i].kind, &count);

    ck_assert_int_eq(KINDS, KVT_PLUGIN_KINDS);
    ck_assert_str_eq(kvt_plugin_kind_name(built_in[_i].kind), built_in[_i].word);
    for (size_t i = 0; i < count; i++) {
        int wrote =
            snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? " " : "", list[i]->name);
        used += (size_t)wrote;
        ck_assert_uint_lt(used, sizeof names);
    }
    ck_assert_str_eq(names, built_in[_i].names);
}
END_TEST

START_TEST(a_plugin_is_found_by_its_name)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, built_in[_i].kind, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kvt_plugin_info *found = NULL;
        struct kvt_error err;
        ck_assert_int_eq(
            kvt_plugin_find(NULL, built_in[_i].kind, list[i]->name, "place", &found, &err), KVT_OK);
        ck_assert_ptr_eq(found, list[i]);
    }
}
END_TEST

START_TEST(every_table_says_its_abi_its_size_and_what_it_is)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, built_in[_i].kind, &count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(list[i]->abi, KVT_ABI_VERSION);
        ck_assert_uint_ge(list[i]->struct_bytes, sizeof(struct kvt_plugin_info));
        ck_assert_uint_gt(strlen(list[i]->summary), 0);
        ck_assert(list[i]->param_count == 0 || list[i]->params != NULL);
    }
}
END_TEST

static bool has_choices(const struct kvt_param_spec *spec)
{
    return spec->type == KVT_PARAM_CHOICE || spec->type == KVT_PARAM_RECORDS;
}

static bool has_bounds(const struct kvt_param_spec *spec)
{
    return spec->type != KVT_PARAM_BOOL && spec->type != KVT_PARAM_CHOICE;
}

START_TEST(every_parameter_has_a_name_of_its_own_bounds_and_help)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, built_in[_i].kind, &count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < list[i]->param_count; j++) {
            const struct kvt_param_spec *spec = &list[i]->params[j];
            ck_assert_uint_gt(strlen(spec->name), 0);
            ck_assert_uint_eq(strcspn(spec->name, "./ "), strlen(spec->name));
            ck_assert_uint_gt(strlen(spec->help), 0);
            ck_assert_int_eq(spec->choices != NULL, has_choices(spec));
            if (has_bounds(spec))
                ck_assert(isfinite(spec->minimum) && spec->minimum <= spec->maximum);
            for (size_t k = 0; k < j; k++)
                ck_assert_str_ne(spec->name, list[i]->params[k].name);
        }
    }
}
END_TEST

START_TEST(an_unknown_name_is_answered_with_those_there_are)
{
    const struct kvt_plugin_info *found = NULL;
    struct kvt_error err;

    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_ROUTER, "sticky",
                                     "my.json#/cluster/router/policy", &found, &err),
                     KVT_ERR_NOT_FOUND);
    ck_assert_str_eq(err.where, "my.json#/cluster/router/policy");
    ck_assert_str_eq(err.message, "\"sticky\": no such router policy; there are: "
                                  "round-robin, least-loaded, shortest-queue, cache-aware; "
                                  "--plugin FILE.so brings others");
    ck_assert_ptr_null(found);
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, "LRU", "", &found, &err),
                     KVT_ERR_NOT_FOUND);
}
END_TEST

START_TEST(what_is_no_kind_has_no_plugins)
{
    const struct kvt_plugin_info *found = NULL;
    struct kvt_error err;
    size_t count = 1;

    ck_assert_ptr_null(kvt_plugin_list(NULL, KVT_PLUGIN_KINDS, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(kvt_plugin_find(NULL, KVT_PLUGIN_KINDS, "lru", "", &found, &err),
                     KVT_ERR_INTERNAL);
    ck_assert_str_eq(kvt_plugin_kind_name(KVT_PLUGIN_KINDS), "unknown");
}
END_TEST

/* Of a router, which may have said something before. */
static kvt_status outcome_of(kvt_status status, const char *says, struct kvt_error *err)
{
    static const struct kvt_plugin_info info = {.name = "mute"};

    (void)kvt_fail(err, KVT_ERR_IO, "elsewhere", "an older sentence");
    kvt_plugin_hear(err);
    if (says != NULL)
        (void)kvt_fail(err, status, "place", "%s", says);
    return kvt_plugin_outcome(&info, "init", status, err);
}

START_TEST(a_plugin_that_fails_in_words_is_quoted)
{
    struct kvt_error err;

    ck_assert_int_eq(outcome_of(KVT_OK, NULL, &err), KVT_OK);
    ck_assert_int_eq(outcome_of(KVT_ERR_INVALID, "too few ranks", &err), KVT_ERR_INVALID);
    ck_assert_int_eq(err.status, KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "place");
    ck_assert_str_eq(err.message, "too few ranks");
}
END_TEST

START_TEST(a_plugin_that_fails_without_a_word_is_told_as_that)
{
    static const char silent[] = "init() failed and does not say why; host->fail() is expected";
    struct kvt_error err;

    for (int status = KVT_ERR_NOMEM; status <= KVT_ERR_SYSTEM; status++) {
        ck_assert_int_eq(outcome_of((kvt_status)status, NULL, &err), KVT_ERR_POLICY);
        ck_assert_int_eq(err.status, KVT_ERR_POLICY);
        ck_assert_str_eq(err.where, "mute");
        ck_assert_str_eq(err.message, silent);
    }
    ck_assert_int_eq(outcome_of(KVT_ERR_INVALID, "", &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.message, silent);
    ck_assert_int_eq(outcome_of(KVT_ERR_INVALID, NULL, NULL), KVT_ERR_INVALID);
}
END_TEST

START_TEST(a_number_that_is_no_status_is_a_failure_whatever_is_said)
{
    static const int numbers[] = {4711, -1, KVT_ERR_SYSTEM + 1};
    struct kvt_error err;
    char words[64];

    (void)snprintf(words, sizeof words, "init() returned %d, which is no kvt_status", numbers[_i]);
    ck_assert_int_eq(outcome_of((kvt_status)numbers[_i], NULL, &err), KVT_ERR_POLICY);
    ck_assert_msg(strstr(err.message, words) == err.message, "%s", err.message);
    ck_assert_int_eq(outcome_of((kvt_status)numbers[_i], "so", &err), KVT_ERR_POLICY);
    ck_assert_int_eq(err.status, KVT_ERR_POLICY);
    ck_assert_int_eq(outcome_of((kvt_status)numbers[_i], NULL, NULL), KVT_ERR_POLICY);
}
END_TEST

START_TEST(the_host_lends_our_own_streams_and_errors)
{
    const struct kvt_host *host = kvt_host();
    struct kvt_rng lent = host->rng_stream(7, KVT_RNG_POLICY, 3);
    struct kvt_rng ours = kvt_rng_stream(7, KVT_RNG_POLICY, 3);
    struct kvt_error err;

    ck_assert_uint_eq(host->abi, KVT_ABI_VERSION);
    ck_assert_uint_eq(host->struct_bytes, sizeof *host);
    ck_assert_uint_eq(host->rng_u64(&lent), kvt_rng_u64(&ours));
    ck_assert_uint_eq(host->rng_below(&lent, 1000), kvt_rng_below(&ours, 1000));
    ck_assert_double_eq(host->rng_unit(&lent), kvt_rng_unit(&ours));
    ck_assert_int_eq((host->fail)(&err, KVT_ERR_POLICY, "mine", "%d slots", 3), KVT_ERR_POLICY);
    ck_assert_str_eq(err.message, "3 slots");
}
END_TEST

static Suite *plugin_suite(void)
{
    Suite *suite = suite_create("plugin");
    TCase *tables = tcase_create("tables");

    tcase_add_loop_test(tables, each_kind_lists_its_built_ins_in_order, 0, KINDS);
    tcase_add_loop_test(tables, a_plugin_is_found_by_its_name, 0, KINDS);
    tcase_add_loop_test(tables, every_table_says_its_abi_its_size_and_what_it_is, 0, KINDS);
    tcase_add_loop_test(tables, every_parameter_has_a_name_of_its_own_bounds_and_help, 0, KINDS);
    tcase_add_test(tables, an_unknown_name_is_answered_with_those_there_are);
    tcase_add_test(tables, what_is_no_kind_has_no_plugins);
    tcase_add_test(tables, a_plugin_that_fails_in_words_is_quoted);
    tcase_add_test(tables, a_plugin_that_fails_without_a_word_is_told_as_that);
    tcase_add_loop_test(tables, a_number_that_is_no_status_is_a_failure_whatever_is_said, 0, 3);
    tcase_add_test(tables, the_host_lends_our_own_streams_and_errors);
    suite_add_tcase(suite, tables);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(plugin_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
