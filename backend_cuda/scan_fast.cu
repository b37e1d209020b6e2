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
constexpr uint32_t COPY_PAGES = 4;  /* of one copy: with one, issuing them takes too long */
constexpr uint32_t WARPGROUP = 128; /* threads */
constexpr uint32_t CONSUMERS = 4;   /* warpgroups */
constexpr uint32_t THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr uint32_t Q_THREADS = WARPGROUP - 32; /* of the first warpgroup, behind its first warp */
constexpr uint32_t COPY_BYTES = COPY_PAGES * KVT_GPU_INDEX_PAGE_BYTES;
constexpr uint32_t LANES_MAX = 1u << 16; /* bound of the tensor maps alone */
constexpr uint32_t SWIZZLE_BYTES = 1024; /* what a swizzled matrix is aligned to */

/* Columns of the product are (query, head) pairs. A warpgroup has a slice of up to 128 of them;
 * those of one slice take turns at pages. */
template <uint32_t HEADS, uint32_t QUERIES> struct scan_shape {
    static constexpr uint32_t COLUMNS = HEADS * QUERIES;
    static constexpr uint32_t SLICES = COLUMNS > 128 ? COLUMNS / 128 : 1;
    static constexpr uint32_t SLICE_COLUMNS = COLUMNS / SLICES;
    static constexpr uint32_t SLICE_QUERIES = QUERIES / SLICES;
    static constexpr uint32_t TURNS = CONSUMERS / SLICES;
    static constexpr uint32_t STAGES = COLUMNS > 128 ? 4 : 5; /* copies under way */
};

/* Consecutive pages of one request that one block scans for up to QUERIES of its queries. */
struct scan_segment {
    uint32_t item; /* (request, group of queries) */
    uint32_t first_page, page_count;
};

template <uint32_t HEADS, uint32_t QUERIES> struct scan_shared {
    using shape = struct scan_shape<HEADS, QUERIES>;
    /* Swizzled, hence first, and aligned. */
    uint8_t keys[shape::STAGES][COPY_PAGES][PAGE_ROWS][DIM];
    uint8_t q[2][shape::COLUMNS][DIM]; /* one is read while the next one comes */
    float scales[shape::STAGES][COPY_PAGES][PAGE_ROWS];
    float4 half_weights[2][shape::COLUMNS / 4]; /* see place_of_weight() */
    struct scan_segment segments[2];            /* page_count 0: there is no more */
    uint32_t first_query[2];
    uint32_t visible_rows[2][QUERIES];
    uint64_t page_full[shape::STAGES], page_empty[shape::STAGES];
    uint64_t q_full[2], q_empty[2];
    uint32_t sums[THREADS / 32];
    uint32_t first_item, first_page; /* where this block begins */
};

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

/* Keys of COPY_PAGES pages, swizzled, and their scales; what lies behind the index is 0. */
__device__ __forceinline__ void copy_pages(void *keys, const CUtensorMap *key_map, void *scales,
                                           const CUtensorMap *scale_map, uint32_t page,
                                           uint32_t lane, uint64_t *barrier, uint64_t policy)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(barrier)),
        "r"(COPY_BYTES)
        : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %2, %3, %4}], [%5], %6;" ::"r"(address_of(keys)),
                 "l"(key_map), "r"(0), "r"(page), "r"(lane), "r"(address_of(barrier)), "l"(policy)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(address_of(scales)),
                 "l"(scale_map), "r"(0), "r"(page), "r"(lane), "r"(address_of(barrier)), "l"(policy)
                 : "memory");
}

/* Through addresses: by pointers they would be reckoned anew for each load. */
__device__ __forceinline__ uint4 load_words(uint32_t address)
{
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address)
                 : "memory");
    return words;
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

/* sum[64][COLUMNS] = keys[64][32] * q[COLUMNS][32]^T, or += where `add`. Of the product, thread
 * t of warp w has sum[4j + 2i + c]: row 16w + 8i + t / 4, column 8j + t % 4 * 2 + c. */
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

template <uint32_t SUMS> __device__ __forceinline__ void wait_for_product(float (&sum)[SUMS])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (uint32_t i = 0; i < SUMS; i++) /* so that no use of it moves before the wait */
        asm volatile("" : "+f"(sum[i])::"memory");
}

/* Thread t of a row has columns 8j + 2t and 8j + 2t + 1; four weights that it needs one after
 * the other lie together, beside those of the other three. */
