/* slot_order_avx512.c -- the two loops over an order, 32 slots of the order at a time.
 *
 * Which of 32 slots hit: hit_bits of up to 4,096 slots are eight registers, from which a
 * permutation takes each slot's 16 bits; more slots are gathered. Slots that belong
 * together then move to the front of a register and are stored whole: what is written
 * past them lies within the 32 just read, and the next store goes over it. */
#include "slot_order.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,"             \
                          "avx512vpopcntdq,avx2,bmi,bmi2,popcnt")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

enum {
    BLOCK_SLOTS = 32,
    TABLE_VECTORS = 8,
    TABLE_SLOTS = TABLE_VECTORS * 512
};

struct table {
    __m512i vectors[TABLE_VECTORS];
};

AVX512_INLINE struct table load_table(const uint64_t *hit_bits, uint32_t slot_count)
{
    struct table table;
    uint32_t words = (slot_count + 63) / 64;

    for (uint32_t i = 0; i < TABLE_VECTORS; i++) {
        uint32_t left = words > 8 * i ? words - 8 * i : 0;
        __mmask8 lanes = (__mmask8)_bzhi_u32(0xff, left);
        table.vectors[i] = _mm512_maskz_loadu_epi64(lanes, hit_bits + (lanes == 0 ? 0 : 8 * i));
    }
    return table;
}

/* Bit slot % 16 of the slot's 16 bits. */
AVX512_INLINE __mmask32 test_bits(__m512i bits, __m512i slots)
{
    __m512i places = _mm512_and_si512(slots, _mm512_set1_epi16(15));
    return _mm512_test_epi16_mask(bits, _mm512_sllv_epi16(_mm512_set1_epi16(1), places));
}

AVX512_INLINE __mmask32 hits_by_table(const struct table *table, __m512i slots)
{
    const __m512i *v = table->vectors;
    __m512i place = _mm512_srli_epi16(slots, 4); /* of 256; the instruction reads 6 bits */
    __mmask32 odd = _mm512_test_epi16_mask(slots, _mm512_set1_epi16(1 << 10));
    __mmask32 high = _mm512_test_epi16_mask(slots, _mm512_set1_epi16(1 << 11));
    __m512i low_bits = _mm512_mask_blend_epi16(odd, _mm512_permutex2var_epi16(v[0], place, v[1]),
                                               _mm512_permutex2var_epi16(v[2], place, v[3]));
    __m512i high_bits = _mm512_mask_blend_epi16(odd, _mm512_permutex2var_epi16(v[4], place, v[5]),
                                                _mm512_permutex2var_epi16(v[6], place, v[7]));

    return test_bits(_mm512_mask_blend_epi16(high, low_bits, high_bits), slots);
}

AVX512_INLINE __m256i gather_words(const uint64_t *hit_bits, __m128i slots)
{
    __m256i place = _mm256_srli_epi32(_mm256_cvtepu16_epi32(slots), 5);
    return _mm256_i32gather_epi32((const int *)hit_bits, place, sizeof(int));
}

/* Eight slots' words of 32 bits, of which the slot's half is shifted down. */
AVX512_INLINE __m128i gather_bits(const uint64_t *hit_bits, __m128i slots)
{
    __m256i shift = _mm256_and_si256(_mm256_cvtepu16_epi32(slots), _mm256_set1_epi32(16));
    return _mm256_cvtepi32_epi16(_mm256_srlv_epi32(gather_words(hit_bits, slots), shift));
}

AVX512_INLINE __mmask32 hits_by_gather(const uint64_t *hit_bits, __m512i slots)
{
    __m128i b0 = gather_bits(hit_bits, _mm512_extracti32x4_epi32(slots, 0));
    __m128i b1 = gather_bits(hit_bits, _mm512_extracti32x4_epi32(slots, 1));
    __m128i b2 = gather_bits(hit_bits, _mm512_extracti32x4_epi32(slots, 2));
    __m128i b3 = gather_bits(hit_bits, _mm512_extracti32x4_epi32(slots, 3));
    __m512i bits = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(b1, b0)),
                                      _mm256_set_m128i(b3, b2), 1);

    return test_bits(bits, slots);
}

AVX512_INLINE __mmask32 hits_of(const struct table *table, const uint64_t *hit_bits, bool is_small,
                                __m512i slots)
{
    return is_small ? hits_by_table(table, slots) : hits_by_gather(hit_bits, slots);
}

