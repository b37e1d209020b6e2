/* test_scenario_refused.c -- what of a scenario is refused, and the table of keys that decides. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/scenario.h"
#include "scenario_refusals.h"
#include "support/loaded.h"
#include "support/support.h"

/* ---- Refusals ----------------------------------------------------------------------------- */

START_TEST(a_bad_value_in_a_file_is_refused_where_it_stands)
{
    struct loaded loaded = loaded_over(in_files[_i].given, NULL, false);
    ck_assert_msg(loaded.status != KVT_OK, "accepted: %s", in_files[_i].given);
    loaded_check_refused(&loaded, loaded.status, in_files[_i].where, in_files[_i].words);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_bad_setting_is_refused_by_its_path)
{
    const char *const sets[LOADED_SETS_MAX] = {in_sets[_i].given};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    ck_assert_msg(loaded.status != KVT_OK, "accepted: %s", in_sets[_i].given);
    ck_assert_msg(strncmp(loaded.err.where, in_sets[_i].where, strlen(in_sets[_i].where)) == 0,
                  "\"%s\" is not at \"%s\"", loaded.err.where, in_sets[_i].where);
    ck_assert_msg(strstr(loaded.err.message, in_sets[_i].words) != NULL,
                  "\"%s\" does not say \"%s\"", loaded.err.message, in_sets[_i].words);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_file_that_is_no_scenario_is_refused)
{
    struct loaded loaded = loaded_text(whole_files[_i].given, NULL, false);
    ck_assert_msg(loaded.status != KVT_OK, "accepted: %s", whole_files[_i].given);
    loaded_check_refused(&loaded, loaded.status, whole_files[_i].where, whole_files[_i].words);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_source_that_is_not_there_is_answered_with_what_is)
{
    struct loaded loaded = loaded_from("quickstrat", NULL);
    loaded_check_refused(
        &loaded, KVT_ERR_NOT_FOUND, "quickstrat",
        "no such scenario; there are: agentic-74k, deepseek-v4.1-flash-500k, glm-5.3-100k");
    kvt_arena_free(loaded.arena);

    loaded = loaded_from("./quickstart", NULL);
    loaded_check_refused(&loaded, KVT_ERR_NOT_FOUND, "./quickstart", "no such scenario file");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_scenario_is_whole_or_refused_when_memory_runs_out)
{
    bool was_refused = true;
    for (uint64_t nth = 0; was_refused; nth += 1 + nth / 6) {
        struct kvt_arena *arena = kvt_arena_new(LOADED_ARENA_BYTES);
        const char *const sets[LOADED_SETS_MAX] = {"residency.hot_tokens=2k"};
        const struct kvt_scenario_options options = loaded_options(sets, false);
        struct kvt_scenario scenario;
        struct kvt_error err;
        support_fail_allocation(nth);
        kvt_status status = kvt_scenario_load("load-step", &options, arena, &scenario, &err);
        was_refused = support_allocation_failed();
        if (was_refused)
            ck_assert_str_eq(kvt_status_name(status), "KVT_ERR_NOMEM");
        else
            ck_assert_int_eq(status, KVT_OK);
        kvt_arena_free(arena);
    }
}
END_TEST

/* ---- The table of keys -------------------------------------------------------------------- */

START_TEST(the_schema_in_docs_is_the_one_of_the_table)
{
    char *schema = kvt_scenario_schema();
    char *file = support_read(KVT_TEST_ROOT "/docs/schema/scenario.schema.json", NULL);
    ck_assert_ptr_nonnull(schema);
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(strlen(file), strlen(schema) + 1);
    ck_assert_int_eq(strncmp(file, schema, strlen(schema)), 0);
    free(file);
    free(schema);
}
END_TEST

