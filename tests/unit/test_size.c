/* test_size.c -- static capacity: vLLM's published answer, the paper's slots, each limit in turn.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/size.h"
#include "support/plugin_params.h"
#include "support/shipped.h"
#include "support/support.h"

/* A scenario by hand: what loading one would give, without a file. */
static struct kvt_arena *arena;
static struct kvt_scenario scenario;
static struct kvt_param_value values[4][SUPPORT_PARAMS_MAX];

static struct kvt_choice choose(enum kvt_plugin_kind kind, const char *name, int place)
{
    struct kvt_choice choice = {0};
    struct kvt_error err;

    if (kvt_plugin_find(NULL, kind, name, "test", &choice.info, &err) != KVT_OK) {
        ck_abort_msg("%s", err.message);
    }
    choice.params = support_default_params(choice.info, values[place]);
    return choice;
}

static void use_residency(const char *name)
{
    scenario.residency = choose(KVT_PLUGIN_RESIDENCY, name, 0);
}

static void use_lengths(uint32_t input_tokens)
{
    scenario.arrival = choose(KVT_PLUGIN_ARRIVAL, "closed", 1);
    scenario.input_length = choose(KVT_PLUGIN_LENGTH, "fixed", 2);
    scenario.output_length = choose(KVT_PLUGIN_LENGTH, "fixed", 3);
    values[2][0].number = input_tokens;
    values[3][0].number = 2120;
}

/* vLLM's calculator at its defaults: 8 H200, tp 8, experts spread. */
static void use_calculator(void)
{
    struct kvt_decode_pool *pool = &scenario.pools[0];
    double left_gib = 0;

    *pool = (struct kvt_decode_pool){.hardware = shipped_hardware(arena, "h200"),
                                     .gpus = 8,
                                     .tp = 8,
                                     .dp = 1,
                                     .ep = 8,
                                     .pools_unified = true,
                                     .host_dram_gib_per_node = 4096,
                                     .gpus_per_node = 8};
    pool->weights_gib_per_gpu = kvt_llm_weights_gib_per_gpu(scenario.llm, 8, 1, 8);
    left_gib = kvt_hardware_kv_gib(pool->hardware, pool->weights_gib_per_gpu);
    pool->weights_fit = left_gib > 0;
    pool->index_pool_bytes = (uint64_t)(left_gib * (double)KVT_GIB);
    scenario.pool_count = 1;
}

/* The paper's decode GPUs: a pool of so many GiB on each of four. */
static void use_paper(double pool_gib)
{
    scenario.pools[0] =
        (struct kvt_decode_pool){.hardware = shipped_hardware(arena, "b300"),
                                 .gpus = 4,
                                 .tp = 1,
                                 .dp = 4,
                                 .ep = 4,
                                 .pools_given = true,
                                 .pools_unified = true,
                                 .host_dram_gib_per_node = 4096,
                                 .gpus_per_node = 8,
                                 .weights_fit = true,
                                 .index_pool_bytes = (uint64_t)(pool_gib * (double)KVT_GIB)};
    scenario.pool_count = 1;
}

static void make(void)
{
    arena = kvt_arena_new(4096);
    ck_assert_ptr_nonnull(arena);
    scenario = (struct kvt_scenario){.name = "by hand",
                                     .seed = 1,
                                     .llm = shipped_llm(arena, "glm-5.3"),
                                     .hot_tokens = 4096,
                                     .queries_max = 1,
                                     .staging_fraction = 1};
    use_residency("hisparse");
    use_calculator();
}

static void unmake(void)
{
    kvt_arena_free(arena);
}

static struct kvt_size size_at(const struct kvt_engine *engine, uint64_t tokens)
{
    struct kvt_size size = {0};
    struct kvt_error err;

    if (kvt_size_at(&scenario, engine, tokens, &size, &err) != KVT_OK) {
        ck_abort_msg("%s: %s", err.where, err.message);
    }
    return size;
}

/* ---- Published answers ------------------------------------------------------------ */

START_TEST(vllms_calculator_says_4_against_39_and_134_gib)
{
    struct kvt_size size = size_at(shipped_engine(arena, "vllm-2026-09"), 81920);

    ck_assert_uint_eq(size.resident.running, 4);
    ck_assert_uint_eq(size.scenario.running, 39);
    ck_assert_uint_eq(size.scenario.pools[0].running_per_gpu, 39);
    ck_assert_int_eq(size.scenario.pools[0].limited_by, KVT_SIZE_HBM);
    ck_assert_uint_eq((size.scenario.pools[0].host_bytes_at_limit + KVT_GIB / 2) / KVT_GIB, 134);
    ck_assert_uint_eq(size.resident.pools[0].host_bytes_at_limit, 0);
}
END_TEST

