/* nvml.h -- what NVML says of a GPU; the library comes with the driver and is opened at run time.
 */
#ifndef KVT_CUDA_NVML_H
#define KVT_CUDA_NVML_H

#include "kvt/machine.h"

KVT_BEGIN_DECLS

struct kvt_nvml;

/* NULL where there is none, or where it does not answer. */
struct kvt_nvml *kvt_nvml_open(void);
void kvt_nvml_close(struct kvt_nvml *nvml);

/* "580.159.04"; empty where it is not said. */
void kvt_nvml_driver(const struct kvt_nvml *nvml, char *out, size_t out_bytes);

/* What holds whatever runs: identity, most of link, clocks and power, MIG, ECC, processes. gpu->pci
 * names the device. own_processes: how many of those that compute there are this one. */
void kvt_nvml_describe(const struct kvt_nvml *nvml, int32_t own_processes,
                       struct kvt_machine_gpu *gpu);
/* What changes with load: the link, and clocks, slowdown, power and temperature. */
void kvt_nvml_sample_link(const struct kvt_nvml *nvml, struct kvt_machine_gpu *gpu);
void kvt_nvml_sample_clocks(const struct kvt_nvml *nvml, struct kvt_machine_gpu *gpu);

KVT_END_DECLS
#endif
