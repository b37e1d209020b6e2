/* test_backend_pair.c -- two backends on one schedule: the simulator beside itself agrees, and
 * beside a twin that decides wrongly the first wrong call is found and told. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/backend_pair.h"
#include "kvt/json.h"
#include "support/plugin_params.h"
#include "support/small_run.h"

/* GLM-5.3 in small, so that calls are few and small: stores of 1, 1 and 4 layers, 16 rows a query.
 */
#define SMALL                                                                                      \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"small\", \"seed\": 2385, "                    \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, "                            \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, "                                   \
    "\"stores\": [{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "      \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}, \"hardware\": \"b300\", "                             \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"dp\": 2, \"lockstep\": true, "                      \
    "\"speculation_workspace_gib\": 0, \"pools\": {\"unified_gib\": 0.005}}}, "                    \
    "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 32}, "                              \
    "\"selection\": {\"law\": \"score\"}, "                                                        \
    "\"speculation\": {\"method\": \"self-sparse\", \"drafts\": 3, "                               \
    "\"draft_budget_tokens\": 16, \"staging_fraction\": 0.01}, "                                   \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 6, \"requests\": 9, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 900}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 24}}}}"

/* ---- A twin that decides wrongly ----------------------------------------------------------- */

enum fault {
    FAULT_NONE,
    FAULT_SLOT,      /* two rows have changed places in a cache */
    FAULT_COUNT,     /* a row hit that should have been filled */
    FAULT_HASH,      /* of a cache that is right */
    FAULT_ORDER,     /* two missed rows came in the other order */
    FAULT_DECISIONS, /* a chain of calls that are right */
    FAULT_WAVES,
    FAULT_LOAD,
    FAULT_ROWS,
    FAULT_RELEASE
};

/* From that round of that request on. */
enum {
    WRONG_REQUEST = 3,
    WRONG_STEP = 2,
    WRONG_SELECTOR = 1,
    WRONG_STORE = 1
};

static enum fault fault;
/* What checks of attention have shown, as the twin has it. */
static struct kvt_backend_proof proof;
/* The twin runs drafts, too: a tenth of its steps. */
static bool runs_drafts;
/* What a step takes on each rank. */
static kvt_ns measured_ns[2] = {KVT_NS_NEVER, KVT_NS_NEVER};

/* Of those that were said to come, and of those that came: the same tokens, and so many. */
static struct kvt_backend_admission expected[64];
static uint32_t expected_count, came_count;

struct twin {
    struct kvt_backend base;
    struct kvt_backend *inner;
    uint64_t step; /* of the wrong request */
    uint32_t rows[4096], missed[4096];
};

static struct twin *twin_of(struct kvt_backend *backend)
{
    return (struct twin *)backend;
}

static const struct kvt_backend *inner_of(const struct kvt_backend *backend)
{
    return ((const struct twin *)backend)->inner;
}

static bool is_wrong(const struct twin *twin, uint32_t request)
{
    return request == WRONG_REQUEST && twin->step >= WRONG_STEP;
}

static const struct kvt_backend_ops twin_ops;

/* Selections of its own where it is to be the one who makes them. */
static kvt_status twin_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                            struct kvt_error *err)
{
    struct twin *twin = calloc(1, sizeof *twin);
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_backend_env own = *env;
    ck_assert_ptr_nonnull(twin);
    twin->base.ops = &twin_ops;
    *out = &twin->base;
    if (((const struct kvt_law *)(const void *)env->selection.info)->reads_source) {
        ck_assert_int_eq(
            kvt_plugin_find(NULL, KVT_PLUGIN_LAW, "score", "test", &own.selection.info, err),
            KVT_OK);
        own.selection.params = support_default_params(own.selection.info, values);
    }
    return kvt_backend_sim.open(&own, &twin->inner, err);
}

static void twin_close(struct kvt_backend *backend)
{
    kvt_backend_sim.close(twin_of(backend)->inner);
    free(backend);
}

static uint32_t twin_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    return kvt_backend_sim.strata(inner_of(backend), strata);
}

static const char *twin_describe(struct kvt_backend *backend)
{
    return kvt_backend_sim.describe(twin_of(backend)->inner);
}

static kvt_status twin_admit(struct kvt_backend *backend,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    uint32_t i = expected_count;

    while (i > 0 && expected[i - 1].request != admission->request)
        i--;
    came_count += i > 0 && expected[i - 1].rank == admission->rank &&
                  expected[i - 1].context_tokens == admission->context_tokens &&
                  expected[i - 1].last_tokens == admission->last_tokens;
    return kvt_backend_sim.admit(twin_of(backend)->inner, admission, err);
}

static kvt_status twin_expect(struct kvt_backend *backend,
                              const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    (void)backend;
    (void)err;
    ck_assert_uint_lt(expected_count, sizeof expected / sizeof expected[0]);
    expected[expected_count++] = *admission;
    return KVT_OK;
}

static kvt_status twin_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                              uint64_t *decisions, struct kvt_error *err)
{
    return kvt_backend_sim.resize(twin_of(backend)->inner, request, hot_tokens, decisions, err);
}

static void twin_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    kvt_backend_sim.release(twin_of(backend)->inner, request, decisions);
    *decisions += fault == FAULT_RELEASE && request == WRONG_REQUEST;
}

