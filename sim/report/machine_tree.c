/* machine_tree.c -- a machine as JSON, for `kvtide check --machine` and for what was measured on
 * it. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "kvt/json.h"
#include "kvt/machine.h"

static bool add_bytes(cJSON *object, const char *key, uint64_t bytes)
{
    return bytes == UINT64_MAX ? cJSON_AddNullToObject(object, key) != NULL
                               : cJSON_AddNumberToObject(object, key, (double)bytes) != NULL;
}

/* What is not known is null. */
static bool add_known(cJSON *object, const char *key, int64_t value)
{
    return value == KVT_MACHINE_UNKNOWN
               ? cJSON_AddNullToObject(object, key) != NULL
               : cJSON_AddNumberToObject(object, key, (double)value) != NULL;
}

static bool add_flag(cJSON *object, const char *key, int32_t value)
{
    return value == KVT_MACHINE_UNKNOWN ? cJSON_AddNullToObject(object, key) != NULL
                                        : cJSON_AddBoolToObject(object, key, value != 0) != NULL;
}

static bool add_gpu(cJSON *object, const struct kvt_machine_gpu *gpu)
{
    char capability[32];
    (void)snprintf(capability, sizeof capability, "%d.%d", gpu->capability_major,
                   gpu->capability_minor);

    return kvt_json_add_text(object, "name", gpu->name) &&
           kvt_json_add_text(object, "uuid", gpu->uuid) &&
           kvt_json_add_text(object, "pci", gpu->pci) &&
           kvt_json_add_text(object, "compute_capability", capability) &&
           add_known(object, "multiprocessors", gpu->multiprocessors) &&
           add_bytes(object, "memory_bytes", gpu->memory_bytes) &&
           add_bytes(object, "memory_free_bytes", gpu->memory_free_bytes) &&
           add_bytes(object, "l2_bytes", gpu->l2_bytes) &&
           add_known(object, "link_generation", gpu->link_generation) &&
           add_known(object, "link_width", gpu->link_width) &&
           add_known(object, "link_generation_max", gpu->link_generation_max) &&
           add_known(object, "link_width_max", gpu->link_width_max) &&
           cJSON_AddNumberToObject(object, "h2d_bytes_per_s", gpu->h2d_bytes_per_s) != NULL &&
           cJSON_AddNumberToObject(object, "d2h_bytes_per_s", gpu->d2h_bytes_per_s) != NULL &&
           add_known(object, "numa_node", gpu->numa_node) &&
           add_known(object, "sm_mhz", gpu->sm_mhz) &&
           add_known(object, "sm_mhz_max", gpu->sm_mhz_max) &&
           add_known(object, "memory_mhz", gpu->memory_mhz) &&
           add_known(object, "memory_mhz_max", gpu->memory_mhz_max) &&
           add_known(object, "slowdown_reasons", gpu->slowdown) &&
           add_known(object, "power_w", gpu->power_w) &&
           add_known(object, "power_limit_w", gpu->power_limit_w) &&
           add_known(object, "power_default_w", gpu->power_default_w) &&
           add_known(object, "temperature_c", gpu->temperature_c) &&
           add_flag(object, "mig", gpu->is_mig) && add_flag(object, "ecc", gpu->is_ecc) &&
           add_known(object, "ecc_uncorrected", gpu->ecc_uncorrected) &&
           add_known(object, "other_processes", gpu->other_processes);
}

static bool add_host(cJSON *tree, const struct kvt_machine *machine)
{
    return kvt_json_add_text(tree, "driver", machine->driver) &&
           kvt_json_add_text(tree, "cuda_driver", machine->cuda_driver) &&
           kvt_json_add_text(tree, "cuda_runtime", machine->cuda_runtime) &&
           kvt_json_add_text(tree, "cpu", machine->cpu) &&
           kvt_json_add_text(tree, "kernel", machine->kernel) &&
           cJSON_AddBoolToObject(tree, "virtual", machine->is_virtual) != NULL &&
           cJSON_AddNumberToObject(tree, "cpus", machine->cpus) != NULL &&
           cJSON_AddNumberToObject(tree, "numa_nodes", machine->numa_nodes) != NULL &&
           add_bytes(tree, "memory_bytes", machine->memory_bytes) &&
           add_bytes(tree, "memory_available_bytes", machine->memory_available_bytes) &&
           add_bytes(tree, "memory_limit_bytes", machine->memory_limit_bytes) &&
           add_bytes(tree, "memory_used_bytes", machine->memory_used_bytes) &&
           add_bytes(tree, "locked_limit_bytes", machine->locked_limit_bytes);
}

static bool add_gpus(cJSON *tree, const struct kvt_machine *machine)
{
    cJSON *gpus = cJSON_AddArrayToObject(tree, "gpus");
    bool ok = gpus != NULL;

    for (uint32_t i = 0; ok && i < machine->gpu_count; i++) {
        cJSON *gpu = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(gpus, gpu) && add_gpu(gpu, &machine->gpus[i]);
    }
    return ok;
}

/* The verdict: fit where nothing is a fault. */
static bool add_findings(cJSON *tree, const struct kvt_machine *machine)
{
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    size_t count = kvt_machine_findings(machine, findings);
    cJSON *faults = cJSON_AddArrayToObject(tree, "faults");
    cJSON *remarks = cJSON_AddArrayToObject(tree, "remarks");
    bool ok = faults != NULL && remarks != NULL;

    for (size_t i = 0; ok && i < count; i++)
        ok = cJSON_AddItemToArray(findings[i].is_fault ? faults : remarks,
                                  cJSON_CreateString(findings[i].text));
    return ok && cJSON_AddBoolToObject(tree, "fit", count == 0 || !findings[0].is_fault) != NULL;
}

cJSON *kvt_machine_tree(const struct kvt_machine *machine)
{
    cJSON *tree = cJSON_CreateObject();

    if (tree == NULL || !kvt_json_add_text(tree, "schema", "kvtide/machine/1") ||
        !add_host(tree, machine) || !add_gpus(tree, machine) || !add_findings(tree, machine)) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}
