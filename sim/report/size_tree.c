/* size_tree.c -- static capacity as the JSON of `kvtide size --json`. */
#include "kvt/size.h"

#include <cjson/cJSON.h>

/* cJSON keeps numbers as doubles: exact up to 2^53, which is 8 PiB. */
static bool add_count(cJSON *object, const char *key, uint64_t count)
{
    return cJSON_AddNumberToObject(object, key, (double)count) != NULL;
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return cJSON_AddStringToObject(object, key, text) != NULL;
}

static bool add_classes(cJSON *object, const struct kvt_session_bytes *session)
{
    cJSON *classes = cJSON_AddObjectToObject(object, "session_hbm_by_class");
    cJSON *outside = cJSON_AddObjectToObject(object, "session_outside_sum");
    bool ok = classes != NULL && outside != NULL;

    for (int i = 0; ok && i < KVT_MEM_CLASSES; i++) {
        ok =
            add_count(classes, kvt_mem_class_name((enum kvt_mem_class)i), session->hbm_by_class[i]);
    }
    return ok && add_count(outside, "metadata", session->metadata_bytes) &&
           add_count(outside, "window", session->window_bytes) &&
           add_count(outside, "rank_staging", session->rank_staging_bytes);
}

static bool add_pool(cJSON *object, const struct kvt_size_pool *pool)
{
    return add_count(object, "running_per_gpu", pool->running_per_gpu) &&
           add_count(object, "running", pool->running) &&
           add_text(object, "limited_by", kvt_size_limit_name(pool->limited_by)) &&
           add_count(object, "host_bytes_at_limit", pool->host_bytes_at_limit);
}

/* The whole of one side: the tightest pool's figures, the sum over pools, and,
 * where there are several, each. */
static bool add_side(cJSON *object, const struct kvt_scenario *scenario,
                     const struct kvt_size_side *side)
{
    const struct kvt_size_pool *tightest = &side->pools[side->tightest];
    struct kvt_size_pool summary = *tightest;
    cJSON *pools = NULL;
    bool ok = true;

    summary.running = side->running;
    for (uint32_t i = 0; i < scenario->pool_count; i++) {
        if (side->pools[i].host_bytes_at_limit > summary.host_bytes_at_limit) {
            summary.host_bytes_at_limit = side->pools[i].host_bytes_at_limit;
        }
    }
    ok = add_count(object, "session_hbm_bytes", side->session.hbm_bytes) &&
         add_count(object, "session_host_bytes", side->session.host_bytes) &&
         add_classes(object, &side->session) && add_pool(object, &summary);
    if (!ok || scenario->pool_count < 2) {
        return ok;
    }
    pools = cJSON_AddArrayToObject(object, "pools");
    ok = pools != NULL;
    for (uint32_t i = 0; ok && i < scenario->pool_count; i++) {
        cJSON *pool = cJSON_CreateObject();

        ok = cJSON_AddItemToArray(pools, pool) && add_pool(pool, &side->pools[i]);
    }
    return ok;
}

static bool add_size(cJSON *object, const struct kvt_scenario *scenario,
                     const struct kvt_size *size)
{
    cJSON *resident = NULL;

    if (!add_count(object, "tokens", size->tokens) ||
        !add_side(object, scenario, &size->scenario)) {
        return false;
    }
    resident = cJSON_AddObjectToObject(object, "resident");
    return resident != NULL && add_side(resident, scenario, &size->resident);
}

static bool add_gpu(cJSON *pools, const struct kvt_decode_pool *pool)
{
    cJSON *gpu = cJSON_CreateObject();
    const struct kvt_hardware *hardware = pool->hardware;

    return cJSON_AddItemToArray(pools, gpu) && add_text(gpu, "hardware", hardware->name) &&
           add_count(gpu, "gpus", pool->gpus) &&
           cJSON_AddNumberToObject(gpu, "usable_gib",
                                   hardware->hbm_gb * 1e9 / (double)KVT_GIB *
                                       hardware->usable_fraction) != NULL &&
           cJSON_AddNumberToObject(gpu, "weights_gib", pool->weights_gib_per_gpu) != NULL &&
           cJSON_AddNumberToObject(gpu, "workspace_gib", hardware->workspace_gib) != NULL &&
           add_count(gpu, "kv_bytes", pool->index_pool_bytes + pool->rows_pool_bytes) &&
           cJSON_AddBoolToObject(gpu, "weights_fit", pool->weights_fit) != NULL;
}

static bool add_head(cJSON *tree, const struct kvt_scenario *scenario,
                     const struct kvt_engine *engine)
{
    cJSON *gpus = NULL;
    bool ok = add_text(tree, "schema", "kvtide/size/1") &&
              add_text(tree, "scenario", scenario->name) &&
              add_text(tree, "model", scenario->llm->name) &&
              add_text(tree, "engine", kvt_engine_name(engine)) &&
              add_text(tree, "residency", scenario->residency.info->name) &&
              add_count(tree, "hot_tokens", scenario->hot_tokens) &&
              add_count(tree, "queries_max", scenario->queries_max) &&
              cJSON_AddBoolToObject(tree, "weights_fit", kvt_size_weights_fit(scenario)) != NULL;

    gpus = ok ? cJSON_AddArrayToObject(tree, "gpu_pools") : NULL;
    ok = gpus != NULL;
    for (uint32_t i = 0; ok && i < scenario->pool_count; i++) {
        ok = add_gpu(gpus, &scenario->pools[i]);
    }
    return ok;
}

cJSON *kvt_size_tree(const struct kvt_scenario *scenario, const struct kvt_engine *engine,
                     const struct kvt_size *sizes, size_t size_count)
{
    cJSON *tree = cJSON_CreateObject();
    cJSON *list = NULL;
    bool ok = tree != NULL && add_head(tree, scenario, engine) &&
              (size_count == 0 || add_size(tree, scenario, &sizes[0]));

    list = ok ? cJSON_AddArrayToObject(tree, "sizes") : NULL;
    ok = list != NULL;
    for (size_t i = 0; ok && i < size_count; i++) {
        cJSON *item = cJSON_CreateObject();

        ok = cJSON_AddItemToArray(list, item) && add_size(item, scenario, &sizes[i]);
    }
    if (!ok) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}
