/* table.h -- the built-in policies: declarations, and the list of them. */
#ifndef KVT_POLICIES_TABLE_H
#define KVT_POLICIES_TABLE_H

#include "kvt/policy.h"

extern const struct kvt_residency_policy kvt_residency_resident;
extern const struct kvt_residency_policy kvt_residency_hisparse;
extern const struct kvt_residency_policy kvt_residency_adaptive;
extern const struct kvt_residency_policy kvt_residency_vllm_hybrid;
extern const struct kvt_residency_policy kvt_residency_sglang_demote;
extern const struct kvt_residency_policy kvt_residency_prefix_offload;
extern const struct kvt_residency_policy kvt_residency_oracle_pages;

extern const struct kvt_replacement_policy kvt_replacement_lru;
extern const struct kvt_replacement_policy kvt_replacement_access_lru;
extern const struct kvt_replacement_policy kvt_replacement_fifo;
extern const struct kvt_replacement_policy kvt_replacement_clock;
extern const struct kvt_replacement_policy kvt_replacement_lfu;
extern const struct kvt_replacement_policy kvt_replacement_sieve;
extern const struct kvt_replacement_policy kvt_replacement_s3fifo;
extern const struct kvt_replacement_policy kvt_replacement_arc;
extern const struct kvt_replacement_policy kvt_replacement_two_q;
extern const struct kvt_replacement_policy kvt_replacement_random;
extern const struct kvt_replacement_policy kvt_replacement_sharded_lru;
extern const struct kvt_replacement_policy kvt_replacement_belady;
extern const struct kvt_replacement_policy kvt_replacement_oracle_pages;
extern const struct kvt_replacement_policy kvt_replacement_bucketed_lru;

extern const struct kvt_scheduling_policy kvt_scheduling_fcfs;
extern const struct kvt_scheduling_policy kvt_scheduling_io_adaptive;
extern const struct kvt_scheduling_policy kvt_scheduling_sjf;
extern const struct kvt_scheduling_policy kvt_scheduling_strata;

extern const struct kvt_router_policy kvt_router_round_robin;
extern const struct kvt_router_policy kvt_router_least_loaded;
extern const struct kvt_router_policy kvt_router_shortest_queue;
extern const struct kvt_router_policy kvt_router_cache_aware;

#endif
