/* backend_sim.c -- the predicted backend: what it is made of, and the requests that decode in it.
 *
 * Every followed call is resolved row by row (backend_step.c). A sampled run follows some
 * stores of each request and scales what the timing model sees by stores / followed; or
 * of some requests, which stand for the others (backend_pooled.c). */
#include "backend_sim_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/calls.h"

static void sim_close(struct kvt_backend *backend);

enum {
    LINE_WORDS = 8,
    WAY_WORDS = 512, /* 4 KiB: words so far apart compete for a place in a core's own cache */
    APART_WORDS = 5 * LINE_WORDS
};

/* From one set to the next: whole cache lines, and so many that sets that are read side by side
 * do not compete. */
static size_t set_stride(size_t words)
{
    return (words + APART_WORDS + WAY_WORDS - 1) / WAY_WORDS * WAY_WORDS - APART_WORDS;
}

static kvt_status open_worker(const struct backend_sim *sim, struct worker *worker,
                              struct kvt_error *err)
{
    const struct kvt_backend_env *env = &sim->env;
    uint32_t rows = kvt_env_rows_max(env), queries = env->speculation.queries_max;
    size_t stride = set_stride(kvt_row_words(rows));
    size_t bytes = (queries + RATIOS_MAX) * stride * sizeof(uint64_t);
    uint64_t *next = aligned_alloc(LINE_WORDS * sizeof *next, bytes);

    worker->block = next;
    if (!next)
        return kvt_fail_nomem(err, "the selections of a round");
    memset(next, 0, bytes);
    for (uint32_t q = 0; q < queries; q++, next += stride)
        worker->sets[q] = next;
    for (int r = 0; r < RATIOS_MAX; r++, next += stride)
        worker->page_rows[r] = next;
    if (env->scores_pages)
        worker->page_scores = calloc((size_t)rows + 1, sizeof *worker->page_scores);
    if (env->looks_ahead_by)
        worker->next_use = calloc(kvt_env_slots_max(env), sizeof *worker->next_use);
    if (kvt_reads_planes(&env->read_depth)) {
        worker->missed_rows = calloc(kvt_row_words(rows) + 1, sizeof *worker->missed_rows);
        if (!worker->missed_rows)
            return kvt_fail_nomem(err, "the rows that a call misses");
    }
    if ((env->scores_pages && !worker->page_scores) || (env->looks_ahead_by && !worker->next_use))
        return kvt_fail_nomem(err, "what policies ask of a round");
    return kvt_resolver_new(rows, kvt_env_slots_max(env), queries * env->llm->top_k,
                            &worker->resolver, err);
}

static kvt_status open_crew(struct backend_sim *sim, struct kvt_error *err)
{
    kvt_status status = kvt_crew_new(sim->env.threads, &sim->crew, err);

    if (status != KVT_OK)
        return status;
    unsigned size = kvt_crew_size(sim->crew);
    sim->workers = calloc(size, sizeof *sim->workers);
    if (!sim->workers)
        return kvt_fail_nomem(err, "the scratch of a step");
    for (unsigned w = 0; w < size && status == KVT_OK; w++)
        status = open_worker(sim, &sim->workers[w], err);
    if (status == KVT_OK && sim->env.is_inspected) {
        sim->inspected_ranks = calloc(kvt_env_slots_max(&sim->env), sizeof *sim->inspected_ranks);
        if (!sim->inspected_ranks)
            status = kvt_fail_nomem(err, "what is compared");
    }
    return status;
}

static void order_selectors(struct backend_sim *sim)
{
    uint32_t seen[KVT_STORES_MAX] = {0};

    for (uint32_t s = 0; s < sim->env.llm->selector_count; s++)
        sim->ordinal_of[s] = seen[sim->env.llm->selectors[s].store]++;
}

