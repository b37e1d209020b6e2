/* machine.c -- looks at GPUs under load, and at the host around them. */
#define _GNU_SOURCE /* sched_getaffinity(), for the processors that a container leaves us */
#include "kvt/machine.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cuda_error.h"
#include "launch.h"
#include "nvml.h"

/* ---- The host ------------------------------------------------------------------------ */

/* The number behind `key` in a file of "key: number" lines; 0 where it is not there. */
static uint64_t number_in(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    const size_t key_bytes = strlen(key);
    char line[512];
    uint64_t value = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, key_bytes) == 0) {
            value = strtoull(line + key_bytes, NULL, 10);
            break;
        }
    }
    (void)fclose(file);
    return value;
}

/* A file that is one number, or "max"; `otherwise` where it cannot be read. */
static uint64_t number_of(const char *path, uint64_t otherwise)
{
    FILE *file = fopen(path, "r");
    char line[64] = "";

    if (file == NULL)
        return otherwise;
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    (void)fclose(file);
    if (line[0] < '0' || line[0] > '9')
        return otherwise;
    return strtoull(line, NULL, 10);
}

/* The processor's name and whether a hypervisor is under it. */
static void read_cpu(struct kvt_machine *machine)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[8192];

    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
        const char *value = strchr(line, ':');
        if (value == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "model name", 10) == 0)
            (void)snprintf(machine->cpu, sizeof machine->cpu, "%s", value + 2);
        else if (strncmp(line, "flags", 5) == 0)
            machine->is_virtual = strstr(value, " hypervisor") != NULL;
    }
    (void)fclose(file);
}

/* The tightest limit from this process's control group up to the root, version 2 or 1. */
static void read_memory_limit(struct kvt_machine *machine)
{
    char group[512] = "/";
    char line[512];
    FILE *file = fopen("/proc/self/cgroup", "r");

    machine->memory_limit_bytes =
        number_of("/sys/fs/cgroup/memory/memory.limit_in_bytes", UINT64_MAX);
    machine->memory_used_bytes =
        number_of("/sys/fs/cgroup/memory/memory.usage_in_bytes", UINT64_MAX);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0)
            (void)snprintf(group, sizeof group, "%s", line + 3);
    }
    if (file != NULL)
        (void)fclose(file);
    for (;;) {
        char path[600];
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        uint64_t limit = number_of(path, UINT64_MAX);
        if (limit < machine->memory_limit_bytes) {
            machine->memory_limit_bytes = limit;
            (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
            machine->memory_used_bytes = number_of(path, UINT64_MAX);
        }
        char *last = strrchr(group, '/');
        if (last == NULL || group[0] == '\0')
            break;
        *last = '\0';
    }
    /* Version 1 writes no limit as the largest whole page. */
    if (machine->memory_limit_bytes > UINT64_MAX / 4)
        machine->memory_limit_bytes = UINT64_MAX;
}

static void read_host(struct kvt_machine *machine)
{
    struct utsname kernel;
    struct rlimit locked;
    cpu_set_t allowed;

    if (uname(&kernel) == 0)
        (void)snprintf(machine->kernel, sizeof machine->kernel, "%.20s %.70s", kernel.sysname,
                       kernel.release);
    machine->cpus = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                        ? (uint32_t)CPU_COUNT(&allowed)
                        : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    for (;; machine->numa_nodes++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/sys/devices/system/node/node%u", machine->numa_nodes);
        if (access(path, F_OK) != 0)
            break;
    }
    machine->memory_bytes = number_in("/proc/meminfo", "MemTotal:") * 1024;
    machine->memory_available_bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    machine->locked_limit_bytes = UINT64_MAX;
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY)
        machine->locked_limit_bytes = locked.rlim_cur;
    read_cpu(machine);
    read_memory_limit(machine);
}

/* ---- GPUs ---------------------------------------------------------------------------- */

