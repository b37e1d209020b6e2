/* test_layout.c -- bytes of a request against printed figures: the reference paper's
 * tables, vLLM's calculator, SGLang's tables. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/layout.h"
#include "support/shipped.h"

static struct kvt_arena *arena;

/* Lives in the arena of the case. */
#define VLLM shipped_engine(arena, "vllm-2026-09")
#define SGLANG shipped_engine(arena, "sglang-2026-09")
#define TRTLLM shipped_engine(arena, "trtllm-2026-09")

static void make_arena(void)
{
    arena = kvt_arena_new(4096);
    ck_assert_ptr_nonnull(arena);
}

static void free_arena(void)
{
    kvt_arena_free(arena);
}

static const struct kvt_residency_needs resident = {.history_in_hbm = true};
static const struct kvt_residency_needs hisparse = {.host_backing = true};
static const struct kvt_residency_needs adaptive = {.host_backing = true, .optional_pages = true};

static struct kvt_session_spec spec_of(const char *model, struct kvt_residency_needs needs,
                                       uint64_t tokens, uint64_t hot_tokens)
{
    return (struct kvt_session_spec){.llm = shipped_llm(arena, model),
                                     .needs = needs,
                                     .tokens = tokens,
                                     .max_tokens = tokens,
                                     .hot_tokens = hot_tokens,
                                     .queries_max = 1,
                                     .staging_fraction = 1};
}

static struct kvt_session_bytes bytes_of(const struct kvt_session_spec *spec,
                                         const struct kvt_engine *engine)
{
    struct kvt_session_bytes bytes = {0};
    struct kvt_error err;

    if (kvt_session_bytes(spec, engine, &bytes, &err) != KVT_OK) {
        ck_abort_msg("%s: %s", err.where, err.message);
    }
    return bytes;
}

/* As a table prints it. */
static void expect_printed_gib(uint64_t bytes, int decimals, const char *printed)
{
    char ours[32];

    (void)snprintf(ours, sizeof ours, "%.*f", decimals, (double)bytes / (double)KVT_GIB);
    ck_assert_str_eq(ours, printed);
}

/* The paper's Table 1: 13 cells, "100K" being 100,032 tokens. */
static const struct cell {
    const struct kvt_residency_needs *needs;
    bool speculates;
    uint64_t tokens;
    const char *hbm, *host; /* NULL: not printed */
} table_1[] = {
    {&resident, false, 32768, "1.456", NULL}, {&resident, false, 100032, "4.444", NULL},
    {&hisparse, false, 32768, "0.259", NULL}, {&hisparse, false, 100032, "0.432", "4.186"},
    {&adaptive, false, 32768, "0.259", NULL}, {&adaptive, false, 100032, "0.432", "4.186"},
    {&resident, true, 32768, "1.481", NULL},  {&resident, true, 100032, "4.469", NULL},
    {&adaptive, true, 32768, "0.319", NULL},  {&adaptive, true, 100032, "0.492", "4.186"},
};
enum {
    TABLE_1 = sizeof table_1 / sizeof table_1[0]
};

START_TEST(table_1_is_met_to_the_printed_digit)
{
    const struct cell *cell = &table_1[_i];
    struct kvt_session_spec spec = spec_of("glm-5.3", *cell->needs, cell->tokens, 4096);
    struct kvt_session_bytes bytes = {0};

    if (cell->speculates) {
        spec.drafter = shipped_drafter(arena, "glm-5.3-dflash2");
        spec.queries_max = spec.drafter->block_max;
    }
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    expect_printed_gib(bytes.hbm_bytes, 3, cell->hbm);
    if (cell->host != NULL) {
        expect_printed_gib(bytes.host_bytes, 3, cell->host);
    } else if (cell->needs->history_in_hbm) {
        ck_assert_uint_eq(bytes.host_bytes, 0);
    }
}
END_TEST

START_TEST(table_3s_hot_cache_of_glm_5_3_is_184_mb)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100032, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);

    ck_assert_uint_eq((bytes.hbm_by_class[KVT_MEM_HOT] + 500000) / 1000000, 184);
}
END_TEST

