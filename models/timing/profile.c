/* profile.c -- a decode step as a calibration measured its families.
 *
 *     group:  host + dense + sampling
 *     rank:   index + resolve + exposed fetch + attend + draft + other
 *             exposed fetch = all of it, or max(what is exposed in any case, fetch - what dense
 *             and attention hide of it)
 *
 * Each family is linear in a load, or the largest of several limits that are (kvt/profile.h): of
 * fetch, say, the link with what shares it, the node's DRAM with all GPUs that gather from it, and
 * granules of host memory. Families that the file lacks are refused where a step has them, or, when
 * asked for, taken from data sheets; steps that need those are out of range.
 *
 * An engine's scheduler, which no GPU measures, is a term of host that the scenario states. */
#include "kvt/profile.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kvt/policy.h"
#include "roofline.h"

enum {
    PROFILE_FILE,
    PROFILE_LACKING,
    PROFILE_FETCH_ORDER,
    PROFILE_HOST_US,
    PROFILE_HOST_REQUEST_US,
    PROFILE_PARAMS
};

static const double US_NS = 1e3;

enum lacking {
    LACKING_REFUSED = 0,
    LACKING_ROOFLINE
};

static const struct kvt_param_spec profile_params[PROFILE_PARAMS] = {
    [PROFILE_FILE] =
        {.name = "profile",
         .help =
             "The profile: a shipped one, or the path of a file that kvtide calibrate has written.",
         .type = KVT_PARAM_TEXT,
         .minimum = 1,
         .maximum = 4096},
    [PROFILE_LACKING] = {.name = "lacking",
                         .help =
                             "What of a family that the step has and the profile lacks: refused, "
                             "or roofline's, from data sheets and with its defaults.",
                         .type = KVT_PARAM_CHOICE,
                         .choices = "refused|roofline",
                         .default_text = "refused"},
    [PROFILE_FETCH_ORDER] = {.name = "fetch_order",
                             .help = "A store's first layer exposed and the others beside compute, "
                                     "as far as the profile has measured that hidden; or all "
                                     "layers in one exposed transfer.",
                             .type = KVT_PARAM_CHOICE,
                             .choices = "group|leader_first",
                             .default_text = "leader_first",
                             .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PROFILE_HOST_US] = {.name = "host_us_per_step",
                         .help =
                             "An engine's scheduler, beyond the host that the profile has; 0 where "
                             "the step before hides it, and in a profile of calibrate --from, "
                             "which has it in dense: there it would count twice.",
                         .type = KVT_PARAM_REAL,
                         .minimum = 0,
                         .maximum = 1e6},
    [PROFILE_HOST_REQUEST_US] = {.name = "host_us_per_request",
                                 .help = "The same for each request of the busiest rank.",
                                 .type = KVT_PARAM_REAL,
                                 .minimum = 0,
                                 .maximum = 1e6},
};

struct profile_state {
    struct kvt_profile profile;
    struct kvt_profile_setting setting;
    bool is_needed[KVT_PARTS];
    bool leader_first;
    bool takes_turns; /* in a staging that is too small for all: steps of another kind */
    bool lacks_any;   /* a needed one, so that roofline stands for it */
    double scheduler_ns_per_step, scheduler_ns_per_request; /* beyond the family host */
    struct roofline roofline;
};

static size_t profile_state_bytes(const struct kvt_timing_env *env)
{
    (void)env;
    return sizeof(struct profile_state);
}

static kvt_status check_setting(const struct kvt_timing_env *env, const struct kvt_profile *profile,
                                const char *path, struct kvt_error *err)
{
    if (profile->model[0] != '\0' && strcmp(profile->model, env->llm->name) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"profile\"",
                        "%s was measured for model \"%s\"; the scenario has \"%s\"", path,
                        profile->model, env->llm->name);
    if (profile->hardware[0] != '\0' && strcmp(profile->hardware, env->hardware->name) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"profile\"",
                        "%s was measured on hardware \"%s\"; the pool has \"%s\"", path,
                        profile->hardware, env->hardware->name);
    if ((profile->tp > 0 && profile->tp != env->tp) || (profile->ep > 0 && profile->ep != env->ep))
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"profile\"",
                        "%s was measured for tp %u and ep %u (0: any); the pool has tp %u and ep "
                        "%u",
                        path, profile->tp, profile->ep, env->tp, env->ep);
    return KVT_OK;
}

