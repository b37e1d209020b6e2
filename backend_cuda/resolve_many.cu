/* resolve_many.cu -- up to 32 queries a request: the call of a round of speculation.
 *
 *     join     all selections into a bitmap of rows; who sets a bit looks the row up: tail, frame,
 *              hit (a bit a slot), or miss
 *     scan     rows before each word of the bitmap, so that a row's rank in the union is a
 *              bit count away; entries of the order that did not hit
 *     keep     what was found, 16 bits a row of the union, by rank; split the order
 *     claim    query by query: the misses that no query before has: the union's order
 *     fill     misses into slots, in that order; the others are staged
 *     place    every selected row, by its rank
 *     promote  where asked for (resolve_promote.cuh)
 *
 * Floor: of a request of K queries, 16 KB x K of selections and places, and the map's sectors of
 * the union: 12 MB at batch 32, K 8, 4,096 rows, 3 us of HBM, beside a chain of latencies of 6 us.
 * What binds is the one multiprocessor that a request has: some 40 instructions a selected row, and
 * two look-ups in shared memory of four cycles a warp each. Source: vLLM (hisparse_kernels.cu)
 * walks its hot cache once a query; the bitmap with ranks is a rank directory: G. Jacobson,
 * "Space-efficient Static Trees and Graphs", FOCS 1989. */
#include "resolve_order.cuh"
#include "resolve_pair.cuh"
#include "resolve_promote.cuh"
#include "resolve_union.cuh"

enum {
    THREADS = 1024,
    KEPT_QUERIES = 8,
    SHARED_BYTES_MAX = 222 * 1024
};

/* Dynamic shared memory, in this order. */
template <bool NARROW> struct many_layout {
    uint32_t words; /* of 64 rows */
    uint32_t bitmap_bytes, codes_bytes, order_bytes, hits_bytes;

    __host__ __device__ explicit many_layout(const struct kvt_gpu_resolve &call)
    {
        const uint32_t rows_max = call.hot.rows_max, selected = call.queries_max * call.top_k;

        words = rows_max / 64 + 1;
        bitmap_bytes = round_up(words * union_bitmap<NARROW>::BYTES_OF_64_ROWS);
        codes_bytes = round_up((selected < rows_max ? selected : rows_max) * 2);
        order_bytes = round_up(call.hot.slots_max * 2);
        hits_bytes = round_up(call.hot.slots_max / 8 + 4);
    }
    __host__ __device__ static uint32_t round_up(uint32_t bytes)
    {
        return (bytes + 15) / 16 * 16;
    }
    __host__ __device__ uint32_t bytes() const
    {
        return bitmap_bytes + codes_bytes + order_bytes + hits_bytes;
    }
};

/* Sums over the call, in shared memory. */
struct many_counts {
    uint32_t selected, tail_selected, page_selected, missed_selected;
    uint32_t tail_rows, page_rows, missed_rows;
    unsigned long long placed_hash;
};

static __device__ __forceinline__ void add_count(uint32_t *count, uint32_t value)
{
    value = __reduce_add_sync(EVERY_LANE, value);
    if (threadIdx.x % WARP_THREADS == 0 && value != 0)
        atomicAdd(count, value);
}

/* In registers a row that needs no look-up becomes its place, with the sign set. */
static __device__ __forceinline__ bool is_row(int32_t row)
{
    return row >= 0;
}

/* Whether a lane of the warp has a row that may need no look-up, or has no row: seldom without
 * frames, since rows ascend and the tail's are the last. */
static __device__ __forceinline__ bool has_others(const resolve_view &view, const row_pair &pair)
{
    const uint32_t last = max((uint32_t)pair.row[0], (uint32_t)pair.row[1]);
    return __any_sync(EVERY_LANE, view.frame_count > 0 || last >= view.tail_first_row);
}

/* Rows in the tail or in a frame become places. Bit i of tail, page: row i of the pair. */
static __device__ __forceinline__ void find_residents(const resolve_args &args,
                                                      const resolve_view &view, row_pair &pair,
                                                      uint32_t &tail, uint32_t &page)
{
    for (int i = 0; i < SELECTED; i++) {
        if (!is_row(pair.row[i]))
            continue;
        const uint32_t row = (uint32_t)pair.row[i];
        if (row >= view.tail_first_row) {
            tail |= 1u << i;
            pair.row[i] = resolve_tail_place(view, row) | INT32_MIN;
            continue;
        }
        const int32_t frame = resolve_frame_of(args, view, row);
        if (frame != KVT_GPU_NONE) {
            page |= 1u << i;
            pair.row[i] = resolve_frame_place(args, frame, row) | INT32_MIN;
        }
    }
}

