/* step_cost.c -- the timing model at mean loads. */
#include <math.h>
#include <string.h>

#include "march.h"

enum {
    STEP_CORNERS = 4
};

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
                                      uint32_t requests, double last_step_s)
{
    const struct kvt_llm *llm = env->surfaces->run->scenario->llm;
    double n = requests;

    return (struct kvt_rank_load){.requests = requests,
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
                                  .import_bytes =
                                      (uint64_t)(load->import_bytes_per_s * last_step_s),
                                  .fill_bytes = (uint64_t)(load->fill_bytes_per_s * last_step_s)};
}

/* A step of `together` requests over all ranks in lockstep, of which the mean rank that has any has
 * `requests` and the slowest `slowest`. */
struct whole_load {
    uint32_t together, requests, slowest;
};

static double whole_step(const struct march_env *env, const struct round_load *load,
                         const struct whole_load *whole, double last_step_s,
                         double parts_s[KVT_PARTS], struct step_range *range)
{
    const struct kvt_analytic_env *run = env->surfaces->run;
    double ranks = run->lockstep ? run->rank_count : 1, sum = 0;
    struct kvt_rank_load mean = rank_load(env, load, whole->requests, last_step_s);
    struct kvt_rank_load most = rank_load(env, load, whole->slowest, last_step_s);
    struct kvt_group_load group = {
        .queries = (uint32_t)llround(whole->together * load->means.queries),
        .ranks = (uint32_t)ranks,
        .queries_max = most.queries,
        .requests = whole->together,
        .draft_tokens = (uint32_t)llround(whole->together * load->means.draft_tokens)};
    double parts[KVT_PARTS] = {0};

    mean.group_queries = most.group_queries = group.queries;
    run->timing->group_step(run->timing_state, &group, parts);
    run->timing->rank_step(run->timing_state, &most, parts);
    for (int p = 0; p < KVT_PARTS; p++) {
        parts_s[p] = parts[p] * 1e-9;
        sum += parts_s[p];
    }
    range->in_range = !run->timing->in_range || run->timing->in_range(run->timing_state, &mean);
    range->says_outside = !range->in_range && run->timing->find_outside &&
                          run->timing->find_outside(run->timing_state, &mean, &range->outside);
    return sum;
}

/* What lies about a load in whole numbers of requests, and how much of each. Fewer than one a rank
 * are one each on some of the ranks. */
static void corners_of(const struct march_env *env, double requests, double slowest,
                       struct whole_load corners[STEP_CORNERS], double weights[STEP_CORNERS])
{
    const struct kvt_analytic_env *run = env->surfaces->run;
    uint32_t ranks = run->lockstep ? run->rank_count : 1;
    bool is_sparse = requests < 1;
    double at = fmax(is_sparse ? requests * ranks : requests, 1);
    double more = fmax(slowest - fmax(requests, 1), 0);
    uint32_t low = (uint32_t)at, extra = (uint32_t)more;

    for (uint32_t c = 0; c < STEP_CORNERS; c++) {
        uint32_t n = low + (c & 1), of_rank = is_sparse ? 1 : n;
        corners[c] = (struct whole_load){.together = is_sparse ? n : n * ranks,
                                         .requests = of_rank,
                                         .slowest = of_rank + extra + (c >> 1)};
        weights[c] =
            (c & 1 ? at - low : 1 - (at - low)) * (c & 2 ? more - extra : 1 - (more - extra));
    }
}

double step_cost(const struct march_env *env, const struct round_load *load, double requests,
                 double slowest, double parts_s[KVT_PARTS], struct step_range *range)
{
    struct whole_load corners[STEP_CORNERS];
    double weights[STEP_CORNERS], below[KVT_PARTS], sum = 0;

    corners_of(env, requests, slowest, corners, weights);
    /* What moves during a step depends on how long it is. */
    double step_s = whole_step(env, load, &corners[0], 0, below, range);
    memset(parts_s, 0, KVT_PARTS * sizeof *parts_s);
    for (uint32_t c = 0; c < STEP_CORNERS; c++) {
        if (weights[c] <= 0)
            continue;
        whole_step(env, load, &corners[c], step_s, below, range);
        for (int p = 0; p < KVT_PARTS; p++)
            parts_s[p] += weights[c] * below[p];
    }
    for (int p = 0; p < KVT_PARTS; p++)
        sum += parts_s[p];
    return sum;
}
