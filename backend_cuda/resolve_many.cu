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
 * Shared memory bounds it: one block has 32 KB x K / 2 accesses for each touch of a selection.
 * Source: vLLM (hisparse_kernels.cu) walks its hot cache once a query; the bitmap with ranks is
 * a rank directory: G. Jacobson, "Space-efficient Static Trees and Graphs", FOCS 1989. */
#include "resolve_order.cuh"
#include "resolve_promote.cuh"

enum {
    THREADS = 1024,
    SELECTED = 2, /* rows a thread and query */
    KEPT_QUERIES = 8,
    SHARED_BYTES_MAX = 222 * 1024
};

/* Codes of rows of the union, above those of slots and of staged rows. */
enum {
    ADDED_BY_OTHERS = 0xfffd, /* of a row that this thread did not add */
    CLAIMED = 0xfffe          /* of a miss that has been taken into the union's order */
};

/* The union as a bitmap of rows with ranks: how many of its rows lie below a word's first. NARROW
 * words have 16 rows and their rank in one 32-bit word, so that a look-up reads shared memory once;
 * wide ones have 64 rows and their rank apart, in less than half the space. Either is counted and
 * ranked 64 rows at a time. */
template <bool NARROW> struct union_bitmap;

template <> struct union_bitmap<true> {
    enum {
        BYTES_OF_64_ROWS = 16
    };
    uint32_t *words;

    __device__ __forceinline__ bool add(uint32_t row)
    {
        const uint32_t bit = 1u << row % 16;
        return (atomicOr(words + row / 16, bit) & bit) == 0;
    }
    __device__ __forceinline__ uint32_t count(uint32_t at) const
    {
        const uint4 four = ((const uint4 *)words)[at];
        return __popc(four.x | four.y << 16) + __popc(four.z | four.w << 16);
    }
    __device__ __forceinline__ uint32_t set_ranks(uint32_t at, uint32_t rank)
    {
        uint4 four = ((const uint4 *)words)[at];
        const uint32_t x = __popc(four.x), y = __popc(four.y), z = __popc(four.z);
        const uint32_t count = x + y + z + __popc(four.w);
        four.x |= rank << 16;
        four.y |= (rank + x) << 16;
        four.z |= (rank + x + y) << 16;
        four.w |= (rank + x + y + z) << 16;
        ((uint4 *)words)[at] = four;
        return count;
    }
    __device__ __forceinline__ uint32_t rank(uint32_t row) const
    {
        const uint32_t word = words[row / 16];
        return (word >> 16) + __popc(word & ((1u << row % 16) - 1));
    }
};