static kvt_status twin_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    struct twin *twin = twin_of(backend);
    kvt_status status = kvt_backend_sim.step(twin->inner, ranks, rank_count, err);

    for (uint32_t r = 0; r < rank_count; r++) {
        for (uint32_t i = 0; i < ranks[r].item_count; i++) {
            struct kvt_step_item *item = &ranks[r].items[i];
            ranks[r].outcome.measured_ns = measured_ns[r];
            ranks[r].outcome.measured_parts_ns[KVT_PART_ATTEND] = 0.75 * (double)measured_ns[r];
            ranks[r].outcome.measured_parts_ns[KVT_PART_DRAFT] =
                runs_drafts ? 0.1 * (double)measured_ns[r] : 0;
            if (item->request != WRONG_REQUEST)
                continue;
            twin->step = item->step;
            if (!is_wrong(twin, item->request))
                continue;
            item->decisions +=
                fault == FAULT_COUNT || fault == FAULT_ORDER || fault == FAULT_DECISIONS;
            ranks[r].outcome.load.extra_waves += fault == FAULT_WAVES;
            ranks[r].outcome.load.granules *= fault == FAULT_LOAD ? 1.001 : 1;
            ranks[r].outcome.rows[0].skipped_calls += fault == FAULT_ROWS;
        }
    }
    return status;
}

static void twin_restart_sampling(struct kvt_backend *backend)
{
    kvt_backend_sim.restart_sampling(twin_of(backend)->inner);
}

static void twin_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    kvt_backend_sim.sampling(inner_of(backend), out);
}

static kvt_status twin_state_hashes(struct kvt_backend *backend, uint32_t request, uint64_t *hashes,
                                    struct kvt_error *err)
{
    struct twin *twin = twin_of(backend);
    kvt_status status = kvt_backend_sim.state_hashes(twin->inner, request, hashes, err);
    hashes[WRONG_STORE] += is_wrong(twin, request) && (fault == FAULT_HASH || fault == FAULT_SLOT);
    return status;
}

static kvt_status twin_inspect_call(struct kvt_backend *backend, uint32_t request,
                                    uint32_t selector, uint32_t query,
                                    struct kvt_resolve_result *out, struct kvt_error *err)
{
    struct twin *twin = twin_of(backend);
    kvt_status status =
        kvt_backend_sim.inspect_call(twin->inner, request, selector, query, out, err);
    if (!is_wrong(twin, request) || selector != WRONG_SELECTOR)
        return status;
    uint32_t count = out->filled_rows + out->staged_rows;
    if (count < 2)
        return status;
    memcpy(twin->missed, out->missed, count * sizeof *twin->missed);
    out->missed = twin->missed;
    if (fault == FAULT_COUNT) {
        memmove(twin->missed, twin->missed + 1, (count - 1) * sizeof *twin->missed);
        out->hot_rows++;
        out->filled_rows--;
    } else if (fault == FAULT_ORDER) {
        uint32_t first = twin->missed[0];
        twin->missed[0] = twin->missed[1];
        twin->missed[1] = first;
    }
    return status;
}

static kvt_status twin_inspect_cache(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                     struct kvt_backend_cache *out, struct kvt_error *err)
{
    struct twin *twin = twin_of(backend);
    kvt_status status = kvt_backend_sim.inspect_cache(twin->inner, request, store, out, err);
    if (fault != FAULT_SLOT || !is_wrong(twin, request) || store != WRONG_STORE)
        return status;
    memcpy(twin->rows, out->rows, out->slot_count * sizeof *twin->rows);
    twin->rows[5] = out->rows[7];
    twin->rows[7] = out->rows[5];
    out->rows = twin->rows;
    return status;
}

static kvt_status twin_selection(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                 uint32_t query, uint32_t *rows, uint32_t *count,
                                 struct kvt_error *err)
{
    return kvt_backend_sim.selection(twin_of(backend)->inner, request, selector, query, rows, count,
                                     err);
}

static void twin_proof(const struct kvt_backend *backend, struct kvt_backend_proof *out)
{
    (void)backend;
    *out = proof;
}

static bool twin_runs_drafts(const struct kvt_backend *backend)
{
    (void)backend;
    return runs_drafts;
}

static const struct kvt_backend_ops twin_ops = {
    .info = {.abi = KVT_ABI_VERSION, .struct_bytes = sizeof twin_ops, .name = "twin"},
    .open = twin_open,
    .close = twin_close,
    .strata = twin_strata,
    .describe = twin_describe,
    .admit = twin_admit,
    .resize = twin_resize,
    .release = twin_release,
    .step = twin_step,
    .restart_sampling = twin_restart_sampling,
    .sampling = twin_sampling,
    .state_hashes = twin_state_hashes,
    .inspect_call = twin_inspect_call,
    .inspect_cache = twin_inspect_cache,
    .selection = twin_selection,
    .proof = twin_proof,
    .expect = twin_expect,
    .runs_drafts = twin_runs_drafts,
};

/* ---- Runs ---------------------------------------------------------------------------------- */

static struct kvt_backend *pair;

