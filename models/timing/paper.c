/* paper.c -- the reference paper's decode step, rebuilt from its tables.
 *
 *     group:  shared_ms + expert_ms * phi(queries of all ranks) + draft_ms where drafted
 *     rank:   requests * request_ms + (queries - requests) * query_ms
 *             + missed layer rows * wire_row_bytes / link
 *     phi(n) = 1 - (1 - active experts / experts)^n
 *
 * The paper prints mean TPOT of GLM-5.3 for two policies at offered 128 and
 * 256, one of them with DFlash2 too, and three ratios; these constants give all
 * of them. They hold for that model on ranks of one GPU each, for those two
 * policies at one query a request, for adaptive with DFlash2, and for nothing
 * else: init refuses the rest. */
#include "kvt/timing.h"

#include <assert.h>
#include <string.h>

enum {
    PAPER_LAYERS = 78, /* payload layers and stores of GLM-5.3 */
    PAPER_STORES = 21,
    PAPER_BLOCK_MAX = 8, /* queries of a round at most */
};

enum {
    PARAM_SHARED_MS,
    PARAM_EXPERT_MS,
    PARAM_HISPARSE_REQUEST_MS,
    PARAM_ADAPTIVE_REQUEST_MS,
    PARAM_WIRE_ROW_BYTES,
    PARAM_LINK_GB_PER_S,
    PARAM_DRAFT_MS,
    PARAM_QUERY_MS,
    PARAM_COUNT
};

#define WITHOUT_DRAFTS                                                                             \
    {                                                                                              \
        .beside = "speculation.method", .values = "none", .cure = "speculation.method \"dflash2\"" \
    }

static const struct kvt_param_spec paper_params[PARAM_COUNT] = {
    [PARAM_SHARED_MS] = {.name = "shared_ms",
                         .help = "Step time that no load changes.",
                         .calibrated_to = "Table 2, C128 and C256 HiSparse, given the 3.7x at C32",
                         .type = KVT_PARAM_REAL,
                         .minimum = 0,
                         .maximum = 1e4,
                         .default_number = 15.8},
    [PARAM_EXPERT_MS] = {.name = "expert_ms",
                         .help = "Step time of reading every expert once.",
                         .calibrated_to = "Table 2, C128 and C256 HiSparse, given the 3.7x at C32",
                         .type = KVT_PARAM_REAL,
                         .minimum = 0,
                         .maximum = 1e4,
                         .default_number = 22.2},
    [PARAM_HISPARSE_REQUEST_MS] = {.name = "hisparse_request_ms",
                                   .help =
                                       "Scan, resolve and attention of one request under hisparse.",
                                   .calibrated_to = "Table 2, C128 and C256 HiSparse",
                                   .type = KVT_PARAM_REAL,
                                   .minimum = 0,
                                   .maximum = 1e3,
                                   .default_number = 0.12,
                                   .idle = {{.beside = "residency.policy",
                                             .values = "adaptive",
                                             .cure = "residency.policy \"hisparse\""}}},
    [PARAM_ADAPTIVE_REQUEST_MS] = {.name = "adaptive_request_ms",
                                   .help = "The same under adaptive, whose retrieval is fused.",
                                   .calibrated_to = "Table 2, C256 Adaptive HiSparse",
                                   .type = KVT_PARAM_REAL,
                                   .minimum = 0,
                                   .maximum = 1e3,
                                   .default_number = 0.025,
                                   .idle = {{.beside = "residency.policy",
                                             .values = "hisparse",
                                             .cure = "residency.policy \"adaptive\""}}},
    [PARAM_WIRE_ROW_BYTES] = {.name = "wire_row_bytes",
                              .help = "Effective bytes on the link of a missed row in one layer.",
                              .calibrated_to = "Table 3, 2.4 to 2.5 KB a missed selection",
                              .type = KVT_PARAM_REAL,
                              .minimum = 1,
                              .maximum = 65536,
                              .default_number = 656},
    [PARAM_LINK_GB_PER_S] = {.name = "link_gb_per_s",
                             .help = "Rate of the link under the resolver's gather, per GPU.",
                             .calibrated_to = "the slope of Fig 8a",
                             .type = KVT_PARAM_REAL,
                             .minimum = 0.001,
                             .maximum = 1e5,
                             .default_number = 49.4},
    [PARAM_DRAFT_MS] = {.name = "draft_ms",
                        .help = "Drafting a block by DFlash2, and sampling.",
                        .calibrated_to = "Table 2, C128 Adaptive DHiSparse, given its blocks of 8, "
                                         "6 and 4",
                        .type = KVT_PARAM_REAL,
                        .minimum = 0,
                        .maximum = 1e4,
                        .default_number = 10.7,
                        .idle = {WITHOUT_DRAFTS}},
    [PARAM_QUERY_MS] = {.name = "query_ms",
                        .help = "What each query of a request beyond its first adds to a step.",
                        .calibrated_to = "Table 2, C128 Adaptive DHiSparse, given its blocks of 8, "
                                         "6 and 4",
                        .type = KVT_PARAM_REAL,
                        .minimum = 0,
                        .maximum = 1e3,
                        .default_number = 0.03,
                        .idle = {WITHOUT_DRAFTS}},
};

struct paper {
    double shared_ns;
    double expert_ns;
    double request_ns; /* of the policy in force */
    double row_ns;     /* of one missed row in one layer */
    double draft_ns;
    double query_ns;  /* of one query beyond a request's first */
    double untouched; /* share of experts that one query leaves alone */
};

