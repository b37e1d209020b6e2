/* roofline.c -- a decode step from data sheets: what each family must move or
 * compute at least, at a stated efficiency.
 *
 *     host     a constant: scheduling that no kernel hides; beyond the largest graph
 *              a launch of every kernel by hand
 *     dense    max(weights read / HBM, math / flops) + collectives, per GPU
 *     index    max(index rows read / HBM, math / flops) + top-k, over all queries
 *     resolve  a launch a selector + looked-up rows
 *     fetch    max(wire bytes / link, bytes / share of DRAM, granules / rate, latency,
 *              what fetched rows are rebuilt from / flops)
 *     attend   max(rows read / HBM, math / flops) + a launch a layer; queries of one request
 *              read the rows of a dense model once
 *     waves    each beyond a selector's first: a launch of its resolve, of its gather and
 *              of the attention of its store's layers
 *     draft    passes of the drafter, each max(weights / HBM, math / flops) + its
 *              rings / HBM + launches; and sampling
 *
 * Dense kernels run on as many tokens as the next larger graph was captured for.
 * A GPU reads its own dense weights (sharded over tp) and the experts that its
 * queries touch (over tp, or over the ep group). tp shards heads, not KV: each
 * rank of a replica scans all index rows, reads all selected rows and fetches
 * every miss. Defaults come from the best public kernels on one H200
 * (docs/timing.md). Not in it: uneven experts, kernels overlapping one another,
 * clocks that drop with power. */
#include "roofline.h"

#include <assert.h>

#include "roofline_params.h"

enum {
    SCORE_BYTES = 4,      /* float */
    ACTIVATION_BYTES = 2, /* bf16 */
    DISPATCH_BYTES = 1,   /* fp8 on the way to an expert; bf16 on the way back */
};

static size_t roofline_state_bytes(const struct kvt_timing_env *env)
{
    (void)env;
    return sizeof(struct roofline);
}

static double real(const struct kvt_timing_env *env, size_t param)
{
    return env->params.values[param].number;
}

static double flops_of(const struct kvt_timing_env *env, size_t math_param)
{
    enum math math = (enum math)real(env, math_param);
    return math == MATH_FP8 ? env->hardware->fp8_flops : env->hardware->bf16_flops;
}

static kvt_status check_rate(double rate, const char *what, const struct kvt_timing_env *env,
                             struct kvt_error *err)
{
    if (rate > 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, "timing \"roofline\"",
                    "hardware \"%s\" states no %s, which this step needs; it must be above 0",
                    env->hardware->name, what);
}