/* Stores the lanes' slots, widened, up to `room` of them; returns how many. */
AVX512_INLINE uint32_t store_wide(__mmask32 lanes, __m512i slots, uint32_t room, kvt_slot *out)
{
    __m512i packed = _mm512_maskz_compress_epi16(lanes, slots);
    uint32_t count = (uint32_t)_mm_popcnt_u32(lanes);
    count = count < room ? count : room;
    uint32_t stored = _bzhi_u32(UINT32_MAX, count);

    _mm512_mask_storeu_epi32(out, (__mmask16)stored,
                             _mm512_cvtepu16_epi32(_mm512_castsi512_si256(packed)));
    if (count > 16)
        _mm512_mask_storeu_epi32(out + 16, (__mmask16)(stored >> 16),
                                 _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(packed, 1)));
    return count;
}

AVX512_INLINE uint32_t oldest(const struct slot_order *order, const uint64_t *hit_bits,
                              bool is_small, uint32_t want, kvt_slot *victims)
{
    const struct table table = load_table(hit_bits, is_small ? order->slot_count : 0);
    uint32_t chosen = 0, at = 0;

    for (; at + BLOCK_SLOTS <= order->slot_count && chosen < want; at += BLOCK_SLOTS) {
        __m512i slots = _mm512_loadu_si512(order->slots + at);
        __mmask32 hits = hits_of(&table, hit_bits, is_small, slots);
        chosen += store_wide(~hits, slots, want - chosen, victims + chosen);
    }
    return chosen + slot_order_oldest_from(order, at, hit_bits, want - chosen, victims + chosen);
}

AVX512 uint32_t slot_order_oldest_avx512(const struct slot_order *order, const uint64_t *hit_bits,
                                         uint32_t want, kvt_slot *victims)
{
    return order->slot_count <= TABLE_SLOTS ? oldest(order, hit_bits, true, want, victims)
                                            : oldest(order, hit_bits, false, want, victims);
}

AVX512_INLINE void split_blocks(struct slot_order *order, const uint64_t *hit_bits, bool is_small,
                                struct slot_split *split)
{
    const struct table table = load_table(hit_bits, is_small ? order->slot_count : 0);
    uint32_t drop_count = split->drop_count, kept_count = 0, hit_count = 0, at = 0;
    uint16_t *restrict hit_slots = split->hits;

    for (; at + BLOCK_SLOTS <= order->slot_count; at += BLOCK_SLOTS) {
        __m512i slots = _mm512_loadu_si512(order->slots + at);
        __mmask32 hits = hits_of(&table, hit_bits, is_small, slots);
        /* The lowest drop_count of those that did not hit, or all of them. */
        __mmask32 dropped =
            _pdep_u32(_bzhi_u32(UINT32_MAX, drop_count < 32 ? drop_count : 32), ~hits);
        __mmask32 kept = ~hits & ~dropped;

        _mm512_storeu_si512(hit_slots + hit_count, _mm512_maskz_compress_epi16(hits, slots));
        _mm512_storeu_si512(order->slots + kept_count, _mm512_maskz_compress_epi16(kept, slots));
        hit_count += (uint32_t)_mm_popcnt_u32(hits);
        kept_count += (uint32_t)_mm_popcnt_u32(kept);
        drop_count -= (uint32_t)_mm_popcnt_u32(dropped);
    }
    *split = (struct slot_split){drop_count, kept_count, hit_count, hit_slots};
    slot_order_split_from(order, at, hit_bits, split);
}

AVX512 void slot_order_split_avx512(struct slot_order *order, const uint64_t *hit_bits,
                                    struct slot_split *split)
{
    if (order->slot_count <= TABLE_SLOTS)
        split_blocks(order, hit_bits, true, split);
    else
        split_blocks(order, hit_bits, false, split);
}

#else

uint32_t slot_order_oldest_avx512(const struct slot_order *order, const uint64_t *hit_bits,
                                  uint32_t want, kvt_slot *victims)
{
    return slot_order_oldest_from(order, 0, hit_bits, want, victims);
}

void slot_order_split_avx512(struct slot_order *order, const uint64_t *hit_bits,
                             struct slot_split *split)
{
    slot_order_split_from(order, 0, hit_bits, split);
}
#endif