START_TEST(table_3s_hot_cache_of_v4_1_flash_is_5898240_bytes)
{
    struct kvt_session_spec spec = spec_of("deepseek-v4.1-flash", hisparse, 500000, 8192);
    struct kvt_session_bytes bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);

    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT], 5898240);
}
END_TEST

START_TEST(a_request_of_v4_1_flash_at_500k_is_041_gib_resident_and_085_tiered)
{
    struct kvt_session_spec all = spec_of("deepseek-v4.1-flash", resident, 500000, 8192);
    struct kvt_session_spec tiered = spec_of("deepseek-v4.1-flash", hisparse, 500000, 8192);

    expect_printed_gib(bytes_of(&all, KVT_ENGINE_IDEAL).hbm_bytes, 2, "0.41");
    expect_printed_gib(bytes_of(&tiered, KVT_ENGINE_IDEAL).hbm_bytes, 3, "0.085");
}
END_TEST

/* By hand, 500,032 tokens: index 68 x (3/2 + 1) x 500,032; hot 288 x (3 x 4,096 + 8,192); tail
 * 64 rows of 4 layers; ring 3 modules x 128 x 528; staging of 6 queries x 512 rows x 288 in the
 * one layer of the largest store. All history instead: 288 x (3/2 + 1) x 500,032. The eight
 * selectors take nothing of their own, and windows of 128 tokens stand outside the sum. */
START_TEST(a_request_of_v4_1_flash_with_dspark_takes_what_it_takes_by_hand)
{
    struct kvt_session_spec spec = spec_of("deepseek-v4.1-flash", adaptive, 500032, 8192);
    spec.drafter = shipped_drafter(arena, "v4.1-flash-dspark");
    spec.queries_max = spec.drafter->block_max;
    struct kvt_session_bytes tiered = bytes_of(&spec, KVT_ENGINE_IDEAL);

    ck_assert_uint_eq(spec.queries_max, 6);
    ck_assert_uint_eq(tiered.hbm_by_class[KVT_MEM_INDEX], 85005440);
    ck_assert_uint_eq(tiered.hbm_by_class[KVT_MEM_HOT], 5898240);
    ck_assert_uint_eq(tiered.hbm_by_class[KVT_MEM_TAIL], 73728);
    ck_assert_uint_eq(tiered.hbm_by_class[KVT_MEM_RING], 202752);
    ck_assert_uint_eq(tiered.hbm_by_class[KVT_MEM_STAGING], 884736);
    ck_assert_uint_eq(tiered.hbm_bytes, 92064896);
    ck_assert_uint_eq(tiered.host_bytes, 360023040);
    ck_assert_uint_eq(tiered.window_bytes, 40 * 128 * 528);

    spec.needs = resident;
    struct kvt_session_bytes all = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(all.hbm_bytes, 890 * UINT64_C(500032) + 202752);
    ck_assert_uint_eq(all.host_bytes, 0);
}
END_TEST

/* GLM-5.3, B 4,096, against context: figures worked out apart from this code. */
static const struct length {
    uint64_t tokens;
    int decimals;
    const char *resident, *host;
    const char *hisparse;
} lengths[] = {
    {32768, 3, "1.456", "1.371", "0.259"},   {81920, 3, "3.639", "3.428", "0.386"},
    {100032, 3, "4.444", "4.186", "0.432"},  {131072, 3, "5.823", "5.484", "0.512"},
    {262144, 2, "11.65", "10.97", "0.851"},  {524288, 2, "23.29", "21.94", "1.528"},
    {1048576, 2, "46.58", "43.88", "2.881"},
};
enum {
    LENGTHS = sizeof lengths / sizeof lengths[0]
};

START_TEST(size_against_context_is_as_worked_out)
{
    const struct length *length = &lengths[_i];
    struct kvt_session_spec all = spec_of("glm-5.3", resident, length->tokens, 4096);
    struct kvt_session_spec tiered = spec_of("glm-5.3", hisparse, length->tokens, 4096);
    struct kvt_session_bytes bytes = bytes_of(&tiered, KVT_ENGINE_IDEAL);

    expect_printed_gib(bytes_of(&all, KVT_ENGINE_IDEAL).hbm_bytes, length->decimals,
                       length->resident);
    expect_printed_gib(bytes.hbm_bytes, 3, length->hisparse);
    expect_printed_gib(bytes.host_bytes, length->decimals, length->host);
}
END_TEST