/* Table 2: 208 slots without speculation, 140 with DFlash2, on four GPUs. The pools
 * are those that the slots leave open: 22.48 to 22.91 GiB, and 17.23 to 17.73. */
static const struct slots {
    const char *residency;
    double pool_gib;
    bool speculates;
    uint64_t running;
} slots[] = {
    {"hisparse", 22.49, false, 208}, {"hisparse", 22.90, false, 208},
    {"adaptive", 22.49, false, 208}, {"adaptive", 22.90, false, 208},
    {"adaptive", 17.24, true, 140},  {"adaptive", 17.72, true, 140},
};
enum {
    SLOTS = sizeof slots / sizeof slots[0]
};

START_TEST(the_papers_pools_give_the_papers_slots)
{
    use_residency(slots[_i].residency);
    use_paper(slots[_i].pool_gib);
    if (slots[_i].speculates) {
        scenario.drafter = shipped_drafter(arena, "glm-5.3-dflash2");
        scenario.queries_max = 8;
    }
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.running, slots[_i].running);
}
END_TEST

START_TEST(resident_history_fits_5_times_in_the_papers_pool)
{
    use_residency("resident");
    use_paper(22.5);
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 5);
    scenario.drafter = shipped_drafter(arena, "glm-5.3-dflash2");
    scenario.queries_max = 8;
    use_paper(17.5);
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 3);
}
END_TEST

START_TEST(a_resident_scenario_equals_its_own_baseline)
{
    struct kvt_size size;

    use_residency("resident");
    size = size_at(shipped_engine(arena, "vllm-2026-09"), 81920);
    ck_assert_uint_eq(size.scenario.running, 4);
    ck_assert_mem_eq(&size.scenario.session, &size.resident.session, sizeof size.resident.session);
}
END_TEST

/* ---- Each limit in turn -------------------------------------------------------------- */

START_TEST(apart_pools_are_limited_by_the_fuller_one)
{
    struct kvt_decode_pool *pool = &scenario.pools[0];
    struct kvt_size size;

    use_paper(1);
    pool->pools_unified = false;
    /* Seven times the index and three times the rows, a byte short of the next. */
    pool->index_pool_bytes = 8ull * 100032 * 21 * 132 - 1;
    pool->rows_pool_bytes = 4ull * 4160 * 78 * 576 - 1;
    size = size_at(KVT_ENGINE_IDEAL, 100032);
    ck_assert_uint_eq(size.scenario.pools[0].running_per_gpu, 3);
    ck_assert_int_eq(size.scenario.pools[0].limited_by, KVT_SIZE_HBM_ROWS);
    pool->rows_pool_bytes = 20ull * 4160 * 78 * 576;
    size = size_at(KVT_ENGINE_IDEAL, 100032);
    ck_assert_uint_eq(size.scenario.pools[0].running_per_gpu, 7);
    ck_assert_int_eq(size.scenario.pools[0].limited_by, KVT_SIZE_HBM_INDEX);
}
END_TEST

/* Staging of 8 queries is 37,748,736 bytes for the widest call; all else that a session holds is
 * index, hot cache and tail. */
START_TEST(what_a_rank_keeps_of_staging_is_taken_off_its_pool_once)
{
    struct kvt_decode_pool *pool = &scenario.pools[0];
    uint64_t index_bytes = 100032ull * 21 * 132, rows_bytes = 4160ull * 78 * 576 + 9437184;
    uint64_t kept_bytes = 37748736 - 9437184;

    use_paper(1);
    scenario.queries_max = 8;
    scenario.staging_fraction = 0.25;
    pool->index_pool_bytes = kept_bytes + 3 * (index_bytes + rows_bytes);
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 3);
    pool->index_pool_bytes--;
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 2);
    pool->index_pool_bytes = 9 * index_bytes;
    pool->rows_pool_bytes = kept_bytes + 5 * rows_bytes;
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 5);
    pool->rows_pool_bytes--;
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 4);
    pool->rows_pool_bytes = kept_bytes - 1;
    ck_assert_uint_eq(size_at(KVT_ENGINE_IDEAL, 100032).scenario.pools[0].running_per_gpu, 0);
}
END_TEST

static const struct host {
    uint32_t tp, dp, gpus_per_node;
    bool per_rank;
    uint64_t copies; /* of one request of every replica, in the fullest node */
} hosts[] = {
    {8, 1, 8, false, 1}, {8, 1, 8, true, 8},  {1, 4, 8, false, 4},  {1, 16, 8, false, 8},
    {2, 3, 4, true, 4},  {16, 1, 8, true, 8}, {16, 2, 8, false, 1},
};
enum {
    HOSTS = sizeof hosts / sizeof hosts[0]
};

