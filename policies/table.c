/* table.c -- the built-in policies, one line each: the only other file that a new one touches. */
#include "table.h"

static const struct kvt_plugin_info *const residency[] = {
    &kvt_residency_resident.info,      &kvt_residency_hisparse.info,
    &kvt_residency_adaptive.info,      &kvt_residency_vllm_hybrid.info,
    &kvt_residency_sglang_demote.info, &kvt_residency_prefix_offload.info,
    &kvt_residency_oracle_pages.info,
};

static const struct kvt_plugin_info *const replacement[] = {
    &kvt_replacement_lru.info,          &kvt_replacement_access_lru.info,
    &kvt_replacement_fifo.info,         &kvt_replacement_clock.info,
    &kvt_replacement_lfu.info,          &kvt_replacement_sieve.info,
    &kvt_replacement_s3fifo.info,       &kvt_replacement_arc.info,
    &kvt_replacement_two_q.info,        &kvt_replacement_random.info,
    &kvt_replacement_sharded_lru.info,  &kvt_replacement_belady.info,
    &kvt_replacement_oracle_pages.info, &kvt_replacement_bucketed_lru.info,
};

static const struct kvt_plugin_info *const scheduling[] = {
    &kvt_scheduling_fcfs.info,
    &kvt_scheduling_sjf.info,
    &kvt_scheduling_strata.info,
    &kvt_scheduling_io_adaptive.info,
};

static const struct kvt_plugin_info *const router[] = {
    &kvt_router_round_robin.info,
    &kvt_router_least_loaded.info,
    &kvt_router_shortest_queue.info,
    &kvt_router_cache_aware.info,
};

#define LIST(table) (*count = sizeof(table) / sizeof(table)[0], (table))

const struct kvt_plugin_info *const *kvt_policies_table(enum kvt_plugin_kind kind, size_t *count)
{
    switch (kind) {
    case KVT_PLUGIN_RESIDENCY:
        return LIST(residency);
    case KVT_PLUGIN_REPLACEMENT:
        return LIST(replacement);
    case KVT_PLUGIN_SCHEDULING:
        return LIST(scheduling);
    case KVT_PLUGIN_ROUTER:
        return LIST(router);
    default:
        *count = 0;
        return NULL;
    }
}
