/* sim_backend.c -- the backend of a run: what it is told of the ranks and of what will come. */
#include "sim_private.h"

/* What the workload says beforehand of its requests. */
struct outlook {
    uint32_t longest_tokens;
    uint32_t inputs[KVT_INPUTS_MAX];
    size_t input_count;
};

static void look_out(struct kvt_sim *sim, struct outlook *outlook)
{
    uint32_t limit = sim->scenario->llm->max_position_tokens;

    outlook->input_count = KVT_INPUTS_MAX;
    sim->arrival->extent(sim->source, &outlook->longest_tokens, &sim->output_cap, outlook->inputs,
                         &outlook->input_count);
    if (outlook->longest_tokens > limit)
        outlook->longest_tokens = limit;
}

/* A token is the least that any prompt has. */
static uint32_t shortest_input(const struct outlook *outlook)
{
    uint32_t shortest = outlook->input_count > 0 ? outlook->inputs[0] : 1;

    for (size_t i = 1; i < outlook->input_count; i++)
        shortest = outlook->inputs[i] < shortest ? outlook->inputs[i] : shortest;
    return shortest;
}

/* Requests that may decode on one rank at once: what its pools hold of the shortest ones, and at
 * most all that the workload ever has in flight. */
static kvt_status bound_requests(const struct kvt_sim *sim, const struct outlook *outlook,
                                 uint32_t *most, struct kvt_error *err)
{
    uint64_t in_flight = sim->arrival->expected(sim->source), fit = 1;
    uint32_t input = shortest_input(outlook);

    if (sim->arrival->most_in_flight) {
        uint64_t known = sim->arrival->most_in_flight(sim->source);
        in_flight = in_flight == 0 || known < in_flight ? known : in_flight;
    }
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        uint64_t slots;
        kvt_status status = kvt_rank_slots(&sim->ranks[r], input,
                                           sim_longest_context(sim, input, 0), &slots, NULL, err);
        if (status != KVT_OK)
            return status;
        fit = slots > fit ? slots : fit;
    }
    if (in_flight > 0 && in_flight < fit)
        fit = in_flight;
    *most = fit < UINT32_MAX ? (uint32_t)fit : UINT32_MAX;
    return KVT_OK;
}

/* Pages that the pool of one rank holds, reserve and all, and no more than its requests have. */
static uint64_t bound_pages(const struct kvt_sim *sim, const struct outlook *outlook,
                            uint32_t rank_requests)
{
    uint32_t longest = outlook->longest_tokens + sim->scenario->queries_max;
    uint64_t all = (uint64_t)rank_requests * ((longest + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS);
    uint64_t fit = 0;

    for (uint32_t r = 0; r < sim->rank_count; r++) {
        const struct kvt_rank *rank = &sim->ranks[r];
        const struct kvt_rank_memory *memory = &rank->memory;
        uint64_t bytes =
            memory->pool_bytes[memory->pool_of[KVT_MEM_PAYLOAD]] + memory->reserve_bytes;
        fit = bytes / rank->page_bytes > fit ? bytes / rank->page_bytes : fit;
    }
    return fit < all ? fit : all;
}

kvt_status sim_open_backend(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    const struct kvt_residency_policy *residency = sim->ranks[0].residency;
    bool is_sampled = scenario->fidelity == KVT_FIDELITY_SAMPLED;
    bool sees_next_use = kvt_choice_has(&scenario->replacement, KVT_CLAIRVOYANT);
    struct outlook outlook;

    look_out(sim, &outlook);
    struct kvt_backend_env env = {
        .params = scenario->backend.params,
        .rank_count = sim->rank_count,
        .tp = scenario->pools[0].tp,
        .ep = scenario->pools[0].ep,
        .llm = scenario->llm,
        .drafter = scenario->drafter,
        .replacement = scenario->replacement,
        .selection = scenario->selection,
        .hot_tokens = scenario->hot_tokens,
        .resolve_each_query = scenario->resolve_each_query,
        .promotion = scenario->promotion,
        .staging = kvt_staging_of(scenario->llm, scenario->queries_max, scenario->staging_fraction),
        .cache_dir = sim->options.cache_dir,
        .hierarchy = !sim->ranks[0].needs.history_in_hbm,
        .prefetch = scenario->prefetch,
        .read_depth = scenario->read_depth,
        .scores_pages = residency->wants_page_scores,
        .looks_ahead_by = sees_next_use || residency->wants_page_future ? sim->speculation : NULL,
        .shows_next_use = sees_next_use,
        .speculation_data = sim->speculation_data,
        .sample_stores = is_sampled ? scenario->sample_stores : 0,
        .sample_requests = is_sampled ? scenario->sample_requests : 0,
        .run_seed = scenario->seed,
        .longest_tokens = outlook.longest_tokens,
        .output_tokens = sim->output_cap,
        .input_tokens = outlook.inputs,
        .input_count = outlook.input_count,
        .threads = sim->options.threads ? sim->options.threads : 1,
        .on_prepare = sim->options.on_prepare,
        .prepare_context = sim->options.prepare_context};
    sim->speculation->shape(sim->speculation_data, &env.speculation);
    kvt_status status = bound_requests(sim, &outlook, &env.rank_requests, err);
    if (status != KVT_OK)
        return status;
    env.rank_pages = bound_pages(sim, &outlook, env.rank_requests);
    if (sim->options.open_backend)
        return sim->options.open_backend(sim->options.backend_context, &env, &sim->backend, err);
    return kvt_backend_of(&scenario->backend)->open(&env, &sim->backend, err);
}
