/* scenario_facts.c -- a scenario in an engine's terms. */
#include <math.h>
#include <string.h>

#include "engine.h"
#include "kvt/json.h"
#include "kvt/plugins.h"

#define GIB ((double)KVT_GIB)

void engine_model_facts(const struct kvt_engine *engine, const struct kvt_llm *llm,
                        struct kvt_engine_facts *facts)
{
    bool compressed = false;

    for (uint32_t i = 0; i < llm->store_count; i++)
        compressed =
            compressed || llm->stores[i].compress_ratio > kvt_store_block_rows(&llm->stores[i]);
    kvt_engine_set_number(facts, "dense", llm->index_heads == 0);
    kvt_engine_set_number(facts, "heads", llm->heads);
    kvt_engine_set_number(facts, "compressed", compressed);
    kvt_engine_set_number(facts, "blocks", kvt_llm_block_rows(llm) > 1);
    kvt_engine_set_number(facts, "unaligned",
                          llm->payload.wire_bytes > llm->payload.capacity_bytes);
    kvt_engine_set_number(facts, "row_bytes", llm->payload.capacity_bytes);
    kvt_engine_set_number(facts, "top_k", llm->top_k);
    kvt_engine_set_number(facts, "hot_most", engine->hot_most_tokens);
}

static void set_kv_format(const struct kvt_llm *llm, struct kvt_engine_facts *facts)
{
    double bf16 = 2.0 * (llm->latent_dim + llm->rope_dim);
    uint32_t scales = llm->latent_dim / 128;
    double packed = llm->latent_dim + scales * 4.0 + 2.0 * llm->rope_dim;

    if (llm->index_heads == 0)
        return;
    if (llm->payload.capacity_bytes == bf16)
        kvt_engine_set_text(facts, "kv_dtype", "bf16");
    else if (llm->payload.capacity_bytes == packed)
        kvt_engine_set_text(facts, "kv_dtype", "fp8_ds_mla");
    else if (llm->payload.capacity_bytes == llm->latent_dim + llm->rope_dim)
        kvt_engine_set_text(facts, "kv_dtype", "fp8");
}

static void set_cluster(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                        struct kvt_engine_facts *facts)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    bool on_one_node = pool->gpus <= pool->gpus_per_node;

    kvt_engine_set_text(facts, "hardware", pool->hardware->name);
    kvt_engine_set_number(facts, "pools", scenario->pool_count);
    kvt_engine_set_number(facts, "gpus", pool->gpus);
    kvt_engine_set_number(facts, "tp", pool->tp);
    kvt_engine_set_number(facts, "dp", pool->dp);
    kvt_engine_set_number(facts, "pp", 1);
    kvt_engine_set_number(facts, "expert_parallel", pool->ep > 1);
    kvt_engine_set_number(facts, "split_pools", pool->pools_given && !pool->pools_unified);
    kvt_engine_set_number(facts, "host_node_gib", pool->hardware->host_dram_gib);
    uint32_t nodes = (pool->gpus + pool->gpus_per_node - 1) / pool->gpus_per_node;
    if (!on_one_node)
        kvt_engine_set_number(facts, "nodes", nodes);
    /* SGLang splits the GPUs of one tensor-parallel group; TensorRT-LLM makes each a replica. */
    bool splits = strcmp(engine->family, "sglang") == 0 && pool->dp > 1 && pool->ep > 1;
    bool each = strcmp(engine->family, "trtllm") == 0 && pool->dp > 1 && pool->tp == 1;
    kvt_engine_set_number(facts, "dp_attention", splits);
    kvt_engine_set_number(facts, "attention_dp", each);
    kvt_engine_set_number(facts, "world_tp", splits || each ? pool->gpus : pool->tp);
    if (pool->ep > 1)
        kvt_engine_set_number(facts, "ep", pool->ep);
}

