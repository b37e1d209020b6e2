/* test_crossing_twin.c -- what crosses the link, against a twin that keeps a number for each row;
 * and what must hold whatever crosses, and when. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/calls.h"
#include "kvt/hash.h"
#include "kvt/rng.h"
#include "support/small_run.h"

/* GLM-5.3 in small: three stores, of one, one and four layers, and rounds of four queries. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"crossing\", \"seed\": 2385, "                 \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, "                            \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}, \"hardware\": \"b300\", "                             \
    "\"cluster\": {\"decode\": {\"gpus\": 4, \"lockstep\": true, "                                 \
    "\"pools\": {\"unified_gib\": 0.05}, \"speculation_workspace_gib\": 0}, "                      \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 48}, "                              \
    "\"selection\": {\"law\": \"tape\", \"tapes\": 2, \"steps\": 64}, "                            \
    "\"speculation\": {\"method\": \"mtp\", \"drafts\": 3}, "                                      \
    "\"timing\": {\"model\": \"roofline\"}, "                                                      \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 9, \"requests\": 12, "               \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 700}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 150}}}, "                                        \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

enum {
    ROWS_MAX = 1024, /* of a request: 700 + 150 and a round */
    REQUESTS = 12,
    STORES = 3,
    TOP_K = 16
};

/* ---- Steps that take what they take ----------------------------------------------------- */

static size_t constant_state_bytes(const struct kvt_timing_env *env)
{
    (void)env;
    return 0;
}

static kvt_status constant_init(void *state, const struct kvt_timing_env *env,
                                struct kvt_error *err)
{
    (void)state, (void)env, (void)err;
    return KVT_OK;
}

static void constant_group_step(const void *state, const struct kvt_group_load *load,
                                double parts[KVT_PARTS])
{
    (void)state;
    parts[KVT_PART_DENSE] += load->queries > 0 ? 1e7 : 0;
}

static void constant_rank_step(const void *state, const struct kvt_rank_load *load,
                               double parts[KVT_PARTS])
{
    (void)state, (void)load, (void)parts;
}

/* So that what crosses the link has no say in who decodes when. */
static const struct kvt_timing_model constant_timing = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof constant_timing,
             .name = "constant",
             .summary = "10 ms a step"},
    .state_bytes = constant_state_bytes,
    .init = constant_init,
    .group_step = constant_group_step,
    .rank_step = constant_rank_step,
};

static void take_constant_steps(struct small_run *small)
{
    small->scenario.timing = (struct kvt_choice){.info = &constant_timing.info};
}

/* ---- The twin ------------------------------------------------------------------------------ */

struct sums {
    double wire_bytes, ahead_bytes, predicted, wasted, deepened, missed;
};

struct watch {
    struct kvt_backend base;
    struct kvt_backend *inner;
    struct kvt_backend_env env;
    uint8_t planes[REQUESTS][STORES][ROWS_MAX]; /* of each row: 1 its first, 2 both */
    struct sums all;
    uint64_t steps;
};

static struct watch *watch_of(struct kvt_backend *backend)
{
    return (struct watch *)(void *)backend;
}

/* Chance below 1 of a row that a query reads. */
static double chance_of(const struct watch *watch, enum kvt_rng_purpose purpose,
                        const struct kvt_step_item *item, uint32_t selector, uint32_t query,
                        uint32_t row)
{
    uint64_t call =
        kvt_chain64((uint64_t)item->request << 32 | selector, item->step * KVT_QUERIES_MAX + query);
    struct kvt_rng rng = kvt_rng_stream(watch->env.run_seed, purpose, call);

    rng.counter = row;
    return kvt_rng_unit(&rng);
}

static bool is_missed(const struct kvt_resolve_result *result, uint32_t row)
{
    for (uint32_t i = 0; i < result->filled_rows + result->staged_rows; i++) {
        if (result->missed[i] == row)
            return true;
    }
    return false;
}

