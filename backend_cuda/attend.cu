/* attend.cu -- chooses the kernel and the number of pieces for sparse MLA attention. */
#include "attend.cuh"

#include <math.h>

/* What a block costs beside its tiles (q, the first rows' latency, the end), and what summing the
 * pieces costs, in tiles of 64 rows. */
static const uint32_t BLOCK_TILES = 2;
static const uint32_t SUM_TILES = 1;
/* Clusters of 1, 2, .. blocks, one block a multiprocessor, that an H200 holds at once: a cluster
 * stays within one of its groups of multiprocessors, which are not all of a size. */
static const uint32_t CLUSTERS[ATTEND_SPLITS_MAX] = {132, 66, 39, 30, 22, 17, 15, 15};

extern "C" uint32_t kvt_gpu_attend_splits(uint32_t query_count, uint32_t heads, uint32_t k)
{
    uint64_t units = static_cast<uint64_t>(query_count) * (heads / 64);
    uint32_t tiles = (k + 63) / 64;
    uint32_t best = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t splits = 1; splits <= ATTEND_SPLITS_MAX && splits <= tiles; splits++) {
        uint64_t waves = (units + CLUSTERS[splits - 1] - 1) / CLUSTERS[splits - 1];
        uint64_t cost =
            waves * ((tiles + splits - 1) / splits + BLOCK_TILES + (splits > 1 ? SUM_TILES : 0));
        if (cost < least) {
            least = cost;
            best = splits;
        }
    }
    return best;
}

static cudaError_t find_hopper(bool *is_hopper)
{
    int device = 0, major = 0, minor = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) {
        status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    }
    if (status == cudaSuccess) {
        status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    *is_hopper = major == 9 && minor == 0;
    return status;
}

extern "C" cudaError_t kvt_gpu_attend(const struct kvt_gpu_attend *attend, cudaStream_t stream)
{
    if (attend->query_count == 0) {
        return cudaSuccess;
    }
    bool scales_are_valid = isfinite(attend->softmax_scale) && attend->softmax_scale > 0 &&
                            (attend->format != KVT_GPU_ROW_E4M3_576 ||
                             (isfinite(attend->row_scale) && attend->row_scale > 0));
    if ((attend->heads != 64 && attend->heads != 128) || attend->k == 0 || !scales_are_valid ||
        attend->row_bytes % 16 != 0 || reinterpret_cast<uintptr_t>(attend->rows) % 16 != 0 ||
        reinterpret_cast<uintptr_t>(attend->q) % 16 != 0 ||
        reinterpret_cast<uintptr_t>(attend->out) % 16 != 0 || attend->splits > ATTEND_SPLITS_MAX) {
        return cudaErrorInvalidValue;
    }
    bool is_hopper = false;
    if (!attend->reference && attend->format == KVT_GPU_ROW_E4M3_576) {
        cudaError_t status = find_hopper(&is_hopper);
        if (status != cudaSuccess) {
            return status;
        }
    }
    if (!is_hopper) {
        return attend_reference(attend, stream);
    }
    uint32_t splits = attend->splits;
    if (splits == 0) {
        splits = kvt_gpu_attend_splits(attend->query_count, attend->heads, attend->k);
    }
    return attend_fast(attend, splits, stream);
}