static kvt_status open_pair(void *context, const struct kvt_backend_env *env,
                            struct kvt_backend **out, struct kvt_error *err)
{
    kvt_status status = kvt_backend_pair_open(context, env, out, err);
    pair = status == KVT_OK ? *out : NULL;
    return status;
}

/* The whole run, with the report as of its end. */
static struct kvt_pair_report run_pair(struct small_run *small, const char *const *sets,
                                       const struct kvt_backend_ops *first)
{
    struct kvt_pair_sides sides = {.first = first, .second = &kvt_backend_sim};
    const struct kvt_sim_options options = {
        .threads = 2, .open_backend = open_pair, .backend_context = &sides};
    struct kvt_pair_report report;

    small_run_open(small, SMALL, sets, &options);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
    kvt_backend_pair_report(pair, &report);
    return report;
}

static const char *const settings[][5] = {
    {NULL},
    {"speculation.staging_fraction=1", "speculation.promotion=by_count", NULL},
    {"speculation.retrieval=each_query", NULL},
    {"residency={\"policy\": \"hisparse\", \"hot_tokens\": 20}", NULL},
    {"residency={\"policy\": \"sglang-demote\", \"hot_tokens\": 32}", NULL},
    {"residency=resident", "cluster.decode.pools.unified_gib=0.05", NULL},
    {"selection={\"law\": \"tape\", \"tapes\": 2}", NULL},
};

START_TEST(the_simulator_agrees_with_itself_and_runs_as_it_does_alone)
{
    struct small_run alone, both;
    struct kvt_pair_report report = run_pair(&both, settings[_i], &kvt_backend_sim);

    ck_assert_msg(report.mismatches == 0, "%s", report.first_mismatch);
    ck_assert_ptr_null(report.first_mismatch);
    ck_assert_uint_eq(report.calls, both.run->total.rows[0].calls);
    ck_assert_uint_ge(report.calls, 100);
    ck_assert_uint_eq(report.admissions, report.releases);
    ck_assert_uint_ge(report.admissions, 9);
    ck_assert_uint_eq(report.rounds, both.run->total.rounds);
    ck_assert_uint_eq(report.agreed_rounds, report.rounds);
    small_run_whole(&alone, SMALL, settings[_i]);
    ck_assert_uint_eq(alone.run->decision_hash, both.run->decision_hash);
    ck_assert_int_eq(alone.run->end_ns, both.run->end_ns);
    small_run_close(&alone);
    small_run_close(&both);
}
END_TEST

START_TEST(what_is_compared_is_counted)
{
    static const char *const sets[] = {"residency.hot_tokens=16", "workload.concurrency=40",
                                       "workload.requests=40",
                                       "cluster.decode.pools.unified_gib=0.02", NULL};
    struct small_run small;
    struct kvt_pair_report report = run_pair(&small, sets, &kvt_backend_sim);

    ck_assert_uint_ge(report.states, 3 * report.rounds / 2); /* some rounds have no cache yet */
    ck_assert_uint_gt(report.page_changes, 0);
    ck_assert_uint_gt(report.waves, 0);
    small_run_close(&small);
}
END_TEST

static const struct {
    enum fault fault;
    const char *words[4]; /* all of them are in what is told */
} faults[] = {
    {FAULT_SLOT,
     {"request 3, its round 2 of", "hot cache of store 1: state ",
      "first slot that differs: 5 holds row "}},
    {FAULT_COUNT,
     {"first call that differs: selector 1 (layer 1, store 1), queries from 0", "* hot ",
      "* filled ", "misses part at number 0 of"}},
    {FAULT_HASH, {"hot cache of store 1: state ", "no slot differs"}},
    {FAULT_ORDER, {"first call that differs: selector 1", "misses part at number 0 of", "miss 0"}},
    {FAULT_DECISIONS, {"every call can be read and is the same, but the chains"}},
    {FAULT_WAVES, {"whose", "requests agree", "extra_waves "}},
    {FAULT_LOAD, {"requests agree", "granules "}},
    {FAULT_ROWS, {"requests agree", "rows of stratum 0"}},
    {FAULT_RELEASE, {"request 3, as it was released: its hot caches end with chain"}},
};

START_TEST(a_twin_that_decides_wrongly_is_found_at_its_first_wrong_call)
{
    struct small_run small;
    fault = faults[_i].fault;
    struct kvt_pair_report report = run_pair(&small, NULL, &twin_ops);

    ck_assert_uint_ge(report.mismatches, 1);
    ck_assert_uint_gt(report.agreed_rounds, 0);
    ck_assert_uint_le(report.agreed_rounds, report.rounds);
    if (fault == FAULT_COUNT) /* the request is not looked at any more */
        ck_assert_uint_lt(report.agreed_rounds, report.rounds);
    ck_assert_ptr_nonnull(report.first_mismatch);
    for (size_t w = 0; w < 4 && faults[_i].words[w]; w++)
        ck_assert_msg(strstr(report.first_mismatch, faults[_i].words[w]) != NULL,
                      "\"%s\" is not in:\n%s", faults[_i].words[w], report.first_mismatch);
    /* One request is wrong; where it is a request's fault, it is told once. */
    if (fault <= FAULT_DECISIONS || fault == FAULT_RELEASE)
        ck_assert_uint_eq(report.mismatches, 1);
    small_run_close(&small);
}
END_TEST

