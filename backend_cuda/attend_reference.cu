/* attend_reference.cu -- sparse MLA attention the plain way, for every row format.
 *
 *     a block: one query, eight heads, a warp each; rows eight at a time, decoded to float in
 *     shared memory
 *     per row: s = scale <q, row>; m' = max(m, s); l, o *= exp(m - m'); l += exp(s - m');
 *              o += exp(s - m') row[0..511]
 *
 * All in float, in the order of places; splits play no part. Any architecture. Floor: not tuned;
 * (576 + 512) FMA per row and head over 128 a cycle and multiprocessor. */
#include "attend.cuh"

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <math.h>

namespace
{

constexpr uint32_t WARPS = 8; /* heads of a block */
constexpr uint32_t THREADS = WARPS * 32;
constexpr uint32_t TILE_ROWS = 8;

__device__ __forceinline__ float float_of_e4m3(uint8_t byte)
{
    __nv_fp8_e4m3 value;
    value.__x = byte;
    return static_cast<float>(value);
}

/* Sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
__device__ __forceinline__ float float_of_e2m1(uint32_t nibble)
{
    uint32_t exponent = nibble >> 1 & 3, mantissa = nibble & 1;
    float magnitude = exponent == 0 ? 0.5f * static_cast<float>(mantissa)
                                    : static_cast<float>((2 + mantissa) << exponent) * 0.25f;
    return (nibble & 8) != 0 ? -magnitude : magnitude;
}

/* Element `column` of a row. */
template <enum kvt_gpu_format format>
__device__ __forceinline__ float decode(const uint8_t *row, uint32_t column, float row_scale)
{
    if constexpr (format == KVT_GPU_ROW_E4M3_576) {
        return float_of_e4m3(row[column]) * row_scale;
    } else if constexpr (format == KVT_GPU_ROW_MIXED_656) {
        if (column < KVT_GPU_LATENT) {
            const float *scales = reinterpret_cast<const float *>(row + KVT_GPU_LATENT);
            return float_of_e4m3(row[column]) * scales[column / 128];
        }
        const __nv_bfloat16 *rope =
            reinterpret_cast<const __nv_bfloat16 *>(row + KVT_GPU_LATENT + 16);
        return __bfloat162float(rope[column - KVT_GPU_LATENT]);
    } else if constexpr (format == KVT_GPU_ROW_BF16_1152) {
        return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(row)[column]);
    } else {
        return float_of_e2m1(row[column / 2] >> (column % 2 * 4) & 15) *
               float_of_e4m3(row[KVT_GPU_LATENT / 2 + column / 16]);
    }
}

__device__ __forceinline__ float warp_sum(float x)
{
    for (uint32_t offset = 16; offset > 0; offset /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, offset);
    }
    return x;
}

/* grid: [query_count][heads / WARPS] */
template <enum kvt_gpu_format format>
__global__ void __launch_bounds__(THREADS)
    attend_reference_kernel(const __grid_constant__ struct kvt_gpu_attend attend)
{
    constexpr uint32_t WIDTH = format == KVT_GPU_ROW_FP4_288 ? KVT_GPU_LATENT : KVT_GPU_HEAD;
    constexpr uint32_t EACH = WIDTH / 32; /* of q, a lane */
    constexpr uint32_t OUT_EACH = KVT_GPU_LATENT / 32;
    __shared__ float tile[TILE_ROWS][WIDTH];
    uint32_t blocks_of_query = attend.heads / WARPS;
    uint32_t query = blockIdx.x / blocks_of_query;
    uint32_t lane = threadIdx.x % 32;
    uint64_t head = static_cast<uint64_t>(query) * attend.heads +
                    blockIdx.x % blocks_of_query * WARPS + threadIdx.x / 32;
    const int32_t *places = attend.places + static_cast<uint64_t>(query) * attend.k;
    const __nv_bfloat16 *q = static_cast<const __nv_bfloat16 *>(attend.q) + head * WIDTH;

    if (attend_is_elsewhere(attend, query)) {
        return;
    }
    float q_part[EACH], o[OUT_EACH] = {};
    for (uint32_t i = 0; i < EACH; i++) {
        q_part[i] = __bfloat162float(q[i * 32 + lane]) * attend.softmax_scale;
    }
    float m = -INFINITY, l = 0;
    for (uint32_t first = 0; first < attend.k && places[first] >= 0; first += TILE_ROWS) {
        uint32_t rows = 0;
        while (rows < TILE_ROWS && first + rows < attend.k && places[first + rows] >= 0) {
            rows++;
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < rows * WIDTH; i += THREADS) {
            uint64_t place = static_cast<uint32_t>(places[first + i / WIDTH]);
            tile[i / WIDTH][i % WIDTH] =
                decode<format>(attend.rows + place * attend.row_bytes, i % WIDTH, attend.row_scale);
        }
        __syncthreads();
        for (uint32_t row = 0; row < rows; row++) {
            float dot = 0;
            for (uint32_t i = 0; i < EACH; i++) {
                dot += q_part[i] * tile[row][i * 32 + lane];
            }
            float s = warp_sum(dot);
            float largest = fmaxf(m, s);
            float keep = expf(m - largest), p = expf(s - largest);
            m = largest;
            l = l * keep + p;
            for (uint32_t i = 0; i < OUT_EACH; i++) {
                o[i] = o[i] * keep + p * tile[row][i * 32 + lane];
            }
        }
    }
    float weight = l > 0 ? 1 / l : 0.0f;
    for (uint32_t i = 0; i < OUT_EACH; i++) {
        uint64_t at = head * KVT_GPU_LATENT + i * 32 + lane;
        if (attend.out_is_float) {
            static_cast<float *>(attend.out)[at] = o[i] * weight;
        } else {
            static_cast<__nv_bfloat16 *>(attend.out)[at] = __float2bfloat16_rn(o[i] * weight);
        }
    }
}

} // namespace

cudaError_t attend_reference(const struct kvt_gpu_attend *attend, cudaStream_t stream)
{
    dim3 grid(attend->query_count * (attend->heads / WARPS));
    switch (attend->format) {
    case KVT_GPU_ROW_E4M3_576:
        attend_reference_kernel<KVT_GPU_ROW_E4M3_576><<<grid, THREADS, 0, stream>>>(*attend);
        break;
    case KVT_GPU_ROW_MIXED_656:
        attend_reference_kernel<KVT_GPU_ROW_MIXED_656><<<grid, THREADS, 0, stream>>>(*attend);
        break;
    case KVT_GPU_ROW_BF16_1152:
        attend_reference_kernel<KVT_GPU_ROW_BF16_1152><<<grid, THREADS, 0, stream>>>(*attend);
        break;
    case KVT_GPU_ROW_FP4_288:
        attend_reference_kernel<KVT_GPU_ROW_FP4_288><<<grid, THREADS, 0, stream>>>(*attend);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
