/* resolve_one.cu -- one query a request: the call of a step without speculation.
 *
 *     load     the selection, two rows a thread; frames and map of those rows; the order
 *     classify tail, frame, hit (a bit a slot), miss
 *     scan     misses by row, entries of the order that did not hit
 *     split    the order; its filled entries are the victims
 *     fill     misses into slots; places of all rows
 *
 * Floor: of a request, 8 KB of selection, 2,048 sectors of the map (64 KB), 16 KB of order and 8 KB
 * of places: 3 MB at batch 32, 0.7 us of HBM. What it takes is a chain of latencies: launch,
 * request, selection, map, four barriers, stores: about 5 us. Source: the idea of a map from row to
 * slot in place of a hash of the selection that the slots are probed with (SGLang hisparse.cuh,
 * vLLM hisparse_kernels.cu: five dependent passes) is ours. */
#include "resolve_order.cuh"
#include "resolve_pair.cuh"

enum {
    THREADS = 1024
};

/* A thread's two rows, and what became of them. */
struct looked_pair {
    int32_t place[SELECTED]; /* KVT_GPU_NONE while it has none */
    uint32_t slot[SELECTED]; /* that the map has */
    uint32_t looked;         /* bit i: row i is neither in the tail nor in a frame */
    uint32_t tail_rows, page_rows, missed_rows;
};

/* The map is read before it is known whether a frame has the row: two latencies at once. */
static __device__ __forceinline__ looked_pair look(const resolve_args &args,
                                                   const resolve_view &view, uint32_t slot_count,
                                                   const row_pair &pair)
{
    looked_pair found = {{KVT_GPU_NONE, KVT_GPU_NONE}, {NOT_CACHED, NOT_CACHED}, 0, 0, 0, 0};

#pragma unroll
    for (int i = 0; i < SELECTED; i++) {
        const uint32_t row = (uint32_t)pair.row[i];
        if (pair.row[i] == KVT_GPU_NONE)
            continue;
        if (row >= view.tail_first_row) {
            found.place[i] = resolve_tail_place(view, row);
            found.tail_rows++;
            continue;
        }
        const int32_t frame = resolve_frame_of(args, view, row);
        if (slot_count > 0)
            found.slot[i] = view.slot_of_row[row];
        if (frame != KVT_GPU_NONE) {
            found.place[i] = resolve_frame_place(args, frame, row);
            found.page_rows++;
        } else {
            found.looked |= 1u << i;
        }
    }
    return found;
}

static __device__ __forceinline__ void mark_hits(looked_pair &found, uint32_t *hits)
{
#pragma unroll
    for (int i = 0; i < SELECTED; i++) {
        if ((found.looked >> i & 1) == 0)
            continue;
        if (found.slot[i] == NOT_CACHED)
            found.missed_rows++;
        else
            atomicOr(hits + found.slot[i] / 32, 1u << found.slot[i] % 32);
    }
}

/* Places of the rows that were looked up; the thread's first miss is the m-th of the call. Returns
 * the thread's terms of placed_hash. */
static __device__ __forceinline__ uint64_t fill(const resolve_args &args, const resolve_view &view,
                                                const order_split &split, const uint16_t *new_order,
                                                const row_pair &pair, uint32_t m,
                                                looked_pair &found)
{
    uint64_t placed = 0;

#pragma unroll
    for (int i = 0; i < SELECTED; i++) {
        const uint32_t row = (uint32_t)pair.row[i];
        if ((found.looked >> i & 1) == 0)
            continue;
        if (found.slot[i] != NOT_CACHED) {
            found.place[i] = view.hot0 + (int32_t)found.slot[i];
            continue;
        }
        if (m < split.filled) {
            const uint32_t slot = new_order[split.first_filled() + m];
            resolve_put(view, slot, row);
            found.place[i] = view.hot0 + (int32_t)slot;
            placed += resolve_placed(slot, row);
        } else {
            found.place[i] = resolve_staged_place(args, view, m - split.filled);
        }
        view.missed[m] = row;
        view.missed_places[m] = found.place[i];
        m++;
    }
    return placed;
}