static void find_needed(const struct kvt_timing_env *env, bool is_needed[KVT_PARTS])
{
    is_needed[KVT_PART_HOST] = true;
    is_needed[KVT_PART_DENSE] = true;
    is_needed[KVT_PART_INDEX] = env->llm->index_heads > 0;
    is_needed[KVT_PART_RESOLVE] = !env->history_in_hbm;
    is_needed[KVT_PART_FETCH] = !env->history_in_hbm;
    is_needed[KVT_PART_ATTEND] = true;
    is_needed[KVT_PART_DRAFT] = env->draft_passes > 0;
    is_needed[KVT_PART_SAMPLE] = true;
}

/* Names of the needed families that the profile lacks; "" where it has them all. */
static const char *name_lacking(const struct profile_state *state, char out[96])
{
    size_t used = 0;

    out[0] = '\0';
    for (int p = 0; p < KVT_PARTS; p++) {
        if (state->is_needed[p] && !state->profile.families[p].is_there)
            used += (size_t)snprintf(out + used, 96 - used, "%s%s", used > 0 ? ", " : "",
                                     kvt_step_part_name((enum kvt_step_part)p));
    }
    return out;
}

static kvt_status profile_init(void *memory, const struct kvt_timing_env *env,
                               struct kvt_error *err)
{
    assert(env->params.count == PROFILE_PARAMS);
    struct profile_state *state = memory;
    const char *path = env->params.values[PROFILE_FILE].text;
    enum lacking lacking = (enum lacking)env->params.values[PROFILE_LACKING].number;
    char names[96];
    kvt_status status = kvt_profile_load(path, &state->profile, err);

    if (status == KVT_OK)
        status = check_setting(env, &state->profile, path, err);
    if (status != KVT_OK)
        return status;
    state->setting = kvt_profile_setting_of(env);
    state->takes_turns = env->takes_turns;
    state->leader_first = env->params.values[PROFILE_FETCH_ORDER].number == FETCH_LEADER_FIRST;
    state->scheduler_ns_per_step = env->params.values[PROFILE_HOST_US].number * US_NS;
    state->scheduler_ns_per_request = env->params.values[PROFILE_HOST_REQUEST_US].number * US_NS;
    find_needed(env, state->is_needed);
    state->lacks_any = name_lacking(state, names)[0] != '\0';
    if (state->lacks_any && lacking == LACKING_REFUSED)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"profile\"",
                        "%s has no family %s, which the step has; a profile that measured it is "
                        "expected, or timing.lacking \"roofline\"",
                        path, names);
    return state->lacks_any ? kvt_roofline_init_default(&state->roofline, env, err) : KVT_OK;
}

/* Families that the profile lacks, as far as roofline_parts has them. */
static void add_lacking(const struct profile_state *state, const double roofline_parts[KVT_PARTS],
                        double parts[KVT_PARTS])
{
    for (int p = 0; p < KVT_PARTS; p++) {
        if (!state->profile.families[p].is_there)
            parts[p] += roofline_parts[p];
    }
}

static void profile_group_step(const void *memory, const struct kvt_group_load *load,
                               double parts[KVT_PARTS])
{
    const struct profile_state *state = memory;
    double features[KVT_FEATURES], roofline_parts[KVT_PARTS] = {0};

    if (load->queries == 0)
        return;
    kvt_profile_group_features(&state->setting, load, features);
    for (int p = 0; p < KVT_PARTS; p++) {
        if (kvt_profile_is_of_group((enum kvt_step_part)p))
            parts[p] += kvt_profile_ns(&state->profile.families[p], features);
    }
    parts[KVT_PART_HOST] += state->scheduler_ns_per_step +
                            state->scheduler_ns_per_request * features[KVT_FEATURE_REQUESTS];
    if (!state->lacks_any)
        return;
    kvt_roofline_group_step(&state->roofline, load, roofline_parts);
    add_lacking(state, roofline_parts, parts);
}

