/* test_llm_change.c -- fewer indexers, and blocks in place of rows: shapes worked out by hand, and
 * refusals in words. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/layout.h"
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

/* The shipped model with up to two keys more or other. */
static kvt_status load(const char *name, const struct shipped_edit edits[2], struct kvt_llm *llm,
                       struct kvt_error *err)
{
    cJSON *tree = shipped_tree("llm", name);

    for (int i = 0; i < 2 && edits[i].pointer != NULL; i++)
        shipped_apply(tree, &edits[i]);
    kvt_status status = kvt_llm_from_json(tree, name, arena, llm, err);
    cJSON_Delete(tree);
    return status;
}

static struct kvt_llm changed(const char *name, const char *pointer, const char *value)
{
    struct kvt_llm llm = {0};
    struct kvt_error err;

    if (load(name, (struct shipped_edit[2]){{pointer, value}, {NULL, NULL}}, &llm, &err) != KVT_OK)
        ck_abort_msg("%s: %s", err.where, err.message);
    return llm;
}

/* ---- Fewer indexers ------------------------------------------------------------------------ */

/* 61 layers: those of 0, 4, .. 56 lead three more, that of 60 leads none. */
START_TEST(every_fourth_indexer_of_v3_2_leads_three_layers)
{
    struct kvt_llm llm = changed("deepseek-v3.2", "/index_topk_freq", "4");

    ck_assert_uint_eq(llm.selector_count, 16);
    ck_assert_uint_eq(llm.store_count, 16);
    for (uint32_t i = 0; i < 16; i++) {
        ck_assert_uint_eq(llm.selectors[i].layer, 4 * i);
        ck_assert_uint_eq(llm.selectors[i].store, i);
        ck_assert_uint_eq(llm.stores[i].first_layer, 4 * i);
        ck_assert_uint_eq(llm.stores[i].layers, i < 15 ? 4 : 1);
    }
    ck_assert_double_eq(kvt_llm_index_bytes_per_token(&llm), 16 * 132);
    ck_assert_double_eq(kvt_llm_payload_bytes_per_token(&llm), 40016); /* as before */
}
END_TEST

/* GLM-5.3 is GLM-5 with the idea trained in: layers 0, 1, 2, 6, 10 .. 74 have indexers. */
START_TEST(glm_5_with_a_pattern_has_the_stores_of_glm_5_3)
{
    char pattern[96] = "\"FF";
    const struct kvt_llm *wanted = shipped_llm(arena, "glm-5.3");

    size_t length = strlen(pattern);
    for (int i = 2; i < 78; i++)
        pattern[length++] = i % 4 == 2 ? 'F' : 'S';
    pattern[length] = '"';
    struct kvt_llm llm = changed("glm-5", "/index_topk_pattern", pattern);
    ck_assert_uint_eq(llm.store_count, wanted->store_count);
    ck_assert_uint_eq(llm.selector_count, wanted->selector_count);
    for (uint32_t i = 0; i < llm.store_count; i++) {
        ck_assert_uint_eq(llm.stores[i].first_layer, wanted->stores[i].first_layer);
        ck_assert_uint_eq(llm.stores[i].layers, wanted->stores[i].layers);
        ck_assert_uint_eq(llm.selectors[i].layer, wanted->selectors[i].layer);
        ck_assert_uint_eq(llm.selectors[i].store, wanted->selectors[i].store);
    }
}
END_TEST

/* Stores of four layers join whole: {0}, {1}, {2..9}, {10..17}, .. */
START_TEST(stores_of_several_layers_join_whole)
{
    struct kvt_llm llm = changed("glm-5.3", "/index_topk_pattern", "\"FFFSFSFSFSFSFSFSFSFSF\"");

    ck_assert_uint_eq(llm.store_count, 12);
    ck_assert_uint_eq(llm.stores[1].layers, 1);
    ck_assert_uint_eq(llm.stores[2].first_layer, 2);
    ck_assert_uint_eq(llm.stores[2].layers, 8);
    ck_assert_uint_eq(llm.stores[10].first_layer, 66);
    ck_assert_uint_eq(llm.stores[10].layers, 8);
    ck_assert_uint_eq(llm.stores[11].layers, 4);
    ck_assert_uint_eq(llm.selectors[11].layer, 74);
}
END_TEST

static const struct {
    const char *pointer, *value;
} unchanged[] = {
    {"/index_topk_freq", "1"},
    {"/index_topk_pattern", "\"FFFFFFFFFFFFFFFFFFFFF\""},
    {"/block_tokens", "1"},
};

