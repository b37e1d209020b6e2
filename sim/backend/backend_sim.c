/* backend_sim.c -- the predicted backend: what it is made of, and the requests that decode in it.
 *
 * Every followed call is resolved row by row (backend_step.c). A sampled run follows
 * some stores of each request and scales what the timing model sees by stores /
 * followed. */
#include "backend_sim_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/layout.h"
#include "kvt/workload.h"

enum {
    LENGTHS_MAX = KVT_INPUTS_MAX * KVT_STRATA_MAX /* of all kinds of stores */
};

static uint32_t longest_rows(const struct kvt_backend_env *env)
{
    uint32_t rows = 0;

    for (uint32_t s = 0; s < env->llm->store_count; s++) {
        uint32_t store_rows = kvt_store_rows(&env->llm->stores[s],
                                             env->longest_tokens + env->speculation.queries_max);
        rows = store_rows > rows ? store_rows : rows;
    }
    return rows;
}

/* Of the largest cache that any request can be given. */
static uint32_t most_slots(const struct kvt_backend_env *env)
{
    uint32_t slots = 1;

    for (uint32_t s = 0; s < env->llm->store_count; s++) {
        uint32_t store_slots = kvt_hot_slots(env->llm, &env->llm->stores[s], env->hot_tokens,
                                             env->llm->max_position_tokens);
        slots = store_slots > slots ? store_slots : slots;
    }
    return slots;
}

static void sim_close(struct kvt_backend *backend);

static kvt_status prepare_law(struct backend_sim *sim, struct kvt_error *err)
{
    const struct kvt_backend_env *env = &sim->env;
    uint32_t lengths[LENGTHS_MAX], tokens_per_row[LENGTHS_MAX];
    uint32_t stream_tokens[KVT_SELECTORS_MAX];
    size_t length_count = 0;

    for (uint32_t i = 0; i < env->llm->selector_count; i++) {
        sim->stream_store[i] = env->llm->selectors[i].store;
        stream_tokens[i] = env->llm->stores[sim->stream_store[i]].compress_ratio;
    }
    /* The lengths that selections start from, in rows of each kind of store. */
    for (uint32_t s = 0; s < sim->strata.count; s++) {
        uint32_t ratio = sim->strata.strata[s].compress_ratio;
        for (size_t i = 0; i < env->input_count && i < KVT_INPUTS_MAX; i++) {
            lengths[length_count] = (env->input_tokens[i] + 1) / ratio;
            tokens_per_row[length_count++] = ratio;
        }
    }
    struct kvt_law_env law_env = {.params = env->selection.params,
                                  .top_k = env->llm->top_k,
                                  .stream_count = env->llm->selector_count,
                                  .stream_store = sim->stream_store,
                                  .stream_tokens_per_row = stream_tokens,
                                  .side_paths = env->speculation.side_paths,
                                  .side_tokens = env->speculation.side_tokens,
                                  .context_rows = lengths,
                                  .context_tokens_per_row = tokens_per_row,
                                  .context_count = length_count,
                                  .output_tokens = env->output_tokens,
                                  .run_seed = env->run_seed,
                                  .cache_dir = env->cache_dir,
                                  .threads = env->threads,
                                  .progress = env->on_prepare,
                                  .progress_context = env->prepare_context,
                                  .host = kvt_host()};
    return sim->law->prepare(&law_env, &sim->law_data, err);
}

static kvt_status open_worker(const struct backend_sim *sim, struct worker *worker,
                              struct kvt_error *err)
{
    const struct kvt_backend_env *env = &sim->env;
    uint32_t rows = longest_rows(env), queries = env->speculation.queries_max;
    size_t words = kvt_row_words(rows);
    uint64_t *next = calloc((queries + RATIOS_MAX) * words, sizeof *next);