START_TEST(speculation_adds_a_ring_and_staging_and_resident_history_only_the_ring)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", adaptive, 100032, 4096);
    struct kvt_session_bytes bytes = {0};

    spec.drafter = shipped_drafter(arena, "glm-5.3-dflash2");
    spec.queries_max = 8;
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_RING], 26738688);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_STAGING], 37748736);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_PAYLOAD], 0);
    ck_assert_uint_eq(bytes.rank_staging_bytes, 0);
    spec.staging_fraction = 0;
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_STAGING], 0);
    ck_assert_uint_eq(bytes.rank_staging_bytes, 0);
    spec.staging_fraction = 0.5;
    spec.needs = resident;
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_RING], 26738688);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_STAGING], 0);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT], 0);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_TAIL], 0);
    ck_assert_uint_eq(bytes.rank_staging_bytes, 0);
}
END_TEST

/* Eight queries x 2,048 rows x 4 layers x 576 bytes are 37,748,736. */
static const struct share {
    double fraction;
    uint64_t session_bytes;
} shares[] = {{1, 37748736},       {0.5, 18874368}, {0.25, 9437184},
              {1.0 / 3, 12582912}, {0.001, 37749},  {0, 0}};
enum {
    SHARES = sizeof shares / sizeof shares[0]
};

START_TEST(sessions_and_their_rank_hold_the_arena_between_them)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", adaptive, 100032, 4096);
    const struct share *share = &shares[_i];

    spec.queries_max = 8;
    spec.staging_fraction = share->fraction;
    struct kvt_session_bytes bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    struct kvt_staging staging = kvt_staging_of(spec.llm, spec.queries_max, spec.staging_fraction);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_STAGING], share->session_bytes);
    ck_assert_uint_eq(staging.call_bytes, share->fraction > 0 ? 37748736 : 0);
    ck_assert_uint_eq(kvt_staging_arena_bytes(&staging, 0), 0);
    for (uint64_t sessions = 1; sessions <= 64; sessions++)
        ck_assert_uint_eq(kvt_staging_arena_bytes(&staging, sessions),
                          bytes.rank_staging_bytes + sessions * share->session_bytes);
}
END_TEST

START_TEST(rows_that_the_model_drafts_with_stay_beside_the_hot_cache)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", adaptive, 100032, 4096);
    struct kvt_session_bytes bytes = {0};

    spec.draft_budget_tokens = 1000;
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_RING], UINT64_C(1000) * 78 * 576);
    spec.draft_budget_tokens = 200000; /* there are not so many */
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_RING], UINT64_C(100032) * 78 * 576);
    spec.needs = resident;
    bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_RING], 0);
}
END_TEST

/* One 64-row page over 78 layers, and 64 rows of each of four sources, whatever their ratio. */
START_TEST(the_tail_is_64_rows_of_each_payload_layer)
{
    struct kvt_session_spec glm = spec_of("glm-5.3", hisparse, 100032, 4096);
    struct kvt_session_spec deepseek = spec_of("deepseek-v4.1-flash", hisparse, 500000, 8192);

    ck_assert_uint_eq(bytes_of(&glm, KVT_ENGINE_IDEAL).hbm_by_class[KVT_MEM_TAIL], 2875392);
    ck_assert_uint_eq(bytes_of(&deepseek, KVT_ENGINE_IDEAL).hbm_by_class[KVT_MEM_TAIL], 73728);
}
END_TEST

START_TEST(what_is_required_is_the_sum_of_its_classes)
{
    const struct kvt_engine *const engines[] = {KVT_ENGINE_IDEAL, VLLM, SGLANG, TRTLLM};

    for (size_t engine = 0; engine < sizeof engines / sizeof engines[0]; engine++) {
        struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 77777, 4096);
        struct kvt_session_bytes bytes = bytes_of(&spec, engines[engine]);
        uint64_t sum = 0;

        for (int i = 0; i < KVT_MEM_CLASSES; i++) {
            sum += bytes.hbm_by_class[i];
        }
        ck_assert_uint_eq(bytes.hbm_bytes, sum);
    }
}
END_TEST

