/* bind_prefill.c -- how prompts become KV: a number, a measured profile, or a data sheet. */
#include <stdio.h>

#include "bind.h"
#include "kvt/profile.h"

/* ---- By a profile ------------------------------------------------------------------- */

/* What a step takes for being one: of what ranks share, with nobody decoding. Where the rate is the
 * scenario's own number, whoever gave it has seen whole steps. */
static double lone_step_ns(const struct kvt_choice *timing, const struct kvt_profile *profile)
{
    const double features[KVT_FEATURES] = {[KVT_FEATURE_STEP] = 1};
    double ns = kvt_param_of(timing, "host_us_per_step")->number * 1e3;

    for (int p = 0; p < KVT_PARTS; p++) {
        if (kvt_profile_is_of_group((enum kvt_step_part)p))
            ns += kvt_profile_ns(&profile->families[p], features);
    }
    return ns;
}

/* The rate, the context at which it has halved, and a step's fixed time, as the profile has them.
 */
static kvt_status bind_profiled_prefill(struct kvt_load *load, const struct kvt_choice *timing,
                                        struct kvt_prefill *out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const char *where = kvt_load_place(load, "cluster.prefill.tokens_per_s", place);
    const struct kvt_param_value *file = kvt_param_of(timing, "profile");
    struct kvt_profile profile;

    if (strcmp(timing->info->name, "profile") != 0)
        return kvt_fail(
            err, KVT_ERR_INVALID, where,
            "\"profile\" takes timing \"profile\", and the timing is \"%s\"; a number of "
            "tokens a second is expected",
            timing->info->name);
    kvt_status status = kvt_profile_load(file->text, &profile, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_profile_family *family = &profile.families[KVT_PART_PREFILL];
    double token_ns = family->ns_per[0][KVT_FEATURE_PREFILL_TOKENS];
    double context_ns = family->ns_per[0][KVT_FEATURE_PREFILL_CONTEXT_TOKENS];
    if (!family->is_there)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s has no family prefill; a number of tokens a second is expected",
                        file->text);
    out->tokens_per_s = 1e9 / token_ns;
    out->context_half_tokens = context_ns > 0 ? token_ns / context_ns : 0;
    out->lone_step_ns = lone_step_ns(timing, &profile);
    return KVT_OK;
}

/* ---- By data sheet -------------------------------------------------------------------- */

/* A server must hold what it computes with. */
static kvt_status check_weights(struct kvt_load *load, const struct kvt_scenario *scenario,
                                const struct kvt_prefill *prefill, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    double weights_gib =
        kvt_llm_weights_gib_per_gpu(scenario->llm, prefill->tp, prefill->servers, prefill->ep);
    double left_gib = kvt_hardware_kv_gib(prefill->hardware, weights_gib);

    if (left_gib > 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID,
                    kvt_load_place(load,
                                   "cluster.prefill.gpus|cluster.prefill.tp|cluster.prefill.ep|"
                                   "cluster.prefill.hardware",
                                   place),
                    "the weights of %s do not fit the prefill pool: they take %.1f GiB of each of "
                    "%u %s at tp %u and ep %u, %.1f GiB more than there are beside its workspace",
                    scenario->llm->name, weights_gib, prefill->gpus, prefill->hardware->name,
                    prefill->tp, prefill->ep, -left_gib);
}

static kvt_status cost_of(struct kvt_load *load, const struct kvt_scenario *scenario,
                          const struct kvt_hardware *hardware, uint32_t tp, uint32_t ep,
                          struct kvt_prefill_cost *out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const cJSON *object = kvt_tree_at(load->tree, "cluster.prefill");
    const struct kvt_prefill_env env = {.llm = scenario->llm,
                                        .hardware = hardware,
                                        .tp = tp,
                                        .ep = ep,
                                        .flops_efficiency = kvt_real_at(object, "flops_efficiency"),
                                        .dense_is_fp8 =
                                            strcmp(kvt_text_at(object, "dense_math"), "fp8") == 0};
    struct kvt_error why;

    kvt_status status = kvt_prefill_cost_of(&env, out, &why);
    if (status == KVT_OK)
        return KVT_OK;
    return kvt_fail(
        err, status,
        kvt_load_place(load, "cluster.prefill.hardware|cluster.prefill.tokens_per_s", place),
        "%s: %s", why.where, why.message);
}

