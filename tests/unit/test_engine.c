/* test_engine.c -- engine files: what they say, and that a wrong one is refused with its place. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "support/shipped.h"

static struct kvt_arena *arena;

static void make(void)
{
    arena = kvt_arena_new(4096);
    ck_assert_ptr_nonnull(arena);
}

static void unmake(void)
{
    kvt_arena_free(arena);
}

static const char *const names[] = {"vllm-2026-09", "sglang-2026-09", "trtllm-2026-09"};
enum {
    NAMES = sizeof names / sizeof names[0]
};

/* ---- Good ------------------------------------------------------------------------------------ */

START_TEST(a_shipped_engine_is_named_after_its_file_and_says_what_it_describes)
{
    const struct kvt_engine *engine = shipped_engine(arena, names[_i]);

    ck_assert_str_eq(engine->name, names[_i]);
    ck_assert_ptr_nonnull(strstr(engine->name, engine->family));
    ck_assert_uint_gt(strlen(engine->describes), 60);
    ck_assert_uint_gt(engine->rule_count, 10);
    ck_assert_uint_gt(engine->flag_count, 15);
    ck_assert_uint_ge(engine->log_line_count, 1);
    for (uint32_t i = 0; i < engine->rule_count; i++)
        ck_assert_uint_gt(strlen(engine->rules[i].source), 5);
}
END_TEST

START_TEST(defaults_are_those_that_the_projects_print)
{
    const struct kvt_engine *vllm = shipped_engine(arena, "vllm-2026-09");
    const struct kvt_engine *sglang = shipped_engine(arena, "sglang-2026-09");
    const struct kvt_engine *trtllm = shipped_engine(arena, "trtllm-2026-09");

    ck_assert_double_eq(vllm->memory_fraction, 0.92);
    ck_assert_double_eq(vllm->workspace_gib, 15);
    ck_assert_double_eq(sglang->memory_fraction, 0.9);
    ck_assert_double_eq(sglang->host_ratio, 2);
    ck_assert_double_eq(trtllm->memory_fraction, 0.9);
    ck_assert(trtllm->fraction_of_free);
    /* vLLM: (K + 1) k by default; SGLang and TensorRT-LLM: 2 k. */
    ck_assert_double_eq(vllm->hot_per_query, 1);
    ck_assert_double_eq(vllm->hot_extra, 1);
    ck_assert_double_eq(sglang->hot_per_query * 8 + sglang->hot_extra, 2);
    ck_assert_double_eq(trtllm->hot_extra, 2);
}
END_TEST

START_TEST(every_fact_has_one_name_and_a_sentence)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);

    ck_assert_uint_gt(count, 40);
    ck_assert_uint_le(count, KVT_ENGINE_FACTS_MAX);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(kvt_engine_fact_find(docs[i].name), (int)i);
        ck_assert_uint_gt(strlen(docs[i].help), 5);
    }
    ck_assert_int_eq(kvt_engine_fact_find("no such"), -1);
}
END_TEST

static const struct kvt_engine_rule *rule_of(const struct kvt_engine *engine, const char *id)
{
    for (uint32_t i = 0; i < engine->rule_count; i++) {
        if (strcmp(engine->rules[i].id, id) == 0)
            return &engine->rules[i];
    }
    ck_abort_msg("no rule %s", id);
}

/* A bound is itself allowed, and a fact that nobody knows proves nothing. */
START_TEST(a_rule_holds_when_all_of_its_conditions_do)
{
    const struct kvt_engine *vllm = shipped_engine(arena, "vllm-2026-09");
    const struct kvt_engine_rule *rule = rule_of(vllm, "hot-too-small");
    struct kvt_engine_facts facts = {.of = {{0}}};

    ck_assert(!kvt_engine_applies(rule, &facts));
    kvt_engine_set_number(&facts, "hierarchy", 1);
    kvt_engine_set_number(&facts, "staging", 0);
    kvt_engine_set_number(&facts, "hot_tokens", 16383);
    ck_assert(!kvt_engine_applies(rule, &facts));
    kvt_engine_set_number(&facts, "hot_least", 16384);
    ck_assert(kvt_engine_applies(rule, &facts));
    kvt_engine_set_number(&facts, "hot_tokens", 16384);
    ck_assert(!kvt_engine_applies(rule, &facts));
    kvt_engine_set_number(&facts, "hot_tokens", 2);
    kvt_engine_set_number(&facts, "hierarchy", 0);
    ck_assert(!kvt_engine_applies(rule, &facts));
}
END_TEST