template <> struct union_bitmap<false> {
    enum {
        BYTES_OF_64_ROWS = 10
    };
    uint32_t *words;
    uint16_t *ranks; /* behind the words */

    __device__ __forceinline__ bool add(uint32_t row)
    {
        const uint32_t bit = 1u << row % 32;
        return (atomicOr(words + row / 32, bit) & bit) == 0;
    }
    __device__ __forceinline__ uint32_t count(uint32_t at) const
    {
        return __popcll(((const uint64_t *)words)[at]);
    }
    __device__ __forceinline__ uint32_t set_ranks(uint32_t at, uint32_t rank)
    {
        ranks[at] = (uint16_t)rank;
        return count(at);
    }
    __device__ __forceinline__ uint32_t rank(uint32_t row) const
    {
        const uint64_t word = ((const uint64_t *)words)[row / 64];
        return ranks[row / 64] + __popcll(word & ((1ull << row % 64) - 1));
    }
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

/* The union's rows, and what was found of each: a slot, slots_max + m for staged row m, NOT_CACHED
 * or CLAIMED for a miss on its way. */
template <bool NARROW> struct union_rows {
    union_bitmap<NARROW> bitmap;
    uint16_t *codes; /* by rank */

    __device__ __forceinline__ uint16_t &code(uint32_t row)
    {
        return codes[bitmap.rank(row)];
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

/* A thread's two rows of a query, one behind the other in its selection. A row that needs no
 * look-up becomes its place with the sign set; KVT_GPU_NONE stays. */
struct row_pair {
    int32_t row[SELECTED];
};

static __device__ __forceinline__ bool is_row(int32_t row)
{
    return row >= 0;
}

static __device__ __forceinline__ row_pair load_pair(const struct kvt_gpu_resolve &call,
                                                     const resolve_view &view, uint32_t query)
{
    const uint32_t first = threadIdx.x * SELECTED;
    const int32_t *selection =
        call.selections + ((size_t)view.first_query + query) * call.top_k + first;
    row_pair pair = {{KVT_GPU_NONE, KVT_GPU_NONE}};

    if (query >= view.query_count)
        return pair;
    if (call.top_k % SELECTED == 0 && first < call.top_k) {
        const int2 loaded = __ldg((const int2 *)selection);
        pair.row[0] = loaded.x;
        pair.row[1] = loaded.y;
    } else {
        for (uint32_t i = 0; i < SELECTED; i++) {
            if (first + i < call.top_k)
                pair.row[i] = __ldg(selection + i);
        }
    }
    return pair;
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
    row_pair pair = load_pair(args.call, view, query);
    uint32_t tail = 0, page = 0;

    if (has_others(view, pair))
        find_residents(args, view, pair, tail, page);
    return pair;
}

/* QUERIES: the most of one request. Up to KEPT_QUERIES stay in registers from pass to pass, more
 * are loaded again. */
template <int QUERIES, int ENTRIES, bool NARROW>
__global__ void __launch_bounds__(THREADS) resolve_many(const __grid_constant__ resolve_args args)
{
    constexpr bool KEPT = QUERIES <= KEPT_QUERIES;
    constexpr int UNROLL = KEPT ? QUERIES : 1;
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ uint32_t warp_totals[BLOCK_WARPS_MAX];
    __shared__ uint32_t claims[THREADS];
    __shared__ many_counts counts;
    const struct kvt_gpu_resolve &call = args.call;
    const many_layout<NARROW> layout(call);
    union_rows<NARROW> rows;
    rows.bitmap.words = (uint32_t *)shared;
    if constexpr (!NARROW)
        rows.bitmap.ranks = (uint16_t *)(rows.bitmap.words + 2 * layout.words);
    rows.codes = (uint16_t *)(shared + layout.bitmap_bytes);
    uint16_t *new_order = rows.codes + layout.codes_bytes / 2;
    uint32_t *hits = (uint32_t *)(new_order + layout.order_bytes / 2);
    const resolve_view view = resolve_view_of(args, blockIdx.x);
    const uint32_t slot_count = call.hot.slot_counts[view.lane], slots_max = call.hot.slots_max;
    const uint32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    const uint32_t queries = view.query_count;
    const bool whole = order_is_whole(call.hot);
    row_pair kept[KEPT ? QUERIES : 1];
    uint32_t slots[KEPT ? QUERIES : 1][SELECTED]; /* that the map has; ADDED_BY_OTHERS */
    uint64_t added = 0; /* bit 2 q + i: this thread has added the row to the union (not KEPT) */
    order_part<ENTRIES> part;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    if constexpr (KEPT) {
#pragma unroll
        for (uint32_t q = 0; q < QUERIES; q++)
            kept[q] = load_pair(call, view, q);
    }
    order_load(part, view.order, slots_max, whole);
    for (uint32_t i = threadIdx.x; i < layout.bitmap_bytes / 16; i += THREADS)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = threadIdx.x; i < layout.hits_bytes / 4; i += THREADS)
        hits[i] = 0;
    if (threadIdx.x == 0)
        counts = {};
    __syncthreads();

    /* Join. */
    uint32_t selected = 0, tail_selected = 0, page_selected = 0;
    uint32_t tail_rows = 0, page_rows = 0, missed = 0;
    auto take_found = [&](uint32_t slot) {
        if (slot < ADDED_BY_OTHERS)
            atomicOr(hits + slot / 32, 1u << slot % 32);
        else
            missed += slot == NOT_CACHED;
    };
#pragma unroll(UNROLL)
    for (uint32_t q = 0; q < (KEPT ? QUERIES : queries); q++) {
        row_pair &own = kept[KEPT ? q : 0];
        uint32_t *found = slots[KEPT ? q : 0];
        uint32_t first = 0;
        found[0] = found[1] = ADDED_BY_OTHERS;
        if (KEPT && q >= queries)
            continue;
        if constexpr (!KEPT)
            own = load_pair(call, view, q);
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (is_row(own.row[i]))
                first |= (uint32_t)rows.bitmap.add((uint32_t)own.row[i]) << i;
        }
        selected += SELECTED;
        if (has_others(view, own)) {
            uint32_t tail = 0, page = 0;
            selected -= !is_row(own.row[0]) + !is_row(own.row[1]);
            find_residents(args, view, own, tail, page);
            tail_selected += __popc(tail);
            page_selected += __popc(page);
            tail_rows += __popc(tail & first);
            page_rows += __popc(page & first);
            first &= ~(tail | page);
        }
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if ((first >> i & 1) != 0)
                found[i] = slot_count > 0 ? view.slot_of_row[own.row[i]] : NOT_CACHED;
        }
        if constexpr (!KEPT) {
            added |= (uint64_t)first << SELECTED * q;
            take_found(found[0]);
            take_found(found[1]);
        }
    }
    if constexpr (KEPT) {
#pragma unroll
        for (int q = 0; q < QUERIES; q++) {
            take_found(slots[q][0]);
            take_found(slots[q][1]);
        }
    }
    add_count(&counts.selected, selected);
    add_count(&counts.tail_selected, tail_selected);
    add_count(&counts.page_selected, page_selected);
    add_count(&counts.tail_rows, tail_rows);
    add_count(&counts.page_rows, page_rows);
    add_count(&counts.missed_rows, missed);
    __syncthreads();

    /* Scan. At most 2^16 rows in the union and 2^14 slots: both sums in one word. */
    const uint32_t span = (layout.words + THREADS - 1) / THREADS;
    const uint32_t first_word = threadIdx.x * span;
    const uint32_t last_word = min(first_word + span, layout.words);
    uint32_t in_words = 0, total;
    for (uint32_t w = first_word; w < last_word; w++)
        in_words += rows.bitmap.count(w);
    const uint32_t unhit = order_look(part, hits, slot_count);
    const uint32_t both = resolve_block_scan(in_words << 15 | unhit, warp_totals, &total);
    uint32_t before = both >> 15;
    for (uint32_t w = first_word; w < last_word; w++)
        before += rows.bitmap.set_ranks(w, before);
    order_split split = {slot_count, total & 0x7fff, 0};
    split.filled = min(counts.missed_rows, split.unhit);
    const uint32_t missed_rows = counts.missed_rows;
    const uint32_t hot_rows = slot_count - split.unhit;
    const bool skipped = hot_rows + missed_rows == 0;
    if (!skipped)
        order_place(part, split, both & 0x7fff, new_order);
    __syncthreads();

    /* Keep. */
    if (!skipped)
        order_store(new_order, slot_count, view.order, whole);
#pragma unroll(UNROLL)
    for (uint32_t q = 0; q < (KEPT ? QUERIES : queries); q++) {
        row_pair &own = kept[KEPT ? q : 0];
        uint32_t *found = slots[KEPT ? q : 0];
        if constexpr (!KEPT) {
            own = load_pair(call, view, q);
            for (int i = 0; i < SELECTED; i++) {
                found[i] = ADDED_BY_OTHERS;
                if ((added >> (SELECTED * q + i) & 1) != 0)
                    found[i] = slot_count > 0 ? view.slot_of_row[own.row[i]] : NOT_CACHED;
            }
        }
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (found[i] != ADDED_BY_OTHERS)
                rows.code((uint32_t)own.row[i]) = (uint16_t)found[i];
        }
    }
    __syncthreads();

    if (missed_rows > 0) {
        /* Claim: bit 2 q + i of `claimed`, and how many of each query and warp. */
        uint64_t claimed = 0;
#pragma unroll(UNROLL)
        for (uint32_t q = 0; q < (KEPT ? QUERIES : queries); q++) {
            row_pair &own = kept[KEPT ? q : 0];
            uint32_t count = 0;
            if (KEPT && q >= queries)
                continue;
            if constexpr (!KEPT)
                own = reload_pair(args, view, q);
#pragma unroll
            for (int i = 0; i < SELECTED; i++) {
                bool mine = false;
                if (is_row(own.row[i])) {
                    uint16_t &code = rows.code((uint32_t)own.row[i]);
                    mine = code == NOT_CACHED;
                    if (mine)
                        code = CLAIMED;
                }
                claimed |= (uint64_t)mine << (SELECTED * q + i);
                count += __popc(__ballot_sync(EVERY_LANE, mine));
            }
            if (lane == 0)
                claims[q * BLOCK_WARPS_MAX + warp] = count;
            __syncthreads();
        }
        uint32_t all;
        const bool counted = threadIdx.x < queries * BLOCK_WARPS_MAX;
        const uint32_t at =
            resolve_block_scan(counted ? claims[threadIdx.x] : 0, warp_totals, &all);
        claims[threadIdx.x] = at;
        __syncthreads();

        /* Fill. */
        uint64_t placed = 0;
#pragma unroll(UNROLL)
        for (uint32_t q = 0; q < (KEPT ? QUERIES : queries); q++) {
            row_pair &own = kept[KEPT ? q : 0];
            if (KEPT && q >= queries)
                continue;
            if constexpr (!KEPT)
                own = load_pair(call, view, q);
            const uint32_t mine = (uint32_t)(claimed >> SELECTED * q) & 3;
            const uint32_t below = (1u << lane) - 1;
            uint32_t m = claims[q * BLOCK_WARPS_MAX + warp] +
                         __popc(__ballot_sync(EVERY_LANE, mine & 1) & below) +
                         __popc(__ballot_sync(EVERY_LANE, mine & 2) & below);
            for (int i = 0; i < SELECTED; i++) {
                if ((mine >> i & 1) == 0)
                    continue;
                const uint32_t row = (uint32_t)own.row[i];
                int32_t place;
                if (m < split.filled) {
                    const uint32_t slot = new_order[split.first_filled() + m];
                    const uint32_t old = view.slot_rows[slot];
                    if (old != NO_ROW)
                        view.slot_of_row[old] = NOT_CACHED;
                    view.slot_rows[slot] = row;
                    view.slot_of_row[row] = (uint16_t)slot;
                    rows.code(row) = (uint16_t)slot;
                    place = view.hot0 + (int32_t)slot;
                    placed += resolve_placed(slot, row);
                } else {
                    rows.code(row) = (uint16_t)(slots_max + (m - split.filled));
                    place = resolve_staged_place(args, view, m - split.filled);
                }
                view.missed[m] = row;
                view.missed_places[m] = place;
                m++;
            }
        }
        resolve_add(&counts.placed_hash, placed);
        __syncthreads();
    }

    /* Place. */
    const bool promoting = call.promote_by_count && missed_rows > split.filled;
    const resolve_scratch scratch = resolve_scratch_of(args, blockIdx.x);
    if (promoting) {
        scratch.clear_counts(slots_max, missed_rows - split.filled);
        __syncthreads();
    }
    uint32_t missed_selected = 0;
    int32_t *places =
        call.row_places + (size_t)view.first_query * call.top_k + threadIdx.x * SELECTED;