/* A pair as the passes behind the first want it: loaded again. */
static __device__ __forceinline__ row_pair reload_pair(const resolve_args &args,
                                                       const resolve_view &view, uint32_t query)
{
    row_pair pair = pair_load(args.call, view, query);
    uint32_t tail = 0, page = 0;

    if (has_others(view, pair))
        find_residents(args, view, pair, tail, page);
    return pair;
}

/* What a block has in shared memory beside its dynamic part. */
struct many_shared {
    uint32_t warp_totals[BLOCK_WARPS_MAX];
    uint32_t claims[THREADS]; /* [queries][warps] misses; then, of those before */
    many_counts counts;
};

/* A thread of the block that resolves one request. QUERIES: the most of one request; up to
 * KEPT_QUERIES stay in registers from pass to pass, more are loaded again in each. */
template <int QUERIES, int ENTRIES, bool NARROW> class many_thread
{
  public:
    __device__ __forceinline__ many_thread(const resolve_args &args, uint8_t *dynamic,
                                           many_shared &shared);
    __device__ __forceinline__ void load();
    __device__ __forceinline__ void join();
    __device__ __forceinline__ void scan();
    __device__ __forceinline__ void keep();
    __device__ __forceinline__ void claim();
    __device__ __forceinline__ void fill();
    __device__ __forceinline__ void place();
    __device__ __forceinline__ void promote();
    __device__ __forceinline__ void write_counts() const;
    __device__ __forceinline__ bool misses() const
    {
        return missed_rows_ > 0;
    }

  private:
    static constexpr bool KEPT = QUERIES <= KEPT_QUERIES;
    static constexpr int UNROLL = KEPT ? QUERIES : 1;

    /* Calls each(q, pair) for the request's queries: pairs as join() has left them. */
    template <typename Each> __device__ __forceinline__ void for_queries(Each each)
    {
#pragma unroll(UNROLL)
        for (uint32_t q = 0; q < (KEPT ? QUERIES : view_.query_count); q++) {
            if constexpr (KEPT) {
                if (q < view_.query_count)
                    each(q, kept_[q]);
            } else {
                row_pair pair = reload_pair(args_, view_, q);
                each(q, pair);
            }
        }
    }
    __device__ __forceinline__ uint32_t look_up(int32_t row) const
    {
        return slot_count_ > 0 ? view_.slot_of_row[row] : NOT_CACHED;
    }
    __device__ __forceinline__ void take_found(uint32_t slot, uint32_t &missed);
    __device__ __forceinline__ int32_t fill_row(uint32_t row, uint32_t m, uint64_t &placed);

    const resolve_args &args_;
    const struct kvt_gpu_resolve &call_;
    many_shared &shared_;
    const resolve_view view_;
    const uint32_t slot_count_, slots_max_;
    const bool whole_order_;
    many_layout<NARROW> layout_;
    union_rows<NARROW> rows_;
    uint16_t *new_order_;
    uint32_t *hits_;
    row_pair kept_[KEPT ? QUERIES : 1];
    uint32_t slots_[KEPT ? QUERIES : 1][SELECTED]; /* that the map has; or ADDED_BY_OTHERS */
    uint64_t added_ = 0;   /* bit 2 q + i: this thread has added the row to the union (not KEPT) */
    uint64_t claimed_ = 0; /* bit 2 q + i: the row is missed, and by no query before */
    order_part<ENTRIES> part_;
    order_split split_;
    uint32_t missed_rows_ = 0, promoted_rows_ = 0;
};

#define MANY_THREAD                                                                                \
    template <int QUERIES, int ENTRIES, bool NARROW>                                               \
    __device__ __forceinline__ void many_thread<QUERIES, ENTRIES, NARROW>

template <int QUERIES, int ENTRIES, bool NARROW>
__device__ __forceinline__ many_thread<QUERIES, ENTRIES, NARROW>::many_thread(
    const resolve_args &args, uint8_t *dynamic, many_shared &shared)
    : args_(args), call_(args.call), shared_(shared), view_(resolve_view_of(args, blockIdx.x)),
      slot_count_(args.call.hot.slot_counts[view_.lane]), slots_max_(args.call.hot.slots_max),
      whole_order_(order_is_whole(args.call.hot)), layout_(args.call)
{
    rows_.bitmap.words = (uint32_t *)dynamic;
    if constexpr (!NARROW)
        rows_.bitmap.ranks = (uint16_t *)(rows_.bitmap.words + 2 * layout_.words);
    rows_.codes = (uint16_t *)(dynamic + layout_.bitmap_bytes);
    new_order_ = rows_.codes + layout_.codes_bytes / 2;
    hits_ = (uint32_t *)(new_order_ + layout_.order_bytes / 2);
}

