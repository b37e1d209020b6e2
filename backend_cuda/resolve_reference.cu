/* resolve_reference.cu -- the resolver, plainly: any number of rows, slots and queries.
 *
 *     for each query, in order, for each of its rows, in order
 *         in the tail, in a frame, in the cache, or missed: counted, rows once
 *         a miss is listed, and the map holds its number until it has a place
 *     victims: the oldest slots that did not hit; misses into them; the rest is staged
 *     new order, places, promotion
 *
 * All scratch is in global memory; one block a request takes its rows 256 at a time. */
#include "resolve_promote.cuh"

enum {
    THREADS = 256
};

struct call_sums {
    uint32_t union_rows, tail_rows, page_rows, hot_rows, missed_rows;
    uint32_t selected, tail_selected, page_selected, hot_selected;
    unsigned long long placed_hash;
};

/* What the passes share. */
struct plain_call {
    const resolve_args *args;
    resolve_view view;
    resolve_scratch scratch;
    uint32_t slot_count, slots_max;
    uint32_t *warp_totals;
    call_sums *sums;
};

static __device__ const int32_t *selection_of(const plain_call &call, uint32_t query)
{
    const struct kvt_gpu_resolve &resolve = call.args->call;
    return resolve.selections + (size_t)(call.view.first_query + query) * resolve.top_k;
}

static __device__ void clear(const plain_call &call)
{
    const uint32_t row_words = call.args->call.hot.rows_max / 32 + 1;
    const uint32_t slot_words = call.slots_max / 32 + 1;

    for (uint32_t i = threadIdx.x; i < row_words; i += THREADS)
        call.scratch.row_bits[i] = 0;
    for (uint32_t i = threadIdx.x; i < slot_words; i += THREADS)
        call.scratch.hits[i] = 0;
    if (threadIdx.x == 0)
        *call.sums = {};
    __syncthreads();
}

/* One row of a query. True where it is the first selection of a row that is missed. */
static __device__ bool look(const plain_call &call, uint32_t row)
{
    const resolve_view &view = call.view;
    const uint32_t bit = 1u << row % 32;
    const bool first = (atomicOr(call.scratch.row_bits + row / 32, bit) & bit) == 0;
    const bool in_tail = row >= view.tail_first_row;

    atomicAdd(&call.sums->selected, 1);
    atomicAdd(&call.sums->union_rows, first);
    if (in_tail || resolve_frame_of(*call.args, view, row) != KVT_GPU_NONE) {
        atomicAdd(in_tail ? &call.sums->tail_selected : &call.sums->page_selected, 1);
        atomicAdd(in_tail ? &call.sums->tail_rows : &call.sums->page_rows, first);
        return false;
    }
    const uint32_t slot = call.slot_count > 0 ? view.slot_of_row[row] : NOT_CACHED;
    if (slot == NOT_CACHED)
        return first;
    atomicAdd(&call.sums->hot_selected, 1);
    atomicAdd(&call.sums->hot_rows, first);
    atomicOr(call.scratch.hits + slot / 32, 1u << slot % 32);
    return false;
}

static __device__ void look_all(const plain_call &call)
{
    const uint32_t top_k = call.args->call.top_k;
    uint32_t missed = 0, all;

    for (uint32_t query = 0; query < call.view.query_count; query++) {
        const int32_t *rows = selection_of(call, query);
        for (uint32_t begin = 0; begin < top_k; begin += THREADS) {
            const uint32_t i = begin + threadIdx.x;
            const bool miss = i < top_k && rows[i] >= 0 && look(call, (uint32_t)rows[i]);
            const uint32_t before = resolve_block_scan(miss, call.warp_totals, &all);
            if (miss)
                call.view.missed[missed + before] = (uint32_t)rows[i];
            missed += all;
            __syncthreads();
        }
    }
    if (threadIdx.x == 0)
        call.sums->missed_rows = missed;
    __syncthreads();
}

/* Splits the order into new_order: victims of the call are its filled entries. */
static __device__ void split_order(const plain_call &call, uint32_t unhit, uint32_t filled)
{
    uint32_t before_chunk = 0, all;

    for (uint32_t begin = 0; begin < call.slot_count; begin += THREADS) {
        const uint32_t at = begin + threadIdx.x;
        const uint32_t slot = at < call.slot_count ? call.view.order[at] : 0;
        const bool hit = (call.scratch.hits[slot / 32] >> slot % 32 & 1) != 0;
        const bool not_hit = at < call.slot_count && !hit;
        const uint32_t before = before_chunk + resolve_block_scan(not_hit, call.warp_totals, &all);
        if (at < call.slot_count) {
            uint32_t to = unhit + at - before;
            if (not_hit)
                to = before < filled ? unhit - filled + before : before - filled;
            call.scratch.new_order[to] = (uint16_t)slot;
        }
        before_chunk += all;
        __syncthreads();
    }
    for (uint32_t i = threadIdx.x; i < call.slot_count; i += THREADS)
        call.view.order[i] = call.scratch.new_order[i];
}