START_TEST(windows_and_far_rows_stand_outside_the_sum)
{
    struct kvt_session_spec spec = spec_of("deepseek-v4-flash", hisparse, 100003, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, KVT_ENGINE_IDEAL);

    /* 43 windows of 128 rows, and for every 128 tokens a row of 584 B in 20 layers:
     * 3,214,336 + 9,125,274. */
    ck_assert_uint_eq(bytes.window_bytes, 12339610ull);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_INDEX], 25000ull * 21 * 132);
}
END_TEST

/* ---- Hot slots ------------------------------------------------------------------ */

static const struct slots {
    uint64_t hot_tokens, max_tokens;
    uint32_t ratio, slots; /* top-k is 512 */
} slots_cases[] = {
    {8192, 500000, 1, 8192}, {8192, 500000, 2, 4096},
    {8193, 500000, 2, 4096}, {100, 500000, 1, 512},
    {100, 500000, 2, 512},   {8192, 5000, 1, 5000},
    {8192, 5001, 2, 2500},   {8192, 300, 1, 300},
    {8192, 300, 2, 150},     {0, 7, 2, 3},
    {8192, 1, 2, 0},
};
enum {
    SLOTS = sizeof slots_cases / sizeof slots_cases[0]
};

START_TEST(hot_slots_follow_the_rule)
{
    const struct slots *slots = &slots_cases[_i];
    const struct kvt_llm *llm = shipped_llm(arena, "deepseek-v4.1-flash");
    struct kvt_store store = {.layers = 1, .compress_ratio = slots->ratio};

    ck_assert_uint_eq(kvt_hot_slots(llm, &store, slots->hot_tokens, slots->max_tokens),
                      slots->slots);
}
END_TEST

/* ---- Engines -------------------------------------------------------------------- */

/* vLLM's calculator, its defaults: 1,280 + 20 x 64 + 20 x 2 blocks. */
START_TEST(a_vllm_request_of_81920_tokens_is_2600_blocks)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 81920, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, VLLM);

    ck_assert_uint_eq(bytes.hbm_bytes, 2600ull * 184320);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT], 235929600);
    ck_assert_uint_eq(bytes.host_bytes, 1280ull * 2875392);
    spec.tokens = 81921;
    spec.max_tokens = 81921;
    ck_assert_uint_eq(bytes_of(&spec, VLLM).hbm_bytes, 2601ull * 184320);
}
END_TEST

START_TEST(a_resident_vllm_request_is_pages_of_3052800_bytes)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", resident, 81920, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, VLLM);

    ck_assert_uint_eq(bytes.hbm_bytes, 1280ull * 3052800);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_INDEX], 1280ull * 64 * 21 * 132);
    ck_assert_uint_eq(bytes.host_bytes, 0);
}
END_TEST

/* What the calculator and layout.py give for each format of rows: the block is the least number of
 * a layer's pages that holds a page of 21 x 132 B index rows, and a group of four layers. */
static const struct blocks {
    const char *model;
    uint32_t row_bytes;
    uint64_t block_bytes;
    uint32_t groups;
    uint64_t resident_page_bytes, host_page_bytes;
} block_rows[] = {
    {"glm-5.3", 576, 184320, 20, 3052800, 2875392},      /* FP8, calculator */
    {"glm-5.3", 1152, 294912, 20, 5928192, 5750784},     /* BF16, calculator */
    {"glm-5.3", 656, 209920, 20, 3452160, 3274752},      /* vllm-project/recipes #893 */
    {"deepseek-v3.2", 576, 516096, 5, 2764032, 2248704}, /* 61 single layers, 13 to a page */
};
enum {
    BLOCK_ROWS = sizeof block_rows / sizeof block_rows[0]
};