START_TEST(what_asks_for_nothing_changes_nothing)
{
    const struct kvt_llm *llm = shipped_llm(arena, "glm-5.3");
    struct kvt_llm same = changed("glm-5.3", unchanged[_i].pointer, unchanged[_i].value);

    ck_assert_uint_eq(same.store_count, llm->store_count);
    ck_assert_mem_eq(same.stores, llm->stores, sizeof llm->stores);
    ck_assert_mem_eq(same.selectors, llm->selectors, sizeof llm->selectors);
    ck_assert_uint_eq(same.top_k, llm->top_k);
    ck_assert_uint_eq(same.payload.wire_bytes, llm->payload.wire_bytes);
}
END_TEST

/* ---- Blocks -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *block;
    uint32_t ratio, top_k, capacity_bytes, wire_bytes;
    double index_bytes; /* of a token */
} blocks[] = {
    /* 656 B: 2 of them lie across 21 units of 64 B, wherever they begin, 8 are 82. */
    {"deepseek-v3.2", "2", 2, 1024, 1312, 1344, 8052.0 / 2},
    {"deepseek-v3.2", "8", 8, 256, 5248, 5248, 8052.0 / 8},
    {"deepseek-v3.2", "64", 64, 32, 41984, 41984, 8052.0 / 64},
    {"deepseek-v4-flash", "8", 32, 64, 4672, 4672, 693.0 / 8},
    {"glm-5.3", "16", 16, 128, 9216, 9216, 2772.0 / 16},
};

START_TEST(a_block_is_one_row_of_all_that_its_rows_were)
{
    const struct kvt_llm *file = shipped_llm(arena, blocks[_i].name);
    struct kvt_llm llm = changed(blocks[_i].name, "/block_tokens", blocks[_i].block);

    ck_assert_uint_eq(llm.stores[0].compress_ratio, blocks[_i].ratio);
    ck_assert_uint_eq(kvt_llm_block_rows(&llm), strtoul(blocks[_i].block, NULL, 10));
    ck_assert_uint_eq(llm.top_k, blocks[_i].top_k);
    ck_assert_uint_eq(llm.payload.capacity_bytes, blocks[_i].capacity_bytes);
    ck_assert_uint_eq(llm.payload.wire_bytes, blocks[_i].wire_bytes);
    ck_assert_double_eq_tol(kvt_llm_index_bytes_per_token(&llm), blocks[_i].index_bytes, 1e-9);
    ck_assert_double_eq_tol(kvt_llm_payload_bytes_per_token(&llm),
                            kvt_llm_payload_bytes_per_token(file), 1e-9);
}
END_TEST

/* 64 tokens and the block that is being filled. */
START_TEST(the_tail_of_blocks_is_64_rows_of_the_model)
{
    struct kvt_llm llm = changed("deepseek-v3.2", "/block_tokens", "16");
    struct kvt_llm pages = changed("deepseek-v3.2", "/block_tokens", "64");

    ck_assert_uint_eq(kvt_tail_first_row(&llm.stores[0], 1000, 1), 1001 / 16 - 4);
    ck_assert_uint_eq(kvt_tail_first_row(&llm.stores[0], 60, 3), 0);
    ck_assert_uint_eq(kvt_tail_first_row(&pages.stores[0], 1000, 1), 1001 / 64 - 1);
}
END_TEST

/* Chunks of 8 tokens: 320 B of U and 256 B of landmarks a token and layer in HBM, 2,048 B of values
 * over the link. */
START_TEST(shadowkv_keeps_576_bytes_of_4096_and_fetches_half)
{
    const struct kvt_llm *llm = shipped_llm(arena, "llama-3.1-8b-shadowkv");

    ck_assert_uint_eq(llm->store_count, 32);
    ck_assert_uint_eq(llm->top_k, 256);
    ck_assert_uint_eq(llm->stores[31].compress_ratio, 8);
    ck_assert_double_eq(kvt_llm_index_bytes_per_token(llm), 32 * 576);
    ck_assert_double_eq(kvt_llm_payload_bytes_per_token(llm), 32 * 4096);
    ck_assert_uint_eq(kvt_llm_scan_bytes(llm), 8 * 256);
    ck_assert_uint_eq(llm->payload.wire_bytes, 8 * 2048);
    ck_assert_double_eq(llm->payload.rebuild_flops, 8 * 2.0 * 160 * 128 * 8);
}
END_TEST

