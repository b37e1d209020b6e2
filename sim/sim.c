/* sim.c -- puts the layers together: makes a run of a scenario, and advances it
 * event by event. */
#include "kvt/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/clock.h"
#include "sim_private.h"

/* ---- Making a run ------------------------------------------------------------ */

static kvt_status open_source(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = kvt_source_open(sim->scenario, &sim->workload, err);

    sim->arrival = sim->workload.arrival;
    sim->source = sim->workload.source;
    return status;
}

static kvt_status make_room(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;

    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        const struct kvt_decode_pool *pool = &scenario->pools[p];
        sim->rank_count += pool->dp;
        sim->group_count += pool->lockstep ? 1 : pool->dp;
        sim->host_count += kvt_pool_nodes(pool);
        sim->gpus += pool->gpus;
    }
    sim->ranks = calloc(sim->rank_count, sizeof *sim->ranks);
    sim->groups = calloc(sim->group_count, sizeof *sim->groups);
    sim->hosts = calloc(sim->host_count, sizeof *sim->hosts);
    sim->group_of = calloc(sim->rank_count, sizeof *sim->group_of);
    sim->prefilling_for = calloc(sim->rank_count, sizeof *sim->prefilling_for);
    sim->loads = calloc(sim->rank_count, sizeof *sim->loads);
    sim->guesses = calloc(sim->rank_count, sizeof *sim->guesses);
    sim->shared_loads = calloc(sim->rank_count, sizeof *sim->shared_loads);
    sim->rank_steps = calloc(sim->rank_count, sizeof *sim->rank_steps);
    sim->router_views = calloc(sim->rank_count, sizeof *sim->router_views);
    sim->router_choices = calloc(sim->rank_count, sizeof *sim->router_choices);
    sim->events = kvt_eventq_new(1024);
    if (!sim->ranks || !sim->groups || !sim->hosts || !sim->group_of || !sim->prefilling_for ||
        !sim->loads || !sim->guesses || !sim->shared_loads || !sim->rank_steps ||
        !sim->router_views || !sim->router_choices || !sim->events)
        return kvt_fail_nomem(err, "the ranks of a run");
    return KVT_OK;
}

/* A rank's share of its node's, of one copy. */
static uint64_t index_offload_bytes(const struct kvt_decode_pool *pool)
{
    uint32_t gpus = pool->gpus < pool->gpus_per_node ? pool->gpus : pool->gpus_per_node;
    uint32_t ranks = gpus > pool->tp ? gpus / pool->tp : 1;
    uint32_t copies = pool->host_pool_per_rank ? pool->tp : 1;

    return (uint64_t)(pool->index_offload_gib_per_node * (double)KVT_GIB) / ranks / copies;
}

static kvt_status open_rank(struct kvt_sim *sim, uint32_t index, const struct kvt_decode_pool *pool,
                            struct kvt_host_pool *host, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    struct kvt_rank_env env = {.index = index,
                               .llm = scenario->llm,
                               .drafter = scenario->drafter,
                               .hardware = pool->hardware,
                               .hot_tokens = scenario->hot_tokens,
                               .queries_max = scenario->queries_max,
                               .staging_fraction = scenario->staging_fraction,
                               .draft_budget_tokens = scenario->draft_budget_tokens,
                               .index_pool_bytes = pool->index_pool_bytes,
                               .rows_pool_bytes = pool->rows_pool_bytes,
                               .growth_reserve_bytes = pool->growth_reserve_bytes,
                               .host = host,
                               .host_copies = pool->host_pool_per_rank ? pool->tp : 1,
                               .index_offload_bytes = index_offload_bytes(pool),
                               .prefills_here = scenario->prefill.mode == KVT_PREFILL_COLOCATED,
                               .prefill_computes = scenario->prefill.mode != KVT_PREFILL_NONE,
                               .prefill_cost =
                                   scenario->prefill.is_roofline ? &pool->prefill_cost : NULL,
                               .residency = scenario->residency,
                               .scheduling = scenario->scheduling,
                               .import = scenario->import,
                               .speculation = scenario->speculation.info->name,
                               .run_seed = scenario->seed,
                               .gpus = pool->tp,
                               .observer = sim->options.observer};
    return kvt_rank_init(&sim->ranks[index], &env, &sim->decisions, err);
}

