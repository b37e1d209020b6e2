/* attend_fast.cu -- sparse MLA decode over 576-byte e4m3 rows on Hopper's tensor cores.
 *
 * A cluster of `splits` blocks answers one query for 64 heads; each block takes a run of tiles of
 * 64 rows. Everything is transposed, so that rows are the register operand and never have to be
 * written to shared memory in f16:
 *
 *     loads        16-byte asynchronous copies into a ring of strips of 16 FP8 rows
 *     scores       S'[64 rows][64 heads] = K[64][576] Q'[576][64] of a tile; meanwhile, of the
 *                  tile before: x = S' c - m; where any x > 8: m = the exact maximum,
 *                  alpha = 2^(old m - m); P' = f16(2^x), l += 2^x
 *     outputs x2   O'[256 dims][64 heads] = alpha O' + V'[256][64 rows] P'[64 rows][64 heads]
 *     end          O' / l; with splits, scaled to the cluster's maximum and summed in the order
 *                  of splits through the blocks' shared memory
 *
 * A line is a warpgroup. e4m3 becomes f16 exactly, two in an instruction; the tensor's scale is
 * folded into c (with softmax_scale, log2 e and a power of two per head that puts q into the range
 * of f16) and into the output. m need not be the maximum, only near it: it moves when a score
 * passes it by 2^8, which f16 still holds with full precision.
 *
 * Floor, per row and 64 heads: 34 cycles of f16 MMA (18 scores, 16 outputs), which m64n64k16 with a
 * register operand reaches (32.1 cycles each, measured); 31 cycles of shared memory (4.5 written,
 * 4.5 and 4 read as FP8, 9 and 8 operands, 1 P'). 576 bytes over 4.4 TB/s.
 * Where the time goes: docs/cuda.md. A register operand made from FP8 is CUTLASS's mixed-input
 * GEMM; softmax between the MMAs of the next tile is FlashAttention 3's, the lazy maximum 4's. */
#include "attend_load.cuh"
#include "attend_outputs.cuh"
#include "attend_scores.cuh"

#include <math.h>

namespace
{

using namespace attend_tile;

#if HAS_HOPPER
constexpr int SCORE_REGISTERS = 152, OUTPUT_REGISTERS = 168, LOADER_REGISTERS = 24;
#endif

/* grid: [query_count][heads / 64][splits], a cluster the splits. */
__global__ void __launch_bounds__(THREADS, 1)
    attend_fast_kernel(const __grid_constant__ struct kvt_gpu_attend attend, uint32_t splits)
{
#if HAS_HOPPER
    extern __shared__ __align__(1024) uint8_t shared[];
    control &control = *reinterpret_cast<struct control *>(shared + CONTROL_OFFSET);
    /* The loader's warpgroup is the block's first, the scores' the second: 1.5 % faster than the
     * loader last. */
    uint32_t thread = (threadIdx.x + 3 * GROUP) % THREADS, warp = thread / 32, lane = thread % 32;
    uint32_t split = splits == 1 ? 0 : cluster_rank();
    uint32_t groups = attend.heads / HEADS;
    uint32_t query = blockIdx.x / splits / groups;
    uint64_t first_head = static_cast<uint64_t>(blockIdx.x / splits) * HEADS;
    const int32_t *places = attend.places + static_cast<uint64_t>(query) * attend.k;

    if (attend_is_elsewhere(attend, query)) {
        return;
    }
    start_named_barriers();
    if (thread >= 3 * GROUP) {
        give_registers<LOADER_REGISTERS>();
        run_loads(attend, places, shared, control, split, splits, thread - 3 * GROUP);
        if (splits > 1) {
            __syncwarp();
            cluster_sync();
            cluster_sync();
            cluster_leave();
        }
        return;
    }
    int32_t last = __ldg(places + attend.k - 1);
    q_part part;
    if (thread >= GROUP) {
        load_q(part, static_cast<const uint16_t *>(attend.q) + first_head * WIDTH,
               warp - GROUP / 32, lane);
    }
    block_share share = find_share(count_places(places, attend.k, last, lane), split, splits);
    if (thread < GROUP) {
        take_registers<SCORE_REGISTERS>();
        named_sync(START_BARRIER, THREADS);
        run_scores(shared, control, share.tiles, share.rows, thread);
        if (splits > 1) {
            cluster_sync();
        }
        if (thread < HEADS) {
            find_weights(control, splits, attend.row_scale, thread);
        }
        named_sync(WEIGHTS_BARRIER, 3 * GROUP);
        if (splits > 1) {
            cluster_sync();
            sum_splits(attend, shared, first_head, split, splits, thread, 3 * GROUP);
            cluster_leave();
        }
    } else {
        take_registers<OUTPUT_REGISTERS>();
        float factor = attend.softmax_scale * attend.row_scale * static_cast<float>(M_LOG2E);
        store_q(part, factor, shared, control, warp - GROUP / 32, lane);
        async_proxy_fence();
        named_sync(START_BARRIER, THREADS);
        uint32_t first_dim = (warp - GROUP / 32) * 64 + lane / 4 * 8;
        float o[4][32] = {};
        run_outputs(o, shared, control, share.tiles, first_dim, lane);
        if (splits > 1) {
            cluster_sync();
        }
        named_sync(WEIGHTS_BARRIER, 3 * GROUP);
        write_outputs(attend, o, shared, control, first_head, splits, first_dim, lane);
        if (splits > 1) {
            cluster_sync();
            sum_splits(attend, shared, first_head, split, splits, thread, 3 * GROUP);
            cluster_leave();
        }
    }
#else
    __trap();
#endif
}

} // namespace

cudaError_t attend_fast(const struct kvt_gpu_attend *attend, uint32_t splits, cudaStream_t stream)
{
    cudaError_t status = cudaFuncSetAttribute(
        attend_fast_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (status != cudaSuccess) {
        return status;
    }
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = splits;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(attend->query_count * (attend->heads / HEADS) * splits);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    status = cudaLaunchKernelEx(&config, attend_fast_kernel, *attend, splits);
    return status != cudaSuccess ? status : cudaGetLastError();
}