/* Of 7,680 blocks: index rows; 768 slots and 4 + 1 blocks of tail; on host all of them. */
START_TEST(a_request_in_blocks_takes_what_it_takes_by_hand)
{
    struct kvt_llm llm = changed("deepseek-v3.2", "/block_tokens", "16");
    struct kvt_session_spec spec = {.llm = &llm,
                                    .needs = {.host_backing = true},
                                    .tokens = 122880,
                                    .max_tokens = 122880,
                                    .hot_tokens = 12288,
                                    .queries_max = 1,
                                    .staging_fraction = 1};
    struct kvt_session_bytes bytes;
    struct kvt_error err;

    ck_assert_int_eq(kvt_session_bytes(&spec, KVT_ENGINE_IDEAL, &bytes, &err), KVT_OK);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_INDEX], UINT64_C(7680) * 132 * 61);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT], UINT64_C(768) * 10496 * 61);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_TAIL], UINT64_C(5) * 10496 * 61);
    ck_assert_uint_eq(bytes.host_bytes, UINT64_C(7680) * 10496 * 61);
    spec.needs = (struct kvt_residency_needs){.history_in_hbm = true};
    ck_assert_int_eq(kvt_session_bytes(&spec, KVT_ENGINE_IDEAL, &bytes, &err), KVT_OK);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_PAYLOAD], UINT64_C(7681) * 10496 * 61);
    ck_assert_int_eq(
        kvt_session_bytes(&spec, shipped_engine(arena, "sglang-2026-09"), &bytes, &err),
        KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "some of its rows are of "));
}
END_TEST

START_TEST(both_together_are_first_fewer_indexers_then_blocks)
{
    struct kvt_llm llm;
    struct kvt_error err;
    const struct shipped_edit edits[2] = {{"/block_tokens", "8"}, {"/index_topk_freq", "4"}};

    ck_assert_int_eq(load("deepseek-v3.2", edits, &llm, &err), KVT_OK);
    ck_assert_double_eq(kvt_llm_index_bytes_per_token(&llm), 16 * 132.0 / 8);
    ck_assert_uint_eq(llm.stores[0].layers, 4);
    ck_assert_uint_eq(llm.stores[0].compress_ratio, 8);
}
END_TEST