/* Begins all loads that depend on nothing else, and clears shared memory meanwhile. */
MANY_THREAD::load()
{
    if constexpr (KEPT) {
#pragma unroll
        for (uint32_t q = 0; q < QUERIES; q++)
            kept_[q] = pair_load(call_, view_, q);
    }
    order_load(part_, view_.order, slots_max_, whole_order_);
    for (uint32_t i = threadIdx.x; i < layout_.bitmap_bytes / 16; i += THREADS)
        ((uint4 *)rows_.bitmap.words)[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = threadIdx.x; i < layout_.hits_bytes / 4; i += THREADS)
        hits_[i] = 0;
    if (threadIdx.x == 0)
        shared_.counts = {};
    __syncthreads();
}

MANY_THREAD::take_found(uint32_t slot, uint32_t &missed)
{
    if (slot < ADDED_BY_OTHERS)
        atomicOr(hits_ + slot / 32, 1u << slot % 32);
    else
        missed += slot == NOT_CACHED;
}

MANY_THREAD::join()
{
    uint32_t selected = 0, tail_selected = 0, page_selected = 0;
    uint32_t tail_rows = 0, page_rows = 0, missed = 0;

#pragma unroll(UNROLL)
    for (uint32_t q = 0; q < (KEPT ? QUERIES : view_.query_count); q++) {
        row_pair &own = kept_[KEPT ? q : 0];
        uint32_t *found = slots_[KEPT ? q : 0];
        uint32_t first = 0;
        found[0] = found[1] = ADDED_BY_OTHERS;
        if (KEPT && q >= view_.query_count)
            continue;
        if constexpr (!KEPT)
            own = pair_load(call_, view_, q);
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (is_row(own.row[i]))
                first |= (uint32_t)rows_.bitmap.add((uint32_t)own.row[i]) << i;
        }
        selected += SELECTED;
        if (has_others(view_, own)) {
            uint32_t tail = 0, page = 0;
            selected -= !is_row(own.row[0]) + !is_row(own.row[1]);
            find_residents(args_, view_, own, tail, page);
            tail_selected += __popc(tail);
            page_selected += __popc(page);
            tail_rows += __popc(tail & first);
            page_rows += __popc(page & first);
            first &= ~(tail | page);
        }
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if ((first >> i & 1) != 0)
                found[i] = look_up(own.row[i]);
        }
        if constexpr (!KEPT) {
            added_ |= (uint64_t)first << SELECTED * q;
            take_found(found[0], missed);
            take_found(found[1], missed);
        }
    }
    if constexpr (KEPT) { /* all look-ups are under way before the first is waited for */
#pragma unroll
        for (int q = 0; q < QUERIES; q++) {
            take_found(slots_[q][0], missed);
            take_found(slots_[q][1], missed);
        }
    }
    add_count(&shared_.counts.selected, selected);
    add_count(&shared_.counts.tail_selected, tail_selected);
    add_count(&shared_.counts.page_selected, page_selected);
    add_count(&shared_.counts.tail_rows, tail_rows);
    add_count(&shared_.counts.page_rows, page_rows);
    add_count(&shared_.counts.missed_rows, missed);
    __syncthreads();
}

/* At most 2^16 rows are in the union and 2^14 slots in the order: both sums in one word. */
MANY_THREAD::scan()
{
    const uint32_t span = (layout_.words + THREADS - 1) / THREADS;
    const uint32_t first_word = threadIdx.x * span;
    const uint32_t last_word = min(first_word + span, layout_.words);
    uint32_t in_words = 0, total;

    for (uint32_t w = first_word; w < last_word; w++)
        in_words += rows_.bitmap.count(w);
    const uint32_t unhit = order_look(part_, hits_, slot_count_);
    const uint32_t both = resolve_block_scan(in_words << 15 | unhit, shared_.warp_totals, &total);
    uint32_t before = both >> 15;
    for (uint32_t w = first_word; w < last_word; w++)
        before += rows_.bitmap.set_ranks(w, before);
    missed_rows_ = shared_.counts.missed_rows;
    split_ = {slot_count_, total & 0x7fff, 0};
    split_.filled = min(missed_rows_, split_.unhit);
    if (!split_.skipped(missed_rows_))
        order_place(part_, split_, both & 0x7fff, new_order_);
    __syncthreads();
}