static __device__ __forceinline__ void write_counts(struct kvt_gpu_counts *counts,
                                                    uint32_t tail_rows, uint32_t page_rows,
                                                    uint32_t missed_rows, const order_split &split,
                                                    uint64_t placed_hash)
{
    const uint32_t hot_rows = split.slot_count - split.unhit;
    const uint32_t all = tail_rows + page_rows + hot_rows + missed_rows;

    *counts = {.union_rows = all,
               .tail_rows = tail_rows,
               .page_rows = page_rows,
               .hot_rows = hot_rows,
               .filled_rows = split.filled,
               .staged_rows = missed_rows - split.filled,
               .selected = all,
               .tail_selected = tail_rows,
               .page_selected = page_rows,
               .hot_selected = hot_rows,
               .missed_selected = missed_rows,
               .promoted_rows = 0, /* every slot is read once, and so is every staged row */
               .placed_hash = placed_hash,
               .skipped = split.skipped(missed_rows),
               .wave = 0};
}

template <int ENTRIES>
__global__ void __launch_bounds__(THREADS) resolve_one(const __grid_constant__ resolve_args args)
{
    __shared__ uint32_t hits[THREADS * ENTRIES / 32];
    __shared__ alignas(16) uint16_t new_order[THREADS * ENTRIES];
    __shared__ uint32_t warp_totals[BLOCK_WARPS_MAX], warp_residents[BLOCK_WARPS_MAX];
    __shared__ unsigned long long placed_hash;
    const struct kvt_gpu_resolve &call = args.call;
    const resolve_view view = resolve_view_of(args, blockIdx.x);
    const uint32_t slot_count = call.hot.slot_counts[view.lane];
    const uint32_t lane = threadIdx.x % WARP_THREADS;
    const bool whole = order_is_whole(call.hot);
    order_part<ENTRIES> part;
    uint32_t total;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    const row_pair pair = pair_load(call, view, 0);
    order_load(part, view.order, call.hot.slots_max, whole);
    for (uint32_t i = threadIdx.x; i < THREADS * ENTRIES / 32; i += THREADS)
        hits[i] = 0;
    if (threadIdx.x == 0)
        placed_hash = 0;
    looked_pair found = look(args, view, slot_count, pair);
    __syncthreads();
    mark_hits(found, hits);
    const uint32_t residents =
        __reduce_add_sync(EVERY_LANE, found.tail_rows | found.page_rows << 16);
    if (lane == 0)
        warp_residents[threadIdx.x / WARP_THREADS] = residents;
    __syncthreads();

    const uint32_t unhit = order_look(part, hits, slot_count);
    const uint32_t before =
        resolve_block_scan(found.missed_rows | unhit << 16, warp_totals, &total);
    const uint32_t missed_rows = total & 0xffff;
    order_split split = {slot_count, total >> 16, 0};
    split.filled = min(missed_rows, split.unhit);
    if (!split.skipped(missed_rows)) {
        order_place(part, split, before >> 16, new_order);
        __syncthreads();
        order_store(new_order, slot_count, view.order, whole);
    }
    const uint64_t placed = fill(args, view, split, new_order, pair, before & 0xffff, found);
    pair_store_places(call, view, 0, found.place);
    if (missed_rows > 0) {
        resolve_add(&placed_hash, placed);
        __syncthreads();
    }
    if (threadIdx.x < WARP_THREADS) {
        const uint32_t sum = __reduce_add_sync(EVERY_LANE, warp_residents[lane]);
        if (lane == 0)
            write_counts(call.counts + blockIdx.x, sum & 0xffff, sum >> 16, missed_rows, split,
                         placed_hash);
    }
}

bool resolve_fits_one(const struct kvt_gpu_resolve &call)
{
    return call.hot.slots_max <= THREADS * 16 && call.top_k <= THREADS * SELECTED;
}

cudaError_t resolve_launch_one(const resolve_args &args, cudaStream_t stream)
{
    const uint32_t slots_max = args.call.hot.slots_max;

    if (slots_max <= THREADS * 4)
        resolve_one<4><<<args.call.request_count, THREADS, 0, stream>>>(args);
    else if (slots_max <= THREADS * 8)
        resolve_one<8><<<args.call.request_count, THREADS, 0, stream>>>(args);
    else
        resolve_one<16><<<args.call.request_count, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
