/* engine_names.c -- what vLLM, SGLang and TensorRT-LLM call the same things: an unknown key that
 * is one of these is answered with ours. Source: their argument parsers and benchmark clients. */
#include <stddef.h>

#include "keys.h"

struct engine_name {
    const char *theirs; /* with '_'; a leading "--" and '-' for '_' are understood */
    const char *ours;
};

static const struct engine_name names[] = {
    {"device_buffer_size", "residency.hot_tokens"},
    {"hot_size", "residency.hot_tokens"},
    {"gpu_cache_factor", "residency.hot_tokens, as \"2k\""},
    {"hisparse_config", "residency"},
    {"sparse_kv_cache_offload_config", "residency"},
    {"host_to_device_ratio", "cluster.decode.host_dram_gib_per_node"},
    {"host_pool_gib", "cluster.decode.host_dram_gib_per_node"},
    {"host_history_size", "cluster.decode.host_dram_gib_per_node"},
    {"hicache_size", "cluster.decode.host_dram_gib_per_node"},
    {"hicache_ratio", "cluster.decode.host_dram_gib_per_node"},
    {"swap_space", "cluster.decode.host_dram_gib_per_node"},
    {"cpu_offload_gb", "cluster.decode.host_dram_gib_per_node"},
    {"tensor_parallel_size", "cluster.decode.tp"},
    {"tp_size", "cluster.decode.tp"},
    {"data_parallel_size", "cluster.decode.dp"},
    {"dp_size", "cluster.decode.dp"},
    {"expert_parallel_size", "cluster.decode.ep"},
    {"moe_expert_parallel_size", "cluster.decode.ep"},
    {"enable_expert_parallel", "cluster.decode.ep"},
    {"ep_size", "cluster.decode.ep"},
    {"gpu_memory_utilization", "hardware.usable_fraction, or cluster.decode.pools"},
    {"mem_fraction_static", "hardware.usable_fraction, or cluster.decode.pools"},
    {"free_gpu_memory_fraction", "hardware.usable_fraction, or cluster.decode.pools"},
    {"num_gpu_blocks_override", "cluster.decode.pools.unified_gib"},
    {"max_total_tokens", "cluster.decode.pools.unified_gib"},
    {"max_num_seqs", "what fits in cluster.decode.pools; a batch has no other bound"},
    {"max_running_requests", "what fits in cluster.decode.pools; a batch has no other bound"},
    {"max_batch_size", "what fits in cluster.decode.pools; a batch has no other bound"},
    {"block_size", "always 64 tokens, which is no setting"},
    {"page_size", "always 64 tokens, which is no setting"},
    {"tokens_per_block", "always 64 tokens, which is no setting"},
    {"swap_in_block_size", "hardware.link_granules_per_s"},
    {"index_topk", "model.top_k"},
    {"max_model_len", "model.max_position_tokens"},
    {"context_length", "model.max_position_tokens"},
    {"max_seq_len", "model.max_position_tokens"},
    {"scheduling_policy", "cluster.scheduling.policy"},
    {"schedule_policy", "cluster.scheduling.policy"},
    {"load_balance_method", "cluster.router.policy"},
    {"speculative_config", "speculation"},
    {"speculative_algorithm", "speculation.method"},
    {"num_speculative_tokens", "speculation.block, which counts the anchor too"},
    {"speculative_num_draft_tokens", "speculation.block"},
    {"max_draft_len", "speculation.block, which counts the anchor too"},
    {"draft_model_path", "speculation.drafter"},
    {"speculative_draft_model_path", "speculation.drafter"},
    {"max_concurrency", "workload.closed.concurrency"},
    {"num_prompts", "workload.closed.requests or workload.open.requests"},
    {"request_rate", "workload.open.rate"},
    {"dataset_path", "workload.trace.path"},
    {"input_len", "workload.lengths.input"},
    {"random_input_len", "workload.lengths.input"},
    {"output_len", "workload.lengths.output"},
    {"random_output_len", "workload.lengths.output"},
    {"max_tokens", "workload.lengths.output"},
    {"random_seed", "seed"},
    {"goodput", "slo.classes"},
};

static bool is_same(const char *given, const char *theirs)
{
    if (given[0] == '-' && given[1] == '-')
        given += 2;
    for (; *given != '\0' && *theirs != '\0'; given++, theirs++) {
        if (*given != *theirs && !(*given == '-' && *theirs == '_'))
            return false;
    }
    return *given == *theirs;
}

const char *kvt_engine_key(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_same(name, names[i].theirs))
            return names[i].ours;
    }
    return NULL;
}
