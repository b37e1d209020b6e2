/* scan_fast.cu -- scores of all rows of an index, by the FP8 tensor cores of sm_90a. */
#include "select.cuh"

#include <cuda.h>

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177 /* on other architectures the kernel is empty, and all else unused */
#endif

namespace
{

constexpr uint32_t PAGE_ROWS = 64;
constexpr uint32_t DIM = KVT_GPU_INDEX_DIM;
constexpr uint32_t KEY_BYTES = PAGE_ROWS * DIM; /* of a page */
constexpr uint32_t SCALE_BYTES = PAGE_ROWS * 4; /* of a page, behind its keys */
constexpr uint32_t CONSUMERS = 2;               /* warpgroups */
constexpr uint32_t WARPGROUP = 128;             /* threads */
constexpr uint32_t THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr uint32_t LANES_MAX = 1u << 16; /* bound of the tensor map alone */

/* Columns of the product are (query, head) pairs. A warpgroup has all of a page's, or, where
 * its registers would not hold them twice, one of two halves of them. */
template <uint32_t HEADS, uint32_t QUERIES> struct scan_shape {
    static constexpr uint32_t COLUMNS = HEADS * QUERIES;
    static constexpr uint32_t SLICES = COLUMNS > 128 ? 2 : 1;
    static constexpr uint32_t SLICE_COLUMNS = COLUMNS / SLICES;
    static constexpr uint32_t SLICE_QUERIES = QUERIES / SLICES;
    static constexpr uint32_t STAGES = COLUMNS > 128 ? 16 : 20; /* pages under way */
};

/* A stretch of pages of one request that one block scans for up to QUERIES of its queries. */
template <uint32_t QUERIES> struct scan_segment {
    uint32_t first_row, page_count; /* page_count 0: there is no more */
    uint32_t first_query;
    uint32_t visible_rows[QUERIES];
};

template <uint32_t HEADS, uint32_t QUERIES> struct scan_shared {
    using shape = struct scan_shape<HEADS, QUERIES>;
    uint8_t keys[shape::STAGES][KEY_BYTES]; /* swizzled by the copy, hence first, and aligned */
    uint8_t q[2][shape::COLUMNS][DIM];      /* likewise; one is read while the next one comes */
    float scales[shape::STAGES][PAGE_ROWS];
    float weights[2][shape::COLUMNS];
    struct scan_segment<QUERIES> segments[2];
    uint64_t page_full[shape::STAGES], page_empty[shape::STAGES];
    uint64_t q_full[2], q_empty[2];
    uint32_t sums[THREADS / 32];
    uint32_t first_item, first_page; /* where this block begins */
};
constexpr uint32_t SWIZZLE_BYTES = 1024; /* what shared memory of a swizzled copy is aligned to */

__device__ __forceinline__ uint32_t address_of(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

__device__ __forceinline__ void barrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(barrier)), "r"(arrivals)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
}

/* Arrives, and lets the phase wait for so many bytes of copies. */
__device__ __forceinline__ void barrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(address_of(barrier)),
                 "r"(parity)
                 : "memory");
}

/* Keys are read once: they shall not drive the scores out of L2. */
__device__ __forceinline__ uint64_t read_once_policy()
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void copy_keys(void *dst, const CUtensorMap *map, uint32_t page,
                                          uint32_t lane, uint64_t *barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %2, %3, %4}], [%5], %6;" ::"r"(address_of(dst)),
                 "l"(map), "r"(0), "r"(page), "r"(lane), "r"(address_of(barrier)), "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void copy_q(void *dst, const CUtensorMap *map, uint32_t row,
                                       uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(address_of(dst)),
                 "l"(map), "r"(0), "r"(row), "r"(address_of(barrier))
                 : "memory");
}

__device__ __forceinline__ void copy_bytes(void *dst, const void *src, uint32_t bytes,
                                           uint64_t *barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(address_of(dst)),
                 "l"(src), "r"(bytes), "r"(address_of(barrier)), "l"(policy)
                 : "memory");
}

/* What wgmma is told about a matrix of rows of 128 bytes, swizzled, eight rows 1,024 bytes
 * apart from the next eight. */
__device__ __forceinline__ uint64_t matrix_descriptor(const void *matrix)
{
    return (uint64_t)(address_of(matrix) >> 4) | (uint64_t)(SWIZZLE_BYTES >> 4) << 32 |
           (uint64_t)1 << 62;
}