static bool is_in_hbm(const struct kvt_step_item *item, uint32_t tail_first, uint32_t row)
{
    uint32_t page = row / KVT_PAGE_ROWS;
    return row >= tail_first ||
           (page < item->ready_pages && (item->ready_bits[page / 64] >> page % 64 & 1) != 0);
}

/* How many planes the queries [first, first + count) of the call want of each row: 0 to 2. */
static void read_wanted(struct watch *watch, const struct kvt_step_item *item, uint32_t selector,
                        uint32_t first, uint32_t count, uint32_t tail_first, uint8_t *wanted)
{
    uint32_t rows[TOP_K], selected;
    struct kvt_error err;

    memset(wanted, 0, ROWS_MAX);
    for (uint32_t q = first; q < first + count; q++) {
        ck_assert_int_eq(watch->inner->ops->selection(watch->inner, item->request, selector, q,
                                                      rows, &selected, &err),
                         KVT_OK);
        for (uint32_t i = 0; i < selected; i++) {
            if (is_in_hbm(item, tail_first, rows[i]))
                continue;
            bool deep = chance_of(watch, KVT_RNG_DEPTH, item, selector, q, rows[i]) >=
                        watch->env.read_depth.shallow_share;
            if (wanted[rows[i]] < 1 + deep)
                wanted[rows[i]] = 1 + deep;
        }
    }
}

static void follow_call(struct watch *watch, const struct kvt_step_item *item, uint32_t selector,
                        uint32_t first, uint32_t count, struct sums *sums)
{
    const struct kvt_llm *llm = watch->env.llm;
    uint32_t s = llm->selectors[selector].store;
    double row_bytes = (double)llm->stores[s].layers * llm->payload.wire_bytes;
    double shallow = watch->env.read_depth.shallow_fraction;
    uint8_t wanted[ROWS_MAX], *planes = watch->planes[item->request][s];
    uint32_t tail_first =
        kvt_tail_first_row(&llm->stores[s], item->context_tokens, item->round->query_count);
    bool is_guessed = watch->env.prefetch.lead != KVT_LEAD_SELECTOR || selector > 0;
    struct kvt_resolve_result result;
    struct kvt_error err;

    ck_assert_int_eq(watch->inner->ops->inspect_call(watch->inner, item->request, selector, first,
                                                     &result, &err),
                     KVT_OK);
    read_wanted(watch, item, selector, first, count, tail_first, wanted);
    for (uint32_t row = 0; row < ROWS_MAX; row++) {
        double part = kvt_reads_planes(&watch->env.read_depth) && wanted[row] == 1 ? shallow : 1;
        if (wanted[row] == 0)
            continue;
        if (!is_missed(&result, row)) {
            bool grows = wanted[row] > planes[row] && kvt_reads_planes(&watch->env.read_depth);
            sums->deepened += grows;
            sums->wire_bytes += grows ? row_bytes * (1 - shallow) : 0;
            planes[row] = grows ? 2 : planes[row];
            continue;
        }
        planes[row] = wanted[row];
        sums->missed++;
        if (is_guessed && chance_of(watch, KVT_RNG_PREFETCH, item, selector, first, row) <
                              watch->env.prefetch.recall) {
            sums->predicted++;
            sums->wasted += 1 / watch->env.prefetch.precision - 1;
            sums->ahead_bytes += row_bytes * part / watch->env.prefetch.precision;
        } else {
            sums->wire_bytes += row_bytes * part;
        }
    }
}

