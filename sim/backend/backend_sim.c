/* backend_sim.c -- the predicted backend.
 *
 *     step: for each request of the rank
 *               for each store it follows, for each selector of the store, by layer
 *                   select (law) -> resolve (hot cache) -> count
 *
 * Every followed call is resolved row by row. A sampled run follows some stores of
 * each request and scales what the timing model sees by stores / followed. */
#include "backend_sim.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/layout.h"
#include "kvt/resolver.h"
#include "kvt/workload.h"
#include "strata.h"

enum {
    GRANULE_BYTES = 65536,
    LENGTHS_MAX = KVT_INPUTS_MAX * KVT_STRATA_MAX /* of all kinds of stores */
};

/* One store that a request follows. */
struct followed {
    uint32_t store;
    struct kvt_hot_cache *cache;
    uint32_t first_stream; /* of its selectors, in lane->streams */
};

/* What a decoding request owns here. */
struct lane {
    uint32_t followed_count, stream_count;
    struct followed *followed; /* [followed_count] */
    void **streams;            /* [stream_count] */
};

struct backend_sim {
    struct kvt_backend base;
    struct kvt_backend_env env;
    const struct kvt_law *law;
    void *law_data;
    const struct kvt_replacement_policy *replacement;
    struct strata strata;
    struct kvt_resolver *resolver;
    uint32_t *selection; /* [top_k] */
    struct lane **lanes; /* [lane_capacity] by request; NULL: does not decode */
    size_t lane_capacity;
    char description[160];
};

static struct backend_sim *self(struct kvt_backend *backend)
{
    return (struct backend_sim *)backend;
}

static uint32_t longest_rows(const struct kvt_backend_env *env)
{
    uint32_t rows = 0;

    for (uint32_t s = 0; s < env->llm->store_count; s++) {
        uint32_t store_rows = kvt_store_rows(&env->llm->stores[s], env->longest_tokens + 1);
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
    size_t length_count = 0;

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
                                  .context_rows = lengths,
                                  .context_tokens_per_row = tokens_per_row,
                                  .context_count = length_count,
                                  .output_tokens = env->output_tokens,
                                  .run_seed = env->run_seed,
                                  .threads = env->threads,
                                  .progress = env->on_prepare,
                                  .progress_context = env->prepare_context,
                                  .host = kvt_host()};
    return sim->law->prepare(&law_env, &sim->law_data, err);
}

static kvt_status sim_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                           struct kvt_error *err)
{
    struct backend_sim *sim = calloc(1, sizeof *sim);
    kvt_status status;

    if (!sim)
        return kvt_fail_nomem(err, "the backend");
    sim->base.ops = &kvt_backend_sim;
    sim->env = *env;
    sim->law = (const struct kvt_law *)(const void *)env->selection.info;
    sim->replacement = (const struct kvt_replacement_policy *)(const void *)env->replacement.info;
    /* Without a hierarchy there is nothing to follow: all stores are counted. */
    status = strata_init(&sim->strata, env->llm, env->hierarchy ? env->sample_stores : 0, err);
    if (status == KVT_OK && env->hierarchy) {
        sim->selection = malloc((size_t)env->llm->top_k * sizeof *sim->selection);
        status = sim->selection ? KVT_OK : kvt_fail_nomem(err, "a selection");
        if (status == KVT_OK)
            status = kvt_resolver_new(longest_rows(env), most_slots(env), env->llm->top_k,
                                      &sim->resolver, err);
        if (status == KVT_OK)
            status = prepare_law(sim, err);
    }
    if (status != KVT_OK) {
        sim_close(&sim->base);
        return status;
    }
    *out = &sim->base;
    return KVT_OK;
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
    struct backend_sim *sim = self(backend);

    for (size_t i = 0; i < sim->lane_capacity; i++)
        lane_free(sim->lanes[i]);
    free(sim->lanes);
    kvt_resolver_free(sim->resolver);
    if (sim->law)
        sim->law->free(sim->law_data);
    free(sim->selection);
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
    struct backend_sim *sim = self(backend);

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

static kvt_status open_cache(struct backend_sim *sim, uint32_t request, uint32_t store,
                             uint32_t max_tokens, struct kvt_hot_cache **out, struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    uint32_t slots = kvt_hot_slots(llm, &llm->stores[store], sim->env.hot_tokens, max_tokens);
    struct kvt_replacement_env env = {.params = sim->env.replacement.params,
                                      .slot_count =
                                          slots > 0 ? slots : 1, /* a store may have no row yet */
                                      .top_k = llm->top_k,
                                      .entity = (uint64_t)request * KVT_STORES_MAX + store,
                                      .run_seed = sim->env.run_seed,
                                      .host = kvt_host()};
    return kvt_hot_cache_new(sim->replacement, &env, out, err);
}

static kvt_status open_lane(struct backend_sim *sim, struct lane *lane, uint32_t request,
                            uint32_t context_tokens, uint32_t max_tokens, uint32_t last_tokens,
                            struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    uint32_t stores[KVT_STORES_MAX];
    uint32_t count =
        strata_draw(&sim->strata, llm->store_count, sim->env.run_seed, request, stores);
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
        struct followed *followed = &lane->followed[i];
        *followed = (struct followed){.store = stores[i], .first_stream = streams};
        status = open_cache(sim, request, stores[i], max_tokens, &followed->cache, err);
        for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
            if (llm->selectors[s].store == stores[i])
                status = open_stream(sim, request, s, context_tokens, last_tokens,
                                     &lane->streams[streams++], err);
        }
    }
    return status;
}