#define SUM(i) "+f"(sum[i])
#define SUMS_4(i) SUM(i), SUM(i + 1), SUM(i + 2), SUM(i + 3)
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)

/* sum[64 rows][COLUMNS] = keys[64][32] * q[COLUMNS][32]^T, or += where `add`. Of the product,
 * thread t of a warp w has sum[4j + 2i + c]: row 16w + 8i + t / 4, column 8j + t % 4 * 2 + c. */
template <uint32_t COLUMNS>
__device__ void multiply(float (&sum)[COLUMNS / 2], uint64_t keys, uint64_t q, bool add);

template <>
__device__ __forceinline__ void multiply<32>(float (&sum)[16], uint64_t keys, uint64_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %18, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "%16, %17, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0)
                 : "l"(keys), "l"(q), "r"((int)add));
}

template <>
__device__ __forceinline__ void multiply<64>(float (&sum)[32], uint64_t keys, uint64_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "%32, %33, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0), SUMS_16(16)
                 : "l"(keys), "l"(q), "r"((int)add));
}

template <>
__device__ __forceinline__ void multiply<128>(float (&sum)[64], uint64_t keys, uint64_t q, bool add)
{
    asm volatile("{\n"
                 ".reg .pred add;\n"
                 "setp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1;\n"
                 "}"
                 : SUMS_16(0), SUMS_16(16), SUMS_16(32), SUMS_16(48)
                 : "l"(keys), "l"(q), "r"((int)add));
}

#undef SUMS_16
#undef SUMS_4
#undef SUM

template <uint32_t COLUMNS>
__device__ __forceinline__ void multiply_page(float (&sum)[COLUMNS / 2], uint64_t keys, uint64_t q)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (uint32_t step = 0; step < DIM / 32; step++) /* 32 bytes are 2 units of a descriptor */
        multiply<COLUMNS>(sum, keys + 2 * step, q + 2 * step, step > 0);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits for `sum`, behind which UNDER_WAY products may still be. */
template <uint32_t UNDER_WAY, uint32_t SUMS>
__device__ __forceinline__ void wait_for_product(float (&sum)[SUMS])
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(UNDER_WAY) : "memory");
#pragma unroll
    for (uint32_t i = 0; i < SUMS; i++) /* so that no use of it moves before the wait */
        asm volatile("" : "+f"(sum[i])::"memory");
}

/* Sums over the four threads of a row, (0 + 1) + (2 + 3) for every value. Halves of the values
 * are exchanged as long as there are two: afterwards a thread has value[0 .. max(1, VALUES /
 * 4)) of those from `first` on. */
template <uint32_t VALUES>
__device__ __forceinline__ uint32_t sum_over_row(float (&value)[VALUES], uint32_t lane)
{
    uint32_t first = 0, left = VALUES;
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
            first += upper ? left : 0;
        } else {
            value[0] += __shfl_xor_sync(~0u, value[0], step);
        }
    }
    return first;
}

/* Pages that the item (a request's group of QUERIES queries) is scanned over. */
template <uint32_t QUERIES>
__device__ uint32_t pages_of_item(const struct kvt_gpu_scan &scan, uint32_t groups, uint32_t item)
{
    struct kvt_gpu_request request = scan.requests[item / groups];
    uint32_t first = item % groups * QUERIES, rows = 0;
#pragma unroll
    for (uint32_t i = 0; i < QUERIES; i++)
        if (first + i < request.query_count)
            rows =
                max(rows, select_visible_rows(
                              request, scan.queries[request.first_query + first + i], scan.ratio));
    return (rows + PAGE_ROWS - 1) / PAGE_ROWS;
}

/* Cuts the pages of all items, one after the other, into gridDim.x equal shares: how many this
 * block's share has, and where it begins. All threads of the block take part. */
