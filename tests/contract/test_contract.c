/* test_contract.c -- every entry of every table keeps its contract, by default and with each of its
 * parameters at its ends; and the suite that says so notices broken ones.
 *
 * What is built in is played here, in this process, so that sanitizers see it. Shared objects are
 * played as the command plays them, each in a child. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "cli/check.h"
#include "cli/cli.h"
#include "cli/contract/contract.h"
#include "kvt/plugins.h"
#include "kvt/policy.h"
#include "kvt/speculation.h"
#include "support/loaded.h"
#include "support/support.h"

enum {
    CALLS = 3000,           /* of each table by default */
    CALLS_OF_A_VALUE = 400, /* with each value of a parameter */
    ENTRIES_MAX = 64
};

static const enum kvt_plugin_kind kinds[] = {KVT_PLUGIN_RESIDENCY,   KVT_PLUGIN_REPLACEMENT,
                                             KVT_PLUGIN_SCHEDULING,  KVT_PLUGIN_ROUTER,
                                             KVT_PLUGIN_SPECULATION, KVT_PLUGIN_LAW};

/* All entries of all kinds that can be loaded, one after the other. */
static struct entry {
    enum kvt_plugin_kind kind;
    const struct kvt_plugin_info *info;
} entries[ENTRIES_MAX];
static int entry_count;

static void list_entries(void)
{
    entry_count = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t count = 0;
        const struct kvt_plugin_info *const *list = kvt_plugin_list(NULL, kinds[k], &count);
        for (size_t i = 0; i < count && entry_count < ENTRIES_MAX; i++)
            entries[entry_count++] = (struct entry){kinds[k], list[i]};
    }
}

/* ---- Built-in tables ---------------------------------------------------------------------- */

struct bench {
    struct kvt_arena *arena;
    struct contract_note note;
    struct contract_play play;
    const char *missing;
};