/* ---- Refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct shipped_edit edits[2];
    const char *place, *words;
} refusals[] = {
    {"glm-5.3", {{"/index_topk_freq", "0"}}, "#/index_topk_freq", "0 is out of range"},
    {"glm-5.3", {{"/index_topk_freq", "2.5"}}, "#/index_topk_freq", ""},
    {"glm-5.3", {{"/index_topk_pattern", "4"}}, "#/index_topk_pattern", ""},
    {"glm-5.3",
     {{"/index_topk_pattern", "\"FFS\""}},
     "#/index_topk_pattern",
     "3 letters; glm-5.3 has 21 indexers, and each has a letter, F or S"},
    {"glm-5.3",
     {{"/index_topk_pattern", "\"FFfFFFFFFFFFFFFFFFFFF\""}},
     "#/index_topk_pattern",
     "letter 3 is neither F"},
    {"glm-5.3",
     {{"/index_topk_pattern", "\"SFFFFFFFFFFFFFFFFFFFF\""}},
     "#/index_topk_pattern",
     "the first indexer, of layer 0, is to follow"},
    {"deepseek-v3.2",
     {{"/index_topk_pattern", "\"FS\""}, {"/index_topk_freq", "4"}},
     "#/index_topk_pattern",
     "index_topk_freq is 4 beside it"},
    {"deepseek-v4.1-flash",
     {{"/index_topk_freq", "2"}},
     "#/index_topk_freq",
     "the indexer of layer 20 cannot follow that of layer 14: store 3 is read by 5 indexers"},
    {"deepseek-v4.1-flash",
     {{"/index_topk_pattern", "\"FFFFSSSS\""}},
     "#/index_topk_pattern",
     "the indexer of layer 24 cannot follow that of layer 20"},
    {"glm-5.3",
     {{"/stores/1/compress_ratio", "2"}, {"/index_topk_pattern", "\"FFSFFFFFFFFFFFFFFFFFF\""}},
     "#/index_topk_pattern",
     "rows of 2 tokens are no rows of 1"},
    {"llama-3.1-8b", {{"/index_topk_freq", "2"}}, "#/index_topk_freq", "llama-3.1-8b is dense"},
    {"llama-3.1-8b", {{"/block_tokens", "8"}}, "#/block_tokens", "llama-3.1-8b is dense"},
    {"glm-5.3", {{"/block_tokens", "65"}}, "#/block_tokens", "65 is out of range"},
    {"glm-5.3", {{"/block_tokens", "3"}}, "#/block_tokens", "are no whole number of them"},
    {"glm-5.3", {{"/block_tokens", "24"}, {"/top_k", "2400"}}, "#/block_tokens", "a page of 64"},
    {"deepseek-v4-flash", {{"/block_tokens", "32"}}, "#/block_tokens", "rows of 4 tokens each"},
    {"glm-5.3",
     {{"/block_tokens", "64"}, {"/payload/capacity_bytes", "16385"}},
     "#/block_tokens",
     "larger than 1048576 bytes"},
    {"glm-5.3", {{"/payload/scan_bytes", "8"}}, "/payload/scan_bytes", "no such key"},
    {"glm-5.3", {{"/index/rebuild_flops", "8"}}, "/index/rebuild_flops", "no such key"},
    {"glm-5.3", {{"/index/scan_bytes", "133"}}, "/index/scan_bytes", "out of range"},
    {"glm-5.3", {{"/payload/rebuild_flops", "-1"}}, "/payload/rebuild_flops", "out of range"},
    {"llama-3.1-8b-shadowkv",
     {{"/sources/payload.rebuild_flops", NULL}},
     "/sources",
     "no source for \"payload.rebuild_flops\""},
};
enum {
    REFUSALS = sizeof refusals / sizeof refusals[0]
};

START_TEST(what_cannot_be_is_refused_with_its_place)
{
    struct kvt_llm llm = {.layers = 2385};
    struct kvt_error err = {0};

    ck_assert_int_ne(load(refusals[_i].name, refusals[_i].edits, &llm, &err), KVT_OK);
    ck_assert_msg(strstr(err.where, refusals[_i].place) != NULL, "%d: where is %s (%s)", _i,
                  err.where, err.message);
    ck_assert_msg(strstr(err.message, refusals[_i].words) != NULL, "%d: %s", _i, err.message);
    ck_assert_uint_eq(llm.layers, 2385);
}
END_TEST

START_TEST(a_refused_change_leaves_the_model_as_it_was)
{
    struct kvt_llm llm = *shipped_llm(arena, "deepseek-v4.1-flash"), before = llm;
    const bool none[KVT_SELECTORS_MAX] = {true}; /* all but the first follow */
    struct kvt_error err;

    ck_assert_int_eq(kvt_llm_share_index(&llm, none, "here", &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.where, "here");
    ck_assert_int_eq(kvt_llm_make_blocks(&llm, 64, "here", &err), KVT_ERR_INVALID);
    ck_assert_mem_eq(&llm, &before, sizeof llm);
}
END_TEST

static Suite *change_suite(void)
{
    Suite *suite = suite_create("llm_change");
    TCase *shapes = tcase_create("shapes");
    TCase *bad = tcase_create("refused");

    tcase_add_checked_fixture(shapes, make_arena, free_arena);
    tcase_add_test(shapes, every_fourth_indexer_of_v3_2_leads_three_layers);
    tcase_add_test(shapes, glm_5_with_a_pattern_has_the_stores_of_glm_5_3);
    tcase_add_test(shapes, stores_of_several_layers_join_whole);
    tcase_add_loop_test(shapes, what_asks_for_nothing_changes_nothing, 0,
                        (int)(sizeof unchanged / sizeof unchanged[0]));
    tcase_add_loop_test(shapes, a_block_is_one_row_of_all_that_its_rows_were, 0,
                        (int)(sizeof blocks / sizeof blocks[0]));
    tcase_add_test(shapes, the_tail_of_blocks_is_64_rows_of_the_model);
    tcase_add_test(shapes, shadowkv_keeps_576_bytes_of_4096_and_fetches_half);
    tcase_add_test(shapes, a_request_in_blocks_takes_what_it_takes_by_hand);
    tcase_add_test(shapes, both_together_are_first_fewer_indexers_then_blocks);
    suite_add_tcase(suite, shapes);
    tcase_add_checked_fixture(bad, make_arena, free_arena);
    tcase_add_loop_test(bad, what_cannot_be_is_refused_with_its_place, 0, REFUSALS);
    tcase_add_test(bad, a_refused_change_leaves_the_model_as_it_was);
    suite_add_tcase(suite, bad);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(change_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