template <uint32_t HEADS, uint32_t QUERIES>
__device__ uint32_t find_share(const struct kvt_gpu_scan &scan, uint32_t groups,
                               struct scan_shared<HEADS, QUERIES> *shared)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t items = scan.request_count * groups;
    const uint32_t items_each = (items + THREADS - 1) / THREADS;
    const uint32_t first = min(threadIdx.x * items_each, items);
    const uint32_t last = min(first + items_each, items);
    uint32_t own = 0;
    for (uint32_t item = first; item < last; item++)
        own += pages_of_item<QUERIES>(scan, groups, item);
    uint32_t sum = own;
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t other = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? other : 0;
    }
    if (lane == 31)
        shared->sums[warp] = sum;
    __syncthreads();
    uint32_t part = lane < THREADS / 32 ? shared->sums[lane] : 0;
    uint32_t before = sum - own + __reduce_add_sync(~0u, lane < warp ? part : 0);
    uint64_t total = __reduce_add_sync(~0u, part);
    uint32_t begin = (uint32_t)(total * blockIdx.x / gridDim.x);
    uint32_t end = (uint32_t)(total * (blockIdx.x + 1) / gridDim.x);
    if (before <= begin && begin < before + own) {
        uint32_t item = first;
        for (;; item++) {
            uint32_t pages = pages_of_item<QUERIES>(scan, groups, item);
            if (begin - before < pages)
                break;
            before += pages;
        }
        shared->first_item = item;
        shared->first_page = begin - before;
    }
    __syncthreads();
    return end - begin;
}

/* One thread: asks for the pages of the block's share, in order, as stages become free. */
template <uint32_t HEADS, uint32_t QUERIES>
__device__ void produce(const struct kvt_gpu_scan &scan, const CUtensorMap *key_map,
                        const CUtensorMap *q_map, uint32_t groups, uint32_t share,
                        struct scan_shared<HEADS, QUERIES> *shared)
{
    using shape = struct scan_shape<HEADS, QUERIES>;
    const uint64_t policy = read_once_policy();
    uint32_t item = shared->first_item, page = shared->first_page;
    uint32_t stage = 0, stage_parity = 1, side = 0, side_parity = 1;
    for (;;) {
        uint32_t page_count = 0;
        if (share > 0) {
            page_count = min(share, pages_of_item<QUERIES>(scan, groups, item) - page);
            if (page_count == 0) { /* sees no row */
                item++;
                continue;
            }
        }
        barrier_wait(&shared->q_empty[side], side_parity);
        struct scan_segment<QUERIES> *segment = &shared->segments[side];
        segment->page_count = page_count;
        if (page_count == 0) {
            barrier_arrive(&shared->q_full[side]);
            return;
        }
        struct kvt_gpu_request request = scan.requests[item / groups];
        uint32_t first = item % groups * QUERIES;
        uint32_t first_query = request.first_query + first;
        uint32_t query_count = min(request.query_count - first, QUERIES);
        segment->first_row = page * PAGE_ROWS;
        segment->first_query = first_query;
#pragma unroll
        for (uint32_t i = 0; i < QUERIES; i++)
            segment->visible_rows[i] =
                i < query_count
                    ? select_visible_rows(request, scan.queries[first_query + i], scan.ratio)
                    : 0;
        uint32_t weight_bytes = query_count * HEADS * sizeof(float);
        barrier_expect(&shared->q_full[side], shape::COLUMNS * DIM + weight_bytes);
        copy_q(shared->q[side], q_map, first_query * HEADS, &shared->q_full[side]);
        copy_bytes(shared->weights[side], scan.weights + (size_t)first_query * HEADS, weight_bytes,
                   &shared->q_full[side], policy);

        const uint8_t *scales = scan.keys + request.lane * scan.lane_bytes + KEY_BYTES +
                                (size_t)page * KVT_GPU_INDEX_PAGE_BYTES;
        for (uint32_t i = 0; i < page_count; i++) {
            barrier_wait(&shared->page_empty[stage], stage_parity);
            barrier_expect(&shared->page_full[stage], KEY_BYTES + SCALE_BYTES);
            copy_keys(shared->keys[stage], key_map, page + i, request.lane,
                      &shared->page_full[stage], policy);
            copy_bytes(shared->scales[stage], scales, SCALE_BYTES, &shared->page_full[stage],
                       policy);
            scales += KVT_GPU_INDEX_PAGE_BYTES;
            if (++stage == shape::STAGES) {
                stage = 0;
                stage_parity ^= 1;
            }
        }
        share -= page_count;
        item++;
        page = 0;
        side ^= 1;
        side_parity ^= side == 0;
    }
}

