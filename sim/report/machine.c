/* machine.c -- what speaks against measuring on a machine, in sentences. */
#include "kvt/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* NVML's reasons for lower clocks that are nobody's choice: hardware slowdown, thermal (software,
 * hardware), power brake. */
#define SLOWDOWN_FAULTS (INT64_C(0x8) | INT64_C(0x20) | INT64_C(0x40) | INT64_C(0x80))

struct notes {
    struct kvt_machine_finding *items;
    size_t count;
};

static void KVT_PRINTF(3, 4) note(struct notes *notes, bool is_fault, const char *format, ...)
{
    va_list arguments;

    if (notes->count == KVT_MACHINE_FINDINGS_MAX)
        return;
    struct kvt_machine_finding *item = &notes->items[notes->count++];
    item->is_fault = is_fault;
    va_start(arguments, format);
    (void)vsnprintf(item->text, sizeof item->text, format, arguments);
    va_end(arguments);
}

static bool below(int32_t value, int32_t most)
{
    return value != KVT_MACHINE_UNKNOWN && most != KVT_MACHINE_UNKNOWN && value < most;
}

static void gpu_faults(struct notes *notes, uint32_t i, const struct kvt_machine_gpu *gpu)
{
    if (below(gpu->link_generation, gpu->link_generation_max) ||
        below(gpu->link_width, gpu->link_width_max))
        note(notes, true,
             "GPU %u: the link is PCIe %d x%d under load, and could be PCIe %d x%d: reseat it, or "
             "look at the slot's settings",
             i, gpu->link_generation, gpu->link_width, gpu->link_generation_max,
             gpu->link_width_max);
    if (gpu->is_mig == 1)
        note(notes, true, "GPU %u: MIG is on, so that only a part of the chip is here", i);
    if (gpu->ecc_uncorrected > 0)
        note(notes, true, "GPU %u: %lld memory errors that ECC did not correct since the last boot",
             i, (long long)gpu->ecc_uncorrected);
    if (gpu->other_processes > 0)
        note(notes, true, "GPU %u: %d other process%s on it", i, gpu->other_processes,
             gpu->other_processes == 1 ? " computes" : "es compute");
    if (gpu->slowdown != KVT_MACHINE_UNKNOWN && (gpu->slowdown & SLOWDOWN_FAULTS) != 0)
        note(notes, true, "GPU %u: clocks are held down by heat or hardware (NVML reasons 0x%llx)",
             i, (unsigned long long)gpu->slowdown);
}

static void gpu_remarks(struct notes *notes, uint32_t i, const struct kvt_machine_gpu *gpu)
{
    if (gpu->link_generation == KVT_MACHINE_UNKNOWN ||
        gpu->link_generation_max == KVT_MACHINE_UNKNOWN)
        note(notes, false, "GPU %u: the driver does not say what its link is", i);
    if (gpu->capability_major != 9)
        note(notes, false,
             "GPU %u: compute capability %d.%d; kernels are tuned for 9.0, and others take the "
             "plain ones",
             i, gpu->capability_major, gpu->capability_minor);
    if (below(gpu->power_limit_w, gpu->power_default_w))
        note(notes, false, "GPU %u: power is capped at %d of %d W", i, gpu->power_limit_w,
             gpu->power_default_w);
    if (gpu->is_ecc == 0)
        note(notes, false, "GPU %u: ECC is off", i);
}

static void host_remarks(struct notes *notes, const struct kvt_machine *machine)
{
    if (machine->is_virtual)
        note(notes, false,
             "a virtual machine: host memory is translated twice, so that figures of "
             "the link are this machine's alone");
    if (machine->memory_limit_bytes < machine->memory_bytes)
        note(notes, false, "the control group allows %.1f of %.1f GiB of memory",
             (double)machine->memory_limit_bytes / (double)KVT_GIB,
             (double)machine->memory_bytes / (double)KVT_GIB);
}

size_t kvt_machine_findings(const struct kvt_machine *machine,
                            struct kvt_machine_finding out[KVT_MACHINE_FINDINGS_MAX])
{
    struct notes notes = {.items = out};

    for (uint32_t i = 0; i < machine->gpu_count; i++)
        gpu_faults(&notes, i, &machine->gpus[i]);
    for (uint32_t i = 0; i < machine->gpu_count; i++)
        gpu_remarks(&notes, i, &machine->gpus[i]);
    host_remarks(&notes, machine);
    return notes.count;
}
