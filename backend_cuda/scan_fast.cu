/* scan_fast.cu -- scores of all rows of an index, by the FP8 tensor cores of sm_90a. */
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177 /* on other architectures the kernel is empty, and all else unused */
#endif

#include "scan_share.cuh"

#include <cuda.h>

namespace
{

/* Scores of steps of one query a request, if they are no more than this, stay in L2, where top-k
 * finds them; what is written to HBM meanwhile costs more than as many bytes read. Others pass. */
constexpr size_t SCORES_KEPT = 16 << 20;

/* What copies are told: keys are [lanes][pages][64][128] bytes, scales [lanes][pages][64], q
 * [queries x heads][128]. */
struct scan_maps {
    CUtensorMap keys, scales, q;
};

/* A value that is the same in all threads of a warp, so that the compiler knows. */
__device__ __forceinline__ uint32_t uniform(uint32_t value)
{
    return __shfl_sync(~0u, value, 0);
}

/* For what passes through L2 once, like keys. */
__device__ __forceinline__ uint64_t evict_first()
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/* A line of 128 bytes is brought to L2, to stay there. Plain stores to such lines are faster than
 * stores that say so themselves. */
__device__ __forceinline__ void keep_line(const float *line)
{
    asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(line) : "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Keys of COPY_PAGES pages, swizzled, and their scales; what lies behind the index is 0. */
__device__ __forceinline__ void copy_pages(void *keys, void *scales, const struct scan_maps &maps,
                                           uint32_t page, uint32_t lane, uint64_t *barrier,
                                           uint64_t policy)
{
    barrier_arrive_expecting(barrier, COPY_PAGES * KVT_GPU_INDEX_PAGE_BYTES);
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %2, %3, %4}], [%5], %6;" ::"r"(address_of(keys)),
                 "l"(&maps.keys), "r"(0), "r"(page), "r"(lane), "r"(address_of(barrier)),
                 "l"(policy)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(address_of(scales)),
                 "l"(&maps.scales), "r"(0), "r"(page), "r"(lane), "r"(address_of(barrier)),
                 "l"(policy)
                 : "memory");
}

/* Rows of q from `column` on, swizzled, as many as the map's box has; 0 behind the last. */
__device__ __forceinline__ void copy_queries(void *q, const CUtensorMap *q_map, uint32_t column,
                                             uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(address_of(q)),
                 "l"(q_map), "r"(0), "r"(column), "r"(address_of(barrier))
                 : "memory");
}

/* One thread: asks for the pages of the block's share, in order, as stages become free, and
 * before those of each request for its queries. */
