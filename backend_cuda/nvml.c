/* nvml.c -- what NVML says of a GPU. Its interface is stated here as nvml.h has it, which CUDA's
 * own packages do not always bring. */
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NVML_SUCCESS = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEMORY = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_ERROR_UNCORRECTED = 1,
    NVML_COUNTER_VOLATILE = 0, /* since the last boot */
    NVML_PROCESSES_MAX = 64
};

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

typedef int unsigned_call(void *device, unsigned *out);

struct kvt_nvml {
    void *object; /* of dlopen() */
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *out, unsigned bytes);
    int (*handle)(const char *pci, void **device);
    int (*uuid)(void *device, char *out, unsigned bytes);
    unsigned_call *link_generation, *link_width, *link_generation_max, *link_width_max;
    unsigned_call *power_mw, *power_limit_mw, *power_default_mw;
    int (*clock)(void *device, int type, unsigned *out);
    int (*clock_max)(void *device, int type, unsigned *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*slowdown)(void *device, unsigned long long *out);
    int (*mig)(void *device, unsigned *current, unsigned *pending);
    int (*ecc)(void *device, unsigned *current, unsigned *pending);
    int (*ecc_errors)(void *device, int type, int counter, unsigned long long *out);
    int (*processes)(void *device, unsigned *count, struct nvml_process *out);
};

/* Whether all calls are there. */
static bool find_calls(struct kvt_nvml *nvml)
{
    const struct {
        const char *name;
        void **call;
    } wanted[] = {
        {"nvmlInit_v2", (void **)&nvml->init},
        {"nvmlShutdown", (void **)&nvml->shutdown},
        {"nvmlSystemGetDriverVersion", (void **)&nvml->driver},
        {"nvmlDeviceGetHandleByPciBusId_v2", (void **)&nvml->handle},
        {"nvmlDeviceGetUUID", (void **)&nvml->uuid},
        {"nvmlDeviceGetCurrPcieLinkGeneration", (void **)&nvml->link_generation},
        {"nvmlDeviceGetCurrPcieLinkWidth", (void **)&nvml->link_width},
        {"nvmlDeviceGetMaxPcieLinkGeneration", (void **)&nvml->link_generation_max},
        {"nvmlDeviceGetMaxPcieLinkWidth", (void **)&nvml->link_width_max},
        {"nvmlDeviceGetPowerUsage", (void **)&nvml->power_mw},
        {"nvmlDeviceGetPowerManagementLimit", (void **)&nvml->power_limit_mw},
        {"nvmlDeviceGetPowerManagementDefaultLimit", (void **)&nvml->power_default_mw},
        {"nvmlDeviceGetClockInfo", (void **)&nvml->clock},
        {"nvmlDeviceGetMaxClockInfo", (void **)&nvml->clock_max},
        {"nvmlDeviceGetTemperature", (void **)&nvml->temperature},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", (void **)&nvml->slowdown},
        {"nvmlDeviceGetMigMode", (void **)&nvml->mig},
        {"nvmlDeviceGetEccMode", (void **)&nvml->ecc},
        {"nvmlDeviceGetTotalEccErrors", (void **)&nvml->ecc_errors},
        {"nvmlDeviceGetComputeRunningProcesses_v3", (void **)&nvml->processes},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        *wanted[i].call = dlsym(nvml->object, wanted[i].name);
        if (*wanted[i].call == NULL)
            return false;
    }
    return true;
}

struct kvt_nvml *kvt_nvml_open(void)
{
    struct kvt_nvml *nvml = calloc(1, sizeof *nvml);

    if (nvml == NULL)
        return NULL;
    nvml->object = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->object != NULL && find_calls(nvml) && nvml->init() == NVML_SUCCESS)
        return nvml;
    if (nvml->object != NULL)
        (void)dlclose(nvml->object);
    free(nvml);
    return NULL;
}

void kvt_nvml_close(struct kvt_nvml *nvml)
{
    if (nvml == NULL)
        return;
    (void)nvml->shutdown();
    (void)dlclose(nvml->object);
    free(nvml);
}

