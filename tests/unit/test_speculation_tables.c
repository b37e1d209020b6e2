/* test_speculation_tables.c -- tables of acceptance and of costs: what is shipped, what is read,
 * and what is refused in which words. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/speculation/acceptance.h"
#include "kvt/costs.h"
#include "support/support.h"

static const char *const tasks[] = {"default", "code", "poetry"};

static kvt_status load_text(const char *text, struct acceptance *out, struct kvt_error *err)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES];
    support_folder_make(&folder);
    support_write(support_path(&folder, "table.json", path), text, strlen(text));
    kvt_status status = acceptance_load(path, tasks, 3, out, err);
    support_folder_remove(&folder);
    return status;
}

static kvt_status load_costs(const char *text, struct kvt_costs *out, struct kvt_error *err)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES];
    support_folder_make(&folder);
    support_write(support_path(&folder, "table.json", path), text, strlen(text));
    kvt_status status = kvt_costs_load(path, out, err);
    support_folder_remove(&folder);
    return status;
}

#define HEAD(kind_) "{\"schema\": \"kvtide/" kind_ "/1\", \"name\": \"n\", \"summary\": \"s\", "

/* ---- Acceptance ------------------------------------------------------------------------ */

#define TABLE(tasks_)                                                                              \
    HEAD("acceptance") "\"tasks\": " tasks_ ", \"sources\": {\"tasks\": \"here\"}}"

START_TEST(a_table_is_read_by_the_runs_tasks)
{
    struct acceptance table;
    struct kvt_error err;
    kvt_status status =
        load_text(TABLE("{\"code\": [0.9, 0.25], \"default\": [1, 0.5, 0]}"), &table, &err);
    ck_assert_int_eq(status, KVT_OK);

    ck_assert_int_eq(table.basis, KVT_BASIS_ASSUMED);
    ck_assert_uint_eq(table.task_count, 3);
    ck_assert_double_eq(table.lists[0].chances[0], 1);
    ck_assert_double_eq(table.lists[0].chances[1], 0.5);
    ck_assert_double_eq(table.lists[0].chances[DRAFTS_MAX - 1], 0);
    ck_assert_double_eq(table.lists[1].chances[0], 0.9);
    ck_assert_double_eq(table.lists[1].chances[1], 0.25);
    ck_assert_double_eq(table.lists[1].chances[DRAFTS_MAX - 1], 0.25); /* past the list */
    ck_assert_mem_eq(&table.lists[2], &table.lists[0], sizeof table.lists[0]);
    acceptance_fini(&table);
    acceptance_fini(&table);
}
END_TEST

START_TEST(a_table_says_what_it_rests_on)
{
    struct acceptance table;
    struct kvt_error err;
    kvt_status status = load_text(HEAD("acceptance") "\"basis\": \"fitted-to-paper\", \"tasks\": "
                                                     "{\"default\": [0.5]}, \"sources\": "
                                                     "{\"tasks.default\": \"here\"}}",
                                  &table, &err);
    ck_assert_int_eq(status, KVT_OK);
    ck_assert_int_eq(table.basis, KVT_BASIS_FITTED);
    acceptance_fini(&table);
}
END_TEST