template <uint32_t HEADS, uint32_t QUERIES>
__device__ void fetch(const struct kvt_gpu_scan &scan, const struct scan_maps &maps,
                      uint32_t groups, uint32_t share, struct scan_shared<HEADS, QUERIES> *shared)
{
    const uint64_t policy = evict_first();
    uint32_t item = shared->first_item, first_page = shared->first_page;
    uint32_t stage = 0, parity = 1;
    for (uint32_t side = 0, q_parity = 1;; side ^= 1, q_parity ^= side == 0) {
        uint32_t page_count = 0;
        while (share > 0) {
            const uint32_t pages = pages_of_item<QUERIES>(scan, groups, item);
            page_count = min(share, pages - first_page);
            if (page_count > 0)
                break;
            item++;
            first_page = 0;
        }
        barrier_wait(&shared->q_empty[side], q_parity);
        struct scan_segment *segment = &shared->segments[side];
        segment->page_count = page_count;
        if (page_count == 0) {
            barrier_arrive(&shared->q_full[side]);
            return;
        }
        const struct kvt_gpu_request request = scan.requests[item / groups];
        const uint32_t first = item % groups * QUERIES;
        segment->first_page = first_page;
        segment->first_query = request.first_query + first;
        segment->query_count = min(request.query_count - first, QUERIES);
        segment->context_tokens = request.context_tokens;
        barrier_arrive_expecting(&shared->q_full[side], sizeof shared->q[side]);
        copy_queries(shared->q[side], &maps.q, segment->first_query * HEADS, &shared->q_full[side]);
        for (uint32_t page = 0; page < page_count; page += COPY_PAGES) {
            barrier_wait(&shared->page_empty[stage], parity);
            copy_pages(shared->keys[stage], shared->scales[stage], maps, first_page + page,
                       request.lane, &shared->page_full[stage], policy);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        share -= page_count;
        first_page += page_count;
    }
}

/* Rows that a query of the segment sees. */
__device__ __forceinline__ uint32_t visible_rows(const struct kvt_gpu_scan &scan,
                                                 const struct scan_segment &segment, uint32_t query)
{
    const uint32_t depth = scan.queries[segment.first_query + query].depth;
    return (segment.context_tokens + depth + 1) / scan.ratio;
}

/* One warpgroup: products of its pages, and sums of them. While it adds, others multiply. */
template <uint32_t HEADS, uint32_t QUERIES> class consumer
{
    using shape = struct scan_shape<HEADS, QUERIES>;
    static constexpr uint32_t COLUMNS = shape::SLICE_COLUMNS;
    static constexpr uint32_t VALUES = 2 * shape::SLICE_QUERIES; /* of a thread, in a page */
    static constexpr uint32_t TURNS = shape::TURNS;

    struct scan_shared<HEADS, QUERIES> *shared;
    const uint32_t lane, slice, turn;
    const uint32_t row; /* the first of the thread's two, of a page; the other is row + 8 */
    const bool keep_scores;
    uint32_t stage = 0, parity = 0;
    uint32_t keys_at, q_at; /* matrices: the first page that is its in stage 0; the slice */
    float half_weight[COLUMNS / 4];
    float *scores;     /* of the thread's row and query, in the segment's first page */
    int32_t rows_left; /* that the query sees, from there on */

    __device__ __forceinline__ void release()
    {
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&shared->page_empty[stage]);
    }

    __device__ __forceinline__ void finish(float (&sum)[COLUMNS / 2], float2 scale, uint32_t index)
    {
        float value[VALUES]; /* [query][row] */
#pragma unroll
        for (uint32_t j = 0; j < COLUMNS / 8; j++)
#pragma unroll
            for (uint32_t c = 0; c < 2; c++)
#pragma unroll
                for (uint32_t i = 0; i < 2; i++) {
                    /* x + |x| is 2 max(0, x) exactly, and takes a pipe that has room. */
                    const float x = sum[4 * j + 2 * i + c];
                    float &score = value[8 * j / HEADS * 2 + i];
                    const float before = 8 * j % HEADS == 0 && c == 0 ? 0.0f : score;
                    score = fmaf(half_weight[2 * j + c], x + fabsf(x), before);
                }
        sum_over_row<VALUES>(value, lane);
        float *to = scores + index * PAGE_ROWS;
        const int32_t left = rows_left - (int32_t)(index * PAGE_ROWS);
        if (VALUES > 4) { /* both of the rows, of one query */
            if (left > 0)
                __stcs(to, value[0] * scale.x);
            if (left > 8)
                __stcs(to + 8, value[1] * scale.y);
        } else if (left > 0) {
            const float score = value[0] * (first_value<VALUES>(lane) % 2 ? scale.y : scale.x);
            if (QUERIES == 1)
                *to = score;
            else
                __stcs(to, score);
        }
    }

    __device__ __forceinline__ void begin(const struct kvt_gpu_scan &scan, uint32_t side)
    {
        const struct scan_segment segment = shared->segments[side];
        const uint32_t first_column = slice * COLUMNS, value = first_value<VALUES>(lane);
        const uint32_t query = slice * shape::SLICE_QUERIES + value / 2;
        const uint32_t first_row = segment.first_page * PAGE_ROWS + row + value % 2 * 8;
        q_at = uniform(matrix_at(shared->q[side][first_column]));
        const float *weights = scan.weights + (size_t)segment.first_query * HEADS;
#pragma unroll
        for (uint32_t i = 0; i < COLUMNS / 4; i++) {
            const uint32_t column = first_column + i / 2 * 8 + lane % 4 * 2 + i % 2;
            half_weight[i] = column < segment.query_count * HEADS ? 0.5f * weights[column] : 0;
        }
        if (QUERIES == 1 && keep_scores) {
            const float *lines = scan.scores + (size_t)segment.first_query * scan.score_stride +
                                 segment.first_page * PAGE_ROWS;
            for (uint32_t i = threadIdx.x; i < PAGE_ROWS / 32 * segment.page_count;
                 i += CONSUMERS * WARPGROUP)
                keep_line(lines + 32 * i);
        }
        scores =
            scan.scores + (size_t)(segment.first_query + query) * scan.score_stride + first_row;
        rows_left = 0; /* threads 2 and 3 of a row have what 0 and 1 have, if they are of one */
        if (query < segment.query_count && (VALUES > 2 || lane % 4 < 2))
            rows_left = (int32_t)visible_rows(scan, segment, query) - (int32_t)first_row;
    }

    /* A page of the segment, as soon as it has come. Its stage is free when the warpgroup's last
     * page of the copy has been read. */
    __device__ __forceinline__ void scan_pages(uint32_t count)
    {
        float sum[COLUMNS / 2];
        for (uint32_t first = 0; first < count; first += COPY_PAGES) {
            barrier_wait(&shared->page_full[stage], parity);
            if (first + turn >= count) /* nothing of this copy is its */
                release();
#pragma unroll
            for (uint32_t i = 0; i < COPY_PAGES; i += TURNS) {
                const uint32_t index = first + turn + i;
                if (index >= count)
                    break;
                multiply_page<COLUMNS>(sum, keys_at + (stage * COPY_PAGES + i) * PAGE_UNITS, q_at);
                const float *scales = &shared->scales[stage][turn + i][row];
                const float2 scale = {scales[0], scales[8]};
                wait_for_product(sum);
                if (i + TURNS >= COPY_PAGES || index + TURNS >= count)
                    release();
                finish(sum, scale, index);
            }
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }

  public:
    __device__ consumer(struct scan_shared<HEADS, QUERIES> *shared, uint32_t index,
                        bool keep_scores)
        : shared(shared), lane(threadIdx.x % 32), slice(index % shape::SLICES),
          turn(index / shape::SLICES), row(threadIdx.x / 32 % 4 * 16 + lane / 4),
          keep_scores(keep_scores)
    {
        keys_at = uniform(matrix_at(shared->keys[0][turn]));
    }

    __device__ __forceinline__ void run(const struct kvt_gpu_scan &scan)
    {
        for (uint32_t side = 0, side_parity = 0;; side ^= 1, side_parity ^= side == 0) {
            barrier_wait(&shared->q_full[side], side_parity);
            const uint32_t count = uniform(shared->segments[side].page_count);
            if (count == 0)
                return;
            begin(scan, side);
            scan_pages(count);
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&shared->q_empty[side]);
        }
    }
};