/* The same model in another setting, for what that would change. */
static kvt_status open_other_timing(struct group *group, const struct kvt_timing_env *env,
                                    enum kvt_what_if what_if, struct kvt_error *err)
{
    void *state = kvt_plugin_state_new(group->timing->state_bytes(env));

    group->if_states[what_if] = state;
    if (!state)
        return kvt_fail_nomem(err, "a timing model");
    return group->timing->init(state, env, err);
}

/* A link that is faster; and one rank more, over which experts are spread where they were over all
 * ranks. */
static kvt_status open_what_ifs(struct group *group, const struct kvt_timing_env *env,
                                struct kvt_error *err)
{
    struct kvt_hardware faster = *env->hardware;
    struct kvt_timing_env other = *env;

    faster.link_h2d_bytes_per_s =
        (uint64_t)((double)faster.link_h2d_bytes_per_s * KVT_IF_LINK_FACTOR);
    other.hardware = &faster;
    kvt_status status = open_other_timing(group, &other, KVT_IF_FASTER_LINK, err);
    if (status != KVT_OK)
        return status;
    uint32_t gpus = env->tp * (env->dp + 1);
    other = *env;
    other.dp = env->dp + 1;
    other.ep = env->ep == env->tp * env->dp && env->ep > 1 ? gpus : env->ep;
    other.ranks_per_link_node = gpus < env->gpus_per_node ? gpus : env->gpus_per_node;
    return open_other_timing(group, &other, KVT_IF_MORE_RANKS, err);
}

static kvt_status open_timing(struct kvt_sim *sim, struct group *group, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    const struct kvt_decode_pool *pool = &scenario->pools[group->pool];
    struct kvt_speculation_shape shape;

    sim->speculation->shape(sim->speculation_data, &shape);
    struct kvt_timing_env env = {
        .params = scenario->timing.params,
        .llm = scenario->llm,
        .hardware = pool->hardware,
        .residency = scenario->residency.info->name,
        .speculation = scenario->speculation.info->name,
        .drafter = scenario->drafter,
        .queries_max = scenario->queries_max,
        .draft_passes = shape.draft_passes,
        .draft_budget_tokens = shape.draft_budget_tokens,
        .history_in_hbm = sim->ranks[group->first_rank].needs.history_in_hbm,
        .takes_turns = kvt_scenario_takes_turns(scenario),
        .tp = pool->tp,
        .dp = pool->dp,
        .ep = pool->ep,
        .gpus_per_node = pool->gpus_per_node,
        .ranks_per_link_node = pool->gpus < pool->gpus_per_node ? pool->gpus : pool->gpus_per_node,
        .dram_bytes_per_s = pool->dram_bytes_per_s_per_node,
        .host = kvt_host()};

    group->timing = (const struct kvt_timing_model *)(const void *)scenario->timing.info;
    group->setting = kvt_profile_setting_of(&env);
    group->timing_state = kvt_plugin_state_new(group->timing->state_bytes(&env));
    if (!group->timing_state)
        return kvt_fail_nomem(err, "a timing model");
    kvt_status status = group->timing->init(group->timing_state, &env, err);
    return status == KVT_OK && group->timing->reads_hardware ? open_what_ifs(group, &env, err)
                                                             : status;
}

static kvt_status open_pools(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    uint32_t rank = 0, group = 0, first_host = 0;

    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        const struct kvt_decode_pool *pool = &scenario->pools[p];
        for (uint32_t h = 0; h < kvt_pool_nodes(pool); h++)
            sim->hosts[first_host + h].capacity_bytes =
                (uint64_t)(pool->host_dram_gib_per_node * (double)KVT_GIB);
        for (uint32_t r = 0; r < pool->dp; r++, rank++) {
            uint32_t node = r * pool->tp / pool->gpus_per_node;
            kvt_status status = open_rank(sim, rank, pool, &sim->hosts[first_host + node], err);
            if (status != KVT_OK)
                return status;
            if (r == 0 || !pool->lockstep) {
                sim->groups[group] = (struct group){.first_rank = rank,
                                                    .pool = p,
                                                    .prefill = &scenario->prefill,
                                                    .prefetch = &scenario->prefetch,
                                                    .selectors = scenario->llm->selector_count};
                status = open_timing(sim, &sim->groups[group], err);
                if (status != KVT_OK)
                    return status;
                group++;
            }
            sim->groups[group - 1].rank_count++;
            sim->group_of[rank] = group - 1;
        }
        first_host += kvt_pool_nodes(pool);
    }
    return KVT_OK;
}