START_TEST(blocks_follow_from_the_rows_of_a_model)
{
    const struct blocks *row = &block_rows[_i];
    struct kvt_llm llm = *shipped_llm(arena, row->model);

    llm.payload.capacity_bytes = row->row_bytes;
    struct kvt_engine_blocks blocks = kvt_engine_blocks_of(&VLLM->layout, &llm);
    ck_assert_uint_eq(blocks.block_bytes, row->block_bytes);
    ck_assert_uint_eq(blocks.payload_groups, row->groups);
    struct kvt_session_spec spec = spec_of(row->model, resident, 81920, 4096);
    spec.llm = &llm;
    ck_assert_uint_eq(bytes_of(&spec, VLLM).hbm_bytes, 1280 * row->resident_page_bytes);
    spec.needs = hisparse;
    ck_assert_uint_eq(bytes_of(&spec, VLLM).host_bytes, 1280 * row->host_page_bytes);
}
END_TEST

/* Twice the selection and the unit being written, in pages of 32: 4,097 rows are 129 pages. */
START_TEST(tensorrt_llms_cache_and_the_unit_being_written_are_whole_pages)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100001, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, TRTLLM);

    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT] + bytes.hbm_by_class[KVT_MEM_TAIL],
                      129ull * 32 * 78 * 576);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_INDEX], 3126ull * 32 * 21 * 132);
}
END_TEST

START_TEST(sglangs_tables_for_4096_slots_and_78_layers_are_3_2_mb)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100032, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, SGLANG);

    ck_assert_uint_eq(bytes.metadata_bytes, UINT64_C(78) * (2 * 4160 * 4 + 4096 * 2));
    ck_assert_uint_eq((bytes.metadata_bytes + 50000) / 100000, 32);
}
END_TEST

START_TEST(sglang_adds_a_page_to_the_hot_slots_and_rounds_rows_up_to_pages)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100001, 4096);
    struct kvt_session_bytes bytes = bytes_of(&spec, SGLANG);

    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_HOT] + bytes.hbm_by_class[KVT_MEM_TAIL],
                      4160ull * 78 * 576);
    ck_assert_uint_eq(bytes.hbm_by_class[KVT_MEM_INDEX], 100032ull * 21 * 132);
    ck_assert_uint_eq(bytes.host_bytes, 100032ull * 78 * 576);
}
END_TEST

START_TEST(no_engine_needs_less_than_the_rows_themselves)
{
    for (uint64_t tokens = 1; tokens < 300000; tokens = tokens * 3 + 1) {
        struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, tokens, 4096);
        uint64_t ideal = bytes_of(&spec, KVT_ENGINE_IDEAL).hbm_bytes;

        ck_assert_uint_ge(bytes_of(&spec, VLLM).hbm_bytes, ideal);
        ck_assert_uint_ge(bytes_of(&spec, SGLANG).hbm_bytes, ideal);
    }
}
END_TEST

/* ---- Refused ---------------------------------------------------------------------- */

static void expect_refused(const struct kvt_session_spec *spec, const struct kvt_engine *engine,
                           kvt_status expected, const char *message)
{
    struct kvt_session_bytes bytes = {.hbm_bytes = 2385};
    struct kvt_error err = {0};

    ck_assert_int_eq(kvt_session_bytes(spec, engine, &bytes, &err), expected);
    ck_assert_msg(strstr(err.message, message) != NULL, "%s", err.message);
    ck_assert_uint_eq(bytes.hbm_bytes, 2385);
}

START_TEST(rows_of_several_tokens_have_no_layout_in_any_engine)
{
    struct kvt_session_spec spec = spec_of("deepseek-v4-flash", hisparse, 100000, 4096);
    struct kvt_llm blocks = *shipped_llm(arena, "glm-5.3");
    struct kvt_error err;

    expect_refused(&spec, VLLM, KVT_ERR_UNSUPPORTED, "no layout of vllm-2026-09");
    expect_refused(&spec, SGLANG, KVT_ERR_UNSUPPORTED, "some of its rows are of 4 tokens");
    ck_assert_int_eq(kvt_llm_make_blocks(&blocks, 16, "x", &err), KVT_OK);
    spec = spec_of("glm-5.3", hisparse, 100000, 4096);
    spec.llm = &blocks;
    expect_refused(&spec, VLLM, KVT_ERR_UNSUPPORTED, "rows are of 16 tokens");
}
END_TEST