    worker->block = next;
    if (!next)
        return kvt_fail_nomem(err, "the selections of a round");
    for (uint32_t q = 0; q < queries; q++, next += words)
        worker->sets[q] = next;
    for (int r = 0; r < RATIOS_MAX; r++, next += words)
        worker->page_rows[r] = next;
    return kvt_resolver_new(rows, most_slots(env), queries * env->llm->top_k, &worker->resolver,
                            err);
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
    return status;
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
    if (status == KVT_OK && env->hierarchy)
        status = open_crew(sim, err);
    if (status == KVT_OK && env->hierarchy)
        status = prepare_law(sim, err);
    if (status != KVT_OK) {
        sim_close(&sim->base);
        return status;
    }
    *out = &sim->base;
    return KVT_OK;
}

/* The stores of a request that stand for others, stratum by stratum. */
static void add_sample(const struct backend_sim *sim, const struct lane *lane,
                       struct kvt_sampling *sampling)
{
    for (uint32_t s = 0; s < sim->strata.count; s++) {
        const struct kvt_stratum *stratum = &sim->strata.strata[s];
        struct kvt_store_sample samples[KVT_STORES_MAX];
        uint32_t count = 0;
        if (stratum->followed == stratum->stores)
            continue;
        for (uint32_t i = 0; i < lane->followed_count; i++) {
            const struct followed *followed = &lane->followed[i];
            if (sim->strata.stratum_of[followed->store] != s)
                continue;
            samples[count] = (struct kvt_store_sample){.store = followed->store,
                                                       .changes = followed->changes,
                                                       .change_count = followed->change_count};
            memcpy(samples[count++].counts, followed->counts, sizeof followed->counts);
        }
        kvt_sampling_add(sampling, s, samples, count);
    }
}