static kvt_status open_router(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    struct kvt_router_env env = {.params = scenario->router.params,
                                 .rank_count = sim->rank_count,
                                 .run_seed = scenario->seed,
                                 .host = kvt_host()};

    sim->router = (const struct kvt_router_policy *)(const void *)scenario->router.info;
    sim->router_state = kvt_plugin_state_new(sim->router->state_bytes(&env));
    if (!sim->router_state)
        return kvt_fail_nomem(err, "the router");
    return KVT_PLUGIN_CALL(sim->router, init, err, sim->router_state, &env);
}

static kvt_status open_speculation(struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    struct kvt_speculation_env env = {.params = scenario->speculation.params,
                                      .llm = scenario->llm,
                                      .drafter = scenario->drafter,
                                      .tasks = scenario->tasks,
                                      .task_count = scenario->task_count,
                                      .run_seed = scenario->seed,
                                      .host = kvt_host()};

    sim->speculation =
        (const struct kvt_speculation_method *)(const void *)scenario->speculation.info;
    return KVT_PLUGIN_CALL(sim->speculation, prepare, err, &env, &sim->speculation_data);
}

/* When the run ends whatever happens: run.duration_s or the last phase. */
static kvt_status schedule_end(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_ns phases_ns = sim->arrival->end_ns(sim->source);

    sim->end_ns = KVT_NS_NEVER;
    if (sim->scenario->duration_s > 0 &&
        !kvt_ns_from_seconds(sim->scenario->duration_s, &sim->end_ns))
        return kvt_fail(err, KVT_ERR_INVALID, "run.duration_s", "too long a run");
    if (phases_ns != KVT_NS_NEVER && (sim->end_ns == KVT_NS_NEVER || phases_ns < sim->end_ns))
        sim->end_ns = phases_ns;
    if (sim->end_ns != KVT_NS_NEVER)
        return sim_push(sim, sim->end_ns, KVT_PHASE_STOP, EVENT_STOP, 0, 0, err);
    if (sim->arrival->expected(sim->source) == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "run.duration_s|workload.requests",
                        "the workload \"%s\" has no end of its own; give workload.requests or "
                        "run.duration_s",
                        sim->arrival->info.name);
    return KVT_OK;
}

/* Everything is there; the first requests arrive. */
static kvt_status begin(struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = sim_open_backend(sim, err);

    if (status == KVT_OK)
        status = sim_books_open(sim, err);
    if (status == KVT_OK)
        status = sim_faults_open(sim, err);
    if (status == KVT_OK)
        status = sim_poll_arrivals(sim, err);
    return status == KVT_OK ? sim_books_begin(sim, err) : status;
}

/* Too little memory that a scenario allows is no lack of ours, and a failure all the same. */
static kvt_status locate(const struct kvt_scenario *scenario, kvt_status status,
                         struct kvt_error *err)
{
    kvt_scenario_locate(scenario, err);
    return status == KVT_ERR_NOMEM && err != NULL && err->status == KVT_ERR_INVALID ? err->status
                                                                                    : status;
}

kvt_status kvt_sim_new(const struct kvt_scenario *scenario, const struct kvt_sim_options *options,
                       struct kvt_sim **out, struct kvt_error *err)
{
    struct kvt_sim *sim = calloc(1, sizeof *sim);

