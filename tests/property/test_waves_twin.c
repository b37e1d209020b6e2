/* test_waves_twin.c -- waves against a naive twin, over random calls and over those of whole runs;
 * and waves of sampled runs against those of exact ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "backend/backend_sim_private.h"
#include "kvt/layout.h"
#include "kvt/rng.h"
#include "kvt/waves.h"
#include "sim_private.h"
#include "support/small_run.h"

enum {
    CASES = 400,
    CALLS_MAX = 64,
    TEXT_BYTES = 2048
};

/* ---- The twin: bytes, and one call after the other ---------------------------------- */

struct twin {
    uint64_t used_bytes[CALLS_MAX]; /* [wave_count] of each wave so far */
    uint32_t wave_count;
};

/* The first wave with room takes it; a new one where none has. */
static uint32_t twin_add(struct twin *twin, uint64_t arena_bytes, uint64_t bytes)
{
    uint32_t wave = 0;
    while (wave < twin->wave_count && twin->used_bytes[wave] + bytes > arena_bytes)
        wave++;
    if (wave == twin->wave_count) {
        ck_assert_uint_lt(twin->wave_count, CALLS_MAX);
        twin->used_bytes[twin->wave_count++] = 0;
    }
    twin->used_bytes[wave] += bytes;
    return wave;
}

static uint64_t twin_peak(const struct twin *twin)
{
    uint64_t peak = 0;
    for (uint32_t w = 0; w < twin->wave_count; w++)
        peak = twin->used_bytes[w] > peak ? twin->used_bytes[w] : peak;
    return peak;
}

struct calls {
    uint32_t count;
    uint32_t staged_rows[CALLS_MAX];
    uint64_t row_bytes, arena_bytes;
};

static uint32_t below(struct kvt_rng *rng, uint32_t bound)
{
    return (uint32_t)kvt_rng_below(rng, bound);
}

/* As a step may have them: rows up to the widest call, an arena for some share of it. */
static void draw_calls(struct kvt_rng *rng, struct calls *calls)
{
    static const double fractions[] = {0.001, 0.02, 0.1, 0.3, 0.7, 1};
    struct kvt_llm llm = {.top_k = 1 + below(rng, 300),
                          .payload = {.capacity_bytes = 1 + below(rng, 700)},
                          .store_count = 2,
                          .stores = {{.layers = 4}, {.layers = 1}}};
    uint32_t queries = 2 + below(rng, 7);
    uint32_t widest = queries * llm.top_k, store = below(rng, 2);
    uint32_t most = 1 + below(rng, widest);
    struct kvt_staging staging = kvt_staging_of(&llm, queries, fractions[below(rng, 6)]);

    calls->count = 1 + below(rng, CALLS_MAX);
    calls->row_bytes = (uint64_t)llm.stores[store].layers * llm.payload.capacity_bytes;
    calls->arena_bytes = kvt_staging_arena_bytes(&staging, calls->count);
    for (uint32_t i = 0; i < calls->count; i++)
        calls->staged_rows[i] = below(rng, 4) ? below(rng, most + 1) : below(rng, 2);
}

START_TEST(waves_are_those_of_the_twin_and_none_outgrows_the_arena)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    uint64_t wave_bytes[CALLS_MAX] = {0}, peak_rows;
    uint32_t wave_of[CALLS_MAX], newest[CALLS_MAX];
    struct twin twin = {0};
    struct calls calls;

    draw_calls(&rng, &calls);
    ck_assert_uint_gt(calls.row_bytes, 0);
    uint32_t waves = kvt_waves_make(calls.staged_rows, calls.count,
                                    calls.arena_bytes / calls.row_bytes, wave_of, &peak_rows);
    memset(newest, 0xff, sizeof newest);
    for (uint32_t i = 0; i < calls.count; i++) {
        uint64_t bytes = calls.staged_rows[i] * calls.row_bytes;
        ck_assert_uint_lt(wave_of[i], waves); /* one wave, of those that there are */
        ck_assert_uint_eq(wave_of[i], twin_add(&twin, calls.arena_bytes, bytes));
        wave_bytes[wave_of[i]] += bytes;
        newest[wave_of[i]] = i;
    }
    ck_assert_uint_eq(waves, twin.wave_count);
    for (uint32_t w = 0; w < waves; w++) {
        ck_assert_uint_ne(newest[w], UINT32_MAX); /* nobody waits for an empty wave */
        ck_assert_uint_le(wave_bytes[w], calls.arena_bytes);
    }
    ck_assert_uint_eq(peak_rows * calls.row_bytes, twin_peak(&twin));
}
END_TEST