static void profile_rank_step(const void *memory, const struct kvt_rank_load *load,
                              double parts[KVT_PARTS])
{
    const struct profile_state *state = memory;
    const struct kvt_profile *profile = &state->profile;
    double features[KVT_FEATURES], met[KVT_FEATURES], roofline_parts[KVT_PARTS] = {0};

    if (load->requests == 0)
        return;
    kvt_profile_rank_features(&state->setting, load, features);
    kvt_profile_meet_predicted(profile, state->leader_first, features, met);
    for (int p = 0; p < KVT_PARTS; p++) {
        if (kvt_profile_is_of_group((enum kvt_step_part)p) || p == KVT_PART_PREFILL)
            continue;
        parts[p] += p == KVT_PART_FETCH ? kvt_profile_exposed_ns(profile, met, state->leader_first)
                                        : kvt_profile_part_ns(profile, (enum kvt_step_part)p, met);
    }
    if (!state->lacks_any)
        return;
    kvt_roofline_rank_step(&state->roofline, load, roofline_parts);
    add_lacking(state, roofline_parts, parts);
}

static double profile_link_ns(const void *memory, const struct kvt_rank_load *load)
{
    const struct profile_state *state = memory;
    double features[KVT_FEATURES], met[KVT_FEATURES];

    if (!state->profile.families[KVT_PART_FETCH].is_there)
        return kvt_roofline_link_ns(&state->roofline, load);
    kvt_profile_rank_features(&state->setting, load, features);
    kvt_profile_meet_predicted(&state->profile, state->leader_first, features, met);
    return kvt_profile_exposed_ns(&state->profile, met, false);
}

/* Fetches are measured with misses, drafts with drafts, prompts with prompts. */
static bool has_part(enum kvt_step_part part, const struct kvt_rank_load *load)
{
    switch (part) {
    case KVT_PART_FETCH:
        return load->wire_bytes > 0;
    case KVT_PART_DRAFT:
        return load->draft_tokens > 0;
    case KVT_PART_PREFILL:
        return load->prefill_tokens > 0;
    default:
        return true;
    }
}

static bool profile_find_outside(const void *memory, const struct kvt_rank_load *load,
                                 struct kvt_outside *out)
{
    const struct profile_state *state = memory;
    double features[KVT_FEATURES], met[KVT_FEATURES];

    kvt_profile_rank_features(&state->setting, load, features);
    kvt_profile_meet_predicted(&state->profile, state->leader_first, features, met);
    for (int p = 0; p < KVT_PARTS; p++) {
        const struct kvt_profile_family *family = &state->profile.families[p];
        *out = (struct kvt_outside){.part = (enum kvt_step_part)p};
        if (!has_part(out->part, load))
            continue;
        if (!family->is_there && state->is_needed[p])
            return true;
        enum kvt_profile_feature f = kvt_profile_find_outside(family, met);
        if (f == KVT_FEATURES)
            continue;
        out->feature = kvt_profile_feature_name(f);
        out->value = met[f];
        out->least = family->least[f];
        out->most = family->most[f];
        return true;
    }
    return false;
}

static bool profile_in_range(const void *memory, const struct kvt_rank_load *load)
{
    const struct profile_state *state = memory;
    struct kvt_outside outside;

    return !state->takes_turns && !profile_find_outside(memory, load, &outside);
}

static enum kvt_basis profile_basis_of(const void *memory)
{
    const struct profile_state *state = memory;
    return state->lacks_any ? KVT_BASIS_DATASHEET : KVT_BASIS_PROFILE;
}

const struct kvt_timing_model kvt_timing_profile = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_timing_profile,
             .name = "profile",
             .summary = "families of a step as a calibration measured them; outside: flagged",
             .params = profile_params,
             .param_count = PROFILE_PARAMS},
    .basis = KVT_BASIS_PROFILE,
    .state_bytes = profile_state_bytes,
    .init = profile_init,
    .group_step = profile_group_step,
    .rank_step = profile_rank_step,
    .link_ns = profile_link_ns,
    .in_range = profile_in_range,
    .basis_of = profile_basis_of,
    .find_outside = profile_find_outside,
};