START_TEST(host_dram_is_shared_by_the_copies_of_a_node)
{
    struct kvt_decode_pool *pool = &scenario.pools[0];
    const uint64_t host_bytes = 1280ull * 2875392;
    struct kvt_size_pool filled;

    pool->tp = hosts[_i].tp;
    pool->dp = hosts[_i].dp;
    pool->gpus_per_node = hosts[_i].gpus_per_node;
    pool->host_pool_per_rank = hosts[_i].per_rank;
    /* Room for five requests of each copy and half a sixth. */
    pool->host_dram_gib_per_node = 5.5 * (double)(hosts[_i].copies * host_bytes) / (double)KVT_GIB;
    filled = size_at(shipped_engine(arena, "vllm-2026-09"), 81920).scenario.pools[0];
    ck_assert_uint_eq(filled.running_per_gpu, 5);
    ck_assert_uint_eq(filled.running, UINT64_C(5) * hosts[_i].dp);
    ck_assert_int_eq(filled.limited_by, KVT_SIZE_HOST_DRAM);
    ck_assert_uint_eq(filled.host_bytes_at_limit, 5 * hosts[_i].copies * host_bytes);
}
END_TEST

START_TEST(weights_that_do_not_fit_run_nothing)
{
    struct kvt_size size;

    scenario.pools[0].hardware = shipped_hardware(arena, "h100");
    scenario.pools[0].weights_fit = false;
    scenario.pools[0].index_pool_bytes = 0;
    size = size_at(shipped_engine(arena, "vllm-2026-09"), 81920);
    ck_assert_uint_eq(size.scenario.running, 0);
    ck_assert_int_eq(size.scenario.pools[0].limited_by, KVT_SIZE_WEIGHTS);
    ck_assert(!kvt_size_weights_fit(&scenario));
}
END_TEST

START_TEST(several_pools_add_up_and_the_tightest_is_named)
{
    struct kvt_size size;

    use_paper(22.5);
    scenario.pools[1] = scenario.pools[0];
    scenario.pools[1].index_pool_bytes = 10 * KVT_GIB;
    scenario.pool_count = 2;
    size = size_at(KVT_ENGINE_IDEAL, 100032);
    ck_assert_uint_eq(size.scenario.running, 4 * 52 + 4 * 23);
    ck_assert_uint_eq(size.scenario.tightest, 1);
}
END_TEST

START_TEST(longer_requests_never_fit_more_often)
{
    uint64_t before = UINT64_MAX;

    for (uint64_t tokens = 1; tokens <= scenario.llm->max_position_tokens; tokens *= 2) {
        uint64_t running = size_at(shipped_engine(arena, "vllm-2026-09"), tokens).scenario.running;

        ck_assert_uint_le(running, before);
        before = running;
    }
}
END_TEST

/* ---- The scenario's own length ---------------------------------------------------------- */

START_TEST(the_own_length_is_the_input_length)
{
    uint64_t tokens = 0;
    struct kvt_error err;

    use_lengths(100032);
    ck_assert_int_eq(kvt_size_own_tokens(&scenario, &tokens, &err), KVT_OK);
    ck_assert_uint_eq(tokens, 100032);
}
END_TEST

/* ---- JSON ----------------------------------------------------------------------------------- */

START_TEST(the_json_carries_every_key_at_the_top_and_in_the_list)
{
    static const char *const keys[] = {"tokens",     "session_hbm_bytes",    "session_host_bytes",
                                       "running",    "session_hbm_by_class", "running_per_gpu",
                                       "limited_by", "host_bytes_at_limit",  "session_outside_sum",
                                       "resident"};
    struct kvt_size sizes[2] = {size_at(shipped_engine(arena, "vllm-2026-09"), 81920),
                                size_at(shipped_engine(arena, "vllm-2026-09"), 32768)};
    cJSON *tree = kvt_size_tree(&scenario, shipped_engine(arena, "vllm-2026-09"), sizes, 2);
    const cJSON *list = kvt_json_find(tree, "sizes");

    ck_assert_int_eq(cJSON_GetArraySize(list), 2);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *top = kvt_json_find(tree, keys[i]);

        ck_assert_ptr_nonnull(top);
        ck_assert(cJSON_Compare(top, kvt_json_find(cJSON_GetArrayItem(list, 0), keys[i]), true));
        ck_assert_ptr_nonnull(kvt_json_find(cJSON_GetArrayItem(list, 1), keys[i]));
    }
    ck_assert_double_eq(kvt_json_find(tree, "running")->valuedouble, 39);
    ck_assert_double_eq(kvt_json_find(kvt_json_find(tree, "resident"), "running")->valuedouble, 4);
    ck_assert(cJSON_IsTrue(kvt_json_find(tree, "weights_fit")));
    cJSON_Delete(tree);
}
END_TEST

