/* profile.c -- what a profile says of a load: features, and times linear in them. */
#include "kvt/profile.h"

const char *kvt_profile_feature_name(enum kvt_profile_feature feature)
{
    static const char *const names[KVT_FEATURES] = {
        [KVT_FEATURE_STEP] = "step",
        [KVT_FEATURE_REQUESTS] = "requests",
        [KVT_FEATURE_QUERIES] = "queries",
        [KVT_FEATURE_EXPERTS_SHARE] = "experts_share",
        [KVT_FEATURE_CALLS] = "calls",
        [KVT_FEATURE_ROUND_QUERIES] = "round_queries",
        [KVT_FEATURE_CONTEXT_ROWS] = "context_rows",
        [KVT_FEATURE_SCORED_ROWS] = "scored_rows",
        [KVT_FEATURE_SELECTED_ROWS] = "selected_rows",
        [KVT_FEATURE_ATTENDED_LAYER_ROWS] = "attended_layer_rows",
        [KVT_FEATURE_LOOKED_UP_ROWS] = "looked_up_rows",
        [KVT_FEATURE_MISSED_ROWS] = "missed_rows",
        [KVT_FEATURE_MISSED_LAYER_ROWS] = "missed_layer_rows",
        [KVT_FEATURE_WIRE_BYTES] = "wire_bytes",
        [KVT_FEATURE_INBOUND_BYTES] = "inbound_bytes",
        [KVT_FEATURE_OUTBOUND_BYTES] = "outbound_bytes",
        [KVT_FEATURE_NODE_BYTES] = "node_bytes",
        [KVT_FEATURE_GATHERING_GPUS] = "gathering_gpus",
        [KVT_FEATURE_GRANULES] = "granules",
        [KVT_FEATURE_GRANULE_BLOCKS] = "granule_blocks",
        [KVT_FEATURE_FAR_GRANULES] = "far_granules",
        [KVT_FEATURE_FETCHES] = "fetches",
        [KVT_FEATURE_EXTRA_WAVES] = "extra_waves",
        [KVT_FEATURE_EXTRA_WAVE_LAYERS] = "extra_wave_layers",
        [KVT_FEATURE_DRAFT_TOKENS] = "draft_tokens",
        [KVT_FEATURE_PREFILL_TOKENS] = "prefill_tokens",
        [KVT_FEATURE_PREFILL_CONTEXT_TOKENS] = "prefill_context_tokens",
    };

    return (unsigned)feature < KVT_FEATURES ? names[feature] : "unknown";
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

struct kvt_profile_setting kvt_profile_setting_of(const struct kvt_timing_env *env)
{
    const struct kvt_llm *llm = env->llm;
    uint32_t expert_gpus = env->ep > env->tp ? env->ep : env->tp;

    return (struct kvt_profile_setting){
        .selectors = llm->selector_count,
        .untouched = llm->experts > 0 ? 1.0 - (double)llm->experts_active / llm->experts : 0,
        .expert_replicas = expert_gpus / env->tp,
        .gathering_gpus = env->ranks_per_link_node > 0 ? env->ranks_per_link_node : 1,
    };
}

/* Queries of the group meet at a GPU's experts as far as its replicas reach. */
static double experts_share(const struct kvt_profile_setting *setting, uint32_t queries,
                            uint32_t queries_max)
{
    uint64_t reach = setting->expert_replicas * queries_max;

    if (setting->untouched <= 0)
        return 0;
    return kvt_experts_touched_share(setting->untouched,
                                     reach < queries ? (uint32_t)reach : queries);
}

void kvt_profile_group_features(const struct kvt_profile_setting *setting,
                                const struct kvt_group_load *load, double features[KVT_FEATURES])
{
    for (int f = 0; f < KVT_FEATURES; f++)
        features[f] = 0;
    if (load->queries == 0)
        return;
    features[KVT_FEATURE_STEP] = 1;
    features[KVT_FEATURE_REQUESTS] = (double)load->requests * load->queries_max / load->queries;
    features[KVT_FEATURE_QUERIES] = load->queries_max;
    features[KVT_FEATURE_EXPERTS_SHARE] = experts_share(setting, load->queries, load->queries_max);
}

double kvt_profile_far_share(double memory_bytes)
{
    return larger(1 - KVT_PROFILE_NEAR_BYTES / memory_bytes, 0);
}

/* Contexts lie in one piece on the host, each with as many rows as another, and what is fetched of
 * one touches its blocks once each: all of them, where it has as many granules. */
static void add_translations(const struct kvt_profile_setting *setting,
                             const struct kvt_rank_load *load, double features[KVT_FEATURES])
{
    features[KVT_FEATURE_GRANULES] = load->granules;
    if (load->missed_rows <= 0)
        return;
    double row_bytes = load->wire_bytes / load->missed_rows;
    double context_bytes = setting->selectors * (double)load->context_rows * row_bytes;

    features[KVT_FEATURE_GRANULE_BLOCKS] =
        smaller(context_bytes / KVT_PROFILE_BLOCK_BYTES, load->granules);
    features[KVT_FEATURE_FAR_GRANULES] = load->granules * kvt_profile_far_share(context_bytes);
}

static void add_traffic(const struct kvt_profile_setting *setting, const struct kvt_rank_load *load,
                        double features[KVT_FEATURES])
{
    features[KVT_FEATURE_WIRE_BYTES] = load->wire_bytes;
    features[KVT_FEATURE_INBOUND_BYTES] = (double)load->import_bytes + (double)load->fill_bytes;
    features[KVT_FEATURE_OUTBOUND_BYTES] = (double)load->backup_bytes;
    features[KVT_FEATURE_GATHERING_GPUS] = setting->gathering_gpus;
    features[KVT_FEATURE_NODE_BYTES] =
        (features[KVT_FEATURE_WIRE_BYTES] + features[KVT_FEATURE_INBOUND_BYTES] +
         features[KVT_FEATURE_OUTBOUND_BYTES]) *
        setting->gathering_gpus;
    add_translations(setting, load, features);
    features[KVT_FEATURE_FETCHES] =
        smaller(setting->selectors, load->calls_with_misses) + load->extra_waves;
}

void kvt_profile_rank_features(const struct kvt_profile_setting *setting,
                               const struct kvt_rank_load *load, double features[KVT_FEATURES])
{
    uint32_t group_queries =
        load->group_queries > load->queries ? load->group_queries : load->queries;
    double per_request = load->requests > 0 ? (double)load->queries / load->requests : 0;

    for (int f = 0; f < KVT_FEATURES; f++)
        features[f] = 0;
    features[KVT_FEATURE_STEP] = 1;
    features[KVT_FEATURE_REQUESTS] = load->requests;
    features[KVT_FEATURE_QUERIES] = load->queries;
    features[KVT_FEATURE_EXPERTS_SHARE] = experts_share(setting, group_queries, load->queries);
    features[KVT_FEATURE_CALLS] = load->calls;
    features[KVT_FEATURE_ROUND_QUERIES] = per_request;
    features[KVT_FEATURE_CONTEXT_ROWS] = (double)load->context_rows;
    features[KVT_FEATURE_SCORED_ROWS] = (double)load->context_rows * per_request;
    features[KVT_FEATURE_SELECTED_ROWS] = load->selected_rows;
    features[KVT_FEATURE_ATTENDED_LAYER_ROWS] = load->attended_layer_rows;
    features[KVT_FEATURE_LOOKED_UP_ROWS] = load->looked_up_rows;
    features[KVT_FEATURE_MISSED_ROWS] = load->missed_rows;
    features[KVT_FEATURE_MISSED_LAYER_ROWS] = load->missed_layer_rows;
    add_traffic(setting, load, features);
    features[KVT_FEATURE_EXTRA_WAVES] = load->extra_waves;
    features[KVT_FEATURE_EXTRA_WAVE_LAYERS] = load->extra_wave_layers;
    features[KVT_FEATURE_DRAFT_TOKENS] = load->draft_tokens;
    features[KVT_FEATURE_PREFILL_TOKENS] = load->prefill_tokens;
    features[KVT_FEATURE_PREFILL_CONTEXT_TOKENS] = load->prefill_context_tokens;
}

static double linear_ns(const double ns_per[KVT_FEATURES], const double features[KVT_FEATURES])
{
    double ns = 0;

    for (int f = 0; f < KVT_FEATURES; f++)
        ns += ns_per[f] * features[f];
    return ns;
}

double kvt_profile_ns(const struct kvt_profile_family *family, const double features[KVT_FEATURES])
{
    double most = 0;

    for (uint32_t l = 0; l < family->limit_count; l++)
        most = larger(most, linear_ns(family->ns_per[l], features));
    return most;
}

double kvt_profile_part_ns(const struct kvt_profile *profile, enum kvt_step_part part,
                           const double features[KVT_FEATURES])
{
    if (part == KVT_PART_DRAFT && features[KVT_FEATURE_DRAFT_TOKENS] <= 0)
        return 0;
    return kvt_profile_ns(&profile->families[part], features);
}

double kvt_profile_others_ns(const struct kvt_profile *profile, const double features[KVT_FEATURES])
{
    double ns = 0;

    for (int p = 0; p < KVT_PARTS && features[KVT_FEATURE_STEP] > 0; p++) {
        if (p != KVT_PART_HOST && p != KVT_PART_SAMPLE && p != KVT_PART_FETCH)
            ns += kvt_profile_part_ns(profile, (enum kvt_step_part)p, features);
    }
    return ns;
}

double kvt_profile_exposed_ns(const struct kvt_profile *profile, const double met[KVT_FEATURES],
                              bool leader_first)
{
    const struct kvt_profile_family *fetch = &profile->families[KVT_PART_FETCH];
    double ns = kvt_profile_ns(fetch, met);

    for (int p = 0; p < KVT_PARTS && leader_first; p++) {
        if (fetch->hidden_by[p] > 0)
            ns -= fetch->hidden_by[p] * kvt_profile_ns(&profile->families[p], met);
    }
    return larger(ns, leader_first ? linear_ns(fetch->exposed_ns_per, met) : 0);
}

void kvt_profile_meet(const double features[KVT_FEATURES], double fetch_share,
                      double met[KVT_FEATURES])
{
    double wire = features[KVT_FEATURE_WIRE_BYTES];
    double all_in = features[KVT_FEATURE_INBOUND_BYTES];
    double all_out = features[KVT_FEATURE_OUTBOUND_BYTES];
    double inbound = smaller(fetch_share * all_in, wire);
    double outbound = smaller(fetch_share * all_out, wire);

    if (wire > 0)
        outbound *= wire / (wire + inbound);
    for (int f = 0; f < KVT_FEATURES; f++)
        met[f] = features[f];
    met[KVT_FEATURE_INBOUND_BYTES] = inbound;
    met[KVT_FEATURE_OUTBOUND_BYTES] = outbound;
    met[KVT_FEATURE_NODE_BYTES] -=
        (all_in - inbound + all_out - outbound) * features[KVT_FEATURE_GATHERING_GPUS];
}

double kvt_profile_quiet_fetch_ns(const struct kvt_profile_family *fetch,
                                  const double features[KVT_FEATURES])
{
    double met[KVT_FEATURES];

    kvt_profile_meet(features, 0, met);
    return kvt_profile_ns(fetch, met);
}

void kvt_profile_meet_predicted(const struct kvt_profile *profile, bool leader_first,
                                const double features[KVT_FEATURES], double met[KVT_FEATURES])
{
    double quiet[KVT_FEATURES];

    kvt_profile_meet(features, 0, quiet);
    double fetch_ns = kvt_profile_ns(&profile->families[KVT_PART_FETCH], quiet);
    double step_ns = kvt_profile_others_ns(profile, quiet) +
                     kvt_profile_exposed_ns(profile, quiet, leader_first);
    kvt_profile_meet(features, fetch_ns < step_ns ? fetch_ns / step_ns : 1, met);
}

enum kvt_profile_feature kvt_profile_find_outside(const struct kvt_profile_family *family,
                                                  const double features[KVT_FEATURES])
{
    for (int f = 0; family->is_there && f < KVT_FEATURES; f++) {
        if (family->has_range[f] &&
            (features[f] < family->least[f] || features[f] > family->most[f]))
            return (enum kvt_profile_feature)f;
    }
    return KVT_FEATURES;
}

bool kvt_profile_in_range(const struct kvt_profile_family *family,
                          const double features[KVT_FEATURES])
{
    return kvt_profile_find_outside(family, features) == KVT_FEATURES;
}
