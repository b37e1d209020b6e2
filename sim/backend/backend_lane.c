/* backend_lane.c -- what is followed of one decoding request: streams of selections and hot
 * caches of some of its stores. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend_sim_private.h"
#include "kvt/hash.h"
#include "kvt/layout.h"

static void free_followed(const struct backend_sim *sim, struct lane *lane)
{
    for (uint32_t i = 0; lane->followed && i < lane->followed_count; i++) {
        kvt_hot_cache_free(lane->followed[i].cache);
        free(lane->followed[i].deep_rows);
        kvt_look_ahead_free(lane->followed[i].ahead);
    }
    for (uint32_t i = 0; lane->streams && i < lane->stream_count; i++)
        kvt_calls_close_stream(&sim->env, sim->law_data, lane->streams[i]);
    free(lane->followed);
    free(lane->streams);
    free(lane->staged_rows);
    lane->followed = NULL;
    lane->streams = NULL;
    lane->staged_rows = NULL;
    lane->followed_count = lane->stream_count = 0;
}

void lane_free(const struct backend_sim *sim, struct lane *lane)
{
    if (!lane)
        return;
    free_followed(sim, lane);
    kept_free(lane->kept);
    free(lane);
}

kvt_status lane_open_caches(struct backend_sim *sim, struct lane *lane, uint32_t request,
                            struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < lane->followed_count && status == KVT_OK && lane->hot_tokens > 0;
         i++) {
        struct followed *followed = &lane->followed[i];
        status = kvt_calls_open_cache(&sim->env, request, followed->store, lane->hot_tokens,
                                      lane->max_tokens, lane->last_tokens, &followed->cache, err);
        if (status == KVT_OK)
            status = crossing_open(sim, lane, followed, err);
    }
    return status;
}

void lane_close_caches(const struct backend_sim *sim, struct lane *lane, uint64_t *decisions)
{
    for (uint32_t i = 0; i < lane->followed_count; i++) {
        struct kvt_hot_cache *cache = lane->followed[i].cache;
        if (!cache)
            continue;
        *decisions =
            kvt_chain64(*decisions, kvt_hot_cache_state_hash(sim->workers[0].resolver, cache));
        kvt_hot_cache_free(cache);
        free(lane->followed[i].deep_rows);
        lane->followed[i].cache = NULL;
        lane->followed[i].deep_rows = NULL;
    }
}

static kvt_status open_streams(struct backend_sim *sim, struct lane *lane, uint32_t request,
                               struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    kvt_status status = KVT_OK;
    uint32_t streams = 0;

    for (uint32_t i = 0; i < lane->followed_count && status == KVT_OK; i++) {
        lane->followed[i].first_stream = streams;
        for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
            if (llm->selectors[s].store != lane->followed[i].store)
                continue;
            const struct kvt_stream_spec spec = {.request = request,
                                                 .selector = s,
                                                 .context_tokens = lane->admitted_tokens,
                                                 .last_tokens = lane->last_tokens};
            status = kvt_calls_open_stream(&sim->env, sim->law_data, &spec,
                                           &lane->streams[streams++], err);
        }
    }
    return status;
}

static kvt_status open_stores(struct backend_sim *sim, struct lane *lane, uint32_t request,
                              struct kvt_error *err)
{
    uint32_t stores[KVT_STORES_MAX], streams = 0;
    uint32_t count = kvt_strata_draw(&sim->strata, sim->env.llm->store_count, sim->env.run_seed,
                                     request, stores);

    for (uint32_t i = 0; i < count; i++)
        streams += sim->strata.selectors_of[stores[i]];
    assert(count > 0 && streams > 0); /* every store has a selector */
    lane->followed = calloc(count, sizeof *lane->followed);
    lane->streams = calloc(streams, sizeof *lane->streams);
    lane->staged_rows = calloc(streams, sizeof *lane->staged_rows);
    if (!lane->followed || !lane->streams || !lane->staged_rows)
        return kvt_fail_nomem(err, "a decoding request");
    lane->followed_count = count;
    lane->stream_count = streams;
    for (uint32_t i = 0; i < count; i++)
        lane->followed[i].store = stores[i];
    return open_streams(sim, lane, request, err);
}

kvt_status lane_open(struct backend_sim *sim, struct lane *lane, uint32_t request,
                     struct kvt_error *err)
{
    kvt_status status = open_stores(sim, lane, request, err);