    if (!sim)
        return kvt_fail_nomem(err, "a run");
    sim->scenario = scenario;
    if (options)
        sim->options = *options;
    sim->arrival_due_ns = KVT_NS_NEVER;
    kvt_status status = open_source(sim, err);
    if (status == KVT_OK)
        status = make_room(sim, err);
    if (status == KVT_OK)
        status = open_speculation(sim, err);
    if (status == KVT_OK)
        status = open_pools(sim, err);
    if (status == KVT_OK)
        status = open_router(sim, err);
    if (status == KVT_OK)
        status = sim_check_hooks(sim, err);
    if (status == KVT_OK)
        status = schedule_end(sim, err);
    if (status == KVT_OK)
        status =
            scenario->fidelity == KVT_FIDELITY_ANALYTIC ? sim_solve(sim, err) : begin(sim, err);
    if (status != KVT_OK) {
        if (status != KVT_ERR_DEVICE) /* which is no fault of what the scenario says */
            status = locate(scenario, status, err);
        kvt_sim_free(sim);
        return status;
    }
    *out = sim;
    return KVT_OK;
}

void kvt_sim_free(struct kvt_sim *sim)
{
    if (!sim)
        return;
    for (size_t i = 0; i < sim->record_count; i++) {
        if (sim->live[i]) {
            kvt_pages_fini(&sim->live[i]->pages);
            kvt_shared_fini(&sim->live[i]->shared);
            kvt_page_watch_fini(&sim->live[i]->watch);
            free(sim->live[i]->drafting);
            free(sim->live[i]);
        }
    }
    if (sim->backend)
        sim->backend->ops->close(sim->backend);
    for (uint32_t r = 0; sim->ranks && r < sim->rank_count; r++)
        kvt_rank_fini(&sim->ranks[r]);
    for (uint32_t g = 0; sim->groups && g < sim->group_count; g++) {
        free(sim->groups[g].timing_state);
        for (int i = 0; i < KVT_WHAT_IFS; i++)
            free(sim->groups[g].if_states[i]);
    }
    kvt_source_close(&sim->workload);
    if (sim->speculation)
        sim->speculation->free(sim->speculation_data);
    sim_books_close(sim);
    sim_faults_close(sim);
    kvt_eventq_free(sim->events);
    free(sim->router_state);
    free(sim->router_views);
    free(sim->router_choices);
    free(sim->prefill.queue);
    free(sim->records);
    free(sim->live);
    free(sim->ranks);
    free(sim->groups);
    free(sim->group_of);
    free(sim->prefilling_for);
    free(sim->hosts);
    free(sim->loads);
    free(sim->guesses);
    free(sim->shared_loads);
    free(sim->rank_steps);
    free(sim->items);
    free(sim->rounds);
    free(sim->asks);
    free(sim->item_order);
    free(sim->plan_scratch);
    free(sim);
}

/* ---- Advancing it -------------------------------------------------------------- */

/* Requests are under way and only the clock still ticks. */
static kvt_status diagnose_stall(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_rank *worst = &sim->ranks[0];

    if (sim->faults.homeless_count > 0)
        return sim_diagnose_homeless(sim, err);
    for (uint32_t r = 1; r < sim->rank_count; r++) {
        if (sim->ranks[r].waiting.count > worst->waiting.count)
            worst = &sim->ranks[r];
    }
    return kvt_fail(
        err, KVT_ERR_STALLED, sim->scenario->name,
        "stalled after %.3f s: of %zu requests that arrived %llu wait, %llu are being "
        "imported and %llu decode, and nothing will ever free what they need; rank %u "
        "has %u waiting with %llu bytes of HBM and %llu bytes of host DRAM free: raise "
        "cluster.decode.pools, growth_reserve_gib or host_dram_gib_per_node",
        (double)sim->now_ns / (double)KVT_NS_PER_S, sim->record_count,
        (unsigned long long)sim->waiting, (unsigned long long)sim->importing,
        (unsigned long long)sim->decoding, worst->env.index, worst->waiting.count,
        (unsigned long long)kvt_rank_memory_free(&worst->memory, KVT_MEM_INDEX),
        (unsigned long long)(worst->env.host->capacity_bytes - worst->env.host->used_bytes));
}