START_TEST(texts_times_and_unknown_facts_are_compared_as_they_say)
{
    const struct kvt_engine *vllm = shipped_engine(arena, "vllm-2026-09");
    struct kvt_engine_facts facts = {.of = {{0}}};

    kvt_engine_set_number(&facts, "hierarchy", 1);
    ck_assert(kvt_engine_applies(rule_of(vllm, "no-host-pool"), &facts));
    kvt_engine_set_number(&facts, "host_gib", 384);
    ck_assert(!kvt_engine_applies(rule_of(vllm, "no-host-pool"), &facts));
    kvt_engine_set_text(&facts, "graphs", "FULL_AND_PIECEWISE");
    ck_assert(!kvt_engine_applies(rule_of(vllm, "graphs-full"), &facts));
    kvt_engine_set_text(&facts, "graphs", "FULL");
    ck_assert(kvt_engine_applies(rule_of(vllm, "graphs-full"), &facts));
    kvt_engine_set_text(&facts, "policy", "adaptive");
    ck_assert(kvt_engine_applies(rule_of(vllm, "policy"), &facts));
    kvt_engine_set_text(&facts, "policy", "resident");
    ck_assert(!kvt_engine_applies(rule_of(vllm, "policy"), &facts));
    /* 95 % of 1000. */
    kvt_engine_set_number(&facts, "host_node_gib", 1000);
    kvt_engine_set_number(&facts, "host_pinned_gib", 950);
    ck_assert(!kvt_engine_applies(rule_of(vllm, "host-pool-too-large"), &facts));
    kvt_engine_set_number(&facts, "host_pinned_gib", 950.5);
    ck_assert(kvt_engine_applies(rule_of(vllm, "host-pool-too-large"), &facts));
}
END_TEST

/* 64 heads over 8 GPUs, over 6, and over a number that nobody knows. */
START_TEST(heads_are_shared_out_evenly_or_refused)
{
    const struct kvt_engine *vllm = shipped_engine(arena, "vllm-2026-09");
    const struct kvt_engine_rule *heads = rule_of(vllm, "heads");
    struct kvt_engine_facts facts = {.of = {{0}}};

    kvt_engine_set_number(&facts, "heads", 64);
    ck_assert(!kvt_engine_applies(heads, &facts));
    kvt_engine_set_number(&facts, "world_tp", 8);
    ck_assert(!kvt_engine_applies(heads, &facts));
    kvt_engine_set_number(&facts, "world_tp", 6);
    ck_assert(kvt_engine_applies(heads, &facts));
    kvt_engine_set_number(&facts, "world_tp", 128);
    ck_assert(kvt_engine_applies(heads, &facts));
}
END_TEST

START_TEST(a_sentence_takes_facts_and_keeps_other_braces)
{
    struct kvt_engine_facts facts = {.of = {{0}}};

    kvt_engine_set_number(&facts, "hot_tokens", 4096);
    kvt_engine_set_number(&facts, "host_gib", 2.385);
    kvt_engine_set_text(&facts, "method", "mtp");
    ck_assert_str_eq(
        kvt_engine_sentence("{hot_tokens} of {method}, {host_gib} GiB, {tp}; {", &facts, arena),
        "4096 of mtp, 2.38 GiB, unknown; {");
}
END_TEST