    if (status == KVT_OK)
        status = lane_open_caches(sim, lane, request, err);
    if (status != KVT_OK) {
        free_followed(sim, lane);
        return status;
    }
    lane->followed_rounds = 0;
    return KVT_OK;
}

/* By streams as new as the store's own. */
static kvt_status look_ahead(struct backend_sim *sim, const struct lane *lane,
                             struct followed *followed,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    uint32_t selectors = sim->strata.selectors_of[followed->store], opened = 0;
    void **streams = calloc(selectors, sizeof *streams);
    kvt_status status = KVT_OK;

    if (!streams)
        return kvt_fail_nomem(err, "a look ahead");
    for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
        if (llm->selectors[s].store != followed->store)
            continue;
        const struct kvt_stream_spec spec = {.request = admission->request,
                                             .selector = s,
                                             .context_tokens = lane->admitted_tokens,
                                             .last_tokens = lane->last_tokens,
                                             .looks_ahead = true};
        status = kvt_calls_open_stream(&sim->env, sim->law_data, &spec, &streams[opened++], err);
    }
    if (status == KVT_OK)
        return kvt_look_ahead_new(&sim->ahead_env, followed->store, admission, streams, selectors,
                                  &followed->ahead, err);
    for (uint32_t s = 0; s < opened; s++)
        free(streams[s]);
    free(streams);
    return status;
}

kvt_status lane_look_ahead(struct backend_sim *sim, struct lane *lane,
                           const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < lane->followed_count && status == KVT_OK; i++)
        status = look_ahead(sim, lane, &lane->followed[i], admission, err);
    return status;
}

/* Streams of a store, past the tokens that nobody looked at. */
static void pass_tokens(const struct backend_sim *sim, const struct lane *lane,
                        const struct followed *followed, uint32_t context_tokens)
{
    const struct kvt_store *store = &sim->env.llm->stores[followed->store];
    uint32_t visible_rows[KVT_QUERIES_MAX], count;

    for (uint32_t at = lane->admitted_tokens; at < context_tokens; at += count) {
        count = context_tokens - at < KVT_QUERIES_MAX ? context_tokens - at : KVT_QUERIES_MAX;
        for (uint32_t depth = 0; depth < count; depth++)
            visible_rows[depth] = kvt_store_rows(store, at + depth + 1);
        const struct kvt_law_query deepest = {.depth = count - 1};
        struct kvt_law_round round = {.queries = &deepest,
                                      .query_count = 1,
                                      .committed_tokens = count,
                                      .visible_rows = visible_rows};
        for (uint32_t i = 0; i < sim->strata.selectors_of[followed->store]; i++)
            sim->law->select(sim->law_data, lane->streams[followed->first_stream + i], &round,
                             NULL);
    }
}

kvt_status lane_open_late(struct backend_sim *sim, struct lane *lane, uint32_t request,
                          uint32_t context_tokens, struct kvt_error *err)
{
    kvt_status status = lane_open(sim, lane, request, err);

    for (uint32_t i = 0; i < lane->followed_count; i++)
        pass_tokens(sim, lane, &lane->followed[i], context_tokens);
    return status;
}

void lane_unfollow(struct backend_sim *sim, struct lane *lane)
{
    lane_add_sample(sim, lane, &sim->sampling);
    free_followed(sim, lane);
}

/* The stores of a request that stand for others, stratum by stratum. */
void lane_add_sample(const struct backend_sim *sim, const struct lane *lane,
                     struct kvt_sampling *sampling)
{
    for (uint32_t s = 0; s < sim->strata.count && lane->followed_count > 0; s++) {
        const struct kvt_stratum *stratum = &sim->strata.strata[s];
        struct kvt_store_sample samples[KVT_STORES_MAX];
        uint32_t count = 0;
        if (stratum->followed == stratum->stores && !sim->estimator)
            continue;
        for (uint32_t i = 0; i < lane->followed_count; i++) {
            const struct followed *followed = &lane->followed[i];
            if (sim->strata.stratum_of[followed->store] != s)
                continue;
            samples[count] = (struct kvt_store_sample){.store = followed->store,
                                                       .changes = followed->changes,
                                                       .change_count = followed->change_count};
            memcpy(samples[count].expected, followed->expected, sizeof followed->expected);
            memcpy(samples[count++].counts, followed->counts, sizeof followed->counts);
        }
        kvt_sampling_add(sampling, s, samples, count);
    }
}