static size_t paper_state_bytes(const struct kvt_timing_env *env)
{
    (void)env;
    return sizeof(struct paper);
}

static kvt_status check_model(const struct kvt_llm *llm, struct kvt_error *err)
{
    uint32_t payload_layers = 0;
    for (uint32_t i = 0; i < llm->store_count; i++)
        payload_layers += llm->stores[i].layers;
    if (payload_layers != PAPER_LAYERS || llm->store_count != PAPER_STORES || llm->experts == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"paper\"",
                        "profile \"paper\" was fitted to GLM-5.3 (%d payload layers in %d stores, "
                        "with experts); model \"%s\" has %u in %u and %u experts",
                        PAPER_LAYERS, PAPER_STORES, llm->name, payload_layers, llm->store_count,
                        llm->experts);
    return KVT_OK;
}

#define ANY_OTHER "; model \"roofline\" takes any (timing.model=roofline)"

static kvt_status check_policies(const struct kvt_timing_env *env, struct kvt_error *err)
{
    bool is_adaptive = strcmp(env->residency, "adaptive") == 0;
    bool is_speculating = strcmp(env->speculation, "none") != 0;
    if (!is_adaptive && strcmp(env->residency, "hisparse") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"paper\"",
                        "profile \"paper\" holds constants for hisparse, adaptive only" ANY_OTHER);
    if (is_speculating && strcmp(env->speculation, "dflash2") != 0)
        return kvt_fail(
            err, KVT_ERR_INVALID, "timing \"paper\"",
            "profile \"paper\" holds constants for speculation none, dflash2 only" ANY_OTHER);
    if (is_speculating && !is_adaptive)
        return kvt_fail(
            err, KVT_ERR_INVALID, "timing \"paper\"",
            "profile \"paper\" holds constants for dflash2 with adaptive only" ANY_OTHER);
    if (env->takes_turns)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"paper\"",
                        "profile \"paper\" holds no constants for calls that outgrow their "
                        "staging; expected speculation.staging_fraction 1, or timing roofline");
    if (env->queries_max > PAPER_BLOCK_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"paper\"",
                        "profile \"paper\" holds constants for rounds of up to %d queries; these "
                        "have %u",
                        PAPER_BLOCK_MAX, env->queries_max);
    return KVT_OK;
}

static kvt_status paper_init(void *state, const struct kvt_timing_env *env, struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct paper *paper = state;

    bool is_adaptive = strcmp(env->residency, "adaptive") == 0;
    kvt_status status = check_policies(env, err);
    if (status == KVT_OK)
        status = check_model(env->llm, err);
    if (status != KVT_OK)
        return status;
    if (env->tp != 1)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"paper\"",
                        "profile \"paper\" was fitted to ranks of one GPU each (tp 1); the pool "
                        "has tp %u",
                        env->tp);

    *paper = (struct paper){
        .shared_ns = values[PARAM_SHARED_MS].number * 1e6,
        .expert_ns = values[PARAM_EXPERT_MS].number * 1e6,
        .request_ns =
            1e6 *
            values[is_adaptive ? PARAM_ADAPTIVE_REQUEST_MS : PARAM_HISPARSE_REQUEST_MS].number,
        .row_ns = values[PARAM_WIRE_ROW_BYTES].number / values[PARAM_LINK_GB_PER_S].number,
        .draft_ns = values[PARAM_DRAFT_MS].number * 1e6,
        .query_ns = values[PARAM_QUERY_MS].number * 1e6,
        .untouched = 1.0 - (double)env->llm->experts_active / (double)env->llm->experts,
    };
    return KVT_OK;
}

static void paper_group_step(const void *state, const struct kvt_group_load *load,
                             double parts[KVT_PARTS])
{
    const struct paper *paper = state;
    if (load->queries == 0)
        return;
    parts[KVT_PART_DENSE] +=
        paper->shared_ns +
        paper->expert_ns * kvt_experts_touched_share(paper->untouched, load->queries);
    if (load->draft_tokens > 0)
        parts[KVT_PART_DRAFT] += paper->draft_ns;
}

/* The fit does not tell scan, resolve and attention apart: they are `other`. */
static void paper_rank_step(const void *state, const struct kvt_rank_load *load,
                            double parts[KVT_PARTS])
{
    const struct paper *paper = state;
    uint32_t further_queries = load->queries > load->requests ? load->queries - load->requests : 0;
    parts[KVT_PART_OTHER] += load->requests * paper->request_ns + further_queries * paper->query_ns;
    parts[KVT_PART_FETCH] += load->missed_layer_rows * paper->row_ns;
}

/* Contexts of the runs that the constants were fitted to: 100,032 tokens and what
 * was generated behind them. */
static bool paper_in_range(const void *state, const struct kvt_rank_load *load)
{
    (void)state;
    double context = (double)load->context_rows / load->requests;
    return context >= 90000 && context <= 110000;
}

const struct kvt_timing_model kvt_timing_paper = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_timing_paper,
             .name = "paper",
             .summary = "constants fitted to the reference paper: GLM-5.3, hisparse or adaptive",
             .params = paper_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .state_bytes = paper_state_bytes,
    .init = paper_init,
    .group_step = paper_group_step,
    .rank_step = paper_rank_step,
    .in_range = paper_in_range,
};
