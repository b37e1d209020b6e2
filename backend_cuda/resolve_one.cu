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

enum {
    THREADS = 1024,
    SELECTED = 2 /* rows a thread */
};

/* A selected row, and what became of it. */
struct selected_row {
    int32_t row;   /* KVT_GPU_NONE: none */
    int32_t place; /* KVT_GPU_NONE while it has none */
    uint32_t slot; /* of a row that is looked up; NOT_CACHED: missed */
};

/* The row's place in the tail or in a frame; otherwise its slot is looked up. The map is read
 * before the frame is known: two latencies at once. */
static __device__ __forceinline__ void look(const resolve_args &args, const resolve_view &view,
                                            uint32_t slot_count, selected_row &selected,
                                            uint32_t &tail_rows, uint32_t &page_rows)
{
    selected.place = KVT_GPU_NONE;
    selected.slot = NOT_CACHED;
    if (selected.row == KVT_GPU_NONE)
        return;
    const uint32_t row = (uint32_t)selected.row;
    if (row >= view.tail_first_row) {
        selected.place = resolve_tail_place(view, row);
        tail_rows++;
        return;
    }
    const int32_t frame = resolve_frame_of(args, view, row);
    if (slot_count > 0)
        selected.slot = view.slot_of_row[row];
    if (frame != KVT_GPU_NONE) {
        selected.place = resolve_frame_place(args, frame, row);
        page_rows++;
    }
}

static __device__ __forceinline__ bool is_looked_up(const selected_row &selected)
{
    return selected.row != KVT_GPU_NONE && selected.place == KVT_GPU_NONE;
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
    const uint32_t lane = threadIdx.x % WARP_THREADS, first = threadIdx.x * SELECTED;
    const bool whole = order_is_whole(call.hot), paired = call.top_k % 2 == 0;
    selected_row selected[SELECTED];
    order_part<ENTRIES> part;
    uint32_t tail_rows = 0, page_rows = 0, missed = 0;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    const int32_t *selection = call.selections + (size_t)view.first_query * call.top_k;
    if (paired && first < call.top_k) {
        const int2 loaded = *(const int2 *)(selection + first);
        selected[0].row = loaded.x;
        selected[1].row = loaded.y;
    } else {
        for (int i = 0; i < SELECTED; i++)
            selected[i].row = first + i < call.top_k ? selection[first + i] : KVT_GPU_NONE;
    }
    order_load(part, view.order, call.hot.slots_max, whole);
    for (uint32_t i = threadIdx.x; i < THREADS * ENTRIES / 32; i += THREADS)
        hits[i] = 0;
    if (threadIdx.x == 0)
        placed_hash = 0;
#pragma unroll
    for (int i = 0; i < SELECTED; i++)
        look(args, view, slot_count, selected[i], tail_rows, page_rows);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < SELECTED; i++) {
        if (!is_looked_up(selected[i]))
            continue;
        if (selected[i].slot == NOT_CACHED)
            missed++;
        else
            atomicOr(hits + selected[i].slot / 32, 1u << selected[i].slot % 32);
    }
    const uint32_t residents = __reduce_add_sync(EVERY_LANE, tail_rows | page_rows << 16);
    if (lane == 0)
        warp_residents[threadIdx.x / WARP_THREADS] = residents;
    __syncthreads();

    uint32_t total;
    const uint32_t unhit = order_look(part, hits, slot_count);
    const uint32_t before = resolve_block_scan(missed | unhit << 16, warp_totals, &total);
    const uint32_t missed_rows = total & 0xffff;
    order_split split = {slot_count, total >> 16, 0};
    split.filled = min(missed_rows, split.unhit);
    const uint32_t hot_rows = slot_count - split.unhit;
    const bool skipped = hot_rows + missed_rows == 0;
    if (!skipped) {
        order_place(part, split, before >> 16, new_order);
        __syncthreads();
        order_store(new_order, slot_count, view.order, whole);
    }

    uint64_t placed = 0;
    uint32_t m = before & 0xffff;
#pragma unroll
    for (int i = 0; i < SELECTED; i++) {
        if (!is_looked_up(selected[i]))
            continue;
        const uint32_t row = (uint32_t)selected[i].row;
        if (selected[i].slot != NOT_CACHED) {
            selected[i].place = view.hot0 + (int32_t)selected[i].slot;
            continue;
        }
        if (m < split.filled) {
            const uint32_t slot = new_order[split.first_filled() + m];
            const uint32_t old = view.slot_rows[slot];
            if (old != NO_ROW)
                view.slot_of_row[old] = NOT_CACHED;
            view.slot_rows[slot] = row;
            view.slot_of_row[row] = (uint16_t)slot;
            selected[i].place = view.hot0 + (int32_t)slot;
            placed += resolve_placed(slot, row);
        } else {
            selected[i].place = resolve_staged_place(args, view, m - split.filled);
        }
        view.missed[m] = row;
        view.missed_places[m] = selected[i].place;
        m++;
    }
    int32_t *places = call.row_places + (size_t)view.first_query * call.top_k;
    if (paired && first < call.top_k) {
        *(int2 *)(places + first) = make_int2(selected[0].place, selected[1].place);
    } else {
        for (int i = 0; i < SELECTED; i++) {
            if (first + i < call.top_k)
                places[first + i] = selected[i].place;
        }
    }
    if (missed_rows > 0) {
        resolve_add(&placed_hash, placed);
        __syncthreads();
    }
    if (threadIdx.x < WARP_THREADS) {
        const uint32_t sum = __reduce_add_sync(EVERY_LANE, warp_residents[lane]);
        const uint32_t tail = sum & 0xffff, page = sum >> 16;
        const uint32_t all = tail + page + hot_rows + missed_rows;
        if (lane == 0)
            call.counts[blockIdx.x] = {.union_rows = all,
                                       .tail_rows = tail,
                                       .page_rows = page,
                                       .hot_rows = hot_rows,
                                       .filled_rows = split.filled,
                                       .staged_rows = missed_rows - split.filled,
                                       .selected = all,
                                       .tail_selected = tail,
                                       .page_selected = page,
                                       .hot_selected = hot_rows,
                                       .missed_selected = missed_rows,
                                       .promoted_rows = 0,
                                       .placed_hash = placed_hash,
                                       .skipped = skipped,
                                       .wave = 0};
    }
}

cudaError_t resolve_launch_one(const resolve_args &args, cudaStream_t stream, bool *fits)
{
    const uint32_t slots_max = args.call.hot.slots_max;

    *fits = slots_max <= THREADS * 16 && args.call.top_k <= THREADS * SELECTED;
    if (!*fits)
        return cudaSuccess;
    if (slots_max <= THREADS * 4)
        resolve_one<4><<<args.call.request_count, THREADS, 0, stream>>>(args);
    else if (slots_max <= THREADS * 8)
        resolve_one<8><<<args.call.request_count, THREADS, 0, stream>>>(args);
    else
        resolve_one<16><<<args.call.request_count, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