static kvt_status watch_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                             uint32_t rank_count, struct kvt_error *err)
{
    struct watch *watch = watch_of(backend);
    kvt_status status = watch->inner->ops->step(watch->inner, ranks, rank_count, err);

    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++) {
        const struct kvt_step_outcome *outcome = &ranks[r].outcome;
        struct sums sums = {0};
        for (uint32_t i = 0; i < ranks[r].item_count; i++) {
            const struct kvt_step_item *item = &ranks[r].items[i];
            uint32_t queries = item->round->query_count;
            uint32_t of_call = watch->env.resolve_each_query ? 1 : queries;
            for (uint32_t s = 0; s < watch->env.llm->selector_count; s++) {
                for (uint32_t q = 0; q < queries; q += of_call)
                    follow_call(watch, item, s, q, of_call, &sums);
            }
        }
        ck_assert_double_eq_tol(outcome->load.wire_bytes, sums.wire_bytes, 1e-3);
        ck_assert_double_eq_tol(outcome->load.ahead.wire_bytes, sums.ahead_bytes, 1e-3);
        ck_assert_double_eq_tol(outcome->wasted_rows, sums.wasted, 1e-6);
        ck_assert_double_eq(outcome->prefetched_rows, sums.predicted);
        ck_assert_double_eq(outcome->deepened_rows, sums.deepened);
        ck_assert_double_eq(outcome->counts[KVT_SAMPLED_FETCHED], sums.missed);
        watch->all.wire_bytes += sums.wire_bytes;
        watch->all.ahead_bytes += sums.ahead_bytes;
        watch->all.predicted += sums.predicted;
        watch->all.wasted += sums.wasted;
        watch->all.deepened += sums.deepened;
        watch->all.missed += sums.missed;
        watch->steps++;
    }
    return status;
}

static void watch_close(struct kvt_backend *backend)
{
    if (watch_of(backend)->inner)
        watch_of(backend)->inner->ops->close(watch_of(backend)->inner);
}

static uint32_t watch_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct watch *watch = (const struct watch *)(const void *)backend;
    return watch->inner->ops->strata(watch->inner, strata);
}

static const char *watch_describe(struct kvt_backend *backend)
{
    return watch_of(backend)->inner->ops->describe(watch_of(backend)->inner);
}

static kvt_status watch_admit(struct kvt_backend *backend,
                              const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    return watch_of(backend)->inner->ops->admit(watch_of(backend)->inner, admission, err);
}

static void watch_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    watch_of(backend)->inner->ops->release(watch_of(backend)->inner, request, decisions);
}

static void watch_restart_sampling(struct kvt_backend *backend)
{
    watch_of(backend)->inner->ops->restart_sampling(watch_of(backend)->inner);
}

static void watch_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    const struct watch *watch = (const struct watch *)(const void *)backend;
    watch->inner->ops->sampling(watch->inner, out);
}

static const struct kvt_backend_ops watch_ops = {
    .info = {.abi = KVT_ABI_VERSION, .struct_bytes = sizeof watch_ops, .name = "watched"},
    .close = watch_close,
    .strata = watch_strata,
    .describe = watch_describe,
    .admit = watch_admit,
    .release = watch_release,
    .step = watch_step,
    .restart_sampling = watch_restart_sampling,
    .sampling = watch_sampling,
};

static kvt_status watch_open(void *context, const struct kvt_backend_env *env,
                             struct kvt_backend **out, struct kvt_error *err)
{
    struct watch *watch = context;

    watch->base.ops = &watch_ops;
    watch->env = *env;
    watch->env.is_inspected = true;
    *out = &watch->base;
    return kvt_backend_sim.open(&watch->env, &watch->inner, err);
}

/* ---- Settings ------------------------------------------------------------------------------- */

#define PREDICTED "residency.prefetch.recall=0.88", "residency.prefetch.precision=0.6"
#define PLANES                                                                                     \
    "residency.read_depth.shallow_share=0.7", "residency.read_depth.shallow_fraction=0.375"
#define PAGES "residency={\"policy\": \"adaptive\", \"hot_tokens\": 48, \"landing_fraction\": 0.5}"