START_TEST(rows_in_question_are_told_with_where_they_are)
{
    struct small_run small;
    fault = FAULT_COUNT;
    struct kvt_pair_report report = run_pair(&small, NULL, &twin_ops);
    const char *const words[] = {"  row ",
                                 "the tail (rows from ",
                                 ", page ",
                                 "first  selected by ",
                                 "second selected by ",
                                 ", miss 0, filled",
                                 ", not missed",
                                 "now in slot "};

    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        ck_assert_msg(strstr(report.first_mismatch, words[w]) != NULL, "\"%s\" is not in:\n%s",
                      words[w], report.first_mismatch);
    small_run_close(&small);
}
END_TEST

/* What a backend is told of the ranks that it is to make room for. */
static struct kvt_backend_env told;

static kvt_status note_env(void *context, const struct kvt_backend_env *env,
                           struct kvt_backend **out, struct kvt_error *err)
{
    (void)context;
    told = *env;
    return kvt_backend_sim.open(env, out, err);
}

static const struct {
    const char *set;
    uint32_t requests;
} bounds[] = {
    {"workload.concurrency=6", 6}, /* no more are in flight, and all may be on one rank */
    {"workload.requests=4", 4},    /* no more will ever come */
    {"workload={\"arrival\": \"phases\", \"phases\": [{\"concurrency\": 2, \"seconds\": 0.1}, "
     "{\"concurrency\": 5, \"seconds\": 0.1}, {\"concurrency\": 1, \"seconds\": 0.1}], "
     "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 900}, "
     "\"output\": {\"law\": \"fixed\", \"tokens\": 24}}}",
     5},
};