MANY_THREAD::keep()
{
    if (!split_.skipped(missed_rows_))
        order_store(new_order_, slot_count_, view_.order, whole_order_);
#pragma unroll(UNROLL)
    for (uint32_t q = 0; q < (KEPT ? QUERIES : view_.query_count); q++) {
        row_pair &own = kept_[KEPT ? q : 0];
        uint32_t *found = slots_[KEPT ? q : 0];
        if constexpr (!KEPT) {
            own = pair_load(call_, view_, q);
            for (int i = 0; i < SELECTED; i++)
                found[i] =
                    (added_ >> (SELECTED * q + i) & 1) != 0 ? look_up(own.row[i]) : ADDED_BY_OTHERS;
        }
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (found[i] != ADDED_BY_OTHERS)
                rows_.code((uint32_t)own.row[i]) = (uint16_t)found[i];
        }
    }
    __syncthreads();
}

/* Query by query, with a barrier behind each; within one, rows are distinct. */
MANY_THREAD::claim()
{
    const uint32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint32_t all;

    for_queries([&](uint32_t q, const row_pair &own) {
        uint32_t count = 0;
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            bool mine = false;
            if (is_row(own.row[i])) {
                uint16_t &code = rows_.code((uint32_t)own.row[i]);
                mine = code == NOT_CACHED;
                if (mine)
                    code = CLAIMED;
            }
            claimed_ |= (uint64_t)mine << (SELECTED * q + i);
            count += __popc(__ballot_sync(EVERY_LANE, mine));
        }
        if (lane == 0)
            shared_.claims[q * BLOCK_WARPS_MAX + warp] = count;
        __syncthreads();
    });
    const bool counted = threadIdx.x < view_.query_count * BLOCK_WARPS_MAX;
    const uint32_t own = counted ? shared_.claims[threadIdx.x] : 0;
    shared_.claims[threadIdx.x] = resolve_block_scan(own, shared_.warp_totals, &all);
    __syncthreads();
}

/* Miss m, of this row, takes the m-th oldest slot that did not hit. Returns its place. */
template <int QUERIES, int ENTRIES, bool NARROW>
__device__ __forceinline__ int32_t many_thread<QUERIES, ENTRIES, NARROW>::fill_row(uint32_t row,
                                                                                   uint32_t m,
                                                                                   uint64_t &placed)
{
    if (m >= split_.filled) {
        rows_.code(row) = (uint16_t)(slots_max_ + (m - split_.filled));
        return resolve_staged_place(args_, view_, m - split_.filled);
    }
    const uint32_t slot = new_order_[split_.first_filled() + m];
    resolve_put(view_, slot, row);
    rows_.code(row) = (uint16_t)slot;
    placed += resolve_placed(slot, row);
    return view_.hot0 + (int32_t)slot;
}

MANY_THREAD::fill()
{
    const uint32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint64_t placed = 0;

    for_queries([&](uint32_t q, const row_pair &own) {
        const uint32_t mine = (uint32_t)(claimed_ >> SELECTED * q) & 3;
        const uint32_t below = (1u << lane) - 1;
        uint32_t m = shared_.claims[q * BLOCK_WARPS_MAX + warp] +
                     __popc(__ballot_sync(EVERY_LANE, mine & 1) & below) +
                     __popc(__ballot_sync(EVERY_LANE, mine & 2) & below);
        for (int i = 0; i < SELECTED; i++) {
            if ((mine >> i & 1) == 0)
                continue;
            view_.missed[m] = (uint32_t)own.row[i];
            view_.missed_places[m] = fill_row((uint32_t)own.row[i], m, placed);
            m++;
        }
    });
    resolve_add(&shared_.counts.placed_hash, placed);
    __syncthreads();
}

MANY_THREAD::place()
{
    const bool promotes = call_.promote_by_count && missed_rows_ > split_.filled;
    const resolve_scratch scratch = resolve_scratch_of(args_, blockIdx.x);
    uint32_t missed_selected = 0;

    if (promotes) {
        scratch.clear_counts(slots_max_, missed_rows_ - split_.filled);
        __syncthreads();
    }
    for_queries([&](uint32_t q, row_pair own) {
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (!is_row(own.row[i])) {
                own.row[i] = own.row[i] == KVT_GPU_NONE ? KVT_GPU_NONE : own.row[i] & INT32_MAX;
                continue;
            }
            const uint32_t code = rows_.code((uint32_t)own.row[i]);
            own.row[i] = code < slots_max_ ? view_.hot0 + (int32_t)code
                                           : resolve_staged_place(args_, view_, code - slots_max_);
            if (missed_rows_ > 0)
                missed_selected += code >= slots_max_ || (hits_[code / 32] >> code % 32 & 1) == 0;
            if (promotes)
                scratch.count(code);
        }
        pair_store_places(call_, view_, q, own.row);
    });
    if (missed_rows_ > 0) {
        add_count(&shared_.counts.missed_selected, missed_selected);
        __syncthreads();
    }
}

