/* test_scenario.c -- layers, defaults and origins of scenarios. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/scenario.h"
#include "support/loaded.h"
#include "support/support.h"

static double number(const struct loaded *loaded, const char *dotted)
{
    const cJSON *node = loaded_at(loaded, dotted);
    ck_assert_msg(cJSON_IsNumber(node), "%s is no number", dotted);
    return node->valuedouble;
}

static const char *text_of(const struct loaded *loaded, const char *dotted)
{
    const cJSON *node = loaded_at(loaded, dotted);
    ck_assert_msg(cJSON_IsString(node), "%s is no text", dotted);
    return node->valuestring;
}

static const char *origin(const struct loaded *loaded, const char *dotted)
{
    const cJSON *node = kvt_json_find(loaded->scenario.origins, dotted);
    return node != NULL ? node->valuestring : "";
}

static const char *write_file(const char *name, const char *text)
{
    static char path[SUPPORT_PATH_BYTES];
    support_write(support_path(loaded_folder(), name, path), text, strlen(text));
    return path;
}

/* ---- Shipped scenarios --------------------------------------------------------- */

static const char *const shipped[] = {
    "quickstart",  "glm-5.3-32k",     "glm-5.3-100k", "deepseek-v4.1-flash-500k",
    "load-step",   "vllm-calculator", "policy-lab",   "prefetch-100k",
    "readkv-100k", "strata-sessions", "moira-100k",   "pulse-100k",
    "rank-loss",
};
enum {
    SHIPPED = sizeof shipped / sizeof shipped[0]
};