static const char *const settings[][8] = {
    {NULL},
    {PREDICTED, NULL},
    {PREDICTED, "residency.prefetch.lead=step", "speculation=none", NULL},
    {PLANES, NULL},
    {PLANES, "speculation.promotion=by_count", "residency.hot_tokens=20", NULL},
    {PLANES, "speculation.retrieval=each_query", NULL},
    {PREDICTED, PLANES, "residency.prefetch.lead=scan", NULL},
    {PAGES, "cluster.decode.pools.unified_gib=0.006", PREDICTED, PLANES, NULL},
    {"residency.read_depth.shallow_share=1", NULL},
};
enum {
    SETTINGS = sizeof settings / sizeof settings[0]
};

START_TEST(what_crosses_is_what_a_twin_finds_row_by_row)
{
    struct watch *watch = calloc(1, sizeof *watch);
    const struct kvt_sim_options options = {
        .threads = 2, .open_backend = watch_open, .backend_context = watch};
    struct small_run small;

    ck_assert_ptr_nonnull(watch);
    small_run_open(&small, SCENARIO, settings[_i], &options);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    bool predicts = kvt_predicts_rows(&small.scenario.prefetch);
    bool planes = kvt_reads_planes(&small.scenario.read_depth);
    ck_assert_uint_gt(watch->steps, 100);
    ck_assert_double_gt(watch->all.missed, 1000);
    ck_assert((watch->all.predicted > 0) == predicts);
    ck_assert((watch->all.deepened > 0) == (planes && small.scenario.read_depth.shallow_share < 1));

    /* The books hold what steps counted: on one GPU a rank. */
    const struct kvt_tally *total = &small.run->total;
    ck_assert((total->rows[0].page > 0) ==
              (strcmp(small.scenario.residency.info->name, "adaptive") == 0));
    ck_assert_double_eq(total->prefetched_rows, watch->all.predicted);
    ck_assert_double_eq_tol(total->prefetch_wasted_rows, watch->all.wasted, 1e-6);
    ck_assert_double_eq(total->deepened_rows, watch->all.deepened);
    ck_assert_double_eq_tol(total->h2d_wire_bytes, watch->all.wire_bytes + watch->all.ahead_bytes,
                            1e-2);
    small_run_close(&small);
    free(watch);
}
END_TEST

/* Same slots, same order, same evictions, whatever crosses; bytes differ. */
START_TEST(decisions_are_the_same_whatever_crosses_the_link_and_when)
{
    static const char *const ways[][5] = {{NULL},
                                          {PREDICTED, NULL},
                                          {PREDICTED, "residency.prefetch.lead=step", NULL},
                                          {PLANES, NULL},
                                          {PREDICTED, PLANES, NULL}};
    uint64_t decisions = 0;
    double wire_bytes[5];

    for (int w = 0; w < 5; w++) {
        struct small_run small;
        small_run_parse(&small, SCENARIO, ways[w]);
        take_constant_steps(&small);
        small_run_start(&small, NULL);
        small_run_finish(&small);
        ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
        decisions = w == 0 ? small.run->decision_hash : decisions;
        ck_assert_uint_eq(small.run->decision_hash, decisions);
        wire_bytes[w] = small.run->total.h2d_wire_bytes;
        small_run_close(&small);
    }
    ck_assert_double_gt(wire_bytes[1], 1.3 * wire_bytes[0]);
    ck_assert_double_gt(wire_bytes[2],
                        wire_bytes[1]); /* the first selector's rows are guessed, too */
    ck_assert_double_lt(wire_bytes[3], 0.9 * wire_bytes[0]);
}
END_TEST

/* With time to hide in and a predictor that knows everything, nothing is waited for; and all that
 * it does not know is demanded. */