static kvt_status sim_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                           struct kvt_error *err)
{
    struct backend_sim *sim = calloc(1, sizeof *sim);

    if (!sim)
        return kvt_fail_nomem(err, "the backend");
    sim->base.ops = &kvt_backend_sim;
    sim->env = *env;
    sim->law = (const struct kvt_law *)(const void *)env->selection.info;
    sim->replacement = (const struct kvt_replacement_policy *)(const void *)env->replacement.info;
    /* Without a hierarchy there is nothing to follow: all stores are counted. */
    kvt_status status =
        kvt_strata_init(&sim->strata, env->llm, env->hierarchy ? env->sample_stores : 0, err);
    for (uint32_t store = env->llm->store_count; store > 0; store--)
        sim->store_of[sim->strata.stratum_of[store - 1]] = store - 1;
    order_selectors(sim);
    sim->deviation_rng = kvt_rng_stream(env->run_seed, KVT_RNG_DEVIATION, 0);
    if (status == KVT_OK && env->hierarchy && env->sample_requests > 0)
        status = estimator_new(env->speculation.queries_max, &sim->estimator, err);
    sim->sampling.pooled = sim->estimator != NULL;
    if (status == KVT_OK && env->hierarchy)
        status = open_crew(sim, err);
    if (status == KVT_OK && env->hierarchy)
        status = kvt_calls_prepare_law(env, &sim->strata,
                                       sim->estimator == NULL && env->sample_stores == 0,
                                       &sim->streams, &sim->law_data, err);
    if (status != KVT_OK) {
        sim_close(&sim->base);
        return status;
    }
    sim->ahead_env = (struct kvt_look_ahead_env){.llm = env->llm,
                                                 .law = sim->law,
                                                 .law_data = sim->law_data,
                                                 .speculation = env->looks_ahead_by,
                                                 .speculation_data = env->speculation_data,
                                                 .queries_max = env->speculation.queries_max,
                                                 .resolve_each_query = env->resolve_each_query};
    *out = &sim->base;
    return KVT_OK;
}

static void sim_restart_sampling(struct kvt_backend *backend)
{
    struct backend_sim *sim = backend_sim_of(backend);

    sim->sampling = (struct kvt_sampling){.pooled = sim->estimator != NULL};
    for (size_t l = 0; l < sim->lane_capacity; l++) {
        for (uint32_t i = 0; sim->lanes[l] && i < sim->lanes[l]->followed_count; i++) {
            struct followed *followed = &sim->lanes[l]->followed[i];
            memset(followed->counts, 0, sizeof followed->counts);
            memset(followed->expected, 0, sizeof followed->expected);
            followed->changes = 0;
            followed->change_count = 0;
        }
    }
}

static void sim_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    const struct backend_sim *sim = (const struct backend_sim *)backend;

    *out = sim->sampling;
    for (size_t l = 0; l < sim->lane_capacity; l++) {
        if (sim->lanes[l])
            lane_add_sample(sim, sim->lanes[l], out);
    }
}

static void sim_close(struct kvt_backend *backend)
{
    struct backend_sim *sim = backend_sim_of(backend);

    for (size_t i = 0; i < sim->lane_capacity; i++)
        lane_free(sim, sim->lanes[i]);
    free(sim->lanes);
    for (unsigned w = 0; sim->workers && w < kvt_crew_size(sim->crew); w++) {
        kvt_resolver_free(sim->workers[w].resolver);
        free(sim->workers[w].block);
        free(sim->workers[w].staged_rows);
        free(sim->workers[w].page_scores);
        free(sim->workers[w].next_use);
        free(sim->workers[w].missed_rows);
    }
    free(sim->workers);
    free(sim->inspected_ranks);
    kvt_crew_free(sim->crew);
    estimator_free(sim->estimator);
    if (sim->law)
        sim->law->free(sim->law_data);
    free(sim);
}

static uint32_t sim_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct backend_sim *sim = (const struct backend_sim *)backend;

    memcpy(strata, sim->strata.strata, sizeof sim->strata.strata);
    return sim->strata.count;
}

