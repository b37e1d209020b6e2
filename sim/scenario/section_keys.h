/* section_keys.h -- the keys of the scenario's sections, each in the file of its name
 * (cluster_keys.c; slo beside run in run_keys.c), and what these share. */
#ifndef KVT_SCENARIO_SECTION_KEYS_H
#define KVT_SCENARIO_SECTION_KEYS_H

#include "keys.h"

extern const struct kvt_key kvt_cluster_keys[];
extern const struct kvt_key kvt_fault_keys[]; /* of one fault in cluster.faults */
extern const struct kvt_key kvt_residency_keys[];
extern const struct kvt_key kvt_speculation_keys[];
extern const struct kvt_key kvt_workload_keys[];
extern const struct kvt_key kvt_slo_keys[];
extern const struct kvt_key kvt_run_keys[];

/* What takes a key's effect away in several sections: keys.c. */
#define WITHOUT_DRAFTS                                                                             \
    {                                                                                              \
        .beside = "speculation.method", .values = "none",                                          \
        .cure = "a speculation.method that drafts"                                                 \
    }
extern const struct kvt_idle kvt_without_drafts[KVT_IDLE_MAX];
extern const struct kvt_idle kvt_without_hot_caches[KVT_IDLE_MAX];
extern const struct kvt_idle kvt_without_events[KVT_IDLE_MAX];

#endif
