/* hardware.c -- a GPU and its node, from its file. */
#include "kvt/hardware.h"

#include "modelfile.h"

#define COUNT(key, least, most)                                                                    \
    {                                                                                              \
#key, KVT_FIELD_U64, least, most, offsetof(struct kvt_hardware, key)                       \
    }
#define REAL(key, least, most)                                                                     \
    {                                                                                              \
#key, KVT_FIELD_F64, least, most, offsetof(struct kvt_hardware, key)                       \
    }

static const struct kvt_field fields[] = {
    REAL(hbm_gb, 1, 1e5),
    COUNT(hbm_bytes_per_s, 1, 1e15),
    COUNT(link_h2d_bytes_per_s, 1, 1e15),
    COUNT(link_d2h_bytes_per_s, 1, 1e15),
    REAL(link_granules_per_s, 0, 1e12),
    {"link_latency_ns", KVT_FIELD_NS, 0, 1e9, offsetof(struct kvt_hardware, link_latency_ns)},
    REAL(fp8_flops, 1, 1e20),
    REAL(bf16_flops, 1, 1e20),
    COUNT(interconnect_bytes_per_s, 1, 1e15),
    REAL(usable_fraction, 0.01, 1),
    REAL(workspace_gib, 0, 1e5),
    {"gpus_per_node", KVT_FIELD_U32, 1, 1024, offsetof(struct kvt_hardware, gpus_per_node)},
    REAL(host_dram_gib, 0, 1e7),
    COUNT(dram_bytes_per_s, 1, 1e15),
};

kvt_status kvt_hardware_from_json(const struct cJSON *tree, const char *path,
                                  struct kvt_arena *arena, struct kvt_hardware *out,
                                  struct kvt_error *err)
{
    static const char *const others[] = {KVT_JSON_HEAD_KEYS};
    struct kvt_model_head head;
    struct kvt_hardware hardware = {0};
    kvt_status status = kvt_model_head_read(tree, path, "kvtide/hardware/1", arena, &head, err);

    if (status != KVT_OK) {
        return status;
    }
    status = kvt_fields_read(tree, head.where, fields, sizeof fields / sizeof fields[0], others,
                             sizeof others / sizeof others[0], &hardware, err);
    if (status == KVT_OK) {
        status = kvt_json_check_sources(tree, head.where, err);
    }
    if (status != KVT_OK) {
        return status;
    }
    hardware.name = head.name;
    hardware.path = head.path;
    hardware.summary = head.summary;
    *out = hardware;
    return KVT_OK;
}

double kvt_hardware_kv_gib(const struct kvt_hardware *hardware, double weights_gib)
{
    double sold_gib = hardware->hbm_gb * 1e9 / (double)KVT_GIB;

    return sold_gib * hardware->usable_fraction - weights_gib - hardware->workspace_gib;
}