#pragma unroll(UNROLL)
    for (uint32_t q = 0; q < (KEPT ? QUERIES : queries); q++) {
        row_pair own = kept[KEPT ? q : 0];
        if (KEPT && q >= queries)
            continue;
        if constexpr (!KEPT)
            own = reload_pair(args, view, q);
#pragma unroll
        for (int i = 0; i < SELECTED; i++) {
            if (!is_row(own.row[i])) {
                own.row[i] = own.row[i] == KVT_GPU_NONE ? KVT_GPU_NONE : own.row[i] & INT32_MAX;
                continue;
            }
            const uint32_t code = rows.code((uint32_t)own.row[i]);
            own.row[i] = code < slots_max ? view.hot0 + (int32_t)code
                                          : resolve_staged_place(args, view, code - slots_max);
            if (missed_rows > 0) {
                missed_selected += code >= slots_max || (hits[code / 32] >> code % 32 & 1) == 0;
                if (promoting)
                    scratch.count(code);
            }
        }
        if (call.top_k % SELECTED == 0 && threadIdx.x * SELECTED < call.top_k) {
            *(int2 *)(places + q * call.top_k) = make_int2(own.row[0], own.row[1]);
        } else {
            for (uint32_t i = 0; i < SELECTED; i++) {
                if (threadIdx.x * SELECTED + i < call.top_k)
                    places[q * call.top_k + i] = own.row[i];
            }
        }
    }
    if (missed_rows > 0)
        add_count(&counts.missed_selected, missed_selected);
    uint32_t promoted_rows = 0;
    if (promoting) {
        uint64_t placed = 0;
        __syncthreads();
        promoted_rows = resolve_promote(args, view, scratch, slot_count, split.filled,
                                        missed_rows - split.filled, warp_totals, &placed);
        resolve_add(&counts.placed_hash, placed);
    }
    if (missed_rows > 0)
        __syncthreads();
    if (threadIdx.x == 0)
        call.counts[blockIdx.x] = {.union_rows =
                                       counts.tail_rows + counts.page_rows + hot_rows + missed_rows,
                                   .tail_rows = counts.tail_rows,
                                   .page_rows = counts.page_rows,
                                   .hot_rows = hot_rows,
                                   .filled_rows = split.filled,
                                   .staged_rows = missed_rows - split.filled,
                                   .selected = counts.selected,
                                   .tail_selected = counts.tail_selected,
                                   .page_selected = counts.page_selected,
                                   .hot_selected = counts.selected - counts.tail_selected -
                                                   counts.page_selected - counts.missed_selected,
                                   .missed_selected = counts.missed_selected,
                                   .promoted_rows = promoted_rows,
                                   .placed_hash = counts.placed_hash,
                                   .skipped = skipped,
                                   .wave = 0};
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

cudaError_t resolve_launch_many(const resolve_args &args, cudaStream_t stream, bool *fits)
{
    const struct kvt_gpu_resolve &call = args.call;

    *fits = many_layout<false>(call).bytes() <= SHARED_BYTES_MAX &&
            call.hot.slots_max <= THREADS * 16 && call.top_k <= THREADS * SELECTED;
    if (!*fits)
        return cudaSuccess;
    if (call.queries_max <= KEPT_QUERIES / 2)
        return launch_for<KEPT_QUERIES / 2>(args, stream);
    if (call.queries_max <= KEPT_QUERIES)
        return launch_for<KEPT_QUERIES>(args, stream);
    return launch_for<KVT_GPU_QUERIES_MAX>(args, stream);
}