START_TEST(engines_without_staging_want_a_hot_cache_for_every_query)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100032, 16383);

    spec.queries_max = 8;
    expect_refused(&spec, VLLM, KVT_ERR_INVALID, "at least 16384");
    expect_refused(&spec, SGLANG, KVT_ERR_INVALID, "there are 16383");
    spec.hot_tokens = 16384;
    ck_assert_uint_eq(bytes_of(&spec, SGLANG).hbm_by_class[KVT_MEM_STAGING], 0);
}
END_TEST

START_TEST(nonsense_is_refused)
{
    struct kvt_session_spec spec = spec_of("glm-5.3", hisparse, 100032, 4096);

    spec.max_tokens = 100031;
    expect_refused(&spec, KVT_ENGINE_IDEAL, KVT_ERR_INVALID, "grows to at least");
    spec.max_tokens = UINT64_C(1) << 32;
    expect_refused(&spec, KVT_ENGINE_IDEAL, KVT_ERR_INVALID, "at most 4294967295");
    spec.max_tokens = 100032;
    spec.queries_max = 0;
    expect_refused(&spec, KVT_ENGINE_IDEAL, KVT_ERR_INVALID, "at least 1");
}
END_TEST

static Suite *layout_suite(void)
{
    Suite *suite = suite_create("layout");
    TCase *ideal = tcase_create("ideal");
    TCase *engines = tcase_create("engines");
    TCase *bad = tcase_create("refused");

    tcase_add_checked_fixture(ideal, make_arena, free_arena);
    tcase_add_loop_test(ideal, table_1_is_met_to_the_printed_digit, 0, TABLE_1);
    tcase_add_test(ideal, table_3s_hot_cache_of_glm_5_3_is_184_mb);
    tcase_add_test(ideal, table_3s_hot_cache_of_v4_1_flash_is_5898240_bytes);
    tcase_add_test(ideal, a_request_of_v4_1_flash_at_500k_is_041_gib_resident_and_085_tiered);
    tcase_add_test(ideal, a_request_of_v4_1_flash_with_dspark_takes_what_it_takes_by_hand);
    tcase_add_loop_test(ideal, size_against_context_is_as_worked_out, 0, LENGTHS);
    tcase_add_test(ideal, speculation_adds_a_ring_and_staging_and_resident_history_only_the_ring);
    tcase_add_loop_test(ideal, sessions_and_their_rank_hold_the_arena_between_them, 0, SHARES);
    tcase_add_test(ideal, rows_that_the_model_drafts_with_stay_beside_the_hot_cache);
    tcase_add_test(ideal, the_tail_is_64_rows_of_each_payload_layer);
    tcase_add_test(ideal, what_is_required_is_the_sum_of_its_classes);
    tcase_add_test(ideal, windows_and_far_rows_stand_outside_the_sum);
    tcase_add_loop_test(ideal, hot_slots_follow_the_rule, 0, SLOTS);
    suite_add_tcase(suite, ideal);
    tcase_add_checked_fixture(engines, make_arena, free_arena);
    tcase_add_test(engines, a_vllm_request_of_81920_tokens_is_2600_blocks);
    tcase_add_test(engines, a_resident_vllm_request_is_pages_of_3052800_bytes);
    tcase_add_loop_test(engines, blocks_follow_from_the_rows_of_a_model, 0, BLOCK_ROWS);
    tcase_add_test(engines, tensorrt_llms_cache_and_the_unit_being_written_are_whole_pages);
    tcase_add_test(engines, sglangs_tables_for_4096_slots_and_78_layers_are_3_2_mb);
    tcase_add_test(engines, sglang_adds_a_page_to_the_hot_slots_and_rounds_rows_up_to_pages);
    tcase_add_test(engines, no_engine_needs_less_than_the_rows_themselves);
    suite_add_tcase(suite, engines);
    tcase_add_checked_fixture(bad, make_arena, free_arena);
    tcase_add_test(bad, rows_of_several_tokens_have_no_layout_in_any_engine);
    tcase_add_test(bad, engines_without_staging_want_a_hot_cache_for_every_query);
    tcase_add_test(bad, nonsense_is_refused);
    suite_add_tcase(suite, bad);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(layout_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
