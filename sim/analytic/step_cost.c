/* step_cost.c -- the timing model at mean loads. */
#include <math.h>
#include <string.h>

#include "march.h"

double step_cost_between(const struct march_env *env, double active, uint32_t *low)
{
    /* Rounded so coarsely that no libm's last bits show. */
    double above = active > 1 ? rint(log2(active) * 0x1p16) * 0x1p-16 : 0;

    *low = 0;
    if (env->load_count < 2)
        return 0;
    *low = (uint32_t)above;
    if (*low > env->load_count - 2)
        *low = env->load_count - 2;
    return fmin(above - *low, 1);
}

void step_cost_fold(const struct march_env *env, const struct surface_cell rows[KVT_STRATA_MAX],
                    struct round_load *load)
{
    load->calls = load->selected = load->attended = load->looked_up = 0;
    load->missed = load->missed_layers = load->with_misses = load->granules = 0;
    double variance = 0;
    for (uint32_t s = 0; s < env->surfaces->stratum_count; s++) {
        const struct kvt_stratum *stratum = &env->surfaces->strata[s];
        const double *counts = rows[s].counts;
        double stores = stratum->stores, fetched = counts[SURFACE_FILLED] + counts[SURFACE_STAGED];
        load->calls += stores * counts[SURFACE_CALLS];
        load->selected += stores * counts[SURFACE_SELECTED];
        load->attended += stratum->layers * counts[SURFACE_SELECTED];
        load->looked_up += stores * (counts[SURFACE_UNION_HOT] + fetched);
        load->missed += stores * fetched;
        load->missed_layers += stratum->layers * fetched;
        load->with_misses += stores * counts[SURFACE_WITH_MISSES];
        load->granules += stores * counts[SURFACE_GRANULES];
        /* Calls of different stores are independent. */
        double calls = counts[SURFACE_CALLS], layers = (double)stratum->layers / stores;
        if (calls > 0)
            variance += stores * layers * layers *
                        (counts[SURFACE_FETCHED_SQUARES] - fetched * fetched / calls);
    }
    load->fetched_spread =
        load->missed_layers > 0 ? sqrt(fmax(variance, 0)) / load->missed_layers : 0;
}

/* Of a whole number of requests. */
static struct kvt_rank_load rank_load(const struct march_env *env, const struct round_load *load,
                                      uint32_t requests, double ranks, double last_step_s)
{
    const struct kvt_llm *llm = env->surfaces->run->scenario->llm;
    double n = requests;

    return (struct kvt_rank_load){
        .requests = requests,
        .queries = (uint32_t)llround(n * load->means.queries),
        .draft_tokens = (uint32_t)llround(n * load->means.draft_tokens),
        .calls = n * load->calls,
        .context_rows = (uint64_t)(n * load->context_tokens),
        .selected_rows = n * load->selected,
        .attended_layer_rows = n * load->attended,
        .looked_up_rows = n * load->looked_up,
        .missed_rows = n * load->missed,
        .missed_layer_rows = n * load->missed_layers,
        .leader_layer_rows = n * load->missed,
        .wire_bytes = n * load->missed_layers * llm->payload.wire_bytes,
        .granules = n * load->granules,
        .calls_with_misses = n * load->with_misses,
        .backup_bytes = (uint64_t)(n * load->backup_bytes),
        .import_bytes = (uint64_t)(load->import_bytes_per_s * last_step_s),
        .fill_bytes = (uint64_t)(load->fill_bytes_per_s * last_step_s),
        .group_queries = (uint32_t)llround(n * load->means.queries * ranks)};
}

/* A step in which the mean rank has `requests` and the slowest `slowest`. */
static double whole_step(const struct march_env *env, const struct round_load *load,
                         uint32_t requests, uint32_t slowest, double last_step_s,
                         double parts_s[KVT_PARTS], struct step_range *range)
{
    const struct kvt_analytic_env *run = env->surfaces->run;
    double ranks = run->lockstep ? run->rank_count : 1, sum = 0;
    struct kvt_rank_load mean = rank_load(env, load, requests, ranks, last_step_s);
    struct kvt_rank_load most = rank_load(env, load, slowest, ranks, last_step_s);
    struct kvt_group_load group = {.queries = mean.group_queries,
                                   .ranks = (uint32_t)ranks,
                                   .queries_max = most.queries,
                                   .requests = (uint32_t)llround(requests * ranks),
                                   .draft_tokens = (uint32_t)llround(mean.draft_tokens * ranks)};
    double parts[KVT_PARTS] = {0};

    most.group_queries = mean.group_queries;
    run->timing->group_step(run->timing_state, &group, parts);
    run->timing->rank_step(run->timing_state, &most, parts);
    for (int p = 0; p < KVT_PARTS; p++) {
        parts_s[p] = parts[p] * 1e-9;
        sum += parts_s[p];
    }
    range->in_range = !run->timing->in_range || run->timing->in_range(run->timing_state, &mean);
    range->says_outside =
        !range->in_range && run->timing->find_outside &&
        run->timing->find_outside(run->timing_state, &mean, &range->outside);
    return sum;
}

double step_cost(const struct march_env *env, const struct round_load *load, double requests,
                 double slowest, double parts_s[KVT_PARTS], struct step_range *range)
{
    double at = requests > 1 ? requests : 1, more = slowest > at ? slowest - at : 0;
    uint32_t low = (uint32_t)at, extra = (uint32_t)more;
    double share = at - low, sum = 0, below[KVT_PARTS], step_s;

    /* What moves during a step depends on how long it is. */
    step_s = whole_step(env, load, low, low + extra, 0, below, range);
    memset(parts_s, 0, KVT_PARTS * sizeof *parts_s);
    for (uint32_t corner = 0; corner < 4; corner++) {
        double of_requests = corner & 1 ? share : 1 - share;
        double of_extra = corner & 2 ? more - extra : 1 - (more - extra);
        double weight = of_requests * of_extra;
        uint32_t n = low + (corner & 1);
        if (weight <= 0)
            continue;
        whole_step(env, load, n, n + extra + (corner >> 1), step_s, below, range);
        for (int p = 0; p < KVT_PARTS; p++)
            parts_s[p] += weight * below[p];
    }
    for (int p = 0; p < KVT_PARTS; p++)
        sum += parts_s[p];
    return sum;
}