START_TEST(a_backend_is_told_how_many_requests_and_pages_a_rank_can_have)
{
    const struct kvt_sim_options options = {.open_backend = note_env};
    const char *const sets[] = {bounds[_i].set, NULL};
    struct small_run small;

    small_run_open(&small, SMALL, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    ck_assert_uint_eq(told.rank_count, 2);
    ck_assert_uint_eq(told.tp, 1);
    ck_assert_uint_eq(told.ep, 1);
    ck_assert_uint_eq(told.rank_requests, bounds[_i].requests);
    /* Pages of 924 tokens and a round, of each; or what 0.005 GiB hold at 6 layers of 576 B. */
    uint64_t fit = 5368709 / (64 * 6 * 576), all = (uint64_t)bounds[_i].requests * 15;
    ck_assert_uint_eq(told.rank_pages, fit < all ? fit : all);
    small_run_close(&small);
}
END_TEST

START_TEST(without_a_bound_of_the_workloads_own_the_pool_is_one)
{
    const struct kvt_sim_options options = {.open_backend = note_env};
    static const char *const sets[] = {
        "workload={\"arrival\": \"open\", \"rate\": 1, \"requests\": 1000000, "
        "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 900}, "
        "\"output\": {\"law\": \"fixed\", \"tokens\": 24}}}",
        NULL};
    struct small_run small;

    small_run_open(&small, SMALL, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    ck_assert_uint_gt(told.rank_requests, 6);
    ck_assert_uint_lt(told.rank_requests, 40);
    small_run_close(&small);
}
END_TEST

static const struct expecting {
    const char *sets[4];
    bool expects;
} expecting[] = {
    {{NULL}, true},
    {{"cluster.decode.pools.unified_gib=0.01", NULL}, true}, /* some are put aside, and come back */
    {{"cluster.prefill={\"mode\": \"colocated\", \"tokens_per_s\": 5000}", NULL}, false},
    {{"workload.lengths.output={\"law\": \"fixed\", \"tokens\": 1}", NULL}, false},
};

START_TEST(who_comes_in_is_expected_first_unless_computed_here_or_gone_at_once)
{
    struct small_run small;
    expected_count = came_count = 0;
    const struct kvt_pair_report report = run_pair(&small, expecting[_i].sets, &twin_ops);

    ck_assert_uint_eq(expected_count, came_count);
    ck_assert_uint_eq(came_count, expecting[_i].expects ? report.admissions : 0);
    small_run_close(&small);
}
END_TEST

START_TEST(sampled_runs_cannot_be_compared)
{
    struct kvt_pair_sides sides = {&kvt_backend_sim, &kvt_backend_sim};
    const struct kvt_sim_options options = {.open_backend = open_pair, .backend_context = &sides};
    static const char *const sets[] = {"run.fidelity=sampled", NULL};
    struct small_run small;

    small_run_open(&small, SMALL, sets, &options);
    ck_assert_int_eq(small.status, KVT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(small.err.message, "call by call"));
    small_run_close(&small);
}
END_TEST

START_TEST(the_indexer_passes_on_what_the_first_selected)
{
    static const char *const sets[] = {"backend=cuda", "selection=indexer", NULL};
    struct small_run small;
    struct kvt_pair_report report = run_pair(&small, sets, &twin_ops);

    ck_assert_msg(report.mismatches == 0, "%s", report.first_mismatch);
    ck_assert_uint_ge(report.calls, 100);
    small_run_close(&small);
}
END_TEST

/* Ranks share host work and sampling; each has its own drafting. */
#define ROOFLINE                                                                                   \
    "timing={\"model\": \"roofline\", \"host_us_per_step\": 300, \"sampling_us_per_step\": 200}"

static kvt_ns sum_of(const kvt_ns parts_ns[KVT_PARTS])
{
    kvt_ns total = 0;

    for (int p = 0; p < KVT_PARTS; p++)
        total += parts_ns[p];
    return total;
}

START_TEST(by_the_measured_clock_a_step_takes_what_its_slowest_rank_measured)
{
    static const char *const sets[] = {"backend=cuda", "run.clock=measured", NULL};
    struct small_run small;
    measured_ns[0] = 2000000;
    measured_ns[1] = 2385000;
    (void)run_pair(&small, sets, &twin_ops);
    const struct kvt_tally *total = &small.run->total;

    ck_assert_uint_eq(total->measured_steps, total->decode_steps);
    ck_assert_int_le(total->measured_ns, (kvt_ns)total->decode_steps * 2385000);
    ck_assert_int_ge(total->measured_ns, (kvt_ns)total->decode_steps * 2000000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_ATTEND] + total->parts_ns[KVT_PART_OTHER],
                     total->measured_ns);
    ck_assert_int_eq(total->parts_ns[KVT_PART_ATTEND], 3 * total->parts_ns[KVT_PART_OTHER]);
    ck_assert_int_eq(small.run->timing_basis, KVT_BASIS_MEASURED);
    /* Both ranks decode in most steps, and the faster one waits. */
    ck_assert_int_gt(total->barrier_wait_ns, (kvt_ns)total->decode_steps / 2 * 385000);
    small_run_close(&small);
}
END_TEST

static struct kvt_step_times step_sums;
static uint64_t steps_seen;

/* With one rank, so that the slowest as predicted is the slowest as measured. */
static void add_step(void *context, const struct kvt_step_times *times)
{
    (void)context;
    kvt_ns run_ns = 0, unrun_ns = 0;
    for (int p = 0; p < KVT_PARTS; p++) {
        step_sums.predicted_parts_ns[p] += times->predicted_parts_ns[p];
        step_sums.measured_parts_ns[p] += times->measured_parts_ns[p];
        step_sums.added_parts_ns[p] += times->added_parts_ns[p];
        run_ns += times->measured_parts_ns[p];
        if (kvt_step_part_is_run((enum kvt_step_part)p, times->runs_drafts))
            ck_assert_int_eq(times->added_parts_ns[p], 0);
        else
            ck_assert_int_eq(times->added_parts_ns[p], times->predicted_parts_ns[p]);
        unrun_ns += times->added_parts_ns[p];
    }
    ck_assert_int_gt(unrun_ns, 0);
    ck_assert_int_eq(kvt_step_predicted_run_ns(times), times->predicted_ns - unrun_ns);
    ck_assert_int_eq(run_ns, times->measured_ns);
    steps_seen++;
}

START_TEST(what_no_backend_runs_takes_what_is_predicted_of_it_by_a_measured_clock)
{
    static const char *const sets[] = {"backend=cuda",          "run.clock=measured",  ROOFLINE,
                                       "cluster.decode.gpus=1", "cluster.decode.dp=1", NULL};
    struct kvt_pair_sides sides = {&twin_ops, &kvt_backend_sim};
    const struct kvt_sim_options options = {
        .open_backend = open_pair, .backend_context = &sides, .on_step = add_step};
    struct small_run small;
    measured_ns[0] = 2000000;
    step_sums = (struct kvt_step_times){0};
    steps_seen = 0;
    small_run_open(&small, SMALL, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    small_run_finish(&small);
    const struct kvt_tally *total = &small.run->total;

    ck_assert_uint_gt(steps_seen, 0);
    ck_assert_int_eq(total->measured_ns, (kvt_ns)total->decode_steps * 2000000);
    ck_assert_int_eq(total->step_ns, total->measured_ns + sum_of(total->added_parts_ns));
    ck_assert_int_eq(total->step_ns, sum_of(total->parts_ns));
    ck_assert_int_eq(total->parts_ns[KVT_PART_HOST], (kvt_ns)total->decode_steps * 300000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_SAMPLE], (kvt_ns)total->decode_steps * 200000);
    ck_assert_int_gt(total->parts_ns[KVT_PART_DRAFT], 0);
    ck_assert_int_eq(total->parts_ns[KVT_PART_DRAFT], step_sums.predicted_parts_ns[KVT_PART_DRAFT]);
    ck_assert_int_eq(total->measured_parts_ns[KVT_PART_DRAFT], 0);
    small_run_close(&small);
}
END_TEST

static double number_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "%s is no number", key);
    return item->valuedouble;
}

static const char *text_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    ck_assert_msg(cJSON_IsString(item), "%s is no text", key);
    return item->valuestring;
}