START_TEST(a_table_that_cannot_be_is_refused_by_place_and_sentence)
{
    static const struct {
        const char *text, *where, *message;
    } rows[] = {
        {"", "table.json", ""},
        {"{", "table.json:1", ""},
        {"[]", "table.json#", "object"},
        {TABLE("{\"default\": [0.5]}") "x", "table.json:1", ""},
        {TABLE("{\"default\": [0.5], \"default\": [0.6]}"), "table.json:1", "default"},
        {TABLE("{\"default\": [NaN]}"), "table.json:1", ""},
        {TABLE("{\"default\": [1e999]}"), "table.json:1", ""},
        {TABLE("{\"default\": []}"), "#/tasks/default", "0 chances; expected 1 to 31"},
        {TABLE("{\"default\": [0.5, 1.5]}"), "#/tasks/default/1", "1.5 is not a chance"},
        {TABLE("{\"default\": [-0.1]}"), "#/tasks/default/0", "-0.1 is not a chance"},
        {TABLE("{\"default\": [\"0.5\"]}"), "#/tasks/default/0", "not a number"},
        {TABLE("{\"default\": 0.5}"), "#/tasks/default", "array"},
        {TABLE("{\"default\": [0.5], \"unused\": [2]}"), "#/tasks/unused/0", "2 is not a chance"},
        {TABLE("{\"code\": [0.5]}"), "#/tasks", "no list \"default\""},
        {TABLE("[0.5]"), "#/tasks", "object"},
        {HEAD("acceptance") "\"sources\": {\"name\": \"x\"}}", "#/tasks", "missing"},
        {HEAD("costs") "\"tasks\": {\"default\": [1]}, \"sources\": {\"tasks\": \"x\"}}",
         "table.json#", "schema is \"kvtide/costs/1\"; expected \"kvtide/acceptance/1\""},
        {HEAD("acceptance") "\"tasks\": {\"default\": [1]}, \"sources\": {}}", "#/sources",
         "no source for \"tasks.default\""},
        {HEAD("acceptance") "\"tasks\": {\"default\": [1]}, \"sources\": {\"tasks.no\": \"x\"}}",
         "#/sources", "a source for \"tasks.no\", which is no number of this file"},
        {HEAD("acceptance") "\"tasks\": {\"default\": [1]}, \"sources\": {\"tasks\": \"\"}}",
         "#/sources", "the source of \"tasks\" is no text"},
        {HEAD("acceptance") "\"tasks\": {\"default\": [1]}, \"sources\": {\"tasks\": \"x\"}, "
                            "\"basis\": \"exact\"}",
         "table.json#", "basis is \"exact\"; expected measured"},
        {HEAD("acceptance") "\"tasks\": {\"default\": [1]}, \"sources\": {\"tasks\": \"x\"}, "
                            "\"taks\": 1}",
         "table.json#/taks", "no such key here"},
        {"{\"schema\": \"kvtide/acceptance/1\", \"name\": \"\", \"summary\": \"s\", \"tasks\": "
         "{\"default\": [1]}, \"sources\": {\"tasks\": \"x\"}}",
         "table.json#", "name is empty"},
    };
    struct acceptance table = {.task_count = 77};
    struct kvt_error err = {0};

    ck_assert_int_ne(load_text(rows[_i].text, &table, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, rows[_i].where) != NULL, "%s: %s", err.where, err.message);
    ck_assert_msg(strstr(err.message, rows[_i].message) != NULL, "%s: %s", err.where, err.message);
    ck_assert_uint_eq(table.task_count, 77); /* no effect */
}
END_TEST
enum {
    BAD_TABLES = 23
};

START_TEST(a_list_longer_than_a_round_is_refused)
{
    char text[1024] = TABLE("{\"default\": [0.5");
    struct acceptance table;
    struct kvt_error err;
    char *end = strstr(text, "0.5") + 3;
    for (int i = 0; i < DRAFTS_MAX; i++)
        end += sprintf(end, ", 0.5");
    (void)sprintf(end, "%s", "]}, \"sources\": {\"tasks\": \"here\"}}");

    ck_assert_int_eq(load_text(text, &table, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "32 chances; expected 1 to 31"));
}
END_TEST

/* ---- Costs --------------------------------------------------------------------------------- */

#define SOURCES "{\"draft\": \"a\", \"verify\": \"b\", \"graph_limit_tokens\": \"c\"}"
#define COSTS(draft_, verify_, limit_, more_)                                                      \
    HEAD("costs")                                                                                  \
    "\"draft\": " draft_ ", \"verify\": " verify_ ", \"graph_limit_tokens\": " limit_ more_        \
    ", \"sources\": " SOURCES "}"
