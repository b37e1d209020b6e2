/* scan_multiply.cuh -- a page of keys times queries, by the FP8 tensor cores of sm_90a. */
#ifndef KVT_SCAN_MULTIPLY_CUH
#define KVT_SCAN_MULTIPLY_CUH

#include "bulk.cuh"
#include "launch.h"

namespace
{

constexpr uint32_t PAGE_ROWS = 64;
constexpr uint32_t DIM = KVT_GPU_INDEX_DIM;
constexpr uint32_t SWIZZLE_BYTES = 1024; /* what a swizzled matrix is aligned to */

/* What wgmma is told about a matrix of rows of 128 bytes, swizzled: where it is, in units of 16
 * bytes, and, in another word, that eight rows are 1,024 bytes apart from the next eight. */
__device__ __forceinline__ uint32_t matrix_at(const void *matrix)
{
    return address_of(matrix) >> 4;
}
constexpr uint32_t MATRIX_LAYOUT = SWIZZLE_BYTES >> 4 | 1u << 30;
constexpr uint32_t PAGE_UNITS = PAGE_ROWS * DIM / 16;

#define SUM(i) "+f"(sum[i])
#define SUMS_4(i) SUM(i), SUM(i + 1), SUM(i + 2), SUM(i + 3)
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)

/* sum[64][COLUMNS] = keys[64][32] * q[COLUMNS][32]^T, or += where `add`. Of the product, thread
 * t of warp w has sum[4j + 2i + c]: row 16w + 8i + t / 4, column 8j + t % 4 * 2 + c. */
template <uint32_t COLUMNS>
__device__ void multiply(float (&sum)[COLUMNS / 2], uint32_t keys, uint32_t q, bool add);

template <>
__device__ __forceinline__ void multiply<32>(float (&sum)[16], uint32_t keys, uint32_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 ".reg .b64 keys, q;\n"
                 "setp.ne.b32 add, %18, 0;\n"
                 "mov.b64 keys, {%16, %19};\n"
                 "mov.b64 q, {%17, %19};\n"
                 "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "keys, q, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0)
                 : "r"(keys), "r"(q), "r"((int)add), "n"(MATRIX_LAYOUT));
}

template <>
__device__ __forceinline__ void multiply<64>(float (&sum)[32], uint32_t keys, uint32_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 ".reg .b64 keys, q;\n"
                 "setp.ne.b32 add, %34, 0;\n"
                 "mov.b64 keys, {%32, %35};\n"
                 "mov.b64 q, {%33, %35};\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "keys, q, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0), SUMS_16(16)
                 : "r"(keys), "r"(q), "r"((int)add), "n"(MATRIX_LAYOUT));
}

template <>
__device__ __forceinline__ void multiply<128>(float (&sum)[64], uint32_t keys, uint32_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 ".reg .b64 keys, q;\n"
                 "setp.ne.b32 add, %66, 0;\n"
                 "mov.b64 keys, {%64, %67};\n"
                 "mov.b64 q, {%65, %67};\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "keys, q, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0), SUMS_16(16), SUMS_16(32), SUMS_16(48)
                 : "r"(keys), "r"(q), "r"((int)add), "n"(MATRIX_LAYOUT));
}

#undef SUMS_16
#undef SUMS_4
#undef SUM

template <uint32_t COLUMNS>
__device__ __forceinline__ void multiply_page(float (&sum)[COLUMNS / 2], uint32_t keys, uint32_t q)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (uint32_t step = 0; step < DIM / 32; step++) /* 32 bytes are 2 units of a descriptor */
        multiply<COLUMNS>(sum, keys + 2 * step, q + 2 * step, step > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <uint32_t SUMS> __device__ __forceinline__ void wait_for_product(float (&sum)[SUMS])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (uint32_t i = 0; i < SUMS; i++) /* so that no use of it moves before the wait */
        asm volatile("" : "+f"(sum[i])::"memory");
}

/* Sums over the four threads of a row, (0 + 1) + (2 + 3) for every value. Halves of the values
 * are exchanged as long as there are two: afterwards a thread has value[0 .. max(1, VALUES /
 * 4)) of those from first_value() on. */
template <uint32_t VALUES>
__device__ __forceinline__ void sum_over_row(float (&value)[VALUES], uint32_t lane)
{
    uint32_t left = VALUES;
#pragma unroll
    for (uint32_t step = 1; step <= 2; step *= 2) {
        const bool upper = lane & step;
        if (left > 1) {
            left /= 2;
#pragma unroll
            for (uint32_t i = 0; i < VALUES / 2 && i < left; i++) {
                float kept = upper ? value[i + left] : value[i];
                float given = upper ? value[i] : value[i + left];
                value[i] = kept + __shfl_xor_sync(~0u, given, step);
            }
        } else {
            value[0] += __shfl_xor_sync(~0u, value[0], step);
        }
    }
}

template <uint32_t VALUES> __device__ __forceinline__ uint32_t first_value(uint32_t lane)
{
    return (lane & 1 ? VALUES / 2 : 0) + (VALUES > 2 && lane & 2 ? VALUES / 4 : 0);
}

} // namespace

#endif