enum {
    COPY_BYTES = 64 << 20,
    COPIES = 24 /* 1.5 GiB: 30 ms, and longer on a slow link */
};

/* One direction's copies; while they run, the link is looked at. */
static cudaError_t time_copies(const struct kvt_nvml *nvml, void *to, const void *from,
                               cudaStream_t stream, cudaEvent_t events[2],
                               struct kvt_machine_gpu *gpu, double *bytes_per_s)
{
    float ms = 0;
    cudaError_t error = cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDefault, stream);

    if (error == cudaSuccess)
        error = cudaEventRecord(events[0], stream);
    for (int i = 0; error == cudaSuccess && i < COPIES; i++)
        error = cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDefault, stream);
    if (error == cudaSuccess)
        error = cudaEventRecord(events[1], stream);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(events[0]);
    if (error == cudaSuccess && nvml != NULL)
        kvt_nvml_sample_link(nvml, gpu);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(events[1]);
    if (error == cudaSuccess)
        error = cudaEventElapsedTime(&ms, events[0], events[1]);
    if (error == cudaSuccess && ms > 0)
        *bytes_per_s = (double)COPY_BYTES * COPIES / ms * 1e3;
    return error;
}

/* A kernel over device memory; while it runs, clocks are looked at. */
static cudaError_t run_kernels(const struct kvt_nvml *nvml, void *device, cudaStream_t stream,
                               cudaEvent_t begun, struct kvt_machine_gpu *gpu)
{
    const struct kvt_gpu_make_rows make = {.layers = 1,
                                           .format = KVT_GPU_ROW_E4M3_576,
                                           .row_count = COPY_BYTES / 576,
                                           .dst = device,
                                           .row_stride = 576,
                                           .layer_stride = 576};
    const int rounds = 1000; /* some 50 ms: clocks rise within a few */
    cudaError_t error = cudaSuccess;

    for (int i = 0; error == cudaSuccess && i < rounds; i++) {
        error = kvt_gpu_make_rows(&make, stream);
        if (error == cudaSuccess && i == rounds / 2)
            error = cudaEventRecord(begun, stream);
    }
    if (error == cudaSuccess)
        error = cudaEventSynchronize(begun);
    if (error == cudaSuccess && nvml != NULL)
        kvt_nvml_sample_clocks(nvml, gpu);
    return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

static cudaError_t load_gpu(const struct kvt_nvml *nvml, struct kvt_machine_gpu *gpu)
{
    void *host = NULL;
    void *device = NULL;
    cudaStream_t stream = NULL;
    cudaEvent_t events[2] = {NULL, NULL};
    cudaError_t error = cudaHostAlloc(&host, COPY_BYTES, cudaHostAllocDefault);

    if (error == cudaSuccess)
        error = cudaMalloc(&device, COPY_BYTES);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (int i = 0; error == cudaSuccess && i < 2; i++)
        error = cudaEventCreate(&events[i]);
    if (error == cudaSuccess)
        error = time_copies(nvml, device, host, stream, events, gpu, &gpu->h2d_bytes_per_s);
    if (error == cudaSuccess)
        error = time_copies(nvml, host, device, stream, events, gpu, &gpu->d2h_bytes_per_s);
    if (error == cudaSuccess)
        error = run_kernels(nvml, device, stream, events[0], gpu);
    for (int i = 0; i < 2; i++)
        if (events[i] != NULL)
            (void)cudaEventDestroy(events[i]);
    if (stream != NULL)
        (void)cudaStreamDestroy(stream);
    (void)cudaFree(device);
    (void)cudaFreeHost(host);
    return error;
}

/* What the runtime knows; the rest unknown. */
static cudaError_t describe_gpu(int index, struct kvt_machine_gpu *gpu)
{
    struct cudaDeviceProp properties;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    const int32_t none = KVT_MACHINE_UNKNOWN;

    *gpu = (struct kvt_machine_gpu){.link_generation = none,
                                    .link_width = none,
                                    .link_generation_max = none,
                                    .link_width_max = none,
                                    .numa_node = none,
                                    .sm_mhz = none,
                                    .sm_mhz_max = none,
                                    .memory_mhz = none,
                                    .memory_mhz_max = none,
                                    .slowdown = none,
                                    .power_w = none,
                                    .power_limit_w = none,
                                    .power_default_w = none,
                                    .temperature_c = none,
                                    .is_mig = none,
                                    .is_ecc = none,
                                    .ecc_uncorrected = none,
                                    .other_processes = none};
    if (error == cudaSuccess)
        error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaDeviceGetPCIBusId(gpu->pci, sizeof gpu->pci, index);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (error != cudaSuccess)
        return error;
    (void)snprintf(gpu->name, sizeof gpu->name, "%.95s", properties.name);
    gpu->capability_major = properties.major;
    gpu->capability_minor = properties.minor;
    gpu->multiprocessors = properties.multiProcessorCount;
    gpu->l2_bytes = (uint64_t)properties.l2CacheSize;
    gpu->memory_bytes = total_bytes;
    gpu->memory_free_bytes = free_bytes;
    return cudaSuccess;
}

/* -1 in the kernel's own words too, where it does not know. */
static int32_t numa_node_of(const struct kvt_machine_gpu *gpu)
{
    char path[128];
    char pci[sizeof gpu->pci];
    size_t i = 0;

    for (; gpu->pci[i] != '\0'; i++)
        pci[i] = (char)(gpu->pci[i] >= 'A' && gpu->pci[i] <= 'F' ? gpu->pci[i] - 'A' + 'a'
                                                                 : gpu->pci[i]);
    pci[i] = '\0';
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci);
    uint64_t node = number_of(path, UINT64_MAX);
    return node == UINT64_MAX ? KVT_MACHINE_UNKNOWN : (int32_t)node;
}