MANY_THREAD::promote()
{
    uint64_t placed = 0;

    if (!call_.promote_by_count || missed_rows_ == split_.filled)
        return;
    promoted_rows_ =
        resolve_promote(args_, view_, resolve_scratch_of(args_, blockIdx.x), slot_count_,
                        split_.filled, missed_rows_ - split_.filled, shared_.warp_totals, &placed);
    resolve_add(&shared_.counts.placed_hash, placed);
    __syncthreads();
}

MANY_THREAD::write_counts() const
{
    const many_counts &counts = shared_.counts;
    const uint32_t hot_rows = slot_count_ - split_.unhit;

    if (threadIdx.x != 0)
        return;
    call_.counts[blockIdx.x] = {.union_rows =
                                    counts.tail_rows + counts.page_rows + hot_rows + missed_rows_,
                                .tail_rows = counts.tail_rows,
                                .page_rows = counts.page_rows,
                                .hot_rows = hot_rows,
                                .filled_rows = split_.filled,
                                .staged_rows = missed_rows_ - split_.filled,
                                .selected = counts.selected,
                                .tail_selected = counts.tail_selected,
                                .page_selected = counts.page_selected,
                                .hot_selected = counts.selected - counts.tail_selected -
                                                counts.page_selected - counts.missed_selected,
                                .missed_selected = counts.missed_selected,
                                .promoted_rows = promoted_rows_,
                                .placed_hash = counts.placed_hash,
                                .skipped = split_.skipped(missed_rows_),
                                .wave = 0};
}

#undef MANY_THREAD

template <int QUERIES, int ENTRIES, bool NARROW>
__global__ void __launch_bounds__(THREADS) resolve_many(const __grid_constant__ resolve_args args)
{
    extern __shared__ __align__(16) uint8_t dynamic[];
    __shared__ many_shared shared;
    many_thread<QUERIES, ENTRIES, NARROW> thread(args, dynamic, shared);

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    thread.load();
    thread.join();
    thread.scan();
    thread.keep();
    if (thread.misses()) {
        thread.claim();
        thread.fill();
    }
    thread.place();
    thread.promote();
    thread.write_counts();
}

template <int QUERIES, int ENTRIES, bool NARROW>
static cudaError_t launch(const resolve_args &args, cudaStream_t stream)
{
    const uint32_t shared_bytes = many_layout<NARROW>(args.call).bytes();
    cudaError_t error =
        cudaFuncSetAttribute(resolve_many<QUERIES, ENTRIES, NARROW>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES_MAX);
    if (error != cudaSuccess)
        return error;
    resolve_many<QUERIES, ENTRIES, NARROW>
        <<<args.call.request_count, THREADS, shared_bytes, stream>>>(args);
    return cudaGetLastError();
}

/* Long contexts take the largest order, too: one kernel for all of them. */
template <int QUERIES> static cudaError_t launch_for(const resolve_args &args, cudaStream_t stream)
{
    if (many_layout<true>(args.call).bytes() > SHARED_BYTES_MAX)
        return launch<QUERIES, 16, false>(args, stream);
    if (args.call.hot.slots_max <= THREADS * 4)
        return launch<QUERIES, 4, true>(args, stream);
    if (args.call.hot.slots_max <= THREADS * 8)
        return launch<QUERIES, 8, true>(args, stream);
    return launch<QUERIES, 16, true>(args, stream);
}

bool resolve_fits_many(const struct kvt_gpu_resolve &call)
{
    return many_layout<false>(call).bytes() <= SHARED_BYTES_MAX &&
           call.hot.slots_max <= THREADS * 16 && call.top_k <= THREADS * SELECTED;
}

cudaError_t resolve_launch_many(const resolve_args &args, cudaStream_t stream)
{
    const struct kvt_gpu_resolve &call = args.call;

    if (call.queries_max <= KEPT_QUERIES / 2)
        return launch_for<KEPT_QUERIES / 2>(args, stream);
    if (call.queries_max <= KEPT_QUERIES)
        return launch_for<KEPT_QUERIES>(args, stream);
    return launch_for<KVT_GPU_QUERIES_MAX>(args, stream);
}
