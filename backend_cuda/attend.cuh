/* attend.cuh -- what the attention launcher and its two kernels agree on. */
#ifndef KVT_ATTEND_CUH
#define KVT_ATTEND_CUH

#include "launch.h"

/* Pieces of one query are CTAs of one cluster, hence the portable limit. */
enum {
    ATTEND_SPLITS_MAX = 8
};

/* Both take what kvt_gpu_attend() has checked; splits is 1 to ATTEND_SPLITS_MAX. */
cudaError_t attend_reference(const struct kvt_gpu_attend *attend, cudaStream_t stream);
cudaError_t attend_fast(const struct kvt_gpu_attend *attend, uint32_t splits, cudaStream_t stream);

#ifdef __CUDACC__
/* Whether a query waits for another wave of staging. The same for every thread of a query. */
static __device__ __forceinline__ bool attend_is_elsewhere(const struct kvt_gpu_attend &attend,
                                                           uint32_t query)
{
    return attend.queries != nullptr &&
           attend.counts[attend.queries[query].request].wave != attend.wave;
}
#endif

#endif