START_TEST(a_family_is_its_newest_file_and_ideal_is_none)
{
    const struct kvt_engine *engine = NULL;
    struct kvt_error err;

    ck_assert_int_eq(kvt_engine_load("vllm", KVT_TEST_ROOT, arena, &engine, &err), KVT_OK);
    ck_assert_str_eq(engine->name, "vllm-2026-09");
    ck_assert_str_eq(kvt_engine_name(engine), "vllm");
    ck_assert_int_eq(kvt_engine_load("ideal", KVT_TEST_ROOT, arena, &engine, &err), KVT_OK);
    ck_assert_ptr_null(engine);
    ck_assert_str_eq(kvt_engine_name(engine), "ideal");
    ck_assert_int_eq(kvt_engine_load("vll", KVT_TEST_ROOT, arena, &engine, &err),
                     KVT_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "sglang-2026-09"));
}
END_TEST

/* ---- Bad --------------------------------------------------------------------------------------
 */

static const struct refusal {
    const char *name;
    struct shipped_edit edit;
    const char *place, *message;
} refusals[] = {
    {"vllm-2026-09", {"/schema", "\"kvtide/llm/1\""}, "#", "expected \"kvtide/engine/1\""},
    {"vllm-2026-09", {"/family", NULL}, "/family", ""},
    {"vllm-2026-09", {"/describes", NULL}, "/describes", ""},
    {"vllm-2026-09", {"/licence", "1"}, "/licence", "no such key"},
    {"vllm-2026-09", {"/layout/kind", "\"pages\""}, "/layout", "block_pool or row_pools"},
    {"vllm-2026-09", {"/layout/page_tokens", "0"}, "/layout/page_tokens", ""},
    {"vllm-2026-09", {"/layout/page_tokens", "63.5"}, "/layout/page_tokens", ""},
    {"vllm-2026-09", {"/layout/pages", "1"}, "/layout/pages", "no such key"},
    {"vllm-2026-09", {"/memory/fraction", "1.5"}, "/memory/fraction", ""},
    {"vllm-2026-09", {"/memory/fraction", NULL}, "/memory/fraction", ""},
    {"vllm-2026-09", {"/memory/of", "\"most\""}, "/memory", "total or free"},
    {"vllm-2026-09", {"/memory/seats", "\"some\""}, "/memory", "a replica or of all"},
    {"vllm-2026-09", {"/hot_cache/most_tokens", "0"}, "/hot_cache/most_tokens", ""},
    {"vllm-2026-09", {"/auto_rows", "{\"h200\": \"bf16\"}"}, "#", "\"other\" is missing"},
    {"vllm-2026-09", {"/auto_rows/other", "\"fp4\""}, "#", "\"fp4\" is no format"},
    {"vllm-2026-09", {"/flags", "{}"}, "/flags", ""},
    {"vllm-2026-09", {"/flags/0", "7"}, "/flags/0", ""},
    {"vllm-2026-09", {"/flags/0/fact", "\"models\""}, "/flags/0", "\"models\" is no fact"},
    {"vllm-2026-09", {"/flags/0/fact", NULL}, "/flags/0", "either a fact"},
    {"vllm-2026-09", {"/flags/0/constant", "\"x\""}, "/flags/0", "either a fact"},
    {"vllm-2026-09", {"/flags/0/sets", "true"}, "/flags/0", "neither true nor false"},
    {"vllm-2026-09", {"/flags/0/per", "0"}, "/flags/0/per", ""},
    {"vllm-2026-09", {"/flags/0/words", "{\"a\": 1}"}, "/flags/0", "stands for no text"},
    {"vllm-2026-09", {"/flags/0/aliases", "[3]"}, "/flags/0", "is no text"},
    {"vllm-2026-09", {"/flags/0/colour", "1"}, "/flags/0/colour", "no such key"},
    {"vllm-2026-09", {"/passive/switches", "[\"\"]"}, "/passive", "is no text"},
    {"vllm-2026-09", {"/log/0/line", "\"{log_tokens}\""}, "/log/0", "text of its own"},
    {"vllm-2026-09", {"/log/0/line", "\"a {tokens}\""}, "/log/0", "no fact in braces"},
    {"vllm-2026-09", {"/log/0/line", "\"a {log_tokens}{tp}\""}, "/log/0", "no text between"},
    {"vllm-2026-09", {"/log/0/source", NULL}, "/log/0/source", ""},
    {"vllm-2026-09", {"/rules/0/source", NULL}, "/rules/0/source", ""},
    {"vllm-2026-09", {"/rules/0/effect", "\"hurts\""}, "/rules/0", "refuses, cannot, off or warns"},
    {"vllm-2026-09", {"/rules/0/when", "[]"}, "/rules/0", "1 to 6"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"hierarchy\"]"}, "/when/0", "a condition is"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"tps\", \"=\", 1]"}, "/when/0", "is no fact"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"tp\", \"~\", 1]"}, "/when/0", "one of = !="},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"tp\", \"in\", [1]]"}, "/when/0", "is no text"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"model\", \"<\", \"x\"]"}, "/when/0", "is a text"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"model\", \"=\", 1]"}, "/when/0", "with texts"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"tp\", \"=\", \"x\"]"}, "/when/0", "expected a number"},
    {"vllm-2026-09",
     {"/rules/0/when/0", "[\"tp\", \"known\", 1]"},
     "/when/0",
     "nothing is compared"},
    {"vllm-2026-09", {"/rules/0/when/0", "[\"tp\", \"=\"]"}, "/when/0", "nothing to compare"},
    {"vllm-2026-09",
     {"/rules/0/when/0", "[\"tp\", \">\", {\"fact\": \"x\"}]"},
     "/when/0",
     "\"x\" is no fact"},
    {"vllm-2026-09", {"/rules/0/id", "\"graphs-full\""}, "/rules/3", "a second rule"},
    {"vllm-2026-09", {"/checkpoints/glm-5.1", "5"}, "/checkpoints", "neither the name"},
    {"vllm-2026-09", {"/sources/layout", NULL}, "/sources", "no source for \"layout.page_tokens\""},
    {"vllm-2026-09", {"/sources/flags", NULL}, "/sources", "no source for \"flags\""},
    {"vllm-2026-09", {"/sources/price", "\"x\""}, "/sources", "which is no number"},
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(a_wrong_engine_is_refused_with_its_place)
{
    const struct refusal *refusal = &refusals[_i];
    struct kvt_engine engine = {.rule_count = 2385};
    struct kvt_error err = {0};
    cJSON *tree = shipped_tree("engine", refusal->name);

    shipped_apply(tree, &refusal->edit);
    ck_assert_int_ne(kvt_engine_from_json(tree, refusal->name, arena, &engine, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, refusal->place) != NULL, "%s: where is %s (%s)",
                  refusal->edit.pointer, err.where, err.message);
    ck_assert_msg(strstr(err.message, refusal->message) != NULL, "%s: %s", refusal->edit.pointer,
                  err.message);
    ck_assert_uint_eq(engine.rule_count, 2385);
    cJSON_Delete(tree);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *good = tcase_create("good");
    TCase *bad = tcase_create("bad");

    tcase_add_checked_fixture(good, make, unmake);
    tcase_add_loop_test(good, a_shipped_engine_is_named_after_its_file_and_says_what_it_describes,
                        0, NAMES);
    tcase_add_test(good, defaults_are_those_that_the_projects_print);
    tcase_add_test(good, every_fact_has_one_name_and_a_sentence);
    tcase_add_test(good, a_rule_holds_when_all_of_its_conditions_do);
    tcase_add_test(good, texts_times_and_unknown_facts_are_compared_as_they_say);
    tcase_add_test(good, heads_are_shared_out_evenly_or_refused);
    tcase_add_test(good, a_sentence_takes_facts_and_keeps_other_braces);
    tcase_add_test(good, a_family_is_its_newest_file_and_ideal_is_none);
    suite_add_tcase(suite, good);
    tcase_add_checked_fixture(bad, make, unmake);
    tcase_add_loop_test(bad, a_wrong_engine_is_refused_with_its_place, 0, REFUSALS);
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
