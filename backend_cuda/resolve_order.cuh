/* resolve_order.cuh -- batch LRU by one block: the order of the slots, split by who hit.
 *
 *     new order = [not used, in their old order] [filled, in miss order] [hit, in their old order]
 *
 * The m-th miss takes the m-th oldest slot that did not hit, so that an entry's new place follows
 * from one number: how many entries before it did not hit (policies/replacement/lru.c). */
#ifndef KVT_RESOLVE_ORDER_CUH
#define KVT_RESOLVE_ORDER_CUH

#include "resolve.cuh"

/* A thread's part of the order, entries [ENTRIES * thread, ENTRIES * (thread + 1)), two a word. */
template <int ENTRIES> struct order_part {
    uint32_t pairs[ENTRIES / 2];
    uint32_t unhit; /* bit e: entry e exists and its slot did not hit */

    __device__ __forceinline__ uint32_t slot(int entry) const
    {
        return pairs[entry / 2] >> 16 * (entry % 2) & 0xffff;
    }
};

/* Loads entries below slots_max: of those past the cache's slots, whatever stands there. whole:
 * slots_max and the order's address are multiples of 8 entries. */
template <int ENTRIES>
static __device__ __forceinline__ void order_load(order_part<ENTRIES> &part, const uint16_t *order,
                                                  uint32_t slots_max, bool whole)
{
    const uint32_t first = threadIdx.x * ENTRIES;

    if (whole) {
        constexpr int LOADED = ENTRIES < 8 ? ENTRIES : 8;
        for (int e = 0; e < ENTRIES; e += LOADED) {
            if (first + e >= slots_max)
                continue;
            if constexpr (LOADED == 8) {
                const uint4 loaded = *(const uint4 *)(order + first + e);
                part.pairs[e / 2] = loaded.x;
                part.pairs[e / 2 + 1] = loaded.y;
                part.pairs[e / 2 + 2] = loaded.z;
                part.pairs[e / 2 + 3] = loaded.w;
            } else {
                const uint2 loaded = *(const uint2 *)(order + first + e);
                part.pairs[e / 2] = loaded.x;
                part.pairs[e / 2 + 1] = loaded.y;
            }
        }
        return;
    }
    for (int e = 0; e < ENTRIES; e += 2) {
        uint32_t low = first + e < slots_max ? order[first + e] : 0;
        uint32_t high = first + e + 1 < slots_max ? order[first + e + 1] : 0;
        part.pairs[e / 2] = low | high << 16;
    }
}

/* hits: [slots / 32] words, a bit a slot. Returns how many of the thread's entries did not hit. */
template <int ENTRIES>
static __device__ __forceinline__ uint32_t order_look(order_part<ENTRIES> &part,
                                                      const uint32_t *hits, uint32_t slot_count)
{
    const uint32_t first = threadIdx.x * ENTRIES;

    part.unhit = 0;
#pragma unroll
    for (int e = 0; e < ENTRIES; e++) {
        const uint32_t slot = part.slot(e);
        if (first + e < slot_count && (hits[slot / 32] >> slot % 32 & 1) == 0)
            part.unhit |= 1u << e;
    }
    return __popc(part.unhit);
}

/* What all threads know once the entries that did not hit are counted. */
struct order_split {
    uint32_t slot_count;
    uint32_t unhit; /* entries in all that did not hit */
    uint32_t filled;

    /* Where the filled slots begin in the new order: victim m is entry first_filled() + m. */
    __device__ __forceinline__ uint32_t first_filled() const
    {
        return unhit - filled;
    }
    /* Nothing was looked up: the order stays as it is. */
    __device__ __forceinline__ bool skipped(uint32_t missed_rows) const
    {
        return unhit == slot_count && missed_rows == 0;
    }
};

/* unhit_before: entries of earlier threads that did not hit. new_order: in shared memory. */
template <int ENTRIES>
static __device__ __forceinline__ void order_place(const order_part<ENTRIES> &part,
                                                   const order_split &split, uint32_t unhit_before,
                                                   uint16_t *new_order)
{
    const uint32_t first = threadIdx.x * ENTRIES;
    uint32_t unhit = unhit_before, hit = split.unhit + first - unhit_before;

#pragma unroll
    for (int e = 0; e < ENTRIES; e++) {
        if (first + e >= split.slot_count)
            continue;
        uint32_t to;
        if (part.unhit >> e & 1) {
            to = unhit < split.filled ? split.first_filled() + unhit : unhit - split.filled;
            unhit++;
        } else {
            to = hit++;
        }
        new_order[to] = (uint16_t)part.slot(e);
    }
}

/* Behind a barrier after order_place(). Entries past slot_count are left as they are. */
static __device__ __forceinline__ void order_store(const uint16_t *new_order, uint32_t slot_count,
                                                   uint16_t *order, bool whole)
{
    const uint32_t vectors = whole ? slot_count / 8 : 0;

    for (uint32_t i = threadIdx.x; i < vectors; i += blockDim.x)
        ((uint4 *)order)[i] = ((const uint4 *)new_order)[i];
    for (uint32_t i = vectors * 8 + threadIdx.x; i < slot_count; i += blockDim.x)
        order[i] = new_order[i];
}

/* Whether orders of all lanes can be read and written eight entries at a time. */
static __device__ __forceinline__ bool order_is_whole(const struct kvt_gpu_hot &hot)
{
    return hot.slots_max % 8 == 0 && (size_t)hot.order % 16 == 0;
}

#endif
