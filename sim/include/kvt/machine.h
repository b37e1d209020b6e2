/* kvt/machine.h -- the machine that something was measured on, and whether it was fit for it. */
#ifndef KVT_MACHINE_H
#define KVT_MACHINE_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

struct cJSON;

enum {
    KVT_MACHINE_GPUS_MAX = 16,
    KVT_MACHINE_UNKNOWN = -1
};

/* One GPU that this process sees. Numbers that the driver does not say are
 * KVT_MACHINE_UNKNOWN (a virtual machine may hide the link). */
struct kvt_machine_gpu {
    char name[96], uuid[96];
    char pci[32]; /* "0000:1b:00.0" */
    int32_t capability_major, capability_minor, multiprocessors;
    uint64_t memory_bytes, memory_free_bytes, l2_bytes;
    /* PCIe while copies ran: an idle link runs slower to save power. The most is what GPU and
     * slot can do together. */
    int32_t link_generation, link_width, link_generation_max, link_width_max;
    double h2d_bytes_per_s, d2h_bytes_per_s; /* of pinned copies by the copy engine */
    int32_t numa_node;
    int32_t sm_mhz, sm_mhz_max, memory_mhz, memory_mhz_max; /* while a kernel ran */
    int64_t slowdown; /* why clocks are below their most, as bits of NVML */
    int32_t power_w, power_limit_w, power_default_w;
    int32_t temperature_c;
    int32_t is_mig, is_ecc; /* 0, 1 */
    int64_t ecc_uncorrected;
    int32_t other_processes; /* that compute on it */
};

struct kvt_machine {
    char driver[32];      /* "580.159.04" */
    char cuda_driver[16]; /* the newest CUDA it runs: "13.0" */
    char cuda_runtime[16];
    char cpu[96], kernel[96];
    bool is_virtual;
    uint32_t cpus, numa_nodes; /* cpus: that this process may use */
    uint64_t memory_bytes, memory_available_bytes;
    uint64_t memory_limit_bytes, memory_used_bytes; /* of the control group; no limit: UINT64_MAX */
    uint64_t locked_limit_bytes;                    /* RLIMIT_MEMLOCK */
    uint32_t gpu_count;
    struct kvt_machine_gpu gpus[KVT_MACHINE_GPUS_MAX];
};

/* Looks at everything, half a second a GPU: copies run, so that the link shows what it can do.
 * KVT_ERR_DEVICE where there is no GPU. The current device stays what it was. (backend_cuda:
 * only in builds with KVT_CUDA.) */
KVT_CHECKED kvt_status kvt_machine_probe(struct kvt_machine *out, struct kvt_error *err);

/* What speaks against a measurement here. A fault makes it wrong; a remark should be known. */
struct kvt_machine_finding {
    bool is_fault;
    char text[192]; /* one sentence */
};
enum {
    KVT_MACHINE_FINDINGS_MAX = 8 * KVT_MACHINE_GPUS_MAX + 8
};
/* How many were written; faults first. */
size_t kvt_machine_findings(const struct kvt_machine *machine,
                            struct kvt_machine_finding out[KVT_MACHINE_FINDINGS_MAX]);

/* "kvtide/machine/1", findings and verdict included; NULL without memory. The caller's to
 * cJSON_Delete(). */
struct cJSON *kvt_machine_tree(const struct kvt_machine *machine);

KVT_END_DECLS
#endif