START_TEST(with_the_whole_of_the_worst_case_nobody_ever_waits)
{
    struct kvt_rng rng = kvt_rng_stream(7411, KVT_RNG_TEST, (uint64_t)_i);
    struct kvt_llm llm = {.top_k = 1 + below(&rng, 300),
                          .payload = {.capacity_bytes = 576},
                          .store_count = 1,
                          .stores = {{.layers = 4}}};
    uint32_t queries = 2 + below(&rng, 7), rows[CALLS_MAX], wave_of[CALLS_MAX];
    struct kvt_staging staging = kvt_staging_of(&llm, queries, 1);
    uint64_t peak_rows, arena_bytes = kvt_staging_arena_bytes(&staging, CALLS_MAX);

    for (uint32_t i = 0; i < CALLS_MAX; i++)
        rows[i] = queries * llm.top_k;
    ck_assert_uint_eq(kvt_waves_make(rows, CALLS_MAX, arena_bytes / (4 * 576), wave_of, &peak_rows),
                      1);
    ck_assert_uint_eq(peak_rows * 4 * 576, arena_bytes);
}
END_TEST

/* ---- Whole runs ------------------------------------------------------------------------ */

/* GLM-5.3 in small: five stores, two of them of one layer, sixteen rows a query; twenty requests a
 * rank, whose trees of seven queries stage most of what they miss. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"waves\", \"seed\": %d, "                      \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 14, \"top_k\": 16, "                           \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 3, \"stride_layers\": 4}]}, "                                                     \
    "\"hardware\": \"b300\", "                                                                     \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"dp\": 2, \"ep\": 2, \"lockstep\": true, "           \
    "\"pools\": {\"unified_gib\": 1}, \"speculation_workspace_gib\": 0}, "                         \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 16}, "                              \
    "\"speculation\": {\"method\": \"eagle-tree\", \"branching\": [2, 2], \"staging_fraction\": "  \
    "%s}, "                                                                                        \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 40, \"requests\": 60, "              \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 300}, "                             \
    "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": %d, \"cv\": 0.25}}}, "                  \
    "\"run\": {\"fidelity\": %s}}"

static void open_run(struct small_run *small, int seed, const char *fraction, int output_tokens,
                     const char *fidelity)
{
    char text[TEXT_BYTES];
    ck_assert(snprintf(text, sizeof text, SCENARIO, seed, fraction, output_tokens, fidelity) <
              TEXT_BYTES);
    small_run_open(small, text, NULL, NULL);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

/* What the newest step of a rank should have counted, from what its requests staged. */
static void check_step(const struct kvt_sim *sim, uint32_t r)
{
    const struct backend_sim *backend = (const struct backend_sim *)sim->backend;
    const struct kvt_llm *llm = sim->scenario->llm;
    const struct kvt_rank_step *step = &sim->rank_steps[r];
    struct kvt_staging staging =
        kvt_staging_of(llm, sim->scenario->queries_max, sim->scenario->staging_fraction);
    uint64_t arena_bytes = staging.call_bytes + (step->item_count - 1) * staging.session_bytes;
    uint64_t peak_bytes = 0, extra = 0, layers = 0;

    ck_assert_uint_le(arena_bytes, sim->ranks[r].memory.used_by_class[KVT_MEM_STAGING]);
    for (uint32_t s = 0; s < llm->selector_count; s++) { /* each reads a store of its own */
        struct twin twin = {0};
        uint32_t store_layers = llm->stores[s].layers;
        for (uint32_t i = 0; i < step->item_count; i++)
            (void)twin_add(&twin, arena_bytes,
                           (uint64_t)backend->lanes[step->items[i].request]->staged_rows[s] *
                               store_layers * llm->payload.capacity_bytes);
        extra += twin.wave_count - 1;
        layers += (uint64_t)(twin.wave_count - 1) * store_layers;
        peak_bytes = twin_peak(&twin) > peak_bytes ? twin_peak(&twin) : peak_bytes;
    }
    ck_assert_double_eq(step->outcome.load.extra_waves, (double)extra);
    ck_assert_double_eq(step->outcome.load.extra_wave_layers, (double)layers);
    ck_assert_uint_eq(step->outcome.staging_peak_bytes, peak_bytes);
    ck_assert_uint_le(peak_bytes, arena_bytes);
}