static const char *sim_describe(struct kvt_backend *backend)
{
    struct backend_sim *sim = backend_sim_of(backend);

    if (sim->env.hierarchy)
        sim->law->describe(sim->law_data, sim->description, sizeof sim->description);
    else
        snprintf(sim->description, sizeof sim->description,
                 "everything resident: selections never matter");
    return sim->description;
}

static kvt_status make_room_for_lane(struct backend_sim *sim, uint32_t request,
                                     struct kvt_error *err)
{
    if (request < sim->lane_capacity)
        return KVT_OK;
    size_t capacity = sim->lane_capacity ? sim->lane_capacity : 256;
    while (capacity <= request)
        capacity *= 2;
    struct lane **lanes = realloc(sim->lanes, capacity * sizeof(struct lane *));
    if (!lanes)
        return kvt_fail_nomem(err, "the table of decoding requests");
    memset(lanes + sim->lane_capacity, 0, (capacity - sim->lane_capacity) * sizeof(struct lane *));
    sim->lanes = lanes;
    sim->lane_capacity = capacity;
    return KVT_OK;
}

static kvt_status sim_admit(struct kvt_backend *backend,
                            const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    uint32_t request = admission->request;

    if (!sim->env.hierarchy)
        return KVT_OK;
    kvt_status status = make_room_for_lane(sim, request, err);
    if (status != KVT_OK)
        return status;
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return kvt_fail_nomem(err, "a decoding request");
    lane->admitted_tokens = admission->context_tokens;
    lane->max_tokens = admission->max_tokens;
    lane->last_tokens = admission->last_tokens + sim->env.speculation.queries_max;
    lane->hot_tokens = admission->hot_tokens;
    if (!sim->estimator) /* else a step chooses */
        status = lane_open(sim, lane, request, err);
    if (status == KVT_OK && sim->env.is_inspected)
        status = kept_new(sim, &lane->kept, err);
    if (status == KVT_OK && sim->env.looks_ahead_by)
        status = lane_look_ahead(sim, lane, admission, err);
    if (status != KVT_OK) {
        lane_free(sim, lane);
        return status;
    }
    sim->lanes[request] = lane;
    return KVT_OK;
}

static kvt_status sim_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                             uint64_t *decisions, struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);

    if (!sim->env.hierarchy)
        return KVT_OK;
    struct lane *lane = sim->lanes[request];
    lane_close_caches(sim, lane, decisions);
    lane->hot_tokens = hot_tokens;
    lane->rounds = lane->followed_rounds = 0;
    if (sim->estimator && hot_tokens == 0 && lane->followed_count > 0) {
        lane_unfollow(sim, lane);
        sim->open_lanes--;
    }
    return lane_open_caches(sim, lane, request, err);
}

static void sim_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_sim *sim = backend_sim_of(backend);

    if (!sim->env.hierarchy)
        return;
    struct lane *lane = sim->lanes[request];
    lane_close_caches(sim, lane, decisions);
    sim->open_lanes -= sim->estimator && lane->followed_count > 0;
    lane_unfollow(sim, lane);
    lane_free(sim, lane);
    sim->lanes[request] = NULL;
}

const struct kvt_backend_ops kvt_backend_sim = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_backend_sim,
             .name = "sim",
             .summary = "predicts each step; nothing is run"},
    .open = sim_open,
    .close = sim_close,
    .strata = sim_strata,
    .describe = sim_describe,
    .admit = sim_admit,
    .resize = sim_resize,
    .release = sim_release,
    .step = backend_sim_step,
    .restart_sampling = sim_restart_sampling,
    .sampling = sim_sampling,
    .state_hashes = backend_sim_state_hashes,
    .inspect_call = backend_sim_inspect_call,
    .inspect_cache = backend_sim_inspect_cache,
    .selection = backend_sim_selection,
};
