/* named_barrier.cuh -- barriers at which some warps of a block meet, and arrivals of whole warps.
 *
 * compute-sanitizer's racecheck (2025.3) takes accesses for unordered that are not: once some warps
 * have met at a barrier of their own it loses count, even of __syncthreads(), and it does not see
 * that a lane arrives for its warp. Programs for it are made with KVT_RACECHECK: the same barriers
 * lie in shared memory there, every thread arrives, and racecheck follows. docs/cuda.md */
#ifndef KVT_NAMED_BARRIER_CUH
#define KVT_NAMED_BARRIER_CUH

#include "bulk.cuh"

#ifndef KVT_RACECHECK

/* For the whole block at once: its barriers 1, 2, .. are of `threads` each. */
template <uint32_t... threads> static __device__ __forceinline__ void named_barriers_begin()
{
}

static __device__ __forceinline__ void named_sync(uint32_t id, uint32_t threads)
{
    asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

static __device__ __forceinline__ void named_arrive(uint32_t id, uint32_t threads)
{
    asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* Whether any of the threads says so. */
static __device__ __forceinline__ bool named_any(uint32_t id, uint32_t threads, bool mine)
{
    uint32_t any;
    asm volatile("{\n"
                 ".reg .pred mine, any;\n"
                 "setp.ne.u32 mine, %3, 0;\n"
                 "barrier.cta.red.or.pred any, %1, %2, mine;\n"
                 "selp.u32 %0, 1, 0, any;\n"
                 "}\n"
                 : "=r"(any)
                 : "r"(id), "r"(threads), "r"(static_cast<uint32_t>(mine))
                 : "memory");
    return any != 0;
}

/* How often a warp arrives at a barrier in shared memory, and that it does: all of its lanes are
 * done with what the barrier guards. */
constexpr uint32_t WARP_ARRIVALS = 1;

static __device__ __forceinline__ void warp_arrive(uint64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        barrier_arrive(barrier);
    }
}

#else

static __device__ __forceinline__ uint64_t *named_barrier(uint32_t id)
{
    __shared__ uint64_t barriers[16];
    return &barriers[id];
}

static __device__ __forceinline__ volatile uint32_t *named_flag(uint32_t id)
{
    __shared__ volatile uint32_t flags[16];
    return &flags[id];
}

template <uint32_t... threads> static __device__ __forceinline__ void named_barriers_begin()
{
    constexpr uint32_t of_each[] = {threads...};
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < sizeof...(threads); i++) {
            barrier_init(named_barrier(i + 1), of_each[i]);
            *named_flag(i + 1) = 0;
        }
    }
    __syncthreads();
}

static __device__ __forceinline__ void named_arrive(uint32_t id, uint32_t)
{
    barrier_arrive(named_barrier(id));
}

static __device__ __forceinline__ void named_sync(uint32_t id, uint32_t)
{
    uint64_t phase;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                 : "=l"(phase)
                 : "r"(address_of(named_barrier(id)))
                 : "memory");
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address_of(named_barrier(id))),
                 "l"(phase)
                 : "memory");
    __syncwarp();
}

static __device__ __forceinline__ bool named_any(uint32_t id, uint32_t threads, bool mine)
{
    if (mine) {
        atomicOr((uint32_t *)named_flag(id), 1);
    }
    named_sync(id, threads);
    const bool any = *named_flag(id) != 0;
    named_sync(id, threads);
    *named_flag(id) = 0; /* by all, to the same value */
    named_sync(id, threads);
    return any;
}

constexpr uint32_t WARP_ARRIVALS = 32;

static __device__ __forceinline__ void warp_arrive(uint64_t *barrier)
{
    barrier_arrive(barrier);
}

#endif

#endif
