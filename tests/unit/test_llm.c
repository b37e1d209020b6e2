/* test_llm.c -- model and drafter files: shapes as published, and refusals in words. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/llm.h"
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

/* What is public of each model: layers that keep rows, stores, selectors, bytes of a token. */
static const struct shape {
    const char *name;
    uint32_t layers, payload_layers, stores, selectors, selections_per_token;
    double payload_bytes, index_bytes; /* of a token */
} shapes[] = {
    {"glm-5.3", 78, 78, 21, 21, 43008, 44928, 2772},
    {"glm-5", 78, 78, 78, 78, 159744, 44928, 10296},
    {"deepseek-v3.2", 61, 61, 61, 61, 124928, 40016, 8052},
    {"deepseek-v4-flash", 43, 21, 21, 21, 10752, 3066, 693},
    {"deepseek-v4.1-flash", 40, 4, 4, 8, 4096, 720, 170},
    {"llama-3.1-8b", 32, 32, 1, 1, 131072, 131072, 0}, /* dense: it selects every row */
    {"llama-2-7b-128k", 32, 32, 1, 1, 131072, 524288, 0},
    {"llama-3.1-8b-shadowkv", 32, 32, 32, 32, 8192, 131072, 18432}, /* blocks of 8 tokens */
};
enum {
    SHAPES = sizeof shapes / sizeof shapes[0]
};

START_TEST(every_shipped_model_has_its_published_shape)
{
    const struct shape *shape = &shapes[_i];
    const struct kvt_llm *llm = shipped_llm(arena, shape->name);
    uint32_t payload_layers = 0;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        payload_layers += llm->stores[i].layers;
    }
    ck_assert_str_eq(llm->name, shape->name);
    ck_assert_uint_eq(llm->layers, shape->layers);
    ck_assert_uint_eq(payload_layers, shape->payload_layers);
    ck_assert_uint_eq(llm->store_count, shape->stores);
    ck_assert_uint_eq(llm->selector_count, shape->selectors);
    ck_assert_uint_eq((uint64_t)llm->selector_count * llm->top_k, shape->selections_per_token);
    ck_assert_double_eq(kvt_llm_payload_bytes_per_token(llm), shape->payload_bytes);
    ck_assert_double_eq(kvt_llm_index_bytes_per_token(llm), shape->index_bytes);
}
END_TEST

START_TEST(every_shipped_model_says_what_its_weights_are)
{
    const struct kvt_llm *llm = shipped_llm(arena, shapes[_i].name);
    double sum_bytes = (llm->weights_replicated_gib + llm->weights_expert_gib) * (double)KVT_GIB;

    ck_assert_double_eq_tol(sum_bytes, llm->weight_bytes, 1);
    ck_assert_double_eq_tol(llm->weights_replicated_gib * (double)KVT_GIB, llm->dense_weight_bytes,
                            1);
    ck_assert_double_lt(llm->active_parameters, 1.2 * llm->weight_bytes);
}
END_TEST

START_TEST(a_row_crosses_the_link_in_whole_64_byte_units)
{
    const struct kvt_llm *llm = shipped_llm(arena, shapes[_i].name);
    uint32_t most = 0;

    if (llm->payload.wire_bytes < llm->payload.capacity_bytes) { /* a part of it crosses */
        ck_assert_uint_eq(llm->payload.wire_bytes % 64, 0);
        return;
    }
    /* A row at each place that a packed array puts it: how many units it touches. */
    for (uint32_t row = 0; row < 64; row++) {
        uint32_t first = row * llm->payload.capacity_bytes / 64;
        uint32_t last = ((row + 1) * llm->payload.capacity_bytes - 1) / 64;

        most = last - first + 1 > most ? last - first + 1 : most;
    }
    ck_assert_uint_eq(llm->payload.wire_bytes, UINT64_C(64) * most);
}
END_TEST