static kvt_status probe_gpu(const struct kvt_nvml *nvml, int index, struct kvt_machine_gpu *gpu,
                            struct kvt_error *err)
{
    cudaError_t error = describe_gpu(index, gpu);

    if (error == cudaSuccess) {
        gpu->numa_node = numa_node_of(gpu);
        error = load_gpu(nvml, gpu);
    }
    if (error == cudaSuccess && nvml != NULL)
        kvt_nvml_describe(nvml, 1, gpu);
    return kvt_cuda_check_device_bytes(error, "looking at a GPU", COPY_BYTES, err);
}

static void cuda_version(int number, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%d.%d", number / 1000, number % 1000 / 10);
}

kvt_status kvt_machine_probe(struct kvt_machine *out, struct kvt_error *err)
{
    struct kvt_machine machine = {0};
    int count = 0;
    int current = 0;
    int driver = 0;
    int runtime = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (error == cudaSuccess && count == 0)
        error = cudaErrorNoDevice;
    if (error == cudaSuccess)
        error = cudaGetDevice(&current);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess)
        error = cudaRuntimeGetVersion(&runtime);
    kvt_status status = kvt_cuda_check(error, "check --machine", err);
    if (status != KVT_OK)
        return status;

    struct kvt_nvml *nvml = kvt_nvml_open();
    if (nvml != NULL)
        kvt_nvml_driver(nvml, machine.driver, sizeof machine.driver);
    cuda_version(driver, machine.cuda_driver, sizeof machine.cuda_driver);
    cuda_version(runtime, machine.cuda_runtime, sizeof machine.cuda_runtime);
    read_host(&machine);
    for (int i = 0; status == KVT_OK && i < count && i < KVT_MACHINE_GPUS_MAX; i++) {
        status = probe_gpu(nvml, i, &machine.gpus[i], err);
        machine.gpu_count++;
    }
    (void)cudaSetDevice(current);
    kvt_nvml_close(nvml);
    if (status == KVT_OK)
        *out = machine;
    return status;
}