__device__ __forceinline__ uint32_t place_of_weight(uint32_t column)
{
    return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
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

/* Pages that the item (a request's group of QUERIES queries) is scanned over: up to what the
 * deepest query sees, so that nothing has to be asked about each. */
template <uint32_t QUERIES>
__device__ __forceinline__ uint32_t pages_of_item(const struct kvt_gpu_scan &scan, uint32_t groups,
                                                  uint32_t item)
{
    const struct kvt_gpu_request &request = scan.requests[item / groups];
    const uint32_t query_count = request.query_count;
    const uint32_t rows = min((request.context_tokens + query_count) / scan.ratio, scan.rows_max);
    return item % groups * QUERIES < query_count ? (rows + PAGE_ROWS - 1) / PAGE_ROWS : 0;
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

/* The next segment of a share of which `share` pages are left; `segment` is the one before. */
template <uint32_t QUERIES>
__device__ struct scan_segment next_segment(const struct kvt_gpu_scan &scan, uint32_t groups,
                                            struct scan_segment segment, uint32_t share)
{
    segment.first_page += segment.page_count;
    segment.page_count = 0;
    while (share > 0) {
        uint32_t pages = pages_of_item<QUERIES>(scan, groups, segment.item);
        if (segment.first_page < pages) {
            segment.page_count = min(share, pages - segment.first_page);
            break;
        }
        segment.item++;
        segment.first_page = 0;
    }
    return segment;
}

/* One thread: asks for the pages of the block's share, in order, as stages become free. */
template <uint32_t HEADS, uint32_t QUERIES>
__device__ void fetch_pages(const struct kvt_gpu_scan &scan, const CUtensorMap *key_map,
                            const CUtensorMap *scale_map, uint32_t groups, uint32_t share,
                            struct scan_shared<HEADS, QUERIES> *shared)
{
    const uint64_t policy = read_once_policy();
    struct scan_segment segment = {shared->first_item, shared->first_page, 0};
    uint32_t stage = 0, parity = 1;
    for (; share > 0; share -= segment.page_count) {
        segment = next_segment<QUERIES>(scan, groups, segment, share);
        const uint32_t lane = scan.requests[segment.item / groups].lane;
        for (uint32_t page = 0; page < segment.page_count; page += COPY_PAGES) {
            barrier_wait(&shared->page_empty[stage], parity);
            copy_pages(shared->keys[stage], key_map, shared->scales[stage], scale_map,
                       segment.first_page + page, lane, &shared->page_full[stage], policy);
            if (++stage == scan_shape<HEADS, QUERIES>::STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

/* Q_THREADS threads: for each segment of the share its queries, their weights and what they
 * see; a segment without pages at the end. */
template <uint32_t HEADS, uint32_t QUERIES>
__device__ void fetch_queries(const struct kvt_gpu_scan &scan, uint32_t groups, uint32_t share,
                              struct scan_shared<HEADS, QUERIES> *shared)
{
    constexpr uint32_t COLUMNS = HEADS * QUERIES, VECTORS = DIM / 16;
    const uint32_t thread = threadIdx.x - 32;
    struct scan_segment segment = {shared->first_item, shared->first_page, 0};
    for (uint32_t side = 0, parity = 1;; side ^= 1, parity ^= side == 0) {
        segment = next_segment<QUERIES>(scan, groups, segment, share);
        share -= segment.page_count;
        barrier_wait(&shared->q_empty[side], parity);
        if (segment.page_count > 0) {
            struct kvt_gpu_request request = scan.requests[segment.item / groups];
            const uint32_t first = segment.item % groups * QUERIES;
            const uint32_t first_query = request.first_query + first;
            const uint32_t query_count = min(request.query_count - first, QUERIES);
            const uint4 *q = (const uint4 *)scan.q + (size_t)first_query * HEADS * VECTORS;
            for (uint32_t i = thread; i < COLUMNS * VECTORS; i += Q_THREADS) {
                const uint32_t column = i / VECTORS, vector = i % VECTORS;
                const uint4 four = column < query_count * HEADS ? q[i] : make_uint4(0, 0, 0, 0);
                /* The swizzle: pieces of 16 bytes, by row. */
                ((uint4 *)shared->q[side][column])[vector ^ column % 8] = four;
            }
            float *half_weights = (float *)shared->half_weights[side];
            for (uint32_t i = thread; i < COLUMNS; i += Q_THREADS)
                half_weights[place_of_weight(i)] =
                    i < query_count * HEADS ? 0.5f * scan.weights[(size_t)first_query * HEADS + i]
                                            : 0;
            if (thread < QUERIES)
                shared->visible_rows[side][thread] =
                    thread < query_count
                        ? select_visible_rows(request, scan.queries[first_query + thread],
                                              scan.ratio)
                        : 0;
            if (thread == 0)
                shared->first_query[side] = first_query;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        if (thread == 0)
            shared->segments[side] = segment;
        barrier_arrive(&shared->q_full[side]);
        if (segment.page_count == 0)
            return;
    }
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
    uint32_t stage = 0, parity = 0;
    uint64_t q;
    uint32_t half_weights; /* address */
    float sum[COLUMNS / 2];
    float *scores;     /* of the thread's row and query, in the segment's first page */
    int32_t rows_left; /* that the query sees, from there on */

    __device__ __forceinline__ void release()
    {
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&shared->page_empty[stage]);
        if (++stage == shape::STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    /* The product of a page of the segment, and the scales of the thread's rows. The stage is
     * free when the warpgroup's last page of the copy has been read. */
    __device__ __forceinline__ float2 multiply(uint32_t index, uint32_t count)
    {
        const uint32_t of_copy = index % COPY_PAGES;
        if (of_copy < TURNS) /* the warpgroup's first of this copy */
            barrier_wait(&shared->page_full[stage], parity);
        multiply_page<COLUMNS>(sum, matrix_descriptor(shared->keys[stage][of_copy]), q);
        const float *scales = shared->scales[stage][of_copy] + row;
        const float2 scale = {scales[0], scales[8]};
        wait_for_product(sum);
        if (of_copy + TURNS >= COPY_PAGES || index + TURNS >= count)
            release();
        return scale;
    }

    __device__ __forceinline__ void finish(float2 scale, uint32_t index)
    {
        float value[VALUES]; /* [query][row] */
#pragma unroll
        for (uint32_t k = 0; k < COLUMNS / 16; k++) {
            const uint4 words = load_words(half_weights + 64 * k);
            const float half_weight[4] = {__uint_as_float(words.x), __uint_as_float(words.y),
                                          __uint_as_float(words.z), __uint_as_float(words.w)};
#pragma unroll
            for (uint32_t c = 0; c < 4; c++)
#pragma unroll
                for (uint32_t i = 0; i < 2; i++) {
                    /* x + |x| is 2 max(0, x) exactly, and takes a pipe that has room. */
                    const float x = sum[8 * k + c / 2 * 4 + 2 * i + c % 2];
                    float &score = value[16 * k / HEADS * 2 + i];
                    const float before = 16 * k % HEADS == 0 && c == 0 ? 0.0f : score;
                    score = fmaf(half_weight[c], x + fabsf(x), before);
                }
        }
        sum_over_row<VALUES>(value, lane);
        float *to = scores + index * PAGE_ROWS;
        const int32_t left = rows_left - (int32_t)(index * PAGE_ROWS);
        if (VALUES > 4) { /* both of the rows, of one query */
            if (left > 0)
                to[0] = value[0] * scale.x;
            if (left > 8)
                to[8] = value[1] * scale.y;
        } else if (left > 0) {
            *to = value[0] * (first_value<VALUES>(lane) % 2 ? scale.y : scale.x);
        }
    }

    __device__ __forceinline__ void begin(const struct kvt_gpu_scan &scan, uint32_t side)
    {
        const uint32_t first_column = slice * COLUMNS, value = first_value<VALUES>(lane);
        const uint32_t query = slice * shape::SLICE_QUERIES + value / 2;
        const uint32_t first_row =
            shared->segments[side].first_page * PAGE_ROWS + row + value % 2 * 8;
        q = matrix_descriptor(shared->q[side][first_column]);
        half_weights = address_of(&shared->half_weights[side][first_column / 4 + lane % 4]);
        scores = scan.scores + (size_t)(shared->first_query[side] + query) * scan.score_stride +
                 first_row;
        rows_left = (int32_t)shared->visible_rows[side][query] - (int32_t)first_row;
        if (VALUES == 2 && lane & 2)
            rows_left = 0; /* threads 2 and 3 of a row have what 0 and 1 have */
    }

  public:
    __device__ consumer(struct scan_shared<HEADS, QUERIES> *shared, uint32_t index)
        : shared(shared), lane(threadIdx.x % 32), slice(index % shape::SLICES),
          turn(index / shape::SLICES), row(threadIdx.x / 32 % 4 * 16 + lane / 4)
    {
    }

    __device__ __forceinline__ void run(const struct kvt_gpu_scan &scan)
    {
        for (uint32_t side = 0, side_parity = 0;; side ^= 1, side_parity ^= side == 0) {
            barrier_wait(&shared->q_full[side], side_parity);
            const uint32_t count = shared->segments[side].page_count;
            if (count == 0)
                return;
            begin(scan, side);

            for (uint32_t index = turn; index < count; index += TURNS)
                finish(multiply(index, count), index);
            if ((count - 1) % COPY_PAGES < turn) { /* nothing of the last copy was its */
                barrier_wait(&shared->page_full[stage], parity);
                release();
            }
            __syncwarp();
            if (lane == 0)
                barrier_arrive(&shared->q_empty[side]);
        }
    }
};

/* A block an SM, each with an equal share of the pages of all requests; one warp asks for pages,
 * three bring queries, four warpgroups multiply:
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
               const __grid_constant__ CUtensorMap key_map,
               const __grid_constant__ CUtensorMap scale_map, uint32_t groups)
{
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using shape = struct scan_shape<HEADS, QUERIES>;
    extern __shared__ uint8_t dynamic[];
    auto *shared = (struct scan_shared<HEADS, QUERIES> *)(dynamic + (0u - address_of(dynamic)) %
                                                                        SWIZZLE_BYTES);
    /* Top-k may come to SMs that have done their share. */
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < shape::STAGES; i++) {
            barrier_init(&shared->page_full[i], 1);
            barrier_init(&shared->page_empty[i], 4 * CONSUMERS); /* warps */
        }
        for (uint32_t i = 0; i < 2; i++) {
            barrier_init(&shared->q_full[i], Q_THREADS);
            barrier_init(&shared->q_empty[i], 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    uint32_t share = find_share<HEADS, QUERIES>(scan, groups, shared); /* a barrier inside */
    if (threadIdx.x < WARPGROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x == 0)
            fetch_pages<HEADS, QUERIES>(scan, &key_map, &scale_map, groups, share, shared);
        else if (threadIdx.x >= 32)
            fetch_queries<HEADS, QUERIES>(scan, groups, share, shared);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 112;");
        consumer<HEADS, QUERIES>(shared, threadIdx.x / WARPGROUP - 1).run(scan);
    }
#else
    __trap();
#endif
}

typedef CUresult (*encode_tiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                 const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Maps of the keys, [lanes][pages][64][128] bytes, and of the scales, [lanes][pages][64]. */
cudaError_t make_maps(const struct kvt_gpu_scan *scan, CUtensorMap *keys, CUtensorMap *scales)
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
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    const cuuint32_t pages = (scan->rows_max + PAGE_ROWS - 1) / PAGE_ROWS;

    const cuuint64_t key_sizes[4] = {DIM, PAGE_ROWS, pages, LANES_MAX};
    const cuuint64_t key_strides[3] = {DIM, KVT_GPU_INDEX_PAGE_BYTES, scan->lane_bytes};
    const cuuint32_t key_box[4] = {DIM, PAGE_ROWS, COPY_PAGES, 1};
    CUresult result =
        encode(keys, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)scan->keys, key_sizes, key_strides,
               key_box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return cudaErrorInvalidValue;
    const cuuint64_t scale_sizes[3] = {PAGE_ROWS, pages, LANES_MAX};
    const cuuint64_t scale_strides[2] = {KVT_GPU_INDEX_PAGE_BYTES, scan->lane_bytes};
    const cuuint32_t scale_box[3] = {PAGE_ROWS, COPY_PAGES, 1};
    result = encode(scales, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3,
                    (void *)(scan->keys + PAGE_ROWS * DIM), scale_sizes, scale_strides, scale_box,
                    steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <uint32_t HEADS, uint32_t QUERIES>
cudaError_t launch(const struct kvt_gpu_scan *scan, int multiprocessors, cudaStream_t stream)
{
    CUtensorMap key_map, scale_map;
    cudaError_t error = make_maps(scan, &key_map, &scale_map);
    if (error != cudaSuccess)
        return error;
    const int bytes = sizeof(struct scan_shared<HEADS, QUERIES>) + SWIZZLE_BYTES;
    error = cudaFuncSetAttribute(scan_wgmma<HEADS, QUERIES>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess)
        return error;
    scan_wgmma<HEADS, QUERIES><<<multiprocessors, THREADS, bytes, stream>>>(
        *scan, key_map, scale_map, (scan->queries_max + QUERIES - 1) / QUERIES);
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
