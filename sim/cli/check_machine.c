/* check_machine.c -- kvtide check --machine: GPUs under load, and what speaks against them. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "check.h"
#include "cli.h"
#include "kvt/machine.h"

#ifdef KVT_CUDA

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

static void print_gpu(uint32_t i, const struct kvt_machine_gpu *gpu)
{
    printf("GPU %u   %s, %.1f of %.1f GiB free, %d SMs, compute capability %d.%d\n", i, gpu->name,
           gib(gpu->memory_free_bytes), gib(gpu->memory_bytes), gpu->multiprocessors,
           gpu->capability_major, gpu->capability_minor);
    if (gpu->link_generation != KVT_MACHINE_UNKNOWN)
        printf("  link  PCIe %d x%d under load, at most PCIe %d x%d; ", gpu->link_generation,
               gpu->link_width, gpu->link_generation_max, gpu->link_width_max);
    else
        printf("  link  ");
    printf("copies %.1f GB/s in, %.1f GB/s out\n", gpu->h2d_bytes_per_s / 1e9,
           gpu->d2h_bytes_per_s / 1e9);
    printf("  clock SM %d of %d MHz, memory %d of %d MHz, %d of %d W, %d C\n", gpu->sm_mhz,
           gpu->sm_mhz_max, gpu->memory_mhz, gpu->memory_mhz_max, gpu->power_w, gpu->power_limit_w,
           gpu->temperature_c);
}

static void print_machine(const struct kvt_machine *machine)
{
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    size_t count = kvt_machine_findings(machine, findings);

    printf("host    %s%s, %u processors, %u NUMA node%s, %.1f of %.1f GiB available, %s\n",
           machine->cpu, machine->is_virtual ? " (virtual)" : "", machine->cpus,
           machine->numa_nodes, machine->numa_nodes == 1 ? "" : "s",
           gib(machine->memory_available_bytes), gib(machine->memory_bytes), machine->kernel);
    printf("CUDA    driver %s, runs up to CUDA %s; this program has %s\n", machine->driver,
           machine->cuda_driver, machine->cuda_runtime);
    for (uint32_t i = 0; i < machine->gpu_count; i++)
        print_gpu(i, &machine->gpus[i]);
    for (size_t i = 0; i < count; i++)
        printf("%s  %s\n", findings[i].is_fault ? "fault " : "remark", findings[i].text);
    puts(count > 0 && findings[0].is_fault ? "not fit to be measured on" : "fit to be measured on");
}

/* The answer is no where something would make a measurement wrong. */
int check_machine(bool json)
{
    struct kvt_machine machine;
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    struct kvt_error err;
    kvt_status status = kvt_machine_probe(&machine, &err);

    if (status == KVT_OK && json) {
        cJSON *tree = kvt_machine_tree(&machine);
        status =
            tree != NULL ? check_print_tree(tree, &err) : kvt_fail_nomem(&err, "check --machine");
        cJSON_Delete(tree);
    }
    if (status != KVT_OK)
        return cli_fail(&err);
    if (!json)
        print_machine(&machine);
    return kvt_machine_findings(&machine, findings) > 0 && findings[0].is_fault ? CLI_NO : CLI_DONE;
}

#else

int check_machine(bool json)
{
    (void)json;
    fputs("kvtide: check --machine: this build has no CUDA backend, so that it cannot look at a "
          "GPU; scons cuda=1 builds one\n",
          stderr);
    return CLI_CANNOT;
}

#endif
