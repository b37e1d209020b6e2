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
    SELECTED = 2,      /* rows a thread and query */
    GROUP_QUERIES = 4, /* at a time in registers */
    GROUP_ROWS = GROUP_QUERIES * SELECTED,
    KEPT_GROUPS = 2, /* that stay there from pass to pass */
    SHARED_BYTES_MAX = 222 * 1024,
    CLAIMED = 0xfffe /* code of a miss that has been taken into the union's order */
};

/* The union as a bitmap of rows with ranks: of each word's rows, how many of the union lie below
 * the word's first. NARROW words have 16 rows and their rank in one 32-bit word, so that a look-up
 * reads shared memory once; wide ones have 64 rows and their rank apart, in two fifths of the
 * space. */
template <bool NARROW> struct union_bitmap;

template <> struct union_bitmap<true> {
    enum {
        WORD_ROWS = 16,
        WORD_BYTES = 4
    };
    uint32_t *words;

    __device__ __forceinline__ bool add(uint32_t row)
    {
        const uint32_t bit = 1u << row % 16;
        return (atomicOr(words + row / 16, bit) & bit) == 0;
    }
    __device__ __forceinline__ uint32_t count(uint32_t word) const
    {
        return __popc(words[word]);
    }
    __device__ __forceinline__ void set_rank(uint32_t word, uint32_t rank)
    {
        words[word] |= rank << 16;
    }
    __device__ __forceinline__ uint32_t rank(uint32_t row) const
    {
        const uint32_t word = words[row / 16];
        return (word >> 16) + __popc(word & ((1u << row % 16) - 1));
    }
};

template <> struct union_bitmap<false> {
    enum {
        WORD_ROWS = 64,
        WORD_BYTES = 10
    };
    uint32_t *words; /* [2 * word_count], then the ranks */
    uint16_t *ranks;

    __device__ __forceinline__ bool add(uint32_t row)
    {
        const uint32_t bit = 1u << row % 32;
        return (atomicOr(words + row / 32, bit) & bit) == 0;
    }
    __device__ __forceinline__ uint32_t count(uint32_t word) const
    {
        return __popcll(((const uint64_t *)words)[word]);
    }
    __device__ __forceinline__ void set_rank(uint32_t word, uint32_t rank)
    {
        ranks[word] = (uint16_t)rank;
    }
    __device__ __forceinline__ uint32_t rank(uint32_t row) const
    {
        const uint64_t word = ((const uint64_t *)words)[row / 64];
        return ranks[row / 64] + __popcll(word & ((1ull << row % 64) - 1));
    }
};

/* Dynamic shared memory, in this order. */
template <bool NARROW> struct many_layout {
    uint32_t words;
    uint32_t bitmap_bytes, codes_bytes, order_bytes, hits_bytes;

    __host__ __device__ explicit many_layout(const struct kvt_gpu_resolve &call)
    {
        const uint32_t rows_max = call.hot.rows_max, selected = call.queries_max * call.top_k;

        words = rows_max / union_bitmap<NARROW>::WORD_ROWS + 1;
        bitmap_bytes = round_up(words * union_bitmap<NARROW>::WORD_BYTES);
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
    uint32_t selected, tail_selected, page_selected, hot_selected;
    uint32_t tail_rows, page_rows, missed_rows;
    unsigned long long placed_hash;
};

static __device__ __forceinline__ void add_count(uint32_t *count, uint32_t value)
{
    value = __reduce_add_sync(EVERY_LANE, value);
    if (threadIdx.x % WARP_THREADS == 0 && value != 0)
        atomicAdd(count, value);
}

/* A thread's rows of four queries. Row i is of query i / SELECTED. A row that needs no look-up
 * becomes its place with the sign set; KVT_GPU_NONE stays. */
struct row_group {
    int32_t rows[GROUP_ROWS];
};

static __device__ __forceinline__ bool is_row(int32_t row)
{
    return row >= 0;
}

static __device__ __forceinline__ int32_t resident(int32_t place)
{
    return place | INT32_MIN;
}

static __device__ __forceinline__ void load_group(const struct kvt_gpu_resolve &call,
                                                  const resolve_view &view, uint32_t first_query,
                                                  row_group &group)
{
    const uint32_t first = threadIdx.x * SELECTED;
    const bool paired = call.top_k % SELECTED == 0;

#pragma unroll
    for (uint32_t q = 0; q < GROUP_QUERIES; q++) {
        const int32_t *selection =
            call.selections + ((size_t)view.first_query + first_query + q) * call.top_k + first;
        int32_t *rows = group.rows + q * SELECTED;
        rows[0] = rows[1] = KVT_GPU_NONE;
        if (first_query + q >= view.query_count)
            continue;
        if (paired && first < call.top_k) {
            const int2 loaded = __ldg((const int2 *)selection);
            rows[0] = loaded.x;
            rows[1] = loaded.y;
        } else {
            if (first < call.top_k)
                rows[0] = __ldg(selection);
            if (first + 1 < call.top_k)
                rows[1] = __ldg(selection + 1);
        }
    }
}

/* Rows in the tail or in a frame become places; bits of both are returned. */
struct group_residents {
    uint32_t tail, page; /* bit i: row i */
};
static __device__ __forceinline__ group_residents find_residents(const resolve_args &args,
                                                                 const resolve_view &view,
                                                                 row_group &group)
{
    group_residents found = {0, 0};
    int32_t frames[GROUP_ROWS];

#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) {
        const int32_t row = group.rows[i];
        frames[i] = KVT_GPU_NONE;
        if (is_row(row) && view.frame_count > 0)
            frames[i] = resolve_frame_of(args, view, (uint32_t)row);
    }
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) {
        const int32_t row = group.rows[i];
        if (!is_row(row))
            continue;
        if ((uint32_t)row >= view.tail_first_row) {
            found.tail |= 1u << i;
            group.rows[i] = resident(resolve_tail_place(view, (uint32_t)row));
        } else if (frames[i] != KVT_GPU_NONE) {
            found.page |= 1u << i;
            group.rows[i] = resident(resolve_frame_place(args, frames[i], (uint32_t)row));
        }
    }
    return found;
}