/* A block an SM, each with an equal share of the pages of all requests; one thread asks for pages
 * and queries, four warpgroups multiply:
 *
 *     for each page of the share, as many under way as shared memory holds
 *         product[64 rows][queries x heads] = keys * q^T          by wgmma, e4m3 into float
 *         score[row][query] = scale[row] * sum over heads of weight * max(0, product)
 *
 * A score is summed in an order of its own: 8 or 16 heads by each of the row's four threads in
 * ascending order, then (0 + 1) + (2 + 3). It depends on nothing else that is in the step.
 *
 * Floor for 32 requests of 102,400 rows and 32 heads: 432 MB at 4.69 TB/s, 92 us, as long as it
 * is not 2.7e10 operations a query at 1,474 TFLOP/s, 18 us each: 146 us for 8 queries. The sums
 * take 2 instructions an element, half of the cycles that the products take. */
template <uint32_t HEADS, uint32_t QUERIES>
__global__ void __launch_bounds__(THREADS, 1)
    scan_wgmma(const __grid_constant__ struct kvt_gpu_scan scan,
               const __grid_constant__ struct scan_maps maps, uint32_t groups, bool keep_scores)
{
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t dynamic[];
    auto *shared = (struct scan_shared<HEADS, QUERIES> *)(dynamic + (0u - address_of(dynamic)) %
                                                                        SWIZZLE_BYTES);
    const uint32_t warpgroup = uniform(threadIdx.x / WARPGROUP);
    if (threadIdx.x == 0) {
        prefetch_map(&maps.keys);
        prefetch_map(&maps.scales);
        prefetch_map(&maps.q);
        for (uint32_t i = 0; i < STAGES; i++) {
            barrier_init(&shared->page_full[i], 1);
            barrier_init(&shared->page_empty[i], 4 * CONSUMERS); /* warps */
        }
        for (uint32_t i = 0; i < 2; i++) {
            barrier_init(&shared->q_full[i], 1);
            barrier_init(&shared->q_empty[i], 4 * CONSUMERS);
        }
        barriers_are_ready();
    }
    kernel_wait();
    kernel_let_next_come(); /* top-k may come to SMs that have done their share */
    uint32_t share = find_share<HEADS, QUERIES>(scan, groups, shared); /* a barrier inside */
    if (warpgroup == CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x % WARPGROUP == 0)
            fetch<HEADS, QUERIES>(scan, maps, groups, share, shared);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
        consumer<HEADS, QUERIES>(shared, warpgroup, keep_scores).run(scan);
    }
