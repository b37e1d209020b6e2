/* kvt/hardware.h -- a GPU and its node, from data sheets or measured.
 * Loaded from models/hardware/NAME.json; every number carries its source. */
#ifndef KVT_HARDWARE_H
#define KVT_HARDWARE_H

#include "kvt/arena.h"
#include "kvt/error.h"

KVT_BEGIN_DECLS

struct kvt_hardware {
    const char *name;
    const char *path;
    const char *summary; /* one line for `kvtide list` */
    double hbm_gb;       /* as sold: 141 for an H200 (1e9 bytes) */
    uint64_t hbm_bytes_per_s;
    uint64_t link_h2d_bytes_per_s; /* what a zero-copy gather of wide rows reaches */
    uint64_t link_d2h_bytes_per_s;
    double link_granules_per_s; /* 64-KiB granules of host memory not re-used; 0: not a limit */
    kvt_ns link_latency_ns;     /* floor of a fetch */
    double fp8_flops;           /* dense, per second */
    double bf16_flops;
    uint64_t interconnect_bytes_per_s; /* GPU to GPU, one way */
    double usable_fraction;            /* of HBM that engines may take: 0.92 */
    double workspace_gib;              /* graphs, activations, communication buffers */
    uint32_t gpus_per_node;
    double host_dram_gib;      /* of a usual node */
    uint64_t dram_bytes_per_s; /* of a usual node */
};

struct cJSON;
KVT_CHECKED kvt_status kvt_hardware_from_json(const struct cJSON *tree, const char *path,
                                              struct kvt_arena *arena, struct kvt_hardware *out,
                                              struct kvt_error *err);

/* GiB of one GPU that KV may take beside weights_gib of weights: what is sold x
 * usable_fraction - workspace - weights. Negative where the weights do not fit. */
double kvt_hardware_kv_gib(const struct kvt_hardware *hardware, double weights_gib);

KVT_END_DECLS
#endif