/* One warpgroup: products of its pages, each while the one before is summed up. */
template <uint32_t HEADS, uint32_t QUERIES> class consumer
{
    using shape = struct scan_shape<HEADS, QUERIES>;
    static constexpr uint32_t COLUMNS = shape::SLICE_COLUMNS;
    static constexpr uint32_t VALUES = 2 * shape::SLICE_QUERIES; /* of a thread, in a page */
    /* With one slice the warpgroups take turns at pages, with two they share each. */
    static constexpr uint32_t STRIDE = CONSUMERS / shape::SLICES;

    const struct kvt_gpu_scan &scan;
    struct scan_shared<HEADS, QUERIES> *shared;
    const struct scan_segment<QUERIES> *segment;
    uint32_t lane, warp, slice, turn;
    uint32_t position = 0; /* of the segment's first page among all of the block's */
    uint64_t q;
    float weight[COLUMNS / 4];

    __device__ __forceinline__ void multiply(float (&sum)[COLUMNS / 2], uint32_t page)
    {
        uint32_t at = position + page;
        uint32_t stage = at % shape::STAGES;
        barrier_wait(&shared->page_full[stage], at / shape::STAGES & 1);
        multiply_page<COLUMNS>(sum, matrix_descriptor(shared->keys[stage]), q);
    }

    __device__ __forceinline__ void finish(const float (&sum)[COLUMNS / 2], uint32_t page)
    {
        uint32_t stage = (position + page) % shape::STAGES;
        uint32_t row = 16 * warp + lane / 4;
        float scale[2] = {shared->scales[stage][row], shared->scales[stage][row + 8]};
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&shared->page_empty[stage]);

        float value[VALUES]; /* [query][half of the warp's rows] */
#pragma unroll
        for (uint32_t query = 0; query < shape::SLICE_QUERIES; query++) {
            float score[2] = {0, 0};
#pragma unroll
            for (uint32_t j = query * HEADS / 8; j < (query + 1) * HEADS / 8; j++)
#pragma unroll
                for (uint32_t c = 0; c < 2; c++)
#pragma unroll
                    for (uint32_t half = 0; half < 2; half++)
                        score[half] = fmaf(weight[2 * j + c],
                                           fmaxf(sum[4 * j + 2 * half + c], 0.0f), score[half]);
            value[2 * query] = score[0];
            value[2 * query + 1] = score[1];
        }
        uint32_t first = sum_over_row<VALUES>(value, lane);
        constexpr uint32_t MINE = VALUES > 4 ? VALUES / 4 : 1;
        if (VALUES == 2 && (lane & 2))
            return; /* threads 2 and 3 of a row have what 0 and 1 have */
#pragma unroll
        for (uint32_t i = 0; i < MINE; i++) {
            uint32_t half = (first + i) % 2;
            uint32_t query = slice * shape::SLICE_QUERIES + (first + i) / 2;
            uint32_t at = segment->first_row + page * PAGE_ROWS + row + 8 * half;
            if (at < segment->visible_rows[query])
                scan.scores[(size_t)(segment->first_query + query) * scan.score_stride + at] =
                    value[i] * scale[half];
        }
    }

  public:
    __device__ consumer(const struct kvt_gpu_scan &scan, struct scan_shared<HEADS, QUERIES> *shared,
                        uint32_t index)
        : scan(scan), shared(shared), lane(threadIdx.x % 32), warp(threadIdx.x / 32 % 4),
          slice(index % shape::SLICES), turn(index / shape::SLICES)
    {
    }

    __device__ __forceinline__ void run()
    {
        for (uint32_t side = 0, parity = 0;; side ^= 1, parity ^= side == 0) {
            barrier_wait(&shared->q_full[side], parity);
            segment = &shared->segments[side];
            const uint32_t page_count = segment->page_count;
            if (page_count == 0)
                return;
            const uint32_t first_column = slice * COLUMNS;
            q = matrix_descriptor(shared->q[side][first_column]);
#pragma unroll
            for (uint32_t j = 0; j < COLUMNS / 8; j++) {
                const float *from = &shared->weights[side][first_column + 8 * j + lane % 4 * 2];
                weight[2 * j] = from[0];
                weight[2 * j + 1] = from[1];
            }

            float even[COLUMNS / 2], odd[COLUMNS / 2];
            uint32_t page = (turn + STRIDE - position % STRIDE) % STRIDE;
            if (page < page_count) {
                multiply(even, page);
                for (; page + 2 * STRIDE < page_count; page += 2 * STRIDE) {
                    multiply(odd, page + STRIDE);
                    wait_for_product<1>(even);
                    finish(even, page);
                    multiply(even, page + 2 * STRIDE);
                    wait_for_product<1>(odd);
                    finish(odd, page + STRIDE);
                }
                if (page + STRIDE < page_count) {
                    multiply(odd, page + STRIDE);
                    wait_for_product<1>(even);
                    finish(even, page);
                    wait_for_product<0>(odd);
                    finish(odd, page + STRIDE);
                } else {
                    wait_for_product<0>(even);
                    finish(even, page);
                }
            }
            position += page_count;
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&shared->q_empty[side]);
        }
    }
};

