/* cuda_error.c -- what CUDA reports, as our failures. */
#include "cuda_error.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Outcomes ---------------------------------------------------------------------- */

enum kvt_cuda_outcome kvt_cuda_outcome(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return KVT_CUDA_FINE;
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return KVT_CUDA_NO_DEVICE;
    case cudaErrorMemoryAllocation:
        return KVT_CUDA_NO_MEMORY;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return KVT_CUDA_KERNEL_FAILED;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDeviceUninitialized:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown: /* what is left once a device fell off the bus */
        return KVT_CUDA_LOST;
    default:
        return KVT_CUDA_REFUSED;
    }
}

kvt_status kvt_cuda_check(cudaError_t error, const char *what, struct kvt_error *err)
{
    /* cudaErrorIllegalAddress: an illegal memory access was encountered */
    const char *name = cudaGetErrorName(error);
    const char *text = cudaGetErrorString(error);

    switch (kvt_cuda_outcome(error)) {
    case KVT_CUDA_FINE:
        return KVT_OK;
    case KVT_CUDA_NO_DEVICE:
        if (error == cudaErrorInsufficientDriver) /* also where there is no driver at all */
            text = "no NVIDIA driver, or one that is too old for this program";
        return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                        "%s needs a CUDA device, and there is none: %s", what, text);
    case KVT_CUDA_NO_MEMORY:
        return kvt_fail(err, KVT_ERR_NOMEM, "cuda", "%s: out of device memory", what);
    case KVT_CUDA_KERNEL_FAILED:
        return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                        "a kernel broke off, as %s found out: %s (%s); what ran since the step's "
                        "start is void",
                        what, text, name);
    case KVT_CUDA_LOST:
        return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                        "the device was lost, as %s found out: %s (%s); nvidia-smi and the "
                        "kernel's log (Xid) say more",
                        what, text, name);
    case KVT_CUDA_REFUSED:
        break;
    }
    if (error == cudaErrorDevicesUnavailable)
        return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                        "%s wants a GPU that others keep to themselves: %s (%s); nvidia-smi shows "
                        "its compute mode and who is on it",
                        what, text, name);
    return kvt_fail(err, KVT_ERR_DEVICE, "cuda", "%s was refused: %s (%s)", what, text, name);
}

/* ---- Memory ------------------------------------------------------------------------ */

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

/* MemAvailable of this machine; 0 where that is not said. */
static uint64_t host_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    uint64_t kib = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
        continue;
    (void)fclose(file);
    return kib * 1024;
}

kvt_status kvt_cuda_check_device_bytes(cudaError_t error, const char *what, uint64_t bytes,
                                       struct kvt_error *err)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    if (kvt_cuda_outcome(error) != KVT_CUDA_NO_MEMORY ||
        cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        return kvt_cuda_check(error, what, err);
    return kvt_fail(err, KVT_ERR_NOMEM, "cuda",
                    "%s: %.2f GiB of device memory are wanted, and %.2f of %.2f GiB are free", what,
                    gib(bytes), gib(free_bytes), gib(total_bytes));
}

kvt_status kvt_cuda_check_pinned_bytes(cudaError_t error, const char *what, uint64_t bytes,
                                       struct kvt_error *err)
{
    if (kvt_cuda_outcome(error) != KVT_CUDA_NO_MEMORY)
        return kvt_cuda_check(error, what, err);
    return kvt_fail(
        err, KVT_ERR_NOMEM, "cuda",
        "%s: %.2f GiB of pinned host memory are wanted, and %.2f are available (a limit "
        "of the cgroup or of locked memory may be lower: kvtide check --machine)",
        what, gib(bytes), gib(host_available_bytes()));
}