START_TEST(glm_5_3_selects_in_layers_0_1_2_6_to_74)
{
    const struct kvt_llm *llm = shipped_llm(arena, "glm-5.3");

    for (uint32_t i = 0; i < llm->selector_count; i++) {
        uint32_t layer = i < 2 ? i : 4 * i - 6;

        ck_assert_uint_eq(llm->selectors[i].layer, layer);
        ck_assert_uint_eq(llm->selectors[i].store, i);
        ck_assert_uint_eq(llm->stores[i].first_layer, layer);
        ck_assert_uint_eq(llm->stores[i].layers, i < 2 ? 1 : 4);
        ck_assert_uint_eq(llm->stores[i].compress_ratio, 1);
    }
    ck_assert_uint_eq(llm->selectors[20].layer, 74);
}
END_TEST

START_TEST(five_selectors_of_v4_1_flash_share_the_store_of_layer_20)
{
    static const uint32_t layers[] = {2, 8, 14, 20, 24, 28, 32, 36};
    static const uint32_t stores[] = {0, 1, 2, 3, 3, 3, 3, 3};
    static const uint32_t ratios[] = {2, 2, 2, 1};
    const struct kvt_llm *llm = shipped_llm(arena, "deepseek-v4.1-flash");

    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_uint_eq(llm->selectors[i].layer, layers[i]);
        ck_assert_uint_eq(llm->selectors[i].store, stores[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(llm->stores[i].first_layer, layers[i]);
        ck_assert_uint_eq(llm->stores[i].compress_ratio, ratios[i]);
    }
    ck_assert_uint_eq(kvt_store_rows(&llm->stores[0], 500001), 250000);
}
END_TEST

static const struct {
    const char *name;
    uint32_t layers, selectors, stores; /* selectors 0: refused */
    const char *words;
} first_layers[] = {
    {"glm-5.3", 1, 1, 1, ""},
    {"glm-5.3", 2, 2, 2, ""},
    {"glm-5.3", 26, 8, 8, ""},
    {"glm-5.3", 78, 21, 21, ""},
    {"glm-5.3", 0, 0, 0, "0 of the 78 layers of glm-5.3 are less than its first store"},
    {"glm-5.3", 25, 0, 0, "25 of the 78 layers of glm-5.3 hold a part of a store; 22 and 26 hold"},
    {"glm-5.3", 79, 0, 0, "79 layers, and glm-5.3 has 78"},
    {"deepseek-v4.1-flash", 20, 3, 3, ""},
    {"deepseek-v4.1-flash", 24, 0, 0, "; 20 and 40 hold whole ones"},
    {"deepseek-v4.1-flash", 3, 0, 0, "are less than its first store, which 8 hold"},
    {"deepseek-v4-flash", 41, 0, 0, "; 40 and 42 hold whole ones"},
    {"deepseek-v4-flash", 43, 21, 21, ""},
};

START_TEST(the_first_layers_are_a_model_where_no_store_is_cut)
{
    const struct kvt_llm *llm = shipped_llm(arena, first_layers[_i].name);
    struct kvt_llm first = {0};
    struct kvt_error err = {0};
    kvt_status status = kvt_llm_first_layers(llm, first_layers[_i].layers, "layers", &first, &err);

    if (first_layers[_i].selectors == 0) {
        ck_assert_int_eq(status, KVT_ERR_INVALID);
        ck_assert_str_eq(err.where, "layers");
        ck_assert_msg(strstr(err.message, first_layers[_i].words) != NULL, "%s", err.message);
        return;
    }
    ck_assert_int_eq(status, KVT_OK);
    ck_assert_uint_eq(first.layers, first_layers[_i].layers);
    ck_assert_uint_eq(first.selector_count, first_layers[_i].selectors);
    ck_assert_uint_eq(first.store_count, first_layers[_i].stores);
    ck_assert_uint_eq(first.hidden, llm->hidden);
}
END_TEST

/* 19.556 / tp + 684.167 / (dp tp), experts spread; 684.167 / tp otherwise. */
START_TEST(weights_are_sharded_as_engines_shard_them)
{
    const struct kvt_llm *llm = shipped_llm(arena, "glm-5.3");

    ck_assert_double_eq_tol(kvt_llm_weights_gib_per_gpu(llm, 8, 1, 8), 87.965375, 1e-9);
    ck_assert_double_eq_tol(kvt_llm_weights_gib_per_gpu(llm, 1, 4, 4), 190.59775, 1e-9);
    ck_assert_double_eq_tol(kvt_llm_weights_gib_per_gpu(llm, 2, 4, 1), 351.8615, 1e-9);
    ck_assert_double_eq_tol(kvt_llm_weights_gib_per_gpu(llm, 2, 4, 8), 95.298875, 1e-9);
}
END_TEST

START_TEST(weights_without_a_split_are_shared_by_all_gpus)
{
    struct kvt_llm llm = *shipped_llm(arena, "glm-5.3");

    llm.weights_replicated_gib = 0;
    llm.weights_expert_gib = 0;
    ck_assert_double_eq_tol(kvt_llm_weights_gib_per_gpu(&llm, 2, 4, 8), 703.723 / 8, 1e-6);
}
END_TEST

START_TEST(the_ring_of_glm_5_3_dflash2_is_26738688_bytes)
{
    const struct kvt_drafter *drafter = shipped_drafter(arena, "glm-5.3-dflash2");

    ck_assert_uint_eq(kvt_drafter_ring_bytes(drafter), 26738688);
    ck_assert_uint_eq(drafter->block_max, 8);
    ck_assert_double_eq_tol(drafter->weight_bytes / (double)KVT_GIB, 4.58, 1e-6);
}
END_TEST

START_TEST(a_dspark_row_is_528_bytes_a_module)
{
    const struct kvt_drafter *drafter = shipped_drafter(arena, "v4.1-flash-dspark");

    ck_assert_uint_eq(kvt_drafter_ring_bytes(drafter), UINT64_C(3) * 128 * 528);
}
END_TEST

START_TEST(a_drafter_without_a_window_has_no_ring)
{
    ck_assert_uint_eq(kvt_drafter_ring_bytes(shipped_drafter(arena, "glm-5.3-mtp")), 0);
}
END_TEST

static const struct refusal {
    const char *name;
    struct shipped_edit edit;
    const char *place, *message; /* parts of place and sentence */
} refusals[] = {
    {"glm-5.3", {"/schema", "\"kvtide/hardware/1\""}, "glm-5.3#", "expected \"kvtide/llm/1\""},
    {"glm-5.3", {"/layers", "77"}, "/stores/1", "store 20 takes layers 74 to 77"},
    {"glm-5.3", {"/layers", "0"}, "/layers", ""},
    {"glm-5.3", {"/layers", "78.5"}, "/layers", ""},
    {"glm-5.3", {"/top_k", NULL}, "/top_k", ""},
    {"glm-5.3", {"/topk", "2048"}, "/topk", "no such key"},
    {"glm-5.3", {"/experts_active", "257"}, "#", "experts_active is 257 of 256"},
    {"glm-5.3", {"/index_heads", "0"}, "#", "an indexer has all of them, and a dense model none"},
    {"glm-5.3", {"/index/wire_bytes", "0"}, "#", "an indexer has all of them"},
    {"llama-3.1-8b", {"/index_dim", "128"}, "#", "an indexer has all of them"},
    {"llama-3.1-8b", {"/top_k", "2048"}, "#", "attends to all of its 131072"},
    {"glm-5.3", {"/dense_weight_bytes", "1e15"}, "#", "more than weight_bytes"},
    {"glm-5.3", {"/payload", NULL}, "/payload", ""},
    {"glm-5.3", {"/payload/capacity_bytes", "0"}, "/payload/capacity_bytes", ""},
    {"glm-5.3", {"/payload/stride", "0"}, "/payload/stride", "no such key"},
    {"glm-5.3", {"/payload/name", NULL}, "/payload/name", ""},
    {"glm-5.3", {"/stores", "[]"}, "#", "no store"},
    {"glm-5.3", {"/stores", "{}"}, "/stores", ""},
    {"glm-5.3", {"/stores/0", "7"}, "/stores/0", ""},
    {"glm-5.3", {"/stores/1/first_layer", "1"}, "/stores/1", "store 2 takes layers 1 to 4"},
    {"glm-5.3", {"/stores/0/compress_ratio", "3"}, "/stores/0", "whole rows for 1, 2, 4"},
    {"glm-5", {"/stores/0/repeat", "129"}, "/stores/0/repeat", ""},
    {"glm-5.3", {"/selectors", "\"all\""}, "#", "expected \"one_per_store\""},
    {"glm-5.3", {"/selectors", "[]"}, "#", "store 0 has no selector"},
    {"glm-5.3", {"/selectors", "3"}, "/selectors", ""},
    {"deepseek-v4.1-flash", {"/selectors/1/layer", "2"}, "/selectors/1", "is for layers 8 to 39"},
    {"deepseek-v4.1-flash",
     {"/selectors/5/layer", "24"},
     "/selectors/5",
     "layer 24 after layer 24"},
    {"deepseek-v4.1-flash", {"/selectors/7/layer", "40"}, "/selectors/7", "layers 20 to 39"},
    {"deepseek-v4.1-flash", {"/selectors/7/store", "4"}, "/selectors/7", "there are 4"},
    {"glm-5.3", {"/engines", "{}"}, "/engines", "no such key"},
    {"glm-5.3", {"/sources/stores", NULL}, "/sources", "no source for \"stores\""},
    {"glm-5.3", {"/sources/payload", NULL}, "/sources", "no source for \"payload.capacity_bytes\""},
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(a_wrong_model_is_refused_with_its_place)
{
    const struct refusal *refusal = &refusals[_i];
    struct kvt_llm llm = {.layers = 2385};
    struct kvt_error err = {0};
    cJSON *tree = shipped_tree("llm", refusal->name);

    shipped_apply(tree, &refusal->edit);
    ck_assert_int_ne(kvt_llm_from_json(tree, refusal->name, arena, &llm, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, refusal->place) != NULL, "%s: where is %s (%s)",
                  refusal->edit.pointer, err.where, err.message);
    ck_assert_msg(strstr(err.message, refusal->message) != NULL, "%s: %s", refusal->edit.pointer,
                  err.message);
    ck_assert_uint_eq(llm.layers, 2385);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(slack_without_a_window_is_refused)
{
    struct kvt_drafter drafter;
    struct kvt_error err = {0};
    cJSON *tree = shipped_tree("drafters", "glm-5.3-dflash2");

    shipped_apply(tree, &(struct shipped_edit){"/window_tokens", "0"});
    ck_assert_int_eq(kvt_drafter_from_json(tree, "d", arena, &drafter, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "slack_tokens is 128"));
    cJSON_Delete(tree);
}
END_TEST

static const struct {
    const char *models, *place, *message;
} models_refused[] = {
    {NULL, "d#/models", "missing; expected an array"},
    {"\"glm-5.3\"", "d#/models", "is not an array"},
    {"[]", "d#/models", "an empty list; expected the names"},
    {"[\"glm-5.3\", 3]", "d#/models", "element 1 is no text"},
};

START_TEST(a_drafter_without_models_is_refused)
{
    struct kvt_drafter drafter;
    struct kvt_error err = {0};
    cJSON *tree = shipped_tree("drafters", "glm-5.3-dflash2");

    shipped_apply(tree, &(struct shipped_edit){"/models", models_refused[_i].models});
    ck_assert_int_eq(kvt_drafter_from_json(tree, "d", arena, &drafter, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, models_refused[_i].place);
    ck_assert_ptr_nonnull(strstr(err.message, models_refused[_i].message));
    cJSON_Delete(tree);
}
END_TEST

/* What is wrong with "pass", by a change of one of its numbers; -1 leaves it out. */
static const struct {
    const char *key;
    double value;
    const char *words;
} passes[] = {
    {"heads", 63, "63 heads do not go evenly on kv_heads of 8"},
    {"inner", 24576, "where weight_bytes is 4917737554"},
    {"lead_tokens", 2, "lead_tokens"},
    {"taps", -1, "taps"},
    {"hidden", 0, "hidden"},
};

START_TEST(a_pass_that_cannot_be_is_refused)
{
    struct kvt_drafter drafter;
    struct kvt_error err;
    cJSON *tree = shipped_tree("drafters", "glm-5.3-dflash2");
    cJSON *pass = cJSON_GetObjectItemCaseSensitive(tree, "pass");

    if (passes[_i].value < 0)
        cJSON_DeleteItemFromObjectCaseSensitive(pass, passes[_i].key);
    else
        cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(pass, passes[_i].key),
                             passes[_i].value);
    ck_assert_int_eq(kvt_drafter_from_json(tree, "d", arena, &drafter, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, passes[_i].words) || strstr(err.where, passes[_i].words),
                  "%s: %s", err.where, err.message);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(a_drafter_may_leave_open_what_its_pass_computes)
{
    ck_assert_uint_eq(shipped_drafter(arena, "glm-5.3-dflash2")->pass.heads, 64);
    ck_assert_uint_eq(shipped_drafter(arena, "v4.1-flash-dspark")->pass.hidden, 0);
}
END_TEST

START_TEST(a_drafter_fits_the_models_that_it_names)
{
    const struct kvt_drafter *drafter = shipped_drafter(arena, "glm-5.3-mtp");

    ck_assert(kvt_drafter_fits(drafter, "glm-5.3") && kvt_drafter_fits(drafter, "glm-5"));
    ck_assert(!kvt_drafter_fits(drafter, "glm-5.") && !kvt_drafter_fits(drafter, ""));
}
END_TEST

static Suite *llm_suite(void)
{
    Suite *suite = suite_create("llm");
    TCase *good = tcase_create("shipped");
    TCase *bad = tcase_create("refused");

    tcase_add_checked_fixture(good, make_arena, free_arena);
    tcase_add_loop_test(good, every_shipped_model_has_its_published_shape, 0, SHAPES);
    tcase_add_loop_test(good, every_shipped_model_says_what_its_weights_are, 0, SHAPES);
    tcase_add_loop_test(good, a_row_crosses_the_link_in_whole_64_byte_units, 0, SHAPES);
    tcase_add_test(good, glm_5_3_selects_in_layers_0_1_2_6_to_74);
    tcase_add_test(good, five_selectors_of_v4_1_flash_share_the_store_of_layer_20);
    tcase_add_loop_test(good, the_first_layers_are_a_model_where_no_store_is_cut, 0,
                        (int)(sizeof first_layers / sizeof first_layers[0]));
    tcase_add_test(good, weights_are_sharded_as_engines_shard_them);
    tcase_add_test(good, weights_without_a_split_are_shared_by_all_gpus);
    tcase_add_test(good, the_ring_of_glm_5_3_dflash2_is_26738688_bytes);
    tcase_add_test(good, a_dspark_row_is_528_bytes_a_module);
    tcase_add_test(good, a_drafter_without_a_window_has_no_ring);
    tcase_add_test(good, a_drafter_fits_the_models_that_it_names);
    tcase_add_test(good, a_drafter_may_leave_open_what_its_pass_computes);
    tcase_add_loop_test(bad, a_pass_that_cannot_be_is_refused, 0, sizeof passes / sizeof passes[0]);
    suite_add_tcase(suite, good);
    tcase_add_checked_fixture(bad, make_arena, free_arena);
    tcase_add_loop_test(bad, a_wrong_model_is_refused_with_its_place, 0, REFUSALS);
    tcase_add_loop_test(bad, a_drafter_without_models_is_refused, 0,
                        (int)(sizeof models_refused / sizeof models_refused[0]));
    tcase_add_test(bad, slack_without_a_window_is_refused);
    suite_add_tcase(suite, bad);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(llm_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