/* The engine's own words for a pool of bytes: a fraction of the GPU, or tokens, or bytes. */
static void set_memory(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                       struct kvt_engine_facts *facts)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double bytes = (double)(pool->index_pool_bytes + pool->rows_pool_bytes);
    double payload = kvt_llm_payload_bytes_per_token(scenario->llm);
    double index = kvt_llm_index_bytes_per_token(scenario->llm);
    double page = engine->layout.page_tokens;

    if (!pool->pools_given && !engine->fraction_of_free)
        kvt_engine_set_number(facts, "memory_fraction", pool->hardware->usable_fraction);
    else if (engine->host_ratio <= 0 && !engine->fraction_of_free)
        kvt_engine_set_number(facts, "pool_gib", bytes / GIB);
    if (engine->host_ratio > 0 && pool->pools_given) {
        double rows = pool->rows_pool_bytes > 0 ? (double)pool->rows_pool_bytes / payload
                                                : bytes / (payload + index);
        kvt_engine_set_number(facts, "pool_tokens", (double)(uint64_t)(rows / page) * page);
    }
}

/* Host DRAM of a node for rows: as the scenario says; where that is all that the node has, what the
 * requests that fit take, which is what one would pin. */
static double host_gib_per_node(const struct kvt_scenario *scenario, const struct kvt_size *size)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    double needed = (double)size->scenario.pools[0].host_bytes_at_limit / GIB;

    if (pool->host_dram_gib_per_node < pool->hardware->host_dram_gib || needed <= 0)
        return pool->host_dram_gib_per_node;
    return ceil(needed) + 1;
}

static void set_host(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                     double node_gib, struct kvt_engine_facts *facts)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    uint32_t ranks = pool->tp < pool->gpus_per_node ? pool->tp : pool->gpus_per_node;
    uint32_t room = pool->gpus_per_node / ranks;
    uint32_t replicas = pool->dp < room ? pool->dp : room;
    uint32_t gpus = pool->gpus < pool->gpus_per_node ? pool->gpus : pool->gpus_per_node;
    double copies = (double)replicas * (pool->host_pool_per_rank ? ranks : 1);
    double gib = node_gib / copies;
    double payload = kvt_llm_payload_bytes_per_token(scenario->llm);
    double index = kvt_llm_index_bytes_per_token(scenario->llm);
    double tokens = kvt_engine_number(facts, "pool_tokens", 0);

    if (!kvt_engine_is(facts, "hierarchy")) {
        kvt_engine_set_number(facts, "offload_gib", gib);
        return;
    }
    kvt_engine_set_number(facts, "host_gib", gib);
    kvt_engine_set_number(facts, "host_pinned_gib", gib * copies);
    if (engine->host_ratio <= 0)
        return;
    /* A whole number, as the engine takes it: up, so that a replica's rows fit; each rank of it
     * has them all. */
    if (tokens <= 0)
        tokens = (double)(pool->index_pool_bytes + pool->rows_pool_bytes) / (payload + index);
    double ratio = ceil(gib * GIB / payload / tokens);
    kvt_engine_set_number(facts, "host_ratio", ratio);
    kvt_engine_set_number(facts, "host_tokens", floor(tokens * ratio));
    kvt_engine_set_number(facts, "host_pinned_gib", tokens * ratio * payload / GIB * gpus);
    kvt_engine_set_number(facts, "configured_top_k", scenario->llm->top_k);
}

/* Of the policies that a request meets: one that came with --plugin. */
static bool is_loaded(const struct kvt_scenario *scenario)
{
    const struct kvt_plugin_info *const used[] = {
        scenario->residency.info, scenario->replacement.info, scenario->speculation.info,
        scenario->scheduling.info, scenario->router.info};
    size_t file_count = 0;
    const struct kvt_plugin_file *files = kvt_plugins_files(scenario->plugins, &file_count);

    for (size_t f = 0; f < file_count; f++) {
        for (size_t i = 0; i < files[f].table_count; i++) {
            for (size_t k = 0; k < sizeof used / sizeof used[0]; k++) {
                if (files[f].tables[i].info == used[k])
                    return true;
            }
        }
    }
    return false;
}