START_TEST(a_perfect_prediction_with_an_endless_window_leaves_no_fetch_exposed)
{
    static const char *const demanded[] = {"timing.layer_overhead_us=10000", NULL};
    static const char *const ahead[] = {"timing.layer_overhead_us=10000",
                                        "residency.prefetch.recall=1",
                                        "residency.prefetch.lead=step", NULL};
    struct small_run first, second;

    small_run_whole(&first, SCENARIO, demanded);
    small_run_whole(&second, SCENARIO, ahead);
    const struct kvt_tally *total = &second.run->total;
    ck_assert_int_gt(first.run->total.parts_ns[KVT_PART_FETCH], 0);
    ck_assert_int_eq(total->parts_ns[KVT_PART_FETCH], 0);
    ck_assert_double_gt(total->prefetched_rows, 0);
    ck_assert_double_eq(total->prefetched_rows, total->counts[KVT_SAMPLED_FETCHED]);
    ck_assert_double_eq(total->prefetch_wasted_rows, 0);
    small_run_close(&first);
    small_run_close(&second);
}
END_TEST

START_TEST(any_number_of_threads_draws_the_same)
{
    static const char *const sets[] = {PREDICTED, PLANES, "run.fidelity=sampled", NULL};
    static const char *const exact[] = {PREDICTED, PLANES, NULL};
    char *first = NULL;

    for (unsigned threads = 1; threads <= 4; threads *= 2) {
        const struct kvt_sim_options options = {.threads = threads};
        struct small_run small;
        small_run_open(&small, SCENARIO, _i == 0 ? exact : sets, &options);
        small_run_finish(&small);
        ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
        char *text = small_run_result_text(&small);
        if (first)
            ck_assert_str_eq(text, first);
        else
            first = strdup(text);
        free(text);
        small_run_close(&small);
    }
    free(first);
}
END_TEST

/* Sampled, what is followed stands for the rest. */
START_TEST(a_sampled_run_scales_what_it_has_seen)
{
    static const char *const exact[] = {PREDICTED, PLANES, NULL};
    static const char *const pooled[] = {PREDICTED, PLANES, "run.fidelity=sampled", NULL};
    static const char *const stores[] = {PREDICTED, PLANES, "run.fidelity=sampled",
                                         "run.sample_requests=0", NULL};
    struct small_run truth, small;

    small_run_parse(&truth, SCENARIO, exact);
    take_constant_steps(&truth);
    small_run_start(&truth, NULL);
    small_run_finish(&truth);
    small_run_parse(&small, SCENARIO, _i == 0 ? pooled : stores);
    take_constant_steps(&small);
    small_run_start(&small, NULL);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    const struct kvt_tally *a = &truth.run->total, *b = &small.run->total;
    double fetched = b->counts[KVT_SAMPLED_FETCHED] / a->counts[KVT_SAMPLED_FETCHED];
    ck_assert_double_eq_tol(fetched, 1, 0.1); /* which sampling leaves open */
    ck_assert_double_eq_tol(b->prefetched_rows / a->prefetched_rows, fetched, 0.02);
    ck_assert_double_eq_tol(b->prefetch_wasted_rows / a->prefetch_wasted_rows, fetched, 0.02);
    ck_assert_double_eq_tol(b->deepened_rows / a->deepened_rows, fetched, 0.05);
    /* A store's layers are the mean ones, and of the first selector's nothing is sent in vain. */
    ck_assert_double_eq_tol(b->h2d_wire_bytes / a->h2d_wire_bytes, fetched, 0.08);
    small_run_close(&truth);
    small_run_close(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crossing_twin");
    TCase *crossing = tcase_create("crossing");

    tcase_set_timeout(crossing, 60);
    tcase_add_loop_test(crossing, what_crosses_is_what_a_twin_finds_row_by_row, 0, SETTINGS);
    tcase_add_test(crossing, decisions_are_the_same_whatever_crosses_the_link_and_when);
    tcase_add_test(crossing, a_perfect_prediction_with_an_endless_window_leaves_no_fetch_exposed);
    tcase_add_loop_test(crossing, any_number_of_threads_draws_the_same, 0, 2);
    tcase_add_loop_test(crossing, a_sampled_run_scales_what_it_has_seen, 0, 2);
    suite_add_tcase(suite, crossing);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