static void bench_open(struct bench *bench, const struct entry *entry, uint64_t calls)
{
    struct kvt_error err = {.status = KVT_OK};

    memset(bench, 0, sizeof *bench);
    bench->arena = kvt_arena_new(0);
    ck_assert_ptr_nonnull(bench->arena);
    kvt_status status = contract_play_init(&bench->play, entry->kind, entry->info, 2385,
                                           &bench->note, bench->arena, &bench->missing, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    bench->play.calls = calls;
}

static void bench_close(struct bench *bench)
{
    kvt_arena_free(bench->arena);
}

/* A recording to pass on is the one thing that no default can be; tests/unit/test_recorded.c. */
static bool needs_a_file(const struct bench *bench)
{
    if (bench->missing == NULL)
        return false;
    ck_assert_str_eq(bench->play.info->name, "recorded");
    return true;
}

START_TEST(every_table_is_whole)
{
    static const size_t table_bytes[KVT_PLUGIN_KINDS] = {
        [KVT_PLUGIN_RESIDENCY] = sizeof(struct kvt_residency_policy),
        [KVT_PLUGIN_REPLACEMENT] = sizeof(struct kvt_replacement_policy),
        [KVT_PLUGIN_SCHEDULING] = sizeof(struct kvt_scheduling_policy),
        [KVT_PLUGIN_ROUTER] = sizeof(struct kvt_router_policy),
        [KVT_PLUGIN_SPECULATION] = sizeof(struct kvt_speculation_method),
        [KVT_PLUGIN_LAW] = sizeof(struct kvt_law)};
    const struct kvt_plugin_info *info = entries[_i].info;

    ck_assert_uint_eq(info->abi, KVT_ABI_VERSION);
    ck_assert_uint_eq(info->struct_bytes, table_bytes[entries[_i].kind]);
    ck_assert_uint_gt(strlen(info->name), 0);
    ck_assert_uint_gt(strlen(info->summary), 0);
}
END_TEST

START_TEST(every_table_keeps_its_contract)
{
    struct kvt_error err = {.status = KVT_OK};
    struct bench bench;

    bench_open(&bench, &entries[_i], CALLS);
    if (!needs_a_file(&bench)) {
        kvt_status status = contract_play(&bench.play, &err);
        ck_assert_msg(status == KVT_OK, "%s %s: %s: %s", kvt_plugin_kind_name(entries[_i].kind),
                      entries[_i].info->name, err.where, err.message);
        ck_assert_uint_ge(bench.note.calls, CALLS);
    }
    bench_close(&bench);
}
END_TEST

/* Values of a parameter that its table allows: ends and choices. Those of laws and methods that
 * make them large are left out: what they prepare grows with them. */
static size_t list_values(const struct entry *entry, const struct kvt_param_spec *spec,
                          double values[64])
{
    bool is_policy = entry->kind != KVT_PLUGIN_LAW && entry->kind != KVT_PLUGIN_SPECULATION;
    size_t count = 0;

    switch (spec->type) {
    case KVT_PARAM_COUNT:
    case KVT_PARAM_REAL:
        values[count++] = spec->minimum;
        if (is_policy)
            values[count++] = spec->maximum;
        break;
    case KVT_PARAM_BOOL:
        values[count++] = 0;
        values[count++] = 1;
        break;
    case KVT_PARAM_CHOICE:
        values[count++] = 0;
        for (const char *at = spec->choices; *at != '\0' && count < 64; at++) {
            if (*at == '|') {
                values[count] = (double)count;
                count++;
            }
        }
        break;
    default: /* of texts and lists there is no other value here */
        break;
    }
    return count;
}

/* What init() refuses, by a sentence that is not about a contract, is refused. */
static void play_value(const struct entry *entry, size_t param, double number)
{
    struct kvt_error err = {.status = KVT_OK};
    struct bench bench;

    bench_open(&bench, entry, CALLS_OF_A_VALUE);
    if (!needs_a_file(&bench)) {
        size_t bytes = bench.play.params.count * sizeof(struct kvt_param_value);
        struct kvt_param_value *values = malloc(bytes);
        ck_assert_ptr_nonnull(values);
        memcpy(values, bench.play.params.values, bytes);
        values[param].number = number;
        bench.play.params.values = values;
        kvt_status status = contract_play(&bench.play, &err);
        ck_assert_msg(status != KVT_ERR_POLICY && status != KVT_ERR_INTERNAL, "%s with %s = %g: %s",
                      err.where, entry->info->params[param].name, number, err.message);
        free(values);
    }
    bench_close(&bench);
}

START_TEST(every_table_keeps_its_contract_with_each_parameter_at_its_ends)
{
    const struct entry *entry = &entries[_i];

    for (size_t p = 0; p < entry->info->param_count; p++) {
        double values[64];
        size_t count = list_values(entry, &entry->info->params[p], values);
        for (size_t v = 0; v < count; v++)
            play_value(entry, p, values[v]);
    }
}
END_TEST

/* ---- Shared objects ------------------------------------------------------------------------- */

/* They lie beside this program: broken/NAME.so, example/NAME.so. */
static const char *object_path(const char *folder, const char *name, char out[SUPPORT_PATH_BYTES])
{
    char program[SUPPORT_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    int written = snprintf(out, SUPPORT_PATH_BYTES, "%s/%s/%s.so", program, folder, name);
    ck_assert_int_lt(written, SUPPORT_PATH_BYTES);
    return out;
}

static void check_example(const char *name)
{
    char path[SUPPORT_PATH_BYTES];
    struct checked_file checked;

    check_file(object_path("example", name, path), &checked);
    ck_assert_msg(checked.status == KVT_OK, "%s: %s", checked.err.where, checked.err.message);
    ck_assert_str_eq(checked.noun, "plug-in");
    for (size_t t = 0; t < checked.table_count; t++)
        ck_assert_uint_ge(checked.tables[t].calls, 20000);
    check_file_free(&checked);
}

START_TEST(every_example_keeps_its_contract)
{
    DIR *folder = opendir(KVT_TEST_ROOT "/policies/example");
    int examples = 0;

    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[256];
        (void)snprintf(name, sizeof name, "%s", entry->d_name);
        char *ending = strrchr(name, '.');
        if (ending == NULL || strcmp(ending, ".c") != 0)
            continue;
        *ending = '\0';
        check_example(name);
        examples++;
    }
    closedir(folder);
    ck_assert_int_gt(examples, 0);
}
END_TEST

/* Each breaks one contract. The sentence names the table, and the contract. */
static const struct broken {
    const char *name, *table;
    const char *found, *contract;
} broken[] = {
    {"victim_read", "replacement victim-read", "whose row a query of this call reads",
     "a slot that hit is never a victim"},
    {"victim_twice", "replacement victim-twice", "which it had returned before",
     "no slot is a victim twice in one call"},
    {"victim_outside", "replacement victim-outside", "returned slot 65 of a cache of 65",
     "a victim is a slot of this cache"},
    {"victims_few", "replacement victims-few", "returned 3 slots for",
     "as many as are wanted and did not hit"},
    {"occupied_first", "replacement occupied-first", "while the empty slot",
     "empty slots go first, lowest slot first"},
    {"ranks_repeated", "replacement ranks-repeated", "rank 1, as a slot before it",
     "ranks are a permutation of the slots"},
    {"ranks_reversed", "replacement ranks-reversed", "ranks() gives slot",
     "rank 0 is the next victim"},
    {"future_read", "replacement future-read",
     "reads the future (call.next_use) without the parameter clairvoyant",
     "what is NULL unless asked for is not read"},
    {"hit_order_read", "replacement hit-order-read",
     "reads call.hit_slots without wants_hit_order in its table: on_resolved() crashes",
     "what is NULL unless asked for is not read"},
    {"behind_state", "replacement behind-state",
     "on_resolved() wrote behind its state of 268 bytes", "a state stays within its bytes"},
    {"pointer_kept", "replacement pointer-kept", "after its state was copied to another place",
     "no pointers lie within"},
    {"static_kept", "replacement static-kept", "two instances otherwise",
     "nothing is kept but in the state"},
    {"tail_lent", "residency tail-lent", "are eligible", "the tail is never lent"},
    {"never_releases", "residency never-releases", "and released nothing",
     "optional pages are released under pressure"},
    {"no_reclaim", "residency no-reclaim", "the table has no reclaim()",
     "what is optional goes when memory is short"},
    {"needs_contradict", "residency needs-contradict", "history_in_hbm, beside which",
     "needs() does not contradict itself"},
    {"output_foreseen", "residency output-foreseen", "it reads the future",
     "never the future without the parameter clairvoyant"},
    {"fills_full", "residency fills-full", "and no byte is free",
     "refills as far as the pool has room"},
    {"page_hits_read", "residency page-hits-read",
     "reads page_hits without wants_page_hits in its table",
     "what is NULL unless asked for is not read"},
    {"actions_many", "residency actions-many", "there was room for", "at most `capacity` actions"},
    {"next_outside", "scheduling next-outside", "next() returned",
     "an index, or the count for nobody"},
    {"view_read", "scheduling view-read", "reads view without wants_view in its table",
     "what is NULL unless asked for is not read"},
    {"entries_read", "scheduling entries-read",
     "reads view.entries without wants_entries in its table",
     "what is NULL unless asked for is not read"},
    {"nobody_comes", "scheduling nobody-comes", "and nobody runs or is coming in",
     "an idle rank lets somebody in"},
    {"nobody_unseen", "scheduling nobody-unseen", "next() names none of",
     "an idle rank lets somebody in"},
    {"route_outside", "router route-outside", "route() sends request", "the index of a rank"},
    {"route_exits", "router route-exits", "ends the process with status 3",
     "a plug-in never ends the process"},
    {"selects_few", "law selects-few", "23 rows, 23 of them",
     "min(top_k, visible_rows) rows of those that the query sees"},
    {"unseen_stays", "law unseen-stays", "after rounds with sets NULL",
     "a stream that nobody looks at moves on as any other"},
    {"scores_move", "law scores-move", "after page_scores()",
     "a stream goes on as if nobody had asked"},
    {"plans_wide", "speculation plans-wide", "a round of 4 queries",
     "1 to queries_max queries, of which 1 to all are committed"},
    {"plans_by_load", "speculation plans-by-load", "otherwise where it is alone",
     "never on the others or their order"},
};
enum {
    BROKEN = sizeof broken / sizeof broken[0]
};

START_TEST(a_broken_contract_is_named_with_who_broke_it)
{
    const struct broken *fixture = &broken[_i];
    char path[SUPPORT_PATH_BYTES];
    struct checked_file checked;

    check_file(object_path("broken", fixture->name, path), &checked);
    ck_assert_int_eq(checked.status, KVT_ERR_POLICY);
    ck_assert_str_eq(checked.err.where, path);
    const char *message = checked.err.message, *behind = strstr(message, "; contract: ");
    ck_assert_msg(strncmp(message, fixture->table, strlen(fixture->table)) == 0, "%s", message);
    ck_assert_msg(strstr(message, fixture->found) != NULL, "%s", message);
    ck_assert_msg(behind != NULL && strstr(behind, fixture->contract) != NULL, "%s", message);
    check_file_free(&checked);
}
END_TEST

START_TEST(an_object_that_brings_no_whole_table_is_refused_as_it_is_loaded)
{
    static const struct {
        const char *name;
        kvt_status status;
        const char *words;
    } cases[] = {
        {"abi_other", KVT_ERR_ABI, "it was built for ABI 99, and this kvtide has ABI 1"},
        {"entry_missing", KVT_ERR_ABI, "it does not export kvt_plugin_entry()"},
        {"entry_crashes", KVT_ERR_POLICY, "loading it crashes (SIGABRT)"},
        {"name_taken", KVT_ERR_POLICY, "there is a replacement policy \"clock\" already"},
        {"member_missing", KVT_ERR_POLICY,
         "replacement policy \"member-missing\" has no choose_victims(), which it must have"},
        {"parameter_bad", KVT_ERR_POLICY,
         "the default of parameter \"order\", sideways, is not one it takes"},
        {"param_capital", KVT_ERR_POLICY,
         "a parameter is named \"My Param\"; small letters, digits and underscores"},
        {"param_of_section", KVT_ERR_POLICY,
         "a parameter is named \"hot_tokens\", as a key of \"residency\" is"},
        {"param_of_name", KVT_ERR_POLICY,
         "a parameter is named \"law\", as a key of \"selection\" is"},
        {"clairvoyant_real", KVT_ERR_POLICY, "type KVT_PARAM_BOOL is expected"},
        {"idle_beside_none", KVT_ERR_POLICY,
         "parameter \"depth\" is idle beside \"ordre\", which it does not have"},
        {"init_silent", KVT_ERR_POLICY,
         "replacement init-silent: init() failed and does not say why; host->fail() is expected"},
        {"init_unknown", KVT_ERR_POLICY,
         "residency init-unknown: init() returned 4711, which is no kvt_status"},
        {"prepare_silent", KVT_ERR_POLICY,
         "law prepare-silent: prepare() failed and does not say why; host->fail() is expected"},
        {"stream_silent", KVT_ERR_POLICY,
         "law stream-silent: stream_init() failed and does not say why"},
    };
    char path[SUPPORT_PATH_BYTES];
    struct kvt_error err = {.status = KVT_OK};

    object_path("broken", cases[_i].name, path);
    ck_assert_int_eq(cli_plugins_load(path, &err), cases[_i].status);
    ck_assert_str_eq(err.where, path);
    ck_assert_msg(strstr(err.message, cases[_i].words) != NULL, "%s", err.message);
    cli_plugins_free();
}
END_TEST

START_TEST(a_file_that_is_no_shared_object_is_told_so)
{
    struct kvt_error err = {.status = KVT_OK};

    ck_assert_int_eq(cli_plugins_load(KVT_TEST_ROOT "/README.md", &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "it is not a shared object"));
    ck_assert_int_eq(cli_plugins_load(KVT_TEST_ROOT "/none.so", &err), KVT_ERR_NOT_FOUND);
    cli_plugins_free();
}
END_TEST

START_TEST(a_call_that_does_not_return_ends_the_play)
{
    char path[SUPPORT_PATH_BYTES];
    struct kvt_plugins *plugins = NULL;
    struct kvt_error err = {.status = KVT_OK};
    struct bench bench;
    size_t count = 0;
    uint64_t calls = 0;

    ck_assert_int_eq(kvt_plugins_new(&plugins, &err), KVT_OK);
    ck_assert_int_eq(kvt_plugins_load(plugins, object_path("broken", "next_hangs", path), &err),
                     KVT_OK);
    const struct kvt_plugin_table *table = kvt_plugins_files(plugins, &count)->tables;
    bench_open(&bench, &(struct entry){table->kind, table->info}, CALLS);
    ck_assert_int_eq(contract_play_apart(&bench.play, 0.3, &calls, &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "next-hangs");
    ck_assert_msg(strstr(err.message, "has not returned for 0.3 s") != NULL, "%s", err.message);
    bench_close(&bench);
    kvt_plugins_free(plugins);
}
END_TEST

/* A plug-in is tried before anything runs, and what it was tried for is as short. */
START_TEST(a_plugin_is_tried_as_it_is_loaded)
{
    char path[SUPPORT_PATH_BYTES];
    struct kvt_error err = {.status = KVT_OK};

    ck_assert_int_eq(cli_plugins_load(object_path("broken", "victim_read", path), &err),
                     KVT_ERR_POLICY);
    ck_assert_msg(strstr(err.message, "a slot that hit is never a victim") != NULL, "%s",
                  err.message);
    ck_assert_int_eq(cli_plugins_load(object_path("example", "hot_pages", path), &err), KVT_OK);
    cli_plugins_free();
}
END_TEST

/* Where the command finds what is shipped. */
static void set_up(void)
{
    loaded_folder_make();
    ck_assert_int_eq(setenv("KVT_DATA", loaded_folder()->path, 1), 0);
}

static Suite *contract_suite(void)
{
    Suite *suite = suite_create("contract");
    TCase *built_in = tcase_create("built_in");

    list_entries();
    tcase_set_timeout(built_in, 60);
    tcase_add_unchecked_fixture(built_in, set_up, loaded_folder_remove);
    tcase_add_loop_test(built_in, every_table_is_whole, 0, entry_count);
    tcase_add_loop_test(built_in, every_table_keeps_its_contract, 0, entry_count);
    tcase_add_loop_test(built_in, every_table_keeps_its_contract_with_each_parameter_at_its_ends, 0,
                        entry_count);
    suite_add_tcase(suite, built_in);

    TCase *objects = tcase_create("shared_objects");
    tcase_set_timeout(objects, 60);
    tcase_add_unchecked_fixture(objects, set_up, loaded_folder_remove);
    tcase_add_test(objects, every_example_keeps_its_contract);
    tcase_add_loop_test(objects, a_broken_contract_is_named_with_who_broke_it, 0, BROKEN);
    tcase_add_loop_test(objects, an_object_that_brings_no_whole_table_is_refused_as_it_is_loaded, 0,
                        15);
    tcase_add_test(objects, a_file_that_is_no_shared_object_is_told_so);
    tcase_add_test(objects, a_call_that_does_not_return_ends_the_play);
    tcase_add_test(objects, a_plugin_is_tried_as_it_is_loaded);
    suite_add_tcase(suite, objects);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(contract_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