#define DRAFT "[{\"requests\": 1, \"ms\": 0.5}, {\"requests\": 4, \"ms\": 0.75}]"
#define VERIFY                                                                                     \
    "[{\"tokens\": 2, \"ms\": 5}, {\"tokens\": 8, \"ms\": 4.5}, {\"tokens\": 16, \"ms\": 7}]"
#define CLIFF ", \"cliff\": [{\"tokens\": 64, \"ms\": 6}, {\"tokens\": 128, \"ms\": 50}]"

#define COSTS_WITH_CLIFF                                                                           \
    HEAD("costs")                                                                                  \
    "\"draft\": " DRAFT ", \"verify\": " VERIFY ", \"graph_limit_tokens\": 24" CLIFF               \
    ", \"sources\": {\"draft\": \"a\", \"verify\": \"b\", \"graph_limit_tokens\": \"c\", "         \
    "\"cliff\": \"d\"}}"

START_TEST(costs_are_stairs_that_never_fall)
{
    static const struct {
        uint32_t tokens;
        double ms;
    } rows[] = {{0, 0},    {1, 5},  {2, 5},  {3, 5},  {8, 5},   {9, 7},    {16, 7},
                {17, 7},   {24, 7}, {25, 7}, {64, 7}, {65, 50}, {128, 50}, {129, 50 * 129 / 128.0},
                {384, 150}};
    struct kvt_costs costs;
    struct kvt_error err;
    ck_assert_int_eq(load_costs(COSTS_WITH_CLIFF, &costs, &err), KVT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_double_eq_tol(kvt_costs_verify_ms(&costs, rows[i].tokens), rows[i].ms, 1e-12);

    ck_assert_double_eq(kvt_costs_draft_ms(&costs, 0), 0);
    ck_assert_double_eq(kvt_costs_draft_ms(&costs, 1), 0.5);
    ck_assert_double_eq(kvt_costs_draft_ms(&costs, 2), 0.75);
    ck_assert_double_eq(kvt_costs_draft_ms(&costs, 8), 1.5);
    ck_assert(kvt_costs_in_range(&costs, 4, 128));
    ck_assert(!kvt_costs_in_range(&costs, 5, 1));
    ck_assert(!kvt_costs_in_range(&costs, 1, 129));
}
END_TEST

START_TEST(without_a_cliff_the_graphs_are_the_range)
{
    struct kvt_costs costs;
    struct kvt_error err;
    ck_assert_int_eq(load_costs(COSTS(DRAFT, VERIFY, "24", ""), &costs, &err), KVT_OK);

    ck_assert(kvt_costs_in_range(&costs, 1, 24));
    ck_assert(!kvt_costs_in_range(&costs, 1, 25));
    ck_assert_double_eq(kvt_costs_verify_ms(&costs, 32), 14);
}
END_TEST

START_TEST(costs_that_cannot_be_are_refused_by_place_and_sentence)
{
    static const struct {
        const char *text, *where, *message;
    } rows[] = {
        {COSTS("[]", VERIFY, "24", ""), "#/draft", "0 points; expected 1 to 128"},
        {COSTS("7", VERIFY, "24", ""), "#/draft", "array"},
        {COSTS("[7]", VERIFY, "24", ""), "#/draft/0", "object"},
        {COSTS("[{\"requests\": 1.5, \"ms\": 1}]", VERIFY, "24", ""), "#/draft/0/requests",
         "1.5 is not a whole number"},
        {COSTS("[{\"requests\": 0, \"ms\": 1}]", VERIFY, "24", ""), "#/draft/0/requests", "0 is"},
        {COSTS("[{\"requests\": 1, \"ms\": -1}]", VERIFY, "24", ""), "#/draft/0/ms",
         "-1 is out of range"},
        {COSTS("[{\"requests\": 1, \"ms\": 0}]", VERIFY, "24", ""), "#/draft/0", "takes no time"},
        {COSTS(DRAFT, "[{\"tokens\": 1, \"ms\": 0}]", "24", ""), "#/verify/0", "takes no time"},
        {COSTS("[{\"requests\": 1, \"ms\": 1e999}]", VERIFY, "24", ""), "table.json:1", ""},
        {COSTS("[{\"tokens\": 1, \"ms\": 1}]", VERIFY, "24", ""), "#/draft/0/tokens",
         "no such key here"},
        {COSTS("[{\"requests\": 1}]", VERIFY, "24", ""), "#/draft/0/ms", "missing"},
        {COSTS("[{\"requests\": 2, \"ms\": 1}, {\"requests\": 2, \"ms\": 1}]", VERIFY, "24", ""),
         "#/draft/1", "requests is 2 after 2: each point is larger"},
        {COSTS(DRAFT, VERIFY, "15", ""), "#/verify/2/tokens", "16 is out of range"},
        {COSTS(DRAFT, VERIFY, "24", ", \"cliff\": [{\"tokens\": 24, \"ms\": 9}]"),
         "#/cliff/0/tokens", "24 is out of range"},
        {COSTS(DRAFT, VERIFY, "24", ", \"clif\": []"), "table.json#/clif", "no such key here"},
        {COSTS(DRAFT, VERIFY, "0", ""), "#/graph_limit_tokens", "0 is out of range"},
        {HEAD("costs") "\"draft\": " DRAFT ", \"graph_limit_tokens\": 8, \"sources\": "
                       "{\"draft\": \"x\"}}",
         "#/verify", "missing"},
        {HEAD("costs") "\"draft\": " DRAFT ", \"graph_limit_tokens\": 8, \"sources\": " SOURCES "}",
         "#/verify", "missing"},
        {COSTS(DRAFT, VERIFY, "24", CLIFF), "#/sources", "no source for \"cliff\""},
        {HEAD("costs") "\"draft\": " DRAFT ", \"verify\": " VERIFY ", \"graph_limit_tokens\": 24}",
         "#/sources", "missing"},
        {HEAD("acceptance") "\"draft\": 1, \"sources\": {\"draft\": \"x\"}}", "table.json#",
         "schema is \"kvtide/acceptance/1\"; expected \"kvtide/costs/1\""},
    };
    struct kvt_costs costs = {.graph_limit_tokens = 77};
    struct kvt_error err = {0};

    ck_assert_int_ne(load_costs(rows[_i].text, &costs, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, rows[_i].where) != NULL, "%s: %s", err.where, err.message);
    ck_assert_msg(strstr(err.message, rows[_i].message) != NULL, "%s: %s", err.where, err.message);
    ck_assert_uint_eq(costs.graph_limit_tokens, 77);
}
END_TEST
enum {
    BAD_COSTS = 21
};

START_TEST(a_point_too_many_is_refused)
{
    static char text[1 << 14];
    struct kvt_costs costs;
    struct kvt_error err;
    char *end = text + sprintf(text, "%s", HEAD("costs") "\"draft\": [");
    for (int i = 1; i <= KVT_COSTS_POINTS_MAX + 1; i++)
        end += sprintf(end, "%s{\"requests\": %d, \"ms\": 1}", i > 1 ? ", " : "", i);
    (void)sprintf(end, "%s",
                  "], \"verify\": " VERIFY
                  ", \"graph_limit_tokens\": 16, \"sources\": {\"draft\": \"x\"}}");

    ck_assert_int_eq(load_costs(text, &costs, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "129 points; expected 1 to 128"));
}
END_TEST

/* ---- What is shipped ---------------------------------------------------------------------------
 */

/* Calls check(path) for each table of a folder; how many there were. */
static uint32_t for_each_table(const char *folder, void (*check)(const char *path))
{
    char path[512];
    uint32_t count = 0;
    DIR *listing = opendir(folder);
    ck_assert_ptr_nonnull(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strstr(entry->d_name, ".json") == NULL)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check(path);
        count++;
    }
    (void)closedir(listing);
    return count;
}

