/* prefill_cost.c -- a prompt by data sheets: what it must compute at least, at a stated efficiency.
 *
 *     dense     max(2 x active parameters x tokens / tp / flops, weights / HBM)
 *     exchange  an all-reduce after attention and after the experts; where these are spread over
 *               other servers too, the way to them and back instead of the second
 *     index     each token scores all before it, on each of the tp GPUs, which hold the indexer
 *               whole; scores cross HBM for their top-k
 *     attend    each token meets min(top_k, rows so far) rows of each layer, heads over tp
 *
 * Sums over tokens are integrals, with the kink where top_k rows are first there. Selected rows
 * are taken to be in L2: tokens that are next to each other select nearly the same. Nothing
 * overlaps anything. Not in it: uneven experts, padding of few heads, what engines lose between
 * kernels; flops_efficiency stands for them (docs/timing.md). */
#include <math.h>

#include "kvt/prefill.h"

enum {
    SCORE_BYTES = 4,      /* float */
    ACTIVATION_BYTES = 2, /* bf16 */
    DISPATCH_BYTES = 1    /* fp8 on the way to an expert; bf16 on the way back */
};
/* As the defaults of timing "roofline". */
#define HBM_EFFICIENCY 0.8
#define INTERCONNECT_EFFICIENCY 0.7
#define TOPK_PASSES 1.7
#define LAYER_US 10.0
#define COLLECTIVE_US 8.0

static kvt_status check_rate(double rate, const char *what, const struct kvt_hardware *hardware,
                             struct kvt_error *err)
{
    if (rate > 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, hardware->name,
                    "the hardware states no %s, which prefill needs; it must be above 0", what);
}

/* Bytes of one token in one layer, out of one GPU; *calls: collectives of a layer. */
static double exchanged_bytes(const struct kvt_prefill_env *env, double *calls)
{
    const struct kvt_llm *llm = env->llm;
    bool is_spread = env->ep > env->tp && llm->experts > 0;
    double tp = env->tp, ep = env->ep, reduces = is_spread ? 1 : 2, bytes = 0;

    *calls = 0;
    if (env->tp > 1) {
        *calls += reduces;
        bytes += reduces * 2 * (tp - 1) / tp * ACTIVATION_BYTES * llm->hidden;
    }
    if (is_spread) {
        double copies = fmin(llm->experts_active, ep) * (ep - 1) / ep;
        *calls += 2;
        bytes += copies * (DISPATCH_BYTES + ACTIVATION_BYTES) * llm->hidden / tp;
    }
    return bytes;
}

static void set_weights(const struct kvt_prefill_env *env, struct kvt_prefill_cost *out)
{
    const struct kvt_llm *llm = env->llm;
    double hbm = (double)env->hardware->hbm_bytes_per_s * HBM_EFFICIENCY;
    uint32_t expert_gpus = env->ep > env->tp ? env->ep : env->tp;
    double dense_bytes = llm->experts > 0 ? llm->dense_weight_bytes : llm->weight_bytes;

    out->read_ns = dense_bytes / env->tp / hbm * 1e9;
    out->expert_ns = fmax(llm->weight_bytes - dense_bytes, 0) / expert_gpus / hbm * 1e9;
    out->untouched = llm->experts > 0 ? 1 - (double)llm->experts_active / (double)llm->experts : 0;
}

kvt_status kvt_prefill_cost_of(const struct kvt_prefill_env *env, struct kvt_prefill_cost *out,
                               struct kvt_error *err)
{
    const struct kvt_llm *llm = env->llm;
    const struct kvt_hardware *hardware = env->hardware;
    double dense_flops =
        (env->dense_is_fp8 ? hardware->fp8_flops : hardware->bf16_flops) * env->flops_efficiency;
    double attend_flops = hardware->bf16_flops * env->flops_efficiency;
    double hbm = (double)hardware->hbm_bytes_per_s * HBM_EFFICIENCY, calls = 0, scored = 0;
    double bytes = exchanged_bytes(env, &calls);

    kvt_status status = check_rate(hbm, "hbm_bytes_per_s", hardware, err);
    if (status == KVT_OK)
        status =
            check_rate(dense_flops, env->dense_is_fp8 ? "fp8_flops" : "bf16_flops", hardware, err);
    if (status == KVT_OK)
        status = check_rate(attend_flops, "bf16_flops", hardware, err);
    if (status == KVT_OK && bytes > 0)
        status = check_rate((double)hardware->interconnect_bytes_per_s, "interconnect_bytes_per_s",
                            hardware, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < llm->selector_count; i++)
        scored += 1.0 / llm->stores[llm->selectors[i].store].compress_ratio;
    *out = (struct kvt_prefill_cost){
        .llm = llm,
        .math_ns = 2 * llm->active_parameters / env->tp / dense_flops * 1e9,
        .exchange_ns =
            bytes > 0 ? llm->layers * bytes * 1e9 /
                            ((double)hardware->interconnect_bytes_per_s * INTERCONNECT_EFFICIENCY)
                      : 0,
        .launch_ns = llm->layers * (LAYER_US + calls * COLLECTIVE_US) * 1e3,
        .context_ns = llm->index_heads > 0
                          ? scored * 1e9 *
                                (2.0 * llm->index_heads * llm->index_dim / dense_flops +
                                 SCORE_BYTES * TOPK_PASSES / hbm)
                          : 0,
        .row_ns = 2.0 * llm->heads / env->tp * (2.0 * llm->latent_dim + llm->rope_dim) *
                  kvt_llm_block_rows(llm) / attend_flops * 1e9};
    set_weights(env, out);
    return KVT_OK;
}

/* Rows that tokens [0, tokens) attend to in all layers of a store. */
static double store_rows(const struct kvt_llm *llm, const struct kvt_store *store, double tokens)
{
    double ratio = store->compress_ratio, full = llm->top_k * ratio;
    double rows = tokens <= full ? tokens * tokens / (2 * ratio) : llm->top_k * (tokens - full / 2);

    return store->layers * rows;
}

double kvt_prefill_beside_ns(const struct kvt_prefill_cost *cost, double from_tokens,
                             double to_tokens)
{
    double tokens = to_tokens - from_tokens, rows = 0;

    for (uint32_t s = 0; s < cost->llm->store_count; s++)
        rows += store_rows(cost->llm, &cost->llm->stores[s], to_tokens) -
                store_rows(cost->llm, &cost->llm->stores[s], from_tokens);
    return tokens * (cost->math_ns + cost->exchange_ns) +
           cost->context_ns * tokens * (from_tokens + to_tokens) / 2 + cost->row_ns * rows;
}

double kvt_prefill_alone_ns(const struct kvt_prefill_cost *cost, double from_tokens,
                            double to_tokens)
{
    double tokens = to_tokens - from_tokens;
    double read_ns = cost->read_ns + cost->expert_ns * (1 - pow(cost->untouched, tokens));

    if (tokens <= 0)
        return 0;
    return cost->launch_ns + kvt_prefill_beside_ns(cost, from_tokens, to_tokens) +
           fmax(read_ns - tokens * cost->math_ns, 0);
}