START_TEST(a_run_counts_the_waves_of_the_twin_and_stages_no_more_than_is_held)
{
    static const char *const fractions[] = {"0.001", "0.03", "0.3"};
    struct small_run small;
    uint64_t waves = 0, steps = 0;
    bool more = true;

    open_run(&small, 11, fractions[_i], 24, "\"exact\"");
    while (more) {
        struct kvt_sim *sim = small.sim;
        uint64_t before = sim->tally.decode_steps;
        ck_assert_int_eq(kvt_sim_step(sim, &more, &small.err), KVT_OK);
        for (uint32_t r = 0; r < sim->rank_count && sim->tally.decode_steps > before; r++) {
            if (sim->rank_steps[r].item_count == 0)
                continue;
            check_step(sim, r);
            waves += (uint64_t)sim->loads[r].extra_waves;
            steps++;
        }
    }
    small_run_finish(&small);
    ck_assert_int_eq(small.status, KVT_OK);
    ck_assert_uint_gt(steps, 0);
    ck_assert_uint_eq(small.run->total.staging_waves, waves);
    ck_assert(_i > 1 || waves > 0);
    small_run_close(&small);
}
END_TEST

/* A smaller share costs launches and nothing else: rows, and where they are, stay what they were
 * while nobody waits for memory. */
START_TEST(waves_take_time_and_move_no_row)
{
    struct small_run whole, turns;

    open_run(&whole, 3, "1", 24, "\"exact\"");
    small_run_finish(&whole);
    open_run(&turns, 3, "0.01", 24, "\"exact\"");
    small_run_finish(&turns);
    ck_assert_int_eq(whole.status, KVT_OK);
    ck_assert_int_eq(turns.status, KVT_OK);
    const struct kvt_tally *a = &whole.run->total, *b = &turns.run->total;
    ck_assert_uint_eq(a->staging_waves, 0);
    ck_assert_uint_gt(b->staging_waves, 0);
    ck_assert_uint_gt(a->staging_peak_bytes, b->staging_peak_bytes);
    ck_assert_uint_gt(a->hbm_peak_by_class[KVT_MEM_STAGING], b->hbm_peak_by_class[KVT_MEM_STAGING]);
    ck_assert_mem_eq(a->rows, b->rows, sizeof a->rows);
    ck_assert_int_lt(a->parts_ns[KVT_PART_RESOLVE], b->parts_ns[KVT_PART_RESOLVE]);
    ck_assert_int_lt(a->parts_ns[KVT_PART_ATTEND], b->parts_ns[KVT_PART_ATTEND]);
    small_run_close(&whole);
    small_run_close(&turns);
}
END_TEST

/* ---- Sampled ---------------------------------------------------------------------------- */

enum {
    SEEDS = 2
};

static double waves_per_step(const char *fraction, const char *fidelity)
{
    double waves = 0, steps = 0;

    for (int seed = 1; seed <= SEEDS; seed++) {
        struct small_run small;
        open_run(&small, seed, fraction, 80, fidelity);
        small_run_finish(&small);
        ck_assert_int_eq(small.status, KVT_OK);
        waves += (double)small.run->total.staging_waves;
        steps += (double)small.run->total.decode_steps;
        small_run_close(&small);
    }
    return waves / steps;
}

START_TEST(a_sampled_run_has_about_the_waves_of_the_exact_one)
{
    static const char *const fractions[] = {"0.01", "0.02"};
    static const char *const sampled[] = {
        "\"sampled\", \"sample_stores\": 1, \"sample_requests\": 0",
        "\"sampled\", \"sample_stores\": 3, \"sample_requests\": 4"};
    double exact = waves_per_step(fractions[_i], "\"exact\"");

    ck_assert_double_gt(exact, 0.5);
    for (size_t i = 0; i < sizeof sampled / sizeof sampled[0]; i++) {
        double waves = waves_per_step(fractions[_i], sampled[i]);
        ck_assert_msg(waves > 0.9 * exact && waves < 1.1 * exact,
                      "staging_fraction %s, %s: %.4f waves a step; exact has %.4f", fractions[_i],
                      sampled[i], waves, exact);
    }
}
END_TEST

static Suite *waves_suite(void)
{
    Suite *suite = suite_create("waves_twin");
    TCase *tcase = tcase_create("waves_twin");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, waves_are_those_of_the_twin_and_none_outgrows_the_arena, 0, CASES);
    tcase_add_loop_test(tcase, with_the_whole_of_the_worst_case_nobody_ever_waits, 0, 20);
    tcase_add_loop_test(tcase, a_run_counts_the_waves_of_the_twin_and_stages_no_more_than_is_held,
                        0, 3);
    tcase_add_test(tcase, waves_take_time_and_move_no_row);
    tcase_add_loop_test(tcase, a_sampled_run_has_about_the_waves_of_the_exact_one, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(waves_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