static kvt_status bind_roofline(struct kvt_load *load, struct kvt_scenario *out,
                                struct kvt_error *err)
{
    struct kvt_prefill *prefill = &out->prefill;
    kvt_status status = KVT_OK;

    prefill->is_roofline = true;
    if (prefill->mode == KVT_PREFILL_SEPARATE) {
        if (kvt_tree_at(load->tree, "cluster.prefill.hardware") != NULL)
            status = kvt_bind_hardware(load, "cluster.prefill.hardware", &prefill->hardware, err);
        if (status == KVT_OK)
            status = check_weights(load, out, prefill, err);
        return status == KVT_OK ? cost_of(load, out, prefill->hardware, prefill->tp, prefill->ep,
                                          &prefill->cost, err)
                                : status;
    }
    for (uint32_t p = 0; p < out->pool_count && status == KVT_OK; p++) {
        struct kvt_decode_pool *pool = &out->pools[p];
        status = cost_of(load, out, pool->hardware, pool->tp, pool->ep, &pool->prefill_cost, err);
        prefill->lone_step_ns = pool->prefill_cost.launch_ns;
    }
    return status;
}

/* ---- Any of them -------------------------------------------------------------------------- */

static kvt_status bind_servers(struct kvt_load *load, const cJSON *object,
                               struct kvt_scenario *scenario, struct kvt_error *err)
{
    struct kvt_prefill *prefill = &scenario->prefill;
    char place[KVT_PLACE_BYTES];

    prefill->gpus = kvt_count_at(object, "gpus");
    prefill->tp = kvt_count_at(object, "tp");
    prefill->ep = kvt_count_at(object, "ep");
    prefill->servers = prefill->gpus / prefill->tp;
    prefill->hardware = scenario->hardware;
    if (prefill->gpus % prefill->tp != 0)
        return kvt_fail(err, KVT_ERR_INVALID,
                        kvt_load_place(load, "cluster.prefill.gpus|cluster.prefill.tp", place),
                        "%u GPUs are no servers of %u; a multiple of tp is expected", prefill->gpus,
                        prefill->tp);
    if (prefill->gpus % prefill->ep != 0)
        return kvt_fail(err, KVT_ERR_INVALID,
                        kvt_load_place(load, "cluster.prefill.gpus|cluster.prefill.ep", place),
                        "ep %u does not divide the pool's %u GPUs; 1 or a divisor is expected",
                        prefill->ep, prefill->gpus);
    return KVT_OK;
}

kvt_status kvt_bind_prefill(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *object = kvt_tree_at(load->tree, "cluster.prefill");
    const char *mode = kvt_text_at(object, "mode");
    struct kvt_prefill *prefill = &out->prefill;
    kvt_status status = KVT_OK;

    if (strcmp(mode, "none") == 0)
        return KVT_OK;
    bool is_separate = strcmp(mode, "separate") == 0;
    prefill->mode = is_separate ? KVT_PREFILL_SEPARATE : KVT_PREFILL_COLOCATED;
    if (is_separate)
        status = bind_servers(load, object, out, err);
    else
        prefill->chunk_tokens = kvt_count_at(object, "chunk_tokens");
    if (status != KVT_OK)
        return status;
    const cJSON *rate = kvt_tree_find(object, "tokens_per_s");
    if (cJSON_IsString(rate))
        return strcmp(rate->valuestring, "roofline") == 0
                   ? bind_roofline(load, out, err)
                   : bind_profiled_prefill(load, &out->timing, prefill, err);
    prefill->tokens_per_s = rate->valuedouble;
    prefill->context_half_tokens = kvt_real_at(object, "context_half_tokens");
    return KVT_OK;
}

double kvt_prefill_seconds(const struct kvt_prefill *prefill, double from_tokens, double to_tokens)
{
    double half = prefill->context_half_tokens;

    if (prefill->is_roofline)
        return kvt_prefill_alone_ns(&prefill->cost, from_tokens, to_tokens) * 1e-9;
    return (to_tokens - from_tokens) * (half > 0 ? 1 + to_tokens / half : 1) /
           prefill->tokens_per_s;
}
