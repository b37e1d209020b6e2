/* resolve_promote.cuh -- which staged rows stay (sim/kv/promotion.c), and the scratch for it.
 *
 *     staged by falling count (equal: in miss order) s[0], s[1] ..
 *     slots by rising count (equal: by slot)         v[0], v[1] ..
 *     while count(s[i]) > count(v[i]): the row s[i] takes the slot v[i]
 *
 * Counts are at most K: one compaction a count lists each side in order. */
#ifndef KVT_RESOLVE_PROMOTE_CUH
#define KVT_RESOLVE_PROMOTE_CUH

#include "resolve.cuh"

/* A request's own part of the workspace, good for one call. */
struct resolve_scratch {
    uint32_t *row_bits;  /* [rows_max / 32 + 1] the union (resolve_reference.cu) */
    uint32_t *hits;      /* [slots_max / 32 + 1] (resolve_reference.cu) */
    uint32_t *counts;    /* [slots_max + queries_max * top_k] bytes: queries that select a row, by
                          * slot, then by staged row */
    uint16_t *new_order; /* [slots_max] (resolve_reference.cu) */
    uint16_t *staged;    /* [slots_max] staged rows by falling count */
    uint16_t *slots;     /* [slots_max] by rising count */

    __device__ __forceinline__ void clear_counts(uint32_t slots_max, uint32_t staged_rows) const
    {
        const uint32_t words = (slots_max + staged_rows) / 4 + 1;
        for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
            counts[i] = 0;
    }
    /* A selection of the row in this slot, or of staged row code - slots_max. */
    __device__ __forceinline__ void count(uint32_t code) const
    {
        atomicAdd(counts + code / 4, 1u << 8 * (code % 4));
    }
};

/* The least bytes of workspace; each array is rounded up to 16. */
static inline __host__ __device__ size_t resolve_scratch_layout(uint32_t queries_max,
                                                                uint32_t top_k, uint32_t slots_max,
                                                                uint32_t rows_max,
                                                                uint8_t *workspace,
                                                                resolve_scratch *scratch)
{
    const size_t staged_max = (size_t)queries_max * top_k;
    const size_t bytes[] = {((size_t)rows_max / 32 + 1) * 4, ((size_t)slots_max / 32 + 1) * 4,
                            slots_max + staged_max + 4,      (size_t)slots_max * 2,
                            (size_t)slots_max * 2,           (size_t)slots_max * 2};
    size_t at[7] = {0};

    for (int i = 0; i < 6; i++)
        at[i + 1] = at[i] + (bytes[i] + 15) / 16 * 16;
    scratch->row_bits = (uint32_t *)(workspace + at[0]);
    scratch->hits = (uint32_t *)(workspace + at[1]);
    scratch->counts = (uint32_t *)(workspace + at[2]);
    scratch->new_order = (uint16_t *)(workspace + at[3]);
    scratch->staged = (uint16_t *)(workspace + at[4]);
    scratch->slots = (uint16_t *)(workspace + at[5]);
    return at[6];
}

static __device__ __forceinline__ resolve_scratch resolve_scratch_of(const resolve_args &args,
                                                                     uint32_t index)
{
    const struct kvt_gpu_resolve &call = args.call;
    resolve_scratch scratch;
    const size_t bytes =
        resolve_scratch_layout(call.queries_max, call.top_k, call.hot.slots_max, call.hot.rows_max,
                               (uint8_t *)call.workspace, &scratch);

    (void)resolve_scratch_layout(call.queries_max, call.top_k, call.hot.slots_max,
                                 call.hot.rows_max, (uint8_t *)call.workspace + index * bytes,
                                 &scratch);
    return scratch;
}

/* Appends the indexes below item_count whose count this is, in their order, to list[listed..];
 * those that do not fit list_max are dropped. Returns how many are listed then. */
static __device__ uint32_t resolve_append(const uint8_t *counts, uint32_t item_count,
                                          uint32_t count, uint16_t *list, uint32_t listed,
                                          uint32_t list_max, uint32_t *warp_totals)
{
    const uint32_t span = (item_count + blockDim.x - 1) / blockDim.x;
    const uint32_t first = min(threadIdx.x * span, item_count);
    const uint32_t last = min(first + span, item_count);
    uint32_t mine = 0, all;

    for (uint32_t i = first; i < last; i++)
        mine += counts[i] == count;
    uint32_t to = listed + resolve_block_scan(mine, warp_totals, &all);
    for (uint32_t i = first; i < last && to < list_max; i++) {
        if (counts[i] == count)
            list[to++] = (uint16_t)i;
    }
    __syncthreads();
    return min(listed + all, list_max);
}

/* By all threads of a block, behind a barrier after the counts, the fills and the miss list are
 * there. Returns how many rows are promoted; adds the thread's terms of placed_hash. */
static __device__ uint32_t resolve_promote(const resolve_args &args, const resolve_view &view,
                                           const resolve_scratch &scratch, uint32_t slot_count,
                                           uint32_t filled_rows, uint32_t staged_rows,
                                           uint32_t *warp_totals, uint64_t *placed)
{
    const uint8_t *slot_counts = (const uint8_t *)scratch.counts;
    const uint8_t *staged_counts = slot_counts + args.call.hot.slots_max;
    const uint32_t pairs = min(staged_rows, slot_count);
    uint32_t listed = 0, higher = 0, promoted;

    for (uint32_t count = view.query_count; count > 0 && listed < pairs; count--)
        listed = resolve_append(staged_counts, staged_rows, count, scratch.staged, listed, pairs,
                                warp_totals);
    listed = 0;
    for (uint32_t count = 0; count <= view.query_count && listed < pairs; count++)
        listed = resolve_append(slot_counts, slot_count, count, scratch.slots, listed, pairs,
                                warp_totals);
    /* The one falls and the other rises, so that the pairs to promote are the first. */
    for (uint32_t i = threadIdx.x; i < pairs; i += blockDim.x)
        higher += staged_counts[scratch.staged[i]] > slot_counts[scratch.slots[i]];
    (void)resolve_block_scan(higher, warp_totals, &promoted);
    for (uint32_t i = threadIdx.x; i < promoted; i += blockDim.x) {
        const uint32_t m = filled_rows + scratch.staged[i], slot = scratch.slots[i];
        const uint32_t row = view.missed[m];
        resolve_put(view, slot, row);
        view.promoted[2 * i] = (uint32_t)view.missed_places[m];
        view.promoted[2 * i + 1] = (uint32_t)(view.hot0 + (int32_t)slot);
        *placed += resolve_placed(slot, row);
    }
    return promoted;
}

#endif
