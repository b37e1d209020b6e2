/* scan_share.cuh -- how the pages of all requests are shared out to the blocks of a scan. */
#ifndef KVT_SCAN_SHARE_CUH
#define KVT_SCAN_SHARE_CUH

#include "scan_multiply.cuh"
#include "select.cuh"

namespace
{

constexpr uint32_t COPY_PAGES = 4;  /* of one copy: with one, issuing them takes too long */
constexpr uint32_t WARPGROUP = 128; /* threads */
constexpr uint32_t CONSUMERS = 4;   /* warpgroups */
constexpr uint32_t THREADS = (CONSUMERS + 1) * WARPGROUP;

/* Columns of the product are (query, head) pairs. A warpgroup has a slice of up to 128 of them;
 * those of one slice take turns at pages. */
template <uint32_t HEADS, uint32_t QUERIES> struct scan_shape {
    static constexpr uint32_t COLUMNS = HEADS * QUERIES;
    static constexpr uint32_t SLICES = COLUMNS > 128 ? COLUMNS / 128 : 1;
    static constexpr uint32_t SLICE_COLUMNS = COLUMNS / SLICES;
    static constexpr uint32_t SLICE_QUERIES = QUERIES / SLICES;
    static constexpr uint32_t TURNS = CONSUMERS / SLICES;
};

constexpr uint32_t STAGES = 3; /* copies under way: with four, four queries take 3 us more */

/* Consecutive pages of one request that one block scans for up to QUERIES of its queries. */
struct scan_segment {
    uint32_t first_page, page_count; /* page_count 0: there is no more */
    uint32_t first_query, query_count;
    uint32_t context_tokens;
};

template <uint32_t HEADS, uint32_t QUERIES> struct scan_shared {
    /* Swizzled, hence first, and aligned. */
    uint8_t keys[STAGES][COPY_PAGES][PAGE_ROWS][DIM];
    uint8_t q[2][HEADS * QUERIES][DIM]; /* one is read while the next one comes */
    float scales[STAGES][COPY_PAGES][PAGE_ROWS];
    struct scan_segment segments[2];
    uint64_t page_full[STAGES], page_empty[STAGES];
    uint64_t q_full[2], q_empty[2];
    uint32_t sums[THREADS / 32];
    uint32_t first_item, first_page; /* where this block begins */
};

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

} // namespace

#endif
