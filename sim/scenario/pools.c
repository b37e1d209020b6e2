/* pools.c -- decode pools: who works together, and what of a GPU's HBM is left for KV: weights
 * first, then workspace, then the rest.
 *
 *     left = sold x usable fraction - weights - workspace
 *     derived:  pool = left - growth reserve - speculation's share
 *     given:    pool = as given              - speculation's share
 *
 * Speculation's share, while speculating: the workspace, and the weights of a drafter.
 * The reference paper's slots fix this: the pool that holds 52 sessions without a
 * drafter holds 35 with it, less by the 4.58 GiB of its weights and about half a
 * GiB beside them. */
#include <stdio.h>

#include "bind.h"

#define GIB ((double)KVT_GIB)

static double weights_gib(const struct kvt_llm *llm, const struct kvt_decode_pool *pool)
{
    if (llm->weights_replicated_gib <= 0 && llm->weights_expert_gib <= 0)
        return llm->weight_bytes / GIB / pool->gpus;
    double expert_shards = pool->ep > 1 ? (double)pool->dp * pool->tp : pool->tp;
    return llm->weights_replicated_gib / pool->tp + llm->weights_expert_gib / expert_shards;
}

static kvt_status refuse_weights(const struct kvt_scenario *scenario,
                                 const struct kvt_decode_pool *pool, const char *place,
                                 double left_gib, struct kvt_error *err)
{
    const struct kvt_hardware *hardware = pool->hardware;
    return kvt_fail(err, KVT_ERR_INVALID, place,
                    "the weights of %s do not fit: %s has %.1f GiB of HBM of which %.1f GiB may "
                    "be used, the weights take %.1f GiB of each of %u GPUs and the workspace "
                    "%.1f GiB; %.1f GiB are missing",
                    scenario->llm->name, hardware->name, hardware->hbm_gb * 1e9 / GIB,
                    hardware->hbm_gb * 1e9 / GIB * hardware->usable_fraction,
                    pool->weights_gib_per_gpu, pool->gpus, hardware->workspace_gib, -left_gib);
}

static kvt_status refuse_pools(struct kvt_load *load, const struct kvt_scenario *scenario,
                               const struct kvt_decode_pool *pool, const char *dotted,
                               double wanted_gib, double left_gib, struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];
    (void)snprintf(path, sizeof path, "%s.pools.%s", dotted,
                   pool->pools_unified ? "unified_gib" : "rows_gib");
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                    "pools and reserve want %.2f GiB of each GPU; %.2f GiB are left on %s beside "
                    "the weights of %s",
                    wanted_gib, left_gib, pool->hardware->name, scenario->llm->name);
}

static kvt_status refuse_empty(const struct kvt_decode_pool *pool, const char *place,
                               double speculation_gib, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, place,
                    "nothing is left for KV: the growth reserve takes %.2f GiB and speculation "
                    "%.2f GiB of each GPU",
                    pool->growth_reserve_gib, speculation_gib);
}

static uint64_t bytes_of(double gib)
{
    return (uint64_t)(gib * GIB);
}

/* Weights first, then what is left for KV. dotted: of the pool's object. */
static kvt_status size_pool(struct kvt_load *load, const struct kvt_scenario *scenario,
                            const char *dotted, struct kvt_decode_pool *pool, struct kvt_error *err)
{
    char keys[KVT_PLACE_BYTES];
    char place[KVT_PLACE_BYTES];

    pool->weights_gib_per_gpu = weights_gib(scenario->llm, pool);
    double left_gib = kvt_hardware_kv_gib(pool->hardware, pool->weights_gib_per_gpu);
    pool->weights_fit = left_gib > 0;
    if (!pool->weights_fit) {
        /* Sizing answers with this; running cannot begin. */
        if (load->options->for_size)
            return KVT_OK;
        (void)snprintf(keys, sizeof keys, "%s.gpus|%s.tp|%s.dp|%s.ep", dotted, dotted, dotted,
                       dotted);
        return refuse_weights(scenario, pool, kvt_load_place(load, keys, place), left_gib, err);
    }

    double speculation_gib = scenario->queries_max > 1 ? pool->speculation_workspace_gib : 0;
    if (scenario->drafter != NULL)
        speculation_gib += scenario->drafter->weight_bytes / GIB;
    double index_gib = left_gib - pool->growth_reserve_gib;
    double rows_gib = 0;
    if (pool->pools_given) {
        index_gib = pool->pools_unified ? pool->unified_gib : pool->index_gib;
        rows_gib = pool->pools_unified ? 0 : pool->rows_gib;
        double wanted_gib = index_gib + rows_gib + pool->growth_reserve_gib;
        if (wanted_gib > left_gib)
            return refuse_pools(load, scenario, pool, dotted, wanted_gib, left_gib, err);
    }
    bool is_split = pool->pools_given && !pool->pools_unified;
    if (is_split)
        rows_gib -= speculation_gib;
    else
        index_gib -= speculation_gib;
    if (index_gib <= 0 || (is_split && rows_gib <= 0)) {
        (void)snprintf(keys, sizeof keys,
                       "%s.pools|%s.growth_reserve_gib|%s.speculation_workspace_gib", dotted,
                       dotted, dotted);
        return refuse_empty(pool, kvt_load_place(load, keys, place), speculation_gib, err);
    }

    pool->index_pool_bytes = bytes_of(index_gib);
    pool->rows_pool_bytes = bytes_of(rows_gib);
    pool->growth_reserve_bytes = bytes_of(pool->growth_reserve_gib);
    return KVT_OK;
}

/* ---- A pool ------------------------------------------------------------------- */