START_TEST(a_shipped_scenario_loads_under_its_own_name)
{
    struct loaded loaded = loaded_from(shipped[_i], NULL);
    loaded_check_ok(&loaded);
    ck_assert_str_eq(loaded.scenario.name, shipped[_i]);
    ck_assert_str_eq(loaded.scenario.path, shipped[_i]);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(the_tree_in_force_loads_back_to_an_equal_tree)
{
    struct loaded first = loaded_from(shipped[_i], NULL);
    loaded_check_ok(&first);
    char *text = kvt_json_print(first.scenario.tree);
    struct loaded second = loaded_text(text, NULL, false);
    loaded_check_ok(&second);
    char *again = kvt_json_print(second.scenario.tree);

    ck_assert_str_eq(again, text);
    ck_assert_uint_eq(second.scenario.pools[0].index_pool_bytes,
                      first.scenario.pools[0].index_pool_bytes);
    ck_assert_int_eq(second.scenario.pools[0].pools_given, first.scenario.pools[0].pools_given);
    free(again);
    free(text);
    kvt_arena_free(second.arena);
    kvt_arena_free(first.arena);
}
END_TEST

START_TEST(the_quickstart_is_what_the_design_says)
{
    struct loaded loaded = loaded_from("quickstart", NULL);
    const struct kvt_scenario *s = &loaded.scenario;
    loaded_check_ok(&loaded);
    ck_assert_str_eq(s->llm->name, "glm-5.3");
    ck_assert_str_eq(s->residency.info->name, "adaptive");
    ck_assert_str_eq(s->arrival.info->name, "closed");
    ck_assert_double_eq(s->arrival.params.values[0].number, 128);
    ck_assert_double_eq(s->input_length.params.values[0].number, 100032);
    ck_assert_uint_eq(s->pool_count, 1);
    ck_assert_uint_eq(s->pools[0].gpus, 4);
    ck_assert_str_eq(s->pools[0].hardware->name, "b300");
    ck_assert(s->pools[0].lockstep && s->pools[0].pools_unified);
    ck_assert_uint_eq(s->pools[0].index_pool_bytes, UINT64_C(45) * KVT_GIB / 2);
    ck_assert_uint_eq(s->hot_tokens, 4096);
    ck_assert_double_eq(s->duration_s, 60);
    ck_assert_int_eq(s->fidelity, KVT_FIDELITY_SAMPLED);
    ck_assert_uint_eq(s->queries_max, 1);
    ck_assert_ptr_null(s->drafter);
    kvt_arena_free(loaded.arena);
}
END_TEST

/* ---- Defaults and origins -------------------------------------------------------- */

static const char smallest[] = "{\"schema\": \"kvtide/scenario/1\", \"seed\": 7, \"model\": "
                               "\"glm-5.3\", \"hardware\": \"b300\", \"cluster\": {\"decode\": "
                               "{\"gpus\": 4, \"ep\": 4}}}";

START_TEST(every_default_is_written_out_with_its_origin)
{
    struct loaded loaded = loaded_text(smallest, NULL, false);
    loaded_check_ok(&loaded);
    ck_assert_str_eq(text_of(&loaded, "residency.policy"), "adaptive");
    ck_assert_str_eq(text_of(&loaded, "residency.hot_tokens"), "auto");
    ck_assert_str_eq(text_of(&loaded, "cluster.decode.dp"), "auto");
    ck_assert_double_eq(number(&loaded, "run.interval_s"), 1);
    ck_assert_str_eq(text_of(&loaded, "backend.name"), "sim");
    ck_assert_str_eq(text_of(&loaded, "name"), "t");

    ck_assert_str_eq(origin(&loaded, "run.interval_s"), "default");
    ck_assert_str_eq(origin(&loaded, "cluster.decode.gpus"), "t.json");
    ck_assert_str_eq(origin(&loaded, "name"), "derived");
    ck_assert_uint_eq(loaded.scenario.pools[0].dp, 4);
    ck_assert_uint_eq(loaded.scenario.seed, 7);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(the_last_layer_that_speaks_is_the_origin)
{
    const char *const sets[LOADED_SETS_MAX] = {"run.interval_s=2", "run.interval_s=3",
                                               "cluster.router=round-robin"};
    struct loaded loaded = loaded_from("quickstart", sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(loaded.scenario.interval_s, 3);
    ck_assert_str_eq(origin(&loaded, "run.interval_s"), "--set");
    ck_assert_str_eq(origin(&loaded, "cluster.router.policy"), "--set");
    ck_assert_str_eq(origin(&loaded, "run.duration_s"), "scenarios/quickstart.json");
    ck_assert_str_eq(origin(&loaded, "workload.requests"), "scenarios/glm-5.3-100k.json");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(values_of_set_are_json_or_text)
{
    const char *const sets[LOADED_SETS_MAX] = {"cluster.decode.lockstep=false", "name=2k run",
                                               "run={\"duration_s\": 5}",
                                               "residency.hot_tokens=\"2k\""};
    struct loaded loaded = loaded_from("quickstart", sets);
    loaded_check_ok(&loaded);
    ck_assert(!loaded.scenario.pools[0].lockstep);
    ck_assert_str_eq(loaded.scenario.name, "2k run");
    ck_assert_double_eq(loaded.scenario.duration_s, 5);
    ck_assert_uint_eq(loaded.scenario.hot_tokens, 4096);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(every_file_that_was_read_is_an_input_with_its_hash)
{
    struct loaded loaded = loaded_from("quickstart", NULL);
    loaded_check_ok(&loaded);
    const char *const names[] = {"scenarios/quickstart.json", "scenarios/glm-5.3-100k.json",
                                 "models/llm/glm-5.3.json", "models/hardware/b300.json"};
    ck_assert_int_eq(cJSON_GetArraySize(loaded.scenario.inputs), 4);
    for (size_t i = 0; i < 4; i++) {
        const cJSON *hash = kvt_json_find(loaded.scenario.inputs, names[i]);
        ck_assert_ptr_nonnull(hash);
        ck_assert_uint_eq(strspn(hash->valuestring, "0123456789abcdef"), 16);
    }
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_trace_is_an_input_that_changes_with_its_bytes)
{
    char hashes[2][17];
    for (int i = 0; i < 2; i++) {
        char set[SUPPORT_PATH_BYTES + 32];
        const char *path = write_file("trace.csv", i == 0 ? "arrival_s\n1\n" : "arrival_s\n2\n");
        (void)snprintf(set, sizeof set, "workload.trace.path=%s", path);
        struct loaded loaded = loaded_text(smallest, set, false);
        loaded_check_ok(&loaded);
        (void)snprintf(hashes[i], sizeof hashes[i], "%s",
                       kvt_json_find(loaded.scenario.inputs, path)->valuestring);
        kvt_arena_free(loaded.arena);
    }
    ck_assert_str_ne(hashes[0], hashes[1]);
}
END_TEST

/* ---- Layers ------------------------------------------------------------------------ */

START_TEST(objects_merge_lists_replace_and_later_files_win)
{
    (void)write_file("a.json",
                     "{" LOADED_SCHEMA ", \"extends\": \"glm-5.3-100k\", \"name\": \"mother\", "
                     "\"run\": {\"duration_s\": 10}, \"slo\": {\"classes\": [{\"name\": "
                     "\"x\", \"share\": 0.25}, {\"name\": \"y\", \"share\": 0.75}]}}");
    (void)write_file("b.json",
                     "{" LOADED_SCHEMA ", \"run\": {\"duration_s\": 20, \"interval_s\": 4}}");
    const char *path =
        write_file("c.json", "{" LOADED_SCHEMA ", \"extends\": [\"a.json\", \"b.json\"], "
                             "\"slo\": {\"classes\": [{\"name\": \"z\", "
                             "\"share\": 1}]}}");
    struct loaded loaded = loaded_from(path, NULL);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(loaded.scenario.duration_s, 20);
    ck_assert_double_eq(loaded.scenario.interval_s, 4);
    ck_assert_uint_eq(loaded.scenario.slo_class_count, 1);
    ck_assert_str_eq(loaded.scenario.slo_classes[0].name, "z");
    ck_assert_double_eq(loaded.scenario.slo_classes[0].attain, 0.99);
    ck_assert_str_eq(loaded.scenario.name, "c"); /* "mother" is a's name */
    ck_assert_ptr_null(loaded_at(&loaded, "extends"));
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_circle_of_extends_is_refused_with_its_chain)
{
    char words[4 * SUPPORT_PATH_BYTES];
    char where[SUPPORT_PATH_BYTES + 16];
    (void)write_file("ring2.json", "{" LOADED_SCHEMA ", \"extends\": [\"ring1.json\"]}");
    const char *path =
        write_file("ring1.json", "{" LOADED_SCHEMA ", \"extends\": \"./ring2.json\"}");
    struct loaded loaded = loaded_from(path, NULL);
    (void)snprintf(words, sizeof words,
                   "extends goes round in a circle: %s/ring1.json -> "
                   "%s/./ring2.json -> %s/./ring1.json",
                   loaded_folder()->path, loaded_folder()->path, loaded_folder()->path);
    (void)snprintf(where, sizeof where, "%s/./ring2.json#/extends/0", loaded_folder()->path);
    loaded_check_refused(&loaded, KVT_ERR_INVALID, where, words);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(extends_goes_sixteen_files_deep_and_no_deeper)
{
    for (int i = 0; i <= 16; i++) {
        char name[32];
        char text[128];
        (void)snprintf(name, sizeof name, "deep%d.json", i);
        (void)snprintf(text, sizeof text, "{" LOADED_SCHEMA ", \"extends\": \"deep%d.json\"}",
                       i + 1);
        (void)write_file(name, text);
    }
    char where[SUPPORT_PATH_BYTES + 32];
    char path[SUPPORT_PATH_BYTES];
    struct loaded loaded = loaded_from(support_path(loaded_folder(), "deep0.json", path), NULL);
    (void)snprintf(where, sizeof where, "%s/deep15.json#/extends", loaded_folder()->path);
    loaded_check_refused(&loaded, KVT_ERR_INVALID, where, "more than 16 files deep");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(changing_a_policy_resets_its_parameters_and_keeps_the_rest)
{
    const char *const sets[LOADED_SETS_MAX] = {"residency.policy=hisparse", "residency=adaptive"};
    const char *path = write_file("half.json", "{" LOADED_SCHEMA ", \"extends\": \"glm-5.3-100k\", "
                                               "\"residency\": {\"optional_capacity_fraction\": "
                                               "0.5}}");
    struct loaded loaded = loaded_from(path, sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(number(&loaded, "residency.optional_capacity_fraction"), 1);
    ck_assert_double_eq(number(&loaded, "residency.hot_tokens"), 4096);
    ck_assert_str_eq(origin(&loaded, "residency.optional_capacity_fraction"), "default");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_new_policy_does_not_take_what_the_same_command_line_gave)
{
    const char *const sets[LOADED_SETS_MAX] = {"residency.optional_capacity_fraction=0.5",
                                               "residency.policy=hisparse"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_refused(&loaded, KVT_ERR_INVALID, "--set residency.optional_capacity_fraction",
                         "was given to policy \"adaptive\"; a later --set makes that \"hisparse\"");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(naming_the_policy_in_force_resets_nothing)
{
    const char *const sets[LOADED_SETS_MAX] = {"residency.optional_capacity_fraction=0.5",
                                               "residency.policy=adaptive"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(number(&loaded, "residency.optional_capacity_fraction"), 0.5);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(the_newcomers_parameters_apply_whatever_the_order_in_the_file)
{
    const char *const sets[LOADED_SETS_MAX] = {
        "residency=hisparse", "residency={\"optional_capacity_fraction\": 0.25, \"policy\": "
                              "\"adaptive\"}"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(number(&loaded, "residency.optional_capacity_fraction"), 0.25);
    kvt_arena_free(loaded.arena);
}
END_TEST

/* Each pair is two spellings of one thing. */
static const struct {
    const char *one, *other;
} spellings[] = {
    {"\"workload\": {\"closed\": {\"concurrency\": 16}}",
     "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 16}"},
    {"\"workload\": {\"open\": {\"rate\": 2.5}}",
     "\"workload\": {\"rate\": 2.5, \"arrival\": \"open\"}"},
    {"\"workload\": {\"phases\": [{\"concurrency\": 3, \"seconds\": 4}]}",
     "\"workload\": {\"arrival\": \"phases\", \"phases\": [{\"seconds\": 4, \"concurrency\": 3}]}"},
    {"\"workload\": {\"phases\": {\"phases\": [{\"concurrency\": 3, \"seconds\": 4}]}}",
     "\"workload\": {\"arrival\": \"phases\", \"phases\": [{\"concurrency\": 3, \"seconds\": 4}]}"},
    {"\"timing\": \"roofline\"", "\"timing\": {\"model\": \"roofline\"}"},
    {"\"cluster\": {\"router\": \"round-robin\", \"import\": \"rate\"}",
     "\"cluster\": {\"router\": {\"policy\": \"round-robin\"}, \"import\": {\"law\": \"rate\"}}"},
    {"\"model\": {\"base\": \"glm-5.3\", \"top_k\": 1024}", "\"model\": {\"top_k\": 1024}"},
};

START_TEST(two_spellings_mean_one_thing)
{
    struct loaded one = loaded_over(spellings[_i].one, NULL, false);
    struct loaded other = loaded_over(spellings[_i].other, NULL, false);
    loaded_check_ok(&one);
    loaded_check_ok(&other);
    ck_assert_str_eq(one.scenario.arrival.info->name, other.scenario.arrival.info->name);
    ck_assert_double_eq(one.scenario.arrival.params.values[0].number,
                        other.scenario.arrival.params.values[0].number);
    for (size_t i = 0; i < one.scenario.arrival.params.values[0].list_length; i++)
        ck_assert_double_eq(one.scenario.arrival.params.values[0].list[i],
                            other.scenario.arrival.params.values[0].list[i]);
    ck_assert_str_eq(one.scenario.timing.info->name, other.scenario.timing.info->name);
    ck_assert_str_eq(one.scenario.router.info->name, other.scenario.router.info->name);
    ck_assert_str_eq(one.scenario.import.info->name, other.scenario.import.info->name);
    ck_assert_uint_eq(one.scenario.llm->top_k, other.scenario.llm->top_k);
    kvt_arena_free(other.arena);
    kvt_arena_free(one.arena);
}
END_TEST

START_TEST(records_are_bound_row_by_row)
{
    struct loaded loaded = loaded_from("load-step", NULL);
    const double expected[] = {16, 300, 256, 300, 16, 300};
    loaded_check_ok(&loaded);
    const struct kvt_param_value *phases = &loaded.scenario.arrival.params.values[0];
    ck_assert_uint_eq(phases->list_length, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_double_eq(phases->list[i], expected[i]);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(lengths_go_with_an_arrival_that_brings_its_own_and_come_back)
{
    const char *const back[LOADED_SETS_MAX] = {"workload.arrival=closed"};
    (void)write_file("t.csv", "arrival_s\n");
    const char *path =
        write_file("traced.json", "{" LOADED_SCHEMA ", \"extends\": \"glm-5.3-100k\", "
                                  "\"workload\": {\"trace\": {\"path\": \"./t.csv\"}}}");
    struct loaded loaded = loaded_from(path, NULL);
    loaded_check_ok(&loaded);
    ck_assert_ptr_null(loaded_at(&loaded, "workload.lengths"));
    ck_assert_ptr_null(loaded.scenario.input_length.info);
    kvt_arena_free(loaded.arena);

    loaded = loaded_from(path, back);
    loaded_check_ok(&loaded);
    ck_assert_str_eq(loaded.scenario.input_length.info->name, "fixed");
    ck_assert_str_eq(origin(&loaded, "workload.lengths.input.tokens"), "default");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_switch_takes_its_dependents_with_it)
{
    const char *const sets[LOADED_SETS_MAX] = {
        "run.fidelity=exact", "cluster.prefill={\"tokens_per_s\": 5000, \"mode\": \"separate\"}"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_ptr_null(loaded_at(&loaded, "run.sample_stores"));
    ck_assert_int_eq(loaded.scenario.prefill.mode, KVT_PREFILL_SEPARATE);
    ck_assert_uint_eq(loaded.scenario.prefill.gpus, 1);
    ck_assert_double_eq(loaded.scenario.prefill.tokens_per_s, 5000);
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_switch_does_not_take_what_the_same_command_line_gave)
{
    const char *const sets[LOADED_SETS_MAX] = {"run.sample_stores=5", "run.fidelity=exact"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    ck_assert_int_eq(loaded.status, KVT_ERR_INVALID);
    ck_assert_str_eq(loaded.err.where, "--set run.sample_stores");
    ck_assert_str_eq(
        loaded.err.message,
        "sample_stores has no effect while fidelity is \"exact\"; it takes fidelity sampled");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(the_workspace_of_speculation_comes_and_goes_with_it)
{
    const char *const sets[LOADED_SETS_MAX] = {"speculation=dflash2"};
    const char *const given[LOADED_SETS_MAX] = {"cluster.decode.speculation_workspace_gib=2"};
    struct loaded loaded = loaded_from("glm-5.3-100k", NULL);
    loaded_check_ok(&loaded);
    ck_assert_ptr_null(loaded_at(&loaded, "cluster.decode.speculation_workspace_gib"));
    kvt_arena_free(loaded.arena);

    loaded = loaded_for_size("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_double_eq(loaded.scenario.pools[0].speculation_workspace_gib, 0.5);
    ck_assert_str_eq(origin(&loaded, "cluster.decode.speculation_workspace_gib"), "default");
    kvt_arena_free(loaded.arena);

    loaded = loaded_for_size("glm-5.3-100k", given);
    loaded_check_refused(&loaded, KVT_ERR_INVALID, "--set cluster.decode.speculation_workspace_gib",
                         "it takes a speculation.method that drafts");
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(paths_are_relative_to_the_file_that_gives_them)
{
    char expected[SUPPORT_PATH_BYTES];
    (void)write_file("rel.csv", "arrival_s\n");
    const char *path =
        write_file("rel.json", "{" LOADED_SCHEMA ", \"extends\": \"glm-5.3-100k\", \"model\": "
                               "\"models/llm/glm-5.json\", \"workload\": {\"trace\": {\"path\": "
                               "\"rel.csv\"}}}");
    struct loaded loaded = loaded_from(path, NULL);
    loaded_check_ok(&loaded);
    ck_assert_str_eq(loaded.scenario.llm->name, "glm-5");
    ck_assert_str_eq(text_of(&loaded, "workload.path"),
                     support_path(loaded_folder(), "rel.csv", expected));
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_drafter_is_named_or_a_path_beside_its_file)
{
    char expected[SUPPORT_PATH_BYTES];
    const char *path = write_file(
        "draft.json",
        "{" LOADED_SCHEMA ", \"extends\": \"glm-5.3-100k\", \"speculation\": {\"method\": "
        "\"dflash2\", \"drafter\": \"models/drafters/glm-5.3-dflash2.json\"}}");
    struct loaded loaded = {.arena = kvt_arena_new(LOADED_ARENA_BYTES)};
    const struct kvt_scenario_options options = loaded_options(NULL, true);
    loaded.status = kvt_scenario_load(path, &options, loaded.arena, &loaded.scenario, &loaded.err);
    loaded_check_ok(&loaded);
    ck_assert_str_eq(loaded.scenario.drafter->name, "glm-5.3-dflash2");
    ck_assert_str_eq(
        text_of(&loaded, "speculation.drafter"),
        support_path(loaded_folder(), "models/drafters/glm-5.3-dflash2.json", expected));
    kvt_arena_free(loaded.arena);
}
END_TEST

START_TEST(a_result_stands_for_the_scenario_it_ran)
{
    char text[LOADED_TEXT_BYTES * 2];
    struct loaded first = loaded_from("load-step", NULL);
    loaded_check_ok(&first);
    char *tree = kvt_json_print(first.scenario.tree);
    (void)snprintf(text, sizeof text,
                   "{\"schema\": \"kvtide/result/1\", \"metrics\": {}, \"scenario\": %s}", tree);
    struct loaded second = loaded_text(text, NULL, false);
    loaded_check_ok(&second);
    char *again = kvt_json_print(second.scenario.tree);
    ck_assert_str_eq(again, tree);
    kvt_arena_free(second.arena);

    second = loaded_text(text, "cluster.decode.ep=3", false);
    ck_assert_str_eq(second.err.where, "--set cluster.decode.ep");
    kvt_arena_free(second.arena);
    second = loaded_text(text, "cluster.decode.gpus=8", false);
    loaded_check_refused(&second, KVT_ERR_INVALID, "--set cluster.decode.gpus",
                         "8 GPUs are not tp 1");
    kvt_arena_free(second.arena);
    second = loaded_text(text, "cluster.decode.pools=derived", false);
    loaded_check_ok(&second);
    kvt_arena_free(second.arena);
    second = loaded_text(text, "hardware=h100", false);
    loaded_check_refused(&second, KVT_ERR_INVALID, "t.json#/scenario/cluster/decode/gpus",
                         "do not fit");
    kvt_arena_free(second.arena);
    free(again);
    free(tree);
    kvt_arena_free(first.arena);
}
END_TEST

START_TEST(decode_may_be_a_list_whose_elements_set_reaches)
{
    const char *const sets[LOADED_SETS_MAX] = {
        "cluster.decode=[{\"gpus\": 4, \"ep\": 4}, {\"gpus\": 8, \"tp\": 8, \"ep\": 8, "
        "\"hardware\": \"h200\"}]",
        "cluster.decode.1.tp=2"};
    struct loaded loaded = loaded_from("glm-5.3-100k", sets);
    loaded_check_ok(&loaded);
    ck_assert_uint_eq(loaded.scenario.pool_count, 2);
    ck_assert_str_eq(loaded.scenario.pools[0].hardware->name, "b300");
    ck_assert_str_eq(loaded.scenario.pools[1].hardware->name, "h200");
    ck_assert_uint_eq(loaded.scenario.pools[1].tp, 2);
    ck_assert_uint_eq(loaded.scenario.pools[1].dp, 4);
    kvt_arena_free(loaded.arena);
}
END_TEST

/* ---- Suite -------------------------------------------------------------------------------- */

#define COUNT(table) ((int)(sizeof(table) / sizeof(table)[0]))

static Suite *scenario_suite(void)
{
    Suite *suite = suite_create("scenario");
    TCase *loading = tcase_create("loading");
    TCase *layers = tcase_create("layers");
    TCase *const cases[] = {loading, layers};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcase_add_checked_fixture(cases[i], loaded_folder_make, loaded_folder_remove);
        suite_add_tcase(suite, cases[i]);
    }
    tcase_add_loop_test(loading, a_shipped_scenario_loads_under_its_own_name, 0, SHIPPED);
    tcase_add_loop_test(loading, the_tree_in_force_loads_back_to_an_equal_tree, 0, SHIPPED);
    tcase_add_test(loading, the_quickstart_is_what_the_design_says);
    tcase_add_test(loading, every_default_is_written_out_with_its_origin);
    tcase_add_test(loading, the_last_layer_that_speaks_is_the_origin);
    tcase_add_test(loading, values_of_set_are_json_or_text);
    tcase_add_test(loading, every_file_that_was_read_is_an_input_with_its_hash);
    tcase_add_test(loading, a_trace_is_an_input_that_changes_with_its_bytes);
    tcase_add_test(loading, a_result_stands_for_the_scenario_it_ran);

    tcase_add_test(layers, objects_merge_lists_replace_and_later_files_win);
    tcase_add_test(layers, a_circle_of_extends_is_refused_with_its_chain);
    tcase_add_test(layers, extends_goes_sixteen_files_deep_and_no_deeper);
    tcase_add_test(layers, changing_a_policy_resets_its_parameters_and_keeps_the_rest);
    tcase_add_test(layers, a_new_policy_does_not_take_what_the_same_command_line_gave);
    tcase_add_test(layers, naming_the_policy_in_force_resets_nothing);
    tcase_add_test(layers, the_newcomers_parameters_apply_whatever_the_order_in_the_file);
    tcase_add_loop_test(layers, two_spellings_mean_one_thing, 0, COUNT(spellings));
    tcase_add_test(layers, records_are_bound_row_by_row);
    tcase_add_test(layers, lengths_go_with_an_arrival_that_brings_its_own_and_come_back);
    tcase_add_test(layers, a_switch_takes_its_dependents_with_it);
    tcase_add_test(layers, a_switch_does_not_take_what_the_same_command_line_gave);
    tcase_add_test(layers, the_workspace_of_speculation_comes_and_goes_with_it);
    tcase_add_test(layers, paths_are_relative_to_the_file_that_gives_them);
    tcase_add_test(layers, a_drafter_is_named_or_a_path_beside_its_file);
    tcase_add_test(layers, decode_may_be_a_list_whose_elements_set_reaches);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(scenario_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