void kvt_nvml_driver(const struct kvt_nvml *nvml, char *out, size_t out_bytes)
{
    if (nvml->driver(out, (unsigned)out_bytes) != NVML_SUCCESS)
        out[0] = '\0';
}

static void *device_of(const struct kvt_nvml *nvml, const struct kvt_machine_gpu *gpu)
{
    void *device = NULL;
    return nvml->handle(gpu->pci, &device) == NVML_SUCCESS ? device : NULL;
}

/* The call's answer over `unit`. */
static int32_t number(unsigned_call *call, void *device, unsigned unit)
{
    unsigned value = 0;
    return call(device, &value) == NVML_SUCCESS ? (int32_t)(value / unit) : KVT_MACHINE_UNKNOWN;
}

static int32_t clock_mhz(int (*call)(void *, int, unsigned *), void *device, int type)
{
    unsigned value = 0;
    return call(device, type, &value) == NVML_SUCCESS ? (int32_t)value : KVT_MACHINE_UNKNOWN;
}

static int32_t mode(int (*call)(void *, unsigned *, unsigned *), void *device)
{
    unsigned current = 0;
    unsigned pending = 0;
    return call(device, &current, &pending) == NVML_SUCCESS ? (int32_t)current
                                                            : KVT_MACHINE_UNKNOWN;
}

void kvt_nvml_describe(const struct kvt_nvml *nvml, int32_t own_processes,
                       struct kvt_machine_gpu *gpu)
{
    void *device = device_of(nvml, gpu);
    struct nvml_process processes[NVML_PROCESSES_MAX];
    unsigned count = NVML_PROCESSES_MAX;
    unsigned long long errors = 0;

    if (device == NULL)
        return;
    if (nvml->uuid(device, gpu->uuid, sizeof gpu->uuid) != NVML_SUCCESS)
        gpu->uuid[0] = '\0';
    gpu->link_generation_max = number(nvml->link_generation_max, device, 1);
    gpu->link_width_max = number(nvml->link_width_max, device, 1);
    gpu->sm_mhz_max = clock_mhz(nvml->clock_max, device, NVML_CLOCK_SM);
    gpu->memory_mhz_max = clock_mhz(nvml->clock_max, device, NVML_CLOCK_MEMORY);
    gpu->power_limit_w = number(nvml->power_limit_mw, device, 1000);
    gpu->power_default_w = number(nvml->power_default_mw, device, 1000);
    gpu->is_mig = mode(nvml->mig, device);
    gpu->is_ecc = mode(nvml->ecc, device);
    if (nvml->ecc_errors(device, NVML_ERROR_UNCORRECTED, NVML_COUNTER_VOLATILE, &errors) ==
        NVML_SUCCESS)
        gpu->ecc_uncorrected = (int64_t)errors;
    /* Counted, not compared by number: a container sees other numbers than the driver. */
    if (nvml->processes(device, &count, processes) == NVML_SUCCESS)
        gpu->other_processes = (int32_t)count > own_processes ? (int32_t)count - own_processes : 0;
}

void kvt_nvml_sample_link(const struct kvt_nvml *nvml, struct kvt_machine_gpu *gpu)
{
    void *device = device_of(nvml, gpu);

    if (device == NULL)
        return;
    gpu->link_generation = number(nvml->link_generation, device, 1);
    gpu->link_width = number(nvml->link_width, device, 1);
}

void kvt_nvml_sample_clocks(const struct kvt_nvml *nvml, struct kvt_machine_gpu *gpu)
{
    void *device = device_of(nvml, gpu);
    unsigned value = 0;
    unsigned long long reasons = 0;

    if (device == NULL)
        return;
    gpu->sm_mhz = clock_mhz(nvml->clock, device, NVML_CLOCK_SM);
    gpu->memory_mhz = clock_mhz(nvml->clock, device, NVML_CLOCK_MEMORY);
    gpu->power_w = number(nvml->power_mw, device, 1000);
    if (nvml->slowdown(device, &reasons) == NVML_SUCCESS)
        gpu->slowdown = (int64_t)reasons;
    if (nvml->temperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        gpu->temperature_c = (int32_t)value;
}