/* A block an SM, each with an equal share of the pages of all requests; one warpgroup asks for
 * pages, two multiply:
 *
 *     for each page of the share, STAGES of them under way
 *         product[64 rows][queries x heads] = keys * q^T          by wgmma, e4m3 into float
 *         score[row][query] = scale[row] * sum over heads of weight * max(0, product)
 *
 * A score is summed in an order of its own: 8 or 16 heads by each of the row's four threads in
 * ascending order, then (0 + 1) + (2 + 3). It depends on nothing else that is in the step.
 *
 * Floor for 32 requests of 102,400 rows and 32 heads: 432 MB at 4.5 TB/s, 96 us, as long as it
 * is not 4.3e11 / 8 operations a query at 1,474 TFLOP/s, 18 us each: 146 us for 8 queries. The
 * sums take 2 instructions an element, half of what the products take. */
template <uint32_t HEADS, uint32_t QUERIES>
__global__ void __launch_bounds__(THREADS, 1)
    scan_wgmma(const __grid_constant__ struct kvt_gpu_scan scan,
               const __grid_constant__ CUtensorMap key_map,
               const __grid_constant__ CUtensorMap q_map, uint32_t groups)
{
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using shape = struct scan_shape<HEADS, QUERIES>;
    extern __shared__ uint8_t dynamic[];
    auto *shared = (struct scan_shared<HEADS, QUERIES> *)(dynamic + (0u - address_of(dynamic)) %
                                                                        SWIZZLE_BYTES);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < shape::STAGES; i++) {
            barrier_init(&shared->page_full[i], 1);
            barrier_init(&shared->page_empty[i], 4 * shape::SLICES); /* warps that read it */
        }
        for (uint32_t i = 0; i < 2; i++) {
            barrier_init(&shared->q_full[i], 1);
            barrier_init(&shared->q_empty[i], 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    uint32_t share = find_share<HEADS, QUERIES>(scan, groups, shared); /* a barrier inside */
    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            produce<HEADS, QUERIES>(scan, &key_map, &q_map, groups, share, shared);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consumer<HEADS, QUERIES>(scan, shared, threadIdx.x / WARPGROUP - 1).run();
    }
#else
    __trap();
#endif
}

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* A map of bytes in rows of DIM that are swizzled on their way to shared memory. */
cudaError_t encode(CUtensorMap *map, const void *base, uint32_t rank, const cuuint64_t *sizes,
                   const cuuint64_t *strides, const cuuint32_t *box)
{
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                         cudaEnableDefault, &found);
    if (error != cudaSuccess)
        return error;
    if (found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUresult result = ((encode_tiled)entry)(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, rank, (void *)base, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <uint32_t HEADS, uint32_t QUERIES>
cudaError_t launch(const struct kvt_gpu_scan *scan, int multiprocessors, cudaStream_t stream)
{
    using shape = struct scan_shape<HEADS, QUERIES>;
    CUtensorMap key_map, q_map;
    const cuuint64_t key_sizes[4] = {DIM, PAGE_ROWS, (scan->rows_max + PAGE_ROWS - 1) / PAGE_ROWS,
                                     LANES_MAX};
    const cuuint64_t key_strides[3] = {DIM, KVT_GPU_INDEX_PAGE_BYTES, scan->lane_bytes};
    const cuuint32_t key_box[4] = {DIM, PAGE_ROWS, 1, 1};
    const cuuint64_t q_sizes[2] = {DIM, (cuuint64_t)scan->query_count * HEADS};
    const cuuint64_t q_strides[1] = {DIM};
    const cuuint32_t q_box[2] = {DIM, shape::COLUMNS};
    cudaError_t error = encode(&key_map, scan->keys, 4, key_sizes, key_strides, key_box);
    if (error == cudaSuccess)
        error = encode(&q_map, scan->q, 2, q_sizes, q_strides, q_box);
    if (error != cudaSuccess)
        return error;
    const int bytes = sizeof(struct scan_shared<HEADS, QUERIES>) + SWIZZLE_BYTES;
    error = cudaFuncSetAttribute(scan_wgmma<HEADS, QUERIES>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess)
        return error;
    scan_wgmma<HEADS, QUERIES><<<multiprocessors, THREADS, bytes, stream>>>(
        *scan, key_map, q_map, (scan->queries_max + QUERIES - 1) / QUERIES);
    return cudaGetLastError();
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