static uint64_t longest(const struct kvt_scenario *scenario)
{
    uint64_t tokens = 0;
    struct kvt_error err;

    if (kvt_size_own_tokens(scenario, &tokens, &err) != KVT_OK)
        return scenario->llm->max_position_tokens;
    return tokens;
}

/* In the engine's layout, or as rows are where it has none for them. */
static bool size_longest(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                         struct kvt_size *size)
{
    uint64_t tokens = longest(scenario);
    struct kvt_error err;

    return kvt_size_at(scenario, engine, tokens, size, &err) == KVT_OK ||
           kvt_size_at(scenario, KVT_ENGINE_IDEAL, tokens, size, &err) == KVT_OK;
}

void engine_scenario_facts(const struct kvt_engine *engine, const struct kvt_scenario *scenario,
                           struct kvt_engine_facts *facts)
{
    const char *policy = scenario->residency.info->name;
    bool offload = strcmp(policy, "prefix-offload") == 0;
    bool hierarchy = !offload && strcmp(policy, "resident") != 0;
    double queries = scenario->queries_max;
    struct kvt_size size;
    bool is_sized = size_longest(engine, scenario, &size);

    *facts = (struct kvt_engine_facts){.of = {{0}}};
    kvt_engine_set_text(facts, "model", scenario->llm->name);
    engine_model_facts(engine, scenario->llm, facts);
    set_kv_format(scenario->llm, facts);
    kvt_engine_set_text(facts, "policy", policy);
    kvt_engine_set_number(facts, "hierarchy", hierarchy);
    kvt_engine_set_number(facts, "offload", offload);
    kvt_engine_set_text(facts, "replacement", scenario->replacement.info->name);
    kvt_engine_set_text(facts, "method", scenario->speculation.info->name);
    kvt_engine_set_number(facts, "queries", queries);
    kvt_engine_set_number(facts, "speculates", queries > 1);
    kvt_engine_set_number(facts, "hot_least",
                          engine->hot_least_per_query * queries * scenario->llm->top_k);
    if (hierarchy) {
        kvt_engine_set_number(facts, "hot_tokens", (double)scenario->hot_tokens);
        kvt_engine_set_number(facts, "hot_factor",
                              (double)scenario->hot_tokens / scenario->llm->top_k);
    }
    kvt_engine_set_number(facts, "staging",
                          hierarchy && queries > 1 && scenario->staging_fraction > 0);
    kvt_engine_set_number(facts, "each_query", scenario->resolve_each_query);
    kvt_engine_set_number(facts, "prefetch", kvt_predicts_rows(&scenario->prefetch));
    kvt_engine_set_number(facts, "read_depth", kvt_reads_planes(&scenario->read_depth));
    kvt_engine_set_number(facts, "plugin", is_loaded(scenario));
    kvt_engine_set_text(facts, "prefill",
                        scenario->prefill.mode == KVT_PREFILL_COLOCATED ? "colocated" : "decode");
    kvt_engine_set_number(facts, "prefix_cache",
                          !(hierarchy && strcmp(engine->family, "sglang") == 0));
    kvt_engine_set_number(facts, "max_tokens", (double)longest(scenario));
    set_cluster(engine, scenario, facts);
    set_memory(engine, scenario, facts);
    if (is_sized) {
        const struct kvt_size_pool *filled = &size.scenario.pools[0];
        double running = (double)(engine->seats_of_all ? filled->running : filled->running_per_gpu);
        kvt_engine_set_number(facts, "running", running);
        if (running > 0)
            kvt_engine_set_number(facts, "max_requests", running);
    }
    if (hierarchy || offload)
        set_host(engine, scenario,
                 is_sized ? host_gib_per_node(scenario, &size)
                          : scenario->pools[0].host_dram_gib_per_node,
                 facts);
}