#else
    __trap();
#endif
}

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

struct axis {
    cuuint64_t size, stride; /* elements; bytes to the next, but for the innermost */
    cuuint32_t box;          /* of it in a copy */
};

CUresult make_map(encode_tiled encode, CUtensorMapDataType type, const void *base,
                  const struct axis *axes, uint32_t count, CUtensorMapSwizzle swizzle,
                  CUtensorMapL2promotion promotion, CUtensorMap *map)
{
    cuuint64_t sizes[4], strides[4];
    cuuint32_t box[4];
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    for (uint32_t i = 0; i < count; i++) {
        sizes[i] = axes[i].size;
        box[i] = axes[i].box;
        strides[i] = i + 1 < count ? axes[i + 1].stride : 0;
    }
    return encode(map, type, count, (void *)base, sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

cudaError_t make_maps(const struct kvt_gpu_scan *scan, uint32_t columns, struct scan_maps *maps)
{
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                         cudaEnableDefault, &found);
    if (error != cudaSuccess)
        return error;
    if (found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    const encode_tiled encode = (encode_tiled)entry;
    const cuuint64_t pages = (scan->rows_max + PAGE_ROWS - 1) / PAGE_ROWS;
    const cuuint64_t lanes = 1u << 16; /* a bound of the maps alone */
    const struct axis keys[] = {{DIM, 0, DIM},
                                {PAGE_ROWS, DIM, PAGE_ROWS},
                                {pages, KVT_GPU_INDEX_PAGE_BYTES, COPY_PAGES},
                                {lanes, scan->lane_bytes, 1}};
    const struct axis scales[] = {{PAGE_ROWS, 0, PAGE_ROWS},
                                  {pages, KVT_GPU_INDEX_PAGE_BYTES, COPY_PAGES},
                                  {lanes, scan->lane_bytes, 1}};
    const struct axis q[] = {{DIM, 0, DIM},
                             {(cuuint64_t)scan->query_count * scan->heads, DIM, columns}};
    CUresult result =
        make_map(encode, CU_TENSOR_MAP_DATA_TYPE_UINT8, scan->keys, keys, 4,
                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, &maps->keys);
    if (result == CUDA_SUCCESS)
        result =
            make_map(encode, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, scan->keys + PAGE_ROWS * DIM, scales,
                     3, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, &maps->scales);
    if (result == CUDA_SUCCESS)
        result = make_map(encode, CU_TENSOR_MAP_DATA_TYPE_UINT8, scan->q, q, 2,
                          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, &maps->q);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <uint32_t HEADS, uint32_t QUERIES>
cudaError_t launch(const struct kvt_gpu_scan *scan, int multiprocessors, cudaStream_t stream)
{
    struct scan_maps maps;
    cudaError_t error = make_maps(scan, HEADS * QUERIES, &maps);
    if (error != cudaSuccess)
        return error;
    const int bytes = sizeof(struct scan_shared<HEADS, QUERIES>) + SWIZZLE_BYTES;
    error = cudaFuncSetAttribute(scan_wgmma<HEADS, QUERIES>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess)
        return error;
    const size_t score_bytes = (size_t)scan->query_count * scan->score_stride * sizeof(float);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)multiprocessors);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, scan_wgmma<HEADS, QUERIES>, *scan, maps,
                              (scan->queries_max + QUERIES - 1) / QUERIES,
                              score_bytes <= SCORES_KEPT);
}

} // namespace

cudaError_t kvt_gpu_scan_fast(const struct kvt_gpu_scan *scan, int multiprocessors,
                              cudaStream_t stream)
{
    if (scan->heads == 64)
        return scan->queries_max == 1   ? launch<64, 1>(scan, multiprocessors, stream)
               : scan->queries_max == 2 ? launch<64, 2>(scan, multiprocessors, stream)
                                        : launch<64, 4>(scan, multiprocessors, stream);
    return scan->queries_max == 1   ? launch<32, 1>(scan, multiprocessors, stream)
           : scan->queries_max == 2 ? launch<32, 2>(scan, multiprocessors, stream)
           : scan->queries_max <= 4 ? launch<32, 4>(scan, multiprocessors, stream)
                                    : launch<32, 8>(scan, multiprocessors, stream);
}