/* Rows of a latent are whole on every rank; those of heads would be split over the ranks. */
static kvt_status check_dense(struct kvt_load *load, const struct kvt_llm *llm, const char *dotted,
                              const struct kvt_decode_pool *pool, struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];

    if (pool->tp == 1 || llm->index_heads > 0)
        return KVT_OK;
    (void)snprintf(path, sizeof path, "%s.tp", dotted);
    return kvt_fail(
        err, KVT_ERR_UNSUPPORTED, kvt_load_place(load, path, place),
        "tp %u would split the heads of %s's rows, which this version keeps whole; tp 1 "
        "is expected",
        pool->tp, llm->name);
}

static kvt_status bind_parallelism(struct kvt_load *load, const char *dotted, const cJSON *object,
                                   struct kvt_decode_pool *pool, struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];
    pool->tp = kvt_count_at(object, "tp");
    pool->dp = (uint32_t)kvt_real_or(object, "dp", 0);
    pool->gpus = (uint32_t)kvt_real_or(object, "gpus", 0);
    pool->ep = kvt_count_at(object, "ep");
    if (pool->gpus == 0)
        pool->gpus = pool->tp * (pool->dp > 0 ? pool->dp : 1);
    if (pool->dp == 0)
        pool->dp = pool->gpus / pool->tp;
    if ((uint64_t)pool->tp * pool->dp != pool->gpus) {
        (void)snprintf(path, sizeof path, "%s.gpus|%s.tp|%s.dp", dotted, dotted, dotted);
        (void)kvt_load_place(load, path, place);
        if (pool->gpus % pool->tp != 0)
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "%u GPUs are not tp %u x a number of replicas; a multiple of tp is "
                            "expected",
                            pool->gpus, pool->tp);
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "%u GPUs are not tp %u x dp %u; %s.dp=auto follows from gpus and tp",
                        pool->gpus, pool->tp, pool->dp, dotted);
    }
    if (pool->gpus % pool->ep != 0) {
        (void)snprintf(path, sizeof path, "%s.ep|%s.gpus|%s.tp|%s.dp", dotted, dotted, dotted,
                       dotted);
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                        "ep %u does not divide the pool's %u GPUs; 1 or a divisor is expected",
                        pool->ep, pool->gpus);
    }
    return KVT_OK;
}

static kvt_status bind_pool_memory(struct kvt_load *load, const char *dotted, const cJSON *object,
                                   struct kvt_decode_pool *pool, struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];
    const cJSON *given = kvt_tree_find(object, "pools");
    pool->pools_given = cJSON_IsObject(given);
    if (!pool->pools_given)
        return KVT_OK;
    pool->pools_unified = kvt_tree_find(given, "unified_gib") != NULL;
    pool->unified_gib = kvt_real_or(given, "unified_gib", 0);
    pool->index_gib = kvt_real_or(given, "index_gib", 0);
    pool->rows_gib = kvt_real_or(given, "rows_gib", 0);
    if (!pool->pools_unified && (pool->index_gib <= 0 || pool->rows_gib <= 0)) {
        (void)snprintf(path, sizeof path, "%s.pools", dotted);
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                        "a pool is missing; either unified_gib, or index_gib and rows_gib");
    }
    return KVT_OK;
}

static kvt_status bind_pool(struct kvt_load *load, struct kvt_scenario *out, const char *dotted,
                            struct kvt_error *err)
{
    const cJSON *object = kvt_tree_at(load->tree, dotted);
    struct kvt_decode_pool pool = {.hardware = out->hardware};
    kvt_status status = bind_parallelism(load, dotted, object, &pool, err);
    if (status == KVT_OK)
        status = check_dense(load, out->llm, dotted, &pool, err);
    if (status == KVT_OK)
        status = bind_pool_memory(load, dotted, object, &pool, err);
    if (status == KVT_OK && kvt_tree_find(object, "hardware") != NULL) {
        char path[KVT_DOTTED_BYTES];
        (void)snprintf(path, sizeof path, "%s.hardware", dotted);
        status = kvt_bind_hardware(load, path, &pool.hardware, err);
    }
    if (status != KVT_OK)
        return status;
    pool.lockstep = cJSON_IsTrue(kvt_tree_find(object, "lockstep"));
    pool.speculation_workspace_gib = kvt_real_at(object, "speculation_workspace_gib");
    pool.growth_reserve_gib = kvt_real_at(object, "growth_reserve_gib");
    pool.host_dram_gib_per_node =
        kvt_real_or(object, "host_dram_gib_per_node", pool.hardware->host_dram_gib);
    pool.index_offload_gib_per_node = kvt_real_at(object, "index_offload_gib_per_node");
    pool.host_pool_per_rank = strcmp(kvt_text_at(object, "host_pool"), "per_rank") == 0;
    pool.gpus_per_node =
        (uint32_t)kvt_real_or(object, "gpus_per_node", (double)pool.hardware->gpus_per_node);
    pool.dram_bytes_per_s_per_node =
        (uint64_t)(kvt_real_or(object, "dram_gb_per_s_per_node",
                               (double)pool.hardware->dram_bytes_per_s / 1e9) *
                       1e9 +
                   0.5);
    status = size_pool(load, out, dotted, &pool, err);
    if (status == KVT_OK)
        out->pools[out->pool_count++] = pool;
    return status;
}

kvt_status kvt_bind_pools(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *decode = kvt_tree_at(load->tree, "cluster.decode");
    if (cJSON_IsObject(decode))
        return bind_pool(load, out, "cluster.decode", err);
    int count = cJSON_GetArraySize(decode);
    for (int i = 0; i < count; i++) {
        char dotted[KVT_DOTTED_BYTES];
        (void)snprintf(dotted, sizeof dotted, "cluster.decode.%d", i);
        kvt_status status = bind_pool(load, out, dotted, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}
