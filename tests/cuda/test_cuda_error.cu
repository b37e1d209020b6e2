/* test_cuda_error.cu -- what CUDA reports is told apart, and the context's fate with it. */
#include "cuda/device.h"

#include <cstring>

#include "cuda_error.h"

__global__ void write_through(int *at)
{
    *at = 1;
}

static void sentence(device::tally *tally, kvt_status expected, kvt_status found,
                     const struct kvt_error *err, const char *word)
{
    tally->check(found == expected && std::strstr(err->message, word) != nullptr,
                 "%s with \"%s\" was expected, found %s: %s", kvt_status_name(expected), word,
                 kvt_status_name(found), err->message);
}

int main()
{
    device::tally tally;
    struct kvt_error err = {};
    void *memory = nullptr;
    const uint64_t too_much = UINT64_C(1) << 46;

    device::require();
    tally.check(kvt_cuda_check(cudaSuccess, "nothing", nullptr) == KVT_OK, "success is no failure");
    kvt_status status =
        kvt_cuda_check_device_bytes(cudaMalloc(&memory, too_much), "a pool", too_much, &err);
    sentence(&tally, KVT_ERR_NOMEM, status, &err,
             "a pool: 65536.00 GiB of device memory are wanted");
    status =
        kvt_cuda_check_pinned_bytes(cudaHostAlloc(&memory, too_much, 0), "rows", too_much, &err);
    sentence(&tally, KVT_ERR_NOMEM, status, &err,
             "rows: 65536.00 GiB of pinned host memory are wanted");
    (void)cudaGetLastError();
    status = kvt_cuda_check(cudaErrorDevicesUnavailable, "a context", &err);
    sentence(&tally, KVT_ERR_DEVICE, status, &err, "a GPU that others keep to themselves");
    tally.check(kvt_cuda_outcome(cudaErrorDevicesUnavailable) == KVT_CUDA_REFUSED,
                "a GPU that is in use is not a lost one");

    write_through<<<1, 2048>>>(nullptr);
    status = kvt_cuda_check(cudaGetLastError(), "a launch", &err);
    sentence(&tally, KVT_ERR_DEVICE, status, &err, "a launch was refused");
    tally.check(cudaDeviceSynchronize() == cudaSuccess,
                "a refused launch leaves the context whole");

    /* Last, as nothing works behind it. */
    write_through<<<1, 1>>>(nullptr);
    status = kvt_cuda_check(cudaDeviceSynchronize(), "a step", &err);
    sentence(&tally, KVT_ERR_DEVICE, status, &err, "a kernel broke off, as a step found out");
    status = kvt_cuda_check(cudaMalloc(&memory, 16), "an allocation", &err);
    sentence(&tally, KVT_ERR_DEVICE, status, &err, "a kernel broke off");
    return tally.close();
}