START_TEST(the_classes_in_the_json_add_up)
{
    struct kvt_size size = size_at(KVT_ENGINE_IDEAL, 100032);
    cJSON *tree = kvt_size_tree(&scenario, KVT_ENGINE_IDEAL, &size, 1);
    const cJSON *item = NULL;
    double sum = 0;
    int classes = 0;

    cJSON_ArrayForEach(item, kvt_json_find(tree, "session_hbm_by_class"))
    {
        sum += item->valuedouble;
        classes++;
    }
    ck_assert_int_eq(classes, 6);
    ck_assert_double_eq(sum, 464189184);
    ck_assert_double_eq(kvt_json_find(tree, "session_hbm_bytes")->valuedouble, sum);
    cJSON_Delete(tree);
}
END_TEST

START_TEST(no_memory_for_the_json_is_null_and_nothing_leaks)
{
    struct kvt_size size = size_at(KVT_ENGINE_IDEAL, 100032);

    for (uint64_t nth = 0;; nth++) {
        cJSON *tree = NULL;
        bool failed = false;

        support_fail_allocation(nth);
        tree = kvt_size_tree(&scenario, KVT_ENGINE_IDEAL, &size, 1);
        failed = support_allocation_failed();
        ck_assert_int_eq(tree == NULL, failed);
        cJSON_Delete(tree);
        if (!failed) {
            break;
        }
    }
}
END_TEST

/* ---- Refused --------------------------------------------------------------------------------- */

static const uint64_t no_lengths[] = {0, 1048577, UINT64_C(1) << 53};

START_TEST(a_length_that_the_model_does_not_take_is_refused)
{
    struct kvt_size size = {.tokens = 2385};
    struct kvt_error err = {0};

    ck_assert_int_eq(kvt_size_at(&scenario, KVT_ENGINE_IDEAL, no_lengths[_i], &size, &err),
                     KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "1 to 1048576 tokens"));
    ck_assert_uint_eq(size.tokens, 2385);
}
END_TEST

START_TEST(an_engine_without_a_layout_is_refused)
{
    struct kvt_size size;
    struct kvt_error err = {0};

    scenario.llm = shipped_llm(arena, "deepseek-v4.1-flash");
    ck_assert_int_eq(
        kvt_size_at(&scenario, shipped_engine(arena, "vllm-2026-09"), 500000, &size, &err),
        KVT_ERR_UNSUPPORTED);
}
END_TEST

static Suite *size_suite(void)
{
    Suite *suite = suite_create("size");
    TCase *published = tcase_create("published");
    TCase *limits = tcase_create("limits");
    TCase *output = tcase_create("output");

    tcase_add_checked_fixture(published, make, unmake);
    tcase_add_test(published, vllms_calculator_says_4_against_39_and_134_gib);
    tcase_add_loop_test(published, the_papers_pools_give_the_papers_slots, 0, SLOTS);
    tcase_add_test(published, resident_history_fits_5_times_in_the_papers_pool);
    tcase_add_test(published, a_resident_scenario_equals_its_own_baseline);
    suite_add_tcase(suite, published);
    tcase_add_checked_fixture(limits, make, unmake);
    tcase_add_test(limits, apart_pools_are_limited_by_the_fuller_one);
    tcase_add_test(limits, what_a_rank_keeps_of_staging_is_taken_off_its_pool_once);
    tcase_add_loop_test(limits, host_dram_is_shared_by_the_copies_of_a_node, 0, HOSTS);
    tcase_add_test(limits, weights_that_do_not_fit_run_nothing);
    tcase_add_test(limits, several_pools_add_up_and_the_tightest_is_named);
    tcase_add_test(limits, longer_requests_never_fit_more_often);
    suite_add_tcase(suite, limits);
    tcase_add_checked_fixture(output, make, unmake);
    tcase_add_test(output, the_own_length_is_the_input_length);
    tcase_add_test(output, the_json_carries_every_key_at_the_top_and_in_the_list);
    tcase_add_test(output, the_classes_in_the_json_add_up);
    tcase_add_test(output, no_memory_for_the_json_is_null_and_nothing_leaks);
    tcase_add_loop_test(output, a_length_that_the_model_does_not_take_is_refused, 0,
                        (int)(sizeof no_lengths / sizeof no_lengths[0]));
    tcase_add_test(output, an_engine_without_a_layout_is_refused);
    suite_add_tcase(suite, output);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(size_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