static void check_acceptance(const char *path)
{
    struct acceptance table;
    struct kvt_error err;
    kvt_status status = acceptance_load(path, tasks, 3, &table, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    acceptance_fini(&table);
}

static void check_costs(const char *path)
{
    struct kvt_costs costs;
    struct kvt_error err;
    kvt_status status = kvt_costs_load(path, &costs, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

START_TEST(every_shipped_table_is_read)
{
    ck_assert_uint_ge(for_each_table(KVT_TEST_ROOT "/models/acceptance", check_acceptance), 10);
    ck_assert_uint_ge(for_each_table(KVT_TEST_ROOT "/models/costs", check_costs), 1);
}
END_TEST

static double tokens_of(const struct acceptance_list *list, uint32_t drafts)
{
    double tokens = 1, reached = 1;
    for (uint32_t i = 0; i < drafts; i++)
        tokens += reached *= list->chances[i];
    return tokens;
}

/* Tokens a round that the sources of each table report. */
START_TEST(shipped_tables_give_the_tokens_that_were_reported)
{
    static const struct {
        const char *name;
        uint32_t task, drafts;
        double least, most;
    } rows[] = {
        {"glm-5.3-100k", 0, 3, 2.34, 2.36},   {"glm-5.3-100k", 0, 7, 2.76, 2.78},
        {"dflash", 1, 7, 4.40, 4.77},         {"dflash", 0, 7, 2.83, 3.14},
        {"dspark", 1, 7, 5.11, 5.13},         {"dspark", 0, 7, 3.48, 3.50},
        {"glm-5.3-dspark", 0, 8, 4.28, 4.31}, {"glm-5.3-mtp", 0, 5, 2.40, 2.42},
        {"v4-pro-dspark", 0, 7, 3.2, 3.3},
    };
    char path[256];
    struct acceptance table;
    struct kvt_error err;
    (void)snprintf(path, sizeof path, "%s/models/acceptance/%s.json", KVT_TEST_ROOT, rows[_i].name);
    ck_assert_int_eq(acceptance_load(path, tasks, 3, &table, &err), KVT_OK);
    double tokens = tokens_of(&table.lists[rows[_i].task], rows[_i].drafts);

    ck_assert_msg(tokens >= rows[_i].least && tokens <= rows[_i].most, "%s: %.3f", rows[_i].name,
                  tokens);
    acceptance_fini(&table);
}
END_TEST

static Suite *speculation_tables_suite(void)
{
    Suite *suite = suite_create("speculation_tables");

    TCase *acceptance = tcase_create("acceptance");
    tcase_add_test(acceptance, a_table_is_read_by_the_runs_tasks);
    tcase_add_test(acceptance, a_table_says_what_it_rests_on);
    tcase_add_loop_test(acceptance, a_table_that_cannot_be_is_refused_by_place_and_sentence, 0,
                        BAD_TABLES);
    tcase_add_test(acceptance, a_list_longer_than_a_round_is_refused);
    suite_add_tcase(suite, acceptance);

    TCase *costs = tcase_create("costs");
    tcase_add_test(costs, costs_are_stairs_that_never_fall);
    tcase_add_test(costs, without_a_cliff_the_graphs_are_the_range);
    tcase_add_loop_test(costs, costs_that_cannot_be_are_refused_by_place_and_sentence, 0,
                        BAD_COSTS);
    tcase_add_test(costs, a_point_too_many_is_refused);
    suite_add_tcase(suite, costs);

    TCase *shipped = tcase_create("shipped");
    tcase_add_test(shipped, every_shipped_table_is_read);
    tcase_add_loop_test(shipped, shipped_tables_give_the_tokens_that_were_reported, 0, 9);
    suite_add_tcase(suite, shipped);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(speculation_tables_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
