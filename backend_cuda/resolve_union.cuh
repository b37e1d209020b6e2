/* resolve_union.cuh -- the rows that the queries of a call select, and what was found of each. */
#ifndef KVT_RESOLVE_UNION_CUH
#define KVT_RESOLVE_UNION_CUH

#include "resolve.cuh"

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

#endif