/* Slots of rows that this thread has added to the union, as the map has them. */
static __device__ __forceinline__ void look_up(const resolve_view &view, uint32_t slot_count,
                                               const row_group &group, uint32_t added,
                                               uint16_t slots[GROUP_ROWS])
{
#pragma unroll
    for (int i = 0; i < GROUP_ROWS; i++) {
        slots[i] = NOT_CACHED;
        if ((added >> i & 1) != 0 && slot_count > 0)
            slots[i] = view.slot_of_row[group.rows[i]];
    }
}

/* GROUPS: of four queries; up to KEPT_GROUPS of them stay in registers, more are loaded again. */
template <int GROUPS, int ENTRIES, bool NARROW>
__global__ void __launch_bounds__(THREADS) resolve_many(const __grid_constant__ resolve_args args)
{
    constexpr bool KEPT = GROUPS <= KEPT_GROUPS;
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
    const uint32_t groups = KEPT ? GROUPS : (view.query_count + GROUP_QUERIES - 1) / GROUP_QUERIES;
    const bool whole = order_is_whole(call.hot);
    row_group group[KEPT ? GROUPS : 1];
    uint16_t slots[KEPT ? GROUPS : 1][GROUP_ROWS];
    uint64_t added = 0; /* bit g * GROUP_ROWS + i */
    order_part<ENTRIES> part;

#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    if constexpr (KEPT) {
#pragma unroll
        for (int g = 0; g < groups; g++)
            load_group(call, view, g * GROUP_QUERIES, group[g]);
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
#pragma unroll(KEPT ? GROUPS : 1)
    for (uint32_t g = 0; g < groups; g++) {
        row_group &own = group[KEPT ? g : 0];
        uint16_t *found = slots[KEPT ? g : 0];
        if constexpr (!KEPT)
            load_group(call, view, g * GROUP_QUERIES, own);
        uint32_t first = 0;
#pragma unroll
        for (int i = 0; i < GROUP_ROWS; i++) {
            if (!is_row(own.rows[i]))
                continue;
            selected++;
            first |= (uint32_t)rows.bitmap.add((uint32_t)own.rows[i]) << i;
        }
        const group_residents residents = find_residents(args, view, own);
        tail_selected += __popc(residents.tail);
        page_selected += __popc(residents.page);
        tail_rows += __popc(residents.tail & first);
        page_rows += __popc(residents.page & first);
        first &= ~(residents.tail | residents.page);
        added |= (uint64_t)first << g * GROUP_ROWS;
        look_up(view, slot_count, own, first, found);
#pragma unroll
        for (int i = 0; i < GROUP_ROWS; i++) {
            if ((first >> i & 1) == 0)
                continue;
            if (found[i] == NOT_CACHED)
                missed++;
            else
                atomicOr(hits + found[i] / 32, 1u << found[i] % 32);
        }
    }
    add_count(&counts.selected, selected);
    add_count(&counts.tail_selected, tail_selected);
    add_count(&counts.page_selected, page_selected);
    add_count(&counts.tail_rows, tail_rows);
    add_count(&counts.page_rows, page_rows);
    add_count(&counts.missed_rows, missed);
    __syncthreads();

    /* Scan. */
    const uint32_t span = (layout.words + THREADS - 1) / THREADS;
    const uint32_t first_word = threadIdx.x * span;
    const uint32_t last_word = min(first_word + span, layout.words);
    uint32_t in_words = 0, total;
    for (uint32_t w = first_word; w < last_word; w++)
        in_words += rows.bitmap.count(w);
    /* At most 2^16 rows in the union and 2^14 slots: both sums in one word. */
    const uint32_t unhit = order_look(part, hits, slot_count);
    const uint32_t both = resolve_block_scan(in_words << 15 | unhit, warp_totals, &total);
    uint32_t before = both >> 15;
    for (uint32_t w = first_word; w < last_word; w++) {
        const uint32_t count = rows.bitmap.count(w);
        rows.bitmap.set_rank(w, before);
        before += count;
    }
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
#pragma unroll(KEPT ? GROUPS : 1)
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t first = (uint32_t)(added >> g * GROUP_ROWS) & ((1u << GROUP_ROWS) - 1);
        row_group &own = group[KEPT ? g : 0];
        uint16_t *found = slots[KEPT ? g : 0];
        if constexpr (!KEPT) {
            load_group(call, view, g * GROUP_QUERIES, own);
            look_up(view, slot_count, own, first, found);
        }
#pragma unroll
        for (int i = 0; i < GROUP_ROWS; i++) {
            if ((first >> i & 1) != 0)
                rows.code((uint32_t)own.rows[i]) = found[i];
        }
    }
    __syncthreads();

    if (missed_rows > 0) {
        /* Claim: bit g * GROUP_ROWS + i of `claimed`, and how many of each query and warp. */
        uint64_t claimed = 0;
#pragma unroll(KEPT ? GROUPS : 1)
        for (uint32_t g = 0; g < groups; g++) {
            row_group &own = group[KEPT ? g : 0];
            if constexpr (!KEPT) {
                load_group(call, view, g * GROUP_QUERIES, own);
                (void)find_residents(args, view, own);
            }
#pragma unroll
            for (int q = 0; q < GROUP_QUERIES; q++) {
                uint32_t count = 0;
                for (int i = q * SELECTED; i < (q + 1) * SELECTED; i++) {
                    bool mine = false;
                    if (is_row(own.rows[i])) {
                        uint16_t &code = rows.code((uint32_t)own.rows[i]);
                        mine = code == NOT_CACHED;
                        if (mine)
                            code = CLAIMED;
                    }
                    claimed |= (uint64_t)mine << (g * GROUP_ROWS + i);
                    count += __popc(__ballot_sync(EVERY_LANE, mine));
                }
                if (lane == 0)
                    claims[(g * GROUP_QUERIES + q) * BLOCK_WARPS_MAX + warp] = count;
                __syncthreads();
            }
        }
        uint32_t all;
        const bool counted = threadIdx.x < groups * GROUP_QUERIES * BLOCK_WARPS_MAX;
        const uint32_t at =
            resolve_block_scan(counted ? claims[threadIdx.x] : 0, warp_totals, &all);
        claims[threadIdx.x] = at;
        __syncthreads();

        /* Fill. */
        uint64_t placed = 0;
#pragma unroll(KEPT ? GROUPS : 1)
        for (uint32_t g = 0; g < groups; g++) {
            row_group &own = group[KEPT ? g : 0];
            if constexpr (!KEPT)
                load_group(call, view, g * GROUP_QUERIES, own);
#pragma unroll
            for (int q = 0; q < GROUP_QUERIES; q++) {
                const uint32_t mine = (uint32_t)(claimed >> (g * GROUP_ROWS + q * SELECTED)) & 3;
                const uint32_t below = (1u << lane) - 1;
                uint32_t m = claims[(g * GROUP_QUERIES + q) * BLOCK_WARPS_MAX + warp] +
                             __popc(__ballot_sync(EVERY_LANE, mine & 1) & below) +
                             __popc(__ballot_sync(EVERY_LANE, mine & 2) & below);
                for (int i = 0; i < SELECTED; i++) {
                    if ((mine >> i & 1) == 0)
                        continue;
                    const uint32_t row = (uint32_t)own.rows[q * SELECTED + i];
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
    uint32_t hot_selected = 0;
#pragma unroll(KEPT ? GROUPS : 1)
    for (uint32_t g = 0; g < groups; g++) {
        row_group &own = group[KEPT ? g : 0];
        if constexpr (!KEPT) {
            load_group(call, view, g * GROUP_QUERIES, own);
            (void)find_residents(args, view, own);
        }
#pragma unroll
        for (int i = 0; i < GROUP_ROWS; i++) {
            if (own.rows[i] == KVT_GPU_NONE)
                continue;
            if (!is_row(own.rows[i])) {
                own.rows[i] &= INT32_MAX;
                continue;
            }
            const uint32_t code = rows.code((uint32_t)own.rows[i]);
            if (promoting)
                scratch.count(code);
            if (code < slots_max) {
                hot_selected += missed_rows == 0 || (hits[code / 32] >> code % 32 & 1) != 0;
                own.rows[i] = view.hot0 + (int32_t)code;
            } else {
                own.rows[i] = resolve_staged_place(args, view, code - slots_max);
            }
        }
        const uint32_t at = threadIdx.x * SELECTED;
#pragma unroll
        for (uint32_t q = 0; q < GROUP_QUERIES; q++) {
            if (g * GROUP_QUERIES + q >= view.query_count)
                break;
            int32_t *places = call.row_places +
                              ((size_t)view.first_query + g * GROUP_QUERIES + q) * call.top_k + at;
            const int32_t *from = own.rows + q * SELECTED;
            if (call.top_k % SELECTED == 0 && at < call.top_k) {
                *(int2 *)places = make_int2(from[0], from[1]);
            } else {
                if (at < call.top_k)
                    places[0] = from[0];
                if (at + 1 < call.top_k)
                    places[1] = from[1];
            }
        }
    }
    add_count(&counts.hot_selected, hot_selected);
    __syncthreads();
    uint32_t promoted_rows = 0;
    if (promoting) {
        uint64_t placed = 0;
        promoted_rows = resolve_promote(args, view, scratch, slot_count, split.filled,
                                        missed_rows - split.filled, warp_totals, &placed);
        resolve_add(&counts.placed_hash, placed);
        __syncthreads();
    }
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
                                   .hot_selected = counts.hot_selected,
                                   .missed_selected = counts.selected - counts.tail_selected -
                                                      counts.page_selected - counts.hot_selected,
                                   .promoted_rows = promoted_rows,
                                   .placed_hash = counts.placed_hash,
                                   .skipped = skipped,
                                   .wave = 0};
}

template <int GROUPS, int ENTRIES, bool NARROW>
static cudaError_t launch(const resolve_args &args, cudaStream_t stream)
{
    const uint32_t shared_bytes = many_layout<NARROW>(args.call).bytes();
    cudaError_t error =
        cudaFuncSetAttribute(resolve_many<GROUPS, ENTRIES, NARROW>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES_MAX);
    if (error != cudaSuccess)
        return error;
    resolve_many<GROUPS, ENTRIES, NARROW>
        <<<args.call.request_count, THREADS, shared_bytes, stream>>>(args);
    return cudaGetLastError();
}

/* Long contexts take the largest order, too: one kernel for all of them. */
template <int GROUPS> static cudaError_t launch_for(const resolve_args &args, cudaStream_t stream)
{
    if (many_layout<true>(args.call).bytes() > SHARED_BYTES_MAX)
        return launch<GROUPS, 16, false>(args, stream);
    if (args.call.hot.slots_max <= THREADS * 4)
        return launch<GROUPS, 4, true>(args, stream);
    if (args.call.hot.slots_max <= THREADS * 8)
        return launch<GROUPS, 8, true>(args, stream);
    return launch<GROUPS, 16, true>(args, stream);
}

cudaError_t resolve_launch_many(const resolve_args &args, cudaStream_t stream, bool *fits)
{
    const struct kvt_gpu_resolve &call = args.call;

    *fits = many_layout<false>(call).bytes() <= SHARED_BYTES_MAX &&
            call.hot.slots_max <= THREADS * 16 && call.top_k <= THREADS * SELECTED;
    if (!*fits)
        return cudaSuccess;
    if (call.queries_max <= GROUP_QUERIES)
        return launch_for<1>(args, stream);
    if (call.queries_max <= 2 * GROUP_QUERIES)
        return launch_for<2>(args, stream);
    return launch_for<KVT_GPU_QUERIES_MAX / GROUP_QUERIES>(args, stream);
}
