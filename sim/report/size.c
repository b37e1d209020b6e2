/* size.c -- static capacity of a scenario.
 *
 *     for each decode pool:
 *         by HBM  = floor((pool bytes - staging kept once) / required bytes), the smaller of two
 *                   pools
 *         by DRAM = floor(node bytes / (replicas on the node x copies x host bytes))
 *         running = dp x min(by HBM, by DRAM)
 *
 * The rule of vLLM's published concurrency calculator, which counts whole blocks;
 * a session is a whole number of them, so that bytes give the same. */
#include "kvt/size.h"

#include <stdlib.h>

const char *kvt_size_limit_name(enum kvt_size_limit limit)
{
    static const char *const names[] = {[KVT_SIZE_HBM] = "hbm",
                                        [KVT_SIZE_HBM_INDEX] = "hbm_index",
                                        [KVT_SIZE_HBM_ROWS] = "hbm_rows",
                                        [KVT_SIZE_HOST_DRAM] = "host_dram",
                                        [KVT_SIZE_WEIGHTS] = "weights"};

    return (unsigned)limit < sizeof names / sizeof names[0] ? names[limit] : "unknown";
}

bool kvt_size_weights_fit(const struct kvt_scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->pool_count; i++) {
        if (!scenario->pools[i].weights_fit) {
            return false;
        }
    }
    return true;
}

/* ---- What the residency policy requires ------------------------------------ */

/* Asked of a state of its own. */
static kvt_status find_needs(const struct kvt_scenario *scenario, struct kvt_residency_needs *needs,
                             struct kvt_error *err)
{
    const struct kvt_residency_policy *policy =
        (const struct kvt_residency_policy *)(const void *)scenario->residency.info;
    struct kvt_residency_env env = {
        .params = scenario->residency.params,
        .page_bytes = (uint64_t)(kvt_llm_payload_bytes_per_token(scenario->llm) * KVT_PAGE_ROWS),
        .run_seed = scenario->seed,
        .host = kvt_host(),
    };

    if (scenario->pool_count > 0) {
        const struct kvt_decode_pool *pool = &scenario->pools[0];
        env.pool_bytes = pool->rows_pool_bytes > 0 ? pool->rows_pool_bytes : pool->index_pool_bytes;
        env.link_bytes_per_s = pool->hardware->link_h2d_bytes_per_s;
    }
    void *state = kvt_plugin_state_new(policy->state_bytes(&env));
    if (state == NULL)
        return kvt_fail_nomem(err, policy->info.name);
    kvt_status status = KVT_PLUGIN_CALL(policy, init, err, state, &env);
    if (status == KVT_OK) {
        *needs = (struct kvt_residency_needs){0};
        policy->needs(state, needs);
    }
    free(state);
    return status;
}

/* ---- One pool, full ---------------------------------------------------------- */

/* Copies of a session's host rows in the fullest node when each of its replicas
 * runs one session. A replica wider than a node has a copy in each of its nodes. */
static uint64_t copies_per_node(const struct kvt_decode_pool *pool)
{
    uint32_t ranks = pool->tp < pool->gpus_per_node ? pool->tp : pool->gpus_per_node;
    uint32_t room = pool->gpus_per_node / ranks;
    uint32_t replicas = pool->dp < room ? pool->dp : room;

    return (uint64_t)replicas * (pool->host_pool_per_rank ? ranks : 1);
}

static uint64_t less(uint64_t pool_bytes, uint64_t kept_bytes)
{
    return pool_bytes > kept_bytes ? pool_bytes - kept_bytes : 0;
}

static void tighten(struct kvt_size_pool *pool, uint64_t room_bytes, uint64_t need_bytes,
                    enum kvt_size_limit limit)
{
    /* Nothing needed is counted as a byte: a number, however large, can be read. */
    uint64_t fit = room_bytes / (need_bytes > 0 ? need_bytes : 1);

    if (fit < pool->running_per_gpu) {
        pool->running_per_gpu = fit;
        pool->limited_by = limit;
    }
}

static struct kvt_size_pool fill_pool(const struct kvt_decode_pool *pool,
                                      const struct kvt_session_bytes *session)
{
    struct kvt_size_pool filled = {.running_per_gpu = UINT64_MAX};
    uint64_t index_bytes = session->hbm_by_class[KVT_MEM_INDEX];
    uint64_t copies = copies_per_node(pool);
    uint64_t node_bytes = (uint64_t)(pool->host_dram_gib_per_node * (double)KVT_GIB);

    if (!pool->weights_fit) {
        return (struct kvt_size_pool){.limited_by = KVT_SIZE_WEIGHTS};
    }
    if (pool->rows_pool_bytes > 0) {
        tighten(&filled, pool->index_pool_bytes, index_bytes, KVT_SIZE_HBM_INDEX);
        tighten(&filled, less(pool->rows_pool_bytes, session->rank_staging_bytes),
                session->hbm_bytes - index_bytes, KVT_SIZE_HBM_ROWS);
    } else {
        tighten(&filled, less(pool->index_pool_bytes, session->rank_staging_bytes),
                session->hbm_bytes, KVT_SIZE_HBM);
    }
    if (session->host_bytes > 0) {
        tighten(&filled, node_bytes / copies, session->host_bytes, KVT_SIZE_HOST_DRAM);
    }
    filled.running = filled.running_per_gpu * pool->dp;
    filled.host_bytes_at_limit = filled.running_per_gpu * copies * session->host_bytes;
    return filled;
}

static kvt_status fill_side(const struct kvt_scenario *scenario, const struct kvt_engine *engine,
                            const struct kvt_session_spec *spec, struct kvt_size_side *out,
                            struct kvt_error *err)
{
    kvt_status status = kvt_session_bytes(spec, engine, &out->session, err);

    if (status != KVT_OK) {
        return status;
    }
    for (uint32_t i = 0; i < scenario->pool_count; i++) {
        out->pools[i] = fill_pool(&scenario->pools[i], &out->session);
        out->running += out->pools[i].running;
        if (out->pools[i].running_per_gpu < out->pools[out->tightest].running_per_gpu) {
            out->tightest = i;
        }
    }
    return KVT_OK;
}

kvt_status kvt_size_at(const struct kvt_scenario *scenario, const struct kvt_engine *engine,
                       uint64_t tokens, struct kvt_size *out, struct kvt_error *err)
{
    struct kvt_size size = {.tokens = tokens};
    struct kvt_session_spec spec = {
        .llm = scenario->llm,
        .drafter = scenario->drafter,
        .tokens = tokens,
        .max_tokens = tokens,
        .hot_tokens = scenario->hot_tokens,
        .queries_max = scenario->queries_max,
        .staging_fraction = scenario->staging_fraction,
        .draft_budget_tokens = scenario->draft_budget_tokens,
    };
    kvt_status status = KVT_OK;

    if (tokens == 0 || tokens > scenario->llm->max_position_tokens) {
        return kvt_fail(
            err, KVT_ERR_INVALID, "tokens", "%llu is not a context of %s: it takes 1 to %u tokens",
            (unsigned long long)tokens, scenario->llm->name, scenario->llm->max_position_tokens);
    }
    status = find_needs(scenario, &spec.needs, err);
    if (status == KVT_OK) {
        status = fill_side(scenario, engine, &spec, &size.scenario, err);
    }
    if (status == KVT_OK) {
        spec.needs = (struct kvt_residency_needs){.history_in_hbm = true};
        status = fill_side(scenario, engine, &spec, &size.resident, err);
    }
    if (status == KVT_OK) {
        *out = size;
    }
    return status;
}