static void sim_restart_sampling(struct kvt_backend *backend)
{
    struct backend_sim *sim = backend_sim_of(backend);

    sim->sampling = (struct kvt_sampling){0};
    for (size_t l = 0; l < sim->lane_capacity; l++) {
        for (uint32_t i = 0; sim->lanes[l] && i < sim->lanes[l]->followed_count; i++) {
            struct followed *followed = &sim->lanes[l]->followed[i];
            memset(followed->counts, 0, sizeof followed->counts);
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
            add_sample(sim, sim->lanes[l], out);
    }
}

static void lane_free(struct lane *lane)
{
    if (!lane)
        return;
    for (uint32_t i = 0; lane->followed && i < lane->followed_count; i++)
        kvt_hot_cache_free(lane->followed[i].cache);
    for (uint32_t i = 0; lane->streams && i < lane->stream_count; i++)
        free(lane->streams[i]);
    free(lane->followed);
    free(lane->streams);
    free(lane);
}

static void sim_close(struct kvt_backend *backend)
{
    struct backend_sim *sim = backend_sim_of(backend);

    for (size_t i = 0; i < sim->lane_capacity; i++)
        lane_free(sim->lanes[i]);
    free(sim->lanes);
    for (unsigned w = 0; sim->workers && w < kvt_crew_size(sim->crew); w++) {
        kvt_resolver_free(sim->workers[w].resolver);
        free(sim->workers[w].block);
    }
    free(sim->workers);
    kvt_crew_free(sim->crew);
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

static kvt_status open_stream(struct backend_sim *sim, uint32_t request, uint32_t selector,
                              uint32_t context_tokens, uint32_t last_tokens, void **out,
                              struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    const struct kvt_store *store = &llm->stores[llm->selectors[selector].store];
    struct kvt_law_stream_env env = {.request = request,
                                     .selector = selector,
                                     .context_rows = kvt_store_rows(store, context_tokens + 1),
                                     .rows_max = kvt_store_rows(store, last_tokens),
                                     .tokens_per_row = store->compress_ratio};
    size_t bytes = sim->law->stream_bytes(sim->law_data, &env);
    void *stream = calloc(1, bytes ? bytes : 1);

    if (!stream)
        return kvt_fail_nomem(err, "a stream of selections");
    *out = stream;
    return sim->law->stream_init(sim->law_data, stream, &env, err);
}

static kvt_status open_cache(struct backend_sim *sim, const struct lane *lane, uint32_t request,
                             uint32_t store, uint64_t hot_tokens, struct kvt_hot_cache **out,
                             struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    uint32_t slots = kvt_hot_slots(llm, &llm->stores[store], hot_tokens, lane->max_tokens);
    struct kvt_replacement_env env = {.params = sim->env.replacement.params,
                                      .slot_count =
                                          slots > 0 ? slots : 1, /* a store may have no row yet */
                                      .top_k = llm->top_k,
                                      .entity = (uint64_t)request * KVT_STORES_MAX + store,
                                      .run_seed = sim->env.run_seed,
                                      .host = kvt_host()};
    return kvt_hot_cache_new(sim->replacement, &env,
                             kvt_store_rows(&llm->stores[store], lane->last_tokens), out, err);
}

static kvt_status open_caches(struct backend_sim *sim, struct lane *lane, uint32_t request,
                              uint64_t hot_tokens, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < lane->followed_count && status == KVT_OK && hot_tokens > 0; i++)
        status = open_cache(sim, lane, request, lane->followed[i].store, hot_tokens,
                            &lane->followed[i].cache, err);
    return status;
}

static void close_caches(const struct backend_sim *sim, struct lane *lane, uint64_t *decisions)
{
    for (uint32_t i = 0; i < lane->followed_count; i++) {
        struct kvt_hot_cache *cache = lane->followed[i].cache;
        if (!cache)
            continue;
        *decisions =
            kvt_chain64(*decisions, kvt_hot_cache_state_hash(sim->workers[0].resolver, cache));
        kvt_hot_cache_free(cache);
        lane->followed[i].cache = NULL;
    }
}

static kvt_status open_lane(struct backend_sim *sim, struct lane *lane, uint32_t request,
                            uint32_t context_tokens, struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    uint32_t stores[KVT_STORES_MAX];
    uint32_t count =
        kvt_strata_draw(&sim->strata, llm->store_count, sim->env.run_seed, request, stores);
    uint32_t streams = 0;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < count; i++)
        streams += sim->strata.selectors_of[stores[i]];
    assert(count > 0 && streams > 0); /* every store has a selector */
    lane->followed = calloc(count, sizeof *lane->followed);
    lane->streams = calloc(streams, sizeof *lane->streams);
    if (!lane->followed || !lane->streams)
        return kvt_fail_nomem(err, "a decoding request");
    lane->followed_count = count;
    lane->stream_count = streams;
    streams = 0;
    for (uint32_t i = 0; i < count && status == KVT_OK; i++) {
        lane->followed[i] = (struct followed){.store = stores[i], .first_stream = streams};
        for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
            if (llm->selectors[s].store == stores[i])
                status = open_stream(sim, request, s, context_tokens, lane->last_tokens,
                                     &lane->streams[streams++], err);
        }
    }
    return status;
}

static kvt_status sim_admit(struct kvt_backend *backend, uint32_t request, uint32_t context_tokens,
                            uint32_t max_tokens, uint32_t last_tokens, uint64_t hot_tokens,
                            struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);

    if (!sim->env.hierarchy)
        return KVT_OK;
    kvt_status status = make_room_for_lane(sim, request, err);
    if (status != KVT_OK)
        return status;
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return kvt_fail_nomem(err, "a decoding request");
    lane->max_tokens = max_tokens;
    lane->last_tokens = last_tokens + sim->env.speculation.queries_max;
    status = open_lane(sim, lane, request, context_tokens, err);
    if (status == KVT_OK)
        status = open_caches(sim, lane, request, hot_tokens, err);
    if (status != KVT_OK) {
        lane_free(lane);
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
    close_caches(sim, sim->lanes[request], decisions);
    return open_caches(sim, sim->lanes[request], request, hot_tokens, err);
}

static void sim_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_sim *sim = backend_sim_of(backend);

    if (!sim->env.hierarchy)
        return;
    close_caches(sim, sim->lanes[request], decisions);
    add_sample(sim, sim->lanes[request], &sim->sampling);
    lane_free(sim->lanes[request]);
    sim->lanes[request] = NULL;
}

const struct kvt_backend_ops kvt_backend_sim = {
    .name = "sim",
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
};