static kvt_status sim_admit(struct kvt_backend *backend, uint32_t request, uint32_t context_tokens,
                            uint32_t max_tokens, uint32_t last_tokens, struct kvt_error *err)
{
    struct backend_sim *sim = self(backend);

    if (!sim->env.hierarchy)
        return KVT_OK;
    kvt_status status = make_room_for_lane(sim, request, err);
    if (status != KVT_OK)
        return status;
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return kvt_fail_nomem(err, "a decoding request");
    status = open_lane(sim, lane, request, context_tokens, max_tokens, last_tokens, err);
    if (status != KVT_OK) {
        lane_free(lane);
        return status;
    }
    sim->lanes[request] = lane;
    return KVT_OK;
}

static void sim_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_sim *sim = self(backend);

    if (!sim->env.hierarchy)
        return;
    struct lane *lane = sim->lanes[request];
    for (uint32_t i = 0; i < lane->followed_count; i++)
        *decisions = kvt_chain64(*decisions,
                                 kvt_hot_cache_state_hash(sim->resolver, lane->followed[i].cache));
    lane_free(lane);
    sim->lanes[request] = NULL;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Distinct granules that m rows at random fall on, of G: G (1 - (1 - 1/G)^m). */
static double distinct_granules(double rows_of_store, double row_bytes, double missed_rows)
{
    double granules = ceil(rows_of_store * row_bytes / GRANULE_BYTES);

    if (granules <= 1 || missed_rows <= 0)
        return missed_rows > 0 ? 1 : 0;
    return granules * -expm1(missed_rows * log1p(-1 / granules));
}

static void count_call(const struct backend_sim *sim, uint32_t store, uint32_t visible_rows,
                       const struct kvt_resolve_result *result, struct kvt_step_outcome *outcome)
{
    uint32_t s = sim->strata.stratum_of[store];
    const struct kvt_stratum *stratum = &sim->strata.strata[s];
    const struct kvt_llm *llm = sim->env.llm;
    bool all = stratum->followed == stratum->stores;
    double scale = kvt_stratum_scale(stratum);
    double store_layers =
        all ? llm->stores[store].layers : (double)stratum->layers / stratum->stores;
    double fetched = result->filled_rows + result->staged_rows;
    struct kvt_row_counts *rows = &outcome->rows[s];
    struct kvt_rank_load *load = &outcome->load;

    rows->calls++;
    rows->skipped_calls += result->skipped;
    rows->selected += result->selected;
    rows->tail += result->tail_selected;
    rows->page += result->page_selected;
    rows->hot += result->hot_selected;
    rows->missed += result->missed_selected;
    rows->union_rows += result->union_rows;
    rows->union_tail += result->tail_rows;
    rows->union_page += result->page_rows;
    rows->union_hot += result->hot_rows;
    rows->filled += result->filled_rows;
    rows->staged += result->staged_rows;

    load->selected_rows += scale * result->selected;
    load->attended_layer_rows += scale * store_layers * result->selected;
    load->looked_up_rows += scale * (result->hot_rows + fetched);
    if (fetched > 0) {
        double layer_rows = scale * store_layers * fetched;
        load->missed_rows += scale * fetched;
        load->missed_layer_rows += layer_rows;
        load->leader_layer_rows += scale * fetched;
        load->wire_bytes += layer_rows * llm->payload.wire_bytes;
        load->granules +=
            scale *
            distinct_granules(visible_rows, store_layers * llm->payload.capacity_bytes, fetched);
        load->calls_with_misses += scale;
        outcome->payload_bytes += layer_rows * llm->payload.capacity_bytes;
    }
}

