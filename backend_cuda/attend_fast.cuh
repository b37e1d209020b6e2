/* attend_fast.cuh -- Hopper instructions that the fast attention kernel is written in. */
#ifndef KVT_ATTEND_FAST_CUH
#define KVT_ATTEND_FAST_CUH

#include <stdint.h>

#include "named_barrier.cuh"

namespace hopper
{

/* ---- mbarriers and asynchronous copies ---- */

/* One arrival, once all copies that this thread has begun are there. */
static __device__ __forceinline__ void barrier_arrive_copied(uint64_t *barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address_of(barrier))
                 : "memory");
}

/* 16 bytes from global to shared memory, past L1. */
static __device__ __forceinline__ void copy16_async(uint32_t dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}

/* ---- Clusters ---- */

static __device__ __forceinline__ uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ __forceinline__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* Meets the other blocks without a word about memory: for the last time, so that none ends while
 * others read from it. What this thread has read has been used. */
static __device__ __forceinline__ void cluster_leave()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
}

/* The same place in the shared memory of another block of the cluster. */
static __device__ __forceinline__ uint32_t cluster_address(uint32_t address, uint32_t rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

static __device__ __forceinline__ float4 cluster_load4(uint32_t address)
{
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

static __device__ __forceinline__ float2 cluster_load2(uint32_t address)
{
    float2 value;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(address)
                 : "memory");
    return value;
}

/* ---- Shared memory, by 32-bit address ---- */

static __device__ __forceinline__ uint2 load8(uint32_t address)
{
    uint2 value;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(value.x), "=r"(value.y)
                 : "r"(address)
                 : "memory");
    return value;
}

static __device__ __forceinline__ void store4(uint32_t address, uint32_t value)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

static __device__ __forceinline__ void store16(uint32_t address, float x, float y, float z, float w)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(x), "f"(y), "f"(z),
                 "f"(w)
                 : "memory");
}

/* Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
static __device__ __forceinline__ void store_matrices(uint32_t address, const uint32_t (&m)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
                 : "memory");
}

/* Ordinary stores to shared memory before it are seen by matrix instructions behind the next
 * barrier. */
static __device__ __forceinline__ void async_proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- Numbers ---- */

/* Four e4m3 as f16, two and two: exact, every e4m3 is an f16. The halves are taken apart in PTX,
 * so that the conversion itself reads the upper one. */
static __device__ __forceinline__ void halves_of_e4m3x4(uint32_t four, uint32_t &low,
                                                        uint32_t &high)
{
    asm("{\n"
        ".reg .b16 l, h;\n"
        "mov.b32 {l, h}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, l;\n"
        "cvt.rn.f16x2.e4m3x2 %1, h;\n"
        "}\n"
        : "=r"(low), "=r"(high)
        : "r"(four));
}

static __device__ __forceinline__ uint32_t half2_of_floats(float low, float high)
{
    uint32_t halves;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
    return halves;
}

static __device__ __forceinline__ uint32_t bfloat2_of_floats(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- Warpgroup matrix instructions ---- */

/* Descriptor of an operand in shared memory with 128-byte swizzle, atoms of 8 x 128 bytes end to
 * end: either K-major (8 of N, 64 of K an atom) or N-major (64 of N, 8 of K). Its lower word; the
 * upper one is a constant. */
static __device__ __forceinline__ uint32_t operand_of(uint32_t address)
{
    return ((address & 0x3ffff) >> 4) | (1024 >> 4) << 16;
}
constexpr uint32_t OPERAND_HIGH = (1024 >> 4) | 1u << 30;

static __device__ __forceinline__ void mma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void mma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Returns when at most `pending` of the groups committed last are not complete. */
template <int pending> static __device__ __forceinline__ void mma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* d[64][64] (+)= a[64][16] b[16][64], f16 in, f32 out; a in registers, b in shared memory, K-major
 * or (n_major) N-major. keep 0: d is overwritten. */
template <int n_major>
static __device__ __forceinline__ void mma_64x64x16(float (&d)[32], const uint32_t *a,
                                                    uint32_t operand, int keep)
{
    asm volatile("{\n"
                 ".reg .pred keep;\n"
                 ".reg .b64 b;\n"
                 "setp.ne.b32 keep, %37, 0;\n"
                 "mov.b64 b, {%36, %39};\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, b, keep, 1, 1, %38;\n"
                 "}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(operand), "r"(keep),
                   "n"(n_major), "n"(OPERAND_HIGH));
}

/* This warpgroup's registers from here on. */
template <int registers> static __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> static __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

} // namespace hopper

#endif