START_TEST(the_guide_has_a_row_for_every_key)
{
    struct kvt_arena *arena = kvt_arena_new(LOADED_ARENA_BYTES);
    const struct kvt_key_doc *docs = NULL;
    size_t count = 0;
    struct kvt_error err;
    char *guide = support_read(KVT_TEST_ROOT "/docs/scenario.md", NULL);
    ck_assert_ptr_nonnull(guide);
    ck_assert_int_eq(kvt_scenario_keys(arena, &docs, &count, &err), KVT_OK);
    for (size_t i = 0; i < count; i++) {
        char row[512];
        if (strchr(docs[i].path, '(') != NULL)
            continue; /* of a plug-in: `kvtide list -v` */
        (void)snprintf(row, sizeof row, "| `%s` | %s |", docs[i].path, docs[i].type);
        ck_assert_msg(strstr(guide, row) != NULL, "docs/scenario.md lacks: %s", row);
    }
    free(guide);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(the_table_and_its_schema_are_whole_or_refused_when_memory_runs_out)
{
    bool was_refused = true;
    for (uint64_t nth = 0; was_refused; nth++) {
        struct kvt_arena *arena = kvt_arena_new(1);
        const struct kvt_key_doc *docs = NULL;
        size_t count = 0;
        struct kvt_error err;
        support_fail_allocation(nth);
        kvt_status status = kvt_scenario_keys(arena, &docs, &count, &err);
        was_refused = support_allocation_failed();
        ck_assert_int_eq(status, was_refused ? KVT_ERR_NOMEM : KVT_OK);
        kvt_arena_free(arena);
    }
    was_refused = true;
    for (uint64_t nth = 0; was_refused; nth++) {
        support_fail_allocation(nth);
        char *schema = kvt_scenario_schema();
        was_refused = support_allocation_failed();
        ck_assert_int_eq(schema == NULL, was_refused);
        free(schema);
    }
}
END_TEST

START_TEST(every_default_of_the_table_is_accepted_by_its_own_key)
{
    struct kvt_arena *arena = kvt_arena_new(LOADED_ARENA_BYTES);
    const struct kvt_key_doc *docs = NULL;
    size_t count = 0;
    struct kvt_error err;
    ck_assert_int_eq(kvt_scenario_keys(arena, &docs, &count, &err), KVT_OK);
    for (size_t i = 0; i < count; i++) {
        char set[256];
        if (docs[i].dflt[0] == '\0' || strpbrk(docs[i].path, "([") != NULL ||
            strncmp(docs[i].path, "cluster.prefill.", 16) == 0)
            continue;
        (void)snprintf(set, sizeof set, "%s=%s", docs[i].path, docs[i].dflt);
        const char *members = "";
        if (strstr(set, "speculation") != NULL || strstr(set, "task") != NULL)
            members = "\"speculation\": \"dflash2\"";
        else if (strncmp(set, "residency.", 10) == 0)
            members = "\"residency\": {\"prefetch\": {\"recall\": 0.5}, "
                      "\"read_depth\": {\"shallow_share\": 0.5}}";
        struct loaded loaded = loaded_over(members, set, false);
        /* What else is said there may not go with it; the key itself takes it. Without experts
         * spread, the weights do not fit. */
        char where[256];
        (void)snprintf(where, sizeof where, "--set %s", docs[i].path);
        if (loaded.status != KVT_OK && strstr(loaded.err.message, "do not fit") == NULL)
            ck_assert_msg(strcmp(loaded.err.where, where) != 0, "%s: %s", set, loaded.err.message);
        kvt_arena_free(loaded.arena);
    }
    kvt_arena_free(arena);
}
END_TEST

/* ---- Suite -------------------------------------------------------------------------------- */

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

static Suite *scenario_refused_suite(void)
{
    Suite *suite = suite_create("scenario_refused");
    TCase *refusals = tcase_create("refusals");
    TCase *table = tcase_create("table");
    TCase *const cases[] = {refusals, table};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcase_add_checked_fixture(cases[i], loaded_folder_make, loaded_folder_remove);
        suite_add_tcase(suite, cases[i]);
    }
    tcase_add_loop_test(refusals, a_bad_value_in_a_file_is_refused_where_it_stands, 0,
                        COUNT(in_files));
    tcase_add_loop_test(refusals, a_bad_setting_is_refused_by_its_path, 0, COUNT(in_sets));
    tcase_add_loop_test(refusals, a_file_that_is_no_scenario_is_refused, 0, COUNT(whole_files));
    tcase_add_test(refusals, a_source_that_is_not_there_is_answered_with_what_is);
    tcase_add_test(refusals, a_scenario_is_whole_or_refused_when_memory_runs_out);

    tcase_add_test(table, the_schema_in_docs_is_the_one_of_the_table);
    tcase_add_test(table, the_guide_has_a_row_for_every_key);
    tcase_add_test(table, the_table_and_its_schema_are_whole_or_refused_when_memory_runs_out);
    tcase_add_test(table, every_default_of_the_table_is_accepted_by_its_own_key);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(scenario_refused_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