static uint64_t chain_call(uint64_t decisions, const struct kvt_step_item *item, uint32_t selector,
                           const struct kvt_resolve_result *result)
{
    decisions = kvt_chain64(decisions, item->step);
    decisions = kvt_chain64(decisions, (uint64_t)item->request << 32 | selector);
    decisions = kvt_chain64(decisions, (uint64_t)result->tail_rows << 32 | result->page_rows);
    decisions = kvt_chain64(decisions, (uint64_t)result->hot_rows << 32 | result->staged_rows);
    for (uint32_t i = 0; i < result->filled_rows; i++)
        decisions = kvt_chain64(decisions, (uint64_t)result->fills[i] << 32 | result->missed[i]);
    return decisions;
}

/* All calls of one followed store: its selectors in layer order, each ages it. */
static kvt_status step_store(struct backend_sim *sim, struct lane *lane,
                             const struct followed *followed, struct kvt_step_item *item,
                             struct kvt_step_outcome *outcome, struct kvt_error *err)
{
    const struct kvt_llm *llm = sim->env.llm;
    const struct kvt_store *store = &llm->stores[followed->store];
    uint32_t visible = kvt_store_rows(store, item->context_tokens + 1);
    uint32_t stream = followed->first_stream;

    for (uint32_t s = 0; s < llm->selector_count; s++) {
        if (llm->selectors[s].store != followed->store)
            continue;
        uint32_t count =
            sim->law->select(sim->law_data, lane->streams[stream++], visible, sim->selection);
        const uint32_t *selections[] = {sim->selection};
        struct kvt_resolve_call call = {
            .step = item->step,
            .visible_rows = visible,
            .tail_first_row = visible > KVT_TAIL_ROWS ? visible - KVT_TAIL_ROWS : 0,
            .rows_per_page = KVT_PAGE_ROWS / store->compress_ratio,
            .ready_bits = item->ready_pages > 0 ? item->ready_bits : NULL,
            .ready_pages = item->ready_pages,
            .query_count = 1,
            .selections = selections,
            .selection_counts = &count};
        struct kvt_resolve_result result;
        kvt_status status = kvt_resolve(sim->resolver, followed->cache, &call, &result, err);
        if (status != KVT_OK)
            return status;
        count_call(sim, followed->store, visible, &result, outcome);
        item->selected_rows += result.selected;
        item->missed_rows += result.missed_selected;
        outcome->decisions = chain_call(outcome->decisions, item, s, &result);
    }
    return KVT_OK;
}

/* Without a hierarchy every selected row is in a page in HBM. */
static void step_resident(const struct backend_sim *sim, struct kvt_step_item *item,
                          struct kvt_step_outcome *outcome)
{
    const struct kvt_llm *llm = sim->env.llm;

    for (uint32_t s = 0; s < llm->selector_count; s++) {
        uint32_t store = llm->selectors[s].store;
        uint32_t visible = kvt_store_rows(&llm->stores[store], item->context_tokens + 1);
        uint32_t count = smaller(llm->top_k, visible);
        struct kvt_resolve_result result = {.union_rows = count,
                                            .page_rows = count,
                                            .selected = count,
                                            .page_selected = count,
                                            .skipped = true};
        count_call(sim, store, visible, &result, outcome);
        item->selected_rows += count;
    }
}

static kvt_status sim_step(struct kvt_backend *backend, struct kvt_step_item *items,
                           uint32_t item_count, struct kvt_step_outcome *outcome,
                           struct kvt_error *err)
{
    struct backend_sim *sim = self(backend);

    outcome->measured_ns = KVT_NS_NEVER;
    for (uint32_t i = 0; i < item_count; i++) {
        struct kvt_step_item *item = &items[i];
        outcome->load.requests++;
        outcome->load.queries++;
        outcome->load.context_rows += item->context_tokens;
        if (!sim->env.hierarchy) {
            step_resident(sim, item, outcome);
            continue;
        }
        struct lane *lane = sim->lanes[item->request];
        for (uint32_t f = 0; f < lane->followed_count; f++) {
            kvt_status status = step_store(sim, lane, &lane->followed[f], item, outcome, err);
            if (status != KVT_OK)
                return status;
        }
    }
    return KVT_OK;
}

const struct kvt_backend_ops kvt_backend_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .strata = sim_strata,
    .describe = sim_describe,
    .admit = sim_admit,
    .release = sim_release,
    .step = sim_step,
};