/* Misses to their places; the map of a staged row holds slots_max + m for a while. */
static __device__ void fill(const plain_call &call, uint32_t unhit, uint32_t filled)
{
    const resolve_view &view = call.view;
    uint64_t placed = 0;

    for (uint32_t m = threadIdx.x; m < call.sums->missed_rows; m += THREADS) {
        const uint32_t row = view.missed[m];
        if (m >= filled) {
            view.slot_of_row[row] = (uint16_t)(call.slots_max + m - filled);
            view.missed_places[m] = resolve_staged_place(*call.args, view, m - filled);
            continue;
        }
        const uint32_t slot = call.scratch.new_order[unhit - filled + m];
        resolve_put(view, slot, row);
        view.missed_places[m] = view.hot0 + (int32_t)slot;
        placed += resolve_placed(slot, row);
    }
    resolve_add(&call.sums->placed_hash, placed);
    __syncthreads();
}

/* Where a selected row is; counts who selects what where rows may be promoted. */
static __device__ int32_t place_of(const plain_call &call, uint32_t row, bool promoting)
{
    const resolve_view &view = call.view;

    if (row >= view.tail_first_row)
        return resolve_tail_place(view, row);
    const int32_t frame = resolve_frame_of(*call.args, view, row);
    if (frame != KVT_GPU_NONE)
        return resolve_frame_place(*call.args, frame, row);
    const uint32_t code = view.slot_of_row[row];
    if (promoting)
        call.scratch.count(code);
    return code < call.slots_max ? view.hot0 + (int32_t)code
                                 : resolve_staged_place(*call.args, view, code - call.slots_max);
}

static __device__ void place_all(const plain_call &call, bool promoting)
{
    const struct kvt_gpu_resolve &resolve = call.args->call;

    for (uint32_t query = 0; query < call.view.query_count; query++) {
        const int32_t *rows = selection_of(call, query);
        int32_t *places =
            resolve.row_places + (size_t)(call.view.first_query + query) * resolve.top_k;
        for (uint32_t i = threadIdx.x; i < resolve.top_k; i += THREADS)
            places[i] = rows[i] >= 0 ? place_of(call, (uint32_t)rows[i], promoting) : KVT_GPU_NONE;
    }
    __syncthreads();
}

static __device__ void forget_staged(const plain_call &call, uint32_t filled)
{
    for (uint32_t m = filled + threadIdx.x; m < call.sums->missed_rows; m += THREADS)
        call.view.slot_of_row[call.view.missed[m]] = NOT_CACHED;
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS)
    resolve_reference(const __grid_constant__ resolve_args args)
{
    __shared__ uint32_t warp_totals[BLOCK_WARPS_MAX];
    __shared__ call_sums sums;
    const resolve_view view = resolve_view_of(args, blockIdx.x);
    const plain_call call = {&args,
                             view,
                             resolve_scratch_of(args, blockIdx.x),
                             args.call.hot.slot_counts[view.lane],
                             args.call.hot.slots_max,
                             warp_totals,
                             &sums};

    clear(call);
    look_all(call);
    const uint32_t unhit = call.slot_count - sums.hot_rows;
    const uint32_t filled = min(sums.missed_rows, unhit), staged = sums.missed_rows - filled;
    const bool skipped = sums.hot_rows + sums.missed_rows == 0;
    const bool promoting = args.call.promote_by_count && staged > 0;
    uint32_t promoted = 0;
    if (!skipped) {
        split_order(call, unhit, filled);
        __syncthreads();
        fill(call, unhit, filled);
    }
    if (promoting) {
        call.scratch.clear_counts(call.slots_max, staged);
        __syncthreads();
    }
    place_all(call, promoting);
    forget_staged(call, filled);
    if (promoting) {
        uint64_t placed = 0;
        promoted = resolve_promote(args, view, call.scratch, call.slot_count, filled, staged,
                                   warp_totals, &placed);
        resolve_add(&sums.placed_hash, placed);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        args.call.counts[blockIdx.x] = {.union_rows = sums.union_rows,
                                        .tail_rows = sums.tail_rows,
                                        .page_rows = sums.page_rows,
                                        .hot_rows = sums.hot_rows,
                                        .filled_rows = filled,
                                        .staged_rows = staged,
                                        .selected = sums.selected,
                                        .tail_selected = sums.tail_selected,
                                        .page_selected = sums.page_selected,
                                        .hot_selected = sums.hot_selected,
                                        .missed_selected = sums.selected - sums.tail_selected -
                                                           sums.page_selected - sums.hot_selected,
                                        .promoted_rows = promoted,
                                        .placed_hash = sums.placed_hash,
                                        .skipped = skipped,
                                        .wave = 0};
}

cudaError_t resolve_launch_reference(const resolve_args &args, cudaStream_t stream)
{
    resolve_reference<<<args.call.request_count, THREADS, 0, stream>>>(args);
    return cudaGetLastError();
}