/* The result, and with it the summary, whose lines are joined where they were broken. */
static char *report_on(const struct small_run *small, struct cJSON **result)
{
    struct kvt_error err;
    char *text = NULL, *out;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);

    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(kvt_report_result(small->run, result, &err), KVT_OK);
    kvt_report_summary(stream, small->run, *result);
    (void)fclose(stream);
    out = text;
    for (const char *in = text; *in; in++) {
        if (strncmp(in, "\n           ", 12) == 0) {
            in += 11;
            *out++ = ' ';
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return text;
}

START_TEST(what_was_measured_is_in_the_result_and_says_what_it_is_worth)
{
    static const char *const sets[] = {"backend={\"name\": \"cuda\", \"shared_tokens\": 640, "
                                       "\"ranks_on_device\": 2, \"layers\": 6}",
                                       "run.clock=measured", ROOFLINE, NULL};
    struct small_run small;
    struct cJSON *result = NULL;
    measured_ns[0] = measured_ns[1] = 2385000;
    proof.scaled = "times of 6 of 78 layers, scaled";
    proof.imports = (struct kvt_backend_imports){.requests = 3,
                                                 .checked_pages = 12,
                                                 .beside_bytes = 2385000000,
                                                 .joining_bytes = 1250000000,
                                                 .beside_ns = 5e7,
                                                 .joining_ns = 5e7,
                                                 .waited_ns = 6e7};
    (void)run_pair(&small, sets, &twin_ops);
    char *text = report_on(&small, &result);
    proof = (struct kvt_backend_proof){0};

    const cJSON *measured = kvt_json_find(result, "measured");
    ck_assert(cJSON_IsTrue(kvt_json_find(measured, "is_clock")));
    ck_assert(cJSON_IsFalse(kvt_json_find(measured, "reproducible")));
    ck_assert_double_eq_tol(number_at(measured, "mean_step_ms"), 2.385, 1e-12);
    const cJSON *parts = kvt_json_find(measured, "step_parts_ms");
    ck_assert_double_eq_tol(number_at(parts, "attend"), 0.75 * 2.385, 1e-12);
    ck_assert_ptr_null(kvt_json_find(parts, "host"));
    const cJSON *imports = kvt_json_find(measured, "imports");
    ck_assert_double_eq(number_at(imports, "requests"), 3);
    ck_assert_double_eq(number_at(imports, "beside_bytes"), 2385000000.0);
    ck_assert_double_eq_tol(number_at(imports, "joining_s"), 0.05, 1e-12);
    ck_assert_double_eq_tol(number_at(imports, "waited_s"), 0.06, 1e-12);
    const cJSON *added = kvt_json_find(measured, "predicted_parts_ms");
    ck_assert_double_eq_tol(number_at(added, "host"), 0.3, 1e-12);
    ck_assert_double_eq_tol(number_at(added, "sampling"), 0.2, 1e-12);
    ck_assert_double_eq(number_at(added, "prefill"), 0);
    ck_assert_ptr_null(kvt_json_find(added, "attend"));
    ck_assert_double_eq_tol(number_at(kvt_json_find(result, "step_parts_ms"), "host"), 0.3, 1e-12);
    const cJSON *scaled = kvt_json_find(kvt_json_find(result, "scaled"), "backend");
    ck_assert_double_eq(number_at(scaled, "shared_tokens"), 640);
    ck_assert_double_eq(number_at(scaled, "ranks_on_device"), 2);
    ck_assert_ptr_null(kvt_json_find(scaled, "shared_contexts"));
    ck_assert_double_eq(number_at(scaled, "layers"), 6);
    ck_assert_str_eq(text_at(kvt_json_find(result, "scaled"), "times"),
                     "times of 6 of 78 layers, scaled");
    const cJSON *badge = kvt_json_find(result, "badge");
    ck_assert_str_eq(text_at(badge, "decisions"), "no");
    ck_assert_str_eq(text_at(badge, "decisions_reason"), "kvtide validate compares them");
    ck_assert_str_eq(text_at(badge, "kernel_time"), "yes");
    ck_assert_str_eq(text_at(badge, "engine"), "no");

    static const char *const lines[] = {
        "attend 1.79 + other 0.60; not in it, for no backend runs it: host 0.30 + draft ",
        " + sampling 0.20, as predicted\n",
        "clock      measured, and host + draft + sampling as predicted: not reproducible\n",
        "imports    of 3 requests over the link, 2.39 GB beside steps at 47.7 GB/s, 1.25 GB as "
        "they joined at 25.0 GB/s; 60.0 ms waited for\n",
        "| kernel time yes (a GPU, times of 6 of 78 layers, scaled, 100 % of steps in range) | "
        "engine no\n",
        "scaled     on the GPU: ranks_on_device 2, shared_tokens 640, layers 6; times of 6 of 78 "
        "layers, scaled\n",
        "step times measured (host + draft + sampling: datasheet);"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        ck_assert_msg(strstr(text, lines[i]) != NULL, "\"%s\" is not in:\n%s", lines[i], text);
    free(text);
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

/* The same where the backend drafts: nothing is added for it, and its time is a part measured. */
START_TEST(drafts_that_the_backend_runs_take_what_was_measured)
{
    static const char *const sets[] = {"backend=cuda",          "run.clock=measured",  ROOFLINE,
                                       "cluster.decode.gpus=1", "cluster.decode.dp=1", NULL};
    struct kvt_pair_sides sides = {&twin_ops, &kvt_backend_sim};
    const struct kvt_sim_options options = {
        .open_backend = open_pair, .backend_context = &sides, .on_step = add_step};
    struct small_run small;
    measured_ns[0] = 2000000;
    runs_drafts = true;
    step_sums = (struct kvt_step_times){0};
    small_run_open(&small, SMALL, sets, &options);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    small_run_finish(&small);
    const struct kvt_tally *total = &small.run->total;

    ck_assert(small.run->runs_drafts);
    ck_assert_int_gt(step_sums.predicted_parts_ns[KVT_PART_DRAFT], 0);
    ck_assert_int_eq(total->added_parts_ns[KVT_PART_DRAFT], 0);
    ck_assert_int_eq(total->measured_parts_ns[KVT_PART_DRAFT],
                     (kvt_ns)total->decode_steps * 200000);
    ck_assert_int_eq(total->parts_ns[KVT_PART_DRAFT], total->measured_parts_ns[KVT_PART_DRAFT]);
    ck_assert_int_eq(sum_of(total->measured_parts_ns), total->measured_ns);
    struct cJSON *result = NULL;
    char *text = report_on(&small, &result);
    const cJSON *measured = kvt_json_find(result, "measured");
    ck_assert_ptr_null(kvt_json_find(kvt_json_find(measured, "predicted_parts_ms"), "draft"));
    ck_assert_double_eq_tol(
        kvt_json_find(kvt_json_find(measured, "step_parts_ms"), "draft")->valuedouble, 0.2, 1e-12);
    ck_assert_ptr_nonnull(
        strstr(text, "not in it, for no backend runs it: host 0.30 + sampling 0.20"));
    free(text);
    cJSON_Delete(result);
    runs_drafts = false;
    small_run_close(&small);
}
END_TEST

/* Step times rest on the weaker of what was measured and what was added. */
START_TEST(a_measured_step_with_predicted_parts_rests_on_both)
{
    static const char *const sets[] = {"backend=cuda",     "run.clock=measured",
                                       ROOFLINE,           "residency={\"policy\": \"resident\"}",
                                       "speculation=none", NULL};
    struct small_run small;
    struct cJSON *result = NULL;
    measured_ns[0] = measured_ns[1] = 2385000;
    (void)run_pair(&small, sets, &twin_ops);
    char *text = report_on(&small, &result);

    ck_assert_str_eq(text_at(kvt_json_find(result, "metrics_basis"), "mean_step_ms"), "datasheet");
    ck_assert_ptr_nonnull(strstr(text, "measured, and host + sampling as predicted"));
    free(text);
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

static const struct {
    struct kvt_backend_proof proof;
    const char *reason;
} worthless[] = {
    {{.not_representative = "plain kernels"}, "plain kernels"},
    {{.checked_queries = 9, .unequal_queries = 1, .not_representative = "plain kernels"},
     "of attention that is not right"},
};

START_TEST(times_of_other_kernels_or_of_wrong_ones_prove_no_kernel_time)
{
    static const char *const sets[] = {"backend=cuda", "run.clock=measured", NULL};
    struct small_run small;
    struct cJSON *result = NULL;
    char line[160];
    measured_ns[0] = measured_ns[1] = 2385000;
    proof = worthless[_i].proof;
    (void)run_pair(&small, sets, &twin_ops);
    char *text = report_on(&small, &result);

    const cJSON *badge = kvt_json_find(result, "badge");
    ck_assert_str_eq(text_at(badge, "kernel_time"), "no");
    ck_assert_str_eq(text_at(badge, "kernel_time_reason"), worthless[_i].reason);
    (void)snprintf(line, sizeof line, "| kernel time no (%s) | engine no\n", worthless[_i].reason);
    ck_assert_ptr_nonnull(strstr(text, line));
    proof = (struct kvt_backend_proof){0};
    free(text);
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

START_TEST(by_the_predicted_clock_what_was_measured_is_told_beside)
{
    static const char *const sets[] = {"backend=cuda", NULL};
    struct small_run small, alone;
    measured_ns[0] = measured_ns[1] = 2385000;
    (void)run_pair(&small, sets, &twin_ops);
    small_run_whole(&alone, SMALL, NULL);

    ck_assert_uint_eq(small.run->decision_hash, alone.run->decision_hash);
    ck_assert_int_eq(small.run->total.step_ns, alone.run->total.step_ns);
    ck_assert_int_eq(small.run->total.measured_ns, (kvt_ns)small.run->total.decode_steps * 2385000);
    ck_assert_uint_eq(alone.run->total.measured_steps, 0);
    small_run_close(&alone);
    small_run_close(&small);
}
END_TEST

/* ---- What checks of attention have shown --------------------------------------------------- */

START_TEST(an_error_that_is_no_number_stays_and_is_not_precise)
{
    const struct kvt_backend_proof good = {.double_queries = 3, .max_rel_error = 1e-4};
    const struct kvt_backend_proof bad = {.double_queries = 1, .max_rel_error = (double)NAN};
    struct kvt_backend_proof before = good, behind = bad, none = {0};

    kvt_backend_proof_add(&before, &bad);
    kvt_backend_proof_add(&before, &good);
    kvt_backend_proof_add(&behind, &good);
    ck_assert(isnan(before.max_rel_error) && isnan(behind.max_rel_error));
    ck_assert(!kvt_backend_proof_is_precise(&before, 1));
    ck_assert(!kvt_backend_proof_is_precise(&behind, 1));
    ck_assert_uint_eq(before.double_queries, 7);
    ck_assert(kvt_backend_proof_is_precise(&good, 1e-3));
    ck_assert(!kvt_backend_proof_is_precise(&good, 1e-5));
    ck_assert(kvt_backend_proof_is_precise(&none, 1e-3));
    kvt_backend_proof_add(&none, &good);
    ck_assert_double_eq(none.max_rel_error, 1e-4);
}
END_TEST

START_TEST(what_a_backend_proves_comes_through_the_pair_to_the_run)
{
    struct small_run small;
    struct cJSON *result = NULL;
    struct kvt_error err;
    proof = (struct kvt_backend_proof){.calls = 40,
                                       .planned_calls = 30,
                                       .checked_queries = 20,
                                       .double_queries = 2,
                                       .max_rel_error = (double)NAN};
    measured_ns[0] = measured_ns[1] = 2385000;
    (void)run_pair(&small, NULL, &twin_ops);
    ck_assert_uint_eq(small.run->proof.planned_calls, 30);
    ck_assert(!kvt_backend_proof_is_precise(&small.run->proof, 3e-3));
    ck_assert_int_eq(kvt_report_result(small.run, &result, &err), KVT_OK);
    ck_assert(
        cJSON_IsNull(kvt_json_find(kvt_json_find(result, "measured"), "attention_max_rel_error")));
    cJSON_Delete(result);
    small_run_close(&small);
}
END_TEST

START_TEST(a_flipped_byte_counts_as_found_where_it_was_and_nothing_else_differs)
{
    static const struct {
        uint64_t rows, found, queries, unequal;
        const char *words; /* NULL: good */
    } cases[] = {
        {0, 0, 0, 0, "nothing was flipped"},
        {0, 0, 0, 5, "nothing was flipped"},
        {1, 0, 0, 0, "was not found"},
        {1, 0, 0, 3, "was not found"},
        {2, 1, 4, 4, "was not found"},
        {1, 1, 1, 1, NULL},
        {1, 1, 3, 3, NULL}, /* it is missed again */
        {1, 1, 1, 2, "where nothing was flipped"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct kvt_backend_proof shown = {.corrupted_rows = cases[i].rows,
                                                .corrupted_found = cases[i].found,
                                                .corrupted_queries = cases[i].queries,
                                                .unequal_queries = cases[i].unequal};
        const char *wrong = kvt_backend_proof_corruption(&shown);
        ck_assert_msg(!wrong == !cases[i].words && (!wrong || strstr(wrong, cases[i].words)),
                      "case %zu: %s", i, wrong ? wrong : "good");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backend_pair");
    TCase *agree = tcase_create("agree"), *differ = tcase_create("differ");
    TCase *proofs = tcase_create("proofs");

    tcase_add_loop_test(agree, the_simulator_agrees_with_itself_and_runs_as_it_does_alone, 0,
                        sizeof settings / sizeof settings[0]);
    tcase_add_test(agree, what_is_compared_is_counted);
    tcase_add_loop_test(agree, a_backend_is_told_how_many_requests_and_pages_a_rank_can_have, 0,
                        sizeof bounds / sizeof bounds[0]);
    tcase_add_test(agree, without_a_bound_of_the_workloads_own_the_pool_is_one);
    tcase_add_test(agree, sampled_runs_cannot_be_compared);
    tcase_add_test(agree, the_indexer_passes_on_what_the_first_selected);
    tcase_add_test(agree, by_the_measured_clock_a_step_takes_what_its_slowest_rank_measured);
    tcase_add_test(agree, what_no_backend_runs_takes_what_is_predicted_of_it_by_a_measured_clock);
    tcase_add_test(agree, drafts_that_the_backend_runs_take_what_was_measured);
    tcase_add_test(agree, a_measured_step_with_predicted_parts_rests_on_both);
    tcase_add_loop_test(agree, times_of_other_kernels_or_of_wrong_ones_prove_no_kernel_time, 0,
                        sizeof worthless / sizeof worthless[0]);
    tcase_add_loop_test(agree, who_comes_in_is_expected_first_unless_computed_here_or_gone_at_once,
                        0, (int)(sizeof expecting / sizeof expecting[0]));
    tcase_add_test(agree, what_was_measured_is_in_the_result_and_says_what_it_is_worth);
    tcase_add_test(agree, by_the_predicted_clock_what_was_measured_is_told_beside);
    tcase_add_loop_test(differ, a_twin_that_decides_wrongly_is_found_at_its_first_wrong_call, 0,
                        sizeof faults / sizeof faults[0]);
    tcase_add_test(differ, rows_in_question_are_told_with_where_they_are);
    tcase_add_test(proofs, an_error_that_is_no_number_stays_and_is_not_precise);
    tcase_add_test(proofs, what_a_backend_proves_comes_through_the_pair_to_the_run);
    tcase_add_test(proofs, a_flipped_byte_counts_as_found_where_it_was_and_nothing_else_differs);
    tcase_set_timeout(agree, 60);
    tcase_set_timeout(differ, 60);
    suite_add_tcase(suite, agree);
    suite_add_tcase(suite, differ);
    suite_add_tcase(suite, proofs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