static kvt_status check_hardware(const struct kvt_timing_env *env, struct kvt_error *err)
{
    const struct kvt_hardware *hardware = env->hardware;
    const struct {
        double rate;
        const char *what;
        bool is_needed;
    } rates[] = {
        {(double)hardware->hbm_bytes_per_s, "hbm_bytes_per_s", true},
        {(double)hardware->link_h2d_bytes_per_s, "link_h2d_bytes_per_s", !env->history_in_hbm},
        {flops_of(env, PARAM_DENSE_MATH), "flops in the format of dense_math", true},
        {flops_of(env, PARAM_ATTENTION_MATH), "flops in the format of attention_math", true},
        {(double)hardware->interconnect_bytes_per_s, "interconnect_bytes_per_s",
         env->tp > 1 || env->ep > 1},
    };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (!rates[i].is_needed)
            continue;
        kvt_status status = check_rate(rates[i].rate, rates[i].what, env, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static void set_dense(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_llm *llm = env->llm;
    double hbm = (double)env->hardware->hbm_bytes_per_s * real(env, PARAM_HBM_EFFICIENCY);
    double flops = flops_of(env, PARAM_DENSE_MATH) * real(env, PARAM_FLOPS_EFFICIENCY);
    double tp = env->tp;
    uint32_t expert_gpus = env->ep > env->tp ? env->ep : env->tp;

    roofline->untouched = 0;
    roofline->expert_read_ns = 0;
    roofline->dense_read_ns = llm->weight_bytes / tp / hbm * 1e9;
    if (llm->experts > 0) {
        double expert_bytes = larger(llm->weight_bytes - llm->dense_weight_bytes, 0);
        roofline->untouched = 1.0 - (double)llm->experts_active / (double)llm->experts;
        roofline->expert_read_ns = expert_bytes / expert_gpus / hbm * 1e9;
        roofline->dense_read_ns = llm->dense_weight_bytes / tp / hbm * 1e9;
    }
    roofline->expert_replicas = expert_gpus / env->tp;
    roofline->dense_math_ns = 2.0 * llm->active_parameters / tp / flops * 1e9;
}

/* Per layer: an all-reduce after attention; then another after the experts, or,
 * where experts are spread over other replicas too, the way to them and back. A
 * ring all-reduce moves each byte twice, but for the GPU's own share. */
static void set_collectives(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_llm *llm = env->llm;
    bool is_spread = env->ep > env->tp && llm->experts > 0;
    double tp = env->tp;
    double per_layer = 0;
    double bytes = 0; /* of one query in one layer, out of one GPU */
    if (env->tp > 1) {
        double reduces = is_spread ? 1 : 2;
        per_layer += reduces;
        bytes += reduces * 2.0 * (tp - 1) / tp * ACTIVATION_BYTES * llm->hidden;
    }
    if (is_spread) {
        double ep = env->ep;
        double copies = smaller(llm->experts_active, ep) * (ep - 1) / ep;
        per_layer += 2;
        bytes += copies * (DISPATCH_BYTES + ACTIVATION_BYTES) * llm->hidden / tp;
    }
    double latency_us = real(env, PARAM_LAYER_US) + per_layer * real(env, PARAM_COLLECTIVE_US);
    roofline->layers_ns = llm->layers * latency_us * 1e3;
    roofline->exchange_ns = 0;
    if (bytes > 0)
        roofline->exchange_ns = llm->layers * bytes * 1e9 /
                                ((double)env->hardware->interconnect_bytes_per_s *
                                 real(env, PARAM_INTERCONNECT_EFFICIENCY));
}

static void set_selectors(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_llm *llm = env->llm;
    double hbm = (double)env->hardware->hbm_bytes_per_s * real(env, PARAM_HBM_EFFICIENCY);
    double flops = flops_of(env, PARAM_DENSE_MATH) * real(env, PARAM_FLOPS_EFFICIENCY);
    double rows = 0; /* index rows of one token, as often as they are scanned */
    for (uint32_t i = 0; i < llm->selector_count; i++)
        rows += 1.0 / llm->stores[llm->selectors[i].store].compress_ratio;

    roofline->selectors = llm->selector_count;
    roofline->scan_read_ns = rows * kvt_llm_scan_bytes(llm) / hbm * 1e9;
    roofline->scan_query_share = real(env, PARAM_INDEX_QUERY_SHARE);
    roofline->scan_math_ns = rows * 2.0 * llm->index_heads * llm->index_dim / flops * 1e9;
    if (llm->index_heads > 0) { /* else all rows are attended to, and none is scored before */
        roofline->topk_ns = llm->selector_count * real(env, PARAM_TOPK_US) * 1e3;
        roofline->topk_score_ns = rows * SCORE_BYTES * real(env, PARAM_TOPK_PASSES) / hbm * 1e9;
    }
    roofline->resolve_ns = env->history_in_hbm ? 0 : real(env, PARAM_RESOLVE_US) * 1e3;
    roofline->resolve_row_ns = real(env, PARAM_RESOLVE_ROW_NS);
}

/* Payload rows of one token, over all layers. */
static double payload_layer_rows(const struct kvt_llm *llm)
{
    double rows = 0;
    for (uint32_t i = 0; i < llm->store_count; i++)
        rows += (double)llm->stores[i].layers / llm->stores[i].compress_ratio;
    return rows;
}

/* Absorbed MLA: a query's head meets latent and rope of a row, and its latent
 * again as the value. */
static void set_attention(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_llm *llm = env->llm;
    double hbm = (double)env->hardware->hbm_bytes_per_s * real(env, PARAM_HBM_EFFICIENCY);
    double flops = flops_of(env, PARAM_ATTENTION_MATH) * real(env, PARAM_ATTENTION_EFFICIENCY);
    double heads = (double)llm->heads / env->tp;
    double dims = (2.0 * llm->latent_dim + llm->rope_dim) * kvt_llm_block_rows(llm);
    uint32_t layers = 0;
    for (uint32_t i = 0; i < llm->store_count; i++)
        layers += llm->stores[i].layers;

    roofline->attend_launch_ns = real(env, PARAM_ATTENTION_US) * 1e3;
    roofline->attend_ns = layers * roofline->attend_launch_ns;
    roofline->attend_read_ns = llm->payload.capacity_bytes / hbm * 1e9;
    roofline->attend_math_ns = 2.0 * heads * dims / flops * 1e9;
    roofline->reads_are_shared = llm->index_heads == 0;
    roofline->rebuild_ns = llm->payload.rebuild_flops / env->tp /
                           (flops_of(env, PARAM_DENSE_MATH) * real(env, PARAM_FLOPS_EFFICIENCY)) *
                           1e9;
    roofline->follower_share =
        layers > 0 && llm->layers > 0 ? (double)(layers - llm->store_count) / llm->layers : 0;
}

/* A drafter without weights of its own is made of the model's layers, and reads as much
 * of each as a step would; a model that drafts for itself is all of them. */
static void set_draft(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_drafter *drafter = env->drafter;
    double hbm = (double)env->hardware->hbm_bytes_per_s * real(env, PARAM_HBM_EFFICIENCY);
    double flops = flops_of(env, PARAM_DENSE_MATH) * real(env, PARAM_FLOPS_EFFICIENCY);
    double layers = 0; /* of the model */

    roofline->draft_passes = env->draft_passes;
    if (env->draft_budget_tokens > 0) {
        double row_ns = larger(roofline->attend_read_ns, roofline->attend_math_ns);
        layers = env->llm->layers;
        roofline->draft_fixed_ns = roofline->layers_ns + roofline->attend_ns;
        roofline->draft_request_ns =
            env->draft_budget_tokens * payload_layer_rows(env->llm) * row_ns;
    } else if (drafter != NULL) {
        double sharers = smaller(env->tp, drafter->kv_heads);
        layers = drafter->weight_bytes > 0 ? 0 : drafter->layers;
        roofline->draft_fixed_ns = drafter->layers * real(env, PARAM_DRAFT_US) * 1e3;
        roofline->draft_request_ns = (double)kvt_drafter_ring_bytes(drafter) / sharers / hbm * 1e9;
        roofline->draft_read_ns = drafter->weight_bytes / env->tp / hbm * 1e9;
        roofline->draft_math_ns =
            2.0 * drafter->weight_bytes / KVT_DRAFT_WEIGHT_BYTES / env->tp / flops * 1e9;
    }
    roofline->draft_model_share = env->llm->layers > 0 ? layers / env->llm->layers : 0;
    roofline->draft_math_ns += roofline->draft_model_share * roofline->dense_math_ns;
}

static void set_link(struct roofline *roofline, const struct kvt_timing_env *env)
{
    const struct kvt_hardware *hardware = env->hardware;
    double link = (double)hardware->link_h2d_bytes_per_s * real(env, PARAM_LINK_EFFICIENCY);
    uint32_t sharers = env->ranks_per_link_node > 0 ? env->ranks_per_link_node : 1;
    double dram = (double)env->dram_bytes_per_s * real(env, PARAM_DRAM_EFFICIENCY) / sharers;

    roofline->link_byte_ns = link > 0 ? 1e9 / link : 0;
    roofline->duplex_byte_ns =
        roofline->link_byte_ns * (1.0 / real(env, PARAM_DUPLEX_EFFICIENCY) - 1.0);
    roofline->dram_byte_ns = dram > 0 ? 1e9 / dram : 0;
    roofline->granule_ns =
        hardware->link_granules_per_s > 0 ? 1e9 / hardware->link_granules_per_s : 0;
    roofline->latency_ns = (double)hardware->link_latency_ns;
    roofline->fetch_order = (enum fetch_order)real(env, PARAM_FETCH_ORDER);
}

static kvt_status roofline_init(void *state, const struct kvt_timing_env *env,
                                struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    assert(env->tp >= 1);
    kvt_status status = check_hardware(env, err);
    if (status != KVT_OK)
        return status;

    struct roofline *roofline = state;
    *roofline = (struct roofline){
        .host_ns = real(env, PARAM_HOST_US) * 1e3,
        .sampling_ns = real(env, PARAM_SAMPLING_US) * 1e3,
        .eager_ns = env->llm->layers * real(env, PARAM_EAGER_US) * 1e3,
        .graph_step_tokens = (uint32_t)real(env, PARAM_GRAPH_STEP),
        .graph_largest_tokens = (uint32_t)real(env, PARAM_GRAPH_LARGEST),
    };
    set_dense(roofline, env);
    set_collectives(roofline, env);
    set_selectors(roofline, env);
    set_attention(roofline, env);
    set_draft(roofline, env);
    set_link(roofline, env);
    return KVT_OK;
}

kvt_status kvt_roofline_init_default(struct roofline *roofline, const struct kvt_timing_env *env,
                                     struct kvt_error *err)
{
    struct kvt_param_value values[PARAM_COUNT];
    struct kvt_timing_env with_defaults = *env;

    kvt_roofline_default_values(values);
    with_defaults.params = (struct kvt_params){.values = values, .count = PARAM_COUNT};
    return roofline_init(roofline, &with_defaults, err);
}

const struct kvt_timing_model kvt_timing_roofline = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_timing_roofline,
             .name = "roofline",
             .summary = "data sheets: bytes over bandwidth, operations over rate, at efficiencies",
             .params = kvt_roofline_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_DATASHEET,
    .state_bytes = roofline_state_bytes,
    .init = roofline_init,
    .group_step = kvt_roofline_group_step,
    .rank_step = kvt_roofline_rank_step,
    .link_ns = kvt_roofline_link_ns,
    .reads_hardware = true,
};