/* With the interval's tick the only event left, either all is done or nothing
 * can move any more. A stop event does not count as progress. */
static bool nothing_moves(const struct kvt_sim *sim)
{
    size_t clockwork = sim->end_ns == KVT_NS_NEVER ? 0 : 1;
    return kvt_eventq_length(sim->events) <= clockwork;
}

/* No rank is left for anybody, and the run has an end: until then they wait, and are counted so. */
static bool waits_to_the_end(const struct kvt_sim *sim)
{
    return sim->end_ns != KVT_NS_NEVER && sim->faults.homeless_count == sim->in_flight;
}

static kvt_status on_event(struct kvt_sim *sim, const struct kvt_event *event,
                           struct kvt_error *err)
{
    switch ((enum event_kind)event->kind) {
    case EVENT_STEP_DONE:
        return sim_on_step_done(sim, event->target, event->payload, err);
    case EVENT_IMPORT_DONE:
        return sim_on_import_done(sim, event->target, event->payload, err);
    case EVENT_PREFILL_DONE:
        return sim_on_prefill_done(sim, event->payload, err);
    case EVENT_ARRIVAL:
        sim->arrival_due_ns = KVT_NS_NEVER;
        return sim_poll_arrivals(sim, err);
    case EVENT_BOUNDARY:
        return sim_on_boundary(sim, event->target, err);
    case EVENT_INTERVAL:
        if (nothing_moves(sim) && sim->in_flight > 0 && !waits_to_the_end(sim))
            return diagnose_stall(sim, err);
        return sim_books_interval(sim, err);
    case EVENT_WARMUP:
        return sim_books_cut(sim, err);
    case EVENT_STOP:
        sim->ended = true;
        return KVT_OK;
    case EVENT_FAULT:
        return sim_on_fault(sim, event->target, err);
    case EVENT_REPAIR:
        return sim_on_repair(sim, event->target, err);
    }
    return kvt_fail(err, KVT_ERR_INTERNAL, sim->scenario->name, "event of kind %u", event->kind);
}

kvt_status kvt_sim_step(struct kvt_sim *sim, bool *more, struct kvt_error *err)
{
    struct kvt_event event;

    *more = false;
    if (sim->ended || !kvt_eventq_pop(sim->events, &event))
        return KVT_OK;
    sim->now_ns = event.time_ns;
    sim->event_count++;
    sim_books_advance(sim);
    kvt_status status = on_event(sim, &event, err);
    if (status != KVT_OK)
        return locate(sim->scenario, status, err);
    if (sim->source_ended && sim->in_flight == 0)
        sim->ended = true;
    *more = !sim->ended;
    return KVT_OK;
}

kvt_status kvt_sim_run_until(struct kvt_sim *sim, kvt_ns until_ns, bool *more,
                             struct kvt_error *err)
{
    struct kvt_event next;

    *more = !sim->ended;
    while (!sim->ended && kvt_eventq_peek(sim->events, &next) && next.time_ns <= until_ns) {
        kvt_status status = kvt_sim_step(sim, more, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

kvt_ns kvt_sim_now_ns(const struct kvt_sim *sim)
{
    return sim->now_ns;
}

double kvt_sim_progress(const struct kvt_sim *sim)
{
    uint64_t expected = sim->arrival->expected(sim->source);
    if (sim->ended)
        return 1;
    double by_time = -1, by_requests = -1;

    if (sim->end_ns != KVT_NS_NEVER)
        by_time = (double)sim->now_ns / (double)sim->end_ns;
    if (expected > 0)
        by_requests = (double)(sim->record_count - sim->in_flight) / (double)expected;
    return by_time > by_requests ? by_time : by_requests;
}

uint64_t kvt_sim_decision_hash(const struct kvt_sim *sim)
{
    return sim->decisions;
}

kvt_status kvt_sim_finish(struct kvt_sim *sim, bool interrupted, const struct kvt_run **out,
                          struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (sim->scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        sim_books_describe(sim);
    else
        status = sim_books_finish(sim, interrupted, err);

    if (status == KVT_OK)
        *out = &sim->run;
    return status;
}
